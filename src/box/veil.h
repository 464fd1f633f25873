/* veil.h: what the gate's own files share; see gate.h. */
#ifndef BOX_VEIL_H
#define BOX_VEIL_H

#include "box/gate.h"

/* A veil belongs to one thread at a time, as its view does. */
struct veil {
	tree_veil of;
	const cb_store *cs;
	uint64_t box; /* whose rules */
	char who[LIMIT_NAME_BYTES + 1];
	tree_view raw;
	/* What is known of folders: number, big-endian -> folder_row and the path; whoever is in it is there with all folders above. It was
	 * learned of a view with this root and these maps, which are held so that their addresses are nobody else's, under rules of this
	 * version. It is carried on to another view if none of these folders has another place there. */
	pmap folders;
	size_t known_bytes;
	uint64_t root;
	pmap overlay, delta;
	uint64_t version;
	/* The folder that was asked about last, if no rule lies in it or below: keys of one folder come one after the other. 0: none. */
	uint64_t quiet;
	/* So do keys of one file. */
	uint64_t last_ino;
	gate_access last_access;
	gate_answer last;
	buf path; /* room for the path of what is asked about */
};

typedef struct veil_folder {
	gate_answer answers[GATE_REMOVE +
	                    1]; /* to each access: the worst of its own and of those above it; of reading if that is not passed */
	gate_below below;
	const char *path; /* lent until the next question; NULL: the folder is hidden, or no rule lies below */
} veil_folder;
/* Its answers are those of its entries: no rule lies on one of them, or the folder is kept from being read. */
static inline bool veil_folder_speaks(const veil_folder *f)
{
	return f->answers[GATE_READ] != GATE_PASS || f->below != GATE_BELOW_INSIDE;
}
static inline bool veil_folder_quiet(const veil_folder *f)
{
	return f->answers[GATE_READ] == GATE_PASS && f->below == GATE_BELOW_NONE;
}

/* The veil of a view; NULL: none. */
static inline veil *veil_of(const tree_view *v)
{
	return v->veil ? v->veil->context : NULL;
}
/* Forgets what no longer holds. Every question begins with it, unless the same view has just shown something. */
void veil_freshen(veil *v);
/* A folder as the raw view has it. One that cannot be reached from the root is hidden. */
cb_code veil_folder_get(veil *v, uint64_t ino, veil_folder *out, cb_error *err);
/* Of a node that was found there: of its only name, unless it is a link, which may have others. */
cb_code veil_ask_at(veil *v, gate_access access, uint64_t parent, span name, const record *r, bool is_link, gate_answer *out,
                    cb_error *err);
/* The worst answer of all names that a node has in the raw view; without any: hidden. Writing to what may not be read is hidden or
 * denied as reading is. */
cb_code veil_ask_node(veil *v, gate_access access, uint64_t ino, gate_answer *out, cb_error *err);
/* One name. ino 0: nothing is there. */
cb_code veil_ask_name(veil *v, gate_access access, uint64_t parent, span name, uint64_t ino, cb_type type, gate_answer *out,
                      cb_error *err);
gate_answer veil_ask_key(veil *v, gate_access access, span name);
/* The path of a name for messages, by the raw view. */
cb_code veil_path(const tree_view *raw, uint64_t parent, span name, buf *out, cb_error *err);

static inline gate_answer answer_worse(gate_answer a, gate_answer b)
{
	return a == GATE_HIDDEN || b == GATE_HIDDEN ? GATE_HIDDEN : a == GATE_DENIED || b == GATE_DENIED ? GATE_DENIED : GATE_PASS;
}

#endif
