/* attack_mounts.c: the mount table, the root and namespaces. */
#include "sandbox/attack.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* <sys/mount.h> and <linux/mount.h> do not go together. */
extern int mount(const char *, const char *, const char *, unsigned long, const void *);
extern int umount2(const char *, int);
enum { BIND = 4096, REC = 16384, REMOUNT = 32, PRIVATE = 1 << 18, DETACH = 2 };
#ifndef SYS_open_tree_attr
#define SYS_open_tree_attr 467
#endif

static const char *place(void)
{
	static const char folder[] = "attack-mount";
	mkdir(folder, 0700);
	return folder;
}

static outcome mount_tmpfs(void)
{
	return refused("mount tmpfs", mount("none", place(), "tmpfs", 0, NULL));
}

static outcome mount_proc(void)
{
	return refused("mount proc", mount("none", place(), "proc", 0, NULL));
}

static outcome mount_bind(void)
{
	return refused("bind mount of /", mount("/", place(), NULL, BIND | REC, NULL));
}

static outcome mount_overlay(void)
{
	return refused("mount overlay", mount("none", place(), "overlay", 0, "lowerdir=/etc,upperdir=/tmp,workdir=/tmp"));
}

static outcome remount_rw(void)
{
	outcome o = refused("remount of /usr", mount(NULL, "/usr", NULL, BIND | REMOUNT, NULL));
	o = worse(o, refused("remount of /proc/sys", mount(NULL, "/proc/sys", NULL, BIND | REMOUNT, NULL)));
	return worse(o, refused("private /", mount(NULL, "/", NULL, REC | PRIVATE, NULL)));
}

static outcome set_attributes(void)
{
	struct mount_attr writable = {.attr_clr = MOUNT_ATTR_RDONLY};
	return refused("mount_setattr", syscall(SYS_mount_setattr, AT_FDCWD, "/", AT_RECURSIVE, &writable, sizeof writable));
}

static outcome unmount(void)
{
	static const char *const places[] = {"/proc/sys", "/proc", "/etc", "/dev", "/usr"};
	outcome o = HELD;
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) o = worse(o, refused(places[i], umount2(places[i], DETACH)));
	return o;
}

static outcome pivot(void)
{
	return refused("pivot_root", syscall(SYS_pivot_root, ".", "."));
}

/* Out of a chroot: into a new one with a descriptor above kept, then up. */
static outcome chroot_escape(void)
{
	place();
	int above = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	outcome o = refused("chroot", chroot("attack-mount"));
	if (o == BROKEN && above >= 0 && !fchdir(above)) {
		for (int i = 0; i < 64; i++)
			if (chdir("..")) break;
		if (chroot(".")) return o;
	}
	if (above >= 0) close(above);
	return o;
}

static outcome new_mount_calls(void)
{
	outcome o = refused("fsopen", syscall(SYS_fsopen, "tmpfs", 0));
	o = worse(o, refused("fspick", syscall(SYS_fspick, AT_FDCWD, "/", 0)));
	o = worse(o, refused("fsconfig", syscall(SYS_fsconfig, -1, 6, NULL, NULL, 0)));
	return worse(o, refused("fsmount", syscall(SYS_fsmount, -1, 0, 0)));
}

static outcome copy_tree(void)
{
	outcome o = refused("open_tree", syscall(SYS_open_tree, AT_FDCWD, "/", OPEN_TREE_CLONE | AT_RECURSIVE));
	struct mount_attr none = {0};
	return worse(o, refused("open_tree_attr", syscall(SYS_open_tree_attr, AT_FDCWD, "/", OPEN_TREE_CLONE, &none, sizeof none)));
}

static outcome move_tree(void)
{
	return refused("move_mount", syscall(SYS_move_mount, AT_FDCWD, "/proc", AT_FDCWD, place(), 0));
}

/* ENOSPC is how the kernel says that there may be no more of them. */
static outcome no_namespace(const char *what, long result)
{
	return result < 0 && errno == ENOSPC ? held("%s: none may be made", what) : refused(what, result);
}

static outcome new_user(void)
{
	return no_namespace("unshare(CLONE_NEWUSER)", syscall(SYS_unshare, CLONE_NEWUSER));
}

static outcome new_namespaces(void)
{
	static const unsigned long flags[] = {CLONE_NEWNS,  CLONE_NEWPID,    CLONE_NEWNET, CLONE_NEWIPC,
	                                      CLONE_NEWUTS, CLONE_NEWCGROUP, 0x80};
	outcome o = HELD;
	for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
		char what[40];
		snprintf(what, sizeof what, "unshare(0x%lx)", flags[i]);
		o = worse(o, refused(what, syscall(SYS_unshare, flags[i])));
	}
	return o;
}

static outcome clone_with(const char *what, unsigned long flags)
{
	long child = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
	int code = errno;
	if (!child) _exit(0);
	if (child > 0) waitpid((pid_t)child, NULL, 0);
	errno = code;
	return no_namespace(what, child);
}

static outcome clone_user(void)
{
	outcome o = clone_with("clone(CLONE_NEWUSER)", CLONE_NEWUSER);
	o = worse(o, clone_with("clone(CLONE_NEWUSER|NEWNS)", CLONE_NEWUSER | CLONE_NEWNS));
	return worse(o, clone_with("clone(CLONE_NEWNET)", CLONE_NEWNET));
}

/* The kernel looks at the low half only: a filter that compares the whole number lets this through. */
static outcome clone_high(void)
{
	return clone_with("clone(CLONE_NEWUSER | 1<<40)", CLONE_NEWUSER | 1UL << 40);
}

static outcome clone3_user(void)
{
	struct clone_args how = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
	long child = syscall(SYS_clone3, &how, sizeof how);
	int code = errno;
	if (!child) _exit(0);
	if (child > 0) waitpid((pid_t)child, NULL, 0);
	errno = code;
	return no_namespace("clone3(CLONE_NEWUSER)", child);
}

/* With a new user namespace all capabilities are had in it: what a nested one would give. */
static outcome nested_root(void)
{
	long got = syscall(SYS_unshare, CLONE_NEWUSER | CLONE_NEWNS);
	if (got) return held("unshare: %s", strerror(errno));
	if (!mount("none", place(), "tmpfs", 0, NULL)) return broken("a mount in a nested user namespace");
	return broken("a nested user namespace");
}

static outcome join(void)
{
	static const char *const names[] = {"user", "mnt", "net", "pid", "ipc", "uts", "cgroup"};
	outcome o = HELD;
	for (int of = 0; of < 2; of++)
		for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
			char path[64];
			snprintf(path, sizeof path, "/proc/%s/ns/%s", of ? "self" : "1", names[i]);
			int fd = open(path, O_RDONLY | O_CLOEXEC);
			if (fd < 0) continue;
			o = worse(o, refused(path, syscall(SYS_setns, fd, 0)));
			close(fd);
		}
	long init = syscall(SYS_pidfd_open, 1, 0);
	if (init >= 0) {
		o = worse(o, refused("setns by pidfd", syscall(SYS_setns, init, CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWPID)));
		close((int)init);
	}
	return worse(o, refused("setns", syscall(SYS_setns, 0, 0)));
}

static outcome host_name(void)
{
	char name[65] = "";
	if (gethostname(name, sizeof name)) return untried("gethostname: %s", strerror(errno));
	outcome o = refused("sethostname", sethostname(name, strlen(name)));
	return worse(o, refused("setdomainname", setdomainname("(none)", 6)));
}

static outcome read_host_name(void)
{
	const char *theirs = param("hostname");
	char name[65] = "";
	if (!theirs || gethostname(name, sizeof name)) return untried("no hostname= given");
	return strcmp(theirs, name) ? held("it is called %s", name) : broken("the host's name: %s", name);
}

const attack attacks_mounts[] = {
	{"mount-tmpfs", "seccomp", "mounts a tmpfs", "seccomp; no capabilities", 0, mount_tmpfs},
	{"mount-proc", "seccomp", "mounts a fresh /proc", "seccomp; no capabilities", 0, mount_proc},
	{"mount-bind", "seccomp", "binds / elsewhere", "seccomp; no capabilities", 0, mount_bind},
	{"mount-overlay", "seccomp", "mounts an overlay over /etc", "seccomp; no capabilities", 0, mount_overlay},
	{"remount-rw", "seccomp", "remounts /usr and /proc/sys writable", "seccomp; no capabilities; locked mounts", 0, remount_rw},
	{"mount-setattr", "seccomp", "mount_setattr without read-only", "seccomp; no capabilities", 0, set_attributes},
	{"umount", "seccomp", "unmounts what covers something", "seccomp; no capabilities; locked mounts", 0, unmount},
	{"pivot-root", "seccomp", "pivot_root", "seccomp; no capabilities", 0, pivot},
	{"chroot", "seccomp", "chroot and back up", "seccomp; no capabilities", 0, chroot_escape},
	{"fsopen", "seccomp", "fsopen, fspick, fsconfig, fsmount", "seccomp", PROOF, new_mount_calls},
	{"open-tree", "seccomp", "open_tree, open_tree_attr", "seccomp; no capabilities", 0, copy_tree},
	{"move-mount", "seccomp", "move_mount", "seccomp; no capabilities", 0, move_tree},
	{"unshare-user", "userns", "unshare(CLONE_NEWUSER)", "seccomp; max_user_namespaces 0", PROOF, new_user},
	{"unshare-others", "seccomp", "unshare of every other namespace", "seccomp; no capabilities", 0, new_namespaces},
	{"clone-user", "userns", "clone with namespaces", "seccomp; max_user_namespaces 0", PROOF, clone_user},
	{"clone-user-high", "userns", "the same with rubbish in the high bits", "the low 32 bits are compared", PROOF, clone_high},
	{"clone3-user", "userns", "clone3 with namespaces", "clone3 is ENOSYS", PROOF, clone3_user},
	{"nested-root", "userns", "all capabilities in a nested user namespace", "seccomp; max_user_namespaces 0", PROOF,
         nested_root},
	{"setns", "seccomp", "joins namespaces of process 1 and its own", "seccomp", PROOF, join},
	{"set-hostname", "seccomp", "sethostname, setdomainname", "seccomp; no capabilities", 0, host_name},
	{"read-hostname", "ipc", "reads the host's name", "a uts namespace of its own", WEAK, read_host_name},
	{NULL}};
