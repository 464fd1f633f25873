/*
 * fault.c: see fault.h. The rules, and what recording keeps: of every file the latest bytes, and of each page changed since the last flush
 * the bytes it had then.
 */
#include "store/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "store/fault_state.h"
#include "store/vfs.h"

/* ---- rules ---- */

int fault_strike(store_fault_plan *plan, store_fault_op op)
{
	if (!plan) return 0;
	store_fault_rule *r = &plan->op[op];
	(void)atomic_fetch_add(&r->seen, 1);
	if (op == STORE_FAULT_WRITE && atomic_load(&plan->cut_at_write) > 0 && atomic_fetch_sub(&plan->cut_at_write, 1) == 1 &&
	    plan->cut)
		plan->cut(plan, plan->cut_context);
	long left = atomic_load(&r->fail_at);
	if (left <= 0) return 0;
	if (left > 1) {
		(void)atomic_fetch_sub(&r->fail_at, 1);
		return 0;
	}
	if (!r->lasting) atomic_store(&r->fail_at, 0);
	return r->error ? r->error : EIO;
}

/* ---- recording ---- */

static fault_state *fault_state_get(store_fault_plan *plan)
{
	static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
	(void)pthread_mutex_lock(&making);
	if (!plan->state) {
		plan->state = calloc(1, sizeof *plan->state);
		if (plan->state) (void)pthread_mutex_init(&plan->state->mutex, NULL);
	}
	(void)pthread_mutex_unlock(&making);
	return plan->state;
}

const char *fault_vfs_name(store_fault_plan *plan)
{
	fault_state *st = fault_state_get(plan);
	if (!st) return NULL;
	(void)pthread_mutex_lock(&st->mutex);
	if (!st->vfs_registered && sqlite3_initialize() == SQLITE_OK) {
		(void)snprintf(st->vfs_name, sizeof st->vfs_name, "cowbox-fault-%p", (void *)plan);
		vfs_build(&st->vfs, st->vfs_name, plan);
		st->vfs_registered = sqlite3_vfs_register(&st->vfs, 0) == SQLITE_OK;
	}
	(void)pthread_mutex_unlock(&st->mutex);
	return st->vfs_registered ? st->vfs_name : NULL;
}

/* A path that goes through the descriptor of a folder (vfs.h) as the folder's own. */
static const char *plain_path(const char *path, char out[PATH_MAX + NAME_MAX])
{
	const char *name = strrchr(path, '/');
	if (strncmp(path, VFS_DESCRIPTORS, strlen(VFS_DESCRIPTORS)) != 0) return path;
	char link[64];
	(void)snprintf(link, sizeof link, "%.*s", (int)(name - path), path);
	ssize_t n = readlink(link, out, PATH_MAX);
	if (n < 0) abort();
	(void)snprintf(out + n, NAME_MAX, "%s", name);
	return out;
}

static fault_file *find(fault_state *st, const char *path)
{
	for (fault_file *f = st->files; f; f = f->next) {
		if (strcmp(f->path, path) == 0) return f;
	}
	return NULL;
}

static void pages_clear(fault_file *f)
{
	for (size_t i = 0; i < f->page_count; i++) free(f->pages[i].bytes);
	f->page_count = 0;
}

static bool length_set(fault_file *f, size_t length)
{
	if (length > f->capacity) {
		size_t n = length < 65536 ? 65536 : length * 2;
		uint8_t *wider = realloc(f->latest, n);
		if (!wider) return false;
		f->latest = wider;
		f->capacity = n;
	}
	if (length > f->length) memset(f->latest + f->length, 0, length - f->length);
	f->length = length;
	return true;
}

/* Keeps what a page was at the last flush, once. */
static void page_keep(fault_file *f, size_t page)
{
	for (size_t i = 0; i < f->page_count; i++) {
		if (f->pages[i].index == page) return;
	}
	if (page * FAULT_PAGE_BYTES >= f->durable_length) return; /* was not there: zeros or beyond the end */
	if (f->page_count == f->page_capacity) {
		size_t n = f->page_capacity ? f->page_capacity * 2 : 64;
		fault_page *wider = realloc(f->pages, n * sizeof *wider);
		if (!wider) abort(); /* a test helper: a silent gap would make a power cut look survivable */
		f->pages = wider;
		f->page_capacity = n;
	}
	uint8_t *copy = calloc(1, FAULT_PAGE_BYTES);
	if (!copy) abort();
	size_t at = page * FAULT_PAGE_BYTES, n = f->length > at ? f->length - at : 0;
	memcpy(copy, f->latest + at, n < FAULT_PAGE_BYTES ? n : FAULT_PAGE_BYTES);
	f->pages[f->page_count++] = (fault_page){page, copy};
}

static void range_keep(fault_file *f, uint64_t from, uint64_t to)
{
	for (uint64_t p = from / FAULT_PAGE_BYTES; p * FAULT_PAGE_BYTES < to; p++) page_keep(f, (size_t)p);
}

static fault_file *file_add(fault_state *st, const char *path)
{
	fault_file *f = calloc(1, sizeof *f);
	if (!f) abort();
	f->path = strdup(path);
	if (!f->path) abort();
	f->next = st->files;
	st->files = f;
	return f;
}

static bool is_followed(const char *path)
{
	const char *dot = strrchr(path, '.');
	return dot && (strcmp(dot, ".db") == 0 || strcmp(dot, ".db-wal") == 0 || strcmp(dot, ".seg") == 0);
}

void fault_saw_open(store_fault_plan *plan, const char *path, uint64_t size, fault_load load, void *file)
{
	if (!plan || !plan->record || !is_followed(path)) return;
	fault_state *st = fault_state_get(plan);
	if (!st) abort();
	char where[PATH_MAX + NAME_MAX];
	path = plain_path(path, where);
	(void)pthread_mutex_lock(&st->mutex);
	fault_file *f = find(st, path);
	if (!f) {
		f = file_add(st, path);
		if (!length_set(f, (size_t)size)) abort();
		if (size && load(file, 0, f->latest, (size_t)size) != CB_OK) abort();
		f->durable_length = (size_t)size;
		f->is_durable = size > 0;
	} else if (f->deleted) { /* made anew in place of one that a cut could bring back */
		pages_clear(f);
		(void)length_set(f, 0);
		f->durable_length = 0;
		f->is_durable = f->deleted = false;
	}
	(void)pthread_mutex_unlock(&st->mutex);
}

/* The file, with the mutex held; NULL: not followed. */
static fault_file *follow(store_fault_plan *plan, const char *path)
{
	if (!plan || !plan->record || !plan->state || !is_followed(path)) return NULL;
	char where[PATH_MAX + NAME_MAX];
	path = plain_path(path, where);
	(void)pthread_mutex_lock(&plan->state->mutex);
	fault_file *f = find(plan->state, path);
	if (!f) (void)pthread_mutex_unlock(&plan->state->mutex);
	return f;
}

void fault_saw_write(store_fault_plan *plan, const char *path, uint64_t offset, const void *bytes, size_t size)
{
	fault_file *f = follow(plan, path);
	if (!f) return;
	range_keep(f, offset, offset + size);
	if (offset + size > f->length && !length_set(f, (size_t)(offset + size))) abort();
	memcpy(f->latest + offset, bytes, size);
	(void)pthread_mutex_unlock(&plan->state->mutex);
}

void fault_saw_truncate(store_fault_plan *plan, const char *path, uint64_t size)
{
	fault_file *f = follow(plan, path);
	if (!f) return;
	if (size < f->length) range_keep(f, size, f->length);
	if (!length_set(f, (size_t)size)) abort();
	(void)pthread_mutex_unlock(&plan->state->mutex);
}

void fault_saw_flush(store_fault_plan *plan, const char *path)
{
	fault_file *f = follow(plan, path);
	if (!f) return;
	pages_clear(f);
	f->durable_length = f->length;
	f->is_durable = true;
	f->flushes++;
	(void)pthread_mutex_unlock(&plan->state->mutex);
}

void fault_saw_delete(store_fault_plan *plan, const char *path, bool flushed)
{
	fault_file *f = follow(plan, path);
	if (!f) return;
	f->deleted = true;
	if (flushed) {
		pages_clear(f);
		(void)length_set(f, 0);
		f->durable_length = 0;
		f->is_durable = false;
	}
	(void)pthread_mutex_unlock(&plan->state->mutex);
}

void store_fault_plan_done(store_fault_plan *plan)
{
	fault_state *st = plan->state;
	if (!st) return;
	if (st->vfs_registered) (void)sqlite3_vfs_unregister(&st->vfs);
	for (fault_file *f = st->files, *next; f; f = next) {
		next = f->next;
		pages_clear(f);
		free(f->pages);
		free(f->latest);
		free(f->path);
		free(f);
	}
	(void)pthread_mutex_destroy(&st->mutex);
	free(st);
	plan->state = NULL;
}

/* ---- images ---- */

typedef struct dice {
	store_fault_random random;
	void *context;
} dice;

static bool toss(const dice *d)
{
	return d->random(d->context, 2) == 1;
}

static const uint8_t *kept_page(const fault_file *f, size_t page)
{
	for (size_t i = 0; i < f->page_count; i++) {
		if (f->pages[i].index == page) return f->pages[i].bytes;
	}
	return NULL;
}

/* Any length between the durable and the latest one, at a page's boundary or either end. */
static size_t length_choose(const fault_file *f, const dice *d)
{
	size_t low = f->durable_length < f->length ? f->durable_length : f->length;
	size_t high = f->durable_length < f->length ? f->length : f->durable_length;
	if (low == high || toss(d)) return toss(d) ? f->durable_length : f->length;
	size_t at = low + (size_t)d->random(d->context, high - low + 1);
	at = at / FAULT_PAGE_BYTES * FAULT_PAGE_BYTES;
	return at < low ? low : at;
}

static void page_build(const fault_file *f, size_t page, const dice *d, uint8_t out[FAULT_PAGE_BYTES])
{
	memset(out, 0, FAULT_PAGE_BYTES);
	size_t at = page * FAULT_PAGE_BYTES;
	const uint8_t *old = kept_page(f, page);
	bool is_new = at >= f->durable_length; /* never flushed: there, or zeros */
	if ((old || is_new) && toss(d)) {
		if (old) memcpy(out, old, FAULT_PAGE_BYTES);
		return;
	}
	if (at < f->length) memcpy(out, f->latest + at, f->length - at < FAULT_PAGE_BYTES ? f->length - at : FAULT_PAGE_BYTES);
}

static cb_code image_write(const fault_file *f, const dice *d, const char *to, cb_error *err)
{
	AUTO_FD int fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0) return cb_err_errno(err, errno, "making '%s'", to);
	size_t length = length_choose(f, d);
	for (size_t at = 0; at < length; at += FAULT_PAGE_BYTES) {
		uint8_t page[FAULT_PAGE_BYTES];
		page_build(f, at / FAULT_PAGE_BYTES, d, page);
		CB_TRY(io_pwrite_all(fd, page, length - at < FAULT_PAGE_BYTES ? length - at : FAULT_PAGE_BYTES, at, err));
	}
	return CB_OK;
}

static cb_code image_file(const fault_file *f, const char *folder, const dice *d, const char *to, cb_error *err)
{
	size_t n = strlen(folder);
	if (n && (strncmp(f->path, folder, n) != 0 || f->path[n] != '/')) return CB_OK;
	if (!f->is_durable && (f->deleted || toss(d))) return CB_OK; /* never flushed: may not be there at all */
	if (f->deleted && toss(d)) return CB_OK;
	const char *name = strrchr(f->path, '/') + 1;
	bool is_segment = strstr(name, ".seg") != NULL;
	char path[LIMIT_PATH_BYTES + 64];
	(void)snprintf(path, sizeof path, "%s/%s%s", to, is_segment ? "seg/" : "", name);
	return image_write(f, d, path, err);
}

cb_code store_fault_cut(store_fault_plan *plan, const char *store_folder, store_fault_random random, void *context, const char *to,
                        cb_error *err)
{
	if (!plan->record || !plan->state) return cb_err_set(err, CB_INVALID, "nothing was recorded");
	char path[LIMIT_PATH_BYTES + 64];
	if (strlen(to) + 64 > LIMIT_PATH_BYTES) return cb_err_set(err, CB_NAMETOOLONG, "'%s'", to);
	(void)snprintf(path, sizeof path, "%s/seg", to);
	if (mkdir(to, 0700) != 0 || mkdir(path, 0700) != 0) return cb_err_errno(err, errno, "making '%s'", to);
	dice d = {random, context};
	cb_code code = CB_OK;
	(void)pthread_mutex_lock(&plan->state->mutex);
	for (const fault_file *f = plan->state->files; f && code == CB_OK; f = f->next)
		code = image_file(f, store_folder ? store_folder : "", &d, to, err);
	(void)pthread_mutex_unlock(&plan->state->mutex);
	return code;
}

uint64_t store_fault_flushes(const store_fault_plan *plan, const char *suffix)
{
	uint64_t n = 0;
	if (!plan->state) return 0;
	(void)pthread_mutex_lock(&plan->state->mutex);
	for (const fault_file *f = plan->state->files; f; f = f->next) {
		size_t have = strlen(f->path), want = strlen(suffix);
		if (have >= want && strcmp(f->path + have - want, suffix) == 0) n += f->flushes;
	}
	(void)pthread_mutex_unlock(&plan->state->mutex);
	return n;
}
