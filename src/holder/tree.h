/* tree.h: what slot.c, build.c and scan.c share. */
#ifndef HOLDER_TREE_H
#define HOLDER_TREE_H

#include "holder/holder.h"

/* Whatever is at dir/name, whole; nothing there is fine. Adversary: the box made it: folders without end in depth or in number of names,
 * modes without any right, names of any bytes. Nobody changes it meanwhile. */
cb_code folder_remove(int dir, const char *name, cb_error *err);

/* One entry as it was at a look. */
typedef struct seen_entry {
	uint64_t ino, size;
	int64_t ctime_ns, mtime_ns;
	uint32_t mode; /* with a number for the type above 07777 */
} seen_entry;
/* A look begins: now_ns is CLOCK_REALTIME_COARSE's. What was seen in a look that was never kept is forgotten. */
void seen_begin(seen *s, int64_t now_ns);
/* Remembers an entry in this look, unless it may still change without its ctime showing it. *out_known: the same at the last look. */
cb_code seen_add(seen *s, span path, const seen_entry *e, bool *out_known, cb_error *err);
/* The look is over. When it differs from the last one, NAME/seen goes, and nothing is saved until a look is kept. */
void seen_end(seen *s);
/* This look is the last one from now on. */
void seen_keep(seen *s);
/* Forgets all, and NAME/seen too. */
void seen_forget(seen *s);

#endif
