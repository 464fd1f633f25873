/*
 * work.c: one command after the other on a slot.
 *
 * What the stamp says is always true of the folder, whenever a process dies:
 *
 *   before the tree is changed by BUILD, SEAL or WIPE, the stamp loses "at"; it gets one again when the answer has come;
 *   before a command can run, the stamp says what it began from ("base") and its name ("run");
 *   the step is committed with the run's name in it, then the stamp is put to the new state, then the holder is told to KEEP:
 *   a look that the stamp does not know of must never make changes pass as known.
 *
 * A stamp with "base" whose slot nobody holds is a crash's: recover.c.
 */
#include "base/entry.h"
#include "base/sized.h"
#include "work/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/statvfs.h>

void (*work_stage_hook)(const char *stage);
work_bounds work_bound = {LIMIT_WORK_PLAIN, LIMIT_WORK_UPPER, LIMIT_WORK_LAYERS};

/* ---- the holder ---- */

cb_code work_hold(work *w, cb_error *err)
{
	link_options options = {
		.lock = w->slot.lock, .area = w->dirs.area, .weak = w->options.tier == CB_TIER_WEAK, .uid = w->dirs.uid};
	CB_TRY(link_open(&options, &w->link, err));
	if (w->slot.lock >= 0) (void)close(w->slot.lock);
	w->slot.lock = -1;
	return CB_OK;
}

/* The slot, and the holder for it. Not while somebody removes slots: a folder whose stamp is gone would be taken for nobody's. */
static cb_code take_slot(work *w, cb_error *err)
{
	box_place at;
	AUTO_FD int lock = -1;
	CB_TRY(box_place_of(w->b, &at, err));
	CB_TRY(layers_lock(&w->dirs, false, &lock, err));
	if (!w->memory) CB_TRY(slot_take(&w->dirs, at.box, at.state, &w->slot, err));
	else (void)snprintf(w->slot.name, sizeof(w->slot.name), "%" PRIu64 ".0", at.box);
	if (lock >= 0) (void)close(TAKE_FD(lock));
	cb_code code = work_hold(w, err);
	if (code != CB_OK) slot_file_done(&w->slot);
	return code;
}

/* Ends the holder and gives the slot back as its stamp says it is. */
static void give_slot(work *w)
{
	link_close(w->link);
	w->link = NULL;
	w->mounted = w->entered = w->ready_pending = w->built_pending = false;
	w->scan = (capture_scan){0};
	slot_file_done(&w->slot);
	memset(&w->slot.stamp, 0, sizeof(w->slot.stamp));
}

cb_code pin_stamp(cb_store *cs, const char *owner, const stamp *s, cb_error *err)
{
	box_pin pins[] = {{s->base.box, s->base.seq, "what a command began from"},
	                  {s->under.box, s->under.seq, "what a command's layers hold"}};
	return box_pins_set(cs, owner, pins, s->stack && s->under.box ? 2 : 1, err);
}

/* What a command began from, and what its layers hold, must be there when it is captured, by whomever and whenever: rows of the catalog,
 * not places of this process. They come before the stamp that says it runs, and go after the one that says it does not. */
static cb_code pin(work *w, cb_error *err)
{
	char owner[WORK_OWNER_BYTES];
	stamp s = w->slot.stamp;
	if (w->memory) return CB_OK;
	s.base = look_place(w->base);
	slot_owner(w->slot.box, w->slot.number, owner);
	w->pinned = true;
	return pin_stamp(w->cs, owner, &s, err);
}

static void unpin(work *w)
{
	char owner[WORK_OWNER_BYTES];
	CANCEL_SHIELD;
	if (!w->pinned) return;
	slot_owner(w->slot.box, w->slot.number, owner);
	/* One that stays is replaced by the slot's next command, or dropped by work_clean. */
	w->pinned = box_pins_set(w->cs, owner, NULL, 0, NULL) != CB_OK;
}

/* The holder is gone or useless, and the command did not run: nobody must take the slot for one to be recovered. */
static void give_slot_unused(work *w)
{
	unpin(w);
	uint64_t box = w->slot.box;
	unsigned number = w->slot.number;
	bool got = false;
	give_slot(w);
	slot_file again = SLOT_FILE_NONE;
	if (w->memory || slot_try(&w->dirs, box, number, false, &again, &got, NULL) != CB_OK || !got) return;
	again.stamp.at.box = again.stamp.base.box = 0;
	(void)stamp_write(again.fd, &again.stamp, NULL);
	slot_file_done(&again);
}

static cb_code stamp_save(work *w, cb_error *err)
{
	(void)snprintf(w->slot.stamp.boot, sizeof(w->slot.stamp.boot), "%s", stamp_boot());
	return w->memory ? CB_OK : stamp_write(w->slot.fd, &w->slot.stamp, err);
}

/* ---- opening and closing ---- */

static cb_code work_fill(work *w, const char *box_name, cb_error *err)
{
	CB_TRY(cb_box_open(w->cs, box_name, &w->b, err));
	if (box_about(w->b).is_old)
		return cb_err_set(err, CB_READONLY, "'%s' is an old state: fork it to run programs in it", box_name);
	if (w->options.who) CB_TRY(cb_box_who_set(w->b, w->options.who, err));
	CB_TRY(dirs_open(w->cs, &w->dirs, err));
	w->memory = w->dirs.top < 0;
	/* What cannot be captured now waits in its slot, which is left alone; the box can be used. */
	if (!w->memory) (void)work_recover(w->cs, box_about(w->b).id, NULL, NULL);
	return take_slot(w, err);
}

cb_code work_open(cb_store *cs, const char *box_name, const work_options *options, work **out, cb_error *err)
{
	work *w = mem_alloc(sizeof(*w));
	if (!w) return cb_err_nomem(err);
	*w = (work){.era = entry_era(), .cs = cs, .options = *options, .dirs = WORK_DIRS_NONE, .slot = SLOT_FILE_NONE};
	w->tier = options->tier == CB_TIER_AUTO ? CB_TIER_OVERLAY : options->tier;
	cb_code code = work_fill(w, box_name, err);
	w->options.who = NULL; /* lent for this call */
	if (code == CB_OK) *out = w;
	else work_close(w);
	return code;
}

static void command_forget(work *w)
{
	w->running = false;
	/* Nothing is kept for a sandbox that waits. */
	look_close(TAKE_PTR(w->base));
	look_close(TAKE_PTR(w->layer));
	free(TAKE_PTR(w->kind));
	free(TAKE_PTR(w->params));
}

void work_close(work *w)
{
	if (!w) return;
	if (w->era != entry_era()) w->dirs.temporary[0] = 0; /* the parent's holder is mounted there */
	give_slot(w);
	command_forget(w);
	dirs_done(&w->dirs);
	cb_box_close(w->b);
	free(w);
}

cb_tier work_tier(const work *w)
{
	return w->tier;
}

uid_t work_uid(const work *w)
{
	return w->dirs.uid ? w->dirs.uid : geteuid();
}

link_t *work_link(work *w)
{
	return w->link;
}

bool work_is_entered(const work *w)
{
	return w->entered;
}

void work_set_entered(work *w)
{
	w->entered = true;
}

/* ---- making the tree ready ---- */

cb_code work_send_mount(work *w, bool wipe, cb_error *err)
{
	const stamp *s = &w->slot.stamp;
	AUTO_BUF buf names = BUF_INIT(LIMIT_WORK_LAYERS * STAMP_ID_BYTES);
	AUTO_BUF buf body = BUF_INIT(WIRE_PACKET_BYTES);
	for (size_t i = 0; s->stack && i < s->layer_count; i++)
		CB_TRY(buf_append(&names, s->layers[i], strlen(s->layers[i]) + 1, err));
	wire_work m = {.mode = s->stack ? WIRE_STACK : WIRE_PLAIN,
	               .name = w->slot.name,
	               .layers = {(const char *)names.bytes, names.size, s->stack ? s->layer_count : 0},
	               .wipe = wipe,
	               .memory = w->memory};
	if (w->memory) m.memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2;
	CB_TRY(wire_work_put(&body, &m, err));
	w->entered = false;
	CB_TRY(link_send(w->link, WIRE_WORK, buf_span(&body), NULL, 0, err));
	w->mounted = w->ready_pending = true;
	return CB_OK;
}

static cb_code await_ready(work *w, cb_error *err)
{
	if (w->ready_pending) CB_TRY(link_expect(w->link, WIRE_READY, NULL, err));
	w->ready_pending = false;
	if (w->built_pending) CB_TRY(link_expect(w->link, WIRE_BUILT, NULL, err));
	w->built_pending = false;
	return CB_OK;
}

static cb_code send_build(work *w, look *from, cb_error *err)
{
	uint64_t ops = 0;
	work_stage("build");
	CB_TRY(bring(w->link, from, w->base, &ops, err));
	CB_TRY(link_send(w->link, WIRE_BUILD_END, (span){0}, NULL, 0, err));
	w->built_pending = true;
	return CB_OK;
}

static cb_code send_names(work *w, wire_type type, const char *name, cb_error *err)
{
	AUTO_BUF buf body = BUF_INIT(WIRE_PACKET_BYTES);
	wire_strings names = {name, name ? strlen(name) + 1 : 0, name ? 1 : 0};
	if (name) CB_TRY(wire_names_put(&body, &names, err));
	CB_TRY(link_send(w->link, type, buf_span(&body), NULL, 0, err));
	CB_TRY(link_expect(w->link, WIRE_DONE, NULL, err));
	w->mounted = w->entered = false;
	return CB_OK;
}

/* The slot's tree or upper, which holds that state, becomes a layer, and the slot an empty upper on it. Only here, between the folder and
 * the stamps that name it, is it a layer that nobody would miss: what is built before is the slot's, which is locked. */
static cb_code seal(work *w, const box_place *at, uint64_t entries, cb_error *err)
{
	stamp *s = &w->slot.stamp;
	AUTO_FD int lock = -1;
	stamp layer = {.at = *at, .stack = true, .entries = entries};
	size_t below = s->stack ? s->layer_count : 0;
	if (below >= LIMIT_WORK_LAYERS) return cb_err_set(err, CB_INTERNAL, "a stack of %zu layers cannot grow", below);
	CB_TRY(layer_name(layer.layers[0], err));
	memcpy(layer.layers[1], s->layers, below * sizeof(s->layers[0]));
	layer.layer_count = below + 1;
	(void)snprintf(layer.boot, sizeof(layer.boot), "%s", stamp_boot());
	s->at.box = 0;
	CB_TRY(layers_lock(&w->dirs, false, &lock, err));
	CB_TRY(stamp_save(w, err));
	work_stage("seal");
	CB_TRY(send_names(w, WIRE_SEAL, layer.layers[0], err));
	work_stage("sealed");
	CB_TRY(layer_put(&w->dirs, &layer, err));
	s->stack = true;
	memcpy(s->layers, layer.layers, sizeof(s->layers));
	s->layer_count = layer.layer_count;
	s->at = s->under = *at;
	s->entries = 0;
	s->afresh = false;
	return stamp_save(w, err);
}

/* Everything into a plain tree, which becomes a layer. */
static cb_code build_layer(work *w, uint64_t files, cb_error *err)
{
	stamp *s = &w->slot.stamp;
	s->stack = false;
	s->layer_count = 0;
	s->at.box = s->under.box = 0;
	CB_TRY(stamp_save(w, err));
	if (w->mounted) CB_TRY(send_names(w, WIRE_WIPE, NULL, err));
	CB_TRY(work_send_mount(w, true, err));
	CB_TRY(send_build(w, NULL, err));
	CB_TRY(await_ready(w, err));
	box_place at = look_place(w->base);
	return seal(w, &at, files, err);
}

/* A plain tree that the box outgrew: brought to the state, it is the first layer. */
static cb_code grow_to_stack(work *w, look *from, uint64_t files, cb_error *err)
{
	stamp *s = &w->slot.stamp;
	s->at.box = 0;
	CB_TRY(stamp_save(w, err));
	if (!w->mounted) CB_TRY(work_send_mount(w, false, err));
	if (look_place(from).state != look_place(w->base).state) CB_TRY(send_build(w, from, err));
	CB_TRY(await_ready(w, err));
	box_place at = look_place(w->base);
	return seal(w, &at, files, err);
}

/* The layer from which the fewest steps lead to the state becomes the slot's, if there is one. */
static cb_code choose_layer(work *w, bool *out_found, cb_error *err)
{
	stamp *s = &w->slot.stamp, layer;
	AUTO_FD int lock = -1;
	AUTO_LOOK look *from = NULL;
	box_place to = look_place(w->base);
	CB_TRY(layers_lock(&w->dirs, false, &lock, err));
	CB_TRY(layers_choose(w->cs, &w->dirs, &to, &layer, out_found, err));
	if (*out_found) CB_TRY(look_open_at(w->b, &layer.at, w->base, &from, err));
	*out_found = from != NULL;
	if (!from) return CB_OK;
	s->at.box = 0;
	s->stack = true;
	memcpy(s->layers, layer.layers, sizeof(s->layers));
	s->layer_count = layer.layer_count;
	s->under = layer.at;
	s->entries = 0;
	return stamp_save(w, err); /* names the layers: nobody removes them now */
}

/* A stack for the state, on a layer that is there or on a new one. */
static cb_code make_stack(work *w, uint64_t files, cb_error *err)
{
	bool found = false;
	if (!w->slot.stamp.afresh) CB_TRY(choose_layer(w, &found, err));
	if (!found) return build_layer(w, files, err);
	return w->mounted ? send_names(w, WIRE_WIPE, NULL, err) : CB_OK;
}

/* Overlayfs has to be seen working before anything is sent ahead that relies on it. */
static cb_code try_stack(work *w, bool wipe, cb_error *err)
{
	CB_TRY(work_send_mount(w, wipe, err));
	cb_code code = await_ready(w, err);
	if (code == CB_OK) w->stack_works = true;
	return code;
}

/* Brings the slot to where the command can begin: *from is the state its tree is at (NULL: nothing), to be mounted (*wipe) and
 * brought further by begin_stamped. */
static cb_code prepare(work *w, look **from, bool *wipe, cb_error *err)
{
	stamp *s = &w->slot.stamp;
	uint64_t files = 0;
	look *layer = NULL;
	*wipe = false;
	CB_TRY(look_count(w->base, &files, err));
	bool can_stack = w->tier == CB_TIER_OVERLAY && !w->memory, large = files > work_bound.plain;
	bool trusted = w->mounted || strcmp(s->boot, stamp_boot()) == 0;
	if (trusted && (can_stack || !s->stack)) CB_TRY(look_open_at(w->b, &s->at, w->base, from, err));
	/* Without the layers' state what a command removes could not be told from what it left alone. */
	if (*from && s->stack && !w->mounted && work_layer(w, &layer, NULL) != CB_OK) look_close(TAKE_PTR(*from));
	if (can_stack && large && (!*from || !s->stack)) {
		if (*from) CB_TRY(grow_to_stack(w, *from, files, err));
		else CB_TRY(make_stack(w, files, err));
		*wipe = true;
		look_close(TAKE_PTR(*from));
		CB_TRY(look_open_at(w->b, &s->under, w->base, from, err));
	} else if (!*from) {
		s->at.box = 0;
		if (w->mounted) CB_TRY(send_names(w, WIRE_WIPE, NULL, err));
		s->stack = false;
		s->layer_count = 0;
		s->under.box = 0;
		*wipe = true;
	}
	if (s->stack && !w->mounted && !w->stack_works) {
		s->at.box = *wipe ? 0 : s->at.box;
		CB_TRY(try_stack(w, *wipe, err));
		*wipe = false;
	}
	return CB_OK;
}

/* ---- beginning ---- */

static cb_code run_name(char out[STAMP_RUN_BYTES], cb_error *err)
{
	uint64_t random = 0;
	if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random)) return cb_err_errno(err, errno, "getrandom");
	(void)snprintf(out, STAMP_RUN_BYTES, "%016" PRIx64, random);
	return CB_OK;
}

static cb_code command_set(work *w, const cb_step_info *info, cb_error *err)
{
	command_forget(w);
	w->kind = mem_strdup(info && info->kind ? info->kind : "exec");
	span params = info ? sized_bytes(info->params, info->params_size) : (span){0};
	w->params = mem_alloc(params.size + 1);
	w->started_ns = info && info->started_ns ? info->started_ns : box_store_now(w->cs);
	if (!w->kind || !w->params) return cb_err_nomem(err);
	if (params.size) memcpy(w->params, params.bytes, params.size);
	w->params[params.size] = 0;
	w->params_size = params.size;
	return look_open(w->b, LOOK_NEWEST, &w->base, err);
}

static cb_code stamp_running(work *w, bool building, cb_error *err)
{
	stamp *s = &w->slot.stamp;
	CB_TRY(pin(w, err));
	work_stage("pinned");
	s->base = look_place(w->base);
	s->discard = w->options.discard;
	s->needs_bytes = 0;
	s->building = building;
	if (building) s->at.box = 0;
	else s->at = s->base;
	s->started_ns = w->started_ns;
	CB_TRY(run_name(s->run, err));
	AUTO_FREE char *who = NULL;
	CB_TRY(box_who_take(w->b, &who, err));
	stamp_text_set(s->who, sizeof(s->who), who);
	stamp_text_set(s->kind, sizeof(s->kind), w->kind);
	CB_TRY(run_params(span_make(w->params, w->params_size), s->params, err));
	CB_TRY(stamp_save(w, err));
	work_stage("stamped");
	return CB_OK;
}

static cb_code begin_once(work *w, const cb_step_info *info, cb_error *err)
{
	AUTO_LOOK look *from = NULL;
	bool wipe = false;
	CB_TRY(command_set(w, info, err));
	if (!w->link) CB_TRY(take_slot(w, err));
	CB_TRY(prepare(w, &from, &wipe, err));
	bool building = wipe || !from || look_place(from).state != look_place(w->base).state;
	CB_TRY(stamp_running(w, building, err));
	if (!w->mounted) CB_TRY(work_send_mount(w, wipe, err));
	if (building) CB_TRY(send_build(w, from, err));
	w->running = true;
	return CB_OK;
}

cb_code work_begin(work *w, const cb_step_info *info, cb_error *err)
{
	for (;;) {
		cb_error why;
		cb_code code = begin_once(w, info, cb_err_aside(&why));
		if (code == CB_OK) return CB_OK;
		give_slot_unused(w);
		if (code != CB_UNSUPPORTED || w->tier != CB_TIER_OVERLAY || w->options.tier != CB_TIER_AUTO)
			return cb_err_pass(err, code, &why);
		w->tier = CB_TIER_FOLDER;
	}
}

cb_code work_ready(work *w, cb_error *err)
{
	stamp *s = &w->slot.stamp;
	cb_code code = await_ready(w, err);
	work_stage("ready");
	if (code == CB_OK && s->building) {
		s->building = false;
		s->at = s->base;
		code = stamp_save(w, err);
	}
	if (code == CB_OK) return CB_OK;
	give_slot_unused(w);
	command_forget(w);
	return code;
}

void work_cancel(work *w)
{
	stamp *s = &w->slot.stamp;
	command_forget(w);
	if (!w->link) return;
	s->base.box = 0;
	if (s->building || w->ready_pending || w->built_pending || stamp_save(w, NULL) != CB_OK) give_slot_unused(w);
	else unpin(w);
}

/* ---- ending ---- */

cb_code work_reset(work *w, cb_error *err)
{
	stamp *s = &w->slot.stamp;
	s->at.box = s->base.box = 0;
	s->entries = 0;
	CB_TRY(stamp_save(w, err));
	unpin(w);
	work_stage("wipe");
	CB_TRY(send_names(w, WIRE_WIPE, NULL, err));
	if (!s->stack) return CB_OK;
	s->at = s->under;
	return stamp_save(w, err);
}

/* After the stamp says what the tree is, the holder may know it too. */
static cb_code settle(work *w, const work_result *r, cb_error *err)
{
	stamp *s = &w->slot.stamp;
	bool full = s->stack && s->layer_count >= work_bound.layers, large = s->stack && r->entries_scanned > work_bound.upper;
	s->at = (box_place){box_about(w->b).id, r->commit.seq, r->commit.state};
	s->base.box = 0;
	s->entries = r->entries_scanned;
	if (large && full) {
		CB_TRY(work_reset(w, err));
		s->afresh = true;
		s->stack = false;
		s->layer_count = 0;
		s->at.box = s->under.box = 0;
		return stamp_save(w, err);
	}
	CB_TRY(stamp_save(w, err));
	unpin(w);
	work_stage("keep");
	if (!large) return link_send(w->link, WIRE_KEEP, (span){0}, NULL, 0, err);
	box_place at = s->at;
	return seal(w, &at, r->entries_scanned, err);
}

/* Can the same be tried again later? Then what the command did is left to recovery. */
static bool is_passing(cb_code code)
{
	return code == CB_BUSY || code == CB_IO || code == CB_NOSPACE || code == CB_NOMEM;
}

typedef struct counting {
	cb_change_visit visit;
	void *context;
	uint64_t count;
} counting;

static cb_code count_change(void *context, const cb_change *change, cb_error *err)
{
	counting *c = context;
	c->count++;
	return c->visit ? c->visit(c->context, change, err) : CB_OK;
}

typedef struct ending {
	work_how how;
	const cb_step_info *info;
	capture_options capture;
	counting changes;
} ending;

cb_code work_commit(cb_box *change, const cb_step_info *info, cb_commit_result *out, cb_error *err)
{
	cb_error why;
	cb_code code =
		cb_txn_commit(change, &CB_WITH(cb_commit_options, .step = info, .lost = CB_LOST_FORK), out, cb_err_aside(&why));
	if (code != CB_QUOTA) return cb_err_pass(err, code, &why);
	cb_commit_result kept = CB_INIT(cb_commit_result);
	CB_TRY(cb_txn_keep(change, NULL, &kept, err));
	memcpy(out->fork, kept.fork, sizeof(out->fork));
	return cb_err_set(err, CB_QUOTA, "%s: what the program did is kept as box '%s'", why.message, kept.fork);
}

uint64_t work_free_bytes(const work_dirs *d)
{
	struct statvfs fs;
	if (d->top < 0 || fstatvfs(d->top, &fs) != 0) return 0;
	return (geteuid() == 0 ? fs.f_bfree : fs.f_bavail) * (uint64_t)fs.f_frsize;
}

cb_code work_change_close(work *w, cb_box *change, uint64_t free_bytes, cb_code code)
{
	enum { SLACK_BYTES = 1 << 20 }; /* more than there was, when that looked like enough */
	stamp *s = &w->slot.stamp;
	if (code != CB_NOSPACE) {
		cb_box_close(change);
		return code;
	}
	box_txn_take_back(change);
	bool known = w->link && capture_drain(w->link, &w->scan, NULL) == CB_OK;
	s->needs_bytes = known ? w->scan.end.sent_bytes : 0;
	if (s->needs_bytes < free_bytes + SLACK_BYTES) s->needs_bytes = free_bytes + SLACK_BYTES;
	if (!w->memory) (void)stamp_write(w->slot.fd, s, NULL); /* otherwise the next who comes tries once more */
	return code;
}

static cb_code note_conflict(void *context, const cb_conflict *conflict, cb_error *err)
{
	buf *to = context;
	size_t before = to->size;
	cb_code code = buf_append(to, conflict->path, strlen(conflict->path) + 1, err);
	if (code == CB_OK) code = buf_append(to, conflict->reason, strlen(conflict->reason) + 1, err);
	if (code != CB_OK) to->size = before;
	return code;
}

static cb_code end_commit(work *w, cb_box *change, const ending *e, work_result *out, cb_error *err)
{
	AUTO_FREE char *result = NULL;
	cb_step_info info = e->info ? *e->info : CB_INIT(cb_step_info);
	run_words cut;
	CB_TRY(run_words_fit(&info, &cut, err));
	CB_TRY(run_result(info.result, &(run_said){.run = w->slot.stamp.run, .capture = out}, &result, err));
	info.result = result;
	info.result_size = CB_STRING;
	info.record = true;
	work_stage("commit");
	cb_code code = work_commit(change, &info, &out->commit, err);
	if (code == CB_OK) box_made(w->b, out->commit.seq);
	/* Where there is no memory for the list it ends early: what counts is said in the error. */
	if (code == CB_CONFLICT) (void)cb_txn_conflicts(change, note_conflict, &out->conflicts, NULL);
	return code;
}

static cb_code end_in_txn(work *w, cb_box *change, ending *e, work_result *out, cb_error *err)
{
	work_stage("scan");
	CB_TRY(capture(w->link, change, &e->capture, out, err));
	if (out->sandbox_ended) w->entered = false;
	cb_error why;
	cb_code code = box_txn_changes(change, count_change, &e->changes, cb_err_aside(&why));
	/* What is damaged in the base cannot be compared with what is there now, and is in the transaction all the same. */
	if (code != CB_OK && code != CB_CORRUPT) return cb_err_pass(err, code, &why);
	out->changed = e->changes.count;
	return e->how == WORK_COMMIT ? end_commit(w, change, e, out, err) : CB_OK;
}

/* The captured changes in a transaction over the state the command began from. */
static cb_code end_captured(work *w, ending *e, work_result *out, cb_error *err)
{
	const box_place *base = &w->slot.stamp.base;
	cb_step_info info = CB_WITH(cb_step_info, .kind = w->kind, .params = w->params, .params_size = w->params_size,
	                            .started_ns = w->started_ns);
	cb_box *change = NULL;
	run_words cut;
	uint64_t free_bytes = work_free_bytes(&w->dirs);
	CB_TRY(run_words_fit(&info, &cut, err));
	CB_TRY(box_txn_begin_at(w->b, base->seq, base->state, &info, &change, err));
	cb_code code = end_in_txn(w, change, e, out, err);
	return work_change_close(w, change, free_bytes, code);
}

cb_code work_layer(work *w, look **out, cb_error *err)
{
	const stamp *s = &w->slot.stamp;
	if (!s->stack) return CB_OK;
	if (!w->layer || look_place(w->layer).state != s->under.state) {
		look_close(TAKE_PTR(w->layer));
		CB_TRY(look_open_at(w->b, &s->under, w->base, &w->layer, err));
	}
	*out = w->layer;
	if (w->layer) return CB_OK;
	return cb_err_set(err, CB_STALE, "the state that the command's folders were made of is gone");
}

/* A rule came while the command ran and binds who ran it. What it did is nobody's to drop: it waits in its slot for who may capture all of
 * it. The path that was refused may be hidden by now and is not named. */
static cb_code end_waits(work *w, cb_error *err)
{
	bool memory = w->memory;
	give_slot(w);
	if (memory) return cb_err_set(err, CB_DENIED, "rules changed while the program ran: what it did is dropped");
	return cb_err_set(err, CB_DENIED,
	                  "rules changed while the program ran: what it did is kept for somebody whom they let recover it");
}

static cb_code lost(cb_code code, cb_error *err)
{
	return cb_err_wrap(err, code, "what the program did could not be captured, and is lost");
}

/* It may be done later, by recovery. */
static cb_code end_later(work *w, cb_code code, cb_error *err)
{
	uint64_t needs_bytes = code == CB_NOSPACE ? w->slot.stamp.needs_bytes : 0;
	bool memory = w->memory;
	give_slot(w);
	if (memory) return lost(code, err);
	if (!needs_bytes) return cb_err_wrap(err, code, "what the program did waits to be captured");
	return cb_err_wrap(err, code, "what the program did waits until %" PRIu64 " bytes are free", needs_bytes);
}

cb_code work_end(work *w, work_how how, const cb_step_info *info, work_note note, void *note_context, cb_change_visit changes,
                 void *change_context, work_result *out, cb_error *err)
{
	*out = (work_result){.commit = CB_INIT(cb_commit_result), .conflicts = BUF_INIT(SIZE_MAX)};
	if (!w->link || !w->running) return cb_err_set(err, CB_INVALID, "no command ran");
	ending e = {.how = how, .info = info, .changes = {changes, change_context, 0}};
	look *layer = NULL;
	bool drained = w->scan.open;
	e.capture =
		(capture_options){.area = w->memory ? -1 : w->dirs.area, .note = note, .context = note_context, .scan = &w->scan};
	cb_code code = capture_drain(w->link, &w->scan, err);
	if (drained && w->scan.end.ended) w->entered = false;
	if (code == CB_OK && how != WORK_DROP) code = work_layer(w, &layer, err);
	e.capture.layer = layer;
	if (code == CB_OK && how != WORK_DROP) code = end_captured(w, &e, out, err);
	work_stage("ended");
	if (cancel_is_code(code)) return code;  /* all is as it was when the command ended: it can be done again */
	if (w->era != entry_era()) return code; /* a note was told to a child of fork() too: the command is its parent's */
	command_forget(w);
	if (code == CB_DENIED && how == WORK_COMMIT) return end_waits(w, err);
	if (is_passing(code) && how == WORK_COMMIT) return end_later(w, code, err);
	/* By its number, for a merge with what nobody may know of is not told: only right after its base is the tree the box's newest, and
	 * only when all of it is in the step. */
	bool kept = code == CB_OK && how == WORK_COMMIT && !out->commit.merged && out->noted == 0 &&
	            out->commit.seq == w->slot.stamp.base.seq + 1;
	cb_error second = {0};
	cb_code after = kept ? settle(w, out, &second) : work_reset(w, &second);
	/* The step is made: what comes of the folder is of no consequence to the caller. */
	if (after != CB_OK) give_slot_unused(w);
	return code != CB_OK && how == WORK_COMMIT && !*out->commit.fork ? lost(code, err) : code;
}
