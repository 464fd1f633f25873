/*
 * Who a handle is was read without the handle's lock by what other layers ask of it: cb_sandbox_open beside cb_box_who_set on one handle
 * copied a name that had just been freed.
 */
#include "harness/boxes.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { ROUNDS = 200 };

static cb_box *b;
static _Atomic bool stop;

static void *renames_itself(void *unused)
{
	cb_error err = {0};
	char who[64];
	for (int i = 0; !atomic_load(&stop); i++) {
		(void)snprintf(who, sizeof(who), "somebody with a long name, number %d", i);
		CHECK_OK(cb_box_who_set(b, who, &err));
	}
	return unused;
}

TEST(who_beside_sandboxes)
{
	cb_error err = {0};
	pthread_t t;
	cb_store *s = test_store_open(false);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	CHECK(pthread_create(&t, NULL, renames_itself, NULL) == 0);
	for (int i = 0; i < ROUNDS; i++) {
		char *text = NULL;
		CHECK_OK(cb_sandbox_plan(b, NULL, true, &text, &err));
		cb_free(text);
	}
	atomic_store(&stop, true);
	CHECK(pthread_join(t, NULL) == 0);
	cb_box_close(b);
	cb_store_close(s);
}
