/* transfers.c: see transfers.h. */
#include "harness/transfers.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/attr.h"
#include "harness/tree_text.h"

/* ---- the world ---- */

static const char *place(const transfer_world *w, const char *name)
{
	static char path[4400];
	(void)snprintf(path, sizeof(path), "%s/%s", w->home, name);
	return path;
}

static int stream_open(const transfer_world *w, const char *name)
{
	int fd = open(place(w, name), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK(fd >= 0);
	return fd;
}

static void folder_fill(const transfer_world *w, size_t file_bytes)
{
	test_rng r = {test_seed() | 1};
	uint64_t *words = calloc(file_bytes / 8 + 1, 8);
	CHECK(words && mkdir(place(w, "folder"), 0755) == 0);
	for (unsigned i = 0; i < w->files; i++) {
		char name[64];
		(void)snprintf(name, sizeof(name), "folder/f%u", i);
		for (size_t k = 0; k <= file_bytes / 8; k++) words[k] = test_rand(&r);
		int fd = stream_open(w, name);
		CHECK(write(fd, words, file_bytes) == (ssize_t)file_bytes && close(fd) == 0);
	}
	free(words);
}

void transfer_world_open(transfer_world *w, unsigned files, size_t file_bytes)
{
	cb_error err;
	cb_box *loose = NULL;
	*w = (transfer_world){.s = test_store_open(false), .files = files};
	(void)snprintf(w->home, sizeof(w->home), "%s", test_tmpdir());
	folder_fill(w, file_bytes);
	CHECK_OK(cb_box_create(w->s, "demo", &w->b, &err));
	CHECK_OK(cb_import(w->b, place(w, "folder"), &CB_WITH(cb_import_options, .link = true), NULL, &err));
	CHECK_OK(cb_box_create(w->s, "loose", &loose, &err)); /* the same, linked with no folder */
	CHECK_OK(cb_import(loose, place(w, "folder"), NULL, NULL, &err));
	cb_box_close(loose);
	int tar = stream_open(w, "in.tar"), pack = stream_open(w, "in.pack");
	CHECK_OK(cb_tar_export(w->b, "/work", tar, NULL, NULL, &err));
	CHECK_OK(cb_pack(w->b, pack, NULL, NULL, &err));
	CHECK(close(tar) == 0 && close(pack) == 0);
}

void transfer_world_close(transfer_world *w)
{
	test_store_sound(w->s);
	cb_box_close(w->b);
	cb_store_close(w->s);
}

/* ---- what is made is whole ---- */

static void check_nothing_left(transfer_world *w)
{
	must_run("cd '%s' && test -z \"$(ls -A | grep tmp)\"", w->home);
}

static void check_folder(transfer_world *w)
{
	must_run("cd '%s' && test $(ls -A out | wc -l) = %u && diff -rq folder out && rm -r out", w->home, w->files);
	check_nothing_left(w);
}

static void check_same(transfer_world *w, cb_box *b, const char *path)
{
	check_same_tree(tree_of_box(b, path, TREE_NO_DIR_TIMES), tree_of_host(place(w, "folder"), TREE_NO_DIR_TIMES));
	check_nothing_left(w);
}

static void check_in(transfer_world *w)
{
	cb_error err;
	check_same(w, w->b, "/in");
	CHECK_OK(cb_remove(w->b, "/in", &err));
}

static void check_applied(transfer_world *w)
{
	check_same(w, w->b, "/work");
}

static void check_applied_anew(transfer_world *w)
{
	cb_error err;
	check_folder(w);
	CHECK_OK(cb_box_delete(w->s, "applied", &err));
}

static void check_tar(transfer_world *w)
{
	must_run("cd '%s' && cmp in.tar out.tar && rm out.tar", w->home);
}

static void check_unpacked(transfer_world *w)
{
	cb_error err;
	cb_box *made = must_open(w->s, "unpacked");
	check_same(w, made, "/work");
	cb_box_close(made);
	CHECK_OK(cb_box_delete(w->s, "unpacked", &err));
}

static void check_pack(transfer_world *w)
{
	cb_error err;
	int fd = stream_open(w, "out.pack");
	CHECK_OK(cb_unpack(w->s, fd, "unpacked", NULL, NULL, &err));
	CHECK(close(fd) == 0 && unlink(place(w, "out.pack")) == 0);
	check_unpacked(w);
}

/* ---- transfers ---- */

static cb_code do_import(transfer_world *w, cb_error *err)
{
	cb_import_options o = CB_WITH(cb_import_options, .to = "/in", .watch = w->watch, .full = true);
	return cb_import(w->b, place(w, "folder"), &o, NULL, err);
}

static cb_code do_export(transfer_world *w, cb_error *err)
{
	return cb_export(w->b, "/work", place(w, "out"), &CB_WITH(cb_export_options, .watch = w->watch), NULL, err);
}

static cb_code do_export_into(transfer_world *w, cb_error *err)
{
	(void)mkdir(place(w, "out"), 0755);
	cb_export_options o = CB_WITH(cb_export_options, .watch = w->watch, .overwrite = true);
	return cb_export(w->b, "/work", place(w, "out"), &o, NULL, err);
}

/* To the folder it came from, of which every file is older. */
static cb_code do_apply(transfer_world *w, cb_error *err)
{
	cb_box *t = must_begin(w->b);
	for (unsigned i = 0; i < w->files; i++) {
		char path[64];
		(void)snprintf(path, sizeof(path), "/work/f%u", i);
		CHECK_CODE(cb_write_file(t, path, "x", 1, &CB_WITH(cb_write_options, .append = true), NULL), CB_OK);
	}
	(void)must_commit(t);
	return cb_apply(w->b, &CB_WITH(cb_apply_options, .watch = w->watch), NULL, NULL, NULL, err);
}

/* Of a box that has no folder yet. */
static cb_code do_apply_anew(transfer_world *w, cb_error *err)
{
	cb_box *b = NULL;
	if (cb_box_open(w->s, "applied", &b, NULL) != CB_OK) b = must_fork(w->s, "loose", "applied");
	(void)mkdir(place(w, "out"), 0755);
	cb_code code = cb_apply(b, &CB_WITH(cb_apply_options, .watch = w->watch, .folder = place(w, "out")), NULL, NULL, NULL, err);
	cb_box_close(b);
	return code;
}

static cb_code tar_in(transfer_world *w, int fd, cb_error *err)
{
	return cb_tar_import(w->b, fd, &CB_WITH(cb_tar_options, .to = "/in", .watch = w->watch), NULL, err);
}

static cb_code tar_out(transfer_world *w, int fd, cb_error *err)
{
	return cb_tar_export(w->b, "/work", fd, &CB_WITH(cb_tar_options, .watch = w->watch), NULL, err);
}

static cb_code pack_in(transfer_world *w, int fd, cb_error *err)
{
	return cb_unpack(w->s, fd, "unpacked", w->watch, NULL, err);
}

static cb_code pack_out(transfer_world *w, int fd, cb_error *err)
{
	return cb_pack(w->b, fd, &CB_WITH(cb_pack_options, .watch = w->watch), NULL, err);
}

static cb_code with_stream(transfer_world *w, const char *name, cb_code (*call)(transfer_world *w, int fd, cb_error *err),
                           cb_error *err)
{
	int fd = stream_open(w, name);
	cb_code code = call(w, fd, err);
	(void)close(fd);
	return code;
}

static cb_code do_tar_import(transfer_world *w, cb_error *err)
{
	return with_stream(w, "in.tar", tar_in, err);
}

static cb_code do_tar_export(transfer_world *w, cb_error *err)
{
	return with_stream(w, "out.tar", tar_out, err);
}

static cb_code do_unpack(transfer_world *w, cb_error *err)
{
	return with_stream(w, "in.pack", pack_in, err);
}

static cb_code do_pack(transfer_world *w, cb_error *err)
{
	return with_stream(w, "out.pack", pack_out, err);
}

const transfer transfers[] = {
	{"export", do_export, check_folder},
	{"export into", do_export_into, check_folder},
	{"apply anew", do_apply_anew, check_applied_anew},
	{"tar export", do_tar_export, check_tar},
	{"pack", do_pack, check_pack},
	{"unpack", do_unpack, check_unpacked},
	{"import", do_import, check_in},
	{"tar import", do_tar_import, check_in}, /* the stream is what the folder was: */
	{"apply", do_apply, check_applied},      /* last */
};
const size_t transfer_count = ARRAY_LEN(transfers);
