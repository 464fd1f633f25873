/*
 * diff_text.c: a difference as unified text in git's format, or with its lines counted. Names with control bytes, quotes or non-ASCII are
 * quoted as git does.
 *
 * patch(1) reads less than git writes: it ends a name at a space in the line "diff --git", from which it takes the name of what has no
 * lines, and drops a space at the end of any name. Both read names in quotes, so such names are quoted there.
 */
#include "base/args.h"
#include "base/sha1.h"
#include "base/sized.h"
#include "box/cursor.h"
#include "box/diff.h"
#include "box/text.h"

#include <stdio.h>

enum { TEXT_OUT_MAX = 1 << 30 };

typedef struct printing {
	cb_store *cs;
	const snapshot *a, *b;
	unsigned context_lines;
	buf *out;
} printing;

static bool needs_quotes(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < 0x20 || (unsigned char)*s >= 0x7f || *s == '"' || *s == '\\') return true;
	return s[-1] == ' ';
}

static cb_code print_quoted_byte(buf *out, unsigned char c, cb_error *err)
{
	static const char plain[] = "abtnvfr";
	if (c >= 7 && c <= 13) return buf_printf(out, err, "\\%c", plain[c - 7]);
	if (c == '"' || c == '\\') return buf_printf(out, err, "\\%c", c);
	if (c < 0x20 || c >= 0x7f) return buf_printf(out, err, "\\%03o", c);
	return buf_append_byte(out, c, err);
}

static cb_code print_quoted(buf *out, const char *side, const char *path, cb_error *err)
{
	CB_TRY(buf_printf(out, err, "\"%s", side));
	for (; *path; path++) CB_TRY(print_quoted_byte(out, (unsigned char)*path, err));
	return buf_append_byte(out, '"', err);
}

/* side: "a" or "b", or "" for rename lines; path starts with '/'. */
static cb_code print_name(buf *out, const char *side, const char *path, cb_error *err)
{
	if (!*side) path++;
	if (needs_quotes(path)) return print_quoted(out, side, path, err);
	return buf_printf(out, err, "%s%s", side, path);
}

/* In the line "diff --git", where a space would end it. */
static cb_code print_first_name(buf *out, const char *side, const char *path, cb_error *err)
{
	return strchr(path, ' ') ? print_quoted(out, side, path, err) : print_name(out, side, path, err);
}

static unsigned git_mode(const cb_stat_info *info)
{
	if (info->type == CB_SYMLINK) return 0120000;
	return info->mode & 0100 ? 0100755 : 0100644;
}

static cb_code print_line_name(buf *out, const char *label, const char *side, const char *path, cb_error *err)
{
	CB_TRY(buf_append_str(out, label, err));
	CB_TRY(print_name(out, side, path, err));
	return buf_append_byte(out, '\n', err);
}

static cb_code print_header(buf *out, const cb_change *c, const char *old_path, cb_error *err)
{
	CB_TRY(buf_append_str(out, "diff --git ", err));
	CB_TRY(print_first_name(out, "a", old_path, err));
	CB_TRY(buf_append_byte(out, ' ', err));
	CB_TRY(print_first_name(out, "b", c->path, err));
	CB_TRY(buf_append_byte(out, '\n', err));
	unsigned old_mode = c->has_old ? git_mode(c->old_info) : 0, new_mode = c->has_new ? git_mode(c->new_info) : 0;
	if (!c->has_old) return buf_printf(out, err, "new file mode %06o\n", new_mode);
	if (!c->has_new) return buf_printf(out, err, "deleted file mode %06o\n", old_mode);
	if (old_mode != new_mode) CB_TRY(buf_printf(out, err, "old mode %06o\nnew mode %06o\n", old_mode, new_mode));
	if (c->kind != CB_RENAMED) return CB_OK;
	CB_TRY(print_line_name(out, "rename from ", "", old_path, err));
	return print_line_name(out, "rename to ", "", c->path, err);
}

/* What one side of a change holds. */
typedef struct loaded {
	char *bytes; /* owned */
	size_t size;
	bool too_large; /* for a text: it is not loaded */
	bool binary;
} loaded;

static void loaded_done(loaded *c)
{
	free(c->bytes);
}
#define AUTO_LOADED ATTR_CLEANUP(loaded_done)

static cb_code load_side(const printing *p, const snapshot *s, bool there, uint64_t ino, loaded *out, cb_error *err)
{
	inode node;
	if (!there) return CB_OK;
	CB_TRY(inode_find(&s->v, ino, &node, err));
	out->too_large = out->binary = node.rec.size > LIMIT_DIFF_TEXT_BYTES;
	if (out->too_large) return CB_OK;
	cb_code code = data_load(p->cs, s->t, &s->v, &node.rec, LIMIT_DIFF_TEXT_BYTES, &out->bytes, &out->size, err);
	CB_TRY(inode_damaged(code, &s->v, ino, err));
	out->binary = text_is_binary(span_make(out->bytes, out->size));
	return CB_OK;
}

/* The name git gives to such a content; zeros for none. */
static cb_code print_git_id(buf *out, bool there, const loaded *c, cb_error *err)
{
	uint8_t id[SHA1_BYTES] = {0};
	if (there) {
		char head[32];
		sha1 sum;
		sha1_init(&sum);
		sha1_add(&sum, head, (size_t)snprintf(head, sizeof(head), "blob %zu", c->size) + 1);
		if (c->size) sha1_add(&sum, c->bytes, c->size);
		sha1_sum(&sum, id);
	}
	for (size_t i = 0; i < sizeof(id); i++) CB_TRY(buf_printf(out, err, "%02x", id[i]));
	return CB_OK;
}

/* patch(1) learns from the ids that a file is empty, and from the mode behind them that it is a link. git wants a line between "diff --git"
 * and the news of a binary file: where no ids are known, the modes. */
static cb_code print_index(buf *out, const cb_change *c, const loaded *old, const loaded *new, cb_error *err)
{
	bool both = c->has_old && c->has_new, known = !old->too_large && !new->too_large;
	unsigned mode = git_mode(c->has_new ? c->new_info : c->old_info);
	bool same_mode = both && git_mode(c->old_info) == mode;
	if (!known && same_mode) return buf_printf(out, err, "old mode %06o\nnew mode %06o\n", mode, mode);
	if (!known) return CB_OK;
	CB_TRY(buf_append_str(out, "index ", err));
	CB_TRY(print_git_id(out, c->has_old, old, err));
	CB_TRY(buf_append_str(out, "..", err));
	CB_TRY(print_git_id(out, c->has_new, new, err));
	if (same_mode) CB_TRY(buf_printf(out, err, " %06o", mode));
	return buf_append_byte(out, '\n', err);
}

static cb_code print_side(buf *out, const char *label, bool there, const char *side, const char *path, cb_error *err)
{
	CB_TRY(buf_append_str(out, label, err));
	return there ? print_name(out, side, path, err) : buf_append_str(out, "/dev/null", err);
}

/* "--- " or "+++ ". A tab ends a name with spaces, of which another reader could take the rest for a date. */
static cb_code print_side_line(buf *out, const char *label, bool there, const char *side, const char *path, cb_error *err)
{
	CB_TRY(print_side(out, label, there, side, path, err));
	return buf_append_str(out, there && strchr(path, ' ') ? "\t\n" : "\n", err);
}

static cb_code print_content(printing *p, const cb_change *c, const char *old_path, cb_error *err)
{
	AUTO_LOADED loaded old = {0};
	AUTO_LOADED loaded new = {0};
	CB_TRY(load_side(p, p->a, c->has_old, c->old_info->ino, &old, err));
	CB_TRY(load_side(p, p->b, c->has_new, c->new_info->ino, &new, err));
	buf *out = p->out;
	CB_TRY(print_index(out, c, &old, &new, err));
	if (old.binary || new.binary) {
		CB_TRY(print_side(out, "Binary files ", c->has_old, "a", old_path, err));
		CB_TRY(print_side(out, " and ", c->has_new, "b", c->path, err));
		return buf_append_str(out, " differ\n", err);
	}
	if (old.size == 0 && new.size == 0) return CB_OK;
	CB_TRY(print_side_line(out, "--- ", c->has_old, "a", old_path, err));
	CB_TRY(print_side_line(out, "+++ ", c->has_new, "b", c->path, err));
	return text_unified(span_make(old.bytes, old.size), span_make(new.bytes, new.size), p->context_lines, out, err);
}

static cb_code print_change(void *context, const cb_change *c, cb_error *err)
{
	printing *p = context;
	if (c->kind == CB_KEYVALUE) return CB_OK;                                 /* git has no word for it; cb_diff lists it */
	if (c->has_old && c->has_new && c->old_info->type != c->new_info->type) { /* as git: one goes, the other comes */
		cb_change gone = *c, came = *c;
		gone.kind = CB_DELETED;
		gone.has_new = false;
		came.kind = CB_ADDED;
		came.has_old = false;
		CB_TRY(print_change(p, &gone, err));
		return print_change(p, &came, err);
	}
	const cb_stat_info *info = c->has_new ? c->new_info : c->old_info;
	bool mode_only = c->kind == CB_ATTRS && git_mode(c->old_info) == git_mode(c->new_info);
	if (info->type == CB_DIR || mode_only) return CB_OK; /* nor for these */
	const char *old_path = c->old_path ? c->old_path : c->path;
	CB_TRY(print_header(p->out, c, old_path, err));
	bool content = c->kind == CB_ADDED || c->kind == CB_DELETED || c->kind == CB_MODIFIED || c->modified;
	return content ? print_content(p, c, old_path, err) : CB_OK;
}

/* ---- counting ---- */

/* Changes are known when it is opened; the lines of each are counted when it is asked for. */
typedef struct stat_cursor {
	cb_cursor c;
	snapshot a, b;
	cb_cursor *changes;
	const void *counting; /* a cb_change whose lines are not counted yet: a limit may end that, and the next call goes on */
	cb_change_stat stat;
} stat_cursor;

static cb_code count_lines(const loaded *old, const loaded *new, cb_change_stat *out, cb_error *err)
{
	AUTO_FREE text_hunk *hunks = NULL;
	size_t count = 0;
	CB_TRY(text_diff(span_make(old->bytes, old->size), span_make(new->bytes, new->size), &hunks, &count, err));
	for (size_t i = 0; i < count; i++) {
		out->removed += hunks[i].old_count;
		out->added += hunks[i].new_count;
	}
	return CB_OK;
}

static cb_code count_change(stat_cursor *k, const cb_change *c, cb_error *err)
{
	printing p = {k->c.cs, &k->a, &k->b, 0, NULL};
	cb_change_stat stat = CB_WITH(cb_change_stat, .change = c);
	AUTO_LOADED loaded old = {0};
	AUTO_LOADED loaded new = {0};
	bool old_file = c->has_old && c->old_info->type != CB_DIR, new_file = c->has_new && c->new_info->type != CB_DIR;
	if (old_file) stat.old_bytes = c->old_info->size;
	if (new_file) stat.new_bytes = c->new_info->size;
	bool content = c->kind == CB_ADDED || c->kind == CB_DELETED || c->kind == CB_MODIFIED || c->modified;
	if (content) CB_TRY(load_side(&p, p.a, old_file, c->old_info->ino, &old, err));
	if (content) CB_TRY(load_side(&p, p.b, new_file, c->new_info->ino, &new, err));
	stat.binary = old.binary || new.binary;
	if (content && !stat.binary) CB_TRY(count_lines(&old, &new, &stat, err));
	k->stat = stat;
	return CB_OK;
}

static bool is_countable(const cb_change *c)
{
	bool file = (c->has_new && c->new_info->type != CB_DIR) || (c->has_old && c->old_info->type != CB_DIR);
	return c->kind != CB_KEYVALUE && file;
}

static cb_code stat_next(cb_cursor *c, const void **out, cb_error *err)
{
	stat_cursor *k = (stat_cursor *)c;
	*out = NULL;
	while (!k->counting) {
		const void *next = NULL; /* a limit may also end the search for it, after one that is not counted */
		CB_TRY(cursor_next(k->changes, &next, err));
		if (!next) return CB_OK;
		if (is_countable(next)) k->counting = next;
	}
	CB_TRY(count_change(k, k->counting, err));
	k->counting = NULL;
	*out = &k->stat;
	return CB_OK;
}

static void stat_done(cb_cursor *c)
{
	stat_cursor *k = (stat_cursor *)c;
	cb_cursor_close(k->changes);
	snapshot_done(&k->a);
	snapshot_done(&k->b);
}

cb_code cb_diff_stat_open(cb_box *from, cb_box *to, const char *path, cb_cursor **out, cb_error *err)
{
	static const cursor_ops ops = {CURSOR_CHANGE_STATS, stat_next, stat_done, true};
	stat_cursor *k = NULL;
	NEED(err, "from to out", from, to, out);
	CB_TRY(args_path("path", path, err));
	CB_TRY(cursor_create(sizeof(*k), &ops, from->cs, from, &k, err));
	AUTO_FREE char *within = NULL;
	cb_code code = snapshot_pair(from, to, path, &k->a, &k->b, &within, err);
	if (code == CB_OK) code = diff_snapshots(from->cs, &k->a, &k->b, within, &k->changes, err);
	if (code == CB_OK) *out = &k->c;
	else cb_cursor_close(&k->c);
	return code;
}

cb_code cb_diff_stat(cb_box *from, cb_box *to, const char *path, cb_change_stat_visit visit, void *context, cb_error *err)
{
	NEED(err, "from to visit", from, to, visit);
	AUTO_CLOSE cb_cursor *c = NULL;
	CB_TRY(cb_diff_stat_open(from, to, path, &c, err));
	return CURSOR_VISIT(c, visit, context, err);
}

/* ---- printing ---- */

typedef struct choosing {
	const cb_diff_text_options *options;
	printing p;
} choosing;

static cb_code print_chosen(void *context, const cb_change *c, cb_error *err)
{
	choosing *k = context;
	if (k->options->skip && k->options->skip(k->options->context, c)) return CB_OK;
	return print_change(&k->p, c, err);
}

cb_code cb_diff_text(cb_box *from, cb_box *to, const cb_diff_text_options *options, char **out, size_t *out_size, cb_error *err)
{
	NEED(err, "from to out", from, to, out);
	BOX_STAYS(from);
	BOX_STAYS(to);
	cb_diff_text_options o;
	CB_TRY(SIZED_TAKE(cb_diff_text_options, context, &o, options, err));
	CB_TRY(args_path("path", o.path, err));
	AUTO_SNAPSHOT snapshot a = {0};
	AUTO_SNAPSHOT snapshot b = {0};
	AUTO_FREE char *within = NULL;
	CB_TRY(snapshot_pair(from, to, o.path, &a, &b, &within, err));
	AUTO_BUF buf text = BUF_INIT(TEXT_OUT_MAX);
	unsigned lines = o.has_context ? o.context_lines : 3;
	choosing k = {&o, {from->cs, &a, &b, lines, &text}};
	cb_cursor *changes = NULL;
	CB_TRY(diff_snapshots_by_path(from->cs, &a, &b, within, &changes, err));
	CB_TRY(diff_visit(changes, print_chosen, &k, err));
	return buf_take(&text, out, out_size, err);
}
