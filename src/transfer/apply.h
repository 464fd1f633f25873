/*
 * apply.h: what the files of apply share: one plan.
 *
 * Three trees are compared by path: the base (the folder as far as the box knows), the box, and the host. Only paths that differ between
 * base and box are looked at. apply_plan.c decides, in data; apply_write.c is the only one that changes the host.
 */
#ifndef TRANSFER_APPLY_H
#define TRANSFER_APPLY_H

#include <cowbox/cowbox.h>

#include "box/box.h"
#include "box/look.h"
#include "host/host.h"

#define APPLY_TEMPORARY_PREFIX ".cowbox-apply-"

/* An entry of the base or of the box. Setuid and setgid bits are not seen. */
typedef struct apply_side {
	bool there;
	cb_type type;
	uint32_t mode;
	box_node node;
} apply_side;

typedef struct apply_row {
	char *path; /* relative to the folder, owned */
	cb_apply_status status;
	cb_change_kind kind;
	apply_side base, box;
	bool same_data; /* base and box have files of the same content there: only the mode differs */
	bool host_there;
	host_stat host;       /* as it was looked at */
	char *target;         /* of a symbolic link of the box, owned; else NULL */
	const char *why;      /* static, of held and changed */
	bool cannot_force;    /* changed in a way that force does not override */
	bool done;            /* the host has what the box has */
	uint64_t written_ino; /* of a file that was written: its inode on the host */
} apply_row;

typedef struct applying {
	unsigned era; /* (entry.h) in which it began */
	const cb_store *store;
	const cb_apply_options *options;
	cb_box *now;                /* the state that is applied */
	cb_box *base;               /* NULL: nothing is known of the folder */
	look *now_look, *base_look; /* of the two; NULL where there is none */
	host_root root;
	char *host_path; /* without links */
	char *box_path;  /* cleaned; "/" or without a '/' at its end */
	char **paths;    /* chosen, relative; NULL: all */
	size_t path_count;
	char **allow; /* relative */
	size_t allow_count;
	char *hooks_path;       /* of .git/config, relative; NULL: none */
	buf aliases;            /* where links of the host lead, and the link: each with its NUL */
	buf rows;               /* apply_row, by path */
	uint8_t *chunk, *other; /* APPLY_CHUNK_BYTES each */
	uint64_t bytes_done;
	cb_apply_result result;
} applying;

enum { APPLY_CHUNK_BYTES = 256 << 10 };

static inline apply_row *apply_rows(const applying *a, size_t *count)
{
	*count = a->rows.size / sizeof(apply_row);
	return (apply_row *)(void *)a->rows.bytes;
}

/* Is path the folder or below it? "" is the whole. */
static inline bool apply_within(const char *path, const char *folder)
{
	size_t n = strlen(folder);
	return n == 0 || (strncmp(path, folder, n) == 0 && (path[n] == 0 || path[n] == '/'));
}

/* ---- apply_hold.c ---- */

/* What is to be put at a path. */
typedef struct hold_query {
	const char *path; /* relative to the folder */
	bool is_folder;   /* a folder is there, or was */
	const char *hooks_path;
} hold_query;
/* Why this path is held back: it makes the host run something by itself. NULL: it is not. Static. */
const char *apply_hold_reason(const hold_query *q);
/* The value of core.hooksPath in the text of a git config, relative paths only. *out NULL: none. free() it. */
cb_code apply_hooks_path(const char *text, size_t size, char **out, cb_error *err);

/* ---- apply_alias.c ---- */

cb_code apply_aliases_load(applying *a, cb_error *err);
/* As apply_hold_reason, for the names under which links of the host know the path. */
const char *apply_alias_reason(const applying *a, const char *path, bool is_folder);

/* ---- apply_look.c ---- */

/* The path in the box of a relative one. out has LIMIT_PATH_BYTES. */
cb_code apply_box_path(const applying *a, const char *relative, char *out, cb_error *err);
cb_code apply_look_box(applying *a, apply_row *row, cb_error *err);
/* Unless the way to it is open, nothing can be there. */
typedef enum apply_way { APPLY_WAY_OPEN, APPLY_WAY_MISSING, APPLY_WAY_BLOCKED } apply_way;
cb_code apply_look_host(applying *a, apply_row *row, apply_way *way, cb_error *err);
/* How much of a path names the store's own folder; 0: it does not lie there. */
size_t apply_store_part(const applying *a, const char *path);
/* Do base and box hold the same at the row's path? */
cb_code apply_same_in_boxes(applying *a, apply_row *row, bool *out, cb_error *err);
/* Does the host hold what this side does? CB_BUSY: it changes while it is read. */
cb_code apply_same_on_host(applying *a, const apply_row *row, bool of_base, bool *out, cb_error *err);

/* ---- apply_plan.c ---- */

cb_code apply_plan_build(applying *a, cb_error *err);
void apply_plan_done(applying *a);
apply_row *apply_row_find(const applying *a, const char *path);

/* ---- apply_write.c ---- */

/* Writes what the plan says. CB_CONFLICT: something changed on the host meanwhile; it was left as it is. */
cb_code apply_write(applying *a, cb_error *err);
/* Removes what an apply that was killed left below the folder. */
cb_code apply_sweep(applying *a, cb_error *err);

#endif
