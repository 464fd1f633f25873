/* changes.c: a list of changes that outlives the walk which found them. */
#include "exec/exec.h"

#include <string.h>

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

cb_code changes_visit(const buf *kept, cb_change_visit visit, void *context, cb_error *err)
{
	for (size_t at = 0; at < kept->size;) {
		kept_change k;
		memcpy(&k, kept->bytes + at, sizeof(k));
		at += sizeof(k);
		k.change.old_info = &k.old_info;
		k.change.new_info = &k.new_info;
		k.change.path = (const char *)kept->bytes + at;
		at += k.path_size;
		k.change.old_path = k.old_size ? (const char *)kept->bytes + at : NULL;
		at += k.old_size;
		cb_code code = visit(context, &k.change, err);
		if (code == CB_INTERRUPTED) return CB_OK;
		if (code != CB_OK) return code;
	}
	return CB_OK;
}
