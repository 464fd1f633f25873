/* A commit whose very first write failed freed a seal that was never begun. */
#include "base/buf.h"
#include "harness/boxes.h"

TEST_BOTH(first_write_of_commit_fails)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	for (long n = 1; n < 60; n++) {
		cb_box *t = must_begin(b);
		must_write(t, "/work/f",
		           "some text that is too long to be kept in the record itself, so that it becomes a content of its own in "
		           "the store and the commit has to put it there first");
		mem_fail_after(n);
		cb_code code = cb_txn_commit(t, NULL, NULL, &err);
		mem_fail_after(0);
		CHECK(code == CB_OK || code == CB_NOMEM);
		/* It stays as it was, and goes in when there is memory. */
		if (code != CB_OK) CHECK_OK(cb_txn_commit(t, NULL, NULL, &err));
		cb_box_close(t);
	}
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}
