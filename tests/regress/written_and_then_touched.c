/*
 * A write that leaves the bytes as they were was told by the modification time alone. A commit that was merged, a later change of mode or
 * attributes, times that were copied or set back: each hid it from a transaction that had written the file too, and both committed.
 */
#include "harness/boxes.h"
#include "harness/packs.h"

enum { BYTES_MAX = 1500000 }; /* more than one content has */

static char bytes[BYTES_MAX];
static size_t size;
static cb_error err;
static cb_store *the_store;

typedef void (*deed)(cb_box *b);

static void write_alike(cb_box *b)
{
	CHECK_OK(cb_write_file(b, "/work/f", bytes, size, NULL, &err));
}

static void write_other(cb_box *b)
{
	CHECK_OK(cb_write_file(b, "/work/f", "another", 7, NULL, &err));
}

static void take_away(cb_box *b)
{
	CHECK_OK(cb_unlink(b, "/work/f", &err));
}

/* ---- what touches it ---- */

static void nothing(cb_box *b)
{
	(void)b;
}

static void change_mode(cb_box *b)
{
	CHECK_OK(cb_chmod(b, "/work/f", 0600, 0, &err));
}

static void set_attribute(cb_box *b)
{
	CHECK_OK(cb_xattr_set(b, "/work/f", "user.x", "1", 1, 0, &err));
}

static void add_tag(cb_box *b)
{
	CHECK_OK(cb_tag_add(b, "/work/f", "t", &err));
}

static void link_it(cb_box *b)
{
	CHECK_OK(cb_link(b, "/work/f", "/work/g", &err));
}

static void move_there_and_back(cb_box *b)
{
	CHECK_OK(cb_rename(b, "/work/f", "/work/g", 0, &err));
	CHECK_OK(cb_rename(b, "/work/g", "/work/f", 0, &err));
}

static void set_times(cb_box *b)
{
	CHECK_OK(cb_utimens(b, "/work/f", CB_TIME_OMIT, 5000, 0, &err));
}

static void mode_and_undo(cb_box *b)
{
	change_mode(b);
	CHECK_OK(cb_undo(b, 0, NULL, &err));
}

static void times_and_undo(cb_box *b)
{
	set_times(b);
	CHECK_OK(cb_undo(b, 0, NULL, &err));
}

static void move_and_undo(cb_box *b)
{
	CHECK_OK(cb_rename(b, "/work/f", "/work/g", 0, &err));
	CHECK_OK(cb_undo(b, 0, NULL, &err));
}

/* Back to how it was before `done`; path NULL: all of the box. */
static void restore_after(cb_box *b, deed done, const char *path)
{
	cb_box_info info = CB_INIT(cb_box_info);
	cb_box *then = NULL;
	char address[CB_NAME_MAX + 32];
	CHECK_OK(cb_box_info_get(b, &info, &err));
	(void)snprintf(address, sizeof(address), "%s@%llu", info.name, (unsigned long long)info.seq);
	CHECK_OK(cb_box_open(the_store, address, &then, &err));
	done(b);
	CHECK_OK(cb_restore(b, then, path, NULL, &err));
	cb_box_close(then);
}

static void mode_and_restore(cb_box *b)
{
	restore_after(b, change_mode, NULL);
}

static void mode_and_restore_of_it(cb_box *b)
{
	restore_after(b, change_mode, "/work/f");
}

/* ---- what writes it and takes that back, as if it had not been ---- */

static void write_and_undo(cb_box *b)
{
	write_alike(b);
	CHECK_OK(cb_undo(b, 0, NULL, &err));
}

/* Not by its keys, since the mode changed. */
static void write_and_undo_later(cb_box *b)
{
	write_alike(b);
	uint64_t seq = cb_box_step(b);
	change_mode(b);
	CHECK_OK(cb_undo(b, seq, NULL, &err));
}

static void write_other_and_undo_later(cb_box *b)
{
	write_other(b);
	uint64_t seq = cb_box_step(b);
	change_mode(b);
	CHECK_OK(cb_undo(b, seq, NULL, &err));
}

static void write_and_restore(cb_box *b)
{
	restore_after(b, write_other, NULL);
}

static void write_and_restore_of_it(cb_box *b)
{
	restore_after(b, write_other, "/work/f");
}

static void take_away_and_undo(cb_box *b)
{
	take_away(b);
	CHECK_OK(cb_undo(b, 0, NULL, &err));
}

/* ---- what writes it, and leaves the bytes ---- */

static void write_and_set_times_back(cb_box *b)
{
	cb_stat_info info = CB_INIT(cb_stat_info);
	CHECK_OK(cb_stat(b, "/work/f", 0, &info, &err));
	write_alike(b);
	CHECK_OK(cb_utimens(b, "/work/f", info.atime_ns, info.mtime_ns, 0, &err));
}

static void write_one_byte(cb_box *b)
{
	cb_file *f = NULL;
	CHECK_OK(cb_open(b, "/work/f", CB_READ | CB_WRITE, 0, &f, &err));
	if (size) CHECK_OK(cb_pwrite(f, bytes, 1, 0, &err));
	else CHECK_OK(cb_ftruncate(f, 0, &err));
	CHECK_OK(cb_close(f, &err));
}

static void cut_to_its_size(cb_box *b)
{
	CHECK_OK(cb_truncate(b, "/work/f", size, &err));
}

static void edit_there_and_back(cb_box *b)
{
	if (!size) write_alike(b);
	if (!size) return;
	CHECK_OK(cb_edit(b, "/work/f", &(cb_replacement){"x!", 2, "y?", 2}, 1, NULL, NULL, &err));
	CHECK_OK(cb_edit(b, "/work/f", &(cb_replacement){"y?", 2, "x!", 2}, 1, NULL, NULL, &err));
}

static void copy_over(cb_box *b)
{
	CHECK_OK(cb_copy(b, "/work/copy", "/work/f", 0, &err));
}

static void write_undo_redo(cb_box *b)
{
	write_alike(b);
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	CHECK_OK(cb_redo(b, NULL, &err));
}

/* By a transaction that is merged, since the box went on. */
static void in_a_merge(cb_box *b, deed done)
{
	cb_box *t = NULL;
	cb_commit_result result = CB_INIT(cb_commit_result);
	CHECK_OK(cb_txn_begin(b, NULL, &t, &err));
	done(t);
	must_write(b, "/work/unrelated", "u");
	CHECK_OK(cb_txn_commit(t, NULL, &result, &err));
	CHECK(result.merged);
	cb_box_close(t);
}

static void write_in_a_merge(cb_box *b)
{
	in_a_merge(b, write_alike);
}

static void write_and_set_times_back_in_a_merge(cb_box *b)
{
	in_a_merge(b, write_and_set_times_back);
}

static const deed touches[] = {nothing,
                               change_mode,
                               set_attribute,
                               add_tag,
                               link_it,
                               set_times,
                               mode_and_undo,
                               times_and_undo,
                               mode_and_restore,
                               mode_and_restore_of_it,
                               move_and_undo,
                               move_there_and_back,
                               write_and_undo,
                               write_and_undo_later,
                               write_other_and_undo_later,
                               write_and_restore,
                               write_and_restore_of_it,
                               take_away_and_undo};
static const deed writes[] = {write_alike,     write_and_set_times_back, write_one_byte,
                              cut_to_its_size, edit_there_and_back,      copy_over,
                              write_undo_redo, write_in_a_merge,         write_and_set_times_back_in_a_merge};

enum { PLAIN_TOUCHES = 12 }; /* those that write nothing on their way */

/* ---- a transaction beside them ---- */

static cb_box *begin(void)
{
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(the_store, "demo", &b, &err));
	must_write(b, "/work/other", "o");
	write_alike(b);
	CHECK_OK(cb_copy(b, "/work/f", "/work/copy", 0, &err));
	return b;
}

static cb_code commit_beside(cb_box *b, deed mine, deed of_the_box, deed then)
{
	cb_box *t = NULL;
	CHECK_OK(cb_txn_begin(b, NULL, &t, &err));
	mine(t);
	must_write(t, "/work/uses", "f");
	of_the_box(b);
	then(b);
	cb_code code = cb_txn_commit(t, NULL, NULL, &err);
	if (code == CB_CONFLICT) /* and it can be decided */
		CHECK_OK(cb_txn_commit(t, &CB_WITH(cb_commit_options, .prefer = CB_PREFER_TXN), NULL, &err));
	cb_box_close(t);
	return code;
}

static cb_code beside(deed mine, deed of_the_box, deed then)
{
	the_store = test_store_open(true);
	cb_box *b = begin();
	cb_code code = commit_beside(b, mine, of_the_box, then);
	cb_box_close(b);
	test_store_sound(the_store);
	cb_store_close(the_store);
	return code;
}

static const size_t sizes[] = {0, 112, 113, BYTES_MAX}; /* in the record or not, in one content or several */
enum {
	SIZES = sizeof(sizes) / sizeof(*sizes),
	TOUCHES = sizeof(touches) / sizeof(*touches),
	WRITES = sizeof(writes) / sizeof(*writes)
};

static void take_size(size_t i)
{
	size = sizes[i];
	memset(bytes, '\n', sizeof(bytes));
	memcpy(bytes, "x!", 2);
}

TEST(written_and_then_touched)
{
	static const deed mine[] = {write_other, write_alike, take_away};
	for (size_t z = 0; z < SIZES; z++) {
		take_size(z);
		for (size_t w = 0; w < WRITES; w++)
			for (size_t i = 0; i < TOUCHES; i++) {
				size_t m = (w + i + z) % 3;
				if (size == BYTES_MAX && (w + i) % 4) continue; /* they take their time */
				CHECK_MSG(beside(mine[m], writes[w], touches[i]) == CB_CONFLICT,
				          "size %zu, deed %zu beside write %zu and touch %zu", size, m, w, i);
			}
	}
}

TEST(touched_alone)
{
	for (size_t z = 0; z < SIZES; z++) {
		take_size(z);
		for (size_t i = 0; i < TOUCHES; i++) {
			CHECK_MSG(beside(write_other, touches[i], nothing) == CB_OK, "size %zu, touch %zu: %s", size, i,
			          err.message);
			CHECK_MSG(beside(write_alike, touches[i], nothing) == CB_OK, "size %zu, touch %zu: %s", size, i,
			          err.message);
		}
	}
}

/* Its times follow from the write. */
TEST(times_beside_a_write)
{
	for (size_t z = 0; z < SIZES; z++) {
		take_size(z);
		CHECK_MSG(beside(set_times, write_alike, nothing) == CB_OK, "%s", err.message);
		CHECK_MSG(beside(set_times, write_in_a_merge, nothing) == CB_OK, "%s", err.message);
		CHECK_MSG(beside(set_times, set_times, nothing) == CB_CONFLICT, "%s", err.message);
	}
}

/* Nobody noted when the files of a pack were written: what is done since is noted. */
TEST(files_of_which_it_is_not_known)
{
	for (size_t z = 0; z < SIZES; z++) {
		take_size(z);
		for (size_t w = 0; w < WRITES + PLAIN_TOUCHES; w++) {
			the_store = test_store_open(true);
			cb_box *from = begin(), *b = NULL;
			pack_bytes pack = pack_take(from, NULL);
			CHECK_OK(pack_give(the_store, &pack, "unpacked", NULL, &err));
			CHECK_OK(cb_box_open(the_store, "unpacked", &b, &err));
			bool is_write = w < WRITES;
			cb_code code = commit_beside(b, write_other, is_write ? writes[w] : touches[w - WRITES], nothing);
			CHECK_MSG(code == (is_write ? CB_CONFLICT : CB_OK), "size %zu, %s %zu: %s", size,
			          is_write ? "write" : "touch", is_write ? w : w - WRITES, err.message);
			cb_box_close(from);
			cb_box_close(b);
			test_store_sound(the_store);
			cb_store_close(the_store);
		}
	}
}

/* When it was written is no difference: what is as it was makes no step. */
TEST(no_difference)
{
	take_size(1);
	for (size_t w = 0; w < WRITES; w++) {
		the_store = test_store_open(true);
		cb_box *b = begin(), *then = NULL;
		uint64_t seq = 1;
		CHECK_OK(cb_box_open(the_store, "demo@3", &then, &err));
		writes[w](b);
		CHECK_OK(cb_restore(b, then, NULL, NULL, &err));
		CHECK_OK(cb_restore(b, then, NULL, &seq, &err));
		CHECK(seq == 0);
		CHECK_OK(cb_restore(b, then, "/work/f", &seq, &err));
		CHECK(seq == 0);
		cb_box_close(then);
		cb_box_close(b);
		test_store_sound(the_store);
		cb_store_close(the_store);
	}
}
