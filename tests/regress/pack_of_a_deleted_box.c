/*
 * A state that is open stays when its box is deleted and collected, but not the history that led to it. A pack of it with history was
 * CB_CORRUPT and told to run fsck, which finds nothing. Now it says what is so, before a byte is written; the state alone is packed.
 */
#include <unistd.h>

#include "harness/packs.h"

TEST_BOTH(its_history_is_gone_and_its_state_is_not)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/a", "1\n");
	must_write(b, "/work/a", "2\n");
	must_write(b, "/work/a", "3\n");
	cb_box *old = must_open(s, "demo@2");
	char *dump = must_dump(old);
	cb_box_close(b);
	CHECK_OK(cb_box_delete(s, "demo", &err));
	pack_bytes whole = pack_take(old, NULL); /* before gc all of it is there */
	CHECK_OK(pack_give(s, &whole, "whole", NULL, &err));
	CHECK_OK(cb_store_gc(s, NULL, &err));
	int ends[2];
	char byte;
	CHECK(pipe(ends) == 0);
	CHECK_CODE(cb_pack(old, ends[1], NULL, NULL, &err), CB_STALE);
	CHECK_MSG(strstr(err.message, "no_history"), "%s", err.message);
	CHECK(close(ends[1]) == 0 && read(ends[0], &byte, 1) == 0 && close(ends[0]) == 0);
	pack_bytes alone = pack_take(old, &CB_WITH(cb_pack_options, .no_history = true));
	CHECK_OK(pack_give(s, &alone, "alone", NULL, &err));
	cb_box *made = must_open(s, "alone"), *at = must_open(s, "whole@2");
	CHECK_STR(must_dump(made), dump);
	CHECK_STR(must_dump(at), dump);
	cb_box_close(at);
	cb_box_close(made);
	cb_box_close(old);
	test_store_sound(s);
	cb_store_close(s);
}
