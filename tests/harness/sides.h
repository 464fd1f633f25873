/* sides.h: the two sides of a merge, a box and its fork, and merges that must succeed or conflict. */
#ifndef TESTS_SIDES_H
#define TESTS_SIDES_H

#include "harness/boxes.h"

typedef void deed(cb_box *b);

typedef struct sides {
	cb_store *s;
	cb_box *ours, *theirs;
} sides;

/* "ours", to which `base` was done, and then its fork "theirs". */
sides sides_open(bool memory, deed *base);
/* The same in a store of the caller's, under other names. */
sides sides_open_in(cb_store *s, const char *ours, const char *theirs, deed *base);
/* The store is sound; closes it too. */
void sides_close(sides *p);

void must_merge(cb_box *into, cb_box *from, cb_prefer prefer);
/* The message has that text. */
void must_conflict(cb_box *into, cb_box *from, const char *text);
/* Another file under the same name. */
void must_renew(cb_box *b, const char *path, const char *text);
void must_mkdir(cb_box *b, const char *path);
void mv(cb_box *b, const char *from, const char *to);
void rm(cb_box *b, const char *path);
/* All below /work, as "d/ d/new=NEW d/private=P(600)". */
void must_show(cb_box *b, const char *text);

/* What the loser and the winner do to the same, settled for the winner wherever it is merged, or committed: must_show() of the results. */
void must_settle_each(deed *base, deed *loser, deed *winner, const char *merged, const char *committed);
void must_settle(deed *base, deed *loser, deed *winner, const char *text);

#endif
