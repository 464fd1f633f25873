/*
 * holder.h: the helper cowbox-box: one small static program in three lives.
 *
 *   hold    the holder: a user namespace of its own (A), outside the pid namespace, one thread. Holds the lock on the slot, the folders,
 *           the mounts; builds, scans, seals, removes; watches the caller by pidfd; kills and reaps; then ends, which frees the lock. It
 *           has no store and no secret.
 *   init    PID 1 of the sandbox, executed afresh from a read-only mount, non-dumpable, in a user namespace nested in A (B). Holds
 *           nothing but its socket to the holder, on which RUN, SIGNAL, STARTED and EXITED of wire.h travel, relayed by the holder.
 *   reaper  PID 1 of a pid and mount namespace for one command, which is PID 2: mounts /proc, reaps, passes signals, watches memory.
 *           When the command ends, it ends, and the kernel ends everything else.
 *
 * Adversary: the command and everything it starts, which is all that runs in B below init; and whatever it left in the folders.
 *
 * Every process of the helper is single-threaded and ends by _exit; nothing is inherited by the command but 0, 1 and 2.
 */
#ifndef HOLDER_HOLDER_H
#define HOLDER_HOLDER_H

#include "sandbox/plan.h"
#include "sandbox/wire.h"

enum { HOLDER_SOCKET_FD = 3, HOLDER_CALLER_FD = 4, HOLDER_LOCK_FD = 5, HOLDER_AREA_FD = 6 };

/* ---- slot.c: the folders of a slot, mounted ---- */

typedef struct slot {
	wire_mode mode;
	char name[LIMIT_NAME_BYTES + 1];
	int area;    /* lent: the folder of layers, which is also the working folder */
	int folder;  /* area/NAME */
	int root;    /* what the box will see as "/": the merged mount, or tree */
	int changes; /* what is scanned: upper, or tree */
	int cache;   /* area/NAME/cache; -1 until it is asked for */
	bool mounted;
	struct seen *seen;
} slot;
#define SLOT_NONE ((slot){.area = -1, .folder = -1, .root = -1, .changes = -1, .cache = -1})
/* Makes or takes the folders and mounts them on NAME/mnt (STACK, THROWAWAY; mount(2) with names relative to the working folder, so
 * that a 6.1 kernel can do it and mountinfo names no store), with a fresh work folder. The system names of the root are made by
 * holder/apply.c. CB_UNSUPPORTED: overlayfs refuses. In the holder's own user and mount namespace. */
cb_code slot_open(slot *s, int area, const wire_work *work, cb_error *err);
/* Unmounts (nobody is inside), remembers what is known of the tree in NAME/seen, closes. THROWAWAY removes its upper. */
cb_code slot_close(slot *s, cb_error *err);
cb_code slot_seal(slot *s, const char *layer, cb_error *err); /* then as closed */
cb_code slot_wipe(slot *s, cb_error *err);                    /* then as closed */
/* A folder of the area, whole, whatever its modes: 000 files, 0555 folders, overlay's work/work. */
cb_code area_remove(int area, const char *name, cb_error *err);

/* ---- build.c ---- */

typedef struct builder {
	int root; /* lent */
	int file; /* being written; -1 */
	struct builder_state *state;
} builder;
void builder_init(builder *b, int root);
/* The ops of one BUILD packet. Every path is resolved beneath root without following a link. The clock of ctime is not ours: what
 * was built within a tick is not known (seen.h). */
cb_code builder_feed(builder *b, span ops, cb_error *err);
/* The last file is closed; everything has its times. Also to be called after an error, to free what it holds. */
cb_code builder_end(builder *b, cb_error *err);

/* ---- scan.c, seen.c ---- */

/* What the tree held at the last look: (path, ino, ctime, size, mode, mtime) of every entry whose ctime was then older than two
 * clock ticks. */
typedef struct seen seen;
cb_code seen_create(seen **out, cb_error *err);
void seen_destroy(seen *s);                            /* accepts NULL */
cb_code seen_load(seen *s, int folder, cb_error *err); /* NAME/seen; damaged or not there: empty */
cb_code seen_save(const seen *s, int folder, cb_error *err);

typedef struct scanner {
	int changes;  /* lent */
	bool layered; /* whiteouts and opaque folders mean something */
	seen *known;
	/* Sends one packet of entries; waits for MORE when WIRE_WINDOW are on the way. */
	cb_code (*send)(void *context, span body, const int *fds, size_t fd_count, cb_error *err);
	void *context;
} scanner;
/* The whole tree but for the system names of its root. What it saw is kept in known's next look, which scan_keep makes the last one. */
cb_code scan_run(scanner *s, wire_scanned *out, cb_error *err);
void scan_keep(scanner *s);
/* scan_run and scan_keep without sending: for a tree of which the caller knows everything, as after a build onto a state that was
 * captured. What is younger than two ticks stays unknown. */
cb_code scan_look(scanner *s, cb_error *err);

/* ---- enter.c: into namespaces; apply.c: the root of the sandbox; etc.c ---- */

/* The holder's own: as root becomes uid; user namespace A with that uid as 0, a private mount namespace, cwd kept. weak: nothing. */
cb_code enter_holder(uid_t uid, bool weak, cb_error *err);

typedef struct sandbox {
	pid_t init;             /* 0: none */
	int init_pidfd, socket; /* to init; -1 */
	bool weak;
	plan_limits limits;
	char *group; /* cgroup of its own; NULL: none */
} sandbox;
#define SANDBOX_NONE ((sandbox){.init_pidfd = -1, .socket = -1})
/* Makes init: namespaces of the plan, root as planned (apply.c), nested user namespace B, then `cowbox-box init` from a
 * read-only mount of this executable. */
cb_code sandbox_enter(sandbox *s, const plan *p, slot *on, const int *fds, size_t fd_count, cb_error *err);
/* Kills init and with it everything, waits until all is dead (bounded by LIMIT_HOLDER_END_MS for a process in D state, CB_BUSY then). */
cb_code sandbox_end(sandbox *s, cb_error *err);
/* apply.c: the only caller of mount(2) but slot.c, reaper.c and enter.c. In init's new mount namespace, before pivot_root. */
cb_code plan_apply(const plan *p, const slot *on, const int *fds, size_t fd_count, cb_error *err);
/* etc.c: the folder of the area for a PLAN_ETC: the host's listed files, or all of another root's, and the synthesised ones; made
 * anew when the sources changed. *out_name: free() it. */
cb_code etc_prepare(int area, const plan *p, const plan_op *op, char **out_name, cb_error *err);

/* ---- init.c; what it starts: command.h ---- */

/* Does not return. plan_fd holds the plan (memfd or pipe), socket speaks RUN, SIGNAL / STARTED, EXITED, FAIL. */
_Noreturn void init_main(int socket, int plan_fd);

/* ---- watch.c: bounds that the kernel does not hold for us ---- */

/* In the holder, when a command begins: what is there by now does not count. Walks what changed when disk or files are bounded. */
cb_code watch_begin(const slot *s, const plan_limits *limits, cb_error *err);
/* From its loop, every LIMIT_WATCH_MS while the command runs: bytes and files more below changes, free space of the filesystem, free
 * memory of the host. *reason: which bound was passed ("disk: ...", "files: ...", "memory: ..."), else "". Adaptive: a walk takes at
 * most a tenth of the time. */
cb_code watch_disk(const slot *s, const plan_limits *limits, char reason[128], cb_error *err);

#endif
