/* main <- middle (deleted, and gone) <- last: what main wrote was nobody's in last, though main has all its steps. */
#include "harness/boxes.h"

static void write_and_fork(cb_store *s, cb_box **b, const char *text, const char *from, const char *to)
{
	must_write(*b, "/work/t", text);
	cb_box_close(*b);
	*b = must_fork(s, from, to);
}

static cb_code check_writer(void *context, const cb_blame_line *line, cb_error *err)
{
	const char *const *writers = context;
	(void)err;
	CHECK_STR(line->box, writers[line->line - 1]);
	return CB_OK;
}

static void collect(cb_store *s, uint64_t boxes_freed)
{
	cb_error err = {0};
	cb_gc_result g = CB_INIT(cb_gc_result);
	CHECK_OK(cb_store_gc(s, &g, &err));
	CHECK_U64(g.boxes_freed, boxes_freed);
}

/* Of the boxes between, what they wrote is nobody's. */
TEST_BOTH(what_a_living_box_wrote_is_its_own)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "main", &b, &err));
	must_write(b, "/work/t", "1\n");
	write_and_fork(s, &b, "1\n2\n", "main", "middle");
	write_and_fork(s, &b, "1\n2\nthree\n", "middle", "next");
	write_and_fork(s, &b, "1\n2\nthree\nfour\n", "next", "last");
	must_write(b, "/work/t", "1\n2\nthree\nfour\nfive\n");
	CHECK_OK(cb_blame(b, "/work/t", check_writer, (const char *[]){"main", "main", "middle", "next", "last"}, &err));
	CHECK_OK(cb_box_delete(s, "middle", &err));
	CHECK_OK(cb_box_delete(s, "next", &err));
	collect(s, 2);
	CHECK_OK(cb_blame(b, "/work/t", check_writer, (const char *[]){"main", "main", "", "", "last"}, &err));
	CHECK_STR(must_blame(b, "/work/t"), "1 2 0 0 1");
	cb_box *main = must_open(s, "main");
	must_write(main, "/work/t", "other\n");
	CHECK_OK(cb_prune(main, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
	CHECK_STR(must_blame(b, "/work/t"), "0 2 0 0 1"); /* the step that it came from stays */
	cb_box_close(main);
	CHECK_OK(cb_box_delete(s, "main", &err));
	collect(s, 1);
	CHECK_STR(must_blame(b, "/work/t"), "0 0 0 0 1");
	cb_box_close(b);
	cb_store_close(s);
}
