/*
 * names_of_what_has_no_base.c: boxes that merged each other crosswise twice, so that what their common pasts came from is in conflict: one
 * moved b away and made a new b, the other has the old one there. Where the old b is has no base then. The new one was in the base all
 * the same, so that who has the old b there seemed to have removed it: a merge took away what the side that made it has, though that was
 * preferred, and told no conflict of that name.
 */
#include "harness/sides.h"

/* Two boxes, and what they do before each of two rounds in which they merge each other as they are then, each preferring itself. */
typedef struct history {
	deed *base, *ours[2], *theirs[2];
	bool theirs_first; /* theirs' state is the older one in each round, and the base begins with it */
} history;

static void cross(sides *p)
{
	cb_box *both[2] = {p->ours, p->theirs}, *old[2];
	char address[64];
	for (int i = 0; i < 2; i++) {
		(void)snprintf(address, sizeof(address), "%s@%llu", i ? "theirs" : "ours", (unsigned long long)must_seq(both[i]));
		old[i] = must_open(p->s, address);
	}
	for (int i = 0; i < 2; i++) must_merge(both[i], old[1 - i], CB_PREFER_OURS);
	for (int i = 0; i < 2; i++) cb_box_close(old[i]);
}

static sides open_history(const history *h, bool pruned)
{
	cb_error err = {0};
	sides p = sides_open(true, h->base);
	for (int round = 0; round < 2; round++) {
		if (h->theirs_first) h->theirs[round](p.theirs);
		h->ours[round](p.ours);
		if (!h->theirs_first) h->theirs[round](p.theirs);
		cross(&p);
	}
	if (!pruned) return p;
	CHECK_OK(cb_prune(p.ours, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
	CHECK_OK(cb_prune(p.theirs, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
	CHECK_OK(cb_store_gc(p.s, NULL, &err));
	return p;
}

/* The winner's picture is the result, in either direction. */
static void keeps(history h, const char *ours, const char *theirs)
{
	for (int i = 0; i < 16; i++) {
		h.theirs_first = i / 4 % 2;
		sides p = open_history(&h, i / 8);
		cb_box *both[2] = {p.ours, p.theirs};
		int into = i % 2, winner = i / 2 % 2;
		must_conflict(both[into], both[1 - into], "/work/b");
		must_show(p.ours, ours);
		must_show(p.theirs, theirs);
		must_merge(both[into], both[1 - into], winner == into ? CB_PREFER_OURS : CB_PREFER_THEIRS);
		must_show(both[into], winner ? theirs : ours);
		sides_close(&p);
	}
}

static void nothing(cb_box *b)
{
	must_write(b, "/work/z", "z");
}

static void folder_b(cb_box *b)
{
	must_mkdir(b, "/work/b");
	must_write(b, "/work/b/f", "old");
}

static void b_becomes_x(cb_box *b)
{
	mv(b, "/work/b", "/work/x");
}

static void x_is_written(cb_box *b)
{
	must_write(b, "/work/x", "X");
}

static void new_folder_b(cb_box *b)
{
	must_mkdir(b, "/work/b");
	must_write(b, "/work/b/f", "NEW");
}

TEST(a_folder)
{
	history h = {folder_b, {b_becomes_x, new_folder_b}, {x_is_written, nothing}, false};
	keeps(h, "b/ b/f=NEW x/ x/f=old z=z", "b/ b/f=old x=X z=z");
}

static void file_b(cb_box *b)
{
	must_write(b, "/work/b", "old");
}

static void new_file_b(cb_box *b)
{
	must_write(b, "/work/b", "NEW");
}

TEST(a_file)
{
	history h = {file_b, {b_becomes_x, new_file_b}, {x_is_written, nothing}, false};
	keeps(h, "b=NEW x=old z=z", "b=old x=X z=z");
}
