/*
 * ignore.c: patterns as in .gitignore.
 *
 * A pattern without a '/' (but at its end) is compared with the name alone, another one with the path below its file's folder. As in git,
 * the bytes before the first wildcard are compared as they are and the rest is a pattern of its own: "doc**" therefore reaches into
 * "doc/a/b". The rest is compiled to a short list of tokens and run as a set of positions, so no pattern takes more than size x size
 * steps.
 */
#include "transfer/ignore.h"

#include <assert.h>
#include <ctype.h>

typedef enum token_kind {
	TOKEN_BYTE,
	TOKEN_ANY,       /* one byte but '/' */
	TOKEN_SET,       /* one byte of a set */
	TOKEN_STAR,      /* any bytes but '/' */
	TOKEN_STARS,     /* any bytes */
	TOKEN_STARS_DIR, /* the same, and with the '/' after it also nothing at all */
} token_kind;

typedef struct token {
	uint8_t kind;
	uint8_t byte;
	uint32_t set; /* index into the sets of the pattern */
} token;

typedef struct byte_set {
	uint64_t bits[4];
} byte_set;

typedef struct pattern {
	char *literal; /* what comes before the first wildcard */
	size_t literal_size;
	token *tokens; /* the rest */
	size_t token_count;
	byte_set *sets;
	size_t set_count;
	bool negative, only_dir, only_name;
	bool invalid; /* never matches: an open bracket, a lone backslash */
} pattern;

typedef struct layer {
	size_t folder_size; /* of the path of the folder it is for, with its '/' */
	pattern *patterns;
	size_t count, capacity;
	size_t bytes;
} layer;

struct ignore {
	layer caller;
	layer *layers;
	size_t layer_count, layer_capacity;
	size_t bytes; /* of all pattern texts */
};

/* ---- compiling ---- */

static void set_add(byte_set *s, uint8_t b)
{
	s->bits[b >> 6] |= (uint64_t)1 << (b & 63);
}

static bool set_has(const byte_set *s, uint8_t b)
{
	return s->bits[b >> 6] >> (b & 63) & 1;
}

static int is_blank(int c)
{
	return c == ' ' || c == '\t';
}

/* By ASCII: the locale must not change what is imported. */
static bool set_add_class(byte_set *s, const char *name, size_t size)
{
	static const struct {
		const char *name;
		int (*has)(int c);
	} classes[] = {{"alnum", isalnum}, {"alpha", isalpha}, {"blank", is_blank}, {"cntrl", iscntrl},
	               {"digit", isdigit}, {"graph", isgraph}, {"lower", islower},  {"print", isprint},
	               {"punct", ispunct}, {"space", isspace}, {"upper", isupper},  {"xdigit", isxdigit}};
	for (size_t i = 0; i < ARRAY_LEN(classes); i++) {
		if (strlen(classes[i].name) != size || memcmp(classes[i].name, name, size) != 0) continue;
		for (int c = 0; c < 128; c++)
			if (classes[i].has(c)) set_add(s, (uint8_t)c);
		return true;
	}
	return false;
}

/* One member of a bracket: *at moves past it. *previous is the byte a range may start from, 0: none. False: malformed. */
static bool set_member(const char *p, size_t size, size_t *at, byte_set *s, uint8_t *previous)
{
	size_t i = *at;
	uint8_t c = (uint8_t)p[i];
	if (c == '[' && i + 1 < size && p[i + 1] == ':') {
		size_t end = i + 2;
		while (end < size && p[end] != ']') end++;
		if (end == size) return false;
		if (end > i + 2 && p[end - 1] == ':') {
			*at = end + 1;
			*previous = 0;
			return set_add_class(s, p + i + 2, end - 1 - (i + 2));
		}
	}
	if (c == '-' && *previous && i + 1 < size && p[i + 1] != ']') {
		c = (uint8_t)p[++i];
		if (c == '\\' && ++i == size) return false;
		c = (uint8_t)p[i];
		for (unsigned b = *previous; b <= c; b++) set_add(s, (uint8_t)b);
		*previous = 0;
		*at = i + 1;
		return true;
	}
	if (c == '\\' && ++i == size) return false;
	c = (uint8_t)p[i];
	set_add(s, c);
	*previous = c;
	*at = i + 1;
	return true;
}

/* "[...]" from *at on. False: never closed. */
static bool set_parse(const char *p, size_t size, size_t *at, byte_set *out)
{
	size_t i = *at + 1;
	bool negated = i < size && (p[i] == '!' || p[i] == '^');
	byte_set s = {{0}};
	uint8_t previous = 0;
	if (negated) i++;
	for (bool first = true; first || (i < size && p[i] != ']'); first = false)
		if (i >= size || !set_member(p, size, &i, &s, &previous)) return false;
	if (i >= size) return false;
	for (size_t k = 0; negated && k < 4; k++) s.bits[k] = ~s.bits[k];
	s.bits['/' >> 6] &= ~((uint64_t)1 << ('/' & 63));
	*out = s;
	*at = i + 1;
	return true;
}

/* One or more stars at *at. */
static token star_parse(const char *p, size_t size, size_t *at)
{
	size_t start = *at, end = start;
	while (end < size && p[end] == '*') end++;
	*at = end;
	bool from_start = start == 0 || p[start - 1] == '/';
	bool to_end = end == size || p[end] == '/' || (p[end] == '\\' && end + 1 < size && p[end + 1] == '/');
	if (end - start < 2 || !from_start || !to_end) return (token){.kind = TOKEN_STAR};
	return (token){.kind = end < size && p[end] == '/' ? TOKEN_STARS_DIR : TOKEN_STARS};
}

static cb_code compile(const char *p, size_t size, pattern *out, cb_error *err)
{
	out->tokens = mem_alloc((size + 1) * sizeof(token));
	out->sets = mem_alloc((size / 3 + 1) * sizeof(byte_set)); /* the shortest set is [a] */
	if (!out->tokens || !out->sets) return cb_err_nomem(err);
	for (size_t i = 0; i < size && !out->invalid;) {
		token t = {.kind = TOKEN_BYTE, .byte = (uint8_t)p[i]};
		if (p[i] == '*') {
			t = star_parse(p, size, &i);
		} else if (p[i] == '[') {
			out->invalid = !set_parse(p, size, &i, &out->sets[out->set_count]);
			t = (token){.kind = TOKEN_SET, .set = (uint32_t)out->set_count++};
		} else if (p[i] == '?') {
			t.kind = TOKEN_ANY;
			i++;
		} else if (p[i] == '\\') {
			out->invalid = i + 1 == size;
			if (!out->invalid) t.byte = (uint8_t)p[i + 1];
			i += 2;
		} else {
			i++;
		}
		out->tokens[out->token_count++] = t;
	}
	return CB_OK;
}

static size_t plain_prefix(const char *p, size_t size)
{
	size_t n = 0;
	while (n < size && !strchr("*?[\\", p[n])) n++;
	return n;
}

static cb_code pattern_parse(const char *p, size_t size, pattern *out, cb_error *err)
{
	*out = (pattern){0};
	if (size && *p == '!') {
		out->negative = true;
		p++;
		size--;
	}
	if (size && p[size - 1] == '/') {
		out->only_dir = true;
		size--;
	}
	out->only_name = !memchr(p, '/', size);
	if (size && *p == '/') {
		p++;
		size--;
	}
	if (size > LIMIT_IGNORE_PATTERN_BYTES)
		return cb_err_set(err, CB_LIMIT, "a pattern is longer than %d bytes", LIMIT_IGNORE_PATTERN_BYTES);
	out->literal_size = plain_prefix(p, size);
	out->literal = mem_dup(p, out->literal_size);
	if (!out->literal) return cb_err_nomem(err);
	return compile(p + out->literal_size, size - out->literal_size, out, err);
}

static void pattern_done(pattern *p)
{
	free(p->literal);
	free(p->tokens);
	free(p->sets);
}

/* ---- lists ---- */

/* Spaces at the end go, unless a backslash quotes them. */
static size_t trimmed(const char *line, size_t size)
{
	size_t keep = 0;
	for (size_t i = 0; i < size; i++) {
		if (line[i] == ' ') continue;
		if (line[i] == '\\' && ++i == size) return size;
		keep = i + 1;
	}
	return keep;
}

static cb_code layer_add(ignore *g, layer *l, const char *line, size_t size, cb_error *err)
{
	if (size && line[size - 1] == '\r') size--;
	if (size == 0 || *line == '#') return CB_OK;
	size = trimmed(line, size);
	if (g->bytes + size > LIMIT_IGNORE_BYTES)
		return cb_err_set(err, CB_LIMIT, "the patterns of what to leave out have more than %d bytes", LIMIT_IGNORE_BYTES);
	if (l->count == l->capacity) {
		size_t capacity = l->capacity ? l->capacity * 2 : 8;
		pattern *more = mem_realloc(l->patterns, capacity * sizeof(*more));
		if (!more) return cb_err_nomem(err);
		l->patterns = more;
		l->capacity = capacity;
	}
	pattern p;
	cb_code code = pattern_parse(line, size, &p, err);
	if (code != CB_OK) {
		pattern_done(&p);
		return code;
	}
	l->patterns[l->count++] = p;
	l->bytes += size;
	g->bytes += size;
	return CB_OK;
}

static void layer_done(ignore *g, layer *l)
{
	for (size_t i = 0; i < l->count; i++) pattern_done(&l->patterns[i]);
	free(l->patterns);
	g->bytes -= l->bytes;
	*l = (layer){0};
}

cb_code ignore_create(const char *const *patterns, size_t count, ignore **out, cb_error *err)
{
	ignore *g = mem_alloc(sizeof(*g));
	if (!g) return cb_err_nomem(err);
	*g = (ignore){0};
	cb_code code = CB_OK;
	for (size_t i = 0; i < count && code == CB_OK; i++) code = layer_add(g, &g->caller, patterns[i], strlen(patterns[i]), err);
	if (code == CB_OK) *out = g;
	else ignore_destroy(g);
	return code;
}

void ignore_destroy(ignore *g)
{
	if (!g) return;
	while (g->layer_count) ignore_pop(g);
	layer_done(g, &g->caller);
	free(g->layers);
	free(g);
}

static cb_code layer_parse(ignore *g, layer *l, span text, cb_error *err)
{
	const char *p = (const char *)text.bytes, *end = p + text.size;
	if (text.size >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0) p += 3;
	while (p < end) {
		const char *newline = memchr(p, '\n', (size_t)(end - p));
		const char *line_end = newline ? newline : end;
		const char *nul = memchr(p, 0, (size_t)(line_end - p)); /* no name goes on after one */
		CB_TRY(layer_add(g, l, p, (size_t)((nul ? nul : line_end) - p), err));
		p = line_end + 1;
	}
	return CB_OK;
}

cb_code ignore_push(ignore *g, const char *folder, span text, cb_error *err)
{
	if (g->layer_count == g->layer_capacity) {
		size_t capacity = g->layer_capacity ? g->layer_capacity * 2 : 16;
		layer *more = mem_realloc(g->layers, capacity * sizeof(*more));
		if (!more) return cb_err_nomem(err);
		g->layers = more;
		g->layer_capacity = capacity;
	}
	layer *l = &g->layers[g->layer_count++];
	*l = (layer){.folder_size = *folder ? strlen(folder) + 1 : 0};
	cb_code code = text.size ? layer_parse(g, l, text, err) : CB_OK;
	if (code != CB_OK) ignore_pop(g);
	return code;
}

void ignore_pop(ignore *g)
{
	assert(g->layer_count);
	layer_done(g, &g->layers[--g->layer_count]);
}

/* ---- matching ---- */

typedef struct positions {
	uint16_t list[LIMIT_IGNORE_PATTERN_BYTES + 1];
	size_t count;
} positions;

typedef struct matcher {
	const pattern *p;
	uint32_t turn;
	uint32_t seen[LIMIT_IGNORE_PATTERN_BYTES + 1];    /* the turn in which a position was added */
	uint32_t skipped[LIMIT_IGNORE_PATTERN_BYTES + 1]; /* the same for what follows stars that are nothing */
	positions now, next;
} matcher;

static void position_add(matcher *m, positions *to, size_t at, bool entering);

/* "**" and the '/' after it may be nothing at all, but only where they begin: not after some bytes. */
static void skip_stars(matcher *m, positions *to, size_t at)
{
	if (at == m->p->token_count || m->p->tokens[at].kind != TOKEN_STARS_DIR || m->skipped[at] == m->turn) return;
	m->skipped[at] = m->turn;
	position_add(m, to, at + 2, true);
}

/* A position, and those that follow it without a byte. */
static void position_add(matcher *m, positions *to, size_t at, bool entering)
{
	for (;; entering = true) {
		if (entering) skip_stars(m, to, at);
		if (m->seen[at] == m->turn) return;
		m->seen[at] = m->turn;
		to->list[to->count++] = (uint16_t)at;
		if (at == m->p->token_count) return;
		uint8_t kind = m->p->tokens[at].kind;
		if (kind != TOKEN_STAR && kind != TOKEN_STARS && kind != TOKEN_STARS_DIR) return;
		at++;
	}
}

static void take_byte(matcher *m, size_t at, uint8_t byte)
{
	const token *t = &m->p->tokens[at];
	switch ((token_kind)t->kind) {
	case TOKEN_BYTE:
		if (byte == t->byte) position_add(m, &m->next, at + 1, true);
		return;
	case TOKEN_ANY:
		if (byte != '/') position_add(m, &m->next, at + 1, true);
		return;
	case TOKEN_SET:
		if (set_has(&m->p->sets[t->set], byte)) position_add(m, &m->next, at + 1, true);
		return;
	case TOKEN_STAR:
		if (byte != '/') position_add(m, &m->next, at, false);
		return;
	case TOKEN_STARS:
	case TOKEN_STARS_DIR:
		position_add(m, &m->next, at, false);
		return;
	}
}

static bool tokens_match(const pattern *p, const char *text, size_t size)
{
	matcher m;
	m.p = p;
	m.turn = 1;
	memset(m.seen, 0, (p->token_count + 1) * sizeof(m.seen[0]));
	memset(m.skipped, 0, (p->token_count + 1) * sizeof(m.skipped[0]));
	m.now.count = 0;
	position_add(&m, &m.now, 0, true);
	for (size_t i = 0; i < size && m.now.count; i++) {
		m.turn++;
		m.next.count = 0;
		for (size_t k = 0; k < m.now.count; k++)
			if (m.now.list[k] < p->token_count) take_byte(&m, m.now.list[k], (uint8_t)text[i]);
		memcpy(m.now.list, m.next.list, m.next.count * sizeof(m.now.list[0]));
		m.now.count = m.next.count;
	}
	for (size_t k = 0; k < m.now.count; k++)
		if (m.now.list[k] == p->token_count) return true;
	return false;
}

static bool pattern_match(const pattern *p, const char *path, const char *name, bool is_dir)
{
	if (p->invalid || (p->only_dir && !is_dir)) return false;
	const char *text = p->only_name ? name : path;
	size_t size = strlen(text);
	if (size < p->literal_size || memcmp(text, p->literal, p->literal_size) != 0) return false;
	text += p->literal_size;
	size -= p->literal_size;
	return p->token_count ? tokens_match(p, text, size) : size == 0;
}

/* Does the layer have an opinion? *ignored is it. */
static bool layer_decides(const layer *l, const char *path, const char *name, bool is_dir, bool *ignored)
{
	for (size_t i = l->count; i > 0; i--) {
		const pattern *p = &l->patterns[i - 1];
		if (!pattern_match(p, path + l->folder_size, name, is_dir)) continue;
		*ignored = !p->negative;
		return true;
	}
	return false;
}

bool ignore_match(const ignore *g, const char *path, bool is_dir, bool only_caller)
{
	bool ignored = false;
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	if (layer_decides(&g->caller, path, name, is_dir, &ignored)) return ignored;
	for (size_t i = only_caller ? 0 : g->layer_count; i > 0; i--)
		if (layer_decides(&g->layers[i - 1], path, name, is_dir, &ignored)) return ignored;
	return false;
}
