/* attack_kernel.c: calls that only widen what the kernel can be attacked by, other ABIs, /proc/sys. */
#include "sandbox/attack.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/bpf.h>
#include <linux/fs.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static outcome io_uring(void)
{
	char parameters[256] = {0};
	outcome o = refused("io_uring_setup", syscall(SYS_io_uring_setup, 4, parameters));
	o = worse(o, refused("io_uring_enter", syscall(SYS_io_uring_enter, -1, 0, 0, 0, NULL, 0)));
	return worse(o, refused("io_uring_register", syscall(SYS_io_uring_register, -1, 0, NULL, 0)));
}

static outcome keys(void)
{
	outcome o = refused("add_key", syscall(SYS_add_key, "user", "attack", "x", 1, -4 /* the user's keyring */));
	o = worse(o, refused("keyctl", syscall(SYS_keyctl, 0 /* KEYCTL_GET_KEYRING_ID */, -3, 0)));
	return worse(o, refused("request_key", syscall(SYS_request_key, "user", "attack-none", NULL, 0)));
}

static outcome bpf(void)
{
	union bpf_attr a;
	memset(&a, 0, sizeof a);
	a.map_type = BPF_MAP_TYPE_ARRAY;
	a.key_size = a.value_size = 4;
	a.max_entries = 1;
	return refused("bpf", syscall(SYS_bpf, BPF_MAP_CREATE, &a, sizeof a));
}

static outcome perf(void)
{
	struct perf_event_attr a = {
		.type = PERF_TYPE_SOFTWARE, .size = sizeof a, .config = PERF_COUNT_SW_TASK_CLOCK, .exclude_kernel = 1};
	return refused("perf_event_open", syscall(SYS_perf_event_open, &a, 0, -1, -1, 0));
}

static outcome userfault(void)
{
	return refused("userfaultfd", syscall(SYS_userfaultfd, O_CLOEXEC | 1 /* user mode only */));
}

/* What only an administrator calls, with arguments that do nothing. The verdict is whether the kernel looked at them. */
static outcome administration(void)
{
	const struct {
		const char *name;
		long number, a, b, c;
	} calls[] = {
		{"kexec_load", SYS_kexec_load, 0, 1000, 0},
		{"init_module", SYS_init_module, 0, 0, 0},
		{"finit_module", SYS_finit_module, -1, 0, 0},
		{"delete_module", SYS_delete_module, 0, 0, 0},
		{"reboot", SYS_reboot, 0, 0, 0},
		{"swapon", SYS_swapon, 0, 0, 0},
		{"swapoff", SYS_swapoff, 0, 0, 0},
		{"acct", SYS_acct, 1, 0, 0},
		{"quotactl", SYS_quotactl, -1, 0, 0},
		{"clock_settime", SYS_clock_settime, 0, 0, 0},
		{"settimeofday", SYS_settimeofday, 1, 0, 0},
		{"syslog", SYS_syslog, 2, 0, 0},
		{"vhangup", SYS_vhangup, 0, 0, 0},
		{"fanotify_init", SYS_fanotify_init, -1, 0, 0},
#ifdef SYS_iopl
		{"iopl", SYS_iopl, 99, 0, 0},
		{"ioperm", SYS_ioperm, -1, -1, 1},
#endif
#ifdef SYS_modify_ldt
		{"uselib", SYS_uselib, 0, 0, 0},
#endif
	};
	outcome o = HELD;
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
		o = worse(o, refused(calls[i].name, syscall(calls[i].number, calls[i].a, calls[i].b, calls[i].c)));
	return o;
}

static outcome personalities(void)
{
	outcome o = refused("personality(READ_IMPLIES_EXEC)", syscall(SYS_personality, 0x0400000));
	return worse(o, refused("personality(MMAP_PAGE_ZERO)", syscall(SYS_personality, 0x0100000)));
}

#ifdef __x86_64__
static long int80(long number, long b, long c)
{
	long result;
	__asm__ volatile("int $0x80"
	                 : "=a"(result)
	                 : "a"(number), "b"(b), "c"(c), "d"(0L), "S"(0L), "D"(0L)
	                 : "r8", "r9", "r10", "r11", "memory");
	return result;
}
#endif

static outcome i386(void)
{
#ifdef __x86_64__
	long got = int80(20 /* getpid */, 0, 0);
	return got > 0 ? broken("getpid by int 0x80: %ld", got) : held("int 0x80: %s", strerror((int)-got));
#else
	return held("this machine has no second ABI");
#endif
}

static outcome i386_chmod(void)
{
#ifdef __x86_64__
	char *low = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	if (low == MAP_FAILED) return untried("mmap: %s", strerror(errno));
	snprintf(low, 4096, "attack-i386-%d", (int)getpid());
	close(open(low, O_CREAT | O_WRONLY | O_CLOEXEC, 0700));
	long got = int80(15 /* chmod */, (long)low, 04755);
	struct stat st;
	outcome o = !stat(low, &st) && st.st_mode & 06000 ? broken("chmod 4755 by int 0x80")
	                                                  : held("int 0x80: %s", strerror((int)-got));
	unlink(low);
	return o;
#else
	return held("this machine has no second ABI");
#endif
}

static outcome x32(void)
{
#ifdef __x86_64__
	long got = syscall(0x40000000 + SYS_getpid);
	return got >= 0 ? broken("getpid of x32") : errno == ENOSYS ? held("ENOSYS") : broken("x32: %s", strerror(errno));
#else
	return held("this machine has no second ABI");
#endif
}

/* What tomorrow's kernel adds must not be there by itself. */
static outcome unknown_calls(void)
{
	static const long odd[] = {0x3fffffff, 0x40000000, 0x7fffffff, -1, -2, 1L << 31, 5000, 100000};
	for (long n = 470; n < 1100; n++)
		if (syscall(n, -1, -1, -1, -1, -1, -1) >= 0 || errno != ENOSYS) return broken("call %ld: %s", n, strerror(errno));
	for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
		if (syscall(odd[i], -1, -1, -1, -1, -1, -1) >= 0 || errno != ENOSYS)
			return broken("call %ld: %s", odd[i], strerror(errno));
	return held("all ENOSYS");
}

/* Contexts of asynchronous input come out of one number for the whole machine: half of it in one call. */
static outcome aio_all(void)
{
	char text[32] = "";
	if (slurp("/proc/sys/fs/aio-max-nr", text, sizeof text - 1) <= 0) return untried("aio-max-nr: %s", strerror(errno));
	unsigned long context = 0;
	long got = syscall(SYS_io_setup, strtoul(text, NULL, 10) / 4, &context);
	if (got)
		return errno == EPERM || errno == ENOSYS ? held("io_setup: %s", strerror(errno))
		                                         : untried("io_setup: %s", strerror(errno));
	syscall(SYS_io_destroy, context);
	return broken("half of the machine's asynchronous contexts");
}

/* A file that cannot be removed would stay in the store for good. */
static outcome immutable(void)
{
	char name[64];
	snprintf(name, sizeof name, "attack-immutable-%d", (int)getpid());
	int fd = open(name, O_CREAT | O_RDONLY | O_CLOEXEC, 0600);
	if (fd < 0) return untried("%s: %s", name, strerror(errno));
	int flags = FS_IMMUTABLE_FL, none = 0;
	int got = ioctl(fd, FS_IOC_SETFLAGS, &flags), code = errno;
	flags = FS_APPEND_FL;
	if (got) got = ioctl(fd, FS_IOC_SETFLAGS, &flags);
	if (!got) ioctl(fd, FS_IOC_SETFLAGS, &none);
	close(fd);
	unlink(name);
	return got ? held("FS_IOC_SETFLAGS: %s", strerror(code)) : broken("an immutable file");
}

static char written[256];

static int open_setting(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)ftw;
	if (type != FTW_F && type != FTW_NS && type != FTW_SL) return 0;
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0) return 0;
	close(fd);
	snprintf(written, sizeof written, "%s", path);
	return 1;
}

static outcome proc_sys(void)
{
	written[0] = 0;
	if (access("/proc/sys/kernel", F_OK)) return untried("/proc/sys: %s", strerror(errno));
	nftw("/proc/sys", open_setting, 16, FTW_PHYS);
	return written[0] ? broken("%s opened for writing", written) : held("no setting opens for writing");
}

/* The pipe to a program that the kernel runs as root outside of all namespaces. */
static outcome core_pattern(void)
{
	int fd = open("/proc/sys/kernel/core_pattern", O_WRONLY | O_CLOEXEC);
	if (fd < 0) return held("core_pattern: %s", strerror(errno));
	close(fd);
	return broken("core_pattern opened for writing");
}

static outcome proc_kernel(void)
{
	static const char *const writable[] = {"/proc/sysrq-trigger", "/proc/irq/default_smp_affinity",
	                                       "/proc/bus",           "/proc/acpi/wakeup",
	                                       "/proc/mtrr",          "/proc/scsi/scsi",
	                                       "/proc/timer_list",    "/proc/self/oom_adj_not"};
	static const char *const secret[] = {"/proc/kcore",       "/proc/kmsg",       "/proc/timer_list", "/proc/sched_debug",
	                                     "/proc/vmallocinfo", "/proc/kpagecount", "/proc/kpageflags", "/proc/slabinfo"};
	for (size_t i = 0; i < sizeof writable / sizeof *writable; i++) {
		int fd = open(writable[i], O_WRONLY | O_CLOEXEC);
		if (fd < 0) continue;
		close(fd);
		return broken("%s opened for writing", writable[i]);
	}
	for (size_t i = 0; i < sizeof secret / sizeof *secret; i++) {
		char bytes[64];
		if (slurp(secret[i], bytes, sizeof bytes) > 0) return broken("%s can be read", secret[i]);
	}
	return held("the kernel's own files of /proc are closed");
}

/* Names of the caller's keys; the test made one. */
static outcome key_names(void)
{
	static char text[1 << 16];
	long got = slurp("/proc/keys", text, sizeof text);
	if (got < 0) return held("/proc/keys: %s", strerror(errno));
	return has_canary(text, (size_t)got) ? broken("the caller's keys in /proc/keys") : held("no key of others in /proc/keys");
}

const attack attacks_kernel[] = {
	{"io-uring", "seccomp", "io_uring: system calls that no filter sees", "seccomp", PROOF, io_uring},
	{"keys", "seccomp", "add_key, keyctl, request_key: keyrings have no namespace", "seccomp", PROOF, keys},
	{"bpf", "seccomp", "bpf", "seccomp; no capabilities", 0, bpf},
	{"perf", "seccomp", "perf_event_open", "seccomp", PROOF, perf},
	{"userfaultfd", "seccomp", "userfaultfd", "seccomp", PROOF, userfault},
	{"administration", "seccomp", "modules, kexec, reboot, swap, time, ports, kernel log", "seccomp; no capabilities", PROOF,
         administration},
	{"personality", "seccomp", "personalities that weaken the process", "seccomp", PROOF, personalities},
	{"i386", "seccomp", "a call by int 0x80", "foreign ABIs are ENOSYS", PROOF, i386},
	{"i386-chmod", "seccomp", "chmod 4755 by int 0x80", "foreign ABIs are ENOSYS", PROOF, i386_chmod},
	{"x32", "seccomp", "a call of the x32 ABI", "ENOSYS", 0, x32},
	{"unknown-calls", "seccomp", "call numbers above the known, and odd ones", "what is not in the table is ENOSYS", 0,
         unknown_calls},
	{"aio", "seccomp", "takes the machine's asynchronous contexts", "seccomp", PROOF, aio_all},
	{"immutable", "caps", "makes a file immutable, for the clean-up", "no CAP_LINUX_IMMUTABLE", 0, immutable},
	{"proc-sys", "proc-sys", "opens every setting in /proc/sys for writing", "/proc/sys is read-only", PROOF, proc_sys},
	{"core-pattern", "proc-sys", "the program that the kernel runs at a crash", "/proc/sys is read-only; not root", 0,
         core_pattern},
	{"key-names", "proc-sys", "reads the names of the caller's keys", "/proc/keys is masked", PROOF | WEAK, key_names},
	{"proc-kernel", "proc-sys", "kcore, kmsg, keys, sysrq-trigger ...", "they are the real root's", 0, proc_kernel},
	{NULL}};
