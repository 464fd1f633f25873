/* cmd_stats.c: what the store holds and how much room it takes. */
#include "cli/cli.h"

typedef struct figure {
	const char *name; /* of the JSON member */
	const char *label;
	uint64_t value;
	bool bytes;
} figure;

static void print_text(cli *c, const figure *all)
{
	char size[CLI_FORMAT_MAX];
	for (const figure *f = all; f->name; f++) {
		if (f->bytes) cli_print(c, "%-28s %12s\n", f->label, cli_human_size(c, f->value, size));
		else cli_print(c, "%-28s %12llu\n", f->label, (unsigned long long)f->value);
	}
}

static void print_json(cli *c, const figure *all)
{
	json_writer *w = cli_json(c);
	json_object_begin(w);
	for (const figure *f = all; f->name; f++) json_member_uint(w, f->name, f->value);
	json_object_end(w);
}

static cb_code run_stats(cli *c, const cli_call *call, cb_error *err)
{
	(void)call;
	cb_store *store = NULL;
	cb_store_stats s;
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
	if (cli_is_json(c)) print_json(c, all);
	else print_text(c, all);
	return CB_OK;
}

const cli_command cmd_stats = {
	.name = "stats",
	.group = "Keeping house",
	.summary = "show what the store holds and how much room it takes",
	.text = "Contents are shared by forks and steps, so their bytes are what the store keeps, not what the boxes show. "
		"Steps of boxes that were deleted count until 'cowbox gc'.",
	.examples = (const char *const[]){"cowbox stats", "cowbox stats --json", NULL},
	.json = "boxes steps                              living boxes; steps kept\n"
		"nodes node_bytes                         of the maps of all kept states\n"
		"contents content_bytes                   of files and values, each once\n"
		"segments segment_bytes                   files that hold the large contents\n"
		"database_bytes wal_bytes                 the database and its log",
	.run = run_stats,
};
