/*
 * pack_stream.c: records in compressed blocks on a descriptor that may be a pipe.
 *
 * The adversary may have written every byte: sizes are checked before they are used, a block is compared with its sum before it is
 * handed to zstd, and unpacks into a buffer of the size it was said to have, so the memory used does not depend on the stream. Nothing
 * behind the last block is read.
 */
#include "transfer/pack.h"

#include <zstd.h>
#include <zstd_errors.h>

#include "base/bytes.h"
#include "base/cancel.h"
#include "base/entry.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/limits.h"

/* What a block may be packed into; the rest is for the header of the stream and the end of a flush. */
#define PACKED_MAX_BYTES (ZSTD_compressBound(LIMIT_PACK_BLOCK_BYTES) + 64)

static const uint8_t magic[8] = {'C', 'O', 'W', 'B', 'P', 'A', 'C', 'K'};

/* ---- whole reads and writes ---- */

/* CB_INTERRUPTED from a descriptor is a signal: the caller says whether that ends it. */
static cb_code go_on(const pack_pause *p, cb_error *err)
{
	bool on = !p->watch || !p->watch->progress || p->watch->progress(p->watch->context, p->progress);
	CB_TRY(entry_stays(p->era, err));
	return on ? CB_OK : cb_err_set(err, CB_INTERRUPTED, "the pack was interrupted");
}

static cb_code write_all(const pack_writer *w, span bytes, cb_error *err)
{
	while (bytes.size) {
		size_t n = 0;
		cb_code code = io_foreign_write(w->fd, bytes.bytes, bytes.size, "for whoever reads the pack", &n, err);
		if (code == CB_INTERRUPTED) code = go_on(&w->pause, err);
		else if (code != CB_OK) code = cb_err_wrap(err, code, "write the pack");
		if (code != CB_OK) return code;
		bytes = span_make(bytes.bytes + n, bytes.size - n);
	}
	return CB_OK;
}

static cb_code read_all(pack_reader *r, uint8_t *to, size_t size, cb_error *err)
{
	while (size) {
		size_t n = 0;
		cb_code code = io_foreign_read(r->fd, to, size, "for more of the pack", &n, err);
		if (code == CB_INTERRUPTED) {
			CB_TRY(go_on(&r->pause, err));
			continue;
		}
		if (code != CB_OK) return cb_err_wrap(err, code, "read the pack");
		if (n == 0)
			return cb_err_set(err, CB_CORRUPT, "the pack ends early, after %llu bytes: make it anew",
			                  (unsigned long long)r->bytes);
		to += n;
		size -= n;
		r->bytes += n;
	}
	return CB_OK;
}

/* ---- sums ---- */

static uint64_t preamble_sum(const uint8_t *preamble)
{
	return hash64(preamble, 16);
}

/* Of a block: what came before it, its sizes, the sum of its raw bytes (all in the header) and its packed bytes. */
static uint64_t block_sum(uint64_t before, const uint8_t *header, span packed)
{
	uint8_t all[32];
	put_le64(all, before);
	memcpy(all + 8, header, 16);
	put_le64(all + 24, hash64(packed.bytes, packed.size));
	return hash64(all, sizeof(all));
}

/* ---- writing ---- */

cb_code pack_writer_init(pack_writer *w, int fd, uint32_t format, pack_pause pause, cb_error *err)
{
	*w = (pack_writer){.fd = fd, .pause = pause, .raw = BUF_INIT(LIMIT_PACK_BLOCK_BYTES)};
	w->packed = BUF_INIT(PACK_BLOCK_HEADER_BYTES + PACKED_MAX_BYTES);
	w->zstd = ZSTD_createCCtx();
	if (!w->zstd) return cb_err_nomem(err);
	(void)ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_compressionLevel, PACK_LEVEL);
	(void)ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_windowLog, PACK_WINDOW_LOG);
	CB_TRY(buf_reserve(&w->raw, LIMIT_PACK_BLOCK_BYTES, err));
	CB_TRY(buf_reserve(&w->packed, w->packed.max_size, err));
	uint8_t preamble[PACK_PREAMBLE_BYTES] = {0};
	memcpy(preamble, magic, sizeof(magic));
	put_le32(preamble + 8, format);
	w->sum = preamble_sum(preamble);
	put_le64(preamble + 16, w->sum);
	CB_TRY(write_all(w, span_make(preamble, sizeof(preamble)), err));
	w->bytes = sizeof(preamble);
	return CB_OK;
}

void pack_writer_done(pack_writer *w)
{
	(void)ZSTD_freeCCtx(w->zstd);
	buf_done(&w->raw);
	buf_done(&w->packed);
	*w = (pack_writer){.fd = -1};
}

cb_code pack_flush(pack_writer *w, cb_error *err)
{
	if (w->raw.size == 0) return CB_OK;
	uint8_t *block;
	w->packed.size = 0;
	CB_TRY(buf_extend(&w->packed, w->packed.max_size, &block, err));
	size_t room = w->packed.max_size - PACK_BLOCK_HEADER_BYTES;
	ZSTD_inBuffer in = {w->raw.bytes, w->raw.size, 0};
	ZSTD_outBuffer out = {block + PACK_BLOCK_HEADER_BYTES, room, 0};
	size_t left = ZSTD_compressStream2(w->zstd, &out, &in, ZSTD_e_flush), size = out.pos;
	if (ZSTD_getErrorCode(left) == ZSTD_error_memory_allocation) return cb_err_nomem(err);
	if (ZSTD_isError(left)) return cb_err_set(err, CB_INTERNAL, "compressing a pack: %s", ZSTD_getErrorName(left));
	if (left || in.pos != in.size) return cb_err_set(err, CB_INTERNAL, "compressing a pack: a block is larger than it can be");
	put_le32(block, (uint32_t)size);
	put_le32(block + 4, (uint32_t)w->raw.size);
	put_le64(block + 8, hash64(w->raw.bytes, w->raw.size));
	w->sum = block_sum(w->sum, block, span_make(block + PACK_BLOCK_HEADER_BYTES, size));
	put_le64(block + 16, w->sum);
	CB_TRY(write_all(w, span_make(block, PACK_BLOCK_HEADER_BYTES + size), err));
	w->bytes += PACK_BLOCK_HEADER_BYTES + size;
	w->raw.size = 0;
	return CB_OK;
}

static cb_code put_bytes(pack_writer *w, span bytes, cb_error *err)
{
	while (bytes.size) {
		size_t room = LIMIT_PACK_BLOCK_BYTES - w->raw.size, n = bytes.size < room ? bytes.size : room;
		CB_TRY(buf_append(&w->raw, bytes.bytes, n, err));
		bytes = span_make(bytes.bytes + n, bytes.size - n);
		if (w->raw.size == LIMIT_PACK_BLOCK_BYTES) CB_TRY(pack_flush(w, err));
	}
	return CB_OK;
}

cb_code pack_record(pack_writer *w, pack_type type, span head, span body, cb_error *err)
{
	if (head.size > LIMIT_PACK_RECORD_BYTES || body.size > LIMIT_PACK_RECORD_BYTES - head.size)
		return cb_err_set(err, CB_LIMIT, "a record of a pack has at most %d bytes", LIMIT_PACK_RECORD_BYTES);
	uint8_t header[PACK_RECORD_HEADER_BYTES] = {(uint8_t)type};
	put_le32(header + 1, (uint32_t)(head.size + body.size));
	CB_TRY(put_bytes(w, span_make(header, sizeof(header)), err));
	CB_TRY(put_bytes(w, head, err));
	CB_TRY(put_bytes(w, body, err));
	return CB_OK;
}

/* ---- reading ---- */

cb_code pack_reader_init(pack_reader *r, int fd, pack_pause pause, cb_error *err)
{
	*r = (pack_reader){.fd = fd, .pause = pause, .raw = BUF_INIT(LIMIT_PACK_BLOCK_BYTES)};
	r->packed = BUF_INIT(PACKED_MAX_BYTES);
	uint8_t preamble[PACK_PREAMBLE_BYTES];
	cb_code code = read_all(r, preamble, sizeof(magic), err);
	/* Also of what ended before the magic did. */
	if ((code == CB_OK || code == CB_CORRUPT) && memcmp(preamble, magic, (size_t)r->bytes) != 0)
		return cb_err_set(err, CB_CORRUPT, "this is not a pack of cowbox");
	if (code != CB_OK) return code;
	CB_TRY(read_all(r, preamble + sizeof(magic), sizeof(preamble) - sizeof(magic), err));
	r->sum = preamble_sum(preamble);
	if (get_le64(preamble + 16) != r->sum) return cb_err_set(err, CB_CORRUPT, "the pack is damaged at its beginning");
	r->format = get_le32(preamble + 8);
	if (r->format > PACK_FORMAT)
		return cb_err_set(err, CB_NEWER, "the pack has format %u, this cowbox reads up to %d: use a newer one", r->format,
		                  PACK_FORMAT);
	if (r->format < PACK_FORMAT_FIRST || get_le32(preamble + 12) != 0)
		return cb_err_set(err, CB_CORRUPT, "the pack is damaged at its beginning");
	r->zstd = ZSTD_createDCtx();
	if (!r->zstd) return cb_err_nomem(err);
	(void)ZSTD_DCtx_setParameter(r->zstd, ZSTD_d_windowLogMax, PACK_WINDOW_LOG);
	return CB_OK;
}

void pack_reader_done(pack_reader *r)
{
	(void)ZSTD_freeDCtx(r->zstd);
	buf_done(&r->raw);
	buf_done(&r->packed);
	*r = (pack_reader){.fd = -1};
}

bool pack_at_block_end(const pack_reader *r)
{
	return r->at == r->raw.size;
}

static cb_code damaged(const pack_reader *r, cb_error *err)
{
	return cb_err_set(err, CB_CORRUPT, "the pack is damaged before byte %llu", (unsigned long long)r->bytes);
}

/* One part of the stream, which must give exactly so many bytes. More, kept back by zstd, would come with the next block, whose sum is then
 * wrong. */
static cb_code unpack_block(pack_reader *r, span packed, uint8_t *raw, size_t raw_size, cb_error *err)
{
	ZSTD_inBuffer in = {packed.bytes, packed.size, 0};
	ZSTD_outBuffer out = {raw, raw_size, 0};
	while (in.pos < in.size || out.pos < out.size) {
		size_t in_before = in.pos, out_before = out.pos;
		size_t left = ZSTD_decompressStream(r->zstd, &out, &in);
		if (ZSTD_getErrorCode(left) == ZSTD_error_memory_allocation) return cb_err_nomem(err);
		if (ZSTD_isError(left) || (in.pos == in_before && out.pos == out_before)) return damaged(r, err);
	}
	return CB_OK;
}

static cb_code next_block(pack_reader *r, cb_error *err)
{
	uint8_t header[PACK_BLOCK_HEADER_BYTES];
	r->at = r->raw.size = 0;
	CB_TRY(read_all(r, header, sizeof(header), err));
	uint32_t size = get_le32(header), raw_size = get_le32(header + 4);
	if (size == 0 || size > r->packed.max_size || raw_size == 0 || raw_size > LIMIT_PACK_BLOCK_BYTES) return damaged(r, err);
	r->packed.size = 0;
	uint8_t *packed, *raw;
	CB_TRY(buf_extend(&r->packed, size, &packed, err));
	CB_TRY(read_all(r, packed, size, err));
	r->sum = block_sum(r->sum, header, span_make(packed, size));
	if (get_le64(header + 16) != r->sum) return damaged(r, err);
	CB_TRY(buf_extend(&r->raw, raw_size, &raw, err));
	CB_TRY(unpack_block(r, span_make(packed, size), raw, raw_size, err));
	return hash64(raw, raw_size) == get_le64(header + 8) ? CB_OK : damaged(r, err);
}

static cb_code take_bytes(pack_reader *r, uint8_t *to, size_t size, cb_error *err)
{
	while (size) {
		if (pack_at_block_end(r)) CB_TRY(next_block(r, err));
		size_t left = r->raw.size - r->at, n = size < left ? size : left;
		memcpy(to, r->raw.bytes + r->at, n);
		r->at += n;
		to += n;
		size -= n;
	}
	return CB_OK;
}

cb_code pack_next(pack_reader *r, buf *out, cb_error *err)
{
	uint8_t header[PACK_RECORD_HEADER_BYTES], *to;
	CB_TRY(take_bytes(r, header, sizeof(header), err));
	uint32_t size = get_le32(header + 1);
	if (size > LIMIT_PACK_RECORD_BYTES) return damaged(r, err);
	CB_TRY(buf_extend(out, sizeof(header) + size, &to, err));
	memcpy(to, header, sizeof(header));
	CB_TRY(take_bytes(r, to + sizeof(header), size, err));
	return CB_OK;
}
