/*
 * test_open_files.c: open files against a model while their file is changed, renamed, replaced, removed and brought back, by the same box
 * handle and by another, several times in a row without a look at the open file. A handle sees its file, or what it was when it went; what
 * it wrote is in the box, or it was told that it is not.
 */
#include "harness/boxes.h"

enum {
	FILES = 2, /* handles on the one file */
	TEXT = 240,
	STEPS_CI = 24000,
	STEPS_OF_A_BOX = 500,
	ROW = 4, /* changes of the box before the open files are looked at again, at most */
};

/* What is known of the file by looking at the box through a third handle. */
typedef struct seen {
	const char *path; /* one of them; NULL: it is not there */
	char text[TEXT + 1];
} seen;

typedef struct world {
	cb_store *s;
	cb_box *b[2]; /* [0] has the files open */
	cb_box *look; /* only ever reads */
	cb_file *f[FILES];
	bool wrote[FILES];     /* while it was gone */
	bool lost[FILES];      /* must be told */
	uint64_t ino;          /* of the file that is open; 0: none is */
	seen now;              /* it in the box */
	bool gone, dirty;      /* to its handles it is not in the box; something was written to it since */
	char handle[TEXT + 1]; /* what its handles see */
	char went[TEXT + 1];   /* what it went with, when dirty */
	enum { BY_CALL, BY_HISTORY, BY_NOBODY_KNOWS } by; /* what took it away */
	test_rng r;
	unsigned landed, told, unseen;
} world;

static cb_error err;

static const char *const paths[] = {"/work/a", "/work/b", "/work/d/a", "/work/d/b", "/work/new"};
enum { PATHS = sizeof(paths) / sizeof(*paths) };

static uint64_t ino_at(world *w, const char *path)
{
	cb_stat_info info = CB_INIT(cb_stat_info);
	cb_code code = cb_stat(w->look, path, 0, &info, NULL);
	CHECK(code == CB_OK || code == CB_NOTFOUND);
	return code == CB_OK ? info.ino : 0;
}

static seen look(world *w)
{
	seen out = {0};
	for (int i = 0; i < PATHS && w->ino && !out.path; i++)
		if (ino_at(w, paths[i]) == w->ino) out.path = paths[i];
	if (!out.path) return out;
	char *bytes = NULL;
	CHECK_OK(cb_read_file(w->look, out.path, &bytes, NULL, &err));
	(void)snprintf(out.text, sizeof(out.text), "%s", bytes);
	cb_free(bytes);
	return out;
}

/* Short ones are in the file's record, long ones are contents. */
static void random_text(world *w, const char *before, char out[TEXT + 1])
{
	memset(out, 0, TEXT + 1);
	(void)snprintf(out, TEXT + 1, "%s%llu%*s", before, (unsigned long long)test_rand_below(&w->r, 100000),
	               test_rand_below(&w->r, 4) ? 0 : TEXT / 2, "");
}

/* ---- the model ---- */

/* After one change of the box by path or through history, all of which end the running step first. Nobody uses the open files. */
static void box_changed(world *w, int by)
{
	if (w->ino == 0) return;
	bool was = w->now.path != NULL;
	w->now = look(w);
	if (was && !w->now.path) w->by = by;
	if (!w->dirty && w->now.path) memcpy(w->handle, w->now.text, sizeof(w->handle));
}

/* What cb_fsync, and cb_close of the last handle, say of what was written to a file that is gone. */
static void check_gone(const world *w, cb_code code)
{
	if (w->by == BY_NOBODY_KNOWS) CHECK(code == CB_OK || code == CB_STALE);
	else CHECK_CODE(code, w->by == BY_HISTORY ? CB_STALE : CB_OK);
}

static void check_handles(world *w)
{
	for (int i = 0; i < FILES; i++) {
		char text[TEXT + 2] = "";
		size_t n = 0;
		cb_stat_info info = CB_INIT(cb_stat_info);
		if (!w->f[i]) continue;
		CHECK_OK(cb_pread(w->f[i], text, sizeof(text) - 1, 0, &n, &err));
		text[n] = 0;
		CHECK_STR(text, w->handle);
		CHECK_OK(cb_fstat(w->f[i], &info, &err));
		CHECK((info.links == 0) == w->gone);
	}
}

/* A call on handle i that tells what was lost. True: it did, and had no other effect. */
static bool told(world *w, int i, cb_code code)
{
	if (!w->lost[i]) return false;
	CHECK_MSG(code == CB_STALE && strstr(err.message, "lost"), "%s: %s", cb_code_name(code), err.message);
	w->lost[i] = false;
	w->told++;
	return true;
}

static void do_open(world *w, int i)
{
	if (w->f[i]) return;
	const char *path = w->now.path ? w->now.path : paths[test_rand_below(&w->r, PATHS)];
	cb_code code = cb_open(w->b[0], path, CB_READ | CB_WRITE, 0, &w->f[i], &err);
	if (code == CB_NOTFOUND) {
		w->f[i] = NULL;
		return;
	}
	CHECK_OK(code);
	cb_stat_info info = CB_INIT(cb_stat_info);
	CHECK_OK(cb_fstat(w->f[i], &info, &err));
	if (w->f[!i] && info.ino != w->ino) { /* another file of the same name */
		CHECK_OK(cb_close(w->f[i], &err));
		w->f[i] = NULL;
		return;
	}
	CHECK_OK(cb_fsync(w->f[i], &err)); /* so that the third handle sees it */
	w->ino = info.ino;
	w->gone = w->dirty = false;
	w->now = look(w);
	memcpy(w->handle, w->now.text, sizeof(w->handle));
}

static void do_write(world *w, int i)
{
	char text[TEXT + 1];
	if (!w->f[i]) return;
	random_text(w, "", text);
	size_t n = strlen(text);
	cb_code code = cb_pwrite(w->f[i], text, n, 0, &err);
	if (told(w, i, code)) return;
	CHECK_OK(code);
	if (w->gone && !w->dirty) memcpy(w->went, w->handle, sizeof(w->went));
	memcpy(w->handle, text, n); /* what was longer keeps its end */
	w->wrote[i] = w->wrote[i] || w->gone;
	w->dirty = w->dirty || w->gone;
}

static void do_sync(world *w, int i)
{
	if (!w->f[i]) return;
	cb_code code = cb_fsync(w->f[i], &err);
	if (told(w, i, code)) return;
	if (w->gone && w->wrote[i]) check_gone(w, code);
	else CHECK_OK(code);
	if (!w->gone) CHECK_STR(look(w).text, w->handle);
	w->now = look(w);
}

static void do_close(world *w, int i)
{
	if (!w->f[i]) return;
	bool last = !w->f[!i], wrote = w->wrote[i];
	cb_code code = cb_close(w->f[i], &err);
	w->f[i] = NULL;
	w->wrote[i] = false;
	if (!told(w, i, code)) {
		if (w->gone && wrote && last) check_gone(w, code);
		else CHECK_OK(code);
		if (!w->gone) CHECK_STR(look(w).text, w->handle);
	}
	if (!last) w->wrote[!i] = w->wrote[!i] || wrote;
	if (last) {
		w->ino = 0;
		w->now = (seen){0};
	}
}

/* The open files are used again: what was written while it was gone lands or is lost, if it is back at this moment. */
static void files_used(world *w)
{
	if (w->ino == 0) return;
	if (w->now.path && w->dirty) {
		bool lands = strcmp(w->now.text, w->went) == 0;
		w->landed += lands;
		if (!lands) memcpy(w->handle, w->now.text, sizeof(w->handle));
		for (int i = 0; i < FILES; i++) w->lost[i] = w->lost[i] || (!lands && w->wrote[i]);
		memset(w->wrote, 0, sizeof(w->wrote));
		w->dirty = false;
	}
	w->gone = !w->now.path;
	char byte;
	size_t n;
	uint64_t first = test_rand_below(&w->r, 3);
	for (int i = 0; i < FILES; i++) {
		if (!w->f[i]) continue;
		if (first == 0) do_write(w, i);
		if (first == 1) do_sync(w, i);
		CHECK_OK(cb_pread(w->f[i], &byte, 1, 0, &n, &err));
	}
}

/* ---- changes of the box ---- */

static void allow(cb_code code)
{
	CHECK_MSG(code == CB_OK || code == CB_NOTHING || code == CB_CONFLICT || code == CB_STALE, "%s: %s", cb_code_name(code),
	          err.message);
}

static void change_history(world *w, cb_box *b)
{
	uint64_t newest = must_seq(b), which = test_rand_below(&w->r, 4);
	char address[32];
	cb_box *old = NULL;
	if (which < 2) allow(cb_undo(b, 0, NULL, &err));
	else if (which == 2) allow(cb_redo(b, NULL, &err));
	else {
		(void)snprintf(address, sizeof(address), "demo@-%llu",
		               (unsigned long long)test_rand_below(&w->r, newest < 6 ? newest + 1 : 6));
		cb_code code = cb_box_open(w->s, address, &old, &err);
		allow(code);
		if (code == CB_OK) CHECK_OK(cb_restore(b, old, NULL, NULL, &err));
		cb_box_close(old);
	}
	box_changed(w, BY_HISTORY);
}

/* A fork removes or rewrites it, and is merged. */
static void change_by_merge(world *w, cb_box *b, const char *path)
{
	char text[TEXT + 1];
	if (!ino_at(w, path)) return;
	cb_box *fork = must_fork(w->s, "demo", "fork");
	random_text(w, "fork ", text);
	if (test_rand_below(&w->r, 2)) CHECK_OK(cb_unlink(fork, path, &err));
	else must_write(fork, path, text);
	CHECK_OK(cb_merge(b, fork, NULL, NULL, NULL, &err));
	cb_box_close(fork);
	CHECK_OK(cb_box_delete(w->s, "fork", &err));
	box_changed(w, BY_HISTORY);
}

/* Through an open file of the other handle. */
static void change_through_file(world *w, const char *path)
{
	cb_file *g = NULL;
	if (!ino_at(w, path)) return;
	CHECK_OK(cb_open(w->b[1], path, CB_WRITE, 0, &g, &err));
	CHECK_OK(cb_pwrite(g, "through", 7, 0, &err));
	CHECK_OK(cb_ftruncate(g, 5 + test_rand_below(&w->r, 4), &err));
	CHECK_OK(cb_close(g, &err));
	box_changed(w, BY_CALL);
}

static void change_by_path(world *w, cb_box *b, const char *path, const char *other)
{
	char text[TEXT + 1];
	random_text(w, "path ", text);
	bool there = ino_at(w, path) != 0;
	switch (test_rand_below(&w->r, 8)) {
	case 0:
		if (there) CHECK_OK(cb_unlink(b, path, &err));
		break;
	case 1: /* over another, which may be the file */
		if (there) CHECK_OK(cb_rename(b, path, other, 0, &err));
		break;
	case 2: /* as editors do */
		must_write(b, "/work/new", text);
		box_changed(w, BY_CALL);
		CHECK_OK(cb_rename(b, "/work/new", path, 0, &err));
		break;
	case 3:
		if (there && !ino_at(w, other)) CHECK_OK(cb_link(b, path, other, &err));
		break;
	case 4:
		CHECK_OK(cb_remove(b, "/work/d", &err));
		box_changed(w, BY_CALL);
		CHECK_OK(cb_mkdir(b, "/work/d", 0755, 0, &err));
		break;
	default:
		must_write(b, path, text);
		break;
	}
	box_changed(w, BY_CALL);
}

/* What the handles keep stays; what took the file may be forgotten. */
static void prune(world *w)
{
	CHECK_OK(cb_prune(w->b[1], &CB_WITH(cb_prune_options, .keep_steps = 1 + test_rand_below(&w->r, 8)), NULL, &err));
	CHECK_OK(cb_store_gc(w->s, NULL, &err));
	if (w->gone) w->by = BY_NOBODY_KNOWS;
}

static void change_box(world *w)
{
	/* The running step must not meet a change of the other handle: that is a conflict, which is another test. */
	for (int i = 0; i < FILES; i++)
		if (w->f[i]) do_sync(w, i);
	char before[TEXT + 1];
	memcpy(before, w->handle, sizeof(before)); /* what they saw last */
	bool foreign = test_rand_below(&w->r, 2);  /* the handle with the open files sees none of it until it is over */
	for (uint64_t left = 1 + test_rand_below(&w->r, ROW); left > 0; left--) {
		cb_box *b = w->b[foreign || test_rand_below(&w->r, 2)];
		const char *other = paths[test_rand_below(&w->r, PATHS)];
		/* Mostly the file, wherever it is by now. */
		const char *path = w->now.path && test_rand_below(&w->r, 4) ? w->now.path : paths[test_rand_below(&w->r, 2)];
		if (!ino_at(w, "/work/d")) CHECK_OK(cb_mkdir(b, "/work/d", 0755, 0, &err));
		uint64_t which = test_rand_below(&w->r, 16);
		if (which < 6) change_history(w, b);
		else if (which == 6) change_by_merge(w, b, path);
		else if (which == 7) change_through_file(w, path);
		else change_by_path(w, b, path, other);
	}
	w->unseen += foreign && w->ino && !w->now.path && !w->dirty && strcmp(before, w->handle) != 0;
	files_used(w);
	if (test_rand_below(&w->r, 64) == 0) prune(w);
}

static void one_step(world *w)
{
	int i = (int)test_rand_below(&w->r, FILES);
	switch (test_rand_below(&w->r, 12)) {
	case 0:
	case 1:
	case 2:
		do_open(w, i);
		break;
	case 3:
	case 4:
	case 5:
		do_write(w, i);
		break;
	case 6:
		do_sync(w, i);
		break;
	case 7:
		do_close(w, i);
		if (w->gone) do_close(w, !i); /* gone for good, it would not be changed and taken again */
		break;
	default:
		change_box(w);
		break;
	}
	check_handles(w);
}

TEST_LIMIT(open_files_against_a_model, 240)
{
	world w = {.r = {test_seed()}};
	for (unsigned left = test_dose(STEPS_CI); left > 0;) {
		w.s = test_store_open(true);
		CHECK_OK(cb_box_create(w.s, "demo", &w.b[0], &err));
		w.b[1] = must_open(w.s, "demo");
		w.look = must_open(w.s, "demo");
		/* A history of thousands of undos makes undo and prune slow, and tries nothing new. */
		for (unsigned step = 0; step < STEPS_OF_A_BOX && left > 0; step++, left--) one_step(&w);
		for (int i = 0; i < FILES; i++) do_close(&w, i);
		test_store_sound(w.s);
		cb_box_close(w.look);
		cb_box_close(w.b[1]);
		cb_box_close(w.b[0]);
		cb_store_close(w.s);
	}
	test_note("landed %u times, told of a loss %u times, changed and taken unseen %u times", w.landed, w.told, w.unseen);
	CHECK(test_soak() == 1 || (w.landed > 0 && w.told > 0 && w.unseen > 0)); /* a small dose may miss them */
}
