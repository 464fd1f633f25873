/* cmd_quota.c: quota and retention: how much a box may hold, and how much of its history prune keeps. */
#include "cli/cli.h"

/* ---- quota ---- */

static void quota_line(cli *c, const char *what, uint64_t used, bool has_used, uint64_t bound, bool bytes)
{
	char a[CLI_FORMAT_MAX], b[CLI_FORMAT_MAX];
	if (bytes) {
		(void)cli_human_size(c, used, a);
		(void)cli_human_size(c, bound, b);
	} else {
		(void)snprintf(a, sizeof(a), "%llu", (unsigned long long)used);
		(void)snprintf(b, sizeof(b), "%llu", (unsigned long long)bound);
	}
	cli_print(c, "%-15s %14s of %s\n", what, has_used ? a : "-", bound ? b : "any number");
}

static void quota_show(cli *c, const cb_box_info *i)
{
	if (!cli_is_json(c)) {
		quota_line(c, "bytes", i->bytes, true, i->quota_bytes, true);
		quota_line(c, "files", i->files, true, i->quota_files, false);
		quota_line(c, "bytes per file", 0, false, i->quota_file_bytes, true);
		return;
	}
	json_writer *w = cli_json(c);
	json_object_begin(w);
	json_member_str(w, "box", i->name);
	json_member_uint(w, "bytes", i->bytes);
	json_member_uint(w, "files", i->files);
	json_member_uint(w, "quota_bytes", i->quota_bytes);
	json_member_uint(w, "quota_files", i->quota_files);
	json_member_uint(w, "quota_file_bytes", i->quota_file_bytes);
	json_object_end(w);
}

static cb_code run_quota(cli *c, const cli_call *call, cb_error *err)
{
	cb_box *box = NULL;
	cb_box_info i = CB_INIT(cb_box_info);
	bool given = cli_given(call, "bytes") || cli_given(call, "files") || cli_given(call, "file-bytes");
	if (given && cli_flag(call, "none")) return cli_usage(c, err, "--none and a bound: one of them");
	CB_TRY(cli_open_writable(c, cli_operand_text(call, "BOX"), CLI_BOX, &box, NULL, err));
	CB_TRY(cb_box_info_get(box, &i, err));
	if (given || cli_flag(call, "none")) {
		bool keep = given;
		i.quota_bytes = cli_number(call, "bytes", keep ? i.quota_bytes : 0);
		i.quota_files = cli_number(call, "files", keep ? i.quota_files : 0);
		i.quota_file_bytes = cli_number(call, "file-bytes", keep ? i.quota_file_bytes : 0);
		CB_TRY(cb_box_quota_set(box, i.quota_bytes, i.quota_files, i.quota_file_bytes, err));
		bool over = (i.quota_bytes && i.bytes > i.quota_bytes) || (i.quota_files && i.files > i.quota_files);
		if (over) cli_note(c, "'%s' holds more than that already: what is there stays, growth is refused", i.name);
		if (!cli_is_json(c)) return CB_OK;
	}
	quota_show(c, &i);
	return CB_OK;
}

const cli_command cmd_quota = {
	.name = "quota",
	.group = "Keeping house",
	.summary = "show or set how much a box may hold",
	.text = "Without options the bounds and what is used of them. A bound that is not named stays as it is; 0 lifts it. "
		"Bytes are sizes as 'cowbox ls -l' shows them, whatever is shared; files are all files, folders and links. "
		"What would exceed a bound is refused with exit status 10 and changes nothing. A program ('cowbox exec') ends with "
		"125 then, "
		"and what it did is kept as a fork, which the error names.",
	.operands = (const cli_operand[]){{CLI_BOX, "BOX", true, false, "the box"}, {0}},
	.options =
		(const cli_option[]){
			{CLI_SIZE, "bytes", 0, "SIZE", "all files together may have so many bytes"},
			{CLI_COUNT, "files", 0, "N", "there may be so many files"},
			{CLI_SIZE, "file-bytes", 0, "SIZE", "one file may have so many bytes"},
			{CLI_FLAG, "none", 0, NULL, "no bounds"},
			{0},
		},
	.examples = (const char *const[]){"cowbox quota demo --bytes 500M --files 10000", "cowbox quota demo", NULL},
	.json = "box\nbytes files                                  used\n"
		"quota_bytes quota_files quota_file_bytes     the bounds; 0: none",
	.run = run_quota,
};

/* ---- retention ---- */

static void retention_show(cli *c, const cb_box_info *i)
{
	char age[CLI_FORMAT_MAX];
	if (cli_is_json(c)) {
		json_writer *w = cli_json(c);
		json_object_begin(w);
		json_member_str(w, "box", i->name);
		json_member_uint(w, "keep_steps", i->keep_steps);
		json_member_double(w, "keep_seconds", (double)i->keep_ns / 1e9);
		json_object_end(w);
		return;
	}
	if (!i->keep_steps && !i->keep_ns) {
		cli_print(c, "all steps are kept\n");
		return;
	}
	if (i->keep_steps) cli_print(c, "the newest %llu steps are kept\n", (unsigned long long)i->keep_steps);
	if (i->keep_ns) cli_print(c, "steps of the last %s are kept\n", cli_human_duration(i->keep_ns, age));
}

static cb_code run_retention(cli *c, const cli_call *call, cb_error *err)
{
	cb_box *box = NULL;
	cb_box_info i = CB_INIT(cb_box_info);
	bool given = cli_given(call, "steps") || cli_given(call, "age");
	if (given && cli_flag(call, "all")) return cli_usage(c, err, "--all and a bound: one of them");
	CB_TRY(cli_open_writable(c, cli_operand_text(call, "BOX"), CLI_BOX, &box, NULL, err));
	CB_TRY(cb_box_info_get(box, &i, err));
	if (given || cli_flag(call, "all")) {
		i.keep_steps = cli_number(call, "steps", given ? i.keep_steps : 0);
		i.keep_ns = (int64_t)cli_number(call, "age", given ? (uint64_t)i.keep_ns : 0);
		CB_TRY(cb_box_retention_set(box, i.keep_steps, i.keep_ns, err));
		if (!cli_is_json(c)) return CB_OK;
	}
	retention_show(c, &i);
	return CB_OK;
}

const cli_command cmd_retention = {
	.name = "retention",
	.group = "Keeping house",
	.summary = "show or set how much of a box's history prune keeps",
	.text = "It does nothing by itself: 'cowbox prune' drops what neither rule keeps. Without options the rules are "
		"shown; one that is not named stays as it is; 0 lifts it.",
	.operands = (const cli_operand[]){{CLI_BOX, "BOX", true, false, "the box"}, {0}},
	.options =
		(const cli_option[]){
			{CLI_COUNT, "steps", 0, "N", "keep the newest N steps"},
			{CLI_AGE, "age", 0, "TIME", "keep the steps of so long: 30s, 5m, 12h, 7d, 2w"},
			{CLI_FLAG, "all", 0, NULL, "keep everything (as at first)"},
			{0},
		},
	.examples = (const char *const[]){"cowbox retention demo --steps 1000 --age 30d", "cowbox retention demo", NULL},
	.json = "box\nkeep_steps keep_seconds    0: no rule",
	.run = run_retention,
};
