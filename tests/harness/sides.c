/* sides.c: see sides.h. */
#include "harness/sides.h"

sides sides_open_in(cb_store *s, const char *ours, const char *theirs, deed *base)
{
	cb_error err = {0};
	sides p = {.s = s};
	CHECK_OK(cb_box_create(s, ours, &p.ours, &err));
	base(p.ours);
	p.theirs = must_fork(s, ours, theirs);
	return p;
}

sides sides_open(bool memory, deed *base)
{
	return sides_open_in(test_store_open(memory), "ours", "theirs", base);
}

void sides_close(sides *p)
{
	test_store_sound(p->s);
	cb_box_close(p->ours);
	cb_box_close(p->theirs);
	cb_store_close(p->s);
}

void must_merge(cb_box *into, cb_box *from, cb_prefer prefer)
{
	cb_error err = {0};
	cb_merge_options o = CB_WITH(cb_merge_options, .prefer = prefer);
	CHECK_OK(cb_merge(into, from, prefer == CB_PREFER_NONE ? NULL : &o, NULL, NULL, &err));
}

void must_conflict(cb_box *into, cb_box *from, const char *text)
{
	cb_error err = {0};
	CHECK_CODE(cb_merge(into, from, NULL, NULL, NULL, &err), CB_CONFLICT);
	CHECK_MSG(strstr(err.message, text), "'%s' is not in: %s", text, err.message);
}

void must_renew(cb_box *b, const char *path, const char *text)
{
	cb_error err = {0};
	CHECK_OK(cb_unlink(b, path, &err));
	must_write(b, path, text);
}

void must_mkdir(cb_box *b, const char *path)
{
	cb_error err = {0};
	CHECK_OK(cb_mkdir(b, path, 0755, CB_PARENTS, &err));
}

void mv(cb_box *b, const char *from, const char *to)
{
	cb_error err = {0};
	CHECK_OK(cb_rename(b, from, to, 0, &err));
}

void rm(cb_box *b, const char *path)
{
	cb_error err = {0};
	CHECK_OK(cb_remove(b, path, &err));
}

typedef struct picture {
	cb_box *b;
	char text[512];
} picture;

static cb_code note_entry(void *context, const char *path, const cb_stat_info *info, cb_error *err)
{
	picture *p = context;
	size_t size = strlen(p->text);
	bool folder = info->type == CB_DIR;
	(void)err;
	if (strcmp(path, "/work") == 0) return CB_OK;
	(void)snprintf(p->text + size, sizeof(p->text) - size, "%s%s%s%s%s", size ? " " : "", path + strlen("/work/"),
	               folder ? "/" : "=", folder ? "" : must_read(p->b, path), !folder && info->mode == 0600 ? "(600)" : "");
	return CB_OK;
}

void must_show(cb_box *b, const char *text)
{
	cb_error err = {0};
	picture p = {.b = b};
	CHECK_OK(cb_walk(b, "/work", note_entry, &p, &err));
	CHECK_STR(p.text, text);
}

void must_settle_each(deed *base, deed *loser, deed *winner, const char *merged, const char *committed)
{
	for (int way = 0; way < 4; way++) {
		cb_error err = {0};
		sides p = sides_open(true, base);
		cb_box *other = way < 2 ? p.theirs : must_begin(p.ours);
		cb_prefer prefer = way % 2 ? CB_PREFER_THEIRS : CB_PREFER_OURS;
		(way % 2 ? loser : winner)(p.ours);
		(way % 2 ? winner : loser)(other);
		if (way < 2) must_merge(p.ours, other, prefer);
		else CHECK_OK(cb_txn_commit(other, &CB_WITH(cb_commit_options, .prefer = prefer), NULL, &err));
		must_show(p.ours, way < 2 ? merged : committed);
		if (way >= 2) cb_box_close(other);
		sides_close(&p);
	}
}

void must_settle(deed *base, deed *loser, deed *winner, const char *text)
{
	must_settle_each(base, loser, winner, text, text);
}
