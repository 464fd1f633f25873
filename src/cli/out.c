/*
 * out.c: everything a command prints. Bytes that come from a box are an agent's: on a terminal control bytes, bidirectional overrides and
 * invalid UTF-8 are shown as \xNN, so that a file name cannot drive the terminal; in a pipe they go through as they are.
 */
#include "cli/core.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void out_init(cli *c)
{
	c->out = BUF_INIT(CLI_OUT_BYTES * 2);
	c->notes = BUF_INIT(CLI_NOTES_BYTES);
	c->conflicts = BUF_INIT(CLI_NOTES_BYTES);
	c->out_is_terminal = isatty(STDOUT_FILENO) == 1;
	c->err_is_terminal = isatty(STDERR_FILENO) == 1;
	const char *no_color = getenv("NO_COLOR"), *terminal = getenv("TERM");
	bool can = c->out_is_terminal && !(no_color && *no_color) && !(terminal && strcmp(terminal, "dumb") == 0);
	const char *wish = c->globals.color;
	if (!wish && cli_config_get(c, NULL, "color", &wish, NULL) != CB_OK) wish = "auto";
	c->use_color = strcmp(wish, "always") == 0 || (can && strcmp(wish, "never") != 0);
	if (c->globals.json) c->use_color = false;
}

void out_flush(cli *c)
{
	size_t done = 0;
	while (done < c->out.size && !c->out_failed) {
		ssize_t n = write(STDOUT_FILENO, c->out.bytes + done, c->out.size - done);
		if (n < 0 && errno == EINTR) continue;
		if (n < 0) {
			c->out_failed = true;
			c->out_errno = errno;
		} else {
			done += (size_t)n;
		}
	}
	buf_clear(&c->out);
}

cb_code out_end(cli *c, cb_error *err)
{
	cb_code code = CB_OK;
	if (c->json_used) {
		json_notes(c, &c->json);
		code = json_writer_end(&c->json, err);
		c->json_used = false;
		cli_write(c, "\n", 1);
	}
	out_flush(c);
	if (code == CB_OK && c->out_failed && c->out_errno == EBADF)
		code = cb_err_set(err, CB_IO, "writing the output: standard output is closed");
	if (code == CB_OK && c->out_failed) code = cb_err_errno(err, c->out_errno, "writing the output");
	return code;
}

bool cli_is_json(const cli *c)
{
	return c->globals.json;
}

bool cli_is_terminal(const cli *c)
{
	return c->out_is_terminal && !c->globals.json;
}

bool cli_is_quiet(const cli *c)
{
	return c->globals.quiet;
}

const char *cli_who_given(const cli *c)
{
	return c->globals.who;
}

void cli_write(cli *c, const void *bytes, size_t size)
{
	const char *at = bytes;
	while (size > 0) {
		size_t room = CLI_OUT_BYTES - c->out.size;
		size_t n = size < room ? size : room;
		if (buf_append(&c->out, at, n, NULL) != CB_OK) {
			c->out_failed = true;
			c->out_errno = ENOMEM;
			return;
		}
		at += n;
		size -= n;
		if (c->out.size >= CLI_OUT_BYTES) out_flush(c);
	}
}

void cli_print(cli *c, const char *format, ...)
{
	char small[1024];
	va_list args, again;
	va_start(args, format);
	va_copy(again, args);
	int n = vsnprintf(small, sizeof(small), format, args);
	va_end(args);
	if (n >= 0 && (size_t)n < sizeof(small)) {
		cli_write(c, small, (size_t)n);
	} else if (n >= 0) {
		AUTO_FREE char *large = mem_alloc((size_t)n + 1);
		if (large) (void)vsnprintf(large, (size_t)n + 1, format, again);
		if (large) cli_write(c, large, (size_t)n);
	}
	va_end(again);
}

/* The length of a well-formed, printable UTF-8 sequence at `at`, or 0. */
static size_t printable(const uint8_t *at, size_t size)
{
	if (at[0] < 0x80) return at[0] >= 0x20 && at[0] != 0x7f;
	size_t n = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
	if (at[0] < 0xc2 || at[0] > 0xf4 || n > size) return 0;
	uint32_t point = at[0] & (0x7fu >> n);
	for (size_t i = 1; i < n; i++) {
		if ((at[i] & 0xc0) != 0x80) return 0;
		point = (point << 6) | (at[i] & 0x3f);
	}
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	if (point < least[n] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) return 0;
	bool control = point < 0xa0 || (point >= 0x200b && point <= 0x200f) || (point >= 0x2028 && point <= 0x202e) ||
	               (point >= 0x2060 && point <= 0x206f) || point == 0xfeff || (point >= 0xfff9 && point <= 0xfffb);
	return control ? 0 : n;
}

/* What stands for the bytes at `at` on a terminal: themselves, or "\\x1b"; *used of them. */
static span shown(const uint8_t *at, size_t size, bool tabs, char escaped[8], size_t *used)
{
	size_t n = (tabs && *at == '\t') ? 1 : printable(at, size);
	*used = n ? n : 1;
	if (n) return span_make(at, n);
	if (*at == '\n') (void)snprintf(escaped, 8, "\\n");
	else (void)snprintf(escaped, 8, "\\x%02x", *at);
	return span_str(escaped);
}

static void print_escaped(cli *c, const char *bytes, size_t size, bool tabs)
{
	for (size_t at = 0, used = 0; at < size; at += used) {
		char escaped[8];
		span s = shown((const uint8_t *)bytes + at, size - at, tabs, escaped, &used);
		cli_write(c, s.bytes, s.size);
	}
}

void out_escape(buf *out, const char *bytes, size_t size)
{
	for (size_t at = 0, used = 0; at < size; at += used) {
		char escaped[8];
		span s = shown((const uint8_t *)bytes + at, size - at, false, escaped, &used);
		if (buf_append(out, s.bytes, s.size, NULL) != CB_OK) return;
	}
}

void cli_print_bytes(cli *c, const char *bytes, size_t size)
{
	if (!cli_is_terminal(c)) cli_write(c, bytes, size);
	else print_escaped(c, bytes, size, true);
}

void cli_print_name(cli *c, const char *name)
{
	if (!cli_is_terminal(c)) cli_write(c, name, strlen(name));
	else print_escaped(c, name, strlen(name), false);
}

size_t cli_name_width(const cli *c, const char *name)
{
	size_t width = 0, size = strlen(name);
	for (size_t at = 0; at < size;) {
		size_t n = printable((const uint8_t *)name + at, size - at);
		if (n || !cli_is_terminal(c)) width++;
		else width += name[at] == '\n' ? 2 : 4;
		at += n ? n : 1;
	}
	return width;
}

/* As git has it when quotePath is off. Without memory for the quotes, as it is. */
static void quote(const char *path, buf *out)
{
	static const char letters[] = "abtnvfr"; /* of 7 to 13 */
	bool plain = true;
	for (const char *at = path; *at && plain; at++) plain = (unsigned char)*at >= 0x20 && !strchr("\"\\\x7f", *at);
	buf_clear(out);
	cb_code code = plain ? buf_append_str(out, path, NULL) : buf_append_byte(out, '"', NULL);
	for (const char *at = path; *at && !plain && code == CB_OK; at++) {
		unsigned char byte = (unsigned char)*at;
		if (byte >= 7 && byte <= 13) code = buf_printf(out, NULL, "\\%c", letters[byte - 7]);
		else if (byte < 0x20 || byte == 0x7f) code = buf_printf(out, NULL, "\\%03o", byte);
		else if (byte == '"' || byte == '\\') code = buf_printf(out, NULL, "\\%c", byte);
		else code = buf_append_byte(out, byte, NULL);
	}
	if (code == CB_OK && !plain) code = buf_append_byte(out, '"', NULL);
	if (code == CB_OK) code = buf_append_byte(out, 0, NULL);
	if (code != CB_OK) buf_done(out);
}

void cli_print_path(cli *c, const char *path)
{
	AUTO_BUF buf quoted = BUF_INIT(SIZE_MAX);
	quote(path, &quoted);
	cli_print_name(c, quoted.size ? (const char *)quoted.bytes : path);
}

size_t cli_path_width(const cli *c, const char *path)
{
	AUTO_BUF buf quoted = BUF_INIT(SIZE_MAX);
	quote(path, &quoted);
	return cli_name_width(c, quoted.size ? (const char *)quoted.bytes : path);
}

/* ---- style ---- */

const char *cli_on(const cli *c, cli_style style)
{
	static const char *const codes[] = {
		[CLI_PLAIN] = "",        [CLI_BOLD] = "\033[1m",   [CLI_DIM] = "\033[2m",
		[CLI_RED] = "\033[31m",  [CLI_GREEN] = "\033[32m", [CLI_YELLOW] = "\033[33m",
		[CLI_BLUE] = "\033[34m", [CLI_CYAN] = "\033[36m",  [CLI_MAGENTA] = "\033[35m",
	};
	return c->use_color ? codes[style] : "";
}

const char *cli_off(const cli *c)
{
	return c->use_color ? "\033[0m" : "";
}

static cli_style diff_style(const char *line, size_t size, bool *in_header)
{
	static const char *const headers[] = {"diff ",       "index ",  "new ", "deleted ", "old ",
	                                      "similarity ", "rename ", "--- ", "+++ ",     "Binary "};
	if (size >= 5 && memcmp(line, "diff ", 5) == 0) *in_header = true;
	if (size >= 2 && memcmp(line, "@@", 2) == 0) *in_header = false;
	if (*in_header)
		for (size_t i = 0; i < ARRAY_LEN(headers); i++)
			if (size >= strlen(headers[i]) && memcmp(line, headers[i], strlen(headers[i])) == 0) return CLI_BOLD;
	if (size > 0 && line[0] == '+') return CLI_GREEN;
	if (size > 0 && line[0] == '-') return CLI_RED;
	return size > 0 && line[0] == '@' ? CLI_CYAN : CLI_PLAIN;
}

void cli_print_diff(cli *c, const char *text, size_t size)
{
	bool in_header = true;
	while (size > 0) {
		const char *end = memchr(text, '\n', size);
		size_t n = end ? (size_t)(end - text) : size;
		cli_style style = diff_style(text, n, &in_header);
		if (style != CLI_PLAIN) cli_print(c, "%s", cli_on(c, style));
		cli_print_bytes(c, text, n);
		if (style != CLI_PLAIN) cli_print(c, "%s", cli_off(c));
		if (end) cli_write(c, "\n", 1);
		size_t used = n + (end != NULL);
		text += used;
		size -= used;
	}
}

/* ---- notes ---- */

void cli_note(cli *c, const char *format, ...)
{
	char line[4096];
	va_list args;
	va_start(args, format);
	(void)vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	if (c->globals.json) {
		(void)buf_append(&c->notes, line, strlen(line) + 1, NULL); /* past the bound the rest is not told */
		return;
	}
	if (c->globals.quiet) return;
	cli_watch_done(c);
	/* Notes name files: the same care as for names on standard output, and one line each. */
	AUTO_BUF buf text = BUF_INIT(sizeof(line) * 4);
	out_escape(&text, line, strlen(line));
	(void)fprintf(stderr, "cowbox: %.*s\n", (int)text.size, (const char *)text.bytes);
}

/* ---- JSON ---- */

static cb_code json_to_out(void *context, const void *bytes, size_t size, cb_error *err)
{
	(void)err;
	cli_write(context, bytes, size);
	return CB_OK;
}

json_writer *cli_json(cli *c)
{
	if (!c->json_used)
		json_writer_init_sink(&c->json, json_to_out, c, JSON_OPEN | (c->out_is_terminal ? JSON_PRETTY : JSON_COMPACT));
	c->json_used = true;
	return &c->json;
}

void cli_json_time(json_writer *w, const char *name, int64_t ns)
{
	char text[CLI_FORMAT_MAX];
	json_member_str(w, name, cli_format_time(ns, text));
}

cb_code cli_json_content_fits(const char *path, const cb_stat_info *info, cb_error *err)
{
	enum { CONTENT_BYTES = 256 << 20 };
	if (info->size <= CONTENT_BYTES) return CB_OK;
	return cb_err_set(err, CB_TOOBIG, "'%s' has more than %d bytes: too many for JSON", path, CONTENT_BYTES);
}

void cli_json_stat(json_writer *w, const cb_stat_info *info)
{
	char mode[CLI_FORMAT_MAX];
	(void)snprintf(mode, sizeof(mode), "%04o", (unsigned)info->mode);
	json_member_str(w, "type", info->type == CB_DIR ? "folder" : info->type == CB_SYMLINK ? "symlink" : "file");
	json_member_str(w, "mode", mode);
	json_member_uint(w, "size", info->size);
	json_member_uint(w, "links", info->links);
	json_member_uint(w, "ino", info->ino);
	json_member_uint(w, "version", info->version);
	cli_json_time(w, "mtime", info->mtime_ns);
	cli_json_time(w, "ctime", info->ctime_ns);
}

static cb_code add_name(void *context, const char *name, const char *value, size_t size, cb_error *err)
{
	(void)value;
	(void)size;
	return buf_append(context, name, strlen(name) + 1, err);
}

cb_code cli_json_tags(json_writer *w, cb_box *box, const char *path, cb_error *err)
{
	AUTO_BUF buf names = BUF_INIT(CLI_NAMES_BYTES);
	CB_TRY(cb_tag_list(box, path, add_name, &names, err));
	json_member_strings(w, "tags", buf_span(&names));
	return CB_OK;
}

cb_code cli_json_pair(void *writer, const char *name, const char *value, size_t size, cb_error *err)
{
	(void)err;
	json_object_begin(writer);
	json_member_str(writer, "name", name);
	json_member_bytes(writer, "value", value, size);
	json_object_end(writer);
	return CB_OK;
}

cb_code cli_json_meta(json_writer *w, cb_box *box, const char *path, cb_error *err)
{
	json_member_array(w, "metadata");
	CB_TRY(cb_meta_list(box, path, cli_json_pair, w, err));
	json_array_end(w);
	return CB_OK;
}

void cli_json_box(json_writer *w, const cb_box_info *info)
{
	json_member_str(w, "name", info->name);
	json_member_uint(w, "steps", info->seq);
	json_member_uint(w, "files", info->files);
	json_member_uint(w, "bytes", info->bytes);
	cli_json_time(w, "created", info->created_ns);
	if (!info->origin[0]) return;
	json_member_str(w, "origin", info->origin);
	json_member_uint(w, "origin_step", info->origin_seq);
}

void json_notes(cli *c, json_writer *w)
{
	if (c->notes.size == 0) return;
	json_member_strings(w, "notes", buf_span(&c->notes));
	buf_clear(&c->notes);
}
