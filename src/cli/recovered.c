/*
 * recovered.c: what programs left whose caller died is captured before a box is used, and it is said what came of it.
 *
 * The library makes a step of each, here or in a fork, and the step says in its result what is lost or left out: it is read from there.
 */
#include "cli/core.h"

#include <stdlib.h>
#include <string.h>

/* Of a box that cannot be opened it is not known whether anything was left, and whoever opens it next says why. */
static bool can_be_opened(const cli *c, const char *name)
{
	cb_box *box = NULL;
	cb_error ignored;
	cb_code code = cb_box_open(c->store, name, &box, &ignored);
	cb_box_close(box);
	return code == CB_OK;
}

typedef struct telling {
	cli *c;
	const char *origin; /* NULL: any */
	buf names;          /* of boxes to look at, each with its NUL; before it '!' when it was made of a run that lost */
	uint64_t captured;
} telling;

/* The box itself, and what a run of this moment was kept as: it lost, and was made since the command began. */
static cb_code box_note(void *context, const cb_box_info *info, cb_error *err)
{
	telling *t = context;
	bool lost = info->lost && info->created_ns >= t->c->now_ns;
	if (t->origin && strcmp(lost ? info->origin : info->name, t->origin) != 0) return CB_OK;
	CB_TRY(buf_append_byte(&t->names, lost ? '!' : ' ', err));
	return buf_append(&t->names, info->name, strlen(info->name) + 1, err);
}

/* One step of a run that was captured now. */
static void tell_step(telling *t, const char *box, bool kept_apart, const json_value *result)
{
	cli *c = t->c;
	const char *lost = NULL;
	if (json_as_str(json_get(result, "lost"), &lost)) {
		cli_note(c, "what an interrupted program left in box '%s' is lost: %s", box, lost);
		return;
	}
	if (kept_apart)
		cli_note(c,
		         "what an interrupted program left could not enter its box, and is kept as box '%s': 'cowbox log %s' shows "
		         "the step",
		         box, box);
	else t->captured++;
	const json_value *notes = json_get(result, "notes");
	for (size_t i = 0; i < json_count(notes); i++) {
		const char *note = NULL;
		if (json_as_str(json_at(notes, i), &note)) cli_note(c, "%s", note);
	}
}

typedef struct told_box {
	telling *t;
	const char *name;
	bool kept_apart;
} told_box;

static cb_code step_note(void *context, const cb_step *step, cb_error *err)
{
	(void)err;
	const told_box *at = context;
	AUTO_JSON json_doc *doc = NULL;
	bool interrupted = false;
	if (step->ended_ns < at->t->c->now_ns) return CB_INTERRUPTED;
	if (json_parse(span_make(step->result, step->result_size), NULL, &doc, NULL) != CB_OK) return CB_OK;
	const json_value *result = json_root(doc);
	if (json_as_bool(json_get(result, "interrupted"), &interrupted) && interrupted)
		tell_step(at->t, at->name, at->kept_apart, result);
	return CB_OK;
}

static void tell_captured(cli *c, const char *origin)
{
	telling t = {.c = c, .origin = origin, .names = BUF_INIT(1 << 26)};
	if (cb_box_list(c->store, box_note, &t, NULL) != CB_OK) buf_clear(&t.names);
	for (size_t at = 0; at < t.names.size; at += strlen((const char *)t.names.bytes + at) + 1) {
		told_box one = {&t, (const char *)t.names.bytes + at + 1, t.names.bytes[at] == '!'};
		cb_box *box = NULL;
		if (cb_box_open(c->store, one.name, &box, NULL) == CB_OK) (void)cb_log(box, NULL, step_note, &one, NULL, NULL);
		cb_box_close(box);
	}
	buf_done(&t.names);
	if (t.captured > 0)
		cli_note(c, "captured what %llu interrupted program%s left: 'cowbox log' shows the step%s",
		         (unsigned long long)t.captured, t.captured == 1 ? "" : "s", t.captured == 1 ? "" : "s");
}

void cli_recover_untold(cli *c)
{
	c->recover_told = true;
}

void cli_recover(cli *c, const char *address)
{
	char name[CB_NAME_MAX + 1] = "";
	size_t size = address ? strcspn(address, "@") : 0;
	const char *box = address ? name : NULL;
	uint64_t steps = 0;
	cb_error why;
	/* Completion: nothing may be slow or change. A name that cannot be is told when it is opened. */
	if (!c->command || !c->store || size > CB_NAME_MAX) return;
	if (address) memcpy(name, address, size);
	name[size] = 0;
	cb_code code = cb_exec_recover(c->store, box, &steps, &why);
	if (code != CB_OK && code != CB_NOTFOUND && code != CB_INVALID && !c->recover_told && (!box || can_be_opened(c, name))) {
		c->recover_told = true; /* a command may open a box several times */
		if (code == CB_NOSPACE && box) cli_note(c, "%s; 'cowbox exec %s --discard' drops it", why.message, name);
		else cli_note(c, "%s", why.message);
	}
	if (steps > 0) tell_captured(c, box);
}
