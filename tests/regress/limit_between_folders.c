/*
 * A limit that ends a list of counted changes between two of them: the next call goes on, and folders, which have no lines, are in no such
 * list then either.
 */
#include "harness/boxes.h"

#include "base/cancel.h"

#include <stdio.h>

enum { FOLDERS = 12, LOOKS = 20 };

/* How many entries came, none of them a folder, when a limit ends at look `n` of each call, as `ended` of them were. */
static uint64_t entries(cb_box *from, cb_box *to, cb_cancel *token, long n, int *ended)
{
	cb_error err = {0};
	cb_cursor *c = NULL;
	uint64_t count = 0;
	CHECK_OK(cb_diff_stat_open(from, to, NULL, &c, &err));
	for (const cb_change_stat *stat = NULL;; count++) {
		cancel_fire_at_look(token, n);
		limit_push(0, token);
		cb_code code = cb_change_stat_next(c, &stat, &err);
		cb_limit_pop();
		if (code != CB_OK) {
			CHECK_CODE(code, CB_CANCELLED);
			(*ended)++;
			CHECK_OK(cb_change_stat_next(c, &stat, &err));
		}
		if (!stat) break;
		CHECK_MSG(stat->change->new_info->type == CB_FILE, "%s is told at look %ld", stat->change->path, n);
	}
	cb_cursor_close(c);
	return count;
}

TEST(folders_stay_out)
{
	cb_error err = {0};
	cb_store *s = test_store_open(true);
	cb_box *b = NULL, *before = NULL;
	cb_cancel *token = NULL;
	CHECK_OK(cb_cancel_create(&token, &err));
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	before = must_fork(s, "demo", "before");
	for (int i = 0; i < FOLDERS; i++) {
		char folder[32], file[40];
		(void)snprintf(folder, sizeof(folder), "/work/d%02d", i);
		(void)snprintf(file, sizeof(file), "%s/f", folder);
		CHECK_OK(cb_mkdir(b, folder, 0755, 0, &err));
		if (i % 4 == 3) must_write(b, file, "one\ntwo\n");
	}
	int ended = 0;
	for (long n = 1; n <= LOOKS; n++) CHECK_U64(entries(before, b, token, n, &ended), FOLDERS / 4);
	CHECK(ended > FOLDERS);
	cb_cancel_free(token);
	cb_box_close(before);
	cb_box_close(b);
	cb_store_close(s);
}
