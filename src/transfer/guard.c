/* guard.c: what lies in the folder of the open store. */
#include "transfer/guard.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "box/box.h"

bool guard_is_store(const cb_store *cs, const host_stat *stat)
{
	int fd = box_store_folder(cs);
	host_stat own;
	if (stat->type != HOST_DIR || fd < 0 || host_stat_fd(fd, &own, NULL) != CB_OK) return false;
	return stat->dev == own.dev && stat->ino == own.ino;
}

cb_code guard_folder(const cb_store *cs, int folder, const char *what, cb_error *err)
{
	int own = box_store_folder(cs);
	if (own < 0 || io_folder_depth(folder, own) < 0) return CB_OK;
	return cb_err_set(err, CB_INVALID, "it lies in the store's own folder: %s needs a place outside of it", what);
}

cb_code guard_stream(const cb_store *cs, int fd, const char *what, cb_error *err)
{
	char link[64], path[PATH_MAX];
	struct stat file, named;
	if (box_store_folder(cs) < 0 || fstat(fd, &file) != 0 || !S_ISREG(file.st_mode)) return CB_OK;
	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t size = readlink(link, path, sizeof(path) - 1);
	if (size <= 0 || path[0] != '/') return CB_OK;
	path[size] = 0;
	char *name = strrchr(path, '/') + 1;
	AUTO_FREE char *folder = mem_dup(path, (size_t)(name - path) + 1);
	if (!folder) return cb_err_nomem(err);
	folder[name - path] = 0;
	AUTO_FD int dir = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	/* Removed or renamed meanwhile: the name says nothing of this file. */
	if (dir < 0 || fstatat(dir, name, &named, AT_SYMLINK_NOFOLLOW) != 0) return CB_OK;
	if (named.st_dev != file.st_dev || named.st_ino != file.st_ino) return CB_OK;
	cb_code code = guard_folder(cs, dir, what, err);
	return code == CB_OK ? CB_OK : cb_err_wrap(err, code, "writing to '%s'", name);
}
