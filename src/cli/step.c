/*
 * step.c: commands that change a box. Several operands are one transaction: all of them or none; one that cannot be merged with what
 * others did meanwhile is kept as a fork, and the error names it. One change alone is one call of the library on the newest state: it
 * cannot conflict.
 */
#include "cli/core.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
	STEP_PARAMS_BYTES = 4096, /* of the paths kept with a step */
	STEP_PATH_BYTES = 64 << 10,
};

cb_code cli_open_targets(cli *c, const char *const *texts, size_t count, cb_box **out, const char *const **out_paths, cb_error *err)
{
	const char **paths = mem_alloc((count + 1) * sizeof(*paths));
	if (!paths) return cb_err_nomem(err);
	cli_keep(c, (void *)paths);
	cb_box *first = NULL;
	for (size_t i = 0; i < count; i++) {
		cb_box *box = NULL;
		CB_TRY(cli_open_writable_shared(c, texts[i], CLI_PATH, &box, &paths[i], err));
		if (first && box != first) {
			cli_hint(c, "run it once for each box");
			return cb_err_set(err, CB_CROSSBOX, "'%s' and '%s' are in different boxes: one command changes one box",
			                  texts[0], texts[i]);
		}
		first = box;
	}
	*out = first;
	*out_paths = paths;
	return CB_OK;
}

static cb_code params_of(const cli_step *step, char **out, cb_error *err)
{
	AUTO_BUF buf text = BUF_INIT(STEP_PARAMS_BYTES + 8);
	for (size_t i = 0; i < step->count; i++) {
		if (text.size + strlen(step->paths[i]) + 1 > STEP_PARAMS_BYTES) {
			CB_TRY(buf_append_str(&text, " …", err));
			break;
		}
		if (i > 0) CB_TRY(buf_append_byte(&text, ' ', err));
		CB_TRY(buf_append_str(&text, step->paths[i], err));
	}
	return buf_take(&text, out, NULL, err);
}

static cb_code run_single(cb_box *box, cli_work work, void *context, uint64_t *out_seq, cb_error *err)
{
	uint64_t before = cb_box_step(box);
	CB_TRY(work(context, box, err));
	uint64_t after = cb_box_step(box);
	*out_seq = after == before ? 0 : after;
	return CB_OK;
}

cb_code cli_stat_after(cli *c, cb_box *box, uint64_t seq, const char *path, cb_stat_info *out, cb_error *err)
{
	cb_box_info info = CB_INIT(cb_box_info);
	cb_store *store = NULL;
	cb_box *then = NULL;
	char address[CB_NAME_MAX + 32];
	cb_error ignored;
	CB_TRY(cb_box_info_get(box, &info, err));
	if (seq == 0 || info.seq == seq) return cb_stat(box, path, 0, out, err);
	CB_TRY(cli_store(c, &store, err));
	(void)snprintf(address, sizeof(address), "%s@%llu", info.name, (unsigned long long)seq);
	/* Renamed or pruned meanwhile: what it is now. */
	if (cb_box_open(store, address, &then, &ignored) != CB_OK) return cb_stat(box, path, 0, out, err);
	cb_code code = cb_stat(then, path, 0, out, err);
	cb_box_close(then);
	return code;
}

cb_code cli_step_run(cli *c, cb_box *box, const cli_step *step, cli_work work, void *context, uint64_t *out_seq, cb_error *err)
{
	AUTO_FREE char *params = NULL;
	cb_commit_result result = CB_INIT(cb_commit_result);
	*out_seq = 0;
	if (step->single) return run_single(box, work, context, out_seq, err);
	CB_TRY(params_of(step, &params, err));
	cb_txn_options options = CB_WITH(
		cb_txn_options, .step = &CB_WITH(cb_step_info, .kind = step->kind, .params = params, .params_size = CB_STRING));
	cb_box *txn = NULL;
	CB_TRY(cb_txn_begin(box, &options, &txn, err));
	cb_code code = work(context, txn, err);
	if (code == CB_OK) code = cb_txn_commit(txn, &CB_WITH(cb_commit_options, .lost = CB_LOST_FORK), &result, err);
	if (code == CB_CONFLICT && cli_is_json(c)) (void)cb_txn_conflicts(txn, cli_conflict_visit, c, NULL);
	cb_box_info info = CB_INIT(cb_box_info);
	if (code == CB_CONFLICT && result.fork[0] && cb_box_info_get(box, &info, NULL) == CB_OK)
		cli_hint_fork(c, info.name, result.fork);
	cb_box_close(txn);
	if (code == CB_OK) *out_seq = result.seq;
	return code;
}

cb_code cli_step_report(cli *c, const char *const *paths, size_t count, uint64_t seq, cb_error *err)
{
	if (!cli_is_json(c)) return CB_OK;
	AUTO_BUF buf names = BUF_INIT(CLI_NAMES_BYTES);
	json_writer *w = cli_json(c);
	for (size_t i = 0; i < count; i++) CB_TRY(buf_append(&names, paths[i], strlen(paths[i]) + 1, err));
	json_object_begin(w);
	json_member_uint(w, "step", seq);
	json_member_strings(w, "paths", buf_span(&names));
	json_object_end(w);
	return CB_OK;
}

cb_code cli_base_name(cli *c, const char *path, const char **out, cb_error *err)
{
	size_t end = strlen(path);
	while (end > 0 && path[end - 1] == '/') end--;
	size_t start = end;
	while (start > 0 && path[start - 1] != '/') start--;
	size_t size = end - start;
	bool dots = (size == 1 && path[start] == '.') || (size == 2 && path[start] == '.' && path[start + 1] == '.');
	if (size == 0 || dots) return cb_err_set(err, CB_INVALID, "'%s' has no name of its own: write the target in full", path);
	char *name = mem_dup(path + start, size + 1);
	if (!name) return cb_err_nomem(err);
	name[size] = 0;
	cli_keep(c, name);
	*out = name;
	return CB_OK;
}

cb_code cli_path_join(cli *c, const char *folder, const char *name, const char **out, cb_error *err)
{
	AUTO_BUF buf text = BUF_INIT(STEP_PATH_BYTES);
	char *path = NULL;
	size_t size = strlen(folder);
	CB_TRY(buf_append(&text, folder, size, err));
	if (size > 0 && folder[size - 1] != '/') CB_TRY(buf_append_byte(&text, '/', err));
	CB_TRY(buf_append_str(&text, name, err));
	CB_TRY(buf_take(&text, &path, NULL, err));
	cli_keep(c, path);
	*out = path;
	return CB_OK;
}

cb_code cli_target_path(cli *c, cb_box *box, const char *target, const char *source, const char **out, cb_error *err)
{
	cb_stat_info info = CB_INIT(cb_stat_info);
	const char *name = NULL;
	cb_code code = cb_stat(box, target, 0, &info, err);
	size_t size = strlen(target);
	bool slash = size > 0 && target[size - 1] == '/';
	if (code == CB_NOTFOUND && slash) return cb_err_set(err, CB_NOTFOUND, "no folder '%s': 'cowbox mkdir' makes it", target);
	if (code != CB_OK && code != CB_NOTFOUND) return code;
	if (code == CB_OK && info.type == CB_DIR) {
		CB_TRY(cli_base_name(c, source, &name, err));
		return cli_path_join(c, target, name, out, err);
	}
	*out = target;
	return CB_OK;
}

cb_code cli_host_folder(const char *target, bool *out, cb_error *err)
{
	struct stat there, itself;
	*out = stat(target, &there) == 0 && S_ISDIR(there.st_mode);
	if (!*out || lstat(target, &itself) != 0 || !S_ISLNK(itself.st_mode)) return CB_OK;
	return cb_err_set(err, CB_LOOP, "'%s' is a symbolic link: '%s/' names the folder it leads to", target, target);
}

static int text_compare(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

cb_code cli_targets_distinct(const char *const *targets, size_t count, cb_error *err)
{
	AUTO_FREE const char **sorted = mem_alloc((count + 1) * sizeof(*sorted));
	if (!sorted) return cb_err_nomem(err);
	memcpy((void *)sorted, (const void *)targets, count * sizeof(*sorted));
	qsort((void *)sorted, count, sizeof(*sorted), text_compare);
	for (size_t i = 1; i < count; i++)
		if (strcmp(sorted[i - 1], sorted[i]) == 0)
			return cb_err_set(err, CB_INVALID, "two of the sources would become '%s': give them other names",
			                  sorted[i]);
	return CB_OK;
}
