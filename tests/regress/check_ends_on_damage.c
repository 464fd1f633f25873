/*
 * With an interior page of a table's tree in the place of a leaf, SQLite gives rows again and again: fsck went round for ever, and a gc
 * would have. Numbers that do not ascend are damage.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/boxes.h"

enum { PAGE = 4096, FILES = 1500, COPIES = 24 };

static uint8_t *pages;
static size_t page_count;

static void load(const char *file)
{
	struct stat st;
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0 && fstat(fd, &st) == 0);
	page_count = (size_t)st.st_size / PAGE;
	pages = test_keep(malloc(page_count * PAGE));
	CHECK(pages && read(fd, pages, page_count * PAGE) == (ssize_t)(page_count * PAGE));
	(void)close(fd);
}

/* 5: an interior page of a table, 13: a leaf of one. */
static size_t pick_page(test_rng *r, uint8_t kind)
{
	for (;;) {
		size_t i = 1 + (size_t)test_rand_below(r, page_count - 1);
		if (pages[i * PAGE] == kind) return i;
	}
}

static void look(const char *folder)
{
	cb_error err = {0};
	cb_store *s = NULL;
	uint64_t complaints = 0;
	cb_code code = cb_store_open(folder, NULL, &s, &err);
	if (code != CB_OK) {
		CHECK_CODE(code, CB_CORRUPT);
		return;
	}
	code = cb_store_check(s, NULL, NULL, &complaints, &err);
	CHECK_MSG(code == CB_OK || code == CB_CORRUPT, "fsck: %s", err.message);
	CHECK(code != CB_OK || complaints > 0);
	code = cb_store_gc(s, NULL, &err);
	CHECK_MSG(code == CB_OK || code == CB_CORRUPT || code == CB_STALE, "gc: %s", err.message);
	cb_store_close(s);
}

TEST_LIMIT(check_ends_on_damage, 120)
{
	char folder[512], file[600];
	cb_error err = {0};
	cb_store *s = test_store_open(false);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	for (unsigned i = 0; i < FILES; i++) {
		char path[64], text[600];
		(void)snprintf(path, sizeof(path), "/work/f%u", i);
		memset(text, 'a' + (int)(i % 26), sizeof(text));
		CHECK_OK(cb_write_file(b, path, text, sizeof(text), NULL, &err));
	}
	cb_box_close(b);
	CHECK_OK(cb_store_vacuum(s, &err)); /* folds the log */
	cb_store_close(s);
	(void)snprintf(file, sizeof(file), "%s/cowbox.db", test_store_path());
	load(file);
	test_rng r = {test_seed() | 1};
	for (unsigned copy = 0; copy < test_dose(COPIES); copy++) {
		(void)snprintf(folder, sizeof(folder), "%s/copy%u", test_tmpdir(), copy);
		CHECK(mkdir(folder, 0700) == 0);
		(void)snprintf(file, sizeof(file), "%s/cowbox.db", folder);
		int fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		CHECK(fd >= 0 && write(fd, pages, page_count * PAGE) == (ssize_t)(page_count * PAGE));
		for (unsigned places = 1 + copy % 3; places > 0; places--) {
			const uint8_t *from = pages + pick_page(&r, 5) * PAGE;
			CHECK(pwrite(fd, from, PAGE, (off_t)(pick_page(&r, 13) * PAGE)) == PAGE);
		}
		(void)close(fd);
		look(folder);
	}
}
