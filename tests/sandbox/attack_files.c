/* attack_files.c: files of the host: reading what is outside, writing where nothing may be written. */
#include "sandbox/attack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

static outcome read_shadow(void)
{
	return worse(try_read("/etc/shadow"), try_read("/etc/gshadow"));
}

/* By its path, and where a root that was not left would still be. */
static outcome read_host(const char *path)
{
	static const char *const roots[] = {"", "/run/host", "/oldroot", "/.old", "/mnt/host"};
	outcome o = HELD;
	for (size_t i = 0; i < sizeof roots / sizeof *roots; i++) {
		char full[PATH_MAX];
		snprintf(full, sizeof full, "%s%s", roots[i], path);
		o = worse(o, try_read(full));
	}
	return o;
}

static outcome read_host_folder(void)
{
	return try_param("folder_canary", read_host);
}

static outcome read_host_tmp(void)
{
	return try_param("tmp_canary", read_host);
}

static outcome read_caller_home(void)
{
	return try_param("home_canary", read_host);
}

static outcome read_store(void)
{
	return try_param("store_file", read_host);
}

static outcome read_other_box(void)
{
	return try_param("other_file", read_host);
}

/* 64 folders up from wherever this is, then down to the canary. */
static outcome climb(const char *canary_path)
{
	char path[PATH_MAX];
	size_t size = 0;
	for (int i = 0; i < 64; i++) size += (size_t)snprintf(path + size, sizeof path - size, "../");
	snprintf(path + size, sizeof path - size, "%s", canary_path + 1);
	return try_read(path);
}

static outcome dotdot(void)
{
	return try_param("tmp_canary", climb);
}

static outcome through_link(const char *target)
{
	char name[64];
	snprintf(name, sizeof name, "attack-link-%d", (int)getpid());
	if (symlink(target, name)) return untried("symlink: %s", strerror(errno));
	outcome o = try_read(name);
	unlink(name);
	return o;
}

static outcome symlink_out(void)
{
	return try_param("tmp_canary", through_link);
}

static outcome link_to(const char *target)
{
	char name[64];
	snprintf(name, sizeof name, "attack-hard-%d", (int)getpid());
	if (!link(target, name)) {
		unlink(name);
		return broken("a hard link to %s", target);
	}
	return held("link %s: %s", target, strerror(errno));
}

static outcome hardlink_out(void)
{
	return try_param("tmp_canary", link_to);
}

/* A file of a read-only folder given a name in the box, by path and by descriptor: a write through the new name would go to the host. */
static outcome link_system_file(void)
{
	const char *name = "attack-hard-usr";
	int fd = open("/usr/bin/env", O_PATH | O_CLOEXEC);
	if (fd < 0) return untried("/usr/bin/env: %s", strerror(errno));
	char self[64];
	snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
	bool got = !link("/usr/bin/env", name) || !linkat(AT_FDCWD, self, AT_FDCWD, name, AT_SYMLINK_FOLLOW) ||
	           !linkat(fd, "", AT_FDCWD, name, AT_EMPTY_PATH);
	int code = errno;
	close(fd);
	if (!got) return held("link /usr/bin/env: %s", strerror(code));
	fd = open(name, O_WRONLY | O_CLOEXEC);
	if (fd >= 0) close(fd);
	unlink(name);
	return fd >= 0 ? broken("a writable hard link to /usr/bin/env")
	               : held("a hard link to /usr/bin/env, on the box's own filesystem");
}

static outcome under_proc_root(const char *canary_path)
{
	static const char *const roots[] = {"/proc/self/root", "/proc/self/task/1/root", "/proc/1/root", "/proc/self/cwd/../../..",
	                                    "/proc/thread-self/root/.."};
	outcome o = HELD;
	for (size_t i = 0; i < sizeof roots / sizeof *roots; i++) {
		char path[PATH_MAX];
		snprintf(path, sizeof path, "%s%s", roots[i], canary_path);
		o = worse(o, try_read(path));
	}
	return o;
}

static outcome proc_self_root(void)
{
	return try_param("tmp_canary", under_proc_root);
}

static char found[PATH_MAX];

static int look_at(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)ftw;
	if (type == FTW_D && (!strcmp(path, "/proc") || !strcmp(path, "/usr") || !strcmp(path, "/sys"))) return FTW_SKIP_SUBTREE;
	if (type != FTW_F || !S_ISREG(st->st_mode)) return FTW_CONTINUE;
	static char bytes[1 << 16];
	long got = slurp(path, bytes, sizeof bytes);
	if (got > 0 && has_canary(bytes, (size_t)got)) {
		snprintf(found, sizeof found, "%s", path);
		return FTW_STOP;
	}
	return FTW_CONTINUE;
}

static outcome search_everything(void)
{
	found[0] = 0;
	if (nftw("/", look_at, 32, FTW_PHYS | FTW_ACTIONRETVAL) < 0) return untried("walking /: %s", strerror(errno));
	return found[0] ? broken("a canary in %s", found) : held("no canary in any file that can be read");
}

/* Sources and options of mounts. (Which folder of its filesystem a bind shows the kernel tells everybody, in mountinfo's fourth field.) */
static outcome in_mount_table(const char *store)
{
	static char bytes[1 << 18];
	long got = slurp("/proc/self/mounts", bytes, sizeof bytes - 1);
	if (got <= 0) return untried("no mount table");
	bytes[got] = 0;
	return strstr(bytes, store) ? broken("a mount names the store") : held("no mount's source or option names it");
}

static outcome mount_table(void)
{
	return try_param("store", in_mount_table);
}

/* Everything that changes a name or a file, on a file that must not change. */
static outcome change(const char *folder, const char *file)
{
	char mine[PATH_MAX], theirs[PATH_MAX];
	snprintf(mine, sizeof mine, "%s/attack-was-here", folder);
	snprintf(theirs, sizeof theirs, "%s/%s", folder, file);
	if (access(theirs, F_OK)) return untried("%s: %s", theirs, strerror(errno));
	int fd = open(mine, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd >= 0) {
		close(fd);
		unlink(mine);
		return broken("made %s", mine);
	}
	int made = errno;
	fd = open(theirs, O_WRONLY | O_CLOEXEC);
	if (fd >= 0) {
		close(fd);
		return broken("opened %s for writing", theirs);
	}
	struct stat st;
	if (stat(theirs, &st)) return untried("%s: %s", theirs, strerror(errno));
	if (!chmod(theirs, st.st_mode & 0777)) return broken("chmod %s", theirs);
	if (!utimensat(AT_FDCWD, theirs, NULL, 0)) return broken("touched %s", theirs);
	if (!setxattr(theirs, "user.attack", "1", 1, 0)) return broken("an attribute on %s", theirs);
	if (!symlink("/", mine)) {
		unlink(mine);
		return broken("linked %s", mine);
	}
	return held("making a file: %s", strerror(made));
}

static outcome write_usr(void)
{
	outcome o = worse(change("/usr", "bin/env"), change("/usr/bin", "env"));
	return worse(o, change("/usr/lib", "os-release"));
}

static outcome write_etc(void)
{
	return change("/etc", "passwd");
}

static outcome write_in(const char *folder)
{
	return change(folder, "file");
}

static outcome write_bind(void)
{
	return try_param("bind", write_in);
}

static outcome write_submount(void)
{
	return try_param("submount", write_in);
}

static outcome read_root_file(void)
{
	return try_param("root_file", try_read);
}

static outcome open_for_writing(const char *path)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0) return held("%s: %s", path, strerror(errno));
	close(fd);
	return broken("%s opened for writing", path);
}

static outcome helper_overwrite(void)
{
	return try_param("helper", open_for_writing);
}

/* The list of what is in /etc is short and known; the host's own is neither. */
static outcome etc_host(void)
{
	static const char *const names[] = {"/etc/shadow",   "/etc/gshadow", "/etc/shadow-",    "/etc/fstab",
	                                    "/etc/sudoers",  "/etc/ssh",     "/etc/crontab",    "/etc/cron.d",
	                                    "/etc/security", "/etc/pam.d",   "/etc/systemd",    "/etc/init.d",
	                                    "/etc/default",  "/etc/docker",  "/etc/kubernetes", "/etc/NetworkManager"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (!access(names[i], F_OK)) return broken("%s is there", names[i]);
	return held("none of the host's private files of /etc is there");
}

static outcome machine_identity(const char *host_id)
{
	char bytes[64] = "";
	long got = slurp("/etc/machine-id", bytes, sizeof bytes - 1);
	if (got < 0) return held("no machine-id");
	return strncmp(bytes, host_id, 32) ? held("another machine-id") : broken("the host's machine-id");
}

static outcome machine_id(void)
{
	return try_param("machine_id", machine_identity);
}

static outcome host_services(void)
{
	static const char *const names[] = {
		"/run/dbus",      "/run/systemd",  "/run/docker.sock",     "/var/run/docker.sock", "/run/user/0",
		"/tmp/.X11-unix", "/sys/kernel",   "/sys/fs/cgroup",       "/boot/vmlinuz",        "/root",
		"/var/lib/dpkg",  "/var/log/wtmp", "/proc/1/root/run/dbus"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (!access(names[i], F_OK)) return broken("%s is there", names[i]);
	return held("no /run, /sys, /boot, /root or /var of the host");
}

static outcome by_handle(void)
{
	/* A handle of the root of this filesystem, with the inode number of the filesystem's own root (2): the classic way out of a
	 * container. */
	union {
		struct file_handle handle;
		char bytes[sizeof(struct file_handle) + MAX_HANDLE_SZ];
	} h = {.handle = {.handle_bytes = MAX_HANDLE_SZ}};
	int mount = -1, folder = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0) return untried("here: %s", strerror(errno));
	if (syscall(SYS_name_to_handle_at, AT_FDCWD, ".", &h.handle, &mount, 0)) {
		h.handle.handle_bytes = 8;
		h.handle.handle_type = 1;
		memcpy(h.handle.f_handle, (uint32_t[]){2, 0}, 8);
	}
	long fd = syscall(SYS_open_by_handle_at, folder, &h.handle, O_RDONLY);
	int code = errno;
	close(folder);
	if (fd >= 0) return broken("a folder opened by its handle");
	errno = code;
	return refused("open_by_handle_at", fd);
}

const attack attacks_files[] = {
	{"read-shadow", "etc", "reads /etc/shadow and gshadow", "a listed /etc without them", 0, read_shadow},
	{"etc-host", "etc", "looks for the host's private files of /etc", "a listed /etc", PROOF | WEAK, etc_host},
	{"machine-id", "etc", "reads the host's machine-id", "a synthesised one", 0, machine_id},
	{"read-host-folder", "root", "reads a canary in a folder of the same user",
         "the root has nothing of the host's but the system", PROOF, read_host_folder},
	{"read-host-tmp", "root", "reads a canary in the host's /tmp", "/tmp is the box's", 0, read_host_tmp},
	{"read-caller-home", "root", "reads a canary in the caller's home", "HOME is the box's", 0, read_caller_home},
	{"read-store", "root", "reads the store's catalog", "the store is not in the root", 0, read_store},
	{"read-other-box", "root", "reads the work folder of another box", "the area is not in the root", 0, read_other_box},
	{"dotdot", "root", "climbs 64 folders up, then down to a canary", "pivot_root: nothing is above", 0, dotdot},
	{"symlink-out", "root", "a symbolic link to a canary of the host", "links resolve in the box's root", 0, symlink_out},
	{"hardlink-out", "root", "a hard link to a canary of the host", "it has no name inside", 0, hardlink_out},
	{"link-system-file", "read-only", "a hard link to a program of the host, by path and by descriptor", "another mount: EXDEV",
         0, link_system_file},
	{"proc-self-root", "root", "the canary below /proc/self/root, /proc/1/root, cwd/..", "they are the box's root, or closed",
         0, proc_self_root},
	{"search-everything", "root", "reads every file there is for a canary", "nothing of the host is in the root", 0,
         search_everything},
	{"mount-table", "root", "looks for the store's path in sources and options of mounts",
         "mounts by relative name and descriptor", 0, mount_table},
	{"host-services", "root", "looks for /run, /sys, D-Bus, docker.sock, X11, /root", "they are not in the root", EITHER,
         host_services},
	{"write-usr", "read-only", "makes, opens, chmods, touches in /usr", "recursive read-only bind", 0, write_usr},
	{"write-etc", "read-only", "makes, opens, chmods, touches in /etc", "read-only bind", 0, write_etc},
	{"write-bind", "read-only", "writes into a folder bound read-only that the user may write", "read-only bind", PROOF | BOUND,
         write_bind},
	{"write-submount", "read-only", "writes into a mount below a folder bound read-only", "mount_setattr, recursive", BOUND,
         write_submount},
	{"read-root-file", "uid", "as root: reads a 0600 file of root in a bound folder", "the box is a reserved uid on the host",
         PROOF | BOUND, read_root_file},
	{"helper-overwrite", "root", "opens the helper program for writing", "it has no name inside", 0, helper_overwrite},
	{"open-by-handle", "caps", "opens a folder by a made-up handle", "no CAP_DAC_READ_SEARCH; seccomp", 0, by_handle},
	{NULL}};
