/*
 * came_back.c: where a file comes from that an undo, redo or restore brought back.
 *
 * Such a step wrote nothing: a file that it left as it was in the state that was gone back to, in its place there, has the past that it
 * had in that state. Its place, and its number, may have another one: somebody else's file may have been moved there meanwhile, and a
 * folder that was restored by its path is a new one, which nothing was in before. An undo of a step in the middle may leave what was
 * never there: then the past is that of the place, as for any other step.
 */
#include "box/gate.h"
#include "box/graft.h"
#include "box/history.h"

/* The state that a step went back to; box 0: it is no such step. */
static cb_code see_target(void *context, const store_step *step, cb_error *err)
{
	past_point *to = context;
	bool reverses = strcmp(step->kind, "undo") == 0 || strcmp(step->kind, "redo") == 0;
	(void)err;
	if (reverses && step->target) *to = (past_point){step->box, step->target - 1};
	else if (strcmp(step->kind, "restore") == 0 && !step_other_is_foreign(step->other_box))
		*to = (past_point){step->other_box, step->other_seq};
	return CB_OK;
}

/* The path that an entry has. Empty: none that could be said. */
static cb_code entry_path(const tree_view *v, const key_parts *at, buf *out, cb_error *err)
{
	cb_error why;
	cb_code code = inode_path(v, at->ino, out, cb_err_aside(&why));
	if (code == CB_OK) code = buf_append_str(out, "/", cb_err_aside(&why));
	if (code == CB_OK) code = buf_append(out, at->name.bytes, at->name.size, cb_err_aside(&why));
	if (code == CB_OK) code = buf_append(out, "", 1, cb_err_aside(&why));
	if (code == CB_LIMIT || code == CB_TOOBIG) out->size = 0;
	else if (code != CB_OK) return cb_err_pass(err, code, &why);
	return CB_OK;
}

/* One that may be it: it is, when the bytes are the same, or nothing else was found. */
static cb_code consider(const cb_store *cs, const tree_view *after, const inode *now, const tree_view *was, const inode *node,
                        key at, came_back *out, cb_error *err)
{
	bool same = false;
	if (node->rec.type != CB_FILE || out->same) return CB_OK;
	if (node->rec.size == now->rec.size) CB_TRY(data_equal(cs, NULL, after, &now->rec, NULL, was, &node->rec, &same, err));
	if (out->found && !same) return CB_OK;
	out->found = true;
	out->same = same;
	out->entry = at;
	out->ino = node->rec.ino;
	return CB_OK;
}

/* What is not there is none; whatever else a search ended with counts. */
static cb_code searched(cb_code code, const cb_error *why, bool *out_found, cb_error *err)
{
	*out_found = code == CB_OK;
	bool missing = code == CB_NOTFOUND || code == CB_NOTDIR || code == CB_LOOP || code == CB_NAMETOOLONG || code == CB_DENIED;
	return code == CB_OK || missing ? CB_OK : cb_err_pass(err, code, why);
}

static cb_code consider_place(const cb_store *cs, const tree_view *after, const inode *now, const tree_view *was, const key *at,
                              came_back *out, cb_error *err)
{
	key_parts parts;
	inode node;
	bool shown = false, found = false;
	cb_error why;
	CB_TRY(key_parse(key_span(at), &parts, err));
	CB_TRY(gate_shows(was, at, &shown, err));
	if (!shown) return CB_OK;
	CB_TRY(searched(inode_at(was, parts.ino, parts.name, &node, NULL, cb_err_aside(&why)), &why, &found, err));
	return found ? consider(cs, after, now, was, &node, *at, out, err) : CB_OK;
}

/* In the same folder, which may have been moved; the same file, which may have been; or at the same path, where that may be another. */
static cb_code find_file(cb_box *b, const tree_view *after, const key *came_to, const tree_view *was, came_back *out, cb_error *err)
{
	AUTO_BUF buf path = BUF_INIT(LIMIT_PATH_BYTES);
	key_parts at;
	inode now;
	resolved r;
	place other;
	bool found = false;
	cb_error why;
	CB_TRY(key_parse(key_span(came_to), &at, err));
	CB_TRY(searched(inode_at(after, at.ino, at.name, &now, NULL, cb_err_aside(&why)), &why, &found, err));
	if (!found || now.rec.type != CB_FILE) return CB_OK;
	CB_TRY(consider_place(b->cs, after, &now, was, came_to, out, err));
	CB_TRY(searched(inode_place(was, now.rec.ino, &other, cb_err_aside(&why)), &why, &found, err));
	key k = found ? key_entry(other.parent, place_name(&other)) : *came_to;
	if (found) CB_TRY(consider_place(b->cs, after, &now, was, &k, out, err));
	CB_TRY(entry_path(after, &at, &path, err));
	if (path.size == 0) return CB_OK;
	CB_TRY(searched(path_resolve(b, was, (const char *)path.bytes, 0, GATE_READ, &r, cb_err_aside(&why)), &why, &found, err));
	if (!found || !r.exists) return CB_OK;
	return consider(b->cs, after, &now, was, &r.node, key_entry(r.parent, resolved_name(&r)), out, err);
}

cb_code came_back_find(cb_box *b, uint64_t box, uint64_t seq, const key *came_to, came_back *out, cb_error *err)
{
	AUTO_KEPT kept_state after = {0};
	AUTO_VEIL veil *veil_now = NULL;
	AUTO_VEIL veil *veil_was = NULL;
	past_point to = {0};
	cb_error why;
	*out = (came_back){0};
	CB_TRY(store_step_get(b->cs->s, box, seq, see_target, &to, err));
	if (!to.box) return CB_OK;
	cb_code code = kept_load(&out->at, b->cs, to.box, to.seq, KEPT_VISIT, cb_err_aside(&why));
	if (code == CB_STALE || code == CB_NOTFOUND) return CB_OK;
	if (code != CB_OK) return cb_err_pass(err, code, &why);
	CB_TRY(kept_load(&after, b->cs, box, seq, KEPT_VISIT, err));
	tree_view all = state_view(b->cs, after.s), all_was = state_view(b->cs, out->at.s), now, was;
	CB_TRY(gate_view(b, &all, &veil_now, &now, err));
	CB_TRY(gate_view(b, &all_was, &veil_was, &was, err));
	return find_file(b, &now, came_to, &was, out, err);
}

void came_back_done(came_back *c)
{
	kept_done(&c->at);
}
