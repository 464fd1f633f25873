/*
 * test_merge_oracle.c: random merges of files with several names, and of files that were replaced, against an oracle.
 *
 * The oracle knows names, inode numbers and bytes of the three states, and says for every name what a merge without conflicts must have
 * made of it: a name that one side left alone becomes what the other made of it; its bytes are those of the file it leads to, merged by
 * lines where both sides changed them; a name that both changed to different things, or that one side took away and the other put
 * something new under, must have been a conflict; and no line that a side wrote is lost. Folders stay where they are here
 * (test_box_merge.c moves them), or are removed and made again there, so that a name means the same in all states.
 *
 * Git is the second referee: the same three states as commits, merged by `git merge-tree` (the ort strategy; texts are such
 * that it has no renames to guess). Results and the paths in conflict must be the same. A third test builds the same
 * graph of merges in both, crosswise ones too: there cowbox may see a conflict more (a file in which the common pasts conflict has no
 * base), never one less.
 *
 * Last, a store is its own referee: in two stores the same is done, boxes are merged, undone, restored, also from one another, forked and
 * deleted, but only one is pruned and collected. That must not change a merge: what is cleared away was needed by none. (But for what
 * several common pasts came from in turn, which prune does not keep: with several, a merge must not be refused, but may come out
 * otherwise.) And no more is kept than that: once all boxes but one are deleted and its steps are pruned, nothing of the others is left in
 * either.
 */
#include <stdarg.h>
#include <unistd.h>

#include "base/buf.h"
#include "box/past.h"
#include "box/past_meet.h"
#include "box/text.h"
#include "harness/model_state.h"

typedef struct world {
	test_rng rng;
	cb_store *s;
	unsigned stamp;
	model_trace trace;
	uint64_t clean, conflicts; /* merges */
} world;

static uint64_t below(world *w, uint64_t n)
{
	return test_rand_below(&w->rng, n);
}

static void random_name(world *w, char out[32])
{
	static const char *const names[] = {"/w/a", "/w/b", "/w/c", "/w/d/a", "/w/d/b", "/w/e/a"};
	(void)strcpy(out, names[below(w, 6)]);
}

enum { LINES = 8 };

/* Every line names the path: git must not take one file for another that was renamed. */
static void new_text(world *w, const char *path, char *out, size_t size)
{
	unsigned kind = below(w, 3) ? 0 : ++w->stamp; /* often the same text twice */
	out[0] = 0;
	for (int i = 0; i < LINES; i++)
		(void)snprintf(out + strlen(out), size - strlen(out), "%s: line %d of text %u, to leave the record\n", path, i,
		               kind);
}

static void edited_text(world *w, const char *old, char *out, size_t size)
{
	uint64_t which = below(w, LINES);
	out[0] = 0;
	for (uint64_t i = 0; i < LINES && *old; i++) {
		size_t n = strcspn(old, "\n"), used = strlen(out);
		if (i == which) (void)snprintf(out + used, size - used, "line %d edited %u\n", (int)i, ++w->stamp);
		else (void)snprintf(out + used, size - used, "%.*s\n", (int)n, old);
		old += n + (old[n] == '\n');
	}
}

static bool read_text(cb_box *b, const char *path, char *out, size_t size)
{
	char *bytes = NULL;
	if (cb_read_file(b, path, &bytes, NULL, NULL) != CB_OK) return false;
	(void)snprintf(out, size, "%s", bytes);
	cb_free(bytes);
	return true;
}

/* As an editor saves: a new file beside, then over the old name. */
static void save_by_rename(cb_box *b, const char *path, const char *text)
{
	if (cb_write_file(b, "/w/tmp", text, strlen(text), NULL, NULL) != CB_OK) return;
	if (cb_rename(b, "/w/tmp", path, 0, NULL) != CB_OK) (void)cb_unlink(b, "/w/tmp", NULL);
}

/* rm -r, and the folder made again with its files: as they were, but for one that is edited or gone sometimes. */
static void remake_folder(world *w, cb_box *b, const char *folder)
{
	static const char *const leaves[] = {"a", "b"};
	char path[32], texts[2][1024], edited[1024];
	bool there[2];
	uint64_t different = below(w, 4), gone = below(w, 6);
	cb_error err = {0};
	for (unsigned i = 0; i < 2; i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", folder, leaves[i]);
		there[i] = read_text(b, path, texts[i], sizeof(texts[i]));
	}
	cb_box *t = must_begin(b);
	CHECK_OK(cb_remove(t, folder, &err));
	CHECK_OK(cb_mkdir(t, folder, 0755, 0, &err));
	for (unsigned i = 0; i < 2; i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", folder, leaves[i]);
		if (there[i] && different == i) edited_text(w, texts[i], edited, sizeof(edited));
		if (there[i] && gone != i) must_write(t, path, different == i ? edited : texts[i]);
	}
	(void)must_commit(t);
}

static void change(world *w, cb_box *b, const char *who, bool links)
{
	char path[32], other[32], old[1024], text[1024];
	random_name(w, path);
	random_name(w, other);
	bool there = read_text(b, path, old, sizeof(old));
	uint64_t kind = below(w, links ? 16 : 11);
	if (below(w, 12) == 0) kind = 16;
	model_note(&w->trace, "%s: %" PRIu64 " %s %s", who, kind, path, other);
	if (there) edited_text(w, old, text, sizeof(text));
	else new_text(w, path, text, sizeof(text));
	if (kind < 5) {
		(void)cb_write_file(b, path, text, strlen(text), NULL, NULL);
	} else if (kind < 7) {
		save_by_rename(b, path, text);
	} else if (kind < 8) {
		(void)cb_unlink(b, path, NULL);
		(void)cb_write_file(b, path, text, strlen(text), NULL, NULL);
	} else if (kind < 11) {
		(void)cb_unlink(b, path, NULL);
	} else if (kind == 16) {
		remake_folder(w, b, below(w, 2) ? "/w/d" : "/w/e");
	} else {
		if (kind == 15) (void)cb_unlink(b, other, NULL);
		(void)cb_link(b, path, other, NULL);
	}
}

static void changes(world *w, cb_box *b, const char *who, bool links, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) change(w, b, who, links);
}

/* ---- the oracle ---- */

static bool same_bytes(const model_entry *a, const model_entry *b)
{
	if (!a || !b) return a == b;
	return a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0;
}

static const model_entry *by_ino(const model_state *s, uint64_t ino)
{
	for (size_t i = 0; i < s->count; i++)
		if (s->entries[i].type == CB_FILE && s->entries[i].ino == ino) return &s->entries[i];
	return NULL;
}

static const model_entry *file_at(const model_state *s, const char *path)
{
	const model_entry *e = model_find(s, path);
	return e && e->type == CB_FILE ? e : NULL;
}

/* Is r what leads from b to both o and t? */
static bool is_text_of_both(const model_entry *b, const model_entry *o, const model_entry *t, const model_entry *r)
{
	if (same_bytes(o, b)) return same_bytes(r, t);
	if (same_bytes(t, b) || same_bytes(o, t)) return same_bytes(r, o);
	cb_error err = {0};
	buf out = BUF_INIT(1 << 20);
	size_t conflicts = 0;
	CHECK_OK(text_merge3((span){(const uint8_t *)b->bytes, b->size}, (span){(const uint8_t *)o->bytes, o->size},
	                     (span){(const uint8_t *)t->bytes, t->size}, "o", "t", &out, &conflicts, &err));
	bool same = !conflicts && out.size == r->size && memcmp(out.bytes, r->bytes, r->size) == 0;
	buf_done(&out);
	return same;
}

typedef struct four {
	const model_state *base, *ours, *theirs, *result;
} four;

/* A new file with several names took the place of an old one under one of them, and got the other side's changes there, or what the
 * other side did to the old one under another of its names. */
static bool merged_under_another_name(const four *f, const model_entry *made, const model_entry *r)
{
	const model_state *sides[] = {f->ours, f->theirs};
	for (size_t i = 0; i < 2; i++) {
		for (size_t k = 0; k < sides[i]->count; k++) {
			if (sides[i]->entries[k].type != CB_FILE || sides[i]->entries[k].ino != made->ino) continue;
			const char *path = sides[i]->entries[k].path;
			const model_entry *b = file_at(f->base, path), *o = file_at(f->ours, path), *t = file_at(f->theirs, path);
			if (b && !o) o = by_ino(f->ours, b->ino);
			if (b && !t) t = by_ino(f->theirs, b->ino);
			if (b && o && t && is_text_of_both(b, o, t, r)) return true;
		}
	}
	return false;
}

/* The side that took the name away has the file under another (it was renamed, or had several): what the other side put in its place
 * was taken for the file, and is found there. */
static bool found_elsewhere(const four *f, const model_entry *b, const model_state *taker, const model_entry *made)
{
	for (size_t i = 0; i < f->result->count; i++) {
		const model_entry *r = &f->result->entries[i], *e = file_at(taker, r->path);
		if (r->type != CB_FILE) continue;
		if (e && e->ino == b->ino && is_text_of_both(b, e, made, r)) return true;
		if (made->links > 1 && same_bytes(r, made)) return true; /* it lost one of its names */
	}
	return false;
}

/* NULL: as it must be, or nothing can be said; otherwise what is wrong. */
static const char *judge(const four *f, const char *path)
{
	const model_entry *b = file_at(f->base, path), *o = file_at(f->ours, path), *t = file_at(f->theirs, path),
			  *r = file_at(f->result, path);
	uint64_t ib = b ? b->ino : 0, io = o ? o->ino : 0, it = t ? t->ino : 0;
	bool old_o = o && by_ino(f->base, io), old_t = t && by_ino(f->base, it); /* known to the base, perhaps under another name */
	if (io != ib && it != ib && io != it) {                                  /* both changed the name */
		if ((old_o && io != ib) || (old_t && it != ib))
			return NULL; /* a further name for another file: see test_box_merge.c */
		if (o && t && same_bytes(o, t)) return same_bytes(r, o) ? NULL : "equal on both sides, and lost";
		if (!o || !t) {
			const model_entry *one = o ? o : t;
			if (one->links > 1) return NULL; /* a further name, perhaps for another file */
			if (b && found_elsewhere(f, b, o ? f->theirs : f->ours, one)) return NULL;
			if (!b || !same_bytes(one, b)) return "taken away here and replaced there, and no conflict";
			return r ? "taken away, and back" : NULL;
		}
		if (!b) return "added differently on both sides, and no conflict";
		if (r && o->links > 1 && merged_under_another_name(f, o, r)) return NULL;
		if (r && t->links > 1 && merged_under_another_name(f, t, r)) return NULL;
		return r && is_text_of_both(b, o, t, r) ? NULL : "replaced on both sides, and not merged";
	}
	uint64_t wanted = it == ib ? io : it;
	if (!wanted) return r ? "was taken away, and is there" : NULL;
	if (!r) return "is missing";
	const model_entry *base = by_ino(f->base, wanted), *here = by_ino(f->ours, wanted), *there = by_ino(f->theirs, wanted);
	if (base) {                               /* the bytes are the file's, whatever its names */
		if (!here || !there) return NULL; /* replaced by one side: judged under the name where that happened */
		return is_text_of_both(base, here, there, r) ? NULL : "has other bytes than the file it belongs to";
	}
	const model_entry *made = it == ib ? o : t, *other = it == ib ? t : o;
	if (made->links > 1 && merged_under_another_name(f, made, r)) return NULL;
	if (!b || same_bytes(other, b)) return same_bytes(r, made) ? NULL : "is not what was put there";
	return other && is_text_of_both(b, o, t, r) ? NULL : "replaced on one side and changed on the other, and not merged";
}

static bool has_line(const model_state *s, const char *line, size_t size)
{
	for (size_t i = 0; i < s->count; i++) {
		const char *at = s->entries[i].type == CB_FILE ? s->entries[i].bytes : "";
		for (; *at; at += strcspn(at, "\n") + 1)
			if (strncmp(at, line, size) == 0) return true;
	}
	return false;
}

/* Whatever became of names: a line that a side wrote is in no merge without conflicts lost. NULL: none is. */
static const char *lost_line(const four *f)
{
	const model_state *sides[] = {f->ours, f->theirs};
	for (size_t i = 0; i < 2; i++) {
		for (size_t k = 0; k < sides[i]->count; k++) {
			const model_entry *e = &sides[i]->entries[k];
			const char *at = e->type == CB_FILE ? e->bytes : "";
			for (size_t size; *at; at += size) {
				size = strcspn(at, "\n") + 1; /* every line has an end */
				if (!has_line(f->base, at, size) && !has_line(f->result, at, size)) return e->path;
			}
		}
	}
	return NULL;
}

typedef struct heard {
	char paths[64][64];
	unsigned count;
} heard;

static cb_prefer hear(void *context, const cb_conflict *c)
{
	heard *h = context;
	for (unsigned i = 0; i < h->count; i++) CHECK_MSG(strcmp(h->paths[i], c->path) != 0, "two conflicts for %s", c->path);
	CHECK(h->count < 64);
	(void)snprintf(h->paths[h->count++], 64, "%s", c->path);
	return CB_PREFER_NONE;
}

static void judge_all(world *w, const four *f)
{
	static const char *const paths[] = {"/w/a", "/w/b", "/w/c", "/w/d/a", "/w/d/b", "/w/e/a"};
	for (size_t i = 0; i < 7; i++) {
		const char *path = i < 6 ? paths[i] : lost_line(f), *wrong = i < 6  ? judge(f, path)
		                                                             : path ? "has a line that is lost"
		                                                                    : NULL;
		if (!wrong) continue;
		const model_state *all[] = {f->base, f->ours, f->theirs, f->result};
		static const char *const names[] = {"base", "ours", "theirs", "result"};
		for (size_t k = 0; k < 4; k++)
			for (size_t n = 0; n < all[k]->count; n++)
				if (all[k]->entries[n].type == CB_FILE)
					test_note("%s %s inode %" PRIu64 " %.60s", names[k], all[k]->entries[n].path,
					          all[k]->entries[n].ino, all[k]->entries[n].bytes);
		model_tell(&w->trace);
		test_fail(__FILE__, __LINE__, "%s %s", path, wrong);
	}
}

static cb_box *start(world *w, bool links)
{
	cb_error err = {0};
	cb_box *base = NULL;
	CHECK_OK(cb_store_open(":memory:", NULL, &w->s, &err));
	CHECK_OK(cb_box_create(w->s, "base", &base, &err));
	CHECK_OK(cb_mkdir(base, "/w", 0755, 0, &err));
	CHECK_OK(cb_mkdir(base, "/w/d", 0755, 0, &err));
	CHECK_OK(cb_mkdir(base, "/w/e", 0755, 0, &err));
	changes(w, base, "base", links, 2 + below(w, 10));
	return base;
}

static void one_merge(world *w)
{
	cb_error err = {0};
	cb_box *base = start(w, true);
	cb_box *ours = must_fork(w->s, "base", "ours"), *theirs = must_fork(w->s, "base", "theirs");
	changes(w, ours, "ours", true, 1 + below(w, 5));
	changes(w, theirs, "theirs", true, 1 + below(w, 5));
	four f = {model_read(base), model_read(ours), model_read(theirs), NULL};
	heard h = {0};
	cb_code code = cb_merge(ours, theirs, &CB_WITH(cb_merge_options, .resolve = hear, .context = &h), NULL, NULL, &err);
	CHECK_MSG(code == CB_OK || code == CB_NOTHING || code == CB_CONFLICT, "%s (%s)", cb_code_name(code), err.message);
	model_state *result = model_read(ours);
	f.result = result;
	if (code == CB_CONFLICT) CHECK_MODEL(f.ours, result, "a merge with a conflict");
	if (code == CB_OK) judge_all(w, &f);
	w->clean += code == CB_OK;
	w->conflicts += code == CB_CONFLICT;
	test_store_sound(w->s);
	model_free((model_state *)(uintptr_t)f.base);
	model_free((model_state *)(uintptr_t)f.ours);
	model_free((model_state *)(uintptr_t)f.theirs);
	model_free(result);
	cb_box_close(base);
	cb_box_close(ours);
	cb_box_close(theirs);
	cb_store_close(w->s);
}

static void rounds(void (*one)(world *w), unsigned count)
{
	static world w;
	uint64_t seed = test_seed(), clean = 0, conflicts = 0;
	for (unsigned i = 0; i < test_dose(count); i++) {
		w = (world){.rng = {seed + i * 7919}, .clean = clean, .conflicts = conflicts};
		if (getenv("COWBOX_TRACE")) test_note("round %u", i);
		(void)test_rand(&w.rng);
		one(&w);
		clean = w.clean;
		conflicts = w.conflicts;
	}
	test_note("%" PRIu64 " clean, %" PRIu64 " with conflicts", clean, conflicts);
}

/* make soak (50 times the dose): 100,000 histories. */
TEST_LIMIT(names_and_bytes, 120)
{
	rounds(one_merge, 2000);
}

/* ---- git ---- */

typedef struct repository {
	char dir[512];
	unsigned commits;
} repository;

static FILE *must_popen(const char *mode, const char *format, ...) __attribute__((format(printf, 2, 3)));
static FILE *must_popen(const char *mode, const char *format, ...)
{
	char command[2048];
	va_list args;
	va_start(args, format);
	(void)vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	FILE *f = popen(command, mode);
	CHECK(f != NULL);
	return f;
}

static void repository_open(repository *r)
{
	FILE *f = must_popen("r", "git --version 2>/dev/null");
	unsigned major = 0, minor = 0;
	int got = fscanf(f, "git version %u.%u", &major, &minor);
	(void)pclose(f);
	if (got != 2 || major < 2 || (major == 2 && minor < 38)) test_skip("git 2.38 or newer is needed (merge-tree --write-tree)");
	*r = (repository){0};
	(void)snprintf(r->dir, sizeof(r->dir), "%s/git", test_tmpdir());
	CHECK(pclose(must_popen("r", "git init -q --bare '%s' 2>/dev/null", r->dir)) == 0);
}

/* A commit of all files below /w; what git calls it: refs/heads/cN. Parents are numbers of earlier commits to the same stream, 0: none. */
static unsigned commit(repository *r, FILE *to, const model_state *s, unsigned parent, unsigned other)
{
	unsigned n = ++r->commits;
	(void)fprintf(to, "commit refs/heads/c%u\nmark :%u\ncommitter a <a@b> %u +0000\ndata 0\n", n, n, 1000000 + n);
	if (parent) (void)fprintf(to, "from :%u\n", parent);
	if (other) (void)fprintf(to, "merge :%u\n", other);
	(void)fprintf(to, "deleteall\n");
	for (size_t i = 0; i < s->count; i++) {
		const model_entry *e = &s->entries[i];
		if (e->type != CB_FILE) continue;
		(void)fprintf(to, "M 100644 inline %s\ndata %zu\n", e->path + 1, e->size);
		(void)fwrite(e->bytes, 1, e->size, to);
		(void)fputc('\n', to);
	}
	return n;
}

typedef struct verdict {
	bool clean;
	char tree[64];
	char paths[64][64]; /* in conflict */
	unsigned count;
} verdict;

static void git_merge(repository *r, unsigned ours, unsigned theirs, verdict *out)
{
	*out = (verdict){0};
	FILE *f = must_popen("r",
	                     "git -C '%s' merge-tree --write-tree --name-only "
	                     "--no-messages c%u c%u 2>/dev/null",
	                     r->dir, ours, theirs);
	char line[256];
	for (unsigned i = 0; fgets(line, sizeof(line), f); i++) {
		line[strcspn(line, "\n")] = 0;
		if (i == 0) (void)snprintf(out->tree, sizeof(out->tree), "%.60s", line);
		else if (line[0]) (void)snprintf(out->paths[out->count++], 64, "/%.60s", line);
	}
	int status = pclose(f);
	CHECK_MSG(status == 0 || status == 256, "git merge-tree ended with %d", status);
	out->clean = status == 0;
}

/* The six files of a tree, as git prints them, and the same of a box. */
static const char *git_dump(repository *r, const char *tree)
{
	static char text[1 << 16];
	FILE *f = must_popen("r",
	                     "printf 'T:w/a\\nT:w/b\\nT:w/c\\nT:w/d/a\\nT:w/d/b\\nT:w/e/a\\n' | sed s/T/%s/ | git -C '%s' cat-file "
	                     "--batch='%%(objecttype)'",
	                     tree, r->dir);
	size_t n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = 0;
	CHECK(pclose(f) == 0);
	return text;
}

static const char *box_dump(const model_state *s, const char *tree)
{
	static const char *const paths[] = {"/w/a", "/w/b", "/w/c", "/w/d/a", "/w/d/b", "/w/e/a"};
	static char text[1 << 16];
	size_t n = 0;
	for (size_t i = 0; i < 6; i++) {
		const model_entry *e = file_at(s, paths[i]);
		if (e) n += (size_t)snprintf(text + n, sizeof(text) - n, "blob\n%s\n", e->bytes);
		else n += (size_t)snprintf(text + n, sizeof(text) - n, "%s:%s missing\n", tree, paths[i] + 1);
	}
	return text;
}

typedef struct refereed {
	unsigned ours, theirs;
	cb_code code;
	heard h;
	model_state *result;
} refereed;

static bool names(const heard *h, const char *path)
{
	for (unsigned i = 0; i < h->count; i++)
		if (strcmp(h->paths[i], path) == 0) return true;
	return false;
}

static void compare(world *w, repository *r, const refereed *x, bool exact)
{
	verdict v;
	git_merge(r, x->ours, x->theirs, &v);
	bool clean = x->code != CB_CONFLICT;
	bool wrong = exact ? clean != v.clean : clean && !v.clean;
	for (unsigned i = 0; exact && !wrong && i < v.count; i++) wrong = !names(&x->h, v.paths[i]);
	if (exact && !wrong) wrong = v.count != x->h.count;
	const char *theirs = clean && v.clean ? git_dump(r, v.tree) : "",
		   *mine = clean && v.clean ? box_dump(x->result, v.tree) : "";
	if (strcmp(theirs, mine) != 0) wrong = true;
	w->clean += clean;
	w->conflicts += !clean;
	if (!wrong) return;
	for (unsigned i = 0; i < v.count; i++) test_note("git: conflict in %s", v.paths[i]);
	for (unsigned i = 0; i < x->h.count; i++) test_note("cowbox: conflict in %s", x->h.paths[i]);
	test_note("cowbox has %s", mine);
	test_note("git has %s", theirs);
	model_tell(&w->trace);
	test_fail(__FILE__, __LINE__, "git says %s, cowbox %s", v.clean ? "clean" : "conflict", clean ? "clean" : "conflict");
}

enum { TOGETHER = 20 }; /* rounds for which git is started once to import */

static void round_for_git(world *w, repository *r, FILE *to, refereed *x)
{
	cb_error err = {0};
	cb_box *base = start(w, false);
	cb_box *ours = must_fork(w->s, "base", "ours"), *theirs = must_fork(w->s, "base", "theirs");
	changes(w, ours, "ours", false, 1 + below(w, 5));
	changes(w, theirs, "theirs", false, 1 + below(w, 5));
	model_state *mb = model_read(base), *mo = model_read(ours), *mt = model_read(theirs);
	unsigned root = commit(r, to, mb, 0, 0);
	*x = (refereed){.ours = commit(r, to, mo, root, 0), .theirs = commit(r, to, mt, root, 0)};
	x->code = cb_merge(ours, theirs, &CB_WITH(cb_merge_options, .resolve = hear, .context = &x->h), NULL, NULL, &err);
	CHECK_MSG(x->code == CB_OK || x->code == CB_NOTHING || x->code == CB_CONFLICT, "%s", err.message);
	x->result = model_read(ours);
	model_free(mb);
	model_free(mo);
	model_free(mt);
	cb_box_close(base);
	cb_box_close(ours);
	cb_box_close(theirs);
	cb_store_close(w->s);
}

static void together(world *w, repository *r)
{
	static refereed all[TOGETHER];
	FILE *to = must_popen("w", "git -C '%s' fast-import --quiet --force", r->dir);
	for (unsigned i = 0; i < TOGETHER; i++) round_for_git(w, r, to, &all[i]);
	CHECK(pclose(to) == 0);
	for (unsigned i = 0; i < TOGETHER; i++) {
		compare(w, r, &all[i], true);
		model_free(all[i].result);
	}
}

/* make soak: 3,000 histories. */
TEST_LIMIT(git_is_referee, 120)
{
	repository r;
	repository_open(&r);
	world w = {.rng = {test_seed()}};
	for (unsigned i = 0; i < test_dose(3); i++) together(&w, &r);
	test_note("%" PRIu64 " clean, %" PRIu64 " with conflicts", w.clean, w.conflicts);
}

/* ---- graphs ---- */

enum { BOXES = 3, TURNS = 8 };

static void graph(world *w, repository *r)
{
	cb_error err = {0};
	cb_box *boxes[BOXES];
	unsigned heads[BOXES], count = 0;
	refereed all[TURNS];
	FILE *to = must_popen("w", "git -C '%s' fast-import --quiet --force", r->dir);
	boxes[0] = start(w, false);
	boxes[1] = must_fork(w->s, "base", "b1");
	boxes[2] = must_fork(w->s, "base", "b2");
	model_state *s = model_read(boxes[0]);
	heads[0] = heads[1] = heads[2] = commit(r, to, s, 0, 0);
	model_free(s);
	for (unsigned i = 0; i < TURNS; i++) {
		unsigned into = (unsigned)below(w, BOXES), from = (into + 1 + (unsigned)below(w, 2)) % BOXES;
		unsigned sides[2] = {into, from};
		for (unsigned k = 0; k < 2; k++) {
			changes(w, boxes[sides[k]], "side", false, below(w, 3));
			s = model_read(boxes[sides[k]]);
			heads[sides[k]] = commit(r, to, s, heads[sides[k]], 0);
			model_free(s);
		}
		model_note(&w->trace, "merge %u into %u", from, into);
		refereed *x = &all[count++];
		*x = (refereed){.ours = heads[into], .theirs = heads[from]};
		x->code = cb_merge(boxes[into], boxes[from], &CB_WITH(cb_merge_options, .resolve = hear, .context = &x->h), NULL,
		                   NULL, &err);
		CHECK_MSG(x->code == CB_OK || x->code == CB_NOTHING || x->code == CB_CONFLICT, "%s", err.message);
		if (x->code == CB_CONFLICT) /* decided in ours' favour, in both */
			CHECK_OK(cb_merge(boxes[into], boxes[from], &CB_WITH(cb_merge_options, .prefer = CB_PREFER_OURS), NULL,
			                  NULL, &err));
		x->result = model_read(boxes[into]);
		if (x->code != CB_NOTHING) heads[into] = commit(r, to, x->result, heads[into], heads[from]);
	}
	CHECK(pclose(to) == 0);
	for (unsigned i = 0; i < count; i++) {
		compare(w, r, &all[i], false);
		model_free(all[i].result);
	}
	test_store_sound(w->s);
	for (unsigned i = 0; i < BOXES; i++) cb_box_close(boxes[i]);
	cb_store_close(w->s);
}

TEST_LIMIT(git_is_referee_of_graphs, 120)
{
	repository r;
	repository_open(&r);
	world w = {.rng = {test_seed()}};
	for (unsigned i = 0; i < test_dose(4); i++) graph(&w, &r);
	test_note("%" PRIu64 " clean, %" PRIu64 " with conflicts", w.clean, w.conflicts);
}

/* ---- twins ---- */

enum { SLOTS = 4, TWIN_TURNS = 24 };

typedef struct twin {
	cb_store *s;
	cb_box *boxes[SLOTS];
	heard h; /* of the last merge, and how it ended */
	cb_code code;
	size_t bases; /* the most that a merge of the last deed had */
	/* The heads when they were last pruned, and when gc last ran. What is older may be gone, or the common pasts with others may: of
	 * what is undone, by the one; of what is restored, by either. */
	uint64_t pruned[SLOTS], collected[SLOTS];
} twin;

typedef enum deed {
	DEED_CHANGE,
	DEED_MERGE,
	DEED_UNDO,
	DEED_UNDO_ANY, /* not only of the newest step */
	DEED_REDO,
	DEED_RESTORE,
	DEED_TAKE, /* a restore from another box */
	DEED_REPLACE,
	DEED_TRY,
	DEED_BRANCHES /* forks, and forks of these; each may be merged or restored; all are deleted */
} deed;

static void slot_fork(twin *t, unsigned slot, const char *origin)
{
	char name[16];
	(void)snprintf(name, sizeof(name), "b%u", slot);
	t->boxes[slot] = must_fork(t->s, origin, name);
}

static void twin_open(world *w, twin *t)
{
	cb_error err = {0};
	cb_box_close(start(w, false));
	t->s = w->s;
	for (unsigned i = 0; i < SLOTS; i++) slot_fork(t, i, "base");
	if (below(w, 2)) CHECK_OK(cb_box_delete(t->s, "base", &err));
}

static size_t bases_of(twin *t, cb_box *ours, cb_box *theirs)
{
	cb_error err = {0};
	past_point a = {ours->row.id, must_seq(ours)}, b = {theirs->row.id, must_seq(theirs)};
	buf common = BUF_INIT(SIZE_MAX);
	CHECK_OK(past_common(t->s, &a, 1, &b, 1, &common, &err));
	size_t count = common.size / sizeof(past_point);
	buf_done(&common);
	return count;
}

static void twin_merge(twin *t, unsigned into, cb_box *from)
{
	cb_error err = {0};
	size_t bases = bases_of(t, t->boxes[into], from);
	if (bases > t->bases) t->bases = bases;
	t->h = (heard){0};
	t->code = cb_merge(t->boxes[into], from, &CB_WITH(cb_merge_options, .resolve = hear, .context = &t->h), NULL, NULL, &err);
	CHECK_MSG(t->code == CB_OK || t->code == CB_NOTHING || t->code == CB_CONFLICT, "%s: %s", cb_code_name(t->code),
	          err.message);
	if (t->code == CB_CONFLICT) /* decided in ours' favour */
		CHECK_OK(cb_merge(t->boxes[into], from, &CB_WITH(cb_merge_options, .prefer = CB_PREFER_OURS), NULL, NULL, &err));
}

static void twin_restore(world *w, twin *t, unsigned slot)
{
	cb_error err = {0};
	char address[64];
	uint64_t floor = t->collected[slot], seq = must_seq(t->boxes[slot]);
	(void)snprintf(address, sizeof(address), "b%u@%" PRIu64, slot, floor + below(w, seq - floor + 1));
	cb_box *old = must_open(t->s, address);
	cb_code code = cb_restore(t->boxes[slot], old, NULL, NULL, &err);
	CHECK_MSG(code == CB_OK || code == CB_NOTHING, "%s: %s", cb_code_name(code), err.message);
	cb_box_close(old);
}

static void twin_take(cb_box *into, cb_box *from)
{
	cb_error err = {0};
	cb_code code = cb_restore(into, from, NULL, NULL, &err);
	CHECK_MSG(code == CB_OK || code == CB_NOTHING, "%s: %s", cb_code_name(code), err.message);
}

/* A box of a few changes, merged into the one it was forked from, then into another if that is one, and deleted. So may a part of it be
 * made, in a fork of it. */
static void twin_try(world *w, twin *t, unsigned origin, unsigned other)
{
	cb_error err = {0};
	char name[16];
	(void)snprintf(name, sizeof(name), "b%u", origin);
	cb_box *trial = must_fork(t->s, name, "trial");
	changes(w, trial, "trial", false, 1 + below(w, 2));
	if (below(w, 3) == 0) {
		cb_box *part = must_fork(t->s, "trial", "part");
		changes(w, part, "part", false, 1 + below(w, 2));
		cb_code code = cb_merge(trial, part, &CB_WITH(cb_merge_options, .prefer = CB_PREFER_OURS), NULL, NULL, &err);
		CHECK_MSG(code == CB_OK || code == CB_NOTHING, "%s: %s", cb_code_name(code), err.message);
		cb_box_close(part);
		CHECK_OK(cb_box_delete(t->s, "part", &err));
	}
	twin_merge(t, origin, trial);
	if (other != origin) twin_merge(t, other, trial);
	cb_box_close(trial);
	CHECK_OK(cb_box_delete(t->s, "trial", &err));
}

static void twin_bring(world *w, twin *t, unsigned into, cb_box *from)
{
	if (below(w, 6) == 0) twin_take(t->boxes[into], from);
	else twin_merge(t, into, from);
}

/* Up to four forks, each of a box or of one before it, brought into a or b as they are made or in the end. */
static void twin_branches(world *w, twin *t, unsigned a, unsigned b)
{
	enum { MOST = 4 };
	cb_error err = {0};
	cb_box *forks[MOST];
	unsigned count = 2 + (unsigned)below(w, MOST - 1);
	char name[16], origin[16];
	for (unsigned i = 0; i < count; i++) {
		uint64_t from = below(w, i + 1);
		(void)snprintf(name, sizeof(name), "fork%u", i);
		(void)snprintf(origin, sizeof(origin), from ? "fork%u" : "b%u", from ? (unsigned)from - 1 : a);
		forks[i] = must_fork(t->s, origin, name);
		changes(w, forks[i], name, false, 1 + below(w, 2));
		if (below(w, 2)) twin_bring(w, t, below(w, 4) ? a : b, forks[i]);
		if (below(w, 4) == 0) changes(w, t->boxes[a], "origin", false, 1);
		if (below(w, 8) == 0) twin_restore(w, t, a);
	}
	for (unsigned i = 0; i < count; i++) {
		if (below(w, 2)) twin_bring(w, t, below(w, 4) ? a : b, forks[i]);
		cb_box_close(forks[i]);
		(void)snprintf(name, sizeof(name), "fork%u", i);
		CHECK_OK(cb_box_delete(t->s, name, &err));
	}
}

static void twin_do(world *w, twin *t, deed what, unsigned a, unsigned b)
{
	cb_error err = {0};
	cb_code code = CB_OK;
	char name[16];
	t->bases = 0;
	t->code = CB_OK;
	t->h = (heard){0};
	switch (what) {
	case DEED_CHANGE:
		changes(w, t->boxes[a], "box", false, 1 + below(w, 2));
		return;
	case DEED_MERGE:
		twin_merge(t, a, t->boxes[b]);
		return;
	case DEED_UNDO: /* of what was done since the last clearing: an older merge, taken back, leads to pasts that need not be kept */
		if (must_seq(t->boxes[a]) <= t->pruned[a]) return;
		code = cb_undo(t->boxes[a], must_seq(t->boxes[a]), NULL, &err);
		CHECK_MSG(code == CB_OK || code == CB_NOTHING, "%s: %s", cb_code_name(code), err.message);
		return;
	case DEED_UNDO_ANY:
		if (must_seq(t->boxes[a]) <= t->pruned[a]) return;
		code = cb_undo(t->boxes[a], t->pruned[a] + 1 + below(w, must_seq(t->boxes[a]) - t->pruned[a]), NULL, &err);
		CHECK_MSG(code == CB_OK || code == CB_NOTHING || code == CB_CONFLICT, "%s: %s", cb_code_name(code), err.message);
		return;
	case DEED_REDO:
		if (must_seq(t->boxes[a]) <= t->pruned[a]) return;
		code = cb_redo(t->boxes[a], NULL, &err);
		CHECK_MSG(code == CB_OK || code == CB_NOTHING, "%s: %s", cb_code_name(code), err.message);
		return;
	case DEED_RESTORE:
		twin_restore(w, t, a);
		return;
	case DEED_TAKE:
		twin_take(t->boxes[a], t->boxes[b]);
		return;
	case DEED_TRY:
		twin_try(w, t, a, b);
		return;
	case DEED_BRANCHES:
		twin_branches(w, t, a, b);
		return;
	case DEED_REPLACE:
		(void)snprintf(name, sizeof(name), "b%u", a);
		cb_box_close(t->boxes[a]);
		CHECK_OK(cb_box_delete(t->s, name, &err));
		(void)snprintf(name, sizeof(name), "b%u", b);
		slot_fork(t, a, name);
		t->pruned[a] = t->collected[a] = 0;
		return;
	}
}

/* The same in both, with the same random numbers. */
static void both_do(world *w, twin twins[2], deed what, unsigned a, unsigned b)
{
	static const char *const deeds[] = {"change",  "merge", "undo",    "undo any", "redo",
	                                    "restore", "take",  "replace", "try",      "branches"};
	test_rng rng = w->rng;
	unsigned stamp = w->stamp;
	model_note(&w->trace, "%s %u %u", deeds[what], a, b);
	twin_do(w, &twins[0], what, a, b);
	w->rng = rng;
	w->stamp = stamp;
	twin_do(w, &twins[1], what, a, b);
}

/* Only the second; what may be gone there nobody goes back to in the first either. */
static void clear_away(world *w, twin twins[2])
{
	cb_error err = {0};
	bool prunes = below(w, 3);
	for (unsigned i = 0; i < SLOTS; i++) {
		uint64_t seq = must_seq(twins[1].boxes[i]);
		twins[0].collected[i] = twins[1].collected[i] = seq;
		if (!prunes) continue;
		twins[0].pruned[i] = twins[1].pruned[i] = seq;
		if (below(w, 2)) CHECK_OK(cb_prune(twins[1].boxes[i], &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
	}
	model_note(&w->trace, prunes ? "prune and gc" : "gc");
	CHECK_OK(cb_store_gc(twins[1].s, NULL, &err));
}

/* false: with several common pasts, the two went different ways. */
static bool both_same(world *w, twin twins[2], unsigned into)
{
	const twin *whole = &twins[0], *cleared = &twins[1];
	bool same = cleared->code == whole->code && cleared->h.count == whole->h.count;
	for (unsigned i = 0; same && i < whole->h.count; i++) same = names(&cleared->h, whole->h.paths[i]);
	model_state *a = model_read(whole->boxes[into]), *b = model_read(cleared->boxes[into]);
	same = same && model_same(a, b);
	if (whole->bases <= 1) CHECK_U64(cleared->bases, whole->bases);
	w->clean += cleared->code == CB_OK;
	w->conflicts += cleared->code == CB_CONFLICT;
	if (!same && whole->bases <= 1) {
		for (unsigned k = 0; k < 2; k++)
			for (unsigned i = 0; i < twins[k].h.count; i++)
				test_note("%s: conflict in %s", k ? "cleared" : "whole", twins[k].h.paths[i]);
		model_tell(&w->trace);
		CHECK_MODEL(a, b, "a merge after prune and gc");
		test_fail(__FILE__, __LINE__, "%s, and %s after prune and gc", cb_code_name(whole->code),
		          cb_code_name(cleared->code));
	}
	model_free(a);
	model_free(b);
	return same;
}

static void delete_others(twin *t, unsigned first, unsigned second)
{
	cb_error err = {0};
	char name[16];
	for (unsigned i = 0; i < SLOTS; i++) {
		(void)snprintf(name, sizeof(name), "b%u", i);
		if (i == first || i == second || !t->boxes[i]) continue;
		cb_box_close(t->boxes[i]);
		t->boxes[i] = NULL;
		CHECK_OK(cb_box_delete(t->s, name, &err));
	}
	cb_code code = cb_box_delete(t->s, "base", &err);
	CHECK_MSG(code == CB_OK || code == CB_NOTFOUND, "%s", err.message);
}

/* How many steps merges of two boxes, or of what the one was when the other was forked from it, may need; and of these in turn. */
static size_t needs_of(twin *t, unsigned first, unsigned second)
{
	cb_error err = {0};
	const unsigned slots[] = {first, second};
	past_start starts[64] = {0};
	size_t started = 0, count = 0;
	past_edges edges = {0};
	buf found = BUF_INIT(SIZE_MAX);
	for (unsigned i = 0; i < 2; i++) {
		cb_box *b = t->boxes[slots[i]], *other = t->boxes[slots[1 - i]];
		starts[started++] = (past_start){{b->row.id, must_seq(b)}, false};
		if (b->row.origin_box == other->row.id) starts[started++] = (past_start){{other->row.id, b->row.origin_seq}, false};
	}
	CHECK_OK(past_edges_read(&edges, t->s, &err));
	for (unsigned i = 0; i < 2; i++) {
		CHECK_OK(past_meet(&edges, starts, started, &found, &err));
		count = found.size / sizeof(past_point);
		CHECK(started + count <= ARRAY_LEN(starts));
		for (size_t k = 0; k < count; k++) starts[started++].at = ((const past_point *)(const void *)found.bytes)[k];
	}
	past_edges_done(&edges);
	buf_done(&found);
	return count;
}

/* All are deleted but one or two, which go on: of each its first step and its newest are left. Of two also what they have in common, and
 * where one came from the other; a box that has some of that may stay whole, as others that are deleted do not. */
static void little_is_left(world *w, twin *t, unsigned first, unsigned second)
{
	enum { FILES = 7 }; /* random_name's, and one that is left of a save by rename of which half was undone */
	cb_error err = {0};
	buf rows = BUF_INIT(SIZE_MAX);
	cb_store_stats st = CB_INIT(cb_store_stats);
	size_t living = first == second ? 1 : 2;
	uint64_t steps[2] = {0};
	delete_others(t, first, second);
	for (unsigned i = 0; i < 3; i++) {
		for (size_t k = 0; k < living; k++) {
			cb_box *b = t->boxes[k ? second : first];
			must_write(b, "/w/last", i % 2 ? "odd" : "even");
			CHECK_OK(cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
		}
		CHECK_OK(cb_store_gc(t->s, NULL, &err));
	}
	for (size_t k = 0; k < living; k++)
		CHECK_OK(store_step_count(t->s->s, t->boxes[k ? second : first]->row.id, &steps[k], &err));
	CHECK_OK(store_box_list(t->s->s, true, store_box_collect, &rows, &err));
	CHECK_OK(cb_store_stats_get(t->s, &st, &err));
	size_t boxes = rows.size / sizeof(store_box), needs = living == 1 ? 0 : needs_of(t, first, second);
	if (boxes > living + needs || steps[0] + steps[1] > 2 * living + needs || (living == 1 && st.contents > 2 * FILES)) {
		model_tell(&w->trace);
		test_fail(__FILE__, __LINE__, "of b%u and b%u %zu boxes, %llu steps and %llu contents are left, %zu are needed",
		          first, second, boxes, (unsigned long long)(steps[0] + steps[1]), (unsigned long long)st.contents, needs);
	}
	buf_done(&rows);
}

/* What a has is forked, then partly undone; the forks merge what is left, and each other. false: as both_same. */
static bool undone_between(world *w, twin twins[2], unsigned a)
{
	unsigned b = (a + 1) % SLOTS, c = (a + 2) % SLOTS;
	both_do(w, twins, below(w, 2) ? DEED_BRANCHES : DEED_TRY, a, a);
	if (!both_same(w, twins, a)) return false;
	both_do(w, twins, DEED_REPLACE, b, a);
	if (below(w, 3) == 0) both_do(w, twins, DEED_BRANCHES, a, a);
	both_do(w, twins, DEED_REPLACE, c, below(w, 3) ? a : b);
	if (below(w, 2)) clear_away(w, twins);
	for (uint64_t i = below(w, 4); i > 0; i--) both_do(w, twins, below(w, 4) ? DEED_UNDO_ANY : DEED_REDO, a, 0);
	both_do(w, twins, DEED_CHANGE, a, 0);
	if (below(w, 2)) clear_away(w, twins);
	both_do(w, twins, DEED_MERGE, b, a);
	if (!both_same(w, twins, b)) return false;
	both_do(w, twins, DEED_MERGE, c, a);
	if (!both_same(w, twins, c)) return false;
	if (below(w, 2)) clear_away(w, twins);
	both_do(w, twins, DEED_CHANGE, b, 0);
	both_do(w, twins, DEED_CHANGE, c, 0);
	both_do(w, twins, DEED_MERGE, b, c);
	return both_same(w, twins, b);
}

/* false: as both_same. */
static bool one_turn(world *w, twin twins[2])
{
	bool same = true;
	unsigned a = (unsigned)below(w, SLOTS), b = (a + 1 + (unsigned)below(w, SLOTS - 1)) % SLOTS;
	unsigned other = (b + 1 + (unsigned)below(w, SLOTS - 1)) % SLOTS;
	switch (below(w, 11)) {
	case 10:
		same = undone_between(w, twins, a);
		break;
	case 8:
		both_do(w, twins, DEED_TAKE, a, b);
		break;
	case 9:
		both_do(w, twins, DEED_BRANCHES, a, b);
		same = both_same(w, twins, a) && both_same(w, twins, b);
		if (!same) break;
		if (below(w, 2) && other != a) both_do(w, twins, DEED_REPLACE, other, a);
		if (below(w, 3) == 0) both_do(w, twins, DEED_UNDO, a, 0);
		break;
	case 0:
		both_do(w, twins, DEED_REPLACE, a, b);
		break;
	case 1:
		both_do(w, twins, DEED_RESTORE, a, 0);
		break;
	case 2:
		both_do(w, twins, DEED_CHANGE, b, 0);
		break;
	case 3:
	case 4:
		if (below(w, 3) == 0) b = a;
		both_do(w, twins, DEED_TRY, a, b);
		same = both_same(w, twins, b);
		if (same && below(w, 2) && other != a) both_do(w, twins, DEED_REPLACE, other, a);
		if (same && below(w, 3) == 0) both_do(w, twins, DEED_UNDO, a, 0);
		break;
	default:
		both_do(w, twins, DEED_CHANGE, a, 0);
		if (below(w, 2)) both_do(w, twins, DEED_CHANGE, b, 0);
		both_do(w, twins, DEED_MERGE, a, b);
		same = both_same(w, twins, a);
		/* Somebody may have forked before the merge was taken back, and what was merged may be deleted. */
		if (same && below(w, 3) == 0 && other != a) both_do(w, twins, DEED_REPLACE, other, a);
		if (same && below(w, 3) == 0) {
			both_do(w, twins, DEED_UNDO, a, 0);
			if (below(w, 3) == 0) both_do(w, twins, DEED_REDO, a, 0);
		}
	}
	return same;
}

static void one_pair_of_twins(world *w)
{
	twin twins[2] = {{0}, {0}};
	test_rng rng = w->rng;
	twin_open(w, &twins[0]);
	w->rng = rng;
	w->stamp = 0;
	twin_open(w, &twins[1]);
	for (unsigned i = 0, same = 1; same && i < TWIN_TURNS; i++) {
		same = one_turn(w, twins);
		if (below(w, 2)) clear_away(w, twins);
	}
	unsigned last = (unsigned)below(w, SLOTS), other = (last + 1 + (unsigned)below(w, SLOTS - 1)) % SLOTS;
	for (unsigned k = 0; k < 2; k++) {
		test_store_sound(twins[k].s);
		little_is_left(w, &twins[k], last, other);
		little_is_left(w, &twins[k], last, last);
		test_store_sound(twins[k].s);
		for (unsigned i = 0; i < SLOTS; i++) cb_box_close(twins[k].boxes[i]);
		cb_store_close(twins[k].s);
	}
}

TEST_LIMIT(what_is_cleared_away_was_not_needed, 120)
{
	rounds(one_pair_of_twins, 60);
}
