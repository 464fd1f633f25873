/*
 * powercut.h: what a disk may hold after the power went, from the system calls that processes really made.
 *
 * Calls on files below one folder, the *disk*, are recorded by functions that stand in place of libc's (powercut_calls.h, included by one
 * .c of a test program): writes with their bytes, changes of size, names, flushes, by any number of threads and forked processes, into one
 * log in shared memory. The program notes acknowledgements in the same log. Afterwards a *model* goes through the log up to any point and
 * makes images of the disk as a cut there could leave it:
 *
 * - A flush (fsync, fdatasync) keeps what was written to that file before the flush began, and of a folder its names. Nothing else is kept.
 * - Of each unit (a sector of 512 bytes, or a block of 4 KiB) that was written since, some prefix of the writes to it is there, none or
 *   all included, each unit for itself. Sizes likewise. So any block may be newer or older than any other.
 * - Of each name changed since, some prefix of its changes is there. A file may be without its name for ever, however often it was flushed
 *   itself. A rename is there whole or not.
 *
 * Files that are mapped and worth nothing after a boot (`locks`, `live`, `*-shm`) are left out; of `live` there is what it began with at
 * the last flush, or nothing.
 */
#ifndef TESTS_POWERCUT_H
#define TESTS_POWERCUT_H

#include "harness/harness.h"

typedef struct power_log power_log;

/* `disk` is a folder; what it holds already is on disk. live_file: below it, may be NULL. Destroyed with power_log_destroy. */
power_log *power_log_create(const char *disk, const char *live_file);
void power_log_destroy(power_log *l);
/* From now on this process and those it forks record into l (NULL: no longer). */
void power_log_use(power_log *l);
/* Sleeps now and then in writes, flushes and after a mutex was given up, to bring threads out of step. */
void power_log_shake(power_log *l, uint64_t seed);

/* Something was acknowledged: bytes of the test's own. */
void power_note(power_log *l, const void *bytes, size_t size);
/* How many entries there are; entries are numbered from 0. */
uint64_t power_count(power_log *l);

typedef struct power_model power_model;
power_model *power_model_create(const power_log *l);
void power_model_destroy(power_model *m);
typedef void (*power_visit)(void *context, uint64_t entry, const void *bytes, size_t size);
/* Goes on to the state in which `entries` of the log have happened, visiting notes on the way. */
void power_model_advance(power_model *m, uint64_t entries, power_visit visit, void *context);
/* Makes the folder `to`, as a cut now could leave the disk. */
void power_image(const power_model *m, test_rng *rng, const char *to);

/* ---- for powercut_calls.h ---- */

/* Takes the lock when the file is followed, and gives its number; else 0, without the lock. */
uint32_t power_file_take(int fd);
/* The same for the folder of a path, and its last part; 0 also for names that are left out. */
uint32_t power_folder_take(int at, const char *path, const char **out_name);
void power_lock(void);
void power_unlock(void);
/* With the lock: */
uint32_t power_file_of(int fd);
uint32_t power_folder_of(int at, const char *path, const char **out_name);
void power_saw_new(uint32_t folder, const char *name, int at, const char *path, bool is_folder);
void power_saw_removed(uint32_t folder, const char *name);
void power_saw_renamed(uint32_t folder, const char *name, uint32_t folder_to, const char *name_to);
void power_saw_write(uint32_t file, uint64_t offset, const void *bytes, size_t size);
void power_saw_zeros(uint32_t file, uint64_t offset, uint64_t size);
void power_saw_size(uint32_t file, uint64_t size);
uint64_t power_flush_begins(void);
void power_saw_flush(uint32_t file, uint64_t began);
/* Without it; longer for large writes, rare for locks. */
typedef enum power_pause_kind { PAUSE_WRITE, PAUSE_FLUSH, PAUSE_UNLOCK } power_pause_kind;
void power_pause(power_pause_kind kind, size_t size);

#endif
