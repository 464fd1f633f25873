/* A handle on an old state kept the root it was opened with; prune gave the state another and gc freed the old one: reading and merging
 * from the handle failed although its step was there. */
#include "harness/boxes.h"

TEST(old_state_whose_root_moved)
{
	cb_error err = {0};
	char path[512];
	(void)snprintf(path, sizeof(path), "%s/store", test_tmpdir());
	cb_store *s = NULL, *other = NULL;
	CHECK_OK(cb_store_open(path, NULL, &s, &err));
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "b", &b, &err));
	must_write(b, "/work/a", "a");
	cb_box *f = must_fork(s, "b", "f");
	char text[16];
	for (int i = 0; i < 700; i++) {
		(void)snprintf(text, sizeof(text), "%d", i);
		must_write(f, "/work/f", text);
	}
	CHECK_OK(cb_checkpoint_save(f, "kept", 600, true, &err));
	/* As another process would: what gc frees is in no cache there. */
	CHECK_OK(cb_store_open(path, NULL, &other, &err));
	cb_box *into = must_open(other, "b");
	cb_box *old = must_open(other, "f@kept"); /* stands on the key frame before step 600 */
	CHECK_OK(cb_prune(f, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
	CHECK_OK(cb_store_gc(s, NULL, &err));
	char *got = NULL;
	CHECK_OK(cb_read_file(old, "/work/f", &got, NULL, &err));
	CHECK_STR(got, "599");
	cb_free(got);
	CHECK_OK(cb_merge(into, old, NULL, NULL, NULL, &err));
	CHECK_OK(cb_read_file(b, "/work/f", &got, NULL, &err));
	CHECK_STR(got, "599");
	cb_free(got);
	cb_box_close(old);
	cb_box_close(into);
	cb_store_close(other);
	cb_box_close(f);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}
