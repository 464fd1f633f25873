/*
 * apply_hold.c: what the host runs by itself, and so is not written to it unless it was named.
 *
 * Adversary: the agent in the box, or whoever steers it. It may choose any name, so names are compared as the most generous filesystem
 * would: without case, without code points that HFS+ ignores, without dots and spaces at the end, with the short names of NTFS. Prose that
 * agents read (CLAUDE.md, AGENTS.md, .cursorrules) and what runs only when somebody runs it (Makefile, package.json, .gitattributes,
 * workflows of a CI) is not held: it is in every list and difference.
 */
#include "transfer/apply.h"

#include <ctype.h>

typedef enum hold_where { ANYWHERE, AT_TOP } hold_where;

typedef struct hold_rule {
	const char *path; /* lower case; "*" is one component; "name*" at the end of a component: any that begins so */
	hold_where where;
	const char *reason;
} hold_rule;

static const char git_runs[] = "git runs it or runs what it names";
static const char git_redirect[] = "it tells git where its repository is";
static const char editor[] = "editors run it or run what it names";
static const char agent[] = "agents run it or run what it names";
static const char shell[] = "a shell runs it when it starts or enters the folder";
static const char commit_hook[] = "it runs at every commit";
static const char package_tool[] = "package tools run what it names";
static const char container[] = "editors build and run it";
static const char login[] = "it runs at login";
static const char keys[] = "it decides who may log in";

/* A rule holds its path and everything below it. A folder that only leads to one (".git", ".config") is not held itself, unless it is to
 * become something else than a folder. */
static const hold_rule rules[] = {
	{".git/hooks", ANYWHERE, git_runs},
	{".git/config*", ANYWHERE, git_runs},
	{".git/commondir", ANYWHERE, git_redirect},
	{".git/gitdir", ANYWHERE, git_redirect},
	{".git/info/attributes", ANYWHERE, git_runs},
	{".git/rebase-merge", ANYWHERE, git_runs},
	{".git/rebase-apply", ANYWHERE, git_runs},
	{".git/sequencer", ANYWHERE, git_runs},
	{".husky", ANYWHERE, commit_hook},
	{".githooks", ANYWHERE, commit_hook},
	{".pre-commit-config.yaml", ANYWHERE, commit_hook},
	{".pre-commit-config.yml", ANYWHERE, commit_hook},
	{"lefthook*", ANYWHERE, commit_hook},
	{".lefthook*", ANYWHERE, commit_hook},
	{".overcommit.yml", ANYWHERE, commit_hook},
	{".envrc", ANYWHERE, shell},
	{".direnv", ANYWHERE, shell},
	{".autoenv*", ANYWHERE, shell},
	{".mise*", ANYWHERE, shell},
	{"mise.toml", ANYWHERE, shell},
	{"mise.local.toml", ANYWHERE, shell},
	{".vscode", ANYWHERE, editor},
	{".idea", ANYWHERE, editor},
	{".zed", ANYWHERE, editor},
	{".fleet", ANYWHERE, editor},
	{".helix", ANYWHERE, editor},
	{".nova", ANYWHERE, editor},
	{".exrc", ANYWHERE, editor},
	{".vimrc", ANYWHERE, editor},
	{".lvimrc", ANYWHERE, editor},
	{".nvimrc", ANYWHERE, editor},
	{".nvim.lua", ANYWHERE, editor},
	{".dir-locals*", ANYWHERE, editor},
	{".gdbinit", ANYWHERE, editor},
	{".lldbinit", ANYWHERE, editor},
	{".devcontainer", ANYWHERE, container},
	{".devcontainer.json", ANYWHERE, container},
	{".claude", ANYWHERE, agent},
	{".claude.json", ANYWHERE, agent},
	{".mcp.json", ANYWHERE, agent},
	{".cursor", ANYWHERE, agent},
	{".codex", ANYWHERE, agent},
	{".gemini", ANYWHERE, agent},
	{".qwen", ANYWHERE, agent},
	{".windsurf", ANYWHERE, agent},
	{".continue", ANYWHERE, agent},
	{".cline", ANYWHERE, agent},
	{".clinerules", ANYWHERE, agent},
	{".roo", ANYWHERE, agent},
	{".kiro", ANYWHERE, agent},
	{".junie", ANYWHERE, agent},
	{".goose", ANYWHERE, agent},
	{".amazonq", ANYWHERE, agent},
	{".opencode", ANYWHERE, agent},
	{"opencode.json*", ANYWHERE, agent},
	{".aider.conf*", ANYWHERE, agent},
	{".crush.json", ANYWHERE, agent},
	{"crush.json", ANYWHERE, agent},
	{".npmrc", ANYWHERE, package_tool},
	{".yarnrc*", ANYWHERE, package_tool},
	{".yarn/plugins", ANYWHERE, package_tool},
	{".yarn/releases", ANYWHERE, package_tool},
	{".pnpmfile.cjs", ANYWHERE, package_tool},
	{".pnpmfile.mjs", ANYWHERE, package_tool},
	{"bunfig.toml", ANYWHERE, package_tool},
	{".cargo/config*", ANYWHERE, package_tool},
	{".bundle/config", ANYWHERE, package_tool},
	{".mvn", ANYWHERE, package_tool},
	{".ssh", ANYWHERE, keys},
	{".gnupg", AT_TOP, keys},
	{".bash*", AT_TOP, shell},
	{".profile", AT_TOP, shell},
	{".zsh*", AT_TOP, shell},
	{".zprofile", AT_TOP, shell},
	{".zlogin", AT_TOP, shell},
	{".zlogout", AT_TOP, shell},
	{".kshrc", AT_TOP, shell},
	{".mkshrc", AT_TOP, shell},
	{".cshrc", AT_TOP, shell},
	{".tcshrc", AT_TOP, shell},
	{".login", AT_TOP, shell},
	{".logout", AT_TOP, shell},
	{".inputrc", AT_TOP, shell},
	{".tmux.conf", AT_TOP, shell},
	{".screenrc", AT_TOP, shell},
	{".gitconfig", AT_TOP, git_runs},
	{".vim", AT_TOP, editor},
	{".emacs*", AT_TOP, editor},
	{".xprofile", AT_TOP, login},
	{".xinitrc", AT_TOP, login},
	{".xsession*", AT_TOP, login},
	{".pam_environment", AT_TOP, login},
	{".config/systemd", AT_TOP, login},
	{".config/autostart", AT_TOP, login},
	{".config/environment.d", AT_TOP, login},
	{".config/fish", AT_TOP, shell},
	{".config/nushell", AT_TOP, shell},
	{".config/zsh", AT_TOP, shell},
	{".config/tmux", AT_TOP, shell},
	{".config/mise", AT_TOP, shell},
	{".config/direnv", AT_TOP, shell},
	{".config/git", AT_TOP, git_runs},
	{".config/nvim", AT_TOP, editor},
	{".config/vim", AT_TOP, editor},
	{".config/emacs", AT_TOP, editor},
	{".config/helix", AT_TOP, editor},
	{".config/zed", AT_TOP, editor},
	{".config/code/user", AT_TOP, editor},
	{".local/bin", AT_TOP, shell},
	{".local/share/systemd", AT_TOP, login},
	{".local/share/applications", AT_TOP, login},
	{"library/launchagents", AT_TOP, login},
};

/* ---- names as the most generous filesystem compares them ---- */

/* Code points that HFS+ passes over when it compares names. Gives the bytes to skip; 0: none. */
static size_t ignorable(const unsigned char *p)
{
	if (p[0] == 0xe2 && p[1] == 0x80) {
		bool mark = (p[2] >= 0x8c && p[2] <= 0x8f) || (p[2] >= 0xaa && p[2] <= 0xae);
		return mark ? 3 : 0;
	}
	if (p[0] == 0xe2 && p[1] == 0x81) return p[2] >= 0xaa && p[2] <= 0xaf ? 3 : 0;
	return p[0] == 0xef && p[1] == 0xbb && p[2] == 0xbf ? 3 : 0;
}

/* One component, folded into out (as long as it). What is left may be empty. */
static size_t fold_component(const char *name, size_t size, char *out)
{
	/* Copied with zeros behind it, so that looking ahead for a code point stays inside. */
	unsigned char in[LIMIT_NAME_BYTES + 4] = {0};
	if (size > LIMIT_NAME_BYTES) size = LIMIT_NAME_BYTES;
	memcpy(in, name, size);
	size_t n = 0;
	for (size_t i = 0; i < size;) {
		size_t skip = ignorable(in + i);
		if (skip) {
			i += skip;
			continue;
		}
		/* The two letters beyond ASCII whose lower case is in it: the Kelvin sign and the long s. */
		if (in[i] == 0xe2 && in[i + 1] == 0x84 && in[i + 2] == 0xaa) {
			out[n++] = 'k';
			i += 3;
		} else if (in[i] == 0xc5 && in[i + 1] == 0xbf) {
			out[n++] = 's';
			i += 2;
		} else {
			/* NTFS takes what follows a colon for a stream of the file, and a backslash for a slash. */
			if (in[i] == ':') break;
			out[n++] = (char)tolower(in[i++]);
		}
	}
	while (n && (out[n - 1] == '.' || out[n - 1] == ' ')) n--;
	return n;
}

/* "git~1" is what NTFS calls .git for old programs. */
static bool is_short_git(const char *name, size_t size)
{
	return size >= 5 && memcmp(name, "git~", 4) == 0 && isdigit((unsigned char)name[4]);
}

/* The whole path, folded; a component that folds to nothing is dropped. out has LIMIT_PATH_BYTES + 8. */
static void fold_path(const char *path, char *out)
{
	size_t n = 0;
	while (*path) {
		size_t size = strcspn(path, "/\\");
		char part[LIMIT_NAME_BYTES + 1];
		size_t m = fold_component(path, size, part);
		if (n + m + 8 > LIMIT_PATH_BYTES) break;
		if (is_short_git(part, m)) {
			memcpy(part, ".git", 4);
			m = 4;
		}
		if (m) {
			if (n) out[n++] = '/';
			memcpy(out + n, part, m);
			n += m;
		}
		path += size;
		while (*path == '/' || *path == '\\') path++;
	}
	out[n] = 0;
}

/* ---- matching ---- */

static bool component_fits(const char *rule, size_t rule_size, const char *name, size_t name_size)
{
	if (rule_size && rule[rule_size - 1] == '*') return name_size >= rule_size - 1 && memcmp(rule, name, rule_size - 1) == 0;
	return rule_size == name_size && memcmp(rule, name, name_size) == 0;
}

typedef enum fit { FIT_NONE, FIT_LEADS, FIT_HELD } fit;

/* The rule against the components from `at` on. FIT_LEADS: the path ends before the rule does. */
static fit rule_fit(const char *rule, const char *at)
{
	for (;;) {
		size_t rule_size = strcspn(rule, "/"), name_size = strcspn(at, "/");
		if (!component_fits(rule, rule_size, at, name_size)) return FIT_NONE;
		rule += rule_size;
		at += name_size;
		if (!*rule) return FIT_HELD;
		if (!*at) return FIT_LEADS;
		rule++;
		at++;
	}
}

static const char *rule_reason(const hold_rule *r, const char *path, bool is_folder)
{
	for (const char *at = path; at; at = strchr(at, '/'), at = at ? at + 1 : NULL) {
		fit f = rule_fit(r->path, at);
		/* A link, or a file that redirects, in place of the folder that leads to it would bring in a whole tree. */
		if (f == FIT_HELD || (f == FIT_LEADS && !is_folder)) return r->reason;
		if (r->where == AT_TOP) break;
	}
	return NULL;
}

/* Below .git, at any depth: hooks and configuration of submodules and worktrees (.git/modules/a/b/hooks). */
static bool is_nested_git_setting(const char *path)
{
	const char *at = path;
	while (at && strncmp(at, ".git/", 5) != 0) {
		at = strchr(at, '/');
		at = at ? at + 1 : NULL;
	}
	if (!at) return false;
	at += 5;
	if (strncmp(at, "modules", 7) != 0 && strncmp(at, "worktrees", 9) != 0) return false;
	for (at = strchr(at, '/'); at; at = strchr(at, '/')) {
		at++;
		size_t size = strcspn(at, "/");
		if ((size == 5 && memcmp(at, "hooks", 5) == 0) || (size >= 6 && memcmp(at, "config", 6) == 0) ||
		    (size == 9 && memcmp(at, "commondir", 9) == 0) || (size == 6 && memcmp(at, "gitdir", 6) == 0))
			return true;
	}
	return false;
}

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);
	return n > m && strcmp(text + n - m, end) == 0;
}

const char *apply_hold_reason(const hold_query *q)
{
	char path[LIMIT_PATH_BYTES + 8], hooks[LIMIT_PATH_BYTES + 8];
	fold_path(q->path, path);
	for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
		const char *reason = rule_reason(&rules[i], path, q->is_folder);
		if (reason) return reason;
	}
	if (is_nested_git_setting(path)) return git_runs;
	if (ends_with(path, ".code-workspace")) return editor;
	if (!q->hooks_path) return NULL;
	fold_path(q->hooks_path, hooks);
	if (hooks[0] == 0) return NULL;
	/* What leads to the hooks may not become a link either. */
	bool leads = apply_within(hooks, path) && !q->is_folder;
	return apply_within(path, hooks) || leads ? git_runs : NULL;
}

/* ---- core.hooksPath ---- */

static bool starts_without_case(const char *text, const char *end, const char *word)
{
	size_t n = strlen(word);
	return (size_t)(end - text) >= n && strncasecmp(text, word, n) == 0;
}

/* The value after "hookspath =", without quotes and comments. */
static cb_code hooks_value(const char *at, const char *end, char **out, cb_error *err)
{
	while (at < end && (*at == ' ' || *at == '\t')) at++;
	if (at == end || *at != '=') return CB_OK;
	at++;
	while (at < end && (*at == ' ' || *at == '\t' || *at == '"')) at++;
	const char *stop = at;
	while (stop < end && *stop && *stop != '"' && *stop != '#' && *stop != ';' && *stop != '\r') stop++;
	while (stop > at && (stop[-1] == ' ' || stop[-1] == '\t' || stop[-1] == '/')) stop--;
	while (stop - at >= 2 && at[0] == '.' && at[1] == '/') at += 2;
	size_t size = (size_t)(stop - at);
	if (size == 0 || at[0] == '/' || at[0] == '~' || size >= LIMIT_PATH_BYTES) return CB_OK;
	char *copy = mem_alloc(size + 1);
	if (!copy) return cb_err_nomem(err);
	memcpy(copy, at, size);
	copy[size] = 0;
	free(*out);
	*out = copy;
	return CB_OK;
}

cb_code apply_hooks_path(const char *text, size_t size, char **out, cb_error *err)
{
	static const char word[] = "hookspath";
	const char *end = text + size;
	while (text < end) {
		const char *line_end = memchr(text, '\n', (size_t)(end - text));
		if (!line_end) line_end = end;
		while (text < line_end && (*text == ' ' || *text == '\t')) text++;
		if (starts_without_case(text, line_end, word)) CB_TRY(hooks_value(text + sizeof(word) - 1, line_end, out, err));
		text = line_end < end ? line_end + 1 : end;
	}
	return CB_OK;
}
