/* demo_box.h: one store `s` with one box `b` named "demo", for test programs that need no more. Each program has its own. */
#ifndef TESTS_DEMO_BOX_H
#define TESTS_DEMO_BOX_H

#include "harness/boxes.h"

static cb_store *s;
static cb_box *b;
static cb_error err;

static void begin(bool memory)
{
	s = test_store_open(memory);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
}

static void end(void)
{
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

#endif
