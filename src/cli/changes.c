/* changes.c: a difference is gathered once, in the library's order, and then printed in one of its shapes. */
#include "cli/changes.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const char *const hidden_folders[] = {"/home/agent", "/tmp"};

typedef struct row {
	cb_change change; /* path, old_path and, once all are gathered, its infos: of this row */
	cb_stat_info old_info, new_info;
	bool counted; /* has a line count */
	bool binary;
	uint64_t added, removed;
} row;

typedef struct gathering {
	const changes_options *options;
	buf rows;
	size_t next; /* the row a count belongs to, or one after it */
	uint64_t left_out;
} gathering;

static row *rows_of(const gathering *g, size_t *count)
{
	*count = g->rows.size / sizeof(row);
	return (row *)(void *)g->rows.bytes;
}

static void gathering_done(gathering *g)
{
	size_t count;
	row *rows = rows_of(g, &count);
	for (size_t i = 0; i < count; i++) {
		free((void *)(uintptr_t)rows[i].change.path);
		free((void *)(uintptr_t)rows[i].change.old_path);
	}
	buf_done(&g->rows);
}
#define AUTO_GATHERING ATTR_CLEANUP(gathering_done)

/* ---- which changes ---- */

cb_code changes_path(const char *path, char **out, cb_error *err)
{
	size_t size = strlen(path), n = 0;
	char *clean = mem_alloc(size + 2);
	if (!clean) return cb_err_nomem(err);
	for (const char *at = path; *at;) {
		while (*at == '/') at++;
		size_t part = strcspn(at, "/");
		if (part == 2 && memcmp(at, "..", 2) == 0) {
			while (n > 0 && clean[--n] != '/') continue;
		} else if (part > 0 && !(part == 1 && *at == '.')) {
			clean[n++] = '/';
			memcpy(clean + n, at, part);
			n += part;
		}
		at += part;
	}
	if (n == 0) clean[n++] = '/';
	clean[n] = 0;
	*out = clean;
	return CB_OK;
}

bool changes_within(const char *path, const char *folder)
{
	size_t n = strlen(folder);
	if (n == 1) return true; /* "/" */
	return path && strncmp(path, folder, n) == 0 && (path[n] == 0 || path[n] == '/');
}

static bool is_wanted(const changes_options *o, const cb_change *change)
{
	if (o->path_count == 0) return true;
	if (change->kind == CB_KEYVALUE) return false;
	for (size_t i = 0; i < o->path_count; i++)
		if (changes_within(change->path, o->paths[i]) ||
		    (change->old_path && changes_within(change->old_path, o->paths[i])))
			return true;
	return false;
}

/* Is this hidden folder, or something in it, or one above it that is not the root, asked for by name? */
static bool is_named(const changes_options *o, const char *folder)
{
	for (size_t i = 0; i < o->path_count; i++)
		if (o->paths[i][1] && (changes_within(o->paths[i], folder) || changes_within(folder, o->paths[i]))) return true;
	return false;
}

static bool is_hidden(const changes_options *o, const char *path)
{
	for (size_t i = 0; i < ARRAY_LEN(hidden_folders); i++)
		if (changes_within(path, hidden_folders[i]) && !is_named(o, hidden_folders[i])) return true;
	return false;
}

static bool is_left_out(const changes_options *o, const cb_change *change)
{
	if (o->all || change->kind == CB_KEYVALUE || !is_hidden(o, change->path)) return false;
	return !change->old_path || is_hidden(o, change->old_path);
}

static bool is_skipped(void *context, const cb_change *change)
{
	return !is_wanted(context, change) || is_left_out(context, change);
}

/* ---- gathering ---- */

static cb_code gather_change(void *context, const cb_change *change, cb_error *err)
{
	gathering *g = context;
	if (!is_wanted(g->options, change)) return CB_OK;
	if (is_left_out(g->options, change)) {
		g->left_out++;
		return CB_OK;
	}
	AUTO_FREE char *path = mem_strdup(change->path), *old_path = change->old_path ? mem_strdup(change->old_path) : NULL;
	if (!path || (change->old_path && !old_path)) return cb_err_nomem(err);
	row r = {.change = *change, .old_info = *change->old_info, .new_info = *change->new_info};
	r.change.path = path;
	r.change.old_path = old_path;
	CB_TRY(buf_append(&g->rows, &r, sizeof(r), err));
	path = old_path = NULL;
	return CB_OK;
}

/* Rows move while they are gathered, and stay afterwards. */
static void gathered(gathering *g)
{
	size_t count;
	row *rows = rows_of(g, &count);
	for (size_t i = 0; i < count; i++) {
		rows[i].change.old_info = &rows[i].old_info;
		rows[i].change.new_info = &rows[i].new_info;
	}
}

/* Counts come in the order of the changes, for some of them. */
static cb_code gather_count(void *context, const cb_change_stat *stat, cb_error *err)
{
	(void)err;
	gathering *g = context;
	size_t count;
	row *rows = rows_of(g, &count);
	if (is_skipped((void *)(uintptr_t)g->options, stat->change)) return CB_OK;
	while (g->next < count && strcmp(rows[g->next].change.path, stat->change->path) != 0) g->next++;
	if (g->next == count) return CB_OK;
	row *r = &rows[g->next++];
	r->counted = true;
	r->binary = stat->binary;
	r->added = stat->added;
	r->removed = stat->removed;
	return CB_OK;
}

/* ---- names ---- */

static bool is_folder(const cb_change *change)
{
	return change->has_new ? change->new_info->type == CB_DIR : change->has_old && change->old_info->type == CB_DIR;
}

static cli_style kind_style(cb_change_kind kind)
{
	switch (kind) {
	case CB_ADDED:
		return CLI_GREEN;
	case CB_DELETED:
		return CLI_RED;
	case CB_MODIFIED:
		return CLI_YELLOW;
	case CB_ATTRS:
		return CLI_CYAN;
	case CB_RENAMED:
		return CLI_BLUE;
	case CB_KEYVALUE:
		return CLI_MAGENTA;
	}
	return CLI_PLAIN;
}

/* The end of a name in a list is a NUL, and then it needs no quotes. */
static void print_listed(cli *c, const gathering *g, const char *path)
{
	if (g->options->nul) cli_print_name(c, path);
	else cli_print_path(c, path);
}

static void print_names(cli *c, const gathering *g, bool status)
{
	size_t count;
	const row *rows = rows_of(g, &count);
	const char *between = g->options->nul ? "" : "\t";
	size_t between_size = 1, end_size = 1;
	const char *end = g->options->nul ? "" : "\n";
	for (size_t i = 0; i < count; i++) {
		const cb_change *change = &rows[i].change;
		cli_style style = kind_style(change->kind);
		if (status) cli_print(c, "%s%c%s", cli_on(c, style), (char)change->kind, cli_off(c));
		if (status) cli_write(c, between, between_size);
		if (status && change->old_path) print_listed(c, g, change->old_path);
		if (status && change->old_path) cli_write(c, between, between_size);
		print_listed(c, g, change->path);
		cli_write(c, end, end_size);
	}
}

/* ---- stat ---- */

static size_t screen_width(const cli *c)
{
	struct winsize size = {0};
	if (!cli_is_terminal(c) || ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 40) return 80;
	return size.ws_col;
}

static size_t name_width(const cli *c, const row *r)
{
	size_t width = cli_path_width(c, r->change.path) + (r->change.old_path ? cli_path_width(c, r->change.old_path) + 4 : 0);
	return r->change.kind == CB_KEYVALUE ? width + 4 : width;
}

static void print_marks(cli *c, const row *r, uint64_t most, size_t room)
{
	uint64_t total = r->added + r->removed;
	uint64_t plus = r->added, minus = r->removed;
	if (most > room && total > 0) { /* at least one mark of each kind that is there */
		uint64_t marks = total * room / most;
		if (marks < 2) marks = total < 2 ? total : 2;
		plus = r->added * marks / total;
		if (plus == 0 && r->added) plus = 1;
		if (plus == marks && r->removed) plus--;
		minus = marks - plus;
	}
	cli_print(c, "%s", cli_on(c, CLI_GREEN));
	for (uint64_t i = 0; i < plus; i++) cli_write(c, "+", 1);
	cli_print(c, "%s%s", cli_off(c), cli_on(c, CLI_RED));
	for (uint64_t i = 0; i < minus; i++) cli_write(c, "-", 1);
	cli_print(c, "%s", cli_off(c));
}

static const char *change_word(const cb_change *change)
{
	if (!change->has_old) return "added";
	if (!change->has_new) return "removed";
	return change->kind == CB_ATTRS ? "attributes" : change->kind == CB_RENAMED ? "moved" : "changed";
}

static void print_stat_row(cli *c, const row *r, size_t width, uint64_t most, size_t room)
{
	char old_size[CLI_FORMAT_MAX], new_size[CLI_FORMAT_MAX];
	const cb_change *change = &r->change;
	cli_print(c, " ");
	if (change->kind == CB_KEYVALUE) cli_print(c, "key ");
	if (change->old_path) cli_print_path(c, change->old_path);
	if (change->old_path) cli_print(c, " => ");
	cli_print_path(c, change->path);
	for (size_t n = name_width(c, r); n < width; n++) cli_write(c, " ", 1);
	cli_print(c, " | ");
	if (r->binary) {
		cli_print(c, "Bin %s -> %s", cli_size_words(c, change->has_old ? change->old_info->size : 0, old_size),
		          cli_size_words(c, change->has_new ? change->new_info->size : 0, new_size));
	} else if (r->counted && (r->added || r->removed)) {
		cli_print(c, "%llu ", (unsigned long long)(r->added + r->removed));
		print_marks(c, r, most, room);
	} else {
		cli_print(c, "%s", change_word(change));
	}
	cli_print(c, "\n");
}

static void print_stat(cli *c, const gathering *g)
{
	size_t count, width = 0, screen = screen_width(c);
	const row *rows = rows_of(g, &count);
	uint64_t most = 0, added = 0, removed = 0, files = 0, keys = 0;
	for (size_t i = 0; i < count; i++) {
		size_t n = name_width(c, &rows[i]);
		if (n > width && n <= screen / 2) width = n;
		if (rows[i].added + rows[i].removed > most) most = rows[i].added + rows[i].removed;
		added += rows[i].added;
		removed += rows[i].removed;
		if (rows[i].change.kind == CB_KEYVALUE) keys++;
		else files++;
	}
	size_t room = screen > width + 16 ? screen - width - 16 : 10;
	for (size_t i = 0; i < count; i++) print_stat_row(c, &rows[i], width, most, room);
	if (count == 0) return;
	cli_print(c, " %llu path%s changed", (unsigned long long)files, files == 1 ? "" : "s");
	if (keys) cli_print(c, ", %llu key%s changed", (unsigned long long)keys, keys == 1 ? "" : "s");
	if (added) cli_print(c, ", %llu line%s added", (unsigned long long)added, added == 1 ? "" : "s");
	if (removed) cli_print(c, ", %llu line%s removed", (unsigned long long)removed, removed == 1 ? "" : "s");
	cli_print(c, "\n");
}

/* ---- patch ---- */

static bool executable(const cb_stat_info *info)
{
	return (info->mode & 0100) != 0; /* as git has it */
}

/* A folder is seen in the patch when something in it is. */
static bool is_empty_folder(const row *rows, size_t count, size_t i)
{
	size_t n = strlen(rows[i].change.path);
	for (size_t j = i + 1; j < count && strncmp(rows[j].change.path, rows[i].change.path, n) == 0; j++)
		if (rows[j].change.path[n] == '/' && !is_folder(&rows[j].change)) return false;
	return true;
}

/* Does the patch have words for it? */
static bool is_told(const row *rows, size_t count, size_t i)
{
	const cb_change *change = &rows[i].change;
	if (change->kind == CB_KEYVALUE) return false;
	return change->kind == CB_ATTRS || !is_folder(change) || !is_empty_folder(rows, count, i);
}

/* git knows two modes of files and none of folders; where it says none, the mode is that of the old one. */
static bool is_mode_told(const cb_change *change)
{
	const cb_stat_info *a = change->old_info, *b = change->new_info;
	if (change->kind == CB_KEYVALUE || !change->has_new || b->type == CB_SYMLINK) return true;
	bool stays = change->has_old && a->type == b->type;
	if (stays && a->mode == b->mode) return true;
	if (b->type == CB_DIR) return !stays && b->mode == 0755;
	return (!stays || executable(a) != executable(b)) && b->mode == (executable(b) ? 0755 : 0644);
}

static void print_mode(cli *c, const cb_change *change)
{
	bool stays = change->has_old && change->old_info->type == change->new_info->type;
	cli_print(c, "mode ");
	if (stays) cli_print(c, "%04o to ", (unsigned)change->old_info->mode);
	cli_print(c, "%04o", (unsigned)change->new_info->mode);
}

/* What git's format has no words for, as comments behind the patch: tools that read patches pass over them. Times alone are no news. */
static void print_untold(cli *c, const gathering *g)
{
	size_t count;
	const row *rows = rows_of(g, &count);
	for (size_t i = 0; i < count; i++) {
		const cb_change *change = &rows[i].change;
		const char *word = is_told(rows, count, i) ? NULL : change_word(change);
		bool attributes = change->has_new && change->attributes, mode = !is_mode_told(change);
		if (!word && !attributes && !mode) continue;
		cli_print(c, "%s# %s ", cli_on(c, CLI_CYAN),
		          change->kind == CB_KEYVALUE ? "key"
		          : is_folder(change)         ? "folder"
		                                      : "file");
		cli_print_path(c, change->path);
		cli_print(c, ": %s", word ? word : "");
		if (attributes) cli_print(c, "%sattributes", word ? ", " : "");
		if (mode && (word || attributes)) cli_print(c, ", ");
		if (mode) print_mode(c, change);
		cli_print(c, "%s\n", cli_off(c));
	}
}

/* ---- the text, and the changes as it tells them ---- */

typedef struct text_of_changes {
	const changes_options *options;
	gathering *told; /* NULL: nobody asks */
	cb_code code;    /* of gathering them */
	cb_error why;
} text_of_changes;

static bool hear_change(void *context, const cb_change *change)
{
	text_of_changes *t = context;
	if (is_skipped((void *)(uintptr_t)t->options, change)) return true;
	if (t->told && t->code == CB_OK) t->code = gather_change(t->told, change, cb_err_aside(&t->why));
	return false;
}

static cb_code patch_text(cb_box *from, cb_box *to, const changes_options *o, gathering *told, char **out, size_t *out_size,
                          cb_error *err)
{
	text_of_changes t = {.options = o, .told = told};
	cb_diff_text_options text = CB_WITH(cb_diff_text_options, .has_context = o->has_context, .context_lines = o->context_lines);
	text.skip = hear_change;
	text.context = &t;
	CB_TRY(cb_diff_text(from, to, &text, out, out_size, err));
	if (t.code != CB_OK) return cb_err_pass(err, t.code, &t.why);
	if (told) gathered(told);
	return CB_OK;
}

/* The text tells some changes otherwise than the list: what it has no words for is what its own changes have besides. */
static cb_code print_patch(cli *c, cb_box *from, cb_box *to, const changes_options *o, cb_error *err)
{
	AUTO_FREE char *text = NULL;
	AUTO_GATHERING gathering told = {.options = o, .rows = BUF_INIT(SIZE_MAX)};
	size_t size = 0;
	CB_TRY(patch_text(from, to, o, &told, &text, &size, err));
	cli_print_diff(c, text, size);
	print_untold(c, &told);
	return CB_OK;
}

/* ---- JSON ---- */

const char *change_kind_name(cb_change_kind kind)
{
	switch (kind) {
	case CB_ADDED:
		return "added";
	case CB_DELETED:
		return "deleted";
	case CB_MODIFIED:
		return "modified";
	case CB_ATTRS:
		return "attributes";
	case CB_RENAMED:
		return "renamed";
	case CB_KEYVALUE:
		return "key";
	}
	return "";
}

static const char *type_name(cb_type type)
{
	return type == CB_DIR ? "folder" : type == CB_SYMLINK ? "symlink" : "file";
}

static void row_json(json_writer *w, const row *r)
{
	const cb_change *change = &r->change;
	char mode[8];
	json_object_begin(w);
	json_member_str(w, "kind", change_kind_name(change->kind));
	json_member_str(w, change->kind == CB_KEYVALUE ? "key" : "path", change->path);
	if (change->old_path) json_member_str(w, "old_path", change->old_path);
	if (change->kind == CB_KEYVALUE) {
		json_member_str(w, "key_change", change_word(change));
	} else {
		json_member_str(w, "type", type_name(change->has_new ? change->new_info->type : change->old_info->type));
		if (change->kind == CB_RENAMED) json_member_bool(w, "modified", change->modified);
		json_member_bool(w, "attributes_changed", change->attributes);
		if (change->has_old) (void)snprintf(mode, sizeof(mode), "%04o", (unsigned)change->old_info->mode & 07777);
		if (change->has_old) json_member_str(w, "old_mode", mode);
		if (change->has_old) json_member_uint(w, "old_size", change->old_info->size);
		if (change->has_new) (void)snprintf(mode, sizeof(mode), "%04o", (unsigned)change->new_info->mode & 07777);
		if (change->has_new) json_member_str(w, "mode", mode);
		if (change->has_new) json_member_uint(w, "size", change->new_info->size);
	}
	if (r->counted) {
		json_member_bool(w, "binary", r->binary);
		json_member_uint(w, "added", r->added);
		json_member_uint(w, "removed", r->removed);
	}
	json_object_end(w);
}

static void rows_json(json_writer *w, const gathering *g)
{
	size_t count;
	const row *rows = rows_of(g, &count);
	json_member_array(w, "changes");
	for (size_t i = 0; i < count; i++) row_json(w, &rows[i]);
	json_array_end(w);
	json_member_uint(w, "left_out", g->left_out);
}

/* ---- */

static void tell_count(const gathering *g, changes_count *out)
{
	if (out) *out = (changes_count){g->rows.size / sizeof(row), g->left_out};
}

cb_code changes_print(cli *c, cb_box *from, cb_box *to, const changes_options *options, changes_count *out, cb_error *err)
{
	AUTO_GATHERING gathering g = {.options = options, .rows = BUF_INIT(SIZE_MAX)};
	CB_TRY(cb_diff(from, to, NULL, gather_change, &g, err));
	gathered(&g);
	if (cli_is_json(c) || options->view == CHANGES_STAT) CB_TRY(cb_diff_stat(from, to, NULL, gather_count, &g, err));
	tell_count(&g, out);
	if (cli_is_json(c)) {
		AUTO_FREE char *text = NULL;
		size_t size = 0;
		rows_json(cli_json(c), &g);
		if (options->patch) CB_TRY(patch_text(from, to, options, NULL, &text, &size, err));
		if (options->patch) json_member_bytes(cli_json(c), "patch", text, size);
		return CB_OK;
	}
	if (options->view == CHANGES_PATCH) return print_patch(c, from, to, options, err);
	if (options->view == CHANGES_STAT) print_stat(c, &g);
	else print_names(c, &g, options->view == CHANGES_STATUS);
	return CB_OK;
}

cb_code changes_print_step(cli *c, cb_box *box, uint64_t seq, const changes_options *options, changes_count *out, cb_error *err)
{
	AUTO_GATHERING gathering g = {.options = options, .rows = BUF_INIT(SIZE_MAX)};
	CB_TRY(cb_diff_step(box, seq, NULL, gather_change, &g, err));
	gathered(&g);
	tell_count(&g, out);
	if (cli_is_json(c)) rows_json(cli_json(c), &g);
	else print_names(c, &g, options->view != CHANGES_NAMES);
	return CB_OK;
}

cb_code changes_lines(cli *c, cb_box *box, const cli_call *call, changes_options *out, cb_error *err)
{
	const char *text = "3";
	uint64_t lines = 0;
	CB_TRY(cli_config_get(c, box, "diff.context", &text, err));
	CB_TRY(cli_parse_count(text, &lines, err));
	lines = cli_number(call, "unified", lines);
	out->has_context = true;
	out->context_lines = lines > 1000000 ? 1000000 : (unsigned)lines;
	return CB_OK;
}
