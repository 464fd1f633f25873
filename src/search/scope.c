/* scope.c: globs that choose, and what a search reads. */
#include "search/scope.h"

#include "base/args.h"

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

static cb_code globs_init(const char *name, const char *const *patterns, size_t count, scope_glob **out, size_t *out_count,
                          cb_error *err)
{
	if (count == 0) return CB_OK;
	if (count > LIMIT_GREP_GLOBS) return cb_err_set(err, CB_LIMIT, "%zu globs: at most %d", count, LIMIT_GREP_GLOBS);
	CB_TRY(args_strings(name, patterns, count, err));
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
	cb_code code = globs_init("include", options->include, options->include_count, &s->include, &s->include_count, err);
	if (code == CB_OK)
		code = globs_init("exclude", options->exclude, options->exclude_count, &s->exclude, &s->exclude_count, err);
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

/* ---- reading ---- */

cb_code reading_begin(reading *v, cb_box *b, const char *path, bool follow, cb_error *err)
{
	CB_TRY(look_open(b, LOOK_AS_SEEN, &v->now, err));
	CB_TRY(look_find(v->now, path, follow, &v->first, err));
	v->path = path_clean(path);
	if (!v->path) return cb_err_nomem(err);
	return v->first.type == CB_DIR ? look_walk_open(v->now, v->path, v->first.ino, &v->w, err) : CB_OK;
}

void reading_end(reading *v)
{
	look_walk_close(v->w);
	look_close(v->now);
	free(v->path);
	*v = (reading){0};
}
