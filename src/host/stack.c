/*
 * stack.c: the way from a root down to a folder, with a bounded number of open descriptors.
 *
 * Adversary: somebody renames folders while we are below them. Down goes by name from an open folder; up goes to the descriptor that was
 * kept, or by "..", and then it must be the folder that was passed on the way down: device and inode say so.
 */
#include "host/internal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>

enum { KEPT_OPEN = 16 };

typedef struct place {
	int fd; /* -1: closed for now. That of the root is lent */
	uint64_t dev, ino;
} place;

struct host_stack {
	buf places;
};

static place *place_at(const host_stack *s, size_t i)
{
	return (place *)(void *)s->places.bytes + i;
}

static size_t place_count(const host_stack *s)
{
	return s->places.size / sizeof(place);
}

cb_code host_stack_create(const host_root *root, host_stack **out, cb_error *err)
{
	host_stack *s = mem_alloc(sizeof(*s));
	if (!s) return cb_err_nomem(err);
	s->places = BUF_INIT(sizeof(place) * (LIMIT_HOST_DEPTH + 1));
	place first = {root->fd, root->stat.dev, root->stat.ino};
	cb_code code = buf_append(&s->places, &first, sizeof(first), err);
	if (code == CB_OK) *out = s;
	else free(s);
	return code;
}

void host_stack_destroy(host_stack *s)
{
	if (!s) return;
	for (size_t i = place_count(s); i > 1; i--)
		if (place_at(s, i - 1)->fd >= 0) (void)close(place_at(s, i - 1)->fd);
	buf_done(&s->places);
	free(s);
}

int host_stack_fd(const host_stack *s)
{
	return place_at(s, place_count(s) - 1)->fd;
}

size_t host_stack_depth(const host_stack *s)
{
	return place_count(s) - 1;
}

cb_code host_stack_push(host_stack *s, const char *name, unsigned flags, host_stat *out_stat, cb_error *err)
{
	AUTO_FD int fd = -1;
	host_stat stat;
	if (host_stack_depth(s) == LIMIT_HOST_DEPTH)
		return cb_err_set(err, CB_LIMIT, "folders are nested deeper than %d", LIMIT_HOST_DEPTH);
	CB_TRY(host_dir_open(host_stack_fd(s), name, flags, &fd, &stat, err));
	place next = {fd, stat.dev, stat.ino};
	CB_TRY(buf_append(&s->places, &next, sizeof(next), err));
	(void)TAKE_FD(fd);
	size_t count = place_count(s);
	if (count > KEPT_OPEN + 1) {
		place *far = place_at(s, count - 1 - KEPT_OPEN);
		if (far->fd >= 0) (void)close(TAKE_FD(far->fd));
	}
	if (out_stat) *out_stat = stat;
	return CB_OK;
}

static cb_code reopen_above(int below, place *above, cb_error *err)
{
	AUTO_FD int fd = openat(below, "..", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) return host_fail(err, errno, "open folder", "..");
	host_stat stat;
	CB_TRY(host_stat_fd(fd, &stat, err));
	if (stat.dev != above->dev || stat.ino != above->ino)
		return cb_err_set(err, CB_BUSY, "a folder was moved meanwhile: try again");
	above->fd = TAKE_FD(fd);
	return CB_OK;
}

cb_code host_stack_pop(host_stack *s, cb_error *err)
{
	size_t count = place_count(s);
	assert(count > 1);
	place *top = place_at(s, count - 1), *above = top - 1;
	if (above->fd < 0) CB_TRY(reopen_above(top->fd, above, err));
	(void)close(top->fd);
	s->places.size -= sizeof(place);
	return CB_OK;
}
