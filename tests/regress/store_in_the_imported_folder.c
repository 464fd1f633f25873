/*
 * A store that lay in a folder of the host was imported with it, live files and all. A forced apply wrote that copy over the store, and
 * exports and packs were written into it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cowbox/cowbox.h>

#include "box/box.h"
#include "harness/boxes.h"
#include "harness/hosttrees.h"

typedef struct world {
	cb_store *s;
	cb_box *b;
	const char *folder, *store; /* the store is folder/deep/.cowbox */
	unsigned notes;
	char said[256]; /* the last of them */
	cb_transfer_watch watch;
} world;

static void note(void *context, const char *path, const char *what)
{
	world *w = context;
	w->notes++;
	(void)snprintf(w->said, sizeof(w->said), "%s: %s", path, what);
}

static void open_world(world *w)
{
	cb_error err = {0};
	*w = (world){.folder = host_text("%s/p", test_tmpdir())};
	w->watch = CB_WITH(cb_transfer_watch, .note = note, .context = w);
	w->store = host_text("%s/deep/.cowbox", w->folder);
	host_shell("mkdir -p %s/deep && echo v1 >%s/f.txt", w->folder, w->folder);
	CHECK_OK(cb_store_open(w->store, NULL, &w->s, &err));
	CHECK_OK(cb_box_create(w->s, "demo", &w->b, &err));
}

/* The store is whole, and nothing was put there. */
static void close_world(world *w)
{
	test_store_sound(w->s);
	cb_box_close(w->b);
	cb_store_close(w->s);
	cb_error err = {0};
	CHECK_OK(cb_store_open(w->store, &CB_WITH(cb_store_options, .no_create = true), &w->s, &err));
	CHECK(exists(must_open(w->s, "demo"), "/work"));
	host_shell("! find %s | grep -E 'cowbox-(tmp|apply)|out$|stray'", w->store);
}

static cb_code import(world *w, const char *from, bool remove_missing, cb_transfer_count *out, cb_error *err)
{
	w->notes = 0;
	cb_import_options options = CB_WITH(cb_import_options, .link = true, .remove_missing = remove_missing, .watch = &w->watch);
	return cb_import(w->b, from, &options, out, err);
}

static cb_code apply(world *w, bool force, cb_apply_result *out, cb_error *err)
{
	w->notes = 0;
	return cb_apply(w->b, &CB_WITH(cb_apply_options, .force = force, .watch = &w->watch), NULL, NULL, out, err);
}

/* ---- into a box ---- */

TEST(import_leaves_it_out_and_says_so)
{
	cb_error err = {0};
	cb_transfer_count count = CB_INIT(cb_transfer_count);
	world w;
	open_world(&w);
	CHECK_OK(import(&w, w.folder, false, &count, &err));
	CHECK_U64(count.files, 1);
	CHECK_U64(count.left_out, 1);
	CHECK_U64(w.notes, 1);
	CHECK_STR(w.said, "deep/.cowbox: left out: the folder of the store itself");
	CHECK(exists(w.b, "/work/deep"));
	CHECK(!exists(w.b, "/work/deep/.cowbox"));
	CHECK_CODE(apply(&w, false, NULL, &err), CB_NOTHING);
	CHECK_U64(w.notes, 0);
	/* What the box has of that name is neither the host's nor missing there. */
	must_write(w.b, "/work/deep/.cowbox", "mine");
	CHECK_OK(import(&w, w.folder, true, &count, &err));
	CHECK_STR(must_read(w.b, "/work/deep/.cowbox"), "mine");
	close_world(&w);
}

TEST(a_link_or_another_name_makes_no_difference)
{
	cb_error err = {0};
	cb_transfer_count count = CB_INIT(cb_transfer_count);
	world w;
	open_world(&w);
	/* The folder is another one's now, and has another name. */
	const char *moved = host_text("%s/moved", test_tmpdir());
	host_shell("mkdir %s && mv %s %s/seemingly-data && ln -s %s %s", moved, w.store, moved, moved,
	           host_text("%s/link", test_tmpdir()));
	CHECK_OK(import(&w, host_text("%s/link/", test_tmpdir()), false, &count, &err));
	CHECK_U64(count.left_out, 1);
	CHECK_STR(w.said, "seemingly-data: left out: the folder of the store itself");
	CHECK(!exists(w.b, "/work/seemingly-data"));
	w.store = host_text("%s/seemingly-data", moved);
	close_world(&w);
}

TEST(the_store_itself_is_not_imported)
{
	cb_error err = {0};
	world w;
	open_world(&w);
	host_shell("ln -s %s/seg %s/link", w.store, test_tmpdir());
	const char *const places[] = {w.store, host_text("%s/seg", w.store), host_text("%s/cowbox.db", w.store),
	                              host_text("%s/link", test_tmpdir())};
	uint64_t before = must_seq(w.b);
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		CHECK_CODE(cb_import(w.b, places[i], NULL, NULL, &err), CB_INVALID);
		CHECK_MSG(strstr(err.message, "an import needs a place outside of it"), "%s", err.message);
	}
	cb_box *txn = must_begin(w.b);
	CHECK_CODE(cb_import(txn, w.store, NULL, NULL, &err), CB_INVALID);
	cb_box_close(txn);
	CHECK_U64(must_seq(w.b), before);
	close_world(&w);
}

TEST(a_store_in_memory_has_no_folder)
{
	cb_error err = {0};
	cb_store *s = test_store_open(true);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	CHECK_OK(cb_import(b, test_tmpdir(), NULL, NULL, &err));
	CHECK_OK(cb_export(b, "/work", host_text("%s/out", test_tmpdir()), NULL, NULL, &err));
	cb_box_close(b);
	cb_store_close(s);
}

/* ---- apply ---- */

TEST(apply_leaves_it_alone)
{
	cb_error err = {0};
	cb_apply_result result = CB_INIT(cb_apply_result);
	world w;
	open_world(&w);
	CHECK_OK(import(&w, w.folder, false, NULL, &err));
	CHECK_OK(cb_mkdir(w.b, "/work/deep/.cowbox/new/below", 0700, CB_PARENTS, &err));
	must_write(w.b, "/work/deep/.cowbox/cowbox.db", "not a database");
	must_write(w.b, "/work/deep/.cowbox/new/below/stray", "x");
	must_write(w.b, "/work/deep/.cowbox/seg/stray", "x");
	must_write(w.b, "/work/f.txt", "v2");
	CHECK_OK(cb_chmod(w.b, "/work/deep/.cowbox", 0755, 0, &err));
	CHECK_OK(apply(&w, true, &result, &err));
	CHECK_U64(result.written, 1);
	CHECK_U64(result.removed, 0);
	CHECK_U64(w.notes, 1);
	CHECK_STR(w.said, "deep/.cowbox: left alone: the folder of the store itself");
	host_shell("grep -q v2 %s/f.txt && test $(stat -c %%a %s) = 700", w.folder, w.store);
	close_world(&w);
}

/* A path whose folder the store does not have. */
TEST(apply_makes_no_folder_in_it)
{
	cb_error err = {0};
	world w;
	open_world(&w);
	CHECK_OK(import(&w, w.folder, false, NULL, &err));
	CHECK_OK(cb_mkdir(w.b, "/work/deep/.cowbox/a/b", 0700, CB_PARENTS, &err));
	must_write(w.b, "/work/deep/.cowbox/a/b/stray", "x");
	const char *const one[] = {"deep/.cowbox/a/b/stray"};
	cb_apply_options options = CB_WITH(cb_apply_options, .paths = one, .path_count = 1, .force = true, .watch = &w.watch);
	CHECK_CODE(cb_apply(w.b, &options, NULL, NULL, NULL, &err), CB_NOTHING);
	CHECK_U64(w.notes, 2); /* of the import, and of this */
	CHECK(access(host_text("%s/a", w.store), F_OK) != 0);
	close_world(&w);
}

/* The box has what an earlier import brought, and so has what it knows of its folder. */
TEST(what_was_imported_earlier_is_left_alone)
{
	cb_error err = {0};
	cb_apply_result result = CB_INIT(cb_apply_result);
	world w;
	open_world(&w);
	/* Another folder is there at the import. */
	host_shell("mv %s %s/aside && mkdir -p %s/seg && echo old >%s/cowbox.db && echo old >%s/locks", w.store, test_tmpdir(),
	           w.store, w.store, w.store);
	CHECK_OK(import(&w, w.folder, false, NULL, &err));
	CHECK_STR(must_read(w.b, "/work/deep/.cowbox/cowbox.db"), "old\n");
	host_shell("rm -r %s && mv %s/aside %s", w.store, test_tmpdir(), w.store);
	must_write(w.b, "/work/deep/.cowbox/cowbox.db", "newer");
	CHECK_CODE(apply(&w, true, NULL, &err), CB_NOTHING);
	CHECK_U64(w.notes, 1);
	/* Removed from the box it stays on the host. */
	CHECK_OK(cb_remove(w.b, "/work/deep/.cowbox", &err));
	must_write(w.b, "/work/f.txt", "v2");
	CHECK_OK(apply(&w, true, &result, &err));
	CHECK_U64(w.notes, 1);
	CHECK_U64(result.written, 1);
	CHECK_U64(result.removed, 0);
	/* Then it is settled. */
	must_write(w.b, "/work/f.txt", "v3");
	CHECK_OK(apply(&w, false, &result, &err));
	CHECK_U64(w.notes, 0);
	close_world(&w);
}

TEST(a_folder_above_it_stays)
{
	cb_error err = {0};
	world w;
	open_world(&w);
	CHECK_OK(import(&w, w.folder, false, NULL, &err));
	CHECK_OK(cb_remove(w.b, "/work/deep", &err));
	CHECK_CODE(apply(&w, true, NULL, &err), CB_CONFLICT);
	must_write(w.b, "/work/deep", "a file");
	CHECK_CODE(apply(&w, true, NULL, &err), CB_CONFLICT);
	close_world(&w);
}

TEST(apply_to_the_store_is_refused)
{
	cb_error err = {0};
	world w;
	open_world(&w);
	must_write(w.b, "/work/stray", "x");
	const char *const places[] = {w.store, host_text("%s/seg", w.store)};
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		cb_apply_options options = CB_WITH(cb_apply_options, .folder = places[i], .force = true);
		CHECK_CODE(cb_apply(w.b, &options, NULL, NULL, NULL, &err), CB_INVALID);
		CHECK_MSG(strstr(err.message, "apply needs a place outside of it"), "%s", err.message);
	}
	close_world(&w);
}

/* After a kill the folder is looked through for what was left. */
TEST(apply_sweeps_not_in_it)
{
	cb_error err = {0};
	world w;
	open_world(&w);
	CHECK_OK(import(&w, w.folder, false, NULL, &err));
	const char *like = host_text("%s/seg/.cowbox-apply-0123456789abcdef", w.store);
	host_write(like, "x", 1);
	must_write(w.b, "/work/f.txt", "v2");
	CHECK_OK(box_setting_set(w.b, "cowbox.folder.applying", "1", &err));
	CHECK_OK(apply(&w, false, NULL, &err));
	CHECK(unlink(like) == 0);
	close_world(&w);
}

/* ---- to the host ---- */

TEST(export_into_it_is_refused)
{
	cb_error err = {0};
	world w;
	open_world(&w);
	must_write(w.b, "/work/stray", "x");
	host_shell("ln -s %s %s/link", w.store, test_tmpdir());
	CHECK(chdir(w.folder) == 0);
	const char *const places[] = {w.store,
	                              host_text("%s/out", w.store),
	                              host_text("%s/seg", w.store),
	                              host_text("%s/seg/out", w.store),
	                              host_text("%s/link/", test_tmpdir()),
	                              host_text("%s/link/out", test_tmpdir()),
	                              "deep/.cowbox/out",
	                              "deep/../deep/.cowbox/seg/../out"};
	cb_export_options options = CB_WITH(cb_export_options, .overwrite = true);
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		CHECK_CODE(cb_export(w.b, "/work", places[i], &options, NULL, &err), CB_INVALID);
		CHECK_MSG(strstr(err.message, "an export needs a place outside of it"), "%s", err.message);
	}
	const char *const files[] = {host_text("%s/cowbox.db", w.store), "deep/.cowbox/out",
	                             host_text("%s/link/seg/out", test_tmpdir())};
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		CHECK_CODE(cb_export(w.b, "/work/stray", files[i], &options, NULL, &err), CB_INVALID);
		CHECK_MSG(strstr(err.message, "an export needs a place outside of it"), "%s", err.message);
	}
	close_world(&w);
}

TEST(export_over_a_folder_leaves_it_out)
{
	cb_error err = {0};
	cb_transfer_count count = CB_INIT(cb_transfer_count);
	world w;
	open_world(&w);
	CHECK_OK(cb_mkdir(w.b, "/work/deep/.cowbox/seg", 0755, CB_PARENTS, &err));
	must_write(w.b, "/work/deep/.cowbox/cowbox.db", "not a database");
	must_write(w.b, "/work/deep/.cowbox/seg/stray", "x");
	must_write(w.b, "/work/deep/after", "x");
	CHECK_OK(
		cb_export(w.b, "/work", w.folder, &CB_WITH(cb_export_options, .overwrite = true, .watch = &w.watch), &count, &err));
	CHECK_U64(count.files, 1);
	CHECK_U64(count.left_out, 1);
	CHECK_U64(w.notes, 1);
	CHECK_STR(w.said, "deep/.cowbox: left out: the folder of the store itself");
	host_shell("test $(stat -c %%a %s) = 700 && test -f %s/deep/after", w.store, w.folder);
	close_world(&w);
}

TEST(streams_into_it_are_refused)
{
	cb_error err = {0};
	world w;
	open_world(&w);
	const char *const files[] = {host_text("%s/cowbox.db", w.store), host_text("%s/seg/stray", w.store)};
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		struct stat before, after;
		int fd = open(files[i], O_RDWR | O_CREAT, 0600);
		CHECK(fd >= 0 && fstat(fd, &before) == 0);
		CHECK_CODE(cb_pack(w.b, fd, NULL, NULL, &err), CB_INVALID);
		CHECK_MSG(strstr(err.message, "a pack needs a place outside of it"), "%s", err.message);
		CHECK_CODE(cb_tar_export(w.b, "/work", fd, NULL, NULL, &err), CB_INVALID);
		CHECK(fstat(fd, &after) == 0 && before.st_size == after.st_size);
		/* A file without a name is the caller's, wherever it was made. */
		if (i == 1) CHECK(unlink(files[i]) == 0);
		if (i == 1) CHECK_OK(cb_pack(w.b, fd, NULL, NULL, &err));
		close(fd);
	}
	close_world(&w);
}
