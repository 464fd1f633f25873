/* find.c: cb_find: what is below a path and passes every test that was given, the cheap ones first. */
#include "base/args.h"
#include "base/sized.h"
#include "search/scope.h"

typedef struct find {
	reading view;
	const cb_find_options *o;
	glob *name, *lower_name, *path;
	uint64_t results;
} find;

static void to_lower(char *s)
{
	for (; *s; s++)
		if (*s >= 'A' && *s <= 'Z') *s = (char)(*s | 0x20);
}

static cb_code find_init(find *f, cb_error *err)
{
	const cb_find_options *o = f->o;
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
	AUTO_LIST look_list *entries = NULL;
	span name;
	box_node first;
	bool found = false;
	CB_TRY(look_list_open(f->view.now, r->ino, &entries, err));
	CB_TRY(look_list_next(entries, &name, &first, &found, err));
	*out = !found;
	return CB_OK;
}

static cb_code matches(const find *f, const char *path, const box_node *r, bool *out, cb_error *err)
{
	const cb_find_options *o = f->o;
	span value = sized_bytes(o->meta_value, o->meta_value_size);
	*out = numbers_match(o, r) && name_matches(f, path) && (!f->path || glob_match(f->path, span_str(path + 1)));
	if (*out && o->empty) CB_TRY(is_empty(f, r, out, err));
	if (*out && o->tag) CB_TRY(look_has(f->view.now, r, 't', o->tag, NULL, out, err));
	if (*out && o->meta) CB_TRY(look_has(f->view.now, r, 'm', o->meta, o->meta_value ? &value : NULL, out, err));
	return CB_OK;
}

static cb_code visit_one(find *f, const char *path, const box_node *r, cb_walk_visit visit, void *context, cb_error *err)
{
	bool wanted = false;
	CB_TRY(matches(f, path, r, &wanted, err));
	if (!wanted) return CB_OK;
	cb_stat_info info = node_stat(r);
	CB_TRY(visit(context, path, &info, err));
	return ++f->results == f->o->max_results ? CB_INTERRUPTED : CB_OK;
}

static cb_code find_all(find *f, cb_walk_visit visit, void *context, cb_error *err)
{
	look_walk *w = f->view.w;
	CB_TRY(visit_one(f, f->view.path, &f->view.first, visit, context, err));
	for (bool found = w != NULL; found;) {
		box_node r;
		CB_TRY(look_walk_next(w, &r, &found, err));
		if (!found) break;
		const char *path = w->path;
		bool descend = r.type == CB_DIR && !(f->o->max_depth && w->depth >= f->o->max_depth);
		if (descend && f->path) descend = glob_may_match_below(f->path, span_str(path + 1));
		CB_TRY(visit_one(f, path, &r, visit, context, err));
		if (descend) CB_TRY(look_walk_enter(w, &r, err));
	}
	return CB_OK;
}

cb_code cb_find(cb_box *box, const char *path, const cb_find_options *options, cb_walk_visit visit, void *context, cb_error *err)
{
	NEED(err, "box path visit", box, path, visit);
	cb_find_options o;
	CB_TRY(SIZED_TAKE(cb_find_options, max_results, &o, options, err));
	find f = {.o = &o};
	cb_code code = find_init(&f, err);
	if (code == CB_OK) code = reading_begin(&f.view, box, path, false, err);
	if (code == CB_OK) code = find_all(&f, visit, context, err);
	reading_end(&f.view);
	glob_destroy(f.name);
	glob_destroy(f.lower_name);
	glob_destroy(f.path);
	return code == CB_INTERRUPTED ? CB_OK : code;
}
