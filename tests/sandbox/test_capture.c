/* test_capture.c: whatever a program does to its tree, the box holds afterwards; and whatever the box becomes, the tree is brought
 * there. */
#include "work_kit.h"

static cb_error err;

/* In a stack a name that was only touched is parted from the others in the tree, but not in the box. */
static unsigned flags = TREE_NO_TIMES;
static cb_tier kit_tier = CB_TIER_AUTO;

/* Without the special files, which are left out of the box. */
static char *native_text(work *w)
{
	char *all = tree_of_host(host_text("%s/work", kit_root(w)), flags), *to = all;
	for (char *line = all; *line;) {
		size_t n = strcspn(line, "\n") + 1;
		const char *type = strchr(line, ' ');
		if (type[1] != '?') {
			memmove(to, line, n);
			to += n;
		}
		line += n;
	}
	*to = 0;
	return all;
}

static void check_same(cb_box *b, work *w)
{
	check_same_tree(tree_of_box(b, "/work", flags), native_text(w));
}

static cb_code count_visit(void *context, const cb_change *change, cb_error *e)
{
	(void)e;
	cb_change_kind kind = change->kind;
	if (kind != CB_KEYVALUE) ++*(uint64_t *)context;
	return CB_OK;
}

/* One random command; what it says it changed is what the step changed. */
static void random_command(cb_box *b, work *w, test_rng *rng)
{
	const char *argv[] = {"change", host_text("%llu", (unsigned long long)test_rand(rng) | 1),
	                      host_text("%u", (unsigned)test_rand_below(rng, 12)), geteuid() ? "dull" : NULL,
	                      NULL}; /* the test must be able to read it all */
	work_result r;
	uint64_t told = 0, listed = 0;
	CHECK_OK(work_begin(w, &CB_WITH(cb_step_info, .kind = "exec"), &err));
	CHECK_U64(kit_command(w, argv), 0);
	cb_code code = work_end(w, WORK_COMMIT, NULL, NULL, NULL, count_visit, &told, &r, &err);
	CHECK_MSG(code == CB_OK, "%s: %s", cb_code_name(code), err.message);
	CHECK(!r.commit.merged);
	CHECK_OK(cb_diff_step(b, r.commit.seq, NULL, count_visit, &listed, &err));
	CHECK_U64(told, listed);
	CHECK_U64(r.changed, listed);
}

static void restore_random(cb_store *s, cb_box *b, test_rng *rng)
{
	uint64_t seq = test_rand_below(rng, must_seq(b) + 1);
	cb_box *old = must_open(s, host_text("demo@%llu", (unsigned long long)seq));
	cb_code code = cb_restore(b, old, NULL, NULL, &err);
	CHECK_MSG(code == CB_OK || code == CB_NOTHING, "%s", err.message);
	cb_box_close(old);
}

static void rounds(unsigned count)
{
	kit_begin();
	test_rng rng = {test_seed()};
	cb_store *s = test_store_open(false);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	work *w = kit_open(s, "demo", kit_tier);
	for (unsigned i = 0; i < test_dose(count); i++) {
		uint64_t what = test_rand_below(&rng, 10);
		if (what == 0) {
			work_close(w);
			w = kit_open(s, "demo", kit_tier);
		}
		if (what == 1) restore_random(s, b, &rng);
		random_command(b, w, &rng);
		if (w->mounted) check_same(b, w);
		work_result r;
		CHECK_OK(kit_sh(w, "true", &r, &err));
		CHECK_U64(r.changed, 0);
		if (w->mounted) check_same(b, w);
	}
	work_close(w);
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

TEST_LIMIT(random_commands_in_a_plain_tree, 180)
{
	rounds(60);
}

TEST_LIMIT(random_commands_in_a_stack, 180)
{
	work_bound = (work_bounds){.plain = 0, .upper = 40, .layers = 4};
	kit_tier = CB_TIER_OVERLAY;
	flags = TREE_NO_TIMES | TREE_NO_LINKS;
	rounds(60);
}
