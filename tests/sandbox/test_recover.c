/* test_recover.c: callers that die at every stage; what their commands did is kept once, or said to be lost. */
#include "work_kit.h"

#include "harness/rules.h"

#include <sys/wait.h>

static cb_error err;
static const char *die_at;
static unsigned die_after; /* so many times the stage is passed */

static void die(const char *stage)
{
	if (strcmp(stage, die_at) != 0 || die_after-- > 0) return;
	(void)kill(getpid(), SIGKILL);
}

/* The box's files and how many steps of kind exec there are, with and without "interrupted", "lost". */
typedef struct told {
	unsigned steps, interrupted, lost;
} told;

static cb_code tell_step(void *context, const cb_step *step, cb_error *e)
{
	told *t = context;
	(void)e;
	if (strcmp(step->kind, "exec") != 0) return CB_OK;
	t->steps++;
	t->interrupted += strstr(step->result, "\"interrupted\":true") != NULL;
	t->lost += strstr(step->result, "\"lost\"") != NULL;
	return CB_OK;
}

static told tell(cb_box *b)
{
	told t = {0};
	CHECK_OK(cb_log(b, NULL, tell_step, &t, NULL, &err));
	return t;
}

/* Until nothing is left to recover: the holder of a dead caller needs a moment to end. */
static uint64_t recover_all(cb_store *s)
{
	uint64_t all = 0;
	work_dirs d;
	bool found = false;
	CHECK_OK(dirs_find(s, &d, &found, &err));
	CHECK(found);
	for (;;) {
		uint64_t steps = 0;
		stamp left = {0};
		CHECK_OK(work_recover(s, 0, &steps, &err));
		all += steps;
		if (slot_peek(&d, 1, 0, &left, &err) != CB_OK || !left.base.box) break;
		(void)usleep(10000);
	}
	dirs_done(&d);
	return all;
}

static void in_child(const char *stage, unsigned after, void (*run)(cb_store *))
{
	pid_t pid = fork();
	if (pid == 0) {
		cb_store *s = test_store_reopen();
		die_at = stage;
		die_after = after;
		work_stage_hook = die;
		run(s);
		_exit(0);
	}
	int status = 0;
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK_MSG(WIFSIGNALED(status), "stage %s was not reached", stage);
}

static void one_command(cb_store *s)
{
	work_result r;
	work *w = kit_open(s, "demo", CB_TIER_AUTO);
	(void)kit_sh(w, "echo two >> work/x; echo new > work/y; rm -r work/gone", &r, &err);
	work_close(w);
}

static cb_store *prepare(cb_box **b)
{
	kit_begin();
	cb_store *s = test_store_open(false);
	CHECK_OK(cb_box_create(s, "demo", b, &err));
	must_write(*b, "/work/x", "one\n");
	CHECK_OK(cb_mkdir(*b, "/work/gone", 0755, 0, &err));
	must_write(*b, "/work/gone/z", "z");
	work *w = kit_open(s, "demo", CB_TIER_AUTO);
	work_result r;
	CHECK_OK(kit_sh(w, "true", &r, &err));
	work_close(w);
	return s;
}

static cb_code count_pin(void *context, const cb_use *u, cb_error *e)
{
	(void)e;
	*(unsigned *)context += u->pinned;
	return CB_OK;
}

static unsigned pins(cb_store *s)
{
	unsigned n = 0;
	CHECK_OK(cb_store_uses(s, count_pin, &n, &err));
	return n;
}

/* Between the death and the recovery nothing is left of the past but what is pinned. */
static bool prune_between;

static void killed_at(const char *stage, bool ran, bool interrupted)
{
	cb_box *b = NULL;
	cb_store *s = prepare(&b);
	in_child(stage, 0, one_command);
	if (prune_between) {
		CHECK(pins(s) > 0);
		for (int i = 0; i < 300; i++) must_write(b, "/work/steps", i % 2 ? "odd" : "even");
		CHECK_OK(cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
		CHECK_OK(cb_store_gc(s, NULL, &err));
	}
	(void)recover_all(s);
	(void)recover_all(s); /* nothing is left to be done twice */
	told t = tell(b);
	CHECK_U64(t.interrupted, interrupted);
	CHECK_U64(t.steps, ran || interrupted ? 2 : 1);
	CHECK_STR(must_read(b, "/work/x"), ran ? "one\ntwo\n" : "one\n");
	CHECK(exists(b, "/work/y") == ran);
	CHECK(exists(b, "/work/gone/z") == !ran);
	/* The slot is of use again. */
	work *w = kit_open(s, "demo", CB_TIER_AUTO);
	work_result r;
	CHECK_OK(kit_sh(w, "cat work/x > work/copy", &r, &err));
	CHECK_U64(r.changed, 1);
	CHECK_STR(must_read(b, "/work/copy"), ran ? "one\ntwo\n" : "one\n");
	work_close(w);
	/* Of one who died before his stamp, the pins go with the next cleaning after his holder. */
	while (pins(s)) {
		CHECK_OK(work_clean(s, false, NULL, &err));
		(void)usleep(10000);
	}
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

TEST(pins_without_their_slot_go_with_the_next_cleaning)
{
	cb_box *b = NULL;
	cb_store *s = prepare(&b);
	in_child("pinned", 0, one_command);
	CHECK_U64(pins(s), 1);
	(void)recover_all(s);
	host_shell("rm -rf '%s/work'", test_store_path());
	CHECK_OK(work_clean(s, false, NULL, &err));
	CHECK_U64(pins(s), 0);
	cb_box_close(b);
	cb_store_close(s);
}

TEST(killed_before_the_stamp)
{
	killed_at("pinned", false, false);
}

TEST(killed_before_the_command)
{
	killed_at("stamped", false, true);
}

/* The program has written and goes on; its caller dies. */
static void dies_while_it_runs(cb_store *s)
{
	const char *argv[] = {"sh", "echo two >> work/x; echo new > work/y; rm -r work/gone; touch tmp/done; sleep 1000", NULL};
	work *w = kit_open(s, "demo", CB_TIER_AUTO);
	CHECK_OK(work_begin(w, &CB_WITH(cb_step_info, .kind = "exec", .params = "{\"argv\":[\"sh\"]}", .params_size = CB_STRING),
	                    &err));
	kit_send(w, argv);
	CHECK_OK(work_ready(w, &err));
	while (access(host_text("%s/tmp/done", kit_root(w)), F_OK) != 0) (void)usleep(1000);
	(void)kill(getpid(), SIGKILL);
}

TEST(killed_while_it_runs)
{
	cb_box *b = NULL;
	cb_store *s = prepare(&b);
	in_child("", 0, dies_while_it_runs);
	CHECK_U64(recover_all(s), 1);
	CHECK_U64(recover_all(s), 0);
	told t = tell(b);
	CHECK_U64(t.interrupted, 1);
	CHECK_U64(t.lost, 0);
	CHECK_STR(must_read(b, "/work/x"), "one\ntwo\n");
	CHECK(exists(b, "/work/y") && !exists(b, "/work/gone"));
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

static void dies_while_it_discards(cb_store *s)
{
	const char *argv[] = {"sh", "echo two >> work/x; touch tmp/done; sleep 1000", NULL};
	work *w = NULL;
	CHECK_OK(work_open(s, "demo", &(work_options){.tier = CB_TIER_AUTO, .discard = true}, &w, &err));
	CHECK_OK(work_begin(w, &CB_WITH(cb_step_info, .kind = "exec", .params = "{}", .params_size = CB_STRING), &err));
	kit_send(w, argv);
	CHECK_OK(work_ready(w, &err));
	while (access(host_text("%s/tmp/done", kit_root(w)), F_OK) != 0) (void)usleep(1000);
	(void)kill(getpid(), SIGKILL);
}

/* Nothing of it was to be kept, however it ends. */
TEST(killed_while_it_discards)
{
	cb_box *b = NULL;
	cb_store *s = prepare(&b);
	uint64_t before = must_seq(b);
	in_child("", 0, dies_while_it_discards);
	CHECK_U64(recover_all(s), 0);
	CHECK_U64(must_seq(b), before);
	CHECK_STR(must_read(b, "/work/x"), "one\n");
	work *w = kit_open(s, "demo", CB_TIER_AUTO);
	work_result r;
	CHECK_OK(kit_sh(w, "test \"$(cat work/x)\" = one; test ! -e tmp/done", &r, &err));
	work_close(w);
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

/* ---- a holder that is not gone yet ---- */

static int holder_pipe[2];

/* As dies_while_it_runs, but the holder is stopped before, so that it outlives its caller until somebody lets it go on. */
static void dies_before_its_holder(cb_store *s)
{
	const char *argv[] = {"sh", "echo two >> work/x; touch tmp/done; sleep 1000", NULL};
	work *w = kit_open(s, "demo", CB_TIER_AUTO);
	CHECK_OK(work_begin(w, &CB_WITH(cb_step_info, .kind = "exec", .params = "{}", .params_size = CB_STRING), &err));
	kit_send(w, argv);
	CHECK_OK(work_ready(w, &err));
	while (access(host_text("%s/tmp/done", kit_root(w)), F_OK) != 0) (void)usleep(1000);
	pid_t holder = link_pid(work_link(w));
	CHECK(kill(holder, SIGSTOP) == 0);
	CHECK(write(holder_pipe[1], &holder, sizeof(holder)) == sizeof(holder));
	(void)kill(getpid(), SIGKILL);
}

static pid_t stopped_holder(void)
{
	pid_t holder = 0;
	CHECK(pipe(holder_pipe) == 0);
	in_child("", 0, dies_before_its_holder);
	CHECK(read(holder_pipe[0], &holder, sizeof(holder)) == sizeof(holder) && holder > 1);
	return holder;
}

/* Whoever looks while the holder of a dead caller still has the slot waits for it: the next command sees what the last one did. */
TEST(a_dying_holder_is_waited_for)
{
	cb_box *b = NULL;
	cb_store *s = prepare(&b);
	pid_t holder = stopped_holder(), later = fork();
	if (later == 0) {
		(void)usleep(700000);
		_exit(kill(holder, SIGCONT) == 0 ? 0 : 1);
	}
	uint64_t steps = 0;
	CHECK_OK(work_recover(s, 1, &steps, &err)); /* once */
	CHECK_U64(steps, 1);
	CHECK_STR(must_read(b, "/work/x"), "one\ntwo\n");
	int status = 1;
	CHECK(waitpid(later, &status, 0) == later && status == 0);
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

/* The wait is the caller's to end, and nothing is lost by that. */
TEST(waiting_for_a_dying_holder_can_be_cut_short)
{
	cb_box *b = NULL;
	cb_store *s = prepare(&b);
	pid_t holder = stopped_holder();
	uint64_t steps = 0;
	int64_t before = clock_monotonic_ns();
	CHECK_OK(cb_limit_push(&CB_WITH(cb_limit, .timeout_ms = 300), &err));
	CHECK_CODE(work_recover(s, 1, &steps, &err), CB_TIMEOUT);
	cb_limit_pop();
	CHECK(clock_monotonic_ns() - before < INT64_C(5000000000));
	CHECK(kill(holder, SIGCONT) == 0);
	CHECK_OK(work_recover(s, 1, &steps, &err));
	CHECK_U64(steps, 1);
	CHECK_STR(must_read(b, "/work/x"), "one\ntwo\n");
	cb_box_close(b);
	cb_store_close(s);
}

/* A command whose caller lives is nobody's to wait for. */
TEST(a_living_caller_is_not_waited_for)
{
	cb_box *b = NULL;
	cb_store *s = prepare(&b);
	int ready[2];
	char byte = 0;
	CHECK(pipe(ready) == 0);
	pid_t caller = fork();
	if (caller == 0) {
		const char *argv[] = {"sh", "echo two >> work/x; touch tmp/done; sleep 1000", NULL};
		work *w = kit_open(test_store_reopen(), "demo", CB_TIER_AUTO);
		CHECK_OK(work_begin(w, NULL, &err));
		kit_send(w, argv);
		CHECK_OK(work_ready(w, &err));
		while (access(host_text("%s/tmp/done", kit_root(w)), F_OK) != 0) (void)usleep(1000);
		CHECK(write(ready[1], "r", 1) == 1);
		for (;;) (void)pause();
	}
	CHECK(read(ready[0], &byte, 1) == 1);
	uint64_t steps = 0;
	int64_t before = clock_monotonic_ns();
	CHECK_OK(work_recover(s, 1, &steps, &err));
	CHECK_U64(steps, 0);
	CHECK(clock_monotonic_ns() - before < INT64_C(2000000000));
	CHECK(kill(caller, SIGKILL) == 0 && waitpid(caller, NULL, 0) == caller);
	CHECK_OK(work_recover(s, 1, &steps, &err));
	CHECK_U64(steps, 1);
	cb_box_close(b);
	cb_store_close(s);
}

/* ---- two who recover at once ---- */

static int stage_pipe[2];

static void tell_and_rest(const char *stage)
{
	if (strcmp(stage, "recover-commit") != 0) return;
	CHECK(write(stage_pipe[1], "r", 1) == 1);
	(void)usleep(700000);
	if (die_at) (void)kill(getpid(), SIGKILL);
}

/* Another process is in the middle of it: *out its pid. */
static cb_store *recovered_by_another(bool dies, pid_t *out, cb_box **b)
{
	char byte = 0;
	cb_store *s = prepare(b);
	in_child("", 0, dies_while_it_runs);
	CHECK(pipe(stage_pipe) == 0);
	*out = fork();
	if (*out == 0) {
		work_stage_hook = tell_and_rest;
		die_at = dies ? "recover-commit" : NULL;
		_exit(work_recover(test_store_reopen(), 1, NULL, &err) == CB_OK ? 0 : 1);
	}
	CHECK(read(stage_pipe[0], &byte, 1) == 1);
	return s;
}

static void two_recover(bool one_dies)
{
	cb_box *b = NULL;
	pid_t other = 0;
	int status = 1;
	uint64_t steps = 0;
	cb_store *s = recovered_by_another(one_dies, &other, &b);
	CHECK_OK(work_recover(s, 1, &steps, &err)); /* once */
	CHECK_STR(must_read(b, "/work/x"), "one\ntwo\n");
	CHECK_U64(steps, one_dies);
	CHECK(waitpid(other, &status, 0) == other && WIFSIGNALED(status) == one_dies);
	told t = tell(b);
	CHECK_U64(t.interrupted, 1);
	CHECK_U64(t.lost, 0);
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

/* What a killed caller's program did is there for both of two uses that begin at once. */
TEST(another_recovery_is_waited_for)
{
	two_recover(false);
}

TEST(of_two_recoveries_one_may_be_killed)
{
	two_recover(true);
}

TEST(waiting_for_another_recovery_can_be_cut_short)
{
	cb_box *b = NULL;
	pid_t other = 0;
	cb_store *s = recovered_by_another(false, &other, &b);
	CHECK_OK(cb_limit_push(&CB_WITH(cb_limit, .timeout_ms = 200), &err));
	CHECK_CODE(work_recover(s, 1, NULL, &err), CB_TIMEOUT);
	cb_limit_pop();
	CHECK_OK(work_recover(s, 1, NULL, &err));
	CHECK_STR(must_read(b, "/work/x"), "one\ntwo\n");
	CHECK(waitpid(other, NULL, 0) == other);
	cb_box_close(b);
	cb_store_close(s);
}

TEST(killed_before_the_scan)
{
	killed_at("scan", true, true);
}

TEST(killed_before_the_scan_then_pruned)
{
	prune_between = true;
	killed_at("scan", true, true);
}

TEST(killed_before_the_commit)
{
	killed_at("commit", true, true);
}

TEST(killed_after_the_commit)
{
	killed_at("ended", true, false);
}

TEST(killed_before_it_is_kept)
{
	killed_at("keep", true, false);
}

/* ---- stacks ---- */

static void small_bounds(void)
{
	work_bound = (work_bounds){.plain = 0, .upper = 2, .layers = 4};
}

TEST(killed_while_a_stack_runs)
{
	small_bounds();
	killed_at("scan", true, true);
}

TEST(killed_while_a_stack_runs_then_pruned)
{
	prune_between = true;
	small_bounds();
	killed_at("scan", true, true);
}

TEST(killed_before_the_commit_of_a_stack)
{
	small_bounds();
	killed_at("commit", true, true);
}

TEST(killed_before_an_upper_is_sealed)
{
	small_bounds();
	killed_at("seal", true, false);
}

TEST(killed_after_an_upper_was_sealed)
{
	small_bounds();
	killed_at("sealed", true, false);
}

/* ---- the recovery dies too ---- */

static void only_recover(cb_store *s)
{
	for (;;) { /* the holder of the caller before needs a moment to end */
		(void)work_recover(s, 0, NULL, &err);
		(void)usleep(10000);
	}
}

static void recovery_killed_at(const char *stage)
{
	cb_box *b = NULL;
	cb_store *s = prepare(&b);
	in_child("scan", 0, one_command);
	in_child(stage, 0, only_recover);
	(void)recover_all(s);
	told t = tell(b);
	CHECK_U64(t.steps, 2);
	CHECK_U64(t.interrupted, 1);
	CHECK_U64(t.lost, 0);
	CHECK_STR(must_read(b, "/work/x"), "one\ntwo\n");
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

TEST(a_recovery_that_dies_before_its_commit)
{
	recovery_killed_at("recover-commit");
}

TEST(a_recovery_that_dies_after_its_commit)
{
	recovery_killed_at("recovered");
}

TEST(a_recovery_of_a_stack_that_dies)
{
	small_bounds();
	recovery_killed_at("recover-commit");
}

/* The head moved since, and changed the same file: the result is a fork, once. */
static cb_code find_lost(void *context, const cb_box_info *info, cb_error *e)
{
	(void)e;
	if (info->lost) memcpy(context, info->name, sizeof(info->name));
	return CB_OK;
}

TEST(what_is_beyond_a_quota_is_a_fork)
{
	cb_box *b = NULL;
	char name[CB_NAME_MAX + 1] = "";
	cb_store *s = prepare(&b);
	CHECK_OK(cb_box_quota_set(b, 5, 0, 0, &err));
	in_child("scan", 0, one_command);
	CHECK_U64(recover_all(s), 1);
	CHECK_U64(recover_all(s), 0);
	CHECK_STR(must_read(b, "/work/x"), "one\n");
	CHECK_OK(cb_box_list(s, find_lost, name, &err));
	cb_box *fork = must_open(s, name);
	CHECK_STR(must_read(fork, "/work/x"), "one\ntwo\n");
	CHECK_STR(must_read(fork, "/work/y"), "new\n");
	cb_box_close(fork);
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

TEST(what_cannot_be_merged_is_a_fork)
{
	cb_box *b = NULL;
	cb_store *s = prepare(&b);
	in_child("scan", 0, one_command);
	must_write(b, "/work/x", "theirs\n");
	CHECK_U64(recover_all(s), 1);
	CHECK_U64(recover_all(s), 0);
	CHECK_STR(must_read(b, "/work/x"), "theirs\n");
	unsigned boxes = 0;
	cb_store_stats stats = CB_INIT(cb_store_stats);
	CHECK_OK(cb_store_stats_get(s, &stats, &err));
	boxes = (unsigned)stats.boxes;
	CHECK_U64(boxes, 2);
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

/* ---- under rules ---- */

static void command_of_owner(cb_store *s)
{
	CHECK_OK(cb_store_who_set(s, "owner", &err));
	one_command(s);
}

static cb_code is_owners(void *context, const cb_step *step, cb_error *e)
{
	(void)e;
	if (strcmp(step->kind, "exec") != 0 || !strstr(step->result, "interrupted")) return CB_OK;
	CHECK_STR(step->who, "owner");
	++*(int *)context;
	return CB_OK;
}

/* Who comes first is bound by rules: nothing is done, and nothing told, until one comes who is not. */
static void first_comes_the_agent(rule_kind kind, const char *path)
{
	cb_box *b = NULL;
	cb_store *s = prepare(&b);
	static rules all;
	int count = 0;
	uint64_t steps = 0;
	rules_init(&all);
	rules_set(&all, s);
	rules_add(&all, kind, path);
	in_child("scan", 0, command_of_owner);
	(void)usleep(300000); /* the holder needs a moment to end */
	CHECK_OK(cb_store_who_set(s, "agent", &err));
	CHECK_CODE(work_recover(s, 0, &steps, &err), CB_DENIED);
	CHECK_MSG(!strstr(err.message, "work/"), "%s", err.message);
	CHECK_CODE(work_recover(s, 0, &steps, &err), CB_DENIED);
	CHECK_U64(steps, 0);
	CHECK_OK(cb_store_who_set(s, "owner", &err));
	CHECK_OK(cb_box_who_set(b, "owner", &err));
	CHECK_U64(tell(b).interrupted, 0);
	CHECK_U64(recover_all(s), 1);
	CHECK_U64(tell(b).lost, 0);
	CHECK_OK(cb_log(b, NULL, is_owners, &count, NULL, &err));
	CHECK(count == 1);
	CHECK_STR(must_read(b, "/work/x"), "one\ntwo\n");
	CHECK(exists(b, "/work/y") && !exists(b, "/work/gone"));
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

TEST(what_an_agent_may_not_see_waits_for_who_may)
{
	first_comes_the_agent(RULE_HIDE, "/work/x");
}

TEST(what_an_agent_may_not_change_waits_for_who_may)
{
	first_comes_the_agent(RULE_READ_ONLY, "/work/gone");
}

/* Recovered by one who sees all, it is still of whom it ran for. */
TEST(a_recovered_step_is_of_whom_it_ran_for)
{
	cb_box *b = NULL;
	int count = 0;
	cb_store *s = prepare(&b);
	in_child("scan", 0, command_of_owner);
	CHECK_OK(cb_store_who_set(s, "somebody", &err));
	CHECK_U64(recover_all(s), 1);
	CHECK_OK(cb_log(b, NULL, is_owners, &count, NULL, &err));
	CHECK(count == 1);
	cb_box_close(b);
	cb_store_close(s);
}

static rules late;

static void rule_comes(const char *stage)
{
	if (strcmp(stage, "scan") == 0) rules_add(&late, RULE_HIDE, "/work/x");
}

/* While a program runs a rule comes: what it did is not dropped. */
TEST(a_rule_that_comes_meanwhile_makes_it_wait)
{
	cb_box *b = NULL;
	cb_store *s = prepare(&b);
	work_result r;
	uint64_t steps = 0;
	rules_init(&late);
	rules_set(&late, s);
	CHECK_OK(cb_store_who_set(s, "agent", &err));
	work *w = kit_open(s, "demo", CB_TIER_AUTO);
	work_stage_hook = rule_comes;
	CHECK_CODE(kit_sh(w, "echo two >> work/x; echo new > work/y; rm -r work/gone", &r, &err), CB_DENIED);
	work_stage_hook = NULL;
	CHECK_MSG(!strstr(err.message, "work/"), "%s", err.message);
	work_close(w);
	CHECK_CODE(work_recover(s, 0, &steps, &err), CB_DENIED);
	CHECK_OK(cb_store_who_set(s, "owner", &err));
	CHECK_U64(recover_all(s), 1);
	CHECK_OK(cb_box_who_set(b, "owner", &err));
	CHECK_STR(must_read(b, "/work/x"), "one\ntwo\n");
	CHECK(exists(b, "/work/y") && !exists(b, "/work/gone"));
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}
