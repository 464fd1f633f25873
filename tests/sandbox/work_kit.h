/*
 * work_kit.h: works on a holder of the test's own, so that a "command" is a function of the test or a shell inside the tree, without a
 * sandbox around it.
 *
 * The test program is its own helper: started with "hold" it serves wire.h with the holder's folders, builder and scanner, in the
 * namespaces that the real one would use. RUN forks a child in the root of the tree: "sh" SCRIPT, or "change" SEED N [dull]
 * (hosttrees.h).
 */
#ifndef TESTS_WORK_KIT_H
#define TESTS_WORK_KIT_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "box/internal.h"
#include "harness/boxes.h"
#include "harness/hosttrees.h"
#include "harness/tree_text.h"
#include "holder/holder.h"
#include "work/internal.h"

/* ---- the helper ---- */

typedef struct kit_holder {
	int area; /* opened in the namespaces that things are mounted in */
	slot s;
	bool has_slot, building;
	builder b;
	scanner scan;
	unsigned window;
	uint8_t buffer[WIRE_PACKET_BYTES + 8];
} kit_holder;

static cb_error kit_err;

static cb_code kit_answer(wire_type type, const buf *body)
{
	return wire_send(HOLDER_SOCKET_FD, type, body ? buf_span(body) : (span){0}, NULL, 0, &kit_err);
}

static cb_code kit_entries(void *context, span body, const int *fds, size_t fd_count, cb_error *err)
{
	kit_holder *h = context;
	while (h->window == 0) {
		wire_packet p;
		bool end = false;
		CB_TRY(wire_receive(HOLDER_SOCKET_FD, h->buffer, &p, &end, err));
		if (end || p.type != WIRE_MORE) _exit(0);
		h->window += WIRE_WINDOW;
	}
	h->window--;
	return wire_send(HOLDER_SOCKET_FD, WIRE_ENTRY, body, fds, fd_count, err);
}

static void kit_child(const kit_holder *h, const wire_run *run)
{
	const char *what = wire_strings_next(&run->argv, NULL), *first = wire_strings_next(&run->argv, what);
	if (setsid() < 0 || fchdir(h->s.root) != 0) _exit(120);
	(void)close_range(3, ~0u, 0); /* the lock ends with the holder */
	if (strcmp(what, "change") == 0) {
		const char *count = wire_strings_next(&run->argv, first);
		host_tree t = {.folder = "work", .rng = {strtoull(first, NULL, 10)}, .special = true};
		t.dull = wire_strings_next(&run->argv, count) != NULL;
		host_tree_change(&t, (unsigned)atoi(count));
		_exit(0);
	}
	(void)execl("/bin/sh", "sh", "-ec", first, (char *)NULL);
	_exit(121);
}

static cb_code kit_run(kit_holder *h, const wire_packet *p)
{
	wire_run run;
	AUTO_BUF buf body = BUF_INIT(WIRE_PACKET_BYTES);
	CB_TRY(wire_run_get(p->body, &run, &kit_err));
	CB_TRY(kit_answer(WIRE_STARTED, NULL));
	pid_t pid = fork();
	if (pid == 0) kit_child(h, &run);
	wire_exited m = {.end = WIRE_END_STATUS, .reason = ""};
	int status = 0;
	while (waitpid(pid, &status, WNOHANG) == 0) {
		struct pollfd fds = {.fd = HOLDER_SOCKET_FD, .events = 0}; /* the caller's end shows all the same */
		if (poll(&fds, 1, 1) > 0) (void)kill(-pid, SIGKILL);
	}
	m.status = status;
	CB_TRY(wire_exited_put(&body, &m, &kit_err));
	return kit_answer(WIRE_EXITED, &body);
}

static cb_code kit_scan(kit_holder *h)
{
	AUTO_BUF buf body = BUF_INIT(WIRE_PACKET_BYTES);
	wire_scanned scanned = {0};
	h->window = WIRE_WINDOW;
	h->scan = (scanner){h->s.changes, h->s.mode != WIRE_PLAIN, h->s.seen, kit_entries, h};
	CB_TRY(scan_run(&h->scan, &scanned, &kit_err));
	CB_TRY(wire_scanned_put(&body, &scanned, &kit_err));
	return kit_answer(WIRE_SCAN_END, &body);
}

static cb_code kit_work(kit_holder *h, const wire_packet *p)
{
	wire_work m;
	CB_TRY(wire_work_get(p->body, &m, &kit_err));
	if (h->has_slot) CB_TRY(slot_close(&h->s, &kit_err));
	h->has_slot = false;
	bool refuses = access("no-overlay", F_OK) == 0; /* in the area: the test's way to say so */
	if (m.mode != WIRE_PLAIN && refuses) return cb_err_set(&kit_err, CB_UNSUPPORTED, "no overlayfs here");
	CB_TRY(slot_open(&h->s, h->area, &m, &kit_err));
	h->has_slot = true;
	return kit_answer(WIRE_READY, NULL);
}

static cb_code kit_folders(kit_holder *h, const wire_packet *p)
{
	wire_strings names = {0};
	if (p->type != WIRE_WIPE) CB_TRY(wire_names_get(p->body, &names, &kit_err));
	if (p->type == WIRE_REMOVE) {
		for (const char *n = NULL; (n = wire_strings_next(&names, n));) CB_TRY(area_remove(h->area, n, &kit_err));
		return kit_answer(WIRE_DONE, NULL);
	}
	if (!h->has_slot) return cb_err_set(&kit_err, CB_INTERNAL, "no slot");
	h->has_slot = false;
	if (p->type == WIRE_WIPE) CB_TRY(slot_wipe(&h->s, &kit_err));
	else CB_TRY(slot_seal(&h->s, wire_strings_next(&names, NULL), &kit_err));
	return kit_answer(WIRE_DONE, NULL);
}

static cb_code kit_packet(kit_holder *h, const wire_packet *p)
{
	switch ((int)p->type) {
	case WIRE_WORK:
		return kit_work(h, p);
	case WIRE_BUILD:
		if (!h->building) builder_init(&h->b, h->s.root);
		h->building = true;
		return builder_feed(&h->b, p->body, &kit_err);
	case WIRE_BUILD_END:
		if (h->building) CB_TRY(builder_end(&h->b, &kit_err));
		h->building = false;
		return kit_answer(WIRE_BUILT, NULL);
	case WIRE_RUN:
		return kit_run(h, p);
	case WIRE_SCAN:
		return kit_scan(h);
	case WIRE_MORE:
		return CB_OK;
	case WIRE_KEEP:
		scan_keep(&h->scan);
		return CB_OK;
	case WIRE_SEAL:
	case WIRE_WIPE:
	case WIRE_REMOVE:
		return kit_folders(h, p);
	default:
		return cb_err_set(&kit_err, CB_INTERNAL, "message %d", (int)p->type);
	}
}

static void kit_serve(uid_t uid)
{
	static kit_holder h;
	h.s = SLOT_NONE;
	wire_packet p;
	bool end = false;
	cb_code code = fcntl(HOLDER_AREA_FD, F_GETFD) >= 0 && fchdir(HOLDER_AREA_FD) != 0 ? CB_IO : CB_OK;
	if (code == CB_OK) code = enter_holder(uid, false, &kit_err);
	(void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* the test looks at our mounts */
	h.area = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	while (code == CB_OK) {
		code = wire_receive(HOLDER_SOCKET_FD, h.buffer, &p, &end, &kit_err);
		if (code != CB_OK || end || p.type == WIRE_BYE) break;
		code = kit_packet(&h, &p);
		wire_packet_done(&p);
	}
	if (code != CB_OK) {
		AUTO_BUF buf body = BUF_INIT(WIRE_PACKET_BYTES);
		(void)wire_failed_put(&body, &(wire_failed){code, kit_err.message}, NULL);
		(void)kit_answer(WIRE_FAIL, &body);
		while (wire_receive(HOLDER_SOCKET_FD, h.buffer, &p, &end, NULL) == CB_OK && !end) wire_packet_done(&p);
	}
	if (h.has_slot) (void)slot_close(&h.s, NULL);
	_exit(0);
}

__attribute__((constructor)) static void kit_maybe_serve(int argc, char **argv)
{
	uid_t uid = 0;
	if (argc < 2 || strcmp(argv[1], "hold") != 0) return;
	for (int i = 2; i + 1 < argc; i++)
		if (strcmp(argv[i], "--uid") == 0) uid = (uid_t)strtoul(argv[i + 1], NULL, 10);
	kit_serve(uid);
}

/* ---- the caller ---- */

static void kit_begin(void)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	CHECK(n > 0);
	path[n] = 0;
	CHECK(setenv("COWBOX_BOX_HELPER", path, 1) == 0);
}

static void kit_send(work *w, const char *const *argv)
{
	cb_error err = {0};
	AUTO_BUF buf words = BUF_INIT(1 << 16);
	AUTO_BUF buf body = BUF_INIT(WIRE_PACKET_BYTES);
	wire_run run = {.cwd = "/"};
	for (; *argv; argv++, run.argv.count++) CHECK_OK(buf_append(&words, *argv, strlen(*argv) + 1, &err));
	run.argv.bytes = (const char *)words.bytes;
	run.argv.size = words.size;
	CHECK_OK(wire_run_put(&body, &run, &err));
	CHECK_OK(link_send(work_link(w), WIRE_RUN, buf_span(&body), NULL, 0, &err));
}

/* Sends a command and waits for its end. */
static int kit_command(work *w, const char *const *argv)
{
	cb_error err = {0};
	const wire_packet *p;
	wire_exited m;
	kit_send(w, argv);
	CHECK_OK(work_ready(w, &err));
	CHECK_OK(link_expect(work_link(w), WIRE_STARTED, NULL, &err));
	CHECK_OK(link_expect(work_link(w), WIRE_EXITED, &p, &err));
	CHECK_OK(wire_exited_get(p->body, &m, &err));
	return m.status;
}

static inline cb_code kit_sh(work *w, const char *script, work_result *out, cb_error *err)
{
	const char *argv[] = {"sh", script, NULL};
	cb_step_info info = CB_WITH(cb_step_info, .kind = "exec", .params = "{\"argv\":[\"sh\"]}", .params_size = CB_STRING);
	CB_TRY(work_begin(w, &info, err));
	CHECK_U64(kit_command(w, argv), 0);
	return work_end(w, WORK_COMMIT, &CB_WITH(cb_step_info, .result = "{\"exit\":0}", .result_size = CB_STRING), NULL, NULL,
	                NULL, NULL, out, err);
}

static inline work *kit_open(cb_store *store_, const char *box, cb_tier tier)
{
	cb_error err = {0};
	work *w = NULL;
	work_options options = {.tier = tier};
	CHECK_OK(work_open(store_, box, &options, &w, &err));
	return w;
}

/* The root of the tree, seen from here: also when it is mounted in the holder's namespace only. */
static inline const char *kit_root(work *w)
{
	return host_text("/proc/%d/cwd/%s/%s", (int)link_pid(w->link), w->slot.name, w->slot.stamp.stack ? "mnt" : "tree");
}

#endif
