/* Two transactions that make the same change must not both commit, whatever the change: a job claimed by a rename would go to two. */
#include "harness/boxes.h"

typedef struct deed {
	const char *name;
	cb_code (*run)(cb_box *b, cb_error *err);
	bool unites; /* both pass */
} deed;

static cb_code rename_file(cb_box *b, cb_error *err)
{
	return cb_rename(b, "/work/job", "/work/claimed", 0, err);
}

static cb_code rename_folder(cb_box *b, cb_error *err)
{
	return cb_rename(b, "/work/d", "/work/moved", 0, err);
}

static cb_code exchange(cb_box *b, cb_error *err)
{
	return cb_rename(b, "/work/job", "/work/other", CB_EXCHANGE, err);
}

static cb_code unlink_file(cb_box *b, cb_error *err)
{
	return cb_unlink(b, "/work/job", err);
}

static cb_code unlink_name(cb_box *b, cb_error *err)
{
	return cb_unlink(b, "/work/two", err);
}

static cb_code rename_name(cb_box *b, cb_error *err)
{
	return cb_rename(b, "/work/two", "/work/three", 0, err);
}

static cb_code link_file(cb_box *b, cb_error *err)
{
	return cb_link(b, "/work/job", "/work/further", err);
}

static cb_code remove_empty(cb_box *b, cb_error *err)
{
	return cb_rmdir(b, "/work/empty", err);
}

static cb_code remove_all(cb_box *b, cb_error *err)
{
	return cb_remove(b, "/work/d", err);
}

static cb_code tag(cb_box *b, cb_error *err)
{
	return cb_tag_add(b, "/work/job", "mine", err);
}

static cb_code untag(cb_box *b, cb_error *err)
{
	return cb_tag_remove(b, "/work/job", "old", err);
}

static cb_code xattr(cb_box *b, cb_error *err)
{
	return cb_xattr_set(b, "/work/job", "user.a", "1", 1, 0, err);
}

static cb_code no_xattr(cb_box *b, cb_error *err)
{
	return cb_xattr_remove(b, "/work/job", "user.old", 0, err);
}

static cb_code meta(cb_box *b, cb_error *err)
{
	return cb_meta_set(b, "/work/job", "owner", "me", CB_STRING, err);
}

static cb_code chmod_file(cb_box *b, cb_error *err)
{
	return cb_chmod(b, "/work/job", 0600, 0, err);
}

static cb_code chmod_folder(cb_box *b, cb_error *err)
{
	return cb_chmod(b, "/work/d", 0700, 0, err);
}

static cb_code times_file(cb_box *b, cb_error *err)
{
	return cb_utimens(b, "/work/job", 1000, 2000, 0, err);
}

static cb_code times_folder(cb_box *b, cb_error *err)
{
	return cb_utimens(b, "/work/d", 1000, 2000, 0, err);
}

static cb_code make_link(cb_box *b, cb_error *err)
{
	return cb_symlink(b, "job", "/work/soft", err);
}

static cb_code key_set(cb_box *b, cb_error *err)
{
	return cb_kv_set(b, "k", "1", 1, err);
}

static cb_code key_delete(cb_box *b, cb_error *err)
{
	return cb_kv_delete(b, "old", err);
}

static cb_code write_same(cb_box *b, cb_error *err)
{
	return cb_write_file(b, "/work/job", "done", 4, NULL, err);
}

static cb_code make_file(cb_box *b, cb_error *err)
{
	return cb_write_file(b, "/work/new", "x", 1, NULL, err);
}

static cb_code replace(cb_box *b, cb_error *err)
{
	cb_code code = cb_write_file(b, "/work/tmp-of-editor", "saved", 5, NULL, err);
	return code == CB_OK ? cb_rename(b, "/work/tmp-of-editor", "/work/job", 0, err) : code;
}

static cb_code below_new_parents(cb_box *b, cb_error *err)
{
	char path[64];
	static unsigned n;
	(void)snprintf(path, sizeof(path), "/work/a/b/%u", n++);
	return cb_write_file(b, path, "x", 1, &CB_WITH(cb_write_options, .parents = true), err);
}

static cb_code in_one_folder(cb_box *b, cb_error *err)
{
	char path[64];
	static unsigned n;
	(void)snprintf(path, sizeof(path), "/work/d/%u", n++);
	return cb_write_file(b, path, "x", 1, NULL, err);
}

static const deed deeds[] = {
	{"rename", rename_file, false},
	{"rename a folder", rename_folder, false},
	{"exchange", exchange, false},
	{"unlink", unlink_file, false},
	{"unlink one of two names", unlink_name, false},
	{"rename one of two names", rename_name, false},
	{"link", link_file, false},
	{"rmdir", remove_empty, false},
	{"remove", remove_all, false},
	{"tag", tag, false},
	{"untag", untag, false},
	{"xattr", xattr, false},
	{"remove xattr", no_xattr, false},
	{"meta", meta, false},
	{"chmod", chmod_file, false},
	{"chmod a folder", chmod_folder, false},
	{"utimens", times_file, false},
	{"utimens of a folder", times_folder, false},
	{"symlink", make_link, false},
	{"set a key", key_set, false},
	{"delete a key", key_delete, false},
	{"write", write_same, false},
	{"create", make_file, false},
	{"save by rename", replace, false},
	{"files below parents that both made", below_new_parents, true},
	{"files in one folder", in_one_folder, true},
};

static cb_code count_conflict(void *context, const cb_conflict *c, cb_error *err)
{
	(void)err;
	CHECK(c->path[0] && c->reason[0]);
	++*(unsigned *)context;
	return CB_OK;
}

static void one(bool memory, const deed *d)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *a = NULL;
	CHECK_OK(cb_box_create(s, "demo", &a, &err));
	must_write(a, "/work/job", "todo");
	must_write(a, "/work/other", "other");
	must_write(a, "/work/one", "1");
	CHECK_OK(cb_link(a, "/work/one", "/work/two", &err));
	must_write(a, "/work/d/x", "x");
	CHECK_OK(cb_mkdir(a, "/work/empty", 0755, 0, &err));
	CHECK_OK(cb_tag_add(a, "/work/job", "old", &err));
	CHECK_OK(cb_xattr_set(a, "/work/job", "user.old", "0", 1, 0, &err));
	CHECK_OK(cb_kv_set(a, "old", "0", 1, &err));
	cb_box *first = NULL, *second = NULL;
	cb_commit_result result = CB_INIT(cb_commit_result);
	unsigned named = 0;
	CHECK_OK(cb_txn_begin(a, NULL, &first, &err));
	CHECK_OK(cb_txn_begin(a, NULL, &second, &err));
	CHECK_OK(d->run(first, &err));
	CHECK_OK(d->run(second, &err));
	CHECK_OK(cb_txn_commit(first, NULL, NULL, &err));
	cb_code code = cb_txn_commit(second, NULL, &result, &err);
	CHECK_MSG(code == (d->unites ? CB_OK : CB_CONFLICT), "%s: %s (%s)", d->name, cb_code_name(code), err.message);
	if (!d->unites) {
		CHECK_OK(cb_txn_conflicts(second, count_conflict, &named, &err));
		CHECK_MSG(named > 0 && named == result.conflicts, "%s: %u of %" PRIu64 " conflicts are named", d->name, named,
		          result.conflicts);
	}
	cb_box_close(second);
	cb_box_close(first);
	cb_box_close(a);
	test_store_sound(s);
	cb_store_close(s);
}

TEST(same_change_in_two_transactions)
{
	for (size_t i = 0; i < sizeof(deeds) / sizeof(*deeds); i++) one(true, &deeds[i]);
}
