/*
 * transfer.h: between a box and the host: folders, tar streams, packs, and the way back (apply).
 *
 * Whatever comes from outside is taken as hostile: no symbolic link of the host is followed below the folder that was named, nothing
 * outside it is read or written, streams are bounded and checked. Devices, FIFOs and sockets are left out, setuid and setgid bits are
 * dropped, and both are said through `note`.
 *
 * The folder of the open store may lie inside a folder of the host, but nothing is brought from it into a box or written into it: below
 * what was named it is left out and said, and where it was named itself, or something in it, the call is CB_INVALID.
 */
#ifndef COWBOX_TRANSFER_H
#define COWBOX_TRANSFER_H

#include <cowbox/files.h>
#include <cowbox/history.h>
#include <cowbox/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How far a long transfer is. */
typedef struct cb_progress {
	size_t struct_size;
	const char *path; /* what it is at */
	uint64_t files, bytes;
	uint64_t total_files, total_bytes; /* 0: not known */
} cb_progress;

/* What every transfer may tell its caller; all may be NULL. */
typedef struct cb_transfer_watch {
	size_t struct_size;
	/* Something was left out or changed on the way: its path and why, in a few words ("left out: a FIFO"). */
	void (*note)(void *context, const char *path, const char *what);
	/* Called now and then, also from the middle of a large file. false ends the transfer with CB_INTERRUPTED. */
	bool (*progress)(void *context, const cb_progress *progress);
	void *context;
} cb_transfer_watch;

/* What was brought over. */
typedef struct cb_transfer_count {
	size_t struct_size;
	uint64_t files, folders, symlinks; /* brought over */
	uint64_t bytes;                    /* of contents */
	uint64_t unchanged;                /* were the same already */
	uint64_t removed;
	/* Met and not brought over, each with a note: special files, other filesystems, the store's own folder, names of the system, hard
	 * links to what is excluded. What is excluded itself is not counted. */
	uint64_t left_out;
	uint64_t seq; /* the step it made in a box; 0: none */
} cb_transfer_count;

/* ---- folders ---- */

/* How a folder is brought in. */
typedef struct cb_import_options {
	size_t struct_size;
	const char *to;             /* NULL: "/work". Parents are made */
	const char *const *exclude; /* patterns as in .gitignore, relative to the folder */
	size_t exclude_count;
	bool gitignore;      /* also leave out what the .gitignore files in the folder name, and .git itself is kept */
	bool remove_missing; /* what is below `to` but not on the host goes */
	bool full;           /* read every file, also those that size, times and inode show to be as at the last import */
	bool link; /* the folder (CB_NOTDIR of a file) becomes the box's own: cb_apply writes there, cb_folder_box finds it */
	const cb_transfer_watch *watch; /* may be NULL */
} cb_import_options;

/* A host folder (or one file, then `to` is its path) into a box, as one step of kind "import": modes, times, symbolic and hard links,
 * holes and user.* attributes are kept. Files that did not change since the last import of the same folder to the same place are not
 * read again. A file that changes while it is read is read again; CB_BUSY when it does not rest. The open store's own folder is left out;
 * CB_INVALID when it, or something in it, is to be imported. options and out may be NULL. */
CB_API cb_code cb_import(cb_box *box, const char *host_path, const cb_import_options *options, cb_transfer_count *out,
                         cb_error *err);

/* How files are brought out. */
typedef struct cb_export_options {
	size_t struct_size;
	const char *const *exclude; /* patterns as in .gitignore */
	size_t exclude_count;
	bool overwrite; /* write into a folder that has something in it, over files that exist; nothing is removed */
	bool all;       /* of the whole box: also /home/agent and /tmp */
	bool setid;     /* keep setuid and setgid bits */
	const cb_transfer_watch *watch; /* may be NULL */
} cb_export_options;
/* A folder or file of a box (any state) to the host. The target must not exist or be an empty folder (else CB_EXISTS). Files appear
 * whole: a folder that is not there is filled under a temporary name beside its place and renamed at the end, or nothing is left of it
 * (when its limit ended it, cancel.h, much may be left under the temporary name: the next export beside it takes that away, as after a
 * kill); in one that is, each file is written so, and what was written stays whatever fails after it. Modes, times, links, holes and
 * user.* attributes are kept. No link in host_path's own place is followed, which an earlier export may have put there: a folder is
 * refused (CB_LOOP), a file or link replaces it where overwrite allows. With a '/' at its end it names the folder that the link leads
 * to, and never a file (CB_NOTDIR). CB_INVALID when the target lies in the open store's own folder; below a target that is there that
 * folder is left out. out may be NULL. */
CB_API cb_code cb_export(cb_box *box, const char *path, const char *host_path, const cb_export_options *options,
                         cb_transfer_count *out, cb_error *err);

/* ---- back to the folder it came from ---- */

/* The box's own folder and where it is in the box; cb_free() both. CB_NOTFOUND. Forks have their origin's. */
CB_API cb_code cb_folder_get(cb_box *box, char **out_host_path, char **out_box_path, cb_error *err);
/* The box that was last imported from, or applied to, this folder or the nearest one above it; cb_free() it. CB_NOTFOUND. */
CB_API cb_code cb_folder_box(cb_store *store, const char *host_path, char **out_name, cb_error *err);

/* What becomes, or became, of a path. */
typedef enum cb_apply_status {
	CB_APPLY_WRITE = 1, /* is (or would be) done */
	CB_APPLY_SAME,      /* the host has it already */
	CB_APPLY_HELD,      /* runs on the host by itself (.git/hooks, .envrc, editor tasks, agent settings): only when named */
	CB_APPLY_CHANGED,   /* the host's file changed since it was imported or applied */
} cb_apply_status;

/* One path of a plan. */
typedef struct cb_apply_item {
	size_t struct_size;
	cb_change_kind kind; /* added, deleted, modified, attrs */
	cb_apply_status status;
	cb_type type;
	const char *path;     /* relative to the folder */
	const char *box_path; /* in the box */
	const char *reason;   /* of held and changed; else "" */
	uint32_t mode;
	uint64_t size;
	bool new_executable; /* an executable file that was not there or not executable */
	bool new_symlink;
	const char *target; /* of a symbolic link; else NULL */
	bool leaves;        /* the symbolic link points out of the folder */
} cb_apply_item;
typedef cb_code (*cb_apply_visit)(void *context, const cb_apply_item *item, cb_error *err);

/* What is applied, and how. */
typedef struct cb_apply_options {
	size_t struct_size;
	/* NULL: the box's own. Another folder becomes its own; what is in it must be what the box knows of. CB_LOOP when it is a symbolic
	 * link, unless a '/' follows, or when one leads elsewhere from where the box's own was. */
	const char *folder;
	const char *const *paths; /* in the box or relative to its folder; none: all */
	size_t path_count;
	const char *const *allow; /* held paths to write nevertheless: exact, or a folder */
	size_t allow_count;
	bool force;                     /* also over what changed on the host */
	bool dry_run;                   /* visit, write nothing */
	const cb_transfer_watch *watch; /* may be NULL */
} cb_apply_options;

/* What came of it. */
typedef struct cb_apply_result {
	size_t struct_size;
	uint64_t written, removed, same, held, changed;
	uint64_t seq; /* the record of it in the box's history */
} cb_apply_result;

/* Writes what the box changed since the import or the last apply back to the host. All items are visited (visit may be NULL) before
 * anything is written. CB_CONFLICT (and nothing was written) when one is CB_APPLY_CHANGED and not forced. Killed midway, the same
 * call goes on where it was. CB_NOTHING: the host has it all. What lies in the open store's own folder is no item and is left alone, forced
 * or not, which `note` tells; CB_INVALID when the folder lies there. out may be NULL. */
CB_API cb_code cb_apply(cb_box *box, const cb_apply_options *options, cb_apply_visit visit, void *context, cb_apply_result *out,
                        cb_error *err);

/*
 * ---- streams ----
 *
 * To and from a descriptor of the caller's, also a non-blocking one: then the call waits for it. A reader that went away is CB_IO with
 * EPIPE in os_error, and no signal. A file in the open store's own folder is not written to (CB_INVALID).
 */

/* How a stream is read or written. */
typedef struct cb_tar_options {
	size_t struct_size;
	const char *to; /* import: NULL is "/work" */
	const char *const *exclude;
	size_t exclude_count;
	bool all;                       /* export of the whole box: also /home/agent and /tmp */
	bool setid;                     /* export: keep setuid and setgid bits */
	const cb_transfer_watch *watch; /* may be NULL */
} cb_tar_options;
/* Reads a tar stream (ustar, pax, GNU; plain, gzip is not undone; zstd is) from a descriptor, as one step. Members that would leave
 * `to` are CB_DENIED and nothing is changed. A stream that ends early or is malformed is CB_CORRUPT and nothing is changed. out may
 * be NULL. */
CB_API cb_code cb_tar_import(cb_box *box, int fd, const cb_tar_options *options, cb_transfer_count *out, cb_error *err);
/* Writes a pax tar of a folder or file; names in it are relative to the folder. out may be NULL. */
CB_API cb_code cb_tar_export(cb_box *box, const char *path, int fd, const cb_tar_options *options, cb_transfer_count *out,
                             cb_error *err);

/* What a pack holds. */
typedef struct cb_pack_options {
	size_t struct_size;
	bool no_history;                /* only the state of the handle */
	const cb_transfer_watch *watch; /* may be NULL */
} cb_pack_options;
/* What was packed or unpacked. */
typedef struct cb_pack_info {
	size_t struct_size;
	char name[CB_NAME_MAX + 1];
	uint64_t steps, checkpoints, files, bytes, packed_bytes;
	bool history;
} cb_pack_info;
/* A whole box as one compressed, checksummed stream (docs/format.md): files, attributes, tags, key-values, and with history its steps and
 * checkpoints. A handle on an old state packs up to there; CB_STALE when its box was deleted and gc took
 * the history: no_history packs the state. out may be NULL. */
CB_API cb_code cb_pack(cb_box *box, int fd, const cb_pack_options *options, cb_pack_info *out, cb_error *err);
/* Makes a box of a pack, which is read to its end and not a byte further, in a file too: what follows is the caller's, another pack say.
 * name NULL: the one it was packed under. watch and out may be NULL. Other boxes that its steps name are those of the store it was packed
 * in (cb_step.foreign). A damaged, cut or hostile stream is
 * CB_CORRUPT and leaves no box, one of a box whose files have more bytes than a box may CB_LIMIT. CB_DENIED: rules will lie in it, for the
 * store's who. */
CB_API cb_code cb_unpack(cb_store *store, int fd, const char *name, const cb_transfer_watch *watch, cb_pack_info *out,
                         cb_error *err);

/* The zstd that is linked in: "1.5.4". */
CB_API const char *cb_zstd_version(void);

#ifdef __cplusplus
}
#endif
#endif
