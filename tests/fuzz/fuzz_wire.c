/* fuzz_wire.c: bodies of messages from hostile bytes: refused, or put again to the same bytes. The first byte says which message. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile size_t sink;

static void read_strings(const wire_strings *list)
{
	size_t count = 0;
	for (const char *s = NULL; (s = wire_strings_next(list, s)); count++) sink += strlen(s);
	assert(count == list->count);
}

static void read_xattrs(span list)
{
	const char *name;
	span value;
	while (wire_xattr_next(&list, &name, &value)) {
		assert(strncmp(name, "user.", 5) == 0);
		for (size_t i = 0; i < value.size; i++) sink += value.bytes[i];
	}
	assert(list.size == 0);
}

static void read_path(const char *path)
{
	assert(path[0] != '/');
	for (const char *p = path; *p; p++)
		assert(!(p[0] == '.' && p[1] == '.' && (!p[2] || p[2] == '/') && (p == path || p[-1] == '/')));
}

static void check_ops(span body, buf *again)
{
	span rest = body;
	wire_op op;
	bool end;
	while (wire_op_get(&rest, &op, &end, NULL) == CB_OK && !end) {
		read_path(op.path);
		read_xattrs(op.xattrs);
		assert((op.mode & ~01777u) == 0);
		assert(wire_op_put(again, &op, NULL) == CB_OK);
	}
	assert(span_equal(buf_span(again), span_make(body.bytes, body.size - rest.size)));
}

static void check_entries(span body, buf *again)
{
	span rest = body;
	wire_entry e;
	bool end;
	while (wire_entry_get(&rest, &e, &end, NULL) == CB_OK && !end) {
		read_path(e.path);
		read_xattrs(e.xattrs);
		assert(wire_entry_put(again, &e, NULL) == CB_OK);
	}
	assert(span_equal(buf_span(again), span_make(body.bytes, body.size - rest.size)));
}

#define AGAIN(type, name)                                        \
	do {                                                     \
		type m_;                                         \
		if (name##_get(body, &m_, NULL) != CB_OK) break; \
		assert(name##_put(&again, &m_, NULL) == CB_OK);  \
		assert(span_equal(buf_span(&again), body));      \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0) return 0;
	span body = span_make(data + 1, size - 1);
	AUTO_BUF buf again = BUF_INIT(64 << 20);
	wire_strings names;
	wire_run run;
	switch (data[0]) {
	case WIRE_WORK:
		AGAIN(wire_work, wire_work);
		break;
	case WIRE_BUILD:
		check_ops(body, &again);
		break;
	case WIRE_ENTRY:
		check_entries(body, &again);
		break;
	case WIRE_RUN:
		if (wire_run_get(body, &run, NULL) == CB_OK) read_strings(&run.argv), read_strings(&run.env);
		AGAIN(wire_run, wire_run);
		break;
	case WIRE_SIGNAL:
		AGAIN(wire_signal, wire_signal);
		break;
	case WIRE_REMOVE:
		if (wire_names_get(body, &names, NULL) == CB_OK) read_strings(&names);
		AGAIN(wire_strings, wire_names);
		break;
	case WIRE_EXITED:
		AGAIN(wire_exited, wire_exited);
		break;
	case WIRE_SCAN_END:
		AGAIN(wire_scanned, wire_scanned);
		break;
	case WIRE_FAIL:
		AGAIN(wire_failed, wire_failed);
		break;
	default:
		break;
	}
	return 0;
}
