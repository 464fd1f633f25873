/* fuzz_path.c: resolution of hostile paths through hostile symlinks, in a box that holds a few folders and links. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "box/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static cb_store *s;
static cb_box *b;

static void must(cb_code code)
{
	if (code != CB_OK) abort();
}

static void set_up(void)
{
	must(cb_store_open(":memory:", NULL, &s, NULL));
	must(cb_box_create(s, "fuzz", &b, NULL));
	must(cb_mkdir(b, "/work/a/b/c", 0755, CB_PARENTS, NULL));
	must(cb_write_file(b, "/work/a/file", "x", 1, NULL, NULL));
	must(cb_symlink(b, "..", "/work/a/up", NULL));
	must(cb_symlink(b, "/work/a/b", "/work/abs", NULL));
	must(cb_symlink(b, "loop", "/work/loop", NULL));
}

/* Input: a link's target, a NUL, a path. The link is /work/l for the time of one transaction. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!b) set_up();
	if (size > 6000) return 0;
	char text[6001];
	memcpy(text, data, size);
	text[size] = 0;
	size_t first = strlen(text);
	const char *path = first < size ? text + first + 1 : "/work/l";
	cb_box *box = b;
	must(cb_txn_begin(box, NULL, &b, NULL));
	(void)cb_symlink(b, text, "/work/l", NULL);
	tree_view v = box_view(b);
	resolved r;
	cb_error err = {0};
	if (path_resolve(b, &v, path, PATH_FOLLOW, GATE_READ, &r, &err) == CB_OK && r.exists) {
		AUTO_BUF buf where = BUF_INIT(1 << 20);
		assert(r.node.rec.type != CB_SYMLINK);
		assert(inode_path(&v, r.node.rec.ino, &where, &err) == CB_OK && where.bytes[0] == '/');
	}
	(void)cb_mkdir(b, path, 0755, CB_PARENTS, NULL);
	(void)cb_rename(b, "/work/a", path, 0, NULL);
	(void)cb_remove(b, path, NULL);
	cb_box_close(b);
	b = box;
	return 0;
}
