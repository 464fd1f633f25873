/*
 * cmd_cat.c: the bytes of files. A file is read whole from one state, whatever others write meanwhile: small ones by one call, large ones
 * through a handle on the state they are in.
 */
#include "cli/cli.h"

#include <string.h>

enum {
	CAT_WHOLE_BYTES = 8 << 20, /* up to here one call reads the file */
	CAT_PIECE_BYTES = 1 << 20,
};

/* Which lines, and how they are shown. */
typedef struct cat {
	cli *c;
	uint64_t first, last; /* from 1 */
	bool number, raw;
	uint64_t line; /* the one `at` is in */
	bool in_line;  /* something of it was printed */
} cat;

static cb_code parse_lines(cli *c, const char *text, cat *k, cb_error *err)
{
	char first[32];
	const char *dash = strchr(text, '-');
	size_t size = dash ? (size_t)(dash - text) : strlen(text);
	if (size >= sizeof(first)) return cli_usage(c, err, "--lines: '%.64s' is not FIRST-LAST", text);
	memcpy(first, text, size);
	first[size] = 0;
	bool good = size > 0 || (dash && dash[1]);
	if (good && size > 0) good = cli_parse_count(first, &k->first, err) == CB_OK;
	if (good && dash && dash[1]) good = cli_parse_count(dash + 1, &k->last, err) == CB_OK;
	if (!dash) k->last = k->first;
	if (!good || k->first == 0 || k->last < k->first)
		return cli_usage(c, err, "--lines: '%.64s' is not FIRST-LAST, counted from 1", text);
	return CB_OK;
}

static void put(cat *k, const char *bytes, size_t size)
{
	if (k->raw || !cli_is_terminal(k->c)) cli_write(k->c, bytes, size);
	else cli_print_bytes(k->c, bytes, size);
}

/* Part of a line, or its end with the newline. */
static void put_part(cat *k, const char *bytes, size_t size, bool ends)
{
	if (k->line >= k->first && k->line <= k->last) {
		if (k->number && !k->in_line) cli_print(k->c, "%6llu\t", (unsigned long long)k->line);
		put(k, bytes, size);
		if (ends) cli_write(k->c, "\n", 1);
		k->in_line = true;
	}
	if (!ends) return;
	k->line++;
	k->in_line = false;
}

/* false: what comes after is not wanted. */
static bool put_piece(cat *k, const char *bytes, size_t size)
{
	bool all = k->first == 1 && k->last == UINT64_MAX;
	if (all && !k->number && (k->raw || !cli_is_terminal(k->c))) {
		cli_write(k->c, bytes, size);
		return true;
	}
	while (size > 0 && k->line <= k->last) {
		const char *end = memchr(bytes, '\n', size);
		size_t n = end ? (size_t)(end - bytes) : size;
		put_part(k, bytes, n, end != NULL);
		size_t used = n + (end != NULL);
		bytes += used;
		size -= used;
	}
	return k->line <= k->last;
}

static cb_code cat_large(cat *k, cb_box *box, const char *path, cb_error *err)
{
	cb_box_info info = CB_INIT(cb_box_info);
	char state[CB_NAME_MAX + 32];
	AUTO_FREE char *piece = mem_alloc_bytes(CAT_PIECE_BYTES);
	if (!piece) return cb_err_nomem(err);
	CB_TRY(cb_box_info_get(box, &info, err));
	(void)snprintf(state, sizeof(state), "%s@%llu", info.name, (unsigned long long)info.seq);
	CB_TRY(cli_open_shared(k->c, state, CLI_STATE, &box, NULL, err));
	for (uint64_t at = 0;;) {
		size_t n = 0;
		CB_TRY(cb_read_at(box, path, at, piece, CAT_PIECE_BYTES, &n, err));
		if (n == 0 || !put_piece(k, piece, n)) return CB_OK;
		at += n;
	}
}

static cb_code cat_plain(cat *k, cb_box *box, const char *path, cb_error *err)
{
	cb_stat_info info = CB_INIT(cb_stat_info);
	AUTO_FREE char *bytes = NULL;
	size_t size = 0;
	k->line = 1;
	k->in_line = false;
	CB_TRY(cb_stat(box, path, 0, &info, err));
	if (info.type == CB_FILE && info.size > CAT_WHOLE_BYTES) return cat_large(k, box, path, err);
	CB_TRY(cb_read_file(box, path, &bytes, &size, err));
	(void)put_piece(k, bytes, size);
	return CB_OK;
}

/* The wanted lines of a content. */
static span lines_of(const cat *k, const char *bytes, size_t size)
{
	uint64_t line = 1;
	size_t start = 0, at = 0;
	while (at < size && line <= k->last) {
		const char *end = memchr(bytes + at, '\n', size - at);
		if (line == k->first) start = at;
		at = end ? (size_t)(end - bytes) + 1 : size;
		line++;
	}
	if (k->first >= line) start = at;
	return span_make(bytes + start, at - start);
}

static cb_code cat_json(cat *k, cb_box *box, const char *path, cb_error *err)
{
	cb_stat_info info = CB_INIT(cb_stat_info);
	AUTO_FREE char *bytes = NULL;
	size_t size = 0;
	json_writer *w = cli_json(k->c);
	CB_TRY(cb_stat(box, path, 0, &info, err));
	CB_TRY(cli_json_content_fits(path, &info, err));
	CB_TRY(cb_read_file(box, path, &bytes, &size, err));
	span wanted = lines_of(k, bytes, size);
	json_object_begin(w);
	json_member_str(w, "path", path);
	json_member_uint(w, "size", info.size);
	json_member_uint(w, "version", info.version);
	json_member_uint(w, "first_line", k->first);
	json_member_bytes(w, "content", wanted.bytes, wanted.size);
	json_object_end(w);
	return CB_OK;
}

static cb_code run_cat(cli *c, const cli_call *call, cb_error *err)
{
	cat k = {.c = c, .first = 1, .last = UINT64_MAX, .number = cli_flag(call, "number"), .raw = cli_flag(call, "raw")};
	const char *const *paths = NULL;
	size_t count = cli_operand_list(call, "PATH", &paths);
	if (cli_text(call, "lines")) CB_TRY(parse_lines(c, cli_text(call, "lines"), &k, err));
	if (cli_is_json(c)) {
		json_object_begin(cli_json(c));
		json_member_array(cli_json(c), "files");
	}
	for (size_t i = 0; i < count; i++) {
		cb_box *box = NULL;
		const char *path = NULL;
		CB_TRY(cli_open_shared(c, paths[i], CLI_PATH, &box, &path, err));
		CB_TRY(cli_is_json(c) ? cat_json(&k, box, path, err) : cat_plain(&k, box, path, err));
	}
	if (cli_is_json(c)) {
		json_array_end(cli_json(c));
		json_object_end(cli_json(c));
	}
	return CB_OK;
}

const cli_command cmd_cat = {
	.name = "cat",
	.group = "Files",
	.summary = "print the content of files",
	.text = "Old states are read the same way: demo@3:/work/a.txt. The bytes are exact; only on a terminal control bytes are "
		"shown as "
		"\\x1b, unless --raw.",
	.operands =
		(const cli_operand[]){
			{CLI_PATH, "PATH", false, true, "the files"},
			{0},
		},
	.options =
		(const cli_option[]){
			{CLI_TEXT, "lines", 0, "FIRST-LAST", "only these lines, from 1: 10-20, 10- (to the end), -20, 10"},
			{CLI_FLAG, "number", 'n', NULL, "number the lines"},
			{CLI_FLAG, "raw", 0, NULL, "the exact bytes also on a terminal"},
			{0},
		},
	.examples = (const char *const[]){"cowbox cat demo:/work/a.txt",
                                          "cowbox cat -n --lines 1-3 demo@before-refactor:/work/src/main.c", NULL},
	.json = "files    for each: path, size, version, first_line, content, and content_base64 when it is not UTF-8",
	.run = run_cat,
};
