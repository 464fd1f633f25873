/*
 * recover.c: what a crash left: a stamp with a command, and nobody who holds the slot.
 *
 * What the command had written is captured over the state it began from and committed, as a step that says it was interrupted; or,
 * when the folder cannot be trusted, a step says that it is lost. The run's name in the step tells whether that was done before, so
 * a crash in here neither loses it nor does it twice.
 *
 * Whoever comes first recovers, and he need not be who ran it: the step is recorded for whom it ran, and where rules bind who recovers
 * nothing is done. He could not capture what he does not see, and a record of the loss would tell him what ran.
 */
#include "work/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

enum {
	/* The lock is freed by the holder's death, a moment before the last process of a sandbox whose holder was killed is gone. */
	REST_MS = 200,
	/* Between two looks whether the holder of a dead caller is gone. */
	LOOK_MS = 10,
};

/* ---- one slot ---- */

static cb_step_info info_of(const stamp *s)
{
	return CB_WITH(cb_step_info, .kind = *s->kind ? s->kind : "exec", .params = s->params, .params_size = CB_STRING,
	               .started_ns = s->started_ns, .record = true);
}

static cb_code record_lost(work *w, const char *why, cb_error *err)
{
	AUTO_FREE char *result = NULL;
	cb_step_info info = info_of(&w->slot.stamp);
	CB_TRY(run_result(NULL, &(run_said){.run = w->slot.stamp.run, .interrupted = true, .lost = why}, &result, err));
	info.result = result;
	info.result_size = CB_STRING;
	return cb_step_record(w->b, &info, NULL, err);
}

static cb_code commit_captured(work *w, const capture_options *options, cb_error *err)
{
	const stamp *s = &w->slot.stamp;
	AUTO_FREE char *result = NULL;
	work_result r = {.commit = CB_INIT(cb_commit_result)};
	cb_step_info info = info_of(s);
	cb_box *change = NULL;
	uint64_t free_bytes = work_free_bytes(&w->dirs);
	CB_TRY(box_txn_begin_at(w->b, s->base.seq, s->base.state, &info, &change, err));
	cb_code code = capture(w->link, change, options, &r, err);
	if (code == CB_OK) code = run_result(NULL, &(run_said){.run = s->run, .interrupted = true, .capture = &r}, &result, err);
	info.result = result;
	info.result_size = CB_STRING;
	work_stage("recover-commit");
	if (code == CB_OK) code = work_commit(change, &info, &r.commit, err);
	code = work_change_close(w, change, free_bytes, code);
	return (code == CB_CONFLICT || code == CB_QUOTA) && *r.commit.fork ? CB_OK : code;
}

static cb_code capture_left(work *w, cb_error *err)
{
	look *layer = NULL;
	CB_TRY(cancel_sleep(REST_MS, "for the processes of an interrupted command to be gone", err));
	CB_TRY(work_hold(w, err));
	CB_TRY(work_send_mount(w, false, err));
	CB_TRY(link_expect(w->link, WIRE_READY, NULL, err));
	CB_TRY(work_layer(w, &layer, err));
	capture_options options = {.layer = layer, .area = w->dirs.area, .scan = &w->scan};
	return commit_captured(w, &options, err);
}

/* Cannot be done now, but perhaps later: it waits. */
static bool is_passing(cb_code code)
{
	return code == CB_BUSY || code == CB_IO || code == CB_NOSPACE || code == CB_NOMEM || code == CB_UNSUPPORTED ||
	       code == CB_READONLY || code == CB_FORKED || code == CB_DENIED || cancel_is_code(code);
}

static cb_code recover_box(work *w, bool drop, bool *made, cb_error *err)
{
	const stamp *s = &w->slot.stamp;
	bool done = false;
	CB_TRY(box_was_recorded(w->cs, &s->base, s->run, &done, err));
	if (done) return CB_OK;
	CB_TRY(box_refuse_rules(w->b, "capturing what a program left", err));
	if (*s->who) CB_TRY(box_record_for(w->b, s->who, err));
	const char *lost = drop                                 ? "it was dropped, as somebody asked"
	                   : s->building                        ? "the box's files were still being laid out"
	                   : strcmp(s->boot, stamp_boot()) != 0 ? "the machine was started anew"
	                                                        : NULL;
	cb_error why;
	cb_code code = lost ? CB_OK : capture_left(w, cb_err_aside(&why));
	if (is_passing(code)) return cb_err_pass(err, code, &why);
	if (code != CB_OK) lost = why.message;
	if (lost) CB_TRY(record_lost(w, lost, err));
	*made = true;
	return CB_OK;
}

static cb_code open_box(work *w, bool *gone, cb_error *err)
{
	cb_error why;
	cb_code code = box_open_id(w->cs, w->slot.stamp.base.box, &w->b, cb_err_aside(&why));
	*gone = code == CB_NOTFOUND;
	return *gone ? CB_OK : cb_err_pass(err, code, &why);
}

/* Its files go now: room is what is wanted. */
static cb_code wipe(work *w, cb_error *err)
{
	CB_TRY(work_hold(w, err));
	CB_TRY(work_send_mount(w, true, err));
	return link_expect(w->link, WIRE_READY, NULL, err);
}

static cb_code recover_taken(work *w, bool drop, bool *made, cb_error *err)
{
	bool gone = false;
	CB_TRY(open_box(w, &gone, err));
	if (!gone && !w->slot.stamp.discard) CB_TRY(recover_box(w, drop, made, err));
	work_stage("recovered");
	w->slot.stamp.base.box = w->slot.stamp.at.box = 0;
	CB_TRY(stamp_write(w->slot.fd, &w->slot.stamp, err));
	char owner[WORK_OWNER_BYTES];
	slot_owner(w->slot.box, w->slot.number, owner);
	(void)box_pins_set(w->cs, owner, NULL, 0, NULL); /* what stays is dropped by work_clean */
	return drop ? wipe(w, err) : CB_OK;
}

/* ---- all of them ---- */

typedef struct recovering {
	cb_store *cs;
	const work_dirs *d;
	uint64_t box;
	bool drop; /* nothing is captured: it is recorded as lost */
	buf slots; /* left_slot */
} recovering;

typedef struct left_slot {
	uint64_t box;
	unsigned number;
	uint64_t needs_bytes;
} left_slot;

static cb_code left_add(void *context, uint64_t box, unsigned number, cb_error *err)
{
	recovering *r = context;
	stamp s;
	if (r->box && box != r->box) return CB_OK;
	if (slot_peek(r->d, box, number, &s, NULL) != CB_OK || !s.base.box) return CB_OK;
	left_slot row = {box, number, strcmp(s.boot, stamp_boot()) == 0 ? s.needs_bytes : 0};
	return buf_append(&r->slots, &row, sizeof(row), err);
}

/* Whoever uses the box next is promised to see what the command did. So it waits for the holder of a caller that was killed a moment ago,
 * which is about to end and to free the slot, and for others who recover it already; each for so long at most, since one who recovers may
 * be killed too, and then has a holder. A slot whose caller lives is left alone at once (*got false). */
static cb_code take_left(const recovering *r, const left_slot *at, slot_file *out, bool *got, cb_error *err)
{
	slot_use before = SLOT_RUNS;
	for (int64_t since_ns = 0;;) {
		CB_TRY(slot_try(r->d, at->box, at->number, false, out, got, err));
		if (*got) slot_mark(out, SLOT_RECOVERS);
		slot_use use = *got ? SLOT_RUNS : slot_use_now(r->d, at->box, at->number);
		if (use == SLOT_RUNS) return CB_OK;
		if (use != before) since_ns = clock_monotonic_ns();
		before = use;
		bool recovers = use == SLOT_RECOVERS;
		int64_t limit_ms = recovers ? LIMIT_RECOVER_WAIT_MS : LIMIT_HOLDER_END_MS;
		if (clock_monotonic_ns() - since_ns > limit_ms * 1000000)
			return cb_err_set(err, CB_BUSY, "%s: try again later",
			                  recovers ? "another process is still capturing it"
			                           : "the helper of an interrupted command has not ended yet");
		CB_TRY(cancel_sleep(LOOK_MS,
		                    recovers ? "for another process to capture what a command left"
		                             : "for the helper of an interrupted command to end",
		                    err));
	}
}

static cb_code recover_one(const recovering *r, const left_slot *at, uint64_t *steps, cb_error *err)
{
	bool got = false, made = false;
	/* Whoever only reads is not to copy until the disk is full, time and again. What a deleted box left is not captured, and goes. */
	uint64_t free_bytes = at->needs_bytes && !r->drop ? work_free_bytes(r->d) : UINT64_MAX;
	if (free_bytes < at->needs_bytes && !work_box_is_gone(r->cs, at->box))
		return cb_err_set(err, CB_NOSPACE, "it waits until %llu bytes are free on the store's disk, and %llu are",
		                  (unsigned long long)at->needs_bytes, (unsigned long long)free_bytes);
	work w = {.cs = r->cs, .dirs = *r->d, .slot = SLOT_FILE_NONE, .tier = CB_TIER_OVERLAY};
	CB_TRY(take_left(r, at, &w.slot, &got, err));
	cb_code code = got && w.slot.stamp.base.box ? recover_taken(&w, r->drop, &made, err) : CB_OK;
	*steps += made;
	link_close(w.link);
	slot_file_done(&w.slot);
	look_close(w.layer);
	cb_box_close(w.b);
	return code;
}

/* Why it waits, and in which box. */
static cb_code not_captured(const recovering *r, uint64_t box, cb_code code, cb_error *err)
{
	cb_box *b = NULL;
	char name[CB_NAME_MAX + 1] = "";
	if (box_open_id(r->cs, box, &b, NULL) == CB_OK) (void)box_name_get(b, name, NULL);
	cb_box_close(b);
	if (!name[0]) return cb_err_wrap(err, code, "what an interrupted command left could not be captured yet");
	return cb_err_wrap(err, code, "what an interrupted command left in box '%s' could not be captured yet", name);
}

static cb_code recover_in(const recovering *r, uint64_t *steps, cb_error *err)
{
	cb_code first = CB_OK;
	uint64_t box = 0;
	const left_slot *all = (const left_slot *)(const void *)r->slots.bytes;
	for (size_t i = 0; i < r->slots.size / sizeof(*all); i++) {
		cb_error why = {0};
		cb_code code = recover_one(r, &all[i], steps, &why);
		if (code == CB_OK || first != CB_OK) continue;
		first = code;
		box = all[i].box;
		if (err) *err = why;
	}
	return first == CB_OK ? CB_OK : not_captured(r, box, first, err);
}

static cb_code left_pin(void *context, uint64_t box, unsigned number, cb_error *err)
{
	const recovering *r = context;
	char owner[WORK_OWNER_BYTES];
	stamp s;
	cb_error why;
	if (slot_peek(r->d, box, number, &s, NULL) != CB_OK || !s.base.box) return CB_OK;
	slot_owner(box, number, owner);
	cb_code code = pin_stamp(r->cs, owner, &s, cb_err_aside(&why));
	return code == CB_STALE ? CB_OK : cb_err_pass(err, code, &why); /* gone before: recovery says so */
}

/* Earlier versions did not pin what commands began from. */
static cb_code pin_earlier(recovering *r, cb_error *err)
{
	bool earlier = false;
	CB_TRY(box_pins_earlier(r->cs, &earlier, err));
	if (!earlier) return CB_OK;
	if (r->d->slots >= 0) CB_TRY(slots_each(r->d, left_pin, r, err));
	return box_pins_set(r->cs, BOX_EARLIER_OWNER, NULL, 0, err);
}

/* Whoever opens a box asks, and there is hardly ever something: so only the stamps are looked at. Whose folder that is, is checked before
 * anything is done. */
static cb_code look_for_left(recovering *r, cb_error *err)
{
	int folder = box_store_folder(r->cs);
	if (folder < 0 || box_store_writable(r->cs, NULL) != CB_OK) return CB_OK;
	AUTO_FD int top = openat(folder, "work", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	AUTO_FD int slots = top < 0 ? -1 : openat(top, "slots", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (slots < 0 && errno != ENOENT) return CB_OK;
	work_dirs only = WORK_DIRS_NONE;
	only.slots = slots;
	r->d = &only;
	if (slots >= 0) CB_TRY(slots_each(&only, left_add, r, err));
	cb_error why;
	cb_code code = pin_earlier(r, cb_err_aside(&why));
	/* Where nothing was left there is nothing that could not be captured; the next who asks tries again. */
	return r->slots.size ? cb_err_pass(err, code, &why) : CB_OK;
}

static cb_code recover(cb_store *cs, uint64_t box, bool drop, uint64_t *out_steps, cb_error *err)
{
	work_dirs d = WORK_DIRS_NONE;
	bool found = false;
	uint64_t steps = 0;
	recovering r = {.cs = cs, .box = box, .drop = drop, .slots = BUF_INIT(SIZE_MAX)};
	cb_code code = look_for_left(&r, err);
	r.d = &d;
	if (code == CB_OK && r.slots.size) code = dirs_find(cs, &d, &found, err);
	if (code == CB_OK && found) code = recover_in(&r, &steps, err);
	buf_done(&r.slots);
	dirs_done(&d);
	if (code == CB_OK && out_steps) *out_steps = steps;
	return code;
}

cb_code work_recover(cb_store *cs, uint64_t box, uint64_t *out_steps, cb_error *err)
{
	return recover(cs, box, false, out_steps, err);
}

cb_code work_drop(cb_store *cs, uint64_t box, uint64_t *out_steps, cb_error *err)
{
	return recover(cs, box, true, out_steps, err);
}
