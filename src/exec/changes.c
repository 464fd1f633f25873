/* changes.c: a list of changes that outlives the walk which found them. */
#include "exec/exec.h"

#include <stdlib.h>
#include <string.h>

#include "box/cursor.h"

enum { CHANGES_BYTES = 1 << 30 };

typedef struct kept_change {
	cb_change change; /* its paths follow, each with a NUL */
	cb_stat_info old_info, new_info;
	size_t path_size, old_size;
} kept_change;

cb_code changes_keep(void *context, const cb_change *change, cb_error *err)
{
	buf *to = context;
	kept_change k = {*change, *change->old_info, *change->new_info, strlen(change->path) + 1,
	                 change->old_path ? strlen(change->old_path) + 1 : 0};
	if (!to->max_size) *to = BUF_INIT(CHANGES_BYTES);
	size_t before = to->size;
	cb_code code = buf_append(to, &k, sizeof(k), err);
	if (code == CB_OK) code = buf_append(to, change->path, k.path_size, err);
	if (code == CB_OK && k.old_size) code = buf_append(to, change->old_path, k.old_size, err);
	if (code != CB_OK) to->size = before;
	return code;
}

typedef struct change_row {
	cb_change change;
	cb_stat_info old_info, new_info;
	char *path, *old_path;
} change_row;

static void row_done(void *item)
{
	change_row *row = item;
	free(row->path);
	free(row->old_path);
}

static cb_code row_add(buf *rows, const kept_change *k, const char *path, cb_error *err)
{
	change_row row = {
		.change = k->change, .old_info = k->old_info, .new_info = k->new_info, .path = mem_dup(path, k->path_size)};
	if (k->old_size) row.old_path = mem_dup(path + k->path_size, k->old_size);
	row.change.path = row.path;
	row.change.old_path = row.old_path;
	cb_code code = row.path && (row.old_path || !k->old_size) ? buf_append(rows, &row, sizeof(row), err) : cb_err_nomem(err);
	if (code != CB_OK) row_done(&row);
	return code;
}

cb_code changes_open(cb_store *store, const buf *kept, cb_cursor **out, cb_error *err)
{
	list_cursor *l = NULL;
	CB_TRY(list_cursor_create(CURSOR_CHANGES, sizeof(change_row), row_done, store, NULL, &l, err));
	cb_code code = CB_OK;
	for (size_t at = 0; code == CB_OK && at < kept->size;) {
		kept_change k;
		memcpy(&k, kept->bytes + at, sizeof(k));
		at += sizeof(k);
		code = row_add(&l->items, &k, (const char *)kept->bytes + at, err);
		at += k.path_size + k.old_size;
	}
	change_row *rows = (change_row *)(void *)l->items.bytes;
	for (size_t i = 0; i < l->items.size / sizeof(*rows); i++) { /* now that they stay where they are */
		rows[i].change.old_info = &rows[i].old_info;
		rows[i].change.new_info = &rows[i].new_info;
	}
	if (code == CB_OK) *out = &l->c;
	else cb_cursor_close(&l->c);
	return code;
}
