/* cmd_stat.c: stat and info: everything that is known of a file, and of a box. */
#include "cli/cli.h"

#include <string.h>

/* ---- stat ---- */

typedef struct subject {
	cli *c;
	cb_box *box;
	const char *path;
	cb_stat_info info;
	char *target; /* of a link; else NULL */
} subject;

/* Tags and metadata are of what a link leads to: a link itself has none. */
static cb_code stat_json(const subject *s, cb_error *err)
{
	json_writer *w = cli_json(s->c);
	unsigned flags = s->info.type == CB_SYMLINK ? CB_NOFOLLOW : 0;
	json_object_begin(w);
	json_member_str(w, "path", s->path);
	cli_json_stat(w, &s->info);
	cli_json_time(w, "atime", s->info.atime_ns);
	if (s->target) json_member_str(w, "target", s->target);
	if (!s->target) {
		CB_TRY(cli_json_tags(w, s->box, s->path, err));
		CB_TRY(cli_json_meta(w, s->box, s->path, err));
	}
	json_member_array(w, "attributes");
	CB_TRY(cb_xattr_list(s->box, s->path, flags, cli_json_pair, w, err));
	json_array_end(w);
	json_object_end(w);
	return CB_OK;
}

typedef struct naming {
	cli *c;
	const char *label;
} naming;

static cb_code name_plain(void *context, const char *name, const char *value, size_t size, cb_error *err)
{
	(void)err;
	const naming *n = context;
	cli_print(n->c, "  %-10s", n->label);
	cli_print_name(n->c, name);
	if (value) cli_print(n->c, "=");
	if (value) cli_print_bytes(n->c, value, size);
	cli_print(n->c, "\n");
	return CB_OK;
}

static cb_code stat_plain(const subject *s, cb_error *err)
{
	cli *c = s->c;
	const cb_stat_info *i = &s->info;
	char text[CLI_FORMAT_MAX];
	unsigned flags = i->type == CB_SYMLINK ? CB_NOFOLLOW : 0;
	cli_print_name(c, s->path);
	if (s->target) cli_print(c, " -> ");
	if (s->target) cli_print_name(c, s->target);
	cli_print(c, "\n  %-10s%s\n", "type", i->type == CB_DIR ? "folder" : s->target ? "symlink" : "file");
	cli_print(c, "  %-10s%04o %s\n", "mode", (unsigned)i->mode, cli_format_mode(i->type, i->mode, text));
	cli_print(c, "  %-10s%llu\n", "size", (unsigned long long)i->size);
	cli_print(c, "  %-10s%u\n", "links", i->links);
	cli_print(c, "  %-10s%llu\n", "inode", (unsigned long long)i->ino);
	cli_print(c, "  %-10s%llu\n", "version", (unsigned long long)i->version);
	cli_print(c, "  %-10s%s\n", "modified", cli_format_time(i->mtime_ns, text));
	cli_print(c, "  %-10s%s\n", "changed", cli_format_time(i->ctime_ns, text));
	naming tag = {c, "tag"}, meta = {c, "metadata"}, attribute = {c, "attribute"};
	if (!s->target) CB_TRY(cb_tag_list(s->box, s->path, name_plain, &tag, err));
	if (!s->target) CB_TRY(cb_meta_list(s->box, s->path, name_plain, &meta, err));
	return cb_xattr_list(s->box, s->path, flags, name_plain, &attribute, err);
}

static cb_code stat_one(cli *c, const char *text, bool follow, cb_error *err)
{
	subject s = {.c = c};
	CB_TRY(cli_open_shared(c, text, CLI_PATH, &s.box, &s.path, err));
	s.info = CB_INIT(cb_stat_info);
	CB_TRY(cb_stat(s.box, s.path, follow ? 0 : CB_NOFOLLOW, &s.info, err));
	if (s.info.type == CB_SYMLINK) CB_TRY(cb_readlink(s.box, s.path, &s.target, NULL, err));
	cb_code code = cli_is_json(c) ? stat_json(&s, err) : stat_plain(&s, err);
	cb_free(s.target);
	return code;
}

static cb_code run_stat(cli *c, const cli_call *call, cb_error *err)
{
	const char *const *paths = NULL;
	size_t count = cli_operand_list(call, "PATH", &paths);
	if (cli_is_json(c)) {
		json_object_begin(cli_json(c));
		json_member_array(cli_json(c), "entries");
	}
	for (size_t i = 0; i < count; i++) CB_TRY(stat_one(c, paths[i], cli_flag(call, "follow"), err));
	if (cli_is_json(c)) {
		json_array_end(cli_json(c));
		json_object_end(cli_json(c));
	}
	return CB_OK;
}

/* ---- info ---- */

typedef struct overview {
	cb_box_info info;
	uint64_t checkpoints, forks;
	char *folder, *folder_path; /* NULL: none */
} overview;

static cb_code count_checkpoint(void *context, const cb_checkpoint *checkpoint, cb_error *err)
{
	(void)checkpoint;
	(void)err;
	((overview *)context)->checkpoints++;
	return CB_OK;
}

static cb_code count_fork(void *context, const cb_box_info *info, cb_error *err)
{
	(void)err;
	overview *o = context;
	o->forks += strcmp(info->origin, o->info.name) == 0;
	return CB_OK;
}

static cb_code overview_get(cli *c, cb_box *box, overview *o, cb_error *err)
{
	cb_store *store = NULL;
	CB_TRY(cli_store(c, &store, err));
	CB_TRY(cb_box_info_get(box, &o->info, err));
	CB_TRY(cb_checkpoint_list(box, count_checkpoint, o, err));
	CB_TRY(cb_box_list(store, count_fork, o, err));
	cb_code code = cb_folder_get(box, &o->folder, &o->folder_path, err);
	return code == CB_NOTFOUND ? CB_OK : code;
}

static void overview_json(cli *c, const overview *o)
{
	json_writer *w = cli_json(c);
	const cb_box_info *i = &o->info;
	json_object_begin(w);
	cli_json_box(w, i);
	json_member_uint(w, "id", i->id);
	json_member_uint(w, "state", i->state);
	json_member_uint(w, "checkpoints", o->checkpoints);
	json_member_uint(w, "forks", o->forks);
	json_member_str(w, "folder", o->folder);
	json_member_str(w, "folder_path", o->folder_path);
	json_member_uint(w, "quota_bytes", i->quota_bytes);
	json_member_uint(w, "quota_files", i->quota_files);
	json_member_uint(w, "quota_file_bytes", i->quota_file_bytes);
	json_member_uint(w, "keep_steps", i->keep_steps);
	json_member_double(w, "keep_seconds", (double)i->keep_ns / 1e9);
	json_member_uint(w, "checkpoint_every", i->checkpoint_every);
	json_object_end(w);
}

static void overview_limits(cli *c, const cb_box_info *i)
{
	char text[CLI_FORMAT_MAX];
	if (i->quota_bytes) cli_print(c, "%-13sat most %s\n", "quota", cli_size_words(c, i->quota_bytes, text));
	if (i->quota_files) cli_print(c, "%-13sat most %s\n", "quota", cli_count_words(i->quota_files, "file", text));
	if (i->quota_file_bytes)
		cli_print(c, "%-13sat most %s for one file\n", "quota", cli_size_words(c, i->quota_file_bytes, text));
	if (i->keep_steps) cli_print(c, "%-13sthe newest %llu steps\n", "retention", (unsigned long long)i->keep_steps);
	if (i->keep_ns) cli_print(c, "%-13ssteps younger than %s\n", "retention", cli_human_duration(i->keep_ns, text));
	if (i->checkpoint_every) cli_print(c, "%-13severy %llu steps\n", "automatic", (unsigned long long)i->checkpoint_every);
}

static void overview_plain(cli *c, const overview *o)
{
	const cb_box_info *i = &o->info;
	char text[CLI_FORMAT_MAX];
	cli_print(c, "%-13s%s\n", "name", i->name);
	cli_print(c, "%-13s%s\n", "created", cli_human_time(c, i->created_ns, text));
	if (i->origin[0]) cli_print(c, "%-13s%s@%llu\n", "origin", i->origin, (unsigned long long)i->origin_seq);
	cli_print(c, "%-13s%llu\n", "steps", (unsigned long long)i->seq);
	cli_print(c, "%-13s%llu\n", "checkpoints", (unsigned long long)o->checkpoints);
	cli_print(c, "%-13s%llu\n", "forks", (unsigned long long)o->forks);
	cli_print(c, "%-13s%llu\n", "files", (unsigned long long)i->files);
	cli_print(c, "%-13s%s\n", "bytes", cli_human_size(c, i->bytes, text));
	if (o->folder) {
		cli_print(c, "%-13s", "folder");
		cli_print_name(c, o->folder);
		cli_print(c, " at ");
		cli_print_name(c, o->folder_path);
		cli_print(c, "\n");
	}
	overview_limits(c, i);
}

static cb_code run_info(cli *c, const cli_call *call, cb_error *err)
{
	cb_box *box = NULL;
	overview o = {.info = CB_INIT(cb_box_info)};
	CB_TRY(cli_open(c, cli_operand_text(call, "STATE"), CLI_STATE, &box, NULL, err));
	cb_code code = overview_get(c, box, &o, err);
	if (code == CB_OK && cli_is_json(c)) overview_json(c, &o);
	else if (code == CB_OK) overview_plain(c, &o);
	cb_free(o.folder);
	cb_free(o.folder_path);
	return code;
}

/* ---- tables ---- */

const cli_command cmd_stat = {
	.name = "stat",
	.group = "Files",
	.summary = "show everything known of files and folders",
	.text = "Type, mode, size, links, times, version, tags, metadata and extended attributes. A link itself is shown, unless "
		"--follow. The "
		"version grows with every change of the file: 'cowbox write --expected-version' wants it.",
	.operands =
		(const cli_operand[]){
			{CLI_PATH, "PATH", false, true, "files and folders"},
			{0},
		},
	.options =
		(const cli_option[]){
			{CLI_FLAG, "follow", 'L', NULL, "what a link leads to"},
			{0},
		},
	.examples = (const char *const[]){"cowbox stat demo:/work/a.txt", "cowbox stat --json demo@before-refactor:/work", NULL},
	.json = "entries    for each: path, type, mode, size, links, ino, version, mtime, ctime, atime, of links target, tags, "
		"metadata "
		"(name, value), attributes (name, value)",
	.run = run_stat,
};

const cli_command cmd_info = {
	.name = "info",
	.group = "Boxes",
	.summary = "show everything known of a box",
	.text = "Of an old state: its files and bytes.",
	.operands =
		(const cli_operand[]){
			{CLI_STATE, "STATE", true, false, "the box, or a state of it (default: the chosen box)"},
			{0},
		},
	.examples = (const char *const[]){"cowbox info demo", NULL},
	.json = "name id created steps state files bytes    the box; steps: the newest\n"
		"origin origin_step                         of a fork\n"
		"checkpoints forks                          how many\n"
		"folder folder_path                         its own folder on the host, and where it is in the box; else null\n"
		"quota_bytes quota_files quota_file_bytes   0: no bound\n"
		"keep_steps keep_seconds checkpoint_every   0: all, never",
	.run = run_info,
};
