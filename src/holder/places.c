/*
 * places.c: what binds are mounted on in the box. A place that is not there is made for the bind, and is gone again before the box
 * is looked at: to the box it never was.
 *
 * Adversary: the command, which may have put a link in the way meanwhile. What is removed is found without following one, and only
 * when it is still empty.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "holder/enter.h"
#include "host/host.h"

/* Is the bind's place the box's own, to be made there? */
static bool is_of_box(const plan *p, const plan_op *op)
{
	const char *top = op->to + 1;
	if (op->type != PLAN_BIND || plan_is_system_name(top, strcspn(top, "/"))) return false;
	for (const plan_op *o = p->ops; o < op; o++)
		if (o->type == PLAN_BIND && plan_path_within(op->to, o->to)) return false;
	return true;
}

/* The folder that holds the last part of an absolute path, and that part. */
static cb_code parent_of(int root, const char *path, int *out_dir, const char **out_name, cb_error *err)
{
	return host_parent_open(root, path + 1, 0, out_dir, out_name, err);
}

/* One part of the path, when it is not there. CB_OK also when something else is: plan_apply says what is wrong then. */
static cb_code make_part(places *made, int root, const char *path, size_t size, bool file, cb_error *err)
{
	char part[LIMIT_PATH_BYTES];
	AUTO_FD int dir = -1;
	const char *name = NULL;
	struct stat st;
	if (size >= sizeof(part)) return CB_OK;
	memcpy(part, path, size);
	part[size] = 0;
	if (parent_of(root, part, &dir, &name, NULL) != CB_OK) return CB_OK;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT) return CB_OK;
	CB_TRY(buf_append(&made->paths, part, size + 1, err));
	int done = file ? mknodat(dir, name, S_IFREG | 0644, 0) : mkdirat(dir, name, 0755);
	if (done != 0) return cb_err_errno(err, errno, "making '%s' to bind to", part);
	made->count++;
	return CB_OK;
}

cb_code places_make(places *made, const plan *p, int root, cb_error *err)
{
	*made = (places){.paths = BUF_INIT(LIMIT_PLAN_TEXT_BYTES * 16)};
	if (p->op_count && p->ops[0].type == PLAN_SUBTREE) return CB_OK;
	for (const plan_op *op = p->ops; op < p->ops + p->op_count; op++) {
		if (!is_of_box(p, op)) continue;
		for (size_t size = 1; op->to[size - 1]; size++) {
			bool last = op->to[size] == 0;
			if (!last && op->to[size] != '/') continue;
			CB_TRY(make_part(made, root, op->to, size, last && op->flags & PLAN_FILE, err));
			if (last) break;
		}
	}
	return CB_OK;
}

static void remove_place(int root, const char *path)
{
	AUTO_FD int dir = -1;
	const char *name = NULL;
	struct stat st;
	if (parent_of(root, path, &dir, &name, NULL) != CB_OK || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0) return;
	if (S_ISDIR(st.st_mode)) (void)unlinkat(dir, name, AT_REMOVEDIR);
	else if (S_ISREG(st.st_mode) && st.st_size == 0) (void)unlinkat(dir, name, 0);
}

/* The innermost first. */
static void remove_all(int root, const char *at, size_t count)
{
	const char *ends[LIMIT_PLAN_OPS];
	while (count) {
		size_t n = count < LIMIT_PLAN_OPS ? count : LIMIT_PLAN_OPS, skip = count - n;
		const char *p = at;
		for (size_t i = 0; i < skip; i++) p += strlen(p) + 1;
		for (size_t i = 0; i < n; i++, p += strlen(p) + 1) ends[i] = p;
		for (size_t i = n; i-- > 0;) remove_place(root, ends[i]);
		count = skip;
	}
}

void places_remove(places *made, int root)
{
	if (made->count && root >= 0) remove_all(root, (const char *)made->paths.bytes, made->count);
	buf_done(&made->paths);
	*made = (places){0};
}
