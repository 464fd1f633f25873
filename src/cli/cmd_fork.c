/* cmd_fork.c: a new box that starts at any state of another. */
#include "cli/cli.h"

static cb_code run_fork(cli *c, const cli_call *call, cb_error *err)
{
	const char *text = cli_operand_text(call, "STATE"), *name = cli_operand_text(call, "NAME");
	AUTO_FREE char *from = NULL;
	cb_store *store = NULL;
	cb_box *box = NULL;
	cb_box_info info = CB_INIT(cb_box_info);
	cli_address address = {.path = ""};
	if (text) CB_TRY(cli_address_parse(text, CLI_STATE, &address, err));
	CB_TRY(cli_store(c, &store, err));
	CB_TRY(cli_address_name(c, &address, &from, err));
	cli_recover(c, from);
	cb_code code = cb_box_fork(store, from, name, &box, err);
	if (code == CB_EXISTS) cli_hint(c, "take another name, or 'cowbox delete %s' first", name);
	if (code == CB_NOTFOUND) cli_hint(c, "'cowbox list' shows the boxes, 'cowbox log BOX' the steps");
	if (code != CB_OK) return code;
	code = cb_box_info_get(box, &info, err);
	cb_box_close(box);
	if (code == CB_OK && cli_flag(call, "use")) code = cb_store_setting_set(store, "use", name, CB_STRING, err);
	if (code != CB_OK || !cli_is_json(c)) return code;
	json_writer *w = cli_json(c);
	json_object_begin(w);
	cli_json_box(w, &info);
	json_object_end(w);
	return CB_OK;
}

const cli_command cmd_fork = {
	.name = "fork",
	.group = "Boxes",
	.summary = "make a box that starts at any state of another",
	.text = "The fork shares everything with its origin until one of them changes; it costs the same however large the box is. "
		"Its own log begins with the fork; what was before is the log of its origin, and 'cowbox blame' goes on there. "
		"'cowbox merge' brings its changes back.",
	.operands =
		(const cli_operand[]){
			{CLI_STATE, "STATE", true, false,
                         "where to start: BOX, BOX@STEP or BOX@CHECKPOINT (default: the chosen box)"},
			{CLI_WORD, "NAME", false, false, "the name of the fork"},
			{0},
		},
	.options =
		(const cli_option[]){
			{CLI_FLAG, "use", 0, NULL, "commands without an address mean the fork from now on"},
			{0},
		},
	.examples = (const char *const[]){"cowbox fork demo try-2 --use", "cowbox fork demo@before-refactor from-before", NULL},
	.json = "name steps files bytes created origin origin_step    the fork",
	.run = run_fork,
};
