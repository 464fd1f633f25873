/*
 * test_filter.c: the filter's program, interpreted over all numbers, machines and arguments, against a second reading of the rules;
 * the table against the headers of this system; and the real thing in a child.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/harness.h"
#include "sandbox/filter_table.h"

/* ---- what the kernel does with a program ---- */

static uint32_t load(const struct seccomp_data *d, uint32_t offset)
{
	uint32_t v;
	CHECK(offset % 4 == 0 && offset + 4 <= sizeof(*d));
	memcpy(&v, (const char *)d + offset, 4);
	return v;
}

static bool jump_taken(const struct sock_filter *s, uint32_t a)
{
	switch (BPF_OP(s->code)) {
	case BPF_JEQ:
		return a == s->k;
	case BPF_JGE:
		return a >= s->k;
	case BPF_JGT:
		return a > s->k;
	case BPF_JSET:
		return (a & s->k) != 0;
	default:
		test_fail(__FILE__, __LINE__, "jump %x", s->code);
	}
}

static uint32_t run(const filter_program *p, const struct seccomp_data *d)
{
	uint32_t a = 0;
	for (unsigned at = 0; at < p->size; at++) {
		const struct sock_filter *s = &p->code[at];
		switch (s->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			a = load(d, s->k);
			break;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= s->k;
			break;
		case BPF_RET | BPF_K:
			return s->k;
		case BPF_JMP | BPF_JA:
			at += s->k;
			break;
		default:
			CHECK_MSG(BPF_CLASS(s->code) == BPF_JMP, "instruction %x", s->code);
			at += jump_taken(s, a) ? s->jt : s->jf;
		}
	}
	test_fail(__FILE__, __LINE__, "the program runs past its end");
}

/* ---- a second reading of the rules ---- */

static const filter_machine machines[] = {FILTER_X86_64, FILTER_AARCH64};
static const filter_kind kinds[] = {FILTER_COMMAND, FILTER_WEAK, FILTER_WEAK_NET, FILTER_COMMAND | FILTER_PINNED,
                                    FILTER_WEAK | FILTER_PINNED};

enum { ALLOWED = 0, KILLED = -1, NOTHING = -2 };

static int socket_answer(filter_kind kind, uint32_t family, uint32_t type, uint32_t protocol)
{
	if (kind == FILTER_WEAK) return EAFNOSUPPORT;
	if (family == AF_UNIX) return kind == FILTER_COMMAND ? ALLOWED : EAFNOSUPPORT;
	if (family == AF_NETLINK) return protocol == 0 ? ALLOWED : EPROTONOSUPPORT;
	if (family != AF_INET && family != AF_INET6) return EAFNOSUPPORT;
	type &= 0xf;
	bool known = protocol == 0 || protocol == 1 || protocol == 6 || protocol == 17 || protocol == 58 || protocol == 262;
	return type <= SOCK_RAW && known ? ALLOWED : EPROTONOSUPPORT;
}

static int mode_answer(uint32_t mode, bool mknod)
{
	if (mode & (S_ISUID | S_ISGID)) return EPERM;
	return mknod && (S_ISCHR(mode) || S_ISBLK(mode)) ? EPERM : ALLOWED;
}

static int answer(filter_rule rule, filter_kind kind, const uint64_t *args)
{
	uint32_t a[4];
	bool pinned = kind & FILTER_PINNED;
	kind &= ~FILTER_PINNED;
	for (int i = 0; i < 4; i++) a[i] = (uint32_t)args[i];
	switch (rule) {
	case RULE_ENOSYS:
		return ENOSYS;
	case RULE_ALLOW:
		return ALLOWED;
	case RULE_EPERM:
		return EPERM;
	case RULE_CLONE:
		return a[0] & (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |
		               CLONE_NEWCGROUP)
		               ? EPERM
		               : ALLOWED;
	case RULE_UNSHARE:
		return a[0] & 0x80 ? EPERM : answer(RULE_CLONE, kind, args);
	case RULE_SOCKET:
		return socket_answer(kind, a[0], a[1], a[2]);
	case RULE_SOCKETPAIR:
		if (a[0] != AF_UNIX) return EAFNOSUPPORT;
		return kind == FILTER_COMMAND || (a[1] & 0xf) == SOCK_STREAM ? ALLOWED : EPERM;
	case RULE_IOCTL:
		return a[1] == TIOCSTI || a[1] == TIOCLINUX || a[1] == TIOCCONS || a[1] == TIOCSETD ? EPERM : ALLOWED;
	case RULE_PERSONALITY:
		return a[0] == UINT32_MAX || (a[0] & ~(uint32_t)(ADDR_NO_RANDOMIZE | UNAME26 | PER_LINUX32)) == 0 ? ALLOWED : EPERM;
	case RULE_MODE_1:
		return mode_answer(a[1], false);
	case RULE_MODE_2:
		return mode_answer(a[2], false);
	case RULE_OPEN:
		return a[1] & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY)) ? mode_answer(a[2], false) : ALLOWED;
	case RULE_OPENAT:
		return a[2] & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY)) ? mode_answer(a[3], false) : ALLOWED;
	case RULE_MKNOD:
		return mode_answer(a[1], true);
	case RULE_MKNODAT:
		return mode_answer(a[2], true);
	case RULE_IPC:
		return kind == FILTER_COMMAND ? ALLOWED : EPERM;
	case RULE_PRCTL:
		return a[0] == PR_SET_DUMPABLE ? NOTHING : ALLOWED;
	case RULE_PRLIMIT:
		if (kind == FILTER_COMMAND) return a[0] == 1 ? EPERM : ALLOWED;
		return a[0] == 0 ? ALLOWED : EPERM;
	case RULE_AFFINITY:
		return pinned ? EPERM : answer(RULE_SELF, kind, args);
	case RULE_SELF:
		return kind == FILTER_COMMAND || a[0] == 0 ? ALLOWED : EPERM;
	case RULE_PRIORITY:
		return kind == FILTER_COMMAND || (a[0] == 0 && a[1] == 0) ? ALLOWED : EPERM;
	case RULE_IOPRIO:
		return kind == FILTER_COMMAND || (a[0] == 1 && a[1] == 0) ? ALLOWED : EPERM;
	}
	test_fail(__FILE__, __LINE__, "rule %d", (int)rule);
}

static uint32_t as_return(int answer_)
{
	if (answer_ == KILLED) return SECCOMP_RET_KILL_PROCESS;
	if (answer_ == NOTHING) return SECCOMP_RET_ERRNO;
	return answer_ == ALLOWED ? SECCOMP_RET_ALLOW : SECCOMP_RET_ERRNO | (uint32_t)answer_;
}

static filter_rule rule_of(filter_machine m, uint32_t number)
{
	for (size_t i = 0; i < filter_call_count; i++)
		if (filter_calls[i].number[m] >= 0 && (uint32_t)filter_calls[i].number[m] == number) return filter_calls[i].rule;
	return RULE_ENOSYS;
}

static uint32_t arch_of(filter_machine m)
{
	return m == FILTER_X86_64 ? AUDIT_ARCH_X86_64 : AUDIT_ARCH_AARCH64;
}

static void check_call(const filter_program *p, filter_machine m, filter_kind k, uint32_t number, const uint64_t args[6])
{
	struct seccomp_data d = {.nr = (int)number, .arch = arch_of(m)};
	memcpy(d.args, args, sizeof(d.args));
	uint32_t got = run(p, &d), want = as_return(answer(rule_of(m, number), k, args));
	CHECK_MSG(got == want, "machine %d kind %d number %u args %llx %llx %llx %llx: %x, expected %x", (int)m, (int)k, number,
	          (unsigned long long)args[0], (unsigned long long)args[1], (unsigned long long)args[2],
	          (unsigned long long)args[3], got, want);
}

/* ---- tests ---- */

TEST(every_number_and_argument)
{
	/* Values on both sides of every rule, with what the kernel ignores in the upper half. */
	static const uint64_t values[] = {0,         1,         2,         3,          5,          6,          10,         16,
	                                  17,        29,        38,        40,         44,         58,         132,        256,
	                                  262,       0100,      0101,      0644,       0755,       01777,      02755,      04755,
	                                  06000,     010644,    020666,    060660,     0100644,    0104755,    0140755,    TIOCSTI,
	                                  TIOCLINUX, TIOCSETD,  TIOCCONS,  TIOCGWINSZ, 0x80,       0x20000,    0x40000,    0x60008,
	                                  0x400000,  0x2000000, 0x4000000, 0x8000000,  0x10000000, 0x20000000, 0x40000000, 0x3d0f00,
	                                  0x1200011, 020200000, 020000000, 0x80801,    0xffffffff, 0x7e020000, 0x7fffffff};
	filter_program p;
	cb_error err;
	for (size_t mi = 0; mi < ARRAY_LEN(machines); mi++)
		for (size_t ki = 0; ki < ARRAY_LEN(kinds); ki++) {
			CHECK_OK(filter_compile(machines[mi], kinds[ki], &p, &err));
			for (uint32_t n = 0; n <= 1024; n++)
				for (size_t v = 0; v < ARRAY_LEN(values); v++) {
					uint64_t args[6];
					for (size_t i = 0; i < 6; i++)
						args[i] = values[(v * (i + 1) + i) % ARRAY_LEN(values)] |
						          (v % 3 ? 0xdeadbeef00000000 : 0);
					check_call(&p, machines[mi], kinds[ki], n, args);
				}
		}
}

TEST(random_arguments)
{
	test_rng r = {test_seed() | 1};
	static const uint64_t small[] = {0, 1, 2, 10, 16, 40, 0100, 04000, 0777, 0x5412, 0x541c, 0x541d, 0x5423, 0x10000000, 262};
	filter_program p;
	cb_error err;
	for (unsigned round = 0; round < 20 * test_soak(); round++) {
		filter_machine m = machines[test_rand_below(&r, ARRAY_LEN(machines))];
		filter_kind k = kinds[test_rand_below(&r, ARRAY_LEN(kinds))];
		CHECK_OK(filter_compile(m, k, &p, &err));
		for (int i = 0; i < 20000; i++) {
			uint64_t args[6];
			for (int a = 0; a < 6; a++) {
				uint64_t x = test_rand(&r);
				args[a] =
					x % 3 == 0 ? x : small[test_rand_below(&r, ARRAY_LEN(small))] | (x % 3 == 1 ? x << 32 : 0);
			}
			check_call(&p, m, k, (uint32_t)test_rand_below(&r, 480), args);
		}
	}
}

TEST(foreign_abis)
{
	static const uint32_t strangers[] = {
		AUDIT_ARCH_ARMEB, AUDIT_ARCH_MIPS64, AUDIT_ARCH_PPC64LE, AUDIT_ARCH_S390X, AUDIT_ARCH_RISCV64, 0, UINT32_MAX};
	filter_program p;
	cb_error err;
	for (size_t mi = 0; mi < ARRAY_LEN(machines); mi++) {
		filter_machine m = machines[mi];
		CHECK_OK(filter_compile(m, FILTER_COMMAND, &p, &err));
		for (uint32_t n = 0; n <= 1024; n++) {
			struct seccomp_data d = {.nr = (int)n, .arch = m == FILTER_X86_64 ? AUDIT_ARCH_I386 : AUDIT_ARCH_ARM};
			CHECK_U64(run(&p, &d), as_return(ENOSYS));
			d.arch = arch_of(m == FILTER_X86_64 ? FILTER_AARCH64 : FILTER_X86_64);
			CHECK_U64(run(&p, &d), as_return(KILLED));
			for (size_t i = 0; i < ARRAY_LEN(strangers); i++) {
				d.arch = strangers[i];
				CHECK_U64(run(&p, &d), as_return(KILLED));
			}
			d.arch = arch_of(m);
			d.nr = (int)(n | 0x40000000); /* x32 */
			CHECK_U64(run(&p, &d), as_return(ENOSYS));
			d.nr = -(int)n - 1;
			CHECK_U64(run(&p, &d), as_return(ENOSYS));
		}
	}
}

TEST(the_program_is_small_and_sound)
{
	filter_program p;
	cb_error err;
	for (size_t mi = 0; mi < ARRAY_LEN(machines); mi++)
		for (size_t ki = 0; ki < ARRAY_LEN(kinds); ki++) {
			CHECK_OK(filter_compile(machines[mi], kinds[ki], &p, &err));
			CHECK(p.size > 50 && p.size < 200);
			for (unsigned i = 0; i < p.size; i++) {
				const struct sock_filter *s = &p.code[i];
				if (BPF_CLASS(s->code) != BPF_JMP) continue;
				if (BPF_OP(s->code) == BPF_JA) CHECK(i + 1 + s->k < p.size);
				else CHECK(i + 1u + s->jt < p.size && i + 1u + s->jf < p.size);
			}
		}
}

TEST(the_table_is_well_formed)
{
	for (size_t i = 0; i < filter_call_count; i++) {
		const filter_call *c = &filter_calls[i];
		CHECK(c->name && c->name[0]);
		CHECK_MSG(c->number[0] >= 0 || c->number[1] >= 0, "%s has no number", c->name);
		for (int m = 0; m < 2; m++) CHECK(c->number[m] >= FILTER_NO_NUMBER && c->number[m] < FILTER_NUMBERS);
		/* From 424 on, numbers are the same everywhere. */
		if (c->number[0] >= 424 || c->number[1] >= 424) CHECK_MSG(c->number[0] == c->number[1], "%s", c->name);
		if (i && c->number[0] >= 0) CHECK_MSG(filter_calls[i - 1].number[0] < c->number[0], "%s is out of order", c->name);
		for (size_t j = 0; j < i; j++) {
			CHECK_MSG(strcmp(filter_calls[j].name, c->name) != 0, "%s is there twice", c->name);
			for (int m = 0; m < 2; m++)
				CHECK_MSG(c->number[m] < 0 || filter_calls[j].number[m] != c->number[m], "%s has the number of %s",
				          c->name, filter_calls[j].name);
		}
	}
	CHECK_U64(filter_row_count(), filter_call_count);
	CHECK_STR(filter_verdict("read"), "allow");
	CHECK_STR(filter_verdict("mount"), "EPERM");
	CHECK_STR(filter_verdict("clone3"), "ENOSYS");
	CHECK_STR(filter_verdict("clone"), "by arguments");
	CHECK(!filter_verdict("no_such_call"));
}

/* A call that is refused whatever comes: what no change of the table may let through by mistake. */
TEST(never_allowed)
{
	static const char *const never[] = {"mount",
	                                    "umount2",
	                                    "pivot_root",
	                                    "chroot",
	                                    "swapon",
	                                    "swapoff",
	                                    "reboot",
	                                    "kexec_load",
	                                    "init_module",
	                                    "finit_module",
	                                    "delete_module",
	                                    "kexec_file_load",
	                                    "bpf",
	                                    "setns",
	                                    "perf_event_open",
	                                    "keyctl",
	                                    "add_key",
	                                    "request_key",
	                                    "userfaultfd",
	                                    "open_by_handle_at",
	                                    "quotactl",
	                                    "quotactl_fd",
	                                    "acct",
	                                    "syslog",
	                                    "io_uring_setup",
	                                    "io_uring_enter",
	                                    "io_uring_register",
	                                    "clone3",
	                                    "openat2",
	                                    "open_tree",
	                                    "move_mount",
	                                    "fsopen",
	                                    "fsconfig",
	                                    "fsmount",
	                                    "fspick",
	                                    "mount_setattr",
	                                    "open_tree_attr",
	                                    "vhangup",
	                                    "iopl",
	                                    "ioperm",
	                                    "move_pages",
	                                    "mbind",
	                                    "migrate_pages",
	                                    "kcmp",
	                                    "pidfd_getfd",
	                                    "fanotify_init",
	                                    "settimeofday",
	                                    "clock_settime",
	                                    "sethostname",
	                                    "setdomainname",
	                                    "lookup_dcookie",
	                                    "memfd_secret"};
	static const char *const always[] = {"ptrace",       "process_vm_readv", "seccomp",    "landlock_restrict_self",
	                                     "memfd_create", "execveat",         "pidfd_open", "statx",
	                                     "rseq",         "membarrier",       "vfork",      "fork"};
	for (size_t i = 0; i < ARRAY_LEN(never); i++) {
		const char *v = filter_verdict(never[i]);
		CHECK_MSG(v && (strcmp(v, "EPERM") == 0 || strcmp(v, "ENOSYS") == 0), "%s: %s", never[i], v ? v : "not there");
	}
	for (size_t i = 0; i < ARRAY_LEN(always); i++) CHECK_STR(filter_verdict(always[i]), "allow");
}

static int table_number(const char *name, int machine)
{
	for (size_t i = 0; i < filter_call_count; i++)
		if (strcmp(filter_calls[i].name, name) == 0) return filter_calls[i].number[machine];
	return -2;
}

static long header_value(const char *text, const char *name)
{
	char wanted[128];
	snprintf(wanted, sizeof(wanted), "#define %s ", name);
	const char *at = strstr(text, wanted);
	if (!at) return -1;
	at += strlen(wanted);
	if (*at >= '0' && *at <= '9') return strtol(at, NULL, 10);
	char other[128];
	if (sscanf(at, "%127[A-Za-z0-9_]", other) != 1) return -1;
	return header_value(text, other);
}

static void check_headers(const char *command, int machine)
{
	static char text[1 << 20];
	FILE *f = popen(command, "r");
	CHECK(f);
	size_t size = fread(text, 1, sizeof(text) - 1, f);
	text[size] = 0;
	if (pclose(f) != 0 || !strstr(text, "#define __NR_")) {
		test_note("no headers: %s", command);
		return;
	}
	size_t checked = 0;
	for (const char *at = text; (at = strstr(at, "#define __NR_")); at++) {
		char name[128];
		if (sscanf(at, "#define __NR_%127s", name) != 1 || strcmp(name, "syscalls") == 0 ||
		    strcmp(name, "arch_specific_syscall") == 0)
			continue;
		char full[140];
		snprintf(full, sizeof(full), "__NR_%s", name);
		long number = header_value(text, full);
		CHECK_MSG(table_number(name, machine) == number, "%s is %ld here and %d in the table: review it", name, number,
		          table_number(name, machine));
		checked++;
	}
	CHECK(checked > 250);
}

/* Fails on a system with newer headers: its new calls have to be reviewed and added. */
TEST(headers_have_nothing_new)
{
	if (system("cc --version >/dev/null 2>&1") != 0) test_skip("no compiler");
#if defined(__x86_64__)
	check_headers("echo '#include <asm/unistd.h>' | cc -E -dM - 2>/dev/null", FILTER_X86_64);
#endif
	check_headers("echo '#include <asm-generic/unistd.h>' | cc -E -dM -D__BITS_PER_LONG=64 -D__ARCH_WANT_RENAMEAT "
	              "-D__ARCH_WANT_NEW_STAT "
	              "-D__ARCH_WANT_SET_GET_RLIMIT -D__ARCH_WANT_SYS_CLONE3 -D__ARCH_WANT_MEMFD_SECRET - 2>/dev/null",
	              FILTER_AARCH64);
}

/* ---- the real thing ---- */

static void install(filter_kind kind)
{
	static filter_program p;
	cb_error err;
	CHECK_OK(filter_build(kind, &p, &err));
	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CHECK_OK(filter_install(&p, &err));
}

#define REFUSED(call, error) CHECK_MSG((call) == -1 && errno == (error), "%s: %s", #call, strerror(errno))

TEST(refused_for_real)
{
	const char *dir = test_tmpdir();
	CHECK(chdir(dir) == 0);
	install(FILTER_COMMAND);
	REFUSED(syscall(SYS_unshare, CLONE_NEWUSER), EPERM);
	REFUSED(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0), EPERM);
	REFUSED(syscall(SYS_mount, "x", "/tmp", "tmpfs", 0, 0), EPERM);
	REFUSED(syscall(435, 0, 0), ENOSYS); /* clone3 */
	REFUSED(syscall(437, AT_FDCWD, ".", 0, 0), ENOSYS);
	REFUSED(syscall(425, 8, 0), ENOSYS);
	REFUSED(syscall(470), ENOSYS);
	REFUSED(syscall(100000), ENOSYS);
	REFUSED(socket(AF_VSOCK, SOCK_STREAM, 0), EAFNOSUPPORT);
	REFUSED(socket(AF_PACKET, SOCK_RAW, 0), EAFNOSUPPORT);
	REFUSED(socket(38, SOCK_SEQPACKET, 0), EAFNOSUPPORT); /* AF_ALG */
	REFUSED(socket(AF_NETLINK, SOCK_RAW, 9), EPROTONOSUPPORT);
	REFUSED(socket(AF_INET, SOCK_STREAM, 132), EPROTONOSUPPORT); /* SCTP */
	REFUSED(socketpair(AF_INET, SOCK_STREAM, 0, (int[2]){0}), EAFNOSUPPORT);
	REFUSED(syscall(SYS_ioctl, 0, (uint64_t)TIOCSTI | 0x100000000, "x"), EPERM);
	REFUSED(syscall(SYS_ioctl, 0, TIOCSTI, "x"), EPERM);
	REFUSED(syscall(SYS_personality, 0x0400000), EPERM); /* READ_IMPLIES_EXEC */
	REFUSED(syscall(SYS_openat, AT_FDCWD, "f", O_CREAT | O_WRONLY, 04755), EPERM);
	REFUSED(mknod("d", S_IFCHR | 0600, 0), EPERM);
	REFUSED(mkdir("e", 02755), EPERM);
	REFUSED(chmod(".", 04755), EPERM);
#if defined(__x86_64__)
	long result;
	__asm__ volatile("int $0x80" : "=a"(result) : "a"(20) : "memory"); /* getpid of i386 */
	CHECK(result == -ENOSYS);
	REFUSED(syscall(0x40000000 | SYS_getpid), ENOSYS);
#endif
	for (int i = 0; i < 3; i++)
		CHECK(socket((int[]){AF_UNIX, AF_INET, AF_INET6}[i], SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0 || errno == EAFNOSUPPORT);
	CHECK(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0) >= 0);
	CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, (int[2]){0}) == 0);
	CHECK(mkdir("e", 01755) == 0 && chmod("e", 0700) == 0 && personality(ADDR_NO_RANDOMIZE) >= 0);
	CHECK(open("f", O_CREAT | O_WRONLY | O_CLOEXEC, 0755) >= 0);
	CHECK(syscall(SYS_openat, AT_FDCWD, "f", O_RDONLY, 04755) >= 0); /* no mode without O_CREAT */
	CHECK(mkfifo("p", 0600) == 0);
}

TEST(weak_for_real)
{
	install(FILTER_WEAK);
	REFUSED(socket(AF_UNIX, SOCK_STREAM, 0), EAFNOSUPPORT);
	REFUSED(socket(AF_INET, SOCK_STREAM, 0), EAFNOSUPPORT);
	REFUSED(socketpair(AF_UNIX, SOCK_DGRAM, 0, (int[2]){0}), EPERM);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, (int[2]){0}) == 0);
	REFUSED(syscall(SYS_shmget, 0, 4096, 0600), EPERM);
	REFUSED(syscall(SYS_prlimit64, getppid(), 0, 0, 0), EPERM);
	CHECK(syscall(SYS_prlimit64, 0, 0, 0, 0) == 0);
	REFUSED(setpriority(PRIO_PROCESS, (id_t)getppid(), 19), EPERM);
	REFUSED(setpriority(PRIO_USER, 0, 19), EPERM);
	CHECK(setpriority(PRIO_PROCESS, 0, 1) == 0);
}

TEST(unchanged_programs_work)
{
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		install(FILTER_COMMAND);
		execl("/bin/sh", "sh", "-c", "ls / >/dev/null && (true | cat) && cd / && test -d usr", (char *)NULL);
		_exit(126);
	}
	int status;
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
