/* test_transfer_model.c: random trees: in and out is exact; importing again what changed equals importing it all anew. */
#include <cowbox/cowbox.h>

#include <sys/stat.h>
#include <unistd.h>

#include "harness/boxes.h"
#include "harness/hosttrees.h"
#include "host/host.h"

static void compare(cb_store *s, cb_box *again, const char *folder, unsigned round)
{
	cb_error err;
	cb_box *fresh = NULL;
	const char *a = host_text("%s/again%u", test_tmpdir(), round), *b = host_text("%s/fresh%u", test_tmpdir(), round);
	CHECK_OK(cb_box_create(s, host_text("fresh%u", round), &fresh, &err));
	CHECK_OK(cb_import(fresh, folder, NULL, NULL, &err));
	CHECK_OK(cb_export(again, "/work", a, NULL, NULL, &err));
	CHECK_OK(cb_export(fresh, "/work", b, NULL, NULL, &err));
	host_same(b, a);
	host_same(folder, a);
	cb_box_close(fresh);
	host_shell("chmod -R u+rwx '%s' '%s'; rm -rf '%s' '%s'", a, b, a, b);
}

static void run(bool memory, bool linked, bool old_kernel)
{
	cb_error err;
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	host_tree t = {.folder = host_text("%s/tree", test_tmpdir()), .rng = {test_seed()}, .dull = true};
	CHECK(mkdir(t.folder, 0755) == 0);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	host_force_openat(old_kernel);
	cb_import_options options = CB_WITH(cb_import_options, .remove_missing = true, .link = linked);
	for (unsigned round = 0; round < test_dose(5); round++) {
		host_tree_change(&t, round ? 1 + (unsigned)test_rand_below(&t.rng, 30) : 200);
		if (test_rand_below(&t.rng, 2)) usleep(25000); /* so that some of it is old enough to be believed */
		CHECK_OK(cb_import(b, t.folder, &options, NULL, &err));
		if (test_rand_below(&t.rng, 3) == 0) {
			CHECK_OK(cb_kv_set(b, "k", "v", 1, &err));
			CHECK_OK(cb_remove(b, "/work", &err));
			CHECK_OK(cb_import(b, t.folder, &options, NULL, &err));
		}
		compare(s, b, t.folder, round);
	}
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

TEST_LIMIT(again_equals_anew_disk, 180)
{
	run(false, false, false);
}

TEST_LIMIT(again_equals_anew_memory, 180)
{
	run(true, false, true);
}

TEST_LIMIT(again_equals_anew_linked, 180)
{
	run(false, true, false);
}
