/* test_pack.c: cb_pack and cb_unpack: what goes in comes out, step by step, and what is damaged is refused whole. */
#include <cowbox/cowbox.h>

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "base/limits.h"
#include "box/pack.h"
#include "harness/packs.h"

TEST_BOTH(small_box)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/a", "one");
	must_write(b, "/work/a", "two");
	CHECK_OK(cb_checkpoint_save(b, "mark", 0, true, &err));
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	pack_bytes p = pack_take(b, NULL);
	cb_pack_info info = CB_INIT(cb_pack_info);
	CHECK_OK(pack_give(s, &p, "copy", &info, &err));
	CHECK_STR(info.name, "copy");
	CHECK_U64(info.steps, 4);
	CHECK_U64(info.checkpoints, 1);
	cb_box *c = must_open(s, "copy");
	pack_must_equal(s, "demo", s, "copy");
	test_store_sound(s);
	cb_box_close(c);
	cb_box_close(b);
	cb_store_close(s);
}

TEST_BOTH(one_of_everything)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory), *t = NULL;
	CHECK_OK(cb_store_open(":memory:", NULL, &t, &err));
	cb_box *b = pack_sample(s);
	pack_bytes p = pack_take(b, NULL);
	cb_pack_info info = CB_INIT(cb_pack_info);
	CHECK_OK(pack_give(t, &p, NULL, &info, &err));
	CHECK_STR(info.name, "demo");
	CHECK(info.history && info.packed_bytes == p.size);
	pack_must_equal(s, "demo", t, "demo");
	char *value = NULL;
	cb_box *c = must_open(t, "demo");
	CHECK_OK(cb_setting_get(c, "mine", &value, NULL, &err));
	CHECK_STR(value, "yes");
	cb_free(value);
	test_store_sound(t);
	cb_box_close(c);
	cb_box_close(b);
	cb_store_close(t);
	cb_store_close(s);
}

static cb_code box_count(void *context, const cb_box_info *info, cb_error *err)
{
	(void)info;
	(void)err;
	++*(unsigned *)context;
	return CB_OK;
}

static void none_there(cb_store *s)
{
	cb_error err = {0};
	unsigned boxes = 0;
	CHECK_OK(cb_box_list(s, box_count, &boxes, &err));
	CHECK_U64(boxes, 0);
}

/* A pack of some hundred bytes, so that every byte can be tried. */
static pack_bytes tiny_pack(void)
{
	cb_error err = {0};
	cb_store *s = NULL;
	cb_box *b = NULL;
	CHECK_OK(cb_store_open(":memory:", NULL, &s, &err));
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/a", "one");
	must_write(b, "/work/a", "two");
	pack_bytes p = pack_take(b, NULL);
	cb_box_close(b);
	cb_store_close(s);
	return p;
}

TEST_LIMIT(every_flipped_bit_is_refused, 120)
{
	cb_error err = {0};
	cb_store *t = NULL;
	CHECK_OK(cb_store_open(":memory:", NULL, &t, &err));
	pack_bytes p = tiny_pack();
	for (size_t bit = 0; bit < 8 * p.size; bit++) {
		p.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		CHECK_MSG(pack_give(t, &p, NULL, NULL, &err) == CB_CORRUPT, "bit %zu", bit);
		p.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	none_there(t);
	CHECK_OK(pack_give(t, &p, NULL, NULL, &err));
	CHECK_OK(cb_store_gc(t, NULL, &err));
	test_store_sound(t);
	cb_store_close(t);
}

TEST_LIMIT(every_cut_is_refused, 120)
{
	cb_error err = {0};
	cb_store *t = NULL;
	CHECK_OK(cb_store_open(":memory:", NULL, &t, &err));
	pack_bytes p = tiny_pack();
	for (size_t size = 0; size < p.size; size++) {
		pack_bytes cut = {p.bytes, size};
		CHECK_MSG(pack_give(t, &cut, NULL, NULL, &err) == CB_CORRUPT, "after %zu bytes", size);
	}
	none_there(t);
	test_store_sound(t);
	cb_store_close(t);
}

TEST_LIMIT(damage_of_a_larger_pack_is_refused, 120)
{
	cb_error err = {0};
	cb_store *s = test_store_open(true), *t = NULL;
	CHECK_OK(cb_store_open(":memory:", NULL, &t, &err));
	cb_box *b = pack_sample(s);
	pack_bytes p = pack_take(b, NULL);
	test_rng rng = {test_seed() | 1};
	for (unsigned i = 0; i < 400; i++) {
		size_t at = test_rand_below(&rng, p.size);
		uint8_t was = p.bytes[at];
		p.bytes[at] = (uint8_t)(was + 1 + test_rand_below(&rng, 255));
		CHECK_MSG(pack_give(t, &p, NULL, NULL, &err) == CB_CORRUPT, "byte %zu", at);
		p.bytes[at] = was;
	}
	none_there(t);
	cb_box_close(b);
	cb_store_close(t);
	cb_store_close(s);
}

TEST_LIMIT(lies_with_right_sums, 240)
{
	cb_error err = {0};
	cb_store *s = test_store_open(true);
	cb_box *b = pack_sample(s);
	pack_bytes p = pack_take(b, NULL);
	test_rng rng = {test_seed() | 1};
	unsigned taken = 0, rounds = test_dose(300);
	for (unsigned i = 0; i < rounds; i++) {
		cb_store *t = NULL;
		pack_records r = pack_split(&p);
		for (uint64_t n = 1 + test_rand_below(&rng, 2); n > 0; n--) pack_mutate(&r, &rng);
		pack_bytes lie = pack_join(&r, test_rand_below(&rng, 8) != 0);
		CHECK_OK(cb_store_open(":memory:", NULL, &t, &err));
		cb_code code = pack_give(t, &lie, "demo", NULL, &err);
		taken += code == CB_OK;
		pack_must_be_whole(t, "demo", code);
		cb_store_close(t);
		free(lie.bytes);
		pack_records_free(&r);
	}
	test_note("%u of %u lies were harmless", taken, rounds);
	cb_box_close(b);
	cb_store_close(s);
}

/* Bounds are any 64 bits, in a box and in a pack that anybody may have written: none of them turns negative on the way. */
TEST_BOTH(bounds_of_any_size)
{
	static const uint64_t all[] = {1, INT64_MAX, (uint64_t)INT64_MAX + 1, UINT64_MAX};
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		cb_box *b = NULL;
		cb_box_info info = CB_INIT(cb_box_info);
		CHECK_OK(cb_box_create(s, "demo", &b, &err));
		must_write(b, "/work/a", "one");
		CHECK_OK(cb_box_quota_set(b, all[i], all[i], all[i], &err));
		CHECK_OK(cb_box_retention_set(b, all[i], INT64_MAX, &err));
		pack_bytes p = pack_take(b, NULL);
		cb_box_close(b);
		CHECK_OK(pack_give(s, &p, "copy", NULL, &err));
		b = must_open(s, "copy");
		CHECK_OK(cb_box_info_get(b, &info, &err));
		CHECK_U64(info.quota_bytes, all[i]);
		CHECK_U64(info.quota_files, all[i]);
		CHECK_U64(info.quota_file_bytes, all[i]);
		CHECK_U64(info.keep_steps, all[i]);
		CHECK_CODE(cb_write_file(b, "/work/b", "more", 4, NULL, &err), all[i] == 1 ? CB_QUOTA : CB_OK);
		CHECK_OK(cb_prune(b, NULL, NULL, &err));
		cb_box_close(b);
		CHECK_OK(cb_box_delete(s, "demo", &err));
		CHECK_OK(cb_box_delete(s, "copy", &err));
	}
	test_store_sound(s);
	cb_store_close(s);
}

TEST(newer_format_and_other_files)
{
	cb_error err = {0};
	cb_store *t = NULL;
	CHECK_OK(cb_store_open(":memory:", NULL, &t, &err));
	pack_bytes p = tiny_pack();
	put_le32(p.bytes + 8, PACK_FORMAT + 1);
	put_le64(p.bytes + 16, hash64(p.bytes, 16));
	CHECK_CODE(pack_give(t, &p, NULL, NULL, &err), CB_NEWER);
	pack_bytes text = {(uint8_t *)(uintptr_t) "this is not a pack but a text of some length\n", 45};
	CHECK_CODE(pack_give(t, &text, NULL, NULL, &err), CB_CORRUPT);
	none_there(t);
	cb_store_close(t);
}

TEST(names_that_are_taken_or_bad)
{
	cb_error err = {0};
	cb_store *s = test_store_open(true);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	pack_bytes p = pack_take(b, NULL);
	CHECK_CODE(pack_give(s, &p, NULL, NULL, &err), CB_EXISTS);
	CHECK(strstr(err.message, "already") != NULL);
	CHECK_CODE(pack_give(s, &p, "demo", NULL, &err), CB_EXISTS);
	CHECK_CODE(pack_give(s, &p, "-bad", NULL, &err), CB_INVALID);
	CHECK_OK(pack_give(s, &p, "fine", NULL, &err));
	cb_box *t = must_begin(b);
	CHECK_CODE(cb_pack(t, -1, NULL, NULL, &err), CB_INVALID);
	cb_box_close(t);
	CHECK_CODE(cb_pack(b, -1, NULL, NULL, &err), CB_IO);
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

/* ---- through pipes ---- */

typedef struct piping {
	cb_box *b;
	int fd;
	cb_code code;
} piping;

static void *pack_into_pipe(void *context)
{
	piping *p = context;
	p->code = cb_pack(p->b, p->fd, NULL, NULL, NULL);
	(void)close(p->fd);
	return NULL;
}

/* Both ends in one store, the reader slow and with little room: nobody waits for ever, and what follows the pack is left unread. */
TEST_BOTH(through_a_pipe_in_one_store)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = pack_sample(s);
	int ends[2], slow[2];
	CHECK(pipe2(ends, O_CLOEXEC) == 0 && pipe2(slow, O_CLOEXEC) == 0);
	(void)fcntl(ends[1], F_SETPIPE_SZ, 4096);
	pid_t pid = fork();
	if (pid == 0) { /* hands over a few bytes at a time, then something that is not the pack's */
		char bytes[97];
		(void)close(ends[1]);
		(void)close(slow[0]);
		for (ssize_t n; (n = read(ends[0], bytes, sizeof(bytes))) > 0;) {
			if (write(slow[1], bytes, (size_t)n) != n) _exit(1);
			(void)usleep(50);
		}
		_exit(write(slow[1], "tail", 4) == 4 ? 0 : 1);
	}
	(void)close(ends[0]);
	(void)close(slow[1]);
	piping p = {b, ends[1], CB_OK};
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, pack_into_pipe, &p) == 0);
	CHECK_OK(cb_unpack(s, slow[0], "copy", NULL, NULL, &err));
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK_U64(p.code, CB_OK);
	char tail[8] = {0};
	CHECK(read(slow[0], tail, sizeof(tail)) == 4);
	CHECK_STR(tail, "tail");
	CHECK(waitpid(pid, NULL, 0) == pid);
	(void)close(slow[0]);
	pack_must_equal(s, "demo", s, "copy");
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

/* ---- watched ---- */

static bool stop_at_once(void *context, const cb_progress *progress)
{
	*(uint64_t *)context = progress->bytes;
	return false;
}

TEST(interrupted)
{
	cb_error err = {0};
	cb_store *s = test_store_open(true);
	cb_box *b = pack_sample(s);
	uint64_t bytes = 0;
	cb_pack_options options =
		CB_WITH(cb_pack_options, .watch = &CB_WITH(cb_transfer_watch, .progress = stop_at_once, .context = &bytes));
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	CHECK_CODE(cb_pack(b, fd, &options, NULL, &err), CB_INTERRUPTED);
	(void)close(fd);
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

typedef struct asked {
	unsigned times, stop_at; /* 0: never */
	char path[CB_NAME_MAX + 1];
	cb_progress last;
} asked;

static bool ask(void *context, const cb_progress *progress)
{
	asked *a = context;
	a->last = *progress;
	(void)snprintf(a->path, sizeof(a->path), "%s", progress->path);
	return ++a->times != a->stop_at;
}

static cb_code unpack_asking(cb_store *s, const pack_bytes *p, asked *a)
{
	cb_error err = {0};
	int fd = memfd_create("pack", MFD_CLOEXEC);
	CHECK(fd >= 0 && write(fd, p->bytes, p->size) == (ssize_t)p->size && lseek(fd, 0, SEEK_SET) == 0);
	cb_transfer_watch watch = CB_WITH(cb_transfer_watch, .progress = ask, .context = a);
	cb_code code = cb_unpack(s, fd, "copy", &watch, NULL, &err);
	if (code != CB_OK) CHECK_STR(err.message, "unpacking was interrupted");
	(void)close(fd);
	return code;
}

/* More than one batch, so that there is a moment to say no; after the last it is too late. */
TEST(interrupted_between_batches)
{
	cb_error err = {0};
	enum { FILES = LIMIT_PACK_BATCH_BYTES / (1 << 20) + 1 };
	cb_store *s = test_store_open(true), *t = NULL;
	cb_box *b = NULL;
	CHECK_OK(cb_store_open(":memory:", NULL, &t, &err));
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	static char bytes[1 << 20];
	for (unsigned i = 0; i < FILES; i++) {
		char path[32];
		memset(bytes, 'a' + (int)i, sizeof(bytes));
		(void)snprintf(path, sizeof(path), "/work/f%u", i);
		CHECK_OK(cb_write_file(b, path, bytes, sizeof(bytes), NULL, &err));
	}
	asked whole = {0}, packing = {0}, first = {.stop_at = 1}, last = {.stop_at = 2};
	cb_pack_options options = CB_WITH(cb_pack_options, .no_history = true,
	                                  .watch = &CB_WITH(cb_transfer_watch, .progress = ask, .context = &packing));
	pack_bytes p = pack_take(b, &options);
	cb_box_info info = CB_INIT(cb_box_info);
	CHECK_OK(cb_box_info_get(b, &info, &err));
	CHECK_STR(packing.path, "demo");
	CHECK_U64(packing.last.bytes, (uint64_t)FILES << 20);
	CHECK_U64(packing.last.total_bytes, (uint64_t)FILES << 20);
	CHECK_U64(packing.last.total_files, info.files + 1);
	CHECK_CODE(unpack_asking(t, &p, &first), CB_INTERRUPTED);
	CHECK_U64(first.times, 1);
	none_there(t);
	test_store_sound(t);
	CHECK_CODE(unpack_asking(t, &p, &last), CB_OK);
	CHECK_U64(last.times, 2);
	CHECK_OK(cb_box_delete(t, "copy", &err));
	CHECK_CODE(unpack_asking(t, &p, &whole), CB_OK);
	CHECK_STR(whole.path, "copy");
	CHECK_U64(whole.last.bytes, (uint64_t)FILES << 20);
	CHECK_U64(whole.last.files, info.files + 1);
	test_store_sound(t);
	cb_box_close(b);
	cb_store_close(t);
	cb_store_close(s);
}

/* Beside a gc of another handle, what is being unpacked is not taken for rubbish; what was given up is. */
TEST(gc_while_unpacking)
{
	cb_error err = {0};
	cb_store *s = test_store_open(false), *other = test_store_reopen();
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	static char bytes[1 << 20];
	for (unsigned i = 0; i < 40; i++) {
		char path[32];
		test_rng rng = {i + 1};
		for (size_t k = 0; k < sizeof(bytes); k += 8) put_le64((uint8_t *)bytes + k, test_rand(&rng));
		(void)snprintf(path, sizeof(path), "/work/f%u", i);
		CHECK_OK(cb_write_file(b, path, bytes, sizeof(bytes), NULL, &err));
	}
	pack_bytes p = pack_take(b, NULL);
	cb_box_close(b);
	CHECK_OK(cb_box_delete(s, "demo", &err));
	CHECK_OK(cb_store_gc(s, NULL, &err));
	int ends[2];
	CHECK(pipe2(ends, O_CLOEXEC) == 0);
	pid_t pid = fork();
	if (pid == 0) {
		for (size_t at = 0; at < p.size;) {
			size_t n = p.size - at < 65536 ? p.size - at : 65536;
			if (write(ends[1], p.bytes + at, n) != (ssize_t)n) _exit(1);
			at += n;
			(void)usleep(200);
		}
		_exit(0);
	}
	(void)close(ends[1]);
	pid_t cleaner = fork();
	if (cleaner == 0) {
		for (unsigned i = 0; i < 60; i++) {
			(void)cb_store_gc(other, NULL, NULL);
			(void)usleep(1000);
		}
		_exit(0);
	}
	CHECK_OK(cb_unpack(s, ends[0], NULL, NULL, NULL, &err));
	(void)close(ends[0]);
	CHECK(waitpid(pid, NULL, 0) == pid && waitpid(cleaner, NULL, 0) == cleaner);
	CHECK_OK(cb_store_gc(other, NULL, &err));
	b = must_open(s, "demo");
	CHECK_U64(must_seq(b), 40);
	test_store_sound(s);
	/* a damaged one leaves contents that nobody names: gc takes them */
	cb_gc_result gc = CB_INIT(cb_gc_result);
	p.bytes[p.size - 1] ^= 1;
	CHECK_CODE(pack_give(s, &p, "again", NULL, &err), CB_CORRUPT);
	CHECK_OK(cb_store_gc(s, &gc, &err));
	CHECK(gc.contents_freed >= 10);
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(other);
	cb_store_close(s);
}
