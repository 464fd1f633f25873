/*
 * address.c: "NAME[@STATE][:PATH]" taken apart. Nothing is looked up here, so that it can be tested and fuzzed alone.
 *
 * What a bare word means depends on what the command wants: a box where a box, a state or a place is wanted; a path in the chosen box where
 * only a path will do.
 */
#include "cli/core.h"

#include <string.h>

static bool is_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

/* How many characters of a box's name the text begins with; 0: none, or one that no box can have. */
static size_t name_size(const char *text)
{
	size_t n = 0;
	if (text[0] == '.' || text[0] == '-') return 0;
	while (is_name_char(text[n])) n++;
	return n <= CB_NAME_MAX ? n : 0;
}

/* Of a state after '@': a number, "-1", or a checkpoint's name. */
static size_t state_size(const char *text)
{
	size_t n = 0;
	while (is_name_char(text[n])) n++;
	return n <= CB_NAME_MAX ? n : 0;
}

/* Where the ':' of an address stands, or NULL: the text is not "NAME:", "NAME@STATE:", "@STATE:" or ":". */
static const char *colon_of(const char *text)
{
	const char *at = text + name_size(text);
	if (*at == '@') at += 1 + state_size(at + 1);
	return *at == ':' ? at : NULL;
}

bool cli_address_is_box(const char *text)
{
	return colon_of(text) != NULL;
}

static cb_code bad_address(const char *text, cb_error *err)
{
	return cb_err_set(err, CB_INVALID, "'%.128s' is no address: write BOX, BOX@STEP or BOX:/PATH", text);
}

cb_code cli_address_parse(const char *text, cli_noun noun, cli_address *out, cb_error *err)
{
	cli_address a = {.path = ""};
	const char *colon = colon_of(text);
	bool path_wanted = noun == CLI_PATH || noun == CLI_PLACE;
	bool bare_path = text[0] == '/' || (noun == CLI_PATH && !colon && text[0] != '@' && !strchr(text, '@'));
	if (text[0] == 0) return cb_err_set(err, CB_INVALID, "an empty address: write BOX, BOX@STEP or BOX:/PATH");
	if (bare_path && path_wanted && !colon) {
		a.has_path = true;
		a.path = text;
		*out = a;
		return CB_OK;
	}
	size_t name = name_size(text);
	const char *at = text + name;
	memcpy(a.box, text, name);
	if (*at == '@') {
		size_t state = state_size(at + 1);
		if (state == 0) return cb_err_set(err, CB_INVALID, "'%.128s' names no step after '@'", text);
		memcpy(a.state, at + 1, state);
		at += 1 + state;
	}
	if (*at == ':') {
		if (!path_wanted) return cb_err_set(err, CB_INVALID, "'%.128s' names a path: a box is wanted here", text);
		a.has_path = true;
		a.path = at + 1;
		if (!a.path[0]) a.path = "/work";
	} else if (*at != 0 || at == text) {
		return bad_address(text, err);
	}
	if (noun == CLI_BOX && a.state[0]) return cb_err_set(err, CB_INVALID, "'%.128s' names a step: a box is wanted here", text);
	if (noun == CLI_PATH && !a.has_path)
		return cb_err_set(err, CB_INVALID, "'%.128s' names no path: write %.128s:/PATH", text, text);
	*out = a;
	return CB_OK;
}

cb_code cli_address_path(const cli_address *address, char **out, cb_error *err)
{
	const char *path = address->path;
	AUTO_BUF buf text = BUF_INIT(64 << 10);
	if (path[0] != '/') CB_TRY(buf_append_str(&text, "/work/", err));
	CB_TRY(buf_append_str(&text, path, err));
	return buf_take(&text, out, NULL, err);
}
