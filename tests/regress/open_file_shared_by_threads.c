/*
 * Threads that shared one open file lost writes that had been acknowledged: its position was read before and set after the call had its
 * turn, so two of them wrote to the same place.
 */
#include <pthread.h>

#include <cowbox/cowbox.h>

#include "harness/boxes.h"

enum { THREADS = 4, RECORDS = 200, RECORD = 8 };

static cb_file *f;

static void *write_records(void *context)
{
	cb_error err = {0};
	char record[32];
	for (int i = 0; i < RECORDS; i++) {
		(void)snprintf(record, sizeof(record), "%d-%05d\n", *(const int *)context, i);
		CHECK_OK(cb_write(f, record, RECORD, &err));
	}
	return NULL;
}

static void run_all(void *(*body)(void *))
{
	static int numbers[THREADS];
	pthread_t threads[THREADS];
	for (int i = 0; i < THREADS; i++) {
		numbers[i] = i;
		CHECK(pthread_create(&threads[i], NULL, body, &numbers[i]) == 0);
	}
	for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

static void check_records(const char *text)
{
	int next[THREADS] = {0};
	for (size_t at = 0; at < (size_t)THREADS * RECORDS * RECORD; at += RECORD) {
		int thread = text[at] - '0';
		CHECK(thread >= 0 && thread < THREADS);
		CHECK(atoi(text + at + 2) == next[thread]++); /* and each thread's in its order */
	}
}

static void writes_take_turns(unsigned flags)
{
	cb_error err = {0};
	cb_box *b = NULL;
	cb_store *s = test_store_open(true);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	CHECK_OK(cb_open(b, "/work/f", CB_READ | CB_WRITE | CB_CREATE | flags, 0644, &f, &err));
	run_all(write_records);
	uint64_t end = 0;
	CHECK_OK(cb_seek(f, 0, CB_SEEK_CUR, &end, &err));
	CHECK_U64(end, (uint64_t)THREADS * RECORDS * RECORD);
	CHECK_OK(cb_close(f, &err));
	char *text = must_read(b, "/work/f");
	CHECK_U64(strlen(text), (uint64_t)THREADS * RECORDS * RECORD);
	check_records(text);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

TEST(writes_through_one_file_take_turns)
{
	writes_take_turns(0);
}

TEST(appends_through_one_file_take_turns)
{
	writes_take_turns(CB_APPEND);
}

/* Every call on it at once: for the thread sanitizer. */
static void *do_everything(void *context)
{
	cb_error err = {0};
	char bytes[RECORD];
	size_t size;
	uint64_t at;
	cb_stat_info info = CB_INIT(cb_stat_info);
	for (int i = 0; i < 50; i++) {
		CHECK_OK(cb_write(f, "12345678", RECORD, &err));
		CHECK_OK(cb_seek(f, *(const int *)context, CB_SEEK_SET, &at, &err));
		CHECK_OK(cb_read(f, bytes, sizeof(bytes), &size, &err));
		CHECK_OK(cb_pwrite(f, "x", 1, (uint64_t)i, &err));
		CHECK_OK(cb_pread(f, bytes, 1, (uint64_t)i, &size, &err));
		CHECK_OK(cb_fstat(f, &info, &err));
		if (i % 10 == 0) CHECK_OK(cb_ftruncate(f, 100, &err));
		if (i % 25 == 0) CHECK_OK(cb_fsync(f, &err));
	}
	return NULL;
}

TEST(every_call_on_one_file_takes_turns)
{
	cb_error err = {0};
	cb_box *b = NULL;
	cb_store *s = test_store_open(true);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	CHECK_OK(cb_open(b, "/work/f", CB_READ | CB_WRITE | CB_CREATE, 0644, &f, &err));
	run_all(do_everything);
	/* And when it is gone from the box. */
	CHECK_OK(cb_unlink(b, "/work/f", &err));
	run_all(do_everything);
	CHECK_OK(cb_close(f, &err));
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}
