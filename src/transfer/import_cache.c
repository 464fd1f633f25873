/*
 * import_cache.c: the file behind import_cache.h.
 *
 * A header, then blocks of entries, each with a sum that also covers its place in this very file. Whatever is wrong ends the reading: files
 * after it are read from the host. Adversary: none but time and half-written files; whoever can write here can write the store.
 */
#include "transfer/import_cache.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/io.h"

enum {
	BLOCK_BYTES = 64 << 10,
	ENTRY_MAX_BYTES = 128 + LIMIT_HOST_PATH_BYTES, /* a block may be longer by one entry */
	HEADER_FIXED = 40,                             /* magic, box, version, nonce, size of the names */
	BLOCK_HEAD = 12,                               /* size, sum */
	NAMES_MAX = 4 * LIMIT_PATH_BYTES,
};

static const char magic[8] = {'C', 'B', 'I', 'M', 'P', 'C', '1', '\n'};

#define FINE_NS 20000000     /* the kernel's clock for files ticks at most so coarsely */
#define COARSE_NS 2000000000 /* filesystems that keep seconds, or two */

bool cache_entry_rests(const host_stat *stat, int64_t looked_ns)
{
	int64_t newest = stat->ctime_ns > stat->mtime_ns ? stat->ctime_ns : stat->mtime_ns;
	int64_t tick = stat->ctime_ns % 1000000000 ? FINE_NS : COARSE_NS;
	return newest < looked_ns - tick;
}

/* The names as they stand in the header: both with their NUL. */
static cb_code key_names(const cache_key *key, buf *out, cb_error *err)
{
	CB_TRY(buf_append(out, key->host_path, strlen(key->host_path) + 1, err));
	return buf_append(out, key->to, strlen(key->to) + 1, err);
}

static uint64_t block_sum(uint64_t nonce, uint64_t index, span bytes)
{
	return hash64(bytes.bytes, bytes.size) + hash_u64(nonce + index);
}

/* The order of a walk: '/' before everything else. */
static int path_compare(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	uint8_t x = (uint8_t)*a, y = (uint8_t)*b;
	unsigned left = x == 0 ? 0 : x == '/' ? 1 : x + 2u, right = y == 0 ? 0 : y == '/' ? 1 : y + 2u;
	return left < right ? -1 : left > right;
}

/* ---- reading ---- */

struct cache_reader {
	int fd;
	uint64_t offset;
	uint64_t nonce, version, index;
	buf block;
	reader at;
	buf path; /* of the entry that was read last */
	cache_entry entry;
	bool ended, has;
};

static bool header_read(cache_reader *r, const cache_key *key, span names)
{
	uint8_t head[HEADER_FIXED + NAMES_MAX + 8];
	size_t size = HEADER_FIXED + names.size + 8, got = 0;
	if (names.size > NAMES_MAX || io_pread_all(r->fd, head, size, 0, &got, NULL) != CB_OK || got != size) return false;
	if (memcmp(head, magic, 8) != 0 || get_le64(head + 8) != key->box || get_le64(head + 32) != names.size) return false;
	if (memcmp(head + HEADER_FIXED, names.bytes, names.size) != 0) return false;
	if (get_le64(head + size - 8) != hash64(head, size - 8)) return false;
	r->version = get_le64(head + 16);
	r->nonce = get_le64(head + 24);
	r->offset = size;
	return true;
}

cache_reader *cache_reader_open(const cache_key *key)
{
	if (!key->store) return NULL;
	AUTO_BUF buf names = BUF_INIT(NAMES_MAX);
	if (key_names(key, &names, NULL) != CB_OK) return NULL;
	AUTO_FD int folder = box_side_open(key->store, BOX_SIDE_IMPORT, false);
	if (folder < 0) return NULL;
	char name[64];
	box_side_name(key->box, hash64(names.bytes, names.size), name);
	AUTO_FD int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0) return NULL;
	cache_reader *r = mem_alloc(sizeof(*r));
	if (!r) return NULL;
	*r = (cache_reader){
		.fd = TAKE_FD(fd), .block = BUF_INIT(BLOCK_BYTES + ENTRY_MAX_BYTES), .path = BUF_INIT(LIMIT_HOST_PATH_BYTES)};
	if (header_read(r, key, buf_span(&names))) return r;
	cache_reader_close(r);
	return NULL;
}

void cache_reader_close(cache_reader *r)
{
	if (!r) return;
	(void)close(r->fd);
	buf_done(&r->block);
	buf_done(&r->path);
	free(r);
}

static bool block_read(cache_reader *r)
{
	uint8_t head[BLOCK_HEAD];
	size_t got = 0;
	if (io_pread_all(r->fd, head, sizeof(head), r->offset, &got, NULL) != CB_OK || got != sizeof(head)) return false;
	uint32_t size = get_le32(head);
	uint8_t *bytes;
	buf_clear(&r->block);
	if (size == 0 || buf_extend(&r->block, size, &bytes, NULL) != CB_OK) return false;
	if (io_pread_all(r->fd, bytes, size, r->offset + BLOCK_HEAD, &got, NULL) != CB_OK || got != size) return false;
	if (get_le64(head + 4) != block_sum(r->nonce, r->index, buf_span(&r->block))) return false;
	r->offset += BLOCK_HEAD + size;
	r->index++;
	r->at = reader_make(buf_span(&r->block));
	buf_clear(&r->path);
	return true;
}

static bool path_read(cache_reader *r)
{
	uint64_t shared = reader_varint(&r->at), size = reader_varint(&r->at);
	if (r->at.bad || shared > r->path.size || size > LIMIT_HOST_PATH_BYTES) return false;
	span rest = reader_span(&r->at, (size_t)size);
	r->path.size = (size_t)shared;
	if (r->at.bad || buf_append(&r->path, rest.bytes, rest.size, NULL) != CB_OK) return false;
	if (buf_append_byte(&r->path, 0, NULL) != CB_OK) return false;
	r->path.size--;
	return true;
}

/* The next entry into r->entry and r->path. */
static bool entry_read(cache_reader *r)
{
	if ((!r->block.size || reader_at_end(&r->at)) && !block_read(r)) return false;
	if (!path_read(r)) return false;
	cache_entry *e = &r->entry;
	e->size = reader_varint(&r->at);
	e->dev = reader_varint(&r->at);
	e->ino = reader_varint(&r->at);
	e->mtime_ns = (int64_t)reader_le64(&r->at);
	e->ctime_ns = (int64_t)reader_le64(&r->at);
	e->box_ino = reader_varint(&r->at);
	e->box_version = reader_varint(&r->at);
	if (e->box_version == 0) e->box_version = r->version;
	return !r->at.bad;
}

bool cache_reader_find(cache_reader *r, const char *path, cache_entry *out)
{
	while (r && !r->ended) {
		if (!r->has) r->ended = !entry_read(r);
		if (r->ended) return false;
		r->has = true;
		int order = path_compare((const char *)r->path.bytes, path);
		if (order > 0) return false;
		r->has = false;
		if (order < 0) continue;
		*out = r->entry;
		return true;
	}
	return false;
}

/* ---- writing ---- */

struct cache_writer {
	int folder;
	host_writer file;
	char name[64];
	uint64_t box, nonce, index, offset;
	buf names, block;
	buf path; /* of the entry added last */
	bool failed;
};

cache_writer *cache_writer_open(const cache_key *key)
{
	if (!key->store) return NULL;
	cache_writer *w = mem_alloc(sizeof(*w));
	if (!w) return NULL;
	*w = (cache_writer){.folder = box_side_open(key->store, BOX_SIDE_IMPORT, true),
	                    .file = HOST_WRITER_NONE,
	                    .box = key->box,
	                    .names = BUF_INIT(NAMES_MAX),
	                    .block = BUF_INIT(BLOCK_BYTES + ENTRY_MAX_BYTES),
	                    .path = BUF_INIT(LIMIT_HOST_PATH_BYTES)};
	bool ready = w->folder >= 0 && key_names(key, &w->names, NULL) == CB_OK &&
	             getrandom(&w->nonce, sizeof(w->nonce), 0) == sizeof(w->nonce);
	if (ready) temporary_sweep(w->folder);
	ready = ready && host_writer_begin(&w->file, w->folder, NULL) == CB_OK;
	if (!ready) {
		cache_writer_abort(w);
		return NULL;
	}
	box_side_name(key->box, hash64(w->names.bytes, w->names.size), w->name);
	w->offset = HEADER_FIXED + w->names.size + 8;
	return w;
}

static cb_code block_write(cache_writer *w, cb_error *err)
{
	if (!w->block.size) return CB_OK;
	uint8_t head[BLOCK_HEAD];
	put_le32(head, (uint32_t)w->block.size);
	put_le64(head + 4, block_sum(w->nonce, w->index, buf_span(&w->block)));
	CB_TRY(io_pwrite_all(w->file.fd, head, sizeof(head), w->offset, err));
	CB_TRY(io_pwrite_all(w->file.fd, w->block.bytes, w->block.size, w->offset + BLOCK_HEAD, err));
	w->offset += BLOCK_HEAD + w->block.size;
	w->index++;
	buf_clear(&w->block);
	buf_clear(&w->path);
	return CB_OK;
}

static cb_code entry_write(cache_writer *w, const char *path, const cache_entry *e, cb_error *err)
{
	size_t size = strlen(path), shared = 0;
	while (shared < size && shared < w->path.size && w->path.bytes[shared] == (uint8_t)path[shared]) shared++;
	CB_TRY(buf_append_varint(&w->block, shared, err));
	CB_TRY(buf_append_varint(&w->block, size - shared, err));
	CB_TRY(buf_append(&w->block, path + shared, size - shared, err));
	CB_TRY(buf_append_varint(&w->block, e->size, err));
	CB_TRY(buf_append_varint(&w->block, e->dev, err));
	CB_TRY(buf_append_varint(&w->block, e->ino, err));
	uint8_t times[16];
	put_le64(times, (uint64_t)e->mtime_ns);
	put_le64(times + 8, (uint64_t)e->ctime_ns);
	CB_TRY(buf_append(&w->block, times, sizeof(times), err));
	CB_TRY(buf_append_varint(&w->block, e->box_ino, err));
	CB_TRY(buf_append_varint(&w->block, e->box_version, err));
	w->path.size = shared;
	CB_TRY(buf_append(&w->path, path + shared, size - shared, err));
	return w->block.size >= BLOCK_BYTES ? block_write(w, err) : CB_OK;
}

void cache_writer_add(cache_writer *w, const char *path, const cache_entry *entry)
{
	if (!w || w->failed) return;
	w->failed = entry_write(w, path, entry, NULL) != CB_OK;
}

static cb_code header_write(cache_writer *w, uint64_t version, cb_error *err)
{
	AUTO_BUF buf head = BUF_INIT(HEADER_FIXED + NAMES_MAX + 8);
	uint8_t *p;
	CB_TRY(buf_extend(&head, HEADER_FIXED, &p, err));
	memcpy(p, magic, 8);
	put_le64(p + 8, w->box);
	put_le64(p + 16, version);
	put_le64(p + 24, w->nonce);
	put_le64(p + 32, w->names.size);
	CB_TRY(buf_append(&head, w->names.bytes, w->names.size, err));
	uint64_t sum = hash64(head.bytes, head.size);
	CB_TRY(buf_extend(&head, 8, &p, err));
	put_le64(p, sum);
	return io_pwrite_all(w->file.fd, head.bytes, head.size, 0, err);
}

void cache_writer_commit(cache_writer *w, uint64_t version)
{
	if (!w) return;
	bool good = !w->failed && block_write(w, NULL) == CB_OK && header_write(w, version, NULL) == CB_OK;
	if (good) (void)host_writer_commit(&w->file, w->name, true, NULL);
	cache_writer_abort(w);
}

void cache_writer_abort(cache_writer *w)
{
	if (!w) return;
	host_writer_done(&w->file);
	if (w->folder >= 0) (void)close(w->folder);
	buf_done(&w->names);
	buf_done(&w->block);
	buf_done(&w->path);
	free(w);
}
