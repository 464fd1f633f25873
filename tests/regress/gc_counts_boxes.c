/* gc counted hidden companions, drafts and boxes that were never whole as deleted boxes: 14 where a user had deleted 5. */
#include <sys/stat.h>

#include <cowbox/cowbox.h>

#include "harness/boxes.h"

TEST(gc_counts_boxes)
{
	cb_error err = {0};
	cb_store *s = test_store_open(false);
	cb_gc_result freed = CB_INIT(cb_gc_result);
	char folder[4200], name[32];
	(void)snprintf(folder, sizeof(folder), "%s/folder", test_tmpdir());
	CHECK(mkdir(folder, 0755) == 0);
	cb_import_options options = CB_WITH(cb_import_options, .link = true);
	for (int i = 0; i < 5; i++) {
		cb_box *b = NULL, *draft = NULL;
		(void)snprintf(name, sizeof(name), "b%d", i);
		CHECK_OK(cb_box_create(s, name, &b, &err));
		CHECK_OK(cb_import(b, folder, &options, NULL, &err)); /* the companion holds what the folder had */
		cb_box_close(b);
		CHECK_OK(cb_box_draft(s, "draft", &draft, &err));
		cb_box_close(draft);
	}
	cb_box_close(must_fork(s, "b4", "fork"));
	for (int i = 0; i < 5; i++) {
		(void)snprintf(name, sizeof(name), "b%d", i);
		CHECK_OK(cb_box_delete(s, name, &err));
	}
	CHECK_OK(cb_store_gc(s, &freed, &err));
	CHECK_U64(freed.boxes_freed, 5);
	CHECK_OK(cb_box_delete(s, "fork", &err));
	CHECK_OK(cb_store_gc(s, &freed, &err));
	CHECK_U64(freed.boxes_freed, 1);
	CHECK_OK(cb_store_gc(s, &freed, &err));
	CHECK_U64(freed.boxes_freed, 0);
	test_store_sound(s);
	cb_store_close(s);
}
