/* Two boxes with more common pasts than a merge takes: what the refusal advises leads to the end, with nothing lost. */
#include "harness/boxes.h"

enum { MANY = 30 };

TEST_BOTH(advice_for_many_common_pasts)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *m = NULL;
	char name[32], path[32];
	CHECK_OK(cb_box_create(s, "m", &m, &err));
	must_write(m, "/work/a", "1");
	cb_box *x = must_fork(s, "m", "x"), *y = must_fork(s, "m", "y");
	for (int i = 0; i < MANY; i++) {
		(void)snprintf(name, sizeof(name), "b%d", i);
		(void)snprintf(path, sizeof(path), "/work/%d", i);
		cb_box *b = must_fork(s, "m", name);
		must_write(b, path, "1");
		CHECK_OK(cb_merge(x, b, NULL, NULL, NULL, &err));
		CHECK_OK(cb_merge(y, b, NULL, NULL, NULL, &err));
		cb_box_close(b);
		if (i % 3 == 0) CHECK_OK(cb_box_delete(s, name, &err));
	}
	must_write(x, "/work/x", "1");
	must_write(y, "/work/y", "1");
	CHECK_OK(cb_unlink(x, "/work/3", &err)); /* taken back: must not come again */
	int rounds = 0;
	for (cb_code code; (code = cb_merge(x, y, NULL, NULL, NULL, &err)) != CB_OK; rounds++) {
		CHECK_CODE(code, CB_LIMIT);
		CHECK(rounds < MANY);
		const char *at = strstr(err.message, "merge 'y@");
		CHECK_MSG(at, "%s", err.message);
		(void)snprintf(name, sizeof(name), "y@%lu", strtoul(at + strlen("merge 'y@"), NULL, 10));
		cb_box *old = must_open(s, name);
		CHECK_OK(cb_merge(x, old, NULL, NULL, NULL, &err));
		cb_box_close(old);
	}
	CHECK(rounds > 0);
	CHECK(exists(x, "/work/x") && exists(x, "/work/y") && exists(x, "/work/29") && !exists(x, "/work/3"));
	test_store_sound(s);
	cb_box_close(x);
	cb_box_close(y);
	cb_box_close(m);
	cb_store_close(s);
}
