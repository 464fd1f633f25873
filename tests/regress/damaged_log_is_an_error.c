/*
 * A bit flipped in the log at rest made SQLite take the log for shorter than it was: the store went back to an older head, fsck called it
 * sound, and a flushed checkpoint was gone. What was flushed, or committed before a clean close, must be there or be missed.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/boxes.h"

enum { HEADER = 32, FLIPS = 120 };

static void copy(const char *from, const char *to)
{
	char command[1500];
	(void)snprintf(command, sizeof(command), "rm -rf '%s' && cp -a '%s' '%s'", to, from, to);
	CHECK(system(command) == 0);
}

/* Gives the size of the log. */
static off_t flip(const char *folder, off_t at, unsigned bit)
{
	char file[700];
	struct stat st;
	uint8_t byte = 0;
	(void)snprintf(file, sizeof(file), "%s/cowbox.db-wal", folder);
	int fd = open(file, O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0 && fstat(fd, &st) == 0);
	if (at < st.st_size) {
		CHECK(pread(fd, &byte, 1, at) == 1);
		byte ^= (uint8_t)(1u << bit);
		CHECK(pwrite(fd, &byte, 1, at) == 1);
	}
	(void)close(fd);
	return st.st_size;
}

static void look(const char *folder, off_t at, bool read_only)
{
	cb_error err = {0};
	cb_store *s = NULL;
	cb_box *b = NULL;
	uint64_t complaints = 0;
	char *text = NULL;
	size_t size = 0;
	cb_code code = cb_store_open(folder, &CB_WITH(cb_store_options, .no_create = true, .read_only = read_only), &s, &err);
	if (code == CB_OK) code = cb_box_open(s, "demo@last", &b, &err);
	if (code == CB_OK) code = cb_read_file(b, "/work/f", &text, &size, &err);
	if (code == CB_OK) { /* then it must be right: the bit did not matter, or lay in what came after the last flush */
		CHECK(size == 7 && memcmp(text, "text 19", 7) == 0);
		CHECK_OK(cb_store_check(s, NULL, NULL, &complaints, &err));
		CHECK_U64(complaints, 0);
	} else {
		CHECK_MSG(code == CB_CORRUPT, "bit at %lld: %s: %s", (long long)at, cb_code_name(code), err.message);
	}
	cb_free(text);
	cb_box_close(b);
	cb_store_close(s);
}

static void fill(bool close_it)
{
	cb_error err = {0};
	cb_store *s = test_store_open(false);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	for (unsigned i = 0; i < 20; i++) {
		char text[16];
		(void)snprintf(text, sizeof(text), "text %u", i);
		must_write(b, "/work/f", text);
	}
	CHECK_OK(cb_checkpoint_save(b, "last", 0, false, &err));
	if (!close_it) return; /* as if killed: this process has it open, copies do not know */
	cb_box_close(b);
	cb_store_close(s);
}

static void flip_many(void)
{
	char folder[600];
	test_rng r = {test_seed() | 1};
	(void)snprintf(folder, sizeof(folder), "%s/flipped", test_tmpdir());
	/* Its header byte by byte, which draws nothing but the bit, then anywhere. */
	unsigned header = test_only_random() ? 0 : HEADER;
	for (unsigned i = 0; i < header + test_dose(FLIPS); i++) {
		copy(test_store_path(), folder);
		off_t size = flip(folder, INT32_MAX, 0);
		CHECK(size > 0);
		/* Headers of log and frames, and anywhere. */
		off_t at = i < header ? i : (off_t)test_rand_below(&r, (uint64_t)size);
		(void)flip(folder, at, (unsigned)test_rand_below(&r, 8));
		look(folder, at, i % 4 == 3);
		look(folder, at, false); /* the first look took nothing away */
	}
}

TEST(damaged_log_after_a_close)
{
	fill(true);
	flip_many();
}

TEST(damaged_log_after_a_checkpoint)
{
	fill(false);
	flip_many();
}
