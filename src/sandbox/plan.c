/*
 * plan.c: a policy becomes a plan. Pure but for plan_host_look: the same policy on the same host gives the same plan, so that --dry-run
 * shows what a run does.
 *
 * What a user may cover with a bind is decided here once: the root, the system's names themselves, and whatever lies in /proc, /dev,
 * /sys, /boot and the links into /usr is the sandbox's. Places within /usr and /etc may be covered when they are there; within /run
 * and /var, and in the box, they are made.
 */
#include "sandbox/plan.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "sandbox/plan_parts.h"

static const char *const system_names[] = {"usr", "bin",  "sbin", "lib", "lib32", "lib64", "libx32",
                                           "etc", "proc", "dev",  "sys", "run",   "var",   "boot"};

bool plan_is_system_name(const char *name, size_t size)
{
	for (size_t i = 0; i < ARRAY_LEN(system_names); i++)
		if (strlen(system_names[i]) == size && memcmp(system_names[i], name, size) == 0) return true;
	return false;
}

const char *plan_system_name(size_t index)
{
	return index < ARRAY_LEN(system_names) ? system_names[index] : NULL;
}

void plan_done(plan *p)
{
	free(p->ops);
	buf_done(&p->strings);
	*p = (plan){0};
}

/* ---- the host ---- */

static cb_code look_at(int dir, const char *name, plan_host *out, cb_error *err)
{
	char target[64];
	struct stat st;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return errno == ENOENT ? CB_OK : cb_err_errno(err, errno, "looking at '%s'", name);
	ssize_t size = S_ISLNK(st.st_mode) ? readlinkat(dir, name, target, sizeof(target) - 1) : 0;
	const char *inner = target;
	if (size > 0) {
		target[size] = 0;
		while (*inner == '/') inner++;
	}
	/* A link that leads elsewhere than into usr is followed when it is bound. */
	if (size > 0 && strncmp(inner, "usr/", 4) == 0 && strlen(inner) < sizeof(out->links[0][1]) && !strstr(inner, "..")) {
		(void)snprintf(out->links[out->link_count][0], sizeof(out->links[0][0]), "%s", name);
		(void)snprintf(out->links[out->link_count++][1], sizeof(out->links[0][1]), "%.31s", inner);
	} else {
		(void)snprintf(out->folders[out->folder_count++], sizeof(out->folders[0]), "%s", name);
	}
	return CB_OK;
}

cb_code plan_host_look(const char *root, plan_host *out, cb_error *err)
{
	static const char *const names[] = {"bin", "sbin", "lib", "lib32", "lib64", "libx32"};
	plan_host host = {0};
	AUTO_FD int dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0 && (errno == ENOENT || errno == ENOTDIR))
		return cb_err_set(err, errno == ENOENT ? CB_NOTFOUND : CB_NOTDIR, "'%s' is not a folder with a system in it", root);
	if (dir < 0) return cb_err_errno(err, errno, "opening '%s'", root);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) CB_TRY(look_at(dir, names[i], &host, err));
	struct stat st;
	if (host.folder_count == 0 && fstatat(dir, "usr", &st, 0) != 0)
		return cb_err_set(err, CB_NOTFOUND, "'%s' has neither usr nor bin: it is not the root of a system", root);
	host.merged_usr = host.folder_count == 0;
	*out = host;
	return CB_OK;
}

/* ---- strings and ops ---- */

cb_code plan_reserve(plan *p, cb_error *err)
{
	p->strings = BUF_INIT(LIMIT_PLAN_TEXT_BYTES);
	/* All at once: pointers into it must stay. */
	CB_TRY(buf_reserve(&p->strings, LIMIT_PLAN_TEXT_BYTES, err));
	p->ops = mem_alloc(LIMIT_PLAN_OPS * sizeof(*p->ops));
	return p->ops ? CB_OK : cb_err_nomem(err);
}

cb_code plan_keep(plan *p, span a, span b, const char **out, cb_error *err)
{
	buf *s = &p->strings;
	if (a.size + b.size + 1 > s->max_size - s->size)
		return cb_err_set(err, CB_LIMIT, "the paths of a sandbox are longer than %d bytes together: use fewer binds",
		                  LIMIT_PLAN_TEXT_BYTES);
	size_t start = s->size;
	CB_TRY(buf_append(s, a.bytes, a.size, err));
	CB_TRY(buf_append(s, b.bytes, b.size, err));
	CB_TRY(buf_append_byte(s, 0, err));
	*out = (const char *)s->bytes + start;
	return CB_OK;
}

static cb_code keep(plan *p, const char *text, const char **out, cb_error *err)
{
	return plan_keep(p, span_str(text), span_make(NULL, 0), out, err);
}

cb_code plan_add(plan *p, const plan_op *op, cb_error *err)
{
	if (p->op_count == LIMIT_PLAN_OPS)
		return cb_err_set(err, CB_LIMIT, "more than %d mounts in a sandbox: use fewer binds", LIMIT_PLAN_OPS);
	p->ops[p->op_count++] = *op;
	return CB_OK;
}

/* The sandbox's own: constant strings live as long as the program, but a plan that was read has them all in strings: so here too. */
static cb_code add(plan *p, plan_op_type type, const char *from, const char *to, plan_op more, cb_error *err)
{
	more.type = type;
	more.fd_index = -1;
	CB_TRY(keep(p, from, &more.from, err));
	CB_TRY(keep(p, to, &more.to, err));
	return plan_add(p, &more, err);
}

/* ---- paths ---- */

bool plan_path_is_clean(const char *path)
{
	size_t size = strlen(path);
	if (path[0] != '/' || size >= LIMIT_PATH_BYTES) return false;
	if (size == 1) return true;
	for (const char *at = path; *at;) {
		const char *name = at + 1;
		size_t n = strcspn(name, "/");
		if (n == 0 || n > LIMIT_NAME_BYTES || (n == 1 && name[0] == '.') || (n == 2 && name[0] == '.' && name[1] == '.'))
			return false;
		at = name + n;
	}
	return true;
}

/* Doubled and trailing slashes go; "." and ".." are refused, because what they mean depends on links in the box. */
static cb_code clean(plan *p, const char *path, const char **out, cb_error *err)
{
	char text[LIMIT_PATH_BYTES];
	size_t size = 0;
	if (!path || path[0] != '/') return cb_err_set(err, CB_INVALID, "'%s' is not an absolute path", path ? path : "");
	if (strlen(path) >= sizeof(text))
		return cb_err_set(err, CB_NAMETOOLONG, "a path is longer than %zu bytes", sizeof(text) - 1);
	for (const char *at = path; *at; at++)
		if (*at != '/' || (at[1] != '/' && at[1] != 0)) text[size++] = *at;
	if (size == 0) text[size++] = '/';
	text[size] = 0;
	if (!plan_path_is_clean(text))
		return cb_err_set(err, CB_INVALID, "'%s' has a part that is '.', '..' or too long: write the path out", path);
	return keep(p, text, out, err);
}

bool plan_path_within(const char *path, const char *folder)
{
	size_t size = strlen(folder);
	if (size == 1) return true;
	return strncmp(path, folder, size) == 0 && (path[size] == 0 || path[size] == '/');
}

/* Which name at the root it lies in. */
static span first_name(const char *path)
{
	return span_make(path + 1, strcspn(path + 1, "/"));
}

static cb_code check_place(const char *to, cb_error *err)
{
	static const char *const open_names[] = {"usr", "etc", "run", "var"};
	span name = first_name(to);
	if (name.size == 0) return cb_err_set(err, CB_INVALID, "'/' is the box: bind to a folder in it");
	if (!plan_is_system_name((const char *)name.bytes, name.size)) return CB_OK;
	for (size_t i = 0; i < ARRAY_LEN(open_names); i++)
		if (span_equal(name, span_str(open_names[i])) && to[1 + name.size] == '/') return CB_OK;
	return cb_err_set(err, CB_INVALID, "'%s' belongs to the sandbox: bind to another place", to);
}

/* A folder before what is in it: '/' sorts before every other byte. */
static int path_compare(const char *a, const char *b)
{
	while (*a && *a == *b) a++, b++;
	int x = *a == '/' ? 1 : *a ? 1 + (unsigned char)*a : 0, y = *b == '/' ? 1 : *b ? 1 + (unsigned char)*b : 0;
	return x - y;
}

/* ---- parts of a plan ---- */

static uint64_t tmpfs_bytes(const sandbox_policy *policy, uint64_t most)
{
	/* What lies in a tmpfs is memory that no process shows: it must not undo the bound of memory. */
	uint64_t part = policy->memory_bytes / 4;
	return part && part < most ? part : most;
}

static cb_code add_system(plan *p, const sandbox_policy *policy, const plan_host *host, cb_error *err)
{
	const char *root = policy->root && strcmp(policy->root, "/") != 0 ? policy->root : "";
	char from[LIMIT_PATH_BYTES + 64], to[64];
	plan_op system = {.flags = PLAN_READ_ONLY | PLAN_NOSUID | PLAN_NODEV};
	if (policy->walls_down & WALL_READ_ONLY) system.flags &= ~(uint32_t)PLAN_READ_ONLY;
	plan_op usr = system;
	if (*root) usr.flags |= PLAN_OPTIONAL; /* plan_host_look saw to it that there is a system somewhere */
	(void)snprintf(from, sizeof(from), "%s/usr", root);
	CB_TRY(add(p, PLAN_BIND, from, "/usr", usr, err));
	for (size_t i = 0; i < host->link_count; i++) {
		(void)snprintf(to, sizeof(to), "/%s", host->links[i][0]);
		CB_TRY(add(p, PLAN_SYMLINK, host->links[i][1], to, (plan_op){0}, err));
	}
	for (size_t i = 0; i < host->folder_count; i++) {
		(void)snprintf(from, sizeof(from), "%s/%s", root, host->folders[i]);
		(void)snprintf(to, sizeof(to), "/%s", host->folders[i]);
		CB_TRY(add(p, PLAN_BIND, from, to, system, err));
	}
	if (policy->walls_down & WALL_ETC) {
		(void)snprintf(from, sizeof(from), "%s/etc", root);
		return add(p, PLAN_BIND, from, "/etc", system, err);
	}
	if (policy->net == SANDBOX_NET_HOST) system.flags |= PLAN_DNS;
	return add(p, PLAN_ETC, *root ? root : "/", "/etc", system, err);
}

static cb_code add_own(plan *p, const sandbox_policy *policy, cb_error *err)
{
	static const struct {
		const char *to;
		uint32_t mode;
	} folders[] = {{"/run/lock", 01777}, {"/run/user", 0755},  {"/var/tmp", 01777}, {"/var/cache", 0755}, {"/var/lib", 0755},
	               {"/var/log", 0755},   {"/var/spool", 0755}, {"/var/mail", 0755}, {"/var/opt", 0755},   {"/var/local", 0755}};
	uint32_t flags = PLAN_NOSUID | PLAN_NODEV;
	uint64_t large = tmpfs_bytes(policy, LIMIT_SANDBOX_TMPFS_BYTES), small = tmpfs_bytes(policy, LIMIT_SANDBOX_RUN_BYTES);
	CB_TRY(add(p, PLAN_PROC, "", "/proc", (plan_op){.flags = flags | PLAN_NOEXEC}, err));
	CB_TRY(add(p, PLAN_DEV, "", "/dev", (plan_op){.flags = PLAN_NOSUID | PLAN_NOEXEC, .mode = 0755, .size_bytes = large}, err));
	CB_TRY(add(p, PLAN_TMPFS, "", "/run", (plan_op){.flags = flags, .mode = 0755, .size_bytes = small}, err));
	CB_TRY(add(p, PLAN_TMPFS, "", "/var", (plan_op){.flags = flags, .mode = 0755, .size_bytes = large}, err));
	for (size_t i = 0; i < ARRAY_LEN(folders); i++)
		CB_TRY(add(p, PLAN_DIR, "", folders[i].to, (plan_op){.mode = folders[i].mode}, err));
	CB_TRY(add(p, PLAN_SYMLINK, "/run", "/var/run", (plan_op){0}, err));
	CB_TRY(add(p, PLAN_SYMLINK, "/run/lock", "/var/lock", (plan_op){0}, err));
	return add(p, PLAN_CACHE, "", "/var/cache/agent", (plan_op){.flags = flags}, err);
}

/* Only one part of the box: what every program needs to write to is then the sandbox's, and goes with it. */
static cb_code add_subtree(plan *p, const sandbox_policy *policy, cb_error *err)
{
	static const struct {
		const char *to;
		uint32_t mode;
	} places[] = {{"/tmp", 01777}, {"/home/agent", 0755}};
	const char *path = NULL;
	CB_TRY(clean(p, policy->path, &path, err));
	span name = first_name(path);
	if (name.size == 0) return CB_OK;
	if (plan_is_system_name((const char *)name.bytes, name.size))
		return cb_err_set(err, CB_INVALID, "'%s' belongs to the sandbox: it is no part of a box", path);
	uint32_t flags = PLAN_NOSUID | PLAN_NODEV;
	uint64_t size = tmpfs_bytes(policy, LIMIT_SANDBOX_TMPFS_BYTES);
	plan_op root = {.flags = flags, .mode = 0755, .size_bytes = tmpfs_bytes(policy, LIMIT_SANDBOX_RUN_BYTES)};
	CB_TRY(add(p, PLAN_SUBTREE, "", path, root, err));
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		if (plan_path_within(places[i].to, path)) continue;
		bool above = plan_path_within(path, places[i].to);
		plan_op op = {.flags = above ? 0 : flags, .mode = places[i].mode, .size_bytes = above ? 0 : size};
		CB_TRY(add(p, above ? PLAN_DIR : PLAN_TMPFS, "", places[i].to, op, err));
	}
	return CB_OK;
}

static cb_code add_bind(plan *p, size_t first, const sandbox_policy *policy, const sandbox_bind *bind, cb_error *err)
{
	plan_op op = {.type = PLAN_BIND, .flags = PLAN_NOSUID | PLAN_NODEV, .fd_index = bind->fd_index};
	if (!bind->writable && !(policy->walls_down & WALL_READ_ONLY)) op.flags |= PLAN_READ_ONLY;
	if (bind->is_file) op.flags |= PLAN_FILE;
	if (!bind->from || bind->from[0] != '/')
		return cb_err_set(err, CB_INVALID, "'%s' is not an absolute path of the host", bind->from ? bind->from : "");
	if (bind->fd_index < -1 || bind->fd_index >= PLAN_FDS)
		return cb_err_set(err, CB_LIMIT, "more than %d binds with a mount of their own", PLAN_FDS);
	CB_TRY(clean(p, bind->to ? bind->to : bind->from, &op.to, err));
	CB_TRY(check_place(op.to, err));
	CB_TRY(keep(p, bind->from, &op.from, err));
	CB_TRY(plan_add(p, &op, err));
	/* Into its place: parents first. */
	size_t at = p->op_count - 1;
	for (; at > first; at--) {
		int order = path_compare(p->ops[at - 1].to, op.to);
		if (order == 0) return cb_err_set(err, CB_INVALID, "two binds to '%s'", op.to);
		if (order < 0) break;
		p->ops[at] = p->ops[at - 1];
	}
	p->ops[at] = op;
	return CB_OK;
}

static uint64_t namespaces(const sandbox_policy *policy)
{
	uint64_t all = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUTS | CLONE_NEWCGROUP;
	if (policy->net == SANDBOX_NET_NONE && !(policy->walls_down & WALL_NET)) all |= CLONE_NEWNET;
	if (!(policy->walls_down & WALL_IPC)) all |= CLONE_NEWIPC;
	return all;
}

static cb_code fill(plan *p, const sandbox_policy *policy, const plan_host *host, cb_error *err)
{
	CB_TRY(plan_reserve(p, err));
	p->weak = policy->weak;
	p->weak_net = policy->weak && policy->net == SANDBOX_NET_HOST;
	p->namespaces = policy->weak ? 0 : namespaces(policy);
	p->uid = policy->uid;
	p->gid = policy->gid;
	p->walls_down = policy->walls_down;
	p->limits = (plan_limits){.memory_bytes = policy->memory_bytes,
	                          .disk_bytes = policy->disk_bytes,
	                          .files = policy->files,
	                          .cpus_milli = policy->cpus_milli,
	                          .pids = policy->pids ? policy->pids : LIMIT_EXEC_PIDS,
	                          .open_files = LIMIT_EXEC_OPEN_FILES,
	                          .file_bytes = policy->disk_bytes};
	CB_TRY(keep(p, "cowbox", &p->hostname, err));
	if (policy->weak) {
		if (policy->bind_count || policy->root || policy->path)
			return cb_err_set(err, CB_UNSUPPORTED,
			                  "binds, another root and a part of the box need namespaces: not with weak");
		return CB_OK;
	}
	if (policy->path) CB_TRY(add_subtree(p, policy, err));
	CB_TRY(add_system(p, policy, host, err));
	CB_TRY(add_own(p, policy, err));
	size_t first = p->op_count;
	for (size_t i = 0; i < policy->bind_count; i++) CB_TRY(add_bind(p, first, policy, &policy->binds[i], err));
	return CB_OK;
}

static cb_code check_policy(const sandbox_policy *policy, cb_error *err)
{
#ifndef COWBOX_TEST_WALLS
	if (policy->walls_down) return cb_err_set(err, CB_INVALID, "walls can be taken down in test builds only");
#endif
	if (policy->net != SANDBOX_NET_NONE && policy->net != SANDBOX_NET_HOST)
		return cb_err_set(err, CB_INVALID, "no such network");
	/* 0 would look like root to programs, and 65534 is what the host's other users look like. */
	if (policy->uid == 0 || policy->gid == 0 || policy->uid >= 65534 || policy->gid >= 65534)
		return cb_err_set(err, CB_INVALID, "the user in a sandbox is one of 1 to 65533");
	if (policy->root && (policy->root[0] != '/' || strlen(policy->root) >= LIMIT_PATH_BYTES))
		return cb_err_set(err, CB_INVALID, "'%.100s' is not an absolute path of the host", policy->root);
	return CB_OK;
}

cb_code plan_build(const sandbox_policy *policy, const plan_host *host, plan *out, cb_error *err)
{
	plan p = {0};
	CB_TRY(check_policy(policy, err));
	cb_code code = fill(&p, policy, host, err);
	if (code == CB_OK) *out = p;
	else plan_done(&p);
	return code;
}
