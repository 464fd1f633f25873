/* crashes.c: see crashes.h. Map: bytes that prove themselves; slots; events; single actions; actors; checking. */
#include "harness/crashes.h"

#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/hash.h"
#include "box/internal.h"
#include "store/fault.h"

enum {
	ROOM_BYTES = 192 << 10,
	MIN_BYTES = 24, /* tag, size, sum */
};

typedef unsigned long long ull;

/* ---- bytes that prove themselves ---- */

static void bytes_fill(uint8_t *out, size_t size, uint64_t tag)
{
	test_rng r = {hash_u64(tag + size) | 1};
	uint64_t word = 0, length = size;
	for (size_t i = 0; i < size; i++) {
		if (i % 8 == 0) word = test_rand(&r);
		out[i] = (uint8_t)(word >> (i % 8 * 8));
	}
	memcpy(out, &tag, 8);
	memcpy(out + 8, &length, 8);
	out[16] = 0; /* binary, so that a merge never mixes two by lines */
	uint64_t sum = hash64(out, size - 8);
	memcpy(out + size - 8, &sum, 8);
}

static bool bytes_sound(const char *bytes, size_t size, uint64_t *out_tag)
{
	uint64_t length, sum;
	if (size < MIN_BYTES) return false;
	memcpy(out_tag, bytes, 8);
	memcpy(&length, bytes + 8, 8);
	memcpy(&sum, bytes + size - 8, 8);
	return length == size && sum == hash64(bytes, size - 8);
}

/* ---- slots ---- */

static const char *const slot_paths[CRASH_SLOTS] = {
	"/work/a0", "/work/b0", "/work/a1", "/work/b1", "/work/deep/er/a2", "/work/other/b2", "/work/file", "/work/handle", "key",
};

const char *crash_slot_path(unsigned slot)
{
	return slot_paths[slot];
}

/* Inline in the map, in the table, in a segment: every way a content is kept. */
static size_t slot_size(crash_actor *a, unsigned slot)
{
	static const struct {
		size_t min, max;
	} sizes[CRASH_SLOTS] = {
		{24, 100},    {24, 100},   {2000, 9000},         {24, 60},  {36 << 10, 120 << 10},
		{3000, 5000}, {24, 20000}, {33 << 10, 60 << 10}, {24, 400},
	};
	return sizes[slot].min + (size_t)test_rand_below(&a->rng, sizes[slot].max - sizes[slot].min);
}

/* New bytes for a slot in a->room. */
static size_t slot_fill(crash_actor *a, unsigned slot, uint64_t tag, uint64_t *out_sum)
{
	size_t size = slot_size(a, slot);
	bytes_fill(a->room, size, tag);
	*out_sum = hash64(a->room, size);
	return size;
}

static cb_code slot_read(cb_box *b, unsigned slot, uint64_t *out_sum, uint64_t *out_tag, cb_error *err)
{
	char *bytes = NULL;
	size_t size = 0;
	cb_error why;
	cb_code code = slot == CRASH_KEY ? cb_kv_get(b, slot_paths[slot], &bytes, &size, cb_err_aside(&why))
	                                 : cb_read_file(b, slot_paths[slot], &bytes, &size, cb_err_aside(&why));
	*out_sum = *out_tag = 0;
	if (code == CB_NOTFOUND) return CB_OK;
	if (code != CB_OK) return cb_err_wrap(err, cb_err_pass(err, code, &why), "reading %s", slot_paths[slot]);
	bool sound = bytes_sound(bytes, size, out_tag);
	*out_sum = hash64(bytes, size);
	cb_free(bytes);
	return sound ? CB_OK : cb_err_set(err, CB_INTERNAL, "wrong bytes in %s (%zu)", slot_paths[slot], size);
}

cb_code crash_model_read(cb_box *b, uint32_t mask, crash_model *out, cb_error *err)
{
	uint64_t tags[CRASH_SLOTS] = {0};
	*out = (crash_model){0};
	for (unsigned i = 0; i < CRASH_SLOTS; i++)
		if (mask >> i & 1) CB_TRY(slot_read(b, i, &out->sum[i], &tags[i], err));
	for (unsigned i = 0; i < CRASH_PAIRS; i++) {
		if ((mask >> (2 * i) & 3) != 3 || tags[2 * i] == tags[2 * i + 1]) continue;
		return cb_err_set(err, CB_INTERNAL, "half a transaction: %s of %llu, %s of %llu", slot_paths[2 * i],
		                  (ull)tags[2 * i], slot_paths[2 * i + 1], (ull)tags[2 * i + 1]);
	}
	return CB_OK;
}

/* ---- events ---- */

static crash_event event_make(crash_kind kind, const char *box, uint64_t seq)
{
	crash_event e = {.kind = kind, .seq = seq, .mask = CRASH_ALL};
	(void)snprintf(e.box, sizeof(e.box), "%s", box);
	return e;
}

/* The newest state of a box that only this actor writes. */
static cb_code event_of_head(cb_box *b, const char *name, const crash_model *model, crash_event *out, cb_error *err)
{
	cb_box_info info = CB_INIT(cb_box_info);
	CB_TRY(cb_box_info_get(b, &info, err));
	*out = event_make(CRASH_STEP, name, info.seq);
	out->state = info.state;
	out->model = *model;
	return CB_OK;
}

static cb_code acknowledge(crash_actor *a, const crash_model *now, crash_event *out, cb_error *err)
{
	a->now = *now;
	return event_of_head(a->b, a->box, now, out, err);
}

static void intend(crash_actor *a, crash_kind kind, const char *box, uint64_t seq)
{
	crash_event e = event_make(kind, box, seq);
	if (a->intend) a->intend(a->context, &e);
}

/* An answer, not a failure: nothing came of it. */
static cb_code nothing(crash_event *out)
{
	*out = (crash_event){0};
	return CB_OK;
}

/* ---- single actions ---- */

static cb_code pair_fill(crash_actor *a, cb_box *b, unsigned pair, crash_model *model, cb_error *err)
{
	cb_write_options o = CB_WITH(cb_write_options, .parents = true);
	uint64_t tag = a->next_tag++;
	for (unsigned slot = 2 * pair; slot < 2 * pair + 2; slot++) {
		size_t size = slot_fill(a, slot, tag, &model->sum[slot]);
		CB_TRY(cb_write_file(b, slot_paths[slot], a->room, size, &o, err));
	}
	return CB_OK;
}

static cb_code commit_or_drop(cb_box *t, cb_code code, cb_commit_result *result, cb_error *err)
{
	if (code == CB_OK) code = cb_txn_commit(t, NULL, result, err);
	cb_box_close(t); /* a commit that failed could be tried again; here it is not */
	return code;
}

cb_code crash_write_pair(crash_actor *a, unsigned pair, crash_event *out, cb_error *err)
{
	crash_model next = a->now;
	cb_box *t = NULL;
	CB_TRY(cb_txn_begin(a->b, NULL, &t, err));
	CB_TRY(commit_or_drop(t, pair_fill(a, t, pair, &next, err), NULL, err));
	return acknowledge(a, &next, out, err);
}

cb_code crash_write_file(crash_actor *a, crash_event *out, cb_error *err)
{
	crash_model next = a->now;
	size_t size = slot_fill(a, CRASH_FILE, a->next_tag++, &next.sum[CRASH_FILE]);
	CB_TRY(cb_write_file(a->b, slot_paths[CRASH_FILE], a->room, size, NULL, err));
	return acknowledge(a, &next, out, err);
}

cb_code crash_write_handle(crash_actor *a, bool sync, crash_event *out, cb_error *err)
{
	crash_model next = a->now;
	cb_file *f = NULL;
	size_t size = slot_fill(a, CRASH_HANDLE, a->next_tag++, &next.sum[CRASH_HANDLE]);
	size_t half = size / 2;
	CB_TRY(cb_open(a->b, slot_paths[CRASH_HANDLE], CB_WRITE | CB_CREATE | CB_TRUNCATE, 0600, &f, err));
	cb_code code = cb_pwrite(f, a->room + half, size - half, half, err);
	if (code == CB_OK) code = cb_pwrite(f, a->room, half, 0, err);
	if (code == CB_OK && sync) code = cb_fsync(f, err);
	cb_code closed = cb_close(f, code == CB_OK ? err : NULL);
	if (code == CB_OK) code = closed;
	if (code != CB_OK) (void)cb_txn_drop(a->b, NULL); /* it would wait to be tried again */
	if (code != CB_OK) return code;
	CB_TRY(acknowledge(a, &next, out, err));
	out->synced = sync;
	return CB_OK;
}

cb_code crash_write_key(crash_actor *a, crash_event *out, cb_error *err)
{
	crash_model next = a->now;
	size_t size = slot_fill(a, CRASH_KEY, a->next_tag++, &next.sum[CRASH_KEY]);
	CB_TRY(cb_kv_set(a->b, slot_paths[CRASH_KEY], a->room, size, err));
	return acknowledge(a, &next, out, err);
}

cb_code crash_remove_pair(crash_actor *a, crash_event *out, cb_error *err)
{
	unsigned pair = (unsigned)test_rand_below(&a->rng, CRASH_PAIRS);
	crash_model next = a->now;
	if (!next.sum[2 * pair]) return nothing(out);
	cb_box *t = NULL;
	CB_TRY(cb_txn_begin(a->b, NULL, &t, err));
	cb_code code = cb_unlink(t, slot_paths[2 * pair], err);
	if (code == CB_OK) code = cb_unlink(t, slot_paths[2 * pair + 1], err);
	CB_TRY(commit_or_drop(t, code, NULL, err));
	next.sum[2 * pair] = next.sum[2 * pair + 1] = 0;
	return acknowledge(a, &next, out, err);
}

cb_code crash_exchange(crash_actor *a, crash_event *out, cb_error *err)
{
	crash_model next = a->now;
	if (!next.sum[0]) return nothing(out);
	CB_TRY(cb_rename(a->b, slot_paths[0], slot_paths[1], CB_EXCHANGE, err));
	next.sum[0] = a->now.sum[1];
	next.sum[1] = a->now.sum[0];
	return acknowledge(a, &next, out, err);
}

cb_code crash_checkpoint(crash_actor *a, crash_event *out, cb_error *err)
{
	char name[CRASH_NAME];
	(void)snprintf(name, sizeof(name), "c%llu", (ull)a->next_tag++);
	CB_TRY(cb_checkpoint_save(a->b, name, 0, false, err));
	CB_TRY(acknowledge(a, &a->now, out, err));
	out->kind = CRASH_CHECKPOINT;
	out->synced = true;
	memcpy(out->name, name, sizeof(name));
	return CB_OK;
}

static cb_code learn_and_acknowledge(crash_actor *a, crash_event *out, cb_error *err)
{
	crash_model next;
	CB_TRY(crash_model_read(a->b, CRASH_ALL, &next, err));
	return acknowledge(a, &next, out, err);
}

cb_code crash_undo(crash_actor *a, crash_event *out, cb_error *err)
{
	bool again = test_rand_below(&a->rng, 3) == 0;
	cb_code code = again ? cb_redo(a->b, NULL, err) : cb_undo(a->b, 0, NULL, err);
	if (code == CB_NOTHING || code == CB_STALE || code == CB_CONFLICT) return nothing(out);
	if (code != CB_OK) return code;
	return learn_and_acknowledge(a, out, err);
}

cb_code crash_restore(crash_actor *a, crash_event *out, cb_error *err)
{
	char address[2 * CRASH_NAME];
	cb_box *source = NULL;
	(void)snprintf(address, sizeof(address), "%s@-%u", a->box, 1 + (unsigned)test_rand_below(&a->rng, 6));
	cb_code code = cb_box_open(a->s, address, &source, err);
	if (code == CB_NOTFOUND || code == CB_STALE) return nothing(out);
	if (code != CB_OK) return code;
	code = cb_restore(a->b, source, NULL, NULL, err);
	cb_box_close(source);
	if (code == CB_NOTHING) return nothing(out);
	if (code != CB_OK) return code;
	return learn_and_acknowledge(a, out, err);
}

cb_code crash_fork(crash_actor *a, crash_event *out, cb_error *err)
{
	char name[CRASH_NAME];
	if (a->fork[0]) return nothing(out);
	(void)snprintf(name, sizeof(name), "%.8s-f%llu", a->box, (ull)a->next_tag++);
	cb_box *b = NULL;
	CB_TRY(cb_box_fork(a->s, a->box, name, NULL, err));
	memcpy(a->fork, name, sizeof(name));
	a->fork_now = a->now;
	CB_TRY(cb_box_open(a->s, name, &b, err));
	cb_code code = event_of_head(b, name, &a->now, out, err);
	cb_box_close(b);
	return code;
}

cb_code crash_fork_write(crash_actor *a, crash_event *out, cb_error *err)
{
	if (!a->fork[0]) return nothing(out);
	crash_model next = a->fork_now;
	cb_box *b = NULL;
	CB_TRY(cb_box_open(a->s, a->fork, &b, err));
	cb_box *t = NULL;
	cb_code code = cb_txn_begin(b, NULL, &t, err);
	if (code == CB_OK)
		code = commit_or_drop(t, pair_fill(a, t, (unsigned)test_rand_below(&a->rng, CRASH_PAIRS), &next, err), NULL, err);
	if (code == CB_OK) a->fork_now = next;
	if (code == CB_OK) code = event_of_head(b, a->fork, &next, out, err);
	cb_box_close(b);
	return code;
}

cb_code crash_merge(crash_actor *a, crash_event *out, cb_error *err)
{
	if (!a->fork[0]) return nothing(out);
	cb_merge_options o = CB_WITH(cb_merge_options, .prefer = test_rand_below(&a->rng, 2) ? CB_PREFER_THEIRS : CB_PREFER_OURS);
	cb_box *from = NULL;
	CB_TRY(cb_box_open(a->s, a->fork, &from, err));
	cb_code code = cb_merge(a->b, from, &o, NULL, NULL, err);
	cb_box_close(from);
	if (code == CB_NOTHING) return nothing(out);
	if (code != CB_OK) return code;
	return learn_and_acknowledge(a, out, err);
}

cb_code crash_fork_delete(crash_actor *a, crash_event *out, cb_error *err)
{
	if (!a->fork[0]) return nothing(out);
	intend(a, CRASH_DELETE, a->fork, 0);
	CB_TRY(cb_box_delete(a->s, a->fork, err));
	a->fork[0] = 0;
	*out = event_make(CRASH_UPKEEP, a->box, 0);
	return CB_OK;
}

cb_code crash_prune(crash_actor *a, uint64_t keep, crash_event *out, cb_error *err)
{
	cb_box_info info = CB_INIT(cb_box_info);
	CB_TRY(cb_box_info_get(a->b, &info, err));
	intend(a, CRASH_PRUNE, a->box, info.seq > keep ? info.seq - keep + 1 : 0);
	cb_code code = cb_prune(a->b, &CB_WITH(cb_prune_options, .keep_steps = keep), NULL, err);
	*out = event_make(CRASH_UPKEEP, a->box, 0);
	return code == CB_BUSY ? nothing(out) : code;
}

cb_code crash_gc(crash_actor *a, crash_event *out, cb_error *err)
{
	cb_code code = cb_store_gc(a->s, NULL, err);
	*out = event_make(CRASH_UPKEEP, a->box, 0);
	return code == CB_BUSY ? nothing(out) : code;
}

cb_code crash_vacuum(crash_actor *a, crash_event *out, cb_error *err)
{
	cb_code code = cb_store_vacuum(a->s, err);
	*out = event_make(CRASH_UPKEEP, a->box, 0);
	return code == CB_BUSY ? nothing(out) : code;
}

/* ---- actors ---- */

static cb_code act_any(crash_actor *a, crash_event *out, cb_error *err)
{
	uint64_t dice = test_rand_below(&a->rng, 100);
	if (dice < 30) return crash_write_pair(a, (unsigned)test_rand_below(&a->rng, CRASH_PAIRS), out, err);
	if (dice < 42) return crash_write_file(a, out, err);
	if (dice < 48) return crash_write_handle(a, dice < 45, out, err);
	if (dice < 54) return crash_write_key(a, out, err);
	if (dice < 57) return crash_remove_pair(a, out, err);
	if (dice < 60) return crash_exchange(a, out, err);
	if (dice < 64) return crash_checkpoint(a, out, err);
	if (dice < 70) return crash_undo(a, out, err);
	if (dice < 73) return crash_restore(a, out, err);
	if (dice < 78) return crash_fork(a, out, err);
	if (dice < 84) return crash_fork_write(a, out, err);
	if (dice < 88) return crash_merge(a, out, err);
	if (dice < 92) return crash_fork_delete(a, out, err);
	if (dice < 95) return crash_prune(a, 3 + test_rand_below(&a->rng, 20), out, err);
	if (dice < 99 || !a->vacuum) return crash_gc(a, out, err);
	return crash_vacuum(a, out, err);
}

/* An answer that makes nothing of an action ("nothing to undo") is no failure. */
cb_code crash_act(crash_actor *a, crash_event *out, cb_error *err)
{
	cb_error why;
	return cb_err_pass(err, act_any(a, out, cb_err_aside(&why)), &why);
}

cb_code crash_act_shared(crash_actor *a, crash_event *out, cb_error *err)
{
	unsigned pair = (unsigned)test_rand_below(&a->rng, CRASH_PAIRS);
	crash_model model = {0};
	cb_commit_result result = CB_INIT(cb_commit_result);
	cb_box *t = NULL;
	CB_TRY(cb_txn_begin(a->b, NULL, &t, err));
	cb_code code = commit_or_drop(t, pair_fill(a, t, pair, &model, err), &result, err);
	if (code == CB_CONFLICT) return nothing(out); /* another actor was faster */
	if (code != CB_OK) return code;
	*out = event_make(CRASH_STEP, a->box, result.seq);
	out->state = result.state;
	out->mask = 3u << (2 * pair);
	out->model = model;
	return CB_OK;
}

cb_code crash_store_open(const char *path, store_fault_plan *faults, bool full, cb_store **out, cb_error *err)
{
	store_options o = {.path = path, .create = true, .durability = full ? STORE_FULL : STORE_FAST, .faults = faults};
	cb_store *cs = calloc(1, sizeof(*cs));
	if (!cs) return cb_err_nomem(err);
	cb_code code = box_store_open(cs, &o, err);
	if (code == CB_OK) *out = cs;
	else free(cs);
	return code;
}

cb_code crash_actor_init(crash_actor *a, cb_error *err)
{
	a->fork[0] = 0;
	a->b = NULL;
	a->room = malloc(ROOM_BYTES);
	if (!a->room) return cb_err_nomem(err);
	cb_error why;
	cb_code code = cb_box_open(a->s, a->box, &a->b, cb_err_aside(&why));
	if (code == CB_NOTFOUND) code = cb_box_create(a->s, a->box, &a->b, cb_err_aside(&why));
	if (code == CB_EXISTS) code = cb_box_open(a->s, a->box, &a->b, cb_err_aside(&why));
	if (code != CB_OK || a->shared) return cb_err_pass(err, code, &why);
	return crash_model_read(a->b, CRASH_ALL, &a->now, err);
}

void crash_actor_done(crash_actor *a)
{
	cb_box_close(a->b);
	free(a->room);
	a->b = NULL;
	a->room = NULL;
}

/* ---- checking ---- */

static crash_verdict wrong(cb_error *err, const crash_event *e, const char *format, ...) __attribute__((format(printf, 3, 4)));
static crash_verdict wrong(cb_error *err, const crash_event *e, const char *format, ...)
{
	char text[256];
	va_list args;
	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	(void)cb_err_set(err, CB_INTERNAL, "%s@%llu%s%s: %s", e->box, (ull)e->seq, e->name[0] ? " " : "", e->name, text);
	return CRASH_WRONG;
}

static crash_verdict state_check(cb_box *b, const crash_event *e, cb_error *err)
{
	cb_box_info info = CB_INIT(cb_box_info);
	crash_model found;
	cb_error why = {0};
	cb_code code = cb_box_info_get(b, &info, &why);
	if (code == CB_OK) code = crash_model_read(b, e->mask, &found, &why);
	if (code == CB_INTERNAL) return wrong(err, e, "%s", why.message);
	if (code != CB_OK) {
		*err = why;
		return CRASH_ERROR;
	}
	if (info.state != e->state || info.seq != e->seq)
		return wrong(err, e, "is state %llu at step %llu, was state %llu", (ull)info.state, (ull)info.seq, (ull)e->state);
	for (unsigned i = 0; i < CRASH_SLOTS; i++)
		if ((e->mask >> i & 1) && found.sum[i] != e->model.sum[i])
			return wrong(err, e, "%s has other bytes%s", slot_paths[i], found.sum[i] ? "" : " (none)");
	return CRASH_THERE;
}

crash_verdict crash_event_check(cb_store *s, const crash_event *e, cb_error *err)
{
	char address[3 * CRASH_NAME];
	cb_box *b = NULL;
	if (e->kind == CRASH_CHECKPOINT) (void)snprintf(address, sizeof(address), "%s@%s", e->box, e->name);
	else (void)snprintf(address, sizeof(address), "%s@%llu", e->box, (ull)e->seq);
	cb_code code = cb_box_open(s, address, &b, err);
	if (code == CB_NOTFOUND || code == CB_STALE) return CRASH_GONE;
	if (code != CB_OK) return CRASH_ERROR;
	crash_verdict verdict = state_check(b, e, err);
	cb_box_close(b);
	return verdict;
}

void crash_die(store_fault_plan *plan, void *context)
{
	(void)plan;
	(void)context;
	(void)kill(getpid(), SIGKILL);
}

int crash_open_killed(const char *path, long write)
{
	int status = -1;
	pid_t pid = fork();
	if (pid == 0) {
		static store_fault_plan plan;
		plan = (store_fault_plan){.cut = crash_die};
		atomic_store(&plan.cut_at_write, write);
		cb_store *s = NULL;
		cb_code code = crash_store_open(path, &plan, false, &s, NULL);
		cb_store_close(s);
		_exit(code == CB_OK ? 0 : 1);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid ? status : -1;
}
