/*
 * apply.c: what the box changed since the import or the last apply, back to the folder it came from.
 *
 * Order: plan, let the caller see every item, write, then take what the host has now into the base, then record. Killed before the
 * writing, nothing happened; killed during it, the base is as before, so the same call finds the same candidates, and those that are
 * written already are the same on both sides.
 */
#include <cowbox/cowbox.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/file.h>

#include "base/args.h"
#include "base/entry.h"
#include "base/sized.h"
#include "transfer/apply.h"
#include "transfer/guard.h"
#include "transfer/watch.h"

/* Set while an apply writes: whoever finds it looks for what a killed one left. */
#define SETTING_APPLYING "cowbox.folder.applying"

enum { RECORD_BYTES = 4096 };

/* ---- setting up ---- */

/* A path of the caller's, in the box or relative to the folder, as a relative one; "" is all of it. free() it. */
static cb_code relative_path(const applying *a, const char *path, char **out, cb_error *err)
{
	AUTO_FREE char *clean = path_clean(path);
	if (!clean) return cb_err_nomem(err);
	const char *at = clean;
	if (path[0] == '/' && strcmp(a->box_path, "/") != 0) {
		if (!apply_within(clean, a->box_path))
			return cb_err_set(err, CB_INVALID, "'%s' is not in '%s', which is what belongs to the folder", path,
			                  a->box_path);
		at += strlen(a->box_path);
	}
	while (*at == '/') at++;
	for (const char *p = at; *p; p += strcspn(p, "/"), p += *p == '/')
		if (strncmp(p, "..", 2) == 0 && (p[2] == 0 || p[2] == '/'))
			return cb_err_set(err, CB_INVALID, "'%s' has '..' in it", path);
	*out = mem_strdup(at);
	return *out ? CB_OK : cb_err_nomem(err);
}

static cb_code relative_list(const applying *a, const char *const *list, size_t count, char ***out, cb_error *err)
{
	char **made = mem_alloc((count ? count : 1) * sizeof(*made));
	if (!made) return cb_err_nomem(err);
	memset(made, 0, (count ? count : 1) * sizeof(*made));
	*out = made;
	for (size_t i = 0; i < count; i++) CB_TRY(relative_path(a, list[i], &made[i], err));
	return CB_OK;
}

static void list_free(char **list, size_t count)
{
	for (size_t i = 0; list && i < count; i++) free(list[i]);
	free(list);
}

/* Which folder, and whether it is the box's own. */
static cb_code choose_folder(applying *a, cb_box *b, bool *own, cb_error *err)
{
	AUTO_FREE char *host = NULL;
	AUTO_FREE char *place = NULL;
	cb_error why;
	cb_code code = cb_folder_get(b, &host, &place, cb_err_aside(&why));
	if (code != CB_OK && (code != CB_NOTFOUND || !a->options->folder)) return cb_err_pass(err, code, &why);
	CB_TRY(host_path_real(a->options->folder ? a->options->folder : host, &a->host_path, err));
	*own = host && strcmp(host, a->host_path) == 0;
	if (!*own && !a->options->folder)
		return cb_err_set(err, CB_LOOP,
		                  "the box's folder '%s' leads to '%s' by a symbolic link: name the one that is meant", host,
		                  a->host_path);
	a->box_path = path_clean(place ? place : "/work");
	return a->box_path ? CB_OK : cb_err_nomem(err);
}

/* The state that is applied does not move while it is. */
static cb_code open_state(applying *a, cb_box *b, cb_error *err)
{
	box_place at;
	CB_TRY(box_place_of(b, &at, err));
	CB_TRY(box_open_step(b, at.seq, &a->now, err));
	return look_open(a->now, LOOK_AS_SEEN, &a->now_look, err);
}

static cb_code open_base(applying *a, bool own, cb_error *err)
{
	if (!own) return CB_OK;
	cb_error why;
	cb_code code = box_base_open(a->now, BOX_BASE_EXISTING, &a->base, cb_err_aside(&why));
	if (code == CB_NOTFOUND) return CB_OK;
	return code == CB_OK ? look_open(a->base, LOOK_AS_SEEN, &a->base_look, err) : cb_err_pass(err, code, &why);
}

static cb_code check_box_folder(applying *a, cb_error *err)
{
	cb_stat_info info = CB_INIT(cb_stat_info);
	CB_TRY(cb_stat(a->now, a->box_path, CB_NOFOLLOW, &info, err));
	if (info.type == CB_DIR) return CB_OK;
	return cb_err_set(err, CB_NOTDIR, "'%s' in the box is not a folder", a->box_path);
}

static cb_code set_up(applying *a, cb_box *b, cb_error *err)
{
	bool own = false;
	CB_TRY(box_refuse_txn(b, "apply", err));
	CB_TRY(choose_folder(a, b, &own, err));
	CB_TRY(host_target_open(a->options->folder ? a->options->folder : a->host_path, &a->root, err));
	cb_code code = guard_folder(a->store, a->root.fd, "apply", err);
	if (code != CB_OK) return cb_err_wrap(err, code, "applying to '%s'", a->host_path);
	CB_TRY(open_state(a, b, err));
	CB_TRY(open_base(a, own, err));
	CB_TRY(check_box_folder(a, err));
	a->chunk = mem_alloc_bytes(APPLY_CHUNK_BYTES);
	a->other = mem_alloc_bytes(APPLY_CHUNK_BYTES);
	if (!a->chunk || !a->other) return cb_err_nomem(err);
	a->allow_count = a->options->allow_count;
	CB_TRY(relative_list(a, a->options->allow, a->allow_count, &a->allow, err));
	a->path_count = a->options->path_count;
	return a->path_count ? relative_list(a, a->options->paths, a->path_count, &a->paths, err) : CB_OK;
}

static void tear_down(applying *a)
{
	apply_plan_done(a);
	look_close(a->now_look);
	look_close(a->base_look);
	cb_box_close(a->now);
	cb_box_close(a->base);
	host_root_done(&a->root);
	list_free(a->paths, a->path_count);
	list_free(a->allow, a->allow_count);
	free(a->hooks_path);
	free(a->host_path);
	free(a->box_path);
	free(a->chunk);
	free(a->other);
}

/* ---- telling ---- */

/* Does a link's target lead out of the folder? Judged by its text: what else is on the way is the host's. */
static bool leaves(const char *path, const char *target)
{
	long depth = 0;
	if (target[0] == '/') return true;
	for (const char *p = path; *p; p++) depth += *p == '/';
	while (*target) {
		size_t size = strcspn(target, "/");
		if (size == 2 && memcmp(target, "..", 2) == 0) depth--;
		else if (size > 1 || (size == 1 && target[0] != '.')) depth++;
		if (depth < 0) return true;
		target += size;
		while (*target == '/') target++;
	}
	return false;
}

static cb_code tell(const applying *a, const apply_row *row, cb_apply_visit visit, void *context, cb_error *err)
{
	const apply_side *side = row->box.there ? &row->box : &row->base;
	char path[LIMIT_PATH_BYTES];
	CB_TRY(apply_box_path(a, row->path, path, err));
	bool was_executable = row->base.there && row->base.type == CB_FILE && row->base.mode & 0111;
	bool is_file = row->box.there && row->box.type == CB_FILE;
	cb_apply_item item = {.struct_size = sizeof(item),
	                      .kind = row->kind,
	                      .status = row->status,
	                      .type = side->type,
	                      .path = row->path,
	                      .box_path = path};
	item.reason = row->why ? row->why : "";
	item.mode = side->mode;
	item.size = side->node.size;
	item.new_executable = is_file && row->box.mode & 0111 && !was_executable;
	item.new_symlink = row->target && !(row->base.there && row->base.type == CB_SYMLINK && row->kind == CB_ATTRS);
	item.target = row->target;
	item.leaves = row->target && leaves(row->path, row->target);
	cb_error told;
	cb_code said = visit(context, &item, cb_err_aside(&told));
	CB_TRY(entry_stays(a->era, err));
	return cb_err_visited(said, &told, err);
}

static cb_code tell_all(applying *a, cb_apply_visit visit, void *context, cb_error *err)
{
	size_t count;
	const apply_row *rows = apply_rows(a, &count);
	bool ended = false;
	for (size_t i = 0; i < count; i++) {
		a->result.same += rows[i].status == CB_APPLY_SAME;
		a->result.held += rows[i].status == CB_APPLY_HELD;
		a->result.changed += rows[i].status == CB_APPLY_CHANGED;
		if (!visit || ended) continue;
		cb_code code = tell(a, &rows[i], visit, context, err);
		if (code != CB_OK && code != CB_INTERRUPTED) return code;
		ended = code == CB_INTERRUPTED;
	}
	return CB_OK;
}

static cb_code refuse_changed(const applying *a, cb_error *err)
{
	size_t count;
	const apply_row *rows = apply_rows(a, &count), *first = NULL;
	for (size_t i = 0; i < count && !first; i++) {
		bool stops = rows[i].status == CB_APPLY_CHANGED && (!a->options->force || rows[i].cannot_force);
		if (stops) first = &rows[i];
	}
	if (!first) return CB_OK;
	if (a->options->force) return cb_err_set(err, CB_CONFLICT, "'%s': %s: move that away first", first->path, first->why);
	return cb_err_set(err, CB_CONFLICT,
	                  "%" PRIu64 " changed on the host since, first '%s': %s; import them, name other paths, or force",
	                  a->result.changed, first->path, first->why);
}

/* ---- afterwards ---- */

static cb_code mark_applying(const applying *a, bool on, cb_error *err)
{
	return box_setting_set(a->now, SETTING_APPLYING, on ? "1" : NULL, err);
}

static bool was_killed(const applying *a)
{
	char *value = NULL;
	bool yes = box_setting_get(a->now, SETTING_APPLYING, &value, NULL) == CB_OK;
	free(value);
	return yes;
}

static bool host_has_it(const apply_row *row)
{
	return row->done || row->status == CB_APPLY_SAME;
}

/* The paths that the host has as the box has them, in the box. */
static cb_code settled_paths(const applying *a, buf *text, buf *list, bool *out_all, cb_error *err)
{
	size_t count;
	const apply_row *rows = apply_rows(a, &count);
	*out_all = !a->paths;
	for (size_t i = 0; i < count; i++) {
		char path[LIMIT_PATH_BYTES];
		*out_all = *out_all && host_has_it(&rows[i]);
		if (!host_has_it(&rows[i])) continue;
		CB_TRY(apply_box_path(a, rows[i].path, path, err));
		CB_TRY(buf_append(text, path, strlen(path) + 1, err));
	}
	for (size_t at = 0; at < text->size; at += strlen((char *)text->bytes + at) + 1) {
		const char *path = (const char *)text->bytes + at;
		CB_TRY(buf_append(list, &path, sizeof(path), err));
	}
	return CB_OK;
}

static cb_code update_base(applying *a, cb_error *err)
{
	AUTO_BUF buf text = BUF_INIT(SIZE_MAX);
	AUTO_BUF buf list = BUF_INIT(SIZE_MAX);
	bool all = false;
	CB_TRY(settled_paths(a, &text, &list, &all, err));
	/* What rules keep from who applies did not go to the host. */
	if (all && !box_has_rules(a->now)) return box_base_reset(a->now, err);
	/* A folder that was not the box's own until now: of what it holds only this is known. */
	if (!a->base) CB_TRY(box_base_open(a->now, BOX_BASE_ANEW, &a->base, err));
	return box_base_take(a->base, a->now, (const char *const *)(void *)list.bytes, list.size / sizeof(char *), err);
}

/* "FOLDER: 2 written, 1 removed: a, b, c" */
static cb_code record_it(applying *a, cb_box *b, cb_error *err)
{
	AUTO_BUF buf text = BUF_INIT(LIMIT_STEP_FIELD_BYTES);
	size_t count, named = 0, done = 0;
	const apply_row *rows = apply_rows(a, &count);
	CB_TRY(buf_printf(&text, err, "%s: %" PRIu64 " written, %" PRIu64 " removed", a->host_path, a->result.written,
	                  a->result.removed));
	for (size_t i = 0; i < count; i++) {
		done += rows[i].done;
		if (!rows[i].done || text.size + strlen(rows[i].path) > RECORD_BYTES) continue;
		CB_TRY(buf_printf(&text, err, "%s%s", named++ ? ", " : ": ", rows[i].path));
	}
	if (named < done) CB_TRY(buf_printf(&text, err, " and %zu more", done - named));
	cb_step_info info = CB_WITH(cb_step_info, .kind = "apply", .params = text.bytes, .params_size = text.size, .record = true);
	if (!box_about(b).is_old) return cb_step_record(b, &info, &a->result.seq, err);
	cb_box *head = NULL;
	char name[CB_NAME_MAX + 1];
	AUTO_FREE char *who = NULL;
	CB_TRY(box_name_get(a->now, name, err));
	CB_TRY(box_who_take(b, &who, err));
	CB_TRY(cb_box_open(box_about(b).store, name, &head, err));
	cb_code code = cb_box_who_set(head, who, err);
	if (code == CB_OK) code = cb_step_record(head, &info, &a->result.seq, err);
	cb_box_close(head);
	return code;
}

static cb_code write_and_settle(applying *a, cb_box *b, bool anything, cb_error *err)
{
	if (flock(a->root.fd, LOCK_EX | LOCK_NB) != 0)
		return errno == EWOULDBLOCK ? cb_err_set(err, CB_BUSY, "another apply is writing to '%s'", a->host_path)
		                            : cb_err_errno(err, errno, "locking '%s'", a->host_path);
	if (was_killed(a)) CB_TRY(apply_sweep(a, err));
	CB_TRY(mark_applying(a, true, err));
	cb_code code = anything ? apply_write(a, err) : CB_OK;
	/* What could not be written is no reason to forget what was. */
	if (code != CB_OK && code != CB_CONFLICT) return code;
	cb_error conflict = {0};
	if (err) conflict = *err;
	CB_TRY(update_base(a, err));
	CB_TRY(box_folder_set(a->now, a->host_path, a->box_path, err));
	if (a->result.written || a->result.removed) CB_TRY(record_it(a, b, err));
	CB_TRY(mark_applying(a, false, err));
	if (code != CB_OK && err) *err = conflict;
	return code;
}

static cb_code run(applying *a, cb_box *b, cb_apply_visit visit, void *context, cb_error *err)
{
	CB_TRY(set_up(a, b, err));
	CB_TRY(apply_plan_build(a, err));
	CB_TRY(tell_all(a, visit, context, err));
	size_t count;
	(void)apply_rows(a, &count);
	bool anything = count > a->result.same + a->result.held;
	bool nothing = count == a->result.same;
	if (a->options->dry_run) return nothing ? cb_err_set(err, CB_NOTHING, "the folder has all of it already") : CB_OK;
	CB_TRY(refuse_changed(a, err));
	if (anything || a->result.same) CB_TRY(write_and_settle(a, b, anything, err));
	return nothing ? cb_err_set(err, CB_NOTHING, "the folder has all of it already") : CB_OK;
}

cb_code cb_apply(cb_box *b, const cb_apply_options *options, cb_apply_visit visit, void *context, cb_apply_result *out,
                 cb_error *err)
{
	NEED(err, "box", b);
	BOX_STAYS(b);
	cb_apply_options o;
	cb_transfer_watch watch;
	CB_TRY(SIZED_TAKE(cb_apply_options, watch, &o, options, err));
	CB_TRY(args_path("folder", o.folder, err));
	CB_TRY(args_names("paths", o.paths, o.path_count, err));
	CB_TRY(args_names("allow", o.allow, o.allow_count, err));
	CB_TRY(watch_take(&o.watch, &watch, err));
	CB_TRY(SIZED_CHECK(cb_apply_result, seq, out, err));
	applying a = {.era = entry_era(),
	              .store = box_about(b).store,
	              .options = &o,
	              .result = CB_INIT(cb_apply_result),
	              .root = {.fd = -1},
	              .rows = BUF_INIT(SIZE_MAX),
	              .aliases = BUF_INIT(SIZE_MAX)};
	cb_code code = run(&a, b, visit, context, err);
	if (code == CB_OK) SIZED_GIVE(out, &a.result);
	tear_down(&a);
	return code;
}
