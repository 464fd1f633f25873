/* cmd_prune.c: prune, gc, fsck and backup: dropping old steps, freeing room, checking and copying the store. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

/* ---- prune ---- */

typedef struct old_steps {
	uint64_t seen, count;
	uint64_t keep_steps;
	int64_t before_ns;
	buf named; /* uint64_t: steps with a checkpoint, ascending */
} old_steps;

static cb_code add_named(void *context, const cb_checkpoint *checkpoint, cb_error *err)
{
	return buf_append(context, &checkpoint->seq, sizeof(uint64_t), err);
}

static int compare(const void *a, const void *b)
{
	uint64_t x, y;
	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return x < y ? -1 : x > y;
}

static cb_code count_old(void *context, const cb_step *step, cb_error *err)
{
	(void)err;
	old_steps *o = context;
	if (step->seq == 0) return CB_OK;
	o->seen++;
	bool is_named =
		o->named.size && bsearch(&step->seq, o->named.bytes, o->named.size / sizeof(uint64_t), sizeof(uint64_t), compare);
	bool kept = is_named || o->seen == 1 || (o->keep_steps && o->seen <= o->keep_steps) ||
	            (o->before_ns && step->ended_ns >= o->before_ns);
	o->count += !kept;
	return CB_OK;
}

static cb_code confirm_prune(cli *c, cb_box *box, const cb_box_info *i, uint64_t steps, int64_t age_ns, cb_error *err)
{
	old_steps o = {.keep_steps = steps, .before_ns = age_ns ? cli_now(c) - age_ns : 0, .named = BUF_INIT(SIZE_MAX)};
	cb_code code = cb_checkpoint_list(box, add_named, &o.named, err);
	if (code == CB_OK) code = cb_log(box, NULL, count_old, &o, NULL, err);
	buf_done(&o.named);
	if (code != CB_OK || o.count == 0) return code;
	char seen[CLI_FORMAT_MAX], age[CLI_FORMAT_MAX], newest[CLI_FORMAT_MAX + 32] = "", young[CLI_FORMAT_MAX + 32] = "";
	if (steps) (void)snprintf(newest, sizeof(newest), "the newest %llu, ", (unsigned long long)steps);
	if (age_ns) (void)snprintf(young, sizeof(young), "those of the last %s, ", cli_human_duration(age_ns, age));
	return cli_confirm(c, err,
	                   "up to %llu of %s of '%s' would be lost: they could not be shown, opened or undone any more "
	                   "(%s%scheckpoints, fork and merge points stay)",
	                   (unsigned long long)o.count, cli_count_words(o.seen, "step", seen), i->name, newest, young);
}

static cb_code note_taken(void *context, const cb_change *change, cb_error *err)
{
	(void)err;
	if (change->kind != CB_DELETED && !change->modified && change->kind != CB_MODIFIED) return CB_OK;
	if (change->old_info->type == CB_DIR || change->old_info->size == 0) return CB_OK;
	*(bool *)context = true;
	return CB_INTERRUPTED; /* one is enough */
}

/* The newest step is kept and can be undone, so gc must leave what it took away. */
static void tell_room(cli *c, cb_box *box, uint64_t newest)
{
	bool taken = false;
	if (newest)
		(void)cb_diff_step(box, newest, NULL, note_taken, &taken, NULL); /* its step is there; else nothing is said of it */
	if (!taken) cli_note(c, "room comes back with 'cowbox gc'");
	else
		cli_note(c,
		         "room comes back with 'cowbox gc', but for what step %llu removed or overwrote, as it can be undone: make "
		         "one more step, then prune and gc again",
		         (unsigned long long)newest);
}

static cb_code run_prune(cli *c, const cli_call *call, cb_error *err)
{
	cb_box *box = NULL;
	cb_box_info i = CB_INIT(cb_box_info);
	uint64_t pruned = 0;
	CB_TRY(cli_open_writable(c, cli_operand_text(call, "BOX"), CLI_BOX, &box, NULL, err));
	CB_TRY(cb_box_info_get(box, &i, err));
	cb_prune_options options = CB_WITH(cb_prune_options, .keep_steps = cli_number(call, "keep", 0),
	                                   .keep_ns = (int64_t)cli_number(call, "keep-age", 0));
	uint64_t steps = options.keep_steps ? options.keep_steps : i.keep_steps;
	int64_t age_ns = options.keep_ns ? options.keep_ns : i.keep_ns;
	if (!steps && !age_ns) {
		cli_hint(c, "say --keep N or --keep-age TIME, or set 'cowbox retention'");
		return cb_err_set(err, CB_INVALID, "nothing says how much of the history of '%s' to keep", i.name);
	}
	CB_TRY(confirm_prune(c, box, &i, steps, age_ns, err));
	CB_TRY(cb_prune(box, &options, &pruned, err));
	char words[CLI_FORMAT_MAX];
	if (!cli_is_json(c)) cli_print(c, "%s pruned\n", cli_count_words(pruned, "step", words));
	if (pruned) tell_room(c, box, i.seq);
	if (!cli_is_json(c)) return CB_OK;
	json_writer *w = cli_json(c);
	json_object_begin(w);
	json_member_str(w, "box", i.name);
	json_member_uint(w, "pruned_steps", pruned);
	json_object_end(w);
	return CB_OK;
}

const cli_command cmd_prune = {
	.name = "prune",
	.group = "Keeping house",
	.summary = "drop old steps of a box",
	.text = "A step stays when one of the rules keeps it: --keep or --keep-age, and where one is not given the box's "
		"retention. The newest step, the first (step 0), checkpoints, and fork points and merge points of living boxes "
		"always stay; what merges would need after the undo of a merge that is older than the prune "
		"may go. What would be lost is said before; off a terminal it needs --yes. Space comes "
		"back with 'cowbox gc'; what the newest step removed, which 'cowbox undo' may bring back, only once that step is "
		"no longer the newest and is pruned.",
	.operands = (const cli_operand[]){{CLI_BOX, "BOX", true, false, "the box"}, {0}},
	.options =
		(const cli_option[]){
			{CLI_COUNT, "keep", 0, "N", "keep the newest N steps"},
			{CLI_AGE, "keep-age", 0, "TIME", "keep the steps of so long: 30s, 5m, 12h, 7d, 2w"},
			{0},
		},
	.examples = (const char *const[]){"cowbox prune demo --keep 100 --yes", NULL},
	.json = "box\npruned_steps    how many went",
	.run = run_prune,
};

/* ---- gc ---- */

static cb_code run_gc(cli *c, const cli_call *call, cb_error *err)
{
	cb_store *store = NULL;
	cb_gc_result r = CB_INIT(cb_gc_result);
	char size[CLI_FORMAT_MAX];
	uint64_t folders = 0;
	CB_TRY(cli_store(c, &store, err));
	/* What an interrupted program left may wait for the room that gc makes. */
	cb_error why = {0};
	cb_code cleaned = cb_work_clean(store, true, &folders, &why);
	CB_TRY(cb_store_gc(store, &r, err));
	if (cleaned != CB_OK) cli_note(c, "%s", why.message);
	if (cli_flag(call, "vacuum")) CB_TRY(cb_store_vacuum(store, err));
	if (!r.contents_freed && r.contents_kept)
		cli_note(c,
		         "what a step removed stays until that step is pruned, in every box that has it, forks too; a box's newest "
		         "never is: make one more, then prune");
	if (!cli_is_json(c)) {
		char contents[CLI_FORMAT_MAX], nodes[CLI_FORMAT_MAX], boxes[CLI_FORMAT_MAX];
		cli_print(c, "%s freed: %s, %s, %s\n", cli_size_words(c, r.bytes_freed, size),
		          cli_count_words(r.contents_freed, "content", contents), cli_count_words(r.nodes_freed, "node", nodes),
		          cli_count_words(r.boxes_freed, "deleted box", boxes));
		return CB_OK;
	}
	json_writer *w = cli_json(c);
	json_object_begin(w);
	json_member_uint(w, "bytes_freed", r.bytes_freed);
	json_member_uint(w, "contents_freed", r.contents_freed);
	json_member_uint(w, "contents_kept", r.contents_kept);
	json_member_uint(w, "nodes_freed", r.nodes_freed);
	json_member_uint(w, "nodes_kept", r.nodes_kept);
	json_member_uint(w, "boxes_freed", r.boxes_freed);
	json_member_uint(w, "work_folders_removed", folders);
	json_member_bool(w, "vacuumed", cli_flag(call, "vacuum"));
	json_object_end(w);
	return CB_OK;
}

const cli_command cmd_gc = {
	.name = "gc",
	.group = "Keeping house",
	.summary = "free the room of what was pruned and deleted",
	.text = "Removes what no box, step or checkpoint refers to (what a step removed can be undone, and stays until that step "
		"is "
		"pruned: see 'cowbox help prune'), and the folders that were laid out for programs, where none "
		"runs (the next program has them laid out anew, and waits while they are removed); "
		"others may go on reading and writing. The freed room is "
		"used again by the store; --vacuum gives it back to the filesystem: the database is written anew, for which "
		"twice its room is needed meanwhile, and who writes waits until that is done.",
	.options = (const cli_option[]){{CLI_FLAG, "vacuum", 0, NULL, "give freed room back to the filesystem"}, {0}},
	.examples = (const char *const[]){"cowbox gc", "cowbox gc --vacuum", NULL},
	.json = "bytes_freed\ncontents_freed contents_kept\nnodes_freed nodes_kept\nboxes_freed      deleted boxes that are gone "
		"now\n"
		"work_folders_removed    folders that were laid out for programs\n"
		"vacuumed         true with --vacuum",
	.run = run_gc,
};

/* ---- fsck ---- */

static void complain(void *context, const char *line)
{
	cli *c = context;
	if (cli_is_json(c)) {
		json_str(cli_json(c), line);
		return;
	}
	cli_print_name(c, line);
	cli_print(c, "\n");
}

static cb_code run_fsck(cli *c, const cli_call *call, cb_error *err)
{
	(void)call;
	cb_store *store = NULL;
	uint64_t found = 0;
	CB_TRY(cli_store(c, &store, err));
	if (cli_is_json(c)) {
		json_object_begin(cli_json(c));
		json_member_array(cli_json(c), "complaints");
	}
	CB_TRY(cb_store_check(store, complain, c, &found, err));
	if (found) cli_status(c, cb_code_exit_status(CB_CORRUPT));
	cb_store_stats stats = CB_INIT(cb_store_stats);
	bool counted = cb_store_stats_get(store, &stats, NULL) == CB_OK; /* a damaged store may not let itself be counted */
	if (counted && !stats.page_sums) cli_note(c, "pages of the database have no sums: 'cowbox gc --vacuum' adds them");
	if (cli_is_json(c)) {
		json_array_end(cli_json(c));
		json_member_bool(cli_json(c), "sound", found == 0);
		json_member_bool(cli_json(c), "page_sums", counted && stats.page_sums);
		json_object_end(cli_json(c));
		return CB_OK;
	}
	char words[CLI_FORMAT_MAX];
	if (found) cli_print(c, "%s: what is not named can still be read\n", cli_count_words(found, "complaint", words));
	else cli_print(c, "the store is sound\n");
	return CB_OK;
}

const cli_command cmd_fsck = {
	.name = "fsck",
	.group = "Keeping house",
	.summary = "check the whole store",
	.text = "Every sum, key, count and invariant. Each complaint is a line that names the box and path it concerns. The "
		"exit status is 65 when there are any.",
	.examples = (const char *const[]){"cowbox fsck", NULL},
	.json = "complaints    a list of lines\nsound         true: none\npage_sums     false: made by an earlier version, without "
		"sums of pages; 'cowbox gc --vacuum' adds them",
	.run = run_fsck,
};

/* ---- backup ---- */

static cb_code run_backup(cli *c, const cli_call *call, cb_error *err)
{
	cb_store *store = NULL;
	const char *to = cli_operand_text(call, "FOLDER");
	CB_TRY(cli_store(c, &store, err));
	cli_recover(c, NULL);
	cb_code code = cb_store_backup(store, to, err);
	if (code == CB_EXISTS) cli_hint(c, "a backup needs a folder that does not exist yet");
	if (code != CB_OK) return code;
	if (!cli_is_json(c)) return CB_OK;
	AUTO_FREE char *full = realpath(to, NULL);
	json_writer *w = cli_json(c);
	json_object_begin(w);
	json_member_str(w, "folder", full ? full : to);
	json_object_end(w);
	return CB_OK;
}

const cli_command cmd_backup = {
	.name = "backup",
	.group = "Keeping house",
	.summary = "copy the store to a new folder",
	.text = "The copy is consistent though others write meanwhile, and is a store of its own: 'cowbox --store FOLDER "
		"list'. What interrupted programs left is captured before; of programs that run meanwhile nothing is in it. "
		"Copying a "
		"store in use with cp is not safe.",
	.operands = (const cli_operand[]){{CLI_HOST, "FOLDER", false, false, "where to; it must not exist"}, {0}},
	.examples = (const char *const[]){"cowbox backup store-copy", NULL},
	.json = "folder    the copy",
	.run = run_backup,
};
