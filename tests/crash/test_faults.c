/*
 * test_faults.c: every call of a workload with each of its allocations, SQLite's allocations, writes, flushes, truncations and openings
 * failing in turn, once or from then on.
 *
 * A *deed* is done again and again, the n-th operation of it failing, n = 1, 2, ... until it ends before the n-th. So each deed meets each
 * of its failures in a living store, and the next try proves that the store works again. A failed deed gives an error code that fits and
 * has either not happened or (a failed flush: the outcome is unknown) happened whole; everything acknowledged stays. After a failed flush
 * the store may have to be opened anew, as store.h says.
 */
#include <sqlite3.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/buf.h"
#include "harness/boxes.h"
#include "harness/crashes.h"
#include "store/fault.h"

enum {
	MAX_EVENTS = 4096,
	RECHECK = 24, /* acknowledged events looked at after a failure; all of them at the end */
	CI_TRIES = 2, /* of one deed; what lies beyond is reached by strides */
};

typedef enum weapon {
	FAIL_ALLOC,
	FAIL_SQLITE_ALLOC,
	FAIL_WRITE,
	FAIL_FLUSH,
	FAIL_TRUNCATE,
	FAIL_OPEN,
} weapon;

typedef struct stage {
	weapon weapon;
	int error; /* errno, for the disk's */
	bool lasting;
	bool full;
	store_fault_plan plan;
	crash_actor a;
	char folder[4200];
	crash_event events[MAX_EVENTS];
	size_t count;
	uint64_t floor; /* of the actor's box */
	test_rng rng;
	unsigned failures, tolerated, reopened, deeds;
} stage;

/* ---- SQLite's memory ---- */

static sqlite3_mem_methods plain_memory;
static _Atomic long sqlite_countdown; /* as mem_fail_after */

static bool sqlite_must_fail(void)
{
	long n = atomic_load(&sqlite_countdown);
	if (n > 1) atomic_store(&sqlite_countdown, n - 1);
	return n == 1;
}

static void *failing_malloc(int size)
{
	return sqlite_must_fail() ? NULL : plain_memory.xMalloc(size);
}

static void *failing_realloc(void *old, int size)
{
	return sqlite_must_fail() ? NULL : plain_memory.xRealloc(old, size);
}

static void sqlite_memory_shim(void)
{
	sqlite3_mem_methods m;
	CHECK(sqlite3_config(SQLITE_CONFIG_GETMALLOC, &plain_memory) == SQLITE_OK);
	m = plain_memory;
	m.xMalloc = failing_malloc;
	m.xRealloc = failing_realloc;
	CHECK(sqlite3_config(SQLITE_CONFIG_MALLOC, &m) == SQLITE_OK);
	/* Small blocks from a pool of its own would hide allocations. */
	CHECK(sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0) == SQLITE_OK);
}

/* ---- arming ---- */

static store_fault_rule *rule_of(stage *g)
{
	static const store_fault_op ops[] = {[FAIL_WRITE] = STORE_FAULT_WRITE,
	                                     [FAIL_FLUSH] = STORE_FAULT_FLUSH,
	                                     [FAIL_TRUNCATE] = STORE_FAULT_TRUNCATE,
	                                     [FAIL_OPEN] = STORE_FAULT_OPEN};
	return &g->plan.op[ops[g->weapon]];
}

static void arm(stage *g, long n)
{
	if (g->weapon == FAIL_ALLOC) {
		mem_fail_after(n);
	} else if (g->weapon == FAIL_SQLITE_ALLOC) {
		atomic_store(&sqlite_countdown, n);
	} else {
		store_fault_rule *r = rule_of(g);
		r->error = g->error;
		r->lasting = g->lasting;
		r->seen = 0;
		r->fail_at = n;
	}
}

/* Tells whether the n-th operation was reached. */
static bool disarm(stage *g, long n)
{
	bool struck;
	if (g->weapon == FAIL_ALLOC) {
		void *probe = mem_alloc(1);
		struck = probe == NULL;
		free(probe);
		mem_fail_after(0);
	} else if (g->weapon == FAIL_SQLITE_ALLOC) {
		struck = atomic_load(&sqlite_countdown) == 1;
		atomic_store(&sqlite_countdown, 0);
	} else {
		struck = rule_of(g)->seen >= n;
		rule_of(g)->fail_at = 0;
	}
	return struck;
}

static bool code_fits(const stage *g, cb_code code)
{
	if (g->weapon == FAIL_ALLOC || g->weapon == FAIL_SQLITE_ALLOC) return code == CB_NOMEM;
	if (g->weapon != FAIL_FLUSH && g->error == ENOSPC) return code == CB_NOSPACE;
	return code == CB_IO || (g->weapon == FAIL_FLUSH && g->error == ENOSPC && code == CB_NOSPACE);
}

/* ---- acknowledged events ---- */

static void intend(void *context, const crash_event *intent)
{
	stage *g = context;
	if (intent->kind == CRASH_PRUNE && intent->seq > g->floor) g->floor = intent->seq;
	if (intent->kind != CRASH_DELETE) return;
	size_t kept = 0; /* events of a box that goes are forgotten */
	for (size_t i = 0; i < g->count; i++)
		if (strcmp(g->events[i].box, intent->box) != 0) g->events[kept++] = g->events[i];
	g->count = kept;
}

static void check_event(stage *g, const crash_event *e, const char *deed, long n)
{
	cb_error err = {0};
	crash_verdict v = crash_event_check(g->a.s, e, &err);
	if (v == CRASH_THERE || (v == CRASH_GONE && e->kind == CRASH_STEP && strcmp(e->box, "box") == 0 && e->seq < g->floor))
		return;
	test_fail(__FILE__, __LINE__, "after '%s' with failure %ld: acknowledged %s@%" PRIu64 " %s is %s: %s", deed, n, e->box,
	          e->seq, e->name, v == CRASH_GONE ? "gone" : "wrong", err.message);
}

static void acknowledge(stage *g, const crash_event *e)
{
	if (e->kind != CRASH_STEP && e->kind != CRASH_CHECKPOINT) return;
	if (g->count == MAX_EVENTS) g->count = MAX_EVENTS / 2; /* the older half is remembered */
	g->events[g->count++] = *e;
}

static void check_some(stage *g, const char *deed, long n)
{
	if (g->count) check_event(g, &g->events[g->count - 1], deed, n);
	for (unsigned i = 0; i < RECHECK && g->count; i++) check_event(g, &g->events[test_rand_below(&g->rng, g->count)], deed, n);
}

/* ---- deeds ---- */

typedef cb_code (*deed_fn)(stage *g, crash_event *out, cb_error *err);

static cb_code do_pair_small(stage *g, crash_event *out, cb_error *err)
{
	return crash_write_pair(&g->a, 0, out, err);
}

static cb_code do_pair_large(stage *g, crash_event *out, cb_error *err)
{
	return crash_write_pair(&g->a, 2, out, err);
}

static cb_code do_file(stage *g, crash_event *out, cb_error *err)
{
	return crash_write_file(&g->a, out, err);
}

static cb_code do_handle(stage *g, crash_event *out, cb_error *err)
{
	return crash_write_handle(&g->a, true, out, err);
}

static cb_code do_key(stage *g, crash_event *out, cb_error *err)
{
	return crash_write_key(&g->a, out, err);
}

static cb_code do_exchange(stage *g, crash_event *out, cb_error *err)
{
	return crash_exchange(&g->a, out, err);
}

static cb_code do_checkpoint(stage *g, crash_event *out, cb_error *err)
{
	return crash_checkpoint(&g->a, out, err);
}

static cb_code do_undo(stage *g, crash_event *out, cb_error *err)
{
	return crash_undo(&g->a, out, err);
}

static cb_code do_restore(stage *g, crash_event *out, cb_error *err)
{
	return crash_restore(&g->a, out, err);
}

static cb_code do_fork(stage *g, crash_event *out, cb_error *err)
{
	g->a.fork[0] = 0; /* a new one each time */
	return crash_fork(&g->a, out, err);
}

static cb_code do_fork_write(stage *g, crash_event *out, cb_error *err)
{
	return crash_fork_write(&g->a, out, err);
}

static cb_code do_merge(stage *g, crash_event *out, cb_error *err)
{
	return crash_merge(&g->a, out, err);
}

static cb_code do_prune(stage *g, crash_event *out, cb_error *err)
{
	return crash_prune(&g->a, 30, out, err);
}

static cb_code do_gc(stage *g, crash_event *out, cb_error *err)
{
	return crash_gc(&g->a, out, err);
}

static cb_code do_vacuum(stage *g, crash_event *out, cb_error *err)
{
	return crash_vacuum(&g->a, out, err);
}

static cb_code do_sync(stage *g, crash_event *out, cb_error *err)
{
	*out = (crash_event){.kind = CRASH_UPKEEP};
	return cb_store_sync(g->a.s, err);
}

static cb_code do_read_all(stage *g, crash_event *out, cb_error *err)
{
	crash_model model;
	*out = (crash_event){.kind = CRASH_UPKEEP};
	cb_code code = crash_model_read(g->a.b, CRASH_ALL, &model, err);
	if (code == CB_OK) CHECK(memcmp(&model, &g->a.now, sizeof(model)) == 0);
	return code;
}

static cb_code ignore_step(void *context, const cb_step *step, cb_error *err)
{
	(void)err;
	(void)step;
	++*(uint64_t *)context;
	return CB_OK;
}

static cb_code ignore_change(void *context, const cb_change *change, cb_error *err)
{
	(void)context;
	(void)change;
	(void)err;
	return CB_OK;
}

static cb_code do_history(stage *g, crash_event *out, cb_error *err)
{
	*out = (crash_event){.kind = CRASH_UPKEEP};
	uint64_t steps = 0;
	cb_log_options o = CB_WITH(cb_log_options, .path = "/work/a0", .max_steps = 5);
	cb_code code = cb_log(g->a.b, &o, ignore_step, &steps, NULL, err);
	cb_box *old = NULL;
	if (code == CB_OK) code = cb_box_open(g->a.s, "box@-3", &old, err);
	if (code == CB_OK) code = cb_diff(old, g->a.b, NULL, ignore_change, NULL, err);
	cb_box_close(old);
	return code;
}

static void count_complaint(void *context, const char *line)
{
	(void)line;
	++*(uint64_t *)context;
}

/* What a failing disk does not give may be complained of; too little memory is no fault of the store. */
static cb_code do_fsck(stage *g, crash_event *out, cb_error *err)
{
	*out = (crash_event){.kind = CRASH_UPKEEP};
	uint64_t complaints = 0, lines = 0;
	cb_code code = cb_store_check(g->a.s, count_complaint, &lines, &complaints, err);
	bool disk = g->weapon != FAIL_ALLOC && g->weapon != FAIL_SQLITE_ALLOC;
	if (code == CB_OK)
		CHECK_MSG(lines == complaints && (disk || lines == 0), "fsck finds %" PRIu64 " faults in a sound store", lines);
	return code;
}

static cb_code do_backup(stage *g, crash_event *out, cb_error *err)
{
	static unsigned number;
	char to[4300], command[4400];
	*out = (crash_event){.kind = CRASH_UPKEEP};
	(void)snprintf(to, sizeof(to), "%s-copy%u", g->folder, number++);
	cb_code code = cb_store_backup(g->a.s, to, err);
	(void)snprintf(command, sizeof(command), "rm -rf '%s'", to);
	CHECK(system(command) == 0);
	return code;
}

static cb_code reopen(stage *g, cb_error *err)
{
	crash_actor_done(&g->a);
	cb_store_close(g->a.s);
	g->a.s = NULL;
	CB_TRY(crash_store_open(g->folder, &g->plan, g->full, &g->a.s, err));
	char fork[CRASH_NAME];
	crash_model fork_now = g->a.fork_now;
	memcpy(fork, g->a.fork, sizeof(fork));
	cb_code code = crash_actor_init(&g->a, err);
	memcpy(g->a.fork, fork, sizeof(fork));
	g->a.fork_now = fork_now;
	return code;
}

static cb_code do_reopen(stage *g, crash_event *out, cb_error *err)
{
	*out = (crash_event){.kind = CRASH_UPKEEP};
	return reopen(g, err);
}

typedef struct deed {
	const char *name;
	deed_fn run;
} deed;

static const deed deeds[] = {
	{"write a pair", do_pair_small},
	{"write a large pair", do_pair_large},
	{"write", do_file},
	{"handle", do_handle},
	{"key", do_key},
	{"exchange", do_exchange},
	{"undo", do_undo},
	{"restore", do_restore},
	{"checkpoint", do_checkpoint},
	{"fork", do_fork},
	{"write in a fork", do_fork_write},
	{"merge", do_merge},
	{"read", do_read_all},
	{"history", do_history},
	{"sync", do_sync},
	{"open", do_reopen},
	{"prune", do_prune},
	{"gc", do_gc},
	{"vacuum", do_vacuum},
	{"fsck", do_fsck},
	{"backup", do_backup},
};

/* ---- the campaign ---- */

/* What a failed deed left is its whole or nothing: the actor learns which. */
static cb_code learn(stage *g, cb_error *err)
{
	cb_box *b = NULL;
	CB_TRY(crash_model_read(g->a.b, CRASH_ALL, &g->a.now, err));
	if (!g->a.fork[0]) return CB_OK;
	cb_code code = cb_box_open(g->a.s, g->a.fork, &b, err);
	if (code == CB_OK) code = crash_model_read(b, CRASH_ALL, &g->a.fork_now, err);
	cb_box_close(b);
	return code;
}

/* After a failure the next write must work: at once, or, where a flush failed, after opening the store again. */
static void recover(stage *g, const char *name, long n)
{
	cb_error err = {0};
	crash_event e = {0};
	if (g->a.s == NULL || g->a.b == NULL || g->a.room == NULL) CHECK_OK(reopen(g, &err));
	cb_code code = learn(g, &err);
	CHECK_MSG(code == CB_OK, "reading after '%s' with failure %ld: %s: %s", name, n, cb_code_name(code), err.message);
	code = crash_write_key(&g->a, &e, &err);
	if (code == CB_IO && (g->weapon == FAIL_FLUSH || g->weapon == FAIL_WRITE || g->weapon == FAIL_TRUNCATE)) {
		g->reopened++;
		CHECK_OK(reopen(g, &err));
		code = crash_write_key(&g->a, &e, &err);
	}
	CHECK_MSG(code == CB_OK, "writing after '%s' with failure %ld: %s: %s", name, n, cb_code_name(code), err.message);
	acknowledge(g, &e);
	check_some(g, name, n);
}

static bool try_deed(stage *g, const deed *d, long n)
{
	cb_error err = {0};
	crash_event e = {0};
	g->deeds++;
	arm(g, n);
	cb_code code = d->run(g, &e, &err);
	bool struck = disarm(g, n);
	if (code == CB_OK) {
		bool promised = d->run == do_sync || d->run == do_checkpoint || d->run == do_handle;
		CHECK_MSG(!struck || n > 1 || !promised || g->weapon != FAIL_FLUSH,
		          "'%s' is acknowledged although its flush failed", d->name);
		acknowledge(g, &e);
		g->tolerated += struck;
		if (struck) recover(g, d->name, n);
		return struck;
	}
	g->failures++;
	CHECK_MSG(struck, "'%s' failed by itself: %s: %s", d->name, cb_code_name(code), err.message);
	CHECK_MSG(code_fits(g, code), "'%s' with failure %ld: %s: %s", d->name, n, cb_code_name(code), err.message);
	CHECK_MSG(err.message[0] && err.code == code, "'%s' with failure %ld: %s without a message of its own", d->name, n,
	          cb_code_name(code));
	recover(g, d->name, n);
	return true;
}

/* The first failures one by one, then in strides that grow. COWBOX_SOAK > 1: all. */
static void each_failure(stage *g, const deed *d)
{
	long stride = 1;
	for (long n = 1; try_deed(g, d, n); n += stride)
		if (test_soak() == 1 && n > CI_TRIES / 2 * stride) stride *= 2;
}

static void campaign(weapon w, int error, bool lasting, bool full)
{
	static stage g;
	cb_error err = {0};
	g.weapon = w;
	g.error = error;
	g.lasting = lasting;
	g.full = full;
	g.rng.state = test_seed();
	if (w == FAIL_SQLITE_ALLOC) sqlite_memory_shim();
	(void)snprintf(g.folder, sizeof(g.folder), "%s/store", test_tmpdir());
	g.a = (crash_actor){.box = "box", .rng = {test_seed()}, .next_tag = 1, .vacuum = true, .intend = intend, .context = &g};
	CHECK_OK(crash_store_open(g.folder, &g.plan, full, &g.a.s, &err));
	CHECK_OK(crash_actor_init(&g.a, &err));
	for (unsigned i = 0; i < 12; i++) {
		crash_event e = {0};
		CHECK_OK(i % 2 ? crash_write_pair(&g.a, i % CRASH_PAIRS, &e, &err) : crash_write_file(&g.a, &e, &err));
		acknowledge(&g, &e);
	}
	for (size_t i = 0; i < sizeof(deeds) / sizeof(deeds[0]); i++) each_failure(&g, &deeds[i]);
	CHECK_OK(reopen(&g, &err));
	for (size_t i = 0; i < g.count; i++) check_event(&g, &g.events[i], "all", 0);
	test_store_sound(g.a.s);
	crash_actor_done(&g.a);
	cb_store_close(g.a.s);
	store_fault_plan_done(&g.plan);
	test_note("%u deeds: %u failed, %u went on without, %u times opened again", g.deeds, g.failures, g.tolerated, g.reopened);
}

TEST_LIMIT(allocations, 300)
{
	campaign(FAIL_ALLOC, 0, true, false);
}

TEST_LIMIT(sqlite_allocations, 300)
{
	campaign(FAIL_SQLITE_ALLOC, 0, true, false);
}

TEST_LIMIT(writes_eio, 300)
{
	campaign(FAIL_WRITE, EIO, false, false);
}

TEST_LIMIT(writes_enospc, 300)
{
	campaign(FAIL_WRITE, ENOSPC, true, false);
}

TEST_LIMIT(writes_eio_full, 300)
{
	campaign(FAIL_WRITE, EIO, true, true);
}

TEST_LIMIT(flushes_eio, 300)
{
	campaign(FAIL_FLUSH, EIO, false, true);
}

TEST_LIMIT(flushes_lasting, 300)
{
	campaign(FAIL_FLUSH, EIO, true, false);
}

TEST_LIMIT(flushes_enospc, 300)
{
	campaign(FAIL_FLUSH, ENOSPC, false, true);
}

TEST_LIMIT(truncations, 300)
{
	campaign(FAIL_TRUNCATE, EIO, false, false);
}

TEST_LIMIT(openings, 300)
{
	campaign(FAIL_OPEN, EIO, false, false);
}

TEST_LIMIT(openings_emfile, 300)
{
	campaign(FAIL_OPEN, EMFILE, true, false);
}
