/*
 * A child of fork() could add to a transaction of its parent and was told CB_OK, and only its commit was CB_FORKED: it is told at once. Of
 * the running step of open files likewise, once: the next write begins a step of the child's own.
 */
#include <sys/wait.h>
#include <unistd.h>

#include <cowbox/cowbox.h>

#include "harness/boxes.h"

static cb_error err;

static void child(cb_box *b, cb_box *t, cb_file *f)
{
	CHECK_CODE(cb_write_file(t, "/work/c", "c", 1, NULL, &err), CB_FORKED);
	CHECK_CODE(cb_kv_set(t, "key", "c", 1, &err), CB_FORKED);
	CHECK_STR(must_read(t, "/work/t"), "t"); /* it may look at it */
	CHECK_CODE(cb_txn_commit(t, NULL, NULL, &err), CB_FORKED);
	CHECK_CODE(cb_write(f, "child", 5, &err), CB_FORKED);
	err = (cb_error){0};
	CHECK_OK(cb_write_file(b, "/work/child", "c", 1, NULL, &err));
	cb_box_close(t);
	_exit(0);
}

TEST(inherited_transaction)
{
	cb_box *b = NULL;
	cb_file *f = NULL;
	cb_store *s = test_store_open(false);
	int status = 0;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/f", "");
	cb_box *t = must_begin(b);
	must_write(t, "/work/t", "t");
	CHECK_OK(cb_open(b, "/work/f", CB_WRITE, 0, &f, &err));
	CHECK_OK(cb_write(f, "parent", 6, &err));
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) child(b, t, f);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK_OK(cb_close(f, &err));
	cb_commit_result r = must_commit(t);
	CHECK(r.merged);
	CHECK_STR(must_read(b, "/work/f"), "parent");
	CHECK_STR(must_read(b, "/work/t"), "t");
	CHECK_STR(must_read(b, "/work/child"), "c");
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}
