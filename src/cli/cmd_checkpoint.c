/* cmd_checkpoint.c: names for steps: save, list, delete. */
#include "cli/cli.h"

#include <string.h>

typedef struct search {
	const char *name;
	cb_checkpoint found;
	bool is_found;
} search;

static cb_code match(void *context, const cb_checkpoint *checkpoint, cb_error *err)
{
	(void)err;
	search *s = context;
	if (strcmp(checkpoint->name, s->name) != 0) return CB_OK;
	s->found = *checkpoint;
	s->is_found = true;
	return CB_INTERRUPTED;
}

static void one_json(cli *c, const char *box, const cb_checkpoint *p)
{
	json_writer *w = cli_json(c);
	json_object_begin(w);
	if (box) json_member_str(w, "box", box);
	json_member_str(w, "name", p->name);
	json_member_uint(w, "step", p->seq);
	cli_json_time(w, "created", p->created_ns);
	json_member_bool(w, "automatic", p->automatic);
	json_object_end(w);
}

/* ---- save ---- */

static cb_code run_save(cli *c, const cli_call *call, cb_error *err)
{
	const char *name = cli_operand_text(call, "NAME");
	cb_box *box = NULL;
	cb_box_info info = CB_INIT(cb_box_info);
	search s = {.name = name};
	CB_TRY(cli_open(c, cli_operand_text(call, "STATE"), CLI_STATE, &box, NULL, err));
	cb_code code = cb_checkpoint_save(box, name, 0, cli_flag(call, "no-sync"), err);
	if (code == CB_EXISTS) cli_hint(c, "take another name, or 'cowbox checkpoint delete' it first");
	if (code != CB_OK) return code;
	if (!cli_is_json(c)) return CB_OK;
	CB_TRY(cb_box_info_get(box, &info, err));
	CB_TRY(cb_checkpoint_list(box, match, &s, err));
	one_json(c, info.name, &s.found);
	return CB_OK;
}

static const cli_command checkpoint_save = {
	.name = "save",
	.summary = "give the current or an older step a name",
	.text = "The step is never pruned and can be opened as BOX@NAME. What was done up to now is on disk when the command "
		"returns.",
	.operands =
		(const cli_operand[]){
			{CLI_STATE, "STATE", true, false, "the box, or an older step of it: BOX@7, BOX@-1"},
			{CLI_WORD, "NAME", false, false,
                         "1-64 of letters, digits, '.', '_', '-', not beginning with '.' or '-', not a number"},
			{0},
		},
	.options = (const cli_option[]){{CLI_FLAG, "no-sync", 0, NULL, "do not wait for the disk"}, {0}},
	.examples =
		(const char *const[]){"cowbox checkpoint save demo before-tests", "cowbox checkpoint save demo@-1 last-good", NULL},
	.json = "box name\nstep created\nautomatic           false: it has a name of somebody's choice",
	.run = run_save,
};

/* ---- list ---- */

static cb_code row(void *context, const cb_checkpoint *p, cb_error *err)
{
	(void)err;
	cli *c = context;
	char when[CLI_FORMAT_MAX];
	if (cli_is_json(c)) one_json(c, NULL, p);
	else
		cli_print(c, "%s%-32s%s step %-8llu %s\n", cli_on(c, CLI_YELLOW), p->name, cli_off(c), (unsigned long long)p->seq,
		          cli_human_time(c, p->created_ns, when));
	return CB_OK;
}

static cb_code run_list(cli *c, const cli_call *call, cb_error *err)
{
	cb_box *box = NULL;
	cb_box_info info = CB_INIT(cb_box_info);
	CB_TRY(cli_open(c, cli_operand_text(call, "BOX"), CLI_BOX, &box, NULL, err));
	if (!cli_is_json(c)) return cb_checkpoint_list(box, row, c, err);
	CB_TRY(cb_box_info_get(box, &info, err));
	json_writer *w = cli_json(c);
	json_object_begin(w);
	json_member_str(w, "box", info.name);
	json_member_uint(w, "checkpoint_every", info.checkpoint_every);
	json_member_array(w, "checkpoints");
	CB_TRY(cb_checkpoint_list(box, row, c, err));
	json_array_end(w);
	json_object_end(w);
	return CB_OK;
}

static const cli_command checkpoint_list = {
	.name = "list",
	.summary = "list the checkpoints of a box",
	.text = "By step. Automatic ones are called auto-SEQ, or auto-SEQ-2 where somebody gave that name to another step (see "
		"'cowbox config set checkpoint.every' and 'cowbox exec "
		"--checkpoint'), and the newest 32 are kept.",
	.operands = (const cli_operand[]){{CLI_BOX, "BOX", true, false, "the box"}, {0}},
	.examples = (const char *const[]){"cowbox checkpoint list demo", NULL},
	.json = "box\ncheckpoint_every    steps between automatic checkpoints; 0: none\ncheckpoints         for each: name, step, "
		"created, automatic",
	.run = run_list,
};

/* ---- delete ---- */

static cb_code run_delete(cli *c, const cli_call *call, cb_error *err)
{
	cb_box *box = NULL;
	cb_box_info info = CB_INIT(cb_box_info);
	search s = {.name = cli_operand_text(call, "NAME")};
	CB_TRY(cli_open_writable(c, cli_operand_text(call, "BOX"), CLI_BOX, &box, NULL, err));
	CB_TRY(cb_box_info_get(box, &info, err));
	CB_TRY(cb_checkpoint_list(box, match, &s, err));
	cb_code code = cb_checkpoint_delete(box, s.name, err);
	if (code == CB_NOTFOUND) cli_hint(c, "'cowbox checkpoint list %s' shows them", info.name);
	if (code != CB_OK) return code;
	if (cli_is_json(c)) one_json(c, info.name, &s.found);
	else if (s.is_found)
		cli_print(c, "'%s' was step %llu, which may be pruned now: 'cowbox checkpoint save %s@%llu %s' names it again\n",
		          s.name, (unsigned long long)s.found.seq, info.name, (unsigned long long)s.found.seq, s.name);
	return CB_OK;
}

static const cli_command checkpoint_delete = {
	.name = "delete",
	.summary = "take a name from its step",
	.text = "Nothing is lost by it, so it does not ask: the step stays until 'cowbox prune' takes it, which does ask, and can "
		"be "
		"given the name again until then.",
	.operands = (const cli_operand[]){{CLI_BOX, "BOX", true, false, "the box"},
                                          {CLI_CHECKPOINT, "NAME", false, false, "the checkpoint"},
                                          {0}},
	.examples = (const char *const[]){"cowbox checkpoint delete demo before-refactor", NULL},
	.json = "box name\nstep created    what it named, and since when\nautomatic           false: it had a name of somebody's "
		"choice",
	.run = run_delete,
};

const cli_command cmd_checkpoint = {
	.name = "checkpoint",
	.group = "History",
	.summary = "name steps, so that they are found and never pruned",
	.text = "A checkpoint is a name for a step of a box: BOX@NAME opens it, 'cowbox restore BOX@NAME' goes back to it, "
		"prune leaves it.",
	.examples = (const char *const[]){"cowbox checkpoint save demo before-refactor", "cowbox checkpoint list demo", NULL},
	.subs = (const cli_command *const[]){&checkpoint_save, &checkpoint_list, &checkpoint_delete, NULL},
};
