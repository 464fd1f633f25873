/*
 * doctor_kernel.c: what the kernel offers for running real programs in a box. Each thing is tried in a child that ends right after: a
 * version number does not tell what a container, a distribution or an administrator switched off.
 */
#include "cli/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/io.h"

static bool said(char text[DOCTOR_TEXT_MAX], const char *what)
{
	(void)snprintf(text, DOCTOR_TEXT_MAX, "%s: %s", what, strerror(errno));
	return false;
}

/* -1: there is no such switch. */
static long read_switch(const char *path)
{
	char text[32];
	return io_text_read(AT_FDCWD, path, text, sizeof(text)) ? strtol(text, NULL, 10) : -1;
}

static bool write_file(const char *path, const char *text)
{
	AUTO_FD int fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

/* ---- namespaces ---- */

static bool enter_user_namespace(int more, char text[DOCTOR_TEXT_MAX])
{
	char map[64];
	unsigned uid = (unsigned)geteuid(), gid = (unsigned)getegid();
	if (unshare(CLONE_NEWUSER | more) != 0) return said(text, "unshare");
	(void)write_file("/proc/self/setgroups", "deny");
	(void)snprintf(map, sizeof(map), "0 %u 1\n", uid);
	if (!write_file("/proc/self/uid_map", map)) return said(text, "writing uid_map");
	(void)snprintf(map, sizeof(map), "0 %u 1\n", gid);
	if (!write_file("/proc/self/gid_map", map)) return said(text, "writing gid_map");
	return true;
}

static bool try_user_namespace(void *context, char text[DOCTOR_TEXT_MAX])
{
	(void)context;
	return enter_user_namespace(0, text);
}

static bool try_namespaces(void *context, char text[DOCTOR_TEXT_MAX])
{
	(void)context;
	if (!enter_user_namespace(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS, text)) return false;
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) return said(text, "making mounts private");
	return true;
}

static const char *user_namespace_fix(void)
{
	if (read_switch("/proc/sys/kernel/unprivileged_userns_clone") == 0)
		return "sysctl -w kernel.unprivileged_userns_clone=1 (as root)";
	if (read_switch("/proc/sys/user/max_user_namespaces") == 0) return "sysctl -w user.max_user_namespaces=10000 (as root)";
	if (read_switch("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == 1)
		return "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 (as root), or an AppArmor profile for cowbox";
	return "a container's seccomp profile may forbid them: run it with one that allows unshare";
}

static bool try_overlay(void *context, char text[DOCTOR_TEXT_MAX])
{
	const char *folder = context;
	char options[] = "lowerdir=lower,upperdir=upper,workdir=work,userxattr";
	if (chdir(folder) != 0) return said(text, "entering the folder of the trial");
	if (mkdir("lower", 0700) != 0 || mkdir("upper", 0700) != 0 || mkdir("work", 0700) != 0 || mkdir("merged", 0700) != 0)
		return said(text, "making the folders of the trial");
	AUTO_FD int below = open("lower/a", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (below < 0) return said(text, "making a file");
	if (!enter_user_namespace(CLONE_NEWNS, text)) return false;
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) return said(text, "making mounts private");
	if (mount("overlay", "merged", "overlay", 0, options) != 0) return said(text, "mounting");
	AUTO_FD int above = open("merged/a", O_WRONLY | O_APPEND | O_CLOEXEC);
	if (above < 0 || write(above, "x", 1) != 1) return said(text, "writing through it");
	struct stat st;
	if (lstat("upper/a", &st) != 0 || st.st_size != 1) return said(text, "what was written is not in the upper folder");
	return true;
}

static void tell_namespaces(doctor *d)
{
	char text[DOCTOR_TEXT_MAX];
	bool users = doctor_attempt(try_user_namespace, NULL, text);
	if (users)
		doctor_tell(d, "user-namespaces", DOCTOR_OK, "", "user namespaces work%s",
		            geteuid() == 0 ? " (tried as root: for other users they may be off)" : "");
	else doctor_tell(d, "user-namespaces", DOCTOR_WARN, user_namespace_fix(), "no user namespaces (%s)", text);
	if (doctor_attempt(try_namespaces, NULL, text))
		doctor_tell(d, "namespaces", DOCTOR_OK, "", "mount, pid, network, ipc and uts namespaces work");
	else
		doctor_tell(d, "namespaces", DOCTOR_WARN,
		            users ? "the kernel must allow them inside a user namespace" : user_namespace_fix(),
		            "no mount, pid, network, ipc and uts namespaces (%s)", text);
	ATTR_CLEANUP(temporary_place_remove) temporary_place folder = TEMPORARY_PLACE_NONE;
	if (doctor_folder(d, &folder, NULL) != CB_OK) {
		doctor_tell(d, "overlayfs", DOCTOR_WARN, "make a folder writable", "overlayfs not tried: no folder for the trial");
		return;
	}
	if (doctor_attempt(try_overlay, folder.path, text))
		doctor_tell(d, "overlayfs", DOCTOR_OK, "", "overlayfs works in a user namespace");
	else
		doctor_tell(d, "overlayfs", DOCTOR_WARN,
		            users ? "Linux 5.11 or newer, and a store on a local filesystem (not overlayfs itself)"
		                  : user_namespace_fix(),
		            "no overlayfs in a user namespace (%s)", text);
}

/* ---- running programs ---- */

typedef struct trial {
	const char *folder;
	cb_tier tier;
} trial;

/* "why\nfix" when it does not work. */
static bool try_tier(void *context, char text[DOCTOR_TEXT_MAX])
{
	const trial *t = context;
	cb_tier_report report = CB_INIT(cb_tier_report);
	cb_error err;
	if (cb_sandbox_try(t->folder, t->tier, &report, &err) != CB_OK) {
		(void)snprintf(text, DOCTOR_TEXT_MAX, "%.500s\n", err.message);
		return false;
	}
	if (!report.works) (void)snprintf(text, DOCTOR_TEXT_MAX, "%s\n%s", report.why, report.fix);
	return report.works;
}

static void tell_tier(doctor *d, const char *name, cb_tier tier, const char *works, const char *without)
{
	char text[DOCTOR_TEXT_MAX];
	trial t = {d->nearest, tier};
	if (doctor_attempt(try_tier, &t, text)) {
		doctor_tell(d, name, DOCTOR_OK, "", "%s", works);
		return;
	}
	char *fix = strchr(text, '\n');
	if (fix) *fix++ = 0;
	doctor_tell(d, name, DOCTOR_WARN, fix && *fix ? fix : "put the store where it can be written", "%s (%s)", without, text);
}

static void tell_tiers(doctor *d)
{
	if (!d->nearest) return;
	tell_tier(d, "exec-overlay", CB_TIER_OVERLAY, "programs run in boxes, over layers", "no programs in boxes over layers");
	tell_tier(d, "exec-folder", CB_TIER_FOLDER, "programs run in boxes, over a folder", "no programs in boxes over a folder");
	tell_tier(d, "exec-weak", CB_TIER_WEAK, "programs run without namespaces when --weak asks for it",
	          "no programs without namespaces (--weak)");
}

/* ---- Landlock, seccomp ---- */

struct landlock_attr {
	uint64_t handled_access_fs;
};

/* Numbers of the interface that older headers lack; the same on every machine. */
enum { LANDLOCK_CREATE = 444, LANDLOCK_RESTRICT = 446, LANDLOCK_VERSION = 1, LANDLOCK_READ_FILE = 1 << 2 };

static bool try_landlock(void *context, char text[DOCTOR_TEXT_MAX])
{
	(void)context;
	long version = syscall(LANDLOCK_CREATE, NULL, 0, LANDLOCK_VERSION);
	if (version < 1) return said(text, "asking for its version");
	struct landlock_attr attr = {LANDLOCK_READ_FILE};
	AUTO_FD int rules = (int)syscall(LANDLOCK_CREATE, &attr, sizeof(attr), 0);
	if (rules < 0) return said(text, "making rules");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || syscall(LANDLOCK_RESTRICT, rules, 0) != 0)
		return said(text, "applying rules");
	AUTO_FD int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	(void)snprintf(text, DOCTOR_TEXT_MAX, fd >= 0 ? "its rules have no effect" : "version %ld", version);
	return fd < 0;
}

/* A filter that refuses getppid, which cannot fail otherwise. */
static bool try_seccomp(void *context, char text[DOCTOR_TEXT_MAX])
{
	(void)context;
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EUCLEAN),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {ARRAY_LEN(code), code};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return said(text, "no_new_privs");
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0) return said(text, "installing a filter");
	if (syscall(SYS_getppid) == -1 && errno == EUCLEAN) return true;
	(void)snprintf(text, DOCTOR_TEXT_MAX, "a filter has no effect");
	return false;
}

static void tell_filters(doctor *d)
{
	char text[DOCTOR_TEXT_MAX];
	if (doctor_attempt(try_landlock, NULL, text)) doctor_tell(d, "landlock", DOCTOR_OK, "", "Landlock works, %s", text);
	else
		doctor_tell(d, "landlock", DOCTOR_WARN, "Linux 5.13 or newer with 'landlock' among the security modules (lsm=)",
		            "no Landlock (%s)", text);
	if (doctor_attempt(try_seccomp, NULL, text)) doctor_tell(d, "seccomp", DOCTOR_OK, "", "seccomp filters work");
	else doctor_tell(d, "seccomp", DOCTOR_WARN, "a kernel with CONFIG_SECCOMP_FILTER", "no seccomp filters (%s)", text);
}

/* ---- openat2, cgroups ---- */

static bool try_openat2(void *context, char text[DOCTOR_TEXT_MAX])
{
	(void)context;
	struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
	AUTO_FD int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	AUTO_FD int inside = (int)syscall(SYS_openat2, root, "proc", &how, sizeof(how));
	if (inside < 0) return said(text, "opening a folder");
	AUTO_FD int outside = (int)syscall(SYS_openat2, inside, "..", &how, sizeof(how));
	if (outside < 0 && errno == EXDEV) return true;
	(void)snprintf(text, DOCTOR_TEXT_MAX, "'..' leads out");
	return false;
}

/* The group this process is in, when it is of version 2: "/sys/fs/cgroup/…". */
static bool own_group(char *out, size_t size)
{
	char text[4096];
	if (!io_text_read(AT_FDCWD, "/proc/self/cgroup", text, sizeof(text))) return false;
	char *line = strncmp(text, "0::", 3) == 0 ? text : strstr(text, "\n0::");
	if (!line) return false;
	line = strstr(line, "0::") + 3;
	line[strcspn(line, "\n")] = 0;
	int made = snprintf(out, size, "/sys/fs/cgroup%s", line);
	return made > 0 && (size_t)made < size;
}

static bool try_cgroup(void *context, char text[DOCTOR_TEXT_MAX])
{
	(void)context;
	char group[3000], child[4096];
	struct statfs fs;
	if (statfs("/sys/fs/cgroup", &fs) != 0) return said(text, "/sys/fs/cgroup");
	if ((unsigned long)fs.f_type != 0x63677270ul || !own_group(group, sizeof(group))) {
		(void)snprintf(text, DOCTOR_TEXT_MAX, "version 2 is not mounted at /sys/fs/cgroup");
		return false;
	}
	(void)snprintf(child, sizeof(child), "%s/cowbox-doctor-%ld", group, (long)getpid());
	if (mkdir(child, 0700) != 0) return said(text, "making a group below ours");
	(void)rmdir(child);
	return true;
}

void doctor_kernel(doctor *d)
{
	char text[DOCTOR_TEXT_MAX];
	tell_namespaces(d);
	tell_filters(d);
	tell_tiers(d);
	if (doctor_attempt(try_openat2, NULL, text)) doctor_tell(d, "openat2", DOCTOR_OK, "", "openat2 works");
	else doctor_tell(d, "openat2", DOCTOR_WARN, "Linux 5.6 or newer, or a newer container runtime", "no openat2 (%s)", text);
	if (doctor_attempt(try_cgroup, NULL, text))
		doctor_tell(d, "cgroups", DOCTOR_OK, "", "control groups are delegated: memory and processes can be bounded");
	else
		doctor_tell(d, "cgroups", DOCTOR_WARN,
		            "systemd-run --user --scope -p Delegate=yes cowbox ... gives it a group of its own",
		            "no control group of our own (%s)", text);
}
