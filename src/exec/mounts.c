/*
 * mounts.c: as root: places of the host as detached mounts, which travel to the holder as descriptors. The holder is another uid on the
 * host, so it could neither walk to a place below a private folder nor write what root owns there. A writable one is mapped: who owns
 * the place is, through this mount only, who the box is; what others own stays theirs.
 */
#include "exec/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"

/* Of <linux/mount.h>, which older libc headers cannot have beside <sys/mount.h>. */
enum { OPEN_TREE_CLONE_ = 1, MOUNT_ATTR_IDMAP_ = 0x100000, AT_RECURSIVE_ = 0x8000 };
struct mount_attr_ {
	uint64_t attr_set, attr_clr, propagation, userns_fd;
};

static int open_tree_clone(const char *path)
{
	return (int)syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE_ | O_CLOEXEC | AT_RECURSIVE_);
}

static cb_code write_map(pid_t pid, const char *name, unsigned inside, unsigned outside, cb_error *err)
{
	char path[64], map[64];
	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	(void)snprintf(map, sizeof(map), "%u %u 1\n", inside, outside);
	AUTO_FD int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0) return cb_err_errno(err, errno, "opening %s", path);
	cb_code code = io_write_all(fd, map, strlen(map), err);
	return code == CB_OK ? CB_OK : cb_err_wrap(err, code, "%s", path);
}

static cb_code namespace_of(pid_t pid, const struct stat *owner, uid_t uid, int *out_fd, cb_error *err)
{
	char path[64];
	CB_TRY(write_map(pid, "uid_map", owner->st_uid, uid, err));
	CB_TRY(write_map(pid, "gid_map", owner->st_gid, uid, err));
	(void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
	*out_fd = open(path, O_RDONLY | O_CLOEXEC);
	return *out_fd < 0 ? cb_err_errno(err, errno, "opening %s", path) : CB_OK;
}

/* A user namespace that only says who is who: the owner of the place is uid. The child is a copy of a process with threads: it does
 * nothing but wait for its end. */
static cb_code map_open(const struct stat *owner, uid_t uid, int *out_fd, cb_error *err)
{
	pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);
	if (pid == 0)
		for (;;) (void)syscall(SYS_pause);
	if (pid < 0) return cb_err_errno(err, errno, "making a user namespace");
	cb_code code = namespace_of(pid, owner, uid, out_fd, err);
	(void)kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) continue;
	return code;
}

static cb_code map_apply(int mount, const char *path, uid_t uid, cb_error *err)
{
	struct stat owner;
	if (fstat(mount, &owner) != 0) return cb_err_errno(err, errno, "looking at '%s'", path);
	AUTO_FD int userns = -1;
	CB_TRY(map_open(&owner, uid, &userns, err));
	struct mount_attr_ attr = {.attr_set = MOUNT_ATTR_IDMAP_, .userns_fd = (uint64_t)userns};
	if (syscall(SYS_mount_setattr, mount, "", AT_EMPTY_PATH | AT_RECURSIVE_, &attr, sizeof(attr)) == 0) return CB_OK;
	if (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP)
		return cb_err_set(
			err, CB_UNSUPPORTED,
			"'%s' cannot be bound writable by root: its filesystem, or one mounted below it, has no mapped mounts; "
			"run as the user who owns it",
			path);
	return cb_err_errno(err, errno, "mapping '%s'", path);
}

static cb_code mount_make(const exec_mount *m, uid_t uid, int *out, cb_error *err)
{
	*out = open_tree_clone(m->from);
	if (*out < 0) return cb_err_errno(err, errno, "binding '%s'", m->from);
	return m->writable && uid != 0 ? map_apply(*out, m->from, uid, err) : CB_OK;
}

cb_code mounts_make(const cb_sandbox *s, uid_t uid, int *fds, cb_error *err)
{
	for (size_t i = 0; i < s->mount_count; i++) fds[i] = -1;
	cb_code code = CB_OK;
	for (size_t i = 0; i < s->mount_count && code == CB_OK; i++) code = mount_make(&s->mounts[i], uid, &fds[i], err);
	for (size_t i = 0; i < s->mount_count && code != CB_OK; i++)
		if (fds[i] >= 0) (void)close(fds[i]);
	return code;
}
