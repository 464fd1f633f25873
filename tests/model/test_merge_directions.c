/*
 * test_merge_directions.c: whether a merge is clean, and what comes of it, does not depend on which side is merged into the other; and
 * what a side set is in a clean one.
 *
 * Two sides change lines of texts, modes, times, attributes and tags, and save files in every way that editors have: in place, by rename,
 * and with the old file put aside as a backup, sometimes with the same text; files have further names, and are moved over each other.
 * Merged both ways:
 * - a merge is clean in both, or in none;
 * - the result is the same, in data, mode, modification times of files, attributes and tags, and in which names are one file;
 * - where it conflicts, the same holds with either side preferred;
 * - where it is clean, each attribute and tag of a name that only one side ever gave is somewhere, and each mode that only one gave.
 * test_prefer_model.c looks at what is in the result; its sides write whole texts, which never merge by lines.
 */
#include "harness/model_state.h"

#include <time.h>

enum { LINES = 6, SIDE_OPS = 4, BASE_OPS = 3, NAMES = 4 };
static const int64_t far_ahead_ns = 4000000000000000000;

/* few: mostly one of the two names that a file may have in the base. */
static void random_path(test_rng *r, bool few, char out[32])
{
	if (few && test_rand_below(r, 4)) (void)snprintf(out, 32, "/work/%c", "ac"[test_rand_below(r, 2)]);
	else (void)snprintf(out, 32, "/work/%s%c", test_rand_below(r, 3) ? "" : "d/", (char)('a' + test_rand_below(r, NAMES)));
}

/* The text of a file with a line that is the caller's own instead of one; seldom, as it is. */
static bool text_with_line(cb_box *b, test_rng *r, const char *path, const char *who, char out[256])
{
	cb_error err = {0};
	char *text = NULL;
	size_t size = 0, used = 0, at = test_rand_below(r, LINES), line = 0;
	if (cb_read_file(b, path, &text, &size, &err) != CB_OK) return false;
	if (test_rand_below(r, 4) == 0) at = LINES;
	for (char *save = NULL, *p = strtok_r(text, "\n", &save); p && used < 200; p = strtok_r(NULL, "\n", &save))
		used += (size_t)snprintf(out + used, 256 - used, "%s\n", line++ == at ? who : p);
	cb_free(text);
	return line > 0;
}

static cb_code save_by_rename(cb_box *b, const char *path, const char *text, cb_error *err)
{
	must_write(b, "/work/.new", text);
	cb_code code = cb_rename(b, "/work/.new", path, 0, err);
	if (code != CB_OK) (void)cb_remove(b, "/work/.new", &(cb_error){0});
	return code;
}

static cb_code save_with_backup(cb_box *b, const char *path, const char *text, cb_error *err)
{
	char aside[40];
	(void)snprintf(aside, sizeof(aside), "%s~", path);
	cb_code code = cb_rename(b, path, aside, 0, err);
	return code == CB_OK ? cb_write_file(b, path, text, strlen(text), NULL, err) : code;
}

/* One of eight that only this side gives; the base gives none. */
static uint32_t own_mode(const char *side)
{
	return strncmp(side, "zero", 4) == 0 ? 0500 : strncmp(side, "one", 3) == 0 ? 0700 : 0600;
}

/* Long ago or far ahead; sometimes one that the other side sets as well. */
static cb_code set_time(cb_box *b, test_rng *r, const char *path, const char *side, cb_error *err)
{
	int64_t whose = test_rand_below(r, 4) == 0 ? 1 : strncmp(side, "zero", 4) == 0 ? 2 : 3;
	int64_t when = test_rand_below(r, 4) == 0 ? far_ahead_ns : 1000000000;
	return cb_utimens(b, path, CB_TIME_OMIT, when + 1000 * whose + (int64_t)test_rand_below(r, 4), 0, err);
}

static cb_code set_field(cb_box *b, test_rng *r, const char *path, const char *who, cb_error *err)
{
	char name[64];
	uint32_t mode = test_rand_below(r, 2) ? 0600 : own_mode(who);
	(void)snprintf(name, sizeof(name), "user.%s", who);
	switch (test_rand_below(r, 6)) {
	case 0:
		return cb_chmod(b, path, mode + (uint32_t)test_rand_below(r, 8), 0, err);
	case 1:
		return cb_tag_add(b, path, test_rand_below(r, 2) ? "t" : "u", err);
	case 2:
		return cb_xattr_set(b, path, "user.x", who, strlen(who), 0, err);
	case 3:
		return cb_xattr_set(b, path, name, who, strlen(who), 0, err);
	case 4:
		return cb_tag_add(b, path, who, err);
	default:
		return cb_meta_set(b, path, test_rand_below(r, 2) ? "m" : "n", who, strlen(who), err);
	}
}

/* Refused ones are none. */
static bool random_op(cb_box *b, test_rng *r, const char *side, unsigned i, bool few, bool tell)
{
	static const char *const names[] = {"edit",  "save", "save",   "backup", "backup", "field",
	                                    "field", "link", "rename", "remove", "new",    "touch"};
	cb_error err = {0};
	char path[32], to[32], who[32], text[256] = "";
	random_path(r, few, path);
	random_path(r, few, to);
	(void)snprintf(who, sizeof(who), "%s%u", side, i);
	uint64_t kind = test_rand_below(r, 12);
	if (kind <= 4 && !text_with_line(b, r, path, who, text)) return false;
	for (unsigned k = 1; kind == 10 && k <= LINES; k++) (void)snprintf(text + strlen(text), 40, "%s.%u\n", who, k);
	cb_code code = kind == 0    ? cb_write_file(b, path, text, strlen(text), NULL, &err)
	               : kind <= 2  ? save_by_rename(b, path, text, &err)
	               : kind <= 4  ? save_with_backup(b, path, text, &err)
	               : kind <= 6  ? set_field(b, r, path, who, &err)
	               : kind == 7  ? cb_link(b, path, to, &err)
	               : kind == 8  ? cb_rename(b, path, to, 0, &err)
	               : kind == 9  ? cb_unlink(b, path, &err)
	               : kind == 11 ? set_time(b, r, path, side, &err)
	                            : cb_write_file(b, path, text, strlen(text), NULL, &err);
	bool saved = code == CB_OK && kind >= 1 && kind <= 4, set = saved && test_rand_below(r, 2);
	if (set) code = test_rand_below(r, 4) ? set_field(b, r, path, who, &err) : set_time(b, r, path, side, &err);
	if (tell && code == CB_OK)
		test_note("%s: %s %s %s%s", side, names[kind], path, kind == 7 || kind == 8 ? to : "", set ? "and a field" : "");
	return code == CB_OK;
}

static void change(cb_box *b, uint64_t seed, const char *side, unsigned ops, bool few, bool tell)
{
	test_rng r = {seed};
	unsigned done = 0;
	for (unsigned i = 0; i < 100 && done < ops; i++) done += random_op(b, &r, side, i, few, tell);
}

static void make_base(cb_box *b, uint64_t seed, bool tell)
{
	cb_error err = {0};
	static const char *const paths[] = {"/work/a", "/work/b", "/work/d/a", "/work/d/b"};
	CHECK_OK(cb_mkdir(b, "/work/d", 0755, 0, &err));
	for (size_t i = 0; i < 4; i++) must_write(b, paths[i], "1\n2\n3\n4\n5\n6\n");
	change(b, seed, "base", BASE_OPS, false, tell);
	if (seed % 2) (void)cb_link(b, "/work/a", "/work/c", &err); /* unless one of them was removed, or made */
}

/* Side 1 - into merged into a copy of the other. *clean: nobody had to be preferred. */
static model_state *merged(cb_store *s, int into, int winner, bool *clean)
{
	static const char *const names[] = {"0", "1"};
	cb_error err = {0};
	cb_box *b = must_fork(s, names[into], "copy"), *from = must_open(s, names[1 - into]);
	cb_code code = cb_merge(b, from, NULL, NULL, NULL, &err);
	*clean = code != CB_CONFLICT;
	cb_merge_options how = CB_WITH(cb_merge_options, .prefer = winner == into ? CB_PREFER_OURS : CB_PREFER_THEIRS);
	if (!*clean) code = cb_merge(b, from, &how, NULL, NULL, &err);
	CHECK_MSG(code == CB_OK || code == CB_NOTHING, "merged into %d: %s: %s", into, cb_code_name(code), err.message);
	model_state *result = model_read(b);
	cb_box_close(b);
	cb_box_close(from);
	CHECK_OK(cb_box_delete(s, "copy", &err));
	return result;
}

/* The first path that is the same file. */
static size_t first_name(const model_state *s, size_t i)
{
	size_t first = 0;
	while (s->entries[first].type != s->entries[i].type || s->entries[first].ino != s->entries[i].ino) first++;
	return first;
}

/* The times of the merges, which are two, count as one. */
static const model_entry *other_time(const model_state *a, const model_state *b, int64_t merging_ns)
{
	for (size_t i = 0; i < a->count; i++) {
		int64_t x = a->entries[i].mtime_ns, y = b->entries[i].mtime_ns;
		bool merged_x = x >= merging_ns && x < far_ahead_ns, merged_y = y >= merging_ns && y < far_ahead_ns;
		if (a->entries[i].type == CB_FILE && x != y && !(merged_x && merged_y)) return &a->entries[i];
	}
	return NULL;
}

static const char *fault_of(const model_state *a, const model_state *b, bool clean, bool also, int64_t merging_ns)
{
	if (clean != also) return "it conflicts one way only";
	if (!model_same(a, b)) return "the result depends on the direction";
	for (size_t i = 0; i < a->count; i++)
		if (first_name(a, i) != first_name(b, i)) return "which names are one file depends on the direction";
	const model_entry *e = other_time(a, b, merging_ns);
	if (e) test_note("%s: %" PRId64 ", %" PRId64, e->path, e->mtime_ns, b->entries[e - a->entries].mtime_ns);
	return e ? "the time of a file depends on the direction" : NULL;
}

static bool has_line(const model_state *s, const char *line)
{
	for (size_t i = 0; i < s->count; i++) {
		const char *at = strstr(s->entries[i].attrs, line);
		if (at && (at == s->entries[i].attrs || at[-1] == '\n')) return true;
	}
	return false;
}

static bool has_mode(const model_state *s, uint32_t mode)
{
	for (size_t i = 0; i < s->count; i++)
		if (s->entries[i].type == CB_FILE && s->entries[i].mode == mode) return true;
	return false;
}

/* What the side of that name set, and a clean result has nowhere; NULL: nothing. */
static const char *lost_of(const model_state *side, const char *name, const model_state *result)
{
	static char line[256];
	for (size_t i = 0; i < side->count; i++) {
		const model_entry *e = &side->entries[i];
		if (e->type == CB_FILE && (e->mode & 0770) == own_mode(name) && !has_mode(result, e->mode)) {
			(void)snprintf(line, sizeof(line), "mode %o of %s", e->mode, e->path);
			return line;
		}
		for (const char *at = e->attrs; *at; at += strcspn(at, "\n") + 1) {
			(void)snprintf(line, sizeof(line), "%.*s\n", (int)strcspn(at, "\n"), at);
			const char *set = line + strcspn(line, " ") + 1; /* behind the kind */
			if (strncmp(set, "user.", 5) == 0) set += 5;
			if (strncmp(set, name, strlen(name)) == 0 && !has_line(result, line)) return line;
		}
	}
	return NULL;
}

/* Gives back whether it was clean. */
static bool check_directions(uint64_t base, const uint64_t sides[2], int winner, bool tell)
{
	cb_error err = {0};
	cb_store *s = test_store_open(true);
	cb_box *boxes[2];
	bool clean = false, also = false;
	CHECK_OK(cb_box_create(s, "0", &boxes[0], &err));
	make_base(boxes[0], base, tell);
	boxes[1] = must_fork(s, "0", "1");
	for (int i = 0; i < 2; i++) {
		unsigned ops = 1 + (unsigned)(sides[i] % SIDE_OPS);
		change(boxes[i], sides[i], i ? "one" : "zero", ops, base % 4 == 1, tell);
	}
	struct timespec now;
	CHECK(clock_gettime(CLOCK_REALTIME, &now) == 0);
	int64_t merging_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
	model_state *a = merged(s, 0, winner, &clean), *b = merged(s, 1, winner, &also);
	const char *fault = fault_of(a, b, clean, also, merging_ns), *lost = NULL;
	for (int i = 0; clean && !fault && !lost && i < 2; i++) {
		model_state *side = model_read(boxes[i]);
		lost = lost_of(side, i ? "one" : "zero", a);
		model_free(side);
	}
	if (lost) fault = "what a side set is lost";
	if (fault && !tell) (void)check_directions(base, sides, winner, true); /* once more, and said */
	if (fault) test_note("into zero, then into one:\n%s", model_explain(a, b));
	if (lost) test_note("lost: %s", lost);
	CHECK_MSG(!fault, "%s (%d preferred)", fault, winner);
	test_store_sound(s);
	model_free(a);
	model_free(b);
	cb_box_close(boxes[0]);
	cb_box_close(boxes[1]);
	cb_store_close(s);
	return clean;
}

TEST_LIMIT(both_directions_have_one_outcome, 300)
{
	test_rng r = {test_seed()};
	uint64_t clean = 0;
	for (unsigned i = 0; i < test_dose(2000); i++) {
		uint64_t base = test_rand(&r), sides[2] = {test_rand(&r), test_rand(&r)};
		clean += check_directions(base, sides, (int)(i % 2), false);
	}
	test_note("%" PRIu64 " clean", clean);
}
