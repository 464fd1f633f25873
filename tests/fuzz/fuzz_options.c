/*
 * fuzz_options.c: command lines of hostile words against the real table: every word must end as an option's value or an operand, exactly
 * once and as it was typed, or the line is refused with a message.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/core.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { WORDS_MAX = 64 };

#define MUST(cond)                    \
	do {                          \
		if (!(cond)) abort(); \
	} while (0)

/* Is it one of the words, or the end of one (--name=value, -xVALUE)? */
static bool is_lent(cli_words words, const char *text)
{
	for (size_t i = 0; i < words.count; i++)
		if (text >= words.items[i] && text <= words.items[i] + strlen(words.items[i])) return true;
	return false;
}

static void check_call(const cli_call *call, cli_words words)
{
	const cli_command *k = call->command;
	size_t operands = 0;
	for (const cli_option *o = k->options; o && o->kind != CLI_END; o++) {
		const char *const *items = NULL;
		if (o->kind == CLI_FLAG) continue;
		MUST(cli_given(call, o->name) == (cli_text(call, o->name) != NULL));
		if (cli_given(call, o->name)) MUST(is_lent(words, cli_text(call, o->name)));
		for (size_t n = cli_list(call, o->name, &items); n > 0; n--) MUST(is_lent(words, items[n - 1]));
	}
	for (const cli_operand *o = k->operands; o && o->noun != CLI_NOUN_NONE; o++) {
		const char *const *items = NULL;
		size_t n = cli_operand_list(call, o->name, &items);
		MUST(o->optional || n > 0);
		MUST(o->many || n <= 1);
		operands += n;
		for (; n > 0; n--) MUST(is_lent(words, items[n - 1]));
	}
	MUST(operands <= words.count);
}

static void check_refused(cb_code code, const cb_error *err)
{
	MUST((code == CB_INVALID || code == CB_LIMIT) && err->code == code && err->message[0]);
}

static void check_words(cli_words words)
{
	cli_globals globals = {0};
	cli_words rest = {0}, after = {0};
	cb_error err = {0};
	cb_code code = parse_globals(words, &globals, &rest, &err);
	if (code != CB_OK) {
		check_refused(code, &err);
		return;
	}
	MUST(rest.count <= words.count);
	const cli_command *command = NULL, *parent = NULL;
	code = parse_command(rest, &command, &parent, &after, &err);
	if (code == CB_OK) {
		cli_call call = {0};
		MUST(command->run && after.count < rest.count);
		code = parse_call(command, after, 1700000000000000000, &call, &err);
		if (code == CB_OK) check_call(&call, after);
		call_done(&call);
	}
	if (code != CB_OK) check_refused(code, &err);
	free((void *)(uintptr_t)rest.items);
}

/* Words are separated by newlines; a byte at the front chooses a command that is put before them, 0xff leaves them as they are. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	if (size == 0) return 0;
	AUTO_FREE char *text = malloc(size);
	const char *items[WORDS_MAX + 2];
	size_t count = 0, commands = 0;
	MUST(text);
	memcpy(text, bytes + 1, size - 1);
	text[size - 1] = 0;
	while (cli_commands[commands]) commands++;
	if (bytes[0] != 0xff) {
		const cli_command *k = cli_commands[bytes[0] % commands];
		items[count++] = k->name;
		if (k->subs) items[count++] = k->subs[0]->name;
	}
	for (char *at = text; at && count < WORDS_MAX; count++) {
		items[count] = at;
		at = strchr(at, '\n');
		if (at) *at++ = 0;
	}
	check_words((cli_words){items, count});
	return 0;
}
