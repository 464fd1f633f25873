/* fuzz_address.c: addresses of hostile bytes: what is taken apart must be names that a box can have, and put together again be the same. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

#define MUST(cond)                    \
	do {                          \
		if (!(cond)) abort(); \
	} while (0)

static const char name_characters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

static void check_parts(const cli_address *a, cli_noun noun)
{
	MUST(strlen(a->box) <= CB_NAME_MAX && strspn(a->box, name_characters) == strlen(a->box));
	MUST(a->box[0] != '.' && a->box[0] != '-');
	MUST(strlen(a->state) <= CB_NAME_MAX && strspn(a->state, name_characters) == strlen(a->state));
	if (noun == CLI_BOX) MUST(!a->state[0] && !a->has_path);
	if (noun == CLI_STATE) MUST(!a->has_path);
	if (noun == CLI_PATH) MUST(a->has_path);
	if (a->has_path) MUST(a->path[0]);
}

/* NAME[@STATE][:PATH] says the same as the text it came from. */
static void check_round_trip(const cli_address *a, cli_noun noun)
{
	AUTO_FREE char *text = NULL;
	cli_address again;
	MUST(asprintf(&text, "%s%s%s%s%s", a->box, a->state[0] ? "@" : "", a->state, a->has_path ? ":" : "",
	              a->has_path ? a->path : "") >= 0);
	MUST(cli_address_parse(text, noun, &again, NULL) == CB_OK);
	MUST(strcmp(again.box, a->box) == 0 && strcmp(again.state, a->state) == 0);
	MUST(again.has_path == a->has_path && (!a->has_path || strcmp(again.path, a->path) == 0));
	MUST(!a->has_path || cli_address_is_box(text));
}

static void check_noun(const char *text, cli_noun noun)
{
	cli_address a = {.path = ""};
	cb_error err = {0};
	AUTO_FREE char *path = NULL;
	cb_code code = cli_address_parse(text, noun, &a, &err);
	MUST(code == CB_OK || (code == CB_INVALID && err.code == code && err.message[0]));
	if (code != CB_OK) return;
	check_parts(&a, noun);
	check_round_trip(&a, noun);
	if (!a.has_path || cli_address_path(&a, &path, &err) != CB_OK) return;
	MUST(path[0] == '/' && (a.path[0] == '/' ? strcmp(path, a.path) == 0 : strncmp(path, "/work/", 6) == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static const cli_noun nouns[] = {CLI_BOX, CLI_STATE, CLI_PATH, CLI_PLACE};
	AUTO_FREE char *text = malloc(size + 1);
	MUST(text);
	if (size) memcpy(text, bytes, size);
	text[size] = 0;
	for (size_t i = 0; i < ARRAY_LEN(nouns); i++) check_noun(text, nouns[i]);
	/* What looks like a box's path is parsed as one, or refused: it is never taken for the host's. */
	cli_address a;
	if (cli_address_is_box(text) && cli_address_parse(text, CLI_PATH, &a, NULL) == CB_OK) MUST(strchr(text, ':') && a.has_path);
	return 0;
}
