/*
 * gate.c: the one enforcement point. path_resolve sends every path operation through here, reads too, with what it resolved to; policies,
 * views, guards and providers attach as the hook. What always holds: the system's names at the root of a box belong to the sandbox and
 * cannot be created in a box.
 */
#include "box/internal.h"

#include <stdio.h>

bool gate_reserved(span name)
{
	static const char *const reserved[] = {"usr", "bin",  "sbin", "lib", "lib32", "lib64", "libx32",
	                                       "etc", "proc", "dev",  "sys", "run",   "var",   "boot"};
	for (size_t i = 0; i < ARRAY_LEN(reserved); i++)
		if (span_equal(name, span_str(reserved[i]))) return true;
	return false;
}

cb_code gate_pass(const gate *g, const gate_request *request, cb_error *err)
{
	if (request->access == GATE_CREATE && request->parent == INO_ROOT && request->ino == 0 && gate_reserved(request->name))
		return cb_err_set(err, CB_RESERVED, "'/%.*s' belongs to the system: use another name at the root of a box",
		                  (int)request->name.size, (const char *)request->name.bytes);
	return g && g->hook ? g->hook(g->context, request, err) : CB_OK;
}

cb_code gate_ask(cb_box *b, const gate_request *request, cb_error *err)
{
	cb_code code = gate_pass(b->cs->gate, request, err);
	if (code == CB_OK || b->changing) return code;
	char name[LIMIT_NAME_BYTES + 1];
	(void)snprintf(name, sizeof(name), "%.*s", (int)request->name.size, (const char *)request->name.bytes);
	return box_refused(b, request->access == GATE_READ ? "read" : "write", *request->path ? request->path : name, code, err);
}
