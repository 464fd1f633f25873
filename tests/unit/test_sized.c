/* test_sized.c: structs that begin with their size, between a caller and a library of different ages. */
#include "base/sized.h"

#include <string.h>

#include "base/limits.h"
#include "harness/harness.h"

/* The library's: `added` came with a later version. */
typedef struct thing {
	size_t struct_size;
	int number;
	const char *text;
	bool flag; /* the last of the first layout, before padding */
	uint64_t added;
} thing;

/* What a caller was compiled with. */
typedef struct old_thing {
	size_t struct_size;
	int number;
	const char *text;
	bool flag;
} old_thing;
typedef struct new_thing {
	thing known;
	uint64_t newer, newest;
} new_thing;

static cb_code take(thing *to, const void *from, cb_error *err)
{
	return SIZED_TAKE(thing, flag, to, (const thing *)from, err);
}

TEST(options_of_any_age_are_taken)
{
	cb_error err = {0};
	thing t;
	CHECK_OK(take(&t, NULL, &err));
	CHECK(t.struct_size == sizeof(t) && t.number == 0 && !t.text && !t.flag && t.added == 0);
	old_thing old = {sizeof(old), 7, "seven", true};
	CHECK_OK(take(&t, &old, &err));
	CHECK(t.struct_size == sizeof(t) && t.number == 7 && t.flag && t.added == 0);
	CHECK_STR(t.text, "seven");
	thing same = {sizeof(same), 8, "eight", false, 80};
	CHECK_OK(take(&t, &same, &err));
	CHECK(t.number == 8 && t.added == 80);
	new_thing young = {{sizeof(young), 9, "nine", true, 90}, 0, 0};
	CHECK_OK(take(&t, &young, &err));
	CHECK(t.struct_size == sizeof(t) && t.number == 9 && t.added == 90);
}

TEST(sizes_that_cannot_be_are_refused)
{
	cb_error err = {0};
	thing t = {.number = 1}, bad = {.number = 2};
	static const size_t sizes[] = {0, 1, sizeof(size_t), offsetof(thing, flag), LIMIT_STRUCT_BYTES + 1, SIZE_MAX};
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		bad.struct_size = sizes[i];
		CHECK_CODE(take(&t, &bad, &err), CB_INVALID);
		CHECK_MSG(strstr(err.message, "thing.struct_size") != NULL, "%s", err.message);
		CHECK_CODE(SIZED_CHECK(thing, flag, &bad, &err), CB_INVALID);
	}
	CHECK(t.number == 1); /* nothing was taken */
	new_thing young = {{sizeof(young), 9, "nine", true, 90}, 0, 1};
	CHECK_CODE(take(&t, &young, &err), CB_INVALID);
	CHECK_MSG(strstr(err.message, "newer cowbox") != NULL, "%s", err.message);
}

TEST(results_stay_within_the_callers_size)
{
	cb_error err = {0};
	thing made = {sizeof(made), 5, "five", true, 50};
	struct {
		old_thing old;
		char beyond[16];
	} caller = {.old = {.struct_size = sizeof(old_thing)}};
	memset(caller.beyond, 'x', sizeof(caller.beyond));
	CHECK_OK(sized_check("thing", SIZED_FIRST_(thing, flag), sizeof(thing), &caller.old, &err));
	sized_give(&caller.old, &made, sizeof(made));
	CHECK(caller.old.struct_size == sizeof(old_thing) && caller.old.number == 5 && caller.old.flag);
	for (size_t i = 0; i < sizeof(caller.beyond); i++) CHECK(caller.beyond[i] == 'x');
	new_thing young = {.known = {.struct_size = sizeof(young)}};
	CHECK_OK(sized_check("thing", SIZED_FIRST_(thing, flag), sizeof(thing), &young, &err));
	sized_give(&young, &made, sizeof(made));
	CHECK(young.known.struct_size == sizeof(young) && young.known.added == 50 && young.newer == 0 && young.newest == 0);
	CHECK_OK(SIZED_CHECK(thing, flag, (thing *)NULL, &err));
	SIZED_GIVE((thing *)NULL, &made);
}
