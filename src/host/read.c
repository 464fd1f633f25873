/* read.c: what an open file or a link holds: stretches of data, targets, attributes. */
#include "host/internal.h"

#include <errno.h>
#include <stdio.h>
#include <sys/xattr.h>

enum {
	XATTR_LIST_BYTES = 65536, /* XATTR_LIST_MAX */
	XATTR_NAME_BYTES = 255,   /* XATTR_NAME_MAX */
	XATTR_LIST_SHORT = 1024,  /* tried first: nearly all files have none */
};

cb_code host_data_next(int fd, uint64_t offset, uint64_t size, uint64_t *out_start, uint64_t *out_end, cb_error *err)
{
	if (offset >= size) {
		*out_start = *out_end = size;
		return CB_OK;
	}
	off_t start = lseek(fd, (off_t)offset, SEEK_DATA);
	if (start < 0 && errno == ENXIO) {
		*out_start = *out_end = size;
		return CB_OK;
	}
	if (start < 0 && errno != EINVAL && errno != EOPNOTSUPP) return cb_err_errno(err, errno, "cannot find the holes of a file");
	off_t end = start < 0 ? -1 : lseek(fd, start, SEEK_HOLE);
	*out_start = start < 0 ? offset : (uint64_t)start;
	*out_end = end <= start ? size : (uint64_t)end;
	if (*out_start > size) *out_start = size;
	if (*out_end > size) *out_end = size;
	return CB_OK;
}

cb_code host_link_read(int dir, const char *name, buf *out, cb_error *err)
{
	CB_TRY(host_name_check(name, err));
	buf_clear(out);
	uint8_t *bytes;
	CB_TRY(buf_extend(out, LIMIT_SYMLINK_TARGET_BYTES + 1, &bytes, err));
	ssize_t n = readlinkat(dir, name, (char *)bytes, LIMIT_SYMLINK_TARGET_BYTES + 1);
	int failed = errno;
	out->size = n > 0 ? (size_t)n : 0;
	if (n < 0 && failed == EINVAL) return cb_err_set(err, CB_INVALID, "'%s' is not a symbolic link", name);
	if (n < 0) return host_fail(err, failed, "read link", name);
	if (n > LIMIT_SYMLINK_TARGET_BYTES) return cb_err_set(err, CB_NAMETOOLONG, "the target of link '%s' is too long", name);
	return CB_OK;
}

/* ---- attributes ---- */

#define OVERLAY_PREFIX "user.overlay."
#define ESCAPED_PREFIX "user.overlay.overlay."
enum { ESCAPE_BYTES = sizeof("overlay.") - 1 };

typedef struct xattr_visitor {
	bool upper;
	host_xattr_visit visit;
	void *context;
} xattr_visitor;

static bool is_escaped(const char *name)
{
	return strncmp(name, ESCAPED_PREFIX, sizeof(ESCAPED_PREFIX) - 1) == 0;
}

bool host_xattr_is_ours(span name)
{
	span prefix = span_str("user."); /* alone it names nothing */
	return name.size > prefix.size && span_starts(name, prefix) && !span_starts(name, span_str(OVERLAY_PREFIX));
}

bool host_xattr_is_overlay(const char *name)
{
	return strncmp(name, OVERLAY_PREFIX, sizeof(OVERLAY_PREFIX) - 1) == 0;
}

static bool is_wanted(const xattr_visitor *v, const char *name)
{
	return strncmp(name, "user.", 5) == 0 && (!v->upper || !host_xattr_is_overlay(name) || is_escaped(name));
}

static cb_code visit_named(const xattr_visitor *v, const char *name, span value, cb_error *err)
{
	char own[XATTR_NAME_BYTES + 1] = OVERLAY_PREFIX;
	if (!v->upper || !is_escaped(name)) return v->visit(v->context, name, value, err);
	(void)snprintf(own, sizeof(own), "%s%s", OVERLAY_PREFIX, name + sizeof(OVERLAY_PREFIX) - 1 + ESCAPE_BYTES);
	return v->visit(v->context, own, value, err);
}

static cb_code visit_value(int fd, const char *name, buf *value, const xattr_visitor *v, cb_error *err)
{
	uint8_t *bytes;
	buf_clear(value);
	CB_TRY(buf_extend(value, LIMIT_XATTR_VALUE_BYTES, &bytes, err));
	ssize_t n = fgetxattr(fd, name, bytes, LIMIT_XATTR_VALUE_BYTES);
	if (n < 0 && errno == ENODATA) return CB_OK; /* gone since it was listed */
	if (n < 0) return host_fail(err, errno, "read attribute", name);
	return visit_named(v, name, span_make(bytes, (size_t)n), err);
}

static int name_compare(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static cb_code visit_names(int fd, char *names, size_t size, const xattr_visitor *v, cb_error *err)
{
	size_t count = 0;
	for (size_t i = 0; i < size; i++) count += names[i] == 0;
	AUTO_FREE char **sorted = mem_alloc(count * sizeof(*sorted));
	AUTO_BUF buf value = BUF_INIT(LIMIT_XATTR_VALUE_BYTES);
	if (!sorted) return cb_err_nomem(err);
	count = 0;
	for (size_t i = 0; i < size; i += strlen(names + i) + 1)
		if (is_wanted(v, names + i)) sorted[count++] = names + i;
	qsort(sorted, count, sizeof(*sorted), name_compare);
	for (size_t i = 0; i < count; i++) CB_TRY(visit_value(fd, sorted[i], &value, v, err));
	return CB_OK;
}

static cb_code list(int fd, const xattr_visitor *v, cb_error *err)
{
	char names[XATTR_LIST_SHORT + 1];
	ssize_t n = flistxattr(fd, names, XATTR_LIST_SHORT);
	if (n == 0 || (n < 0 && errno == EOPNOTSUPP)) return CB_OK;
	if (n > 0) {
		names[n] = 0;
		return visit_names(fd, names, (size_t)n, v, err);
	}
	if (errno != ERANGE) return cb_err_errno(err, errno, "cannot list the attributes of a file");
	AUTO_FREE char *more = mem_alloc(XATTR_LIST_BYTES + 1);
	if (!more) return cb_err_nomem(err);
	n = flistxattr(fd, more, XATTR_LIST_BYTES);
	if (n < 0) return cb_err_errno(err, errno, "cannot list the attributes of a file");
	more[n] = 0;
	return visit_names(fd, more, (size_t)n, v, err);
}

cb_code host_xattr_list(int fd, host_xattr_visit visit, void *context, cb_error *err)
{
	return list(fd, &(xattr_visitor){false, visit, context}, err);
}

cb_code host_xattr_list_upper(int fd, host_xattr_visit visit, void *context, cb_error *err)
{
	return list(fd, &(xattr_visitor){true, visit, context}, err);
}

cb_code host_xattr_set(int fd, const char *name, span value, cb_error *err)
{
	int failed = value.bytes ? fsetxattr(fd, name, value.bytes, value.size, 0) : fremovexattr(fd, name);
	if (failed == 0 || (!value.bytes && errno == ENODATA)) return CB_OK;
	return host_fail(err, errno, "set attribute", name);
}
