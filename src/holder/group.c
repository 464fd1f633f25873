/*
 * group.c: control groups, version 2.
 *
 * A group that holds processes itself cannot give controllers to groups below it. So our own group can be divided only where the
 * controllers are given on already, or where nobody but us is in it: then we move one further down first.
 */
#include "holder/group.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#include "base/io.h"

enum { TEXT_BYTES = 64 << 10, CPU_PERIOD_US = 100000, REMOVE_TRIES = 100 };

const group_sources group_system = {"/proc/self/cgroup", "/proc/self/mountinfo"};

/* ---- small files ---- */

static bool text_read(const char *folder, const char *name, char *to, size_t size)
{
	char path[LIMIT_PATH_BYTES + 32];
	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	return io_text_read(AT_FDCWD, path, to, size) > 0;
}

static bool text_write(const char *folder, const char *name, const char *text)
{
	char path[LIMIT_PATH_BYTES];
	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	AUTO_FD int fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

static bool has_word(const char *text, const char *word)
{
	size_t n = strlen(word);
	for (const char *at = text; (at = strstr(at, word)); at += n)
		if ((at == text || at[-1] == ' ') && (at[n] == 0 || at[n] == ' ' || at[n] == '\n')) return true;
	return false;
}

/* ---- where we are ---- */

/* The line "0::/PATH". */
static bool membership_find(const char *text, char path[LIMIT_PATH_BYTES])
{
	const char *line = strncmp(text, "0::", 3) == 0 ? text : strstr(text, "\n0::");
	if (!line) return false;
	line = strchr(line, '/');
	if (!line) return false;
	(void)snprintf(path, LIMIT_PATH_BYTES, "%.*s", (int)strcspn(line, "\n"), line);
	return true;
}

/* A line of mountinfo: ID PARENT DEVICE ROOT PLACE OPTIONS ... - TYPE ... */
static bool mount_find(const char *text, char root[LIMIT_PATH_BYTES], char place[LIMIT_PATH_BYTES])
{
	for (const char *line = text; line && *line;) {
		const char *end = strchr(line, '\n'), *type = strstr(line, " - cgroup2 ");
		if (type && (!end || type < end) && sscanf(line, "%*s %*s %*s %4095s %4095s", root, place) == 2) return true;
		line = end ? end + 1 : NULL;
	}
	return false;
}

static bool own_group_find(const group_sources *from, char path[LIMIT_PATH_BYTES])
{
	static char text[TEXT_BYTES];
	char member[LIMIT_PATH_BYTES], root[LIMIT_PATH_BYTES], place[LIMIT_PATH_BYTES];
	if (!io_text_read(AT_FDCWD, from->membership, text, sizeof(text)) || !membership_find(text, member)) return false;
	if (!io_text_read(AT_FDCWD, from->mounts, text, sizeof(text)) || !mount_find(text, root, place)) return false;
	/* Only a part of the tree may be mounted. */
	size_t n = strcmp(root, "/") == 0 ? 0 : strlen(root);
	if (strncmp(member, root, n) != 0 || (member[n] != '/' && member[n] != 0)) return false;
	return (size_t)snprintf(path, LIMIT_PATH_BYTES, "%s%s", place, strcmp(member + n, "/") == 0 ? "" : member + n) <
	       LIMIT_PATH_BYTES;
}

/* ---- controllers for the groups below ---- */

static const struct controller {
	const char *name;
	unsigned bit;
} controllers[] = {{"memory", GROUP_MEMORY}, {"pids", GROUP_PIDS}, {"cpu", GROUP_CPU}};

static unsigned controllers_in(const char *folder, const char *name)
{
	char text[1024];
	unsigned bits = 0;
	if (!text_read(folder, name, text, sizeof(text))) return 0;
	for (size_t i = 0; i < ARRAY_LEN(controllers); i++)
		if (has_word(text, controllers[i].name)) bits |= controllers[i].bit;
	return bits;
}

static bool alone_in(const char *folder)
{
	char text[64];
	return text_read(folder, "cgroup.procs", text, sizeof(text)) && atoi(text) == getpid() &&
	       strchr(text, '\n') == strrchr(text, '\n');
}

static unsigned controllers_give(const char *own, unsigned wanted)
{
	unsigned given = controllers_in(own, "cgroup.subtree_control");
	char path[LIMIT_PATH_BYTES + 32], text[64] = "";
	if ((wanted & ~given) == 0) return given;
	for (size_t i = 0; i < ARRAY_LEN(controllers); i++) {
		if (!(wanted & ~given & controllers[i].bit)) continue;
		(void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s+%s", *text ? " " : "", controllers[i].name);
	}
	if (!text_write(own, "cgroup.subtree_control", text)) {
		char pid[16];
		(void)snprintf(path, sizeof(path), "%s/cowbox-holder", own);
		(void)snprintf(pid, sizeof(pid), "%d", getpid());
		if (errno != EBUSY || !alone_in(own) || (mkdir(path, 0755) != 0 && errno != EEXIST)) return given;
		if (!text_write(path, "cgroup.procs", pid) || !text_write(own, "cgroup.subtree_control", text)) return given;
	}
	return controllers_in(own, "cgroup.subtree_control");
}

/* ---- the group ---- */

static unsigned bounds_wanted(const plan_limits *l)
{
	return (l->memory_bytes ? GROUP_MEMORY : 0u) | (l->pids ? GROUP_PIDS : 0u) | (l->cpus_milli ? GROUP_CPU : 0u);
}

static unsigned bounds_set(const char *path, const plan_limits *l, unsigned wanted)
{
	char text[64];
	unsigned held = 0;
	if (wanted & GROUP_MEMORY) {
		(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)l->memory_bytes);
		if (text_write(path, "memory.max", text)) held |= GROUP_MEMORY;
		(void)text_write(path, "memory.swap.max", "0"); /* otherwise it would only be slow */
		(void)text_write(path, "memory.oom.group", "1");
	}
	if (wanted & GROUP_PIDS) {
		(void)snprintf(text, sizeof(text), "%u", l->pids + 2); /* init and the reaper */
		if (text_write(path, "pids.max", text)) held |= GROUP_PIDS;
	}
	if (wanted & GROUP_CPU) {
		(void)snprintf(text, sizeof(text), "%llu %d", (unsigned long long)l->cpus_milli * CPU_PERIOD_US / 1000,
		               CPU_PERIOD_US);
		if (text_write(path, "cpu.max", text)) held |= GROUP_CPU;
	}
	return held;
}

cb_code group_create(const group_sources *from, const char *name, const plan_limits *limits, char **out_path, unsigned *out_held,
                     cb_error *err)
{
	char own[LIMIT_PATH_BYTES], path[LIMIT_PATH_BYTES + LIMIT_NAME_BYTES + 2];
	unsigned wanted = bounds_wanted(limits);
	*out_path = NULL;
	*out_held = 0;
	if (!wanted || !own_group_find(from, own)) return CB_OK;
	wanted &= controllers_in(own, "cgroup.controllers");
	if (!wanted) return CB_OK;
	wanted &= controllers_give(own, wanted);
	if (!wanted) return CB_OK;
	(void)snprintf(path, sizeof(path), "%s/%s", own, name);
	if (mkdir(path, 0755) != 0 && errno != EEXIST) return CB_OK;
	*out_held = bounds_set(path, limits, wanted);
	if (!*out_held) {
		(void)rmdir(path);
		return CB_OK;
	}
	*out_path = mem_strdup(path);
	if (*out_path) return CB_OK;
	(void)rmdir(path);
	return cb_err_nomem(err);
}

cb_code group_enter(const char *path, pid_t pid, cb_error *err)
{
	char text[16];
	(void)snprintf(text, sizeof(text), "%d", pid);
	if (!text_write(path, "cgroup.procs", text))
		return cb_err_errno(err, errno, "cannot move the sandbox into its control group");
	return CB_OK;
}

bool group_ran_out(const char *path)
{
	char text[1024];
	if (!text_read(path, "memory.events", text, sizeof(text))) return false;
	const char *at = strstr(text, "oom_kill ");
	return at && strtoul(at + 9, NULL, 10) > 0;
}

void group_end(const char *path)
{
	if (!path) return;
	(void)text_write(path, "cgroup.kill", "1");
	/* What was killed leaves it when it is reaped. */
	for (int i = 0; i < REMOVE_TRIES && rmdir(path) != 0 && errno == EBUSY; i++)
		(void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}
