/*
 * result.c: the step's result with the name of its run in it, so that after a crash between the commit and the stamp it is known that
 * the step is there already.
 */
#include "base/json.h"
#include "base/sized.h"
#include "work/internal.h"

enum { SHOWN_BYTES = 200 }; /* of a text that is cut; each takes six in JSON at most */

/* cut: only the beginning of result. */
static cb_code result_write(const char *result, bool cut, const run_said *said, char **out, cb_error *err)
{
	const work_result *r = said->capture;
	AUTO_BUF buf text = BUF_INIT(LIMIT_STEP_FIELD_BYTES);
	char shown[SHOWN_BYTES + 1];
	AUTO_JSON json_doc *doc = NULL;
	const json_value *given = NULL;
	if (result && *result == '{' && !cut && json_parse(span_str(result), NULL, &doc, NULL) == CB_OK) given = json_root(doc);
	json_writer w;
	json_writer_init(&w, &text, JSON_COMPACT);
	json_object_begin(&w);
	for (size_t i = 0; i < json_count(given); i++) {
		json_key_bytes(&w, json_key_at(given, i));
		json_write_value(&w, json_at(given, i));
	}
	if (cut) stamp_text_set(shown, sizeof(shown), result);
	if (result && *result && !given) json_member_str(&w, cut ? "cut" : "text", cut ? shown : result);
	if (said->interrupted) json_member_bool(&w, "interrupted", true);
	if (said->lost) json_member_str(&w, "lost", said->lost);
	if (r && r->left_out) json_member_uint(&w, "left_out", r->left_out);
	if (r && r->noted) json_member_array(&w, "notes");
	for (size_t i = 0; r && i < r->noted && i < WORK_NOTES; i++) json_str(&w, r->notes[i]);
	if (r && r->noted) json_array_end(&w);
	json_member_str(&w, "run", said->run);
	json_object_end(&w);
	CB_TRY(json_writer_end(&w, err));
	return buf_take(&text, out, NULL, err);
}

cb_code run_result(const char *result, const run_said *said, char **out, cb_error *err)
{
	cb_error why;
	cb_code code = result_write(result, false, said, out, cb_err_aside(&why));
	if (code == CB_LIMIT && result) return result_write(result, true, said, out, err);
	return cb_err_pass(err, code, &why);
}

cb_code run_words_fit(cb_step_info *info, run_words *room, cb_error *err)
{
	span params = sized_bytes(info->params, info->params_size);
	if (info->kind && strlen(info->kind) > LIMIT_STEP_FIELD_BYTES) {
		stamp_text_set(room->kind, sizeof(room->kind), info->kind);
		info->kind = room->kind;
	}
	if (params.size <= LIMIT_STEP_FIELD_BYTES) return CB_OK;
	CB_TRY(run_params(params, room->params, err));
	info->params = room->params;
	info->params_size = CB_STRING;
	return CB_OK;
}

cb_code run_params(span params, char out[STAMP_PARAMS_BYTES], cb_error *err)
{
	bool whole = params.size < STAMP_PARAMS_BYTES;
	for (size_t i = 0; whole && i < params.size; i++) whole = params.bytes[i] >= ' ' && params.bytes[i] != 0x7f;
	if (whole) {
		if (params.size) memcpy(out, params.bytes, params.size);
		out[params.size] = 0;
		return CB_OK;
	}
	char shown[SHOWN_BYTES + 1];
	AUTO_BUF buf text = BUF_INIT(STAMP_PARAMS_BYTES);
	stamp_text_set(shown, sizeof(shown), (const char *)params.bytes);
	json_writer w;
	json_writer_init(&w, &text, JSON_COMPACT);
	json_object_begin(&w);
	json_key(&w, "cut");
	json_str(&w, shown);
	json_object_end(&w);
	CB_TRY(json_writer_end(&w, err));
	memcpy(out, text.bytes, text.size);
	out[text.size] = 0;
	return CB_OK;
}
