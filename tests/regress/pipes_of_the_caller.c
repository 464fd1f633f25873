/*
 * Streams to and from descriptors of the caller's. A reader that had gone killed the caller by SIGPIPE in cb_pack and cb_tar_export, and
 * the tar calls failed on non-blocking pipes, which packs waited for. One that went while a write waited for it did so later still: that
 * write takes a part, and raises the signal all the same.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cowbox/cowbox.h>

#include "harness/boxes.h"

enum { BIG = 600000 }; /* more than a pipe holds */

static cb_store *s;
static cb_box *b;
static cb_error err;

static void begin(void)
{
	static char bytes[BIG];
	uint64_t x = 1;
	for (size_t i = 0; i < BIG; i++) { /* what does not compress */
		x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		bytes[i] = (char)(x >> 56);
	}
	s = test_store_open(true);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	CHECK_OK(cb_write_file(b, "/work/big", bytes, BIG, NULL, &err));
}

static void finish(void)
{
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

static cb_code pack_to(int fd)
{
	return cb_pack(b, fd, NULL, NULL, &err);
}

static cb_code tar_to(int fd)
{
	return cb_tar_export(b, "/work", fd, NULL, NULL, &err);
}

static void nobody_reads(cb_code (*to)(int), int fd)
{
	sigset_t before, after, pending;
	(void)pthread_sigmask(SIG_SETMASK, NULL, &before);
	err = (cb_error){0};
	CHECK_CODE(to(fd), CB_IO);
	CHECK(err.os_error == EPIPE);
	(void)pthread_sigmask(SIG_SETMASK, NULL, &after);
	CHECK(sigismember(&before, SIGPIPE) == sigismember(&after, SIGPIPE));
	CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 0);
	CHECK(close(fd) == 0);
}

static int pipe_without_reader(void)
{
	int ends[2];
	CHECK(pipe2(ends, O_CLOEXEC) == 0 && close(ends[0]) == 0);
	return ends[1];
}

static int socket_without_reader(void)
{
	int ends[2];
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0 && close(ends[0]) == 0);
	return ends[1];
}

TEST(no_signal_when_nobody_reads)
{
	begin();
	CHECK(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
	nobody_reads(pack_to, pipe_without_reader());
	nobody_reads(tar_to, pipe_without_reader());
	nobody_reads(pack_to, socket_without_reader());
	nobody_reads(tar_to, socket_without_reader());
	/* Nor when the caller holds it back himself. */
	sigset_t pipe_only;
	(void)sigemptyset(&pipe_only);
	(void)sigaddset(&pipe_only, SIGPIPE);
	CHECK(pthread_sigmask(SIG_BLOCK, &pipe_only, NULL) == 0);
	nobody_reads(pack_to, pipe_without_reader());
	nobody_reads(tar_to, pipe_without_reader());
	finish();
}

/* Waits until the pipe is full, and whoever fills it waits too, and goes. */
static void *leave_when_full(void *context)
{
	int fd = *(int *)context, before = -1, filled = 0;
	for (; filled == 0 || filled != before; (void)usleep(50000)) {
		before = filled;
		CHECK(ioctl(fd, FIONREAD, &filled) == 0);
	}
	CHECK(close(fd) == 0);
	return NULL;
}

static void reader_leaves(cb_code (*to)(int))
{
	int ends[2];
	pthread_t thread;
	CHECK(pipe2(ends, O_CLOEXEC) == 0);
	CHECK(pthread_create(&thread, NULL, leave_when_full, &ends[0]) == 0);
	nobody_reads(to, ends[1]);
	CHECK(pthread_join(thread, NULL) == 0);
}

TEST(no_signal_when_the_reader_leaves_midway)
{
	begin();
	CHECK(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
	reader_leaves(pack_to);
	reader_leaves(tar_to);
	finish();
}

/* One that reads or writes in small pieces, with rests. */
typedef struct slow_end {
	int fd;
	char *bytes;
	size_t size;
} slow_end;

static void rest(void)
{
	(void)nanosleep(&(struct timespec){0, 300000}, NULL);
}

static void *read_slowly(void *context)
{
	slow_end *e = context;
	for (ssize_t n; (n = read(e->fd, e->bytes + e->size, 8192)) > 0; e->size += (size_t)n) rest();
	return NULL;
}

static void *write_slowly(void *context)
{
	const slow_end *e = context;
	for (size_t at = 0, n; at < e->size; at += n) {
		n = e->size - at < 8192 ? e->size - at : 8192;
		CHECK(write(e->fd, e->bytes + at, n) == (ssize_t)n);
		rest();
	}
	CHECK(close(e->fd) == 0);
	return NULL;
}

static int not_blocking(int fd)
{
	CHECK(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0);
	return fd;
}

static slow_end taken_slowly(cb_code (*to)(int))
{
	int ends[2];
	pthread_t thread;
	CHECK(pipe2(ends, O_CLOEXEC) == 0);
	slow_end e = {ends[0], test_keep(malloc(4 * BIG)), 0};
	CHECK(pthread_create(&thread, NULL, read_slowly, &e) == 0);
	CHECK_OK(to(not_blocking(ends[1])));
	CHECK(close(ends[1]) == 0 && pthread_join(thread, NULL) == 0 && close(ends[0]) == 0);
	CHECK(e.size > BIG);
	return e;
}

static cb_code tar_from(int fd)
{
	return cb_tar_import(b, fd, &CB_WITH(cb_tar_options, .to = "/work/again"), NULL, &err);
}

static cb_code pack_from(int fd)
{
	return cb_unpack(s, fd, "again", NULL, NULL, &err);
}

static void given_slowly(cb_code (*from)(int), slow_end e)
{
	int ends[2];
	pthread_t thread;
	CHECK(pipe2(ends, O_CLOEXEC) == 0);
	e.fd = ends[1];
	CHECK(pthread_create(&thread, NULL, write_slowly, &e) == 0);
	CHECK_OK(from(not_blocking(ends[0])));
	CHECK(pthread_join(thread, NULL) == 0 && close(ends[0]) == 0);
}

TEST(pipes_that_would_block_are_waited_for)
{
	begin();
	given_slowly(tar_from, taken_slowly(tar_to));
	CHECK(exists(b, "/work/again/big"));
	given_slowly(pack_from, taken_slowly(pack_to));
	cb_box *again = must_open(s, "again");
	CHECK(exists(again, "/work/again/big"));
	cb_box_close(again);
	finish();
}
