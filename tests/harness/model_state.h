/*
 * model_state.h: one state of a box as plain memory, for tests that compare boxes by path.
 *
 * Entries are sorted by path. A key-value is an entry too: its path is "key NAME" and its type 0. Nothing here uses the library's own
 * structures, so a bug there cannot hide itself. Failures end the test.
 */
#ifndef TESTS_MODEL_STATE_H
#define TESTS_MODEL_STATE_H

#include "harness/boxes.h"

typedef struct model_entry {
	char *path;
	int type; /* cb_type; 0: a key-value */
	uint32_t mode, links;
	uint64_t ino, version;
	char *bytes; /* content, link target or value; followed by a NUL */
	size_t size;
	char *attrs; /* xattrs, tags, metadata as lines of text; "" when none */
	int64_t mtime_ns;
} model_entry;

typedef struct model_state {
	model_entry *entries;
	size_t count, capacity;
} model_state;

void *model_alloc(size_t size);
char *model_strdup(const char *text);

model_state *model_read(cb_box *b);
model_state *model_copy(const model_state *s);
void model_free(model_state *s); /* accepts NULL */

/* NULL: not there. */
model_entry *model_find(const model_state *s, const char *path);
/* A new entry, or the one that is there with everything but its path replaced. bytes are copied. */
model_entry *model_put(model_state *s, const char *path, int type, uint32_t mode, uint64_t ino, const void *bytes, size_t size);
void model_remove(model_state *s, const char *path);
/* Is path the folder itself or below it? */
bool model_within(const char *path, const char *folder);
bool model_has_below(const model_state *s, const char *folder);
/* The entry and, for a folder, all below it; the place must be free. */
void model_move(model_state *s, const char *from, const char *to);

/* Type, mode, bytes and attributes; links, inodes, versions and times are left out. */
bool model_entry_same(const model_entry *a, const model_entry *b);
bool model_same(const model_state *a, const model_state *b);
/* What differs, as lines. free() it. */
char *model_explain(const model_state *a, const model_state *b);
void model_must_equal(const model_state *expected, const model_state *actual, const char *file, int line, const char *what);
#define CHECK_MODEL(expected, actual, what) model_must_equal(expected, actual, __FILE__, __LINE__, what)

/* The last operations of a random test, to be told when it fails; with COWBOX_TRACE set, each is printed at once. */
typedef struct model_trace {
	char lines[64][200];
	unsigned count;
} model_trace;
void model_note(model_trace *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints them, oldest first. */
void model_tell(const model_trace *t);

#endif
