/*
 * folder.c: which host folder belongs to which box.
 *
 * A box keeps its folder and the place of that in the box as settings, which forks inherit; the store keeps, under a hash of the folder's
 * path, the box that was last imported from or applied to it.
 */
#include "box/box.h"
#include "box/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"

#define SETTING_HOST "cowbox.folder.host"
#define SETTING_PATH "cowbox.folder.path"

static void store_setting_name(const char *path, size_t size, char out[64])
{
	(void)snprintf(out, 64, "cowbox.folder:%016" PRIx64, hash64(path, size));
}

static cb_code link_folder(cb_box *b, const char *host_path, cb_error *err)
{
	char name[64];
	AUTO_BUF buf value = BUF_INIT(LIMIT_STEP_FIELD_BYTES);
	store_setting_name(host_path, strlen(host_path), name);
	CB_TRY(buf_printf(&value, err, "%" PRIu64 "\n%s", b->id, host_path));
	CB_TRY(buf_append_byte(&value, 0, err));
	return box_store_setting_set(b->cs, name, (const char *)value.bytes, err);
}

cb_code box_folder_put(cb_box *b, const char *host_path, const char *box_path, cb_error *err)
{
	CB_TRY(box_setting_set(b, SETTING_HOST, host_path, err));
	CB_TRY(box_setting_set(b, SETTING_PATH, box_path, err));
	/* Until a draft is published the folder stays the box's that has it. */
	return b->draft_owner ? CB_OK : link_folder(b, host_path, err);
}

cb_code box_folder_set(cb_box *b, const char *host_path, const char *box_path, cb_error *err)
{
	CB_TRY(box_write_begin(b, STORE_GROWS, err));
	return store_write_end(b->cs->s, box_folder_put(b, host_path, box_path, err), false, err);
}

cb_code box_folder_publish(cb_box *b, cb_error *err)
{
	AUTO_FREE char *host = NULL;
	cb_error why;
	cb_code code = box_setting_get(b, SETTING_HOST, &host, cb_err_aside(&why));
	if (code != CB_OK) return code == CB_NOTFOUND ? CB_OK : cb_err_pass(err, code, &why);
	return link_folder(b, host, err);
}

cb_code box_folder_get(cb_box *b, char **out_host_path, char **out_box_path, cb_error *err)
{
	AUTO_FREE char *host = NULL;
	AUTO_FREE char *path = NULL;
	cb_code code = box_setting_get(b, SETTING_HOST, &host, err);
	if (code == CB_NOTFOUND) {
		char name[CB_NAME_MAX + 1];
		CB_TRY(box_name_get(b, name, err));
		return cb_err_set(err, CB_NOTFOUND, "box '%s' has no folder of its own", name);
	}
	if (code != CB_OK) return code;
	CB_TRY(box_setting_get(b, SETTING_PATH, &path, err));
	*out_host_path = TAKE_PTR(host);
	*out_box_path = TAKE_PTR(path);
	return CB_OK;
}

/* CB_NOTFOUND, also when the box is gone. */
cb_code box_folder_find(cb_store *cs, const char *path, size_t size, char **out, cb_error *err)
{
	char name[64];
	AUTO_FREE char *value = NULL;
	store_setting_name(path, size, name);
	CB_TRY(box_store_setting_get(cs, name, &value, err));
	char *end = NULL;
	uint64_t id = strtoull(value, &end, 10);
	/* Two paths may have one hash. */
	if (*end != '\n' || strlen(end + 1) != size || memcmp(end + 1, path, size) != 0) return CB_NOTFOUND;
	store_box row;
	CB_TRY(store_box_get(cs->s, id, &row, err));
	if (row.deleted) return CB_NOTFOUND;
	char *found = mem_strdup(row.name);
	if (!found) return cb_err_nomem(err);
	*out = found;
	return CB_OK;
}
