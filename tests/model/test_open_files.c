/*
 * test_open_files.c: open files against a model while their file goes and comes back: unlinked, undone, redone, restored, by the same box
 * handle and by another. A handle sees its file; what it wrote is in the box, or it was told that it is not.
 */
#include "harness/boxes.h"

enum {
	FILES = 2, /* handles on the one file */
	TEXT = 24,
	STEPS_CI = 6000,
};

/* What is known of the file by looking at the box through a third handle. */
typedef struct seen {
	bool there;
	uint64_t ino;
	char text[TEXT + 1];
} seen;

typedef struct world {
	cb_store *s;
	cb_box *b[2]; /* [0] has the files open */
	cb_box *look; /* only ever reads */
	cb_file *f[FILES];
	bool wrote[FILES];     /* while it was gone */
	bool lost[FILES];      /* must be told */
	uint64_t ino;          /* of the file that is open */
	bool gone, dirty;      /* it is not in the box; something was written to it since */
	char handle[TEXT + 1]; /* what its handles see */
	char went[TEXT + 1];   /* what it went with, when dirty */
	char by[16];           /* what took it away */
	test_rng r;
	unsigned landed, told;
} world;

static cb_error err;

static seen look(world *w)
{
	seen out = {0};
	cb_stat_info info = CB_INIT(cb_stat_info);
	cb_code code = cb_stat(w->look, "/work/a", 0, &info, &err);
	CHECK(code == CB_OK || code == CB_NOTFOUND);
	if (code != CB_OK) return out;
	char *bytes = NULL;
	CHECK_OK(cb_read_file(w->look, "/work/a", &bytes, NULL, &err));
	out.there = true;
	out.ino = info.ino;
	(void)snprintf(out.text, sizeof(out.text), "%s", bytes);
	cb_free(bytes);
	return out;
}

/* ---- the model ---- */

/* After a change of the box by path or through history, all of which end the running step first. */
static void box_changed(world *w, const char *by)
{
	if (w->ino == 0) return;
	seen now = look(w);
	bool there = now.there && now.ino == w->ino;
	if (!there && !w->gone) {
		w->gone = true;
		(void)snprintf(w->by, sizeof(w->by), "%s", by);
	} else if (there && !w->gone) {
		memcpy(w->handle, now.text, sizeof(w->handle));
	} else if (there) {
		bool lands = w->dirty && strcmp(now.text, w->went) == 0;
		w->landed += lands;
		if (!lands) memcpy(w->handle, now.text, sizeof(w->handle));
		for (int i = 0; i < FILES; i++) w->lost[i] = w->lost[i] || (w->dirty && !lands && w->wrote[i]);
		memset(w->wrote, 0, sizeof(w->wrote));
		w->gone = w->dirty = false;
		/* What lands does so at the next use of a handle; until then the box could change again. So it is used now. */
		char byte;
		size_t n;
		for (int i = 0; i < FILES; i++)
			if (w->f[i]) CHECK_OK(cb_pread(w->f[i], &byte, 1, 0, &n, &err));
	}
}

static bool by_history(const world *w)
{
	return strcmp(w->by, "history") == 0;
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
	cb_code code = cb_open(w->b[0], "/work/a", CB_READ | CB_WRITE, 0, &w->f[i], &err);
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
	memcpy(w->handle, look(w).text, sizeof(w->handle));
}

static void do_write(world *w, int i)
{
	char text[TEXT + 1];
	if (!w->f[i]) return;
	int n = snprintf(text, sizeof(text), "%llu", (unsigned long long)test_rand_below(&w->r, 100000));
	cb_code code = cb_pwrite(w->f[i], text, (size_t)n, 0, &err);
	if (told(w, i, code)) return;
	CHECK_OK(code);
	if (w->gone && !w->dirty) memcpy(w->went, w->handle, sizeof(w->went));
	memcpy(w->handle, text, (size_t)n); /* what was longer keeps its end */
	w->wrote[i] = w->wrote[i] || w->gone;
	w->dirty = w->dirty || w->gone;
}

static void do_sync(world *w, int i)
{
	if (!w->f[i]) return;
	cb_code code = cb_fsync(w->f[i], &err);
	if (told(w, i, code)) return;
	if (w->gone && w->wrote[i] && by_history(w)) CHECK_CODE(code, CB_STALE);
	else CHECK_OK(code);
	if (!w->gone) CHECK_STR(look(w).text, w->handle);
}

static void do_close(world *w, int i)
{
	if (!w->f[i]) return;
	bool last = !w->f[!i], wrote = w->wrote[i];
	cb_code code = cb_close(w->f[i], &err);
	w->f[i] = NULL;
	w->wrote[i] = false;
	if (!told(w, i, code)) {
		if (w->gone && wrote && last && by_history(w)) CHECK_CODE(code, CB_STALE);
		else CHECK_OK(code);
		if (!w->gone) CHECK_STR(look(w).text, w->handle);
	}
	if (!last) w->wrote[!i] = w->wrote[!i] || wrote;
	if (last) w->ino = 0;
}

static void do_restore(world *w, cb_box *b)
{
	uint64_t newest = must_seq(b);
	char address[32];
	(void)snprintf(address, sizeof(address), "demo@-%llu",
	               (unsigned long long)test_rand_below(&w->r, newest < 6 ? newest + 1 : 6));
	cb_box *old = must_open(w->s, address);
	CHECK_OK(cb_restore(b, old, NULL, NULL, &err));
	cb_box_close(old);
}

static void change_box(world *w)
{
	cb_box *b = w->b[test_rand_below(&w->r, 2)];
	/* The running step must not meet a change of the other handle: that is a conflict, which is another test. */
	for (int i = 0; i < FILES; i++)
		if (w->f[i]) do_sync(w, i);
	switch (test_rand_below(&w->r, 6)) {
	case 0:
		if (look(w).there) CHECK_OK(cb_unlink(b, "/work/a", &err));
		box_changed(w, "unlink");
		return;
	case 1: {
		char text[TEXT];
		(void)snprintf(text, sizeof(text), "path %llu", (unsigned long long)test_rand_below(&w->r, 1000));
		must_write(b, "/work/a", text);
		box_changed(w, "write");
		return;
	}
	case 2:
	case 3: {
		cb_code code = cb_undo(b, 0, NULL, &err);
		CHECK_MSG(code == CB_OK || code == CB_NOTHING || code == CB_CONFLICT, "%s: %s", cb_code_name(code), err.message);
		break;
	}
	case 4: {
		cb_code code = cb_redo(b, NULL, &err);
		CHECK_MSG(code == CB_OK || code == CB_NOTHING || code == CB_CONFLICT, "%s: %s", cb_code_name(code), err.message);
		break;
	}
	default:
		do_restore(w, b);
		break;
	}
	box_changed(w, "history");
}

TEST_LIMIT(open_files_against_a_model, 240)
{
	world w = {.r = {test_seed()}};
	w.s = test_store_open(true);
	CHECK_OK(cb_box_create(w.s, "demo", &w.b[0], &err));
	w.b[1] = must_open(w.s, "demo");
	w.look = must_open(w.s, "demo");
	for (unsigned step = 0; step < test_dose(STEPS_CI); step++) {
		int i = (int)test_rand_below(&w.r, FILES);
		switch (test_rand_below(&w.r, 12)) {
		case 0:
		case 1:
			do_open(&w, i);
			break;
		case 2:
		case 3:
		case 4:
		case 5:
			do_write(&w, i);
			break;
		case 6:
			do_sync(&w, i);
			break;
		case 7:
			do_close(&w, i);
			break;
		default:
			change_box(&w);
			break;
		}
		check_handles(&w);
	}
	for (int i = 0; i < FILES; i++) do_close(&w, i);
	test_note("landed %u times, told of a loss %u times", w.landed, w.told);
	CHECK(test_soak() == 1 || (w.landed > 0 && w.told > 0)); /* a small dose may miss them */
	test_store_sound(w.s);
	cb_box_close(w.look);
	cb_box_close(w.b[1]);
	cb_box_close(w.b[0]);
	cb_store_close(w.s);
}
