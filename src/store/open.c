/* open.c: opening and closing a store: its folder, its files, its identity. */
#include "store/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/cancel.h"
#include "base/io.h"
#include "store/boot.h"

enum {
	DEFAULT_CACHE_BYTES = 64 << 20,
	DEFAULT_LOCK_TIMEOUT_MS = 60000,
	ID_TEXT_BYTES = 2 * SEGMENT_ID_BYTES + 1,
};

/* ---- the folder ---- */

static bool is_ours(const char *name)
{
	static const char *const names[] = {".",     "..",   "cowbox.db", "cowbox.db-wal", "cowbox.db-shm", "cowbox.db-journal",
	                                    "locks", "live", "inuse",     "seg",           "numbers"};
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (strcmp(name, names[i]) == 0) return true;
	}
	return false;
}

static bool has_entry(int folder, const char *name, bool (*is_sought)(const char *))
{
	int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d && fd >= 0) (void)close(fd);
	if (!d) return false;
	bool found = false;
	for (const struct dirent *e; !found && (e = readdir(d));) found = is_sought(e->d_name);
	(void)closedir(d);
	return found;
}

static bool is_strange(const char *name)
{
	return !is_ours(name);
}

static bool is_segment(const char *name)
{
	return strstr(name, ".seg") != NULL;
}

static bool has_segments(const io_folder *f)
{
	return has_entry(f->fd, "seg", is_segment);
}

/*
 * What only a store that was used leaves beside its database. A new one makes its log when the database has its first page, also after a
 * power cut, and reserves numbers before it gives the first one out.
 */
static bool has_remains(const io_folder *f)
{
	struct stat st;
	if (has_segments(f) || numbers_given(f)) return true;
	return fstatat(f->fd, ENGINE_DATABASE "-wal", &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) && st.st_size > 0;
}

/* Said before anything is asked of the folder or made in it: advice about it is for whose it is. */
static cb_code refuse_foreign(const io_folder *f, cb_error *err)
{
	struct stat st;
	if (fstatat(f->fd, ENGINE_DATABASE, &st, AT_SYMLINK_NOFOLLOW) == 0 || has_remains(f) || !has_entry(f->fd, ".", is_strange))
		return CB_OK;
	return cb_err_set(err, CB_FOREIGN, "'%s' holds something else and is no cowbox store: choose another folder", f->path);
}

/* Whoever can write the folder can replace the store; whoever can read it reads every box. */
static cb_code check_folder(const io_folder *f, cb_error *err)
{
	struct stat st;
	if (fstat(f->fd, &st) != 0) return cb_err_errno(err, errno, "store '%s'", f->path);
	CB_TRY(refuse_foreign(f, err));
	if (st.st_uid != geteuid())
		return cb_err_set(err, CB_DENIED, "store '%s' belongs to user %u, you are %u: open it as its owner", f->path,
		                  (unsigned)st.st_uid, (unsigned)geteuid());
	if (st.st_mode & 077)
		return cb_err_set(err, CB_DENIED, "store '%s' is open to others (mode %03o): chmod 700 it", f->path,
		                  (unsigned)(st.st_mode & 0777));
	return CB_OK;
}

static cb_code make_folder(const char *path, bool create, cb_error *err)
{
	struct stat st;
	if (stat(path, &st) == 0) return CB_OK;
	if (errno != ENOENT) return cb_err_errno(err, errno, "store '%s'", path);
	if (!create) return cb_err_set(err, CB_NOTFOUND, "no store at '%s'", path);
	if (mkdir(path, 0700) != 0 && errno != EEXIST) {
		if (errno != ENOENT) return cb_err_errno(err, errno, "making store '%s'", path);
		return cb_err_set(err, CB_NOTFOUND, "making store '%s': the folder above it is not there: make that first", path);
	}
	if (chmod(path, 0700) != 0) return cb_err_errno(err, errno, "making store '%s'", path);
	return CB_OK;
}

/* SQLite opens these by itself, when it is opened, and would wait at a FIFO. */
static cb_code check_beside(const io_folder *f, cb_error *err)
{
	static const char *const names[] = {ENGINE_DATABASE "-wal", ENGINE_DATABASE "-shm", ENGINE_DATABASE "-journal"};
	struct stat st;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (fstatat(f->fd, names[i], &st, AT_SYMLINK_NOFOLLOW) != 0 || S_ISREG(st.st_mode)) continue;
		return cb_err_set(err, CB_CORRUPT, "'%s/%s' is no file: something else was put in its place", f->path, names[i]);
	}
	return CB_OK;
}

/* SQLite makes a new database of one that is empty, and takes one of a single byte for empty. */
static cb_code check_database(const store *s, bool create, cb_error *err)
{
	enum { EMPTY_BYTES = 1, SMALLEST_PAGE = 512 };
	const io_folder *f = &s->folder;
	struct stat st = {0};
	bool there = fstatat(f->fd, ENGINE_DATABASE, &st, AT_SYMLINK_NOFOLLOW) == 0;
	if (!there && errno != ENOENT) return cb_err_errno(err, errno, "'%s/" ENGINE_DATABASE "'", f->path);
	if (there && !S_ISREG(st.st_mode))
		return cb_err_set(err, CB_FOREIGN, "'%s/" ENGINE_DATABASE "' is not a file, so not a cowbox database", f->path);
	if (st.st_size < SMALLEST_PAGE && has_remains(f))
		return cb_err_set(err, CB_CORRUPT,
		                  "'%s/" ENGINE_DATABASE "' is %s but there are other files of a store: restore a backup", f->path,
		                  there ? "cut to nothing" : "missing");
	if (st.st_size == EMPTY_BYTES)
		return cb_err_set(err, CB_FOREIGN,
		                  "'%s/" ENGINE_DATABASE "' is not a cowbox database: move it away or choose another folder",
		                  f->path);
	if (there) return check_beside(f, err);
	CB_TRY(refuse_foreign(f, err));
	if (!create) return cb_err_set(err, CB_NOTFOUND, "no store at '%s'", s->path);
	return CB_OK;
}

/* ---- identity ---- */

static cb_code random_id(char out[ID_TEXT_BYTES], cb_error *err)
{
	uint8_t bytes[SEGMENT_ID_BYTES];
	if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) return cb_err_errno(err, errno, "reading random bytes");
	for (size_t i = 0; i < sizeof bytes; i++) (void)snprintf(out + 2 * i, 3, "%02x", bytes[i]);
	return CB_OK;
}

static bool id_parse(const char *text, uint8_t out[SEGMENT_ID_BYTES])
{
	if (strlen(text) != 2 * SEGMENT_ID_BYTES) return false;
	for (size_t i = 0; i < SEGMENT_ID_BYTES; i++) {
		unsigned byte = 0;
		if (sscanf(text + 2 * i, "%2x", &byte) != 1) return false;
		out[i] = (uint8_t)byte;
	}
	return true;
}

/* One value of table meta; "" when it is not there. */
static cb_code meta_or_empty(store *s, const char *key, char *out, size_t size, cb_error *err)
{
	cb_error why;
	cb_code code = s->engine->ops->meta_get(s->engine, key, out, size, cb_err_aside(&why));
	if (code == CB_NOTFOUND) out[0] = 0;
	return code == CB_NOTFOUND ? CB_OK : cb_err_pass(err, code, &why);
}

/*
 * The names of a new store: its files in its folder, and the folder in those above, as far as this filesystem goes; somebody may have made
 * all of them just now. Before the store gets its identity, so that whoever finds one knows that a power cut cannot take the names away:
 * a process killed before leaves it to the next.
 */
static cb_code names_flush(const store *s, cb_error *err)
{
	char path[LIMIT_PATH_BYTES];
	uint64_t reserved[STORE_EPOCH];
	struct stat here, above;
	AUTO_FD int seg = -1;
	CB_TRY(io_folder_open(&s->folder, "seg", true, &seg, err));
	/* Made now, so that reserving numbers needs no room on a full disk. */
	if (!numbers_read(&s->folder, reserved)) CB_TRY(numbers_write(&s->folder, reserved, err));
	if (fstat(s->folder.fd, &here) != 0) return cb_err_errno(err, errno, "store '%s'", s->path);
	CB_TRY(io_folder_flush(&s->folder, err));
	(void)snprintf(path, sizeof path, "%s", s->path);
	for (char *slash; (slash = strrchr(path, '/'));) {
		slash[slash == path] = 0;
		if (stat(path, &above) != 0 || above.st_dev != here.st_dev) return CB_OK;
		CB_TRY(io_flush_folder(path, err));
		if (slash == path) return CB_OK;
	}
	return CB_OK;
}

/* Inside a write transaction of the engine. */
static cb_code identity_write(store *s, const boot *now, bool skip, char id[ID_TEXT_BYTES], cb_error *err)
{
	engine *e = s->engine;
	char created[32];
	CB_TRY(meta_or_empty(s, "store_id", id, ID_TEXT_BYTES, err));
	if (!id[0]) {
		CB_TRY(random_id(id, err));
		CB_TRY(e->ops->meta_set(e, "store_id", id, err));
		(void)snprintf(created, sizeof created, "%" PRId64, clock_now(s->clock));
		CB_TRY(e->ops->meta_set(e, "created_ns", created, err));
	}
	if (skip) {
		uint64_t counters[STORE_COUNTERS], reserved[STORE_EPOCH];
		bool known = numbers_read(&s->folder, reserved);
		CB_TRY(e->ops->counters_get(e, counters, err));
		if (!known) numbers_skip(counters, reserved);
		for (int i = 0; i < STORE_EPOCH; i++)
			if (counters[i] < reserved[i]) counters[i] = reserved[i];
		CB_TRY(e->ops->counters_set(e, counters, err));
	}
	CB_TRY(e->ops->meta_set(e, "boot_clock", now->clock, err));
	return e->ops->meta_set(e, "boot_id", now->id, err);
}

/* A log that is empty or gone may have been folded, also by `sqlite3`, which then removes it, or cut away. What was flushed tells. */
static cb_code check_promised(const store *s, uint64_t promised, uint64_t next_state, cb_error *err)
{
	if (next_state >= promised) return CB_OK;
	return cb_err_set(err, CB_CORRUPT,
	                  "store '%s' lacks steps that were flushed to its log (" ENGINE_DATABASE
	                  "-wal): restore a backup (or remove the store's file 'live' to go on with an older state)",
	                  s->path);
}

/* All that an open asks the database for, under one lock. */
static cb_code identity_read(store *s, uint64_t promised, char id[ID_TEXT_BYTES], boot *known, cb_error *err)
{
	engine *e = s->engine;
	uint64_t counters[STORE_COUNTERS];
	CB_TRY(e->ops->read_begin(e, err));
	cb_code code = meta_or_empty(s, "store_id", id, ID_TEXT_BYTES, err);
	if (code == CB_OK) code = meta_or_empty(s, "boot_id", known->id, sizeof known->id, err);
	if (code == CB_OK) code = meta_or_empty(s, "boot_clock", known->clock, sizeof known->clock, err);
	if (code == CB_OK) code = e->ops->counters_get(e, counters, err);
	if (code == CB_OK) code = check_promised(s, promised, counters[STORE_NEXT_STATE], err);
	if (code == CB_OK) s->epoch_at_open = counters[STORE_EPOCH];
	e->ops->read_end(e);
	return code;
}

/*
 * After a boot, commits of the last seconds before a power cut may be gone although others saw their numbers (a work folder stamped with
 * a state, a client's cache). The first to open the store skips a range, so that no number ever means two things.
 */
static cb_code identity_settle(store *s, uint64_t promised, char id[ID_TEXT_BYTES], cb_error *err)
{
	engine *e = s->engine;
	boot known, now;
	CB_TRY(identity_read(s, promised, id, &known, err));
	boot_now(&now);
	bool new_boot = !boot_is_same(&known, &now), is_new = !id[0];
	if (s->read_only || (!is_new && !new_boot)) return CB_OK;
	if (is_new && s->path) CB_TRY(names_flush(s, err));
	CB_TRY(lock_writer_take(s->lock_fd, &s->live, &s->pace, s->lock_timeout_ms, err));
	e->need = STORE_FREES; /* opening must not fail for lack of room: it is how room is made */
	cb_code code = e->ops->write_begin(e, err);
	if (code == CB_OK) {
		code = identity_write(s, &now, !is_new && new_boot, id, err);
		if (code == CB_OK) code = e->ops->write_commit(e, err);
		else e->ops->write_abort(e);
	}
	if (code == CB_OK) code = e->ops->flush(e, NULL, err);
	/* What a power cut tore in the database is in the log, or belongs to nobody: written over before anybody takes it into use. */
	if (code == CB_OK && !is_new) e->ops->tidy(e);
	lock_writer_release(s->lock_fd, &s->live, &s->pace);
	return code;
}

/* A failed flush is remembered in `live` until somebody proves the database sound and durable. */
static cb_code repair_if_needed(store *s, cb_error *err)
{
	live_map *m = s->live.map;
	if (s->read_only || !m || atomic_load(&m->poison) == 0) return CB_OK;
	CB_TRY(lock_writer_take(s->lock_fd, &s->live, &s->pace, s->lock_timeout_ms, err));
	cb_error why;
	cb_code code = s->engine->ops->repair(s->engine, &why);
	if (code == CB_OK) atomic_store(&m->poison, 0);
	lock_writer_release(s->lock_fd, &s->live, &s->pace);
	/* Others still read: the store can be read, writes go on being refused. */
	if (code == CB_BUSY || code == CB_OK) return CB_OK;
	if (err) *err = why;
	return code;
}

/* ---- attach ---- */

cb_code store_check_place(const store *s, cb_error *err)
{
	struct stat st;
	if (!s->path) return CB_OK;
	if (fstatat(s->folder.fd, ENGINE_DATABASE, &st, AT_SYMLINK_NOFOLLOW) != 0) {
		if (errno != ENOENT) return cb_err_errno(err, errno, "'%s/" ENGINE_DATABASE "'", s->path);
		return cb_err_set(err, CB_IO, "store '%s' was removed while it was open", s->path);
	}
	if (st.st_dev == s->database_device && st.st_ino == s->database_inode) return CB_OK;
	return cb_err_set(err, CB_IO, "the database of store '%s' was replaced while it was open: open the store again", s->path);
}

static cb_code attach_engine(store *s, bool create, cb_error *err)
{
	CB_TRY(check_database(s, create && !s->read_only, err));
	bool has_commands = faccessat(s->folder.fd, "work", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	CB_TRY(live_open(&s->live, &s->folder, s->read_only, err));
	live_promise promised = live_promised(&s->live);
	engine_options o = {.folder = &s->folder,
	                    .read_only = s->read_only,
	                    .frozen = s->frozen,
	                    .promised = promised.position,
	                    .has_commands = has_commands,
	                    .faults = s->faults};
	cb_code code = engine_sqlite_open(&o, &s->engine, err);
	if (code != CB_OK && s->read_only && (code == CB_IO || code == CB_DENIED))
		return cb_err_set(err, CB_READONLY,
		                  "store '%s' has unfinished work and cannot be read without writing: open it once for writing",
		                  s->path);
	if (code != CB_OK) return code;
	CB_TRY(repair_if_needed(s, err));
	char id[ID_TEXT_BYTES];
	uint8_t bytes[SEGMENT_ID_BYTES];
	CB_TRY(identity_settle(s, promised.next_state, id, err));
	if (!id_parse(id, bytes)) return cb_err_set(err, CB_CORRUPT, "store '%s' has no identity: restore a backup", s->path);
	struct stat st;
	if (fstatat(s->folder.fd, ENGINE_DATABASE, &st, AT_SYMLINK_NOFOLLOW) != 0) return store_check_place(s, err);
	s->database_device = st.st_dev;
	s->database_inode = st.st_ino;
	return segments_open(&s->folder, bytes, s->read_only, s->faults, &s->segments, err);
}

static cb_code attach_disk(store *s, bool create, cb_error *err)
{
	live_close(&s->live);
	if (s->read_only) {
		CB_TRY(attach_engine(s, false, err));
		return s->frozen ? CB_OK : inuse_open(&s->inuse, &s->folder, true, entry_era(), err);
	}
	CB_TRY(io_file_open(&s->folder, "locks", O_RDWR | O_CREAT, &s->lock_fd, err));
	CB_TRY(io_file_open(&s->folder, "locks", O_RDWR | O_CREAT, &s->owner_fd, err));
	CB_TRY(lock_byte_wait(s->lock_fd, LOCK_OPEN, s->lock_timeout_ms, err));
	cb_code code = attach_engine(s, create, err);
	lock_byte_release(s->lock_fd, LOCK_OPEN);
	return code == CB_OK ? inuse_open(&s->inuse, &s->folder, false, entry_era(), err) : code;
}

static cb_code attach_memory(store *s, cb_error *err)
{
	engine_options o = {.folder = NULL};
	char id[ID_TEXT_BYTES];
	CB_TRY(live_open_memory(&s->live, err));
	CB_TRY(inuse_open(&s->inuse, NULL, false, entry_era(), err));
	CB_TRY(engine_sqlite_open(&o, &s->engine, err));
	return identity_settle(s, 0, id, err);
}

cb_code store_attach(store *s, bool create, cb_error *err)
{
	CB_TRY(s->path ? attach_disk(s, create, err) : attach_memory(s, err));
	CB_TRY(cache_create(s->cache_bytes, &s->cache, err));
	atomic_store(&s->poisoned, false);
	s->unflushed = false;
	return CB_OK;
}

void store_detach(store *s)
{
	segments_close(s->segments);
	s->segments = NULL;
	/* After a failed flush the log is left as it is for whoever opens the store next and repairs it. */
	if (s->engine) s->engine->ops->close(s->engine, atomic_load(&s->poisoned));
	s->engine = NULL;
	cache_destroy(s->cache);
	s->cache = NULL;
	live_close(&s->live);
	inuse_close(&s->inuse);
	if (s->lock_fd >= 0) (void)close(s->lock_fd);
	if (s->owner_fd >= 0) (void)close(s->owner_fd);
	s->lock_fd = s->owner_fd = -1;
	free(s->owners);
	s->owners = NULL;
	s->owner_count = s->owner_capacity = 0;
}

/* ---- open and close ---- */

static void store_free(store *s)
{
	if (!s) return;
	store_txn_clear(s, false);
	free(s->txn.pending);
	free(s->txn.pins);
	if (s->folder.fd >= 0) (void)close(s->folder.fd);
	free(s->path);
	free(s);
}

/* Known to forks meanwhile, and inside the engine: SQLite's locks and what it notes of files are the whole process's. */
static void let_go(store *s)
{
	CANCEL_SHIELD;
	if (store_hold(s, NULL) != CB_OK) return;
	store_detach(s);
	store_leave(s);
}

static void store_free_(store *const *s)
{
	if (!*s) return;
	let_go(*s);
	fork_unregister(*s);
	store_free(*s);
}

static bool is_denial(int error)
{
	return error == EROFS || error == EACCES || error == EPERM;
}

/* Why this user cannot write the store: EROFS, EACCES or EPERM; 0: he can, as far as it shows. What is missing would be made. */
static int why_denied(int folder)
{
	static const char *const names[] = {".", "cowbox.db", "cowbox.db-wal", "cowbox.db-shm", "locks", "live"};
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (faccessat(folder, names[i], W_OK, AT_EACCESS) == 0) continue;
		if (is_denial(errno)) return errno;
	}
	return 0;
}

/* The folder is opened once. From then on everything is opened in it, so that a store that is moved is still this one, and another that is
 * put in its place is none of ours. */
static cb_code set_path(store *s, const store_options *o, cb_error *err)
{
	if (!o->path) return CB_OK;
	CB_TRY(make_folder(o->path, o->create && !o->read_only, err));
	char real[PATH_MAX];
	if (!realpath(o->path, real)) return cb_err_errno(err, errno, "store '%s'", o->path);
	if (strlen(real) + 64 > LIMIT_PATH_BYTES)
		return cb_err_set(err, CB_NAMETOOLONG, "the path of store '%s' is too long", o->path);
	s->path = mem_strdup(real);
	if (!s->path) return cb_err_nomem(err);
	s->folder = (io_folder){io_open_at(AT_FDCWD, real, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0), s->path};
	if (s->folder.fd < 0 && errno == ENOTDIR)
		return cb_err_set(err, CB_FOREIGN, "'%s' is not a folder, so not a cowbox store", real);
	if (s->folder.fd < 0) return cb_err_errno(err, errno, "store '%s'", real);
	CB_TRY(check_folder(&s->folder, err));
	if (fork_is_broken_folder(s->folder.fd))
		return cb_err_set(err, CB_FORKED, "the process forked inside a transaction of store '%s'", o->path);
	if (o->read_only || o->or_read_only) s->denied = why_denied(s->folder.fd);
	if (o->or_read_only && s->denied) s->read_only = true;
	s->frozen = s->denied != 0;
	return CB_OK;
}

static cb_code store_make(const store_options *o, store **out, cb_error *err)
{
	store *s = mem_alloc_aligned(sizeof *s);
	if (!s) return cb_err_nomem(err);
	memset(s, 0, sizeof *s);
	s->lock_fd = s->owner_fd = s->inuse.fd = s->folder.fd = -1;
	s->unsettled[0] = s->unsettled[1] = UINT64_MAX; /* nothing is written */
	s->read_only = o->read_only;
	s->durability = o->durability;
	s->cache_bytes = o->cache_bytes ? o->cache_bytes : DEFAULT_CACHE_BYTES;
	s->clock = o->clock ? o->clock : &clock_system;
	s->faults = o->faults;
	s->lock_timeout_ms = o->lock_timeout_ms ? o->lock_timeout_ms : DEFAULT_LOCK_TIMEOUT_MS;
	entry_lock_init(&s->lock);
	(void)pthread_mutex_init(&s->ino_mutex, NULL);
	(void)pthread_mutex_init(&s->owners_mutex, NULL);
	*out = s;
	return lock_turn_init(&s->turn, err);
}

/* Which of its files was met first is of no interest: none of them can be written. */
static cb_code refuse_writer(const store *s, cb_code code, const cb_error *why, cb_error *err)
{
	const char *reason = why->os_error == EROFS ? "is on a read-only filesystem" : "cannot be written by you";
	const char *remedy = why->os_error == EROFS ? "" : "see to its rights, or ";
	(void)cb_err_set(err, code, "store '%s' %s: %sopen it for reading (read_only, or_read_only)", s->path, reason, remedy);
	if (err) err->os_error = why->os_error;
	return code;
}

/*
 * Without room for what stands beside the database (a copy of a store has none of it, and the disk filled up since) it can still be read;
 * and where writing is denied though the rights allow it (a filesystem that the kernel has made read-only after an error), or to a file
 * that why_denied does not ask for. What the first attempt left behind is no obstacle: see frozen_open.
 */
static cb_code attach_or_read(store *s, const store_options *o, cb_error *err)
{
	cb_error why;
	cb_code code = store_attach(s, o->create, cb_err_aside(&why));
	bool bounded = code == CB_IO && why.os_error == EFBIG; /* ulimit -f */
	bool denied = code != CB_OK && is_denial(why.os_error);
	if ((code != CB_NOSPACE && !bounded && !denied) || !s->path) return cb_err_pass(err, code, &why);
	if ((o->read_only || o->or_read_only) && !s->frozen) {
		store_detach(s);
		s->frozen = true;
		if (!s->read_only) s->denied = bounded || denied ? why.os_error : ENOSPC;
		s->read_only = true;
		if (store_attach(s, false, NULL) == CB_OK) return CB_OK;
	}
	if (denied && !o->read_only) return refuse_writer(s, code, &why, err);
	(void)cb_err_pass(err, code, &why);
	if (bounded || denied) return code;
	return cb_err_wrap(err, code, "store '%s' cannot be opened%s: make room on its disk", s->path,
	                   o->read_only ? "" : " for writing");
}

cb_code store_open(const store_options *options, store **out, cb_error *err)
{
	ATTR_CLEANUP(store_free_) store *s = NULL;
	CB_TRY(fork_check_engine(err));
	CB_TRY(store_make(options, &s, err));
	CB_TRY(set_path(s, options, err));
	CB_TRY(fork_register(s, err));
	CB_TRY(store_hold(s, err));
	cb_code code = attach_or_read(s, options, err);
	store_leave(s);
	if (code == CB_OK) *out = TAKE_PTR(s);
	return code;
}

/* Is there anything committed, by whomever, that nobody has flushed? */
static bool is_unflushed(store *s)
{
	if (s->unflushed) return true;
	if (s->read_only || !s->engine || store_enter(s, NULL) != CB_OK) return false;
	uint64_t now = s->engine->ops->position(s->engine), known = live_promised(&s->live).position;
	store_leave(s);
	return now && (now >> 32 != known >> 32 || now > known);
}

void store_close(store *s)
{
	if (!s) return;
	CANCEL_SHIELD;
	bool ours = fork_is_current(s);
	if (ours && !atomic_load(&s->poisoned) && is_unflushed(s)) (void)store_sync(s, NULL);
	if (!ours) { /* a copy of the parent's: its files are the parent's, its memory may be in any state */
		fork_abandon(s);
		return;
	}
	while (s->owner_count > 0) store_owner_end(s, s->owners[s->owner_count - 1]);
	let_go(s);
	fork_unregister(s);
	lock_turn_done(&s->turn);
	entry_lock_done(&s->lock);
	(void)pthread_mutex_destroy(&s->ino_mutex);
	(void)pthread_mutex_destroy(&s->owners_mutex);
	store_free(s);
}

int store_folder(const store *s)
{
	return s->path ? s->folder.fd : -1;
}

bool store_is_read_only(const store *s)
{
	return s->read_only;
}

cb_code store_refuse_write(const store *s, cb_error *err)
{
	if (s->denied == ENOSPC)
		return cb_err_set(err, CB_NOSPACE,
		                  "store '%s' was opened for reading only, since its disk is full and has no room for the log of a "
		                  "writer: make room, then open it again",
		                  s->path);
	if (s->denied == EFBIG)
		return cb_err_errno(err, EFBIG, "store '%s' was opened for reading only, since a writer's files would not fit",
		                    s->path);
	if (s->denied == EROFS) return cb_err_set(err, CB_READONLY, "store '%s' is on a read-only filesystem", s->path);
	if (s->denied) return cb_err_set(err, CB_READONLY, "store '%s' cannot be written by you: see to its rights", s->path);
	return cb_err_set(err, CB_READONLY, "the store was opened read-only");
}

const clock_source *store_clock(const store *s)
{
	return s->clock;
}
