/* test_boot.c: when two openings of a store are of one boot. */
#include "harness/harness.h"
#include "store/boot.h"

static bool same(const char *id, const char *clock, const char *id_now, const char *clock_now)
{
	boot known = {0}, now = {0};
	(void)snprintf(known.id, sizeof(known.id), "%s", id);
	(void)snprintf(known.clock, sizeof(known.clock), "%s", clock);
	(void)snprintf(now.id, sizeof(now.id), "%s", id_now);
	(void)snprintf(now.clock, sizeof(now.clock), "%s", clock_now);
	return boot_is_same(&known, &now);
}

TEST(id_decides_where_both_know_it)
{
	CHECK(same("a", "1700000000000 5", "a", "1800000000000 5")); /* somebody set the clock */
	CHECK(!same("a", "1700000000000 5", "b", "1700000000000 5"));
	CHECK(same("a", "", "a", ""));
}

TEST(clock_decides_where_one_does_not)
{
	CHECK(same("", "1700000000000 5000", "", "1700000000000 5000"));
	CHECK(same("a", "1700000000000 5000", "", "1700000000040 9000"));
	CHECK(same("", "1700000000040 5000", "a", "1700000000000 9000"));
	CHECK(!same("", "1700000000000 5000", "", "1700000000051 9000"));
	CHECK(!same("", "1700000000051 5000", "", "1700000000000 9000"));
	/* The same moment, but the machine has been up for less: its clock began there again. */
	CHECK(!same("", "1700000000000 5000", "", "1700000000000 4999"));
}

TEST(in_doubt_it_is_another)
{
	CHECK(!same("", "", "", "1700000000000 5000"));
	CHECK(!same("", "1700000000000 5000", "", ""));
	CHECK(!same("", "", "", ""));
	CHECK(!same("a", "", "", "1700000000000 5000"));
	CHECK(!same("", "1700000000000", "", "1700000000000 5000"));
	CHECK(!same("", "x y", "", "1700000000000 5000"));
	CHECK(!same("", "-9223372036854775808 0", "", "9223372036854775807 1"));
}

TEST(this_one)
{
	boot a, b;
	boot_now(&a);
	for (int i = 0; i < 1000; i++) {
		boot_now(&b);
		b.id[0] = 0;
		CHECK_MSG(boot_is_same(&a, &b), "'%s' and '%s'", a.clock, b.clock);
	}
}
