/* test_draft.c: boxes that are filled before they are seen: whole with their name, or gone, also when their process dies. */
#include "harness/boxes.h"
#include "harness/hosttrees.h"

#include <cowbox/cowbox.h>
#include <cowbox/transfer.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static cb_code count_box(void *context, const cb_box_info *info, cb_error *err)
{
	(void)err;
	CHECK(info->name[0] != '#');
	++*(unsigned *)context;
	return CB_OK;
}

static unsigned boxes(cb_store *s)
{
	cb_error err = {0};
	unsigned n = 0;
	CHECK_OK(cb_box_list(s, count_box, &n, &err));
	return n;
}

TEST_BOTH(draft_is_seen_once_it_is_published)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL, *other = NULL;
	cb_box_info info = CB_INIT(cb_box_info);
	cb_gc_result freed = CB_INIT(cb_gc_result);
	CHECK_OK(cb_box_draft(s, "demo", &b, &err));
	must_write(b, "/work/a", "one");
	must_write(b, "/work/a", "two");
	CHECK_U64(boxes(s), 0);
	CHECK_CODE(cb_box_open(s, "demo", &other, &err), CB_NOTFOUND);
	CHECK_OK(cb_store_gc(s, &freed, &err)); /* its owner lives: neither it nor its steps go */
	CHECK_OK(cb_box_publish(b, &err));
	CHECK_CODE(cb_box_publish(b, &err), CB_INVALID);
	CHECK_OK(cb_box_info_get(b, &info, &err));
	CHECK_STR(info.name, "demo");
	must_write(b, "/work/b", "three");
	cb_box_close(b);
	CHECK_U64(boxes(s), 1);
	CHECK_OK(cb_box_open(s, "demo@1", &b, &err));
	CHECK_STR(must_read(b, "/work/a"), "one");
	cb_box_close(b);
	CHECK_OK(cb_box_open(s, "demo", &b, &err));
	CHECK_STR(must_read(b, "/work/a"), "two");
	CHECK_STR(must_read(b, "/work/b"), "three");
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

static cb_code told_as_demo(void *context, const cb_step *step, cb_error *err)
{
	(void)context;
	(void)err;
	if (strcmp(step->kind, "merge") == 0) CHECK(strstr(step->params, "demo") && !strchr(step->params, '#'));
	return CB_OK;
}

static void packs_as(cb_box *b, const char *name, bool no_history)
{
	cb_error err = {0};
	cb_pack_info out = CB_INIT(cb_pack_info), in = CB_INIT(cb_pack_info);
	cb_store *elsewhere = NULL;
	cb_box *copy = NULL;
	int fd = memfd_create("pack", 0);
	CHECK_OK(cb_pack(b, fd, &CB_WITH(cb_pack_options, .no_history = no_history), &out, &err));
	CHECK_STR(out.name, name);
	CHECK(lseek(fd, 0, SEEK_SET) == 0);
	CHECK_OK(cb_store_open(":memory:", NULL, &elsewhere, &err));
	CHECK_OK(cb_unpack(elsewhere, fd, NULL, NULL, &in, &err));
	CHECK_STR(in.name, name);
	copy = must_open(elsewhere, name);
	CHECK_STR(must_dump(copy), must_dump(b));
	cb_box_close(copy);
	cb_store_close(elsewhere);
	close(fd);
}

/* Whoever holds it is told the name that it will have, never the one under which the store has it meanwhile. */
TEST_BOTH(draft_is_told_by_its_name)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL, *into = NULL;
	cb_box_info info = CB_INIT(cb_box_info);
	cb_commit_result result = CB_INIT(cb_commit_result);
	CHECK_OK(cb_box_draft(s, "demo", &b, &err));
	must_write(b, "/work/a", "one");
	CHECK_OK(cb_box_info_get(b, &info, &err));
	CHECK_STR(info.name, "demo");
	packs_as(b, "demo", false);
	packs_as(b, "demo", true);
	CHECK_CODE(cb_checkpoint_delete(b, "none", &err), CB_NOTFOUND);
	CHECK(strstr(err.message, "'demo'"));
	cb_box *t = must_begin(b);
	CHECK_OK(cb_box_info_get(t, &info, &err));
	CHECK_STR(info.name, "demo");
	must_write(t, "/work/a", "txn");
	must_write(b, "/work/a", "box");
	CHECK_CODE(cb_txn_commit(t, &CB_WITH(cb_commit_options, .no_merge = true), &result, &err), CB_CONFLICT);
	CHECK(strstr(err.message, "'demo'"));
	CHECK_CODE(cb_txn_commit(t, &CB_WITH(cb_commit_options, .lost = CB_LOST_FORK), &result, &err), CB_CONFLICT);
	CHECK(strncmp(result.fork, "demo-conflict-", strlen("demo-conflict-")) == 0);
	cb_box_close(t);
	into = must_open(s, result.fork);
	CHECK_OK(cb_box_info_get(into, &info, &err));
	CHECK_STR(info.origin, "");
	CHECK_OK(cb_merge(into, b, &CB_WITH(cb_merge_options, .prefer = CB_PREFER_THEIRS), NULL, NULL, &err));
	CHECK_OK(cb_log(into, NULL, told_as_demo, NULL, NULL, &err));
	CHECK_OK(cb_box_publish(b, &err));
	packs_as(b, "demo", false);
	cb_box_close(into);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

TEST_BOTH(draft_is_published_beside_an_open_transaction)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	CHECK_OK(cb_box_draft(s, "demo", &b, &err));
	must_write(b, "/work/a", "one");
	cb_box *t = must_begin(b);
	must_write(t, "/work/b", "two");
	CHECK_OK(cb_box_publish(b, &err));
	must_write(b, "/work/c", "three");
	(void)must_commit(t);
	cb_box_close(b);
	b = must_open(s, "demo");
	CHECK_STR(must_read(b, "/work/b"), "two");
	CHECK_STR(must_read(b, "/work/c"), "three");
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

TEST_BOTH(draft_closed_is_gone)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *b = NULL;
	cb_gc_result freed = CB_INIT(cb_gc_result);
	CHECK_OK(cb_box_draft(s, "demo", &b, &err));
	must_write(b, "/work/a", "one");
	cb_box_close(b);
	CHECK_U64(boxes(s), 0);
	CHECK_OK(cb_store_gc(s, &freed, &err));
	CHECK_U64(freed.boxes_freed, 0); /* nobody ever saw it */
	test_store_sound(s);
	cb_store_close(s);
}

TEST_BOTH(draft_name_is_free_until_published)
{
	cb_error err = {0};
	cb_store *s = test_store_open(memory);
	cb_box *a = NULL, *b = NULL, *c = NULL;
	CHECK_CODE(cb_box_draft(s, "#new-1", &a, &err), CB_INVALID);
	CHECK_OK(cb_box_draft(s, "demo", &a, &err));
	CHECK_OK(cb_box_draft(s, "demo", &b, &err));
	CHECK_OK(cb_box_publish(b, &err));
	CHECK_CODE(cb_box_publish(a, &err), CB_EXISTS);
	CHECK_CODE(cb_box_draft(s, "demo", &c, &err), CB_EXISTS);
	CHECK_OK(cb_box_rename(s, "demo", "first", &err));
	CHECK_OK(cb_box_publish(a, &err)); /* it was still there */
	CHECK_U64(boxes(s), 2);
	cb_box_close(a);
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

static void draft_and_die(const char *store, const char *folder)
{
	cb_error err = {0};
	cb_store *s = NULL;
	cb_box *b = NULL;
	cb_import_options options = CB_WITH(cb_import_options, .link = true);
	if (cb_store_open(store, NULL, &s, &err) != CB_OK) _exit(1);
	if (cb_box_draft(s, "demo", &b, &err) != CB_OK) _exit(2);
	_exit(cb_import(b, folder, &options, NULL, &err) == CB_OK ? 0 : 3);
}

/* Of many drafts of the dead none is taken for the living one's, whatever their numbers. */
TEST(draft_of_a_dead_process_goes_with_gc)
{
	cb_error err = {0};
	cb_store *s = test_store_open(false);
	cb_box *b = NULL, *living = NULL;
	cb_gc_result freed = CB_INIT(cb_gc_result);
	char *name = NULL;
	char path[4096];
	(void)snprintf(path, sizeof(path), "%s/folder", test_tmpdir());
	CHECK(mkdir(path, 0755) == 0);
	CHECK_OK(cb_box_create(s, "owner", &b, &err));
	cb_import_options options = CB_WITH(cb_import_options, .link = true);
	CHECK_OK(cb_import(b, path, &options, NULL, &err));
	cb_box_close(b);
	for (int i = 0; i < 5; i++) {
		pid_t child = fork();
		if (child == 0) draft_and_die(test_store_path(), path);
		int status = 0;
		CHECK(waitpid(child, &status, 0) == child);
		CHECK_U64(status, 0);
	}
	CHECK_U64(boxes(s), 1);
	CHECK_OK(cb_folder_box(s, path, &name, &err));
	CHECK_STR(name, "owner"); /* an unpublished draft takes nobody's folder */
	cb_free(name);
	CHECK_OK(cb_box_draft(s, "demo", &living, &err));
	must_write(living, "/work/a", "one");
	test_store_sound(s);
	CHECK_OK(cb_store_gc(s, &freed, &err));
	CHECK_U64(freed.boxes_freed, 0); /* nobody ever saw them */
	CHECK_OK(cb_box_publish(living, &err));
	CHECK_STR(must_read(living, "/work/a"), "one");
	cb_box_close(living);
	test_store_sound(s);
	cb_store_close(s);
}
