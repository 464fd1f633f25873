/*
 * import_files.c: what imports remember beside the store, "import/BOX-HASH", goes with its box.
 *
 * The files belong to the layer above, which makes them anew when they are missing; only their names are known here. Whatever fails here is
 * left for the next gc.
 */
#include "box/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* The box a file belongs to; 0: none of these files. */
static uint64_t file_box(const char *name)
{
	char *end = NULL;
	if (*name < '1' || *name > '9') return 0;
	errno = 0;
	unsigned long long box = strtoull(name, &end, 10);
	return errno == 0 && *end == '-' ? box : 0;
}

static bool box_is_gone(cb_store *cs, uint64_t box)
{
	store_box row;
	cb_code code = store_box_get(cs->s, box, &row, NULL);
	return code == CB_NOTFOUND || (code == CB_OK && row.deleted);
}

void box_import_files_drop(cb_store *cs)
{
	const char *path = store_path(cs->s);
	if (!path) return;
	AUTO_FD int top = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int folder = top < 0 ? -1 : openat(top, "import", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *list = folder < 0 ? NULL : fdopendir(folder);
	if (!list) {
		if (folder >= 0) (void)close(folder);
		return;
	}
	for (const struct dirent *e; (e = readdir(list)) != NULL;) {
		uint64_t box = file_box(e->d_name);
		if (box && box_is_gone(cs, box)) (void)unlinkat(folder, e->d_name, 0);
	}
	(void)closedir(list);
}
