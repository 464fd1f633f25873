/*
 * cmd_cp.c: copies within a box, between boxes and states, and between a box and the host. Into a box it is one step, all or nothing. No
 * symbolic link of a box is followed to the host, nor one of the host at or below the target.
 */
#include "cli/cli.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct source {
	const char *text, *path;
	cb_box *box; /* NULL: of the host */
	bool folder;
	const char *to; /* where it goes, once that is known */
} source;

typedef struct copy {
	cli *c;
	const cli_call *call;
	source *sources;
	size_t count;
	cb_box *box;        /* of the target; NULL: the host */
	const char *target; /* its path */
} copy;

static cb_code folder_needs_r(cli *c, const char *text, cb_error *err)
{
	cli_hint(c, "-r copies folders");
	return cb_err_set(err, CB_ISDIR, "'%s' is a folder", text);
}

/* What others do to a box while it is read must not be seen in halves: its state is held. Old states hold still by themselves. */
static cb_code source_hold(copy *k, source *s, cb_error *err)
{
	cb_box_info info = CB_INIT(cb_box_info);
	char state[CB_NAME_MAX + 32];
	cli_address address;
	CB_TRY(cli_address_parse(s->text, CLI_PATH, &address, err));
	if (s->box == k->box || address.state[0]) return CB_OK;
	CB_TRY(cb_box_info_get(s->box, &info, err));
	(void)snprintf(state, sizeof(state), "%s@-0", info.name); /* the head, kept as it is opened */
	return cli_open_shared(k->c, state, CLI_STATE, &s->box, NULL, err);
}

static cb_code source_open(copy *k, const char *text, source *s, cb_error *err)
{
	*s = (source){.text = text, .path = text};
	if (cli_address_is_box(text)) {
		cb_stat_info info = CB_INIT(cb_stat_info);
		CB_TRY(cli_open_shared(k->c, text, CLI_PATH, &s->box, &s->path, err));
		CB_TRY(source_hold(k, s, err));
		CB_TRY(cb_stat(s->box, s->path, CB_NOFOLLOW, &info, err));
		s->folder = info.type == CB_DIR;
	} else {
		struct stat info;
		if (lstat(text, &info) != 0 && errno == ENOENT) {
			cli_hint(k->c, "a path in a box is written BOX:/PATH or :PATH");
			return cb_err_set(err, CB_NOTFOUND, "no '%s' on the host", text);
		}
		if (lstat(text, &info) != 0) return cb_err_errno(err, errno, "'%s'", text);
		/* A link that is named is followed: the name is the user's. */
		if (S_ISLNK(info.st_mode) && stat(text, &info) != 0) return cb_err_errno(err, errno, "'%s'", text);
		s->folder = S_ISDIR(info.st_mode);
	}
	return s->folder && !cli_flag(k->call, "recursive") ? folder_needs_r(k->c, text, err) : CB_OK;
}

/* ---- into a box ---- */

static cb_code host_file_copy(cb_box *box, const source *s, cb_error *err)
{
	ATTR_CLEANUP(cli_input_done) cli_input input = {.fd = -1};
	struct stat info;
	if (stat(s->path, &info) != 0) return cb_err_errno(err, errno, "'%s'", s->path);
	if (!S_ISREG(info.st_mode)) return cb_err_set(err, CB_UNSUPPORTED, "'%s' is no regular file", s->path);
	CB_TRY(cli_input_open(s->path, &input, err));
	CB_TRY(cli_input_write(&input, box, s->to, NULL, err));
	CB_TRY(cb_chmod(box, s->to, info.st_mode & 0777, 0, err));
	int64_t mtime = (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec;
	return cb_utimens(box, s->to, mtime, mtime, 0, err);
}

/* The library copies within a box without touching contents; joining folders, and other boxes and states, go file by file. */
static cb_code box_copy(const copy *k, cb_box *box, const source *s, cb_error *err)
{
	cb_stat_info there = CB_INIT(cb_stat_info), self = CB_INIT(cb_stat_info);
	if (s->box != k->box) return cli_copy_tree(s->box, s->path, box, s->to, err);
	if (!s->folder) return cb_copy(box, s->path, s->to, CB_NOFOLLOW, err);
	cb_code code = cb_stat(box, s->to, 0, &there, err);
	if (code == CB_NOTFOUND) return cb_copy(box, s->path, s->to, CB_NOFOLLOW, err);
	if (code == CB_OK) code = cb_stat(box, s->path, 0, &self, err);
	if (code != CB_OK) return code;
	if (self.ino == there.ino) return cb_err_set(err, CB_INVALID, "'%s' and '%s' are the same folder", s->path, s->to);
	return cli_copy_tree(box, s->path, box, s->to, err);
}

/* What is there may be a link that an agent made: it is replaced, never written through. */
static cb_code place_prepare(const copy *k, cb_box *box, const char *to, cb_error *err)
{
	cb_stat_info there = CB_INIT(cb_stat_info);
	cb_code code = cb_stat(box, to, CB_NOFOLLOW, &there, err);
	if (code == CB_NOTFOUND) return CB_OK;
	if (code != CB_OK) return code;
	if (cli_flag(k->call, "no-clobber")) return cb_err_set(err, CB_EXISTS, "'%s' is there already", to);
	return there.type == CB_SYMLINK ? cb_unlink(box, to, err) : CB_OK;
}

static cb_code copy_work(void *context, cb_box *box, cb_error *err)
{
	copy *k = context;
	for (size_t i = 0; i < k->count; i++) {
		const source *s = &k->sources[i];
		CB_TRY(place_prepare(k, box, s->to, err));
		CB_TRY(s->box ? box_copy(k, box, s, err) : host_file_copy(box, s, err));
	}
	return CB_OK;
}

/* An import makes missing folders, a copy does not. */
static cb_code parent_check(const copy *k, const char *to, cb_error *err)
{
	cb_stat_info info = CB_INIT(cb_stat_info);
	AUTO_FREE char *parent = mem_strdup(to);
	if (!parent) return cb_err_nomem(err);
	*(strrchr(parent, '/') + 1) = 0; /* the path is absolute and does not end with a slash, or is a folder's */
	cb_code code = cb_stat(k->box, parent, 0, &info, err);
	if (code == CB_NOTFOUND) cli_hint(k->c, "'cowbox mkdir --parents' makes folders");
	return code;
}

/* One file or folder of the host: with everything the library keeps of it. */
static cb_code import_one(copy *k, uint64_t *out_seq, cb_error *err)
{
	const source *s = &k->sources[0];
	cb_stat_info there = CB_INIT(cb_stat_info);
	cb_transfer_count count = CB_INIT(cb_transfer_count);
	if (cli_flag(k->call, "no-clobber") && cb_stat(k->box, s->to, CB_NOFOLLOW, &there, NULL) == CB_OK)
		return cb_err_set(err, CB_EXISTS, "'%s' is there already", s->to);
	CB_TRY(parent_check(k, s->to, err));
	cb_import_options options = CB_WITH(cb_import_options, .to = s->to, .watch = cli_watch(k->c, "copying"));
	cb_code code = cb_import(k->box, s->path, &options, &count, err);
	cli_watch_done(k->c);
	*out_seq = count.seq;
	return code;
}

static cb_code targets_distinct(const copy *k, cb_error *err)
{
	AUTO_FREE const char **to = mem_alloc((k->count + 1) * sizeof(*to));
	if (!to) return cb_err_nomem(err);
	for (size_t i = 0; i < k->count; i++) to[i] = k->sources[i].to;
	return cli_targets_distinct(to, k->count, err);
}

static cb_code several_need_folder(const char *target, cb_error *err)
{
	return cb_err_set(err, CB_NOTDIR, "'%s' is no folder, and several things are to go there", target);
}

static cb_code plan_into_box(copy *k, cb_error *err)
{
	cb_stat_info there = CB_INIT(cb_stat_info);
	if (k->count > 1) {
		CB_TRY(cb_stat(k->box, k->target, 0, &there, err));
		if (there.type != CB_DIR) return several_need_folder(k->target, err);
	}
	for (size_t i = 0; i < k->count; i++) {
		source *s = &k->sources[i];
		char resolved[PATH_MAX];
		const char *name = s->path, *own = NULL;
		if (s->folder && !s->box && k->count > 1)
			return cli_usage(k->c, err, "'%s' is a folder of the host: copy it in a command of its own", s->text);
		/* "." and ".." have no name of their own on the command line, but one on the host. */
		if (!s->box && cli_base_name(k->c, s->path, &own, NULL) != CB_OK && realpath(s->path, resolved)) name = resolved;
		CB_TRY(cli_target_path(k->c, k->box, k->target, name, &s->to, err));
	}
	return targets_distinct(k, err);
}

static cb_code into_box(copy *k, uint64_t *out_seq, cb_error *err)
{
	AUTO_FREE const char **paths = mem_alloc((k->count + 1) * sizeof(*paths));
	const source *first = &k->sources[0];
	cb_stat_info there = CB_INIT(cb_stat_info);
	if (!paths) return cb_err_nomem(err);
	CB_TRY(plan_into_box(k, err));
	if (k->count == 1 && !first->box) return import_one(k, out_seq, err);
	for (size_t i = 0; i < k->count; i++) paths[i] = k->sources[i].text;
	paths[k->count] = k->target;
	/* A copy within the box that needs one call is the library's to repeat; anything else is a transaction. */
	bool link = cb_stat(k->box, first->to, CB_NOFOLLOW, &there, NULL) == CB_OK && there.type == CB_SYMLINK;
	cli_step step = {"cp", paths, k->count + 1, k->count == 1 && first->box == k->box && !first->folder && !link};
	cb_code code = cli_step_run(k->c, k->box, &step, copy_work, k, out_seq, err);
	if (code == CB_NOTFOUND) cli_hint(k->c, "'cowbox mkdir --parents' makes folders");
	return code;
}

/* ---- to the host ---- */

static cb_code to_host(copy *k, cb_error *err)
{
	struct stat info;
	bool folder = false;
	CB_TRY(cli_host_folder(k->target, &folder, err));
	bool keep = cli_flag(k->call, "no-clobber");
	if (k->count > 1 && !folder) return several_need_folder(k->target, err);
	for (size_t i = 0; i < k->count; i++) {
		source *s = &k->sources[i];
		const char *name = NULL;
		s->to = k->target;
		if (folder) CB_TRY(cli_base_name(k->c, s->path, &name, err));
		if (folder) CB_TRY(cli_path_join(k->c, k->target, name, &s->to, err));
		if (keep && lstat(s->to, &info) == 0) return cb_err_set(err, CB_EXISTS, "'%s' is there already", s->to);
	}
	CB_TRY(targets_distinct(k, err));
	for (size_t i = 0; i < k->count; i++) {
		const source *s = &k->sources[i];
		cb_export_options options = CB_WITH(cb_export_options, .overwrite = !keep, .watch = cli_watch(k->c, "copying"));
		cb_code code = cb_export(s->box, s->path, s->to, &options, NULL, err);
		cli_watch_done(k->c);
		if (code != CB_OK) return code;
	}
	return CB_OK;
}

/* ---- the command ---- */

static void report(const copy *k, uint64_t seq)
{
	if (!cli_is_json(k->c)) return;
	json_writer *w = cli_json(k->c);
	json_object_begin(w);
	json_member_uint(w, "step", seq);
	json_member_array(w, "copied");
	for (size_t i = 0; i < k->count; i++) {
		json_object_begin(w);
		json_member_str(w, "from", k->sources[i].text);
		json_member_str(w, "to", k->sources[i].to);
		json_object_end(w);
	}
	json_array_end(w);
	json_object_end(w);
}

static cb_code run_cp(cli *c, const cli_call *call, cb_error *err)
{
	const char *target = cli_operand_text(call, "TARGET");
	const char *const *texts = NULL;
	copy k = {.c = c, .call = call, .target = target};
	uint64_t seq = 0;
	k.count = cli_operand_list(call, "SOURCE", &texts);
	bool boxes = cli_address_is_box(target);
	AUTO_FREE source *sources = mem_alloc(k.count * sizeof(*sources));
	if (!sources) return cb_err_nomem(err);
	k.sources = sources;
	if (boxes) CB_TRY(cli_open_writable_shared(c, target, CLI_PATH, &k.box, &k.target, err));
	for (size_t i = 0; i < k.count; i++) {
		CB_TRY(source_open(&k, texts[i], &sources[i], err));
		if (sources[i].box || boxes) continue;
		return cli_usage(c, err, "'%s' and '%s' are both of the host: a path in a box is written BOX:/PATH or :PATH",
		                 texts[i], target);
	}
	CB_TRY(boxes ? into_box(&k, &seq, err) : to_host(&k, err));
	report(&k, seq);
	return CB_OK;
}

const cli_command cmd_cp = {
	.name = "cp",
	.group = "Files",
	.summary = "copy files and folders within a box, between boxes, and from and to the host",
	.text = "A path in a box is written BOX:/PATH, BOX@STEP:/PATH or :PATH (in the chosen box); anything else is a path of the "
		"host. "
		"Into TARGET when it is a folder, else to that name; files that are there are replaced, folders are joined. The "
		"folder that the copy goes to must be there.\n\n"
		"Into a box it is one step, all or nothing. Modes, times, attributes, tags and metadata are kept, and hard links "
		"between files of a folder when it comes from elsewhere. Copies within a box share their contents. Symbolic links "
		"are "
		"copied, not followed, and replaced where the copy goes; only a SOURCE of the host that is itself a link is "
		"followed, and a TARGET of the host with a '/' after it.\n\n"
		"Of the host, one folder or any number of files can be copied at once; 'cowbox import' and 'cowbox export' have "
		"more "
		"choices. To the host, files are copied one after the other.",
	.operands =
		(const cli_operand[]){
			{CLI_EITHER, "SOURCE", false, true, "what to copy"},
			{CLI_EITHER, "TARGET", false, false, "a folder to copy into, or the name of the copy"},
			{0},
		},
	.options =
		(const cli_option[]){
			{CLI_FLAG, "recursive", 'r', NULL, "folders with all that is in them"},
			{CLI_FLAG, "no-clobber", 'n', NULL, "fail when something is there already"},
			{0},
		},
	.examples = (const char *const[]){"cowbox cp a.txt demo:/work/copy.txt", "cowbox cp demo:/work/a.txt ./from-demo.txt",
                                          "cowbox cp -r demo@before-refactor:/work/src other:/work", NULL},
	.json = "step      the step it made; 0 on the host\ncopied    for each: from, to\nnotes     what was left out or changed, "
		"when there is something",
	.run = run_cp,
};
