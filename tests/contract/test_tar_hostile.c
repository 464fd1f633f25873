/* test_tar_hostile.c: archives made to do harm: each is refused whole, and the box is as it was. */
#include <cowbox/cowbox.h>

#include <sys/mman.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/buf.h"
#include "harness/boxes.h"
#include "transfer/tar.h"

static cb_store *s;
static cb_box *b;
static cb_error err;
static buf archive;

static void begin(void)
{
	s = test_store_open(true);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/there", "before");
	CHECK_OK(cb_symlink(b, "/home", "/work/old-link", &err));
	archive = BUF_INIT(64 << 20);
}

static void end(void)
{
	buf_done(&archive);
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

static void add(const void *bytes, size_t size)
{
	static const char zeros[TAR_BLOCK];
	CHECK_OK(buf_append(&archive, bytes, size, &err));
	size_t rest = (TAR_BLOCK - archive.size % TAR_BLOCK) % TAR_BLOCK;
	CHECK_OK(buf_append(&archive, zeros, rest, &err));
}

static void seal(uint8_t *block)
{
	unsigned sum = 0;
	memset(block + TAR_CHECKSUM, ' ', 8);
	for (size_t i = 0; i < TAR_BLOCK; i++) sum += block[i];
	(void)snprintf((char *)block + TAR_CHECKSUM, 8, "%06o", sum);
}

/* A header; size is its text as it stands in the field. */
static uint8_t *header(char type, const char *name, const char *link, const char *size)
{
	static uint8_t block[TAR_BLOCK];
	memset(block, 0, sizeof(block));
	(void)snprintf((char *)block, 100, "%s", name);
	memcpy(block + TAR_MODE, "0000644", 8);
	memcpy(block + TAR_MTIME, "00000000000", 12);
	memcpy(block + TAR_SIZE, size, strlen(size) < 12 ? strlen(size) : 12);
	block[TAR_TYPE] = (uint8_t)type;
	(void)snprintf((char *)block + TAR_LINK, 100, "%s", link);
	memcpy(block + TAR_MAGIC,
	       "ustar\0"
	       "00",
	       8);
	seal(block);
	return block;
}

static void member(char type, const char *name, const char *link, const char *text)
{
	char size[32];
	(void)snprintf(size, sizeof(size), "%011zo", strlen(text));
	add(header(type, name, link, size), TAR_BLOCK);
	if (*text) add(text, strlen(text));
}

static void finish(void)
{
	static const char zeros[2 * TAR_BLOCK];
	add(zeros, sizeof(zeros));
}

/* Nothing may have changed. */
static void refused(cb_code expected)
{
	char *before = must_dump(b);
	uint64_t seq = must_seq(b);
	AUTO_FD int fd = memfd_create("tar", MFD_CLOEXEC);
	CHECK(fd >= 0 && write(fd, archive.bytes, archive.size) == (ssize_t)archive.size && lseek(fd, 0, SEEK_SET) == 0);
	CHECK_CODE(cb_tar_import(b, fd, NULL, NULL, &err), expected);
	CHECK(err.message[0]);
	CHECK_U64(must_seq(b), seq);
	CHECK_STR(must_dump(b), before);
	buf_clear(&archive);
}

static void taken(void)
{
	AUTO_FD int fd = memfd_create("tar", MFD_CLOEXEC);
	CHECK(fd >= 0 && write(fd, archive.bytes, archive.size) == (ssize_t)archive.size && lseek(fd, 0, SEEK_SET) == 0);
	CHECK_OK(cb_tar_import(b, fd, NULL, NULL, &err));
	buf_clear(&archive);
}

TEST(names_that_leave)
{
	static const char *const names[] = {"/etc/passwd", "../x", "a/../../x", "a/..", "..", "//x", "a/b/../../../home/agent/x"};
	begin();
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		member('0', "first", "", "fine");
		member('0', names[i], "", "evil");
		finish();
		refused(CB_DENIED);
		member('0', "first", "", "fine");
		member('1', "hard", names[i], "");
		finish();
		refused(CB_DENIED);
	}
	end();
}

TEST(nothing_is_written_through_a_link)
{
	begin();
	member('2', "l", "/home", "");
	member('0', "l/x", "", "evil");
	finish();
	refused(CB_DENIED);
	member('0', "old-link/x", "", "evil");
	finish();
	refused(CB_DENIED);
	member('5', "d", "", "");
	member('2', "d/up", "..", "");
	member('0', "d/up/up2/x", "", "evil");
	finish();
	refused(CB_DENIED);
	member('2', "l", "/home", "");
	member('1', "hard", "l/agent", "");
	finish();
	refused(CB_DENIED);
	/* a file in place of the link replaces the link, not what it points to */
	member('2', "l", "there", "");
	member('0', "l", "", "mine");
	finish();
	taken();
	CHECK_STR(must_read(b, "/work/there"), "before");
	CHECK_STR(must_read(b, "/work/l"), "mine");
	end();
}

TEST(numbers_that_lie)
{
	static const char *const sizes[] = {
		"-0000000001", "0000000000x", "99999999999", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
		"\xc0",        "0x100000000", "77777777777"};
	begin();
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		member('0', "first", "", "fine");
		add(header('0', "x", "", sizes[i]), TAR_BLOCK);
		add("data", 4);
		finish();
		refused(CB_CORRUPT);
	}
	/* base 256: more than a file may have, more than 64 bits */
	char huge[12] = "\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff";
	uint8_t *block = header('0', "x", "", "");
	memcpy(block + TAR_SIZE, huge, 12);
	seal(block);
	add(block, TAR_BLOCK);
	refused(CB_TOOBIG);
	block = header('0', "x", "", "");
	memset(block + TAR_SIZE, 0x7f, 12);
	block[TAR_SIZE] = 0x80;
	seal(block);
	add(block, TAR_BLOCK);
	refused(CB_CORRUPT);
	end();
}

TEST(damaged_headers)
{
	begin();
	member('0', "first", "", "fine");
	size_t at = archive.size;
	member('0', "second", "", "text");
	finish();
	archive.bytes[at] ^= 1;
	refused(CB_CORRUPT);
	member('0', "", "", "");
	finish();
	refused(CB_CORRUPT);
	member('2', "l", "", "");
	finish();
	refused(CB_CORRUPT);
	member('1', "h", "nowhere", "");
	finish();
	refused(CB_CORRUPT);
	refused(CB_CORRUPT); /* an empty stream */
	CHECK_OK(buf_append_str(&archive, "this is not a tar file", &err));
	refused(CB_CORRUPT);
	end();
}

TEST(cut_at_every_block)
{
	begin();
	member('0', "a", "", "text");
	member('x', "p", "", "18 path=renamed-a\n");
	member('0', "b", "", "more");
	finish();
	AUTO_FREE uint8_t *whole = mem_dup(archive.bytes, archive.size);
	size_t size = archive.size;
	for (size_t cut = 0; cut <= size - 2 * TAR_BLOCK; cut += 100) {
		buf_clear(&archive);
		CHECK_OK(buf_append(&archive, whole, cut, &err));
		refused(CB_CORRUPT);
	}
	CHECK_OK(buf_append(&archive, whole, size - 2 * TAR_BLOCK, &err));
	refused(CB_CORRUPT); /* whole members, but no end mark */
	CHECK_OK(buf_append(&archive, whole, size, &err));
	CHECK_OK(buf_append_str(&archive, "garbage after the end", &err));
	taken();
	CHECK_STR(must_read(b, "/work/renamed-a"), "more");
	end();
}

TEST(extended_records_that_lie)
{
	static const char *const records[] = {
		"0 path=x\n",
		"5 a=\n\n",
		"99999999999999999999 path=x\n",
		"10 path=x",
		"12 pathxxxx\n",
		"18 path=../../etc\n x",
		"-5 a=b\n",
		"20 GNU.sparse.map=1\n",
		"23 GNU.sparse.offset=1\n",
		"12 size=abc\n",
		"13 size=-100\n",
		"13 mtime=1e9\n",
		"11 path=a\n\n\n",
	};
	begin();
	for (size_t i = 0; i < ARRAY_LEN(records); i++) {
		member('x', "p", "", records[i]);
		member('0', "x", "", "text");
		finish();
		refused(CB_CORRUPT);
	}
	member('x', "p", "", "20 path=../../escape\n");
	member('0', "x", "", "text");
	finish();
	refused(CB_CORRUPT); /* counted wrong */
	member('x', "p", "", "21 path=../../escape\n");
	member('0', "x", "", "text");
	finish();
	refused(CB_DENIED);
	/* a header that promises a gigabyte of records */
	add(header('x', "p", "", "10000000000"), TAR_BLOCK);
	refused(CB_CORRUPT);
	add(header('L', "p", "", "10000000000"), TAR_BLOCK);
	refused(CB_CORRUPT);
	end();
}

TEST(sparse_maps_that_lie)
{
	static const char *const records[] = {
		/* real size, map: outside, overlapping, backwards, longer than the data, overflowing */
		"22 GNU.sparse.size=10\n24 GNU.sparse.map=100,4\n",
		"23 GNU.sparse.size=100\n26 GNU.sparse.map=0,3,2,1\n",
		"23 GNU.sparse.size=100\n27 GNU.sparse.map=50,2,0,2\n",
		"23 GNU.sparse.size=100\n23 GNU.sparse.map=0,50\n",
		"23 GNU.sparse.size=100\n41 GNU.sparse.map=18446744073709551615,4\n",
		"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n",
	};
	begin();
	for (size_t i = 0; i < ARRAY_LEN(records); i++) {
		member('x', "p", "", records[i]);
		member('0', "x", "", "text");
		finish();
		refused(CB_CORRUPT);
	}
	/* a map before the data that never ends */
	member('x', "p", "", "22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n27 GNU.sparse.realsize=100\n");
	member('0', "x", "", "99999999999\n");
	finish();
	refused(CB_CORRUPT);
	end();
}

TEST(quota_holds_for_archives)
{
	begin();
	CHECK_OK(cb_box_quota_set(b, 1000, 0, 0, &err));
	char text[2001];
	memset(text, 'x', 2000);
	text[2000] = 0;
	member('0', "small", "", "1");
	member('0', "large", "", text);
	finish();
	refused(CB_QUOTA);
	end();
}

TEST(the_last_of_two_members_wins)
{
	begin();
	member('0', "f", "", "first");
	member('5', "d/", "", "");
	member('0', "f", "", "second");
	member('2', "f2", "f", "");
	member('5', "f2", "", "");
	member('0', "f2/in", "", "below");
	finish();
	taken();
	CHECK_STR(must_read(b, "/work/f"), "second");
	CHECK_STR(must_read(b, "/work/f2/in"), "below");
	end();
}
