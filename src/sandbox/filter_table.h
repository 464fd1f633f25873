/* filter_table.h: the rows of the filter's table, and compiling for a machine other than this one: for filter.c and its tests. */
#ifndef SANDBOX_FILTER_TABLE_H
#define SANDBOX_FILTER_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "sandbox/filter.h"

/* What is asked of a call. Numbers of arguments count from 0. */
typedef enum filter_rule {
	RULE_ENOSYS = 0, /* also of every number that no row names */
	RULE_ALLOW,
	RULE_EPERM,
	RULE_CLONE,       /* flags in 0: no namespace */
	RULE_UNSHARE,     /* the same, and the time namespace, whose bit clone uses for a signal */
	RULE_SOCKET,      /* family, type, protocol */
	RULE_SOCKETPAIR,  /* AF_UNIX */
	RULE_IOCTL,       /* not what types into, takes over or redirects a terminal */
	RULE_PERSONALITY, /* what setarch and debuggers use */
	RULE_MODE_1,      /* a mode in 1: no setuid, no setgid */
	RULE_MODE_2,
	RULE_OPEN,   /* flags in 1; a mode in 2 when they create */
	RULE_OPENAT, /* one further */
	RULE_MKNOD,  /* mode in 1, as above, and no device */
	RULE_MKNODAT,
	RULE_PRCTL,    /* not to hide: programs ask for it against others of their user, and there are none; answered as if done */
	RULE_IPC,      /* FILTER_WEAK shares System V objects and message queues with the host: refused there */
	RULE_PRLIMIT,  /* not of process 1, which watches memory; FILTER_WEAK sees the host's processes: only of itself there */
	RULE_AFFINITY, /* FILTER_PINNED: refused; FILTER_WEAK: only of itself */
	RULE_SELF,     /* FILTER_WEAK: a process in 0 is itself */
	RULE_PRIORITY, /* FILTER_WEAK: what in 0 is a process, in 1 itself */
	RULE_IOPRIO,   /* the same, numbered otherwise */
} filter_rule;

typedef enum filter_machine { FILTER_X86_64, FILTER_AARCH64 } filter_machine;

#define FILTER_NO_NUMBER (-1)
typedef struct filter_call {
	int16_t number[2]; /* by machine; FILTER_NO_NUMBER: it does not have this call */
	const char *name;
	filter_rule rule;
} filter_call;

extern const filter_call filter_calls[];
extern const size_t filter_call_count;

enum { FILTER_NUMBERS = 512 }; /* all numbers of the table are smaller */

cb_code filter_compile(filter_machine machine, filter_kind kind, filter_program *out, cb_error *err);

#endif
