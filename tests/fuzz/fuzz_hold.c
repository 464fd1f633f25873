/* fuzz_hold.c: bytes up to the first NUL are a path, the rest is a git config. A held path stays held in capitals and below itself. */
#include <ctype.h>

#include "transfer/apply.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	char path[LIMIT_PATH_BYTES], other[LIMIT_PATH_BYTES + 4];
	size_t n = strnlen((const char *)bytes, size);
	AUTO_FREE char *hooks = NULL;
	if (n < size && apply_hooks_path((const char *)bytes + n + 1, size - n - 1, &hooks, NULL) != CB_OK) abort();
	if (hooks && (hooks[0] == 0 || hooks[0] == '/')) abort();
	if (n >= LIMIT_PATH_BYTES / 2) return 0;
	if (n) memcpy(path, bytes, n);
	path[n] = 0;
	hold_query q = {path, false, hooks};
	if (!apply_hold_reason(&q)) return 0;
	for (size_t i = 0; i <= n; i++) other[i] = (char)toupper((unsigned char)path[i]);
	q.path = other;
	if (!apply_hold_reason(&q)) abort();
	return 0;
}
