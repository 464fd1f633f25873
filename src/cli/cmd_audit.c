/* cmd_audit.c: who did what, and what was refused. */
#include "cli/cli.h"

#include <string.h>

typedef struct listing {
	cli *c;
	uint64_t count;
} listing;

static void row_json(cli *c, const cb_audit *a)
{
	json_writer *w = cli_json(c);
	json_object_begin(w);
	cli_json_time(w, "time", a->time_ns);
	json_member_str(w, "box", a->box);
	json_member_str(w, "who", a->who);
	json_member_str(w, "action", a->action);
	json_member_str(w, "subject", a->subject);
	if (a->seq) json_member_uint(w, "step", a->seq);
	if (a->code != CB_OK) {
		json_member_str(w, "refused", cb_code_name(a->code));
		json_member_str(w, "message", a->message);
		json_member_uint(w, "count", a->count);
	}
	json_object_end(w);
}

static void row_text(cli *c, const cb_audit *a)
{
	char when[CLI_FORMAT_MAX];
	bool refused = a->code != CB_OK;
	cli_print(c, "%s%-14s%s  ", cli_on(c, CLI_DIM), cli_human_time(c, a->time_ns, when), cli_off(c));
	cli_print_name(c, *a->who ? a->who : "-");
	cli_print(c, "  %s", cli_on(c, CLI_CYAN));
	cli_print_name(c, *a->box ? a->box : "-");
	if (a->seq) cli_print(c, "@%llu", (unsigned long long)a->seq);
	cli_print(c, "%s  ", cli_off(c));
	cli_print_name(c, a->action);
	if (*a->subject) {
		/* One line per entry, off a terminal too: a subject may be a whole script. */
		size_t line = strcspn(a->subject, "\n");
		cli_print(c, "  ");
		cli_print_bytes(c, a->subject, line);
		if (a->subject[line]) cli_print(c, " …");
	}
	if (refused) {
		cli_print(c, "  %srefused: ", cli_on(c, CLI_RED));
		cli_print_name(c, a->message);
		cli_print(c, "%s", cli_off(c));
		if (a->count > 1) cli_print(c, " (%llu times)", (unsigned long long)a->count);
	}
	cli_print(c, "\n");
}

static cb_code row(void *context, const cb_audit *a, cb_error *err)
{
	(void)err;
	listing *l = context;
	l->count++;
	if (cli_is_json(l->c)) row_json(l->c, a);
	else row_text(l->c, a);
	return CB_OK;
}

static cb_code is_there(void *context, const cb_audit *a, cb_error *err)
{
	(void)a;
	(void)err;
	*(bool *)context = true;
	return CB_INTERRUPTED;
}

/* A box of which nothing is wanted may be one that is gone, of which something else is told; one that never was is a mistake. */
static cb_code check_name(cli *c, cb_store *store, const char *name, cb_error *err)
{
	bool told = false;
	CB_TRY(cb_audit_list(store, &CB_WITH(cb_audit_options, .box = name), is_there, &told, err));
	if (told) return CB_OK;
	cb_box *box = NULL;
	cli_address address;
	CB_TRY(cli_address_parse(name, CLI_BOX, &address, err));
	cb_code code = cb_box_open(store, name, &box, err);
	cb_box_close(box);
	if (code == CB_NOTFOUND) cli_hint(c, "'cowbox list' shows the boxes");
	return code;
}

static cb_code run_audit(cli *c, const cli_call *call, cb_error *err)
{
	cb_store *store = NULL;
	listing l = {c, 0};
	cb_audit_options options = CB_WITH(cb_audit_options, .box = cli_operand_text(call, "BOX"), .who = cli_text(call, "by"),
	                                   .since_ns = cli_moment(call, "since", 0), .refused = cli_flag(call, "refused"),
	                                   .max_entries = cli_number(call, "max", 0));
	CB_TRY(cli_store(c, &store, err));
	if (cli_is_json(c)) {
		json_object_begin(cli_json(c));
		json_member_array(cli_json(c), "entries");
	}
	CB_TRY(cb_audit_list(store, &options, row, &l, err));
	if (options.box && l.count == 0) CB_TRY(check_name(c, store, options.box, err));
	if (cli_is_json(c)) {
		json_array_end(cli_json(c));
		json_object_end(cli_json(c));
	}
	return CB_OK;
}

const cli_command cmd_audit = {
	.name = "audit",
	.group = "Keeping house",
	.summary = "show who did what, and what was refused",
	.text = "Newest first, over all boxes or for one, also one that was deleted: every step, what was done to boxes and "
		"store (create, fork, rename, delete, quota, retention, checkpoint, setting, prune, gc, backup), and every "
		"call that was refused (quota, read-only, reserved name, denied, another version than expected, conflict, "
		"too large). The same refusal in a row is one entry with a count. Of deeds and of refusals the newest 10,000 "
		"each are kept; steps go with 'cowbox prune', and those of a deleted box with 'cowbox gc', but for the few that "
		"forks and merges still need. Values of settings are never recorded.",
	.operands = (const cli_operand[]){{CLI_BOX, "BOX", true, false, "only this box"}, {0}},
	.options =
		(const cli_option[]){
			{CLI_TEXT, "by", 0, "NAME", "only what this one did"},
			{CLI_MOMENT, "since", 0, "TIME", "only since then: 7d (ago), 2026-01-31, 2026-01-31T12:00 (local time)"},
			{CLI_FLAG, "refused", 0, NULL, "only what was refused"},
			{CLI_COUNT, "max", 'n', "N", "at most N entries; 0: all"},
			{0},
		},
	.examples =
		(const char *const[]){"cowbox audit -n 20", "cowbox audit demo --refused", "cowbox audit --since 2h --json", NULL},
	.json = "entries    for each: time, box (\"\": the store), who, action, subject, of a step step; of a refusal refused (the "
		"error's\n"
		"           name), message, count",
	.flags = CLI_PAGED,
	.run = run_audit,
};
