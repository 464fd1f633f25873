/*
 * test_merge_additions.c: boxes that only add merge each other, older states too, and nothing is lost.
 *
 * Every addition is made once in a history, by one box, in a place of its own: a line of a text, an attribute of that, a file, a key.
 * So no two conflict, whatever the order, and a merge has what both sides had, neither less nor more, in both directions. The text is
 * written in place, saved by rename, or made again with its folder, each time with its attributes: it is one file under many inode
 * numbers, of which every box has one. Merges of older states make several common pasts, which have different ones.
 *
 * In some histories merges are undone too, and what was taken back may stay so. There are conflicts then, as there are where files that
 * were replaced differ in attributes (find_returned in merge.c), or have been renamed: but nothing is lost.
 */
#include "harness/model_state.h"

enum { ADDITIONS = 40, RENAMED = ADDITIONS, BOXES = 4, TURNS = 40, TEXT_BYTES = 4096 };

typedef uint64_t additions; /* a set: a bit for each */

typedef struct world {
	test_rng rng;
	cb_store *s;
	cb_box *boxes[BOXES];
	unsigned made;
	bool undoes, sets_attributes, renames, renamed;
	additions taken_back; /* somewhere */
	model_trace trace;
	uint64_t merges, nothing, conflicts;
} world;

static uint64_t below(world *w, uint64_t n)
{
	return test_rand_below(&w->rng, n);
}

static additions one(unsigned n)
{
	return (additions)1 << n;
}

/* ---- what a state has ---- */

/* Lines of others lie between any two that are added. */
static void text_build(additions lines, char out[TEXT_BYTES])
{
	size_t used = 0;
	for (unsigned i = 0; i < ADDITIONS; i++) {
		const char *added = lines & one(i) ? "added\n" : "";
		used += (size_t)snprintf(out + used, TEXT_BYTES - used, "%u, from here\n%s%u, to here\n", i, added, i);
	}
}

/* It is renamed at most once in a history. */
static const char *text_path(cb_box *b)
{
	bool moved = exists(b, "/work/d/renamed");
	CHECK(moved != exists(b, "/work/d/text"));
	return moved ? "/work/d/renamed" : "/work/d/text";
}

static additions lines_read(cb_box *b)
{
	char *text = NULL, same[TEXT_BYTES];
	additions lines = 0;
	cb_error err = {0};
	CHECK_OK(cb_read_file(b, text_path(b), &text, NULL, &err));
	for (unsigned i = 0; i < ADDITIONS; i++) {
		char line[32];
		(void)snprintf(line, sizeof(line), "added\n%u, to", i);
		const char *at = strstr(text, line);
		if (at) lines |= one(i);
	}
	text_build(lines, same);
	CHECK_STR(text, same);
	cb_free(text);
	return lines;
}

static cb_code take_name(void *context, const char *name, const char *value, size_t size, cb_error *err)
{
	unsigned n = 0;
	(void)value;
	(void)size;
	(void)err;
	CHECK(sscanf(name, "user.%u", &n) == 1 && n < ADDITIONS);
	*(additions *)context |= one(n);
	return CB_OK;
}

static additions attributes_read(cb_box *b)
{
	additions all = 0;
	cb_error err = {0};
	CHECK_OK(cb_xattr_list(b, text_path(b), 0, take_name, &all, &err));
	return all;
}

static additions files_read(cb_box *b)
{
	additions all = 0;
	for (unsigned i = 0; i < ADDITIONS; i++) {
		char path[32];
		(void)snprintf(path, sizeof(path), "/work/d/%u", i);
		if (exists(b, path)) all |= one(i);
	}
	return all;
}

static additions all_read(cb_box *b)
{
	additions all = lines_read(b) | attributes_read(b) | files_read(b);
	cb_error err = {0};
	CHECK_OK(cb_kv_list(b, "", take_name, &all, &err));
	return exists(b, "/work/d/renamed") ? all | one(RENAMED) : all;
}

/* ---- turns ---- */

/* As a file of its own, with the attributes that the text has. */
static void text_make(cb_box *b, const char *path, additions lines, additions attributes)
{
	cb_error err = {0};
	char text[TEXT_BYTES], name[32];
	text_build(lines, text);
	must_write(b, path, text);
	for (unsigned i = 0; i < ADDITIONS; i++) {
		(void)snprintf(name, sizeof(name), "user.%u", i);
		if (attributes & one(i)) CHECK_OK(cb_xattr_set(b, path, name, "", 0, 0, &err));
	}
}

static void save_by_rename(cb_box *b, additions lines)
{
	cb_error err = {0};
	cb_box *t = must_begin(b);
	text_make(t, "/work/new", lines, attributes_read(t));
	CHECK_OK(cb_rename(t, "/work/new", text_path(t), 0, &err));
	(void)must_commit(t);
}

/* Removed, and made again with all that was in it. */
static void remake_folder(cb_box *b, additions lines)
{
	cb_error err = {0};
	cb_box *t = must_begin(b);
	const char *path = text_path(t);
	additions attributes = attributes_read(t), files = files_read(t);
	CHECK_OK(cb_remove(t, "/work/d", &err));
	CHECK_OK(cb_mkdir(t, "/work/d", 0755, 0, &err));
	text_make(t, path, lines, attributes);
	for (unsigned i = 0; i < ADDITIONS; i++) {
		char name[32];
		(void)snprintf(name, sizeof(name), "/work/d/%u", i);
		if (files & one(i)) must_write(t, name, "");
	}
	(void)must_commit(t);
}

static void add(world *w, unsigned box)
{
	typedef enum kind { LINE, SAVED_LINE, REMADE_LINE, ATTRIBUTE, NEW_FILE, KEY } kind;
	static const kind kinds[] = {LINE,        LINE,      SAVED_LINE, SAVED_LINE, SAVED_LINE,
	                             REMADE_LINE, ATTRIBUTE, ATTRIBUTE,  NEW_FILE,   KEY};
	static const char *const words[] = {"line", "line, saved by rename", "line, in a folder made again", "attribute", "file",
	                                    "key"};
	cb_box *b = w->boxes[box];
	cb_error err = {0};
	char name[32];
	if (w->renames && below(w, 10) == 0) {
		w->renames = false;
		w->renamed = true;
		CHECK_OK(cb_rename(b, "/work/d/text", "/work/d/renamed", 0, &err));
		model_note(&w->trace, "b%u@%" PRIu64 ": the text is renamed", box, must_seq(b));
		return;
	}
	if (w->made == ADDITIONS) return;
	unsigned n = w->made++;
	kind k = kinds[below(w, sizeof(kinds) / sizeof(*kinds))];
	additions lines = lines_read(b) | one(n);
	char text[TEXT_BYTES];
	text_build(lines, text);
	if (k == ATTRIBUTE && !w->sets_attributes) k = LINE;
	(void)snprintf(name, sizeof(name), k == NEW_FILE ? "/work/d/%u" : "user.%u", n);
	switch (k) {
	case LINE:
		must_write(b, text_path(b), text);
		break;
	case SAVED_LINE:
		save_by_rename(b, lines);
		break;
	case REMADE_LINE:
		remake_folder(b, lines);
		break;
	case ATTRIBUTE:
		CHECK_OK(cb_xattr_set(b, text_path(b), name, "", 0, 0, &err));
		break;
	case NEW_FILE:
		must_write(b, name, "");
		break;
	case KEY:
		CHECK_OK(cb_kv_set(b, name, "", 0, &err));
	}
	model_note(&w->trace, "b%u@%" PRIu64 ": %s %u", box, must_seq(b), words[k], n);
}

/* A state of it, often an older one. */
static cb_box *any_state(world *w, unsigned box, char address[32])
{
	uint64_t seq = must_seq(w->boxes[box]), steps = box == 0 ? seq - 1 : seq; /* since there is a text */
	uint64_t back = below(w, 3) ? 0 : below(w, steps < 6 ? steps + 1 : 6);
	(void)snprintf(address, 32, "b%u@%" PRIu64, box, seq - back);
	return must_open(w->s, address);
}

static void fail(world *w, const char *what, additions which)
{
	model_tell(&w->trace);
	for (unsigned i = 0; i <= RENAMED; i++)
		if (which & one(i)) test_note("%u", i);
	test_fail(__FILE__, __LINE__, "%s", what);
}

static cb_code merge_checked(world *w, cb_box *into, cb_box *from)
{
	cb_error err = {0};
	additions ours = all_read(into), theirs = all_read(from);
	cb_code code = cb_merge(into, from, NULL, NULL, NULL, &err);
	model_note(&w->trace, "  %s %s", cb_code_name(code), code == CB_CONFLICT ? err.message : "");
	additions got = all_read(into);
	bool refused = code == CB_LIMIT || (code == CB_CONFLICT && (w->taken_back || w->sets_attributes || w->renamed));
	if (code != CB_OK && code != CB_NOTHING && !refused) fail(w, err.message, 0);
	additions want = refused ? ours : ours | theirs;
	if (want & ~got & ~w->taken_back) fail(w, "lost", want & ~got);
	if (got & ~want) fail(w, "from nowhere", got & ~want);
	w->merges += code == CB_OK;
	w->nothing += code == CB_NOTHING;
	w->conflicts += code == CB_CONFLICT;
	return code;
}

static void merge(world *w, unsigned into, unsigned from)
{
	cb_error err = {0};
	char address[32];
	cb_box *theirs = any_state(w, from, address), *b = w->boxes[into];
	additions before = all_read(b);
	model_note(&w->trace, "b%u@%" PRIu64 " merges %s", into, must_seq(b), address);
	cb_code code = merge_checked(w, b, theirs);
	cb_box_close(theirs);
	if (code != CB_OK || !w->undoes || below(w, 3)) return;
	model_note(&w->trace, "  and takes it back");
	w->taken_back |= all_read(b) & ~before;
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	CHECK_U64(all_read(b), before);
}

/* One state into a fork of another, and the other way round. */
static void try_both_ways(world *w, unsigned a, unsigned b)
{
	cb_error err = {0};
	char addresses[2][32];
	cb_box *states[2] = {any_state(w, a, addresses[0]), any_state(w, b, addresses[1])};
	for (unsigned i = 0; i < 2; i++) {
		model_note(&w->trace, "a fork of %s merges %s", addresses[i], addresses[!i]);
		cb_box *trial = must_fork(w->s, addresses[i], "trial");
		(void)merge_checked(w, trial, states[!i]);
		cb_box_close(trial);
		CHECK_OK(cb_box_delete(w->s, "trial", &err));
	}
	cb_box_close(states[0]);
	cb_box_close(states[1]);
}

static void history(world *w)
{
	cb_error err = {0};
	char text[TEXT_BYTES], name[8], origin[8];
	w->s = test_store_open(true);
	CHECK_OK(cb_box_create(w->s, "b0", &w->boxes[0], &err));
	text_build(0, text);
	must_write(w->boxes[0], "/work/d/text", text);
	w->undoes = below(w, 4) == 0;
	w->sets_attributes = below(w, 2) == 0;
	w->renames = below(w, 4) == 0;
	for (unsigned i = 1; i < BOXES; i++) {
		(void)snprintf(name, sizeof(name), "b%u", i);
		(void)snprintf(origin, sizeof(origin), "b%u", (unsigned)below(w, i));
		w->boxes[i] = must_fork(w->s, origin, name);
		add(w, (unsigned)below(w, i + 1));
	}
	for (unsigned i = 0; i < TURNS; i++) {
		unsigned a = (unsigned)below(w, BOXES), b = (a + 1 + (unsigned)below(w, BOXES - 1)) % BOXES;
		if (below(w, 2)) add(w, a);
		else if (below(w, 3)) merge(w, a, b);
		else try_both_ways(w, a, b);
	}
	for (unsigned i = 0; i < BOXES; i++) cb_box_close(w->boxes[i]);
	test_store_sound(w->s);
	cb_store_close(w->s);
}

/* make soak: 10,000 histories. */
TEST_LIMIT(nothing_is_lost, 120)
{
	static world w;
	uint64_t seed = test_seed(), merges = 0, nothing = 0, conflicts = 0;
	for (unsigned i = 0; i < test_dose(200); i++) {
		w = (world){.rng = {seed + i * 7919}};
		if (getenv("COWBOX_TRACE")) test_note("history %u", i);
		(void)test_rand(&w.rng);
		history(&w);
		merges += w.merges;
		nothing += w.nothing;
		conflicts += w.conflicts;
	}
	test_note("%" PRIu64 " merges, %" PRIu64 " of nothing, %" PRIu64 " conflicts", merges, nothing, conflicts);
}
