/* bounds_told_by_their_names.c: a bound that a call meets is told as such, with what helps, not as a lack of memory or a failed disk. */
#include "harness/boxes.h"

TEST_BOTH(a_value_to_find_is_bounded_as_one_to_set)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	cb_cursor *c = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/a", "a");
	static const size_t sizes[] = {65537, SIZE_MAX - 1};
	static char value[65537];
	for (size_t i = 0; i < 2; i++) {
		cb_find_options o = CB_WITH(cb_find_options, .meta = "m", .meta_value = value, .meta_value_size = sizes[i]);
		CHECK_CODE(cb_meta_set(b, "/work/a", "m", value, sizes[i], &err), CB_TOOBIG);
		CHECK_CODE(cb_find_open(b, "/", &o, &c, &err), CB_TOOBIG);
	}
	cb_find_options o = CB_WITH(cb_find_options, .meta = "m", .meta_value = value, .meta_value_size = 65536);
	CHECK_OK(cb_find_open(b, "/", &o, &c, &err));
	cb_cursor_close(c);
	cb_box_close(b);
	cb_store_close(s);
}

TEST_BOTH(an_old_state_is_refused_by_its_address)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	cb_file *f = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/a", "a");
	cb_box *old = must_open(s, "demo@1");
	static const unsigned ways[] = {CB_WRITE, CB_READ | CB_WRITE, CB_WRITE | CB_CREATE, CB_WRITE | CB_TRUNCATE};
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		CHECK_CODE(cb_open(old, "/work/a", ways[i], 0644, &f, &err), CB_READONLY);
		CHECK_STR(err.message, "'demo@1' is an old state: fork it, or restore it, to change it");
	}
	cb_box_close(old);
	cb_box_close(b);
	cb_store_close(s);
}

TEST(a_store_whose_name_is_too_long)
{
	cb_error err = {0};
	cb_store *s = test_store_open(false), *other = NULL;
	char path[4096];
	size_t size = (size_t)snprintf(path, sizeof(path), "%s/", test_tmpdir());
	memset(path + size, 'y', 256);
	path[size + 256] = 0;
	CHECK_CODE(cb_store_open(path, NULL, &other, &err), CB_NAMETOOLONG);
	CHECK_CODE(cb_store_backup(s, path, &err), CB_NAMETOOLONG);
	cb_store_close(s);
}
