/* cmd_pack.c: pack and unpack: a box as one compressed, checked stream. */
#include "base/io.h"
#include "base/temporary.h"
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void report(cli *c, const cb_pack_info *info, const char *file)
{
	char words[CLI_FORMAT_MAX], size[CLI_FORMAT_MAX], packed[CLI_FORMAT_MAX];
	uint64_t steps = info->steps ? info->steps - 1 : 0; /* step 0 is where a box begins: no command counts it */
	if (!cli_is_json(c)) {
		cli_print(c, "%s: %s, %llu files and folders, %s, packed %s\n", info->name, cli_count_words(steps, "step", words),
		          (unsigned long long)info->files, cli_size_words(c, info->bytes, size),
		          cli_size_words(c, info->packed_bytes, packed));
		return;
	}
	json_writer *w = cli_json(c);
	json_object_begin(w);
	json_member_str(w, "name", info->name);
	if (file) json_member_str(w, "file", file);
	json_member_bool(w, "history", info->history);
	json_member_uint(w, "steps", steps);
	json_member_uint(w, "checkpoints", info->checkpoints);
	json_member_uint(w, "files", info->files);
	json_member_uint(w, "bytes", info->bytes);
	json_member_uint(w, "packed_bytes", info->packed_bytes);
	json_object_end(w);
}

/* ---- pack ---- */

static cb_code pack_to(cli *c, const cli_call *call, cb_box *box, int fd, cb_pack_info *info, cb_error *err)
{
	cb_pack_options options =
		CB_WITH(cb_pack_options, .no_history = cli_flag(call, "no-history"), .watch = cli_watch(c, "packing"));
	cb_code code = cb_pack(box, fd, &options, info, err);
	cli_watch_done(c);
	return code;
}

/* The finished file takes its place whole, and over another only when told to. */
static cb_code put_in_place(int folder, const char *made, const char *name, bool force, const char *path, cb_error *err)
{
	if (renameat2(folder, made, folder, name, force ? 0 : RENAME_NOREPLACE) == 0) return CB_OK;
	int why = errno;
	struct stat st;
	if (why == EEXIST) return cb_err_set(err, CB_EXISTS, "'%s' exists already", path);
	/* Filesystems without RENAME_NOREPLACE. */
	bool unknown = !force && (why == EINVAL || why == ENOSYS);
	if (unknown && fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) != 0 && renameat(folder, made, folder, name) == 0)
		return CB_OK;
	return cb_err_errno(err, why, "write '%s'", path);
}

/* cb_pack sees only the file: here it is seen before one is made, or takes the place of one of the store's. */
static cb_code refuse_in_store(cli *c, int folder, const char *path, cb_error *err)
{
	AUTO_FREE char *place = NULL;
	bool is_default = false;
	CB_TRY(cli_store_path(c, &place, &is_default, err));
	AUTO_FD int store = open(place, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (store < 0 || io_folder_depth(folder, store) < 0) return CB_OK;
	return cb_err_set(err, CB_INVALID, "'%s' lies in the store's own folder: a pack needs a place outside of it", path);
}

static cb_code pack_file(cli *c, const cli_call *call, cb_box *box, const char *path, cb_pack_info *info, cb_error *err)
{
	bool force = cli_flag(call, "force");
	struct stat st;
	if (!force && lstat(path, &st) == 0) {
		cli_hint(c, "take another name, or --force");
		return cb_err_set(err, CB_EXISTS, "'%s' exists already", path);
	}
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	AUTO_FREE char *above = mem_strdup(slash ? path : ".");
	char made[TEMPORARY_BYTES];
	if (!above) return cb_err_nomem(err);
	if (slash) above[slash == path ? 1 : slash - path] = 0;
	AUTO_FD int folder = open(above, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd = -1;
	if (folder < 0 && errno == ENOENT)
		return cb_err_set(err, CB_NOTFOUND, "making '%s': the folder above it is not there: make that first", path);
	if (folder < 0 && errno == ENOTDIR) return cb_err_set(err, CB_NOTDIR, "making '%s': '%s' is no folder", path, above);
	if (folder < 0) return cb_err_errno(err, errno, "write '%s'", path);
	if (!*name) return cb_err_set(err, CB_ISDIR, "'%s' names a folder: name the file to be", path);
	CB_TRY(refuse_in_store(c, folder, path, err));
	temporary_sweep(folder); /* of packs that were killed here */
	cb_code code = temporary_file(folder, made, &fd, err);
	if (code != CB_OK) return cb_err_wrap(err, code, "write '%s'", path);
	mode_t mask = umask(0);
	(void)umask(mask);
	code = fchmod(fd, 0666 & ~mask) == 0 ? CB_OK : cb_err_errno(err, errno, "write '%s'", path);
	if (code == CB_OK) code = pack_to(c, call, box, fd, info, err);
	if (code == CB_OK && fsync(fd) != 0 && errno != EINVAL) code = cb_err_errno(err, errno, "write '%s'", path);
	if (code == CB_OK) code = put_in_place(folder, made, name, force, path, err);
	if (code != CB_OK) temporary_remove(folder, made);
	return code;
}

static cb_code run_pack(cli *c, const cli_call *call, cb_error *err)
{
	const char *path = cli_text(call, "output");
	cb_box *box = NULL;
	cb_pack_info info = CB_INIT(cb_pack_info);
	bool to_stdout = !path || strcmp(path, "-") == 0;
	if (to_stdout && cli_is_json(c)) return cli_usage(c, err, "with --json the pack needs a file: add -o FILE");
	if (to_stdout && isatty(STDOUT_FILENO)) return cli_usage(c, err, "a pack is not for a terminal: add -o FILE, or '> FILE'");
	CB_TRY(cli_open(c, cli_operand_text(call, "STATE"), CLI_STATE, &box, NULL, err));
	if (to_stdout) return pack_to(c, call, box, STDOUT_FILENO, &info, err);
	CB_TRY(pack_file(c, call, box, path, &info, err));
	report(c, &info, path);
	return CB_OK;
}

const cli_command cmd_pack = {
	.name = "pack",
	.group = "To and from the host",
	.summary = "write a box as one compressed, checked stream",
	.text = "The pack holds the files with all their attributes, the key-values, the settings, and every step and checkpoint "
		"of the "
		"box; 'cowbox unpack' makes the same box of it, in this or another store. An old state (BOX@STEP) is packed with "
		"the "
		"steps up to it. A fork is packed with its own steps, from the state it was forked at.\n\n"
		"Without -o the pack goes to standard output.",
	.operands =
		(const cli_operand[]){
			{CLI_STATE, "STATE", true, false, "BOX, BOX@STEP or BOX@CHECKPOINT (default: the chosen box)"},
			{0},
		},
	.options =
		(const cli_option[]){
			{CLI_TEXT, "output", 'o', "FILE", "write to a file, which appears when it is whole; - is standard output"},
			{CLI_FLAG, "force", 'f', NULL, "over a file that exists"},
			{CLI_FLAG, "no-history", 0, NULL, "the state only, without steps and checkpoints"},
			{0},
		},
	.examples = (const char *const[]){"cowbox pack demo > demo.cbx", "cowbox pack demo --no-history -o state.cbx", NULL},
	.json = "name            the box\nfile            where the pack is\nhistory         true when the steps are in it\n"
		"steps checkpoints files bytes    what is in it\npacked_bytes    the size of the pack",
	.run = run_pack,
};

/* ---- unpack ---- */

static cb_code run_unpack(cli *c, const cli_call *call, cb_error *err)
{
	const char *path = cli_operand_text(call, "FILE"), *name = cli_operand_text(call, "NAME");
	cb_store *store = NULL;
	cb_pack_info info = CB_INIT(cb_pack_info);
	bool from_stdin = strcmp(path, "-") == 0;
	if (from_stdin && isatty(STDIN_FILENO)) return cli_usage(c, err, "a pack is not typed: name a file, or '< FILE'");
	AUTO_FD int fd = from_stdin ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT) return cb_err_set(err, CB_NOTFOUND, "no file '%s'", path);
	struct stat st;
	if (fd < 0) return cb_err_errno(err, errno, "read '%s'", path);
	if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) return cb_err_set(err, CB_ISDIR, "'%s' is a folder, not a pack", path);
	CB_TRY(cli_store(c, &store, err));
	const cb_transfer_watch *watch = cli_watch(c, "unpacking");
	cb_code code = cb_unpack(store, fd, name, watch, &info, err);
	cli_watch_done(c);
	if (code == CB_EXISTS) cli_hint(c, "'cowbox unpack %s NAME' takes another name", path);
	if (code == CB_CORRUPT) return cb_err_wrap(err, code, "'%s'", path);
	if (code != CB_OK) return code;
	report(c, &info, NULL);
	return CB_OK;
}

const cli_command cmd_unpack = {
	.name = "unpack",
	.group = "To and from the host",
	.summary = "make a box of a pack",
	.text = "The box appears when the whole pack was read and found sound; a pack that is damaged, cut off or made to deceive "
		"is "
		"refused and leaves nothing. What follows a pack, on standard input or in a file, is left unread.",
	.operands =
		(const cli_operand[]){
			{CLI_HOST, "FILE", false, false, "the pack; - is standard input"},
			{CLI_WORD, "NAME", true, false, "the name of the box (default: the one it was packed under)"},
			{0},
		},
	.examples = (const char *const[]){"cowbox pack demo > demo.cbx && cowbox unpack demo.cbx copy",
                                          "cowbox pack demo | cowbox unpack - another", NULL},
	.json = "name            the box\nhistory         true when it has the steps of the packed one\n"
		"steps checkpoints files bytes    what is in it\npacked_bytes    the size of the pack",
	.flags = CLI_CREATES,
	.run = run_unpack,
};
