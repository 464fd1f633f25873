/*
 * cursor.h: what all public cursors are made of, here and in the layers above.
 *
 * A kind of cursor is a struct that begins with a cb_cursor, and a cursor_ops. The call with a visitor opens the same cursor and goes
 * through it with cursor_next: there is one implementation of every list.
 */
#ifndef BOX_CURSOR_H
#define BOX_CURSOR_H

#include <cowbox/cursor.h>

#include "base/buf.h"
#include "base/cancel.h"

/* Which ..._next it is for. */
typedef enum cursor_gives {
	CURSOR_ENTRIES,
	CURSOR_NAMES,
	CURSOR_STEPS,
	CURSOR_CHANGES,
	CURSOR_CHANGE_STATS,
	CURSOR_BLAME_LINES,
	CURSOR_CHECKPOINTS,
	CURSOR_CONFLICTS,
	CURSOR_BOXES,
	CURSOR_AUDIT,
	CURSOR_USES,
	CURSOR_GREP_LINES,
} cursor_gives;

typedef struct cursor_ops {
	cursor_gives gives;
	/* The next one, lent until the next call; NULL at the end, after which it is not called again, as after an error. */
	cb_code (*next)(cb_cursor *c, const void **out, cb_error *err);
	/* Ends what the kind added, as far as it got: all its fields are zero before they are set. NULL: nothing. */
	void (*done)(cb_cursor *c);
	/* A next that its limit ended has not moved: it may be called again. */
	bool resumes;
} cursor_ops;

struct cb_cursor {
	const cursor_ops *ops;
	cb_store *cs;   /* counted, as an open box counts it */
	cb_box *b;      /* counted: closed or not, it is there; NULL: it is a list of the store */
	unsigned era;   /* of forks, in which it was opened */
	uint64_t rules; /* their version then: see gate.h */
	bool ended;
	cb_code failed; /* not CB_OK: by this, told again at each call */
	cb_error why;
};

/* *out, the address of a pointer to a struct of that size that begins with a cb_cursor: zero behind that. b NULL: of the store.
 * cb_cursor_close() it. */
cb_code cursor_create(size_t size, const cursor_ops *ops, cb_store *cs, cb_box *b, void *out, cb_error *err);
/* For visitors: the next one, without what only the public calls have to ask. It looks at the limit first: a list that is in memory does
 * not look by itself. */
static inline cb_code cursor_next(cb_cursor *c, const void **out, cb_error *err)
{
	CB_TRY(cancel_check(err));
	return c->ops->next(c, out, err);
}
/* For the public ..._next. A limit that is over before anything is done does not end the cursor, only the call. */
cb_code cursor_next_public(cb_cursor *c, cursor_gives gives, const void **out, cb_error *err);

static inline void cursor_auto_(cb_cursor **c)
{
	cb_cursor_close(*c);
}
#define AUTO_CLOSE ATTR_CLEANUP(cursor_auto_)

/*
 * Visits all that is left of a cursor, which the caller closes; CB_INTERRUPTED from the visitor is an end like any other. Of entries and
 * names a visitor gets more than one argument; the others differ only in its type, so this is a macro.
 */
#define CURSOR_VISIT(cursor, visit, context, err)                                                         \
	(__extension__({                                                                                  \
		cb_error told_;                                                                           \
		const void *item_ = NULL;                                                                 \
		cb_code code_ = cursor_next(cursor, &item_, err);                                         \
		while (code_ == CB_OK && item_) {                                                         \
			code_ = cb_err_visited(visit(context, item_, cb_err_aside(&told_)), &told_, err); \
			if (code_ == CB_INTERRUPTED) {                                                    \
				code_ = CB_OK;                                                            \
				break;                                                                    \
			}                                                                                 \
			if (code_ == CB_OK) code_ = cursor_next(cursor, &item_, err);                     \
		}                                                                                         \
		code_;                                                                                    \
	}))

/* Visits all that is left of a cursor on entries; the caller closes it. */
cb_code entries_visit(cb_cursor *c, cb_walk_visit visit, void *context, cb_error *err);

/* A list that was collected: structs of one size in a row, each of which begins with what is given. */
typedef struct list_cursor {
	cb_cursor c;
	size_t item_size;
	buf items;
	size_t next;                   /* in bytes */
	void (*item_done)(void *item); /* NULL: nothing */
} list_cursor;
/* gives and item_done as above. *out: fill its items, then give it away, or close it. */
cb_code list_cursor_create(cursor_gives gives, size_t item_size, void (*item_done)(void *item), cb_store *cs, cb_box *b,
                           list_cursor **out, cb_error *err);

#endif
