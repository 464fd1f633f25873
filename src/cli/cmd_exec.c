/* cmd_exec.c: exec: a real program in a box. */
#include "cli/program.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	EXEC_BINDS_MAX = 64,
	EXEC_FAILED = 125,
};

/* ---- options ---- */

typedef struct request {
	cb_sandbox_options sandbox;
	cb_bind binds[EXEC_BINDS_MAX];
	cb_exec_options exec;
	const char *script[3];
	const char **env;
	char checkpoint[CB_NAME_MAX + 1];
} request;

static bool is_there(const char *root, const char *path)
{
	char full[8192];
	int made = snprintf(full, sizeof(full), "%s%s", root ? root : "", path);
	return made > 0 && (size_t)made < sizeof(full) && access(full, X_OK) == 0;
}

static cb_code read_argv(cli *c, const cli_call *call, request *q, cb_error *err)
{
	const char *const *words = NULL;
	const char *script = cli_text(call, "sh");
	size_t count = cli_operand_list(call, "ARGV", &words);
	if (script && count > 0) return cli_usage(c, err, "a script (--sh) and a program: one of them");
	if (!script && count == 0) return cli_usage(c, err, "no program: it stands after '--', or --sh has a script");
	q->exec.argv = words;
	q->exec.argc = count;
	if (!script) return CB_OK;
	q->script[0] = is_there(q->sandbox.root, "/bin/bash") || is_there(q->sandbox.root, "/usr/bin/bash") ? "bash" : "sh";
	q->script[1] = "-c";
	q->script[2] = script;
	q->exec.argv = q->script;
	q->exec.argc = ARRAY_LEN(q->script);
	return CB_OK;
}

/* SRC[:DST] */
static cb_code read_binds(cli *c, const cli_call *call, const char *option, bool writable, request *q, cb_error *err)
{
	const char *const *texts = NULL;
	size_t count = cli_list(call, option, &texts);
	for (size_t i = 0; i < count; i++) {
		if (q->sandbox.bind_count == EXEC_BINDS_MAX) return cb_err_set(err, CB_LIMIT, "more than %d binds", EXEC_BINDS_MAX);
		char *text = mem_strdup(texts[i]);
		if (!text) return cb_err_nomem(err);
		cli_keep(c, text);
		char *colon = strstr(text, ":/");
		if (colon) *colon = 0;
		if (!*text) return cli_usage(c, err, "--%s needs SRC[:DST], with DST an absolute path", option);
		q->binds[q->sandbox.bind_count++] = (cb_bind){text, colon ? colon + 1 : NULL, writable};
	}
	return CB_OK;
}

static cb_code read_cpus(cli *c, const cli_call *call, request *q, cb_error *err)
{
	const char *text = cli_text(call, "cpus");
	char *end = NULL;
	if (!text) return CB_OK;
	double cpus = strtod(text, &end);
	if (!*text || *end || !(cpus >= 0.001) || cpus > 65536)
		return cli_usage(c, err, "--cpus: '%s' is no number of processors", text);
	q->sandbox.cpus_milli = (uint32_t)(cpus * 1000 + 0.5);
	return CB_OK;
}

static cb_code read_sandbox(cli *c, const cli_call *call, request *q, cb_error *err)
{
	const char *tier = cli_text(call, "tier"), *net = cli_text(call, "net"), *path = cli_text(call, "path");
	cb_sandbox_options *s = &q->sandbox;
	s->binds = q->binds;
	s->root = cli_text(call, "root");
	s->discard = cli_flag(call, "discard");
	s->memory_bytes = cli_number(call, "mem", 0);
	s->disk_bytes = cli_number(call, "disk", 0);
	s->files = cli_number(call, "files", 0);
	uint64_t pids = cli_number(call, "pids", 0);
	if (pids > UINT32_MAX) return cli_usage(c, err, "--pids: %llu is too many", (unsigned long long)pids);
	s->pids = (uint32_t)pids;
	if (net && strcmp(net, "host") == 0) s->net = CB_NET_HOST;
	if (tier && strcmp(tier, "overlay") == 0) s->tier = CB_TIER_OVERLAY;
	if (tier && strcmp(tier, "folder") == 0) s->tier = CB_TIER_FOLDER;
	if (cli_flag(call, "weak") && tier) return cli_usage(c, err, "--weak and --tier: one of them");
	if (cli_flag(call, "weak")) s->tier = CB_TIER_WEAK;
	if (path && *path != '/') CB_TRY(cli_path_join(c, "/work", path, &path, err));
	s->path = path;
	CB_TRY(read_cpus(c, call, q, err));
	CB_TRY(read_binds(c, call, "bind-ro", false, q, err));
	return read_binds(c, call, "bind-rw", true, q, err);
}

/* NAME=VALUE, or NAME alone: the value it has here. */
static cb_code read_env(cli *c, const cli_call *call, request *q, cb_error *err)
{
	const char *const *texts = NULL;
	size_t count = cli_list(call, "env", &texts);
	q->env = mem_alloc((count + 2) * sizeof(*q->env));
	if (!q->env) return cb_err_nomem(err);
	cli_keep(c, (void *)q->env);
	q->exec.env = q->env;
	const char *terminal = getenv("TERM");
	char *made = NULL;
	if (q->exec.tty && terminal && *terminal && asprintf(&made, "TERM=%s", terminal) >= 0) {
		cli_keep(c, made);
		q->env[q->exec.env_count++] = made;
	}
	for (size_t i = 0; i < count; i++) {
		const char *value = strchr(texts[i], '=') ? NULL : getenv(texts[i]);
		if (!*texts[i] || *texts[i] == '=') return cli_usage(c, err, "--env needs NAME or NAME=VALUE");
		if (!strchr(texts[i], '=') && !value) return cb_err_set(err, CB_INVALID, "--env: '%s' is not set here", texts[i]);
		if (value && asprintf(&made, "%s=%s", texts[i], value) < 0) return cb_err_nomem(err);
		if (value) cli_keep(c, made);
		q->env[q->exec.env_count++] = value ? made : texts[i];
	}
	return CB_OK;
}

/* Standard input, unless it is a terminal somebody types other things at. */
static int input_of(const cli_call *call)
{
	if (isatty(STDIN_FILENO) == 1 && !cli_flag(call, "tty") && !cli_flag(call, "interactive")) return CB_STDIN_NONE;
	return CB_STDIN_CALLER;
}

static cb_code read_exec(cli *c, const cli_call *call, program *p, request *q, cb_error *err)
{
	const char *excess = cli_text(call, "on-excess"), *on_fail = cli_text(call, "on-fail"), *cwd = cli_text(call, "cwd");
	cb_exec_options *e = &q->exec;
	p->tty = e->tty = cli_flag(call, "tty");
	if (e->tty && cli_is_json(c)) return cli_usage(c, err, "--tty and --json: one of them");
	if (cwd && *cwd != '/') CB_TRY(cli_path_join(c, "/work", cwd, &cwd, err));
	p->cwd = e->cwd = cwd;
	e->stdin_fd = input_of(call);
	e->timeout_ns = (int64_t)cli_number(call, "timeout", 0);
	if (cli_given(call, "timeout") && e->timeout_ns == 0) return cli_usage(c, err, "--timeout: more than 0");
	e->reject_output = excess && strcmp(excess, "reject") == 0;
	e->undo_on_fail = on_fail && strcmp(on_fail, "undo") == 0;
	if (e->undo_on_fail && q->sandbox.discard)
		return cli_usage(c, err, "--discard keeps nothing that --on-fail could take back");
	p->limited = cli_given(call, "output-limit");
	p->limit_bytes = cli_number(call, "output-limit", 0);
	if (excess && !p->limited) return cli_usage(c, err, "--on-excess needs --output-limit");
	e->output_bytes = p->limited && p->limit_bytes == 0 ? CB_OUTPUT_NONE : p->limit_bytes;
	p->streaming = !cli_is_json(c);
	e->stream = p->streaming ? program_stream : NULL;
	e->note = program_note;
	e->context = p;
	program_window(&e->rows, &e->columns);
	return read_env(c, call, q, err);
}

/* ---- checkpoints ---- */

typedef struct automatic {
	uint64_t seq;
	char *name;
} automatic;

/* The one that serves the step, called auto-STEP; or auto-STEP-2, where another step has that name. */
static cb_code find_automatic(void *context, const cb_checkpoint *p, cb_error *err)
{
	(void)err;
	automatic *a = context;
	char name[CB_NAME_MAX + 1];
	(void)snprintf(name, sizeof(name), "auto-%llu", (unsigned long long)a->seq);
	if (p->seq == a->seq && (p->automatic || strcmp(p->name, name) == 0)) memcpy(a->name, p->name, sizeof(p->name));
	return CB_OK;
}

/* One without a name is called as those of checkpoint.every are. */
static cb_code save_checkpoint(cli *c, const cli_call *call, cb_box *box, request *q, cb_error *err)
{
	const char *always = NULL, *name = cli_text(call, "checkpoint");
	cb_box_info info = CB_INIT(cb_box_info);
	CB_TRY(cli_config_get(c, box, "checkpoint.exec", &always, err));
	if (name) q->exec.checkpoint = name;
	if (name || (!cli_flag(call, "checkpoint") && strcmp(always, "yes") != 0)) return CB_OK;
	CB_TRY(cb_box_info_get(box, &info, err));
	CB_TRY(cb_checkpoint_save(box, NULL, info.seq, false, err));
	return cb_checkpoint_list(box, find_automatic, &(automatic){info.seq, q->checkpoint}, err);
}

/* ---- */

static cb_code dry_run(cli *c, cb_box *box, const cb_sandbox_options *options, cb_error *err)
{
	AUTO_FREE char *text = NULL;
	CB_TRY(cb_sandbox_plan(box, options, cli_is_json(c), &text, err));
	if (!cli_is_json(c)) {
		for (const char *at = text; *at;) {
			size_t size = strcspn(at, "\n");
			cli_print_bytes(c, at, size);
			cli_print(c, "\n");
			at += size + (at[size] == '\n');
		}
		return CB_OK;
	}
	AUTO_JSON json_doc *doc = NULL;
	CB_TRY(json_parse(span_str(text), NULL, &doc, err));
	json_writer *w = cli_json(c);
	json_object_begin(w);
	json_key(w, "plan");
	json_write_value(w, json_root(doc));
	json_object_end(w);
	return CB_OK;
}

static cb_code run_started(program *p, const request *q, const char *box, cb_error *err)
{
	const cb_exec_result *result = NULL;
	CB_TRY(program_run(p, err));
	cb_code code = cb_exec_wait(p->exec, &result, err);
	if (!result) return code;
	const char *checkpoint = q->exec.checkpoint ? q->exec.checkpoint : q->checkpoint[0] ? q->checkpoint : NULL;
	return program_tell(p, &(program_said){box, checkpoint, result}, code, err);
}

static cb_code run_program(program *p, cb_box *box, const request *q, cb_error *err)
{
	cb_box_info info = CB_INIT(cb_box_info);
	cb_sandbox *sandbox = NULL;
	CB_TRY(cb_box_info_get(box, &info, err));
	CB_TRY(cb_sandbox_open(box, &q->sandbox, &sandbox, err));
	cb_code code = program_begin(p, err);
	if (code == CB_OK) code = cb_exec_start(sandbox, &q->exec, &p->exec, err);
	if (code == CB_OK) code = run_started(p, q, info.name, err);
	program_end(p);
	cb_exec_close(p->exec);
	cb_sandbox_close(sandbox);
	return code;
}

/* --discard and no program: what programs left before, and what cannot be captured for want of room, is not wanted any more. */
static cb_code drop_left(cli *c, const cli_call *call, cb_error *err)
{
	cb_box *box = NULL;
	cb_store *store = NULL;
	cb_box_info info = CB_INIT(cb_box_info);
	uint64_t dropped = 0;
	cli_recover_untold(c);
	CB_TRY(cli_open_writable(c, cli_operand_text(call, "BOX"), CLI_BOX, &box, NULL, err));
	CB_TRY(cb_box_info_get(box, &info, err));
	CB_TRY(cli_store(c, &store, err));
	CB_TRY(cb_exec_drop(store, info.name, &dropped, err));
	if (!cli_is_json(c)) {
		cli_print(c, "dropped what %llu program%s left in box '%s'\n", (unsigned long long)dropped, dropped == 1 ? "" : "s",
		          info.name);
		return CB_OK;
	}
	json_writer *w = cli_json(c);
	json_object_begin(w);
	json_member_str(w, "box", info.name);
	json_member_uint(w, "dropped", dropped);
	json_object_end(w);
	return CB_OK;
}

static cb_code run_exec(cli *c, const cli_call *call, cb_error *err)
{
	const char *const *words = NULL;
	if (cli_flag(call, "discard") && !cli_flag(call, "dry-run") && !cli_text(call, "sh") &&
	    cli_operand_list(call, "ARGV", &words) == 0)
		return drop_left(c, call, err);
	program p = {.c = c, .signals = -1};
	request q = {.sandbox = CB_INIT(cb_sandbox_options), .exec = CB_INIT(cb_exec_options)};
	cb_box *box = NULL;
	CB_TRY(read_sandbox(c, call, &q, err));
	CB_TRY(read_exec(c, call, &p, &q, err));
	bool dry = cli_flag(call, "dry-run");
	if (!dry) CB_TRY(read_argv(c, call, &q, err));
	if (!dry) p.name = q.exec.argv[0];
	CB_TRY(cli_open_writable(c, cli_operand_text(call, "BOX"), CLI_BOX, &box, NULL, err));
	if (dry) return dry_run(c, box, &q.sandbox, err);
	if (p.tty && isatty(STDIN_FILENO) != 1)
		cli_note(c, "standard input is no terminal: the program has one, but nobody sees it");
	CB_TRY(save_checkpoint(c, call, box, &q, err));
	cb_code code = run_program(&p, box, &q, err);
	if (code == CB_UNSUPPORTED) cli_hint(c, "'cowbox doctor' says what is missing");
	if (code == CB_NOSPACE && p.exec)
		cli_hint(c, "make room and run any command on the box, which captures it; or 'cowbox exec BOX --discard' drops it");
	return code;
}

static const cli_option exec_options[] = {
	{CLI_TEXT, "sh", 0, "SCRIPT", "run a script in bash (sh where there is none) instead of a program"},
	{CLI_TEXT, "cwd", 'C', "PATH", "the folder it starts in (default: /work)"},
	{CLI_LIST, "env", 'e', "NAME[=VALUE]", "set a variable; NAME alone passes the value it has here"},
	{CLI_FLAG, "interactive", 'i', NULL, "pass on what is typed, though standard input is a terminal"},
	{CLI_FLAG, "tty", 't', NULL, "give it a terminal of its own, joined to ours"},
	{CLI_DURATION, "timeout", 0, "TIME",
         "end it after that time (seconds, or 500ms, 5m, 2h): SIGTERM, two seconds later SIGKILL"},
	{CLI_SIZE, "output-limit", 0, "SIZE", "show and keep so much of each stream; 0: nothing (default with --json: 1M)"},
	{CLI_CHOICE, "on-excess", 0, "cut|reject", "more output than that is cut (the default), or ends it and drops its changes"},
	{CLI_SIZE, "mem", 0, "SIZE", "memory of all its processes together"},
	{CLI_TEXT, "cpus", 0, "N", "processors it may use: 2, 0.5"},
	{CLI_COUNT, "pids", 0, "N", "processes and threads (default: 4096)"},
	{CLI_SIZE, "disk", 0, "SIZE", "what it may write to the box"},
	{CLI_COUNT, "files", 0, "N", "files it may make in the box"},
	{CLI_LIST, "bind-ro", 0, "SRC[:DST]", "a file or folder of the host, read-only, at the same path or at DST"},
	{CLI_LIST, "bind-rw", 0, "SRC[:DST]", "the same, writable: what is written there goes to the host"},
	{CLI_TEXT, "root", 0, "FOLDER", "take the system (/usr, /etc, ...) from this folder instead of the host"},
	{CLI_CHOICE, "net", 0, "none|host", "the network: none (the default), or the host's"},
	{CLI_FLAG, "checkpoint", 0, "NAME", "save a checkpoint before; without a name auto-STEP"},
	{CLI_CHOICE, "on-fail", 0, "undo|keep", "what becomes of the changes of a program that fails (default: keep)"},
	{CLI_FLAG, "discard", 0, NULL, "throw the changes away; --json still lists them"},
	{CLI_TEXT, "path", 0, "PATH", "show it only this part of the box"},
	{CLI_FLAG, "dry-run", 'n', NULL, "say what would be set up, run nothing"},
	{CLI_CHOICE, "tier", 0, "auto|overlay|folder", "how the box is laid out for it (default: the first that works)"},
	{CLI_FLAG, "weak", 0, NULL, "without namespaces, where there are none: SECURITY.md says what that does not stop"},
	{0},
};

const cli_command cmd_exec = {
	.name = "exec",
	.group = "Programs",
	.summary = "run a program in a box, isolated from the host",
	.text = "The box is '/' to the program, with the host's /usr read-only, no network and nothing else of the host: no files, "
		"environment or processes. What it changes becomes one step, with its arguments, status and the first 64 KiB of "
		"its "
		"output; values of the environment are never kept. Everything it started ends with it.\n\n"
		"Output comes as it is written, standard input is passed on. Ctrl-C goes to the program; a second one kills it. "
		"The changes made until then are kept.\n\n"
		"When the box was changed meanwhile, both are merged; what cannot be merged is kept as a fork, which the error "
		"names. So is what would bring the box beyond its quota. What cannot be kept at all (special files, files too "
		"large) is "
		"left out and said.\n\n"
		"When the disk has no room for the changes they wait in the store, and the next command on the box captures them "
		"once "
		"there is enough; '--discard' without a program drops what waits.\n\n"
		"The exit status is the program's, 128 and the number of the signal that ended it, 124 when its time was over, "
		"126 when it cannot be executed, 127 when it is not there, and 125 for every error of cowbox itself.",
	.operands = (const cli_operand[]){{CLI_BOX, "BOX", true, false, "the box"},
                                          {CLI_ARGV, "ARGV", true, true, "the program and its arguments"},
                                          {0}},
	.options = exec_options,
	.examples = (const char *const[]){"cowbox exec demo -- ls -l /work", "cowbox exec demo --sh 'wc -l *.txt > count'",
                                          "echo 'hello' | cowbox exec demo -- tee copy.txt",
                                          "cowbox exec demo --timeout 30s --checkpoint --on-fail undo -- sh -c 'echo new > a.txt'",
                                          "cowbox exec demo --dry-run", NULL},
	.json = "box step          the box and the step it made; 0 with --discard\n"
		"stdout stderr     what it wrote, up to --output-limit each; stdout_base64, stderr_base64 too when it is not "
		"UTF-8\n"
		"exit_code signal  as a shell says it; the signal that ended it or 0\n"
		"timed_out reason  whether its time was over; what bound ended it\n"
		"truncated         whether output was cut; stdout_bytes, stderr_bytes: what was written in all\n"
		"duration_ms usage    how long it ran; cpu_ms and peak_memory (bytes, of the largest process)\n"
		"tier              how it was isolated: overlay, folder, weak\n"
		"changed           for each: path, change (added, modified, deleted, renamed, attributes), size, old_path\n"
		"change_count left_out    how many; files and folders that cannot be kept, of which notes says which and why\n"
		"checkpoint undo_step merged fork    when there was one; fork: where the changes are that did not come into the "
		"box "
		"(a conflict, a quota)\n"
		"notes             what was left out or changed, and why a program did not start or was ended, when there is "
		"something\n"
		"dropped           with --discard and no program: of how many programs what waited was dropped\n"
		"plan              with --dry-run: weak, namespaces, uid, gid, hostname, limits (pids, open_files, memory_bytes, "
		"cpus_milli, "
		"disk_bytes, file_bytes, files), ops in their order (op, to, from, target, read_only, flags, mode, size_bytes, of "
		"/dev shm_bytes)\n"
		"When changes conflict the error object has conflicts; for each: path, reason.",
	.failure = EXEC_FAILED,
	.run = run_exec,
};
