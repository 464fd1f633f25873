/*
 * apply.c: the root of a sandbox, as the plan says, in init's mount namespace before pivot_root.
 *
 * Adversary: the box. Its tree is the root, and an earlier command may have left anything in it: links where folders are to be
 * mounted, a /bin of its own. So places are found one name at a time from the root's descriptor, no link is ever followed, and what is
 * in the way at one of the system's names is removed. Nothing is made inside a bind: that would be the host's.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "holder/enter.h"
#include "host/host.h"

typedef struct applying {
	const plan *p;
	const slot *on;
	const int *fds;
	size_t fd_count;
	int root; /* in this mount namespace */
} applying;

/* ---- places ---- */

/* How much of the path is a place within which nothing may be made: the innermost bind that was attached before. 0: none. */
static size_t frozen_size(const applying *a, const plan_op *op)
{
	size_t size = 0;
	for (const plan_op *o = a->p->ops; o < op; o++)
		if ((o->type == PLAN_BIND || o->type == PLAN_ETC) && plan_path_within(op->to, o->to)) size = strlen(o->to);
	return size;
}

static cb_code make_name(int dir, const char *name, bool file, uint32_t mode, cb_error *err)
{
	int made = file ? mknodat(dir, name, S_IFREG | mode, 0) : mkdirat(dir, name, mode);
	return made == 0 || errno == EEXIST ? CB_OK : cb_err_errno(err, errno, "making '%s'", name);
}

typedef struct step {
	const char *path; /* the whole of it, for messages */
	char name[LIMIT_NAME_BYTES + 1];
	bool file, top, frozen;
	uint32_t mode;
} step;

/* Descends by one name, which is made when it is not there. */
static cb_code descend(int dir, const step *s, int *out, cb_error *err)
{
	for (int tries = 0; tries < 2; tries++) {
		AUTO_FD int fd = openat(dir, s->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		struct stat st;
		if (fd < 0 && errno != ENOENT) return cb_err_errno(err, errno, "opening '%s' of '%s'", s->name, s->path);
		if (fd < 0 && s->frozen)
			return cb_err_set(err, CB_NOTFOUND, "'%s' is not there to bind to, and nothing is made in another bind",
			                  s->path);
		if (fd < 0) {
			CB_TRY(make_name(dir, s->name, s->file, s->mode, err));
			continue;
		}
		if (fstat(fd, &st) != 0) return cb_err_errno(err, errno, "looking at '%s'", s->path);
		if (s->file ? S_ISREG(st.st_mode) : S_ISDIR(st.st_mode)) {
			*out = TAKE_FD(fd);
			return CB_OK;
		}
		if (!s->top)
			return cb_err_set(err, CB_NOTDIR, "'%s' cannot be bound to: '%s' in it is not a %s", s->path, s->name,
			                  s->file ? "file" : "folder");
		CB_TRY(area_remove(dir, s->name, err));
	}
	return cb_err_set(err, CB_BUSY, "'%s' changes while the sandbox is made", s->path);
}

/* The descriptor of the place `path`, of which the last part is a file or a folder. */
static cb_code place_at(const applying *a, const char *path, size_t frozen, bool file, uint32_t mode, int *out, cb_error *err)
{
	AUTO_FD int at = fcntl(a->root, F_DUPFD_CLOEXEC, 3);
	if (at < 0) return cb_err_errno(err, errno, "the root of the sandbox");
	for (const char *name = path + 1; *name;) {
		step s = {.path = path};
		size_t size = strcspn(name, "/");
		bool last = name[size] == 0;
		(void)snprintf(s.name, sizeof(s.name), "%.*s", (int)size, name);
		s.file = file && last;
		s.mode = last ? mode : 0755;
		s.top = name == path + 1 && plan_is_system_name(s.name, size);
		s.frozen = frozen && (size_t)(name - path) + size > frozen;
		int next = -1;
		CB_TRY(descend(at, &s, &next, err));
		(void)close(at);
		at = next;
		name += size + !last;
	}
	*out = TAKE_FD(at);
	return CB_OK;
}

static cb_code place(const applying *a, const plan_op *op, bool file, int *out, cb_error *err)
{
	return place_at(a, op->to, frozen_size(a, op), file, file ? 0644 : 0755, out, err);
}

/* A mount that is ready goes where the op says. */
static cb_code attach(const applying *a, const plan_op *op, int fd, cb_error *err)
{
	AUTO_FD int at = -1;
	struct stat st;
	if (fstat(fd, &st) != 0) return cb_err_errno(err, errno, "looking at what is mounted");
	CB_TRY(mount_flags(fd, op->flags, err));
	CB_TRY(place(a, op, !S_ISDIR(st.st_mode), &at, err));
	return mount_attach(fd, at, err);
}

/* ---- links ---- */

static bool link_is(int dir, const char *name, const char *target)
{
	char text[LIMIT_PATH_BYTES];
	ssize_t size = readlinkat(dir, name, text, sizeof(text));
	return size >= 0 && (size_t)size == strlen(target) && memcmp(text, target, (size_t)size) == 0;
}

static cb_code link_make(int dir, const char *name, const char *target, cb_error *err)
{
	struct stat st;
	if (link_is(dir, name, target)) return CB_OK;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0) CB_TRY(area_remove(dir, name, err));
	if (symlinkat(target, dir, name) != 0) return cb_err_errno(err, errno, "making the link '%s'", name);
	return CB_OK;
}

static cb_code apply_link(const applying *a, const plan_op *op, cb_error *err)
{
	const char *name = strrchr(op->to, '/') + 1;
	char folder[LIMIT_PATH_BYTES];
	AUTO_FD int dir = -1;
	(void)snprintf(folder, sizeof(folder), "%.*s", (int)(name - op->to - 1), op->to);
	CB_TRY(place_at(a, *folder ? folder : "/", frozen_size(a, op), false, 0755, &dir, err));
	return link_make(dir, name, op->from, err);
}

/* ---- /dev ---- */

static cb_code bind_device(int dev, const char *name, cb_error *err)
{
	char path[32];
	AUTO_FD int fd = -1, at = -1;
	(void)snprintf(path, sizeof(path), "/dev/%s", name);
	cb_code code = mount_copy(AT_FDCWD, path, &fd, err);
	if (code == CB_NOTFOUND) return CB_OK; /* a host without it has programs that live without it */
	CB_TRY(code);
	CB_TRY(make_name(dev, name, true, 0666, err));
	at = openat(dev, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (at < 0) return cb_err_errno(err, errno, "opening '%s'", path);
	CB_TRY(mount_flags(fd, PLAN_NOSUID | PLAN_NOEXEC, err));
	return mount_attach(fd, at, err);
}

static cb_code mount_in(int dir, const char *name, int fd, uint32_t flags, cb_error *err)
{
	CB_TRY(make_name(dir, name, false, 0755, err));
	AUTO_FD int at = openat(dir, name, O_PATH | O_NOFOLLOW | O_DIRECTORY | O_CLOEXEC);
	if (at < 0) return cb_err_errno(err, errno, "opening '%s'", name);
	CB_TRY(mount_flags(fd, flags, err));
	return mount_attach(fd, at, err);
}

static cb_code apply_dev(const applying *a, const plan_op *op, cb_error *err)
{
	static const char *const devices[] = {"null", "zero", "full", "random", "urandom", "tty"};
	static const struct {
		const char *name, *target;
	} links[] = {{"ptmx", "pts/ptmx"},
	             {"fd", "/proc/self/fd"},
	             {"stdin", "/proc/self/fd/0"},
	             {"stdout", "/proc/self/fd/1"},
	             {"stderr", "/proc/self/fd/2"}};
	AUTO_FD int dev = -1, shm = -1, pts = -1;
	CB_TRY(mount_tmpfs(LIMIT_SANDBOX_DEV_BYTES, op->mode, &dev, err));
	CB_TRY(attach(a, op, dev, err));
	for (size_t i = 0; i < ARRAY_LEN(devices); i++) CB_TRY(bind_device(dev, devices[i], err));
	for (size_t i = 0; i < ARRAY_LEN(links); i++)
		if (symlinkat(links[i].target, dev, links[i].name) != 0)
			return cb_err_errno(err, errno, "making /dev/%s", links[i].name);
	CB_TRY(mount_tmpfs(op->size_bytes, 01777, &shm, err));
	CB_TRY(mount_in(dev, "shm", shm, PLAN_NOSUID | PLAN_NODEV | PLAN_NOEXEC, err));
	CB_TRY(mount_devpts(&pts, err));
	return mount_in(dev, "pts", pts, PLAN_NOSUID | PLAN_NOEXEC, err);
}

/* ---- the others ---- */

static cb_code apply_bind(const applying *a, const plan_op *op, cb_error *err)
{
	AUTO_FD int fd = -1;
	if (op->fd_index >= 0) {
		if ((size_t)op->fd_index >= a->fd_count) return cb_err_set(err, CB_CORRUPT, "a bind's descriptor did not come");
		return attach(a, op, a->fds[op->fd_index], err);
	}
	cb_code code = mount_copy(AT_FDCWD, op->from, &fd, err);
	if (code == CB_NOTFOUND && (op->flags & PLAN_OPTIONAL)) return CB_OK;
	CB_TRY(code);
	return attach(a, op, fd, err);
}

static cb_code apply_etc(const applying *a, const plan_op *op, cb_error *err)
{
	AUTO_FREE char *name = NULL;
	AUTO_FD int fd = -1;
	CB_TRY(etc_prepare(AT_FDCWD, a->p, op, &name, err));
	CB_TRY(mount_copy(AT_FDCWD, name, &fd, err));
	return attach(a, op, fd, err);
}

static cb_code apply_cache(const applying *a, const plan_op *op, cb_error *err)
{
	char path[LIMIT_NAME_BYTES + 16];
	AUTO_FD int fd = -1;
	(void)snprintf(path, sizeof(path), "%s/cache", a->on->name);
	if (mkdir(path, 0755) != 0 && errno != EEXIST) return cb_err_errno(err, errno, "making the folder of caches");
	CB_TRY(mount_copy(AT_FDCWD, path, &fd, err));
	return attach(a, op, fd, err);
}

static cb_code apply_op(const applying *a, const plan_op *op, cb_error *err)
{
	AUTO_FD int fd = -1;
	switch (op->type) {
	case PLAN_DIR:
		return place_at(a, op->to, frozen_size(a, op), false, op->mode, &fd, err);
	case PLAN_SYMLINK:
		return apply_link(a, op, err);
	case PLAN_BIND:
		return apply_bind(a, op, err);
	case PLAN_TMPFS:
		CB_TRY(mount_tmpfs(op->size_bytes, op->mode, &fd, err));
		return attach(a, op, fd, err);
	case PLAN_PROC:
		CB_TRY(mount_proc(&fd, err));
		return attach(a, op, fd, err);
	case PLAN_DEV:
		return apply_dev(a, op, err);
	case PLAN_ETC:
		return apply_etc(a, op, err);
	case PLAN_CACHE:
		return apply_cache(a, op, err);
	case PLAN_SUBTREE:
		return CB_OK; /* was first */
	}
	return cb_err_set(err, CB_INTERNAL, "an operation of a plan that nobody knows");
}

/* ---- the root ---- */

/* The folder of the tree stays where it is; a mount of it lies on top, for pivot_root wants one. */
static cb_code open_root(applying *a, cb_error *err)
{
	char path[LIMIT_NAME_BYTES + 16];
	bool plain = a->on->mode == WIRE_PLAIN;
	(void)snprintf(path, sizeof(path), "%s/%s", a->on->name, plain ? "tree" : "mnt");
	AUTO_FD int at = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), fd = -1;
	if (at < 0) return cb_err_errno(err, errno, "opening the tree");
	if (plain) {
		CB_TRY(mount_copy(at, "", &fd, err));
		CB_TRY(mount_attach(fd, at, err));
	}
	a->root = plain ? TAKE_FD(fd) : TAKE_FD(at);
	return mount_flags(a->root, PLAN_NOSUID | PLAN_NODEV, err);
}

/* A tmpfs over the tree, and in it one folder of the tree. */
static cb_code apply_subtree(applying *a, const plan_op *op, cb_error *err)
{
	AUTO_FD int part = -1, copy = -1, root = -1, at = -1;
	cb_code code = place_at(a, op->to, 1, false, 0755, &part, err);
	if (code == CB_NOTFOUND) return cb_err_set(err, CB_NOTFOUND, "'%s' is not in the box", op->to);
	CB_TRY(code);
	CB_TRY(mount_copy(part, "", &copy, err));
	CB_TRY(mount_flags(copy, op->flags, err));
	CB_TRY(mount_tmpfs(op->size_bytes, op->mode, &root, err));
	CB_TRY(mount_flags(root, op->flags, err));
	CB_TRY(mount_attach(root, a->root, err));
	(void)close(a->root);
	a->root = TAKE_FD(root);
	CB_TRY(place_at(a, op->to, 0, false, 0755, &at, err));
	return mount_attach(copy, at, err);
}

/* The system's names in it come and go with sandboxes; to the box that is no change. */
static void times_restore(int root, const struct stat *before)
{
	struct stat now;
	const struct timespec times[2] = {before->st_atim, before->st_mtim};
	if (fstat(root, &now) == 0 &&
	    (now.st_mtim.tv_sec != before->st_mtim.tv_sec || now.st_mtim.tv_nsec != before->st_mtim.tv_nsec))
		(void)utimensat(root, ".", times, 0);
}

static cb_code apply_all(applying *a, cb_error *err)
{
	const plan *p = a->p;
	struct stat before;
	CB_TRY(open_root(a, err));
	if (fstat(a->root, &before) != 0) return cb_err_errno(err, errno, "looking at the root");
	if (p->op_count && p->ops[0].type == PLAN_SUBTREE) CB_TRY(apply_subtree(a, &p->ops[0], err));
	for (size_t i = 0; i < p->op_count; i++) {
		cb_code code = apply_op(a, &p->ops[i], err);
		if (code != CB_OK) return cb_err_wrap(err, code, "'%s' of the sandbox", p->ops[i].to);
	}
	times_restore(a->root, &before);
	if (fchdir(a->root) != 0) return cb_err_errno(err, errno, "going to the root of the sandbox");
	return CB_OK;
}

cb_code plan_apply(const plan *p, const slot *on, const int *fds, size_t fd_count, cb_error *err)
{
	applying a = {.p = p, .on = on, .fds = fds, .fd_count = fd_count, .root = -1};
	cb_code code = apply_all(&a, err);
	if (a.root >= 0) (void)close(a.root);
	return code;
}

/* ---- between commands ---- */

static const plan_op *op_named(const plan *p, const char *name)
{
	for (size_t i = 0; i < p->op_count; i++)
		if (strcmp(p->ops[i].to + 1, name) == 0) return &p->ops[i];
	return NULL;
}

cb_code apply_tidy(const plan *p, int root, cb_error *err)
{
	struct stat st, before;
	/* Then the root is not the box's. */
	if (p->op_count && p->ops[0].type == PLAN_SUBTREE) return CB_OK;
	if (fstat(root, &before) != 0) return cb_err_errno(err, errno, "looking at the root");
	for (size_t i = 0; plan_system_name(i); i++) {
		const char *name = plan_system_name(i);
		const plan_op *op = op_named(p, name);
		if (op && op->type == PLAN_SYMLINK) CB_TRY(link_make(root, name, op->from, err));
		else if (!op && fstatat(root, name, &st, AT_SYMLINK_NOFOLLOW) == 0) CB_TRY(area_remove(root, name, err));
	}
	times_restore(root, &before);
	return CB_OK;
}
