/*
 * filter.h: which system calls a program in a box may make. One reviewed table (filter_table.c) with a verdict for every number
 * this kernel generation knows, by machine; what is not in it (newer calls, foreign ABIs, x32) is ENOSYS, so nothing widens when
 * headers grow.
 *
 * Refused for their arguments: clone with a namespace flag, unshare, setns; clone3 whole (ENOSYS: libc falls back to clone); socket
 * and socketpair of families that are not listed; ioctl TIOCSTI, TIOCLINUX, TIOCSETD by the low 32 bits; modes with setuid or
 * setgid bits in chmod, open(O_CREAT), mkdir, mknod; mknod of devices; personality other than what programs really use; ptrace is
 * allowed.
 *
 * filter_build() is pure: it gives a BPF program as a balanced search tree over the numbers (the kernel's cost to install a filter
 * grows with its length). Tests interpret it over all numbers and argument patterns.
 */
#ifndef SANDBOX_FILTER_H
#define SANDBOX_FILTER_H

#include <linux/filter.h>

#include "base/err.h"
#include "base/span.h"

typedef enum filter_kind {
	FILTER_COMMAND, /* what programs in a box may do */
	FILTER_WEAK,    /* the same, without AF_UNIX, and with --net none without any socket */
	FILTER_WEAK_NET,
	FILTER_PINNED = 8, /* or'ed to one of those: sched_setaffinity is refused, where affinity holds a bound of processors */
} filter_kind;

enum { FILTER_MAX = 1024 };
typedef struct filter_program {
	struct sock_filter code[FILTER_MAX];
	unsigned short size;
} filter_program;
/* CB_UNSUPPORTED on a machine without a table. */
cb_code filter_build(filter_kind kind, filter_program *out, cb_error *err);
/* no_new_privs must be set. */
cb_code filter_install(const filter_program *p, cb_error *err);

/* For tests and for --dry-run: what the table says of a call by name ("allow", "EPERM", "ENOSYS", "by arguments"); NULL: not in it.
 */
const char *filter_verdict(const char *name);
/* The rows of the table. */
typedef struct filter_row {
	int number; /* on this machine; -1: it has no such call */
	const char *name;
	const char *verdict;
} filter_row;
size_t filter_row_count(void);
filter_row filter_row_get(size_t index); /* strings are static */

#endif
