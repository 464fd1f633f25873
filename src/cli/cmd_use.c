/* cmd_use.c: the box that commands without an address mean. */
#include "cli/cli.h"

#include <string.h>

static const char *why(const char *by)
{
	if (strcmp(by, "folder") == 0) return "the box of this folder";
	if (strcmp(by, "use") == 0) return "cowbox use";
	return by;
}

static void show_json(cli *c, const char *box, const char *by)
{
	json_writer *w = cli_json(c);
	json_object_begin(w);
	json_member_str(w, "box", box);
	json_member_str(w, "by", by);
	json_object_end(w);
}

static cb_code show(cli *c, cb_error *err)
{
	const char *box = NULL;
	cb_store *store = NULL;
	CB_TRY(cli_store(c, &store, err));
	cb_code code = cli_chosen(c, &box, err);
	if (code != CB_OK && code != CB_INVALID) return code;
	if (code == CB_INVALID) {
		cli_note(c, "no box is chosen: 'cowbox use BOX' chooses one");
		cli_hint(c, "%s", "");
		cli_status(c, cb_code_exit_status(CB_NOTHING));
	}
	if (cli_is_json(c)) show_json(c, box, box ? cli_chosen_by(c) : NULL);
	else if (box) cli_print(c, "%s\t(%s)\n", box, why(cli_chosen_by(c)));
	return CB_OK;
}

/* Something that comes before `use` may still choose another box here. */
static void warn_if_other(cli *c, const char *name)
{
	const char *chosen = NULL;
	cb_error ignored;
	if (cli_chosen(c, &chosen, &ignored) != CB_OK) cli_hint(c, "%s", "");
	else if (strcmp(chosen, name) != 0) cli_note(c, "here '%s' is still meant: %s comes first", chosen, why(cli_chosen_by(c)));
}

static cb_code run_use(cli *c, const cli_call *call, cb_error *err)
{
	const char *text = cli_operand_text(call, "BOX");
	cb_store *store = NULL;
	cb_box *box = NULL;
	cb_box_info info = CB_INIT(cb_box_info);
	if (text && cli_flag(call, "none")) return cli_usage(c, err, "a box and --none: one of them");
	if (!text && !cli_flag(call, "none")) return show(c, err);
	CB_TRY(cli_store(c, &store, err));
	if (!text) {
		CB_TRY(cb_store_setting_set(store, "use", NULL, 0, err));
		if (cli_is_json(c)) show_json(c, NULL, NULL);
		return CB_OK;
	}
	CB_TRY(cli_open(c, text, CLI_BOX, &box, NULL, err));
	CB_TRY(cb_box_info_get(box, &info, err));
	CB_TRY(cb_store_setting_set(store, "use", info.name, CB_STRING, err));
	warn_if_other(c, info.name);
	if (cli_is_json(c)) show_json(c, info.name, "use");
	return CB_OK;
}

const cli_command cmd_use = {
	.name = "use",
	.group = "Boxes",
	.summary = "choose the box that commands without an address mean",
	.text = "A command's box is, in this order: the one in its address (demo:/work/a), --box, COWBOX_BOX, the box of the "
		"current folder "
		"(after 'new --from' or 'apply'), and the one chosen here. The choice is kept in the store. Without BOX it shows "
		"the chosen box "
		"and what chose it; the status is 1 when there is none.",
	.operands =
		(const cli_operand[]){
			{CLI_BOX, "BOX", true, false, "the box to choose"},
			{0},
		},
	.options =
		(const cli_option[]){
			{CLI_FLAG, "none", 0, NULL, "choose none"},
			{0},
		},
	.examples = (const char *const[]){"cowbox use demo", "cowbox use", "cowbox use --none", NULL},
	.json = "box    the chosen box; null when there is none\nby     what chose it: --box, COWBOX_BOX, folder, use; null when "
		"there is none\n"
		"notes  that another box is still meant here, and why",
	.run = run_use,
};
