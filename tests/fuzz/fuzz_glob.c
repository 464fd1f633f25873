/* fuzz_glob.c: bytes up to the first NUL are a pattern, the rest is a path. What matches must be reachable by a pruned walk. */
#include "base/buf.h"
#include "box/glob.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void check_pruning(const glob *g, span path)
{
	for (size_t i = 0; i <= path.size; i++)
		if ((i == path.size || path.bytes[i] == '/') && !glob_may_match_below(g, span_make(path.bytes, i))) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	const uint8_t *nul = size ? memchr(bytes, 0, size) : NULL;
	size_t pattern_size = nul ? (size_t)(nul - bytes) : size;
	AUTO_FREE char *pattern = malloc(pattern_size + 1);
	if (!pattern) return 0;
	if (pattern_size) memcpy(pattern, bytes, pattern_size);
	pattern[pattern_size] = 0;
	span path = nul ? span_make(nul + 1, size - pattern_size - 1) : span_make(NULL, 0);
	glob *g = NULL;
	cb_error err;
	if (glob_compile(pattern, &g, &err) != CB_OK) {
		if (err.code != CB_INVALID || g) abort();
		return 0;
	}
	if (glob_match(g, path)) check_pruning(g, path);
	glob_destroy(g);
	return 0;
}
