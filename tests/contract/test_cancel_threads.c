/*
 * test_cancel_threads.c: waits that a token, fired by somebody else, or a time limit ends: for locks of threads and processes, for a call
 * of another thread on the same handle, for pipes. The harness's time limit is the watchdog: without an end these calls wait for ever,
 * or for a minute and give CB_BUSY.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cowbox/transfer.h>

#include "base/cancel.h"
#include "box/internal.h"
#include "harness/boxes.h"

static cb_store *s;
static cb_box *b;
static cb_error err;
static cb_cancel *token;

static void begin(bool memory)
{
	s = test_store_open(memory);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/a", "a");
	CHECK_OK(cb_cancel_create(&token, &err));
}

static void end(void)
{
	cb_cancel_free(token);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

static void rest(int ms)
{
	(void)nanosleep(&(struct timespec){ms / 1000, (long)(ms % 1000) * 1000000}, NULL);
}

typedef struct later {
	cb_cancel *cancel;
	int ms;
} later;

static void *fire_later(void *context)
{
	const later *l = context;
	rest(l->ms);
	cb_cancel_fire(l->cancel);
	return NULL;
}

typedef cb_code (*waiting_call)(cb_error *err);

static void must_be(cb_code code, cb_code expected, const cb_error *why)
{
	CHECK_MSG(code == expected && why->code == expected, "%s (%s)", cb_code_name(code), why->message);
}

/* The call must wait: ended by a token, by a time limit, and at once by a token that was fired before. On a slow machine it may not
 * have come to its wait yet: then it is tried again with more time. */
static void must_end(waiting_call call, const char *what)
{
	bool told[2] = {false, false};
	for (int ms = 30; !(told[0] && told[1]); ms *= 2) {
		CHECK_MSG(ms < 5000, "it does not say that it waits %s", what);
		cb_error why = {0};
		pthread_t firing;
		later l = {token, ms};
		cb_cancel_reset(token);
		CHECK(pthread_create(&firing, NULL, fire_later, &l) == 0);
		limit_push(0, token);
		cb_code code = call(&why);
		cb_limit_pop();
		CHECK(pthread_join(firing, NULL) == 0);
		must_be(code, CB_CANCELLED, &why);
		told[0] = told[0] || strstr(why.message, what);
		limit_push(0, token);
		must_be(call(&why), CB_CANCELLED, &why);
		cb_limit_pop();
		limit_push(ms, NULL);
		code = call(&why);
		cb_limit_pop();
		must_be(code, CB_TIMEOUT, &why);
		told[1] = told[1] || strstr(why.message, what);
	}
}

/* ---- somebody holds something until he is told ---- */

typedef struct holder {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool held, over;
	void (*hold)(struct holder *h);
} holder;

static void held(holder *h)
{
	(void)pthread_mutex_lock(&h->lock);
	h->held = true;
	(void)pthread_cond_broadcast(&h->changed);
	while (!h->over) (void)pthread_cond_wait(&h->changed, &h->lock);
	(void)pthread_mutex_unlock(&h->lock);
}

static void *holder_run(void *context)
{
	holder *h = context;
	h->hold(h);
	return NULL;
}

static void holder_begin(holder *h, void (*hold)(holder *))
{
	*h = (holder){.hold = hold};
	(void)pthread_mutex_init(&h->lock, NULL);
	(void)pthread_cond_init(&h->changed, NULL);
	CHECK(pthread_create(&h->thread, NULL, holder_run, h) == 0);
	(void)pthread_mutex_lock(&h->lock);
	while (!h->held) (void)pthread_cond_wait(&h->changed, &h->lock);
	(void)pthread_mutex_unlock(&h->lock);
}

static void holder_end(holder *h)
{
	(void)pthread_mutex_lock(&h->lock);
	h->over = true;
	(void)pthread_cond_broadcast(&h->changed);
	(void)pthread_mutex_unlock(&h->lock);
	CHECK(pthread_join(h->thread, NULL) == 0);
	(void)pthread_cond_destroy(&h->changed);
	(void)pthread_mutex_destroy(&h->lock);
}

static void hold_write(holder *h)
{
	cb_error e = {0};
	CHECK(store_write_begin(s->s, &e) == CB_OK);
	held(h);
	store_write_abort(s->s);
}

/* As a long call on the handle does. */
static void hold_handle(holder *h)
{
	cb_error e = {0};
	CHECK(box_enter(b, &e) == CB_OK);
	held(h);
	(void)box_leave(b, CB_OK);
}

static cb_code call_write(cb_error *e)
{
	return cb_write_file(b, "/work/new", "new", 3, NULL, e);
}

static cb_code call_create(cb_error *e)
{
	return cb_box_create(s, "more", NULL, e);
}

static cb_code call_stat(cb_error *e)
{
	cb_stat_info info = CB_INIT(cb_stat_info);
	return cb_stat(b, "/work/a", 0, &info, e);
}

static cb_code call_gc(cb_error *e)
{
	return cb_store_gc(s, NULL, e);
}

static cb_code call_vacuum(cb_error *e)
{
	return cb_store_vacuum(s, e);
}

static cb_code call_import(cb_error *e)
{
	return cb_import(b, test_tmpdir(),
	                 &CB_WITH(cb_import_options, .to = "/in", .exclude = (const char *const[]){"*"}, .exclude_count = 1), NULL,
	                 e);
}

static cb_code call_open(cb_error *e)
{
	cb_box *box = NULL;
	cb_code code = cb_box_open(s, "demo@0", &box, e);
	cb_box_close(box);
	return code;
}

TEST_BOTH(the_writer_lock_of_another_thread)
{
	holder h;
	begin(memory);
	holder_begin(&h, hold_write);
	must_end(call_write, "for the store's writer lock");
	must_end(call_create, "for the store's writer lock");
	must_end(call_gc, "for the store");
	must_end(call_vacuum, "for the store");
	/* A read that is not cached waits for the connection. */
	must_end(call_open, "for the store, which another thread uses");
	holder_end(&h);
	CHECK(!exists(b, "/work/new"));
	CHECK_OK(call_write(&err));
	CHECK_OK(call_create(&err));
	CHECK_OK(call_gc(&err));
	CHECK_OK(call_vacuum(&err));
	CHECK_OK(call_open(&err));
	end();
}

TEST_BOTH(another_threads_call_on_the_handle)
{
	holder h;
	begin(memory);
	holder_begin(&h, hold_handle);
	must_end(call_write, "for another thread's call on this handle");
	must_end(call_stat, "for another thread's call on this handle");
	must_end(call_import, "for another thread's call on this handle");
	limit_push(10, NULL);
	CHECK_U64(cb_box_step(b), 0);
	cb_limit_pop();
	holder_end(&h);
	CHECK_OK(call_write(&err));
	CHECK_OK(call_stat(&err));
	CHECK_OK(call_import(&err));
	end();
}

/* Who waits behind a cancelled waiter gets his turn. */
static void *write_one(void *name)
{
	cb_error e = {0};
	cb_box *mine = NULL;
	CHECK(cb_box_open(s, "demo", &mine, &e) == CB_OK);
	CHECK(cb_write_file(mine, name, "x", 1, NULL, &e) == CB_OK);
	cb_box_close(mine);
	return NULL;
}

static void *write_limited(void *context)
{
	cb_error e = {0};
	cb_box *mine = context;
	cb_limit limit = CB_WITH(cb_limit, .timeout_ms = 60);
	CHECK(cb_limit_push(&limit, &e) == CB_OK);
	CHECK(cb_write_file(mine, "/work/limited", "x", 1, NULL, &e) == CB_TIMEOUT);
	return NULL; /* without a pop: the thread's end does it */
}

TEST_BOTH(others_keep_their_turn)
{
	holder h;
	pthread_t first, limited[3], second;
	begin(memory);
	cb_box *mine[3];
	for (int i = 0; i < 3; i++) mine[i] = must_open(s, "demo");
	char one[] = "/work/one", two[] = "/work/two";
	cb_box *open_first = must_open(s, "demo");
	holder_begin(&h, hold_write);
	CHECK(pthread_create(&first, NULL, write_one, one) == 0);
	for (int i = 0; i < 3; i++) CHECK(pthread_create(&limited[i], NULL, write_limited, mine[i]) == 0);
	CHECK(pthread_create(&second, NULL, write_one, two) == 0);
	for (int i = 0; i < 3; i++) CHECK(pthread_join(limited[i], NULL) == 0);
	holder_end(&h);
	CHECK(pthread_join(first, NULL) == 0 && pthread_join(second, NULL) == 0);
	CHECK(exists(b, one) && exists(b, two) && !exists(b, "/work/limited"));
	for (int i = 0; i < 3; i++) cb_box_close(mine[i]);
	cb_box_close(open_first);
	end();
}

/* Each thread's token ends its own calls. */
typedef struct own {
	cb_cancel *cancel;
	cb_box *box;
	cb_code code;
} own;

static void *write_until_ended(void *context)
{
	own *o = context;
	cb_limit limit = CB_WITH(cb_limit, .timeout_ms = 20000, .cancel = o->cancel);
	CHECK(cb_limit_push(&limit, NULL) == CB_OK);
	o->code = CB_OK;
	for (unsigned n = 0; o->code == CB_OK; n++) o->code = cb_write_file(o->box, "/work/own", &n, sizeof(n), NULL, NULL);
	cb_limit_pop();
	return NULL;
}

TEST_BOTH(two_threads_with_different_tokens)
{
	begin(memory);
	own owns[2] = {{0}};
	pthread_t threads[2];
	for (int i = 0; i < 2; i++) {
		CHECK_OK(cb_cancel_create(&owns[i].cancel, &err));
		owns[i].box = must_open(s, "demo");
	}
	for (int i = 0; i < 2; i++) CHECK(pthread_create(&threads[i], NULL, write_until_ended, &owns[i]) == 0);
	rest(20);
	cb_cancel_fire(owns[0].cancel);
	CHECK(pthread_join(threads[0], NULL) == 0);
	CHECK_U64(owns[0].code, CB_CANCELLED);
	uint64_t then = must_seq(b);
	while (must_seq(b) == then) rest(1); /* the other goes on */
	cb_cancel_fire(owns[1].cancel);
	CHECK(pthread_join(threads[1], NULL) == 0);
	CHECK_U64(owns[1].code, CB_CANCELLED);
	for (int i = 0; i < 2; i++) {
		cb_cancel_free(owns[i].cancel);
		cb_box_close(owns[i].box);
	}
	end();
}

/* ---- other processes ---- */

static pid_t child;
static int to_child[2], from_child[2];

static void child_hold(uint64_t byte)
{
	CHECK(pipe(to_child) == 0 && pipe(from_child) == 0);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		char c = 0;
		cb_error e = {0};
		cb_store *own_store = test_store_reopen();
		store_options o = {.path = test_store_path()};
		store *inner = NULL;
		if (store_open(&o, &inner, &e) != CB_OK) _exit(1);
		cb_code code = byte ? store_gc_lock(inner, &e) : store_write_begin(inner, &e);
		if (code != CB_OK || write(from_child[1], &c, 1) != 1 || read(to_child[0], &c, 1) != 1) _exit(1);
		(void)own_store;
		_exit(0); /* with it go its locks */
	}
	char c;
	CHECK(read(from_child[0], &c, 1) == 1);
}

static void child_end(void)
{
	int status = 0;
	CHECK(write(to_child[1], "x", 1) == 1 && waitpid(child, &status, 0) == child && status == 0);
}

TEST(the_writer_lock_of_another_process)
{
	begin(false);
	child_hold(0);
	must_end(call_write, "for the store's lock, which another process holds");
	must_end(call_gc, "for the store's lock, which another process holds");
	must_end(call_vacuum, "for the store's lock, which another process holds");
	CHECK_OK(call_stat(&err)); /* readers do not wait */
	child_end();
	CHECK(!exists(b, "/work/new"));
	CHECK_OK(call_write(&err));
	end();
}

static cb_code call_prune(cb_error *e)
{
	return cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, e);
}

/* A gc does not wait for another: it is CB_BUSY with or without a limit. A prune does. */
TEST(the_lock_of_gc)
{
	begin(false);
	child_hold(1);
	limit_push(3600000, token);
	CHECK_CODE(call_gc(&err), CB_BUSY);
	CHECK_CODE(call_vacuum(&err), CB_BUSY);
	CHECK_MSG(strstr(err.message, "prune") && strstr(err.message, "try again when it has ended"), "%s", err.message);
	cb_limit_pop();
	must_end(call_prune, "for a gc, prune, vacuum, backup or check to end");
	memset(&err, 0, sizeof(err));
	child_end();
	CHECK_OK(call_gc(&err));
	end();
}

/* ---- pipes ---- */

static int ends[2];

static cb_code call_tar_in(cb_error *e)
{
	return cb_tar_import(b, ends[0], NULL, NULL, e);
}

static cb_code call_unpack(cb_error *e)
{
	return cb_unpack(s, ends[0], "unpacked", NULL, NULL, e);
}

static cb_code call_tar_out(cb_error *e)
{
	return cb_tar_export(b, "/", ends[1], NULL, NULL, e);
}

static cb_code call_pack(cb_error *e)
{
	return cb_pack(b, ends[1], NULL, NULL, e);
}

TEST_BOTH(pipes_that_nobody_fills_or_empties)
{
	begin(memory);
	static char large[1 << 20];
	for (size_t i = 0; i < sizeof(large); i++) large[i] = (char)(i * 2654435761u >> 7);
	CHECK_OK(cb_write_file(b, "/work/large", large, sizeof(large), NULL, &err));
	waiting_call calls[] = {call_tar_in, call_unpack, call_tar_out, call_pack};
	for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
		CHECK(pipe(ends) == 0);
		must_end(calls[i], i == 0 || i == 1 ? "for more of the" : "for whoever reads the");
		CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
	}
	end();
}

/* ---- signals ---- */

static void on_alarm(int number)
{
	(void)number;
	cb_cancel_fire(token);
}

TEST(a_signal_handler_may_fire)
{
	holder h;
	begin(false);
	struct sigaction action = {.sa_handler = on_alarm};
	CHECK(sigaction(SIGALRM, &action, NULL) == 0);
	holder_begin(&h, hold_write);
	timer_t timer;
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
	CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
	CHECK(timer_settime(timer, 0, &(struct itimerspec){.it_value = {0, 30000000}}, NULL) == 0);
	limit_push(0, token);
	CHECK_CODE(call_write(&err), CB_CANCELLED);
	cb_limit_pop();
	holder_end(&h);
	CHECK(timer_delete(timer) == 0);
	memset(&err, 0, sizeof(err));
	end();
}
