/* An undo that finds nothing to take back says so and makes no step. */
#include "harness/boxes.h"

TEST_BOTH(undo_of_an_undone_step)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/a", "1");
	must_write(b, "/work/b", "1"); /* step 2 */
	must_write(b, "/work/c", "1");
	CHECK_OK(cb_undo(b, 2, NULL, &err));
	uint64_t head = must_seq(b);
	CHECK_CODE(cb_undo(b, 2, NULL, &err), CB_NOTHING);
	CHECK_MSG(strstr(err.message, "step 2"), "%s", err.message);
	CHECK_U64(must_seq(b), head);
	CHECK_OK(cb_undo(b, 0, NULL, &err)); /* the undo of step 2 is skipped with it: c goes */
	CHECK(exists(b, "/work/a") && !exists(b, "/work/b") && !exists(b, "/work/c"));
	CHECK_OK(cb_redo(b, NULL, &err));
	CHECK(exists(b, "/work/c"));
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

/* In order and back again, with other steps among them: each undo goes on where the last one left off. */
TEST_BOTH(many_undos_and_redos)
{
	enum { STEPS = 60 };
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	char text[32], *dumps[STEPS + 1];
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	dumps[0] = must_dump(b);
	for (int i = 1; i <= STEPS; i++) {
		(void)snprintf(text, sizeof(text), "%d", i);
		must_write(b, i % 3 ? "/work/a" : "/work/b", text);
		dumps[i] = must_dump(b);
	}
	int at = STEPS;
	for (int round = 0; round < 4; round++) {
		for (int i = 0; i < 25; i++) {
			CHECK_OK(cb_undo(b, 0, NULL, &err));
			CHECK_STR(must_dump(b), dumps[--at]);
		}
		CHECK_OK(cb_step_record(b, NULL, NULL, &err));
		for (int i = 0; i < 15; i++) {
			CHECK_OK(cb_redo(b, NULL, &err));
			CHECK_STR(must_dump(b), dumps[++at]);
		}
		CHECK_OK(cb_step_record(b, NULL, NULL, &err));
	}
	while (at > 0) {
		CHECK_OK(cb_undo(b, 0, NULL, &err));
		CHECK_STR(must_dump(b), dumps[--at]);
	}
	CHECK_CODE(cb_undo(b, 0, NULL, &err), CB_NOTHING);
	for (; at < STEPS; at++) CHECK_OK(cb_redo(b, NULL, &err));
	CHECK_STR(must_dump(b), dumps[STEPS]);
	CHECK_CODE(cb_redo(b, NULL, &err), CB_NOTHING);
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}
