/* test_bytes.c: byte strings with sizes: what is given with a NUL in it comes back with it, and CB_STRING ends at the first. */
#include "contract/test_docs_kit.h"

static cb_store *s;
static cb_box *b;
static cb_error err;

static void begin(bool memory)
{
	s = test_store_open(memory);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/a", "one");
}

static void finish(void)
{
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

#define PARAMS "p\0q"
#define RESULT "\0r\0"

/* context: how many bytes of each are expected. */
typedef struct wish {
	const char *params, *result;
	size_t params_size, result_size;
	int seen;
} wish;

static cb_code look(void *context, const cb_step *step, cb_error *e)
{
	(void)e;
	wish *w = context;
	w->seen++;
	CHECK_U64(step->params_size, w->params_size);
	CHECK_U64(step->result_size, w->result_size);
	CHECK(memcmp(step->params, w->params, w->params_size + 1) == 0); /* and a NUL after it */
	CHECK(memcmp(step->result, w->result, w->result_size + 1) == 0);
	return CB_OK;
}

static void must_have(cb_box *box, uint64_t seq)
{
	wish w = {PARAMS, RESULT, 3, 3, 0};
	CHECK_OK(cb_step_get(box, seq, look, &w, &err));
	CHECK(w.seen == 1);
}

static cb_step_info both(void)
{
	return CB_WITH(cb_step_info, .kind = "tool", .params = PARAMS, .params_size = 3, .result = RESULT, .result_size = 3);
}

TEST_BOTH(what_a_step_says)
{
	begin(memory);
	uint64_t seq = 0;
	cb_step_info info = both();
	CHECK_OK(cb_step_record(b, &info, &seq, &err));
	must_have(b, seq);
	/* A transaction: at its begin, at its commit, merged, and kept as a fork. */
	cb_commit_result r = CB_INIT(cb_commit_result);
	cb_box *t = NULL;
	CHECK_OK(cb_txn_begin(b, &CB_WITH(cb_txn_options, .step = &info), &t, &err));
	must_write(t, "/work/t", "x");
	must_write(b, "/work/b", "x");
	CHECK_OK(cb_txn_commit(t, NULL, &r, &err));
	cb_box_close(t);
	CHECK(r.merged);
	must_have(b, r.seq);
	t = must_begin(b);
	must_write(t, "/work/t", "y");
	CHECK_OK(cb_txn_commit(t, &CB_WITH(cb_commit_options, .step = &info), &r, &err));
	cb_box_close(t);
	must_have(b, r.seq);
	CHECK_OK(cb_txn_begin(b, &CB_WITH(cb_txn_options, .step = &info), &t, &err));
	must_write(t, "/work/t", "z");
	CHECK_OK(cb_txn_keep(t, "kept", &r, &err));
	cb_box_close(t);
	cb_box *kept = must_open(s, "kept");
	must_have(kept, r.seq);
	cb_box_close(kept);
	/* Packed and unpacked. */
	FILE *f = tmpfile();
	CHECK(f != NULL);
	CHECK_OK(cb_pack(b, fileno(f), NULL, NULL, &err));
	CHECK(lseek(fileno(f), 0, SEEK_SET) == 0);
	CHECK_OK(cb_unpack(s, fileno(f), "again", NULL, NULL, &err));
	cb_box *again = must_open(s, "again");
	must_have(again, seq);
	cb_box_close(again);
	CHECK(fclose(f) == 0);
	finish();
}

TEST(where_a_string_ends)
{
	begin(true);
	uint64_t seq = 0;
	wish w = {"p", "", 1, 0, 0};
	cb_step_info info = both();
	info.params_size = info.result_size = CB_STRING;
	CHECK_OK(cb_step_record(b, &info, &seq, &err));
	CHECK_OK(cb_step_get(b, seq, look, &w, &err));
	info.params = NULL;
	CHECK_CODE(cb_step_record(b, &info, &seq, &err), CB_INVALID);
	char *large = test_keep(calloc(1, (1 << 20) + 1));
	info = CB_WITH(cb_step_info, .params = large, .params_size = (1 << 20) + 1);
	CHECK_CODE(cb_step_record(b, &info, &seq, &err), CB_LIMIT);
	info.params_size--;
	CHECK_OK(cb_step_record(b, &info, &seq, &err));
	/* Wherever bytes are handed over. */
	cb_file *f = NULL;
	CHECK_OK(cb_write_file(b, "/work/s", "abc", CB_STRING, NULL, &err));
	CHECK_STR(must_read(b, "/work/s"), "abc");
	CHECK_OK(cb_edit(b, "/work/s", &(cb_replacement){"b", CB_STRING, "BB", CB_STRING}, 1, NULL, NULL, &err));
	CHECK_STR(must_read(b, "/work/s"), "aBBc");
	CHECK_OK(cb_open(b, "/work/s", CB_WRITE, 0, &f, &err));
	CHECK_OK(cb_write(f, "xy", CB_STRING, &err));
	CHECK_OK(cb_pwrite(f, "z", CB_STRING, 3, &err));
	CHECK_OK(cb_pwrite(f, NULL, 0, 1, &err)); /* nothing, and no end of file either */
	CHECK_OK(cb_close(f, &err));
	CHECK_STR(must_read(b, "/work/s"), "xyBz");
	finish();
}

static cb_code any_path(void *context, const char *path, const cb_stat_info *info, cb_error *e)
{
	(void)path;
	(void)info;
	(void)e;
	++*(int *)context;
	return CB_OK;
}

TEST_BOTH(values)
{
	begin(memory);
	char *out = NULL;
	size_t size = 0;
#define SAME(bytes, count)                                                             \
	CHECK(size == (count) && memcmp(out, bytes, (count)) == 0 && out[count] == 0); \
	cb_free(out)
	CHECK_OK(cb_meta_set(b, "/work/a", "m", "v\0w", 3, &err));
	CHECK_OK(cb_meta_get(b, "/work/a", "m", &out, &size, &err));
	SAME("v\0w", 3);
	CHECK_OK(cb_copy(b, "/work/a", "/work/copy", 0, &err));
	CHECK_OK(cb_meta_get(b, "/work/copy", "m", &out, &size, &err));
	SAME("v\0w", 3);
	int found = 0;
	cb_find_options o = CB_WITH(cb_find_options, .meta = "m", .meta_value = "v\0w", .meta_value_size = 3);
	CHECK_OK(cb_find(b, "/", &o, any_path, &found, &err));
	CHECK(found == 2);
	o.meta_value_size = CB_STRING;
	CHECK_OK(cb_find(b, "/", &o, any_path, &found, &err));
	CHECK(found == 2);
	CHECK_OK(cb_meta_set(b, "/work/a", "m", "v\0w", CB_STRING, &err));
	CHECK_OK(cb_meta_get(b, "/work/a", "m", &out, &size, &err));
	SAME("v", 1);
	CHECK_OK(cb_meta_set(b, "/work/a", "m", NULL, 0, &err));
	CHECK_CODE(cb_meta_get(b, "/work/a", "m", &out, NULL, &err), CB_NODATA);
	CHECK_OK(cb_kv_set(b, "k", "\0", 1, &err));
	CHECK_OK(cb_kv_get(b, "k", &out, &size, &err));
	SAME("\0", 1);
	CHECK_OK(cb_kv_set(b, "k", NULL, 0, &err));
	CHECK_OK(cb_kv_get(b, "k", &out, &size, &err));
	SAME("", 0);
	CHECK_OK(cb_xattr_set(b, "/work/a", "user.x", "1\0", 2, 0, &err));
	CHECK_OK(cb_xattr_get(b, "/work/a", "user.x", 0, &out, &size, &err));
	SAME("1\0", 2);
	CHECK_OK(cb_symlink(b, "to/it", "/work/link", &err));
	CHECK_OK(cb_readlink(b, "/work/link", &out, &size, &err));
	SAME("to/it", 5);
	/* Settings are texts. */
	CHECK_OK(cb_setting_set(b, "t", "abcd", 2, &err));
	CHECK_OK(cb_setting_get(b, "t", &out, &size, &err));
	SAME("ab", 2);
	CHECK_OK(cb_store_setting_set(s, "t", "", 0, &err));
	CHECK_OK(cb_store_setting_get(s, "t", &out, &size, &err));
	SAME("", 0);
	CHECK_CODE(cb_setting_set(b, "t", "a\0b", 3, &err), CB_INVALID);
	CHECK_CODE(cb_store_setting_set(s, "t", "a\0b", 3, &err), CB_INVALID);
	CHECK_OK(cb_setting_set(b, "t", NULL, 0, &err));
	CHECK_CODE(cb_setting_get(b, "t", &out, NULL, &err), CB_NOTFOUND);
	finish();
}

static cb_code look_at_params(void *context, const cb_step *step, cb_error *e)
{
	(void)context;
	(void)e;
	CHECK(step->params_size == 3 && memcmp(step->params, PARAMS, 4) == 0);
	return CB_OK;
}

TEST(what_a_program_is_recorded_with)
{
	begin(false);
	cb_sandbox *sandbox = NULL;
	cb_exec *exec = NULL;
	const cb_exec_result *result = NULL;
	cb_exec_options o = CB_WITH(cb_exec_options, .argv = (const char *const[]){"sh", "-c", "echo x >x"}, .argc = 3,
	                            .stdin_fd = CB_STDIN_NONE, .params = PARAMS, .params_size = 3);
	cb_code code = cb_sandbox_open(b, NULL, &sandbox, &err);
	if (code == CB_OK) code = cb_exec_start(sandbox, &o, &exec, &err);
	if (code == CB_UNSUPPORTED) test_lacks("sandbox", err.message);
	CHECK_MSG(code == CB_OK, "%s", err.message);
	CHECK_OK(cb_exec_wait(exec, &result, &err));
	CHECK(result->struct_size == sizeof(*result));
	CHECK_OK(cb_step_get(b, result->step, look_at_params, NULL, &err));
	cb_exec_close(exec);
	cb_sandbox_close(sandbox);
	finish();
}
