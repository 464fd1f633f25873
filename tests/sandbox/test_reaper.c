/*
 * test_reaper.c: init, reaper and command, in a small sandbox that the test makes itself: user, mount, pid, ipc, uts and network
 * namespaces, a root of tmpfs with the host's /usr, /proc, and /dev with its own devpts. What enter.c and apply.c add is tested
 * elsewhere.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/magic.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/harness.h"
#include "holder/holder.h"

/* ---- a small sandbox ---- */

typedef struct world {
	int socket;
	pid_t holder;
	plan plan;
	const char *tree; /* of a weak one */
} world;

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	CHECK_MSG(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), "%s: %s", path, strerror(errno));
	close(fd);
}

static void map_ids(pid_t pid, unsigned inside, unsigned uid, unsigned gid)
{
	char path[64], text[64];
	snprintf(path, sizeof(path), "/proc/%d/setgroups", pid);
	put(path, "deny");
	snprintf(path, sizeof(path), "/proc/%d/uid_map", pid);
	snprintf(text, sizeof(text), "%u %u 1", inside, uid);
	put(path, text);
	snprintf(path, sizeof(path), "/proc/%d/gid_map", pid);
	snprintf(text, sizeof(text), "%u %u 1", inside, gid);
	put(path, text);
}

static void bind_on(const char *from, const char *to)
{
	CHECK_MSG(mount(from, to, NULL, MS_BIND | MS_REC, NULL) == 0, "bind %s: %s", from, strerror(errno));
}

/* In the mount namespace of init-to-be; the working folder is the new root. */
static void root_make(void)
{
	static const char *const folders[] = {"usr", "proc", "dev", "dev/pts", "dev/shm", "tmp", "work", "etc"};
	static const char *const links[][2] = {
		{"usr/bin", "bin"}, {"usr/lib", "lib"}, {"usr/lib64", "lib64"}, {"usr/sbin", "sbin"}};
	static const char *const devices[] = {"null", "zero", "tty", "urandom"};
	for (size_t i = 0; i < ARRAY_LEN(folders); i++) CHECK(mkdir(folders[i], 0755) == 0);
	for (size_t i = 0; i < ARRAY_LEN(links); i++) CHECK(symlink(links[i][0], links[i][1]) == 0);
	bind_on("/usr", "usr");
	if (access("/etc/alternatives", F_OK) == 0) {
		CHECK(mkdir("etc/alternatives", 0755) == 0);
		bind_on("/etc/alternatives", "etc/alternatives");
	}
	for (size_t i = 0; i < ARRAY_LEN(devices); i++) {
		char from[32], to[32];
		snprintf(from, sizeof(from), "/dev/%s", devices[i]);
		snprintf(to, sizeof(to), "dev/%s", devices[i]);
		close(open(to, O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
		bind_on(from, to);
	}
	CHECK(mount("devpts", "dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620") == 0);
	CHECK(symlink("pts/ptmx", "dev/ptmx") == 0);
	CHECK(symlink("/proc/self/fd", "dev/fd") == 0);
	CHECK(mount("tmpfs", "dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "size=64m") == 0);
	CHECK(mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == 0);
}

static int plan_fd_make(const plan *p)
{
	int fd = memfd_create("plan", MFD_CLOEXEC);
	buf bytes = BUF_INIT(1 << 20);
	cb_error err;
	CHECK_OK(plan_put(&bytes, p, &err));
	CHECK(write(fd, bytes.bytes, bytes.size) == (ssize_t)bytes.size && lseek(fd, 0, SEEK_SET) == 0);
	return fd;
}

static void init_start(const plan *p, int socket, int ready, int go)
{
	root_make();
	CHECK(syscall(SYS_pivot_root, ".", ".") == 0);
	CHECK(umount2(".", MNT_DETACH) == 0);
	CHECK(unshare(CLONE_NEWUSER) == 0);
	char c;
	CHECK(write(ready, "x", 1) == 1 && read(go, &c, 1) == 1);
	CHECK(setresgid(1000, 1000, 1000) == 0 && setresuid(1000, 1000, 1000) == 0);
	put("/proc/sys/user/max_user_namespaces", "0");
	init_main(socket, plan_fd_make(p));
}

static void holder_run(const plan *p, int socket)
{
	if (geteuid() == 0) {
		CHECK(setgroups(0, NULL) == 0 && setresgid(12345, 12345, 12345) == 0 && setresuid(12345, 12345, 12345) == 0);
		CHECK(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0);
	}
	unsigned uid = geteuid(), gid = getegid();
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) _exit(77);
	map_ids(getpid(), 0, uid, gid);
	CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	CHECK(mount("tmpfs", "/tmp", "tmpfs", 0, "mode=755") == 0);
	CHECK(chdir("/tmp") == 0);
	int ready[2], go[2];
	CHECK(pipe2(ready, O_CLOEXEC) == 0 && pipe2(go, O_CLOEXEC) == 0);
	long pid = syscall(SYS_clone, CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | SIGCHLD, NULL, NULL,
	                   NULL, NULL);
	CHECK(pid >= 0);
	if (pid == 0) init_start(p, socket, ready[1], go[0]);
	close(socket);
	char c;
	CHECK(read(ready[0], &c, 1) == 1);
	map_ids((pid_t)pid, 1000, 0, 0);
	CHECK(write(go[1], "x", 1) == 1);
	int status;
	CHECK(waitpid((pid_t)pid, &status, 0) == pid);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

/* Without namespaces: the tree is a folder. */
static void weak_run(const plan *p, const char *tree, int socket)
{
	CHECK(chdir(tree) == 0);
	if (geteuid() == 0) {
		CHECK(chown(".", 12345, 12345) == 0 && chown("work", 12345, 12345) == 0 && chown("tmp", 12345, 12345) == 0);
		CHECK(setgroups(0, NULL) == 0 && setresgid(12345, 12345, 12345) == 0 && setresuid(12345, 12345, 12345) == 0);
	}
	init_main(socket, plan_fd_make(p));
}

static void world_begin(world *w)
{
	int pair[2];
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	w->holder = fork();
	CHECK(w->holder >= 0);
	if (w->holder == 0) {
		close(pair[0]);
		if (w->plan.weak) weak_run(&w->plan, w->tree, pair[1]);
		holder_run(&w->plan, pair[1]);
	}
	close(pair[1]);
	w->socket = pair[0];
}

/* The sandbox ends with its socket, whatever runs. */
static void world_end(world *w)
{
	close(w->socket);
	int status;
	CHECK(waitpid(w->holder, &status, 0) == w->holder);
}

static world world_of(plan_limits limits)
{
	world w = {.plan = {.uid = 1000, .gid = 1000, .hostname = "box", .limits = limits}};
	return w;
}

/* ---- running ---- */

typedef struct outcome {
	wire_exited exited;
	char reason[256];
	char out[65536];
	size_t out_size;
} outcome;

static uint8_t packet_bytes[WIRE_PACKET_BYTES + 8];

static wire_strings strings(buf *hold, const char *const *list)
{
	wire_strings s = {.count = 0};
	size_t from = hold->size;
	for (; *list; list++, s.count++) CHECK(buf_append(hold, *list, strlen(*list) + 1, NULL) == CB_OK);
	s.bytes = (const char *)hold->bytes + from;
	s.size = hold->size - from;
	return s;
}

static const char *const default_env[] = {"PATH=/usr/bin:/bin", "HOME=/tmp", NULL};

static void run_send(world *w, const char *const *argv, const char *const *env, const char *cwd, bool tty, const int fds[3])
{
	buf hold = BUF_INIT(4 << 20), body = BUF_INIT(4 << 20);
	cb_error err;
	CHECK(buf_reserve(&hold, 3 << 20, &err) == CB_OK);
	wire_run run = {
		.argv = strings(&hold, argv), .env = strings(&hold, env), .cwd = cwd, .tty = tty, .rows = 25, .columns = 81};
	CHECK_OK(wire_run_put(&body, &run, &err));
	int given[4];
	size_t count = 0;
	span bytes = buf_span(&body);
	if (bytes.size > WIRE_PACKET_BYTES) {
		given[count++] = memfd_create("run", MFD_CLOEXEC);
		CHECK(write(given[0], bytes.bytes, bytes.size) == (ssize_t)bytes.size);
		bytes.size = 0;
	}
	for (int i = 0; i < 3 && !tty; i++) given[count++] = fds[i];
	CHECK_OK(wire_send(w->socket, WIRE_RUN, bytes, given, count, &err));
	buf_done(&hold);
	buf_done(&body);
}

static wire_packet receive(world *w)
{
	wire_packet p;
	bool end;
	cb_error err;
	CHECK_OK(wire_receive(w->socket, packet_bytes, &p, &end, &err));
	if (end) {
		int status = 0;
		waitpid(w->holder, &status, 0);
		if (WIFEXITED(status) && WEXITSTATUS(status) == 77) test_lacks("namespaces", "no user namespaces here");
		test_fail(__FILE__, __LINE__, "the sandbox ended: status %x", (unsigned)status);
	}
	if (p.type == WIRE_FAIL) {
		wire_failed f;
		CHECK_OK(wire_failed_get(p.body, &f, &err));
		test_fail(__FILE__, __LINE__, "FAIL: %s", f.message);
	}
	return p;
}

static void expect(world *w, wire_type type)
{
	wire_packet p = receive(w);
	CHECK_U64(p.type, type);
	wire_packet_done(&p);
}

static void exited_take(world *w, outcome *o)
{
	wire_packet p = receive(w);
	cb_error err;
	CHECK_U64(p.type, WIRE_EXITED);
	CHECK_OK(wire_exited_get(p.body, &o->exited, &err));
	snprintf(o->reason, sizeof(o->reason), "%s", o->exited.reason);
	o->exited.reason = o->reason;
}

static void output_read(int fd, outcome *o)
{
	ssize_t n;
	o->out_size = 0;
	while (o->out_size < sizeof(o->out) - 1 && (n = read(fd, o->out + o->out_size, sizeof(o->out) - 1 - o->out_size)) > 0)
		o->out_size += (size_t)n;
	o->out[o->out_size] = 0;
	close(fd);
}

typedef struct ends {
	int in, out; /* ours */
	int theirs[3];
} ends;

static ends pipes_make(void)
{
	int in[2], out[2];
	CHECK(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
	return (ends){in[1], out[0], {in[0], out[1], out[1]}};
}

static void pipes_give(ends *e)
{
	close(e->theirs[0]);
	close(e->theirs[1]);
}

static outcome run_in(world *w, const char *const *argv, const char *const *env, const char *cwd)
{
	static outcome o;
	ends e = pipes_make();
	run_send(w, argv, env, cwd, false, e.theirs);
	pipes_give(&e);
	close(e.in);
	expect(w, WIRE_STARTED);
	output_read(e.out, &o);
	exited_take(w, &o);
	return o;
}

#define ARGV(...) ((const char *const[]){__VA_ARGS__, NULL})
#define RUN(w, ...) run_in(w, ARGV(__VA_ARGS__), default_env, "/work")
#define SH(w, script) RUN(w, "sh", "-c", script)

static void check_exit(const outcome *o, int code)
{
	CHECK_MSG(o->exited.end == WIRE_END_STATUS && WIFEXITED(o->exited.status) && WEXITSTATUS(o->exited.status) == code,
	          "end %d status %x reason '%s' output: %s", (int)o->exited.end, (unsigned)o->exited.status, o->reason, o->out);
}

static void signal_send(world *w, int number, bool everybody)
{
	buf body = BUF_INIT(64);
	cb_error err;
	CHECK_OK(wire_signal_put(&body, &(wire_signal){number, everybody}, &err));
	CHECK_OK(wire_send(w->socket, WIRE_SIGNAL, buf_span(&body), NULL, 0, &err));
	buf_done(&body);
}

/* ---- tests ---- */

TEST(runs_a_program)
{
	world w = world_of((plan_limits){0});
	world_begin(&w);
	outcome o = SH(&w, "echo hello $$ $PPID; pwd; exit 7");
	check_exit(&o, 7);
	CHECK_STR(o.out, "hello 2 1\n/work\n");
	CHECK(o.exited.started_ns > 0 && o.exited.ended_ns >= o.exited.started_ns);
	CHECK(o.exited.peak_bytes > 100000);
	for (int i = 0; i < 20; i++) {
		o = RUN(&w, "true");
		check_exit(&o, 0);
	}
	world_end(&w);
}

TEST(no_capabilities_no_privileges_a_filter)
{
	world w = world_of((plan_limits){0});
	world_begin(&w);
	outcome o = SH(&w, "grep -E '^(Cap|NoNewPrivs|Seccomp:|SigBlk|SigIgn|Uid)' /proc/self/status");
	check_exit(&o, 0);
	CHECK(strstr(o.out, "CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n"
	                    "CapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n"));
	CHECK_MSG(strstr(o.out, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n"), "%s", o.out);
	CHECK(strstr(o.out, "Uid:\t1000\t1000\t1000\t1000\n"));
	o = SH(&w, "unshare -Ur true 2>&1; mount -t tmpfs x /tmp 2>&1; umount /proc 2>&1; chmod 4755 /work 2>&1; ls /proc/self/fd");
	check_exit(&o, 0);
	CHECK(strstr(o.out, "unshare failed"));
	CHECK(!strstr(o.out, "\n4\n")); /* 3 is ls's own */
	world_end(&w);
}

TEST(exec_errors)
{
	world w = world_of((plan_limits){0});
	world_begin(&w);
	outcome o = RUN(&w, "no-such-program");
	CHECK_U64(o.exited.end, WIRE_END_NOT_FOUND);
	CHECK_U64(o.exited.status, ENOENT);
	o = RUN(&w, "/no/such");
	CHECK_U64(o.exited.end, WIRE_END_NOT_FOUND);
	o = RUN(&w, "/work");
	CHECK_U64(o.exited.end, WIRE_END_NOT_RUN);
	CHECK_U64(o.exited.status, EACCES);
	o = RUN(&w, "");
	CHECK_U64(o.exited.end, WIRE_END_NOT_FOUND);
	o = SH(&w, "echo 'echo script $1' > s; chmod 755 s; echo x > plain");
	check_exit(&o, 0);
	o = RUN(&w, "./s", "arg");
	check_exit(&o, 0);
	CHECK_STR(o.out, "script arg\n");
	o = RUN(&w, "./plain");
	CHECK_U64(o.exited.end, WIRE_END_NOT_RUN);
	CHECK_U64(o.exited.status, EACCES);
	o = run_in(&w, ARGV("s"), (const char *const[]){"PATH=/nowhere:/work:/usr/bin", NULL}, "/");
	check_exit(&o, 0);
	o = run_in(&w, ARGV("true"), (const char *const[]){"A=b", NULL}, "/");
	check_exit(&o, 0);
	o = run_in(&w, ARGV("true"), (const char *const[]){"PATH=/work", NULL}, "/");
	CHECK_U64(o.exited.end, WIRE_END_NOT_FOUND);
	world_end(&w);
}

TEST(working_folder_must_be_in_the_box)
{
	static const char *const doors[] = {"/proc/self/fd/0", "/proc/1/cwd", "/proc/self/fd/3", "/proc/1/root", "/proc",
	                                    "/proc/self/task", "/nowhere",    "/proc/self/fd/4", "/dev/null"};
	world w = world_of((plan_limits){0});
	world_begin(&w);
	for (size_t i = 0; i < ARRAY_LEN(doors); i++) {
		outcome o = run_in(&w, ARGV("pwd"), default_env, doors[i]);
		CHECK_MSG(o.exited.end == WIRE_END_NOT_RUN, "%s: end %d, %s", doors[i], (int)o.exited.end, o.out);
		CHECK(o.reason[0]);
	}
	outcome o = SH(&w, "ln -s /proc/self /work/door; ln -s /tmp /work/fine");
	check_exit(&o, 0);
	o = run_in(&w, ARGV("pwd"), default_env, "/work/door");
	CHECK_U64(o.exited.end, WIRE_END_NOT_RUN);
	o = run_in(&w, ARGV("pwd", "-P"), default_env, "/work/fine");
	CHECK_STR(o.out, "/tmp\n");
	o = run_in(&w, ARGV("pwd"), default_env, "/proc/self/root/work");
	check_exit(&o, 0);
	CHECK_STR(o.out, "/work\n");
	world_end(&w);
}

/* What runs when the command ends dies with it, whatever it did to be left alone. */
TEST(everything_ends_with_the_command)
{
	world w = world_of((plan_limits){0});
	world_begin(&w);
	outcome o = SH(
		&w,
		"(trap '' TERM HUP; setsid sleep 1000 >/dev/null 2>&1 </dev/null &) ; sleep 1000 & kill -STOP $!; nohup sleep 1000 "
		">/dev/null 2>&1 & exit 3");
	check_exit(&o, 3);
	o = SH(&w, "ls -d /proc/[0-9]* | tr '\\n' ' '");
	check_exit(&o, 0);
	CHECK_MSG(strncmp(o.out, "/proc/1 /proc/2 ", 16) == 0 && !strstr(o.out, "sleep"), "%s", o.out);
	world_end(&w);
}

/* Of all processes, whether the command waited for them, left them to the reaper, or left them running. */
TEST(time_and_memory_of_everything)
{
	static const char *const scripts[] = {"perl -e 'my $a = q(x) x (40 << 20); 1 while times < 0.2'; true",
	                                      "(perl -e 'my $a = q(x) x (40 << 20); 1 while times < 0.2; open F, q(>), q(done)' "
	                                      "&); until [ -e done ]; do sleep 0.02; done; rm done; sleep 0.1",
	                                      "perl -e 'my $a = q(x) x (40 << 20); 1 while times < 0.2; open F, q(>), q(done); "
	                                      "sleep 1000' & until [ -e done ]; do sleep 0.02; done; rm done"};
	world w = world_of((plan_limits){0});
	world_begin(&w);
	for (size_t i = 0; i < ARRAY_LEN(scripts); i++) {
		outcome o = SH(&w, scripts[i]);
		check_exit(&o, 0);
		int64_t used = o.exited.user_ns + o.exited.system_ns;
		CHECK_MSG(used >= 180000000, "script %zu: %" PRId64 " ns", i, used);
		CHECK_MSG(o.exited.peak_bytes >= 40 << 20, "script %zu: %" PRIu64, i, o.exited.peak_bytes);
	}
	outcome o = RUN(&w, "true");
	check_exit(&o, 0);
	CHECK(o.exited.user_ns >= 0 && o.exited.system_ns >= 0 && o.exited.peak_bytes < 40 << 20);
	world_end(&w);
}

TEST(shared_memory_ends_with_the_command)
{
	world w = world_of((plan_limits){0});
	world_begin(&w);
	outcome o = SH(&w, "echo x > /dev/shm/left; df -k --output=size /dev/shm | tail -n 1");
	check_exit(&o, 0);
	CHECK_U64(strtoul(o.out, NULL, 10), 64 << 10);
	o = SH(&w, "ls /dev/shm; df -k --output=size /dev/shm | tail -n 1");
	check_exit(&o, 0);
	CHECK_U64(strtoul(o.out, NULL, 10), 64 << 10);
	world_end(&w);
}

TEST(orphans_are_reaped)
{
	world w = world_of((plan_limits){0});
	world_begin(&w);
	outcome o =
		SH(&w, "for i in 1 2 3 4 5; do (sh -c 'exit 0' &); done; sleep 0.3; grep -l '^State:.Z' /proc/[0-9]*/status; true");
	check_exit(&o, 0);
	CHECK_STR(o.out, "");
	world_end(&w);
}

static outcome run_and_signal(world *w, const char *script, int number, bool everybody)
{
	static outcome o;
	ends e = pipes_make();
	run_send(w, ARGV("bash", "-c", script), default_env, "/work", false, e.theirs);
	pipes_give(&e);
	expect(w, WIRE_STARTED);
	char c;
	CHECK(read(e.out, &c, 1) == 1 && c == '!'); /* the script is as far as it has to be */
	signal_send(w, number, everybody);
	output_read(e.out, &o);
	close(e.in);
	exited_take(w, &o);
	return o;
}

static void check_signal(const outcome *o, int number)
{
	CHECK_MSG(o->exited.end == WIRE_END_STATUS && WIFSIGNALED(o->exited.status) && WTERMSIG(o->exited.status) == number,
	          "end %d status %x: %s", (int)o->exited.end, (unsigned)o->exited.status, o->out);
}

TEST(signals_reach_the_command)
{
	world w = world_of((plan_limits){0});
	world_begin(&w);
	outcome o = run_and_signal(&w, "echo -n '!'; sleep 1000", SIGTERM, true);
	check_signal(&o, SIGTERM);
	o = run_and_signal(&w, "trap 'echo got; exit 5' INT; echo -n '!'; while :; do sleep 0.05; done", SIGINT, false);
	check_exit(&o, 5);
	CHECK_STR(o.out, "got\n");
	/* One that stopped itself, and one that stopped the whole group. */
	o = run_and_signal(&w, "(sleep 0.1; kill -STOP $$; echo -n '!') & wait; sleep 1000", SIGTERM, true);
	check_signal(&o, SIGTERM);
	/* Not to those in another session, unless to everybody. */
	o = run_and_signal(
		&w,
		"trap 'exit 6' USR1; setsid bash -c \"trap 'echo other' USR1; echo -n '!'; while :; do sleep 0.05; done\" & wait",
		SIGUSR1, false);
	check_exit(&o, 6);
	CHECK_STR(o.out, "");
	o = run_and_signal(&w, "trap '' TERM HUP INT; echo -n '!'; (trap '' TERM; sleep 1000) & while :; do sleep 1000; done",
	                   SIGKILL, true);
	check_signal(&o, SIGKILL);
	o = run_and_signal(&w, "trap '' TERM; echo -n '!'; while :; do sleep 1000; done", SIGKILL, false);
	check_signal(&o, SIGKILL);
	world_end(&w);
}

/* PID 1 is not killed, stopped, traced or looked into by the command. */
TEST(the_reaper_holds)
{
	world w = world_of((plan_limits){0});
	world_begin(&w);
	outcome o = RUN(&w, "bash", "-c",
	                "for s in $(seq 1 64); do [ $s != 63 ] && kill -$s 1 2>/dev/null; done; sleep 0.1; "
	                "cat /proc/1/environ /proc/1/maps /proc/1/mem 2>/dev/null | wc -c; ls /proc/1/fd /proc/1/root/ 2>/dev/null "
	                "| wc -l; readlink "
	                "/proc/1/exe /proc/1/cwd; true");
	check_exit(&o, 0);
	CHECK_STR(o.out, "0\n0\n");
	world_end(&w);
}

TEST(proc_sys_is_read_only)
{
	world w = world_of((plan_limits){0});
	world_begin(&w);
	outcome o = SH(
		&w, "for f in kernel/hostname net/ipv4/ip_forward user/max_user_namespaces kernel/core_pattern kernel/shmmax; do "
		    "(echo 1 > /proc/sys/$f) 2>/dev/null && echo WROTE $f; done; cat /proc/sys/user/max_user_namespaces; "
		    "grep ' /proc' /proc/self/mounts | cut -d' ' -f2,4");
	check_exit(&o, 0);
	CHECK(!strstr(o.out, "WROTE"));
	CHECK(strstr(o.out, "/proc/sys ro,nosuid,nodev,noexec"));
	world_end(&w);
}

TEST(one_command_at_a_time)
{
	world w = world_of((plan_limits){0});
	world_begin(&w);
	ends e = pipes_make();
	run_send(&w, ARGV("sleep", "1000"), default_env, "/", false, e.theirs);
	expect(&w, WIRE_STARTED);
	run_send(&w, ARGV("true"), default_env, "/", false, e.theirs);
	wire_packet p;
	bool end;
	cb_error err;
	CHECK_OK(wire_receive(w.socket, packet_bytes, &p, &end, &err));
	CHECK(!end && p.type == WIRE_FAIL);
	world_end(&w);
}

TEST(ends_with_its_holder)
{
	world w = world_of((plan_limits){0});
	world_begin(&w);
	ends e = pipes_make();
	run_send(&w, ARGV("bash", "-c", "trap '' TERM HUP INT PIPE; echo -n '!'; while :; do sleep 0.01; done"), default_env, "/",
	         false, e.theirs);
	pipes_give(&e);
	expect(&w, WIRE_STARTED);
	char c;
	CHECK(read(e.out, &c, 1) == 1);
	world_end(&w);                  /* init is gone when this returns */
	CHECK(read(e.out, &c, 1) == 0); /* and so is all that held the pipe */
}

/* Who waits for the other end of a pipe sees it close while the command runs on. */
TEST(pipes_close_when_the_command_closes_them)
{
	world w = world_of((plan_limits){0});
	world_begin(&w);
	ends e = pipes_make();
	run_send(&w, ARGV("bash", "-c", "exec </dev/null >/dev/null 2>&1; trap 'exit 4' TERM; while :; do sleep 0.02; done"),
	         default_env, "/", false, e.theirs);
	pipes_give(&e);
	expect(&w, WIRE_STARTED);
	char c;
	CHECK(read(e.out, &c, 1) == 0);
	struct pollfd closed = {.fd = e.in};
	CHECK(poll(&closed, 1, -1) == 1 && (closed.revents & POLLERR));
	signal_send(&w, SIGTERM, false);
	static outcome o;
	exited_take(&w, &o);
	CHECK(o.exited.end == WIRE_END_STATUS);
	world_end(&w);
}

TEST(only_pipes_as_stdio)
{
	world w = world_of((plan_limits){0});
	world_begin(&w);
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	run_send(&w, ARGV("true"), default_env, "/", false, (int[3]){null, null, null});
	wire_packet p;
	bool end;
	cb_error err;
	CHECK_OK(wire_receive(w.socket, packet_bytes, &p, &end, &err));
	CHECK(!end && p.type == WIRE_FAIL);
	world_end(&w);
}

TEST(a_terminal_of_its_own)
{
	world w = world_of((plan_limits){0});
	world_begin(&w);
	static outcome o;
	run_send(&w,
	         ARGV("bash", "-c",
	              "stty size; tty; [ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo all; echo here > /dev/tty; trap 'echo int; exit 9' "
	              "INT; "
	              "echo ready; while :; do sleep 0.02; done"),
	         default_env, "/work", true, NULL);
	wire_packet p = receive(&w);
	CHECK(p.type == WIRE_STARTED && p.fd_count == 1);
	int master = p.fds[0];
	o.out_size = 0;
	bool typed = false;
	for (;;) {
		ssize_t n = read(master, o.out + o.out_size, sizeof(o.out) - 1 - o.out_size);
		if (n <= 0) break; /* EIO: the other side is closed */
		o.out_size += (size_t)n;
		o.out[o.out_size] = 0;
		if (!typed && strstr(o.out, "ready")) typed = write(master, "\003", 1) == 1;
	}
	exited_take(&w, &o);
	check_exit(&o, 9);
	CHECK_MSG(strstr(o.out, "25 81\r\n/dev/pts/") && strstr(o.out, "all\r\nhere\r\n") && strstr(o.out, "int\r\n"), "%s", o.out);
	close(master);
	world_end(&w);
}

TEST(large_arguments_come_in_a_memfd)
{
	world w = world_of((plan_limits){0});
	world_begin(&w);
	static char large[100001];
	memset(large, 'x', sizeof(large) - 1);
	outcome o = RUN(&w, "sh", "-c", "echo ${#1}", "sh", large);
	check_exit(&o, 0);
	CHECK_STR(o.out, "100000\n");
	world_end(&w);
}

TEST(limits_hold)
{
	world w = world_of((plan_limits){.pids = 20, .open_files = 4096, .file_bytes = 1 << 20, .cpus_milli = 500});
	world_begin(&w);
	outcome o = RUN(&w, "bash", "-c",
	                "ulimit -c; ulimit -Sn; ulimit -Hn; ulimit -u; nproc; taskset -c 0-7 true 2>/dev/null || echo pinned");
	check_exit(&o, 0);
	CHECK_STR(o.out, "0\n1024\n4096\n22\n1\npinned\n");
	o = RUN(&w, "sh", "-c", "(head -c 2000000 /dev/zero > /work/f; true) 2>/dev/null; stat -c %s /work/f");
	CHECK_STR(o.out, "1048576\n");
	o = RUN(&w, "bash", "-c", "for i in $(seq 60); do sleep 100 2>/dev/null & done 2>/dev/null; jobs -p | wc -l");
	CHECK(o.out_size < 40); /* however bash says that it could not fork */
	o = RUN(&w, "true");
	check_exit(&o, 0);
	world_end(&w);
}

TEST(memory_is_bounded)
{
	world w = world_of((plan_limits){.memory_bytes = 64 << 20});
	world_begin(&w);
	outcome o = RUN(&w, "perl", "-e", "my @a; push @a, 'x' x (1 << 20) while 1");
	CHECK_MSG(o.exited.end == WIRE_END_MEMORY, "end %d status %x %s", (int)o.exited.end, (unsigned)o.exited.status, o.out);
	CHECK_STR(o.reason, "memory: more than 64 MiB");
	/* Spread over processes, each small; the children are killed too. */
	o = RUN(&w, "bash", "-c", "for i in $(seq 10); do perl -e 'my $a = \"x\" x (10 << 20); sleep 1000' & done; wait");
	CHECK_U64(o.exited.end, WIRE_END_MEMORY);
	/* Where no mapping shows it. */
	o = RUN(&w, "bash", "-c", "head -c 63m /dev/zero > /dev/shm/a; exec perl -e 'my $a = \"x\" x (20 << 20); sleep 1000'");
	CHECK_U64(o.exited.end, WIRE_END_MEMORY);
	/* Memory that forks share is counted once. */
	o = RUN(&w, "perl", "-e",
	        "my $a = 'x' x (20 << 20); for (1 .. 8) { unless (fork) { select undef, undef, undef, 0.5; exit 0 } } 1 while wait "
	        "> 0; print 'fine'");
	check_exit(&o, 0);
	CHECK_STR(o.out, "fine");
	world_end(&w);
}

/* ---- without namespaces ---- */

static world weak_world(plan_limits limits)
{
	world w = world_of(limits);
	w.plan.weak = true;
	w.tree = test_tmpdir();
	if (syscall(444, NULL, 0, 1) < 1) test_lacks("landlock", "this kernel has no Landlock");
	CHECK(chdir(w.tree) == 0 && mkdir("work", 0755) == 0 && mkdir("tmp", 0755) == 0 && chdir("/") == 0);
	return w;
}

TEST(weak_runs_in_the_tree)
{
	world w = weak_world((plan_limits){.pids = 100});
	world_begin(&w);
	outcome o = RUN(&w, "bash", "-c", "pwd; echo $COWBOX_ROOT; echo $HOME; echo x > f; cat f; mkdir ../tmp/d; exit 3");
	check_exit(&o, 3);
	char expected[1024];
	snprintf(expected, sizeof(expected), "%s/work\n%s\n%s/tmp\nx\n", w.tree, w.tree, w.tree);
	CHECK_STR(o.out, expected);
	o = RUN(&w, "no-such-program");
	CHECK_U64(o.exited.end, WIRE_END_NOT_FOUND);
	o = run_in(&w, ARGV("pwd"), default_env, "/..");
	CHECK_U64(o.exited.end, WIRE_END_NOT_RUN);
	world_end(&w);
}

TEST(weak_holds_files_sockets_and_signals)
{
	world w = weak_world((plan_limits){0});
	char victim[] = "/tmp/weak-victim-XXXXXX";
	int fd = mkstemp(victim);
	CHECK(fd >= 0 && fchmod(fd, 0666) == 0 && write(fd, "secret", 6) == 6);
	world_begin(&w);
	char script[1024];
	snprintf(script, sizeof(script),
	         "cat %s; echo over > %s; rm -f %s; echo x > /tmp/weak-made; ls /home /root /tmp; ls /etc/ssh", victim, victim,
	         victim);
	outcome o = SH(&w, script);
	CHECK(!strstr(o.out, "secret"));
	CHECK(lseek(fd, 0, SEEK_END) == 6 && access(victim, F_OK) == 0 && access("/tmp/weak-made", F_OK) != 0);
	o = RUN(&w, "perl", "-MSocket", "-e",
	        "for my $f (AF_UNIX, AF_INET, AF_INET6) { print socket(my $s, $f, SOCK_STREAM, 0) ? 'open' : 'refused', qq(\\n) } "
	        "print socketpair(my $a, my "
	        "$b, AF_UNIX, SOCK_STREAM, 0) ? 'pair' : 'no pair'");
	CHECK_STR(o.out, "refused\nrefused\nrefused\npair");
	if (syscall(444, NULL, 0, 1) >= 6) {
		/* The reaper is of the same user. */
		o = SH(&w, "kill -9 $PPID 2>/dev/null || echo held");
		check_exit(&o, 0);
		CHECK_STR(o.out, "held\n");
	}
	unlink(victim);
	world_end(&w);
}

TEST(weak_ends_everything)
{
	world w = weak_world((plan_limits){0});
	world_begin(&w);
	outcome o = SH(&w, "echo $$ > own; (trap '' TERM HUP; setsid sh -c 'echo $$ > daemon; exec sleep 1000' >/dev/null 2>&1 "
	                   "</dev/null &); while [ ! -s "
	                   "daemon ]; do :; done; exit 2");
	check_exit(&o, 2);
	o = SH(&w, "kill -0 $(cat daemon) 2>/dev/null && echo alive; true");
	CHECK_STR(o.out, "");
	o = run_and_signal(&w, "trap '' TERM; setsid sleep 1000 & echo $! > daemon; echo -n '!'; while :; do sleep 1; done",
	                   SIGKILL, true);
	check_signal(&o, SIGKILL);
	char path[512];
	snprintf(path, sizeof(path), "%s/work/daemon", w.tree);
	FILE *f = fopen(path, "r");
	int pid;
	CHECK(f && fscanf(f, "%d", &pid) == 1);
	fclose(f);
	CHECK(kill(pid, 0) != 0 && errno == ESRCH);
	world_end(&w);
}

TEST(weak_memory_is_bounded)
{
	world w = weak_world((plan_limits){.memory_bytes = 64 << 20});
	world_begin(&w);
	outcome o = RUN(&w, "true");
	check_exit(&o, 0);
	o = RUN(&w, "perl", "-e", "select undef, undef, undef, 0.2; my @a; push @a, 'x' x (1 << 20) while 1");
	CHECK_U64(o.exited.end, WIRE_END_MEMORY);
	world_end(&w);
}
