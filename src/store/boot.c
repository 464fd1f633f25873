/* boot.c: see boot.h. */
#include "store/boot.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"

enum {
	TRIES = 5,
	/* Two looks at the same boot differ by what passes between reading two clocks; two boots by the time a machine takes to boot. */
	TOLERANCE_MS = 50,
};

/* A machine without a clock of its own begins each boot at the same moment, 1970 or that of a file: until somebody sets the clock its
 * boots cannot be told apart by it. (2020-01-01) */
static const int64_t plausible_ms = 1577836800000;

static int64_t clock_us(clockid_t which)
{
	struct timespec t = {0};
	return clock_gettime(which, &t) == 0 ? (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000 : 0;
}

/* The closest of some pairs of readings: between the two of a pair the process may have to wait for the processor. */
static void clock_text(char out[BOOT_TEXT_BYTES])
{
	int64_t closest = INT64_MAX, moment_ms = 0, uptime_ms = 0;
	for (int i = 0; i < TRIES && closest > 1000; i++) {
		int64_t before = clock_us(CLOCK_BOOTTIME), now = clock_us(CLOCK_REALTIME), after = clock_us(CLOCK_BOOTTIME);
		if (before == 0 || now == 0 || after - before >= closest) continue;
		closest = after - before;
		moment_ms = (now - before) / 1000;
		uptime_ms = before / 1000;
	}
	out[0] = 0;
	if (moment_ms >= plausible_ms) (void)snprintf(out, BOOT_TEXT_BYTES, "%" PRId64 " %" PRId64, moment_ms, uptime_ms);
}

void boot_now(boot *out)
{
	(void)io_text_read(AT_FDCWD, "/proc/sys/kernel/random/boot_id", out->id, BOOT_TEXT_BYTES);
	out->id[strcspn(out->id, "\n")] = 0;
	clock_text(out->clock);
}

bool boot_is_same(const boot *known, const boot *now)
{
	if (known->id[0] && now->id[0]) return strcmp(known->id, now->id) == 0;
	int64_t then_moment, then_uptime, moment, uptime;
	if (sscanf(known->clock, "%" SCNd64 " %" SCNd64, &then_moment, &then_uptime) != 2) return false;
	if (sscanf(now->clock, "%" SCNd64 " %" SCNd64, &moment, &uptime) != 2) return false;
	int64_t apart;
	if (__builtin_sub_overflow(moment, then_moment, &apart)) return false;
	return apart >= -TOLERANCE_MS && apart <= TOLERANCE_MS && uptime >= then_uptime;
}
