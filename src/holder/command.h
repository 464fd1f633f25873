/*
 * command.h: one command in the sandbox, from init's fork to its end: reaper.c (PID 1 of the command's namespaces), command.c (what
 * the command does to itself before it is executed), tty.c, limits.c, watch.c. Private to the helper.
 */
#ifndef HOLDER_COMMAND_H
#define HOLDER_COMMAND_H

#include <sys/resource.h>

#include "holder/holder.h"
#include "sandbox/filter.h"

/* What the reaper tells init, in memory they share; the command has no access to it once it is executed. */
typedef struct command_report {
	wire_end end; /* 0: it was killed before it could say */
	int32_t status;
	int64_t started_ns, ended_ns;       /* CLOCK_MONOTONIC */
	int64_t own_user_ns, own_system_ns; /* of the reaper, before it started the command */
	int64_t user_ns, system_ns;         /* of the command and all it started; when nobody was left (reaper.told) */
	uint64_t peak_bytes;
	char reason[128];
	bool broken; /* the sandbox itself failed: reason says what */
} command_report;

/* What stays the same for all commands of a sandbox. */
typedef struct command_frame {
	plan_limits limits;
	uint64_t walls_down;
	const struct weak *weak;      /* NULL: with namespaces */
	const filter_program *filter; /* NULL: none */
	command_report *report;       /* shared */
} command_frame;

typedef struct command {
	const command_frame *frame;
	char **argv; /* with one free place before the first, for the shell of a script without a "#!" line */
	char **env;
	const char *cwd, *path; /* PATH of the environment */
	int fds[3];
	bool tty;
} command;

/* Makes the vectors of a RUN; the strings stay the message's. free(*out_vectors). */
cb_code command_make(command *c, const command_frame *frame, const wire_run *run, const int fds[3], void **out_vectors,
                     cb_error *err);
/* Forks and executes it; returns its pid once the program runs, or -1 with the report filled (NOT_FOUND, NOT_RUN). One at a time.
 */
pid_t command_spawn(const command *c);

/* The reaper is made ahead of its command: namespaces, /proc and the filter cost more than the rest, and nobody waits for them
 * then. */
typedef struct reaper {
	pid_t pid; /* 0: none */
	int pidfd;
	int socket; /* to it */
	int mounts; /* its mount namespace, kept until nobody waits: taking it down takes as long as starting a program; -1: none */
	bool running;
	bool told; /* the command has ended and left nobody: only the reaper itself is still to end */
	bool dying;
	bool weak; /* its end alone ends nothing else */
} reaper;
#define REAPER_NONE ((reaper){.pidfd = -1, .socket = -1, .mounts = -1})
cb_code reaper_prepare(const command_frame *frame, reaper *out, cb_error *err);
/* Starts the command of a RUN, its body as it came (empty: it is in a memfd, the first descriptor) with stdin, stdout and stderr.
 */
cb_code reaper_start(reaper *r, span body, const int *fds, size_t fd_count, cb_error *err);
/* The reaper passes it on. After SIGKILL for everybody it is to end soon (dying): it knows then what all of them used. */
void reaper_signal(reaper *r, const wire_signal *s);
/* When it does not: the kernel ends everything in its namespace. */
void reaper_kill(const reaper *r);
/* Once pidfd is readable: what EXITED says; reason is lent from the report. CB_IO and such: the sandbox itself failed. */
cb_code reaper_reap(reaper *r, const command_report *report, wire_exited *out, cb_error *err);
/* socket is readable: true when the command ended without leaving anybody; then *out as from reaper_reap, which comes once more for
 * the reaper itself, without anybody waiting. */
bool reaper_tells(reaper *r, const command_report *report, wire_exited *out);
void reaper_done(reaper *r); /* closes what is left of a reaped one; accepts none */
/* The body of a RUN and where its stdio begins; hold keeps what came in a memfd. */
cb_code run_body(const wire_packet *p, buf *hold, span *out, size_t *out_first_fd, cb_error *err);

/* limits.c, in init, before the first command. Rlimits, processors by affinity (*out_pinned), the oom killer's preference. others:
 * processes of the same user that count too (without a user namespace). */
cb_code limits_apply(const plan_limits *limits, uint64_t others, bool *out_pinned, cb_error *err);
/* All capabilities from every set of the calling thread but `keep` in permitted and effective; the bounding and ambient sets are
 * empty then, and the secure bits locked. */
cb_code limits_capabilities(uint64_t keep, cb_error *err);
/* The second part of it, in the command: permitted and effective too. 0 or an errno; no memory is used. */
int limits_capabilities_none(void);

/* tty.c: a terminal of the sandbox's own devpts. *out_master, *out_terminal: close() them. */
cb_code tty_open(bool weak, uint16_t rows, uint16_t columns, int *out_master, int *out_terminal, cb_error *err);

/* watch.c, in the reaper: memory of the processes that proc (an open /proc) shows, PID 1's left out; is_ours (may be NULL) chooses
 * among them. What is mapped, each page that several share counted once, and what is only held: files of memory without a mapping,
 * the sandbox's own tmpfs. */
cb_code watch_memory_look(int proc, uint64_t bound_bytes, bool (*is_ours)(pid_t pid), bool *out_over, cb_error *err);
/* Bytes on the disk in open files without a name, which no walk over the box finds. */
cb_code watch_unlinked_look(int proc, uint64_t bound_bytes, bool (*is_ours)(pid_t pid), bool *out_over, cb_error *err);
/* How much; not exactly: at least as much, and quicker. */
cb_code watch_memory_measure(int proc, bool (*is_ours)(pid_t pid), bool exactly, uint64_t *out_bytes, cb_error *err);

#endif
