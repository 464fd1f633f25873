/*
 * wire_body.c: the fields of each message.
 *
 * Everything that get returns was looked at: numbers are in their ranges, enums are known, a string ends where its NUL is, a path has
 * no way out of the root. So whoever acts on a message need not ask again, and put followed by get gives the same.
 */
#include "sandbox/wire.h"

#include <assert.h>

#include "base/bytes.h"

enum {
	OP_MIN_BYTES = 1 + 4 + 4 * 8,
	ENTRY_MIN_BYTES = 1 + 1 + 4 + 7 * 8,
	REASON_BYTES = 1024,
	SIGNAL_MAX = 64,
	MODE_ALL = 07777,
	MODE_DIR = 01777,
	MODE_FILE = 0777,
};

enum { ENTRY_KNOWN = 1, ENTRY_OPAQUE = 2, ENTRY_HAS_FD = 4, ENTRY_CUT = 8, ENTRY_FLAGS = 15 };

/* ---- fields ---- */

static cb_code corrupt(cb_error *err, const char *what)
{
	return cb_err_set(err, CB_CORRUPT, "a message is damaged: %s", what);
}

static void spoil(reader *r)
{
	r->bad = true;
	r->at = r->end;
}

static cb_code put_u32(buf *to, uint32_t v, cb_error *err)
{
	uint8_t bytes[4];
	put_le32(bytes, v);
	return buf_append(to, bytes, sizeof(bytes), err);
}

static cb_code put_u64(buf *to, uint64_t v, cb_error *err)
{
	uint8_t bytes[8];
	put_le64(bytes, v);
	return buf_append(to, bytes, sizeof(bytes), err);
}

static cb_code put_span(buf *to, span s, cb_error *err)
{
	if (s.size > UINT32_MAX) return cb_err_set(err, CB_LIMIT, "%zu bytes do not fit into a message", s.size);
	CB_TRY(put_u32(to, (uint32_t)s.size, err));
	return buf_append(to, s.bytes, s.size, err);
}

static cb_code put_string(buf *to, const char *s, cb_error *err)
{
	return put_span(to, span_make(s, strlen(s) + 1), err);
}

static cb_code put_strings(buf *to, const wire_strings *list, cb_error *err)
{
	CB_TRY(put_u32(to, (uint32_t)list->count, err));
	return put_span(to, span_make(list->bytes, list->size), err);
}

static span get_span(reader *r)
{
	return reader_span(r, reader_le32(r));
}

static const char *get_string(reader *r)
{
	span s = get_span(r);
	if (s.size && memchr(s.bytes, 0, s.size) == s.bytes + s.size - 1) return (const char *)s.bytes;
	spoil(r);
	return "";
}

static bool get_bool(reader *r)
{
	uint8_t v = reader_byte(r);
	if (v > 1) spoil(r);
	return v == 1;
}

static wire_strings get_strings(reader *r)
{
	size_t count = reader_le32(r);
	span s = get_span(r);
	size_t ends = 0;
	for (size_t i = 0; i < s.size; i++) ends += s.bytes[i] == 0;
	if (ends != count || (s.size && s.bytes[s.size - 1] != 0)) spoil(r);
	if (r->bad) return (wire_strings){"", 0, 0};
	return (wire_strings){s.size ? (const char *)s.bytes : "", s.size, count};
}

const char *wire_strings_next(const wire_strings *list, const char *previous)
{
	const char *next = previous ? previous + strlen(previous) + 1 : list->bytes;
	return next < list->bytes + list->size ? next : NULL;
}

static cb_code finish(const reader *r, const char *what, cb_error *err)
{
	return r->bad || !reader_at_end(r) ? corrupt(err, what) : CB_OK;
}

/* ---- names, paths, attributes ---- */

static bool is_name(span s)
{
	if (s.size == 0 || s.size > LIMIT_NAME_BYTES || memchr(s.bytes, '/', s.size) || memchr(s.bytes, 0, s.size)) return false;
	return !(s.bytes[0] == '.' && (s.size == 1 || (s.size == 2 && s.bytes[1] == '.')));
}

/* Relative, without "." and "..": it cannot lead out of the folder it begins in, links apart. */
static bool is_path(span s)
{
	for (;;) {
		const uint8_t *slash = s.size ? memchr(s.bytes, '/', s.size) : NULL;
		if (!slash) return is_name(s);
		size_t size = (size_t)(slash - s.bytes);
		if (!is_name(span_make(s.bytes, size))) return false;
		s = span_make(slash + 1, s.size - size - 1);
	}
}

static bool are_names(const wire_strings *list)
{
	for (const char *s = NULL; (s = wire_strings_next(list, s));)
		if (!is_name(span_str(s))) return false;
	return true;
}

cb_code wire_xattr_put(buf *to, const char *name, span value, cb_error *err)
{
	size_t before = to->size;
	cb_code code = buf_append(to, name, strlen(name) + 1, err);
	if (code == CB_OK) code = put_span(to, value, err);
	if (code != CB_OK) to->size = before;
	return code;
}

bool wire_xattr_next(span *rest, const char **out_name, span *out_value)
{
	const uint8_t *end = rest->size ? memchr(rest->bytes, 0, rest->size) : NULL;
	if (!end) return false;
	reader r = reader_make(*rest);
	*out_name = (const char *)reader_span(&r, (size_t)(end - rest->bytes) + 1).bytes;
	*out_value = get_span(&r);
	*rest = span_make(r.at, (size_t)(r.end - r.at));
	return !r.bad;
}

static bool are_xattrs(span list)
{
	const char *name;
	span value;
	while (list.size) {
		if (!wire_xattr_next(&list, &name, &value)) return false;
		size_t size = strlen(name);
		if (strncmp(name, "user.", 5) != 0 || size == 5 || size > LIMIT_NAME_BYTES) return false;
		if (value.size > LIMIT_XATTR_VALUE_BYTES) return false;
	}
	return true;
}

/* ---- WORK ---- */

cb_code wire_work_put(buf *to, const wire_work *m, cb_error *err)
{
	CB_TRY(buf_append_byte(to, (uint8_t)m->mode, err));
	CB_TRY(put_string(to, m->name, err));
	CB_TRY(put_strings(to, &m->layers, err));
	CB_TRY(buf_append_byte(to, m->wipe, err));
	CB_TRY(buf_append_byte(to, m->memory, err));
	return put_u64(to, m->memory_bytes, err);
}

cb_code wire_work_get(span body, wire_work *out, cb_error *err)
{
	reader r = reader_make(body);
	wire_work m = {.mode = (wire_mode)reader_byte(&r)};
	m.name = get_string(&r);
	m.layers = get_strings(&r);
	m.wipe = get_bool(&r);
	m.memory = get_bool(&r);
	m.memory_bytes = reader_le64(&r);
	CB_TRY(finish(&r, "a work", err));
	if (m.mode < WIRE_PLAIN || m.mode > WIRE_THROWAWAY) return corrupt(err, "the mode of a work");
	if (!is_name(span_str(m.name)) || !are_names(&m.layers)) return corrupt(err, "the folders of a work");
	*out = m;
	return CB_OK;
}

/* ---- BUILD ---- */

cb_code wire_op_put(buf *to, const wire_op *op, cb_error *err)
{
	uint8_t fixed[OP_MIN_BYTES];
	fixed[0] = (uint8_t)op->type;
	put_le32(fixed + 1, op->mode);
	put_le64(fixed + 5, op->size);
	put_le64(fixed + 13, op->offset);
	put_le64(fixed + 21, (uint64_t)op->mtime_ns);
	put_le64(fixed + 29, (uint64_t)op->atime_ns);
	size_t before = to->size;
	cb_code code = buf_append(to, fixed, sizeof(fixed), err);
	if (code == CB_OK) code = put_string(to, op->path ? op->path : "", err);
	if (code == CB_OK) code = put_span(to, op->data, err);
	if (code == CB_OK) code = put_span(to, op->xattrs, err);
	if (code != CB_OK) to->size = before; /* the ops before it can be sent, and this one again */
	return code;
}

static bool is_target(span s)
{
	return s.size && s.size <= LIMIT_SYMLINK_TARGET_BYTES && !memchr(s.bytes, 0, s.size);
}

static bool op_data_is_good(const wire_op *op)
{
	switch (op->type) {
	case WIRE_OP_DATA:
		return op->offset <= LIMIT_FILE_BYTES && op->data.size <= LIMIT_FILE_BYTES - op->offset;
	case WIRE_OP_SYMLINK:
		return is_target(op->data);
	case WIRE_OP_LINK:
		return is_path(op->data);
	case WIRE_OP_REMOVE:
	case WIRE_OP_DIR:
	case WIRE_OP_DIR_TIMES:
	case WIRE_OP_FILE:
	case WIRE_OP_ATTRS:
		return op->data.size == 0;
	}
	return false;
}

cb_code wire_op_get(span *rest, wire_op *out, bool *out_end, cb_error *err)
{
	*out_end = rest->size == 0;
	if (*out_end) return CB_OK;
	reader r = reader_make(*rest);
	wire_op op = {.type = (wire_op_type)reader_byte(&r)};
	op.mode = reader_le32(&r);
	op.size = reader_le64(&r);
	op.offset = reader_le64(&r);
	op.mtime_ns = (int64_t)reader_le64(&r);
	op.atime_ns = (int64_t)reader_le64(&r);
	op.path = get_string(&r);
	op.data = get_span(&r);
	op.xattrs = get_span(&r);
	if (r.bad) return corrupt(err, "an op");
	bool folder = op.type == WIRE_OP_DIR || op.type == WIRE_OP_ATTRS;
	if (op.mode & ~(uint32_t)(folder ? MODE_DIR : MODE_FILE)) return corrupt(err, "the mode of an op");
	if (op.size > LIMIT_FILE_BYTES || !op_data_is_good(&op)) return corrupt(err, "the data of an op");
	if (!is_path(span_str(op.path)) && !(op.type == WIRE_OP_DATA && !op.path[0])) return corrupt(err, "the path of an op");
	if (!are_xattrs(op.xattrs)) return corrupt(err, "the attributes of an op");
	*out = op;
	*rest = span_make(r.at, (size_t)(r.end - r.at));
	return CB_OK;
}

/* ---- ENTRY ---- */

cb_code wire_entry_put(buf *to, const wire_entry *e, cb_error *err)
{
	uint8_t fixed[ENTRY_MIN_BYTES];
	fixed[0] = (uint8_t)e->type;
	fixed[1] = (uint8_t)((e->known ? ENTRY_KNOWN : 0) | (e->opaque ? ENTRY_OPAQUE : 0) | (e->has_fd ? ENTRY_HAS_FD : 0) |
	                     (e->cut ? ENTRY_CUT : 0));
	put_le32(fixed + 2, e->mode);
	const uint64_t numbers[] = {
		e->size, e->ino, e->links, e->allocated_bytes, (uint64_t)e->mtime_ns, (uint64_t)e->atime_ns, (uint64_t)e->ctime_ns};
	static_assert(6 + sizeof(numbers) == sizeof(fixed), "every number has its place");
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++) put_le64(fixed + 6 + 8 * i, numbers[i]);
	size_t before = to->size;
	cb_code code = buf_append(to, fixed, sizeof(fixed), err);
	if (code == CB_OK) code = put_string(to, e->path, err);
	if (code == CB_OK) code = put_span(to, e->data, err);
	if (code == CB_OK) code = put_span(to, e->xattrs, err);
	if (code != CB_OK) to->size = before; /* the entries before it can be sent, and this one again */
	return code;
}

static bool entry_data_is_good(const wire_entry *e)
{
	switch (e->type) {
	case WIRE_ENTRY_SYMLINK:
		return e->known ? e->data.size == 0 : is_target(e->data);
	case WIRE_ENTRY_SPECIAL:
	case WIRE_ENTRY_UNKEPT:
		return e->data.size <= LIMIT_NAME_BYTES && !(e->data.size && memchr(e->data.bytes, 0, e->data.size));
	case WIRE_ENTRY_FILE:
	case WIRE_ENTRY_DIR:
	case WIRE_ENTRY_WHITEOUT:
	case WIRE_ENTRY_LEAVE:
		return e->data.size == 0;
	}
	return false;
}

static cb_code entry_check(const wire_entry *e, cb_error *err)
{
	bool folder = e->type == WIRE_ENTRY_DIR || e->type == WIRE_ENTRY_LEAVE || e->type == WIRE_ENTRY_UNKEPT;
	if (!entry_data_is_good(e)) return corrupt(err, "the type or data of an entry");
	if (!is_path(span_str(e->path)) && !(folder && !e->path[0])) return corrupt(err, "the path of an entry");
	if (e->has_fd && (e->known || e->type != WIRE_ENTRY_FILE)) return corrupt(err, "the descriptor of an entry");
	if (e->opaque && e->type != WIRE_ENTRY_DIR) return corrupt(err, "the flags of an entry");
	if (e->mode & ~(uint32_t)MODE_ALL) return corrupt(err, "the mode of an entry");
	if ((e->known && e->xattrs.size) || !are_xattrs(e->xattrs)) return corrupt(err, "the attributes of an entry");
	return CB_OK;
}

cb_code wire_entry_get(span *rest, wire_entry *out, bool *out_end, cb_error *err)
{
	*out_end = rest->size == 0;
	if (*out_end) return CB_OK;
	reader r = reader_make(*rest);
	wire_entry e = {.type = (wire_entry_type)reader_byte(&r)};
	uint8_t flags = reader_byte(&r);
	e.known = flags & ENTRY_KNOWN;
	e.opaque = flags & ENTRY_OPAQUE;
	e.has_fd = flags & ENTRY_HAS_FD;
	e.cut = flags & ENTRY_CUT;
	e.mode = reader_le32(&r);
	e.size = reader_le64(&r);
	e.ino = reader_le64(&r);
	e.links = reader_le64(&r);
	e.allocated_bytes = reader_le64(&r);
	e.mtime_ns = (int64_t)reader_le64(&r);
	e.atime_ns = (int64_t)reader_le64(&r);
	e.ctime_ns = (int64_t)reader_le64(&r);
	e.path = get_string(&r);
	e.data = get_span(&r);
	e.xattrs = get_span(&r);
	if (r.bad || (flags & ~ENTRY_FLAGS)) return corrupt(err, "an entry");
	CB_TRY(entry_check(&e, err));
	*out = e;
	*rest = span_make(r.at, (size_t)(r.end - r.at));
	return CB_OK;
}

cb_code wire_scanned_put(buf *to, const wire_scanned *m, cb_error *err)
{
	CB_TRY(put_u64(to, m->entries, err));
	CB_TRY(put_u64(to, m->bytes, err));
	CB_TRY(put_u64(to, m->sent, err));
	CB_TRY(put_u64(to, m->sent_bytes, err));
	CB_TRY(put_u64(to, m->xattrs_left_out, err));
	return put_u64(to, m->ended, err);
}

cb_code wire_scanned_get(span body, wire_scanned *out, cb_error *err)
{
	reader r = reader_make(body);
	wire_scanned m = {.entries = reader_le64(&r)};
	m.bytes = reader_le64(&r);
	m.sent = reader_le64(&r);
	m.sent_bytes = reader_le64(&r);
	m.xattrs_left_out = reader_le64(&r);
	uint64_t ended = reader_le64(&r);
	if (ended > 1) return cb_err_set(err, CB_CORRUPT, "the end of a scan says what is not known");
	m.ended = ended;
	CB_TRY(finish(&r, "the end of a scan", err));
	*out = m;
	return CB_OK;
}

/* ---- RUN, SIGNAL, EXITED ---- */

cb_code wire_run_put(buf *to, const wire_run *m, cb_error *err)
{
	CB_TRY(put_strings(to, &m->argv, err));
	CB_TRY(put_strings(to, &m->env, err));
	CB_TRY(put_string(to, m->cwd, err));
	CB_TRY(buf_append_byte(to, m->tty, err));
	return put_u32(to, (uint32_t)m->rows << 16 | m->columns, err);
}

cb_code wire_run_get(span body, wire_run *out, cb_error *err)
{
	reader r = reader_make(body);
	if (body.size > LIMIT_EXEC_ARGS_BYTES) return corrupt(err, "a command is too long");
	wire_run m = {.argv = get_strings(&r)};
	m.env = get_strings(&r);
	m.cwd = get_string(&r);
	m.tty = get_bool(&r);
	uint32_t window = reader_le32(&r);
	m.rows = (uint16_t)(window >> 16);
	m.columns = (uint16_t)window;
	CB_TRY(finish(&r, "a command", err));
	if (m.argv.count == 0 || m.cwd[0] != '/') return corrupt(err, "the words of a command");
	*out = m;
	return CB_OK;
}

/* It is shown to the user: one line, without what moves a terminal's cursor. */
static bool is_line(const char *s)
{
	size_t size = 0;
	for (; s[size]; size++)
		if ((unsigned char)s[size] < 0x20 || s[size] == 0x7f) return false;
	return size <= REASON_BYTES;
}

cb_code wire_exited_put(buf *to, const wire_exited *m, cb_error *err)
{
	CB_TRY(buf_append_byte(to, (uint8_t)m->end, err));
	CB_TRY(put_u32(to, (uint32_t)m->status, err));
	CB_TRY(put_u64(to, (uint64_t)m->started_ns, err));
	CB_TRY(put_u64(to, (uint64_t)m->ended_ns, err));
	CB_TRY(put_u64(to, (uint64_t)m->user_ns, err));
	CB_TRY(put_u64(to, (uint64_t)m->system_ns, err));
	CB_TRY(put_u64(to, m->peak_bytes, err));
	return put_string(to, m->reason ? m->reason : "", err);
}

cb_code wire_exited_get(span body, wire_exited *out, cb_error *err)
{
	reader r = reader_make(body);
	wire_exited m = {.end = (wire_end)reader_byte(&r)};
	m.status = (int32_t)reader_le32(&r);
	m.started_ns = (int64_t)reader_le64(&r);
	m.ended_ns = (int64_t)reader_le64(&r);
	m.user_ns = (int64_t)reader_le64(&r);
	m.system_ns = (int64_t)reader_le64(&r);
	m.peak_bytes = reader_le64(&r);
	m.reason = get_string(&r);
	CB_TRY(finish(&r, "the end of a command", err));
	if (m.end < WIRE_END_STATUS || m.end > WIRE_END_NOT_RUN || !is_line(m.reason)) return corrupt(err, "how a command ended");
	*out = m;
	return CB_OK;
}

cb_code wire_signal_put(buf *to, const wire_signal *m, cb_error *err)
{
	CB_TRY(put_u32(to, (uint32_t)m->signal, err));
	return buf_append_byte(to, m->everybody, err);
}

cb_code wire_signal_get(span body, wire_signal *out, cb_error *err)
{
	reader r = reader_make(body);
	wire_signal m = {.signal = (int32_t)reader_le32(&r)};
	m.everybody = get_bool(&r);
	CB_TRY(finish(&r, "a signal", err));
	if (m.signal < 1 || m.signal > SIGNAL_MAX) return corrupt(err, "the number of a signal");
	*out = m;
	return CB_OK;
}

/* ---- names, FAIL ---- */

cb_code wire_names_put(buf *to, const wire_strings *names, cb_error *err)
{
	return put_strings(to, names, err);
}

cb_code wire_names_get(span body, wire_strings *out, cb_error *err)
{
	reader r = reader_make(body);
	wire_strings names = get_strings(&r);
	CB_TRY(finish(&r, "names", err));
	if (names.count == 0 || !are_names(&names)) return corrupt(err, "a name");
	*out = names;
	return CB_OK;
}

cb_code wire_failed_put(buf *to, const wire_failed *m, cb_error *err)
{
	CB_TRY(put_u32(to, (uint32_t)m->code, err));
	return put_string(to, m->message, err);
}

cb_code wire_failed_get(span body, wire_failed *out, cb_error *err)
{
	reader r = reader_make(body);
	int32_t code = (int32_t)reader_le32(&r);
	const char *message = get_string(&r);
	CB_TRY(finish(&r, "an error", err));
	if (code >= 0 || strcmp(cb_code_name((cb_code)code), "UNKNOWN") == 0 || !is_line(message)) return corrupt(err, "an error");
	*out = (wire_failed){(cb_code)code, message};
	return CB_OK;
}
