/* A box that was pruned, packed and unpacked undoes what the original undoes, also where undos and what they took back were pruned. */
#include "harness/packs.h"

static void undo_alike(uint64_t keep, unsigned undos)
{
	enum { CHANGES = 6 };
	cb_error err = {0};
	cb_store *s = test_store_open(true);
	cb_box *b = NULL;
	char path[32];
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	for (int i = 1; i <= CHANGES; i++) {
		(void)snprintf(path, sizeof(path), "/work/%d", i);
		must_write(b, path, "x");
	}
	CHECK_OK(cb_checkpoint_save(b, "one", 1, true, &err));
	CHECK_OK(cb_checkpoint_save(b, "two", 2, true, &err));
	for (unsigned i = 0; i < undos; i++) CHECK_OK(cb_undo(b, 0, NULL, &err));
	must_write(b, "/work/last", "x");
	CHECK_OK(cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = keep), NULL, &err));
	pack_bytes p = pack_take(b, NULL);
	CHECK_OK(pack_give(s, &p, "copy", NULL, &err));
	cb_box *c = must_open(s, "copy");
	for (unsigned i = 0; i < CHANGES; i++) {
		cb_code want = cb_undo(b, 0, NULL, &err);
		CHECK_CODE(cb_undo(c, 0, NULL, &err), want);
		CHECK_STR(must_dump(c), must_dump(b));
		if (want != CB_OK) break;
	}
	cb_box_close(c);
	cb_box_close(b);
	cb_store_close(s);
}

TEST(undo_of_an_unpacked_box)
{
	for (uint64_t keep = 1; keep < 8; keep++)
		for (unsigned undos = 1; undos < 6; undos++) undo_alike(keep, undos);
}

/* What a restore brought back can be undone once more in the copy too; what somebody made again cannot, under the old number. */
TEST(undo_of_what_a_restore_brought_back_in_a_copy)
{
	for (int by_hand = 0; by_hand < 2; by_hand++) {
		cb_error err = {0};
		cb_store *s = test_store_open(true);
		cb_box *b = NULL;
		char *value = NULL;
		CHECK_OK(cb_box_create(s, "demo", &b, &err));
		CHECK_OK(cb_kv_set(b, "k", "old", CB_STRING, &err));
		CHECK_OK(cb_kv_set(b, "k", "new", CB_STRING, &err)); /* step 2 */
		cb_box *then = must_open(s, "demo@2");
		CHECK_OK(cb_undo(b, 2, NULL, &err));
		if (by_hand) CHECK_OK(cb_kv_set(b, "k", "new", CB_STRING, &err));
		else CHECK_OK(cb_restore(b, then, NULL, NULL, &err));
		pack_bytes p = pack_take(b, NULL);
		CHECK_OK(pack_give(s, &p, "copy", NULL, &err));
		cb_box *copy = must_open(s, "copy");
		CHECK_CODE(cb_undo(copy, 2, NULL, &err), by_hand ? CB_NOTHING : CB_OK);
		CHECK_OK(cb_kv_get(copy, "k", &value, NULL, &err));
		CHECK_STR(value, by_hand ? "new" : "old");
		cb_free(value);
		cb_box_close(copy);
		cb_box_close(then);
		cb_box_close(b);
		cb_store_close(s);
	}
}
