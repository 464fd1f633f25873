/* cmd_merge.c: one box's changes into another. */
#include "cli/changes.h"
#include "cli/steps.h"

#include <string.h>

/* --prefer PATH=BOX */
typedef struct preference {
	const char *path; /* clean, or a key as conflicts name it; NULL: everything */
	cb_prefer side;
	bool met; /* a conflict */
} preference;

typedef struct found {
	char *path;
	const char *reason; /* the library's own words */
	cb_prefer side;
	bool contradicts;
} found;

typedef struct merging {
	preference *wishes;
	size_t wish_count;
	buf found;
	bool failed;  /* out of memory: the list is not whole */
	bool nothing; /* there is nothing to merge */
} merging;

static void merging_done(merging *m)
{
	found *all = (found *)(void *)m->found.bytes;
	for (size_t i = 0; i < m->found.size / sizeof(found); i++) free(all[i].path);
	buf_done(&m->found);
}
#define AUTO_MERGING ATTR_CLEANUP(merging_done)

/* ---- preferences ---- */

typedef struct sides {
	const char *from_text; /* as typed: tells apart two states of one box */
	const char *from, *into;
	cb_box *theirs, *ours; /* the same two, open */
} sides;

static cb_prefer side_of(const sides *s, const char *word)
{
	if (strcmp(word, s->into) == 0) return CB_PREFER_OURS;
	return strcmp(word, s->from) == 0 || strcmp(word, s->from_text) == 0 ? CB_PREFER_THEIRS : CB_PREFER_NONE;
}

static cb_code parse_wish(cli *c, const sides *s, const char *text, preference *out, cb_error *err)
{
	AUTO_FREE char *path = NULL, *clean = NULL, *left = NULL;
	const char *equals = strrchr(text, '=');
	*out = (preference){NULL, side_of(s, equals ? equals + 1 : text), false};
	if (out->side == CB_PREFER_NONE)
		return cli_usage(c, err, "--prefer %s: write %s or %s, or PATH=%s or PATH=%s", text, s->from, s->into, s->from,
		                 s->into);
	if (!equals) return CB_OK;
	left = mem_strdup(text);
	if (!left) return cb_err_nomem(err);
	left[equals - text] = 0;
	if (strncmp(left, "key '", 5) == 0) {
		out->path = left;
		cli_keep(c, TAKE_PTR(left));
		return CB_OK;
	}
	cli_address address = {.path = ""};
	CB_TRY(cli_address_parse(left, CLI_PATH, &address, err));
	CB_TRY(cli_address_path(&address, &path, err));
	CB_TRY(changes_path(path, &clean, err));
	out->path = clean;
	cli_keep(c, TAKE_PTR(clean));
	return CB_OK;
}

static cb_code refuse_both(cli *c, const merging *m, size_t last, const char *text, cb_error *err)
{
	const preference *p = &m->wishes[last];
	for (size_t i = 0; i < last; i++) {
		const preference *q = &m->wishes[i];
		bool same = p->path && q->path ? strcmp(p->path, q->path) == 0 : p->path == q->path;
		if (same && p->side != q->side)
			return cli_usage(c, err, "--prefer %s: the other box is preferred there already", text);
	}
	return CB_OK;
}

static cb_code parse_wishes(cli *c, const cli_call *call, const sides *s, merging *m, cb_error *err)
{
	const char *const *words = NULL;
	m->wish_count = cli_list(call, "prefer", &words);
	m->wishes = mem_alloc((m->wish_count + 1) * sizeof(*m->wishes));
	if (!m->wishes) return cb_err_nomem(err);
	cli_keep(c, m->wishes);
	for (size_t i = 0; i < m->wish_count; i++) {
		CB_TRY(parse_wish(c, s, words[i], &m->wishes[i], err));
		CB_TRY(refuse_both(c, m, i, words[i], err));
	}
	return CB_OK;
}

static bool covers(const preference *p, const char *path)
{
	if (!p->path) return true;
	return path[0] == '/' && p->path[0] == '/' ? changes_within(path, p->path) : strcmp(path, p->path) == 0;
}

/* The wish with the longest path that covers it. */
static cb_prefer choose(const merging *m, const char *path)
{
	cb_prefer side = CB_PREFER_NONE;
	size_t best = 0;
	for (size_t i = 0; i < m->wish_count; i++) {
		preference *p = &m->wishes[i];
		size_t size = p->path ? strlen(p->path) : 0;
		if (!covers(p, path)) continue;
		p->met = true;
		if (size < best) continue;
		best = size;
		side = p->side;
	}
	return side;
}

static const found *found_of(const merging *m, size_t *count)
{
	*count = m->found.size / sizeof(found);
	return (const found *)(const void *)m->found.bytes;
}

/* The answers contradict each other: what was settled is open again. */
static void reopen(merging *m, const char *path)
{
	found *all = (found *)(void *)m->found.bytes;
	size_t count = m->found.size / sizeof(found), kept = 0;
	for (size_t i = 0; i < count; i++) {
		if (strcmp(all[i].path, path) != 0) all[kept++] = all[i];
		else free(all[i].path);
	}
	m->found.size = kept * sizeof(found);
}

static cb_prefer resolve(void *context, const cb_conflict *conflict)
{
	merging *m = context;
	cb_prefer side = choose(m, conflict->path);
	if (conflict->contradicts) reopen(m, conflict->path);
	found f = {mem_strdup(conflict->path), conflict->reason, conflict->contradicts ? CB_PREFER_NONE : side,
	           conflict->contradicts};
	if (!f.path || buf_append(&m->found, &f, sizeof(f), NULL) != CB_OK) {
		free(f.path);
		m->failed = true;
	}
	return f.side;
}

/* ---- telling ---- */

/* The path that the conflict about theirs' path is told by, where both renamed the file; NULL: there is none. */
static const char *told_as(const merging *m, const sides *s, const char *path)
{
	size_t count;
	const found *all = found_of(m, &count);
	cb_stat_info there = CB_INIT(cb_stat_info), here = CB_INIT(cb_stat_info);
	if (path[0] != '/' || cb_stat(s->theirs, path, CB_NOFOLLOW, &there, NULL) != CB_OK) return NULL;
	for (size_t i = 0; i < count; i++)
		if (all[i].path[0] == '/' && cb_stat(s->ours, all[i].path, CB_NOFOLLOW, &here, NULL) == CB_OK &&
		    here.ino == there.ino)
			return all[i].path;
	return NULL;
}

/* Likely a slip of the pen. */
static void tell_unmet(cli *c, const merging *m, const sides *s)
{
	for (size_t i = 0; i < m->wish_count; i++) {
		const char *path = m->wishes[i].path;
		if (!path || m->wishes[i].met) continue;
		const char *told = told_as(m, s, path);
		if (told) cli_note(c, "--prefer %s=...: that conflict is told as %s, its name in %s", path, told, s->into);
		else cli_note(c, "--prefer %s=...: there is no conflict", path);
	}
}

static cb_code tell_conflicts(cli *c, const merging *m, const sides *s, cb_error *err)
{
	size_t count, open = 0;
	bool contradict = false;
	const found *all = found_of(m, &count);
	for (size_t i = 0; i < count; i++) {
		if (all[i].side != CB_PREFER_NONE) continue;
		cli_conflict(c, all[i].path, all[i].reason, all[i].contradicts);
		contradict = contradict || all[i].contradicts;
		open++;
	}
	tell_unmet(c, m, s);
	/* They come up only when everything was answered. */
	if (contradict)
		cli_hint(c, "answer these for the same box as the other paths, or all for one: --prefer %s or --prefer %s alone",
		         s->from, s->into);
	else
		cli_hint(c,
		         "choose with --prefer %s or --prefer %s, one by one with --prefer PATH=BOX or --prefer \"key 'NAME'=BOX\"",
		         s->from, s->into);
	return cb_err_set(err, CB_CONFLICT, "merging %s into %s: %zu conflict%s, nothing was changed", s->from_text, s->into, open,
	                  open == 1 ? "" : "s");
}

static void tell_resolved(cli *c, const merging *m, const sides *s)
{
	size_t count;
	const found *all = found_of(m, &count);
	if (cli_is_json(c)) json_member_array(cli_json(c), "resolved");
	for (size_t i = 0; i < count; i++) {
		const char *taken = all[i].side == CB_PREFER_OURS ? s->into : s->from;
		if (cli_is_json(c)) {
			json_object_begin(cli_json(c));
			json_member_str(cli_json(c), "path", all[i].path);
			json_member_str(cli_json(c), "reason", all[i].reason);
			json_member_str(cli_json(c), "preferred", taken);
			json_object_end(cli_json(c));
		} else if (!cli_is_quiet(c)) {
			cli_print(c, "resolved: ");
			cli_print_path(c, all[i].path);
			cli_print(c, ": %s; %s preferred\n", all[i].reason, taken);
		}
	}
	if (cli_is_json(c)) json_array_end(cli_json(c));
}

static cb_code count_change(void *context, const cb_change *change, cb_error *err)
{
	(void)change;
	(void)err;
	++*(uint64_t *)context;
	return CB_OK;
}

static cb_code tell_merged(cli *c, cb_box *into, const merging *m, const sides *s, const cb_box_info *from, uint64_t seq, bool dry,
                           cb_error *err)
{
	uint64_t changes = 0;
	if (seq) CB_TRY(cb_diff_step(into, seq, NULL, count_change, &changes, err));
	json_writer *w = cli_is_json(c) ? cli_json(c) : NULL;
	if (w) {
		json_object_begin(w);
		json_member_str(w, "box", s->into);
		json_member_str(w, "from", s->from);
		json_member_uint(w, "from_step", from->seq);
		json_member_bool(w, "dry_run", dry);
		json_member_uint(w, "step", seq);
		json_member_uint(w, "change_count", changes);
	}
	tell_resolved(c, m, s);
	tell_unmet(c, m, s);
	if (m->nothing)
		cli_note(c, "nothing to merge: %s knows all of %s; what it changed or undid since stays so", s->into, s->from_text);
	if (w) json_object_end(w);
	if (w || cli_is_quiet(c) || m->nothing) return CB_OK;
	if (dry) cli_print(c, "%s@%llu merges into %s without open conflicts\n", s->from, (unsigned long long)from->seq, s->into);
	else
		cli_print(c, "step %llu: merged %s@%llu into %s (%llu change%s)\n", (unsigned long long)seq, s->from,
		          (unsigned long long)from->seq, s->into, (unsigned long long)changes, changes == 1 ? "" : "s");
	return CB_OK;
}

static cb_code open_into(cli *c, const char *into, cb_box **out, cb_error *err)
{
	const char *chosen = NULL;
	cb_code code = into ? CB_OK : cli_chosen(c, &chosen, err);
	if (code == CB_INVALID) cli_hint(c, "name the box to merge into with --into BOX, or choose it with 'cowbox use BOX'");
	if (code != CB_OK) return code;
	return cli_open_writable(c, into, CLI_BOX, out, NULL, err);
}

static cb_code run_merge(cli *c, const cli_call *call, cb_error *err)
{
	const char *text = cli_operand_text(call, "FROM");
	cb_box *from = NULL, *into = NULL;
	cb_box_info from_info = CB_INIT(cb_box_info), into_info = CB_INIT(cb_box_info);
	uint64_t seq = 0, conflicts = 0;
	AUTO_MERGING merging m = {.found = BUF_INIT(SIZE_MAX)};
	CB_TRY(step_open(c, text, CLI_STATE, &from, NULL, &from_info, err));
	CB_TRY(open_into(c, cli_text(call, "into"), &into, err));
	CB_TRY(cb_box_info_get(into, &into_info, err));
	if (from_info.id == into_info.id && !strchr(text, '@')) {
		if (from_info.origin[0]) cli_hint(c, "'cowbox merge %s --into %s' merges into its origin", text, from_info.origin);
		return cb_err_set(err, CB_INVALID, "'%s' cannot be merged into itself", text);
	}
	sides s = {text, from_info.name, into_info.name, from, into};
	CB_TRY(parse_wishes(c, call, &s, &m, err));
	bool dry = cli_flag(call, "dry-run");
	cb_merge_options options = CB_WITH(cb_merge_options, .resolve = resolve, .context = &m, .dry_run = dry);
	cb_code code = cb_merge(into, from, &options, &seq, &conflicts, err);
	if (m.failed) return cb_err_nomem(err);
	if (code == CB_INVALID && from_info.id != into_info.id) /* no common past */
		cli_hint(c, "'cowbox restore %s:/PATH --into %s' brings over a file or folder as it is there", text,
		         into_info.name);
	if (code == CB_CONFLICT && conflicts > 0) return tell_conflicts(c, &m, &s, err);
	/* As restore of what is there already: the boxes are as they were asked to be. */
	m.nothing = code == CB_NOTHING;
	if (m.nothing) seq = 0;
	else if (code != CB_OK) return code;
	return tell_merged(c, into, &m, &s, &from_info, dry ? 0 : seq, dry, err);
}

const cli_command cmd_merge = {
	.name = "merge",
	.group = "History",
	.summary = "merge the changes of one box into another",
	.text = "What changed in FROM since the two parted, or were last merged, enters the box as one step. Files merge line by "
		"line, "
		"folders and key-values one by one. What both changed differently is a conflict: all are listed, nothing is "
		"changed, and "
		"the exit status is 9. When there is nothing to merge that is said, and no step is made. "
		"What the box had and undid or took away since stays so, also where FROM still has it: 'cowbox redo', or "
		"'cowbox restore FROM:/PATH --into BOX', brings it back.\n\n"
		"--prefer BOX settles every conflict for one of the two: what is in conflict is taken from it whole, a text with "
		"all its lines, "
		"and paths that are in none are merged as ever; "
		"--prefer PATH=BOX (or \"key "
		"'NAME'=BOX\") those of a "
		"file, or of "
		"everything below a folder; the longest path counts. Who gets a name gets it whole: where the other has a folder "
		"there that "
		"is in its way, what only that side has in it goes. Where such answers contradict each other, so that something "
		"would "
		"be left no place or a path other than it was answered, that is a conflict too.",
	.operands = (const cli_operand[]){{CLI_STATE, "FROM", false, false, "a box, or a state of one"}, {0}},
	.options = (const cli_option[]){{CLI_TEXT, "into", 0, "BOX", "the box that is changed (default: the chosen one)"},
                                        {CLI_LIST, "prefer", 0, "[PATH=]BOX", "whose side wins where both changed the same"},
                                        {CLI_FLAG, "dry-run", 'n', NULL, "list the conflicts, change nothing"},
                                        {0}},
	.examples =
		(const char *const[]){"cowbox merge try-1 --into demo", "cowbox merge try-1 --into demo --prefer try-1",
                                      "cowbox merge try-1 --into demo --prefer demo --prefer /work/a.txt=try-1 --dry-run", NULL},
	.json = "box step        the box and its new step; 0 with --dry-run or when there was nothing to merge\n"
		"from from_step  what was merged\n"
		"dry_run         whether nothing was to be changed\n"
		"change_count    how many paths and keys changed\n"
		"resolved        conflicts settled by --prefer; for each: path, reason, preferred\n"
		"notes           that there was nothing to merge; "
		"answers (--prefer PATH=BOX) for which there was no conflict, or one that is told by another path\n"
		"When conflicts are open the error object has conflicts; for each: path, reason, and contradicts (true) where "
		"answers contradict each other.",
	.run = run_merge,
};
