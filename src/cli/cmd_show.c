/* cmd_show.c: one step in full, or a file as it was. */
#include "cli/changes.h"
#include "cli/steps.h"

#include <string.h>

typedef struct showing {
	cli *c;
	step_names names;
	char box[CB_NAME_MAX + 1];
} showing;

/* Params and result may be long texts of an agent's: indented, each line. */
static void print_block(cli *c, const char *title, const char *text, size_t size)
{
	if (size == 0) return;
	cli_print(c, "%s:\n", title);
	while (size > 0) {
		const char *end = memchr(text, '\n', size);
		size_t n = end ? (size_t)(end - text) : size;
		cli_print(c, "    ");
		cli_print_bytes(c, text, n);
		cli_print(c, "\n");
		size -= n + (end != NULL);
		text += n + (end != NULL);
	}
}

static bool is_short(const cb_step *step)
{
	return step->params_size <= STEP_TEXT_MAX && (step->params_size == 0 || !memchr(step->params, '\n', step->params_size));
}

static cb_code print_header(void *context, const cb_step *step, cb_error *err)
{
	(void)err;
	showing *s = context;
	cli *c = s->c;
	char when[CLI_FORMAT_MAX];
	if (cli_is_json(c)) {
		json_member_str(cli_json(c), "box", s->box);
		step_json(c, step, &s->names);
		return CB_OK;
	}
	cli_print(c, "%sstep %s@%llu%s", cli_on(c, CLI_YELLOW), s->box, (unsigned long long)step->seq, cli_off(c));
	step_print_names(c, &s->names, step->seq);
	cli_print(c, "\n");
	if (strcmp(step->kind, "merge") == 0 && step->other[0] && step->seq > 0)
		cli_print(c, "Merge: %s@%llu %s@%llu\n", s->box, (unsigned long long)step->seq - 1, step->other,
		          (unsigned long long)step->other_seq);
	cli_print(c, "Who:   ");
	cli_print_name(c, step->who);
	cli_print(c, "\nWhen:  %s\n\n    ", cli_human_time(c, step->ended_ns, when));
	step_print_what(c, step);
	cli_print(c, "%s\n", step->changed || step->seq == 0 ? "" : " (changed nothing)");
	if (!is_short(step)) print_block(c, "Params", step->params, step->params_size);
	print_block(c, "Result", step->result, step->result_size);
	cli_print(c, "\n");
	return CB_OK;
}

/* ---- the step ---- */

static cb_code options_of(cli *c, const cli_call *call, changes_options *o, cb_error *err)
{
	const char *const *words = NULL;
	size_t count = cli_operand_list(call, "PATH", &words);
	const char **paths = mem_alloc((count + 1) * sizeof(*paths));
	if (!paths) return cb_err_nomem(err);
	cli_keep(c, (void *)(uintptr_t)paths);
	if (cli_flag(call, "stat") && cli_flag(call, "name-only")) return cli_usage(c, err, "--stat, --name-only: one of them");
	for (size_t i = 0; i < count; i++) {
		cli_address address = {.path = ""};
		AUTO_FREE char *path = NULL, *clean = NULL;
		CB_TRY(cli_address_parse(words[i], CLI_PATH, &address, err));
		if (address.box[0] || address.state[0])
			return cli_usage(c, err, "'%s': a path of the step's box is wanted", words[i]);
		CB_TRY(cli_address_path(&address, &path, err));
		CB_TRY(changes_path(path, &clean, err));
		paths[i] = clean;
		cli_keep(c, TAKE_PTR(clean));
	}
	o->view = cli_flag(call, "stat") ? CHANGES_STAT : cli_flag(call, "name-only") ? CHANGES_NAMES : CHANGES_PATCH;
	o->patch = cli_flag(call, "patch");
	o->all = true; /* the step did it: nothing is left out */
	o->paths = paths;
	o->path_count = count;
	return CB_OK;
}

static cb_code print_changes(cli *c, cb_box *box, uint64_t seq, const changes_options *o, cb_error *err)
{
	AUTO_FREE char *before = NULL;
	cb_box *from = NULL;
	cb_store *store = NULL;
	CB_TRY(cli_store(c, &store, err));
	CB_TRY(step_address(box, seq - 1, &before, err));
	cb_code code = cb_box_open(store, before, &from, err);
	if (code == CB_STALE || code == CB_NOTFOUND) {
		cli_note(c,
		         "the state before step %llu was pruned: only the names of what it changed can be shown; an undo can "
		         "take it back where no later step changed the same",
		         (unsigned long long)seq);
		return changes_print_step(c, box, seq, o, NULL, err);
	}
	if (code != CB_OK) return code;
	code = changes_print(c, from, box, o, NULL, err);
	cb_box_close(from);
	return code;
}

static cb_code show_step(cli *c, const cli_call *call, cb_box *box, const cb_box_info *info, cb_error *err)
{
	changes_options o = {0};
	showing s = {.c = c};
	(void)snprintf(s.box, sizeof(s.box), "%s", info->name);
	CB_TRY(options_of(c, call, &o, err));
	CB_TRY(changes_lines(c, box, call, &o, err));
	if (cli_is_json(c)) json_object_begin(cli_json(c));
	cb_code code = step_names_load(box, &s.names, err);
	if (code == CB_OK) code = cb_step_get(box, info->seq, print_header, &s, err);
	step_names_done(&s.names);
	if (code == CB_OK && info->seq > 0) code = print_changes(c, box, info->seq, &o, err);
	if (code != CB_OK || !cli_is_json(c)) return code;
	json_object_end(cli_json(c));
	return CB_OK;
}

/* ---- a file as it was ---- */

static cb_code print_entry(void *context, const char *name, const cb_stat_info *info, cb_error *err)
{
	(void)err;
	cli *c = context;
	if (cli_is_json(c)) {
		json_writer *w = cli_json(c);
		json_object_begin(w);
		json_member_str(w, "name", name);
		cli_json_stat(w, info);
		json_object_end(w);
		return CB_OK;
	}
	cli_print_name(c, name);
	cli_print(c, "%s\n", info->type == CB_DIR ? "/" : "");
	return CB_OK;
}

/* Content on a terminal has its lines, but drives nothing. */
static void print_content(cli *c, const char *text, size_t size)
{
	while (cli_is_terminal(c) && size > 0) {
		const char *end = memchr(text, '\n', size);
		size_t n = end ? (size_t)(end - text) : size;
		cli_print_bytes(c, text, n);
		if (end) cli_write(c, "\n", 1);
		size -= n + (end != NULL);
		text += n + (end != NULL);
	}
	cli_write(c, text, size);
}

/* In pieces, which belong together: the box is one state. */
static cb_code print_file(cli *c, cb_box *state, const char *path, cb_error *err)
{
	enum { PIECE_BYTES = 1 << 20 };
	AUTO_FREE char *piece = mem_alloc_bytes(PIECE_BYTES);
	if (!piece) return cb_err_nomem(err);
	for (uint64_t at = 0;;) {
		size_t n = 0;
		CB_TRY(cb_read_at(state, path, at, piece, PIECE_BYTES, &n, err));
		if (n == 0) return CB_OK;
		print_content(c, piece, n);
		at += n;
	}
}

static cb_code show_file(cli *c, cb_box *box, const cb_box_info *box_info, const char *path, cb_error *err)
{
	AUTO_FREE char *text = NULL;
	size_t size = 0;
	cb_stat_info info = CB_INIT(cb_stat_info);
	json_writer *w = cli_is_json(c) ? cli_json(c) : NULL;
	CB_TRY(cb_stat(box, path, 0, &info, err));
	if (w && info.type == CB_FILE) {
		CB_TRY(cli_json_content_fits(path, &info, err));
		CB_TRY(cb_read_file(box, path, &text, &size, err));
	}
	if (w) {
		json_object_begin(w);
		json_member_str(w, "box", box_info->name);
		json_member_uint(w, "step", box_info->seq);
		json_member_str(w, "path", path);
		cli_json_stat(w, &info);
		if (info.type == CB_FILE) json_member_bytes(w, "content", text, size);
		else json_member_array(w, "entries");
	} else if (info.type == CB_FILE) {
		CB_TRY(print_file(c, box, path, err));
	}
	if (info.type == CB_DIR) CB_TRY(cb_readdir(box, path, print_entry, c, err));
	if (w && info.type == CB_DIR) json_array_end(w);
	if (w) json_object_end(w);
	return CB_OK;
}

static cb_code run_show(cli *c, const cli_call *call, cb_error *err)
{
	cb_box *box = NULL;
	cb_box_info info = CB_INIT(cb_box_info);
	const char *path = NULL;
	const char *const *words = NULL;
	CB_TRY(step_open(c, cli_operand_text(call, "STEP"), CLI_PLACE, &box, &path, &info, err));
	if (!*path) return show_step(c, call, box, &info, err);
	if (cli_operand_list(call, "PATH", &words) > 0 || cli_flag(call, "stat") || cli_flag(call, "name-only"))
		return cli_usage(c, err, "a file as it was has no changes: write %s@%llu PATH for what the step did to it",
		                 info.name, (unsigned long long)info.seq);
	return show_file(c, box, &info, path, err);
}

const cli_command cmd_show = {
	.name = "show",
	.group = "History",
	.summary = "show one step, or a file as it was",
	.text = "A step (demo@4, demo@-1, demo@name; a box alone: its newest step): who, when, what, its parameters and result, "
		"and what it "
		"changed as a unified text. A PATH after it limits that.\n\n"
		"A path of a state (demo@4:/work/a.txt): the file's content, or the folder's names, as of then.",
	.operands = (const cli_operand[]){{CLI_PLACE, "STEP", true, false,
                                           "the step: BOX@STEP; or BOX@STEP:/PATH for a file as it was"},
                                          {CLI_PATH, "PATH", true, true, "only what the step did below these"},
                                          {0}},
	.options = (const cli_option[]){{CLI_FLAG, "stat", 0, NULL, "count the lines of each file"},
                                        {CLI_FLAG, "name-only", 0, NULL, "only the paths"},
                                        {CLI_COUNT, "unified", 'U', "LINES", "lines around each change (default: 3)"},
                                        {CLI_FLAG, "patch", 'p', NULL, "with --json: the unified text too"},
                                        {0}},
	.examples = (const char *const[]){"cowbox show demo@4", "cowbox show demo@before-refactor --stat",
                                          "cowbox show demo@2:/work/a.txt", NULL},
	.json = "of a step:\n"
		"box step kind who started ended changed params result    as of log\n"
		"target_step other other_step foreign pruned_before checkpoints   as of log\n"
		"changes left_out patch                                   as of diff\n"
		"notes                                                    that the state before it was pruned, when it was\n"
		"of a file:\n"
		"box step path                                            what was asked for\n"
		"type mode size links ino version mtime ctime             as of stat\n"
		"content entries                                          of a file; of a folder, for each entry: name, and as of "
		"stat",
	.flags = CLI_PAGED,
	.run = run_show,
};
