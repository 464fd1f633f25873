/*
 * gate.h: who may see and change what: the one place that every byte, name and count passes on its way out of a box or into one.
 *
 * A *hook* answers questions about single nodes; whoever keeps rules fills it in. This layer asks it in two places that no call can go
 * around:
 *
 *   - Out: a view that belongs to a handle (box_view, snapshot_take, txn_view) carries a *veil*. Whatever is read through such a view
 *     passes the veil, key by key: listings, walks, differences, contents, attributes, also for callers outside this layer that bring
 *     their own cursor. What the hook hides is not in the map at all.
 *   - In: what a call changed is looked at key by key before it counts (gate_changes), when the call ends and again when it is
 *     committed, whatever made the change: a write, a merge, an undo, an import, a program.
 *
 * Views without a veil (state_view, txn_raw) are for what must see everything to keep the map sound: inode.c, data.c, merging, gc, fsck.
 * Nothing that is read through them may leave unasked.
 *
 * Where no rule lies in a box, for who asks, no view of it has a veil: it costs what it does without a hook, a test for NULL. See "The
 * gate" in docs/design.md for what is told and why.
 */
#ifndef BOX_GATE_H
#define BOX_GATE_H

#include "box/internal.h"

typedef enum gate_answer {
	GATE_PASS,
	GATE_HIDDEN, /* as if it were not there: CB_NOTFOUND; what would make or change it is CB_DENIED */
	GATE_DENIED, /* CB_DENIED where it is named; left out of lists */
} gate_answer;

typedef struct gate_request {
	const char *who; /* of the handle; of a call on the store, the store's */
	uint64_t box;    /* whose rules are asked: for the hidden companion of a box, that box */
	gate_access access;
	const char *path; /* absolute, clean; NULL: a key-value, `name` is its key */
	span name;        /* of the last component; "" for the root */
	uint64_t parent;  /* 0: the root, a key-value, or not known */
	uint64_t ino;     /* 0: nothing is there, or a key-value */
	cb_type type;     /* 0: likewise */
} gate_request;

/* Where rules lie seen from a folder. */
typedef enum gate_below {
	GATE_BELOW_NONE,   /* no rule lies below it: what holds for the folder, to each access, holds for all in it */
	GATE_BELOW_DEEPER, /* one lies below, but none on an entry of the folder itself: what holds for the folder holds for them */
	GATE_BELOW_INSIDE, /* one lies on an entry of the folder, whether or not that is there */
} gate_below;

/* What is done to a box as a whole. */
typedef enum gate_deed {
	GATE_PRUNE,  /* cb_prune */
	GATE_DELETE, /* cb_box_delete */
} gate_deed;

typedef struct gate {
	/* About one name of one node. Any thread; no lock of the store is needed, and it must not call into the box. */
	gate_answer (*ask)(void *context, const gate_request *request);
	/* Does a rule lie below this folder, not at it? Saying so wrongly costs time, not saying so costs secrets. Of "/": of key-values
	 * too. box 0: is there a rule at all, in any box? */
	gate_below (*below)(void *context, const char *who, uint64_t box, const char *path);
	/* A box is about to start as a fork of another, inside the write transaction that makes it: the same rules are to hold for it.
	 * NULL: who does not see all of a box cannot fork it. */
	cb_code (*forked)(void *context, uint64_t from, uint64_t to, cb_error *err);
	/* May a box as a whole be dealt with so? These are no questions about nodes: whoever may, takes what is hidden too. NULL: everybody
	 * may. */
	bool (*allows)(void *context, const char *who, uint64_t box, gate_deed deed);
	void *context;
	_Atomic uint64_t version; /* to be raised whenever an answer may have changed */
} gate;

/* ---- out: veils ---- */

/* Of a folder whose times are not told, because a rule lies on an entry of it. */
enum { GATE_MASKED_VERSION = 1 };

typedef struct veil veil;
cb_code veil_create(cb_store *cs, uint64_t box, const char *who, veil **out, cb_error *err);
void veil_destroy(veil *v); /* accepts NULL */
static inline void veil_auto_(veil **v)
{
	veil_destroy(*v);
}
#define AUTO_VEIL ATTR_CLEANUP(veil_auto_)
/* The same view behind the veil. The view's maps must stay where they are, and may change. */
tree_view veil_over(veil *v, const tree_view *raw);
/* What one veil knows, the other is to know too, as far as it holds for the view it is over. Either may be NULL. */
void veil_know(veil *v, const veil *known);
void veil_who_set(veil *v, const char *who);
/* Behind a veil of the handle's own where a rule lies in the box; *keep is then to be destroyed after the view's last use. */
cb_code gate_view(const cb_box *b, const tree_view *raw, veil **keep, tree_view *out, cb_error *err);
/* The same view without its veil. */
static inline tree_view view_raw(const tree_view *v)
{
	return (tree_view){v->nodes, v->root, v->overlay, v->delta, NULL};
}
/* Whose rules hold for a box: its own number, but for the hidden companion of a box. (folder_base.c) */
uint64_t box_governed(const store_box *row);
/* At the begin of a call, with the handle locked: the handle knows whether a rule lies in the box, and has its veil, for whom it is. */
cb_code gate_enter(cb_box *b, cb_error *err);

/* A folder of a picture of the handle's is about to be read: the handle is to know of it too. With the handle locked. */
cb_code gate_folder_read(cb_box *b, const snapshot *s, uint64_t ino, cb_error *err);

/* Raised with the rules; 0 without a hook. */
static inline uint64_t gate_version(const cb_store *cs)
{
	return cs->gate ? atomic_load(&cs->gate->version) + 1 : 0;
}
/* Is there a rule anywhere in the box, whose number that is, for who asks? */
bool gate_rules_for(const cb_store *cs, uint64_t box, const char *who);
/* The same for a handle, or (b NULL) in any box of the store. */
bool gate_has_rules(const cb_store *cs, const cb_box *b);
/* CB_DENIED when there is: what takes a box or a store as a whole cannot leave anything out. */
cb_code gate_whole(const cb_store *cs, const cb_box *b, const char *what, cb_error *err);
/* CB_DENIED when the hook does not allow it. */
cb_code gate_deed_check(const cb_store *cs, uint64_t box, const char *who, gate_deed deed, cb_error *err);
/* What a state holds as far as it is shown. */
cb_code gate_count(const tree_view *v, counters *out, cb_error *err);
/* Inside the write transaction that makes the fork. */
cb_code gate_forked(const cb_store *cs, const char *who, uint64_t from, uint64_t to, cb_error *err);

/* ---- in ---- */

/* CB_RESERVED: a name of the system's at the root. */
cb_code gate_reserved_check(uint64_t parent, span name, cb_error *err);
/* A name that the sandbox owns at the root of every box. */
bool gate_reserved(span name);
/* May what was resolved in v be used so? A file is bound by the rules of all its names. Refusals of calls that are no op are recorded. */
cb_code gate_resolved(cb_box *b, const tree_view *v, const char *path, gate_access access, const resolved *r, cb_error *err);
/* An entry of a folder of the transaction, for what goes entry by entry and wants to know at once. ino 0: to be made. */
cb_code gate_entry(const txn *t, gate_access access, uint64_t parent, span name, uint64_t ino, cb_error *err);
/* May a node of the transaction be changed? For times that follow from something else, and stay where they may not. */
cb_code gate_may_touch(const txn *t, uint64_t ino, bool *out, cb_error *err);
/* CB_DENIED when rules lie below a folder: its copy would be without them. */
cb_code gate_copied(const tree_view *v, const resolved *r, cb_error *err);
/* Why a view does not have it: CB_NOTFOUND, or CB_DENIED (with a message) for what may be known but not read. */
cb_code gate_missing(const tree_view *v, uint64_t parent, span name, cb_error *err);
/* A key-value by name. */
cb_code gate_key(cb_box *b, gate_access access, span name, cb_error *err);
/* All that t changed since it was last asked for: CB_DENIED when something of it is hidden or may not be changed. Names are told only of
 * what is shown. */
cb_code gate_changes(txn *t, cb_error *err);
/* The same for what would lead from one map to the other. */
cb_code gate_weigh(const cb_box *b, const tree_view *from, const tree_view *to, cb_error *err);
/* Is a place in a state shown? */
cb_code gate_shows(const tree_view *v, const key *k, bool *out, cb_error *err);

/* ---- history ---- */

typedef struct gate_touch {
	bool shown, hidden; /* the step changed something of that sort; times of folders that follow their entries do not count */
} gate_touch;
/* Of who asks about steps of a box one after the other, downwards: each state is the one after it with a step taken back. gate_past_done()
 * it. */
typedef struct gate_past {
	kept_state kept; /* where it began */
	state *at;       /* the state after step at->seq of box at->box; NULL: none is known */
	unsigned taken;  /* steps back from `kept` */
	veil *before, *after;
} gate_past;
void gate_past_done(gate_past *p);
#define AUTO_PAST ATTR_CLEANUP(gate_past_done)
/* What a step changed, before and after it, by the rules of now. Without rules all is shown. */
cb_code gate_step_touch(gate_past *p, cb_store *cs, uint64_t box, const char *who, uint64_t seq, gate_touch *out, cb_error *err);
/* CB_DENIED when a step cannot be taken back because of what it did itself, whatever else is there now. */
cb_code gate_step_reversed(cb_box *b, uint64_t seq, cb_error *err);
/* May parameters and result of a step be told? They may quote anything that who made it could see: only his own, and not those that touched
 * or name what is hidden by now. touch NULL: what it changed is not asked for; of a step that is not known any more all counts as shown. */
cb_code gate_step_told(gate_past *p, cb_store *cs, uint64_t box, const char *who, uint64_t seq, const char *step_who,
                       const char *params, bool *out, gate_touch *touch, cb_error *err);
/* Is a path, as text, one that the rules let be named? Without '/' at its begin: is the key of a key-value? */
bool gate_path_named(const cb_store *cs, uint64_t box, const char *who, const char *path);
bool gate_named(const cb_box *b, const char *path_or_key);

#endif
