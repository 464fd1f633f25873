/*
 * test_holder.c: the real helper, spoken to as the library does: it isolates, answers, and takes everything with it when somebody
 * dies. Each test runs as root with a reserved uid below a folder of mode 0700, or as an ordinary user; started by an ordinary user,
 * as that one.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/harness.h"
#include "holder/holder.h"

enum { USER = 12345 }; /* nobody's, and the reserved one */

typedef struct driver {
	pid_t pid; /* the holder */
	int socket, area;
	char folder[256]; /* holds the area */
	char slot[16];
	uint8_t buffer[WIRE_PACKET_BYTES + 8];
	wire_packet last;
	cb_error err;
} driver;

static bool as_root;

static void become_user(void)
{
	as_root = false;
	if (geteuid() != 0) return;
	CHECK(setgroups(0, NULL) == 0 && setresgid(USER, USER, USER) == 0 && setresuid(USER, USER, USER) == 0);
	CHECK(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0);
}

/* ---- speaking ---- */

static void tell(driver *d, wire_type type, span body, const int *fds, size_t fd_count)
{
	cb_error err = {0};
	CHECK_OK(wire_send(d->socket, type, body, fds, fd_count, &err));
}

/* The next message; FAIL gives its code, and err its message. */
static cb_code hear(driver *d, wire_type *out)
{
	bool end = false;
	cb_error err = {0};
	wire_packet_done(&d->last);
	CHECK_OK(wire_receive(d->socket, d->buffer, &d->last, &end, &err));
	if (end) return cb_err_set(&d->err, CB_IO, "end of file");
	*out = d->last.type;
	if (d->last.type != WIRE_FAIL) return CB_OK;
	wire_failed failed;
	CHECK_OK(wire_failed_get(d->last.body, &failed, &err));
	return cb_err_set(&d->err, failed.code, "%s", failed.message);
}

static void expect(driver *d, wire_type type)
{
	wire_type got = (wire_type)0;
	cb_code code = hear(d, &got);
	CHECK_MSG(code == CB_OK && got == type, "message %d, expected %d: %s", (int)got, (int)type,
	          code == CB_OK ? "" : d->err.message);
}

static cb_code expect_fail(driver *d)
{
	wire_type got = (wire_type)0;
	cb_code code = hear(d, &got);
	CHECK_MSG(code != CB_OK, "message %d, expected a failure", (int)got);
	return code;
}

_Noreturn static void become_helper(const driver *d, int socket, int caller, int lock, const char *const *more)
{
	const char *path = getenv("COWBOX_BOX_HELPER");
	const char *argv[8] = {"cowbox-box", "hold"};
	const int fds[] = {socket, caller, lock, d->area};
	char *const env[] = {NULL};
	char uid[16];
	size_t argc = 2;
	(void)snprintf(uid, sizeof(uid), "%d", USER);
	if (as_root) argv[argc++] = "--uid", argv[argc++] = uid;
	for (; more && *more; more++) argv[argc++] = *more;
	int high[4];
	for (int i = 0; i < 4; i++) high[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 100);
	for (int i = 0; i < 4; i++) (void)dup2(high[i], 3 + i);
	(void)execve(path, (char *const *)(uintptr_t)argv, env);
	_exit(127);
}

static void start(driver *d, const char *const *more)
{
	int sockets[2];
	char path[300];
	*d = (driver){.pid = -1, .slot = "slot"};
	CHECK_MSG(getenv("COWBOX_BOX_HELPER"), "COWBOX_BOX_HELPER is not set");
	(void)snprintf(d->folder, sizeof(d->folder), "%s", test_tmpdir());
	(void)snprintf(path, sizeof(path), "%s/area", d->folder);
	if (mkdir(path, 0700) == 0 && geteuid() == 0) CHECK(chown(path, USER, USER) == 0);
	d->area = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	(void)snprintf(path, sizeof(path), "%s/lock", d->folder);
	int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600), caller = (int)syscall(SYS_pidfd_open, getpid(), 0);
	CHECK(d->area >= 0 && lock >= 0 && caller >= 0);
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) == 0);
	d->pid = fork();
	if (d->pid == 0) become_helper(d, sockets[1], caller, lock, more);
	CHECK(d->pid > 0);
	(void)close(sockets[1]);
	(void)close(lock);
	(void)close(caller);
	d->socket = sockets[0];
}

/* A folder that is the user's when the test drops to one. */
static void user_folder(void)
{
	if (geteuid() == 0) CHECK(chown(test_tmpdir(), USER, USER) == 0);
	become_user();
}

static void finish(driver *d)
{
	int status = 0;
	wire_type got;
	tell(d, WIRE_BYE, span_make(NULL, 0), NULL, 0);
	CHECK_CODE(hear(d, &got), CB_IO);
	CHECK(waitpid(d->pid, &status, 0) == d->pid);
	CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the holder ended with %x", status);
	(void)close(d->socket);
	(void)close(d->area);
}

static void work(driver *d, wire_mode mode, const char *layer)
{
	AUTO_BUF buf body = BUF_INIT(WIRE_PACKET_BYTES);
	cb_error err = {0};
	wire_work m = {.mode = mode, .name = d->slot};
	if (layer) m.layers = (wire_strings){layer, strlen(layer) + 1, 1};
	CHECK_OK(wire_work_put(&body, &m, &err));
	tell(d, WIRE_WORK, buf_span(&body), NULL, 0);
	expect(d, WIRE_READY);
}

static sandbox_policy simple(void)
{
	return (sandbox_policy){.uid = 1000, .gid = 1000};
}

static void send_plan(driver *d, const sandbox_policy *policy, const int *fds, size_t fd_count)
{
	AUTO_BUF buf body = BUF_INIT(WIRE_PACKET_BYTES);
	plan_host host;
	plan p;
	cb_error err = {0};
	CHECK_OK(plan_host_look(policy->root ? policy->root : "/", &host, &err));
	CHECK_OK(plan_build(policy, &host, &p, &err));
	CHECK_OK(plan_put(&body, &p, &err));
	tell(d, WIRE_ENTER, buf_span(&body), fds, fd_count);
	plan_done(&p);
}

static void enter(driver *d, const sandbox_policy *policy)
{
	send_plan(d, policy, NULL, 0);
	expect(d, WIRE_ENTERED);
}

/* ---- commands ---- */

/* `sh -c script`; what comes out of it can be read from *out_fd. */
static void launch(driver *d, const char *script, int *out_fd)
{
	static const char env[] = "PATH=/usr/bin:/bin:/usr/sbin:/sbin\0HOME=/home/agent";
	AUTO_BUF buf argv = BUF_INIT(WIRE_PACKET_BYTES), body = BUF_INIT(WIRE_PACKET_BYTES);
	cb_error err = {0};
	int in[2], out[2];
	CHECK(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
	CHECK_OK(buf_append(&argv, "/bin/sh\0-c", 11, &err));
	CHECK_OK(buf_append(&argv, script, strlen(script) + 1, &err));
	wire_run m = {.argv = {(const char *)argv.bytes, argv.size, 3}, .env = {env, sizeof(env), 2}, .cwd = "/"};
	CHECK_OK(wire_run_put(&body, &m, &err));
	tell(d, WIRE_RUN, buf_span(&body), (int[]){in[0], out[1], out[1]}, 3);
	(void)close(in[0]);
	(void)close(in[1]);
	(void)close(out[1]);
	*out_fd = out[0];
}

static wire_exited ended(driver *d)
{
	wire_exited m = {0};
	cb_error err = {0};
	expect(d, WIRE_EXITED);
	CHECK_OK(wire_exited_get(d->last.body, &m, &err));
	return m;
}

/* Its output and status as "output\nSTATUS". Lent until the next call. */
static const char *run(driver *d, const char *script)
{
	static char text[64 << 10];
	size_t size = 0;
	int fd;
	launch(d, script, &fd);
	expect(d, WIRE_STARTED);
	for (ssize_t n; (n = read(fd, text + size, sizeof(text) - 64 - size)) > 0;) size += (size_t)n;
	(void)close(fd);
	wire_exited m = ended(d);
	CHECK_MSG(m.end == WIRE_END_STATUS, "end %d: %s", (int)m.end, m.reason);
	if (WIFEXITED(m.status)) (void)snprintf(text + size, 64, "%d", WEXITSTATUS(m.status));
	else (void)snprintf(text + size, 64, "signal %d", WTERMSIG(m.status));
	return text;
}

static void check_run(driver *d, const char *script, const char *expected)
{
	const char *got = run(d, script);
	CHECK_MSG(strcmp(got, expected) == 0, "%s: \"%s\", expected \"%s\"", script, got, expected);
}

/* ---- what is there ---- */

static void look_around(driver *d)
{
	check_run(d, "/bin/true", "0");
	check_run(d, "exit 7", "7");
	check_run(d, "kill -9 $$", "signal 9");
	check_run(d, "id -u; id -g; id -un; id -gn; uname -n", "1000\n1000\nagent\nagent\ncowbox\n0");
	check_run(d, "cat /etc/passwd | cut -d: -f1", "root\nagent\nnobody\n0");
	check_run(d, "cat /etc/machine-id; cat /etc/resolv.conf; test -e /etc/shadow", "c0b0c0b0c0b0c0b0c0b0c0b0c0b0c0b0\n1");
	check_run(d, "touch /usr/x 2>&1; touch /etc/x 2>&1; true",
	          "touch: cannot touch '/usr/x': Read-only file system\ntouch: cannot touch '/etc/x': Read-only file system\n0");
	check_run(d, "ls -d /sys /boot /root /home 2>&1 | wc -l; ls /var/lib; echo /run/*", "4\n/run/lock /run/user\n0");
	check_run(d, "ls /dev", "fd\nfull\nnull\nptmx\npts\nrandom\nshm\nstderr\nstdin\nstdout\ntty\nurandom\nzero\n0");
	check_run(d, "echo x > /dev/null && echo y > /dev/shm/y && cat /dev/shm/y && head -c 3 /dev/zero | od -An -tx1",
	          "y\n 00 00 00\n0");
	check_run(d, "tail -n +3 /proc/net/dev | cut -d: -f1", "    lo\n0");
	check_run(d,
	          "perl -MIO::Socket::INET -e 'my $l = IO::Socket::INET->new(Listen => 1, LocalAddr => \"127.0.0.1\") or die;"
	          "IO::Socket::INET->new(PeerAddr => \"127.0.0.1\", PeerPort => $l->sockport) or die; print \"up\\n\"'",
	          "up\n0");
	check_run(d, "echo $$ >/dev/null; ls -d /proc/[0-9]* | wc -l | grep -c '[1-9]'", "1\n0");
	check_run(d,
	          "unshare -U true 2>/dev/null; mount -t tmpfs x /tmp 2>/dev/null; grep -E '^(Cap|NoNewPrivs|Seccomp:)' "
	          "/proc/self/status",
	          "CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nCapBnd:\t0000000000000000\n"
	          "CapAmb:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n0");
}

static void look_at_mounts(driver *d)
{
	/* What was given to mount(2). Where a folder lies on its filesystem the kernel tells whoever has it mounted. */
	const char *text = run(d, "sed 's/.* - / - /' /proc/self/mountinfo");
	CHECK_MSG(!strstr(text, d->folder), "the store shows: %s", text);
	text = run(d, "cat /proc/self/mountinfo");
	CHECK_MSG(!strstr(text, "master:") && !strstr(text, "shared:"), "a mount is shared: %s", text);
	check_run(d, "awk '$6 !~ /nosuid/ { print $5, $6 }' /proc/self/mountinfo", "0");
	check_run(d, "awk '$5 ~ \"^/(usr|etc|lib|bin|sbin)\" && $6 !~ /^ro/ { print $5, $6 }' /proc/self/mountinfo", "0");
	check_run(d,
	          "awk '$5 !~ \"^/(dev/(null|zero|full|random|urandom|tty|pts)|proc/.*)$\" && $6 !~ /nodev/ { print $5, $6 }' "
	          "/proc/self/mountinfo",
	          "0");
}

/* What the system owns is as it should be for the next command, and in no scan. */
static void vandalise(driver *d)
{
	check_run(d,
	          "rm /bin && mkdir -p /bin/x/y /sys/a && ln -s /tmp /boot && echo hi > /file && chmod 0 /bin/x; test -e /bin/true",
	          "1");
	check_run(d, "/bin/true && test ! -e /sys && test ! -L /boot && cat /file", "hi\n0");
}

static bool scan_has(driver *d, const char *path, bool *out_only)
{
	bool has = false;
	*out_only = true;
	tell(d, WIRE_SCAN, span_make(NULL, 0), NULL, 0);
	for (size_t packets = 0;;) {
		wire_type type;
		CHECK(hear(d, &type) == CB_OK);
		if (type == WIRE_SCAN_END) break;
		CHECK(type == WIRE_ENTRY);
		if (++packets % WIRE_WINDOW == 0) tell(d, WIRE_MORE, span_make(NULL, 0), NULL, 0);
		span rest = d->last.body;
		for (bool end = false; !end;) {
			wire_entry e;
			cb_error err = {0};
			CHECK_OK(wire_entry_get(&rest, &e, &end, &err));
			if (end || !*e.path) continue;
			if (strcmp(e.path, path) == 0) has = true;
			else *out_only = false;
		}
	}
	tell(d, WIRE_KEEP, span_make(NULL, 0), NULL, 0);
	return has;
}

static void tour(wire_mode mode)
{
	static driver d;
	sandbox_policy policy = simple();
	bool only;
	start(&d, NULL);
	work(&d, mode, NULL);
	enter(&d, &policy);
	look_around(&d);
	look_at_mounts(&d);
	vandalise(&d);
	CHECK(scan_has(&d, "file", &only));
	CHECK_MSG(only, "something else than /file was found");
	/* The system's names in the root are no change of it. */
	check_run(&d, "rm /bin; /usr/bin/touch -d 2001-02-03 /", "0");
	check_run(&d, "stat -c %y / | cut -c 1-10; ls /bin/true", "2001-02-03\n/bin/true\n0");
	check_run(&d, "echo kept > /var/cache/agent/x; echo gone > /var/tmp/x", "0");
	/* Another sandbox on the same slot. */
	enter(&d, &policy);
	check_run(&d, "cat /var/cache/agent/x /file; test -e /var/tmp/x", "kept\nhi\n1");
	finish(&d);
	/* Another holder. */
	start(&d, NULL);
	work(&d, mode, NULL);
	enter(&d, &policy);
	check_run(&d, "cat /file", "hi\n0");
	finish(&d);
}

TEST(plain_as_a_user)
{
	user_folder();
	tour(WIRE_PLAIN);
}

TEST(stack_as_a_user)
{
	user_folder();
	tour(WIRE_STACK);
}

TEST(plain_as_root)
{
	as_root = geteuid() == 0;
	tour(WIRE_PLAIN);
}

TEST(stack_as_root)
{
	as_root = geteuid() == 0;
	tour(WIRE_STACK);
}

static void weak_tour(void)
{
	static driver d;
	sandbox_policy policy = simple();
	bool only;
	policy.weak = true;
	start(&d, (const char *const[]){"--weak", NULL});
	work(&d, WIRE_PLAIN, NULL);
	enter(&d, &policy);
	check_run(&d, "exit 3", "3");
	check_run(&d, "echo hi > file; cat file; cat /etc/hostname >/dev/null", "hi\n0");
	CHECK(scan_has(&d, "file", &only));
	CHECK(only);
	finish(&d);
}

TEST(without_namespaces)
{
	user_folder();
	weak_tour();
}

TEST(without_namespaces_as_root)
{
	as_root = geteuid() == 0;
	weak_tour();
}

TEST(an_old_kernel)
{
	static driver d;
	sandbox_policy policy = simple();
	as_root = geteuid() == 0;
	start(&d, (const char *const[]){"--old-kernel", NULL});
	work(&d, WIRE_STACK, NULL);
	enter(&d, &policy);
	look_around(&d);
	look_at_mounts(&d);
	finish(&d);
}

/* ---- policies ---- */

static void put(const char *folder, const char *name, const char *text, mode_t mode)
{
	char path[600];
	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	if (!text) {
		CHECK(mkdir(path, mode) == 0);
		return;
	}
	AUTO_FD int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, mode);
	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && fchmod(fd, mode) == 0);
}

/* A folder of the host's that the sandbox's user may reach. */
static const char *host_folder(void)
{
	static char path[64];
	(void)snprintf(path, sizeof(path), "/tmp/cowbox-bind-%d", getpid());
	CHECK(mkdir(path, 0755) == 0);
	return path;
}

static void remove_host_folder(const char *path)
{
	char command[128];
	(void)snprintf(command, sizeof(command), "rm -rf '%s'", path);
	CHECK(system(command) == 0);
}

TEST(binds)
{
	static driver d;
	char a[128], b[128], f[192];
	user_folder();
	const char *host = host_folder();
	put(host, "a", NULL, 0755);
	put(host, "a/in", NULL, 0755);
	put(host, "b", NULL, 0755);
	put(host, "f", "one\n", 0644);
	(void)snprintf(a, sizeof(a), "%s/a", host);
	(void)snprintf(b, sizeof(b), "%s/b", host);
	(void)snprintf(f, sizeof(f), "%s/f", host);
	sandbox_bind binds[] = {{b, "/data/a/in", true, false, -1},
	                        {a, "/data/a", false, false, -1},
	                        {f, "/work/f", false, true, -1},
	                        {f, "/usr/bin/true", false, true, -1},
	                        {b, "/var/lib/thing", false, false, -1}};
	sandbox_policy policy = simple();
	policy.binds = binds;
	policy.bind_count = ARRAY_LEN(binds);
	start(&d, NULL);
	work(&d, WIRE_PLAIN, NULL);
	enter(&d, &policy);
	check_run(&d,
	          "echo x > /data/a/in/new; echo y > /data/a/no; cat /work/f /usr/bin/true; ls /var/lib/thing; echo z > /work/f",
	          "/bin/sh: 1: cannot create /data/a/no: Read-only file system\none\none\nnew\n"
	          "/bin/sh: 1: cannot create /work/f: Read-only file system\n2");
	check_run(&d, "echo x > /var/lib/thing/no", "/bin/sh: 1: cannot create /var/lib/thing/no: Read-only file system\n2");
	(void)snprintf(f, sizeof(f), "%s/new", b);
	CHECK(access(f, F_OK) == 0);
	finish(&d);
	remove_host_folder(host);
}

static cb_code enter_fails(const sandbox_bind *bind, const char *before, char message[CB_ERROR_MESSAGE_MAX])
{
	static driver d;
	sandbox_policy policy = simple();
	start(&d, NULL);
	work(&d, WIRE_PLAIN, NULL);
	if (before) {
		enter(&d, &policy);
		(void)run(&d, before);
	}
	policy.binds = bind;
	policy.bind_count = 1;
	send_plan(&d, &policy, NULL, 0);
	/* What follows a failure is not done, and does not get lost either. */
	tell(&d, WIRE_SIGNAL, span_make("x", 1), NULL, 0);
	cb_code code = expect_fail(&d);
	memcpy(message, d.err.message, CB_ERROR_MESSAGE_MAX);
	(void)close(d.socket);
	int status;
	CHECK(waitpid(d.pid, &status, 0) == d.pid && WIFEXITED(status) && WEXITSTATUS(status) == 1);
	return code;
}

TEST(binds_that_cannot_be)
{
	char message[CB_ERROR_MESSAGE_MAX];
	user_folder();
	CHECK_CODE(enter_fails(&(sandbox_bind){"/nothing/there", "/x", false, false, -1}, NULL, message), CB_NOTFOUND);
	CHECK(strstr(message, "'/x' of the sandbox: '/nothing/there' is not there"));
	CHECK_CODE(enter_fails(&(sandbox_bind){"/usr", "/usr/nothing/there", false, false, -1}, NULL, message), CB_NOTFOUND);
	CHECK_CODE(enter_fails(&(sandbox_bind){"/usr", "/x", false, false, 0}, NULL, message), CB_CORRUPT);
	/* A link of the box on the way to a bind is not followed: neither on the host nor in the box. */
	CHECK_CODE(enter_fails(&(sandbox_bind){"/usr", "/link/cowbox-linked", false, false, -1}, "ln -s /tmp /link", message),
	           CB_NOTDIR);
	CHECK_CODE(enter_fails(&(sandbox_bind){"/usr", "/link", false, false, -1}, "true", message), CB_NOTDIR);
	CHECK(access("/tmp/cowbox-linked", F_OK) != 0);
}

static void check_subtree(wire_mode mode)
{
	static driver d;
	sandbox_policy policy = simple();
	user_folder();
	start(&d, NULL);
	work(&d, mode, NULL);
	enter(&d, &policy);
	check_run(&d, "mkdir -p /work/a/b /work/other; echo 1 > /work/a/b/f; echo secret > /work/other/s; echo t > /t", "0");
	policy.path = "/work/a";
	enter(&d, &policy);
	check_run(&d,
	          "find /work /t /home /tmp 2>/dev/null; echo 2 > /work/a/b/f; echo x > /tmp/x; echo y > /home/agent/y; echo z > "
	          "/work/z",
	          "/work\n/work/a\n/work/a/b\n/work/a/b/f\n/home\n/home/agent\n/tmp\n0");
	policy.path = NULL;
	enter(&d, &policy);
	check_run(&d, "cat /work/a/b/f /work/other/s /t; ls -d /tmp /home; ls /work",
	          "2\nsecret\nt\nls: cannot access '/tmp': No such file or directory\nls: cannot access '/home': No such file or "
	          "directory\n"
	          "a\nother\n0");
	policy.path = "/work/nothing";
	send_plan(&d, &policy, NULL, 0);
	CHECK_CODE(expect_fail(&d), CB_NOTFOUND);
	(void)close(d.socket);
	CHECK(waitpid(d.pid, NULL, 0) == d.pid);
}

TEST(one_subtree_of_a_folder)
{
	check_subtree(WIRE_PLAIN);
}

TEST(one_subtree_of_a_stack)
{
	check_subtree(WIRE_STACK);
}

TEST(the_host_s_network)
{
	static driver d;
	sandbox_policy policy = simple();
	char mine[64] = "", script[128];
	user_folder();
	policy.net = SANDBOX_NET_HOST;
	CHECK(readlink("/proc/self/ns/net", mine, sizeof(mine) - 1) > 0);
	start(&d, NULL);
	work(&d, WIRE_PLAIN, NULL);
	enter(&d, &policy);
	(void)snprintf(script, sizeof(script), "test $(readlink /proc/self/ns/net) = '%s'", mine);
	check_run(&d, script, "0");
	check_run(&d, "grep hosts: /etc/nsswitch.conf; test -s /etc/hosts", "hosts: files dns\n0");
	finish(&d);
}

/* A system in a folder: busybox-like, with one static program. */
TEST(another_root)
{
	static driver d;
	sandbox_policy policy = simple();
	char path[256];
	user_folder();
	const char *host = host_folder();
	put(host, "usr", NULL, 0755);
	put(host, "etc", NULL, 0755);
	put(host, "etc/passwd", "root:x:0:0::/:/bin/sh\nother:x:5:5::/:/bin/sh", 0644);
	put(host, "etc/mine", "mine\n", 0644);
	(void)snprintf(path, sizeof(path), "cp -a /bin %s/bin && cp -a /lib %s/lib && cp -a /lib64 %s/lib64", host, host, host);
	CHECK(system(path) == 0);
	(void)snprintf(path, sizeof(path), "mkdir %s/usr/bin && cp /usr/bin/sh /usr/bin/cat /usr/bin/id /usr/bin/ls %s/usr/bin",
	               host, host);
	CHECK(system(path) == 0);
	(void)snprintf(path, sizeof(path),
	               "for l in $(ldd /usr/bin/sh /usr/bin/id /usr/bin/ls | grep -o '/lib[^ ]*'); do mkdir -p %s/usr$(dirname "
	               "${l#/usr}); cp $l %s/usr${l#/usr}; done",
	               host, host);
	CHECK(system(path) == 0);
	policy.root = host;
	start(&d, NULL);
	work(&d, WIRE_PLAIN, NULL);
	enter(&d, &policy);
	check_run(&d, "cat /etc/mine /etc/passwd; ls /usr/bin; ls /etc",
	          "mine\nroot:x:0:0::/:/bin/sh\nother:x:5:5::/:/bin/sh\nagent:x:1000:1000:agent:/home/agent:/bin/"
	          "bash\ncat\nid\nls\nsh\n"
	          "group\nhostname\nhosts\nmachine-id\nmine\nnsswitch.conf\npasswd\nresolv.conf\n0");
	finish(&d);
	remove_host_folder(host);
}

/* Mounts below a read-only bind are read-only too. */
static void check_submounts(const char *host, const char *const *more)
{
	static driver d;
	sandbox_bind bind = {host, "/data", false, false, -1};
	sandbox_policy policy = simple();
	policy.binds = &bind;
	policy.bind_count = 1;
	start(&d, more);
	work(&d, WIRE_PLAIN, NULL);
	enter(&d, &policy);
	check_run(&d, "ls /data/sub; touch /data/sub/no 2>&1; umount /data/sub 2>/dev/null",
	          "there\ntouch: cannot touch '/data/sub/no': Read-only file system\n32");
	finish(&d);
}

TEST(mounts_below_a_bind)
{
	if (geteuid() != 0) return; /* an ordinary user has none to bind */
	char path[128];
	as_root = true;
	CHECK(unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	const char *host = host_folder();
	put(host, "sub", NULL, 0755);
	(void)snprintf(path, sizeof(path), "%s/sub", host);
	CHECK(mount("tmpfs", path, "tmpfs", 0, "mode=0777") == 0);
	put(host, "sub/there", "x", 0666);
	check_submounts(host, NULL);
	check_submounts(host, (const char *const[]){"--old-kernel", NULL});
	CHECK(umount2(path, 0) == 0);
	remove_host_folder(host);
}

/* A user namespace in which the reserved uid is root: what an idmapped mount is told. */
static int idmap_open(void)
{
	char path[64], map[32];
	pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);
	if (pid == 0) {
		(void)pause();
		_exit(0);
	}
	(void)snprintf(map, sizeof(map), "0 %d 1", USER);
	static const char *const files[] = {"uid_map", "gid_map"};
	for (int i = 0; i < 2; i++) {
		(void)snprintf(path, sizeof(path), "/proc/%d/%s", pid, files[i]);
		AUTO_FD int fd = open(path, O_WRONLY | O_CLOEXEC);
		CHECK(fd >= 0 && write(fd, map, strlen(map)) > 0);
	}
	(void)snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0 && kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
	return fd;
}

TEST(a_mount_that_comes_as_a_descriptor)
{
	static driver d;
	char path[300];
	struct stat st;
	if (geteuid() != 0) return; /* only root makes such mounts */
	as_root = true;
	(void)snprintf(path, sizeof(path), "%s/mine", test_tmpdir());
	CHECK(mkdir(path, 0700) == 0);
	put(path, "secret", "of root\n", 0600);
	AUTO_FD int tree = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE), users = idmap_open();
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)users};
	CHECK(tree >= 0 && mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) == 0);
	sandbox_bind bind = {path, "/data", true, false, 0};
	sandbox_policy policy = simple();
	policy.binds = &bind;
	policy.bind_count = 1;
	start(&d, NULL);
	work(&d, WIRE_PLAIN, NULL);
	send_plan(&d, &policy, &tree, 1);
	expect(&d, WIRE_ENTERED);
	check_run(&d, "cat /data/secret && echo x > /data/new && stat -c %u /data/new", "of root\n1000\n0");
	finish(&d);
	(void)snprintf(path, sizeof(path), "%s/mine/new", test_tmpdir());
	CHECK(stat(path, &st) == 0 && st.st_uid == 0);
}

/* ---- deaths ---- */

/* Is there a process with this text among its arguments? */
static bool is_alive(const char *marker)
{
	DIR *dir = opendir("/proc");
	bool found = false;
	CHECK(dir);
	for (const struct dirent *e; !found && (e = readdir(dir));) {
		char path[300], text[4096];
		(void)snprintf(path, sizeof(path), "/proc/%s/cmdline", e->d_name);
		AUTO_FD int fd = e->d_name[0] >= '1' && e->d_name[0] <= '9' ? open(path, O_RDONLY | O_CLOEXEC) : -1;
		ssize_t size = fd < 0 ? 0 : read(fd, text, sizeof(text));
		found = size > 0 && memmem(text, (size_t)size, marker, strlen(marker));
	}
	(void)closedir(dir);
	return found;
}

static void wait_until_dead(const char *marker)
{
	while (is_alive(marker)) (void)usleep(1000);
}

static void begin_sleeping(driver *d, bool weak, char marker[32], int *out_fd)
{
	char script[200], line[8];
	sandbox_policy policy = simple();
	(void)snprintf(marker, 32, "98765.%d", getpid());
	(void)snprintf(script, sizeof(script), "(setsid sleep %s &) ; (trap '' TERM HUP INT; sleep %s) & echo on; sleep %s", marker,
	               marker, marker);
	policy.weak = weak;
	start(d, weak ? (const char *const[]){"--weak", NULL} : NULL);
	work(d, weak ? WIRE_PLAIN : WIRE_STACK, NULL);
	enter(d, &policy);
	launch(d, script, out_fd);
	expect(d, WIRE_STARTED);
	CHECK(read(*out_fd, line, sizeof(line)) == 3);
	while (!is_alive(marker)) (void)usleep(1000);
}

static pid_t child_of(pid_t pid)
{
	char path[64], text[64] = "";
	(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0);
	return (pid_t)atoi(text);
}

/* The lock is free only after everything is dead. */
static void caller_dies(bool says_bye, bool weak)
{
	static driver d;
	char marker[32];
	int fd, told[2];
	pid_t holder;
	CHECK(pipe(told) == 0);
	(void)test_tmpdir(); /* of this process, not of the one that dies */
	pid_t caller = fork();
	if (caller == 0) {
		begin_sleeping(&d, weak, marker, &fd);
		CHECK(write(told[1], &d.pid, sizeof(d.pid)) == sizeof(d.pid));
		if (says_bye) tell(&d, WIRE_BYE, span_make(NULL, 0), NULL, 0);
		for (;;) (void)pause();
	}
	CHECK(read(told[0], &holder, sizeof(holder)) == sizeof(holder));
	(void)snprintf(marker, sizeof(marker), "98765.%d", caller);
	if (!says_bye) CHECK(is_alive(marker) && kill(caller, SIGKILL) == 0);
	AUTO_FD int pidfd = (int)syscall(SYS_pidfd_open, holder, 0);
	struct pollfd gone = {.fd = pidfd, .events = POLLIN};
	if (pidfd >= 0) CHECK(poll(&gone, 1, -1) == 1);
	/* It was the last to go. */
	CHECK(!is_alive(marker));
	(void)kill(caller, SIGKILL);
	CHECK(waitpid(caller, NULL, 0) == caller);
}

TEST(the_caller_is_killed)
{
	user_folder();
	caller_dies(false, false);
}

TEST(the_caller_is_killed_as_root)
{
	as_root = geteuid() == 0;
	caller_dies(false, false);
}

TEST(the_caller_says_bye)
{
	user_folder();
	caller_dies(true, false);
}

TEST(the_caller_is_killed_without_namespaces)
{
	user_folder();
	caller_dies(false, true);
}

TEST(the_caller_is_killed_without_namespaces_as_root)
{
	as_root = geteuid() == 0;
	caller_dies(false, true);
}

TEST(the_holder_is_killed)
{
	static driver d;
	char marker[32];
	int fd;
	user_folder();
	begin_sleeping(&d, false, marker, &fd);
	CHECK(kill(d.pid, SIGKILL) == 0 && waitpid(d.pid, NULL, 0) == d.pid);
	wait_until_dead(marker);
}

TEST(the_holder_ignores_the_terminal)
{
	static driver d;
	char marker[32];
	int fd;
	user_folder();
	begin_sleeping(&d, false, marker, &fd);
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
	for (size_t i = 0; i < ARRAY_LEN(signals); i++) CHECK(kill(d.pid, signals[i]) == 0);
	CHECK(getsid(d.pid) == d.pid);
	AUTO_BUF buf body = BUF_INIT(64);
	cb_error err = {0};
	CHECK_OK(wire_signal_put(&body, &(wire_signal){SIGKILL, true}, &err));
	tell(&d, WIRE_SIGNAL, buf_span(&body), NULL, 0);
	wire_exited m = ended(&d);
	CHECK(m.end == WIRE_END_STATUS && WIFSIGNALED(m.status) && WTERMSIG(m.status) == SIGKILL);
	CHECK(!is_alive(marker));
	check_run(&d, "echo again", "again\n0");
	finish(&d);
}

TEST(init_is_killed)
{
	static driver d;
	char marker[32];
	int fd;
	sandbox_policy policy = simple();
	user_folder();
	begin_sleeping(&d, false, marker, &fd);
	CHECK(kill(child_of(d.pid), SIGKILL) == 0);
	wire_exited m = ended(&d);
	CHECK(m.end == WIRE_END_STATUS && WIFSIGNALED(m.status) && WTERMSIG(m.status) == SIGKILL && *m.reason);
	CHECK(!is_alive(marker));
	/* The slot is as it was, and another sandbox can be made. */
	enter(&d, &policy);
	check_run(&d, "echo again", "again\n0");
	finish(&d);
}

/* ---- bounds that the holder watches ---- */

TEST(too_many_files)
{
	static driver d;
	sandbox_policy policy = simple();
	int fd;
	user_folder();
	policy.files = 50;
	start(&d, NULL);
	work(&d, WIRE_STACK, NULL);
	enter(&d, &policy);
	launch(&d, "i=0; while true; do i=$((i + 1)); echo > /f$i; done", &fd);
	expect(&d, WIRE_STARTED);
	wire_exited m = ended(&d);
	CHECK(m.end == WIRE_END_DISK && *m.reason);
	CHECK(WIFSIGNALED(m.status) && WTERMSIG(m.status) == SIGKILL);
	(void)close(fd);
	finish(&d);
}

/* ---- others at the same time ---- */

TEST(holders_that_start_at_once)
{
	pid_t pids[4];
	user_folder();
	for (int i = 0; i < 4; i++) {
		pids[i] = fork();
		if (pids[i] != 0) continue;
		static driver d;
		sandbox_policy policy = simple();
		start(&d, NULL);
		(void)snprintf(d.slot, sizeof(d.slot), "slot%d", i);
		work(&d, WIRE_STACK, NULL);
		enter(&d, &policy);
		check_run(&d, "id -un; ls /etc/ssl >/dev/null", "agent\n0");
		finish(&d);
		_exit(0);
	}
	for (int i = 0; i < 4; i++) {
		int status;
		CHECK(waitpid(pids[i], &status, 0) == pids[i] && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
	/* One /etc for all, and nothing half made beside it. */
	char path[300];
	(void)snprintf(path, sizeof(path), "%s/area", test_tmpdir());
	DIR *dir = opendir(path);
	unsigned etc = 0;
	CHECK(dir);
	for (const struct dirent *e; (e = readdir(dir));) {
		CHECK_MSG(e->d_name[0] != '.' || !e->d_name[1] || e->d_name[1] == '.', "'%s' was left", e->d_name);
		etc += strncmp(e->d_name, "etc-", 4) == 0;
	}
	(void)closedir(dir);
	CHECK_U64(etc, 1);
}

/* The helper lies where the reserved uid cannot go: it is executed all the same. */
TEST(a_helper_out_of_reach)
{
	static driver d;
	char path[300], command[700];
	sandbox_policy policy = simple();
	if (geteuid() != 0) return; /* one's own is in reach */
	as_root = true;
	(void)snprintf(path, sizeof(path), "%s/helper", test_tmpdir());
	(void)snprintf(command, sizeof(command), "cp '%s' '%s'", getenv("COWBOX_BOX_HELPER"), path);
	CHECK(system(command) == 0 && setenv("COWBOX_BOX_HELPER", path, 1) == 0);
	start(&d, NULL);
	work(&d, WIRE_PLAIN, NULL);
	enter(&d, &policy);
	check_run(&d, "id -un", "agent\n0");
	finish(&d);
}

/* ---- who may not ---- */

TEST(root_must_say_who)
{
	static driver d;
	if (geteuid() != 0) return; /* there is no choice then */
	as_root = false;
	start(&d, NULL);
	CHECK_CODE(expect_fail(&d), CB_INTERNAL);
	(void)close(d.socket);
	CHECK(waitpid(d.pid, NULL, 0) == d.pid);
}

TEST(by_hand_it_does_nothing)
{
	const char *path = getenv("COWBOX_BOX_HELPER");
	static const char *const tries[][4] = {{"cowbox-box", NULL},
	                                       {"cowbox-box", "hold", "--uid", "0"},
	                                       {"cowbox-box", "hold", "--uid", "x"},
	                                       {"cowbox-box", "hold", "--nothing", NULL},
	                                       {"cowbox-box", "nothing", NULL}};
	CHECK(path);
	for (size_t i = 0; i < ARRAY_LEN(tries); i++) {
		int out[2], status;
		char text[256];
		const char *argv[5] = {tries[i][0], tries[i][1], tries[i][1] ? tries[i][2] : NULL};
		if (argv[2]) argv[3] = tries[i][3];
		CHECK(pipe(out) == 0);
		pid_t pid = fork();
		if (pid == 0) {
			(void)dup2(out[1], 2);
			(void)execv(path, (char *const *)(uintptr_t)argv);
			_exit(1);
		}
		(void)close(out[1]);
		ssize_t size = read(out[0], text, sizeof(text));
		CHECK(size > 0 && memchr(text, '\n', (size_t)size) == text + size - 1);
		CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 2);
		(void)close(out[0]);
	}
}

/* Whatever it is told out of order is refused, and it ends. */
TEST(out_of_order)
{
	static const wire_type types[] = {WIRE_BUILD, WIRE_BUILD_END, WIRE_RUN,   WIRE_SCAN,
	                                  WIRE_KEEP,  WIRE_WIPE,      WIRE_READY, WIRE_EXITED};
	static driver d;
	user_folder();
	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		start(&d, NULL);
		tell(&d, types[i], span_make(NULL, 0), NULL, 0);
		cb_code code = expect_fail(&d);
		CHECK(code == CB_INTERNAL || code == CB_CORRUPT || code == CB_IO);
		(void)close(d.socket);
		CHECK(waitpid(d.pid, NULL, 0) == d.pid);
	}
}
