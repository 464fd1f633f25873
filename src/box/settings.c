/* settings.c: free-form strings of boxes and of the store, beside the states: not undone, not forked. */
#include "base/args.h"
#include "base/sized.h"
#include "box/audit.h"

static cb_code name_check(const char *name, cb_error *err)
{
	if (!name || !*name || strlen(name) > LIMIT_NAME_BYTES)
		return cb_err_set(err, CB_INVALID, "a setting's name has 1 to %d bytes", LIMIT_NAME_BYTES);
	if (strncmp(name, "cowbox.", 7) == 0)
		return cb_err_set(err, CB_RESERVED, "settings that begin with 'cowbox.' are the library's own");
	return CB_OK;
}

/* box 0: of the store. */
static cb_code put(cb_store *cs, uint64_t box, const char *name, const char *value, cb_error *err)
{
	if (value && strlen(value) > LIMIT_SETTING_VALUE_BYTES)
		return cb_err_set(err, CB_TOOBIG, "a setting may have %d bytes", LIMIT_SETTING_VALUE_BYTES);
	return store_setting_set(cs->s, box, name, value, err);
}

cb_code box_setting_set(cb_box *b, const char *name, const char *value, cb_error *err)
{
	if (store_in_write(b->cs->s)) return put(b->cs, b->id, name, value, err);
	CB_TRY(box_write_begin(b, STORE_GROWS, err));
	return store_write_end(b->cs->s, put(b->cs, b->id, name, value, err), false, err);
}

cb_code box_setting_get(cb_box *b, const char *name, char **out, cb_error *err)
{
	store_box row;
	CB_TRY(box_living(b, &row, err));
	cb_code code = store_setting_get(b->cs->s, b->id, name, out, err);
	if (code != CB_NOTFOUND) return code;
	char box[CB_NAME_MAX + 1];
	CB_TRY(box_name_get(b, box, err));
	return cb_err_set(err, CB_NOTFOUND, "box '%s' has no setting '%s'", box, name);
}

cb_code box_store_setting_set(cb_store *cs, const char *name, const char *value, cb_error *err)
{
	if (store_in_write(cs->s)) return put(cs, 0, name, value, err);
	CB_TRY(store_write_begin(cs->s, err));
	return store_write_end(cs->s, put(cs, 0, name, value, err), false, err);
}

cb_code box_store_setting_get(cb_store *cs, const char *name, char **out, cb_error *err)
{
	cb_code code = store_setting_get(cs->s, 0, name, out, err);
	return code == CB_NOTFOUND ? cb_err_set(err, CB_NOTFOUND, "the store has no setting '%s'", name) : code;
}

/* The user's calls: the name is recorded, never the value, which may be a secret. b NULL: of the store. value NULL: it goes. */
static cb_code set_by_user(cb_store *cs, const cb_box *b, const char *who, const char *name, const void *value, size_t size,
                           cb_error *err)
{
	const store_box *row = b ? &b->row : NULL;
	audit_note note = {who, "setting", name ? name : ""};
	cb_code code = name_check(name, err);
	if (code == CB_OK) code = args_bytes("value", value, size, err);
	span text = sized_bytes(value, size);
	if (code == CB_OK && text.size > LIMIT_SETTING_VALUE_BYTES)
		code = cb_err_set(err, CB_TOOBIG, "a setting may have %d bytes", LIMIT_SETTING_VALUE_BYTES);
	if (code == CB_OK && text.size && memchr(text.bytes, 0, text.size))
		code = cb_err_set(err, CB_INVALID, "a setting is a text: it cannot hold a NUL");
	if (code != CB_OK) return audit_refused(cs, row, &note, code, err);
	AUTO_FREE char *copy = NULL;
	if (value) {
		copy = mem_alloc(text.size + 1);
		if (!copy) return cb_err_nomem(err);
		if (text.size) memcpy(copy, text.bytes, text.size);
		copy[text.size] = 0;
	}
	CB_TRY(b ? box_write_begin(b, STORE_GROWS, err) : store_write_begin(cs->s, err));
	code = store_setting_set(cs->s, row ? row->id : 0, name, copy, err);
	if (code == CB_OK) code = audit_did(cs, row, &note, err);
	return audit_refused(cs, row, &note, store_write_end(cs->s, code, false, err), err);
}

static cb_code given(cb_code code, char *const *out, size_t *out_size)
{
	if (code == CB_OK && out_size) *out_size = strlen(*out);
	return code;
}

cb_code cb_setting_set(cb_box *b, const char *name, const void *value, size_t size, cb_error *err)
{
	NEED(err, "box key", b, name);
	CB_TRY(box_lock(b, err));
	return box_leave(b, set_by_user(b->cs, b, b->who, name, value, size, err));
}

cb_code cb_setting_get(cb_box *b, const char *name, char **out, size_t *out_size, cb_error *err)
{
	NEED(err, "box key out", b, name, out);
	CB_TRY(args_name("key", name, err));
	return given(box_setting_get(b, name, out, err), out, out_size);
}

cb_code cb_store_setting_set(cb_store *cs, const char *name, const void *value, size_t size, cb_error *err)
{
	NEED(err, "store key", cs, name);
	return set_by_user(cs, NULL, box_store_who(cs), name, value, size, err);
}

cb_code cb_store_setting_get(cb_store *cs, const char *name, char **out, size_t *out_size, cb_error *err)
{
	NEED(err, "store key out", cs, name, out);
	CB_TRY(args_name("key", name, err));
	return given(box_store_setting_get(cs, name, out, err), out, out_size);
}
