/*
 * program_run.c: between our terminal, or pipes, and a program in a box: its output as it comes, our signals passed on, the terminal
 * put back whatever happens. Our output may be slow or gone; the program's time-out and our signals hold meanwhile.
 */
#include "cli/program.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { LOOK_MS = 100 }; /* how often the clock is looked at while our output cannot be written */

/* ---- the terminal ---- */

void program_window(unsigned short *rows, unsigned short *columns)
{
	struct winsize size = {0};
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) break;
	*rows = size.ws_row ? size.ws_row : 24;
	*columns = size.ws_col ? size.ws_col : 80;
}

static void raw_begin(program *p)
{
	struct termios raw;
	if (!p->tty || p->raw || tcgetattr(STDIN_FILENO, &p->was) != 0) return;
	raw = p->was;
	cfmakeraw(&raw);
	p->raw = tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
}

static void raw_end(program *p)
{
	if (p->raw) (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &p->was);
	p->raw = false;
}

/* ---- signals ---- */

static const int passed_on[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH, SIGUSR1, SIGUSR2};

cb_code program_begin(program *p, cb_error *err)
{
	sigset_t set;
	(void)sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_LEN(passed_on); i++) (void)sigaddset(&set, passed_on[i]);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	p->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return p->signals < 0 ? cb_err_errno(err, errno, "watching signals") : CB_OK;
}

void program_end(program *p)
{
	raw_end(p);
	if (p->signals >= 0) (void)close(p->signals);
	p->signals = -1;
}

/* The program is stopped with us, and goes on with us. */
static void suspend(program *p)
{
	bool raw = p->raw;
	raw_end(p);
	/* Not SIGTSTP: the program leads a session without a shell to continue it, where that has no effect. */
	(void)cb_exec_kill(p->exec, SIGSTOP, NULL);
	(void)kill(getpid(), SIGSTOP);
	(void)cb_exec_kill(p->exec, SIGCONT, NULL);
	if (raw) raw_begin(p);
}

/* What asks us to end is the program's to answer; asked again, everything is killed. What it wrote is captured in either case. */
static void pass_on(program *p, int number)
{
	unsigned short rows, columns;
	switch (number) {
	case SIGWINCH:
		if (!p->tty) return;
		program_window(&rows, &columns);
		(void)cb_exec_resize(p->exec, rows, columns, NULL);
		return;
	case SIGTSTP:
		suspend(p);
		return;
	case SIGINT:
	case SIGTERM:
	case SIGHUP:
	case SIGQUIT:
		(void)cb_exec_kill(p->exec, p->asked++ ? SIGKILL : number, NULL);
		return;
	default:
		(void)cb_exec_kill(p->exec, number, NULL);
	}
}

static void take_signals(program *p)
{
	struct signalfd_siginfo info;
	while (read(p->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) pass_on(p, (int)info.ssi_signo);
}

/* ---- output ---- */

/* A write of at most PIPE_BUF bytes after poll said so does not wait. */
static bool put(program *p, int fd, const char *bytes, size_t size)
{
	while (size > 0) {
		struct pollfd polls[] = {{fd, POLLOUT, 0}, {p->signals, POLLIN, 0}};
		if (poll(polls, ARRAY_LEN(polls), LOOK_MS) < 0 && errno != EINTR) break;
		if (polls[1].revents) take_signals(p);
		(void)cb_exec_tick(p->exec, NULL);
		if (!polls[0].revents) continue;
		ssize_t n = write(fd, bytes, size < PIPE_BUF ? size : PIPE_BUF);
		if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
		if (n < 0) {
			p->failed_errno = errno;
			return false;
		}
		bytes += n;
		size -= (size_t)n;
	}
	return true;
}

bool program_stream(void *context, cb_stream from, const void *bytes, size_t size)
{
	program *p = context;
	unsigned index = from == CB_STDERR;
	uint64_t room = p->limited ? p->limit_bytes - p->shown[index] : size;
	size_t show = size < room ? size : (size_t)room;
	p->shown[index] += show;
	p->hidden[index] += size - show;
	return put(p, index ? STDERR_FILENO : STDOUT_FILENO, bytes, show);
}

void program_note(void *context, const char *path, const char *what)
{
	program *p = context;
	if (p->noted++ < PROGRAM_NOTES)
		(void)snprintf(p->notes[p->noted - 1], sizeof(p->notes[0]), "%.350s: %s", path ? path : "", what);
}

/* ---- */

cb_code program_run(program *p, cb_error *err)
{
	bool done = false;
	raw_begin(p);
	while (!done) {
		CB_TRY(cb_exec_pump(p->exec, &done, err));
		struct pollfd polls[] = {{cb_exec_fd(p->exec), POLLIN, 0}, {p->signals, POLLIN, 0}};
		if (done) break;
		if (poll(polls, ARRAY_LEN(polls), -1) < 0 && errno != EINTR)
			return cb_err_errno(err, errno, "waiting for the program");
		if (polls[1].revents) take_signals(p);
	}
	raw_end(p);
	return CB_OK;
}
