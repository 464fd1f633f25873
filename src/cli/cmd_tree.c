/* cmd_tree.c: a folder and what is below it, drawn. */
#include "cli/cli.h"

#include <string.h>

enum {
	TREE_DEPTH_MAX = 4096,
	TREE_NAMES_BYTES = 1 << 30, /* of one folder, in memory while it is drawn */
};

typedef struct tree {
	cli *c;
	cb_box *box;
	uint64_t depth_max;
	buf path;   /* where the walk is, NUL-terminated */
	buf indent; /* what stands before a line */
	uint64_t files, folders;
} tree;

typedef struct folder {
	buf names, infos;
} folder;

static cb_code collect(void *context, const char *name, const cb_stat_info *info, cb_error *err)
{
	folder *f = context;
	CB_TRY(buf_append(&f->names, name, strlen(name) + 1, err));
	return buf_append(&f->infos, info, sizeof(*info), err);
}

static cb_code path_push(tree *t, const char *name, size_t *out_size, cb_error *err)
{
	*out_size = t->path.size;
	t->path.size--; /* its NUL */
	if (t->path.size == 0 || t->path.bytes[t->path.size - 1] != '/') CB_TRY(buf_append_byte(&t->path, '/', err));
	return buf_append(&t->path, name, strlen(name) + 1, err);
}

static void path_pop(tree *t, size_t size)
{
	t->path.size = size;
	t->path.bytes[size - 1] = 0;
}

static void print_name(tree *t, const char *name, const cb_stat_info *info, const char *target)
{
	cli_style style = info->type == CB_DIR       ? CLI_BLUE
	                  : info->type == CB_SYMLINK ? CLI_CYAN
	                  : info->mode & 0111        ? CLI_GREEN
	                                             : CLI_PLAIN;
	cli_print(t->c, "%s", style == CLI_PLAIN ? "" : cli_on(t->c, style));
	cli_print_name(t->c, name);
	cli_print(t->c, "%s", style == CLI_PLAIN ? "" : cli_off(t->c));
	if (target) cli_print(t->c, " -> ");
	if (target) cli_print_name(t->c, target);
	cli_print(t->c, "\n");
}

static cb_code draw_folder(tree *t, uint64_t depth, cb_error *err);

static cb_code draw_entry(tree *t, const char *name, const cb_stat_info *info, bool last, uint64_t depth, cb_error *err)
{
	json_writer *w = cli_is_json(t->c) ? cli_json(t->c) : NULL;
	const char *path = (const char *)t->path.bytes;
	char *target = NULL;
	if (info->type == CB_DIR) t->folders++;
	else t->files++;
	if (info->type == CB_SYMLINK) CB_TRY(cb_readlink(t->box, path, &target, NULL, err));
	if (w) {
		json_object_begin(w);
		json_member_str(w, "path", path);
		cli_json_stat(w, info);
		if (target) json_member_str(w, "target", target);
		json_object_end(w);
	} else {
		cli_write(t->c, t->indent.bytes, t->indent.size);
		cli_print(t->c, "%s", last ? "└── " : "├── ");
		print_name(t, name, info, target);
	}
	cb_free(target);
	if (info->type != CB_DIR) return CB_OK;
	size_t indent = t->indent.size;
	CB_TRY(buf_append_str(&t->indent, last ? "    " : "│   ", err));
	cb_code code = draw_folder(t, depth + 1, err);
	t->indent.size = indent;
	return code;
}

static cb_code draw_entries(tree *t, const folder *f, uint64_t depth, cb_error *err)
{
	size_t count = f->infos.size / sizeof(cb_stat_info), size = 0;
	const char *name = (const char *)f->names.bytes;
	for (size_t i = 0; i < count; i++, name += strlen(name) + 1) {
		cb_stat_info info = CB_INIT(cb_stat_info);
		memcpy(&info, f->infos.bytes + i * sizeof(info), sizeof(info));
		CB_TRY(path_push(t, name, &size, err));
		CB_TRY(draw_entry(t, name, &info, i + 1 == count, depth, err));
		path_pop(t, size);
	}
	return CB_OK;
}

static cb_code draw_folder(tree *t, uint64_t depth, cb_error *err)
{
	folder f = {BUF_INIT(TREE_NAMES_BYTES), BUF_INIT(TREE_NAMES_BYTES)};
	if (depth > t->depth_max) return CB_OK;
	if (depth > TREE_DEPTH_MAX) return cb_err_set(err, CB_LIMIT, "more than %d folders deep: give --depth", TREE_DEPTH_MAX);
	cb_code code = cb_readdir(t->box, (const char *)t->path.bytes, collect, &f, err);
	if (code == CB_OK) code = draw_entries(t, &f, depth, err);
	buf_done(&f.names);
	buf_done(&f.infos);
	return code;
}

static cb_code draw(tree *t, const char *path, cb_error *err)
{
	cb_stat_info info = CB_INIT(cb_stat_info);
	CB_TRY(cb_stat(t->box, path, 0, &info, err));
	if (info.type != CB_DIR) return cb_err_set(err, CB_NOTDIR, "'%s' is no folder", path);
	CB_TRY(buf_append(&t->path, path, strlen(path) + 1, err));
	json_writer *w = cli_is_json(t->c) ? cli_json(t->c) : NULL;
	if (w) {
		json_object_begin(w);
		json_member_str(w, "path", path);
		json_member_array(w, "entries");
	} else {
		print_name(t, path, &info, NULL);
	}
	CB_TRY(draw_folder(t, 1, err));
	if (w) {
		json_array_end(w);
		json_member_uint(w, "files", t->files);
		json_member_uint(w, "folders", t->folders);
		json_object_end(w);
	} else {
		cli_print(t->c, "\n%llu folder%s, %llu file%s\n", (unsigned long long)t->folders, t->folders == 1 ? "" : "s",
		          (unsigned long long)t->files, t->files == 1 ? "" : "s");
	}
	return CB_OK;
}

static cb_code run_tree(cli *c, const cli_call *call, cb_error *err)
{
	const char *text = cli_operand_text(call, "PLACE"), *path = NULL;
	tree t = {
		.c = c, .depth_max = cli_number(call, "depth", UINT64_MAX), .path = BUF_INIT(1 << 20), .indent = BUF_INIT(1 << 20)};
	cb_code code = cli_open(c, text, CLI_PLACE, &t.box, &path, err);
	if (code == CB_NOTFOUND && text && !strpbrk(text, "@:/"))
		cli_hint(c, "'cowbox list' shows the boxes; ':%s' is a path in the chosen box", text);
	if (code == CB_OK) code = draw(&t, *path ? path : "/work", err);
	buf_done(&t.path);
	buf_done(&t.indent);
	return code;
}

const cli_command cmd_tree = {
	.name = "tree",
	.group = "Files",
	.summary = "draw a folder and all that is below it",
	.text = "Of a box or a state its /work is drawn. Links are shown, not followed.",
	.operands =
		(const cli_operand[]){
			{CLI_PLACE, "PLACE", true, false, "a box, a state or a folder in one (default: the chosen box)"},
			{0},
		},
	.options =
		(const cli_option[]){
			{CLI_COUNT, "depth", 'L', "N", "only so many levels"},
			{0},
		},
	.examples = (const char *const[]){"cowbox tree demo", "cowbox tree demo@before-refactor:/ --depth 2", NULL},
	.json = "path             the folder\nentries          for each, parents first: path, type, mode, size, links, ino, "
		"version, mtime, ctime, "
		"and of links target\nfiles folders    how many",
	.flags = CLI_PAGED,
	.run = run_tree,
};
