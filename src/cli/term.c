/* term.c: the pager, questions, progress bars. Nothing here happens off a terminal. */
#include "cli/core.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

size_t cli_columns(const cli *c)
{
	(void)c;
	struct winsize size = {0};
	const char *wish = getenv("COLUMNS");
	uint64_t columns = 0;
	if (wish && cli_parse_count(wish, &columns, NULL) == CB_OK && columns > 0 && columns < 10000) return (size_t)columns;
	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

/* ---- pager ---- */

static volatile pid_t pager_pid; /* 0: none */

/* Ctrl-C on the terminal is also the pager's, which goes on: it keeps the terminal until it is quit, and then the command ends. */
static void on_pager_interrupt(int signal_number)
{
	(void)close(STDOUT_FILENO);
	while (waitpid(pager_pid, NULL, 0) < 0 && errno == EINTR) continue;
	(void)signal(signal_number, SIG_DFL);
	(void)raise(signal_number);
}

/* A program and its options is started as such, so that it is known when there is none; anything else is the shell's, as git has it. */
static int pager_spawn(char *pager, int from, pid_t *out)
{
	char shell[] = "sh", dash_c[] = "-c", *words[32] = {shell, dash_c, pager};
	posix_spawn_file_actions_t actions;
	if (!strpbrk(pager, "|&;<>()$`\\\"'*?[#~=%\n")) {
		size_t count = 0;
		char *rest = NULL;
		for (char *word = strtok_r(pager, " \t", &rest); word && count < ARRAY_LEN(words) - 1;
		     word = strtok_r(NULL, " \t", &rest))
			words[count++] = word;
		words[count] = NULL;
		if (count == 0) return ENOENT;
	}
	int error = posix_spawn_file_actions_init(&actions);
	if (error) return error;
	error = posix_spawn_file_actions_adddup2(&actions, from, STDIN_FILENO);
	if (!error) error = posix_spawnp(out, words[0], &actions, NULL, words, environ);
	(void)posix_spawn_file_actions_destroy(&actions);
	return error;
}

void pager_start(cli *c)
{
	const char *pager = getenv("COWBOX_PAGER");
	if (!c->out_is_terminal || c->globals.no_pager || c->globals.json) return;
	if (!pager && cli_config_get(c, NULL, "pager", &pager, NULL) == CB_OK && !*pager) pager = NULL;
	if (!pager) pager = getenv("PAGER");
	bool named = pager != NULL;
	if (!pager) pager = "less";
	if (!*pager || strcmp(pager, "cat") == 0) return;
	AUTO_FREE char *command = strdup(pager);
	int ends[2];
	if (!command || pipe2(ends, O_CLOEXEC) != 0) return;
	(void)setenv("LESS", "FRX", 0);
	pid_t pid = 0;
	int error = pager_spawn(command, ends[0], &pid);
	if (error && named) cli_note(c, "the pager '%s' cannot be started: %s", pager, strerror(error));
	if (!error) {
		(void)dup2(ends[1], STDOUT_FILENO);
		pager_pid = pid;
		if (signal(SIGINT, on_pager_interrupt) == SIG_IGN) (void)signal(SIGINT, SIG_IGN);
	}
	(void)close(ends[0]);
	(void)close(ends[1]);
}

void pager_end(void)
{
	if (!pager_pid) return;
	(void)close(STDOUT_FILENO);
	while (waitpid(pager_pid, NULL, 0) < 0 && errno == EINTR) continue;
	pager_pid = 0;
}

/* ---- questions ---- */

cb_code cli_confirm(cli *c, cb_error *err, const char *format, ...)
{
	char what[CB_ERROR_MESSAGE_MAX - 64], answer[16] = "";
	va_list args;
	va_start(args, format);
	(void)vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	if (c->globals.yes) return CB_OK;
	if (isatty(STDIN_FILENO) != 1 || !c->err_is_terminal || c->globals.json) {
		cli_hint(c, "add --yes to do it");
		return cb_err_set(err, CB_INVALID, "%s", what);
	}
	AUTO_BUF buf question = BUF_INIT(sizeof(what) * 4);
	out_escape(&question, what, strlen(what));
	(void)fprintf(stderr, "%.*s. Go on? [y/N] ", (int)question.size, (const char *)question.bytes);
	if (!fgets(answer, sizeof(answer), stdin)) answer[0] = 0;
	if (answer[0] == 'y' || answer[0] == 'Y') return CB_OK;
	return cb_err_set(err, CB_INTERRUPTED, "nothing was changed");
}

/* ---- progress ---- */

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_number)
{
	(void)signal_number;
	interrupted = 1;
}

static void draw_bar(cli *c, const cb_progress *p)
{
	char done[CLI_FORMAT_MAX], line[256];
	struct winsize size = {0};
	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 20) size.ws_col = 80;
	bool was = c->out_is_terminal;
	c->out_is_terminal = true;
	(void)cli_human_size(c, p->bytes, done);
	c->out_is_terminal = was;
	int n = snprintf(line, sizeof(line), "%s  %llu files  %s", c->watch_what, (unsigned long long)p->files, done);
	if (p->total_bytes > 0 && n > 0 && (size_t)n < sizeof(line)) {
		unsigned percent = (unsigned)(100.0 * (double)p->bytes / (double)p->total_bytes);
		unsigned cells = percent > 100 ? 20 : percent / 5;
		(void)snprintf(line + n, sizeof(line) - (size_t)n, "  [%.*s%*s] %u%%", (int)cells, "####################",
		               (int)(20 - cells), "", percent);
	}
	(void)fprintf(stderr, "\r\033[K%.*s", size.ws_col - 1, line);
	(void)fflush(stderr);
	c->bar_shown = true;
}

static int64_t monotonic_now(void)
{
	struct timespec ts;
	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static bool on_progress(void *context, const cb_progress *p)
{
	cli *c = context;
	if (interrupted) return false;
	if (!c->err_is_terminal || c->globals.quiet || c->globals.json) return true;
	int64_t now = monotonic_now();
	if (now - c->watch_started_ns < 1000000000 || now - c->watch_drawn_ns < 100000000) return true;
	c->watch_drawn_ns = now;
	draw_bar(c, p);
	return true;
}

static void on_note(void *context, const char *path, const char *what)
{
	cli_note(context, "%s: %s", path, what);
}

const cb_transfer_watch *cli_watch(cli *c, const char *what)
{
	struct sigaction action = {.sa_handler = on_interrupt};
	(void)sigaction(SIGINT, &action, NULL);
	(void)sigaction(SIGTERM, &action, NULL);
	c->watch_what = what;
	c->watch_started_ns = monotonic_now();
	c->watch_drawn_ns = 0;
	c->watch = CB_WITH(cb_transfer_watch, .note = on_note, .progress = on_progress, .context = c);
	return &c->watch;
}

void cli_watch_done(cli *c)
{
	if (c->bar_shown) (void)fputs("\r\033[K", stderr);
	c->bar_shown = false;
}
