/* publish.c: a draft becomes a box that everybody sees, and with it the folder it was imported from becomes the box's own. */
#include "box/internal.h"
#include "transfer/folder.h"

static cb_code publish_in_write(cb_box *b, cb_error *err)
{
	CB_TRY(box_draft_publish(b, err));
	return folder_link_again(b, err);
}

static cb_code publish_locked(cb_box *b, cb_error *err)
{
	if (!b->draft_owner) return cb_err_set(err, CB_INVALID, "box '%s' is no draft", b->row.name);
	CB_TRY(box_refuse_txn(b, "publishing", err));
	CB_TRY(store_write_begin(b->cs->s, err));
	cb_code code = publish_in_write(b, err);
	if (code == CB_OK) code = store_write_commit(b->cs->s, false, err);
	else store_write_abort(b->cs->s);
	if (code == CB_OK) box_draft_published(b);
	return code;
}

cb_code cb_box_publish(cb_box *b, cb_error *err)
{
	CB_TRY(box_enter(b, err));
	cb_code code = box_flush(b, false, err);
	return box_leave(b, code == CB_OK ? publish_locked(b, err) : code);
}
