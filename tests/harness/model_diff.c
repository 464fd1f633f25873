/* model_diff.c: see model_diff.h. */
#include "harness/model_diff.h"

cb_code model_diff_hear(void *context, const cb_change *c, cb_error *err)
{
	(void)err;
	model_diff *t = context;
	CHECK(t->count < MODEL_CHANGES);
	model_change *n = &t->all[t->count++];
	*n = (model_change){.kind = c->kind, .modified = c->modified, .attributes = c->attributes};
	n->replaced = !c->old_path && c->has_old && c->has_new && c->kind != CB_KEYVALUE && c->old_info->ino != c->new_info->ino;
	(void)snprintf(n->path, sizeof(n->path), "%s%s", c->kind == CB_KEYVALUE ? "key " : "", c->path);
	if (c->old_path) (void)snprintf(n->old_path, sizeof(n->old_path), "%s", c->old_path);
	return CB_OK;
}

static const model_change *told_at(const model_diff *t, const char *path, cb_change_kind kind)
{
	for (size_t i = 0; i < t->count; i++)
		if (t->all[i].kind == kind && strcmp(t->all[i].path, path) == 0) return &t->all[i];
	return NULL;
}

/* Does a change of this path, of whatever kind, tell other attributes? */
static bool attributes_told(const model_diff *t, const char *path)
{
	for (size_t i = 0; i < t->count; i++)
		if (t->all[i].kind != CB_DELETED && t->all[i].attributes && strcmp(t->all[i].path, path) == 0) return true;
	return false;
}

/* Where an old path is now, by the deepest rename on the way to it. */
static const model_change *moved_by(const model_diff *t, const char *path, char out[256])
{
	const model_change *best = NULL;
	for (size_t i = 0; i < t->count; i++)
		if (t->all[i].kind == CB_RENAMED && model_within(path, t->all[i].old_path) &&
		    (!best || strlen(t->all[i].old_path) > strlen(best->old_path)))
			best = &t->all[i];
	(void)snprintf(out, 256, "%s%s", best ? best->path : "", path + (best ? strlen(best->old_path) : 0));
	return best;
}

static bool is_replaced(const model_diff *t, const char *path)
{
	for (size_t i = 0; i < t->count; i++)
		if (t->all[i].replaced && strcmp(t->all[i].path, path) == 0) return true;
	return false;
}

static void diff_wrong(const model_trace *trace, const model_diff *t, const char *path, const char *what)
{
	model_tell(trace);
	for (size_t i = 0; i < t->count; i++) test_note("  %c %s %s", t->all[i].kind, t->all[i].path, t->all[i].old_path);
	test_fail(__FILE__, __LINE__, "diff: '%s' %s", path, what);
}

void model_diff_check(const model_trace *trace, const model_state *a, const model_state *b, const model_diff *t)
{
	model_state *image = model_alloc(sizeof(*image));
	*image = (model_state){0};
	for (size_t i = 0; i < a->count; i++) {
		const model_entry *e = &a->entries[i];
		char now[256];
		if (e->type == 0 ? told_at(t, e->path, CB_KEYVALUE) && !model_find(b, e->path)
		                 : told_at(t, e->path, CB_DELETED) != NULL)
			continue;
		const model_change *by = moved_by(t, e->path, now);
		if (is_replaced(t, e->path)) {
			by = NULL;
			(void)snprintf(now, sizeof(now), "%s", e->path);
		}
		(void)model_put(image, now, e->type, 0, 0, "", 0);
		const model_entry *there = model_find(b, now);
		if (!there) diff_wrong(trace, t, e->path, "is gone, which was not told");
		bool said = told_at(t, now, e->type == 0 ? CB_KEYVALUE : CB_MODIFIED) ||
		            (by && strcmp(by->old_path, e->path) == 0 && by->modified);
		bool differs = there->type != e->type || there->size != e->size || memcmp(there->bytes, e->bytes, e->size) != 0;
		if (differs != said) diff_wrong(trace, t, now, differs ? "differs, which was not told" : "does not differ");
		if (!differs && there->mode != e->mode && !told_at(t, now, CB_ATTRS) && !by)
			diff_wrong(trace, t, now, "has another mode");
		if ((strcmp(there->attrs, e->attrs) != 0) != attributes_told(t, now))
			diff_wrong(trace, t, now, "has other attributes, or was said to");
	}
	for (size_t i = 0; i < t->count; i++) {
		if (t->all[i].kind == CB_DELETED && !model_find(a, t->all[i].path))
			diff_wrong(trace, t, t->all[i].path, "was not there");
		const model_entry *only = t->all[i].kind == CB_ADDED     ? model_find(b, t->all[i].path)
		                          : t->all[i].kind == CB_DELETED ? model_find(a, t->all[i].path)
		                                                         : NULL;
		if (only && (only->attrs[0] != 0) != t->all[i].attributes)
			diff_wrong(trace, t, only->path, "came or went with attributes, or was said to");
		if (t->all[i].kind == CB_ADDED || (t->all[i].kind == CB_KEYVALUE && model_find(b, t->all[i].path)))
			(void)model_put(image, t->all[i].path, 1, 0, 0, "", 0);
	}
	for (size_t i = 0; i < b->count; i++)
		if (!model_find(image, b->entries[i].path)) diff_wrong(trace, t, b->entries[i].path, "is new, which was not told");
	if (image->count != b->count) diff_wrong(trace, t, "?", "told more than there is");
	model_free(image);
}
