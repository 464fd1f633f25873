/*
 * segment.c: see segment.h.
 *
 * seg/NNNNNN.seg: a header of 64 bytes {magic, format, number, store id}, then contents at multiples of 64 bytes (copies from and to
 * aligned memory are several times faster).
 */
#include "store/segment.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/cancel.h"
#include "base/io.h"
#include "store/engine.h"
#include "store/fault.h"
#include "store/lock.h"

enum {
	HEADER_BYTES = 64,
	ALIGN_BYTES = 64,
	FORMAT = 1,
	OPEN_FILES = 64, /* descriptors kept for reading */
	NAME_BYTES = 32,
	COPY_BYTES = 16 << 20, /* between two looks at the caller's limit */
};
static const uint64_t segment_max_bytes = 256u << 20;
static const uint64_t segment_magic = 0x0047455342574f43u; /* "COWBSEG" */

typedef struct claimed {
	int fd;
	uint64_t number, end;
	unsigned pins;
	bool unflushed;
	bool failed;          /* a flush of it failed */
	struct claimed *next; /* retired ones */
} claimed;

typedef struct reading {
	int fd; /* -1: free */
	uint64_t number, last_use;
	unsigned pins;
} reading;

struct segments {
	io_folder folder; /* seg; fd -1: it is not there yet */
	char *path;       /* its */
	io_folder above;  /* lent: the store's */
	uint8_t id[SEGMENT_ID_BYTES];
	bool read_only;
	store_fault_plan *faults;
	pthread_mutex_t mutex;
	claimed *current; /* NULL: none yet */
	claimed *retired; /* full or abandoned, still pinned; perhaps unflushed, which segment_flush sees to */
	bool must_be_new; /* after a failed flush: do not take up an old file again */
	uint64_t failures;
	reading open_files[OPEN_FILES];
	uint64_t uses;
};

static void name_of(uint64_t number, char out[NAME_BYTES])
{
	(void)snprintf(out, NAME_BYTES, "%06" PRIu64 ".seg", number);
}

/* For messages, and for who records what is done. */
static void path_of(const segments *g, uint64_t number, char *out, size_t size)
{
	(void)snprintf(out, size, "%s/%06" PRIu64 ".seg", g->path, number);
}

static cb_code open_numbered(const segments *g, uint64_t number, int flags, int *out_fd, cb_error *err)
{
	char name[NAME_BYTES];
	name_of(number, name);
	if (g->folder.fd < 0) return cb_err_set(err, CB_NOTFOUND, "'%s' is missing", g->path);
	return io_file_open(&g->folder, name, flags, out_fd, err);
}

static cb_code folder_open(segments *g, cb_error *err)
{
	cb_error why;
	cb_code code = io_folder_open(&g->above, "seg", !g->read_only, &g->folder.fd, cb_err_aside(&why));
	return code == CB_NOTFOUND && g->read_only ? CB_OK : cb_err_pass(err, code, &why);
}

cb_code segments_open(const io_folder *above, const uint8_t id[SEGMENT_ID_BYTES], bool read_only, store_fault_plan *faults,
                      segments **out, cb_error *err)
{
	segments *g = mem_alloc(sizeof *g);
	if (!g) return cb_err_nomem(err);
	AUTO_BUF buf path = BUF_INIT(2 * LIMIT_PATH_BYTES);
	*g = (segments){.above = *above, .folder.fd = -1, .read_only = read_only, .faults = faults};
	memcpy(g->id, id, SEGMENT_ID_BYTES);
	cb_code code = buf_printf(&path, err, "%s/seg", above->path);
	if (code == CB_OK) code = buf_take(&path, &g->path, NULL, err);
	g->folder.path = g->path;
	if (code == CB_OK) code = folder_open(g, err);
	if (code != CB_OK) {
		free(g->path);
		free(g);
		return code;
	}
	(void)pthread_mutex_init(&g->mutex, NULL);
	for (size_t i = 0; i < OPEN_FILES; i++) g->open_files[i].fd = -1;
	*out = g;
	return CB_OK;
}

void segments_forget_fds(segments *g)
{
	if (g->folder.fd >= 0) (void)close(g->folder.fd);
	g->folder.fd = -1;
	for (size_t i = 0; i < OPEN_FILES; i++) {
		if (g->open_files[i].fd >= 0) (void)close(g->open_files[i].fd);
		g->open_files[i].fd = -1;
	}
	if (g->current && g->current->fd >= 0) (void)close(g->current->fd);
	if (g->current) g->current->fd = -1;
	for (claimed *c = g->retired; c; c = c->next) {
		if (c->fd >= 0) (void)close(c->fd);
		c->fd = -1;
	}
}

void segments_close(segments *g)
{
	if (!g) return;
	segments_forget_fds(g);
	free(g->current);
	for (claimed *c = g->retired, *next; c; c = next) {
		next = c->next;
		free(c);
	}
	(void)pthread_mutex_destroy(&g->mutex);
	free(g->path);
	free(g);
}

/* ---- the header ---- */

static void header_build(const segments *g, uint64_t number, uint8_t out[HEADER_BYTES])
{
	memset(out, 0, HEADER_BYTES);
	put_le64(out, segment_magic);
	put_le32(out + 8, FORMAT);
	put_le64(out + 16, number);
	memcpy(out + 24, g->id, SEGMENT_ID_BYTES);
}

static cb_code header_check(const segments *g, int fd, uint64_t number, cb_error *err)
{
	uint8_t is[HEADER_BYTES], should[HEADER_BYTES];
	size_t size = 0;
	CB_TRY(io_pread_all(fd, is, sizeof is, 0, &size, err));
	header_build(g, number, should);
	if (size == sizeof is && memcmp(is, should, sizeof is) == 0) return CB_OK;
	return cb_err_set(err, CB_CORRUPT, "segment %06" PRIu64 " is damaged or belongs to another store", number);
}

/* ---- recorded writes ---- */

static cb_code write_at(const segments *g, int fd, uint64_t number, const void *bytes, size_t size, uint64_t offset, cb_error *err)
{
	int error = fault_strike(g->faults, STORE_FAULT_WRITE);
	cb_code code = error ? cb_err_errno(err, error, "write %zu bytes", size) : io_pwrite_all(fd, bytes, size, offset, err);
	if (code == CB_NOSPACE) return cb_err_set(err, code, "segment %06" PRIu64 ": " ENGINE_FULL, number);
	if (code != CB_OK) return cb_err_wrap(err, code, "segment %06" PRIu64, number);
	if (g->faults) {
		char path[LIMIT_PATH_BYTES + NAME_BYTES];
		path_of(g, number, path, sizeof path);
		fault_saw_write(g->faults, path, offset, bytes, size);
	}
	return CB_OK;
}

static cb_code flush_fd(const segments *g, int fd, uint64_t number, cb_error *err)
{
	int error = fault_strike(g->faults, STORE_FAULT_FLUSH);
	if (error == 0 && fdatasync(fd) != 0) error = errno;
	if (error) return cb_err_errno(err, error, "flushing segment %06" PRIu64, number);
	if (g->faults) {
		char path[LIMIT_PATH_BYTES + NAME_BYTES];
		path_of(g, number, path, sizeof path);
		fault_saw_flush(g->faults, path);
	}
	return CB_OK;
}

static void cut(const segments *g, uint64_t number, int fd, uint64_t end)
{
	char path[LIMIT_PATH_BYTES + NAME_BYTES];
	if (io_size_set(fd, end) != 0 || !g->faults) return;
	path_of(g, number, path, sizeof path);
	fault_saw_truncate(g->faults, path, end);
}

static uint64_t aligned(uint64_t end)
{
	return (end + ALIGN_BYTES - 1) & ~(uint64_t)(ALIGN_BYTES - 1);
}

static cb_code load_page(void *file, uint64_t offset, void *to, size_t size)
{
	return io_pread_all(*(const int *)file, to, size, offset, NULL, NULL);
}

static void saw_open(const segments *g, const char *path, int fd, uint64_t size)
{
	if (g->faults) fault_saw_open(g->faults, path, size, load_page, &fd);
}

/* ---- claiming ---- */

static cb_code current_set(segments *g, int fd, uint64_t number, uint64_t end, cb_error *err)
{
	claimed *c = mem_alloc(sizeof *c);
	if (!c) return cb_err_nomem(err);
	*c = (claimed){.fd = fd, .number = number, .end = end};
	g->current = c;
	return CB_OK;
}

/* A folder entry must be flushed too, or the file may be missing after a power cut; and the folder's own, when it was made just now. */
static cb_code flush_folder(const segments *g, cb_error *err)
{
	CB_TRY(io_folder_flush(&g->folder, err));
	return io_folder_flush(&g->above, err);
}

static void take_away(const segments *g, uint64_t number)
{
	char name[NAME_BYTES], path[LIMIT_PATH_BYTES + NAME_BYTES];
	name_of(number, name);
	(void)unlinkat(g->folder.fd, name, 0);
	path_of(g, number, path, sizeof path);
	if (g->faults) fault_saw_delete(g->faults, path, false);
}

/* CB_EXISTS when another process has that number. */
static cb_code create_numbered(segments *g, uint64_t number, cb_error *err)
{
	char path[LIMIT_PATH_BYTES + NAME_BYTES];
	path_of(g, number, path, sizeof path);
	int error = fault_strike(g->faults, STORE_FAULT_OPEN);
	if (error) return cb_err_errno(err, error, "making '%s'", path);
	AUTO_FD int fd = -1;
	cb_error why;
	cb_code code = open_numbered(g, number, O_RDWR | O_CREAT | O_EXCL, &fd, cb_err_aside(&why));
	if (code != CB_OK) return code == CB_EXISTS ? code : cb_err_pass(err, code, &why);
	saw_open(g, path, fd, 0);
	/* Between our open and our lock a gc may find the file unclaimed and empty, and take it away: then another number. */
	struct stat st;
	code = lock_byte_try(fd, 0, cb_err_aside(&why));
	if (code != CB_OK && code != CB_BUSY) { /* another number would not be better */
		take_away(g, number);
		return cb_err_pass(err, code, &why);
	}
	if (code == CB_BUSY || fstat(fd, &st) != 0 || st.st_nlink == 0) return CB_EXISTS;
	uint8_t header[HEADER_BYTES];
	header_build(g, number, header);
	code = write_at(g, fd, number, header, sizeof header, 0, err);
	if (code == CB_OK) code = flush_folder(g, err);
	if (code == CB_OK) code = current_set(g, fd, number, HEADER_BYTES, err);
	if (code != CB_OK) {
		take_away(g, number);
		return code;
	}
	(void)TAKE_FD(fd);
	return CB_OK;
}

static bool number_of(const char *name, uint64_t *out)
{
	char *end = NULL;
	if (name[0] < '0' || name[0] > '9') return false;
	errno = 0;
	unsigned long long n = strtoull(name, &end, 10);
	if (errno || strcmp(end, ".seg") != 0 || n == 0 || n > INT64_MAX) return false;
	*out = n;
	return true;
}

cb_code segment_claim(segments *g, uint64_t segment, int *out_fd, cb_error *err)
{
	AUTO_FD int fd = -1;
	CB_TRY(open_numbered(g, segment, O_RDWR, &fd, err));
	CB_TRY(lock_byte_try(fd, 0, err));
	struct stat st;
	/* Somebody may have claimed and removed it between our open and our lock. */
	if (fstat(fd, &st) != 0 || st.st_nlink == 0) return cb_err_set(err, CB_NOTFOUND, "no segment %06" PRIu64, segment);
	*out_fd = TAKE_FD(fd);
	return CB_OK;
}

/* NULL: errno tells why. */
static DIR *list_open(const segments *g)
{
	int fd = openat(g->folder.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d && fd >= 0) (void)close(fd);
	return d;
}

/* Takes up the newest segment when nobody appends to it, so that a thousand short-lived processes do not make a thousand files. */
static void adopt_newest(segments *g)
{
	DIR *d = list_open(g);
	if (!d) return;
	uint64_t newest = 0, n;
	for (const struct dirent *e; (e = readdir(d));) {
		if (number_of(e->d_name, &n) && n > newest) newest = n;
	}
	(void)closedir(d);
	AUTO_FD int fd = -1;
	struct stat st;
	if (newest == 0 || segment_claim(g, newest, &fd, NULL) != CB_OK || fstat(fd, &st) != 0) return;
	if ((uint64_t)st.st_size > segment_max_bytes / 2 || header_check(g, fd, newest, NULL) != CB_OK) return;
	uint64_t end = aligned((uint64_t)st.st_size);
	char path[LIMIT_PATH_BYTES + NAME_BYTES];
	path_of(g, newest, path, sizeof path);
	saw_open(g, path, fd, (uint64_t)st.st_size);
	if (current_set(g, fd, newest, end, NULL) == CB_OK) (void)TAKE_FD(fd);
}

static void release(claimed *c)
{
	if (c->fd >= 0) (void)close(c->fd);
	free(c);
}

static void retire(segments *g)
{
	claimed *c = g->current;
	g->current = NULL;
	if (!c) return;
	if (c->pins == 0) {
		release(c);
		return;
	}
	c->next = g->retired;
	g->retired = c;
}

void segment_cut(segments *g, uint64_t segment, int claim, uint64_t end)
{
	cut(g, segment, claim, end);
}

void segment_take_back(segments *g, uint64_t segment, uint64_t offset, uint64_t size)
{
	(void)pthread_mutex_lock(&g->mutex);
	claimed *c = g->current;
	if (c && c->number == segment && c->end == aligned(offset + size)) {
		cut(g, segment, c->fd, offset);
		c->end = offset;
	}
	(void)pthread_mutex_unlock(&g->mutex);
	segment_unpin(g, segment);
}

void segment_unpin(segments *g, uint64_t segment)
{
	(void)pthread_mutex_lock(&g->mutex);
	if (g->current && g->current->number == segment) {
		g->current->pins--;
	} else {
		for (claimed **at = &g->retired; *at; at = &(*at)->next) {
			claimed *c = *at;
			if (c->number != segment) continue;
			if (--c->pins == 0) {
				*at = c->next;
				release(c);
			}
			break;
		}
	}
	(void)pthread_mutex_unlock(&g->mutex);
}

void segment_retire(segments *g)
{
	(void)pthread_mutex_lock(&g->mutex);
	retire(g);
	g->must_be_new = true;
	(void)pthread_mutex_unlock(&g->mutex);
}

/* ---- appending ---- */

/*
 * Every file with bytes that somebody may be about to name in a row. Also retired ones: a vacuum in another thread retires the current
 * segment at any moment, between an append and the flush before its commit too.
 */
static cb_code flush_all(segments *g, cb_error *err)
{
	cb_code first = CB_OK;
	for (claimed *c = g->current ? g->current : g->retired; c; c = c == g->current ? g->retired : c->next) {
		if (!c->unflushed) continue;
		cb_code code = flush_fd(g, c->fd, c->number, first == CB_OK ? err : NULL);
		/* After a failure a second flush would report success without proving anything. Raising `failures` fails everybody whose
		 * bytes it held, and the file is not appended to again. */
		c->unflushed = false;
		if (code == CB_OK) continue;
		g->failures++;
		c->failed = true;
		if (first == CB_OK) first = code;
	}
	if (g->current && g->current->failed) {
		g->must_be_new = true;
		retire(g);
	}
	return first;
}

/* Sets *need_number, or leaves a current segment with room. */
static cb_code make_current(segments *g, size_t size, uint64_t fresh_number, bool *need_number, cb_error *err)
{
	if (g->current && g->current->end + size > segment_max_bytes) {
		CB_TRY(flush_all(g, err));
		g->must_be_new = true;
		retire(g);
	}
	if (g->current) return CB_OK;
	if (!g->must_be_new) adopt_newest(g);
	if (g->current) return CB_OK;
	*need_number = fresh_number == 0;
	if (*need_number) return CB_OK;
	cb_code code = create_numbered(g, fresh_number, err);
	*need_number = code == CB_EXISTS;
	return code == CB_EXISTS ? CB_OK : code;
}

static cb_code append(segments *g, span bytes, uint64_t fresh_number, bool *need_number, uint64_t *out_segment,
                      uint64_t *out_offset, cb_error *err)
{
	CB_TRY(make_current(g, bytes.size, fresh_number, need_number, err));
	if (*need_number) return CB_OK;
	claimed *c = g->current;
	c->unflushed = true;
	cb_code code = write_at(g, c->fd, c->number, bytes.bytes, bytes.size, c->end, err);
	if (code != CB_OK) {
		cut(g, c->number, c->fd, c->end); /* what was written of it would take room that nobody finds again */
		return code;
	}
	*out_segment = c->number;
	*out_offset = c->end;
	c->end = aligned(c->end + bytes.size);
	c->pins++;
	return CB_OK;
}

cb_code segment_append(segments *g, span bytes, uint64_t fresh_number, bool *need_number, uint64_t *out_segment,
                       uint64_t *out_offset, cb_error *err)
{
	*need_number = false;
	(void)pthread_mutex_lock(&g->mutex);
	cb_code code = append(g, bytes, fresh_number, need_number, out_segment, out_offset, err);
	(void)pthread_mutex_unlock(&g->mutex);
	return code;
}

cb_code segment_flush(segments *g, cb_error *err)
{
	(void)pthread_mutex_lock(&g->mutex);
	cb_code code = flush_all(g, err);
	(void)pthread_mutex_unlock(&g->mutex);
	return code;
}

uint64_t segment_failures(segments *g)
{
	(void)pthread_mutex_lock(&g->mutex);
	uint64_t n = g->failures;
	(void)pthread_mutex_unlock(&g->mutex);
	return n;
}

/* ---- reading ---- */

static reading *find_open(segments *g, uint64_t number)
{
	for (size_t i = 0; i < OPEN_FILES; i++) {
		if (g->open_files[i].fd >= 0 && g->open_files[i].number == number) return &g->open_files[i];
	}
	return NULL;
}

static reading *least_used(segments *g)
{
	reading *best = NULL;
	for (size_t i = 0; i < OPEN_FILES; i++) {
		reading *r = &g->open_files[i];
		if (r->fd < 0) return r;
		if (r->pins == 0 && (!best || r->last_use < best->last_use)) best = r;
	}
	return best;
}

/* With the mutex. */
static cb_code open_for_reading(segments *g, uint64_t number, int *out_fd, cb_error *err)
{
	int error = fault_strike(g->faults, STORE_FAULT_OPEN);
	if (error) return cb_err_errno(err, error, "opening segment %06" PRIu64, number);
	AUTO_FD int fd = -1;
	if (g->folder.fd < 0) CB_TRY(folder_open(g, err)); /* made since by a writer */
	CB_TRY(open_numbered(g, number, O_RDONLY, &fd, err));
	CB_TRY(header_check(g, fd, number, err));
	*out_fd = TAKE_FD(fd);
	return CB_OK;
}

/* With the mutex. *out NULL: every place is in use, *out_fd is the caller's to close. */
static cb_code pin(segments *g, uint64_t number, reading **out, int *out_fd, cb_error *err)
{
	reading *r = find_open(g, number);
	if (!r) {
		int fd = -1;
		CB_TRY(open_for_reading(g, number, &fd, err));
		r = least_used(g);
		if (!r) {
			*out = NULL;
			*out_fd = fd;
			return CB_OK;
		}
		if (r->fd >= 0) (void)close(r->fd);
		*r = (reading){.fd = fd, .number = number};
	}
	r->pins++;
	r->last_use = ++g->uses;
	*out = r;
	*out_fd = r->fd;
	return CB_OK;
}

cb_code segment_read(segments *g, uint64_t segment, uint64_t offset, void *to, size_t size, cb_error *err)
{
	reading *r = NULL;
	int fd = -1;
	(void)pthread_mutex_lock(&g->mutex);
	cb_code code = pin(g, segment, &r, &fd, err);
	(void)pthread_mutex_unlock(&g->mutex);
	if (code != CB_OK) return code;
	size_t got = 0;
	code = io_pread_all(fd, to, size, offset, &got, err);
	if (code == CB_OK && got != size)
		code = cb_err_set(err, CB_CORRUPT, "segment %06" PRIu64 " ends before byte %" PRIu64, segment, offset + size);
	if (!r) {
		(void)close(fd);
		return code;
	}
	(void)pthread_mutex_lock(&g->mutex);
	r->pins--;
	(void)pthread_mutex_unlock(&g->mutex);
	return code;
}

/* ---- housekeeping ---- */

static int compare_numbers(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

cb_code segment_files(segments *g, segment_visit visit, void *context, cb_error *err)
{
	AUTO_BUF buf numbers = BUF_INIT(SIZE_MAX / 2);
	if (g->folder.fd < 0) return CB_OK;
	DIR *d = list_open(g);
	if (!d) return errno == ENOENT ? CB_OK : cb_err_errno(err, errno, "reading '%s'", g->path);
	cb_code code = CB_OK;
	uint64_t n;
	for (const struct dirent *e; code == CB_OK && (e = readdir(d));) {
		if (number_of(e->d_name, &n)) code = buf_append(&numbers, &n, sizeof n, err);
	}
	(void)closedir(d);
	uint64_t *list = (uint64_t *)(void *)numbers.bytes;
	size_t count = numbers.size / sizeof n;
	if (count) qsort(list, count, sizeof n, compare_numbers);
	for (size_t i = 0; code == CB_OK && i < count; i++) {
		char name[NAME_BYTES];
		name_of(list[i], name);
		struct stat st;
		if (fstatat(g->folder.fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			code = visit(context, list[i], (uint64_t)st.st_size, err);
	}
	return code;
}

cb_code segment_remove(segments *g, uint64_t segment, cb_error *err)
{
	char name[NAME_BYTES], path[LIMIT_PATH_BYTES + NAME_BYTES];
	name_of(segment, name);
	path_of(g, segment, path, sizeof path);
	if (unlinkat(g->folder.fd, name, 0) != 0 && errno != ENOENT) return cb_err_errno(err, errno, "removing '%s'", path);
	if (g->faults) fault_saw_delete(g->faults, path, false);
	(void)pthread_mutex_lock(&g->mutex);
	reading *r = find_open(g, segment);
	if (r && r->pins == 0) {
		(void)close(r->fd);
		r->fd = -1;
	}
	(void)pthread_mutex_unlock(&g->mutex);
	return CB_OK;
}

void segment_punch(segments *g, uint64_t segment, uint64_t offset, uint64_t size)
{
	AUTO_FD int fd = -1;
	if (open_numbered(g, segment, O_RDWR, &fd, NULL) == CB_OK)
		(void)fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)size);
}

static cb_code copy_bytes(int from, int to, const char *path, cb_error *err)
{
	struct stat st;
	if (fstat(from, &st) != 0) return cb_err_errno(err, errno, "copying '%s'", path);
	off_t left = st.st_size;
	while (left > 0) {
		CB_TRY(cancel_check(err));
		io_bounded bounded = io_bounded_begin();
		ssize_t n = copy_file_range(from, NULL, to, NULL, left < COPY_BYTES ? (size_t)left : COPY_BYTES, 0);
		io_bounded_end(&bounded);
		if (n < 0 && errno == EINTR) continue;
		if (n < 0 && (errno == EXDEV || errno == EINVAL || errno == EOPNOTSUPP || errno == ENOSYS)) break;
		if (n < 0) return cb_err_errno(err, errno, "copying '%s'", path);
		if (n == 0) break;
		left -= n;
	}
	AUTO_FREE uint8_t *piece = left > 0 ? mem_alloc_aligned(1 << 20) : NULL;
	if (left > 0 && !piece) return cb_err_nomem(err);
	while (left > 0) {
		size_t got = 0;
		uint64_t at = (uint64_t)(st.st_size - left);
		CB_TRY(cancel_check(err));
		CB_TRY(io_pread_all(from, piece, 1 << 20, at, &got, err));
		if (got == 0) break;
		CB_TRY(io_pwrite_all(to, piece, got, at, err));
		left -= (off_t)got;
	}
	return fsync(to) == 0 ? CB_OK : cb_err_errno(err, errno, "flushing a copy of '%s'", path);
}

cb_code segment_copy(segments *g, uint64_t segment, const char *to_folder, cb_error *err)
{
	char from_path[LIMIT_PATH_BYTES + NAME_BYTES], to_path[LIMIT_PATH_BYTES + NAME_BYTES];
	path_of(g, segment, from_path, sizeof from_path);
	(void)snprintf(to_path, sizeof to_path, "%s/%06" PRIu64 ".seg", to_folder, segment);
	AUTO_FD int from = -1;
	CB_TRY(open_numbered(g, segment, O_RDONLY, &from, err));
	AUTO_FD int to = io_open_at(AT_FDCWD, to_path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	if (to < 0) return cb_err_errno(err, errno, "making '%s'", to_path);
	if (fchmod(to, 0600) != 0) return cb_err_errno(err, errno, "making '%s'", to_path);
	return copy_bytes(from, to, from_path, err);
}
