/*
 * attribute_without_a_name.c: "user." alone is no name that a kernel takes. A box that was given such an attribute could run no program any
 * more. It is refused now, left out of archives, and where it is nevertheless, from before, programs run without it and it stays.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cowbox/transfer.h>

#include "box/internal.h"
#include "harness/boxes.h"

static cb_store *cs;
static cb_box *box;
static cb_error err;

static void begin(void)
{
	cs = test_store_open(false);
	CHECK_OK(cb_box_create(cs, "demo", &box, &err));
	must_write(box, "/work/f", "text");
	CHECK_OK(cb_xattr_set(box, "/work/f", "user.a", "1", 1, 0, &err));
}

static void end(void)
{
	test_store_sound(cs);
	cb_box_close(box);
	cb_store_close(cs);
}

static cb_code put_nameless(op *o)
{
	resolved r;
	tree_view v = txn_view(o->t);
	CB_TRY(path_find(o->b, &v, "/work/f", 0, GATE_WRITE, &r, &err));
	key k = key_attr(r.node.rec.ino, span_str("user."));
	CB_TRY(value_store(o->t, &k, "old", 3, &err));
	inode_changed(o->t, &r.node, false);
	return inode_save(o->t, &r.node, &err);
}

static void run(const char *text, const char *expected)
{
	cb_sandbox *sandbox = NULL;
	cb_exec *e = NULL;
	const cb_exec_result *result = NULL;
	const char *const argv[] = {"sh", "-c", text};
	cb_code code = cb_sandbox_open(box, NULL, &sandbox, &err);
	if (code == CB_OK) code = cb_exec_start(sandbox, &CB_WITH(cb_exec_options, .argv = argv, .argc = 3), &e, &err);
	if (code == CB_UNSUPPORTED) test_lacks("sandbox", err.message);
	CHECK_OK(code);
	CHECK_OK(cb_exec_wait(e, &result, &err));
	CHECK_MSG(result->exit_code == 0, "it ended with %d", result->exit_code);
	CHECK_STR(must_read(box, "/work/f"), expected);
	cb_exec_close(e);
	cb_sandbox_close(sandbox);
}

TEST(programs_run_beside_an_attribute_without_a_name)
{
	op o;
	char *value = NULL;
	begin();
	CHECK_CODE(cb_xattr_set(box, "/work/f", "user.", "1", 1, 0, &err), CB_INVALID);
	CHECK_MSG(strstr(err.message, "after 'user.'"), "%s", err.message);
	CHECK_OK(op_begin(&o, box, "xattr", "/work/f", &err));
	CHECK_OK(op_end(&o, put_nameless(&o), NULL, &err));
	run("true", "text");
	run("echo more >f", "more\n");
	CHECK_OK(cb_xattr_get(box, "/work/f", "user.", 0, &value, NULL, &err));
	CHECK_STR(value, "old");
	cb_free(value);
	CHECK_OK(cb_xattr_remove(box, "/work/f", "user.", 0, &err));
	end();
}

static void on_note(void *context, const char *path, const char *what)
{
	(void)path;
	*(bool *)context = *(bool *)context || strstr(what, "not user.*");
}

TEST(archives_lose_an_attribute_without_a_name)
{
	char command[1200], *value = NULL;
	bool said = false;
	begin();
	(void)snprintf(command, sizeof(command),
	               "python3 -c 'import tarfile\nt = tarfile.open(\"%s/x.tar\", \"w\", format=tarfile.PAX_FORMAT)\n"
	               "i = tarfile.TarInfo(\"g\")\ni.pax_headers = {\"SCHILY.xattr.user.\": \"v\", \"SCHILY.xattr.user.b\": "
	               "\"v\"}\nt.addfile(i)\nt.close()'",
	               test_tmpdir());
	CHECK(system(command) == 0);
	(void)snprintf(command, sizeof(command), "%s/x.tar", test_tmpdir());
	int fd = open(command, O_RDONLY);
	cb_tar_options options = CB_WITH(cb_tar_options, .watch = &CB_WITH(cb_transfer_watch, .note = on_note, .context = &said));
	CHECK(fd >= 0);
	CHECK_OK(cb_tar_import(box, fd, &options, NULL, &err));
	CHECK(said && close(fd) == 0);
	CHECK_OK(cb_xattr_get(box, "/work/g", "user.b", 0, &value, NULL, &err));
	cb_free(value);
	CHECK_CODE(cb_xattr_get(box, "/work/g", "user.", 0, &value, NULL, &err), CB_NODATA);
	end();
}
