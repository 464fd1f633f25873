/*
 * host.h: folders of the host, by descriptor: the one module that walks, reads and writes them, for import, export, apply, and later for
 * materialise and capture.
 *
 * Adversary: whoever owns the folder may change it at any moment: swap a folder for a symbolic link, a file for a FIFO, rename what
 * is being walked. So every call takes the descriptor of an open folder and ONE name in it (never a path with '/', never "." or
 * ".."), and no call follows a symbolic link: what is opened is in that folder or the call fails. Files are opened without blocking
 * and looked at (fstat) before a byte is read. A tree may be deeper than there are descriptors and longer than PATH_MAX: nothing
 * recurses, few descriptors are open at once, and memory is bounded by limits.h.
 *
 * Only host_root_open, host_target_open and host_path_real follow links, in the path the user typed.
 *
 * Errors of the host keep their meaning: ENOENT is CB_NOTFOUND, EEXIST CB_EXISTS, ENOTDIR CB_NOTDIR, EISDIR CB_ISDIR, ENOTEMPTY
 * CB_NOTEMPTY, ELOOP CB_LOOP, EACCES and EPERM CB_DENIED, ENOSPC CB_NOSPACE, EXDEV and EOPNOTSUPP CB_UNSUPPORTED, the rest CB_IO. A
 * thing that is not what it was a moment ago is CB_BUSY. Messages name the last component; callers wrap them with the path.
 */
#ifndef HOST_HOST_H
#define HOST_HOST_H

#include "base/buf.h"
#include "base/limits.h"
#include "base/temporary.h"

typedef enum host_type { HOST_FILE = 1, HOST_DIR, HOST_SYMLINK, HOST_FIFO, HOST_SOCKET, HOST_DEVICE } host_type;

typedef struct host_stat {
	host_type type;
	uint32_t mode; /* 07777 */
	uint64_t dev, ino, links;
	uint64_t device; /* of a device file: its number */
	uint64_t size;
	uint64_t allocated_bytes; /* less than size: there may be holes */
	int64_t mtime_ns, ctime_ns, atime_ns;
} host_stat;

/* "a FIFO", "a socket", "a device", "a folder", ... */
const char *host_type_name(host_type type);
/* The same entry in the same condition: everything but the access time. */
bool host_stat_same(const host_stat *a, const host_stat *b);

/* ---- roots ---- */

typedef struct host_root {
	int fd; /* the folder */
	host_stat stat;
} host_root;

/* The folder that was named; links in this path are followed. CB_NOTFOUND, CB_NOTDIR. host_root_done() it. */
cb_code host_root_open(const char *path, host_root *out, cb_error *err);
/* The same of a folder to write into: a link in its own place may be one that an earlier copy out of a box put there. It is CB_LOOP, unless
 * the path ends with '/': then it is the folder that is meant, whatever leads to it. */
cb_code host_target_open(const char *path, host_root *out, cb_error *err);
void host_root_done(host_root *root); /* also of one that was never opened: fd -1 */
/* The absolute path without links that names an existing thing. *out: free() it. */
cb_code host_path_real(const char *path, char **out, cb_error *err);
/* A path taken apart into the folder that holds its last component (opened; it must exist) and that component's name (free() it): for a
 * thing that may not be there yet. CB_INVALID for a path without a last component ("/", "..", ""). */
cb_code host_path_parent(const char *path, host_root *out_parent, char **out_name, cb_error *err);

/* Test use: behave as on a kernel without openat2. */
void host_force_openat(bool on);

/* ---- one name in an open folder ---- */

/* CB_INVALID unless it is one name: not empty, no '/', not "." or "..", at most LIMIT_NAME_BYTES. Every call below checks it. */
cb_code host_name_check(const char *name, cb_error *err);

cb_code host_stat_fd(int fd, host_stat *out, cb_error *err);
cb_code host_stat_at(int dir, const char *name, host_stat *out, cb_error *err); /* of a link: the link. CB_NOTFOUND */

enum {
	HOST_XDEV = 1, /* host_dir_open, host_parent_open: another filesystem may be entered; otherwise that is CB_UNSUPPORTED */
	HOST_MAKE = 2, /* host_dir_open, host_parent_open: missing folders are made, mode 0755 less the umask */
};
/* A folder. A symbolic link is CB_LOOP, anything else CB_NOTDIR. *out_fd: close() it. out_stat may be NULL. */
cb_code host_dir_open(int dir, const char *name, unsigned flags, int *out_fd, host_stat *out_stat, cb_error *err);
/* The folder that holds the last component of a relative path of any length ("a/b/c": the folder a/b; *out_name points to "c" in path),
 * each component opened by the rules above. */
cb_code host_parent_open(int root, const char *path, unsigned flags, int *out_fd, const char **out_name, cb_error *err);

/* A regular file for reading; it is what *out_stat says. A link is CB_LOOP, a folder CB_ISDIR, a special file CB_INVALID. */
cb_code host_file_open(int dir, const char *name, int *out_fd, host_stat *out_stat, cb_error *err);
/* The next stretch of data at or after offset: [*out_start, *out_end); both are size when only a hole is left. Where the host does not
 * tell holes, everything is data. */
cb_code host_data_next(int fd, uint64_t offset, uint64_t size, uint64_t *out_start, uint64_t *out_end, cb_error *err);
/* The target of a link, without a NUL; replaces what is in out, which must have room for one byte more than
 * LIMIT_SYMLINK_TARGET_BYTES. CB_INVALID when it is none. */
cb_code host_link_read(int dir, const char *name, buf *out, cb_error *err);

/* Is it an attribute that goes into and out of boxes: user.*, but for those of overlayfs (user.overlay.*)? In a layer these say what is
 * there, and whoever mounts an overlay over a folder is led by them: no file brings them along. */
bool host_xattr_is_ours(span name);
/* user.* attributes, by name. Nothing when the filesystem has none. Names and values are lent. */
typedef cb_code (*host_xattr_visit)(void *context, const char *name, span value, cb_error *err);
cb_code host_xattr_list(int fd, host_xattr_visit visit, void *context, cb_error *err);
/* The same of an entry in an overlay's upper folder: overlayfs's own are left out; what a program set through the overlay under a name of
 * overlayfs, which the kernel escaped, has its own name again. */
cb_code host_xattr_list_upper(int fd, host_xattr_visit visit, void *context, cb_error *err);
/* user.overlay.*: it would mean something in a layer, so no box takes it. */
bool host_xattr_is_overlay(const char *name);
/* CB_UNSUPPORTED, CB_NOSPACE, CB_DENIED as the filesystem says. size 0 and value NULL removes. */
cb_code host_xattr_set(int fd, const char *name, span value, cb_error *err);

/* ---- making and removing ---- */

/* CB_EXISTS whatever is there. */
cb_code host_dir_make(int dir, const char *name, uint32_t mode, cb_error *err);
/* The thing appears whole: replace takes the place of a file or link that is there (a folder: CB_ISDIR), otherwise CB_EXISTS. */
cb_code host_symlink_make(int dir, const char *name, const char *target, bool replace, cb_error *err);
/* Another name for from_dir/from, which must still be (dev, ino): else CB_BUSY, and the wrong name is taken away again. */
cb_code host_link_make(int from_dir, const char *from, const host_stat *expected, int dir, const char *name, bool replace,
                       cb_error *err);
/* Renames without following; without replace CB_EXISTS when the target is there. */
cb_code host_rename(int from_dir, const char *from, int dir, const char *name, bool replace, cb_error *err);
cb_code host_file_remove(int dir, const char *name, cb_error *err); /* a file, link or special file; a folder: CB_ISDIR */
cb_code host_dir_remove(int dir, const char *name, cb_error *err);  /* an empty folder */

/* Of an open thing; HOST_TIME_OMIT leaves a time as it is. */
#define HOST_TIME_OMIT INT64_MIN
cb_code host_mode_set(int fd, uint32_t mode, cb_error *err);
cb_code host_times_set(int fd, int64_t atime_ns, int64_t mtime_ns, cb_error *err);
/* Of a name, a link itself too. */
cb_code host_times_set_at(int dir, const char *name, int64_t atime_ns, int64_t mtime_ns, cb_error *err);

/* A file that appears whole: written under a temporary name beside its place (base/temporary.h), then renamed. What killed processes left
 * goes with temporary_sweep, which whoever writes to a folder calls first.
 *
 *   host_writer w = HOST_WRITER_NONE;                 (ATTR_CLEANUP(host_writer_done): drops what was not committed)
 *   host_writer_begin(&w, dir, err); io_pwrite_all(w.fd, ...); host_mode_set(w.fd, ...); host_writer_commit(&w, name, replace, err);
 */
enum { HOST_TEMPORARY_BYTES = TEMPORARY_BYTES };
typedef struct host_writer {
	unsigned era; /* (entry.h) in which it began: a child of fork() removes nothing */
	int dir;      /* lent */
	int fd;       /* for writing, mode 0600 at first */
	char temporary[HOST_TEMPORARY_BYTES];
	const char *named; /* lent: it has its name from the start */
} host_writer;
#define HOST_WRITER_NONE ((host_writer){.dir = -1, .fd = -1})
cb_code host_writer_begin(host_writer *w, int dir, cb_error *err);
/* Under its own name at once, for a folder that itself has a temporary name still (temporary_folder): that saves a rename for each file.
 * CB_EXISTS. The name is lent until commit. */
cb_code host_writer_begin_as(host_writer *w, int dir, const char *name, cb_error *err);
/* replace false: CB_EXISTS when something is there by now. true: over a file or link, CB_ISDIR over a folder. */
cb_code host_writer_commit(host_writer *w, const char *name, bool replace, cb_error *err);
void host_writer_done(host_writer *w);

/* A folder that appears whole, in the same way: made by temporary_folder, filled, then given its name. CB_EXISTS when something is there by
 * now; an empty folder may be replaced where the filesystem knows no other rename. */
cb_code host_dir_commit(int dir, const char *temporary, const char *name, cb_error *err);

/* ---- a way down and up again, with few descriptors ---- */

/* The folders from a root to here. Only the last few are kept open; going up reopens the others by ".." and checks that they are the
 * same ones (CB_BUSY when somebody moved them). At most LIMIT_HOST_DEPTH (CB_LIMIT). */
typedef struct host_stack host_stack;
cb_code host_stack_create(const host_root *root, host_stack **out, cb_error *err); /* the root is lent, and must outlive it */
void host_stack_destroy(host_stack *s);                                            /* accepts NULL */
int host_stack_fd(const host_stack *s);       /* of the folder where it is; lent until push or pop */
size_t host_stack_depth(const host_stack *s); /* 0: at the root */
cb_code host_stack_push(host_stack *s, const char *name, unsigned flags, host_stat *out_stat, cb_error *err); /* as host_dir_open */
cb_code host_stack_pop(host_stack *s, cb_error *err);

/* ---- walking ---- */

/*
 * Everything below a root, parents before children, by the bytes of the names; nothing is entered by itself.
 *
 *   while ((code = host_walk_next(w, &e, err)) == CB_OK && e.event != HOST_END)
 *       if (e.event == HOST_ENTRY && e.stat.type == HOST_DIR) code = host_walk_enter(w, &e, err);
 *
 * What vanishes between the listing and the look at it is left out. The strings are lent until the next call on w.
 */
typedef enum host_event {
	HOST_ENTRY = 1, /* something in the folder dir */
	HOST_LEAVE, /* all of a folder that was entered has been seen; name, path and stat are the folder's, dir is the folder itself */
	HOST_END, /* the same for the root */
} host_event;

typedef struct host_entry {
	host_event event;
	const char *path; /* relative to the root; "" is the root */
	const char *name;
	size_t depth; /* of path: components in it */
	int dir;      /* lent until the next call */
	host_stat stat;
	bool other_device; /* a folder on another filesystem than the root, as far as stat tells */
} host_entry;

typedef struct host_walk host_walk;
cb_code host_walk_open(const host_root *root, host_walk **out, cb_error *err); /* the root is lent */
void host_walk_close(host_walk *w);                                            /* accepts NULL */
cb_code host_walk_next(host_walk *w, host_entry *out, cb_error *err);
/* Into the folder just given. entry->stat becomes that of what was opened. CB_UNSUPPORTED: another filesystem is mounted there (said
 * only by the kernel for bind mounts of the same one); CB_NOTFOUND: gone; CB_LOOP, CB_NOTDIR: no folder any more. After an error the
 * walk can go on with the next entry. CB_LIMIT: too deep, or a path longer than LIMIT_HOST_PATH_BYTES. */
cb_code host_walk_enter(host_walk *w, host_entry *entry, cb_error *err);

#endif
