/* gate_rounds_host.c: rounds with folders of the host, and with boxes and stores as a whole; see gate_rounds.h. */
#include "harness/gate_rounds.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the host ---- */

static void say_count(world *w, const cb_transfer_count *c)
{
	say(w,
	    "%" PRIu64 " files %" PRIu64 " folders %" PRIu64 " links %" PRIu64 " bytes %" PRIu64 " same %" PRIu64
	    " removed %" PRIu64 " out\n",
	    c->files, c->folders, c->symlinks, c->bytes, c->unchanged, c->removed, c->left_out);
}

static void say_shell(world *w, const char *command)
{
	char line[4096], full[1200];
	(void)snprintf(full, sizeof(full), "cd '%s' && { %s; } 2>&1", w->folder, command);
	FILE *f = popen(full, "r");
	CHECK(f);
	while (fgets(line, sizeof(line), f)) say(w, "%s", line);
	(void)pclose(f);
}

static void host_put(world *w, const char *name, const char *text)
{
	char path[800];
	(void)snprintf(path, sizeof(path), "%s/%s", w->folder, name);
	FILE *f = fopen(path, "w");
	CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
	struct timespec times[2] = {{1700000000, 0}, {1700000000, 0}};
	CHECK(utimensat(AT_FDCWD, path, times, 0) == 0);
}

static void note_one(void *context, const char *path, const char *what)
{
	say(context, "note %s %s\n", path, what);
}

static void export_one(world *w, const char *path)
{
	char to[700];
	cb_transfer_count count = CB_INIT(cb_transfer_count);
	cb_export_options options =
		CB_WITH(cb_export_options, .all = true, .watch = &CB_WITH(cb_transfer_watch, .note = note_one, .context = w));
	(void)snprintf(to, sizeof(to), "%s/out", w->folder);
	SAY(w, cb_export(w->agent, path, to, &options, &count, &e));
	say_count(w, &count);
	say_shell(
		w,
		"find out -printf '%p %y %m %s %T@\\n' | LC_ALL=C sort; find out -type f | LC_ALL=C sort | xargs cat; rm -rf out");
}

static void tar_one(world *w, const char *path)
{
	char to[700];
	cb_transfer_count count = CB_INIT(cb_transfer_count);
	(void)snprintf(to, sizeof(to), "%s/out.tar", w->folder);
	int fd = open(to, O_RDWR | O_CREAT | O_TRUNC, 0600);
	SAY(w, cb_tar_export(w->agent, path, fd, &CB_WITH(cb_tar_options, .all = true), &count, &e));
	say_count(w, &count);
	(void)close(fd);
	say_shell(w, "cksum out.tar; rm out.tar");
}

void round_export(world *w)
{
	each_path(w, export_one);
	each_path(w, tar_one);
}

static void import_one(world *w, const char *from, const cb_import_options *options)
{
	cb_transfer_count count = CB_INIT(cb_transfer_count);
	say_shell(w, "find in -exec touch -d @1700000000 {} +"); /* reading changes times of the host */
	say(w, "import to %s\n", options->to);
	SAY(w, cb_import(w->agent, from, options, &count, &e));
	say_count(w, &count);
}

void round_import(world *w)
{
	say_shell(w, "mkdir in in/sub");
	host_put(w, "in/a", "from the host\n");
	host_put(w, "in/sub/f", "f\n");
	char from[700];
	(void)snprintf(from, sizeof(from), "%s/in", w->folder);
	cb_import_options gone = CB_WITH(cb_import_options, .to = "/work/pub", .remove_missing = true,
	                                 .watch = &CB_WITH(cb_transfer_watch, .note = note_one, .context = w));
	import_one(w, from, &CB_WITH(cb_import_options, .to = "/work/imported"));
	import_one(w, from, &gone); /* what is hidden stays */
	import_one(w, from, &CB_WITH(cb_import_options, .to = "/private"));
	import_one(w, from, &CB_WITH(cb_import_options, .to = "/work/pub/.secret/no"));
	import_one(w, from, &CB_WITH(cb_import_options, .to = "/work/ro"));
	say_shell(w, "mkdir in/.secret in/ro");
	host_put(w, "in/.secret/key", "mine\n");
	import_one(w, from, &CB_WITH(cb_import_options, .to = "/work/pub")); /* over a hidden name */
	import_one(w, from, &CB_WITH(cb_import_options, .to = "/work", .remove_missing = true));
	say_box(w, w->agent);
}

void round_tar_import(world *w)
{
	static const char *const to[] = {"/work/pub", "/work/fromtar", "/private", "/work/ro"};
	say_shell(w, "mkdir t t/.secret; echo k >t/.secret/key; echo a >t/a; tar -cf bad.tar --mtime=@1700000000 -C t . ; rm -r "
	             "t/.secret; tar -cf good.tar "
	             "--mtime=@1700000000 -C t .");
	for (size_t i = 0; i < ARRAY_LEN(to); i++) {
		static const char *const names[] = {"bad.tar", "good.tar"};
		for (size_t k = 0; k < ARRAY_LEN(names); k++) {
			char path[700];
			cb_transfer_count count = CB_INIT(cb_transfer_count);
			(void)snprintf(path, sizeof(path), "%s/%s", w->folder, names[k]);
			int fd = open(path, O_RDONLY);
			say(w, "%s into %s\n", names[k], to[i]);
			SAY(w, cb_tar_import(w->agent, fd, &CB_WITH(cb_tar_options, .to = to[i]), &count, &e));
			say_count(w, &count);
			(void)close(fd);
		}
	}
	say_box(w, w->agent);
}

static cb_code say_item(void *context, const cb_apply_item *i, cb_error *err)
{
	(void)err;
	say(context, "%c%d %s %s %s %o %" PRIu64 "\n", (int)i->kind, (int)i->status, i->path, i->box_path, i->reason, i->mode,
	    i->size);
	return CB_OK;
}

void round_apply(world *w)
{
	cb_error err = {0};
	cb_apply_result result = CB_INIT(cb_apply_result);
	cb_box *b = NULL;
	char from[700], *host = NULL, *in_box = NULL, *name = NULL;
	(void)snprintf(from, sizeof(from), "%s/p", w->folder);
	CHECK_OK(cb_box_create(w->s, "project", &b, &err));
	say_shell(w, "mkdir p p/pub");
	host_put(w, "p/pub/a", "a\n");
	host_put(w, "p/pub/b", "b\n");
	say_shell(w, "find p -exec touch -d @1700000000 {} +");
	SAY(w, cb_import(b, from, &CB_WITH(cb_import_options, .to = "/work", .link = true), NULL, &e));
	SAY(w, cb_folder_get(b, &host, &in_box, &e));
	SAY(w, cb_folder_box(w->s, from, &name, &e));
	cb_free(host);
	cb_free(in_box);
	cb_free(name);
	cb_box *o = must_open(w->s, "project");
	CHECK_OK(cb_box_who_set(o, "owner", &err));
	if (w->whole) story_put(o, "/work/pub/.secret/key", "not for the host\n");
	else CHECK_OK(cb_step_record(o, &CB_WITH(cb_step_info, .kind = "write"), NULL, &err));
	story_put(b, "/work/pub/a", "changed\n");
	SAY(w, cb_apply(b, &CB_WITH(cb_apply_options, .dry_run = true), say_item, w, &result, &e));
	SAY(w, cb_apply(b, NULL, say_item, w, &result, &e));
	say(w, "%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", result.written, result.removed, result.same);
	say_shell(w, "find p | LC_ALL=C sort; cat p/pub/a");
	SAY(w, cb_apply(b, NULL, say_item, w, &result, &e));
	cb_box_close(o);
	cb_box_close(b);
	SAY(w, cb_box_delete(w->s, "project", &e));
}

static void ignore_line(void *context, const char *line)
{
	(void)context;
	(void)line;
}

/* What takes a whole box or store is refused where rules lie. */
void round_whole(world *w)
{
	cb_error err = {0};
	cb_pack_info info = CB_INIT(cb_pack_info);
	cb_sandbox *sandbox = NULL;
	cb_exec *exec = NULL;
	char to[700];
	uint64_t complaints = 0;
	(void)snprintf(to, sizeof(to), "%s/pack", w->folder);
	int fd = open(to, O_RDWR | O_CREAT, 0600);
	CHECK_CODE(cb_pack(w->agent, fd, NULL, &info, &err), CB_DENIED);
	CHECK_CODE(cb_pack(w->agent, fd, &CB_WITH(cb_pack_options, .no_history = true), &info, &err), CB_DENIED);
	(void)close(fd);
	say_shell(w, "wc -c <pack; rm pack");
	(void)snprintf(to, sizeof(to), "%s/backup", w->folder);
	CHECK_CODE(cb_store_backup(w->s, to, &err), CB_DENIED);
	say_shell(w, "ls -A");
	CHECK_CODE(cb_store_check(w->s, ignore_line, NULL, &complaints, &err), CB_DENIED);
	CHECK_CODE(cb_sandbox_open(w->agent, NULL, &sandbox, &err), CB_DENIED);
	/* One that was opened before there were rules. */
	size_t count = w->rules->count;
	w->rules->count = 0;
	cb_code code = cb_sandbox_open(w->agent, NULL, &sandbox, &err);
	w->rules->count = count;
	const char *argv[] = {"true"};
	if (code == CB_UNSUPPORTED) test_lacks("sandbox", err.message);
	CHECK_OK(code);
	CHECK_CODE(cb_exec_start(sandbox, &CB_WITH(cb_exec_options, .argv = argv, .argc = 1, .stdin_fd = -1), &exec, &err),
	           CB_DENIED);
	cb_sandbox_close(sandbox);
	/* A pack of what the agent may neither see nor make. */
	(void)snprintf(to, sizeof(to), "%s/owners", w->folder);
	fd = open(to, O_RDWR | O_CREAT, 0600);
	CHECK_OK(cb_pack(w->owner, fd, NULL, &info, &err));
	CHECK(lseek(fd, 0, SEEK_SET) == 0);
	CHECK_CODE(cb_unpack(w->s, fd, "unpacked", NULL, &info, &err), CB_DENIED);
	(void)close(fd);
	SAY(w, cb_box_list(w->s, say_box_info, w, &e));
}

void round_boxes(world *w)
{
	cb_box *b = NULL;
	char *text = NULL;
	SAY(w, cb_box_fork(w->s, "demo@cp", "old", &b, &e));
	if (b) say_box(w, b);
	cb_box_close(b);
	SAY(w, cb_box_delete(w->s, "old", &e));
	SAY(w, cb_box_retention_set(w->agent, 1000, 0, &e));
	SAY(w, cb_box_quota_set(w->agent, 1 << 20, 0, 0, &e));
	SAY(w, cb_box_quota_set(w->agent, 0, 0, 0, &e));
	SAY(w, cb_setting_set(w->agent, "s", "1", CB_STRING, &e));
	SAY(w, cb_setting_get(w->agent, "s", &text, NULL, &e));
	cb_free(text);
}
