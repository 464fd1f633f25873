/* model_ops.c: see model_ops.h. */
#include "harness/model_ops.h"

int model_type(const model_state *s, const char *path)
{
	const model_entry *e = model_find(s, path);
	return e ? e->type : 0;
}

bool model_reachable(const model_state *s, const char *path)
{
	char part[64];
	for (const char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
		(void)snprintf(part, sizeof(part), "%.*s", (int)(at - path), path);
		if (model_type(s, part) != CB_DIR) return false;
	}
	return true;
}

static void set_by_ino(model_state *s, uint64_t ino, const char *bytes, size_t size)
{
	for (size_t i = 0; i < s->count; i++) {
		model_entry *e = &s->entries[i];
		if (e->ino != ino || e->type != CB_FILE) continue;
		free(e->bytes);
		e->bytes = model_alloc(size + 1);
		memcpy(e->bytes, bytes, size);
		e->bytes[size] = 0;
		e->size = size;
	}
}

bool model_write(model_state *s, const char *path, const char *bytes, size_t size, bool append, uint64_t *inos)
{
	model_entry *e = model_find(s, path);
	if (!model_reachable(s, path) || (e && e->type != CB_FILE)) return false;
	if (!e) {
		(void)model_put(s, path, CB_FILE, 0644, ++*inos, bytes, size);
	} else if (append) {
		char *joined = model_alloc(e->size + size + 1);
		memcpy(joined, e->bytes, e->size);
		memcpy(joined + e->size, bytes, size);
		set_by_ino(s, e->ino, joined, e->size + size);
		free(joined);
	} else {
		set_by_ino(s, e->ino, bytes, size);
	}
	return true;
}

bool model_remove_all(model_state *s, const char *path)
{
	if (!model_reachable(s, path) || !model_find(s, path)) return false;
	for (size_t i = s->count; i > 0; i--)
		if (model_within(s->entries[i - 1].path, path)) model_remove(s, s->entries[i - 1].path);
	return true;
}

bool model_rename(model_state *s, const char *from, const char *to)
{
	model_entry *f = model_find(s, from), *t = model_find(s, to);
	if (!f || !model_reachable(s, from) || !model_reachable(s, to)) return false;
	if (f->type == CB_DIR && model_within(to, from) && strcmp(from, to) != 0) return false;
	if (model_within(from, to) && strcmp(from, to) != 0) return false;
	if (t && (f->ino == t->ino || strcmp(from, to) == 0)) return true;
	if (t && (f->type == CB_DIR) != (t->type == CB_DIR)) return false;
	if (t && t->type == CB_DIR && model_has_below(s, to)) return false;
	if (t) model_remove(s, to);
	model_move(s, from, to);
	return true;
}

bool model_link(model_state *s, const char *from, const char *to)
{
	const model_entry *f = model_find(s, from);
	if (!f || !model_reachable(s, from) || !model_reachable(s, to) || model_find(s, to) || f->type == CB_DIR) return false;
	model_entry copy = *f;
	(void)model_put(s, to, copy.type, copy.mode, copy.ino, copy.bytes, copy.size);
	return true;
}

bool model_make(model_state *s, const char *path, int type, const char *target, uint64_t *inos)
{
	if (!model_reachable(s, path) || model_find(s, path)) return false;
	(void)model_put(s, path, type, type == CB_DIR ? 0755 : 0777, ++*inos, target, strlen(target));
	return true;
}

bool model_chmod(model_state *s, const char *path, uint32_t mode)
{
	const model_entry *e = model_find(s, path);
	if (!e || !model_reachable(s, path) || e->type == CB_SYMLINK) return false;
	for (size_t i = 0; i < s->count; i++)
		if (s->entries[i].ino == e->ino && s->entries[i].type != 0) s->entries[i].mode = mode;
	return true;
}

void model_count(const model_state *s, uint64_t *files, uint64_t *bytes)
{
	*files = *bytes = 0;
	for (size_t i = 0; i < s->count; i++) {
		const model_entry *e = &s->entries[i];
		if (e->type == 0 || strcmp(e->path, "/") == 0) continue;
		bool seen = false;
		for (size_t k = 0; k < i && !seen; k++) seen = s->entries[k].type != 0 && s->entries[k].ino == e->ino;
		if (seen) continue;
		++*files;
		if (e->type != CB_DIR) *bytes += e->size;
	}
}

bool model_has_links(const model_state *s)
{
	for (size_t i = 0; i < s->count; i++)
		for (size_t k = 0; k < i; k++)
			if (s->entries[i].type == CB_FILE && s->entries[k].type != 0 && s->entries[i].ino == s->entries[k].ino)
				return true;
	return false;
}

model_state *model_restore(const model_state *now, const model_state *from, const char *path, uint64_t *inos)
{
	model_state *s = model_copy(now);
	for (size_t i = s->count; i > 0; i--)
		if (model_within(s->entries[i - 1].path, path)) model_remove(s, s->entries[i - 1].path);
	for (size_t i = 0; i < from->count; i++) {
		const model_entry *e = &from->entries[i];
		if (!model_within(e->path, path)) continue;
		const model_entry *was = model_find(now, e->path);
		(void)model_put(s, e->path, e->type, e->mode, was && was->type == e->type ? was->ino : ++*inos, e->bytes, e->size);
	}
	return s;
}
