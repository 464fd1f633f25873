/* cmd_mv.c: mv and ln: another name, or one more, for what a box holds. */
#include "cli/cli.h"

#include <string.h>

typedef struct moving {
	cli *c;
	const cli_call *call;
	const char *const *paths; /* the sources, then the target */
	size_t sources;
	const char **to; /* where each went */
} moving;

/* Something is missing, and it is not the source: then it is a folder above the target. */
static void hint_folders(cli *c, cb_box *box, const char *source)
{
	cb_stat_info info = CB_INIT(cb_stat_info);
	if (source && cb_stat(box, source, CB_NOFOLLOW, &info, NULL) != CB_OK) return;
	cli_hint(c, "'cowbox mkdir --parents' makes folders");
}

static cb_code move_work(void *context, cb_box *box, cb_error *err)
{
	moving *m = context;
	const char *target = m->paths[m->sources];
	unsigned flags = cli_flag(m->call, "no-clobber") ? CB_NOREPLACE : 0;
	cb_stat_info info = CB_INIT(cb_stat_info);
	if (m->sources > 1) {
		CB_TRY(cb_stat(box, target, 0, &info, err));
		if (info.type != CB_DIR)
			return cb_err_set(err, CB_NOTDIR, "'%s' is no folder, and several things are to go there", target);
	}
	for (size_t i = 0; i < m->sources; i++) CB_TRY(cli_target_path(m->c, box, target, m->paths[i], &m->to[i], err));
	CB_TRY(cli_targets_distinct(m->to, m->sources, err));
	for (size_t i = 0; i < m->sources; i++) {
		cb_code code = cb_rename(box, m->paths[i], m->to[i], flags, err);
		if (code == CB_NOTFOUND) hint_folders(m->c, box, m->paths[i]);
		if (code != CB_OK) return code;
	}
	return CB_OK;
}

static void report_moves(cli *c, const moving *m, uint64_t seq)
{
	if (!cli_is_json(c)) return;
	json_writer *w = cli_json(c);
	json_object_begin(w);
	json_member_uint(w, "step", seq);
	json_member_array(w, "moved");
	for (size_t i = 0; i < m->sources; i++) {
		json_object_begin(w);
		json_member_str(w, "from", m->paths[i]);
		json_member_str(w, "to", m->to[i]);
		json_object_end(w);
	}
	json_array_end(w);
	json_object_end(w);
}

static cb_code run_mv(cli *c, const cli_call *call, cb_error *err)
{
	const char *const *sources = NULL;
	size_t count = cli_operand_list(call, "SOURCE", &sources);
	cb_box *box = NULL;
	uint64_t seq = 0;
	AUTO_FREE const char **texts = mem_alloc((count + 1) * sizeof(*texts));
	AUTO_FREE const char **to = mem_alloc(count * sizeof(*to));
	if (!texts || !to) return cb_err_nomem(err);
	memcpy((void *)texts, (const void *)sources, count * sizeof(*texts));
	texts[count] = cli_operand_text(call, "TARGET");
	moving m = {.c = c, .call = call, .sources = count, .to = to};
	cb_code code = cli_open_targets(c, texts, count + 1, &box, &m.paths, err);
	if (code == CB_CROSSBOX) cli_hint(c, "'cowbox cp' copies between boxes, 'cowbox rm' then removes");
	if (code != CB_OK) return code;
	cli_step step = {"mv", m.paths, count + 1, count == 1};
	CB_TRY(cli_step_run(c, box, &step, move_work, &m, &seq, err));
	report_moves(c, &m, seq);
	return CB_OK;
}

/* ---- ln ---- */

typedef struct linking {
	cli *c;
	bool symbolic;
	const char *target, *path;
} linking;

static cb_code link_work(void *context, cb_box *box, cb_error *err)
{
	const linking *l = context;
	cb_code code = l->symbolic ? cb_symlink(box, l->target, l->path, err) : cb_link(box, l->target, l->path, err);
	if (code == CB_NOTFOUND) hint_folders(l->c, box, l->symbolic ? NULL : l->target);
	return code;
}

static cb_code run_ln(cli *c, const cli_call *call, cb_error *err)
{
	const char *texts[2] = {cli_operand_text(call, "TARGET"), cli_operand_text(call, "PATH")};
	const char *const *paths = NULL;
	linking l = {.c = c, .symbolic = cli_flag(call, "symbolic"), .target = texts[0]};
	cb_box *box = NULL;
	uint64_t seq = 0;
	size_t first = l.symbolic ? 1 : 0;
	CB_TRY(cli_open_targets(c, texts + first, 2 - first, &box, &paths, err));
	if (!l.symbolic) l.target = paths[0];
	CB_TRY(cli_target_path(c, box, paths[1 - first], l.target, &l.path, err));
	cli_step step = {"ln", paths, 2 - first, true};
	CB_TRY(cli_step_run(c, box, &step, link_work, &l, &seq, err));
	if (!cli_is_json(c)) return CB_OK;
	json_writer *w = cli_json(c);
	json_object_begin(w);
	json_member_uint(w, "step", seq);
	json_member_str(w, "target", l.target);
	json_member_str(w, "path", l.path);
	json_object_end(w);
	return CB_OK;
}

const cli_command cmd_mv = {
	.name = "mv",
	.group = "Files",
	.summary = "move or rename files and folders within a box",
	.text = "Into TARGET when it is a folder, else to that name; a file that is there is replaced. All of them as one step, or "
		"none. Between "
		"boxes nothing is moved: copy with 'cowbox cp', then remove.",
	.operands =
		(const cli_operand[]){
			{CLI_PATH, "SOURCE", false, true, "what to move"},
			{CLI_PATH, "TARGET", false, false, "a folder to move into, or the new name"},
			{0},
		},
	.options =
		(const cli_option[]){
			{CLI_FLAG, "no-clobber", 'n', NULL, "fail when something is there already"},
			{0},
		},
	.examples = (const char *const[]){"cowbox mv demo:/work/a.txt demo:/work/b.txt",
                                          "cowbox mv /work/a.txt /work/README.md /work/src", NULL},
	.json = "step     the step it made\nmoved    for each: from, to",
	.run = run_mv,
};

const cli_command cmd_ln = {
	.name = "ln",
	.group = "Files",
	.summary = "make a hard or symbolic link",
	.text = "With -s the TARGET is any text, as it is, and need not be there. Symbolic links never lead out of the box. When "
		"PATH is a folder "
		"the link is made in it.",
	.operands =
		(const cli_operand[]){
			{CLI_PATH, "TARGET", false, false, "what the link leads to"},
			{CLI_PATH, "PATH", false, false, "the link"},
			{0},
		},
	.options =
		(const cli_option[]){
			{CLI_FLAG, "symbolic", 's', NULL, "a symbolic link"},
			{0},
		},
	.examples = (const char *const[]){"cowbox ln -s a.txt demo:/work/link",
                                          "cowbox ln demo:/work/a.txt demo:/work/src/same.txt", NULL},
	.json = "step      the step it made\ntarget    what it leads to\npath      the link",
	.run = run_ln,
};
