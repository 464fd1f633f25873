/*
 * test_box_model.c: random use of several boxes of one store against a model that keeps a full copy of every state.
 *
 * The model knows paths, bytes, modes and links by number, and per box the state after each step. So any "box@seq" can be opened and
 * compared at any time: after more steps, undo and redo, restores, forks, prune, gc, vacuum, and after the store was closed and opened.
 * What the model does not predict (merges, the undo of middle steps: test_box_merge) is not done here, but for transactions that meet
 * another writer's step, whose two outcomes are checked.
 */
#include "harness/model_diff.h"
#include "harness/model_ops.h"

enum { BOXES = 6, STEPS_MAX = 3000, TEXT_FILES = 3, CHECKPOINTS = 8, LINES_MAX = 20000 };

typedef struct step {
	model_state *state;
	bool pruned;
	bool changed; /* false: a record only */
	bool is_undo, is_redo;
	bool is_return; /* undo, redo, restore; a commit that decided for its own side */
	uint64_t target;
} step;

/* The step that first had a line. Names are never used again, so that a box is known by its name after it was deleted. */
typedef struct writer {
	char box[32];
	uint64_t seq;
	bool unsure; /* its step may be gone, for the box was pruned or deleted since; or a commit brought the line back */
} writer;

typedef struct model_box {
	bool used;
	char name[32];
	cb_box *b;
	step *steps;
	uint64_t head;
	char checkpoint_names[CHECKPOINTS][16];
	uint64_t checkpoint_seqs[CHECKPOINTS];
	size_t checkpoint_count;
	uint64_t quota_bytes, quota_files;
	bool was_pruned;       /* or a box it was forked from: then blame may end early */
	model_state *versions; /* per place the last version seen */
} model_box;

typedef struct world {
	test_rng rng;
	bool memory;
	cb_store *s;
	model_box boxes[BOXES];
	unsigned names;
	uint64_t inos;
	unsigned stamp;            /* the number of the last line; no two lines are alike */
	writer writers[LINES_MAX]; /* by the line's number */
	model_trace trace;
} world;

static uint64_t below(world *w, uint64_t n)
{
	return test_rand_below(&w->rng, n);
}

static bool chance(world *w, unsigned percent)
{
	return below(w, 100) < percent;
}

static model_state *head_of(const model_box *m)
{
	return m->steps[m->head].state;
}

/* ---- paths ---- */

static const char *const text_paths[TEXT_FILES] = {"/work/text0", "/work/text1", "/work/text2"};

static void random_path(world *w, char out[64])
{
	static const char *const names[] = {"a", "b", "c", "d"};
	(void)strcpy(out, "/work");
	for (uint64_t depth = 1 + below(w, 3); depth > 0; depth--) {
		(void)strcat(out, "/");
		(void)strcat(out, names[below(w, 4)]);
	}
}

/* ---- one random change of a box, inside or outside a transaction ---- */

static size_t random_text(world *w, char *out, size_t room)
{
	size_t n = chance(w, 80) ? (size_t)snprintf(out, room, "text %u", ++w->stamp) : 113 + below(w, room - 200);
	if (n > 100) memset(out, 'a' + (int)below(w, 26), n);
	return n;
}

/* A text in which lines are put in, taken out and replaced, never reordered; every line is unique, so who wrote it is beyond doubt. */
static size_t edit_text(world *w, const model_state *s, const char *path, char *out, size_t room)
{
	const model_entry *e = model_find(s, path);
	const char *at = e && e->type == CB_FILE ? e->bytes : "";
	size_t n = 0, lines = 0;
	out[0] = 0;
	CHECK(w->stamp + room / 4 < LINES_MAX);
	if (!*at) n += (size_t)snprintf(out, room, "first %u\n", ++w->stamp);
	while (*at && n < room - 100) {
		size_t size = strcspn(at, "\n") + 1;
		uint64_t kind = below(w, 10);
		if (kind == 0) n += (size_t)snprintf(out + n, room - n, "line %u\n", ++w->stamp);
		if (kind != 1 || lines == 0) {
			memcpy(out + n, at, size);
			n += size;
		}
		if (kind == 2) n += (size_t)snprintf(out + n, room - n, "more %u\n", ++w->stamp);
		lines++;
		at += size;
	}
	out[n] = 0;
	return n;
}

typedef struct change {
	model_state *next; /* the model after it, NULL: it fails */
	cb_code code;      /* what the box said */
	char message[CB_ERROR_MESSAGE_MAX];
} change;

static void change_done(change *c, bool ok, cb_code code, const cb_error *err)
{
	if (!ok) {
		model_free(c->next);
		c->next = NULL;
	}
	c->code = code;
	(void)snprintf(c->message, sizeof(c->message), "%s", err->message);
}

/* Does it to the box, and to a copy of `now`. */
static void one_change(world *w, cb_box *b, const model_state *now, change *out)
{
	cb_error err = {0};
	char path[64], other[64], text[20000];
	random_path(w, path);
	random_path(w, other);
	model_state *s = out->next = model_copy(now);
	uint64_t kind = below(w, 40);
	model_note(&w->trace, "  change %" PRIu64 " %s %s", kind, path, other);
	if (kind < 8) {
		size_t n = random_text(w, text, sizeof(text));
		bool append = kind < 2;
		change_done(out, model_write(s, path, text, n, append, &w->inos),
		            cb_write_file(b, path, text, n, &CB_WITH(cb_write_options, .append = append), &err), &err);
	} else if (kind < 14) {
		const char *text_path = text_paths[below(w, TEXT_FILES)];
		size_t n = edit_text(w, s, text_path, text, sizeof(text));
		change_done(out, model_write(s, text_path, text, n, false, &w->inos),
		            cb_write_file(b, text_path, text, n, NULL, &err), &err);
	} else if (kind < 18) {
		change_done(out, model_make(s, path, CB_DIR, "", &w->inos), cb_mkdir(b, path, 0755, 0, &err), &err);
	} else if (kind < 23) {
		change_done(out, model_rename(s, path, other), cb_rename(b, path, other, 0, &err), &err);
	} else if (kind < 26) {
		change_done(out, model_remove_all(s, path), cb_remove(b, path, &err), &err);
	} else if (kind < 28) {
		change_done(out, model_link(s, path, other), cb_link(b, path, other, &err), &err);
	} else if (kind < 29) {
		/* into nowhere, so that no path leads through it */
		change_done(out, model_make(s, path, CB_SYMLINK, "/nowhere/x", &w->inos), cb_symlink(b, "/nowhere/x", path, &err),
		            &err);
	} else if (kind < 31) {
		uint32_t mode = chance(w, 50) ? 0600 : 0750;
		change_done(out, model_chmod(s, path, mode), cb_chmod(b, path, mode, CB_NOFOLLOW, &err), &err);
	} else if (kind < 32) {
		change_done(out, model_remove_all(s, text_paths[0]), cb_remove(b, text_paths[0], &err), &err);
	} else {
		char key[32], name[64];
		(void)snprintf(key, sizeof(key), "k%" PRIu64, below(w, 5));
		(void)snprintf(name, sizeof(name), "key %s", key);
		size_t n = random_text(w, text, sizeof(text));
		bool there = model_find(s, name) != NULL;
		if (kind < 38) {
			(void)model_put(s, name, 0, 0, 0, text, n);
			change_done(out, true, cb_kv_set(b, key, text, n, &err), &err);
		} else {
			if (there) model_remove(s, name);
			change_done(out, there, cb_kv_delete(b, key, &err), &err);
		}
	}
}

/* A write through a dangling link would make its target's folder visible; the model has no such folder, so both fail. */
static void check_change(world *w, const model_box *m, const change *c, const model_state *now)
{
	uint64_t files, bytes, files_before, bytes_before;
	if (c->next && (m->quota_bytes || m->quota_files)) {
		model_count(c->next, &files, &bytes);
		model_count(now, &files_before, &bytes_before);
		bool over = (m->quota_bytes && bytes > m->quota_bytes && bytes > bytes_before) ||
		            (m->quota_files && files > m->quota_files && files > files_before);
		if (over) {
			if (c->code != CB_QUOTA) model_tell(&w->trace);
			CHECK_MSG(c->code == CB_QUOTA, "%s over quota: %s (%s)", m->name, cb_code_name(c->code), c->message);
			return;
		}
		if (c->code == CB_QUOTA) return; /* on the way: replaced before removed */
	}
	if ((c->code == CB_OK) == (c->next != NULL)) return;
	model_tell(&w->trace);
	test_fail(__FILE__, __LINE__, "%s: the box says %s (%s), the model %s", m->name, cb_code_name(c->code), c->message,
	          c->next ? "yes" : "no");
}

/* ---- steps of the model ---- */

/* The number of a line as edit_text makes them ("more 17"); 0 for the bytes of other files. */
static unsigned line_number(const char *line)
{
	const char *digits = strchr(line, ' ');
	unsigned long n = digits ? strtoul(digits + 1, NULL, 10) : 0;
	return n < LINES_MAX ? (unsigned)n : 0;
}

static const char *text_in(const model_state *s, const char *path)
{
	const model_entry *e = model_find(s, path);
	return e && e->type == CB_FILE ? e->bytes : "";
}

/* Lines that no step had before were written by this one. What undo, redo and restore bring back had its writer all the time. */
static void remember_writers(world *w, const model_box *m, const model_state *state)
{
	for (size_t i = 0; i < TEXT_FILES; i++)
		for (const char *line = text_in(state, text_paths[i]); *line; line += strcspn(line, "\n") + 1) {
			writer *by = &w->writers[line_number(line)];
			if (by->box[0]) continue;
			(void)snprintf(by->box, sizeof(by->box), "%s", m->name);
			by->seq = m->head;
		}
}

/* Steps of the box may be gone from now on. */
static void forget_writers(world *w, const model_box *m)
{
	for (size_t i = 0; i < LINES_MAX; i++)
		if (strcmp(w->writers[i].box, m->name) == 0) w->writers[i].unsure = true;
}

/* What others took away meanwhile, and a commit that decided for its own side brings back, is the commit's. */
static void doubt_writers(world *w, const model_box *m, const model_state *committed)
{
	for (size_t i = 0; i < TEXT_FILES; i++) {
		const char *line = text_in(committed, text_paths[i]);
		for (size_t size; *line; line += size) {
			char text[64];
			size = strcspn(line, "\n") + 1;
			(void)snprintf(text, sizeof(text), "%.*s", (int)size, line);
			writer *by = &w->writers[line_number(line)];
			if (by->box[0] && !strstr(text_in(head_of(m), text_paths[i]), text)) by->unsure = true;
		}
	}
}

/* Adopts `state` as the box's next step. */
static step *add_step(world *w, model_box *m, model_state *state, bool changed)
{
	CHECK(m->head + 1 < STEPS_MAX);
	step *s = &m->steps[++m->head];
	*s = (step){.state = state, .changed = changed};
	remember_writers(w, m, state);
	return s;
}

static void check_head(world *w, model_box *m)
{
	uint64_t seq = must_seq(m->b);
	if (seq != m->head) model_tell(&w->trace);
	CHECK_U64(seq, m->head);
}

/* Versions of a file never fall, and in a place an equal version means equal content. A place is a folder and a name: a folder that is
 * renamed brings other files to a path, and all that one step changed have one version. */
static void check_versions(world *w, model_box *m, const model_state *actual)
{
	for (size_t i = 0; i < actual->count; i++) {
		const model_entry *e = &actual->entries[i];
		if (e->type != CB_FILE) continue;
		char folder[64], place[96];
		const char *name = strrchr(e->path, '/');
		(void)snprintf(folder, sizeof(folder), "%.*s", (int)(name - e->path), e->path);
		(void)snprintf(place, sizeof(place), "%" PRIu64 "%s", model_find(actual, folder)->ino, name);
		model_entry *last = model_find(m->versions, place);
		bool changed =
			!last || last->size != e->size || memcmp(last->bytes, e->bytes, e->size) != 0 || last->mode != e->mode;
		uint64_t highest = last ? last->version : 0;
		bool fell = last && last->ino == e->ino && e->version < highest;
		if (fell || (last && changed && e->version == highest)) {
			model_tell(&w->trace);
			test_fail(__FILE__, __LINE__, "%s:%s %s with version %" PRIu64 " after %" PRIu64, m->name, e->path,
			          changed ? "changed" : "is", e->version, highest);
		}
		last = model_put(m->versions, place, CB_FILE, e->mode, 0, e->bytes, e->size);
		last->version = e->version;
		last->ino = e->ino;
	}
}

static void check_box(world *w, model_box *m)
{
	cb_error err = {0};
	check_head(w, m);
	model_state *actual = model_read(m->b);
	if (!model_same(head_of(m), actual)) model_tell(&w->trace);
	CHECK_MODEL(head_of(m), actual, m->name);
	check_versions(w, m, actual);
	model_free(actual);
	uint64_t files, bytes;
	cb_box_info info = CB_INIT(cb_box_info);
	model_count(head_of(m), &files, &bytes);
	CHECK_OK(cb_box_info_get(m->b, &info, &err));
	if (info.files != files || info.bytes != bytes) model_tell(&w->trace);
	CHECK_U64(info.files, files);
	CHECK_U64(info.bytes, bytes);
}

/* ---- what is done ---- */

static model_box *any_box(world *w)
{
	for (;;) {
		model_box *m = &w->boxes[below(w, BOXES)];
		if (m->used) return m;
	}
}

static void do_change(world *w)
{
	model_box *m = any_box(w);
	change c;
	model_note(&w->trace, "%s step %" PRIu64, m->name, m->head + 1);
	one_change(w, m->b, head_of(m), &c);
	check_change(w, m, &c, head_of(m));
	if (c.code == CB_OK && must_seq(m->b) > m->head) { /* renaming onto itself is no step */
		(void)add_step(w, m, c.next, true);
		c.next = NULL;
	}
	model_free(c.next);
	check_head(w, m);
}

static void do_record(world *w)
{
	cb_error err = {0};
	model_box *m = any_box(w);
	uint64_t seq = 0;
	CHECK_OK(cb_step_record(m->b, &CB_WITH(cb_step_info, .kind = "tool"), &seq, &err));
	(void)add_step(w, m, model_copy(head_of(m)), false);
	CHECK_U64(seq, m->head);
}

static cb_code count_conflict(void *context, const cb_conflict *conflict, cb_error *err)
{
	(void)err;
	CHECK(conflict->path[0] && conflict->reason[0]);
	++*(uint64_t *)context;
	return CB_OK;
}

/* A transaction that lost is still there, as it was; then it is kept as a fork, or goes in where its own side wins. */
static void end_lost(world *w, model_box *m, cb_box *t, const model_state *mine, const cb_commit_result *r)
{
	cb_error err = {0};
	uint64_t conflicts = 0;
	CHECK_OK(cb_txn_conflicts(t, count_conflict, &conflicts, &err));
	CHECK(r->conflicts > 0 && conflicts == r->conflicts);
	model_state *actual = model_read(t);
	CHECK_MODEL(mine, actual, "a transaction that lost");
	model_free(actual);
	if (chance(w, 50)) {
		cb_commit_result again = CB_INIT(cb_commit_result);
		cb_code code = cb_txn_commit(t, &CB_WITH(cb_commit_options, .prefer = CB_PREFER_TXN), &again, &err);
		model_note(&w->trace, "  commit with resolutions: %s", cb_code_name(code));
		CHECK_MSG(code == CB_OK || code == CB_QUOTA, "commit: %s (%s)", cb_code_name(code), err.message);
		if (code != CB_OK || !again.seq) return;
		model_state *committed = model_read(m->b);
		doubt_writers(w, m, committed);
		add_step(w, m, committed, true)->is_return = true;
		return;
	}
	cb_commit_result kept = CB_INIT(cb_commit_result);
	CHECK_OK(cb_txn_keep(t, NULL, &kept, &err));
	cb_box *fork = must_open(w->s, kept.fork);
	cb_box_info info = CB_INIT(cb_box_info);
	CHECK_OK(cb_box_info_get(fork, &info, &err));
	CHECK(info.lost);
	actual = model_read(fork);
	CHECK_MODEL(mine, actual, "a transaction kept as a fork");
	model_free(actual);
	cb_box_close(fork);
	CHECK_OK(cb_box_delete(w->s, kept.fork, &err));
}

/* While the transaction is open another handle may change the box: then it is merged, or loses. */
static void end_beside_other(world *w, model_box *m, cb_box *t, model_state *mine, cb_box *other)
{
	cb_error err = {0};
	cb_commit_result r = CB_INIT(cb_commit_result);
	change c;
	one_change(w, other, head_of(m), &c);
	check_change(w, m, &c, head_of(m));
	if (c.code == CB_OK && must_seq(other) > m->head) {
		(void)add_step(w, m, c.next, true);
		c.next = NULL;
	}
	model_free(c.next);
	cb_code code = cb_txn_commit(t, NULL, &r, &err);
	model_note(&w->trace, "  commit beside another: %s", cb_code_name(code));
	if (code == CB_OK && r.seq) {
		(void)add_step(w, m, model_read(m->b), true);
	} else if (code == CB_CONFLICT) {
		end_lost(w, m, t, mine, &r);
	} else {
		CHECK_MSG(code == CB_OK || code == CB_QUOTA, "commit: %s (%s)", cb_code_name(code), err.message);
	}
	model_free(mine);
}

static void end_transaction(world *w, model_box *m, cb_box *t, model_state *mine)
{
	cb_error err = {0};
	cb_commit_result r = CB_INIT(cb_commit_result);
	if (chance(w, 25)) {
		model_note(&w->trace, "  dropped");
		model_free(mine);
		return;
	}
	CHECK_OK(cb_txn_commit(t, NULL, &r, &err));
	model_note(&w->trace, "  commit: %" PRIu64, r.seq);
	if (r.seq) (void)add_step(w, m, mine, true);
	else CHECK_MODEL(head_of(m), mine, "a transaction that changed nothing");
	if (!r.seq) model_free(mine);
}

static void do_transaction(world *w)
{
	model_box *m = any_box(w);
	model_note(&w->trace, "%s transaction", m->name);
	cb_box *t = must_begin(m->b);
	model_state *now = model_copy(head_of(m));
	for (uint64_t i = 1 + below(w, 6); i > 0; i--) {
		change c;
		one_change(w, t, now, &c);
		check_change(w, m, &c, now);
		if (c.code == CB_OK) {
			model_free(now);
			now = c.next;
		} else {
			model_free(c.next);
		}
	}
	model_state *actual = model_read(t);
	CHECK_MODEL(now, actual, "inside a transaction");
	model_free(actual);
	if (chance(w, 25)) {
		cb_box *other = must_open(w->s, m->name);
		end_beside_other(w, m, t, now, other);
		cb_box_close(other);
	} else {
		end_transaction(w, m, t, now);
	}
	cb_box_close(t);
	check_head(w, m);
}

/* The last change that stands, as undo means it: changes cancel what they target. 0: none. *passed_pruned: the box may not see it, since
 * there were others above that were pruned. */
static uint64_t choose(const model_box *m, bool redo, bool *passed_pruned)
{
	bool *cancelled = model_alloc((size_t)m->head + 1);
	memset(cancelled, 0, (size_t)m->head + 1);
	uint64_t found = 0;
	*passed_pruned = false;
	for (uint64_t seq = m->head; seq > 0 && !found; seq--) {
		const step *s = &m->steps[seq];
		*passed_pruned = *passed_pruned || s->pruned;
		if (!s->changed || cancelled[seq]) continue;
		if (s->is_redo || (s->is_undo && !redo)) {
			cancelled[s->target] = true;
			continue;
		}
		if (redo && !s->is_undo) break;
		found = seq;
	}
	free(cancelled);
	return m->steps[found].pruned ? 0 : found;
}

/* Undo in order only: then the state before the step is the result, by path. */
static void do_undo(world *w)
{
	cb_error err = {0};
	model_box *m = any_box(w);
	bool redo = chance(w, 40), passed_pruned;
	uint64_t target = choose(m, redo, &passed_pruned), made = 0;
	model_note(&w->trace, "%s %s %" PRIu64, m->name, redo ? "redo" : "undo", target);
	cb_code code = redo ? cb_redo(m->b, &made, &err) : cb_undo(m->b, 0, &made, &err);
	if (code == CB_NOTHING && passed_pruned) return;
	if (!target) {
		if (code != CB_NOTHING) model_tell(&w->trace);
		CHECK_MSG(code == CB_NOTHING, "%s (%s)", cb_code_name(code), err.message);
		return;
	}
	if (code == CB_QUOTA && (m->quota_bytes || m->quota_files)) return;
	if (code != CB_OK) model_tell(&w->trace);
	CHECK_MSG(code == CB_OK, "%s: %s (%s)", redo ? "redo" : "undo", cb_code_name(code), err.message);
	model_state *before = m->steps[target - 1].state;
	step *s = add_step(w, m, model_copy(before), true);
	s->is_undo = !redo;
	s->is_redo = redo;
	s->is_return = true;
	s->target = target;
	CHECK_U64(made, m->head);
	check_box(w, m);
}

static void open_state(world *w, const model_box *m, uint64_t seq, cb_box **out, cb_code *code)
{
	cb_error err = {0};
	char address[64];
	if (chance(w, 20) && seq < m->head) (void)snprintf(address, sizeof(address), "%s@-%" PRIu64, m->name, m->head - seq);
	else (void)snprintf(address, sizeof(address), "%s@%" PRIu64, m->name, seq);
	*code = cb_box_open(w->s, address, out, &err);
	CHECK_MSG(*code == CB_OK || *code == CB_STALE, "%s: %s (%s)", address, cb_code_name(*code), err.message);
}

static void do_restore(world *w)
{
	cb_error err = {0};
	model_box *m = any_box(w);
	uint64_t seq = below(w, m->head + 1), made = 0;
	if (m->steps[seq].pruned || m->quota_bytes || m->quota_files) return;
	cb_box *source = NULL;
	cb_code code;
	open_state(w, m, seq, &source, &code);
	CHECK_CODE(code, CB_OK);
	const model_state *from = m->steps[seq].state;
	char path[64];
	random_path(w, path);
	/* Names of one file inside and outside of what is restored have no by-path meaning. */
	bool whole = chance(w, 50) || model_has_links(from) || model_has_links(head_of(m)) || !model_reachable(head_of(m), path) ||
	             !model_reachable(from, path);
	if (!whole && !model_find(from, path) && !model_find(head_of(m), path)) whole = true;
	model_note(&w->trace, "%s restore %s of %" PRIu64, m->name, whole ? "/" : path, seq);
	code = cb_restore(m->b, source, whole ? NULL : path, &made, &err);
	CHECK_MSG(code == CB_OK || code == CB_NOTHING, "restore: %s (%s)", cb_code_name(code), err.message);
	model_state *next = whole ? model_copy(from) : model_restore(head_of(m), from, path, &w->inos);
	cb_box_close(source);
	if (must_seq(m->b) > m->head) {
		add_step(w, m, next, true)->is_return = true;
	} else {
		if (!model_same(head_of(m), next)) model_tell(&w->trace);
		CHECK_MODEL(head_of(m), next, "a restore that was no step");
		model_free(next);
	}
	check_box(w, m);
}

static void do_fork(world *w)
{
	model_box *from = any_box(w), *to = &w->boxes[below(w, BOXES)];
	uint64_t seq = chance(w, 50) ? from->head : below(w, from->head + 1);
	if (to->used || from->steps[seq].pruned) return;
	char address[64];
	(void)snprintf(address, sizeof(address), "%s@%" PRIu64, from->name, seq);
	*to = (model_box){.used = true, .was_pruned = from->was_pruned};
	(void)snprintf(to->name, sizeof(to->name), "f%u", ++w->names);
	model_note(&w->trace, "fork %s as %s", address, to->name);
	to->b = must_fork(w->s, address, to->name);
	to->steps = model_alloc(sizeof(step) * STEPS_MAX);
	to->steps[0] = (step){.state = model_copy(from->steps[seq].state)};
	to->versions = model_alloc(sizeof(model_state));
	*to->versions = (model_state){0};
	check_box(w, to);
}

static void box_forget(model_box *m)
{
	cb_box_close(m->b);
	for (uint64_t i = 0; i <= m->head; i++) model_free(m->steps[i].state);
	free(m->steps);
	model_free(m->versions);
	m->used = false;
}

static void do_delete(world *w)
{
	cb_error err = {0};
	unsigned used = 0;
	for (size_t i = 0; i < BOXES; i++) used += w->boxes[i].used;
	model_box *m = any_box(w);
	if (used < 3) return;
	model_note(&w->trace, "delete %s", m->name);
	CHECK_OK(cb_box_delete(w->s, m->name, &err));
	forget_writers(w, m);
	box_forget(m);
}

static void do_checkpoint(world *w)
{
	cb_error err = {0};
	model_box *m = any_box(w);
	if (m->checkpoint_count == CHECKPOINTS || chance(w, 20)) {
		if (!m->checkpoint_count) return;
		size_t i = --m->checkpoint_count;
		CHECK_OK(cb_checkpoint_delete(m->b, m->checkpoint_names[i], &err));
		return;
	}
	uint64_t seq = chance(w, 50) ? m->head : below(w, m->head + 1);
	if (m->steps[seq].pruned || seq == 0) return;
	size_t i = m->checkpoint_count++;
	(void)snprintf(m->checkpoint_names[i], sizeof(m->checkpoint_names[i]), "c%u", ++w->names);
	m->checkpoint_seqs[i] = seq;
	model_note(&w->trace, "%s checkpoint %s at %" PRIu64, m->name, m->checkpoint_names[i], seq);
	CHECK_OK(cb_checkpoint_save(m->b, m->checkpoint_names[i], seq, true, &err));
}

static bool is_checkpoint(const model_box *m, uint64_t seq)
{
	for (size_t i = 0; i < m->checkpoint_count; i++)
		if (m->checkpoint_seqs[i] == seq) return true;
	return false;
}

/* Which steps really went is asked of the box; none may that had to stay, and each that is left opens as it was. */
static void do_prune(world *w)
{
	cb_error err = {0};
	model_box *m = any_box(w);
	uint64_t keep = 1 + below(w, 30), pruned = 0, went = 0;
	model_note(&w->trace, "%s prune to %" PRIu64, m->name, keep);
	CHECK_OK(cb_prune(m->b, &CB_WITH(cb_prune_options, .keep_steps = keep), &pruned, &err));
	for (uint64_t seq = 0; seq <= m->head; seq++) {
		if (m->steps[seq].pruned) continue;
		cb_box *b = NULL;
		cb_code code;
		open_state(w, m, seq, &b, &code);
		if (code == CB_OK) {
			cb_box_close(b);
			continue;
		}
		CHECK(seq > 0 && seq + keep <= m->head && !is_checkpoint(m, seq));
		m->steps[seq].pruned = true;
		went++;
	}
	if (went) {
		m->was_pruned = true;
		forget_writers(w, m);
	}
	CHECK_U64(pruned, went);
}

static void do_quota(world *w)
{
	cb_error err = {0};
	model_box *m = any_box(w);
	uint64_t files, bytes;
	model_count(head_of(m), &files, &bytes);
	m->quota_bytes = chance(w, 50) ? 0 : bytes + below(w, 3000);
	m->quota_files = chance(w, 50) ? 0 : files + below(w, 5);
	model_note(&w->trace, "%s quota %" PRIu64 " %" PRIu64, m->name, m->quota_bytes, m->quota_files);
	CHECK_OK(cb_box_quota_set(m->b, m->quota_bytes, m->quota_files, 0, &err));
}

/* ---- looking back ---- */

static void do_look(world *w)
{
	model_box *m = any_box(w);
	uint64_t seq = below(w, m->head + 1);
	if (m->steps[seq].pruned) return;
	cb_box *b = NULL;
	cb_code code;
	open_state(w, m, seq, &b, &code);
	CHECK_CODE(code, CB_OK);
	model_state *actual = model_read(b);
	if (!model_same(m->steps[seq].state, actual)) {
		model_tell(&w->trace);
		test_note("%s@%" PRIu64, m->name, seq);
	}
	CHECK_MODEL(m->steps[seq].state, actual, "an old state");
	model_free(actual);
	cb_box_close(b);
}

static cb_code count_step(void *context, const cb_step *s, cb_error *err)
{
	(void)err;
	uint64_t *at = context; /* count, last seq */
	CHECK(at[0] == 0 || s->seq < at[1]);
	at[0]++;
	at[1] = s->seq;
	return CB_OK;
}

static void do_log(world *w)
{
	cb_error err = {0};
	model_box *m = any_box(w);
	uint64_t seen[2] = {0}, expected = 0;
	bool pruned = false;
	CHECK_OK(cb_log(m->b, NULL, count_step, seen, &pruned, &err));
	for (uint64_t i = 1; i <= m->head; i++) expected += !m->steps[i].pruned;
	uint64_t count = seen[0] && seen[1] == 0 ? seen[0] - 1 : seen[0]; /* step 0 is where the box begins */
	CHECK_U64(count, expected);
}

/* ---- differences ---- */

static void do_diff(world *w)
{
	cb_error err = {0};
	model_box *m = any_box(w), *n = any_box(w);
	uint64_t i = below(w, m->head + 1), k = below(w, n->head + 1);
	if (m->steps[i].pruned || n->steps[k].pruned) return;
	cb_box *a = NULL, *b = NULL;
	cb_code code;
	open_state(w, m, i, &a, &code);
	open_state(w, n, k, &b, &code);
	static model_diff t;
	t.count = 0;
	model_note(&w->trace, "diff %s@%" PRIu64 " %s@%" PRIu64, m->name, i, n->name, k);
	CHECK_OK(cb_diff(a, b, NULL, model_diff_hear, &t, &err));
	model_diff_check(&w->trace, m->steps[i].state, n->steps[k].state, &t);
	cb_box_close(a);
	cb_box_close(b);
}

/* ---- blame ---- */

typedef struct blame_check {
	world *w;
	model_box *m;
	const char *path;
	const char *left; /* of the text that is expected */
	uint64_t at;
} blame_check;

/* Who wrote a line never changes, however often it is taken away and brought back. Where history is gone, or a commit decided, a line may
 * have no writer, or the step that brought it back. */
static bool is_writer(const blame_check *c, const cb_blame_line *line)
{
	const writer *by = &c->w->writers[line_number(c->left)];
	if (strcmp(line->box, by->box) == 0 && line->seq == by->seq) return true;
	if (!c->m->was_pruned && !by->unsure) return false;
	if (line->seq == 0) return true;
	for (size_t i = 0; i < BOXES; i++) {
		const model_box *m = &c->w->boxes[i];
		if (!m->used || strcmp(m->name, line->box) != 0) continue;
		return line->seq <= m->head && (m->steps[line->seq].is_return || m->steps[line->seq].pruned);
	}
	return true; /* of a box that is gone too */
}

static cb_code check_line(void *context, const cb_blame_line *line, cb_error *err)
{
	(void)err;
	blame_check *c = context;
	size_t size = strcspn(c->left, "\n") + 1;
	if (line->line != ++c->at || line->size != size || memcmp(line->text, c->left, size) != 0 || !is_writer(c, line)) {
		const writer *by = &c->w->writers[line_number(c->left)];
		model_tell(&c->w->trace);
		test_fail(__FILE__, __LINE__,
		          "blame %s:%s line %" PRIu64 " '%.*s': '%.*s' of %s@%" PRIu64 " instead of %s@%" PRIu64 "%s%s", c->m->name,
		          c->path, c->at, (int)size - 1, c->left, (int)line->size, line->text, line->box, line->seq, by->box,
		          by->seq, by->unsure ? " (unsure)" : "", c->m->was_pruned ? " (pruned)" : "");
	}
	c->left += size;
	return CB_OK;
}

static void do_blame(world *w)
{
	cb_error err = {0};
	blame_check c = {w, any_box(w), text_paths[below(w, TEXT_FILES)], NULL, 0};
	if (model_type(head_of(c.m), c.path) != CB_FILE) return;
	c.left = text_in(head_of(c.m), c.path);
	CHECK_OK(cb_blame(c.m->b, c.path, check_line, &c, &err));
	if (*c.left) model_tell(&w->trace);
	CHECK_MSG(!*c.left, "blame %s:%s ends after line %" PRIu64, c.m->name, c.path, c.at);
}

/* ---- the store ---- */

static void reopen(world *w)
{
	if (w->memory) return;
	model_note(&w->trace, "reopen");
	for (size_t i = 0; i < BOXES; i++)
		if (w->boxes[i].used) cb_box_close(w->boxes[i].b);
	cb_store_close(w->s);
	w->s = test_store_reopen();
	for (size_t i = 0; i < BOXES; i++)
		if (w->boxes[i].used) w->boxes[i].b = must_open(w->s, w->boxes[i].name);
}

static void do_store(world *w)
{
	cb_error err = {0};
	uint64_t kind = below(w, 10);
	model_note(&w->trace, "store %" PRIu64, kind);
	if (kind < 4) CHECK_OK(cb_store_gc(w->s, NULL, &err));
	else if (kind < 5) CHECK_OK(cb_store_vacuum(w->s, &err));
	else if (kind < 7) reopen(w);
	else test_store_sound(w->s);
	for (size_t i = 0; i < BOXES; i++)
		if (w->boxes[i].used) check_box(w, &w->boxes[i]);
}

/* ---- the whole ---- */

static const struct {
	unsigned weight;
	void (*run)(world *w);
} deeds[] = {
	{60, do_change}, {8, do_transaction}, {3, do_record},     {12, do_undo}, {5, do_restore},
	{4, do_fork},    {2, do_delete},      {3, do_checkpoint}, {2, do_prune}, {2, do_quota},
	{6, do_look},    {2, do_log},         {5, do_diff},       {4, do_blame}, {2, do_store},
};

static void one_deed(world *w)
{
	unsigned total = 0;
	for (size_t i = 0; i < sizeof(deeds) / sizeof(deeds[0]); i++) total += deeds[i].weight;
	uint64_t at = below(w, total);
	size_t i = 0;
	for (; at >= deeds[i].weight; i++) at -= deeds[i].weight;
	deeds[i].run(w);
}

/* Every step of every box, at the end. */
static void look_at_all(world *w)
{
	test_store_sound(w->s);
	for (size_t i = 0; i < BOXES; i++) {
		model_box *m = &w->boxes[i];
		for (uint64_t seq = 0; m->used && seq <= m->head; seq++) {
			cb_box *b = NULL;
			cb_code code;
			open_state(w, m, seq, &b, &code);
			CHECK((code == CB_STALE) == m->steps[seq].pruned);
			if (code != CB_OK) continue;
			model_state *actual = model_read(b);
			if (!model_same(m->steps[seq].state, actual)) test_note("%s@%" PRIu64, m->name, seq);
			CHECK_MODEL(m->steps[seq].state, actual, "an old state at the end");
			model_free(actual);
			cb_box_close(b);
		}
	}
}

static void run_world(bool memory, uint64_t seed, unsigned length)
{
	cb_error err = {0};
	static world w;
	w = (world){.rng = {seed}, .memory = memory};
	(void)test_rand(&w.rng);
	if (memory) CHECK_OK(cb_store_open(":memory:", NULL, &w.s, &err));
	else w.s = test_store_open(false);
	model_box *first = &w.boxes[0];
	*first = (model_box){.used = true, .steps = model_alloc(sizeof(step) * STEPS_MAX)};
	(void)snprintf(first->name, sizeof(first->name), "b%" PRIx64, seed);
	CHECK_OK(cb_box_create(w.s, first->name, &first->b, &err));
	first->steps[0] = (step){.state = model_read(first->b)};
	w.inos = 1000000; /* the box's own numbers are only compared among themselves */
	first->versions = model_alloc(sizeof(model_state));
	*first->versions = (model_state){0};
	for (unsigned i = 0; i < length; i++) one_deed(&w);
	look_at_all(&w);
	for (size_t i = 0; i < BOXES; i++) {
		char name[32];
		(void)snprintf(name, sizeof(name), "%s", w.boxes[i].name);
		if (!w.boxes[i].used) continue;
		box_forget(&w.boxes[i]);
		CHECK_OK(cb_box_delete(w.s, name, &err)); /* so that the next world finds the store empty */
	}
	CHECK_OK(cb_store_gc(w.s, NULL, &err));
	test_store_sound(w.s);
	cb_store_close(w.s);
}

TEST_BOTH(boxes_against_their_model)
{
	uint64_t seed = test_seed();
	for (unsigned i = 0; i < test_dose(12); i++) {
		if (getenv("COWBOX_TRACE")) test_note("world %u", i);
		run_world(memory, seed + i * 104729, i % 6 == 5 ? 1500 : 300);
	}
}
