/* room.c: see room.h. */
#include "store/room.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/limits.h"

enum {
	PART_OF_DISK = 16, /* what is kept is at most this part of the filesystem */
	KEEP_LEAST = 512 << 10,
	KEEP_MOST = 4 << 20,
	PIECE_LEAST = 4 << 10,
	STEPS = 4,     /* a part of what is kept is allocated beyond it, so that few commits have to ask */
	LOG_STAYS = 4, /* times what is kept: as long as a busy log becomes before it is folded under the writer lock */
};

/* More than any file has: for filesystems that cannot allocate ahead, where nobody needs to ask again. */
static const uint64_t everything = UINT64_MAX / 4;

void room_init(room *r, base_place at, held *h, store_fault_plan *plan)
{
	*r = (room){.at = at, .held = h, .plan = plan, .log_fd = -1};
}

void room_done(room *r)
{
	if (r->log_fd >= 0) (void)close(r->log_fd); /* SQLite has no locks on the log */
	r->log_fd = -1;
}

void room_forget(room *r)
{
	r->log_has = r->base_has = 0;
}

/* A folding begins while there is still this much more than must be kept. */
static uint64_t log_margin(const room *r)
{
	return r->log_keep / 8;
}

uint64_t room_log_ahead(const room *r)
{
	return r->log_keep + log_margin(r);
}

uint64_t room_log_stays(const room *r)
{
	return LOG_STAYS * (r->log_keep ? r->log_keep : KEEP_MOST);
}

/* A small disk keeps less: half of a batch must fit, and nobody wants to find half of his disk taken. */
static void keep_settle(room *r)
{
	struct statvfs st;
	uint64_t keep = KEEP_MOST;
	if ((r->at.folder >= 0 ? fstatvfs(r->at.folder, &st) : statvfs(r->at.name, &st)) == 0)
		keep = (uint64_t)st.f_blocks * st.f_frsize / PART_OF_DISK;
	r->log_keep = keep < KEEP_LEAST ? KEEP_LEAST : keep > KEEP_MOST ? KEEP_MOST : keep;
	r->base_keep = r->log_keep / 2;
}

/* ---- allocating ---- */

/* Our files have no holes, so what has blocks is a prefix; some of the blocks counted hold the list of the others (ext4: one for every
 * 340 pieces at most). Never too much; of a large file it may be less than is kept behind its end. */
static uint64_t prefix_of(const struct stat *st)
{
	uint64_t all = (uint64_t)st->st_blocks * 512, lists = all / 256 + (16 << 10);
	return all > lists ? all - lists : 0;
}

/*
 * How far blocks go, exactly, where `from` bytes surely have some and nobody asks beyond `to`. Asking the kernel to allocate what is there
 * already would not tell: xfs wants free blocks even for that.
 */
static uint64_t blocks_end(int fd, const struct stat *st, uint64_t from, uint64_t to)
{
	enum { PIECES = 32 };
	union {
		struct fiemap head;
		uint8_t bytes[sizeof(struct fiemap) + PIECES * sizeof(struct fiemap_extent)];
	} map;
	struct statfs fs;
	if (fstatfs(fd, &fs) == 0 && fs.f_type == TMPFS_MAGIC) return (uint64_t)st->st_blocks * 512; /* it has no lists */
	while (from < to) {
		memset(&map, 0, sizeof map);
		map.head.fm_start = from;
		map.head.fm_length = to - from;
		map.head.fm_extent_count = PIECES;
		if (ioctl(fd, FS_IOC_FIEMAP, &map) != 0 || map.head.fm_mapped_extents == 0) return from;
		for (unsigned i = 0; i < map.head.fm_mapped_extents; i++) {
			const struct fiemap_extent *p = &map.head.fm_extents[i];
			if (p->fe_logical > from || p->fe_logical + p->fe_length <= from) return from;
			from = p->fe_logical + p->fe_length;
		}
	}
	return from;
}

/* From `has` on, which is there: tmpfs looks at every page of the range. */
static int allocate(const room *r, int fd, uint64_t has, uint64_t want)
{
	int error = fault_strike(r->plan, STORE_FAULT_ALLOCATE);
	if (error) return error;
	off_t from = (off_t)(has & ~(uint64_t)4095);
	io_bounded bounded = io_bounded_begin();
	do error = fallocate(fd, FALLOC_FL_KEEP_SIZE, from, (off_t)want - from) == 0 ? 0 : errno;
	while (error == EINTR);
	io_bounded_end(&bounded);
	return error;
}

/* Some filesystems (tmpfs, btrfs) allocate all of a range or nothing: as much of it as there is, in pieces that become smaller. */
static void extend_in_pieces(const room *r, int fd, uint64_t want, uint64_t *has)
{
	struct statfs fs;
	if (fstatfs(fd, &fs) != 0) return;
	uint64_t left = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
	for (uint64_t piece = want - *has < left ? want - *has : left; piece >= PIECE_LEAST && *has < want; piece /= 2) {
		if (piece > want - *has) piece = want - *has;
		if (allocate(r, fd, *has, *has + piece) == 0) *has += piece;
	}
}

/* Gives the file blocks for `want` bytes, or as many as there are. *has: what it surely has then. */
static int extend(const room *r, int fd, uint64_t want, uint64_t *has)
{
	struct stat st;
	uint64_t more = want + r->log_keep / STEPS;
	int error = allocate(r, fd, *has, more);
	if (error == 0) {
		*has = more;
		return 0;
	}
	if (error == EOPNOTSUPP || error == ENOSYS || error == EINVAL || error == ENODEV) {
		*has = everything;
		return 0;
	}
	if (allocate(r, fd, *has, want) == 0) {
		*has = want;
		return 0;
	}
	/* A part of it may have been allocated. Never less than what was known, which is forgotten when the file is cut. */
	if (fstat(fd, &st) == 0) {
		uint64_t least = prefix_of(&st) > *has ? prefix_of(&st) : *has, end = blocks_end(fd, &st, least, want);
		*has = end > least ? end : least;
	}
	if (error == ENOSPC || error == EDQUOT) {
		if (*has < want) extend_in_pieces(r, fd, want, has);
		if (*has >= want) return 0;
	}
	return error == EDQUOT ? ENOSPC : error;
}

static void log_path(const room *r, char out[LIMIT_PATH_BYTES + 8])
{
	(void)snprintf(out, LIMIT_PATH_BYTES + 8, "%s-wal", r->at.name);
}

static void log_learn(room *r)
{
	char path[LIMIT_PATH_BYTES + 8];
	struct stat st;
	log_path(r, path);
	if (r->log_has == 0 && fstatat(r->at.folder, path, &st, AT_SYMLINK_NOFOLLOW) == 0) r->log_has = prefix_of(&st);
}

static int log_extend(room *r, uint64_t want)
{
	log_learn(r);
	if (r->log_has >= want) return 0;
	if (r->log_fd < 0) {
		char path[LIMIT_PATH_BYTES + 8];
		log_path(r, path);
		int error = fault_strike(r->plan, STORE_FAULT_OPEN);
		if (error) return error;
		r->log_fd = io_open_at(r->at.folder, path, O_RDWR | O_NONBLOCK | O_NOFOLLOW, 0);
		if (r->log_fd < 0) return errno;
	}
	return extend(r, r->log_fd, want, &r->log_has);
}

static int base_extend(room *r, uint64_t want)
{
	struct stat st;
	if (r->base_has == 0 && fstatat(r->at.folder, r->at.name, &st, AT_SYMLINK_NOFOLLOW) == 0) r->base_has = prefix_of(&st);
	if (r->base_has >= want) return 0;
	if (!r->held) return ENOMEM;
	int error = fault_strike(r->plan, STORE_FAULT_OPEN);
	if (error) return error;
	int fd = held_base(r->held, r->at);
	return fd < 0 ? errno : extend(r, fd, want, &r->base_has);
}

uint64_t room_base_stays(room *r, uint64_t base_end)
{
	if (r->base_keep == 0) keep_settle(r);
	return base_end + r->base_keep;
}

/* ---- a transaction ---- */

/* What is known is of one log. Another one was begun anew, and perhaps cut, by us or another. */
static void log_settle(room *r, uint64_t salt)
{
	if (salt != r->log_salt) {
		r->log_salt = salt;
		r->log_left = ROOM_LOG_ENOUGH;
		room_forget(r);
	}
	if (r->log_keep == 0) keep_settle(r);
}

static uint64_t share(const room *r, uint64_t keep)
{
	return r->need == ROOM_GROWS ? keep : r->need == ROOM_SHRINKS ? keep / 2 : 0;
}

/* How much a transaction will write is not known yet: less than the margin, if it is like most. On a full disk asking for more takes long,
 * so a handle whose last commit was denied it does not ask again. */
room_log room_of_log(room *r, uint64_t log_end, uint64_t log_salt)
{
	log_settle(r, log_salt);
	uint64_t wish = log_end + room_log_ahead(r), least = log_end + log_margin(r) + share(r, r->log_keep);
	if (wish > r->log_has) {
		if (r->is_short) log_learn(r);
		else (void)log_extend(r, wish);
	}
	if (least > r->log_has || (r->log_left == ROOM_LOG_OUT && r->need <= r->log_refused)) return ROOM_LOG_OUT;
	return wish > r->log_has || r->log_left != ROOM_LOG_ENOUGH ? ROOM_LOG_SHORT : ROOM_LOG_ENOUGH;
}

/* Asks for more only where the commit needs it: on a full disk that takes long. */
static int for_log(room *r, const room_commit *c)
{
	uint64_t wish = c->log_end + room_log_ahead(r), least = c->log_end + share(r, r->log_keep);
	int error = 0;
	if (wish > r->log_has && (r->log_has < least || r->need == ROOM_GROWS || !r->is_short)) error = log_extend(r, wish);
	r->log_left = wish > r->log_has ? ROOM_LOG_SHORT : ROOM_LOG_ENOUGH;
	if (r->need == ROOM_FREES || least <= r->log_has) return 0;
	r->log_left = ROOM_LOG_OUT;
	r->log_refused = r->need;
	return error ? error : ENOSPC;
}

static bool base_suffices(const room *r, const room_commit *c)
{
	return c->base_end <= r->base_has && c->base_end + share(r, r->base_keep) <= r->base_has + c->free_bytes;
}

static int for_base(room *r, const room_commit *c, bool *is_short)
{
	uint64_t wish = c->base_end + r->base_keep;
	int error = 0;
	/* It became shorter: there was a vacuum, and what was known of its blocks is not so any more. */
	if (c->base_end < r->base_seen) r->base_has = 0;
	r->base_seen = c->base_end;
	if (wish > r->base_has + c->free_bytes || c->base_end > r->base_has) {
		if (r->need == ROOM_GROWS || !r->is_short || !base_suffices(r, c)) error = base_extend(r, wish);
	}
	*is_short = wish > r->base_has + c->free_bytes;
	/* Without page 1 no pages were taken: it stands where the last commit stood. */
	if (!c->has_first || base_suffices(r, c)) return 0;
	return error ? error : ENOSPC;
}

int room_for_commit(room *r, const room_commit *c)
{
	log_settle(r, c->log_salt);
	bool base_short = false;
	int error = for_log(r, c);
	if (error == 0) error = for_base(r, c, &base_short);
	r->is_short = r->log_left != ROOM_LOG_ENOUGH || base_short;
	return error;
}
