/*
 * fuzz_pack.c: packs from hostile bytes: refused, or a box that fsck finds sound.
 *
 * The first byte chooses. 0: the rest is a pack as it would come from a file. Otherwise it is a string of records (type, size, bytes),
 * which is put into a block with sums that agree, and an end record that counts them is added: so the lies are about what is inside. The
 * block is a zstd frame of parts that are not compressed: to make a compressor takes longer than to read most inputs.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "transfer/pack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* libFuzzer looks for leaks after each input that leaves something in the store's caches, which costs more than the input: tools/fuzz
 * tells it not to, and leaks are looked for whenever the store was closed. */
int __lsan_do_recoverable_leak_check(void) __attribute__((weak));

enum { RAW_MAX = 64 << 10, PART_MAX = 16 << 10, END_BYTES = 32 };

/* The records, their sizes cut to what is there, and an end record. */
static size_t gather_records(span bytes, uint8_t *out)
{
	size_t at = 0;
	uint64_t records = 0, steps = 0, contents = 0, checkpoints = 0;
	while (bytes.size >= PACK_RECORD_HEADER_BYTES) {
		size_t size = get_le32(bytes.bytes + 1), room = bytes.size - PACK_RECORD_HEADER_BYTES;
		uint8_t type = bytes.bytes[0];
		if (size > room) size = room;
		out[at] = type;
		put_le32(out + at + 1, (uint32_t)size);
		memcpy(out + at + PACK_RECORD_HEADER_BYTES, bytes.bytes + PACK_RECORD_HEADER_BYTES, size);
		at += PACK_RECORD_HEADER_BYTES + size;
		records++;
		steps += type == PACK_STEP;
		contents += type == PACK_CONTENT;
		checkpoints += type == PACK_CHECKPOINT || type == PACK_AUTOMATIC;
		bytes = span_make(bytes.bytes + PACK_RECORD_HEADER_BYTES + size, room - size);
	}
	out[at] = PACK_END;
	put_le32(out + at + 1, END_BYTES);
	at += PACK_RECORD_HEADER_BYTES;
	put_le64(out + at, records);
	put_le64(out + at + 8, steps);
	put_le64(out + at + 16, contents);
	put_le64(out + at + 24, checkpoints);
	return at + END_BYTES;
}

/* A frame with a window of PART_MAX bytes that has not ended, as in a pack. */
static size_t frame(span raw, uint8_t *out)
{
	static const uint8_t start[] = {0x28, 0xb5, 0x2f, 0xfd, 0, 4 << 3};
	size_t at = sizeof(start);
	memcpy(out, start, sizeof(start));
	for (size_t from = 0; from < raw.size;) {
		size_t n = raw.size - from < PART_MAX ? raw.size - from : PART_MAX;
		uint32_t header = (uint32_t)n << 3;
		for (int i = 0; i < 3; i++) out[at++] = (uint8_t)(header >> (8 * i));
		memcpy(out + at, raw.bytes + from, n);
		at += n;
		from += n;
	}
	return at;
}

static void write_records(int fd, span bytes)
{
	static uint8_t raw[RAW_MAX + 256], pack[RAW_MAX + 512];
	uint8_t *block = pack + PACK_PREAMBLE_BYTES, *packed = block + PACK_BLOCK_HEADER_BYTES, all[32];
	size_t raw_size = gather_records(bytes, raw), size = frame(span_make(raw, raw_size), packed);
	memset(pack, 0, PACK_PREAMBLE_BYTES);
	memcpy(pack, "COWBPACK", 8);
	put_le32(pack + 8, PACK_FORMAT);
	put_le64(pack + 16, hash64(pack, 16));
	put_le32(block, (uint32_t)size);
	put_le32(block + 4, (uint32_t)raw_size);
	put_le64(block + 8, hash64(raw, raw_size));
	memcpy(all, pack + 16, 8);
	memcpy(all + 8, block, 16);
	put_le64(all + 24, hash64(packed, size));
	put_le64(block + 16, hash64(all, sizeof(all)));
	size += PACK_PREAMBLE_BYTES + PACK_BLOCK_HEADER_BYTES;
	if (write(fd, pack, size) != (ssize_t)size) abort();
}

static cb_code count_box(void *context, const cb_box_info *info, cb_error *err)
{
	(void)info;
	(void)err;
	++*(unsigned *)context;
	return CB_OK;
}

/* One store serves many inputs: to open it takes longer than most of them. */
static cb_store *store_of(void)
{
	static cb_store *s;
	static unsigned used;
	if (s && ++used % 200 == 0) {
		cb_store_close(s);
		s = NULL;
		if (__lsan_do_recoverable_leak_check && __lsan_do_recoverable_leak_check()) abort();
	}
	if (!s && cb_store_open(":memory:", NULL, &s, NULL) != CB_OK) abort();
	return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1 || size > RAW_MAX) return 0;
	cb_store *s = store_of();
	int fd = memfd_create("pack", MFD_CLOEXEC);
	if (fd < 0) abort();
	if (data[0]) write_records(fd, span_make(data + 1, size - 1));
	else if (write(fd, data + 1, size - 1) != (ssize_t)(size - 1)) abort();
	(void)lseek(fd, 0, SEEK_SET);
	cb_code code = cb_unpack(s, fd, "demo", NULL, NULL, NULL);
	(void)close(fd);
	unsigned boxes = 0;
	uint64_t complaints = 0;
	if (cb_box_list(s, count_box, &boxes, NULL) != CB_OK) abort();
	assert(boxes == (code == CB_OK));
	if (code != CB_OK) return 0;
	if (cb_store_check(s, NULL, NULL, &complaints, NULL) != CB_OK) abort();
	assert(complaints == 0);
	if (cb_box_delete(s, "demo", NULL) != CB_OK || cb_store_gc(s, NULL, NULL) != CB_OK) abort();
	return 0;
}
