/*
 * A bound on the size of files (RLIMIT_FSIZE): a write beyond it raises SIGXFSZ, which ends who has not heard of it. Every call that writes
 * to the host answers with an error instead, the caller lives, and the handles go on when the bound is raised.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "harness/boxes.h"

enum { BIG = 1 << 20, BOUND = 200000, NARROW = 20000 };

static cb_store *s;
static cb_box *b;
static cb_error err;
static char bytes[BIG];
static unsigned turn;
static char import_from[4096];

static const char *host_path(const char *name)
{
	static char path[4096];
	(void)snprintf(path, sizeof(path), "%s/%s-%u", test_tmpdir(), name, turn);
	return path;
}

static void begin(void)
{
	uint64_t x = 1;
	for (size_t i = 0; i < BIG; i++) { /* what does not compress */
		x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		bytes[i] = (char)(x >> 56);
	}
	s = test_store_open(false);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	CHECK_OK(cb_write_file(b, "/work/big", bytes, BIG - 1000, NULL, &err));
	for (unsigned i = 0; i < 20; i++) CHECK_OK(cb_kv_set(b, "k", bytes, 60000 + i, &err));
}

/* ---- calls that write to the host ---- */

static cb_code write_small(void)
{
	cb_code code = CB_OK;
	for (unsigned i = 0; i < 3000 && code == CB_OK; i++) code = cb_write_file(b, "/work/small", bytes + i, 100, NULL, &err);
	return code;
}

static cb_code write_large(void)
{
	return cb_write_file(b, "/work/large", bytes, BIG, NULL, &err);
}

static cb_code write_open_file(void)
{
	cb_file *f = NULL;
	cb_code code = cb_open(b, "/work/opened", CB_WRITE | CB_CREATE, 0644, &f, &err);
	if (code != CB_OK) return code;
	code = cb_write(f, bytes, BIG, &err);
	cb_code closed = cb_close(f, code == CB_OK ? &err : NULL);
	if (closed != CB_OK) (void)cb_txn_drop(b, NULL);
	return code == CB_OK ? closed : code;
}

static cb_code import_folder(void)
{
	return cb_import(b, import_from, &CB_WITH(cb_import_options, .to = "/work/imported"), NULL, &err);
}

static cb_code export_folder(void)
{
	return cb_export(b, "/work", host_path("export"), NULL, NULL, &err);
}

static cb_code to_file(const char *name, cb_code (*put)(int))
{
	int fd = open(host_path(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	CHECK(fd >= 0);
	cb_code code = put(fd);
	CHECK(close(fd) == 0);
	return code;
}

static cb_code put_pack(int fd)
{
	return cb_pack(b, fd, NULL, NULL, &err);
}

static cb_code put_tar(int fd)
{
	return cb_tar_export(b, "/work", fd, NULL, NULL, &err);
}

static cb_code pack(void)
{
	return to_file("pack", put_pack);
}

static cb_code tar(void)
{
	return to_file("tar", put_tar);
}

static cb_code backup(void)
{
	turn++; /* what is left of one that failed is not touched */
	return cb_store_backup(s, host_path("backup"), &err);
}

static cb_code vacuum(void)
{
	return cb_store_vacuum(s, &err);
}

static cb_code open_new(void)
{
	cb_store *t = NULL;
	turn++;
	cb_code code = cb_store_open(host_path("store"), NULL, &t, &err);
	if (code == CB_OK) cb_store_close(t);
	return code;
}

static cb_code open_again(void)
{
	cb_store *t = NULL;
	cb_box *c = NULL;
	cb_code code = cb_store_open(test_store_path(), NULL, &t, &err);
	if (code == CB_OK) code = cb_box_open(t, "demo", &c, &err);
	if (code == CB_OK) code = cb_write_file(c, "/work/large", bytes, BIG, NULL, &err);
	cb_box_close(c);
	if (t) cb_store_close(t);
	return code;
}

/* ---- under a bound ---- */

static volatile sig_atomic_t signals;

static void count_signal(int number)
{
	(void)number;
	signals = signals + 1;
}

static cb_code under(rlim_t bound, cb_code (*call)(void))
{
	struct rlimit before, limit;
	sigset_t mask, after, pending;
	CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
	limit = (struct rlimit){bound, before.rlim_max};
	(void)pthread_sigmask(SIG_SETMASK, NULL, &mask);
	err = (cb_error){0};
	CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	cb_code code = call();
	CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
	(void)pthread_sigmask(SIG_SETMASK, NULL, &after);
	CHECK(sigismember(&mask, SIGXFSZ) == sigismember(&after, SIGXFSZ));
	CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 0);
	return code;
}

typedef struct bounded {
	const char *name;
	cb_code (*call)(void);
	rlim_t bound;
} bounded;

static const bounded calls[] = {
	{"small writes", write_small, BOUND},   {"a large write", write_large, BOUND}, {"an open file", write_open_file, BOUND},
	{"an import", import_folder, BOUND},    {"an export", export_folder, BOUND},   {"a pack", pack, BOUND},
	{"a tar stream", tar, BOUND},           {"a backup", backup, BOUND},           {"a vacuum", vacuum, BOUND},
	{"a new store", open_new, NARROW},      {"a new store", open_new, 0},          {"another handle", open_again, BOUND},
	{"another handle", open_again, NARROW},
};

static void each_is_an_error(void)
{
	begin();
	(void)snprintf(import_from, sizeof(import_from), "%s", host_path("import"));
	CHECK_OK(cb_export(b, "/work", import_from, NULL, NULL, &err));
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		cb_code code = under(calls[i].bound, calls[i].call);
		CHECK_MSG(code == CB_IO || code == CB_NOSPACE || code == CB_TOOBIG, "%s: %s (%s)", calls[i].name,
		          cb_code_name(code), err.message);
		turn++; /* and what it left outside is not in the way of the next */
		CHECK_MSG(calls[i].call() == CB_OK, "%s afterwards: %s", calls[i].name, err.message);
	}
	cb_box_close(b);
	test_store_sound(s);
	cb_store_close(s);
}

TEST(the_caller_lives)
{
	CHECK(signal(SIGXFSZ, SIG_DFL) != SIG_ERR);
	each_is_an_error();
}

TEST(no_handler_is_called)
{
	CHECK(signal(SIGXFSZ, count_signal) != SIG_ERR);
	each_is_an_error();
	CHECK(signals == 0);
}

/* One that waits for the caller still does. */
TEST(one_of_the_callers_stays)
{
	sigset_t only, pending;
	begin();
	(void)sigemptyset(&only);
	(void)sigaddset(&only, SIGXFSZ);
	CHECK(pthread_sigmask(SIG_BLOCK, &only, NULL) == 0);
	CHECK(raise(SIGXFSZ) == 0);
	struct rlimit before, limit;
	CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
	limit = (struct rlimit){BOUND, before.rlim_max};
	CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	cb_code code = write_large();
	CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
	CHECK(code != CB_OK);
	CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1);
	cb_box_close(b);
	cb_store_close(s);
}
