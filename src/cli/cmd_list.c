/* cmd_list.c: the boxes of the store. */
#include "cli/cli.h"

#include <string.h>

typedef struct listing {
	cli *c;
	const char *chosen;
	bool lost; /* those that hold what lost, apart from the others */
	uint64_t count;
} listing;

static void row_json(cli *c, const cb_box_info *info, bool chosen)
{
	json_writer *w = cli_json(c);
	json_object_begin(w);
	cli_json_box(w, info);
	json_member_bool(w, "chosen", chosen);
	json_object_end(w);
}

static cb_code row(void *context, const cb_box_info *info, cb_error *err)
{
	(void)err;
	listing *k = context;
	cli *c = k->c;
	bool chosen = k->chosen && strcmp(k->chosen, info->name) == 0;
	char size[CLI_FORMAT_MAX], when[CLI_FORMAT_MAX];
	if (info->lost != k->lost) return CB_OK;
	if (k->lost && !k->count && !cli_is_json(c)) cli_print(c, "kept from conflicts (gc removes them when they are old):\n");
	k->count++;
	if (cli_is_json(c)) {
		row_json(c, info, chosen);
		return CB_OK;
	}
	cli_print(c, "%s %s%-24s%s %6llu %-5s %8llu entries %10s  %s", chosen ? "*" : " ", chosen ? cli_on(c, CLI_GREEN) : "",
	          info->name, chosen ? cli_off(c) : "", (unsigned long long)info->seq, info->seq == 1 ? "step" : "steps",
	          (unsigned long long)info->files, cli_human_size(c, info->bytes, size), cli_human_time(c, info->created_ns, when));
	if (info->origin[0]) cli_print(c, "  from %s@%llu", info->origin, (unsigned long long)info->origin_seq);
	cli_print(c, "\n");
	return CB_OK;
}

static cb_code run_list(cli *c, const cli_call *call, cb_error *err)
{
	(void)call;
	cb_store *store = NULL;
	listing k = {.c = c};
	CB_TRY(cli_store(c, &store, err));
	cb_error none;
	if (cli_chosen(c, &k.chosen, &none) != CB_OK) {
		k.chosen = NULL;
		cli_hint(c, "%s", "");
	}
	if (cli_is_json(c)) {
		json_object_begin(cli_json(c));
		json_member_array(cli_json(c), "boxes");
	}
	CB_TRY(cb_box_list(store, row, &k, err));
	if (k.count == 0) cli_note(c, "no boxes yet: 'cowbox new NAME' makes one");
	if (cli_is_json(c)) {
		json_array_end(cli_json(c));
		json_member_array(cli_json(c), "lost");
	}
	k.lost = true;
	k.count = 0;
	CB_TRY(cb_box_list(store, row, &k, err));
	if (cli_is_json(c)) {
		json_array_end(cli_json(c));
		json_object_end(cli_json(c));
	}
	return CB_OK;
}

const cli_command cmd_list = {
	.name = "list",
	.group = "Boxes",
	.summary = "list the boxes",
	.text = "The box that commands without an address mean is marked with '*'. Boxes that hold what lost against another "
		"change are listed "
		"apart: gc removes them after 30 days, unless they were changed, renamed, forked or given a checkpoint since.",
	.examples = (const char *const[]){"cowbox list", NULL},
	.json = "boxes     for each: name, chosen, steps, files, bytes, created, and of forks origin, origin_step\nlost      the "
		"same for boxes that hold what lost "
		"against another change",
	.run = run_list,
};
