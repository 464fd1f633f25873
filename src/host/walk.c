/*
 * walk.c: everything below a folder of the host, in the order of the names' bytes.
 *
 * A folder's names are read at once and sorted, so that what is made or removed meanwhile neither ends nor repeats the walk; what they name
 * is looked at one by one, when its turn comes. Adversary: a folder with names without end, which LIMIT_HOST_LISTING_BYTES ends.
 */
#include "host/internal.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/types.h>

enum { READ_BYTES = 32 << 10 };

typedef struct level {
	char *names;   /* one after the other, each with its NUL */
	char **sorted; /* into names */
	size_t bytes;  /* of both */
	size_t count, next;
	size_t path_size; /* of the folder's own path */
	host_stat stat;
} level;

struct host_walk {
	const host_root *root;
	host_stack *stack;
	buf levels;
	buf path;
	size_t listing_bytes; /* of all levels */
	bool leaving;         /* the last event was HOST_LEAVE */
	uint8_t *scratch;
};

static level *level_top(const host_walk *w)
{
	return w->levels.size ? (level *)(void *)(w->levels.bytes + w->levels.size) - 1 : NULL;
}

/* ---- listing ---- */

static cb_code names_add(const host_walk *w, size_t n, buf *names, size_t *count, cb_error *err)
{
	for (size_t at = 0; at < n;) {
		const struct dirent64 *d = (const struct dirent64 *)(const void *)(w->scratch + at);
		at += d->d_reclen;
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0) continue;
		CB_TRY(buf_append(names, d->d_name, strlen(d->d_name) + 1, err));
		(*count)++;
	}
	return CB_OK;
}

static cb_code names_read(const host_walk *w, int fd, buf *names, size_t *count, cb_error *err)
{
	if (lseek(fd, 0, SEEK_SET) != 0) return cb_err_errno(err, errno, "cannot list a folder");
	for (;;) {
		ssize_t n = getdents64(fd, w->scratch, READ_BYTES);
		if (n == 0) return CB_OK;
		if (n < 0 && errno == ENOENT) return CB_OK; /* removed while it was open */
		if (n < 0) return cb_err_errno(err, errno, "cannot list a folder");
		cb_code code = names_add(w, (size_t)n, names, count, err);
		if (code == CB_LIMIT) return cb_err_set(err, CB_LIMIT, "the names in a folder are more than can be held in memory");
		if (code != CB_OK) return code;
	}
}

static int name_compare(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static cb_code level_fill(const host_walk *w, int fd, level *out, cb_error *err)
{
	AUTO_BUF buf names = BUF_INIT(LIMIT_HOST_LISTING_BYTES - w->listing_bytes);
	size_t count = 0;
	CB_TRY(names_read(w, fd, &names, &count, err));
	out->sorted = mem_alloc(count * sizeof(*out->sorted));
	if (!out->sorted) return cb_err_nomem(err);
	out->names = (char *)names.bytes;
	out->bytes = names.size;
	out->count = count;
	names = BUF_INIT(0);
	char *p = out->names;
	for (size_t i = 0; i < count; i++) {
		out->sorted[i] = p;
		p += strlen(p) + 1;
	}
	qsort(out->sorted, count, sizeof(*out->sorted), name_compare);
	return CB_OK;
}

/* ---- levels ---- */

static cb_code level_push(host_walk *w, const host_stat *stat, cb_error *err)
{
	level l = {.path_size = w->path.size, .stat = *stat};
	uint8_t *slot;
	CB_TRY(buf_reserve(&w->levels, sizeof(l), err));
	CB_TRY(level_fill(w, host_stack_fd(w->stack), &l, err));
	w->listing_bytes += l.bytes;
	CB_TRY(buf_extend(&w->levels, sizeof(l), &slot, err)); /* reserved: cannot fail */
	memcpy(slot, &l, sizeof(l));
	return CB_OK;
}

static void level_pop(host_walk *w)
{
	level *top = level_top(w);
	w->listing_bytes -= top->bytes;
	free(top->names);
	free(top->sorted);
	w->levels.size -= sizeof(level);
}

cb_code host_walk_open(const host_root *root, host_walk **out, cb_error *err)
{
	host_walk *w = mem_alloc(sizeof(*w));
	if (!w) return cb_err_nomem(err);
	*w = (host_walk){
		.root = root,
		.levels = BUF_INIT(sizeof(level) * (LIMIT_HOST_DEPTH + 1)),
		.path = BUF_INIT(LIMIT_HOST_PATH_BYTES),
	};
	w->scratch = mem_alloc_aligned(READ_BYTES);
	cb_code code = w->scratch ? CB_OK : cb_err_nomem(err);
	if (code == CB_OK) code = buf_append_byte(&w->path, 0, err);
	if (code == CB_OK) {
		w->path.size = 0;
		code = host_stack_create(root, &w->stack, err);
	}
	if (code == CB_OK) code = level_push(w, &root->stat, err);
	if (code == CB_OK) *out = w;
	else host_walk_close(w);
	return code;
}

void host_walk_close(host_walk *w)
{
	if (!w) return;
	while (w->levels.size) level_pop(w);
	host_stack_destroy(w->stack);
	buf_done(&w->levels);
	buf_done(&w->path);
	free(w->scratch);
	free(w);
}

/* ---- moving ---- */

static const char *last_name(const host_walk *w)
{
	const char *path = (const char *)w->path.bytes;
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

static cb_code path_set(host_walk *w, size_t keep, const char *name, cb_error *err)
{
	w->path.size = keep;
	cb_code code = keep ? buf_append_byte(&w->path, '/', err) : CB_OK;
	if (code == CB_OK) code = buf_append(&w->path, name, strlen(name) + 1, err);
	if (code == CB_OK) w->path.size--;
	return code;
}

static void path_cut(host_walk *w, size_t size)
{
	w->path.size = size;
	w->path.bytes[size] = 0;
}

static void entry_fill(const host_walk *w, host_event event, const host_stat *stat, size_t depth, host_entry *out)
{
	*out = (host_entry){
		.event = event,
		.path = (const char *)w->path.bytes,
		.name = last_name(w),
		.depth = depth,
		.dir = host_stack_fd(w->stack),
		.stat = *stat,
		.other_device = stat->type == HOST_DIR && stat->dev != w->root->stat.dev,
	};
}

static cb_code finish_leaving(host_walk *w, cb_error *err)
{
	w->leaving = false;
	if (host_stack_depth(w->stack) == 0) return CB_OK;
	level_pop(w);
	return host_stack_pop(w->stack, err);
}

cb_code host_walk_next(host_walk *w, host_entry *out, cb_error *err)
{
	if (w->leaving) CB_TRY(finish_leaving(w, err));
	level *top = level_top(w);
	while (top->next < top->count) {
		const char *name = top->sorted[top->next++];
		host_stat stat;
		CB_TRY(path_set(w, top->path_size, name, err));
		cb_error why;
		cb_code code = host_stat_at(host_stack_fd(w->stack), name, &stat, cb_err_aside(&why));
		if (code == CB_NOTFOUND) continue;
		if (code != CB_OK) return cb_err_pass(err, code, &why);
		entry_fill(w, HOST_ENTRY, &stat, host_stack_depth(w->stack) + 1, out);
		return CB_OK;
	}
	path_cut(w, top->path_size);
	size_t depth = host_stack_depth(w->stack);
	w->leaving = depth > 0;
	entry_fill(w, depth ? HOST_LEAVE : HOST_END, &top->stat, depth, out);
	return CB_OK;
}

cb_code host_walk_enter(host_walk *w, host_entry *entry, cb_error *err)
{
	assert(entry->event == HOST_ENTRY && !w->leaving);
	host_stat stat;
	/* Here and not at the names in it: a folder that is entered can be listed to its end. */
	if (w->path.size + 1 + LIMIT_NAME_BYTES + 1 > LIMIT_HOST_PATH_BYTES)
		return cb_err_set(err, CB_LIMIT, "a path is longer than %d bytes", LIMIT_HOST_PATH_BYTES);
	CB_TRY(host_stack_push(w->stack, entry->name, 0, &stat, err));
	cb_code code = level_push(w, &stat, err);
	if (code != CB_OK) {
		(void)host_stack_pop(w->stack, NULL); /* the folder above is open: it was just used */
		return code;
	}
	entry->stat = stat;
	entry->dir = host_stack_fd(w->stack);
	return CB_OK;
}
