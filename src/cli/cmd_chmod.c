/* cmd_chmod.c: modes of files and folders, with all that is below them; one step. */
#include "cli/cli.h"

#include <string.h>

enum { CHMOD_PATHS_BYTES = 1 << 30 }; /* of the paths below a folder */

typedef struct modes {
	cli *c;
	const cli_call *call;
	const char *const *paths;
	size_t count;
	buf found; /* NUL-terminated paths: the box is changed after the walk, never during it */
} modes;

static cb_code chmod_one(const modes *m, cb_box *box, const char *path, cb_error *err)
{
	cb_stat_info info = CB_INIT(cb_stat_info);
	uint32_t mode = 0;
	CB_TRY(cb_stat(box, path, 0, &info, err));
	CB_TRY(cli_parse_mode(cli_operand_text(m->call, "MODE"), info.mode, info.type == CB_DIR, &mode, err));
	return mode == info.mode ? CB_OK : cb_chmod(box, path, mode, 0, err);
}

static cb_code found(void *context, const char *path, const cb_stat_info *info, cb_error *err)
{
	modes *m = context;
	/* A link below the folder may point anywhere: its target was not named. */
	if (info->type == CB_SYMLINK) return CB_OK;
	return buf_append(&m->found, path, strlen(path) + 1, err);
}

static cb_code chmod_work(void *context, cb_box *box, cb_error *err)
{
	modes *m = context;
	for (size_t i = 0; i < m->count; i++) {
		cb_stat_info info = CB_INIT(cb_stat_info);
		const char *folder = NULL;
		CB_TRY(cb_stat(box, m->paths[i], 0, &info, err));
		if (!cli_flag(m->call, "recursive") || info.type != CB_DIR) {
			CB_TRY(chmod_one(m, box, m->paths[i], err));
			continue;
		}
		buf_clear(&m->found);
		CB_TRY(cli_path_join(m->c, m->paths[i], "", &folder, err)); /* the slash: what a link leads to is walked */
		CB_TRY(cb_walk(box, folder, found, m, err));
		for (size_t at = 0; at < m->found.size; at += strlen((const char *)m->found.bytes + at) + 1)
			CB_TRY(chmod_one(m, box, (const char *)m->found.bytes + at, err));
	}
	return CB_OK;
}

static cb_code run_chmod(cli *c, const cli_call *call, cb_error *err)
{
	modes m = {.c = c, .call = call, .found = BUF_INIT(CHMOD_PATHS_BYTES)};
	const char *const *texts = NULL;
	cb_box *box = NULL;
	uint32_t ignored = 0;
	uint64_t seq = 0;
	m.count = cli_operand_list(call, "PATH", &texts);
	CB_TRY(cli_parse_mode(cli_operand_text(call, "MODE"), 0, false, &ignored, err));
	CB_TRY(cli_open_targets(c, texts, m.count, &box, &m.paths, err));
	cli_step step = {"chmod", m.paths, m.count, m.count == 1 && !cli_flag(call, "recursive")};
	cb_code code = cli_step_run(c, box, &step, chmod_work, &m, &seq, err);
	buf_done(&m.found);
	return code == CB_OK ? cli_step_report(c, m.paths, m.count, seq, err) : code;
}

const cli_command cmd_chmod = {
	.name = "chmod",
	.group = "Files",
	.summary = "change the mode of files and folders",
	.text = "All of them as one step, or none. A link that is named is followed; links below a folder are left alone. A MODE "
		"that begins with "
		"'-' stands after '--'.",
	.operands =
		(const cli_operand[]){
			{CLI_WORD, "MODE", false, false, "755, u+x, go-w, a+X, u=rw,go=r"},
			{CLI_PATH, "PATH", false, true, "files and folders of one box"},
			{0},
		},
	.options =
		(const cli_option[]){
			{CLI_FLAG, "recursive", 'R', NULL, "also all that is below a folder"},
			{0},
		},
	.examples = (const char *const[]){"cowbox chmod u+x demo:/work/a.txt", "cowbox chmod -R go-w demo:/work/src",
                                          "cowbox chmod -- -x demo:/work/a.txt", NULL},
	.json = "step     the step it made; 0 when nothing changed\npaths    what was named",
	.run = run_chmod,
};
