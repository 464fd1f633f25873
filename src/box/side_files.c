/*
 * side_files.c: files beside the store that other layers keep for a box, and that go with it. What is in them is theirs, and they make them
 * anew when they are missing; the folders and the first part of the names are given here, so that gc need not know whose they are.
 *
 * Whatever fails here is left for the next gc.
 */
#include "box/box.h"
#include "box/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const folders[] = {BOX_SIDE_IMPORT};

int box_side_open(const cb_store *cs, const char *folder, bool make)
{
	int top = store_folder(cs->s);
	if (top < 0) return -1;
	if (make) (void)mkdirat(top, folder, 0700);
	return openat(top, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

void box_side_name(uint64_t box, uint64_t number, char out[BOX_SIDE_NAME_BYTES])
{
	(void)snprintf(out, BOX_SIDE_NAME_BYTES, "%" PRIu64 "-%016" PRIx64, box, number);
}

/* The box a file belongs to; 0: none of these files. */
static uint64_t file_box(const char *name)
{
	char *end = NULL;
	if (*name < '1' || *name > '9') return 0;
	errno = 0;
	unsigned long long box = strtoull(name, &end, 10);
	return errno == 0 && *end == '-' ? box : 0;
}

static void drop_in(cb_store *cs, int folder)
{
	DIR *list = folder < 0 ? NULL : fdopendir(folder);
	if (!list) {
		if (folder >= 0) (void)close(folder);
		return;
	}
	for (const struct dirent *e; (e = readdir(list)) != NULL;) {
		uint64_t box = file_box(e->d_name);
		bool lives = true;
		if (box && box_lives(cs, box, &lives, NULL) == CB_OK && !lives) (void)unlinkat(folder, e->d_name, 0);
	}
	(void)closedir(list);
}

void box_side_files_drop(cb_store *cs)
{
	for (size_t i = 0; i < ARRAY_LEN(folders); i++) drop_in(cs, box_side_open(cs, folders[i], false));
}
