/*
 * attributes_beside_other_changes.c: a change tells whether attributes, tags or metadata changed, also where it tells something else: a
 * content, a mode, a rename, a file replaced. Only files that had no other change were told to have changed in them.
 */
#include "harness/boxes.h"

typedef struct told {
	char text[1024];
} told;

static cb_code tell_change(void *context, const cb_change *c, cb_error *err)
{
	(void)err;
	told *t = context;
	size_t used = strlen(t->text);
	(void)snprintf(t->text + used, sizeof(t->text) - used, "%c%s%s ", (char)c->kind, strrchr(c->path, '/') + 1,
	               c->attributes ? "+" : "");
	return CB_OK;
}

static void must_differ(cb_box *from, cb_box *to, const char *expected)
{
	told listed = {0};
	cb_error err = {0};
	CHECK_OK(cb_diff(from, to, "/work", tell_change, &listed, &err));
	CHECK_STR(listed.text, expected);
}

static void mark(cb_box *b, const char *path, const char *how)
{
	cb_error err = {0};
	if (*how == 'x') CHECK_OK(cb_xattr_set(b, path, "user.x", "v", 1, 0, &err));
	if (*how == 't') CHECK_OK(cb_tag_add(b, path, "tag", &err));
	if (*how == 'm') CHECK_OK(cb_meta_set(b, path, "name", "value", CB_STRING, &err));
}

static void fill(cb_box *b)
{
	cb_error err = {0};
	static const char *const plain[] = {"/work/a", "/work/b", "/work/c", "/work/d", "/work/e", "/work/f"};
	for (size_t i = 0; i < sizeof(plain) / sizeof(*plain); i++) must_write(b, plain[i], "one");
	must_write(b, "/work/gone", "marked");
	mark(b, "/work/gone", "tag");
	must_write(b, "/work/same", "marked");
	mark(b, "/work/same", "meta");
	must_write(b, "/work/linked", "marked");
	mark(b, "/work/linked", "xattr");
	CHECK_OK(cb_mkdir(b, "/work/folder", 0755, 0, &err));
}

static void change(cb_box *b)
{
	cb_error err = {0};
	must_write(b, "/work/a", "two"); /* content alone */
	must_write(b, "/work/b", "two");
	mark(b, "/work/b", "tag");
	CHECK_OK(cb_chmod(b, "/work/c", 0755, 0, &err));
	mark(b, "/work/c", "meta");
	CHECK_OK(cb_chmod(b, "/work/d", 0755, 0, &err)); /* mode alone */
	CHECK_OK(cb_rename(b, "/work/e", "/work/e2", 0, &err));
	mark(b, "/work/e2", "xattr");
	must_write(b, "/work/new", "two"); /* replaces one without */
	mark(b, "/work/new", "tag");
	CHECK_OK(cb_rename(b, "/work/new", "/work/f", 0, &err));
	must_write(b, "/work/new", "two"); /* replaces one with the same */
	mark(b, "/work/new", "meta");
	CHECK_OK(cb_rename(b, "/work/new", "/work/same", 0, &err));
	CHECK_OK(cb_unlink(b, "/work/gone", &err));
	CHECK_OK(cb_link(b, "/work/linked", "/work/linked2", &err));
	must_write(b, "/work/made", "two");
	mark(b, "/work/made", "xattr");
	must_write(b, "/work/plain", "two");
	CHECK_OK(cb_rename(b, "/work/folder", "/work/folder2", 0, &err));
	mark(b, "/work/folder2", "tag");
}

TEST_BOTH(attributes_beside_other_changes)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	fill(b);
	cb_box *fork = must_fork(s, "demo", "fork");
	change(fork);
	must_differ(b, fork, "Ma Mb+ Tc+ Td Re2+ Mf+ Rfolder2+ Dgone+ Alinked2+ Amade+ Aplain Msame ");
	must_differ(fork, b, "Ma Mb+ Tc+ Td Re+ Mf+ Rfolder+ Agone+ Dlinked2+ Dmade+ Dplain Msame ");
	cb_box_close(fork);
	cb_box_close(b);
	cb_store_close(s);
}
