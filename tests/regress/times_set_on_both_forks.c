/* Times set on both sides of a merge of forks are no conflict: the later ones stand, whichever side has them. */
#include "harness/boxes.h"

static int64_t mtime(cb_box *b)
{
	cb_error err = {0};
	cb_stat_info info = CB_INIT(cb_stat_info);
	CHECK_OK(cb_stat(b, "/work/a", 0, &info, &err));
	return info.mtime_ns;
}

TEST(times_set_on_both_forks)
{
	static const int64_t second = 1000000000;
	for (int way = 0; way < 2; way++) {
		cb_error err = {0};
		cb_store *s = test_store_open(true);
		cb_box *b = NULL;
		CHECK_OK(cb_box_create(s, "demo", &b, &err));
		must_write(b, "/work/a", "a");
		cb_box *f = must_fork(s, "demo", "f");
		CHECK_OK(cb_utimens(b, "/work/a", 5 * second, (way ? 20 : 10) * second, 0, &err));
		CHECK_OK(cb_utimens(f, "/work/a", 5 * second, (way ? 10 : 20) * second, 0, &err));
		CHECK_OK(cb_merge(b, f, NULL, NULL, NULL, &err));
		CHECK(mtime(b) == 20 * second);
		cb_box_close(f);
		cb_box_close(b);
		cb_store_close(s);
	}
}
