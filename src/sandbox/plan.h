/*
 * plan.h: policy -> plan -> apply. A policy is what the user asked for; plan_build() is pure and turns it into a list of what will be done,
 * which --dry-run prints, the wire carries and holder/apply.c does, in order. Not in the plan is what is mounted before it (the slot's
 * layers: holder/slot.c) and what each command gets anew (/proc and /dev/shm: holder/reaper.c).
 *
 * The root of the sandbox is the tree itself (the box), on which the system's folders are mounted. What must be there to be mounted
 * on (usr, etc, proc, dev, run, var, and the links bin, sbin, lib...) the holder makes in the tree; capture leaves these names of
 * the root out.
 */
#ifndef SANDBOX_PLAN_H
#define SANDBOX_PLAN_H

#include <sys/types.h>

#include "base/buf.h"
#include "base/limits.h"

typedef enum sandbox_net { SANDBOX_NET_NONE, SANDBOX_NET_HOST } sandbox_net;

typedef struct sandbox_bind {
	const char *from, *to; /* absolute; from is not looked at here */
	bool writable;
	bool is_file;
	int fd_index; /* which of ENTER's descriptors is a detached mount of it; -1: none, bind the path */
} sandbox_bind;

/* Facts of the host that a plan depends on; found out by plan_host_look(). */
typedef struct plan_host {
	bool merged_usr;      /* bin, sbin, lib* are links into usr; link targets below */
	char links[8][2][32]; /* name, target: "bin" -> "usr/bin" */
	char folders[8][32];  /* where they are not: names to bind */
	size_t link_count, folder_count;
} plan_host;
/* root: "/" or the folder of --root. */
cb_code plan_host_look(const char *root, plan_host *out, cb_error *err);

typedef struct sandbox_policy {
	bool weak;
	sandbox_net net;
	const sandbox_bind *binds;
	size_t bind_count;
	const char *root; /* system folders from here; NULL: "/" */
	const char *path; /* only this subtree; NULL: all */
	uid_t uid, gid;   /* shown inside: 1000 */
	uint64_t memory_bytes;
	uint32_t cpus_milli, pids;
	uint64_t disk_bytes, files;
	/* Walls taken away, one bit each (plan_wall), for the tests that show that each holds. 0 in every build but the tests' own:
	 * plan_build refuses others unless the library was compiled with COWBOX_TEST_WALLS. */
	uint64_t walls_down;
} sandbox_policy;

typedef enum plan_wall {
	WALL_SECCOMP = 1 << 0,
	WALL_NET = 1 << 1,       /* network namespace */
	WALL_PID = 1 << 2,       /* the command's own pid namespace and /proc */
	WALL_ROOT = 1 << 3,      /* pivot_root: the host's root stays reachable */
	WALL_READ_ONLY = 1 << 4, /* read-only binds */
	WALL_CAPS = 1 << 5,      /* capabilities dropped, no_new_privs */
	WALL_USERNS = 1 << 6,    /* max_user_namespaces = 0 */
	WALL_FDS = 1 << 7,       /* close_range before exec */
	WALL_EXE = 1 << 8,       /* init's exe on a read-only mount, non-dumpable */
	WALL_LIMITS = 1 << 9,    /* rlimits and the watchdog */
	WALL_ETC = 1 << 10,      /* the host's /etc instead of the listed one */
	WALL_UID = 1 << 11,      /* as root: keep uid 0 */
	WALL_IPC = 1 << 12,
	WALL_PROC_SYS = 1 << 13, /* /proc/sys read-only and the masked files of /proc */
	WALL_STDIO = 1 << 14,    /* the program gets the descriptors it is handed, whatever they are */
} plan_wall;

typedef enum plan_op_type {
	PLAN_DIR = 1, /* to, mode: made in the tree or on a mount made before */
	PLAN_SYMLINK, /* from = target */
	PLAN_BIND,    /* from -> to, recursive; flags */
	PLAN_TMPFS,   /* to, mode, size_bytes */
	PLAN_PROC,
	PLAN_DEV, /* tmpfs with null zero full random urandom tty, shm, pts, ptmx, fd links; size_bytes: of shm */
	PLAN_ETC, /* from = root: the listed files of its /etc ("/"), or all of it, and the synthesised ones, read-only (holder/etc.c) */
	PLAN_CACHE,   /* the slot's cache folder, at to */
	PLAN_SUBTREE, /* only this part of the tree: the root is a tmpfs, `to` is bound from the tree; first when it is there */
} plan_op_type;
enum {
	PLAN_READ_ONLY = 1,
	PLAN_NOEXEC = 2,
	PLAN_NODEV = 4,
	PLAN_NOSUID = 8,
	PLAN_OPTIONAL = 16 /* a missing source is skipped */,
	PLAN_FILE = 32,
	PLAN_DNS = 64 /* PLAN_ETC: names are looked up as the host does */,
};
typedef struct plan_op {
	plan_op_type type;
	const char *from, *to;
	uint32_t flags, mode;
	uint64_t size_bytes;
	int fd_index;
} plan_op;

typedef struct plan_limits {
	uint64_t memory_bytes, disk_bytes, files;
	uint32_t cpus_milli, pids;
	uint64_t open_files; /* RLIMIT_NOFILE */
	uint64_t file_bytes; /* RLIMIT_FSIZE: disk_bytes */
} plan_limits;

typedef struct plan {
	bool weak;
	bool weak_net;       /* weak: internet sockets are left */
	uint64_t namespaces; /* CLONE_NEW... of init */
	uid_t uid, gid;      /* inside */
	const char *hostname;
	plan_op *ops;
	size_t op_count;
	plan_limits limits;
	uint64_t walls_down;
	buf strings; /* what the pointers above point into */
} plan;

/* CB_INVALID: a bind to a place that belongs to the sandbox, a path that is not absolute, too many. plan_done() it. */
cb_code plan_build(const sandbox_policy *policy, const plan_host *host, plan *out, cb_error *err);
void plan_done(plan *p); /* also of a zeroed one */
cb_code plan_print(const plan *p, bool json, buf *out, cb_error *err);
cb_code plan_put(buf *to, const plan *p, cb_error *err);
cb_code plan_get(span body, plan *out, cb_error *err); /* hostile bytes are CB_CORRUPT; fuzz_plan */

/* Does the sandbox own this name at the root? The same list as box/gate.c's. */
bool plan_is_system_name(const char *name, size_t size);
const char *plan_system_name(size_t index); /* of that list; NULL past its end */
/* Is it that folder, or something in it? Both absolute and clean. */
bool plan_path_within(const char *path, const char *folder);

#endif
