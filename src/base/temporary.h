/*
 * temporary.h: things that have a temporary name until they are whole, beside the place they are for.
 *
 * A process that is killed leaves them lying there. So each is locked (flock) while the one who makes it lives, by whatever death the
 * lock ends with it, and has a name nobody else uses: whoever comes next to the same folder takes away those that are not locked
 * (temporary_sweep). What cannot be locked, links, is made inside a folder that can.
 *
 * Crash window: between the making of the name and the lock a sweeper may take it for a dead one's. It removes only while it has the
 * lock itself, and the maker looks, once it has the lock, whether the name is still there; if not it takes another.
 */
#ifndef BASE_TEMPORARY_H
#define BASE_TEMPORARY_H

#include <stdbool.h>

#include "base/err.h"

#define TEMPORARY_PREFIX ".cowbox-tmp-" /* and 16 hexadecimal digits */
enum { TEMPORARY_BYTES = 32 };

/* Is it such a name? */
bool temporary_is(const char *name);
/* A name, and nothing made. */
void temporary_name(char out[TEMPORARY_BYTES]);
/* A file (mode 0600, for reading and writing) or a folder (mode 0700) in an open folder, locked as long as *out_fd is open: close() it.
 * Where the filesystem has no locks it is made all the same, and stays when the process is killed. */
cb_code temporary_file(int dir, char out_name[TEMPORARY_BYTES], int *out_fd, cb_error *err);
cb_code temporary_folder(int dir, char out_name[TEMPORARY_BYTES], int *out_fd, cb_error *err);
/* Removes a file, or a folder with all that is in it, following no link; as far as it can. When the limit of the calling thread is over, or
 * ends meanwhile (cancel.h), about a thousand entries, some 10 ms: the rest goes with the next sweep. */
void temporary_remove(int dir, const char *name);
/* Removes what dead processes of this user left in an open folder; as far as it can. Not in a folder of somebody else's, or one that
 * everybody may write to and rename in. */
void temporary_sweep(int dir);

/* A folder to try things in, by path: what others left there is swept first, and it goes with all that is in it. */
typedef struct temporary_place {
	int above, lock; /* the folder it is in; itself */
	char name[TEMPORARY_BYTES];
	char *path;
} temporary_place;
#define TEMPORARY_PLACE_NONE ((temporary_place){.above = -1, .lock = -1})
cb_code temporary_place_make(const char *above, temporary_place *out, cb_error *err);
void temporary_place_remove(temporary_place *p);

#endif
