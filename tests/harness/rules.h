/* rules.h: a small set of rules behind the gate, for tests: subtrees and key prefixes that are hidden or read-only to all but "owner". */
#ifndef TESTS_RULES_H
#define TESTS_RULES_H

#include "box/gate.h"

enum { RULES_MAX = 32 };

typedef enum rule_kind { RULE_HIDE, RULE_READ_ONLY, RULE_UNREADABLE } rule_kind;

typedef struct rule {
	rule_kind kind;
	const char *path; /* absolute, with all that is below; without '/' at its begin: a prefix of keys */
} rule;

typedef struct rules {
	gate g;
	rule all[RULES_MAX];
	size_t count;
	uint64_t box; /* the only one that they hold for; 0: all */
	bool follow_forks;
	bool keep_boxes;        /* only "owner" may prune or delete one */
	_Atomic uint64_t asked; /* questions so far */
} rules;

void rules_init(rules *r);
/* The path must stay. Holds from the next call on. */
void rules_add(rules *r, rule_kind kind, const char *path);
void rules_clear(rules *r);
/* Is a path at or below one that is hidden, or read-only? */
bool rules_hide(const rules *r, const char *path);
bool rules_keep(const rules *r, const char *path);
/* From now on the store's handles are asked. */
void rules_set(rules *r, cb_store *s);

#endif
