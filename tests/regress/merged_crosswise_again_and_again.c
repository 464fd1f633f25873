/*
 * Boxes that merge each other crosswise, or in a ring, again and again, without ever merging what the other has just merged: each round
 * their common pasts have common pasts of their own, one generation more. After nine rounds no merge was possible any more, of whatever
 * state.
 */
#include "harness/sides.h"

enum { BOXES_MAX = 3 };
#define TEXT "%d\n-\n-\n%d\n-\n-\n%d\n"

typedef struct circle {
	cb_store *s;
	cb_box *boxes[BOXES_MAX];
	int count;
} circle;

static circle circle_open(int count)
{
	cb_error err = {0};
	circle c = {.s = test_store_open(true), .count = count};
	cb_box *base = NULL;
	CHECK_OK(cb_box_create(c.s, "base", &base, &err));
	must_write(base, "/work/text", "0\n-\n-\n0\n-\n-\n0\n");
	for (int i = 0; i < count; i++) c.boxes[i] = must_fork(c.s, "base", (char[]){(char)('a' + i), 0});
	cb_box_close(base);
	return c;
}

static void circle_close(circle *c)
{
	test_store_sound(c->s);
	for (int i = 0; i < c->count; i++) cb_box_close(c->boxes[i]);
	cb_store_close(c->s);
}

/* Each writes a file and a line of its own, and merges the next as it was before the round's merges, or, in a ring, as it is. false: a
 * conflict. */
static bool round_of(circle *c, int number, bool ring)
{
	cb_error err = {0};
	uint64_t seqs[BOXES_MAX];
	bool clean = true;
	for (int i = 0; i < c->count; i++) {
		char path[] = {'/', 'w', 'o', 'r', 'k', '/', (char)('a' + i), 0}, text[32];
		(void)snprintf(text, sizeof(text), "%d", number);
		must_write(c->boxes[i], path, text);
		int lines[BOXES_MAX];
		CHECK(sscanf(must_read(c->boxes[i], "/work/text"), TEXT, &lines[0], &lines[1], &lines[2]) == BOXES_MAX);
		lines[i] = number;
		(void)snprintf(text, sizeof(text), TEXT, lines[0], lines[1], lines[2]);
		must_write(c->boxes[i], "/work/text", text);
		seqs[i] = must_seq(c->boxes[i]);
	}
	for (int i = 0; i < c->count; i++) {
		int next = (i + 1) % c->count;
		char name[32];
		(void)snprintf(name, sizeof(name), "%c@%llu", (char)('a' + next),
		               (unsigned long long)(ring ? must_seq(c->boxes[next]) : seqs[next]));
		cb_box *old = must_open(c->s, name);
		cb_code code = cb_merge(c->boxes[i], old, NULL, NULL, NULL, &err);
		CHECK_MSG(code == CB_OK || code == CB_CONFLICT, "round %d, box %d: %s", number, i, err.message);
		clean = clean && code == CB_OK;
		cb_box_close(old);
	}
	return clean;
}

TEST(two_boxes_crosswise)
{
	circle c = circle_open(2);
	for (int i = 0; i < 30; i++) CHECK(round_of(&c, i, false));
	for (int i = 0; i < 2; i++) must_show(c.boxes[i], "a=29 b=29 text=29\n-\n-\n29\n-\n-\n0\n");
	circle_close(&c);
}

TEST(three_boxes_in_a_ring)
{
	circle c = circle_open(3);
	for (int i = 0; i < 30; i++) CHECK(round_of(&c, i, true));
	must_merge(c.boxes[0], c.boxes[2], CB_PREFER_NONE);
	must_show(c.boxes[0], "a=29 b=29 c=29 text=29\n-\n-\n29\n-\n-\n29\n");
	circle_close(&c);
}

/* What was taken back stays so, however deep the pasts lie. */
TEST(taken_back_after_many_rounds)
{
	circle c = circle_open(2);
	for (int i = 0; i < 20; i++) CHECK(round_of(&c, i, false));
	rm(c.boxes[0], "/work/b");
	for (int i = 0; i < 2; i++) must_write(c.boxes[i], i ? "/work/y" : "/work/x", "new");
	must_merge(c.boxes[1], c.boxes[0], CB_PREFER_NONE);
	must_merge(c.boxes[0], c.boxes[1], CB_PREFER_NONE);
	for (int i = 0; i < 2; i++) must_show(c.boxes[i], "a=19 text=19\n-\n-\n19\n-\n-\n0\n x=new y=new");
	circle_close(&c);
}

/* Deeper than is looked: what differs there has no base, and who changed it cannot be known. To merge what the other has merged ends it. */
TEST_LIMIT(more_rounds_than_are_looked_at, 120)
{
	circle c = circle_open(2);
	int rounds = 0;
	while (round_of(&c, rounds, false)) CHECK(++rounds < 100);
	CHECK(rounds >= 30);
	must_conflict(c.boxes[0], c.boxes[1], "so was what both came from");
	must_merge(c.boxes[0], c.boxes[1], CB_PREFER_OURS);
	must_merge(c.boxes[1], c.boxes[0], CB_PREFER_NONE);
	for (int i = 0; i < 10; i++) CHECK(round_of(&c, rounds + i, false));
	circle_close(&c);
}
