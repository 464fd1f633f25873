/*
 * backup.c: a copy of a live store, and giving space back.
 *
 * Both hold the gc lock: then rows of contents are neither removed nor moved, so every segment named in a snapshot stays, and since
 * segments are only ever appended to, they can be copied after the snapshot beside writers.
 */
#include "store/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/cancel.h"
#include "base/io.h"
#include "base/temporary.h"

/* ---- lists of segments ---- */

typedef struct segment_note {
	uint64_t segment, rows, bytes;
} segment_note;

static cb_code note_segment(void *context, uint64_t segment, uint64_t rows, uint64_t bytes, cb_error *err)
{
	segment_note n = {segment, rows, bytes};
	return buf_append(context, &n, sizeof n, err);
}

static cb_code list_segments(store *s, buf *out, cb_error *err)
{
	STORE_ENTER(s, err);
	return s->engine->ops->segment_list(s->engine, note_segment, out, err);
}

static segment_note note_at(const buf *list, size_t i)
{
	segment_note n;
	memcpy(&n, list->bytes + i * sizeof n, sizeof n);
	return n;
}

/* ---- backup ---- */

static cb_code copy_database(store *s, const char *to, cb_error *err)
{
	char file[LIMIT_PATH_BYTES + 64];
	(void)snprintf(file, sizeof file, "%s/cowbox.db", to);
	STORE_ENTER(s, err);
	return s->engine->ops->backup(s->engine, file, err);
}

static cb_code note_place(void *context, const engine_row *row, cb_error *err)
{
	return buf_append(context, row, sizeof *row, err);
}

static cb_code list_places(store *s, uint64_t segment, buf *out, cb_error *err)
{
	STORE_ENTER(s, err);
	out->size = 0;
	return s->engine->ops->segment_rows(s->engine, segment, note_place, out, err);
}

/* Each content of a segment is what its row says. */
static cb_code verify_segment(store *s, uint64_t segment, buf *rows, uint8_t *room, cb_error *err)
{
	CB_TRY(list_places(s, segment, rows, err));
	for (size_t at = 0; at < rows->size; at += sizeof(engine_row)) {
		engine_row row;
		memcpy(&row, rows->bytes + at, sizeof row);
		CB_TRY(cancel_check(err));
		cb_code code = segment_read(s->segments, segment, row.offset, room, row.size, err);
		if (code == CB_NOTFOUND && err) err->code = CB_CORRUPT; /* the file */
		if (code != CB_OK) return code == CB_NOTFOUND ? CB_CORRUPT : code;
		if (store_sum(row.id, room, row.size) != row.sum)
			return cb_err_set(err, CB_CORRUPT,
			                  "content %llu is damaged: its sum is wrong (segment %06llu, offset %llu)",
			                  (unsigned long long)row.id, (unsigned long long)segment, (unsigned long long)row.offset);
	}
	return CB_OK;
}

static void note_first(void *context, const char *line)
{
	buf *first = context;
	if (first->size == 0) (void)buf_append_str(first, line, NULL);
}

/* Where pages have no sums, by those of all rows. */
static cb_code verify_rows(store *s, cb_error *err)
{
	AUTO_BUF buf first = BUF_INIT(CB_ERROR_MESSAGE_MAX);
	CB_TRY(store_check(s, note_first, &first, err));
	return first.size ? cb_err_set(err, CB_CORRUPT, "%.*s", (int)first.size, (const char *)first.bytes) : CB_OK;
}

static cb_code damaged(cb_code code, cb_error *err)
{
	if (code != CB_CORRUPT) return code;
	return cb_err_wrap(err, code, "the store is damaged, nothing was copied (see `cowbox fsck`)");
}

static cb_code copy_segments(store *s, const char *to, cb_error *err)
{
	char folder[LIMIT_PATH_BYTES + 64];
	(void)snprintf(folder, sizeof folder, "%s/seg", to);
	if (mkdir(folder, 0700) != 0) return cb_err_errno(err, errno, "making '%s'", folder);
	if (!s->segments) return CB_OK;
	AUTO_BUF buf list = BUF_INIT(SIZE_MAX / 2), rows = BUF_INIT(SIZE_MAX / 2);
	AUTO_FREE uint8_t *room = mem_alloc_aligned(LIMIT_CONTENT_BYTES);
	if (!room) return cb_err_nomem(err);
	CB_TRY(list_segments(s, &list, err));
	for (size_t i = 0; i < list.size / sizeof(segment_note); i++) {
		uint64_t segment = note_at(&list, i).segment;
		CB_TRY(damaged(verify_segment(s, segment, &rows, room, err), err));
		CB_TRY(segment_copy(s->segments, segment, folder, err));
	}
	return io_flush_folder(folder, err);
}

static cb_code note_owner(void *context, const store_pin *pin, cb_error *err)
{
	bool is_work = strncmp(pin->owner, STORE_PIN_WORK, strlen(STORE_PIN_WORK)) == 0;
	return is_work ? buf_append(context, pin->owner, strlen(pin->owner) + 1, err) : CB_OK;
}

/* What commands began from: they, and what they left, are not in the copy, where nobody would drop these pins. */
static cb_code drop_work_pins(store *s, cb_error *err)
{
	AUTO_BUF buf owners = BUF_INIT(SIZE_MAX / 2);
	CB_TRY(s->engine->ops->pin_list(s->engine, 0, note_owner, &owners, err));
	for (size_t at = 0; at < owners.size; at += strlen((const char *)owners.bytes + at) + 1)
		CB_TRY(store_pins_set(s, (const char *)owners.bytes + at, NULL, 0, err));
	return CB_OK;
}

/* The original goes on giving out numbers: the copy begins far behind them at the next boot, as it would without the file. */
static cb_code furnish_body(store *s, void *context, cb_error *err)
{
	uint64_t counters[STORE_COUNTERS], reserved[STORE_EPOCH];
	CB_TRY(s->engine->ops->counters_get(s->engine, counters, err));
	numbers_skip(counters, reserved);
	CB_TRY(numbers_write(&s->folder, reserved, err));
	CB_TRY(drop_work_pins(s, err));
	return store_take(s, STORE_NEXT_SEGMENT, 1, context,
	                  err); /* a commit: each that is ordinary leaves the room that is kept */
}

/*
 * Gives the copy what a store has beside its database, and the room it keeps: its disk may be full when it is needed, and then it can be
 * opened for writing all the same. Takes away what is of no use in it. Best effort: without it a copy is whole, and can be read.
 */
static void furnish(const char *part)
{
	store_options o = {.path = part, .cache_bytes = 1 << 20};
	store *copy = NULL;
	uint64_t unused = 0;
	if (store_open(&o, &copy, NULL) != CB_OK) return;
	(void)store_in_transaction(copy, true, furnish_body, &unused, NULL);
	store_close(copy);
}

static cb_code taken(const char *to, cb_error *err)
{
	return cb_err_set(err, CB_EXISTS, "'%s' exists already", to);
}

static cb_code give_name(const char *part, const char *to, cb_error *err)
{
	char above[LIMIT_PATH_BYTES + 64];
	if (renameat2(AT_FDCWD, part, AT_FDCWD, to, RENAME_NOREPLACE) != 0) {
		struct stat st;
		if (errno == EEXIST || (errno == EINVAL && lstat(to, &st) == 0)) return taken(to, err);
		/* Filesystems without RENAME_NOREPLACE. */
		if (errno != EINVAL || rename(part, to) != 0) return cb_err_errno(err, errno, "making '%s'", to);
	}
	(void)snprintf(above, sizeof above, "%s/..", to);
	return io_flush_folder(above, err);
}

/* Crash window: until it is whole the copy has another name, so that half of one is never taken for a store. */
static cb_code backup_as(store *s, const char *part, const char *to, cb_error *err)
{
	CB_TRY(copy_database(s, part, err));
	if (!s->engine->ops->is_summed(s->engine)) CB_TRY(damaged(verify_rows(s, err), err));
	CB_TRY(copy_segments(s, part, err));
	if (!s->read_only) furnish(part); /* else it may be of an older format, and stays so */
	CB_TRY(cancel_check(err));
	CB_TRY(io_flush_folder(part, err));
	return give_name(part, to, err);
}

static cb_code backup_locked(store *s, const char *to, cb_error *err)
{
	char above[LIMIT_PATH_BYTES + 16];
	struct stat st;
	size_t size = strlen(to);
	if (lstat(to, &st) == 0) return taken(to, err);
	/* The folder that will hold it: what comes before the last component, with its '/'. */
	while (size > 1 && to[size - 1] == '/') size--;
	while (size > 0 && to[size - 1] != '/') size--;
	(void)snprintf(above, sizeof above, "%.*s%s", (int)size, to, size ? "" : ".");
	if (stat(above, &st) != 0 && errno == ENOENT)
		return cb_err_set(err, CB_NOTFOUND, "making '%s': the folder above it is not there: make that first", to);
	AUTO_FD int folder = open(above, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (folder >= 0 && s->path && io_folder_depth(folder, s->folder.fd) >= 0)
		return cb_err_set(err, CB_INVALID, "'%s' lies in the store's own folder: a backup needs a place outside of it", to);
	ATTR_CLEANUP(temporary_place_remove) temporary_place part = TEMPORARY_PLACE_NONE;
	cb_code code = temporary_place_make(above, &part, err);
	if (code != CB_OK) return cb_err_wrap(err, code, "making '%s'", to);
	return backup_as(s, part.path, to, err); /* once it has its name there is no part left to be removed */
}

/* Where nothing can be written a lock can still be shared, and that keeps others' gc away. Without the file there is nobody. */
static cb_code lock_shared(const store *s, int *out_fd, cb_error *err)
{
	struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = LOCK_GC, .l_len = 1};
	if (!s->path) return CB_OK;
	if (io_file_open(&s->folder, "locks", O_RDONLY, out_fd, NULL) != CB_OK || fcntl(*out_fd, F_OFD_SETLK, &lock) == 0)
		return CB_OK;
	if (errno != EAGAIN && errno != EACCES) return lock_failed(*out_fd, errno, err);
	return store_upkeep_busy(err);
}

cb_code store_still_begin(store *s, int *out_fd, cb_error *err)
{
	*out_fd = -1;
	return s->read_only ? lock_shared(s, out_fd, err) : store_gc_lock(s, err);
}

void store_still_end(store *s, int fd)
{
	if (fd >= 0) (void)close(fd);
	if (!s->read_only) store_gc_unlock(s);
}

cb_code store_backup(store *s, const char *to_path, cb_error *err)
{
	if (strlen(to_path) + 64 > LIMIT_PATH_BYTES) return cb_err_set(err, CB_NAMETOOLONG, "the backup's path is too long");
	if (store_in_write(s)) return cb_err_set(err, CB_INVALID, "a transaction is open");
	int still = -1;
	CB_TRY(store_still_begin(s, &still, err));
	cb_code code = backup_locked(s, to_path, err);
	store_still_end(s, still);
	return code;
}

/* ---- vacuum ---- */

typedef struct move {
	engine_row row;
	uint64_t segment, offset; /* the new place */
} move;

typedef struct moving {
	store *s;
	buf moves;
	uint8_t *room;
	uint64_t needed; /* bytes of the fullest segment that found no room for its copy */
} moving;

static cb_code note_row(void *context, const engine_row *row, cb_error *err)
{
	move m = {.row = *row};
	return buf_append(&((moving *)context)->moves, &m, sizeof m, err);
}

static size_t move_count(const moving *v)
{
	return v->moves.size / sizeof(move);
}

static move *move_at(const moving *v, size_t i)
{
	return (move *)(void *)(v->moves.bytes + i * sizeof(move));
}

static cb_code take_number(store *s, void *context, cb_error *err)
{
	return store_take(s, STORE_NEXT_SEGMENT, 1, context, err);
}

/* Copied as it is, right or wrong: the sum travels with the row, so damage stays visible. */
static cb_code copy_one(moving *v, move *m, cb_error *err)
{
	CB_TRY(segment_read(v->s->segments, m->row.segment, m->row.offset, v->room, m->row.size, err));
	uint64_t fresh = 0;
	for (;;) {
		bool need_number = false;
		CB_TRY(segment_append(v->s->segments, span_make(v->room, m->row.size), fresh, &need_number, &m->segment, &m->offset,
		                      err));
		if (!need_number) return CB_OK;
		CB_TRY(store_in_transaction(v->s, false, take_number, &fresh, err));
	}
}

static cb_code move_body(store *s, void *context, cb_error *err)
{
	const moving *v = context;
	for (size_t i = 0; i < move_count(v); i++) {
		const move *m = move_at(v, i);
		CB_TRY(s->engine->ops->content_move(s->engine, m->row.id, m->segment, m->offset, err));
	}
	return CB_OK;
}

static cb_code list_rows(moving *v, uint64_t segment, cb_error *err)
{
	STORE_ENTER(v->s, err);
	v->moves.size = 0;
	return v->s->engine->ops->segment_rows(v->s->engine, segment, note_row, v, err);
}

static void needed_note(moving *v)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < move_count(v); i++) bytes += move_at(v, i)->row.size;
	if (bytes > v->needed) v->needed = bytes;
}

/* With the claim of `segment`. */
static cb_code move_rows(moving *v, uint64_t segment, cb_error *err)
{
	store *s = v->s;
	CB_TRY(list_rows(v, segment, err));
	uint64_t failures = segment_failures(s->segments);
	cb_code code = CB_OK;
	size_t copied = 0;
	for (; code == CB_OK && copied < move_count(v); copied += code == CB_OK) {
		code = cancel_check(err);
		if (code == CB_OK) code = copy_one(v, move_at(v, copied), err);
	}
	if (code == CB_OK) code = segment_flush(s->segments, err);
	if (code == CB_NOSPACE) needed_note(v);
	if (code == CB_OK && segment_failures(s->segments) != failures) code = cb_err_set(err, CB_IO, "flushing a segment failed");
	if (code == CB_OK) code = store_in_transaction(s, true, move_body, v, err);
	for (size_t i = copied; i > 0; i--) {
		const move *m = move_at(v, i - 1);
		if (code == CB_NOSPACE || cancel_is_code(code)) segment_take_back(s->segments, m->segment, m->offset, m->row.size);
		else segment_unpin(s->segments, m->segment);
	}
	if (code != CB_OK) return code;
	if (s->live.map) (void)atomic_fetch_add(&s->live.map->sweeps, 1);
	return segment_remove(s->segments, segment, err);
}

typedef struct file_look {
	const buf *in_use;
	buf sparse; /* numbers of segments that are mostly dead */
} file_look;

static cb_code look_at_file(void *context, uint64_t segment, uint64_t bytes, cb_error *err)
{
	file_look *l = context;
	uint64_t live_bytes = 0;
	for (size_t i = 0; i < l->in_use->size / sizeof(segment_note); i++) {
		segment_note n = note_at(l->in_use, i);
		if (n.segment == segment) live_bytes = n.bytes;
	}
	return live_bytes < bytes / 2 ? buf_append(&l->sparse, &segment, sizeof segment, err) : CB_OK;
}

/* One segment after the other; one that finds no room for its copy does not keep the others from it. */
static cb_code compact(store *s, const file_look *l, moving *v, cb_error *err)
{
	cb_code first = CB_OK;
	for (size_t at = 0; at < l->sparse.size; at += sizeof(uint64_t)) {
		uint64_t segment;
		memcpy(&segment, l->sparse.bytes + at, sizeof segment);
		AUTO_FD int claim = -1;
		if (segment_claim(s->segments, segment, &claim, NULL) != CB_OK) continue;
		cb_error why = {0};
		cb_code code = move_rows(v, segment, &why);
		if (code == CB_OK) continue;
		if (err && (first == CB_OK || code != CB_NOSPACE)) *err = why;
		first = code;
		if (code != CB_NOSPACE) return code;
	}
	if (v->needed == 0) return first;
	return cb_err_set(err, CB_NOSPACE,
	                  "a vacuum needs %" PRIu64
	                  " KiB on the disk while it copies what is left of a segment: make room, or go without "
	                  "(gc gives back what it frees of segments)",
	                  (v->needed + 1023) >> 10);
}

static cb_code compact_segments(store *s, cb_error *err)
{
	if (!s->segments) return CB_OK;
	segment_retire(s->segments); /* ours may be mostly dead too */
	AUTO_BUF buf in_use = BUF_INIT(SIZE_MAX / 2);
	CB_TRY(list_segments(s, &in_use, err));
	file_look l = {&in_use, BUF_INIT(SIZE_MAX / 2)};
	moving v = {.s = s, .moves = BUF_INIT(SIZE_MAX / 2), .room = mem_alloc_aligned(LIMIT_CONTENT_BYTES)};
	cb_code code = v.room ? segment_files(s->segments, look_at_file, &l, err) : cb_err_nomem(err);
	if (code == CB_OK) code = compact(s, &l, &v, err);
	free(v.room);
	buf_done(&v.moves);
	buf_done(&l.sparse);
	return code;
}

static cb_code vacuum_database(store *s, cb_error *err)
{
	CB_TRY(lock_turn_take(&s->turn, s->lock_timeout_ms, err));
	cb_code code = lock_writer_take(s->lock_fd, &s->live, &s->pace, s->lock_timeout_ms, err);
	if (code == CB_OK) {
		code = store_check_place(s, err);
		if (code == CB_OK) code = store_enter(s, err);
		if (code == CB_OK) {
			code = s->engine->ops->vacuum(s->engine, err);
			store_leave(s);
		}
		lock_writer_release(s->lock_fd, &s->live, &s->pace);
	}
	lock_turn_release(&s->turn);
	return code;
}

cb_code store_vacuum(store *s, cb_error *err)
{
	if (store_in_write(s)) return cb_err_set(err, CB_INVALID, "a transaction is open");
	CB_TRY(store_gc_lock(s, err));
	cb_code code = compact_segments(s, err);
	if (code == CB_OK) code = vacuum_database(s, err);
	else if (code == CB_NOSPACE) (void)vacuum_database(s, NULL); /* which may fit, and gives away nothing that is kept */
	store_gc_unlock(s);
	return code;
}
