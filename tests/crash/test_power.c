/*
 * test_power.c: the power goes at any write. A workload runs on a store whose files are recorded (store/fault.h); at random writes an image
 * is taken as a power cut could leave it: of every page that was not flushed the old or the new bytes, lengths and names likewise. Each
 * image is then the disk of the next *boot*: the store must open and pass fsck. In full mode every acknowledged event is there; in fast
 * mode all up to the last flushed one, and of the rest a prefix in the order of acknowledgement. No number is given out twice.
 *
 * Cuts follow each other: an image is opened under a record of its own and cut again, at its first writes or while it is still being
 * opened. A boot's number is faked: in a private mount namespace where that can be had, else by changing the number the store remembers.
 * COWBOX_CRASH_ROUNDS sets the number of workloads; each gives several images.
 */
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <unistd.h>

#include "harness/boxes.h"
#include "harness/crashes.h"
#include "store/fault.h"

enum {
	CI_WORKLOADS = 30, /* both modes together */
	MAX_EVENTS = 512,
	MAX_CUTS = 4, /* of one run */
	MAX_SEGMENTS = 64,
	ACTIONS = 70,
	ACTIONS_LATER = 25,
	DEPTH = 3, /* cuts in a row */
	LIMIT_SECONDS = 7200,
};

/* What was acknowledged, in order. Intents stand among the events. */
typedef struct diary {
	crash_event events[MAX_EVENTS];
	size_t count;
} diary;

typedef struct image {
	char path[600];
	size_t acknowledged; /* events in the diary when the power went */
	uint64_t max_state, max_ino;
} image;

typedef struct run {
	bool full;
	store_fault_plan plan;
	test_rng rng, dice;
	diary log;
	uint64_t max_state, max_ino; /* given out so far, in this life or an earlier one */
	uint64_t next_tag;
	image images[MAX_CUTS];
	unsigned image_count;
	const char *folder;              /* of all images */
	char segments[MAX_SEGMENTS][32]; /* that were there when this life began */
	size_t segment_count;
	const char *home; /* the store of this life */
	unsigned *serial;
	unsigned depth;
	bool fake_boot;
} run;

/* ---- boots ---- */

static char boot_file[512];
static const char boot_id[] = "/proc/sys/kernel/random/boot_id";

static void boot_write(uint64_t n)
{
	FILE *f = fopen(boot_file, "we");
	CHECK(f != NULL);
	(void)fprintf(f, "%08x-0000-4000-8000-%012llx\n", (unsigned)n, (unsigned long long)n);
	CHECK(fclose(f) == 0);
}

static bool write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	if (fd >= 0) (void)close(fd);
	return ok;
}

/* A mount namespace, by right or through a user namespace in which we stay who we are. */
static bool own_mounts(void)
{
	char map[64];
	unsigned uid = (unsigned)geteuid(), gid = (unsigned)getegid();
	if (unshare(CLONE_NEWNS) == 0) return true;
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
	(void)snprintf(map, sizeof(map), "%u %u 1", uid, uid);
	bool ok = write_text("/proc/self/setgroups", "deny") && write_text("/proc/self/uid_map", map);
	(void)snprintf(map, sizeof(map), "%u %u 1", gid, gid);
	return ok && write_text("/proc/self/gid_map", map);
}

static bool boots_can_be_faked(void)
{
	(void)snprintf(boot_file, sizeof(boot_file), "%s/boot_id", test_tmpdir());
	boot_write(1);
	if (own_mounts() && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	    mount(boot_file, boot_id, NULL, MS_BIND, NULL) == 0)
		return true;
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

static void boot_next(const run *r, const char *folder)
{
	static uint64_t boots = 1;
	if (r->fake_boot) boot_write(++boots);
	else boot_forget(folder);
}

/* ---- the workload ---- */

static void note_event(run *r, const crash_event *e)
{
	CHECK(r->log.count < MAX_EVENTS);
	r->log.events[r->log.count++] = *e;
	if (e->state > r->max_state) r->max_state = e->state;
}

static void note_intent(void *context, const crash_event *intent)
{
	note_event(context, intent);
}

static uint64_t pick(void *context, uint64_t n)
{
	return test_rand_below(context, n);
}

static void copy_folder(const char *from, const char *to)
{
	char command[1600];
	(void)snprintf(command, sizeof(command), "cp -a '%s' '%s'", from, to);
	CHECK(system(command) == 0);
}

static void remove_folder(const char *path)
{
	char command[800];
	(void)snprintf(command, sizeof(command), "rm -rf '%s'", path);
	CHECK(system(command) == 0);
}

static void segments_list(run *r)
{
	char path[700];
	(void)snprintf(path, sizeof(path), "%s/seg", r->home);
	r->segment_count = 0;
	DIR *d = opendir(path);
	if (!d) return;
	for (const struct dirent *e; (e = readdir(d));) {
		if (e->d_name[0] == '.') continue;
		CHECK(r->segment_count < MAX_SEGMENTS);
		(void)snprintf(r->segments[r->segment_count++], sizeof(r->segments[0]), "%.31s", e->d_name);
	}
	(void)closedir(d);
}

/* The record follows segments that were appended to; those of an earlier life that were only read are on disk as they are. */
static void segments_complete(const run *r, const char *image_folder)
{
	char from[700], to[700];
	for (size_t i = 0; i < r->segment_count; i++) {
		(void)snprintf(from, sizeof(from), "%s/seg/%s", r->home, r->segments[i]);
		(void)snprintf(to, sizeof(to), "%s/seg/%s", image_folder, r->segments[i]);
		if (access(from, F_OK) == 0 && access(to, F_OK) != 0) copy_folder(from, to);
	}
}

/* Called by the store just before a write: takes an image and decides when the next one comes. */
static void power_goes(store_fault_plan *plan, void *context)
{
	run *r = context;
	cb_error err = {0};
	image *i = &r->images[r->image_count];
	(void)snprintf(i->path, sizeof(i->path), "%s/image%u", r->folder, (*r->serial)++);
	i->acknowledged = r->log.count;
	i->max_state = r->max_state;
	i->max_ino = r->max_ino;
	CHECK_OK(store_fault_cut(plan, NULL, pick, &r->dice, i->path, &err));
	segments_complete(r, i->path);
	if (++r->image_count < MAX_CUTS) plan->cut_at_write = 1 + (long)test_rand_below(&r->dice, r->depth ? 30 : 150);
}

static void learn_inode(run *r, cb_box *b)
{
	cb_stat_info info;
	for (unsigned slot = 0; slot < CRASH_KEY; slot++)
		if (cb_stat(b, crash_slot_path(slot), 0, &info, NULL) == CB_OK && info.ino > r->max_ino) r->max_ino = info.ino;
}

static void act_once(run *r, crash_actor *a)
{
	cb_error err = {0};
	crash_event e;
	CHECK_OK(crash_act(a, &e, &err));
	if (e.kind != CRASH_NOTHING) note_event(r, &e);
	learn_inode(r, a->b);
	if (test_rand_below(&r->rng, 40) == 0) {
		CHECK_OK(cb_store_sync(a->s, &err));
		note_event(r, &(crash_event){.kind = CRASH_UPKEEP, .synced = true});
	}
}

/* Closing flushes: what was acknowledged before is as good as synced. */
static void act_many(run *r, const char *folder, unsigned actions)
{
	cb_error err = {0};
	crash_actor a = {.box = "box",
	                 .rng = {test_rand(&r->rng)},
	                 .next_tag = r->next_tag,
	                 .vacuum = true,
	                 .intend = note_intent,
	                 .context = r};
	unsigned lives = 1 + (unsigned)test_rand_below(&r->rng, 2);
	for (unsigned life = 0; life < lives && r->image_count < MAX_CUTS; life++) {
		CHECK_OK(crash_store_open(folder, &r->plan, r->full, &a.s, &err));
		CHECK_OK(crash_actor_init(&a, &err));
		for (unsigned i = 0; i < actions / lives && r->image_count < MAX_CUTS; i++) act_once(r, &a);
		crash_actor_done(&a);
		cb_store_close(a.s);
		note_event(r, &(crash_event){.kind = CRASH_UPKEEP, .synced = true});
	}
	r->next_tag = a.next_tag;
}

/* ---- what must be true of an image ---- */

static bool may_be_gone(const diary *d, size_t at)
{
	const crash_event *e = &d->events[at];
	for (size_t i = 0; i < d->count; i++) {
		const crash_event *x = &d->events[i];
		if (x->kind == CRASH_DELETE && strcmp(x->box, e->box) == 0) return true;
		if (x->kind == CRASH_PRUNE && strcmp(x->box, e->box) == 0 && e->kind == CRASH_STEP && e->seq < x->seq) return true;
	}
	return false;
}

/* What comes after the first lost event must be lost too. *out: those that are there, flushed now by having survived, and the intents
 * among them. */
static void check_events(const run *r, cb_store *s, const diary *d, diary *out)
{
	size_t needed = 0, first_lost = d->count;
	out->count = 0;
	for (size_t i = 0; i < d->count; i++)
		if (r->full || d->events[i].synced) needed = i + 1;
	for (size_t i = 0; i < d->count; i++) {
		const crash_event *e = &d->events[i];
		cb_error err = {0};
		bool is_state = e->kind == CRASH_STEP || e->kind == CRASH_CHECKPOINT;
		crash_verdict v = is_state ? crash_event_check(s, e, &err) : CRASH_THERE;
		if (v == CRASH_THERE) out->events[out->count++] = *e;
		if (!is_state) continue;
		CHECK_MSG(v == CRASH_THERE || v == CRASH_GONE, "depth %u: event %zu of %zu: %s", r->depth, i, d->count,
		          err.message);
		if (v == CRASH_GONE && !may_be_gone(d, i)) {
			CHECK_MSG(i >= needed, "depth %u: %s@%" PRIu64 " %s is lost, number %zu of %zu, %zu of them flushed",
			          r->depth, e->box, e->seq, e->name, i, d->count, needed);
			if (first_lost == d->count) first_lost = i;
		}
		CHECK_MSG(v == CRASH_GONE || i < first_lost,
		          "depth %u: %s@%" PRIu64 " is there (%zu) but an earlier one (%zu) is not", r->depth, e->box, e->seq, i,
		          first_lost);
	}
	for (size_t k = 0; k < out->count; k++) out->events[k].synced = true;
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
static void check_numbers(cb_store *s, const image *i)
{
	cb_error err = {0};
	cb_box *b = NULL;
	cb_box_info info;
	cb_stat_info st;
	cb_code code = cb_box_open(s, "box", &b, &err);
	if (code == CB_NOTFOUND) code = cb_box_create(s, "box", &b, &err);
	CHECK_OK(code);
	must_write(b, "/work/fresh", "after the cut");
	CHECK_OK(cb_box_info_get(b, &info, &err));
	CHECK_OK(cb_stat(b, "/work/fresh", 0, &st, &err));
	CHECK_OK(cb_unlink(b, "/work/fresh", &err));
	cb_box_close(b);
	CHECK_MSG(info.state > i->max_state, "state %" PRIu64 " again: %" PRIu64 " was given out", info.state, i->max_state);
	CHECK_MSG(st.ino > i->max_ino, "inode %" PRIu64 " again: %" PRIu64 " was given out", st.ino, i->max_ino);
}

static void check_image(const run *r, const char *folder, const image *i, const diary *before, diary *out_after)
{
	cb_error err = {0};
	cb_store *s = NULL;
	CHECK_OK(crash_store_open(folder, NULL, r->full, &s, &err));
	check_events(r, s, before, out_after);
	CHECK_OK(cb_box_list(s, head_is_whole, s, &err));
	test_store_sound(s);
	check_numbers(s, i);
	cb_store_close(s);
}

/* ---- cuts in a row ---- */

static unsigned live_and_die(run *r, const char *folder, unsigned actions);

/* The image is looked at in a copy, so that the next life begins with it as the cut left it. */
static unsigned next_life(const run *r, const image *i)
{
	static run lives[DEPTH];
	char copy[700];
	run *next = &lives[r->depth];
	diary before = {.count = 0};
	memcpy(&before, &r->log, sizeof(before));
	before.count = i->acknowledged;
	*next = (run){.full = r->full, .rng = {test_rand(&(test_rng){r->rng.state + i->acknowledged})}, .max_state = i->max_state};
	next->dice.state = next->rng.state + 1;
	next->max_ino = i->max_ino;
	next->next_tag = r->next_tag + 1000;
	next->folder = r->folder;
	next->serial = r->serial;
	next->depth = r->depth + 1;
	next->fake_boot = r->fake_boot;
	boot_next(r, i->path);
	(void)snprintf(copy, sizeof(copy), "%s-look", i->path);
	copy_folder(i->path, copy);
	check_image(next, copy, i, &before, &next->log);
	remove_folder(copy);
	unsigned images = 1;
	if (next->depth < DEPTH && test_rand_below(&next->rng, 3) == 0) images += live_and_die(next, i->path, ACTIONS_LATER);
	remove_folder(i->path);
	return images;
}

/* One life on a folder, cut several times; each cut is followed up. Gives the number of images looked at. */
static unsigned live_and_die(run *r, const char *folder, unsigned actions)
{
	r->plan = (store_fault_plan){.record = true, .cut = power_goes, .cut_context = r};
	r->plan.cut_at_write = 1 + (long)test_rand_below(&r->dice, r->depth ? 12 : 150);
	r->home = folder;
	segments_list(r);
	act_many(r, folder, actions);
	unsigned images = 0;
	for (unsigned i = 0; i < r->image_count; i++) images += next_life(r, &r->images[i]);
	store_fault_plan_done(&r->plan);
	return images;
}

static void power_cuts(bool full)
{
	static run r;
	const char *text = getenv("COWBOX_CRASH_ROUNDS");
	unsigned workloads = text ? (unsigned)atoi(text) / 10 + 1 : CI_WORKLOADS / 2;
	unsigned serial = 0, images = 0;
	bool fake_boot = boots_can_be_faked();
	test_rng seeds = {test_seed() + full};
	for (unsigned i = 0; i < workloads; i++) {
		char folder[512];
		(void)snprintf(folder, sizeof(folder), "%s/store%u", test_tmpdir(), i);
		r = (run){.full = full,
		          .rng = {test_rand(&seeds)},
		          .dice = {test_rand(&seeds)},
		          .next_tag = 1,
		          .folder = test_tmpdir()};
		r.serial = &serial;
		r.fake_boot = fake_boot;
		images += live_and_die(&r, folder, ACTIONS);
		remove_folder(folder);
	}
	test_note("%u workloads, %u images", workloads, images);
	if (!text) CHECK(images >= 40);
}

TEST_LIMIT(power_fast, LIMIT_SECONDS)
{
	power_cuts(false);
}

TEST_LIMIT(power_full, LIMIT_SECONDS)
{
	power_cuts(true);
}
