/* test_unpack.c: an unpack that is killed, or whose disk fills or fails, leaves no box, and nothing that gc does not take. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/crashes.h"
#include "harness/packs.h"
#include "store/fault.h"

static cb_code count_box(void *context, const cb_box_info *info, cb_error *err)
{
	(void)info;
	(void)err;
	++*(unsigned *)context;
	return CB_OK;
}

static unsigned boxes_in(cb_store *s)
{
	cb_error err = {0};
	unsigned boxes = 0;
	CHECK_OK(cb_box_list(s, count_box, &boxes, &err));
	return boxes;
}

/* Many steps, and more bytes than one batch holds. */
static pack_bytes large_pack(unsigned files)
{
	cb_error err = {0};
	cb_store *s = NULL;
	static char bytes[700000];
	CHECK_OK(cb_store_open(":memory:", NULL, &s, &err));
	cb_box *b = pack_sample(s);
	test_rng rng = {12345};
	for (unsigned i = 0; i < files; i++) {
		char path[64];
		for (size_t k = 0; k < sizeof(bytes); k += 8) {
			uint64_t r = test_rand(&rng);
			memcpy(bytes + k, &r, 8);
		}
		(void)snprintf(path, sizeof(path), "/work/f%u", i);
		CHECK_OK(cb_write_file(b, path, bytes, sizeof(bytes), NULL, &err));
	}
	for (unsigned i = 0; i < 400; i++) {
		char path[64];
		(void)snprintf(path, sizeof(path), "/work/small%u", i % 30);
		CHECK_OK(cb_write_file(b, path, bytes + i, 200 + i, NULL, &err));
	}
	pack_bytes p = pack_take(b, NULL);
	cb_box_close(b);
	cb_store_close(s);
	return p;
}

TEST_LIMIT(disk_full_while_unpacking, 240)
{
	cb_error err = {0};
	store_fault_plan plan = {0};
	pack_bytes p = large_pack(40);
	char folder[5000];
	cb_store *s = NULL;
	(void)snprintf(folder, sizeof(folder), "%s/store", test_tmpdir());
	CHECK_OK(crash_store_open(folder, &plan, false, &s, &err));
	CHECK_OK(pack_give(s, &p, "first", NULL, &err));
	long writes = atomic_load(&plan.op[STORE_FAULT_WRITE].seen);
	CHECK_OK(cb_box_delete(s, "first", &err));
	unsigned whole = 0;
	for (unsigned i = 0; i < test_dose(25); i++) {
		plan.op[STORE_FAULT_WRITE].error = ENOSPC;
		plan.op[STORE_FAULT_WRITE].lasting = i % 2;
		atomic_store(&plan.op[STORE_FAULT_WRITE].fail_at, 1 + writes * (long)i / (long)test_dose(25));
		cb_code code = pack_give(s, &p, "demo", NULL, &err);
		atomic_store(&plan.op[STORE_FAULT_WRITE].fail_at, 0);
		plan.op[STORE_FAULT_WRITE].lasting = false;
		CHECK_MSG(code == CB_OK || code == CB_NOSPACE || code == CB_IO, "round %u: %s %s", i, cb_code_name(code),
		          err.message);
		if (code == CB_IO) { /* a failed flush: the store wants to be opened anew */
			cb_store_close(s);
			CHECK_OK(crash_store_open(folder, &plan, false, &s, &err));
		}
		CHECK_U64(boxes_in(s), code == CB_OK);
		whole += code == CB_OK;
		if (code == CB_OK) CHECK_OK(cb_box_delete(s, "demo", &err));
		if (i % 5 == 4) CHECK_OK(cb_store_gc(s, NULL, &err));
		if (i % 5 == 4) test_store_sound(s);
	}
	test_note("%u were whole nevertheless", whole);
	CHECK_OK(pack_give(s, &p, "demo", NULL, &err));
	CHECK_OK(cb_store_gc(s, NULL, &err));
	test_store_sound(s);
	cb_store_close(s);
	store_fault_plan_done(&plan);
}

/* Contents left in the store when nothing is. */
static uint64_t contents_in(cb_store *s)
{
	cb_error err = {0};
	cb_store_stats stats = CB_INIT(cb_store_stats);
	CHECK_OK(cb_store_stats_get(s, &stats, &err));
	return stats.contents + stats.nodes + stats.steps;
}

TEST_LIMIT(killed_while_unpacking, 240)
{
	cb_error err = {0};
	pack_bytes p = large_pack(40);
	test_rng rng = {test_seed() | 1};
	cb_store *s = test_store_open(false);
	cb_store_close(s);
	const char *folder = test_store_path();
	unsigned whole = 0, killed = 0, rounds = test_dose(12);
	for (unsigned i = 0; i < rounds; i++) {
		pid_t pid = fork();
		if (pid == 0) {
			cb_store *child = NULL;
			if (cb_store_open(folder, NULL, &child, NULL) != CB_OK) _exit(1);
			_exit(pack_give(child, &p, "demo", NULL, NULL) == CB_OK ? 0 : 2);
		}
		(void)usleep((useconds_t)(1000 + test_rand_below(&rng, 600000)));
		(void)kill(pid, SIGKILL);
		int status = 0;
		CHECK(waitpid(pid, &status, 0) == pid);
		CHECK(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
		killed += WIFSIGNALED(status);
		s = test_store_reopen();
		unsigned boxes = boxes_in(s);
		CHECK(boxes <= 1 && (boxes == 1 || WIFSIGNALED(status)));
		whole += boxes;
		test_store_sound(s);
		if (boxes) {
			cb_box *b = must_open(s, "demo");
			CHECK(must_seq(b) > 440);
			free(pack_describe(b));
			cb_box_close(b);
			CHECK_OK(cb_box_delete(s, "demo", &err));
		}
		CHECK_OK(cb_store_gc(s, NULL, &err));
		CHECK_U64(contents_in(s), 0);
		cb_store_close(s);
	}
	test_note("%u of %u were killed, %u boxes were whole", killed, rounds, whole);
}
