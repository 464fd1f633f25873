/*
 * test_kill.c: four writers, started apart, one of them in another pid namespace, are killed with SIGKILL at any moment, again and again
 * on one store. Then the store must open at once, hold every acknowledged step with its bytes, show no half of a transaction, and pass
 * fsck.
 *
 * A writer is this program run again (see writer_start): real separate opens, nothing inherited. It acknowledges on its *desk*, memory
 * shared with the parent: an event after the call that made it returned, an intent (prune, delete) before the call that takes away.
 * COWBOX_CRASH_ROUNDS sets the number of rounds.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "harness/boxes.h"
#include "harness/crashes.h"

enum {
	WRITERS = 4,
	DESK_EVENTS = 4096,
	CI_ROUNDS = 10, /* both modes together */
	FSCK_EVERY = 8,
	MEMORY = 256, /* events of earlier rounds that are looked at again */
	KEPT_CHECKPOINTS = 4,
	/* COWBOX_CRASH_ROUNDS=5000 takes long, and the harness cannot know. */
	LIMIT_SECONDS = 7200,
};

typedef struct desk {
	_Atomic uint32_t count;
	_Atomic int failed;
	char failure[640];
	crash_event events[DESK_EVENTS];
} desk;

/* ---- the writer: a process without a harness ---- */

typedef struct writer {
	desk *d;
	const char *store;
	bool full;
	unsigned index;
	uint64_t tags; /* where its tags begin */
	crash_actor own, shared;
} writer;

static void put_on_desk(void *context, const crash_event *e)
{
	desk *d = context;
	uint32_t n = atomic_load(&d->count);
	while (n >= DESK_EVENTS) (void)pause(); /* full: wait for the end */
	d->events[n] = *e;
	atomic_store(&d->count, n + 1);
}

static void writer_fail(writer *w, const char *what, cb_code code, const cb_error *err)
{
	(void)snprintf(w->d->failure, sizeof(w->d->failure), "writer %u: %s: %s: %s", w->index, what, cb_code_name(code),
	               err->message);
	atomic_store(&w->d->failed, 1);
	_exit(3);
}

static void writer_open(writer *w)
{
	cb_error err = {0};
	cb_store *s = NULL;
	cb_code code = crash_store_open(w->store, NULL, w->full, &s, &err);
	if (code != CB_OK) writer_fail(w, "open", code, &err);
	w->own.s = w->shared.s = s;
	code = crash_actor_init(&w->own, &err);
	if (code == CB_OK) code = crash_actor_init(&w->shared, &err);
	if (code != CB_OK) writer_fail(w, "opening its boxes", code, &err);
}

static void writer_close(writer *w)
{
	crash_actor_done(&w->own);
	crash_actor_done(&w->shared);
	cb_store_close(w->own.s);
}

static void writer_run(writer *w)
{
	writer_open(w);
	for (;;) {
		crash_event e;
		cb_error err = {0};
		bool together = test_rand_below(&w->own.rng, 4) == 0;
		cb_code code = together ? crash_act_shared(&w->shared, &e, &err) : crash_act(&w->own, &e, &err);
		if (code != CB_OK) writer_fail(w, together ? "shared" : "own", code, &err);
		if (e.kind == CRASH_STEP || e.kind == CRASH_CHECKPOINT) put_on_desk(w->d, &e);
		if (test_rand_below(&w->own.rng, 50) == 0) {
			writer_close(w);
			writer_open(w);
		}
	}
}

static desk *desk_map(const char *file)
{
	int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, WRITERS * sizeof(desk)) != 0) return NULL;
	desk *d = mmap(NULL, WRITERS * sizeof(desk), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	(void)close(fd);
	return d == MAP_FAILED ? NULL : d;
}

/* Runs before main: `--crash-writer STORE DESKS INDEX FULL SEED TAGS` is not for the harness. */
__attribute__((constructor)) static void writer_start(int argc, char **argv)
{
	if (argc != 8 || strcmp(argv[1], "--crash-writer") != 0) return;
	writer w = {
		.store = argv[2], .index = (unsigned)atoi(argv[4]), .full = argv[5][0] == '1', .tags = strtoull(argv[7], NULL, 10)};
	desk *all = desk_map(argv[3]);
	if (!all) _exit(4);
	w.d = &all[w.index];
	w.own.rng.state = w.shared.rng.state = strtoull(argv[6], NULL, 10);
	w.own.next_tag = w.tags;
	w.shared.next_tag = w.tags + ((uint64_t)1 << 31);
	(void)snprintf(w.own.box, sizeof(w.own.box), "w%u", w.index);
	(void)snprintf(w.shared.box, sizeof(w.shared.box), "shared");
	w.shared.shared = true;
	w.own.intend = put_on_desk;
	w.own.context = w.d;
	writer_run(&w);
}

/* ---- the parent ---- */

typedef struct campaign {
	bool full;
	const char *store;
	char desk_file[4200];
	desk *desks;
	pid_t pids[WRITERS];
	bool apart; /* pid namespaces can be made */
	test_rng rng;
	unsigned round;
	uint64_t floor[WRITERS]; /* steps of w0..w3 below may have been pruned */
	crash_event memory[MEMORY];
	uint64_t remembered, checked, checkpoints;
} campaign;

static unsigned rounds_wanted(void)
{
	const char *text = getenv("COWBOX_CRASH_ROUNDS");
	long n = text ? atol(text) : CI_ROUNDS;
	return n < 2 ? 1 : (unsigned)n / 2;
}

/* A fork, or one that is process 1 of a pid namespace of its own: its locks and pids must mean nothing to each other's. */
static pid_t fork_writer(campaign *c, bool apart)
{
	if (apart && c->apart) {
		pid_t pid = (pid_t)syscall(SYS_clone, (unsigned long)CLONE_NEWPID | SIGCHLD, NULL, NULL, NULL, NULL);
		if (pid >= 0) return pid;
		test_note("no pid namespace for one of the writers: %s", strerror(errno));
		c->apart = false;
	}
	return fork();
}

static void launch(campaign *c, unsigned i)
{
	char index[16], seed[32], tags[32];
	(void)snprintf(index, sizeof(index), "%u", i);
	(void)snprintf(seed, sizeof(seed), "%" PRIu64, test_rand(&c->rng) | 1);
	(void)snprintf(tags, sizeof(tags), "%" PRIu64, ((uint64_t)c->round * WRITERS + i + 1) << 32);
	char *const argv[] = {(char[]){"test_kill"},
	                      (char[]){"--crash-writer"},
	                      strdup(c->store),
	                      c->desk_file,
	                      index,
	                      c->full ? (char[]){"1"} : (char[]){"0"},
	                      seed,
	                      tags,
	                      NULL};
	c->pids[i] = fork_writer(c, i == WRITERS - 1);
	CHECK(c->pids[i] >= 0);
	if (c->pids[i] == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)execv("/proc/self/exe", argv);
		_exit(5);
	}
	free(argv[2]);
}

static void finish(campaign *c, unsigned i)
{
	int status = 0;
	CHECK(kill(c->pids[i], SIGKILL) == 0);
	CHECK(waitpid(c->pids[i], &status, 0) == c->pids[i]);
	CHECK_MSG(!c->desks[i].failed, "%s", c->desks[i].failure);
	CHECK_MSG(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "writer %u ended by itself: status %#x", i, (unsigned)status);
}

static void sleep_us(uint64_t us)
{
	struct timespec t = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};
	(void)nanosleep(&t, NULL);
}

/* Mostly all at once; sometimes one first while the others go on. */
static void run_and_kill(campaign *c)
{
	for (unsigned i = 0; i < WRITERS; i++) {
		c->desks[i].count = 0;
		launch(c, i);
	}
	uint64_t ms = test_rand_below(&c->rng, 8) == 0 ? test_rand_below(&c->rng, 15) : 15 + test_rand_below(&c->rng, 75);
	sleep_us(ms * 1000 + test_rand_below(&c->rng, 1000));
	unsigned first = (unsigned)test_rand_below(&c->rng, WRITERS);
	bool alone = test_rand_below(&c->rng, 3) == 0;
	if (alone) {
		finish(c, first);
		sleep_us(5000 + test_rand_below(&c->rng, 25000));
	}
	for (unsigned i = 0; i < WRITERS; i++)
		if (!alone || i != first) finish(c, i);
}

static bool is_deleted(const campaign *c, const crash_event *e)
{
	for (unsigned i = 0; i < WRITERS; i++)
		for (uint32_t k = 0; k < c->desks[i].count; k++)
			if (c->desks[i].events[k].kind == CRASH_DELETE && strcmp(c->desks[i].events[k].box, e->box) == 0)
				return true;
	return false;
}

static bool may_be_gone(const campaign *c, const crash_event *e)
{
	if (is_deleted(c, e)) return true;
	if (e->kind == CRASH_CHECKPOINT || e->box[0] != 'w' || e->box[2] != 0) return false;
	return e->seq < c->floor[e->box[1] - '0'];
}

static void check_event(campaign *c, cb_store *s, const crash_event *e, const char *when)
{
	cb_error err = {0};
	crash_verdict v = crash_event_check(s, e, &err);
	c->checked++;
	if (v == CRASH_THERE || (v == CRASH_GONE && may_be_gone(c, e))) return;
	test_fail(__FILE__, __LINE__, "round %u, %s: acknowledged %s@%" PRIu64 " %s is %s: %s", c->round, when, e->box, e->seq,
	          e->name, v == CRASH_GONE ? "gone" : "wrong", err.message);
}

static void remember(campaign *c, const crash_event *e)
{
	bool stays = e->kind == CRASH_STEP && (strcmp(e->box, "shared") == 0 || (e->box[0] == 'w' && e->box[2] == 0));
	if (stays) c->memory[c->remembered++ % MEMORY] = *e;
}

static void check_desks(campaign *c, cb_store *s)
{
	for (unsigned i = 0; i < WRITERS; i++)
		for (uint32_t k = 0; k < c->desks[i].count; k++) {
			const crash_event *e = &c->desks[i].events[k];
			if (e->kind == CRASH_PRUNE && e->seq > c->floor[i]) c->floor[i] = e->seq;
		}
	for (unsigned i = 0; i < WRITERS; i++)
		for (uint32_t k = 0; k < c->desks[i].count; k++) {
			const crash_event *e = &c->desks[i].events[k];
			if (e->kind != CRASH_STEP && e->kind != CRASH_CHECKPOINT) continue;
			check_event(c, s, e, "at once");
			if (test_rand_below(&c->rng, 10) == 0 || k + 1 == c->desks[i].count) remember(c, e);
		}
	uint64_t known = c->remembered < MEMORY ? c->remembered : MEMORY;
	for (unsigned k = 0; k < 12 && known; k++) check_event(c, s, &c->memory[test_rand_below(&c->rng, known)], "later");
}

typedef struct names {
	char name[512][CB_NAME_MAX + 1];
	size_t count;
} names;

static cb_code add_box(void *context, const cb_box_info *info, cb_error *err)
{
	(void)err;
	names *n = context;
	if (n->count < 512) memcpy(n->name[n->count++], info->name, sizeof(info->name));
	return CB_OK;
}

static cb_code add_checkpoint(void *context, const cb_checkpoint *p, cb_error *err)
{
	(void)err;
	names *n = context;
	if (n->count < 512) memcpy(n->name[n->count++], p->name, sizeof(p->name));
	return CB_OK;
}

static void thin_checkpoints(campaign *c, cb_box *b)
{
	static names n;
	cb_error err = {0};
	n.count = 0;
	CHECK_OK(cb_checkpoint_list(b, add_checkpoint, &n, &err));
	c->checkpoints += n.count;
	for (size_t i = 0; i + KEPT_CHECKPOINTS < n.count; i++) CHECK_OK(cb_checkpoint_delete(b, n.name[i], &err));
}

/* Every box's newest state is whole; forks that killed writers left behind go. */
static void check_heads(campaign *c, cb_store *s, cb_store *survivor)
{
	static names n;
	cb_error err = {0};
	crash_model model, seen;
	n.count = 0;
	CHECK_OK(cb_box_list(s, add_box, &n, &err));
	for (size_t i = 0; i < n.count; i++) {
		cb_box *b = must_open(s, n.name[i]);
		CHECK_OK(crash_model_read(b, CRASH_ALL, &model, &err));
		if (survivor) { /* who watched the writers die sees what a newcomer sees */
			cb_box *other = must_open(survivor, n.name[i]);
			CHECK_OK(crash_model_read(other, CRASH_ALL, &seen, &err));
			CHECK_MSG(memcmp(&model, &seen, sizeof(model)) == 0, "%s looks old to a handle that was open before",
			          n.name[i]);
			cb_box_close(other);
		}
		bool stays = strcmp(n.name[i], "shared") == 0 || strlen(n.name[i]) == 2;
		if (stays) thin_checkpoints(c, b);
		cb_box_close(b);
		if (!stays) CHECK_OK(cb_box_delete(s, n.name[i], &err));
	}
}

static void one_round(campaign *c)
{
	cb_error err = {0};
	cb_store *s = NULL, *survivor = NULL;
	if (c->round > 0 && test_rand_below(&c->rng, 2)) CHECK_OK(crash_store_open(c->store, NULL, c->full, &survivor, &err));
	run_and_kill(c);
	struct timespec before, after;
	(void)clock_gettime(CLOCK_MONOTONIC, &before);
	CHECK_OK(crash_store_open(c->store, NULL, c->full, &s, &err));
	(void)clock_gettime(CLOCK_MONOTONIC, &after);
	CHECK_MSG(after.tv_sec - before.tv_sec < 5, "opening after a kill took %ld s", (long)(after.tv_sec - before.tv_sec));
	check_desks(c, s);
	check_heads(c, s, survivor);
	if (c->round % FSCK_EVERY == FSCK_EVERY - 1) test_store_sound(s);
	if (c->round % FSCK_EVERY == 3) CHECK_OK(cb_store_gc(s, NULL, &err));
	cb_store_close(survivor);
	cb_store_close(s);
}

static void kill_rounds(bool full)
{
	static campaign c;
	char folder[4200];
	cb_error err = {0};
	cb_store *s = NULL;
	(void)snprintf(folder, sizeof(folder), "%s/store", test_tmpdir());
	(void)snprintf(c.desk_file, sizeof(c.desk_file), "%s/desks", test_tmpdir());
	c.store = folder;
	c.full = full;
	c.apart = true;
	c.rng.state = test_seed() + full;
	c.desks = desk_map(c.desk_file);
	CHECK(c.desks != NULL);
	unsigned rounds = rounds_wanted();
	for (c.round = 0; c.round < rounds; c.round++) one_round(&c);
	CHECK_OK(crash_store_open(folder, NULL, full, &s, &err));
	test_store_sound(s);
	cb_store_close(s);
	test_note("%u rounds, %" PRIu64 " acknowledged events checked, %" PRIu64 " remembered", rounds, c.checked, c.remembered);
}

TEST_LIMIT(kill_fast, LIMIT_SECONDS)
{
	kill_rounds(false);
}

TEST_LIMIT(kill_full, LIMIT_SECONDS)
{
	kill_rounds(true);
}
