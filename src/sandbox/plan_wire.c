/*
 * plan_wire.c: a plan as bytes, as ENTER carries it and init reads it. Integers little-endian, strings as u32 size and bytes.
 *
 * The bytes come from the caller, which is trusted; they are checked all the same, so that a mistake there is a refusal here: what a
 * plan says is done with every right the helper has.
 */
#include <errno.h>
#include <sched.h>

#include "base/bytes.h"
#include "sandbox/plan_parts.h"

enum { PLAN_FORMAT = 1 };
static const uint64_t known_namespaces =
	CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUTS | CLONE_NEWCGROUP | CLONE_NEWNET | CLONE_NEWIPC;

/* ---- writing ---- */

static cb_code put_u32(buf *to, uint32_t v, cb_error *err)
{
	uint8_t bytes[4];
	put_le32(bytes, v);
	return buf_append(to, bytes, 4, err);
}

static cb_code put_u64(buf *to, uint64_t v, cb_error *err)
{
	uint8_t bytes[8];
	put_le64(bytes, v);
	return buf_append(to, bytes, 8, err);
}

static cb_code put_str(buf *to, const char *s, cb_error *err)
{
	CB_TRY(put_u32(to, (uint32_t)strlen(s), err));
	return buf_append_str(to, s, err);
}

static cb_code put_limits(buf *to, const plan_limits *l, cb_error *err)
{
	const uint64_t all[] = {l->memory_bytes, l->disk_bytes, l->files, l->cpus_milli, l->pids, l->open_files, l->file_bytes};
	for (size_t i = 0; i < ARRAY_LEN(all); i++) CB_TRY(put_u64(to, all[i], err));
	return CB_OK;
}

cb_code plan_put(buf *to, const plan *p, cb_error *err)
{
	CB_TRY(put_u32(to, PLAN_FORMAT, err));
	CB_TRY(put_u32(to, p->weak + p->weak_net, err));
	CB_TRY(put_u64(to, p->namespaces, err));
	CB_TRY(put_u64(to, p->walls_down, err));
	CB_TRY(put_u32(to, p->uid, err));
	CB_TRY(put_u32(to, p->gid, err));
	CB_TRY(put_limits(to, &p->limits, err));
	CB_TRY(put_str(to, p->hostname, err));
	CB_TRY(put_u32(to, (uint32_t)p->op_count, err));
	for (size_t i = 0; i < p->op_count; i++) {
		const plan_op *op = &p->ops[i];
		CB_TRY(put_u32(to, op->type, err));
		CB_TRY(put_u32(to, op->flags, err));
		CB_TRY(put_u32(to, op->mode, err));
		CB_TRY(put_u32(to, (uint32_t)op->fd_index, err));
		CB_TRY(put_u64(to, op->size_bytes, err));
		CB_TRY(put_str(to, op->from, err));
		CB_TRY(put_str(to, op->to, err));
	}
	return CB_OK;
}

/* ---- reading ---- */

static cb_code corrupt(cb_error *err, const char *what)
{
	return cb_err_set(err, CB_CORRUPT, "a plan with %s", what);
}

static cb_code get_str(reader *r, plan *p, const char **out, cb_error *err)
{
	span bytes = reader_span(r, reader_le32(r));
	if (r->bad || memchr(bytes.size ? (const void *)bytes.bytes : "", 0, bytes.size)) return corrupt(err, "a damaged string");
	if (plan_keep(p, bytes, span_make(NULL, 0), out, NULL) != CB_OK) return corrupt(err, "too many strings");
	return CB_OK;
}

static bool get_u32_as(reader *r, uint32_t *out)
{
	uint64_t v = reader_le64(r);
	*out = (uint32_t)v;
	return v <= UINT32_MAX;
}

static cb_code get_limits(reader *r, plan_limits *out, cb_error *err)
{
	out->memory_bytes = reader_le64(r);
	out->disk_bytes = reader_le64(r);
	out->files = reader_le64(r);
	bool fits = get_u32_as(r, &out->cpus_milli) && get_u32_as(r, &out->pids);
	out->open_files = reader_le64(r);
	out->file_bytes = reader_le64(r);
	return fits ? CB_OK : corrupt(err, "a bound out of range");
}

static cb_code check_op(const plan *p, const plan_op *op, cb_error *err)
{
	if (!plan_path_is_clean(op->to)) return corrupt(err, "a place that is no path");
	if (op->to[1] == 0) return corrupt(err, "the root as a place");
	if (op->flags & ~(uint32_t)PLAN_FLAGS || op->mode & ~07777u) return corrupt(err, "unknown flags");
	if (op->fd_index < -1 || op->fd_index >= PLAN_FDS) return corrupt(err, "a descriptor out of range");
	switch (op->type) {
	case PLAN_DIR:
	case PLAN_TMPFS:
	case PLAN_PROC:
	case PLAN_DEV:
	case PLAN_CACHE:
		return *op->from ? corrupt(err, "a source where there is none") : CB_OK;
	case PLAN_SUBTREE:
		return op == p->ops && !*op->from ? CB_OK : corrupt(err, "a part of the tree that is not first");
	case PLAN_SYMLINK:
		return *op->from ? CB_OK : corrupt(err, "an empty link");
	case PLAN_BIND:
	case PLAN_ETC:
		return op->from[0] == '/' ? CB_OK : corrupt(err, "a source that is not absolute");
	}
	return corrupt(err, "an unknown operation");
}

static cb_code get_op(reader *r, plan *p, cb_error *err)
{
	plan_op *op = &p->ops[p->op_count];
	op->type = (plan_op_type)reader_le32(r);
	op->flags = reader_le32(r);
	op->mode = reader_le32(r);
	op->fd_index = (int)reader_le32(r);
	op->size_bytes = reader_le64(r);
	CB_TRY(get_str(r, p, &op->from, err));
	CB_TRY(get_str(r, p, &op->to, err));
	CB_TRY(check_op(p, op, err));
	p->op_count++;
	return CB_OK;
}

static cb_code get_head(reader *r, plan *p, cb_error *err)
{
	if (reader_le32(r) != PLAN_FORMAT) return corrupt(err, "another format: the helper is not of this cowbox");
	uint32_t weak = reader_le32(r);
	p->weak = weak != 0;
	p->weak_net = weak == 2;
	p->namespaces = reader_le64(r);
	p->walls_down = reader_le64(r);
	p->uid = reader_le32(r);
	p->gid = reader_le32(r);
	if (weak > 2 || p->namespaces & ~known_namespaces) return corrupt(err, "unknown namespaces");
#ifndef COWBOX_TEST_WALLS
	if (p->walls_down) return corrupt(err, "walls taken down");
#endif
	if (p->uid == 0 || p->gid == 0 || p->uid >= 65534 || p->gid >= 65534) return corrupt(err, "a user that cannot be");
	CB_TRY(get_limits(r, &p->limits, err));
	CB_TRY(get_str(r, p, &p->hostname, err));
	return strlen(p->hostname) <= 64 ? CB_OK : corrupt(err, "a long host name");
}

static cb_code get(span body, plan *p, cb_error *err)
{
	reader r = reader_make(body);
	CB_TRY(plan_reserve(p, err));
	CB_TRY(get_head(&r, p, err));
	uint32_t count = reader_le32(&r);
	if (r.bad || count > LIMIT_PLAN_OPS || (p->weak && count)) return corrupt(err, "too many operations");
	for (uint32_t i = 0; i < count; i++) CB_TRY(get_op(&r, p, err));
	return r.bad || !reader_at_end(&r) ? corrupt(err, "a damaged end") : CB_OK;
}

cb_code plan_get(span body, plan *out, cb_error *err)
{
	plan p = {0};
	cb_code code = get(body, &p, err);
	if (code == CB_OK) *out = p;
	else plan_done(&p);
	return code;
}
