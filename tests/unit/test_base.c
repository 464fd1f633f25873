/* test_base.c: the base layer. */
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/blob.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/sha1.h"
#include "harness/harness.h"

/* ---- err ---- */

TEST(code_table_is_dense_and_complete)
{
	int count = 0;
#define ROW(name, value, error_number, status, text)                 \
	CHECK((value) == -count);                                    \
	CHECK_STR(cb_code_name(CB_##name), #name);                   \
	CHECK_STR(cb_code_text(CB_##name), text);                    \
	CHECK(cb_code_errno(CB_##name) == (error_number));           \
	CHECK(cb_code_exit_status(CB_##name) == (status));           \
	CHECK(((status) != 0) == ((value) != 0) && (status) <= 255); \
	count++;
	CB_ERROR_TABLE(ROW)
#undef ROW
	CHECK(count > 30);
}

TEST(code_unknown_has_answers)
{
	static const int codes[] = {1, 42, INT_MAX, -1000, INT_MIN};
	for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
		CHECK_STR(cb_code_name((cb_code)codes[i]), "UNKNOWN");
		CHECK_STR(cb_code_text((cb_code)codes[i]), "unknown error");
		CHECK(cb_code_errno((cb_code)codes[i]) == EIO);
		CHECK(cb_code_exit_status((cb_code)codes[i]) == 70);
	}
}

TEST(err_set_and_null_err)
{
	cb_error err = {0};
	CHECK(cb_err_set(&err, CB_NOTFOUND, "no entry '%s'", "a") == CB_NOTFOUND);
	CHECK(err.code == CB_NOTFOUND);
	CHECK_STR(err.message, "no entry 'a'");
	CHECK(cb_err_nomem(&err) == CB_NOMEM);
	CHECK_STR(err.message, "out of memory");
	CHECK(cb_err_set(NULL, CB_BUSY, "x") == CB_BUSY);
	CHECK(cb_err_wrap(NULL, CB_BUSY, "x") == CB_BUSY);
	CHECK(cb_err_wrap(NULL, CB_OK, "x") == CB_INTERNAL);
	CHECK(cb_err_errno(NULL, ENOSPC, "x") == CB_NOSPACE);
}

TEST(err_wrap_prepends)
{
	cb_error err = {0};
	cb_err_set(&err, CB_NOTFOUND, "no entry 'a'");
	CHECK(cb_err_wrap(&err, CB_NOTFOUND, "read '%s'", "box") == CB_NOTFOUND);
	CHECK_STR(err.message, "read 'box': no entry 'a'");
	/* Another code than the one that is there: the old message is about something else. */
	CHECK(cb_err_wrap(&err, CB_BUSY, "open") == CB_BUSY);
	CHECK_STR(err.message, "open: busy: try again");
	CHECK(cb_err_wrap(&err, CB_OK, "again") == CB_BUSY);
	CHECK_STR(err.message, "again: open: busy: try again");
}

TEST(err_arguments_may_point_into_the_message)
{
	cb_error err = {0};
	cb_err_set(&err, CB_IO, "disk");
	cb_err_set(&err, CB_CORRUPT, "<%s>", err.message);
	CHECK_STR(err.message, "<disk>");
	cb_err_errno(&err, EPERM, "<%s>", err.message);
	CHECK_STR(err.message, "<<disk>>: Operation not permitted");
	CHECK(err.code == CB_DENIED);
}

static bool is_utf8(const char *s)
{
	const unsigned char *p = (const unsigned char *)s;
	while (*p) {
		int more = *p < 0x80 ? 0 : *p < 0xc0 ? -1 : *p < 0xe0 ? 1 : *p < 0xf0 ? 2 : 3;
		if (more < 0) return false;
		for (p++; more; more--, p++)
			if ((*p & 0xc0) != 0x80) return false;
	}
	return true;
}

TEST(err_long_messages_are_cut_at_a_character)
{
	static const char *const letters[] = {"x", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x90\x84"};
	for (size_t which = 0; which < ARRAY_LEN(letters); which++) {
		for (size_t shift = 0; shift < 5; shift++) {
			char text[2048] = "";
			size_t n = 0;
			while (n < shift) text[n++] = 'a';
			while (n < 1000) {
				memcpy(text + n, letters[which], strlen(letters[which]));
				n += strlen(letters[which]);
			}
			cb_error err = {0};
			cb_err_set(&err, CB_IO, "%s", text);
			size_t size = strlen(err.message);
			CHECK(size < CB_ERROR_MESSAGE_MAX && size > CB_ERROR_MESSAGE_MAX - 8);
			CHECK(is_utf8(err.message));
			CHECK_STR(err.message + size - 3, "\xe2\x80\xa6");
			cb_err_wrap(&err, CB_IO, "deeper %s", "\xc3\xa9\xc3\xa9");
			CHECK(is_utf8(err.message) && strlen(err.message) < CB_ERROR_MESSAGE_MAX);
			CHECK(strncmp(err.message, "deeper ", 7) == 0);
		}
	}
	/* Exactly full is not cut. */
	char full[CB_ERROR_MESSAGE_MAX];
	memset(full, 'y', sizeof(full) - 1);
	full[sizeof(full) - 1] = '\0';
	cb_error err = {0};
	cb_err_set(&err, CB_IO, "%s", full);
	CHECK_STR(err.message, full);
	/* Not UTF-8 at all: still ends. */
	char stray[1024];
	memset(stray, 0x80, sizeof(stray) - 1);
	stray[sizeof(stray) - 1] = '\0';
	cb_err_set(&err, CB_IO, "%s", stray);
	CHECK(strlen(err.message) < CB_ERROR_MESSAGE_MAX);
}

TEST(err_messages_stay_on_one_line)
{
	cb_error err = {0};
	cb_err_set(&err, CB_NOTFOUND, "no entry '%s'", "a\nb\x1b[2J\x7f.");
	CHECK_STR(err.message, "no entry 'a\\x0ab\\x1b[2J\\x7f.'");
	/* Said again by whoever passes it on. */
	cb_err_wrap(&err, CB_NOTFOUND, "reading '%s'", "c\rd");
	CHECK_STR(err.message, "reading 'c\\x0dd': no entry 'a\\x0ab\\x1b[2J\\x7f.'");
}

TEST(err_messages_are_utf8)
{
	cb_error err = {0};
	cb_err_set(&err, CB_NOTFOUND, "'%s'", "g\xff\xfeh \xc3\xa9 \xe2\x80\xae \xc2\x85");
	CHECK_STR(err.message, "'g\\xff\\xfeh \xc3\xa9 \\xe2\\x80\\xae \\xc2\\x85'");
	char bad[CB_ERROR_MESSAGE_MAX];
	for (size_t size = 100; size < sizeof(bad); size++) { /* cut where no escape is cut */
		memset(bad, 0xff, size);
		bad[size] = 0;
		cb_err_set(&err, CB_NOTFOUND, "%s", bad);
		size_t n = strlen(err.message);
		CHECK(n < CB_ERROR_MESSAGE_MAX);
		CHECK(4 * size < CB_ERROR_MESSAGE_MAX ? n == 4 * size
		                                      : n % 4 == 3 && strcmp(err.message + n - 3, "\xe2\x80\xa6") == 0);
	}
}

TEST(err_errno_maps)
{
	static const struct {
		int error_number;
		cb_code code;
	} cases[] = {{ENOSPC, CB_NOSPACE}, {EDQUOT, CB_NOSPACE}, {EROFS, CB_READONLY}, {EACCES, CB_DENIED},
	             {EPERM, CB_DENIED},   {ENOMEM, CB_NOMEM},   {EIO, CB_IO},         {99999, CB_IO}};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cb_error err = {0};
		CHECK(cb_err_errno(&err, cases[i].error_number, "write %d", 7) == cases[i].code);
		CHECK(err.os_error == cases[i].error_number);
		CHECK(err.code == cases[i].code);
		CHECK(strncmp(err.message, "write 7: ", 9) == 0 && strlen(err.message) > 9);
	}
}

/* ---- mem, buf ---- */

TEST(mem_alignment_and_zero)
{
	for (size_t size = 0; size < 300; size += 7) {
		AUTO_FREE char *p = mem_alloc_aligned(size);
		CHECK(p && ((uintptr_t)p & 63) == 0);
		memset(p, 1, size);
		AUTO_FREE char *q = mem_alloc(size);
		CHECK(q);
	}
	CHECK(mem_alloc_aligned(SIZE_MAX) == NULL);
	CHECK(mem_alloc_aligned(SIZE_MAX - 63) == NULL);
	AUTO_FREE char *s = mem_strdup("cow");
	CHECK_STR(s, "cow");
	AUTO_FREE char *d = mem_dup(NULL, 0);
	CHECK(d);
}

/* Of blocks that come and go between some that stay, as in a cache: glibc's own aligned_alloc leaves one hole more for each. */
TEST(aligned_blocks_take_the_holes_of_others)
{
	enum { LIVE = 64, STEPS = 4000, SIZE = 9000 };
	void *live[LIVE] = {NULL};
	static void *stay[STEPS];
	size_t before = mallinfo2().arena;
	for (unsigned i = 0; i < STEPS; i++) {
		free(live[i % LIVE]);
		live[i % LIVE] = mem_alloc_aligned(SIZE);
		CHECK(live[i % LIVE] && (uintptr_t)live[i % LIVE] % 64 == 0);
		stay[i] = mem_alloc(40);
		CHECK(stay[i]);
	}
	size_t grown = mallinfo2().arena - before;
	CHECK_MSG(grown < (size_t)STEPS * SIZE / 4, "the heap grew by %zu bytes", grown);
	for (unsigned i = 0; i < LIVE; i++) free(live[i]);
	for (unsigned i = 0; i < STEPS; i++) free(stay[i]);
}

TEST(mem_fail_after_counts)
{
	for (long n = 1; n <= 5; n++) {
		mem_fail_after(n);
		for (long i = 1; i <= 8; i++) {
			AUTO_FREE void *p = i % 2 ? mem_alloc(10) : mem_alloc_aligned(10);
			CHECK((p != NULL) == (i < n));
		}
		CHECK(mem_strdup("x") == NULL && mem_realloc(NULL, 5) == NULL);
	}
	mem_fail_after(0);
	AUTO_FREE void *p = mem_alloc(1);
	CHECK(p);
}

static void *count_successes(void *context)
{
	long *count = context;
	for (int i = 0; i < 1000; i++) {
		void *p = mem_alloc(1);
		*count += p != NULL;
		free(p);
	}
	return NULL;
}

TEST(mem_fail_after_counts_over_threads)
{
	long counts[4] = {0}, sum = 0;
	pthread_t threads[4];
	mem_fail_after(1001);
	for (int i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, count_successes, &counts[i]) == 0);
	for (int i = 0; i < 4; i++) {
		CHECK(pthread_join(threads[i], NULL) == 0);
		sum += counts[i];
	}
	mem_fail_after(0);
	CHECK_U64(sum, 1000);
}

TEST(buf_append_grow_take)
{
	cb_error err = {0};
	AUTO_BUF buf b = BUF_INIT(100000);
	for (int i = 0; i < 10000; i++) {
		CHECK_OK(buf_append_byte(&b, (uint8_t)i, &err));
		CHECK(b.capacity < 4096 || ((uintptr_t)b.bytes & 63) == 0);
	}
	for (size_t i = 0; i < b.size; i++) CHECK(b.bytes[i] == (uint8_t)i);
	buf_clear(&b);
	CHECK(b.size == 0 && b.capacity >= 10000);
	CHECK_OK(buf_append_str(&b, "cow", &err));
	CHECK_OK(buf_printf(&b, &err, "-%d-%s", 7, "box"));
	uint8_t *room = NULL;
	CHECK_OK(buf_extend(&b, 2, &room, &err));
	memcpy(room, "!!", 2);
	CHECK(span_equal(buf_span(&b), span_str("cow-7-box!!")));
	AUTO_FREE char *text = NULL;
	size_t size = 0;
	CHECK_OK(buf_take(&b, &text, &size, &err));
	CHECK_STR(text, "cow-7-box!!");
	CHECK(size == 11 && b.bytes == NULL && b.size == 0 && b.max_size == 100000);
}

TEST(buf_limit_leaves_it_as_it_was)
{
	cb_error err = {0};
	AUTO_BUF buf b = BUF_INIT(8);
	CHECK_OK(buf_append_str(&b, "12345678", &err));
	CHECK_CODE(buf_append_byte(&b, 'x', &err), CB_LIMIT);
	CHECK_CODE(buf_printf(&b, &err, "y"), CB_LIMIT);
	CHECK_CODE(buf_reserve(&b, SIZE_MAX, &err), CB_LIMIT);
	uint8_t *room = NULL;
	CHECK_CODE(buf_extend(&b, 1, &room, &err), CB_LIMIT);
	CHECK_OK(buf_append(&b, NULL, 0, &err));
	CHECK_OK(buf_printf(&b, &err, "%s", ""));
	CHECK(span_equal(buf_span(&b), span_str("12345678")));
	AUTO_FREE char *text = NULL;
	CHECK_OK(buf_take(&b, &text, NULL, &err));
	CHECK_STR(text, "12345678");
}

TEST(buf_full_to_its_capacity_is_taken_with_a_nul)
{
	cb_error err = {0};
	for (size_t size = 0; size < 200; size++) {
		AUTO_BUF buf b = BUF_INIT(size);
		for (size_t i = 0; i < size; i++) CHECK_OK(buf_append_byte(&b, 'a', &err));
		AUTO_FREE char *text = NULL;
		size_t taken = 0;
		CHECK_OK(buf_take(&b, &text, &taken, &err));
		CHECK(taken == size && strlen(text) == size);
	}
}

TEST(buf_without_memory_leaves_it_as_it_was)
{
	cb_error err = {0};
	AUTO_BUF buf b = BUF_INIT(1 << 20);
	CHECK_OK(buf_append_str(&b, "keep", &err));
	mem_fail_after(1);
	CHECK_CODE(buf_reserve(&b, 4096, &err), CB_NOMEM);
	CHECK_CODE(buf_printf(&b, &err, "%4096d", 1), CB_NOMEM);
	mem_fail_after(0);
	CHECK(span_equal(buf_span(&b), span_str("keep")));
	AUTO_BUF buf empty = BUF_INIT(10);
	mem_fail_after(1);
	char *text = NULL;
	CHECK_CODE(buf_take(&empty, &text, NULL, &err), CB_NOMEM);
	mem_fail_after(0);
	CHECK(text == NULL);
}

/* ---- bytes ---- */

TEST(varint_round_trip)
{
	cb_error err = {0};
	test_rng rng = {test_seed()};
	for (int i = 0; i < 2000; i++) {
		uint64_t v = test_rand(&rng) >> (i % 64);
		if (i < 64) v = (uint64_t)1 << i;
		if (i == 64) v = UINT64_MAX;
		if (i == 65) v = 0;
		AUTO_BUF buf b = BUF_INIT(10);
		CHECK_OK(buf_append_varint(&b, v, &err));
		reader r = reader_make(buf_span(&b));
		CHECK_U64(reader_varint(&r), v);
		CHECK(!r.bad && reader_at_end(&r));
		/* Every shorter prefix is refused. */
		for (size_t cut = 0; cut < b.size; cut++) {
			r = reader_make(span_make(b.bytes, cut));
			CHECK(reader_varint(&r) == 0 && r.bad && reader_at_end(&r));
		}
	}
}

TEST(varint_refuses_overflow_and_long_forms)
{
	static const uint8_t too_big[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02};
	static const uint8_t endless[] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01};
	static const uint8_t padded[] = {0x81, 0x00};
	const span cases[] = {span_make(too_big, sizeof(too_big)), span_make(endless, sizeof(endless)),
	                      span_make(padded, sizeof(padded))};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		reader r = reader_make(cases[i]);
		CHECK(reader_varint(&r) == 0);
		CHECK(r.bad);
	}
}

TEST(reader_stays_bad)
{
	static const uint8_t bytes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13};
	reader r = reader_make(span_make(bytes, sizeof(bytes)));
	CHECK(reader_byte(&r) == 1);
	CHECK(reader_le32(&r) == 0x05040302);
	CHECK_U64(reader_le64(&r), 0x0d0c0b0a09080706u);
	CHECK(!r.bad && reader_at_end(&r));
	CHECK(reader_span(&r, 0).size == 0 && !r.bad);

	r = reader_make(span_make(bytes, sizeof(bytes)));
	CHECK(reader_span(&r, SIZE_MAX).size == 0 && r.bad);
	CHECK(reader_byte(&r) == 0 && reader_le32(&r) == 0 && reader_le64(&r) == 0 && reader_varint(&r) == 0);
	CHECK(reader_span(&r, 0).size == 0 && r.bad);

	r = reader_make(span_make(NULL, 0));
	CHECK(reader_span(&r, 0).size == 0 && !r.bad);
	CHECK(reader_byte(&r) == 0 && r.bad);
}

TEST(fixed_width_integers)
{
	uint8_t a[8], b[8];
	put_be64(a, 0x0102030405060708u);
	CHECK(a[0] == 1 && a[7] == 8 && get_be64(a) == 0x0102030405060708u);
	put_le64(b, 0x0102030405060708u);
	CHECK(b[0] == 8 && b[7] == 1 && get_le64(b) == 0x0102030405060708u);
	put_le32(b, 0xdeadbeefu);
	CHECK(get_le32(b) == 0xdeadbeefu);
	put_le16(b, 0xbeef);
	CHECK(get_le16(b) == 0xbeef && b[0] == 0xef);
	/* Big-endian keys sort as their numbers. */
	test_rng rng = {test_seed()};
	for (int i = 0; i < 1000; i++) {
		uint64_t x = test_rand(&rng) >> test_rand_below(&rng, 64), y = test_rand(&rng) >> test_rand_below(&rng, 64);
		put_be64(a, x);
		put_be64(b, y);
		CHECK((memcmp(a, b, 8) < 0) == (x < y));
	}
}

TEST(span_order)
{
	CHECK(span_compare(span_str("a"), span_str("ab")) < 0);
	CHECK(span_compare(span_str("b"), span_str("ab")) > 0);
	CHECK(span_compare(span_str("\xff"), span_str("a")) > 0);
	CHECK(span_compare(span_str(NULL), span_str("")) == 0);
	CHECK(span_equal(span_str(""), span_str(NULL)) && !span_equal(span_str("a"), span_str("b")));
	CHECK(span_starts(span_str("abc"), span_str("ab")) && !span_starts(span_str("a"), span_str("ab")));
	CHECK(span_starts(span_str("a"), span_str(NULL)));
}

/* ---- blob, hash, clock ---- */

TEST(blob_holds_its_own_copy)
{
	char bytes[] = "moo";
	blob *b = blob_create(7, bytes, 3);
	CHECK(b && b->id == 7 && b->size == 3 && b->refs == 1 && b->checked == 0);
	bytes[0] = 'x';
	CHECK(memcmp(b->bytes, "moo", 3) == 0);
	CHECK(blob_ref(b) == b && b->refs == 2);
	blob_unref(b);
	CHECK(memcmp(b->bytes, "moo", 3) == 0);
	blob_unref(b);
	blob_unref(NULL);
	b = blob_create(0, NULL, 100);
	CHECK(b);
	for (int i = 0; i < 100; i++) CHECK(b->bytes[i] == 0);
	blob_unref(b);
	b = blob_create(1, NULL, 0);
	CHECK(b && b->bytes && b->size == 0);
	blob_unref(b);
	CHECK(blob_create(1, NULL, SIZE_MAX) == NULL);
	mem_fail_after(1);
	CHECK(blob_create(1, "x", 1) == NULL);
	mem_fail_after(0);
}

TEST(hash_is_xxh3)
{
	/* The published values: what is on disk today must verify tomorrow. */
	CHECK_U64(hash64("", 0), 0x2d06800538d394c2u);
	CHECK_U64(hash64(NULL, 0), 0x2d06800538d394c2u);
	CHECK_U64(hash64("abc", 3), 0x78af5f94892f3950u);
	CHECK(hash64("a", 1) != hash64("b", 1));
	uint8_t bytes[4096];
	for (size_t i = 0; i < sizeof(bytes); i++) bytes[i] = (uint8_t)(i * 31);
	CHECK_U64(hash64(bytes, 200), 0xc56a3bc977e096fbu);
	CHECK_U64(hash64(bytes, sizeof(bytes)), 0xc90052126f9618dcu);
	/* Alignment does not change it. */
	uint8_t shifted[4097];
	memcpy(shifted + 1, bytes, sizeof(bytes));
	for (size_t size = 0; size <= sizeof(bytes); size += 61) CHECK_U64(hash64(bytes, size), hash64(shifted + 1, size));
	CHECK(hash_u64(1) != hash_u64(2) && hash_u64(0) == 0);
}

TEST(sha1_is_that_of_the_standard)
{
	static const struct {
		const char *text;
		unsigned times;
		const char *sum;
	} rows[] = {
		{"", 1, "da39a3ee5e6b4b0d3255bfef95601890afd80709"},
		{"abc", 1, "a9993e364706816aba3e25717850c26c9cd0d89d"},
		{"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1, "84983e441c3bd26ebaae4aa1f95129e5e54670f1"},
		{"a", 1000000, "34aa973cd4c4daa4f61eeb2bdbad27316534016f"},
		{"0123456701234567012345670123456701234567012345670123456701234567", 10,
	         "dea356a2cddd90c7a7ecedc5ebb563934f460452"},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		sha1 s;
		uint8_t sum[SHA1_BYTES];
		char hex[2 * SHA1_BYTES + 1];
		sha1_init(&s);
		for (unsigned n = 0; n < rows[i].times; n++) sha1_add(&s, rows[i].text, strlen(rows[i].text));
		sha1_sum(&s, sum);
		for (size_t k = 0; k < SHA1_BYTES; k++) snprintf(hex + 2 * k, 3, "%02x", sum[k]);
		CHECK_STR(hex, rows[i].sum);
	}
}

TEST(clock_system_is_now)
{
	int64_t a = clock_now(&clock_system), b = (int64_t)time(NULL) * 1000000000;
	CHECK(a > 0 && llabs(a - b) < (int64_t)60 * 1000000000);
}

/* ---- io ---- */

TEST(io_whole_reads_and_writes)
{
	cb_error err = {0};
	char path[PATH_MAX];
	(void)snprintf(path, sizeof(path), "%s/file", test_tmpdir());
	AUTO_FD int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK(fd >= 0);
	CHECK_OK(io_write_all(fd, "0123456789", 10, &err));
	CHECK_OK(io_pwrite_all(fd, "abc", 3, 4, &err));
	char back[32] = "";
	size_t size = 0;
	CHECK_OK(io_pread_all(fd, back, sizeof(back), 0, &size, &err));
	CHECK(size == 10 && memcmp(back, "0123abc789", 10) == 0);
	CHECK_OK(io_pread_all(fd, back, 3, 4, NULL, &err));
	CHECK_CODE(io_pread_all(fd, back, 4, 8, NULL, &err), CB_IO);
	CHECK_OK(io_pread_all(fd, back, 4, 100, &size, &err));
	CHECK(size == 0);
	CHECK_CODE(io_pread_all(fd, back, 1, UINT64_MAX, &size, &err), CB_INVALID);
	CHECK_CODE(io_pwrite_all(fd, back, 2, INT64_MAX, &err), CB_INVALID);
	CHECK_CODE(io_write_all(-1, "x", 1, &err), CB_IO);
	CHECK_OK(io_write_all(-1, NULL, 0, &err));
}

static void on_alarm(int number)
{
	(void)number;
}

TEST(io_survives_signals_and_short_counts)
{
	int fds[2];
	CHECK(pipe(fds) == 0);
	pid_t pid = fork();
	if (pid == 0) {
		(void)close(fds[1]);
		static char sink[1000];
		size_t total = 0;
		for (ssize_t n; (n = read(fds[0], sink, sizeof(sink))) > 0; total += (size_t)n) (void)usleep(100);
		_exit(total == 1000000 ? 0 : 1);
	}
	(void)close(fds[0]);
	struct sigaction action = {.sa_handler = on_alarm}; /* no SA_RESTART: writes are interrupted */
	CHECK(sigaction(SIGALRM, &action, NULL) == 0);
	struct itimerval timer = {{0, 1000}, {0, 1000}}, off = {{0, 0}, {0, 0}};
	CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
	cb_error err = {0};
	static char bytes[1000000];
	CHECK_OK(io_write_all(fds[1], bytes, sizeof(bytes), &err));
	CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0);
	(void)close(fds[1]);
	int status = 0;
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

TEST(io_full_disk_is_nospace)
{
	AUTO_FD int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
	if (fd < 0) test_skip("no /dev/full here");
	cb_error err = {0};
	CHECK_CODE(io_write_all(fd, "x", 1, &err), CB_NOSPACE);
}

TEST(io_mkdirs_as_mkdir_p)
{
	cb_error err = {0};
	char path[PATH_MAX];
	(void)snprintf(path, sizeof(path), "%s//a/b///c/", test_tmpdir());
	CHECK_OK(io_mkdirs(path, 0700, &err));
	CHECK_OK(io_mkdirs(path, 0700, &err));
	CHECK_OK(io_mkdirs("/", 0700, &err));
	struct stat st;
	CHECK(stat(path, &st) == 0 && S_ISDIR(st.st_mode));
	(void)snprintf(path, sizeof(path), "%s/a/file", test_tmpdir());
	AUTO_FD int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	CHECK(fd >= 0);
	CHECK_CODE(io_mkdirs(path, 0700, &err), CB_NOTDIR);
	(void)snprintf(path, sizeof(path), "%s/a/file/below", test_tmpdir());
	CHECK_CODE(io_mkdirs(path, 0700, &err), CB_NOTDIR);
	CHECK_CODE(io_mkdirs("", 0700, &err), CB_INVALID);
	char long_path[PATH_MAX + 10];
	memset(long_path, 'x', sizeof(long_path) - 1);
	long_path[sizeof(long_path) - 1] = '\0';
	CHECK_CODE(io_mkdirs(long_path, 0700, &err), CB_NAMETOOLONG);
}

/* ---- attr ---- */

TEST(attr_hands_over)
{
	AUTO_FREE char *a = mem_strdup("a");
	AUTO_FREE char *b = TAKE_PTR(a);
	CHECK(a == NULL && b);
	AUTO_FD int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	AUTO_FD int other = TAKE_FD(fd);
	CHECK(fd == -1 && other >= 0);
}
