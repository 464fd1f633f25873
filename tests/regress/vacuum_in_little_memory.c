/* A vacuum had its copy of the database in memory: who had less than the database has could never shrink it. */
#include "harness/boxes.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES = 1500, FILE_BYTES = 60000 }; /* in the database: 90 MB */

/* Of /proc/self/status, in bytes. */
static uint64_t memory_of(const char *key)
{
	char line[256];
	uint64_t found = 0;
	FILE *f = fopen("/proc/self/status", "r");
	CHECK(f != NULL);
	while (fgets(line, sizeof(line), f))
		if (strncmp(line, key, strlen(key)) == 0) found = strtoull(line + strlen(key), NULL, 10) << 10;
	(void)fclose(f);
	return found;
}

static void forget_peak(void)
{
	int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, "5", 1) != 1) test_skip("the peak of memory cannot be set back");
	(void)close(fd);
}

TEST(a_vacuum_takes_little_memory)
{
	cb_error err = {0};
	cb_box *b = NULL;
	char path[4200], *bytes = malloc(FILE_BYTES);
	struct stat st;
	cb_store *s = test_store_open(false);
	CHECK(bytes != NULL);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	cb_box *t = must_begin(b);
	for (int i = 0; i < FILES; i++) {
		(void)snprintf(path, sizeof(path), "/work/%d", i);
		memset(bytes, i, FILE_BYTES);
		CHECK_OK(cb_write_file(t, path, bytes, FILE_BYTES, NULL, &err));
	}
	(void)must_commit(t);
	free(bytes);
	cb_box_close(b);
	CHECK_OK(cb_store_vacuum(s, &err)); /* what is taken once is taken */
	forget_peak();
	uint64_t before = memory_of("VmRSS:");
	CHECK_OK(cb_store_vacuum(s, &err));
	uint64_t taken = memory_of("VmHWM:") - before;
	(void)snprintf(path, sizeof(path), "%s/cowbox.db", test_store_path());
	CHECK(stat(path, &st) == 0);
	test_note("%llu KiB more, of a database of %llu KiB", (unsigned long long)(taken >> 10),
	          (unsigned long long)(st.st_size >> 10));
#ifndef __SANITIZE_ADDRESS__ /* which keeps what was freed */
	CHECK(taken < (uint64_t)st.st_size / 2);
#endif
	(void)snprintf(path, sizeof(path), "%s/vacuum.tmp", test_store_path());
	CHECK(access(path, F_OK) != 0);
	test_store_sound(s);
	cb_store_close(s);
}
