/* attack_setid.c: setuid and setgid bits and capabilities on files: what the box makes belongs to the caller's uid on the host, and
 * another user who runs it there becomes the caller. */
#include "sandbox/attack.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#ifndef SYS_setxattrat
#define SYS_setxattrat 463
#endif
enum { SETID = 06000 };

static char name[64];

static const char *fresh(bool make)
{
	static int count;
	snprintf(name, sizeof name, "attack-setid-%d-%d", (int)getpid(), count++);
	if (make) close(open(name, O_CREAT | O_WRONLY | O_CLOEXEC, 0755));
	return name;
}

static outcome look(const char *what, long result)
{
	int code = errno;
	struct stat st;
	bool set = !lstat(name, &st) && st.st_mode & SETID;
	if (set) broken("%s: mode %o", what, st.st_mode & 07777);
	else held("%s: %s", what, result < 0 ? strerror(code) : "without the bits");
	if (unlink(name)) rmdir(name);
	return set ? BROKEN : HELD;
}

static outcome both(outcome (*with)(mode_t mode))
{
	return worse(with(04755), with(02755));
}

static outcome chmod_with(mode_t mode)
{
	outcome o = look("chmod", chmod(fresh(true), mode));
	fresh(false);
	if (mkdir(name, 0700)) return untried("mkdir: %s", strerror(errno));
	return worse(o, look("chmod of a folder", chmod(name, mode)));
}

static outcome by_chmod(void)
{
	return both(chmod_with);
}

static outcome chmod_high_with(mode_t mode)
{
	return look("chmod with rubbish above", syscall(SYS_chmod, fresh(true), (unsigned long)mode | 1UL << 40 | 1UL << 20));
}

static outcome by_chmod_high(void)
{
	return both(chmod_high_with);
}

static outcome fchmod_with(mode_t mode)
{
	int fd = open(fresh(true), O_RDONLY | O_CLOEXEC);
	if (fd < 0) return untried("%s: %s", name, strerror(errno));
	outcome o = look("fchmod", fchmod(fd, mode));
	close(fd);
	return o;
}

static outcome by_fchmod(void)
{
	return both(fchmod_with);
}

static outcome fchmodat_with(mode_t mode)
{
	return look("fchmodat", syscall(SYS_fchmodat, AT_FDCWD, fresh(true), mode));
}

static outcome by_fchmodat(void)
{
	return both(fchmodat_with);
}

static outcome fchmodat2_with(mode_t mode)
{
	return look("fchmodat2", syscall(SYS_fchmodat2, AT_FDCWD, fresh(true), mode, 0));
}

static outcome by_fchmodat2(void)
{
	return both(fchmodat2_with);
}

static outcome open_with(mode_t mode)
{
	umask(0);
	int fd = open(fresh(false), O_CREAT | O_WRONLY | O_CLOEXEC, mode);
	outcome o = look("open", fd);
	if (fd >= 0) close(fd);
	long raw = syscall(SYS_openat, AT_FDCWD, fresh(false), O_CREAT | O_WRONLY, mode);
	o = worse(o, look("openat", raw));
	if (raw >= 0) close((int)raw);
	return o;
}

static outcome by_open(void)
{
	return both(open_with);
}

static outcome tmpfile_with(mode_t mode)
{
	umask(0);
	int fd = open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
	if (fd < 0) return held("O_TMPFILE: %s", strerror(errno));
	char self[64];
	snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
	outcome o = look("O_TMPFILE", linkat(AT_FDCWD, self, AT_FDCWD, fresh(false), AT_SYMLINK_FOLLOW));
	close(fd);
	return o;
}

static outcome by_tmpfile(void)
{
	return both(tmpfile_with);
}

static outcome creat_with(mode_t mode)
{
	umask(0);
#ifdef SYS_creat
	long fd = syscall(SYS_creat, fresh(false), mode);
#else
	long fd = creat(fresh(false), mode);
#endif
	outcome o = look("creat", fd);
	if (fd >= 0) close((int)fd);
	return o;
}

static outcome by_creat(void)
{
	return both(creat_with);
}

static outcome openat2_with(mode_t mode)
{
	umask(0);
	struct open_how how = {.flags = O_CREAT | O_WRONLY, .mode = mode};
	long fd = syscall(SYS_openat2, AT_FDCWD, fresh(false), &how, sizeof how);
	outcome o = look("openat2", fd);
	if (fd >= 0) close((int)fd);
	return o;
}

static outcome by_openat2(void)
{
	return both(openat2_with);
}

static outcome mkdir_with(mode_t mode)
{
	umask(0);
	outcome o = look("mkdir", mkdir(fresh(false), mode));
	return worse(o, look("mkdirat", syscall(SYS_mkdirat, AT_FDCWD, fresh(false), mode)));
}

static outcome by_mkdir(void)
{
	return both(mkdir_with);
}

static outcome mknod_with(mode_t mode)
{
	umask(0);
	outcome o = look("mknod", mknod(fresh(false), S_IFREG | mode, 0));
	o = worse(o, look("mknodat", mknodat(AT_FDCWD, fresh(false), mode, 0)));
	return worse(o, look("mkfifo", mknod(fresh(false), S_IFIFO | mode, 0)));
}

static outcome by_mknod(void)
{
	return both(mknod_with);
}

/* A file that is setuid through a copy, a program of the system: cp -p, tar xp and rsync end in one of the calls above. */
static outcome by_programs(void)
{
	static const char *const lines[] = {"cp /bin/true %s && chmod u+s %s", "install -m 4755 /bin/true %s",
	                                    "chmod 2755 %s; touch %s && chmod g+s %s"};
	outcome o = HELD;
	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
		char line[512];
		fresh(false);
		snprintf(line, sizeof line, "(");
		const char *from = lines[i];
		size_t size = 1;
		for (; *from && size + sizeof name < sizeof line; from++) {
			if (from[0] == '%' && from[1] == 's') {
				size += (size_t)snprintf(line + size, sizeof line - size, "%s", name);
				from++;
			} else {
				line[size++] = *from;
			}
		}
		snprintf(line + size, sizeof line - size, ") 2>/dev/null");
		int status = system(line);
		errno = EPERM;
		o = worse(o, look(lines[i], status ? -1 : 0));
	}
	return o;
}

static outcome file_capabilities(void)
{
	struct vfs_cap_data v2 = {.magic_etc = VFS_CAP_REVISION_2 | VFS_CAP_FLAGS_EFFECTIVE, .data = {{~0U, 0}, {~0U, 0}}};
	struct vfs_ns_cap_data v3 = {
		.magic_etc = VFS_CAP_REVISION_3 | VFS_CAP_FLAGS_EFFECTIVE, .data = {{~0U, 0}, {~0U, 0}}, .rootid = 1000};
	fresh(true);
	bool got = !setxattr(name, "security.capability", &v2, sizeof v2, 0) ||
	           !setxattr(name, "security.capability", &v3, sizeof v3, 0);
	int code = errno;
	struct {
		uint64_t value;
		uint32_t size, flags;
	} at = {(uintptr_t)&v3, sizeof v3, 0};
	got = got || !syscall(SYS_setxattrat, AT_FDCWD, name, 0, "security.capability", &at, sizeof at);
	char back[64];
	got = got || getxattr(name, "security.capability", back, sizeof back) > 0;
	unlink(name);
	return got ? broken("capabilities on a file") : held("setxattr: %s", strerror(code));
}

/* trusted.overlay.* and security.* steer the kernel; user.overlay.* is a trap of its own. */
static outcome trusted_attributes(void)
{
	fresh(true);
	bool got = !setxattr(name, "trusted.overlay.opaque", "y", 1, 0) || !setxattr(name, "trusted.attack", "y", 1, 0) ||
	           !setxattr(name, "security.attack", "y", 1, 0);
	int code = errno;
	unlink(name);
	return got ? broken("a trusted or security attribute") : held("setxattr: %s", strerror(code));
}

static outcome no_capabilities(void)
{
	char text[8192] = "";
	if (slurp("/proc/self/status", text, sizeof text - 1) <= 0) return untried("/proc/self/status: %s", strerror(errno));
	static const char *const sets[] = {"CapInh:\t", "CapPrm:\t", "CapEff:\t", "CapAmb:\t"};
	for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
		const char *at = strstr(text, sets[i]);
		if (!at) return untried("no %s", sets[i]);
		if (strtoull(at + 8, NULL, 16)) return broken("%.7s%.16s", sets[i], at + 8);
	}
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) return broken("no_new_privs is not set");
	return held("no capability in any set, no_new_privs");
}

static outcome filter_on(void)
{
	return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 2 ? held("a filter is installed") : broken("no filter: %s", strerror(errno));
}

static outcome gain_capabilities(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct all[2] = {{~0U, ~0U, ~0U}, {0x1ff, 0x1ff, 0x1ff}};
	if (!syscall(SYS_capset, &head, all)) return broken("capset of all");
	int code = errno;
	if (!prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SYS_ADMIN, 0, 0)) return broken("an ambient capability");
	if (!prctl(PR_SET_SECUREBITS, 0, 0, 0, 0)) return broken("securebits");
	return held("capset: %s", strerror(code));
}

const attack attacks_setid[] = {
	{"setid-chmod", "seccomp", "chmod 4755 and 2755, files and folders", "seccomp", PROOF, by_chmod},
	{"setid-chmod-high", "seccomp", "the same with rubbish in the high bits", "the bits are tested, not the number", PROOF,
         by_chmod_high},
	{"setid-fchmod", "seccomp", "fchmod", "seccomp", PROOF, by_fchmod},
	{"setid-fchmodat", "seccomp", "fchmodat", "seccomp", PROOF, by_fchmodat},
	{"setid-fchmodat2", "seccomp", "fchmodat2", "seccomp", PROOF, by_fchmodat2},
	{"setid-open", "seccomp", "open and openat with mode 4755", "seccomp", PROOF, by_open},
	{"setid-tmpfile", "seccomp", "O_TMPFILE with mode 4755, then a link", "seccomp", PROOF, by_tmpfile},
	{"setid-creat", "seccomp", "creat with mode 4755", "seccomp", PROOF, by_creat},
	{"setid-openat2", "seccomp", "openat2, whose mode a filter cannot see", "openat2 is ENOSYS: programs fall back to openat",
         PROOF, by_openat2},
	{"setid-mkdir", "seccomp", "mkdir and mkdirat with mode 2755", "seccomp; the kernel drops them in mkdir", 0, by_mkdir},
	{"setid-mknod", "seccomp", "mknod, mknodat, mkfifo with mode 4755", "seccomp", PROOF, by_mknod},
	{"setid-programs", "seccomp", "cp, install, chmod of the system", "seccomp", PROOF, by_programs},
	{"file-capabilities", "caps", "capabilities as an attribute of a file", "no CAP_SETFCAP", 0, file_capabilities},
	{"trusted-attributes", "caps", "trusted.overlay.*, trusted.*, security.*", "no capabilities", 0, trusted_attributes},
	{"no-capabilities", "caps", "looks at its capabilities", "all sets are empty, no_new_privs", PROOF, no_capabilities},
	{"filter-on", "seccomp", "looks for a filter", "one is installed", PROOF, filter_on},
	{"gain-capabilities", "caps", "capset, ambient capabilities, securebits", "there is nothing to gain from", 0,
         gain_capabilities},
	{NULL}};
