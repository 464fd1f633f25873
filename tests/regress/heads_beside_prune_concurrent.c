/*
 * Calls on the head of a box, beside others that write and prune: half of all blames and some tar exports were CB_STALE, and a box was
 * missing from the list of boxes. They asked for the number of a step, and opened that step when it was gone.
 */
#include "harness/boxes.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { MS = 1500 };

static _Atomic bool stop;

static void *writes(void *unused)
{
	cb_error err = {0};
	cb_store *s = test_store_reopen();
	cb_box *b = must_open(s, "demo");
	for (int i = 0; !atomic_load(&stop); i++) {
		char text[1024];
		int n = 0;
		for (int l = 0; l < 30; l++) n += snprintf(text + n, sizeof(text) - (size_t)n, "line %d of %d\n", l, l % 5 ? l : i);
		CHECK_OK(cb_write_file(b, "/work/f", text, (size_t)n, NULL, &err));
	}
	cb_box_close(b);
	cb_store_close(s);
	return unused;
}

static void *prunes(void *unused)
{
	cb_error err = {0};
	cb_store *s = test_store_reopen();
	cb_box *b = must_open(s, "demo");
	for (int i = 0; !atomic_load(&stop); i++) {
		cb_code code = cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err);
		CHECK(code == CB_OK || code == CB_BUSY);
		if (i % 20 == 19) CHECK((code = cb_store_gc(s, NULL, &err)) == CB_OK || code == CB_BUSY);
		(void)nanosleep(&(struct timespec){0, 200000}, NULL);
	}
	cb_box_close(b);
	cb_store_close(s);
	return unused;
}

static int64_t now_ms(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

typedef void (*call)(cb_store *s, cb_box *b);

static void beside(call c)
{
	cb_error err = {0};
	pthread_t t[2];
	cb_store *s = test_store_open(false);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/f", "x\n");
	atomic_store(&stop, false);
	CHECK(pthread_create(&t[0], NULL, writes, NULL) == 0 && pthread_create(&t[1], NULL, prunes, NULL) == 0);
	for (int64_t until = now_ms() + MS; now_ms() < until;) c(s, b);
	atomic_store(&stop, true);
	CHECK(pthread_join(t[0], NULL) == 0 && pthread_join(t[1], NULL) == 0);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

static cb_code see_line(void *context, const cb_blame_line *line, cb_error *err)
{
	(void)line;
	(void)err;
	++*(int *)context;
	return CB_OK;
}

static void blames(cb_store *s, cb_box *b)
{
	cb_error err = {0};
	int lines = 0;
	(void)s;
	CHECK_OK(cb_blame(b, "/work/f", see_line, &lines, &err));
	CHECK(lines > 0);
}

TEST(blame_of_the_head)
{
	beside(blames);
}

static void exports(cb_store *s, cb_box *b)
{
	cb_error err = {0};
	(void)s;
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	CHECK_OK(cb_tar_export(b, "/work", fd, NULL, NULL, &err));
	CHECK(close(fd) == 0);
}

TEST(tar_of_the_head)
{
	beside(exports);
}

static cb_code count_box(void *context, const cb_box_info *info, cb_error *err)
{
	(void)info;
	(void)err;
	++*(int *)context;
	return CB_OK;
}

static void lists(cb_store *s, cb_box *b)
{
	cb_error err = {0};
	int boxes = 0;
	(void)b;
	CHECK_OK(cb_box_list(s, count_box, &boxes, &err));
	CHECK_U64(boxes, 1);
}

TEST(the_list_of_boxes)
{
	beside(lists);
}

static void opens(cb_store *s, cb_box *b)
{
	cb_error err = {0};
	cb_box *old = NULL;
	(void)b;
	CHECK_OK(cb_box_open(s, "demo@-0", &old, &err));
	cb_box_close(old);
}

TEST(the_head_as_a_state)
{
	beside(opens);
}

static void undoes(cb_store *s, cb_box *b)
{
	cb_error err = {0};
	(void)s;
	cb_code code = cb_undo(b, 0, NULL, &err);
	if (code != CB_OK && code != CB_NOTHING) (void)fprintf(stderr, "# %s\n", err.message);
	CHECK(code == CB_OK || code == CB_NOTHING);
	code = cb_redo(b, NULL, &err);
	CHECK(code == CB_OK || code == CB_NOTHING);
}

TEST(undo_of_the_newest)
{
	beside(undoes);
}
