/* exclude.c: what an import leaves out, as the settings and the command line say. */
#include "cli/exclude.h"

#include <string.h>

enum { PATTERNS_MAX = 4096 };

typedef struct patterns {
	size_t count;
	const char *items[PATTERNS_MAX];
} patterns;

static cb_code pattern_add(patterns *p, const char *item, cb_error *err)
{
	if (p->count == PATTERNS_MAX) return cb_err_set(err, CB_LIMIT, "more than %d patterns to leave out", PATTERNS_MAX);
	p->items[p->count++] = item;
	return CB_OK;
}

cb_code cli_exclude(cli *c, const cli_call *call, cb_box *box, const char *const **out, size_t *out_count, cb_error *err)
{
	const char *configured = NULL;
	const char *const *given = NULL;
	size_t count = cli_list(call, "exclude", &given);
	CB_TRY(cli_config_get(c, box, "import.exclude", &configured, err));
	patterns *p = mem_alloc(sizeof(*p));
	char *words = mem_strdup(configured);
	cli_keep(c, p);
	cli_keep(c, words);
	if (!p || !words) return cb_err_nomem(err);
	p->count = 0;
	char *rest = NULL;
	for (char *word = strtok_r(words, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest))
		CB_TRY(pattern_add(p, word, err));
	for (size_t i = 0; i < count; i++) CB_TRY(pattern_add(p, given[i], err));
	*out = p->items;
	*out_count = p->count;
	return CB_OK;
}

cb_code cli_exclude_gitignore(cli *c, const cli_call *call, cb_box *box, bool *out, cb_error *err)
{
	const char *configured = NULL;
	CB_TRY(cli_config_get(c, box, "import.gitignore", &configured, err));
	*out = cli_flag(call, "gitignore") || strcmp(configured, "yes") == 0;
	return CB_OK;
}
