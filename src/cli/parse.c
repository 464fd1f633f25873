/*
 * parse.c: from words to what a command's table says. Options may stand anywhere before "--"; --name=value and --name value, -xVALUE and
 * -x VALUE, and flags by letter in one word (-nl) are understood. Nothing is guessed: an unknown option is an error that names the
 * nearest one.
 */
#include "cli/core.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

size_t option_count(const cli_command *command)
{
	size_t n = 0;
	while (command->options && command->options[n].kind != CLI_END) n++;
	return n;
}

size_t operand_count(const cli_command *command)
{
	size_t n = 0;
	while (command->operands && command->operands[n].noun != CLI_NOUN_NONE) n++;
	return n;
}

static cb_code list_add(cli_text_list *list, const char *item, cb_error *err)
{
	if (list->count >= CLI_LIST_MAX) return cb_err_set(err, CB_LIMIT, "more than %d values", CLI_LIST_MAX);
	if (list->count == list->capacity) {
		size_t capacity = list->capacity ? list->capacity * 2 : 8;
		const char **items = mem_realloc(list->items, capacity * sizeof(*items));
		if (!items) return cb_err_nomem(err);
		list->items = items;
		list->capacity = capacity;
	}
	list->items[list->count++] = item;
	return CB_OK;
}

/* ---- options ---- */

static size_t distance(const char *a, const char *b)
{
	/* Edits that make b of a short word, two letters in the wrong order being one; enough to say "did you mean". */
	enum { LETTERS = 64 };
	size_t n = strlen(b), rows[3][LETTERS];
	size_t *before = rows[0], *above = rows[1], *row = rows[2];
	if (n + 1 > LETTERS) return SIZE_MAX;
	for (size_t j = 0; j <= n; j++) row[j] = j;
	for (size_t i = 1; a[i - 1]; i++) {
		size_t *free_row = before;
		before = above;
		above = row;
		row = free_row;
		row[0] = i;
		for (size_t j = 1; j <= n; j++) {
			row[j] = above[j - 1] + (a[i - 1] != b[j - 1]);
			if (above[j] + 1 < row[j]) row[j] = above[j] + 1;
			if (row[j - 1] + 1 < row[j]) row[j] = row[j - 1] + 1;
			bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
			if (swapped && before[j - 2] + 1 < row[j]) row[j] = before[j - 2] + 1;
		}
	}
	return row[n];
}

static void nearest(const char *word, const char *candidate, const char **best, size_t *best_distance)
{
	size_t d = distance(word, candidate);
	if (d < *best_distance) {
		*best = candidate;
		*best_distance = d;
	}
}

static const cli_option *option_by_name(const cli_option *table, const char *name, size_t size)
{
	for (const cli_option *o = table; o && o->kind != CLI_END; o++)
		if (strlen(o->name) == size && memcmp(o->name, name, size) == 0) return o;
	return NULL;
}

static const cli_option *option_by_letter(const cli_option *table, char letter)
{
	for (const cli_option *o = table; o && o->kind != CLI_END; o++)
		if (o->letter && o->letter == letter) return o;
	return NULL;
}

static cb_code unknown_option(const cli_command *command, const char *word, cb_error *err)
{
	size_t size = strcspn(word, "=");
	const char *best = NULL;
	size_t best_distance = 3;
	char name[64];
	if (size > 2 && size < sizeof(name) && word[1] == '-') {
		memcpy(name, word + 2, size - 2);
		name[size - 2] = 0;
		for (const cli_option *o = command ? command->options : NULL; o && o->kind != CLI_END; o++)
			nearest(name, o->name, &best, &best_distance);
		for (const cli_option *o = cli_global_options; o->kind != CLI_END; o++)
			nearest(name, o->name, &best, &best_distance);
	}
	if (best) return cb_err_set(err, CB_INVALID, "unknown option '%.*s': did you mean '--%s'?", (int)size, word, best);
	return cb_err_set(err, CB_INVALID, "unknown option '%.*s'", (int)size, word);
}

bool choice_has(const char *choices, const char *text)
{
	size_t size = strlen(text);
	for (const char *at = choices; *at;) {
		size_t n = strcspn(at, "|");
		if (n == size && memcmp(at, text, n) == 0) return true;
		at += n + (at[n] == '|');
	}
	return false;
}

static cb_code value_set(const cli_option *o, const char *text, int64_t now_ns, cli_value *v, cb_error *err)
{
	int64_t ns = 0;
	cb_code code = CB_OK;
	switch (o->kind) {
	case CLI_END:
	case CLI_FLAG:
	case CLI_TEXT:
		break;
	case CLI_LIST:
		CB_TRY(list_add(&v->list, text, err));
		break;
	case CLI_COUNT:
		code = cli_parse_count(text, &v->number, err);
		break;
	case CLI_SIZE:
		code = cli_parse_size(text, &v->number, err);
		break;
	case CLI_DURATION:
		code = cli_parse_duration(text, &ns, err);
		v->number = (uint64_t)ns;
		break;
	case CLI_AGE:
		code = cli_parse_age(text, &ns, err);
		v->number = (uint64_t)ns;
		break;
	case CLI_MOMENT:
		code = cli_parse_moment(text, now_ns, &v->moment, err);
		break;
	case CLI_CHOICE:
		if (!choice_has(o->value, text)) code = cb_err_set(err, CB_INVALID, "'%s' is none of %s", text, o->value);
		break;
	}
	if (code != CB_OK) return cb_err_wrap(err, code, "--%s", o->name);
	v->given = true;
	v->text = text;
	return CB_OK;
}

typedef struct reading {
	cli_words words;
	size_t at;
	const cli_option *table;
	const cli_command *command; /* for messages; may be NULL */
	int64_t now_ns;
	cli_value *values;
} reading;

static cb_code read_value(reading *r, const cli_option *o, const char *attached, cb_error *err)
{
	cli_value *v = &r->values[o - r->table];
	if (o->kind == CLI_FLAG) {
		if (attached && !o->value) return cb_err_set(err, CB_INVALID, "--%s takes no value", o->name);
		v->given = true;
		v->text = attached;
		return CB_OK;
	}
	if (!attached) {
		if (r->at >= r->words.count) return cb_err_set(err, CB_INVALID, "--%s needs a value: %s", o->name, o->value);
		attached = r->words.items[r->at++];
	}
	return value_set(o, attached, r->now_ns, v, err);
}

/* "-nl", "-C3": letters until one takes a value. */
static cb_code read_letters(reading *r, const char *word, cb_error *err)
{
	for (const char *at = word + 1; *at; at++) {
		const cli_option *o = option_by_letter(r->table, *at);
		if (!o) return cb_err_set(err, CB_INVALID, "unknown option '-%c'", *at >= ' ' && *at < 127 ? *at : '?');
		if (o->kind != CLI_FLAG) return read_value(r, o, at[1] ? at + 1 : NULL, err);
		CB_TRY(read_value(r, o, NULL, err));
	}
	return CB_OK;
}

static cb_code read_option(reading *r, const char *word, cb_error *err)
{
	if (word[1] != '-') return read_letters(r, word, err);
	size_t size = strcspn(word + 2, "=");
	const cli_option *o = option_by_name(r->table, word + 2, size);
	if (!o) return unknown_option(r->command, word, err);
	return read_value(r, o, word[2 + size] == '=' ? word + 3 + size : NULL, err);
}

/* "-", "-5" and "-1h" are values, not options, but for a digit that is one of the table's letters. */
static bool is_option(const cli_option *table, const char *word)
{
	if (word[0] != '-' || word[1] == 0) return false;
	return word[1] < '0' || word[1] > '9' || option_by_letter(table, word[1]);
}

/* ---- global options ---- */

static const cli_option *global_of(const char *word)
{
	if (word[0] != '-') return NULL;
	if (word[1] == '-') return option_by_name(cli_global_options, word + 2, strcspn(word + 2, "="));
	return word[1] && !word[2] ? option_by_letter(cli_global_options, word[1]) : NULL;
}

static cb_code globals_take(const cli_value *v, cli_globals *g, cb_error *err)
{
	for (size_t i = 0; cli_global_options[i].kind != CLI_END; i++) {
		const char *name = cli_global_options[i].name;
		if (!v[i].given) continue;
		if (strcmp(name, "store") == 0) g->store = v[i].text;
		else if (strcmp(name, "box") == 0) g->box = v[i].text;
		else if (strcmp(name, "who") == 0) g->who = v[i].text;
		else if (strcmp(name, "color") == 0) g->color = v[i].text;
		else if (strcmp(name, "json") == 0) g->json = true;
		else if (strcmp(name, "yes") == 0) g->yes = true;
		else if (strcmp(name, "quiet") == 0) g->quiet = true;
		else if (strcmp(name, "no-pager") == 0) g->no_pager = true;
		else if (strcmp(name, "help") == 0) g->help = true;
		else if (strcmp(name, "version") == 0) g->version = true;
		else return cb_err_set(err, CB_INTERNAL, "the global option '%s' goes nowhere", name);
	}
	return CB_OK;
}

/* The word after an option of the command that takes a value is that value, whatever it looks like. */
static bool takes_next(const cli_command *command, const char *word)
{
	const cli_option *o = NULL;
	if (!command || !is_option(command->options, word) || strcmp(word, "--") == 0) return false;
	if (word[1] == '-') {
		if (strchr(word, '=')) return false;
		o = option_by_name(command->options, word + 2, strlen(word + 2));
		return o && o->kind != CLI_FLAG;
	}
	for (const char *at = word + 1; *at; at++) {
		o = option_by_letter(command->options, *at);
		if (!o) return false;
		if (o->kind != CLI_FLAG) return at[1] == 0;
	}
	return false;
}

static cb_code globals_read(reading *r, const char **rest, size_t *rest_count, cb_error *err)
{
	const cli_command *command = NULL, *parent = NULL;
	while (r->at < r->words.count) {
		const char *word = r->words.items[r->at++];
		const cli_option *o = global_of(word);
		if (strcmp(word, "--") == 0) {
			rest[(*rest_count)++] = word;
			while (r->at < r->words.count) rest[(*rest_count)++] = r->words.items[r->at++];
		} else if (o && !(command && word[1] != '-' && option_by_letter(command->options, word[1]))) {
			CB_TRY(read_option(r, word, err));
		} else {
			rest[(*rest_count)++] = word;
			/* Options of the command are known once its name was read. */
			cli_words so_far = {rest, *rest_count}, after;
			if (word[0] != '-' && parse_command(so_far, &command, &parent, &after, NULL) != CB_OK) command = NULL;
			if (takes_next(command, word) && r->at < r->words.count) rest[(*rest_count)++] = r->words.items[r->at++];
		}
	}
	return CB_OK;
}

cb_code parse_globals(cli_words words, cli_globals *globals, cli_words *out, cb_error *err)
{
	cli_value values[16] = {0};
	size_t count = 0;
	while (cli_global_options[count].kind != CLI_END) count++;
	assert(count <= ARRAY_LEN(values));
	AUTO_FREE const char **rest = mem_alloc((words.count + 1) * sizeof(*rest));
	if (!rest) return cb_err_nomem(err);
	size_t rest_count = 0;
	reading r = {words, 0, cli_global_options, NULL, 0, values};
	cb_code code = globals_read(&r, rest, &rest_count, err);
	if (code != CB_OK) {
		/* How the error is to be shown may stand after the word that is wrong. */
		for (size_t i = 0; i < words.count && strcmp(words.items[i], "--") != 0; i++)
			globals->json = globals->json || strcmp(words.items[i], "--json") == 0;
		return code;
	}
	CB_TRY(globals_take(values, globals, err));
	*out = (cli_words){TAKE_PTR(rest), rest_count};
	return CB_OK;
}

/* ---- commands ---- */

static const cli_command *sub_find(const cli_command *command, const char *name)
{
	for (const cli_command *const *s = command->subs; s && *s; s++)
		if (strcmp((*s)->name, name) == 0) return *s;
	return NULL;
}

static cb_code no_command(const char *name, cb_error *err)
{
	const char *best = NULL;
	size_t best_distance = 3;
	for (const cli_command *const *c = cli_commands; *c; c++) nearest(name, (*c)->name, &best, &best_distance);
	if (best) return cb_err_set(err, CB_INVALID, "no command '%.64s': did you mean '%s'?", name, best);
	return cb_err_set(err, CB_INVALID, "no command '%.64s': see 'cowbox help'", name);
}

static cb_code no_sub(const cli_command *command, const char *name, cb_error *err)
{
	char names[256] = "";
	for (const cli_command *const *s = command->subs; *s; s++) {
		size_t used = strlen(names);
		(void)snprintf(names + used, sizeof(names) - used, "%s%s", used ? ", " : "", (*s)->name);
	}
	if (name) return cb_err_set(err, CB_INVALID, "%s has no '%.64s', but: %s", command->name, name, names);
	return cb_err_set(err, CB_INVALID, "%s what? One of: %s", command->name, names);
}

cb_code parse_command(cli_words words, const cli_command **out, const cli_command **out_parent, cli_words *out_rest, cb_error *err)
{
	if (words.count == 0) return cb_err_set(err, CB_INVALID, "no command: see 'cowbox help'");
	const cli_command *command = cli_command_find(words.items[0]);
	if (!command) return no_command(words.items[0], err);
	size_t used = 1;
	*out_parent = NULL;
	if (command->subs) {
		const char *name = words.count > 1 ? words.items[1] : NULL;
		const cli_command *sub = name ? sub_find(command, name) : NULL;
		if (sub) used = 2;
		else if (command->fallback) sub = command->fallback;
		else return no_sub(command, name, err);
		*out_parent = command;
		command = sub;
	}
	*out = command;
	*out_rest = (cli_words){words.items + used, words.count - used};
	return CB_OK;
}

/* ---- operands ---- */

static const cli_operand *argv_operand(const cli_command *command)
{
	for (const cli_operand *o = command->operands; o && o->noun != CLI_NOUN_NONE; o++)
		if (o->noun == CLI_ARGV) return o;
	return NULL;
}

static cb_code too_many(const cli_command *command, const char *word, cb_error *err)
{
	if (argv_operand(command))
		return cb_err_set(err, CB_INVALID, "%s: '%.128s' is one word too many: a program stands after '--'", command->name,
		                  word);
	return cb_err_set(err, CB_INVALID, "%s: '%.128s' is one word too many", command->name, word);
}

/* Required operands first get theirs; what is left over fills optional ones from the left; one with `many` takes the rest. */
static cb_code assign(const cli_command *command, const cli_text_list *given, cli_value *values, cb_error *err)
{
	size_t count = operand_count(command), required = 0;
	for (size_t i = 0; i < count; i++) required += !command->operands[i].optional;
	size_t extra = given->count > required ? given->count - required : 0;
	size_t at = 0;
	size_t optional_before_many = 0;
	for (size_t i = 0; i < count; i++) optional_before_many += command->operands[i].optional && !command->operands[i].many;
	for (size_t i = 0; i < count; i++) {
		const cli_operand *o = &command->operands[i];
		if (o->noun == CLI_ARGV) continue; /* read_words has put them there */
		size_t take = !o->optional;
		if (o->many) {
			size_t for_optional = extra < optional_before_many ? extra : optional_before_many;
			take += extra - for_optional;
			extra = for_optional;
		} else if (o->optional) {
			take = extra > 0;
			extra -= take;
			optional_before_many--;
		}
		if (take > given->count - at) take = given->count - at;
		if (!o->optional && take == 0)
			return cb_err_set(err, CB_INVALID, "%s needs %s: %s", command->name, o->name, o->help);
		for (size_t k = 0; k < take; k++) CB_TRY(list_add(&values[i].list, given->items[at++], err));
		values[i].given = take > 0;
		values[i].text = take > 0 ? values[i].list.items[0] : NULL;
	}
	return at < given->count ? too_many(command, given->items[at], err) : CB_OK;
}

static void values_done(cli_value *values, size_t count)
{
	for (size_t i = 0; values && i < count; i++) free(values[i].list.items);
	free(values);
}

void call_done(cli_call *call)
{
	if (!call->command) return;
	values_done(call->options, option_count(call->command));
	values_done(call->operands, operand_count(call->command));
	*call = (cli_call){0};
}

static cb_code read_words(reading *r, cli_text_list *plain, cli_value *argv, cb_error *err)
{
	while (r->at < r->words.count) {
		const char *word = r->words.items[r->at++];
		if (strcmp(word, "--") == 0) {
			cli_text_list *rest = argv ? &argv->list : plain;
			while (r->at < r->words.count) CB_TRY(list_add(rest, r->words.items[r->at++], err));
			if (argv) argv->given = argv->list.count > 0;
			if (argv && argv->given) argv->text = argv->list.items[0];
		} else if (is_option(r->table, word)) {
			CB_TRY(read_option(r, word, err));
		} else {
			CB_TRY(list_add(plain, word, err));
		}
	}
	return CB_OK;
}

cb_code parse_call(const cli_command *command, cli_words words, int64_t now_ns, cli_call *out, cb_error *err)
{
	*out = (cli_call){command, calloc(option_count(command) + 1, sizeof(cli_value)),
	                  calloc(operand_count(command) + 1, sizeof(cli_value))};
	if (!out->options || !out->operands) return cb_err_nomem(err);
	cli_text_list plain = {0};
	reading r = {words, 0, command->options, command, now_ns, out->options};
	const cli_operand *argv = argv_operand(command);
	cb_code code = read_words(&r, &plain, argv ? &out->operands[argv - command->operands] : NULL, err);
	if (code == CB_OK) code = assign(command, &plain, out->operands, err);
	free(plain.items);
	return code;
}

/* ---- reading a call ---- */

static const cli_value *option_get(const cli_call *call, const char *name)
{
	const cli_option *o = option_by_name(call->command->options, name, strlen(name));
	assert(o);
	return &call->options[o - call->command->options];
}

static const cli_value *operand_get(const cli_call *call, const char *name)
{
	size_t i = 0, count = operand_count(call->command);
	while (i < count && strcmp(call->command->operands[i].name, name) != 0) i++;
	assert(i < count);
	return &call->operands[i];
}

bool cli_flag(const cli_call *call, const char *option)
{
	return option_get(call, option)->given;
}

bool cli_given(const cli_call *call, const char *option)
{
	return option_get(call, option)->given;
}

const char *cli_text(const cli_call *call, const char *option)
{
	return option_get(call, option)->text;
}

uint64_t cli_number(const cli_call *call, const char *option, uint64_t otherwise)
{
	const cli_value *v = option_get(call, option);
	return v->given ? v->number : otherwise;
}

int64_t cli_moment(const cli_call *call, const char *option, int64_t otherwise)
{
	const cli_value *v = option_get(call, option);
	return v->given ? v->moment : otherwise;
}

size_t cli_list(const cli_call *call, const char *option, const char *const **out)
{
	const cli_value *v = option_get(call, option);
	*out = v->list.items;
	return v->list.count;
}

const char *cli_operand_text(const cli_call *call, const char *operand)
{
	return operand_get(call, operand)->text;
}

size_t cli_operand_list(const cli_call *call, const char *operand, const char *const **out)
{
	const cli_value *v = operand_get(call, operand);
	*out = v->list.items;
	return v->list.count;
}

const cli_command *cli_call_command(const cli_call *call)
{
	return call->command;
}
