/*
 * Transactions, drafts and sandboxes are the process's that began them, which was told by its number. A child in a pid namespace of its own
 * may have the number of its parent: both are 1 in containers that are nested. It took what was the parent's for its own.
 */
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/boxes.h"

static cb_store *store;
static cb_box *box, *txn, *draft;
static cb_sandbox *sandbox;

static void child(void)
{
	cb_error err = {0};
	cb_exec *e = NULL;
	const char *const argv[] = {"true"};
	CHECK_CODE(cb_exec_start(sandbox, &CB_WITH(cb_exec_options, .argv = argv, .argc = 1), &e, &err), CB_FORKED);
	CHECK_CODE(cb_write_file(txn, "/work/t", "child", 5, NULL, &err), CB_FORKED);
	CHECK_CODE(cb_txn_commit(txn, NULL, NULL, &err), CB_FORKED);
	CHECK_CODE(cb_box_publish(draft, &err), CB_FORKED);
	cb_sandbox_close(sandbox);
	cb_box_close(draft);
	cb_box_close(txn);
	cb_box_close(box);
	cb_store_close(store);
}

/* The first process of a pid namespace; its exit status is told. */
static int first_of_a_namespace(int flags, void (*run)(void))
{
	int status = 1;
	if (unshare(flags) != 0) return 77;
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		CHECK_U64(getpid(), 1);
		run();
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	return status == 0 ? 0 : WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static void parent(void)
{
	cb_error err = {0};
	store = test_store_open(false);
	CHECK_OK(cb_box_create(store, "demo", &box, &err));
	txn = must_begin(box);
	must_write(txn, "/work/t", "parent");
	CHECK_OK(cb_box_draft(store, "draft", &draft, &err));
	cb_code code = cb_sandbox_open(box, NULL, &sandbox, &err);
	if (code == CB_UNSUPPORTED) _exit(77);
	CHECK_OK(code);
	int status = first_of_a_namespace(CLONE_NEWPID, child);
	if (status != 0) _exit(status);
	CHECK_OK(cb_txn_commit(txn, NULL, NULL, &err));
	CHECK_STR(must_read(box, "/work/t"), "parent");
	CHECK_OK(cb_box_publish(draft, &err));
	cb_sandbox_close(sandbox);
	cb_box_close(draft);
	cb_box_close(txn);
	cb_box_close(box);
	cb_store_close(store);
}

TEST(what_the_parent_began_is_the_parents)
{
	int status = 1;
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) _exit(first_of_a_namespace(CLONE_NEWUSER | CLONE_NEWPID, parent));
	CHECK(waitpid(pid, &status, 0) == pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) test_lacks("namespaces", "user and pid namespaces, one in the other");
	CHECK_MSG(status == 0, "it ended with %d", status);
}
