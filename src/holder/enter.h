/* enter.h: what enter.c, apply.c, mounts.c, etc.c and holder.c share. Private to the helper. */
#ifndef HOLDER_ENTER_H
#define HOLDER_ENTER_H

#include "holder/holder.h"

/* ---- mounts.c: mounts that are made detached, given their flags, and only then attached: none is ever seen without them ---- */

/* Behave as on a kernel without mount_setattr (5.12): flags are then set mount by mount after pivot_root. Test use. */
void enter_force_old(bool on);

/* path relative to dir (AT_FDCWD: the working folder), links followed; "": dir itself. Recursive. CB_NOTFOUND. *out_fd: close() it. */
cb_code mount_copy(int dir, const char *path, int *out_fd, cb_error *err);
cb_code mount_tmpfs(uint64_t size_bytes, uint32_t mode, int *out_fd, cb_error *err);
cb_code mount_devpts(int *out_fd, cb_error *err);
cb_code mount_proc(int *out_fd, cb_error *err);
/* PLAN_READ_ONLY, NOSUID, NODEV, NOEXEC; of the mount and all below it. Nothing spreads to or from it any more. */
cb_code mount_flags(int fd, uint32_t plan_flags, cb_error *err);
/* Over what `place` is a descriptor of. fd is then that place. */
cb_code mount_attach(int fd, int place, cb_error *err);
/* After pivot_root, where mount_flags could not be done: by the list of mounts. */
cb_code mount_flags_late(const plan *p, cb_error *err);

/* ---- apply.c ---- */

/* The system's names at the root of the box as the plan has them: the box may have left others there, or replaced a link. root: in the
 * caller's mount namespace; nobody is inside. Places to mount on are made by plan_apply. */
cb_code apply_tidy(const plan *p, int root, cb_error *err);

/* ---- places.c ---- */

typedef struct places {
	buf paths; /* that were made, each with its NUL, parents first */
	size_t count;
} places;
/* In the holder, before init is made. On an error what was made is to be removed too. */
cb_code places_make(places *made, const plan *p, int root, cb_error *err);
/* When nobody is inside. Also of a zeroed one. */
void places_remove(places *made, int root);

/* ---- enter.c ---- */

enum { HOLDER_INIT_SOCKET_FD = 3, HOLDER_INIT_PLAN_FD = 4 }; /* of `cowbox-box init` */

/* The helper's executable, opened before it can no longer be: kept for init. */
void enter_keep_executable(int fd);

/* ---- holder.c ---- */

typedef struct holder_options {
	bool weak;
	uid_t uid; /* 0: as it is */
} holder_options;
/* The whole life of a holder; gives its exit status. */
int holder_main(const holder_options *options);

#endif
