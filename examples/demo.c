/*
 * demo.c: the main job in one sitting: a box is filled, broken, repaired, forked, merged, shared by two agents and cleaned up.
 *
 * It works on a store of its own in a temporary folder, which it removes. It checks what it tells: the exit status is 1 when something
 * is not so. Colour appears on a terminal only, and not when NO_COLOR is set.
 */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700 /* nftw */
#endif
#include <cowbox/cowbox.h>

#include <ftw.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[4096];
static bool colour;
static cb_error err;

/* ---- telling ---- */

static void paint(const char *code, const char *text)
{
	if (colour) printf("\033[%sm%s\033[0m\n", code, text);
	else printf("%s\n", text);
}

__attribute__((format(printf, 2, 0))) static void vpaint(const char *code, const char *format, va_list args)
{
	char line[512];
	(void)vsnprintf(line, sizeof(line), format, args);
	paint(code, line);
}

__attribute__((format(printf, 1, 2))) static void title(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	printf("\n");
	vpaint("1;36", format, args);
	va_end(args);
}

/* The calls that are about to be made. */
__attribute__((format(printf, 1, 2))) static void call(const char *format, ...)
{
	char text[400];
	va_list args;
	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	char line[420];
	(void)snprintf(line, sizeof(line), "  > %s", text);
	paint("2", line);
}

static void show_text(const char *text)
{
	while (*text) {
		size_t n = strcspn(text, "\n");
		const char *code = *text == '+' ? "32" : *text == '-' ? "31" : "0";
		if (colour) printf("    \033[%sm%.*s\033[0m\n", code, (int)n, text);
		else printf("    %.*s\n", (int)n, text);
		text += n + (text[n] == '\n');
	}
}

/* ---- checking ---- */

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *where)
{
	(void)info;
	(void)type;
	(void)where;
	return remove(path);
}

static void remove_folder(void)
{
	(void)nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

__attribute__((noreturn)) static void give_up(const char *what, const char *why)
{
	(void)fflush(stdout);
	(void)fprintf(stderr, "demo: %s: %s\n", what, why);
	exit(1);
}

#define MUST(expression)                                                      \
	do {                                                                  \
		if ((expression) != CB_OK) give_up(#expression, err.message); \
	} while (0)

static void told(bool is_so, const char *text)
{
	if (!is_so) give_up("this should hold and does not", text);
	char line[400];
	(void)snprintf(line, sizeof(line), "    ok: %s", text);
	paint("32", line);
}

/* ---- short calls ---- */

static void write_text(cb_box *box, const char *path, const char *text)
{
	cb_write_options options = CB_WITH(cb_write_options, .parents = true);
	MUST(cb_write_file(box, path, text, strlen(text), &options, &err));
}

static bool holds(cb_box *box, const char *path, const char *text)
{
	char *now = NULL;
	size_t size = 0;
	if (cb_read_file(box, path, &now, &size, NULL) != CB_OK) return false;
	bool same = size == strlen(text) && memcmp(now, text, size) == 0;
	cb_free(now);
	return same;
}

static bool is_there(cb_box *box, const char *path)
{
	cb_stat_info info = CB_INIT(cb_stat_info);
	return cb_stat(box, path, 0, &info, NULL) == CB_OK;
}

static cb_box *open_box(cb_store *store, const char *address, const char *who)
{
	cb_box *box = NULL;
	MUST(cb_box_open(store, address, &box, &err));
	MUST(cb_box_who_set(box, who, &err));
	return box;
}

static uint64_t newest(cb_box *box)
{
	cb_box_info info = CB_INIT(cb_box_info);
	MUST(cb_box_info_get(box, &info, &err));
	return info.seq;
}

static void show_diff(cb_box *from, cb_box *to)
{
	char *text = NULL;
	MUST(cb_diff_text(from, to, &CB_WITH(cb_diff_text_options, .has_context = true, .context_lines = 1), &text, NULL, &err));
	show_text(text);
	cb_free(text);
}

static cb_code count_change(void *context, const cb_change *change, cb_error *e)
{
	(void)change;
	(void)e;
	++*(unsigned *)context;
	return CB_OK;
}

static unsigned differences(cb_box *from, cb_box *to)
{
	unsigned count = 0;
	MUST(cb_diff(from, to, NULL, count_change, &count, &err));
	return count;
}

static cb_code show_step(void *context, const cb_step *step, cb_error *e)
{
	(void)context;
	(void)e;
	printf("    %4" PRIu64 "  %-8s %-8s %s\n", step->seq, step->who, step->kind, step->params);
	return CB_OK;
}

static void show_log(cb_box *box, const char *path, uint64_t max)
{
	cb_log_options options = CB_WITH(cb_log_options, .path = path, .max_steps = max);
	MUST(cb_log(box, &options, show_step, NULL, NULL, &err));
}

/* ---- the files of the story ---- */

static const char greet_py[] =
	"def greet(name):\n    return 'Hello, ' + name\n\n\nif __name__ == '__main__':\n    print(greet('world'))\n";
static const char greet_a[] =
	"def greet(name):\n    return f'Hello, {name}!'\n\n\nif __name__ == '__main__':\n    print(greet('world'))\n";
static const char greet_b[] =
	"def greet(name):\n    return 'Hi ' + name.title()\n\n\nif __name__ == '__main__':\n    print(greet('world'))\n";
static const char config_ini[] = "[app]\nlanguage = en\n";

static void fill(cb_box *box)
{
	title("1. A box is filled: several files as one step, then single steps");
	call("cb_txn_begin(demo); cb_write_file(...) x 3; cb_txn_commit()");
	cb_txn_options options = CB_WITH(cb_txn_options, .step = &CB_WITH(cb_step_info, .kind = "import",
	                                                                  .params = "from ~/greeter", .params_size = CB_STRING));
	cb_commit_result result = CB_INIT(cb_commit_result);
	cb_box *txn = NULL;
	MUST(cb_txn_begin(box, &options, &txn, &err));
	write_text(txn, "/work/greeter/greet.py", greet_py);
	write_text(txn, "/work/greeter/config.ini", config_ini);
	write_text(txn, "/work/greeter/README", "Greets people.\n");
	MUST(cb_txn_commit(txn, NULL, &result, &err));
	cb_box_close(txn);
	told(result.seq == 1, "three files and their folder, one step");

	call("cb_write_file(demo, \"/work/greeter/notes.txt\")  cb_chmod(...)  cb_tag_add(...)");
	write_text(box, "/work/greeter/notes.txt", "ask about French\n");
	MUST(cb_chmod(box, "/work/greeter/greet.py", 0755, 0, &err));
	MUST(cb_tag_add(box, "/work/greeter/greet.py", "entry-point", &err));
	call("cb_kv_set(demo, \"plan\")");
	MUST(cb_kv_set(box, "plan", "1. greet 2. tests", 17, &err));
	call("cb_log(demo)");
	show_log(box, NULL, 0);
	told(newest(box) == 5, "every call is a step, with who did what");
	call("cb_checkpoint_save(demo, \"clean\")");
	MUST(cb_checkpoint_save(box, "clean", 0, false, &err));
}

static void break_and_undo(cb_store *store, cb_box *box)
{
	title("2. A tool call goes wrong; one undo takes all of it back");
	call("a step of kind \"sh\": cb_remove(config.ini), cb_write_file(README), cb_kv_delete(plan)");
	cb_txn_options options =
		CB_WITH(cb_txn_options, .step = &CB_WITH(cb_step_info, .kind = "sh", .params = "./cleanup.sh",
	                                                 .params_size = CB_STRING, .result = "exit 0", .result_size = CB_STRING));
	cb_box *txn = NULL;
	MUST(cb_txn_begin(box, &options, &txn, &err));
	MUST(cb_remove(txn, "/work/greeter/config.ini", &err));
	write_text(txn, "/work/greeter/README", "oops\n");
	MUST(cb_kv_delete(txn, "plan", &err));
	MUST(cb_txn_commit(txn, NULL, NULL, &err));
	cb_box_close(txn);

	call("cb_diff_text(demo@-1, demo)");
	cb_box *before = open_box(store, "demo@-1", "");
	show_diff(before, box);
	told(differences(before, box) == 3, "and the key-value, which has no text to show");
	call("cb_undo(demo, 0)");
	MUST(cb_undo(box, 0, NULL, &err));
	told(differences(before, box) == 0, "no difference to the state before is left");
	show_log(box, NULL, 2);
	told(newest(box) == 7, "the undo is a step of its own: nothing is erased");
	cb_box_close(before);
}

/* ---- forks and merge ---- */

static cb_prefer ask(void *context, const cb_conflict *conflict)
{
	printf("    conflict: %s (%s)\n", conflict->path, conflict->reason);
	return *(cb_prefer *)context;
}

static void make_tries(cb_store *store, cb_box **a, cb_box **b)
{
	call("cb_box_fork(\"demo\", \"try-a\")  cb_box_fork(\"demo\", \"try-b\")");
	MUST(cb_box_fork(store, "demo", "try-a", a, &err));
	MUST(cb_box_fork(store, "demo", "try-b", b, &err));
	MUST(cb_box_who_set(*a, "agent-a", &err));
	MUST(cb_box_who_set(*b, "agent-b", &err));
	write_text(*a, "/work/greeter/greet.py", greet_a);
	write_text(*a, "/work/greeter/tests/test_greet.py", "from greet import greet\nassert greet('a') == 'Hello, a!'\n");
	write_text(*b, "/work/greeter/greet.py", greet_b);
	write_text(*b, "/work/greeter/config.ini", "[app]\nlanguage = en\ntitle_case = yes\n");
}

static void forks_and_merge(cb_store *store, cb_box *box)
{
	title("3. Two tries side by side, then both merged back");
	cb_box *a = NULL, *b = NULL;
	make_tries(store, &a, &b);
	told(holds(box, "/work/greeter/greet.py", greet_py), "demo itself has not moved");
	call("cb_merge(demo, try-a)");
	MUST(cb_merge(box, a, NULL, NULL, NULL, &err));
	told(holds(box, "/work/greeter/greet.py", greet_a) && is_there(box, "/work/greeter/tests/test_greet.py"),
	     "try-a came in whole");

	call("cb_merge(demo, try-b)");
	cb_prefer answer = CB_PREFER_NONE;
	cb_merge_options options = CB_WITH(cb_merge_options, .resolve = ask, .context = &answer);
	uint64_t conflicts = 0, at = newest(box);
	told(cb_merge(box, b, &options, NULL, &conflicts, &err) == CB_CONFLICT && conflicts == 1,
	     "both changed one line: a conflict");
	told(newest(box) == at, "and nothing has changed");
	call("cb_merge(demo, try-b), resolved: theirs");
	answer = CB_PREFER_THEIRS;
	MUST(cb_merge(box, b, &options, NULL, NULL, &err));
	told(holds(box, "/work/greeter/greet.py", greet_b), "greet.py is try-b's");
	told(is_there(box, "/work/greeter/tests/test_greet.py"), "what only try-a had is still here");
	cb_box_close(a);
	cb_box_close(b);
}

static cb_code show_blame(void *context, const cb_blame_line *line, cb_error *e)
{
	(void)e;
	if (line->line == 2) *(uint64_t *)context = line->seq;
	printf("    %-6s %3" PRIu64 "  %.*s", line->box, line->seq, (int)line->size, line->text);
	return CB_OK;
}

static void blame_and_restore(cb_store *store, cb_box *box)
{
	title("4. Who wrote this line, and an old file back");
	call("cb_blame(demo, \"/work/greeter/greet.py\")");
	uint64_t second = 0;
	MUST(cb_blame(box, "/work/greeter/greet.py", show_blame, &second, &err));
	told(second == newest(box), "line 2 came with the last merge, the others are as imported");
	call("cb_restore(demo, demo@clean, \"/work/greeter/greet.py\")");
	cb_box *clean = open_box(store, "demo@clean", "");
	MUST(cb_restore(box, clean, "/work/greeter/greet.py", NULL, &err));
	told(holds(box, "/work/greeter/greet.py", greet_py), "this one file is as it was at the checkpoint");
	call("cb_log(demo, \"/work/greeter/greet.py\")");
	show_log(box, "/work/greeter/greet.py", 0);
	call("cb_restore(demo, demo@clean)");
	MUST(cb_restore(box, clean, NULL, NULL, &err));
	told(!is_there(box, "/work/greeter/tests"), "the whole box is");
	call("cb_undo(demo, 0)");
	MUST(cb_undo(box, 0, NULL, &err));
	told(is_there(box, "/work/greeter/tests"), "and a restore can be undone like anything else");
	cb_box_close(clean);
}

/* ---- two agents on one box ---- */

static void disjoint(cb_box *ann, cb_box *bob)
{
	cb_commit_result result = CB_INIT(cb_commit_result);
	call("ann and bob begin, write different files, commit");
	cb_box *anns = NULL, *bobs = NULL;
	MUST(cb_txn_begin(ann, NULL, &anns, &err));
	MUST(cb_txn_begin(bob, NULL, &bobs, &err));
	write_text(anns, "/work/greeter/ann.txt", "ann was here\n");
	write_text(bobs, "/work/greeter/bob.txt", "bob was here\n");
	MUST(cb_txn_commit(anns, NULL, NULL, &err));
	MUST(cb_txn_commit(bobs, NULL, &result, &err));
	cb_box_close(anns);
	cb_box_close(bobs);
	told(result.merged && is_there(bob, "/work/greeter/ann.txt"), "both are in: the second commit was merged by file");
}

static void same_file(cb_store *store, cb_box *ann, cb_box *bob)
{
	cb_commit_result result = CB_INIT(cb_commit_result);
	call("ann and bob begin, write the same file, commit");
	cb_box *anns = NULL, *bobs = NULL;
	MUST(cb_txn_begin(ann, NULL, &anns, &err));
	MUST(cb_txn_begin(bob, NULL, &bobs, &err));
	write_text(anns, "/work/greeter/README", "Ann's words.\n");
	write_text(bobs, "/work/greeter/README", "Bob's words.\n");
	MUST(cb_txn_commit(anns, NULL, NULL, &err));
	told(cb_txn_commit(bobs, NULL, NULL, &err) == CB_CONFLICT, "the second commit is refused, and stays open:");
	printf("    %s\n", err.message);
	MUST(cb_txn_keep(bobs, NULL, &result, &err));
	cb_box_close(anns);
	cb_box_close(bobs);
	told(holds(bob, "/work/greeter/README", "Ann's words.\n"), "the box has what came first");
	cb_box *kept = open_box(store, result.fork, "");
	told(holds(kept, "/work/greeter/README", "Bob's words.\n"), "and the other's work is kept as a fork");
	cb_box_close(kept);
}

static void expected_version(cb_box *ann, cb_box *bob)
{
	cb_stat_info info = CB_INIT(cb_stat_info);
	MUST(cb_stat(ann, "/work/greeter/README", 0, &info, &err));
	call("cb_write_file(bob), then cb_write_file(ann, expected_version = what ann read)");
	write_text(bob, "/work/greeter/README", "Bob again.\n");
	cb_write_options options = CB_WITH(cb_write_options, .expected_version = info.version);
	told(cb_write_file(ann, "/work/greeter/README", "x", 1, &options, &err) == CB_VERSION,
	     "a stale version is refused, nothing is written");
}

static void two_agents(cb_store *store)
{
	title("5. Two agents on one box");
	cb_box *ann = open_box(store, "demo", "ann"), *bob = open_box(store, "demo", "bob");
	disjoint(ann, bob);
	same_file(store, ann, bob);
	expected_version(ann, bob);
	cb_box_close(ann);
	cb_box_close(bob);
}

/* ---- upkeep ---- */

static void complain(void *context, const char *line)
{
	(void)context;
	printf("    %s\n", line);
}

static void upkeep(cb_store *store, cb_box *box)
{
	title("6. Upkeep");
	uint64_t pruned = 0, complaints = 0;
	cb_prune_options keep = CB_WITH(cb_prune_options, .keep_steps = 3);
	call("cb_prune(demo, keep 3 steps)");
	MUST(cb_prune(box, &keep, &pruned, &err));
	show_log(box, NULL, 0);
	cb_box *clean = open_box(store, "demo@clean", "");
	told(pruned > 0 && is_there(clean, "/work/greeter/greet.py"),
	     "old steps are gone; the checkpoint and the fork points are not");
	cb_box_close(clean);
	call("cb_box_delete(\"try-a\")  cb_box_delete(\"try-b\")  cb_store_gc()");
	MUST(cb_box_delete(store, "try-a", &err));
	MUST(cb_box_delete(store, "try-b", &err));
	cb_gc_result gc = CB_INIT(cb_gc_result);
	MUST(cb_store_gc(store, &gc, &err));
	told(gc.boxes_freed == 2, "their space is free again");
	call("cb_store_check()");
	MUST(cb_store_check(store, complain, NULL, &complaints, &err));
	told(complaints == 0, "every sum, key, count and invariant holds");
}

int main(void)
{
	colour = isatty(STDOUT_FILENO) && !getenv("NO_COLOR");
	const char *temporary = getenv("TMPDIR");
	(void)snprintf(folder, sizeof(folder), "%s/cowbox-demo-XXXXXX", temporary && *temporary ? temporary : "/tmp");
	if (!mkdtemp(folder)) give_up("making a temporary folder", folder);
	(void)atexit(remove_folder);
	cb_store *store = NULL;
	cb_box *box = NULL;
	printf("cowbox %s, a store in %s\n", cb_version(), folder);
	MUST(cb_store_open(folder, NULL, &store, &err));
	MUST(cb_box_create(store, "demo", &box, &err));
	MUST(cb_box_who_set(box, "builder", &err));
	fill(box);
	break_and_undo(store, box);
	forks_and_merge(store, box);
	blame_and_restore(store, box);
	two_agents(store);
	upkeep(store, box);
	cb_box_close(box);
	cb_store_close(store);
	title("Done. The temporary store is removed.");
	return 0;
}
