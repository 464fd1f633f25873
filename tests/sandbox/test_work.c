/* test_work.c: slots, layers, merges, conflicts and pins: what happens around a command. */
#include "work_kit.h"

static cb_error err;
static cb_store *s;
static cb_box *b;

static void begin(void)
{
	kit_begin();
	s = test_store_open(false);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/a", "one\n");
}

static void end(void)
{
	test_store_sound(s);
	cb_box_close(b);
	cb_store_close(s);
}

/* Small trees become stacks. */
static void small_bounds(void)
{
	work_bound = (work_bounds){.plain = 0, .upper = 10, .layers = 3};
}

static const char *work_path(const char *name)
{
	return host_text("%s/work/%s", test_store_path(), name);
}

TEST(one_command_is_one_step)
{
	begin();
	work *w = kit_open(s, "demo", CB_TIER_AUTO);
	work_result r;
	uint64_t before = must_seq(b);
	CHECK_OK(kit_sh(w, "cat work/a > work/b; echo two >> work/a; mkdir work/d; ln -s x work/d/l", &r, &err));
	CHECK_U64(r.commit.seq, before + 1);
	CHECK_U64(r.changed, 4);
	CHECK_STR(must_read(b, "/work/b"), "one\n");
	CHECK_STR(must_read(b, "/work/a"), "one\ntwo\n");
	CHECK_OK(kit_sh(w, "rm work/a; touch work/b", &r, &err));
	CHECK_U64(r.changed, 1);
	CHECK(!exists(b, "/work/a"));
	CHECK_OK(kit_sh(w, "true", &r, &err));
	CHECK_U64(r.changed, 0);
	CHECK_U64(r.commit.seq, before + 3);
	work_close(w);
	end();
}

/* The box moves while the command runs. */
static cb_code run_beside(work *w, const char *script, const char *path, const char *text, work_result *r)
{
	const char *argv[] = {"sh", script, NULL};
	CHECK_OK(work_begin(w, &CB_WITH(cb_step_info, .kind = "exec"), &err));
	must_write(b, path, text);
	CHECK_U64(kit_command(w, argv), 0);
	return work_end(w, WORK_COMMIT, NULL, NULL, NULL, NULL, NULL, r, &err);
}

static void moved_box(void)
{
	begin();
	work *w = kit_open(s, "demo", CB_TIER_AUTO);
	work_result r;
	CHECK_OK(run_beside(w, "echo mine > work/mine", "/work/theirs", "theirs", &r));
	CHECK(r.commit.merged);
	CHECK_STR(must_read(b, "/work/mine"), "mine\n");
	CHECK_STR(must_read(b, "/work/theirs"), "theirs");
	CHECK_OK(kit_sh(w, "cat work/mine work/theirs > work/both", &r, &err));
	CHECK_U64(r.changed, 1);
	CHECK_STR(must_read(b, "/work/both"), "mine\ntheirs");
	CHECK_CODE(run_beside(w, "echo mine > work/a", "/work/a", "theirs", &r), CB_CONFLICT);
	CHECK(*r.commit.fork);
	CHECK(r.conflicts.size && strcmp((const char *)r.conflicts.bytes, "/work/a") == 0);
	buf_done(&r.conflicts);
	CHECK_STR(must_read(b, "/work/a"), "theirs");
	cb_box *fork_ = must_open(s, r.commit.fork);
	CHECK_STR(must_read(fork_, "/work/a"), "mine\n");
	cb_box_close(fork_);
	CHECK_OK(kit_sh(w, "cp work/a work/c", &r, &err));
	CHECK_STR(must_read(b, "/work/c"), "theirs");
	work_close(w);
	end();
}

TEST(a_box_that_moved_is_merged_or_forked)
{
	moved_box();
}

TEST(the_same_in_a_stack)
{
	small_bounds();
	moved_box();
}

TEST(two_commands_at_once)
{
	begin();
	work *w = kit_open(s, "demo", CB_TIER_AUTO), *v = kit_open(s, "demo", CB_TIER_AUTO);
	CHECK(w->slot.number != v->slot.number);
	const char *one[] = {"sh", "echo 1 > work/one; test ! -e work/two", NULL};
	const char *two[] = {"sh", "echo 2 > work/two; test ! -e work/one", NULL};
	work_result r;
	CHECK_OK(work_begin(w, NULL, &err));
	CHECK_OK(work_begin(v, NULL, &err));
	CHECK_U64(kit_command(w, one), 0);
	CHECK_U64(kit_command(v, two), 0);
	CHECK_OK(work_end(w, WORK_COMMIT, NULL, NULL, NULL, NULL, NULL, &r, &err));
	CHECK(!r.commit.merged);
	CHECK_OK(work_end(v, WORK_COMMIT, NULL, NULL, NULL, NULL, NULL, &r, &err));
	CHECK(r.commit.merged);
	CHECK(exists(b, "/work/one") && exists(b, "/work/two"));
	work_close(w);
	work_close(v);
	end();
}

static void looked(void)
{
	begin();
	work *w = kit_open(s, "demo", CB_TIER_AUTO);
	const char *argv[] = {"sh", "rm work/a; echo x > work/x", NULL};
	work_result r;
	uint64_t seq = must_seq(b);
	CHECK_OK(work_begin(w, NULL, &err));
	CHECK_U64(kit_command(w, argv), 0);
	CHECK_OK(work_end(w, WORK_LOOK, NULL, NULL, NULL, NULL, NULL, &r, &err));
	CHECK_U64(r.changed, 2);
	CHECK_U64(must_seq(b), seq);
	CHECK_OK(kit_sh(w, "cp work/a work/b; test ! -e work/x", &r, &err));
	CHECK_U64(r.changed, 1);
	work_close(w);
	end();
}

TEST(looking_keeps_nothing)
{
	looked();
}

TEST(looking_keeps_nothing_of_a_stack)
{
	small_bounds();
	looked();
}

/* It ran, and what it did is worth something to somebody: it is kept where the quota does not hold. */
TEST(beyond_a_quota_the_changes_are_a_fork)
{
	begin();
	work *w = kit_open(s, "demo", CB_TIER_AUTO);
	work_result r;
	const uint64_t quotas[][3] = {{1000, 0, 0}, {0, 6, 0}, {0, 0, 1000}};
	for (size_t i = 0; i < ARRAY_LEN(quotas); i++) {
		CHECK_OK(cb_box_quota_set(b, quotas[i][0], quotas[i][1], quotas[i][2], &err));
		uint64_t before = must_seq(b);
		CHECK_CODE(kit_sh(w, "head -c 5000 /dev/zero > work/large; echo x > work/small", &r, &err), CB_QUOTA);
		CHECK(!exists(b, "/work/large") && !exists(b, "/work/small"));
		CHECK_U64(must_seq(b), before);
		CHECK_MSG(*r.commit.fork && strstr(err.message, r.commit.fork), "%s", err.message);
		CHECK_U64(r.changed, 2);
		cb_box *fork = must_open(s, r.commit.fork);
		cb_box_info info = CB_INIT(cb_box_info);
		CHECK_OK(cb_box_info_get(fork, &info, &err));
		CHECK(info.lost && info.quota_bytes == 0); /* as one that lost: gc takes it when it is old */
		CHECK_STR(must_read(fork, "/work/small"), "x\n");
		CHECK(exists(fork, "/work/large"));
		cb_box_close(fork);
	}
	CHECK_OK(kit_sh(w, "test ! -e work/large; echo x > work/small", &r, &err));
	CHECK(exists(b, "/work/small"));
	work_close(w);
	end();
}

/* ---- what a change is ---- */

static char *changes_of(uint64_t seq)
{
	cb_box *before = must_open(s, host_text("demo@%llu", (unsigned long long)seq - 1));
	char *text = must_diff(before, b);
	cb_box_close(before);
	return text;
}

static void renames(void)
{
	begin();
	must_write(b, "/work/long", "some text that nobody else has\n");
	CHECK_OK(cb_mkdir(b, "/work/dir", 0755, 0, &err));
	for (int i = 0; i < 5; i++) must_write(b, host_text("/work/dir/f%d", i), host_text("file number %d\n", i));
	CHECK_OK(cb_tag_add(b, "/work/long", "kept", &err));
	work *w = kit_open(s, "demo", CB_TIER_AUTO);
	work_result r;
	CHECK_OK(kit_sh(w,
	                "mv work/long work/moved; mkdir work/new; mv work/dir/* work/new/; rmdir work/dir; chmod 600 work/new/f3",
	                &r, &err));
	CHECK_STR(changes_of(r.commit.seq),
	          "D /work/dir\nR /work/long -> /work/moved\nA /work/new\nR /work/dir/f0 -> /work/new/f0\nR /work/dir/f1 -> "
	          "/work/new/f1\n"
	          "R /work/dir/f2 -> /work/new/f2\nR /work/dir/f3 -> /work/new/f3\nR /work/dir/f4 -> /work/new/f4\n");
	cb_stat_info info = CB_INIT(cb_stat_info);
	CHECK_OK(cb_stat(b, "/work/new/f3", 0, &info, &err));
	CHECK_U64(info.mode, 0600);
	CHECK_STR(must_read(b, "/work/new/f3"), "file number 3\n");
	CHECK_CODE(cb_tag_remove(b, "/work/moved", "kept", &err), CB_OK);
	CHECK_OK(kit_sh(w, "cat work/new/f3 > work/copy", &r, &err));
	CHECK_U64(r.changed, 1);
	work_close(w);
	end();
}

TEST(renames_are_renames)
{
	renames();
}

TEST(renames_in_a_stack)
{
	small_bounds();
	renames();
}

TEST(kinds_of_changes)
{
	begin();
	CHECK_OK(cb_mkdir(b, "/work/d", 0755, 0, &err));
	must_write(b, "/work/d/in", "in");
	must_write(b, "/work/mode", "mode");
	must_write(b, "/work/touched", "touched");
	must_write(b, "/work/same", "same");
	must_write(b, "/work/suid", "suid");
	CHECK_OK(cb_chmod(b, "/work/suid", 04755, 0, &err));
	CHECK_OK(cb_symlink(b, "a", "/work/link", &err));
	work *w = kit_open(s, "demo", CB_TIER_AUTO);
	work_result r;
	CHECK_OK(kit_sh(w,
	                "chmod 700 work/mode; touch work/touched; cp work/same tmp/x; cat tmp/x > work/same; rm tmp/x; rm work/a;"
	                "mkdir work/a; rm -r work/d; echo file > work/d; ln -sfn other work/link; mkfifo work/fifo;"
	                "chmod 4700 work/mode",
	                &r, &err));
	CHECK_U64(r.left_out, 1);
	CHECK_STR(changes_of(r.commit.seq), "M /work/a\nM /work/d\nD /work/d/in\nM /work/link\nT /work/mode\n");
	cb_stat_info info = CB_INIT(cb_stat_info);
	CHECK_OK(cb_stat(b, "/work/mode", 0, &info, &err));
	CHECK_U64(info.mode, 0700);
	CHECK_OK(cb_stat(b, "/work/suid", 0, &info, &err));
	CHECK_U64(info.mode, 04755);
	work_close(w);
	end();
}

static uint64_t ino_of(const char *path)
{
	cb_stat_info info = CB_INIT(cb_stat_info);
	CHECK_OK(cb_stat(b, path, 0, &info, &err));
	return info.ino;
}

static void hard_links(bool stack)
{
	begin();
	CHECK_OK(cb_link(b, "/work/a", "/work/b", &err));
	CHECK_OK(cb_link(b, "/work/a", "/work/c", &err));
	uint64_t ino = ino_of("/work/a");
	work *w = kit_open(s, "demo", stack ? CB_TIER_OVERLAY : CB_TIER_FOLDER);
	work_result r;
	/* A further name. */
	CHECK_OK(kit_sh(w, "ln work/b work/d", &r, &err));
	CHECK_U64(ino_of("/work/d"), ino);
	/* Writing to one name. In a stack that parts it from names in the layers. */
	CHECK_OK(kit_sh(w, "echo two >> work/c", &r, &err));
	CHECK_STR(must_read(b, "/work/c"), "one\ntwo\n");
	CHECK_STR(must_read(b, "/work/a"), stack ? "one\n" : "one\ntwo\n");
	if (!stack) CHECK_U64(ino_of("/work/c"), ino);
	/* Replacing one name. */
	CHECK_OK(kit_sh(w, "echo three > work/n; mv work/n work/b", &r, &err));
	CHECK_STR(must_read(b, "/work/b"), "three\n");
	CHECK_U64(ino_of("/work/a"), ino);
	CHECK(ino_of("/work/b") != ino);
	CHECK_OK(kit_sh(w, "rm work/a", &r, &err));
	CHECK_U64(r.changed, 1);
	CHECK_U64(ino_of("/work/d"), ino);
	work_close(w);
	end();
}

TEST(hard_links_in_a_plain_tree)
{
	hard_links(false);
}

TEST(hard_links_in_a_stack)
{
	small_bounds();
	hard_links(true);
}

/* Moving a folder does not touch the files in it: one that has another name elsewhere is known there. */
TEST(linked_files_in_a_folder_that_moves)
{
	begin();
	CHECK_OK(cb_mkdir(b, "/work/m", 0755, 0, &err));
	must_write(b, "/work/m/f", "linked");
	CHECK_OK(cb_link(b, "/work/m/f", "/work/z", &err));
	uint64_t ino = ino_of("/work/z");
	work *w = kit_open(s, "demo", CB_TIER_AUTO);
	work_result r;
	CHECK_OK(kit_sh(w, "sleep 0.1", &r, &err)); /* longer than a tick: then it is known */
	CHECK_OK(kit_sh(w, "cp -al work/m work/k; rm -r work/m", &r, &err));
	CHECK_U64(ino_of("/work/k/f"), ino);
	CHECK_U64(ino_of("/work/z"), ino);
	CHECK_OK(kit_sh(w, "sleep 0.1", &r, &err));
	CHECK_OK(kit_sh(w, "mv work/k work/j", &r, &err));
	CHECK_U64(ino_of("/work/j/f"), ino);
	CHECK_U64(ino_of("/work/z"), ino);
	/* A new name before an old one of a file that changed too. */
	CHECK_OK(kit_sh(w, "ln work/a work/_; echo more >> work/a", &r, &err));
	CHECK_U64(ino_of("/work/_"), ino_of("/work/a"));
	CHECK_STR(changes_of(r.commit.seq), "A /work/_\nM /work/a\n");
	work_close(w);
	end();
}

TEST(a_new_name_before_an_old_one_in_a_stack)
{
	small_bounds();
	begin();
	work *w = kit_open(s, "demo", CB_TIER_AUTO);
	work_result r;
	CHECK_OK(kit_sh(w, "ln work/a work/_; echo more >> work/a", &r, &err));
	CHECK_U64(ino_of("/work/_"), ino_of("/work/a"));
	CHECK_STR(changes_of(r.commit.seq), "A /work/_\nM /work/a\n");
	work_close(w);
	end();
}

TEST(holes_stay_holes)
{
	begin();
	work *w = kit_open(s, "demo", CB_TIER_AUTO);
	work_result r;
	CHECK_OK(kit_sh(w, "truncate -s 1G work/hole; echo x | dd of=work/hole bs=1 seek=500000000 conv=notrunc 2>/dev/null", &r,
	                &err));
	cb_box_info info = CB_INIT(cb_box_info);
	CHECK_OK(cb_box_info_get(b, &info, &err));
	CHECK(info.bytes > (uint64_t)1 << 30);
	struct stat st;
	CHECK(stat(host_text("%s/cowbox.db", test_store_path()), &st) == 0 && st.st_size < 10 << 20);
	work_close(w);
	host_shell("rm -rf '%s'", work_path(""));
	w = kit_open(s, "demo", CB_TIER_AUTO);
	CHECK_OK(kit_sh(w, "test $(du -k work/hole | cut -f 1) -lt 1000; test $(stat -c %s work/hole) = 1073741824", &r, &err));
	CHECK_U64(r.changed, 0);
	work_close(w);
	end();
}

/* ---- slots and layers ---- */

TEST(forks_stand_on_the_same_layers)
{
	small_bounds();
	work_bound.upper = 100;
	begin();
	work *w = kit_open(s, "demo", CB_TIER_OVERLAY);
	work_result r;
	CHECK_OK(kit_sh(w, "echo x > work/x", &r, &err));
	CHECK(w->slot.stamp.stack);
	cb_box *f = must_fork(s, "demo", "fork");
	must_write(f, "/work/of-fork", "fork");
	work *v = kit_open(s, "fork", CB_TIER_OVERLAY);
	CHECK_OK(kit_sh(v, "cat work/x work/of-fork > work/y", &r, &err));
	CHECK_STR(must_read(f, "/work/y"), "x\nfork");
	CHECK_U64(v->slot.stamp.layer_count, 1);
	CHECK_STR(v->slot.stamp.layers[0], w->slot.stamp.layers[0]);
	CHECK(!exists(b, "/work/y"));
	work_close(v);
	work_close(w);
	cb_box_close(f);
	end();
}

TEST(many_layers_become_one)
{
	small_bounds();
	begin();
	work *w = kit_open(s, "demo", CB_TIER_OVERLAY);
	work_result r;
	size_t most = 0;
	bool fell = false;
	for (int i = 0; i < 8; i++) {
		CHECK_OK(kit_sh(
			w, host_text("mkdir work/%d; for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo %d > work/%d/$i; done", i, i, i),
			&r, &err));
		CHECK_U64(r.changed, 13);
		if (w->slot.stamp.layer_count < most) fell = true;
		if (w->slot.stamp.layer_count > most) most = w->slot.stamp.layer_count;
	}
	CHECK_U64(most, 3);
	CHECK(fell);
	CHECK_OK(kit_sh(w, "test $(find work -type f | wc -l) = 97", &r, &err));
	work_close(w);
	uint64_t removed = 0;
	CHECK_OK(work_clean(s, true, &removed, &err));
	CHECK(removed > 1);
	host_shell("test -z \"$(ls '%s')$(ls '%s')\"", work_path("slots"), work_path("layers"));
	w = kit_open(s, "demo", CB_TIER_OVERLAY);
	CHECK_OK(kit_sh(w, "test $(find work -type f | wc -l) = 97", &r, &err));
	CHECK_U64(r.changed, 0);
	work_close(w);
	end();
}

TEST(a_plain_tree_that_grows_becomes_a_layer)
{
	begin();
	work_bound.plain = 20;
	work *w = kit_open(s, "demo", CB_TIER_OVERLAY);
	work_result r;
	CHECK_OK(kit_sh(w, "for i in $(seq 30); do echo $i > work/$i; done", &r, &err));
	CHECK(!w->slot.stamp.stack);
	CHECK_OK(kit_sh(w, "rm work/7; echo new > work/8", &r, &err));
	CHECK(w->slot.stamp.stack);
	CHECK_U64(r.changed, 2);
	CHECK(!exists(b, "/work/7"));
	CHECK_STR(must_read(b, "/work/8"), "new\n");
	work_close(w);
	end();
}

TEST(without_overlayfs_it_is_a_folder)
{
	small_bounds();
	begin();
	work *w = kit_open(s, "demo", CB_TIER_AUTO);
	host_shell("touch '%s'", work_path("area/no-overlay"));
	work_result r;
	CHECK_OK(kit_sh(w, "echo x > work/x", &r, &err));
	CHECK(work_tier(w) == CB_TIER_FOLDER);
	CHECK(exists(b, "/work/x"));
	work_close(w);
	work_options options = {.tier = CB_TIER_OVERLAY};
	CHECK_OK(work_open(s, "demo", &options, &w, &err));
	CHECK_CODE(work_begin(w, NULL, &err), CB_UNSUPPORTED);
	work_close(w);
	end();
}

/* ---- stamps that lie ---- */

static void change_stamp(void (*change)(stamp *))
{
	AUTO_FD int fd = open(work_path("slots/1.0"), O_RDWR);
	stamp now;
	CHECK(fd >= 0);
	CHECK_OK(stamp_read(fd, &now, &err));
	change(&now);
	CHECK_OK(stamp_write(fd, &now, &err));
}

static void other_boot(stamp *now)
{
	memcpy(now->boot, "00000000", 8);
}

static void other_boot_running(stamp *now)
{
	other_boot(now);
	now->base = now->at;
	memcpy(now->run, "0123456789abcdef", 17);
}

static void run_then(void (*spoil)(void))
{
	begin();
	work *w = kit_open(s, "demo", CB_TIER_AUTO);
	work_result r;
	CHECK_OK(kit_sh(w, "echo x > work/x", &r, &err));
	work_close(w);
	host_shell("echo spoilt > '%s'", work_path("area/1.0/tree/work/a"));
	spoil();
	w = kit_open(s, "demo", CB_TIER_AUTO);
	CHECK_OK(kit_sh(w, "cat work/a work/x > work/y", &r, &err));
	CHECK_U64(r.changed, 1);
	CHECK_STR(must_read(b, "/work/y"), "one\nx\n");
	work_close(w);
	end();
}

static void spoil_boot(void)
{
	change_stamp(other_boot);
}

static void spoil_bytes(void)
{
	host_shell("printf xyz | dd of='%s' bs=1 seek=20 conv=notrunc 2>/dev/null", work_path("slots/1.0"));
}

static void spoil_running(void)
{
	change_stamp(other_boot_running);
	uint64_t steps = 0, seq = must_seq(b);
	CHECK_OK(work_recover(s, 0, &steps, &err));
	CHECK_U64(steps, 1);
	CHECK_U64(must_seq(b), seq + 1);
	CHECK_OK(work_recover(s, 0, &steps, &err));
	CHECK_U64(steps, 0);
}

TEST(a_folder_of_another_boot_is_made_anew)
{
	run_then(spoil_boot);
}

TEST(a_damaged_stamp_is_none)
{
	run_then(spoil_bytes);
}

TEST(a_run_of_another_boot_is_lost)
{
	run_then(spoil_running);
}

TEST(folders_open_to_others_are_refused)
{
	begin();
	work *w = kit_open(s, "demo", CB_TIER_AUTO);
	work_close(w);
	CHECK(chmod(work_path(""), 0755) == 0);
	CHECK_CODE(work_open(s, "demo", &(work_options){.tier = CB_TIER_AUTO}, &w, &err), CB_DENIED);
	host_shell("rm -rf '%s'; ln -s /tmp '%s'", work_path(""), host_text("%s/work", test_store_path()));
	CHECK_CODE(work_open(s, "demo", &(work_options){.tier = CB_TIER_AUTO}, &w, &err), CB_DENIED);
	host_shell("rm '%s'", host_text("%s/work", test_store_path()));
	end();
}

/* ---- pins ---- */

static void pruned(void)
{
	begin();
	work *w = kit_open(s, "demo", CB_TIER_AUTO);
	const char *argv[] = {"sh", "echo mine > work/mine; rm work/a", NULL};
	work_result r;
	uint64_t base = must_seq(b), gone = 0;
	CHECK_OK(work_begin(w, NULL, &err));
	for (int i = 0; i < 20; i++) must_write(b, "/work/theirs", host_text("%d", i));
	CHECK_OK(cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 1), &gone, &err));
	CHECK(gone > 0);
	CHECK_OK(cb_store_gc(s, NULL, &err));
	cb_box *old = must_open(s, host_text("demo@%llu", (unsigned long long)base));
	cb_box_close(old);
	CHECK_U64(kit_command(w, argv), 0);
	CHECK_OK(work_end(w, WORK_COMMIT, NULL, NULL, NULL, NULL, NULL, &r, &err));
	CHECK(r.commit.merged);
	CHECK(exists(b, "/work/mine") && !exists(b, "/work/a"));
	CHECK_OK(cb_prune(b, &CB_WITH(cb_prune_options, .keep_steps = 1), &gone, &err));
	CHECK_CODE(cb_box_open(s, host_text("demo@%llu", (unsigned long long)base), &old, &err), CB_STALE);
	CHECK_OK(kit_sh(w, "cp work/mine work/again", &r, &err));
	CHECK_U64(r.changed, 1);
	work_close(w);
	end();
}

TEST(prune_leaves_what_runs)
{
	pruned();
}

TEST(prune_leaves_what_runs_on_layers)
{
	small_bounds();
	pruned();
}

TEST(clean_leaves_what_is_used)
{
	begin();
	cb_box *other = NULL;
	CHECK_OK(cb_box_create(s, "other", &other, &err));
	work *w = kit_open(s, "demo", CB_TIER_AUTO), *v = kit_open(s, "other", CB_TIER_AUTO);
	work_result r;
	uint64_t removed = 0;
	CHECK_OK(kit_sh(w, "echo x > work/x", &r, &err));
	CHECK_OK(kit_sh(v, "echo x > work/x", &r, &err));
	work_close(v);
	cb_box_close(other);
	CHECK_OK(work_clean(s, false, &removed, &err));
	CHECK_U64(removed, 0);
	CHECK_OK(cb_box_delete(s, "other", &err));
	CHECK_OK(work_clean(s, false, &removed, &err));
	CHECK_U64(removed, 1);
	CHECK_OK(kit_sh(w, "test -e work/x", &r, &err));
	CHECK_OK(work_clean(s, true, &removed, &err));
	CHECK_U64(removed, 0);
	work_close(w);
	CHECK_OK(work_clean(s, true, &removed, &err));
	CHECK_U64(removed, 1);
	end();
}

/* What is removed while another program takes the slot would be that program's. */
TEST(clean_is_waited_for)
{
	begin();
	work *w = kit_open(s, "demo", CB_TIER_AUTO);
	work_result r;
	CHECK_OK(kit_sh(w, "echo x > work/x", &r, &err));
	work_close(w);
	work_dirs d;
	AUTO_FD int lock = -1;
	CHECK_OK(dirs_open(s, &d, &err));
	CHECK_OK(layers_lock(&d, true, &lock, &err));
	CHECK_OK(cb_limit_push(&CB_WITH(cb_limit, .timeout_ms = 100), &err));
	CHECK_CODE(work_open(s, "demo", &(work_options){.tier = CB_TIER_AUTO}, &w, &err), CB_TIMEOUT);
	cb_limit_pop();
	CHECK(close(TAKE_FD(lock)) == 0);
	dirs_done(&d);
	w = kit_open(s, "demo", CB_TIER_AUTO);
	CHECK_OK(kit_sh(w, "test -e work/x", &r, &err));
	work_close(w);
	end();
}

/* A stamp is rewritten in place: who reads it meanwhile may see half of it, and must not take the layers for nobody's. */
TEST(clean_beside_a_stamp_that_is_written)
{
	small_bounds();
	begin();
	work *w = kit_open(s, "demo", CB_TIER_OVERLAY);
	work_result r;
	uint64_t removed = 0;
	CHECK_OK(kit_sh(w, "echo x > work/x", &r, &err));
	CHECK_U64(w->slot.stamp.layer_count, 1);
	CHECK(pwrite(w->slot.fd, "?", 1, 20) == 1);
	CHECK_OK(work_clean(s, true, &removed, &err));
	CHECK_U64(removed, 0);
	CHECK_OK(kit_sh(w, "test -e work/x && test -e work/a && echo y > work/y", &r, &err));
	work_close(w);
	CHECK(exists(b, "/work/y"));
	CHECK_OK(work_clean(s, true, &removed, &err));
	CHECK(removed >= 2);
	end();
}

static uint64_t removed_beside;

static void clean_beside(const char *stage)
{
	if (strcmp(stage, "build") != 0) return;
	CHECK_OK(cb_limit_push(&CB_WITH(cb_limit, .timeout_ms = 2000), &err));
	CHECK_OK(work_clean(s, false, &removed_beside, &err));
	cb_limit_pop();
	work_stage_hook = NULL;
}

/* Laying out a large box takes long, and cleaning does not wait for it: what is made is passed over, the rest goes. */
TEST(clean_beside_a_layer_that_is_made)
{
	small_bounds();
	begin();
	cb_box *other = NULL;
	CHECK_OK(cb_box_create(s, "other", &other, &err));
	must_write(other, "/work/x", "x");
	work *v = kit_open(s, "other", CB_TIER_OVERLAY);
	work_result r;
	CHECK_OK(kit_sh(v, "true", &r, &err));
	work_close(v);
	cb_box_close(other);
	CHECK_OK(cb_box_delete(s, "other", &err));
	for (int i = 0; i < 20; i++) must_write(b, host_text("/work/%d", i), "text");
	work *w = kit_open(s, "demo", CB_TIER_OVERLAY);
	work_stage_hook = clean_beside;
	CHECK_OK(kit_sh(w, "test $(ls work | wc -l) -ge 20", &r, &err));
	CHECK(!work_stage_hook && removed_beside >= 1);
	CHECK_U64(w->slot.stamp.layer_count, 1);
	work_close(w);
	end();
}

TEST(no_holder_is_left)
{
	begin();
	pid_t pids[4];
	for (int i = 0; i < 4; i++) {
		work *w = kit_open(s, "demo", CB_TIER_AUTO);
		work_result r;
		CHECK_OK(kit_sh(w, "true", &r, &err));
		pids[i] = link_pid(work_link(w));
		work_close(w);
	}
	for (int i = 0; i < 4; i++) CHECK(kill(pids[i], 0) != 0 && errno == ESRCH);
	CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
	end();
}

static cb_code told_step(void *context, const cb_step *step, cb_error *e)
{
	(void)e;
	char *out = context;
	(void)snprintf(out, 4096, "%.40s|%.300s|%.300s", step->kind, step->params, step->result);
	return CB_OK;
}

/* Whatever the step is to say: what the command did is not lost for it. */
TEST(a_description_too_large_is_cut)
{
	enum { MOST = LIMIT_STEP_FIELD_BYTES };
	work_result r;
	const char *argv[] = {"sh", "echo work > work/precious", NULL};
	char said[4096] = "", *large = malloc(MOST + 2);
	CHECK(large != NULL);
	memset(large, 'p', MOST + 1);
	large[MOST + 1] = 0;
	begin();
	work *w = kit_open(s, "demo", CB_TIER_AUTO);
	cb_step_info info = CB_WITH(cb_step_info, .kind = large, .params = large, .params_size = MOST + 1, .result = large,
	                            .result_size = CB_STRING);
	CHECK_OK(work_begin(w, &info, &err));
	CHECK_U64(kit_command(w, argv), 0);
	CHECK_OK(work_end(w, WORK_COMMIT, &info, NULL, NULL, NULL, NULL, &r, &err));
	CHECK_U64(r.changed, 1);
	CHECK_STR(must_read(b, "/work/precious"), "work\n");
	CHECK_OK(cb_step_get(b, r.commit.seq, told_step, said, &err));
	CHECK_MSG(strncmp(said, "ppp", 3) == 0 && strstr(said, "|{\"cut\":\"ppp") && strstr(said, "\",\"run\":\""), "%s", said);
	work_close(w);
	free(large);
	end();
}

TEST(a_holder_that_dies_is_told)
{
	begin();
	work *w = kit_open(s, "demo", CB_TIER_AUTO);
	work_result r;
	CHECK_OK(kit_sh(w, "echo x > work/x", &r, &err));
	CHECK_OK(work_begin(w, NULL, &err));
	CHECK_OK(work_ready(w, &err));
	CHECK(kill(link_pid(work_link(w)), SIGKILL) == 0);
	CHECK_CODE(work_end(w, WORK_COMMIT, NULL, NULL, NULL, NULL, NULL, &r, &err), CB_IO);
	work_close(w);
	w = kit_open(s, "demo", CB_TIER_AUTO);
	CHECK_OK(kit_sh(w, "echo y > work/y", &r, &err));
	CHECK_U64(r.changed, 1);
	work_close(w);
	end();
}

TEST(a_store_in_memory)
{
	kit_begin();
	s = test_store_open(true);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	must_write(b, "/work/a", "one\n");
	work *w = kit_open(s, "demo", CB_TIER_AUTO);
	const char *folder = host_text("%s", w->dirs.temporary);
	work_result r;
	CHECK_OK(kit_sh(w, "cat work/a > work/b", &r, &err));
	CHECK_U64(r.changed, 1);
	must_write(b, "/work/a", "two\n");
	CHECK_OK(kit_sh(w, "cat work/a >> work/b", &r, &err));
	CHECK_STR(must_read(b, "/work/b"), "one\ntwo\n");
	CHECK(access(folder, F_OK) == 0);
	work_close(w);
	CHECK(access(folder, F_OK) != 0);
	end();
}
