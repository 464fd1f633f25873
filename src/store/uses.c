/* uses.c: states in use and pins, for those above: the table (inuse.h) under forks, waiting for removers, rows of pins. */
#include "store/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>

#include "base/cancel.h"

enum {
	WAIT_YIELDS = 64, /* reading the table takes microseconds */
	WAIT_NS = 100000, /* a removal takes some milliseconds */
	WAIT_LOOKS = 20,  /* waits between two looks whether the remover lives */
};

/* ---- places ---- */

static bool is_ours(const store_use *u)
{
	return u && u->era == entry_era();
}

static cb_code place_claim(store *s, store_use **u, cb_error *err)
{
	*u = NULL;
	if (!fork_is_current(s)) CB_TRY(fork_reattach(s, err));
	return s->inuse.here ? inuse_claim(&s->inuse, entry_era(), u, err) : CB_OK;
}

cb_code store_use_claim(store *s, store_use **u, cb_error *err)
{
	return is_ours(*u) ? CB_OK : place_claim(s, u, err);
}

cb_code store_use_show(store *s, store_use **u, const store_used *what, cb_error *err)
{
	CB_TRY(store_use_claim(s, u, err));
	if (!*u) return CB_OK;
	inuse_seen seen = {what->box, what->seq, what->root, what->since_ns, 0, what->why};
	inuse_show(&s->inuse, *u, &seen);
	return CB_OK;
}

void store_use_hide(store_use *u)
{
	if (is_ours(u)) inuse_hide(u);
}

void store_use_end(store *s, store_use **u)
{
	if (is_ours(*u)) inuse_release(&s->inuse, *u);
	*u = NULL;
}

bool store_use_is_shown(const store_use *u)
{
	return is_ours(u) && (u->turn & 1) != 0;
}

/* ---- removers ---- */

/* Does somebody hold the writer lock? Asked through a descriptor of its own: one that holds it would not see it. No descriptor is left:
 * true. */
static cb_code has_writer(const store *s, bool *out, cb_error *err)
{
	*out = true;
	if (!s->path) return CB_OK;
	AUTO_FD int fd = -1;
	struct flock l = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = LOCK_WRITER, .l_len = 1};
	if (io_file_open(&s->folder, "locks", O_RDONLY, &fd, NULL) != CB_OK) return CB_OK;
	if (fcntl(fd, F_OFD_GETLK, &l) != 0) return lock_failed(fd, errno, err);
	*out = l.l_type != F_UNLCK;
	return CB_OK;
}

/* Until the phase is none from `from` to REMOVING, or whoever left it there is dead: then what he did is over. */
static cb_code wait_below(store *s, inuse_phase from, inuse_phase to, uint64_t *out, cb_error *err)
{
	for (unsigned tries = 0;; tries++) {
		uint64_t removal = atomic_load(inuse_removal(&s->inuse));
		inuse_phase phase = inuse_phase_of(removal);
		*out = removal;
		if (phase < from || phase > to) return CB_OK;
		CB_TRY(cancel_check_wait("for a prune or gc to remove its next steps", err));
		if (tries < WAIT_YIELDS) {
			(void)sched_yield();
			continue;
		}
		bool living = true;
		if (tries % WAIT_LOOKS == 0) CB_TRY(has_writer(s, &living, err));
		/* The same value after the look: it is still the dead one's, not that of one who began since. */
		if (!living && atomic_load(inuse_removal(&s->inuse)) == removal) return CB_OK;
		struct timespec t = {0, WAIT_NS};
		(void)nanosleep(&t, NULL);
	}
}

cb_code store_removal_wait(store *s, uint64_t *out, cb_error *err)
{
	*out = 0;
	if (!s->inuse.here || store_in_write(s)) return CB_OK;
	return wait_below(s, INUSE_READING, (inuse_phase)3, out, err);
}

bool store_removal_is(const store *s, uint64_t seen)
{
	return !s->inuse.here || store_in_write(s) || atomic_load(inuse_removal(&s->inuse)) == seen;
}

void store_use_handed(store *s)
{
	CANCEL_SHIELD; /* a remover reads the table: microseconds */
	uint64_t ignored;
	if (s->inuse.here && !store_in_write(s)) (void)wait_below(s, INUSE_READING, INUSE_READING, &ignored, NULL);
}

static cb_code give(const buf *seen, buf *out, cb_error *err)
{
	const inuse_seen *all = (const inuse_seen *)(const void *)seen->bytes;
	for (size_t i = 0; i < seen->size / sizeof(*all); i++) {
		store_used u = {all[i].box, all[i].seq, all[i].root, all[i].since_ns, all[i].pid, all[i].why};
		CB_TRY(buf_append(out, &u, sizeof(u), err));
	}
	return CB_OK;
}

cb_code store_removal_begin(store *s, buf *out, cb_error *err)
{
	CB_TRY(store_need_write(s, err));
	AUTO_BUF buf seen = BUF_INIT(SIZE_MAX / 2);
	CB_TRY(inuse_removal_begin(&s->inuse, &seen, err));
	return give(&seen, out, err);
}

cb_code store_uses_read(store *s, buf *out, cb_error *err)
{
	STORE_ENTER(s, err);
	AUTO_BUF buf seen = BUF_INIT(SIZE_MAX / 2);
	CB_TRY(inuse_read(&s->inuse, &seen, err));
	return give(&seen, out, err);
}

/* ---- pins ---- */

static cb_code found_step(void *context, const store_step *step, cb_error *err)
{
	(void)step;
	(void)err;
	*(bool *)context = true;
	return CB_OK;
}

static cb_code pin_put(store *s, const char *owner, const store_pin *pin, cb_error *err)
{
	bool found = false;
	engine *e = s->engine;
	CB_TRY(e->ops->step_walk(e, pin->box, pin->seq, pin->seq, false, found_step, &found, err));
	if (!found) return cb_err_set(err, CB_STALE, "step %llu is not there any more", (unsigned long long)pin->seq);
	store_pin row = *pin;
	row.owner = owner;
	return e->ops->pin_put(e, &row, err);
}

cb_code store_pins_set(store *s, const char *owner, const store_pin *pins, size_t count, cb_error *err)
{
	CB_TRY(store_need_write(s, err));
	CB_TRY(store_wrote(s, s->engine->ops->pin_delete(s->engine, owner, err)));
	for (size_t i = 0; i < count; i++) CB_TRY(store_wrote(s, pin_put(s, owner, &pins[i], err)));
	return CB_OK;
}

typedef struct pin_listing {
	int64_t now_ns;
	store_pin_visit visit;
	void *context;
} pin_listing;

static cb_code list_visit(void *context, const store_pin *pin, cb_error *err)
{
	const pin_listing *l = context;
	if (pin->until_ns && pin->until_ns <= l->now_ns) return CB_OK;
	return l->visit(l->context, pin, err);
}

cb_code store_pins_list(store *s, uint64_t box, store_pin_visit visit, void *context, cb_error *err)
{
	STORE_ENTER(s, err);
	pin_listing l = {clock_now(s->clock), visit, context};
	return s->engine->ops->pin_list(s->engine, box, list_visit, &l, err);
}

cb_code store_pins_expire(store *s, cb_error *err)
{
	CB_TRY(store_need_write(s, err));
	return store_wrote(s, s->engine->ops->pin_expire(s->engine, clock_now(s->clock), err));
}
