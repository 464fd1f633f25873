/*
 * import_base.c: what the box's own folder held when the two last agreed: its hidden base (folder_base.c).
 */

#include "transfer/import.h"

cb_code import_is_own(cb_box *b, const char *host_path, const char *to, bool *out, cb_error *err)
{
	AUTO_FREE char *folder = NULL;
	AUTO_FREE char *path = NULL;
	cb_error why;
	cb_code code = cb_folder_get(b, &folder, &path, cb_err_aside(&why));
	if (code != CB_OK && code != CB_NOTFOUND) return cb_err_pass(err, code, &why);
	*out = code == CB_OK && strcmp(folder, host_path) == 0 && strcmp(path, to) == 0;
	return CB_OK;
}

static cb_code remove_only(cb_box *base, const import_only *only, size_t count, cb_error *err)
{
	pen *e = NULL;
	CB_TRY(pen_begin(base, "import", "", &e, err));
	cb_code code = CB_OK;
	for (size_t i = 0; i < count && code == CB_OK; i++) {
		span name = span_make(only[i].name, only[i].size);
		box_node there;
		code = look_child(pen_look(e), only[i].parent, name, &there, err);
		if (code == CB_OK) code = pen_remove(e, only[i].parent, name, NULL, err);
		else if (code == CB_NOTFOUND) code = CB_OK;
	}
	return pen_end(e, code, err);
}

static void auto_box_close(cb_box **b)
{
	cb_box_close(*b);
}

/* The base takes over the whole state, inode numbers included, so that entries are found in it by their folder's number. */
cb_code import_base_set(cb_box *b, uint64_t seq, const import_only *only, size_t count, cb_error *err)
{
	ATTR_CLEANUP(auto_box_close) cb_box *base = NULL;
	ATTR_CLEANUP(auto_box_close) cb_box *source = NULL;
	CB_TRY(box_open_step(b, seq, &source, err));
	CB_TRY(box_base_open(b, BOX_BASE_AT_HEAD, &base, err));
	cb_error why;
	cb_code code = cb_restore(base, source, NULL, NULL, cb_err_aside(&why));
	if (code != CB_OK && code != CB_NOTHING) return cb_err_pass(err, code, &why);
	return count ? remove_only(base, only, count, err) : CB_OK;
}
