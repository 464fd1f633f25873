/*
 * Both sides have the same file, and what they came from does not: one kept it where the other deleted it, and the deletion was undone
 * later. Nobody knows who changed what of it: what is equal passes, whatever differs is a conflict; nothing is taken silently.
 */
#include "harness/boxes.h"

typedef void deed(cb_box *b);

static void nothing(cb_box *b)
{
	(void)b;
}

static void mode_a(cb_box *b)
{
	cb_error err = {0};
	CHECK_OK(cb_chmod(b, "/work/a", 0600, 0, &err));
}

static void mode_b(cb_box *b)
{
	cb_error err = {0};
	CHECK_OK(cb_chmod(b, "/work/a", 0755, 0, &err));
}

static void tag(cb_box *b)
{
	cb_error err = {0};
	CHECK_OK(cb_tag_add(b, "/work/a", "t", &err));
}

static void untag(cb_box *b)
{
	cb_error err = {0};
	CHECK_OK(cb_tag_remove(b, "/work/a", "base", &err));
}

static void text(cb_box *b)
{
	must_write(b, "/work/a", "other\n");
}

static void named(cb_box *b)
{
	cb_error err = {0};
	CHECK_OK(cb_rename(b, "/work/a", "/work/b", 0, &err));
}

static void linked(cb_box *b)
{
	cb_error err = {0};
	CHECK_OK(cb_link(b, "/work/a", "/work/b", &err));
}

static void merged(deed *ours, deed *theirs, cb_code want)
{
	cb_error err = {0};
	for (int way = 0; way < 2; way++) {
		cb_store *s = test_store_open(true);
		cb_box *demo = NULL;
		CHECK_OK(cb_box_create(s, "demo", &demo, &err));
		must_write(demo, "/work/a", "one\n");
		CHECK_OK(cb_tag_add(demo, "/work/a", "base", &err));
		cb_box *f = must_fork(s, "demo", "f");
		must_write(f, "/work/a", "two\n");
		CHECK_OK(cb_unlink(demo, "/work/a", &err));
		CHECK_OK(cb_merge(f, demo, &CB_WITH(cb_merge_options, .prefer = CB_PREFER_OURS), NULL, NULL, &err));
		must_write(f, "/work/a", "one\n");
		CHECK_OK(cb_undo(demo, 0, NULL, &err));
		ours(f);
		theirs(demo);
		cb_box *into = way ? demo : f, *from = way ? f : demo;
		char *before = must_dump(into), *wanted = must_dump(from);
		cb_code code = cb_merge(into, from, NULL, NULL, NULL, &err);
		CHECK_MSG(code == want || (want == CB_OK && code == CB_NOTHING), "%s, expected %s", cb_code_name(code),
		          cb_code_name(want));
		if (want == CB_CONFLICT) {
			CHECK_STR(must_dump(into), before);
			CHECK_OK(cb_merge(into, from, &CB_WITH(cb_merge_options, .prefer = CB_PREFER_THEIRS), NULL, NULL, &err));
		}
		CHECK_STR(must_dump(into), wanted);
		test_store_sound(s);
		cb_box_close(demo);
		cb_box_close(f);
		cb_store_close(s);
	}
}

TEST(equal_passes)
{
	merged(nothing, nothing, CB_OK);
	merged(mode_a, mode_a, CB_OK);
}

TEST(what_differs_conflicts)
{
	static deed *const deeds[] = {mode_a, tag, untag, text, named, linked};
	for (size_t i = 0; i < sizeof(deeds) / sizeof(*deeds); i++) {
		merged(deeds[i], nothing, CB_CONFLICT);
		merged(nothing, deeds[i], CB_CONFLICT);
	}
	merged(mode_a, mode_b, CB_CONFLICT);
}
