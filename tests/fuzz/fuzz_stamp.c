/* fuzz_stamp.c: any bytes as a stamp, as they are and with a sum that is right; what is read can be written and read again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "work/stamp.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void check(const char *text, size_t size)
{
	stamp s, again;
	char printed[STAMP_BYTES];
	if (stamp_parse(span_make(text, size), &s, NULL) != CB_OK) return;
	if (s.layer_count > LIMIT_WORK_LAYERS || strlen(s.params) >= STAMP_PARAMS_BYTES) abort();
	for (size_t i = 0; i < s.layer_count; i++)
		if (!stamp_id_valid(span_str(s.layers[i]))) abort();
	stamp_print(&s, printed);
	if (stamp_parse(span_make(printed, STAMP_BYTES), &again, NULL) != CB_OK) abort();
	char twice[STAMP_BYTES];
	stamp_print(&again, twice);
	if (memcmp(printed, twice, STAMP_BYTES) != 0) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	char text[2 * STAMP_BYTES];
	if (size > STAMP_BYTES) return 0;
	check((const char *)bytes, size);
	static const char head[] = "cowbox work 1\n";
	memcpy(text, head, sizeof(head) - 1);
	memcpy(text + sizeof(head) - 1, bytes, size);
	size_t n = sizeof(head) - 1 + size;
	if (size && text[n - 1] != '\n') text[n++] = '\n';
	int more = snprintf(text + n, sizeof(text) - n, "sum %016llx\n", (unsigned long long)hash64(text, n));
	check(text, n + (size_t)more);
	return 0;
}
