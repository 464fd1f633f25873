/*
 * copy.c: files and folders from any state into a box, with everything that belongs to them. What is to be copied is listed before the
 * first change, so that a copy within one box never meets itself.
 */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

enum {
	COPY_LIST_BYTES = 1 << 30, /* of paths and infos of what is copied */
	COPY_PIECE_BYTES = 1 << 20,
	COPY_PATH_BYTES = 64 << 10,
	COPY_ATTRS_BYTES = 256 << 20, /* of one file */
};

typedef struct item {
	cb_stat_info info;
	size_t path_at;
} item;

/* A file with several names: the first of them that was copied. */
typedef struct linked {
	uint64_t ino;
	size_t item;
} linked;

typedef struct copying {
	cb_box *from, *to;
	const char *source, *target;
	size_t source_size;
	buf items, paths, linked;
	buf attrs; /* of the file at hand: kind, name NUL, size, value */
	char *piece;
} copying;

static const item *item_at(const copying *k, size_t i)
{
	return (const item *)(const void *)k->items.bytes + i;
}

static const char *item_path(const copying *k, const item *it)
{
	return (const char *)k->paths.bytes + it->path_at;
}

static cb_code collect(void *context, const char *path, const cb_stat_info *info, cb_error *err)
{
	copying *k = context;
	item it = {*info, k->paths.size};
	if (k->items.size == 0) k->source_size = strcmp(path, "/") == 0 ? 0 : strlen(path);
	CB_TRY(buf_append(&k->paths, path, strlen(path) + 1, err));
	return buf_append(&k->items, &it, sizeof(it), err);
}

static cb_code target_of(const copying *k, const item *it, char **out, cb_error *err)
{
	AUTO_BUF buf text = BUF_INIT(COPY_PATH_BYTES);
	CB_TRY(buf_append_str(&text, k->target, err));
	CB_TRY(buf_append_str(&text, item_path(k, it) + k->source_size, err));
	return buf_take(&text, out, NULL, err);
}

/* ---- attributes ---- */

typedef struct attr {
	char kind; /* 'x', 't', 'm' */
	size_t name_size, value_size;
} attr;

typedef struct attr_list {
	copying *k;
	char kind;
} attr_list;

static cb_code attr_collect(void *context, const char *name, const char *value, size_t size, cb_error *err)
{
	const attr_list *l = context;
	attr a = {l->kind, strlen(name), value ? size : 0};
	CB_TRY(buf_append(&l->k->attrs, &a, sizeof(a), err));
	CB_TRY(buf_append(&l->k->attrs, name, a.name_size + 1, err));
	CB_TRY(buf_append(&l->k->attrs, value, a.value_size, err));
	return buf_append_byte(&l->k->attrs, 0, err);
}

static cb_code attr_set(copying *k, const attr *a, const char *name, const char *value, const char *to, unsigned flags,
                        cb_error *err)
{
	if (a->kind == 't') return cb_tag_add(k->to, to, name, err);
	if (a->kind == 'm') return cb_meta_set(k->to, to, name, value, a->value_size, err);
	return cb_xattr_set(k->to, to, name, value, a->value_size, flags, err);
}

static cb_code attrs_copy(copying *k, const item *it, const char *to, cb_error *err)
{
	const char *from = item_path(k, it);
	bool link = it->info.type == CB_SYMLINK;
	unsigned flags = link ? CB_NOFOLLOW : 0;
	attr_list x = {k, 'x'}, t = {k, 't'}, m = {k, 'm'};
	buf_clear(&k->attrs);
	CB_TRY(cb_xattr_list(k->from, from, flags, attr_collect, &x, err));
	/* Of a link, tags and metadata are those of what it leads to. */
	if (!link) CB_TRY(cb_tag_list(k->from, from, attr_collect, &t, err));
	if (!link) CB_TRY(cb_meta_list(k->from, from, attr_collect, &m, err));
	for (size_t at = 0; at < k->attrs.size;) {
		attr a;
		memcpy(&a, k->attrs.bytes + at, sizeof(a));
		const char *name = (const char *)k->attrs.bytes + at + sizeof(a);
		const char *value = name + a.name_size + 1;
		CB_TRY(attr_set(k, &a, name, value, to, flags, err));
		at += sizeof(a) + a.name_size + 1 + a.value_size + 1;
	}
	return CB_OK;
}

/* ---- contents ---- */

static cb_code pieces_copy(copying *k, cb_file *in, cb_file *out, uint64_t size, cb_error *err)
{
	uint64_t at = 0, hole = 0;
	while (at < size) {
		cb_code code = cb_seek(in, (int64_t)at, CB_SEEK_DATA, &at, err);
		if (code == CB_NOTFOUND) break; /* only a hole is left */
		if (code != CB_OK) return code;
		CB_TRY(cb_seek(in, (int64_t)at, CB_SEEK_HOLE, &hole, err));
		while (at < hole) {
			size_t n = 0, wanted = hole - at < COPY_PIECE_BYTES ? (size_t)(hole - at) : COPY_PIECE_BYTES;
			CB_TRY(cb_pread(in, k->piece, wanted, at, &n, err));
			if (n == 0) return cb_err_set(err, CB_BUSY, "the file became shorter while it was copied: try again");
			CB_TRY(cb_pwrite(out, k->piece, n, at, err));
			at += n;
		}
	}
	return cb_ftruncate(out, size, err);
}

static cb_code large_copy(copying *k, const item *it, const char *to, cb_error *err)
{
	cb_file *in = NULL, *out = NULL;
	if (!k->piece) k->piece = mem_alloc_bytes(COPY_PIECE_BYTES);
	if (!k->piece) return cb_err_nomem(err);
	cb_code code = cb_open(k->from, item_path(k, it), CB_READ | CB_NOFOLLOW_OPEN, 0, &in, err);
	if (code == CB_OK)
		code = cb_open(k->to, to, CB_WRITE | CB_CREATE | CB_TRUNCATE | CB_NOFOLLOW_OPEN, it->info.mode, &out, err);
	if (code == CB_OK) code = pieces_copy(k, in, out, it->info.size, err);
	cb_code closed = cb_close(out, code == CB_OK ? err : NULL);
	(void)cb_close(in, NULL);
	return code == CB_OK ? closed : code;
}

static cb_code content_copy(copying *k, const item *it, const char *to, cb_error *err)
{
	char *bytes = NULL;
	size_t size = 0;
	if (it->info.size > COPY_PIECE_BYTES) return large_copy(k, it, to, err);
	cb_write_options options = CB_WITH(cb_write_options, .mode = it->info.mode);
	CB_TRY(cb_read_file(k->from, item_path(k, it), &bytes, &size, err));
	cb_code code = cb_write_file(k->to, to, bytes, size, &options, err);
	cb_free(bytes);
	return code;
}

/* ---- entries ---- */

/* Makes room at `to`: a link there is replaced, never written through; a folder and a file do not replace each other. */
static cb_code clear_place(copying *k, cb_type type, const char *to, bool *out_exists, cb_error *err)
{
	cb_stat_info there = CB_INIT(cb_stat_info);
	*out_exists = false;
	cb_code code = cb_stat(k->to, to, CB_NOFOLLOW, &there, err);
	if (code == CB_NOTFOUND) return CB_OK;
	if (code != CB_OK) return code;
	if (type == CB_DIR && there.type != CB_DIR) return cb_err_set(err, CB_NOTDIR, "'%s' is there and no folder", to);
	if (type != CB_DIR && there.type == CB_DIR) return cb_err_set(err, CB_ISDIR, "'%s' is there and a folder", to);
	*out_exists = type == CB_DIR;
	return type == CB_DIR ? CB_OK : cb_unlink(k->to, to, err);
}

static int linked_compare(const void *a, const void *b)
{
	const linked *x = a, *y = b;
	if (x->ino != y->ino) return x->ino < y->ino ? -1 : 1;
	return x->item < y->item ? -1 : x->item > y->item;
}

static int linked_is(const void *ino, const void *entry)
{
	uint64_t wanted = *(const uint64_t *)ino, is = ((const linked *)entry)->ino;
	return wanted < is ? -1 : wanted > is;
}

static const linked *linked_find(const copying *k, uint64_t ino)
{
	size_t count = k->linked.size / sizeof(linked);
	return count ? bsearch(&ino, k->linked.bytes, count, sizeof(linked), linked_is) : NULL;
}

/* The first item of each file that has several names, by inode. */
static cb_code linked_prepare(copying *k, cb_error *err)
{
	size_t count = k->items.size / sizeof(item), kept = 0;
	for (size_t i = 0; i < count; i++) {
		linked l = {item_at(k, i)->info.ino, i};
		if (item_at(k, i)->info.type == CB_FILE && item_at(k, i)->info.links > 1)
			CB_TRY(buf_append(&k->linked, &l, sizeof(l), err));
	}
	linked *all = (linked *)(void *)k->linked.bytes;
	size_t n = k->linked.size / sizeof(*all);
	if (n > 0) qsort(all, n, sizeof(*all), linked_compare);
	for (size_t i = 0; i < n; i++)
		if (kept == 0 || all[kept - 1].ino != all[i].ino) all[kept++] = all[i];
	k->linked.size = kept * sizeof(*all);
	return CB_OK;
}

static cb_code link_copy(copying *k, const item *first, const char *to, cb_error *err)
{
	AUTO_FREE char *original = NULL;
	CB_TRY(target_of(k, first, &original, err));
	return cb_link(k->to, original, to, err);
}

static cb_code symlink_copy(copying *k, const item *it, const char *to, cb_error *err)
{
	char *target = NULL;
	CB_TRY(cb_readlink(k->from, item_path(k, it), &target, NULL, err));
	cb_code code = cb_symlink(k->to, target, to, err);
	cb_free(target);
	return code;
}

static cb_code item_copy(copying *k, size_t i, cb_error *err)
{
	const item *it = item_at(k, i);
	AUTO_FREE char *to = NULL;
	bool exists = false;
	unsigned flags = it->info.type == CB_SYMLINK ? CB_NOFOLLOW : 0;
	const linked *names = it->info.type == CB_FILE && it->info.links > 1 ? linked_find(k, it->info.ino) : NULL;
	CB_TRY(target_of(k, it, &to, err));
	CB_TRY(clear_place(k, it->info.type, to, &exists, err));
	if (exists) return CB_OK; /* a folder that is joined keeps what it is */
	if (names && names->item != i) return link_copy(k, item_at(k, names->item), to, err);
	if (it->info.type == CB_DIR) CB_TRY(cb_mkdir(k->to, to, it->info.mode, 0, err));
	else if (it->info.type == CB_SYMLINK) CB_TRY(symlink_copy(k, it, to, err));
	else CB_TRY(content_copy(k, it, to, err));
	if (it->info.type != CB_SYMLINK) CB_TRY(cb_chmod(k->to, to, it->info.mode, 0, err));
	CB_TRY(attrs_copy(k, it, to, err));
	return it->info.type == CB_DIR ? CB_OK : cb_utimens(k->to, to, it->info.atime_ns, it->info.mtime_ns, flags, err);
}

/* Folders get their times last: what is put into them sets them. */
static cb_code times_copy(copying *k, size_t count, cb_error *err)
{
	for (size_t i = count; i-- > 0;) {
		const item *it = item_at(k, i);
		AUTO_FREE char *to = NULL;
		if (it->info.type != CB_DIR) continue;
		CB_TRY(target_of(k, it, &to, err));
		CB_TRY(cb_utimens(k->to, to, it->info.atime_ns, it->info.mtime_ns, 0, err));
	}
	return CB_OK;
}

static cb_code copy_across(copying *k, cb_error *err)
{
	CB_TRY(linked_prepare(k, err));
	size_t count = k->items.size / sizeof(item);
	for (size_t i = 0; i < count; i++) CB_TRY(item_copy(k, i, err));
	return times_copy(k, count, err);
}

cb_code cli_copy_tree(cb_box *from, const char *source, cb_box *to, const char *target, cb_error *err)
{
	copying k = {.from = from, .to = to, .source = source, .target = target, .attrs = BUF_INIT(COPY_ATTRS_BYTES)};
	k.items = k.paths = k.linked = BUF_INIT(COPY_LIST_BYTES);
	cb_code code = cb_walk(k.from, k.source, collect, &k, err);
	if (code == CB_OK) code = copy_across(&k, err);
	buf_done(&k.items);
	buf_done(&k.paths);
	buf_done(&k.linked);
	buf_done(&k.attrs);
	free(k.piece);
	return code;
}
