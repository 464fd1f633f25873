/* Lines that an unpacked fork began with were written in another store: blame says so, and gave them to nobody, as if they were pruned. */
#include "harness/packs.h"

static cb_error err;

static cb_code tell(void *context, const cb_blame_line *line, cb_error *e)
{
	(void)e;
	char *to = context;
	CHECK(!line->foreign || line->seq == 0);
	(void)snprintf(to + strlen(to), 200 - strlen(to), "%s%s%llu ", line->foreign ? "!" : "", line->box,
	               (unsigned long long)line->seq);
	return CB_OK;
}

static const char *blamed(cb_box *b)
{
	static char text[200];
	text[0] = 0;
	CHECK_OK(cb_blame(b, "/work/f", tell, text, &err));
	return text;
}

TEST_BOTH(what_it_began_with)
{
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "main", &b, &err));
	must_write(b, "/work/f", "1\n2\n3\n");
	cb_box *fork = must_fork(s, "main", "fork");
	pack_bytes p = pack_take(fork, NULL);
	CHECK_OK(pack_give(s, &p, "copy", NULL, &err));
	cb_box *copy = must_open(s, "copy");
	CHECK_STR(blamed(fork), "main1 main1 main1 ");
	CHECK_STR(blamed(copy), "!main0 !main0 !main0 ");
	must_write(copy, "/work/f", "1\nzwei\n3\n");
	CHECK_STR(blamed(copy), "!main0 copy1 !main0 ");
	/* Under another name, and brought back. */
	CHECK_OK(cb_rename(copy, "/work/f", "/work/g", 0, &err));
	must_write(copy, "/work/g", "1\n");
	CHECK_OK(cb_rename(copy, "/work/g", "/work/f", 0, &err));
	CHECK_OK(cb_undo(copy, 3, NULL, &err));
	CHECK_STR(blamed(copy), "!main0 copy1 !main0 ");
	/* A fork of the copy, and pruned lines beside these. */
	cb_box *twig = must_fork(s, "copy", "twig");
	must_write(twig, "/work/f", "1\nzwei\n3\n4\n");
	must_write(twig, "/work/other", "o");
	CHECK_STR(blamed(twig), "!main0 copy1 !main0 twig1 ");
	CHECK_OK(cb_prune(twig, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
	CHECK_STR(blamed(twig), "!main0 copy1 !main0 0 ");
	cb_box_close(twig);
	cb_box_close(copy);
	cb_box_close(fork);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}
