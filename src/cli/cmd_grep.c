/* cmd_grep.c: lines that match a pattern, in any state of a box. */
#include "cli/cli.h"

#include <string.h>

typedef struct search {
	cli *c;
	const cb_grep_options *options;
	bool numbers, names, counts, only;
	bool paths;         /* the path stands before each line */
	const char *prefix; /* "demo@3:" before paths when several places are searched */
	size_t prefix_size;
	char *current; /* with --count: the file under way */
	uint64_t in_file;
	char *last_path; /* of the last line printed, to part groups of context */
	uint64_t last_line;
	cb_grep_count total;
} search;

/* ---- text ---- */

static void print_path(const search *k, const char *path, char mark)
{
	cli *c = k->c;
	cli_print(c, "%s", cli_on(c, CLI_MAGENTA));
	cli_print_bytes(c, k->prefix, k->prefix_size);
	cli_print_name(c, path);
	cli_print(c, "%s", cli_off(c));
	if (mark) cli_print(c, "%s%c%s", cli_on(c, CLI_CYAN), mark, cli_off(c));
}

static void print_head(const search *k, const cb_grep_line *l)
{
	cli *c = k->c;
	char mark = l->context ? '-' : ':';
	if (k->paths) print_path(k, l->path, mark);
	if (!k->numbers) return;
	cli_print(c, "%s%llu%s%s%c%s", cli_on(c, CLI_GREEN), (unsigned long long)l->line, cli_off(c), cli_on(c, CLI_CYAN), mark,
	          cli_off(c));
}

static void print_match(const search *k, const char *text, size_t size)
{
	cli_print(k->c, "%s", cli_on(k->c, CLI_RED));
	cli_print_bytes(k->c, text, size);
	cli_print(k->c, "%s", cli_off(k->c));
}

static void print_text(const search *k, const cb_grep_line *l)
{
	size_t size = l->size, at = 0;
	/* The CR of a CR LF is no news on a terminal. */
	if (cli_is_terminal(k->c) && size && l->text[size - 1] == '\r') size--;
	for (size_t i = 0; i < l->match_count; i++) {
		size_t end = l->matches[i].end < size ? l->matches[i].end : size;
		if (l->matches[i].start >= end) continue;
		cli_print_bytes(k->c, l->text + at, l->matches[i].start - at);
		print_match(k, l->text + l->matches[i].start, end - l->matches[i].start);
		at = end;
	}
	cli_print_bytes(k->c, l->text + at, size - at);
	cli_print(k->c, "\n");
}

/* "--" between groups of lines that do not follow each other, as grep has it. */
static cb_code part_groups(search *k, const cb_grep_line *l, cb_error *err)
{
	if (!k->options->before && !k->options->after) return CB_OK;
	bool follows = k->last_path && strcmp(k->last_path, l->path) == 0 && l->line == k->last_line + 1;
	if (k->last_path && !follows) cli_print(k->c, "%s--%s\n", cli_on(k->c, CLI_CYAN), cli_off(k->c));
	k->last_line = l->line;
	if (k->last_path && strcmp(k->last_path, l->path) == 0) return CB_OK;
	free(k->last_path);
	k->last_path = mem_strdup(l->path);
	return k->last_path ? CB_OK : cb_err_nomem(err);
}

static cb_code show_text(search *k, const cb_grep_line *l, cb_error *err)
{
	cli *c = k->c;
	if (k->names || l->binary) {
		if (l->binary && !k->names) cli_print(c, "binary file ");
		print_path(k, l->path, 0);
		cli_print(c, l->binary && !k->names ? " matches\n" : "\n");
		return CB_OK;
	}
	if (k->only) {
		for (size_t i = 0; i < l->match_count; i++) {
			print_head(k, l);
			print_match(k, l->text + l->matches[i].start, l->matches[i].end - l->matches[i].start);
			cli_print(c, "\n");
		}
		return CB_OK;
	}
	CB_TRY(part_groups(k, l, err));
	print_head(k, l);
	print_text(k, l);
	return CB_OK;
}

/* ---- JSON ---- */

static void json_path(const search *k, json_writer *w, const char *path)
{
	if (k->prefix_size) {
		json_member_bytes(w, "box", k->prefix, k->prefix_size - 1);
	}
	json_member_str(w, "path", path);
}

static void show_json(const search *k, const cb_grep_line *l)
{
	json_writer *w = cli_json(k->c);
	json_object_begin(w);
	json_path(k, w, l->path);
	if (l->binary) json_member_bool(w, "binary", true);
	if (!k->names && !l->binary) {
		json_member_uint(w, "line", l->line);
		if (l->context) json_member_bool(w, "context", true);
		json_member_bytes(w, "text", l->text, l->size);
		json_member_array(w, "spans");
		for (size_t i = 0; i < l->match_count; i++) {
			json_array_begin(w);
			json_uint(w, l->matches[i].start);
			json_uint(w, l->matches[i].end);
			json_array_end(w);
		}
		json_array_end(w);
	}
	json_object_end(w);
}

/* ---- counting ---- */

static void count_show(search *k)
{
	if (!k->current) return;
	if (cli_is_json(k->c)) {
		json_writer *w = cli_json(k->c);
		json_object_begin(w);
		json_path(k, w, k->current);
		json_member_uint(w, "count", k->in_file);
		json_object_end(w);
	} else {
		if (k->paths) print_path(k, k->current, ':');
		cli_print(k->c, "%llu\n", (unsigned long long)k->in_file);
	}
	free(k->current);
	k->current = NULL;
	k->in_file = 0;
}

static cb_code count_line(search *k, const cb_grep_line *l, cb_error *err)
{
	if (k->current && strcmp(k->current, l->path) != 0) count_show(k);
	if (!k->current) k->current = mem_strdup(l->path);
	k->in_file++;
	return k->current ? CB_OK : cb_err_nomem(err);
}

static cb_code count_none(search *k, const char *path, cb_error *err)
{
	k->current = mem_strdup(path);
	return k->current ? CB_OK : cb_err_nomem(err);
}

/* ---- the call ---- */

static cb_code visit(void *context, const cb_grep_line *l, cb_error *err)
{
	search *k = context;
	if (k->counts) return count_line(k, l, err);
	if (!cli_is_json(k->c)) return show_text(k, l, err);
	show_json(k, l);
	return CB_OK;
}

static cb_code search_place(search *k, const char *place, size_t places, cb_error *err)
{
	cb_box *box = NULL;
	const char *path = NULL;
	cb_stat_info info = CB_INIT(cb_stat_info);
	cb_grep_count found = CB_INIT(cb_grep_count);
	cb_grep_options options = *k->options;
	CB_TRY(cli_open_shared(k->c, place, CLI_PLACE, &box, &path, err));
	if (!path || !*path) path = "/";
	CB_TRY(cb_stat(box, path, 0, &info, err));
	k->paths = info.type == CB_DIR || places > 1;
	const char *colon = place && places > 1 ? strchr(place, ':') : NULL;
	k->prefix = colon ? place : "";
	k->prefix_size = colon && colon > place ? (size_t)(colon - place) + 1 : 0;
	if (options.max_lines) {
		if (k->total.matched_lines >= options.max_lines) return CB_OK;
		options.max_lines -= k->total.matched_lines;
	}
	cb_code code = cb_grep(box, path, &options, visit, k, &found, err);
	/* A file that was named is told also when nothing in it matches. */
	bool none = code == CB_OK && k->counts && info.type != CB_DIR && found.matched_lines == 0;
	if (none) CB_TRY(count_none(k, path, err));
	count_show(k);
	k->total.files += found.files;
	k->total.matched_files += found.matched_files;
	k->total.matched_lines += found.matched_lines;
	return code;
}

static cb_code search_all(search *k, const cli_call *call, cb_error *err)
{
	const char *const *places = NULL;
	size_t count = cli_operand_list(call, "PLACE", &places);
	bool json = cli_is_json(k->c);
	if (json) {
		json_object_begin(cli_json(k->c));
		json_member_array(cli_json(k->c), k->names || k->counts ? "files" : "matches");
	}
	if (count == 0) CB_TRY(search_place(k, NULL, 1, err));
	for (size_t i = 0; i < count; i++) CB_TRY(search_place(k, places[i], count, err));
	if (json) {
		json_writer *w = cli_json(k->c);
		json_array_end(w);
		json_member_uint(w, "searched_files", k->total.files);
		json_member_uint(w, "matched_files", k->total.matched_files);
		json_member_uint(w, "matched_lines", k->total.matched_lines);
		json_object_end(w);
	}
	if (k->total.matched_files == 0) cli_status(k->c, 1);
	return CB_OK;
}

static cb_code run_grep(cli *c, const cli_call *call, cb_error *err)
{
	cb_grep_options o = CB_WITH(
		cb_grep_options, .pattern = cli_operand_text(call, "PATTERN"), .fixed = cli_flag(call, "fixed-strings"),
		.ignore_case = cli_flag(call, "ignore-case"), .invert = cli_flag(call, "invert-match"),
		.word = cli_flag(call, "word-regexp"), .hidden_too = cli_flag(call, "all"), .max_lines = cli_number(call, "max", 0),
		.max_per_file = cli_number(call, "max-per-file", 0), .names_only = cli_flag(call, "files-with-matches"));
	search k = {.c = c, .options = &o, .numbers = cli_flag(call, "line-number"), .names = o.names_only};
	k.counts = cli_flag(call, "count") && !k.names;
	k.only = cli_flag(call, "only-matching");
	uint64_t around = cli_number(call, "context", 0), before = cli_number(call, "before-context", around);
	uint64_t after = cli_number(call, "after-context", around);
	if (before > UINT32_MAX || after > UINT32_MAX)
		return cli_usage(c, err, "at most %u lines of context can be shown", UINT32_MAX);
	if (!k.counts && !k.only && !k.names) {
		o.before = (unsigned)before;
		o.after = (unsigned)after;
	}
	o.include_count = cli_list(call, "include", &o.include);
	o.exclude_count = cli_list(call, "exclude", &o.exclude);
	cb_code code = search_all(&k, call, err);
	free(k.current);
	free(k.last_path);
	return code;
}

static const cli_operand operands[] = {
	{CLI_WORD, "PATTERN", false, false, "a regular expression (PCRE2), matched line by line"},
	{CLI_PLACE, "PLACE", true, true, "where to search: a box, a state, a folder or a file (default: the chosen box)"},
	{0},
};

static const cli_option options[] = {
	{CLI_FLAG, "ignore-case", 'i', NULL, "upper and lower case are the same"},
	{CLI_FLAG, "line-number", 'n', NULL, "the number of each line"},
	{CLI_FLAG, "files-with-matches", 'l', NULL, "only the names of files that match"},
	{CLI_FLAG, "count", 'c', NULL, "only how many lines match, for each file that does or was named"},
	{CLI_FLAG, "invert-match", 'v', NULL, "the lines that do not match"},
	{CLI_FLAG, "only-matching", 'o', NULL, "only the parts that match, one per line"},
	{CLI_FLAG, "word-regexp", 'w', NULL, "only whole words"},
	{CLI_FLAG, "fixed-strings", 'F', NULL, "the pattern is plain text"},
	{CLI_COUNT, "after-context", 'A', "N", "also N lines after each match"},
	{CLI_COUNT, "before-context", 'B', "N", "also N lines before each match"},
	{CLI_COUNT, "context", 'C', "N", "also N lines before and after each match"},
	{CLI_LIST, "include", 0, "GLOB", "only files with such a name, or path when the glob has a '/'"},
	{CLI_LIST, "exclude", 0, "GLOB", "leave such files and folders out"},
	{CLI_COUNT, "max", 0, "N", "stop after N matching lines in all; 0: never"},
	{CLI_COUNT, "max-per-file", 'm', "N", "stop after N matching lines in each file; 0: never"},
	{CLI_FLAG, "all", 'a', NULL, "also /home/agent and /tmp, which a search of a whole box leaves out"},
	{0},
};

const cli_command cmd_grep = {
	.name = "grep",
	.group = "Files",
	.summary = "find lines that match a pattern",
	.text = "Searches the files of a box, or below a folder, in the newest or any older state. Folders are searched to any "
		"depth; symbolic "
		"links are followed only where they are named as PLACE. Files that hold a NUL in their first 32 KiB are binary: "
		"that they "
		"match is said, their lines are not shown.\n\nExits with 0 when a line matched, 1 when none did, 2 or more on an "
		"error.",
	.operands = operands,
	.options = options,
	.examples =
		(const char *const[]){"cowbox grep -n hello demo:/work", "cowbox grep -i -C 2 --include '*.txt' 'HELLO|bye' demo",
                                      "cowbox grep -c . demo@1:/work", NULL},
	.json = "matches         for each line: path, line, text, spans ([start, end] in bytes), context or binary where true; box "
		"with several "
		"places\nfiles           instead, with -l or -c: path, and count with -c\nsearched_files  how many files were "
		"looked at\n"
		"matched_files   how many of them match\nmatched_lines   how many lines match",
	.flags = CLI_PAGED,
	.run = run_grep,
};
