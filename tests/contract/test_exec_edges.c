/* test_exec_edges.c: programs that their own callbacks close or fork under, standard input that cannot be read, and what is said of it. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cowbox/cowbox.h>

#include "base/attr.h"
#include "harness/boxes.h"
#include "harness/harness.h"

static cb_store *store;
static cb_box *box;
static cb_sandbox *sandbox;
static cb_exec *e;
static cb_error err;
static char name[32]; /* of the box */

static struct {
	bool in_stream, in_note;        /* where something is done */
	bool closes, closes_all, forks; /* what */
	unsigned done;
	pid_t child; /* 0: we are it */
} how;

static void world_open(void)
{
	static unsigned number;
	(void)snprintf(name, sizeof(name), "demo%u", number++);
	store = number == 1 ? test_store_open(false) : test_store_reopen();
	CHECK_OK(cb_box_create(store, name, &box, &err));
	CHECK_OK(cb_sandbox_open(box, NULL, &sandbox, &err));
}

static void world_close(void)
{
	cb_sandbox_close(sandbox);
	cb_box_close(box);
	cb_store_close(store);
	sandbox = NULL;
	box = NULL;
	store = NULL;
}

static void act(void)
{
	if (how.done++) return;
	if (how.forks) how.child = fork();
	if (how.closes) cb_exec_close(e);
	if (how.closes_all) world_close();
}

static bool on_stream(void *context, cb_stream from, const void *bytes, size_t size)
{
	(void)context;
	(void)from;
	(void)bytes;
	(void)size;
	if (how.in_stream) act();
	return true;
}

static void on_note(void *context, const char *path, const char *what)
{
	(void)context;
	(void)path;
	(void)what;
	if (how.in_note) act();
}

static cb_code start(const char *text, int stdin_fd, const char *cwd)
{
	const char *const argv[] = {"sh", "-c", text};
	cb_code code = cb_exec_start(sandbox,
	                             &CB_WITH(cb_exec_options, .argv = argv, .argc = 3, .stdin_fd = stdin_fd, .stream = on_stream,
	                                      .note = on_note, .cwd = cwd),
	                             &e, &err);
	if (code == CB_UNSUPPORTED) test_lacks("sandbox", err.message);
	return code;
}

#define BUSY "mkfifo p q; echo a >a; echo b >b; echo hi; sleep 0.1; echo more"

static void check_closing(bool pumps)
{
	bool done = false;
	const cb_exec_result *r = NULL;
	cb_code code = CB_OK;
	world_open();
	uint64_t before = must_seq(box);
	CHECK_OK(start(BUSY, 0, NULL));
	while (pumps && code == CB_OK && !done) code = cb_exec_pump(e, &done, &err);
	if (!pumps || code == CB_OK) code = cb_exec_wait(e, &r, &err);
	CHECK_CODE(code, CB_BADHANDLE);
	CHECK_MSG(strstr(err.message, "closed"), "%s", err.message);
	CHECK(!r);
	if (how.closes_all) {
		store = test_store_reopen();
		box = must_open(store, name);
	}
	CHECK_MSG(!exists(box, "/work/a"), "what a closed program did came into the box");
	CHECK_U64(must_seq(box), before);
	test_store_sound(store);
	world_close();
}

TEST(a_program_is_closed_by_its_own_callbacks)
{
	for (unsigned i = 0; i < 8; i++) {
		memset(&how, 0, sizeof(how));
		how.in_stream = i & 1;
		how.in_note = !how.in_stream;
		how.closes = true;
		how.closes_all = i & 2;
		check_closing(i & 4);
	}
}

/* The child that a callback makes: its copy of the call ends, and the parent's goes on as if nothing had happened. */
TEST(a_callback_forks)
{
	for (unsigned i = 0; i < 4; i++) {
		const cb_exec_result *r = NULL;
		memset(&how, 0, sizeof(how));
		how.in_stream = i & 1;
		how.in_note = !how.in_stream;
		how.forks = true;
		how.child = -1;
		world_open();
		CHECK_OK(start(BUSY, 0, NULL));
		if (i & 2) how.done = 1; /* nobody forks: what should be */
		cb_code code = cb_exec_wait(e, &r, &err);
		if (how.child == 0) {
			bool told = code == CB_FORKED && cb_exec_wait(e, &r, &err) == CB_FORKED;
			cb_exec_close(e);
			_exit(told ? 0 : 1);
		}
		int status = 0;
		if (how.child > 0) CHECK(waitpid(how.child, &status, 0) == how.child);
		CHECK_MSG(status == 0, "the child ended with %d", status);
		CHECK_MSG(code == CB_OK, "%s: %s", cb_code_name(code), err.message);
		CHECK_STR(r->out, "hi\nmore\n");
		CHECK_STR(must_read(box, "/work/b"), "b\n");
		cb_exec_close(e);
		test_store_sound(store);
		world_close();
	}
}

TEST(input_that_cannot_be_read_is_told)
{
	world_open();
	int folder = open("/", O_RDONLY | O_CLOEXEC), unreadable = open("/dev/null", O_WRONLY | O_CLOEXEC),
	    place = open("/dev/null", O_PATH | O_CLOEXEC);
	CHECK(folder > 0 && unreadable > 0 && place > 0);
	CHECK_CODE(start("cat", folder, NULL), CB_ISDIR);
	CHECK_CODE(start("cat", unreadable, NULL), CB_INVALID);
	CHECK_CODE(start("cat", place, NULL), CB_INVALID);
	CHECK_MSG(strstr(err.message, "not open for reading"), "%s", err.message);
	/* reading fails only when it is tried: nothing is mapped at 0 */
	int failing = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	const cb_exec_result *r = NULL;
	CHECK(failing > 0);
	CHECK_OK(start("wc -c >n", failing, NULL));
	CHECK_CODE(cb_exec_wait(e, &r, &err), CB_IO);
	CHECK_MSG(err.os_error == EIO && strstr(err.message, "input"), "%d: %s", err.os_error, err.message);
	CHECK(r && r->exit_code == 0);
	CHECK_STR(must_read(box, "/work/n"), "0\n");
	CHECK_CODE(cb_exec_wait(e, &r, &err), CB_IO); /* as often as it is asked */
	CHECK(err.os_error == EIO);
	cb_exec_close(e);
	/* what nohup leaves is nothing */
	CHECK(dup2(unreadable, STDIN_FILENO) == STDIN_FILENO);
	CHECK_OK(start("wc -c", CB_STDIN_CALLER, NULL));
	CHECK_OK(cb_exec_wait(e, &r, &err));
	CHECK_STR(r->out, "0\n");
	cb_exec_close(e);
	world_close();
}

TEST(input_after_its_end)
{
	size_t taken = 0;
	const cb_exec_result *r = NULL;
	world_open();
	CHECK_OK(start("cat", CB_STDIN_PIPE, NULL));
	CHECK_OK(cb_exec_input(e, NULL, 0, &taken, &err));
	CHECK_CODE(cb_exec_input(e, "x", 1, &taken, &err), CB_BADHANDLE);
	CHECK_STR(err.message, "the program's input was ended before");
	CHECK_OK(cb_exec_wait(e, &r, &err));
	cb_exec_close(e);
	CHECK_OK(start("cat", CB_STDIN_NONE, NULL));
	CHECK_CODE(cb_exec_input(e, "x", 1, &taken, &err), CB_BADHANDLE);
	CHECK_MSG(strstr(err.message, "CB_STDIN_PIPE"), "%s", err.message);
	cb_exec_close(e);
	world_close();
}

TEST(a_folder_to_start_in_whose_path_is_too_long)
{
	static char path[(1 << 20) + 1];
	world_open();
	static const size_t sizes[] = {4096, 5000, 1 << 20};
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		memset(path, 'x', sizes[i]);
		path[0] = '/';
		path[sizes[i]] = 0;
		CHECK_CODE(start("true", 0, path), CB_NAMETOOLONG);
	}
	world_close();
}
