/*
 * A FIFO in place of one of the store's files made whoever opened it wait for ever, and a symbolic link in place of `seg` was followed. Now
 * what is no file is an error, or is done without where nothing rests on the file; nothing is waited for, and no link is followed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/boxes.h"

enum { LARGE_BYTES = 200000 };

static const char *const files[] = {"cowbox.db", "cowbox.db-wal", "cowbox.db-shm", "cowbox.db-journal", "locks",
                                    "live",      "inuse",         "numbers",       "seg/000001.seg"};
static cb_error err;
static char *large;

static const char *in_store(const char *name)
{
	static char path[4300];
	(void)snprintf(path, sizeof(path), "%s/%s", test_store_path(), name);
	return path;
}

static const char *aside(void)
{
	static char path[4300];
	(void)snprintf(path, sizeof(path), "%s/aside", test_tmpdir());
	return path;
}

static void fill(void)
{
	cb_store *s = test_store_open(false);
	cb_box *b = NULL;
	large = test_keep(calloc(1, LARGE_BYTES));
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	CHECK_OK(cb_write_file(b, "/work/large", large, LARGE_BYTES, NULL, &err));
	cb_box_close(b);
	cb_store_close(s);
}

/* True: it worked. Otherwise there is a sentence. */
static bool answered(cb_code code, const char *name, const char *deed)
{
	if (code == CB_OK) return true;
	CHECK_MSG(code != CB_INTERNAL && code != CB_BUSY && err.message[0], "%s: %s: %s: %s", name, deed, cb_code_name(code),
	          err.message);
	return false;
}

/* Whatever is refused, it is refused at once, and nothing is written elsewhere. */
static bool deeds(const char *name, bool read_only)
{
	cb_store *s = NULL;
	cb_box *b = NULL;
	cb_store_options o = {.struct_size = sizeof(o), .read_only = read_only};
	if (!answered(cb_store_open(test_store_path(), &o, &s, &err), name, "opening")) return false;
	bool all = answered(cb_box_open(s, "demo", &b, &err), name, "opening the box");
	if (all) {
		char *bytes = NULL;
		size_t size = 0;
		all = answered(cb_read_file(b, "/work/large", &bytes, &size, &err), name, "reading");
		CHECK(!all || size == LARGE_BYTES);
		cb_free(bytes);
		if (!read_only) {
			all &= answered(cb_write_file(b, "/work/more", large, LARGE_BYTES / 2, NULL, &err), name, "writing");
			all &= answered(cb_store_gc(s, NULL, &err), name, "collecting");
		}
		cb_box_close(b);
	}
	cb_store_close(s);
	return all;
}

static void put_back(const char *name, bool was_there)
{
	CHECK(unlink(in_store(name)) == 0 || errno == ENOENT);
	if (was_there) CHECK(rename(aside(), in_store(name)) == 0);
}

TEST(fifos)
{
	fill();
	for (unsigned i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		for (int read_only = 0; read_only < 2; read_only++) {
			bool was_there = rename(in_store(files[i]), aside()) == 0;
			CHECK(mkfifo(in_store(files[i]), 0600) == 0);
			(void)deeds(files[i], read_only);
			put_back(files[i], was_there);
		}
		CHECK(deeds(files[i], false));
	}
}

static unsigned entries(const char *folder)
{
	char line[4400], text[16] = "";
	(void)snprintf(line, sizeof(line), "ls '%s' | wc -l", folder);
	FILE *f = popen(line, "r");
	CHECK(f != NULL && fgets(text, sizeof(text), f) != NULL);
	(void)pclose(f);
	return (unsigned)strtoul(text, NULL, 10);
}

TEST(links_to_folders)
{
	fill();
	/* The segments themselves, elsewhere. */
	CHECK(rename(in_store("seg"), aside()) == 0 && symlink(aside(), in_store("seg")) == 0);
	for (int read_only = 0; read_only < 2; read_only++) {
		CHECK(!deeds("seg", read_only));
		CHECK_MSG(strstr(err.message, "seg' is no folder") != NULL, "%s", err.message);
	}
	CHECK_U64(entries(aside()), 1);
	CHECK(unlink(in_store("seg")) == 0 && rename(aside(), in_store("seg")) == 0);
	CHECK(deeds("seg", false));
	/* What others keep beside it. */
	CHECK(mkdir(aside(), 0777) == 0 && symlink(aside(), in_store("import")) == 0);
	cb_store *s = test_store_reopen();
	cb_box *b = must_open(s, "demo");
	char from[4300], file[4400];
	(void)snprintf(from, sizeof(from), "%s/from", test_tmpdir());
	(void)snprintf(file, sizeof(file), "%s/file", from);
	CHECK(mkdir(from, 0700) == 0);
	int fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && write(fd, "text", 4) == 4 && close(fd) == 0);
	CHECK_OK(cb_import(b, from, NULL, NULL, &err));
	CHECK_U64(entries(aside()), 0);
	cb_box_close(b);
	cb_store_close(s);
}
