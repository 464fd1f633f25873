/* Editors and `sed -i` save by a new file over the old name: that is still the same file to a merge, one conflict for one path. */
#include "harness/boxes.h"

typedef struct heard {
	unsigned count;
	char last[64];
} heard;

static cb_prefer hear(void *context, const cb_conflict *c)
{
	heard *h = context;
	h->count++;
	(void)snprintf(h->last, sizeof(h->last), "%s: %s", c->path, c->reason);
	return CB_PREFER_NONE;
}

typedef enum how { IN_PLACE, BY_RENAME, ANEW, DELETED } how;

static void save(cb_box *b, how h, const char *text)
{
	cb_error err = {0};
	if (h == ANEW || h == DELETED) CHECK_OK(cb_unlink(b, "/work/f", &err));
	if (h == IN_PLACE || h == ANEW) must_write(b, "/work/f", text);
	if (h == BY_RENAME) {
		must_write(b, "/work/.f.tmp", text);
		CHECK_OK(cb_rename(b, "/work/.f.tmp", "/work/f", 0, &err));
	}
}

/* NULL: a conflict, one. */
static void one(how here, how there, const char *ours, const char *theirs, const char *expected)
{
	cb_error err = {0};
	heard h = {0};
	cb_store *s = test_store_open(true);
	cb_box *a = NULL;
	CHECK_OK(cb_box_create(s, "a", &a, &err));
	must_write(a, "/work/f", "1\n2\n3\n4\n5\n");
	CHECK_OK(cb_tag_add(a, "/work/f", "kept", &err));
	cb_box *b = must_fork(s, "a", "b");
	save(a, here, ours);
	save(b, there, theirs);
	cb_code code = cb_merge(a, b, &CB_WITH(cb_merge_options, .resolve = hear, .context = &h), NULL, NULL, &err);
	CHECK_MSG(code == (expected ? CB_OK : CB_CONFLICT), "%d %d: %s (%s)", (int)here, (int)there, cb_code_name(code),
	          err.message);
	if (expected) CHECK_STR(must_read(a, "/work/f"), expected);
	CHECK_MSG(h.count == (expected ? 0 : 1), "%d %d: %u conflicts, the last %s", (int)here, (int)there, h.count, h.last);
	if (!expected) CHECK_MSG(strncmp(h.last, "/work/f: ", 9) == 0, "%s", h.last);
	test_store_sound(s);
	cb_box_close(a);
	cb_box_close(b);
	cb_store_close(s);
}

TEST(saved_by_rename)
{
	for (how here = IN_PLACE; here <= ANEW; here++) {
		for (how there = IN_PLACE; there <= ANEW; there++) {
			one(here, there, "one\n2\n3\n4\n5\n", "1\n2\n3\n4\nfive\n", "one\n2\n3\n4\nfive\n");
			one(here, there, "one\n2\n3\n4\n5\n", "uno\n2\n3\n4\n5\n", NULL);
			one(here, there, "same\n", "same\n", "same\n");
		}
		one(here, DELETED, "one\n2\n3\n4\n5\n", "", NULL);
		one(DELETED, here, "", "one\n2\n3\n4\n5\n", NULL);
	}
}
