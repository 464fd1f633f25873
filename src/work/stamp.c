/* stamp.c: see stamp.h. Adversary: half-written files and old formats; the sum tells. */
#include "work/stamp.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/io.h"

static const char first_line[] = "cowbox work 1\n";

/* ---- writing ---- */

typedef struct text {
	char *to;
	size_t at;
} text;

__attribute__((format(printf, 2, 3))) static void say(text *t, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	int n = vsnprintf(t->to + t->at, STAMP_BYTES - t->at, format, args);
	va_end(args);
	if (n > 0) t->at += (size_t)n < STAMP_BYTES - t->at ? (size_t)n : STAMP_BYTES - t->at - 1;
}

static void say_place(text *t, const char *name, const box_place *p)
{
	if (p->box) say(t, "%s %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", name, p->box, p->seq, p->state);
}

void stamp_print(const stamp *s, char out[STAMP_BYTES])
{
	/* The longest of all fit: names and numbers take less than 1,500 bytes, the parameters 1,500. */
	text t = {out, 0};
	memset(out, '\n', STAMP_BYTES);
	say(&t, "%s", first_line);
	say_place(&t, "at", &s->at);
	say(&t, "mode %s\n", s->stack ? "stack" : "plain");
	if (s->layer_count) {
		say(&t, "layers");
		for (size_t i = 0; i < s->layer_count; i++) say(&t, " %s", s->layers[i]);
		say(&t, "\n");
	}
	say_place(&t, "under", &s->under);
	if (*s->boot) say(&t, "boot %s\n", s->boot);
	say(&t, "entries %" PRIu64 "\n", s->entries);
	if (s->afresh) say(&t, "afresh\n");
	if (s->base.box) {
		say_place(&t, "base", &s->base);
		say(&t, "run %s\n", s->run);
		if (s->building) say(&t, "building\n");
		say(&t, "started %" PRId64 "\n", s->started_ns);
		if (*s->who) say(&t, "who %s\n", s->who);
		if (*s->kind) say(&t, "kind %s\n", s->kind);
		if (*s->params) say(&t, "params %s\n", s->params);
		if (s->discard) say(&t, "discard\n");
		if (s->needs_bytes) say(&t, "needs %" PRIu64 "\n", s->needs_bytes);
	}
	say(&t, "sum %016" PRIx64 "\n", hash64(out, t.at));
	out[t.at] = '\n'; /* over the NUL */
}

void stamp_text_set(char *to, size_t capacity, const char *source)
{
	size_t n = 0;
	for (const char *p = source; *p && n + 1 < capacity; p++) to[n++] = (unsigned char)*p < ' ' || *p == 0x7f ? ' ' : *p;
	bool cut = strlen(source) > n;
	while (cut && n && ((unsigned char)to[n - 1] & 0xc0) == 0x80) n--; /* half a character of UTF-8 */
	if (cut && n && (unsigned char)to[n - 1] >= 0xc0) n--;
	to[n] = 0;
}

/* ---- reading ---- */

bool stamp_id_valid(span id)
{
	if (id.size < 2 || id.size >= STAMP_ID_BYTES || id.bytes[0] != 'l') return false;
	for (size_t i = 1; i < id.size; i++)
		if (!strchr("0123456789abcdef", id.bytes[i]) || !id.bytes[i]) return false;
	return true;
}

static bool parse_number(span *rest, uint64_t *out)
{
	size_t n = 0;
	uint64_t value = 0;
	for (; n < rest->size && rest->bytes[n] >= '0' && rest->bytes[n] <= '9'; n++) {
		uint64_t digit = rest->bytes[n] - '0';
		if (value > (UINT64_MAX - digit) / 10) return false;
		value = value * 10 + digit;
	}
	if (n == 0) return false;
	bool space = n < rest->size && rest->bytes[n] == ' ';
	*rest = span_make(rest->bytes + n + space, rest->size - n - space);
	*out = value;
	return true;
}

static bool parse_place(span rest, box_place *out)
{
	return parse_number(&rest, &out->box) && parse_number(&rest, &out->seq) && parse_number(&rest, &out->state) &&
	       rest.size == 0 && out->box != 0;
}

static bool parse_text(span rest, char *to, size_t capacity)
{
	if (rest.size == 0 || rest.size >= capacity || memchr(rest.bytes, 0, rest.size)) return false;
	memcpy(to, rest.bytes, rest.size);
	to[rest.size] = 0;
	return true;
}

static bool parse_layers(span rest, stamp *out)
{
	while (rest.size) {
		const uint8_t *space = memchr(rest.bytes, ' ', rest.size);
		span id = span_make(rest.bytes, space ? (size_t)(space - rest.bytes) : rest.size);
		if (!stamp_id_valid(id) || out->layer_count == LIMIT_WORK_LAYERS) return false;
		memcpy(out->layers[out->layer_count], id.bytes, id.size);
		out->layers[out->layer_count++][id.size] = 0;
		size_t used = id.size + (space != NULL);
		rest = span_make(rest.bytes + used, rest.size - used);
	}
	return out->layer_count > 0;
}

static bool parse_mode(span rest, stamp *out)
{
	out->stack = span_equal(rest, span_str("stack"));
	return out->stack || span_equal(rest, span_str("plain"));
}

static bool parse_started(span rest, stamp *out)
{
	uint64_t ns = 0;
	if (!parse_number(&rest, &ns) || rest.size || ns > INT64_MAX) return false;
	out->started_ns = (int64_t)ns;
	return true;
}

static bool parse_line(span line, stamp *out)
{
	const uint8_t *space = memchr(line.bytes, ' ', line.size);
	span word = span_make(line.bytes, space ? (size_t)(space - line.bytes) : line.size);
	size_t used = word.size + (space != NULL);
	span rest = span_make(line.bytes + used, line.size - used);
	if (span_equal(word, span_str("at"))) return parse_place(rest, &out->at);
	if (span_equal(word, span_str("mode"))) return parse_mode(rest, out);
	if (span_equal(word, span_str("layers"))) return parse_layers(rest, out);
	if (span_equal(word, span_str("under"))) return parse_place(rest, &out->under);
	if (span_equal(word, span_str("boot"))) return parse_text(rest, out->boot, sizeof(out->boot));
	if (span_equal(word, span_str("entries"))) return parse_number(&rest, &out->entries) && rest.size == 0;
	if (span_equal(word, span_str("base"))) return parse_place(rest, &out->base);
	if (span_equal(word, span_str("run"))) return parse_text(rest, out->run, sizeof(out->run));
	if (span_equal(word, span_str("afresh"))) return out->afresh = true;
	if (span_equal(word, span_str("building"))) return out->building = true;
	if (span_equal(word, span_str("started"))) return parse_started(rest, out);
	if (span_equal(word, span_str("who"))) return parse_text(rest, out->who, sizeof(out->who));
	if (span_equal(word, span_str("kind"))) return parse_text(rest, out->kind, sizeof(out->kind));
	if (span_equal(word, span_str("params"))) return parse_text(rest, out->params, sizeof(out->params));
	if (span_equal(word, span_str("discard"))) return out->discard = true;
	if (span_equal(word, span_str("needs"))) return parse_number(&rest, &out->needs_bytes) && rest.size == 0;
	return false;
}

static cb_code no_stamp(cb_error *err)
{
	return cb_err_set(err, CB_CORRUPT, "a stamp in the store's work folder is damaged");
}

/* The text up to the line of the sum, when that is right. */
static bool find_sum(span source, span *out)
{
	static const char word[] = "\nsum ";
	const uint8_t *at = memmem(source.bytes, source.size, word, sizeof(word) - 1);
	if (!at) return false;
	size_t size = (size_t)(at + 1 - source.bytes), left = source.size - size - 4;
	char expected[17];
	(void)snprintf(expected, sizeof(expected), "%016" PRIx64, hash64(source.bytes, size));
	*out = span_make(source.bytes, size);
	return left >= 17 && memcmp(at + 5, expected, 16) == 0 && at[21] == '\n';
}

cb_code stamp_parse(span source, stamp *out, cb_error *err)
{
	memset(out, 0, sizeof(*out));
	span rest;
	if (!span_starts(source, span_str(first_line)) || !find_sum(source, &rest)) return no_stamp(err);
	rest = span_make(rest.bytes + sizeof(first_line) - 1, rest.size - (sizeof(first_line) - 1));
	while (rest.size) {
		const uint8_t *end = memchr(rest.bytes, '\n', rest.size);
		size_t size = end ? (size_t)(end - rest.bytes) : rest.size;
		if (!parse_line(span_make(rest.bytes, size), out)) return no_stamp(err);
		size += end != NULL;
		rest = span_make(rest.bytes + size, rest.size - size);
	}
	if (out->base.box && !*out->run) return no_stamp(err);
	return CB_OK;
}

/* ---- files ---- */

cb_code stamp_write(int fd, const stamp *s, cb_error *err)
{
	char bytes[STAMP_BYTES];
	stamp_print(s, bytes);
	cb_code code = io_pwrite_all(fd, bytes, sizeof(bytes), 0, err);
	return code == CB_OK ? CB_OK : cb_err_wrap(err, code, "writing a stamp in 'work' of the store");
}

cb_code stamp_read(int fd, stamp *out, cb_error *err)
{
	char bytes[STAMP_BYTES];
	size_t size = 0;
	memset(out, 0, sizeof(*out));
	CB_TRY(io_pread_all(fd, bytes, sizeof(bytes), 0, &size, err));
	return size ? stamp_parse(span_make(bytes, size), out, err) : CB_OK;
}

static char boot_id[STAMP_BOOT_BYTES];

static void boot_read(void)
{
	(void)io_text_read(AT_FDCWD, "/proc/sys/kernel/random/boot_id", boot_id, sizeof(boot_id));
	boot_id[strcspn(boot_id, "\n ")] = 0;
}

const char *stamp_boot(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	(void)pthread_once(&once, boot_read);
	return boot_id;
}
