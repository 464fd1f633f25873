/* attack_devices.c: device nodes and terminals. */
#include "sandbox/attack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static outcome node(const char *what, mode_t type, dev_t device)
{
	char name[64];
	snprintf(name, sizeof name, "attack-node-%d", (int)getpid());
	long got = syscall(SYS_mknodat, AT_FDCWD, name, type | 0666, (unsigned)device);
	int code = errno;
	unlink(name);
	return got ? held("%s: %s", what, strerror(code)) : broken("made %s", what);
}

static outcome make_devices(void)
{
	outcome o = node("/dev/mem", S_IFCHR, makedev(1, 1));
	o = worse(o, node("a disk", S_IFBLK, makedev(8, 0)));
	o = worse(o, node("/dev/kmsg", S_IFCHR, makedev(1, 11)));
	return worse(o, node("/dev/null", S_IFCHR, makedev(1, 3)));
}

/* A character device 0:0 is how overlayfs writes "gone": the kernel lets anybody make one. In a layer it would hide what others hold. */
static outcome make_whiteout(void)
{
	return node("a whiteout", S_IFCHR, makedev(0, 0));
}

static outcome open_devices(void)
{
	static const char *const names[] = {
		"mem",           "kmem",        "port",   "kmsg",   "sda",         "vda",     "nvme0",   "loop0",
		"loop-control",  "fuse",        "kvm",    "vsock",  "vhost-vsock", "net/tun", "console", "tty0",
		"tty1",          "ttyS0",       "input",  "snd",    "dri",         "hpet",    "rtc0",    "mapper/control",
		"btrfs-control", "userfaultfd", "uinput", "autofs", "cuse",        "nvram",   "watchdog"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		char path[64];
		snprintf(path, sizeof path, "/dev/%s", names[i]);
		int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
		if (fd < 0) continue;
		close(fd);
		return broken("%s opened", path);
	}
	return held("none of them opens");
}

static outcome listed_devices(void)
{
	static const char *const known[] = {".",   "..",   "null", "zero",  "full",   "random", "urandom", "tty",   "shm",
	                                    "pts", "ptmx", "fd",   "stdin", "stdout", "stderr", "core",    "mqueue"};
	DIR *dev = opendir("/dev");
	if (!dev) return held("/dev: %s", strerror(errno));
	struct dirent *e;
	outcome o = HELD;
	while ((e = readdir(dev)) && o != BROKEN) {
		bool is_known = false;
		for (size_t i = 0; i < sizeof known / sizeof *known; i++) is_known |= !strcmp(known[i], e->d_name);
		if (!is_known) o = broken("/dev/%s is there", e->d_name);
	}
	closedir(dev);
	return o == BROKEN ? o : held("only the listed ones");
}

static outcome host_terminal(void)
{
	int fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
	if (fd >= 0) {
		char *own = ttyname(0);
		close(fd);
		if (!own) return broken("/dev/tty is a terminal of the host");
	}
	return held("/dev/tty: %s", fd < 0 ? strerror(errno) : "its own");
}

static outcome other_terminals(void)
{
	DIR *pts = opendir("/dev/pts");
	if (!pts) return held("/dev/pts: %s", strerror(errno));
	struct dirent *e;
	outcome o = HELD;
	while ((e = readdir(pts)) && o != BROKEN)
		if (atoi(e->d_name) > 0 || (e->d_name[0] == '0' && !isatty(0))) o = broken("/dev/pts/%s", e->d_name);
	closedir(pts);
	return o == BROKEN ? o : held("no terminal of others");
}

/* A terminal of this process's own, as its controlling one: there the kernel would let TIOCSTI through. */
static int own_terminal(void)
{
	setsid();
	int master = open("/dev/ptmx", O_RDWR | O_CLOEXEC | O_NOCTTY);
	int unlock = 0;
	char path[32];
	unsigned number;
	if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) || ioctl(master, TIOCGPTN, &number)) return -1;
	snprintf(path, sizeof path, "/dev/pts/%u", number);
	int slave = open(path, O_RDWR | O_CLOEXEC);
	if (slave >= 0) ioctl(slave, TIOCSCTTY, 0);
	return slave;
}

static outcome push(unsigned long rubbish)
{
	int fd = own_terminal();
	if (fd < 0) return untried("no terminal: %s", strerror(errno));
	char key = 'x';
	return refused("TIOCSTI", syscall(SYS_ioctl, fd, (unsigned long)TIOCSTI | rubbish, &key));
}

static outcome tiocsti(void)
{
	return push(0);
}

static outcome tiocsti_high(void)
{
	return worse(push(1UL << 32), push(0xffffffffUL << 32));
}

static outcome tioclinux(void)
{
	int fd = own_terminal();
	if (fd < 0) return untried("no terminal: %s", strerror(errno));
	char paste[2] = {3, 0};
	outcome o = refused("TIOCLINUX", syscall(SYS_ioctl, fd, (unsigned long)TIOCLINUX, paste));
	return worse(o, refused("TIOCLINUX | 1<<32", syscall(SYS_ioctl, fd, (unsigned long)TIOCLINUX | 1UL << 32, paste)));
}

static outcome tiocsetd(void)
{
	int fd = own_terminal(), discipline = 0;
	if (fd < 0) return untried("no terminal: %s", strerror(errno));
	outcome o = refused("TIOCSETD", syscall(SYS_ioctl, fd, (unsigned long)TIOCSETD, &discipline));
	return worse(o, refused("TIOCSETD | 1<<32", syscall(SYS_ioctl, fd, (unsigned long)TIOCSETD | 1UL << 32, &discipline)));
}

const attack attacks_devices[] = {
	{"make-devices", "caps", "mknod of memory, disks, kernel log", "seccomp; no capabilities; nodev", 0, make_devices},
	{"make-whiteout", "seccomp", "mknod of overlayfs's mark for \"gone\"", "seccomp", 0, make_whiteout},
	{"open-devices", "root", "opens /dev/mem, kmsg, disks, fuse, kvm, vsock, consoles", "a /dev of its own", 0, open_devices},
	{"listed-devices", "root", "looks for anything else in /dev", "a /dev of its own", 0, listed_devices},
	{"host-terminal", "stdio", "opens /dev/tty", "a session of its own", 0, host_terminal},
	{"other-terminals", "root", "looks for terminals in /dev/pts", "a devpts of its own", 0, other_terminals},
	{"tiocsti", "seccomp", "types into a terminal", "seccomp", PROOF | EITHER, tiocsti},
	{"tiocsti-high", "seccomp", "the same with rubbish in the high bits", "the low 32 bits are compared", PROOF | EITHER,
         tiocsti_high},
	{"tioclinux", "seccomp", "pastes into a console", "seccomp", PROOF | EITHER, tioclinux},
	{"tiocsetd", "seccomp", "changes the line discipline", "seccomp", PROOF | EITHER, tiocsetd},
	{NULL}};
