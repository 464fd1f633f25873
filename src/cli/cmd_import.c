/* cmd_import.c: a folder, a file or a tar stream of the host into a box, as one step. */
#include "cli/cli.h"

#include <string.h>
#include <sys/stat.h>

#include "cli/exclude.h"

static void report(cli *c, const cb_transfer_count *count, const char *to)
{
	char files[CLI_FORMAT_MAX], size[CLI_FORMAT_MAX];
	if (!cli_is_json(c)) {
		if (!cli_is_terminal(c) || cli_is_quiet(c)) return;
		cli_print(c, "%s, %s, %llu unchanged", cli_count_words(count->files, "file", files),
		          cli_size_words(c, count->bytes, size), (unsigned long long)count->unchanged);
		if (count->removed) cli_print(c, ", %llu removed", (unsigned long long)count->removed);
		if (count->left_out) cli_print(c, ", %llu left out", (unsigned long long)count->left_out);
		cli_print(c, "%s\n", count->seq ? "" : ": nothing changed");
		return;
	}
	json_writer *w = cli_json(c);
	json_object_begin(w);
	json_member_str(w, "path", to);
	json_member_uint(w, "step", count->seq);
	json_member_uint(w, "files", count->files);
	json_member_uint(w, "folders", count->folders);
	json_member_uint(w, "symlinks", count->symlinks);
	json_member_uint(w, "bytes", count->bytes);
	json_member_uint(w, "unchanged", count->unchanged);
	json_member_uint(w, "removed", count->removed);
	json_member_uint(w, "left_out", count->left_out);
	json_object_end(w);
}

static cb_code import_stream(cli *c, const cli_call *call, cb_box *box, const char *to, cb_transfer_count *out, cb_error *err)
{
	static const char *const of_folders[] = {"gitignore", "remove-missing", "full", "link"};
	for (size_t i = 0; i < ARRAY_LEN(of_folders); i++)
		if (cli_flag(call, of_folders[i])) return cli_usage(c, err, "--%s is for folders, not for a stream", of_folders[i]);
	cb_tar_options options = CB_WITH(cb_tar_options, .to = to, .watch = cli_watch(c, "importing"));
	CB_TRY(cli_exclude(c, call, box, &options.exclude, &options.exclude_count, err));
	cb_code code = cb_tar_import(box, STDIN_FILENO, &options, out, err);
	cli_watch_done(c);
	return code;
}

/* A file goes into a folder of the box under its own name. */
static cb_code file_target(cli *c, cb_box *box, const char *source, const char **to, cb_error *err)
{
	struct stat host;
	cb_stat_info info = CB_INIT(cb_stat_info);
	if (stat(source, &host) != 0 || S_ISDIR(host.st_mode)) return CB_OK;
	bool slash = (*to)[strlen(*to) - 1] == '/';
	bool folder = cb_stat(box, *to, 0, &info, NULL) == CB_OK && info.type == CB_DIR;
	if (!slash && !folder) return CB_OK;
	const char *name = strrchr(source, '/');
	AUTO_BUF buf path = BUF_INIT(SIZE_MAX);
	char *made = NULL;
	CB_TRY(buf_printf(&path, err, "%s%s%s", *to, slash ? "" : "/", name ? name + 1 : source));
	CB_TRY(buf_take(&path, &made, NULL, err));
	cli_keep(c, made);
	*to = made;
	return CB_OK;
}

static cb_code import_folder(cli *c, const cli_call *call, cb_box *box, const char *source, const char *to, cb_transfer_count *out,
                             cb_error *err)
{
	cb_import_options options =
		CB_WITH(cb_import_options, .to = to, .remove_missing = cli_flag(call, "remove-missing"),
	                .full = cli_flag(call, "full"), .link = cli_flag(call, "link"), .watch = cli_watch(c, "importing"));
	CB_TRY(cli_exclude(c, call, box, &options.exclude, &options.exclude_count, err));
	CB_TRY(cli_exclude_gitignore(c, call, box, &options.gitignore, err));
	cb_code code = cb_import(box, source, &options, out, err);
	cli_watch_done(c);
	return code;
}

static cb_code run_import(cli *c, const cli_call *call, cb_error *err)
{
	const char *source = cli_operand_text(call, "SOURCE"), *to = NULL;
	cb_box *box = NULL;
	cb_transfer_count count = CB_INIT(cb_transfer_count);
	CB_TRY(cli_open_writable(c, cli_operand_text(call, "TARGET"), CLI_PLACE, &box, &to, err));
	if (!*to) to = "/work";
	bool stream = strcmp(source, "-") == 0;
	if (!stream) CB_TRY(file_target(c, box, source, &to, err));
	CB_TRY(stream ? import_stream(c, call, box, to, &count, err) : import_folder(c, call, box, source, to, &count, err));
	report(c, &count, to);
	return CB_OK;
}

const cli_command cmd_import = {
	.name = "import",
	.group = "To and from the host",
	.summary = "bring a folder, a file or a tar stream into a box",
	.text = "One step. Modes, times, symbolic and hard links, holes and user.* attributes are kept; devices, FIFOs, sockets, "
		"other "
		"filesystems, setuid bits and the folder of the store itself are left out, and each is said. The host wins over "
		"what the box has; what only the "
		"box has "
		"stays, unless --remove-missing.\n\nA folder that was imported to the same place before is read again only where "
		"size, "
		"times or inode changed. A file goes to TARGET, or into it when that is a folder. '-' reads a tar stream, plain or "
		"zstd, "
		"from standard input.",
	.operands =
		(const cli_operand[]){
			{CLI_HOST, "SOURCE", false, false, "a folder or file of the host, or '-'"},
			{CLI_PLACE, "TARGET", true, false, "BOX or BOX:/PATH (default: /work of the chosen box)"},
			{0},
		},
	.options =
		(const cli_option[]){
			{CLI_LIST, "exclude", 0, "PATTERN", "leave this out; as a line of .gitignore, may be repeated"},
			{CLI_FLAG, "gitignore", 0, NULL, "leave out what the folder's .gitignore files name"},
			{CLI_FLAG, "remove-missing", 0, NULL, "remove from the target what the folder does not have"},
			{CLI_FLAG, "full", 0, NULL, "read every file, also those that look as at the last import"},
			{CLI_FLAG, "link", 0, NULL, "the folder becomes the box's own: 'cowbox apply' writes back there"},
			{0},
		},
	.examples = (const char *const[]){"cowbox import src demo:/work/src --exclude '*.o'",
                                          "cowbox import README.md demo:/work/docs/",
                                          "tar -cf - src | cowbox import - demo:/work/copy", NULL},
	.json = "path        where it went in the box\n"
		"step        the step it made; 0 when nothing changed\n"
		"files folders symlinks bytes    brought over\n"
		"unchanged removed left_out      counts\n"
		"notes       what was left out or changed on the way, when there is something",
	.run = run_import,
};
