/* cmd_rm.c: rm, mkdir and touch: entries that go or come, any number of them as one step. */
#include "cli/cli.h"

#include <string.h>

/* What the work on each operand needs to know. */
typedef struct entries {
	cli *c;
	const cli_call *call;
	const char *const *paths;
	size_t count;
	uint32_t mode;
} entries;

/* The usual frame: the operands PATH, in one box, by `work` as one step. */
static cb_code run_paths(cli *c, const cli_call *call, entries *e, bool single, cli_work work, cb_error *err)
{
	const char *const *texts = NULL;
	cb_box *box = NULL;
	uint64_t seq = 0;
	e->c = c;
	e->call = call;
	e->count = cli_operand_list(call, "PATH", &texts);
	CB_TRY(cli_open_targets(c, texts, e->count, &box, &e->paths, err));
	cli_step step = {cli_call_command(call)->name, e->paths, e->count, single && e->count == 1};
	CB_TRY(cli_step_run(c, box, &step, work, e, &seq, err));
	return cli_step_report(c, e->paths, e->count, seq, err);
}

/* ---- rm ---- */

static cb_code remove_one(const entries *e, cb_box *box, const char *path, cb_error *err)
{
	cb_stat_info info = CB_INIT(cb_stat_info);
	cb_code code = cb_stat(box, path, CB_NOFOLLOW, &info, err);
	if ((code == CB_NOTFOUND || code == CB_NOTDIR) && cli_flag(e->call, "force")) return CB_OK; /* below a file is nothing */
	if (code != CB_OK) return code;
	if (info.type != CB_DIR) return cb_unlink(box, path, err);
	if (cli_flag(e->call, "recursive")) return cb_remove(box, path, err);
	cli_hint(e->c, "-r removes folders");
	return cb_err_set(err, CB_ISDIR, "'%s' is a folder", path);
}

static cb_code remove_work(void *context, cb_box *box, cb_error *err)
{
	const entries *e = context;
	for (size_t i = 0; i < e->count; i++) CB_TRY(remove_one(e, box, e->paths[i], err));
	return CB_OK;
}

static cb_code run_rm(cli *c, const cli_call *call, cb_error *err)
{
	entries e = {0};
	return run_paths(c, call, &e, true, remove_work, err);
}

/* ---- mkdir ---- */

static cb_code mkdir_work(void *context, cb_box *box, cb_error *err)
{
	const entries *e = context;
	bool parents = cli_flag(e->call, "parents");
	for (size_t i = 0; i < e->count; i++) {
		cb_code code = cb_mkdir(box, e->paths[i], e->mode, parents ? CB_PARENTS : 0, err);
		if (code == CB_NOTFOUND && !parents) cli_hint(e->c, "--parents makes missing folders");
		if (code == CB_EXISTS && !parents) cli_hint(e->c, "with --parents an existing folder is fine");
		if (code != CB_OK) return code;
	}
	return CB_OK;
}

static cb_code run_mkdir(cli *c, const cli_call *call, cb_error *err)
{
	entries e = {.mode = 0755};
	const char *mode = cli_text(call, "mode");
	if (mode) CB_TRY(cli_parse_mode(mode, 0755, true, &e.mode, err));
	return run_paths(c, call, &e, true, mkdir_work, err);
}

/* ---- touch ---- */

static cb_code touch_one(const entries *e, cb_box *box, const char *path, cb_error *err)
{
	cb_stat_info info = CB_INIT(cb_stat_info);
	int64_t when = cli_moment(e->call, "time", cli_now(e->c));
	cb_code code = cb_stat(box, path, 0, &info, err);
	if (code == CB_OK) return cb_utimens(box, path, when, when, 0, err);
	if (code != CB_NOTFOUND) return code;
	if (cli_flag(e->call, "no-create")) return CB_OK;
	cb_write_options options = CB_WITH(cb_write_options, .append = true, .parents = cli_flag(e->call, "parents"));
	code = cb_write_file(box, path, "", 0, &options, err);
	if (code == CB_NOTFOUND && !options.parents) cli_hint(e->c, "--parents makes missing folders");
	if (code != CB_OK || !cli_given(e->call, "time")) return code;
	return cb_utimens(box, path, when, when, 0, err);
}

static cb_code touch_work(void *context, cb_box *box, cb_error *err)
{
	const entries *e = context;
	for (size_t i = 0; i < e->count; i++) CB_TRY(touch_one(e, box, e->paths[i], err));
	return CB_OK;
}

static cb_code run_touch(cli *c, const cli_call *call, cb_error *err)
{
	entries e = {0};
	return run_paths(c, call, &e, !cli_given(call, "time"), touch_work, err);
}

/* ---- tables ---- */

static const char step_json[] = "step     the step it made; 0 when nothing changed\npaths    what was named";

const cli_command cmd_rm = {
	.name = "rm",
	.group = "Files",
	.summary = "remove files and folders",
	.text = "All of them go as one step, or none. Links are removed, never followed. 'cowbox undo' brings everything back.",
	.operands =
		(const cli_operand[]){
			{CLI_PATH, "PATH", false, true, "files, links and, with -r, folders of one box"},
			{0},
		},
	.options =
		(const cli_option[]){
			{CLI_FLAG, "recursive", 'r', NULL, "folders with all that is in them"},
			{CLI_FLAG, "force", 'f', NULL, "what is not there is no error"},
			{0},
		},
	.examples = (const char *const[]){"cowbox rm demo:/work/a.txt", "cowbox rm -r demo:/work/src demo:/work/README.md", NULL},
	.json = step_json,
	.run = run_rm,
};

const cli_command cmd_mkdir = {
	.name = "mkdir",
	.group = "Files",
	.summary = "make folders",
	.text = "All of them as one step, or none.",
	.operands =
		(const cli_operand[]){
			{CLI_PATH, "PATH", false, true, "the folders, in one box"},
			{0},
		},
	.options =
		(const cli_option[]){
			{CLI_FLAG, "parents", 'p', NULL, "make missing folders above; existing folders are fine"},
			{CLI_TEXT, "mode", 'm', "MODE", "the mode, as 750 or u=rwx,go= (default: 755)"},
			{0},
		},
	.examples =
		(const char *const[]){"cowbox mkdir demo:/work/docs", "cowbox mkdir -p -m 700 demo:/work/a/b demo:/work/c", NULL},
	.json = step_json,
	.run = run_mkdir,
};

const cli_command cmd_touch = {
	.name = "touch",
	.group = "Files",
	.summary = "set the time of files, making those that are missing",
	.text = "All of them as one step, or none. A link is followed.",
	.operands =
		(const cli_operand[]){
			{CLI_PATH, "PATH", false, true, "the files, in one box"},
			{0},
		},
	.options =
		(const cli_option[]){
			{CLI_MOMENT, "time", 't', "TIME", "this time: 2h (ago), 2026-01-31, 2026-01-31T12:00:00 (default: now)"},
			{CLI_FLAG, "no-create", 'c', NULL, "leave missing files alone"},
			{CLI_FLAG, "parents", 'p', NULL, "make missing folders"},
			{0},
		},
	.examples = (const char *const[]){"cowbox touch demo:/work/new.txt",
                                          "cowbox touch --time 2026-01-31T12:00:00Z demo:/work/a.txt", NULL},
	.json = step_json,
	.run = run_touch,
};
