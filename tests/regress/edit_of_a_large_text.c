/*
 * An edit of a large text searched for each old text from the front, under the writer lock, and did not look at its limit: 39 s for 64 MiB
 * and a thousand replacements, for everybody.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "harness/beside.h"
#include "harness/boxes.h"

enum { BYTES = 40 << 20, MARKS = 1000, LATE_MS = 4000 };

static cb_store *s;
static cb_box *b;
static _Atomic bool over;
static char marks[MARKS][2][16];
static cb_replacement all[MARKS];

static void begin(void)
{
	cb_error err = {0};
	s = test_store_open(false);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	char *text = malloc(BYTES);
	CHECK(text);
	for (size_t i = 0; i < BYTES; i++) text[i] = i % 61 == 60 ? '\n' : (char)('a' + (i * 2654435761u >> 7) % 26);
	for (unsigned i = 0; i < MARKS; i++) {
		(void)snprintf(marks[i][0], 16, "<MARK%06u>", i);
		(void)snprintf(marks[i][1], 16, "<DONE%06u!>", i);
		memcpy(text + BYTES - (i + 1) * 64, marks[i][0], 12);
		all[i] = (cb_replacement){marks[i][0], 12, marks[i][1], 13};
	}
	CHECK_OK(cb_write_file(b, "/work/f", text, BYTES, NULL, &err));
	free(text);
}

static void end(void)
{
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

TEST_LIMIT(nobody_waits_for_it, 240)
{
	cb_error err = {0};
	begin();
	beside_begin(s);
	uint64_t replaced = 0;
	int64_t start = beside_now_ms();
	CHECK_OK(cb_edit(b, "/work/f", all, MARKS, NULL, &replaced, &err));
	int64_t took = beside_now_ms() - start, waited = beside_end();
	CHECK_U64(replaced, MARKS);
	CHECK_MSG(took < 2 * LATE_MS, "it took %lld ms", (long long)took);
	CHECK_MSG(waited < LATE_MS, "others waited %lld ms", (long long)waited);
	end();
}

TEST_LIMIT(it_ends_with_its_limit, 240)
{
	cb_error err = {0};
	begin();
	uint64_t version = must_version(b, "/work/f");
	int64_t start = beside_now_ms();
	cb_limit limit = CB_WITH(cb_limit, .timeout_ms = 20);
	CHECK_OK(cb_limit_push(&limit, &err));
	cb_code code = cb_edit(b, "/work/f", all, MARKS, NULL, NULL, &err);
	cb_limit_pop();
	CHECK_CODE(code, CB_TIMEOUT);
	CHECK_MSG(beside_now_ms() - start < LATE_MS, "it took %lld ms", (long long)(beside_now_ms() - start));
	CHECK_U64(must_version(b, "/work/f"), version);
	end();
}

/* Others write all the time: to other files, which are merged, and to this one, so that the edit is made anew and loses nothing. */
static void *write_same(void *context)
{
	cb_error err = {0};
	cb_box *mine = must_open(s, "demo");
	for (unsigned i = 0; !atomic_load(&over); i++) {
		must_write(mine, "/work/beside", "x");
		if (i % 4 == 0) CHECK_OK(cb_write_file(mine, "/work/g", "+", 1, &CB_WITH(cb_write_options, .append = true), &err));
		++*(unsigned *)context;
	}
	cb_box_close(mine);
	return NULL;
}

TEST_LIMIT(beside_writers_of_the_same_file, 240)
{
	cb_error err = {0};
	s = test_store_open(true);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/g", "0;");
	pthread_t thread;
	unsigned written = 0;
	CHECK(pthread_create(&thread, NULL, write_same, &written) == 0);
	for (unsigned i = 0; i < 500; i++) {
		char was[16], is[16];
		int n = snprintf(was, sizeof(was), "%u;", i), m = snprintf(is, sizeof(is), "%u;", i + 1);
		CHECK_OK(cb_edit(b, "/work/g", &(cb_replacement){was, (size_t)n, is, (size_t)m}, 1, NULL, NULL, &err));
	}
	atomic_store(&over, true);
	CHECK(pthread_join(thread, NULL) == 0);
	char *text = must_read(b, "/work/g");
	CHECK(strncmp(text, "500;", 4) == 0);
	CHECK_U64(strspn(text + 4, "+"), (written + 3) / 4);
	CHECK_U64(strlen(text), 4 + (written + 3) / 4);
	end();
}
