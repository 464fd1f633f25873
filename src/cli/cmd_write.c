/* cmd_write.c: write and append: standard input or a text into a file. */
#include "cli/cli.h"

#include <string.h>

/* A text given as a word is a line, as echo's is, unless it ends with a newline itself. */
static cb_code input_of(cli *c, const cli_call *call, cli_input *out, cb_error *err)
{
	const char *text = cli_operand_text(call, "TEXT");
	const char *file = cli_text(call, "file");
	if (text && file) return cli_usage(c, err, "a text and --file: one of them");
	if (!text) return cli_input_open(file ? file : "-", out, err);
	size_t size = strlen(text);
	out->piece = BUF_INIT(size + 1);
	CB_TRY(buf_append(&out->piece, text, size, err));
	bool line = !cli_flag(call, "exact") && (size == 0 || text[size - 1] != '\n');
	return line ? buf_append_byte(&out->piece, '\n', err) : CB_OK;
}

typedef struct writing {
	const char *path;
	cli_input input;
	cb_write_options options;
} writing;

static cb_code write_work(void *context, cb_box *box, cb_error *err)
{
	writing *k = context;
	return cli_input_write(&k->input, box, k->path, &k->options, err);
}

static cb_code report(cli *c, cb_box *box, const char *path, uint64_t seq, cb_error *err)
{
	cb_stat_info info = CB_INIT(cb_stat_info);
	if (!cli_is_json(c)) return CB_OK;
	CB_TRY(cli_stat_after(c, box, seq, path, &info, err));
	json_writer *w = cli_json(c);
	json_object_begin(w);
	json_member_uint(w, "step", seq);
	json_member_str(w, "path", path);
	cli_json_stat(w, &info);
	json_object_end(w);
	return CB_OK;
}

static cb_code write_content(cli *c, cb_box *box, writing *k, cb_error *err)
{
	uint64_t seq = 0;
	cli_step step = {k->options.append ? "append" : "write", &k->path, 1, !k->input.more};
	cb_code code = cli_step_run(c, box, &step, write_work, k, &seq, err);
	bool is_new = k->options.expected_version == CB_VERSION_ABSENT;
	if (code == CB_NOTFOUND && !k->options.parents) cli_hint(c, "--parents makes missing folders");
	if (code == CB_VERSION && is_new) {
		cli_hint(c, k->options.append ? "without --new it is appended to" : "without --new it is overwritten");
		return cb_err_set(err, CB_EXISTS, "'%s' exists already", k->path);
	}
	if (code == CB_VERSION) cli_hint(c, "'cowbox stat' shows the version there is");
	return code == CB_OK ? report(c, box, k->path, seq, err) : code;
}

static cb_code write_file(cli *c, const cli_call *call, bool append, cb_error *err)
{
	writing k = {.input.fd = -1, .options = CB_WITH(cb_write_options, .append = append, .parents = cli_flag(call, "parents"))};
	cb_box *box = NULL;
	const char *mode = cli_text(call, "mode");
	CB_TRY(cli_open_writable(c, cli_operand_text(call, "PATH"), CLI_PATH, &box, &k.path, err));
	if (mode) CB_TRY(cli_parse_mode(mode, 0644, false, &k.options.mode, err));
	if (cli_flag(call, "new") && cli_given(call, "expected-version"))
		return cli_usage(c, err, "--new and --expected-version: one of them");
	if (cli_flag(call, "new")) k.options.expected_version = CB_VERSION_ABSENT;
	if (cli_given(call, "expected-version")) k.options.expected_version = cli_number(call, "expected-version", 0);
	cb_code code = input_of(c, call, &k.input, err);
	if (code == CB_OK) code = write_content(c, box, &k, err);
	cli_input_done(&k.input);
	return code;
}

static cb_code run_write(cli *c, const cli_call *call, cb_error *err)
{
	return write_file(c, call, false, err);
}

static cb_code run_append(cli *c, const cli_call *call, cb_error *err)
{
	return write_file(c, call, true, err);
}

static const cli_operand write_operands[] = {
	{CLI_PATH, "PATH", false, false, "the file: BOX:/PATH, or a path in the chosen box"},
	{CLI_WORD, "TEXT", true, false, "what to write, as a line; without it standard input is read"},
	{0},
};

static const cli_option write_options[] = {
	{CLI_TEXT, "file", 0, "FILE", "take the content from a file of the host"},
	{CLI_FLAG, "exact", 0, NULL, "TEXT as it is, without a newline at its end"},
	{CLI_FLAG, "parents", 'p', NULL, "make missing folders"},
	{CLI_TEXT, "mode", 'm', "MODE", "the mode of a new file (default: 644)"},
	{CLI_FLAG, "new", 0, NULL, "fail when the file exists"},
	{CLI_COUNT, "expected-version", 0, "N", "fail when the file's version is another"},
	{0},
};

static const char write_json[] = "step       the step it made; 0 when nothing changed\npath       the file\ntype mode size links "
				 "ino version mtime ctime    as of stat";

const cli_command cmd_write = {
	.name = "write",
	.group = "Files",
	.summary = "write standard input or a text to a file",
	.text = "The file is made or its content replaced, as one step. A TEXT is written as a line: with a newline at its end, "
		"unless --exact. Input of any size is taken.",
	.operands = write_operands,
	.options = write_options,
	.examples = (const char *const[]){"echo 'hello' | cowbox write demo:/work/a.txt", "cowbox write demo:/work/b.txt 'hello'",
                                          "cowbox write demo:/work/new/c.txt --parents --new 'first'", NULL},
	.json = write_json,
	.run = run_write,
};

const cli_command cmd_append = {
	.name = "append",
	.group = "Files",
	.summary = "append standard input or a text to a file",
	.text = "The file is made when it is not there. The cost is that of what is appended.",
	.operands = write_operands,
	.options = write_options,
	.examples = (const char *const[]){"cowbox append demo:/work/log.txt 'one more line'", NULL},
	.json = write_json,
	.run = run_append,
};
