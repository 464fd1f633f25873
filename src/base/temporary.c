/* temporary.c: see temporary.h. */
#include "base/temporary.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

#include "base/attr.h"
#include "base/cancel.h"
#include "base/hash.h"
#include "base/io.h"

enum {
	NAME_TRIES = 100, /* somebody who guesses 64 random bits a hundred times is at work */
	DIGITS = 16,
	/* What cannot be opened cannot be asked for its lock: a file whose last mode denies it, which it has for a moment only before it
	 * gets its name. Older than this it is a dead one's. */
	UNREADABLE_S = 60,
	LATE_ENTRIES = 1000, /* some 10 ms (cancel.h) */
};

bool temporary_is(const char *name)
{
	size_t n = sizeof(TEMPORARY_PREFIX) - 1;
	return strncmp(name, TEMPORARY_PREFIX, n) == 0 && strlen(name) == n + DIGITS &&
	       strspn(name + n, "0123456789abcdef") == DIGITS;
}

void temporary_name(char out[TEMPORARY_BYTES])
{
	static _Atomic uint64_t seed, count;
	uint64_t base = atomic_load(&seed);
	if (!base) {
		if (getrandom(&base, sizeof(base), 0) != sizeof(base)) base = (uint64_t)getpid() << 32 ^ (uint64_t)time(NULL);
		atomic_store(&seed, base | 1);
	}
	/* A child of fork() has the same seed and count: its pid tells them apart. */
	uint64_t number = hash_u64(hash_u64(base + atomic_fetch_add(&count, 1)) ^ (uint64_t)getpid());
	(void)snprintf(out, TEMPORARY_BYTES, TEMPORARY_PREFIX "%016" PRIx64, number);
}

/* False: somebody else has it. A filesystem without locks counts as having it. */
static bool lock_try(int fd)
{
	while (flock(fd, LOCK_EX | LOCK_NB) != 0)
		if (errno != EINTR) return errno != EWOULDBLOCK;
	return true;
}

static bool is_there(int dir, const char *name)
{
	struct stat st;
	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static int make(int dir, const char *name, bool folder)
{
	if (!folder) return io_open_at(dir, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	if (mkdirat(dir, name, 0700) != 0) return -1;
	int fd = io_open_at(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0), why = errno;
	if (fd < 0) (void)unlinkat(dir, name, AT_REMOVEDIR);
	errno = why;
	return fd;
}

static cb_code make_locked(int dir, bool folder, char out_name[TEMPORARY_BYTES], int *out_fd, cb_error *err)
{
	int last = 0;
	for (int i = 0; i < NAME_TRIES; i++) {
		temporary_name(out_name);
		AUTO_FD int fd = make(dir, out_name, folder);
		last = fd < 0 ? errno : EEXIST;
		/* ENOENT: a folder that was swept before it was opened. */
		if (fd < 0 && errno != EEXIST && !(folder && errno == ENOENT && is_there(dir, ".")))
			return cb_err_errno(err, errno, "cannot make a %s", folder ? "folder" : "file");
		if (fd >= 0 && lock_try(fd) && is_there(dir, out_name)) {
			*out_fd = TAKE_FD(fd);
			return CB_OK;
		}
	}
	/* A filesystem that takes no folders (/proc) says each time that there is none. */
	if (last != EEXIST) return cb_err_errno(err, last, "cannot make a %s", folder ? "folder" : "file");
	return cb_err_set(err, CB_EXISTS, "every temporary name is taken");
}

cb_code temporary_file(int dir, char out_name[TEMPORARY_BYTES], int *out_fd, cb_error *err)
{
	return make_locked(dir, false, out_name, out_fd, err);
}

cb_code temporary_folder(int dir, char out_name[TEMPORARY_BYTES], int *out_fd, cb_error *err)
{
	return make_locked(dir, true, out_name, out_fd, err);
}

/* ---- removing ---- */

static DIR *list_open(int fd)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = copy < 0 ? NULL : fdopendir(copy);
	if (!list && copy >= 0) (void)close(copy);
	return list;
}

static bool is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* A folder that denies writing can neither be emptied nor moved. If it cannot be changed, what follows fails and says so. */
static void allow(int dir, const char *name)
{
	int ignored = fchmodat(dir, name, 0700, AT_SYMLINK_NOFOLLOW);
	(void)ignored;
}

/* A limit that is over leaves a removal so many entries: the rest waits for the next sweep. */
static bool is_over(unsigned *late)
{
	return cancel_is_due() && (*late)++ >= LATE_ENTRIES;
}

/* Empties a folder. Those in it go up to `top`, which is emptied after: so nothing is ever deeper than two, however deep the tree is.
 * True: something went. */
static bool empty_into(int top, int folder, uint64_t *count, unsigned *late)
{
	bool progress = false;
	DIR *list = list_open(folder);
	for (const struct dirent *e; list && !is_over(late) && (e = readdir(list));) {
		if (is_dots(e->d_name)) continue;
		bool gone = unlinkat(folder, e->d_name, 0) == 0;
		if (!gone && (errno == EISDIR || errno == EPERM)) {
			char name[32];
			(void)snprintf(name, sizeof(name), "up-%" PRIu64, (*count)++);
			allow(folder, e->d_name);
			gone = renameat2(folder, e->d_name, top, name, RENAME_NOREPLACE) == 0;
		}
		progress = progress || gone;
	}
	if (list) (void)closedir(list);
	return progress;
}

/* One pass over the entries of `top`. False: nothing went, so nothing will. */
static bool empty_once(int top, uint64_t *count, unsigned *late)
{
	bool progress = false;
	DIR *list = list_open(top);
	for (const struct dirent *e; list && !is_over(late) && (e = readdir(list));) {
		if (is_dots(e->d_name)) continue;
		if (unlinkat(top, e->d_name, 0) == 0) {
			progress = true;
			continue;
		}
		allow(top, e->d_name);
		AUTO_FD int folder = openat(top, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (folder >= 0 && empty_into(top, folder, count, late)) progress = true;
		if (unlinkat(top, e->d_name, AT_REMOVEDIR) == 0) progress = true;
	}
	if (list) (void)closedir(list);
	return progress;
}

void temporary_remove(int dir, const char *name)
{
	if (unlinkat(dir, name, 0) == 0 || unlinkat(dir, name, AT_REMOVEDIR) == 0) return;
	allow(dir, name);
	AUTO_FD int top = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	uint64_t count = 0;
	unsigned late = 0;
	while (top >= 0 && unlinkat(dir, name, AT_REMOVEDIR) != 0)
		if (!empty_once(top, &count, &late) || is_over(&late)) return;
}

/* A folder that root gave away: what is in it is another's, who may swap what he likes. Taking away empty folders harms nobody. */
static void remove_given(int dir, const char *name, int fd)
{
	DIR *list = list_open(fd);
	for (const struct dirent *e; list && (e = readdir(list));)
		if (!is_dots(e->d_name)) (void)unlinkat(fd, e->d_name, AT_REMOVEDIR);
	if (list) (void)closedir(list);
	(void)unlinkat(dir, name, AT_REMOVEDIR);
}

static void sweep_one(int dir, const char *name)
{
	struct stat st;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))) return;
	bool ours = st.st_uid == geteuid(), given = geteuid() == 0 && S_ISDIR(st.st_mode);
	if (!ours && !given) return;
	AUTO_FD int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 && (errno != EACCES || st.st_ctim.tv_sec + UNREADABLE_S > time(NULL))) return;
	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0) return; /* alive, or it cannot be told */
	if (!ours) remove_given(dir, name, fd);
	else if (is_there(dir, name)) temporary_remove(dir, name);
}

/* Adversary: somebody else who may rename what is in the folder could give a thing of ours that he cannot remove himself such a name. */
static bool is_trusted(int dir)
{
	struct stat st;
	if (fstat(dir, &st) != 0 || (st.st_uid != geteuid() && st.st_uid != 0)) return false;
	return !(st.st_mode & S_IWOTH) || st.st_mode & S_ISVTX;
}

void temporary_sweep(int dir)
{
	DIR *list = is_trusted(dir) ? list_open(dir) : NULL;
	for (const struct dirent *e; list && (e = readdir(list));)
		if (temporary_is(e->d_name)) sweep_one(dir, e->d_name);
	if (list) (void)closedir(list);
}

/* ---- by path ---- */

cb_code temporary_place_make(const char *above, temporary_place *out, cb_error *err)
{
	temporary_place p = TEMPORARY_PLACE_NONE;
	p.above = open(above, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cb_code code = p.above >= 0 ? CB_OK : cb_err_errno(err, errno, "'%s'", above);
	if (code == CB_OK) temporary_sweep(p.above);
	if (code == CB_OK) code = temporary_folder(p.above, p.name, &p.lock, err);
	if (code == CB_OK && asprintf(&p.path, "%s/%s", above, p.name) < 0) {
		p.path = NULL;
		code = cb_err_nomem(err);
	}
	if (code == CB_OK) *out = p;
	else temporary_place_remove(&p);
	return code;
}

void temporary_place_remove(temporary_place *p)
{
	if (p->lock >= 0) (void)close(p->lock); /* removing takes descriptors, and there may be none left but this */
	if (p->lock >= 0) temporary_remove(p->above, p->name);
	if (p->above >= 0) (void)close(p->above);
	free(p->path);
	*p = TEMPORARY_PLACE_NONE;
}
