/*
 * exec.c: runs a program in a box, shows its output as it comes, what it changed, and takes the change back when it failed.
 *
 *   exec STORE BOX PROGRAM [ARGUMENT ...]      the box is made when it is not there
 */
#include <cowbox/cowbox.h>

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

static bool show_output(void *context, cb_stream from, const void *bytes, size_t size)
{
	(void)context;
	/* false would end the program. */
	return fwrite(bytes, 1, size, from == CB_STDERR ? stderr : stdout) == size;
}

static void show_note(void *context, const char *path, const char *what)
{
	(void)context;
	fprintf(stderr, "note: %s: %s\n", path, what);
}

static cb_code show_change(void *context, const cb_change *change, cb_error *err)
{
	(void)context;
	(void)err;
	printf("  %c %s\n", (char)change->kind, change->path);
	return CB_OK;
}

static cb_code run(cb_sandbox *sandbox, const char *const *argv, size_t argc, int *out_status, cb_error *err)
{
	cb_exec_options options =
		CB_WITH(cb_exec_options, .argv = argv, .argc = argc, .stdin_fd = CB_STDIN_CALLER,
	                .timeout_ns = INT64_C(60000000000), .stream = show_output, .note = show_note, .undo_on_fail = true);
	cb_exec *exec = NULL;
	const cb_exec_result *result = NULL;
	cb_code code = cb_exec_start(sandbox, &options, &exec, err);
	/* A program with a loop of its own waits for cb_exec_fd() instead and calls cb_exec_pump(). */
	if (code == CB_OK) code = cb_exec_wait(exec, &result, err);
	if (code == CB_OK) {
		printf("step %" PRIu64 ": status %d, %" PRIu64 " changed%s\n", result->step, result->exit_code, result->changed,
		       result->undo_step ? ", and taken back" : "");
		*out_status = result->exit_code;
		code = cb_exec_changes(exec, show_change, NULL, err);
	}
	cb_exec_close(exec);
	return code;
}

int main(int argc, char **argv)
{
	cb_error err = {0};
	cb_store *store = NULL;
	cb_box *box = NULL;
	cb_sandbox *sandbox = NULL;
	int status = 1;
	if (argc < 4) {
		fprintf(stderr, "usage: exec STORE BOX PROGRAM [ARGUMENT ...]\n");
		return 2;
	}
	cb_code code = cb_store_open(argv[1], NULL, &store, &err);
	if (code == CB_OK) code = cb_box_open(store, argv[2], &box, &err);
	if (code == CB_NOTFOUND && store) code = cb_box_create(store, argv[2], &box, &err);
	/* No network, at most 200 processes; the host's /usr is there to be read. */
	cb_sandbox_options bounds = CB_WITH(cb_sandbox_options, .net = CB_NET_NONE, .pids = 200);
	if (code == CB_OK) code = cb_sandbox_open(box, &bounds, &sandbox, &err);
	if (code == CB_OK) code = run(sandbox, (const char *const *)(argv + 3), (size_t)argc - 3, &status, &err);
	cb_sandbox_close(sandbox);
	cb_box_close(box);
	cb_store_close(store);
	if (code != CB_OK) fprintf(stderr, "exec: %s\n", err.message);
	return code == CB_OK ? status : 1;
}
