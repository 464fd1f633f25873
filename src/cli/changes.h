/*
 * changes.h: what differs between two states, as diff, show and log print it: a patch, a stat, names, JSON.
 *
 * /home/agent and /tmp are what programs leave lying about: they are left out unless asked for by --all or by a path that names them.
 */
#ifndef CLI_CHANGES_H
#define CLI_CHANGES_H

#include "cli/cli.h"

typedef enum changes_view { CHANGES_PATCH, CHANGES_STAT, CHANGES_NAMES, CHANGES_STATUS } changes_view;

typedef struct changes_options {
	changes_view view;
	const char *const *paths; /* absolute and clean (changes_path); a change below one of them counts */
	size_t path_count;        /* 0: everything */
	bool all;                 /* also /home/agent and /tmp */
	bool patch;               /* with --json: the text too */
	bool nul;                 /* names end with NUL instead of newline */
	bool has_context;
	unsigned context_lines;
} changes_options;

typedef struct changes_count {
	uint64_t shown, left_out;
} changes_count;

/* "/work/a/../b//c" is "/work/b/c": by its letters, as box paths in a difference are. free() it. */
cb_code changes_path(const char *path, char **out, cb_error *err);
/* path is folder, or below it. Both clean. */
bool changes_within(const char *path, const char *folder);
/* Both states must stay as they are: open them at a step. With --json members "changes", "left_out" and "patch" of the open object. */
cb_code changes_print(cli *c, cb_box *from, cb_box *to, const changes_options *options, changes_count *out, cb_error *err);
/* The same of one step when the state before it is gone: names only, whatever the view. */
cb_code changes_print_step(cli *c, cb_box *box, uint64_t seq, const changes_options *options, changes_count *out, cb_error *err);
/* Lines around a change: -U of the call, else the configuration. */
cb_code changes_lines(cli *c, cb_box *box, const cli_call *call, changes_options *out, cb_error *err);

/* "added", "deleted", ...: as every command's JSON has it. */
const char *change_kind_name(cb_change_kind kind);

#endif
