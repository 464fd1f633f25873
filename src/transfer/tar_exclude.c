/* tar_exclude.c: what the caller's patterns leave out of a tar stream. A folder that is left out takes everything below it along. */
#include "transfer/tar.h"

bool tar_is_excluded(const ignore *g, const char *relative, bool is_dir)
{
	if (!g) return false;
	char part[LIMIT_PATH_BYTES];
	size_t size = strlen(relative);
	while (size && relative[size - 1] == '/') size--;
	if (size >= sizeof(part)) return false;
	for (size_t i = 1; i <= size; i++) {
		if (i < size && relative[i] != '/') continue;
		memcpy(part, relative, i);
		part[i] = 0;
		if (ignore_match(g, part, i < size || is_dir, true)) return true;
	}
	return false;
}
