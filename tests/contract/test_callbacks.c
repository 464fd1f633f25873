/*
 * test_callbacks.c: whatever a function of the caller's does when it is called back: it returns a code and says nothing, returns what is
 * no code, closes the box and the store that it is called for, or uses them while another thread does too.
 */
#include "harness/boxes.h"

#include <cowbox/cowbox.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

/* What every visitor here does. */
static struct {
	int answer;       /* is returned */
	const char *said; /* goes into *err; NULL: nothing does */
	bool closes;
	bool uses;
	pthread_t caller; /* with `uses` */
	int called;
} how;

static cb_store *s;
static cb_box *b, *from, *t;
static char folder[4300];
static int fd = -1;

static void world_close(void)
{
	cb_box_close(t);
	cb_box_close(from);
	cb_box_close(b);
	cb_store_close(s);
	t = from = b = NULL;
	s = NULL;
	if (fd >= 0) (void)close(fd);
	fd = -1;
}

/* Another thread, through a handle of its own: no lock of the store is held. */
static void *use_beside(void *context)
{
	(void)context;
	cb_error err = {0};
	cb_box *own = NULL;
	CHECK_OK(cb_limit_push(&CB_WITH(cb_limit, .timeout_ms = 20000), &err));
	CHECK_OK(cb_box_open(s, "demo", &own, &err));
	must_write(own, "/work/beside", "thread");
	cb_box_close(own);
	cb_limit_pop();
	return NULL;
}

static void use(void)
{
	cb_error err = {0};
	pthread_t thread;
	CHECK(pthread_equal(pthread_self(), how.caller));
	CHECK_OK(cb_kv_set(b, "from", "inside", 6, &err));
	CHECK_OK(cb_kv_delete(b, "from", &err));
	CHECK(exists(b, "/work/a.txt"));
	CHECK(pthread_create(&thread, NULL, use_beside, NULL) == 0 && pthread_join(thread, NULL) == 0);
}

static cb_code act(cb_error *err)
{
	if (how.called++ == 0 && how.closes) world_close();
	if (how.uses && how.called == 1) use();
	if (how.said && err) {
		err->code = (cb_code)how.answer;
		err->os_error = 0;
		(void)snprintf(err->message, sizeof(err->message), "%s", how.said);
	}
	return (cb_code)how.answer;
}

#define VISITOR(name, type)                                                   \
	static cb_code name(void *context, const type *item, cb_error *error) \
	{                                                                     \
		(void)context;                                                \
		(void)item;                                                   \
		return act(error);                                            \
	}
VISITOR(on_audit, cb_audit)
VISITOR(on_box, cb_box_info)
VISITOR(on_step, cb_step)
VISITOR(on_change, cb_change)
VISITOR(on_stat, cb_change_stat)
VISITOR(on_checkpoint, cb_checkpoint)
VISITOR(on_blame, cb_blame_line)
VISITOR(on_grep, cb_grep_line)
VISITOR(on_use, cb_use)
VISITOR(on_conflict, cb_conflict)
VISITOR(on_item, cb_apply_item)
static cb_code on_entry(void *context, const char *name, const cb_stat_info *info, cb_error *error)
{
	(void)name;
	return on_box(context, (const void *)info, error);
}
static cb_code on_name(void *context, const char *name, const char *value, size_t size, cb_error *error)
{
	(void)name;
	(void)size;
	return on_box(context, (const void *)value, error);
}
static void on_note(void *context, const char *path, const char *what)
{
	(void)context;
	(void)path;
	(void)what;
	(void)act(NULL);
}
static bool on_progress(void *context, const cb_progress *progress)
{
	(void)context;
	(void)progress;
	(void)act(NULL);
	return true;
}
static bool on_skip(void *context, const cb_change *change)
{
	(void)context;
	(void)change;
	(void)act(NULL);
	return false;
}
static cb_prefer on_resolve(void *context, const cb_conflict *conflict)
{
	(void)context;
	(void)conflict;
	(void)act(NULL);
	return CB_PREFER_OURS;
}
static void on_complaint(void *context, const char *line)
{
	(void)context;
	(void)line;
	(void)act(NULL);
}

/* A box that is linked to a folder, an older state of it, and a transaction that lost. */
static void world_open(bool memory)
{
	static int number;
	cb_error err = {0};
	char path[4400];
	s = test_store_open(memory);
	(void)snprintf(folder, sizeof(folder), "%s/folder-%d", test_tmpdir(), number++);
	CHECK(mkdir(folder, 0755) == 0);
	(void)snprintf(path, sizeof(path), "%s/a.txt", folder);
	int made = open(path, O_CREAT | O_WRONLY, 0644);
	CHECK(made >= 0 && write(made, "one\ntwo\n", 8) == 8 && close(made) == 0);
	(void)snprintf(path, sizeof(path), "%s/fifo", folder);
	CHECK(mkfifo(path, 0644) == 0);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	CHECK_OK(cb_import(b, folder, &CB_WITH(cb_import_options, .to = "/work", .link = true), NULL, &err));
	from = must_fork(s, "demo", "other");
	t = must_begin(b);
	must_write(t, "/work/a.txt", "txn\n");
	must_write(from, "/work/a.txt", "fork\n");
	must_write(b, "/work/a.txt", "one\ntwo\nthree\n");
	must_write(b, "/work/b.txt", "three\n");
	CHECK_OK(cb_xattr_set(b, "/work/a.txt", "user.x", "1", 1, 0, &err));
	CHECK_OK(cb_chmod(b, "/work/b.txt", 04755, 0, &err)); /* something to be said about it */
	CHECK_OK(cb_tag_add(b, "/work/a.txt", "red", &err));
	CHECK_OK(cb_meta_set(b, "/work/a.txt", "level", "1", CB_STRING, &err));
	CHECK_OK(cb_kv_set(b, "key", "1", 1, &err));
	CHECK_OK(cb_checkpoint_save(b, "first", 1, true, &err));
	CHECK_OK(cb_pin_set(b, "job", "why", 0, &err));
	CHECK_CODE(cb_txn_commit(t, NULL, NULL, &err), CB_CONFLICT);
}

static void store_remove(void)
{
	char command[4400];
	(void)snprintf(command, sizeof(command), "rm -rf '%s'", test_store_path());
	CHECK(system(command) == 0);
}

static const cb_transfer_watch watch = {.struct_size = sizeof(watch), .note = on_note, .progress = on_progress};

static int file_open(const char *name, int flags)
{
	char path[4400];
	(void)snprintf(path, sizeof(path), "%s/%s", test_tmpdir(), name);
	fd = open(path, flags | O_CLOEXEC, 0600);
	CHECK(fd >= 0);
	return fd;
}

static void files_make(void)
{
	cb_error err = {0};
	CHECK_OK(cb_tar_export(b, "/work", file_open("tar", O_CREAT | O_RDWR | O_TRUNC), &CB_WITH(cb_tar_options, .setid = true),
	                       NULL, &err));
	CHECK(close(fd) == 0);
	CHECK_OK(cb_pack(b, file_open("pack", O_CREAT | O_RDWR | O_TRUNC), NULL, NULL, &err));
	CHECK(close(fd) == 0);
	fd = -1;
}

static const char *fresh(const char *name)
{
	static char path[4400];
	static int number;
	(void)snprintf(path, sizeof(path), "%s/%s-%d", test_tmpdir(), name, number++);
	return path;
}

/* clang-format off: a row a line */
#define VISITORS(X)                                                                                 \
	X(cb_audit_list(s, NULL, on_audit, NULL, err))                                              \
	X(cb_box_list(s, on_box, NULL, err))                                                        \
	X(cb_store_uses(s, on_use, NULL, err))                                                      \
	X(cb_checkpoint_list(b, on_checkpoint, NULL, err))                                          \
	X(cb_readdir(b, "/work", on_entry, NULL, err))                                              \
	X(cb_walk(b, "/", on_entry, NULL, err))                                                     \
	X(cb_glob(b, "/work/*.txt", on_entry, NULL, err))                                           \
	X(cb_find(b, "/work", NULL, on_entry, NULL, err))                                           \
	X(cb_grep(b, "/work", &CB_WITH(cb_grep_options, .pattern = "t"), on_grep, NULL, NULL, err)) \
	X(cb_xattr_list(b, "/work/a.txt", 0, on_name, NULL, err))                                   \
	X(cb_tag_list(b, "/work/a.txt", on_name, NULL, err))                                        \
	X(cb_meta_list(b, "/work/a.txt", on_name, NULL, err))                                       \
	X(cb_kv_list(b, "", on_name, NULL, err))                                                    \
	X(cb_log(b, NULL, on_step, NULL, NULL, err))                                                \
	X(cb_step_get(b, 1, on_step, NULL, err))                                                    \
	X(cb_diff(from, b, NULL, on_change, NULL, err))                                             \
	X(cb_diff_step(b, 2, NULL, on_change, NULL, err))                                           \
	X(cb_diff_stat(from, b, NULL, on_stat, NULL, err))                                          \
	X(cb_blame(b, "/work/a.txt", on_blame, NULL, err))                                          \
	X(cb_txn_conflicts(t, on_conflict, NULL, err))                                              \
	X(cb_apply(b, &CB_WITH(cb_apply_options, .dry_run = true), on_item, NULL, NULL, err))
#define OTHERS(X)                                                                                                             \
	X(cb_apply(b, NULL, on_item, NULL, NULL, err))                                                                        \
	X(cb_apply(b, &CB_WITH(cb_apply_options, .watch = &watch), NULL, NULL, NULL, err))                                    \
	X(cb_import(b, folder, &CB_WITH(cb_import_options, .to = "/work/n", .watch = &watch), NULL, err))                     \
	X(cb_import(t, folder, &CB_WITH(cb_import_options, .to = "/work/n", .watch = &watch), NULL, err))                     \
	X(cb_export(b, "/work", fresh("out"), &CB_WITH(cb_export_options, .watch = &watch), NULL, err))                       \
	X(cb_tar_export(b, "/work", file_open("t2", O_CREAT | O_RDWR), &CB_WITH(cb_tar_options, .watch = &watch), NULL, err)) \
	X(cb_tar_import(b, file_open("tar", O_RDONLY), &CB_WITH(cb_tar_options, .watch = &watch), NULL, err))                 \
	X(cb_tar_import(t, file_open("tar", O_RDONLY), &CB_WITH(cb_tar_options, .watch = &watch), NULL, err))                 \
	X(cb_pack(b, file_open("p2", O_CREAT | O_RDWR), &CB_WITH(cb_pack_options, .watch = &watch), NULL, err))               \
	X(cb_unpack(s, file_open("pack", O_RDONLY), "unpacked", &watch, NULL, err))                                           \
	X(cb_merge(b, from, &CB_WITH(cb_merge_options, .resolve = on_resolve), NULL, NULL, err))                              \
	X(cb_diff_text(from, b, &CB_WITH(cb_diff_text_options, .skip = on_skip), &text, NULL, err))                           \
	X(cb_store_check(s, on_complaint, NULL, NULL, err))
/* clang-format on */

/* ---- codes ---- */

static void must_end(const char *call, cb_code code, const cb_error *err, cb_code expected, const char *message)
{
	CHECK_MSG(how.called == 1, "%s: called %d times", call, how.called);
	CHECK_MSG(code == expected, "%s: %s", call, cb_code_name(code));
	CHECK_MSG(!err || err->code == expected, "%s: err says %s", call, cb_code_name(err->code));
	CHECK_MSG(!err || strcmp(err->message, message) == 0, "%s: '%s'", call, err->message);
	how.called = 0;
}

#define ENDS(call)                                               \
	do {                                                     \
		cb_error filled, *err = &filled;                 \
		memset(&filled, 0x5a, sizeof(filled));           \
		must_end(#call, (call), err, expected, message); \
		err = NULL;                                      \
		must_end(#call, (call), err, expected, message); \
	} while (0);

static void all_end(int answer, const char *said, cb_code expected, const char *message)
{
	how.answer = answer;
	how.said = said;
	how.called = 0;
	VISITORS(ENDS)
}

TEST(a_visitors_code_is_told)
{
	world_open(true);
	all_end(CB_QUOTA, NULL, CB_QUOTA, "the caller's visitor returned QUOTA");
	all_end(CB_QUOTA, "enough of this", CB_QUOTA, "enough of this");
	all_end(7, NULL, CB_INVALID, "the caller's visitor returned 7: there is no such code");
	all_end(-999, NULL, CB_INVALID, "the caller's visitor returned -999: there is no such code");
	world_close();
}

#define ENDS_WELL(call)                                                                           \
	do {                                                                                      \
		cb_error filled, before, *err = &filled;                                          \
		memset(&filled, 0x5a, sizeof(filled));                                            \
		before = filled;                                                                  \
		CHECK_MSG((call) == CB_OK && how.called == 1, "%s", #call);                       \
		CHECK_MSG(memcmp(&before, &filled, sizeof(filled)) == 0, "%s filled err", #call); \
		how.called = 0;                                                                   \
	} while (0);

TEST(seen_enough_is_no_error)
{
	world_open(true);
	how.answer = CB_INTERRUPTED;
	how.said = "ignored";
	how.called = 0;
#define NOT_APPLY(call) \
	if (strncmp(#call, "cb_apply", 8) != 0) ENDS_WELL(call)
	VISITORS(NOT_APPLY)
	world_close();
}

/* ---- closing ---- */

/* It ends, well or with a reason, and touches nothing that is gone: the address sanitizer looks on. */
#define SURVIVES(call)                                                                                                       \
	do {                                                                                                                 \
		cb_error filled = {0}, *err = &filled;                                                                       \
		char *text = NULL;                                                                                           \
		world_open(false);                                                                                           \
		files_make();                                                                                                \
		how.closes = true;                                                                                           \
		how.called = 0;                                                                                              \
		cb_code code = (call);                                                                                       \
		CHECK_MSG(how.called > 0 || strstr(#call, "cb_store_check"), "%s called nobody: %s", #call, filled.message); \
		CHECK_MSG(code == CB_OK || filled.message[0], "%s: %s", #call, cb_code_name(code));                          \
		CHECK_MSG(code != CB_INTERNAL && code != CB_CORRUPT, "%s: %s", #call, filled.message);                       \
		if (s) world_close();                                                                                        \
		how.closes = false;                                                                                          \
		cb_free(text);                                                                                               \
		CHECK_OK_OF(cb_store_open(test_store_path(), NULL, &s, err), filled);                                        \
		test_store_sound(s);                                                                                         \
		world_close();                                                                                               \
		store_remove();                                                                                              \
	} while (0);
#define CHECK_OK_OF(call, error) CHECK_MSG((call) == CB_OK, "%s", (error).message)

TEST_LIMIT(a_visitor_may_close_everything, 120)
{
	how.answer = CB_OK;
	how.said = NULL;
	VISITORS(SURVIVES)
}

TEST_LIMIT(whoever_is_called_back_may_close_everything, 120)
{
	how.answer = CB_OK;
	how.said = NULL;
	OTHERS(SURVIVES)
}

/* A draft that is closed from inside is gone as ever. */
TEST(a_draft_may_be_closed_from_inside)
{
	cb_error err = {0};
	world_open(false);
	cb_box_close(b);
	CHECK_OK(cb_box_draft(s, "draft", &b, &err));
	cb_store *again = test_store_reopen();
	how.closes = true;
	(void)cb_import(b, folder, &CB_WITH(cb_import_options, .watch = &watch), NULL, &err);
	how.closes = false;
	CHECK(how.called > 0 && !b);
	CHECK_CODE(cb_box_open(again, "draft", &b, &err), CB_NOTFOUND);
	test_store_sound(again);
	cb_store_close(again);
}

/* ---- using ---- */

#define GOES_ON(call)                                                                                                        \
	do {                                                                                                                 \
		cb_error filled = {0}, *err = &filled;                                                                       \
		char *text = NULL;                                                                                           \
		world_open(false);                                                                                           \
		files_make();                                                                                                \
		how.called = 0;                                                                                              \
		cb_code code = (call);                                                                                       \
		CHECK_MSG(how.called > 0 || strstr(#call, "cb_store_check"), "%s called nobody: %s", #call, filled.message); \
		CHECK_MSG(code == CB_OK, "%s: %s (%s)", #call, cb_code_name(code), filled.message);                          \
		cb_free(text);                                                                                               \
		test_store_sound(s);                                                                                         \
		world_close();                                                                                               \
		store_remove();                                                                                              \
	} while (0);

TEST_LIMIT(whoever_is_called_back_may_use_everything, 120)
{
	how.answer = CB_OK;
	how.said = NULL;
	how.uses = true;
	how.caller = pthread_self();
	VISITORS(GOES_ON)
	OTHERS(GOES_ON)
	how.uses = false;
}
