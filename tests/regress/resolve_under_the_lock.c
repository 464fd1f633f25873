/* What a caller does in `resolve` must not keep others from writing; what they write meanwhile is not lost, and nobody is asked twice. */
#include <pthread.h>

#include "harness/sides.h"

typedef struct world {
	sides sides;
	cb_box *other, *beside; /* beside: a second handle on ours */
	unsigned asked, to_write;
	char paths[16][32];
} world;

static void zeros(cb_box *b)
{
	must_write(b, "/work/a", "0");
	must_write(b, "/work/b", "0");
	for (int i = 0; i < 9; i++) {
		char path[32];
		(void)snprintf(path, sizeof(path), "/work/late%d", i);
		must_write(b, path, "0");
	}
}

static world open_world(bool memory)
{
	cb_error err = {0};
	world w = {.sides = sides_open(memory, zeros)};
	CHECK_OK(cb_box_create(w.sides.s, "other", &w.other, &err));
	must_write(w.sides.ours, "/work/a", "ours");
	must_write(w.sides.theirs, "/work/a", "theirs");
	must_write(w.sides.theirs, "/work/b", "theirs");
	w.beside = must_open(w.sides.s, "ours");
	return w;
}

static void close_world(world *w)
{
	cb_box_close(w->beside);
	cb_box_close(w->other);
	sides_close(&w->sides);
}

static void *write_beside(void *context)
{
	world *w = context;
	must_write(w->other, "/work/x", "x");
	if (w->to_write) {
		char path[32], text[32];
		(void)snprintf(path, sizeof(path), "/work/new%u", w->to_write);
		(void)snprintf(text, sizeof(text), "%u", w->to_write--);
		must_write(w->beside, path, text);
	}
	return NULL;
}

static cb_prefer resolve(void *context, const cb_conflict *c)
{
	world *w = context;
	pthread_t thread;
	for (unsigned i = 0; i < w->asked; i++) CHECK_MSG(strcmp(w->paths[i], c->path) != 0, "asked twice about %s", c->path);
	CHECK(w->asked < 16);
	(void)snprintf(w->paths[w->asked++], 32, "%s", c->path);
	/* In a thread of its own, so that the writer lock would be another's; and in this one. */
	CHECK(pthread_create(&thread, NULL, write_beside, w) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	must_write(w->other, "/work/y", "y");
	return CB_PREFER_THEIRS;
}

TEST_BOTH(others_write_while_the_caller_thinks)
{
	cb_error err = {0};
	world w = open_world(memory);
	cb_merge_options o = CB_WITH(cb_merge_options, .resolve = resolve, .context = &w);
	uint64_t seq = 0, conflicts = 9;
	CHECK_OK(cb_merge(w.sides.ours, w.sides.theirs, &o, &seq, &conflicts, &err));
	CHECK_U64(w.asked, 1);
	CHECK_U64(conflicts, 0);
	CHECK_U64(seq, must_seq(w.sides.ours));
	CHECK_STR(must_read(w.sides.ours, "/work/a"), "theirs");
	close_world(&w);
}

TEST_BOTH(the_box_itself_changes_meanwhile)
{
	cb_error err = {0};
	world w = open_world(memory);
	w.to_write = 1;
	cb_merge_options o = CB_WITH(cb_merge_options, .resolve = resolve, .context = &w);
	CHECK_OK(cb_merge(w.sides.ours, w.sides.theirs, &o, NULL, NULL, &err));
	CHECK_U64(w.asked, 1);
	CHECK_STR(must_read(w.sides.ours, "/work/a"), "theirs");
	CHECK_STR(must_read(w.sides.ours, "/work/b"), "theirs");
	CHECK_STR(must_read(w.sides.ours, "/work/new1"), "1");
	close_world(&w);
}

/* Each answer comes with a change by somebody else that makes one more conflict: the races are lost until the lock is held, and what comes
 * up then is asked about outside of it. */
static cb_prefer resolve_and_add(void *context, const cb_conflict *c)
{
	world *w = context;
	char path[32];
	for (unsigned i = 0; i < w->asked; i++) CHECK_MSG(strcmp(w->paths[i], c->path) != 0, "asked twice about %s", c->path);
	(void)snprintf(w->paths[w->asked++], 32, "%s", c->path);
	if (w->asked > 8) return CB_PREFER_OURS;
	(void)snprintf(path, sizeof(path), "/work/late%u", w->asked);
	must_write(w->beside, path, "beside");
	return CB_PREFER_OURS;
}

TEST_BOTH(races_lost_one_after_the_other)
{
	cb_error err = {0};
	world w = open_world(memory);
	for (int i = 0; i < 9; i++) {
		char path[32];
		(void)snprintf(path, sizeof(path), "/work/late%d", i);
		must_write(w.sides.theirs, path, "theirs");
	}
	cb_merge_options o = CB_WITH(cb_merge_options, .resolve = resolve_and_add, .context = &w);
	CHECK_OK(cb_merge(w.sides.ours, w.sides.theirs, &o, NULL, NULL, &err));
	CHECK_U64(w.asked, 9);
	CHECK_STR(must_read(w.sides.ours, "/work/late0"), "theirs");
	CHECK_STR(must_read(w.sides.ours, "/work/late8"), "beside");
	CHECK_STR(must_read(w.sides.ours, "/work/a"), "ours");
	close_world(&w);
}
