/*
 * An import of the box's own folder made its step and then looked for what the folder holds in the newest state of the box. Beside others
 * it found their work there, imported again, and at last said CB_BUSY, CB_TIMEOUT or CB_STALE of an import that was committed.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include <cowbox/transfer.h>

#include "base/cancel.h"
#include "harness/boxes.h"
#include "harness/hosttrees.h"

typedef struct world {
	cb_store *s;
	cb_box *b, *beside;
	const char *folder, *path; /* path: what others write during the import */
	unsigned written;
} world;

static world open_world(bool memory)
{
	cb_error err = {0};
	world w = {.s = test_store_open(memory), .folder = host_text("%s/host", test_tmpdir()), .path = "/home/agent/note"};
	CHECK(mkdir(w.folder, 0755) == 0);
	host_write(host_text("%s/a", w.folder), "a", 1);
	host_write(host_text("%s/b", w.folder), "b", 1);
	/* Whose mode is told to the caller in the middle of the import. */
	CHECK(chmod(host_text("%s/a", w.folder), 04755) == 0);
	CHECK_OK(cb_box_create(w.s, "demo", &w.b, &err));
	w.beside = must_open(w.s, "demo");
	return w;
}

static void close_world(world *w)
{
	test_store_sound(w->s);
	cb_box_close(w->beside);
	cb_box_close(w->b);
	cb_store_close(w->s);
}

/* Others commit before the import does. */
static void write_beside(void *context, const char *path, const char *text)
{
	world *w = context;
	(void)path;
	(void)text;
	CANCEL_SHIELD; /* a limit is the import's, not theirs */
	must_write(w->beside, w->path, host_text("%u", ++w->written));
}

static cb_code count_import(void *context, const cb_step *step, cb_error *err)
{
	(void)err;
	*(unsigned *)context += strcmp(step->kind, "import") == 0;
	return CB_OK;
}

static unsigned imports(cb_box *b)
{
	cb_error err = {0};
	unsigned n = 0;
	CHECK_OK(cb_log(b, 0, count_import, &n, NULL, &err));
	return n;
}

static cb_code run(world *w, bool link, cb_error *err)
{
	cb_transfer_watch watch = CB_WITH(cb_transfer_watch, .note = write_beside, .context = w);
	return cb_import(w->b, w->folder, &CB_WITH(cb_import_options, .link = link, .full = true, .watch = &watch), NULL, err);
}

static cb_code count_item(void *context, const cb_apply_item *item, cb_error *err)
{
	(void)item;
	(void)err;
	++*(unsigned *)context;
	return CB_OK;
}

/* How much apply would do. */
static unsigned to_apply(cb_box *b)
{
	cb_error err = {0};
	unsigned n = 0;
	cb_code code = cb_apply(b, &CB_WITH(cb_apply_options, .dry_run = true), count_item, &n, NULL, &err);
	CHECK_MSG(code == CB_OK || code == CB_NOTHING, "%s: %s", cb_code_name(code), err.message);
	return n;
}

static bool is_linked(cb_box *b)
{
	cb_error err = {0};
	AUTO_FREE char *host = NULL, *path = NULL;
	return cb_folder_get(b, &host, &path, &err) == CB_OK;
}

TEST_BOTH(one_step_whatever_others_write)
{
	cb_error err = {0};
	world w = open_world(memory);
	CHECK_OK(run(&w, true, &err));
	CHECK_U64(imports(w.b), 1);
	CHECK(is_linked(w.b));
	CHECK_STR(must_read(w.b, "/work/a"), "a");
	CHECK_STR(must_read(w.b, "/home/agent/note"), "1");
	CHECK_U64(to_apply(w.b), 0);
	/* Once more, with a base that is there already. */
	host_write(host_text("%s/b", w.folder), "b2", 2);
	CHECK_OK(run(&w, false, &err));
	CHECK_U64(imports(w.b), 2);
	CHECK_STR(must_read(w.b, "/work/b"), "b2");
	CHECK_U64(to_apply(w.b), 0);
	close_world(&w);
}

/* What others made in the folder's place in the box is theirs, not the host's: apply brings it there. */
TEST_BOTH(work_of_others_is_not_the_hosts)
{
	cb_error err = {0};
	world w = open_world(memory);
	w.path = "/work/theirs";
	CHECK_OK(run(&w, true, &err));
	CHECK_STR(must_read(w.b, "/work/theirs"), "1");
	CHECK_U64(to_apply(w.b), 1);
	host_write(host_text("%s/b", w.folder), "b2", 2);
	CHECK_OK(run(&w, false, &err));
	CHECK_U64(to_apply(w.b), 1);
	CHECK_OK(cb_apply(w.b, NULL, NULL, NULL, NULL, &err));
	CHECK_U64(to_apply(w.b), 0);
	close_world(&w);
}

/* What only the box has below the folder's place is not the host's either. */
TEST_BOTH(what_only_the_box_has)
{
	cb_error err = {0};
	world w = open_world(memory);
	must_write(w.b, "/work/mine", "mine");
	CHECK_OK(run(&w, true, &err));
	CHECK_U64(to_apply(w.b), 1);
	CHECK_STR(must_read(w.b, "/work/mine"), "mine");
	w.path = "/work/mine";
	CHECK_OK(run(&w, false, &err));
	CHECK_U64(to_apply(w.b), 1);
	close_world(&w);
}

/* Ended at any of its looks: all of it is there, and the call says so, or nothing. */
TEST_LIMIT(ended_is_nothing, 120)
{
	cb_error err = {0};
	world w = open_world(true);
	cb_cancel *token = NULL;
	CHECK_OK(cb_cancel_create(&token, &err));
	for (long look = 1;; look++) {
		char name[32];
		cb_box_close(w.b);
		cb_box_close(w.beside);
		(void)snprintf(name, sizeof(name), "box%ld", look);
		CHECK_OK(cb_box_create(w.s, name, &w.b, &err));
		w.beside = must_open(w.s, name);
		cb_limit limit = CB_WITH(cb_limit, .cancel = token);
		CHECK_OK(cb_limit_push(&limit, &err));
		cancel_fire_at_look(token, look);
		cb_code code = run(&w, true, &err);
		cb_limit_pop();
		CHECK_U64(imports(w.b), code == CB_OK);
		CHECK(is_linked(w.b) == (code == CB_OK));
		CHECK(exists(w.b, "/work/a") == (code == CB_OK));
		if (code == CB_OK) break;
		CHECK_CODE(code, CB_CANCELLED);
	}
	cb_cancel_free(token);
	close_world(&w);
}

static _Atomic bool over;

static void *prune_for_ever(void *context)
{
	world *w = context;
	cb_error err = {0};
	cb_box *b = must_open(w->s, "demo");
	while (!atomic_load(&over)) {
		cb_code code = cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err);
		CHECK_MSG(code == CB_OK || code == CB_BUSY, "%s: %s", cb_code_name(code), err.message);
		must_write(b, "/home/agent/pruned", "x");
	}
	cb_box_close(b);
	return NULL;
}

/* Its own step may be pruned before the call returns. */
TEST_LIMIT(steps_pruned_beside_it, 120)
{
	cb_error err = {0};
	world w = open_world(true);
	CHECK_OK(run(&w, true, &err));
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, prune_for_ever, &w) == 0);
	for (unsigned i = 0; i < 200; i++) {
		const char *text = host_text("%u", i);
		host_write(host_text("%s/b", w.folder), text, strlen(text));
		CHECK_OK(run(&w, false, &err));
		CHECK_STR(must_read(w.b, "/work/b"), text);
	}
	atomic_store(&over, true);
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK_U64(to_apply(w.b), 0);
	close_world(&w);
}
