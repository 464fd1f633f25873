/* files.h: the files of a box: by path, and open ones. */
#ifndef COWBOX_FILES_H
#define COWBOX_FILES_H

#include <cowbox/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What an entry of a folder is. */
typedef enum cb_type { CB_FILE = 1, CB_DIR = 2, CB_SYMLINK = 3 } cb_type;

/* What is known of a file, folder or link. */
typedef struct cb_stat_info {
	size_t struct_size;
	uint64_t ino;
	cb_type type;
	uint32_t mode; /* permission bits, 07777 */
	uint32_t links;
	uint64_t size;
	uint64_t version; /* grows with every change of the file, also by restore; 0 inside the transaction that changed it */
	int64_t mtime_ns, ctime_ns, atime_ns;
} cb_stat_info;

enum {
	CB_NOFOLLOW = 1,  /* do not follow a symbolic link in the last component */
	CB_NOREPLACE = 2, /* rename, copy: CB_EXISTS instead of replacing */
	CB_EXCHANGE = 4,  /* rename: swap the two */
	CB_PARENTS = 8,   /* write, mkdir, copy, rename: make missing parent folders; mkdir: an existing folder is fine */
};

#define CB_VERSION_ANY 0             /* no expectation */
#define CB_VERSION_ABSENT UINT64_MAX /* the file must not exist */

/* How a file is written. */
typedef struct cb_write_options {
	size_t struct_size;
	uint32_t mode;             /* for a new file: permission bits, 07777; 0: 0644 */
	uint64_t expected_version; /* CB_VERSION: nothing was changed */
	bool append;
	bool parents;          /* make missing parent folders */
	uint64_t *out_version; /* may be NULL */
} cb_write_options;

/* The whole file; cb_free() it. out_size may be NULL. */
CB_API cb_code cb_read_file(cb_box *box, const char *path, char **out, size_t *out_size, cb_error *err);
/* At most size bytes from offset into a buffer of the caller's (64-byte aligned is fastest); *out_size (needed) is 0 at the end. */
CB_API cb_code cb_read_at(cb_box *box, const char *path, uint64_t offset, void *to, size_t size, size_t *out_size, cb_error *err);
/* Creates or replaces the content (or appends). options may be NULL. */
CB_API cb_code cb_write_file(cb_box *box, const char *path, const void *bytes, size_t size, const cb_write_options *options,
                             cb_error *err);

/* An element of an array: as it is for good. */
typedef struct cb_replacement {
	const char *old_text;
	size_t old_size; /* at least 1 */
	const char *new_text;
	size_t new_size;
} cb_replacement;
/* In how many places each of the replacements must find its old text; all of these are replaced. Neither: exactly one. Both: as expect
 * alone. */
typedef struct cb_edit_options {
	size_t struct_size;
	bool all;                  /* any number, at least one */
	uint64_t expect;           /* exactly so many; 0: not said */
	uint64_t expected_version; /* as in cb_write_options */
} cb_edit_options;
/* Replaces exact text, one replacement after the other, all or nothing, as one step. CB_NOTFOUND: the text is not there;
 * CB_CONFLICT: it is there in another number of places than expected, and *err names the lines; CB_INVALID: the new text is the old
 * one. *out_replaced: places in all. options, out_replaced may be NULL. */
CB_API cb_code cb_edit(cb_box *box, const char *path, const cb_replacement *replacements, size_t count,
                       const cb_edit_options *options, uint64_t *out_replaced, cb_error *err);
/* Cuts the file, or lengthens it with zeros that take no room. */
CB_API cb_code cb_truncate(cb_box *box, const char *path, uint64_t size, cb_error *err);
/* flags: CB_NOFOLLOW. */
CB_API cb_code cb_stat(cb_box *box, const char *path, unsigned flags, cb_stat_info *out, cb_error *err);
/* mode: permission bits, 07777. flags: CB_PARENTS. CB_EXISTS. */
CB_API cb_code cb_mkdir(cb_box *box, const char *path, uint32_t mode, unsigned flags, cb_error *err);
/* An empty folder; CB_NOTEMPTY otherwise. */
CB_API cb_code cb_rmdir(cb_box *box, const char *path, cb_error *err);
/* One name of a file, or a link; CB_ISDIR for a folder. */
CB_API cb_code cb_unlink(cb_box *box, const char *path, cb_error *err);
/* flags: CB_NOREPLACE, CB_EXCHANGE, CB_PARENTS. Replaces as rename(2) does: a file by a file, an empty folder by a folder. */
CB_API cb_code cb_rename(cb_box *box, const char *from, const char *to, unsigned flags, cb_error *err);
/* A further name for a file or link; never for a folder (CB_NOPERM). */
CB_API cb_code cb_link(cb_box *box, const char *from, const char *to, cb_error *err);
/* A symbolic link at path, which says target. */
CB_API cb_code cb_symlink(cb_box *box, const char *target, const char *path, cb_error *err);
/* cb_free() it; out_size may be NULL. */
CB_API cb_code cb_readlink(cb_box *box, const char *path, char **out, size_t *out_size, cb_error *err);
/* Permission bits, 07777. flags: CB_NOFOLLOW. The mode that it has already is no change: no step, no new version or ctime; in a
 * transaction nothing that a commit would see. So with times, attributes, tags and metadata below. */
CB_API cb_code cb_chmod(cb_box *box, const char *path, uint32_t mode, unsigned flags, cb_error *err);
#define CB_TIME_OMIT INT64_MIN
/* flags: CB_NOFOLLOW. CB_TIME_OMIT leaves a time as it is. Times that it has already are no change. */
CB_API cb_code cb_utimens(cb_box *box, const char *path, int64_t atime_ns, int64_t mtime_ns, unsigned flags, cb_error *err);

typedef cb_code (*cb_entry_visit)(void *context, const char *name, const cb_stat_info *info, cb_error *err);
/* In byte order of the names; without "." and "..". */
CB_API cb_code cb_readdir(cb_box *box, const char *path, cb_entry_visit visit, void *context, cb_error *err);
/* Everything below path (itself first), parents before children, by name; path is absolute. Symlinks are not followed. */
typedef cb_code (*cb_walk_visit)(void *context, const char *path, const cb_stat_info *info, cb_error *err);
CB_API cb_code cb_walk(cb_box *box, const char *path, cb_walk_visit visit, void *context, cb_error *err);
/* pattern: "/work/src/" + a pattern of * ? [a-z] {a,b} and double stars for any depth; relative ones start at "/". */
CB_API cb_code cb_glob(cb_box *box, const char *pattern, cb_walk_visit visit, void *context, cb_error *err);
/* A file, link or whole folder, with modes, times, the hard links in it, attributes, tags and metadata; contents are shared. A file
 * that is there becomes what the source is, under all its names, and loses attributes, tags and metadata of its own; an existing folder
 * is CB_EXISTS for a folder, CB_ISDIR for a file or link. flags: CB_NOFOLLOW (of `from`), CB_NOREPLACE, CB_PARENTS. */
CB_API cb_code cb_copy(cb_box *box, const char *from, const char *to, unsigned flags, cb_error *err);
/* A file, link or whole folder. */
CB_API cb_code cb_remove(cb_box *box, const char *path, cb_error *err);

/* Attributes as on a host: any name but "user." alone (CB_INVALID), any bytes. CB_NODATA: there is none of that name. out_size may be
 * NULL; cb_free() *out. flags: CB_NOFOLLOW. To set the value that it has already is no change. */
CB_API cb_code cb_xattr_set(cb_box *box, const char *path, const char *name, const void *value, size_t size, unsigned flags,
                            cb_error *err);
/* cb_free() it; out_size may be NULL. CB_NODATA. */
CB_API cb_code cb_xattr_get(cb_box *box, const char *path, const char *name, unsigned flags, char **out, size_t *out_size,
                            cb_error *err);
/* CB_NODATA. */
CB_API cb_code cb_xattr_remove(cb_box *box, const char *path, const char *name, unsigned flags, cb_error *err);
/* By name. */
CB_API cb_code cb_xattr_list(cb_box *box, const char *path, unsigned flags, cb_name_visit visit, void *context, cb_error *err);

/* Tags (names) and metadata (name = value) on a file or folder. Listing visits tags with value NULL. A tag, or a value, that it has
 * already is no change. */
CB_API cb_code cb_tag_add(cb_box *box, const char *path, const char *tag, cb_error *err);
CB_API cb_code cb_tag_remove(cb_box *box, const char *path, const char *tag, cb_error *err); /* CB_NODATA */
CB_API cb_code cb_tag_list(cb_box *box, const char *path, cb_name_visit visit, void *context, cb_error *err);
/* value NULL removes: CB_NODATA when there is none. */
CB_API cb_code cb_meta_set(cb_box *box, const char *path, const char *name, const void *value, size_t size, cb_error *err);
/* cb_free() it; out_size may be NULL. CB_NODATA. */
CB_API cb_code cb_meta_get(cb_box *box, const char *path, const char *name, char **out, size_t *out_size, cb_error *err);
/* By name. */
CB_API cb_code cb_meta_list(cb_box *box, const char *path, cb_name_visit visit, void *context, cb_error *err);

/* ---- open files ---- */

enum {
	CB_READ = 1,
	CB_WRITE = 2,
	CB_CREATE = 4,
	CB_EXCLUSIVE = 8,
	CB_TRUNCATE = 16,
	CB_APPEND = 32,
	/* CB_NOFOLLOW_OPEN: the last component must not be a symbolic link (CB_LOOP) */
	CB_NOFOLLOW_OPEN = 64,
};

/* A handle stays on its file through renames made anywhere, and after unlink until it is closed; when the file comes back (an undo, a
 * restore of the whole box; that of a path makes new files) it is on that again, and what was written meanwhile lands in it or is
 * reported: see "Open files" in docs/api.md. Writes are
 * seen at once through the same box handle, which sees the rest of the box as it was when they began; they become a step at cb_close,
 * cb_fsync, or when the box is used again a second after the last write, or a second after the first when others have committed
 * meanwhile. A step that cannot be merged then stays with the box until cb_txn_commit, cb_txn_keep or cb_txn_drop on the box has ended
 * it. Until then every change through the box handle is CB_CONFLICT, and, when the second is over, so is every other call that would see
 * the newest state, reads too. Threads that share a file take turns: each read and write goes on where the one
 * before ended. flags as above: CB_READ, CB_WRITE or both; CB_CREATE, CB_TRUNCATE and CB_APPEND need CB_WRITE, CB_EXCLUSIVE needs
 * CB_CREATE (else CB_INVALID). mode: permission bits, 07777, of a file that is made. */
CB_API cb_code cb_open(cb_box *box, const char *path, unsigned flags, uint32_t mode, cb_file **out, cb_error *err);
/* The handle is gone whatever is returned. When its step cannot be committed it stays with the box: commit it with resolutions, keep or
 * drop it (cb_txn_commit and its siblings on the box). CB_STALE: what was written to a file that history took, or that came back with
 * other bytes, is in no state. Accepts NULL. */
CB_API cb_code cb_close(cb_file *file, cb_error *err);
/* out_size is needed: 0 at the end. */
CB_API cb_code cb_read(cb_file *file, void *to, size_t size, size_t *out_size, cb_error *err);
CB_API cb_code cb_write(cb_file *file, const void *bytes, size_t size, cb_error *err); /* all of it or an error */
CB_API cb_code cb_pread(cb_file *file, void *to, size_t size, uint64_t offset, size_t *out_size, cb_error *err);
/* At an offset; the position stays. All of it or an error. */
CB_API cb_code cb_pwrite(cb_file *file, const void *bytes, size_t size, uint64_t offset, cb_error *err);
/* What cb_seek counts from; CB_SEEK_DATA and CB_SEEK_HOLE: the next data or hole at or after the offset, the end being a hole;
 * CB_NOTFOUND from the end on, and where no data follows. */
typedef enum cb_whence { CB_SEEK_SET, CB_SEEK_CUR, CB_SEEK_END, CB_SEEK_DATA, CB_SEEK_HOLE } cb_whence;
/* out_position may be NULL. */
CB_API cb_code cb_seek(cb_file *file, int64_t offset, cb_whence whence, uint64_t *out_position, cb_error *err);
/* As cb_truncate. */
CB_API cb_code cb_ftruncate(cb_file *file, uint64_t size, cb_error *err);
/* As cb_stat, also of a file that was removed. */
CB_API cb_code cb_fstat(cb_file *file, cb_stat_info *out, cb_error *err);
CB_API cb_code cb_fsync(cb_file *file, cb_error *err); /* ends the step and flushes it to disk; CB_STALE as cb_close */

#ifdef __cplusplus
}
#endif
#endif
