/*
 * segment.h: append-only files for large contents.
 *
 * A handle appends to one segment of its own, claimed by an OFD lock on the file, so appending needs no lock shared by processes. Bytes
 * once flushed and named by a row are never changed. A segment is removed only by whoever holds its claim and then finds no row in it;
 * therefore an appender keeps the claim until the row that names its bytes is committed or given up (segment_unpin).
 *
 * Threads: every function may be called from any thread.
 */
#ifndef STORE_SEGMENT_H
#define STORE_SEGMENT_H

#include "base/io.h"
#include "store/store.h"

typedef struct segments segments;

enum { SEGMENT_ID_BYTES = 16 };

/* In the folder `seg` of the store's, which is made when missing and not read_only. id: the store's, checked in every segment. */
cb_code segments_open(const io_folder *above, const uint8_t id[SEGMENT_ID_BYTES], bool read_only, store_fault_plan *faults,
                      segments **out, cb_error *err);
void segments_close(segments *g); /* accepts NULL; gives up all claims */
/* In the child of a fork: closes descriptors, which leaves the parent's claims alone. Async-signal-safe. */
void segments_forget_fds(segments *g);

/*
 * Appends to the current segment. *need_number is set (and nothing done) when a new file is needed and fresh_number is 0 or in use:
 * get a number and call again. On success the segment is pinned once.
 */
cb_code segment_append(segments *g, span bytes, uint64_t fresh_number, bool *need_number, uint64_t *out_segment,
                       uint64_t *out_offset, cb_error *err);
/* Returns once everything appended so far survives a power cut, in segments retired meanwhile too. On failure the segment is abandoned: no
 * more appends to it. */
cb_code segment_flush(segments *g, cb_error *err);
/* Raised by every failed flush: bytes appended before one may not be there. */
uint64_t segment_failures(segments *g);
void segment_unpin(segments *g, uint64_t segment);
/* Unpins, and takes the bytes of an append back when nobody has appended since: no row will name them. Best effort. */
void segment_take_back(segments *g, uint64_t segment, uint64_t offset, uint64_t size);

/* CB_NOTFOUND: no such file; CB_CORRUPT: not a segment of this store, or too short. */
cb_code segment_read(segments *g, uint64_t segment, uint64_t offset, void *to, size_t size, cb_error *err);

typedef cb_code (*segment_visit)(void *context, uint64_t segment, uint64_t bytes, cb_error *err);
cb_code segment_files(segments *g, segment_visit visit, void *context, cb_error *err); /* by number */

/* Claims a segment nobody appends to (CB_BUSY, CB_NOTFOUND); close(*out_fd) gives it up. */
cb_code segment_claim(segments *g, uint64_t segment, int *out_fd, cb_error *err);
/* With the claim: removes the file. */
cb_code segment_remove(segments *g, uint64_t segment, cb_error *err);
/* With the claim: gives back what lies behind `end`. Best effort. */
void segment_cut(segments *g, uint64_t segment, int claim, uint64_t end);
/* Gives the range's blocks back. Best effort. */
void segment_punch(segments *g, uint64_t segment, uint64_t offset, uint64_t size);
/* The current segment takes no more; the next append begins a new one. What was appended to it is still flushed by segment_flush. */
void segment_retire(segments *g);
cb_code segment_copy(segments *g, uint64_t segment, const char *to_folder, cb_error *err);

#endif
