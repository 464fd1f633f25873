/* find.c: cb_find: what is below a path and passes every test that was given, the cheap ones first. */
#include "base/args.h"
#include "base/limits.h"
#include "base/sized.h"
#include "box/cursor.h"
#include "search/scope.h"

typedef struct find {
	cb_cursor c;
	reading view;
	cb_find_options o; /* its texts are not used but for those in `texts` */
	char *texts[3];    /* tag, meta, meta_value: the caller's may be gone */
	glob *name, *lower_name, *path;
	uint64_t results;
	bool started;
	box_node node; /* that was looked at last, */
	bool to_enter; /* a folder that is to be entered */
	cb_stat_info info;
	cb_entry entry;
} find;

static void to_lower(char *s)
{
	for (; *s; s++)
		if (*s >= 'A' && *s <= 'Z') *s = (char)(*s | 0x20);
}

static cb_code text_keep(const char **text, char **out, cb_error *err)
{
	if (!*text) return CB_OK;
	*text = *out = mem_strdup(*text);
	return *out ? CB_OK : cb_err_nomem(err);
}

static cb_code find_init(find *f, const cb_find_options *o, cb_error *err)
{
	f->o = *o;
	CB_TRY(text_keep(&f->o.tag, &f->texts[0], err));
	CB_TRY(text_keep(&f->o.meta, &f->texts[1], err));
	span value = sized_bytes(o->meta_value, o->meta_value_size);
	if (o->meta_value) {
		f->o.meta_value = f->texts[2] = mem_dup(value.bytes, value.size);
		f->o.meta_value_size = value.size;
		if (!f->texts[2]) return cb_err_nomem(err);
	}
	if (o->name && strchr(o->name, '/')) return cb_err_set(err, CB_INVALID, "a name has no '/': match the whole path instead");
	if (o->meta_value && !o->meta) return cb_err_set(err, CB_INVALID, "a metadata value needs its name");
	if (o->name) CB_TRY(glob_compile(o->name, &f->name, err));
	if (o->name && o->ignore_case) {
		AUTO_FREE char *lower = mem_strdup(o->name);
		if (!lower) return cb_err_nomem(err);
		to_lower(lower);
		CB_TRY(glob_compile(lower, &f->lower_name, err));
	}
	return o->path_glob ? glob_compile(o->path_glob, &f->path, err) : CB_OK;
}

static bool name_matches(const find *f, const char *path)
{
	const char *name = last_component(path);
	if (!f->name || glob_match(f->name, span_str(name))) return true;
	if (!f->lower_name || strlen(name) > LIMIT_NAME_BYTES) return false;
	char lower[LIMIT_NAME_BYTES + 1];
	strcpy(lower, name);
	to_lower(lower);
	return glob_match(f->lower_name, span_str(lower));
}

static bool numbers_match(const cb_find_options *o, const box_node *r)
{
	if (o->type && r->type != o->type) return false;
	if ((o->has_min_size || o->has_max_size) && r->type == CB_DIR) return false;
	if (o->has_min_size && r->size < o->min_size) return false;
	if (o->has_max_size && r->size > o->max_size) return false;
	if (o->newer_ns && r->mtime_ns <= o->newer_ns) return false;
	return !o->older_ns || r->mtime_ns < o->older_ns;
}

static cb_code is_empty(const find *f, const box_node *r, bool *out, cb_error *err)
{
	*out = r->type == CB_FILE && r->size == 0;
	if (r->type != CB_DIR) return CB_OK;
	AUTO_WALK look_walk *entries = NULL;
	box_node first;
	bool found = false;
	CB_TRY(look_walk_open(f->view.now, "", r->ino, &entries, err));
	CB_TRY(look_walk_next(entries, &first, &found, err));
	*out = !found;
	return CB_OK;
}

static cb_code matches(const find *f, const char *path, const box_node *r, bool *out, cb_error *err)
{
	const cb_find_options *o = &f->o;
	span value = sized_bytes(o->meta_value, o->meta_value_size);
	*out = numbers_match(o, r) && name_matches(f, path) && (!f->path || glob_match(f->path, span_str(path + 1)));
	if (*out && o->empty) CB_TRY(is_empty(f, r, out, err));
	if (*out && o->tag) CB_TRY(look_has(f->view.now, r, 't', o->tag, NULL, out, err));
	if (*out && o->meta) CB_TRY(look_has(f->view.now, r, 'm', o->meta, o->meta_value ? &value : NULL, out, err));
	return CB_OK;
}

/* Is it wanted? Then it is what is given. */
static cb_code give(find *f, const char *path, const box_node *r, const void **out, cb_error *err)
{
	bool wanted = false;
	CB_TRY(matches(f, path, r, &wanted, err));
	if (!wanted) return CB_OK;
	f->results++;
	f->info = node_stat(r);
	f->entry = CB_WITH(cb_entry, .path = path, .info = &f->info);
	*out = &f->entry;
	return CB_OK;
}

static cb_code find_next(cb_cursor *c, const void **out, cb_error *err)
{
	find *f = (find *)c;
	look_walk *w = f->view.w;
	*out = NULL;
	if (f->o.max_results && f->results == f->o.max_results) return CB_OK;
	if (!f->started) CB_TRY(give(f, f->view.path, &f->view.first, out, err));
	f->started = true;
	while (w && !*out) {
		const box_node *n = &f->node;
		bool found = false;
		/* Only now, when somebody asks for more: the path that was lent may change. */
		if (f->to_enter) CB_TRY(look_walk_enter(w, n, err));
		f->to_enter = false;
		CB_TRY(look_walk_next(w, &f->node, &found, err));
		if (!found) return CB_OK;
		f->to_enter = n->type == CB_DIR && !(f->o.max_depth && w->depth >= f->o.max_depth) &&
		              (!f->path || glob_may_match_below(f->path, span_str(w->path + 1)));
		CB_TRY(give(f, w->path, n, out, err));
	}
	return CB_OK;
}

static void find_done(cb_cursor *c)
{
	find *f = (find *)c;
	reading_end(&f->view);
	for (size_t i = 0; i < ARRAY_LEN(f->texts); i++) free(f->texts[i]);
	glob_destroy(f->name);
	glob_destroy(f->lower_name);
	glob_destroy(f->path);
}

cb_code cb_find_open(cb_box *box, const char *path, const cb_find_options *options, cb_cursor **out, cb_error *err)
{
	static const cursor_ops ops = {CURSOR_ENTRIES, find_next, find_done, false};
	find *f = NULL;
	cb_find_options o;
	NEED(err, "box path out", box, path, out);
	CB_TRY(SIZED_TAKE(cb_find_options, max_results, &o, options, err));
	CB_TRY(args_member("type", (int)o.type, 0, CB_SYMLINK, err));
	CB_TRY(args_name("name", o.name, err));
	CB_TRY(args_name("path_glob", o.path_glob, err));
	CB_TRY(args_name("tag", o.tag, err));
	CB_TRY(args_name("meta", o.meta, err));
	CB_TRY(args_bytes("meta_value", o.meta_value, o.meta_value_size, err));
	if (o.meta_value && !o.meta) return cb_err_set(err, CB_INVALID, "the argument 'meta_value' is of no use without 'meta'");
	if (sized_bytes(o.meta_value, o.meta_value_size).size > LIMIT_XATTR_VALUE_BYTES)
		return cb_err_set(err, CB_TOOBIG, "a value may have %d bytes", LIMIT_XATTR_VALUE_BYTES);
	CB_TRY(cursor_create(sizeof(*f), &ops, box_about(box).store, box, &f, err));
	cb_code code = find_init(f, &o, err);
	if (code == CB_OK) code = reading_begin(&f->view, box, path, false, err);
	if (code == CB_OK) *out = &f->c;
	else cb_cursor_close(&f->c);
	return code;
}

cb_code cb_find(cb_box *box, const char *path, const cb_find_options *options, cb_walk_visit visit, void *context, cb_error *err)
{
	NEED(err, "box path visit", box, path, visit);
	AUTO_CLOSE cb_cursor *c = NULL;
	CB_TRY(cb_find_open(box, path, options, &c, err));
	return entries_visit(c, visit, context, err);
}
