/*
 * group.h: a control group (version 2) of the sandbox's own, where the holder's own group was delegated to it with controllers:
 * then the kernel holds memory, processes and processors of all commands together, to the byte. Elsewhere it is not used, and
 * limits.c and watch.c do what they can. Private to the helper.
 *
 *   group_create() before init is made; group_enter(init) before it runs; group_ran_out() when a command was killed;
 *   group_end() last.
 */
#ifndef HOLDER_GROUP_H
#define HOLDER_GROUP_H

#include <sys/types.h>

#include "sandbox/plan.h"

/* What is read to find it; tests have others. */
typedef struct group_sources {
	const char *membership, *mounts; /* /proc/self/cgroup, /proc/self/mountinfo */
} group_sources;
extern const group_sources group_system;

enum { GROUP_MEMORY = 1, GROUP_PIDS = 2, GROUP_CPU = 4 };

/* Makes the group NAME below our own with the bounds of the plan. *out_held: which of them it holds (GROUP_...). *out_path: NULL
 * when there is nothing to be held or nothing can be; free() it after group_end(). No error stands for "not here". */
cb_code group_create(const group_sources *from, const char *name, const plan_limits *limits, char **out_path, unsigned *out_held,
                     cb_error *err);
cb_code group_enter(const char *path, pid_t pid, cb_error *err);
/* Was something in it killed for memory? */
bool group_ran_out(const char *path);
/* Kills all that is in it and removes it. Accepts NULL. */
void group_end(const char *path);

#endif
