/* cmd_export.c: a folder or file of a box to the host, as it is or as a tar stream. */
#include "cli/cli.h"

#include <string.h>

static void report(cli *c, const cb_transfer_count *count, const char *target)
{
	char files[CLI_FORMAT_MAX], size[CLI_FORMAT_MAX];
	if (!cli_is_json(c)) {
		if (cli_is_terminal(c) && !cli_is_quiet(c))
			cli_print(c, "%s, %s to '%s'\n", cli_count_words(count->files, "file", files),
			          cli_size_words(c, count->bytes, size), target);
		return;
	}
	json_writer *w = cli_json(c);
	json_object_begin(w);
	json_member_str(w, "target", target);
	json_member_uint(w, "files", count->files);
	json_member_uint(w, "folders", count->folders);
	json_member_uint(w, "symlinks", count->symlinks);
	json_member_uint(w, "bytes", count->bytes);
	json_object_end(w);
}

static cb_code export_stream(cli *c, const cli_call *call, cb_box *box, const char *path, cb_error *err)
{
	if (cli_is_json(c)) return cli_usage(c, err, "--json and a stream on standard output: one of them");
	if (isatty(STDOUT_FILENO)) return cli_usage(c, err, "a tar stream is not for a terminal: send it to a file or a program");
	if (cli_flag(call, "overwrite")) return cli_usage(c, err, "--overwrite is for folders, not for a stream");
	cb_tar_options options = CB_WITH(cb_tar_options, .all = cli_flag(call, "all"), .setid = cli_flag(call, "setid"),
	                                 .watch = cli_watch(c, "exporting"));
	options.exclude_count = cli_list(call, "exclude", &options.exclude);
	cb_code code = cb_tar_export(box, path, STDOUT_FILENO, &options, NULL, err);
	cli_watch_done(c);
	return code;
}

static cb_code run_export(cli *c, const cli_call *call, cb_error *err)
{
	const char *target = cli_operand_text(call, "TARGET"), *path = NULL;
	cb_box *box = NULL;
	bool folder = false;
	cb_stat_info info = CB_INIT(cb_stat_info);
	cb_transfer_count count = CB_INIT(cb_transfer_count);
	CB_TRY(cli_open(c, cli_operand_text(call, "SOURCE"), CLI_PLACE, &box, &path, err));
	if (!*path) path = "/work";
	CB_TRY(cb_stat(box, path, CB_NOFOLLOW, &info, err));
	/* Else the agent chooses whether TARGET becomes a folder or a link to anywhere. */
	if (info.type == CB_SYMLINK) {
		cli_hint(c, "name what it leads to; 'cowbox cp' copies the link itself");
		return cb_err_set(err, CB_LOOP, "'%s' in the box is a symbolic link", path);
	}
	if (strcmp(target, "-") == 0) return export_stream(c, call, box, path, err);
	CB_TRY(cli_host_folder(target, &folder, err));
	if (folder && info.type != CB_DIR) CB_TRY(cli_path_join(c, target, strrchr(path, '/') + 1, &target, err));
	cb_export_options options =
		CB_WITH(cb_export_options, .overwrite = cli_flag(call, "overwrite"), .all = cli_flag(call, "all"),
	                .setid = cli_flag(call, "setid"), .watch = cli_watch(c, "exporting"));
	options.exclude_count = cli_list(call, "exclude", &options.exclude);
	cb_code code = cb_export(box, path, target, &options, &count, err);
	cli_watch_done(c);
	if (code == CB_EXISTS && !options.overwrite) cli_hint(c, "--overwrite writes over files that are there");
	if (code != CB_OK) return code;
	report(c, &count, target);
	return CB_OK;
}

const cli_command cmd_export = {
	.name = "export",
	.group = "To and from the host",
	.summary = "write a folder or file of a box to the host",
	.text = "The content of /work, or of the folder named, goes to TARGET, which must not exist or be empty. Modes, times, "
		"symbolic and hard links, holes and user.* attributes are kept; setuid and setgid bits are dropped and said. "
		"Nothing is removed, and each file appears whole. No link in TARGET is followed, nor TARGET when it is one itself, "
		"unless a '/' stands after it; a SOURCE that is a link is refused.\n\n"
		"A file goes to TARGET, or into it when that is a folder. '-' writes a tar stream to standard output. 'BOX:/' is "
		"the whole box, without /home/agent and /tmp unless --all.",
	.operands =
		(const cli_operand[]){
			{CLI_PLACE, "SOURCE", false, false, "BOX, BOX@STATE or BOX:/PATH (default path: /work)"},
			{CLI_HOST, "TARGET", false, false, "a folder or file of the host to be made, or '-'"},
			{0},
		},
	.options =
		(const cli_option[]){
			{CLI_LIST, "exclude", 0, "PATTERN", "leave this out; as a line of .gitignore, may be repeated"},
			{CLI_FLAG, "overwrite", 0, NULL, "write into a folder that has something in it, over files that exist"},
			{CLI_FLAG, "all", 0, NULL, "of a whole box: also /home/agent and /tmp"},
			{CLI_FLAG, "setid", 0, NULL, "keep setuid and setgid bits"},
			{0},
		},
	.examples = (const char *const[]){"cowbox export demo out", "cowbox export demo@before-refactor:/work/a.txt old.txt",
                                          "cowbox export demo:/work - | tar -tf -", NULL},
	.json = "target      where it went on the host\n"
		"files folders symlinks bytes    written\n"
		"notes       what was left out or changed on the way, when there is something",
	.run = run_export,
};
