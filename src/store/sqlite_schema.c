/*
 * sqlite_schema.c: the tables, as scripts from each version to the next. A script is never edited once released. docs/format.md explains
 * every column.
 *
 * Every row has a sum: SQLite has none, and a flipped bit must be an error, never another answer. A node's or content's sum is of its bytes
 * and its number; the others' are of their columns (sql_sum).
 *
 * `head` is small and hot: a commit changes the box's row and row 0, which holds the store's counters, on the same page.
 */
#include "store/sqlite.h"

static const char version_1[] =
	"CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;"

	"CREATE TABLE head(box INTEGER PRIMARY KEY, seq INTEGER NOT NULL, state INTEGER NOT NULL,"
	" root INTEGER NOT NULL, root_box INTEGER NOT NULL, root_seq INTEGER NOT NULL, weight INTEGER NOT NULL,"
	" next_state INTEGER, next_node INTEGER, next_content INTEGER, next_ino INTEGER, next_box INTEGER,"
	" next_segment INTEGER, epoch INTEGER, sum INTEGER NOT NULL) STRICT;"
	"INSERT INTO head VALUES(0,0,0,0,0,0,0, 1,1,1,16,1,1,1, 0);"

	"CREATE TABLE box(id INTEGER PRIMARY KEY, name TEXT NOT NULL, created_ns INTEGER NOT NULL,"
	" origin_box INTEGER NOT NULL, origin_seq INTEGER NOT NULL, deleted INTEGER NOT NULL,"
	" quota_bytes INTEGER NOT NULL, quota_files INTEGER NOT NULL, quota_file_bytes INTEGER NOT NULL,"
	" keep_steps INTEGER NOT NULL, keep_ns INTEGER NOT NULL, sum INTEGER NOT NULL) STRICT;"
	"CREATE UNIQUE INDEX box_name ON box(name) WHERE deleted=0;"
	"CREATE INDEX box_origin ON box(origin_box) WHERE origin_box<>0;"

	"CREATE TABLE step(id INTEGER PRIMARY KEY, box INTEGER AS (id>>32), seq INTEGER AS (id&4294967295),"
	" state INTEGER NOT NULL, epoch INTEGER NOT NULL,"
	" root INTEGER, gap INTEGER NOT NULL, weight INTEGER NOT NULL, kind TEXT NOT NULL, who TEXT NOT NULL,"
	" params_content INTEGER NOT NULL, result_content INTEGER NOT NULL, started_ns INTEGER NOT NULL,"
	" ended_ns INTEGER NOT NULL, target INTEGER NOT NULL, other_box INTEGER NOT NULL, other_seq INTEGER NOT NULL,"
	" params BLOB NOT NULL, result BLOB NOT NULL, sum INTEGER NOT NULL, root_sum INTEGER NOT NULL,"
	" changes_sum INTEGER NOT NULL, changes BLOB) STRICT;"
	"CREATE INDEX step_root ON step(id,root,root_sum) WHERE root IS NOT NULL;"

	"CREATE TABLE touch(id INTEGER PRIMARY KEY, box INTEGER AS (id>>32), last INTEGER AS (id&4294967295),"
	" first INTEGER NOT NULL, sum INTEGER NOT NULL, subjects BLOB NOT NULL) STRICT;"
	"CREATE TABLE checkpoint(box INTEGER NOT NULL, name TEXT NOT NULL, seq INTEGER NOT NULL,"
	" created_ns INTEGER NOT NULL, sum INTEGER NOT NULL, PRIMARY KEY(box,name)) STRICT, WITHOUT ROWID;"
	"CREATE TABLE setting(box INTEGER NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, sum INTEGER NOT NULL,"
	" PRIMARY KEY(box,key)) STRICT, WITHOUT ROWID;"

	"CREATE TABLE node(id INTEGER PRIMARY KEY, birth INTEGER NOT NULL, sum INTEGER NOT NULL,"
	" data BLOB NOT NULL) STRICT;"
	"CREATE TABLE content(id INTEGER PRIMARY KEY, birth INTEGER NOT NULL, sum INTEGER NOT NULL,"
	" size INTEGER NOT NULL, segment INTEGER NOT NULL, offset INTEGER NOT NULL, data BLOB) STRICT;"
	"CREATE INDEX content_segment ON content(segment,offset,size) WHERE segment<>0;"
	"CREATE TABLE owner(id INTEGER PRIMARY KEY AUTOINCREMENT, epoch INTEGER NOT NULL) STRICT;";

static const char version_2[] =
	"CREATE TABLE audit(id INTEGER PRIMARY KEY, time_ns INTEGER NOT NULL, box INTEGER NOT NULL, name TEXT NOT NULL,"
	" who TEXT NOT NULL, action TEXT NOT NULL, subject TEXT NOT NULL, code INTEGER NOT NULL, message TEXT NOT NULL,"
	" count INTEGER NOT NULL, sum INTEGER NOT NULL) STRICT;";

/* ---- version 3 ---- */

/* Automatic checkpoints are marked as such. Which ones of older stores were made by themselves cannot be told from names somebody
 * chose: all stay. */
#define VERSION_3_CHECKPOINTS "ALTER TABLE checkpoint ADD COLUMN automatic INTEGER NOT NULL DEFAULT 0;"

/* Steps that are kept for what outlives its process. */
#define VERSION_3_PINS                                                                                              \
	"CREATE TABLE pin(id INTEGER PRIMARY KEY, box INTEGER NOT NULL, seq INTEGER NOT NULL, why TEXT NOT NULL,"   \
	" owner TEXT NOT NULL, since_ns INTEGER NOT NULL, until_ns INTEGER NOT NULL, sum INTEGER NOT NULL) STRICT;" \
	"CREATE INDEX pin_owner ON pin(owner);"

/* Edges, from the steps there are and from the boxes' origins. The order is that of the clock: exact unless it went backwards between two
 * merges, and whoever walks edges bears with that. row_sum is sql_sum (sqlite_open.c). An undo or redo in a box without merges and whole
 * restores takes back no edge. */
#define VERSION_3_STEP_EDGE                       \
	"other_box<>0 AND other_box<(1<<40) AND " \
	"(kind='merge' OR (kind='restore' AND params_content=0 AND params IN (x'',x'2f')))"
#define VERSION_3_EDGES                                                                                                     \
	"CREATE TABLE edge(id INTEGER PRIMARY KEY, box INTEGER NOT NULL, seq INTEGER NOT NULL, kind INTEGER NOT NULL,"      \
	" other_box INTEGER NOT NULL, other_seq INTEGER NOT NULL, sum INTEGER NOT NULL) STRICT;"                            \
	"CREATE UNIQUE INDEX edge_step ON edge(box,seq);"                                                                   \
	"CREATE INDEX edge_other ON edge(other_box);"                                                                       \
	"INSERT INTO edge SELECT n,box,seq,kind,other_box,other_seq,row_sum(n,box,seq,kind,other_box,other_seq) FROM ("     \
	" SELECT row_number() OVER (ORDER BY at,box,seq) n,box,seq,kind,other_box,other_seq FROM ("                         \
	"  SELECT created_ns at,id box,0 seq,1 kind,origin_box other_box,origin_seq other_seq FROM box WHERE origin_box<>0" \
	"  UNION ALL SELECT ended_ns,box,seq,iif(kind='merge',2,3),other_box,other_seq FROM step"                           \
	"   WHERE " VERSION_3_STEP_EDGE                                                                                     \
	"  UNION ALL SELECT ended_ns,box,seq,4,box,target FROM step WHERE kind IN ('undo','redo') AND target<>0 AND box IN" \
	"   (SELECT box FROM step WHERE " VERSION_3_STEP_EDGE ")));"                                                        \
	"DELETE FROM setting WHERE key GLOB 'cowbox.merged-into.*' OR key GLOB 'cowbox.merged-from.*';"

/* A program of an earlier version that has the store open must not go on writing: it would write no edges. Every commit of it names this
 * column, which is gone. */
#define VERSION_3_HEAD "ALTER TABLE head RENAME COLUMN next_ino TO next_inode;"

/* Before pins prune looked into the folders of commands to see what they began from. Those whose caller died under an earlier version have
 * none yet: until whoever has those folders has looked (src/work/recover.c), every step of every box is kept for them. */
#define EARLIER_PIN "id,-1,'commands of an earlier version','" STORE_PIN_EARLIER "',created_ns,0"
const char sqlite_pin_earlier[] = "INSERT INTO pin(box,seq,why,owner,since_ns,until_ns,sum) SELECT " EARLIER_PIN
				  ",row_sum(" EARLIER_PIN ") FROM box WHERE deleted=0;";

static const char version_3[] = VERSION_3_HEAD VERSION_3_CHECKPOINTS VERSION_3_PINS VERSION_3_EDGES;

const char *const sqlite_migrations[SQL_SCHEMA_VERSION] = {version_1, version_2, version_3};
