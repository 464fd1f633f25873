/*
 * apply_plan.c: what an apply would do, as data.
 *
 * Candidates are the paths at which base and box differ. Each is judged by itself, as a three-way merge of whole files: the host has what
 * the box has: same; it has what the base has: to be written; anything else: changed. Then folders that are to go are looked into: one
 * that holds something the box does not know stays.
 */
#include "transfer/apply.h"

#include <assert.h>
#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

#include "base/entry.h"
#include "base/io.h"
#include "transfer/watch.h"

/* ---- candidates ---- */

static const char *relative_to(const applying *a, const char *path)
{
	size_t n = strcmp(a->box_path, "/") == 0 ? 0 : strlen(a->box_path);
	if (strncmp(path, a->box_path, n) != 0 || (path[n] != '/' && path[n] != 0)) return NULL;
	path += n;
	while (*path == '/') path++;
	return *path ? path : NULL;
}

/* Of a whole box the agent's home and scratch folder stay. */
static bool is_private(const applying *a, const char *relative)
{
	if (strcmp(a->box_path, "/") != 0) return false;
	return apply_within(relative, "home/agent") || apply_within(relative, "tmp");
}

static cb_code add_path(applying *a, const char *path, cb_error *err)
{
	const char *relative = relative_to(a, path);
	if (!relative || is_private(a, relative)) return CB_OK;
	apply_row row = {.path = mem_strdup(relative)};
	if (!row.path) return cb_err_nomem(err);
	cb_code code = buf_append(&a->rows, &row, sizeof(row), err);
	if (code != CB_OK) free(row.path);
	return code;
}

static cb_code add_walked(void *context, const char *path, const cb_stat_info *info, cb_error *err)
{
	(void)info;
	return add_path(context, path, err);
}

/* A folder that moved is told once: everything in it is at another path now. */
static cb_code add_change(void *context, const cb_change *c, cb_error *err)
{
	applying *a = context;
	CB_TRY(add_path(a, c->path, err));
	if (!c->old_path) return CB_OK;
	CB_TRY(add_path(a, c->old_path, err));
	if (c->new_info->type != CB_DIR) return CB_OK;
	CB_TRY(cb_walk(a->now, c->path, add_walked, a, err));
	return cb_walk(a->base, c->old_path, add_walked, a, err);
}

static int row_order(const void *x, const void *y)
{
	return strcmp(((const apply_row *)x)->path, ((const apply_row *)y)->path);
}

static void row_done(apply_row *row)
{
	free(row->path);
	free(row->target);
}

static void sort_rows(applying *a)
{
	size_t count, kept = 0;
	apply_row *rows = apply_rows(a, &count);
	if (count) qsort(rows, count, sizeof(*rows), row_order);
	for (size_t i = 0; i < count; i++) {
		if (kept && strcmp(rows[kept - 1].path, rows[i].path) == 0) row_done(&rows[i]);
		else rows[kept++] = rows[i];
	}
	a->rows.size = kept * sizeof(*rows);
}

static cb_code collect(applying *a, cb_error *err)
{
	cb_code code = a->base ? cb_diff(a->base, a->now, a->box_path, add_change, a, err)
	                       : cb_walk(a->now, a->box_path, add_walked, a, err);
	sort_rows(a);
	return code;
}

apply_row *apply_row_find(const applying *a, const char *path)
{
	size_t count;
	apply_row *rows = apply_rows(a, &count), wanted = {0};
	AUTO_FREE char *copy = mem_strdup(path);
	wanted.path = copy;
	return copy && count ? bsearch(&wanted, rows, count, sizeof(*rows), row_order) : NULL;
}

/* ---- which of them ---- */

static bool is_listed(const char *path, char *const *list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (apply_within(path, list[i])) return true;
	return false;
}

/* A folder that leads to a chosen path goes along with it. */
static bool leads_to(const char *path, char *const *list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (apply_within(list[i], path)) return true;
	return false;
}

static cb_code is_wanted(applying *a, apply_row *row, bool *out, cb_error *err)
{
	bool same = false;
	*out = false;
	if (a->paths && !is_listed(row->path, a->paths, a->path_count) &&
	    !(row->box.there && row->box.type == CB_DIR && leads_to(row->path, a->paths, a->path_count)))
		return CB_OK;
	CB_TRY(apply_same_in_boxes(a, row, &same, err));
	*out = !same;
	return CB_OK;
}

/* ---- judging ---- */

static void row_set(apply_row *row, cb_apply_status status, const char *why)
{
	row->status = status;
	row->why = why;
}

static void row_changed(apply_row *row, const char *why, bool cannot_force)
{
	row_set(row, CB_APPLY_CHANGED, why);
	row->cannot_force = cannot_force;
}

static cb_change_kind kind_of(const apply_row *row)
{
	if (!row->base.there) return CB_ADDED;
	if (!row->box.there) return CB_DELETED;
	if (row->base.type != row->box.type) return CB_MODIFIED;
	return row->box.type == CB_DIR || row->same_data ? CB_ATTRS : CB_MODIFIED;
}

/* The nearest folder above is, or will be, one to write into. */
static bool parent_will_be(const applying *a, const char *path)
{
	char part[LIMIT_PATH_BYTES];
	size_t n = strlen(path);
	while (n && path[n - 1] != '/') n--;
	if (n == 0 || n > sizeof(part)) return n == 0;
	memcpy(part, path, n - 1);
	part[n - 1] = 0;
	const apply_row *parent = apply_row_find(a, part);
	return parent && parent->box.there && parent->box.type == CB_DIR &&
	       (parent->status == CB_APPLY_WRITE || parent->status == CB_APPLY_HELD ||
	        (parent->status == CB_APPLY_CHANGED && a->options->force && !parent->cannot_force));
}

/* Where nothing can be on the host because the way there is not as the box knows it. */
static void judge_blocked(const applying *a, apply_row *row, apply_way way)
{
	if (!row->box.there) row_set(row, CB_APPLY_SAME, NULL);
	else if (parent_will_be(a, row->path)) row_set(row, CB_APPLY_WRITE, NULL);
	else if (way == APPLY_WAY_MISSING) row_changed(row, "its folder was removed on the host", false);
	else row_changed(row, "its folder is something else on the host", true);
}

/* Folders are judged by being there and by their mode; what is in them has rows of its own. */
static void judge_folder(apply_row *row)
{
	bool host_dir = row->host_there && row->host.type == HOST_DIR;
	uint32_t mode = row->host.mode & 01777;
	if (!row->box.there || row->box.type != CB_DIR) { /* it is to go */
		if (!row->host_there && !row->box.there) row_set(row, CB_APPLY_SAME, NULL);
		else if (host_dir) row_set(row, CB_APPLY_WRITE, NULL);
		else row_changed(row, row->host_there ? "the host has something else there" : "it was removed on the host", false);
		return;
	}
	bool base_dir = row->base.there && row->base.type == CB_DIR;
	if (host_dir && (mode == row->box.mode || !base_dir)) row_set(row, CB_APPLY_SAME, NULL);
	else if (host_dir && mode == row->base.mode) row_set(row, CB_APPLY_WRITE, NULL);
	else if (host_dir) row_changed(row, "its mode was changed on the host", false);
	else if (!row->host_there && !row->base.there) row_set(row, CB_APPLY_WRITE, NULL);
	else row_changed(row, row->host_there ? "the host has something else there" : "it was removed on the host", false);
}

static cb_code judge_file(applying *a, apply_row *row, cb_error *err)
{
	bool same = false;
	CB_TRY(apply_same_on_host(a, row, false, &same, err));
	if (same) {
		row_set(row, CB_APPLY_SAME, NULL);
		return CB_OK;
	}
	CB_TRY(apply_same_on_host(a, row, true, &same, err));
	if (same) {
		row_set(row, CB_APPLY_WRITE, NULL);
		return CB_OK;
	}
	bool dir = row->host_there && row->host.type == HOST_DIR;
	if (!row->host_there) row_changed(row, "it was removed on the host", false);
	else if (!row->base.there) row_changed(row, a->base ? "the host has one of its own" : "the host has another", dir);
	else row_changed(row, "it was changed on the host", dir);
	return CB_OK;
}

static cb_code judge(applying *a, apply_row *row, cb_error *err)
{
	apply_way way;
	CB_TRY(apply_look_host(a, row, &way, err));
	row->kind = kind_of(row);
	if (way != APPLY_WAY_OPEN) {
		judge_blocked(a, row, way);
		return CB_OK;
	}
	bool from_dir = row->base.there && row->base.type == CB_DIR, to_dir = row->box.there && row->box.type == CB_DIR;
	/* A folder in place of a file: the host must still have the file. */
	if (to_dir && row->base.there && !from_dir && !(row->host_there && row->host.type == HOST_DIR))
		return judge_file(a, row, err);
	if (!from_dir && !to_dir) return judge_file(a, row, err);
	/* A file in place of a folder: it may be there already. */
	if (from_dir && row->box.there && !to_dir && row->host_there && row->host.type != HOST_DIR) return judge_file(a, row, err);
	judge_folder(row);
	return CB_OK;
}

/* ---- held ---- */

/* A folder with HEAD, objects and refs is a repository without being called one, and its config is obeyed by whoever enters it. */
static bool is_bare_setting(const applying *a, const apply_row *row)
{
	const char *slash = strrchr(row->path, '/'), *name = slash ? slash + 1 : row->path;
	if (strncasecmp(name, "config", 6) != 0 && strcasecmp(name, "HEAD") != 0 && strcasecmp(name, "hooks") != 0 &&
	    strcasecmp(name, "commondir") != 0)
		return false;
	static const char *const marks[] = {"HEAD", "objects", "refs"};
	char path[LIMIT_PATH_BYTES], mark[LIMIT_PATH_BYTES + 16];
	if (apply_box_path(a, row->path, path, NULL) != CB_OK) return true;
	*(strrchr(path, '/') + 1) = 0;
	/* Inside .git it is what belongs there. */
	if (strstr(path, "/.git/")) return false;
	for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
		cb_stat_info info = CB_INIT(cb_stat_info);
		(void)snprintf(mark, sizeof(mark), "%s%s", path, marks[i]);
		if (cb_stat(a->now, mark, CB_NOFOLLOW, &info, NULL) != CB_OK) return false;
	}
	return true;
}

static void hold(const applying *a, apply_row *row)
{
	bool folder = row->box.there && row->box.type == CB_DIR;
	if (row->status == CB_APPLY_SAME || is_listed(row->path, a->allow, a->allow_count)) return;
	if (folder && leads_to(row->path, a->allow, a->allow_count)) return;
	bool was = row->base.there ? row->base.type == CB_DIR : true, is = row->box.there ? row->box.type == CB_DIR : true;
	hold_query q = {row->path, was && is, a->hooks_path};
	const char *why = apply_hold_reason(&q);
	if (!why) why = apply_alias_reason(a, row->path, was && is);
	if (!why && is_bare_setting(a, row)) why = "git takes the folder for a repository and obeys it";
	if (why) row_set(row, CB_APPLY_HELD, why);
}

/* What the host's git obeys, not what the box would like it to obey. */
static cb_code load_hooks_path(applying *a, cb_error *err)
{
	enum { CONFIG_BYTES = 1 << 20 };
	AUTO_FD int dir = -1;
	AUTO_FD int fd = -1;
	const char *name = NULL;
	host_stat st;
	cb_code code = host_parent_open(a->root.fd, ".git/config", HOST_XDEV, &dir, &name, NULL);
	if (code == CB_OK) code = host_file_open(dir, name, &fd, &st, NULL);
	if (code != CB_OK) return CB_OK; /* no repository, or none with a config of its own */
	AUTO_FREE char *text = mem_alloc(CONFIG_BYTES);
	if (!text) return cb_err_nomem(err);
	size_t size = 0;
	CB_TRY(io_pread_all(fd, text, CONFIG_BYTES, 0, &size, err));
	return apply_hooks_path(text, size, &a->hooks_path, err);
}

/* ---- folders that are to go ---- */

static bool will_go(const apply_row *row)
{
	return row && !row->box.there && (row->status == CB_APPLY_WRITE || row->status == CB_APPLY_SAME);
}

/* Everything in a folder that goes must go too. */
static cb_code check_contents(applying *a, apply_row *row, int fd, cb_error *err)
{
	DIR *d = fdopendir(fd);
	if (!d) {
		(void)close(fd);
		return cb_err_set(err, CB_NOMEM, NULL);
	}
	for (struct dirent *e; row->status == CB_APPLY_WRITE && (e = readdir(d)) != NULL;) {
		char path[LIMIT_PATH_BYTES];
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
		if (strncmp(e->d_name, APPLY_TEMPORARY_PREFIX, sizeof(APPLY_TEMPORARY_PREFIX) - 1) == 0) continue;
		int n = snprintf(path, sizeof(path), "%s/%s", row->path, e->d_name);
		const apply_row *in = n > 0 && (size_t)n < sizeof(path) ? apply_row_find(a, path) : NULL;
		if (will_go(in)) continue;
		if (in && in->status == CB_APPLY_HELD) row_set(row, CB_APPLY_HELD, in->why);
		else row_changed(row, "it has something in it that the box does not remove", true);
	}
	(void)closedir(d);
	return CB_OK;
}

static cb_code judge_removals(applying *a, cb_error *err)
{
	size_t count;
	apply_row *rows = apply_rows(a, &count);
	for (size_t i = count; i > 0; i--) {
		apply_row *row = &rows[i - 1];
		bool goes = row->base.there && row->base.type == CB_DIR && !(row->box.there && row->box.type == CB_DIR);
		if (!goes || row->status != CB_APPLY_WRITE || !row->host_there) continue;
		int dir = -1, fd = -1;
		const char *name = NULL;
		CB_TRY(host_parent_open(a->root.fd, row->path, HOST_XDEV, &dir, &name, err));
		cb_code code = host_dir_open(dir, name, HOST_XDEV, &fd, NULL, err);
		(void)close(dir);
		if (code != CB_OK) return cb_err_wrap(err, code, "looking into '%s'", row->path);
		CB_TRY(check_contents(a, row, fd, err));
	}
	return CB_OK;
}

/* ---- the whole ---- */

static cb_code keep_wanted(applying *a, cb_error *err)
{
	size_t count, kept = 0;
	apply_row *rows = apply_rows(a, &count);
	cb_code code = CB_OK;
	for (size_t i = 0; i < count; i++) {
		bool wanted = false;
		if (code == CB_OK) code = apply_look_box(a, &rows[i], err);
		if (code == CB_OK) code = is_wanted(a, &rows[i], &wanted, err);
		if (code == CB_OK && !wanted) row_done(&rows[i]);
		else rows[kept++] = rows[i];
	}
	a->rows.size = kept * sizeof(*rows);
	return code;
}

/* What lies in the store's own folder is no part of the plan, forced or not: boxes of earlier imports have such paths, and an agent can
 * make them. Told once for all of them. */
static cb_code leave_store_alone(applying *a, cb_error *err)
{
	size_t count, kept = 0;
	apply_row *rows = apply_rows(a, &count);
	char part[LIMIT_PATH_BYTES] = "";
	cb_code code = CB_OK;
	for (size_t i = 0; i < count; i++) {
		if (code == CB_OK) code = cancel_check(err);
		bool known = *part && apply_within(rows[i].path, part);
		size_t size = known || code != CB_OK ? 0 : apply_store_part(a, rows[i].path);
		if (size > 0) {
			assert(size < sizeof(part)); /* of a path in the box */
			memcpy(part, rows[i].path, size);
			part[size] = 0;
			watch_note(a->options->watch, part, "left alone: the folder of the store itself");
			known = true;
		}
		if (known) row_done(&rows[i]);
		else rows[kept++] = rows[i];
	}
	a->rows.size = kept * sizeof(*rows);
	return code;
}

/* A path that nobody has is a slip of the pen. */
static cb_code check_chosen(applying *a, cb_error *err)
{
	for (size_t i = 0; i < a->path_count; i++) {
		apply_row row = {.path = a->paths[i]};
		if (!*row.path) continue;
		CB_TRY(apply_look_box(a, &row, err));
		free(row.target);
		if (!row.base.there && !row.box.there)
			return cb_err_set(err, CB_NOTFOUND, "'%s' is neither in the box nor known of its folder", row.path);
	}
	return CB_OK;
}

cb_code apply_plan_build(applying *a, cb_error *err)
{
	CB_TRY(check_chosen(a, err));
	CB_TRY(collect(a, err));
	CB_TRY(load_hooks_path(a, err));
	CB_TRY(apply_aliases_load(a, err));
	CB_TRY(keep_wanted(a, err));
	CB_TRY(leave_store_alone(a, err));
	CB_TRY(entry_stays(a->era, err)); /* a note was told */
	size_t count;
	apply_row *rows = apply_rows(a, &count);
	for (size_t i = 0; i < count; i++) {
		CB_TRY(judge(a, &rows[i], err));
		hold(a, &rows[i]);
	}
	return judge_removals(a, err);
}

void apply_plan_done(applying *a)
{
	size_t count;
	apply_row *rows = apply_rows(a, &count);
	for (size_t i = 0; i < count; i++) row_done(&rows[i]);
	buf_done(&a->rows);
	buf_done(&a->aliases);
}
