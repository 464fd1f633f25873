/*
 * test_open_files.c: open files against a model while their file is changed, renamed, replaced, removed and brought back, by the same box
 * handle and by another, several times in a row without a look at the open file, and closed, alone or after its box handle, also while the
 * running step is in conflict over another file. A handle sees its file, or what it was when it went; what it wrote is in the box, or it
 * was told that it is not. The file may have any size: writes and sizes are near or far, and between them are holes.
 */
#include "harness/boxes.h"

enum {
	FILES = 2, /* handles on the one file */
	TEXT = 240,
	STEPS_CI = 24000,
	STEPS_OF_A_BOX = 500,
	ROW = 4, /* changes of the box before the open files are looked at again, at most */
};

/* Where bytes are written, besides those at the beginning. */
static const uint64_t fars[] = {(uint64_t)1 << 21, (uint64_t)1 << 32, (uint64_t)5 << 40};
enum { FARS = sizeof(fars) / sizeof(*fars) };

/* What the file holds: everything else is zeros, and so is what lies past the size. */
typedef struct picture {
	uint64_t size;
	char near[TEXT];
	char far[FARS];
} picture;

/* What is known of the file by looking at the box through a third handle. */
typedef struct seen {
	const char *path; /* one of them; NULL: it is not there */
	picture held;
} seen;

typedef struct world {
	cb_store *s;
	cb_box *b[2]; /* [0] has the files open */
	cb_box *look; /* only ever reads */
	cb_file *f[FILES];
	bool wrote[FILES]; /* while it was gone */
	bool lost[FILES];  /* must be told */
	uint64_t ino;      /* of the file that is open; 0: none is */
	seen now;          /* it in the box */
	bool gone, dirty;  /* to its handles it is not in the box; something was written to it since */
	picture handle;    /* what its handles see */
	picture went;      /* what it went with, when dirty */
	picture known;     /* what its handles would have seen when their box handle was last used; gone: when they were */
	uint64_t taken;    /* the step after which it was not in the box, when it is not */
	enum { BY_CALL, BY_HISTORY, BY_NOBODY_KNOWS } by; /* what took it away */
	test_rng r;
	unsigned landed, told, unseen;
	unsigned beside, at_box_close; /* of those that landed */
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

static bool same(const picture *a, const picture *b)
{
	return a->size == b->size && memcmp(a->near, b->near, TEXT) == 0 && memcmp(a->far, b->far, FARS) == 0;
}

static void check_same(const picture *is, const picture *expected)
{
	CHECK_MSG(same(is, expected), "%llu bytes of '%.*s', not %llu of '%.*s'", (unsigned long long)is->size, TEXT, is->near,
	          (unsigned long long)expected->size, TEXT, expected->near);
}

static picture read_picture(cb_file *f)
{
	picture out = {0};
	size_t n = 0;
	cb_stat_info info = CB_INIT(cb_stat_info);
	CHECK_OK(cb_pread(f, out.near, TEXT, 0, &n, &err));
	for (int i = 0; i < FARS; i++) CHECK_OK(cb_pread(f, out.far + i, 1, fars[i], &n, &err));
	CHECK_OK(cb_fstat(f, &info, &err));
	out.size = info.size;
	return out;
}

static void picture_resize(picture *p, uint64_t size)
{
	if (size < TEXT) memset(p->near + size, 0, TEXT - (size_t)size);
	for (int i = 0; i < FARS; i++)
		if (size <= fars[i]) p->far[i] = 0;
	p->size = size;
}

static seen look(world *w)
{
	seen out = {0};
	for (int i = 0; i < PATHS && w->ino && !out.path; i++)
		if (ino_at(w, paths[i]) == w->ino) out.path = paths[i];
	if (!out.path) return out;
	cb_file *f = NULL;
	CHECK_OK(cb_open(w->look, out.path, CB_READ, 0, &f, &err));
	out.held = read_picture(f);
	CHECK_OK(cb_close(f, &err));
	return out;
}

static void check_landed(world *w)
{
	seen now = look(w);
	check_same(&now.held, &w->handle);
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
	if (was && !w->now.path) {
		w->by = by;
		w->taken = must_seq(w->look);
	}
	if (!w->dirty && w->now.path) w->handle = w->now.held;
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
		cb_stat_info info = CB_INIT(cb_stat_info);
		if (!w->f[i]) continue;
		picture is = read_picture(w->f[i]);
		check_same(&is, &w->handle);
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
	w->handle = w->now.held;
}

static uint64_t random_size(world *w)
{
	uint64_t far = fars[test_rand_below(&w->r, FARS)];
	return test_rand_below(&w->r, 2) ? test_rand_below(&w->r, 2 * TEXT) : far - 1 + test_rand_below(&w->r, 3);
}

/* One call; *p as it is afterwards. What was longer keeps its end. */
static cb_code write_some(world *w, cb_file *f, picture *p)
{
	char text[TEXT + 1];
	uint64_t which = test_rand_below(&w->r, 8), size = random_size(w), far = test_rand_below(&w->r, FARS);
	if (which == 0) {
		picture_resize(p, size);
		return cb_ftruncate(f, size, &err);
	}
	random_text(w, "", text);
	size_t n = which == 1 ? 1 : strlen(text);
	uint64_t at = which == 1 ? fars[far] : 0;
	memcpy(which == 1 ? p->far + far : p->near, text, n);
	if (p->size < at + n) p->size = at + n;
	return cb_pwrite(f, text, n, at, &err);
}

static void do_write(world *w, int i)
{
	picture after = w->handle;
	if (!w->f[i]) return;
	cb_code code = write_some(w, w->f[i], &after);
	if (told(w, i, code)) return;
	CHECK_OK(code);
	if (w->gone && !w->dirty) w->went = w->handle;
	w->handle = after;
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
	if (!w->gone) check_landed(w);
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
		if (!w->gone) check_landed(w);
	}
	if (!last) w->wrote[!i] = w->wrote[!i] || wrote;
	if (last) {
		w->ino = 0;
		w->now = (seen){0};
	}
}

/* What was written while it was gone lands or is lost, if it is back at this moment. True: it lands. */
static bool settle(world *w)
{
	bool lands = w->now.path && w->dirty && same(&w->now.held, &w->went);
	w->gone = !w->now.path;
	if (w->gone || !w->dirty) return false;
	w->landed += lands;
	if (!lands) w->handle = w->now.held;
	for (int i = 0; i < FILES; i++) w->lost[i] = w->lost[i] || (!lands && w->wrote[i]);
	memset(w->wrote, 0, sizeof(w->wrote));
	w->dirty = false;
	return lands;
}

/* The open files are used again. */
static void files_used(world *w)
{
	if (w->ino == 0) return;
	(void)settle(w);
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
	CHECK_OK(cb_ftruncate(g, test_rand_below(&w->r, 4) ? 4 + test_rand_below(&w->r, 4) : random_size(w), &err));
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

static void sync_all(world *w)
{
	for (int i = 0; i < FILES; i++)
		if (w->f[i]) do_sync(w, i);
}

static bool was_pruned(world *w, uint64_t seq)
{
	char address[32];
	cb_box *old = NULL;
	(void)snprintf(address, sizeof(address), "demo@%llu", (unsigned long long)seq);
	cb_code code = cb_box_open(w->s, address, &old, &err);
	CHECK(code == CB_OK || code == CB_STALE);
	cb_box_close(old);
	return code == CB_STALE;
}

/* What took the file was pruned before its handles were used again: nobody knows the state before that step, and they go on with what they
 * saw last. If that was a file that is gone, it may have been back: then what their box handle saw of that, when it was used for something
 * else, may be known or not. */
static void forget(world *w)
{
	if (w->gone) {
		picture is = read_picture(w->f[0] ? w->f[0] : w->f[1]);
		if (same(&is, &w->handle)) return;
	}
	w->handle = w->known;
}

/* What the handles keep stays, and so does what they know: what took the file, if they were used since. If they were not, it is looked for
 * from the newest step down, as far as none of them is missing. */
static void prune(world *w, bool noticed)
{
	CHECK_OK(cb_prune(w->b[1], &CB_WITH(cb_prune_options, .keep_steps = 1 + test_rand_below(&w->r, 8)), NULL, &err));
	CHECK_OK(cb_store_gc(w->s, NULL, &err));
	if (w->ino == 0 || w->now.path || noticed) return;
	w->by = BY_NOBODY_KNOWS;
	bool found = w->dirty; /* what was written to it stands on what they know */
	for (uint64_t seq = must_seq(w->look); !found && !was_pruned(w, seq); seq--) found = seq == w->taken;
	if (!found) forget(w);
}

static void some_change(world *w, cb_box *b)
{
	const char *other = paths[test_rand_below(&w->r, PATHS)];
	/* Mostly the file, wherever it is by now. */
	const char *path = w->now.path && test_rand_below(&w->r, 4) ? w->now.path : paths[test_rand_below(&w->r, 2)];
	bool mine = b == w->b[0];
	if (mine) CHECK(exists(b, "/work")); /* a use of it, also where nothing can be changed */
	if (mine && !w->gone) w->known = w->handle;
	if (!ino_at(w, "/work/d")) CHECK_OK(cb_mkdir(b, "/work/d", 0755, 0, &err));
	uint64_t which = test_rand_below(&w->r, 16);
	if (which < 6) change_history(w, b);
	else if (which == 6) change_by_merge(w, b, path);
	else if (which == 7) change_through_file(w, path);
	else change_by_path(w, b, path, other);
	if (mine && !w->gone && which != 7) w->known = w->handle;
}

static void change_box(world *w)
{
	sync_all(w); /* the running step must not meet a change of the other handle: that is in_conflict() */
	w->known = w->handle;
	bool foreign = test_rand_below(&w->r, 2); /* the handle with the open files sees none of it until it is over */
	for (uint64_t left = 1 + test_rand_below(&w->r, ROW); left > 0; left--)
		some_change(w, w->b[foreign || test_rand_below(&w->r, 2)]);
	w->unseen += foreign && w->ino && !w->now.path && !w->dirty && !same(&w->known, &w->handle);
	bool pruned = test_rand_below(&w->r, 48) == 0, noticed = test_rand_below(&w->r, 4);
	if (pruned && !noticed) prune(w, false);
	files_used(w);
	if (pruned && noticed) prune(w, true);
}

/* ---- a running step in conflict, and box handles that are closed first ---- */

static const char side_path[] = "/work/side";

/* Mostly, if it is there, it goes, and its handles see that. The step that took it; 0: none. */
static uint64_t remove_file(world *w)
{
	if (!w->now.path || test_rand_below(&w->r, 4) == 0) return 0;
	sync_all(w);
	if (w->now.path) CHECK_OK(cb_unlink(w->b[1], w->now.path, &err));
	uint64_t seq = must_seq(w->b[1]);
	box_changed(w, BY_CALL);
	files_used(w);
	return w->gone ? seq : 0; /* or it has another name */
}

/* Mostly it comes back, as it went. */
static void bring_back(world *w, uint64_t seq)
{
	if (!seq || test_rand_below(&w->r, 4) == 0) return;
	allow(cb_undo(w->b[1], seq, NULL, &err));
	box_changed(w, BY_HISTORY);
}

/* A running step with a change of another file begins; what others do to the file meanwhile its handles do not see; then they change the
 * other file too. */
static cb_file *in_conflict(world *w, uint64_t removed)
{
	cb_file *side = NULL;
	char text[TEXT + 1];
	sync_all(w);
	must_write(w->b[1], side_path, "base");
	CHECK_OK(cb_open(w->b[0], side_path, CB_WRITE, 0, &side, &err));
	CHECK_OK(cb_pwrite(side, "mine", 4, 0, &err));
	for (int i = 0; i < FILES; i++)
		if (w->gone && test_rand_below(&w->r, 2)) do_write(w, i);
	if (test_rand_below(&w->r, 2)) bring_back(w, removed);
	else
		for (uint64_t left = test_rand_below(&w->r, ROW); left > 0; left--) some_change(w, w->b[1]);
	random_text(w, "theirs ", text);
	must_write(w->b[1], side_path, text);
	return side;
}

static void close_in_conflict(world *w, int i)
{
	if (!w->f[i]) return;
	bool last = !w->f[!i], lands = last && settle(w), wrote = w->wrote[i];
	cb_code code = cb_close(w->f[i], &err);
	w->f[i] = NULL;
	w->wrote[i] = false;
	w->beside += lands;
	if (!told(w, i, code)) {
		bool taken = last && w->gone && wrote;
		if (taken && w->by == BY_NOBODY_KNOWS) CHECK(code == CB_CONFLICT || code == CB_STALE);
		else CHECK_CODE(code, taken && w->by == BY_HISTORY ? CB_STALE : CB_CONFLICT);
	}
	if (lands) check_landed(w);
	if (!last) w->wrote[!i] = w->wrote[!i] || wrote;
	if (!last) return;
	w->ino = 0;
	w->now = (seen){0};
}

static void decide(world *w)
{
	uint64_t how = test_rand_below(&w->r, 4);
	cb_commit_options prefer = CB_WITH(cb_commit_options, .prefer = how == 0 ? CB_PREFER_TXN : CB_PREFER_BOX);
	cb_code code = how < 2 ? cb_txn_commit(w->b[0], &prefer, NULL, &err) : CB_CONFLICT;
	CHECK_MSG(code == CB_OK || code == CB_CONFLICT, "%s: %s", cb_code_name(code), err.message);
	if (code == CB_OK) return;
	if (how == 3) CHECK_OK(cb_txn_keep(w->b[0], "kept", NULL, &err));
	else CHECK_OK(cb_txn_drop(w->b[0], &err));
	if (how == 3) CHECK_OK(cb_box_delete(w->s, "kept", &err));
}

static void close_box_first(world *w)
{
	w->at_box_close += w->ino && settle(w);
	cb_box_close(w->b[0]);
	if (w->ino && !w->gone) check_landed(w);
	for (int i = 0; i < FILES; i++) do_close(w, i);
	w->b[0] = must_open(w->s, "demo");
}

/* Without a conflict. */
static void close_alone(world *w)
{
	bring_back(w, remove_file(w));
	close_box_first(w);
}

static void conflict(world *w)
{
	cb_file *side = in_conflict(w, remove_file(w));
	bool box_first = test_rand_below(&w->r, 4) == 0;
	if (box_first) close_box_first(w);
	int i = (int)test_rand_below(&w->r, FILES);
	for (uint64_t left = test_rand_below(&w->r, 4) ? FILES : test_rand_below(&w->r, FILES); left > 0; left--, i = !i)
		close_in_conflict(w, i);
	if (!box_first) decide(w);
	CHECK_OK(cb_close(side, &err));
	files_used(w);
}

static void one_step(world *w)
{
	int i = (int)test_rand_below(&w->r, FILES);
	if (w->ino && test_rand_below(&w->r, 16) == 0) {
		if (test_rand_below(&w->r, 4)) conflict(w);
		else close_alone(w);
	}
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
	test_note("of those that landed: %u beside a step in conflict, %u when the box handle was closed", w.beside,
	          w.at_box_close);
	CHECK(test_soak() == 1 || (w.landed > 0 && w.told > 0 && w.unseen > 0)); /* a small dose may miss them */
}
