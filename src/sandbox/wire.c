/*
 * wire.c: packets on the socket: a header of type and size, the body, and descriptors.
 *
 * Descriptors that came with a packet belong to somebody at every moment: to the packet when it is good, and closed when it is not,
 * so that a stream of bad packets cannot fill the table.
 */
#include "sandbox/wire.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/bytes.h"

enum { HEADER_BYTES = 8 };

typedef union fd_control {
	char bytes[CMSG_SPACE(sizeof(int) * WIRE_FDS)];
	struct cmsghdr align;
} fd_control;

static bool is_type(uint32_t type)
{
	return (type >= WIRE_WORK && type <= WIRE_BYE) || (type >= WIRE_READY && type <= WIRE_FAIL);
}

static cb_code gone(cb_error *err)
{
	return cb_err_set(err, CB_IO, "the other side is gone");
}

/* The socket may be non-blocking, for its owner's poll loop: these calls wait all the same. */
static cb_code wait_for(int socket, short events, cb_error *err)
{
	struct pollfd p = {.fd = socket, .events = events};
	while (poll(&p, 1, -1) < 0)
		if (errno != EINTR) return cb_err_errno(err, errno, "cannot wait for the other side");
	return CB_OK;
}

cb_code wire_send(int socket, wire_type type, span body, const int *fds, size_t fd_count, cb_error *err)
{
	if (body.size > WIRE_PACKET_BYTES || fd_count > WIRE_FDS)
		return cb_err_set(err, CB_LIMIT, "a message of %zu bytes with %zu descriptors is too large", body.size, fd_count);
	uint8_t header[HEADER_BYTES];
	put_le32(header, (uint32_t)type);
	put_le32(header + 4, (uint32_t)body.size);
	struct iovec parts[2] = {{header, sizeof(header)}, {(void *)(uintptr_t)body.bytes, body.size}};
	struct msghdr m = {.msg_iov = parts, .msg_iovlen = body.size ? 2 : 1};
	fd_control control = {{0}};
	if (fd_count) {
		m.msg_control = control.bytes;
		m.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
		struct cmsghdr *c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * fd_count);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * fd_count);
	}
	while (sendmsg(socket, &m, MSG_NOSIGNAL) < 0) {
		if (errno == EAGAIN) CB_TRY(wait_for(socket, POLLOUT, err));
		else if (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN) return gone(err);
		else if (errno != EINTR) return cb_err_errno(err, errno, "cannot send a message");
	}
	return CB_OK;
}

static void take_descriptors(struct msghdr *m, wire_packet *out)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
		size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (out->fd_count < WIRE_FDS) out->fds[out->fd_count++] = fd;
			else (void)close(fd);
		}
	}
}

static cb_code check(const uint8_t *buffer, size_t size, int flags, wire_packet *p, cb_error *err)
{
	if (flags & MSG_CTRUNC) return cb_err_set(err, CB_CORRUPT, "descriptors of a message are missing");
	if (size < HEADER_BYTES || (flags & MSG_TRUNC) || get_le32(buffer + 4) != size - HEADER_BYTES)
		return cb_err_set(err, CB_CORRUPT, "a message has another size than it says");
	uint32_t type = get_le32(buffer);
	if (!is_type(type)) return cb_err_set(err, CB_CORRUPT, "a message has the unknown type %u", type);
	p->type = (wire_type)type;
	p->body = span_make(buffer + HEADER_BYTES, size - HEADER_BYTES);
	return CB_OK;
}

cb_code wire_receive(int socket, uint8_t *buffer, wire_packet *out, bool *out_end, cb_error *err)
{
	*out = (wire_packet){0};
	*out_end = false;
	struct iovec part = {buffer, WIRE_PACKET_BYTES + HEADER_BYTES};
	fd_control control;
	struct msghdr m;
	ssize_t n;
	for (;;) {
		m = (struct msghdr){
			.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
		n = recvmsg(socket, &m, MSG_CMSG_CLOEXEC);
		if (n >= 0) break;
		if (errno == EAGAIN) CB_TRY(wait_for(socket, POLLIN, err));
		else if (errno == ECONNRESET) break; /* it ended with words of ours unread */
		else if (errno != EINTR) return cb_err_errno(err, errno, "cannot receive a message");
	}
	if (n > 0) {
		take_descriptors(&m, out);
		cb_code code = check(buffer, (size_t)n, m.msg_flags, out, err);
		if (code != CB_OK) wire_packet_done(out);
		return code;
	}
	if (n == 0) take_descriptors(&m, out); /* an empty packet can carry some */
	wire_packet_done(out);
	*out_end = true;
	return CB_OK;
}

void wire_packet_done(wire_packet *p)
{
	for (size_t i = 0; i < p->fd_count; i++)
		if (p->fds[i] >= 0) (void)close(p->fds[i]);
	p->fd_count = 0;
}
