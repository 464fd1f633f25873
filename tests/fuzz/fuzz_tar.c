/*
 * fuzz_tar.c: the input is a tar stream, imported into a box. It is taken whole or refused whole, and what was taken can be exported.
 *
 * A change of one byte breaks the sum of its header and the reader would stop there; so after libFuzzer's own change the sums are made to
 * agree again, most of the time.
 */
#include <cowbox/cowbox.h>

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/attr.h"
#include "box/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t max_size, unsigned seed);
/* libFuzzer's; it is not there when a corpus is replayed. */
size_t LLVMFuzzerMutate(uint8_t *bytes, size_t size, size_t max_size) __attribute__((weak));

/* libFuzzer looks for leaks after each input that leaves something in the store's caches, which costs more than the input: tools/fuzz
 * tells it not to, and leaks are looked for whenever the store was closed. */
int __lsan_do_recoverable_leak_check(void) __attribute__((weak));

enum { BLOCK = 512, SUM_AT = 148, SUM_BYTES = 8, MAGIC_AT = 257 };

static void make_sum_agree(uint8_t *block)
{
	unsigned sum = SUM_BYTES * ' ';
	char text[SUM_BYTES + 1];
	for (size_t i = 0; i < BLOCK; i++)
		if (i < SUM_AT || i >= SUM_AT + SUM_BYTES) sum += block[i];
	(void)snprintf(text, sizeof(text), "%06o%c ", sum, 0);
	memcpy(block + SUM_AT, text, SUM_BYTES);
}

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t max_size, unsigned seed)
{
	size = LLVMFuzzerMutate(bytes, size, max_size);
	for (size_t at = 0; seed % 8 && at + BLOCK <= size; at += BLOCK)
		if (at == 0 || memcmp(bytes + at + MAGIC_AT, "ustar", 5) == 0) make_sum_agree(bytes + at);
	return size;
}

static cb_store *s;
static cb_box *b, *start;
static unsigned rounds;

static void must(cb_code code)
{
	if (code != CB_OK) abort();
}

/* A store grows with every import: now and then it starts anew. */
static void set_up(void)
{
	cb_box_close(start);
	cb_box_close(b);
	cb_store_close(s);
	start = b = NULL;
	s = NULL;
	if (__lsan_do_recoverable_leak_check && __lsan_do_recoverable_leak_check()) abort();
	must(cb_store_open(":memory:", NULL, &s, NULL));
	must(cb_box_create(s, "fuzz", &b, NULL));
	must(cb_box_quota_set(b, 4 << 20, 1000, 0, NULL));
	must(cb_symlink(b, "/home", "/work/out", NULL));
	must(cb_box_open(s, "fuzz@1", &start, NULL));
}

/* Nothing may appear outside of the target. */
static cb_code forbid(void *context, const char *path, const cb_stat_info *info, cb_error *err)
{
	(void)context;
	(void)info;
	(void)err;
	if (strcmp(path, "/home") != 0 && strcmp(path, "/home/agent") != 0) abort();
	return CB_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	if (!b || ++rounds % 1000 == 0) set_up();
	AUTO_FD int in = memfd_create("in", MFD_CLOEXEC);
	AUTO_FD int out = memfd_create("out", MFD_CLOEXEC);
	if (in < 0 || out < 0 || write(in, bytes, size) != (ssize_t)size || lseek(in, 0, SEEK_SET) != 0) return 0;
	cb_box_info before = CB_INIT(cb_box_info), after = CB_INIT(cb_box_info);
	must(cb_box_info_get(b, &before, NULL));
	cb_error err;
	cb_code code = cb_tar_import(b, in, NULL, NULL, &err);
	must(cb_box_info_get(b, &after, NULL));
	if (code != CB_OK && (after.seq != before.seq || err.message[0] == 0)) abort();
	must(cb_walk(b, "/home", forbid, NULL, NULL));
	if (code != CB_OK) return 0;
	must(cb_tar_export(b, "/work", out, NULL, NULL, NULL));
	if (lseek(out, 0, SEEK_SET) != 0) abort();
	must(cb_tar_import(b, out, NULL, NULL, &err));
	must(cb_restore(b, start, NULL, NULL, NULL));
	return 0;
}
