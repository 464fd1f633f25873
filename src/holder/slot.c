/*
 * slot.c: the folders of a slot, and the overlay that makes one root of them.
 *
 *   NAME/tree            PLAIN: the root itself
 *   NAME/upper           STACK, THROWAWAY: what changed on top of the layers
 *   NAME/work.K          overlayfs's own; a new one for each mount, since a volatile overlay refuses one that it left
 *   NAME/mnt             where it is mounted, in our mount namespace only
 *   NAME/empty           the layer when there is none: an overlay needs one
 *   NAME/seen            what is known of tree or upper (seen.c)
 *   NAME/cache           for programs that keep one
 *
 * Names given to mount(2) are relative to the area, which is the working folder: they work below folders that we may not search, and
 * /proc/self/mountinfo in the box names no store. By the area's descriptor alone nothing can be mounted: it was opened in another mount
 * namespace, and only the working folder came along.
 */
#include "holder/tree.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "host/host.h"

enum {
	OPTIONS_BYTES = 4096, /* as much as mount(2) takes */
	ROOT_MODE = 0755,
	FOLDER_MODE = 0700,
};

/* The tmpfs that stands for the area, once a slot asked for it: layers sealed there are to be found by the next WORK. It lives as long
 * as our mount namespace. One holder, one thread. */
static int memory_area = -1;

/* ---- folders ---- */

static void close_fd(int *fd)
{
	if (*fd >= 0) (void)close(*fd);
	*fd = -1;
}

/* Made when it is not there, with exactly this mode. */
static cb_code folder_open(int dir, const char *name, mode_t mode, int *out, bool *out_made, cb_error *err)
{
	AUTO_FD int fd = -1;
	bool made = mkdirat(dir, name, FOLDER_MODE) == 0;
	if (!made && errno != EEXIST) return cb_err_errno(err, errno, "cannot make folder '%s'", name);
	CB_TRY(host_dir_open(dir, name, 0, &fd, NULL, err));
	if (made && mode != FOLDER_MODE) CB_TRY(host_mode_set(fd, mode, err));
	if (out_made) *out_made = made;
	*out = TAKE_FD(fd);
	return CB_OK;
}

static cb_code folder_make(int dir, const char *name, cb_error *err)
{
	AUTO_FD int fd = -1;
	return folder_open(dir, name, FOLDER_MODE, &fd, NULL, err);
}

static const char *changes_name(const slot *s)
{
	return s->mode == WIRE_PLAIN ? "tree" : "upper";
}

static bool is_stale(const char *name)
{
	return strncmp(name, "work.", 5) == 0 || temporary_is(name);
}

/* Takes away what mounts and writes before this one left. *out_next: a number that no work folder has. */
static cb_code clean(int folder, unsigned *out_next, cb_error *err)
{
	int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	if (!d) {
		close_fd(&copy);
		return cb_err_errno(err, errno, "cannot list the folder of a slot");
	}
	cb_code code = CB_OK;
	unsigned next = 0;
	for (const struct dirent *e; code == CB_OK && (e = readdir(d));) {
		if (!is_stale(e->d_name)) continue;
		unsigned number = e->d_name[0] == 'w' ? (unsigned)strtoul(e->d_name + 5, NULL, 10) + 1 : 0;
		if (number > next) next = number;
		code = folder_remove(folder, e->d_name, err);
	}
	(void)closedir(d);
	*out_next = next;
	return code;
}

/* ---- mounting ---- */

static cb_code check_option(const char *name, cb_error *err)
{
	if (!strpbrk(name, ",:\\")) return CB_OK;
	return cb_err_set(err, CB_INVALID, "'%s' cannot be mounted: its name has one of , : \\", name);
}

static cb_code options_add(buf *b, cb_error *err, const char *before, const char *name, const char *after)
{
	CB_TRY(check_option(name, err));
	return buf_printf(b, err, "%s%s%s", before, name, after);
}

static cb_code options_make(const slot *s, const wire_work *work, unsigned number, buf *b, cb_error *err)
{
	char last[32];
	const char *before = "lowerdir=";
	for (const char *name = NULL; (name = wire_strings_next(&work->layers, name)); before = ":")
		CB_TRY(options_add(b, err, before, name, "/tree"));
	if (work->layers.count == 0) CB_TRY(options_add(b, err, before, s->name, "/empty"));
	CB_TRY(options_add(b, err, ",upperdir=", s->name, "/upper"));
	(void)snprintf(last, sizeof(last), "/work.%u", number);
	CB_TRY(options_add(b, err, ",workdir=", s->name, last));
	return buf_append(b, ",userxattr,volatile", sizeof(",userxattr,volatile"), err);
}

static cb_code unsupported(cb_error *err, int why, const char *what)
{
	char text[128];
	return cb_err_set(err, CB_UNSUPPORTED, "%s: %s", what, strerror_r(why, text, sizeof(text)));
}

/* Where attributes cannot be set, overlayfs mounts all the same and fails later, when a folder takes the place of a removed one. */
static cb_code check_attributes(int upper, cb_error *err)
{
	static const char name[] = "user.cowbox";
	if (fsetxattr(upper, name, "1", 1, 0) == 0 && fremovexattr(upper, name) == 0) return CB_OK;
	return unsupported(err, errno, "overlayfs needs attributes");
}

static cb_code stack_mount(slot *s, const wire_work *work, unsigned number, cb_error *err)
{
	char name[32], at[LIMIT_NAME_BYTES + 8];
	AUTO_BUF buf options = BUF_INIT(OPTIONS_BYTES);
	(void)snprintf(name, sizeof(name), "work.%u", number);
	CB_TRY(folder_make(s->folder, name, err));
	CB_TRY(folder_make(s->folder, "mnt", err));
	if (work->layers.count == 0) CB_TRY(folder_make(s->folder, "empty", err));
	cb_code code = options_make(s, work, number, &options, err);
	if (code == CB_LIMIT) return cb_err_set(err, CB_LIMIT, "%zu layers are too many to mount", work->layers.count);
	if (code != CB_OK) return code;
	(void)snprintf(at, sizeof(at), "%s/mnt", s->name);
	if (mount("overlay", at, "overlay", MS_NOSUID | MS_NODEV, options.bytes) != 0)
		return errno == ENOENT ? cb_err_set(err, CB_NOTFOUND, "a layer is not there")
		                       : unsupported(err, errno, "overlayfs refuses to be mounted");
	s->mounted = true;
	/* By the same path, so that it is the root of what was mounted and not the folder below it. */
	s->root = open(at, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return s->root < 0 ? cb_err_errno(err, errno, "cannot open the mounted root") : CB_OK;
}

/* Closes everything that would keep the overlay in use. Nobody is inside: whoever calls ended the sandbox. */
static cb_code stack_unmount(slot *s, cb_error *err)
{
	char at[LIMIT_NAME_BYTES + 8];
	close_fd(&s->root);
	if (!s->mounted) return CB_OK;
	(void)snprintf(at, sizeof(at), "%s/mnt", s->name);
	if (umount2(at, UMOUNT_NOFOLLOW) != 0)
		return errno == EBUSY ? cb_err_set(err, CB_BUSY, "somebody is still in slot '%s'", s->name)
		                      : cb_err_errno(err, errno, "cannot unmount slot '%s'", s->name);
	s->mounted = false;
	return CB_OK;
}

/* ---- memory ---- */

static cb_code memory_open(slot *s, const wire_work *work, cb_error *err)
{
	char options[64];
	if (memory_area < 0) {
		CB_TRY(folder_make(s->area, work->name, err));
		(void)snprintf(options, sizeof(options), "mode=0700,size=%llu", (unsigned long long)work->memory_bytes);
		if (mount("tmpfs", work->name, "tmpfs", MS_NOSUID | MS_NODEV, options) != 0)
			return cb_err_errno(err, errno, "cannot mount a tmpfs");
		memory_area = open(work->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (memory_area < 0 || fchdir(memory_area) != 0) return cb_err_errno(err, errno, "cannot open a tmpfs");
	}
	s->area = memory_area;
	return CB_OK;
}

/* ---- open, close ---- */

static void slot_drop(slot *s)
{
	close_fd(&s->folder);
	close_fd(&s->root);
	close_fd(&s->changes);
	close_fd(&s->cache);
	seen_destroy(s->seen);
	*s = SLOT_NONE;
}

static bool is_remembered(const slot *s)
{
	return s->mode != WIRE_THROWAWAY && s->area != memory_area;
}

static cb_code changes_open(slot *s, const wire_work *work, cb_error *err)
{
	bool made;
	CB_TRY(seen_create(&s->seen, err));
	if (is_remembered(s)) CB_TRY(seen_load(s->seen, s->folder, err));
	if (work->wipe || s->mode == WIRE_THROWAWAY) {
		seen_forget(s->seen);
		CB_TRY(folder_remove(s->folder, changes_name(s), err));
	}
	CB_TRY(folder_open(s->folder, changes_name(s), ROOT_MODE, &s->changes, &made, err));
	/* An empty tree has nothing that was seen: what the memory is of went some other way. */
	if (made) seen_forget(s->seen);
	return made && s->mode != WIRE_PLAIN ? check_attributes(s->changes, err) : CB_OK;
}

static cb_code slot_fill(slot *s, const wire_work *work, cb_error *err)
{
	unsigned number = 0;
	if (work->memory) CB_TRY(memory_open(s, work, err));
	CB_TRY(folder_open(s->area, work->name, FOLDER_MODE, &s->folder, NULL, err));
	CB_TRY(clean(s->folder, &number, err));
	CB_TRY(changes_open(s, work, err));
	if (s->mode != WIRE_PLAIN) return stack_mount(s, work, number, err);
	s->root = fcntl(s->changes, F_DUPFD_CLOEXEC, 3);
	return s->root < 0 ? cb_err_errno(err, errno, "cannot keep a folder open") : CB_OK;
}

cb_code slot_open(slot *s, int area, const wire_work *work, cb_error *err)
{
	*s = SLOT_NONE;
	s->area = area;
	s->mode = work->mode;
	CB_TRY(host_name_check(work->name, err));
	(void)snprintf(s->name, sizeof(s->name), "%s", work->name);
	cb_code code = slot_fill(s, work, err);
	if (code == CB_OK) return CB_OK;
	(void)stack_unmount(s, NULL);
	slot_drop(s);
	return cb_err_wrap(err, code, "slot '%s'", work->name);
}

cb_code slot_close(slot *s, cb_error *err)
{
	if (s->folder < 0) return CB_OK;
	cb_code code = stack_unmount(s, err);
	if (code == CB_OK && s->mode == WIRE_THROWAWAY) code = folder_remove(s->folder, changes_name(s), err);
	if (code == CB_OK && is_remembered(s)) code = seen_save(s->seen, s->folder, err);
	slot_drop(s);
	return code;
}

/* The layer's folder may be there, from a seal that a crash ended; a tree in it may not. */
static cb_code become_layer(const slot *s, const char *layer, cb_error *err)
{
	AUTO_FD int fd = -1;
	CB_TRY(folder_open(s->area, layer, FOLDER_MODE, &fd, NULL, err));
	return host_rename(s->folder, changes_name(s), fd, "tree", false, err);
}

cb_code slot_seal(slot *s, const char *layer, cb_error *err)
{
	assert(s->folder >= 0);
	CB_TRY(check_option(layer, err));
	CB_TRY(stack_unmount(s, err));
	seen_forget(s->seen);
	cb_code code = become_layer(s, layer, err);
	if (code != CB_OK) return cb_err_wrap(err, code, "sealing slot '%s'", s->name);
	slot_drop(s);
	return CB_OK;
}

cb_code slot_wipe(slot *s, cb_error *err)
{
	assert(s->folder >= 0);
	CB_TRY(stack_unmount(s, err));
	seen_forget(s->seen);
	cb_code code = folder_remove(s->folder, changes_name(s), err);
	if (code != CB_OK) return cb_err_wrap(err, code, "emptying slot '%s'", s->name);
	slot_drop(s);
	return CB_OK;
}
