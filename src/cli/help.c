/* help.c: the command table as text for people, and as JSON for programs. */
#include "cli/core.h"

#include <string.h>

enum {
	HELP_COLUMNS = 100, /* lines are broken before this */
	HELP_RIGHT = 33,    /* where explanations of options begin */
};

static void heading(cli *c, const char *text)
{
	cli_print(c, "%s%s%s\n", cli_on(c, CLI_BOLD), text, cli_off(c));
}

void help_summary(cli *c)
{
	if (cli_is_json(c)) {
		json_writer *w = cli_json(c);
		json_object_begin(w);
		json_member_array(w, "commands");
		for (const cli_command *const *k = cli_commands; *k; k++) help_command_json(w, *k, NULL);
		json_array_end(w);
		json_object_end(w);
		return;
	}
	cli_print(c,
	          "cowbox keeps the work of an agent in boxes: every step can be seen, undone, forked, compared and merged.\n\n");
	cli_print(c, "  cowbox COMMAND [OPTIONS] [ADDRESS ...]      addresses: demo, demo@7, demo@checkpoint, demo:/work/file\n");
	for (size_t g = 0; cli_groups[g]; g++) {
		cli_print(c, "\n");
		heading(c, cli_groups[g]);
		for (const cli_command *const *k = cli_commands; *k; k++)
			if (strcmp((*k)->group, cli_groups[g]) == 0) cli_print(c, "  %-11s %s\n", (*k)->name, (*k)->summary);
	}
	cli_print(c, "\n'cowbox help COMMAND' shows its options and examples; 'cowbox help exit-codes' what the statuses mean.\n");
}

static cb_code operand_text(const cli_operand *o, buf *out, cb_error *err)
{
	return buf_printf(out, err, " %s%s%s%s%s", o->optional ? "[" : "", o->noun == CLI_ARGV ? "-- " : "", o->name,
	                  o->many ? "..." : "", o->optional ? "]" : "");
}

cb_code help_usage_line(const cli_command *command, const cli_command *parent, buf *out, cb_error *err)
{
	CB_TRY(buf_printf(out, err, "cowbox %s%s%s", parent ? parent->name : "", parent ? " " : "", command->name));
	if (command->subs) return buf_append_str(out, " SUBCOMMAND", err);
	if (option_count(command) > 0) CB_TRY(buf_append_str(out, " [OPTIONS]", err));
	for (const cli_operand *o = command->operands; o && o->noun != CLI_NOUN_NONE; o++) CB_TRY(operand_text(o, out, err));
	return CB_OK;
}

static void print_subs(cli *c, const cli_command *command)
{
	for (const cli_command *const *s = command->subs; s && *s; s++) {
		AUTO_BUF buf usage = BUF_INIT(4096);
		if (help_usage_line(*s, command, &usage, NULL) != CB_OK) continue;
		cli_print(c, "  %.*s\n      %s\n", (int)usage.size, (const char *)usage.bytes, (*s)->summary);
	}
}

static void print_examples(cli *c, const cli_command *command)
{
	if (!command->examples || !command->examples[0]) return;
	cli_print(c, "\n");
	heading(c, "Examples");
	for (const char *const *e = command->examples; *e; e++) cli_print(c, "  %s\n", *e);
}

/* Words from column `at` on, further lines beginning at `indent`; a newline in the text is a space. */
static void print_wrapped(cli *c, const char *text, size_t size, size_t at, size_t indent)
{
	bool first = true;
	for (const char *end = text + size; text < end;) {
		size_t n = strcspn(text, " \n");
		if (n > (size_t)(end - text)) n = (size_t)(end - text);
		if (!first && at + 1 + n > HELP_COLUMNS) {
			cli_print(c, "\n%*s", (int)indent, "");
			at = indent;
		} else if (!first) {
			cli_print(c, " ");
			at++;
		}
		cli_write(c, text, n);
		at += n;
		text += n + (text + n < end);
		first = false;
	}
	cli_print(c, "\n");
}

static void print_paragraphs(cli *c, const char *text)
{
	while (*text) {
		const char *end = strstr(text, "\n\n");
		size_t n = end ? (size_t)(end - text) : strlen(text);
		cli_print(c, "  ");
		print_wrapped(c, text, n, 2, 2);
		if (end) cli_print(c, "\n");
		text += n + (end ? 2 : 0);
	}
}

/* A name on the left, what it is on the right. */
static void print_row(cli *c, const char *left, const char *help)
{
	size_t used = strlen(left) + 2;
	cli_print(c, "  %s", left);
	if (used + 1 > HELP_RIGHT) cli_print(c, "\n%*s", HELP_RIGHT, "");
	else cli_print(c, "%*s", (int)(HELP_RIGHT - used), "");
	print_wrapped(c, help, strlen(help), HELP_RIGHT, HELP_RIGHT);
}

static void print_options(cli *c, const cli_option *options)
{
	for (const cli_option *o = options; o && o->kind != CLI_END; o++) {
		char left[96], letter[8] = "   ";
		if (o->letter) (void)snprintf(letter, sizeof(letter), "-%c,", o->letter);
		bool attached = o->kind == CLI_FLAG && o->value;
		(void)snprintf(left, sizeof(left), "%s --%s%s%s%s", letter, o->name,
		               attached   ? "[="
		               : o->value ? " "
		                          : "",
		               o->value ? o->value : "", attached ? "]" : "");
		print_row(c, left, o->help);
	}
}

static void print_indented(cli *c, const char *text)
{
	while (*text) {
		size_t n = strcspn(text, "\n");
		const char *gap = strstr(text, "  ");
		size_t left = gap && gap < text + n ? (size_t)(gap - text) + strspn(gap, " ") : 0;
		cli_print(c, n ? "  %.*s" : "%.*s", (int)left, text);
		print_wrapped(c, text + left, n - left, left + 2, left + 2);
		text += n + (text[n] == '\n');
	}
}

void help_command(cli *c, const cli_command *command, const cli_command *parent)
{
	if (cli_is_json(c)) {
		help_command_json(cli_json(c), command, parent);
		return;
	}
	AUTO_BUF buf usage = BUF_INIT(4096);
	if (help_usage_line(command, parent, &usage, NULL) != CB_OK) return;
	cli_print(c, "%s%.*s%s\n  %s\n", cli_on(c, CLI_BOLD), (int)usage.size, (const char *)usage.bytes, cli_off(c),
	          command->summary);
	if (command->text) {
		cli_print(c, "\n");
		print_paragraphs(c, command->text);
	}
	if (operand_count(command)) cli_print(c, "\n");
	for (const cli_operand *o = command->operands; o && o->noun != CLI_NOUN_NONE; o++) print_row(c, o->name, o->help);
	if (command->subs) cli_print(c, "\n");
	print_subs(c, command);
	if (option_count(command)) cli_print(c, "\n");
	print_options(c, command->options);
	print_examples(c, command);
	if (command->json) {
		cli_print(c, "\n");
		heading(c, "With --json");
		print_indented(c, command->json);
	}
	cli_print(c, "\nOptions of every command: --store --box --who --json --color --no-pager --yes --quiet ('cowbox help "
	             "options').\n");
}

static const char *kind_name(cli_kind kind)
{
	static const char *const names[] = {
		[CLI_END] = "",        [CLI_FLAG] = "flag",    [CLI_TEXT] = "text",         [CLI_LIST] = "list",
		[CLI_COUNT] = "count", [CLI_SIZE] = "size",    [CLI_DURATION] = "duration", [CLI_MOMENT] = "moment",
		[CLI_AGE] = "age",     [CLI_CHOICE] = "choice"};
	return names[kind];
}

static void options_json(json_writer *w, const cli_option *options)
{
	json_member_array(w, "options");
	for (const cli_option *o = options; o && o->kind != CLI_END; o++) {
		char letter[2] = {o->letter, 0};
		json_object_begin(w);
		json_member_str(w, "name", o->name);
		if (o->letter) json_member_str(w, "letter", letter);
		json_member_str(w, "kind", kind_name(o->kind));
		if (o->value) json_member_str(w, "value", o->value);
		json_member_str(w, "help", o->help);
		json_object_end(w);
	}
	json_array_end(w);
}

void help_global_options(cli *c)
{
	if (cli_is_json(c)) {
		json_object_begin(cli_json(c));
		options_json(cli_json(c), cli_global_options);
		json_object_end(cli_json(c));
		return;
	}
	for (const cli_option *o = cli_global_options; o->kind != CLI_END; o++) cli_print(c, "  --%-24s %s\n", o->name, o->help);
}

static void command_json_parts(json_writer *w, const cli_command *command)
{
	json_member_array(w, "operands");
	for (const cli_operand *o = command->operands; o && o->noun != CLI_NOUN_NONE; o++) {
		json_object_begin(w);
		json_member_str(w, "name", o->name);
		json_member_bool(w, "optional", o->optional);
		json_member_bool(w, "many", o->many);
		json_member_str(w, "help", o->help);
		json_object_end(w);
	}
	json_array_end(w);
	options_json(w, command->options);
	json_member_array(w, "examples");
	for (const char *const *e = command->examples; e && *e; e++) json_str(w, *e);
	json_array_end(w);
}

void help_command_json(json_writer *w, const cli_command *command, const cli_command *parent)
{
	AUTO_BUF buf usage = BUF_INIT(4096);
	json_object_begin(w);
	json_member_str(w, "name", command->name);
	if (parent) json_member_str(w, "parent", parent->name);
	if (command->group) json_member_str(w, "group", command->group);
	json_member_str(w, "summary", command->summary);
	if (help_usage_line(command, parent, &usage, NULL) == CB_OK) json_member_bytes(w, "usage", usage.bytes, usage.size);
	command_json_parts(w, command);
	if (command->json) json_member_str(w, "json", command->json);
	json_member_array(w, "subcommands");
	for (const cli_command *const *s = command->subs; s && *s; s++) help_command_json(w, *s, command);
	json_array_end(w);
	json_object_end(w);
}
