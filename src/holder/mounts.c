/*
 * mounts.c: the mount system calls, one function each. A mount is made detached, gets its flags, and is attached by descriptor, so
 * there is no moment at which the wrong thing could be seen and no path that could be exchanged.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>

#include "holder/enter.h"

static bool forced_old;
static bool late; /* some flags wait for mount_flags_late */

void enter_force_old(bool on)
{
	forced_old = on;
}

cb_code mount_copy(int dir, const char *path, int *out_fd, cb_error *err)
{
	unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | (*path ? 0 : AT_EMPTY_PATH);
	int fd = open_tree(dir, path, flags);
	if (fd < 0 && errno == ENOENT) return cb_err_set(err, CB_NOTFOUND, "'%s' is not there", path);
	if (fd < 0) return cb_err_errno(err, errno, "taking '%s' for a bind", path);
	*out_fd = fd;
	return CB_OK;
}

typedef struct option {
	const char *key, *value; /* value NULL: a flag */
} option;

static cb_code make(const char *type, unsigned attributes, const option *options, size_t count, int *out_fd, cb_error *err)
{
	AUTO_FD int context = fsopen(type, FSOPEN_CLOEXEC);
	if (context < 0) return cb_err_errno(err, errno, "a new %s", type);
	for (size_t i = 0; i < count; i++) {
		unsigned command = options[i].value ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG;
		if (fsconfig(context, command, options[i].key, options[i].value, 0) != 0)
			return cb_err_errno(err, errno, "%s of a new %s", options[i].key, type);
	}
	if (fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) != 0) return cb_err_errno(err, errno, "making a new %s", type);
	int fd = fsmount(context, FSMOUNT_CLOEXEC, attributes);
	if (fd < 0) return cb_err_errno(err, errno, "mounting a new %s", type);
	*out_fd = fd;
	return CB_OK;
}

cb_code mount_tmpfs(uint64_t size_bytes, uint32_t mode, int *out_fd, cb_error *err)
{
	char size[32], bits[16], inodes[32];
	/* An inode takes kernel memory that no size counts. */
	uint64_t count = size_bytes / 8192 < 1024 ? 1024 : size_bytes / 8192;
	(void)snprintf(size, sizeof(size), "%llu", (unsigned long long)size_bytes);
	(void)snprintf(bits, sizeof(bits), "%o", mode & 07777);
	(void)snprintf(inodes, sizeof(inodes), "%llu", (unsigned long long)count);
	const option options[] = {{"size", size}, {"mode", bits}, {"nr_inodes", inodes}, {"source", "tmpfs"}};
	return make("tmpfs", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, options, ARRAY_LEN(options), out_fd, err);
}

cb_code mount_devpts(int *out_fd, cb_error *err)
{
	static const option options[] = {{"newinstance", NULL}, {"ptmxmode", "0666"}, {"mode", "0620"}};
	return make("devpts", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, options, ARRAY_LEN(options), out_fd, err);
}

cb_code mount_proc(int *out_fd, cb_error *err)
{
	cb_code code = make("proc", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, NULL, 0, out_fd, err);
	/* The kernel gives a new one only to who sees a whole one already: containers that mask parts of /proc have none to give. */
	if (code == CB_DENIED)
		return cb_err_set(err, CB_UNSUPPORTED,
		                  "no new /proc here, because parts of this one are hidden (a container's doing)");
	return code;
}

cb_code mount_flags(int fd, uint32_t plan_flags, cb_error *err)
{
	struct mount_attr attr = {.propagation = MS_PRIVATE};
	if (plan_flags & PLAN_READ_ONLY) attr.attr_set |= MOUNT_ATTR_RDONLY;
	if (plan_flags & PLAN_NOSUID) attr.attr_set |= MOUNT_ATTR_NOSUID;
	if (plan_flags & PLAN_NODEV) attr.attr_set |= MOUNT_ATTR_NODEV;
	if (plan_flags & PLAN_NOEXEC) attr.attr_set |= MOUNT_ATTR_NOEXEC;
	if (!forced_old && mount_setattr(fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof(attr)) == 0) return CB_OK;
	if (!forced_old && errno != ENOSYS) return cb_err_errno(err, errno, "flags of a mount");
	late = true;
	return CB_OK;
}

cb_code mount_attach(int fd, int place, cb_error *err)
{
	if (move_mount(fd, "", place, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) != 0)
		return cb_err_errno(err, errno, "attaching a mount");
	return CB_OK;
}

/* ---- without mount_setattr ---- */

/* mountinfo writes space, tab, newline and backslash as \ooo. */
static void unescape(char *text)
{
	char *to = text;
	for (const char *at = text; *at; to++) {
		if (at[0] == '\\' && at[1] >= '0' && at[1] <= '3' && at[2] && at[3]) {
			*to = (char)((at[1] - '0') << 6 | (at[2] - '0') << 3 | (at[3] - '0'));
			at += 4;
		} else {
			*to = *at++;
		}
	}
	*to = 0;
}

/* Flags it has stay: those a more privileged namespace set are locked, and leaving one out is EPERM. */
static unsigned long flags_had(const char *options)
{
	static const struct {
		const char *name;
		unsigned long flag;
	} known[] = {{"ro", MS_RDONLY},       {"nosuid", MS_NOSUID},         {"nodev", MS_NODEV},      {"noexec", MS_NOEXEC},
	             {"noatime", MS_NOATIME}, {"nodiratime", MS_NODIRATIME}, {"relatime", MS_RELATIME}};
	unsigned long flags = 0;
	for (const char *at = options; *at;) {
		size_t size = strcspn(at, ",");
		for (size_t i = 0; i < ARRAY_LEN(known); i++)
			if (strlen(known[i].name) == size && strncmp(known[i].name, at, size) == 0) flags |= known[i].flag;
		at += size + (at[size] == ',');
	}
	return flags;
}

static uint32_t flags_planned(const plan *p, const char *path)
{
	uint32_t flags = PLAN_NOSUID | PLAN_NODEV; /* of the root */
	for (size_t i = 0; i < p->op_count; i++)
		if (p->ops[i].type != PLAN_DIR && p->ops[i].type != PLAN_SYMLINK && plan_path_within(path, p->ops[i].to))
			flags = p->ops[i].flags;
	return flags;
}

static cb_code remount(const plan *p, char *line, cb_error *err)
{
	char path[LIMIT_PATH_BYTES], options[256];
	if (sscanf(line, "%*s %*s %*s %*s %4095s %255s", path, options) != 2) return CB_OK;
	unescape(path);
	uint32_t planned = flags_planned(p, path);
	unsigned long had = flags_had(options), flags = had;
	if (planned & PLAN_READ_ONLY) flags |= MS_RDONLY;
	if (planned & PLAN_NOSUID) flags |= MS_NOSUID;
	if (planned & PLAN_NODEV) flags |= MS_NODEV;
	if (planned & PLAN_NOEXEC) flags |= MS_NOEXEC;
	if (flags != had && mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | flags, NULL) != 0)
		return cb_err_errno(err, errno, "flags of the mount at '%s'", path);
	return CB_OK;
}

cb_code mount_flags_late(const plan *p, cb_error *err)
{
	if (!late) return CB_OK;
	FILE *list = fopen("/proc/self/mountinfo", "re");
	if (!list) return cb_err_errno(err, errno, "reading the list of mounts");
	AUTO_FREE char *line = NULL;
	size_t room = 0;
	cb_code code = CB_OK;
	while (code == CB_OK && getline(&line, &room, list) > 0) code = remount(p, line, err);
	(void)fclose(list);
	return code;
}
