/* attack_sockets.c: the network and the host's IPC. */
#include "sandbox/attack.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

/* A family or type must not even be had. EAFNOSUPPORT and EPROTONOSUPPORT are what a filter, or a kernel without it, says. */
static outcome no_socket(const char *what, long family, int type, int protocol)
{
	long fd = syscall(SYS_socket, family, type | SOCK_CLOEXEC, protocol);
	if (fd < 0) return held("%s: %s", what, strerror(errno));
	close((int)fd);
	return broken("a socket of %s", what);
}

static outcome vsock(void)
{
	return worse(no_socket("AF_VSOCK", AF_VSOCK, SOCK_STREAM, 0), no_socket("AF_VSOCK", AF_VSOCK, SOCK_DGRAM, 0));
}

static outcome packet(void)
{
	return worse(no_socket("AF_PACKET", AF_PACKET, SOCK_RAW, 0x0300), no_socket("AF_PACKET", AF_PACKET, SOCK_DGRAM, 0x0300));
}

static outcome alg(void)
{
	return no_socket("AF_ALG", AF_ALG, SOCK_SEQPACKET, 0);
}

static outcome raw(void)
{
	outcome o = no_socket("raw IPv4", AF_INET, SOCK_RAW, IPPROTO_TCP);
	o = worse(o, no_socket("raw ICMP", AF_INET, SOCK_RAW, IPPROTO_ICMP));
	return worse(o, no_socket("raw IPv6", AF_INET6, SOCK_RAW, IPPROTO_ICMPV6));
}

static outcome other_families(void)
{
	outcome o = HELD;
	for (int family = 3; family < AF_MAX + 8; family++) {
		if (family == AF_INET6 || family == AF_NETLINK) continue;
		static const int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET};
		for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
			char what[32];
			snprintf(what, sizeof what, "family %d type %d", family, types[i]);
			o = worse(o, no_socket(what, family, types[i], 0));
		}
	}
	int pair[2];
	if (!socketpair(AF_VSOCK, SOCK_STREAM, 0, pair)) return broken("a pair of AF_VSOCK");
	return o;
}

/* An int to the kernel: what a filter compares with 64 bits, it lets through. */
static outcome family_high(void)
{
	return worse(no_socket("AF_VSOCK | 1<<32", AF_VSOCK | 1L << 32, SOCK_STREAM, 0),
	             no_socket("AF_PACKET | 1<<63", (long)((unsigned long)AF_PACKET | 1UL << 63), SOCK_DGRAM, 0));
}

static outcome netlink_others(void)
{
	static const int protocols[] = {NETLINK_AUDIT,          NETLINK_NETFILTER, NETLINK_XFRM,    NETLINK_CONNECTOR,
	                                NETLINK_KOBJECT_UEVENT, NETLINK_CRYPTO,    NETLINK_SELINUX, NETLINK_ISCSI};
	outcome o = HELD;
	for (size_t i = 0; i < sizeof protocols / sizeof *protocols; i++) {
		char what[32];
		snprintf(what, sizeof what, "netlink protocol %d", protocols[i]);
		o = worse(o, no_socket(what, AF_NETLINK, SOCK_RAW, protocols[i]));
	}
	return o;
}

/* A new interface and an address, as `ip link add` does; answered by an error message. */
static outcome netlink_route(void)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (fd < 0) return held("NETLINK_ROUTE: %s", strerror(errno));
	struct {
		struct nlmsghdr head;
		struct ifaddrmsg body;
		struct rtattr attribute;
		uint32_t address;
	} ask = {.head = {sizeof ask, RTM_NEWADDR, NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE, 1, 0},
	         .body = {AF_INET, 32, 0, RT_SCOPE_HOST, 1},
	         .attribute = {RTA_LENGTH(4), IFA_LOCAL},
	         .address = htonl(0x7f090909)};
	struct {
		struct nlmsghdr head;
		struct nlmsgerr error;
		char rest[256];
	} answer;
	outcome o = UNTRIED;
	if (send(fd, &ask, sizeof ask, 0) < 0) o = held("send: %s", strerror(errno));
	else if (recv(fd, &answer, sizeof answer, 0) > 0 && answer.head.nlmsg_type == NLMSG_ERROR)
		o = answer.error.error == -EPERM ? held("RTM_NEWADDR: %s", strerror(EPERM)) : broken("an address on lo");
	ask.head.nlmsg_type = RTM_DELADDR;
	if (o == BROKEN && send(fd, &ask, sizeof ask, 0) < 0) broken("an address on lo, which stays");
	close(fd);
	return o == UNTRIED ? untried("no answer") : o;
}

/* Connected, or told about by the other side: within reach. Unreachable, refused by an empty network or not there: not. */
static outcome reach(const char *what, const struct sockaddr *to, socklen_t size, int type)
{
	int fd = socket(to->sa_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0) return held("%s: no socket: %s", what, strerror(errno));
	outcome o = UNTRIED;
	int code = connect(fd, to, size) ? errno : 0;
	char answer[64] = "";
	struct pollfd wait = {.fd = fd, .events = POLLOUT};
	socklen_t code_size = sizeof code;
	if (code == EINPROGRESS) {
		if (poll(&wait, 1, 1500) == 1) getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &code_size);
		else o = broken("%s: packets leave", what);
	}
	if (o == UNTRIED && !code && type == SOCK_DGRAM && to->sa_family != AF_UNIX) {
		wait.events = POLLIN;
		for (int i = 0; i < 3 && o == UNTRIED; i++) {
			if (send(fd, "hello", 5, 0) < 0 && errno != ECONNREFUSED) code = errno;
			if (poll(&wait, 1, 200) == 1 && recv(fd, answer, sizeof answer, 0) > 0) o = broken("%s answered", what);
		}
		if (o == UNTRIED) o = held("%s: no answer", what);
	}
	if (o == UNTRIED) o = code ? held("%s: %s", what, strerror(code)) : broken("connected to %s", what);
	close(fd);
	return o;
}

static outcome inet(const char *what, const char *address, const char *port, int type)
{
	if (!port) return untried("no port was given");
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
	if (inet_pton(AF_INET, address, &to.sin_addr) != 1) return untried("%s is no address", address);
	return reach(what, (struct sockaddr *)&to, sizeof to, type);
}

static outcome tcp_loopback(void)
{
	return inet("the host's loopback", "127.0.0.1", param("tcp"), SOCK_STREAM);
}

static outcome udp_loopback(void)
{
	return inet("the host's loopback", "127.0.0.1", param("udp"), SOCK_DGRAM);
}

static outcome tcp6_loopback(void)
{
	if (!param("tcp6")) return untried("no port was given");
	struct sockaddr_in6 to = {
		.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)atoi(param("tcp6"))), .sin6_addr = in6addr_loopback};
	return reach("the host's IPv6 loopback", (struct sockaddr *)&to, sizeof to, SOCK_STREAM);
}

static outcome tcp_address(void)
{
	return param("address") ? inet("the host's address", param("address"), param("tcp"), SOCK_STREAM)
	                        : untried("no address was given");
}

static outcome internet(void)
{
	/* Documentation addresses: nobody is there, but a packet would leave. */
	return worse(inet("192.0.2.1", "192.0.2.1", "80", SOCK_STREAM), inet("198.51.100.1", "198.51.100.1", "53", SOCK_STREAM));
}

static outcome unix_at(const char *name, bool abstract)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	size_t size = strlen(name);
	if (size + 2 > sizeof to.sun_path) return untried("the name is too long");
	memcpy(to.sun_path + abstract, name, size);
	return reach(abstract ? "an abstract socket" : "a socket by its path", (struct sockaddr *)&to,
	             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + abstract + size), SOCK_STREAM);
}

static outcome abstract_of(const char *name)
{
	return unix_at(name, true);
}

static outcome abstract_unix(void)
{
	return try_param("abstract", abstract_of);
}

static outcome path_of(const char *name)
{
	return unix_at(name, false);
}

static outcome path_unix(void)
{
	return try_param("unix", path_of);
}

static outcome by_key(const char *what, int id)
{
	return id < 0 ? held("%s: %s", what, strerror(errno)) : broken("%s of the host", what);
}

static outcome sysv_shm(void)
{
	return param("shm") ? by_key("shared memory", shmget((key_t)param_number("shm", 0), 0, 0)) : untried("no key was given");
}

static outcome sysv_sem(void)
{
	return param("sem") ? by_key("semaphores", semget((key_t)param_number("sem", 0), 0, 0)) : untried("no key was given");
}

static outcome sysv_msg(void)
{
	return param("msg") ? by_key("a message queue", msgget((key_t)param_number("msg", 0), 0)) : untried("no key was given");
}

static outcome posix_mq(void)
{
	if (!param("mq")) return untried("no name was given");
	long fd = syscall(SYS_mq_open, param("mq"), O_RDONLY | O_NONBLOCK, 0, NULL);
	if (fd < 0) return held("mq_open: %s", strerror(errno));
	close((int)fd);
	return broken("a message queue of the host");
}

static outcome dev_shm(void)
{
	return try_param("shm_canary", try_read);
}

const attack attacks_sockets[] = {
	{"vsock", "seccomp", "AF_VSOCK: talks to the hypervisor, past every network namespace", "seccomp", PROOF, vsock},
	{"packet", "seccomp", "AF_PACKET", "seccomp; no capabilities", 0, packet},
	{"alg", "seccomp", "AF_ALG", "seccomp", 0, alg},
	{"raw", "seccomp", "raw sockets", "seccomp; no capabilities", 0, raw},
	{"other-families", "seccomp", "every other family", "families are listed", PROOF, other_families},
	{"family-high", "seccomp", "a family with rubbish in the high bits", "the low 32 bits are compared", PROOF, family_high},
	{"netlink-others", "seccomp", "netlink to audit, netfilter, xfrm, uevents", "seccomp", PROOF, netlink_others},
	{"netlink-route", "caps", "an address by netlink", "no capabilities", 0, netlink_route},
	{"tcp-loopback", "net", "connects to a listener on the host's loopback", "network namespace", PROOF, tcp_loopback},
	{"udp-loopback", "net", "asks a UDP service of the host", "network namespace", PROOF, udp_loopback},
	{"tcp6-loopback", "net", "the same by IPv6", "network namespace", PROOF, tcp6_loopback},
	{"tcp-address", "net", "connects to the host's own address", "network namespace", PROOF, tcp_address},
	{"internet", "net", "sends a packet anywhere", "network namespace", PROOF, internet},
	{"abstract-unix", "net", "connects to an abstract unix socket of the host", "network namespace", PROOF, abstract_unix},
	{"path-unix", "root", "connects to a unix socket by its path", "the path is not in the root", 0, path_unix},
	{"sysv-shm", "ipc", "opens shared memory of the host", "ipc namespace", PROOF, sysv_shm},
	{"sysv-sem", "ipc", "opens semaphores of the host", "ipc namespace", PROOF, sysv_sem},
	{"sysv-msg", "ipc", "opens a message queue of the host", "ipc namespace", PROOF, sysv_msg},
	{"posix-mq", "ipc", "opens a POSIX message queue of the host", "ipc namespace", PROOF, posix_mq},
	{"dev-shm", "root", "reads a canary in the host's /dev/shm", "a /dev of its own", 0, dev_shm},
	{NULL}};
