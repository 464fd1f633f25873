/*
 * test_undo_model.c: random histories of files and folders that come and go, with attributes, and of key-values, in which any step is
 * undone, undone again, redone, and any state restored, whole or at a path. There are few names and values, so that the same is made
 * again and again. Whatever becomes of it the store is sound, what failed changed nothing, versions only grow (no version is of two
 * things), every undo and redo changes something that can be seen (no merge is made, so that none moves only the past), and of a step
 * that was undone nothing is left to take back, whoever makes the same again. What becomes of a step that set a key is known: undone,
 * nothing left, or a conflict. Where no step was undone by number, plain undos always fit, down to the empty box. (A step in the middle
 * may be undone when its bytes fit by chance, since later steps had put them there again: then these steps may not fit any more.) Each
 * in a row takes a step below the last one's, through whatever handle, and redos bring back the same states in turn. Differences from
 * one state to another tell what differs, attributes too.
 */
#include "harness/model_diff.h"

enum { OPS = 50, STEPS_MAX = 24 * OPS };

/* What is known of a step. */
typedef struct fact {
	uint64_t target, source; /* of undo and redo; of a restore */
	bool restores, whole;
	char key[8]; /* it set or removed this one, and did nothing else */
} fact;

typedef struct world {
	test_rng rng;
	cb_store *s;
	cb_box *b;
	bool in_order; /* nothing is undone by number */
	bool no_paths; /* nothing but whole states is restored */
	fact facts[STEPS_MAX];
	uint64_t known; /* steps */
	model_trace trace;
	model_state *states[OPS + 1]; /* one after the other */
	uint64_t seqs[OPS + 1];
} world;

static uint64_t below(world *w, uint64_t n)
{
	return test_rand_below(&w->rng, n);
}

static const char *any_path(world *w)
{
	static const char *const paths[] = {"/work/a", "/work/b", "/work/a/a", "/work/a/b", "/work/b/a", "/work/a/a/a", "/work"};
	return paths[below(w, 7)];
}

static void attribute(world *w, cb_box *b, const char *path)
{
	char name[8], value[8];
	(void)snprintf(name, sizeof(name), "user.%c", (char)('a' + below(w, 2)));
	(void)snprintf(value, sizeof(value), "%u", (unsigned)below(w, 3));
	switch (below(w, 6)) {
	case 0:
		(void)cb_xattr_set(b, path, name, value, strlen(value), 0, NULL);
		break;
	case 1:
		(void)cb_xattr_remove(b, path, name, 0, NULL);
		break;
	case 2:
		(void)cb_tag_add(b, path, name, NULL);
		break;
	case 3:
		(void)cb_tag_remove(b, path, name, NULL);
		break;
	case 4:
		(void)cb_meta_set(b, path, name, value, strlen(value), NULL);
		break;
	default:
		(void)cb_meta_set(b, path, name, NULL, 0, NULL);
	}
}

static void set_key(world *w, cb_box *b)
{
	const char *key = below(w, 2) ? "x" : "y";
	uint64_t value = below(w, 3);
	model_note(&w->trace, "%s = %" PRIu64, key, value);
	if (value == 0) (void)cb_kv_delete(b, key, NULL);
	else (void)cb_kv_set(b, key, value == 1 ? "1" : "2", 1, NULL);
}

/* Some of six lines: where two steps changed different ones they merge. */
static void write_lines(world *w, cb_box *b, const char *path)
{
	char text[16];
	size_t size = 0;
	for (uint64_t i = 0, some = below(w, 64); i < 6; i++) {
		if (!(some >> i & 1)) continue;
		text[size++] = (char)('a' + i);
		text[size++] = '\n';
	}
	(void)cb_write_file(b, path, text, size, NULL, NULL);
}

/* Calls may fail: the states are read afterwards, not predicted. */
static void change(world *w, cb_box *b)
{
	const char *path = any_path(w), *other = any_path(w);
	uint64_t kind = below(w, 26);
	if (kind >= 20) {
		set_key(w, b);
		return;
	}
	model_note(&w->trace, "change %" PRIu64 " %s %s", kind, path, other);
	if (kind < 6) attribute(w, b, path);
	else if (kind < 9) (void)cb_mkdir(b, path, 0755, 0, NULL);
	else if (kind < 10)
		(void)(below(w, 2) ? cb_link(b, path, other, NULL)
		                   : cb_write_file(b, path, path, below(w, strlen(path)), NULL, NULL));
	else if (kind < 12) (void)cb_remove(b, path, NULL);
	else if (kind < 14) (void)cb_rename(b, path, other, below(w, 3) ? 0 : CB_EXCHANGE, NULL);
	else if (kind < 15) (void)cb_chmod(b, path, (uint32_t)(0700 + below(w, 2)), 0, NULL);
	else if (kind < 17) write_lines(w, b, path);
	else if (kind < 19) {
		(void)cb_copy(b, path, other, 0, NULL);
		if (below(w, 2)) (void)cb_copy(b, other, path, 0, NULL); /* what is there already */
	} else (void)cb_utimens(b, path, CB_TIME_OMIT, (int64_t)below(w, 3), 0, NULL);
}

/* Another file or folder in its place, which is just so, but for what is below it, or for its access time. */
static void renew(world *w, cb_box *t)
{
	const char *path = any_path(w);
	bool accessed = below(w, 4) == 0;
	model_note(&w->trace, "renew %s%s", path, accessed ? " accessed" : "");
	if (cb_copy(t, path, "/work/new", 0, NULL) != CB_OK && cb_mkdir(t, "/work/new", 0755, 0, NULL) != CB_OK) return;
	if (accessed) (void)cb_utimens(t, "/work/new", (int64_t)below(w, 3), CB_TIME_OMIT, 0, NULL);
	(void)cb_remove(t, path, NULL);
	if (cb_rename(t, "/work/new", path, 0, NULL) != CB_OK) (void)cb_remove(t, "/work/new", NULL);
}

static void several(world *w)
{
	cb_error err = {0};
	cb_box *t = NULL;
	CHECK_OK(cb_txn_begin(w->b, NULL, &t, &err));
	if (below(w, 3)) {
		for (uint64_t i = 2 + below(w, 3); i; i--) change(w, t);
	} else {
		renew(w, t);
	}
	CHECK_OK(cb_txn_commit(t, NULL, NULL, &err));
	cb_box_close(t);
}

/* What a restore leaves: the path and all below it from the source, folders above it too where there are none, all else as it was. */
static model_state *restored(const model_state *was, const model_state *source, const char *path)
{
	model_state *out = model_copy(path ? was : source);
	for (size_t i = 0; path && i < was->count; i++)
		if (model_within(was->entries[i].path, path)) model_remove(out, was->entries[i].path);
	bool there = path && model_find(source, path);
	for (size_t i = 0; there && i < source->count; i++) {
		const model_entry *e = &source->entries[i];
		if (!model_within(e->path, path) && !(model_within(path, e->path) && !model_find(out, e->path))) continue;
		model_entry *made = model_put(out, e->path, e->type, e->mode, 0, e->bytes, e->size);
		free(made->attrs);
		made->attrs = model_strdup(e->attrs);
	}
	return out;
}

static cb_code restore(world *w, cb_error *err)
{
	char address[32];
	(void)snprintf(address, sizeof(address), "b@%" PRIu64, below(w, must_seq(w->b) + 1));
	const char *path = below(w, 3) && !w->no_paths ? any_path(w) : NULL;
	model_note(&w->trace, "restore %s %s", address, path ? path : "");
	cb_box *then = must_open(w->s, address);
	model_state *was = model_read(w->b), *source = model_read(then);
	cb_code code = cb_restore(w->b, then, path, NULL, err);
	if (code == CB_OK) {
		model_state *expected = restored(was, source, path), *is = model_read(w->b);
		if (!model_same(expected, is)) model_tell(&w->trace);
		CHECK_MODEL(expected, is, "restored");
		model_free(expected);
		model_free(is);
	}
	model_free(was);
	model_free(source);
	cb_box_close(then);
	return code == CB_NOTFOUND || code == CB_NOTDIR ? CB_NOTHING : code; /* no such path now */
}

/* ---- what an undo changes ---- */

/* What can be seen of a path; versions, change times and numbers of inodes cannot. */
typedef struct sight {
	char path[64], twin[64]; /* twin: the first name of the same file */
	uint64_t ino;
	unsigned links;
	bool follows; /* a folder's mtime is that of its last change of entries */
	int64_t mtime_ns, atime_ns;
} sight;

enum { SIGHTS_MAX = 64 };

typedef struct picture {
	model_state *state;
	sight all[SIGHTS_MAX];
	size_t count;
} picture;

static cb_code add_sight(void *context, const char *path, const cb_stat_info *info, cb_error *err)
{
	(void)err;
	picture *p = context;
	bool is_dir = info->type == CB_DIR;
	CHECK(p->count < SIGHTS_MAX);
	sight *s = &p->all[p->count++];
	*s = (sight){.ino = info->ino, .links = is_dir ? 0 : info->links, .mtime_ns = info->mtime_ns, .atime_ns = info->atime_ns};
	s->follows = is_dir && info->mtime_ns == info->ctime_ns;
	(void)snprintf(s->path, sizeof(s->path), "%s", path);
	for (const sight *twin = p->all; !*s->twin; twin++)
		if (twin->ino == s->ino) memcpy(s->twin, twin->path, sizeof(s->twin));
	return CB_OK;
}

static picture picture_take(cb_box *b)
{
	cb_error err = {0};
	picture p = {.state = model_read(b)};
	CHECK_OK(cb_walk(b, "/", add_sight, &p, &err));
	return p;
}

static bool sight_same(const sight *a, const sight *b)
{
	bool times = (a->follows && b->follows) || a->mtime_ns == b->mtime_ns;
	return times && a->atime_ns == b->atime_ns && a->links == b->links && strcmp(a->path, b->path) == 0 &&
	       strcmp(a->twin, b->twin) == 0;
}

static bool picture_same(const picture *a, const picture *b)
{
	bool same = a->count == b->count && model_same(a->state, b->state);
	for (size_t i = 0; same && i < a->count; i++) same = sight_same(&a->all[i], &b->all[i]);
	return same;
}

static void picture_free(picture *p)
{
	model_free(p->state);
}

/* ---- what is undone ---- */

static cb_code take_fact(void *context, const cb_step *step, cb_error *err)
{
	(void)err;
	fact *f = context;
	*f = (fact){.target = step->target, .source = step->other_seq, .restores = strcmp(step->kind, "restore") == 0};
	f->whole = step->params_size == 0;
	if (strncmp(step->kind, "kv", 2) == 0) (void)snprintf(f->key, sizeof(f->key), "%s", step->params);
	return CB_OK;
}

static void learn(world *w)
{
	cb_error err = {0};
	for (uint64_t head = must_seq(w->b); w->known < head;) {
		CHECK(++w->known < STEPS_MAX);
		CHECK_OK(cb_step_get(w->b, w->known, take_fact, &w->facts[w->known], &err));
	}
}

typedef enum verdict { STANDS, UNDONE, UNSURE } verdict;

/*
 * The definition: from the newest step down, an undo that stands takes its target back, and a whole restore that stands continues with the
 * state it came from, if that has the step. The step is undone when one that was not made to undo it, or what it undid, took back it, or
 * that. A path may have brought it back, but never a key.
 */
static verdict is_undone(const world *w, uint64_t seq, const char **out_key)
{
	bool away[STEPS_MAX] = {false}, mine[STEPS_MAX] = {false};
	uint64_t last = seq;
	for (uint64_t at = seq; at; at = w->facts[at].target) mine[last = at] = true;
	*out_key = w->facts[last].key;
	for (uint64_t at = w->known; at > last; at--) {
		const fact *f = &w->facts[at];
		uint64_t newest = at;
		if (away[at]) continue;
		if (f->target) away[f->target] = true;
		if (mine[f->target] && !mine[at]) return UNDONE;
		while (!mine[newest]) newest--;
		if (!f->restores || f->source < newest) continue;
		if (f->whole) at = f->source + 1;
		else if (!**out_key) return UNSURE;
	}
	return STANDS;
}

static void value_at(const world *w, uint64_t seq, const char *key, char out[2])
{
	cb_error err = {0};
	char address[32], *value = NULL;
	(void)snprintf(address, sizeof(address), "b@%" PRIu64, seq);
	cb_box *then = must_open(w->s, address);
	cb_code code = cb_kv_get(then, key, &value, NULL, &err);
	CHECK(code == CB_OK || code == CB_NOTFOUND);
	(void)snprintf(out, 2, "%s", code == CB_OK ? value : "");
	cb_free(value);
	cb_box_close(then);
}

static void check_verdict(world *w, uint64_t seq, cb_code code)
{
	const char *key = NULL;
	char was[2], made[2], now[2];
	verdict v = is_undone(w, seq, &key);
	bool wrong = v == UNDONE && code != CB_NOTHING;
	if (v == STANDS && (strcmp(key, "x") == 0 || strcmp(key, "y") == 0)) {
		value_at(w, seq - 1, key, was);
		value_at(w, seq, key, made);
		value_at(w, w->known, key, now);
		cb_code expected = strcmp(now, was) == 0 || strcmp(was, made) == 0 ? CB_NOTHING : CB_CONFLICT;
		if (expected == CB_CONFLICT && strcmp(now, made) == 0) expected = CB_OK;
		wrong = code != expected;
	}
	if (!wrong) return;
	model_tell(&w->trace);
	test_fail(__FILE__, __LINE__, "step %" PRIu64 " is %s, and undo says %s", seq, v == UNDONE ? "undone" : "not undone",
	          cb_code_name(code));
}

static cb_code undo_named(world *w, uint64_t seq, cb_error *err)
{
	char value[32];
	(void)snprintf(value, sizeof(value), "%" PRIu64, must_seq(w->b));
	picture before = picture_take(w->b);
	learn(w);
	cb_code code = cb_undo(w->b, seq, NULL, err);
	check_verdict(w, seq, code);
	picture after = picture_take(w->b);
	bool same = picture_same(&before, &after);
	picture_free(&before);
	picture_free(&after);
	if (code != CB_OK) return code;
	if (same) {
		model_tell(&w->trace);
		test_fail(__FILE__, __LINE__, "undone, and nothing changed");
	}
	code = cb_undo(w->b, seq, NULL, err);
	if (code == CB_NOTHING) { /* nor after another step */
		CHECK(cb_kv_set(w->b, "k", value, CB_STRING, err) == CB_OK);
		code = cb_undo(w->b, seq, NULL, err);
		if (code == CB_NOTHING) return CB_OK;
	}
	model_tell(&w->trace);
	test_fail(__FILE__, __LINE__, "undone again: %s (%s)", cb_code_name(code), err->message);
}

/* The last change, or the last undo. */
static cb_code take_last(world *w, bool redo, cb_error *err)
{
	picture before = picture_take(w->b);
	cb_code code = redo ? cb_redo(w->b, NULL, err) : cb_undo(w->b, 0, NULL, err);
	picture after = picture_take(w->b);
	bool same = picture_same(&before, &after);
	picture_free(&before);
	picture_free(&after);
	if (same != (code == CB_OK)) return code;
	model_tell(&w->trace);
	test_fail(__FILE__, __LINE__, "%s says %s, and %s changed", redo ? "redo" : "undo", cb_code_name(code),
	          same ? "nothing" : "something");
}

static cb_code take_back(world *w, cb_error *err)
{
	uint64_t kind = below(w, 6), head = must_seq(w->b), seq = kind < 3 && head && !w->in_order ? 1 + below(w, head) : 0;
	if (kind == 5) return restore(w, err);
	model_note(&w->trace, kind == 4 ? "redo" : "undo %" PRIu64, seq);
	return seq ? undo_named(w, seq, err) : take_last(w, kind == 4, err);
}

/* The steps that undid them, and the states before. */
typedef struct undos {
	uint64_t seqs[STEPS_MAX];
	model_state *before[STEPS_MAX + 1];
	uint64_t count;
} undos;

/* Down as far as it goes, or some steps. */
static cb_code down(world *w, uint64_t most, undos *out)
{
	cb_error err = {0};
	cb_code code = CB_OK;
	uint64_t last = UINT64_MAX;
	out->count = 0;
	out->before[0] = model_read(w->b);
	while (out->count < most) {
		code = take_last(w, false, &err);
		if (code != CB_OK) return code;
		learn(w);
		uint64_t target = w->facts[w->known].target;
		if (target >= last) model_tell(&w->trace);
		CHECK_MSG(target < last, "step %" PRIu64 " is undone after step %" PRIu64, target, last);
		last = target;
		out->seqs[out->count++] = w->known;
		out->before[out->count] = model_read(w->b);
		if (below(w, 2)) continue; /* one handle remembers, another does not */
		cb_box_close(w->b);
		w->b = must_open(w->s, "b");
	}
	return code;
}

/* And up again. Of an undo that gave a folder its times back nothing may be left, as its entries were changed since: it is passed. */
static void up(world *w, const undos *u)
{
	cb_error err = {0};
	for (uint64_t left = u->count; left; left--) {
		cb_code code = take_last(w, true, &err);
		learn(w);
		uint64_t target = code == CB_OK ? w->facts[w->known].target : 0;
		for (; left && u->seqs[left - 1] != target; left--) {
			if (!model_same(u->before[left], u->before[left - 1])) model_tell(&w->trace);
			CHECK_MODEL(u->before[left], u->before[left - 1], "passed by redo");
		}
		if (!left) return; /* it took an earlier undo, or there is none */
		model_state *now = model_read(w->b);
		if (!model_same(u->before[left - 1], now)) model_tell(&w->trace);
		CHECK_MODEL(u->before[left - 1], now, "redone");
		model_free(now);
	}
}

static void down_and_up(world *w, uint64_t most)
{
	static undos u;
	model_note(&w->trace, "down %" PRIu64, most);
	cb_code code = down(w, most, &u);
	if (w->in_order && code == CB_CONFLICT) model_tell(&w->trace);
	CHECK(code == CB_OK || code == CB_NOTHING || (code == CB_CONFLICT && !w->in_order));
	if (w->in_order && code == CB_NOTHING) CHECK_MODEL(w->states[0], u.before[u.count], "all undone");
	model_note(&w->trace, "and up");
	up(w, &u);
	for (uint64_t i = 0; i <= u.count; i++) model_free(u.before[i]);
}

static void check_versions(const world *w, const model_state *was, const model_state *is)
{
	for (size_t i = 0; i < was->count; i++) {
		for (size_t k = 0; k < is->count; k++) {
			const model_entry *a = &was->entries[i], *b = &is->entries[k];
			if (!a->ino || a->ino != b->ino || b->version > a->version)
				continue; /* a key-value, another file, a change */
			if (b->version == a->version && model_entry_same(a, b)) continue;
			model_tell(&w->trace);
			test_fail(__FILE__, __LINE__, "%s: version %" PRIu64 " after %" PRIu64, b->path, b->version, a->version);
		}
	}
}

/* From any earlier state to the newest, and back. */
static void check_difference(world *w, int newest)
{
	static model_diff there, back;
	cb_error err = {0};
	char address[32];
	uint64_t i = below(w, (uint64_t)newest + 1);
	(void)snprintf(address, sizeof(address), "b@%" PRIu64, w->seqs[i]);
	cb_box *then = must_open(w->s, address);
	there.count = back.count = 0;
	model_note(&w->trace, "diff %s", address);
	CHECK_OK(cb_diff(then, w->b, NULL, model_diff_hear, &there, &err));
	CHECK_OK(cb_diff(w->b, then, NULL, model_diff_hear, &back, &err));
	model_diff_check(&w->trace, w->states[i], w->states[newest], &there);
	model_diff_check(&w->trace, w->states[newest], w->states[i], &back);
	cb_box_close(then);
}

static void one_history(world *w)
{
	cb_error err = {0};
	CHECK_OK(cb_store_open(":memory:", NULL, &w->s, &err));
	CHECK_OK(cb_box_create(w->s, "b", &w->b, &err));
	w->states[0] = model_read(w->b);
	for (int i = 0; i < OPS; i++) {
		cb_error why = {0};
		cb_code code = CB_OK;
		uint64_t kind = below(w, 8);
		model_state *before =
			model_read(w->b); /* not states[i]: undone and redone since, it may also have redone an earlier undo */
		if (kind < 4) change(w, w->b);
		else if (kind < 5) several(w);
		else code = take_back(w, &why);
		CHECK_MSG(code == CB_OK || code == CB_CONFLICT || code == CB_NOTHING, "%s (%s)", cb_code_name(code), why.message);
		w->states[i + 1] = model_read(w->b);
		w->seqs[i + 1] = must_seq(w->b);
		if (code != CB_OK) CHECK_MODEL(before, w->states[i + 1], "a call that failed");
		model_free(before);
		for (int k = 0; k <= i; k++) check_versions(w, w->states[k], w->states[i + 1]);
		check_difference(w, i + 1);
		if (kind >= 5) test_store_sound(w->s);
		if (below(w, w->in_order ? 16 : 8) == 0) down_and_up(w, w->in_order ? STEPS_MAX : 1 + below(w, 4));
	}
	down_and_up(w, STEPS_MAX);
	for (int i = 0; i <= OPS; i++) model_free(w->states[i]);
	cb_box_close(w->b);
	cb_store_close(w->s);
}

TEST_LIMIT(histories_taken_back_at_random, 120)
{
	static world w;
	uint64_t seed = test_seed();
	for (unsigned i = 0; i < test_dose(200); i++) {
		w = (world){.rng = {seed + i * 7919}, .in_order = i % 4 == 0, .no_paths = i % 4 == 1};
		if (getenv("COWBOX_TRACE")) test_note("round %u", i);
		(void)test_rand(&w.rng);
		one_history(&w);
	}
}
