/*
 * exec.h: real programs in a box, isolated from the host; what one changes becomes one step.
 *
 * The box is "/" to the program: /work is where it starts, /home/agent is HOME, /tmp is /tmp. /usr, /etc, /proc, /dev, /run and /var
 * belong to the sandbox. Everything it leaves in the box (not in /var) is compared with the state it started from and committed as a
 * step of kind "exec"; a box that moved meanwhile is merged; on a conflict, or beyond the box's quota, the result is kept as a fork.
 *
 * Nothing of the caller is inherited: no environment, no descriptor, no terminal, no working folder. A program that ends takes all
 * that it started with it. The caller's death ends its programs; what they had written is captured as an interrupted step when the
 * box is next used.
 *
 * Threads. A sandbox may be used from several threads; commands that run at once each see the box as it was when they began. Calls
 * on one cb_exec come from one thread at a time, except cb_exec_kill and cb_exec_tick, which may come from any.
 *
 * fork(). Sandboxes and commands stay the process's that opened them: in a child every call on them is CB_FORKED (cb_exec_fd: -1) and
 * touches nothing of the parent's; closing frees the child's copies only. A child may open a sandbox of its own. Until it has closed its
 * copies, executed another program or ended, it holds the pipes open too: a program that reads its input does not see the end of it.
 */
#ifndef COWBOX_EXEC_H
#define COWBOX_EXEC_H

#include <cowbox/history.h>
#include <cowbox/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cb_sandbox cb_sandbox;
typedef struct cb_exec cb_exec;

/* The network of a program: none, or that of the host. */
typedef enum cb_net { CB_NET_NONE, CB_NET_HOST } cb_net;

/* How a program is isolated. */
typedef enum cb_tier {
	CB_TIER_AUTO,    /* the first of the next two that works here */
	CB_TIER_OVERLAY, /* namespaces over stacked layers */
	CB_TIER_FOLDER,  /* namespaces over a folder that is compared whole */
	CB_TIER_WEAK,    /* Landlock and seccomp only; never chosen by itself. SECURITY.md lists what it does not stop */
} cb_tier;

/* An element of an array: as it is for good. */
typedef struct cb_bind {
	const char *host_path;
	const char *box_path; /* NULL: the same path. Absolute; not within /proc, /dev */
	bool writable;        /* what is written there goes to the host, and is not part of the box */
} cb_bind;

/* What the programs of a sandbox see and may use. */
typedef struct cb_sandbox_options {
	size_t struct_size;
	cb_tier tier;
	cb_net net;
	const cb_bind *binds;
	size_t bind_count;
	const char *root; /* a folder whose usr, etc, bin, lib ... take the place of the host's; NULL: the host's */
	const char *path; /* only this subtree of the box is there: absolute; NULL: all of it */
	bool discard;     /* what commands change is thrown away when they end */
	/* Bounds; 0: none, or the default said. What cannot be held on this machine is CB_UNSUPPORTED with what to do. */
	uint64_t memory_bytes; /* of all processes together */
	uint32_t cpus_milli;   /* 1500: one and a half. Without a delegated control group: rounded up to whole ones */
	uint32_t pids;         /* processes and threads; 0: 4096 */
	uint64_t disk_bytes;   /* written to the box */
	uint64_t files;        /* made in the box */
} cb_sandbox_options;

/* Makes ready to run programs against a box; a transaction's handle is CB_INVALID, for programs run on what everybody sees. It, its
 * commands, the box's handle and the store's are closed in any order. What it needs (a helper process, mounts) comes with the first
 * command and stays until it is closed: later commands start as fast as the machine can. CB_UNSUPPORTED: this machine cannot isolate
 * programs, in one line with what to do. options may be NULL. */
CB_API cb_code cb_sandbox_open(cb_box *box, const cb_sandbox_options *options, cb_sandbox **out, cb_error *err);
/* Commands that were started go on, and are waited for and closed as ever; what they need is given up with the last of them. Accepts
 * NULL. */
CB_API void cb_sandbox_close(cb_sandbox *sandbox);
/* What would be done to run programs so, as text: namespaces, mounts, limits, filter. Nothing is done. *out: cb_free() it. */
CB_API cb_code cb_sandbox_plan(cb_box *box, const cb_sandbox_options *options, bool json, char **out, cb_error *err);

/* Where output came from. */
typedef enum cb_stream { CB_STDOUT = 1, CB_STDERR = 2 } cb_stream;

#define CB_OUTPUT_NONE UINT64_MAX

/* Standard input that is no descriptor's. NONE, or 0: nothing, end of file at once, so that options that say nothing pass nothing on.
 * PIPE: cb_exec_input gives it. CALLER: descriptor 0, the caller's own standard input; nothing, where that is not open for reading, as
 * nohup leaves it. */
#define CB_STDIN_NONE (-1)
#define CB_STDIN_PIPE (-2)
#define CB_STDIN_CALLER (-3)

/* One program. */
typedef struct cb_exec_options {
	size_t struct_size;
	const char *const *argv; /* at least the program: looked up in the sandbox's PATH when it has no '/' */
	size_t argc;
	const char *const *
		env; /* "NAME=VALUE", beside the sandbox's own (PATH, HOME, USER, LANG, TMPDIR, caches); values are never recorded */
	size_t env_count;
	const char *cwd; /* in the box, absolute; NULL: /work, or / when there is none */
	/* Standard input: CB_STDIN_NONE, which 0 is too, CB_STDIN_PIPE, CB_STDIN_CALLER, or a descriptor above 0 that is copied to the
	 * program from now on, by the thread in cb_exec_wait or cb_exec_pump. CB_ISDIR, CB_INVALID at the start: a folder, or one that
	 * is not open for reading. When reading it fails later, the program sees the end of its input, and cb_exec_wait says so. */
	int stdin_fd;
	bool tty; /* a terminal of the sandbox's own for all three; stdout only then */
	unsigned short rows, columns;
	int64_t timeout_ns;    /* 0: none. Then SIGTERM to everything, and SIGKILL after grace_ns */
	int64_t grace_ns;      /* 0: 2 s */
	uint64_t output_bytes; /* kept of stdout and of stderr; 0: 1 MiB, CB_OUTPUT_NONE: nothing. Streaming goes on beyond it */
	bool reject_output;    /* more output than output_bytes ends the program: CB_TOOBIG after its changes were dropped */
	/* Output as it comes; may be NULL. false ends the program. Called by cb_exec_wait and cb_exec_pump. */
	bool (*stream)(void *context, cb_stream from, const void *bytes, size_t size);
	/* Something about the run that should be said: a file that was left out, a limit that was approximated. May be NULL. */
	void (*note)(void *context, const char *path, const char *what);
	void *context;
	const char *checkpoint; /* save this checkpoint of the box before; NULL: none */
	bool undo_on_fail;      /* an exit status other than 0 takes the changes back, as a step of its own */
	const char *kind;   /* of the step; NULL: "exec". CB_LIMIT at the start: it, or params, is more than a step keeps (1 MiB) */
	const void *params; /* of the step; NULL: {"argv":[...],"cwd":...,"env":[names]} */
	size_t params_size;
} cb_exec_options;

/* How a program ended. */
typedef enum cb_exec_end {
	CB_END_EXIT = 1,  /* exit_code */
	CB_END_SIGNAL,    /* signal */
	CB_END_TIMEOUT,   /* exit_code or signal tell how it ended then */
	CB_END_MEMORY,    /* the bound of memory, or the host's last memory */
	CB_END_DISK,      /* the bound of disk or files, or the host's last space */
	CB_END_OUTPUT,    /* more output than allowed, with reject_output, or stream() said false */
	CB_END_KILLED,    /* by cb_exec_kill with SIGKILL */
	CB_END_NOT_FOUND, /* no such program: exit_code 127 */
	CB_END_NOT_RUN,   /* it cannot be executed: exit_code 126 */
} cb_exec_end;

/* What came of a program. */
typedef struct cb_exec_result {
	size_t struct_size;
	cb_exec_end end;
	int exit_code;      /* as a shell says it: 128 + signal when a signal ended it */
	int signal;         /* 0: none */
	const char *reason; /* of an end by a bound: one line; else "" */
	const char *out, *err;
	size_t out_size, err_size;
	bool out_truncated, err_truncated;
	uint64_t out_bytes, err_bytes; /* written in all */
	int64_t duration_ns;           /* from the start of the program to its end */
	int64_t cpu_ns;                /* user and system, all processes */
	uint64_t peak_memory_bytes;    /* of the largest process */
	cb_tier tier;
	uint64_t step;              /* 0: discarded */
	uint64_t undo_step;         /* of undo_on_fail; 0: none */
	bool merged;                /* the box had moved meanwhile */
	char fork[CB_NAME_MAX + 1]; /* CB_CONFLICT, CB_QUOTA: where the result was kept */
	uint64_t changed;           /* paths; cb_diff_step() lists them. Of a discarded run: what it would have changed */
	uint64_t left_out;          /* files and folders that no box can have, or that could not be read: note says which and why */
	const cb_conflict *const *conflicts; /* CB_CONFLICT: what both sides changed, conflict_count of them */
	size_t conflict_count;
} cb_exec_result;

/* Starts a program; options are needed. It sees the box's newest state: what was written through open files of the handle that the sandbox
 * was opened with is ended as a step first, as a transaction's begin does (CB_CONFLICT and such are that step's). CB_NOTFOUND and such are
 * about the call: a program that is not there is an end of the run. */
CB_API cb_code cb_exec_start(cb_sandbox *sandbox, const cb_exec_options *options, cb_exec **out, cb_error *err);
/* Becomes readable when cb_exec_pump has something to do: for a loop of the caller's own (an epoll descriptor; lent). */
CB_API int cb_exec_fd(const cb_exec *exec);
/* Does what there is to do without waiting; *done tells that the program ended and its streams are empty. */
CB_API cb_code cb_exec_pump(cb_exec *exec, bool *done, cb_error *err);
/* To the program (and its process group when it has a terminal): SIGINT, SIGTERM ...; SIGKILL ends everything. */
CB_API cb_code cb_exec_kill(cb_exec *exec, int signal, cb_error *err);
/* Does what the clock asks for, and nothing else: a stream() that waits calls it now and then, so that the time-out holds meanwhile. From
 * any thread. */
CB_API cb_code cb_exec_tick(cb_exec *exec, cb_error *err);
/* The size of its terminal changed. */
CB_API cb_code cb_exec_resize(cb_exec *exec, unsigned short rows, unsigned short columns, cb_error *err);
/* For input that does not come from a descriptor: at most what fits is taken, and *out_taken says how much (needed: the rest is to be
 * given again once cb_exec_fd is readable); size 0, an empty text too, is the end of input. Needs stdin_fd == CB_STDIN_PIPE. */
CB_API cb_code cb_exec_input(cb_exec *exec, const void *bytes, size_t size, size_t *out_taken, cb_error *err);
/* Waits for the end, captures and commits: what commands that run at once did is committed in the order of these calls, not of their ends.
 * cb_box_step of the handle that the sandbox was opened with tells the step. The result is lent until cb_exec_close. CB_CONFLICT, CB_QUOTA
 * (the box may not hold so much): nothing came into the box, and result->fork has what the program did; gc takes it when it is old, as it
 * does with every box that was kept so. CB_DENIED: a rule came while it ran; the changes wait for cb_exec_recover by somebody whom no rule
 * binds (those of a store in memory were dropped). CB_NOSPACE: there is no room for the changes; they wait for cb_exec_recover too,
 * or for cb_exec_drop. CB_TOOBIG (reject_output): the changes were dropped. When reading standard
 * input failed (CB_IO, or what os_error stands for), the program was given the bytes before, and what it did with them is in the box as
 * ever. Once the program has ended *out is written whatever is returned: how it ended and what it said is known. */
CB_API cb_code cb_exec_wait(cb_exec *exec, const cb_exec_result **out, cb_error *err);
/* What the command changed: by path. After cb_exec_wait, also of a discarded run. */
CB_API cb_code cb_exec_changes(cb_exec *exec, cb_change_visit visit, void *context, cb_error *err);
/* A program that still runs is killed, and what it did is dropped. By its own stream() or note(): the call that called them ends with
 * CB_BADHANDLE, and nothing of it stays. Accepts NULL. */
CB_API void cb_exec_close(cb_exec *exec);

/* Captures what programs left in a box (NULL: in all of them) whose caller died, each as a step (result: interrupted), or records that it
 * is lost: the step's result says so (interrupted; lost; left_out and notes). cb_sandbox_open tries it too. Steps are recorded for whom the
 * program ran. What cannot be captured now waits. CB_NOSPACE: there is no room for it; as long as there is less than it needs, nothing is
 * tried. CB_DENIED: rules bind the store's who in a box where something waits. CB_NOTFOUND: no such box. out_steps may be NULL. */
CB_API cb_code cb_exec_recover(cb_store *store, const char *box, uint64_t *out_steps, cb_error *err);
/* The other way out: what waits in that box is thrown away, and its room on the disk is free again. Each is recorded as a step that says so
 * (result: lost). What runs is left alone. CB_DENIED, CB_NOTFOUND as above. out_steps may be NULL. */
CB_API cb_code cb_exec_drop(cb_store *store, const char *box, uint64_t *out_steps, cb_error *err);
/* Removes the folders that were laid out for programs in boxes (all), or in boxes that are gone, where none runs, no sandbox is open and
 * nothing waits to be captured; they are laid out again when needed. A sandbox that needs one waits meanwhile. */
CB_API cb_code cb_work_clean(cb_store *store, bool all, uint64_t *out_removed, cb_error *err);

/* What this machine can do, tried for real. */
typedef struct cb_tier_report {
	size_t struct_size;
	bool works;
	char why[256]; /* when it does not: what failed */
	char fix[256]; /* and what to do */
} cb_tier_report;
/* folder: where a store would be; NULL: the default's. */
CB_API cb_code cb_sandbox_try(const char *folder, cb_tier tier, cb_tier_report *out, cb_error *err);

#ifdef __cplusplus
}
#endif
#endif
