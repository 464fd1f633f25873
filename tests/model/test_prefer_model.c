/*
 * test_prefer_model.c: conflicts that were settled for one side.
 *
 * Two sides change a small tree at random (files, folders, links, renames, exchanges, other types under old names); every write has a text
 * of its own. Whoever is preferred, wherever the merge is made:
 * - the result is the same merged into the winner and merged into the loser (but for what a transaction relied on, which only one side
 *   does), also which names are one file, and the same when all is made again with other inode numbers;
 * - a path in conflict is as the winner has it;
 * - what the winner wrote is there, and what both sides still have;
 * - fsck finds nothing.
 * With an answer for each path at random, the result is the same again, and sound; what a side wrote, or both sides have, is there unless
 * an answer is against it, and an answered path is as the side has it that was answered for (in a commit: if it is in conflict without
 * that answer). Where both directions ask about the same paths, which they do unless a side renamed something, and the paths mean the same
 * files, the same answers have the same outcome in both. Answers that contradict each other leave a conflict open, and nothing happens.
 *
 * In every second scene the sides mostly move folders, into each other and into folders that were made again.
 * In every third merge the sides have merged each other crosswise before, once or twice, with one or the other preferred, so that the base
 * is made of two, and what these came from too.
 */
#include "base/attr.h"
#include "harness/model_state.h"

enum { SIDE_OPS = 3, LONG_OPS = 6, BASE_OPS = 6, CROSS_OPS = 2, NAMES = 3, PATHS_MAX = 64 };
enum { PLAIN_DEPTH = 2, FOLDERS_DEPTH = 4 };

typedef struct scene {
	uint64_t base, sides[2]; /* seeds */
	unsigned ops;
	bool folders;     /* they move folders, mostly, into each other and below folders that were made again */
	uint64_t crossed; /* seed of what the sides did before they merged each other crosswise; 0: they did not */
} scene;

static const char *const WORK = "/work";

/* ---- random changes: the same ones for the same seed and tree ---- */

static void random_path(test_rng *r, unsigned depth_max, char out[64])
{
	size_t size = (size_t)snprintf(out, 64, "%s", WORK);
	for (uint64_t depth = 1 + test_rand_below(r, depth_max); depth > 0; depth--)
		size += (size_t)snprintf(out + size, 64 - size, "/%c", (char)('a' + test_rand_below(r, NAMES)));
}

/* Of a folder that is there, where one is found. */
static void random_folder(cb_box *b, test_rng *r, char out[64])
{
	cb_error err = {0};
	cb_stat_info st = CB_INIT(cb_stat_info);
	for (int i = 0; i < 40; i++) {
		random_path(r, FOLDERS_DEPTH, out);
		if (cb_stat(b, out, 0, &st, &err) == CB_OK && st.type == CB_DIR) return;
	}
}

/* A folder, and a name in another; sometimes any. */
static void random_folder_paths(cb_box *b, test_rng *r, char from[64], char to[64])
{
	random_path(r, FOLDERS_DEPTH, from);
	random_path(r, FOLDERS_DEPTH, to);
	if (test_rand_below(r, 4)) random_folder(b, r, from);
	if (test_rand_below(r, 4) == 0) return;
	random_folder(b, r, to);
	size_t size = strlen(to);
	(void)snprintf(to + size, 64 - size, "/%c", (char)('a' + test_rand_below(r, NAMES + 2))); /* some are free */
}

typedef enum op_kind { OP_WRITE, OP_SAVE, OP_MKDIR, OP_RENAME, OP_EXCHANGE, OP_LINK, OP_REMOVE, OP_RETYPE, OP_REMAKE } op_kind;

static const char *const OP_NAMES[] = {"write", "save", "mkdir", "rename", "exchange", "link", "remove", "retype", "remake"};

/* How often each is drawn. */
static const op_kind PLAIN_OPS[] = {OP_WRITE,  OP_WRITE,    OP_SAVE, OP_MKDIR,  OP_MKDIR, OP_RENAME,
                                    OP_RENAME, OP_EXCHANGE, OP_LINK, OP_REMOVE, OP_RETYPE};
static const op_kind FOLDER_OPS[] = {OP_RENAME, OP_RENAME,   OP_RENAME, OP_RENAME, OP_RENAME, OP_RENAME, OP_RENAME,
                                     OP_RENAME, OP_EXCHANGE, OP_WRITE,  OP_MKDIR,  OP_REMOVE, OP_RETYPE, OP_REMAKE};

/* Something else of the same name. retype: a file where a folder was, or the other way round; else a new folder where one was. */
static cb_code replace_at(cb_box *b, const char *path, const char *text, bool retype, cb_error *err)
{
	cb_stat_info st = CB_INIT(cb_stat_info);
	cb_code code = cb_stat(b, path, 0, &st, err);
	if (code == CB_OK && !retype && st.type != CB_DIR) code = CB_NOTDIR;
	if (code == CB_OK) code = cb_remove(b, path, err);
	if (code != CB_OK) return code;
	if (retype && st.type == CB_DIR) return cb_write_file(b, path, text, strlen(text), NULL, err);
	return cb_mkdir(b, path, 0755, 0, err);
}

static cb_code do_op(cb_box *b, op_kind kind, const char *from, const char *to, const char *text, cb_error *err)
{
	cb_code code = CB_OK;
	switch (kind) {
	case OP_WRITE:
		return cb_write_file(b, from, text, strlen(text), NULL, err);
	case OP_SAVE: /* as editors do */
		code = cb_write_file(b, "/work/.new", text, strlen(text), NULL, err);
		if (code == CB_OK) code = cb_rename(b, "/work/.new", from, 0, err);
		if (code != CB_OK) (void)cb_remove(b, "/work/.new", err);
		return code;
	case OP_MKDIR:
		return cb_mkdir(b, from, 0755, 0, err);
	case OP_RENAME:
		return cb_rename(b, from, to, 0, err);
	case OP_EXCHANGE:
		return cb_rename(b, from, to, CB_EXCHANGE, err);
	case OP_LINK:
		return cb_link(b, from, to, err);
	case OP_REMOVE:
		return cb_remove(b, from, err);
	case OP_RETYPE:
	case OP_REMAKE:
		return replace_at(b, from, text, kind == OP_RETYPE, err);
	}
	return CB_INVALID;
}

/* Refused ones are none. */
static bool random_op(const scene *sc, cb_box *b, test_rng *r, const char *who, unsigned i, bool tell)
{
	cb_error err = {0};
	char from[64], to[64], text[80];
	op_kind kind = sc->folders ? FOLDER_OPS[test_rand_below(r, ARRAY_LEN(FOLDER_OPS))]
	                           : PLAIN_OPS[test_rand_below(r, ARRAY_LEN(PLAIN_OPS))];
	bool two = kind == OP_RENAME || kind == OP_EXCHANGE || kind == OP_LINK, done = false;
	(void)snprintf(text, sizeof(text), "%s %u\n", who, i);
	for (int tries = 0; tries < (sc->folders ? 20 : 1) && !done; tries++) { /* moves are refused more often than the rest */
		if (sc->folders) random_folder_paths(b, r, from, to);
		else random_path(r, PLAIN_DEPTH, from), random_path(r, PLAIN_DEPTH, to);
		done = !(sc->folders && two && strcmp(from, to) == 0) && do_op(b, kind, from, to, text, &err) == CB_OK;
	}
	if (tell && done) test_note("%s: %s %s %s", who, OP_NAMES[kind], from, two ? to : "");
	return done;
}

static void change(const scene *sc, cb_box *b, uint64_t seed, const char *who, unsigned ops, bool tell)
{
	test_rng r = {seed};
	unsigned done = 0;
	for (unsigned i = 0; i < 200 && done < ops; i++) done += random_op(sc, b, &r, who, i, tell);
}

/* Moves a folder into another, or below it. */
static void move_below(cb_box *b, test_rng *r, const char *who, const char *from, const char *below, bool tell)
{
	cb_error err = {0};
	char to[64 + 2], in[64];
	(void)snprintf(to, sizeof(to), "%s/d", below);
	for (int i = 0; i < 8; i++) {
		random_folder(b, r, in);
		if (model_within(in, below)) (void)snprintf(to, sizeof(to), "%s/d", in);
	}
	if (cb_rename(b, from, to, 0, &err) == CB_OK && tell) test_note("%s: rename %s %s", who, from, to);
}

/* What a side does. In half of the scenes about folders it begins with one that meets the other side's. */
static void change_side(const scene *sc, cb_box *b, int side, bool tell)
{
	static const char *const folders[] = {"/work/a", "/work/b", "/work/c", "/work/a/b"};
	const char *who = side ? "one" : "zero", *first = folders[sc->base >> 40 & 3], *second = folders[sc->base >> 42 & 3];
	test_rng r = {sc->sides[side] + 1};
	if (sc->folders && sc->base >> 44 & 1) move_below(b, &r, who, side ? second : first, side ? first : second, tell);
	change(sc, b, sc->sides[side], who, sc->ops, tell);
}

/* Two ways of folders, and a file in some: what can be moved into each other. */
static void make_base(const scene *sc, cb_box *b, bool tell)
{
	static const char *const folders[] = {"/work/a", "/work/a/b", "/work/a/b/c", "/work/b", "/work/b/a", "/work/c"},
				 *const files[] = {"/work/a/a", "/work/a/b/c/a", "/work/b/a/b", "/work/c/b"};
	cb_error err = {0};
	for (size_t i = 0; sc->folders && i < ARRAY_LEN(folders); i++)
		if (sc->base >> i & 3) (void)cb_mkdir(b, folders[i], 0755, 0, &err);
	for (size_t i = 0; sc->folders && i < ARRAY_LEN(files); i++)
		(void)cb_write_file(b, files[i], files[i], strlen(files[i]), NULL, &err);
	if (!sc->folders) change(sc, b, sc->base, "base", BASE_OPS, tell);
}

/* ---- settling ---- */

typedef struct answers {
	uint64_t salt; /* 0: all for `whole`; else by path, for side 0 or 1 */
	cb_prefer whole;
	int into;
	char paths[PATHS_MAX][128];
	const char *reasons[PATHS_MAX];
	cb_prefer said[PATHS_MAX];
	size_t count, contradictions;
} answers;

static cb_prefer answer(void *context, const cb_conflict *c)
{
	answers *a = context;
	cb_prefer said = a->whole;
	uint64_t mixed = a->salt;
	for (const char *p = c->path; a->salt && *p; p++) mixed = (mixed ^ (unsigned char)*p) * 0x9e3779b97f4a7c15u;
	if (a->salt) said = (int)(mixed >> 40 & 1) == a->into ? CB_PREFER_OURS : CB_PREFER_THEIRS;
	if (c->contradicts) {
		a->contradictions++;
		return said;
	}
	CHECK(a->count < PATHS_MAX);
	(void)snprintf(a->paths[a->count], sizeof(a->paths[0]), "%s", c->path);
	a->reasons[a->count] = c->reason;
	a->said[a->count++] = said;
	return said;
}

typedef struct outcome {
	model_state *sides[2], *base, *result;
	model_state *crossed[2]; /* the sides after their crosswise merges; NULL: there were none */
	answers answers;
	bool relied; /* the transaction, on something that is no longer so */
} outcome;

static void outcome_done(outcome *o)
{
	model_free(o->base);
	model_free(o->sides[0]);
	model_free(o->sides[1]);
	model_free(o->result);
	model_free(o->crossed[0]);
	model_free(o->crossed[1]);
}

/* Each side changes something and merges what the other had then. */
static void cross(const scene *sc, cb_store *s, cb_box *const boxes[2], unsigned round, bool tell, outcome *o)
{
	static const char *const who[2][2] = {{"before zero", "before one"}, {"again zero", "again one"}},
				 *const then[] = {"then-0", "then-1"}, *const names[] = {"0", "1"};
	cb_box *old[2];
	for (int i = 0; i < 2; i++) {
		change(sc, boxes[i], sc->crossed + 2 * round + (uint64_t)i, who[round][i], CROSS_OPS, tell);
		old[i] = must_fork(s, names[i], then[i]);
	}
	for (int i = 0; i < 2; i++) {
		cb_error err = {0};
		bool ours = sc->crossed >> (40 + 2 * round + (unsigned)i) & 1;
		cb_merge_options how = CB_WITH(cb_merge_options, .prefer = ours ? CB_PREFER_OURS : CB_PREFER_THEIRS);
		cb_code code = cb_merge(boxes[i], old[1 - i], &how, NULL, NULL, &err);
		CHECK_MSG(code == CB_OK || code == CB_NOTHING, "crosswise: %s: %s", cb_code_name(code), err.message);
		if (tell) test_note("%s merges %s, %s preferred", names[i], then[1 - i], ours ? "ours" : "theirs");
		model_free(o->crossed[i]);
		o->crossed[i] = model_read(boxes[i]);
		cb_box_close(old[1 - i]);
		CHECK_OK(cb_box_delete(s, then[1 - i], &err));
	}
}

/* Merges side 1-into into side `into`. */
static void settle(const scene *sc, int into, cb_prefer whole, uint64_t salt, bool tell, outcome *o)
{
	cb_error err = {0};
	cb_store *s = test_store_open(true);
	cb_box *boxes[2];
	*o = (outcome){.answers = {.salt = salt, .whole = whole, .into = into}};
	CHECK_OK(cb_box_create(s, "0", &boxes[0], &err));
	make_base(sc, boxes[0], tell);
	o->base = model_read(boxes[0]);
	boxes[1] = must_fork(s, "0", "1");
	for (unsigned round = 0; sc->crossed && round <= (sc->crossed >> 50 & 1); round++) cross(sc, s, boxes, round, tell, o);
	for (int i = 0; i < 2; i++) {
		change_side(sc, boxes[i], i, tell);
		o->sides[i] = model_read(boxes[i]);
	}
	cb_merge_options how = CB_WITH(cb_merge_options, .resolve = answer, .context = &o->answers);
	cb_code code = cb_merge(boxes[into], boxes[1 - into], &how, NULL, NULL, &err);
	bool refused = salt && code == CB_CONFLICT && o->answers.contradictions,
	     expected = code == CB_OK || code == CB_NOTHING || refused;
	if (!expected && !tell) settle(sc, into, whole, salt, true, o); /* once more, and said */
	CHECK_MSG(expected, "merged into %d: %s: %s", into, cb_code_name(code), err.message);
	CHECK(refused == (o->answers.contradictions > 0));
	o->result = model_read(boxes[into]);
	if (refused) CHECK_MODEL(o->sides[into], o->result, "refused");
	test_store_sound(s);
	cb_box_close(boxes[0]);
	cb_box_close(boxes[1]);
	cb_store_close(s);
}

/* Only a transaction relies on the absence of a name; then it matters which side that is. */
static cb_code note_relied(void *context, const cb_conflict *c, cb_error *err)
{
	(void)err;
	if (strcmp(c->reason, "made on both sides") == 0) *(bool *)context = true;
	return CB_OK;
}

static cb_code note_answer(void *context, const cb_conflict *c, cb_error *err)
{
	(void)err;
	(void)answer(context, c);
	return CB_OK;
}

/* With an answer for each conflict, as they come up. */
static cb_code commit_answered(cb_box *txn, answers *a, cb_error *out)
{
	cb_error err = {0};
	cb_resolution said[PATHS_MAX];
	cb_code code = cb_txn_commit(txn, NULL, NULL, &err);
	while (code == CB_CONFLICT && !a->contradictions) {
		size_t before = a->count;
		CHECK_OK(cb_txn_conflicts(txn, note_answer, a, &err));
		CHECK(a->count > before || a->contradictions);
		for (size_t i = before; i < a->count; i++) said[i] = (cb_resolution){a->paths[i], a->said[i]};
		cb_commit_options how = CB_WITH(cb_commit_options, .resolutions = said, .resolution_count = a->count);
		if (!a->contradictions) code = cb_txn_commit(txn, &how, NULL, &err);
	}
	*out = err;
	return code;
}

/* A box and a transaction of it, which side `txn` makes, before the commit. o NULL: nobody asks what they hold. */
static cb_store *open_commit(const scene *sc, int txn, cb_box *boxes[2], outcome *o)
{
	cb_error err = {0};
	cb_store *s = test_store_open(true);
	CHECK_OK(cb_box_create(s, "0", &boxes[1 - txn], &err));
	make_base(sc, boxes[1 - txn], false);
	if (o) o->base = model_read(boxes[1 - txn]);
	boxes[txn] = must_begin(boxes[1 - txn]);
	for (int i = 0; i < 2; i++) {
		change_side(sc, boxes[i], i, false);
		if (o) o->sides[i] = model_read(boxes[i]);
	}
	return s;
}

static void close_commit(cb_store *s, int txn, cb_box *const boxes[2])
{
	cb_box_close(boxes[txn]);
	cb_box_close(boxes[1 - txn]);
	cb_store_close(s);
}

/* The same with a transaction. */
static void settle_commit(const scene *sc, int txn, cb_prefer whole, uint64_t salt, outcome *o)
{
	cb_error err = {0};
	cb_box *boxes[2];
	*o = (outcome){.answers = {.salt = salt, .into = 1 - txn}};
	cb_store *s = open_commit(sc, txn, boxes, o);
	cb_commit_options how = CB_WITH(cb_commit_options, .prefer = whole);
	cb_code code = salt ? commit_answered(boxes[txn], &o->answers, &err) : cb_txn_commit(boxes[txn], NULL, NULL, &err);
	if (!salt && code == CB_CONFLICT) CHECK_OK(cb_txn_conflicts(boxes[txn], note_relied, &o->relied, &err));
	if (!salt && code == CB_CONFLICT) code = cb_txn_commit(boxes[txn], &how, NULL, &err);
	bool refused = code == CB_CONFLICT && o->answers.contradictions;
	CHECK_MSG(code == CB_OK || code == CB_NOTHING || refused, "%s: %s", cb_code_name(code), err.message);
	o->result = model_read(boxes[1 - txn]);
	if (refused) CHECK_MODEL(o->sides[1 - txn], o->result, "refused");
	test_store_sound(s);
	close_commit(s, txn, boxes);
}

/* Looks for one path among the conflicts. */
typedef struct lookout {
	const char *path;
	bool found;
} lookout;

static cb_code look_out(void *context, const cb_conflict *c, cb_error *err)
{
	(void)err;
	lookout *l = context;
	l->found = l->found || (!c->contradicts && strcmp(c->path, l->path) == 0);
	return CB_OK;
}

/* Did the commit ask for that answer in the end? Some paths are in conflict only until others are answered. Made again without it, the
 * path is open. */
static bool is_answer_used(const scene *sc, int txn, const answers *a, size_t index)
{
	cb_error err = {0};
	cb_box *boxes[2];
	cb_resolution said[PATHS_MAX];
	size_t count = 0;
	cb_store *s = open_commit(sc, txn, boxes, NULL);
	for (size_t i = 0; i < a->count; i++)
		if (i != index) said[count++] = (cb_resolution){a->paths[i], a->said[i]};
	lookout l = {a->paths[index], false};
	cb_commit_options how = CB_WITH(cb_commit_options, .resolutions = said, .resolution_count = count);
	cb_code code = cb_txn_commit(boxes[txn], &how, NULL, &err);
	if (code == CB_CONFLICT) CHECK_OK(cb_txn_conflicts(boxes[txn], look_out, &l, &err));
	else CHECK_MSG(code == CB_OK || code == CB_NOTHING, "%s: %s", cb_code_name(code), err.message);
	close_commit(s, txn, boxes);
	return l.found;
}

/* Only these are left. */
static void drop_unused_answers(const scene *sc, int txn, answers *a)
{
	bool used[PATHS_MAX];
	size_t count = 0;
	for (size_t i = 0; i < a->count; i++) used[i] = is_answer_used(sc, txn, a, i);
	for (size_t i = 0; i < a->count; i++) {
		if (!used[i]) continue;
		memmove(a->paths[count], a->paths[i], sizeof(a->paths[0]));
		a->reasons[count] = a->reasons[i];
		a->said[count++] = a->said[i];
	}
	a->count = count;
}

/* ---- what must hold ---- */

static bool has_text(const model_state *s, const char *text)
{
	for (size_t i = 0; i < s->count; i++)
		if (s->entries[i].type == CB_FILE && strcmp(s->entries[i].bytes, text) == 0) return true;
	return false;
}

static void tell(const scene *sc, const char *what, const outcome *o)
{
	outcome again;
	settle(sc, 0, CB_PREFER_OURS, 0, true, &again);
	outcome_done(&again);
	for (size_t i = 0; i < o->answers.count; i++)
		test_note("conflict %s: %s -> %s", o->answers.paths[i], o->answers.reasons[i],
		          o->answers.said[i] == CB_PREFER_OURS ? "ours" : "theirs");
	test_note("%s", what);
	const model_state *const all[] = {o->base, o->sides[0], o->sides[1], o->result};
	static const char *const names[] = {"base", "zero", "one", "result"};
	for (size_t k = 0; k < 4; k++)
		for (size_t i = 0; i < all[k]->count; i++) {
			const model_entry *e = &all[k]->entries[i];
			if (model_within(e->path, WORK))
				test_note("%s: %s%s %.*s", names[k], e->path, e->type == CB_DIR ? "/" : "",
				          (int)(e->type == CB_FILE ? e->size - 1 : 0), e->bytes);
		}
}

/* Was it in what the sides came from? */
static bool is_old_text(const outcome *o, const char *text)
{
	for (int i = 0; i < 2; i++)
		if (o->crossed[i] && has_text(o->crossed[i], text)) return true;
	return has_text(o->base, text);
}

/* What the winner wrote, and what both have. */
static bool texts_are_there(const outcome *o, int winner)
{
	const model_state *w = o->sides[winner], *l = o->sides[1 - winner];
	for (size_t i = 0; i < w->count; i++) {
		const model_entry *e = &w->entries[i];
		if (e->type != CB_FILE || (is_old_text(o, e->bytes) && !has_text(l, e->bytes))) continue;
		if (!has_text(o->result, e->bytes)) return false;
	}
	return true;
}

/* Do all three have the same folder above it? A path is no name for a place in a folder that somebody moved. */
static bool is_placed_alike(const outcome *o, const char *path)
{
	char above[128];
	(void)snprintf(above, sizeof(above), "%s", path);
	for (char *slash = strrchr(above, '/'); slash && slash != above; slash = strrchr(above, '/')) {
		*slash = 0;
		const model_entry *base = model_find(o->base, above), *a = model_find(o->sides[0], above),
				  *b = model_find(o->sides[1], above);
		if (!base || !a || !b || a->ino != base->ino || b->ino != base->ino) return false;
	}
	return true;
}

/* Type and presence, and the text if that side wrote it. */
static bool as_in(const outcome *o, int side, const char *path)
{
	const model_entry *want = model_find(o->sides[side], path), *is = model_find(o->result, path);
	if (!want || !is) return !want == !is;
	if (want->type != is->type) return false;
	return want->type != CB_FILE || is_old_text(o, want->bytes) || strcmp(want->bytes, is->bytes) == 0;
}

static bool paths_are_the_winners(const outcome *o, int into)
{
	for (size_t i = 0; i < o->answers.count; i++) {
		int winner = o->answers.said[i] == CB_PREFER_OURS ? into : 1 - into;
		const char *reason = o->answers.reasons[i];
		if (strcmp(reason, "changed on both sides") == 0) continue; /* of names nothing is in conflict */
		if (strstr(reason, "what both came from")) continue;        /* the path names a file in dispute, wherever it is */
		/* What a transaction made and took away again is no rival for the name. */
		if (strcmp(reason, "made on both sides") == 0 && !model_find(o->sides[1 - into], o->answers.paths[i])) continue;
		if (is_placed_alike(o, o->answers.paths[i]) && !as_in(o, winner, o->answers.paths[i])) return false;
	}
	return true;
}

/* The first path that is the same file. */
static size_t first_name(const model_state *s, size_t i)
{
	size_t first = 0;
	while (s->entries[first].type != s->entries[i].type || s->entries[first].ino != s->entries[i].ino) first++;
	return first;
}

/* Of two equal states: are the same names one file in both? */
static bool links_same(const model_state *a, const model_state *b)
{
	for (size_t i = 0; i < a->count; i++)
		if (first_name(a, i) != first_name(b, i)) return false;
	return true;
}

/* NULL: all holds. */
static const char *fault_of(const outcome *into_winner, const outcome *into_loser, const outcome *again, int winner)
{
	if (!texts_are_there(into_winner, winner)) return "a text of the winner is lost, merged into it";
	if (!texts_are_there(into_loser, winner)) return "a text of the winner is lost, merged into the loser";
	if (!model_same(into_loser->result, again->result)) return "it depends on inode numbers";
	if (!paths_are_the_winners(into_winner, winner)) return "a path in conflict is not the winner's, merged into it";
	if (!paths_are_the_winners(into_loser, 1 - winner)) return "a path in conflict is not the winner's, merged into the loser";
	bool alike = model_same(into_winner->result, into_loser->result);
	if (into_winner->relied || into_loser->relied) return NULL;
	if (!alike) return "it depends on which side is merged into the other";
	return links_same(into_winner->result, into_loser->result) ? NULL : "which names are one file depends on the direction";
}

typedef struct tally {
	uint64_t merges, conflicts, cycles, refused, compared;
} tally;

static void must_hold(const scene *sc, const char *fault, const char *how, const outcome *first, const outcome *second)
{
	if (!fault) return;
	tell(sc, how, first);
	tell(sc, "the other way round, or once more", second);
	CHECK_MSG(false, "%s: %s", how, fault);
}

static void check_merge(const scene *sc, int winner, tally *t)
{
	outcome into_winner, into_loser, again;
	settle(sc, winner, CB_PREFER_OURS, 0, false, &into_winner);
	settle(sc, 1 - winner, CB_PREFER_THEIRS, 0, false, &into_loser);
	settle(sc, 1 - winner, CB_PREFER_THEIRS, 0, false, &again);
	must_hold(sc, fault_of(&into_winner, &into_loser, &again, winner), "merged", &into_winner, &into_loser);
	t->merges += 3;
	t->conflicts += into_winner.answers.count;
	for (size_t i = 0; i < into_winner.answers.count; i++)
		t->cycles += strcmp(into_winner.answers.reasons[i], "moved into each other") == 0;
	outcome_done(&into_winner);
	outcome_done(&into_loser);
	outcome_done(&again);
}

static void check_commit(const scene *sc, int winner)
{
	outcome into_winner, into_loser, again;
	settle_commit(sc, 1 - winner, CB_PREFER_BOX, 0, &into_winner);
	settle_commit(sc, winner, CB_PREFER_TXN, 0, &into_loser);
	settle_commit(sc, winner, CB_PREFER_TXN, 0, &again);
	must_hold(sc, fault_of(&into_winner, &into_loser, &again, winner), "committed", &into_winner, &into_loser);
	outcome_done(&into_winner);
	outcome_done(&into_loser);
	outcome_done(&again);
}

/* ---- answers ---- */

static bool is_answered_against(const outcome *o, int into, int side, const char *path)
{
	for (size_t i = 0; i < o->answers.count; i++) {
		int winner = o->answers.said[i] == CB_PREFER_OURS ? into : 1 - into;
		const char *said = o->answers.paths[i];
		if (winner != side && (model_within(said, path) || model_within(path, said))) return true;
	}
	return false;
}

/* The same for a path of a side, under all that it and the folders above it are called anywhere. */
static bool is_name_answered_against(const outcome *o, int into, int side, const char *path)
{
	const model_state *const all[] = {o->sides[0], o->sides[1], o->base};
	for (const char *end = path + strlen(path); end > path; end--) {
		if (*end && *end != '/') continue;
		char above[128], other[256];
		(void)snprintf(above, sizeof(above), "%.*s", (int)(end - path), path);
		const model_entry *known[] = {model_find(o->sides[side], above), model_find(o->base, above)};
		for (size_t i = 0; i < 6; i++) {
			const model_entry *e = known[i % 2];
			for (size_t k = 0; e && k < all[i / 2]->count; k++) {
				if (all[i / 2]->entries[k].ino != e->ino) continue;
				(void)snprintf(other, sizeof(other), "%s%s", all[i / 2]->entries[k].path, end);
				if (is_answered_against(o, into, side, other)) return true;
			}
		}
	}
	return false;
}

static const model_entry *file_of(const model_state *s, uint64_t ino)
{
	for (size_t i = 0; i < s->count; i++)
		if (s->entries[i].type == CB_FILE && s->entries[i].ino == ino) return &s->entries[i];
	return NULL;
}

/* Has a side other files wherever the other side has this one? Then what it wrote to it is not meant for those names. */
static bool is_parted(const outcome *o, int side, uint64_t ino)
{
	const model_state *other = o->sides[1 - side];
	bool parted = true;
	for (size_t i = 0; parted && i < other->count; i++) {
		if (other->entries[i].ino != ino) continue;
		const model_entry *e = model_find(o->sides[side], other->entries[i].path);
		parted = e && e->type == CB_FILE && e->ino != ino;
	}
	return parted;
}

/* Must what a side has in a file be there, whatever was answered? */
static bool must_be_there(const outcome *o, int into, int side, const model_entry *e)
{
	const model_entry *old = file_of(o->base, e->ino), *other = file_of(o->sides[1 - side], e->ino);
	bool wrote = !old || strcmp(old->bytes, e->bytes) != 0;
	if (other && wrote && !is_parted(o, side, e->ino)) return old && strcmp(old->bytes, other->bytes) == 0;
	if (other && !wrote) return strcmp(e->bytes, other->bytes) == 0;
	if (!wrote) return false;
	const model_state *const all[] = {o->sides[side], o->base}; /* it may have moved, and where it was too */
	for (size_t k = 0; k < 2; k++) {
		for (size_t i = 0; i < all[k]->count; i++) {
			const model_entry *name = &all[k]->entries[i];
			if (name->ino == e->ino && is_name_answered_against(o, into, side, name->path)) return false;
		}
	}
	return true;
}

static bool nothing_is_lost(const outcome *o, int into)
{
	for (int side = 0; side < 2; side++) {
		for (size_t i = 0; i < o->sides[side]->count; i++) {
			const model_entry *e = &o->sides[side]->entries[i];
			if (e->type != CB_FILE || has_text(o->result, e->bytes)) continue;
			if (must_be_there(o, into, side, e)) {
				test_note("lost: %s of %s", e->path, side ? "one" : "zero");
				return false;
			}
		}
	}
	return true;
}

static bool is_asked(const outcome *o, const char *path)
{
	for (size_t i = 0; i < o->answers.count; i++)
		if (strcmp(o->answers.paths[i], path) == 0) return true;
	return false;
}

static bool asks_all_of(const outcome *o, const outcome *other)
{
	for (size_t i = 0; i < other->answers.count; i++)
		if (!is_asked(o, other->answers.paths[i])) return false;
	return true;
}

static bool has_number(const model_state *s, uint64_t ino)
{
	for (size_t i = 0; i < s->count; i++)
		if (s->entries[i].ino == ino) return true;
	return false;
}

/* Did a side move a folder to that path? Then what is asked about it, and about what is in it, is about another folder than the other side
 * has there. */
static bool is_moved_folder(const outcome *o, const char *path)
{
	for (int side = 0; side < 2; side++) {
		for (size_t i = 0; i < o->sides[side]->count; i++) {
			const model_entry *e = &o->sides[side]->entries[i], *old = model_find(o->base, e->path);
			bool moved = e->type == CB_DIR && !(old && old->ino == e->ino) && has_number(o->base, e->ino);
			if (moved && model_within(path, e->path)) return true;
		}
	}
	return false;
}

/* Does a side have elsewhere what the other or the base has under a path that was asked about? Then that is called by another path when it
 * is asked about the other way round. */
static bool asks_about_moved(const outcome *o)
{
	for (size_t i = 0; i < o->answers.count; i++) {
		if (is_moved_folder(o, o->answers.paths[i])) return true;
		for (int side = 0; side < 2; side++) {
			const model_state *other = o->sides[1 - side], *const known[] = {o->sides[side], o->base};
			const model_entry *there = model_find(other, o->answers.paths[i]);
			for (size_t k = 0; k < 2; k++) {
				const model_entry *e = model_find(known[k], o->answers.paths[i]);
				if (e && !(there && there->ino == e->ino) && has_number(other, e->ino)) return true;
			}
		}
	}
	return false;
}

/* Is a folder of that path something else on a side? */
static bool is_blocked(const model_state *s, const char *path)
{
	for (size_t i = 0; i < s->count; i++)
		if (s->entries[i].type != CB_DIR && model_within(path, s->entries[i].path)) return true;
	return false;
}

/* A file that was brought back comes with all its names, and the folders that these are in: nobody is asked about them, unless something
 * is in the way. */
static bool asks_twice(const outcome *o, int into)
{
	const model_state *from = o->sides[1 - into];
	for (size_t i = 0; i < o->answers.count; i++) {
		const model_entry *e = model_find(from, o->answers.paths[i]);
		if (!e || strncmp(o->answers.reasons[i], "put there into", 14) != 0 || is_blocked(o->sides[into], e->path))
			continue;
		for (size_t k = 0; k < o->answers.count; k++) {
			const model_entry *other = model_find(from, o->answers.paths[k]);
			bool brought =
				o->answers.said[k] == CB_PREFER_THEIRS && strstr(o->answers.reasons[k], " here, changed there");
			if (brought && other && other->ino == e->ino) return true;
		}
	}
	return false;
}

static const char *fault_of_answers(const outcome *o, int into)
{
	if (asks_twice(o, into)) return "who answered for a file is asked about a name of it";
	if (o->answers.contradictions) return NULL;
	if (!nothing_is_lost(o, into)) return "what no answer is against is lost";
	return paths_are_the_winners(o, into) ? NULL : "a path is not as it was answered, and nobody said so";
}

/* Each path for one side or the other, merged both ways. */
static void check_answers(const scene *sc, tally *t)
{
	outcome all[2], again;
	for (int into = 0; into < 2; into++) settle(sc, into, CB_PREFER_NONE, sc->base | 1, false, &all[into]);
	int into = (int)(sc->base >> 20 & 1);
	settle(sc, into, CB_PREFER_NONE, sc->base | 1, false, &again);
	if (!model_same(all[into].result, again.result))
		must_hold(sc, "it depends on inode numbers", "answered", &all[into], &again);
	must_hold(sc, fault_of_answers(&all[0], 0), "answered, merged into zero", &all[0], &all[1]);
	must_hold(sc, fault_of_answers(&all[1], 1), "answered, merged into one", &all[1], &all[0]);
	bool refused = all[0].answers.contradictions, moved = asks_about_moved(&all[0]) || asks_about_moved(&all[1]),
	     alike = !moved && asks_all_of(&all[0], &all[1]) && asks_all_of(&all[1], &all[0]);
	const char *fault = NULL;
	if (alike && refused != (all[1].answers.contradictions > 0)) fault = "answers contradict each other one way only";
	else if (alike && !refused && !model_same(all[0].result, all[1].result)) fault = "answers have two outcomes";
	must_hold(sc, fault, "answered", &all[0], &all[1]);
	t->merges += 2;
	t->conflicts += all[0].answers.count;
	t->refused += refused;
	t->compared += alike && all[0].answers.count;
	outcome_done(&all[0]);
	outcome_done(&all[1]);
	outcome_done(&again);
}

/* The same in a commit, of which either side is the transaction. */
static void check_commit_answers(const scene *sc, int txn, tally *t)
{
	outcome o;
	settle_commit(sc, txn, CB_PREFER_NONE, sc->base | 1, &o);
	bool refused = o.answers.contradictions;
	t->merges++;
	t->conflicts += o.answers.count;
	t->refused += refused;
	const char *fault = refused || nothing_is_lost(&o, 1 - txn) ? NULL : "what no answer is against is lost";
	if (!refused) drop_unused_answers(sc, txn, &o.answers);
	if (!refused && !fault && !paths_are_the_winners(&o, 1 - txn))
		fault = "a path is not as it was answered, and nobody said so";
	must_hold(sc, fault, "answered in a commit", &o, &o);
	outcome_done(&o);
}

static scene random_scene(test_rng *r)
{
	scene sc = {.base = test_rand(r), .sides = {test_rand(r), test_rand(r)}, .ops = 1 + (unsigned)test_rand_below(r, SIDE_OPS)};
	sc.folders = test_rand_below(r, 2) == 0;
	if (test_rand_below(r, 4) == 0) sc.ops = LONG_OPS; /* a move, a new file in its place, a further name for that, and more */
	return sc;
}

TEST_LIMIT(a_preferred_side_is_kept_whole_in_merges, 300)
{
	test_rng r = {test_seed()};
	tally t = {0};
	for (unsigned i = 0; i < test_dose(120); i++) {
		scene sc = random_scene(&r);
		if (i % 3 == 0) sc.crossed = test_rand(&r) | 1;
		check_merge(&sc, 0, &t);
		check_merge(&sc, 1, &t);
	}
	test_note("%" PRIu64 " merges, %" PRIu64 " conflicts, %" PRIu64 " of folders moved into each other", t.merges, t.conflicts,
	          t.cycles);
}

TEST_LIMIT(a_preferred_side_is_kept_whole_in_commits, 300)
{
	test_rng r = {test_seed()};
	for (unsigned i = 0; i < test_dose(120); i++) {
		scene sc = random_scene(&r);
		check_commit(&sc, 0);
		check_commit(&sc, 1);
	}
}

TEST_LIMIT(answers_for_each_path_are_kept, 300)
{
	test_rng r = {test_seed()};
	tally t = {0};
	for (unsigned i = 0; i < test_dose(120); i++) {
		scene sc = random_scene(&r);
		check_answers(&sc, &t);
		check_commit_answers(&sc, (int)(i % 2), &t);
	}
	test_note("%" PRIu64 " merges, %" PRIu64 " conflicts, %" PRIu64 " refused, %" PRIu64 " compared", t.merges, t.conflicts,
	          t.refused, t.compared);
}
