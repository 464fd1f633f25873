/*
 * weak.c: what is left without namespaces.
 *
 * Adversary: the command. It runs as the user, beside everything else the user runs. Landlock keeps it from reading and writing
 * other files, from tracing other processes, and (since its version 6) from signalling them; the filter keeps it from sockets. A
 * process that leaves its parents behind comes to the reaper (a subreaper), so that all of them can be found and killed, unless one
 * is quicker at forking.
 */
#include "holder/weak.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "base/io.h"

/* Of linux/landlock.h as of version 6; older headers lack some. Numbers of the calls are the same on every machine. */
enum { SYS_LANDLOCK_CREATE = 444, SYS_LANDLOCK_ADD = 445, SYS_LANDLOCK_RESTRICT = 446, LANDLOCK_VERSION = 1, LANDLOCK_BENEATH = 1 };
enum {
	FS_EXECUTE = 1 << 0,
	FS_WRITE_FILE = 1 << 1,
	FS_READ_FILE = 1 << 2,
	FS_READ_DIR = 1 << 3,
	FS_VERSION_1 = (1 << 13) - 1,
	FS_REFER = 1 << 13,     /* 2 */
	FS_TRUNCATE = 1 << 14,  /* 3 */
	FS_IOCTL_DEV = 1 << 15, /* 5 */
	FS_OF_FILES = FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV,
	SCOPE_ALL = 3, /* 6: abstract sockets, signals */
};
typedef struct ruleset_attr {
	uint64_t fs, net, scoped;
} ruleset_attr;
typedef struct beneath_attr {
	uint64_t allowed;
	int32_t parent;
} __attribute__((packed)) beneath_attr;

typedef struct place {
	const char *path;
	uint64_t access;
} place;

enum {
	READ = FS_READ_FILE | FS_READ_DIR,
	RUN = READ | FS_EXECUTE,
	DEVICE = FS_READ_FILE | FS_WRITE_FILE | FS_TRUNCATE | FS_IOCTL_DEV
};

/* What programs need of the host; what is not there is left out. Of /etc only what says nothing about the user. */
static const place places[] = {
	{"/usr", RUN},
	{"/bin", RUN},
	{"/sbin", RUN},
	{"/lib", RUN},
	{"/lib32", RUN},
	{"/lib64", RUN},
	{"/libx32", RUN},
	{"/opt", RUN},
	{"/etc/alternatives", RUN},
	{"/etc/ld.so.cache", READ},
	{"/etc/ld.so.conf", READ},
	{"/etc/ld.so.conf.d", READ},
	{"/etc/ssl/certs", READ},
	{"/etc/ssl/openssl.cnf", READ},
	{"/etc/ca-certificates", READ},
	{"/etc/pki/tls/certs", READ},
	{"/etc/localtime", READ},
	{"/etc/timezone", READ},
	{"/etc/terminfo", READ},
	{"/etc/passwd", READ},
	{"/etc/group", READ},
	{"/etc/hosts", READ},
	{"/etc/hostname", READ},
	{"/etc/resolv.conf", READ},
	{"/etc/nsswitch.conf", READ},
	{"/etc/protocols", READ},
	{"/etc/services", READ},
	{"/etc/mime.types", READ},
	{"/etc/java-17-openjdk", READ},
	{"/etc/python3.11", READ},
	{"/etc/bash.bashrc", READ},
	{"/etc/profile", READ},
	{"/etc/inputrc", READ},
	{"/proc", READ},
	{"/sys/devices/system/cpu", READ},
	{"/sys/devices/system/node", READ},
	{"/sys/fs/cgroup", READ},
	{"/dev/null", DEVICE},
	{"/dev/zero", DEVICE},
	{"/dev/full", DEVICE},
	{"/dev/random", DEVICE},
	{"/dev/urandom", DEVICE},
	{"/dev/tty", DEVICE},
};

/* ---- the rules ---- */

static cb_code rule_add(int ruleset, int fd, uint64_t access, cb_error *err)
{
	beneath_attr rule = {.allowed = access, .parent = fd};
	if (syscall(SYS_LANDLOCK_ADD, ruleset, LANDLOCK_BENEATH, &rule, 0) != 0)
		return cb_err_errno(err, errno, "cannot add a rule");
	return CB_OK;
}

static cb_code rule_add_path(int ruleset, const place *p, uint64_t handled, cb_error *err)
{
	AUTO_FD int fd = open(p->path, O_PATH | O_CLOEXEC);
	if (fd < 0) return CB_OK;
	AUTO_FD int folder = open(p->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	uint64_t access = p->access & handled;
	if (folder < 0) access &= FS_OF_FILES;
	return rule_add(ruleset, fd, access, err);
}

static cb_code rules_build(int root, int *out, cb_error *err)
{
	long version = syscall(SYS_LANDLOCK_CREATE, NULL, 0, LANDLOCK_VERSION);
	if (version < 1)
		return cb_err_set(err, CB_UNSUPPORTED, "this kernel has no Landlock, without which --weak would hold nothing: %s",
		                  strerror(errno));
	ruleset_attr attr = {.fs = FS_VERSION_1};
	if (version >= 2) attr.fs |= FS_REFER;
	if (version >= 3) attr.fs |= FS_TRUNCATE;
	if (version >= 5) attr.fs |= FS_IOCTL_DEV;
	if (version >= 6) attr.scoped = SCOPE_ALL;
	size_t size = version >= 6 ? 24 : version >= 4 ? 16 : 8;
	AUTO_FD int ruleset = (int)syscall(SYS_LANDLOCK_CREATE, &attr, size, 0);
	if (ruleset < 0) return cb_err_errno(err, errno, "cannot make rules");
	CB_TRY(rule_add(ruleset, root, attr.fs, err));
	for (size_t i = 0; i < ARRAY_LEN(places); i++) CB_TRY(rule_add_path(ruleset, &places[i], attr.fs, err));
	*out = TAKE_FD(ruleset);
	return CB_OK;
}

cb_code weak_init(weak *w, cb_error *err)
{
	if (syscall(SYS_getcwd, w->root, sizeof(w->root)) <= 0 || w->root[0] != '/' || strcmp(w->root, "/") == 0)
		return cb_err_set(err, CB_INTERNAL, "the tree of the box has no path");
	w->folder = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (w->folder < 0) return cb_err_errno(err, errno, "cannot open the tree");
	CB_TRY(rules_build(w->folder, &w->ruleset, err));
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) return cb_err_errno(err, errno, "cannot keep track of processes");
	return CB_OK;
}

/* ---- where things are ---- */

/* Below the tree; "" is the tree itself; NULL: not in it. */
static const char *inside(const weak *w, const char *path)
{
	size_t n = strlen(w->root);
	return strncmp(path, w->root, n) == 0 && (path[n] == 0 || path[n] == '/') ? path + n : NULL;
}

int weak_confine(const weak *w, const char *cwd)
{
	char path[LIMIT_PATH_BYTES];
	while (*cwd == '/') cwd++;
	if (fchdir(w->folder) != 0 || (*cwd && chdir(cwd) != 0)) return errno;
	if (syscall(SYS_getcwd, path, sizeof(path)) <= 0 || !inside(w, path)) return EACCES;
	return syscall(SYS_LANDLOCK_RESTRICT, w->ruleset, 0) == 0 ? 0 : errno;
}

/* A program of the box, seen from its working folder. */
static cb_code program_place(const weak *w, command *c, cb_error *err)
{
	const char *name = c->argv[0];
	size_t up = 0, size;
	while (*name == '/') name++;
	if (c->argv[0][0] != '/' || faccessat(w->folder, name, F_OK, 0) != 0) return CB_OK;
	char path[LIMIT_PATH_BYTES];
	AUTO_FD int here = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	const char *below = NULL, *cwd = c->cwd;
	while (*cwd == '/') cwd++;
	if (fchdir(w->folder) == 0 && (!*cwd || chdir(cwd) == 0) && syscall(SYS_getcwd, path, sizeof(path)) > 0)
		below = inside(w, path);
	if (here < 0 || fchdir(here) != 0) return cb_err_errno(err, errno, "cannot find the program");
	for (; below && *below; below++) up += *below == '/';
	size = 2 + 3 * up + strlen(name) + 1;
	char *text = mem_alloc(size);
	if (!text) return cb_err_nomem(err);
	(void)snprintf(text, size, "./");
	for (size_t i = 0; i < up; i++) memcpy(text + 2 + 3 * i, "../", 3);
	memcpy(text + 2 + 3 * up, name, strlen(name) + 1);
	c->argv[0] = text;
	return CB_OK;
}

static bool has_name(const char *assignment, const char *name)
{
	size_t n = strlen(name);
	return strncmp(assignment, name, n) == 0 && assignment[n] == '=';
}

/* Folders of the box are moved; those of the sandbox's own caches are not there, and the programs' own choice is taken. */
static cb_code variable_place(const weak *w, char **variable, bool *out_drop, cb_error *err)
{
	static const char *const moved[] = {"HOME", "TMPDIR", "PWD"};
	const char *value = strchr(*variable, '=');
	*out_drop = value && strncmp(value, "=/var/cache/agent", 17) == 0;
	for (size_t i = 0; i < ARRAY_LEN(moved); i++) {
		if (!has_name(*variable, moved[i]) || value[1] != '/') continue;
		size_t size = strlen(*variable) + strlen(w->root) + 1;
		char *text = mem_alloc(size);
		if (!text) return cb_err_nomem(err);
		(void)snprintf(text, size, "%s=%s%s", moved[i], w->root, value + 1);
		*variable = text;
	}
	return CB_OK;
}

cb_code weak_place(const weak *w, command *c, cb_error *err)
{
	size_t variables = 0, kept = 0, size = strlen(w->root) + 16;
	while (c->env[variables]) variables++;
	char **env = mem_alloc((variables + 2) * sizeof(char *)), *root = mem_alloc(size);
	if (!env || !root) return cb_err_nomem(err); /* the process ends then */
	for (size_t i = 0; i < variables; i++) {
		bool drop;
		env[kept] = c->env[i];
		CB_TRY(variable_place(w, &env[kept], &drop, err));
		kept += !drop;
	}
	(void)snprintf(root, size, "COWBOX_ROOT=%s", w->root);
	env[kept] = root;
	env[kept + 1] = NULL;
	c->env = env;
	return program_place(w, c, err);
}

/* ---- all descendants ---- */

enum { PROCESSES_MAX = 65536 };
typedef struct process {
	pid_t pid, parent;
	bool ours;
} process;

static pid_t parent_of(int proc, const char *pid)
{
	char name[64], text[512];
	(void)snprintf(name, sizeof(name), "%s/stat", pid);
	if (!io_text_read(proc, name, text, sizeof(text))) return 0;
	/* The name of the program, in parentheses, may hold anything. */
	const char *end = strrchr(text, ')');
	int parent;
	return end && sscanf(end + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

static process list[PROCESSES_MAX];
static size_t count;

static void processes_list(void)
{
	DIR *d = opendir("/proc");
	count = 0;
	if (!d) return;
	for (struct dirent *e; (e = readdir(d)) && count < PROCESSES_MAX;) {
		if (e->d_name[0] < '1' || e->d_name[0] > '9') continue;
		list[count++] = (process){.pid = atoi(e->d_name), .parent = parent_of(dirfd(d), e->d_name)};
	}
	(void)closedir(d);
}

bool weak_is_ours(pid_t pid)
{
	for (size_t i = 0; i < count; i++)
		if (list[i].pid == pid) return list[i].ours;
	return false;
}

size_t weak_signal_all(int signal)
{
	size_t found = 0;
	processes_list();
	pid_t self = getpid();
	for (bool more = true; more;) { /* generation by generation */
		more = false;
		for (size_t i = 0; i < count; i++) {
			if (list[i].ours) continue;
			bool ours = list[i].parent == self;
			for (size_t j = 0; j < count && !ours; j++) ours = list[j].ours && list[j].pid == list[i].parent;
			if (!ours) continue;
			list[i].ours = more = true;
			found++;
			if (signal) (void)kill(list[i].pid, signal);
		}
	}
	return found;
}

uint64_t weak_count_others(void)
{
	DIR *d = opendir("/proc");
	uint64_t tasks = 0;
	if (!d) return 0;
	for (struct dirent *e; (e = readdir(d));) {
		struct stat st;
		if (e->d_name[0] < '1' || e->d_name[0] > '9' || fstatat(dirfd(d), e->d_name, &st, 0) != 0 || st.st_uid != geteuid())
			continue;
		char name[300];
		(void)snprintf(name, sizeof(name), "%s/task", e->d_name); /* a link for each thread, and two */
		if (fstatat(dirfd(d), name, &st, 0) == 0 && st.st_nlink > 2) tasks += st.st_nlink - 2;
	}
	(void)closedir(d);
	return tasks;
}

void weak_kill_all(void)
{
	for (int i = 0; i < LIMIT_HOLDER_END_MS; i++) {
		size_t left = weak_signal_all(SIGKILL);
		while (waitpid(-1, NULL, WNOHANG | __WALL) > 0) {
		}
		if (left == 0) return;
		(void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
}
