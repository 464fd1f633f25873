/*
 * attributes_of_folders_undone.c: extended attributes, tags and metadata are a folder's own, other than its times, which follow its
 * entries. To take back that one was set or removed is a change of the folder: it must still be there, its version grows, and its log
 * tells it.
 */
#include "harness/demo_box.h"

enum { XATTR, TAG, META, SORTS };
static const char *const path = "/work/d";

static void make(bool folder)
{
	if (folder) CHECK_OK(cb_mkdir(b, path, 0755, 0, &err));
	else must_write(b, path, "text");
}

static void set(int sort)
{
	if (sort == XATTR) CHECK_OK(cb_xattr_set(b, path, "user.a", "v", 1, 0, &err));
	if (sort == TAG) CHECK_OK(cb_tag_add(b, path, "a", &err));
	if (sort == META) CHECK_OK(cb_meta_set(b, path, "a", "v", 1, &err));
}

static void unset(int sort)
{
	if (sort == XATTR) CHECK_OK(cb_xattr_remove(b, path, "user.a", 0, &err));
	if (sort == TAG) CHECK_OK(cb_tag_remove(b, path, "a", &err));
	if (sort == META) CHECK_OK(cb_meta_set(b, path, "a", NULL, 0, &err));
}

static cb_code count_name(void *context, const char *name, const char *value, size_t size, cb_error *e)
{
	(void)name, (void)value, (void)size, (void)e;
	++*(unsigned *)context;
	return CB_OK;
}

static bool is_set(int sort)
{
	char *value = NULL;
	unsigned tags = 0;
	if (sort == TAG) CHECK_OK(cb_tag_list(b, path, count_name, &tags, &err));
	bool set = tags || (sort == XATTR && cb_xattr_get(b, path, "user.a", 0, &value, NULL, NULL) == CB_OK) ||
	           (sort == META && cb_meta_get(b, path, "a", &value, NULL, NULL) == CB_OK);
	cb_free(value);
	return set;
}

/* The attribute would be of nobody. What was made anew under the path is what a merge takes it to be: the same file or folder. */
TEST(removal_of_an_attribute_of_what_is_gone)
{
	for (unsigned i = 0; i < SORTS * 2 * 2 * 2; i++) {
		int sort = (int)(i % SORTS);
		bool folder = i / SORTS & 1, by_undo = i / SORTS & 2, anew = i / SORTS & 4;
		cb_error why = {0};
		begin(true);
		make(folder);
		set(sort);
		if (by_undo) CHECK_OK(cb_undo(b, 0, NULL, &err));
		else unset(sort);
		uint64_t removal = must_seq(b);
		CHECK_OK(cb_remove(b, path, &err));
		if (anew) {
			make(folder);
			CHECK_OK(cb_undo(b, removal, NULL, &err));
			CHECK(is_set(sort));
		} else {
			CHECK_CODE(cb_undo(b, removal, NULL, &why), CB_CONFLICT);
			CHECK_MSG(strstr(why.message, path), "%s", why.message);
			CHECK(!exists(b, path));
		}
		end();
	}
}

TEST(versions_grow_when_attributes_are_taken_back)
{
	for (unsigned i = 0; i < SORTS * 2 * 2; i++) {
		int sort = (int)(i % SORTS);
		bool folder = i / SORTS & 1, by_number = i / SORTS & 2;
		begin(true);
		make(folder);
		uint64_t made = must_version(b, path);
		set(sort);
		uint64_t was = must_version(b, path), seq = must_seq(b);
		if (by_number) CHECK_OK(cb_kv_set(b, "k", "v", 1, &err));
		CHECK_OK(cb_undo(b, by_number ? seq : 0, NULL, &err));
		uint64_t undone = must_version(b, path);
		CHECK_OK(cb_redo(b, NULL, &err));
		CHECK(made < was && was < undone && undone < must_version(b, path));
		end();
	}
}

static cb_code note_seq(void *context, const cb_step *step, cb_error *e)
{
	(void)e;
	*(uint64_t *)context |= (uint64_t)1 << step->seq;
	return CB_OK;
}

static uint64_t logged(const char *of)
{
	uint64_t seqs = 0;
	CHECK_OK(cb_log(b, &CB_WITH(cb_log_options, .path = of), note_seq, &seqs, NULL, &err));
	return seqs;
}

static cb_code count_change(void *context, const cb_change *change, cb_error *e)
{
	(void)e;
	CHECK(change->kind == CB_ATTRS);
	++*(int *)context;
	return CB_OK;
}

/* Times are not: they follow its entries, and are no difference. */
TEST(attributes_are_in_the_log_of_a_folder)
{
	for (int folder = 0; folder < 2; folder++) {
		begin(true);
		make(folder);
		for (int sort = 0; sort < SORTS; sort++) {
			set(sort);
			CHECK_OK(cb_undo(b, 0, NULL, &err));
			set(sort);
			unset(sort);
		}
		uint64_t all = ((uint64_t)2 << must_seq(b)) - 2;
		CHECK_U64(logged(path), all);
		CHECK_U64(logged("/work"), all);
		CHECK_OK(cb_utimens(b, path, CB_TIME_OMIT, 1, 0, &err));
		int differences = 0;
		CHECK_OK(cb_diff_step(b, must_seq(b), NULL, count_change, &differences, &err));
		CHECK_U64(differences, folder ? 0 : 1);
		if (!folder) all = 2 * all + 2;
		CHECK_U64(logged(path), all);
		CHECK_U64(logged("/work"), all);
		end();
	}
}
