/*
 * write.c: making, replacing and removing names in a folder of the host.
 *
 * Crash window: whatever takes its final name does so in one rename or link, complete. A process killed before leaves a thing with a
 * temporary name beside it, which the next one to write there sweeps away (base/temporary.h).
 */
#include "base/entry.h"
#include "base/io.h"
#include "host/internal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

enum { NS_PER_S = 1000000000 };

/* ---- temporary names ---- */

cb_code host_writer_begin(host_writer *w, int dir, cb_error *err)
{
	CB_TRY(temporary_file(dir, w->temporary, &w->fd, err));
	w->era = entry_era();
	w->dir = dir;
	return CB_OK;
}

cb_code host_writer_begin_as(host_writer *w, int dir, const char *name, cb_error *err)
{
	CB_TRY(host_name_check(name, err));
	int fd = io_open_at(dir, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	if (fd < 0) return host_fail(err, errno, "make", name);
	*w = (host_writer){.era = entry_era(), .dir = dir, .fd = fd, .named = name};
	return CB_OK;
}

cb_code host_writer_commit(host_writer *w, const char *name, bool replace, cb_error *err)
{
	assert(!w->named || strcmp(w->named, name) == 0);
	if (!w->named) CB_TRY(host_rename(w->dir, w->temporary, w->dir, name, replace, err));
	w->named = NULL;
	w->temporary[0] = 0;
	/* Some filesystems tell only now that there was no room. The name is there by then; the caller hears of it. */
	int fd = TAKE_FD(w->fd);
	if (close(fd) != 0 && errno != EINTR) return host_fail(err, errno, "write", name);
	return CB_OK;
}

void host_writer_done(host_writer *w)
{
	if (w->fd < 0) return;
	(void)close(TAKE_FD(w->fd));
	if (w->era == entry_era() && (w->named || w->temporary[0])) (void)unlinkat(w->dir, w->named ? w->named : w->temporary, 0);
}

cb_code host_dir_commit(int dir, const char *temporary, const char *name, cb_error *err)
{
	CB_TRY(host_name_check(name, err));
	if (renameat2(dir, temporary, dir, name, RENAME_NOREPLACE) == 0) return CB_OK;
	/* A plain rename of a folder replaces nothing but an empty folder. */
	if ((errno == EINVAL || errno == ENOSYS) && renameat(dir, temporary, dir, name) == 0) return CB_OK;
	return errno == ENOTEMPTY || errno == ENOTDIR ? host_fail(err, EEXIST, "name", name) : host_fail(err, errno, "name", name);
}

/* ---- names ---- */

/* Filesystems without RENAME_NOREPLACE: a second link says EEXIST as well. */
static cb_code rename_by_link(int from_dir, const char *from, int dir, const char *name, cb_error *err)
{
	if (linkat(from_dir, from, dir, name, 0) != 0) return host_fail(err, errno, "name", name);
	(void)unlinkat(from_dir, from, 0);
	return CB_OK;
}

cb_code host_rename(int from_dir, const char *from, int dir, const char *name, bool replace, cb_error *err)
{
	CB_TRY(host_name_check(from, err));
	CB_TRY(host_name_check(name, err));
	if (renameat2(from_dir, from, dir, name, replace ? 0 : RENAME_NOREPLACE) == 0) return CB_OK;
	if (!replace && (errno == EINVAL || errno == ENOSYS)) return rename_by_link(from_dir, from, dir, name, err);
	return host_fail(err, errno, "name", name);
}

cb_code host_dir_make(int dir, const char *name, uint32_t mode, cb_error *err)
{
	CB_TRY(host_name_check(name, err));
	return mkdirat(dir, name, (mode_t)mode) == 0 ? CB_OK : host_fail(err, errno, "make folder", name);
}

/* What takes the place of another thing without being a file that could be locked, a link, is made in a folder of its own. */
typedef struct scratch {
	int dir, fd;
	char name[HOST_TEMPORARY_BYTES];
} scratch;

/* A rename onto another name of the same file does nothing, so what was made is taken away with the folder. */
static cb_code scratch_end(scratch *s, cb_code code, const char *made, const char *name, cb_error *err)
{
	if (code == CB_OK) code = host_rename(s->fd, made, s->dir, name, true, err);
	(void)close(s->fd);
	temporary_remove(s->dir, s->name);
	return code;
}

cb_code host_symlink_make(int dir, const char *name, const char *target, bool replace, cb_error *err)
{
	CB_TRY(host_name_check(name, err));
	if (symlinkat(target, dir, name) == 0) return CB_OK;
	if (!replace || errno != EEXIST) return host_fail(err, errno, "make link", name);
	scratch s = {.dir = dir, .fd = -1};
	CB_TRY(temporary_folder(dir, s.name, &s.fd, err));
	cb_code code = symlinkat(target, s.fd, "link") == 0 ? CB_OK : host_fail(err, errno, "make link", name);
	return scratch_end(&s, code, "link", name, err);
}

/* Links, and looks whether that was what was meant: somebody may have put another thing there. */
static cb_code link_expected(int from_dir, const char *from, const host_stat *expected, int dir, const char *name, cb_error *err)
{
	host_stat s;
	if (linkat(from_dir, from, dir, name, 0) != 0) return host_fail(err, errno, "link", from);
	cb_code code = host_stat_at(dir, name, &s, err);
	if (code == CB_OK && s.dev == expected->dev && s.ino == expected->ino) return CB_OK;
	(void)unlinkat(dir, name, 0);
	return code == CB_OK ? cb_err_set(err, CB_BUSY, "'%s' was replaced meanwhile: try again", from) : code;
}

cb_code host_link_make(int from_dir, const char *from, const host_stat *expected, int dir, const char *name, bool replace,
                       cb_error *err)
{
	CB_TRY(host_name_check(from, err));
	CB_TRY(host_name_check(name, err));
	cb_error why;
	cb_code code = link_expected(from_dir, from, expected, dir, name, &why);
	if (code == CB_OK) return CB_OK;
	if (!replace || code != CB_EXISTS) {
		if (err) *err = why;
		return code;
	}
	scratch s = {.dir = dir, .fd = -1};
	CB_TRY(temporary_folder(dir, s.name, &s.fd, err));
	return scratch_end(&s, link_expected(from_dir, from, expected, s.fd, "link", err), "link", name, err);
}

cb_code host_file_remove(int dir, const char *name, cb_error *err)
{
	CB_TRY(host_name_check(name, err));
	return unlinkat(dir, name, 0) == 0 ? CB_OK : host_fail(err, errno, "remove", name);
}

cb_code host_dir_remove(int dir, const char *name, cb_error *err)
{
	CB_TRY(host_name_check(name, err));
	return unlinkat(dir, name, AT_REMOVEDIR) == 0 ? CB_OK : host_fail(err, errno, "remove folder", name);
}

/* ---- modes and times ---- */

cb_code host_mode_set(int fd, uint32_t mode, cb_error *err)
{
	return fchmod(fd, (mode_t)mode) == 0 ? CB_OK : cb_err_errno(err, errno, "cannot set a mode");
}

static struct timespec time_from(int64_t ns)
{
	if (ns == HOST_TIME_OMIT) return (struct timespec){.tv_nsec = UTIME_OMIT};
	int64_t seconds = ns / NS_PER_S, rest = ns % NS_PER_S;
	if (rest < 0) {
		rest += NS_PER_S;
		seconds--;
	}
	return (struct timespec){.tv_sec = (time_t)seconds, .tv_nsec = (long)rest};
}

cb_code host_times_set(int fd, int64_t atime_ns, int64_t mtime_ns, cb_error *err)
{
	struct timespec t[2] = {time_from(atime_ns), time_from(mtime_ns)};
	return futimens(fd, t) == 0 ? CB_OK : cb_err_errno(err, errno, "cannot set times");
}

cb_code host_times_set_at(int dir, const char *name, int64_t atime_ns, int64_t mtime_ns, cb_error *err)
{
	CB_TRY(host_name_check(name, err));
	struct timespec t[2] = {time_from(atime_ns), time_from(mtime_ns)};
	return utimensat(dir, name, t, AT_SYMLINK_NOFOLLOW) == 0 ? CB_OK : host_fail(err, errno, "set the times of", name);
}
