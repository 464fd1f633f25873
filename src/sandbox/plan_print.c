/* plan_print.c: a plan for people and for programs. Paths come from users and hosts: what would steer a terminal is shown as \xNN. */
#include <sched.h>
#include <stdio.h>

#include "base/json.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "sandbox/plan_parts.h"

static const struct {
	uint64_t flag;
	const char *name;
} namespace_names[] = {{CLONE_NEWUSER, "user"}, {CLONE_NEWNS, "mount"}, {CLONE_NEWPID, "pid"},      {CLONE_NEWIPC, "ipc"},
                       {CLONE_NEWUTS, "uts"},   {CLONE_NEWNET, "net"},  {CLONE_NEWCGROUP, "cgroup"}},
  flag_names[] = {{PLAN_READ_ONLY, "read-only"}, {PLAN_NOSUID, "nosuid"}, {PLAN_NODEV, "nodev"},         {PLAN_NOEXEC, "noexec"},
                  {PLAN_OPTIONAL, "optional"},   {PLAN_FILE, "file"},     {PLAN_DNS, "the host's names"}};

static const char *type_name(plan_op_type type)
{
	switch (type) {
	case PLAN_DIR:
		return "folder";
	case PLAN_SYMLINK:
		return "link";
	case PLAN_BIND:
		return "bind";
	case PLAN_TMPFS:
		return "tmpfs";
	case PLAN_PROC:
		return "proc";
	case PLAN_DEV:
		return "dev";
	case PLAN_ETC:
		return "etc";
	case PLAN_CACHE:
		return "cache";
	case PLAN_SUBTREE:
		return "subtree";
	}
	return "?";
}

/* ---- text ---- */

static cb_code put_path(buf *out, const char *path, cb_error *err)
{
	for (span rest = span_str(path); rest.size;) {
		uint32_t c;
		size_t n = utf8_take(rest, &c);
		bool shown = c != UTF8_BAD && !utf8_is_control(c) && c != '\\';
		if (shown) CB_TRY(buf_append(out, rest.bytes, n, err));
		for (size_t i = 0; !shown && i < n; i++) CB_TRY(buf_printf(out, err, "\\x%02x", rest.bytes[i]));
		rest = span_make(rest.bytes + n, rest.size - n);
	}
	return CB_OK;
}

/* What the folder itself may hold. The size of a /dev is that of the /dev/shm in it. */
static uint64_t own_bytes(const plan_op *op)
{
	return op->type == PLAN_DEV ? LIMIT_SANDBOX_DEV_BYTES : op->size_bytes;
}

static cb_code text_op(const plan_op *op, buf *out, cb_error *err)
{
	unsigned long long own_kib = own_bytes(op) >> 10, shm_kib = op->size_bytes >> 10;
	CB_TRY(buf_printf(out, err, "%-11s ", type_name(op->type)));
	CB_TRY(put_path(out, op->to, err));
	if (*op->from) {
		CB_TRY(buf_append_str(out, op->type == PLAN_SYMLINK ? " -> " : " from ", err));
		CB_TRY(put_path(out, op->from, err));
	}
	for (size_t i = 0; i < ARRAY_LEN(flag_names); i++)
		if (op->flags & flag_names[i].flag) CB_TRY(buf_printf(out, err, ", %s", flag_names[i].name));
	if (op->mode) CB_TRY(buf_printf(out, err, ", mode %04o", op->mode));
	if (own_kib) CB_TRY(buf_printf(out, err, ", at most %llu KiB", own_kib));
	if (op->type == PLAN_DEV) CB_TRY(buf_printf(out, err, ", its shm at most %llu KiB", shm_kib));
	if (op->fd_index >= 0) CB_TRY(buf_printf(out, err, ", mount %d", op->fd_index));
	return buf_append_byte(out, '\n', err);
}

static cb_code text_limits(const plan_limits *l, buf *out, cb_error *err)
{
	CB_TRY(buf_printf(out, err, "limits      %u processes, %llu open files", l->pids, (unsigned long long)l->open_files));
	if (l->memory_bytes) CB_TRY(buf_printf(out, err, ", %llu KiB of memory", (unsigned long long)l->memory_bytes >> 10));
	if (l->cpus_milli) CB_TRY(buf_printf(out, err, ", %u.%03u processors", l->cpus_milli / 1000, l->cpus_milli % 1000));
	if (l->disk_bytes) CB_TRY(buf_printf(out, err, ", %llu KiB written", (unsigned long long)l->disk_bytes >> 10));
	if (l->file_bytes) CB_TRY(buf_printf(out, err, ", %llu KiB a file", (unsigned long long)l->file_bytes >> 10));
	if (l->files) CB_TRY(buf_printf(out, err, ", %llu files made", (unsigned long long)l->files));
	return buf_append_byte(out, '\n', err);
}

static cb_code print_text(const plan *p, buf *out, cb_error *err)
{
	CB_TRY(buf_append_str(out, "namespaces ", err));
	for (size_t i = 0; i < ARRAY_LEN(namespace_names); i++)
		if (p->namespaces & namespace_names[i].flag) CB_TRY(buf_printf(out, err, " %s", namespace_names[i].name));
	CB_TRY(buf_append_str(out,
	                      p->namespaces ? "\n"
	                      : p->weak_net ? " none: Landlock and seccomp only, internet sockets left\n"
	                                    : " none: Landlock and seccomp only, no sockets\n",
	                      err));
	CB_TRY(buf_printf(out, err, "user        %u:%u, no capabilities, no new privileges, no user namespaces\n", p->uid, p->gid));
	CB_TRY(buf_append_str(out, "host name   ", err));
	CB_TRY(put_path(out, p->hostname, err));
	CB_TRY(buf_append_str(out, "\nsystem calls by the table\n", err));
	CB_TRY(text_limits(&p->limits, out, err));
	if (p->walls_down) CB_TRY(buf_printf(out, err, "walls down  0x%llx\n", (unsigned long long)p->walls_down));
	for (size_t i = 0; i < p->op_count; i++) CB_TRY(text_op(&p->ops[i], out, err));
	return CB_OK;
}

/* ---- JSON ---- */

static void json_op(json_writer *w, const plan_op *op)
{
	json_object_begin(w);
	json_member_str(w, "op", type_name(op->type));
	json_member_str(w, "to", op->to);
	if (*op->from) json_member_str(w, op->type == PLAN_SYMLINK ? "target" : "from", op->from);
	json_member_bool(w, "read_only", op->flags & PLAN_READ_ONLY);
	json_member_array(w, "flags");
	for (size_t i = 0; i < ARRAY_LEN(flag_names); i++)
		if (op->flags & flag_names[i].flag) json_str(w, flag_names[i].name);
	json_array_end(w);
	char mode[8];
	(void)snprintf(mode, sizeof(mode), "%04o", (unsigned)op->mode & 07777);
	if (op->mode) json_member_str(w, "mode", mode);
	if (own_bytes(op)) json_member_uint(w, "size_bytes", own_bytes(op));
	if (op->type == PLAN_DEV) json_member_uint(w, "shm_bytes", op->size_bytes);
	json_object_end(w);
}

static void json_limits_of(json_writer *w, const plan_limits *l)
{
	json_member_object(w, "limits");
	json_member_uint(w, "pids", l->pids);
	json_member_uint(w, "open_files", l->open_files);
	json_member_uint(w, "memory_bytes", l->memory_bytes);
	json_member_uint(w, "cpus_milli", l->cpus_milli);
	json_member_uint(w, "disk_bytes", l->disk_bytes);
	json_member_uint(w, "file_bytes", l->file_bytes);
	json_member_uint(w, "files", l->files);
	json_object_end(w);
}

static cb_code print_json(const plan *p, buf *out, cb_error *err)
{
	json_writer w;
	json_writer_init(&w, out, JSON_PRETTY | JSON_NEWLINE);
	json_object_begin(&w);
	json_member_bool(&w, "weak", p->weak);
	if (p->weak) json_member_bool(&w, "weak_net", p->weak_net);
	json_member_array(&w, "namespaces");
	for (size_t i = 0; i < ARRAY_LEN(namespace_names); i++)
		if (p->namespaces & namespace_names[i].flag) json_str(&w, namespace_names[i].name);
	json_array_end(&w);
	json_member_uint(&w, "uid", p->uid);
	json_member_uint(&w, "gid", p->gid);
	json_member_str(&w, "hostname", p->hostname);
	json_limits_of(&w, &p->limits);
	if (p->walls_down) json_member_uint(&w, "walls_down", p->walls_down);
	json_member_array(&w, "ops");
	for (size_t i = 0; i < p->op_count; i++) json_op(&w, &p->ops[i]);
	json_array_end(&w);
	json_object_end(&w);
	return json_writer_end(&w, err);
}

cb_code plan_print(const plan *p, bool json, buf *out, cb_error *err)
{
	return json ? print_json(p, out, err) : print_text(p, out, err);
}
