/*
 * test_pack_model.c: random boxes with random histories, packed and unpacked: every step's state, the log, the checkpoints are the same,
 * and the copy goes on as the original would: undo, redo, restore, blame, prune.
 */
#include "harness/packs.h"

typedef struct player {
	test_rng rng;
	cb_store *s;
	cb_box *b;
	const char *name;
	unsigned stamp;
	unsigned forks;
} player;

static uint64_t below(player *p, uint64_t n)
{
	return test_rand_below(&p->rng, n);
}

static void random_path(player *p, char out[64])
{
	(void)strcpy(out, below(p, 8) ? "/work" : "/tmp");
	for (uint64_t depth = 1 + below(p, 3); depth > 0; depth--) {
		char part[3] = {'/', (char)('a' + below(p, 4)), 0};
		(void)strcat(out, part);
	}
}

static size_t random_bytes(player *p, char *out, size_t max)
{
	size_t size = below(p, 3) == 0 ? below(p, 100) : below(p, 4) ? below(p, 3000) : below(p, max);
	unsigned stamp = ++p->stamp;
	for (size_t i = 0; i < size; i++) out[i] = i % 7 == 6 ? '\n' : (char)('a' + (stamp + i * (stamp % 5)) % 26);
	return size;
}

static char room[3 << 20];

/* Any of these may fail where the box is not as they need it: that is fine. */
static void change_file(player *p, const char *path)
{
	cb_file *f = NULL;
	switch (below(p, 8)) {
	case 0:
		(void)cb_truncate(p->b, path, below(p, 5000), NULL);
		return;
	case 1:
		(void)cb_truncate(p->b, path, below(p, 1) + (5u << 20), NULL); /* sparse */
		return;
	case 2:
		if (cb_open(p->b, path, CB_WRITE | CB_CREATE, 0640, &f, NULL) != CB_OK) return;
		for (unsigned i = 0; i < 4; i++) (void)cb_pwrite(f, room, random_bytes(p, room, 200000), below(p, 4u << 20), NULL);
		(void)cb_close(f, NULL);
		return;
	case 3: {
		cb_write_options append = CB_WITH(cb_write_options, .append = true);
		(void)cb_write_file(p->b, path, room, random_bytes(p, room, 5000), &append, NULL);
		return;
	}
	default: {
		cb_write_options parents = CB_WITH(cb_write_options, .parents = true);
		(void)cb_write_file(p->b, path, room, random_bytes(p, room, 1500000), &parents, NULL);
		return;
	}
	}
}

static void change_names(player *p, const char *path, const char *other)
{
	switch (below(p, 8)) {
	case 0:
		(void)cb_remove(p->b, path, NULL);
		return;
	case 1:
		(void)cb_rename(p->b, path, other, below(p, 3) ? 0 : CB_EXCHANGE, NULL);
		return;
	case 2:
		(void)cb_link(p->b, path, other, NULL);
		return;
	case 3:
		(void)cb_symlink(p->b,
		                 below(p, 2) ? other
		                             : "a target that is longer than what fits into a record, because long targets are "
		                               "kept in contents and short ones are not, so both must be tried",
		                 path, NULL);
		return;
	case 4:
		(void)cb_mkdir(p->b, path, 0711, CB_PARENTS, NULL);
		return;
	case 5:
		(void)cb_copy(p->b, path, other, 0, NULL);
		return;
	default:
		(void)cb_unlink(p->b, path, NULL);
		return;
	}
}

static void change_attrs(player *p, const char *path)
{
	char name[16];
	(void)snprintf(name, sizeof(name), "n%u", (unsigned)below(p, 4));
	switch (below(p, 7)) {
	case 0:
		(void)cb_chmod(p->b, path, (uint32_t)below(p, 010000), 0, NULL);
		return;
	case 1:
		(void)cb_utimens(p->b, path, (int64_t)below(p, INT64_MAX), -(int64_t)below(p, 1000000), 0, NULL);
		return;
	case 2:
		(void)cb_xattr_set(p->b, path, name, room, random_bytes(p, room, 60000), 0, NULL);
		return;
	case 3:
		(void)cb_tag_add(p->b, path, name, NULL);
		return;
	case 4:
		if (below(p, 3)) (void)cb_meta_set(p->b, path, name, "value", CB_STRING, NULL);
		else (void)cb_meta_set(p->b, path, name, NULL, 0, NULL);
		return;
	case 5:
		(void)cb_kv_set(p->b, name, room, random_bytes(p, room, 2500000), NULL);
		return;
	default:
		(void)cb_kv_delete(p->b, name, NULL);
		return;
	}
}

static void change_one(player *p)
{
	char path[64], other[64];
	random_path(p, path);
	random_path(p, other);
	switch (below(p, 5)) {
	case 0:
		change_attrs(p, path);
		return;
	case 1:
	case 2:
		change_names(p, path, other);
		return;
	default:
		change_file(p, path);
		return;
	}
}

static void many_files(player *p)
{
	cb_write_options parents = CB_WITH(cb_write_options, .parents = true);
	cb_box *t = NULL;
	if (cb_txn_begin(p->b,
	                 &CB_WITH(cb_txn_options,
	                          .step = &CB_WITH(cb_step_info, .kind = "import", .params = "many", .params_size = CB_STRING)),
	                 &t, NULL) != CB_OK)
		return;
	for (unsigned i = 0; i < 2500; i++) {
		char path[64];
		(void)snprintf(path, sizeof(path), "/work/many%u/%u/%u", (unsigned)below(p, 3), i % 50, i);
		(void)cb_write_file(t, path, path, i % 60, &parents, NULL);
	}
	(void)cb_txn_commit(t, NULL, NULL, NULL);
	cb_box_close(t);
}

static void go_back(player *p)
{
	char address[64];
	uint64_t head = must_seq(p->b);
	cb_box *old = NULL;
	switch (below(p, 4)) {
	case 0:
		(void)cb_undo(p->b, 0, NULL, NULL);
		return;
	case 1:
		(void)cb_redo(p->b, NULL, NULL);
		return;
	case 2:
		(void)cb_undo(p->b, 1 + below(p, head + 1), NULL, NULL);
		return;
	default:
		(void)snprintf(address, sizeof(address), "%s@%" PRIu64, p->name, below(p, head + 1));
		if (cb_box_open(p->s, address, &old, NULL) != CB_OK) return;
		(void)cb_restore(p->b, old, below(p, 2) ? NULL : "/work/a", NULL, NULL);
		cb_box_close(old);
		return;
	}
}

static void fork_and_merge(player *p)
{
	char name[64];
	cb_box *fork = NULL, *box = p->b;
	(void)snprintf(name, sizeof(name), "%s-f%u", p->name, ++p->forks);
	if (cb_box_fork(p->s, p->name, name, &fork, NULL) != CB_OK) return;
	p->b = fork;
	for (unsigned i = 0; i < 3; i++) change_one(p);
	p->b = box;
	change_one(p);
	(void)cb_merge(p->b, fork, &CB_WITH(cb_merge_options, .prefer = CB_PREFER_THEIRS), NULL, NULL, NULL);
	cb_box_close(fork);
	if (below(p, 2)) (void)cb_box_delete(p->s, name, NULL);
}

static void play(player *p, unsigned steps)
{
	char name[32];
	for (unsigned i = 0; i < steps; i++) {
		uint64_t what = below(p, 100);
		if (what < 75) change_one(p);
		else if (what < 84) go_back(p);
		else if (what < 88) fork_and_merge(p);
		else if (what < 90)
			(void)cb_step_record(p->b,
			                     &CB_WITH(cb_step_info, .kind = "sh", .params = "ls", .params_size = CB_STRING,
			                              .result = "a\nb", .result_size = CB_STRING),
			                     NULL, NULL);
		else if (what < 92) (void)cb_box_who_set(p->b, below(p, 2) ? "ann" : "bob", NULL);
		else if (what < 95) {
			(void)snprintf(name, sizeof(name), "mark-%u", ++p->stamp);
			(void)cb_checkpoint_save(p->b, below(p, 3) ? name : NULL, 0, true, NULL);
		} else if (what == 95) many_files(p);
		else if (what == 96) (void)cb_prune(p->b, &CB_WITH(cb_prune_options, .keep_steps = 1 + below(p, 30)), NULL, NULL);
		else if (what == 97) (void)cb_store_gc(p->s, NULL, NULL);
		else if (what == 98) {
			memset(room, 'x', 5000);
			room[5000] = 0;
			(void)cb_step_record(p->b,
			                     &CB_WITH(cb_step_info, .kind = "exec", .params = room, .params_size = CB_STRING,
			                              .result = room + 3000, .result_size = CB_STRING),
			                     NULL, NULL);
		} else {
			(void)cb_box_quota_set(p->b, 1u << 30, 1000000, 1u << 29, NULL);
			(void)cb_setting_set(p->b, "mine", "yes", CB_STRING, NULL);
		}
	}
}

static player player_start(cb_store *s, const char *name, uint64_t seed)
{
	cb_error err = {0};
	player p = {.rng = {seed | 1}, .s = s, .name = name};
	CHECK_OK(cb_box_create(s, name, &p.b, &err));
	return p;
}

static void unpack_must(cb_store *s, const pack_bytes *p, const char *name)
{
	cb_error err = {0};
	cb_pack_info info = CB_INIT(cb_pack_info);
	CHECK_OK(pack_give(s, p, name, &info, &err));
	CHECK_STR(info.name, name);
}

static cb_code add_line(void *context, const cb_blame_line *line, cb_error *err)
{
	(void)err;
	uint64_t *sum = context;
	*sum = *sum * 31 + line->seq + line->size;
	return CB_OK;
}

/* The same calls on both give the same codes and the same states. */
static void go_on_alike(cb_store *s, cb_store *t, const char *a, const char *b, uint64_t seed)
{
	player x = {.rng = {seed | 1}, .s = s, .name = a}, y = {.rng = {seed | 1}, .s = t, .name = b};
	x.b = must_open(s, a);
	y.b = must_open(t, b);
	for (unsigned i = 0; i < 12; i++) {
		cb_error e1 = {0}, e2 = {0};
		uint64_t head = must_seq(x.b), seq = 1 + below(&x, head);
		CHECK_U64(must_seq(y.b), head);
		cb_code one = i % 3 == 0   ? cb_undo(x.b, 0, NULL, &e1)
		              : i % 3 == 1 ? cb_undo(x.b, seq, NULL, &e1)
		                           : cb_redo(x.b, NULL, &e1);
		cb_code two = i % 3 == 0   ? cb_undo(y.b, 0, NULL, &e2)
		              : i % 3 == 1 ? cb_undo(y.b, seq, NULL, &e2)
		                           : cb_redo(y.b, NULL, &e2);
		CHECK_MSG(one == two, "round %u, step %" PRIu64 ": %s (%s), copy: %s (%s)", i, seq, cb_code_name(one), e1.message,
		          cb_code_name(two), e2.message);
		char *d1 = must_dump(x.b), *d2 = must_dump(y.b);
		CHECK_STR(d1, d2);
		char at_x[64], at_y[64];
		(void)snprintf(at_x, sizeof(at_x), "%s@%" PRIu64, a, seq);
		(void)snprintf(at_y, sizeof(at_y), "%s@%" PRIu64, b, seq);
		cb_box *old_x = NULL, *old_y = NULL;
		CHECK_CODE(cb_box_open(s, at_x, &old_x, &e1), cb_box_open(t, at_y, &old_y, &e2));
		if (old_x && i % 4 == 3) {
			CHECK_CODE(cb_restore(x.b, old_x, NULL, NULL, &e1), cb_restore(y.b, old_y, NULL, NULL, &e2));
			CHECK_STR(must_dump(x.b), must_dump(y.b));
			CHECK_STR(must_dump(y.b), must_dump(old_y));
		}
		cb_box_close(old_x);
		cb_box_close(old_y);
		uint64_t sum_x = 1, sum_y = 1;
		CHECK_CODE(cb_blame(x.b, "/work/a", add_line, &sum_x, &e1), cb_blame(y.b, "/work/a", add_line, &sum_y, &e2));
		CHECK_U64(sum_x, sum_y);
	}
	uint64_t gone_x = 0, gone_y = 0;
	CHECK_CODE(cb_prune(x.b, &CB_WITH(cb_prune_options, .keep_steps = 5), &gone_x, NULL),
	           cb_prune(y.b, &CB_WITH(cb_prune_options, .keep_steps = 5), &gone_y, NULL));
	cb_box_close(x.b);
	cb_box_close(y.b);
}

/* Every step is described in full, so the work grows with the square of their number. */
TEST_LIMIT(random_histories, 300)
{
	cb_error err = {0};
	unsigned steps = test_soak() > 1 ? 100 : 50;
	for (unsigned round = 0; round < test_dose(2); round++) {
		bool memory = (test_seed() + round) % 2;
		cb_store *s = test_store_open(memory), *t = NULL;
		CHECK_OK(cb_store_open(":memory:", NULL, &t, &err));
		player p = player_start(s, "demo", test_seed() + round * 7919);
		play(&p, steps);
		pack_bytes bytes = pack_take(p.b, NULL);
		unpack_must(t, &bytes, "there");
		pack_must_equal(s, "demo", t, "there");
		test_store_sound(t);
		test_store_sound(s);
		/* packing the copy gives a box that is the same again */
		cb_box *there = must_open(t, "there");
		pack_bytes again = pack_take(there, NULL);
		unpack_must(s, &again, "home");
		pack_must_equal(s, "demo", s, "home");
		cb_box_close(there);
		cb_box_close(p.b);
		go_on_alike(s, t, "demo", "there", p.rng.state);
		CHECK_OK(cb_store_gc(t, NULL, &err));
		test_store_sound(t);
		cb_store_close(t);
		cb_store_close(s);
		if (!memory) {
			char command[5000];
			(void)snprintf(command, sizeof(command), "rm -rf '%s'", test_store_path());
			CHECK(system(command) == 0);
		}
	}
}

TEST_LIMIT(old_states_and_single_states, 120)
{
	cb_error err = {0};
	cb_store *s = test_store_open(true);
	player p = player_start(s, "demo", test_seed());
	play(&p, 60);
	for (unsigned i = 0; i < (test_soak() > 1 ? 8 : 4); i++) {
		char address[32], name[32], copy_at[40];
		uint64_t seq = below(&p, must_seq(p.b) + 1);
		cb_box *old = NULL;
		(void)snprintf(address, sizeof(address), "demo@%" PRIu64, seq);
		if (cb_box_open(s, address, &old, NULL) != CB_OK) continue;
		(void)snprintf(name, sizeof(name), "old%u", i);
		pack_bytes with = pack_take(old, NULL), without = pack_take(old, &CB_WITH(cb_pack_options, .no_history = true));
		unpack_must(s, &with, name);
		(void)snprintf(copy_at, sizeof(copy_at), "%s@%" PRIu64, name, seq);
		cb_box *copy = must_open(s, copy_at), *newest = must_open(s, name);
		char *expected = pack_describe(old), *got = pack_describe(copy);
		CHECK_STR(expected, got);
		CHECK_U64(must_seq(newest), seq);
		free(expected);
		free(got);
		(void)snprintf(name, sizeof(name), "only%u", i);
		unpack_must(s, &without, name);
		cb_box *only = must_open(s, name);
		CHECK_STR(must_dump(old), must_dump(only));
		CHECK_U64(must_seq(only), 0);
		CHECK_CODE(cb_undo(only, 0, NULL, &err), CB_NOTHING);
		cb_box_close(only);
		cb_box_close(newest);
		cb_box_close(copy);
		cb_box_close(old);
	}
	test_store_sound(s);
	cb_box_close(p.b);
	cb_store_close(s);
}

TEST_LIMIT(forks, 120)
{
	cb_store *s = test_store_open(true);
	player p = player_start(s, "demo", test_seed());
	play(&p, 40);
	cb_box *fork = must_fork(s, "demo", "try");
	player q = {.rng = {p.rng.state}, .s = s, .name = "try", .b = fork};
	play(&q, 40);
	pack_bytes bytes = pack_take(fork, NULL);
	unpack_must(s, &bytes, "copy");
	pack_must_equal(s, "try", s, "copy");
	test_store_sound(s);
	cb_box_close(fork);
	cb_box_close(p.b);
	cb_store_close(s);
}
