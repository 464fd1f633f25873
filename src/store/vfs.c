/*
 * vfs.c: see vfs.h: SQLite's methods of files, and opening them. The log is in vfs_log.c, the database in vfs_base.c.
 *
 * SQLite flushes the folder beside the first flush of every log it opens with leave to create it, so a process that writes once pays for
 * two. A log that holds frames needs no such leave and no such flush: whoever made it flushed its header, and with it the folder, before
 * the first frame was written (walFrames does in every mode but synchronous=OFF).
 */
#include "store/vfs_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"

static sqlite3_file *real(sqlite3_file *f)
{
	return vfs_file_of(f)->real;
}

sqlite3_vfs *vfs_host(void)
{
	return sqlite3_vfs_find("unix");
}

static int io_code(int error, int otherwise)
{
	return error == ENOSPC ? SQLITE_FULL : otherwise;
}

/* ---- any file ---- */

int file_write_failed(vfs_file *s, int error, int rc)
{
	(s->database ? s->database : s)->write_error = error;
	return rc;
}

int file_write(vfs_file *s, const void *bytes, int n, sqlite3_int64 at)
{
	int error = fault_strike(s->plan, STORE_FAULT_WRITE);
	if (error) return file_write_failed(s, error, io_code(error, SQLITE_IOERR_WRITE));
	io_bounded bounded = io_bounded_begin();
	int rc = s->real->pMethods->xWrite(s->real, bytes, n, at);
	io_bounded_end(&bounded);
	if (rc != SQLITE_OK) return file_write_failed(s, errno, rc);
	if (s->path && s->plan) fault_saw_write(s->plan, s->path, (uint64_t)at, bytes, (size_t)n);
	return SQLITE_OK;
}

int file_cut(vfs_file *s, sqlite3_int64 size)
{
	io_bounded bounded = io_bounded_begin();
	int rc = s->real->pMethods->xTruncate(s->real, size);
	io_bounded_end(&bounded);
	if (rc == SQLITE_OK && s->path && s->plan) fault_saw_truncate(s->plan, s->path, (uint64_t)size);
	return rc;
}

int file_sync(vfs_file *s, int flags)
{
	int rc = log_flush(s);
	if (rc != SQLITE_OK) return rc;
	int error = fault_strike(s->plan, STORE_FAULT_FLUSH);
	if (error) errno = error; /* as a system call would leave it, for the message */
	if (error) return SQLITE_IOERR_FSYNC;
	rc = s->real->pMethods->xSync(s->real, flags);
	if (rc == SQLITE_OK && s->path && s->plan) fault_saw_flush(s->plan, s->path);
	return rc;
}

/* ---- reading and writing ---- */

static int shim_write(sqlite3_file *f, const void *bytes, int n, sqlite3_int64 at)
{
	vfs_file *s = vfs_file_of(f);
	if (s->is_base) return base_write(s, bytes, n, at);
	return s->database ? log_write(s, bytes, n, at) : file_write(s, bytes, n, at);
}

static int shim_read(sqlite3_file *f, void *to, int n, sqlite3_int64 at)
{
	vfs_file *s = vfs_file_of(f);
	if (s->gathered_size && at < s->gathered_at + (sqlite3_int64)s->gathered_size && at + n > s->gathered_at) {
		int rc = log_flush(s);
		if (rc != SQLITE_OK) return SQLITE_IOERR_READ;
	}
	int rc = s->database ? log_read(s, to, n, at) : s->real->pMethods->xRead(s->real, to, n, at);
	if (s->is_base && (rc == SQLITE_OK || rc == SQLITE_IOERR_SHORT_READ)) rc = base_saw(s, to, n, at, rc);
	/* SQLite takes EIO for damage of its own files ("malformed"); a disk that fails is another matter, with another cure. */
	return rc == SQLITE_IOERR_CORRUPTFS ? SQLITE_IOERR_READ : rc;
}

static int shim_truncate(sqlite3_file *f, sqlite3_int64 size)
{
	vfs_file *s = vfs_file_of(f);
	sqlite3_int64 now = 0;
	int rc = log_flush(s);
	if (rc != SQLITE_OK) return rc;
	int error = fault_strike(s->plan, STORE_FAULT_TRUNCATE);
	if (error) return io_code(error, SQLITE_IOERR_TRUNCATE);
	rc = s->real->pMethods->xFileSize(s->real, &now);
	if (rc != SQLITE_OK) return rc;
	if (s->database) return log_cut(s, size, now);
	return s->held && s->log ? base_cut(s, size, now) : file_cut(s, size); /* without a log it is a rollback: it must go */
}

static int shim_sync(sqlite3_file *f, int flags)
{
	return file_sync(vfs_file_of(f), flags);
}

static int shim_file_size(sqlite3_file *f, sqlite3_int64 *out)
{
	vfs_file *s = vfs_file_of(f);
	int rc = log_flush(s);
	if (rc != SQLITE_OK) return rc;
	return s->is_base ? base_size(s, out) : s->real->pMethods->xFileSize(s->real, out);
}

/* ---- locks ---- */

/* SQLite takes most failures of a lock for one that somebody else has, and waits for him. errno was 0 before the call. */
static int lock_result(int rc, int failure)
{
	bool somebodys = errno == 0 || errno == EAGAIN || errno == EACCES || errno == EINTR || errno == EBUSY || errno == ETIMEDOUT;
	return rc == SQLITE_BUSY && !somebodys ? failure : rc;
}

/* A lock could not be given back: SQLite does not ask whether it was, and would wait for itself. */
static bool is_stuck(const vfs_file *s)
{
	if (s->unlock_error) errno = s->unlock_error;
	return s->unlock_error != 0;
}

/* Slot 0 of the wal-index is the writer's. */
static int shim_shm_lock(sqlite3_file *f, int at, int n, int flags)
{
	vfs_file *log = vfs_file_of(f)->log;
	if (vfs_file_of(f)->frozen) return frozen_shm_lock(vfs_file_of(f)->frozen, flags);
	if (flags & SQLITE_SHM_LOCK && is_stuck(vfs_file_of(f))) return SQLITE_IOERR_SHMLOCK;
	int why = errno; /* SQLite asks for it after it has cleaned up */
	errno = 0;
	int rc = lock_result(real(f)->pMethods->xShmLock(real(f), at, n, flags), SQLITE_IOERR_SHMLOCK);
	if (flags & SQLITE_SHM_UNLOCK && rc != SQLITE_OK) vfs_file_of(f)->unlock_error = errno;
	if (rc == SQLITE_OK) errno = why;
	if (!log || at != 0 || !(flags & SQLITE_SHM_EXCLUSIVE)) return rc;
	if (flags & SQLITE_SHM_UNLOCK || rc == SQLITE_OK) log_write_begins(log, (flags & SQLITE_SHM_LOCK) != 0);
	return rc;
}

static int shim_close(sqlite3_file *f)
{
	vfs_file *s = vfs_file_of(f);
	if (s->database) s->database->log = NULL;
	if (s->log) s->log->database = NULL;
	free(s->gathered);
	free(s->page);
	free(s->notes);
	s->gathered = s->page = NULL;
	s->notes = NULL;
	frozen_close(s->frozen);
	s->frozen = NULL;
	int rc = s->real->pMethods ? s->real->pMethods->xClose(s->real) : SQLITE_OK;
	room_done(&s->room);
	held_release(s->held);
	s->held = NULL;
	return rc;
}

/* ---- passed on ---- */

static int shim_lock(sqlite3_file *f, int level)
{
	if (is_stuck(vfs_file_of(f))) return SQLITE_IOERR_LOCK;
	errno = 0;
	return lock_result(real(f)->pMethods->xLock(real(f), level), SQLITE_IOERR_LOCK);
}

static int shim_unlock(sqlite3_file *f, int level)
{
	int why = errno; /* SQLite asks for it after it has cleaned up */
	int rc = real(f)->pMethods->xUnlock(real(f), level);
	if (rc != SQLITE_OK) vfs_file_of(f)->unlock_error = errno;
	else errno = why;
	return rc;
}

static int shim_check_reserved(sqlite3_file *f, int *out)
{
	return real(f)->pMethods->xCheckReservedLock(real(f), out);
}

static int shim_control(sqlite3_file *f, int op, void *arg)
{
	if (op == SQLITE_FCNTL_CKPT_START && vfs_file_of(f)->is_base) base_learn(vfs_file_of(f));
	/* Growing a file by its size hint would bypass the record. */
	if (vfs_file_of(f)->plan && (op == SQLITE_FCNTL_SIZE_HINT || op == SQLITE_FCNTL_CHUNK_SIZE)) return SQLITE_OK;
	io_bounded bounded = io_bounded_begin();
	int rc = real(f)->pMethods->xFileControl(real(f), op, arg);
	io_bounded_end(&bounded);
	return rc;
}

static int shim_sector_size(sqlite3_file *f)
{
	return real(f)->pMethods->xSectorSize(real(f));
}

static int shim_characteristics(sqlite3_file *f)
{
	return real(f)->pMethods->xDeviceCharacteristics(real(f));
}

int index_map(vfs_file *s, int page, int size, int extend, void volatile **out)
{
	if (s->frozen) {
		int rc = frozen_shm_map(s->frozen, page, size, extend, out);
		if (page == 0) s->index = rc == SQLITE_OK ? *out : NULL;
		return rc;
	}
	bool first = s->index_blocks == 0 && s->held;
	if (first) held_index_enter(s->held, s->at);
	io_bounded bounded = io_bounded_begin();
	errno = 0;
	int rc = lock_result(s->real->pMethods->xShmMap(s->real, page, size, extend, out), SQLITE_IOERR_SHMOPEN);
	io_bounded_end(&bounded);
	int error = errno;
	if (page == 0) s->index = rc == SQLITE_OK ? *out : NULL;
	if (first) held_index_leave(s->held);
	if (rc != SQLITE_OK) errno = error; /* for the message */
	if (rc == SQLITE_OK && *out && page >= s->index_blocks) s->index_blocks = page + 1;
	/* SQLite makes room for the wal-index by one byte per 4 KiB; where a filesystem's blocks are smaller, a full disk would show as a
	 * SIGBUS at the first store into the rest. Asked for all of it now, the kernel says so instead. */
	if (rc == SQLITE_OK && *out && madvise((void *)(uintptr_t)*out, (size_t)size, MADV_POPULATE_WRITE) != 0 && errno == EFAULT)
		return SQLITE_FULL;
	return rc;
}

static int shim_shm_map(sqlite3_file *f, int page, int size, int extend, void volatile **out)
{
	return index_map(vfs_file_of(f), page, size, extend, out);
}

static void shim_shm_barrier(sqlite3_file *f)
{
	if (!vfs_file_of(f)->frozen) real(f)->pMethods->xShmBarrier(real(f));
}

static int shim_shm_unmap(sqlite3_file *f, int delete)
{
	vfs_file_of(f)->index = NULL;
	vfs_file_of(f)->index_blocks = 0;
	if (vfs_file_of(f)->frozen) {
		frozen_shm_unmap(vfs_file_of(f)->frozen);
		return SQLITE_OK;
	}
	return real(f)->pMethods->xShmUnmap(real(f), delete);
}

static int shim_fetch(sqlite3_file *f, sqlite3_int64 at, int n, void **out)
{
	return real(f)->pMethods->xFetch(real(f), at, n, out);
}

static int shim_unfetch(sqlite3_file *f, sqlite3_int64 at, void *page)
{
	return real(f)->pMethods->xUnfetch(real(f), at, page);
}

static const sqlite3_io_methods shim_methods = {
	.iVersion = 3,
	.xClose = shim_close,
	.xRead = shim_read,
	.xWrite = shim_write,
	.xTruncate = shim_truncate,
	.xSync = shim_sync,
	.xFileSize = shim_file_size,
	.xLock = shim_lock,
	.xUnlock = shim_unlock,
	.xCheckReservedLock = shim_check_reserved,
	.xFileControl = shim_control,
	.xSectorSize = shim_sector_size,
	.xDeviceCharacteristics = shim_characteristics,
	.xShmMap = shim_shm_map,
	.xShmLock = shim_shm_lock,
	.xShmBarrier = shim_shm_barrier,
	.xShmUnmap = shim_shm_unmap,
	.xFetch = shim_fetch,
	.xUnfetch = shim_unfetch,
};

/* ---- what others ask ---- */

vfs_file *vfs_file_open_in(sqlite3 *db)
{
	sqlite3_file *f = NULL;
	if (sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &f) != SQLITE_OK || !f) return NULL;
	return f->pMethods == &shim_methods ? vfs_file_of(f) : NULL;
}

int vfs_write_error(sqlite3 *db)
{
	const vfs_file *s = vfs_file_open_in(db);
	return s ? s->write_error : 0;
}

/* ---- the VFS ---- */

static cb_code load_bytes(void *file, uint64_t offset, void *to, size_t size)
{
	sqlite3_file *f = file;
	for (size_t done = 0; done < size;) {
		size_t n = size - done < (1u << 20) ? size - done : 1u << 20;
		if (f->pMethods->xRead(f, (uint8_t *)to + done, (int)n, (sqlite3_int64)(offset + done)) != SQLITE_OK) return CB_IO;
		done += n;
	}
	return CB_OK;
}

static bool has_frames(const char *log)
{
	struct stat st;
	return lstat(log, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > LOG_HEADER_BYTES;
}

static _Thread_local const char *temporary_path;

void vfs_temporary_set(const char *path)
{
	temporary_path = path;
}

/* SQLite would take a name in $TMPDIR or /tmp, which may be small, or memory. */
static int temporary_open(sqlite3_file *f, int flags, int *out_flags)
{
	int plain_flags = (flags & ~(SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_URI)) | SQLITE_OPEN_TEMP_DB;
	(void)unlink(temporary_path); /* of a process that was killed between making and unlinking it */
	return vfs_host()->xOpen(vfs_host(), temporary_path, f, plain_flags, out_flags);
}

static int host_open(const char *name, sqlite3_file *f, int flags, int *out_flags)
{
	if (!name && temporary_path) return temporary_open(f, flags, out_flags);
	int narrow = flags & ~SQLITE_OPEN_CREATE;
	if ((flags & SQLITE_OPEN_WAL) && has_frames(name) && vfs_host()->xOpen(vfs_host(), name, f, narrow, out_flags) == SQLITE_OK)
		return SQLITE_OK;
	return vfs_host()->xOpen(vfs_host(), name, f, flags, out_flags);
}

static base_place place_of(const char *name)
{
	int folder = (int)sqlite3_uri_int64(name, FOLDER_PARAMETER, -1);
	return folder < 0 ? (base_place){AT_FDCWD, name} : (base_place){folder, strrchr(name, '/') + 1};
}

static int shim_open(sqlite3_vfs *v, const char *name, sqlite3_file *f, int flags, int *out_flags)
{
	vfs_file *s = vfs_file_of(f);
	store_fault_plan *plan = v->pAppData;
	*s = (vfs_file){.plan = plan, .path = name, .real = (sqlite3_file *)(void *)(s + 1), .room = {.log_fd = -1}};
	s->real->pMethods = NULL;
	if (flags & SQLITE_OPEN_MAIN_DB && name) s->at = place_of(name);
	int error = fault_strike(plan, STORE_FAULT_OPEN);
	errno = error;
	if (error) return io_code(error, SQLITE_CANTOPEN);
	const vfs_file *database = flags & SQLITE_OPEN_WAL ? vfs_file_of(sqlite3_database_file_object(name)) : NULL;
	if (database && database->frozen && frozen_lacks_log(database->frozen)) {
		frozen_empty(f, flags, out_flags);
		return SQLITE_OK;
	}
	int rc = host_open(name, s->real, flags, out_flags);
	if (rc == SQLITE_OK && database && database->frozen) frozen_log_opened(database->frozen);
	if (rc == SQLITE_OK && flags & SQLITE_OPEN_MAIN_DB && sqlite3_uri_boolean(name, FROZEN_PARAMETER, 0))
		rc = frozen_open(s->at, &s->frozen);
	if (rc != SQLITE_OK) {
		if (s->real->pMethods) (void)s->real->pMethods->xClose(s->real);
		return rc;
	}
	f->pMethods = &shim_methods;
	if (flags & SQLITE_OPEN_WAL) {
		s->database = vfs_file_of(sqlite3_database_file_object(name));
		s->database->log = s;
	}
	if ((flags & SQLITE_OPEN_MAIN_DB) && name && !s->frozen) {
		s->held = held_take(s->at);
		room_init(&s->room, s->at, s->held, plan);
	}
	s->is_base = (flags & SQLITE_OPEN_MAIN_DB) && name;
	if (s->is_base) base_learn(s);
	sqlite3_int64 size = 0;
	if (plan && name && s->real->pMethods->xFileSize(s->real, &size) == SQLITE_OK)
		fault_saw_open(plan, name, (uint64_t)size, load_bytes, s->real);
	return SQLITE_OK;
}

room *vfs_room(sqlite3 *db)
{
	vfs_file *s = vfs_file_open_in(db);
	return s && s->held ? &s->room : NULL;
}

static int shim_delete(sqlite3_vfs *v, const char *name, int flush)
{
	int rc = vfs_host()->xDelete(vfs_host(), name, flush);
	if (rc == SQLITE_OK && v->pAppData) fault_saw_delete(v->pAppData, name, flush != 0);
	return rc;
}

static int shim_access(sqlite3_vfs *v, const char *name, int flags, int *out)
{
	(void)v;
	return vfs_host()->xAccess(vfs_host(), name, flags, out);
}

static int shim_full_path(sqlite3_vfs *v, const char *name, int n, char *out)
{
	(void)v;
	if (strncmp(name, VFS_DESCRIPTORS, strlen(VFS_DESCRIPTORS)) != 0)
		return vfs_host()->xFullPathname(vfs_host(), name, n, out);
	return snprintf(out, (size_t)n, "%s", name) < n ? SQLITE_OK
	                                                : SQLITE_CANTOPEN; /* it would be replaced by where it leads now */
}

static int shim_randomness(sqlite3_vfs *v, int n, char *out)
{
	(void)v;
	return vfs_host()->xRandomness(vfs_host(), n, out);
}

static int shim_sleep(sqlite3_vfs *v, int us)
{
	(void)v;
	return vfs_host()->xSleep(vfs_host(), us);
}

static int shim_time(sqlite3_vfs *v, double *out)
{
	(void)v;
	return vfs_host()->xCurrentTime(vfs_host(), out);
}

static int shim_last_error(sqlite3_vfs *v, int n, char *out)
{
	(void)v;
	return vfs_host()->xGetLastError(vfs_host(), n, out);
}

static int shim_time_ms(sqlite3_vfs *v, sqlite3_int64 *out)
{
	(void)v;
	return vfs_host()->xCurrentTimeInt64(vfs_host(), out);
}

void vfs_build(sqlite3_vfs *v, const char *name, store_fault_plan *plan)
{
	*v = (sqlite3_vfs){
		.iVersion = 2,
		.szOsFile = (int)sizeof(vfs_file) + vfs_host()->szOsFile,
		.mxPathname = vfs_host()->mxPathname,
		.zName = name,
		.pAppData = plan,
		.xOpen = shim_open,
		.xDelete = shim_delete,
		.xAccess = shim_access,
		.xFullPathname = shim_full_path,
		.xRandomness = shim_randomness,
		.xSleep = shim_sleep,
		.xCurrentTime = shim_time,
		.xGetLastError = shim_last_error,
		.xCurrentTimeInt64 = shim_time_ms,
	};
}

static sqlite3_vfs plain;
static pthread_once_t plain_once = PTHREAD_ONCE_INIT;
static bool plain_registered;

static void plain_register(void)
{
	if (sqlite3_initialize() != SQLITE_OK || !vfs_host()) return;
	vfs_build(&plain, "cowbox", NULL);
	plain_registered = sqlite3_vfs_register(&plain, 0) == SQLITE_OK;
}

const char *vfs_name(store_fault_plan *plan)
{
	if (plan) return fault_vfs_name(plan);
	(void)pthread_once(&plain_once, plain_register);
	return plain_registered ? "cowbox" : NULL;
}
