/*
 * test_apply_model.c: apply against a three-way model by path, under random changes of box and host.
 *
 * For every path: where base and box agree the host keeps what it has; where they differ the host gets what the box has, and only when it
 * had what the base or the box had. A refused apply leaves the folder as it was.
 */
#include <cowbox/cowbox.h>

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/attr.h"
#include "harness/boxes.h"
#include "harness/tree_text.h"

enum { SEEN = TREE_NO_TIMES | TREE_NO_LINKS | TREE_NO_ROOT | TREE_NO_XATTRS };

static cb_store *s;
static cb_box *b;
static cb_error err;
static char folder[4096];
static test_rng rng;

/* ---- random changes, the same kinds on both sides ---- */

static void random_path(char *out, size_t size)
{
	static const char *const names[] = {"a", "b", "c", "a-b"};
	size_t depth = 1 + test_rand_below(&rng, 3), n = 0;
	out[0] = 0;
	for (size_t i = 0; i < depth; i++)
		n += (size_t)snprintf(out + n, size - n, "%s%s", i ? "/" : "", names[test_rand_below(&rng, 4)]);
}

static void random_text(char *out, size_t size)
{
	(void)snprintf(out, size, "text %d\n", (int)test_rand_below(&rng, 4));
}

static void change_box(void)
{
	char path[128] = "/work/", other[128] = "/work/", text[32];
	random_path(path + 6, sizeof(path) - 6);
	random_path(other + 6, sizeof(other) - 6);
	random_text(text, sizeof(text));
	cb_write_options o = CB_WITH(cb_write_options, .parents = true);
	switch (test_rand_below(&rng, 8)) {
	case 0:
	case 1:
	case 2:
		(void)cb_write_file(b, path, text, strlen(text), &o, NULL);
		break;
	case 3:
		(void)cb_remove(b, path, NULL);
		break;
	case 4:
		(void)cb_rename(b, path, other, 0, NULL);
		break;
	case 5:
		(void)cb_mkdir(b, path, 0755, CB_PARENTS, NULL);
		break;
	case 6:
		(void)cb_symlink(b, text, path, NULL);
		break;
	default: {
		cb_stat_info info = CB_INIT(cb_stat_info);
		if (cb_stat(b, path, CB_NOFOLLOW, &info, NULL) == CB_OK && info.type == CB_FILE)
			(void)cb_chmod(b, path, info.mode ^ 0111, CB_NOFOLLOW, NULL);
	}
	}
}

static void change_host(void)
{
	char path[128], other[128], text[32];
	random_path(path, sizeof(path));
	random_path(other, sizeof(other));
	random_text(text, sizeof(text));
	switch (test_rand_below(&rng, 5)) {
	case 0:
	case 1: {
		FILE *f = NULL;
		struct stat st;
		bool link = lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
		if (!link) f = fopen(path, "w");
		if (!f) break;
		CHECK(fputs(text, f) >= 0 && fclose(f) == 0);
		break;
	}
	case 2:
		if (unlink(path) != 0) (void)rmdir(path);
		break;
	case 3:
		(void)rename(path, other);
		break;
	default:
		if (mkdir(path, 0755) != 0 && symlink(text, path) != 0) break;
	}
}

/* ---- trees by path ---- */

/* The line of a path in a tree's text, without the path; "" when it is not there. */
static const char *line_of(const char *tree, const char *path)
{
	size_t n = strlen(path);
	for (const char *at = tree; *at; at += strcspn(at, "\n") + 1) {
		if (strncmp(at, path, n) != 0 || at[n] != ' ') continue;
		char *line = strndup(at + n, strcspn(at + n, "\n"));
		return test_keep(line);
	}
	return "";
}

typedef struct trees {
	const char *base, *box, *before, *after;
} trees;

static void check_path(const trees *t, const char *path, bool forced, bool chosen)
{
	const char *base = line_of(t->base, path), *box = line_of(t->box, path), *before = line_of(t->before, path),
		   *after = line_of(t->after, path);
	if (strcmp(base, box) == 0 || !chosen) {
		/* force makes the folders again that lead to what it writes */
		if (forced && !*before && strncmp(after, " d ", 3) == 0) return;
		CHECK_MSG(strcmp(after, before) == 0, "'%s' was not the box's to change: '%s' became '%s'", path, before, after);
		return;
	}
	CHECK_MSG(strcmp(after, box) == 0, "'%s' is '%s', the box has '%s'", path, after, box);
	CHECK_MSG(forced || strcmp(before, base) == 0 || strcmp(before, box) == 0, "'%s' was '%s' and is lost", path, before);
}

static void check_paths_of(const trees *t, const char *tree, bool forced, const char *only)
{
	for (const char *at = tree; *at; at += strcspn(at, "\n") + 1) {
		AUTO_FREE char *path = strndup(at, strcspn(at, " "));
		bool chosen =
			!only || (strncmp(path, only, strlen(only)) == 0 && (path[strlen(only)] == 0 || path[strlen(only)] == '/'));
		check_path(t, path, forced, chosen);
	}
}

static const char *box_tree(void)
{
	return tree_of_box(b, "/work", SEEN);
}

static void begin(void)
{
	rng.state = test_seed();
	s = test_store_open(false);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	(void)snprintf(folder, sizeof(folder), "%s/project", test_tmpdir());
	CHECK(mkdir(folder, 0755) == 0 && chdir(folder) == 0);
	(void)umask(022);
	for (int i = 0; i < 30; i++) change_host();
	cb_import_options o = CB_WITH(cb_import_options, .link = true);
	CHECK_OK(cb_import(b, folder, &o, NULL, &err));
}

static void end(void)
{
	must_run("test -z \"$(find '%s' -name '.cowbox-*')\"", folder);
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

/* What is known of the folder after an apply of one name, or of all. */
static const char *next_base(const trees *t, const char *only)
{
	if (!only) return t->box;
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);
	const char *const from[] = {t->base, t->box};
	for (int i = 0; i < 2; i++) {
		for (const char *at = from[i]; *at; at += strcspn(at, "\n") + 1) {
			size_t n = strlen(only);
			bool chosen = strncmp(at, only, n) == 0 && (at[n] == ' ' || at[n] == '/');
			if (chosen == (i == 1)) (void)fprintf(f, "%.*s\n", (int)strcspn(at, "\n"), at);
		}
	}
	(void)fclose(f);
	return test_keep(text);
}

TEST_LIMIT(random_changes_of_box_and_host, 300)
{
	begin();
	unsigned refused = 0, done = 0;
	trees t = {.base = box_tree()};
	for (unsigned round = 0; round < test_dose(120); round++) {
		static const char *const names[] = {"a", "b", "c", "a-b"};
		for (uint64_t i = test_rand_below(&rng, 8); i > 0; i--) change_box();
		for (uint64_t i = test_rand_below(&rng, 4); i > 0; i--) change_host();
		const char *only = test_rand_below(&rng, 4) == 0 ? names[test_rand_below(&rng, 4)] : NULL;
		cb_apply_options o = CB_WITH(cb_apply_options, .force = test_rand_below(&rng, 4) == 0, .paths = &only,
		                             .path_count = only ? 1 : 0);
		t.box = box_tree();
		t.before = tree_of_host(folder, SEEN);
		cb_code code = cb_apply(b, &o, NULL, NULL, NULL, &err);
		t.after = tree_of_host(folder, SEEN);
		if (code == CB_CONFLICT) {
			CHECK_STR(t.before, t.after);
			refused++;
			/* so that it does not stay stuck: bring the host in, now and then */
			if (test_rand_below(&rng, 3)) continue;
			cb_import_options in = CB_WITH(cb_import_options, .link = true, .remove_missing = true);
			CHECK_OK(cb_import(b, folder, &in, NULL, &err));
			t.base = box_tree();
			CHECK_STR(t.base, t.after);
			continue;
		}
		if (code == CB_NOTFOUND && only) { /* a name that neither the box nor its folder had */
			CHECK_STR(t.before, t.after);
			continue;
		}
		CHECK_MSG(code == CB_OK || code == CB_NOTHING, "%s", err.message);
		done++;
		check_paths_of(&t, t.base, o.force, only);
		check_paths_of(&t, t.box, o.force, only);
		check_paths_of(&t, t.before, o.force, only);
		t.base = next_base(&t, only);
	}
	test_note("%u applied, %u refused", done, refused);
	CHECK(test_soak() == 1 || (done > 0 && refused > 0)); /* a small dose may miss them */
	end();
}

/* ---- kill -9 ---- */

static void many_changes(unsigned round)
{
	char path[64], text[64];
	cb_write_options o = CB_WITH(cb_write_options, .parents = true);
	cb_box *box = b;
	b = must_begin(box);
	for (unsigned i = 0; i < 120; i++) {
		(void)snprintf(path, sizeof(path), "/work/many/%u/f%u", i % 7, i);
		(void)snprintf(text, sizeof(text), "round %u of file %u", round, i);
		cb_stat_info info = CB_INIT(cb_stat_info);
		bool there = cb_stat(b, path, CB_NOFOLLOW, &info, NULL) == CB_OK;
		unsigned what = (unsigned)test_rand_below(&rng, 5);
		if (there && what < 4) CHECK_OK(cb_remove(b, path, &err));
		if (what == 0 || what == 3) CHECK_OK(cb_write_file(b, path, text, strlen(text), &o, &err));
		if (what == 1 && exists(b, "/work/many/0")) (void)cb_symlink(b, text, path, NULL);
		if (what == 2) (void)cb_mkdir(b, path, 0755, CB_PARENTS, NULL);
	}
	(void)must_commit(b);
	b = box;
}

static void apply_in_child(void)
{
	cb_store *mine = test_store_reopen();
	cb_box *box = must_open(mine, "demo");
	cb_code code = cb_apply(box, NULL, NULL, NULL, NULL, &err);
	_exit(code == CB_OK || code == CB_NOTHING ? 0 : 1);
}

TEST_LIMIT(killed_at_any_moment_the_same_call_goes_on, 300)
{
	begin();
	unsigned cut = 0;
	for (unsigned round = 0; round < test_dose(16); round++) {
		many_changes(round);
		trees t = {.base = tree_of_host(folder, SEEN), .box = box_tree()};
		pid_t pid = fork();
		if (pid == 0) apply_in_child();
		CHECK(pid > 0);
		(void)usleep((useconds_t)test_rand_below(&rng, 60000));
		(void)kill(pid, SIGKILL);
		int status = 0;
		CHECK(waitpid(pid, &status, 0) == pid);
		cut += WIFSIGNALED(status) != 0;
		must_run("find '%s' -name '.cowbox-apply-*' -exec mv -t '%s' {} +", folder, test_tmpdir());
		t.after = tree_of_host(folder, SEEN);
		for (const char *at = t.after; *at; at += strcspn(at, "\n") + 1) {
			AUTO_FREE char *path = strndup(at, strcspn(at, " "));
			const char *now = line_of(t.after, path);
			CHECK_MSG(strcmp(now, line_of(t.base, path)) == 0 || strcmp(now, line_of(t.box, path)) == 0,
			          "'%s' is half written", path);
		}
		must_run("cd '%s' && for f in .cowbox-apply-*; do test -e $f || test -L $f && mv $f '%s/'; done; true",
		         test_tmpdir(), folder);
		cb_code code = cb_apply(b, NULL, NULL, NULL, NULL, &err);
		CHECK_MSG(code == CB_OK || code == CB_NOTHING, "%s", err.message);
		check_same_tree(tree_of_host(folder, SEEN), t.box);
		must_run("test -z \"$(find '%s' -name '.cowbox-*')\"", folder);
	}
	test_note("%u killed", cut);
	end();
}

/* ---- somebody else is at work in the folder ---- */

/* Puts text into a file as an editor does: whole, by renaming. */
static void save(const char *path, const char *text)
{
	FILE *f = fopen("../edited", "w");
	CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
	CHECK(rename("../edited", path) == 0);
}

TEST_LIMIT(an_edit_at_any_moment_survives, 300)
{
	begin();
	for (unsigned round = 0; round < test_dose(80); round++) {
		char box[64], edit[64];
		(void)snprintf(box, sizeof(box), "box %u", round);
		(void)snprintf(edit, sizeof(edit), "edit %u", round);
		save("edited", "known");
		cb_import_options in = CB_WITH(cb_import_options, .link = true, .remove_missing = true);
		CHECK_OK(cb_import(b, folder, &in, NULL, &err));
		must_write(b, "/work/edited", box);
		useconds_t wait = (useconds_t)test_rand_below(&rng, 4000);
		pid_t pid = fork();
		if (pid == 0) {
			(void)usleep(wait);
			save("edited", edit);
			_exit(0);
		}
		(void)cb_apply(b, NULL, NULL, NULL, NULL, &err);
		int status = 0;
		CHECK(waitpid(pid, &status, 0) == pid && status == 0);
		char text[64] = {0};
		FILE *f = fopen("edited", "r");
		CHECK(f && fread(text, 1, sizeof(text) - 1, f) > 0 && fclose(f) == 0);
		CHECK_STR(text, edit);
	}
	end();
}

TEST_LIMIT(a_folder_swapped_for_a_link_leads_nowhere, 300)
{
	begin();
	must_run("mkdir -p '%s/outside' src && printf o >'%s/outside/f'", test_tmpdir(), test_tmpdir());
	cb_import_options in = CB_WITH(cb_import_options, .link = true);
	CHECK_OK(cb_import(b, folder, &in, NULL, &err));
	char outside[4200];
	(void)snprintf(outside, sizeof(outside), "%s/outside", test_tmpdir());
	const char *before = tree_of_host(outside, 0);
	pid_t pid = fork();
	if (pid == 0) {
		for (;;) {
			(void)rename("src", "aside");
			if (symlink("../outside", "src") != 0) continue;
			(void)usleep(200);
			(void)unlink("src");
			(void)rename("aside", "src");
			(void)usleep(200);
		}
	}
	for (unsigned round = 0; round < test_dose(60); round++) {
		char text[32];
		(void)snprintf(text, sizeof(text), "%u", round);
		must_write(b, "/work/src/f", text);
		must_write(b, "/work/src/new/g", text);
		cb_apply_options o = CB_WITH(cb_apply_options, .force = round % 2);
		(void)cb_apply(b, &o, NULL, NULL, NULL, &err);
	}
	(void)kill(pid, SIGKILL);
	int status = 0;
	CHECK(waitpid(pid, &status, 0) == pid);
	check_same_tree(before, tree_of_host(outside, 0));
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}
