/*
 * Settings, checkpoints, quota and retention could be set through a handle of a box that was deleted: it was a success before gc, and after
 * it left settings of a box that does not exist, for good. Every call that writes rows of a box asks first, in the same write transaction,
 * whether there is one; what is asked of a deleted box is CB_NOTFOUND, as docs/api.md has it.
 */
#include "harness/boxes.h"

static cb_code no_checkpoint(void *context, const cb_checkpoint *c, cb_error *err)
{
	(void)context;
	(void)c;
	(void)err;
	return CB_OK;
}

/* b: the head or a state. */
static void all_refused(cb_box *b)
{
	cb_error err = {0};
	char *text = NULL, *other = NULL;
	size_t size = 0;
	cb_cursor *c = NULL;
	CHECK_CODE(cb_setting_set(b, "k", "v", 1, &err), CB_NOTFOUND);
	CHECK(strstr(err.message, "'demo' was deleted"));
	CHECK_CODE(cb_setting_set(b, "k", NULL, 0, &err), CB_NOTFOUND);
	CHECK_CODE(cb_setting_get(b, "k", &text, &size, &err), CB_NOTFOUND);
	CHECK_CODE(cb_checkpoint_save(b, "c2", 0, false, &err), CB_NOTFOUND);
	CHECK_CODE(cb_checkpoint_save(b, NULL, 0, false, &err), CB_NOTFOUND);
	CHECK_CODE(cb_checkpoint_delete(b, "c", &err), CB_NOTFOUND);
	CHECK_CODE(cb_checkpoint_list(b, no_checkpoint, NULL, &err), CB_NOTFOUND);
	CHECK_CODE(cb_checkpoint_open(b, &c, &err), CB_NOTFOUND);
	CHECK_CODE(cb_box_checkpoint_every_set(b, 5, &err), CB_NOTFOUND);
	CHECK_CODE(cb_box_quota_set(b, 1, 1, 1, &err), CB_NOTFOUND);
	CHECK(strstr(err.message, "'demo' was deleted"));
	CHECK_CODE(cb_box_retention_set(b, 1, 1, &err), CB_NOTFOUND);
	CHECK_CODE(cb_pin_set(b, "me", "why", 0, &err), CB_NOTFOUND);
	CHECK_CODE(cb_folder_get(b, &text, &other, &err), CB_NOTFOUND);
}

TEST_BOTH(a_deleted_box_takes_nothing)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/a", "a");
	CHECK_OK(cb_checkpoint_save(b, "c", 0, false, &err));
	CHECK_OK(cb_setting_set(b, "k", "v", 1, &err));
	cb_box *old = must_open(s, "demo@1");
	CHECK_OK(cb_box_delete(s, "demo", &err));
	for (int collected = 0; collected < 2; collected++) {
		all_refused(b);
		all_refused(old);
		CHECK_STR(must_read(old, "/work/a"), "a"); /* an open state is kept */
		test_store_sound(s);
		CHECK_OK(cb_store_gc(s, NULL, &err));
		test_store_sound(s);
	}
	/* Its name is another's. */
	cb_box *again = NULL;
	CHECK_OK(cb_box_create(s, "demo", &again, &err));
	all_refused(b);
	CHECK_OK(cb_setting_set(again, "k", "new", 3, &err));
	all_refused(old);
	cb_box_close(again);
	cb_box_close(old);
	cb_box_close(b);
	CHECK_OK(cb_store_gc(s, NULL, &err));
	test_store_sound(s);
	cb_store_close(s);
}
