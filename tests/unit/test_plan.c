/* test_plan.c: every knob of a policy shows in the plan; what is the sandbox's is refused; plans survive the wire, damage does not. */
#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/json.h"
#include "box/gate.h"
#include "harness/harness.h"
#include "sandbox/plan.h"

static const plan_host merged = {.merged_usr = true,
                                 .links = {{"bin", "usr/bin"}, {"lib64", "usr/lib64"}},
                                 .link_count = 2,
                                 .folders = {"lib32"},
                                 .folder_count = 1};

static sandbox_policy simple(void)
{
	return (sandbox_policy){.uid = 1000, .gid = 1000};
}

static plan build(const sandbox_policy *policy)
{
	plan p = {0};
	cb_error err;
	CHECK_OK(plan_build(policy, &merged, &p, &err));
	return p;
}

static const plan_op *op_at(const plan *p, plan_op_type type, const char *to)
{
	for (size_t i = 0; i < p->op_count; i++)
		if (p->ops[i].type == type && strcmp(p->ops[i].to, to) == 0) return &p->ops[i];
	return NULL;
}

static char *text_of(const plan *p, bool json)
{
	buf out = BUF_INIT(1 << 20);
	char *text = NULL;
	size_t size;
	cb_error err;
	CHECK_OK(plan_print(p, json, &out, &err));
	CHECK_OK(buf_take(&out, &text, &size, &err));
	return text;
}

TEST(system_names_are_the_box_s)
{
	static const char *const names[] = {"usr", "bin", "sbin", "lib",  "lib32", "lib64", "libx32", "etc",       "proc", "dev",
	                                    "sys", "run", "var",  "boot", "work",  "tmp",   "home",   "us",        "usrx", "",
	                                    "opt", "mnt", "srv",  "root", "media", "nix",   "snap",   "lost+found"};
	size_t system = 0;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		bool mine = plan_is_system_name(names[i], strlen(names[i]));
		CHECK_MSG(mine == gate_reserved(span_str(names[i])), "'%s'", names[i]);
		system += mine;
	}
	CHECK_U64(system, 14);
	/* All names of up to four letters. */
	char name[5] = "";
	for (unsigned n = 0; n < 27 * 27 * 27 * 27; n++) {
		unsigned rest = n;
		size_t size = 0;
		for (; rest; rest /= 27) name[size++] = (char)('`' + rest % 27);
		CHECK(plan_is_system_name(name, size) == gate_reserved(span_make(name, size)));
	}
}

TEST(the_simple_plan)
{
	sandbox_policy policy = simple();
	plan p = build(&policy);
	CHECK_U64(p.namespaces,
	          CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUTS | CLONE_NEWCGROUP | CLONE_NEWNET | CLONE_NEWIPC);
	const plan_op *usr = op_at(&p, PLAN_BIND, "/usr");
	CHECK(usr && strcmp(usr->from, "/usr") == 0);
	CHECK_U64(usr->flags, PLAN_READ_ONLY | PLAN_NOSUID | PLAN_NODEV);
	CHECK_STR(op_at(&p, PLAN_SYMLINK, "/bin")->from, "usr/bin");
	CHECK_STR(op_at(&p, PLAN_BIND, "/lib32")->from, "/lib32");
	CHECK(op_at(&p, PLAN_BIND, "/lib32")->flags & PLAN_READ_ONLY);
	const plan_op *etc = op_at(&p, PLAN_ETC, "/etc");
	CHECK_STR(etc->from, "/");
	CHECK((etc->flags & PLAN_READ_ONLY) && !(etc->flags & PLAN_DNS));
	CHECK(op_at(&p, PLAN_PROC, "/proc") && op_at(&p, PLAN_DEV, "/dev") && op_at(&p, PLAN_TMPFS, "/run") &&
	      op_at(&p, PLAN_TMPFS, "/var"));
	CHECK(op_at(&p, PLAN_CACHE, "/var/cache/agent") > op_at(&p, PLAN_DIR, "/var/cache"));
	for (size_t i = 0; i < p.op_count; i++) {
		CHECK(strncmp(p.ops[i].to, "/sys", 4) != 0 && strncmp(p.ops[i].to, "/boot", 5) != 0);
		CHECK(p.ops[i].type != PLAN_TMPFS || p.ops[i].size_bytes > 0);
		CHECK(p.ops[i].type == PLAN_DIR || p.ops[i].type == PLAN_SYMLINK || (p.ops[i].flags & PLAN_NOSUID));
		CHECK(p.ops[i].fd_index == -1);
	}
	CHECK(p.limits.pids == LIMIT_EXEC_PIDS && p.limits.memory_bytes == 0 && p.limits.file_bytes == 0);
	plan_done(&p);
	CHECK(p.ops == NULL && p.strings.bytes == NULL);
	plan_done(&p);
}

TEST(every_knob_shows)
{
	sandbox_policy policy = simple();
	plan p;
	policy.net = SANDBOX_NET_HOST;
	p = build(&policy);
	CHECK(!(p.namespaces & CLONE_NEWNET));
	CHECK(op_at(&p, PLAN_ETC, "/etc")->flags & PLAN_DNS);
	plan_done(&p);

	policy = simple();
	policy.root = "/srv/debian";
	p = build(&policy);
	CHECK_STR(op_at(&p, PLAN_BIND, "/usr")->from, "/srv/debian/usr");
	CHECK_STR(op_at(&p, PLAN_BIND, "/lib32")->from, "/srv/debian/lib32");
	CHECK_STR(op_at(&p, PLAN_ETC, "/etc")->from, "/srv/debian");
	plan_done(&p);

	policy = simple();
	policy.uid = 7;
	policy.gid = 8;
	policy.memory_bytes = 64 << 20;
	policy.cpus_milli = 1500;
	policy.pids = 12;
	policy.disk_bytes = 1 << 20;
	policy.files = 99;
	p = build(&policy);
	CHECK(p.uid == 7 && p.gid == 8);
	CHECK(p.limits.memory_bytes == 64 << 20 && p.limits.cpus_milli == 1500 && p.limits.pids == 12);
	CHECK(p.limits.disk_bytes == 1 << 20 && p.limits.file_bytes == 1 << 20 && p.limits.files == 99);
	for (size_t i = 0; i < p.op_count; i++) CHECK(p.ops[i].size_bytes <= 16 << 20);
	plan_done(&p);

	policy = simple();
	policy.weak = true;
	p = build(&policy);
	CHECK(p.weak && p.namespaces == 0 && p.op_count == 0 && p.limits.pids == LIMIT_EXEC_PIDS);
	plan_done(&p);
}

static void check_subtree(const char *path, plan_op_type tmp, plan_op_type home)
{
	sandbox_policy policy = simple();
	policy.path = path;
	plan p = build(&policy);
	CHECK(p.ops[0].type == PLAN_SUBTREE && p.ops[0].size_bytes > 0);
	CHECK((tmp == 0) == (!op_at(&p, PLAN_TMPFS, "/tmp") && !op_at(&p, PLAN_DIR, "/tmp")));
	CHECK((home == 0) == (!op_at(&p, PLAN_TMPFS, "/home/agent") && !op_at(&p, PLAN_DIR, "/home/agent")));
	if (tmp) CHECK(op_at(&p, tmp, "/tmp")->mode == 01777);
	if (home) CHECK(op_at(&p, home, "/home/agent"));
	plan_done(&p);
}

TEST(one_subtree)
{
	check_subtree("/work/a//b/", PLAN_TMPFS, PLAN_TMPFS);
	check_subtree("/tmp", 0, PLAN_TMPFS);
	check_subtree("/tmp/x", PLAN_DIR, PLAN_TMPFS);
	check_subtree("/home", PLAN_TMPFS, 0);
	check_subtree("/home/agent/x", PLAN_TMPFS, PLAN_DIR);
	check_subtree("/tmpx", PLAN_TMPFS, PLAN_TMPFS);
	sandbox_policy policy = simple();
	plan p;
	policy.path = "/";
	p = build(&policy);
	CHECK(p.ops[0].type != PLAN_SUBTREE);
	plan_done(&p);
	static const char *const refused[] = {"work", "", "/work/../x", "/usr", "/var/tmp", "/./x"};
	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		policy.path = refused[i];
		CHECK_CODE(plan_build(&policy, &merged, &p, NULL), CB_INVALID);
	}
}

static cb_code try_bind(const char *from, const char *to)
{
	sandbox_policy policy = simple();
	sandbox_bind bind = {.from = from, .to = to, .fd_index = -1};
	plan p = {0};
	policy.binds = &bind;
	policy.bind_count = 1;
	cb_code code = plan_build(&policy, &merged, &p, NULL);
	plan_done(&p);
	return code;
}

TEST(binds_that_are_refused)
{
	static const char *const refused[] = {
		"/",       "//",      "/proc",    "/proc/self", "/dev",      "/dev/null", "/dev/",   "/sys",
		"/sys/fs", "/boot",   "/boot/x",  "/usr",       "/usr/",     "/etc",      "/run",    "/var",
		"/bin",    "/bin/sh", "/lib",     "/lib/x",     "/lib64/x",  "/libx32",   "/sbin/x", "work",
		"",        "./work",  "/work/..", "/../etc",    "/work/./x", "/..",       "/.",      "/work/../proc"};
	for (size_t i = 0; i < ARRAY_LEN(refused); i++)
		CHECK_MSG(try_bind("/srv", refused[i]) == CB_INVALID, "bind to '%s'", refused[i]);
	static const char *const fine[] = {"/work",    "/work/a", "/data",      "/usr/local",
	                                   "/etc/ssl", "/run/x",  "/var/lib/x", "/home/agent/.cache",
	                                   "/tmp/x",   "/procx",  "/...",       "/work/..x"};
	for (size_t i = 0; i < ARRAY_LEN(fine); i++) CHECK_MSG(try_bind("/srv", fine[i]) == CB_OK, "bind to '%s'", fine[i]);
	CHECK_CODE(try_bind("srv", "/srv"), CB_INVALID);
	CHECK_CODE(try_bind("", "/srv"), CB_INVALID);
	CHECK_CODE(try_bind("/proc", NULL), CB_INVALID);
	CHECK_CODE(try_bind("/srv", NULL), CB_OK);
	char long_path[LIMIT_PATH_BYTES + 2];
	memset(long_path, '/', sizeof(long_path));
	for (size_t i = 1; i < sizeof(long_path); i += 2) long_path[i] = 'x';
	long_path[LIMIT_PATH_BYTES] = 0;
	CHECK_CODE(try_bind("/srv", long_path), CB_NAMETOOLONG);
	char name[300];
	memset(name, 'n', sizeof(name));
	name[0] = '/';
	name[257] = 0;
	CHECK_CODE(try_bind("/srv", name), CB_INVALID);
	name[256] = 0;
	CHECK_CODE(try_bind("/srv", name), CB_OK);
}

TEST(binds_are_ordered_parents_first)
{
	static const sandbox_bind binds[] = {{"/h/1", "/data/a/b", true, false, -1}, {"/h/2", "/data-x", false, false, 3},
	                                     {"/h/3", "/data", false, false, -1},    {"/h/4", "/data/a", false, true, -1},
	                                     {"/h/5", "/data/Z", false, false, -1},  {"/h/6", "/", false, false, -1}};
	static const char *const order[] = {"/data", "/data/Z", "/data/a", "/data/a/b", "/data-x"};
	sandbox_policy policy = simple();
	policy.binds = binds;
	policy.bind_count = 5;
	plan p = build(&policy);
	const plan_op *first = p.ops + p.op_count - 5;
	for (size_t i = 0; i < 5; i++) CHECK_STR(first[i].to, order[i]);
	CHECK(!(first[3].flags & PLAN_READ_ONLY) && (first[3].flags & PLAN_NOSUID) && (first[3].flags & PLAN_NODEV));
	CHECK((first[0].flags & PLAN_READ_ONLY) && first[0].fd_index == -1);
	CHECK((first[2].flags & PLAN_FILE) && first[4].fd_index == 3);
	CHECK_STR(first[4].from, "/h/2");
	plan_done(&p);
	policy.bind_count = 6;
	CHECK_CODE(plan_build(&policy, &merged, &p, NULL), CB_INVALID);
	static const sandbox_bind twice[] = {{"/a", "/x/y", false, false, -1}, {"/b", "/x//y/", false, false, -1}};
	policy.binds = twice;
	policy.bind_count = 2;
	CHECK_CODE(plan_build(&policy, &merged, &p, NULL), CB_INVALID);
	static const sandbox_bind far = {"/a", "/x", false, false, 32};
	policy.binds = &far;
	policy.bind_count = 1;
	CHECK_CODE(plan_build(&policy, &merged, &p, NULL), CB_LIMIT);
}

TEST(too_many_binds)
{
	static char paths[LIMIT_PLAN_OPS][LIMIT_PATH_BYTES];
	static sandbox_bind binds[LIMIT_PLAN_OPS];
	sandbox_policy policy = simple();
	plan p;
	for (size_t i = 0; i < LIMIT_PLAN_OPS; i++) {
		(void)snprintf(paths[i], sizeof(paths[i]), "/w/%zu", i);
		binds[i] = (sandbox_bind){paths[i], paths[i], false, false, -1};
	}
	policy.binds = binds;
	policy.bind_count = LIMIT_PLAN_OPS;
	CHECK_CODE(plan_build(&policy, &merged, &p, NULL), CB_LIMIT);
	policy.bind_count = 200;
	p = build(&policy);
	plan_done(&p);
	for (size_t i = 0; i < LIMIT_PLAN_OPS; i++) {
		for (size_t at = strlen(paths[i]); at < 1024; at += 2) memcpy(paths[i] + at, "/x", 3);
	}
	CHECK_CODE(plan_build(&policy, &merged, &p, NULL), CB_LIMIT);
}

TEST(policies_that_cannot_be)
{
	sandbox_policy policy = simple();
	plan p;
	policy.uid = 0;
	CHECK_CODE(plan_build(&policy, &merged, &p, NULL), CB_INVALID);
	policy = simple();
	policy.gid = 65534;
	CHECK_CODE(plan_build(&policy, &merged, &p, NULL), CB_INVALID);
	policy = simple();
	policy.root = "srv";
	CHECK_CODE(plan_build(&policy, &merged, &p, NULL), CB_INVALID);
	policy = simple();
	policy.net = (sandbox_net)7;
	CHECK_CODE(plan_build(&policy, &merged, &p, NULL), CB_INVALID);
	policy = simple();
	policy.weak = true;
	policy.root = "/srv";
	CHECK_CODE(plan_build(&policy, &merged, &p, NULL), CB_UNSUPPORTED);
}

TEST(walls_come_down_in_test_builds_only)
{
	sandbox_policy policy = simple();
	plan p = {0};
	policy.walls_down = WALL_NET | WALL_IPC | WALL_ETC | WALL_READ_ONLY;
#ifdef COWBOX_TEST_WALLS
	p = build(&policy);
	CHECK(!(p.namespaces & (CLONE_NEWNET | CLONE_NEWIPC)));
	CHECK(!(op_at(&p, PLAN_BIND, "/usr")->flags & PLAN_READ_ONLY));
	CHECK_STR(op_at(&p, PLAN_BIND, "/etc")->from, "/etc");
	plan_done(&p);
#else
	for (unsigned bit = 0; bit < 15; bit++) {
		policy.walls_down = 1u << bit;
		CHECK_CODE(plan_build(&policy, &merged, &p, NULL), CB_INVALID);
	}
	/* Nor by the wire. */
	AUTO_BUF buf bytes = BUF_INIT(1 << 20);
	cb_error err;
	policy.walls_down = 0;
	p = build(&policy);
	p.walls_down = WALL_SECCOMP;
	CHECK_OK(plan_put(&bytes, &p, &err));
	plan_done(&p);
	CHECK_CODE(plan_get(buf_span(&bytes), &p, NULL), CB_CORRUPT);
#endif
}

TEST(a_plan_survives_the_wire)
{
	static const sandbox_bind binds[] = {{"/h/1", "/data/\x01\xff", true, true, 2}};
	sandbox_policy policy = simple();
	policy.binds = binds;
	policy.bind_count = 1;
	policy.path = "/work/sub";
	policy.memory_bytes = UINT64_MAX;
	plan p = build(&policy), q = {0};
	AUTO_BUF buf bytes = BUF_INIT(1 << 20), again = BUF_INIT(1 << 20);
	cb_error err;
	CHECK_OK(plan_put(&bytes, &p, &err));
	CHECK_OK(plan_get(buf_span(&bytes), &q, &err));
	CHECK_OK(plan_put(&again, &q, &err));
	CHECK(span_equal(buf_span(&bytes), buf_span(&again)));
	char *a = text_of(&p, false), *b = text_of(&q, false);
	CHECK_STR(a, b);
	free(a);
	free(b);
	plan_done(&q);
	/* Cut anywhere it is no plan; with a byte more neither. */
	for (size_t i = 0; i < bytes.size; i++) CHECK_CODE(plan_get(span_make(bytes.bytes, i), &q, NULL), CB_CORRUPT);
	CHECK_OK(buf_append_byte(&bytes, 0, &err));
	CHECK_CODE(plan_get(buf_span(&bytes), &q, NULL), CB_CORRUPT);
	plan_done(&p);
}

static void check_broken(void (*change)(plan *p))
{
	sandbox_policy policy = simple();
	plan p = build(&policy), q = {0};
	AUTO_BUF buf bytes = BUF_INIT(1 << 20);
	cb_error err;
	change(&p);
	CHECK_OK(plan_put(&bytes, &p, &err));
	CHECK_CODE(plan_get(buf_span(&bytes), &q, &err), CB_CORRUPT);
	plan_done(&p);
}

static void break_to(plan *p)
{
	p->ops[0].to = "/work/../..";
}
static void break_root(plan *p)
{
	p->ops[0].to = "/";
}
static void break_from(plan *p)
{
	p->ops[0].from = "usr";
}
static void break_type(plan *p)
{
	p->ops[1].type = (plan_op_type)77;
}
static void break_flags(plan *p)
{
	p->ops[1].flags = 1u << 30;
}
static void break_mode(plan *p)
{
	p->ops[1].mode = 010000;
}
static void break_fd(plan *p)
{
	p->ops[1].fd_index = 32;
}
static void break_order(plan *p)
{
	p->ops[1].type = PLAN_SUBTREE;
	p->ops[1].from = "";
}
static void break_namespaces(plan *p)
{
	p->namespaces |= CLONE_VM;
}
static void break_user(plan *p)
{
	p->uid = 0;
}
static void break_weak(plan *p)
{
	p->weak = true;
}

TEST(hostile_plans)
{
	void (*const all[])(plan *) = {break_to, break_root,  break_from,       break_type, break_flags, break_mode,
	                               break_fd, break_order, break_namespaces, break_user, break_weak};
	for (size_t i = 0; i < ARRAY_LEN(all); i++) check_broken(all[i]);
}

TEST(what_is_printed)
{
	static const sandbox_bind binds[] = {{"/h\x1b[2J", "/data", false, false, -1}};
	sandbox_policy policy = simple();
	policy.binds = binds;
	policy.bind_count = 1;
	policy.disk_bytes = 5 << 20;
	plan p = build(&policy);
	char *text = text_of(&p, false), *json = text_of(&p, true);
	CHECK(strstr(text, "namespaces  user mount pid ipc uts net cgroup\n"));
	CHECK(strstr(text, "/data from /h\\x1b[2J, read-only, nosuid, nodev\n"));
	CHECK(strstr(text, "5120 KiB written"));
	CHECK(!strchr(text, 0x1b) && !strchr(json, 0x1b));
	AUTO_JSON json_doc *doc = NULL;
	cb_error err;
	CHECK_OK(json_parse(span_str(json), NULL, &doc, &err));
	uint64_t n = 0;
	CHECK(json_as_uint(json_get(json_get(json_root(doc), "limits"), "disk_bytes"), &n) && n == 5 << 20);
	CHECK_U64(json_count(json_get(json_root(doc), "ops")), p.op_count);
	CHECK_U64(json_count(json_get(json_root(doc), "namespaces")), 7);
	free(text);
	free(json);
	plan_done(&p);
}

TEST(the_host_is_looked_at)
{
	plan_host host;
	cb_error err;
	char path[512];
	const char *tmp = test_tmpdir();
	CHECK_CODE(plan_host_look(tmp, &host, &err), CB_NOTFOUND);
	AUTO_FD int dir = open(tmp, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(mkdirat(dir, "usr", 0755) == 0 && symlinkat("usr/bin", dir, "bin") == 0 && symlinkat("/usr/lib", dir, "lib") == 0);
	CHECK_OK(plan_host_look(tmp, &host, &err));
	CHECK(host.merged_usr && host.link_count == 2 && host.folder_count == 0);
	CHECK_STR(host.links[1][1], "usr/lib");
	CHECK(mkdirat(dir, "sbin", 0755) == 0 && symlinkat("usr/../../../lib64", dir, "lib64") == 0 &&
	      symlinkat("elsewhere", dir, "lib32") == 0);
	CHECK_OK(plan_host_look(tmp, &host, &err));
	CHECK(!host.merged_usr && host.link_count == 2 && host.folder_count == 3);
	CHECK_STR(host.folders[0], "sbin");
	(void)snprintf(path, sizeof(path), "%s/nothing", tmp);
	CHECK_CODE(plan_host_look(path, &host, &err), CB_NOTFOUND);
	CHECK_OK(plan_host_look("/", &host, &err));
}

TEST(memory_may_fail_anywhere)
{
	sandbox_policy policy = simple();
	for (long n = 1;; n++) {
		plan p = {0};
		mem_fail_after(n);
		cb_code code = plan_build(&policy, &merged, &p, NULL);
		mem_fail_after(0);
		plan_done(&p);
		if (code == CB_OK) break;
		CHECK(code == CB_NOMEM && n < 10);
	}
}
