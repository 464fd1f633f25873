/*
 * twins.h: two worlds under the same rules, made by the same calls, but in one of them what the rules hide never was. Whatever an agent
 * is told must be the same in both, to the byte.
 *
 * Clocks are the test's: both worlds have the same times. Not compared, because rules do not hide them: inode numbers, and numbers of
 * states (versions are compared as none, masked, or some).
 */
#ifndef TESTS_TWINS_H
#define TESTS_TWINS_H

#include <cowbox/exec.h>
#include <cowbox/search.h>
#include <cowbox/transfer.h>

#include "base/buf.h"
#include "harness/boxes.h"
#include "harness/rules.h"

typedef struct world {
	cb_store *s;
	cb_box *owner, *agent; /* of the box "demo" */
	rules *rules;
	bool whole;       /* with what is hidden */
	char folder[512]; /* of the host, the same path in both, empty at the begin of each round */
	buf out;          /* what was told */
} world;

typedef struct twins {
	rules rules;
	world with, without;
	bool clears; /* the folder of the host is wanted */
} twins;

/* Both stores are in memory; rules are set by the caller before or after. */
void twins_open(twins *t);
void twins_close(twins *t);
/* The same in both worlds, at the same time; what each told must be equal. */
typedef void (*twin_round)(world *w);
void twins_do(twins *t, const char *what, twin_round round);
/* All that an agent can list, and all that only the owner sees. The latter is that of the first world. */
char *twins_hidden(twins *t);
/* What rules keep must be as it was. */
char *twins_kept(twins *t);

/* A step of the owner's on what is hidden: in the other world it is a record of the same kind. true: do it now. */
bool hidden_step(world *w, const char *kind);
/* One clock tick on, in both worlds alike. */
extern int64_t twins_now;

/* ---- telling ---- */

void say(world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The code, and its message: paths in it must not be hidden ones. */
void say_code(world *w, const char *what, cb_code code, const cb_error *err);
void say_stat(world *w, const char *name, const cb_stat_info *info);
/* Visitors; context is the world. */
cb_code say_walk(void *context, const char *path, const cb_stat_info *info, cb_error *err);
cb_code say_name(void *context, const char *name, const char *value, size_t size, cb_error *err);
cb_code say_change(void *context, const cb_change *c, cb_error *err);
cb_code say_step(void *context, const cb_step *step, cb_error *err);
/* What the agent can list of a box: entries, stats, contents, tags, attributes, keys. */
void say_box(world *w, cb_box *b);

/* SAY(w, cb_mkdir(...)) with a cb_error `e` in scope. */
#define SAY(w, call)                           \
	do {                                   \
		cb_error e = {0};              \
		cb_code code_ = (call);        \
		say_code(w, #call, code_, &e); \
	} while (0)

#endif
