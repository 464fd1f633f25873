/* scans.h: trees built and scanned by the holder's own code, for tests of it. */
#ifndef TESTS_SCANS_H
#define TESTS_SCANS_H

#include "holder/holder.h"

/* Into a user and mount namespace of the test's own, where it is root; skips the test where that is refused. */
void scans_enter(void);

/* Builds in one packet after the other, as small as the ops allow. */
void scans_build(int root, const wire_op *ops, size_t count);
#define SCANS_BUILD(root, ...) \
	scans_build(root, (const wire_op[]){__VA_ARGS__}, sizeof((const wire_op[]){__VA_ARGS__}) / sizeof(wire_op))
/* The op of a file with this text: two ops. */
#define OP_FILE(at, text)                                                                                                  \
	{.type = WIRE_OP_FILE, .path = at, .mode = 0644, .size = sizeof(text) - 1, .mtime_ns = 5000000001, .atime_ns = 1}, \
	{                                                                                                                  \
		.type = WIRE_OP_DATA, .data = {(const uint8_t *)(text), sizeof(text) - 1 }                                 \
	}
#define OP_DIR(at)                                            \
	{                                                     \
		.type = WIRE_OP_DIR, .path = at, .mode = 0755 \
	}

/* A scan as text, one line for each entry but the ends of folders: "d PATH MODE [opaque]", "f PATH MODE 'TEXT'" (the first bytes,
 * read through the descriptor that came), "l PATH -> TARGET", "w PATH", "s PATH KIND", and " NAME=VALUE" for each attribute; "="
 * before a known one. Control bytes are '?'. Checks on the way that the order is right, that each folder ends, and that packets and
 * descriptors are within their bounds. free() it. */
char *scans_text(int changes, bool layered, seen *known, wire_scanned *out);
/* Scans, and compares with text. keep: scan_keep after it. */
void scans_expect(int changes, bool layered, seen *known, bool keep, const char *expected);

/* Every ctime of now is older than two ticks afterwards. */
void scans_tick(void);

#endif
