/*
 * apply_alias.c: files of the folder that are held under another name.
 *
 * People link hooks and settings to files they keep under version control (.git/hooks/pre-commit -> ../../scripts/pre-commit). A box that
 * changes such a script changes the hook. So the places where that is done are looked at, on the host, and what their links lead to
 * inside the folder is judged by the link's name too.
 */
#include "transfer/apply.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

enum { ALIASES_MAX = 1024 };

/* Folders whose links are looked at, relative to the root; "" is the root itself. */
static const char *const places[] = {
	"",        ".git",   ".git/hooks",    ".git/info",     ".husky",  ".githooks",
	".vscode", ".idea",  ".claude",       ".claude/hooks", ".cursor", ".codex",
	".gemini", ".cargo", ".devcontainer", ".config",       ".local",  ".local/bin",
};

/* The target of a link in `folder`, as a path relative to the root. false: it leads out of it, or to the root itself. */
static bool resolve_text(const char *folder, const char *target, size_t target_size, char out[LIMIT_PATH_BYTES])
{
	size_t n = strlen(folder);
	if (target_size == 0 || target[0] == '/' || n + target_size + 2 > LIMIT_PATH_BYTES) return false;
	memcpy(out, folder, n);
	for (const char *p = target, *end = target + target_size; p < end;) {
		const char *slash = memchr(p, '/', (size_t)(end - p));
		size_t size = slash ? (size_t)(slash - p) : (size_t)(end - p);
		if (size == 2 && memcmp(p, "..", 2) == 0) {
			if (n == 0) return false;
			while (n && out[n - 1] != '/') n--;
			if (n) n--;
		} else if (size > 1 || (size == 1 && *p != '.')) {
			if (n) out[n++] = '/';
			memcpy(out + n, p, size);
			n += size;
		}
		p += size + 1;
	}
	out[n] = 0;
	return n > 0;
}

static cb_code alias_add(applying *a, const char *folder, const char *name, span target, cb_error *err)
{
	char to[LIMIT_PATH_BYTES];
	if (!resolve_text(folder, (const char *)target.bytes, target.size, to)) return CB_OK;
	AUTO_BUF buf text = BUF_INIT(4 * LIMIT_PATH_BYTES);
	CB_TRY(buf_append(&text, to, strlen(to) + 1, err));
	CB_TRY(buf_printf(&text, err, "%s%s%s", folder, *folder ? "/" : "", name));
	CB_TRY(buf_append_byte(&text, 0, err));
	return buf_append(&a->aliases, text.bytes, text.size, err);
}

/* A folder that is no folder, or cannot be read, has no links that git or an editor would find in it either. */
static cb_code look_into(applying *a, const char *folder, unsigned *left, cb_error *err)
{
	int fd = -1, dir = -1;
	const char *name = NULL;
	if (!*folder) fd = openat(a->root.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	else if (host_parent_open(a->root.fd, folder, HOST_XDEV, &dir, &name, NULL) == CB_OK)
		(void)host_dir_open(dir, name, HOST_XDEV, &fd, NULL, NULL);
	if (dir >= 0) (void)close(dir);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	if (!d) {
		if (fd >= 0) (void)close(fd);
		return CB_OK;
	}
	cb_code code = CB_OK;
	for (struct dirent *e; code == CB_OK && *left && (e = readdir(d)) != NULL;) {
		AUTO_BUF buf target = BUF_INIT(LIMIT_SYMLINK_TARGET_BYTES + 1);
		if (e->d_type != DT_LNK && e->d_type != DT_UNKNOWN) continue;
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
		if (host_link_read(fd, e->d_name, &target, NULL) != CB_OK) continue;
		code = alias_add(a, folder, e->d_name, buf_span(&target), err);
		--*left;
	}
	(void)closedir(d);
	return code;
}

cb_code apply_aliases_load(applying *a, cb_error *err)
{
	unsigned left = ALIASES_MAX;
	for (size_t i = 0; i < ARRAY_LEN(places); i++) CB_TRY(look_into(a, places[i], &left, err));
	return CB_OK;
}

const char *apply_alias_reason(const applying *a, const char *path, bool is_folder)
{
	for (size_t at = 0; at < a->aliases.size;) {
		const char *target = (const char *)a->aliases.bytes + at, *link = target + strlen(target) + 1;
		at += strlen(target) + 1 + strlen(link) + 1;
		char other[2 * LIMIT_PATH_BYTES];
		if (!apply_within(path, target) || strlen(path) >= LIMIT_PATH_BYTES) continue;
		(void)snprintf(other, sizeof(other), "%s%s", link, path + strlen(target));
		hold_query q = {other, is_folder, a->hooks_path};
		const char *why = apply_hold_reason(&q);
		if (why) return why;
	}
	return NULL;
}
