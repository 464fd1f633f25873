/* test_watch_ends.c: every transfer with a watch, ended by its progress(): the same code, one line in *err, it works again. */
#include "harness/transfers.h"

enum { FILES = 18, FILE_BYTES = 3 << 20 }; /* three whole batches of a pack and more: after the last it is too late to say no */

static unsigned calls, last;

static bool stop_at_last(void *context, const cb_progress *p)
{
	(void)context;
	(void)p;
	return ++calls != last; /* once is enough */
}

static void end_at_last(transfer_world *w, const transfer *t)
{
	cb_error err = {.code = CB_OK, .message = "untouched"};
	calls = 0;
	cb_code code = t->run(w, &err);
	CHECK_MSG(calls == last, "%s: progress() was called %u times, not %u", t->name, calls, last);
	CHECK_MSG(code == CB_INTERRUPTED && err.code == code, "%s at %u: %s, in *err %s", t->name, last, cb_code_name(code),
	          cb_code_name(err.code));
	CHECK_MSG(strcmp(err.message, "untouched") != 0 && *err.message && !strchr(err.message, '\n'), "%s: '%s'", t->name,
	          err.message);
}

TEST(progress_ends_every_transfer_alike)
{
	transfer_world w;
	transfer_world_open(&w, FILES, FILE_BYTES);
	cb_transfer_watch stopping = CB_WITH(cb_transfer_watch, .progress = stop_at_last);
	for (size_t i = 0; i < transfer_count; i++) {
		cb_error err = {0};
		w.watch = &stopping;
		for (last = 1; last <= 3; last++) end_at_last(&w, &transfers[i]);
		w.watch = NULL;
		CHECK_OK(transfers[i].run(&w, &err));
		transfers[i].check(&w);
	}
	transfer_world_close(&w);
}
