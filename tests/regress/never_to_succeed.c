/*
 * never_to_succeed.c: "busy: try again" is said only where trying again can help. To rename, replace or remove the root of a box, or '.'
 * and '..', never can: these were CB_BUSY, for which a loop waits and tries for ever.
 */
#include "harness/boxes.h"

#include <errno.h>

static void refused(cb_code code, const cb_error *err)
{
	CHECK_MSG(code == CB_INVALID && err->code == CB_INVALID, "%s: %s", cb_code_name(code), err->message);
	CHECK_MSG(err->os_error == EBUSY, "%d: %s", err->os_error, err->message);
}

TEST_BOTH(the_root_and_dots)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/a", "1");
	refused(cb_rename(b, "/", "/work/x", 0, &err), &err);
	refused(cb_rename(b, "/work/.", "/tmp/x", 0, &err), &err);
	refused(cb_rename(b, "/work/..", "/tmp/x", CB_NOREPLACE, &err), &err);
	refused(cb_rename(b, "/work", "/", 0, &err), &err);
	refused(cb_rename(b, "/work/a", "/", 0, &err), &err);
	refused(cb_rename(b, "/work", "/", CB_EXCHANGE, &err), &err);
	refused(cb_rename(b, "/tmp", "/work/.", 0, &err), &err);
	refused(cb_rmdir(b, "/", &err), &err);
	CHECK_CODE(cb_remove(b, "/", &err), CB_INVALID);
	cb_box_close(b);
	cb_store_close(s);
}
