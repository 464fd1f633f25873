/*
 * link.c: the caller's end of a holder.
 *
 * The holder must get exactly the descriptors it is meant to have, whatever the caller's process has open and however many of its
 * threads start holders at once: everything of ours is close-on-exec, what is passed is put in place by posix_spawn in the child, and
 * the rest is closed there. It gets a session of its own, so that a Ctrl-C at the caller's terminal reaches the caller alone, which
 * then decides what to keep.
 */
#include "work/link.h"

#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/entry.h"

#define HELPER_NAME "cowbox-box"

enum {
	FD_SOCKET = 3, /* as holder.h numbers them */
	FD_CALLER,
	FD_LOCK,
	FD_AREA,
	FD_END,
	FD_ASIDE = 16, /* copies are made above the places */
	WAITING_MAX = 64,
};

/* Messages that came while something was to be sent: answers to what was sent ahead. */
typedef struct waiting {
	wire_packet packet;
	uint8_t buffer[];
} waiting;

struct link {
	int socket, pidfd;
	pid_t pid, owner;
	unsigned
		era; /* of the owner. Its number alone may be a child's too; forks alone are not counted before a store was opened */
	bool has_packet;
	wire_packet packet;
	waiting *queue[WAITING_MAX];
	size_t queued, taken; /* [taken, queued) */
	uint8_t buffer[WIRE_PACKET_BYTES + 8];
};

/* ---- finding the helper ---- */

static bool is_program(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* Relative to a file, the program or the library: beside it, or where an installation of the same prefix has it. So a copy of the whole
 * prefix works, and no path is compiled in but the usual ones. */
static bool near_file(const char *file, char out[PATH_MAX])
{
	static const char *const places[] = {"", "../libexec/cowbox/", "../../libexec/cowbox/"};
	const char *slash = strrchr(file, '/');
	if (!slash) return false;
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		int n = snprintf(out, PATH_MAX, "%.*s/%s" HELPER_NAME, (int)(slash - file), file, places[i]);
		if (n > 0 && n < PATH_MAX && is_program(out)) return true;
	}
	return false;
}

static bool near_program(char out[PATH_MAX])
{
	char file[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", file, sizeof(file) - 1);
	if (n <= 0) return false;
	file[n] = 0;
	return near_file(file, out);
}

static bool near_library(char out[PATH_MAX])
{
	Dl_info info;
	static const int here;
	return dladdr(&here, &info) != 0 && info.dli_fname && near_file(info.dli_fname, out);
}

static cb_code helper_find(char out[PATH_MAX], cb_error *err)
{
	static const char *const usual[] = {"/usr/local/libexec/cowbox/" HELPER_NAME, "/usr/libexec/cowbox/" HELPER_NAME};
	const char *named = secure_getenv("COWBOX_BOX_HELPER");
	if (named && *named) {
		(void)snprintf(out, PATH_MAX, "%s", named);
		if (is_program(out)) return CB_OK;
		return cb_err_set(err, CB_UNSUPPORTED, "no helper program at '%s' ($COWBOX_BOX_HELPER)", named);
	}
	if (near_program(out) || near_library(out)) return CB_OK;
	for (size_t i = 0; i < ARRAY_LEN(usual); i++) {
		(void)snprintf(out, PATH_MAX, "%s", usual[i]);
		if (is_program(out)) return CB_OK;
	}
	return cb_err_set(err, CB_UNSUPPORTED,
	                  "the helper program " HELPER_NAME
	                  " is neither beside this program nor in libexec/cowbox of its prefix: install "
	                  "it, or name it in $COWBOX_BOX_HELPER");
}

/* ---- starting ---- */

static int pidfd_of(pid_t pid)
{
	return (int)syscall(SYS_pidfd_open, pid, 0);
}

/* Copies out of the way of the places they go to: a source that is itself one of them would be overwritten before it is copied. */
typedef struct passed {
	int fds[FD_END];
} passed;

static void passed_done(passed *p)
{
	for (size_t i = 0; i < ARRAY_LEN(p->fds); i++)
		if (p->fds[i] >= 0) (void)close(p->fds[i]);
}

static cb_code pass(passed *p, int place, int fd, cb_error *err)
{
	if (fd < 0) return CB_OK;
	p->fds[place] = fcntl(fd, F_DUPFD_CLOEXEC, FD_ASIDE);
	return p->fds[place] < 0 ? cb_err_errno(err, errno, "cannot pass a descriptor to the helper") : CB_OK;
}

static int actions_fill(posix_spawn_file_actions_t *a, const passed *p)
{
	int failed = 0;
	for (int i = 0; !failed && i < 3; i++) {
		if (p->fds[i] >= 0) failed = posix_spawn_file_actions_adddup2(a, p->fds[i], i);
		else failed = posix_spawn_file_actions_addopen(a, i, "/dev/null", O_RDWR, 0);
	}
	for (int i = FD_SOCKET; !failed && i < FD_END; i++) {
		if (p->fds[i] >= 0) failed = posix_spawn_file_actions_adddup2(a, p->fds[i], i);
		else failed = posix_spawn_file_actions_addclose(a, i);
	}
	return failed ? failed : posix_spawn_file_actions_addclosefrom_np(a, FD_END);
}

static int attributes_fill(posix_spawnattr_t *a)
{
	sigset_t none, all;
	(void)sigemptyset(&none);
	(void)sigfillset(&all);
	int failed = posix_spawnattr_setflags(a, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
	if (!failed) failed = posix_spawnattr_setsigmask(a, &none);
	return failed ? failed : posix_spawnattr_setsigdefault(a, &all);
}

static int spawn_with(const char *helper, char *const *argv, const passed *p, pid_t *out)
{
	static char *const no_environment[] = {NULL};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	int failed = posix_spawn_file_actions_init(&actions);
	if (failed) return failed;
	failed = posix_spawnattr_init(&attributes);
	if (!failed) {
		failed = actions_fill(&actions, p);
		if (!failed) failed = attributes_fill(&attributes);
		if (!failed) failed = posix_spawn(out, helper, &actions, &attributes, argv, no_environment);
		(void)posix_spawnattr_destroy(&attributes);
	}
	(void)posix_spawn_file_actions_destroy(&actions);
	return failed;
}

static cb_code spawn(const link_options *options, int socket, pid_t *out, cb_error *err)
{
	char helper[PATH_MAX], uid[16];
	CB_TRY(helper_find(helper, err));
	(void)snprintf(uid, sizeof(uid), "%u", (unsigned)options->uid);
	char name[] = HELPER_NAME, hold[] = "hold", weak[] = "--weak", with_uid[] = "--uid";
	char *argv[6] = {name, hold};
	size_t n = 2;
	if (options->weak) argv[n++] = weak;
	if (options->uid) {
		argv[n++] = with_uid;
		argv[n++] = uid;
	}
	AUTO_FD int self = pidfd_of(getpid());
	if (self < 0) return cb_err_errno(err, errno, "pidfd_open");
	ATTR_CLEANUP(passed_done) passed p;
	for (size_t i = 0; i < ARRAY_LEN(p.fds); i++) p.fds[i] = -1;
	if (secure_getenv("COWBOX_DEBUG")) CB_TRY(pass(&p, 2, 2, err));
	CB_TRY(pass(&p, FD_SOCKET, socket, err));
	CB_TRY(pass(&p, FD_CALLER, self, err));
	CB_TRY(pass(&p, FD_LOCK, options->lock, err));
	CB_TRY(pass(&p, FD_AREA, options->area, err));
	int failed = spawn_with(helper, argv, &p, out);
	return failed ? cb_err_errno(err, failed, "cannot start '%s'", helper) : CB_OK;
}

cb_code link_open(const link_options *options, link_t **out, cb_error *err)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return cb_err_errno(err, errno, "socketpair");
	AUTO_FD int theirs = pair[1];
	AUTO_FD int ours = pair[0];
	AUTO_FREE link_t *l = mem_alloc(sizeof(*l));
	if (!l) return cb_err_nomem(err);
	memset(l, 0, offsetof(struct link, buffer));
	l->owner = getpid();
	l->era = entry_era();
	CB_TRY(spawn(options, theirs, &l->pid, err));
	l->pidfd = pidfd_of(l->pid);
	l->socket = TAKE_FD(ours);
	*out = TAKE_PTR(l);
	return CB_OK;
}

/* ---- ending ---- */

static void packet_drop(link_t *l)
{
	if (l->has_packet) wire_packet_done(&l->packet);
	l->has_packet = false;
}

/* Gone within so many milliseconds? */
static bool wait_gone(const link_t *l, int timeout_ms)
{
	struct pollfd p = {.fd = l->pidfd, .events = POLLIN};
	struct timespec now, end;
	(void)clock_gettime(CLOCK_MONOTONIC, &end);
	for (int left = timeout_ms; left >= 0;) {
		int n = poll(&p, 1, left);
		if (n > 0) return true;
		if (n == 0 || errno != EINTR) return false;
		(void)clock_gettime(CLOCK_MONOTONIC, &now);
		left = timeout_ms - (int)((now.tv_sec - end.tv_sec) * 1000 + (now.tv_nsec - end.tv_nsec) / 1000000);
	}
	return false;
}

static bool is_mine(const link_t *l)
{
	return l->owner == getpid() && l->era == entry_era();
}

/* A process that forked has no child here and leaves the holder to its parent. */
static void end(link_t *l, int timeout_ms)
{
	bool mine = is_mine(l);
	packet_drop(l);
	for (size_t i = l->taken; i < l->queued; i++) {
		wire_packet_done(&l->queue[i]->packet);
		free(l->queue[i]);
	}
	if (mine && timeout_ms) (void)wire_send(l->socket, WIRE_BYE, (span){0}, NULL, 0, NULL);
	(void)close(l->socket);
	/* The pid is ours until it is waited for, unless the program has its children reaped by somebody else: then it is only looked
	 * at. */
	if (mine && (l->pidfd < 0 || !wait_gone(l, timeout_ms)) && l->pidfd >= 0)
		(void)syscall(SYS_pidfd_send_signal, l->pidfd, SIGKILL, NULL, 0);
	if (mine && l->pidfd < 0) (void)kill(l->pid, SIGKILL);
	while (mine && waitpid(l->pid, NULL, 0) < 0 && errno == EINTR) continue;
	if (l->pidfd >= 0) (void)close(l->pidfd);
	free(l);
}

/* Whoever was told to end at once gives it a moment: what it is in the middle of (a tree to be wiped) may take long, and is what a killed
 * one leaves. */
void link_close(link_t *l)
{
	if (l) end(l, cancel_is_due() ? LIMIT_HOLDER_CANCEL_MS : LIMIT_HOLDER_END_MS);
}

void link_kill(link_t *l)
{
	if (l) end(l, 0);
}

int link_fd(const link_t *l)
{
	return l->socket;
}

pid_t link_pid(const link_t *l)
{
	return l->pid;
}

/* ---- talking ---- */

static cb_code ended(cb_error *err)
{
	return cb_err_set(err, CB_IO, "the sandbox's holder ended unexpectedly");
}

/* A holder that failed says why and does nothing more. */
static cb_code check_failed(const wire_packet *p, cb_error *err)
{
	if (p->type != WIRE_FAIL) return CB_OK;
	wire_failed why;
	CB_TRY(wire_failed_get(p->body, &why, err));
	return cb_err_set(err, why.code == CB_OK ? CB_INTERNAL : why.code, "%s", why.message);
}

static cb_code receive_into(link_t *l, uint8_t *buffer, wire_packet *out, cb_error *err)
{
	bool at_end = false;
	cb_code code = wire_receive(l->socket, buffer, out, &at_end, err);
	/* When it ended with words of ours unread, that is told before the last words of its own. */
	if (code == CB_OK && at_end) code = wire_receive(l->socket, buffer, out, &at_end, err);
	return code == CB_OK && at_end ? ended(err) : code;
}

/* Takes a message that waits into the queue, so that there is room for the holder to go on. */
static cb_code queue_one(link_t *l, cb_error *err)
{
	if (l->taken == l->queued) l->taken = l->queued = 0;
	if (l->queued == WAITING_MAX) return cb_err_set(err, CB_INTERNAL, "the sandbox's holder answers what was not asked");
	AUTO_FREE waiting *w = mem_alloc(sizeof(*w) + WIRE_PACKET_BYTES + 8);
	if (!w) return cb_err_nomem(err);
	CB_TRY(receive_into(l, w->buffer, &w->packet, err));
	cb_code code = check_failed(&w->packet, err);
	if (code != CB_OK) {
		wire_packet_done(&w->packet);
		return code;
	}
	l->queue[l->queued++] = TAKE_PTR(w);
	return CB_OK;
}

/* What was said before the other side went away says more than that it did. */
static cb_code why_gone(link_t *l, cb_error *err)
{
	for (;;) {
		cb_code code = queue_one(l, err);
		if (code != CB_OK) return code;
	}
}

/* What it says and is told is between it and the process that started it. */
static cb_code own(const link_t *l, cb_error *err)
{
	return is_mine(l) ? CB_OK : cb_err_set(err, CB_FORKED, "the sandbox's holder belongs to the parent process");
}

cb_code link_send(link_t *l, wire_type type, span body, const int *fds, size_t fd_count, cb_error *err)
{
	CB_TRY(own(l, err));
	for (;;) {
		struct pollfd p = {.fd = l->socket, .events = POLLIN | POLLOUT};
		CB_TRY(cancel_check_wait("for the sandbox's helper", err));
		int n = poll(&p, 1, cancel_wait_ms(-1));
		if (n == 0) continue;
		if (n < 0) {
			if (errno == EINTR) continue;
			return cb_err_errno(err, errno, "cannot wait for the sandbox's holder");
		}
		if (p.revents & POLLOUT) break;
		CB_TRY(queue_one(l, err)); /* it waits for us, or is gone */
	}
	cb_code code = wire_send(l->socket, type, body, fds, fd_count, err);
	return code == CB_IO ? why_gone(l, err) : code;
}

cb_code link_receive(link_t *l, const wire_packet **out, cb_error *err)
{
	CB_TRY(own(l, err));
	packet_drop(l);
	if (l->taken < l->queued) {
		waiting *w = l->queue[l->taken++];
		memcpy(l->buffer, w->buffer, sizeof(l->buffer));
		l->packet = w->packet;
		if (w->packet.body.bytes) l->packet.body.bytes = l->buffer + (w->packet.body.bytes - w->buffer);
		free(w);
	} else {
		CB_TRY(cancel_poll(l->socket, POLLIN, "for the sandbox's helper", err));
		CB_TRY(receive_into(l, l->buffer, &l->packet, err));
	}
	l->has_packet = true;
	CB_TRY(check_failed(&l->packet, err));
	*out = &l->packet;
	return CB_OK;
}

cb_code link_expect(link_t *l, wire_type type, const wire_packet **out, cb_error *err)
{
	const wire_packet *p;
	CB_TRY(link_receive(l, &p, err));
	if (p->type != type)
		return cb_err_set(err, CB_INTERNAL, "the sandbox's holder answered %d, not %d", (int)p->type, (int)type);
	if (out) *out = p;
	return CB_OK;
}

int link_take_fd(link_t *l, size_t index)
{
	if (!l->has_packet || index >= l->packet.fd_count) return -1;
	return TAKE_FD(l->packet.fds[index]);
}
