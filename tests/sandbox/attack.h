/*
 * attack.h: what a hostile program in a box tries. One static program, one attack per name, so that it runs in any root.
 *
 *   attack [KEY=VALUE]... NAME...     each prints one line: "HELD NAME: why", "BROKEN NAME: what it got", "UNTRIED NAME: why not"
 *   attack --list | --markdown        the table
 *
 * Files are made in the working folder, which is the box's in every tier. A wall is held when the attack was really made and got
 * nothing. What the attack must know of the host (the place of a canary, a port, a process) comes as KEY=VALUE; the canary's own
 * bytes never do, so that finding them anywhere inside is a leak. An attack that needs privilege to do damage is made harmless where
 * nothing stops it (bad arguments, values written back), and counts as broken when the kernel looked at it instead of refusing the
 * call.
 */
#ifndef TESTS_SANDBOX_ATTACK_H
#define TESTS_SANDBOX_ATTACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum outcome { HELD, UNTRIED, BROKEN } outcome;

enum {
	ALONE = 1,   /* in a command of its own, not in a child of the program */
	TRAP = 2,    /* sets something up (or never ends) for the test to judge from outside */
	OUTSIDE = 4, /* made by the test itself: a row for the list */
	PROOF = 8,   /* walls.t: broken when the wall is down */
	WEAK = 16,   /* --weak does not hold it */
	EITHER = 32, /* --weak: depends on the machine or on who runs it */
	BOUND = 64,  /* wants a limit on the command line */
};

typedef struct attack {
	const char *name, *wall;
	const char *tries, *stops;
	unsigned flags;
	outcome (*run)(void);
} attack;

extern const attack attacks_files[], attacks_process[], attacks_mounts[], attacks_sockets[], attacks_kernel[], attacks_setid[],
	attacks_devices[], attacks_bounds[], attacks_traps[], attacks_outside[]; /* each ends with a NULL name */

outcome held(const char *format, ...) __attribute__((format(printf, 1, 2)));
outcome broken(const char *format, ...) __attribute__((format(printf, 1, 2)));
outcome untried(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Of a call that must be refused before the kernel does anything: EPERM, EACCES and ENOSYS are walls; whatever else it says (or success)
 * means that it was let in. */
outcome refused(const char *what, long result);
/* The worst of both; the first reason of the worse one stays. */
outcome worse(outcome a, outcome b);

const char *param(const char *key); /* NULL: not given */
uint64_t param_number(const char *key, uint64_t otherwise);
/* The first bytes of every canary; not to be found in this program's own file. */
const char *canary(void);
bool has_canary(const void *bytes, size_t size);
/* Up to size bytes of a file; -1 and errno. */
long slurp(const char *path, void *out, size_t size);
outcome try_read(const char *path);
outcome try_param(const char *key, outcome (*attempt)(const char *value));
/* Positive checks (attack --controls): what an ordinary program needs, which a careless wall would break. */
int controls(void);

#endif
