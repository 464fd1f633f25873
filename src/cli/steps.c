/* steps.c: how a step is told, and states opened so that they stay. */
#include "cli/steps.h"

#include <string.h>

/* ---- checkpoints ---- */

static cb_code add_name(void *context, const cb_checkpoint *checkpoint, cb_error *err)
{
	return buf_append(context, checkpoint, sizeof(*checkpoint), err);
}

cb_code step_names_load(cb_box *box, step_names *out, cb_error *err)
{
	out->all = BUF_INIT(SIZE_MAX);
	return cb_checkpoint_list(box, add_name, &out->all, err);
}

void step_names_done(step_names *names)
{
	buf_done(&names->all);
}

static const cb_checkpoint *name_at(const step_names *names, size_t i)
{
	return (const cb_checkpoint *)(const void *)names->all.bytes + i;
}

static size_t name_count(const step_names *names)
{
	return names->all.size / sizeof(cb_checkpoint);
}

void step_print_names(cli *c, const step_names *names, uint64_t seq)
{
	bool first = true;
	for (size_t i = 0; i < name_count(names); i++) {
		if (name_at(names, i)->seq != seq) continue;
		cli_print(c, "%s%s%s%s", first ? " (" : ", ", cli_on(c, CLI_GREEN), name_at(names, i)->name, cli_off(c));
		first = false;
	}
	if (!first) cli_print(c, ")");
}

/* ---- what a step did ---- */

/* The first line of a text, not all of a long one. */
static void print_text(cli *c, const char *text, size_t size)
{
	size_t n = size ? strcspn(text, "\n") : 0;
	if (n > size) n = size;
	bool cut = n < size;
	if (n > STEP_TEXT_MAX) {
		n = STEP_TEXT_MAX;
		while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80) n--;
		cut = true;
	}
	cli_print_bytes(c, text, n);
	if (cut) cli_print(c, "…");
}

void step_print_what(cli *c, const cb_step *step)
{
	cli_print_name(c, step->kind);
	if (step->target) {
		cli_print(c, " of step %llu", (unsigned long long)step->target);
	} else if (step->other[0]) {
		cli_print(c, " of %s@%llu%s", step->other, (unsigned long long)step->other_seq,
		          step->foreign ? " in another store" : "");
		if (strcmp(step->kind, "merge") == 0) return; /* its params are the same name */
	}
	if (step->params_size) {
		cli_print(c, " ");
		print_text(c, step->params, step->params_size);
	}
}

void step_json(cli *c, const cb_step *step, const step_names *names)
{
	json_writer *w = cli_json(c);
	json_member_uint(w, "step", step->seq);
	json_member_str(w, "kind", step->kind);
	json_member_str(w, "who", step->who);
	cli_json_time(w, "started", step->started_ns);
	cli_json_time(w, "ended", step->ended_ns);
	json_member_bool(w, "changed", step->changed);
	json_member_bytes(w, "params", step->params, step->params_size);
	json_member_bytes(w, "result", step->result, step->result_size);
	if (step->target) json_member_uint(w, "target_step", step->target);
	if (step->other[0]) json_member_str(w, "other", step->other);
	if (step->other[0]) json_member_uint(w, "other_step", step->other_seq);
	if (step->foreign) json_member_bool(w, "foreign", true);
	json_member_bool(w, "pruned_before", step->gap);
	json_member_array(w, "checkpoints");
	for (size_t i = 0; i < name_count(names); i++)
		if (name_at(names, i)->seq == step->seq) json_str(w, name_at(names, i)->name);
	json_array_end(w);
}

/* ---- notes ---- */

static cb_code take_note(void *context, const cb_step *step, cb_error *err)
{
	(void)err;
	step_note *note = context;
	*note = (step_note){.seq = step->seq, .target = step->target, .changed = step->changed, .ended_ns = step->ended_ns};
	(void)snprintf(note->kind, sizeof(note->kind), "%s", step->kind);
	(void)snprintf(note->who, sizeof(note->who), "%s", step->who);
	(void)snprintf(note->params, sizeof(note->params), "%s", step->params);
	return CB_OK;
}

cb_code step_note_get(cb_box *box, uint64_t seq, step_note *out, cb_error *err)
{
	return cb_step_get(box, seq, take_note, out, err);
}

void step_note_print(cli *c, const step_note *note)
{
	cli_print(c, "step %llu (", (unsigned long long)note->seq);
	cli_print_name(c, note->kind);
	if (note->params[0]) {
		cli_print(c, " ");
		print_text(c, note->params, strlen(note->params));
	}
	cli_print(c, ")");
}

/* ---- states ---- */

cb_code step_address(cb_box *box, uint64_t seq, char **out, cb_error *err)
{
	cb_box_info info = CB_INIT(cb_box_info);
	AUTO_BUF buf text = BUF_INIT(256);
	CB_TRY(cb_box_info_get(box, &info, err));
	CB_TRY(buf_printf(&text, err, "%s@%llu", info.name, (unsigned long long)seq));
	return buf_take(&text, out, NULL, err);
}

cb_code step_open(cli *c, const char *text, cli_noun noun, cb_box **out, const char **out_path, cb_box_info *out_info,
                  cb_error *err)
{
	AUTO_FREE char *address = NULL;
	cb_box *box = NULL;
	CB_TRY(cli_open(c, text, noun, &box, out_path, err));
	enum { TRIES = 8 }; /* others may write and prune: what was the head when it was asked for is then another's to remove */
	cb_code code = CB_STALE;
	cb_error why;
	for (int i = 0; code == CB_STALE && i < TRIES; i++) {
		*out_info = CB_INIT(cb_box_info);
		CB_TRY(cb_box_info_get(box, out_info, err));
		free(TAKE_PTR(address));
		CB_TRY(step_address(box, out_info->seq, &address, err));
		code = cli_open(c, address, CLI_STATE, out, NULL, cb_err_aside(&why));
	}
	return code == CB_OK ? CB_OK : cb_err_pass(err, code, &why);
}

static cb_code find_change(void *context, const cb_step *step, cb_error *err)
{
	(void)err;
	if (!step->changed || step->seq == 0) return CB_OK;
	*(uint64_t *)context = step->seq;
	return CB_INTERRUPTED;
}

cb_code step_last_change(cb_box *box, uint64_t *out, cb_error *err)
{
	*out = 0;
	return cb_log(box, NULL, find_change, out, NULL, err);
}
