/* A check beside a prune, gc or vacuum reported steps and contents that these had removed or moved meanwhile as damage of a sound store. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cowbox/cowbox.h>

#include "harness/boxes.h"

enum { ROUNDS = 150, FILES = 4, LARGE_BYTES = 70000 };

/* A check that found something keeps the others away while it looks again. */
static void upkeep(cb_code code, const cb_error *err)
{
	CHECK_MSG(code == CB_OK || code == CB_BUSY, "%s: %s", cb_code_name(code), err->message);
}

/* What is written goes again, and gc cuts the segment or removes it. */
static void come_and_go(void)
{
	static uint8_t bytes[LARGE_BYTES];
	cb_error err = {0};
	cb_store *s = test_store_reopen();
	cb_box *b = must_open(s, "demo");
	cb_prune_options keep = CB_WITH(cb_prune_options, .keep_steps = 1);
	uint64_t pruned = 0;
	for (unsigned round = 0; round < ROUNDS; round++) {
		char path[32];
		for (unsigned i = 0; i < FILES; i++) {
			(void)snprintf(path, sizeof(path), "/work/f%u", (round + i) % (FILES + 2));
			bytes[0]++;
			CHECK_OK(cb_write_file(b, path, bytes, sizeof(bytes), NULL, &err));
		}
		CHECK_OK(cb_unlink(b, path, &err));
		upkeep(cb_prune(b, &keep, &pruned, &err), &err);
		upkeep(cb_store_gc(s, NULL, &err), &err);
		if (round % 8 == 7) upkeep(cb_store_vacuum(s, &err), &err);
	}
	cb_box_close(b);
	cb_store_close(s);
	_exit(0);
}

TEST_LIMIT(check_beside_gc, 120)
{
	cb_error err = {0};
	cb_store *s = test_store_open(false);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	cb_box_close(b);
	cb_store_close(s);
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) come_and_go();
	s = test_store_reopen();
	int status = 0;
	while (waitpid(pid, &status, WNOHANG) == 0) test_store_sound(s);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	test_store_sound(s);
	cb_store_close(s);
}
