/* test_audit.c: who did what and what was refused; settings and users of the store; checkpoints every so many steps. */
#include "base/limits.h"
#include "box/gate.h"
#include "harness/boxes.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static cb_box *new_box(cb_store *s, const char *name)
{
	cb_error err = {0};
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, name, &b, &err));
	return b;
}

typedef struct text {
	char bytes[1 << 16];
	size_t size;
	uint64_t entries;
	int64_t last_ns;
} text;

static void add(text *t, const char *s)
{
	size_t n = strlen(s);
	if (t->size + n + 1 > sizeof(t->bytes)) return;
	memcpy(t->bytes + t->size, s, n + 1);
	t->size += n;
}

/* "box who action subject CODE xCOUNT @SEQ\n" */
static cb_code see(void *context, const cb_audit *a, cb_error *err)
{
	(void)err;
	text *t = context;
	char tail[96];
	t->entries++;
	CHECK(t->last_ns == 0 || a->time_ns <= t->last_ns);
	t->last_ns = a->time_ns;
	CHECK((a->code != CB_OK) == (a->message[0] != 0));
	(void)snprintf(tail, sizeof(tail), " %s x%llu @%llu\n", cb_code_name(a->code), (unsigned long long)a->count,
	               (unsigned long long)a->seq);
	const char *parts[] = {a->box, " ", a->who, " ", a->action, " ", a->subject, tail};
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) add(t, parts[i]);
	return CB_OK;
}

static const char *audit(cb_store *s, const cb_audit_options *o)
{
	cb_error err = {0};
	text *t = test_keep(calloc(1, sizeof(*t)));
	CHECK_OK(cb_audit_list(s, o, see, t, &err));
	return t->bytes;
}

static uint64_t entries(cb_store *s, const cb_audit_options *o)
{
	cb_error err = {0};
	text *t = test_keep(calloc(1, sizeof(*t)));
	CHECK_OK(cb_audit_list(s, o, see, t, &err));
	return t->entries;
}

TEST_BOTH(catalog_and_steps_in_one_list)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	CHECK_OK(cb_store_who_set(s, "ada", &err));
	cb_box *b = new_box(s, "demo");
	must_write(b, "/work/a", "1");
	CHECK_OK(cb_box_who_set(b, "bob", &err));
	must_write(b, "/work/b", "2");
	CHECK_OK(cb_checkpoint_save(b, "here", 0, true, &err));
	CHECK_OK(cb_setting_set(b, "token", "very secret", CB_STRING, &err));
	CHECK_OK(cb_store_setting_set(s, "colour", "blue", CB_STRING, &err));
	CHECK_OK(cb_box_quota_set(b, 100, 200, 300, &err));
	CHECK_OK(cb_box_retention_set(b, 5, 6, &err));
	CHECK_OK(cb_box_checkpoint_every_set(b, 7, &err));
	cb_box_close(must_fork(s, "demo@1", "try"));
	CHECK_OK(cb_box_rename(s, "demo", "main", &err));
	CHECK_OK(cb_checkpoint_delete(b, "here", &err));
	CHECK_OK(cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL,
	                  &err)); /* step 1 is where `try` began: nothing goes */
	must_write(b, "/work/c", "3");
	CHECK_OK(cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
	CHECK_OK(cb_box_delete(s, "try", &err));
	CHECK_OK(cb_store_gc(s, NULL, &err));
	CHECK_STR(audit(s, NULL), " ada gc  OK x1 @0\n"
	                          "try ada delete  OK x1 @0\n"
	                          "main bob prune steps before 3 OK x1 @0\n"
	                          "main bob write /work/c OK x1 @3\n"
	                          "main bob checkpoint-delete here OK x1 @0\n"
	                          "main ada rename demo OK x1 @0\n"
	                          "try ada fork demo@1 OK x1 @0\n"
	                          "main bob checkpoint-every 7 OK x1 @0\n"
	                          "main bob retention steps 5, ns 6 OK x1 @0\n"
	                          "main bob quota bytes 100, files 200, file-bytes 300 OK x1 @0\n"
	                          " ada setting colour OK x1 @0\n"
	                          "main bob setting token OK x1 @0\n"
	                          "main bob checkpoint here OK x1 @0\n"
	                          "main ada write /work/a OK x1 @1\n"
	                          "main ada create  OK x1 @0\n");
	CHECK_U64(entries(s, &CB_WITH(cb_audit_options, .who = "bob")), 8);
	CHECK_STR(audit(s, &CB_WITH(cb_audit_options, .box = "try")), "try ada delete  OK x1 @0\ntry ada fork demo@1 OK x1 @0\n");
	CHECK_STR(audit(s, &CB_WITH(cb_audit_options, .box = "main", .max_entries = 1)),
	          "main bob prune steps before 3 OK x1 @0\n");
	CHECK_STR(audit(s, &CB_WITH(cb_audit_options, .box = "demo")), "");
	CHECK_STR(audit(s, &CB_WITH(cb_audit_options, .refused = true)), "");
	CHECK_U64(entries(s, &CB_WITH(cb_audit_options, .since_ns = INT64_MAX)), 0);
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

TEST_BOTH(values_of_settings_are_not_told)
{
	cb_error err = {0};
	char *value = NULL;
	cb_store *s = test_store_open(memory);
	CHECK_CODE(cb_store_setting_get(s, "token", &value, NULL, &err), CB_NOTFOUND);
	CHECK_OK(cb_store_setting_set(s, "token", "s3cret", CB_STRING, &err));
	CHECK_OK(cb_store_setting_get(s, "token", &value, NULL, &err));
	CHECK_STR(test_keep(value), "s3cret");
	CHECK_OK(cb_store_setting_set(s, "token", NULL, 0, &err));
	CHECK_CODE(cb_store_setting_get(s, "token", &value, NULL, &err), CB_NOTFOUND);
	CHECK_CODE(cb_store_setting_set(s, "cowbox.x", "s3cret", CB_STRING, &err), CB_RESERVED);
	CHECK_CODE(cb_store_setting_set(s, "", "s3cret", CB_STRING, &err), CB_INVALID);
	char *huge = test_keep(malloc(LIMIT_SETTING_VALUE_BYTES + 2));
	memset(huge, 's', LIMIT_SETTING_VALUE_BYTES + 1);
	huge[LIMIT_SETTING_VALUE_BYTES + 1] = 0;
	CHECK_CODE(cb_store_setting_set(s, "token", huge, CB_STRING, &err), CB_TOOBIG);
	CHECK(!strstr(audit(s, NULL), "s3cret"));
	CHECK_STR(audit(s, NULL), "  setting token TOOBIG x1 @0\n"
	                          "  setting cowbox.x RESERVED x1 @0\n"
	                          "  setting token OK x1 @0\n"
	                          "  setting token OK x1 @0\n");
	cb_store_close(s);
}

static void fail_in_many_ways(cb_store *s, cb_box *b)
{
	cb_error err = {0};
	uint64_t replaced = 0;
	(void)replaced;
	CHECK_OK(cb_box_quota_set(b, 10, 0, 0, &err));
	CHECK_CODE(cb_write_file(b, "/work/big", "01234567890", 11, NULL, &err), CB_QUOTA);
	CHECK_CODE(cb_write_file(b, "/work/big", "01234567890", 11, NULL, NULL), CB_QUOTA); /* no message asked for: another text */
	cb_box *old = must_open(s, "demo@0");
	cb_file *f = NULL;
	CHECK_CODE(cb_mkdir(old, "/work/d", 0755, 0, &err), CB_READONLY);
	CHECK_CODE(cb_open(old, "/work/d", CB_WRITE | CB_CREATE, 0644, &f, &err), CB_READONLY);
	cb_box *none = NULL;
	CHECK_CODE(cb_txn_begin(old, NULL, &none, &err), CB_READONLY);
	CHECK_CODE(cb_prune(old, NULL, NULL, &err), CB_READONLY);
	cb_box_close(old);
	CHECK_CODE(cb_mkdir(b, "/usr", 0755, 0, &err), CB_RESERVED);
	CHECK_CODE(cb_write_file(b, "/work/a", "x", 1, &CB_WITH(cb_write_options, .expected_version = 1), &err), CB_VERSION);
	CHECK_CODE(cb_link(b, "/work", "/home/x", &err), CB_NOPERM);
	CHECK_CODE(cb_truncate(b, "/work/a", LIMIT_FILE_BYTES + 1, &err), CB_TOOBIG);
	CHECK_CODE(cb_mkdir(b, "/work", 0755, 0, &err), CB_EXISTS); /* a mistake, no refusal */
	CHECK_CODE(cb_unlink(b, "/work/none", &err), CB_NOTFOUND);
}

TEST_BOTH(refused_calls_are_recorded)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	CHECK_OK(cb_store_who_set(s, "eve", &err));
	cb_box *b = new_box(s, "demo");
	must_write(b, "/work/a", "1");
	fail_in_many_ways(s, b);
	CHECK_STR(audit(s, &CB_WITH(cb_audit_options, .refused = true)), "demo eve truncate /work/a TOOBIG x1 @0\n"
	                                                                 "demo eve link /home/x NOPERM x1 @0\n"
	                                                                 "demo eve write /work/a VERSION x1 @0\n"
	                                                                 "demo eve mkdir /usr RESERVED x1 @0\n"
	                                                                 "demo eve prune  READONLY x1 @0\n"
	                                                                 "demo eve txn  READONLY x1 @0\n"
	                                                                 "demo eve write /work/d READONLY x1 @0\n"
	                                                                 "demo eve mkdir /work/d READONLY x1 @0\n"
	                                                                 "demo eve write /work/big QUOTA x1 @0\n"
	                                                                 "demo eve write /work/big QUOTA x1 @0\n");
	CHECK_U64(must_seq(b), 1);
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

TEST_BOTH(refused_inside_transactions_and_through_open_files)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = new_box(s, "demo"), *other = must_open(s, "demo");
	cb_file *f = NULL;
	CHECK_OK(cb_box_quota_set(b, 10, 0, 0, &err));
	cb_box *t = must_begin(b);
	must_write(t, "/work/a", "123");
	CHECK_CODE(cb_write_file(t, "/work/b", "12345678", 8, NULL, &err), CB_QUOTA);
	CHECK_U64(entries(s, &CB_WITH(cb_audit_options, .refused = true)), 1);
	must_write(other, "/work/a", "4");
	cb_commit_result r = CB_INIT(cb_commit_result);
	CHECK_CODE(cb_txn_commit(t, &CB_WITH(cb_commit_options, .lost = CB_LOST_FORK), &r, &err), CB_CONFLICT);
	cb_box_close(t);
	CHECK_OK(cb_open(b, "/work/f", CB_WRITE | CB_CREATE, 0644, &f, &err));
	CHECK_CODE(cb_write(f, "0123456789", 10, &err), CB_QUOTA);
	CHECK_OK(cb_write(f, "012", 3, &err));
	must_write(other, "/work/f", "x");
	CHECK_CODE(cb_close(f, &err), CB_CONFLICT);
	CHECK_STR(audit(s, &CB_WITH(cb_audit_options, .refused = true)), "demo  write /work/f CONFLICT x1 @0\n"
	                                                                 "demo  write /work/f QUOTA x1 @0\n"
	                                                                 "demo  txn  CONFLICT x1 @0\n"
	                                                                 "demo  write /work/b QUOTA x1 @0\n");
	const char *forks = audit(s, &CB_WITH(cb_audit_options, .box = r.fork));
	CHECK(strstr(forks, " fork demo@0 OK"));
	test_store_sound(s);
	cb_box_close(other);
	cb_box_close(b);
	cb_store_close(s);
}

/* The gate of a later policy: what it refuses is recorded once, reads too. */
static gate_answer deny_secret(void *context, const gate_request *request)
{
	(void)context;
	bool secret = (request->path && strstr(request->path, "secret")) ||
	              (request->name.size == 6 && memcmp(request->name.bytes, "secret", 6) == 0);
	return secret && strcmp(request->who, "owner") != 0 ? GATE_DENIED : GATE_PASS;
}

static gate_below deny_below(void *context, const char *who, uint64_t box, const char *path)
{
	(void)context;
	(void)box;
	(void)path;
	return strcmp(who, "owner") != 0 ? GATE_BELOW_INSIDE : GATE_BELOW_NONE;
}

TEST_BOTH(what_the_gate_refuses_is_recorded_once)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = new_box(s, "demo");
	char *out = NULL;
	gate g = {.ask = deny_secret, .below = deny_below};
	must_write(b, "/work/secret", "s");
	CHECK_OK(cb_kv_set(b, "secret", "s", 1, &err));
	CHECK_OK(cb_store_who_set(s, "owner", &err));
	s->gate = &g;
	CHECK_CODE(cb_read_file(b, "/work/secret", &out, NULL, &err), CB_DENIED);
	CHECK_CODE(cb_write_file(b, "/work/secret", "x", 1, NULL, &err), CB_DENIED);
	CHECK_CODE(cb_kv_get(b, "secret", &out, NULL, &err), CB_DENIED);
	CHECK_CODE(cb_mkdir(b, "/work/secret", 0755, 0, &err), CB_DENIED);
	cb_box *t = must_begin(b);
	CHECK_CODE(cb_copy(t, "/work/secret", "/work/x", 0, &err), CB_DENIED);
	cb_box_close(t);
	CHECK_STR(audit(s, &CB_WITH(cb_audit_options, .refused = true)), "demo  copy /work/x DENIED x1 @0\n"
	                                                                 "demo  mkdir /work/secret DENIED x1 @0\n"
	                                                                 "demo  read secret DENIED x1 @0\n"
	                                                                 "demo  write /work/secret DENIED x1 @0\n"
	                                                                 "demo  read /work/secret DENIED x1 @0\n");
	s->gate = NULL;
	cb_box_close(b);
	cb_store_close(s);
}

TEST_BOTH(the_same_refusal_is_counted)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = new_box(s, "demo");
	for (int i = 0; i < 1000; i++) CHECK_CODE(cb_mkdir(b, "/usr", 0755, 0, &err), CB_RESERVED);
	CHECK_STR(audit(s, &CB_WITH(cb_audit_options, .refused = true)), "demo  mkdir /usr RESERVED x1000 @0\n");
	CHECK_CODE(cb_mkdir(b, "/etc", 0755, 0, &err), CB_RESERVED);
	CHECK_CODE(cb_mkdir(b, "/usr", 0755, 0, &err), CB_RESERVED);
	CHECK_STR(audit(s, &CB_WITH(cb_audit_options, .refused = true)), "demo  mkdir /usr RESERVED x1 @0\n"
	                                                                 "demo  mkdir /etc RESERVED x1 @0\n"
	                                                                 "demo  mkdir /usr RESERVED x1000 @0\n");
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

/* Long names and parameters are cut between characters, kinds too. */
TEST_BOTH(long_subjects_are_cut)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = new_box(s, "demo");
	char *params = test_keep(calloc(1, 6002));
	for (size_t i = 0; i < 3000; i++) memcpy(params + 2 * i, "é", 2);
	params[6000] = '!';
	CHECK_OK(cb_step_record(
		b, &CB_WITH(cb_step_info, .kind = params, .params = params, .params_size = CB_STRING, .record = true), NULL, &err));
	params[4094] = 0;
	CHECK_OK(cb_box_quota_set(b, 1, 0, 0, &err));
	params[0] = '/';
	params[1] = 'u';
	memcpy(params + 1, "usr/", 4);
	cb_box *old = must_open(s, "demo@0");
	CHECK_CODE(cb_mkdir(old, params, 0755, 0, &err), CB_READONLY);
	text *t = test_keep(calloc(1, sizeof(*t)));
	CHECK_OK(cb_audit_list(s, NULL, see, t, &err));
	CHECK(t->size < 3000);
	CHECK(strstr(t->bytes, "é… OK x1 @1\n"));
	CHECK(strstr(t->bytes, "é… READONLY x1 @0\n"));
	cb_box_close(old);
	cb_box_close(b);
	cb_store_close(s);
}

TEST_LIMIT(the_newest_entries_are_kept, 120)
{
	cb_error err = {0};
	cb_store *s = test_store_open(true);
	cb_box *b = new_box(s, "demo");
	char label[32];
	for (int i = 0; i < LIMIT_AUDIT_ROWS + 50; i++) {
		(void)snprintf(label, sizeof(label), "k%d", i % 7);
		CHECK_OK(cb_setting_set(b, label, "v", CB_STRING, &err));
	}
	CHECK_U64(entries(s, NULL), LIMIT_AUDIT_ROWS);
	CHECK_OK(cb_store_setting_set(s, "last", "v", CB_STRING, &err));
	CHECK_U64(entries(s, NULL), LIMIT_AUDIT_ROWS);
	CHECK_STR(audit(s, &CB_WITH(cb_audit_options, .max_entries = 1)), "  setting last OK x1 @0\n");
	/* Refused in many ways: that pushes out older refusals, never what was done. */
	for (int i = 0; i < LIMIT_AUDIT_ROWS + 50; i++) {
		(void)snprintf(label, sizeof(label), "cowbox.%d", i);
		CHECK_CODE(cb_store_setting_set(s, label, "v", CB_STRING, &err), CB_RESERVED);
	}
	CHECK_U64(entries(s, &CB_WITH(cb_audit_options, .refused = true)), LIMIT_AUDIT_ROWS);
	CHECK_U64(entries(s, NULL), 2 * LIMIT_AUDIT_ROWS);
	CHECK_STR(audit(s, &CB_WITH(cb_audit_options, .refused = true, .max_entries = 1)),
	          "  setting cowbox.10049 RESERVED x1 @0\n");
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

/* Many boxes with interleaved steps: newest first over all, none twice, none left out. */
TEST_LIMIT(many_boxes_merge_by_time, 120)
{
	enum { BOXES = 300, STEPS = 3000 };
	cb_error err = {0};
	cb_store *s = test_store_open(true);
	test_rng rng = {test_seed() | 1};
	cb_box *boxes[BOXES];
	char name[32];
	for (int i = 0; i < BOXES; i++) {
		(void)snprintf(name, sizeof(name), "b%d", i);
		boxes[i] = new_box(s, name);
	}
	for (int i = 0; i < STEPS; i++) {
		cb_box *b = boxes[test_rand_below(&rng, i % 3 ? BOXES : 2)];
		(void)snprintf(name, sizeof(name), "%d", i);
		CHECK_OK(cb_kv_set(b, "k", name, strlen(name), &err));
	}
	CHECK_U64(entries(s, NULL), BOXES + STEPS);
	CHECK_U64(entries(s, &CB_WITH(cb_audit_options, .box = "b0")), must_seq(boxes[0]) + 1);
	CHECK_U64(entries(s, &CB_WITH(cb_audit_options, .max_entries = 17)), 17);
	for (int i = 0; i < BOXES; i++) cb_box_close(boxes[i]);
	cb_store_close(s);
}

static cb_code read_while_listing(void *context, const cb_audit *a, cb_error *err)
{
	cb_store *s = context;
	if (!a->box[0] || strcmp(a->action, "kv") != 0) return CB_OK;
	cb_box *b = NULL;
	CHECK_CODE(cb_box_open(s, a->box, &b, err), CB_OK);
	CHECK_CODE(cb_mkdir(b, "/usr", 0755, 0, NULL), CB_RESERVED); /* even changes the list */
	cb_box_close(b);
	return a->seq == 1 ? CB_INTERRUPTED : CB_OK;
}

TEST_BOTH(a_visitor_may_use_the_store)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = new_box(s, "demo");
	for (char c = 'a'; c < 'z'; c++) CHECK_OK(cb_kv_set(b, "k", &c, 1, &err));
	CHECK_OK(cb_audit_list(s, NULL, read_while_listing, s, &err));
	CHECK_STR(audit(s, &CB_WITH(cb_audit_options, .refused = true)), "demo  mkdir /usr RESERVED x25 @0\n");
	cb_box_close(b);
	cb_store_close(s);
}

TEST(last_names_of_boxes_that_are_gone)
{
	cb_error err = {0};
	cb_store *s = test_store_open(false);
	cb_box *b = new_box(s, "one");
	CHECK_CODE(cb_mkdir(b, "/usr", 0755, 0, &err), CB_RESERVED);
	cb_box_close(b);
	CHECK_OK(cb_box_rename(s, "one", "two", &err));
	CHECK_OK(cb_box_rename(s, "two", "three", &err));
	CHECK_OK(cb_box_delete(s, "three", &err));
	cb_box_close(new_box(s, "one"));
	CHECK_OK(cb_store_gc(s, NULL, &err));
	CHECK_STR(audit(s, NULL), "  gc  OK x1 @0\n"
	                          "one  create  OK x1 @0\n"
	                          "three  delete  OK x1 @0\n"
	                          "three  rename two OK x1 @0\n"
	                          "three  rename one OK x1 @0\n"
	                          "three  mkdir /usr RESERVED x1 @0\n"
	                          "three  create  OK x1 @0\n");
	CHECK_STR(audit(s, &CB_WITH(cb_audit_options, .refused = true)), "three  mkdir /usr RESERVED x1 @0\n");
	CHECK_U64(entries(s, &CB_WITH(cb_audit_options, .box = "three")), 5);
	cb_store_close(s);
}

TEST(a_store_that_is_read_only_records_nothing)
{
	cb_error err = {0};
	cb_store *s = test_store_open(false), *r = NULL;
	cb_box_close(new_box(s, "demo"));
	uint64_t before = entries(s, NULL);
	CHECK_OK(cb_store_open(test_store_path(), &CB_WITH(cb_store_options, .read_only = true), &r, &err));
	cb_box *b = must_open(r, "demo");
	CHECK_CODE(cb_mkdir(b, "/work/x", 0755, 0, &err), CB_READONLY);
	CHECK_CODE(cb_mkdir(b, "/usr", 0755, 0, &err), CB_READONLY);
	CHECK_CODE(cb_setting_set(b, "cowbox.x", "", CB_STRING, &err), CB_RESERVED);
	CHECK_CODE(cb_box_create(r, "x", NULL, &err), CB_READONLY);
	CHECK_U64(entries(r, NULL), before);
	CHECK_U64(entries(s, NULL), before);
	cb_box_close(b);
	cb_store_close(r);
	cb_store_close(s);
}

/* A backup holds the audit; the backup itself is told in the store it was made of. */
TEST(backups_hold_the_audit)
{
	cb_error err = {0};
	char to[512];
	cb_store *s = test_store_open(false), *copy = NULL;
	cb_box *b = new_box(s, "demo");
	CHECK_CODE(cb_mkdir(b, "/usr", 0755, 0, &err), CB_RESERVED);
	(void)snprintf(to, sizeof(to), "%s/copy", test_tmpdir());
	CHECK_OK(cb_store_backup(s, to, &err));
	CHECK_CODE(cb_store_backup(s, to, &err), CB_EXISTS);
	CHECK_OK(cb_store_vacuum(s, &err));
	CHECK_OK(cb_store_open(to, NULL, &copy, &err));
	CHECK_STR(audit(copy, NULL), "demo  mkdir /usr RESERVED x1 @0\ndemo  create  OK x1 @0\n");
	CHECK(strncmp(audit(s, NULL), "  vacuum  OK x1 @0\n  backup /", 29) == 0);
	test_store_sound(copy);
	cb_store_close(copy);
	cb_box_close(b);
	cb_store_close(s);
}

/* Processes that are refused at once: every refusal is counted, none is lost. */
TEST(processes_refused_at_once)
{
	enum { WORKERS = 4, TRIES = 50 };
	cb_error err = {0};
	cb_store *s = test_store_open(false);
	cb_box_close(new_box(s, "demo"));
	for (int w = 0; w < WORKERS; w++) {
		if (fork() != 0) continue;
		cb_box *b = NULL;
		bool bad = cb_box_open(s, "demo", &b, NULL) != CB_OK;
		for (int i = 0; i < TRIES && !bad; i++) bad = cb_mkdir(b, w % 2 ? "/usr" : "/etc", 0755, 0, NULL) != CB_RESERVED;
		cb_box_close(b);
		_exit(bad);
	}
	for (int w = 0; w < WORKERS; w++) {
		int status = 0;
		CHECK(wait(&status) > 0 && status == 0);
	}
	uint64_t total = 0;
	const char *at = audit(s, &CB_WITH(cb_audit_options, .refused = true));
	while ((at = strstr(at, " x"))) total += strtoull(at += 2, NULL, 10);
	CHECK_U64(total, WORKERS * TRIES);
	(void)err;
	test_store_sound(s);
	cb_store_close(s);
}

typedef struct namer {
	cb_store *s;
	int number;
} namer;

static void *name_and_create(void *context)
{
	const namer *n = context;
	char who[32], box[32];
	for (int i = 0; i < 50; i++) {
		(void)snprintf(who, sizeof(who), "who%d", (n->number + i) % 5);
		(void)snprintf(box, sizeof(box), "b%d-%d", n->number, i);
		CHECK_CODE(cb_store_who_set(n->s, who, NULL), CB_OK);
		CHECK_CODE(cb_box_create(n->s, box, NULL, NULL), CB_OK);
	}
	return NULL;
}

TEST(threads_name_themselves)
{
	enum { THREADS = 4 };
	cb_store *s = test_store_open(true);
	pthread_t threads[THREADS];
	namer n[THREADS];
	for (int i = 0; i < THREADS; i++) {
		n[i] = (namer){s, i};
		CHECK(pthread_create(&threads[i], NULL, name_and_create, &n[i]) == 0);
	}
	for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
	uint64_t total = 0;
	for (int i = 0; i < 5; i++) {
		char who[32];
		(void)snprintf(who, sizeof(who), "who%d", i);
		total += entries(s, &CB_WITH(cb_audit_options, .who = who));
	}
	CHECK_U64(total, 50 * THREADS);
	cb_store_close(s);
}

/* ---- automatic checkpoints ---- */

static cb_code see_checkpoint(void *context, const cb_checkpoint *c, cb_error *err)
{
	(void)err;
	char line[128];
	(void)snprintf(line, sizeof(line), "%s@%llu ", c->name, (unsigned long long)c->seq);
	add(context, line);
	((text *)context)->entries++;
	return CB_OK;
}

static const text *checkpoints(cb_box *b)
{
	cb_error err = {0};
	text *t = test_keep(calloc(1, sizeof(*t)));
	CHECK_OK(cb_checkpoint_list(b, see_checkpoint, t, &err));
	return t;
}

TEST_BOTH(checkpoints_every_so_many_steps)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = new_box(s, "demo"), *other = must_open(s, "demo");
	cb_box_info info = CB_INIT(cb_box_info);
	must_write(b, "/work/a", "1");
	must_write(b, "/work/a", "2");
	CHECK_OK(cb_box_checkpoint_every_set(b, 3, &err));
	CHECK_OK(cb_box_info_get(b, &info, &err));
	CHECK_U64(info.checkpoint_every, 3);
	CHECK_OK(cb_checkpoint_save(b, "auto-6", 1, true, &err)); /* somebody's own */
	must_write(other, "/work/a", "3");                        /* 3: through a handle opened before */
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	CHECK_OK(cb_redo(b, NULL, &err));
	cb_box *f = must_fork(s, "demo", "try");
	must_write(f, "/work/f", "1");
	CHECK_OK(cb_merge(b, f, NULL, NULL, NULL, &err)); /* 6 */
	cb_box *t = must_begin(b);
	must_write(t, "/work/x", "1");
	must_write(t, "/work/y", "1");
	(void)must_commit(t);
	CHECK_OK(cb_step_record(b, &CB_WITH(cb_step_info, .kind = "sh"), NULL, &err));
	CHECK_OK(cb_restore(b, f, NULL, NULL, &err)); /* 9 */
	CHECK_STR(checkpoints(b)->bytes, "auto-6@1 auto-3@3 auto-6-2@6 auto-9@9 ");
	cb_box *at = must_open(s, "demo@auto-3");
	CHECK_STR(must_read(at, "/work/a"), "3");
	cb_box_close(at);
	CHECK_OK(cb_box_info_get(f, &info, &err));
	CHECK_U64(info.checkpoint_every, 0);
	CHECK_OK(cb_box_checkpoint_every_set(b, 0, &err));
	for (char c = 'a'; c < 'h'; c++) CHECK_OK(cb_kv_set(other, "k", &c, 1, &err));
	CHECK_U64(checkpoints(b)->entries, 4);
	CHECK_CODE(cb_box_checkpoint_every_set(b, UINT64_MAX, &err), CB_INVALID);
	test_store_sound(s);
	cb_box_close(f);
	cb_box_close(other);
	cb_box_close(b);
	cb_store_close(s);
}

TEST_BOTH(the_newest_automatic_checkpoints_are_kept)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = new_box(s, "demo");
	CHECK_OK(cb_checkpoint_save(b, "mine", 0, true, &err));
	CHECK_OK(cb_box_checkpoint_every_set(b, 1, &err));
	for (uint64_t i = 0; i < 40; i++) CHECK_OK(cb_kv_set(b, "k", &i, sizeof(i), &err));
	const text *t = checkpoints(b);
	CHECK_U64(t->entries, 1 + LIMIT_AUTO_CHECKPOINTS);
	CHECK(strncmp(t->bytes, "mine@0 auto-9@9 ", 16) == 0);
	CHECK(strstr(t->bytes, "auto-40@40 "));
	CHECK_OK(cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
	cb_box_close(must_open(s, "demo@auto-9"));
	cb_box *gone = NULL;
	CHECK_CODE(cb_box_open(s, "demo@8", &gone, &err), CB_STALE);
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}
