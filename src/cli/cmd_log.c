/* cmd_log.c: the steps of a box, a folder or a file, newest first. */
#include "cli/changes.h"
#include "cli/steps.h"

#include <string.h>

enum { KINDS_BYTES = 1000 };

typedef struct logging {
	cli *c;
	const cli_call *call;
	cb_store *store;
	step_names names;
	char box[CB_NAME_MAX + 1];
	changes_options changes;
	bool with_changes, oneline, any;
	const char *who, *kind;
	bool kind_seen;
	buf kinds; /* of the steps passed, each once, with its NUL; while none is of that kind */
	int64_t since_ns, until_ns;
	uint64_t left;
} logging;

static bool is_wanted(const logging *l, const cb_step *step)
{
	if (l->who && strcmp(step->who, l->who) != 0) return false;
	if (l->kind && strcmp(step->kind, l->kind) != 0) return false;
	return step->ended_ns >= l->since_ns && step->ended_ns <= l->until_ns;
}

/* For who asks for a kind that there is not: any word may be one, since callers name theirs. */
static void note_kind(logging *l, const char *kind)
{
	if (!l->kind || l->kind_seen) return;
	l->kind_seen = strcmp(kind, l->kind) == 0;
	for (size_t at = 0; at < l->kinds.size; at += strlen((const char *)l->kinds.bytes + at) + 1)
		if (strcmp((const char *)l->kinds.bytes + at, kind) == 0) return;
	(void)buf_append(&l->kinds, kind, strlen(kind) + 1, NULL); /* past the bound the rest is not told */
}

static void tell_kinds(logging *l)
{
	AUTO_BUF buf list = BUF_INIT(KINDS_BYTES * 2);
	for (size_t at = 0; at < l->kinds.size; at += strlen((const char *)l->kinds.bytes + at) + 1)
		(void)buf_printf(&list, NULL, "%s%s", at ? ", " : "", (const char *)l->kinds.bytes + at);
	if (list.size) cli_note(l->c, "no step of kind '%s'; kinds here: %.*s", l->kind, (int)list.size, (const char *)list.bytes);
	else cli_note(l->c, "no step of kind '%s'", l->kind);
	cli_status(l->c, cb_code_exit_status(CB_NOTHING));
}

static cb_code open_at(const logging *l, uint64_t seq, cb_box **out, cb_error *err)
{
	char address[CB_NAME_MAX + 32];
	(void)snprintf(address, sizeof(address), "%s@%llu", l->box, (unsigned long long)seq);
	return cb_box_open(l->store, address, out, err);
}

static cb_code print_changes(logging *l, const cb_step *step, cb_error *err)
{
	cb_box *from = NULL, *to = NULL;
	if (step->seq == 0 || !step->changed) return CB_OK;
	CB_TRY(open_at(l, step->seq, &to, err));
	cb_code code = open_at(l, step->seq - 1, &from, err);
	if (code == CB_OK) code = changes_print(l->c, from, to, &l->changes, NULL, err);
	else if (code == CB_STALE || code == CB_NOTFOUND) code = changes_print_step(l->c, to, step->seq, &l->changes, NULL, err);
	cb_box_close(from);
	cb_box_close(to);
	if (code == CB_OK && !cli_is_json(l->c)) cli_print(l->c, "\n");
	return code;
}

static void print_gap(const logging *l, const cb_step *step)
{
	cli *c = l->c;
	if (step->gap)
		cli_print(c, "%s-- steps before %llu were pruned --%s\n", cli_on(c, CLI_DIM), (unsigned long long)step->seq,
		          cli_off(c));
}

static void print_line(const logging *l, const cb_step *step)
{
	cli *c = l->c;
	cli_print(c, "%s%llu%s", cli_on(c, CLI_YELLOW), (unsigned long long)step->seq, cli_off(c));
	step_print_names(c, &l->names, step->seq);
	cli_print(c, " ");
	step_print_what(c, step);
	cli_print(c, "\n");
}

static void print_block(const logging *l, const cb_step *step)
{
	cli *c = l->c;
	char when[CLI_FORMAT_MAX];
	cli_print(c, "%sstep %llu%s", cli_on(c, CLI_YELLOW), (unsigned long long)step->seq, cli_off(c));
	step_print_names(c, &l->names, step->seq);
	cli_print(c, "\nWho:  ");
	cli_print_name(c, step->who);
	cli_print(c, "\nWhen: %s\n\n    ", cli_human_time(c, step->ended_ns, when));
	step_print_what(c, step);
	cli_print(c, "%s\n\n", step->changed || step->seq == 0 ? "" : " (changed nothing)");
}

static cb_code visit(void *context, const cb_step *step, cb_error *err)
{
	logging *l = context;
	note_kind(l, step->kind);
	if (!is_wanted(l, step)) return CB_OK;
	if (l->left == 0) return CB_INTERRUPTED;
	l->left--;
	l->any = true;
	bool json = cli_is_json(l->c);
	if (json) {
		json_object_begin(cli_json(l->c));
		step_json(l->c, step, &l->names);
	} else if (l->oneline) {
		print_line(l, step);
	} else {
		print_block(l, step);
	}
	if (l->with_changes) CB_TRY(print_changes(l, step, err));
	if (json) json_object_end(cli_json(l->c));
	else print_gap(l, step);
	return CB_OK;
}

/* Where a fork's own steps end those of its origin go on. */
static void print_end(const logging *l, const cb_box_info *info, bool pruned)
{
	cli *c = l->c;
	if (cli_is_json(c)) {
		json_writer *w = cli_json(c);
		json_array_end(w);
		json_member_bool(w, "pruned", pruned);
		if (info->origin[0]) json_member_str(w, "origin", info->origin);
		if (info->origin[0]) json_member_uint(w, "origin_step", info->origin_seq);
		json_object_end(w);
	} else if (info->origin[0] && l->left > 0 && !l->oneline) {
		cli_print(c, "%s-- a fork: 'cowbox log %s@%llu' goes on from here --%s\n", cli_on(c, CLI_DIM), info->origin,
		          (unsigned long long)info->origin_seq, cli_off(c));
	}
}

static cb_code options_of(cli *c, const cli_call *call, logging *l, cb_error *err)
{
	if (cli_flag(call, "stat") && cli_flag(call, "patch")) return cli_usage(c, err, "--stat, --patch: one of them");
	l->oneline = cli_flag(call, "oneline");
	l->with_changes = cli_flag(call, "stat") || cli_flag(call, "patch");
	l->changes.view = cli_flag(call, "stat") ? CHANGES_STAT : CHANGES_PATCH;
	l->changes.patch = cli_flag(call, "patch");
	l->changes.all = true;
	l->who = cli_who_given(c);
	l->kind = cli_text(call, "kind");
	l->since_ns = cli_moment(call, "since", INT64_MIN);
	l->until_ns = cli_moment(call, "until", INT64_MAX);
	l->left = cli_number(call, "max", 0);
	if (l->left == 0) l->left = UINT64_MAX;
	return CB_OK;
}

static cb_code run_log(cli *c, const cli_call *call, cb_error *err)
{
	cb_box *box = NULL;
	cb_box_info info = CB_INIT(cb_box_info);
	const char *path = NULL;
	AUTO_FREE char *clean = NULL;
	bool pruned = false;
	logging l = {.c = c, .call = call, .kinds = BUF_INIT(KINDS_BYTES)};
	CB_TRY(options_of(c, call, &l, err));
	CB_TRY(step_open(c, cli_operand_text(call, "PLACE"), CLI_PLACE, &box, &path, &info, err));
	CB_TRY(cli_store(c, &l.store, err));
	CB_TRY(changes_lines(c, box, call, &l.changes, err));
	(void)snprintf(l.box, sizeof(l.box), "%s", info.name);
	if (*path) CB_TRY(changes_path(path, &clean, err));
	if (cli_is_json(c)) {
		json_object_begin(cli_json(c));
		json_member_str(cli_json(c), "box", info.name);
		if (clean) json_member_str(cli_json(c), "path", clean);
		json_member_array(cli_json(c), "steps");
	}
	cb_log_options options = CB_WITH(cb_log_options, .path = clean);
	cb_code code = step_names_load(box, &l.names, err);
	if (code == CB_OK) code = cb_log(box, &options, visit, &l, &pruned, err);
	step_names_done(&l.names);
	if (code == CB_OK && l.kind && !l.kind_seen) tell_kinds(&l);
	buf_done(&l.kinds);
	if (code != CB_OK) return code;
	if (!l.any && clean && l.left > 0 && !pruned && !cli_given(call, "since") && !l.who && !l.kind) {
		cb_stat_info stat = CB_INIT(cb_stat_info);
		CB_TRY(cb_stat(box, clean, CB_NOFOLLOW, &stat, err));
	}
	if (pruned && clean) cli_note(c, "older steps were pruned: what they did to '%s' is not known", clean);
	print_end(&l, &info, pruned);
	return CB_OK;
}

const cli_command cmd_log = {
	.name = "log",
	.group = "History",
	.summary = "list the steps of a box, newest first",
	.text = "A path limits the list to the steps that touched a file, which is followed through renames, or anything below a "
		"folder. A "
		"state (demo@7) lists from there backwards.\n\n"
		"Checkpoints stand beside their step. Of undo and redo the step they took back is told, of a merge the state that "
		"was merged. --who lists the "
		"steps of one only. Where no step is of the kind that --kind names, the kinds that there are are said, with status "
		"1.",
	.operands = (const cli_operand[]){{CLI_PLACE, "PLACE", true, false, "a box, a state, or a path in one"}, {0}},
	.options =
		(const cli_option[]){
			{CLI_COUNT, "max", 'n', "N", "at most so many steps; 0: all"},
			{CLI_TEXT, "kind", 0, "KIND",
                         "only steps of this kind: write, edit, import, exec, merge, undo and so on, the second word of --oneline"},
			{CLI_MOMENT, "since", 0, "TIME",
                         "only steps since then: 7d (ago), 2026-01-31, 2026-01-31T12:00 (local time)"},
			{CLI_MOMENT, "until", 0, "TIME", "only steps until then, as --since"},
			{CLI_FLAG, "oneline", 0, NULL, "a line per step"},
			{CLI_FLAG, "stat", 0, NULL, "with the lines each step changed, counted"},
			{CLI_FLAG, "patch", 'p', NULL, "with what each step changed"},
			{CLI_COUNT, "unified", 'U', "LINES", "lines around each change (default: 3)"},
			{0}},
	.examples = (const char *const[]){"cowbox log demo", "cowbox log demo:/work/a.txt --patch",
                                          "cowbox log demo --oneline -n 5 --since 7d", NULL},
	.json = "box path   what was asked for\n"
		"steps      for each: step, kind, who, started, ended, changed, params, result, target_step (undo, redo), other, "
		"other_step (merge, "
		"restore, fork), foreign (true: the box was unpacked, and other names a box of the store it was packed in, none of "
		"this one), pruned_before, checkpoints; with --stat or --patch: changes, left_out, patch as of diff\n"
		"pruned     whether older steps are gone\n"
		"origin origin_step    of a fork\n"
		"notes      that older steps of a path are not known, since they were pruned",
	.flags = CLI_PAGED,
	.run = run_log,
};
