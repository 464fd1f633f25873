/*
 * replay.c: a main that hands every file of a corpus to a fuzz target, as TAP.
 *
 * Arguments are files or folders; without any, tests/fuzz/corpus/NAME where the program is fuzz_NAME. The empty input is always tried
 * first. Each input runs in a forked child with a time limit, so that one crash does not hide the next.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIMIT_SECONDS = 120 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static unsigned number, failed;

/* In the child: the buffer is exactly as long as the input, so that a read past its end is seen. */
static void run_file(const char *path)
{
	FILE *f = fopen(path, "rbe");
	struct stat st;
	if (!f || fstat(fileno(f), &st) != 0) _exit(3);
	size_t size = (size_t)st.st_size;
	uint8_t *bytes = malloc(size ? size : 1);
	if (!bytes || fread(bytes, 1, size, f) != size) _exit(3);
	(void)fclose(f);
	(void)LLVMFuzzerTestOneInput(bytes, size);
	free(bytes);
}

static void replay(const char *path, const char *name)
{
	(void)fflush(NULL);
	int status = -1;
	pid_t pid = fork();
	if (pid == 0) {
		(void)alarm(LIMIT_SECONDS);
		run_file(path);
		exit(0);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
	}
	bool ok = status == 0;
	if (!ok && WIFSIGNALED(status)) printf("# ended by signal %d\n", WTERMSIG(status));
	if (!ok && WIFEXITED(status)) printf("# exit status %d\n", WEXITSTATUS(status));
	printf("%sok %u - %s\n", ok ? "" : "not ", ++number, name);
	failed += !ok;
}

static int is_entry(const struct dirent *e)
{
	return e->d_name[0] != '.';
}

static void replay_folder(const char *folder)
{
	struct dirent **entries = NULL;
	int count = scandir(folder, &entries, is_entry, alphasort);
	if (count < 0) printf("# no corpus in %s\n", folder);
	for (int i = 0; i < count; i++) {
		char path[PATH_MAX];
		(void)snprintf(path, sizeof(path), "%s/%s", folder, entries[i]->d_name);
		replay(path, path);
		free(entries[i]);
	}
	free(entries);
}

static void replay_path(const char *path)
{
	struct stat st;
	if (stat(path, &st) == 0 && !S_ISDIR(st.st_mode)) {
		replay(path, path);
	} else {
		replay_folder(path);
	}
}

int main(int argc, char **argv)
{
	printf("TAP version 13\n");
	replay("/dev/null", "the empty input");
	for (int i = 1; i < argc; i++) replay_path(argv[i]);
	if (argc == 1) {
		const char *slash = strrchr(argv[0], '/');
		const char *name = slash ? slash + 1 : argv[0];
		if (strncmp(name, "fuzz_", 5) == 0) name += 5;
		char folder[PATH_MAX];
		(void)snprintf(folder, sizeof(folder), "tests/fuzz/corpus/%s", name);
		replay_folder(folder);
	}
	printf("1..%u\n", number);
	return failed ? 1 : 0;
}
