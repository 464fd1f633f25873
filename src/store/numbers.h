/*
 * numbers.h: how far numbers may have been given out, in the file `numbers`.
 *
 * A power cut may take back commits whose numbers somebody has seen (a version, a state in a cache, the stamp of a folder). A number must
 * never mean two things; so before one is given out a whole range is reserved here and flushed, and the first to open the store after a
 * boot goes on behind what was reserved. 64 bytes in place, which a disk writes whole or not at all.
 *
 * Functions that write are called under the writer lock.
 */
#ifndef STORE_NUMBERS_H
#define STORE_NUMBERS_H

#include "base/io.h"
#include "store/store.h"

/* One past what may have been given out, by counter. False: there is no such file, or it is damaged; then out is all zeros. */
bool numbers_read(const io_folder *in, uint64_t out[STORE_EPOCH]);
/* Were any given out? Then the store was made, and a database without tables is what is left of it. */
bool numbers_given(const io_folder *in);
/* Returns once they survive a power cut. Makes the file when it is missing; its name is flushed too. */
cb_code numbers_write(const io_folder *in, const uint64_t reserved[STORE_EPOCH], cb_error *err);
/* Where it is not known how far they were given out (the file is lost, an older program used the store, a backup is older than the store it
 * is of): far behind what is known. */
void numbers_skip(const uint64_t known[STORE_EPOCH], uint64_t out_reserved[STORE_EPOCH]);

#endif
