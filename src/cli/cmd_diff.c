/* cmd_diff.c: what differs between two states. */
#include "cli/changes.h"
#include "cli/steps.h"

#include <string.h>

/* Operands sorted: at most two states, and paths. */
typedef struct diff_words {
	const char *states[2];
	size_t state_count;
	const char **paths; /* clean; their texts are kept until the end */
	size_t path_count;
	bool has_step; /* the first state names a step */
} diff_words;

static bool is_path_word(const diff_words *d, const char *text)
{
	if (text[0] == '/' || text[0] == ':') return true;
	if (cli_address_is_box(text)) return false;
	return strchr(text, '/') != NULL || d->state_count == 2;
}

static cb_code add_path(cli *c, diff_words *d, const char *text, cb_error *err)
{
	cli_address address = {.path = ""};
	AUTO_FREE char *path = NULL, *clean = NULL;
	CB_TRY(cli_address_parse(text, CLI_PATH, &address, err));
	if (address.box[0] || address.state[0]) return cli_usage(c, err, "'%s': a third state; paths follow the two states", text);
	CB_TRY(cli_address_path(&address, &path, err));
	CB_TRY(changes_path(path, &clean, err));
	d->paths[d->path_count++] = clean;
	cli_keep(c, TAKE_PTR(clean));
	return CB_OK;
}

/* "demo@3:/work/a.txt" is a state and a path. */
static cb_code add_state(cli *c, diff_words *d, const char *text, cb_error *err)
{
	cli_address address = {.path = ""};
	AUTO_FREE char *path = NULL, *name = NULL, *clean = NULL;
	CB_TRY(cli_address_parse(text, CLI_PLACE, &address, err));
	CB_TRY(cli_address_name(c, &address, &name, err));
	if (address.has_path) {
		CB_TRY(cli_address_path(&address, &path, err));
		CB_TRY(changes_path(path, &clean, err));
		bool known = d->path_count > 0 && strcmp(d->paths[d->path_count - 1], clean) == 0;
		if (d->path_count > 0 && !known) return cli_usage(c, err, "both states must name the same path");
		if (!known) {
			d->paths[d->path_count++] = clean;
			cli_keep(c, TAKE_PTR(clean));
		}
	}
	if (d->state_count == 0) d->has_step = address.state[0] != 0;
	d->states[d->state_count++] = name;
	cli_keep(c, TAKE_PTR(name));
	return CB_OK;
}

static cb_code sort_words(cli *c, const cli_call *call, diff_words *d, cb_error *err)
{
	const char *const *words = NULL;
	size_t count = cli_operand_list(call, "PATH", &words);
	const char *first[] = {cli_operand_text(call, "FROM"), cli_operand_text(call, "TO")};
	d->paths = mem_alloc((count + 4) * sizeof(*d->paths));
	if (!d->paths) return cb_err_nomem(err);
	cli_keep(c, (void *)(uintptr_t)d->paths);
	for (size_t i = 0; i < count + 2; i++) {
		const char *text = i < 2 ? first[i] : words[i - 2];
		if (!text) continue;
		if (is_path_word(d, text)) CB_TRY(add_path(c, d, text, err));
		else if (d->state_count < 2) CB_TRY(add_state(c, d, text, err));
		else return cli_usage(c, err, "'%s': a third state; paths follow the two states", text);
	}
	return CB_OK;
}

typedef struct diff_pair {
	cb_box *from, *to;
	cb_box_info from_info, to_info;
} diff_pair;

/* A box alone: what its last change did. */
static cb_code open_last(cli *c, const char *state, diff_pair *p, cb_error *err)
{
	uint64_t seq = 0;
	AUTO_FREE char *before = NULL;
	CB_TRY(step_open(c, state, CLI_STATE, &p->to, NULL, &p->to_info, err));
	CB_TRY(step_last_change(p->to, &seq, err));
	CB_TRY(step_address(p->to, seq ? seq - 1 : 0, &before, err));
	cb_code code = step_open(c, before, CLI_STATE, &p->from, NULL, &p->from_info, err);
	if (code == CB_STALE) cli_hint(c, "'cowbox show' tells which paths the last step changed");
	return code;
}

static cb_code open_pair(cli *c, const diff_words *d, diff_pair *p, cb_error *err)
{
	if (d->state_count == 0 || (d->state_count == 1 && !d->has_step)) return open_last(c, d->states[0], p, err);
	CB_TRY(step_open(c, d->states[0], CLI_STATE, &p->from, NULL, &p->from_info, err));
	const char *to = d->state_count == 2 ? d->states[1] : p->from_info.name;
	return step_open(c, to, CLI_STATE, &p->to, NULL, &p->to_info, err);
}

/* The symbolic link through which the path leads, "" when it leads through none. `link` is as long as the path. */
static cb_code link_above(cb_box *box, const char *path, char *link, cb_error *err)
{
	cb_stat_info info = CB_INIT(cb_stat_info);
	CB_TRY(cb_stat(box, path, CB_NOFOLLOW, &info, err));
	for (const char *slash = path; (slash = strchr(slash + 1, '/'));) {
		memcpy(link, path, (size_t)(slash - path));
		link[slash - path] = 0;
		CB_TRY(cb_stat(box, link, CB_NOFOLLOW, &info, err));
		if (info.type == CB_SYMLINK) return CB_OK;
	}
	*link = 0;
	return CB_OK;
}

/* A path that is nowhere is a mistyped one, not an empty difference; and what is behind a link has another path. */
static cb_code check_path(const diff_pair *p, const char *path, cb_error *err)
{
	AUTO_FREE char *before = mem_strdup(path), *after = mem_strdup(path);
	if (!before || !after) return cb_err_nomem(err);
	cb_code from = link_above(p->from, path, before, NULL), to = link_above(p->to, path, after, err);
	if ((from == CB_OK && !*before) || (to == CB_OK && !*after)) return CB_OK;
	if (from == CB_OK || to == CB_OK)
		return cb_err_set(err, CB_INVALID, "'%s' leads through the symbolic link '%s': name the path that it leads to",
		                  path, to == CB_OK ? after : before);
	if (to != CB_NOTFOUND && to != CB_NOTDIR) return to;
	return cb_err_set(err, CB_NOTFOUND, "no '%s' in %s@%llu nor in %s@%llu", path, p->from_info.name,
	                  (unsigned long long)p->from_info.seq, p->to_info.name, (unsigned long long)p->to_info.seq);
}

static cb_code check_paths(const diff_words *d, const diff_pair *p, cb_error *err)
{
	for (size_t i = 0; i < d->path_count; i++) CB_TRY(check_path(p, d->paths[i], err));
	return CB_OK;
}

static void side_json(json_writer *w, const char *name, const cb_box_info *info)
{
	json_member_object(w, name);
	json_member_str(w, "box", info->name);
	json_member_uint(w, "step", info->seq);
	json_object_end(w);
}

static cb_code options_of(cli *c, const cli_call *call, changes_options *o, cb_error *err)
{
	int views = cli_flag(call, "stat") + cli_flag(call, "name-only") + cli_flag(call, "name-status");
	if (views > 1) return cli_usage(c, err, "--stat, --name-only, --name-status: one of them");
	if (cli_flag(call, "stat")) o->view = CHANGES_STAT;
	if (cli_flag(call, "name-only")) o->view = CHANGES_NAMES;
	if (cli_flag(call, "name-status")) o->view = CHANGES_STATUS;
	o->nul = cli_flag(call, "print0");
	o->all = cli_flag(call, "all");
	o->patch = cli_flag(call, "patch");
	if (o->nul && o->view != CHANGES_NAMES && o->view != CHANGES_STATUS)
		return cli_usage(c, err, "--print0 goes with --name-only or --name-status");
	return CB_OK;
}

static cb_code run_diff(cli *c, const cli_call *call, cb_error *err)
{
	diff_words d = {0};
	diff_pair p = {0};
	changes_options o = {0};
	changes_count count = {0};
	CB_TRY(options_of(c, call, &o, err));
	CB_TRY(sort_words(c, call, &d, err));
	CB_TRY(open_pair(c, &d, &p, err));
	CB_TRY(check_paths(&d, &p, err));
	CB_TRY(changes_lines(c, p.to, call, &o, err));
	o.paths = d.paths;
	o.path_count = d.path_count;
	json_writer *w = cli_is_json(c) ? cli_json(c) : NULL;
	if (w) {
		json_object_begin(w);
		side_json(w, "from", &p.from_info);
		side_json(w, "to", &p.to_info);
	}
	CB_TRY(changes_print(c, p.from, p.to, &o, &count, err));
	if (w) json_object_end(w);
	if (count.shown == 0 && count.left_out > 0)
		cli_note(c, "%llu change%s in /home/agent and /tmp left out: --all shows them", (unsigned long long)count.left_out,
		         count.left_out == 1 ? "" : "s");
	if (cli_flag(call, "exit-code") && count.shown > 0) cli_status(c, 1);
	return CB_OK;
}

const cli_command cmd_diff = {
	.name = "diff",
	.group = "History",
	.summary = "show what differs between two states",
	.text = "Two states: what changed from the first to the second; they may be of different boxes. One state of a box "
		"(demo@3, demo@-1, "
		"demo@name): what changed from it to the newest. A box alone: what its last change did.\n\n"
		"The text is git's unified format; 'patch -p1' and 'git apply' read it. Of a binary file, and of one over 16 MiB, "
		"it says only that it differs: 'git apply' then refuses the patch, unless the file is removed, and 'patch' "
		"leaves such a file as it is, or makes an empty one. What that format has no words for "
		"(key-values, "
		"attributes, tags and metadata, modes other than 0644 and 0755, empty folders) stands behind it in lines that "
		"begin with '#'. A path with a control "
		"character, '\"' or '\\' in it stands in quotes, as git has it; --print0 gives it as it is.\n\n"
		"/home/agent and /tmp are left out unless --all is given or a PATH names them. A PATH begins with '/' or ':', or "
		"has a '/' "
		"in it, or follows two states.",
	.operands = (const cli_operand[]){{CLI_PLACE, "FROM", true, false, "a state, or a box"},
                                          {CLI_PLACE, "TO", true, false, "a state, or a box (default: the newest state)"},
                                          {CLI_PATH, "PATH", true, true, "only files and folders below these"},
                                          {0}},
	.options = (const cli_option[]){{CLI_FLAG, "stat", 0, NULL, "count the lines of each file"},
                                        {CLI_FLAG, "name-only", 0, NULL, "only the paths"},
                                        {CLI_FLAG, "name-status", 0, NULL,
                                         "the paths, with A added, D deleted, M modified, T attributes, R renamed, K key-value"},
                                        {CLI_COUNT, "unified", 'U', "LINES", "lines around each change (default: 3)"},
                                        {CLI_FLAG, "exit-code", 0, NULL, "exit with 1 when there are differences"},
                                        {CLI_FLAG, "all", 'a', NULL, "also /home/agent and /tmp"},
                                        {CLI_FLAG, "patch", 'p', NULL, "with --json: the unified text too"},
                                        {CLI_FLAG, "print0", 'z', NULL, "end names with NUL instead of a newline"},
                                        {0}},
	.examples = (const char *const[]){"cowbox diff demo@before-refactor demo", "cowbox diff demo@-1",
                                          "cowbox diff demo try-1 --stat", "cowbox diff demo@0 demo --name-status /work/src", NULL},
	.json = "from to     each: box, step\n"
		"changes     for each: kind (added, deleted, modified, attributes, renamed, key), path, or key and key_change "
		"(added, removed, changed), old_path, type, "
		"modified (of renamed: whether the content changed too), attributes_changed (extended attributes, tags or metadata "
		"did; of added and deleted: there are some), old_mode, old_size, mode, size, binary, added, removed\n"
		"left_out    how many changes in /home/agent and /tmp are not listed\n"
		"patch       the unified text (--patch)",
	.flags = CLI_PAGED,
	.run = run_diff,
};
