/*
 * two_agents.c: several processes on one box without losing a change.
 *
 *   two_agents STORE [AGENTS [ROUNDS]]
 *
 * Each agent takes tasks off a shared list and writes one report per task. Taking a task is optimistic: read the list with its version,
 * write it back with that version expected, and begin again when somebody was faster. Reports are different files, so they never meet.
 */
#include <cowbox/cowbox.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char list[] = "/work/tasks-left";

static cb_code fail(cb_code code, const cb_error *err)
{
	(void)fprintf(stderr, "two_agents: %s\n", err->message);
	return code;
}

/* How many tasks are left, and the version of the list that says so. */
static cb_code look(cb_box *box, long *left, uint64_t *version, cb_error *err)
{
	cb_stat_info info = CB_INIT(cb_stat_info);
	char *text = NULL;
	cb_code code = cb_stat(box, list, 0, &info, err);
	if (code == CB_OK) code = cb_read_file(box, list, &text, NULL, err);
	if (code != CB_OK) return code;
	*left = strtol(text, NULL, 10);
	*version = info.version;
	cb_free(text);
	return CB_OK;
}

/* *task 0: none left. The version is read before the text: a change between the two makes the write fail, never pass. */
static cb_code take_task(cb_box *box, long *task, cb_error *err)
{
	for (;;) {
		long left = 0;
		char text[32];
		cb_write_options options = CB_INIT(cb_write_options);
		cb_code code = look(box, &left, &options.expected_version, err);
		if (code != CB_OK) return code;
		*task = left;
		if (left == 0) return CB_OK;
		int n = snprintf(text, sizeof(text), "%ld\n", left - 1);
		code = cb_write_file(box, list, text, (size_t)n, &options, err);
		if (code != CB_VERSION) return code;
	}
}

static cb_code work(cb_box *box, int agent, cb_error *err)
{
	for (;;) {
		long task = 0;
		char path[64], text[64];
		cb_code code = take_task(box, &task, err);
		if (code != CB_OK || task == 0) return code;
		(void)snprintf(path, sizeof(path), "/work/reports/%ld.txt", task);
		int n = snprintf(text, sizeof(text), "done by agent %d\n", agent);
		/* Absent is expected: nobody else may have done this task. */
		cb_write_options options = CB_WITH(cb_write_options, .parents = true, .expected_version = CB_VERSION_ABSENT);
		code = cb_write_file(box, path, text, (size_t)n, &options, err);
		if (code != CB_OK) return code;
	}
}

static cb_code agent_run(const char *path, int agent)
{
	cb_store *store = NULL;
	cb_box *box = NULL;
	cb_error err = {0};
	char who[32];
	(void)snprintf(who, sizeof(who), "agent-%d", agent);
	cb_code code = cb_store_open(path, NULL, &store, &err);
	if (code == CB_OK) code = cb_box_open(store, "team", &box, &err);
	if (code == CB_OK) code = cb_box_who_set(box, who, &err);
	if (code == CB_OK) code = work(box, agent, &err);
	if (code != CB_OK) (void)fail(code, &err);
	cb_box_close(box);
	cb_store_close(store);
	return code;
}

static cb_code prepare(const char *path, long rounds, cb_error *err)
{
	cb_store *store = NULL;
	cb_box *box = NULL;
	char text[32];
	int n = snprintf(text, sizeof(text), "%ld\n", rounds);
	cb_code code = cb_store_open(path, NULL, &store, err);
	if (code == CB_OK) code = cb_box_create(store, "team", &box, err);
	if (code == CB_OK) code = cb_write_file(box, list, text, (size_t)n, NULL, err);
	cb_box_close(box);
	cb_store_close(store);
	return code;
}

static cb_code count_entry(void *context, const char *name, const cb_stat_info *info, cb_error *err)
{
	(void)name;
	(void)info;
	(void)err;
	++*(long *)context;
	return CB_OK;
}

static cb_code count_reports(const char *path, long *out, cb_error *err)
{
	cb_store *store = NULL;
	cb_box *box = NULL;
	cb_code code = cb_store_open(path, NULL, &store, err);
	if (code == CB_OK) code = cb_box_open(store, "team", &box, err);
	if (code == CB_OK) code = cb_readdir(box, "/work/reports", count_entry, out, err);
	cb_box_close(box);
	cb_store_close(store);
	return code;
}

int main(int argc, char **argv)
{
	cb_error err = {0};
	if (argc < 2) {
		(void)fprintf(stderr, "usage: two_agents STORE [AGENTS [ROUNDS]]\n");
		return 2;
	}
	int agents = argc > 2 ? atoi(argv[2]) : 2;
	long rounds = argc > 3 ? atol(argv[3]) : 20, reports = 0;
	bool all_well = true;
	cb_code code = prepare(argv[1], rounds, &err);
	if (code != CB_OK) return cb_code_exit_status(fail(code, &err));
	for (int i = 1; i <= agents; i++)
		if (fork() == 0) _exit(agent_run(argv[1], i) == CB_OK ? 0 : 1);
	for (int status = 0; wait(&status) > 0;) all_well = all_well && status == 0;
	code = count_reports(argv[1], &reports, &err);
	if (code != CB_OK) return cb_code_exit_status(fail(code, &err));
	printf("%d agents wrote %ld reports\n", agents, reports);
	return all_well && reports == rounds ? 0 : 1;
}
