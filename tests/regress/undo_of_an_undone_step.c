/* An undo that finds nothing to take back says so and makes no step. */
#include "harness/boxes.h"

TEST_BOTH(undo_of_an_undone_step)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/a", "1");
	must_write(b, "/work/b", "1"); /* step 2 */
	must_write(b, "/work/c", "1");
	CHECK_OK(cb_undo(b, 2, NULL, &err));
	uint64_t head = must_seq(b);
	CHECK_CODE(cb_undo(b, 2, NULL, &err), CB_NOTHING);
	CHECK_MSG(strstr(err.message, "step 2"), "%s", err.message);
	CHECK_U64(must_seq(b), head);
	CHECK_OK(cb_undo(b, 0, NULL, &err)); /* the undo of step 2 is skipped with it: c goes */
	CHECK(exists(b, "/work/a") && !exists(b, "/work/b") && !exists(b, "/work/c"));
	CHECK_OK(cb_redo(b, NULL, &err));
	CHECK(exists(b, "/work/c"));
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

/* In order and back again, with other steps among them: each undo goes on where the last one left off. */
TEST_BOTH(many_undos_and_redos)
{
	enum { STEPS = 60 };
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	char text[32], *dumps[STEPS + 1];
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	dumps[0] = must_dump(b);
	for (int i = 1; i <= STEPS; i++) {
		(void)snprintf(text, sizeof(text), "%d", i);
		must_write(b, i % 3 ? "/work/a" : "/work/b", text);
		dumps[i] = must_dump(b);
	}
	int at = STEPS;
	for (int round = 0; round < 4; round++) {
		for (int i = 0; i < 25; i++) {
			CHECK_OK(cb_undo(b, 0, NULL, &err));
			CHECK_STR(must_dump(b), dumps[--at]);
		}
		CHECK_OK(cb_step_record(b, NULL, NULL, &err));
		for (int i = 0; i < 15; i++) {
			CHECK_OK(cb_redo(b, NULL, &err));
			CHECK_STR(must_dump(b), dumps[++at]);
		}
		CHECK_OK(cb_step_record(b, NULL, NULL, &err));
	}
	while (at > 0) {
		CHECK_OK(cb_undo(b, 0, NULL, &err));
		CHECK_STR(must_dump(b), dumps[--at]);
	}
	CHECK_CODE(cb_undo(b, 0, NULL, &err), CB_NOTHING);
	for (; at < STEPS; at++) CHECK_OK(cb_redo(b, NULL, &err));
	CHECK_STR(must_dump(b), dumps[STEPS]);
	CHECK_CODE(cb_redo(b, NULL, &err), CB_NOTHING);
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

static void change(cb_box *b, const char *path, int kind)
{
	cb_error err = {0};
	if (kind == 0) CHECK_OK(cb_xattr_set(b, path, "user.b", "2", 1, 0, &err));
	else if (kind == 1) CHECK_OK(cb_chmod(b, path, 0600, 0, &err));
	else if (kind == 2) CHECK_OK(cb_tag_add(b, path, "x", &err));
	else if (kind == 3) must_write(b, path, "newer\n");
	else CHECK_OK(cb_utimens(b, path, 1, 1, 0, &err));
}

static uint32_t mode_of(cb_box *b, const char *path)
{
	cb_error err = {0};
	cb_stat_info info = CB_INIT(cb_stat_info);
	CHECK_OK(cb_stat(b, path, 0, &info, &err));
	return info.mode & 0777;
}

/* What was done to a file since it covered another goes with it when that comes to light again, which is as it was. */
TEST(undo_of_a_covering_rename)
{
	for (int kind = 0; kind < 5; kind++) {
		cb_error err = {0};
		cb_store *s = test_store_open(true);
		cb_box *b = NULL;
		char *value = NULL;
		size_t size = 0;
		CHECK_OK(cb_box_create(s, "demo", &b, &err));
		must_write(b, "/work/b", "old\n");
		must_write(b, "/work/t", "new\n");
		CHECK_OK(cb_rename(b, "/work/t", "/work/b", 0, &err)); /* step 3 */
		change(b, "/work/b", kind);
		CHECK_OK(cb_undo(b, 3, NULL, &err));
		CHECK_CODE(cb_undo(b, 3, NULL, &err), CB_NOTHING);
		CHECK_STR(must_read(b, "/work/b"), "old\n");
		CHECK_STR(must_read(b, "/work/t"), kind == 3 ? "newer\n" : "new\n");
		CHECK_U64(mode_of(b, "/work/b"), 0644);
		CHECK_U64(mode_of(b, "/work/t"), kind == 1 ? 0600 : 0644);
		CHECK_CODE(cb_xattr_get(b, "/work/b", "user.b", 0, &value, &size, &err), CB_NODATA);
		CHECK_CODE(cb_xattr_get(b, "/work/t", "user.b", 0, &value, &size, &err), kind == 0 ? CB_OK : CB_NODATA);
		cb_free(value);
		test_store_sound(s);
		cb_box_close(b);
		cb_store_close(s);
	}
}

/* A file that an undo brought back, and that was changed since, is back. */
TEST(undo_of_a_removal_again)
{
	for (int kind = 0; kind < 10; kind++) {
		cb_error err = {0};
		cb_store *s = test_store_open(true);
		cb_box *b = NULL;
		CHECK_OK(cb_box_create(s, "demo", &b, &err));
		must_write(b, "/work/b", "old\n");
		cb_box *t = must_begin(b); /* step 2: removed, or saved by rename */
		CHECK_OK(cb_unlink(t, "/work/b", &err));
		if (kind >= 5) must_write(t, "/work/b", "new\n");
		(void)must_commit(t);
		CHECK_OK(cb_undo(b, 2, NULL, &err));
		change(b, "/work/b", kind % 5);
		CHECK_CODE(cb_undo(b, 2, NULL, &err), CB_NOTHING);
		CHECK_STR(must_read(b, "/work/b"), kind % 5 == 3 ? "newer\n" : "old\n");
		test_store_sound(s);
		cb_box_close(b);
		cb_store_close(s);
	}
}

/* A folder that was made again stands for the one that the step moved, and goes back in its place. */
TEST(undo_of_a_folder_made_again)
{
	cb_error err = {0};
	cb_store *s = test_store_open(true);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	CHECK_OK(cb_mkdir(b, "/work/a", 0755, 0, &err));
	CHECK_OK(cb_rename(b, "/work/a", "/work/b", 0, &err)); /* step 2 */
	CHECK_OK(cb_rmdir(b, "/work/b", &err));
	CHECK_OK(cb_mkdir(b, "/work/b", 0755, 0, &err));
	CHECK_OK(cb_undo(b, 2, NULL, &err));
	CHECK(exists(b, "/work/a") && !exists(b, "/work/b"));
	CHECK_CODE(cb_undo(b, 2, NULL, &err), CB_NOTHING);
	CHECK_OK(cb_step_record(b, NULL, NULL, &err));
	CHECK_CODE(cb_undo(b, 2, NULL, &err), CB_NOTHING);
	CHECK(exists(b, "/work/a") && !exists(b, "/work/b"));
	cb_box_close(b);
	cb_store_close(s);
}

static void make(cb_box *b, const char *path, cb_type type)
{
	cb_error err = {0};
	if (type == CB_DIR) CHECK_OK(cb_mkdir(b, path, 0755, 0, &err));
	else if (type == CB_SYMLINK) CHECK_OK(cb_symlink(b, "x", path, &err));
	else must_write(b, path, "new");
}

/* What stood for a file or folder went back in its place: it is there, whatever was done besides and to it. */
TEST(undo_of_a_move_again)
{
	static const cb_type types[] = {CB_FILE, CB_DIR, CB_SYMLINK};
	for (int kind = 0; kind < 6; kind++) {
		cb_type type = types[kind / 2];
		cb_error err = {0};
		cb_store *s = test_store_open(true);
		cb_box *b = NULL;
		CHECK_OK(cb_box_create(s, "demo", &b, &err));
		make(b, "/work/a", type);
		CHECK_OK(cb_rename(b, "/work/a", "/work/b", 0, &err)); /* step 2 */
		cb_box *t = must_begin(b);
		CHECK_OK(cb_remove(t, "/work/b", &err));
		make(t, "/work/b", type);
		(void)must_commit(t);
		CHECK_OK(cb_undo(b, 2, NULL, &err));
		if (kind % 2 && type == CB_DIR) must_write(b, "/work/a/in", "1");
		else if (kind % 2 && type == CB_FILE) must_write(b, "/work/a", "newer");
		else must_write(b, "/work/other", "1");
		char *before = must_dump(b);
		CHECK_CODE(cb_undo(b, 2, NULL, &err), CB_NOTHING);
		CHECK_STR(must_dump(b), before);
		cb_box_close(b);
		cb_store_close(s);
	}
}

/* Of two files that the step exchanged one is gone, and a new one stands for the other: where the first was it stands for nothing. */
TEST(undo_of_an_exchange_of_what_is_gone)
{
	cb_error err = {0};
	cb_store *s = test_store_open(true);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/a", "a");
	must_write(b, "/work/c", "c");
	CHECK_OK(cb_rename(b, "/work/a", "/work/c", CB_EXCHANGE, &err)); /* step 3 */
	cb_box *t = must_begin(b);
	CHECK_OK(cb_unlink(t, "/work/a", &err));
	CHECK_OK(cb_unlink(t, "/work/c", &err));
	must_write(t, "/work/c", "new");
	(void)must_commit(t);
	CHECK_CODE(cb_undo(b, 3, NULL, &err), CB_CONFLICT);
	cb_box_close(b);
	cb_store_close(s);
}

/* Times that were set since stand, the first time and the second, however old the others are. */
TEST(undo_beside_times_that_were_set)
{
	cb_error err = {0};
	cb_store *s = test_store_open(true);
	cb_box *b = NULL;
	cb_stat_info info = CB_INIT(cb_stat_info);
	static const char *const paths[] = {"/work/d", "/work/f"};
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	CHECK_OK(cb_mkdir(b, paths[0], 0755, 0, &err));
	must_write(b, paths[1], "f");
	for (int i = 0; i < 2; i++) {
		CHECK_OK(cb_utimens(b, paths[i], 4, 4, 0, &err));
		cb_box *t = must_begin(b);
		CHECK_OK(cb_tag_add(t, paths[i], "x", &err));
		CHECK_OK(cb_utimens(t, paths[i], CB_TIME_OMIT, 5, 0, &err));
		uint64_t seq = must_commit(t).seq;
		CHECK_OK(cb_utimens(b, paths[i], CB_TIME_OMIT, 3, 0, &err));
		CHECK_OK(cb_undo(b, seq, NULL, &err));
		CHECK_OK(cb_kv_set(b, "k", &i, sizeof(i), &err));
		CHECK_CODE(cb_undo(b, seq, NULL, &err), CB_NOTHING);
		CHECK_OK(cb_stat(b, paths[i], 0, &info, &err));
		CHECK_U64((uint64_t)info.mtime_ns, 3);
	}
	cb_box_close(b);
	cb_store_close(s);
}

static void set(cb_box *b, bool is_file, const char *text)
{
	cb_error err = {0};
	if (is_file) must_write(b, "/work/a", text);
	else CHECK_OK(cb_kv_set(b, "a", text, CB_STRING, &err));
}

/*
 * An undo that was redone is undone, though the same bytes are there again by another undo: it was taken for one that stands, what it
 * brought back was nobody's, and every further undo was a conflict. Steps in between change nothing of that.
 */
TEST(undo_of_an_undo_that_was_redone)
{
	for (int kind = 0; kind < 8; kind++) {
		cb_error err = {0};
		cb_store *s = test_store_open(true);
		cb_box *b = NULL;
		uint64_t undo = 0, redo = 0;
		bool is_file = kind % 2;
		CHECK_OK(cb_box_create(s, "demo", &b, &err));
		char *empty = must_dump(b);
		set(b, is_file, "1");
		set(b, is_file, "2");
		CHECK_OK(cb_undo(b, 0, &undo, &err));
		CHECK_OK(cb_redo(b, &redo, &err));
		if (kind & 2) must_write(b, "/work/between", "1");
		CHECK_OK(cb_undo(b, 2, NULL, &err));
		if (kind & 4) must_write(b, "/work/after", "1");
		uint64_t head = must_seq(b);
		CHECK_CODE(cb_undo(b, undo, NULL, &err), CB_NOTHING);
		CHECK_CODE(cb_undo(b, redo, NULL, &err), CB_NOTHING); /* it stands, and the undo of step 2 did the same since */
		CHECK_CODE(cb_undo(b, 2, NULL, &err), CB_NOTHING);
		CHECK_U64(must_seq(b), head);
		for (int i = 0; i < 1 + (kind & 2) / 2 + (kind & 4) / 4; i++) CHECK_OK(cb_undo(b, 0, NULL, &err));
		CHECK_STR(must_dump(b), empty);
		CHECK_CODE(cb_undo(b, 0, NULL, &err), CB_NOTHING);
		test_store_sound(s);
		cb_box_close(b);
		cb_store_close(s);
	}
}

/* A restore brings back what was undone, whoever undid it: it is there, and can be taken back, and that as well. */
TEST(undo_of_what_a_restore_brought_back)
{
	for (int kind = 0; kind < 4; kind++) {
		cb_error err = {0};
		cb_store *s = test_store_open(true);
		cb_box *b = NULL;
		uint64_t again = 0;
		CHECK_OK(cb_box_create(s, "demo", &b, &err));
		must_write(b, "/work/a", "1");
		must_write(b, "/work/a", "2");
		cb_box *then = must_open(s, "demo@2");
		CHECK_OK(cb_undo(b, 2, NULL, &err));
		CHECK_OK(cb_restore(b, then, kind % 2 ? "/work/a" : NULL, NULL, &err));
		if (kind >= 2) must_write(b, "/work/b", "1");
		CHECK_OK(cb_undo(b, 2, &again, &err));
		CHECK_STR(must_read(b, "/work/a"), "1");
		CHECK_CODE(cb_undo(b, 2, NULL, &err), CB_NOTHING);
		CHECK_OK(cb_undo(b, again, NULL, &err));
		CHECK_STR(must_read(b, "/work/a"), "2");
		CHECK_CODE(cb_undo(b, again, NULL, &err), CB_NOTHING);
		cb_box_close(then);
		cb_box_close(b);
		cb_store_close(s);
	}
}

static cb_box *state_of(cb_store *s, cb_box *b)
{
	char address[32];
	(void)snprintf(address, sizeof(address), "demo@%" PRIu64, must_seq(b));
	return must_open(s, address);
}

/* A value of a key, or a file with that text; NULL: none. */
static void put(cb_box *b, bool is_file, const char *text)
{
	cb_error err = {0};
	if (text) set(b, is_file, text);
	else CHECK_OK(is_file ? cb_unlink(b, "/work/a", &err) : cb_kv_delete(b, "a", &err));
}

static void expect(cb_box *b, bool is_file, const char *text)
{
	cb_error err = {0};
	char *is = NULL;
	cb_code code = is_file ? cb_read_file(b, "/work/a", &is, NULL, &err) : cb_kv_get(b, "a", &is, NULL, &err);
	CHECK_CODE(code, text ? CB_OK : CB_NOTFOUND);
	if (text) CHECK_STR(is, text);
	cb_free(is);
}

/* A step that changed, removed or made something, on a key or a file. */
static const struct {
	const char *was, *is;
} steps[] = {{"old", "new"}, {"old", NULL}, {NULL, "new"}};

enum { CASES = 6 };

static cb_box *made(cb_store *s, int i, uint64_t *out_seq)
{
	cb_error err = {0};
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/other", "1");
	if (steps[i / 2].was) put(b, i % 2, steps[i / 2].was);
	put(b, i % 2, steps[i / 2].is);
	*out_seq = must_seq(b);
	return b;
}

/* The same once more, by somebody else. */
static void make_again(cb_store *s, cb_box *b, int i, int how)
{
	cb_error err = {0};
	bool is_file = i % 2;
	const char *was = steps[i / 2].was, *is = steps[i / 2].is;
	cb_box *other = NULL;
	if (how == 0) put(b, is_file, is);
	else if (how == 1) {
		put(b, is_file, "another");
		put(b, is_file, is);
		set(b, !is_file, "beside");
	} else if (how == 2) {
		put(b, is_file, is);
		set(b, is_file, "another");
		CHECK_OK(cb_undo(b, 0, NULL, &err));
	} else if (how == 3) {
		other = must_fork(s, "demo", "fork");
		put(other, is_file, is);
		CHECK_OK(cb_merge(b, other, NULL, NULL, NULL, &err));
	} else if (how == 4) {
		CHECK_OK(cb_box_create(s, "else", &other, &err));
		if (was) put(other, is_file, was);
		put(other, is_file, is);
		CHECK_OK(cb_restore(b, other, NULL, NULL, &err));
	} else { /* and its state is restored */
		put(b, is_file, is);
		other = state_of(s, b);
		set(b, is_file, "another");
		CHECK_OK(cb_restore(b, other, NULL, NULL, &err));
	}
	cb_box_close(other);
}

/* Who makes the same again after the undo made a step of his own: it was taken back under the number of the one that was undone before. */
TEST(undo_of_an_undone_step_that_was_made_again)
{
	for (int i = 0; i < CASES * 6; i++) {
		cb_error err = {0};
		cb_store *s = test_store_open(true);
		uint64_t seq = 0;
		cb_box *b = made(s, i % CASES, &seq);
		CHECK_OK(cb_undo(b, seq, NULL, &err));
		make_again(s, b, i % CASES, i / CASES);
		uint64_t head = must_seq(b);
		CHECK_CODE(cb_undo(b, seq, NULL, &err), CB_NOTHING);
		CHECK_U64(must_seq(b), head);
		expect(b, i % 2, steps[i % CASES / 2].is);
		CHECK_OK(cb_undo(b, 0, NULL, &err)); /* his step */
		test_store_sound(s);
		cb_box_close(b);
		cb_store_close(s);
	}
}

/* Where no undo took it back, but steps did, and others made the very same again, it can be taken back; another value is in the way. */
TEST(undo_of_a_step_that_was_taken_back_and_made_again)
{
	for (int i = 0; i < CASES; i++) {
		cb_error err = {0};
		cb_store *s = test_store_open(true);
		uint64_t seq = 0;
		cb_box *b = made(s, i, &seq);
		const char *was = steps[i / 2].was, *is = steps[i / 2].is;
		put(b, i % 2, was);
		CHECK_CODE(cb_undo(b, seq, NULL, &err), CB_NOTHING);
		set(b, i % 2, "another");
		CHECK_CODE(cb_undo(b, seq, NULL, &err), CB_CONFLICT);
		put(b, i % 2, is);
		CHECK_OK(cb_undo(b, seq, NULL, &err));
		expect(b, i % 2, was);
		cb_box_close(b);
		cb_store_close(s);
	}
}

/* What a restore brings back is undone or not as it was in the state that it came from, also when that was made by a restore. */
TEST(undo_of_what_restores_brought_back)
{
	for (int i = 0; i < CASES; i++) {
		cb_error err = {0};
		cb_store *s = test_store_open(true);
		uint64_t seq = 0, restored = 0, undo = 0;
		cb_box *b = made(s, i, &seq), *then = state_of(s, b);
		const char *was = steps[i / 2].was, *is = steps[i / 2].is;
		bool is_file = i % 2;
		CHECK_OK(cb_undo(b, seq, &undo, &err));
		cb_box *undone = state_of(s, b);
		put(b, is_file, is); /* by hand: no step but its own */
		must_write(b, "/work/other", "2");
		CHECK_OK(cb_restore(b, then, "/work/other", NULL, &err)); /* nor does this */
		CHECK_CODE(cb_undo(b, seq, NULL, &err), CB_NOTHING);
		set(b, is_file, "another");
		CHECK_OK(cb_restore(b, then, NULL, &restored, &err));
		cb_box *again = state_of(s, b);
		CHECK_OK(cb_undo(b, restored, NULL, &err));
		put(b, is_file, is);
		CHECK_CODE(cb_undo(b, seq, NULL, &err), CB_NOTHING); /* the restore is undone */
		set(b, is_file, "another");
		CHECK_OK(cb_restore(b, again, NULL, NULL, &err));
		CHECK_OK(cb_undo(b, seq, NULL, &err));
		expect(b, is_file, was);
		put(b, is_file, is);
		CHECK_OK(cb_restore(b, undone, NULL, NULL, &err));
		expect(b, is_file, was);
		CHECK_CODE(cb_undo(b, seq, NULL, &err), CB_NOTHING);
		put(b, is_file, is);
		CHECK_CODE(cb_undo(b, seq, NULL, &err), CB_NOTHING);
		CHECK_OK(cb_restore(b, undone, NULL, NULL, &err));
		CHECK_OK(cb_undo(b, undo, NULL, &err)); /* it stands there, and brings the step back */
		expect(b, is_file, is);
		CHECK_CODE(cb_undo(b, undo, NULL, &err), CB_NOTHING);
		CHECK_OK(cb_undo(b, seq, NULL, &err));
		expect(b, is_file, was);
		test_store_sound(s);
		cb_box_close(then);
		cb_box_close(undone);
		cb_box_close(again);
		cb_box_close(b);
		cb_store_close(s);
	}
}

static void write_both(cb_box *b, const char *text)
{
	cb_box *t = must_begin(b);
	must_write(t, "/work/a", text);
	must_write(t, "/work/b", text);
	(void)must_commit(t);
}

/* A path brings back its own part of a step. Where it came from a state without the step, the rest can still be taken back. */
TEST(undo_of_a_step_of_which_a_path_was_restored)
{
	cb_error err = {0};
	cb_store *s = test_store_open(true);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	write_both(b, "old");
	write_both(b, "new"); /* step 2 */
	cb_box *then = state_of(s, b);
	CHECK_OK(cb_undo(b, 2, NULL, &err));
	cb_box *undone = state_of(s, b);
	CHECK_OK(cb_restore(b, then, "/work/a", NULL, &err));
	CHECK_OK(cb_undo(b, 2, NULL, &err));
	CHECK_STR(must_read(b, "/work/a"), "old");
	CHECK_OK(cb_restore(b, then, "/", NULL, &err));
	CHECK_OK(cb_restore(b, undone, "/work/a", NULL, &err));
	CHECK_OK(cb_undo(b, 2, NULL, &err));
	CHECK_STR(must_read(b, "/work/b"), "old");
	CHECK_CODE(cb_undo(b, 2, NULL, &err), CB_NOTHING);
	must_write(b, "/work/a", "new");
	CHECK_CODE(cb_undo(b, 2, NULL, &err), CB_NOTHING);
	cb_box_close(then);
	cb_box_close(undone);
	cb_box_close(b);
	cb_store_close(s);
}

/* Lines that are restored with others are brought back, also where the file had another name by then, or was gone with its folder. */
TEST(undo_of_lines_that_a_restore_brought_back)
{
	for (int kind = 0; kind < 4; kind++) {
		cb_error err = {0};
		cb_store *s = test_store_open(true);
		cb_box *b = NULL;
		const char *path = kind & 1 ? "/work/d/b" : "/work/d/a";
		CHECK_OK(cb_box_create(s, "demo", &b, &err));
		CHECK_OK(cb_mkdir(b, "/work/d", 0755, 0, &err));
		must_write(b, "/work/d/a", "a\nb\nc\nd\n");
		must_write(b, "/work/d/a", "A\nb\nc\nd\n"); /* step 3 */
		must_write(b, "/work/d/a", "A\nb\nc\nD\n");
		if (kind & 1) CHECK_OK(cb_rename(b, "/work/d/a", path, 0, &err));
		cb_box *then = state_of(s, b);
		CHECK_OK(cb_undo(b, 3, NULL, &err));
		CHECK_STR(must_read(b, path), "a\nb\nc\nD\n");
		if (kind & 2) CHECK_OK(cb_remove(b, "/work/d", &err));
		CHECK_OK(cb_restore(b, then, kind & 2 ? NULL : "/work/d", NULL, &err));
		CHECK_OK(cb_undo(b, 3, NULL, &err));
		CHECK_STR(must_read(b, path), "a\nb\nc\nD\n");
		cb_box_close(then);
		cb_box_close(b);
		cb_store_close(s);
	}
}

/* Lines that the step brought are gone, and others have come: the merge has nothing to do, and no step is made of a new version alone. */
TEST(undo_of_lines_that_a_later_step_took_out)
{
	cb_error err = {0};
	cb_store *s = test_store_open(true);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/a", "a\nb\nc\nd\n");
	must_write(b, "/work/a", "a\nb\nX\nc\nd\n"); /* step 2 */
	must_write(b, "/work/a", "a\nY\nb\nX\nc\nd\n");
	must_write(b, "/work/a", "a\nY\nb\nc\nd\n");
	CHECK_CODE(cb_undo(b, 2, NULL, &err), CB_NOTHING);
	CHECK_U64(must_seq(b), 4);
	CHECK_OK(cb_undo(b, 3, NULL, &err));
	CHECK_STR(must_read(b, "/work/a"), "a\nb\nc\nd\n");
	cb_box_close(b);
	cb_store_close(s);
}
