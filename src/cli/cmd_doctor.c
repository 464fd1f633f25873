/* cmd_doctor.c: what this machine offers and what is missing, tried for real, in plain words. */
#include "cli/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LOW_SPACE_BYTES = 256 << 20 };

/* ---- the report ---- */

void doctor_tell(doctor *d, const char *name, doctor_status status, const char *fix, const char *format, ...)
{
	static const char *const words[] = {"ok", "warn", "fail"};
	static const cli_style styles[] = {CLI_GREEN, CLI_YELLOW, CLI_RED};
	char what[DOCTOR_TEXT_MAX * 2];
	va_list args;
	va_start(args, format);
	(void)vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	cli *c = d->c;
	if (cli_is_json(c)) {
		json_writer *w = cli_json(c);
		json_object_begin(w);
		json_member_str(w, "name", name);
		json_member_str(w, "status", words[status]);
		json_member_str(w, "what", what);
		json_member_str(w, "fix", fix);
		json_object_end(w);
		return;
	}
	cli_print(c, "%s%-4s%s  ", cli_on(c, styles[status]), words[status], cli_off(c));
	cli_print_name(c, what);
	cli_print(c, "\n");
	if (*fix) cli_print(c, "      ");
	cli_print_name(c, fix);
	if (*fix) cli_print(c, "\n");
}

/* ---- trials in a child ---- */

static int64_t now_ms(void)
{
	struct timespec ts;
	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void child_run(int to, doctor_try fn, void *context) __attribute__((noreturn));
static void child_run(int to, doctor_try fn, void *context)
{
	char text[DOCTOR_TEXT_MAX] = "";
	(void)alarm(DOCTOR_SECONDS + 1); /* also when the parent is gone */
	bool worked = fn(context, text);
	char verdict = worked ? 'y' : 'n';
	bool told = write(to, &verdict, 1) == 1 && write(to, text, strlen(text)) >= 0;
	_exit(told ? 0 : 1);
}

/* Reads until the child closes its end or the time is over; gives the size. */
static size_t child_listen(int from, char *out, size_t size)
{
	size_t got = 0;
	int64_t end = now_ms() + (int64_t)DOCTOR_SECONDS * 1000;
	while (got < size) {
		struct pollfd p = {from, POLLIN, 0};
		int64_t left = end - now_ms();
		if (left <= 0 || (poll(&p, 1, (int)left) < 0 && errno != EINTR)) break;
		if (p.revents == 0) continue;
		ssize_t n = read(from, out + got, size - got);
		if (n <= 0) break;
		got += (size_t)n;
	}
	return got;
}

bool doctor_attempt(doctor_try fn, void *context, char text[DOCTOR_TEXT_MAX])
{
	int ends[2];
	char answer[DOCTOR_TEXT_MAX + 1];
	(void)snprintf(text, DOCTOR_TEXT_MAX, "no process for the trial");
	if (pipe2(ends, O_CLOEXEC) != 0) return false;
	AUTO_FD int from = ends[0];
	pid_t pid = fork();
	if (pid == 0) child_run(ends[1], fn, context);
	(void)close(ends[1]);
	if (pid < 0) return false;
	size_t size = child_listen(from, answer, sizeof(answer) - 1);
	(void)kill(pid, SIGKILL);
	/* A child that hangs in the kernel is left to it: nobody waits for a dead network filesystem. */
	for (int i = 0; i < 200 && waitpid(pid, NULL, WNOHANG) == 0; i++) (void)poll(NULL, 0, 5);
	answer[size] = 0;
	(void)snprintf(text, DOCTOR_TEXT_MAX, "%s", size ? answer + 1 : "the trial crashed or did not end in time");
	return size > 0 && answer[0] == 'y';
}

cb_code doctor_folder(const doctor *d, temporary_place *out, cb_error *err)
{
	if (d->nearest && temporary_place_make(d->nearest, out, NULL) == CB_OK) return CB_OK;
	return temporary_place_make("/tmp", out, err);
}

/* ---- the store ---- */

typedef struct filesystem {
	unsigned long magic;
	const char *name;
	bool network;
} filesystem;

static const filesystem filesystems[] = {
	{0xef53, "ext4", false},     {0x58465342, "xfs", false},   {0x9123683e, "btrfs", false},    {0x2fc12fc1, "zfs", false},
	{0xf2f52010, "f2fs", false}, {0x01021994, "tmpfs", false}, {0x794c7630, "overlay", false},  {0xca451a4e, "bcachefs", false},
	{0x6969, "nfs", true},       {0xff534d42, "cifs", true},   {0xfe534d42, "smb2", true},      {0x517b, "smb", true},
	{0x01021997, "9p", true},    {0x00c36400, "ceph", true},   {0x5346414f, "afs", true},       {0x65735546, "fuse", false},
	{0x47504653, "gpfs", true},  {0x0bd00bd0, "lustre", true}, {0x6a656a63, "virtiofs", false}, {0x4d44, "fat", false},
};

static void tell_filesystem(doctor *d)
{
	struct statfs fs;
	struct statvfs space;
	char free_text[CLI_FORMAT_MAX];
	if (statfs(d->nearest, &fs) != 0 || statvfs(d->nearest, &space) != 0) {
		doctor_tell(d, "filesystem", DOCTOR_WARN, "", "the filesystem of '%s' does not tell about itself: %s", d->nearest,
		            strerror(errno));
		return;
	}
	const filesystem *known = NULL;
	for (size_t i = 0; i < ARRAY_LEN(filesystems); i++)
		if (filesystems[i].magic == (unsigned long)fs.f_type) known = &filesystems[i];
	const char *name = known ? known->name : "not known by name";
	bool memory = known && strcmp(name, "tmpfs") == 0;
	if (known && known->network)
		doctor_tell(d, "filesystem", DOCTOR_WARN, "put the store on a local disk: --store or COWBOX_STORE",
		            "the store is on a network filesystem (%s): use it from one machine at a time", name);
	else
		doctor_tell(d, "filesystem", memory ? DOCTOR_WARN : DOCTOR_OK, memory ? "put the store on a disk to keep it" : "",
		            "the filesystem of the store is %s%s", name,
		            memory ? ": it is gone when the machine restarts" : ", local");
	uint64_t bytes = (uint64_t)space.f_bavail * space.f_frsize;
	bool low = bytes < LOW_SPACE_BYTES || (space.f_files > 0 && space.f_favail < 100);
	doctor_tell(d, "space", low ? DOCTOR_WARN : DOCTOR_OK, low ? "make room, or 'cowbox gc'" : "", "%s%s free for the store",
	            cli_human_size(d->c, bytes, free_text), cli_is_terminal(d->c) ? "" : " bytes");
}

/* The nearest folder above the store that is there. */
static char *nearest_folder(const char *path)
{
	char *at = mem_strdup(path);
	struct stat st;
	while (at && (stat(at, &st) != 0 || !S_ISDIR(st.st_mode))) {
		char *slash = strrchr(at, '/');
		if (!slash) (void)strcpy(at, ".");
		else if (slash == at && at[1]) at[1] = 0;
		else if (slash == at) break;
		else *slash = 0;
	}
	return at;
}

static bool failed(char text[DOCTOR_TEXT_MAX], const cb_error *err)
{
	(void)snprintf(text, DOCTOR_TEXT_MAX, "%s", err->message);
	return false;
}

/* The library's line is for who programs: it names options of C. */
static bool not_written(char text[DOCTOR_TEXT_MAX], const cb_error *err)
{
	if (err->os_error == EROFS) (void)snprintf(text, DOCTOR_TEXT_MAX, "it is on a read-only filesystem");
	else if (err->os_error == EACCES || err->os_error == EPERM)
		(void)snprintf(text, DOCTOR_TEXT_MAX, "its rights keep you from it");
	else return failed(text, err);
	return false;
}

static bool open_as(const char *path, bool reading, char text[DOCTOR_TEXT_MAX])
{
	cb_store_options options = CB_WITH(cb_store_options, .no_create = true, .or_read_only = reading);
	cb_store *store = NULL;
	cb_error err;
	cb_store_stats stats = CB_INIT(cb_store_stats);
	if (cb_store_open(path, &options, &store, &err) != CB_OK) return reading ? failed(text, &err) : not_written(text, &err);
	if (cb_store_stats_get(store, &stats, &err) != CB_OK) return failed(text, &err);
	(void)snprintf(text, DOCTOR_TEXT_MAX, "%llu box%s, %llu step%s%s", (unsigned long long)stats.boxes,
	               stats.boxes == 1 ? "" : "es", (unsigned long long)stats.steps, stats.steps == 1 ? "" : "s",
	               stats.page_sums ? "" : "; pages have no sums: 'cowbox gc --vacuum' adds them");
	cb_store_close(store);
	return true;
}

static bool try_open(void *context, char text[DOCTOR_TEXT_MAX])
{
	return open_as(context, false, text);
}

static bool try_read(void *context, char text[DOCTOR_TEXT_MAX])
{
	return open_as(context, true, text);
}

static bool write_one(const char *folder, const char *path, cb_error *err)
{
	cb_store *store = NULL;
	cb_box *box = NULL;
	cb_code code = cb_store_open(folder, NULL, &store, err);
	if (code == CB_OK) code = cb_box_open(store, "trial", &box, err);
	for (int i = 0; i < 20 && code == CB_OK; i++) code = cb_write_file(box, path, path, strlen(path), NULL, err);
	cb_box_close(box);
	cb_store_close(store);
	return code == CB_OK;
}

/* Two processes write to one box: all of their steps must be there, which needs locks, the journal and shared memory to work. */
static bool try_writers(void *context, char text[DOCTOR_TEXT_MAX])
{
	cb_store *store = NULL;
	cb_box *box = NULL;
	cb_box_info info = CB_INIT(cb_box_info);
	cb_error err;
	int status = 0;
	if (cb_store_open(context, NULL, &store, &err) != CB_OK) return failed(text, &err);
	if (cb_box_create(store, "trial", NULL, &err) != CB_OK) return failed(text, &err);
	cb_store_close(store);
	pid_t pid = fork();
	if (pid == 0) {
		(void)alarm(DOCTOR_SECONDS + 1);
		_exit(write_one(context, "/work/b", &err) ? 0 : 1);
	}
	bool mine = write_one(context, "/work/a", &err);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
	if (!mine) return failed(text, &err);
	cb_code code = cb_store_open(context, NULL, &store, &err);
	if (code == CB_OK) code = cb_box_open(store, "trial", &box, &err);
	if (code == CB_OK) code = cb_box_info_get(box, &info, &err);
	if (code != CB_OK) return failed(text, &err);
	cb_box_close(box);
	cb_store_close(store);
	if (pid > 0 && status == 0 && info.seq == 40) return true;
	(void)snprintf(text, DOCTOR_TEXT_MAX, "two writers made %llu of 40 steps", (unsigned long long)info.seq);
	return false;
}

static void tell_store_there(doctor *d)
{
	char text[DOCTOR_TEXT_MAX], why[DOCTOR_TEXT_MAX];
	if (doctor_attempt(try_open, d->store, why)) {
		doctor_tell(d, "store", DOCTOR_OK, "", "the store '%s' opens: %s", d->store, why);
		return;
	}
	if (doctor_attempt(try_read, d->store, text)) {
		d->read_only = true;
		doctor_tell(d, "store", DOCTOR_OK, "", "the store '%s' opens for reading: %s", d->store, text);
		doctor_tell(d, "writing", DOCTOR_FAIL,
		            "'cowbox backup FOLDER' copies it to where it can be written; then --store FOLDER",
		            "the store cannot be written: %s", why);
		return;
	}
	d->broken = true;
	doctor_tell(d, "store", DOCTOR_FAIL, "name another with --store or COWBOX_STORE, or bring back a backup",
	            "the store '%s' does not open: %s", d->store, text);
}

/* Is the store to be made in that very folder? */
static bool is_parent(const char *folder, const char *store)
{
	size_t n = strlen(folder);
	if (strncmp(store, folder, n) != 0) return false;
	while (store[n] == '/') n++;
	return !strchr(store + n, '/');
}

static void tell_store(doctor *d)
{
	struct stat st;
	char text[DOCTOR_TEXT_MAX];
	bool there = stat(d->store, &st) == 0;
	bool parent_there = !there && is_parent(d->nearest, d->store);
	if (there) {
		tell_store_there(d);
	} else if (!d->is_default && !parent_there && strchr(d->store, '/')) {
		d->broken = true;
		doctor_tell(d, "store", DOCTOR_FAIL, "make its folder with mkdir -p, or name another store",
		            "the folder of the store '%s' is not there", d->store);
	} else {
		doctor_tell(d, "store", DOCTOR_OK, "", "the store '%s' is not there yet: 'cowbox new' makes it", d->store);
	}
	tell_filesystem(d);
	if (d->read_only) return;
	ATTR_CLEANUP(temporary_place_remove) temporary_place folder = TEMPORARY_PLACE_NONE;
	cb_error why = {0};
	if (temporary_place_make(d->nearest, &folder, &why) != CB_OK) {
		d->broken = true;
		doctor_tell(d, "writing", DOCTOR_FAIL, "make it writable, or name another store with --store or COWBOX_STORE",
		            "nothing can be written in '%s': %s", d->nearest, why.message);
		return;
	}
	if (doctor_attempt(try_writers, folder.path, text)) {
		doctor_tell(d, "writing", DOCTOR_OK, "",
		            "journal, locks and shared memory work there: two processes wrote to one box");
	} else {
		d->broken = true;
		doctor_tell(d, "writing", DOCTOR_FAIL, "put the store on a local disk: --store or COWBOX_STORE",
		            "a store does not work in '%s': %s", d->nearest, text);
	}
}

/* ---- programs and the terminal ---- */

static bool in_path(const char *command)
{
	const char *path = getenv("PATH");
	size_t n = strcspn(command, " \t");
	char full[8192];
	if (memchr(command, '/', n)) {
		(void)snprintf(full, sizeof(full), "%.*s", (int)n, command);
		return access(full, X_OK) == 0;
	}
	for (const char *at = path ? path : "/usr/bin:/bin"; *at; at += *at == ':') {
		size_t part = strcspn(at, ":");
		int made = snprintf(full, sizeof(full), "%.*s/%.*s", (int)part, at, (int)n, command);
		if (made > 0 && (size_t)made < sizeof(full) && access(full, X_OK) == 0) return true;
		at += part;
	}
	return false;
}

static void tell_pager(doctor *d)
{
	const char *pager = getenv("COWBOX_PAGER");
	if (!pager && cli_config_get(d->c, NULL, "pager", &pager, NULL) == CB_OK && !*pager) pager = NULL;
	if (!pager) pager = getenv("PAGER");
	if (!pager) pager = "less";
	if (!*pager || strcmp(pager, "cat") == 0) doctor_tell(d, "pager", DOCTOR_OK, "", "no pager wanted");
	else if (in_path(pager)) doctor_tell(d, "pager", DOCTOR_OK, "", "the pager is '%s'", pager);
	else
		doctor_tell(d, "pager", DOCTOR_WARN, "install it, or choose another with PAGER or 'cowbox config'; 'cat' is none",
		            "the pager '%s' is not in PATH", pager);
}

static void tell_programs(doctor *d)
{
	static const struct {
		const char *name, *why;
	} programs[] = {{"git", "to work on with what apply and export bring out"}, {"rg", "faster searches on the host"}};
	for (size_t i = 0; i < ARRAY_LEN(programs); i++) {
		if (in_path(programs[i].name)) doctor_tell(d, programs[i].name, DOCTOR_OK, "", "%s is there", programs[i].name);
		else
			doctor_tell(d, programs[i].name, DOCTOR_WARN, "install it when you miss it; cowbox itself does without",
			            "no %s: %s", programs[i].name, programs[i].why);
	}
}

static void tell_terminal(doctor *d)
{
	const char *terminal = getenv("TERM"), *no_color = getenv("NO_COLOR");
	if (!cli_is_terminal(d->c))
		doctor_tell(d, "terminal", DOCTOR_OK, "", "the output is no terminal: no colours, no pager, exact numbers");
	else if (!terminal || strcmp(terminal, "dumb") == 0)
		doctor_tell(d, "terminal", DOCTOR_WARN, "set TERM to what the terminal is",
		            "a terminal that cannot show colours (TERM is %s)", terminal ? terminal : "not set");
	else
		doctor_tell(d, "terminal", DOCTOR_OK, "", "a terminal (%s)%s", terminal,
		            no_color && *no_color ? "; NO_COLOR: no colours" : "");
	tell_pager(d);
}

/* ---- */

static cb_code run_doctor(cli *c, const cli_call *call, cb_error *err)
{
	(void)call;
	doctor d = {.c = c};
	struct utsname host = {0};
	CB_TRY(cli_store_path(c, &d.store, &d.is_default, err));
	cli_keep(c, d.store);
	d.nearest = nearest_folder(d.store);
	if (!d.nearest) return cb_err_nomem(err);
	cli_keep(c, d.nearest);
	if (cli_is_json(c)) {
		json_object_begin(cli_json(c));
		json_member_str(cli_json(c), "version", cb_version());
		json_member_array(cli_json(c), "checks");
	}
	(void)uname(&host);
	doctor_tell(&d, "version", DOCTOR_OK, "", "cowbox %s with SQLite %s, zstd %s, PCRE2 %s on %s %s (%s)", cb_version(),
	            cb_sqlite_version(), cb_zstd_version(), cb_pcre2_version(), host.sysname, host.release, host.machine);
	if (strcmp(d.store, ":memory:") == 0)
		doctor_tell(&d, "store", DOCTOR_WARN, "", "the store is in memory: gone when the command ends");
	else tell_store(&d);
	tell_terminal(&d);
	tell_programs(&d);
	doctor_kernel(&d);
	if (cli_is_json(c)) {
		json_array_end(cli_json(c));
		json_member_bool(cli_json(c), "works", !d.broken && !d.read_only);
		json_member_bool(cli_json(c), "readable", !d.broken);
		json_object_end(cli_json(c));
	} else {
		cli_print(c, "\n%s\n",
		          d.broken      ? "The store cannot work here: see the lines that say fail."
		          : d.read_only ? "The store can be read here, and not written: see the line that says fail."
		                        : "cowbox works here.");
	}
	if (d.broken) cli_status(c, cb_code_exit_status(CB_UNSUPPORTED));
	else if (d.read_only) cli_status(c, cb_code_exit_status(CB_READONLY));
	return CB_OK;
}

const cli_command cmd_doctor = {
	.name = "doctor",
	.group = "Keeping house",
	.summary = "say what this machine offers and what is missing",
	.text = "Tries things instead of believing version numbers: opens the store, lets two processes write to a trial store "
		"beside it, and uses what "
		"the kernel offers for running programs in a box. Each line says ok, warn (something will be slower or missing) or "
		"fail (the "
		"store cannot work, or cannot be written), and what to do. Trials leave nothing behind.\n\n"
		"The exit status is 69 when the store cannot work, 77 when it can be read and not written, else 0.",
	.examples = (const char *const[]){"cowbox doctor", "cowbox --json doctor", NULL},
	.json = "version   of cowbox\n"
		"checks    for each: name, status (ok, warn, fail), what, fix\n"
		"works     whether the store works\n"
		"readable  whether it can be read, or made if it is not there; also where it cannot be written",
	.run = run_doctor,
};
