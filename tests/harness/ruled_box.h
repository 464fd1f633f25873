/* ruled_box.h: a box "demo" with rules, a handle of its owner, whom no rule binds, and one of an agent. Each program has its own. */
#ifndef TESTS_RULED_BOX_H
#define TESTS_RULED_BOX_H

#include "box/cursor.h"
#include "box/pen.h"
#include "harness/twins.h"

static rules all;
static cb_store *s;
static cb_box *owner, *agent;
static cb_error err;

static inline void begin(bool memory)
{
	s = test_store_open(memory);
	rules_init(&all);
	rules_set(&all, s);
	CHECK_OK(cb_store_who_set(s, "owner", &err));
	CHECK_OK(cb_box_create(s, "demo", &owner, &err));
	CHECK_OK(cb_store_who_set(s, "agent", &err));
	agent = must_open(s, "demo");
}

static inline void end(void)
{
	CHECK_OK(cb_store_who_set(s, "owner", &err));
	rules_clear(&all);
	test_store_sound(s);
	cb_box_close(agent);
	cb_box_close(owner);
	cb_store_close(s);
}

static inline void put(cb_box *b, const char *path, const char *text)
{
	CHECK_OK(cb_write_file(b, path, text, strlen(text), &CB_WITH(cb_write_options, .parents = true), &err));
}

static inline box_node node_of(cb_box *b, const char *path)
{
	AUTO_LOOK look *l = NULL;
	box_node n;
	CHECK_OK(look_open(b, LOOK_AS_SEEN, &l, &err));
	CHECK_OK(look_find(l, path, false, &n, &err));
	return n;
}

/* In place of the rules; rules_clear() does not end it. */
static inline void hook_set(gate_answer (*ask)(void *context, const gate_request *q),
                            gate_below (*below)(void *context, const char *who, uint64_t box, const char *path))
{
	all.g.ask = ask;
	all.g.below = below;
	atomic_fetch_add(&all.g.version, 1);
}

/* A hook that hides /work/A from "agent" and /work/B from "other". */
static inline gate_answer ask_two(void *context, const gate_request *q)
{
	(void)context;
	const char *hidden = strcmp(q->who, "agent") == 0 ? "/work/A" : strcmp(q->who, "other") == 0 ? "/work/B" : NULL;
	return hidden && q->path && strncmp(q->path, hidden, strlen(hidden)) == 0 ? GATE_HIDDEN : GATE_PASS;
}

static inline gate_below below_two(void *context, const char *who, uint64_t box, const char *path)
{
	(void)context;
	(void)box;
	if (strcmp(who, "owner") == 0) return GATE_BELOW_NONE;
	return strcmp(path, "/") == 0 ? GATE_BELOW_DEEPER : strcmp(path, "/work") == 0 ? GATE_BELOW_INSIDE : GATE_BELOW_NONE;
}

/* A visitor of the log that counts; context: int. */
static inline cb_code count_steps(void *context, const cb_step *step, cb_error *e)
{
	(void)step;
	(void)e;
	++*(int *)context;
	return CB_OK;
}

#endif
