/*
 * slots.c: STORE/work: its folders, and which slot is whose.
 *
 * A slot is taken by an flock of its stamp's file, which goes to the holder and ends with it. Who took it to run commands, or to recover
 * what one left, has beside that an OFD lock of one byte of the same file, which the holder has not: it tells a caller that is dead, whose
 * holder will be gone soon, from one that lives, and both from one who recovers.
 *
 * Adversary: none inside the store's folder, which is 0700; but layers hold what hostile programs wrote, so a folder of ours that is
 * open to others would let them reach setuid files and secrets: that is refused.
 */
#include "work/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/io.h"
#ifdef COWBOX_TEST_WALLS
#include "sandbox/plan.h"
#endif

enum {
	RESERVED_UID_FIRST = 1900000000, /* above what systems and containers hand out, below 2^31 */
	RESERVED_UID_MASK = (1 << 26) - 1,
};

/* ---- folders ---- */

static cb_code check_folder(int fd, const char *name, uid_t owner, cb_error *err)
{
	struct stat st;
	if (fstat(fd, &st) != 0) return cb_err_errno(err, errno, "'%s' of the store", name);
	if (st.st_uid != owner)
		return cb_err_set(err, CB_DENIED, "'%s' of the store belongs to user %u, not %u: remove the store's folder 'work'",
		                  name, (unsigned)st.st_uid, (unsigned)owner);
	if (st.st_mode & 077)
		return cb_err_set(err, CB_DENIED,
		                  "'%s' of the store is open to others (mode %03o): remove the store's folder 'work'", name,
		                  (unsigned)(st.st_mode & 0777));
	return CB_OK;
}

/* *out -1: it is not there and was not to be made. */
static cb_code folder_open(int in, const char *name, bool make, int *out, cb_error *err)
{
	*out = -1;
	if (make && mkdirat(in, name, 0700) != 0 && errno != EEXIST)
		return cb_err_errno(err, errno, "making '%s' in the store", name);
	*out = openat(in, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (*out >= 0 || (errno == ENOENT && !make)) return CB_OK;
	if (errno == ELOOP || errno == ENOTDIR)
		return cb_err_set(err, CB_DENIED, "'%s' of the store is no folder: remove it", name);
	return cb_err_errno(err, errno, "'%s' of the store", name);
}

static cb_code uid_choose(uid_t *out, cb_error *err)
{
	uint32_t random = 0;
	if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random)) return cb_err_errno(err, errno, "getrandom");
	*out = RESERVED_UID_FIRST + (random & RESERVED_UID_MASK);
	return CB_OK;
}

/* Whoever comes first decides; the others see whose it is. Flushed before anything is made in it: what is there after a power cut belongs
 * to who the folder belongs to. */
static cb_code area_give(const work_dirs *d, struct stat *st, cb_error *err)
{
	AUTO_FD int lock = -1;
	uid_t uid;
	CB_TRY(layers_lock(d, true, &lock, err));
	if (fstat(d->area, st) != 0) return cb_err_errno(err, errno, "'work/area' of the store");
	if (st->st_uid != 0) return CB_OK;
	CB_TRY(uid_choose(&uid, err));
	if (fchown(d->area, uid, uid) != 0)
		return cb_err_errno(err, errno, "giving 'work/area' of the store to user %u", (unsigned)uid);
	st->st_uid = uid;
	return io_folder_flush(&(io_folder){d->area, "work/area"}, err);
}

/* As root the layers belong to nobody else on this machine, and never to root: what a program leaves there must not be root's. Whose the
 * folder is says which user that is. */
static cb_code area_open(work_dirs *d, bool make, cb_error *err)
{
	CB_TRY(folder_open(d->top, "area", make, &d->area, err));
	if (d->area < 0) return CB_OK;
	bool stay_root = false;
#ifdef COWBOX_TEST_WALLS
	const char *down = getenv("COWBOX_TEST_WALLS_DOWN");
	stay_root = down && strtoull(down, NULL, 0) & WALL_UID;
#endif
	if (geteuid() == 0 && !stay_root) {
		struct stat st;
		if (fstat(d->area, &st) != 0) return cb_err_errno(err, errno, "'work/area' of the store");
		if (st.st_uid == 0) CB_TRY(area_give(d, &st, err));
		if (st.st_uid < RESERVED_UID_FIRST || st.st_uid > RESERVED_UID_FIRST + RESERVED_UID_MASK)
			return cb_err_set(err, CB_DENIED,
			                  "'work/area' of the store belongs to user %u: remove the store's folder 'work'",
			                  (unsigned)st.st_uid);
		d->uid = st.st_uid;
	}
	return check_folder(d->area, "work/area", d->uid ? d->uid : geteuid(), err);
}

static cb_code dirs_fill(cb_store *cs, bool make, work_dirs *d, cb_error *err)
{
	CB_TRY(folder_open(box_store_folder(cs), "work", make, &d->top, err));
	if (d->top < 0) return CB_OK;
	CB_TRY(check_folder(d->top, "work", geteuid(), err));
	CB_TRY(folder_open(d->top, "slots", make, &d->slots, err));
	CB_TRY(folder_open(d->top, "layers", make, &d->layers, err));
	return area_open(d, make, err);
}

/* A store in memory has no folder; the holder mounts a tmpfs on one that is seen by nobody, in a mount namespace of its own. */
static cb_code area_in_tmp(work_dirs *d, cb_error *err)
{
	char name[TEMPORARY_BYTES];
	AUTO_FD int above = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (above < 0) return cb_err_errno(err, errno, "making a folder in /tmp");
	temporary_sweep(above); /* of processes that were killed */
	cb_code code = temporary_folder(above, name, &d->area, err);
	if (code != CB_OK) return cb_err_wrap(err, code, "in /tmp");
	(void)snprintf(d->temporary, sizeof(d->temporary), "/tmp/%s", name);
	if (geteuid() != 0) return CB_OK;
	CB_TRY(uid_choose(&d->uid, err));
	return fchown(d->area, d->uid, d->uid) == 0 ? CB_OK : cb_err_errno(err, errno, "giving '%s' away", d->temporary);
}

/* The holder has made the folder it mounted on. */
static void area_drop(const work_dirs *d)
{
	int copy = d->area < 0 ? -1 : openat(d->area, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = copy < 0 ? NULL : fdopendir(copy);
	for (const struct dirent *e; list && (e = readdir(list)) != NULL;)
		if (e->d_name[0] != '.') (void)unlinkat(d->area, e->d_name, AT_REMOVEDIR);
	if (list) (void)closedir(list);
	(void)rmdir(d->temporary);
}

void dirs_done(work_dirs *d)
{
	if (*d->temporary) area_drop(d);
	const int all[] = {d->top, d->slots, d->layers, d->area};
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (all[i] >= 0) (void)close(all[i]);
	*d = WORK_DIRS_NONE;
}

cb_code dirs_open(cb_store *cs, work_dirs *out, cb_error *err)
{
	*out = WORK_DIRS_NONE;
	if (box_store_folder(cs) < 0) {
		cb_code made = area_in_tmp(out, err);
		if (made != CB_OK) dirs_done(out);
		return made;
	}
	CB_TRY(box_store_writable(cs, err));
	cb_code code = dirs_fill(cs, true, out, err);
	if (code != CB_OK) dirs_done(out);
	return code;
}

cb_code dirs_find(cb_store *cs, work_dirs *out, bool *out_found, cb_error *err)
{
	*out = WORK_DIRS_NONE;
	*out_found = false;
	if (box_store_folder(cs) < 0) return CB_OK;
	cb_code code = dirs_fill(cs, false, out, err);
	*out_found = code == CB_OK && out->slots >= 0 && out->layers >= 0 && out->area >= 0;
	if (!*out_found) dirs_done(out);
	return code;
}

/* ---- slots ---- */

void slot_file_done(slot_file *s)
{
	if (s->lock >= 0) (void)close(s->lock);
	if (s->fd >= 0) (void)close(s->fd);
	*s = SLOT_FILE_NONE;
}

static void slot_name(uint64_t box, unsigned number, char out[32])
{
	(void)snprintf(out, 32, "%" PRIu64 ".%u", box, number);
}

static bool slot_parse(const char *name, uint64_t *box, unsigned *number)
{
	char again[32];
	unsigned long long b = 0;
	if (sscanf(name, "%llu.%u", &b, number) != 2) return false;
	*box = b;
	slot_name(*box, *number, again);
	return b != 0 && strcmp(again, name) == 0;
}

void slot_owner(uint64_t box, unsigned number, char out[WORK_OWNER_BYTES])
{
	char name[32];
	slot_name(box, number, name);
	(void)snprintf(out, WORK_OWNER_BYTES, BOX_WORK_OWNER "%s", name);
}

bool slot_of_owner(const char *owner, uint64_t *out_box, unsigned *out_number)
{
	size_t prefix = strlen(BOX_WORK_OWNER);
	return strncmp(owner, BOX_WORK_OWNER, prefix) == 0 && slot_parse(owner + prefix, out_box, out_number);
}

/* Is that still the file of that name? It may have been removed between opening and locking. */
static bool is_still_there(int folder, const char *name, int fd)
{
	struct stat a, b;
	return fstat(fd, &a) == 0 && fstatat(folder, name, &b, AT_SYMLINK_NOFOLLOW) == 0 && a.st_ino == b.st_ino &&
	       a.st_dev == b.st_dev;
}

static cb_code slot_open(const work_dirs *d, const char *name, int flags, int *out_fd, cb_error *err)
{
	io_folder in = {d->slots, "work/slots"};
	return io_file_open(&in, name, flags, out_fd, err);
}

cb_code slot_try(const work_dirs *d, uint64_t box, unsigned number, bool make, slot_file *out, bool *out_got, cb_error *err)
{
	*out = SLOT_FILE_NONE;
	*out_got = false;
	out->box = box;
	out->number = number;
	slot_name(box, number, out->name);
	AUTO_FD int lock = -1;
	cb_error why;
	cb_code code = slot_open(d, out->name, O_RDWR | (make ? O_CREAT : 0), &lock, cb_err_aside(&why));
	if (code != CB_OK) return code == CB_NOTFOUND ? CB_OK : cb_err_pass(err, code, &why);
	if (flock(lock, LOCK_EX | LOCK_NB) != 0)
		return errno == EWOULDBLOCK ? CB_OK : cb_err_errno(err, errno, "locking slot '%s' of the store", out->name);
	if (!is_still_there(d->slots, out->name, lock)) return CB_OK;
	AUTO_FD int fd = -1;
	CB_TRY(slot_open(d, out->name, O_RDWR, &fd, err));
	code = stamp_read(fd, &out->stamp, cb_err_aside(&why));
	if (code == CB_CORRUPT) memset(&out->stamp, 0, sizeof(out->stamp));
	else if (code != CB_OK) return cb_err_pass(err, code, &why);
	out->lock = TAKE_FD(lock);
	out->fd = TAKE_FD(fd);
	*out_got = true;
	return CB_OK;
}

void slot_mark(const slot_file *s, slot_use use)
{
	struct flock mine = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = use, .l_len = 1};
	(void)fcntl(s->fd, F_OFD_SETLK, &mine); /* where there are no such locks nobody is waited for */
}

static bool has_mark(int fd, slot_use use)
{
	struct flock theirs = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = use, .l_len = 1};
	return fcntl(fd, F_OFD_GETLK, &theirs) != 0 || theirs.l_type != F_UNLCK;
}

slot_use slot_use_now(const work_dirs *d, uint64_t box, unsigned number)
{
	char name[32];
	stamp s;
	slot_name(box, number, name);
	AUTO_FD int fd = -1;
	if (slot_open(d, name, O_RDWR, &fd, NULL) != CB_OK) return SLOT_RUNS;
	if (stamp_read(fd, &s, NULL) != CB_OK || !s.base.box || has_mark(fd, SLOT_RUNS)) return SLOT_RUNS;
	return has_mark(fd, SLOT_RECOVERS) ? SLOT_RECOVERS : SLOT_ORPHAN;
}

cb_code slot_peek(const work_dirs *d, uint64_t box, unsigned number, stamp *out, cb_error *err)
{
	char name[32];
	slot_name(box, number, name);
	AUTO_FD int fd = -1;
	CB_TRY(slot_open(d, name, O_RDONLY, &fd, err));
	return stamp_read(fd, out, err);
}

cb_code slots_each(const work_dirs *d, slot_visit visit, void *context, cb_error *err)
{
	int copy = openat(d->slots, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = copy < 0 ? NULL : fdopendir(copy);
	if (!list) {
		if (copy >= 0) (void)close(copy);
		return cb_err_errno(err, errno, "listing the slots of the store");
	}
	cb_code code = CB_OK;
	for (const struct dirent *e; code == CB_OK && (e = readdir(list)) != NULL;) {
		uint64_t box = 0;
		unsigned number = 0;
		if (slot_parse(e->d_name, &box, &number)) code = visit(context, box, number, err);
	}
	(void)closedir(list);
	return code;
}

typedef struct choice {
	const work_dirs *d;
	uint64_t box, state;
	bool there[LIMIT_WORK_SLOTS];
	bool fits[LIMIT_WORK_SLOTS]; /* is at the state */
} choice;

static cb_code choice_add(void *context, uint64_t box, unsigned number, cb_error *err)
{
	choice *c = context;
	stamp s;
	if (box != c->box || number >= LIMIT_WORK_SLOTS) return CB_OK;
	c->there[number] = true;
	(void)err; /* one that cannot be read does not fit */
	cb_code code = slot_peek(c->d, box, number, &s, NULL);
	c->fits[number] = code == CB_OK && s.at.box && s.at.state == c->state && strcmp(s.boot, stamp_boot()) == 0;
	return CB_OK;
}

cb_code slot_take(const work_dirs *d, uint64_t box, uint64_t state_id, slot_file *out, cb_error *err)
{
	choice c = {.d = d, .box = box, .state = state_id};
	CB_TRY(slots_each(d, choice_add, &c, err));
	for (int turn = 0; turn < 3; turn++) { /* at the state; at another; new */
		for (unsigned i = 0; i < LIMIT_WORK_SLOTS; i++) {
			bool got = false;
			if (turn < 2 ? !c.there[i] || c.fits[i] != (turn == 0) : c.there[i]) continue;
			CB_TRY(slot_try(d, box, i, turn == 2, out, &got, err));
			if (got && !out->stamp.base.box) {
				slot_mark(out, SLOT_RUNS);
				return CB_OK;
			}
			if (got) slot_file_done(out); /* a crash left it, and it was not captured yet */
		}
	}
	return cb_err_set(err, CB_BUSY, "%d commands run in this box already", LIMIT_WORK_SLOTS);
}
