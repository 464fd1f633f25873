/*
 * config.c: the keys, and the user's file: lines of "key = value", the last line of a key holds. A '#' at the beginning of a line or after
 * a blank begins a comment; a value in double quotes may hold it, and \" and \\ in it are '"' and '\'. What is set for a box lives with
 * the box as the setting "config.KEY" and wins over the file.
 */
#include "cli/core.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/temporary.h"

const cli_config_key cli_config_keys[] = {
	{"checkpoint.every", CLI_COUNT, "STEPS", "0", true, "save the checkpoint auto-SEQ every so many steps; 0: never"},
	{"checkpoint.exec", CLI_CHOICE, "yes|no", "no", true, "save a checkpoint before every program that is run"},
	{"color", CLI_CHOICE, "auto|always|never", "auto", false, "colours in the output"},
	{"diff.context", CLI_COUNT, "LINES", "3", true, "lines around a change in diffs"},
	{"durability", CLI_CHOICE, "fast|full", "fast", false, "full: every step is flushed to disk before it is acknowledged"},
	{"import.exclude", CLI_TEXT, "PATTERNS", "", true, "patterns, separated by spaces, that import always leaves out"},
	{"import.gitignore", CLI_CHOICE, "yes|no", "no", true, "leave out what .gitignore files name"},
	{"pager", CLI_TEXT, "COMMAND", "", false, "the pager, before PAGER; 'cat' for none"},
	{"store", CLI_TEXT, "FOLDER", "", false, "the store, when neither --store nor COWBOX_STORE names one"},
	{"who", CLI_TEXT, "NAME", "", false, "who steps are recorded for, when neither --who nor COWBOX_WHO says so"},
	{0},
};

const cli_config_key *cli_config_find(const char *name)
{
	for (const cli_config_key *k = cli_config_keys; k->name; k++)
		if (strcmp(k->name, name) == 0) return k;
	return NULL;
}

char *cli_config_path(void)
{
	const char *direct = getenv("COWBOX_CONFIG"), *base = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	char *out = NULL;
	if (direct && *direct) return mem_strdup(direct);
	if (base && *base) return asprintf(&out, "%s/cowbox/config", base) < 0 ? NULL : out;
	if (home && *home) return asprintf(&out, "%s/.config/cowbox/config", home) < 0 ? NULL : out;
	return NULL;
}

static cb_code file_read(cli *c, const char *path, cb_error *err)
{
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) return CB_OK;
	if (fd < 0) return cb_err_errno(err, errno, "reading '%s'", path);
	struct stat info;
	if (fstat(fd, &info) == 0 && S_ISDIR(info.st_mode))
		return cb_err_set(err, CB_ISDIR, "the configuration file '%s' is a folder", path);
	uint8_t *to = NULL;
	size_t size = 0;
	AUTO_BUF buf bytes = BUF_INIT(CLI_CONFIG_BYTES + 1);
	CB_TRY(buf_extend(&bytes, CLI_CONFIG_BYTES + 1, &to, err));
	cb_code code = io_pread_all(fd, to, CLI_CONFIG_BYTES + 1, 0, &size, err);
	if (code != CB_OK) return cb_err_wrap(err, code, "reading '%s'", path);
	if (size > CLI_CONFIG_BYTES) return cb_err_set(err, CB_TOOBIG, "'%s' has more than %d bytes", path, CLI_CONFIG_BYTES);
	bytes.size = size;
	c->config = bytes;
	bytes = BUF_INIT(0);
	return CB_OK;
}

static span trim(span s)
{
	while (s.size > 0 && (s.bytes[0] == ' ' || s.bytes[0] == '\t')) s = span_make(s.bytes + 1, s.size - 1);
	while (s.size > 0 && strchr(" \t\r", s.bytes[s.size - 1])) s.size--;
	return s;
}

/* The value as it is written at the beginning of text, without what follows it. False: its quotes do not end, or more than a comment
 * follows. */
static bool value_cut(span *text)
{
	const uint8_t *b = text->bytes;
	size_t size = text->size, i = 0;
	if (size && b[0] == '"') {
		for (i = 1; i < size && b[i] != '"'; i++) i += b[i] == '\\';
		if (i >= size) return false;
		i++;
		span after = trim(span_make(b + i, size - i));
		if (after.size && after.bytes[0] != '#') return false;
	} else {
		while (i < size && !(b[i] == '#' && (i == 0 || b[i - 1] == ' ' || b[i - 1] == '\t'))) i++;
	}
	*text = trim(span_make(b, i));
	return true;
}

/* What it means; `to` has room for text.size + 1 bytes. */
static void value_decode(span text, char *to)
{
	bool quoted = text.size && text.bytes[0] == '"';
	for (size_t i = quoted, end = text.size - quoted; i < end; i++) {
		if (quoted && text.bytes[i] == '\\') i++;
		*to++ = (char)text.bytes[i];
	}
	*to = 0;
}

cb_code cli_config_encode(const char *value, buf *out, cb_error *err)
{
	span plain = span_str(value), read = trim(plain);
	bool quote = !value_cut(&read) || !span_equal(plain, read) || value[0] == '"';
	if (!quote) return buf_append_str(out, value, err);
	CB_TRY(buf_append_byte(out, '"', err));
	for (; *value; value++) {
		if (*value == '"' || *value == '\\') CB_TRY(buf_append_byte(out, '\\', err));
		CB_TRY(buf_append_byte(out, (uint8_t)*value, err));
	}
	return buf_append_byte(out, '"', err);
}

typedef enum line_kind { LINE_EMPTY, LINE_SETTING, LINE_UNKNOWN } line_kind;

/* One line without its end; the value as it is written. */
static line_kind line_split(span line, span *key, span *value)
{
	line = trim(line);
	if (line.size == 0 || line.bytes[0] == '#') return LINE_EMPTY;
	const uint8_t *equals = memchr(line.bytes, '=', line.size);
	if (!equals) return LINE_UNKNOWN;
	*key = trim(span_make(line.bytes, (size_t)(equals - line.bytes)));
	*value = trim(span_make(equals + 1, line.size - (size_t)(equals + 1 - line.bytes)));
	return value_cut(value) ? LINE_SETTING : LINE_UNKNOWN;
}

static bool line_sets(span line, const char *name, span *value)
{
	span key;
	return line_split(line, &key, value) == LINE_SETTING && span_equal(key, span_str(name));
}

static span next_line(span *rest)
{
	const uint8_t *end = rest->size ? memchr(rest->bytes, '\n', rest->size) : NULL;
	size_t size = end ? (size_t)(end - rest->bytes) : rest->size;
	span line = span_make(rest->bytes, size);
	size_t used = size + (end != NULL);
	*rest = span_make(rest->bytes + used, rest->size - used);
	return line;
}

/* A word that was mistyped sets nothing, so it is said. */
static void file_judge(cli *c, const char *path)
{
	span rest = buf_span(&c->config), key, value;
	for (int number = 1; rest.size > 0; number++) {
		line_kind kind = line_split(next_line(&rest), &key, &value);
		bool known = false;
		for (const cli_config_key *k = cli_config_keys; k->name; k++)
			known = known || (kind == LINE_SETTING && span_equal(key, span_str(k->name)));
		if (kind == LINE_UNKNOWN) cli_note(c, "%s:%d: no 'key = value': ignored", path, number);
		else if (kind == LINE_SETTING && !known)
			cli_note(c, "%s:%d: no setting '%.*s': ignored", path, number, (int)(key.size < 64 ? key.size : 64),
			         key.bytes ? (const char *)key.bytes : "");
	}
}

static cb_code file_load(cli *c, cb_error *err)
{
	if (c->config_read) return CB_OK;
	AUTO_FREE char *path = cli_config_path();
	if (path) CB_TRY(file_read(c, path, err));
	c->config_read = true;
	if (path) file_judge(c, path);
	return CB_OK;
}

cb_code cli_config_user_get(cli *c, const char *name, const char **out, cb_error *err)
{
	CB_TRY(file_load(c, err));
	span rest = buf_span(&c->config), value, found = {0};
	bool has = false;
	while (rest.size > 0) {
		if (!line_sets(next_line(&rest), name, &value)) continue;
		found = value;
		has = true;
	}
	if (!has) return cb_err_set(err, CB_NOTFOUND, "'%s' is not set", name);
	char *text = mem_alloc(found.size + 1);
	if (!text) return cb_err_nomem(err);
	value_decode(found, text);
	cli_keep(c, text);
	*out = text;
	return CB_OK;
}

static cb_code box_get(cli *c, cb_box *box, const char *name, const char **out, cb_error *err)
{
	char key[128];
	char *value = NULL;
	(void)snprintf(key, sizeof(key), "config.%s", name);
	CB_TRY(cb_setting_get(box, key, &value, NULL, err));
	cli_keep(c, value);
	*out = value;
	return CB_OK;
}

cb_code cli_config_get(cli *c, cb_box *box, const char *name, const char **out, cb_error *err)
{
	const cli_config_key *key = cli_config_find(name);
	if (!key) return cb_err_set(err, CB_INVALID, "no setting '%s': 'cowbox config' lists them", name);
	cb_code code = box && key->per_box ? box_get(c, box, name, out, err) : CB_NOTFOUND;
	if (code == CB_NOTFOUND) code = cli_config_user_get(c, name, out, err);
	if (code == CB_OK && cli_config_check(key, *out, err) != CB_OK) return cb_err_wrap(err, CB_INVALID, "configuration");
	if (code == CB_NOTFOUND) {
		*out = key->otherwise;
		code = CB_OK;
	}
	return code;
}

cb_code cli_config_check(const cli_config_key *key, const char *value, cb_error *err)
{
	uint64_t number = 0;
	if (strchr(value, '\n')) return cb_err_set(err, CB_INVALID, "%s: a value is one line", key->name);
	if (key->kind == CLI_COUNT && cli_parse_count(value, &number, err) != CB_OK)
		return cb_err_wrap(err, CB_INVALID, "%s", key->name);
	if (key->kind != CLI_CHOICE || choice_has(key->value, value)) return CB_OK;
	return cb_err_set(err, CB_INVALID, "%s: '%.64s' is none of %s", key->name, value, key->value);
}

static cb_code line_put(buf *out, const char *name, const char *value, cb_error *err)
{
	CB_TRY(buf_printf(out, err, "%s = ", name));
	CB_TRY(cli_config_encode(value, out, err));
	return buf_append_byte(out, '\n', err);
}

/* The file with the key's lines replaced by one (at the place of the first), or without them. */
static cb_code file_edit(cli *c, const char *name, const char *value, buf *out, cb_error *err)
{
	span rest = buf_span(&c->config), old;
	bool written = value == NULL;
	while (rest.size > 0) {
		span line = next_line(&rest);
		bool ours = line_sets(line, name, &old);
		if (ours && !written) CB_TRY(line_put(out, name, value, err));
		if (ours) written = true;
		if (ours) continue;
		CB_TRY(buf_append(out, line.bytes, line.size, err));
		CB_TRY(buf_append_byte(out, '\n', err));
	}
	return written ? CB_OK : line_put(out, name, value, err);
}

/* Where a link leads the new file comes beside the old one, and the link stays; it has the old one's mode. */
static cb_code file_write(const char *wanted, const buf *text, cb_error *err)
{
	struct stat old = {.st_mode = 0600};
	AUTO_FREE char *real = realpath(wanted, NULL);
	if (!real && lstat(wanted, &old) == 0) return cb_err_set(err, CB_NOTFOUND, "'%s' is a link that leads nowhere", wanted);
	if (real && stat(real, &old) != 0) return cb_err_errno(err, errno, "writing '%s'", wanted);
	const char *path = real ? real : wanted;
	AUTO_FREE char *above = mem_strdup(path);
	char made[TEMPORARY_BYTES];
	if (!above) return cb_err_nomem(err);
	char *slash = strrchr(above, '/');
	const char *name = slash ? path + (slash - above) + 1 : path;
	if (slash) slash[slash == above] = 0;
	if (slash) CB_TRY(io_mkdirs(above, 0700, err));
	AUTO_FD int folder = open(slash ? above : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd = -1;
	if (folder < 0) return cb_err_errno(err, errno, "writing '%s'", path);
	temporary_sweep(folder);
	cb_code code = temporary_file(folder, made, &fd, err);
	if (code != CB_OK) return cb_err_wrap(err, code, "writing '%s'", path);
	code = io_write_all(fd, text->bytes, text->size, err);
	if (code != CB_OK) (void)cb_err_wrap(err, code, "writing '%s'", path);
	if (code == CB_OK && fchmod(fd, old.st_mode & 07777) != 0) code = cb_err_errno(err, errno, "writing '%s'", path);
	if (code == CB_OK && renameat(folder, made, folder, name) != 0) code = cb_err_errno(err, errno, "writing '%s'", path);
	if (code != CB_OK) temporary_remove(folder, made);
	return code;
}

cb_code cli_config_user_set(cli *c, const char *name, const char *value, cb_error *err)
{
	AUTO_FREE char *path = cli_config_path();
	if (!path) return cb_err_set(err, CB_INVALID, "no place for the configuration: set HOME or COWBOX_CONFIG");
	AUTO_BUF buf text = BUF_INIT(CLI_CONFIG_BYTES);
	CB_TRY(file_load(c, err));
	CB_TRY(file_edit(c, name, value, &text, err));
	CB_TRY(file_write(path, &text, err));
	buf_done(&c->config);
	c->config = text;
	text = BUF_INIT(0);
	return CB_OK;
}
