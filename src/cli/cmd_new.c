/* cmd_new.c: a new box, empty or from a folder of the host; all of it or nothing. */
#include "cli/cli.h"

#include "cli/exclude.h"

static cb_code import_from(cli *c, const cli_call *call, cb_box *box, cb_transfer_count *out, cb_error *err)
{
	cb_import_options options = CB_WITH(cb_import_options, .link = true, .watch = cli_watch(c, "importing"));
	CB_TRY(cli_exclude(c, call, NULL, &options.exclude, &options.exclude_count, err));
	CB_TRY(cli_exclude_gitignore(c, call, NULL, &options.gitignore, err));
	cb_code code = cb_import(box, cli_text(call, "from"), &options, out, err);
	cli_watch_done(c);
	if (code == CB_NOTDIR) cli_hint(c, "make the box without --from, then bring files in with 'cowbox cp'");
	return code;
}

static cb_code fill(cli *c, const cli_call *call, cb_box *box, cb_transfer_count *out, cb_error *err)
{
	const char *every = NULL;
	uint64_t steps = 0;
	CB_TRY(cli_config_get(c, NULL, "checkpoint.every", &every, err));
	CB_TRY(cli_parse_count(every, &steps, err));
	if (steps > 0) CB_TRY(cb_box_checkpoint_every_set(box, steps, err));
	return cli_text(call, "from") ? import_from(c, call, box, out, err) : CB_OK;
}

static void report(cli *c, const cb_box_info *info, const cb_transfer_count *count, const char *from)
{
	char files[CLI_FORMAT_MAX], size[CLI_FORMAT_MAX];
	if (!cli_is_json(c)) {
		if (from && cli_is_terminal(c) && !cli_is_quiet(c))
			cli_print(c, "%s, %s from '%s'\n", cli_count_words(count->files, "file", files),
			          cli_size_words(c, count->bytes, size), from);
		return;
	}
	json_writer *w = cli_json(c);
	json_object_begin(w);
	cli_json_box(w, info);
	if (from) {
		json_member_object(w, "imported");
		json_member_uint(w, "step", count->seq);
		json_member_uint(w, "files", count->files);
		json_member_uint(w, "folders", count->folders);
		json_member_uint(w, "symlinks", count->symlinks);
		json_member_uint(w, "bytes", count->bytes);
		json_member_uint(w, "left_out", count->left_out);
		json_object_end(w);
	}
	json_object_end(w);
}

static cb_code run_new(cli *c, const cli_call *call, cb_error *err)
{
	const char *name = cli_operand_text(call, "NAME"), *from = cli_text(call, "from");
	const char *const *given = NULL;
	cb_store *store = NULL;
	cb_box *box = NULL;
	cb_box_info info = CB_INIT(cb_box_info);
	cb_transfer_count count = CB_INIT(cb_transfer_count);
	if (!from && (cli_flag(call, "gitignore") || cli_list(call, "exclude", &given) > 0))
		return cli_usage(c, err, "--gitignore and --exclude need --from");
	CB_TRY(cli_store(c, &store, err));
	cb_code code = cb_box_draft(store, name, &box, err);
	if (code == CB_OK) code = fill(c, call, box, &count, err);
	if (code == CB_OK) code = cb_box_publish(box, err);
	if (code == CB_EXISTS) cli_hint(c, "take another name, or 'cowbox delete %s' first", name);
	if (code == CB_OK && cli_flag(call, "use")) code = cb_store_setting_set(store, "use", name, CB_STRING, err);
	if (code == CB_OK) code = cb_box_info_get(box, &info, err);
	cb_box_close(box);
	if (code != CB_OK) return code;
	report(c, &info, &count, from);
	return CB_OK;
}

const cli_command cmd_new = {
	.name = "new",
	.group = "Boxes",
	.summary = "make a box, empty or from a folder",
	.text = "A new box holds /work, /home/agent and /tmp. With --from the folder's content comes to /work, and the folder "
		"becomes the "
		"box's own: commands typed in it mean this box, and 'cowbox apply' writes changes back there. The box appears "
		"with its content: when the import fails or is killed there is none.\n\nThe store is made with the first box. The "
		"settings checkpoint.every, import.exclude and "
		"import.gitignore of "
		"'cowbox config' hold for the new box.",
	.operands =
		(const cli_operand[]){
			{CLI_WORD, "NAME", false, false,
                         "its name: 1-64 of letters, digits, '.', '_', '-', not beginning with '.' or '-'"},
			{0},
		},
	.options =
		(const cli_option[]){
			{CLI_TEXT, "from", 0, "FOLDER", "bring in this folder of the host"},
			{CLI_FLAG, "gitignore", 0, NULL, "leave out what the folder's .gitignore files name"},
			{CLI_LIST, "exclude", 0, "PATTERN", "leave this out; as a line of .gitignore, may be repeated"},
			{CLI_FLAG, "use", 0, NULL, "commands without an address mean this box from now on"},
			{0},
		},
	.examples = (const char *const[]){"cowbox new mine", "cowbox new mine --from . --exclude '*.o' --use", NULL},
	.json = "name steps files bytes created    the box\n"
		"imported    with --from: step, files, folders, symlinks, bytes, left_out\n"
		"notes       what was left out or changed on the way, when there is something",
	.flags = CLI_CREATES,
	.run = run_new,
};
