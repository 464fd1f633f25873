/* held.c: see held.h. */
#include "store/held.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/limits.h"

enum {
	ATTACHED_BYTE = 128,    /* SQLite's "dead man's switch" in the index: locked, shared, by every process that is attached */
	INDEX_BYTES = 32 << 10, /* a block of the index, */
	INDEX_FRAMES = 4062,    /* for so many frames at least */
	SMALLEST_FRAME = 24 + 512,
	INDEX_SPARE = 64 << 20, /* of log, that need not be there yet */
	WAIT_TRIES = 200,       /* for a process that empties the index right now: microseconds */
};

struct held {
	dev_t device;
	ino_t inode;
	unsigned refs;
	int base_fd, index_fd; /* -1: not opened */
	held *next;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* a leaf: nothing is waited for under it but the disk */
static held *all;

static void lock(void)
{
	(void)pthread_mutex_lock(&mutex);
}

static void unlock(void)
{
	(void)pthread_mutex_unlock(&mutex);
}

void held_forked(void)
{
	(void)pthread_mutex_init(&mutex, NULL);
}

held *held_take(base_place at)
{
	struct stat st;
	if (fstatat(at.folder, at.name, &st, AT_SYMLINK_NOFOLLOW) != 0) return NULL;
	lock();
	held *h = all;
	while (h && (h->device != st.st_dev || h->inode != st.st_ino)) h = h->next;
	if (!h && (h = mem_alloc(sizeof *h))) {
		*h = (held){.device = st.st_dev, .inode = st.st_ino, .base_fd = -1, .index_fd = -1, .next = all};
		all = h;
	}
	if (h) h->refs++;
	unlock();
	return h;
}

void held_release(held *h)
{
	if (!h) return;
	lock();
	if (--h->refs == 0) {
		held **at = &all;
		while (*at != h) at = &(*at)->next;
		*at = h->next;
		/* Under the mutex: a connection made meanwhile takes its set, and only then its locks. */
		if (h->base_fd >= 0) (void)close(h->base_fd);
		if (h->index_fd >= 0) (void)close(h->index_fd);
		free(h);
	}
	unlock();
}

int held_base(held *h, base_place at)
{
	lock();
	if (h->base_fd < 0) h->base_fd = io_open_at(at.folder, at.name, O_RDWR | O_NOFOLLOW, 0);
	int fd = h->base_fd;
	unlock();
	return fd;
}

/* ---- the index ---- */

static bool index_lock(const held *h, short type)
{
	struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = ATTACHED_BYTE, .l_len = 1};
	return fcntl(h->index_fd, F_OFD_SETLK, &l) == 0;
}

/* What an index may be long: for all frames that the log has blocks for, and some more, by the smallest pages there are. What is longer is
 * of nobody's making, and may be longer than the disk. */
static off_t index_most(base_place at)
{
	char log[LIMIT_PATH_BYTES + 8];
	struct stat st;
	off_t bytes = INDEX_SPARE;
	(void)snprintf(log, sizeof log, "%s-wal", at.name);
	if (fstatat(at.folder, log, &st, AT_SYMLINK_NOFOLLOW) == 0) bytes += (off_t)st.st_blocks * 512;
	return (bytes / SMALLEST_FRAME / INDEX_FRAMES + 1) * INDEX_BYTES;
}

/* Zeros are what SQLite finds in a new index: no header, so the log is read again. */
static bool index_empty(const held *h, base_place at)
{
	static const char zeros[16 << 10];
	struct stat st;
	off_t most = index_most(at);
	if (fstat(h->index_fd, &st) != 0) return false;
	if (st.st_size > most) {
		if (io_size_set(h->index_fd, (uint64_t)most) != 0) return false;
		st.st_size = most;
	}
	for (off_t end = 0; end < st.st_size;) {
		size_t n = st.st_size - end < (off_t)sizeof zeros ? (size_t)(st.st_size - end) : sizeof zeros;
		io_bounded bounded = io_bounded_begin(); /* it may be longer than a file may become by now */
		ssize_t done = pwrite(h->index_fd, zeros, n, end);
		io_bounded_end(&bounded);
		if (done < 0 && errno == EINTR) continue;
		if (done <= 0) return false;
		end += done;
	}
	return true;
}

void held_index_enter(held *h, base_place at)
{
	char file[LIMIT_PATH_BYTES + 8];
	lock();
	if (!h || snprintf(file, sizeof file, "%s-shm", at.name) >= (int)sizeof file) return;
	if (h->index_fd < 0) h->index_fd = io_open_at(at.folder, file, O_RDWR | O_NONBLOCK | O_NOFOLLOW, 0);
	if (h->index_fd < 0) return; /* there is none, or it may not be written: SQLite knows what to do */
	/* Granted only when no process is attached, this one included: SQLite's lock and this one belong to different owners. */
	bool alone = index_lock(h, F_WRLCK);
	if (alone && !index_empty(h, at)) {
		(void)index_lock(h, F_UNLCK); /* SQLite tries in its own way */
		return;
	}
	for (int i = 0; i < WAIT_TRIES && !index_lock(h, F_RDLCK) && (errno == EAGAIN || errno == EACCES); i++) {
		struct timespec t = {.tv_nsec = 50000};
		(void)nanosleep(&t, NULL);
	}
	/* An exclusive lock that can neither be shared nor given back would keep SQLite waiting for ourselves. Nobody of this process is
	 * attached, or it would not have been granted: there are no locks that go with the descriptor. */
	if (alone && !index_lock(h, F_RDLCK)) {
		(void)close(h->index_fd);
		h->index_fd = -1;
	}
}

void held_index_leave(held *h)
{
	if (h && h->index_fd >= 0) (void)index_lock(h, F_UNLCK);
	unlock();
}
