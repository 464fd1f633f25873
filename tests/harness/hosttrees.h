/* hosttrees.h: trees on the host for tests of transfers: made at random, changed at random, written down to be compared. */
#ifndef TESTS_HOSTTREES_H
#define TESTS_HOSTTREES_H

#include "harness/harness.h"

/* Everything below a folder, one line each: path (quoted), type, mode, size, mtime in nanoseconds, link group, target, stretches of data,
 * hash of the content, attributes. Special files are left out. Two trees are alike when these texts are. */
char *host_dump(const char *folder);
/* Fails the test with the first line that differs. */
void host_same(const char *folder_a, const char *folder_b);

typedef struct host_tree {
	const char *folder;
	test_rng rng;
	bool special; /* also FIFOs and sockets */
	bool dull;    /* no odd modes: whoever runs the test must be able to read it all */
} host_tree;
/* n random changes: files made, written, grown, cut, removed, renamed, linked; folders, symlinks, attributes, modes, times. */
void host_tree_change(host_tree *t, unsigned n);

/* sh -c; the status must be 0. */
void host_shell(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* printf into a lent string. */
const char *host_text(const char *format, ...) __attribute__((format(printf, 1, 2)));
void host_write(const char *path, const void *bytes, size_t size);

#endif
