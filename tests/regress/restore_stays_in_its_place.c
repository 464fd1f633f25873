/*
 * restore_stays_in_its_place.c: restoring a path changes what lies at that path and nothing else. It followed symbolic links on the way,
 * in both states, and so wrote to where they lead now; and a file that has further names was changed under those too.
 */
#include "harness/boxes.h"

/* /work/d/f and /work/e/f, and /work/l, a link to d, as `then`. */
static cb_store *open_world(bool memory, cb_box **now, cb_box **then)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	CHECK_OK(cb_box_create(s, "demo", now, &err));
	must_write(*now, "/work/d/f", "d then");
	must_write(*now, "/work/e/f", "e then");
	CHECK_OK(cb_symlink(*now, "d", "/work/l", &err));
	CHECK_OK(cb_checkpoint_save(*now, "then", 0, true, &err));
	*then = must_open(s, "demo@then");
	must_write(*now, "/work/d/f", "d now");
	must_write(*now, "/work/e/f", "e now");
	return s;
}

static void close_world(cb_store *s, cb_box *now, cb_box *then)
{
	cb_box_close(now);
	cb_box_close(then);
	test_store_sound(s);
	cb_store_close(s);
}

static void refused(cb_box *now, cb_box *then, const char *path)
{
	cb_error err = {0};
	uint64_t seq = must_seq(now);
	CHECK_CODE(cb_restore(now, then, path, NULL, &err), CB_LOOP);
	CHECK_MSG(strstr(err.message, path) && strstr(err.message, "symbolic link"), "%s", err.message);
	CHECK_U64(must_seq(now), seq);
}

TEST_BOTH(a_link_on_the_way_now)
{
	cb_error err = {0};
	cb_box *now, *then;
	cb_store *s = open_world(memory, &now, &then);
	CHECK_OK(cb_rename(now, "/work/d", "/work/moved", 0, &err));
	CHECK_OK(cb_symlink(now, "e", "/work/d", &err));
	refused(now, then, "/work/d/f");
	refused(now, then, "/work/d/gone");
	CHECK_OK(cb_unlink(now, "/work/d", &err));
	CHECK_OK(cb_symlink(now, "nowhere", "/work/d", &err));
	refused(now, then, "/work/d/f");
	CHECK(!exists(now, "/work/nowhere"));
	/* The link itself can be named: the folder comes in its place. */
	CHECK_OK(cb_restore(now, then, "/work/d", NULL, &err));
	CHECK_STR(must_read(now, "/work/d/f"), "d then");
	CHECK_STR(must_read(now, "/work/e/f"), "e now");
	CHECK_STR(must_read(now, "/work/moved/f"), "d now");
	close_world(s, now, then);
}

TEST_BOTH(a_link_on_the_way_then)
{
	cb_error err = {0};
	cb_box *now, *then;
	cb_store *s = open_world(memory, &now, &then);
	refused(now, then, "/work/l/f"); /* it leads to the same in both: the path to that is the one to name */
	CHECK_OK(cb_unlink(now, "/work/l", &err));
	must_write(now, "/work/l/f", "l now");
	refused(now, then, "/work/l/f");
	CHECK_STR(must_read(now, "/work/l/f"), "l now");
	CHECK_OK(cb_restore(now, then, "/work/l", NULL, &err));
	CHECK_STR(must_read(now, "/work/l/f"), "d now");
	close_world(s, now, then);
}

static uint64_t links(cb_box *b, const char *path)
{
	cb_error err = {0};
	cb_stat_info info = CB_INIT(cb_stat_info);
	CHECK_OK(cb_stat(b, path, 0, &info, &err));
	return info.links;
}

/* One file as /work/d/a, /work/d/b and /work/out: the names in d become what they were, one file; the one outside stays what it is. */
TEST_BOTH(a_name_outside_the_folder)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/d/a", "then");
	CHECK_OK(cb_link(b, "/work/d/a", "/work/d/b", &err));
	CHECK_OK(cb_link(b, "/work/d/a", "/work/out", &err));
	cb_box *then = must_open(s, "demo@3");
	must_write(b, "/work/out", "now");
	CHECK_OK(cb_restore(b, then, "/work/d", NULL, &err));
	CHECK_STR(must_read(b, "/work/d/a"), "then");
	CHECK_STR(must_read(b, "/work/out"), "now");
	CHECK_U64(links(b, "/work/d/a"), 2);
	CHECK_U64(links(b, "/work/d/b"), 2);
	CHECK_U64(links(b, "/work/out"), 1);
	must_write(b, "/work/d/a", "more");
	CHECK_STR(must_read(b, "/work/d/b"), "more");
	uint64_t seq = 99;
	CHECK_OK(cb_restore(b, then, "/work/d", &seq, &err));
	CHECK_OK(cb_restore(b, then, "/work/d", &seq, &err));
	CHECK_U64(seq, 0);
	/* All of its names are below: it stays one file, and the same one. */
	CHECK_OK(cb_restore(b, then, "/work", NULL, &err));
	CHECK_STR(must_read(b, "/work/out"), "then");
	CHECK_U64(links(b, "/work/out"), 3);
	CHECK_OK(cb_restore(b, then, "/work", &seq, &err));
	CHECK_U64(seq, 0);
	cb_box_close(then);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

TEST_BOTH(another_name_of_a_file)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/a", "then");
	cb_box *then = must_open(s, "demo@1");
	CHECK_OK(cb_link(b, "/work/a", "/work/twin", &err));
	must_write(b, "/work/a", "now");
	CHECK_OK(cb_restore(b, then, "/work/a", NULL, &err));
	CHECK_STR(must_read(b, "/work/a"), "then");
	CHECK_STR(must_read(b, "/work/twin"), "now");
	cb_box_close(then);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

/* Two files then, which are one now, and the other way round; equal bytes do not make them one. */
TEST_BOTH(names_are_joined_and_parted_as_they_were)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/d/a", "same");
	CHECK_OK(cb_copy(b, "/work/d/a", "/work/d/b", 0, &err));
	must_write(b, "/work/d/x", "x");
	CHECK_OK(cb_link(b, "/work/d/x", "/work/d/y", &err));
	cb_box *then = must_open(s, "demo@4");
	CHECK_OK(cb_unlink(b, "/work/d/b", &err));
	CHECK_OK(cb_link(b, "/work/d/a", "/work/d/b", &err));
	CHECK_OK(cb_unlink(b, "/work/d/y", &err));
	CHECK_OK(cb_copy(b, "/work/d/x", "/work/d/y", 0, &err));
	CHECK_OK(cb_restore(b, then, "/work/d", NULL, &err));
	CHECK_U64(links(b, "/work/d/a"), 1);
	CHECK_U64(links(b, "/work/d/b"), 1);
	CHECK_U64(links(b, "/work/d/x"), 2);
	CHECK_U64(links(b, "/work/d/y"), 2);
	cb_box_close(then);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}
