/*
 * filter.c: from the table to a BPF program: one search tree over ranges of numbers with the same rule, then a few instructions for
 * each rule that looks at arguments, then the answers.
 *
 * Arguments are compared by their low 32 bits, which is all that the kernel takes of an int: a program that sets the others must
 * not get past (CVE-2019-10063).
 */
#include "sandbox/filter.h"

#include <assert.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "sandbox/filter_table.h"

/* Where a jump leads, until the program is complete: a rule's own block, or an answer. */
enum {
	LABEL_RULE = 0, /* + filter_rule */
	LABEL_EAFNOSUPPORT = 32,
	LABEL_EPROTONOSUPPORT,
	LABEL_KILL,
	LABEL_NOTHING, /* done, without doing it */
	LABEL_HERE,    /* + distance from the next instruction */
};
#define ALLOW (LABEL_RULE + RULE_ALLOW)
#define EPERM_ (LABEL_RULE + RULE_EPERM)
#define ENOSYS_ (LABEL_RULE + RULE_ENOSYS)
#define NEXT (LABEL_HERE + 0)
#define SKIP(n) (LABEL_HERE + (n))

typedef struct compiler {
	filter_program *out;
	filter_kind kind;
	bool pinned;
	uint8_t yes[FILTER_MAX], no[FILTER_MAX]; /* labels of the jumps, by instruction */
	unsigned place[LABEL_HERE];              /* of the labels; 0: not emitted yet */
} compiler;

static void emit(compiler *c, unsigned code, uint32_t k, unsigned yes, unsigned no)
{
	assert(c->out->size < FILTER_MAX && yes < 256 && no < 256);
	c->yes[c->out->size] = (uint8_t)yes;
	c->no[c->out->size] = (uint8_t)no;
	c->out->code[c->out->size++] = (struct sock_filter)BPF_JUMP((unsigned short)code, k, 0, 0);
}

static void load_argument(compiler *c, unsigned n)
{
	emit(c, BPF_LD | BPF_W | BPF_ABS, (uint32_t)(offsetof(struct seccomp_data, args) + 8 * n), NEXT, NEXT);
}

static void and_with(compiler *c, uint32_t mask)
{
	emit(c, BPF_ALU | BPF_AND | BPF_K, mask, NEXT, NEXT);
}

static void if_equal(compiler *c, uint32_t value, unsigned yes, unsigned no)
{
	emit(c, BPF_JMP | BPF_JEQ | BPF_K, value, yes, no);
}

static void if_any(compiler *c, uint32_t mask, unsigned yes, unsigned no)
{
	emit(c, BPF_JMP | BPF_JSET | BPF_K, mask, yes, no);
}

static void answer(compiler *c, unsigned label, uint32_t value)
{
	c->place[label] = c->out->size;
	emit(c, BPF_RET | BPF_K, value, NEXT, NEXT);
}

/* ---- rules that look at arguments; each ends in a jump both of whose ways lead elsewhere ---- */

/* Values of the kernel's own, which are the same on both machines; open's differ in other flags only. */
#define CLONE_NAMESPACES 0x7e020000u
#define CLONE_TIME 0x80u
#define MODE_SPECIAL 06000u
#define MODE_TYPE 0170000u
#define MODE_CHAR 0020000u
#define MODE_BLOCK 0060000u
#define OPEN_CREATES (0100u | 020000000u) /* O_CREAT, __O_TMPFILE */
#define IOCTL_TIOCSTI 0x5412u
#define IOCTL_TIOCLINUX 0x541cu
#define IOCTL_TIOCCONS 0x541du
#define IOCTL_TIOCSETD 0x5423u
#define PRCTL_SET_DUMPABLE 4u
#define PERSONALITY_ASK 0xffffffffu
#define PERSONALITY_FINE 0x00060008u /* ADDR_NO_RANDOMIZE (debuggers), UNAME26, PER_LINUX32 (setarch) */
enum { FAMILY_UNIX = 1, FAMILY_INET = 2, FAMILY_INET6 = 10, FAMILY_NETLINK = 16, TYPE_MASK = 15, TYPE_STREAM = 1, TYPE_DGRAM = 2 };

/* The internet families: streams, datagrams and (for who may) raw packets of protocols that are always there. Others would load
 * modules (SCTP, DCCP, SMC) that few have looked at. Netlink: addresses and routes, which libc asks for. */
static void rule_socket(compiler *c)
{
	static const uint32_t protocols[] = {0, 6, 17, 1, 58, 262}; /* any, TCP, UDP, ICMP, ICMPv6, MPTCP */
	if (c->kind == FILTER_WEAK) {
		emit(c, BPF_JMP | BPF_JA, 0, LABEL_EAFNOSUPPORT, NEXT);
		return;
	}
	load_argument(c, 0);
	if (c->kind == FILTER_COMMAND) if_equal(c, FAMILY_UNIX, ALLOW, NEXT);
	if_equal(c, FAMILY_INET, SKIP(4), NEXT);
	if_equal(c, FAMILY_INET6, SKIP(3), NEXT);
	if_equal(c, FAMILY_NETLINK, NEXT, LABEL_EAFNOSUPPORT);
	load_argument(c, 2);
	if_equal(c, 0, ALLOW, LABEL_EPROTONOSUPPORT);
	load_argument(c, 1);
	and_with(c, TYPE_MASK);
	emit(c, BPF_JMP | BPF_JGT | BPF_K, 3, LABEL_EPROTONOSUPPORT, NEXT);
	load_argument(c, 2);
	for (size_t i = 0; i < ARRAY_LEN(protocols); i++)
		if_equal(c, protocols[i], ALLOW, i + 1 < ARRAY_LEN(protocols) ? NEXT : LABEL_EPROTONOSUPPORT);
}

/* Without a file system of its own, a datagram pair could send to any socket of the host by its path; streams stay what they are.
 */
static void rule_socketpair(compiler *c)
{
	load_argument(c, 0);
	if (c->kind == FILTER_COMMAND) {
		if_equal(c, FAMILY_UNIX, ALLOW, LABEL_EAFNOSUPPORT);
		return;
	}
	if_equal(c, FAMILY_UNIX, NEXT, LABEL_EAFNOSUPPORT);
	load_argument(c, 1);
	and_with(c, TYPE_MASK);
	if_equal(c, TYPE_STREAM, ALLOW, EPERM_);
}

static void rule_ioctl(compiler *c)
{
	load_argument(c, 1);
	if_equal(c, IOCTL_TIOCSTI, EPERM_, NEXT);
	if_equal(c, IOCTL_TIOCLINUX, EPERM_, NEXT);
	if_equal(c, IOCTL_TIOCCONS, EPERM_, NEXT);
	if_equal(c, IOCTL_TIOCSETD, EPERM_, ALLOW);
}

static void rule_mode(compiler *c, unsigned argument)
{
	load_argument(c, argument);
	if_any(c, MODE_SPECIAL, EPERM_, ALLOW);
}

static void rule_open(compiler *c, unsigned argument)
{
	load_argument(c, argument);
	if_any(c, OPEN_CREATES, NEXT, ALLOW);
	rule_mode(c, argument + 1);
}

static void rule_mknod(compiler *c, unsigned argument)
{
	load_argument(c, argument);
	if_any(c, MODE_SPECIAL, EPERM_, NEXT);
	and_with(c, MODE_TYPE);
	if_equal(c, MODE_CHAR, EPERM_, NEXT);
	if_equal(c, MODE_BLOCK, EPERM_, ALLOW);
}

static void emit_rule(compiler *c, filter_rule rule)
{
	c->place[LABEL_RULE + rule] = c->out->size;
	switch (rule) {
	case RULE_CLONE:
	case RULE_UNSHARE:
		load_argument(c, 0);
		if_any(c, rule == RULE_CLONE ? CLONE_NAMESPACES : CLONE_NAMESPACES | CLONE_TIME, EPERM_, ALLOW);
		return;
	case RULE_SOCKET:
		rule_socket(c);
		return;
	case RULE_SOCKETPAIR:
		rule_socketpair(c);
		return;
	case RULE_IOCTL:
		rule_ioctl(c);
		return;
	case RULE_PERSONALITY:
		load_argument(c, 0);
		if_equal(c, PERSONALITY_ASK, ALLOW, NEXT);
		if_any(c, ~PERSONALITY_FINE, EPERM_, ALLOW);
		return;
	case RULE_MODE_1:
	case RULE_MODE_2:
		rule_mode(c, rule == RULE_MODE_1 ? 1 : 2);
		return;
	case RULE_OPEN:
	case RULE_OPENAT:
		rule_open(c, rule == RULE_OPEN ? 1 : 2);
		return;
	case RULE_MKNOD:
	case RULE_MKNODAT:
		rule_mknod(c, rule == RULE_MKNOD ? 1 : 2);
		return;
	case RULE_PRCTL:
		load_argument(c, 0);
		if_equal(c, PRCTL_SET_DUMPABLE, LABEL_NOTHING, ALLOW);
		return;
	case RULE_PRLIMIT:
		load_argument(c, 0);
		if (c->kind == FILTER_COMMAND) if_equal(c, 1, EPERM_, ALLOW);
		else if_equal(c, 0, ALLOW, EPERM_);
		return;
	case RULE_SELF:
		load_argument(c, 0);
		if_equal(c, 0, ALLOW, EPERM_);
		return;
	case RULE_PRIORITY:
	case RULE_IOPRIO:
		load_argument(c, 0);
		if_equal(c, rule == RULE_PRIORITY ? 0 : 1, NEXT, EPERM_);
		load_argument(c, 1);
		if_equal(c, 0, ALLOW, EPERM_);
		return;
	case RULE_ENOSYS:
	case RULE_ALLOW:
	case RULE_EPERM:
	case RULE_IPC:
	case RULE_AFFINITY:
		break;
	}
	abort(); /* a rule without instructions */
}

/* ---- the tree ---- */

typedef struct range {
	uint32_t from; /* up to the next range's */
	filter_rule rule;
} range;

/* Rules that mean allow or refuse for a whole kind. */
static filter_rule rule_for(const compiler *c, filter_rule rule)
{
	bool weak = c->kind != FILTER_COMMAND;
	if (rule == RULE_IPC) return weak ? RULE_EPERM : RULE_ALLOW;
	if (rule == RULE_AFFINITY) return c->pinned ? RULE_EPERM : weak ? RULE_SELF : RULE_ALLOW;
	if ((rule == RULE_SELF || rule == RULE_PRIORITY || rule == RULE_IOPRIO) && !weak) return RULE_ALLOW;
	return rule;
}

static size_t ranges_make(const compiler *c, filter_machine machine, range ranges[FILTER_NUMBERS + 1])
{
	uint8_t rules[FILTER_NUMBERS + 1] = {0};
	for (size_t i = 0; i < filter_call_count; i++) {
		int n = filter_calls[i].number[machine];
		if (n == FILTER_NO_NUMBER) continue;
		assert(n >= 0 && n < FILTER_NUMBERS);
		rules[n] = (uint8_t)rule_for(c, filter_calls[i].rule);
	}
	size_t count = 0;
	for (uint32_t n = 0; n <= FILTER_NUMBERS; n++) {
		if (n == 0 || rules[n] != rules[n - 1]) ranges[count++] = (range){n, (filter_rule)rules[n]};
	}
	return count;
}

/* Instructions that find one of count ranges: one less than they are. */
static void emit_tree(compiler *c, const range *ranges, size_t count)
{
	if (count == 1) return;
	size_t left = count / 2, right = count - left;
	/* A side of one range is its rule; otherwise the left side follows, then the right. */
	unsigned yes = right == 1 ? LABEL_RULE + ranges[left].rule : (unsigned)SKIP(left - 1);
	unsigned no = left == 1 ? LABEL_RULE + ranges[0].rule : (unsigned)NEXT;
	emit(c, BPF_JMP | BPF_JGE | BPF_K, ranges[left].from, yes, no);
	emit_tree(c, ranges, left);
	emit_tree(c, ranges + left, right);
}

static unsigned distance(const compiler *c, unsigned at, unsigned label)
{
	if (label >= LABEL_HERE) return label - LABEL_HERE;
	assert(c->place[label] > at);
	unsigned d = c->place[label] - at - 1;
	assert(d < 256); /* of a conditional jump; the tests build every program */
	return d;
}

static void resolve(compiler *c)
{
	for (unsigned i = 0; i < c->out->size; i++) {
		struct sock_filter *s = &c->out->code[i];
		if (BPF_CLASS(s->code) != BPF_JMP) continue;
		if (BPF_OP(s->code) == BPF_JA) {
			s->k = distance(c, i, c->yes[i]);
		} else {
			s->jt = (uint8_t)distance(c, i, c->yes[i]);
			s->jf = (uint8_t)distance(c, i, c->no[i]);
		}
	}
}

cb_code filter_compile(filter_machine machine, filter_kind kind, filter_program *out, cb_error *err)
{
	(void)err;
	bool x86 = machine == FILTER_X86_64;
	compiler c = {.out = out, .kind = kind & ~FILTER_PINNED, .pinned = (kind & FILTER_PINNED) != 0};
	range ranges[FILTER_NUMBERS + 1];
	size_t count = ranges_make(&c, machine, ranges);
	out->size = 0;
	emit(&c, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch), NEXT, NEXT);
	if_equal(&c, x86 ? AUDIT_ARCH_X86_64 : AUDIT_ARCH_AARCH64, SKIP(1), NEXT);
	if_equal(&c, x86 ? AUDIT_ARCH_I386 : AUDIT_ARCH_ARM, ENOSYS_, LABEL_KILL);
	emit(&c, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), NEXT, NEXT);
	emit_tree(&c, ranges, count);
	bool used[LABEL_EAFNOSUPPORT] = {0};
	for (size_t i = 0; i < count; i++) used[ranges[i].rule] = true;
	for (unsigned rule = RULE_EPERM + 1; rule < ARRAY_LEN(used); rule++) {
		if (used[rule]) emit_rule(&c, (filter_rule)rule);
	}
	answer(&c, ALLOW, SECCOMP_RET_ALLOW);
	answer(&c, EPERM_, SECCOMP_RET_ERRNO | EPERM);
	answer(&c, LABEL_NOTHING, SECCOMP_RET_ERRNO | 0);
	answer(&c, ENOSYS_, SECCOMP_RET_ERRNO | ENOSYS);
	answer(&c, LABEL_EAFNOSUPPORT, SECCOMP_RET_ERRNO | EAFNOSUPPORT);
	answer(&c, LABEL_EPROTONOSUPPORT, SECCOMP_RET_ERRNO | EPROTONOSUPPORT);
	answer(&c, LABEL_KILL, SECCOMP_RET_KILL_PROCESS);
	resolve(&c);
	return CB_OK;
}

#if defined(__x86_64__)
enum { THIS_MACHINE = FILTER_X86_64 };
#elif defined(__aarch64__)
enum { THIS_MACHINE = FILTER_AARCH64 };
#else
enum { THIS_MACHINE = -1 };
#endif

cb_code filter_build(filter_kind kind, filter_program *out, cb_error *err)
{
	if (THIS_MACHINE < 0)
		return cb_err_set(err, CB_UNSUPPORTED,
		                  "programs can be filtered on x86_64 and aarch64 only; this is another machine");
	return filter_compile((filter_machine)THIS_MACHINE, kind, out, err);
}

cb_code filter_install(const filter_program *p, cb_error *err)
{
	struct sock_fprog program = {.len = p->size, .filter = (struct sock_filter *)(uintptr_t)p->code};
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0)
		return cb_err_errno(err, errno, "cannot filter system calls");
	return CB_OK;
}

/* ---- what the table says ---- */

static const char *rule_text(filter_rule rule)
{
	switch (rule) {
	case RULE_ALLOW:
	case RULE_IPC:
	case RULE_AFFINITY:
	case RULE_SELF:
	case RULE_PRIORITY:
	case RULE_IOPRIO:
		return "allow";
	case RULE_EPERM:
		return "EPERM";
	case RULE_ENOSYS:
		return "ENOSYS";
	case RULE_CLONE:
	case RULE_UNSHARE:
	case RULE_SOCKET:
	case RULE_SOCKETPAIR:
	case RULE_PRLIMIT:
	case RULE_PRCTL:
	case RULE_IOCTL:
	case RULE_PERSONALITY:
	case RULE_MODE_1:
	case RULE_MODE_2:
	case RULE_OPEN:
	case RULE_OPENAT:
	case RULE_MKNOD:
	case RULE_MKNODAT:
		break;
	}
	return "by arguments";
}

size_t filter_row_count(void)
{
	return filter_call_count;
}

filter_row filter_row_get(size_t index)
{
	const filter_call *c = &filter_calls[index];
	return (filter_row){THIS_MACHINE < 0 ? FILTER_NO_NUMBER : c->number[THIS_MACHINE < 0 ? 0 : THIS_MACHINE], c->name,
	                    rule_text(c->rule)};
}

const char *filter_verdict(const char *name)
{
	for (size_t i = 0; i < filter_call_count; i++)
		if (strcmp(filter_calls[i].name, name) == 0) return rule_text(filter_calls[i].rule);
	return NULL;
}
