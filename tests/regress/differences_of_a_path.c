/*
 * differences_of_a_path.c: the path of a difference is resolved as every other path: in the newer state or, where nothing is there, in the
 * older one. What leads nowhere in both is an error, not a difference without changes.
 */
#include "harness/boxes.h"

typedef struct world {
	cb_box *from, *to;
	uint64_t seq; /* the step between the two */
} world;

static cb_code count_change(void *context, const cb_change *c, cb_error *err)
{
	(void)c;
	(void)err;
	++*(int *)context;
	return CB_OK;
}

static cb_code count_stat(void *context, const cb_change_stat *s, cb_error *err)
{
	(void)s;
	(void)err;
	++*(int *)context;
	return CB_OK;
}

static void all_differences(const world *w, const char *path, cb_code expected, int changes)
{
	int counts[3] = {0};
	char *text = NULL;
	cb_cursor *cursors[3] = {0};
	cb_code codes[] = {
		cb_diff(w->from, w->to, path, count_change, &counts[0], NULL),
		cb_diff_step(w->to, w->seq, path, count_change, &counts[1], NULL),
		cb_diff_stat(w->from, w->to, path, count_stat, &counts[2], NULL),
		cb_diff_text(w->from, w->to, &CB_WITH(cb_diff_text_options, .path = path), &text, NULL, NULL),
		cb_diff_open(w->from, w->to, path, &cursors[0], NULL),
		cb_diff_step_open(w->to, w->seq, path, &cursors[1], NULL),
		cb_diff_stat_open(w->from, w->to, path, &cursors[2], NULL),
	};
	for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++)
		CHECK_MSG(codes[i] == expected, "%.40s: call %zu: %s", path, i, cb_code_name(codes[i]));
	for (size_t i = 0; i < 3; i++) {
		CHECK_MSG(counts[i] == changes, "%.40s: call %zu: %d changes", path, i, counts[i]);
		cb_cursor_close(cursors[i]);
	}
	if (expected == CB_OK) CHECK((*text != 0) == (changes > 0));
	cb_free(text);
}

TEST_BOTH(differences_of_a_path)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	CHECK_OK(cb_mkdir(b, "/work/d", 0755, 0, &err));
	CHECK_OK(cb_symlink(b, "d", "/work/l", &err));
	CHECK_OK(cb_symlink(b, "/work/loop", "/work/loop", &err));
	must_write(b, "/work/gone/x", "x");
	must_write(b, "/work/kind/y", "y");
	uint64_t before = must_seq(b);
	cb_box *t = must_begin(b);
	must_write(t, "/work/d/c", "c");
	CHECK_OK(cb_remove(t, "/work/gone", &err));
	CHECK_OK(cb_remove(t, "/work/kind", &err));
	must_write(t, "/work/kind", "a file");
	world w = {NULL, b, must_commit(t).seq};
	char address[32], longest[5000];
	(void)snprintf(address, sizeof(address), "demo@%llu", (unsigned long long)before);
	w.from = must_open(s, address);
	memset(longest, 'x', sizeof(longest));
	longest[sizeof(longest) - 1] = 0;

	static const char *const one[] = {"/work/d",      "work/d",         "/work//./d/",      "/work/../work/d", "../work/d",
	                                  "/work/d/c",    "/work/d/../d/c", "/work/l/c",        "/work/l/",        "work/l/c",
	                                  "/work/gone/x", "/work/kind/y",   "/work/l/../gone/x"};
	for (size_t i = 0; i < sizeof(one) / sizeof(*one); i++) all_differences(&w, one[i], CB_OK, 1);
	all_differences(&w, "/work/l", CB_OK, 0);      /* the link itself did not change */
	all_differences(&w, "/work/d/none", CB_OK, 0); /* as the log of a name that never was, in a folder that is */
	all_differences(&w, "/work/nope/../d", CB_NOTFOUND, 0);
	all_differences(&w, "/work/nope/x", CB_NOTFOUND, 0);
	all_differences(&w, "/work/loop/x", CB_LOOP, 0);
	all_differences(&w, longest, CB_NAMETOOLONG, 0);
	all_differences(&w, "", CB_NOTFOUND, 0);
	cb_box_close(w.from);
	cb_box_close(b);
	cb_store_close(s);
}
