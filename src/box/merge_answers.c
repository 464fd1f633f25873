/*
 * merge_answers.c: were the answers kept?
 *
 * Every answer is right by itself; but what one gives a place another may take it from, or move to where a third wants something else, and
 * a file with several names may get its data by the answer for another name. So at the end of the last pass every path that was answered
 * is looked at: who is there, and with what data where these were in conflict too. Where that is not what the side has there that was
 * answered for, the answers contradict each other (merge_contradicts_at). Conflicts of earlier passes count as well: what was settled since
 * may have done away with them.
 *
 * What is in conflict only by what it holds is not looked for by its path: nobody disputes where it is, and it may have moved.
 *
 * Cost: the conflicts, when not all were answered for the same side; else nothing can contradict.
 */
#include "box/merge.h"

cb_code merge_settle_data(merge *m, uint64_t ino, bool theirs_wins, bool *kept, cb_error *err)
{
	uint8_t how = theirs_wins ? SETTLED_THEIRS : SETTLED_OURS;
	span value;
	key k = key_inode(ino);
	*kept = true;
	if (m->left) return CB_OK;
	if (pmap_get(&m->data_for, key_span(&k), &value) == PMAP_VALUE) *kept = value.bytes[0] == how;
	return *kept ? pmap_put(&m->data_for, key_span(&k), span_make(&how, 1), err) : CB_OK;
}

static bool are_mixed(const merge_conflicts *c)
{
	bool ours = false, theirs = false;
	for (size_t i = 0; i < c->count && !(ours && theirs); i++) {
		ours = ours || (c->all[i].seen && c->all[i].answer == CB_PREFER_OURS);
		theirs = theirs || (c->all[i].seen && c->all[i].answer == CB_PREFER_THEIRS);
	}
	return ours && theirs;
}

/* The folder of a view in which a path ends, and its last name. CB_NOTFOUND: there is none, or the path is one that nobody may be told. */
static cb_code path_split(const tree_view *v, const char *path, uint64_t *parent, span *name, cb_error *err)
{
	*parent = INO_ROOT;
	for (const char *at = path; *at == '/';) {
		size_t size = strcspn(++at, "/");
		*name = span_make(at, size);
		at += size;
		if (!*at) return CB_OK;
		inode node;
		CB_TRY(inode_at(v, *parent, *name, &node, NULL, err));
		*parent = node.rec.ino;
	}
	return CB_NOTFOUND;
}

/* Its number is 0: nobody. parent 0: there is no such folder. */
static cb_code who_is(const tree_view *v, uint64_t parent, span name, inode *out, cb_error *err)
{
	cb_code code = parent ? inode_at(v, parent, name, out, NULL, err) : CB_NOTFOUND;
	if (code == CB_NOTFOUND) *out = (inode){0};
	return code == CB_NOTFOUND ? CB_OK : code;
}

static cb_code who_is_at(const tree_view *v, const char *path, inode *out, cb_error *err)
{
	uint64_t parent = 0;
	span name = {0};
	cb_code code = path_split(v, path, &parent, &name, err);
	if (code != CB_OK && code != CB_NOTFOUND) return code;
	return who_is(v, code == CB_OK ? parent : 0, name, out, err);
}

/* The folder of theirs that is one with ours' `dir` in the result, which holds the path's last name; 0: none. */
static cb_code dir_there(merge *m, const char *path, uint64_t dir, uint64_t *out, cb_error *err)
{
	uint64_t result = 0;
	bool same = false;
	span ignored;
	CB_TRY(merge_is_present(m->theirs, dir, &same, err));
	*out = same ? dir : 0;
	if (same) return CB_OK;
	cb_code code = path_split(m->theirs, path, out, &ignored, err); /* both made it there */
	if (code == CB_OK) code = merge_result_dir(m, *out, &result, err);
	if (code == CB_NOTFOUND || result != dir) *out = 0;
	return code == CB_NOTFOUND ? CB_OK : code;
}

/* Who is under the path of a conflict on the side that was answered for, and in the result. */
typedef struct sight {
	const tree_view *side;
	inode wanted, is;
} sight;

/* *named false: the path is not to be found. */
static cb_code see(merge *m, const merge_conflict *c, sight *out, bool *named, cb_error *err)
{
	const bool here = c->about == ABOUT_NAME_HERE, ours_wins = c->answer == CB_PREFER_OURS;
	tree_view v = txn_raw(m->t);
	uint64_t dir = 0, wanted_in = 0, is_in = 0;
	span name;
	out->side = ours_wins ? m->ours : m->theirs;
	cb_code code = path_split(here ? m->ours : m->theirs, c->path, &dir, &name, err);
	*named = code == CB_OK;
	if (code != CB_OK) return code == CB_NOTFOUND ? CB_OK : code;
	wanted_in = is_in = dir;
	if (!here) CB_TRY(merge_result_dir(m, dir, &is_in, err));
	if (!here && ours_wins) wanted_in = is_in;
	if (here && !ours_wins) CB_TRY(dir_there(m, c->path, dir, &wanted_in, err));
	bool has = false;
	if (wanted_in) CB_TRY(merge_is_present(out->side, wanted_in, &has, err));
	if (!has) { /* it has no such folder; but perhaps another, which is called so */
		CB_TRY(who_is_at(out->side, c->path, &out->wanted, err));
		if (out->wanted.rec.ino) return who_is_at(&v, c->path, &out->is, err);
	}
	if (has) CB_TRY(who_is(out->side, wanted_in, name, &out->wanted, err));
	return who_is(&v, is_in, name, &out->is, err);
}

/* A folder is one wherever it comes from: what is in it speaks for itself. */
static cb_code is_kept(merge *m, const merge_conflict *c, bool *out, cb_error *err)
{
	sight s = {0};
	bool named = false;
	span value;
	CB_TRY(see(m, c, &s, &named, err));
	uint64_t wanted = s.wanted.rec.ino, is = s.is.rec.ino;
	*out = !named || (!wanted && !is);
	if (*out || !wanted || !is || s.wanted.rec.type != s.is.rec.type) return CB_OK;
	*out = s.is.rec.type == CB_DIR;
	if (*out) return CB_OK;
	const item *it = c->answer == CB_PREFER_THEIRS ? merge_item_find(m, merge_item_number(m, wanted)) : NULL;
	bool one = wanted == is || (it && it->into == is);
	key k = key_inode(is);
	uint8_t side = c->answer == CB_PREFER_THEIRS ? SETTLED_THEIRS : SETTLED_OURS;
	*out = one && !(pmap_get(&m->data_for, key_span(&k), &value) == PMAP_VALUE && value.bytes[0] != side);
	if (*out) return CB_OK;
	tree_view v = txn_raw(m->t);
	return merge_data_same(m, s.side, &s.wanted.rec, &v, &s.is.rec, out, err);
}

cb_code merge_check_answers(merge *m, cb_error *err)
{
	const merge_conflicts *c = m->conflicts;
	if (m->left || c->open || !are_mixed(c)) return CB_OK;
	for (size_t i = 0; i < c->count; i++) {
		const merge_conflict *e = &c->all[i];
		bool kept = true;
		if (!e->seen || e->answer == CB_PREFER_NONE || e->about == ABOUT_FIELDS) continue;
		CB_TRY(is_kept(m, e, &kept, err));
		if (!kept) CB_TRY(buf_append(&m->contradictions, e->path, strlen(e->path) + 1, err));
	}
	return CB_OK;
}
