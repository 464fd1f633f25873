/* fuzz_plan.c: bytes that are taken as a plan can be printed and written, and come back as the same bytes. */
#include <stdlib.h>

#include "base/json.h"
#include "sandbox/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

#define MUST(cond)                    \
	do {                          \
		if (!(cond)) abort(); \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	plan p = {0}, q = {0};
	cb_error err = {0};
	cb_code code = plan_get(span_make(bytes, size), &p, &err);
	MUST(code == CB_OK || (code == CB_CORRUPT && err.code == code));
	if (code != CB_OK) return 0;
	AUTO_BUF buf text = BUF_INIT(64 << 20), json = BUF_INIT(64 << 20), out = BUF_INIT(64 << 20);
	AUTO_JSON json_doc *doc = NULL;
	MUST(plan_print(&p, false, &text, NULL) == CB_OK);
	MUST(plan_print(&p, true, &json, NULL) == CB_OK);
	for (size_t i = 0; i < text.size; i++) MUST(text.bytes[i] == '\n' || text.bytes[i] >= 0x20);
	MUST(json_parse(buf_span(&json), NULL, &doc, NULL) == CB_OK);
	MUST(plan_put(&out, &p, NULL) == CB_OK);
	MUST(span_equal(buf_span(&out), span_make(bytes, size)));
	MUST(plan_get(buf_span(&out), &q, NULL) == CB_OK);
	for (size_t i = 0; i < p.op_count; i++) {
		MUST(p.ops[i].to[0] == '/' && p.ops[i].to[1] != 0);
		MUST(plan_path_within(p.ops[i].to, "/"));
	}
	plan_done(&p);
	plan_done(&q);
	return 0;
}
