/* lists.c: see lists.h. */
#include "harness/lists.h"

static const char *const names[LIST_KINDS] = {
	[LIST_READDIR] = "readdir /",
	[LIST_READDIR_WORK] = "readdir /work",
	[LIST_WALK] = "walk /",
	[LIST_WALK_FILE] = "walk of a file",
	[LIST_GLOB] = "glob",
	[LIST_FIND] = "find",
	[LIST_FIND_META] = "find by metadata",
	[LIST_GREP] = "grep",
	[LIST_GREP_AROUND] = "grep with context",
	[LIST_XATTR] = "xattr",
	[LIST_TAG] = "tag",
	[LIST_META] = "meta",
	[LIST_KV] = "kv",
	[LIST_DIFF] = "diff",
	[LIST_DIFF_STAT] = "diff_stat",
	[LIST_CONFLICTS] = "conflicts",
	[LIST_LOG] = "log",
	[LIST_LOG_FILE] = "log of a file",
	[LIST_LOG_FOLDER] = "log of a folder",
	[LIST_DIFF_STEP] = "diff_step",
	[LIST_BLAME] = "blame",
	[LIST_CHECKPOINTS] = "checkpoints",
	[LIST_BOXES] = "boxes",
	[LIST_AUDIT] = "audit",
	[LIST_USES] = "uses",
};

const char *list_name(list_kind kind)
{
	return names[kind];
}

/* ---- entries as text ---- */

static void put_info(FILE *to, const cb_stat_info *i)
{
	(void)fprintf(to, "%" PRIu64 " %d %o %u %" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64 " %" PRId64, i->ino, (int)i->type,
	              i->mode, i->links, i->size, i->version, i->mtime_ns, i->ctime_ns, i->atime_ns);
}

static void put_entry(FILE *to, const char *path, const cb_stat_info *info)
{
	(void)fprintf(to, "%s ", path);
	put_info(to, info);
	(void)fputc('\n', to);
}

static void put_name(FILE *to, const char *name, const char *value, size_t size)
{
	(void)fprintf(to, "%s=%s ", name, value ? "" : "(none)");
	for (size_t i = 0; value && i < size; i++) (void)fputc(value[i] ? value[i] : '0', to); /* a NUL would end the text */
	CHECK(!value || value[size] == 0);
	(void)fprintf(to, " %zu\n", size);
}

static void put_step(FILE *to, const cb_step *s)
{
	(void)fprintf(to, "%" PRIu64 " %" PRIu64 " %s %s %.*s %.*s %" PRId64 " %d %" PRIu64 " %s %" PRIu64 " %d\n", s->seq,
	              s->state, s->kind, s->who, (int)s->params_size, s->params, (int)s->result_size, s->result, s->ended_ns,
	              s->changed, s->target, s->other, s->other_seq, s->gap);
}

static void put_change(FILE *to, const cb_change *c)
{
	(void)fprintf(to, "%c %s %s %d %d ", (int)c->kind, c->path, c->old_path ? c->old_path : "-", c->modified, c->attributes);
	if (c->has_old) put_info(to, c->old_info);
	if (c->has_new) put_info(to, c->new_info);
	(void)fputc('\n', to);
}

static void put_stat(FILE *to, const cb_change_stat *s)
{
	(void)fprintf(to, "%d +%" PRIu64 " -%" PRIu64 " %" PRIu64 " %" PRIu64 " ", s->binary, s->added, s->removed, s->old_bytes,
	              s->new_bytes);
	put_change(to, s->change);
}

static void put_line(FILE *to, const cb_blame_line *l)
{
	(void)fprintf(to, "%" PRIu64 " %s %" PRIu64 " %.*s|\n", l->line, l->box, l->seq, (int)l->size, l->text);
}

static void put_checkpoint(FILE *to, const cb_checkpoint *c)
{
	(void)fprintf(to, "%s %" PRIu64 " %" PRId64 " %d\n", c->name, c->seq, c->created_ns, c->automatic);
}

static void put_conflict(FILE *to, const cb_conflict *c)
{
	(void)fprintf(to, "%s %s\n", c->path, c->reason);
}

static void put_box(FILE *to, const cb_box_info *i)
{
	(void)fprintf(to, "%s %" PRIu64 " %s@%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", i->name, i->id,
	              i->origin, i->origin_seq, i->seq, i->state, i->files, i->bytes);
}

static void put_audit(FILE *to, const cb_audit *a)
{
	(void)fprintf(to, "%" PRId64 " %s %s %s %s %d %s %" PRIu64 " %" PRIu64 "\n", a->time_ns, a->box, a->who, a->action,
	              a->subject, (int)a->code, a->message, a->seq, a->count);
}

static void put_use(FILE *to, const cb_use *u)
{
	(void)fprintf(to, "%s@%" PRIu64 " %d %d %s %" PRId64 "\n", u->box, u->seq, u->all_steps, u->pinned, u->why, u->pid);
}

static void put_match(FILE *to, const cb_grep_line *l)
{
	(void)fprintf(to, "%s:%" PRIu64 ":%.*s %d %d", l->path, l->line, (int)l->size, l->text ? l->text : "", l->context,
	              l->binary);
	for (size_t i = 0; i < l->match_count; i++) (void)fprintf(to, " %zu-%zu", l->matches[i].start, l->matches[i].end);
	(void)fputc('\n', to);
}

/* ---- visitors ---- */

static cb_code on_entry(void *to, const char *path, const cb_stat_info *info, cb_error *err)
{
	(void)err;
	put_entry(to, path, info);
	return CB_OK;
}
static cb_code on_name(void *to, const char *name, const char *value, size_t size, cb_error *err)
{
	(void)err;
	put_name(to, name, value, size);
	return CB_OK;
}
#define ON(name, type, put)                                            \
	static cb_code name(void *to, const type *item, cb_error *err) \
	{                                                              \
		(void)err;                                             \
		put(to, item);                                         \
		return CB_OK;                                          \
	}
ON(on_step, cb_step, put_step)
ON(on_change, cb_change, put_change)
ON(on_stat, cb_change_stat, put_stat)
ON(on_line, cb_blame_line, put_line)
ON(on_checkpoint, cb_checkpoint, put_checkpoint)
ON(on_conflict, cb_conflict, put_conflict)
ON(on_box, cb_box_info, put_box)
ON(on_audit, cb_audit, put_audit)
ON(on_use, cb_use, put_use)
ON(on_match, cb_grep_line, put_match)

static const cb_find_options by_meta = {
	.struct_size = sizeof(by_meta), .meta = "level", .meta_value = "high", .meta_value_size = CB_STRING};
static const cb_grep_options for_a = {.struct_size = sizeof(for_a), .pattern = "[ab]c?", .hidden_too = true};
static const cb_grep_options around = {.struct_size = sizeof(around), .pattern = "a", .before = 2, .after = 1, .max_per_file = 3};

static cb_code visit(list_kind kind, const list_world *w, FILE *to, cb_error *err)
{
	cb_box *b = w->b;
	switch (kind) {
	case LIST_READDIR:
		return cb_readdir(b, "/", on_entry, to, err);
	case LIST_READDIR_WORK:
		return cb_readdir(b, "/work", on_entry, to, err);
	case LIST_WALK:
		return cb_walk(b, "/", on_entry, to, err);
	case LIST_WALK_FILE:
		return cb_walk(b, "work//a.txt", on_entry, to, err);
	case LIST_GLOB:
		return cb_glob(b, "/work/**/*[a-m]*", on_entry, to, err);
	case LIST_FIND:
		return cb_find(b, "/work", NULL, on_entry, to, err);
	case LIST_FIND_META:
		return cb_find(b, "/", &by_meta, on_entry, to, err);
	case LIST_GREP:
		return cb_grep(b, "/", &for_a, on_match, to, NULL, err);
	case LIST_GREP_AROUND:
		return cb_grep(b, "/work", &around, on_match, to, NULL, err);
	case LIST_XATTR:
		return cb_xattr_list(b, "/work/a.txt", 0, on_name, to, err);
	case LIST_TAG:
		return cb_tag_list(b, "/work/a.txt", on_name, to, err);
	case LIST_META:
		return cb_meta_list(b, "/work/a.txt", on_name, to, err);
	case LIST_KV:
		return cb_kv_list(b, "", on_name, to, err);
	case LIST_DIFF:
		return cb_diff(w->from, b, NULL, on_change, to, err);
	case LIST_DIFF_STAT:
		return cb_diff_stat(w->from, b, "/work", on_stat, to, err);
	case LIST_CONFLICTS:
		return cb_txn_conflicts(b, on_conflict, to, err);
	case LIST_LOG:
		return cb_log(b, NULL, on_step, to, NULL, err);
	case LIST_LOG_FILE:
		return cb_log(b, &CB_WITH(cb_log_options, .path = "/work/a.txt"), on_step, to, NULL, err);
	case LIST_LOG_FOLDER:
		return cb_log(b, &CB_WITH(cb_log_options, .path = "/work"), on_step, to, NULL, err);
	case LIST_DIFF_STEP:
		return cb_diff_step(b, w->seq, NULL, on_change, to, err);
	case LIST_BLAME:
		return cb_blame(b, "/work/a.txt", on_line, to, err);
	case LIST_CHECKPOINTS:
		return cb_checkpoint_list(b, on_checkpoint, to, err);
	case LIST_BOXES:
		return cb_box_list(w->s, on_box, to, err);
	case LIST_AUDIT:
		return cb_audit_list(w->s, NULL, on_audit, to, err);
	case LIST_USES:
		return cb_store_uses(w->s, on_use, to, err);
	case LIST_KINDS:
		break;
	}
	return CB_INVALID;
}

cb_code list_open(list_kind kind, const list_world *w, cb_cursor **out, cb_error *err)
{
	cb_box *b = w->b;
	switch (kind) {
	case LIST_READDIR:
		return cb_readdir_open(b, "/", out, err);
	case LIST_READDIR_WORK:
		return cb_readdir_open(b, "/work", out, err);
	case LIST_WALK:
		return cb_walk_open(b, "/", out, err);
	case LIST_WALK_FILE:
		return cb_walk_open(b, "work//a.txt", out, err);
	case LIST_GLOB:
		return cb_glob_open(b, "/work/**/*[a-m]*", out, err);
	case LIST_FIND:
		return cb_find_open(b, "/work", NULL, out, err);
	case LIST_FIND_META: { /* what was given to open may be gone by the time it is used */
		char meta[] = "level", value[] = "high";
		cb_code code = cb_find_open(
			b, "/", &CB_WITH(cb_find_options, .meta = meta, .meta_value = value, .meta_value_size = CB_STRING), out,
			err);
		memset(meta, 'x', sizeof(meta));
		memset(value, 'x', sizeof(value));
		return code;
	}
	case LIST_GREP:
		return cb_grep_open(b, "/", &for_a, out, err);
	case LIST_GREP_AROUND:
		return cb_grep_open(b, "/work", &around, out, err);
	case LIST_XATTR:
		return cb_xattr_open(b, "/work/a.txt", 0, out, err);
	case LIST_TAG:
		return cb_tag_open(b, "/work/a.txt", out, err);
	case LIST_META:
		return cb_meta_open(b, "/work/a.txt", out, err);
	case LIST_KV:
		return cb_kv_open(b, "", out, err);
	case LIST_DIFF:
		return cb_diff_open(w->from, b, NULL, out, err);
	case LIST_DIFF_STAT:
		return cb_diff_stat_open(w->from, b, "/work", out, err);
	case LIST_CONFLICTS:
		return cb_conflict_open(b, out, err);
	case LIST_LOG:
		return cb_log_open(b, NULL, out, err);
	case LIST_LOG_FILE:
		return cb_log_open(b, &CB_WITH(cb_log_options, .path = "/work/a.txt"), out, err);
	case LIST_LOG_FOLDER:
		return cb_log_open(b, &CB_WITH(cb_log_options, .path = "/work"), out, err);
	case LIST_DIFF_STEP:
		return cb_diff_step_open(b, w->seq, NULL, out, err);
	case LIST_BLAME:
		return cb_blame_open(b, "/work/a.txt", out, err);
	case LIST_CHECKPOINTS:
		return cb_checkpoint_open(b, out, err);
	case LIST_BOXES:
		return cb_box_list_open(w->s, out, err);
	case LIST_AUDIT:
		return cb_audit_open(w->s, NULL, out, err);
	case LIST_USES:
		return cb_use_open(w->s, out, err);
	case LIST_KINDS:
		break;
	}
	return CB_INVALID;
}

#define NEXT(call, type, print)                   \
	do {                                      \
		const type *item = NULL;          \
		code = call(c, &item, err);       \
		if (code == CB_OK && item) print; \
		*found = item != NULL;            \
	} while (0)

static cb_code next(list_kind kind, cb_cursor *c, FILE *to, bool *found, cb_error *err)
{
	cb_code code = CB_INVALID;
	switch (kind) {
	case LIST_READDIR:
	case LIST_READDIR_WORK:
	case LIST_WALK:
	case LIST_WALK_FILE:
	case LIST_GLOB:
	case LIST_FIND:
	case LIST_FIND_META:
		NEXT(cb_entry_next, cb_entry, put_entry(to, item->path, item->info));
		break;
	case LIST_GREP:
	case LIST_GREP_AROUND:
		NEXT(cb_grep_next, cb_grep_line, put_match(to, item));
		break;
	case LIST_XATTR:
	case LIST_TAG:
	case LIST_META:
	case LIST_KV:
		NEXT(cb_name_next, cb_name, put_name(to, item->name, item->value, item->value_size));
		break;
	case LIST_DIFF:
	case LIST_DIFF_STEP:
		NEXT(cb_change_next, cb_change, put_change(to, item));
		break;
	case LIST_DIFF_STAT:
		NEXT(cb_change_stat_next, cb_change_stat, put_stat(to, item));
		break;
	case LIST_CONFLICTS:
		NEXT(cb_conflict_next, cb_conflict, put_conflict(to, item));
		break;
	case LIST_LOG:
	case LIST_LOG_FILE:
	case LIST_LOG_FOLDER:
		NEXT(cb_step_next, cb_step, put_step(to, item));
		break;
	case LIST_BLAME:
		NEXT(cb_blame_next, cb_blame_line, put_line(to, item));
		break;
	case LIST_CHECKPOINTS:
		NEXT(cb_checkpoint_next, cb_checkpoint, put_checkpoint(to, item));
		break;
	case LIST_BOXES:
		NEXT(cb_box_next, cb_box_info, put_box(to, item));
		break;
	case LIST_AUDIT:
		NEXT(cb_audit_next, cb_audit, put_audit(to, item));
		break;
	case LIST_USES:
		NEXT(cb_use_next, cb_use, put_use(to, item));
		break;
	case LIST_KINDS:
		break;
	}
	return code;
}

/* ---- whole lists ---- */

char *list_visit(list_kind kind, const list_world *w)
{
	cb_error err = {0};
	char *text = NULL;
	size_t size = 0;
	FILE *to = open_memstream(&text, &size);
	CHECK(to != NULL);
	cb_code code = visit(kind, w, to, &err);
	CHECK_MSG(code == CB_OK, "%s: %s (%s)", list_name(kind), cb_code_name(code), err.message);
	CHECK(fclose(to) == 0);
	return text;
}

cb_code list_next(list_kind kind, cb_cursor *cursor, char **out, cb_error *err)
{
	char *text = NULL;
	size_t size = 0;
	bool found = false;
	FILE *to = open_memstream(&text, &size);
	CHECK(to != NULL);
	cb_code code = next(kind, cursor, to, &found, err);
	CHECK(fclose(to) == 0);
	*out = found ? text : NULL;
	if (!found) free(text);
	return code;
}

char *list_drain(list_kind kind, cb_cursor *cursor)
{
	cb_error err = {0};
	char *text = NULL;
	size_t size = 0;
	FILE *to = open_memstream(&text, &size);
	CHECK(to != NULL);
	for (bool found = true; found;) {
		cb_code code = next(kind, cursor, to, &found, &err);
		CHECK_MSG(code == CB_OK, "%s: %s (%s)", list_name(kind), cb_code_name(code), err.message);
	}
	CHECK(fclose(to) == 0);
	return text;
}

/* ---- random boxes ---- */

static const char *random_path(test_rng *r, char out[64])
{
	static const char *const words[] = {"a.txt", "b", "cat", "dog.c", "élan", "m n"};
	int n = snprintf(out, 64, "/work");
	for (uint64_t depth = test_rand_below(r, 3) + 1; depth > 0; depth--)
		n += snprintf(out + n, 64 - (size_t)n, "/%s", words[test_rand_below(r, 6)]);
	return out;
}

static size_t random_text(test_rng *r, char *out, size_t max)
{
	static const uint64_t sizes[] = {0, 10, 60, 113, 400, 3000};
	size_t size = (size_t)test_rand_below(r, sizes[test_rand_below(r, 6)] + 1);
	if (size > max) size = max;
	for (size_t i = 0; i < size; i++) out[i] = "abc\nxyz "[test_rand_below(r, 8)];
	if (size && test_rand_below(r, 20) == 0) out[size / 2] = 0;
	return size;
}

void list_random_change(cb_box *b, test_rng *r)
{
	char path[64], other[64], text[3000];
	size_t size = random_text(r, text, sizeof(text));
	random_path(r, path);
	random_path(r, other);
	switch (test_rand_below(r, 14)) {
	case 0:
		(void)cb_mkdir(b, path, 0750, CB_PARENTS, NULL);
		break;
	case 1:
		(void)cb_rename(b, path, other, 0, NULL);
		break;
	case 2:
		if (strcmp(path, "/work/a.txt") != 0) (void)cb_remove(b, path, NULL);
		break;
	case 3:
		(void)cb_symlink(b, "a.txt", path, NULL);
		break;
	case 4:
		(void)cb_link(b, path, other, NULL);
		break;
	case 5:
		(void)cb_xattr_set(b, "/work/a.txt", other + 6, text, size, 0, NULL);
		break;
	case 6:
		(void)cb_tag_add(b, "/work/a.txt", other + 6, NULL);
		break;
	case 7:
		(void)cb_meta_set(b, path, "level", size % 2 ? "high" : "low", CB_STRING, NULL);
		break;
	case 8:
		(void)cb_kv_set(b, other + 6, text, size, NULL);
		break;
	case 9:
		(void)cb_kv_delete(b, other + 6, NULL);
		break;
	case 10:
		(void)cb_write_file(b, "/work/a.txt", text, size, &CB_WITH(cb_write_options, .append = true), NULL);
		break;
	default:
		(void)cb_write_file(b, path, text, size, &CB_WITH(cb_write_options, .parents = true), NULL);
	}
}

void list_file_again(cb_box *b)
{
	cb_error err = {0};
	cb_stat_info info = CB_INIT(cb_stat_info);
	if (cb_stat(b, "/work/a.txt", CB_NOFOLLOW, &info, NULL) == CB_OK && info.type == CB_FILE) return;
	(void)cb_remove(b, "/work/a.txt", NULL);
	CHECK_OK(cb_write_file(b, "/work/a.txt", "again\nabc\n", 10, &CB_WITH(cb_write_options, .parents = true), &err));
}

list_world list_world_make(cb_store *s, test_rng *r, unsigned changes)
{
	cb_error err = {0};
	list_world w = {.s = s};
	char name[32];
	CHECK_OK(cb_box_create(s, "demo", &w.b, &err));
	must_write(w.b, "/work/a.txt", "abc\nx\nabc\n");
	for (unsigned i = 0; i < changes; i++) {
		list_random_change(w.b, r);
		list_file_again(w.b);
		(void)snprintf(name, sizeof(name), "c%u", i);
		if (test_rand_below(r, 8) == 0) CHECK_OK(cb_checkpoint_save(w.b, name, 0, true, &err));
	}
	CHECK_OK(cb_xattr_set(w.b, "/work/a.txt", "user.x", "1", 1, 0, &err));
	CHECK_OK(cb_tag_add(w.b, "/work/a.txt", "red", &err));
	CHECK_OK(cb_meta_set(w.b, "/work/a.txt", "level", "high", CB_STRING, &err));
	CHECK_OK(cb_kv_set(w.b, "key", "1", 1, &err));
	must_write(w.b, "/work/a.txt", "abc\nnew\nabc\nb\nb\n");
	w.seq = must_seq(w.b);
	w.from = must_open(s, "demo@1");
	return w;
}

void list_world_close(list_world *w)
{
	cb_box_close(w->b);
	cb_box_close(w->from);
	*w = (list_world){.s = w->s};
}
