/*
 * complete.c: what could stand at the place of the last word: commands, options, choices, and from the store boxes, states,
 * checkpoints and paths. The shells' scripts only ask here (`cowbox __complete -- WORDS`), so that completion knows what the command
 * table knows. Host paths are left to the shell: the line ":host" asks for them.
 */
#include "cli/core.h"

#include <string.h>

typedef struct completing {
	cli *c;
	const char *prefix; /* of the word */
	size_t prefix_size;
	const char *lead; /* put before each candidate: "demo@" */
	size_t lead_size;
	size_t count;
} completing;

static void offer(completing *k, const char *word, const char *suffix, const char *help)
{
	if (strncmp(word, k->prefix, k->prefix_size) != 0 || k->count >= CLI_COMPLETIONS_MAX) return;
	/* A line and a TAB part candidates: names that have them cannot be offered. */
	if (strpbrk(word, "\n\t")) return;
	k->count++;
	cli_write(k->c, k->lead, k->lead_size);
	cli_print(k->c, "%s%s\t%s\n", word, suffix, help ? help : "");
}

static void offer_options(completing *k, const cli_option *options)
{
	for (const cli_option *o = options; o && o->kind != CLI_END; o++) {
		char word[80];
		(void)snprintf(word, sizeof(word), "--%s", o->name);
		offer(k, word, "", o->help);
	}
}

static void offer_choices(completing *k, const char *choices)
{
	while (*choices) {
		char word[64];
		size_t n = strcspn(choices, "|");
		(void)snprintf(word, sizeof(word), "%.*s", (int)n, choices);
		offer(k, word, "", NULL);
		choices += n + (choices[n] == '|');
	}
}

/* ---- from the store ---- */

static cb_code offer_box(void *context, const cb_box_info *info, cb_error *err)
{
	(void)err;
	completing *k = context;
	char help[2 * CLI_FORMAT_MAX + 2], steps[CLI_FORMAT_MAX], files[CLI_FORMAT_MAX];
	(void)snprintf(help, sizeof(help), "%s, %s", cli_count_words(info->seq, "step", steps),
	               cli_count_words(info->files, "file", files));
	offer(k, info->name, "", help);
	return CB_OK;
}

static cb_code offer_checkpoint(void *context, const cb_checkpoint *checkpoint, cb_error *err)
{
	(void)err;
	offer(context, checkpoint->name, "", "checkpoint");
	return CB_OK;
}

static cb_code offer_step(void *context, const cb_step *step, cb_error *err)
{
	(void)err;
	char word[32];
	(void)snprintf(word, sizeof(word), "%llu", (unsigned long long)step->seq);
	offer(context, word, "", step->kind);
	return CB_OK;
}

static cb_code offer_entry(void *context, const char *name, const cb_stat_info *info, cb_error *err)
{
	(void)err;
	offer(context, name, info->type == CB_DIR ? "/" : "", info->type == CB_DIR ? "folder" : "");
	return CB_OK;
}

static cb_code complete_boxes(completing *k, cb_error *err)
{
	cb_store *store = NULL;
	CB_TRY(cli_store(k->c, &store, err));
	return cb_box_list(store, offer_box, k, err);
}

/* "demo@ch|": checkpoints and the newest steps. */
static cb_code complete_state(completing *k, const char *word, const char *at, cb_error *err)
{
	cb_box *box = NULL;
	char name[CB_NAME_MAX + 1];
	if ((size_t)(at - word) > CB_NAME_MAX) return CB_OK;
	(void)snprintf(name, sizeof(name), "%.*s", (int)(at - word), word);
	k->lead = word;
	k->lead_size = (size_t)(at + 1 - word);
	k->prefix = at + 1;
	k->prefix_size = strlen(at + 1);
	CB_TRY(cli_open(k->c, name[0] ? name : NULL, CLI_BOX, &box, NULL, err));
	CB_TRY(cb_checkpoint_list(box, offer_checkpoint, k, err));
	return cb_log(box, &CB_WITH(cb_log_options, .max_steps = 20), offer_step, k, NULL, err);
}

/* "demo:/work/a|": entries of the folder. */
static cb_code complete_path(completing *k, const char *word, const char *path, cb_error *err)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	AUTO_BUF buf folder = BUF_INIT(64 << 10);
	cb_box *box = NULL;
	const char *folder_path = "";
	CB_TRY(buf_append(&folder, word, (size_t)(name - word), err));
	if (name == path) CB_TRY(buf_append_byte(&folder, '.', err));
	CB_TRY(buf_append_byte(&folder, 0, err));
	k->lead = word;
	k->lead_size = (size_t)(name - word);
	k->prefix = name;
	k->prefix_size = strlen(name);
	CB_TRY(cli_open(k->c, (const char *)folder.bytes, CLI_PATH, &box, &folder_path, err));
	return cb_readdir(box, folder_path, offer_entry, k, err);
}

static cb_code complete_address(completing *k, const char *word, bool states, bool paths, cb_error *err)
{
	const char *colon = strchr(word, ':'), *at = strchr(word, '@');
	if (paths && colon) return complete_path(k, word, colon + 1, err);
	if (paths && word[0] == '/') return complete_path(k, word, word, err);
	if (states && at) return complete_state(k, word, at, err);
	return complete_boxes(k, err);
}

static cb_code complete_noun(completing *k, cli_noun noun, const char *word, cb_error *err)
{
	cb_box *box = NULL;
	switch (noun) {
	case CLI_NOUN_NONE:
	case CLI_WORD:
	case CLI_ARGV:
		return CB_OK;
	case CLI_BOX:
		return complete_address(k, word, false, false, err);
	case CLI_STATE:
		return complete_address(k, word, true, false, err);
	case CLI_PATH:
	case CLI_PLACE:
		return complete_address(k, word, true, true, err);
	case CLI_EITHER:
		cli_print(k->c, ":host\n");
		return word[0] == '/' ? CB_OK : complete_address(k, word, true, true, err);
	case CLI_HOST:
		cli_print(k->c, ":host\n");
		return CB_OK;
	case CLI_CHECKPOINT:
		CB_TRY(cli_open(k->c, NULL, CLI_BOX, &box, NULL, err));
		return cb_checkpoint_list(box, offer_checkpoint, k, err);
	case CLI_COMMAND:
		for (const cli_command *const *m = cli_commands; *m; m++) offer(k, (*m)->name, "", (*m)->summary);
		return CB_OK;
	}
	return CB_OK;
}

/* ---- where the word stands ---- */

static const cli_option *option_of(const cli_option *table, const char *word)
{
	for (const cli_option *o = table; o && o->kind != CLI_END; o++) {
		if (word[0] == '-' && word[1] == '-' && strcmp(word + 2, o->name) == 0) return o;
		if (word[0] == '-' && word[1] && word[1] == o->letter && !word[2]) return o;
	}
	return NULL;
}

static cb_code complete_value(completing *k, const cli_option *o, const char *word, cb_error *err)
{
	if (o->kind == CLI_CHOICE) offer_choices(k, o->value);
	else if (strcmp(o->name, "box") == 0 || strcmp(o->name, "into") == 0 || strcmp(o->name, "prefer") == 0)
		return complete_noun(k, CLI_BOX, word, err);
	else cli_print(k->c, ":host\n");
	return CB_OK;
}

/* Which operand the next plain word is: positions count from the left, the last one with `many` takes all further ones. */
static cli_noun noun_at(const cli_command *command, size_t position)
{
	size_t count = operand_count(command);
	for (size_t i = 0; i < count; i++)
		if (i == position || command->operands[i].many) return command->operands[i].noun;
	return count > 0 && command->operands[count - 1].many ? command->operands[count - 1].noun : CLI_NOUN_NONE;
}

static cb_code complete_operand(completing *k, const cli_command *command, cli_words before, const char *word, cb_error *err)
{
	size_t position = 0;
	bool only_operands = false;
	for (size_t i = 0; i < before.count; i++) {
		const cli_option *o = only_operands ? NULL : option_of(command->options, before.items[i]);
		if (!o && !only_operands) o = option_of(cli_global_options, before.items[i]);
		if (strcmp(before.items[i], "--") == 0) only_operands = true;
		else if (o && o->kind != CLI_FLAG) i++;
		else if (before.items[i][0] != '-' || only_operands) position++;
	}
	if (word[0] == '-' && !only_operands) {
		offer_options(k, command->options);
		offer_options(k, cli_global_options);
		return CB_OK;
	}
	if (only_operands && noun_at(command, SIZE_MAX) == CLI_ARGV) return CB_OK;
	return complete_noun(k, noun_at(command, position), word, err);
}

static cb_code complete_first(completing *k, const char *word, cb_error *err)
{
	if (word[0] == '-') offer_options(k, cli_global_options);
	return word[0] == '-' ? CB_OK : complete_noun(k, CLI_COMMAND, word, err);
}

cb_code complete_words(cli *c, cli_words words, cb_error *err)
{
	if (words.count > 0 && strcmp(words.items[0], "--") == 0) words = (cli_words){words.items + 1, words.count - 1};
	if (words.count == 0) return CB_OK;
	const char *word = words.items[words.count - 1];
	completing k = {.c = c, .prefix = word, .prefix_size = strlen(word), .lead = ""};
	cli_words before = {words.items, words.count - 1};
	/* The choices of --store and --box made on the line so far hold for what is looked up. */
	AUTO_FREE const char **plain = NULL;
	cli_words rest = {0};
	if (parse_globals(before, &c->globals, &rest, NULL) == CB_OK) plain = (const char **)(uintptr_t)rest.items;
	const cli_command *command = NULL, *parent = NULL;
	cli_words after = {0};
	const cli_option *o = before.count ? option_of(cli_global_options, before.items[before.count - 1]) : NULL;
	if (o && o->kind != CLI_FLAG) return complete_value(&k, o, word, err);
	if (rest.count == 0) return complete_first(&k, word, err);
	command = cli_command_find(rest.items[0]);
	if (!command) return CB_OK;
	if (command->subs && rest.count == 1) {
		for (const cli_command *const *s = command->subs; *s; s++) offer(&k, (*s)->name, "", (*s)->summary);
		return command->fallback ? complete_operand(&k, command->fallback, after, word, err) : CB_OK;
	}
	CB_TRY(parse_command(rest, &command, &parent, &after, err));
	o = after.count ? option_of(command->options, after.items[after.count - 1]) : NULL;
	if (o && o->kind != CLI_FLAG) return complete_value(&k, o, word, err);
	return complete_operand(&k, command, after, word, err);
}
