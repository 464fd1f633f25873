/* What pruned steps made of a file belongs to nobody, but blame tells it. */
#include "harness/boxes.h"

typedef struct line_seqs {
	uint64_t all[8];
	size_t count;
} line_seqs;

static cb_code take_seq(void *context, const cb_blame_line *line, cb_error *err)
{
	(void)err;
	line_seqs *s = context;
	CHECK(s->count < 8);
	s->all[s->count++] = line->seq;
	return CB_OK;
}

TEST_BOTH(blame_beside_what_was_pruned)
{
	cb_error err = {0};
	cb_box *b = NULL;
	cb_store *s = test_store_open(memory);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/t", "a\n");
	CHECK_OK(cb_checkpoint_save(b, "first", 1, true, &err));
	must_write(b, "/work/t", "a\nb\n");
	must_write(b, "/work/o", "1");
	must_write(b, "/work/o", "2");
	CHECK_OK(cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
	line_seqs seqs = {.count = 0};
	CHECK_OK(cb_blame(b, "/work/t", take_seq, &seqs, &err));
	CHECK_U64(seqs.count, 2);
	CHECK_U64(seqs.all[0], 1);
	CHECK_U64(seqs.all[1], 0);
	must_write(b, "/work/t", "a\nb\nc\n");
	seqs.count = 0;
	CHECK_OK(cb_blame(b, "/work/t", take_seq, &seqs, &err));
	CHECK_U64(seqs.count, 3);
	CHECK_U64(seqs.all[1], 0); /* not the step that came after */
	CHECK_U64(seqs.all[2], 5);
	cb_box_close(b);
	cb_store_close(s);
}
