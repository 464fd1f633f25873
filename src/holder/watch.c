/*
 * watch.c: bounds that the kernel holds only where control groups are delegated: looked at from outside, again and again, and the
 * command is killed when it passed one. What grows faster than the looks come is stopped late, never unseen.
 *
 * Adversary: the command. It may change the tree while it is walked, hide memory where no mapping shows it (a memfd that is only
 * written, files of /dev/shm), make thousands of processes or descriptors to slow the looks down. The machine's own last memory and
 * space are the floor beneath all that.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <time.h>

#include "base/clock.h"
#include "base/io.h"
#include "holder/command.h"
#include "host/host.h"

enum {
	WALK_SHARE = 10,   /* of the time one part in so many is spent on walks */
	MEMFDS_MAX = 4096, /* counted; more of them are still bounded by the machine's floor */
	TEXT_BYTES = 4096,
};
#define FLOOR_MEMORY_BYTES ((uint64_t)256 << 20)
#define FLOOR_DISK_BYTES ((uint64_t)1 << 30)
/* A machine that is at its floor already is not the command's doing until it took this much. */
#define FLOOR_SLACK_BYTES ((uint64_t)32 << 20)

/* "NAME:   123 kB" in such a text; 0 when it is not there. */
static uint64_t text_kib(const char *text, const char *name)
{
	const char *at = text;
	size_t size = strlen(name);
	while (at && strncmp(at, name, size) != 0) {
		at = strchr(at, '\n');
		if (at) at++;
	}
	return at ? strtoull(at + size, NULL, 10) << 10 : 0;
}

/* ---- memory ---- */

typedef struct memory_look {
	bool (*is_ours)(pid_t pid); /* NULL: everybody but PID 1 */
	bool mapped_exactly;
	uint64_t mapped, private, shared; /* resident of all; exactly: anonymous, and of files of memory */
	uint64_t held;
	uint64_t unlinked; /* on the disk, in files without a name */
	bool hidden;       /* a process does not let its descriptors be seen */
	uint64_t seen[MEMFDS_MAX];
	size_t seen_count;
} memory_look;

static bool seen_before(memory_look *m, uint64_t ino)
{
	for (size_t i = 0; i < m->seen_count; i++)
		if (m->seen[i] == ino) return true;
	if (m->seen_count < MEMFDS_MAX) m->seen[m->seen_count++] = ino;
	return false;
}

/* Everybody may read this, also of one that hides. 0: it is gone, or going. */
static uint64_t resident_pages(int proc, const char *pid, uint64_t *out_shared)
{
	char name[64], text[256];
	unsigned long long resident = 0, shared = 0;
	(void)snprintf(name, sizeof(name), "%s/statm", pid);
	if (!io_text_read(proc, name, text, sizeof(text)) || sscanf(text, "%*s %llu %llu", &resident, &shared) != 2) return 0;
	if (out_shared) *out_shared = shared;
	return resident;
}

/* Memory that a process has open as a file, mapped or not; and files that no walk finds. */
static void look_at_open_files(memory_look *m, int proc, const char *pid)
{
	char name[64];
	(void)snprintf(name, sizeof(name), "%s/fd", pid);
	int fd = openat(proc, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* The filter lets nobody hide; what is left is a program that cannot be read, and a process that is already without memory.
	 */
	if (fd < 0 && errno == EACCES && resident_pages(proc, pid, NULL) > 0) m->hidden = true;
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	if (!d) {
		if (fd >= 0) (void)close(fd);
		return;
	}
	for (struct dirent *e; (e = readdir(d));) {
		char target[16];
		struct stat st;
		ssize_t n = readlinkat(fd, e->d_name, target, sizeof(target));
		if (n < 7 || fstatat(fd, e->d_name, &st, 0) != 0 || !S_ISREG(st.st_mode) || st.st_nlink != 0) continue;
		if (seen_before(m, st.st_ino)) continue;
		bool memory = memcmp(target, "/memfd:", 7) == 0, counted = n >= 9 && memcmp(target, "/dev/shm/", 9) == 0;
		if (memory) m->held += (uint64_t)st.st_blocks * 512;
		else if (!counted) m->unlinked += (uint64_t)st.st_blocks * 512;
	}
	(void)closedir(d);
}

static void look_at_process(memory_look *m, int proc, const char *pid)
{
	char name[64], text[TEXT_BYTES];
	if (m->mapped_exactly) {
		(void)snprintf(name, sizeof(name), "%s/smaps_rollup", pid);
		if (io_text_read(proc, name, text, sizeof(text))) {
			m->private += text_kib(text, "Pss_Anon:");
			m->shared += text_kib(text, "Pss_Shmem:");
			return;
		}
	}
	uint64_t shared = 0, resident = resident_pages(proc, pid, &shared);
	m->mapped += resident * (uint64_t)sysconf(_SC_PAGESIZE);
	if (shared < resident) m->private += (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
	if (!m->mapped_exactly) look_at_open_files(m, proc, pid);
}

static bool is_counted(const memory_look *m, const char *name)
{
	if (name[0] < '1' || name[0] > '9') return false;
	return m->is_ours ? m->is_ours((pid_t)atoi(name)) : strcmp(name, "1") != 0;
}

static cb_code look_at_processes(memory_look *m, int proc, cb_error *err)
{
	int again = openat(proc, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = again >= 0 ? fdopendir(again) : NULL;
	if (!d) {
		if (again >= 0) (void)close(again);
		return cb_err_errno(err, errno, "cannot look at processes");
	}
	for (struct dirent *e; (e = readdir(d));)
		if (is_counted(m, e->d_name)) look_at_process(m, proc, e->d_name);
	(void)closedir(d);
	return CB_OK;
}

static uint64_t tmpfs_bytes(void)
{
	static const char *const places[] = {"/dev/shm", "/run", "/dev"};
	uint64_t bytes = 0;
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		struct statfs fs;
		if (statfs(places[i], &fs) != 0 || fs.f_type != TMPFS_MAGIC || fs.f_blocks < fs.f_bfree) continue;
		bytes += (fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize;
	}
	return bytes;
}

static cb_code memory_look_at(memory_look *m, int proc, bool (*is_ours)(pid_t pid), bool exactly, cb_error *err)
{
	m->is_ours = is_ours;
	m->mapped_exactly = exactly;
	m->mapped = m->private = m->shared = m->held = m->unlinked = 0;
	m->seen_count = 0;
	m->hidden = false;
	CB_TRY(look_at_processes(m, proc, err));
	if (!exactly && !is_ours) m->held += tmpfs_bytes();
	return CB_OK;
}

static cb_code measure(int proc, bool (*is_ours)(pid_t pid), bool exactly, uint64_t *out_bytes, bool *out_hidden, cb_error *err)
{
	static memory_look m; /* too large for the stack; a process watches one sandbox */
	CB_TRY(memory_look_at(&m, proc, is_ours, false, err));
	uint64_t held = m.held;
	*out_hidden = m.hidden;
	*out_bytes = m.mapped + held;
	if (!exactly) return CB_OK;
	CB_TRY(memory_look_at(&m, proc, is_ours, true, err));
	/* What is held may be mapped too: the larger of the two is certain. */
	*out_bytes = m.private + (m.shared > held ? m.shared : held);
	return CB_OK;
}

cb_code watch_memory_measure(int proc, bool (*is_ours)(pid_t pid), bool exactly, uint64_t *out_bytes, cb_error *err)
{
	bool hidden;
	return measure(proc, is_ours, exactly, out_bytes, &hidden, err);
}

cb_code watch_memory_look(int proc, uint64_t bound_bytes, bool (*is_ours)(pid_t pid), bool *out_over, cb_error *err)
{
	uint64_t bytes;
	bool hidden = false;
	*out_over = false;
	CB_TRY(measure(proc, is_ours, false, &bytes, &hidden, err));
	*out_over = hidden;
	if (hidden || bytes <= bound_bytes) return CB_OK;
	CB_TRY(watch_memory_measure(proc, is_ours, true, &bytes, err));
	*out_over = bytes > bound_bytes;
	return CB_OK;
}

cb_code watch_unlinked_look(int proc, uint64_t bound_bytes, bool (*is_ours)(pid_t pid), bool *out_over, cb_error *err)
{
	static memory_look m;
	*out_over = false;
	CB_TRY(memory_look_at(&m, proc, is_ours, false, err));
	*out_over = m.unlinked > bound_bytes || m.hidden;
	return CB_OK;
}

/* ---- disk, and the machine ---- */

typedef struct disk_look {
	uint64_t bytes, files;
} disk_look;

/* The holder runs one command at a time. */
static struct {
	disk_look base;
	uint64_t free_disk, free_memory; /* when the command began; 0: not known */
	int64_t next_walk_ns;
} began;

static cb_code look_at_tree(int folder, disk_look *out, cb_error *err)
{
	host_root root = {.fd = folder};
	host_walk *w;
	host_entry e;
	cb_code code;
	CB_TRY(host_stat_fd(folder, &root.stat, err));
	CB_TRY(host_walk_open(&root, &w, err));
	while ((code = host_walk_next(w, &e, err)) == CB_OK && e.event != HOST_END) {
		if (e.event != HOST_ENTRY) continue;
		if (e.stat.type != HOST_DEVICE) out->files++; /* no whiteouts */
		out->bytes += e.stat.allocated_bytes / (e.stat.links ? e.stat.links : 1);
		if (e.stat.type != HOST_DIR || (e.depth == 1 && plan_is_system_name(e.name, strlen(e.name)))) continue;
		(void)host_walk_enter(w, &e, NULL); /* it may be gone, or a mount: the next one then */
	}
	host_walk_close(w);
	return code;
}

/* Caches are no part of the box, but they fill the same disk. */
static cb_code look_at_changes(const slot *s, disk_look *out, cb_error *err)
{
	AUTO_FD int cache = openat(s->folder, "cache", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	*out = (disk_look){0};
	CB_TRY(look_at_tree(s->changes, out, err));
	return cache >= 0 ? look_at_tree(cache, out, err) : CB_OK;
}

static uint64_t memory_free(uint64_t *out_total)
{
	char text[TEXT_BYTES];
	*out_total = 0;
	if (!io_text_read(AT_FDCWD, "/proc/meminfo", text, sizeof(text))) return 0;
	*out_total = text_kib(text, "MemTotal:");
	return text_kib(text, "MemAvailable:");
}

static uint64_t disk_free(const slot *s, uint64_t *out_total)
{
	struct statvfs fs;
	*out_total = 0;
	if (fstatvfs(s->changes, &fs) != 0) return 0;
	*out_total = (uint64_t)fs.f_blocks * fs.f_frsize;
	return (uint64_t)fs.f_bavail * fs.f_frsize;
}

cb_code watch_begin(const slot *s, const plan_limits *limits, cb_error *err)
{
	uint64_t total;
	began.next_walk_ns = 0;
	began.base = (disk_look){0};
	began.free_disk = disk_free(s, &total);
	began.free_memory = memory_free(&total);
	if (limits->disk_bytes || limits->files) return look_at_changes(s, &began.base, err);
	return CB_OK;
}

static bool below_floor(uint64_t free_bytes, uint64_t floor_bytes, uint64_t began_bytes)
{
	return free_bytes < floor_bytes && (began_bytes == 0 || free_bytes + FLOOR_SLACK_BYTES < began_bytes);
}

static void look_at_machine(const slot *s, char reason[128])
{
	uint64_t total, free_bytes = disk_free(s, &total);
	uint64_t floor_bytes = total / 50 < FLOOR_DISK_BYTES ? total / 50 : FLOOR_DISK_BYTES;
	if (total && below_floor(free_bytes, floor_bytes, began.free_disk)) {
		(void)snprintf(reason, 128, "disk: only %.4g MiB are left on the machine", (double)free_bytes / (1 << 20));
		return;
	}
	free_bytes = memory_free(&total);
	floor_bytes = total / 100 * 3 > FLOOR_MEMORY_BYTES ? total / 100 * 3 : FLOOR_MEMORY_BYTES;
	if (total && below_floor(free_bytes, floor_bytes, began.free_memory))
		(void)snprintf(reason, 128, "memory: only %.4g MiB are left on the machine", (double)free_bytes / (1 << 20));
}

cb_code watch_disk(const slot *s, const plan_limits *limits, char reason[128], cb_error *err)
{
	reason[0] = 0;
	look_at_machine(s, reason);
	if (reason[0] || (!limits->disk_bytes && !limits->files)) return CB_OK;
	int64_t start = clock_monotonic_ns();
	if (start < began.next_walk_ns) return CB_OK;
	disk_look now;
	CB_TRY(look_at_changes(s, &now, err));
	int64_t end = clock_monotonic_ns();
	began.next_walk_ns = end + (end - start) * (WALK_SHARE - 1);
	if (limits->disk_bytes && now.bytes > began.base.bytes && now.bytes - began.base.bytes > limits->disk_bytes)
		(void)snprintf(reason, 128, "disk: more than %.4g MiB", (double)limits->disk_bytes / (1 << 20));
	else if (limits->files && now.files > began.base.files && now.files - began.base.files > limits->files)
		(void)snprintf(reason, 128, "files: more than %llu", (unsigned long long)limits->files);
	return CB_OK;
}
