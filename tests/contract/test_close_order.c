/*
 * test_close_order.c: a store, a box, a sandbox and a command of it are closed in any order, whatever the command is at; what it did is
 * kept where it was waited for, and dropped where it was not.
 */
#include "contract/test_docs_kit.h"

#include "base/attr.h"

enum { STORE, BOX, SANDBOX, EXEC, HANDLES };

/* When the handles before it in the order are closed, the command ... */
typedef enum moment {
	RUNS,   /* ... runs, and is closed so */
	WAITED, /* ... was waited for before any was closed */
	WAITS,  /* ... runs, and is waited for when its turn comes */
	MOMENTS
} moment;

typedef struct world {
	cb_store *store;
	cb_box *box;
	cb_sandbox *sandbox;
	cb_exec *exec;
} world;

static cb_error err;
static uint64_t changes;

static cb_code count_change(void *context, const cb_change *change, cb_error *e)
{
	(void)context;
	(void)e;
	CHECK_STR(change->path, "/work/made");
	changes++;
	return CB_OK;
}

static void wait_for(cb_exec *exec)
{
	const cb_exec_result *result = NULL;
	CHECK_OK(cb_exec_wait(exec, &result, &err));
	CHECK(result->exit_code == 0 && result->changed == 1);
	changes = 0;
	CHECK_OK(cb_exec_changes(exec, count_change, NULL, &err));
	CHECK_U64(changes, 1);
}

static void close_one(world *w, int which, moment m)
{
	if (which == STORE) cb_store_close(w->store);
	if (which == BOX) cb_box_close(w->box);
	if (which == SANDBOX) cb_sandbox_close(w->sandbox);
	if (which == EXEC && m == WAITS) wait_for(w->exec);
	if (which == EXEC) cb_exec_close(w->exec);
}

static void try_order(const int order[HANDLES], moment m, const char *folder)
{
	world w = {0};
	const char *script = m == RUNS ? "echo x >made; sleep 1000" : "echo x >made";
	cb_exec_options o =
		CB_WITH(cb_exec_options, .argv = (const char *const[]){"sh", "-c", script}, .argc = 3, .stdin_fd = CB_STDIN_NONE);
	CHECK_OK(cb_store_open(folder, NULL, &w.store, &err));
	CHECK_OK(cb_box_create(w.store, "demo", &w.box, &err));
	cb_code code = cb_sandbox_open(w.box, NULL, &w.sandbox, &err);
	if (code == CB_OK) code = cb_exec_start(w.sandbox, &o, &w.exec, &err);
	if (code == CB_UNSUPPORTED) test_lacks("sandbox", err.message);
	CHECK_MSG(code == CB_OK, "%s", err.message);
	if (m == WAITED) wait_for(w.exec);
	for (int i = 0; i < HANDLES; i++) close_one(&w, order[i], m);
	CHECK_OK(cb_store_open(folder, NULL, &w.store, &err));
	w.box = must_open(w.store, "demo");
	CHECK_MSG(exists(w.box, "/work/made") == (m != RUNS), "order %d%d%d%d, moment %d", order[0], order[1], order[2], order[3],
	          m);
	cb_box_close(w.box);
	test_store_sound(w.store);
	cb_store_close(w.store);
}

TEST_LIMIT(every_order, 300)
{
	int count = 0;
	for (int i = 0; i < HANDLES * HANDLES * HANDLES * HANDLES; i++) {
		int order[HANDLES] = {i % 4, i / 4 % 4, i / 16 % 4, i / 64};
		if (((1 << order[0]) | (1 << order[1]) | (1 << order[2]) | (1 << order[3])) != 15) continue;
		for (moment m = RUNS; m < MOMENTS; m++) try_order(order, m, text_of("%s/s%d", test_tmpdir(), count++));
	}
	CHECK(count == 24 * MOMENTS);
}

/* How many folders nobody holds when two commands of a sandbox were closed after it, or before. */
static uint64_t left_behind(bool sandbox_first, const char *folder)
{
	world w = {0};
	cb_exec *second = NULL;
	uint64_t removed = 0;
	const cb_exec_result *result = NULL;
	cb_exec_options o = CB_WITH(cb_exec_options, .argv = (const char *const[]){"sh", "-c", "echo x >made"}, .argc = 3,
	                            .stdin_fd = CB_STDIN_NONE);
	CHECK_OK(cb_store_open(folder, NULL, &w.store, &err));
	CHECK_OK(cb_box_create(w.store, "demo", &w.box, &err));
	cb_code code = cb_sandbox_open(w.box, NULL, &w.sandbox, &err);
	if (code == CB_OK) code = cb_exec_start(w.sandbox, &o, &w.exec, &err);
	if (code == CB_UNSUPPORTED) test_lacks("sandbox", err.message);
	CHECK_MSG(code == CB_OK, "%s", err.message);
	o.argv = (const char *const[]){"true"};
	o.argc = 1;
	CHECK_OK(cb_exec_start(w.sandbox, &o, &second, &err));
	if (sandbox_first) cb_sandbox_close(w.sandbox);
	wait_for(w.exec);
	CHECK_OK(cb_exec_wait(second, &result, &err));
	cb_exec_close(w.exec);
	if (!sandbox_first) {
		cb_exec_close(second);
		cb_sandbox_close(w.sandbox);
	}
	CHECK_OK(cb_work_clean(w.store, true, &removed, &err));
	if (sandbox_first) cb_exec_close(second);
	cb_box_close(w.box);
	cb_store_close(w.store);
	return removed;
}

/* A command that ends after its sandbox was closed does not keep its place ready for a next one. */
TEST(what_comes_back_to_a_closed_sandbox_is_given_up)
{
	uint64_t usual = left_behind(false, text_of("%s/usual", test_tmpdir()));
	CHECK(usual >= 2);
	CHECK_U64(left_behind(true, text_of("%s/early", test_tmpdir())), usual);
}
