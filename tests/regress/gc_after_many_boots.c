/*
 * Each boot raises every counter by a million, and gc and fsck kept bitmaps as long as the numbers: after some thousand boots a store with
 * one tiny file took hundreds of megabytes. And where the boot cannot be told, every open counted as one.
 */
#include <errno.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/boxes.h"
#include "harness/mounts.h"

enum { BOOTS = 400 }; /* bitmaps took some 160 KiB a boot */

/* A file of more than what the map itself holds, so that it has a content. */
static const char text[] =
	"some text that is too long for the map, and so becomes a content of its own: 0123456789 0123456789 0123456789 0123456789";

static long used_kib(void)
{
	struct rusage u;
	CHECK(getrusage(RUSAGE_SELF, &u) == 0);
	return u.ru_maxrss;
}

/* In a process of its own: what opening takes is the same before and after. */
static void gc_in(uint64_t bound_kib)
{
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		cb_error err = {0};
		cb_store *s = test_store_reopen();
		cb_gc_result freed = CB_INIT(cb_gc_result);
		long before = used_kib();
		CHECK_OK(cb_store_gc(s, &freed, &err));
		test_store_sound(s);
		CHECK(freed.contents_kept > 0);
		CHECK_MSG((uint64_t)(used_kib() - before) <= bound_kib, "gc and fsck took %ld KiB", used_kib() - before);
		cb_store_close(s);
		_exit(0);
	}
	int status = 0;
	CHECK(waitpid(child, &status, 0) == child);
	CHECK_U64(status, 0);
}

/* Without the file that says how far numbers were given out, a boot skips a million of each. */
static void numbers_forget(void)
{
	char file[4200];
	(void)snprintf(file, sizeof(file), "%s/numbers", test_store_path());
	CHECK(unlink(file) == 0 || errno == ENOENT); /* it is made when numbers are taken */
}

TEST_LIMIT(gc_after_many_boots, 120)
{
	cb_error err = {0};
	mounts_own();
	boots_fake();
	cb_store *s = test_store_open(false);
	CHECK_OK(cb_box_create(s, "b", NULL, &err));
	cb_box *b = must_open(s, "b");
	must_write(b, "/work/a", text);
	cb_box_close(b);
	cb_store_close(s);
	for (unsigned i = 2; i <= BOOTS; i++) {
		boots_set(i);
		numbers_forget();
		cb_store_close(test_store_reopen());
	}
	s = test_store_reopen();
	b = must_open(s, "b");
	must_write(b, "/work/b", text);
	CHECK(must_version(b, "/work/b") > (uint64_t)(BOOTS - 1) << 20); /* the numbers did jump */
	cb_box_close(b);
	cb_store_close(s);
	gc_in(16 << 10);
}

/* ---- where the boot cannot be read ---- */

static uint64_t next_version(void)
{
	cb_store *s = test_store_reopen();
	cb_box *b = must_open(s, "b");
	must_write(b, "/work/a", text);
	must_write(b, "/work/a", "other");
	uint64_t version = must_version(b, "/work/a");
	cb_box_close(b);
	cb_store_close(s);
	return version;
}

TEST(boots_that_cannot_be_read)
{
	cb_error err = {0};
	mounts_own();
	boots_fake();
	cb_store *s = test_store_open(false);
	CHECK_OK(cb_box_create(s, "b", NULL, &err));
	cb_store_close(s);
	/* Processes that can read it and some that cannot, in turn: it is one boot for all of them. */
	uint64_t last = next_version();
	for (int i = 0; i < 20; i++) {
		bool hidden = i % 2 == 0;
		if (hidden) boots_hide(true);
		uint64_t version = next_version();
		CHECK_MSG(version < last + 1000, "numbers jumped at open %d", i);
		last = version;
		if (hidden) boots_hide(false);
	}
	CHECK(next_version() < last + 1000);
	/* A boot is still seen by those who can. */
	boots_set(7);
	numbers_forget();
	CHECK(next_version() > last + (1 << 20));
	/* Begun by a process that cannot read it. */
	last = next_version();
	boots_set(8);
	boots_hide(true);
	CHECK(next_version() < last + 1000); /* the clock says that it is the same boot, which is true */
	boots_hide(false);
	numbers_forget();
	CHECK(next_version() > last + (1 << 20));
}
