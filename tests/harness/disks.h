/*
 * disks.h: small real filesystems that fill up, in a mount namespace of the test's own, so that nothing leaks.
 *
 * An ext4 image on a loop device or a tmpfs. Where that cannot be had the test is skipped.
 */
#ifndef TESTS_DISKS_H
#define TESTS_DISKS_H

#include "harness/harness.h"

typedef enum disk_kind {
	DISK_TMPFS,
	DISK_EXT4,         /* without a journal, so that it can be very small */
	DISK_EXT4_JOURNAL, /* 16 MiB at least */
	DISK_EXT2,         /* cannot allocate ahead: fallocate is not supported there */
} disk_kind;

typedef struct disk {
	char mount[4200];
	char folder[4300]; /* for a store */
	char ballast[4300];
	int refiller; /* its process; 0: none */
} disk;

void disk_make(disk *d, disk_kind kind, uint64_t bytes);
void disk_unmount(const disk *d);
/* Bytes that anybody could take. */
uint64_t disk_room(const disk *d);
/* Takes all room but `spare` bytes; gives it back. */
void ballast_load(const disk *d, uint64_t spare);
void ballast_drop(const disk *d);
/* A process that takes every block that becomes free, within a millisecond. Returns when it has taken all there was. */
void refiller_start(disk *d);
/* Ends it; what it took stays taken until the ballast is dropped. */
void refiller_stop(disk *d);

#endif
