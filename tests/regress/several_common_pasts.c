/* Two boxes that merged the same two others have two common pasts; a base that was pruned is named, not replaced by an older one. */
#include "harness/boxes.h"

static void edit(cb_box *b, const char *a, const char *m, const char *z)
{
	char text[256];
	(void)snprintf(text, sizeof(text), "%s\n1\n2\n3\n4\n%s\n5\n6\n7\n8\n%s\n", a, m, z);
	must_write(b, "/work/f", text);
}

typedef struct cross {
	cb_store *s;
	cb_box *p, *q, *r, *t;
} cross;

static cross open_cross(bool memory)
{
	cb_error err = {0};
	cross c = {.s = test_store_open(memory)};
	CHECK_OK(cb_box_create(c.s, "p", &c.p, &err));
	edit(c.p, "a", "m", "z");
	c.q = must_fork(c.s, "p", "q");
	c.r = must_fork(c.s, "p", "r");
	c.t = must_fork(c.s, "p", "t");
	edit(c.p, "A", "m", "z");
	edit(c.q, "a", "m", "Z");
	CHECK_OK(cb_merge(c.r, c.p, NULL, NULL, NULL, &err));
	CHECK_OK(cb_merge(c.r, c.q, NULL, NULL, NULL, &err));
	CHECK_OK(cb_merge(c.t, c.q, NULL, NULL, NULL, &err));
	CHECK_OK(cb_merge(c.t, c.p, NULL, NULL, NULL, &err));
	return c;
}

static void close_cross(cross *c)
{
	test_store_sound(c->s);
	cb_box_close(c->p);
	cb_box_close(c->q);
	cb_box_close(c->r);
	cb_box_close(c->t);
	cb_store_close(c->s);
}

static void expect(cb_box *b, const char *a, const char *m, const char *z)
{
	char text[256];
	(void)snprintf(text, sizeof(text), "%s\n1\n2\n3\n4\n%s\n5\n6\n7\n8\n%s\n", a, m, z);
	CHECK_STR(must_read(b, "/work/f"), text);
}

/* r takes back p's line; with q alone as base that would be lost. */
TEST_BOTH(a_revert_is_kept)
{
	cb_error err = {0};
	cross c = open_cross(memory);
	expect(c.t, "A", "m", "Z");
	edit(c.r, "a", "m", "Z");
	edit(c.t, "A", "M", "Z");
	CHECK_OK(cb_merge(c.t, c.r, NULL, NULL, NULL, &err));
	expect(c.t, "a", "M", "Z");
	close_cross(&c);
}

/* Sides that are equal where the common pasts conflict pass; sides that differ there conflict. */
TEST_BOTH(pasts_in_conflict)
{
	cb_error err = {0};
	for (int differ = 0; differ < 2; differ++) {
		cross c = open_cross(memory);
		edit(c.p, "P", "m", "z");
		edit(c.q, "Q", "m", "Z");
		cb_merge_options theirs = CB_WITH(cb_merge_options, .prefer = CB_PREFER_THEIRS),
				 ours = CB_WITH(cb_merge_options, .prefer = CB_PREFER_OURS);
		CHECK_OK(cb_merge(c.r, c.p, &theirs, NULL, NULL, &err));
		CHECK_OK(cb_merge(c.r, c.q, &ours, NULL, NULL, &err));
		CHECK_OK(cb_merge(c.t, c.q, &theirs, NULL, NULL, &err));
		CHECK_OK(cb_merge(c.t, c.p, &ours, NULL, NULL, &err));
		edit(c.r, "X", "m", "Z");
		edit(c.t, differ ? "Y" : "X", "m", "Z");
		must_write(c.r, "/work/new", "n");
		CHECK_CODE(cb_merge(c.t, c.r, NULL, NULL, NULL, &err), differ ? CB_CONFLICT : CB_OK);
		if (differ) CHECK_MSG(strstr(err.message, "/work/f"), "%s", err.message);
		else CHECK_STR(must_read(c.t, "/work/new"), "n");
		close_cross(&c);
		if (!memory) break;
	}
}

/* A fork is as old as the state it was made from: what its origin merged before that is kept for it, whatever its origin merges later. */
TEST_BOTH(a_fork_inherits_what_is_kept)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *a = NULL;
	CHECK_OK(cb_box_create(s, "a", &a, &err));
	must_write(a, "/work/f", "1\n2\n3\n4\n5\n");
	cb_box *b = must_fork(s, "a", "b");
	must_write(a, "/work/f", "one\n2\n3\n4\n5\n");
	must_write(a, "/work/x", "x");
	CHECK_OK(cb_merge(b, a, NULL, NULL, NULL, &err));
	cb_box *c = must_fork(s, "b", "c");
	for (int i = 0; i < 3; i++) {
		char text[64];
		(void)snprintf(text, sizeof(text), "one\n2\n3\n4\n%d\n", i);
		must_write(a, "/work/f", text);
		CHECK_OK(cb_merge(b, a, NULL, NULL, NULL, &err));
	}
	CHECK_OK(cb_prune(a, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
	CHECK_OK(cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
	CHECK_OK(cb_store_gc(s, NULL, &err));
	must_write(c, "/work/f", "uno\n2\n3\n4\n5\n"); /* after a's line: with an older base that is a conflict */
	CHECK_OK(cb_merge(c, a, NULL, NULL, NULL, &err));
	CHECK_STR(must_read(c, "/work/f"), "uno\n2\n3\n4\n2\n");
	test_store_sound(s);
	cb_box_close(a);
	cb_box_close(b);
	cb_box_close(c);
	cb_store_close(s);
}

/* A state that prune did not have to keep: an old one, merged by its address. */
TEST_BOTH(a_pruned_base_is_named)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *a = NULL;
	CHECK_OK(cb_box_create(s, "a", &a, &err));
	must_write(a, "/work/f", "1");
	cb_box *b = must_fork(s, "a", "b");
	must_write(a, "/work/f", "2"); /* step 2 */
	CHECK_OK(cb_merge(b, a, NULL, NULL, NULL, &err));
	CHECK_OK(cb_checkpoint_save(b, "then", 0, true, &err));
	must_write(a, "/work/f", "3");
	CHECK_OK(cb_merge(b, a, NULL, NULL, NULL, &err));
	must_write(b, "/work/g", "g");
	CHECK_OK(cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err)); /* no merge can be undone */
	CHECK_OK(cb_prune(a, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
	cb_box *then = must_open(s, "b@then");
	CHECK_OK(cb_box_fork(s, "b@then", "c", NULL, &err));
	cb_box *c = must_open(s, "c");
	must_write(c, "/work/f", "4");
	CHECK_CODE(cb_merge(a, c, NULL, NULL, NULL, &err), CB_STALE);
	CHECK_MSG(strstr(err.message, "step 2 of box 'a'") && strstr(err.message, "pruned"), "%s", err.message);
	CHECK_STR(must_read(a, "/work/f"), "3");
	cb_box_close(then);
	cb_box_close(a);
	cb_box_close(b);
	cb_box_close(c);
	test_store_sound(s);
	cb_store_close(s);
}
