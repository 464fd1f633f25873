/*
 * diff_of_equal_files.c: files of two boxes that are equal in all that can be given to a file are no difference; they were told as changed
 * attributes, so that nobody could check a box that was handed over.
 */
#include "harness/boxes.h"

#include <stdlib.h>

enum { LARGE = 3000 }; /* of an attribute whose value is a content */

static void fill(cb_box *b, const char *large)
{
	cb_error err = {0};
	must_write(b, "/work/f", "text");
	must_write(b, "/work/d/g", "another");
	CHECK_OK(cb_symlink(b, "f", "/work/l", &err));
	CHECK_OK(cb_xattr_set(b, "/work/f", "user.small", "v", 1, 0, &err));
	CHECK_OK(cb_xattr_set(b, "/work/f", "user.large", large, LARGE, 0, &err));
	CHECK_OK(cb_tag_add(b, "/work/d", "draft", &err));
	CHECK_OK(cb_meta_set(b, "/work/d/g", "author", "ann", CB_STRING, &err));
	const char *all[] = {"/work/f", "/work/d/g", "/work/l"};
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) CHECK_OK(cb_utimens(b, all[i], 1000, 2000, CB_NOFOLLOW, &err));
}

typedef struct seen {
	unsigned count;
	cb_change_kind kind;
	char path[64];
} seen;

static cb_code see(void *context, const cb_change *c, cb_error *err)
{
	(void)err;
	seen *s = context;
	s->count++;
	s->kind = c->kind;
	(void)snprintf(s->path, sizeof(s->path), "%s", c->path);
	return CB_OK;
}

static seen differences(cb_box *a, cb_box *b)
{
	cb_error err = {0};
	seen s = {0};
	CHECK_OK(cb_diff(a, b, NULL, see, &s, &err));
	return s;
}

static void one_attribute(cb_box *a, cb_box *b, const char *path)
{
	cb_error err = {0};
	seen s = differences(a, b);
	CHECK_MSG(s.count == 1 && s.kind == CB_ATTRS && strcmp(s.path, path) == 0, "%u changes, of '%s', not '%s'", s.count, s.path,
	          path);
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	CHECK_U64(differences(a, b).count, 0);
}

TEST_BOTH(equal_files_are_no_difference)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *a = NULL, *b = NULL;
	char *large = test_keep(malloc(LARGE)), *other = test_keep(malloc(LARGE));
	memset(large, 'x', LARGE);
	memset(other, 'x', LARGE);
	other[LARGE - 1] = 'y';
	CHECK_OK(cb_box_create(s, "a", &a, &err));
	CHECK_OK(cb_box_create(s, "b", &b, &err));
	fill(a, large);
	fill(b, large);
	CHECK_U64(differences(a, b).count, 0);
	CHECK_OK(cb_chmod(b, "/work/f", 0600, 0, &err));
	one_attribute(a, b, "/work/f");
	CHECK_OK(cb_utimens(b, "/work/l", 1000, 2001, CB_NOFOLLOW, &err));
	one_attribute(a, b, "/work/l");
	CHECK_OK(cb_xattr_set(b, "/work/f", "user.large", other, LARGE, 0, &err));
	one_attribute(a, b, "/work/f");
	CHECK_OK(cb_tag_remove(b, "/work/d", "draft", &err));
	one_attribute(a, b, "/work/d");
	CHECK_OK(cb_meta_set(b, "/work/d/g", "author", "bob", CB_STRING, &err));
	one_attribute(a, b, "/work/d/g");
	must_write(b, "/work/f", "TEXT");
	CHECK_OK(cb_utimens(b, "/work/f", 1000, 2000, 0, &err));
	CHECK(differences(a, b).kind == CB_MODIFIED);
	cb_box_close(a);
	cb_box_close(b);
	cb_store_close(s);
}
