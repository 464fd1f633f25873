/* exclude.h: what an import leaves out, as the settings and the command line say. */
#ifndef CLI_EXCLUDE_H
#define CLI_EXCLUDE_H

#include "cli/cli.h"

/* The words of import.exclude, then those of --exclude: a later "!pattern" takes an earlier one back. box may be NULL. Lent until the
 * end. */
cb_code cli_exclude(cli *c, const cli_call *call, cb_box *box, const char *const **out, size_t *out_count, cb_error *err);
/* --gitignore, or import.gitignore. */
cb_code cli_exclude_gitignore(cli *c, const cli_call *call, cb_box *box, bool *out, cb_error *err);

#endif
