/* attack.c: the program around the attacks: parameters, verdicts, the table as a list and as a document. */
#include "sandbox/attack.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/attack_review.h"

enum { TEXT_BYTES = 400, SECONDS = 40, PARAMS = 64 };

/* Shared with the child that makes the attack. */
typedef struct verdict {
	outcome outcome;
	bool given;
	char text[TEXT_BYTES];
} verdict;

static verdict *last;
static char *params[PARAMS];
static int param_count;

static const attack *const groups[] = {attacks_files, attacks_process, attacks_mounts, attacks_sockets, attacks_kernel,
                                       attacks_setid, attacks_devices, attacks_bounds, attacks_traps,   attacks_outside};
enum { GROUPS = sizeof groups / sizeof *groups };
static const char *const group_titles[GROUPS] = {"Files of the host",
                                                 "Processes",
                                                 "Mounts and namespaces",
                                                 "Sockets and the host's IPC",
                                                 "Kernel surface",
                                                 "Setuid, setgid, capabilities",
                                                 "Devices",
                                                 "Exhaustion",
                                                 "Traps for the next look",
                                                 "From outside"};

static outcome __attribute__((format(printf, 2, 0))) say(outcome o, const char *format, va_list arguments)
{
	/* The first word on the worst outcome stays. */
	if (last->given && last->outcome >= o) return o;
	last->given = true;
	last->outcome = o;
	vsnprintf(last->text, sizeof last->text, format, arguments);
	return o;
}

#define SAY(name, value)                       \
	outcome name(const char *format, ...)  \
	{                                      \
		va_list arguments;             \
		va_start(arguments, format);   \
		say(value, format, arguments); \
		va_end(arguments);             \
		return value;                  \
	}
SAY(held, HELD)
SAY(broken, BROKEN)
SAY(untried, UNTRIED)

outcome refused(const char *what, long result)
{
	int code = errno;
	if (result >= 0) return broken("%s worked", what);
	if (code == EPERM || code == EACCES || code == ENOSYS) return held("%s: %s", what, strerror(code));
	return broken("%s reached the kernel: %s", what, strerror(code));
}

outcome worse(outcome a, outcome b)
{
	return a > b ? a : b;
}

const char *param(const char *key)
{
	size_t size = strlen(key);
	for (int i = 0; i < param_count; i++)
		if (!strncmp(params[i], key, size) && params[i][size] == '=') return params[i] + size + 1;
	return NULL;
}

uint64_t param_number(const char *key, uint64_t otherwise)
{
	const char *text = param(key);
	return text ? strtoull(text, NULL, 10) : otherwise;
}

const char *canary(void)
{
	static const char backwards[] = "-yranac-xobwoc";
	static char forwards[sizeof backwards];
	for (size_t i = 0; i < sizeof backwards - 1; i++) forwards[i] = backwards[sizeof backwards - 2 - i];
	return forwards;
}

bool has_canary(const void *bytes, size_t size)
{
	return memmem(bytes, size, canary(), strlen(canary()));
}

long slurp(const char *path, void *out, size_t size)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0) return -1;
	size_t have = 0;
	ssize_t got = 0;
	while (have < size && (got = read(fd, (char *)out + have, size - have)) > 0) have += (size_t)got;
	int code = errno;
	close(fd);
	errno = code;
	return got < 0 && !have ? -1 : (long)have;
}

outcome try_read(const char *path)
{
	char bytes[4096];
	long got = slurp(path, bytes, sizeof bytes);
	if (got < 0) return held("%s: %s", path, strerror(errno));
	return broken("%ld bytes of %s", got, path);
}

outcome try_param(const char *key, outcome (*attempt)(const char *value))
{
	const char *value = param(key);
	return value ? attempt(value) : untried("%s= was not given", key);
}

static const char *word_of(outcome o)
{
	static const char *const words[] = {"HELD", "UNTRIED", "BROKEN"};
	return words[o];
}

/* What a child says by dying: a wall that kills is a wall. */
static void judge_death(int status)
{
	if (last->given && WIFEXITED(status)) return;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) untried("not done after %d s", SECONDS);
	else if (WIFSIGNALED(status)) held("ended by signal %d", WTERMSIG(status));
	else untried("no verdict");
}

static outcome make(const attack *a)
{
	memset(last, 0, sizeof *last);
	fflush(stdout);
	pid_t child = a->flags & (ALONE | TRAP) ? 0 : fork();
	if (child < 0) {
		untried("fork: %s", strerror(errno));
	} else if (!child) {
		bool own = a->flags & (ALONE | TRAP);
		if (!own) alarm(SECONDS);
		outcome o = a->run();
		if (!own) _exit(o);
	} else {
		int status = 0;
		while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
		}
		judge_death(status);
	}
	printf("%s %s: %s\n", word_of(last->outcome), a->name, last->text);
	fflush(stdout);
	return last->outcome;
}

static const attack *find(const char *name)
{
	for (size_t g = 0; g < GROUPS; g++)
		for (const attack *a = groups[g]; a->name; a++)
			if (!strcmp(a->name, name)) return a;
	return NULL;
}

static int list(void)
{
	static const char *const flag_names[] = {"alone", "trap", "outside", "proof", "weak", "either", "bound"};
	for (size_t g = 0; g < GROUPS; g++)
		for (const attack *a = groups[g]; a->name; a++) {
			printf("%s\t%s\t", a->name, a->wall);
			for (unsigned i = 0; i < sizeof flag_names / sizeof *flag_names; i++)
				if (a->flags & 1U << i) printf("%s ", flag_names[i]);
			printf("\n");
		}
	return 0;
}

static const char *weak_word(const attack *a)
{
	if (a->flags & EITHER) return "depends";
	return a->flags & WEAK ? "**no**" : a->flags & (TRAP | OUTSIDE | BOUND) ? "" : "yes";
}

static void markdown_group(size_t g)
{
	printf("\n### %s\n\n| attack | tries | what stops it | wall | `--weak` holds | tests |\n|---|---|---|---|---|---|\n",
	       group_titles[g]);
	for (const attack *a = groups[g]; a->name; a++)
		printf("| `%s` | %s | %s | %s | %s | attacks%s |\n", a->name, a->tries, a->stops, a->wall, weak_word(a),
		       a->flags & PROOF ? ", walls" : "");
}

static int markdown(void)
{
	size_t count = 0;
	for (size_t g = 0; g < GROUPS; g++)
		for (const attack *a = groups[g]; a->name; a++) count++;
	printf("%s", review_head);
	printf("\n## The %zu attacks\n", count);
	for (size_t g = 0; g < GROUPS; g++) markdown_group(g);
	printf("\n## Traps found in review, and where each is tested\n\n| no. | trap | test |\n|---|---|---|\n");
	for (const review_item *r = review_items; r->trap; r++)
		printf("| %d | %s | %s |\n", (int)(r - review_items) + 1, r->trap, r->where);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "--list")) return list();
	if (argc == 2 && !strcmp(argv[1], "--markdown")) return markdown();
	if (argc == 2 && !strcmp(argv[1], "--controls")) return controls();
	/* For the copy that is setuid on the host: says who it became. */
	if (argc == 2 && !strcmp(argv[1], "--euid")) return printf("%d %d\n", (int)geteuid(), (int)getegid()) < 0;
	last = mmap(NULL, sizeof *last, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (last == MAP_FAILED) return 2;
	outcome worst = HELD;
	int made = 0;
	for (int i = 1; i < argc; i++) {
		if (strchr(argv[i], '=')) {
			if (param_count < PARAMS) params[param_count++] = argv[i];
			continue;
		}
		const attack *a = find(argv[i]);
		if (!a || !a->run) {
			printf("UNTRIED %s: no such attack\n", argv[i]);
			worst = UNTRIED;
			continue;
		}
		worst = worse(worst, make(a));
		made++;
	}
	return made && worst == HELD ? 0 : 1;
}
