/*
 * etc.c: the /etc of sandboxes: a folder of the area, read-only in the sandbox, named by a hash of what it was made from. Of the host
 * only what is listed here and everybody may read: programs need alternatives, certificates, time zones; they do not need who the
 * host's users are, its keys, its network. Of another root (--root) all of its /etc, which is part of what the user asked for.
 *
 * It appears whole, by rename: two holders may make it at once. The hash has the boot in it, because nothing is synced: what a power cut
 * left of one is not used again.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "base/io.h"
#include "holder/enter.h"
#include "host/host.h"

/* Of the host's; '*' at the end: whatever begins so. */
static const char *const listed[] = {
	"alternatives",
	"ld.so.cache",
	"ld.so.conf",
	"ld.so.conf.d",
	"ssl",
	"ca-certificates*",
	"pki",
	"crypto-policies",
	"gnutls",
	"java*",
	"jvm*",

	"localtime",
	"timezone",
	"terminfo",
	"os-release",
	"debian_version",
	"lsb-release",
	"redhat-release",
	"fedora-release",
	"system-release",
	"alpine-release",
	"arch-release",
	"issue",
	"services",
	"protocols",
	"mime.types",
	"mailcap",
	"magic*",
	"inputrc",
	"bash.bashrc",
	"bashrc",
	"profile",
	"login.defs",
	"python*",
	"perl",
	"vim",
	"nanorc",
	"fonts",
	"gai.conf",
	"host.conf",
	"rpc",
	"ethertypes",
	"networks",
	"shells",
	"skel",
	"locale.alias",
	"locale.conf",
	"xml",
	"sgml",
	"groff",
	"papersize",
	"texmf",
	"ghostscript",
	"ImageMagick*",
	"OpenCL",
	"vulkan",
	"glvnd",
	"clang",
	"rpm",
	"mke2fs.conf",

	"R",
	"php",
	"ruby",
	"emacs",
	"debuginfod",

	"gitattributes",
	"libnl-3",
};
/* Looked at beside the listed ones: what changes without them changing. */
static const char *const deeper[] = {"ssl/certs", "ssl/certs/ca-certificates.crt", "pki/tls/certs", "pki/ca-trust/extracted/pem"};
/* Ours, never the host's. */
static const char *const own[] = {"passwd", "group",       "shadow",        "gshadow",    "hosts",        "hostname",
                                  "mtab",   "resolv.conf", "nsswitch.conf", "machine-id", "ld.so.preload"};

typedef struct making {
	const plan *p;
	const plan_op *op;
	bool is_host; /* the root is "/" */
	host_root from;
	int to; /* the folder that is made */
	uint64_t bytes, entries;
} making;

static bool in_list(const char *const *list, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++) {
		size_t size = strlen(list[i]);
		bool prefix = list[i][size - 1] == '*';
		if (prefix ? strncmp(list[i], name, size - 1) == 0 : strcmp(list[i], name) == 0) return true;
	}
	return false;
}

static bool wanted(const making *m, const char *name)
{
	if (m->is_host) return !in_list(own, ARRAY_LEN(own), name) && in_list(listed, ARRAY_LEN(listed), name);
	return !(m->op->flags & PLAN_DNS && strcmp(name, "resolv.conf") == 0);
}

/* ---- its name ---- */

static uint64_t mark(int dir, const char *name)
{
	struct {
		uint64_t name, ino, size, mode;
		int64_t seconds, nanoseconds;
	} facts = {.name = hash64(name, strlen(name))};
	struct stat st;
	/* What a link leads to counts. */
	if (fstatat(dir, name, &st, 0) == 0) {
		facts.ino = st.st_ino;
		facts.size = (uint64_t)st.st_size;
		facts.mode = st.st_mode;
		facts.seconds = st.st_mtim.tv_sec;
		facts.nanoseconds = st.st_mtim.tv_nsec;
	}
	return hash64(&facts, sizeof(facts));
}

/* A sum, so that the order in which the host lists them is nothing. */
static cb_code mark_all(const making *m, uint64_t *out, cb_error *err)
{
	int fd = fcntl(m->from.fd, F_DUPFD_CLOEXEC, 3);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		if (fd >= 0) (void)close(fd);
		return cb_err_errno(err, errno, "listing '%s'", m->op->from);
	}
	uint64_t sum = 0;
	rewinddir(dir);
	for (const struct dirent *d; (d = readdir(dir));)
		if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0 && wanted(m, d->d_name))
			sum += mark(m->from.fd, d->d_name);
	(void)closedir(dir);
	for (size_t i = 0; i < ARRAY_LEN(deeper); i++) sum += mark(m->from.fd, deeper[i]);
	if (m->op->flags & PLAN_DNS) sum += mark(AT_FDCWD, "/etc/resolv.conf") + mark(AT_FDCWD, "/etc/hosts");
	*out = sum;
	return CB_OK;
}

static cb_code name_of(const making *m, char **out, cb_error *err)
{
	char boot[64], text[LIMIT_PATH_BYTES + 256];
	uint64_t sum = 0;
	(void)io_text_read(AT_FDCWD, "/proc/sys/kernel/random/boot_id", boot, sizeof(boot));
	CB_TRY(mark_all(m, &sum, err));
	int size = snprintf(text, sizeof(text), "1 %.40s %u %u %u %.64s %s", boot, m->p->uid, m->p->gid, m->op->flags & PLAN_DNS,
	                    m->p->hostname, m->op->from);
	uint64_t hash = hash64(text, (size_t)size) ^ hash_u64(sum);
	if (asprintf(out, "etc-%016llx", (unsigned long long)hash) < 0) return cb_err_nomem(err);
	return CB_OK;
}

/* ---- copying ---- */

static cb_code count(making *m, uint64_t bytes, cb_error *err)
{
	m->bytes += bytes;
	m->entries++;
	if (m->bytes > LIMIT_ETC_BYTES || m->entries > LIMIT_ETC_ENTRIES)
		return cb_err_set(err, CB_LIMIT, "'%s/etc' holds more than %d MiB or %d files", m->is_host ? "" : m->op->from,
		                  LIMIT_ETC_BYTES >> 20, LIMIT_ETC_ENTRIES);
	return CB_OK;
}

static cb_code copy_bytes(making *m, int from, int to, cb_error *err)
{
	static char block[64 << 10];
	for (uint64_t at = 0;;) {
		size_t size = 0;
		CB_TRY(io_pread_all(from, block, sizeof(block), at, &size, err));
		CB_TRY(io_pwrite_all(to, block, size, at, err));
		m->bytes += size;
		at += size;
		if (size < sizeof(block)) return CB_OK;
		if (m->bytes > LIMIT_ETC_BYTES) return count(m, 0, err);
	}
}

static cb_code copy_file(making *m, const host_entry *e, int to, const char *name, cb_error *err)
{
	AUTO_FD int from = -1;
	host_stat st;
	/* Gone, or exchanged for something else: then it is not there. */
	if (host_file_open(e->dir, e->name, &from, &st, NULL) != CB_OK || !(st.mode & 0004)) return CB_OK;
	AUTO_FD int out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (out < 0) return cb_err_errno(err, errno, "making '%s'", e->path);
	CB_TRY(copy_bytes(m, from, out, err));
	CB_TRY(host_mode_set(out, 0444 | (st.mode & 0111), err));
	return host_times_set(out, HOST_TIME_OMIT, st.mtime_ns, err);
}

static cb_code copy_link(const host_entry *e, int to, const char *name, cb_error *err)
{
	AUTO_BUF buf target = BUF_INIT(LIMIT_SYMLINK_TARGET_BYTES + 1);
	if (host_link_read(e->dir, e->name, &target, NULL) != CB_OK) return CB_OK;
	CB_TRY(buf_append_byte(&target, 0, err));
	if (symlinkat((const char *)target.bytes, to, name) != 0) return cb_err_errno(err, errno, "making '%s'", e->path);
	return CB_OK;
}

/* Keys are kept in folders of this name, by convention of everybody. */
static bool is_kept_out(const making *m, const host_entry *e)
{
	if (e->depth == 1 && !wanted(m, e->name)) return true;
	return e->stat.type == HOST_DIR && (strcmp(e->name, "private") == 0 || !(e->stat.mode & 0001) || !(e->stat.mode & 0004));
}

static cb_code copy_entry(making *m, host_walk *walk, host_entry *e, cb_error *err)
{
	AUTO_FD int to = -1;
	const char *name = NULL;
	if (is_kept_out(m, e)) return CB_OK;
	CB_TRY(count(m, 0, err));
	CB_TRY(host_parent_open(m->to, e->path, 0, &to, &name, err));
	switch (e->stat.type) {
	case HOST_FILE:
		return copy_file(m, e, to, name, err);
	case HOST_SYMLINK:
		return copy_link(e, to, name, err);
	case HOST_DIR:
		/* Made first: e belongs to the walk. */
		CB_TRY(host_dir_make(to, name, 0755, err));
		(void)host_walk_enter(walk, e, NULL);
		return CB_OK;
	case HOST_FIFO:
	case HOST_SOCKET:
	case HOST_DEVICE:
		return CB_OK;
	}
	return CB_OK;
}

static cb_code copy_all(making *m, cb_error *err)
{
	host_walk *walk = NULL;
	host_entry e;
	CB_TRY(host_walk_open(&m->from, &walk, err));
	cb_code code;
	while ((code = host_walk_next(walk, &e, err)) == CB_OK && e.event != HOST_END) {
		if (e.event == HOST_ENTRY) code = copy_entry(m, walk, &e, err);
		if (code != CB_OK) break;
	}
	host_walk_close(walk);
	return code;
}

/* ---- what is ours ---- */

static cb_code write_file(const making *m, const char *name, const char *text, size_t size, cb_error *err)
{
	AUTO_FD int fd = openat(m->to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
	/* Of another root: its own counts. */
	if (fd < 0 && errno == EEXIST) return CB_OK;
	if (fd < 0) return cb_err_errno(err, errno, "making '%s'", name);
	return io_write_all(fd, text, size, err);
}

static cb_code write_text(const making *m, const char *name, const char *text, cb_error *err)
{
	return write_file(m, name, text, strlen(text), err);
}

/* The host's, links followed: resolv.conf mostly is one. */
static cb_code write_host_file(const making *m, const char *name, const char *otherwise, cb_error *err)
{
	char path[64], text[64 << 10];
	size_t size = 0;
	(void)snprintf(path, sizeof(path), "/etc/%s", name);
	AUTO_FD int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || io_pread_all(fd, text, sizeof(text), 0, &size, NULL) != CB_OK) return write_text(m, name, otherwise, err);
	return write_file(m, name, text, size, err);
}

/* Another root's list of users may not know ours; without a name whoami, git and ssh complain. */
static cb_code add_user(const making *m, const char *name, const char *line, unsigned id, cb_error *err)
{
	AUTO_FD int fd = openat(m->to, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	AUTO_BUF buf text = BUF_INIT(LIMIT_ETC_BYTES);
	char have[32];
	uint8_t *bytes = NULL;
	struct stat st;
	if (fd < 0 || fstat(fd, &st) != 0 || st.st_size > 1 << 20) return CB_OK;
	size_t size = 0;
	CB_TRY(buf_extend(&text, (size_t)st.st_size, &bytes, err));
	CB_TRY(io_pread_all(fd, bytes, (size_t)st.st_size, 0, &size, err));
	(void)snprintf(have, sizeof(have), ":x:%u:", id);
	if (memmem(text.bytes, size, have, strlen(have))) return CB_OK;
	if (size && text.bytes[size - 1] != '\n') CB_TRY(buf_append_byte(&text, '\n', err));
	CB_TRY(buf_append_str(&text, line, err));
	if (unlinkat(m->to, name, 0) != 0) return cb_err_errno(err, errno, "replacing '%s'", name);
	return write_file(m, name, (const char *)text.bytes, text.size, err);
}

static cb_code write_users(const making *m, cb_error *err)
{
	char user[128], group[64], text[512];
	(void)snprintf(user, sizeof(user), "agent:x:%u:%u:agent:/home/agent:/bin/bash\n", m->p->uid, m->p->gid);
	(void)snprintf(group, sizeof(group), "agent:x:%u:\n", m->p->gid);
	if (!m->is_host) {
		CB_TRY(add_user(m, "passwd", user, m->p->uid, err));
		CB_TRY(add_user(m, "group", group, m->p->gid, err));
	}
	(void)snprintf(text, sizeof(text),
	               "root:x:0:0:root:/root:/usr/sbin/nologin\n%snobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
	               user);
	CB_TRY(write_text(m, "passwd", text, err));
	(void)snprintf(text, sizeof(text), "root:x:0:\ntty:x:5:\n%snogroup:x:65534:\n", group);
	return write_text(m, "group", text, err);
}

static cb_code write_own(const making *m, cb_error *err)
{
	char name[80], hosts[256], switches[256];
	bool dns = m->op->flags & PLAN_DNS;
	(void)snprintf(name, sizeof(name), "%.64s\n", m->p->hostname);
	(void)snprintf(hosts, sizeof(hosts), "127.0.0.1 localhost %.64s\n::1 localhost ip6-localhost ip6-loopback\n",
	               m->p->hostname);
	(void)snprintf(
		switches, sizeof(switches),
		"passwd: files\ngroup: files\nshadow: files\nhosts: files%s\nnetworks: files\nprotocols: files\nservices: files\n"
		"ethers: files\nrpc: files\n",
		dns ? " dns" : "");
	CB_TRY(write_users(m, err));
	CB_TRY(write_text(m, "hostname", name, err));
	CB_TRY(write_text(m, "nsswitch.conf", switches, err));
	/* The same for all: whoever asks which machine this is learns nothing. */
	CB_TRY(write_text(m, "machine-id", "c0b0c0b0c0b0c0b0c0b0c0b0c0b0c0b0\n", err));
	if (m->is_host && symlinkat("/proc/self/mounts", m->to, "mtab") != 0) return cb_err_errno(err, errno, "making mtab");
	CB_TRY(dns ? write_host_file(m, "hosts", hosts, err) : write_text(m, "hosts", hosts, err));
	return dns ? write_host_file(m, "resolv.conf", "", err) : write_text(m, "resolv.conf", "", err);
}

static cb_code fill(making *m, cb_error *err)
{
	if (m->from.fd >= 0) CB_TRY(copy_all(m, err));
	CB_TRY(write_own(m, err));
	return host_mode_set(m->to, 0755, err);
}

static cb_code make(making *m, int area, const char *name, cb_error *err)
{
	char temporary[HOST_TEMPORARY_BYTES];
	temporary_sweep(area); /* of holders that were killed here */
	CB_TRY(temporary_folder(area, temporary, &m->to, err));
	cb_code code = fill(m, err);
	if (code == CB_OK) code = host_dir_commit(area, temporary, name, err);
	if (code == CB_OK) return CB_OK;
	(void)area_remove(area, temporary, NULL);
	/* Another holder was faster. */
	return code == CB_EXISTS ? CB_OK : code;
}

cb_code etc_prepare(int area, const plan *p, const plan_op *op, char **out_name, cb_error *err)
{
	making m = {.p = p, .op = op, .is_host = strcmp(op->from, "/") == 0, .from = {.fd = -1}, .to = -1};
	char path[LIMIT_PATH_BYTES + 8];
	AUTO_FREE char *name = NULL;
	struct stat st;
	(void)snprintf(path, sizeof(path), "%s/etc", m.is_host ? "" : op->from);
	cb_code code = host_root_open(path, &m.from, err);
	if (code == CB_NOTFOUND) code = CB_OK; /* a root without one: ours only */
	if (code == CB_OK && m.from.fd >= 0) code = name_of(&m, &name, err);
	if (code == CB_OK && !name && asprintf(&name, "etc-none-%u-%u", p->uid, p->gid) < 0) code = cb_err_nomem(err);
	if (code == CB_OK && (fstatat(area, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(st.st_mode)))
		code = make(&m, area, name, err);
	host_root_done(&m.from);
	if (m.to >= 0) (void)close(m.to);
	if (code != CB_OK) return cb_err_wrap(err, code, "making the sandbox's /etc");
	*out_name = TAKE_PTR(name);
	return CB_OK;
}
