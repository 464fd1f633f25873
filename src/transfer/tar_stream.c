/*
 * tar_stream.c: the bytes of a tar stream, undone from zstd when they begin with its magic.
 *
 * Adversary: a small frame that asks for a huge window. The window is bounded, so that memory is too; how much comes out of a stream is
 * for the box's quota to judge.
 */
#include "transfer/tar.h"

#include <zstd.h>
#include <zstd_errors.h>

#include "base/io.h"

enum { RAW_BYTES = 256 << 10 };

typedef struct magic {
	const char *bytes;
	size_t size;
	const char *tool;
	const char *ending;
} magic;

/* Compressions that are told apart to be refused by name. */
static const magic refused[] = {
	{"\x1f\x8b", 2, "gzip", "gz"},
	{"BZh", 3, "bzip2", "bz2"},
	{"\xfd"
         "7zXZ",
         5, "xz", "xz"},
	{"\x04\x22\x4d\x18", 4, "lz4", "lz4"},
};

/* More raw bytes behind those that are there. */
static cb_code fill(tar_stream *s, cb_error *err)
{
	if (s->raw_at == s->raw_size) s->raw_at = s->raw_size = 0;
	size_t n = 0;
	cb_code code = CB_INTERRUPTED;
	while (code == CB_INTERRUPTED)
		code = io_foreign_read(s->fd, s->raw + s->raw_size, RAW_BYTES - s->raw_size, "for more of the tar stream", &n, err);
	if (code != CB_OK) return cb_err_wrap(err, code, "reading the tar stream");
	s->raw_size += n;
	s->ended = n == 0;
	return CB_OK;
}

static bool starts(const tar_stream *s, const char *bytes, size_t size)
{
	return s->raw_size >= size && memcmp(s->raw, bytes, size) == 0;
}

static cb_code zstd_begin(tar_stream *s, cb_error *err)
{
	s->zstd = ZSTD_createDStream();
	if (!s->zstd) return cb_err_nomem(err);
	if (ZSTD_isError(ZSTD_DCtx_setParameter(s->zstd, ZSTD_d_windowLogMax, LIMIT_ZSTD_WINDOW_LOG)))
		return cb_err_set(err, CB_INTERNAL, "zstd refuses a window of 2^%d bytes", LIMIT_ZSTD_WINDOW_LOG);
	return CB_OK;
}

cb_code tar_stream_init(tar_stream *s, int fd, cb_error *err)
{
	*s = (tar_stream){.fd = fd, .raw = mem_alloc(RAW_BYTES)};
	if (!s->raw) return cb_err_nomem(err);
	while (s->raw_size < 8 && !s->ended) CB_TRY(fill(s, err));
	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		if (!starts(s, refused[i].bytes, refused[i].size)) continue;
		return cb_err_set(err, CB_UNSUPPORTED,
		                  "the stream is compressed with %s: undo that first, as in `%s -dc x.tar.%s | cowbox import - …`",
		                  refused[i].tool, refused[i].tool, refused[i].ending);
	}
	/* A frame, or one of the sixteen kinds of frames to skip that may come before it. */
	bool skippable = s->raw_size >= 4 && (s->raw[0] & 0xf0) == 0x50 && memcmp(s->raw + 1, "\x2a\x4d\x18", 3) == 0;
	return skippable || starts(s, "\x28\xb5\x2f\xfd", 4) ? zstd_begin(s, err) : CB_OK;
}

void tar_stream_done(tar_stream *s)
{
	(void)ZSTD_freeDStream(s->zstd);
	free(s->raw);
	*s = (tar_stream){.fd = -1};
}

static cb_code read_plain(tar_stream *s, uint8_t *to, size_t size, size_t *out_size, cb_error *err)
{
	size_t done = 0;
	while (done < size) {
		if (s->raw_at == s->raw_size && !s->ended) CB_TRY(fill(s, err));
		size_t n = s->raw_size - s->raw_at;
		if (n == 0 && s->ended) break;
		if (n > size - done) n = size - done;
		memcpy(to + done, s->raw + s->raw_at, n);
		s->raw_at += n;
		done += n;
	}
	*out_size = done;
	return CB_OK;
}

static cb_code read_zstd(tar_stream *s, uint8_t *to, size_t size, size_t *out_size, cb_error *err)
{
	ZSTD_outBuffer out = {to, size, 0};
	while (out.pos < size) {
		if (s->raw_at == s->raw_size && !s->ended) CB_TRY(fill(s, err));
		ZSTD_inBuffer in = {s->raw, s->raw_size, s->raw_at};
		size_t before = out.pos;
		if (s->raw_at == s->raw_size && s->ended && !s->frame_open) break;
		size_t hint = ZSTD_decompressStream(s->zstd, &out, &in);
		if (ZSTD_getErrorCode(hint) == ZSTD_error_memory_allocation) return cb_err_nomem(err);
		if (ZSTD_isError(hint))
			return cb_err_set(err, CB_CORRUPT, "the zstd stream is damaged: %s", ZSTD_getErrorName(hint));
		bool moved = in.pos > s->raw_at || out.pos > before;
		s->raw_at = in.pos;
		s->frame_open = hint != 0;
		if (!moved && s->ended && s->frame_open) return cb_err_set(err, CB_CORRUPT, "the zstd stream ends early");
	}
	*out_size = out.pos;
	return CB_OK;
}

cb_code tar_stream_read(tar_stream *s, void *to, size_t size, size_t *out_size, cb_error *err)
{
	return s->zstd ? read_zstd(s, to, size, out_size, err) : read_plain(s, to, size, out_size, err);
}
