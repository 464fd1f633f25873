/*
 * import.c: a folder or file of the host into a box, as one step.
 *
 * Everything is collected in one transaction over the state the box had; contents go to the store as they are read, keys (about 200
 * bytes each) wait in memory. The handle is locked meanwhile, the box is not: what others committed is merged at the end, or is a
 * conflict.
 *
 * A folder that is the box's own also has a hidden base (folder_base.c): what the host was found to hold, without what others did
 * meanwhile. It is told with the step, in one write transaction (box_txn_commit_folder): after that nothing can fail any more.
 */
#include "transfer/import.h"
#include "base/args.h"
#include "base/entry.h"
#include "base/sized.h"
#include "transfer/guard.h"
#include "transfer/watch.h"

#include <inttypes.h>
#include <stdio.h>

enum { NAME_SHOWN_BYTES = 200 };

/* ---- telling the caller ---- */

const char *import_name(const char *path)
{
	size_t size = strlen(path);
	return size > NAME_SHOWN_BYTES ? path + size - NAME_SHOWN_BYTES : path;
}

cb_code import_progress(importing *im, const char *path, uint64_t bytes, cb_error *err)
{
	CB_TRY(cancel_check(err));
	CB_TRY(entry_stays(im->era, err)); /* a note was told since */
	cb_progress p = {
		.struct_size = sizeof(p), .path = path, .files = im->count.files + im->count.unchanged, .bytes = im->count.bytes};
	bool on = watch_go_on(im->options->watch, &im->since_progress, bytes, &p);
	CB_TRY(entry_stays(im->era, err));
	return on ? CB_OK : cb_err_set(err, CB_INTERRUPTED, "the import was interrupted: nothing was changed");
}

uint32_t import_mode(const importing *im, const char *path, const host_stat *stat)
{
	uint32_t keep = stat->type == HOST_DIR ? 01777 : 0777, dropped = stat->mode & ~keep & 07777;
	if (dropped)
		watch_note(im->options->watch, path, "dropped:%s%s%s", dropped & 04000 ? " setuid" : "",
		           dropped & 02000 ? " setgid" : "", dropped & 01000 ? " sticky" : "");
	return stat->mode & keep;
}

/* ---- life ---- */

static cb_code importing_init(importing *im, cb_box *b, const cb_import_options *options, cb_error *err)
{
	*im = (importing){
		.era = entry_era(),
		.b = b,
		.options = options,
		.root = {.fd = -1},
		.levels = BUF_INIT(sizeof(import_level) * (LIMIT_HOST_DEPTH + 1)),
		.only = BUF_INIT(SIZE_MAX),
	};
	return ignore_create(options->exclude, options->exclude_count, &im->ignore, err);
}

static void importing_done(importing *im)
{
	host_walk_close(im->walk);
	for (size_t i = 0; i < im->levels.size / sizeof(import_level); i++)
		buf_done(&((import_level *)(void *)im->levels.bytes)[i].names);
	ignore_destroy(im->ignore);
	cache_reader_close(im->known);
	cache_writer_abort(im->remember);
	inode_map_done(&im->links);
	inode_map_done(&im->claimed);
	buf_done(&im->levels);
	buf_done(&im->only);
	host_root_done(&im->root);
}

/* ---- one import ---- */

static span spot_name(const pen_spot *at)
{
	return span_make(at->name, at->name_size);
}

static cb_code find_target(importing *im, bool is_dir, pen_spot *at, cb_error *err)
{
	CB_TRY(pen_spot_find(im->e, im->to, at, err));
	if (!is_dir && at->exists && at->there.type == CB_DIR)
		return cb_err_set(err, CB_ISDIR, "'%s' is a folder of the box: name the file to be", im->to);
	cb_type wanted = is_dir ? CB_DIR : CB_FILE;
	if (!at->exists || at->there.type == wanted) return CB_OK;
	at->exists = false;
	return pen_remove(im->e, at->dir, spot_name(at), NULL, err);
}

static cb_code import_into_folder(importing *im, cb_error *err)
{
	pen_spot at;
	CB_TRY(find_target(im, true, &at, err));
	bool fresh = !at.exists;
	if (fresh) CB_TRY(pen_make(im->e, at.dir, spot_name(&at), CB_DIR, 0755, &at.there, err));
	im->count.folders += fresh;
	return import_tree(im, at.there.ino, fresh, err);
}

/* im->root is the folder that holds the file. */
static cb_code import_one_file(importing *im, const char *name, cb_error *err)
{
	pen_spot at;
	CB_TRY(find_target(im, false, &at, err));
	host_entry e = {.event = HOST_ENTRY, .path = name, .name = name, .depth = 1, .dir = im->root.fd};
	CB_TRY(host_stat_at(im->root.fd, name, &e.stat, err));
	if (e.stat.type != HOST_FILE) return cb_err_set(err, CB_INVALID, "'%s' is %s", im->host_path, host_type_name(e.stat.type));
	box_node node;
	host_stat stat;
	bool changed = false;
	CB_TRY(import_file_content(im, &e, at.dir, spot_name(&at), at.exists ? &at.there : NULL, &node, &stat, &changed, err));
	(void)import_mode(im, name, &stat);
	im->count.files += changed;
	im->count.bytes += changed ? stat.size : 0;
	im->count.unchanged += !changed;
	return CB_OK;
}

static cb_code open_source(importing *im, const char **out_file, cb_error *err)
{
	cb_code code = host_root_open(im->host_path, &im->root, err);
	*out_file = NULL;
	if (code != CB_NOTDIR) return code;
	if (im->options->link) return cb_err_set(err, CB_NOTDIR, "a file, and only a folder can be a box's own");
	AUTO_FREE char *name = NULL;
	CB_TRY(host_path_parent(im->host_path, &im->root, &name, err));
	*out_file = strrchr(im->host_path, '/') + 1;
	return CB_OK;
}

/* Into the transaction that is open on the handle. */
static cb_code import_in_txn(importing *im, bool caching, cb_error *err)
{
	const char *file = NULL;
	CB_TRY(open_source(im, &file, err));
	CB_TRY(guard_folder(box_about(im->b).store, im->root.fd, "an import", err));
	CB_TRY(pen_begin(im->b, "import", im->host_path, &im->e, err));
	cache_key place = {box_about(im->b).store, box_about(im->b).id, im->host_path, im->to};
	if (!file && caching && !im->options->full) im->known = cache_reader_open(&place);
	if (!file && caching) im->remember = cache_writer_open(&place);
	cb_code code = file ? import_one_file(im, file, err) : import_into_folder(im, err);
	return pen_end(im->e, code, err);
}

/* box: whose transaction im->b is. */
static cb_code commit(importing *im, cb_box *box, const box_place *before, cb_commit_result *out, cb_error *err)
{
	char result[200];
	const cb_transfer_count *c = &im->count;
	(void)snprintf(result, sizeof(result),
	               "%" PRIu64 " files, %" PRIu64 " folders, %" PRIu64 " links, %" PRIu64 " bytes; %" PRIu64
	               " unchanged, %" PRIu64 " removed, %" PRIu64 " left out",
	               c->files, c->folders, c->symlinks, c->bytes, c->unchanged, c->removed, c->left_out);
	cb_step_info step = CB_WITH(cb_step_info, .result = result, .result_size = CB_STRING);
	cb_commit_options how = CB_WITH(cb_commit_options, .step = &step, .lost = CB_LOST_FORK);
	box_folder_news news = {box, im->options->link ? im->host_path : NULL, im->to,
	                        (const box_only *)(const void *)im->only.bytes, im->only.size / sizeof(box_only)};
	CB_TRY(im->linked ? box_txn_commit_folder(im->b, &how, &news, out, err) : cb_txn_commit(im->b, &how, out, err));
	im->count.seq = out->seq;
	/* After a merge a file's version does not say that it is what was imported. */
	if (!out->merged) cache_writer_commit(TAKE_PTR(im->remember), out->state ? out->state : before->state);
	return CB_OK;
}

static cb_code import_as_step(importing *im, cb_error *err)
{
	cb_step_info step = CB_WITH(cb_step_info, .kind = "import", .params = im->host_path, .params_size = CB_STRING);
	cb_box *box = im->b;
	cb_commit_result result = CB_INIT(cb_commit_result);
	box_place before = {0};
	CB_TRY(cb_txn_begin(box, &CB_WITH(cb_txn_options, .step = &step), &im->b, err));
	cb_code code = box_place_of(im->b, &before, err);
	if (code == CB_OK) code = import_in_txn(im, true, err);
	if (code == CB_OK) code = commit(im, box, &before, &result, err);
	cb_box_close(im->b);
	im->b = box;
	if (code == CB_OK) box_made(box, result.seq);
	return code;
}

/* Is that folder, at that place in the box, the box's own? */
static cb_code is_own(cb_box *b, const char *host_path, const char *to, bool *out, cb_error *err)
{
	AUTO_FREE char *folder = NULL;
	AUTO_FREE char *path = NULL;
	cb_error why;
	cb_code code = cb_folder_get(b, &folder, &path, cb_err_aside(&why));
	if (code != CB_OK && code != CB_NOTFOUND) return cb_err_pass(err, code, &why);
	*out = code == CB_OK && strcmp(folder, host_path) == 0 && strcmp(path, to) == 0;
	return CB_OK;
}

/* The handle is locked: its calls are serialised, and an import is one call. */
static cb_code import_locked(cb_box *b, const char *host_path, const char *to, const cb_import_options *options,
                             cb_transfer_count *out, cb_error *err)
{
	bool linked = options->link, in_txn = box_about(b).is_txn;
	if (linked) CB_TRY(box_refuse_txn(b, "linking a folder", err));
	if (!linked && !in_txn) CB_TRY(is_own(b, host_path, to, &linked, err));
	importing im;
	cb_code code = importing_init(&im, b, options, err);
	im.host_path = host_path;
	im.to = to;
	im.linked = linked;
	if (code == CB_OK) code = in_txn ? import_in_txn(&im, false, err) : import_as_step(&im, err);
	im.count.struct_size = sizeof(im.count);
	if (code == CB_OK) SIZED_GIVE(out, &im.count);
	importing_done(&im);
	return code;
}

static cb_code default_target(const char *host_path, char **out, cb_error *err)
{
	host_root folder = {.fd = -1};
	cb_code code = host_root_open(host_path, &folder, err);
	host_root_done(&folder);
	if (code != CB_OK && code != CB_NOTDIR) return code;
	AUTO_BUF buf path = BUF_INIT(SIZE_MAX);
	CB_TRY(buf_append_str(&path, "/work", err));
	if (code == CB_NOTDIR) CB_TRY(buf_append_str(&path, strrchr(host_path, '/'), err));
	return buf_take(&path, out, NULL, err);
}

cb_code cb_import(cb_box *b, const char *host_path, const cb_import_options *options, cb_transfer_count *out, cb_error *err)
{
	NEED(err, "box host_path", b, host_path);
	BOX_STAYS(b);
	cb_import_options o;
	cb_transfer_watch watch;
	CB_TRY(SIZED_TAKE(cb_import_options, watch, &o, options, err));
	CB_TRY(args_path("to", o.to, err));
	CB_TRY(args_names("exclude", o.exclude, o.exclude_count, err));
	CB_TRY(watch_take(&o.watch, &watch, err));
	CB_TRY(SIZED_CHECK(cb_transfer_count, seq, out, err));
	AUTO_FREE char *real = NULL;
	AUTO_FREE char *to = NULL;
	CB_TRY(host_path_real(host_path, &real, err));
	if (o.to) to = path_clean(o.to);
	else CB_TRY(default_target(real, &to, err));
	if (!to) return cb_err_nomem(err);
	CB_TRY(box_hold(b, err));
	cb_code code = import_locked(b, real, to, &o, out, err);
	box_release(b);
	return code == CB_OK || code == CB_INTERRUPTED ? code : cb_err_wrap(err, code, "importing '%s'", host_path);
}
