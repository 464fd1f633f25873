/*
 * build.c: makes in a tree what the caller says: files, folders, links, removals.
 *
 * Adversary: a box that ran in this tree before and left links and special files where folders and files are to be made. Every component
 * is opened from the folder above it, never through a link, and what is in the way is removed, not written to. Nobody runs meanwhile.
 *
 * The way from the root to the folder of the last op stays open, since the next op is nearly always in the same folder or beside it.
 */
#include "holder/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>

#include "base/io.h"
#include "host/host.h"

enum {
	NOT_SPECIAL = 0777,
	OWNER_ALL = 0700,
	PENDING_BYTES = 256 << 20, /* paths of folders whose mode comes last */
};

struct builder_state {
	host_root root; /* lent */
	host_stack *stack;
	buf folder;   /* path of the folder where the stack is, with a NUL that size does not count */
	bool overlay; /* the kernel escapes names of overlayfs */
	buf pending;  /* folders that their owner may not change: u32 mode, path with NUL; they get their mode at the end */
	/* of the file that is open */
	uint64_t size, written;
	int64_t mtime_ns, atime_ns;
};
typedef struct builder_state builder_state;

void builder_init(builder *b, int root)
{
	*b = (builder){.root = root, .file = -1};
}

static cb_code state_create(const builder *b, builder_state **out, cb_error *err)
{
	builder_state *s = mem_alloc(sizeof(*s));
	if (!s) return cb_err_nomem(err);
	*s = (builder_state){
		.root = {.fd = b->root}, .folder = BUF_INIT(LIMIT_HOST_PATH_BYTES), .pending = BUF_INIT(PENDING_BYTES)};
	struct statfs fs;
	s->overlay = fstatfs(b->root, &fs) == 0 && fs.f_type == OVERLAYFS_SUPER_MAGIC;
	cb_code code = host_stat_fd(b->root, &s->root.stat, err);
	if (code == CB_OK) code = buf_append_byte(&s->folder, 0, err);
	if (code == CB_OK) code = host_stack_create(&s->root, &s->stack, err);
	s->folder.size = 0;
	if (code == CB_OK) *out = s;
	else {
		buf_done(&s->folder);
		free(s);
	}
	return code;
}

static void state_destroy(builder_state *s)
{
	if (!s) return;
	host_stack_destroy(s->stack);
	buf_done(&s->folder);
	buf_done(&s->pending);
	free(s);
}

/* ---- the way to a folder ---- */

static cb_code go_up(builder_state *s, cb_error *err)
{
	CB_TRY(host_stack_pop(s->stack, err));
	char *path = (char *)s->folder.bytes, *slash = strrchr(path, '/');
	s->folder.size = slash ? (size_t)(slash - path) : 0;
	path[s->folder.size] = 0;
	return CB_OK;
}

static cb_code go_down(builder_state *s, const char *name, size_t size, cb_error *err)
{
	char one[LIMIT_NAME_BYTES + 1];
	size_t before = s->folder.size;
	if (size > LIMIT_NAME_BYTES) return cb_err_set(err, CB_NAMETOOLONG, "a name is longer than %d bytes", LIMIT_NAME_BYTES);
	memcpy(one, name, size);
	one[size] = 0;
	CB_TRY(buf_reserve(&s->folder, size + 2, err));
	CB_TRY(host_stack_push(s->stack, one, 0, NULL, err));
	if (before) CB_TRY(buf_append_byte(&s->folder, '/', err)); /* reserved: cannot fail */
	CB_TRY(buf_append(&s->folder, one, size + 1, err));
	s->folder.size--;
	return CB_OK;
}

/* Is `folder` the same as the path's first bytes, up to a '/'? */
static bool is_above(const buf *folder, const char *path)
{
	return folder->size == 0 || (strncmp(path, (const char *)folder->bytes, folder->size) == 0 && path[folder->size] == '/');
}

/* To the folder that holds path; *out_name is its last component. */
static cb_code go_to(builder_state *s, const char *path, const char **out_name, cb_error *err)
{
	while (!is_above(&s->folder, path)) CB_TRY(go_up(s, err));
	const char *name = path + s->folder.size + (s->folder.size != 0);
	for (const char *slash; (slash = strchr(name, '/')); name = slash + 1)
		CB_TRY(go_down(s, name, (size_t)(slash - name), err));
	*out_name = name;
	return CB_OK;
}

static cb_code check_place(const char *path, cb_error *err)
{
	const char *slash = strchr(path, '/');
	if (!plan_is_system_name(path, slash ? (size_t)(slash - path) : strlen(path))) return CB_OK;
	return cb_err_set(err, CB_RESERVED, "'%s' belongs to the system", path);
}

/* ---- attributes ---- */

/* In a plain tree the kernel would take it for overlayfs's own, once that tree is a layer. */
static bool is_settable(const builder_state *s, const char *name)
{
	return s->overlay || strncmp(name, "user.overlay.", 13) != 0;
}

/* A filesystem that cannot hold an attribute (none at all, or none so large) must not keep a program from running. */
static cb_code xattrs_set(const builder_state *s, int fd, span list, cb_error *err)
{
	const char *name;
	span value;
	while (wire_xattr_next(&list, &name, &value)) {
		if (!is_settable(s, name)) continue;
		if (fsetxattr(fd, name, value.size ? (const void *)value.bytes : "", value.size, 0) == 0) continue;
		if (errno != EOPNOTSUPP && errno != ENOSPC && errno != E2BIG && errno != ERANGE && errno != EPERM)
			return cb_err_errno(err, errno, "cannot set attribute '%s'", name);
	}
	return CB_OK;
}

static bool is_among(span list, const char *name)
{
	const char *other;
	span value;
	while (wire_xattr_next(&list, &other, &value))
		if (strcmp(name, other) == 0) return true;
	return false;
}

static cb_code xattrs_set_exactly(const builder_state *s, int fd, span list, cb_error *err)
{
	ssize_t size = flistxattr(fd, NULL, 0);
	AUTO_FREE char *names = size > 0 ? mem_alloc((size_t)size + 1) : NULL;
	if (size > 0 && !names) return cb_err_nomem(err);
	if (size > 0) size = flistxattr(fd, names, (size_t)size);
	if (size < 0 && errno != EOPNOTSUPP) return cb_err_errno(err, errno, "cannot list attributes");
	for (ssize_t at = 0; at < size; at += (ssize_t)strlen(names + at) + 1) {
		const char *name = names + at;
		if (strncmp(name, "user.", 5) != 0 || !is_settable(s, name) || is_among(list, name)) continue;
		if (fremovexattr(fd, name) != 0 && errno != ENODATA)
			return cb_err_errno(err, errno, "cannot remove attribute '%s'", name);
	}
	return xattrs_set(s, fd, list, err);
}

/* ---- files ---- */

static cb_code write_failed(cb_error *err, int why, const char *what, const char *path)
{
	return cb_err_errno(err, why, "cannot %s '%s'", what, path);
}

/* The last step of a file: nothing changes its times any more. */
static cb_code file_finish(builder *b, cb_error *err)
{
	AUTO_FD int fd = TAKE_FD(b->file);
	const builder_state *s = b->state;
	if (fd < 0) return CB_OK;
	if (s->written != s->size && ftruncate(fd, (off_t)s->size) != 0) return write_failed(err, errno, "size", "a file");
	CB_TRY(host_times_set(fd, s->atime_ns, s->mtime_ns, err));
	int failed = close(TAKE_FD(fd));
	return failed && errno != EINTR ? write_failed(err, errno, "write", "a file") : CB_OK;
}

static cb_code make_file(builder *b, const wire_op *op, cb_error *err)
{
	builder_state *s = b->state;
	const char *name;
	CB_TRY(go_to(s, op->path, &name, err));
	int dir = host_stack_fd(s->stack);
	const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	AUTO_FD int fd = openat(dir, name, flags, 0600);
	if (fd < 0 && errno == EEXIST) {
		CB_TRY(folder_remove(dir, name, err));
		fd = openat(dir, name, flags, 0600);
	}
	if (fd < 0) return write_failed(err, errno, "make", op->path);
	CB_TRY(xattrs_set(s, fd, op->xattrs, err)); /* before the mode, which may take the right to it away */
	CB_TRY(host_mode_set(fd, op->mode & NOT_SPECIAL, err));
	s->size = op->size;
	s->written = 0;
	s->mtime_ns = op->mtime_ns;
	s->atime_ns = op->atime_ns;
	b->file = TAKE_FD(fd);
	return CB_OK;
}

static cb_code add_data(builder *b, const wire_op *op, cb_error *err)
{
	builder_state *s = b->state;
	if (b->file < 0) return cb_err_set(err, CB_CORRUPT, "data without a file");
	if (op->data.size > s->size || op->offset > s->size - op->data.size)
		return cb_err_set(err, CB_CORRUPT, "data past the end of its file");
	CB_TRY(io_pwrite_all(b->file, op->data.bytes, op->data.size, op->offset, err));
	if (op->data.size && op->offset + op->data.size > s->written) s->written = op->offset + op->data.size;
	return CB_OK;
}

/* ---- folders ---- */

/* Its owner could not go on in it: without a user namespace that is us. */
static cb_code pending_add(builder_state *s, const wire_op *op, cb_error *err)
{
	size_t before = s->pending.size;
	uint32_t mode = op->mode;
	cb_code code = buf_append(&s->pending, &mode, sizeof(mode), err);
	if (code == CB_OK) code = buf_append(&s->pending, op->path, strlen(op->path) + 1, err);
	if (code != CB_OK) s->pending.size = before;
	return code;
}

static cb_code make_dir(builder_state *s, const wire_op *op, cb_error *err)
{
	const char *name;
	CB_TRY(go_to(s, op->path, &name, err));
	int dir = host_stack_fd(s->stack);
	bool kept = false;
	if (mkdirat(dir, name, OWNER_ALL) != 0) {
		host_stat st;
		if (errno != EEXIST) return write_failed(err, errno, "make folder", op->path);
		CB_TRY(host_stat_at(dir, name, &st, err));
		kept = st.type == HOST_DIR;
		if (!kept) {
			CB_TRY(folder_remove(dir, name, err));
			if (mkdirat(dir, name, OWNER_ALL) != 0) return write_failed(err, errno, "make folder", op->path);
		}
	}
	CB_TRY(go_down(s, name, strlen(name), err));
	int fd = host_stack_fd(s->stack);
	bool later = (op->mode & OWNER_ALL) != OWNER_ALL;
	CB_TRY(host_mode_set(fd, later ? op->mode | OWNER_ALL : op->mode, err));
	if (later) CB_TRY(pending_add(s, op, err));
	return kept ? xattrs_set_exactly(s, fd, op->xattrs, err) : xattrs_set(s, fd, op->xattrs, err);
}

/* Folders below come first: they were made later. */
static cb_code pending_apply(builder_state *s, cb_error *err)
{
	AUTO_BUF buf starts = BUF_INIT(PENDING_BYTES * 2u);
	for (size_t at = 0; at < s->pending.size;) {
		CB_TRY(buf_append(&starts, &at, sizeof(at), err));
		at += sizeof(uint32_t);
		at += strlen((const char *)s->pending.bytes + at) + 1;
	}
	for (size_t i = starts.size / sizeof(size_t); i > 0; i--) {
		size_t at;
		uint32_t mode;
		const char *name, *path;
		memcpy(&at, starts.bytes + (i - 1) * sizeof(at), sizeof(at));
		memcpy(&mode, s->pending.bytes + at, sizeof(mode));
		path = (const char *)s->pending.bytes + at + sizeof(mode);
		AUTO_FD int fd = -1;
		CB_TRY(go_to(s, path, &name, err));
		/* Removed again, or something else by now: then a later op gave it what it has. */
		if (host_dir_open(host_stack_fd(s->stack), name, 0, &fd, NULL, NULL) == CB_OK) CB_TRY(host_mode_set(fd, mode, err));
	}
	buf_clear(&s->pending);
	return CB_OK;
}

/* ---- links, and what is there ---- */

static cb_code make_symlink(builder_state *s, const wire_op *op, cb_error *err)
{
	char target[LIMIT_SYMLINK_TARGET_BYTES + 1];
	const char *name;
	memcpy(target, op->data.bytes, op->data.size); /* wire_op_get looked at its size */
	target[op->data.size] = 0;
	CB_TRY(go_to(s, op->path, &name, err));
	int dir = host_stack_fd(s->stack);
	int failed = symlinkat(target, dir, name);
	if (failed && errno == EEXIST) {
		CB_TRY(folder_remove(dir, name, err));
		failed = symlinkat(target, dir, name);
	}
	if (failed) return write_failed(err, errno, "make link", op->path);
	return host_times_set_at(dir, name, op->atime_ns, op->mtime_ns, err);
}

static cb_code make_link(builder_state *s, const wire_op *op, cb_error *err)
{
	AUTO_FREE char *from = mem_alloc(op->data.size + 1);
	AUTO_FD int from_dir = -1;
	const char *from_name, *name;
	if (!from) return cb_err_nomem(err);
	memcpy(from, op->data.bytes, op->data.size);
	from[op->data.size] = 0;
	CB_TRY(check_place(from, err));
	CB_TRY(host_parent_open(s->root.fd, from, 0, &from_dir, &from_name, err));
	CB_TRY(go_to(s, op->path, &name, err));
	int dir = host_stack_fd(s->stack);
	int failed = linkat(from_dir, from_name, dir, name, 0);
	if (failed && errno == EEXIST) {
		CB_TRY(folder_remove(dir, name, err));
		failed = linkat(from_dir, from_name, dir, name, 0);
	}
	return failed ? write_failed(err, errno, "make link", op->path) : CB_OK;
}

static cb_code set_attrs(builder_state *s, const wire_op *op, cb_error *err)
{
	const char *name;
	host_stat st;
	AUTO_FD int fd = -1;
	CB_TRY(go_to(s, op->path, &name, err));
	int dir = host_stack_fd(s->stack);
	CB_TRY(host_stat_at(dir, name, &st, err));
	/* Without a user namespace (the weak sandbox) we are only the owner. Not a link: nobody changes it meanwhile. */
	bool closed = geteuid() != 0 && (st.type == HOST_DIR || st.type == HOST_FILE) && (st.mode & OWNER_ALL) != OWNER_ALL;
	if (closed && fchmodat(dir, name, OWNER_ALL, 0) != 0) return write_failed(err, errno, "open", op->path);
	if (st.type == HOST_DIR) CB_TRY(host_dir_open(dir, name, 0, &fd, &st, err));
	else CB_TRY(host_file_open(dir, name, &fd, &st, err));
	CB_TRY(xattrs_set_exactly(s, fd, op->xattrs, err));
	CB_TRY(host_mode_set(fd, st.type == HOST_DIR ? op->mode : op->mode & NOT_SPECIAL, err));
	return host_times_set(fd, op->atime_ns, op->mtime_ns, err);
}

static cb_code remove_one(builder_state *s, const wire_op *op, cb_error *err)
{
	const char *name;
	cb_error why;
	cb_code code = go_to(s, op->path, &name, cb_err_aside(&why));
	/* A folder above it is not there, or is none: neither is what is below. */
	if (code == CB_NOTFOUND || code == CB_NOTDIR || code == CB_LOOP) return CB_OK;
	return code == CB_OK ? folder_remove(host_stack_fd(s->stack), name, err) : cb_err_pass(err, code, &why);
}

static cb_code set_dir_times(builder_state *s, const wire_op *op, cb_error *err)
{
	const char *name;
	CB_TRY(go_to(s, op->path, &name, err));
	return host_times_set_at(host_stack_fd(s->stack), name, op->atime_ns, op->mtime_ns, err);
}

/* ---- ops ---- */

static cb_code apply(builder *b, const wire_op *op, cb_error *err)
{
	builder_state *s = b->state;
	if (op->type == WIRE_OP_DATA) return add_data(b, op, err);
	CB_TRY(file_finish(b, err));
	CB_TRY(check_place(op->path, err));
	switch (op->type) {
	case WIRE_OP_REMOVE:
		return remove_one(s, op, err);
	case WIRE_OP_DIR:
		return make_dir(s, op, err);
	case WIRE_OP_DIR_TIMES:
		return set_dir_times(s, op, err);
	case WIRE_OP_FILE:
		return make_file(b, op, err);
	case WIRE_OP_SYMLINK:
		return make_symlink(s, op, err);
	case WIRE_OP_LINK:
		return make_link(s, op, err);
	case WIRE_OP_ATTRS:
		return set_attrs(s, op, err);
	case WIRE_OP_DATA:
		break;
	}
	return cb_err_set(err, CB_CORRUPT, "an op of an unknown type");
}

cb_code builder_feed(builder *b, span ops, cb_error *err)
{
	wire_op op;
	bool end = false;
	if (!b->state) CB_TRY(state_create(b, &b->state, err));
	for (;;) {
		CB_TRY(wire_op_get(&ops, &op, &end, err));
		if (end) return CB_OK;
		cb_code code = apply(b, &op, err);
		if (code != CB_OK) return cb_err_wrap(err, code, "building '%s'", op.path);
	}
}

cb_code builder_end(builder *b, cb_error *err)
{
	cb_code code = file_finish(b, err);
	if (code == CB_OK && b->state) code = pending_apply(b->state, err);
	state_destroy(b->state);
	b->state = NULL;
	return code;
}
