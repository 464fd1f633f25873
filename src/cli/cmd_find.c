/* cmd_find.c: files by name, kind, size, time, tag and metadata. */
#include "cli/cli.h"

#include <string.h>

typedef struct finding {
	cli *c;
	bool zero;
	const char *prefix; /* "demo@3:" before paths when several places are searched */
	size_t prefix_size;
	uint64_t count, max;
} finding;

static cb_code visit(void *context, const char *path, const cb_stat_info *info, cb_error *err)
{
	(void)err;
	finding *k = context;
	cli *c = k->c;
	k->count++;
	if (cli_is_json(c)) {
		json_writer *w = cli_json(c);
		json_object_begin(w);
		if (k->prefix_size) json_member_bytes(w, "box", k->prefix, k->prefix_size - 1);
		json_member_str(w, "path", path);
		cli_json_stat(w, info);
		json_object_end(w);
	} else if (k->zero) {
		cli_write(c, k->prefix, k->prefix_size);
		cli_write(c, path, strlen(path) + 1);
	} else {
		cli_print_bytes(c, k->prefix, k->prefix_size);
		if (info->type == CB_DIR) cli_print(c, "%s", cli_on(c, CLI_BLUE));
		cli_print_name(c, path);
		if (info->type == CB_DIR) cli_print(c, "%s", cli_off(c));
		cli_print(c, "\n");
	}
	return CB_OK;
}

/* "+10k": at least, "-1M": at most, "512": exactly. */
static cb_code size_bound(cli *c, const char *text, cb_find_options *o, cb_error *err)
{
	uint64_t bytes = 0;
	bool least = text[0] == '+', most = text[0] == '-';
	if (cli_parse_size(text + (least || most), &bytes, err) != CB_OK)
		return cli_usage(c, err, "--size '%s': +10k (at least), -1M (at most) or 512 (exactly)", text);
	if (!most) {
		o->has_min_size = true;
		o->min_size = bytes;
	}
	if (!least) {
		o->has_max_size = true;
		o->max_size = bytes;
	}
	return CB_OK;
}

static cb_type type_of(const char *word)
{
	if (!word) return (cb_type)0;
	return word[0] == 'd' ? CB_DIR : word[0] == 'l' ? CB_SYMLINK : CB_FILE;
}

static cb_code read_options(cli *c, const cli_call *call, cb_find_options *o, cb_error *err)
{
	const char *const *sizes = NULL;
	const char *name = cli_text(call, "name"), *any_case = cli_text(call, "iname"), *meta = cli_text(call, "meta");
	if (name && any_case) return cli_usage(c, err, "--name and --iname: one of them");
	o->name = name ? name : any_case;
	o->ignore_case = any_case != NULL;
	o->path_glob = cli_text(call, "path");
	o->type = type_of(cli_text(call, "type"));
	size_t count = cli_list(call, "size", &sizes);
	for (size_t i = 0; i < count; i++) CB_TRY(size_bound(c, sizes[i], o, err));
	o->newer_ns = cli_moment(call, "newer", 0);
	o->older_ns = cli_moment(call, "older", 0);
	o->tag = cli_text(call, "tag");
	o->empty = cli_flag(call, "empty");
	o->max_results = cli_number(call, "max", 0);
	uint64_t depth = cli_number(call, "max-depth", 0);
	if (cli_given(call, "max-depth") && (depth == 0 || depth > UINT32_MAX)) return cli_usage(c, err, "--max-depth: 1 or more");
	o->max_depth = (unsigned)depth;
	if (!meta) return CB_OK;
	char *copy = mem_strdup(meta);
	if (!copy) return cb_err_nomem(err);
	cli_keep(c, copy);
	char *value = strchr(copy, '=');
	if (value) *value++ = 0;
	o->meta = copy;
	o->meta_value = value;
	o->meta_value_size = value ? CB_STRING : 0;
	return CB_OK;
}

static cb_code find_place(finding *k, const char *place, size_t places, const cb_find_options *options, cb_error *err)
{
	cb_box *box = NULL;
	const char *path = NULL;
	cb_find_options o = *options;
	CB_TRY(cli_open_shared(k->c, place, CLI_PLACE, &box, &path, err));
	const char *colon = place && places > 1 ? strchr(place, ':') : NULL;
	k->prefix = colon ? place : "";
	k->prefix_size = colon && colon > place ? (size_t)(colon - place) + 1 : 0;
	if (k->max && k->count >= k->max) return CB_OK;
	if (k->max) o.max_results = k->max - k->count;
	return cb_find(box, path && *path ? path : "/", &o, visit, k, err);
}

static cb_code run_find(cli *c, const cli_call *call, cb_error *err)
{
	cb_find_options o = CB_INIT(cb_find_options);
	const char *const *places = NULL;
	CB_TRY(read_options(c, call, &o, err));
	finding k = {.c = c, .zero = cli_flag(call, "print0"), .max = o.max_results};
	size_t count = cli_operand_list(call, "PLACE", &places);
	if (cli_is_json(c)) {
		json_object_begin(cli_json(c));
		json_member_array(cli_json(c), "entries");
	}
	if (count == 0) CB_TRY(find_place(&k, NULL, 1, &o, err));
	for (size_t i = 0; i < count; i++) CB_TRY(find_place(&k, places[i], count, &o, err));
	if (cli_is_json(c)) {
		json_array_end(cli_json(c));
		json_member_uint(cli_json(c), "count", k.count);
		json_object_end(cli_json(c));
	}
	return CB_OK;
}

static const cli_operand operands[] = {
	{CLI_PLACE, "PLACE", true, true, "where to look: a box, a state, a folder or a file (default: the chosen box)"},
	{0},
};

static const cli_option options[] = {
	{CLI_TEXT, "name", 0, "GLOB", "the last component matches"},
	{CLI_TEXT, "iname", 0, "GLOB", "the same, upper and lower case alike"},
	{CLI_TEXT, "path", 0, "GLOB", "the whole path matches: '/work/**/*.c'"},
	{CLI_CHOICE, "type", 0, "f|d|l", "files, folders or symbolic links"},
	{CLI_LIST, "size", 0, "SIZE", "+10k: at least, -1M: at most, 512: exactly; files and links only"},
	{CLI_MOMENT, "newer", 0, "TIME", "changed after: 7d (ago), 2026-01-31, 2026-01-31T12:00 (local time)"},
	{CLI_MOMENT, "older", 0, "TIME", "changed before, as --newer"},
	{CLI_TEXT, "tag", 0, "TAG", "has the tag"},
	{CLI_TEXT, "meta", 0, "KEY[=VALUE]", "has the metadata, with that value"},
	{CLI_COUNT, "max-depth", 0, "N", "so many levels below PLACE; 1: its own entries, 0: all"},
	{CLI_FLAG, "empty", 0, NULL, "empty files and folders"},
	{CLI_COUNT, "max", 0, "N", "stop after N; 0: never"},
	{CLI_FLAG, "print0", '0', NULL, "end each path with a NUL instead of a newline"},
	{0},
};

const cli_command cmd_find = {
	.name = "find",
	.group = "Files",
	.summary = "find files by name, kind, size, time, tag or metadata",
	.text = "Lists PLACE and what is below it, parents before children, by name. Every test that is given must hold. Symbolic "
		"links are not "
		"followed.",
	.operands = operands,
	.options = options,
	.examples =
		(const char *const[]){"cowbox find demo:/work --name '*.txt'", "cowbox find demo --type f --size +1k --newer 2h",
                                      "cowbox find demo@1 --path '/work/**' --print0 | xargs -0 -n 1 echo", NULL},
	.json = "entries    for each: path, type, mode, size, links, ino, version, mtime, ctime; box with several places\ncount    "
		"  how "
		"many",
	.flags = CLI_PAGED,
	.run = run_find,
};
