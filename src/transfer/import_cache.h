/*
 * import_cache.h: what the last import of a folder to a place saw, so that files that did not change are not read again.
 *
 * Never needed and never trusted further than its sums: a file that is missing, damaged, or of another box or folder means that everything
 * is read. It is read and written front to back in the order of the walk, so it costs no memory. docs/format.md gives the bytes.
 */
#ifndef TRANSFER_IMPORT_CACHE_H
#define TRANSFER_IMPORT_CACHE_H

#include "box/box.h"
#include "host/host.h"

/* A file as it was on the host, and what it became in the box. */
typedef struct cache_entry {
	uint64_t size, dev, ino;
	int64_t mtime_ns, ctime_ns;
	uint64_t box_ino, box_version; /* 0: the version that import gave */
} cache_entry;

typedef struct cache_key {
	const cb_store *store;
	uint64_t box;
	const char *host_path, *to;
} cache_key;

typedef struct cache_reader cache_reader;
/* NULL: there is none that can be used. */
cache_reader *cache_reader_open(const cache_key *key);
void cache_reader_close(cache_reader *r); /* accepts NULL */
/* The entry of that path. Paths must be asked for in the order of a walk. r may be NULL. */
bool cache_reader_find(cache_reader *r, const char *path, cache_entry *out);

typedef struct cache_writer cache_writer;
/* NULL when it cannot be written: an import does without. */
cache_writer *cache_writer_open(const cache_key *key);
/* In the order of the walk. After a failure the writer does nothing and leaves nothing. w may be NULL. */
void cache_writer_add(cache_writer *w, const char *path, const cache_entry *entry);
/* `version` is what entries with box_version 0 have got; w is gone. */
void cache_writer_commit(cache_writer *w, uint64_t version);
void cache_writer_abort(cache_writer *w); /* accepts NULL */

/* May an entry that was looked at at that time be relied on? Not when a change right after would have left the same times. */
bool cache_entry_rests(const host_stat *stat, int64_t looked_ns);

#endif
