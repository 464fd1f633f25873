/*
 * test_visitors.c: whoever is called back may take its time and use the library. Every call with a visitor is made on a box; its
 * visitor reads and writes through the same handle, and waits for another thread that writes to the same store through handles of its
 * own. A visitor that ran inside a call on the database, or under a lock that others need, would never come back.
 */
#include "harness/boxes.h"
#include "harness/sql.h"

#include <cowbox/cowbox.h>
#include <pthread.h>

typedef struct visiting {
	cb_store *s;
	cb_box *b; /* the handle the call is made on */
	uint64_t visits, writes;
} visiting;

static void *write_elsewhere(void *context)
{
	cb_error err = {0};
	visiting *v = context;
	cb_box *b = must_open(v->s, "other"), *same = must_open(v->s, "demo");
	char name[32];
	(void)snprintf(name, sizeof(name), "t%u", (unsigned)++v->writes);
	CHECK_OK(cb_kv_set(b, name, "x", 1, &err));
	CHECK_OK(cb_kv_set(same, name, "x", 1, &err));
	CHECK_OK(cb_checkpoint_save(same, name, 0, true, &err));
	cb_box_close(same);
	cb_box_close(b);
	return NULL;
}

/* What every visitor does. Two visits of each call are enough. */
static cb_code use(visiting *v)
{
	cb_error err = {0};
	cb_stat_info info = CB_INIT(cb_stat_info);
	pthread_t thread;
	if (++v->visits > 2) return CB_OK;
	CHECK(pthread_create(&thread, NULL, write_elsewhere, v) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK_OK(cb_stat(v->b, "/work/a.txt", 0, &info, &err));
	CHECK_OK(cb_kv_set(v->b, "visited", &v->visits, sizeof(v->visits), &err));
	return CB_OK;
}

static cb_code on_audit(void *context, const cb_audit *a, cb_error *err)
{
	(void)a;
	(void)err;
	return use(context);
}
static cb_code on_box(void *context, const cb_box_info *i, cb_error *err)
{
	(void)i;
	(void)err;
	return use(context);
}
static cb_code on_entry(void *context, const char *n, const cb_stat_info *i, cb_error *err)
{
	(void)n;
	(void)i;
	(void)err;
	return use(context);
}
static cb_code on_name(void *context, const char *n, const char *value, size_t size, cb_error *err)
{
	(void)n;
	(void)value;
	(void)size;
	(void)err;
	return use(context);
}
static cb_code on_step(void *context, const cb_step *s, cb_error *err)
{
	(void)s;
	(void)err;
	return use(context);
}
static cb_code on_change(void *context, const cb_change *c, cb_error *err)
{
	(void)c;
	(void)err;
	return use(context);
}
static cb_code on_stat(void *context, const cb_change_stat *s, cb_error *err)
{
	(void)s;
	(void)err;
	return use(context);
}
static cb_code on_checkpoint(void *context, const cb_checkpoint *c, cb_error *err)
{
	(void)c;
	(void)err;
	return use(context);
}
static cb_code on_line(void *context, const cb_blame_line *l, cb_error *err)
{
	(void)l;
	(void)err;
	return use(context);
}

static visiting begin(bool memory)
{
	cb_error err = {0};
	visiting v = {.s = test_store_open(memory)};
	CHECK_OK(cb_box_create(v.s, "demo", &v.b, &err));
	CHECK_OK(cb_box_create(v.s, "other", NULL, &err));
	must_write(v.b, "/work/a.txt", "one\ntwo\n");
	must_write(v.b, "/work/b.txt", "three\n");
	must_write(v.b, "/work/a.txt", "one\ntwo\nthree\n");
	CHECK_OK(cb_xattr_set(v.b, "/work/a.txt", "user.x", "1", 1, 0, &err));
	CHECK_OK(cb_tag_add(v.b, "/work/a.txt", "red", &err));
	CHECK_OK(cb_meta_set(v.b, "/work/a.txt", "level", "1", CB_STRING, &err));
	CHECK_OK(cb_kv_set(v.b, "key", "1", 1, &err));
	CHECK_OK(cb_checkpoint_save(v.b, "first", 1, true, &err));
	CHECK_OK(cb_checkpoint_save(v.b, "second", 2, true, &err));
	return v;
}

static void end(visiting *v)
{
	test_store_sound(v->s);
	cb_box_close(v->b);
	cb_store_close(v->s);
}

/* The call must have come to its visitor. */
#define VISITS(v, call)                \
	do {                           \
		(v).visits = 0;        \
		CHECK_OK(call);        \
		CHECK((v).visits > 0); \
	} while (0)

TEST_BOTH(lists)
{
	cb_error err = {0};
	visiting v = begin(memory);
	VISITS(v, cb_audit_list(v.s, NULL, on_audit, &v, &err));
	VISITS(v, cb_box_list(v.s, on_box, &v, &err));
	VISITS(v, cb_checkpoint_list(v.b, on_checkpoint, &v, &err));
	VISITS(v, cb_readdir(v.b, "/work", on_entry, &v, &err));
	VISITS(v, cb_walk(v.b, "/", on_entry, &v, &err));
	VISITS(v, cb_glob(v.b, "/work/*.txt", on_entry, &v, &err));
	VISITS(v, cb_xattr_list(v.b, "/work/a.txt", 0, on_name, &v, &err));
	VISITS(v, cb_tag_list(v.b, "/work/a.txt", on_name, &v, &err));
	VISITS(v, cb_meta_list(v.b, "/work/a.txt", on_name, &v, &err));
	VISITS(v, cb_kv_list(v.b, "", on_name, &v, &err));
	end(&v);
}

TEST_BOTH(history)
{
	cb_error err = {0};
	visiting v = begin(memory);
	cb_box *from = must_open(v.s, "demo@1");
	VISITS(v, cb_log(v.b, NULL, on_step, &v, NULL, &err));
	VISITS(v, cb_log(v.b, &CB_WITH(cb_log_options, .path = "/work/a.txt"), on_step, &v, NULL, &err));
	VISITS(v, cb_log(v.b, &CB_WITH(cb_log_options, .path = "/work"), on_step, &v, NULL, &err));
	VISITS(v, cb_step_get(v.b, 1, on_step, &v, &err));
	VISITS(v, cb_diff(from, v.b, NULL, on_change, &v, &err));
	VISITS(v, cb_diff_step(v.b, 3, NULL, on_change, &v, &err));
	VISITS(v, cb_diff_stat(from, v.b, NULL, on_stat, &v, &err));
	VISITS(v, cb_blame(v.b, "/work/a.txt", on_line, &v, &err));
	cb_box_close(from);
	end(&v);
}

static cb_code on_match(void *context, const cb_grep_line *l, cb_error *err)
{
	(void)l;
	(void)err;
	return use(context);
}

TEST_BOTH(search)
{
	cb_error err = {0};
	visiting v = begin(memory);
	VISITS(v, cb_grep(v.b, "/work", &CB_WITH(cb_grep_options, .pattern = "t"), on_match, &v, NULL, &err));
	VISITS(v, cb_find(v.b, "/work", NULL, on_entry, &v, &err));
	end(&v);
}

static void on_complaint(void *context, const char *line)
{
	(void)line;
	(void)use(context);
}

/* A check complains of many things inside the database: the caller hears of them outside. */
TEST(complaints)
{
	cb_error err = {0};
	visiting v = begin(false);
	char file[4300];
	(void)snprintf(file, sizeof(file), "%.4200s/cowbox.db", test_store_path());
	sqlite3 *db = test_sql_open(file);
	CHECK(sqlite3_exec(
		      db,
		      "UPDATE checkpoint SET seq=1 WHERE name='second'; UPDATE node SET sum=sum+1; UPDATE content SET sum=sum+1",
		      NULL, NULL, NULL) == SQLITE_OK);
	CHECK(sqlite3_close(db) == SQLITE_OK);
	uint64_t complaints = 0;
	CHECK_OK(cb_store_check(v.s, on_complaint, &v, &complaints, &err));
	CHECK(complaints > 0 && v.visits > 0);
	cb_box_close(v.b);
	cb_store_close(v.s);
}
