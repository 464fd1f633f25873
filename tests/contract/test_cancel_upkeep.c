/*
 * test_cancel_upkeep.c: making, forking and unpacking boxes, check, backup, prune, gc and vacuum, each ended at many of its looks: no box
 * is other than before, and the same call succeeds afterwards.
 */
#include "harness/cancelled_box.h"

static cb_code store_gc(cb_error *e)
{
	return cb_store_gc(s, NULL, e);
}

static cb_code store_vacuum(cb_error *e)
{
	return cb_store_vacuum(s, e);
}

static cb_code store_check(cb_error *e)
{
	uint64_t complaints = 0;
	CB_TRY(cb_store_check(s, NULL, NULL, &complaints, e));
	CHECK_U64(complaints, 0);
	return CB_OK;
}

static cb_code store_backup(cb_error *e)
{
	char path[640];
	(void)snprintf(path, sizeof(path), "%s/backup", elsewhere);
	cb_code code = cb_store_backup(s, path, e);
	CANCEL_SHIELD; /* what follows is the test */
	if (code != CB_OK) CHECK_U64(entries_in(elsewhere), 0);
	if (code != CB_OK) return code;
	cb_store *copy = NULL;
	CHECK_OK(cb_store_open(path, &CB_WITH(cb_store_options, .no_create = true), &copy, &err));
	test_store_sound(copy);
	cb_store_close(copy);
	clear_elsewhere();
	return CB_OK;
}

static cb_code store_prune(cb_error *e)
{
	cb_box *b = NULL;
	CB_TRY(cb_box_open(s, "demo", &b, e));
	cb_code code = cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 3), NULL, e);
	cb_box_close(b);
	return code;
}

static cb_code store_unpack(cb_error *e)
{
	CHECK(lseek(pack_fd, 0, SEEK_SET) == 0);
	cb_code code = cb_unpack(s, pack_fd, "unpacked", NULL, NULL, e);
	CANCEL_SHIELD; /* what follows is the test */
	cb_box *b = NULL;
	if (code != CB_OK) CHECK_CODE(cb_box_open(s, "unpacked", &b, NULL), CB_NOTFOUND);
	if (code != CB_OK) return code;
	cb_box *side = must_open(s, "side");
	b = must_open(s, "unpacked");
	CHECK_STR(must_dump(b), must_dump(side));
	cb_box_close(b);
	cb_box_close(side);
	CHECK_OK(cb_box_delete(s, "unpacked", &err));
	return CB_OK;
}

static cb_code store_create(cb_error *e)
{
	cb_box *b = NULL;
	cb_code code = cb_box_create(s, "made", &b, e);
	CANCEL_SHIELD; /* what follows is the test */
	if (code != CB_OK) CHECK_CODE(cb_box_open(s, "made", &b, NULL), CB_NOTFOUND);
	if (code != CB_OK) return code;
	cb_box_close(b);
	CHECK_OK(cb_box_delete(s, "made", &err));
	return CB_OK;
}

static cb_code store_fork(cb_error *e)
{
	cb_box *b = NULL;
	cb_code code = cb_box_fork(s, "demo@middle", "made", &b, e);
	CANCEL_SHIELD; /* what follows is the test */
	if (code != CB_OK) CHECK_CODE(cb_box_open(s, "made", &b, NULL), CB_NOTFOUND);
	if (code != CB_OK) return code;
	cb_box_close(b);
	CHECK_OK(cb_box_delete(s, "made", &err));
	return CB_OK;
}

typedef struct upkeep {
	const char *name;
	cb_code (*call)(cb_error *err);
	bool disk_only;
} upkeep;

static const upkeep upkeeps[] = {
	{"check", store_check, false},   {"create", store_create, false}, {"fork", store_fork, false},
	{"unpack", store_unpack, false}, {"backup", store_backup, true},  {"prune", store_prune, false},
	{"gc", store_gc, false},         {"vacuum", store_vacuum, false},
};

/* The call with the token at its n-th look; without a limit around what the caller does with the result. */
static void upkeep_at(const upkeep *u, long look, bool *out_reached)
{
	cb_box *b = must_open(s, "demo");
	char *before = must_dump(b);
	cancel_fire_at_look(token, look);
	memset(&err, 0, sizeof(err));
	cb_error why = {0};
	limit_push(0, token);
	cb_code code = u->call(&why);
	cb_limit_pop();
	*out_reached = cb_cancel_is_fired(token);
	cb_cancel_reset(token);
	CHECK_MSG(code == CB_OK || code == CB_CANCELLED, "%s, look %ld: %s (%s)", u->name, look, cb_code_name(code), why.message);
	CHECK_STR(must_dump(b), before);
	cb_box_close(b);
	test_store_sound(s);
}

static void upkeep_all(bool memory)
{
	test_rng rng = {test_seed()};
	begin(memory);
	for (size_t i = 0; i < ARRAY_LEN(upkeeps); i++) {
		const upkeep *u = &upkeeps[i];
		bool reached = true;
		if (memory && u->disk_only) continue;
		for (long n = 1; reached && n < 100000; n += n < 6 ? 1 : 1 + (long)test_rand_below(&rng, 4 * (uint64_t)n)) {
			/* Something to do for each. */
			cb_box *b = must_fork(s, "demo", "waste");
			must_write(b, "/work/text", text_of((unsigned)n));
			cb_box_close(b);
			CHECK_OK(cb_box_delete(s, "waste", &err));
			upkeep_at(u, n, &reached);
		}
		cb_error why = {0};
		cb_code code = u->call(&why);
		CHECK_MSG(code == CB_OK, "%s: %s (%s)", u->name, cb_code_name(code), why.message);
	}
	end();
}

TEST_LIMIT(upkeep_at_looks_memory, 300)
{
	upkeep_all(true);
}

TEST_LIMIT(upkeep_at_looks_disk, 300)
{
	upkeep_all(false);
}
