/* tree_text.h: a folder of a box and a folder of the host as the same text, so that two trees are equal when these are. */
#ifndef TESTS_TREE_TEXT_H
#define TESTS_TREE_TEXT_H

#include <cowbox/cowbox.h>

#include "harness/harness.h"

enum {
	TREE_NO_TIMES = 1,     /* no modification times */
	TREE_NO_DIR_TIMES = 2, /* none of folders */
	TREE_NO_LINKS = 4,     /* not which names are one file */
	TREE_NO_ROOT = 8,      /* not the folder itself */
	TREE_NO_XATTRS = 16,
};
/* One line per entry, by path: path, type, mode, time, size, hash of the content, target, user.* attributes, the first of its names. Lives
 * to the end of the test. */
char *tree_of_box(cb_box *b, const char *path, unsigned flags);
char *tree_of_host(const char *folder, unsigned flags);
/* Fails with the first line that differs. */
void check_same_tree(const char *a, const char *b);

/* Runs a command of the shell, which must succeed; arguments as in printf. */
void must_run(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
