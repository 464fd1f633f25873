/* cmd_stats.c: what the store holds and how much room it takes. */
#include "cli/cli.h"

typedef struct figure {
	const char *name; /* of the JSON member */
	const char *label;
	uint64_t value;
	bool bytes;
} figure;

/* One line, or one object, for each state that is kept because it is used. */
static cb_code text_use(void *context, const cb_use *u, cb_error *err)
{
	cli *c = context;
	(void)err;
	char since[CLI_FORMAT_MAX], step[32] = "all steps", pid[32] = "";
	if (!u->all_steps) (void)snprintf(step, sizeof(step), "@%llu", (unsigned long long)u->seq);
	if (u->pid) (void)snprintf(pid, sizeof(pid), "process %lld", (long long)u->pid);
	cli_print(c, "%-28s ", "kept");
	cli_print_name(c, u->box);
	cli_print(c, "%s%s  ", u->all_steps ? " " : "", step);
	cli_print_name(c, u->why);
	if (u->owner) {
		cli_print(c, "  pinned by ");
		cli_print_name(c, u->owner);
	}
	if (u->pid) cli_print(c, "  %s", pid);
	if (u->since_ns) cli_print(c, "  since %s", cli_human_time(c, u->since_ns, since));
	cli_print(c, "\n");
	return CB_OK;
}

static cb_code json_use(void *context, const cb_use *u, cb_error *err)
{
	json_writer *w = context;
	(void)err;
	json_object_begin(w);
	json_member_str(w, "box", u->box);
	if (!u->all_steps) json_member_uint(w, "step", u->seq);
	json_member_str(w, "why", u->why);
	json_member_bool(w, "pinned", u->pinned);
	if (u->owner) json_member_str(w, "owner", u->owner);
	if (u->pid) json_member_int(w, "pid", u->pid);
	if (u->since_ns) cli_json_time(w, "since", u->since_ns);
	if (u->until_ns) cli_json_time(w, "until", u->until_ns);
	json_object_end(w);
	return CB_OK;
}

static void print_text(cli *c, const figure *all)
{
	char size[CLI_FORMAT_MAX];
	for (const figure *f = all; f->name; f++) {
		if (f->bytes) cli_print(c, "%-28s %12s\n", f->label, cli_human_size(c, f->value, size));
		else cli_print(c, "%-28s %12llu\n", f->label, (unsigned long long)f->value);
	}
}

static cb_code print_json(cli *c, cb_store *store, const figure *all, cb_error *err)
{
	json_writer *w = cli_json(c);
	json_object_begin(w);
	for (const figure *f = all; f->name; f++) json_member_uint(w, f->name, f->value);
	json_member_array(w, "kept");
	cb_code code = cb_store_uses(store, json_use, w, err);
	json_array_end(w);
	json_object_end(w);
	return code;
}

static cb_code run_stats(cli *c, const cli_call *call, cb_error *err)
{
	(void)call;
	cb_store *store = NULL;
	cb_store_stats s = CB_INIT(cb_store_stats);
	CB_TRY(cli_store(c, &store, err));
	CB_TRY(cb_store_stats_get(store, &s, err));
	figure all[] = {
		{"boxes", "boxes", s.boxes, false},
		{"steps", "steps", s.steps, false},
		{"nodes", "nodes of maps", s.nodes, false},
		{"node_bytes", "  their bytes", s.node_bytes, true},
		{"contents", "contents", s.contents, false},
		{"content_bytes", "  their bytes", s.content_bytes, true},
		{"segments", "segment files", s.segments, false},
		{"segment_bytes", "  their bytes", s.segment_bytes, true},
		{"database_bytes", "bytes of the database", s.database_bytes, true},
		{"wal_bytes", "bytes of its log", s.wal_bytes, true},
		{0},
	};
	if (cli_is_json(c)) return print_json(c, store, all, err);
	print_text(c, all);
	return cb_store_uses(store, text_use, c, err);
}

const cli_command cmd_stats = {
	.name = "stats",
	.group = "Keeping house",
	.summary = "show what the store holds and how much room it takes",
	.text = "Contents are shared by forks and steps, so their bytes are what the store keeps, not what the boxes show. "
		"Steps of boxes that were deleted count until 'cowbox gc'. At the end come the states that prune and gc leave "
		"alone because "
		"somebody reads them or works on them, in whatever process, or because a command that was interrupted began there: "
		"which, "
		"why, for which process and since when.",
	.examples = (const char *const[]){"cowbox stats", "cowbox stats --json", NULL},
	.json = "boxes steps                              living boxes; steps kept\n"
		"nodes node_bytes                         of the maps of all kept states\n"
		"contents content_bytes                   of files and values, each once\n"
		"segments segment_bytes                   files that hold the large contents\n"
		"database_bytes wal_bytes                 the database and its log\n"
		"kept                                     for each state in use: box, step (absent: all of them), why, pinned "
		"(outlives its\n"
		"                                         process), owner (of a pin), pid, since, until (each where known)",
	.run = run_stats,
};
