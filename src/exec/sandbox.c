/* sandbox.c: what programs of a box may do, as a plan made once, and the works that are ready to run one. */
#include "base/args.h"
#include "base/entry.h"
#include "base/sized.h"
#include "exec/exec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "box/box.h"
#include "host/host.h"

/* ---- from options to a policy ---- */

typedef struct policy_room {
	sandbox_policy policy;
	sandbox_bind *binds;
	char **paths; /* of the binds, real */
	char *root;
} policy_room;

static void policy_done(policy_room *r)
{
	for (size_t i = 0; r->paths && i < r->policy.bind_count; i++) free(r->paths[i]);
	free(r->paths);
	free(r->binds);
	free(r->root);
}

static cb_code add_mount(cb_sandbox *s, const char *from, bool writable, int *out_index, cb_error *err)
{
	if (s->mount_count >= WIRE_FDS) return cb_err_set(err, CB_LIMIT, "more than %d binds", WIRE_FDS);
	s->mounts[s->mount_count] = (exec_mount){mem_strdup(from), writable};
	if (!s->mounts[s->mount_count].from) return cb_err_nomem(err);
	*out_index = (int)s->mount_count++;
	return CB_OK;
}

static cb_code look_at_bind(cb_sandbox *s, const cb_bind *from, sandbox_bind *to, char **out_path, cb_error *err)
{
	struct stat st;
	if (!from->host_path || !*from->host_path) return cb_err_set(err, CB_INVALID, "a bind without a path of the host");
	cb_code code = host_path_real(from->host_path, out_path, err);
	if (code != CB_OK) return cb_err_wrap(err, code, "binding '%s'", from->host_path);
	if (stat(*out_path, &st) != 0) return cb_err_errno(err, errno, "binding '%s'", from->host_path);
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		return cb_err_set(err, CB_INVALID, "'%s' is neither a folder nor a file: it cannot be bound", from->host_path);
	*to = (sandbox_bind){*out_path, from->box_path ? from->box_path : *out_path, from->writable, S_ISREG(st.st_mode), -1};
	/* The holder has a uid of its own then: what the caller may reach it may not. */
	return geteuid() == 0 ? add_mount(s, *out_path, from->writable, &to->fd_index, err) : CB_OK;
}

static cb_code policy_make(cb_sandbox *s, const cb_sandbox_options *o, policy_room *r, cb_error *err)
{
	r->policy = (sandbox_policy){.weak = o->tier == CB_TIER_WEAK,
	                             .net = o->net == CB_NET_HOST ? SANDBOX_NET_HOST : SANDBOX_NET_NONE,
	                             .path = s->path,
	                             .uid = 1000,
	                             .gid = 1000,
	                             .memory_bytes = o->memory_bytes,
	                             .cpus_milli = o->cpus_milli,
	                             .pids = o->pids ? o->pids : EXEC_PIDS,
	                             .disk_bytes = o->disk_bytes,
	                             .files = o->files};
	r->binds = mem_alloc((o->bind_count + 1) * sizeof(*r->binds));
	r->paths = mem_alloc((o->bind_count + 1) * sizeof(*r->paths));
	if (!r->binds || !r->paths) return cb_err_nomem(err);
	for (size_t i = 0; i < o->bind_count; i++) {
		r->paths[i] = NULL;
		r->policy.bind_count = i + 1;
		CB_TRY(look_at_bind(s, &o->binds[i], &r->binds[i], &r->paths[i], err));
	}
	r->policy.binds = r->binds;
	if (o->root) {
		cb_code code = host_path_real(o->root, &r->root, err);
		if (code != CB_OK) return cb_err_wrap(err, code, "the root '%s'", o->root);
		r->policy.root = r->root;
	}
	return CB_OK;
}

static bool is_below(const char *path, const char *folder)
{
	size_t size = strlen(folder);
	return strncmp(path, folder, size) == 0 && (path[size] == '/' || path[size] == 0);
}

/* As root a folder given as the system may be where only root can reach. */
static cb_code reach_root(cb_sandbox *s, const char *root, cb_error *err)
{
	struct stat st;
	if (geteuid() != 0 || !root) return CB_OK;
	for (size_t i = 0; i < s->plan.op_count; i++) {
		plan_op *todo = &s->plan.ops[i];
		if (todo->type != PLAN_BIND || todo->fd_index >= 0 || !is_below(todo->from, root)) continue;
		if (todo->flags & PLAN_OPTIONAL && stat(todo->from, &st) != 0) continue;
		CB_TRY(add_mount(s, todo->from, false, &todo->fd_index, err));
	}
	return CB_OK;
}

static cb_code plan_make(cb_sandbox *s, const cb_sandbox_options *o, cb_error *err)
{
	policy_room r = {0};
	plan_host host;
	s->mounts = mem_alloc(WIRE_FDS * sizeof(*s->mounts));
	if (!s->mounts) return cb_err_nomem(err);
	cb_code code = policy_make(s, o, &r, err);
#ifdef COWBOX_TEST_WALLS
	/* Only in the build that shows what each wall holds (tests/sandbox/walls.t). */
	const char *down = getenv("COWBOX_TEST_WALLS_DOWN");
	r.policy.walls_down = down ? strtoull(down, NULL, 0) : 0;
#endif
	if (code == CB_OK) code = plan_host_look(r.root ? r.root : "/", &host, err);
	if (code == CB_OK) code = plan_build(&r.policy, &host, &s->plan, err);
	if (code == CB_OK) code = reach_root(s, r.root, err);
	policy_done(&r);
	return code;
}

/* ---- opening ---- */

static cb_code check_options(const cb_sandbox_options *o, cb_error *err)
{
	CB_TRY(args_member("tier", (int)o->tier, CB_TIER_AUTO, CB_TIER_WEAK, err));
	CB_TRY(args_member("net", (int)o->net, CB_NET_NONE, CB_NET_HOST, err));
	if (o->path && o->path[0] != '/') return cb_err_set(err, CB_INVALID, "'%s' is not an absolute path of the box", o->path);
	CB_TRY(args_array("binds", o->binds, o->bind_count, sizeof(*o->binds), err));
	for (size_t i = 0; i < o->bind_count; i++)
		if (!o->binds[i].host_path) return cb_err_set(err, CB_INVALID, "the argument 'binds[%zu].host_path' is NULL", i);
	return CB_OK;
}

static cb_code open_box(cb_sandbox *s, cb_box *box, cb_error *err)
{
	if (box_about(box).is_old)
		return cb_err_set(err, CB_READONLY, "an old state cannot be changed: programs run in its box or in a fork");
	CB_TRY(box_refuse_txn(box, "running a program", err));
	CB_TRY(box_refuse_rules(box, "running a program", err)); /* its folder is the whole box */
	s->given = box_ref(box);
	s->info = CB_INIT(cb_box_info);
	CB_TRY(cb_box_info_get(box, &s->info, err));
	CB_TRY(cb_box_open(s->store, s->info.name, &s->box, err));
	CB_TRY(box_who_take(box, &s->who, err));
	return cb_box_who_set(s->box, s->who, err);
}

static cb_code sandbox_fill(cb_sandbox *s, cb_box *box, const cb_sandbox_options *o, cb_error *err)
{
	s->store = box_about(box).store;
	s->tier = o->tier;
	s->discard = o->discard;
	if (o->path && strcmp(o->path, "/") != 0) {
		cb_stat_info there = CB_INIT(cb_stat_info);
		s->path = path_clean(o->path);
		if (!s->path) return cb_err_nomem(err);
		CB_TRY(cb_stat(box, s->path, 0, &there, err));
	}
	CB_TRY(open_box(s, box, err));
	return plan_make(s, o, err);
}

static cb_code sandbox_create(cb_box *box, const cb_sandbox_options *options, cb_sandbox **out, cb_error *err)
{
	cb_sandbox_options ours, *o = &ours;
	CB_TRY(SIZED_TAKE(cb_sandbox_options, files, &ours, options, err));
	CB_TRY(check_options(o, err));
	cb_sandbox *s = mem_alloc(sizeof(*s));
	if (!s) return cb_err_nomem(err);
	*s = (cb_sandbox){.refs = 1, .era = entry_era()};
	(void)pthread_mutex_init(&s->lock, NULL);
	cb_code code = sandbox_fill(s, box, o, err);
	if (code == CB_OK) *out = s;
	else cb_sandbox_close(s);
	return code;
}

cb_code cb_sandbox_open(cb_box *box, const cb_sandbox_options *options, cb_sandbox **out, cb_error *err)
{
	NEED(err, "box out", box, out);
	cb_sandbox *s = NULL;
	CB_TRY(sandbox_create(box, options, &s, err));
	/* What cannot be captured now (a full disk) waits in its slot; the box can be used. cb_exec_recover says why. */
	(void)work_recover(s->store, s->info.id, NULL, NULL);
	*out = s;
	return CB_OK;
}

bool sandbox_is_own(const cb_sandbox *s)
{
	return s->era == entry_era();
}

cb_code sandbox_own(const cb_sandbox *s, cb_error *err)
{
	if (sandbox_is_own(s)) return CB_OK;
	return cb_err_set(err, CB_FORKED, "the sandbox and its programs belong to the parent process: open one here");
}

void cb_sandbox_close(cb_sandbox *s)
{
	if (!s) return;
	CANCEL_SHIELD;
	/* In a child of fork() a thread that is not here may have had the lock: then what waits in the pool is left alone. */
	bool locked = sandbox_is_own(s) ? pthread_mutex_lock(&s->lock) == 0 : pthread_mutex_trylock(&s->lock) == 0;
	s->closed = true;
	size_t count = locked ? s->idle_count : 0;
	s->idle_count = 0; /* nobody takes from a closed one, and nothing is added */
	if (locked) (void)pthread_mutex_unlock(&s->lock);
	while (count > 0) work_close(s->idle[--count]);
	sandbox_unref(s);
}

void sandbox_unref(cb_sandbox *s)
{
	if (atomic_fetch_sub(&s->refs, 1) != 1) return;
	plan_done(&s->plan);
	for (size_t i = 0; i < s->mount_count; i++) free(s->mounts[i].from);
	free(s->mounts);
	cb_box_close(s->box);
	if (s->given) box_unref(s->given);
	free(s->path);
	free(s->who);
	(void)pthread_mutex_destroy(&s->lock);
	free(s);
}

cb_code cb_sandbox_plan(cb_box *box, const cb_sandbox_options *options, bool json, char **out, cb_error *err)
{
	NEED(err, "box out", box, out);
	cb_sandbox *s = NULL;
	AUTO_BUF buf text = BUF_INIT(16 << 20);
	CB_TRY(sandbox_create(box, options, &s, err));
	cb_code code = plan_print(&s->plan, json, &text, err);
	cb_sandbox_close(s);
	return code == CB_OK ? buf_take(&text, out, NULL, err) : code;
}

/* ---- the pool ---- */

cb_code sandbox_take(cb_sandbox *s, work **out, bool *out_fresh, cb_error *err)
{
	(void)pthread_mutex_lock(&s->lock);
	work *w = s->idle_count > 0 ? s->idle[--s->idle_count] : NULL;
	(void)pthread_mutex_unlock(&s->lock);
	*out_fresh = w == NULL;
	if (w) {
		*out = w;
		return CB_OK;
	}
	work_options options = {.tier = s->tier, .discard = s->discard, .who = s->who};
	return work_open(s->store, s->info.name, &options, out, err);
}

void sandbox_give(cb_sandbox *s, work *w, bool broken)
{
	(void)pthread_mutex_lock(&s->lock);
	bool keep = !broken && !s->closed && s->idle_count < EXEC_IDLE_MAX;
	if (keep) s->idle[s->idle_count++] = w;
	(void)pthread_mutex_unlock(&s->lock);
	if (!keep) work_close(w);
}

/* ---- keeping house ---- */

static cb_code id_of(cb_store *cs, const char *box, uint64_t *out, cb_error *err)
{
	cb_box *b = NULL;
	CB_TRY(cb_box_open(cs, box, &b, err));
	*out = box_about(b).id;
	cb_box_close(b);
	return CB_OK;
}

cb_code cb_exec_recover(cb_store *cs, const char *box, uint64_t *out_steps, cb_error *err)
{
	NEED(err, "store", cs);
	uint64_t id = 0;
	if (box) CB_TRY(id_of(cs, box, &id, err));
	return work_recover(cs, id, out_steps, err);
}

cb_code cb_exec_drop(cb_store *cs, const char *box, uint64_t *out_steps, cb_error *err)
{
	NEED(err, "store box", cs, box);
	uint64_t id = 0;
	CB_TRY(id_of(cs, box, &id, err));
	return work_drop(cs, id, out_steps, err);
}

cb_code cb_work_clean(cb_store *cs, bool all, uint64_t *out_removed, cb_error *err)
{
	NEED(err, "store", cs);
	return work_clean(cs, all, out_removed, err);
}
