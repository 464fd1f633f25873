/* twins.c: see twins.h. */
#include "harness/twins.h"

#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

int64_t twins_now;

static int64_t clock_read(void *context)
{
	(void)context;
	return twins_now;
}

static const clock_source clock_of_twins = {clock_read, NULL};

/* ---- telling ---- */

void say(world *w, const char *format, ...)
{
	va_list args;
	char *line = NULL;
	va_start(args, format);
	int n = vasprintf(&line, format, args);
	va_end(args);
	CHECK(n >= 0 && buf_append(&w->out, line, (size_t)n, NULL) == CB_OK);
	free(line);
}

void say_code(world *w, const char *what, cb_code code, const cb_error *err)
{
	char message[sizeof(err->message)] = "";
	if (code != CB_OK) (void)snprintf(message, sizeof(message), "%s", err->message);
	for (char *p = message; (p = strstr(p, "version ")) != NULL;) { /* numbers of states: 1 is the masked one */
		p += strlen("version ");
		bool masked = p[0] == '1' && (p[1] < '0' || p[1] > '9');
		for (; *p >= '0' && *p <= '9'; p++) *p = masked ? '1' : '#';
		for (char *q = p; q[-1] == '#' && q[-2] == '#'; p = --q) memmove(q - 1, q, strlen(q) + 1);
	}
	say(w, "%s -> %s %s\n", what, cb_code_name(code), message);
}

void say_stat(world *w, const char *name, const cb_stat_info *i)
{
	const char *version = i->version == 0 ? "none" : i->version == 1 ? "masked" : "some";
	say(w, "%s t%d %o l%u %" PRIu64 " %s m%" PRId64 " c%" PRId64 " a%" PRId64 "\n", name, (int)i->type, i->mode, i->links,
	    i->size, version, i->mtime_ns, i->ctime_ns, i->atime_ns);
}

cb_code say_walk(void *context, const char *path, const cb_stat_info *info, cb_error *err)
{
	(void)err;
	say_stat(context, path, info);
	return CB_OK;
}

cb_code say_name(void *context, const char *name, const char *value, size_t size, cb_error *err)
{
	(void)err;
	say(context, "  %s=%.*s\n", name, (int)size, value ? value : "");
	return CB_OK;
}

cb_code say_change(void *context, const cb_change *c, cb_error *err)
{
	(void)err;
	say(context, "%c %s < %s %d%d%d%d\n", (int)c->kind, c->path, c->old_path ? c->old_path : "-", c->has_old, c->has_new,
	    c->modified, c->attributes);
	if (c->has_old && c->kind != CB_KEYVALUE) say_stat(context, "  old", c->old_info);
	if (c->has_new && c->kind != CB_KEYVALUE) say_stat(context, "  new", c->new_info);
	return CB_OK;
}

cb_code say_step(void *context, const cb_step *s, cb_error *err)
{
	(void)err;
	say(context, "#%" PRIu64 " %s by %s (%s) [%s] %d t%" PRIu64 " o%s@%" PRIu64 " %" PRId64 "\n", s->seq, s->kind, s->who,
	    s->params, s->result, s->changed, s->target, s->other, s->other_seq, s->ended_ns);
	return CB_OK;
}

static cb_code say_all(void *context, const char *path, const cb_stat_info *info, cb_error *err)
{
	world *w = context;
	(void)err;
	say_stat(w, path, info);
	char *text = NULL;
	size_t size = 0;
	cb_box *b = w->agent;
	cb_error e = {0};
	if (info->type == CB_FILE && cb_read_file(b, path, &text, &size, &e) == CB_OK) say(w, "  %.*s\n", (int)size, text);
	if (info->type == CB_SYMLINK && cb_readlink(b, path, &text, NULL, &e) == CB_OK) say(w, "  -> %s\n", text);
	cb_free(text);
	(void)cb_xattr_list(b, path, CB_NOFOLLOW, say_name, w, &e);
	if (info->type != CB_SYMLINK) (void)cb_tag_list(b, path, say_name, w, &e);
	if (info->type != CB_SYMLINK) (void)cb_meta_list(b, path, say_name, w, &e);
	return CB_OK;
}

void say_box(world *w, cb_box *b)
{
	cb_error err = {0};
	cb_box *agent = w->agent;
	cb_box_info info = CB_INIT(cb_box_info);
	w->agent = b;
	CHECK_OK(cb_walk(b, "/", say_all, w, &err));
	CHECK_OK(cb_kv_list(b, "", say_name, w, &err));
	CHECK_OK(cb_box_info_get(b, &info, &err));
	say(w, "%" PRIu64 " files, %" PRIu64 " bytes, step %" PRIu64 "\n", info.files, info.bytes, info.seq);
	w->agent = agent;
}

/* ---- the worlds ---- */

static void world_open(world *w, rules *r, bool whole)
{
	cb_error err = {0};
	store_options options = {.create = true, .clock = &clock_of_twins};
	*w = (world){.rules = r, .whole = whole, .out = BUF_INIT(SIZE_MAX)};
	(void)snprintf(w->folder, sizeof(w->folder), "%s/host", test_tmpdir());
	w->s = calloc(1, sizeof(*w->s));
	CHECK_OK(box_store_open(w->s, &options, &err));
	rules_set(r, w->s);
	CHECK_OK(cb_store_who_set(w->s, "owner", &err));
	CHECK_OK(cb_box_create(w->s, "demo", &w->owner, &err));
	CHECK_OK(cb_store_who_set(w->s, "agent", &err));
	w->agent = must_open(w->s, "demo");
}

void twins_open(twins *t)
{
	twins_now = (int64_t)1700000000 * 1000000000;
	rules_init(&t->rules);
	world_open(&t->with, &t->rules, true);
	world_open(&t->without, &t->rules, false);
}

static void world_close(world *w)
{
	cb_error err = {0};
	CHECK_OK(cb_store_who_set(w->s, "owner", &err));
	test_store_sound(w->s);
	cb_box_close(w->agent);
	cb_box_close(w->owner);
	cb_store_close(w->s);
	buf_done(&w->out);
}

void twins_close(twins *t)
{
	world_close(&t->with);
	world_close(&t->without);
}

static void folder_clear(const world *w)
{
	char command[1200];
	(void)snprintf(command, sizeof(command), "chmod -R u+rwx '%s' 2>/dev/null; rm -rf '%s'", w->folder, w->folder);
	CHECK(system(command) == 0);
	CHECK(mkdir(w->folder, 0755) == 0);
}

static void one_round(world *w, twin_round round)
{
	buf_clear(&w->out);
	round(w);
	CHECK(buf_append_byte(&w->out, 0, NULL) == CB_OK);
}

void twins_do(twins *t, const char *what, twin_round round)
{
	int64_t then = twins_now + 1000000000;
	twins_now = then;
	if (t->clears) folder_clear(&t->with);
	one_round(&t->with, round);
	int64_t after = twins_now;
	twins_now = then;
	if (t->clears) folder_clear(&t->without);
	one_round(&t->without, round);
	CHECK_MSG(twins_now == after, "%s: the worlds took different time", what);
	const char *a = (const char *)t->with.out.bytes, *b = (const char *)t->without.out.bytes;
	if (strcmp(a, b) == 0) return;
	/* From the first line that differs on. */
	size_t at = 0, line = 0;
	for (; a[at] == b[at]; at++)
		if (a[at] == '\n') line = at + 1;
	test_fail(__FILE__, __LINE__, "%s tells what is hidden:\n%.600s\n---- instead of\n%.600s", what, a + line, b + line);
}

bool hidden_step(world *w, const char *kind)
{
	cb_error err = {0};
	twins_now += 1000000;
	if (w->whole) return true;
	CHECK_OK(cb_step_record(w->owner, &CB_WITH(cb_step_info, .kind = kind), NULL, &err));
	return false;
}

/* ---- what must stay ---- */

typedef struct keeping {
	world *w;
	bool hidden;
	buf text;
} keeping;

static cb_code keep_entry(void *context, const char *path, const cb_stat_info *info, cb_error *err)
{
	keeping *k = context;
	if (!(k->hidden ? rules_hide(k->w->rules, path) : rules_keep(k->w->rules, path))) return CB_OK;
	char *text = NULL;
	size_t size = 0;
	if (info->type == CB_FILE) CB_TRY(cb_read_file(k->w->owner, path, &text, &size, err));
	cb_code code = buf_printf(&k->text, err, "%s %d %o %" PRIu64 " %" PRIu64 " %.*s\n", path, (int)info->type, info->mode,
	                          info->ino, info->version, (int)size, text ? text : "");
	cb_free(text);
	return code;
}

static cb_code keep_key(void *context, const char *name, const char *value, size_t size, cb_error *err)
{
	keeping *k = context;
	if (!(k->hidden ? rules_hide(k->w->rules, name) : rules_keep(k->w->rules, name))) return CB_OK;
	return buf_printf(&k->text, err, "%s=%.*s\n", name, (int)size, value);
}

static char *kept(world *w, bool hidden)
{
	cb_error err = {0};
	char *out = NULL;
	keeping k = {w, hidden, BUF_INIT(SIZE_MAX)};
	CHECK_OK(cb_walk(w->owner, "/", keep_entry, &k, &err));
	CHECK_OK(cb_kv_list(w->owner, "", keep_key, &k, &err));
	CHECK_OK(buf_take(&k.text, &out, NULL, &err));
	return test_keep(out);
}

char *twins_hidden(twins *t)
{
	return kept(&t->with, true);
}

char *twins_kept(twins *t)
{
	return kept(&t->with, false);
}
