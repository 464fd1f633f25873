/* attack_traps.c: what a program leaves behind for capture, clean-up and the next command; and programs that do not want to end. The
 * test judges. */
#include "sandbox/attack.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

static bool touch(const char *path, const char *text)
{
	int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0) return false;
	bool good = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	close(fd);
	return good;
}

static outcome set_up(bool good, const char *what)
{
	return good ? held("%s", what) : untried("%s: %s", what, strerror(errno));
}

static outcome hostile_names(void)
{
	char longest[256];
	memset(longest, 'n', 255);
	longest[255] = 0;
	bool good = !mkdir("names", 0755) && !chdir("names") && touch("new\nline", "1") && touch("\033]0;owned\007\033[2J", "2") &&
	            touch("\xff\xfe\x80 raw", "3") && touch(longest, "4") && touch(" ", "5") && touch("-rf", "6") &&
	            touch("\xe2\x80\xae txt.exe", "7") && touch("quote'\"`$(id)", "8") && touch("\t", "9") &&
	            touch("back\\slash", "10");
	return set_up(good, "ten hostile names");
}

static outcome many_entries(void)
{
	uint64_t count = param_number("n", 100000);
	if (mkdir("many", 0755) || chdir("many")) return untried("many: %s", strerror(errno));
	for (uint64_t i = 0; i < count; i++) {
		char name[32];
		if (i % 1000 == 0) {
			snprintf(name, sizeof name, "%s%llu", i ? "../" : "", (unsigned long long)i);
			if (mkdir(name, 0755) || chdir(name))
				return untried("folder %llu: %s", (unsigned long long)i, strerror(errno));
		}
		snprintf(name, sizeof name, "f%llu", (unsigned long long)i);
		if (mknod(name, S_IFREG | 0644, 0)) return untried("file %llu: %s", (unsigned long long)i, strerror(errno));
	}
	return held("many entries");
}

static outcome deep_tree(void)
{
	uint64_t depth = param_number("n", 3000);
	if (mkdir("deep", 0755) || chdir("deep")) return untried("deep: %s", strerror(errno));
	for (uint64_t i = 0; i < depth; i++)
		if (mkdir("d", 0755) || chdir("d")) return untried("depth %llu: %s", (unsigned long long)i, strerror(errno));
	return set_up(touch("bottom", "x"), "a deep tree");
}

static outcome link_loops(void)
{
	bool good = !mkdir("loops", 0755) && !symlink("loops/b", "loops/a") && !symlink("a", "loops/b") &&
	            !symlink("self", "loops/self") && !symlink("..", "loops/up") && !symlink("/proc/self/fd", "loops/fds") &&
	            !symlink("/", "loops/root") && !symlink(".", "loops/dot");
	return set_up(good, "loops of links");
}

static outcome whiteout_names(void)
{
	bool good = !mkdir("wh", 0755) && touch("wh/.wh.x", "a") && touch("wh/.wh..wh..opq", "b") && touch("wh/x", "c") &&
	            !mkdir("wh/.wh.d", 0755) && touch("wh/.wh.d/.wh.f", "d");
	return set_up(good, "names that mean something to other overlays");
}

/* In a layer these would hide, redirect or replace what other layers hold. */
static outcome overlay_attributes(void)
{
	static const char *const names[] = {"user.overlay.opaque",   "user.overlay.redirect", "user.overlay.whiteout",
	                                    "user.overlay.metacopy", "user.overlay.origin",   "user.overlay.impure",
	                                    "user.overlay.protattr", "user.overlay.whiteouts"};
	if (mkdir("ox", 0755) || !touch("ox/inside", "inside") || !touch("ox/file", "file"))
		return untried("ox: %s", strerror(errno));
	int set = 0;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		const char *value = strstr(names[i], "redirect") ? "/../../../etc" : "y";
		set += !setxattr("ox", names[i], value, strlen(value), 0);
		set += !setxattr("ox/file", names[i], value, strlen(value), 0);
		set += !setxattr(".", names[i], value, strlen(value), 0);
	}
	return held("%d attributes were let in", set);
}

/* A folder the box knew becomes a link to everything: a walk that follows it imports the host. */
static outcome swapped_folder(void)
{
	bool good = !rename("folder", "folder.was") && !symlink("/", "folder") && !symlink("/etc", "etc-link") &&
	            !rename("sub/leaf", "sub/leaf.was") && !symlink("/etc/passwd", "sub/leaf");
	return set_up(good, "a folder and a file became links");
}

/* The same, over and over until the program is ended. */
static outcome swap_forever(void)
{
	mkdir("swap", 0755);
	mkdir("swap.was", 0755);
	touch("swap/x", "x");
	if (symlink("/", "swap.link") && errno != EEXIST) return untried("symlink: %s", strerror(errno));
	bool is_child = fork() == 0;
	while (is_child) {
		rename("swap", "swap.t");
		rename("swap.link", "swap");
		rename("swap", "swap.link");
		rename("swap.t", "swap");
	}
	usleep(100000);
	return held("a child goes on swapping");
}

static outcome special_files(void)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = "sub/leaf"};
	unlink("file");
	unlink("sub/leaf");
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool bound = fd >= 0 && !bind(fd, (struct sockaddr *)&at, sizeof at);
	bool good = !mkfifo("file", 0666) && !mkfifo("fifo", 0000) && (bound || param("weak"));
	if (fd >= 0) close(fd);
	return set_up(good, "a FIFO and a socket where files were");
}

static outcome hard_links(void)
{
	bool good = touch("one", "1") && !link("one", "two") && !mkdir("d", 0755) && !link("one", "d/three") && !unlink("one") &&
	            touch("one", "other") && !link("two", "/tmp/four") && !link("/tmp/four", "/home/agent/five");
	return set_up(good, "hard links across folders");
}

static outcome closed_modes(void)
{
	bool good = !mkdir("closed", 0755) && touch("closed/none", "secret") && !chmod("closed/none", 0) &&
	            !mkdir("closed/in", 0755) && touch("closed/in/x", "x") && !chmod("closed/in", 0) && !mkdir("fixed", 0755) &&
	            touch("fixed/y", "y") && !chmod("fixed", 0555) && !chmod("closed", 0);
	return set_up(good, "modes 000 and 0555");
}

static outcome sparse_file(void)
{
	int fd = open("sparse", O_CREAT | O_RDWR | O_CLOEXEC, 0644);
	off_t size = (off_t)param_number("n", 8ULL << 40);
	bool good = fd >= 0 && !ftruncate(fd, size) && pwrite(fd, "end", 3, size - 3) == 3;
	int code = errno;
	if (fd >= 0) close(fd);
	if (!good && (code == EFBIG || code == EINVAL)) return held("this filesystem has no file so large");
	errno = code;
	return set_up(good, "a sparse file");
}

static outcome odd_times(void)
{
	struct timeval far[2] = {{1LL << 33, 0}, {1LL << 33, 999999}}, past[2] = {{-(1LL << 31), 0}, {-(1LL << 31), 0}};
	bool good = touch("future", "f") && !utimes("future", far) && touch("past", "p") && !utimes("past", past) &&
	            touch("large", "l");
	for (int i = 0; good && i < 8; i++) {
		char name[256] = "user.";
		memset(name + 5, 'a' + i, 200);
		setxattr("large", name, name, sizeof name, 0);
	}
	return set_up(good, "odd times and attributes");
}

/* Names at the root that the next command's sandbox is built on. */
static outcome root_names(void)
{
	static const char *const names[] = {"/bin", "/sbin", "/lib", "/lib64", "/lib32", "/libx32", "/usr",
	                                    "/etc", "/proc", "/dev", "/run",   "/var",   "/sys",    "/boot"};
	int taken = 0;
	mkdir("/work/evil", 0755);
	touch("/work/evil/sh", "#!/bin/false\n");
	chmod("/work/evil/sh", 0755);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		char aside[64];
		snprintf(aside, sizeof aside, "/work/was%s", strrchr(names[i], '/') + 1);
		if (!unlink(names[i]) || !rmdir(names[i]) || !rename(names[i], aside)) taken++;
		if (!symlink("/work/evil", names[i])) taken++;
	}
	return held("%d names were changed", taken);
}

static outcome cache_planted(void)
{
	if (chdir("/var/cache/agent")) return untried("/var/cache/agent: %s", strerror(errno));
	bool good = touch("kept", "kept") && !symlink("/", "root") && !mkfifo("fifo", 0666) && !mkdir("closed", 0);
	rename("/var/cache/agent", "/var/cache/was");
	if (!unlink("/var/cache/agent") || !rmdir("/var/cache/agent")) good = !symlink("/etc", "/var/cache/agent");
	chmod("/var/cache/agent", 0);
	return set_up(good, "a cache with traps");
}

static outcome ignore_term(void)
{
	for (int s = 1; s < 65; s++)
		if (s != SIGKILL && s != SIGSTOP) signal(s, SIG_IGN);
	printf("started\n");
	fflush(stdout);
	while (pause()) {
	}
	return untried("it went on");
}

/* Two forks and a session of its own; keeps the output open. marker= is in its command line. */
static outcome daemonise(void)
{
	for (int i = 0; i < 3; i++) {
		if (fork()) continue;
		setsid();
		if (fork()) _exit(0);
		signal(SIGTERM, SIG_IGN);
		signal(SIGHUP, SIG_IGN);
		for (;;) pause();
	}
	usleep(100000);
	return held("three daemons run");
}

static outcome stop_self(void)
{
	printf("started\n");
	fflush(stdout);
	kill(0, SIGSTOP);
	return untried("it was continued");
}

/* Never more than a few alive, never the same: whoever kills one by one never ends. */
static outcome fork_exit(void)
{
	signal(SIGTERM, SIG_IGN);
	signal(SIGCHLD, SIG_IGN);
	if (fork() > 0) {
		usleep(200000);
		return held("a chain of forks runs on");
	}
	setsid();
	for (;;) {
		pid_t child = fork();
		if (child > 0) _exit(0);
		if (child < 0) usleep(1000);
	}
}

static outcome flood(void)
{
	static char block[1 << 16];
	memset(block, 'y', sizeof block);
	uint64_t left = param_number("n", 1ULL << 40);
	while (left && write(1, block, sizeof block) > 0) left -= left < sizeof block ? left : sizeof block;
	return held("the flood is over");
}

const attack attacks_traps[] = {
	{"trap-names", "capture", "names with newlines, escapes, 255 bytes, no UTF-8", "names are bytes; escaped on a terminal",
         TRAP, hostile_names},
	{"trap-many", "capture", "100,000 entries", "bounded, in windows", TRAP, many_entries},
	{"trap-deep", "capture", "a tree 3,000 folders deep", "nothing recurses", TRAP, deep_tree},
	{"trap-loops", "capture", "loops of symbolic links", "no link is followed", TRAP, link_loops},
	{"trap-whiteouts", "capture", "files called .wh.x", "plain names", TRAP, whiteout_names},
	{"trap-overlay", "capture", "user.overlay.* attributes", "escaped or dropped; no meaning in a layer", TRAP,
         overlay_attributes},
	{"trap-swapped", "capture", "a folder swapped for a link to /", "captured as a link; nothing of the host enters", TRAP,
         swapped_folder},
	{"trap-swapping", "capture", "a child goes on swapping", "it is dead before capture begins", TRAP, swap_forever},
	{"trap-special", "capture", "FIFO and socket in place of files", "looked at without blocking, left out with a note", TRAP,
         special_files},
	{"trap-hardlinks", "capture", "hard links across folders", "captured by content", TRAP, hard_links},
	{"trap-modes", "capture", "modes 000 and 0555", "the holder has the rights", TRAP, closed_modes},
	{"trap-sparse", "capture", "a file of 8 TiB without data", "holes are not read", TRAP, sparse_file},
	{"trap-times", "capture", "times of other ages, large attributes", "checked when they are captured", TRAP, odd_times},
	{"trap-root", "capture", "bin, lib, usr, etc at the root replaced for the next command", "made anew for each", TRAP,
         root_names},
	{"trap-cache", "capture", "traps in /var/cache/agent", "bound by descriptor, never captured", TRAP, cache_planted},
	{"trap-ignore", "kill", "ignores every signal", "SIGKILL to the pid namespace", TRAP, ignore_term},
	{"trap-daemon", "kill", "daemons that keep the output open", "everything ends with the command", TRAP, daemonise},
	{"trap-stop", "kill", "stops itself", "the time limit ends it", TRAP, stop_self},
	{"trap-fork-exit", "kill", "a chain of forks that is never caught", "the kernel ends the pid namespace", TRAP, fork_exit},
	{"trap-flood", "limits", "output without end", "bounded memory; time limit", TRAP, flood},
	{NULL}};
