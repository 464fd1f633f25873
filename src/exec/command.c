/* command.c: what a program is started with: argv, environment, folder; and what of it the step remembers. */
#include "exec/exec.h"

#include <string.h>

#include "base/json.h"

/* Nothing of the caller's environment is passed on. Caches are kept with the work and never captured, so that they do not grow the
 * history. */
static const char *const environment[] = {
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	"HOME=/home/agent",
	"USER=agent",
	"LOGNAME=agent",
	"SHELL=/bin/bash",
	"LANG=C.UTF-8",
	"TMPDIR=/tmp",
	"XDG_CACHE_HOME=/var/cache/agent",
	"npm_config_cache=/var/cache/agent/npm",
	"PIP_CACHE_DIR=/var/cache/agent/pip",
	"CARGO_HOME=/var/cache/agent/cargo",
	"GOMODCACHE=/var/cache/agent/go-mod",
};

static size_t name_size(const char *assignment)
{
	return strcspn(assignment, "=");
}

static bool same_name(const char *a, const char *b)
{
	size_t size = name_size(a);
	return size == name_size(b) && memcmp(a, b, size) == 0;
}

/* Is it said again after this place? The last one counts. */
static bool is_given(const cb_exec_options *options, const char *assignment, size_t from)
{
	for (size_t i = from; i < options->env_count; i++)
		if (same_name(options->env[i], assignment)) return true;
	return false;
}

typedef struct strings {
	buf bytes;
	size_t count;
} strings;

static cb_code add(strings *list, const char *text, cb_error *err)
{
	CB_TRY(buf_append(&list->bytes, text, strlen(text) + 1, err));
	list->count++;
	return CB_OK;
}

static wire_strings strings_wire(const strings *list)
{
	return (wire_strings){(const char *)list->bytes.bytes, list->bytes.size, list->count};
}

static cb_code environment_build(const cb_exec_options *options, strings *out, cb_error *err)
{
	for (size_t i = 0; i < ARRAY_LEN(environment); i++)
		if (!is_given(options, environment[i], 0)) CB_TRY(add(out, environment[i], err));
	if (options->tty && !is_given(options, "TERM=", 0)) CB_TRY(add(out, "TERM=xterm-256color", err));
	for (size_t i = 0; i < options->env_count; i++) {
		const char *text = options->env[i];
		size_t size = name_size(text);
		if (size == 0 || text[size] != '=') return cb_err_set(err, CB_INVALID, "the environment needs NAME=VALUE");
		if (!is_given(options, text, i + 1)) CB_TRY(add(out, text, err));
	}
	return CB_OK;
}

static cb_code too_long(cb_code code, cb_error *err)
{
	if (code != CB_LIMIT) return code;
	return cb_err_set(err, CB_TOOBIG, "arguments and environment have more than %d bytes", LIMIT_EXEC_ARGS_BYTES);
}

static cb_code run_body(const cb_exec_options *options, const char *cwd, strings *argv, strings *env, buf *out, cb_error *err)
{
	for (size_t i = 0; i < options->argc; i++) CB_TRY(add(argv, options->argv[i], err));
	CB_TRY(environment_build(options, env, err));
	wire_run run = {.argv = strings_wire(argv),
	                .env = strings_wire(env),
	                .cwd = cwd,
	                .tty = options->tty,
	                .rows = options->rows,
	                .columns = options->columns};
	return wire_run_put(out, &run, err);
}

cb_code command_run_body(const cb_exec_options *options, const char *cwd, buf *out, cb_error *err)
{
	strings argv = {.bytes = BUF_INIT(LIMIT_EXEC_ARGS_BYTES)}, env = {.bytes = BUF_INIT(LIMIT_EXEC_ARGS_BYTES)};
	cb_code code = too_long(run_body(options, cwd, &argv, &env, out, err), err);
	buf_done(&argv.bytes);
	buf_done(&env.bytes);
	return code;
}

/* ---- what the step remembers ---- */

static void argv_json(json_writer *w, const cb_exec_options *options)
{
	size_t room = EXEC_RECORD_ARGS_BYTES, i = 0;
	json_member_array(w, "argv");
	for (; i < options->argc && room > 0; i++) {
		size_t size = strlen(options->argv[i]), take = size < room ? size : room;
		json_bytes(w, options->argv[i], take);
		room -= take;
		if (take < size) break;
	}
	json_array_end(w);
	if (i < options->argc) json_member_bool(w, "argv_cut", true);
}

cb_code command_params(const cb_exec_options *options, const char *cwd, char **out, cb_error *err)
{
	AUTO_BUF buf text = BUF_INIT(LIMIT_STEP_FIELD_BYTES);
	json_writer w;
	json_writer_init(&w, &text, JSON_COMPACT);
	json_object_begin(&w);
	argv_json(&w, options);
	json_member_str(&w, "cwd", cwd);
	json_member_array(&w, "env");
	for (size_t i = 0; i < options->env_count && text.size < LIMIT_STEP_FIELD_BYTES / 2; i++)
		if (!is_given(options, options->env[i], i + 1)) json_bytes(&w, options->env[i], name_size(options->env[i]));
	json_array_end(&w);
	if (options->tty) json_member_bool(&w, "tty", true);
	json_object_end(&w);
	CB_TRY(json_writer_end(&w, err));
	return buf_take(&text, out, NULL, err);
}
