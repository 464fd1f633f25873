/*
 * exec.h: what the files of this layer share: a sandbox is a policy and a pool of works; an exec is one command on one of them.
 *
 * Locks: cb_sandbox.lock (the pool) and cb_exec.lock (what cb_exec_kill may touch from any thread) are leaves: nothing is called under
 * them but one send on the holder's socket.
 */
#ifndef EXEC_EXEC_H
#define EXEC_EXEC_H

#include <pthread.h>
#include <stdatomic.h>

#include <cowbox/cowbox.h>

#include "base/clock.h"
#include "sandbox/plan.h"
#include "work/work.h"

enum {
	EXEC_IDLE_MAX = 4,                  /* works that stay ready, each with a process and its mounts */
	EXEC_OUTPUT_BYTES = 1 << 20,        /* kept of a stream by default */
	EXEC_RECORD_BYTES = 64 << 10,       /* of each stream, in the step's result; escaped both fit LIMIT_STEP_FIELD_BYTES */
	EXEC_RECORD_ARGS_BYTES = 128 << 10, /* of argv, in the step's parameters */
	EXEC_PIDS = 4096,
	EXEC_PIECE_BYTES = 64 << 10, /* copied at a time: what a pipe holds */
};
#define EXEC_GRACE_NS INT64_C(2000000000)

/* ---- sandbox.c, mounts.c ---- */

/* As root: a mount that the caller makes, because the holder has not the rights to reach the place. */
typedef struct exec_mount {
	char *from;
	bool writable;
} exec_mount;

struct cb_sandbox {
	_Atomic uint32_t refs; /* the caller's, and one of each cb_exec: they are closed in any order */
	unsigned era;          /* (entry.h) of the process that opened it: a child of fork() has copies that it can only close */
	cb_store *store;
	cb_box *box; /* of our own: for checkpoints, undo, and what is there; it keeps the store */
	cb_box *given; /* the caller's, who may have closed it: its writes under way end before a command begins, and it is told of steps */
	cb_box_info info;
	cb_tier tier;
	bool discard;
	char *path; /* NULL: all of the box */
	char *who;  /* of the handle it was opened by */
	plan plan;
	exec_mount *mounts; /* by the plan's fd_index */
	size_t mount_count;
	pthread_mutex_t lock;
	work *idle[EXEC_IDLE_MAX];
	size_t idle_count;
	bool closed; /* by the caller: what comes back is not kept ready */
};
void sandbox_unref(cb_sandbox *s);
/* In a child of fork() the sockets to holders, the pipes and the epoll sets are shared with the parent, which goes on using them: nothing
 * is sent, read, watched or waited for there. CB_FORKED. */
bool sandbox_is_own(const cb_sandbox *s);
cb_code sandbox_own(const cb_sandbox *s, cb_error *err);
/* A work that nobody uses, or a new one. */
cb_code sandbox_take(cb_sandbox *s, work **out, bool *out_fresh, cb_error *err);
/* broken: its holder is gone. */
void sandbox_give(cb_sandbox *s, work *w, bool broken);

/* fds: mount_count of them; close() them. uid: whom the box is on the host. */
cb_code mounts_make(const cb_sandbox *s, uid_t uid, int *fds, cb_error *err);

/* ---- command.c ---- */

/* The body of RUN; the environment is the sandbox's own with the caller's over it. */
cb_code command_run_body(const cb_exec_options *options, const char *cwd, buf *out, cb_error *err);
/* The step's parameters: argv, cwd, names of the environment. *out: free() it. */
cb_code command_params(const cb_exec_options *options, const char *cwd, char **out, cb_error *err);

/* ---- streams.c ---- */

typedef struct exec_stream {
	int fd; /* ours to read; -1: ended */
	buf kept;
	uint64_t total;
	bool truncated;
} exec_stream;

typedef struct exec_input {
	int source; /* -1: none, or ended */
	int to;     /* the program's end; -1: closed */
	bool piped; /* CB_STDIN_PIPE: cb_exec_input writes, */
	bool pipe;  /* and has not said that this is all */
	int error;  /* errno: reading the source failed, and the program saw the end of its input */
	bool tty;
	bool plain; /* the source is a plain file, which cannot be waited for and never keeps anybody waiting */
	bool wants_room;
	bool source_watched;
	uint32_t watched; /* events of `to` that are waited for */
	size_t at, size;
	uint8_t bytes[EXEC_PIECE_BYTES];
} exec_input;

struct cb_exec {
	cb_sandbox *sandbox;
	unsigned calls; /* under way that call back, one in the other */
	bool closed;    /* by the caller, in such a call: it ends with CB_BADHANDLE, and what is here goes with it */
	work *w;
	bool begun; /* work_begin was called, neither work_end nor work_cancel */

	/* What was asked for. */
	bool tty, reject_output, undo_on_fail, broken; /* broken: its holder is gone */
	bool (*stream)(void *context, cb_stream from, const void *bytes, size_t size);
	void (*note)(void *context, const char *path, const char *what);
	void *context;
	uint64_t output_bytes;
	int64_t grace_ns;
	char *kind, *params;
	size_t params_size; /* or CB_STRING */

	int epoll, timer;
	exec_stream streams[2];
	exec_input input;

	pthread_mutex_t lock; /* guards from here to `exited` */
	bool running;
	int64_t deadline_ns; /* 0: none */
	bool timed_out, ended_hard, killed, stopped;
	bool exited;

	wire_exited end; /* its reason points to reason */
	char reason[256];
	char *result_json;
	cb_exec_result result;
	bool settled;  /* what it changed is in the box, or away */
	bool finished; /* finish_code is known */
	cb_code finish_code;
	cb_error finish_error;
	buf changes; /* of a discarded run: what would have changed, encoded */
	/* What was in conflict: texts, what is told of them, and the list that the result lends. */
	buf conflict_texts;
	cb_conflict *conflict_rows;
	const cb_conflict **conflicts;
};

enum { WATCH_LINK, WATCH_TIMER, WATCH_OUT, WATCH_ERR, WATCH_TO, WATCH_SOURCE }; /* what an event of the epoll set is about */

/* The descriptor that standard input is copied from; -1: none. CB_INVALID, CB_ISDIR: it cannot be read. */
cb_code streams_source(int stdin_fd, int *out, cb_error *err);
/* The three pipes, unless it is a terminal; child: the program's ends, to be closed once they were sent. */
cb_code streams_open(cb_exec *e, const cb_exec_options *options, uid_t uid, int child[3], cb_error *err);
/* Begins to watch. terminal: the master that came with STARTED, taken; -1: none. */
cb_code streams_watch(cb_exec *e, int terminal, cb_error *err);
void streams_close(cb_exec *e);
/* Does what an event asks for. */
cb_code streams_event(cb_exec *e, unsigned watch, uint32_t events, cb_error *err);
/* The program and all that it started are dead: takes what is left in the pipes. */
cb_code streams_drain(cb_exec *e, cb_error *err);
cb_code streams_input(cb_exec *e, const void *bytes, size_t size, size_t *out_taken, cb_error *err);
cb_code streams_resize(const cb_exec *e, unsigned short rows, unsigned short columns, cb_error *err);

/* exec.c: to the command. Takes e->lock. */
cb_code exec_signal(cb_exec *e, int number, bool everybody, cb_error *err);
/* Does what the clock asks for. Any thread. */
cb_code exec_clock(cb_exec *e, cb_error *err);
/* After a function of the caller's: may the call go on? CB_BADHANDLE: it closed the program; CB_FORKED: this is a child that it made. */
cb_code exec_called(const cb_exec *e, cb_error *err);

/* ---- result.c ---- */

/* Fills e->result from how it ended, and makes the step's result. */
cb_code result_fill(cb_exec *e, cb_error *err);

/* ---- changes.c ---- */

cb_code changes_keep(void *context, const cb_change *change, cb_error *err); /* a cb_change_visit; context: buf */
/* A cursor on what was kept, which needs nothing more of it. */
cb_code changes_open(cb_store *store, const buf *kept, cb_cursor **out, cb_error *err);

#endif
