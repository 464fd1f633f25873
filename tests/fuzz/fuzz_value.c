/* fuzz_value.c: sizes, durations, moments, modes and lines of the configuration file: bounded results, and text that is read back alike. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/core.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

#define MUST(cond)                    \
	do {                          \
		if (!(cond)) abort(); \
	} while (0)

static const int64_t now_ns = 1700000000123456789;

static void check_numbers(const char *text)
{
	uint64_t count = 0, bytes = 0;
	int64_t ns = 0, again = 0;
	char shown[CLI_FORMAT_MAX];
	cb_error err = {0};
	if (cli_parse_count(text, &count, &err) == CB_OK) {
		char back[32];
		(void)snprintf(back, sizeof(back), "%llu", (unsigned long long)count);
		MUST(strcmp(back, text + (strspn(text, "0") - (count == 0))) == 0);
	}
	if (cli_parse_size(text, &bytes, &err) == CB_OK) MUST(bytes <= INT64_MAX);
	if (cli_parse_duration(text, &ns, &err) != CB_OK) return;
	MUST(ns >= 0);
	MUST(cli_parse_duration(cli_human_duration(ns, shown), &again, NULL) == CB_OK);
	/* An age is a duration with a unit, or 0. */
	if (cli_parse_age(text, &again, NULL) == CB_OK) MUST(again == ns);
	else MUST(ns != 0 && strchr("0123456789.", text[strlen(text) - 1]));
	again = 0;
	MUST(cli_parse_duration(shown, &again, NULL) == CB_OK);
	/* Up to 18 digits are exact; longer ones are rounded. */
	if (strlen(shown) <= 18) MUST(again == ns);
}

static void check_moment(const char *text)
{
	int64_t ns = 0, again = 0;
	char shown[CLI_FORMAT_MAX];
	if (cli_parse_moment(text, now_ns, &ns, NULL) != CB_OK) return;
	/* The exact form is read back exactly, for years of four digits. */
	if (ns > 0 && ns < INT64_C(9000000000) * 1000000000) {
		MUST(cli_parse_moment(cli_format_time(ns, shown), now_ns, &again, NULL) == CB_OK);
		MUST(again == ns);
	}
}

static void check_mode(const char *text)
{
	uint32_t mode = 0, again = 0;
	char octal[16], shown[CLI_FORMAT_MAX];
	for (uint32_t current = 0; current <= 07777; current += 0777) {
		if (cli_parse_mode(text, current, current & 1, &mode, NULL) != CB_OK) return;
		MUST(mode <= 07777);
		(void)snprintf(octal, sizeof(octal), "%o", mode);
		MUST(cli_parse_mode(octal, 0, false, &again, NULL) == CB_OK && again == mode);
		MUST(strlen(cli_format_mode(CB_FILE, mode, shown)) == 10);
	}
}

/* The input as the user's file. What is set is read back, and the other keys stay. */
static void check_config(const uint8_t *bytes, size_t size)
{
	static char path[64];
	if (!path[0]) {
		(void)snprintf(path, sizeof(path), "/tmp/fuzz-value-%d", (int)getpid());
		MUST(setenv("COWBOX_CONFIG", path, 1) == 0);
	}
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	MUST(fd >= 0 && write(fd, bytes, size) == (ssize_t)size && close(fd) == 0);
	cli c = {.now_ns = now_ns};
	const char *before = NULL, *value = NULL, *after = NULL;
	bool had = cli_config_user_get(&c, "pager", &before, NULL) == CB_OK;
	for (const cli_config_key *k = cli_config_keys; k->name; k++) (void)cli_config_get(&c, NULL, k->name, &value, NULL);
	MUST(cli_config_user_set(&c, "who", "ann", NULL) == CB_OK);
	MUST(cli_config_user_get(&c, "who", &value, NULL) == CB_OK && strcmp(value, "ann") == 0);
	MUST((cli_config_user_get(&c, "pager", &after, NULL) == CB_OK) == had && (!had || strcmp(before, after) == 0));
	MUST(cli_config_user_set(&c, "who", NULL, NULL) == CB_OK);
	MUST(cli_config_user_get(&c, "who", &value, NULL) == CB_NOTFOUND);
	choose_close(&c);
	buf_done(&c.config);
	MUST(unlink(path) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	if (size > 64 << 10) return 0;
	AUTO_FREE char *text = malloc(size + 1);
	MUST(text);
	if (size) memcpy(text, bytes, size);
	text[size] = 0;
	MUST(setenv("TZ", "UTC", 1) == 0);
	check_numbers(text);
	check_moment(text);
	check_mode(text);
	if (memchr(text, '=', size)) check_config(bytes, size);
	return 0;
}
