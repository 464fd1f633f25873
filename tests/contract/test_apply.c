/* test_apply.c: what a box changed, back on the host: what is written, what is refused, what is held. */
#include <cowbox/cowbox.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "harness/boxes.h"
#include "harness/tree_text.h"

static cb_store *s;
static cb_box *b;
static cb_error err;
static char folder[4096];
static buf said; /* "W A a.txt\n": status, kind, path of each item */

static const char *place(const char *name)
{
	char *path = NULL;
	CHECK(asprintf(&path, "%s/%s", folder, name) > 0);
	return test_keep(path);
}

/* A project on the host, and a box imported from it. */
static void begin(void)
{
	s = test_store_open(false);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	(void)snprintf(folder, sizeof(folder), "%s/project", test_tmpdir());
	must_run("mkdir '%s' && cd '%s' && mkdir -p src/deep lib && printf one >a.txt && printf two >src/b.txt && printf three "
	         ">src/deep/c.txt"
	         " && printf lib >lib/l && ln -s a.txt link && printf run >run.sh && chmod 644 a.txt src/b.txt run.sh",
	         folder, folder);
	cb_import_options o = CB_WITH(cb_import_options, .link = true);
	CHECK_OK(cb_import(b, folder, &o, NULL, &err));
}

static void end(void)
{
	must_run("test -z \"$(find '%s' -name '.cowbox-*')\"", folder);
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
	buf_done(&said);
}

static cb_code say(void *context, const cb_apply_item *item, cb_error *e)
{
	(void)context;
	static const char letters[] = " WSHC";
	CB_TRY(buf_printf(&said, e, "%c %c %s", letters[item->status], item->kind, item->path));
	if (item->new_executable) CB_TRY(buf_append_str(&said, " executable", e));
	if (item->new_symlink) CB_TRY(buf_printf(&said, e, " -> %s%s", item->target, item->leaves ? " leaves" : ""));
	return buf_append_byte(&said, '\n', e);
}

static const char *words(void)
{
	CHECK_OK(buf_append_byte(&said, 0, &err));
	said.size--;
	return (const char *)said.bytes;
}

static cb_apply_result result;

static cb_code apply_box(cb_box *from, const cb_apply_options *o)
{
	buf_clear(&said);
	said.max_size = 1 << 20;
	result = CB_INIT(cb_apply_result);
	return cb_apply(from, o, say, NULL, &result, &err);
}

static cb_code apply(const cb_apply_options *o)
{
	return apply_box(b, o);
}

static void host_write(const char *name, const char *text)
{
	FILE *f = fopen(place(name), "w");
	CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static const char *host_read(const char *name)
{
	static char text[4096];
	FILE *f = fopen(place(name), "r");
	CHECK_MSG(f, "no '%s' on the host", name);
	size_t n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = 0;
	(void)fclose(f);
	return text;
}

static bool on_host(const char *name)
{
	struct stat st;
	return lstat(place(name), &st) == 0;
}

static void check_equal_trees(void)
{
	check_same_tree(tree_of_host(folder, TREE_NO_TIMES | TREE_NO_LINKS | TREE_NO_ROOT),
	                tree_of_box(b, "/work", TREE_NO_TIMES | TREE_NO_LINKS | TREE_NO_ROOT));
}

TEST(changes_go_back_and_nothing_else)
{
	begin();
	CHECK_CODE(apply(NULL), CB_NOTHING);
	must_write(b, "/work/a.txt", "ONE");
	must_write(b, "/work/new/n.txt", "new");
	CHECK_OK(cb_unlink(b, "/work/src/b.txt", &err));
	CHECK_OK(cb_rename(b, "/work/lib", "/work/library", 0, &err));
	CHECK_OK(cb_utimens(b, "/work/a.txt", CB_TIME_OMIT, 1234567890123456789, 0, &err));
	must_write(b, "/home/agent/secret", "stays");
	cb_apply_options dry = CB_WITH(cb_apply_options, .dry_run = true);
	char *before = tree_of_host(folder, 0);
	CHECK_OK(apply(&dry));
	CHECK_STR(words(), "W M a.txt\nW D lib\nW D lib/l\nW A library\nW A library/l\nW A new\nW A new/n.txt\nW D src/b.txt\n");
	check_same_tree(before, tree_of_host(folder, 0));
	uint64_t seq = must_seq(b);
	CHECK_OK(apply(NULL));
	CHECK_U64(result.written, 5);
	CHECK_U64(result.removed, 3);
	CHECK_U64(result.seq, seq + 1);
	check_equal_trees();
	struct stat st;
	CHECK(stat(place("a.txt"), &st) == 0 && st.st_mtim.tv_sec == 1234567890 && st.st_mtim.tv_nsec == 123456789);
	CHECK_CODE(apply(NULL), CB_NOTHING);
	CHECK_STR(words(), "");
	/* the record is no change: undo takes back what came before it */
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	CHECK(!exists(b, "/home/agent/secret"));
	char *name = NULL;
	CHECK_OK(cb_folder_box(s, folder, &name, &err));
	CHECK_STR(name, "demo");
	cb_free(name);
	end();
}

TEST(what_changed_on_the_host_is_refused_and_survives)
{
	begin();
	must_write(b, "/work/a.txt", "box");
	must_write(b, "/work/src/b.txt", "box");
	must_write(b, "/work/own", "box");
	CHECK_OK(cb_remove(b, "/work/lib", &err));
	host_write("a.txt", "HOST");
	host_write("own", "host's own");
	host_write("lib/extra", "unknown");
	char *before = tree_of_host(folder, 0);
	CHECK_CODE(apply(NULL), CB_CONFLICT);
	CHECK_STR(words(), "C M a.txt\nC D lib\nW D lib/l\nC A own\nW M src/b.txt\n");
	check_same_tree(before, tree_of_host(folder, 0));
	/* chosen paths that did not change go through */
	const char *const only[] = {"/work/src", "src/deep"};
	cb_apply_options o = CB_WITH(cb_apply_options, .paths = only, .path_count = 2);
	CHECK_OK(apply(&o));
	CHECK_STR(words(), "W M src/b.txt\n");
	CHECK_STR(host_read("src/b.txt"), "box");
	CHECK_STR(host_read("a.txt"), "HOST");
	/* force takes the host's files, never what the box does not know */
	const char *const files[] = {"a.txt", "own"};
	cb_apply_options force = CB_WITH(cb_apply_options, .paths = files, .path_count = 2, .force = true);
	CHECK_OK(apply(&force));
	CHECK_STR(host_read("a.txt"), "box");
	CHECK_STR(host_read("own"), "box");
	cb_apply_options all = CB_WITH(cb_apply_options, .force = true);
	CHECK_CODE(apply(&all), CB_CONFLICT);
	CHECK_STR(host_read("lib/extra"), "unknown");
	CHECK_STR(host_read("lib/l"), "lib");
	/* once the user moved it away the folder goes */
	CHECK(unlink(place("lib/extra")) == 0);
	CHECK_OK(apply(NULL));
	CHECK(!on_host("lib"));
	check_equal_trees();
	end();
}

TEST(the_same_change_on_both_sides_is_no_conflict)
{
	begin();
	must_write(b, "/work/a.txt", "same");
	host_write("a.txt", "same");
	CHECK_OK(cb_unlink(b, "/work/run.sh", &err));
	CHECK(unlink(place("run.sh")) == 0);
	must_write(b, "/work/both/x", "1");
	must_run("mkdir -m 700 '%s/both' && printf 1 >'%s/both/x' && chmod 644 '%s/both/x'", folder, folder, folder);
	CHECK_CODE(apply(NULL), CB_NOTHING);
	CHECK_STR(words(), "S M a.txt\nS A both\nS A both/x\nS D run.sh\n");
	/* it is known now: a later change of the host alone is the host's */
	host_write("a.txt", "later");
	CHECK_CODE(apply(NULL), CB_NOTHING);
	CHECK_STR(words(), "");
	CHECK_STR(host_read("a.txt"), "later");
	end();
}

TEST(modes_alone)
{
	begin();
	CHECK_OK(cb_chmod(b, "/work/run.sh", 04755, 0, &err));
	CHECK_OK(cb_chmod(b, "/work/src/deep", 0700, 0, &err));
	struct stat before, after;
	CHECK(stat(place("run.sh"), &before) == 0);
	CHECK_OK(apply(NULL));
	CHECK_STR(words(), "W T run.sh executable\nW T src/deep\n");
	CHECK(stat(place("run.sh"), &after) == 0);
	CHECK(after.st_ino == before.st_ino && (after.st_mode & 07777) == 0755);
	CHECK(stat(place("src/deep"), &after) == 0 && (after.st_mode & 07777) == 0700);
	CHECK_CODE(apply(NULL), CB_NOTHING);
	/* setuid bits never leave the box */
	must_write(b, "/work/tool", "x");
	CHECK_OK(cb_chmod(b, "/work/tool", 06755, 0, &err));
	CHECK_OK(apply(NULL));
	CHECK(stat(place("tool"), &after) == 0 && (after.st_mode & 07777) == 0755);
	/* changed on both sides */
	CHECK_OK(cb_chmod(b, "/work/tool", 0700, 0, &err));
	CHECK(chmod(place("tool"), 0711) == 0);
	CHECK_CODE(apply(NULL), CB_CONFLICT);
	end();
}

TEST(types_change)
{
	begin();
	CHECK_OK(cb_unlink(b, "/work/a.txt", &err));
	must_write(b, "/work/a.txt/inside", "folder now"); /* file -> folder */
	CHECK_OK(cb_remove(b, "/work/src", &err));
	must_write(b, "/work/src", "file now"); /* folder -> file */
	CHECK_OK(cb_unlink(b, "/work/link", &err));
	must_write(b, "/work/link/in", "was a link"); /* link -> folder */
	CHECK_OK(cb_remove(b, "/work/lib", &err));
	CHECK_OK(cb_symlink(b, "../outside", "/work/lib", &err)); /* folder -> link */
	CHECK_OK(cb_unlink(b, "/work/run.sh", &err));
	CHECK_OK(cb_symlink(b, "/bin/true", "/work/run.sh", &err)); /* file -> link */
	CHECK_OK(apply(NULL));
	CHECK(strstr(words(), "W M lib -> ../outside leaves\n") && strstr(words(), "W M run.sh -> /bin/true leaves\n"));
	check_equal_trees();
	CHECK_CODE(apply(NULL), CB_NOTHING);
	CHECK_OK(cb_unlink(b, "/work/lib", &err));
	must_write(b, "/work/lib", "file again"); /* link -> file */
	CHECK_OK(apply(NULL));
	check_equal_trees();
	end();
}

TEST(no_symbolic_link_of_the_host_is_followed)
{
	begin();
	must_run("mkdir '%s/elsewhere' && printf two >'%s/elsewhere/b.txt'", test_tmpdir(), test_tmpdir());
	must_run("cd '%s' && mv src moved && ln -s ../elsewhere src", folder);
	must_write(b, "/work/src/b.txt", "box");
	must_write(b, "/work/src/new", "box");
	CHECK_CODE(apply(NULL), CB_CONFLICT);
	cb_apply_options force = CB_WITH(cb_apply_options, .force = true);
	CHECK_CODE(apply(&force), CB_CONFLICT);
	must_run("test \"$(cat '%s/elsewhere/b.txt')\" = two && test ! -e '%s/elsewhere/new'", test_tmpdir(), test_tmpdir());
	end();
}

/* Another box whose folder lies above this one's may have put it there. */
TEST(nor_one_in_the_place_of_the_folder)
{
	begin();
	must_write(b, "/work/new", "box");
	must_run("mv '%s' '%s.moved' && mkdir '%s/elsewhere' && ln -s elsewhere '%s'", folder, folder, test_tmpdir(), folder);
	CHECK_CODE(apply(NULL), CB_LOOP);
	CHECK(strstr(err.message, "elsewhere") && strstr(err.message, "symbolic link"));
	cb_apply_options named = CB_WITH(cb_apply_options, .folder = folder);
	CHECK_CODE(apply(&named), CB_LOOP);
	must_run("test -z \"$(ls -A '%s/elsewhere')\"", test_tmpdir());
	named.folder = place("");
	CHECK_OK(apply(&named));
	must_run("test -f '%s/elsewhere/new' && rm '%s' && mv '%s.moved' '%s'", test_tmpdir(), folder, folder, folder);
	end();
}

TEST(what_runs_by_itself_is_held)
{
	begin();
	must_write(b, "/work/.git/hooks/pre-commit", "evil");
	must_write(b, "/work/.git/config", "evil");
	must_write(b, "/work/.git/objects/00/x", "fine");
	must_write(b, "/work/.envrc", "evil");
	must_write(b, "/work/sub/.VSCode/tasks.json", "evil");
	must_write(b, "/work/fine.txt", "fine");
	CHECK_OK(apply(NULL));
	CHECK_U64(result.held, 6);
	CHECK(!on_host(".git/hooks") && !on_host(".git/config") && !on_host(".envrc") && !on_host("sub/.VSCode"));
	CHECK_STR(host_read(".git/objects/00/x"), "fine");
	CHECK_STR(host_read("fine.txt"), "fine");
	/* they are offered again, and written when named: exactly, or by a folder */
	const char *const allow[] = {".envrc", "/work/sub"};
	cb_apply_options o = CB_WITH(cb_apply_options, .allow = allow, .allow_count = 2);
	CHECK_OK(apply(&o));
	CHECK_STR(host_read(".envrc"), "evil");
	CHECK_STR(host_read("sub/.VSCode/tasks.json"), "evil");
	CHECK(!on_host(".git/hooks") && !on_host(".git/config"));
	CHECK_U64(result.held, 3);
	/* removal is held too */
	CHECK_OK(cb_unlink(b, "/work/.envrc", &err));
	CHECK_OK(apply(NULL));
	CHECK(on_host(".envrc"));
	end();
}

TEST(a_hooks_path_of_the_hosts_git_is_held)
{
	begin();
	must_run("cd '%s' && mkdir .git && printf '[core]\\n\\thooksPath = tools/hooks\\n' >.git/config", folder);
	must_write(b, "/work/tools/hooks/pre-push", "evil");
	must_write(b, "/work/tools/other", "fine");
	/* and a repository without the name of one */
	must_write(b, "/work/docs/HEAD", "ref: refs/heads/x");
	must_write(b, "/work/docs/config", "[core]\n\tfsmonitor = evil\n");
	CHECK_OK(cb_mkdir(b, "/work/docs/objects", 0755, 0, &err));
	CHECK_OK(cb_mkdir(b, "/work/docs/refs", 0755, 0, &err));
	CHECK_OK(apply(NULL));
	CHECK(!on_host("tools/hooks/pre-push") && !on_host("docs/config") && !on_host("docs/HEAD"));
	CHECK_STR(host_read("tools/other"), "fine");
	end();
}

TEST(scripts_that_hooks_are_linked_to_are_held)
{
	begin();
	must_run("cd '%s' && mkdir -p .git/hooks scripts conf && ln -s ../../scripts/pre-commit .git/hooks/pre-commit && printf x "
	         ">scripts/pre-commit"
	         " && ln -s conf .vscode",
	         folder);
	must_write(b, "/work/scripts/pre-commit", "evil");
	must_write(b, "/work/scripts/other", "fine");
	must_write(b, "/work/conf/tasks.json", "evil");
	CHECK_OK(apply(NULL));
	CHECK_STR(host_read("scripts/pre-commit"), "x");
	CHECK_STR(host_read("scripts/other"), "fine");
	CHECK(!on_host("conf/tasks.json"));
	end();
}

TEST(names_of_one_file_stay_one_file)
{
	begin();
	must_write(b, "/work/h1", "shared");
	CHECK_OK(cb_link(b, "/work/h1", "/work/src/h2", &err));
	CHECK_OK(apply(NULL));
	struct stat one, two;
	CHECK(stat(place("h1"), &one) == 0 && stat(place("src/h2"), &two) == 0 && one.st_ino == two.st_ino);
	must_write(b, "/work/h1", "changed");
	CHECK_OK(apply(NULL));
	CHECK(stat(place("h1"), &one) == 0 && stat(place("src/h2"), &two) == 0 && one.st_ino == two.st_ino);
	CHECK_STR(host_read("src/h2"), "changed");
	const char *const slip[] = {"no/such"};
	cb_apply_options o = CB_WITH(cb_apply_options, .paths = slip, .path_count = 1);
	CHECK_CODE(apply(&o), CB_NOTFOUND);
	end();
}

TEST(a_fork_applies_to_the_folder_of_its_origin)
{
	begin();
	cb_box *fork = must_fork(s, "demo", "try");
	must_write(fork, "/work/a.txt", "from the fork");
	CHECK_OK(apply_box(fork, NULL));
	CHECK_STR(host_read("a.txt"), "from the fork");
	char *name = NULL;
	CHECK_OK(cb_folder_box(s, place("src"), &name, &err));
	CHECK_STR(name, "try");
	cb_free(name);
	/* the origin does not know of that: its own change is refused */
	must_write(b, "/work/a.txt", "from the origin");
	CHECK_CODE(apply(NULL), CB_CONFLICT);
	cb_box_close(fork);
	end();
}

TEST(after_undo_and_of_an_old_state)
{
	begin();
	must_write(b, "/work/a.txt", "1");
	CHECK_OK(apply(NULL));
	must_write(b, "/work/a.txt", "2");
	CHECK_OK(apply(NULL));
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	CHECK_OK(apply(NULL));
	CHECK_STR(host_read("a.txt"), "1");
	cb_box *old = must_open(s, "demo@1");
	CHECK_OK(apply_box(old, NULL));
	CHECK_STR(host_read("a.txt"), "one");
	CHECK(result.seq > 0);
	cb_box_close(old);
	end();
}

TEST(another_folder_becomes_its_own)
{
	begin();
	must_run("mkdir '%s/other' && printf mine >'%s/other/a.txt' && printf keep >'%s/other/keep'", test_tmpdir(), test_tmpdir(),
	         test_tmpdir());
	char other[4200];
	(void)snprintf(other, sizeof(other), "%s/other", test_tmpdir());
	cb_apply_options o = CB_WITH(cb_apply_options, .folder = other);
	CHECK_CODE(apply(&o), CB_CONFLICT);
	o.force = true;
	CHECK_OK(apply(&o));
	must_run("test \"$(cat '%s/a.txt')\" = one && test \"$(cat '%s/keep')\" = keep && test -d '%s/src/deep'", other, other,
	         other);
	must_write(b, "/work/a.txt", "next");
	CHECK_OK(apply(NULL));
	must_run("test \"$(cat '%s/a.txt')\" = next && test \"$(cat '%s')\" = one", other, place("a.txt"));
	end();
}

TEST(leftovers_of_a_killed_apply_go)
{
	begin();
	must_run("printf x >'%s/src/.cowbox-apply-0123456789abcdef'", folder);
	/* as a killed one would leave it */
	must_write(b, "/work/a.txt", "1");
	cb_box *raw = must_open(s, "demo");
	cb_box_close(raw);
	must_write(b, "/work/a.txt", "2");
	CHECK_OK(apply(NULL));
	CHECK(on_host("src/.cowbox-apply-0123456789abcdef")); /* nobody was killed: it is the user's */
	CHECK(unlink(place("src/.cowbox-apply-0123456789abcdef")) == 0);
	end();
}

TEST(sparse_files_and_attributes_go_along)
{
	begin();
	cb_file *f = NULL;
	CHECK_OK(cb_open(b, "/work/sparse", CB_WRITE | CB_CREATE, 0644, &f, &err));
	CHECK_OK(cb_pwrite(f, "end", 3, (uint64_t)1 << 30, &err));
	CHECK_OK(cb_close(f, &err));
	CHECK_OK(cb_xattr_set(b, "/work/sparse", "user.note", "v", 1, 0, &err));
	CHECK_OK(apply(NULL));
	struct stat st;
	CHECK(stat(place("sparse"), &st) == 0 && st.st_size == (1 << 30) + 3);
	CHECK(st.st_blocks < 1000);
	end();
}
