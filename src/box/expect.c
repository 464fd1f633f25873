/*
 * expect.c: what the calls of a transaction relied on.
 *
 * A call that was told to expect a version, or that succeeds only because a name is free (exclusive creation, mkdir, link, symlink,
 * rename without replacing), relied on something that others may change before the transaction commits, and that the merge of the two
 * results may not show: the file may merge by lines, the two folders unite, the lock file may be gone again at the end. So it is kept as
 * an expectation and looked at once more at commit, against the head.
 *
 * A name is kept with its folder's inode, which stays right when the folder is moved, and with its path, for folders that the transaction
 * made itself: there the head may have a folder of its own at the same path.
 *
 * What was written is noted too, since bytes that are as before do not show it: who writes what he read relies on it. The merge asks for
 * files (merge_note_written); key-values are looked at here.
 */
#include "box/internal.h"

#include <stdlib.h>

typedef struct expectation {
	uint64_t ino;     /* a version is expected; 0: a name must be free */
	uint64_t version; /* of ino */
	uint64_t was;     /* what had the name in the base, and gave it up to this transaction; 0: nothing */
	uint64_t parent;
	char *path;     /* clean, without links */
	size_t name_at; /* where the last component begins in path */
} expectation;

void expectations_drop(txn *t, size_t size)
{
	expectation *all = (expectation *)(void *)t->expected.bytes;
	for (size_t i = size / sizeof(*all); i < t->expected.size / sizeof(*all); i++) free(all[i].path);
	t->expected.size = size;
}

void expectations_done(txn *t)
{
	expectations_drop(t, 0);
	buf_done(&t->expected);
}

static cb_code expectation_add(txn *t, const tree_view *v, const resolved *r, expectation e, cb_error *err)
{
	AUTO_BUF buf path = BUF_INIT(SIZE_MAX);
	CB_TRY(inode_path(v, r->parent, &path, err));
	if (path.size != 1) CB_TRY(buf_append_byte(&path, '/', err));
	e.name_at = path.size;
	CB_TRY(buf_append(&path, r->name, r->name_size, err));
	CB_TRY(buf_take(&path, &e.path, NULL, err));
	cb_code code = buf_append(&t->expected, &e, sizeof(e), err);
	if (code != CB_OK) free(e.path);
	return code;
}

/* Under the writer lock nothing can change before the commit. The root has no place of its own, and nobody can replace it. */
static bool is_certain(const txn *t, const resolved *r)
{
	return t->in_write || t->inside_write || r->parent == 0;
}

cb_code expect_absent(txn *t, const resolved *r, cb_error *err)
{
	if (is_certain(t, r)) return CB_OK;
	tree_view base = state_view(t->cs, t->base), now = txn_raw(t);
	inode there;
	cb_code code = inode_at(&base, r->parent, resolved_name(r), &there, NULL, err);
	if (code != CB_OK && code != CB_NOTFOUND) return code;
	return expectation_add(t, &now, r, (expectation){.parent = r->parent, .was = code == CB_OK ? there.rec.ino : 0}, err);
}

cb_code expect_version(txn *t, const resolved *r, uint64_t version, cb_error *err)
{
	if (version == CB_VERSION_ANY || is_certain(t, r)) return CB_OK;
	if (version == CB_VERSION_ABSENT) return expect_absent(t, r, err);
	tree_view now = txn_raw(t);
	expectation e = {.ino = r->node.rec.ino, .version = version, .parent = r->parent};
	return expectation_add(t, &now, r, e, err);
}

cb_code expect_written(txn *t, const key *k, cb_error *err)
{
	span ignored;
	if (t->in_write || t->inside_write || pmap_get(&t->written, key_span(k), &ignored) != PMAP_ABSENT) return CB_OK;
	return pmap_put(&t->written, key_span(k), (span){0}, err);
}

static cb_code holds(const txn *t, const tree_view *head, const expectation *e, bool *out, cb_error *err)
{
	inode node;
	cb_code code;
	if (e->ino) {
		code = inode_find(head, e->ino, &node, err);
		*out = code == CB_OK && node.rec.version == e->version;
		return code == CB_NOTFOUND ? CB_OK : code;
	}
	tree_view base = state_view(t->cs, t->base);
	code = inode_find(&base, e->parent, &node, err);
	uint64_t ignored;
	if (code == CB_NOTFOUND)
		code = inode_by_path(head, e->path, &ignored, err); /* what it made must not meet what others made */
	else if (code == CB_OK) code = inode_at(head, e->parent, span_str(e->path + e->name_at), &node, NULL, err);
	*out = code == CB_NOTFOUND;
	if (code != CB_OK || !e->was) return code == CB_NOTFOUND ? CB_OK : code;
	/* What the transaction itself took away was there: whether others changed it, or made it anew, is for the merge to say. But what
	 * they moved there from elsewhere is another file. */
	uint64_t ino = node.rec.ino;
	code = ino == e->was ? CB_NOTFOUND : inode_find(&base, ino, &node, err);
	*out = code == CB_NOTFOUND;
	return code == CB_NOTFOUND ? CB_OK : code;
}

static cb_code values_differ(const tree_view *a, const tree_view *b, span key_bytes, bool *out, cb_error *err)
{
	tree_value x = {.size = 0}, y = {.size = 0};
	cb_code in_a = tree_get(a, key_bytes, &x, err),
		in_b = in_a == CB_OK || in_a == CB_NOTFOUND ? tree_get(b, key_bytes, &y, err) : in_a;
	if (in_b != CB_OK && in_b != CB_NOTFOUND) return in_b;
	*out = in_a != in_b || (in_a == CB_OK && !span_equal(span_make(x.bytes, x.size), span_make(y.bytes, y.size)));
	return CB_OK;
}

/* Key-values that were set and that others changed: also those that were set to what they had, which no difference shows. */
static cb_code written_keys_check(const txn *t, const tree_view *head, merge_disputed *out, cb_error *err)
{
	static const uint8_t first = KIND_KV;
	tree_view base = state_view(t->cs, t->base);
	pmap_cursor c;
	span k, value;
	bool tombstone;
	for (pmap_seek(&c, &t->written, span_make(&first, 1)); pmap_cursor_get(&c, &k, &value, &tombstone) && k.bytes[0] == KIND_KV;
	     pmap_cursor_next(&c)) {
		bool changed = false;
		CB_TRY(values_differ(&base, head, k, &changed, err));
		if (changed) CB_TRY(pmap_put(&out->keys, k, (span){0}, err));
	}
	return CB_OK;
}

cb_code expectations_check(const txn *t, const tree_view *head, merge_conflicts *conflicts, merge_disputed *out, cb_error *err)
{
	out->reason = "another version than was expected";
	const expectation *all = (const expectation *)(const void *)t->expected.bytes;
	tree_view now = txn_raw(t);
	for (size_t i = 0; i < t->expected.size / sizeof(*all); i++) {
		const expectation *e = &all[i];
		bool good = false;
		CB_TRY(holds(t, head, e, &good, err));
		if (good) continue;
		cb_prefer ignored;
		uint64_t made = 0;
		key name = key_entry(e->parent, span_str(e->path + e->name_at));
		if (e->ino) {
			CB_TRY(buf_append(&out->inos, &e->ino, sizeof(e->ino), err));
			continue;
		}
		cb_code code = inode_by_path(&now, e->path, &made, err);
		if (code != CB_OK && code != CB_NOTFOUND) return code;
		/* What it made and took away again is no rival for the name. */
		merge_about about = code == CB_OK ? ABOUT_NAME_THERE : ABOUT_FIELDS;
		CB_TRY(merge_decide(conflicts, e->path, "made on both sides", about, &ignored, err));
		CB_TRY(pmap_put(&out->names, key_span(&name), (span){0}, err));
	}
	if (out->inos.size) qsort(out->inos.bytes, out->inos.size / sizeof(uint64_t), sizeof(uint64_t), u64_compare);
	return written_keys_check(t, head, out, err);
}

/* Is that number among them? */
static bool has_ino(const uint64_t *sorted, size_t count, uint64_t ino)
{
	return count && bsearch(&ino, sorted, count, sizeof(*sorted), u64_compare) != NULL;
}

cb_code expectations_touched(const txn *t, const uint64_t *inos, size_t count, const pmap *keys, bool *out, cb_error *err)
{
	const expectation *all = (const expectation *)(const void *)t->expected.bytes;
	AUTO_FREE uint64_t *sorted = mem_alloc((count + 1) * sizeof(*sorted));
	if (!sorted) return cb_err_nomem(err);
	if (count) memcpy(sorted, inos, count * sizeof(*sorted));
	if (count) qsort(sorted, count, sizeof(*sorted), u64_compare);
	span ignored, k;
	for (size_t i = 0; !*out && i < t->expected.size / sizeof(*all); i++) {
		const expectation *e = &all[i];
		key name = key_entry(e->parent, span_str(e->path + e->name_at));
		if (e->ino) *out = has_ino(sorted, count, e->ino);
		else *out = pmap_get(keys, key_span(&name), &ignored) != PMAP_ABSENT;
	}
	pmap_cursor c;
	bool tombstone;
	for (pmap_seek(&c, &t->written, (span){0}); !*out && pmap_cursor_get(&c, &k, &ignored, &tombstone); pmap_cursor_next(&c)) {
		key_parts parts;
		CB_TRY(key_parse(k, &parts, err));
		if (parts.kind == KIND_INODE) *out = has_ino(sorted, count, parts.ino);
		else *out = pmap_get(keys, k, &ignored) != PMAP_ABSENT;
	}
	return CB_OK;
}
