/*
 * model_ops.h: what a box does with files, done to a model_state.
 *
 * Each operation says whether the box would succeed, and does it then. inos: the last inode number that was given out; the model's numbers
 * are only compared among themselves. No path leads through a symbolic link here.
 */
#ifndef TESTS_MODEL_OPS_H
#define TESTS_MODEL_OPS_H

#include "harness/model_state.h"

/* A cb_type; 0: nothing there. */
int model_type(const model_state *s, const char *path);
/* Is every component before the last a folder? */
bool model_reachable(const model_state *s, const char *path);
bool model_has_links(const model_state *s);
/* Files and bytes as the box counts them: an inode once. */
void model_count(const model_state *s, uint64_t *files, uint64_t *bytes);

bool model_write(model_state *s, const char *path, const char *bytes, size_t size, bool append, uint64_t *inos);
bool model_make(model_state *s, const char *path, int type, const char *target, uint64_t *inos); /* a folder or symbolic link */
bool model_remove_all(model_state *s, const char *path);
bool model_rename(model_state *s, const char *from, const char *to);
bool model_link(model_state *s, const char *from, const char *to);
bool model_chmod(model_state *s, const char *path, uint32_t mode);
/* A copy of `now` with `path` and all below as in `from`; missing parents are made. */
model_state *model_restore(const model_state *now, const model_state *from, const char *path, uint64_t *inos);

#endif
