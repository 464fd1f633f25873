/*
 * layers.c: sealed layers: what is known of them, and which one a new stack stands on.
 *
 * A layer is one state of a box, for ever: state ids are never reused, so the same id in a fork is the same content, and forks stand
 * on the layers of their origin. A layer is used by naming it in a slot's stamp under the shared lock; whoever removes layers holds
 * the lock alone and looks at all stamps.
 */
#include "work/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/random.h>

#include "base/io.h"

enum { CHAIN_MAX = 64 }; /* origins of a fork whose layers are looked at */

cb_code layers_lock(const work_dirs *d, bool exclusive, int *out, cb_error *err)
{
	*out = -1;
	if (d->top < 0) return CB_OK;
	io_folder in = {d->top, "work"};
	AUTO_FD int fd = -1;
	CB_TRY(io_file_open(&in, "layers.lock", O_RDWR | O_CREAT, &fd, err));
	/* Under a limit it is tried now and then: whoever has it holds it for the removal of a layer at most. */
	int how = (exclusive ? LOCK_EX : LOCK_SH) | (cancel_is_possible() ? LOCK_NB : 0);
	while (flock(fd, how) != 0) {
		if (errno == EWOULDBLOCK) CB_TRY(cancel_sleep(2, "for another process to remove layers", err));
		else if (errno != EINTR) return cb_err_errno(err, errno, "locking 'work/layers.lock' of the store");
	}
	*out = TAKE_FD(fd);
	return CB_OK;
}

cb_code layer_name(char out[STAMP_ID_BYTES], cb_error *err)
{
	uint64_t random = 0;
	if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random)) return cb_err_errno(err, errno, "getrandom");
	(void)snprintf(out, STAMP_ID_BYTES, "l%016" PRIx64, random);
	return CB_OK;
}

cb_code layer_put(const work_dirs *d, const stamp *s, cb_error *err)
{
	if (d->layers < 0) return CB_OK;
	io_folder in = {d->layers, "work/layers"};
	AUTO_FD int fd = -1;
	CB_TRY(io_file_open(&in, s->layers[0], O_RDWR | O_CREAT, &fd, err));
	return stamp_write(fd, s, err);
}

cb_code layer_get(const work_dirs *d, const char *id, stamp *out, cb_error *err)
{
	if (d->layers < 0) return CB_NOTFOUND;
	io_folder in = {d->layers, "work/layers"};
	AUTO_FD int fd = -1;
	CB_TRY(io_file_open(&in, id, O_RDONLY, &fd, err));
	CB_TRY(stamp_read(fd, out, err));
	if (!out->at.box || !out->layer_count || strcmp(out->layers[0], id) != 0)
		return cb_err_set(err, CB_CORRUPT, "the stamp of layer '%s' is damaged", id);
	return CB_OK;
}

cb_code layers_each(const work_dirs *d, layer_visit visit, void *context, cb_error *err)
{
	if (d->layers < 0) return CB_OK;
	int copy = openat(d->layers, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = copy < 0 ? NULL : fdopendir(copy);
	if (!list) {
		if (copy >= 0) (void)close(copy);
		return cb_err_errno(err, errno, "listing the layers of the store");
	}
	cb_code code = CB_OK;
	for (const struct dirent *e; code == CB_OK && (e = readdir(list)) != NULL;)
		if (stamp_id_valid(span_str(e->d_name))) code = visit(context, e->d_name, err);
	(void)closedir(list);
	return code;
}

/* ---- which one ---- */

/* A state on the way back from the one that is wanted: where a box began as a fork. */
typedef struct chain_link {
	box_place at;
	uint64_t steps; /* from here to what is wanted */
} chain_link;

typedef struct choosing {
	const work_dirs *d;
	chain_link chain[CHAIN_MAX];
	size_t count;
	uint64_t best_steps;
	bool found;
	stamp *best;
} choosing;

static cb_code chain_fill(cb_store *cs, const box_place *to, choosing *c, cb_error *err)
{
	chain_link at = {*to, 0};
	while (at.at.box && c->count < CHAIN_MAX) {
		c->chain[c->count++] = at;
		at.steps += at.at.seq + 1;
		CB_TRY(box_origin(cs, at.at.box, &at.at, err));
	}
	return CB_OK;
}

static uint64_t steps_from(const choosing *c, const box_place *at)
{
	uint64_t best = UINT64_MAX;
	for (size_t i = 0; i < c->count; i++) {
		const chain_link *l = &c->chain[i];
		uint64_t far = l->at.seq > at->seq ? l->at.seq - at->seq : at->seq - l->at.seq;
		uint64_t steps = l->at.state == at->state ? l->steps : l->at.box == at->box ? l->steps + far : UINT64_MAX;
		if (steps < best) best = steps;
	}
	return best;
}

static cb_code consider(void *context, const char *id, cb_error *err)
{
	choosing *c = context;
	stamp s;
	(void)err;
	if (layer_get(c->d, id, &s, NULL) != CB_OK) return CB_OK;
	/* A layer of another boot may have lost what was not flushed; on a full stack no further one could be sealed. */
	if (strcmp(s.boot, stamp_boot()) != 0 || s.layer_count >= work_bound.layers) return CB_OK;
	uint64_t steps = steps_from(c, &s.at);
	if (steps == UINT64_MAX || (c->found && steps >= c->best_steps)) return CB_OK;
	c->found = true;
	c->best_steps = steps;
	*c->best = s;
	return CB_OK;
}

cb_code layers_choose(cb_store *cs, const work_dirs *d, const box_place *to, stamp *out, bool *out_found, cb_error *err)
{
	choosing c = {.d = d, .best = out};
	CB_TRY(chain_fill(cs, to, &c, err));
	CB_TRY(layers_each(d, consider, &c, err));
	*out_found = c.found;
	return CB_OK;
}
