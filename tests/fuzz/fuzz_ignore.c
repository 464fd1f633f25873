/* fuzz_ignore.c: bytes up to the first NUL are a .gitignore, the rest is a path. What a later list gives back is not ignored. */
#include "transfer/ignore.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	const uint8_t *nul = size ? memchr(bytes, 0, size) : NULL;
	size_t text_size = nul ? (size_t)(nul - bytes) : size;
	size_t path_size = nul ? size - text_size - 1 : 0;
	AUTO_FREE char *path = malloc(path_size + 1);
	ignore *g = NULL;
	if (!path || ignore_create(NULL, 0, &g, NULL) != CB_OK) return 0;
	if (path_size) memcpy(path, nul + 1, path_size);
	path[path_size] = 0;
	if (ignore_push(g, "", span_make(bytes, text_size), NULL) == CB_OK) {
		bool as_file = ignore_match(g, path, false, false), as_dir = ignore_match(g, path, true, false);
		if (ignore_match(g, path, false, true) || ignore_match(g, path, true, true)) abort();
		(void)as_file;
		(void)as_dir;
		if (ignore_push(g, "", span_str("!**/*\n!*"), NULL) == CB_OK && ignore_match(g, path, true, false)) abort();
	}
	ignore_destroy(g);
	return 0;
}
