/* live.c: mapping the shared counters; see live.h. */
#include "store/live.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/buf.h"
#include "base/hash.h"

static const char name[] = "live";
static const uint64_t live_magic = 0x31304c57434f4257u;

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "counters shared by processes need lock-free atomics");

static bool is_sound(const live_map *m)
{
	return m->magic == live_magic && m->size == sizeof *m;
}

/* Stamps start at the time so that those remembered from an earlier file never match; 0 is never a stamp. */
static void fill(live_map *m)
{
	struct timespec now;
	(void)clock_gettime(CLOCK_REALTIME, &now);
	uint64_t start = ((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec) & ~(uint64_t)1;
	for (size_t i = 0; i < LIVE_SLOTS; i++) atomic_init(&m->slot[i], start);
	m->size = sizeof *m;
	m->magic = live_magic;
}

static cb_code open_sized(const io_folder *in, bool read_only, int *out, cb_error *err)
{
	struct stat st;
	AUTO_FD int fd = -1;
	CB_TRY(io_file_open(in, name, read_only ? O_RDONLY : O_RDWR | O_CREAT, &fd, err));
	if (fstat(fd, &st) != 0) return cb_err_errno(err, errno, "'%s/%s'", in->path, name);
	if (st.st_size < (off_t)sizeof(live_map)) {
		/* Only ever longer: shortening it would kill whoever has it mapped. */
		io_bounded bounded = io_bounded_begin();
		int error = read_only ? EINVAL : posix_fallocate(fd, 0, (off_t)sizeof(live_map));
		io_bounded_end(&bounded);
		if (error) return cb_err_errno(err, error, "'%s/%s'", in->path, name);
	}
	*out = TAKE_FD(fd);
	return CB_OK;
}

cb_code live_open(live *l, const io_folder *in, bool read_only, cb_error *err)
{
	*l = (live){NULL, !read_only, true};
	AUTO_FD int fd = -1;
	cb_error why;
	cb_code code = open_sized(in, read_only, &fd, cb_err_aside(&why));
	void *p = MAP_FAILED;
	if (code == CB_OK) p = mmap(NULL, sizeof(live_map), PROT_READ | (read_only ? 0 : PROT_WRITE), MAP_SHARED, fd, 0);
	if (code == CB_OK && p == MAP_FAILED) code = cb_err_errno(&why, errno, "'%s/%s'", in->path, name);
	/* A reader can do without; a writer cannot: others would go on believing what they know. */
	if (code != CB_OK) return read_only ? CB_OK : cb_err_pass(err, code, &why);
	live_map *m = p;
	if (!is_sound(m)) {
		if (read_only) {
			(void)munmap(p, sizeof *m);
			return CB_OK;
		}
		fill(m);
	}
	l->map = m;
	return CB_OK;
}

cb_code live_open_memory(live *l, cb_error *err)
{
	*l = (live){mem_alloc_aligned(sizeof(live_map)), true, false};
	if (!l->map) return cb_err_nomem(err);
	memset(l->map, 0, sizeof *l->map);
	fill(l->map);
	return CB_OK;
}

void live_close(live *l)
{
	if (l->map && l->shared) (void)munmap(l->map, sizeof *l->map);
	if (l->map && !l->shared) free(l->map);
	l->map = NULL;
}

void live_settle(live *l)
{
	live_map *m = l->map;
	if (!m || atomic_load(&m->writing) == 0) return;
	for (size_t i = 0; i < LIVE_SLOTS; i++) {
		uint64_t v = atomic_load(&m->slot[i]);
		if (v & 1) atomic_store(&m->slot[i], v + 1);
	}
	atomic_store(&m->writing, 0);
}

/* The state is that of the position beside it. */
static uint64_t state_sum(live_promise p)
{
	return hash_u64(p.next_state ^ hash_u64(p.position));
}

live_promise live_promised(const live *l)
{
	live_promise p = {0};
	if (!l->map) return p;
	p.position = atomic_load(&l->map->promised);
	if (atomic_load(&l->map->promised_sum) != hash_u64(p.position)) return (live_promise){0};
	p.next_state = atomic_load(&l->map->promised_state);
	if (atomic_load(&l->map->promised_state_sum) != state_sum(p)) p.next_state = 0;
	return p;
}

/* Two at once may leave a sum that is wrong: then nothing is known until the next. */
void live_promise_set(live *l, live_promise flushed)
{
	if (!l->map || !l->writable || flushed.position == 0) return;
	live_promise known = live_promised(l);
	if (known.position >> 32 == flushed.position >> 32 && known.position >= flushed.position && known.next_state) return;
	atomic_store(&l->map->promised, flushed.position);
	atomic_store(&l->map->promised_sum, hash_u64(flushed.position));
	atomic_store(&l->map->promised_state, flushed.next_state);
	atomic_store(&l->map->promised_state_sum, state_sum(flushed));
}

void live_wait(live *l, _Atomic uint32_t *word, uint32_t seen, int64_t timeout_us)
{
	struct timespec t = {timeout_us / 1000000, (timeout_us % 1000000) * 1000};
	if (l->map && l->writable) {
		(void)syscall(SYS_futex, word, FUTEX_WAIT, seen, &t, NULL, 0);
	} else {
		(void)nanosleep(&t, NULL);
	}
}

void live_wake(live *l, _Atomic uint32_t *word, int count)
{
	if (!l->map || !l->writable) return;
	(void)atomic_fetch_add(word, 1);
	(void)syscall(SYS_futex, word, FUTEX_WAKE, count, NULL, NULL, 0);
}
