/* cmd_help.c: the help, and the documents that are made of the command table. */
#include "cli/core.h"

#include <string.h>

static cb_code topic(cli *c, const cli_call *call, const char *name, cb_error *err)
{
	const char *const *names = NULL;
	size_t count = cli_operand_list(call, "TOPIC", &names);
	const cli_command *command = NULL, *parent = NULL;
	cli_words rest = {0};
	if (strcmp(name, "exit-codes") == 0) return help_exit_codes(c, cli_flag(call, "markdown"), err);
	if (strcmp(name, "options") == 0) {
		help_global_options(c);
		return CB_OK;
	}
	command = cli_command_find(name);
	if (!command || count > 1) CB_TRY(parse_command((cli_words){names, count}, &command, &parent, &rest, err));
	if (cli_flag(call, "man")) help_man(c, command, parent);
	else help_command(c, command, parent);
	return CB_OK;
}

static cb_code run_help(cli *c, const cli_call *call, cb_error *err)
{
	const char *name = cli_operand_text(call, "TOPIC");
	const char *document = cli_flag(call, "man") ? "man" : cli_flag(call, "markdown") ? "markdown" : NULL;
	if (document && cli_is_json(c))
		return cb_err_set(err, CB_INVALID, "--%s prints a document: it cannot be had with --json", document);
	if (name) return topic(c, call, name, err);
	if (cli_flag(call, "markdown")) return help_markdown(c, err);
	if (cli_flag(call, "man")) help_man_index(c);
	else help_summary(c);
	return CB_OK;
}

const cli_command cmd_help = {
	.name = "help",
	.group = "Help",
	.summary = "show what a command does, with examples",
	.text = "TOPIC is a command, a command and its subcommand, 'options' or 'exit-codes'. The documents and man pages of "
		"cowbox are\n"
		"printed by this command from the same table that parses the command line.",
	.operands = (const cli_operand[]){{CLI_COMMAND, "TOPIC", true, true, "a command, 'options' or 'exit-codes'"}, {0}},
	.options = (const cli_option[]){{CLI_FLAG, "man", 0, NULL, "as a man page"},
                                        {CLI_FLAG, "markdown", 0, NULL, "all commands (or the exit codes) as Markdown"},
                                        {0}},
	.examples = (const char *const[]){"cowbox help", "cowbox help checkpoint save", "cowbox help exit-codes", NULL},
	.json = "commands    all of them, each as below\n"
		"name parent group summary usage operands options examples json subcommands    of one command\n"
		"operands    for each: name, optional, many (may be repeated), help\n"
		"options     for each: name, letter (when it has one), kind (flag, text, list, count, size, duration, moment, "
		"choice), value (what stands for it, when it takes one), help; of 'options': those of every command\n"
		"exit_codes  of 'exit-codes': code, exit, text of each",
	.run = run_help,
};
