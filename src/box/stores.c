/*
 * stores.c: opening and closing a store, who uses it, and its upkeep as far as it is not gc.c's and fsck.c's.
 */
#include "base/args.h"
#include "base/io.h"
#include "base/sized.h"
#include "box/audit.h"
#include "box/gate.h"

#include <stdio.h>
#include <stdlib.h>

const char *cb_version(void)
{
	return CB_VERSION_STRING;
}

void cb_free(void *p)
{
	free(p);
}

static cb_code nodes_get(void *context, uint64_t id, blob **out, cb_error *err)
{
	return store_node_get(context, id, out, err);
}

static cb_code nodes_put(void *context, span bytes, uint64_t *out_id, cb_error *err)
{
	return store_node_put(context, bytes, out_id, err);
}

/* The store's path, that of the default where path is NULL. *out: free() it. */
static cb_code choose_path(const char *path, bool create, char **out, cb_error *err)
{
	const char *chosen = path ? path : getenv("COWBOX_STORE"), *home = getenv("HOME"), *data = getenv("XDG_DATA_HOME");
	AUTO_BUF buf made = BUF_INIT(SIZE_MAX);
	if (chosen && *chosen) CB_TRY(buf_append_str(&made, chosen, err));
	else if (data && *data) CB_TRY(buf_printf(&made, err, "%s/cowbox", data));
	else if (home && *home) CB_TRY(buf_printf(&made, err, "%s/.local/share/cowbox", home));
	else return cb_err_set(err, CB_INVALID, "no store named: set COWBOX_STORE or HOME");
	CB_TRY(buf_take(&made, out, NULL, err));
	if (!create || (chosen && *chosen)) return CB_OK;
	char *name = strrchr(*out, '/');
	*name = 0;
	if (**out) (void)io_mkdirs(*out, 0700, NULL); /* what cannot be made shows when the store is */
	*name = '/';
	return CB_OK;
}

const char *cb_sqlite_version(void)
{
	return store_engine_version();
}

cb_code cb_store_open(const char *path, const cb_store_options *options, cb_store **out, cb_error *err)
{
	NEED(err, "out", out);
	CB_TRY(args_path("path", path, err));
	cb_store_options o;
	CB_TRY(SIZED_TAKE(cb_store_options, cache_bytes, &o, options, err));
	AUTO_FREE char *chosen = NULL;
	CB_TRY(choose_path(path, !o.no_create, &chosen, err));
	cb_store *cs = mem_alloc(sizeof(*cs));
	if (!cs) return cb_err_nomem(err);
	bool memory = strcmp(chosen, ":memory:") == 0;
	store_options so = {.path = memory ? NULL : chosen,
	                    .create = !o.no_create,
	                    .read_only = o.read_only,
	                    .or_read_only = o.or_read_only,
	                    .durability = o.full ? STORE_FULL : STORE_FAST,
	                    .cache_bytes = o.cache_bytes};
	cb_code code = box_store_open(cs, &so, err);
	if (code != CB_OK) free(cs);
	else *out = cs;
	return code;
}

cb_code box_store_open(cb_store *cs, const store_options *options, cb_error *err)
{
	*cs = (cb_store){.refs = 1};
	CB_TRY(store_open(options, &cs->s, err));
	cs->nodes = (tree_nodes){nodes_get, nodes_put, cs->s};
	(void)pthread_mutex_init(&cs->known_lock, NULL);
	return CB_OK;
}

void cb_store_close(cb_store *cs)
{
	if (!cs) return;
	CANCEL_SHIELD;
	if (atomic_load(&cs->refs) > 1) (void)store_sync(cs->s, NULL); /* boxes are open still: the last of them closes it */
	box_store_unref(cs);
}

cb_store *box_store_stay(cb_store *cs)
{
	(void)atomic_fetch_add(&cs->refs, 1);
	return cs;
}

void box_store_stay_end(cb_store *const *cs)
{
	box_store_unref(*cs);
}

void box_store_unref(cb_store *cs)
{
	if (atomic_fetch_sub(&cs->refs, 1) != 1) return;
	state_forget_all(cs);
	(void)pthread_mutex_destroy(&cs->known_lock);
	store_close(cs->s);
	for (store_who *w = atomic_load(&cs->whos); w;) {
		store_who *next = w->next;
		free(w);
		w = next;
	}
	free(cs);
}

/* ---- who ---- */

static store_who *who_find(cb_store *cs, const char *name)
{
	store_who *w = atomic_load(&cs->whos);
	while (w && strcmp(w->name, name) != 0) w = w->next;
	return w;
}

/* Others may be reading the old name, so every name stays until the store is closed, each once. Without a lock: a child of fork() could
 * inherit it taken. */
cb_code cb_store_who_set(cb_store *cs, const char *who, cb_error *err)
{
	NEED(err, "store who", cs, who);
	if (strlen(who) > LIMIT_NAME_BYTES) return cb_err_set(err, CB_INVALID, "who: at most %d bytes", LIMIT_NAME_BYTES);
	store_who *w = who_find(cs, who);
	if (!w) {
		size_t size = strlen(who) + 1;
		w = mem_alloc(sizeof(*w) + size);
		if (!w) return cb_err_nomem(err);
		memcpy(w->name, who, size);
		w->next = atomic_load(&cs->whos);
		while (!atomic_compare_exchange_weak(&cs->whos, &w->next, w)) continue;
	}
	atomic_store(&cs->who, w);
	return CB_OK;
}

const char *box_store_who(cb_store *cs)
{
	const store_who *w = atomic_load(&cs->who);
	return w ? w->name : "";
}

/* ---- upkeep ---- */

cb_code cb_store_sync(cb_store *cs, cb_error *err)
{
	NEED(err, "store", cs);
	return store_sync(cs->s, err);
}

cb_code cb_store_vacuum(cb_store *cs, cb_error *err)
{
	NEED(err, "store", cs);
	CB_TRY(store_vacuum(cs->s, err));
	audit_did_alone(cs, &(audit_note){box_store_who(cs), "vacuum", ""});
	return CB_OK;
}

cb_code cb_store_backup(cb_store *cs, const char *to_path, cb_error *err)
{
	NEED(err, "store to_path", cs, to_path);
	CB_TRY(args_path("to_path", to_path, err));
	CB_TRY(gate_whole(cs, NULL, "a backup", err));
	CB_TRY(store_backup(cs->s, to_path, err));
	audit_did_alone(cs, &(audit_note){box_store_who(cs), "backup", to_path});
	return CB_OK;
}

cb_code cb_store_stats_get(cb_store *cs, cb_store_stats *out, cb_error *err)
{
	NEED(err, "store out", cs, out);
	store_stats s;
	CB_TRY(SIZED_CHECK(cb_store_stats, cache_misses, out, err));
	CB_TRY(store_stats_get(cs->s, &s, err));
	cb_store_stats made = {
		.boxes = s.boxes,
		.steps = s.steps,
		.nodes = s.nodes,
		.node_bytes = s.node_bytes,
		.contents = s.contents,
		.content_bytes = s.content_bytes,
		.segments = s.segments,
		.segment_bytes = s.segment_bytes,
		.database_bytes = s.database_bytes,
		.wal_bytes = s.wal_bytes,
		.cache_bytes = s.cache_bytes,
		.cache_hits = s.cache_hits,
		.cache_misses = s.cache_misses,
		.page_sums = s.page_sums,
	};
	SIZED_GIVE(out, &made);
	return CB_OK;
}
