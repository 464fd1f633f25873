/*
 * An export into a new folder that a limit ended removed all it had written before it returned: the later, the more files there were. Now
 * it removes some, and the next export to the same place takes the rest away.
 */
#include <dirent.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "harness/boxes.h"

enum { FILES = 8000 }; /* far more than are removed after the limit */

static cb_cancel *token;
static int64_t fired_ns;

static int64_t now_ns(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static bool fire_at_the_end(void *context, const cb_progress *p)
{
	(void)context;
	if (fired_ns == 0 && p->files > FILES - 200) {
		cb_cancel_fire(token);
		fired_ns = now_ns();
	}
	return true;
}

static unsigned count_in(const char *path)
{
	DIR *d = opendir(path);
	unsigned n = 0;
	CHECK(d);
	for (const struct dirent *e; (e = readdir(d));) n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
	(void)closedir(d);
	return n;
}

TEST(it_ends_when_it_is_told_and_leaves_the_rest_to_the_next)
{
	cb_error err = {0};
	cb_box *b = NULL;
	char above[4200], to[4300];
	cb_store *s = test_store_open(true);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	cb_box *t = must_begin(b);
	for (unsigned i = 0; i < FILES; i++) {
		char path[64];
		(void)snprintf(path, sizeof(path), "/work/%u/%u", i / 1000, i);
		must_write(t, path, "some bytes");
	}
	(void)must_commit(t);
	(void)snprintf(above, sizeof(above), "%s/above", test_tmpdir());
	(void)snprintf(to, sizeof(to), "%s/out", above);
	CHECK(mkdir(above, 0755) == 0);
	CHECK_OK(cb_cancel_create(&token, &err));
	cb_export_options o = CB_WITH(cb_export_options, .watch = &CB_WITH(cb_transfer_watch, .progress = fire_at_the_end));
	CHECK_OK(cb_limit_push(&CB_WITH(cb_limit, .cancel = token), &err));
	CHECK_CODE(cb_export(b, "/work", to, &o, NULL, &err), CB_CANCELLED);
	int64_t late_ms = (now_ns() - fired_ns) / 1000000;
	cb_limit_pop();
	CHECK(fired_ns > 0);
	printf("# it ended %lld ms after it was told\n", (long long)late_ms);
	CHECK_MSG(count_in(above) > 0, "it stayed to remove all of it");
	CHECK(access(to, F_OK) != 0);
	CHECK_OK(cb_export(b, "/work", to, NULL, NULL, &err));
	CHECK_MSG(count_in(above) == 1, "something is left beside the folder");
	CHECK(count_in(to) == FILES / 1000);
	cb_cancel_free(token);
	cb_box_close(b);
	cb_store_close(s);
}
