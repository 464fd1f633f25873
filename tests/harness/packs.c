/* packs.c: see packs.h. */
#include "harness/packs.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "transfer/pack.h"
#include "tree/tree.h"

pack_bytes pack_take(cb_box *b, const cb_pack_options *options)
{
	cb_error err = {0};
	cb_pack_info info = CB_INIT(cb_pack_info);
	int fd = memfd_create("pack", MFD_CLOEXEC);
	CHECK(fd >= 0);
	CHECK_OK(cb_pack(b, fd, options, &info, &err));
	pack_bytes p = {.size = (size_t)lseek(fd, 0, SEEK_END)};
	CHECK_U64(info.packed_bytes, p.size);
	p.bytes = test_keep(malloc(p.size));
	CHECK(pread(fd, p.bytes, p.size, 0) == (ssize_t)p.size);
	(void)close(fd);
	return p;
}

cb_code pack_give(cb_store *s, const pack_bytes *p, const char *name, cb_pack_info *out, cb_error *err)
{
	int fd = memfd_create("pack", MFD_CLOEXEC);
	CHECK(fd >= 0 && write(fd, p->bytes, p->size) == (ssize_t)p->size && lseek(fd, 0, SEEK_SET) == 0);
	cb_code code = cb_unpack(s, fd, name, NULL, out, err);
	(void)close(fd);
	return code;
}

/* ---- states ---- */

/* The version of each path in the state described before, sorted by the hash of the path. */
typedef struct pack_version_row {
	uint64_t path, ino, version;
} pack_version_row;

typedef struct describing {
	cb_box *b;
	buf out;
	buf inos; /* uint64_t: in the order of first sight */
	buf versions;
	const buf *before; /* versions of the state before; NULL: none */
} describing;

static int compare_rows(const void *a, const void *b)
{
	const pack_version_row *x = a, *y = b;
	return x->path < y->path ? -1 : x->path > y->path;
}

/* Versions are numbers of the store; what must be the same is when those of a file change. */
static const char *version_word(describing *d, const char *path, const cb_stat_info *info)
{
	pack_version_row row = {hash64(path, strlen(path)), info->ino, info->version};
	(void)buf_append(&d->versions, &row, sizeof(row), NULL);
	if (!d->before || !d->before->size) return "new";
	const pack_version_row *was = bsearch(&row, d->before->bytes, d->before->size / sizeof(row), sizeof(row), compare_rows);
	if (!was) return "new";
	if (was->ino != row.ino) return "another's";
	return was->version == row.version ? "as before" : was->version < row.version ? "newer" : "older";
}

/* A number that is the same in both boxes: when it was first seen. */
static size_t first_sight(buf *seen, uint64_t number)
{
	const uint64_t *all = (const uint64_t *)(const void *)seen->bytes;
	size_t count = seen->size / sizeof(uint64_t);
	for (size_t i = 0; i < count; i++)
		if (all[i] == number) return i;
	(void)buf_append(seen, &number, sizeof(number), NULL);
	return count;
}

static cb_code describe_attr(void *context, const char *name, const char *value, size_t size, cb_error *err)
{
	buf *out = context;
	return buf_printf(out, err, " [%s=%zu:%016" PRIx64 "]", name, size, hash64(value ? value : "", value ? size : 0));
}

static void describe_file(describing *d, const char *path, const cb_stat_info *info)
{
	cb_error err = {0};
	cb_file *f = NULL;
	char *bytes = NULL;
	size_t size = 0;
	CHECK_OK(cb_open(d->b, path, CB_READ | CB_NOFOLLOW_OPEN, 0, &f, &err));
	uint64_t at = 0, next = 0;
	while (at < info->size && cb_seek(f, (int64_t)at, CB_SEEK_DATA, &next, NULL) == CB_OK) {
		CHECK_OK(cb_seek(f, (int64_t)next, CB_SEEK_HOLE, &at, &err));
		(void)buf_printf(&d->out, &err, " %" PRIu64 "-%" PRIu64, next, at);
	}
	CHECK_OK(cb_close(f, &err));
	if (info->size > (64 << 20)) return;
	CHECK_OK(cb_read_file(d->b, path, &bytes, &size, &err));
	(void)buf_printf(&d->out, &err, " %016" PRIx64, hash64(bytes, size));
	cb_free(bytes);
}

static cb_code describe_path(void *context, const char *path, const cb_stat_info *info, cb_error *unused)
{
	(void)unused;
	describing *d = context;
	cb_error err = {0};
	(void)buf_printf(&d->out, &err, "%s %d %o links %u size %" PRIu64 " %" PRId64 " %" PRId64 " %" PRId64 " ino %zu version %s",
	                 path, (int)info->type, info->mode, info->links, info->size, info->mtime_ns, info->ctime_ns, info->atime_ns,
	                 first_sight(&d->inos, info->ino), version_word(d, path, info));
	if (info->type == CB_FILE) describe_file(d, path, info);
	if (info->type == CB_SYMLINK) {
		char *target = NULL;
		CHECK_OK(cb_readlink(d->b, path, &target, NULL, &err));
		(void)buf_printf(&d->out, &err, " -> %s", target);
		cb_free(target);
	}
	CHECK_OK(cb_xattr_list(d->b, path, CB_NOFOLLOW, describe_attr, &d->out, &err));
	if (info->type != CB_SYMLINK) {
		CHECK_OK(cb_tag_list(d->b, path, describe_attr, &d->out, &err));
		CHECK_OK(cb_meta_list(d->b, path, describe_attr, &d->out, &err));
	}
	(void)buf_append_byte(&d->out, '\n', &err);
	return CB_OK;
}

/* versions: in, of the state before; out, of this one. */
static char *describe_after(cb_box *b, buf *versions)
{
	cb_error err = {0};
	describing d = {b, BUF_INIT(SIZE_MAX), BUF_INIT(SIZE_MAX), BUF_INIT(SIZE_MAX), versions};
	CHECK_OK(cb_walk(b, "/", describe_path, &d, &err));
	CHECK_OK(cb_kv_list(b, "", describe_attr, &d.out, &err));
	cb_box_info info = CB_INIT(cb_box_info);
	CHECK_OK(cb_box_info_get(b, &info, &err));
	(void)buf_printf(&d.out, &err, "\nfiles %" PRIu64 " bytes %" PRIu64 "\n", info.files, info.bytes);
	char *text = NULL;
	size_t size = 0;
	CHECK_OK(buf_take(&d.out, &text, &size, &err));
	buf_done(&d.inos);
	qsort(d.versions.bytes, d.versions.size / sizeof(pack_version_row), sizeof(pack_version_row), compare_rows);
	buf_done(versions);
	*versions = d.versions;
	return text;
}

char *pack_describe(cb_box *b)
{
	AUTO_BUF buf versions = BUF_INIT(SIZE_MAX);
	return describe_after(b, &versions);
}

/* ---- the log ---- */

typedef struct log_describing {
	cb_box *b;
	const char *name;
	buf out, seqs;
} log_describing;

static cb_code describe_change(void *context, const cb_change *c, cb_error *err)
{
	return buf_printf(context, err, "   %c %s %s %d %d\n", (char)c->kind, c->path, c->old_path ? c->old_path : "", c->modified,
	                  c->attributes);
}

static cb_code describe_step(void *context, const cb_step *s, cb_error *err)
{
	log_describing *d = context;
	const char *other = strcmp(s->other, d->name) == 0 ? "(itself)" : s->other;
	(void)buf_append(&d->seqs, &s->seq, sizeof(s->seq), err);
	return buf_printf(&d->out, err,
	                  "%" PRIu64 " %s by %s params %zu %016" PRIx64 " result %zu %016" PRIx64 " %" PRId64 "-%" PRId64
	                  " changed %d target %" PRIu64 " other %s %" PRIu64 " gap %d\n",
	                  s->seq, s->kind, s->who, s->params_size, hash64(s->params, s->params_size), s->result_size,
	                  hash64(s->result, s->result_size), s->started_ns, s->ended_ns, s->changed, s->target, other, s->other_seq,
	                  s->gap);
}

static cb_code describe_checkpoint(void *context, const cb_checkpoint *c, cb_error *err)
{
	return buf_printf(context, err, "checkpoint %s %" PRIu64 " %" PRId64 " automatic %d\n", c->name, c->seq, c->created_ns,
	                  c->automatic);
}

static void log_take(log_describing *d, cb_box *b, const char *name)
{
	cb_error err = {0};
	*d = (log_describing){b, name, BUF_INIT(SIZE_MAX), BUF_INIT(SIZE_MAX)};
	bool pruned = false;
	CHECK_OK(cb_log(b, NULL, describe_step, d, &pruned, &err));
	const uint64_t *seqs = (const uint64_t *)(const void *)d->seqs.bytes;
	for (size_t i = 0; i < d->seqs.size / sizeof(uint64_t); i++) {
		(void)buf_printf(&d->out, &err, "step %" PRIu64 "\n", seqs[i]);
		if (seqs[i] == 0) continue;
		cb_code code = cb_diff_step(b, seqs[i], NULL, describe_change, &d->out, &err);
		(void)buf_printf(&d->out, &err, "   %s\n", cb_code_name(code));
	}
	CHECK_OK(cb_checkpoint_list(b, describe_checkpoint, &d->out, &err));
	cb_box_info info = CB_INIT(cb_box_info);
	CHECK_OK(cb_box_info_get(b, &info, &err));
	(void)buf_printf(&d->out, &err,
	                 "pruned %d quota %" PRIu64 " %" PRIu64 " %" PRIu64 " keep %" PRIu64 " %" PRId64 " created %" PRId64
	                 " every %" PRIu64 "\n",
	                 pruned, info.quota_bytes, info.quota_files, info.quota_file_bytes, info.keep_steps, info.keep_ns,
	                 info.created_ns, info.checkpoint_every);
}

char *pack_describe_log(cb_box *b, const char *name)
{
	cb_error err = {0};
	log_describing d;
	char *text = NULL;
	size_t size;
	log_take(&d, b, name);
	CHECK_OK(buf_take(&d.out, &text, &size, &err));
	buf_done(&d.seqs);
	return text;
}

static void same_text(char *a, char *b, const char *what)
{
	if (strcmp(a, b) != 0) {
		size_t i = 0;
		while (a[i] == b[i]) i++;
		while (i > 0 && a[i - 1] != '\n') i--;
		test_note("%s: first difference:", what);
		test_note("< %.*s", (int)strcspn(a + i, "\n"), a + i);
		test_note("> %.*s", (int)strcspn(b + i, "\n"), b + i);
		test_fail(__FILE__, __LINE__, "%s differ", what);
	}
	free(a);
	free(b);
}

void pack_must_equal(cb_store *sa, const char *name_a, cb_store *sb, const char *name_b)
{
	cb_box *a = must_open(sa, name_a), *b = must_open(sb, name_b);
	log_describing d;
	log_take(&d, a, name_a);
	buf_done(&d.out);
	same_text(pack_describe_log(a, name_a), pack_describe_log(b, name_b), "logs");
	AUTO_BUF buf versions_a = BUF_INIT(SIZE_MAX), versions_b = BUF_INIT(SIZE_MAX);
	const uint64_t *seqs = (const uint64_t *)(const void *)d.seqs.bytes;
	for (size_t i = d.seqs.size / sizeof(uint64_t); i-- > 0;) { /* the log has the newest first */
		char at_a[128], at_b[128], what[64];
		(void)snprintf(at_a, sizeof(at_a), "%s@%" PRIu64, name_a, seqs[i]);
		(void)snprintf(at_b, sizeof(at_b), "%s@%" PRIu64, name_b, seqs[i]);
		(void)snprintf(what, sizeof(what), "states after step %" PRIu64, seqs[i]);
		cb_box *x = must_open(sa, at_a), *y = must_open(sb, at_b);
		same_text(describe_after(x, &versions_a), describe_after(y, &versions_b), what);
		cb_box_close(x);
		cb_box_close(y);
	}
	buf_done(&d.seqs);
	cb_box_close(a);
	cb_box_close(b);
}

/* ---- records ---- */

pack_records pack_split(const pack_bytes *p)
{
	cb_error err = {0};
	pack_reader r;
	pack_records out = {0};
	int fd = memfd_create("pack", MFD_CLOEXEC);
	CHECK(fd >= 0 && write(fd, p->bytes, p->size) == (ssize_t)p->size && lseek(fd, 0, SEEK_SET) == 0);
	CHECK_OK(pack_reader_init(&r, fd, (pack_pause){0}, &err));
	out.format = r.format;
	for (bool end = false; !end;) {
		AUTO_BUF buf one = BUF_INIT(SIZE_MAX);
		CHECK_OK(pack_next(&r, &one, &err));
		pack_record_view v = {.type = one.bytes[0], .size = one.size - PACK_RECORD_HEADER_BYTES};
		v.bytes = malloc(v.size + 1);
		memcpy(v.bytes, one.bytes + PACK_RECORD_HEADER_BYTES, v.size);
		out.all = realloc(out.all, (out.count + 1) * sizeof(v));
		out.all[out.count++] = v;
		end = v.type == PACK_END;
	}
	pack_reader_done(&r);
	(void)close(fd);
	return out;
}

static void end_fix(uint8_t *end, const pack_records *r, size_t upto)
{
	uint64_t n[3] = {0};
	for (size_t i = 0; i < upto; i++) {
		n[0] += r->all[i].type == PACK_STEP;
		n[1] += r->all[i].type == PACK_CONTENT;
		n[2] += r->all[i].type == PACK_CHECKPOINT || r->all[i].type == PACK_AUTOMATIC;
	}
	put_le64(end, upto);
	for (size_t i = 0; i < 3; i++) put_le64(end + 8 + 8 * i, n[i]);
}

pack_bytes pack_join(const pack_records *r, bool fix_end)
{
	cb_error err = {0};
	pack_writer w;
	int fd = memfd_create("pack", MFD_CLOEXEC);
	CHECK(fd >= 0);
	CHECK_OK(pack_writer_init(&w, fd, r->format, (pack_pause){0}, &err));
	for (size_t i = 0; i < r->count; i++) {
		const pack_record_view *v = &r->all[i];
		uint8_t end[32];
		bool fix = fix_end && v->type == PACK_END && v->size == sizeof(end);
		if (fix) end_fix(end, r, i);
		span bytes = fix ? span_make(end, sizeof(end)) : span_make(v->bytes, v->size);
		CHECK_OK(pack_record(&w, (pack_type)v->type, bytes, (span){0}, &err));
	}
	CHECK_OK(pack_flush(&w, &err));
	pack_bytes p = {.size = (size_t)w.bytes};
	p.bytes = malloc(p.size);
	CHECK(pread(fd, p.bytes, p.size, 0) == (ssize_t)p.size);
	pack_writer_done(&w);
	(void)close(fd);
	return p;
}

void pack_records_free(pack_records *r)
{
	for (size_t i = 0; i < r->count; i++) free(r->all[i].bytes);
	free(r->all);
	*r = (pack_records){0};
}

/* ---- lies ---- */

static void flip(uint8_t *bytes, size_t size, test_rng *rng)
{
	static const uint8_t odd[] = {0, 1, 0x7f, 0x80, 0xff};
	if (size == 0) return;
	size_t at = test_rand_below(rng, size);
	switch (test_rand_below(rng, 3)) {
	case 0:
		bytes[at] ^= (uint8_t)(1u << test_rand_below(rng, 8));
		return;
	case 1:
		bytes[at] = odd[test_rand_below(rng, ARRAY_LEN(odd))];
		return;
	default:
		bytes[at] = (uint8_t)(bytes[at] + (test_rand_below(rng, 2) ? 1 : -1));
		return;
	}
}

typedef struct key_lie {
	test_rng *rng;
	pmap map;
	size_t count, at;
	unsigned what;
} key_lie;

static cb_code lie_key(void *context, span key_bytes, span old_value, span new_value, cb_error *err)
{
	key_lie *l = context;
	(void)old_value;
	uint8_t k[TREE_KEY_MAX], v[TREE_VALUE_MAX];
	span kk = span_make(k, key_bytes.size), vv = new_value.bytes ? span_make(v, new_value.size) : (span){0};
	memcpy(k, key_bytes.bytes, key_bytes.size);
	if (new_value.size) memcpy(v, new_value.bytes, new_value.size);
	bool chosen = l->count++ == l->at;
	if (chosen && l->what == 0) return CB_OK;
	if (chosen && l->what == 1) vv = (span){0};
	if (chosen && l->what == 2 && vv.bytes) flip(v, vv.size, l->rng);
	if (chosen && l->what == 3) flip(k, kk.size, l->rng);
	if (chosen && l->what == 4) { /* the same under another key, too */
		CB_TRY(vv.bytes ? pmap_put(&l->map, kk, vv, err) : pmap_put_tombstone(&l->map, kk, err));
		flip(k, kk.size, l->rng);
	}
	if (chosen && l->what == 5 && kk.size >= 9 && vv.size >= 9) memcpy(v + 1, k + 1, 8), v[1] = 0;
	return vv.bytes ? pmap_put(&l->map, kk, vv, err) : pmap_put_tombstone(&l->map, kk, err);
}

static cb_code count_keys(void *context, span key_bytes, span old_value, span new_value, cb_error *err)
{
	(void)key_bytes, (void)old_value, (void)new_value, (void)err;
	++*(size_t *)context;
	return CB_OK;
}

static void lie_keys(pack_record_view *v, test_rng *rng)
{
	key_lie l = {.rng = rng, .what = (unsigned)test_rand_below(rng, 6)};
	size_t total = 0;
	if (v->size < 8 || tree_changes_decode(span_make(v->bytes + 8, v->size - 8), count_keys, &total, NULL) != CB_OK || !total)
		return;
	l.at = test_rand_below(rng, total);
	(void)tree_changes_decode(span_make(v->bytes + 8, v->size - 8), lie_key, &l, NULL);
	AUTO_BUF buf out = BUF_INIT(SIZE_MAX);
	uint8_t next[8];
	memcpy(next, v->bytes, 8);
	if (test_rand_below(rng, 20) == 0) flip(next, 8, rng);
	pmap_cursor c;
	span k, value, previous = {0};
	bool tombstone;
	AUTO_BUF buf list = BUF_INIT(SIZE_MAX);
	for (pmap_seek(&c, &l.map, (span){0}); pmap_cursor_get(&c, &k, &value, &tombstone); pmap_cursor_next(&c)) {
		span empty = span_make("", 0);
		(void)tree_changes_append(&list, previous, k, tombstone ? empty : (span){0}, tombstone ? (span){0} : value, NULL);
		previous = k;
	}
	(void)buf_append(&out, next, 8, NULL);
	(void)buf_append(&out, list.bytes, list.size, NULL);
	free(v->bytes);
	size_t size;
	(void)buf_take(&out, (char **)&v->bytes, &size, NULL);
	v->size = size;
	pmap_done(&l.map);
}

static void record_remove(pack_records *r, size_t at)
{
	free(r->all[at].bytes);
	memmove(&r->all[at], &r->all[at + 1], (r->count - at - 1) * sizeof(r->all[0]));
	r->count--;
}

static void record_double(pack_records *r, size_t at, size_t to)
{
	pack_record_view v = r->all[at];
	v.bytes = malloc(v.size + 1);
	memcpy(v.bytes, r->all[at].bytes, v.size);
	r->all = realloc(r->all, (r->count + 1) * sizeof(v));
	memmove(&r->all[to + 1], &r->all[to], (r->count - to) * sizeof(v));
	r->all[to] = v;
	r->count++;
}

void pack_mutate(pack_records *r, test_rng *rng)
{
	if (r->count < 2) return;
	size_t at = test_rand_below(rng, r->count), other = test_rand_below(rng, r->count);
	pack_record_view *v = &r->all[at], swapped;
	switch (test_rand_below(rng, 12)) {
	case 0:
		record_remove(r, at);
		return;
	case 1:
		record_double(r, at, other);
		return;
	case 2:
		swapped = *v;
		*v = r->all[other];
		r->all[other] = swapped;
		return;
	case 3:
		flip(v->bytes, v->size, rng);
		return;
	case 4:
		v->size = v->size ? test_rand_below(rng, v->size) : 0;
		return;
	default:
		for (unsigned i = 0; i < 200 && r->all[at].type != PACK_KEYS && r->all[at].type != PACK_GAP_KEYS; i++)
			at = test_rand_below(rng, r->count);
		lie_keys(&r->all[at], rng);
		return;
	}
}

/* ---- a box with one of everything ---- */

cb_box *pack_sample(cb_store *s)
{
	cb_error err = {0};
	cb_box *b = NULL;
	static char large[300000];
	for (size_t i = 0; i < sizeof(large); i++) large[i] = (char)('a' + i % 23);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/gone/soon", "x");
	CHECK_OK(cb_write_file(b, "/work/large", large, 70000, NULL, &err));
	must_write(b, "/work/a", "one\n");
	CHECK_OK(cb_link(b, "/work/a", "/work/b", &err));
	CHECK_OK(cb_mkdir(b, "/work/d/e/f", 0750, CB_PARENTS, &err));
	CHECK_OK(cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 2), NULL, &err));
	CHECK_OK(cb_checkpoint_save(b, "mark", 0, true, &err));
	CHECK_OK(cb_symlink(b, "a", "/work/d/short", &err));
	large[200] = 0;
	CHECK_OK(cb_symlink(b, large, "/work/d/long", &err));
	cb_file *f = NULL;
	CHECK_OK(cb_open(b, "/work/holes", CB_WRITE | CB_CREATE, 0600, &f, &err));
	CHECK_OK(cb_pwrite(f, large, 5000, 100000, &err));
	CHECK_OK(cb_pwrite(f, large, 5000, 3000000, &err));
	CHECK_OK(cb_close(f, &err));
	CHECK_OK(cb_truncate(b, "/work/holes", 101000, &err));
	CHECK_OK(cb_xattr_set(b, "/work/a", "user.x", large, 500, 0, &err));
	CHECK_OK(cb_tag_add(b, "/work/d", "tag", &err));
	CHECK_OK(cb_meta_set(b, "/work/holes", "name", "value", CB_STRING, &err));
	CHECK_OK(cb_kv_set(b, "key", large, 150, &err));
	CHECK_OK(cb_kv_set(b, "small", "v", 1, &err));
	cb_box *fork = must_fork(s, "demo", "other");
	must_write(fork, "/work/new", "from the fork\n");
	CHECK_OK(cb_merge(b, fork, NULL, NULL, NULL, &err));
	cb_box_close(fork);
	CHECK_OK(cb_rename(b, "/work/d/e", "/work/e", 0, &err));
	CHECK_OK(cb_remove(b, "/work/gone", &err));
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	CHECK_OK(cb_step_record(b,
	                        &CB_WITH(cb_step_info, .kind = "sh", .params = "ls", .params_size = CB_STRING, .result = "ok",
	                                 .result_size = CB_STRING),
	                        NULL, &err));
	CHECK_OK(cb_checkpoint_save(b, NULL, 0, true, &err));
	CHECK_OK(cb_setting_set(b, "mine", "yes", CB_STRING, &err));
	CHECK_OK(cb_box_checkpoint_every_set(b, 1000, &err));
	CHECK_OK(cb_box_quota_set(b, 1u << 30, 1000, 0, &err));
	return b;
}

/* ---- the judge ---- */

static cb_code count_box(void *context, const cb_box_info *info, cb_error *err)
{
	(void)info, (void)err;
	++*(unsigned *)context;
	return CB_OK;
}

static cb_code fork_step(void *context, const cb_step *step, cb_error *err)
{
	(void)err;
	return buf_append(context, &step->seq, sizeof(step->seq), NULL);
}

void pack_must_be_whole(cb_store *s, const char *name, cb_code code)
{
	cb_error err = {0};
	unsigned boxes = 0;
	CHECK_OK(cb_box_list(s, count_box, &boxes, &err));
	if (code != CB_OK) {
		CHECK_MSG(code == CB_CORRUPT, "refused with %s", cb_code_name(code));
		CHECK_U64(boxes, 0);
		test_store_sound(s);
		return;
	}
	CHECK_U64(boxes, 1);
	cb_box *b = must_open(s, name);
	AUTO_BUF buf seqs = BUF_INIT(SIZE_MAX);
	CHECK_OK(cb_log(b, NULL, fork_step, &seqs, NULL, &err));
	/* fsck looks at the newest state of every box: so each step is made one */
	for (size_t i = 0; i < seqs.size / sizeof(uint64_t); i++) {
		uint64_t seq;
		char address[64], fork[64];
		memcpy(&seq, seqs.bytes + i * sizeof(seq), sizeof(seq));
		(void)snprintf(address, sizeof(address), "%s@%" PRIu64, name, seq);
		(void)snprintf(fork, sizeof(fork), "f%" PRIu64, seq);
		cb_box *f = must_fork(s, address, fork);
		free(pack_describe(f));
		cb_box_close(f);
	}
	test_store_sound(s);
	/* whatever is asked of it next, it stays sound */
	for (size_t i = 0; i < seqs.size / sizeof(uint64_t); i++) {
		uint64_t seq;
		memcpy(&seq, seqs.bytes + i * sizeof(seq), sizeof(seq));
		(void)cb_undo(b, seq, NULL, &err);
	}
	free(pack_describe_log(b, name));
	test_store_sound(s);
	cb_box_close(b);
}
