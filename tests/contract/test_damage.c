/*
 * test_damage.c: bytes of a store change, go, or were never a store's. Whatever happens to its files, opening, reading and fsck give an
 * error or the right data: never a crash, a hang or a wrong answer, and what cannot be read shows in fsck.
 *
 * A store with known contents is made once; each trial damages a copy and looks at it in a process of its own with a time limit.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/boxes.h"
#include "harness/crashes.h"
#include "harness/sql.h"

enum {
	MAX_EVENTS = 128,
	CI_TRIALS = 100, /* of random_damage */
	TRIAL_SECONDS = 20,
	/* What a trial's process found. */
	TRIAL_FINE = 10,
	TRIAL_ERRORS = 11,
	TRIAL_WRONG = 12,
};

typedef struct original {
	char clean[4300], busy[4300]; /* closed; and with its log not yet in the database */
	crash_event events[MAX_EVENTS];
	size_t count;
	char trial[4300];
} original;

static original o;

static void shell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void shell(const char *format, ...)
{
	char command[12000];
	va_list args;
	va_start(args, format);
	(void)vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	CHECK_MSG(system(command) == 0, "%s", command);
}

/* ---- the store that is damaged ---- */

static void keep(const crash_event *e)
{
	if (e->kind != CRASH_STEP && e->kind != CRASH_CHECKPOINT) return;
	CHECK(o.count < MAX_EVENTS);
	o.events[o.count++] = *e;
}

static void build(crash_actor *a, unsigned rounds)
{
	cb_error err = {0};
	for (unsigned i = 0; i < rounds; i++) {
		crash_event e = {0};
		CHECK_OK(crash_write_pair(a, i % CRASH_PAIRS, &e, &err));
		keep(&e);
		CHECK_OK(i % 2 ? crash_write_file(a, &e, &err) : crash_write_key(a, &e, &err));
		keep(&e);
		if (i % 3 == 1) CHECK_OK(crash_write_handle(a, false, &e, &err));
		if (i % 3 == 1) keep(&e);
		if (i % 5 == 2) CHECK_OK(crash_checkpoint(a, &e, &err));
		if (i % 5 == 2) keep(&e);
		if (i % 7 == 3) CHECK_OK(crash_undo(a, &e, &err));
		if (i % 7 == 3) keep(&e);
	}
}

static void original_make(void)
{
	cb_error err = {0};
	crash_event e = {0};
	crash_actor a = {.box = "box", .rng = {4711}, .next_tag = 1};
	(void)snprintf(o.clean, sizeof(o.clean), "%s/clean", test_tmpdir());
	(void)snprintf(o.busy, sizeof(o.busy), "%s/busy", test_tmpdir());
	(void)snprintf(o.trial, sizeof(o.trial), "%s/trial", test_tmpdir());
	CHECK_OK(crash_store_open(o.clean, NULL, false, &a.s, &err));
	CHECK_OK(crash_actor_init(&a, &err));
	build(&a, 10);
	CHECK_OK(crash_fork(&a, &e, &err));
	keep(&e);
	CHECK_OK(crash_fork_write(&a, &e, &err));
	keep(&e);
	CHECK_OK(crash_merge(&a, &e, &err));
	keep(&e);
	crash_actor_done(&a);
	cb_store_close(a.s);
	CHECK_OK(crash_store_open(o.clean, NULL, false, &a.s, &err));
	CHECK_OK(crash_actor_init(&a, &err));
	a.rng.state = 815;
	build(&a, 4);
	CHECK_OK(cb_store_sync(a.s, &err));
	shell("cp -a '%s' '%s'; rm -f '%s/cowbox.db-shm'", o.clean, o.busy, o.busy);
	crash_actor_done(&a);
	cb_store_close(a.s);
}

/* ---- looking at a damaged copy ---- */

typedef struct sight {
	unsigned there, gone, errors, lines;
	cb_code opened, checked;
} sight;

static void count_line(void *context, const char *line)
{
	sight *t = context;
	if (!line[0] || strchr(line, '\n')) _exit(TRIAL_WRONG);
	t->lines++;
}

static void say_wrong(const char *what, const char *detail)
{
	test_note("%s: %s", what, detail);
	_exit(TRIAL_WRONG);
}

static void look_at_events(cb_store *s, sight *t)
{
	for (size_t i = 0; i < o.count; i++) {
		cb_error err = {0};
		crash_verdict v = crash_event_check(s, &o.events[i], &err);
		if (v == CRASH_WRONG) say_wrong("a wrong answer", err.message);
		t->there += v == CRASH_THERE;
		t->gone += v == CRASH_GONE;
		t->errors += v == CRASH_ERROR;
	}
}

/* The newest state is the last one that was acknowledged, or says that it cannot be read. With the log damaged an older one will do. */
static void look_at_head(cb_store *s, sight *t, bool older_is_fine)
{
	cb_error err = {0};
	cb_box *b = NULL;
	crash_model model;
	cb_code code = cb_box_open(s, "box", &b, &err);
	if (code == CB_OK) code = crash_model_read(b, CRASH_ALL, &model, &err);
	cb_box_close(b);
	if (code == CB_INTERNAL) say_wrong("wrong bytes in the newest state", err.message);
	if (code != CB_OK) {
		t->errors++;
		return;
	}
	bool newest = memcmp(&model, &o.events[o.count - 1].model, sizeof(model)) == 0;
	if (!newest && !older_is_fine) t->gone++;
}

static void look_by_walk(cb_store *s)
{
	cb_box *b = NULL;
	cb_error err = {0};
	if (cb_box_open(s, "box", &b, &err) != CB_OK) return;
	char *text = NULL;
	size_t size = 0;
	cb_box *old = NULL;
	if (cb_box_open(s, "box@5", &old, &err) == CB_OK && cb_diff_text(old, b, NULL, &text, &size, &err) == CB_OK) cb_free(text);
	cb_box_close(old);
	cb_box_close(b);
}

/* Ends the process. */
static void look(const char *folder, bool log_damaged)
{
	sight t = {0};
	cb_error err = {0};
	cb_store *s = NULL;
	(void)alarm(TRIAL_SECONDS);
	t.opened = cb_store_open(folder, NULL, &s, &err);
	if (t.opened == CB_INTERNAL) say_wrong("opening", err.message);
	if (t.opened != CB_OK) _exit(err.message[0] ? TRIAL_ERRORS : TRIAL_WRONG);
	look_at_events(s, &t);
	look_at_head(s, &t, log_damaged);
	look_by_walk(s);
	uint64_t complaints = 0;
	t.checked = cb_store_check(s, count_line, &t, &complaints, &err);
	if (t.checked == CB_OK && complaints != t.lines) say_wrong("fsck", "has counted wrongly");
	bool fsck_knows = t.checked != CB_OK || complaints > 0;
	if ((t.errors || (t.gone && !log_damaged)) && !fsck_knows) {
		char text[200];
		(void)snprintf(text, sizeof(text), "%u events there, %u gone, %u with errors", t.there, t.gone, t.errors);
		say_wrong("fsck finds nothing wrong", text);
	}
	/* It may be closed, too, and go on being written as far as it can. */
	cb_box *b = NULL;
	if (cb_box_open(s, "box", &b, &err) == CB_OK) (void)cb_write_file(b, "/work/after", "damage", 6, NULL, &err);
	cb_box_close(b);
	cb_store_close(s);
	_exit(t.errors || t.gone || fsck_knows ? TRIAL_ERRORS : TRIAL_FINE);
}

/* What the trial's process ended with; a crash or a hang fails the test. */
static int try_look(bool log_damaged, const char *what)
{
	(void)fflush(NULL);
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) look(o.trial, log_damaged);
	int status = 0;
	CHECK(waitpid(pid, &status, 0) == pid);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) test_fail(__FILE__, __LINE__, "%s: hangs", what);
	CHECK_MSG(WIFEXITED(status), "%s: ended by signal %d", what, WTERMSIG(status));
	int found = WEXITSTATUS(status);
	CHECK_MSG(found == TRIAL_FINE || found == TRIAL_ERRORS, "%s: status %d", what, found);
	return found;
}

static void fresh_copy(bool busy)
{
	shell("rm -rf '%s'; cp -a '%s' '%s'", o.trial, busy ? o.busy : o.clean, o.trial);
}

/* ---- random damage ---- */

typedef struct victim {
	char path[4400];
	const char *name;
	bool is_log;
	size_t size;
} victim;

static bool find_segment(char *out, size_t size, test_rng *r)
{
	char folder[4400];
	unsigned seen = 0;
	(void)snprintf(folder, sizeof(folder), "%s/seg", o.trial);
	DIR *d = opendir(folder);
	CHECK(d != NULL);
	for (const struct dirent *e; (e = readdir(d));)
		if (e->d_name[0] != '.' && test_rand_below(r, ++seen) == 0)
			(void)snprintf(out, size, "%.4300s/seg/%.60s", o.trial, e->d_name);
	(void)closedir(d);
	return seen > 0;
}

static bool choose(victim *v, test_rng *r)
{
	static const char *const names[] = {"cowbox.db",     "cowbox.db", "cowbox.db", "cowbox.db-wal",
	                                    "cowbox.db-wal", "live",      "locks",     "seg"};
	struct stat st;
	v->name = names[test_rand_below(r, sizeof(names) / sizeof(names[0]))];
	v->is_log = strstr(v->name, "-wal") != NULL;
	(void)snprintf(v->path, sizeof(v->path), "%.4300s/%s", o.trial, v->name);
	if (strcmp(v->name, "seg") == 0 && !find_segment(v->path, sizeof(v->path), r)) return false;
	if (stat(v->path, &st) != 0) return false;
	v->size = (size_t)st.st_size;
	return true;
}

/* Says what it did in `what`. */
static void harm(const victim *v, test_rng *r, char *what, size_t size)
{
	int fd = open(v->path, O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0);
	uint64_t kind = test_rand_below(r, 10), at = v->size ? test_rand_below(r, v->size) : 0;
	uint64_t n = 1;
	const char *how = "byte flipped";
	if (kind == 0) {
		how = "cut";
		CHECK(ftruncate(fd, (off_t)at) == 0);
	} else if (kind == 1) {
		how = "deleted";
		CHECK(unlink(v->path) == 0);
	} else if (kind <= 3) {
		char zeros[8192] = {0};
		how = "zeroed";
		n = 1 + test_rand_below(r, sizeof(zeros));
		CHECK(pwrite(fd, zeros, n, (off_t)at) == (ssize_t)n);
	} else if (kind == 4) {
		how = "made longer";
		CHECK(pwrite(fd, "garbage", 7, (off_t)v->size) == 7);
	} else {
		unsigned char byte = 0;
		CHECK(pread(fd, &byte, 1, (off_t)at) >= 0);
		byte ^= (unsigned char)(1u << test_rand_below(r, 8));
		if (kind > 7) byte = (unsigned char)test_rand(r);
		CHECK(pwrite(fd, &byte, 1, (off_t)at) == 1);
	}
	(void)snprintf(what, size, "%s %s at %" PRIu64 " (%" PRIu64 ")", v->name, how, at, n);
	(void)close(fd);
}

TEST_LIMIT(random_damage, 300)
{
	original_make();
	test_rng r = {test_seed()};
	unsigned errors = 0, fine = 0;
	for (unsigned i = 0; i < test_dose(CI_TRIALS); i++) {
		victim v;
		char what[5000], all[5200];
		test_rng before = r;
		fresh_copy(test_rand_below(&r, 2) == 0);
		if (!choose(&v, &r)) continue;
		harm(&v, &r, what, sizeof(what));
		(void)snprintf(all, sizeof(all), "trial %u (rng %" PRIu64 "): %s", i, before.state, what);
		int found = try_look(v.is_log, all);
		errors += found == TRIAL_ERRORS;
		fine += found == TRIAL_FINE;
	}
	test_note("%u showed, %u did not matter", errors, fine);
	CHECK(test_soak() == 1 || (errors > 0 && fine > 0)); /* a small dose may miss one */
}

TEST(undamaged)
{
	original_make();
	fresh_copy(false);
	CHECK(try_look(false, "closed") == TRIAL_FINE);
	fresh_copy(true);
	CHECK(try_look(false, "with its log") == TRIAL_FINE);
}

TEST(deleted_files)
{
	static const struct {
		const char *name;
		bool harmless, is_log;
	} files[] = {{"live", true, false},          {"locks", true, false},  {"cowbox.db-shm", true, false},
	             {"cowbox.db-wal", false, true}, {"seg/*", false, false}, {"seg", false, false}};
	original_make();
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		fresh_copy(true);
		shell("rm -rf '%s'/%s", o.trial, files[i].name);
		int found = try_look(files[i].is_log, files[i].name);
		CHECK_MSG(!files[i].harmless || found == TRIAL_FINE, "%s is needed", files[i].name);
		CHECK_MSG(files[i].harmless || files[i].is_log || found == TRIAL_ERRORS, "nobody misses %s", files[i].name);
	}
}

/* ---- one damaged thing: named by fsck, and the rest stays readable ---- */

static void sql(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void sql(const char *format, ...)
{
	char text[1000], file[4400], *message = NULL;
	va_list args;
	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	(void)snprintf(file, sizeof(file), "%.4300s/cowbox.db", o.trial);
	sqlite3 *db = test_sql_open(file);
	CHECK_MSG(sqlite3_exec(db, text, NULL, NULL, &message) == SQLITE_OK, "%s: %s", text, message);
	CHECK(sqlite3_close(db) == SQLITE_OK);
}

typedef struct hearing {
	char lines[65536];
	size_t used;
} hearing;

static void hear(void *context, const char *line)
{
	hearing *h = context;
	int n = snprintf(h->lines + h->used, sizeof(h->lines) - h->used, "%s\n", line);
	if (n > 0 && h->used + (size_t)n < sizeof(h->lines)) h->used += (size_t)n;
}

static void fsck_lines(cb_store *s, hearing *h)
{
	cb_error err = {0};
	uint64_t complaints = 0;
	h->used = 0;
	h->lines[0] = 0;
	CHECK_OK(cb_store_check(s, hear, h, &complaints, &err));
	CHECK(complaints > 0);
}

/* The content of one large file of the newest state. */
TEST(one_damaged_content)
{
	static hearing h;
	cb_error err = {0};
	cb_store *s = NULL;
	crash_model model;
	char *bytes = NULL;
	size_t size = 0;
	original_make();
	fresh_copy(false);
	CHECK_OK(cb_store_open(o.trial, NULL, &s, &err));
	cb_box *b = must_open(s, "box");
	must_write(b, "/work/victim", "");
	char large[50000];
	memset(large, 'v', sizeof(large));
	CHECK_OK(cb_write_file(b, "/work/victim", large, sizeof(large), NULL, &err));
	cb_box_close(b);
	cb_store_close(s);
	sql("UPDATE content SET sum=sum+1 WHERE id=(SELECT max(id) FROM content)");
	CHECK_OK(cb_store_open(o.trial, NULL, &s, &err));
	b = must_open(s, "box");
	CHECK_CODE(cb_read_file(b, "/work/victim", &bytes, &size, &err), CB_CORRUPT);
	CHECK_OK(crash_model_read(b, CRASH_ALL, &model, &err));
	CHECK(memcmp(&model, &o.events[o.count - 1].model, sizeof(model)) == 0);
	for (size_t i = 0; i < o.count; i++) CHECK(crash_event_check(s, &o.events[i], &err) == CRASH_THERE);
	fsck_lines(s, &h);
	CHECK_MSG(strstr(h.lines, "box 'box'") && strstr(h.lines, "/work/victim") && strstr(h.lines, "content"), "%s", h.lines);
	/* It can be replaced. */
	must_write(b, "/work/victim", "new");
	CHECK_STR(must_read(b, "/work/victim"), "new");
	cb_box_close(b);
	cb_store_close(s);
}

/* Files read in the order they were written come in many at a time: the damaged one is named when its turn comes, the others are read. */
TEST(one_damaged_content_among_many)
{
	enum { FILES = 200, VICTIM = 90 };
	cb_error err = {0};
	cb_store *s = NULL;
	char path[64], text[1000];
	original_make();
	fresh_copy(false);
	CHECK_OK(cb_store_open(o.trial, NULL, &s, &err));
	cb_box *b = must_open(s, "box");
	for (int i = 0; i < FILES; i++) {
		(void)snprintf(path, sizeof(path), "/work/many%03d", i);
		(void)snprintf(text, sizeof(text), "%0900d", i);
		must_write(b, path, text);
	}
	cb_box_close(b);
	cb_store_close(s);
	sql("UPDATE content SET data=zeroblob(900) WHERE id=(SELECT max(id) FROM content)-%d", FILES - 1 - VICTIM);
	CHECK_OK(cb_store_open(o.trial, NULL, &s, &err));
	b = must_open(s, "box");
	for (int i = 0; i < FILES; i++) {
		char *bytes = NULL;
		size_t size = 0;
		(void)snprintf(path, sizeof(path), "/work/many%03d", i);
		(void)snprintf(text, sizeof(text), "%0900d", i);
		cb_code code = cb_read_file(b, path, &bytes, &size, &err);
		CHECK_MSG(code == (i == VICTIM ? CB_CORRUPT : CB_OK), "%s: %s", path, cb_code_name(code));
		if (code == CB_OK) CHECK(size == 900 && memcmp(bytes, text, 900) == 0);
		cb_free(bytes);
	}
	cb_box_close(b);
	cb_store_close(s);
}

/* A node that only one box needs: the other boxes stay readable and fsck names the box. */
TEST(one_damaged_node)
{
	static hearing h;
	cb_error err = {0};
	cb_store *s = NULL;
	cb_box *b = NULL;
	original_make();
	fresh_copy(false);
	CHECK_OK(cb_store_open(o.trial, NULL, &s, &err));
	CHECK_OK(cb_box_create(s, "victim", NULL, &err));
	cb_store_close(s);
	sql("UPDATE node SET data=zeroblob(length(data)) WHERE id=(SELECT root FROM head WHERE box=(SELECT id FROM box WHERE "
	    "name='victim'))");
	CHECK_OK(cb_store_open(o.trial, NULL, &s, &err));
	cb_code code = cb_box_open(s, "victim", &b, &err);
	cb_stat_info info = CB_INIT(cb_stat_info);
	if (code == CB_OK) code = cb_stat(b, "/work", 0, &info, &err);
	CHECK_MSG(code == CB_CORRUPT, "%s", cb_code_name(code));
	cb_box_close(b);
	for (size_t i = 0; i < o.count; i++) CHECK(crash_event_check(s, &o.events[i], &err) == CRASH_THERE);
	fsck_lines(s, &h);
	CHECK_MSG(strstr(h.lines, "box 'victim'") && strstr(h.lines, "node"), "%s", h.lines);
	CHECK_MSG(!strstr(h.lines, "box 'box'"), "%s", h.lines);
	CHECK_OK(cb_box_delete(s, "victim", &err));
	CHECK_OK(cb_store_gc(s, NULL, &err));
	test_store_sound(s);
	cb_store_close(s);
}

/* ---- damage that SQLite cannot see: rows that are well formed and wrong ---- */

typedef struct cell {
	const char *table, *column, *key;
} cell;

/* One byte of one value changes. Blobs by a byte, numbers by a bit. */
static bool harm_cell(const cell *c, test_rng *r, char *what, size_t size)
{
	char text[400], file[4400];
	sqlite3_stmt *stmt = NULL;
	(void)snprintf(file, sizeof(file), "%.4300s/cowbox.db", o.trial);
	sqlite3 *db = test_sql_open(file);
	(void)snprintf(text, sizeof(text),
	               "SELECT %s,%s FROM %s WHERE length(%s)>0 ORDER BY 1,2 LIMIT 1 OFFSET %llu%%max(1,(SELECT count(*) FROM %s "
	               "WHERE length(%s)>0))",
	               c->key, c->column, c->table, c->column, (unsigned long long)test_rand_below(r, 1 << 20), c->table,
	               c->column);
	CHECK_MSG(sqlite3_prepare_v2(db, text, -1, &stmt, NULL) == SQLITE_OK, "%s: %s", text, sqlite3_errmsg(db));
	bool found = sqlite3_step(stmt) == SQLITE_ROW;
	if (found && sqlite3_column_type(stmt, 1) == SQLITE_BLOB) {
		size_t n = (size_t)sqlite3_column_bytes(stmt, 1), at = (size_t)test_rand_below(r, n);
		unsigned char *bytes = malloc(n);
		CHECK(bytes != NULL);
		memcpy(bytes, sqlite3_column_blob(stmt, 1), n);
		bytes[at] ^= (unsigned char)(1u << test_rand_below(r, 8));
		(void)snprintf(what, size, "%s.%s of %s %lld, byte %zu of %zu", c->table, c->column, c->key,
		               sqlite3_column_int64(stmt, 0), at, n);
		(void)snprintf(text, sizeof(text), "UPDATE %s SET %s=? WHERE %s=%lld", c->table, c->column, c->key,
		               sqlite3_column_int64(stmt, 0));
		(void)sqlite3_finalize(stmt);
		CHECK(sqlite3_prepare_v2(db, text, -1, &stmt, NULL) == SQLITE_OK);
		(void)sqlite3_bind_blob(stmt, 1, bytes, (int)n, free);
		CHECK(sqlite3_step(stmt) == SQLITE_DONE);
	} else if (found) {
		sqlite3_int64 key = sqlite3_column_int64(stmt, 0), was = sqlite3_column_int64(stmt, 1);
		sqlite3_int64 is = was ^ (sqlite3_int64)(1u << test_rand_below(r, 6));
		(void)snprintf(what, size, "%s.%s of %s %lld, %lld for %lld", c->table, c->column, c->key, key, is, was);
		(void)snprintf(text, sizeof(text), "UPDATE %s SET %s=%lld WHERE %s=%lld", c->table, c->column, is, c->key, key);
		(void)sqlite3_finalize(stmt);
		stmt = NULL;
		CHECK_MSG(sqlite3_exec(db, text, NULL, NULL, NULL) == SQLITE_OK, "%s: %s", text, sqlite3_errmsg(db));
	}
	(void)sqlite3_finalize(stmt);
	CHECK(sqlite3_close(db) == SQLITE_OK);
	return found;
}

static void harm_cells(const cell *cells, size_t count, unsigned trials)
{
	original_make();
	test_rng r = {test_seed()};
	unsigned showed = 0;
	for (unsigned i = 0; i < test_dose(trials); i++) {
		char what[300];
		fresh_copy(false);
		if (!harm_cell(&cells[i % count], &r, what, sizeof(what))) continue;
		showed += try_look(false, what) == TRIAL_ERRORS;
	}
	test_note("%u showed", showed);
	CHECK(test_soak() == 1 || showed > 0); /* a small dose may miss what shows */
}

TEST_LIMIT(damaged_nodes_and_contents, 300)
{
	static const cell cells[] = {
		{"node", "data", "id"},    {"node", "sum", "id"},       {"content", "data", "id"},
		{"content", "size", "id"}, {"content", "offset", "id"}, {"content", "segment", "id"},
	};
	harm_cells(cells, sizeof(cells) / sizeof(cells[0]), 48);
}

TEST_LIMIT(damaged_history, 300)
{
	static const cell cells[] = {
		{"step", "changes", "id"}, {"step", "root", "id"},    {"step", "state", "id"},     {"step", "weight", "id"},
		{"head", "root", "box"},   {"head", "seq", "box"},    {"head", "state", "box"},    {"head", "root_seq", "box"},
		{"step", "changes", "id"}, {"head", "weight", "box"}, {"head", "root_box", "box"},
	};
	harm_cells(cells, sizeof(cells) / sizeof(cells[0]), 66);
}

/* ---- never a store, or not ours ---- */

static void write_whole(const char *name, const void *bytes, size_t size)
{
	char path[4400];
	(void)snprintf(path, sizeof(path), "%.4300s/%s", o.trial, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
	(void)close(fd);
}

static void expect_open(cb_code expected, bool no_create, const char *what)
{
	cb_error err = {0};
	cb_store *s = NULL;
	cb_store_options options = CB_WITH(cb_store_options, .no_create = no_create);
	cb_code code = cb_store_open(o.trial, &options, &s, &err);
	CHECK_MSG(code == expected, "%s: %s (%s), expected %s", what, cb_code_name(code), err.message, cb_code_name(expected));
	if (code == CB_OK) cb_store_close(s);
	else CHECK(err.message[0]);
}

TEST(not_a_store)
{
	original_make();
	shell("rm -rf '%s'", o.trial);
	expect_open(CB_NOTFOUND, true, "nothing");
	shell("mkdir -m 700 '%s'", o.trial);
	expect_open(CB_NOTFOUND, true, "an empty folder");
	write_whole("notes.txt", "mine", 4);
	expect_open(CB_FOREIGN, false, "a folder of something else");
	shell("rm '%s/notes.txt'", o.trial);
	write_whole("cowbox.db",
	            "this is not a database, but long enough to be looked at as if it were one, page and all.............", 100);
	expect_open(CB_FOREIGN, false, "a text as database");
	shell("rm -rf '%s'; echo x >'%s'", o.trial, o.trial);
	expect_open(CB_FOREIGN, false, "a file in place of the folder");
	shell("rm '%s'; mkdir -m 700 '%s'", o.trial, o.trial);
	sql("CREATE TABLE t(x)");
	expect_open(CB_FOREIGN, false, "another program's database");
	fresh_copy(false);
	sql("PRAGMA user_version=99");
	expect_open(CB_NEWER, false, "a later format");
	fresh_copy(false);
	sql("DELETE FROM meta");
	cb_error err = {0};
	cb_store *s = NULL;
	cb_code code = cb_store_open(o.trial, NULL, &s, &err);
	CHECK_MSG(code == CB_OK || code == CB_CORRUPT, "%s", cb_code_name(code));
	if (code == CB_OK) cb_store_close(s);
	fresh_copy(false);
	shell("chmod 755 '%s'", o.trial);
	expect_open(CB_DENIED, false, "a folder open to others");
}

/* A segment of another store, with the right number: must not be taken for ours. */
TEST(swapped_segments)
{
	original_make();
	fresh_copy(false);
	cb_error err = {0};
	cb_store *s = NULL;
	crash_event e = {0};
	char other[4300];
	(void)snprintf(other, sizeof(other), "%s/other", test_tmpdir());
	crash_actor a = {.box = "box", .rng = {99}, .next_tag = 1000};
	CHECK_OK(crash_store_open(other, NULL, false, &a.s, &err));
	CHECK_OK(crash_actor_init(&a, &err));
	for (int i = 0; i < 30; i++) CHECK_OK(crash_write_pair(&a, 2, &e, &err));
	crash_actor_done(&a);
	cb_store_close(a.s);
	shell("cp '%s/seg/000001.seg' '%s/seg/000001.seg'", other, o.trial);
	CHECK(try_look(false, "a segment of another store") == TRIAL_ERRORS);
	CHECK_OK(cb_store_open(o.trial, NULL, &s, &err));
	cb_store_close(s);
}
