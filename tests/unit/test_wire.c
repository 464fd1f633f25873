/* test_wire.c: messages between caller and holder: what is put is got, what is odd is refused, and no descriptor is lost. */
#include "harness/harness.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "sandbox/wire.h"

static cb_error err;
static uint8_t buffer[WIRE_PACKET_BYTES + 8];

static void pair(int out[2])
{
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, out) == 0);
}

static size_t open_count(void)
{
	size_t count = 0;
	DIR *d = opendir("/proc/self/fd");
	CHECK(d);
	while (readdir(d)) count++;
	CHECK(closedir(d) == 0);
	return count;
}

static void send_raw(int fd, const void *bytes, size_t size, size_t fds)
{
	int list[64];
	char control[CMSG_SPACE(sizeof(list))] = {0};
	struct iovec part = {(void *)(uintptr_t)bytes, size};
	struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
	for (size_t i = 0; i < fds; i++) list[i] = 0;
	if (fds) {
		m.msg_control = control;
		m.msg_controllen = CMSG_SPACE(sizeof(int) * fds);
		struct cmsghdr *c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * fds);
		memcpy(CMSG_DATA(c), list, sizeof(int) * fds);
	}
	CHECK(sendmsg(fd, &m, 0) == (ssize_t)size);
}

TEST(packet_round_trip)
{
	int s[2];
	pair(s);
	static uint8_t body[WIRE_PACKET_BYTES];
	for (size_t i = 0; i < sizeof(body); i++) body[i] = (uint8_t)(i * 7);
	int fds[WIRE_FDS];
	for (size_t i = 0; i < WIRE_FDS; i++) CHECK((fds[i] = open("/dev/null", O_RDONLY)) >= 0);
	CHECK_OK(wire_send(s[0], WIRE_ENTRY, span_make(body, sizeof(body)), fds, WIRE_FDS, &err));
	CHECK_OK(wire_send(s[0], WIRE_KEEP, span_make(NULL, 0), NULL, 0, &err));
	size_t before = open_count();
	wire_packet p;
	bool end;
	CHECK_OK(wire_receive(s[1], buffer, &p, &end, &err));
	CHECK(!end && p.type == WIRE_ENTRY && span_equal(p.body, span_make(body, sizeof(body))));
	CHECK_U64(p.fd_count, WIRE_FDS);
	for (size_t i = 0; i < WIRE_FDS; i++) CHECK(fcntl(p.fds[i], F_GETFD) == FD_CLOEXEC);
	int mine = p.fds[3];
	p.fds[3] = -1;
	wire_packet_done(&p);
	CHECK_U64(open_count(), before + 1);
	CHECK(close(mine) == 0);
	CHECK_OK(wire_receive(s[1], buffer, &p, &end, &err));
	CHECK(!end && p.type == WIRE_KEEP && p.body.size == 0 && p.fd_count == 0);
	CHECK(close(s[0]) == 0);
	CHECK_OK(wire_receive(s[1], buffer, &p, &end, &err));
	CHECK(end && p.fd_count == 0);
}

TEST(packet_refused)
{
	int s[2];
	pair(s);
	size_t before = open_count();
	wire_packet p;
	bool end;
	uint8_t good[12] = {WIRE_KEEP, 0, 0, 0, 4, 0, 0, 0, 1, 2, 3, 4};
	uint8_t unknown[8] = {WIRE_BYE + 1}, size[12] = {WIRE_KEEP, 0, 0, 0, 5}, high[8] = {WIRE_KEEP, 0, 1};
	static uint8_t huge[WIRE_PACKET_BYTES + 9] = {WIRE_KEEP};
	put_le32(huge + 4, WIRE_PACKET_BYTES + 1);
	const struct {
		const void *bytes;
		size_t size, fds;
		bool ok;
	} rows[] = {{good, 12, 2, true},    {good, 11, 2, false},  {good, 7, 1, false},
	            {unknown, 8, 1, false}, {size, 12, 3, false},  {high, 8, 1, false},
	            {good, 12, 33, false},  {good, 12, 60, false}, {huge, sizeof(huge), 1, false},
	            {good, 12, 32, true}};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		send_raw(s[0], rows[i].bytes, rows[i].size, rows[i].fds);
		cb_code code = wire_receive(s[1], buffer, &p, &end, &err);
		CHECK_MSG(code == (rows[i].ok ? CB_OK : CB_CORRUPT), "row %zu: %s", i, cb_code_name(code));
		if (rows[i].ok) CHECK_U64(p.fd_count, rows[i].fds);
		wire_packet_done(&p);
		CHECK_U64(open_count(), before);
	}
	CHECK_CODE(wire_send(s[0], WIRE_KEEP, span_make(huge, WIRE_PACKET_BYTES + 1), NULL, 0, &err), CB_LIMIT);
}

TEST(other_side_gone)
{
	int s[2];
	pair(s);
	CHECK_OK(wire_send(s[1], WIRE_KEEP, span_make(NULL, 0), NULL, 0, &err));
	CHECK_OK(wire_send(s[0], WIRE_KEEP, span_make(NULL, 0), NULL, 0, &err));
	CHECK(close(s[1]) == 0); /* with one of ours unread */
	CHECK_CODE(wire_send(s[0], WIRE_KEEP, span_make(NULL, 0), NULL, 0, &err), CB_IO);
	CHECK_STR(err.message, "the other side is gone");
	wire_packet p;
	bool end = false;
	for (int i = 0; i < 3 && !end; i++) CHECK_OK(wire_receive(s[0], buffer, &p, &end, &err));
	CHECK(end);
}

TEST(receive_waits_on_a_non_blocking_socket)
{
	int s[2];
	pair(s);
	CHECK(fcntl(s[1], F_SETFL, O_NONBLOCK) == 0);
	if (fork() == 0) {
		(void)usleep(20000);
		_exit(wire_send(s[0], WIRE_BYE, span_make(NULL, 0), NULL, 0, NULL) == CB_OK ? 0 : 1);
	}
	wire_packet p;
	bool end;
	CHECK_OK(wire_receive(s[1], buffer, &p, &end, &err));
	CHECK(!end && p.type == WIRE_BYE);
}

/* ---- bodies ---- */

#define STRINGS(text, n) ((wire_strings){text, sizeof(text), n})

static void same_strings(wire_strings a, wire_strings b)
{
	CHECK(a.count == b.count && a.size == b.size && (a.size == 0 || memcmp(a.bytes, b.bytes, a.size) == 0));
}

/* Every shorter body and every longer one is refused. */
#define ROUND_TRIP(type, name, value, compare)                                                                             \
	do {                                                                                                               \
		type in = value, out;                                                                                      \
		AUTO_BUF buf b = BUF_INIT(1 << 20);                                                                        \
		CHECK_OK(name##_put(&b, &in, &err));                                                                       \
		CHECK_OK(name##_get(buf_span(&b), &out, &err));                                                            \
		compare;                                                                                                   \
		for (size_t i = 0; i < b.size; i++) CHECK_CODE(name##_get(span_make(b.bytes, i), &out, &err), CB_CORRUPT); \
		CHECK_OK(buf_append_byte(&b, 0, &err));                                                                    \
		CHECK_CODE(name##_get(buf_span(&b), &out, &err), CB_CORRUPT);                                              \
	} while (0)

TEST(bodies_round_trip)
{
	ROUND_TRIP(wire_work, wire_work, ((wire_work){WIRE_STACK, "slot.3", STRINGS("a\0bb", 2), true, true, UINT64_MAX}),
	           CHECK(out.mode == in.mode && !strcmp(out.name, in.name) && out.wipe && out.memory &&
	                 out.memory_bytes == in.memory_bytes);
	           same_strings(in.layers, out.layers));
	ROUND_TRIP(wire_run, wire_run, ((wire_run){STRINGS("sh\0-c\0", 3), STRINGS("A=b", 1), "/work", true, 25, 65535}),
	           CHECK(!strcmp(out.cwd, "/work") && out.tty && out.rows == 25 && out.columns == 65535);
	           same_strings(in.argv, out.argv); same_strings(in.env, out.env));
	ROUND_TRIP(wire_exited, wire_exited, ((wire_exited){WIRE_END_DISK, -1, -5, 6, 7, 8, 9, "too much"}),
	           CHECK(out.end == in.end && out.status == -1 && out.started_ns == -5 && out.ended_ns == 6 && out.user_ns == 7 &&
	                 out.system_ns == 8 && out.peak_bytes == 9 && !strcmp(out.reason, "too much")));
	ROUND_TRIP(wire_signal, wire_signal, ((wire_signal){15, true}), CHECK(out.signal == 15 && out.everybody));
	ROUND_TRIP(wire_scanned, wire_scanned, ((wire_scanned){1, 2, 3, 4, 5}),
	           CHECK(out.entries == 1 && out.bytes == 2 && out.sent == 3 && out.sent_bytes == 4 && out.xattrs_left_out == 5));
	ROUND_TRIP(wire_strings, wire_names, STRINGS("one\0.two", 2), same_strings(in, out));
	ROUND_TRIP(wire_failed, wire_failed, ((wire_failed){CB_NOSPACE, "full"}),
	           CHECK(out.code == CB_NOSPACE && !strcmp(out.message, "full")));
}

static void op_same(const wire_op *a, const wire_op *b)
{
	CHECK(a->type == b->type && !strcmp(a->path, b->path) && a->mode == b->mode && a->size == b->size &&
	      a->offset == b->offset);
	CHECK(a->mtime_ns == b->mtime_ns && a->atime_ns == b->atime_ns && span_equal(a->data, b->data) &&
	      span_equal(a->xattrs, b->xattrs));
}

TEST(ops_round_trip)
{
	AUTO_BUF buf b = BUF_INIT(1 << 20), x = BUF_INIT(1 << 20);
	CHECK_OK(wire_xattr_put(&x, "user.a", span_str("1"), &err));
	CHECK_OK(wire_xattr_put(&x, "user.empty", span_make(NULL, 0), &err));
	const wire_op ops[] = {
		{.type = WIRE_OP_DIR, .path = "d", .mode = 01777, .xattrs = buf_span(&x)},
		{.type = WIRE_OP_FILE,
	         .path = "d/\n..x",
	         .mode = 0644,
	         .size = LIMIT_FILE_BYTES,
	         .mtime_ns = -1,
	         .atime_ns = INT64_MAX},
		{.type = WIRE_OP_DATA, .path = "", .offset = 7, .data = span_make("\0\0", 2)},
		{.type = WIRE_OP_SYMLINK, .path = "l", .data = span_str("../../etc")},
		{.type = WIRE_OP_LINK, .path = "h", .data = span_str("d/\n..x")},
		{.type = WIRE_OP_ATTRS, .path = "d", .mode = 01700},
		{.type = WIRE_OP_DIR_TIMES, .path = "d", .mtime_ns = 5},
		{.type = WIRE_OP_REMOVE, .path = "gone"},
	};
	for (size_t i = 0; i < ARRAY_LEN(ops); i++) CHECK_OK(wire_op_put(&b, &ops[i], &err));
	span rest = buf_span(&b);
	wire_op op;
	bool end;
	for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
		CHECK_OK(wire_op_get(&rest, &op, &end, &err));
		CHECK(!end);
		op_same(&op, &ops[i]);
	}
	CHECK_OK(wire_op_get(&rest, &op, &end, &err));
	CHECK(end);
	/* Without room nothing is left behind. */
	buf tight = BUF_INIT(60);
	CHECK_CODE(wire_op_put(&tight, &ops[1], &err), CB_OK);
	size_t size = tight.size;
	CHECK_CODE(wire_op_put(&tight, &ops[1], &err), CB_LIMIT);
	CHECK_U64(tight.size, size);
	buf_done(&tight);
}

static cb_code op_try(wire_op op)
{
	AUTO_BUF buf b = BUF_INIT(1 << 20);
	CHECK_OK(wire_op_put(&b, &op, &err));
	span rest = buf_span(&b);
	bool end;
	return wire_op_get(&rest, &op, &end, &err);
}

TEST(ops_refused)
{
	char name[258];
	memset(name, 'n', 257);
	name[257] = 0;
	const char *paths[] = {"", "/a", "a/", "a//b", ".", "..", "a/..", "a/./b", "../a", name};
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		CHECK_CODE(op_try((wire_op){.type = WIRE_OP_DIR, .path = paths[i]}), CB_CORRUPT);
		CHECK_CODE(op_try((wire_op){.type = WIRE_OP_LINK, .path = "a", .data = span_str(paths[i])}), CB_CORRUPT);
	}
	CHECK_CODE(op_try((wire_op){.type = WIRE_OP_FILE, .path = "a", .mode = 04755}), CB_CORRUPT);
	CHECK_CODE(op_try((wire_op){.type = WIRE_OP_FILE, .path = "a", .mode = 01644}), CB_CORRUPT);
	CHECK_CODE(op_try((wire_op){.type = WIRE_OP_DIR, .path = "a", .mode = 02755}), CB_CORRUPT);
	CHECK_CODE(op_try((wire_op){.type = 0, .path = "a"}), CB_CORRUPT);
	CHECK_CODE(op_try((wire_op){.type = WIRE_OP_ATTRS + 1, .path = "a"}), CB_CORRUPT);
	CHECK_CODE(op_try((wire_op){.type = WIRE_OP_FILE, .path = "a", .size = LIMIT_FILE_BYTES + 1}), CB_CORRUPT);
	CHECK_CODE(op_try((wire_op){.type = WIRE_OP_DATA, .path = "a", .offset = UINT64_MAX, .data = span_str("xx")}), CB_CORRUPT);
	CHECK_CODE(op_try((wire_op){.type = WIRE_OP_SYMLINK, .path = "a"}), CB_CORRUPT);
	CHECK_CODE(op_try((wire_op){.type = WIRE_OP_SYMLINK, .path = "a", .data = span_make("a\0b", 3)}), CB_CORRUPT);
	CHECK_CODE(op_try((wire_op){.type = WIRE_OP_REMOVE, .path = "a", .data = span_str("b")}), CB_CORRUPT);
	static const char odd[] = "user.a\0\x02\0\0\0x", system[] = "security.capability\0\0\0\0", bare[] = "user.\0\0\0\0";
	CHECK_CODE(op_try((wire_op){.type = WIRE_OP_FILE, .path = "a", .xattrs = span_make(odd, sizeof(odd) - 1)}), CB_CORRUPT);
	CHECK_CODE(op_try((wire_op){.type = WIRE_OP_FILE, .path = "a", .xattrs = span_make(system, sizeof(system))}), CB_CORRUPT);
	CHECK_CODE(op_try((wire_op){.type = WIRE_OP_FILE, .path = "a", .xattrs = span_make(bare, sizeof(bare))}), CB_CORRUPT);
	CHECK_CODE(op_try((wire_op){.type = WIRE_OP_FILE, .path = "a", .xattrs = span_str("user.a")}), CB_CORRUPT);
}

static cb_code entry_try(wire_entry e)
{
	AUTO_BUF buf b = BUF_INIT(1 << 20);
	wire_entry out;
	bool end;
	CHECK_OK(wire_entry_put(&b, &e, &err));
	span rest = buf_span(&b);
	cb_code code = wire_entry_get(&rest, &out, &end, &err);
	if (code != CB_OK) return code;
	CHECK(out.type == e.type && !strcmp(out.path, e.path) && out.known == e.known && out.opaque == e.opaque &&
	      out.has_fd == e.has_fd && out.mode == e.mode && out.size == e.size && out.ino == e.ino && out.links == e.links &&
	      out.allocated_bytes == e.allocated_bytes && out.mtime_ns == e.mtime_ns && out.atime_ns == e.atime_ns &&
	      out.ctime_ns == e.ctime_ns && span_equal(out.data, e.data) && span_equal(out.xattrs, e.xattrs));
	/* Each shorter one is refused. */
	for (size_t i = 1; i < b.size; i++) {
		rest = span_make(b.bytes, i);
		CHECK_CODE(wire_entry_get(&rest, &out, &end, NULL), CB_CORRUPT);
	}
	return CB_OK;
}

TEST(entries)
{
	static const char x[] = "user.a\0\1\0\0\0v";
	span xattrs = span_make(x, sizeof(x) - 1);
	CHECK_OK(entry_try((wire_entry){.type = WIRE_ENTRY_DIR, .path = "", .mode = 07777, .opaque = true, .xattrs = xattrs}));
	CHECK_OK(entry_try(
		(wire_entry){WIRE_ENTRY_FILE, "a/b", false, false, true, true, 0, 1, 2, 3, 4, -5, 6, 7, {NULL, 0}, xattrs}));
	CHECK_OK(entry_try((wire_entry){.type = WIRE_ENTRY_FILE, .path = "a", .known = true}));
	CHECK_OK(entry_try((wire_entry){.type = WIRE_ENTRY_SYMLINK, .path = "a", .data = span_str("t")}));
	CHECK_OK(entry_try((wire_entry){.type = WIRE_ENTRY_SYMLINK, .path = "a", .known = true}));
	CHECK_OK(entry_try((wire_entry){.type = WIRE_ENTRY_SPECIAL, .path = "a", .data = span_str("a FIFO")}));
	CHECK_OK(entry_try((wire_entry){.type = WIRE_ENTRY_WHITEOUT, .path = "a"}));
	CHECK_OK(entry_try((wire_entry){.type = WIRE_ENTRY_LEAVE, .path = ""}));
	CHECK_CODE(entry_try((wire_entry){.type = WIRE_ENTRY_FILE, .path = ""}), CB_CORRUPT);
	CHECK_CODE(entry_try((wire_entry){.type = WIRE_ENTRY_FILE, .path = "../a"}), CB_CORRUPT);
	CHECK_CODE(entry_try((wire_entry){.type = 0, .path = "a"}), CB_CORRUPT);
	CHECK_CODE(entry_try((wire_entry){.type = WIRE_ENTRY_UNKEPT + 1, .path = "a"}), CB_CORRUPT);
	CHECK_CODE(entry_try((wire_entry){.type = WIRE_ENTRY_FILE, .path = "a", .opaque = true}), CB_CORRUPT);
	CHECK_CODE(entry_try((wire_entry){.type = WIRE_ENTRY_DIR, .path = "a", .has_fd = true}), CB_CORRUPT);
	CHECK_CODE(entry_try((wire_entry){.type = WIRE_ENTRY_FILE, .path = "a", .has_fd = true, .known = true}), CB_CORRUPT);
	CHECK_CODE(entry_try((wire_entry){.type = WIRE_ENTRY_FILE, .path = "a", .known = true, .xattrs = xattrs}), CB_CORRUPT);
	CHECK_CODE(entry_try((wire_entry){.type = WIRE_ENTRY_FILE, .path = "a", .mode = 0100644}), CB_CORRUPT);
	CHECK_CODE(entry_try((wire_entry){.type = WIRE_ENTRY_SYMLINK, .path = "a"}), CB_CORRUPT);
	CHECK_CODE(entry_try((wire_entry){.type = WIRE_ENTRY_FILE, .path = "a", .data = span_str("x")}), CB_CORRUPT);
}

#define REFUSED(type, name, value)                                            \
	do {                                                                  \
		type in = value, out;                                         \
		AUTO_BUF buf b = BUF_INIT(1 << 20);                           \
		CHECK_OK(name##_put(&b, &in, &err));                          \
		CHECK_CODE(name##_get(buf_span(&b), &out, &err), CB_CORRUPT); \
	} while (0)

TEST(bodies_refused)
{
	const wire_strings none = {"", 0, 0};
	REFUSED(wire_work, wire_work, ((wire_work){0, "a", none, false, false, 0}));
	REFUSED(wire_work, wire_work, ((wire_work){WIRE_THROWAWAY + 1, "a", none, false, false, 0}));
	REFUSED(wire_work, wire_work, ((wire_work){WIRE_PLAIN, "..", none, false, false, 0}));
	REFUSED(wire_work, wire_work, ((wire_work){WIRE_PLAIN, "a/b", none, false, false, 0}));
	REFUSED(wire_work, wire_work, ((wire_work){WIRE_STACK, "a", STRINGS("b\0c/../..", 2), false, false, 0}));
	REFUSED(wire_strings, wire_names, none);
	REFUSED(wire_strings, wire_names, STRINGS("a\0", 2));
	REFUSED(wire_strings, wire_names, ((wire_strings){"a\0b", 3, 2}));
	REFUSED(wire_strings, wire_names, ((wire_strings){"a\0b", 4, 1}));
	REFUSED(wire_run, wire_run, ((wire_run){none, none, "/", false, 0, 0}));
	REFUSED(wire_run, wire_run, ((wire_run){STRINGS("a", 1), none, "work", false, 0, 0}));
	REFUSED(wire_exited, wire_exited, ((wire_exited){0, 0, 0, 0, 0, 0, 0, ""}));
	REFUSED(wire_exited, wire_exited, ((wire_exited){WIRE_END_NOT_RUN + 1, 0, 0, 0, 0, 0, 0, ""}));
	REFUSED(wire_exited, wire_exited, ((wire_exited){WIRE_END_STATUS, 0, 0, 0, 0, 0, 0, "a\033[2J"}));
	REFUSED(wire_signal, wire_signal, ((wire_signal){0, false}));
	REFUSED(wire_signal, wire_signal, ((wire_signal){-1, false}));
	REFUSED(wire_signal, wire_signal, ((wire_signal){65, false}));
	REFUSED(wire_failed, wire_failed, ((wire_failed){CB_OK, "fine"}));
	REFUSED(wire_failed, wire_failed, ((wire_failed){(cb_code)-1000, "what"}));
	REFUSED(wire_failed, wire_failed, ((wire_failed){CB_IO, "two\nlines"}));
}
