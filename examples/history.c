/*
 * history.c: reads the history of a box: each step with the files it changed, and one file with the step that wrote each line.
 *
 *   history STORE BOX          the steps, newest first
 *   history STORE BOX PATH     the steps that touched PATH, then PATH line by line
 */
#define _POSIX_C_SOURCE 200809L /* gmtime_r, also with -std=c11 */

#include <cowbox/cowbox.h>

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

static cb_code show_change(void *context, const cb_change *change, cb_error *err)
{
	(void)context;
	(void)err;
	if (change->old_path) printf("      %c %s -> %s\n", (char)change->kind, change->old_path, change->path);
	else printf("      %c %s\n", (char)change->kind, change->path);
	return CB_OK;
}

static cb_code show_step(void *context, const cb_step *step, cb_error *err)
{
	cb_box *box = context;
	char when[32];
	time_t seconds = (time_t)(step->ended_ns / 1000000000);
	struct tm parts;
	if (strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", gmtime_r(&seconds, &parts)) == 0) when[0] = 0;
	printf("%5" PRIu64 "  %s  %-10s %-8s %s\n", step->seq, when, step->who, step->kind, step->params);
	if (step->gap) printf("       (the steps before it were pruned)\n");
	/* Step 0 says where the box came from; a visitor may read through the same handle. */
	return step->changed && step->seq > 0 ? cb_diff_step(box, step->seq, NULL, show_change, NULL, err) : CB_OK;
}

static cb_code show_line(void *context, const cb_blame_line *line, cb_error *err)
{
	(void)context;
	(void)err;
	printf("%s@%" PRIu64 "\t%.*s", line->box, line->seq, (int)line->size, line->text);
	if (line->size == 0 || line->text[line->size - 1] != '\n') printf("\n");
	return CB_OK;
}

static cb_code show(const char *store_path, const char *name, const char *path, cb_error *err)
{
	cb_store_options options = CB_WITH(cb_store_options, .no_create = true, .read_only = true);
	cb_store *store = NULL;
	cb_box *box = NULL;
	bool pruned = false;
	cb_code code = cb_store_open(store_path, &options, &store, err);
	if (code == CB_OK) code = cb_box_open(store, name, &box, err);
	cb_log_options log = CB_WITH(cb_log_options, .path = path);
	if (code == CB_OK) code = cb_log(box, &log, show_step, box, &pruned, err);
	if (code == CB_OK && pruned) printf("(older steps were pruned)\n");
	if (code == CB_OK && path) code = cb_blame(box, path, show_line, NULL, err);
	cb_box_close(box);
	cb_store_close(store);
	return code;
}

int main(int argc, char **argv)
{
	cb_error err = {0};
	if (argc < 3 || argc > 4) {
		(void)fprintf(stderr, "usage: history STORE BOX [PATH]\n");
		return 2;
	}
	cb_code code = show(argv[1], argv[2], argc > 3 ? argv[3] : NULL, &err);
	if (code != CB_OK) (void)fprintf(stderr, "history: %s\n", err.message);
	return cb_code_exit_status(code);
}
