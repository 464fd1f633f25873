/*
 * core_states.c: fork, checkpoint, restore, diff and log at 100 to 1,000,000 files, and after a thousand checkpoints, sibling forks and
 * nested forks; against git (a process per command, as an agent would run it) and fdatasync.
 *
 * What is promised is that the costs are those of the change, not of the box: so the same lines are shown for every size.
 */
#include "bench.h"

enum { CHANGES = 13, SMALL_BYTES = 80 };

static cb_store *store;
static cb_box *box, *base;
static uint64_t files;
static uint64_t newest;
static int flush_fd;
static char git_dir[BENCH_PATH];

/* ---- changes ---- */

/* Thirteen files in as many folders as there are; `from` moves them on. */
static uint64_t changed_file(uint64_t from, unsigned k)
{
	return (from * CHANGES + k) * 7919 % files;
}

static void change_13(cb_box *b, uint64_t from, uint64_t variant)
{
	char path[BENCH_PATH];
	cb_box *t = bench_begin(b);
	for (unsigned k = 0; k < CHANGES; k++) {
		bench_file_name(path, changed_file(from, k));
		bench_write(t, path, bench_bytes(variant + k), SMALL_BYTES);
	}
	bench_commit(t);
}

static void small_step(void *context, uint64_t i)
{
	bench_write(context, "/work/small", bench_bytes(i), SMALL_BYTES);
}

static void same_13(void *context, uint64_t i)
{
	change_13(context, 0, 100 + i);
}

static void other_13(void *context, uint64_t i)
{
	change_13(context, i, 100 + i);
}

/* ---- operations ---- */

static void numbered(char *out, const char *prefix, uint64_t i)
{
	(void)snprintf(out, BENCH_PATH, "%s%llu", prefix, (unsigned long long)i);
}

static void do_fork(void *context, uint64_t i)
{
	char name[BENCH_PATH];
	numbered(name, context, i);
	CB(cb_box_fork(store, "demo", name, NULL, &bench_err));
}

static void read_one(cb_box *b, uint64_t i)
{
	char path[BENCH_PATH], to[SMALL_BYTES];
	size_t n = 0;
	bench_file_name(path, i * 31 % files);
	CB(cb_read_at(b, path, 0, to, sizeof(to), &n, &bench_err));
	NEED(n == SMALL_BYTES);
}

static void do_fork_and_use(void *context, uint64_t i)
{
	const char *const *names = context; /* origin, prefix */
	char name[BENCH_PATH];
	cb_box *b = NULL;
	numbered(name, names[1], i);
	CB(cb_box_fork(store, names[0], name, &b, &bench_err));
	read_one(b, i);
	small_step(b, i);
	cb_box_close(b);
}

static void do_checkpoint(void *context, uint64_t i)
{
	char name[BENCH_PATH];
	numbered(name, context, i);
	CB(cb_checkpoint_save(box, name, 0, true, &bench_err));
}

static void do_checkpoint_synced(void *context, uint64_t i)
{
	char name[BENCH_PATH];
	numbered(name, context, i);
	CB(cb_checkpoint_save(box, name, 0, false, &bench_err));
}

static void step_box(void *context, uint64_t i)
{
	(void)context;
	small_step(box, i);
}

static void do_restore(void *context, uint64_t i)
{
	(void)context;
	(void)i;
	CB(cb_restore(box, base, NULL, NULL, &bench_err));
}

static cb_code count_change(void *context, const cb_change *change, cb_error *err)
{
	(void)change;
	(void)err;
	++*(unsigned *)context;
	return CB_OK;
}

static void step_of_13_changes(void *context, uint64_t i)
{
	(void)context;
	cb_box_info info = CB_INIT(cb_box_info);
	same_13(box, i);
	CB(cb_box_info_get(box, &info, &bench_err));
	newest = info.seq;
}

static void do_diff_step(void *context, uint64_t i)
{
	(void)context;
	(void)i;
	unsigned n = 0;
	CB(cb_diff_step(box, newest, NULL, count_change, &n, &bench_err));
	NEED(n == (files < CHANGES ? files : CHANGES));
}

static void do_diff(void *context, uint64_t i)
{
	(void)i;
	unsigned n = 0;
	CB(cb_diff(base, context, NULL, count_change, &n, &bench_err));
	NEED(n >= 1);
}

static cb_code count_step(void *context, const cb_step *step, cb_error *err)
{
	(void)step;
	(void)err;
	++*(unsigned *)context;
	return CB_OK;
}

static void do_log(void *context, uint64_t i)
{
	(void)context;
	(void)i;
	unsigned n = 0;
	cb_log_options options = CB_WITH(cb_log_options, .max_steps = 20);
	CB(cb_log(box, &options, count_step, &n, NULL, &bench_err));
}

/* One to a hundred steps back: a state far from a kept root takes longer. */
static void do_open_old(void *context, uint64_t i)
{
	char address[BENCH_PATH];
	cb_box *old = NULL;
	numbered(address, context, 1 + i * 37 % 100);
	CB(cb_box_open(store, address, &old, &bench_err));
	cb_box_close(old);
}

static void do_read(void *context, uint64_t i)
{
	read_one(context, i);
}

static void append_16k(void *context, uint64_t i)
{
	(void)context;
	NEED(pwrite(flush_fd, bench_bytes(i), 16384, (off_t)(i * 16384)) == 16384);
}

static void do_flush(void *context, uint64_t i)
{
	(void)context;
	(void)i;
	SYS(fdatasync(flush_fd));
}

static void do_step_and_checkpoint(void *context, uint64_t i)
{
	other_13(box, i);
	do_checkpoint(context, i);
}

/* ---- git ---- */

static void git_file(const char *path, uint64_t variant)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	SYS(fd);
	NEED(write(fd, bench_bytes(variant), SMALL_BYTES) == SMALL_BYTES);
	SYS(close(fd));
}

static void git_change_13(void *context, uint64_t i)
{
	(void)context;
	char path[BENCH_PATH * 2], name[BENCH_PATH];
	for (unsigned k = 0; k < CHANGES; k++) {
		bench_file_name(name, changed_file(i, k));
		(void)snprintf(path, sizeof(path), "%s%s", git_dir, name);
		git_file(path, 100 + i * 17 + k);
	}
}

static void git_commit(void *context, uint64_t i)
{
	(void)context;
	(void)i;
	BENCH_RUN("git", "-C", git_dir, "add", "-A");
	BENCH_RUN("git", "-C", git_dir, "commit", "-qm", "x");
}

static void git_branch(void *context, uint64_t i)
{
	(void)context;
	char name[BENCH_PATH];
	numbered(name, "b", i);
	BENCH_RUN("git", "-C", git_dir, "branch", name);
}

static void git_checkout(void *context, uint64_t i)
{
	(void)context;
	BENCH_RUN("git", "-C", git_dir, "checkout", "-q", i % 2 ? "one" : "two");
}

static void git_diff(void *context, uint64_t i)
{
	(void)context;
	(void)i;
	BENCH_RUN("git", "-C", git_dir, "diff-tree", "-r", "-s", "one", "two");
}

static void git_fill(void)
{
	char path[BENCH_PATH * 2], name[BENCH_PATH];
	(void)bench_path(git_dir, "states-git");
	BENCH_RUN("git", "init", "-q", git_dir);
	(void)snprintf(path, sizeof(path), "%s/work", git_dir);
	SYS(mkdir(path, 0755));
	for (uint64_t i = 0; i < files; i++) {
		if (i % BENCH_PER_FOLDER == 0) {
			(void)snprintf(path, sizeof(path), "%s/work/d%llu", git_dir, (unsigned long long)(i / BENCH_PER_FOLDER));
			SYS(mkdir(path, 0755));
		}
		bench_file_name(name, i);
		(void)snprintf(path, sizeof(path), "%s%s", git_dir, name);
		git_file(path, i);
	}
	git_commit(NULL, 0);
	BENCH_RUN("git", "-C", git_dir, "branch", "one");
	git_change_13(NULL, 5000);
	git_commit(NULL, 0);
	BENCH_RUN("git", "-C", git_dir, "branch", "two");
}

/* ---- one size ---- */

/* The present state becomes the one that restore and diff go back to. */
static void start_from(const char *name)
{
	char address[BENCH_PATH];
	cb_box_close(base);
	base = NULL;
	CB(cb_checkpoint_save(box, name, 0, true, &bench_err));
	(void)snprintf(address, sizeof(address), "demo@%s", name);
	CB(cb_box_open(store, address, &base, &bench_err));
}

static void git_compare(void)
{
	static char named[] = "g";
	git_fill();
	contender commit[] = {{"", do_step_and_checkpoint, .context = named, .ops = 20},
	                      {"git add -A + git commit", git_commit, .prepare = git_change_13, .ops = 1}};
	bench_compare("13 changes + checkpoint --no-sync", commit, 2, NULL);
	static char fork_name[] = "gf";
	contender fork_[] = {{"", do_fork, .prepare = step_box, .context = fork_name, .ops = 20},
	                     {"git branch", git_branch, .ops = 2}};
	bench_compare("fork", fork_, 2, NULL);
	start_from("git");
	contender restore[] = {{"", do_restore, .prepare = same_13, .context = box, .ops = 20},
	                       {"git checkout (13 files)", git_checkout, .ops = 2}};
	bench_compare("restore, 13 changed files", restore, 2, NULL);
	change_13(box, 3, 7000);
	contender diff[] = {{"", do_diff, .context = box, .ops = 20}, {"git diff-tree", git_diff, .ops = 2}};
	bench_compare("diff of two states", diff, 2, NULL);
	bench_remove(git_dir);
}

static void open_size(uint64_t n)
{
	char path[BENCH_PATH];
	files = n;
	store = bench_store(bench_path(path, "states-ours"), false);
	CB(cb_box_create(store, "demo", &box, &bench_err));
	double start = bench_now_us();
	bench_fill(box, files, SMALL_BYTES);
	bench_value("write all, per file (4,000 to a step)", "us", (bench_now_us() - start) / (double)files, NULL, 0, 0);
	start_from("base");
	change_13(box, 0, 50);
	SYS(flush_fd = open(bench_path(path, "states-flush"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
}

static void close_size(void)
{
	char path[BENCH_PATH];
	cb_box_close(base);
	base = NULL;
	cb_box_close(box);
	cb_store_close(store);
	SYS(close(flush_fd));
	bench_remove(bench_path(path, "states-ours"));
}

static void one(const char *what, bench_op op, bench_op prepare, void *context, unsigned ops, double target_us)
{
	contender c = {"", op, prepare, context, ops};
	bench_compare(what, &c, 1, &target_us);
}

static void checkpoints(void)
{
	static char plain[] = "c", synced[] = "s";
	contender c[] = {
		{"", do_checkpoint, .prepare = step_box, .context = plain, .ops = 40},
		{"fdatasync after 16 KiB", do_flush, .prepare = append_16k, .ops = 40},
		{"", do_checkpoint_synced, .prepare = step_box, .context = synced, .ops = 40},
	};
	bench_measure(c, 3);
	bench_row("checkpoint --no-sync", &c[0], NULL, 50);
	bench_row("checkpoint, flushed", &c[2], &c[1], 0);
	double added[64];
	for (unsigned r = 0; r < bench.rounds; r++) added[r] = c[2].rounds[r] - c[0].rounds[r];
	bench_value("what flushing adds to it", "us", bench_median_of(added, bench.rounds), c[1].name, bench_median(&c[1]), 1.5);
	bench_done(c, 3);
}

static void measure_size(void)
{
	static char fork_name[] = "f", old[] = "demo@-";
	const char *names[2] = {"demo", "u"};
	one("diff of the newest step (13 changes)", do_diff_step, step_of_13_changes, NULL, 20, 100);
	one("diff of two states (13 changes)", do_diff, NULL, box, 20, 100);
	one("restore, the same 13 files", do_restore, same_13, box, 30, 100);
	one("fork", do_fork, step_box, fork_name, 60, 50);
	one("fork + open + read + write", do_fork_and_use, step_box, names, 30, 0);
	checkpoints();
	one("log, the newest 20 steps", do_log, NULL, NULL, 20, 0);
	one("open a state 1-100 steps back", do_open_old, NULL, old, 20, 0);
	contender read = {"", do_read, .context = box, .ops = 2000, .whole = true};
	bench_compare("read a small file", &read, 1, NULL);
	one("write a small file, a step", small_step, NULL, box, 200, 0);
}

static void size_section(uint64_t n, bool with_git)
{
	char title[BENCH_PATH];
	(void)snprintf(title, sizeof(title), "states of a box of %llu files", (unsigned long long)n);
	if (!bench_section(title)) return;
	open_size(n);
	measure_size();
	if (with_git) git_compare();
	/* Last: it leaves a box in which every file has another version than in `base`. */
	one("restore, other 13 files each time", do_restore, other_13, box, 30, 0);
	close_size();
}

/* ---- long histories ---- */

enum { MANY = 1000 };

static double median_of_loop(bench_op op, void *context, unsigned n)
{
	double *took = calloc(n, sizeof(*took));
	NEED(took);
	for (unsigned i = 0; i < n; i++) {
		double start = bench_now_us();
		op(context, i);
		took[i] = bench_now_us() - start;
	}
	double median = bench_quantile(took, n, 0.5);
	free(took);
	return median;
}

static void nest(void *context, uint64_t i)
{
	(void)context;
	char origin[BENCH_PATH], name[BENCH_PATH];
	cb_box *b = NULL;
	numbered(origin, "nest", i);
	numbered(name, "nest", i + 1);
	CB(cb_box_fork(store, i ? origin : "demo", name, &b, &bench_err));
	small_step(b, i);
	cb_box_close(b);
}

typedef struct usage {
	double fork, use, read, write;
} usage;

static usage use_of(const char *address, const char *prefix)
{
	usage u;
	const char *names[2] = {address, prefix};
	cb_box *b = NULL;
	CB(cb_box_open(store, address, &b, &bench_err));
	u.use = median_of_loop(do_fork_and_use, names, 100);
	u.read = median_of_loop(do_read, b, 2000);
	u.write = median_of_loop(small_step, b, 300);
	cb_box_close(b);
	return u;
}

static void compare_usage(const char *what, const usage *now, const usage *before)
{
	char line[BENCH_PATH];
	(void)snprintf(line, sizeof(line), "%s: fork + open + read + write", what);
	bench_value(line, "us", now->use, "the same before", before->use, 0);
	(void)snprintf(line, sizeof(line), "%s: read", what);
	bench_value(line, "us", now->read, "the same before", before->read, 0);
	(void)snprintf(line, sizeof(line), "%s: write", what);
	bench_value(line, "us", now->write, "the same before", before->write, 0);
}

static void histories(void)
{
	if (!bench_section("long histories (10,000 files; medians of single operations)")) return;
	static char checkpoint[] = "many", sibling[] = "sibling";
	open_size(10000);
	usage first = use_of("demo", "first");
	double took = median_of_loop(do_step_and_checkpoint, checkpoint, MANY);
	bench_value("13 changes + checkpoint, 1,000 times", "us", took, NULL, 0, 0);
	usage later = use_of("demo", "later");
	compare_usage("after 1,000 checkpoints", &later, &first);
	took = median_of_loop(do_fork, sibling, MANY);
	bench_value("fork, 1,000 siblings", "us", took, NULL, 0, 50);
	later = use_of("demo", "sideways");
	compare_usage("after 1,000 siblings", &later, &first);
	took = median_of_loop(nest, NULL, MANY);
	bench_value("fork of the last fork + open + write, 1,000 deep", "us", took, NULL, 0, 0);
	later = use_of("nest1000", "deep");
	compare_usage("1,000 deep", &later, &first);
	close_size();
}

int main(int argc, char **argv)
{
	bench_init(argc, argv);
	(void)setenv("GIT_CONFIG_NOSYSTEM", "1", 1);
	(void)setenv("GIT_AUTHOR_NAME", "bench", 1);
	(void)setenv("GIT_AUTHOR_EMAIL", "bench@example.org", 1);
	(void)setenv("GIT_COMMITTER_NAME", "bench", 1);
	(void)setenv("GIT_COMMITTER_EMAIL", "bench@example.org", 1);
	bool git = system("git --version >/dev/null 2>&1") == 0;
	if (!git) bench_note("git is not installed: no comparison with it");
	size_section(100, git);
	size_section(10000, git);
	size_section(100000, git && bench.full);
	if (bench.full) size_section(1000000, false);
	histories();
	return 0;
}
