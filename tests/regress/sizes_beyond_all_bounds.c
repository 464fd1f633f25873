/*
 * Copies of large sparse files can have more bytes together than a number counts: the sum went past 2^63, and the box was called damaged.
 */
#include "harness/boxes.h"

enum { FILES = 16, DOUBLINGS = 40 };

TEST_LIMIT(sizes_beyond_all_bounds, 300)
{
	cb_error err = {0};
	cb_store *s = test_store_open(true);
	cb_box *b = NULL;
	cb_box_info before = CB_INIT(cb_box_info), after = CB_INIT(cb_box_info);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	CHECK_OK(cb_mkdir(b, "/work/0", 0755, 0, &err));
	for (unsigned i = 0; i < FILES; i++) {
		char path[32];
		(void)snprintf(path, sizeof(path), "/work/0/%u", i);
		must_write(b, path, "x");
		CHECK_OK(cb_truncate(b, path, (uint64_t)1 << 43, &err));
	}
	cb_code code = CB_OK;
	for (unsigned i = 0; i < DOUBLINGS && code == CB_OK; i++) {
		char from[32], to[32], inner[48];
		(void)snprintf(from, sizeof(from), "/work/%u", i);
		(void)snprintf(to, sizeof(to), "/work/%u", i + 1);
		(void)snprintf(inner, sizeof(inner), "%s/copy", to);
		CHECK_OK(cb_box_info_get(b, &before, &err));
		CHECK_OK(cb_mkdir(b, to, 0755, 0, &err));
		code = cb_copy(b, from, inner, 0, &err);
		if (code != CB_OK) break;
		(void)snprintf(inner, sizeof(inner), "%s/itself", to);
		CHECK_OK(cb_rename(b, from, inner, 0, &err));
	}
	CHECK_CODE(code, CB_LIMIT);
	CHECK_MSG(strstr(err.message, "4611686018427387904"), "%s", err.message);
	CHECK_OK(cb_box_info_get(b, &after, &err));
	CHECK_U64(after.bytes, before.bytes);
	CHECK_U64(after.bytes, (uint64_t)1 << 62);
	CHECK_CODE(cb_write_file(b, "/work/f", "x", 1, NULL, &err), CB_LIMIT);
	CHECK_OK(cb_write_file(b, "/work/f", "", 0, NULL, &err));
	cb_box_close(b);
	cb_store_close(s);
}
