/* help_docs.c: the command table as documents: docs/commands.md, docs/exit-codes.md and man pages in roff. */
#include "cli/core.h"

#include <string.h>

/* ---- Markdown ---- */

/* A table cell: '|' and line ends would break the row. */
static void cell(cli *c, const char *text)
{
	for (; text && *text; text++) {
		if (*text == '|') cli_print(c, "\\|");
		else if (*text == '\n') cli_print(c, " ");
		else cli_write(c, text, 1);
	}
}

static void markdown_options(cli *c, const cli_option *options)
{
	if (!options || options[0].kind == CLI_END) return;
	cli_print(c, "| option | |\n|---|---|\n");
	for (const cli_option *o = options; o->kind != CLI_END; o++) {
		cli_print(c, "| `");
		if (o->letter) cli_print(c, "-%c`, `", o->letter);
		bool attached = o->kind == CLI_FLAG && o->value;
		cli_print(c, "--%s%s", o->name, attached ? "[=" : o->value ? " " : "");
		cell(c, o->value);
		if (attached) cli_print(c, "]");
		cli_print(c, "` | ");
		cell(c, o->help);
		cli_print(c, " |\n");
	}
	cli_print(c, "\n");
}

static void markdown_operands(cli *c, const cli_command *command)
{
	if (operand_count(command) == 0) return;
	cli_print(c, "| operand | |\n|---|---|\n");
	for (const cli_operand *o = command->operands; o->noun != CLI_NOUN_NONE; o++) {
		cli_print(c, "| `%s%s` | ", o->name, o->many ? "..." : "");
		cell(c, o->help);
		cli_print(c, " |\n");
	}
	cli_print(c, "\n");
}

static void markdown_block(cli *c, const char *title, const char *text)
{
	cli_print(c, "%s\n\n", title);
	for (const char *at = text; *at;) {
		size_t n = strcspn(at, "\n");
		cli_print(c, "    %.*s\n", (int)n, at);
		at += n + (at[n] == '\n');
	}
	cli_print(c, "\n");
}

static cb_code markdown_command(cli *c, const cli_command *command, const cli_command *parent, cb_error *err)
{
	AUTO_BUF buf usage = BUF_INIT(4096);
	CB_TRY(help_usage_line(command, parent, &usage, err));
	cli_print(c, "### %s%s%s\n\n    %.*s\n\n", parent ? parent->name : "", parent ? " " : "", command->name, (int)usage.size,
	          (const char *)usage.bytes);
	cli_print(c, "%s.\n\n", command->summary);
	if (command->text) cli_print(c, "%s\n\n", command->text);
	markdown_operands(c, command);
	markdown_options(c, command->options);
	if (command->examples && command->examples[0]) {
		cli_print(c, "Examples:\n\n");
		for (const char *const *e = command->examples; *e; e++) cli_print(c, "    %s\n", *e);
		cli_print(c, "\n");
	}
	if (command->json) markdown_block(c, "With `--json`:", command->json);
	for (const cli_command *const *s = command->subs; s && *s; s++) CB_TRY(markdown_command(c, *s, command, err));
	return CB_OK;
}

cb_code help_markdown(cli *c, cb_error *err)
{
	cli_print(c, "# Commands\n\n<!-- Printed by `cowbox help --markdown`; a test compares. -->\n\n");
	cli_print(c, "Words and addresses are explained in [concepts.md](concepts.md), exit statuses in "
	             "[exit-codes.md](exit-codes.md).\n\n");
	cli_print(c, "## Options of every command\n\n");
	markdown_options(c, cli_global_options);
	for (size_t g = 0; cli_groups[g]; g++) {
		cli_print(c, "## %s\n\n", cli_groups[g]);
		for (const cli_command *const *k = cli_commands; *k; k++)
			if (strcmp((*k)->group, cli_groups[g]) == 0) CB_TRY(markdown_command(c, *k, NULL, err));
	}
	cli_print(c, "## Configuration keys\n\n| key | value | default | per box | |\n|---|---|---|---|---|\n");
	for (const cli_config_key *k = cli_config_keys; k->name; k++) {
		cli_print(c, "| `%s` | `", k->name);
		cell(c, k->value);
		cli_print(c, "` | %s | %s | ", *k->otherwise ? k->otherwise : "none", k->per_box ? "yes" : "no");
		cell(c, k->help);
		cli_print(c, " |\n");
	}
	return CB_OK;
}

/* ---- exit statuses ---- */

typedef struct exit_row {
	const char *name, *text;
	int status;
} exit_row;

static const exit_row exit_rows[] = {
#define ROW(name, value, err, status, text) {#name, text, status},
	CB_ERROR_TABLE(ROW)
#undef ROW
};

/* Of exec, whose other statuses are its program's. */
static const exit_row exec_rows[] = {
	{"exec", "the time of the program was over", 124},
	{"exec", "cowbox itself failed, by any of these errors", 125},
	{"exec", "the program cannot be executed", 126},
	{"exec", "there is no such program", 127},
};

typedef void (*exit_print)(cli *c, const exit_row *row);

static void rows_print(cli *c, exit_print print)
{
	for (int status = 0; status < 256; status++) {
		for (size_t i = 0; i < ARRAY_LEN(exit_rows); i++)
			if (exit_rows[i].status == status) print(c, &exit_rows[i]);
		for (size_t i = 0; i < ARRAY_LEN(exec_rows); i++)
			if (exec_rows[i].status == status) print(c, &exec_rows[i]);
	}
}

static void row_markdown(cli *c, const exit_row *row)
{
	cli_print(c, "| %d | `%s` | %s |\n", row->status, row->name, row->text);
}

static void row_plain(cli *c, const exit_row *row)
{
	cli_print(c, "%3d  %-12s %s\n", row->status, row->name, row->text);
}

static void row_man(cli *c, const exit_row *row)
{
	cli_print(c, ".TP\n.B %d\n%s: %s.\n", row->status, row->name, row->text);
}

static void exit_json(cli *c)
{
	json_writer *w = cli_json(c);
	json_object_begin(w);
	json_member_array(w, "exit_codes");
	for (size_t i = 0; i < ARRAY_LEN(exit_rows); i++) {
		json_object_begin(w);
		json_member_str(w, "code", exit_rows[i].name);
		json_member_int(w, "exit", exit_rows[i].status);
		json_member_str(w, "text", exit_rows[i].text);
		json_object_end(w);
	}
	json_array_end(w);
	json_object_end(w);
}

cb_code help_exit_codes(cli *c, bool markdown, cb_error *err)
{
	(void)err;
	if (cli_is_json(c)) {
		exit_json(c);
		return CB_OK;
	}
	if (markdown)
		cli_print(c,
		          "# Exit statuses\n\n<!-- Printed by `cowbox help --markdown exit-codes`; a test compares. -->\n\n"
		          "0 is success. `grep` without a match, `diff --exit-code` with a difference, and `undo` or `redo` with "
		          "nothing\n"
		          "to do end with 1; `fsck` with a complaint ends with 65. "
		          "Anything else names the error below; with `--json` its code is in\n"
		          "`error.code` on standard error. A command ended by Ctrl-C exits with 130. One whose output nobody reads "
		          "any more, as in\n`cowbox pack | head`, ends without a word by SIGPIPE, as `cat` and `tar` do: 141 to a "
		          "shell.\n\n"
		          "`exec` ends with the status of its program, 128 and the number of the signal that ended it, or one of "
		          "the rows marked so.\n\n"
		          "| status | code | meaning |\n|---|---|---|\n");
	rows_print(c, markdown ? row_markdown : row_plain);
	return CB_OK;
}

/* ---- man pages ---- */

/* Backslashes and leading dots mean something to roff. */
static void roff(cli *c, const char *text)
{
	bool start = true;
	for (; text && *text; text++) {
		if (start && (*text == '.' || *text == '\'')) cli_print(c, "\\&");
		if (*text == '\\') cli_print(c, "\\e");
		else if (*text == '-') cli_print(c, "\\-");
		else cli_write(c, text, 1);
		start = *text == '\n';
	}
}

static void roff_block(cli *c, const char *title, const char *text)
{
	cli_print(c, ".SH %s\n.nf\n", title);
	roff(c, text);
	cli_print(c, "\n.fi\n");
}

static void man_text(cli *c, const char *text)
{
	while (text && *text) {
		const char *end = strstr(text, "\n\n");
		size_t n = end ? (size_t)(end - text) : strlen(text);
		char *paragraph = mem_dup(text, n + 1);
		if (!paragraph) return;
		paragraph[n] = 0;
		cli_print(c, ".PP\n");
		roff(c, paragraph);
		cli_print(c, "\n");
		cli_keep(c, paragraph);
		text += n + (end ? 2 : 0);
	}
}

static void man_options(cli *c, const cli_option *options)
{
	for (const cli_option *o = options; o && o->kind != CLI_END; o++) {
		cli_print(c, ".TP\n");
		if (o->letter) cli_print(c, "\\fB\\-%c\\fR, ", o->letter);
		cli_print(c, "\\fB\\-\\-");
		roff(c, o->name);
		cli_print(c, "\\fR");
		bool attached = o->kind == CLI_FLAG && o->value;
		if (o->value) cli_print(c, "%s\\fI%s\\fR%s", attached ? "[=" : " ", o->value, attached ? "]" : "");
		cli_print(c, "\n");
		roff(c, o->help);
		cli_print(c, ".\n");
	}
}

static void man_body(cli *c, const cli_command *command)
{
	for (const cli_operand *o = command->operands; o && o->noun != CLI_NOUN_NONE; o++) {
		cli_print(c, ".TP\n\\fI%s\\fR\n", o->name);
		roff(c, o->help);
		cli_print(c, ".\n");
	}
	man_options(c, command->options);
}

static void man_examples(cli *c, const cli_command *command)
{
	for (const char *const *e = command->examples; e && *e; e++) {
		roff(c, *e);
		cli_print(c, "\n");
	}
}

void help_man(cli *c, const cli_command *command, const cli_command *parent)
{
	AUTO_BUF buf usage = BUF_INIT(4096);
	if (help_usage_line(command, parent, &usage, NULL) != CB_OK || buf_append_byte(&usage, 0, NULL) != CB_OK) return;
	cli_print(c, ".TH \"COWBOX\\-%s\" 1 \"\" \"cowbox %s\" \"cowbox\"\n.SH NAME\ncowbox\\-%s \\- ", command->name, cb_version(),
	          command->name);
	roff(c, command->summary);
	cli_print(c, "\n.SH SYNOPSIS\n");
	roff(c, (const char *)usage.bytes);
	cli_print(c, "\n.SH DESCRIPTION\n");
	roff(c, command->summary);
	cli_print(c, ".\n");
	man_text(c, command->text);
	man_body(c, command);
	for (const cli_command *const *s = command->subs; s && *s; s++) {
		buf_clear(&usage);
		if (help_usage_line(*s, command, &usage, NULL) != CB_OK || buf_append_byte(&usage, 0, NULL) != CB_OK) continue;
		cli_print(c, ".SS ");
		roff(c, (const char *)usage.bytes);
		cli_print(c, "\n");
		roff(c, (*s)->summary);
		cli_print(c, ".\n");
		man_text(c, (*s)->text);
		man_body(c, *s);
	}
	cli_print(c, ".SH EXAMPLES\n.nf\n");
	man_examples(c, command);
	for (const cli_command *const *s = command->subs; s && *s; s++) man_examples(c, *s);
	cli_print(c, ".fi\n");
	if (command->json) roff_block(c, "JSON", command->json);
	for (const cli_command *const *s = command->subs; s && *s; s++)
		if ((*s)->json) {
			cli_print(c, ".SH JSON OF %s\n.nf\n", (*s)->name);
			roff(c, (*s)->json);
			cli_print(c, "\n.fi\n");
		}
	cli_print(c, ".SH SEE ALSO\n.BR cowbox (1)\n");
}

void help_man_index(cli *c)
{
	cli_print(
		c,
		".TH COWBOX 1 \"\" \"cowbox %s\" \"cowbox\"\n.SH NAME\ncowbox \\- a copy\\-on\\-write box for the work of agents\n",
		cb_version());
	cli_print(c, ".SH SYNOPSIS\ncowbox COMMAND [OPTIONS] [ADDRESS ...]\n.SH DESCRIPTION\n");
	roff(c, "cowbox keeps the work of an agent in boxes: every step can be seen, undone, forked, compared and merged. "
	        "Addresses: demo is a box, "
	        "demo@7 its state after step 7, demo@-1 one step back, demo@NAME a checkpoint, demo:/work/a.txt a path in it.");
	for (size_t g = 0; cli_groups[g]; g++) {
		cli_print(c, "\n.SS %s", cli_groups[g]);
		for (const cli_command *const *k = cli_commands; *k; k++) {
			if (strcmp((*k)->group, cli_groups[g]) != 0) continue;
			cli_print(c, "\n.TP\n.BR cowbox\\-%s (1)\n", (*k)->name);
			roff(c, (*k)->summary);
			cli_print(c, ".");
		}
	}
	cli_print(c, "\n.SH OPTIONS\nEvery command has these.\n");
	man_options(c, cli_global_options);
	cli_print(c, ".SH EXIT STATUS\n");
	rows_print(c, row_man);
}
