/* test_apply_hold.c: which paths apply holds back, however they are spelled. */
#include "transfer/apply.h"

#include "harness/harness.h"

static const char *held(const char *path, bool folder)
{
	hold_query q = {path, folder, NULL};
	return apply_hold_reason(&q);
}

TEST(what_runs_by_itself)
{
	static const char *const paths[] = {
		".git/hooks",
		".git/hooks/pre-commit",
		".git/config",
		".git/config.worktree",
		".git/modules/lib/hooks/post-checkout",
		".git/modules/a/b/config",
		".git/worktrees/w/config.worktree",
		".git/worktrees/w/gitdir",
		".git/commondir",
		"sub/.git/hooks/x",
		"deps/x/.git/config",
		".envrc",
		"a/b/.envrc",
		".vscode/tasks.json",
		".vscode/settings.json",
		"pkg/.vscode/launch.json",
		".idea/runConfigurations/x.xml",
		"x.code-workspace",
		".husky/pre-push",
		".githooks/pre-commit",
		".pre-commit-config.yaml",
		"lefthook.yml",
		".claude/settings.json",
		".claude/hooks/x.sh",
		".mcp.json",
		".cursor/mcp.json",
		".codex/config.toml",
		".gemini/settings.json",
		".devcontainer/devcontainer.json",
		".devcontainer.json",
		".npmrc",
		"web/.yarnrc.yml",
		".cargo/config",
		".cargo/config.toml",
		"crates/x/.cargo/config.toml",
		".ssh/authorized_keys",
		".bashrc",
		".bash_profile",
		".zshenv",
		".profile",
		".config/systemd/user/x.service",
		".config/autostart/x.desktop",
		".config/fish/config.fish",
		".local/bin/ls",
		".gitconfig",
		".vimrc",
		".gdbinit",
		".exrc",
		".mise.toml",
		"mise.toml",
	};
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) CHECK_MSG(held(paths[i], false), "'%s' is not held", paths[i]);
}

TEST(what_does_not)
{
	static const char *const paths[] = {
		"src/main.c",
		"Makefile",
		"package.json",
		".gitignore",
		".gitattributes",
		".gitmodules",
		"CLAUDE.md",
		"AGENTS.md",
		".cursorrules",
		".github/workflows/ci.yml",
		".git/HEAD",
		".git/index",
		".git/refs/heads/main",
		".git/objects/ab/cdef",
		".env",
		"config",
		"hooks/pre-commit",
		"git/config",
		"vscode/tasks.json",
		"src/bashrc",
		"docs/.bashrc",
		"notes.envrc",
		".cargo/registry/x",
		".config/app.toml",
		".local/share/x",
		"mygit~1x/hooks",
		"digit~1/config",
	};
	for (size_t i = 0; i < ARRAY_LEN(paths); i++)
		CHECK_MSG(!held(paths[i], false), "'%s' is held: %s", paths[i], held(paths[i], false));
	/* folders that only lead somewhere */
	static const char *const folders[] = {".git", ".config", ".local", ".git/modules", "sub/.git", ".cargo"};
	for (size_t i = 0; i < ARRAY_LEN(folders); i++) CHECK_MSG(!held(folders[i], true), "'%s' is held as a folder", folders[i]);
}

TEST(a_link_or_file_in_place_of_such_a_folder)
{
	static const char *const paths[] = {".git", "sub/.git", ".config", ".cargo", ".git/info", ".local", ".GIT"};
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) CHECK_MSG(held(paths[i], false), "'%s' is not held", paths[i]);
}

TEST(odd_spellings)
{
	static const char *const paths[] = {
		".GIT/hooks/x",
		".Git/Config",
		".VSCODE/tasks.json",
		"git~1/config",
		"GIT~1/hooks/x",
		".git./config",
		".git /config",
		".git::$INDEX_ALLOCATION/config",
		".g\xe2\x80\x8cit/config",
		".gi\xe2\x80\x8dt/hooks/x",
		"\xef\xbb\xbf.git/config",
		".g\xe2\x81\xaait/config",
		".git\\hooks\\x",
		".hus\xe2\x84\xaay/x",
		".v\305\277code/tasks.json", /* octal: a hexadecimal escape would take the 'c' along */
		".ENVRC",
		".envrc ",
		".envrc.",
	};
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) CHECK_MSG(held(paths[i], false), "'%s' is not held", paths[i]);
}

TEST(hooks_path_of_a_config)
{
	char *path = NULL;
	cb_error err;
	static const char text[] = "[core]\n\tbare = false\n\tHooksPath = \"./tools/hooks/\" ; ours\n[x]\n";
	CHECK_OK(apply_hooks_path(text, sizeof(text) - 1, &path, &err));
	CHECK_STR(path, "tools/hooks");
	hold_query in = {"tools/hooks/pre-push", false, path}, link = {"tools", false, path}, folder = {"tools", true, path};
	hold_query beside = {"tools/hooks2", false, path};
	CHECK(apply_hold_reason(&in) && apply_hold_reason(&link) && !apply_hold_reason(&folder) && !apply_hold_reason(&beside));
	free(path);
	path = NULL;
	static const char absolute[] = "[core]\nhookspath=/etc/hooks\n";
	CHECK_OK(apply_hooks_path(absolute, sizeof(absolute) - 1, &path, &err));
	CHECK(!path);
	CHECK_OK(apply_hooks_path("hookspath", 9, &path, &err));
	CHECK_OK(apply_hooks_path("hookspath=", 10, &path, &err));
	CHECK(!path);
}
