/* boxes.c: see boxes.h. */
#include "harness/boxes.h"

#include <pthread.h>

#include "base/buf.h"
#include "base/hash.h"

static char store_folder[4096];

cb_store *test_store_open(bool memory)
{
	cb_error err = {0};
	cb_store *s = NULL;
	(void)snprintf(store_folder, sizeof(store_folder), "%s/store", test_tmpdir());
	CHECK_OK(cb_store_open(memory ? ":memory:" : store_folder, NULL, &s, &err));
	return s;
}

const char *test_store_path(void)
{
	return store_folder;
}

cb_store *test_store_reopen(void)
{
	cb_error err = {0};
	cb_store *s = NULL;
	CHECK_OK(cb_store_open(store_folder, NULL, &s, &err));
	return s;
}

void *test_keep(void *p)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static void **kept;
	static size_t count;
	(void)pthread_mutex_lock(&lock);
	if (count % 256 == 0) kept = realloc(kept, (count + 256) * sizeof(*kept));
	kept[count++] = p;
	(void)pthread_mutex_unlock(&lock);
	return p;
}

static void complain(void *context, const char *line)
{
	(void)context;
	test_note("fsck: %s", line);
}

void test_store_sound(cb_store *store)
{
	cb_error err = {0};
	uint64_t complaints = 0;
	CHECK_OK(cb_store_check(store, complain, NULL, &complaints, &err));
	CHECK_U64(complaints, 0);
}

void must_write(cb_box *b, const char *path, const char *text)
{
	cb_error err = {0};
	cb_write_options o = CB_WITH(cb_write_options, .parents = true);
	CHECK_OK(cb_write_file(b, path, text, strlen(text), &o, &err));
}

char *must_read(cb_box *b, const char *path)
{
	cb_error err = {0};
	char *text = NULL;
	CHECK_OK(cb_read_file(b, path, &text, NULL, &err));
	return test_keep(text);
}

void must_edit_line(cb_box *b, int line, const char *text)
{
	char out[512] = "", *old = exists(b, "/work/f") ? must_read(b, "/work/f") : NULL;
	for (int i = 0; i < 10; i++) {
		char was[32] = {(char)('0' + i)};
		if (old) {
			size_t n = strcspn(old, "\n");
			(void)snprintf(was, sizeof(was), "%.*s", (int)n, old);
			old += n + 1;
		}
		(void)snprintf(out + strlen(out), sizeof(out) - strlen(out), "%s\n", i == line ? text : was);
	}
	must_write(b, "/work/f", out);
}

cb_box *must_open(cb_store *s, const char *address)
{
	cb_error err = {0};
	cb_box *b = NULL;
	CHECK_OK(cb_box_open(s, address, &b, &err));
	return test_keep(b);
}

cb_box *must_fork(cb_store *s, const char *address, const char *name)
{
	cb_error err = {0};
	cb_box *b = NULL;
	CHECK_OK(cb_box_fork(s, address, name, &b, &err));
	return b;
}

cb_box *must_begin(cb_box *b)
{
	cb_error err = {0};
	cb_box *txn = NULL;
	CHECK_OK(cb_txn_begin(b, NULL, &txn, &err));
	return txn;
}

cb_commit_result must_commit(cb_box *txn)
{
	cb_error err = {0};
	cb_commit_result result = CB_INIT(cb_commit_result);
	CHECK_OK(cb_txn_commit(txn, NULL, &result, &err));
	cb_box_close(txn);
	return result;
}

void limit_push(int64_t timeout_ms, cb_cancel *token)
{
	cb_error err = {0};
	CHECK_OK(cb_limit_push(&CB_WITH(cb_limit, .timeout_ms = timeout_ms, .cancel = token), &err));
}

uint64_t must_version(cb_box *b, const char *path)
{
	cb_error err = {0};
	cb_stat_info info = CB_INIT(cb_stat_info);
	CHECK_OK(cb_stat(b, path, 0, &info, &err));
	return info.version;
}

uint64_t must_seq(cb_box *b)
{
	cb_error err = {0};
	cb_box_info info = CB_INIT(cb_box_info);
	CHECK_OK(cb_box_info_get(b, &info, &err));
	return info.seq;
}

bool exists(cb_box *b, const char *path)
{
	cb_stat_info info = CB_INIT(cb_stat_info);
	return cb_stat(b, path, CB_NOFOLLOW, &info, NULL) == CB_OK;
}

static cb_code print_change(void *context, const cb_change *c, cb_error *err)
{
	if (c->old_path) return buf_printf(context, err, "%c %s -> %s%s\n", c->kind, c->old_path, c->path, c->modified ? " *" : "");
	return buf_printf(context, err, "%c %s\n", c->kind, c->path);
}

char *must_diff(cb_box *from, cb_box *to)
{
	cb_error err = {0};
	buf text = BUF_INIT(SIZE_MAX);
	char *out = NULL;
	CHECK_OK(cb_diff(from, to, NULL, print_change, &text, &err));
	CHECK_OK(buf_take(&text, &out, NULL, &err));
	return test_keep(out);
}

static cb_code print_seq(void *context, const cb_blame_line *line, cb_error *err)
{
	return buf_printf(context, err, line->line > 1 ? " %llu" : "%llu", (unsigned long long)line->seq);
}

char *must_blame(cb_box *b, const char *path)
{
	cb_error err = {0};
	buf text = BUF_INIT(SIZE_MAX);
	char *out = NULL;
	CHECK_OK(cb_blame(b, path, print_seq, &text, &err));
	CHECK_OK(buf_take(&text, &out, NULL, &err));
	return test_keep(out);
}

typedef struct dumping {
	cb_box *b;
	buf text;
} dumping;

static cb_code dump_attr(void *context, const char *name, const char *value, size_t size, cb_error *err)
{
	dumping *d = context;
	return buf_printf(&d->text, err, "  %s=%016llx\n", name, (unsigned long long)hash64(value, size));
}

static cb_code dump_entry(void *context, const char *path, const cb_stat_info *info, cb_error *err)
{
	dumping *d = context;
	uint64_t sum = 0;
	char *bytes = NULL;
	size_t size = 0;
	if (info->type == CB_FILE && cb_read_file(d->b, path, &bytes, &size, err) != CB_OK) return CB_IO;
	if (info->type == CB_SYMLINK && cb_readlink(d->b, path, &bytes, NULL, err) != CB_OK) return CB_IO;
	if (info->type == CB_SYMLINK) size = strlen(bytes);
	if (bytes) sum = hash64(bytes, size);
	cb_free(bytes);
	cb_code code = buf_printf(&d->text, err, "%d %04o %u %llu %016llx %s\n", info->type, info->mode, info->links,
	                          (unsigned long long)info->size, (unsigned long long)sum, path);
	if (code == CB_OK) code = cb_xattr_list(d->b, path, CB_NOFOLLOW, dump_attr, d, err);
	return code;
}

static cb_code dump_kv(void *context, const char *name, const char *value, size_t size, cb_error *err)
{
	dumping *d = context;
	return buf_printf(&d->text, err, "key %s %016llx\n", name, (unsigned long long)hash64(value, size));
}

char *must_dump(cb_box *b)
{
	cb_error err = {0};
	dumping d = {b, BUF_INIT(SIZE_MAX)};
	char *out = NULL;
	CHECK_OK(cb_walk(b, "/", dump_entry, &d, &err));
	CHECK_OK(cb_kv_list(b, "", dump_kv, &d, &err));
	CHECK_OK(buf_take(&d.text, &out, NULL, &err));
	return test_keep(out);
}
