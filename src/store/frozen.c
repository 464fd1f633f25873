/* frozen.c: see frozen.h. */
#include "store/frozen.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/limits.h"

enum { INDEX_LEAST = 32 << 10 }; /* of an index that is in use; a shorter one is left of one that could not be made */

/* What a file is known by: any writer changes one of these. */
typedef struct seen {
	bool there;
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec changed;
} seen;

struct frozen {
	int folder;
	char log[LIMIT_PATH_BYTES + 16], index[LIMIT_PATH_BYTES + 16];
	seen log_seen, index_seen;
	void **pages;
	int page_count;
};

static seen look(int folder, const char *file)
{
	struct stat st;
	if (fstatat(folder, file, &st, AT_SYMLINK_NOFOLLOW) != 0) return (seen){0};
	return (seen){true, st.st_dev, st.st_ino, st.st_size, st.st_ctim};
}

static bool is_same(const seen *a, const seen *b)
{
	return a->there == b->there && a->dev == b->dev && a->ino == b->ino && a->size == b->size &&
	       a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec;
}

int frozen_open(base_place at, frozen **out)
{
	frozen *z = mem_alloc(sizeof *z);
	if (!z) return SQLITE_NOMEM;
	*z = (frozen){.folder = at.folder};
	if ((size_t)snprintf(z->log, sizeof z->log, "%s-wal", at.name) >= sizeof z->log ||
	    (size_t)snprintf(z->index, sizeof z->index, "%s-shm", at.name) >= sizeof z->index) {
		free(z);
		return SQLITE_CANTOPEN;
	}
	z->log_seen = look(z->folder, z->log);
	z->index_seen = look(z->folder, z->index);
	if (z->log_seen.there && z->index_seen.there && z->index_seen.size >= INDEX_LEAST) {
		free(z);
		z = NULL;
	}
	*out = z;
	return SQLITE_OK;
}

void frozen_log_opened(frozen *z)
{
	z->log_seen = look(z->folder, z->log);
}

void frozen_shm_unmap(frozen *z)
{
	for (int i = 0; i < z->page_count; i++) free(z->pages[i]);
	free(z->pages);
	z->pages = NULL;
	z->page_count = 0;
}

void frozen_close(frozen *z)
{
	if (!z) return;
	frozen_shm_unmap(z);
	free(z);
}

/* A page that is not there yet is NULL unless the caller wants it made, as with SQLite's own. All pages have one size. */
int frozen_shm_map(frozen *z, int page, int size, int extend, void volatile **out)
{
	*out = NULL;
	if (page >= z->page_count) {
		if (!extend) return SQLITE_OK;
		void **wider = mem_realloc(z->pages, (size_t)(page + 1) * sizeof *wider);
		if (!wider) return SQLITE_NOMEM;
		z->pages = wider;
		for (; z->page_count <= page; z->page_count++) {
			void *fresh = mem_alloc_aligned((size_t)size);
			if (!fresh) return SQLITE_NOMEM;
			memset(fresh, 0, (size_t)size);
			z->pages[z->page_count] = fresh;
		}
	}
	*out = z->pages[page];
	return SQLITE_OK;
}

int frozen_shm_lock(frozen *z, int flags)
{
	if (flags & SQLITE_SHM_UNLOCK) return SQLITE_OK;
	seen log = look(z->folder, z->log), index = look(z->folder, z->index);
	return is_same(&log, &z->log_seen) && is_same(&index, &z->index_seen) ? SQLITE_OK : SQLITE_PROTOCOL;
}

bool frozen_lacks_log(const frozen *z)
{
	return !z->log_seen.there;
}

/* ---- the empty log ---- */

static int empty_ok(sqlite3_file *f)
{
	(void)f;
	return SQLITE_OK;
}

static int empty_read(sqlite3_file *f, void *to, int n, sqlite3_int64 at)
{
	(void)f;
	(void)at;
	memset(to, 0, (size_t)n);
	return SQLITE_IOERR_SHORT_READ;
}

static int empty_write(sqlite3_file *f, const void *bytes, int n, sqlite3_int64 at)
{
	(void)f;
	(void)bytes;
	(void)n;
	(void)at;
	return SQLITE_READONLY;
}

static int empty_truncate(sqlite3_file *f, sqlite3_int64 size)
{
	(void)f;
	return size == 0 ? SQLITE_OK : SQLITE_READONLY;
}

static int empty_flags(sqlite3_file *f, int flags)
{
	(void)f;
	(void)flags;
	return SQLITE_OK;
}

static int empty_size(sqlite3_file *f, sqlite3_int64 *out)
{
	(void)f;
	*out = 0;
	return SQLITE_OK;
}

static int empty_reserved(sqlite3_file *f, int *out)
{
	(void)f;
	*out = 0;
	return SQLITE_OK;
}

static int empty_control(sqlite3_file *f, int op, void *arg)
{
	(void)f;
	(void)op;
	(void)arg;
	return SQLITE_NOTFOUND;
}

static int empty_sector(sqlite3_file *f)
{
	(void)f;
	return 4096;
}

static int empty_characteristics(sqlite3_file *f)
{
	(void)f;
	return 0;
}

static const sqlite3_io_methods empty_methods = {
	.iVersion = 1,
	.xClose = empty_ok,
	.xRead = empty_read,
	.xWrite = empty_write,
	.xTruncate = empty_truncate,
	.xSync = empty_flags,
	.xFileSize = empty_size,
	.xLock = empty_flags,
	.xUnlock = empty_flags,
	.xCheckReservedLock = empty_reserved,
	.xFileControl = empty_control,
	.xSectorSize = empty_sector,
	.xDeviceCharacteristics = empty_characteristics,
};

void frozen_empty(sqlite3_file *f, int flags, int *out_flags)
{
	f->pMethods = &empty_methods;
	if (out_flags) *out_flags = (flags & ~(SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE)) | SQLITE_OPEN_READONLY;
}
