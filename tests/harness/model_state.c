/* model_state.c: see model_state.h. */
#include "harness/model_state.h"

#include <stdarg.h>

void *model_alloc(size_t size)
{
	void *p = malloc(size ? size : 1);
	CHECK(p != NULL);
	return p;
}

char *model_strdup(const char *text)
{
	size_t size = strlen(text) + 1;
	return memcpy(model_alloc(size), text, size);
}

static char *copy_bytes(const void *bytes, size_t size)
{
	char *out = model_alloc(size + 1);
	if (size) memcpy(out, bytes, size);
	out[size] = 0;
	return out;
}

/* ---- entries ---- */

static size_t position(const model_state *s, const char *path, bool *found)
{
	size_t low = 0, high = s->count;
	while (low < high) {
		size_t mid = (low + high) / 2;
		if (strcmp(s->entries[mid].path, path) < 0) low = mid + 1;
		else high = mid;
	}
	*found = low < s->count && strcmp(s->entries[low].path, path) == 0;
	return low;
}

model_entry *model_find(const model_state *s, const char *path)
{
	bool found;
	size_t at = position(s, path, &found);
	return found ? &s->entries[at] : NULL;
}

static model_entry *insert_at(model_state *s, size_t at)
{
	if (s->count == s->capacity) {
		s->capacity = s->capacity ? s->capacity * 2 : 32;
		s->entries = realloc(s->entries, s->capacity * sizeof(*s->entries));
		CHECK(s->entries != NULL);
	}
	memmove(s->entries + at + 1, s->entries + at, (s->count - at) * sizeof(*s->entries));
	s->count++;
	s->entries[at] = (model_entry){0};
	return &s->entries[at];
}

model_entry *model_put(model_state *s, const char *path, int type, uint32_t mode, uint64_t ino, const void *bytes, size_t size)
{
	bool found;
	size_t at = position(s, path, &found);
	char *copy = copy_bytes(bytes, size);
	model_entry *e = found ? &s->entries[at] : insert_at(s, at);
	char *old_attrs = e->attrs, *old_bytes = e->bytes;
	*e = (model_entry){found ? e->path : model_strdup(path), type, mode, 1, ino, 0, copy, size, model_strdup(""), 0};
	free(old_bytes);
	free(old_attrs);
	return e;
}

static void entry_done(model_entry *e)
{
	free(e->path);
	free(e->bytes);
	free(e->attrs);
}

void model_remove(model_state *s, const char *path)
{
	bool found;
	size_t at = position(s, path, &found);
	CHECK_MSG(found, "the model has no '%s'", path);
	entry_done(&s->entries[at]);
	memmove(s->entries + at, s->entries + at + 1, (s->count - at - 1) * sizeof(*s->entries));
	s->count--;
}

bool model_within(const char *path, const char *folder)
{
	size_t n = strlen(folder);
	if (n == 1 && folder[0] == '/') return path[0] == '/';
	return strncmp(path, folder, n) == 0 && (path[n] == 0 || path[n] == '/');
}

bool model_has_below(const model_state *s, const char *folder)
{
	for (size_t i = 0; i < s->count; i++)
		if (model_within(s->entries[i].path, folder) && strcmp(s->entries[i].path, folder) != 0) return true;
	return false;
}

static int compare_entries(const void *a, const void *b)
{
	const model_entry *x = a, *y = b;
	return strcmp(x->path, y->path);
}

void model_move(model_state *s, const char *from, const char *to)
{
	size_t n = strlen(from), m = strlen(to);
	for (size_t i = 0; i < s->count; i++) {
		char *old = s->entries[i].path;
		if (!model_within(old, from)) continue;
		size_t rest = strlen(old) - n;
		char *path = model_alloc(m + rest + 1);
		memcpy(path, to, m);
		memcpy(path + m, old + n, rest + 1);
		s->entries[i].path = path;
		free(old);
	}
	qsort(s->entries, s->count, sizeof(*s->entries), compare_entries);
}

model_state *model_copy(const model_state *s)
{
	model_state *out = model_alloc(sizeof(*out));
	*out = (model_state){model_alloc((s->count + 1) * sizeof(model_entry)), s->count, s->count + 1};
	for (size_t i = 0; i < s->count; i++) {
		const model_entry *e = &s->entries[i];
		out->entries[i] = *e;
		out->entries[i].path = model_strdup(e->path);
		out->entries[i].bytes = copy_bytes(e->bytes, e->size);
		out->entries[i].attrs = model_strdup(e->attrs);
	}
	return out;
}

void model_free(model_state *s)
{
	if (!s) return;
	for (size_t i = 0; i < s->count; i++) entry_done(&s->entries[i]);
	free(s->entries);
	free(s);
}

/* ---- reading a box ---- */

typedef struct reading {
	cb_box *b;
	model_state *s;
	const char *kind; /* of the attributes that are being listed */
	char attrs[1024];
} reading;

static cb_code read_attr(void *context, const char *name, const char *value, size_t size, cb_error *err)
{
	(void)err;
	reading *r = context;
	size_t used = strlen(r->attrs);
	(void)snprintf(r->attrs + used, sizeof(r->attrs) - used, "%s %s=%.*s\n", r->kind, name, value ? (int)size : 0,
	               value ? value : "");
	return CB_OK;
}

static cb_code read_entry(void *context, const char *path, const cb_stat_info *info, cb_error *unused)
{
	(void)unused;
	cb_error err = {0};
	reading *r = context;
	char *bytes = NULL;
	size_t size = 0;
	if (info->type == CB_FILE) CHECK_OK(cb_read_file(r->b, path, &bytes, &size, &err));
	if (info->type == CB_SYMLINK) CHECK_OK(cb_readlink(r->b, path, &bytes, NULL, &err));
	if (info->type == CB_SYMLINK) size = strlen(bytes);
	if (info->type != CB_DIR) CHECK_U64(size, info->size);
	model_entry *e = model_put(r->s, path, (int)info->type, info->mode, info->ino, bytes, size);
	cb_free(bytes);
	e->links = info->links;
	e->version = info->version;
	e->mtime_ns = info->mtime_ns;
	r->attrs[0] = 0;
	r->kind = "xattr";
	CHECK_OK(cb_xattr_list(r->b, path, CB_NOFOLLOW, read_attr, r, &err));
	if (info->type != CB_SYMLINK) { /* these two follow links */
		r->kind = "tag";
		CHECK_OK(cb_tag_list(r->b, path, read_attr, r, &err));
		r->kind = "meta";
		CHECK_OK(cb_meta_list(r->b, path, read_attr, r, &err));
	}
	free(e->attrs);
	e->attrs = model_strdup(r->attrs);
	return CB_OK;
}

static cb_code read_key(void *context, const char *name, const char *value, size_t size, cb_error *err)
{
	(void)err;
	reading *r = context;
	char path[300];
	(void)snprintf(path, sizeof(path), "key %s", name);
	(void)model_put(r->s, path, 0, 0, 0, value, size);
	return CB_OK;
}

model_state *model_read(cb_box *b)
{
	cb_error err = {0};
	model_state *s = model_alloc(sizeof(*s));
	*s = (model_state){0};
	reading r = {.b = b, .s = s};
	CHECK_OK(cb_walk(b, "/", read_entry, &r, &err));
	CHECK_OK(cb_kv_list(b, "", read_key, &r, &err));
	return s;
}

/* ---- comparing ---- */

bool model_entry_same(const model_entry *a, const model_entry *b)
{
	if (!a || !b) return a == b;
	return a->type == b->type && a->mode == b->mode && a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0 &&
	       strcmp(a->attrs, b->attrs) == 0;
}

bool model_same(const model_state *a, const model_state *b)
{
	if (a->count != b->count) return false;
	for (size_t i = 0; i < a->count; i++)
		if (strcmp(a->entries[i].path, b->entries[i].path) != 0 || !model_entry_same(&a->entries[i], &b->entries[i]))
			return false;
	return true;
}

typedef struct text {
	char bytes[3500]; /* what fits into one note */
	size_t size;
} text;

static void say_entry(text *t, char sign, const model_entry *e)
{
	if (!e || t->size > sizeof(t->bytes) - 400) return;
	int n = snprintf(t->bytes + t->size, sizeof(t->bytes) - t->size, "  %c %d %04o %zu \"%.80s\" %.80s %.150s\n", sign, e->type,
	                 e->mode, e->size, e->bytes, e->attrs, e->path);
	t->size += n < 0 ? 0 : (size_t)n;
}

char *model_explain(const model_state *a, const model_state *b)
{
	text t = {.size = 0};
	t.bytes[0] = 0;
	for (size_t i = 0; i < a->count; i++) {
		const model_entry *other = model_find(b, a->entries[i].path);
		if (model_entry_same(&a->entries[i], other)) continue;
		say_entry(&t, '-', &a->entries[i]);
		say_entry(&t, '+', other);
	}
	for (size_t i = 0; i < b->count; i++)
		if (!model_find(a, b->entries[i].path)) say_entry(&t, '+', &b->entries[i]);
	return model_strdup(t.bytes);
}

void model_must_equal(const model_state *expected, const model_state *actual, const char *file, int line, const char *what)
{
	if (model_same(expected, actual)) return;
	char *difference = model_explain(expected, actual);
	test_note("%s: expected (-) and actual (+) differ:\n%s", what, difference);
	free(difference);
	test_fail(file, line, "%s: the states differ", what);
}

/* ---- the trace ---- */

void model_note(model_trace *t, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	char *line = t->lines[t->count++ % 64];
	(void)vsnprintf(line, sizeof(t->lines[0]), format, args);
	va_end(args);
	if (getenv("COWBOX_TRACE")) test_note("%s", line);
}

void model_tell(const model_trace *t)
{
	unsigned from = t->count > 64 ? t->count - 64 : 0;
	for (unsigned i = from; i < t->count; i++) test_note("  %u: %s", i, t->lines[i % 64]);
}
