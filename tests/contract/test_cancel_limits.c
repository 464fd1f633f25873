/* test_cancel_limits.c: limits and tokens themselves: how they nest, what is refused, what they do not cut short. */
#include <sys/wait.h>

#include "harness/cancelled_box.h"

static cb_code try_write(cb_box *b)
{
	return cb_write_file(b, "/work/new", "new", 3, NULL, NULL);
}

TEST(limits_nest)
{
	begin(true);
	cb_box *b = must_open(s, "demo");
	cb_cancel *inner = NULL;
	CHECK_OK(cb_cancel_create(&inner, &err));
	limit_push(0, token);
	limit_push(3600000, inner);
	must_write(b, "/work/a", "1");
	cb_cancel_fire(inner);
	CHECK_CODE(try_write(b), CB_CANCELLED);
	cb_limit_pop();
	must_write(b, "/work/a", "2");
	/* The outer one holds inside, whatever the inner one allows. */
	cb_cancel_fire(token);
	cb_cancel_reset(inner);
	limit_push(3600000, inner);
	CHECK_CODE(try_write(b), CB_CANCELLED);
	cb_limit_pop();
	cb_limit_pop();
	limit_push(-1, NULL);
	limit_push(3600000, NULL);
	CHECK_CODE(try_write(b), CB_TIMEOUT);
	cb_limit_pop();
	cb_limit_pop();
	cb_limit_pop(); /* there is none */
	must_write(b, "/work/a", "3");
	for (int i = 0; i < CANCEL_NESTED; i++) limit_push(0, inner);
	CHECK_CODE(cb_limit_push(&CB_INIT(cb_limit), &err), CB_LIMIT);
	for (int i = 0; i < CANCEL_NESTED; i++) cb_limit_pop();
	cb_cancel_free(inner);
	cb_box_close(b);
	end();
}

TEST(limits_are_checked)
{
	cb_limit limit = CB_INIT(cb_limit);
	struct {
		cb_limit known;
		int later;
	} longer = {.known = {.struct_size = sizeof(longer)}};
	CHECK_CODE(cb_limit_push(NULL, &err), CB_INVALID);
	limit.struct_size = 0;
	CHECK_CODE(cb_limit_push(&limit, &err), CB_INVALID);
	limit.struct_size = sizeof(limit) - 1;
	CHECK_CODE(cb_limit_push(&limit, &err), CB_INVALID);
	CHECK_CODE(cb_limit_push(&longer.known, &err), CB_OK);
	cb_limit_pop();
	longer.later = 1;
	CHECK_CODE(cb_limit_push(&longer.known, &err), CB_INVALID);
	CHECK_CODE(cb_cancel_create(NULL, &err), CB_INVALID);
	cb_cancel_fire(NULL);
	cb_cancel_reset(NULL);
	cb_cancel_free(NULL);
	CHECK(!cb_cancel_is_fired(NULL));
}

/* A limit keeps its token. */
TEST(a_token_may_be_freed_first)
{
	cb_cancel *c = NULL;
	CHECK_OK(cb_cancel_create(&c, &err));
	limit_push(0, c);
	cb_cancel_fire(c);
	cb_cancel_free(c);
	CHECK_CODE(cb_store_open(":memory:", NULL, &s, &err), CB_CANCELLED);
	cb_limit_pop();
	CHECK_OK(cb_store_open(":memory:", NULL, &s, &err));
	cb_store_close(s);
}

static unsigned seen;

static cb_code stat_inside(void *context, const char *path, const cb_stat_info *info, cb_error *e)
{
	cb_stat_info again = CB_INIT(cb_stat_info);
	(void)info;
	if (++seen == 3) cb_cancel_fire(token);
	return cb_stat(context, path, CB_NOFOLLOW, &again, e);
}

/* CB_INTERRUPTED, by which a visitor ends a walk with success, must not be what a cancelled call inside it gives. */
TEST_BOTH(a_visitor_that_is_cancelled_does_not_cut_a_walk_short)
{
	begin(memory);
	cb_box *b = must_open(s, "demo");
	limit_push(0, token);
	CHECK_CODE(cb_walk(b, "/", stat_inside, b, &err), CB_CANCELLED);
	cb_limit_pop();
	CHECK_U64(seen, 3);
	cb_box_close(b);
	end();
}

/* Closing ends what there is to end, also when it is late. */
TEST_BOTH(closing_is_not_cut_short)
{
	begin(memory);
	cb_box *b = must_open(s, "demo");
	cb_file *f = NULL;
	CHECK_OK(cb_open(b, "/work/open", CB_CREATE | CB_WRITE, 0644, &f, &err));
	CHECK_OK(cb_write(f, "written", 7, &err));
	cb_cancel_fire(token);
	limit_push(-1, token);
	CHECK_OK(cb_close(f, &err));
	cb_box_close(b);
	cb_limit_pop();
	b = must_open(s, "demo");
	CHECK_STR(must_read(b, "/work/open"), "written");
	CHECK_OK(cb_open(b, "/work/open", CB_WRITE, 0, &f, &err));
	CHECK_OK(cb_write(f, "again  ", 7, &err));
	limit_push(-1, token);
	cb_box_close(b); /* the handle before its file */
	CHECK_OK(cb_close(f, &err));
	cb_limit_pop();
	b = must_open(s, "demo");
	CHECK_STR(must_read(b, "/work/open"), "again  ");
	cb_box_close(b);
	end();
}

/* What was written through an open file stays with it when its step cannot be made now. */
TEST_BOTH(writes_of_open_files_wait)
{
	begin(memory);
	cb_box *b = must_open(s, "demo");
	cb_file *f = NULL;
	CHECK_OK(cb_open(b, "/work/open", CB_CREATE | CB_WRITE, 0644, &f, &err));
	CHECK_OK(cb_write(f, "written", 7, &err));
	limit_push(-1, NULL);
	CHECK_CODE(cb_fsync(f, &err), CB_TIMEOUT);
	CHECK_CODE(cb_write(f, "x", 1, &err), CB_TIMEOUT);
	cb_limit_pop();
	memset(&err, 0, sizeof(err));
	CHECK_OK(cb_write(f, " more", 5, &err));
	CHECK_OK(cb_close(f, &err));
	CHECK_STR(must_read(b, "/work/open"), "written more");
	cb_box_close(b);
	end();
}

/* A child has copies of limits and tokens. */
TEST(fork_copies_a_token)
{
	begin(false);
	cb_box *b = must_open(s, "demo");
	limit_push(0, token);
	must_write(b, "/work/a", "before");
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		cb_error e = {0};
		if (cb_write_file(b, "/work/child", "x", 1, NULL, &e) != CB_OK) _exit(1);
		cb_cancel_fire(token);
		if (cb_write_file(b, "/work/child", "y", 1, NULL, &e) != CB_CANCELLED) _exit(2);
		cb_limit_pop();
		if (cb_write_file(b, "/work/child", "z", 1, NULL, &e) != CB_OK) _exit(3);
		_exit(0);
	}
	int status = 0;
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK_U64(status, 0);
	must_write(b, "/work/a", "after");
	cb_limit_pop();
	CHECK_STR(must_read(b, "/work/child"), "z");
	cb_box_close(b);
	end();
}
