/* sqlite.h: what the files of the SQLite engine (sqlite_*.c) share: the connection, kept statements, binding and checked columns. */
#ifndef STORE_SQLITE_H
#define STORE_SQLITE_H

#include <sqlite3.h>

#include "base/hash.h"
#include "store/engine.h"
#include "store/room.h"

enum {
	SQL_APPLICATION_ID = 0x434f5742, /* "COWB" */
	SQL_SCHEMA_VERSION = 3,
	SQL_VERSION_AUDIT = 2,         /* the first with table audit; an older store that is opened read-only has none */
	SQL_VERSION_AUTOMATIC = 3,     /* the first in which checkpoints are marked as automatic */
	SQL_VERSION_PIN = 3,           /* the first with table pin */
	SQL_VERSION_EDGES = 3,         /* the first with table edge */
	SQL_CACHE_BYTES = 16384 << 10, /* of a connection's pages, and of those of a vacuum's copy: PRAGMA cache_size */
	SQL_VERSION_READABLE = 1,      /* the oldest that can be read without being brought up to date */
};

#define SQL_BOX_COLUMNS                                                                             \
	"b.id,b.name,b.created_ns,b.origin_box,b.origin_seq,b.deleted,b.quota_bytes,b.quota_files," \
	"b.quota_file_bytes,b.keep_steps,b.keep_ns,h.seq,h.state,h.root,h.root_box,h.root_seq,h.weight,h.sum,b.sum"
#define SQL_BOX_FROM " FROM box b JOIN head h ON h.box=b.id "
#define SQL_STEP_COLUMNS                                                                                  \
	"box,seq,state,epoch,root,gap,weight,kind,who,params_content,result_content,started_ns,ended_ns," \
	"target,other_box,other_seq,params,result,typeof(changes)='blob',sum,root_sum,changes_sum,iif(?4,changes,NULL)"
/* Steps and touch rows are numbered (box << 32) + seq: one b-tree in which a box's rows lie together, appended to, with no index
 * beside it. */
#define SQL_FIRST "(?1<<32)+?2"
#define SQL_LAST "(?1<<32)+min(?3,4294967295)"
#define SQL_UP " FROM step WHERE id BETWEEN " SQL_FIRST " AND " SQL_LAST " ORDER BY id"
#define SQL_DOWN SQL_UP " DESC"

/* Statements prepared once per connection, when first used. Preparing one costs more than running it: where two would differ in a
 * condition only, a command that runs once is better served by one. */
#define SQL_TABLE(X)                                                                                                             \
	X(BEGIN_WRITE, "BEGIN IMMEDIATE")                                                                                        \
	X(BEGIN_READ, "BEGIN")                                                                                                   \
	X(COMMIT, "COMMIT")                                                                                                      \
	X(ROLLBACK, "ROLLBACK")                                                                                                  \
	X(COUNTERS_GET, "SELECT * FROM head WHERE box=0")                                                                        \
	X(COUNTERS_SET, "UPDATE head SET next_state=?1,next_node=?2,next_content=?3,next_inode=?4,next_box=?5,next_segment=?6,"  \
	                "epoch=?7,sum=?8 WHERE box=0")                                                                           \
	X(META_GET, "SELECT value FROM meta WHERE key=?1")                                                                       \
	X(META_SET, "INSERT INTO meta(key,value) VALUES(?1,?2) ON CONFLICT(key) DO UPDATE SET value=?2")                         \
	X(NODE_GET, "SELECT id,birth,sum,length(data),0,0,data FROM node WHERE id=?1")                                           \
	X(NODE_PUT, "INSERT INTO node(id,birth,sum,data) VALUES(?1,?2,?3,?4)")                                                   \
	X(NODE_DELETE, "DELETE FROM node WHERE id=?1 AND birth<?2")                                                              \
	X(NODE_WALK, "SELECT id,birth,sum,length(data),0,0,NULL FROM node WHERE id>?1 ORDER BY id LIMIT ?2")                     \
	X(NODE_WALK_DATA, "SELECT id,birth,sum,length(data),0,0,data FROM node WHERE id>?1 ORDER BY id LIMIT ?2")                \
	X(CONTENT_GET, "SELECT id,birth,sum,size,segment,offset,data FROM content WHERE id=?1")                                  \
	X(CONTENT_PUT, "INSERT INTO content(id,birth,sum,size,segment,offset,data) VALUES(?1,?2,?3,?4,?5,?6,?7)")                \
	X(CONTENT_DELETE, "DELETE FROM content WHERE id=?1 AND birth<?2")                                                        \
	X(CONTENT_WALK, "SELECT id,birth,sum,size,segment,offset,NULL FROM content WHERE id>?1 ORDER BY id LIMIT ?2")            \
	X(CONTENT_WALK_DATA, "SELECT id,birth,sum,size,segment,offset,data FROM content WHERE id>?1 ORDER BY id LIMIT ?2")       \
	X(CONTENT_BIRTH, "UPDATE content SET birth=?2 WHERE id=?1")                                                              \
	X(CONTENT_MOVE, "UPDATE content SET segment=?2,offset=?3 WHERE id=?1")                                                   \
	X(SEGMENT_ROWS, "SELECT id,birth,sum,size,segment,offset,NULL FROM content INDEXED BY content_segment "                  \
	                "WHERE segment=?1 AND segment<>0 ORDER BY offset")                                                       \
	X(SEGMENT_LIST, "SELECT segment,count(*),sum(size) FROM content INDEXED BY content_segment WHERE segment<>0 "            \
	                "GROUP BY segment")                                                                                      \
	X(OWNER_INSERT, "INSERT INTO owner(epoch) VALUES(?1)")                                                                   \
	X(OWNER_DELETE, "DELETE FROM owner WHERE id=?1")                                                                         \
	X(OWNER_LIST, "SELECT id,epoch FROM owner ORDER BY id")                                                                  \
	X(BOX_GET,                                                                                                               \
	  "SELECT " SQL_BOX_COLUMNS SQL_BOX_FROM "WHERE b.id=coalesce(?1,(SELECT id FROM box WHERE name=?2 AND deleted=0))")     \
	X(BOX_LIST, "SELECT " SQL_BOX_COLUMNS SQL_BOX_FROM "WHERE b.deleted=0 ORDER BY b.name,b.id")                             \
	X(BOX_LIST_ALL, "SELECT " SQL_BOX_COLUMNS SQL_BOX_FROM "ORDER BY b.name,b.id")                                           \
	X(BOX_FORKS, "SELECT " SQL_BOX_COLUMNS SQL_BOX_FROM "WHERE b.origin_box=?1 AND b.origin_box<>0 "                         \
	             "AND (b.deleted=0 OR EXISTS(SELECT 1 FROM step WHERE step.id BETWEEN b.id<<32 AND "                         \
	             "(b.id<<32)+4294967295)) ORDER BY b.id")                                                                    \
	X(BOX_INSERT, "INSERT INTO box(id,name,created_ns,origin_box,origin_seq,deleted,quota_bytes,quota_files,"                \
	              "quota_file_bytes,keep_steps,keep_ns,sum) VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12)")                 \
	X(BOX_UPDATE, "UPDATE box SET name=?2,created_ns=?3,origin_box=?4,origin_seq=?5,deleted=?6,quota_bytes=?7,"              \
	              "quota_files=?8,quota_file_bytes=?9,keep_steps=?10,keep_ns=?11,sum=?12 WHERE id=?1")                       \
	X(BOX_DELETE, "DELETE FROM box WHERE id=?1")                                                                             \
	X(BOX_SETTINGS_DELETE, "DELETE FROM setting WHERE box=?1")                                                               \
	X(HEAD_DELETE, "DELETE FROM head WHERE box=?1")                                                                          \
	X(HEAD_INSERT, "INSERT INTO head(box,seq,state,root,root_box,root_seq,weight,sum) VALUES(?1,?2,?3,?4,?5,?6,?7,?8)")      \
	X(HEAD_SET, "UPDATE head SET seq=?2,state=?3,root=?4,root_box=?5,root_seq=?6,weight=?7,sum=?8 WHERE box=?1")             \
	X(HEAD_GET, "SELECT seq,state,root,root_box,root_seq,weight,sum FROM head WHERE box=?1")                                 \
	X(STEP_UP, "SELECT " SQL_STEP_COLUMNS SQL_UP)                                                                            \
	X(STEP_DOWN, "SELECT " SQL_STEP_COLUMNS SQL_DOWN)                                                                        \
	X(STEP_ROOT_BEFORE, "SELECT id&4294967295,root,root_sum FROM step INDEXED BY step_root WHERE id BETWEEN ?1<<32 AND "     \
	                    "(?1<<32)+min(?2,4294967295) AND root IS NOT NULL ORDER BY id DESC LIMIT 1")                         \
	X(STEP_PUT, "INSERT INTO step(id,state,epoch,root,gap,weight,kind,who,params_content,result_content,started_ns,"         \
	            "ended_ns,target,other_box,other_seq,params,result,sum,root_sum,changes_sum,changes) "                       \
	            "VALUES((?1<<32)+?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,?19,?20,?21,?22)")              \
	X(STEP_ROOT_SET, "UPDATE step SET root=?3,root_sum=?4 WHERE id=" SQL_FIRST)                                              \
	X(STEP_GAP_SET, "UPDATE step SET gap=1 WHERE id=" SQL_FIRST)                                                             \
	X(STEP_DELETE, "DELETE FROM step WHERE id BETWEEN " SQL_FIRST " AND " SQL_LAST)                                          \
	X(TOUCH_DELETE, "DELETE FROM touch WHERE id BETWEEN " SQL_FIRST " AND " SQL_LAST " AND first>=?2")                       \
	X(STEP_COUNT, "SELECT count(*) FROM step WHERE id BETWEEN ?1<<32 AND (?1<<32)+4294967295")                               \
	X(TOUCH_PUT, "INSERT OR REPLACE INTO touch(id,first,sum,subjects) VALUES(" SQL_FIRST ",?3,?4,?5)")                       \
	X(TOUCH_WALK, "SELECT first,last,subjects,sum FROM touch WHERE id BETWEEN ?1<<32 AND (?1<<32)+4294967295 AND first<=?2 " \
	              "ORDER BY id DESC")                                                                                        \
	X(TOUCH_LAST, "SELECT last FROM touch WHERE id BETWEEN ?1<<32 AND (?1<<32)+4294967295 ORDER BY id DESC LIMIT 1")         \
	X(EDGE_BEFORE,                                                                                                           \
	  "SELECT id,box,seq,kind,other_box,other_seq,sum FROM edge WHERE box=?1 AND seq<=?2 ORDER BY seq DESC LIMIT ?3")        \
	X(EDGE_LIST, "SELECT id,box,seq,kind,other_box,other_seq,sum FROM edge WHERE id>?1 ORDER BY id")                         \
	X(EDGE_NEXT, "SELECT coalesce(max(id),0)+1 FROM edge")                                                                   \
	X(EDGE_PUT, "INSERT INTO edge(id,box,seq,kind,other_box,other_seq,sum) VALUES(?1,?2,?3,?4,?5,?6,?7)")                    \
	X(EDGE_DELETE, "DELETE FROM edge WHERE id=?1")                                                                           \
	X(EDGES_LOST, "WITH RECURSIVE known(id) AS (SELECT id FROM box UNION SELECT other_box FROM edge JOIN known ON "          \
	              "edge.box=known.id) SELECT id FROM edge WHERE box NOT IN known")                                           \
	X(CHECKPOINT_GET, "SELECT box,name,seq,created_ns,sum,automatic FROM checkpoint WHERE box=?1 AND name=?2")               \
	X(CHECKPOINT_GET_2, "SELECT box,name,seq,created_ns,sum,-1 FROM checkpoint WHERE box=?1 AND name=?2")                    \
	X(CHECKPOINT_LIST, "SELECT box,name,seq,created_ns,sum,automatic FROM checkpoint WHERE box=?1 ORDER BY seq,name")        \
	X(CHECKPOINT_LIST_2, "SELECT box,name,seq,created_ns,sum,-1 FROM checkpoint WHERE box=?1 ORDER BY seq,name")             \
	X(CHECKPOINT_PUT, "INSERT INTO checkpoint(box,name,seq,created_ns,automatic,sum) VALUES(?1,?2,?3,?4,?5,?6)")             \
	X(CHECKPOINT_DELETE, "DELETE FROM checkpoint WHERE box=?1 AND name=?2")                                                  \
	X(SETTING_GET, "SELECT key,value,sum FROM setting WHERE box=?1 AND key=?2")                                              \
	X(SETTING_SET, "INSERT INTO setting(box,key,value,sum) VALUES(?1,?2,?3,?4) "                                             \
	               "ON CONFLICT(box,key) DO UPDATE SET value=?3,sum=?4")                                                     \
	X(SETTING_DELETE, "DELETE FROM setting WHERE box=?1 AND key=?2")                                                         \
	X(SETTING_LIST, "SELECT key,value,sum FROM setting WHERE box=?1 ORDER BY key")                                           \
	X(SETTING_SWEEP, "DELETE FROM setting WHERE box<>0 AND box NOT IN (SELECT id FROM box)")                                 \
	X(CHECKPOINT_SWEEP, "DELETE FROM checkpoint WHERE box NOT IN (SELECT id FROM box)")                                      \
	X(PIN_PUT, "INSERT INTO pin(box,seq,why,owner,since_ns,until_ns,sum) VALUES(?1,?2,?3,?4,?5,?6,?7)")                      \
	X(PIN_DELETE, "DELETE FROM pin WHERE owner=?1")                                                                          \
	X(PIN_EXPIRE, "DELETE FROM pin WHERE (until_ns>0 AND until_ns<=?1) OR box NOT IN (SELECT id FROM box)")                  \
	X(PIN_LIST, "SELECT id,box,seq,why,owner,since_ns,until_ns,sum FROM pin WHERE ?1 IN (0,box) ORDER BY id")                \
	X(AUDIT_INSERT, "INSERT INTO audit(id,time_ns,box,name,who,action,subject,code,message,count,sum) "                      \
	                "VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11)")                                                            \
	X(AUDIT_REPEAT, "UPDATE audit SET time_ns=?2,count=?3,sum=?4 WHERE id=?1")                                               \
	X(AUDIT_NEXT, "SELECT coalesce(max(id),?1)+1 FROM audit WHERE id>?1 AND id<?2")                                          \
	X(AUDIT_TRIM, "DELETE FROM audit WHERE id>?1 AND id<=?2")                                                                \
	X(AUDIT_WALK, "SELECT id,time_ns,box,name,who,action,subject,code,message,count,sum FROM audit WHERE id>?1 AND id<?2 "   \
	              "ORDER BY id DESC LIMIT ?3")

typedef enum sql_id {
#define SQL_X_(name, text) SQL_##name,
	SQL_TABLE(SQL_X_)
#undef SQL_X_
		SQL_COUNT,
} sql_id;

typedef struct sqlite_engine {
	engine base;
	sqlite3 *db;
	bool memory;
	int64_t version;         /* of the schema; smaller than ours in a store that may only be read */
	const io_folder *folder; /* NULL: in memory */
	char *file;              /* for messages */
	room *room;              /* NULL: in memory, or read-only */
	int patience;            /* pauses that SQLite's busy handler makes at most */
	bool erases;             /* pages that are freed are written as zeros */
	bool in_vain;            /* the last wait for readers that keep the log from beginning anew */
	sqlite3_stmt *kept[SQL_COUNT];
} sqlite_engine;

static inline sqlite_engine *sql_engine(engine *e)
{
	return (sqlite_engine *)(void *)e;
}

/* A statement in use: the kept one, or another when a visit function asks again while a walk is on. Reset or finalised at scope's end. */
typedef struct sql_use {
	sqlite3_stmt *stmt;
	bool own;
} sql_use;

void sql_use_done(sql_use *u);
#define AUTO_SQL ATTR_CLEANUP(sql_use_done)

/* SQLite's checks tell a disk that fails as they tell damage, in their text; its code, 0: it is none. */
static inline int sql_failed_read(const char *text)
{
	const char *code = text ? strstr(text, "error code=") : NULL;
	int rc = code ? atoi(code + strlen("error code=")) : 0;
	return (rc & 0xff) == SQLITE_IOERR ? rc : 0;
}

/* Binds by letters: u uint64, i int64, t text (never NULL), b span as a blob (empty: x''), n nothing (NULL). */
cb_code sql_take(engine *e, sql_id id, sql_use *out, cb_error *err, const char *letters, ...);
/* *out_row: there is one. */
cb_code sql_step(engine *e, const sql_use *u, bool *out_row, cb_error *err);
/* To the end; *out_changes (may be NULL): rows changed. */
cb_code sql_finish(engine *e, const sql_use *u, uint64_t *out_changes, cb_error *err);
/* An error from SQLite as one of ours. */
cb_code sql_error(const sqlite_engine *e, int rc, cb_error *err);
static inline bool sql_is_flush_failure(int rc)
{
	return rc == SQLITE_IOERR_FSYNC || rc == SQLITE_IOERR_DIR_FSYNC;
}
/* Statements that are not kept. */
cb_code sql_exec(const sqlite_engine *e, const char *text, cb_error *err);
cb_code sql_number(const sqlite_engine *e, const char *text, int64_t *out, cb_error *err);

/* Columns of a row that may have been damaged: *bad is set when the type or the length is wrong. */
uint64_t sql_u64(const sql_use *u, int column, bool *bad);
int64_t sql_i64(const sql_use *u, int column, bool *bad);
const char *sql_text(const sql_use *u, int column, bool *bad);
void sql_copy(const sql_use *u, int column, char *out, size_t size, bool *bad);
span sql_blob(const sql_use *u, int column, bool *bad);
cb_code sql_damaged(const char *table, cb_error *err);

/* The sum of a row: of its numbers, and of its strings' sums. */
uint64_t sql_sum(const uint64_t *values, size_t count);
static inline uint64_t sql_sum_text(const char *s)
{
	return hash64(s, strlen(s));
}

/* Larger unsigned numbers mean "no bound" in ranges. */
static inline uint64_t sql_bound(uint64_t v)
{
	return v > INT64_MAX ? INT64_MAX : v;
}

/* From version n to n + 1 (sqlite_schema.c). */
extern const char *const sqlite_migrations[SQL_SCHEMA_VERSION];
/* After those, of a store with a folder of commands. */
extern const char sqlite_pin_earlier[];

/* The operations, by file. */
cb_code sqlite_counters_get(engine *e, uint64_t out[STORE_COUNTERS], cb_error *err);
cb_code sqlite_counters_set(engine *e, const uint64_t values[STORE_COUNTERS], cb_error *err);
cb_code sqlite_meta_get(engine *e, const char *key, char *out, size_t size, cb_error *err);
cb_code sqlite_meta_set(engine *e, const char *key, const char *value, cb_error *err);
cb_code sqlite_row_get(engine *e, bool is_node, uint64_t id, engine_row_visit visit, void *context, cb_error *err);
cb_code sqlite_row_put(engine *e, bool is_node, const engine_row *row, cb_error *err);
cb_code sqlite_row_delete(engine *e, bool is_node, uint64_t id, uint64_t horizon, cb_error *err);
cb_code sqlite_content_birth_set(engine *e, uint64_t id, uint64_t birth, cb_error *err);
cb_code sqlite_content_move(engine *e, uint64_t id, uint64_t segment, uint64_t offset, cb_error *err);
cb_code sqlite_row_walk(engine *e, bool is_node, uint64_t after, uint64_t limit, bool with_data, engine_row_visit visit,
                        void *context, cb_error *err);
cb_code sqlite_segment_rows(engine *e, uint64_t segment, engine_row_visit visit, void *context, cb_error *err);
cb_code sqlite_segment_list(engine *e, engine_segment_visit visit, void *context, cb_error *err);
cb_code sqlite_owner_insert(engine *e, uint64_t epoch, uint64_t *out_owner, cb_error *err);
cb_code sqlite_owner_delete(engine *e, uint64_t owner, cb_error *err);
cb_code sqlite_owner_list(engine *e, engine_owner_visit visit, void *context, cb_error *err);

cb_code sqlite_box_find(engine *e, const char *name, store_box *out, cb_error *err);
cb_code sqlite_box_get(engine *e, uint64_t id, store_box *out, cb_error *err);
cb_code sqlite_box_list(engine *e, bool with_deleted, store_box_visit visit, void *context, cb_error *err);
cb_code sqlite_box_forks(engine *e, uint64_t origin, store_box_visit visit, void *context, cb_error *err);
cb_code sqlite_box_insert(engine *e, const store_box *box, cb_error *err);
cb_code sqlite_box_update(engine *e, const store_box *box, cb_error *err);
cb_code sqlite_box_remove(engine *e, uint64_t id, cb_error *err);
cb_code sqlite_head_get(engine *e, uint64_t box, store_head *out, cb_error *err);
cb_code sqlite_head_set(engine *e, uint64_t box, const store_head *head, cb_error *err);
cb_code sqlite_checkpoint_get(engine *e, uint64_t box, const char *name, store_checkpoint *out, cb_error *err);
cb_code sqlite_checkpoint_list(engine *e, uint64_t box, store_checkpoint_visit visit, void *context, cb_error *err);
cb_code sqlite_checkpoint_put(engine *e, const store_checkpoint *c, cb_error *err);
cb_code sqlite_checkpoint_delete(engine *e, uint64_t box, const char *name, cb_error *err);
cb_code sqlite_setting_get(engine *e, uint64_t box, const char *key, char **out, cb_error *err);
cb_code sqlite_setting_set(engine *e, uint64_t box, const char *key, const char *value, cb_error *err);
cb_code sqlite_setting_list(engine *e, uint64_t box, store_setting_visit visit, void *context, cb_error *err);

cb_code sqlite_step_walk(engine *e, uint64_t box, uint64_t from, uint64_t to, bool with_changes, store_step_visit visit,
                         void *context, cb_error *err);
cb_code sqlite_step_root_before(engine *e, uint64_t box, uint64_t seq, uint64_t *out_seq, uint64_t *out_root, cb_error *err);
cb_code sqlite_step_put(engine *e, const store_step *step, uint64_t epoch, cb_error *err);
cb_code sqlite_step_root_set(engine *e, uint64_t box, uint64_t seq, bool has_root, uint64_t root, cb_error *err);
cb_code sqlite_step_gap_set(engine *e, uint64_t box, uint64_t seq, cb_error *err);
cb_code sqlite_step_delete(engine *e, uint64_t box, uint64_t from, uint64_t to, uint64_t *out_deleted, cb_error *err);
cb_code sqlite_step_count(engine *e, uint64_t box, uint64_t *out, cb_error *err);
cb_code sqlite_touch_put(engine *e, uint64_t box, uint64_t first, uint64_t last, span subjects, cb_error *err);
cb_code sqlite_touch_walk(engine *e, uint64_t box, uint64_t max_seq, store_touch_visit visit, void *context, cb_error *err);
cb_code sqlite_touch_last(engine *e, uint64_t box, uint64_t *out_seq, cb_error *err);

cb_code sqlite_pin_put(engine *e, const store_pin *pin, cb_error *err);
cb_code sqlite_pin_delete(engine *e, const char *owner, cb_error *err);
cb_code sqlite_pin_expire(engine *e, int64_t now_ns, cb_error *err);
cb_code sqlite_pin_list(engine *e, uint64_t box, store_pin_visit visit, void *context, cb_error *err);

cb_code sqlite_edge_before(engine *e, uint64_t box, uint64_t seq, store_edge *out, size_t max, size_t *count, cb_error *err);
cb_code sqlite_edge_list(engine *e, uint64_t after, store_edge_visit visit, void *context, cb_error *err);
cb_code sqlite_edge_put(engine *e, const store_edge *edge, cb_error *err);
cb_code sqlite_edge_delete(engine *e, uint64_t order, cb_error *err);
cb_code sqlite_edges_lost(engine *e, buf *orders, cb_error *err);
cb_code sqlite_leftover_sweep(engine *e, cb_error *err);
cb_code sqlite_edge_check(engine *e, store_complain complain, void *context, cb_error *err);

cb_code sqlite_audit_put(engine *e, const store_audit *a, cb_error *err);
cb_code sqlite_audit_walk(engine *e, bool refused, uint64_t below, uint64_t limit, store_audit_visit visit, void *context,
                          cb_error *err);
cb_code sqlite_audit_check(engine *e, store_complain complain, void *context, cb_error *err);

cb_code sqlite_vacuum(engine *e, cb_error *err);
cb_code sqlite_backup(engine *e, const char *to_file, cb_error *err);
cb_code sqlite_check(engine *e, store_complain complain, void *context, cb_error *err);
cb_code sqlite_coherent(engine *e, cb_error *err);
bool sqlite_is_summed(engine *e);
cb_code sqlite_stats(engine *e, store_stats *out, cb_error *err);

#endif
