/*
 * try.c: what this machine can do, by doing it: a store in a folder of its own beside the given one, a box, a program in it that writes
 * a file, and a look whether the file came back. What is in the way is told by switches of the kernel that are known to be.
 */
#include "base/args.h"
#include "base/cancel.h"
#include "base/sized.h"
#include "exec/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/io.h"
#include "base/temporary.h"

/* ---- what to do ---- */

/* -1: there is no such switch. */
static long read_switch(const char *path)
{
	char text[32];
	return io_text_read(AT_FDCWD, path, text, sizeof(text)) ? strtol(text, NULL, 10) : -1;
}

static const char *container_fix(void)
{
	if (access("/.dockerenv", F_OK) == 0 || access("/run/.containerenv", F_OK) == 0)
		return "the container forbids it: docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined "
		       "--security-opt systempaths=unconfined, or --weak";
	return "a seccomp or AppArmor profile may forbid it: run cowbox under one that allows unshare and mount, or with --weak";
}

static const char *namespace_fix(void)
{
	if (read_switch("/proc/sys/kernel/unprivileged_userns_clone") == 0)
		return "as root: sysctl -w kernel.unprivileged_userns_clone=1";
	if (read_switch("/proc/sys/user/max_user_namespaces") == 0) return "as root: sysctl -w user.max_user_namespaces=10000";
	if (read_switch("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == 1)
		return "as root: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile for cowbox-box "
		       "with 'userns,'";
	return container_fix();
}

typedef struct filesystem {
	unsigned long magic;
	const char *name;
} filesystem;

/* That overlayfs does not take as its upper layer. */
static const filesystem unfit[] = {{0x794c7630, "overlayfs"}, {0x6969, "NFS"},      {0xff534d42, "CIFS"}, {0xfe534d42, "SMB"},
                                   {0x01021997, "9p"},        {0x65735546, "FUSE"}, {0x4d44, "FAT"}};

static const char *overlay_fix(const char *folder)
{
	static const char local[] =
		"put the store on a local disk or a volume (--store or COWBOX_STORE); until then programs run over a folder";
	struct statfs fs;
	if (statfs(folder, &fs) != 0) return local;
	for (size_t i = 0; i < ARRAY_LEN(unfit); i++)
		if (unfit[i].magic == (unsigned long)fs.f_type) return local;
	return "Linux 5.11 or newer with overlayfs; until then programs run over a folder";
}

static bool namespaces_fail(const char *message)
{
	static const char *const words[] = {"namespace", "uid_map", "gid_map", "setgroups", "unshare", "clone", "/proc", "pivot"};
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (strstr(message, words[i])) return true;
	return false;
}

static const char *fix_of(cb_tier tier, const char *folder, const char *message)
{
	if (strstr(message, "another pid namespace")) return "mount -t proc proc /proc, or start with unshare --mount-proc";
	if (strstr(message, "cowbox-box")) return "install cowbox-box: it stands beside cowbox, or in libexec/cowbox of its prefix";
	if (tier == CB_TIER_WEAK && geteuid() == 0)
		return "run cowbox as an ordinary user: without namespaces root's store cannot be lent to another";
	if (tier == CB_TIER_WEAK)
		return "Linux 5.13 or newer with 'landlock' among the security modules (lsm=), and seccomp filters";
	if (namespaces_fail(message) || tier != CB_TIER_OVERLAY) return namespace_fix();
	return overlay_fix(folder);
}

/* ---- the trial ---- */

static cb_code count_change(void *context, const cb_change *change, cb_error *err)
{
	(void)err;
	if (strcmp(change->path, "/work/trial") == 0 && change->kind == CB_ADDED) *(bool *)context = true;
	return CB_OK;
}

static cb_code judge(cb_exec *exec, cb_error *err)
{
	const cb_exec_result *result = NULL;
	bool found = false;
	CB_TRY(cb_exec_wait(exec, &result, err));
	if (result->exit_code != 0)
		return cb_err_set(err, CB_UNSUPPORTED, "a program ended with %d%s%s", result->exit_code,
		                  *result->reason ? ": " : "", *result->reason ? result->reason : result->err);
	CB_TRY(cb_exec_changes(exec, count_change, &found, err));
	return found ? CB_OK : cb_err_set(err, CB_UNSUPPORTED, "a file that a program wrote did not come back");
}

static cb_code run_one(cb_box *box, cb_tier tier, cb_error *err)
{
	static const char *const argv[] = {"/bin/sh", "-c", "echo trial >trial"};
	cb_sandbox_options options = CB_WITH(cb_sandbox_options, .tier = tier);
	cb_exec_options command = {.struct_size = sizeof(command),
	                           .argv = argv,
	                           .argc = ARRAY_LEN(argv),
	                           .stdin_fd = CB_STDIN_NONE,
	                           .timeout_ns = INT64_C(8000000000)};
	cb_sandbox *sandbox = NULL;
	cb_exec *exec = NULL;
	CB_TRY(cb_sandbox_open(box, &options, &sandbox, err));
	cb_code code = cb_exec_start(sandbox, &command, &exec, err);
	if (code == CB_OK) code = judge(exec, err);
	cb_exec_close(exec);
	cb_sandbox_close(sandbox);
	return code;
}

static cb_code run_in(const char *folder, cb_tier tier, cb_error *err)
{
	cb_store *store = NULL;
	cb_box *box = NULL;
	cb_code code = cb_store_open(folder, NULL, &store, err);
	if (code == CB_OK) code = cb_box_create(store, "trial", &box, err);
	if (code == CB_OK) code = run_one(box, tier, err);
	cb_box_close(box);
	if (store) (void)cb_work_clean(store, true, NULL, NULL);
	cb_store_close(store);
	return code;
}

/* ---- its folder ---- */

/* The folder, or the nearest above it that is there: the filesystem a store would be on. */
static char *nearest_folder(const char *path)
{
	char *at = mem_strdup(*path ? path : "."); /* and room for that name in any other */
	struct stat st;
	while (at && (stat(at, &st) != 0 || !S_ISDIR(st.st_mode))) {
		char *slash = strrchr(at, '/');
		if (!slash) (void)memcpy(at, ".", 2);
		else if (slash == at && at[1]) at[1] = 0;
		else if (slash == at) break;
		else *slash = 0;
	}
	return at;
}

static char *default_folder(void)
{
	char *out = NULL;
	const char *named = getenv("COWBOX_STORE"), *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
	if (named && *named) return mem_strdup(named);
	if (data && *data) return mem_strdup(data);
	return home && *home && asprintf(&out, "%s/.local/share", home) >= 0 ? out : mem_strdup("/tmp");
}

static cb_code folder_make(const char *wish, temporary_place *out, cb_error *err)
{
	AUTO_FREE char *named = wish ? mem_strdup(wish) : default_folder();
	AUTO_FREE char *nearest = named ? nearest_folder(named) : NULL;
	if (!nearest) return cb_err_nomem(err);
	cb_code code = temporary_place_make(nearest, out, err);
	return code == CB_OK ? code : cb_err_wrap(err, code, "making a folder for a trial in '%s'", nearest);
}

cb_code cb_sandbox_try(const char *folder, cb_tier tier, cb_tier_report *out, cb_error *err)
{
	NEED(err, "out", out);
	CB_TRY(args_path("folder", folder, err));
	CB_TRY(args_member("tier", (int)tier, CB_TIER_AUTO, CB_TIER_WEAK, err));
	ATTR_CLEANUP(temporary_place_remove) temporary_place trial = TEMPORARY_PLACE_NONE;
	AUTO_FREE char *store = NULL;
	cb_error why = {0};
	cb_tier_report report = CB_INIT(cb_tier_report);
	CB_TRY(SIZED_CHECK(cb_tier_report, fix, out, err));
	CB_TRY(folder_make(folder, &trial, err));
	if (asprintf(&store, "%s/store", trial.path) < 0) return cb_err_nomem(err);
	cb_code code = run_in(store, tier, &why);
	if (cancel_is_code(code)) return cb_err_pass(err, code, &why); /* that says nothing of the machine */
	report.works = code == CB_OK;
	if (!report.works) {
		(void)snprintf(report.why, sizeof(report.why), "%.255s", why.message);
		(void)snprintf(report.fix, sizeof(report.fix), "%s", fix_of(tier, trial.path, why.message));
	}
	SIZED_GIVE(out, &report);
	return CB_OK;
}
