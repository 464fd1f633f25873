/*
 * test_power.c: the power goes at any moment. Three processes work on one store, each with two writing threads and a third that collects,
 * vacuums, backs up and flushes through the same handle; one process flushes every step, the others do not. Their system calls are recorded
 * as they are made (harness/powercut.h). Then, at random moments of the record, images of the disk are made as a cut could leave it, and
 * each is the disk of the next *boot*: the store must open and pass fsck; whatever was acknowledged as flushed is there and right (steps of
 * the full process, checkpoints, fsyncs, syncs, backups, what was committed before a close); of the rest there is a prefix: what is there
 * has everything before it. No number is given out twice.
 *
 * Images are taken up again: some are opened under a record of their own and cut once more, in the first calls that open them among others.
 * And a real ext4 is shut down under them: what then fails must say that the disk does, not that the store is damaged.
 *
 * A boot's number is faked: in a private mount namespace where that can be had, else by changing the number the store remembers.
 * COWBOX_CRASH_ROUNDS sets the number of workloads; each gives several images.
 */
#include <dirent.h>
#include <pthread.h>
#include <sqlite3.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "base/hash.h"
#include "harness/boxes.h"
#include "harness/crashes.h"
#include "harness/mounts.h"
#include "harness/powercut_calls.h"
#include "store/store.h"

enum {
	CI_WORKLOADS = 1,
	CUTS = 6, /* of one life */
	CUTS_LATER = 2,
	PROCESSES = 3,
	THREADS = 2, /* that write, of each process */
	ACTIONS = 20,
	ACTIONS_LATER = 8,
	DEPTH = 2, /* cuts in a row */
	MAX_NOTES = 4096,
	CI_SHUTDOWNS = 1,
	LIMIT_SECONDS = 7200,
};

/* From the kernel's fs/ext4/ext4.h: not in its headers for programs. */
#define EXT4_IOC_SHUTDOWN _IOR('X', 125, uint32_t)
enum { EXT4_GOING_FLAGS_LOGFLUSH = 1, EXT4_GOING_FLAGS_NOLOGFLUSH = 2 };

/* Something that was acknowledged, as it stands in the record. */
typedef struct note {
	crash_event e;  /* CRASH_UPKEEP with a name: a backup of that name */
	uint64_t began; /* entries of the record when its call was made: what was acknowledged before is before it in the log too */
	uint64_t noted_at; /* set when it is read */
	uint64_t ino;      /* an inode number that was seen */
} note;

/* One life of a store. */
typedef struct life {
	const char *disk; /* the folder that is recorded */
	char store[620];
	power_log *log;
	uint64_t seed;
	unsigned depth, actions;
	bool fake_boot;
	bool real_disk; /* that is shut down under them: their calls fail then */
	uint64_t next_tag;
	uint64_t max_state, max_ino; /* given out in earlier lives */
	note *before;                /* survived earlier cuts: on disk */
	size_t before_count;
} life;

/* ---- boots ---- */

static bool boots_can_be_faked(void)
{
	if (mounts_try() && boots_try()) return true;
	test_note("no mounts here: boots are faked inside the images");
	return false;
}

/* Without mounts: appended to the log by SQLite itself, as any commit would be. */
static void boot_forget(const char *folder)
{
	char file[800];
	sqlite3 *db = NULL;
	(void)snprintf(file, sizeof(file), "%s/cowbox.db", folder);
	if (access(file, F_OK) != 0) return; /* cut before there was one */
	CHECK(sqlite3_open_v2(file, &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK);
	CHECK(sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL) == SQLITE_OK);
	(void)sqlite3_exec(db, "UPDATE meta SET value='another' WHERE key='boot_id'", NULL, NULL,
	                   NULL); /* no table: made again anyway */
	(void)sqlite3_close(db);
	(void)strcat(file, "-shm");
	(void)unlink(file);
}

static void boot_next(const life *l, const char *folder)
{
	static uint64_t boots = 1;
	if (l->fake_boot) boots_set(++boots);
	else boot_forget(folder);
}

/* ---- the workload: processes that have no harness around them ---- */

typedef struct worker {
	const life *l;
	cb_store *s;
	crash_actor actor;
	unsigned process, thread;
	bool full;
	test_rng rng;
	pthread_t id;
} worker;

static void die(const worker *w, const char *what, cb_code code, const cb_error *err)
{
	/* A disk that fails is told apart from damage. The whole process ends, as after a real one. */
	if (w->l->real_disk && (code == CB_IO || code == CB_READONLY)) _exit(0);
	test_note("process %u, thread %u: %s: %s: %s", w->process, w->thread, what, cb_code_name(code), err->message);
	_exit(3);
}

static void tell(const worker *w, const crash_event *e, uint64_t began, uint64_t ino)
{
	note n = {.e = *e, .began = began, .ino = ino};
	power_note(w->l->log, &n, sizeof(n));
}

static void tell_intent(void *context, const crash_event *intent)
{
	const worker *w = context;
	tell(w, intent, power_count(w->l->log), 0);
}

static void tell_synced(const worker *w, uint64_t began, const char *backup)
{
	crash_event e = {.kind = CRASH_UPKEEP, .synced = true};
	(void)snprintf(e.name, sizeof(e.name), "%s", backup);
	tell(w, &e, began, 0);
}

static uint64_t newest_inode(cb_box *b)
{
	cb_stat_info info = CB_INIT(cb_stat_info);
	uint64_t most = 0;
	for (unsigned slot = 0; slot < CRASH_KEY; slot++)
		if (cb_stat(b, crash_slot_path(slot), 0, &info, NULL) == CB_OK && info.ino > most) most = info.ino;
	return most;
}

static void *write_steps(void *context)
{
	worker *w = context;
	cb_error err = {0};
	w->actor.s = w->s;
	w->actor.rng.state = test_rand(&w->rng) | 1;
	w->actor.intend = tell_intent;
	w->actor.context = w;
	w->actor.next_tag = w->l->next_tag + ((uint64_t)(w->process * 8 + w->thread) << 32);
	(void)snprintf(w->actor.box, sizeof(w->actor.box), "b%u%u", w->process, w->thread);
	cb_code code = crash_actor_init(&w->actor, &err);
	if (code != CB_OK) die(w, "its box", code, &err);
	for (unsigned i = 0; i < w->l->actions; i++) {
		crash_event e;
		uint64_t began = power_count(w->l->log);
		/* Every third time something that goes to a segment. */
		code = i % 3 == 0 ? crash_write_pair(&w->actor, 2, &e, &err) : crash_act(&w->actor, &e, &err);
		if (code != CB_OK) die(w, "acting", code, &err);
		if (e.kind == CRASH_NOTHING) continue;
		e.synced = e.synced || (w->full && e.kind == CRASH_STEP);
		tell(w, &e, began, newest_inode(w->actor.b));
	}
	crash_actor_done(&w->actor);
	return NULL;
}

/* Beside the writers, through the same handle. */
static void *keep_up(void *context)
{
	worker *w = context;
	for (unsigned i = 0; i < 2 * w->l->actions; i++) {
		cb_error err = {0};
		cb_code code = CB_OK;
		char name[32] = "", path[700];
		uint64_t began = power_count(w->l->log), dice = test_rand_below(&w->rng, 32);
		if (dice < 4) {
			code = cb_store_gc(w->s, NULL, &err);
		} else if (dice < 30) {
			code = cb_store_vacuum(w->s, &err);
		} else if (dice == 30) {
			code = cb_store_sync(w->s, &err);
			if (code == CB_OK) tell_synced(w, began, "");
		} else {
			(void)snprintf(name, sizeof(name), "backup%u-%u-%u", w->l->depth, w->process, i);
			(void)snprintf(path, sizeof(path), "%s/%s", w->l->disk, name);
			code = cb_store_backup(w->s, path, &err);
			if (code == CB_OK) tell_synced(w, began, name);
		}
		if (code != CB_OK && code != CB_BUSY) die(w, "upkeep", code, &err);
		(void)usleep((useconds_t)test_rand_below(&w->rng, 5000));
	}
	return NULL;
}

static void process_run(const life *l, unsigned process)
{
	static worker all[THREADS + 1];
	cb_error err = {0};
	test_rng rng = {hash_u64(l->seed + process) | 1};
	worker me = {.l = l, .process = process, .full = (l->seed + process) % PROCESSES == 0};
	cb_code code = crash_store_open(l->store, NULL, me.full, &me.s, &err);
	if (code != CB_OK) die(&me, "opening", code, &err);
	for (unsigned i = 0; i <= THREADS; i++) {
		all[i] = me;
		all[i].thread = i;
		all[i].rng.state = test_rand(&rng) | 1;
		if (pthread_create(&all[i].id, NULL, i < THREADS ? write_steps : keep_up, &all[i]) != 0) _exit(4);
	}
	for (unsigned i = 0; i <= THREADS; i++) (void)pthread_join(all[i].id, NULL);
	uint64_t began = power_count(l->log);
	cb_store_close(me.s);
	if (l->real_disk) _exit(0);  /* closing does not say whether it could */
	tell_synced(&me, began, ""); /* closing flushes what is committed, whoever did it */
	_exit(0);
}

static void work(const life *l, void (*meanwhile)(void *context), void *context)
{
	pid_t pids[PROCESSES];
	int status = 0;
	for (unsigned i = 0; i < PROCESSES; i++) {
		pids[i] = fork();
		CHECK(pids[i] >= 0);
		if (pids[i] == 0) process_run(l, i);
	}
	if (meanwhile) meanwhile(context);
	for (unsigned i = 0; i < PROCESSES; i++) {
		CHECK(waitpid(pids[i], &status, 0) == pids[i]);
		CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "process %u ended with %d", i, status);
	}
}

/* ---- what must be true of an image ---- */

typedef struct diary {
	note *notes;
	size_t count;
	uint64_t cut; /* the entry before which a filesystem was shut down; 0: it was not */
} diary;

static const char cut_mark = 'c'; /* a note of its own size */

static void read_note(void *context, uint64_t entry, const void *bytes, size_t size)
{
	diary *d = context;
	if (size == sizeof(cut_mark)) {
		d->cut = entry;
		return;
	}
	CHECK(size == sizeof(note) && d->count < MAX_NOTES);
	memcpy(&d->notes[d->count], bytes, size);
	d->notes[d->count++].noted_at = entry;
}

/* Was it acknowledged as flushed while there was power? A flush that is under way when ext4 is shut down may succeed although its data are
 * dropped: extents that were not written before stay so, and nobody is told. After a real cut nobody is left to be told anything. */
static bool was_flushed(const diary *d, const note *n)
{
	return n->e.synced && (!d->cut || n->noted_at < d->cut);
}

static bool may_be_gone(const diary *d, const note *n)
{
	for (size_t i = 0; i < d->count; i++) {
		const crash_event *x = &d->notes[i].e;
		if (x->kind == CRASH_DELETE && strcmp(x->box, n->e.box) == 0) return true;
		if (x->kind == CRASH_PRUNE && strcmp(x->box, n->e.box) == 0 && n->e.kind == CRASH_STEP && n->e.seq < x->seq)
			return true;
	}
	return false;
}

static bool is_state(const note *n)
{
	return n->e.kind == CRASH_STEP || n->e.kind == CRASH_CHECKPOINT;
}

/* *out gets what is there, with the intents among it. */
static void check_notes(cb_store *s, const diary *d, diary *out)
{
	static crash_verdict found[MAX_NOTES];
	uint64_t needed = 0; /* what was acknowledged before this entry must be there */
	out->count = 0;
	for (size_t i = 0; i < d->count; i++) {
		const note *n = &d->notes[i];
		cb_error err = {0};
		found[i] = !is_state(n) ? CRASH_THERE : s ? crash_event_check(s, &n->e, &err) : CRASH_GONE;
		CHECK_MSG(found[i] == CRASH_THERE || found[i] == CRASH_GONE, "note %zu of %zu: %s", i, d->count, err.message);
		if (found[i] == CRASH_THERE) out->notes[out->count++] = *n;
		if (was_flushed(d, n) && n->began > needed) needed = n->began;
	}
	for (size_t i = 0; i < d->count; i++)
		if (is_state(&d->notes[i]) && found[i] == CRASH_THERE && d->notes[i].began > needed) needed = d->notes[i].began;
	for (size_t i = 0; i < d->count; i++) {
		const note *n = &d->notes[i];
		if (found[i] == CRASH_THERE || may_be_gone(d, n)) continue;
		if (n->e.synced && !was_flushed(d, n))
			test_note("%s@%" PRIu64 " was flushed after the shutdown", n->e.box, n->e.seq);
		CHECK_MSG(!was_flushed(d, n), "%s@%" PRIu64 " %s was acknowledged as flushed and is lost (note %zu of %zu)",
		          n->e.box, n->e.seq, n->e.name, i, d->count);
		CHECK_MSG(n->noted_at >= needed, "%s@%" PRIu64 " %s is lost, but something after it is flushed or there", n->e.box,
		          n->e.seq, n->e.name);
	}
	for (size_t k = 0; k < out->count; k++) {
		out->notes[k].e.synced = true;
		out->notes[k].noted_at = out->notes[k].began = 0;
	}
}

static cb_code head_is_whole(void *context, const cb_box_info *info, cb_error *err)
{
	crash_model model;
	cb_box *b = NULL;
	cb_code code = cb_box_open(context, info->name, &b, err);
	if (code == CB_OK) code = crash_model_read(b, CRASH_ALL, &model, err);
	cb_box_close(b);
	return code;
}

/* Numbers given out before the cut mean what they meant, or nothing. */
static void check_numbers(cb_store *s, uint64_t max_state, uint64_t max_ino)
{
	cb_error err = {0};
	cb_box *b = NULL;
	cb_box_info info = CB_INIT(cb_box_info);
	cb_stat_info st = CB_INIT(cb_stat_info);
	CHECK_OK(cb_box_create(s, "fresh", &b, &err));
	must_write(b, "/work/fresh", "after the cut");
	CHECK_OK(cb_box_info_get(b, &info, &err));
	CHECK_OK(cb_stat(b, "/work/fresh", 0, &st, &err));
	cb_box_close(b);
	CHECK_MSG(info.state > max_state, "state %" PRIu64 " again: %" PRIu64 " was given out", info.state, max_state);
	CHECK_MSG(st.ino > max_ino, "inode %" PRIu64 " again: %" PRIu64 " was given out", st.ino, max_ino);
}

static void check_backups(const char *disk, const diary *d)
{
	const note *last = NULL;
	for (size_t i = 0; i < d->count; i++)
		if (d->notes[i].e.kind == CRASH_UPKEEP && d->notes[i].e.name[0] && was_flushed(d, &d->notes[i]))
			last = &d->notes[i];
	if (!last) return;
	char path[800];
	cb_error err = {0};
	cb_store *s = NULL;
	(void)snprintf(path, sizeof(path), "%s/%s", disk, last->e.name);
	CHECK_OK(cb_store_open(path, &CB_WITH(cb_store_options, .no_create = true), &s, &err));
	CHECK_OK(cb_box_list(s, head_is_whole, s, &err));
	test_store_sound(s);
	cb_store_close(s);
}

/* A command with two words put in. */
static bool run(const char *format, const char *a, const char *b)
{
	char command[2000];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	(void)snprintf(command, sizeof(command), format, a, b);
#pragma GCC diagnostic pop
	return system(command) == 0;
}

static void remove_folder(const char *path)
{
	CHECK(run("rm -rf '%s'%s", path, ""));
}

/* Looks at a copy, so that the next life begins with the image as the cut left it. */
static void check_image(const life *l, const char *disk, const diary *d, life *next)
{
	char copy[700], folder[800];
	cb_error err = {0};
	cb_store *s = NULL;
	diary after = {next->before, 0};
	(void)snprintf(copy, sizeof(copy), "%s-look", disk);
	CHECK(run("cp -a '%s' '%s'", disk, copy));
	(void)snprintf(folder, sizeof(folder), "%s/store", copy);
	next->max_state = l->max_state;
	next->max_ino = l->max_ino;
	for (size_t i = 0; i < d->count; i++) {
		if (d->notes[i].e.state > next->max_state) next->max_state = d->notes[i].e.state;
		if (d->notes[i].ino > next->max_ino) next->max_ino = d->notes[i].ino;
	}
	/* Before anything was flushed there may be no store at all, or none yet. */
	if (access(folder, F_OK) == 0) CHECK_OK(crash_store_open(folder, NULL, false, &s, &err));
	check_notes(s, d, &after);
	next->before_count = after.count;
	if (s) {
		CHECK_OK(cb_box_list(s, head_is_whole, s, &err));
		test_store_sound(s);
		check_numbers(s, next->max_state, next->max_ino);
		cb_store_close(s);
	}
	check_backups(copy, d);
	remove_folder(copy);
}

/* ---- cuts ---- */

static int compare_moments(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

static unsigned live_and_die(life *l, test_rng *rng, unsigned cuts);

/* One cut, and perhaps a life after it. Gives the number of images looked at. */
static unsigned cut(const life *l, const power_model *m, const diary *d, test_rng *rng)
{
	static unsigned serial;
	char disk[600];
	note *survived = calloc(MAX_NOTES, sizeof(*survived));
	life next = {.disk = disk, .depth = l->depth + 1, .actions = ACTIONS_LATER, .fake_boot = l->fake_boot, .before = survived};
	CHECK(survived != NULL);
	next.seed = test_rand(rng);
	next.next_tag = l->next_tag + 100000;
	(void)snprintf(disk, sizeof(disk), "%s/image%u", test_tmpdir(), serial++);
	(void)snprintf(next.store, sizeof(next.store), "%s/store", disk);
	power_image(m, rng, disk);
	boot_next(l, next.store);
	check_image(l, disk, d, &next);
	unsigned images = 1;
	if (next.depth < DEPTH && test_rand_below(rng, 6) == 0) images += live_and_die(&next, rng, CUTS_LATER);
	remove_folder(disk);
	free(survived);
	return images;
}

static unsigned live_and_die(life *l, test_rng *rng, unsigned cuts)
{
	char live_file[700];
	diary d = {calloc(MAX_NOTES, sizeof(note)), 0};
	uint64_t moments[CUTS];
	unsigned images = 0;
	CHECK(d.notes != NULL && cuts <= CUTS);
	(void)snprintf(live_file, sizeof(live_file), "%s/live", l->store);
	l->log = power_log_create(l->disk, live_file);
	uint64_t first = power_count(l->log); /* what was there before is on disk */
	power_log_shake(l->log, l->seed);
	power_log_use(l->log);
	work(l, NULL, NULL);
	power_log_use(NULL);
	for (size_t i = 0; i < l->before_count; i++) d.notes[d.count++] = l->before[i];
	uint64_t last = power_count(l->log);
	/* Some in the very beginning, where the store is made or taken up again, and the end. */
	for (unsigned i = 0; i < cuts; i++)
		moments[i] = first + test_rand_below(rng, i < cuts / 4 + 1 && last - first > 200 ? 200 : last - first + 1);
	moments[cuts - 1] = last;
	qsort(moments, cuts, sizeof(*moments), compare_moments);
	power_model *m = power_model_create(l->log);
	for (unsigned i = 0; i < cuts; i++) {
		power_model_advance(m, moments[i], read_note, &d);
		images += cut(l, m, &d, rng);
	}
	test_note("%sdepth %u: %" PRIu64 " calls and notes, %zu notes", "", l->depth, last - first, d.count);
	power_model_destroy(m);
	power_log_destroy(l->log);
	free(d.notes);
	return images;
}

TEST_LIMIT(power_cuts, LIMIT_SECONDS)
{
	const char *text = getenv("COWBOX_CRASH_ROUNDS");
	unsigned workloads = text ? (unsigned)atoi(text) / 20 + 1 : CI_WORKLOADS, images = 0;
	bool fake_boot = boots_can_be_faked();
	test_rng rng = {test_seed() | 1};
	for (unsigned i = 0; i < workloads; i++) {
		char disk[512];
		(void)snprintf(disk, sizeof(disk), "%s/disk%u", test_tmpdir(), i);
		CHECK(mkdir(disk, 0700) == 0);
		life l = {.disk = disk, .seed = test_rand(&rng), .actions = ACTIONS, .fake_boot = fake_boot, .next_tag = 1};
		(void)snprintf(l.store, sizeof(l.store), "%s/store", disk);
		images += live_and_die(&l, &rng, CUTS);
		remove_folder(disk);
	}
	test_note("%u workloads, %u images", workloads, images);
}

/* ---- large contents ---- */

/*
 * As an unpack does it: contents are put into the store before anything refers to them, outside the writer lock, while another thread
 * vacuums through the same handle and takes the segment away under them. Every put is flushed when it returns.
 */
enum { PUTTERS = 3, PUTS = 40, PUT_BYTES = 700 << 10 };

typedef struct put_note {
	uint64_t id, size, tag;
} put_note;

typedef struct putting {
	power_log *log;
	store *s;
	uint64_t seed;
	_Atomic unsigned running;
} putting;

static void put_fill(uint8_t *bytes, const put_note *n)
{
	test_rng r = {hash_u64(n->tag) | 1};
	for (size_t i = 0; i < n->size; i += 8) {
		uint64_t word = test_rand(&r);
		memcpy(bytes + i, &word, n->size - i < 8 ? n->size - i : 8);
	}
}

static void *put_many(void *context)
{
	putting *p = context;
	uint8_t *bytes = malloc(PUT_BYTES);
	for (unsigned i = 0; bytes && i < PUTS; i++) {
		cb_error err = {0};
		put_note n = {.tag = p->seed + (uint64_t)(uintptr_t)bytes + i};
		n.size = (70 << 10) + hash_u64(n.tag) % (PUT_BYTES - (70 << 10));
		put_fill(bytes, &n);
		if (store_content_put(p->s, span_make(bytes, n.size), &n.id, &err) != CB_OK) {
			test_note("put: %s", err.message);
			_exit(3);
		}
		power_note(p->log, &n, sizeof(n));
	}
	free(bytes);
	(void)atomic_fetch_sub(&p->running, 1);
	return NULL;
}

static void put_beside_vacuum(const char *folder, power_log *log, uint64_t seed)
{
	cb_error err = {0};
	pthread_t threads[PUTTERS];
	putting p = {.log = log, .seed = seed, .running = PUTTERS};
	if (store_open(&(store_options){.path = folder, .create = true, .durability = STORE_FULL}, &p.s, &err) != CB_OK) _exit(4);
	for (unsigned i = 0; i < PUTTERS; i++)
		if (pthread_create(&threads[i], NULL, put_many, &p) != 0) _exit(4);
	while (atomic_load(&p.running) > 0)
		if (store_vacuum(p.s, &err) != CB_OK) _exit(5);
	for (unsigned i = 0; i < PUTTERS; i++) (void)pthread_join(threads[i], NULL);
	store_close(p.s);
	_exit(0);
}

typedef struct put_list {
	put_note notes[PUTTERS * PUTS];
	size_t count;
} put_list;

static void read_put(void *context, uint64_t entry, const void *bytes, size_t size)
{
	put_list *l = context;
	(void)entry;
	CHECK(size == sizeof(put_note) && l->count < PUTTERS * PUTS);
	memcpy(&l->notes[l->count++], bytes, size);
}

static void check_puts(const char *folder, const put_list *l)
{
	cb_error err = {0};
	store *s = NULL;
	uint8_t *expected = malloc(PUT_BYTES);
	CHECK(expected != NULL);
	CHECK_OK(store_open(&(store_options){.path = folder, .create = true}, &s, &err));
	for (size_t i = 0; i < l->count; i++) {
		blob *b = NULL;
		put_fill(expected, &l->notes[i]);
		CHECK_OK(store_content_get(s, l->notes[i].id, &b, &err));
		CHECK(b->size == l->notes[i].size && memcmp(b->bytes, expected, b->size) == 0);
		blob_unref(b);
	}
	store_close(s);
	free(expected);
}

TEST_LIMIT(large_contents_beside_vacuum, LIMIT_SECONDS)
{
	const char *text = getenv("COWBOX_CRASH_ROUNDS");
	unsigned workloads = text ? (unsigned)atoi(text) / 50 + 1 : 1;
	bool fake_boot = boots_can_be_faked();
	test_rng rng = {test_seed() | 1};
	for (unsigned w = 0; w < workloads; w++) {
		static put_list l;
		char disk[512], folder[700], image_disk[600];
		int status = 0;
		l.count = 0;
		(void)snprintf(disk, sizeof(disk), "%s/puts", test_tmpdir());
		(void)snprintf(folder, sizeof(folder), "%s/store", disk);
		(void)snprintf(image_disk, sizeof(image_disk), "%s/image", test_tmpdir());
		CHECK(mkdir(disk, 0700) == 0);
		power_log *log = power_log_create(disk, NULL);
		power_log_shake(log, test_rand(&rng));
		power_log_use(log);
		pid_t pid = fork();
		if (pid == 0) put_beside_vacuum(folder, log, test_rand(&rng));
		power_log_use(NULL);
		CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
		CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the puts ended with %d", status);
		power_model *m = power_model_create(log);
		(void)snprintf(folder, sizeof(folder), "%s/store", image_disk);
		for (unsigned i = 1; i <= 6; i++) {
			power_model_advance(m, power_count(log) * i / 6, read_put, &l);
			power_image(m, &rng, image_disk);
			boot_next(&(life){.fake_boot = fake_boot}, folder);
			check_puts(folder, &l);
			remove_folder(image_disk);
		}
		power_model_destroy(m);
		power_log_destroy(log);
		remove_folder(disk);
	}
}

/* ---- a real filesystem, shut down ---- */

typedef struct shutting {
	int fd; /* of the filesystem */
	power_log *log;
	test_rng rng;
} shutting;

static void shut_down(void *context)
{
	shutting *d = context;
	/* Dropping the journal's memory, as a power cut does, or writing it out first. */
	uint32_t how = test_rand_below(&d->rng, 3) ? EXT4_GOING_FLAGS_NOLOGFLUSH : EXT4_GOING_FLAGS_LOGFLUSH;
	(void)usleep((useconds_t)test_rand_below(&d->rng, 400000));
	power_note(d->log, &cut_mark, sizeof(cut_mark));
	CHECK(ioctl(d->fd, EXT4_IOC_SHUTDOWN, &how) == 0);
}

TEST_LIMIT(ext4_shut_down, LIMIT_SECONDS)
{
	const char *text = getenv("COWBOX_CRASH_ROUNDS");
	unsigned rounds = text ? (unsigned)atoi(text) / 20 + 1 : CI_SHUTDOWNS;
	char file[512], disk[512], store_folder[600];
	test_rng rng = {test_seed() | 1};
	(void)snprintf(file, sizeof(file), "%s/ext4", test_tmpdir());
	(void)snprintf(disk, sizeof(disk), "%s/mnt", test_tmpdir());
	(void)snprintf(store_folder, sizeof(store_folder), "%s/store", disk);
	if (geteuid() != 0) test_lacks("root", "only root can mount and shut down a filesystem");
	bool fake_boot = boots_can_be_faked(); /* and mounts of our own, which end with us */
	CHECK(mkdir(disk, 0700) == 0);
	for (unsigned i = 0; i < rounds; i++) {
		diary d = {calloc(MAX_NOTES, sizeof(note)), 0};
		note *survived = calloc(MAX_NOTES, sizeof(*survived));
		CHECK(d.notes && survived);
		if (!run("rm -f '%s' && truncate -s 300M '%s'", file, file) || !run("mkfs.ext4 -q -F '%s'%s", file, ""))
			test_skip("no mkfs.ext4");
		if (!run("mount -o loop '%s' '%s'", file, disk)) test_lacks("loop", "no loop mounts here");
		life l = {.disk = disk, .seed = test_rand(&rng), .actions = 400, .real_disk = true, .fake_boot = fake_boot};
		(void)snprintf(l.store, sizeof(l.store), "%s", store_folder);
		l.log = power_log_create(disk, NULL);
		shutting down = {open(disk, O_RDONLY | O_DIRECTORY | O_CLOEXEC), l.log, {test_rand(&rng) | 1}};
		CHECK(down.fd >= 0);
		work(&l, shut_down, &down);
		(void)close(down.fd);
		CHECK(run("umount '%s'%s", disk, "") && run("mount -o loop '%s' '%s'", file, disk));
		power_model *m = power_model_create(l.log);
		power_model_advance(m, power_count(l.log), read_note, &d);
		life next = {.before = survived, .fake_boot = fake_boot};
		boot_next(&l, store_folder);
		check_image(&l, disk, &d, &next);
		test_note("%zu of %zu notes survived", next.before_count, d.count);
		power_model_destroy(m);
		power_log_destroy(l.log);
		CHECK(run("umount '%s'%s", disk, ""));
		free(d.notes);
		free(survived);
	}
}

/* ---- numbers ---- */

/* More numbers than were ever skipped at a boot, in one commit that no flush follows: they were seen, and may be lost. */
TEST(many_numbers_before_a_cut)
{
	enum { MANY = 3 << 20, IMAGES = 8 };
	char disk[512], folder[700], image_disk[600];
	cb_error err = {0};
	store *s = NULL;
	uint64_t first[STORE_EPOCH] = {0};
	test_rng rng = {test_seed() | 1};
	bool fake_boot = boots_can_be_faked();
	(void)snprintf(disk, sizeof(disk), "%s/disk", test_tmpdir());
	(void)snprintf(folder, sizeof(folder), "%s/store", disk);
	(void)snprintf(image_disk, sizeof(image_disk), "%s/image", test_tmpdir());
	CHECK(mkdir(disk, 0700) == 0);
	power_log *log = power_log_create(disk, NULL);
	power_log_use(log);
	CHECK_OK(store_open(&(store_options){.path = folder, .create = true}, &s, &err));
	CHECK_OK(store_write_begin(s, &err));
	for (int i = 0; i < STORE_EPOCH; i++) CHECK_OK(store_take(s, (store_counter)i, MANY, &first[i], &err));
	CHECK_OK(store_write_commit(s, false, &err));
	power_log_use(NULL);
	power_model *m = power_model_create(log);
	power_model_advance(m, power_count(log), NULL, NULL);
	for (unsigned k = 0; k < IMAGES; k++) {
		store *after = NULL;
		power_image(m, &rng, image_disk);
		(void)snprintf(folder, sizeof(folder), "%s/store", image_disk);
		boot_next(&(life){.fake_boot = fake_boot}, folder);
		CHECK_OK(store_open(&(store_options){.path = folder}, &after, &err));
		CHECK_OK(store_write_begin(after, &err));
		for (int i = 0; i < STORE_EPOCH; i++) {
			uint64_t next = 0;
			CHECK_OK(store_take(after, (store_counter)i, 1, &next, &err));
			CHECK_MSG(next >= first[i] + MANY, "counter %d: %" PRIu64 " is given out again", i, next);
		}
		store_write_abort(after);
		store_close(after);
		remove_folder(image_disk);
	}
	store_close(s);
	power_model_destroy(m);
	power_log_destroy(log);
}
