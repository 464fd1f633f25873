/*
 * test_uses.c: states in use: who keeps what from prune and gc, and for how long. Whatever ends a process ends what it keeps; whatever is
 * kept can be read to the last byte; and what nobody keeps goes.
 */
#include "box/gate.h"
#include "harness/boxes.h"
#include "store/inuse.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STEPS = 30 };

static cb_error err;

/* Step k writes k into /work/n. */
static cb_box *fill(cb_store *s)
{
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	for (int i = 1; i <= STEPS; i++) {
		char text[300];
		(void)snprintf(text, sizeof(text), "%0200d", i);
		must_write(b, "/work/n", text);
	}
	return b;
}

static void must_be(cb_box *b, int n)
{
	char text[300];
	(void)snprintf(text, sizeof(text), "%0200d", n);
	CHECK_STR(must_read(b, "/work/n"), text);
}

static void prune_and_gc(cb_store *s)
{
	cb_box *b = must_open(s, "demo");
	CHECK_OK(cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
	CHECK_OK(cb_store_gc(s, NULL, &err));
	cb_box_close(b);
}

static bool has_step(cb_store *s, int seq)
{
	char address[32];
	cb_box *b = NULL;
	(void)snprintf(address, sizeof(address), "demo@%d", seq);
	cb_code code = cb_box_open(s, address, &b, &err);
	CHECK_MSG(code == CB_OK || code == CB_STALE, "%s", err.message);
	cb_box_close(b);
	return code == CB_OK;
}

typedef struct counted {
	unsigned all, here, pinned;
	char text[4096];
	char owner[80]; /* of the last pin */
} counted;

static cb_code count_use(void *context, const cb_use *u, cb_error *e)
{
	(void)e;
	counted *c = context;
	c->all++;
	c->here += u->pid == getpid();
	c->pinned += u->pinned;
	CHECK((u->owner != NULL) == u->pinned);
	if (u->owner) (void)snprintf(c->owner, sizeof(c->owner), "%s", u->owner);
	size_t at = strlen(c->text);
	if (at < sizeof(c->text) - 200)
		(void)snprintf(c->text + at, sizeof(c->text) - at, "%s@%llu %s\n", u->box, (unsigned long long)u->seq, u->why);
	CHECK(u->struct_size == sizeof(*u));
	return CB_OK;
}

static counted uses(cb_store *s)
{
	counted c = {0};
	CHECK_OK(cb_store_uses(s, count_use, &c, &err));
	return c;
}

/* A process of its own that does something and then waits to be killed, or to be told to go on. */
typedef struct other {
	pid_t pid;
	int to, from;
} other;

typedef void (*other_body)(int to_parent, int from_parent);

static void tell(int fd)
{
	CHECK(write(fd, "x", 1) == 1);
}

static void hear(int fd)
{
	char c;
	CHECK(read(fd, &c, 1) == 1);
}

static other start(other_body body)
{
	int up[2], down[2];
	CHECK(pipe(up) == 0 && pipe(down) == 0);
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		(void)close(up[0]);
		(void)close(down[1]);
		body(up[1], down[0]);
		_exit(0);
	}
	(void)close(up[1]);
	(void)close(down[0]);
	hear(up[0]);
	return (other){pid, down[1], up[0]};
}

static void end(const other *o, int signal)
{
	int status = 0;
	if (signal) CHECK(kill(o->pid, signal) == 0);
	else tell(o->to);
	CHECK(waitpid(o->pid, &status, 0) == o->pid);
	CHECK_MSG(signal ? WIFSIGNALED(status) : status == 0, "the other process ended with %x", status);
	(void)close(o->to);
	(void)close(o->from);
}

static void read_seventh(int up, int down)
{
	cb_store *s = test_store_reopen();
	cb_box *b = must_open(s, "demo@7");
	tell(up);
	hear(down);
	must_be(b, 7);
	cb_box_close(b);
	cb_store_close(s);
}

/* ---- what keeps ---- */

TEST_BOTH(an_open_state_is_kept_until_it_is_closed)
{
	cb_store *s = test_store_open(memory);
	cb_box_close(fill(s));
	cb_box *b = must_open(s, "demo@7"), *c = must_open(s, "demo@9");
	prune_and_gc(s);
	CHECK_STR(uses(s).text, "demo@7 open state\ndemo@9 open state\n");
	must_be(b, 7);
	must_be(c, 9);
	CHECK(has_step(s, 7) && has_step(s, 9) && !has_step(s, 8));
	cb_box_close(b);
	prune_and_gc(s);
	must_be(c, 9);
	CHECK(!has_step(s, 7));
	cb_box_close(c);
	prune_and_gc(s);
	CHECK(!has_step(s, 9));
	CHECK_U64(uses(s).all, 0);
	test_store_sound(s);
	cb_store_close(s);
}

TEST(another_process_keeps)
{
	cb_store *s = test_store_open(false);
	cb_box_close(fill(s));
	other o = start(read_seventh);
	prune_and_gc(s);
	CHECK_STR(uses(s).text, "demo@7 open state\n");
	CHECK_U64(uses(s).here, 0);
	end(&o, 0);
	prune_and_gc(s);
	CHECK(!has_step(s, 7));
	cb_store_close(s);
}

TEST(a_killed_reader_keeps_nothing)
{
	cb_store *s = test_store_open(false);
	cb_box_close(fill(s));
	for (int i = 0; i < 40; i++) { /* more than there are blocks at first: those of the dead are used again */
		other o = start(read_seventh);
		if (i == 0) prune_and_gc(s);
		CHECK(has_step(s, 7));
		end(&o, SIGKILL);
	}
	CHECK_U64(uses(s).all, 0);
	prune_and_gc(s);
	CHECK(!has_step(s, 7));
	struct stat st;
	char file[512];
	(void)snprintf(file, sizeof(file), "%s/inuse", test_store_path());
	CHECK(stat(file, &st) == 0);
	CHECK_U64(st.st_size, (1 + INUSE_BLOCKS_FIRST) * INUSE_BLOCK_BYTES);
	cb_store_close(s);
}

/* Dies with the table marked as being read, or as what a removal goes by, holding the writer lock. */
static void die_removing(int up, int down)
{
	(void)down;
	cb_store *s = test_store_reopen();
	AUTO_BUF buf seen = BUF_INIT(SIZE_MAX);
	CHECK_OK(store_write_begin(s->s, &err));
	CHECK_OK(store_removal_begin(s->s, &seen, &err));
	tell(up);
	for (;;) (void)pause();
}

TEST(a_killed_remover_stops_nobody)
{
	cb_store *s = test_store_open(false), *quiet = NULL;
	cb_box *b = fill(s);
	CHECK_OK(cb_store_open(test_store_path(), &CB_WITH(cb_store_options, .read_only = true), &quiet, &err));
	other o = start(die_removing);
	must_be(b, STEPS); /* a head is read beside a removal */
	end(&o, SIGKILL);
	cb_box *old = must_open(quiet, "demo@5"); /* nobody writes: it is not waited for that somebody does */
	must_be(old, 5);
	cb_box *same = must_open(s, "demo@6");
	must_write(b, "/work/x", "y");
	prune_and_gc(s);
	must_be(old, 5);
	must_be(same, 6);
	cb_box_close(old);
	cb_box_close(same);
	cb_box_close(b);
	cb_store_close(quiet);
	cb_store_close(s);
}

TEST(two_handles_of_one_store_in_one_process)
{
	cb_store *s = test_store_open(false), *t = test_store_reopen();
	cb_box_close(fill(s));
	cb_box *b = must_open(s, "demo@7"), *c = must_open(t, "demo@8");
	prune_and_gc(t);
	must_be(b, 7);
	must_be(c, 8);
	CHECK_U64(uses(s).here, 2);
	cb_box_close(c);
	cb_store_close(t); /* closing the one's files takes no lock of the other's */
	t = test_store_reopen();
	prune_and_gc(t);
	must_be(b, 7);
	CHECK(!has_step(s, 8));
	cb_box_close(b);
	prune_and_gc(t);
	CHECK(!has_step(s, 7));
	cb_store_close(s);
	cb_store_close(t);
}

/* ---- reader and remover in each other's gaps ---- */

static cb_store *remover;
static int gap_left; /* the gap is used so many times */

/* Another handle moves the head on, prunes and collects, all between two operations of the reader. */
static void remove_in_gap(const char *stage)
{
	if (strcmp(stage, "show") != 0 || gap_left == 0) return;
	gap_left--;
	int left = gap_left;
	gap_left = 0; /* its own calls have no gaps */
	cb_box *b = must_open(remover, "demo");
	char text[300];
	(void)snprintf(text, sizeof(text), "%0200d", STEPS + 1);
	must_write(b, "/work/n", "in between"); /* the newest step keeps what it replaced: that is not it */
	must_write(b, "/work/n", text);
	cb_box_close(b);
	prune_and_gc(remover);
	gap_left = left;
}

static cb_store *begin_gap(void)
{
	cb_store *s = NULL;
	remover = test_store_open(false);
	cb_box_close(fill(remover));
	CHECK_OK(cb_store_open(test_store_path(), &CB_WITH(cb_store_options, .cache_bytes = 1), &s, &err));
	return s;
}

static void end_gap(cb_store *s)
{
	inuse_stage_hook = NULL;
	test_store_sound(s);
	cb_store_close(s);
	cb_store_close(remover);
}

/* The rows were read and nothing is shown yet when all is pruned: it was pruned before it was opened. */
TEST(removed_between_reading_and_showing)
{
	cb_store *s = begin_gap();
	cb_box *b = NULL;
	inuse_stage_hook = remove_in_gap;
	gap_left = 1;
	CHECK_CODE(cb_box_open(s, "demo@7", &b, &err), CB_STALE);
	CHECK_U64(gap_left, 0);
	end_gap(s);
}

/* The newest was looked up, and is pruned when it is shown: then the newest is another, and is looked up again. */
TEST(moved_between_reading_and_showing)
{
	cb_store *s = begin_gap();
	cb_box *b = NULL;
	inuse_stage_hook = remove_in_gap;
	gap_left = 1;
	CHECK_OK(cb_box_open(s, "demo@-0", &b, &err));
	CHECK_U64(gap_left, 0);
	must_be(b, STEPS + 1);
	cb_box_close(b);
	end_gap(s);
}

/* A call on the head, which moves just before it is shown. */
TEST(the_head_moves_before_it_is_shown)
{
	cb_store *s = begin_gap();
	cb_box *b = must_open(s, "demo");
	inuse_stage_hook = remove_in_gap;
	gap_left = 1;
	must_be(b, STEPS + 1);
	CHECK_U64(gap_left, 0);
	cb_box_close(b);
	end_gap(s);
}

static gate_answer remove_at_gate(void *context, const gate_request *request)
{
	(void)context;
	(void)request;
	if (gap_left) remove_in_gap("show");
	return GATE_PASS;
}

static gate_below rules_everywhere(void *context, const char *who, uint64_t box, const char *path)
{
	(void)context;
	(void)who;
	(void)box;
	(void)path;
	return GATE_BELOW_INSIDE;
}

/* A call on the head, which moves, is pruned and collected while the call resolves its path. */
TEST(the_head_moves_during_a_call)
{
	cb_store *s = begin_gap();
	gate g = {.ask = remove_at_gate, .below = rules_everywhere};
	cb_box *b = must_open(s, "demo");
	s->gate = &g;
	gap_left = 1;
	must_be(b, STEPS);
	CHECK_U64(gap_left, 0);
	must_be(b, STEPS + 1);
	s->gate = NULL;
	cb_box_close(b);
	end_gap(s);
}

/* A state goes from a place late in the table to an early one, while a remover is between the two. */

static cb_store *handing;
static kept_state late, early;
static _Atomic int handing_stage; /* 1: go; 2: done */

static void *hand_on(void *context)
{
	(void)context;
	while (atomic_load(&handing_stage) < 1) (void)sched_yield();
	cb_error e = {0};
	CHECK_OK(kept_set(&early, handing, late.s, KEPT_VISIT, &e));
	kept_done(&late);
	atomic_store(&handing_stage, 2);
	return NULL;
}

static void hand_on_in_gap(const char *stage)
{
	static int blocks;
	/* The first block has been read. Whoever hands on right waits until all are; one who does not is given the time to do it. */
	if (strcmp(stage, "block") != 0 || ++blocks != 2) return;
	atomic_store(&handing_stage, 1);
	for (int i = 0; i < 200 && atomic_load(&handing_stage) < 2; i++) (void)usleep(1000);
}

TEST(handed_on_while_the_table_is_read)
{
	handing = test_store_open(false);
	remover = test_store_reopen();
	cb_box_close(fill(remover));
	/* All places of the first block are taken, so the state's is in the second; then one of the first is free again. */
	kept_state others[INUSE_SLOTS] = {0};
	for (int i = 0; i < INUSE_SLOTS; i++) CHECK_OK(kept_load(&others[i], handing, 1, 1, KEPT_OPEN, &err));
	cb_store *between = test_store_reopen(); /* takes a block */
	CHECK_OK(kept_load(&late, handing, 1, 7, KEPT_OPEN, &err));
	for (int i = 0; i < INUSE_SLOTS; i++) kept_done(&others[i]);
	const inuse_slot *late_at = late.use->slot;
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, hand_on, NULL) == 0);
	inuse_stage_hook = hand_on_in_gap;
	cb_box *b = must_open(remover, "demo");
	CHECK_OK(cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
	inuse_stage_hook = NULL;
	cb_box_close(b);
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK(early.use->slot < late_at);
	CHECK_OK(cb_store_gc(remover, NULL, &err));
	CHECK(has_step(remover, 7));
	kept_done(&early);
	cb_store_close(between);
	cb_store_close(handing);
	cb_store_close(remover);
}

/* ---- fork() ---- */

static cb_store *inherited;
static cb_box *inherited_old, *inherited_head;

static void use_inherited(int up, int down)
{
	must_be(inherited_old, 7); /* kept anew here, in a place of the child's own */
	must_be(inherited_head, STEPS);
	tell(up);
	hear(down);
	must_be(inherited_old, 7);
	CHECK_U64(uses(inherited).all, 1);
	cb_box_close(inherited_old);
	CHECK_U64(uses(inherited).all, 0);
	cb_box_close(inherited_head);
	cb_store_close(inherited);
}

static void leave_inherited(int up, int down)
{
	tell(up);
	hear(down);
	cb_box_close(inherited_old); /* the parent's place is not touched */
	cb_box_close(inherited_head);
	cb_store_close(inherited);
}

TEST(a_child_of_fork_keeps_for_itself)
{
	inherited = test_store_open(false);
	inherited_head = fill(inherited);
	inherited_old = must_open(inherited, "demo@7");
	other o = start(use_inherited);
	cb_box_close(inherited_old); /* only the child has it now */
	cb_store *t = test_store_reopen();
	prune_and_gc(t);
	CHECK(has_step(t, 7) && !has_step(t, 8));
	end(&o, 0);
	prune_and_gc(t);
	CHECK(!has_step(t, 7));
	cb_store_close(t);
	cb_box_close(inherited_head);
	cb_store_close(inherited);
}

TEST(a_child_that_does_nothing_takes_nothing_away)
{
	inherited = test_store_open(false);
	inherited_head = fill(inherited);
	inherited_old = must_open(inherited, "demo@7");
	other o = start(leave_inherited);
	cb_store *t = test_store_reopen();
	prune_and_gc(t);
	end(&o, 0);
	prune_and_gc(t);
	must_be(inherited_old, 7);
	o = start(leave_inherited); /* and the locks of a parent do not live on in it */
	cb_box_close(inherited_old);
	cb_box_close(inherited_head);
	cb_store_close(inherited);
	prune_and_gc(t);
	CHECK(!has_step(t, 7));
	end(&o, SIGKILL);
	cb_store_close(t);
}

/* ---- pid namespaces ---- */

static void read_seventh_in_namespace(int up, int down)
{
	if (unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) _exit(77);
	pid_t pid = fork();
	if (pid == 0) {
		CHECK_U64(getpid(), 1);
		read_seventh(up, down);
		_exit(0);
	}
	int status = 1;
	CHECK(waitpid(pid, &status, 0) == pid);
	_exit(status == 0 ? 0 : 1);
}

static bool can_unshare(void)
{
	int status = 0;
	pid_t pid = fork();
	if (pid == 0) _exit(unshare(CLONE_NEWUSER | CLONE_NEWPID) == 0 ? 0 : 1);
	return waitpid(pid, &status, 0) == pid && status == 0;
}

TEST(a_process_of_another_pid_namespace_keeps)
{
	if (!can_unshare()) test_skip("no user and pid namespaces");
	cb_store *s = test_store_open(false);
	cb_box_close(fill(s));
	other o = start(read_seventh_in_namespace); /* its number there is 1, which lives here too */
	prune_and_gc(s);
	CHECK(has_step(s, 7) && !has_step(s, 8));
	CHECK_STR(uses(s).text, "demo@7 open state\n");
	CHECK_U64(uses(s).here, 0);
	end(&o, 0);
	prune_and_gc(s);
	CHECK(!has_step(s, 7));
	cb_store_close(s);
}

/* ---- other places ---- */

TEST(on_tmpfs)
{
	char path[64] = "/dev/shm/cowbox-uses-XXXXXX", folder[80];
	if (!mkdtemp(path)) test_skip("no /dev/shm");
	(void)snprintf(folder, sizeof(folder), "%s/s", path);
	cb_store *s = NULL, *t = NULL;
	CHECK_OK(cb_store_open(folder, NULL, &s, &err));
	CHECK_OK(cb_store_open(folder, NULL, &t, &err));
	cb_box_close(fill(s));
	cb_box *b = must_open(s, "demo@7");
	prune_and_gc(t);
	must_be(b, 7);
	cb_box_close(b);
	prune_and_gc(t);
	CHECK(!has_step(s, 7));
	cb_store_close(t);
	cb_store_close(s);
	char command[128];
	(void)snprintf(command, sizeof(command), "rm -rf '%s'", path);
	CHECK(system(command) == 0);
}

TEST(a_reader_that_may_not_write_the_store_keeps)
{
	cb_store *s = test_store_open(false), *r = NULL;
	cb_box_close(fill(s));
	CHECK_OK(cb_store_open(test_store_path(), &CB_WITH(cb_store_options, .read_only = true, .cache_bytes = 1), &r, &err));
	cb_box *b = must_open(r, "demo@7");
	prune_and_gc(s);
	must_be(b, 7);
	CHECK_STR(uses(r).text, "demo@7 open state\n");
	cb_box_close(b);
	cb_store_close(r);
	prune_and_gc(s);
	CHECK(!has_step(s, 7));
	cb_store_close(s);
}

/* ---- the table ---- */

TEST(a_full_table_is_told_at_open)
{
	cb_store *s = test_store_open(false), *t = NULL;
	cb_box *b = fill(s);
	char file[512];
	(void)snprintf(file, sizeof(file), "%s/inuse", test_store_path());
	int fd = open(file, O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0);
	/* Blocks are taken one by one, as living handles would; then the file cannot grow. */
	struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 2, .l_len = INUSE_BLOCKS_MAX};
	CHECK(fcntl(fd, F_OFD_SETLK, &l) == 0);
	CHECK_CODE(cb_store_open(test_store_path(), NULL, &t, &err), CB_LIMIT);
	CHECK(strstr(err.message, "states in use"));
	CHECK_CODE(cb_store_open(test_store_path(), &CB_WITH(cb_store_options, .read_only = true), &t, &err), CB_LIMIT);
	/* The handle that has a block goes on; what asks for more places than that has is refused, and goes on too. */
	cb_box *open[2 * INUSE_SLOTS];
	size_t n = 0;
	cb_code code = CB_OK;
	while (code == CB_OK && n < 2 * INUSE_SLOTS) code = cb_box_open(s, "demo@3", &open[n++], &err);
	CHECK_CODE(code, CB_LIMIT);
	CHECK(n > INUSE_SLOTS / 2);
	must_be(b, STEPS);
	while (--n > 0) cb_box_close(open[n - 1]);
	l.l_type = F_UNLCK;
	CHECK(fcntl(fd, F_OFD_SETLK, &l) == 0);
	CHECK_OK(cb_store_open(test_store_path(), NULL, &t, &err));
	cb_store_close(t);
	cb_box_close(b);
	cb_store_close(s);
	(void)close(fd);
}

static void open_where_nothing_fits(int up, int down)
{
	(void)down;
	struct rlimit limit = {(1 + INUSE_BLOCKS_FIRST) * INUSE_BLOCK_BYTES, (1 + INUSE_BLOCKS_FIRST) * INUSE_BLOCK_BYTES};
	cb_store *t = NULL;
	(void)signal(SIGXFSZ, SIG_IGN);
	CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	CHECK_CODE(cb_store_open(test_store_path(), NULL, &t, &err), CB_IO);
	CHECK(err.os_error == EFBIG && strstr(err.message, "states in use"));
	CHECK_OK(cb_store_open(test_store_path(), &CB_WITH(cb_store_options, .read_only = true), &t, &err));
	cb_store_close(t);
	tell(up);
}

/* A store that is opened to be read does without a place where there is no room for one; the others are told. */
TEST(a_table_that_cannot_grow)
{
	cb_store *s = test_store_open(false);
	cb_box_close(fill(s));
	cb_store *more[INUSE_BLOCKS_FIRST - 1]; /* with s, all that there are */
	for (int i = 0; i < INUSE_BLOCKS_FIRST - 1; i++) more[i] = test_store_reopen();
	other o = start(open_where_nothing_fits);
	int status = 0;
	CHECK(waitpid(o.pid, &status, 0) == o.pid && status == 0);
	for (int i = 0; i < INUSE_BLOCKS_FIRST - 1; i++) cb_store_close(more[i]);
	cb_store_close(s);
}

TEST_LIMIT(ten_thousand_handles, 120)
{
	enum { MANY = 10000 };
	cb_store *s = test_store_open(false);
	cb_box *b = fill(s), **all = calloc(MANY, sizeof(*all));
	CHECK(all);
	for (int i = 0; i < MANY; i++) {
		char address[32];
		(void)snprintf(address, sizeof(address), "demo@%d", 1 + i % (STEPS / 2));
		all[i] = must_open(s, address);
	}
	CHECK_U64(uses(s).all, MANY);
	cb_store *t = test_store_reopen();
	prune_and_gc(t);
	for (int i = 0; i < MANY; i += 37) must_be(all[i], 1 + i % (STEPS / 2));
	for (int i = 0; i < MANY; i++) cb_box_close(all[i]);
	CHECK_U64(uses(t).all, 0);
	prune_and_gc(t);
	for (int i = 1; i <= STEPS / 2; i++) CHECK(!has_step(t, i));
	free(all);
	cb_box_close(b);
	cb_store_close(t);
	cb_store_close(s);
}

/* Whoever garbles the table makes others lose a state, or keeps room from being freed; the store stays whole. */
TEST(a_garbled_table_costs_no_more_than_a_state)
{
	test_rng rng = {test_seed()};
	test_note("seed %llu", (unsigned long long)test_seed());
	cb_store *s = test_store_open(false);
	cb_box *head = fill(s);
	char file[512];
	(void)snprintf(file, sizeof(file), "%s/inuse", test_store_path());
	int fd = open(file, O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0);
	for (int round = 0; round < 60; round++) {
		must_write(head, "/work/n", "more");
		must_write(head, "/work/m", "more");
		cb_box *b = must_open(s, "demo@-1");
		uint64_t seq = must_seq(b);
		uint8_t bytes[4096];
		for (size_t i = 0; i < sizeof(bytes); i++) bytes[i] = (uint8_t)test_rand(&rng);
		for (int i = 0; i < 20; i++) {
			off_t at = (off_t)test_rand_below(&rng, 17 * 4096 - 64);
			size_t n = 1 + test_rand_below(&rng, 64);
			if (round % 4 == 0) CHECK(pwrite(fd, bytes, 4096, at & ~4095) == 4096);
			else CHECK(pwrite(fd, bytes, n, at) == (ssize_t)n);
		}
		must_write(head, "/work/n", "and more");
		prune_and_gc(s);
		char *text = NULL;
		cb_code code = cb_read_file(b, "/work/n", &text, NULL, &err);
		CHECK_MSG(code == CB_OK || code == CB_STALE, "step %llu: %s", (unsigned long long)seq, err.message);
		cb_free(text);
		cb_box_close(b);
		test_store_sound(s);
	}
	(void)close(fd);
	cb_box_close(head);
	cb_store_close(s);
}

/* ---- boxes that go ---- */

TEST_BOTH(a_deleted_box_goes_when_nobody_reads_it)
{
	cb_store *s = test_store_open(memory);
	cb_box_close(fill(s));
	cb_box *b = must_open(s, "demo@7");
	cb_gc_result r = CB_INIT(cb_gc_result);
	cb_store_stats stats = CB_INIT(cb_store_stats);
	CHECK_OK(cb_box_delete(s, "demo", &err));
	CHECK_OK(cb_store_gc(s, &r, &err));
	CHECK_U64(r.boxes_freed, 0);
	must_be(b, 7);
	CHECK_OK(cb_store_stats_get(s, &stats, &err));
	CHECK_U64(stats.steps, 1); /* no more than what is read */
	cb_box_close(b);
	CHECK_OK(cb_store_gc(s, &r, &err));
	CHECK_U64(r.boxes_freed, 1);
	test_store_sound(s);
	cb_store_close(s);
}

/* ---- pins ---- */

static void pin_and_die(int up, int down)
{
	(void)down;
	cb_store *s = test_store_reopen();
	cb_box *b = must_open(s, "demo@7");
	CHECK_OK(cb_pin_set(b, "job", "the night's report", 0, &err));
	tell(up);
	for (;;) (void)pause();
}

TEST(a_pin_outlives_its_process)
{
	cb_store *s = test_store_open(false);
	cb_box_close(fill(s));
	other o = start(pin_and_die);
	end(&o, SIGKILL);
	prune_and_gc(s);
	CHECK(has_step(s, 7) && !has_step(s, 8));
	CHECK_STR(uses(s).text, "demo@7 the night's report\n");
	CHECK_U64(uses(s).pinned, 1);
	cb_box *b = must_open(s, "demo");
	CHECK_OK(cb_pin_set(b, "job", "now the newest", 0, &err)); /* in place of the other */
	CHECK_U64(uses(s).all, 1);
	CHECK_CODE(cb_pin_set(b, "cowbox.mine", "x", 0, &err), CB_RESERVED);
	CHECK_CODE(cb_pin_set(b, "", "x", 0, &err), CB_INVALID);
	CHECK_CODE(cb_pin_set(b, "x", NULL, 0, &err), CB_INVALID);
	prune_and_gc(s);
	CHECK(!has_step(s, 7));
	CHECK_OK(cb_pin_drop(s, uses(s).owner, &err)); /* whoever forgot it finds its name there */
	CHECK_OK(cb_pin_drop(s, "job", &err));
	CHECK_U64(uses(s).all, 0);
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

TEST_BOTH(a_pin_with_a_time_goes_when_it_has_come)
{
	cb_store *s = test_store_open(memory);
	cb_box_close(fill(s));
	cb_box *b = must_open(s, "demo@7");
	CHECK_OK(cb_pin_set(b, "job", "for a moment", 1, &err));
	CHECK_OK(cb_pin_set(b, "other", "for longer", 3600LL * 1000000000, &err));
	cb_box_close(b);
	CHECK_STR(uses(s).text, "demo@7 for longer\n");
	prune_and_gc(s);
	CHECK(has_step(s, 7));
	CHECK_OK(cb_pin_drop(s, "other", &err));
	prune_and_gc(s);
	CHECK(!has_step(s, 7));
	cb_store_close(s);
}
