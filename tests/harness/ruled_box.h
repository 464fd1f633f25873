/* ruled_box.h: a box "demo" with rules, a handle of its owner, whom no rule binds, and one of an agent. Each program has its own. */
#ifndef TESTS_RULED_BOX_H
#define TESTS_RULED_BOX_H

#include "box/cursor.h"
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

/* A visitor of the log that counts; context: int. */
static inline cb_code count_steps(void *context, const cb_step *step, cb_error *e)
{
	(void)step;
	(void)e;
	++*(int *)context;
	return CB_OK;
}

#endif
