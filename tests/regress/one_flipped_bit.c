/*
 * One flipped bit in a page of the database that says how many cells it has, or where others are, made boxes, steps, checkpoints and
 * key-values vanish without an error, and a gc then removed for good what they held. Pages have sums now: whatever bit flips, a call gives
 * the right data or CB_CORRUPT, and a gc of a store that is damaged removes nothing that is needed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/boxes.h"
#include "harness/sql.h"

enum {
	PAGE = 4096,
	FILES = 40,
	TEXT_MAX = 1 << 16,
	RANDOM_FLIPS = 60,
	LARGE = 100000, /* lies in a segment */
};

typedef struct answers {
	cb_code code;        /* of the first call that failed */
	char why[512];       /* its message */
	char text[TEXT_MAX]; /* what was answered, up to there */
	size_t size;
} answers;

/* ---- the store ---- */

static void store_make(void)
{
	cb_error err = {0};
	cb_store *s = test_store_open(false);
	cb_box *b = NULL;
	char path[64], text[1200];
	static char large[LARGE];
	memset(large, 'L', sizeof(large));
	for (int n = 0; n < 3; n++) {
		(void)snprintf(path, sizeof(path), "box%d", n);
		CHECK_OK(cb_box_create(s, path, &b, &err));
		for (int i = 0; i < FILES; i++) {
			(void)snprintf(path, sizeof(path), "/work/f%d", i);
			(void)snprintf(text, sizeof(text), "%0*d", 20 + 28 * i, n * FILES + i);
			must_write(b, path, text);
		}
		/* So many that there is a row of files that were touched. */
		for (int i = 0; n == 0 && i < 4 * FILES; i++) {
			(void)snprintf(path, sizeof(path), "/work/f%d", i % FILES);
			(void)snprintf(text, sizeof(text), "text %d", i);
			must_write(b, path, text);
		}
		CHECK_OK(cb_write_file(b, "/work/large", large, sizeof(large), NULL, &err));
		CHECK_OK(cb_kv_set(b, "key", "value", 5, &err));
		CHECK_OK(cb_checkpoint_save(b, "early", 3, true, &err));
		CHECK_OK(cb_checkpoint_save(b, "late", must_seq(b), true, &err));
		cb_box_close(b);
	}
	cb_box *fork = must_fork(s, "box1@20", "fork");
	must_write(fork, "/work/own", "of the fork");
	cb_box_close(fork);
	CHECK_OK(cb_box_create(s, "dead", &b, &err)); /* what a gc may remove */
	CHECK_OK(cb_write_file(b, "/work/x", large, 5000, NULL, &err));
	cb_box_close(b);
	CHECK_OK(cb_box_delete(s, "dead", &err));
	cb_store_close(s);
}

/* ---- all it answers ---- */

static void add(answers *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(answers *a, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	int n = vsnprintf(a->text + a->size, sizeof(a->text) - a->size, format, args);
	va_end(args);
	CHECK(n >= 0 && (size_t)n < sizeof(a->text) - a->size);
	a->size += (size_t)n;
}

static cb_code failed(answers *a, cb_code code, const cb_error *err)
{
	if (a->code == CB_OK) {
		a->code = code;
		(void)snprintf(a->why, sizeof(a->why), "%s", err->message);
	}
	return code;
}

static cb_code add_box(void *context, const cb_box_info *info, cb_error *err)
{
	(void)err;
	add(context, "box %s %llu\n", info->name, (unsigned long long)info->seq);
	return CB_OK;
}

static cb_code add_step(void *context, const cb_step *step, cb_error *err)
{
	(void)err;
	add(context, "step %llu %s\n", (unsigned long long)step->seq, step->kind);
	return CB_OK;
}

static cb_code add_checkpoint(void *context, const cb_checkpoint *c, cb_error *err)
{
	(void)err;
	add(context, "checkpoint %s %llu\n", c->name, (unsigned long long)c->seq);
	return CB_OK;
}

static uint64_t mix(const char *bytes, size_t size)
{
	uint64_t x = 14695981039346656037u;
	for (size_t i = 0; i < size; i++) x = (x ^ (uint8_t)bytes[i]) * 1099511628211u;
	return x;
}

static void add_file(answers *a, cb_box *b, const char *path)
{
	cb_error err = {0};
	char *bytes = NULL;
	size_t size = 0;
	cb_code code = cb_read_file(b, path, &bytes, &size, &err);
	if (code != CB_OK) (void)failed(a, code, &err);
	else add(a, "%s %llx\n", path, (unsigned long long)mix(bytes, size));
	cb_free(bytes);
}

static void ask_box(answers *a, cb_box *b)
{
	cb_error err = {0};
	char path[64], *value = NULL;
	size_t size = 0;
	bool pruned = false;
	for (int i = 0; i < FILES && a->code == CB_OK; i += 3) {
		(void)snprintf(path, sizeof(path), "/work/f%d", i);
		add_file(a, b, path);
	}
	if (a->code == CB_OK) add_file(a, b, "/work/large");
	cb_code code = a->code != CB_OK ? a->code : cb_log(b, NULL, add_step, a, &pruned, &err);
	if (code == CB_OK) CHECK_MSG(!pruned, "damage is told as steps that were pruned");
	if (code == CB_OK) code = cb_log(b, &CB_WITH(cb_log_options, .path = "/work/f3"), add_step, a, &pruned, &err);
	if (code == CB_OK) code = cb_checkpoint_list(b, add_checkpoint, a, &err);
	if (code == CB_OK) code = cb_kv_get(b, "key", &value, &size, &err);
	if (code != CB_OK) (void)failed(a, code, &err);
	else add(a, "key %.*s\n", (int)size, value);
	cb_free(value);
}

static const char *const names[] = {"box0", "box1", "box2", "box0@late", "box1@early", "box2@7"};

/* Each part stands alone: one that fails says nothing of the next. */
static void ask_part(cb_store *s, size_t part, answers *a)
{
	cb_error err = {0};
	cb_box *b = NULL;
	*a = (answers){0};
	cb_code code;
	if (part == 0) {
		code = cb_box_list(s, add_box, a, &err);
		if (code != CB_OK) (void)failed(a, code, &err);
		return;
	}
	code = cb_box_open(s, part <= 6 ? names[part - 1] : "fork", &b, &err);
	if (code != CB_OK) {
		(void)failed(a, code, &err);
		return;
	}
	if (part <= 3) ask_box(a, b);
	else if (part == 7) add_file(a, b, "/work/own");
	else add_file(a, b, part == 5 ? "/work/f1" : "/work/f2");
	cb_box_close(b);
}

enum { PARTS = 8 };
static answers right[PARTS], got;

static void judge(cb_store *s, const char *what)
{
	for (size_t i = 0; i < PARTS; i++) {
		ask_part(s, i, &got);
		CHECK_MSG(got.code == CB_OK || got.code == CB_CORRUPT, "%s, part %zu: %s: %s", what, i, cb_code_name(got.code),
		          got.why);
		CHECK_MSG(got.code != CB_OK || strcmp(got.text, right[i].text) == 0, "%s, part %zu: another answer:\n%.300s", what,
		          i, got.text);
		CHECK_MSG(strncmp(got.text, right[i].text, got.size) == 0, "%s, part %zu: another beginning", what, i);
	}
}

/* ---- flipping ---- */

static void flip(const char *file, off_t at, unsigned bit)
{
	int fd = open(file, O_RDWR | O_CLOEXEC);
	uint8_t byte;
	CHECK(fd >= 0 && pread(fd, &byte, 1, at) == 1);
	byte = (uint8_t)(byte ^ 1u << bit);
	CHECK(pwrite(fd, &byte, 1, at) == 1);
	(void)close(fd);
}

static void shell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void shell(const char *format, ...)
{
	char command[4000];
	va_list args;
	va_start(args, format);
	(void)vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	CHECK_MSG(system(command) == 0, "%s", command);
}

static char clean[600], trial[600], database[700];

static void begin(void)
{
	cb_error err = {0};
	store_make();
	(void)snprintf(clean, sizeof(clean), "%s", test_store_path());
	(void)snprintf(trial, sizeof(trial), "%s/trial", test_tmpdir());
	(void)snprintf(database, sizeof(database), "%s/cowbox.db", trial);
	cb_store *s = test_store_reopen();
	for (size_t i = 0; i < PARTS; i++) {
		ask_part(s, i, &right[i]);
		CHECK_MSG(right[i].code == CB_OK, "part %zu: %s", i, right[i].why);
	}
	cb_store_stats stats = CB_INIT(cb_store_stats);
	CHECK_OK(cb_store_stats_get(s, &stats, &err));
	CHECK(stats.page_sums);
	cb_store_close(s);
}

/* Everything into the database file, nothing in the log. */
static void fold(void)
{
	char file[700];
	(void)snprintf(file, sizeof(file), "%s/cowbox.db", clean);
	sqlite3 *db = test_sql_open(file);
	CHECK(sqlite3_exec(db, "PRAGMA wal_checkpoint(TRUNCATE)", NULL, NULL, NULL) == SQLITE_OK);
	(void)sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	CHECK(sqlite3_close(db) == SQLITE_OK);
}

static void fresh(void)
{
	shell("rm -rf '%s' '%s-copy'; cp -a '%s' '%s'", trial, trial, clean, trial);
}

static size_t pages_of(const char *file)
{
	struct stat st;
	CHECK(stat(file, &st) == 0);
	return (size_t)st.st_size / PAGE;
}

/* Read, then gc, then the bit back: nothing is lost. */
static void one_flip(off_t at, unsigned bit)
{
	cb_error err = {0};
	cb_store *s = NULL;
	char what[100], copy[700];
	(void)snprintf(what, sizeof(what), "byte %lld (page %lld, %lld), bit %u", (long long)at, (long long)(at / PAGE + 1),
	               (long long)(at % PAGE), bit);
	(void)snprintf(copy, sizeof(copy), "%s-copy", trial);
	fresh();
	flip(database, at, bit);
	cb_code code = cb_store_open(trial, NULL, &s, &err);
	CHECK_MSG(code == CB_OK || code == CB_CORRUPT, "%s: %s: %s", what, cb_code_name(code), err.message);
	bool damaged = code == CB_CORRUPT;
	if (code == CB_OK) {
		judge(s, what);
		uint64_t complaints = 0;
		code = cb_store_check(s, NULL, NULL, &complaints, &err);
		CHECK_MSG(code == CB_CORRUPT || complaints > 0, "%s: fsck finds nothing", what);
		code = cb_store_backup(s, copy, &err);
		CHECK_MSG(code == CB_CORRUPT, "%s: a backup of it: %s", what, cb_code_name(code));
		CHECK_MSG(access(copy, F_OK) != 0 && errno == ENOENT, "%s: and it is there", what);
		code = cb_store_gc(s, NULL, &err);
		CHECK_MSG(code == CB_OK || code == CB_CORRUPT, "%s: gc: %s: %s", what, cb_code_name(code), err.message);
		cb_store_close(s);
	}
	/* Where a gc has written the page anew the flip would now do harm; that it could means that it needed nothing of the page. */
	if (damaged || code == CB_CORRUPT) {
		flip(database, at, bit);
		CHECK_OK(cb_store_open(trial, NULL, &s, &err));
		for (size_t i = 0; i < PARTS; i++) {
			ask_part(s, i, &got);
			CHECK_MSG(got.code == CB_OK && strcmp(got.text, right[i].text) == 0, "%s: lost by a gc, part %zu: %s", what,
			          i, got.why);
		}
		test_store_sound(s);
		cb_store_close(s);
	}
}

/* The header of every page: its kind, its count of cells, where they begin. */
TEST_LIMIT(in_page_headers, 300)
{
	static const int places[] = {0, 3, 4, 6};
	test_rng r = {test_seed() | 1};
	begin();
	fold();
	char file[700];
	(void)snprintf(file, sizeof(file), "%s/cowbox.db", clean);
	size_t pages = pages_of(file);
	CHECK(pages > 40);
	size_t stride = test_soak() > 1 ? 1 : 24; /* every page, in 24 runs or so */
	for (size_t p = (size_t)test_rand_below(&r, stride); p < pages; p += stride) {
		off_t at = (off_t)(p * PAGE) + (p == 0 ? 100 : 0);
		/* Bits of the low byte of the count are the ones that make rows vanish. */
		one_flip(at + places[p / stride % 4], (unsigned)test_rand_below(&r, 8));
		one_flip(at + 4, (unsigned)test_rand_below(&r, 6));
	}
}

TEST_LIMIT(anywhere, 300)
{
	test_rng r = {test_seed() | 1};
	begin();
	fold();
	char file[700];
	(void)snprintf(file, sizeof(file), "%s/cowbox.db", clean);
	size_t pages = pages_of(file);
	for (unsigned i = 0; i < test_dose(RANDOM_FLIPS); i++)
		one_flip((off_t)test_rand_below(&r, pages * PAGE), (unsigned)test_rand_below(&r, 8));
}

/* The header of the file, bit by bit: among them the one that says that there are sums. */
TEST_LIMIT(in_the_first_bytes, 300)
{
	begin();
	fold();
	for (off_t at = 0; at < 100; at += at < 24 ? 1 : 3) one_flip(at, (unsigned)at % 8);
	for (unsigned bit = 0; bit < 8; bit++) one_flip(20, bit);
}

/* Handles that are open: what they know stays right, and what they read anew is right or an error. */
TEST_LIMIT(under_open_handles, 300)
{
	cb_error err = {0};
	test_rng r = {test_seed() | 1};
	begin();
	fold();
	for (unsigned i = 0; i < test_dose(RANDOM_FLIPS); i++) {
		cb_store *s = NULL;
		char what[100];
		fresh();
		CHECK_OK(cb_store_open(trial, &CB_WITH(cb_store_options, .cache_bytes = i % 2 ? 4096 : 0), &s, &err));
		if (i % 3) {
			ask_part(s, i % PARTS, &got);
			CHECK(got.code == CB_OK);
		}
		off_t at = (off_t)(test_rand_below(&r, pages_of(database)) * PAGE);
		at += i % 2 ? 4 : (off_t)test_rand_below(&r, PAGE);
		unsigned bit = (unsigned)test_rand_below(&r, 8);
		(void)snprintf(what, sizeof(what), "byte %lld, bit %u, under handles", (long long)at, bit);
		flip(database, at, bit);
		judge(s, what);
		cb_code code = cb_store_gc(s, NULL, &err);
		CHECK_MSG(code == CB_OK || code == CB_CORRUPT, "%s: gc: %s: %s", what, cb_code_name(code), err.message);
		judge(s, what);
		cb_store_close(s);
	}
}

/* In the log, while others have the store open: nobody looks through it at their open. */
TEST_LIMIT(in_the_log, 120)
{
	cb_error err = {0};
	test_rng r = {test_seed() | 1};
	begin();
	char log[700];
	(void)snprintf(log, sizeof(log), "%s/cowbox.db-wal", trial);
	for (unsigned i = 0; i < test_dose(RANDOM_FLIPS / 2); i++) {
		cb_store *first = NULL, *s = NULL;
		cb_box *b = NULL;
		char what[100];
		struct stat st;
		fresh();
		CHECK_OK(cb_store_open(trial, NULL, &first, &err));
		CHECK_OK(cb_box_create(first, "more", &b, &err));
		for (unsigned n = 0; n < 5; n++) must_write(b, "/work/f", "again");
		cb_box_close(b);
		CHECK_OK(cb_box_delete(first, "more", &err));
		CHECK(stat(log, &st) == 0 && st.st_size > 10 * PAGE);
		off_t at = 32 + (off_t)test_rand_below(&r, (uint64_t)st.st_size - 32);
		unsigned bit = (unsigned)test_rand_below(&r, 8);
		(void)snprintf(what, sizeof(what), "byte %lld of the log, bit %u", (long long)at, bit);
		flip(log, at, bit);
		cb_code code = cb_store_open(trial, NULL, &s, &err); /* shares the index of the first */
		if (code == CB_OK) {
			judge(s, what);
			code = cb_store_gc(s, NULL, &err);
		}
		CHECK_MSG(code == CB_OK || code == CB_CORRUPT, "%s: %s: %s", what, cb_code_name(code), err.message);
		cb_store_close(s);
		cb_store_close(first);
	}
}

/* Two pages change places: each has the sum that belongs to it. */
TEST_LIMIT(pages_that_changed_places, 120)
{
	cb_error err = {0};
	test_rng r = {test_seed() | 1};
	begin();
	fold();
	for (unsigned i = 0; i < 20; i++) {
		static uint8_t a[PAGE], b[PAGE];
		cb_store *s = NULL;
		fresh();
		int fd = open(database, O_RDWR | O_CLOEXEC);
		size_t pages = pages_of(database);
		off_t x = (off_t)(1 + test_rand_below(&r, pages - 1)) * PAGE,
		      y = (off_t)(1 + test_rand_below(&r, pages - 1)) * PAGE;
		if (x == y) y = x == PAGE ? 2 * PAGE : PAGE;
		CHECK(fd >= 0 && pread(fd, a, PAGE, x) == PAGE && pread(fd, b, PAGE, y) == PAGE);
		CHECK(pwrite(fd, a, PAGE, y) == PAGE && pwrite(fd, b, PAGE, x) == PAGE);
		(void)close(fd);
		cb_code code = cb_store_open(trial, NULL, &s, &err);
		CHECK(code == CB_OK || code == CB_CORRUPT);
		if (code != CB_OK) continue;
		judge(s, "pages that changed places");
		uint64_t complaints = 0;
		CHECK_OK(cb_store_check(s, NULL, NULL, &complaints, &err));
		CHECK(complaints > 0);
		cb_store_close(s);
	}
}

static bool differs(cb_store *s, size_t part, const char *what)
{
	ask_part(s, part, &got);
	CHECK_MSG(got.code == CB_OK || got.code == CB_CORRUPT, "%s, part %zu: %s: %s", what, part, cb_code_name(got.code), got.why);
	CHECK_MSG(got.code != CB_OK || strcmp(got.text, right[part].text) == 0, "%s, part %zu: another answer:\n%.300s", what, part,
	          got.text);
	return got.code != CB_OK;
}

/* The last sector of a page is zeros: with it goes the page's sum, and it looks like a page that another program wrote. Rows have sums of
 * their own: whatever cannot be read is seen by fsck and not copied. */
static void one_sector(size_t page)
{
	enum { SECTOR = 512 };
	cb_error err = {0};
	cb_store *s = NULL;
	char what[100], copy[700];
	static const uint8_t zeros[SECTOR];
	bool damaged = false;
	uint64_t complaints = 0;
	(void)snprintf(what, sizeof(what), "the last sector of page %zu", page);
	(void)snprintf(copy, sizeof(copy), "%s-copy", trial);
	fresh();
	int fd = open(database, O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0 && pwrite(fd, zeros, sizeof(zeros), (off_t)(page * PAGE - SECTOR)) == SECTOR);
	(void)close(fd);
	cb_code code = cb_store_open(trial, NULL, &s, &err);
	CHECK_MSG(code == CB_OK || code == CB_CORRUPT, "%s: %s: %s", what, cb_code_name(code), err.message);
	if (code != CB_OK) return;
	for (size_t i = 0; i < PARTS; i++) damaged = differs(s, i, what) || damaged;
	code = cb_store_check(s, NULL, NULL, &complaints, &err);
	CHECK_MSG(!damaged || code == CB_CORRUPT || complaints > 0, "%s: fsck finds nothing", what);
	bool found = code == CB_CORRUPT || complaints > 0;
	code = cb_store_backup(s, copy, &err);
	CHECK_MSG(code == (found ? CB_CORRUPT : CB_OK), "%s: a backup of it: %s", what, cb_code_name(code));
	cb_store_close(s);
}

TEST_LIMIT(a_lost_sector, 300)
{
	test_rng r = {test_seed() | 1};
	begin();
	fold();
	char file[700];
	(void)snprintf(file, sizeof(file), "%s/cowbox.db", clean);
	size_t pages = pages_of(file), stride = test_soak() > 1 ? 1 : 16;
	for (size_t p = 1 + (size_t)test_rand_below(&r, stride); p <= pages; p += stride) one_sector(p);
	sqlite3 *db = test_sql_open(file);
	size_t touch = (size_t)test_sql_number(db, "SELECT rootpage FROM sqlite_schema WHERE name='touch'");
	(void)sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	(void)sqlite3_close(db);
	one_sector(touch); /* large rows, which nothing but the log of a path reads */
}
