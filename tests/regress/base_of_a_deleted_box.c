/*
 * A box that was deleted while it was applied, by the visitor, another thread or another process, got a new base all the same: apply works
 * on a state's handle, for which a deleted box is no matter. fsck complained of that base from then on, and gc left it. Nothing that hangs
 * on a box is made once it is gone, the folder is not written any more, and gc removes what earlier programs left.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "box/internal.h"
#include "harness/boxes.h"
#include "harness/tree_text.h"

static cb_store *cs;
static void (*delete_it)(void);
static bool deleted;

static void delete_here(void)
{
	cb_error err = {0};
	CHECK_OK(cb_box_delete(cs, "demo", &err));
}

static void *delete_main(void *unused)
{
	delete_here();
	return unused;
}

static void delete_in_thread(void)
{
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, delete_main, NULL) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
}

static void delete_in_process(void)
{
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		cb_error err = {0};
		cb_store *own = test_store_reopen();
		cb_code code = cb_box_delete(own, "demo", &err);
		cb_store_close(own);
		_exit(code == CB_OK ? 0 : 1);
	}
	int status = 1;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void delete_once(void)
{
	if (!deleted) delete_it();
	deleted = true;
}

static cb_code visited(void *context, const cb_apply_item *item, cb_error *err)
{
	(void)context;
	(void)item;
	(void)err;
	delete_once();
	return CB_OK;
}

static bool watched(void *context, const cb_progress *progress)
{
	(void)context;
	(void)progress;
	delete_once();
	return true;
}

static void delete_and_collect(void)
{
	cb_error err = {0};
	delete_here();
	CHECK_OK(cb_store_gc(cs, NULL, &err));
}

/* In the visitor, before anything is written; or while it is. */
static void deleted_during_apply(void (*how)(void), bool writing)
{
	static const char *const some[] = {"/work/a"};
	cb_error err = {0};
	cb_box *b = NULL;
	char folder[4096];
	cs = test_store_open(false);
	delete_it = how;
	deleted = false;
	CHECK_OK(cb_box_create(cs, "demo", &b, &err));
	(void)snprintf(folder, sizeof(folder), "%s/project", test_tmpdir());
	must_run("rm -rf '%s' && mkdir '%s' && printf one >'%s/x'", folder, folder, folder);
	CHECK_OK(cb_import(b, folder, &CB_WITH(cb_import_options, .link = true), NULL, &err));
	must_write(b, "/work/a", "a\n");
	must_write(b, "/work/c", "c\n");
	cb_transfer_watch watch = CB_WITH(cb_transfer_watch, .progress = watched);
	cb_apply_options o = CB_WITH(cb_apply_options, .watch = writing ? &watch : NULL);
	if (how == delete_and_collect) o.paths = some, o.path_count = 1; /* of a part the base is changed, not made anew */
	CHECK_CODE(cb_apply(b, &o, writing ? NULL : visited, NULL, NULL, &err), CB_NOTFOUND);
	CHECK(deleted);
	CHECK_MSG(strstr(err.message, "box 'demo'"), "%s", err.message);
	if (!writing) must_run("test ! -e '%s/a'", folder); /* known in time: the folder is left alone */
	cb_box_close(b);
	test_store_sound(cs);
	CHECK_OK(cb_store_gc(cs, NULL, &err));
	test_store_sound(cs);
	/* The folder is free for another. */
	cb_box *again = NULL;
	CHECK_OK(cb_box_create(cs, "demo", &again, &err));
	CHECK_OK(cb_import(again, folder, &CB_WITH(cb_import_options, .link = true), NULL, &err));
	must_write(again, "/work/n", "n\n");
	CHECK_OK(cb_apply(again, NULL, NULL, NULL, NULL, &err));
	cb_box_close(again);
	test_store_sound(cs);
	cb_store_close(cs);
}

TEST(deleted_by_the_visitor)
{
	deleted_during_apply(delete_here, false);
}

TEST(deleted_by_a_thread)
{
	deleted_during_apply(delete_in_thread, false);
}

TEST(deleted_by_a_process)
{
	deleted_during_apply(delete_in_process, false);
}

TEST(deleted_while_it_writes)
{
	deleted_during_apply(delete_here, true);
}

TEST(deleted_and_collected_while_it_writes)
{
	deleted_during_apply(delete_and_collect, true);
}

TEST_BOTH(no_base_for_a_box_that_is_gone)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL, *base = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	cb_box *old = must_open(s, "demo@0");
	CHECK_OK(cb_box_delete(s, "demo", &err));
	for (int collected = 0; collected < 2; collected++) {
		CHECK_CODE(box_base_open(old, BOX_BASE_ANEW, &base, &err), CB_NOTFOUND);
		CHECK_CODE(box_base_open(old, BOX_BASE_AT_HEAD, &base, &err), CB_NOTFOUND);
		CHECK_CODE(box_base_reset(old, &err), CB_NOTFOUND);
		CHECK_CODE(box_folder_set(old, "/tmp/folder", "/work", &err), CB_NOTFOUND);
		test_store_sound(s);
		CHECK_OK(cb_store_gc(s, NULL, &err));
	}
	cb_box_close(old);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

static void count_complaint(void *context, const char *line)
{
	(void)line;
	++*(unsigned *)context;
}

/* As programs before this one could leave it. */
TEST_BOTH(gc_removes_what_was_left)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	store_box made;
	unsigned told = 0;
	uint64_t complaints = 0;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	CHECK_OK(store_write_begin(s->s, &err));
	CHECK_OK(box_insert(s, "#base-77", NULL, &made, &err));
	CHECK_OK(store_setting_set(s->s, 78, "left", "1", &err));
	CHECK_OK(store_checkpoint_put(s->s, &(store_checkpoint){.box = 78, .name = "left"}, &err));
	CHECK_OK(store_write_commit(s->s, false, &err));
	CHECK_OK(cb_store_check(s, count_complaint, &told, &complaints, &err));
	CHECK(complaints >= 3 && told == complaints);
	CHECK_OK(cb_store_gc(s, NULL, &err));
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}
