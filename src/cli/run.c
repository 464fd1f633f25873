/*
 * run.c: from the words on the command line to an exit status: global options, the command, its options, run, the error's line. Exit
 * statuses come from CB_ERROR_TABLE; docs/exit-codes.md is printed from it.
 */
#include "cli/core.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"

/* ---- what commands call ---- */

void cli_hint(cli *c, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	(void)vsnprintf(c->hint, sizeof(c->hint), format, args);
	va_end(args);
}

cb_code cli_usage(cli *c, cb_error *err, const char *format, ...)
{
	char text[CB_ERROR_MESSAGE_MAX];
	va_list args;
	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	cli_hint(c, "see 'cowbox help %s%s%s'", c->parent_name ? c->parent_name : "", c->parent_name ? " " : "",
	         c->command ? c->command->name : "");
	return cb_err_set(err, CB_INVALID, "%s", text);
}

void cli_conflict(cli *c, const char *path, const char *reason, bool contradicts)
{
	if (c->globals.json) { /* past the bound the rest is not listed */
		size_t size = c->conflicts.size;
		cb_code code = buf_append(&c->conflicts, path, strlen(path) + 1, NULL);
		if (code == CB_OK) code = buf_append(&c->conflicts, reason, strlen(reason) + 1, NULL);
		if (code == CB_OK) code = buf_append_byte(&c->conflicts, contradicts, NULL);
		if (code != CB_OK) c->conflicts.size = size;
		return;
	}
	cli_print(c, "%sconflict%s: ", cli_on(c, CLI_RED), cli_off(c));
	cli_print_path(c, path);
	cli_print(c, ": %s\n", reason);
}

cb_code cli_conflict_visit(void *c, const cb_conflict *conflict, cb_error *err)
{
	(void)err;
	cli_conflict(c, conflict->path, conflict->reason, conflict->contradicts);
	return CB_OK;
}

void cli_hint_fork(cli *c, const char *box, const char *fork)
{
	cli_hint(c,
	         "'cowbox diff %s %s' shows the difference, 'cowbox merge %s --into %s --prefer %s' brings it into the box, where "
	         "both "
	         "changed the same as it is in the fork ('--prefer %s': as in the box)",
	         box, fork, fork, box, fork, box);
}

void cli_status(cli *c, int status)
{
	c->status = status;
}

void cli_whole(cli *c)
{
	c->whole = true;
}

int64_t cli_now(const cli *c)
{
	return c->now_ns;
}

/* Up to more than max bytes, or to the end: then *out_end. */
static cb_code read_some(int fd, size_t max, buf *out, bool *out_end, cb_error *err)
{
	*out_end = false;
	while (out->size <= max) {
		uint8_t *to = NULL;
		CB_TRY(buf_reserve(out, 64 << 10, err));
		CB_TRY(buf_extend(out, 64 << 10, &to, err));
		ssize_t n = read(fd, to, 64 << 10);
		out->size -= (64 << 10) - (n > 0 ? (size_t)n : 0);
		if (n < 0 && errno == EINTR) continue;
		if (n < 0) return cb_err_errno(err, errno, "reading");
		*out_end = n == 0;
		if (*out_end) return CB_OK;
	}
	return CB_OK;
}

static cb_code read_all(int fd, size_t max, buf *out, cb_error *err)
{
	bool end = false;
	*out = BUF_INIT(max + (64 << 10));
	CB_TRY(read_some(fd, max, out, &end, err));
	return end ? CB_OK : cb_err_set(err, CB_TOOBIG, "the input has more than %zu bytes", max);
}

cb_code cli_stdin(cli *c, size_t max, buf *out, cb_error *err)
{
	(void)c;
	cb_code code = read_all(STDIN_FILENO, max, out, err);
	return code == CB_OK ? CB_OK : cb_err_wrap(err, code, "standard input");
}

static cb_code file_open(const char *path, int *out, cb_error *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT) return cb_err_set(err, CB_NOTFOUND, "no file '%s' on the host", path);
	if (fd < 0) return cb_err_errno(err, errno, "opening '%s'", path);
	*out = fd;
	return CB_OK;
}

cb_code cli_host_file(cli *c, const char *path, size_t max, buf *out, cb_error *err)
{
	AUTO_FD int fd = -1;
	if (strcmp(path, "-") == 0) return cli_stdin(c, max, out, err);
	CB_TRY(file_open(path, &fd, err));
	cb_code code = read_all(fd, max, out, err);
	return code == CB_OK ? CB_OK : cb_err_wrap(err, code, "'%s'", path);
}

static cb_code input_next(cli_input *in, cb_error *err)
{
	bool end = false;
	buf_clear(&in->piece);
	cb_code code = read_some(in->fd, CLI_PIECE_BYTES, &in->piece, &end, err);
	in->more = !end;
	return code == CB_OK ? CB_OK : cb_err_wrap(err, code, "%s", in->fd == STDIN_FILENO ? "standard input" : in->path);
}

cb_code cli_input_open(const char *path, cli_input *out, cb_error *err)
{
	*out = (cli_input){.path = path, .fd = STDIN_FILENO, .piece = BUF_INIT(CLI_PIECE_BYTES + (64 << 10))};
	if (strcmp(path, "-") != 0) CB_TRY(file_open(path, &out->fd, err));
	return input_next(out, err);
}

cb_code cli_input_write(cli_input *in, cb_box *box, const char *path, const cb_write_options *options, cb_error *err)
{
	cb_write_options rest = CB_WITH(cb_write_options, .append = true);
	CB_TRY(cb_write_file(box, path, in->piece.bytes ? (const void *)in->piece.bytes : "", in->piece.size, options, err));
	while (in->more) {
		CB_TRY(input_next(in, err));
		CB_TRY(cb_write_file(box, path, in->piece.bytes, in->piece.size, &rest, err));
	}
	return CB_OK;
}

void cli_input_done(cli_input *in)
{
	if (in->fd > STDERR_FILENO) (void)close(in->fd);
	buf_done(&in->piece);
}

/* ---- errors ---- */

static int exit_status(const cli *c, cb_code code)
{
	return c->command && c->command->failure ? c->command->failure : cb_code_exit_status(code);
}

static void conflicts_json(const cli *c, json_writer *w)
{
	if (c->conflicts.size == 0) return;
	json_member_array(w, "conflicts");
	for (const char *at = (const char *)c->conflicts.bytes, *end = at + c->conflicts.size; at < end;) {
		const char *reason = at + strlen(at) + 1, *contradicts = reason + strlen(reason) + 1;
		json_object_begin(w);
		json_member_str(w, "path", at);
		json_member_str(w, "reason", reason);
		if (*contradicts) json_member_bool(w, "contradicts", true);
		json_object_end(w);
		at = contradicts + 1;
	}
	json_array_end(w);
}

static void error_json(cli *c, cb_code code, const char *message)
{
	AUTO_BUF buf text = BUF_INIT((size_t)CLI_NOTES_BYTES * 8);
	json_writer w;
	json_writer_init(&w, &text, JSON_COMPACT);
	json_object_begin(&w);
	json_member_object(&w, "error");
	json_member_str(&w, "code", cb_code_name(code));
	json_member_int(&w, "exit", exit_status(c, code));
	json_member_str(&w, "message", message);
	if (c->hint[0]) json_member_str(&w, "hint", c->hint);
	conflicts_json(c, &w);
	json_notes(c, &w);
	json_object_end(&w);
	json_object_end(&w);
	if (json_writer_end(&w, NULL) == CB_OK) (void)fprintf(stderr, "%.*s\n", (int)text.size, (const char *)text.bytes);
}

static void error_print(cli *c, cb_code code, const cb_error *err)
{
	const char *message = err->code == code && err->message[0] ? err->message : cb_code_text(code);
	cli_watch_done(c);
	if (c->globals.json) {
		error_json(c, code, message);
		return;
	}
	AUTO_BUF buf line = BUF_INIT(16 << 10);
	bool color = c->err_is_terminal && c->use_color;
	/* One line whatever the message holds: names in it are an agent's. */
	(void)buf_append_str(&line, color ? "\033[31mcowbox:\033[0m " : "cowbox: ", NULL);
	out_escape(&line, message, strlen(message));
	if (c->hint[0]) (void)buf_append_str(&line, "; ", NULL);
	out_escape(&line, c->hint, strlen(c->hint));
	(void)fprintf(stderr, "%.*s\n", (int)line.size, (const char *)line.bytes);
}

/* ---- running ---- */

static cb_code run_call(cli *c, const cli_command *command, cli_words rest, cb_error *err)
{
	cli_call call = {0};
	cb_code code = parse_call(command, rest, c->now_ns, &call, err);
	if (code == CB_INVALID && !c->hint[0])
		cli_hint(c, "see 'cowbox help %s%s%s'", c->parent_name ? c->parent_name : "", c->parent_name ? " " : "",
		         command->name);
	if (code == CB_OK && command->flags & CLI_PAGED) pager_start(c);
	if (code == CB_OK) code = command->run(c, &call, err);
	cb_box_info info = CB_INIT(cb_box_info);
	if (code == CB_QUOTA && !c->hint[0] && c->changing && cb_box_info_get(c->changing, &info, NULL) == CB_OK)
		cli_hint(c, "'cowbox quota %s' shows and sets the bounds", info.name);
	call_done(&call);
	return code;
}

static cb_code run_words(cli *c, cli_words words, cb_error *err)
{
	const cli_command *command = NULL, *parent = NULL;
	cli_words rest = {0};
	if (c->globals.version && words.count == 0) {
		if (c->globals.json) {
			json_writer *w = cli_json(c);
			json_object_begin(w);
			json_member_str(w, "version", cb_version());
			json_object_end(w);
		} else {
			cli_print(c, "cowbox %s\n", cb_version());
		}
		return CB_OK;
	}
	if (words.count == 0 && c->globals.json && !c->globals.help) {
		cli_hint(c, "'cowbox --json help' lists them");
		return cb_err_set(err, CB_INVALID, "a command is needed");
	}
	if (words.count == 0) {
		help_summary(c);
		if (!c->globals.help) c->status = 2;
		return CB_OK;
	}
	if (c->globals.help && words.count == 1 && cli_command_find(words.items[0]) && cli_command_find(words.items[0])->subs) {
		help_command(c, cli_command_find(words.items[0]), NULL);
		return CB_OK;
	}
	CB_TRY(parse_command(words, &command, &parent, &rest, err));
	c->command = command;
	c->parent_name = parent ? parent->name : NULL;
	if (c->globals.help) {
		help_command(c, command, parent);
		return CB_OK;
	}
	return run_call(c, command, rest, err);
}

/* Completion must see the words as they were typed: no global option is taken out. */
static bool is_completion(int argc, char **argv)
{
	return argc >= 2 && strcmp(argv[1], "__complete") == 0;
}

/* A closed standard stream would give its number to the store's files, and what is printed would go there. In its place stands one that
 * cannot be read, or written: both fail, as they should. Errors alone go nowhere. */
static void streams_open(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", fd == STDOUT_FILENO ? O_RDONLY : O_WRONLY) != fd)
			_exit(cb_code_exit_status(CB_IO));
}

/* Nobody reads our output any more: a write failed for that, and it is so. */
static bool is_unread(cb_code code, const cb_error *err)
{
	struct pollfd out[] = {{STDOUT_FILENO, 0, 0}, {STDERR_FILENO, 0, 0}};
	if (code != CB_IO || err->os_error != EPIPE || poll(out, ARRAY_LEN(out), 0) <= 0) return false;
	return (out[0].revents | out[1].revents) & POLLERR;
}

/* As cat and tar end then, whichever way a command writes: without a word. */
static int end_unread(void)
{
	(void)signal(SIGPIPE, SIG_DFL);
	(void)raise(SIGPIPE);
	return 128 + SIGPIPE; /* it is held back */
}

int cli_main(int argc, char **argv)
{
	cli c = {.now_ns = clock_now(&clock_system)};
	cb_error err = {0};
	cli_words words = {(const char *const *)(argv + 1), argc > 0 ? (size_t)argc - 1 : 0}, rest = {0};
	streams_open();
	(void)signal(SIGPIPE, SIG_DFL);
	(void)signal(SIGXFSZ, SIG_IGN); /* a write beyond RLIMIT_FSIZE is an error like any other, with a line that says so */
	cb_code code = CB_OK;
	if (is_completion(argc, argv)) {
		out_init(&c);
		code = complete_words(&c, (cli_words){words.items + 1, words.count - 1}, &err);
		c.hint[0] = 0;
		if (code != CB_OK) code = CB_NOTHING; /* no candidates: the shell goes on without */
	} else {
		code = parse_globals(words, &c.globals, &rest, &err);
		out_init(&c);
		if (code == CB_OK) code = run_words(&c, rest, &err);
	}
	cb_error out_err = {0};
	cb_code out_code = code == CB_OK || c.whole || !c.json_used ? out_end(&c, &out_err) : CB_OK;
	if (code == CB_OK && out_code != CB_OK) {
		code = out_code;
		err = out_err;
	}
	bool unread = is_unread(code, &err);
	choose_close(&c);
	pager_end();
	if (code != CB_OK && !unread && !is_completion(argc, argv)) error_print(&c, code, &err);
	buf_done(&c.out);
	buf_done(&c.notes);
	buf_done(&c.conflicts);
	buf_done(&c.config);
	free((void *)(uintptr_t)rest.items);
	if (unread) return end_unread();
	return code == CB_OK ? c.status : exit_status(&c, code);
}
