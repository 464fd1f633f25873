/*
 * test_full_disk.c: a small real filesystem fills up. CB_NOSPACE comes from the calls that need room, nothing acknowledged is lost,
 * reads and fsck go on working, and when room is made writes go on without opening the store again.
 *
 * An ext4 image on a loop device where that can be had, else a tmpfs; in a mount namespace of the test's own, so nothing leaks.
 */
#include <unistd.h>

#include "base/err.h"
#include "harness/boxes.h"
#include "harness/crashes.h"
#include "harness/disks.h"

enum {
	DISK_BYTES = 48 << 20, /* what the rounds leave must fit twice: vacuum writes it anew */
	MAX_EVENTS = 8192,
	FILLS = 8,
};

/* ---- filling ---- */

typedef struct filling {
	disk d;
	crash_actor a;
	crash_event *events;
	size_t count;
	uint64_t floor;
	unsigned refused;
} filling;

static void intend(void *context, const crash_event *intent)
{
	filling *f = context;
	if (intent->kind == CRASH_PRUNE && intent->seq > f->floor) f->floor = intent->seq;
	if (intent->kind != CRASH_DELETE) return;
	size_t kept = 0;
	for (size_t i = 0; i < f->count; i++)
		if (strcmp(f->events[i].box, intent->box) != 0) f->events[kept++] = f->events[i];
	f->count = kept;
}

static void check_all(filling *f, const char *when)
{
	for (size_t i = 0; i < f->count; i++) {
		const crash_event *e = &f->events[i];
		cb_error err = {0};
		crash_verdict v = crash_event_check(f->a.s, e, &err);
		bool excused = v == CRASH_GONE && e->kind == CRASH_STEP && strcmp(e->box, "box") == 0 && e->seq < f->floor;
		CHECK_MSG(v == CRASH_THERE || excused, "%s: acknowledged %s@%" PRIu64 " %s: %s", when, e->box, e->seq, e->name,
		          v == CRASH_GONE ? "gone" : err.message);
	}
}

/* Writes until `refusals` calls in a row were refused for lack of room. Each refused call must leave the box as it was. */
static void fill(filling *f, unsigned refusals)
{
	unsigned in_a_row = 0;
	for (unsigned i = 0; i < 3000 && in_a_row < refusals; i++) {
		cb_error err = {0};
		crash_event e = {0};
		crash_model now;
		cb_code code = crash_act(&f->a, &e, &err);
		CHECK_MSG(code == CB_OK || code == CB_NOSPACE, "on a full disk: %s: %s", cb_code_name(code), err.message);
		if (code == CB_NOSPACE) {
			in_a_row++;
			f->refused++;
			CHECK_OK(crash_model_read(f->a.b, CRASH_ALL, &now, &err));
			/* A call made of several steps (fork, then opening it) may have done the first. */
			CHECK_MSG(memcmp(&now, &f->a.now, sizeof(now)) == 0, "a refused call changed the box");
			continue;
		}
		in_a_row = 0;
		if ((e.kind == CRASH_STEP || e.kind == CRASH_CHECKPOINT) && f->count < MAX_EVENTS) f->events[f->count++] = e;
	}
	CHECK_MSG(in_a_row == refusals, "the disk never got full");
}

static cb_code open_again(filling *f, cb_error *err)
{
	CB_TRY(crash_store_open(f->d.folder, NULL, false, &f->a.s, err));
	return crash_actor_init(&f->a, err);
}

/* With no room at all it may be refused: the log's index must be made. But then with a reason, and for as long as there is no room. */
static bool reopen(filling *f)
{
	cb_error err = {0};
	crash_actor_done(&f->a);
	cb_store_close(f->a.s);
	f->a.s = NULL;
	cb_code code = open_again(f, &err);
	CHECK_MSG(code == CB_OK || code == CB_NOSPACE, "opening on a full disk: %s: %s", cb_code_name(code), err.message);
	return code == CB_OK;
}

static void one_fill(filling *f, unsigned round)
{
	cb_error err = {0};
	crash_event e = {0};
	ballast_load(&f->d, (512 << 10) + test_rand_below(&f->a.rng, 1 << 20));
	fill(f, 4);
	check_all(f, "full");
	test_store_sound(f->a.s);
	bool is_open = round % 3 != 1 || reopen(f);
	if (is_open) check_all(f, "full, opened again");
	ballast_drop(&f->d);
	if (!is_open) {
		crash_actor_done(&f->a);
		cb_store_close(f->a.s);
		CHECK_OK(open_again(f, &err));
	}
	CHECK_OK(crash_write_pair(&f->a, 2, &e, &err));
	f->events[f->count++] = e;
	CHECK_OK(crash_checkpoint(&f->a, &e, &err));
	check_all(f, "room again");
	test_store_sound(f->a.s);
	/* Room for the next round. */
	CHECK_OK(crash_prune(&f->a, 3, &e, &err));
	CHECK_OK(cb_store_gc(f->a.s, NULL, &err));
	CHECK_OK(cb_store_vacuum(f->a.s, &err));
	check_all(f, "thinned");
}

static void full_disk(disk_kind kind)
{
	static filling f;
	cb_error err = {0};
	disk_make(&f.d, kind, DISK_BYTES);
	f.events = calloc(MAX_EVENTS + 64, sizeof(*f.events));
	CHECK(f.events != NULL);
	f.a = (crash_actor){.box = "box", .rng = {test_seed()}, .next_tag = 1, .intend = intend, .context = &f};
	CHECK_OK(crash_store_open(f.d.folder, NULL, false, &f.a.s, &err));
	CHECK_OK(crash_actor_init(&f.a, &err));
	for (unsigned i = 0; i < test_dose(FILLS); i++) one_fill(&f, i);
	crash_actor_done(&f.a);
	cb_store_close(f.a.s);
	free(f.events);
	disk_unmount(&f.d);
	test_note("%u calls refused", f.refused);
}

/* ---- opening with little room ---- */

static void expect_seen(cb_box *writer, cb_box *reader, const char *text, unsigned spare)
{
	must_write(writer, "/work/said", text);
	char *seen = must_read(reader, "/work/said");
	CHECK_MSG(strcmp(seen, text) == 0, "with %u bytes of room: a handle sees '%s' after another wrote '%s'", spare, seen, text);
	cb_free(seen);
}

/* Opened while there was no room for all of its files, then used beside a handle that was opened with room. */
static void open_with(const disk *d, const char *folder, unsigned spare, unsigned *opened)
{
	cb_error err = {0};
	cb_store *poor = NULL, *rich = NULL;
	ballast_load(d, spare);
	cb_code code = crash_store_open(folder, NULL, false, &poor, &err);
	CHECK_MSG(code == CB_OK || code == CB_NOSPACE, "with %u bytes of room: %s: %s", spare, cb_code_name(code), err.message);
	ballast_drop(d);
	CHECK_OK(crash_store_open(folder, NULL, false, &rich, &err));
	cb_box *b = NULL, *c = NULL;
	code = cb_box_open(rich, "box", &b, &err);
	if (code == CB_NOTFOUND) code = cb_box_create(rich, "box", &b, &err);
	CHECK_OK(code);
	must_write(b, "/work/said", "first");
	if (poor) {
		++*opened;
		c = must_open(poor, "box");
		expect_seen(b, c, "rich", spare);
		expect_seen(c, b, "poor", spare);
		expect_seen(b, c, "rich again", spare);
	}
	test_store_sound(rich);
	cb_box_close(b);
	cb_box_close(c);
	cb_store_close(poor);
	cb_store_close(rich);
}

TEST_LIMIT(opened_with_little_room, 120)
{
	disk d;
	unsigned opened = 0;
	char live[4400], fresh[4400], command[4500];
	disk_make(&d, DISK_TMPFS, DISK_BYTES);
	(void)snprintf(live, sizeof(live), "%s/live", d.folder);
	(void)snprintf(fresh, sizeof(fresh), "%s/fresh", d.mount);
	(void)snprintf(command, sizeof(command), "rm -rf '%s'", fresh);
	for (unsigned spare = 0; spare <= 200 << 10; spare += 4 << 10) {
		(void)unlink(live);
		open_with(&d, d.folder, spare, &opened);
		open_with(&d, fresh, spare, &opened);
		CHECK(system(command) == 0);
	}
	disk_unmount(&d);
	test_note("opened %u times", opened);
}

/* Whatever file finds no room. */
TEST_LIMIT(a_refusal_says_what_to_do, 120)
{
	static char large[200000];
	cb_error err = {0};
	cb_store *s = NULL;
	cb_box *b = NULL;
	disk d;
	disk_make(&d, DISK_TMPFS, DISK_BYTES);
	CHECK_OK(crash_store_open(d.folder, NULL, false, &s, &err));
	CHECK_OK(cb_box_create(s, "box", &b, &err));
	must_write(b, "/work/small", "small");
	ballast_load(&d, 64 << 10);
	CHECK_CODE(cb_write_file(b, "/work/large", large, sizeof(large), NULL, &err), CB_NOSPACE);
	CHECK_MSG(strstr(err.message, "segment 000001") && strstr(err.message, "make room, or run gc"), "%s", err.message);
	cb_box_close(b);
	cb_store_close(s);
	disk_unmount(&d);
}

TEST_LIMIT(ext4_fills_up, 120)
{
	full_disk(DISK_EXT4);
}

TEST_LIMIT(tmpfs_fills_up, 120)
{
	full_disk(DISK_TMPFS);
}

/* Where nothing can be allocated ahead nothing is kept, but nothing is lost either. */
TEST_LIMIT(ext2_fills_up, 120)
{
	full_disk(DISK_EXT2);
}
