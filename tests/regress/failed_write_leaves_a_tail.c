/*
 * failed_write_leaves_a_tail.c: a large content whose write fails half-way, or whose transaction is given up, left its bytes in the
 * segment, where no row named them and no gc found them: a full disk stayed full.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/harness.h"
#include "store/fault.h"

enum { BYTES = 300000, HEADER = 64 };

static cb_error err;
static uint8_t bytes[BYTES];
static char folder[512], segment[600];

static uint64_t segment_bytes(void)
{
	struct stat st;
	return stat(segment, &st) == 0 ? (uint64_t)st.st_size : 0;
}

static store *open_store(store_fault_plan *plan)
{
	store *s = NULL;
	(void)snprintf(folder, sizeof folder, "%s/s", test_tmpdir());
	(void)snprintf(segment, sizeof segment, "%s/seg/000001.seg", folder);
	store_options o = {.path = folder, .create = true, .faults = plan};
	CHECK_OK(store_open(&o, &s, &err));
	return s;
}

static uint64_t must_put(store *s)
{
	uint64_t id = 0;
	CHECK_OK(store_content_put(s, span_make(bytes, sizeof bytes), &id, &err));
	return id;
}

TEST(failed_write_leaves_no_tail)
{
	store_fault_plan plan = {0};
	store *s = open_store(&plan);
	uint64_t owner = 0, id = 0;
	CHECK_OK(store_owner_begin(s, &owner, &err));
	(void)must_put(s);
	uint64_t before = segment_bytes();
	CHECK(before >= HEADER + BYTES);
	/* The second of two appends fails: the first goes with it. */
	CHECK_OK(store_write_begin(s, &err));
	(void)must_put(s);
	plan.op[STORE_FAULT_WRITE] = (store_fault_rule){.fail_at = 1, .error = ENOSPC};
	CHECK_CODE(store_content_put(s, span_make(bytes, sizeof bytes), &id, &err), CB_NOSPACE);
	store_write_abort(s);
	CHECK_MSG(segment_bytes() < before + HEADER, "a tail of %" PRIu64 " bytes is left", segment_bytes() - before);
	/* One that is only given up. */
	CHECK_OK(store_write_begin(s, &err));
	(void)must_put(s);
	(void)must_put(s);
	store_write_abort(s);
	CHECK_MSG(segment_bytes() < before + HEADER, "a tail of %" PRIu64 " bytes is left", segment_bytes() - before);
	/* And one whose commit is refused for room: of the log's, here. */
	plan.op[STORE_FAULT_ALLOCATE] = (store_fault_rule){.fail_at = 1, .error = ENOSPC, .lasting = true};
	unsigned refused = 0;
	for (unsigned i = 0; i < 200 && !refused; i++) {
		before = segment_bytes();
		CHECK_OK(store_write_begin(s, &err));
		(void)must_put(s);
		for (unsigned k = 0; k < 40; k++) CHECK_OK(store_content_put(s, span_make(bytes, 60000), &id, &err));
		cb_code code = store_write_commit(s, false, &err);
		CHECK(code == CB_OK || code == CB_NOSPACE);
		refused += code == CB_NOSPACE;
	}
	CHECK(refused);
	CHECK_MSG(segment_bytes() < before + HEADER, "a tail of %" PRIu64 " bytes is left", segment_bytes() - before);
	store_owner_end(s, owner);
	store_close(s);
	store_fault_plan_done(&plan);
}

static bool keep_all(void *context, bool is_node, uint64_t id)
{
	(void)context;
	(void)is_node;
	(void)id;
	return true;
}

/* What a killed process appended and did not commit is behind everything that rows name. */
TEST(gc_takes_a_killed_writers_tail)
{
	store *s = open_store(NULL);
	uint64_t id = must_put(s), horizon = 0;
	store_close(s);
	uint64_t before = segment_bytes();
	int fd = open(segment, O_WRONLY | O_APPEND | O_CLOEXEC);
	CHECK(fd >= 0 && write(fd, bytes, sizeof bytes) == (ssize_t)sizeof bytes && close(fd) == 0);
	s = open_store(NULL);
	CHECK_OK(store_gc_begin(s, &horizon, &err));
	CHECK_OK(store_gc_sweep(s, horizon, keep_all, NULL, NULL, &err));
	store_gc_end(s);
	CHECK_U64(segment_bytes(), before);
	blob *b = NULL;
	CHECK_OK(store_content_get(s, id, &b, &err));
	CHECK(b->size == BYTES);
	blob_unref(b);
	store_close(s);
}
