/* value.c: sizes, durations, times and modes, from text and to text. */
#include "cli/core.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NS_PER_SECOND INT64_C(1000000000)

cb_code cli_parse_count(const char *text, uint64_t *out, cb_error *err)
{
	uint64_t n = 0;
	const char *at = text;
	for (; *at >= '0' && *at <= '9'; at++) {
		unsigned digit = (unsigned)(*at - '0');
		if (n > (UINT64_MAX - digit) / 10) return cb_err_set(err, CB_INVALID, "'%.64s' is too large", text);
		n = n * 10 + digit;
	}
	if (at == text || *at) return cb_err_set(err, CB_INVALID, "'%.64s' is no whole number", text);
	*out = n;
	return CB_OK;
}

/* "12" or "1.5" and where it ends; at most 19 digits, so that products can be checked in long double. Divided once: 1.5 is exact. */
static bool parse_decimal(const char *text, long double *out, const char **out_end)
{
	const char *at = text;
	long double value = 0, scale = 1;
	size_t digits = 0;
	for (; *at >= '0' && *at <= '9'; at++, digits++) value = value * 10 + (*at - '0');
	if (*at == '.')
		for (at++; *at >= '0' && *at <= '9'; at++, digits++, scale *= 10) value = value * 10 + (*at - '0');
	*out = value / scale;
	*out_end = at;
	return digits > 0 && digits <= 19;
}

cb_code cli_parse_size(const char *text, uint64_t *out, cb_error *err)
{
	static const char units[] = "kmgtp";
	long double value = 0;
	const char *at = text;
	bool good = parse_decimal(text, &value, &at);
	if (good && *at) {
		const char *unit = strchr(units, tolower((unsigned char)*at));
		if (unit && *unit) {
			for (const char *u = units; u <= unit; u++) value *= 1024;
			at++;
			if (*at == 'i') at++;
		}
		if (*at == 'B' || *at == 'b') at++;
		good = *at == 0;
	}
	if (!good) return cb_err_set(err, CB_INVALID, "'%.64s' is no size: write 512, 10k, 1.5M or 2GiB", text);
	if (value >= 9e18L) return cb_err_set(err, CB_INVALID, "'%.64s' is too large", text);
	*out = (uint64_t)value;
	return CB_OK;
}

typedef struct time_unit {
	const char *name;
	int64_t ns;
} time_unit;

static const time_unit time_units[] = {
	{"w", 7 * 86400 * NS_PER_SECOND},
	{"d", 86400 * NS_PER_SECOND},
	{"h", 3600 * NS_PER_SECOND},
	{"m", 60 * NS_PER_SECOND},
	{"s", NS_PER_SECOND},
	{"ms", 1000000},
	{"us", 1000},
	{"ns", 1},
};

/* "1d12h". *out_bare: something in it that is not 0 has no unit, and was taken as seconds. */
static bool parse_time(const char *text, long double *out_ns, bool *out_bare)
{
	const char *at = text;
	bool good = *text != 0;
	*out_ns = 0;
	*out_bare = false;
	while (good && *at) {
		long double value = 0;
		int64_t unit = 0;
		good = parse_decimal(at, &value, &at);
		size_t size = strspn(at, "wdhmsnu");
		for (size_t i = 0; good && i < ARRAY_LEN(time_units); i++)
			if (strlen(time_units[i].name) == size && memcmp(time_units[i].name, at, size) == 0)
				unit = time_units[i].ns;
		if (good && size == 0 && *at == 0) {
			unit = NS_PER_SECOND;
			*out_bare = value > 0;
		}
		good = good && unit != 0;
		at += size;
		*out_ns += value * (long double)unit;
	}
	return good;
}

static cb_code duration_of(const char *text, long double ns, int64_t *out_ns, cb_error *err)
{
	if (ns > 9e18L) return cb_err_set(err, CB_INVALID, "'%.64s' is too long", text);
	*out_ns = (int64_t)(ns + 0.5L);
	return CB_OK;
}

cb_code cli_parse_duration(const char *text, int64_t *out_ns, cb_error *err)
{
	long double ns = 0;
	bool bare = false;
	if (!parse_time(text, &ns, &bare))
		return cb_err_set(err, CB_INVALID, "'%.64s' is no duration: write 500ms, 30s, 5m, 2h or 7d", text);
	return duration_of(text, ns, out_ns, err);
}

cb_code cli_parse_age(const char *text, int64_t *out_ns, cb_error *err)
{
	long double ns = 0;
	bool bare = false;
	if (!parse_time(text, &ns, &bare))
		return cb_err_set(err, CB_INVALID, "'%.64s' is no age: write 30s, 5m, 12h, 7d or 2w", text);
	if (bare) return cb_err_set(err, CB_INVALID, "'%.64s' has no unit: write it as 30s, 5m, 12h, 7d or 2w", text);
	return duration_of(text, ns, out_ns, err);
}

static bool is_day(int year, int month, int day)
{
	struct tm tm = {.tm_year = year - 1900, .tm_mon = month - 1, .tm_mday = day};
	(void)timegm(&tm); /* goes on in the next month */
	return tm.tm_mday == day && tm.tm_mon == month - 1;
}

/* "2026-01-31", with "T12:00", ":30", ".5" and "Z" as far as given; without "Z" in local time. */
static bool parse_date(const char *text, int64_t *out_ns)
{
	struct tm tm = {.tm_isdst = -1};
	int used = 0;
	long double fraction = 0;
	if (sscanf(text, "%4d-%2d-%2d%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &used) != 3 || used < 8) return false;
	const char *at = text + used;
	if (*at == 'T' || *at == ' ') {
		used = 0;
		if (sscanf(at + 1, "%2d:%2d%n", &tm.tm_hour, &tm.tm_min, &used) != 2 || used == 0) return false;
		at += 1 + used;
		if (*at == ':') {
			used = 0;
			if (sscanf(at + 1, "%2d%n", &tm.tm_sec, &used) != 1) return false;
			at += 1 + used;
		}
		if (*at == '.' && !parse_decimal(at, &fraction, &at)) return false;
	}
	bool utc = *at == 'Z';
	if (utc) at++;
	if (*at || tm.tm_year < 1 || !is_day(tm.tm_year, tm.tm_mon, tm.tm_mday)) return false;
	if (tm.tm_hour < 0 || tm.tm_hour > 24 || tm.tm_min < 0 || tm.tm_min > 59 || tm.tm_sec < 0 || tm.tm_sec > 60) return false;
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	time_t seconds = utc ? timegm(&tm) : mktime(&tm);
	if (seconds < -9000000000 || seconds > 9000000000) return false;
	*out_ns = (int64_t)seconds * NS_PER_SECOND + (int64_t)(fraction * 1e9L + 0.5L);
	return true;
}

cb_code cli_parse_moment(const char *text, int64_t now_ns, int64_t *out_ns, cb_error *err)
{
	int64_t ago = 0;
	if (strcmp(text, "now") == 0) *out_ns = now_ns;
	else if (parse_date(text, out_ns)) return CB_OK;
	else if (cli_parse_age(text, &ago, NULL) == CB_OK) *out_ns = now_ns - ago;
	else
		return cb_err_set(
			err, CB_INVALID,
			"'%.64s' is no time: write 30m, 2h, 7d or 2w (ago), 2026-01-31 or 2026-01-31T12:00:00 (local time; "
			"UTC with a Z at the end), or now",
			text);
	return CB_OK;
}

/* ---- modes ---- */

static cb_code bad_mode(const char *text, cb_error *err)
{
	return cb_err_set(err, CB_INVALID, "'%.64s' is no mode: write 644, +x, u+rw,go-w or a=r", text);
}

static uint32_t who_bits(char c)
{
	return c == 'u' ? 04700 : c == 'g' ? 02070 : c == 'o' ? 01007 : 07777;
}

static bool mode_letter(char c, uint32_t current, bool folder, uint32_t *bits)
{
	bool executable = folder || (current & 0111) != 0;
	if (c == 'r') *bits |= 0444;
	else if (c == 'w') *bits |= 0222;
	else if (c == 'x') *bits |= 0111;
	else if (c == 'X') *bits |= executable ? 0111 : 0;
	else if (c == 's') *bits |= 06000;
	else if (c == 't') *bits |= 01000;
	else return false;
	return true;
}

/* One clause: "u+x", "go-w", "=r". */
static bool mode_clause(const char **at, bool folder, uint32_t *mode)
{
	uint32_t who = 0;
	while (**at && strchr("ugoa", **at)) who |= who_bits(*(*at)++);
	if (who == 0) who = 0777 | 01000;
	bool any = false;
	while (**at && strchr("+-=", **at)) {
		char action = *(*at)++;
		uint32_t bits = 0;
		while (mode_letter(**at, *mode, folder, &bits)) (*at)++;
		bits &= who;
		if (action == '+') *mode |= bits;
		else if (action == '-') *mode &= ~bits;
		else *mode = (*mode & ~(who & 0777)) | bits;
		any = true;
	}
	return any;
}

cb_code cli_parse_mode(const char *text, uint32_t current, bool folder, uint32_t *out, cb_error *err)
{
	uint32_t mode = current & 07777;
	if (*text >= '0' && *text <= '7') {
		uint64_t value = 0;
		for (const char *at = text; *at; at++) {
			if (*at < '0' || *at > '7' || value > 07777) return bad_mode(text, err);
			value = value * 8 + (uint64_t)(*at - '0');
		}
		if (value > 07777) return bad_mode(text, err);
		*out = (uint32_t)value;
		return CB_OK;
	}
	const char *at = text;
	do {
		if (!mode_clause(&at, folder, &mode)) return bad_mode(text, err);
	} while (*at == ',' && *++at);
	if (*at || text[0] == 0) return bad_mode(text, err);
	*out = mode;
	return CB_OK;
}

/* ---- to text ---- */

const char *cli_format_time(int64_t ns, char out[CLI_FORMAT_MAX])
{
	int64_t rest = ns % NS_PER_SECOND;
	if (rest < 0) rest += NS_PER_SECOND;
	time_t seconds = (time_t)((ns - rest) / NS_PER_SECOND);
	struct tm tm;
	char date[40];
	if (!gmtime_r(&seconds, &tm) || strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm) == 0) date[0] = 0;
	(void)snprintf(out, CLI_FORMAT_MAX, "%s.%09lldZ", date, (long long)rest);
	return out;
}

const char *cli_format_mode(cb_type type, uint32_t mode, char out[CLI_FORMAT_MAX])
{
	static const char letters[] = "rwxrwxrwx";
	out[0] = type == CB_DIR ? 'd' : type == CB_SYMLINK ? 'l' : '-';
	for (int i = 0; i < 9; i++) out[1 + i] = (mode & (0400u >> i)) ? letters[i] : '-';
	if (mode & 04000) out[3] = (mode & 0100) ? 's' : 'S';
	if (mode & 02000) out[6] = (mode & 0010) ? 's' : 'S';
	if (mode & 01000) out[9] = (mode & 0001) ? 't' : 'T';
	out[10] = 0;
	return out;
}

const char *cli_human_size(const cli *c, uint64_t bytes, char out[CLI_FORMAT_MAX])
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double value = (double)bytes;
	size_t unit = 0;
	for (; value >= 1024 && unit + 1 < ARRAY_LEN(units); unit++) value /= 1024;
	if (!cli_is_terminal(c)) (void)snprintf(out, CLI_FORMAT_MAX, "%llu", (unsigned long long)bytes);
	else (void)snprintf(out, CLI_FORMAT_MAX, unit == 0 || value >= 100 ? "%.0f %s" : "%.1f %s", value, units[unit]);
	return out;
}

const char *cli_size_words(const cli *c, uint64_t bytes, char out[CLI_FORMAT_MAX])
{
	if (cli_is_terminal(c)) return cli_human_size(c, bytes, out);
	(void)snprintf(out, CLI_FORMAT_MAX, "%llu byte%s", (unsigned long long)bytes, bytes == 1 ? "" : "s");
	return out;
}

const char *cli_count_words(uint64_t count, const char *one, char out[CLI_FORMAT_MAX])
{
	const char *end = count == 1 ? "" : one[strlen(one) - 1] == 'x' ? "es" : "s";
	(void)snprintf(out, CLI_FORMAT_MAX, "%llu %s%s", (unsigned long long)count, one, end);
	return out;
}

static void format_ago(int64_t count, const char *unit, char out[CLI_FORMAT_MAX])
{
	(void)snprintf(out, CLI_FORMAT_MAX, "%lld %s%s ago", (long long)count, unit, count == 1 ? "" : "s");
}

const char *cli_human_time(const cli *c, int64_t ns, char out[CLI_FORMAT_MAX])
{
	if (!cli_is_terminal(c)) return cli_format_time(ns, out);
	int64_t ago = (cli_now(c) - ns) / NS_PER_SECOND;
	time_t seconds = (time_t)(ns / NS_PER_SECOND);
	struct tm tm;
	if (ago >= 0 && ago < 2) (void)snprintf(out, CLI_FORMAT_MAX, "just now");
	else if (ago >= 0 && ago < 60) format_ago(ago, "second", out);
	else if (ago >= 0 && ago < 3600) format_ago(ago / 60, "minute", out);
	else if (ago >= 0 && ago < 86400) format_ago(ago / 3600, "hour", out);
	else if (!localtime_r(&seconds, &tm) || strftime(out, CLI_FORMAT_MAX, "%Y-%m-%d %H:%M", &tm) == 0)
		return cli_format_time(ns, out);
	return out;
}

const char *cli_human_duration(int64_t ns, char out[CLI_FORMAT_MAX])
{
	for (size_t i = 0; i < ARRAY_LEN(time_units); i++) {
		if (ns == 0 || ns % time_units[i].ns != 0) continue;
		(void)snprintf(out, CLI_FORMAT_MAX, "%lld%s", (long long)(ns / time_units[i].ns), time_units[i].name);
		return out;
	}
	(void)snprintf(out, CLI_FORMAT_MAX, "0");
	return out;
}
