/*
 * test_outputs.c: outputs are written only on success.
 *
 * Each call that has outputs is made with each of its allocations failing in turn, or ended at each of its looks at its limit, until it
 * succeeds; whatever failed has left its outputs as they were. The headers are read to see that no call is missing.
 */
#include "contract/test_docs_kit.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cowbox/exec.h>
#include <cowbox/search.h>
#include <cowbox/transfer.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/cancel.h"

enum { FILL = 0xa5, EACH = 24 /* the first so many are tried each, then in growing strides */ };

typedef union output {
	cb_store *store;
	cb_box *box;
	cb_file *file;
	cb_cursor *cursor;
	cb_sandbox *sandbox;
	cb_exec *exec;
	cb_cancel *cancel;
	char *text;
	uint64_t number;
	size_t size;
	bool flag;
	const cb_entry *entry;
	const cb_name *name;
	const cb_grep_line *grep_line;
	const cb_step *step;
	const cb_change *change;
	const cb_change_stat *change_stat;
	const cb_blame_line *blame_line;
	const cb_checkpoint *checkpoint;
	const cb_conflict *conflict;
	const cb_box_info *row;
	const cb_audit *audit;
	const cb_use *use;
	const cb_exec_result *result;
	cb_box_info info;
	cb_stat_info stat;
	cb_store_stats stats;
	cb_gc_result gc;
	cb_grep_count grep;
	cb_transfer_count transfer;
	cb_apply_result apply;
	cb_pack_info pack;
	cb_commit_result commit;
	cb_tier_report tier;
	uint8_t bytes[4096];
} output;

typedef enum weapon { NO_MEMORY, ENDED } weapon;

static weapon against;
static output o, p; /* a call has two at most */
static cb_store *s;
static cb_box *b, *other, *older, *t;
static cb_file *f;
static cb_cursor *c;
static cb_cancel *token;
static int fd;
static char room[16];
static cb_error err;
static buf seen = {.max_size = 1 << 20};

static void arm(long n)
{
	cb_limit limit = CB_WITH(cb_limit, .cancel = token);
	CHECK_OK(cb_limit_push(&limit, &err));
	if (against == NO_MEMORY) mem_fail_after(n);
	else cancel_fire_at_look(token, n);
}

static void disarm(void)
{
	mem_fail_after(0);
	cancel_fire_at_look(token, 0);
	cb_limit_pop();
	cb_cancel_reset(token);
}

/* struct_size: of a struct; 0: the output is none. */
static void fill(size_t struct_size)
{
	memset(&o, FILL, sizeof(o));
	memset(&p, FILL, sizeof(p));
	if (struct_size) memcpy(&o, &struct_size, sizeof(struct_size));
}

/* Whatever a call returns, its result tells what the program did. */
static bool is_told_anyway(const char *call)
{
	return strcmp(call, "cb_exec_wait") == 0;
}

static void must_be_untouched(const char *call, cb_code code, long n, size_t struct_size)
{
	size_t from = struct_size ? sizeof(struct_size) : 0;
	if (is_told_anyway(call)) return;
	for (size_t i = from; i < sizeof(o); i++)
		CHECK_MSG(o.bytes[i] == FILL, "%s, %s at %ld: byte %zu of its output was written", call, cb_code_name(code), n, i);
	for (size_t i = 0; i < sizeof(p); i++)
		CHECK_MSG(p.bytes[i] == FILL, "%s, %s at %ld: byte %zu of its second output was written", call, cb_code_name(code),
		          n, i);
}

static long after(long n)
{
	return n < EACH * (long)test_dose(8) ? n + 1 : n + n / 8;
}

#define NOTHING ((void)0)

/* before: done for each try. done: after the one that succeeded; ended: after every one. */
#define TRY(call, struct_size, before, arguments, done, ended)                                        \
	for (long n = 1, over = 0; !over; n = after(n)) {                                             \
		err = (cb_error){0};                                                                  \
		before;                                                                               \
		fill(struct_size);                                                                    \
		arm(n);                                                                               \
		cb_code code = call arguments;                                                        \
		disarm();                                                                             \
		if (code == CB_OK) {                                                                  \
			over = 1;                                                                     \
			done;                                                                         \
		} else {                                                                              \
			bool fits = against == NO_MEMORY ? code == CB_NOMEM : code == CB_CANCELLED;   \
			CHECK_MSG(fits, #call ": %s at %ld: %s", cb_code_name(code), n, err.message); \
			must_be_untouched(#call, code, n, struct_size);                               \
		}                                                                                     \
		ended;                                                                                \
		CHECK(n < 1000000);                                                                   \
		if (over) CHECK_OK(buf_printf(&seen, &err, " %s ", #call));                           \
	}
#define CURSOR(call, ...) TRY(call, 0, NOTHING, (__VA_ARGS__, &o.cursor, &err), cb_cursor_close(o.cursor), NOTHING)
#define NEXT(call, member, open, ...) \
	TRY(call, 0, CHECK_OK(open(__VA_ARGS__, &c, &err)), (c, &o.member, &err), NOTHING, cb_cursor_close(c))
#define TEXT(call, ...) TRY(call, 0, NOTHING, (__VA_ARGS__, &o.text, &p.size, &err), cb_free(o.text), NOTHING)

static cb_code see_step(void *context, const cb_step *x, cb_error *e)
{
	(void)context, (void)x, (void)e;
	return CB_OK;
}

static cb_code see_found(void *context, const cb_grep_line *x, cb_error *e)
{
	(void)context, (void)x, (void)e;
	return CB_OK;
}

static void rewind_fd(bool empty)
{
	CHECK(lseek(fd, 0, SEEK_SET) == 0);
	if (empty) CHECK(ftruncate(fd, 0) == 0);
}

static const char *in_folder(const char *name)
{
	return text_of("%s/%s", test_tmpdir(), name);
}

static void lose_transaction(void)
{
	static unsigned number;
	t = must_begin(b);
	must_write(t, "/work/b", text_of("mine, %u", ++number));
	must_write(b, "/work/b", text_of("another's, %u", number));
	CHECK_CODE(cb_txn_commit(t, NULL, NULL, &err), CB_CONFLICT);
}

/* An apply is made in pieces: one that failed may have done all of it. */
static void change_linked(void)
{
	static unsigned number;
	must_write(b, text_of("/linked/new %u", number++), "new");
}

/* clang-format off: a row a line */
static void reads(void)
{
	cb_grep_options grep = CB_WITH(cb_grep_options, .pattern = "one");
	TRY(cb_box_info_get, sizeof(cb_box_info), NOTHING, (b, &o.info, &err), NOTHING, NOTHING)
	TRY(cb_stat, sizeof(cb_stat_info), NOTHING, (b, "/work/a", 0, &o.stat, &err), NOTHING, NOTHING)
	TRY(cb_store_stats_get, sizeof(cb_store_stats), NOTHING, (s, &o.stats, &err), NOTHING, NOTHING)
	TEXT(cb_setting_get, b, "key")
	TEXT(cb_store_setting_get, s, "key")
	TEXT(cb_read_file, b, "/work/a")
	TEXT(cb_readlink, b, "/work/link")
	TEXT(cb_xattr_get, b, "/work/a", "x", 0)
	TEXT(cb_meta_get, b, "/work/a", "m")
	TEXT(cb_kv_get, b, "key")
	TEXT(cb_diff_text, older, b, NULL)
	TRY(cb_read_at, 0, NOTHING, (b, "/work/a", 0, room, sizeof(room), &o.size, &err), NOTHING, NOTHING)
	TRY(cb_read, 0, NOTHING, (f, room, sizeof(room), &o.size, &err), NOTHING, NOTHING)
	TRY(cb_pread, 0, NOTHING, (f, room, sizeof(room), 0, &o.size, &err), NOTHING, NOTHING)
	TRY(cb_seek, 0, NOTHING, (f, 0, CB_SEEK_HOLE, &o.number, &err), NOTHING, NOTHING)
	TRY(cb_fstat, sizeof(cb_stat_info), NOTHING, (f, &o.stat, &err), NOTHING, NOTHING)
	TRY(cb_log, 0, NOTHING, (b, NULL, see_step, NULL, &o.flag, &err), NOTHING, NOTHING)
	TRY(cb_grep, sizeof(cb_grep_count), NOTHING, (b, "/", &grep, see_found, NULL, &o.grep, &err), NOTHING, NOTHING)
	TRY(cb_store_check, 0, NOTHING, (s, NULL, NULL, &o.number, &err), NOTHING, NOTHING)
	TRY(cb_cancel_create, 0, NOTHING, (&o.cancel, &err), cb_cancel_free(o.cancel), NOTHING)
	TRY(cb_sandbox_plan, 0, NOTHING, (b, NULL, true, &o.text, &err), cb_free(o.text), NOTHING)
}

static void cursors(void)
{
	cb_grep_options grep = CB_WITH(cb_grep_options, .pattern = "one");
	CURSOR(cb_readdir_open, b, "/work")
	CURSOR(cb_walk_open, b, "/")
	CURSOR(cb_glob_open, b, "/work/*")
	CURSOR(cb_find_open, b, "/", NULL)
	CURSOR(cb_xattr_open, b, "/work/a", 0)
	CURSOR(cb_tag_open, b, "/work/a")
	CURSOR(cb_meta_open, b, "/work/a")
	CURSOR(cb_kv_open, b, "")
	CURSOR(cb_grep_open, b, "/", &grep)
	CURSOR(cb_log_open, b, NULL)
	CURSOR(cb_diff_open, older, b, NULL)
	CURSOR(cb_diff_step_open, b, 2, NULL)
	CURSOR(cb_diff_stat_open, older, b, NULL)
	CURSOR(cb_blame_open, b, "/work/a")
	CURSOR(cb_checkpoint_open, b)
	CURSOR(cb_conflict_open, t)
	CURSOR(cb_box_list_open, s)
	CURSOR(cb_audit_open, s, NULL)
	CURSOR(cb_use_open, s)
	NEXT(cb_entry_next, entry, cb_walk_open, b, "/")
	NEXT(cb_name_next, name, cb_kv_open, b, "")
	NEXT(cb_grep_next, grep_line, cb_grep_open, b, "/", &grep)
	NEXT(cb_step_next, step, cb_log_open, b, NULL)
	NEXT(cb_log_pruned, flag, cb_log_open, b, NULL)
	NEXT(cb_change_next, change, cb_diff_open, older, b, NULL)
	NEXT(cb_change_stat_next, change_stat, cb_diff_stat_open, older, b, NULL)
	NEXT(cb_blame_next, blame_line, cb_blame_open, b, "/work/a")
	NEXT(cb_checkpoint_next, checkpoint, cb_checkpoint_open, b)
	NEXT(cb_conflict_next, conflict, cb_conflict_open, t)
	NEXT(cb_box_next, row, cb_box_list_open, s)
	NEXT(cb_audit_next, audit, cb_audit_open, s, NULL)
	NEXT(cb_use_next, use, cb_use_open, s)
	TRY(cb_grep_counted, sizeof(cb_grep_count), CHECK_OK(cb_grep_open(b, "/", &grep, &c, &err)), (c, &o.grep, &err), NOTHING,
	    cb_cursor_close(c))
}

static void changes(void)
{
	cb_prune_options prune = CB_WITH(cb_prune_options, .keep_steps = 3);
	cb_replacement edit = {"one", 3, "two", 3};
	TRY(cb_box_create, 0, NOTHING, (s, "made", &o.box, &err), cb_box_close(o.box), NOTHING)
	TRY(cb_box_draft, 0, NOTHING, (s, "draft", &o.box, &err), cb_box_close(o.box), NOTHING)
	TRY(cb_box_open, 0, NOTHING, (s, "demo@1", &o.box, &err), cb_box_close(o.box), NOTHING)
	TRY(cb_box_fork, 0, NOTHING, (s, "demo", "fork", &o.box, &err), cb_box_close(o.box), NOTHING)
	TRY(cb_open, 0, NOTHING, (b, "/work/made", CB_WRITE | CB_CREATE, 0644, &o.file, &err), CHECK_OK(cb_close(o.file, &err)),
	    NOTHING)
	TRY(cb_edit, 0, NOTHING, (b, "/work/a", &edit, 1, NULL, &o.number, &err), NOTHING, NOTHING)
	TRY(cb_write_file, 0, NOTHING, (b, "/work/a", "x", 1, &CB_WITH(cb_write_options, .out_version = &o.number), &err), NOTHING,
	    NOTHING)
	TRY(cb_step_record, 0, NOTHING, (b, NULL, &o.number, &err), NOTHING, NOTHING)
	TRY(cb_undo, 0, NOTHING, (b, 0, &o.number, &err), NOTHING, NOTHING)
	TRY(cb_redo, 0, NOTHING, (b, &o.number, &err), NOTHING, NOTHING)
	TRY(cb_restore, 0, NOTHING, (b, older, NULL, &o.number, &err), NOTHING, NOTHING)
	TRY(cb_merge, 0, NOTHING, (b, other, NULL, &o.number, &p.number, &err), NOTHING, NOTHING)
	TRY(cb_txn_begin, 0, NOTHING, (b, NULL, &o.box, &err), cb_box_close(o.box), NOTHING)
	TRY(cb_txn_commit, sizeof(cb_commit_result), NOTHING,
	    (t, &CB_WITH(cb_commit_options, .prefer = CB_PREFER_TXN), &o.commit, &err), cb_box_close(t), NOTHING)
	lose_transaction();
	TRY(cb_txn_keep, sizeof(cb_commit_result), NOTHING, (t, NULL, &o.commit, &err), cb_box_close(t), NOTHING)
	TRY(cb_prune, 0, NOTHING, (b, &prune, &o.number, &err), NOTHING, NOTHING)
	TRY(cb_store_gc, sizeof(cb_gc_result), NOTHING, (s, &o.gc, &err), NOTHING, NOTHING)
}

static void transfers(bool memory)
{
	const char *host = in_folder("host");
	cb_import_options link = CB_WITH(cb_import_options, .to = "/linked", .link = true);
	CHECK(mkdir(host, 0700) == 0);
	write_text(text_of("%s/file", host), "text");
	TRY(cb_import, sizeof(cb_transfer_count), NOTHING, (b, host, &link, &o.transfer, &err), NOTHING, NOTHING)
	TRY(cb_export, sizeof(cb_transfer_count), NOTHING, (b, "/work", in_folder("out"), NULL, &o.transfer, &err), NOTHING,
	    NOTHING)
	TRY(cb_folder_get, 0, NOTHING, (b, &o.text, &p.text, &err), (cb_free(o.text), cb_free(p.text)), NOTHING)
	TRY(cb_folder_box, 0, NOTHING, (s, host, &o.text, &err), cb_free(o.text), NOTHING)
	TRY(cb_apply, sizeof(cb_apply_result), change_linked(), (b, NULL, NULL, NULL, &o.apply, &err), NOTHING, NOTHING)
	TRY(cb_tar_export, sizeof(cb_transfer_count), rewind_fd(true), (b, "/work", fd, NULL, &o.transfer, &err), NOTHING, NOTHING)
	TRY(cb_tar_import, sizeof(cb_transfer_count), rewind_fd(false), (b, fd, NULL, &o.transfer, &err), NOTHING, NOTHING)
	TRY(cb_pack, sizeof(cb_pack_info), rewind_fd(true), (b, fd, NULL, &o.pack, &err), NOTHING, NOTHING)
	TRY(cb_unpack, sizeof(cb_pack_info), rewind_fd(false), (s, fd, "unpacked", NULL, &o.pack, &err), NOTHING, NOTHING)
	TRY(cb_store_open, 0, NOTHING, (memory ? ":memory:" : test_store_path(), NULL, &o.store, &err), cb_store_close(o.store),
	    NOTHING)
}

static cb_sandbox *sandbox;
static cb_exec *program;

static void start(const char *command)
{
	const char *argv[] = {"sh", "-c", command};
	CHECK_OK(cb_exec_start(sandbox, &CB_WITH(cb_exec_options, .argv = argv, .argc = 3, .stdin_fd = CB_STDIN_PIPE), &program,
	                       NULL));
}

static void run(void)
{
	const cb_exec_result *result = NULL;
	start("echo x >/work/ran");
	CHECK_OK(cb_exec_wait(program, &result, &err));
}

static void programs(void)
{
	const char *argv[] = {"true"};
	cb_exec_options command = CB_WITH(cb_exec_options, .argv = argv, .argc = 1);
	TRY(cb_sandbox_try, sizeof(cb_tier_report), NOTHING, (test_tmpdir(), CB_TIER_FOLDER, &o.tier, &err), NOTHING, NOTHING)
	TRY(cb_sandbox_open, 0, NOTHING, (b, NULL, &o.sandbox, &err), cb_sandbox_close(o.sandbox), NOTHING)
	TRY(cb_exec_start, 0, NOTHING, (sandbox, &command, &o.exec, &err), cb_exec_close(o.exec), NOTHING)
	TRY(cb_exec_input, 0, start("cat"), (program, "x", 1, &o.size, &err), NOTHING, cb_exec_close(program))
	TRY(cb_exec_pump, 0, start("echo x"), (program, &o.flag, &err), NOTHING, cb_exec_close(program))
	TRY(cb_exec_wait, 0, start("echo x >/work/ran"), (program, &o.result, &err), NOTHING, cb_exec_close(program))
	run();
	CURSOR(cb_exec_changes_open, program)
	cb_exec_close(program);
	TRY(cb_exec_recover, 0, NOTHING, (s, NULL, &o.number, &err), NOTHING, NOTHING)
	TRY(cb_exec_drop, 0, NOTHING, (s, "demo", &o.number, &err), NOTHING, NOTHING)
}
/* clang-format on */

static void begin(bool memory)
{
	CHECK_OK(cb_cancel_create(&token, &err));
	s = test_store_open(memory);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/a", "one\n");
	CHECK_OK(cb_symlink(b, "a", "/work/link", &err));
	older = must_open(s, "demo@1");
	other = must_fork(s, "demo", "other");
	must_write(other, "/work/c", "there");
	must_write(b, "/work/a", "one\nmore\n");
	CHECK_OK(cb_xattr_set(b, "/work/a", "x", "v", 1, 0, &err));
	CHECK_OK(cb_meta_set(b, "/work/a", "m", "v", 1, &err));
	CHECK_OK(cb_tag_add(b, "/work/a", "t", &err));
	CHECK_OK(cb_kv_set(b, "key", "v", 1, &err));
	CHECK_OK(cb_setting_set(b, "key", "v", 1, &err));
	CHECK_OK(cb_store_setting_set(s, "key", "v", 1, &err));
	CHECK_OK(cb_checkpoint_save(b, "point", 0, true, &err));
	CHECK_OK(cb_open(b, "/work/a", CB_READ, 0, &f, &err));
	fd = open(in_folder("stream"), O_RDWR | O_CREAT, 0600);
	CHECK(fd >= 0);
	lose_transaction();
}

static void finish(void)
{
	CHECK_OK(cb_close(f, &err));
	cb_box_close(older);
	cb_box_close(other);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
	cb_cancel_free(token);
	CHECK(close(fd) == 0);
}

static void all(bool memory, weapon w)
{
	against = w;
	begin(memory);
	reads();
	cursors();
	changes();
	transfers(memory);
	finish();
}

/* A parameter that is an output: "uint64_t *out_seq". */
static void look_at_call(const char *declaration, int *count)
{
	const char *end = strchr(declaration, ';'), *out = strstr(declaration, "*out"), *open = strchr(declaration, '('),
		   *name = open;
	if (!out || out > end) return;
	while (isalnum((unsigned char)name[-1]) || name[-1] == '_') name--;
	const char *call = text_of("%.*s", (int)(open - name), name);
	++*count;
	CHECK_MSG(strstr((const char *)seen.bytes, text_of(" %s ", call)) != NULL, "the outputs of %s are not tested here", call);
}

static void no_call_is_missing(void)
{
	int count = 0;
	/* Tried below, where there are sandboxes; cb_work_clean goes on where one folder could not be removed. */
	CHECK_OK(buf_printf(&seen, &err,
	                    " cb_sandbox_open  cb_exec_start  cb_exec_input  cb_exec_wait  cb_exec_changes_open "
	                    " cb_exec_recover  cb_exec_drop  cb_sandbox_try  cb_work_clean "));
	CHECK_OK(buf_append_byte(&seen, 0, &err));
	char *umbrella = must_text("include/cowbox/cowbox.h");
	for (char *line = umbrella; (line = strstr(line, "\n#include <cowbox/")); line++) {
		const char *header = text_of("include/%.*s", (int)strcspn(line + 11, ">"), line + 11);
		for (char *at = must_text(header); (at = strstr(at, "\nCB_API ")); at++) look_at_call(at + 8, &count);
	}
	CHECK_MSG(count > 80, "%d calls with outputs", count);
	buf_done(&seen);
}

TEST_LIMIT(without_memory_disk, 120)
{
	all(false, NO_MEMORY);
	no_call_is_missing();
}

TEST_LIMIT(without_memory_memory, 120)
{
	all(true, NO_MEMORY);
	buf_done(&seen);
}

TEST_LIMIT(ended_by_a_limit_disk, 120)
{
	all(false, ENDED);
	buf_done(&seen);
}

TEST_LIMIT(ended_by_a_limit_memory, 120)
{
	all(true, ENDED);
	buf_done(&seen);
}

static void all_programs(weapon w)
{
	against = w;
	begin(false);
	cb_box_close(t);
	cb_code code = cb_sandbox_open(b, NULL, &sandbox, &err);
	if (code == CB_UNSUPPORTED) test_lacks("sandbox", err.message);
	CHECK_MSG(code == CB_OK, "%s", err.message);
	programs();
	cb_sandbox_close(sandbox);
	finish();
	buf_done(&seen);
}

TEST_LIMIT(programs_without_memory, 300)
{
	all_programs(NO_MEMORY);
}

TEST_LIMIT(programs_ended_by_a_limit, 300)
{
	all_programs(ENDED);
}
