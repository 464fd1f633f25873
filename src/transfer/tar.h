/*
 * tar.h: the parts of reading and writing tar streams: bytes from a descriptor, members from bytes, and the layout of a header.
 *
 * Adversary: whoever made the stream. Every number is bounded before it is used, every record has a maximum, and a member says nothing
 * about places: names are judged by tar_read.c.
 */
#ifndef TRANSFER_TAR_H
#define TRANSFER_TAR_H

#include "base/buf.h"
#include "base/limits.h"
#include "transfer/ignore.h"

enum { TAR_BLOCK = 512, TAR_RECORD = 20 * TAR_BLOCK };

/* Offsets and sizes of the fields of a header (POSIX ustar, and where GNU differs). */
enum {
	TAR_NAME = 0,
	TAR_NAME_SIZE = 100,
	TAR_MODE = 100,
	TAR_UID = 108,
	TAR_GID = 116,
	TAR_ID_SIZE = 8,
	TAR_SIZE = 124,
	TAR_MTIME = 136,
	TAR_NUMBER_SIZE = 12,
	TAR_CHECKSUM = 148,
	TAR_TYPE = 156,
	TAR_LINK = 157,
	TAR_MAGIC = 257,
	TAR_DEVICES = 329,
	TAR_PREFIX = 345,
	TAR_PREFIX_SIZE = 155,
	TAR_GNU_SPARSE = 386, /* four regions in the header of an 'S' member */
	TAR_GNU_EXTENDED = 482,
	TAR_GNU_REAL_SIZE = 483,
	TAR_GNU_MORE_REGIONS = 21, /* in each block that follows */
	TAR_GNU_MORE_EXTENDED = 504,
};

/* ---- bytes ---- */

/* A descriptor read through a buffer, and through zstd when the stream begins with its magic. */
typedef struct tar_stream {
	int fd;
	void *zstd; /* ZSTD_DStream; NULL: plain */
	uint8_t *raw;
	size_t raw_at, raw_size;
	bool ended;      /* the descriptor has no more */
	bool frame_open; /* zstd: inside a frame */
} tar_stream;
/* CB_UNSUPPORTED names other compressions and what to do. tar_stream_done() it, also after a failure. */
cb_code tar_stream_init(tar_stream *s, int fd, cb_error *err);
void tar_stream_done(tar_stream *s);
/* *out_size is less than size only at the end of the stream. */
cb_code tar_stream_read(tar_stream *s, void *to, size_t size, size_t *out_size, cb_error *err);

/* ---- extended records ---- */

/* A part of a sparse file that is data. */
typedef struct tar_region {
	uint64_t offset, size;
} tar_region;

/* What 'x' and 'g' headers and GNU's 'L' and 'K' say of a member. */
typedef struct tar_extra {
	char *path, *link, *sparse_name; /* NULL: not said */
	bool has_size, has_mtime, has_real_size;
	uint64_t size, real_size;
	int64_t mtime_ns;
	bool sparse;           /* some GNU.sparse record was there */
	uint64_t sparse_major; /* 1: the map is before the data */
	bool region_open;      /* 0.0: an offset waits for its size */
	buf regions;           /* tar_region */
	buf xattrs;            /* varint name size, varint value size, name, value */
	bool other_attrs;      /* attributes that no file brings along were there */
	bool large_attrs;      /* attributes that no box holds were there */
} tar_extra;
void tar_extra_init(tar_extra *x);
void tar_extra_done(tar_extra *x);
/* The records of a pax header. */
cb_code tar_extra_parse(tar_extra *x, span records, cb_error *err);
/* "1350244992.023960108", also negative, as nanoseconds; outside of what a box can hold: its first or last moment. */
bool tar_time_parse(span text, int64_t *out);
bool tar_decimal_parse(span text, uint64_t *out);

/* ---- members ---- */

typedef struct tar_member {
	char type;  /* '0' file, '1' hard link, '2' symbolic link, '3' '4' '6' special, '5' folder */
	char *name; /* as in the archive, owned */
	char *link; /* target of '1' and '2', owned; else NULL */
	uint32_t mode;
	int64_t mtime_ns;
	uint64_t size;   /* of the file, holes included */
	uint64_t stored; /* bytes of data in the stream */
	bool sparse;
	bool odd_type; /* an unknown type, taken as a file */
	tar_extra extra;
} tar_member;

typedef struct tar_reader {
	tar_stream stream;
	uint64_t data_left;    /* of the current member */
	uint64_t padding_left; /* after it */
	bool has_global_mtime;
	int64_t global_mtime_ns;
} tar_reader;

/* The next member; tar_member_done() it. *found false after the end mark. Skips what was not read of the one before. */
cb_code tar_next(tar_reader *r, tar_member *out, bool *found, cb_error *err);
void tar_member_done(tar_member *m);
/* Exactly size bytes of the member's data; CB_CORRUPT when the stream ends. */
cb_code tar_data(tar_reader *r, void *to, size_t size, cb_error *err);

/* Do the patterns (NULL: none) leave out this path, or a folder above it? Relative, without a leading '/'. */
bool tar_is_excluded(const ignore *g, const char *relative, bool is_dir);

/* A number of a header: octal, or base 256. */
bool tar_number_parse(const uint8_t *field, size_t size, int64_t *out);

#endif
