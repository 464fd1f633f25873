/* import.h: what the files of import share: one import under way. */
#ifndef TRANSFER_IMPORT_H
#define TRANSFER_IMPORT_H

#include <cowbox/cowbox.h>

#include "base/inode_map.h"
#include "box/box.h"
#include "box/pen.h"
#include "host/host.h"
#include "transfer/ignore.h"
#include "transfer/import_cache.h"
#include "transfer/watch.h"

/* A folder that the walk is in. */
typedef struct import_level {
	uint64_t ino;    /* in the box */
	bool fresh;      /* made by this import: nothing is in it but what was put there */
	bool inside_git; /* .git or below: .gitignore files have no say */
	buf names;       /* of what the box had in it, in order, each with its NUL, when that is asked for */
	size_t names_at; /* the first that the walk has not passed */
} import_level;

typedef struct importing {
	unsigned era; /* (entry.h) in which it began */
	cb_box *b;
	pen *e;
	const cb_import_options *options;
	const char *host_path; /* without links */
	const char *to;        /* cleaned */
	bool linked;           /* the folder is the box's own, or becomes it: `only` is collected */
	host_root root;
	host_walk *walk;
	buf levels;
	ignore *ignore;
	cache_reader *known;
	cache_writer *remember;
	inode_map links;   /* (device, inode) of the host -> inode of the box, for files with several links */
	inode_map claimed; /* (0, inode of the box with several links) -> inode of the host that it stands for */
	buf only;          /* box_only rows */
	uint64_t since_progress;
	cb_transfer_count count;
} importing;

/* ---- import_file.c ---- */

/* A file of the host into (parent, name), where `there` is what the box has (NULL: nothing, or nothing that can be kept). *out is
 * what it became, *changed tells whether that differs from before. CB_NOTFOUND: gone; CB_BUSY: does not rest. */
cb_code import_file_content(importing *im, const host_entry *e, uint64_t parent, span name, const box_node *there, box_node *out,
                            host_stat *out_stat, bool *changed, cb_error *err);
/* Mode, times and user.* attributes of a file or folder that is open. Saves the inode when something changed, or always when `fresh`. */
cb_code import_attributes(importing *im, int fd, const host_stat *stat, box_node *node, bool fresh, bool *changed, cb_error *err);

/* ---- import_tree.c ---- */

/* Everything below im->root into the folder `ino`. */
cb_code import_tree(importing *im, uint64_t ino, bool fresh, cb_error *err);
/* One entry that is not a folder. */
cb_code import_leaf(importing *im, const host_entry *e, uint64_t parent, bool fresh, cb_error *err);

/* ---- import.c ---- */

/* The path, or the end of one that would fill a message. */
const char *import_name(const char *path);
/* After work worth `bytes`; CB_INTERRUPTED when the caller says so. */
cb_code import_progress(importing *im, const char *path, uint64_t bytes, cb_error *err);
/* The mode as it goes into the box; says what was dropped. */
uint32_t import_mode(const importing *im, const char *path, const host_stat *stat);

#endif
