/*
 * config.c: the keys, and the user's file: lines of "key = value", '#' begins a comment, the last line of a key holds. What is set for a
 * box lives with the box as the setting "config.KEY" and wins over the file.
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

/* One line without its end. False: a comment, blank, or not "key = value". */
static bool line_split(span line, span *key, span *value)
{
	line = trim(line);
	const uint8_t *equals = line.size ? memchr(line.bytes, '=', line.size) : NULL;
	if (line.size == 0 || line.bytes[0] == '#' || !equals) return false;
	*key = trim(span_make(line.bytes, (size_t)(equals - line.bytes)));
	*value = trim(span_make(equals + 1, line.size - (size_t)(equals + 1 - line.bytes)));
	return true;
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

static cb_code file_load(cli *c, cb_error *err)
{
	if (c->config_read) return CB_OK;
	AUTO_FREE char *path = cli_config_path();
	if (path) CB_TRY(file_read(c, path, err));
	c->config_read = true;
	return CB_OK;
}

cb_code cli_config_user_get(cli *c, const char *name, const char **out, cb_error *err)
{
	CB_TRY(file_load(c, err));
	span rest = buf_span(&c->config), key, value, found = {0};
	bool has = false;
	while (rest.size > 0) {
		if (!line_split(next_line(&rest), &key, &value) || !span_equal(key, span_str(name))) continue;
		found = value;
		has = true;
	}
	if (!has) return cb_err_set(err, CB_NOTFOUND, "'%s' is not set", name);
	char *text = mem_alloc(found.size + 1);
	if (!text) return cb_err_nomem(err);
	if (found.size) memcpy(text, found.bytes, found.size);
	text[found.size] = 0;
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

/* The file with the key's lines replaced by one (at the place of the first), or without them. */
static cb_code file_edit(cli *c, const char *name, const char *value, buf *out, cb_error *err)
{
	span rest = buf_span(&c->config), key, old;
	bool written = value == NULL;
	while (rest.size > 0) {
		span line = next_line(&rest);
		bool ours = line_split(line, &key, &old) && span_equal(key, span_str(name));
		if (ours && !written) CB_TRY(buf_printf(out, err, "%s = %s\n", name, value));
		if (ours) written = true;
		if (ours) continue;
		CB_TRY(buf_append(out, line.bytes, line.size, err));
		CB_TRY(buf_append_byte(out, '\n', err));
	}
	if (!written) CB_TRY(buf_printf(out, err, "%s = %s\n", name, value));
	return CB_OK;
}

static cb_code file_write(const char *path, const buf *text, cb_error *err)
{
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
