/* cmd_restore.c: restore, undo, redo: going back, each as a new step. */
#include "cli/changes.h"
#include "cli/steps.h"

#include <string.h>

/* ---- restore ---- */

static cb_code count_change(void *context, const cb_change *change, cb_error *err)
{
	(void)change;
	(void)err;
	++*(uint64_t *)context;
	return CB_OK;
}

static cb_code tell_restored(cli *c, cb_box *box, const cb_box_info *from, const char *path, uint64_t seq, cb_error *err)
{
	cb_box_info info = CB_INIT(cb_box_info);
	uint64_t changes = 0;
	CB_TRY(cb_box_info_get(box, &info, err));
	if (seq) CB_TRY(cb_diff_step(box, seq, NULL, count_change, &changes, err));
	if (seq == 0) cli_note(c, "nothing to change: %s is so already", info.name);
	if (cli_is_json(c)) {
		json_writer *w = cli_json(c);
		json_object_begin(w);
		json_member_str(w, "box", info.name);
		json_member_uint(w, "step", seq);
		json_member_str(w, "from", from->name);
		json_member_uint(w, "from_step", from->seq);
		if (*path) json_member_str(w, "path", path);
		json_member_uint(w, "change_count", changes);
		json_object_end(w);
		return CB_OK;
	}
	if (cli_is_quiet(c) || seq == 0) return CB_OK;
	cli_print(c, "step %llu: restored %s@%llu", (unsigned long long)seq, from->name, (unsigned long long)from->seq);
	if (*path) cli_print(c, ":");
	cli_print_name(c, path);
	cli_print(c, " (%llu change%s)\n", (unsigned long long)changes, changes == 1 ? "" : "s");
	return CB_OK;
}

static cb_code run_restore(cli *c, const cli_call *call, cb_error *err)
{
	const char *text = cli_operand_text(call, "STATE"), *into = cli_text(call, "into"), *path = NULL;
	cli_address address = {.path = ""};
	cb_box *source = NULL, *box = NULL;
	cb_box_info from = CB_INIT(cb_box_info);
	uint64_t seq = 0;
	CB_TRY(cli_address_parse(text, CLI_PLACE, &address, err));
	CB_TRY(step_open(c, text, CLI_PLACE, &source, &path, &from, err));
	if (!address.state[0] && !into && !strchr(text, '@'))
		return cli_usage(c, err, "'%s' names no older state: write BOX@STEP or BOX@CHECKPOINT, or add --into BOX", text);
	CB_TRY(cli_open_writable(c, into ? into : from.name, CLI_BOX, &box, NULL, err));
	CB_TRY(cb_restore(box, source, *path ? path : NULL, &seq, err));
	return tell_restored(c, box, &from, path, seq, err);
}

const cli_command cmd_restore = {
	.name = "restore",
	.group = "History",
	.summary = "make an older state, or a file of it, the newest",
	.text = "The box becomes as it was at STATE, as a new step: nothing of the history is lost, and 'cowbox undo' takes it "
		"back. With a "
		"path only that file or folder; one that was not there then is removed.\n\n"
		"--into restores into another box of the store.",
	.operands = (const cli_operand[]){{CLI_PLACE, "STATE", false, false, "BOX@STEP, BOX@CHECKPOINT, or one with :/PATH"}, {0}},
	.options = (const cli_option[]){{CLI_TEXT, "into", 0, "BOX", "the box that is changed (default: the one of STATE)"}, {0}},
	.examples = (const char *const[]){"cowbox restore demo@before-refactor", "cowbox restore demo@3:/work/a.txt",
                                          "cowbox restore demo:/work/src --into other", NULL},
	.json = "box step        the box and its new step; 0: it was so already\n"
		"from from_step path    what was restored\n"
		"change_count    how many paths and keys changed",
	.run = run_restore,
};

/* ---- undo, redo ---- */

typedef struct taken_back {
	uint64_t seq;
	bool changed;               /* otherwise only what counts as merged or restored */
	step_note target, original; /* a redo's target is an undo, which has a target of its own */
} taken_back;

static cb_code look_back(cb_box *box, uint64_t seq, taken_back *out, cb_error *err)
{
	step_note note;
	*out = (taken_back){.seq = seq};
	CB_TRY(step_note_get(box, seq, &note, err));
	out->changed = note.changed;
	CB_TRY(step_note_get(box, note.target, &out->target, err));
	out->original = out->target;
	if (strcmp(note.kind, "redo") == 0 && out->target.target) {
		cb_code code = step_note_get(box, out->target.target, &out->original, err);
		if (code == CB_STALE || code == CB_NOTFOUND) out->original = out->target;
		else if (code != CB_OK) return code;
	}
	return CB_OK;
}

static void tell_taken(cli *c, const taken_back *t, bool redo)
{
	if (cli_is_json(c)) {
		json_writer *w = cli_json(c);
		json_object_begin(w);
		json_member_uint(w, "step", t->seq);
		json_member_uint(w, "target_step", t->target.seq);
		json_member_bool(w, "changed", t->changed);
		json_member_object(w, "change");
		json_member_uint(w, "step", t->original.seq);
		json_member_str(w, "kind", t->original.kind);
		json_member_str(w, "params", t->original.params);
		json_member_str(w, "who", t->original.who);
		json_object_end(w);
		json_object_end(w);
	} else if (!cli_is_quiet(c)) {
		cli_print(c, "step %llu: %s ", (unsigned long long)t->seq, redo ? "brought back" : "took back");
		step_note_print(c, &t->original);
		if (!t->changed) cli_print(c, ", which %s; nothing else changed", redo ? "counts again" : "no longer counts");
		cli_print(c, "\n");
	}
}

static void begin_json(cli *c, const char *box, const char *list)
{
	if (!cli_is_json(c)) return;
	json_object_begin(cli_json(c));
	json_member_str(cli_json(c), "box", box);
	json_member_array(cli_json(c), list);
}

static void end_json(cli *c)
{
	if (!cli_is_json(c)) return;
	json_array_end(cli_json(c));
	json_object_end(cli_json(c));
}

/* ---- conflicts ---- */

/* A path of now, and where what is there was in an earlier state. */
typedef struct earlier {
	const char *path;
	size_t moved_size; /* of the path that was renamed: it, or the nearest folder above it */
	char *was;         /* NULL: it was not renamed */
} earlier;

static cb_code find_earlier(void *context, const cb_change *change, cb_error *err)
{
	earlier *e = context;
	size_t size = strlen(change->path);
	if (!change->old_path || size < e->moved_size || !changes_within(e->path, change->path)) return CB_OK;
	AUTO_BUF buf was = BUF_INIT(SIZE_MAX);
	CB_TRY(buf_append_str(&was, change->old_path, err));
	CB_TRY(buf_append_str(&was, e->path + size, err));
	free(TAKE_PTR(e->was));
	e->moved_size = size;
	return buf_take(&was, &e->was, NULL, err);
}

/* May it stand in a line that is pasted into a shell? */
static bool is_plain(const char *path)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+,%@";
	return strlen(path) <= 200 && path[strspn(path, plain)] == 0;
}

/* What takes a path back to `then`, the state before the step; "" where nothing can be said of it. */
static void restore_words(cb_box *box, cb_box *then, const char *name, uint64_t seq, const char *path, char *out, size_t size)
{
	earlier e = {.path = path};
	cb_stat_info info = CB_INIT(cb_stat_info);
	out[0] = 0;
	cb_code code = cb_diff(then, box, NULL, find_earlier, &e, NULL);
	const char *was = e.was ? e.was : path;
	if (code == CB_OK) code = cb_stat(then, was, CB_NOFOLLOW, &info, NULL);
	if (code == CB_NOTFOUND && e.was) { /* made since, in a folder that was renamed */
		was = path;
		code = cb_stat(then, was, CB_NOFOLLOW, &info, NULL);
	}
	unsigned long long before = seq - 1;
	const char *beside = e.was && was == e.was && is_plain(path) ? path : NULL;
	if (code == CB_OK && is_plain(was))
		(void)snprintf(out, size, "; 'cowbox restore %s@%llu:%s' makes that path what it was before, %s%s", name, before,
		               was, beside ? "beside its name of now, " : "whatever came later", beside ? beside : "");
	else if (code == CB_NOTFOUND && is_plain(was))
		(void)snprintf(out, size, "; 'cowbox restore %s@%llu:%s' removes that path, which was not there before", name,
		               before, was);
	else if (code == CB_OK || code == CB_NOTFOUND)
		(void)snprintf(
			out, size,
			"; 'cowbox restore %s@%llu:/PATH' makes a path, by its name of then, what it was before, also when it was "
			"not there",
			name, before);
	free(e.was);
}

typedef struct conflicted {
	cli *c;
	size_t count;
	char *path; /* the first; NULL: there are only keys */
} conflicted;

static cb_code tell_conflict(void *context, const cb_conflict *conflict, cb_error *err)
{
	conflicted *k = context;
	k->count++;
	if (!k->path && conflict->path[0] == '/') {
		k->path = mem_strdup(conflict->path);
		if (!k->path) return cb_err_nomem(err);
		cli_keep(k->c, k->path);
	}
	return cli_conflict_visit(k->c, conflict, err);
}

/* Keys cannot be restored one by one, and the state before the step may be pruned. */
static void hint_conflict(cli *c, cb_box *box, const char *name, uint64_t seq, const char *path)
{
	char words[CB_ERROR_MESSAGE_MAX] = "", address[CB_NAME_MAX + 32];
	cb_store *store = NULL;
	cb_box *then = NULL;
	(void)snprintf(address, sizeof(address), "%s@%llu", name, (unsigned long long)seq - 1);
	if (path && cli_store(c, &store, NULL) == CB_OK && cb_box_open(store, address, &then, NULL) == CB_OK)
		restore_words(box, then, name, seq, path, words, sizeof(words));
	cb_box_close(then);
	cli_hint(c, "'cowbox diff %s@%llu %s' shows what came later%s", name, (unsigned long long)seq, name, words);
}

/* All of them, as merge does. seq 0: it chose the step itself, and the error says which. */
static cb_code undo_conflicts(cli *c, cb_box *box, const char *name, uint64_t seq, cb_error *err)
{
	conflicted k = {.c = c};
	if (cb_txn_conflicts(box, tell_conflict, &k, NULL) != CB_OK) return CB_CONFLICT;
	if (seq == 0) {
		cli_hint(c, "'cowbox log %s' shows the steps, 'cowbox restore %s@STEP' goes back to a whole state", name, name);
		return CB_CONFLICT;
	}
	hint_conflict(c, box, name, seq, k.path);
	return cb_err_set(err, CB_CONFLICT, "undoing step %llu: %zu conflict%s with later steps, nothing was changed",
	                  (unsigned long long)seq, k.count, k.count == 1 ? "" : "s");
}

/* ---- so often, or one step ---- */

static cb_code undo_times(cli *c, cb_box *box, const char *name, bool redo, uint64_t times, cb_error *err)
{
	if (times == 0) return cli_usage(c, err, "-n 0: that is nothing");
	for (uint64_t i = 0; i < times; i++) {
		taken_back t;
		uint64_t seq = 0;
		cb_code code = redo ? cb_redo(box, &seq, err) : cb_undo(box, 0, &seq, err);
		if (code == CB_NOTHING && i > 0) {
			const char *why = strstr(err->message, "pruned") ? err->message : "";
			cli_note(c, "%s after %llu%s%s", redo ? "nothing more to redo" : "nothing more to undo",
			         (unsigned long long)i, *why ? ": " : "", why);
			return CB_OK;
		}
		if (code == CB_CONFLICT) return undo_conflicts(c, box, name, 0, err);
		if (code != CB_OK) return code;
		CB_TRY(look_back(box, seq, &t, err));
		tell_taken(c, &t, redo);
	}
	return CB_OK;
}

/* One step, whatever came later. */
static cb_code undo_step(cli *c, cb_box *box, const cb_box_info *info, uint64_t step, cb_error *err)
{
	taken_back t;
	uint64_t seq = 0;
	if (step == 0) return cb_err_set(err, CB_NOTHING, "step 0 is where '%s' begins: it changed nothing", info->name);
	cb_code code = cb_undo(box, step, &seq, err);
	if (code == CB_CONFLICT) return undo_conflicts(c, box, info->name, step, err);
	if (code != CB_OK) return code;
	if (seq == 0) return cb_err_set(err, CB_NOTHING, "step %llu is taken back already", (unsigned long long)step);
	CB_TRY(look_back(box, seq, &t, err));
	tell_taken(c, &t, false);
	return CB_OK;
}

static cb_code run_undo(cli *c, const cli_call *call, cb_error *err)
{
	const char *text = cli_operand_text(call, "STEP");
	cli_address address = {.path = ""};
	cb_box *at = NULL, *box = NULL;
	cb_box_info info = CB_INIT(cb_box_info);
	uint64_t times = cli_number(call, "times", 1);
	if (text) CB_TRY(cli_address_parse(text, CLI_STATE, &address, err));
	if (address.state[0] && cli_given(call, "times")) return cli_usage(c, err, "a step and -n: one of them");
	CB_TRY(cli_open(c, text, CLI_STATE, &at, NULL, err));
	CB_TRY(cb_box_info_get(at, &info, err));
	CB_TRY(cli_open_writable(c, info.name, CLI_BOX, &box, NULL, err));
	begin_json(c, info.name, "undone");
	if (address.state[0]) CB_TRY(undo_step(c, box, &info, info.seq, err));
	else CB_TRY(undo_times(c, box, info.name, false, times, err));
	end_json(c);
	return CB_OK;
}

static cb_code run_redo(cli *c, const cli_call *call, cb_error *err)
{
	cb_box *box = NULL;
	cb_box_info info = CB_INIT(cb_box_info);
	CB_TRY(cli_open_writable(c, cli_operand_text(call, "BOX"), CLI_BOX, &box, NULL, err));
	CB_TRY(cb_box_info_get(box, &info, err));
	begin_json(c, info.name, "redone");
	CB_TRY(undo_times(c, box, info.name, true, cli_number(call, "times", 1), err));
	end_json(c);
	return CB_OK;
}

const cli_command cmd_undo = {
	.name = "undo",
	.group = "History",
	.summary = "take back the last change, or one step",
	.text = "The last change that was not taken back yet, whoever made it; again and again goes further back. One of which "
		"nothing "
		"is left, since later steps took it back, is passed. With a step "
		"(demo@5) that "
		"step alone is taken back and what came later stays; when later steps changed the same lines, all such paths are "
		"listed, nothing "
		"is changed, and the exit status is 9.\n\nUndo is itself a step: 'cowbox redo' takes it back. A merge that changed "
		"nothing "
		"can be undone too: it no longer counts, and merging again asks again.",
	.operands = (const cli_operand[]){{CLI_STATE, "STEP", true, false, "a box, or one step of it: BOX@STEP"}, {0}},
	.options = (const cli_option[]){{CLI_COUNT, "times", 'n', "N", "so many changes, one after the other"}, {0}},
	.examples = (const char *const[]){"cowbox undo demo", "cowbox undo demo@3", "cowbox undo demo -n 2", NULL},
	.json = "box       the box\n"
		"undone    for each: step (the new one), target_step (the step taken back), changed (false: that step no longer "
		"counts, and nothing else changed), change: step, kind, params, who\n"
		"notes     that there was nothing more to undo, when -n asks for more than there was\n"
		"When later steps changed the same the error object has conflicts; for each: path, reason.",
	.run = run_undo,
};

const cli_command cmd_redo = {
	.name = "redo",
	.group = "History",
	.summary = "take back the last undo",
	.text = "Works as long as nothing else changed the box since the undo.",
	.operands = (const cli_operand[]){{CLI_BOX, "BOX", true, false, "the box"}, {0}},
	.options = (const cli_option[]){{CLI_COUNT, "times", 'n', "N", "so many undos, one after the other"}, {0}},
	.examples = (const char *const[]){"cowbox undo demo && cowbox redo demo", NULL},
	.json = "box       the box\n"
		"redone    for each: step (the new one), target_step (the undo taken back), changed, change: step, kind, params, "
		"who\n"
		"notes     that there was nothing more to redo, when -n asks for more than there was",
	.run = run_redo,
};
