/*
 * streams.c: a program's input and output, copied without ever waiting. Its ends are pipes, or a terminal of its own: never a descriptor
 * of the caller's, which it could reopen by /proc/self/fd, truncate, or drive a terminal with.
 *
 * The other ends are in the program's hands: it may close them, keep them full, or write for ever. So ours do not block, what is kept is
 * bounded, and a closed one is an end, not a signal.
 */
#include "exec/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "base/io.h"

enum {
	TURN_PIECES = 16,         /* read of one stream before others get their turn */
	DRAIN_PIECES = 64,        /* after the end: four times what the largest pipe holds */
	END_OF_TYPING = 'D' & 31, /* what a terminal takes as the end of input */
};

/* Closing it does not take it out of the epoll set while a child of fork() has a copy: its hang-up would be reported for ever. In such a
 * child the set is the parent's. */
static void close_fd(const cb_exec *e, int *fd)
{
	if (*fd < 0) return;
	if (sandbox_is_own(e->sandbox)) (void)epoll_ctl(e->epoll, EPOLL_CTL_DEL, *fd, NULL);
	(void)close(*fd);
	*fd = -1;
}

/* ---- opening ---- */

static cb_code pipe_make(int *ours, int *theirs, bool ours_writes, uid_t uid, cb_error *err)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) != 0) return cb_err_errno(err, errno, "making a pipe");
	*ours = ends[ours_writes];
	*theirs = ends[!ours_writes];
	/* The program may open it again (/dev/stdout), as whoever it is on the host. */
	if (uid != geteuid() && fchown(*theirs, uid, (gid_t)uid) != 0) return cb_err_errno(err, errno, "giving a pipe away");
	if (fcntl(*ours, F_SETFL, O_NONBLOCK) != 0) return cb_err_errno(err, errno, "setting up a pipe");
	return CB_OK;
}

cb_code streams_source(int stdin_fd, int *out, cb_error *err)
{
	struct stat st;
	bool callers = stdin_fd == CB_STDIN_CALLER;
	int fd = callers ? STDIN_FILENO : stdin_fd;
	*out = -1;
	if (fd <= 0 && !callers) return CB_OK;
	int flags = fcntl(fd, F_GETFL);
	if (flags < 0 || fstat(fd, &st) != 0) return cb_err_errno(err, errno, "standard input");
	if (S_ISDIR(st.st_mode)) return cb_err_set(err, CB_ISDIR, "standard input: descriptor %d is a folder", fd);
	if ((flags & O_ACCMODE) == O_WRONLY || flags & O_PATH) {
		if (callers) return CB_OK; /* nohup puts such a one in the place of a terminal: it is there for nobody to read */
		return cb_err_set(err, CB_INVALID, "standard input: descriptor %d is not open for reading", fd);
	}
	*out = fd;
	return CB_OK;
}

static cb_code source_open(cb_exec *e, int stdin_fd, cb_error *err)
{
	int fd;
	e->input.piped = e->input.pipe = stdin_fd == CB_STDIN_PIPE;
	CB_TRY(streams_source(stdin_fd, &fd, err));
	if (fd < 0) return CB_OK;
	e->input.source = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	return e->input.source < 0 ? cb_err_errno(err, errno, "standard input") : CB_OK;
}

cb_code streams_open(cb_exec *e, const cb_exec_options *options, uid_t uid, int child[3], cb_error *err)
{
	e->input.tty = options->tty;
	CB_TRY(source_open(e, options->stdin_fd, err));
	if (options->tty) return CB_OK;
#ifdef COWBOX_TEST_WALLS
	if (e->sandbox->plan.walls_down & WALL_STDIO) {
		for (int i = 0; i < 3; i++) child[i] = fcntl(i, F_DUPFD_CLOEXEC, 3);
		return CB_OK;
	}
#endif
	CB_TRY(pipe_make(&e->input.to, &child[0], true, uid, err));
	CB_TRY(pipe_make(&e->streams[0].fd, &child[1], false, uid, err));
	CB_TRY(pipe_make(&e->streams[1].fd, &child[2], false, uid, err));
	if (e->input.source < 0 && !e->input.pipe) close_fd(e, &e->input.to);
	return CB_OK;
}

static cb_code watch(const cb_exec *e, int fd, unsigned what, uint32_t events, cb_error *err)
{
	struct epoll_event event = {.events = events, .data.u32 = what};
	if (epoll_ctl(e->epoll, EPOLL_CTL_ADD, fd, &event) != 0) return cb_err_errno(err, errno, "watching a stream");
	return CB_OK;
}

static cb_code terminal_take(cb_exec *e, int terminal, cb_error *err)
{
	e->streams[0].fd = terminal;
	if (fcntl(terminal, F_SETFL, O_NONBLOCK) != 0) return cb_err_errno(err, errno, "setting up the terminal");
	e->input.to = fcntl(terminal, F_DUPFD_CLOEXEC, 3);
	return e->input.to < 0 ? cb_err_errno(err, errno, "setting up the terminal") : CB_OK;
}

/* Which events of the input matter now. A source that waits for the program to read is not watched at all: its hang-up would be reported
 * again and again. */
static cb_code input_watch(cb_exec *e, cb_error *err)
{
	exec_input *in = &e->input;
	bool read = in->to >= 0 && in->source >= 0 && !in->plain && in->size == 0;
	if (read && !in->source_watched) {
		struct epoll_event event = {.events = EPOLLIN, .data.u32 = WATCH_SOURCE};
		if (epoll_ctl(e->epoll, EPOLL_CTL_ADD, in->source, &event) == 0) in->source_watched = true;
		else if (errno == EPERM) in->plain = true;
		else return cb_err_errno(err, errno, "watching standard input");
	} else if (!read && in->source_watched) {
		if (in->source >= 0) (void)epoll_ctl(e->epoll, EPOLL_CTL_DEL, in->source, NULL);
		in->source_watched = false;
	}
	if (in->to < 0) return CB_OK;
	bool write = in->size > 0 || in->wants_room || (in->plain && in->source >= 0);
	struct epoll_event event = {.events = write ? EPOLLOUT : 0, .data.u32 = WATCH_TO};
	if (event.events != in->watched && epoll_ctl(e->epoll, EPOLL_CTL_MOD, in->to, &event) != 0)
		return cb_err_errno(err, errno, "watching standard input");
	in->watched = event.events;
	return CB_OK;
}

cb_code streams_watch(cb_exec *e, int terminal, cb_error *err)
{
	if (terminal >= 0) CB_TRY(terminal_take(e, terminal, err));
	for (unsigned i = 0; i < 2; i++)
		if (e->streams[i].fd >= 0) CB_TRY(watch(e, e->streams[i].fd, WATCH_OUT + i, EPOLLIN, err));
	if (e->input.to >= 0) CB_TRY(watch(e, e->input.to, WATCH_TO, 0, err));
	return input_watch(e, err);
}

void streams_close(cb_exec *e)
{
	close_fd(e, &e->streams[0].fd);
	close_fd(e, &e->streams[1].fd);
	close_fd(e, &e->input.source);
	close_fd(e, &e->input.to);
}

/* ---- output ---- */

static cb_code keep(cb_exec *e, exec_stream *s, const uint8_t *bytes, size_t size, cb_error *err)
{
	uint64_t room = e->output_bytes - s->kept.size;
	size_t take = size < room ? size : (size_t)room;
	s->total += size;
	s->truncated = s->truncated || take < size;
	return take ? buf_append(&s->kept, bytes, take, err) : CB_OK;
}

static cb_code stream_took(cb_exec *e, unsigned index, const uint8_t *bytes, size_t size, cb_error *err)
{
	exec_stream *s = &e->streams[index];
	CB_TRY(keep(e, s, bytes, size, err));
	bool stopped = e->stopped;
	if (s->truncated && e->reject_output) stopped = true;
	if (!stopped && e->stream) {
		stopped = !e->stream(e->context, index ? CB_STDERR : CB_STDOUT, bytes, size);
		CB_TRY(exec_called(e, err));
	}
	if (!stopped || e->stopped) return CB_OK;
	e->stopped = true;
	return exec_signal(e, SIGKILL, true, err);
}

/* Reads at most so many pieces. */
static cb_code stream_read(cb_exec *e, unsigned index, unsigned pieces, cb_error *err)
{
	exec_stream *s = &e->streams[index];
	uint8_t bytes[EXEC_PIECE_BYTES];
	while (pieces-- > 0 && s->fd >= 0) {
		ssize_t n = read(s->fd, bytes, sizeof(bytes));
		if (n > 0) CB_TRY(stream_took(e, index, bytes, (size_t)n, err));
		else if (n < 0 && errno == EINTR) continue;
		else if (n < 0 && errno == EAGAIN) return CB_OK;
		else if (n == 0 || errno == EIO) close_fd(e, &s->fd); /* EIO: nobody has the terminal open any more */
		else return cb_err_errno(err, errno, "reading the program's output");
	}
	return CB_OK;
}

cb_code streams_drain(cb_exec *e, cb_error *err)
{
	for (unsigned i = 0; i < 2; i++) CB_TRY(stream_read(e, i, DRAIN_PIECES, err));
	streams_close(e);
	return CB_OK;
}

/* ---- input ---- */

static void input_flush(cb_exec *e)
{
	exec_input *in = &e->input;
	while (in->size > 0 && in->to >= 0) {
		ssize_t n = io_write_quietly(in->to, in->bytes + in->at, in->size);
		if (n < 0 && errno == EINTR) continue;
		if (n < 0 && errno == EAGAIN) return;
		if (n < 0) { /* nobody reads: the rest is not wanted */
			close_fd(e, &in->to);
			in->size = 0;
			return;
		}
		in->at += (size_t)n;
		in->size -= (size_t)n;
	}
	if (in->size == 0 && in->source < 0 && !in->pipe && !in->tty) close_fd(e, &in->to);
}

static void input_end(cb_exec *e)
{
	exec_input *in = &e->input;
	close_fd(e, &in->source);
	in->source_watched = false;
	if (!in->tty) return;
	in->bytes[0] = END_OF_TYPING;
	in->at = 0;
	in->size = 1;
}

static void input_read(cb_exec *e)
{
	exec_input *in = &e->input;
	ssize_t n = read(in->source, in->bytes, sizeof(in->bytes));
	if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
	if (n <= 0) {
		int error = n < 0 ? errno : 0;
		/* EIO of a terminal: it was hung up, or is no longer ours to read. */
		in->error = error == EIO && isatty(in->source) ? 0 : error;
		input_end(e);
		return;
	}
	in->at = 0;
	in->size = (size_t)n;
}

static bool is_readable(int fd)
{
	struct pollfd p = {fd, POLLIN, 0};
	return poll(&p, 1, 0) > 0;
}

static void input_pump(cb_exec *e)
{
	exec_input *in = &e->input;
	input_flush(e);
	if (in->to < 0 || in->size > 0) return;
	/* Another process may have read meanwhile what woke us: looking again keeps the wait, if any, short. */
	if (in->source >= 0 && (in->plain || is_readable(in->source))) input_read(e);
	input_flush(e);
}

cb_code streams_event(cb_exec *e, unsigned what, uint32_t events, cb_error *err)
{
	if (what == WATCH_OUT || what == WATCH_ERR) return stream_read(e, what - WATCH_OUT, TURN_PIECES, err);
	if (what == WATCH_TO && events & EPOLLOUT) e->input.wants_room = false;
	if (what == WATCH_TO && events & (EPOLLERR | EPOLLHUP)) close_fd(e, &e->input.to);
	else input_pump(e);
	return input_watch(e, err);
}

cb_code streams_input(cb_exec *e, const void *bytes, size_t size, size_t *out_taken, cb_error *err)
{
	exec_input *in = &e->input;
	if (!in->piped) return cb_err_set(err, CB_BADHANDLE, "the program was not started with stdin_fd CB_STDIN_PIPE");
	if (!in->pipe) return cb_err_set(err, CB_BADHANDLE, "the program's input was ended before");
	if (in->to < 0) return cb_err_set(err, CB_IO, "the program does not read its input any more");
	if (size == 0) {
		in->pipe = false;
		if (in->tty) input_end(e);
		input_flush(e);
		*out_taken = 0;
		return input_watch(e, err);
	}
	ssize_t n = io_write_quietly(in->to, bytes, size);
	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		close_fd(e, &in->to);
		return cb_err_set(err, CB_IO, "the program does not read its input any more");
	}
	*out_taken = n > 0 ? (size_t)n : 0;
	in->wants_room = *out_taken < size;
	return input_watch(e, err);
}

cb_code streams_resize(const cb_exec *e, unsigned short rows, unsigned short columns, cb_error *err)
{
	struct winsize size = {.ws_row = rows, .ws_col = columns};
	if (!e->tty) return cb_err_set(err, CB_INVALID, "the program has no terminal");
	if (e->streams[0].fd < 0) return CB_OK;
	if (ioctl(e->streams[0].fd, TIOCSWINSZ, &size) != 0) return cb_err_errno(err, errno, "resizing the terminal");
	return CB_OK;
}
