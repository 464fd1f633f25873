/* table.c: every command, in the order of the help. A new command is a file cmd_NAME.c and a line here. */
#include "cli/core.h"

#include <string.h>

const char *const cli_groups[] = {"Boxes", "Files", "Programs", "History", "To and from the host", "Keeping house", "Help", NULL};

const cli_option cli_global_options[] = {
	{CLI_TEXT, "store", 0, "FOLDER", "the store (default: COWBOX_STORE, else cowbox in the data folder of the user)"},
	{CLI_TEXT, "box", 0, "BOX", "the box that commands without an address mean"},
	{CLI_TEXT, "who", 0, "NAME", "who the steps are recorded for"},
	{CLI_FLAG, "json", 0, NULL, "one JSON object on standard output; errors as an object on standard error"},
	{CLI_CHOICE, "color", 0, "auto|always|never", "colours (default: on a terminal; NO_COLOR turns them off)"},
	{CLI_FLAG, "no-pager", 0, NULL, "do not page long output"},
	{CLI_FLAG, "yes", 'y', NULL, "do what would be asked about"},
	{CLI_FLAG, "quiet", 'q', NULL, "no notes and no progress"},
	{CLI_FLAG, "help", 'h', NULL, "what the command does, with examples"},
	{CLI_FLAG, "version", 0, NULL, "the version"},
	{0},
};

/* clang-format off */
#define COMMANDS(X) \
	X(new) X(list) X(use) X(info) X(rename) X(delete) X(fork) \
	X(ls) X(cat) X(write) X(append) X(edit) X(cp) X(mv) X(rm) X(mkdir) X(touch) X(ln) X(chmod) X(tree) X(stat) X(find) X(grep) \
	X(tag) X(meta) X(kv) \
	X(exec) \
	X(log) X(show) X(diff) X(restore) X(undo) X(redo) X(checkpoint) X(merge) X(blame) \
	X(import) X(export) X(apply) X(pack) X(unpack) \
	X(stats) X(quota) X(retention) X(prune) X(gc) X(fsck) X(backup) X(audit) X(doctor) X(config) \
	X(completion) X(help)
/* clang-format on */

#define DECLARE(name) extern const cli_command cmd_##name;
COMMANDS(DECLARE)
#undef DECLARE

#define ENTRY(name) &cmd_##name,
const cli_command *const cli_commands[] = {COMMANDS(ENTRY) NULL};
#undef ENTRY

const cli_command *cli_command_find(const char *name)
{
	for (const cli_command *const *c = cli_commands; *c; c++)
		if (strcmp((*c)->name, name) == 0) return *c;
	return NULL;
}
