/*
 * edit_text.h: many replacements in one text, one after the other, in time that goes with the text and with what changes.
 */
#ifndef BOX_EDIT_TEXT_H
#define BOX_EDIT_TEXT_H

#include <cowbox/files.h>

#include "base/buf.h"

/* One edit of a text under way; zero but for the first three. edit_text_done() it. */
typedef struct edit_text {
	const cb_replacement *all;
	size_t count;
	const cb_edit_options *options;
	span now;          /* the text with what was replaced so far: the caller's, or */
	buf built;         /* ours */
	size_t at;         /* the replacement that is next, or that failed */
	uint64_t found;    /* how often its old text was there */
	uint64_t replaced; /* in all */
	/* Since `now` was searched for all that is left: */
	buf *hits; /* size_t, for each replacement where its old text stands in `now`, places that overlap included; NULL: not yet */
	size_t hit_count; /* of all */
	bool *many;       /* too many to be worth a list */
	buf pieces;       /* what the text consists of; empty: now */
	size_t size;      /* of that */
	uint64_t spent;   /* bytes looked at around what was replaced */
	buf picks, scratch;
} edit_text;

/* SIZE_MAX: not there. Looks at the caller's limit on the way. */
cb_code edit_find(span text, span what, size_t from, size_t *out, cb_error *err);
/* e->now becomes the result. CB_NOTFOUND, CB_CONFLICT (both without a message: replacement e->at, in e->now, is there e->found times),
 * CB_LIMIT. */
cb_code edit_text_run(edit_text *e, span text, cb_error *err);
void edit_text_done(edit_text *e);

#endif
