/*
 * cancelled_box.h: a store `s` with a box "demo" of some history, a fork of it, "side", which can be merged, and a token, for programs in
 * which limits end calls. Each program has its own.
 */
#ifndef TESTS_CANCELLED_BOX_H
#define TESTS_CANCELLED_BOX_H

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cowbox/transfer.h>

#include "base/buf.h"
#include "base/cancel.h"
#include "harness/boxes.h"

enum { FILES = 40, LINES = 300, LARGE_BYTES = 3 << 20 };

static cb_store *s;
static cb_error err;
static cb_cancel *token;
static char folder[512], elsewhere[512]; /* of the host: one with files, an empty one */
static int tar_fd, pack_fd, sink_fd;     /* "side" as a tar stream and as a pack; to write into */

static inline char *text_of(unsigned seed)
{
	AUTO_BUF buf text = BUF_INIT(1 << 20);
	char *out = NULL;
	for (unsigned i = 0; i < LINES; i++)
		CHECK_OK(buf_printf(&text, &err, "line %u of %u\n", i % 37 == seed % 37 ? seed : 0, i));
	CHECK_OK(buf_take(&text, &out, NULL, &err));
	return test_keep(out);
}

static inline char *large(void)
{
	static char *bytes;
	if (bytes) return bytes;
	bytes = test_keep(malloc(LARGE_BYTES + 1));
	for (size_t i = 0; i < LARGE_BYTES; i++) bytes[i] = (char)('a' + i * 2654435761u % 26);
	bytes[LARGE_BYTES] = 0;
	return bytes;
}

static inline void host_write(const char *name, const char *bytes, size_t size)
{
	char path[640];
	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	CHECK(fd >= 0 && write(fd, bytes, size) == (ssize_t)size && close(fd) == 0);
}

static inline void host_fill(void)
{
	(void)snprintf(folder, sizeof(folder), "%s/host", test_tmpdir());
	(void)snprintf(elsewhere, sizeof(elsewhere), "%s/out", test_tmpdir());
	CHECK(mkdir(folder, 0755) == 0 && mkdir(elsewhere, 0755) == 0);
	for (unsigned i = 0; i < FILES; i++) {
		char name[32];
		(void)snprintf(name, sizeof(name), "file%u", i);
		host_write(name, text_of(i), 200);
	}
	host_write("large", large(), LARGE_BYTES);
}

static inline void box_fill(cb_box *b)
{
	for (unsigned i = 0; i < FILES; i++) {
		char path[64];
		(void)snprintf(path, sizeof(path), "/work/d%u/f%u", i % 4, i);
		CHECK_OK(cb_write_file(b, path, text_of(i), strlen(text_of(i)), &CB_WITH(cb_write_options, .parents = true), &err));
	}
	CHECK_OK(cb_write_file(b, "/work/large", large(), LARGE_BYTES, NULL, &err));
	for (unsigned i = 0; i < 6; i++) must_write(b, "/work/text", text_of(i));
	CHECK_OK(cb_kv_set(b, "key", "value", 5, &err));
	CHECK_OK(cb_checkpoint_save(b, "middle", 0, true, &err));
	must_write(b, "/work/late", "late");
	CHECK_OK(cb_remove(b, "/work/d3", &err));
	must_write(b, "/work/last", "last");
}

static inline void begin(bool memory)
{
	cb_box *b, *side;
	s = test_store_open(memory);
	CHECK_OK(cb_cancel_create(&token, &err));
	host_fill();
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	box_fill(b);
	/* What is merged: another text at the same file, other files, and some that go. */
	side = must_fork(s, "demo", "side");
	AUTO_BUF buf changed = BUF_INIT(1 << 20);
	CHECK_OK(buf_printf(&changed, &err, "first\n%s", must_read(side, "/work/text")));
	CHECK_OK(cb_write_file(side, "/work/text", changed.bytes, changed.size, NULL, &err));
	CHECK_OK(cb_remove(side, "/work/d1", &err));
	must_write(side, "/work/side", "side");
	buf_clear(&changed);
	CHECK_OK(buf_printf(&changed, &err, "%slast\n", must_read(b, "/work/text")));
	CHECK_OK(cb_write_file(b, "/work/text", changed.bytes, changed.size, NULL, &err));
	tar_fd = memfd_create("tar", 0);
	pack_fd = memfd_create("pack", 0);
	sink_fd = memfd_create("sink", 0);
	CHECK_OK(cb_tar_export(side, "/work", tar_fd, NULL, NULL, &err));
	CHECK_OK(cb_pack(side, pack_fd, NULL, NULL, &err));
	cb_box_close(side);
	cb_box_close(b);
}

static inline void end(void)
{
	test_store_sound(s);
	cb_cancel_free(token);
	cb_store_close(s);
}

static inline unsigned entries_in(const char *path)
{
	char command[640];
	unsigned n = 0;
	(void)snprintf(command, sizeof(command), "ls -A '%s' | wc -l", path);
	FILE *p = popen(command, "r");
	CHECK(p && fscanf(p, "%u", &n) == 1 && pclose(p) == 0);
	return n;
}

static inline void clear_elsewhere(void)
{
	char command[640];
	(void)snprintf(command, sizeof(command), "rm -rf '%s'/*", elsewhere);
	CHECK(system(command) == 0);
}

#endif
