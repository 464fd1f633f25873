/*
 * near_path.h: the path of the folder that was asked for last, with the folders on it: changes come in heaps, and a chain of folders,
 * each a change, is climbed once.
 */
#ifndef BOX_NEAR_PATH_H
#define BOX_NEAR_PATH_H

#include "box/internal.h"

typedef struct near_path {
	buf text;     /* "/a/b" */
	buf folders;  /* folder_end, from the first below the root on */
	pmap numbers; /* inode, big-endian -> index in folders, in host order */
} near_path;

#define NEAR_PATH_INIT(max)                                          \
	{                                                            \
		.text = BUF_INIT(max), .folders = BUF_INIT(SIZE_MAX) \
	}

/* Appends it, nothing for the root. v: always the same. */
cb_code near_path_of(near_path *near, const tree_view *v, uint64_t folder, buf *out, cb_error *err);
void near_path_done(near_path *near);

#endif
