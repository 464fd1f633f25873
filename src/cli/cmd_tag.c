/* cmd_tag.c: tag and meta: names, and names with values, on files and folders. */
#include "cli/cli.h"

#include <string.h>

typedef struct marking {
	const char *path;
	const char *const *names;
	size_t count;
	const char *value; /* of meta set */
} marking;

static void report(cli *c, const char *path, uint64_t seq)
{
	if (!cli_is_json(c)) return;
	json_writer *w = cli_json(c);
	json_object_begin(w);
	json_member_uint(w, "step", seq);
	json_member_str(w, "path", path);
	json_object_end(w);
}

static cb_code change(cli *c, const cli_call *call, const char *kind, marking *m, cli_work work, cb_error *err)
{
	cb_box *box = NULL;
	uint64_t seq = 0;
	CB_TRY(cli_open_writable(c, cli_operand_text(call, "PATH"), CLI_PATH, &box, &m->path, err));
	cli_step step = {kind, &m->path, 1, m->count == 1};
	CB_TRY(cli_step_run(c, box, &step, work, m, &seq, err));
	report(c, m->path, seq);
	return CB_OK;
}

/* ---- tags ---- */

static cb_code tag_add_work(void *context, cb_box *box, cb_error *err)
{
	const marking *m = context;
	for (size_t i = 0; i < m->count; i++) CB_TRY(cb_tag_add(box, m->path, m->names[i], err));
	return CB_OK;
}

static cb_code tag_remove_work(void *context, cb_box *box, cb_error *err)
{
	const marking *m = context;
	for (size_t i = 0; i < m->count; i++) CB_TRY(cb_tag_remove(box, m->path, m->names[i], err));
	return CB_OK;
}

static cb_code run_tag_add(cli *c, const cli_call *call, cb_error *err)
{
	marking m = {0};
	m.count = cli_operand_list(call, "TAG", &m.names);
	return change(c, call, "tag", &m, tag_add_work, err);
}

static cb_code run_tag_remove(cli *c, const cli_call *call, cb_error *err)
{
	marking m = {0};
	m.count = cli_operand_list(call, "TAG", &m.names);
	cb_code code = change(c, call, "tag", &m, tag_remove_work, err);
	if (code == CB_NODATA) cli_hint(c, "'cowbox tag list' shows what is there");
	return code;
}

static cb_code print_tag(void *context, const char *name, const char *value, size_t size, cb_error *err)
{
	(void)value;
	(void)size;
	(void)err;
	cli *c = context;
	cli_print_name(c, name);
	cli_print(c, "\n");
	return CB_OK;
}

static cb_code print_meta(void *context, const char *name, const char *value, size_t size, cb_error *err)
{
	(void)err;
	cli *c = context;
	cli_print_name(c, name);
	cli_print(c, "=");
	cli_print_bytes(c, value, size);
	cli_print(c, "\n");
	return CB_OK;
}

typedef cb_code (*list_call)(cb_box *box, const char *path, cb_name_visit visit, void *context, cb_error *err);

typedef cb_code (*member_call)(json_writer *w, cb_box *box, const char *path, cb_error *err);

static cb_code list(cli *c, const cli_call *call, member_call member, list_call library, cb_name_visit visit, cb_error *err)
{
	cb_box *box = NULL;
	const char *path = NULL;
	cb_stat_info info = CB_INIT(cb_stat_info);
	CB_TRY(cli_open(c, cli_operand_text(call, "PATH"), CLI_PATH, &box, &path, err));
	CB_TRY(cb_stat(box, path, 0, &info, err));
	if (!cli_is_json(c)) return library(box, path, visit, c, err);
	json_writer *w = cli_json(c);
	json_object_begin(w);
	json_member_str(w, "path", path);
	CB_TRY(member(w, box, path, err));
	json_object_end(w);
	return CB_OK;
}

static cb_code run_tag_list(cli *c, const cli_call *call, cb_error *err)
{
	return list(c, call, cli_json_tags, cb_tag_list, print_tag, err);
}

/* ---- metadata ---- */

static cb_code meta_work(void *context, cb_box *box, cb_error *err)
{
	const marking *m = context;
	for (size_t i = 0; i < m->count; i++)
		CB_TRY(cb_meta_set(box, m->path, m->names[i], m->value, m->value ? CB_STRING : 0, err));
	return CB_OK;
}

static cb_code run_meta_set(cli *c, const cli_call *call, cb_error *err)
{
	marking m = {.count = 1, .value = cli_operand_text(call, "VALUE")};
	(void)cli_operand_list(call, "NAME", &m.names);
	return change(c, call, "meta", &m, meta_work, err);
}

static cb_code run_meta_remove(cli *c, const cli_call *call, cb_error *err)
{
	marking m = {0};
	m.count = cli_operand_list(call, "NAME", &m.names);
	cb_code code = change(c, call, "meta", &m, meta_work, err);
	if (code == CB_NODATA) cli_hint(c, "'cowbox meta list' shows what is there");
	return code;
}

static cb_code run_meta_get(cli *c, const cli_call *call, cb_error *err)
{
	const char *name = cli_operand_text(call, "NAME"), *path = NULL;
	cb_box *box = NULL;
	char *value = NULL;
	CB_TRY(cli_open(c, cli_operand_text(call, "PATH"), CLI_PATH, &box, &path, err));
	cb_code code = cb_meta_get(box, path, name, &value, NULL, err);
	if (code == CB_NODATA) cli_hint(c, "'cowbox meta list' shows what is there");
	if (code != CB_OK) return code;
	if (cli_is_json(c)) {
		json_writer *w = cli_json(c);
		json_object_begin(w);
		json_member_str(w, "path", path);
		json_member_str(w, "name", name);
		json_member_str(w, "value", value);
		json_object_end(w);
	} else {
		cli_print_bytes(c, value, strlen(value));
		cli_print(c, "\n");
	}
	cb_free(value);
	return CB_OK;
}

static cb_code run_meta_list(cli *c, const cli_call *call, cb_error *err)
{
	return list(c, call, cli_json_meta, cb_meta_list, print_meta, err);
}

/* ---- tables ---- */

static const char change_json[] = "step    the step it made; 0 when nothing changed\npath    the file or folder";

#define PATH_OPERAND                                               \
	{                                                          \
		CLI_PATH, "PATH", false, false, "a file or folder" \
	}

static const cli_operand tag_operands[] = {PATH_OPERAND, {CLI_WORD, "TAG", false, true, "the tags"}, {0}};
static const cli_operand list_operands[] = {PATH_OPERAND, {0}};

static const cli_command tag_add = {
	.name = "add",
	.summary = "put tags on a file or folder",
	.text = "All of them as one step. A tag that is there already is fine.",
	.operands = tag_operands,
	.examples = (const char *const[]){"cowbox tag add demo:/work/README.md reviewed", NULL},
	.json = change_json,
	.run = run_tag_add,
};

static const cli_command tag_remove = {
	.name = "remove",
	.summary = "take tags off a file or folder",
	.text = "All of them as one step, or none.",
	.operands = tag_operands,
	.examples = (const char *const[]){"cowbox tag add demo:/work/src wip && cowbox tag remove demo:/work/src wip", NULL},
	.json = change_json,
	.run = run_tag_remove,
};

static const cli_command tag_list = {
	.name = "list",
	.summary = "list the tags of a file or folder",
	.text = "One per line. 'cowbox find --tag TAG' finds what has one.",
	.operands = list_operands,
	.examples = (const char *const[]){"cowbox tag list demo:/work/a.txt", NULL},
	.json = "path    the file or folder\ntags    their names",
	.run = run_tag_list,
};

const cli_command cmd_tag = {
	.name = "tag",
	.group = "Files",
	.summary = "tags on files and folders",
	.text = "Tags are names. They are part of every state and stay with the file through renames.",
	.subs = (const cli_command *const[]){&tag_add, &tag_remove, &tag_list, NULL},
};

static const cli_command meta_set = {
	.name = "set",
	.summary = "set metadata of a file or folder",
	.text = "The value is kept as it is.",
	.operands =
		(const cli_operand[]){
			PATH_OPERAND,
			{CLI_WORD, "NAME", false, false, "its name"},
			{CLI_WORD, "VALUE", false, false, "its value"},
			{0},
		},
	.examples = (const char *const[]){"cowbox meta set demo:/work/a.txt author ann", NULL},
	.json = change_json,
	.run = run_meta_set,
};

static const cli_command meta_get = {
	.name = "get",
	.summary = "print metadata of a file or folder",
	.text = "The value and a newline.",
	.operands = (const cli_operand[]){PATH_OPERAND, {CLI_WORD, "NAME", false, false, "its name"}, {0}},
	.examples =
		(const char *const[]){"cowbox meta set demo:/work/src author ann && cowbox meta get demo:/work/src author", NULL},
	.json = "path     the file or folder\nname     the name\nvalue    its value",
	.run = run_meta_get,
};

static const cli_command meta_remove = {
	.name = "remove",
	.summary = "remove metadata of a file or folder",
	.text = "All of the names as one step, or none.",
	.operands = (const cli_operand[]){PATH_OPERAND, {CLI_WORD, "NAME", false, true, "the names"}, {0}},
	.examples = (const char *const[]){"cowbox meta set demo:/work/src author ann && cowbox meta remove demo:/work/src author",
                                          NULL},
	.json = change_json,
	.run = run_meta_remove,
};

static const cli_command meta_list = {
	.name = "list",
	.summary = "list the metadata of a file or folder",
	.text = "NAME=VALUE, one per line.",
	.operands = list_operands,
	.examples = (const char *const[]){"cowbox meta list demo:/work/a.txt", NULL},
	.json = "path        the file or folder\nmetadata    for each: name, value",
	.run = run_meta_list,
};

const cli_command cmd_meta = {
	.name = "meta",
	.group = "Files",
	.summary = "metadata of files and folders: names with values",
	.text = "Metadata is part of every state and stays with the file through renames. 'cowbox find --meta' finds by it.",
	.subs = (const cli_command *const[]){&meta_set, &meta_get, &meta_remove, &meta_list, NULL},
};
