/* cmd_apply.c: what a box changed, back to the folder it came from. */
#include "cli/cli.h"

#include <string.h>

/* An item as it was visited: the caller sees all of them before anything is written, and tells them afterwards. */
typedef struct item {
	cb_apply_item i;
	char *path, *target, *reason; /* owned */
} item;

typedef struct telling {
	cli *c;
	buf items;
	const char *box;
} telling;

static void telling_done(telling *t)
{
	item *all = (item *)(void *)t->items.bytes;
	for (size_t k = 0; k < t->items.size / sizeof(item); k++) {
		free(all[k].path);
		free(all[k].target);
		free(all[k].reason);
	}
	buf_done(&t->items);
}

static cb_code collect(void *context, const cb_apply_item *i, cb_error *err)
{
	telling *t = context;
	item one = {.i = *i, .path = mem_strdup(i->path), .reason = mem_strdup(i->reason)};
	if (i->target) one.target = mem_strdup(i->target);
	bool whole = one.path && one.reason && (one.target || !i->target);
	cb_code code = whole ? buf_append(&t->items, &one, sizeof(one), err) : cb_err_nomem(err);
	if (code != CB_OK) {
		free(one.path);
		free(one.target);
		free(one.reason);
	}
	return code;
}

static const item *items_of(const telling *t, size_t *count)
{
	*count = t->items.size / sizeof(item);
	return (const item *)(const void *)t->items.bytes;
}

/* ---- for people ---- */

static cli_style kind_style(cb_change_kind kind)
{
	return kind == CB_ADDED ? CLI_GREEN : kind == CB_DELETED ? CLI_RED : CLI_YELLOW;
}

static void print_item(cli *c, const item *k, const char *after)
{
	cli_print(c, "  %s%c%s ", cli_on(c, kind_style(k->i.kind)), (char)k->i.kind, cli_off(c));
	cli_print_name(c, k->path);
	if (k->i.type == CB_DIR) cli_print(c, "/");
	if (k->target) {
		cli_print(c, " -> ");
		cli_print_name(c, k->target);
	}
	cli_print(c, "%s\n", after);
}

typedef bool (*item_filter)(const item *k);

static bool is_written(const item *k)
{
	return k->i.status == CB_APPLY_WRITE;
}

static bool is_executable(const item *k)
{
	return k->i.status == CB_APPLY_WRITE && k->i.new_executable;
}

static bool is_symlink(const item *k)
{
	return k->i.status == CB_APPLY_WRITE && k->i.new_symlink;
}

static bool is_held(const item *k)
{
	return k->i.status == CB_APPLY_HELD;
}

static bool is_changed(const item *k)
{
	return k->i.status == CB_APPLY_CHANGED;
}

/* A heading and the items it is about; nothing when there are none. */
static void print_part(const telling *t, const char *heading, item_filter filter)
{
	size_t count, shown = 0;
	const item *all = items_of(t, &count);
	for (size_t k = 0; k < count; k++) {
		if (!filter(&all[k])) continue;
		if (shown++ == 0) cli_print(t->c, "%s%s%s\n", cli_on(t->c, CLI_BOLD), heading, cli_off(t->c));
		char after[160] = "";
		if (filter == is_held || filter == is_changed) (void)snprintf(after, sizeof(after), "  (%s)", all[k].reason);
		else if (filter == is_symlink && all[k].i.leaves) (void)snprintf(after, sizeof(after), "  (out of the folder)");
		print_item(t->c, &all[k], after);
	}
}

static void print_plan(const telling *t, bool dry, bool force)
{
	print_part(t, dry ? "would be written:" : "written:", is_written);
	print_part(t, "new executables among them:", is_executable);
	print_part(t, "new symbolic links among them:", is_symlink);
	if (force)
		print_part(t, dry ? "would be written over what changed on the host:" : "written over what changed on the host:",
		           is_changed);
	else if (dry) print_part(t, "changed on the host since, so refused without --force:", is_changed);
	print_part(t, "held back, since the host runs them by itself; --allow PATH writes them:", is_held);
}

static uint64_t count_of(const telling *t, item_filter filter)
{
	size_t count;
	uint64_t n = 0;
	const item *all = items_of(t, &count);
	for (size_t k = 0; k < count; k++) n += filter(&all[k]);
	return n;
}

/* ---- as JSON ---- */

static const char *status_name(cb_apply_status status)
{
	switch (status) {
	case CB_APPLY_WRITE:
		return "write";
	case CB_APPLY_SAME:
		return "same";
	case CB_APPLY_HELD:
		return "held";
	case CB_APPLY_CHANGED:
		return "changed";
	}
	return "";
}

static const char *kind_name(cb_change_kind kind)
{
	return kind == CB_ADDED ? "added" : kind == CB_DELETED ? "deleted" : kind == CB_ATTRS ? "attributes" : "modified";
}

static void json_item(json_writer *w, const item *k)
{
	char mode[8];
	(void)snprintf(mode, sizeof(mode), "%04o", (unsigned)k->i.mode & 07777);
	json_object_begin(w);
	json_member_str(w, "path", k->path);
	json_member_str(w, "status", status_name(k->i.status));
	json_member_str(w, "kind", kind_name(k->i.kind));
	json_member_str(w, "type", k->i.type == CB_DIR ? "folder" : k->i.type == CB_SYMLINK ? "symlink" : "file");
	json_member_str(w, "mode", mode);
	json_member_uint(w, "size", k->i.size);
	if (k->reason[0]) json_member_str(w, "reason", k->reason);
	if (k->i.new_executable) json_member_bool(w, "new_executable", true);
	if (k->i.new_symlink) json_member_bool(w, "new_symlink", true);
	if (k->target) json_member_str(w, "target", k->target);
	if (k->i.leaves) json_member_bool(w, "leaves", true);
	json_object_end(w);
}

static void json_result(const telling *t, const char *folder, bool dry, const cb_apply_result *r)
{
	json_writer *w = cli_json(t->c);
	size_t count;
	const item *all = items_of(t, &count);
	json_object_begin(w);
	json_member_str(w, "box", t->box);
	json_member_str(w, "folder", folder);
	json_member_bool(w, "dry_run", dry);
	json_member_uint(w, "step", r->seq);
	json_member_uint(w, "written", r->written);
	json_member_uint(w, "removed", r->removed);
	json_member_uint(w, "same", r->same);
	json_member_uint(w, "held", r->held);
	json_member_uint(w, "conflicting", r->changed);
	json_member_array(w, "items");
	for (size_t k = 0; k < count; k++) json_item(w, &all[k]);
	json_array_end(w);
	json_object_end(w);
}

/* ---- running ---- */

static cb_code tell_refused(telling *t, const char *folder, cb_error *err)
{
	size_t count;
	const item *all = items_of(t, &count);
	uint64_t changed = count_of(t, is_changed);
	if (changed == 0) return CB_CONFLICT; /* it changed while it was written: the library's line says it */
	for (size_t k = 0; k < count; k++)
		if (is_changed(&all[k])) cli_conflict(t->c, all[k].path, all[k].reason, false);
	cli_hint(t->c,
	         "'cowbox import %s %s' brings them into the box, 'cowbox apply %s PATH' writes chosen paths, --force overwrites "
	         "them",
	         folder, t->box, t->box);
	return cb_err_set(err, CB_CONFLICT, "applying %s: %llu path%s changed on the host since, nothing was written", t->box,
	                  (unsigned long long)changed, changed == 1 ? "" : "s");
}

static void print_summary(const telling *t, const char *folder, bool dry, const cb_apply_result *r)
{
	if (cli_is_quiet(t->c)) return;
	if (dry) cli_print(t->c, "nothing was written to %s: this was a dry run\n", folder);
	else if (r->written || r->removed)
		cli_print(t->c, "step %llu: %llu written to and %llu removed from %s\n", (unsigned long long)r->seq,
		          (unsigned long long)r->written, (unsigned long long)r->removed, folder);
	else if (r->held) cli_print(t->c, "everything but what is held back is in %s already\n", folder);
	else cli_print(t->c, "%s has all of it already\n", folder);
}

/* The folder that is meant; lent until the end. */
static cb_code folder_of(cli *c, const cli_call *call, cb_box *box, const char **out, cb_error *err)
{
	char *host = NULL, *path = NULL;
	bool exists = false;
	*out = cli_text(call, "to");
	if (*out) return cli_host_folder(*out, &exists, err);
	cb_code code = cb_folder_get(box, &host, &path, err);
	if (code == CB_NOTFOUND) cli_hint(c, "name a folder with --to");
	if (code != CB_OK) return code;
	cli_keep(c, host);
	cli_keep(c, path);
	*out = host;
	return CB_OK;
}

/* The first word may be a box or already a path: "demo", "demo:a.txt", ":a.txt", "src/a.c". *out_path is "" when it has none. */
static cb_code open_first(cli *c, const char *text, cb_box **out, const char **out_path, cb_error *err)
{
	bool is_path = text && !cli_address_is_box(text) && strchr(text, '/');
	CB_TRY(cli_open(c, is_path ? NULL : text, CLI_PLACE, out, out_path, err));
	if (is_path) *out_path = text;
	return CB_OK;
}

/* *out: free() it; the texts are lent. */
static cb_code paths_of(cli *c, const cli_call *call, const char *first, const char ***out, size_t *out_count, cb_error *err)
{
	const char *const *given = NULL;
	size_t count = cli_operand_list(call, "PATH", &given), n = 0;
	AUTO_FREE const char **paths = mem_alloc((count + 1) * sizeof(*paths));
	if (!paths) return cb_err_nomem(err);
	if (*first) paths[n++] = first;
	for (size_t i = 0; i < count; i++) {
		const char *path = given[i];
		cli_address address = {0};
		if (cli_address_is_box(path)) {
			CB_TRY(cli_address_parse(path, CLI_PATH, &address, err));
			if (address.box[0] || address.state[0])
				return cli_usage(c, err, "'%.128s' names a box: it stands first", path);
			path = address.path;
		}
		paths[n++] = path;
	}
	*out = TAKE_PTR(paths);
	*out_count = n;
	return CB_OK;
}

static cb_code run_apply(cli *c, const cli_call *call, cb_error *err)
{
	ATTR_CLEANUP(telling_done) telling t = {.c = c, .items = BUF_INIT(SIZE_MAX)};
	cb_box *box = NULL;
	cb_box_info info = CB_INIT(cb_box_info);
	const char *folder = NULL;
	cb_apply_options o = CB_WITH(cb_apply_options, .folder = cli_text(call, "to"), .force = cli_flag(call, "force"),
	                             .dry_run = cli_flag(call, "dry-run"));
	const char *first = "";
	AUTO_FREE const char **paths = NULL;
	CB_TRY(open_first(c, cli_operand_text(call, "BOX"), &box, &first, err));
	CB_TRY(paths_of(c, call, first, &paths, &o.path_count, err));
	o.paths = paths;
	CB_TRY(cb_box_info_get(box, &info, err));
	t.box = info.name;
	CB_TRY(folder_of(c, call, box, &folder, err));
	o.allow_count = cli_list(call, "allow", &o.allow);
	o.watch = cli_watch(c, "applying");
	cb_apply_result result = CB_INIT(cb_apply_result);
	cb_code code = cb_apply(box, &o, collect, &t, &result, err);
	cli_watch_done(c);
	if (code == CB_CONFLICT && !o.force) return tell_refused(&t, folder, err);
	if (code != CB_OK && code != CB_NOTHING) return code;
	if (cli_is_json(c)) {
		json_result(&t, folder, o.dry_run, &result);
		return CB_OK;
	}
	if (!cli_is_quiet(c)) print_plan(&t, o.dry_run, o.force);
	if (code == CB_NOTHING) o.dry_run = false; /* "has all of it already" is the whole answer */
	print_summary(&t, folder, o.dry_run, &result);
	return CB_OK;
}

const cli_command cmd_apply = {
	.name = "apply",
	.group = "To and from the host",
	.summary = "write what a box changed back to the folder it came from",
	.text = "Only what the box changed since the import or the last apply is written. A file that changed on the host since is "
		"refused, and then "
		"nothing is written at all; --force overwrites it. Files of the host that the box does not know of are never "
		"removed. The folder of the store, where it lies in this one, is left alone, and that is said.\n\n"
		"What the host runs by itself (git hooks and configuration, .envrc, tasks of editors, settings of agents, start "
		"files of shells) is "
		"held back and listed; --allow PATH, a file or a folder, writes it. New executables and symbolic links are listed "
		"apart. Setuid bits "
		"stay in the box.\n\n"
		"Each file appears whole, no symbolic link of the host is followed, and after a kill the same command goes on. The "
		"step is a record: "
		"undo skips it.",
	.operands = (const cli_operand[]){{CLI_PLACE, "BOX", true, false,
                                           "the box, or a state of it, or the first path (default: the chosen box)"},
                                          {CLI_WORD, "PATH", true, true, "only these, in the box or relative to its folder"},
                                          {0}},
	.options = (const cli_option[]){{CLI_FLAG, "dry-run", 'n', NULL, "show what would be written, write nothing"},
                                        {CLI_FLAG, "force", 'f', NULL, "also over what changed on the host since"},
                                        {CLI_LIST, "allow", 0, "PATH", "write this although the host runs it by itself"},
                                        {CLI_TEXT, "to", 0, "FOLDER", "another folder, which becomes the box's own"},
                                        {0}},
	.examples = (const char *const[]){"cowbox apply demo --dry-run", "cowbox apply demo",
                                          "cowbox apply demo src/main.c --force", "cowbox apply demo --allow .vscode", NULL},
	.json = "box folder  what was applied, and where to\n"
		"dry_run     whether nothing was to be written\n"
		"step        the record of it; 0 when nothing was written\n"
		"written removed same held conflicting  how many\n"
		"items       for each: path, status (write, same, held, changed), kind (added, deleted, modified, attributes), "
		"type, mode, size; and where it\n"
		"            applies reason, new_executable, new_symlink, target, leaves (the link points out of the folder)\n"
		"When paths changed on the host the error object has conflicts; for each: path, reason.",
	.run = run_apply,
};
