/*
 * cli.c: the command line as it is used: a process per command. What an agent waits for is the whole of it: start, open, work, close.
 *
 * The peers are the tools one would use on a plain folder (cat, cp, grep, ripgrep, tar) and git on a repository of the same files. cowbox
 * records a step and flushes at the end of a changing command; cp does neither, so "cp + sync" stands beside it.
 */
#include "bench.h"

enum { FILES = 5000, PER_FOLDER = 100, FILE_BYTES = 4000, COLD_OPS = 20, STEPS = 200 };

static char cowbox_program[BENCH_PATH], store_dir[BENCH_PATH], tree_dir[BENCH_PATH], git_dir[BENCH_PATH], out_dir[BENCH_PATH];

/* One command, its output thrown away. */
static void run(const char *const *words)
{
	char *argv[16] = {NULL};
	posix_spawn_file_actions_t actions;
	pid_t pid = 0;
	size_t n = 0;
	while (words[n]) n++;
	NEED(n < 16);
	memcpy(argv, words, (n + 1) * sizeof(*words));
	SYS(-posix_spawn_file_actions_init(&actions));
	SYS(-posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0));
	SYS(-posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0));
	int error = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
	if (error) bench_die(argv[0], strerror(error));
	(void)posix_spawn_file_actions_destroy(&actions);
	bench_finish(pid, argv[0]);
}

static void run_words(void *context, uint64_t i)
{
	(void)i;
	run(context);
}

static void remove_out(void *context, uint64_t i)
{
	(void)context;
	(void)i;
	bench_remove(out_dir);
}

static bool have(const char *program)
{
	char command[128];
	(void)snprintf(command, sizeof(command), "command -v %s >/dev/null 2>&1", program);
	return system(command) == 0;
}

/* ---- set-up ---- */

/* Text in lines of words, a rare one in every hundredth file. */
static void fill_tree(void)
{
	char path[BENCH_PATH + 64], text[FILE_BYTES + 1];
	SYS(mkdir(tree_dir, 0755));
	for (unsigned i = 0; i < FILES; i++) {
		if (i % PER_FOLDER == 0) {
			(void)snprintf(path, sizeof(path), "%s/d%u", tree_dir, i / PER_FOLDER);
			SYS(mkdir(path, 0755));
		}
		(void)snprintf(path, sizeof(path), "%s/d%u/f%u.txt", tree_dir, i / PER_FOLDER, i);
		for (size_t k = 0; k < FILE_BYTES; k++)
			text[k] = k % 61 == 60 ? '\n' : k % 7 == 6 ? ' ' : (char)('a' + bench_random() % 26);
		if (i % 100 == 0) memcpy(text + 1000, " needle_in_hay ", 15);
		int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
		SYS(fd);
		SYS(write(fd, text, FILE_BYTES));
		SYS(close(fd));
	}
}

static void fill_boxes(void)
{
	char path[64], command[4 * BENCH_PATH];
	cb_store *s = bench_store(store_dir, false);
	cb_box *b = NULL;
	CB(cb_box_create(s, "demo", &b, &bench_err));
	for (unsigned i = 0; i < STEPS; i++) {
		(void)snprintf(path, sizeof(path), "/work/f%u.txt", i % 20);
		bench_write(b, path, bench_bytes(i), BENCH_KB);
	}
	cb_box_close(b);
	CB(cb_box_create(s, "tree", NULL, &bench_err));
	cb_store_close(s);
	(void)snprintf(
		command, sizeof(command),
		"mkdir '%s' && cd '%s' && git init -q . && git config user.email bench@localhost && git config user.name bench && "
		"for i in $(seq %d); do echo $i > f$((i %% 20)).txt; git add . && git commit -qm step$i; done",
		git_dir, git_dir, STEPS);
	if (system(command) != 0) bench_die("git", "could not make the repository");
}

/* ---- sections ---- */

static void cold(void)
{
	char host[BENCH_PATH + 16], copy[BENCH_PATH + 16], gitwork[BENCH_PATH + 16], commit[4 * BENCH_PATH];
	if (!bench_section("a process per command: read, write, log (box of 200 steps)")) return;
	(void)snprintf(host, sizeof(host), "%s/d0/f0.txt", tree_dir);
	(void)snprintf(copy, sizeof(copy), "%s/copy", bench.dir);
	(void)snprintf(gitwork, sizeof(gitwork), "-C%s", git_dir);
	(void)snprintf(commit, sizeof(commit), "cd '%s' && date +%%N > f1.txt && git commit -qam step", git_dir);
	const char *cat[] = {cowbox_program, "cat", "demo:/work/f1.txt", NULL}, *plain_cat[] = {"cat", host, NULL};
	const char *git_show[] = {"git", "-C", git_dir, "show", "HEAD:f1.txt", NULL};
	contender reads[] = {{.name = "cat", .op = run_words, .context = plain_cat, .ops = COLD_OPS},
	                     {.name = "git show HEAD:file", .op = run_words, .context = git_show, .ops = COLD_OPS}};
	contender read_all[] = {{.name = "cowbox cat", .op = run_words, .context = cat, .ops = COLD_OPS}, reads[0], reads[1]};
	bench_compare("cowbox cat", read_all, 3, NULL);
	const char *write_[] = {cowbox_program, "write", "demo:/work/f1.txt", "--file", host, NULL},
		   *cp[] = {"cp", host, copy, NULL};
	const char *cp_sync[] = {"sh", "-c", "cp \"$0\" \"$1\" && sync -d \"$1\"", host, copy, NULL};
	const char *git_commit[] = {"sh", "-c", commit, NULL};
	contender writes[] = {{.name = "cowbox write", .op = run_words, .context = write_, .ops = COLD_OPS},
	                      {.name = "cp", .op = run_words, .context = cp, .ops = COLD_OPS},
	                      {.name = "sh: cp + sync", .op = run_words, .context = cp_sync, .ops = COLD_OPS},
	                      {.name = "sh: git commit -a", .op = run_words, .context = git_commit, .ops = COLD_OPS}};
	bench_compare("cowbox write", writes, 4, NULL);
	const char *log_[] = {cowbox_program, "log", "demo", "-n", "50", NULL};
	const char *git_log[] = {"git", "-C", git_dir, "log", "-n", "50", NULL};
	contender logs[] = {{.name = "cowbox log", .op = run_words, .context = log_, .ops = COLD_OPS},
	                    {.name = "git log -n 50", .op = run_words, .context = git_log, .ops = COLD_OPS}};
	bench_compare("cowbox log -n 50", logs, 2, NULL);
}

static void new_box(void *context, uint64_t i)
{
	(void)context;
	(void)i;
	const char *remove[] = {cowbox_program, "delete", "fresh", "--yes", "--quiet", NULL};
	cb_store *s = bench_store(store_dir, false);
	cb_box *b = NULL;
	bool there = cb_box_open(s, "fresh", &b, &bench_err) == CB_OK;
	cb_box_close(b);
	cb_store_close(s);
	if (there) run(remove);
}

static void transfer(void)
{
	if (!bench_section("5,000 files of 4 kB to and from a box")) return;
	const char *new_[] = {cowbox_program, "new", "fresh", "--from", tree_dir, "--quiet", NULL};
	const char *cp[] = {"cp", "-r", tree_dir, out_dir, NULL};
	const char *cp_sync[] = {"sh", "-c", "cp -r \"$0\" \"$1\" && sync -f \"$1\"", tree_dir, out_dir, NULL};
	const double targets[] = {1.2, 0};
	contender imports[] = {{.name = "cowbox new --from", .op = run_words, .prepare = new_box, .context = new_, .ops = 1},
	                       {.name = "cp -r", .op = run_words, .prepare = remove_out, .context = cp, .ops = 1},
	                       {.name = "cp -r + sync", .op = run_words, .prepare = remove_out, .context = cp_sync, .ops = 1}};
	bench_compare("cowbox new --from", imports, 3, targets);
	const char *again[] = {cowbox_program, "import", tree_dir, "fresh:/work", NULL},
		   *find[] = {"find", tree_dir, "-newer", "/", NULL};
	contender agains[] = {{.name = "again", .op = run_words, .context = again, .ops = 1},
	                      {.name = "find -newer", .op = run_words, .context = find, .ops = 1}};
	bench_compare("cowbox import, nothing changed", agains, 2, NULL);
	const char *export_[] = {cowbox_program, "export", "fresh:/work", out_dir, NULL};
	contender exports[] = {{.name = "cowbox export", .op = run_words, .prepare = remove_out, .context = export_, .ops = 1},
	                       {.name = "cp -r", .op = run_words, .prepare = remove_out, .context = cp, .ops = 1}};
	bench_compare("cowbox export", exports, 2, targets);
	char tar_file[BENCH_PATH + 16];
	(void)snprintf(tar_file, sizeof(tar_file), "%s/tree.tar.zst", bench.dir);
	const char *pack[] = {cowbox_program, "pack", "fresh", NULL},
		   *tar[] = {"tar", "--zstd", "-cf", tar_file, "-C", tree_dir, ".", NULL};
	contender packs[] = {{.name = "cowbox pack", .op = run_words, .context = pack, .ops = 1},
	                     {.name = "tar --zstd -c", .op = run_words, .context = tar, .ops = 1}};
	bench_compare("cowbox pack", packs, have("zstd") ? 2 : 1, NULL);
}

static void search_for(const char *what, const char *pattern)
{
	const char *ours[] = {cowbox_program, "grep", pattern, "fresh:/work", NULL},
		   *grep[] = {"grep", "-rE", pattern, tree_dir, NULL};
	const char *grep_p[] = {"grep", "-rP", pattern, tree_dir, NULL}, *rg[] = {"rg", "-j1", pattern, tree_dir, NULL};
	contender c[] = {{.name = "cowbox grep", .op = run_words, .context = ours, .ops = 3},
	                 {.name = "grep -rE", .op = run_words, .context = grep, .ops = 3},
	                 {.name = "grep -rP", .op = run_words, .context = grep_p, .ops = 3},
	                 {.name = "rg -j1", .op = run_words, .context = rg, .ops = 3}};
	bench_compare(what, c, have("rg") ? 4 : 3, NULL);
}

static void search(void)
{
	if (!bench_section("grep over 5,000 files (20 MB)")) return;
	search_for("a plain word", "needle_in_hay");
	search_for("an expression", "n[a-f]edle_[a-z]+_hay");
	search_for("an expression without a literal", "[aeiou]{5} [xyz]{2}");
}

int main(int argc, char **argv)
{
	bench_init(argc, argv);
	char self[BENCH_PATH];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	SYS(n);
	self[n] = 0;
	*strrchr(self, '/') = 0;
	(void)snprintf(cowbox_program, sizeof(cowbox_program), "%.*s/../cowbox", BENCH_PATH - 16, self);
	(void)bench_path(store_dir, "store");
	(void)bench_path(tree_dir, "tree");
	(void)bench_path(git_dir, "git");
	(void)bench_path(out_dir, "out");
	SYS(setenv("COWBOX_STORE", store_dir, 1));
	fill_tree();
	fill_boxes();
	cold();
	transfer();
	if (bench.only && !strstr("5,000 files of 4 kB to and from a box", bench.only)) {
		const char *new_[] = {cowbox_program, "new", "fresh", "--from", tree_dir, "--quiet", NULL};
		run(new_);
	}
	search();
	return 0;
}
