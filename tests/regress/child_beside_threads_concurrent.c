/*
 * fork() while another thread is in the library: the child hung for ever. In a lock of SQLite's when the other thread opened or closed a
 * store or worked in one in memory; in the handle's lock when it used the same handle, or when the process forked inside a visitor.
 */
#include "harness/boxes.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "box/box.h"
#include "box/internal.h"

enum { FORKS = 60, CHILD_SECONDS = 40, LONG_MS = 3000, SOON_MS = 1500 };

static cb_store *s;
static cb_box *b;
static _Atomic bool stop, began;

static void begin(void)
{
	cb_error err = {0};
	s = test_store_open(false);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/f", "x");
	atomic_store(&stop, false);
	atomic_store(&began, false);
}

static void end(void)
{
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

static int64_t now_ms(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static cb_code read_one(cb_box *from)
{
	cb_error err = {0};
	char *text = NULL;
	cb_code code = cb_read_file(from, "/work/f", &text, NULL, &err);
	if (code != CB_OK) (void)fprintf(stderr, "# in the child: %s\n", err.message);
	cb_free(text);
	return code;
}

/* The child ends itself if it hangs. */
static void child_must(int status)
{
	CHECK(!(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM));
	CHECK_U64(status, 0);
}

static void forks_beside(void *(*other)(void *))
{
	pthread_t t;
	begin();
	CHECK(pthread_create(&t, NULL, other, NULL) == 0);
	for (int i = 0; i < FORKS; i++) {
		int status = 0;
		pid_t pid = fork();
		if (pid == 0) {
			(void)alarm(CHILD_SECONDS);
			_exit(read_one(b) == CB_OK ? 0 : 1);
		}
		CHECK(waitpid(pid, &status, 0) == pid);
		child_must(status);
	}
	atomic_store(&stop, true);
	CHECK(pthread_join(t, NULL) == 0);
	end();
}

static void *opens_and_closes(void *unused)
{
	cb_error err = {0};
	while (!atomic_load(&stop)) {
		cb_store *again = NULL;
		CHECK_OK(cb_store_open(test_store_path(), NULL, &again, &err));
		cb_store_close(again);
	}
	return unused;
}

TEST(beside_opens_and_closes)
{
	forks_beside(opens_and_closes);
}

static void write_and_read(cb_box *box)
{
	cb_error err = {0};
	for (int i = 0; !atomic_load(&stop); i++) {
		char text[16], *back = NULL;
		int n = snprintf(text, sizeof(text), "%d", i);
		CHECK_OK(cb_write_file(box, "/work/t", text, (size_t)n, NULL, &err));
		CHECK_OK(cb_read_file(box, "/work/t", &back, NULL, &err));
		cb_free(back);
	}
}

static void *works_in_memory(void *unused)
{
	cb_error err = {0};
	cb_store *memory = NULL;
	cb_box *box = NULL;
	CHECK_OK(cb_store_open(":memory:", NULL, &memory, &err));
	CHECK_OK(cb_box_create(memory, "m", &box, &err));
	write_and_read(box);
	cb_box_close(box);
	cb_store_close(memory);
	return unused;
}

TEST(beside_a_store_in_memory)
{
	forks_beside(works_in_memory);
}

static void *works_on_the_same_handle(void *unused)
{
	write_and_read(b);
	return unused;
}

TEST(beside_the_same_handle)
{
	forks_beside(works_on_the_same_handle);
}

static void *works_on_its_own_handle(void *unused)
{
	cb_box *box = must_open(s, "demo");
	write_and_read(box);
	cb_box_close(box);
	return unused;
}

TEST(beside_another_handle)
{
	forks_beside(works_on_its_own_handle);
}

/* ---- calls that last ---- */

static cb_box *busy;

static void *holds_a_handle(void *unused)
{
	cb_error err = {0};
	CHECK_OK(box_hold(busy, &err));
	atomic_store(&began, true);
	(void)nanosleep(&(struct timespec){LONG_MS / 1000, 0}, NULL);
	box_release(busy);
	return unused;
}

static void *holds_the_database(void *unused)
{
	cb_error err = {0};
	CHECK_OK(store_write_begin(s->s, &err));
	atomic_store(&began, true);
	(void)nanosleep(&(struct timespec){LONG_MS / 1000, 0}, NULL);
	store_write_abort(s->s);
	return unused;
}

static pid_t fork_soon(pthread_t *t, void *(*other)(void *))
{
	CHECK(pthread_create(t, NULL, other, NULL) == 0);
	while (!atomic_load(&began)) (void)sched_yield();
	int64_t since = now_ms();
	pid_t pid = fork();
	if (pid == 0) (void)alarm(CHILD_SECONDS);
	else CHECK(now_ms() - since < SOON_MS);
	return pid;
}

static void both_must_end(pid_t pid, pthread_t t)
{
	int status = 0;
	CHECK(waitpid(pid, &status, 0) == pid);
	child_must(status);
	CHECK(pthread_join(t, NULL) == 0);
}

TEST(a_long_call_costs_its_handle)
{
	pthread_t t;
	begin();
	busy = must_open(s, "demo");
	pid_t pid = fork_soon(&t, holds_a_handle);
	if (pid == 0) {
		cb_error err = {0};
		cb_file *f = NULL;
		if (read_one(busy) != CB_FORKED || cb_write_file(busy, "/work/g", "x", 1, NULL, &err) != CB_FORKED) _exit(1);
		if (cb_open(busy, "/work/f", CB_READ, 0, &f, &err) != CB_FORKED || cb_box_step(busy) != 0) _exit(2);
		cb_box_close(busy);
		if (read_one(b) != CB_OK || cb_write_file(b, "/work/g", "x", 1, NULL, &err) != CB_OK) _exit(3);
		_exit(0);
	}
	both_must_end(pid, t);
	CHECK(exists(busy, "/work/g"));
	cb_box_close(busy);
	end();
}

TEST(a_long_transaction_costs_the_stores)
{
	pthread_t t;
	begin();
	pid_t pid = fork_soon(&t, holds_the_database);
	if (pid == 0) {
		cb_error err = {0};
		cb_store *again = NULL;
		if (read_one(b) != CB_FORKED) _exit(1);
		if (cb_store_open(":memory:", NULL, &again, &err) != CB_FORKED) _exit(2);
		cb_box_close(b);
		cb_store_close(s);
		_exit(0);
	}
	both_must_end(pid, t);
	end();
}

/* ---- the forking thread's own calls ---- */

static cb_code fork_here(void *context, const char *name, const cb_stat_info *info, cb_error *err)
{
	(void)name;
	(void)info;
	(void)err;
	pid_t *pid = context;
	if (*pid >= 0) return CB_OK;
	*pid = fork();
	if (*pid != 0) return CB_OK;
	(void)alarm(CHILD_SECONDS);
	if (read_one(b) != CB_OK) _exit(1);
	return CB_OK;
}

TEST(inside_a_visitor)
{
	cb_error err = {0};
	int status = 0;
	begin();
	pid_t pid = -1;
	CHECK_OK(cb_readdir(b, "/work", fork_here, &pid, &err));
	if (pid == 0) _exit(cb_write_file(b, "/work/g", "x", 1, NULL, &err) == CB_OK ? 0 : 2);
	CHECK(waitpid(pid, &status, 0) == pid);
	child_must(status);
	CHECK(exists(b, "/work/g"));
	end();
}

/* A handle that is held by the thread that forks is held by it in the child. */
TEST(inside_a_call)
{
	cb_error err = {0};
	int status = 0;
	begin();
	CHECK_OK(box_hold(b, &err));
	pid_t pid = fork();
	if (pid == 0) {
		(void)alarm(CHILD_SECONDS);
		if (read_one(b) != CB_OK) _exit(1);
		box_release(b);
		_exit(cb_write_file(b, "/work/g", "x", 1, NULL, &err) == CB_OK ? 0 : 2);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	box_release(b);
	child_must(status);
	CHECK(exists(b, "/work/g"));
	end();
}
