/* test_transfer_kill.c: kill -9 in the middle of an import or export, and somebody who swaps folders for links while one runs. */
#include <cowbox/cowbox.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/boxes.h"
#include "harness/hosttrees.h"

enum { FILES = 400 };

static const char *make_source(void)
{
	const char *f = host_text("%s/in", test_tmpdir());
	static char bytes[50000];
	memset(bytes, 'x', sizeof(bytes));
	CHECK(mkdir(f, 0755) == 0);
	for (int i = 0; i < FILES; i++) {
		if (i % 40 == 0) CHECK(mkdir(host_text("%s/d%d", f, i / 40), 0755) == 0);
		host_write(host_text("%s/d%d/f%d", f, i / 40, i), bytes, sizeof(bytes));
	}
	return f;
}

/* Runs work in a child and kills it after a while. */
static void kill_after(unsigned microseconds, void (*work)(const char *), const char *argument)
{
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		work(argument);
		_exit(0);
	}
	usleep(microseconds);
	(void)kill(child, SIGKILL);
	CHECK(waitpid(child, NULL, 0) == child);
}

static void import_in_child(const char *folder)
{
	cb_error err;
	cb_store *s = test_store_reopen();
	cb_box *b = must_open(s, "demo");
	cb_import_options options = CB_WITH(cb_import_options, .link = true);
	CHECK_OK(cb_import(b, folder, &options, NULL, &err));
	cb_box_close(b);
	cb_store_close(s);
}

TEST_LIMIT(import_is_whole_or_not_there, 180)
{
	cb_error err;
	test_rng r = {test_seed()};
	const char *f = make_source();
	cb_store *s = test_store_open(false);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	for (unsigned i = 0; i < test_dose(12); i++) {
		uint64_t before = must_seq(b);
		kill_after((unsigned)test_rand_below(&r, 300000), import_in_child, f);
		cb_box_info info = CB_INIT(cb_box_info);
		CHECK_OK(cb_box_info_get(b, &info, &err));
		CHECK(info.seq == before || info.seq == before + 1);
		CHECK_MSG(info.files == 4 || info.files == 4 + FILES + 10, "%" PRIu64 " files", info.files);
		test_store_sound(s);
		if (info.seq != before) {
			host_shell("touch '%s'/d3/f12*", f);
			CHECK_OK(cb_remove(b, "/work/d0", &err));
			CHECK_OK(cb_import(b, f, NULL, NULL, &err));
			CHECK_OK(cb_export(b, "/work", host_text("%s/out%u", test_tmpdir(), i), NULL, NULL, &err));
			host_same(f, host_text("%s/out%u", test_tmpdir(), i));
			for (int k = 0; k < 10; k++) CHECK_OK(cb_remove(b, host_text("/work/d%d", k), &err));
		}
	}
	cb_box_close(b);
	cb_store_close(s);
}

static void export_in_child(const char *target)
{
	cb_error err;
	cb_store *s = test_store_reopen();
	cb_box *b = must_open(s, "demo");
	cb_export_options options = CB_WITH(cb_export_options, .overwrite = true);
	cb_code code = CB_OK;
	while (code == CB_OK || code == CB_BUSY || code == CB_NOTFOUND || code == CB_LOOP || code == CB_NOTDIR ||
	       code == CB_EXISTS || code == CB_IO)
		code = cb_export(b, "/work", target, &options, NULL, &err);
	(void)fprintf(stderr, "# %s\n", err.message);
}

TEST_LIMIT(export_leaves_no_half_file, 180)
{
	cb_error err;
	test_rng r = {test_seed()};
	const char *f = make_source(), *out = host_text("%s/out", test_tmpdir());
	cb_store *s = test_store_open(false);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	CHECK_OK(cb_import(b, f, NULL, NULL, &err));
	for (unsigned i = 0; i < test_dose(12); i++) {
		host_shell("rm -rf '%s' '%s'/.cowbox-tmp-*", out, test_tmpdir());
		if (i % 2) CHECK(mkdir(out, 0755) == 0);
		kill_after(1000 + (unsigned)test_rand_below(&r, 100000), export_in_child, out);
		/* A target that was not there has its name when all of it is there. */
		if (i % 2 == 0) host_shell("test ! -e '%s' || test \"$(find '%s' -name 'f*' | wc -l)\" = %d", out, out, FILES);
		host_shell("test -z \"$(find '%s' -type f ! -name '.cowbox-tmp-*' ! -size 50000c 2>/dev/null)\"", out);
	}
	cb_box_close(b);
	cb_store_close(s);
}

/* The attacker moves folders of the target away and puts links to a folder outside in their places, and back, as fast as it can. */
static void swap_folders(const char *target, const char *outside)
{
	for (unsigned i = 0;; i++) {
		const char *folder = host_text("%s/d%u", target, i % 10), *aside = host_text("%s/aside%u", target, i % 10);
		if (rename(folder, aside) != 0) continue;
		if (symlink(outside, folder) == 0) {
			usleep(50);
			(void)unlink(folder);
		}
		(void)rename(aside, folder);
	}
}

TEST_LIMIT(links_put_in_the_way_lead_nowhere, 180)
{
	cb_error err;
	const char *f = make_source(), *out = host_text("%s/out", test_tmpdir()), *outside = host_text("%s/outside", test_tmpdir());
	cb_store *s = test_store_open(false);
	cb_box *b = NULL;
	CHECK(mkdir(out, 0755) == 0 && mkdir(outside, 0755) == 0);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	CHECK_OK(cb_import(b, f, NULL, NULL, &err));
	pid_t attacker = fork();
	CHECK(attacker >= 0);
	if (attacker == 0) swap_folders(out, outside);
	for (unsigned i = 0; i < 3; i++) kill_after(400000, export_in_child, out);
	/* Imports of a folder under attack bring nothing of the outside either. */
	host_write(host_text("%s/secret", outside), "secret", 6);
	for (unsigned i = 0; i < 10; i++) {
		cb_import_options options = CB_WITH(cb_import_options, .to = host_text("/in%u", i));
		(void)cb_import(b, out, &options, NULL, &err);
		for (unsigned k = 0; k < 10; k++) CHECK(!exists(b, host_text("/in%u/d%u/secret", i, k)));
	}
	(void)kill(attacker, SIGKILL);
	(void)waitpid(attacker, NULL, 0);
	host_shell("test \"$(ls -A '%s')\" = secret", outside);
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}
