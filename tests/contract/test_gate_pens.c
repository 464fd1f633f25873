/*
 * test_gate_pens.c: looks and pens, which other layers see and change a box by: what the gate hides from a look and refuses to a pen, each
 * where the other checks would come later or not at all.
 */
#include "harness/ruled_box.h"

TEST(looks_show_what_their_handle_does)
{
	box_node n;
	uint64_t count = 0, shown = 0;
	begin(true);
	put(owner, "/work/hid/a", "a");
	put(owner, "/work/sub/b", "b");
	uint64_t hidden = node_of(owner, "/work/hid/a").ino;
	rules_add(&all, RULE_HIDE, "/work/hid");
	look *newest = NULL, *at = NULL, *mine = NULL;
	CHECK_OK(look_open(agent, LOOK_NEWEST, &newest, &err));
	box_place now = look_place(newest);
	CHECK_OK(look_open_at(agent, &now, NULL, &at, &err));
	CHECK_CODE(look_find(newest, "/work/hid/a", false, &n, &err), CB_NOTFOUND);
	CHECK_CODE(look_node(newest, hidden, &n, &err), CB_NOTFOUND);
	CHECK_CODE(look_node(at, hidden, &n, &err), CB_NOTFOUND);
	CHECK_OK(look_open(owner, LOOK_NEWEST, &mine, &err));
	CHECK_OK(look_node(mine, hidden, &n, &err));
	CHECK_OK(look_count(mine, &count, &err));
	CHECK_OK(look_count(newest, &shown, &err));
	CHECK_U64(shown, count - 2);
	rules_clear(&all);
	rules_add(&all, RULE_HIDE, "/work/sub/b");
	CHECK_OK(look_count(newest, &shown, &err));
	CHECK_U64(shown, count - 1);
	look_close(mine);
	look_close(at);
	look_close(newest);
	end();
}

/* A pen is refused where it writes, not after all of it was written; by folder and name as by number. */
TEST(pens_are_refused_at_once)
{
	box_node n;
	pen *e = NULL;
	begin(true);
	put(owner, "/work/hid/a", "a");
	put(owner, "/work/ro/r", "r");
	put(owner, "/work/b", "b");
	put(owner, "/work/z/b", "b");
	CHECK_OK(cb_link(owner, "/work/ro/r", "/work/link", &err));
	CHECK_OK(cb_link(owner, "/work/ro/r", "/work/z/link", &err)); /* the kept name is neither the first nor the last */
	box_node hid = node_of(owner, "/work/hid"), a = node_of(owner, "/work/hid/a"), ro = node_of(owner, "/work/ro");
	box_node r = node_of(owner, "/work/ro/r"), work = node_of(owner, "/work"), b = node_of(owner, "/work/b");
	rules_add(&all, RULE_HIDE, "/work/hid");
	rules_add(&all, RULE_READ_ONLY, "/work/ro");
	CHECK_OK(pen_begin(agent, "test", "", &e, &err));
	CHECK_CODE(look_node(pen_base(e), a.ino, &n, &err), CB_NOTFOUND);
	CHECK_CODE(look_node(pen_look(e), a.ino, &n, &err), CB_NOTFOUND);
	CHECK_CODE(pen_allow(e, ro.ino, span_str("r"), &r, &err), CB_DENIED);
	CHECK_OK(look_node(pen_look(e), r.ino, &n, &err)); /* to be read it is free, by all its names */
	CHECK_CODE(pen_allow(e, work.ino, span_str("link"), &r, &err), CB_DENIED);
	CHECK_CODE(pen_make(e, hid.ino, span_str("new"), CB_FILE, 0644, &n, &err), CB_DENIED);
	CHECK_CODE(pen_make(e, work.ino, span_str("hid"), CB_FILE, 0644, &n, &err), CB_DENIED);
	CHECK_CODE(pen_make(e, ro.ino, span_str("new"), CB_FILE, 0644, &n, &err), CB_DENIED);
	CHECK_CODE(pen_remove(e, ro.ino, span_str("r"), NULL, &err), CB_DENIED);
	CHECK_CODE(pen_remove(e, hid.ino, span_str("a"), NULL, &err), CB_NOTFOUND);
	CHECK_CODE(pen_link(e, b.ino, ro.ino, span_str("new"), NULL, &err), CB_DENIED);
	CHECK_CODE(pen_link(e, a.ino, work.ino, span_str("new"), NULL, &err), CB_NOTFOUND);
	CHECK_CODE(pen_move(e, work.ino, span_str("b"), ro.ino, span_str("b"), &err), CB_DENIED);
	CHECK_CODE(pen_move(e, ro.ino, span_str("r"), work.ino, span_str("r"), &err), CB_DENIED);
	CHECK_OK(pen_end(e, CB_OK, &err));
	CHECK_STR(must_read(owner, "/work/b"), "b");
	end();
}

/* A folder that the pen moved is where it is now. */
TEST(pens_are_refused_by_where_folders_are)
{
	box_node n;
	pen *e = NULL;
	begin(true);
	put(owner, "/work/F/a", "a");
	box_node work = node_of(owner, "/work"), dir = node_of(owner, "/work/F");
	rules_add(&all, RULE_READ_ONLY, "/work/there/x");
	CHECK_OK(pen_begin(agent, "test", "", &e, &err));
	CHECK_OK(pen_make(e, dir.ino, span_str("y"), CB_FILE, 0644, &n, &err));
	CHECK_OK(pen_move(e, work.ino, span_str("F"), work.ino, span_str("there"), &err));
	CHECK_CODE(pen_make(e, dir.ino, span_str("x"), CB_FILE, 0644, &n, &err), CB_DENIED);
	CHECK_CODE(pen_end(e, CB_OK, &err), CB_DENIED);
	end();
}

/* So is one that the pen made, also in the eyes of the second look, which asks about all of it. */
TEST(what_a_pen_made_is_weighed_where_it_is)
{
	box_node n, dir;
	pen *e = NULL;
	begin(true);
	box_node work = node_of(owner, "/work");
	rules_add(&all, RULE_READ_ONLY, "/work/there/x");
	CHECK_OK(pen_begin(agent, "test", "", &e, &err));
	CHECK_OK(pen_make(e, work.ino, span_str("new"), CB_DIR, 0755, &dir, &err));
	CHECK_OK(pen_make(e, dir.ino, span_str("x"), CB_FILE, 0644, &n, &err));
	CHECK_OK(pen_move(e, work.ino, span_str("new"), work.ino, span_str("there"), &err));
	CHECK_CODE(pen_end(e, CB_OK, &err), CB_DENIED);
	CHECK(!exists(owner, "/work/there"));
	end();
}

static cb_code no_hidden_change(void *context, const cb_change *c, cb_error *e)
{
	(void)e;
	++*(int *)context;
	CHECK_MSG(!strstr(c->path, "hid"), "%s", c->path);
	return CB_OK;
}

TEST(what_a_transaction_changed_is_told_by_the_rules_of_now)
{
	int count = 0;
	begin(true);
	put(owner, "/work/hid/old", "o");
	cb_box *t = must_begin(agent);
	put(t, "/work/hid/new", "n");
	put(t, "/work/a", "a");
	CHECK_OK(cb_unlink(t, "/work/hid/old", &err));
	rules_add(&all, RULE_HIDE, "/work/hid");
	CHECK_OK(box_txn_changes(t, no_hidden_change, &count, &err));
	CHECK(count == 1);
	cb_box_close(t);
	end();
}
