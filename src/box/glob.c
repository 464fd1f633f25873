/*
 * glob.c: shell patterns over paths, compiled once and matched without recursion.
 *
 * Compiling: alternatives are expanded into whole patterns (so that "**" is judged in its final place), each is cut into
 * components, each component into tokens. A class is skipped as a whole, so braces, commas and slashes in it are ordinary bytes; a
 * '/' in a class never matches, because paths are cut at every '/'.
 *
 * Matching: going back to the last star is enough for '*' within a component and for "**" over components. So a component costs
 * O(tokens x name), a pattern O(tokens x path).
 *
 * Hostile patterns: expansion is bounded in alternatives, in the bytes they have together, and in work (nested braces are rewritten
 * once per level).
 */
#include "box/glob.h"

#include "base/buf.h"

enum {
	EXPANDED_BYTES_MAX = 128 << 10, /* of all alternatives together: bounds a match, and class numbers fit a token */
	EXPAND_WORK_MAX = 8 << 20,      /* bytes rewritten */
	TOKEN_ANY = 256,                /* below: that byte */
	TOKEN_STAR = 257,
	TOKEN_CLASS = 258, /* and above: a class */
};

typedef struct byte_class {
	uint64_t bits[4];
} byte_class;

typedef struct component {
	uint32_t first, count; /* tokens */
	bool any_depth;        /* "**" */
} component;

typedef struct alternative {
	uint32_t first, count; /* components */
} alternative;

struct glob {
	buf tokens;       /* uint16_t */
	buf classes;      /* byte_class */
	buf components;   /* component */
	buf alternatives; /* alternative */
};

/* ---- classes ---- */

/* The end of "[:name:]" if that is what stands at `at`. Looks no further than the class it is in, so that a class means the same
 * whatever expansion puts behind it. */
static const char *named_end(const char *at)
{
	if (at[0] != '[' || at[1] != ':') return NULL;
	const char *p = at + 2;
	while (*p >= 'a' && *p <= 'z') p++;
	return p[0] == ':' && p[1] == ']' ? p + 2 : NULL;
}

/* The ']' that ends the class whose '[' is at `at`; NULL when there is none. */
static const char *class_end(const char *at)
{
	const char *p = at + 1;
	if (*p == '!' || *p == '^') p++;
	for (bool first = true; *p != ']' || first; first = false) {
		if (*p == '\0' || (*p == '\\' && p[1] == '\0')) return NULL;
		const char *named = named_end(p);
		if (named) p = named;
		else p += *p == '\\' ? 2 : 1;
	}
	return p;
}

static void class_add(byte_class *c, unsigned from, unsigned to)
{
	for (unsigned b = from; b <= to; b++) c->bits[b / 64] |= (uint64_t)1 << (b % 64);
}

typedef struct named_class {
	const char *name;
	uint8_t ranges[8]; /* pairs of first and last; 0 ends */
} named_class;

/* ASCII, whatever the locale: a pattern must mean the same on every machine. */
static const named_class named_classes[] = {
	{"alnum", {'0', '9', 'A', 'Z', 'a', 'z'}},
	{"alpha", {'A', 'Z', 'a', 'z'}},
	{"blank", {' ', ' ', '\t', '\t'}},
	{"cntrl", {1, 31, 127, 127}},
	{"digit", {'0', '9'}},
	{"graph", {33, 126}},
	{"lower", {'a', 'z'}},
	{"print", {32, 126}},
	{"punct", {33, 47, 58, 64, 91, 96, 123, 126}},
	{"space", {' ', ' ', '\t', '\r'}},
	{"upper", {'A', 'Z'}},
	{"xdigit", {'0', '9', 'A', 'F', 'a', 'f'}},
};

static bool class_add_named(byte_class *c, const char *name, size_t size)
{
	for (size_t i = 0; i < ARRAY_LEN(named_classes); i++) {
		const named_class *n = &named_classes[i];
		if (strlen(n->name) != size || memcmp(n->name, name, size) != 0) continue;
		for (size_t k = 0; k < sizeof(n->ranges) && n->ranges[k] != 0; k += 2) class_add(c, n->ranges[k], n->ranges[k + 1]);
		return true;
	}
	return false;
}

static unsigned class_byte(const char **at)
{
	if (**at == '\\') ++*at;
	return (uint8_t) * (*at)++;
}

/* *at is at '[' and is moved past the ']'; class_end() found one. */
static cb_code class_parse(const char **at, byte_class *out, cb_error *err)
{
	byte_class c = {{0}};
	const char *end = class_end(*at), *p = *at + 1;
	bool negated = *p == '!' || *p == '^';
	if (negated) p++;
	while (p < end) {
		const char *named = named_end(p);
		if (named) {
			if (!class_add_named(&c, p + 2, (size_t)(named - p) - 4))
				return cb_err_set(err, CB_INVALID, "pattern has an unknown class '%.*s'", (int)(named - p), p);
			p = named;
			continue;
		}
		unsigned from = class_byte(&p), to = from;
		if (*p == '-' && p + 1 < end) {
			p++;
			to = class_byte(&p);
		}
		class_add(&c, from, to); /* nothing when reversed */
	}
	for (size_t i = 0; negated && i < ARRAY_LEN(c.bits); i++) c.bits[i] = ~c.bits[i];
	*out = c;
	*at = end + 1;
	return CB_OK;
}

/* ---- one alternative into tokens ---- */

/* At or past the end of what stands as one unit at `at`: a class, a quoted byte, a byte. The pattern was checked before. */
static const char *unit_end(const char *at)
{
	if (*at == '[') return class_end(at) + 1;
	return at + (*at == '\\' ? 2 : 1);
}

static cb_code token_add(glob *g, unsigned token, cb_error *err)
{
	uint16_t t = (uint16_t)token;
	return buf_append(&g->tokens, &t, sizeof(t), err);
}

static size_t token_count(const glob *g)
{
	return g->tokens.size / sizeof(uint16_t);
}

static cb_code class_token_add(glob *g, const char **at, cb_error *err)
{
	byte_class c;
	CB_TRY(class_parse(at, &c, err));
	size_t number = g->classes.size / sizeof(c);
	CB_TRY(buf_append(&g->classes, &c, sizeof(c), err));
	return token_add(g, TOKEN_CLASS + (unsigned)number, err);
}

static bool at_separator(const char *p)
{
	return *p == '/' || (*p == '\\' && p[1] == '/');
}

static bool at_any_depth(const char *p)
{
	return p[0] == '*' && p[1] == '*' && (p[2] == '\0' || at_separator(p + 2));
}

/* One component from *at up to a separator or the end. */
static cb_code component_add(glob *g, const char **at, cb_error *err)
{
	component c = {.first = (uint32_t)token_count(g), .any_depth = at_any_depth(*at)};
	const char *p = *at;
	bool after_star = false;
	while (*p != '\0' && !at_separator(p)) {
		if (*p == '[') {
			CB_TRY(class_token_add(g, &p, err));
			after_star = false;
			continue;
		}
		unsigned token = *p == '*' ? TOKEN_STAR : *p == '?' ? TOKEN_ANY : (uint8_t)(*p == '\\' ? p[1] : *p);
		if (token != TOKEN_STAR || !after_star) CB_TRY(token_add(g, token, err));
		after_star = token == TOKEN_STAR;
		p = unit_end(p);
	}
	c.count = (uint32_t)(token_count(g) - c.first);
	*at = p;
	return buf_append(&g->components, &c, sizeof(c), err);
}

/* Empty components ("a//b", a leading or trailing '/') do not count. */
static cb_code alternative_add(glob *g, const char *pattern, cb_error *err)
{
	alternative a = {.first = (uint32_t)(g->components.size / sizeof(component))};
	for (const char *p = pattern; *p != '\0';) {
		if (at_separator(p)) p = unit_end(p);
		else CB_TRY(component_add(g, &p, err));
	}
	a.count = (uint32_t)(g->components.size / sizeof(component)) - a.first;
	return buf_append(&g->alternatives, &a, sizeof(a), err);
}

/* ---- alternatives ---- */

/* A pattern still to be expanded. */
typedef struct pending {
	struct pending *next;
	char text[];
} pending;

typedef struct expansion {
	glob *g;
	pending *todo; /* the next one first */
	size_t expanded_bytes, work;
} expansion;

static void expansion_done(expansion *x)
{
	while (x->todo) {
		pending *next = x->todo->next;
		free(x->todo);
		x->todo = next;
	}
}

#define AUTO_EXPANSION ATTR_CLEANUP(expansion_done)

static cb_code too_complex(cb_error *err)
{
	return cb_err_set(err, CB_INVALID, "pattern has too many alternatives");
}

static const char *find_unquoted(const char *p, char wanted)
{
	while (*p != '\0' && *p != wanted) p = unit_end(p);
	return *p ? p : NULL;
}

/* The ',' or '}' that ends the branch beginning at `from`. */
static const char *branch_end(const char *from)
{
	size_t depth = 0;
	const char *p = from;
	for (; depth > 0 || (*p != ',' && *p != '}'); p = unit_end(p)) {
		if (*p == '{') depth++;
		if (*p == '}') depth--;
	}
	return p;
}

static cb_code push(expansion *x, span before, span branch, span after, cb_error *err)
{
	size_t size = before.size + branch.size + after.size;
	x->work += size + sizeof(pending);
	if (x->work > EXPAND_WORK_MAX) return too_complex(err);
	pending *p = mem_alloc(sizeof(*p) + size + 1);
	if (!p) return cb_err_nomem(err);
	memcpy(p->text, before.bytes, before.size);
	memcpy(p->text + before.size, branch.bytes, branch.size);
	memcpy(p->text + before.size + branch.size, after.bytes, after.size);
	p->text[size] = '\0';
	p->next = x->todo;
	x->todo = p;
	return CB_OK;
}

/* Puts one pattern for each branch of the first braces on the list. */
static cb_code expand_braces(expansion *x, const char *pattern, const char *open, cb_error *err)
{
	const char *close = open;
	do close = branch_end(close + 1);
	while (*close == ',');
	span before = span_make(pattern, (size_t)(open - pattern)), after = span_str(close + 1);
	for (const char *from = open + 1; from <= close;) {
		const char *end = branch_end(from);
		CB_TRY(push(x, before, span_make(from, (size_t)(end - from)), after, err));
		from = end + 1;
	}
	return CB_OK;
}

static cb_code expand(expansion *x, const char *pattern, cb_error *err)
{
	CB_TRY(push(x, span_str(pattern), span_str(""), span_str(""), err));
	while (x->todo) {
		AUTO_FREE pending *p = x->todo;
		x->todo = p->next;
		const char *open = find_unquoted(p->text, '{');
		if (open) {
			CB_TRY(expand_braces(x, p->text, open, err));
			continue;
		}
		x->expanded_bytes += strlen(p->text);
		if (x->g->alternatives.size / sizeof(alternative) >= GLOB_ALTERNATIVES_MAX ||
		    x->expanded_bytes > EXPANDED_BYTES_MAX)
			return too_complex(err);
		CB_TRY(alternative_add(x->g, p->text, err));
	}
	return CB_OK;
}

/* After this, unit_end and branch_end find what they look for; expanding keeps it so, because units and braces stay whole. */
static cb_code check_pattern(const char *pattern, cb_error *err)
{
	if (strnlen(pattern, GLOB_PATTERN_MAX + 1) > GLOB_PATTERN_MAX)
		return cb_err_set(err, CB_INVALID, "pattern is longer than %d bytes", (int)GLOB_PATTERN_MAX);
	size_t depth = 0;
	for (const char *p = pattern; *p != '\0'; p = unit_end(p)) {
		if (*p == '[' && !class_end(p)) return cb_err_set(err, CB_INVALID, "pattern has a '[' without ']'");
		if (*p == '\\' && p[1] == '\0') return cb_err_set(err, CB_INVALID, "pattern ends in a lone '\\'");
		if (*p == '{') depth++;
		if (*p == '}' && depth > 0) depth--;
	}
	return depth ? cb_err_set(err, CB_INVALID, "pattern has a '{' without '}'") : CB_OK;
}

static void glob_auto_destroy(glob **g)
{
	glob_destroy(*g);
}

cb_code glob_compile(const char *pattern, glob **out, cb_error *err)
{
	CB_TRY(check_pattern(pattern, err));
	glob *g ATTR_CLEANUP(glob_auto_destroy) = mem_alloc(sizeof(*g));
	if (!g) return cb_err_nomem(err);
	/* A byte of pattern makes at most one token, one component, one class. */
	*g = (glob){
		.tokens = BUF_INIT(EXPANDED_BYTES_MAX * sizeof(uint16_t)),
		.classes = BUF_INIT(EXPANDED_BYTES_MAX * sizeof(byte_class)),
		.components = BUF_INIT(EXPANDED_BYTES_MAX * sizeof(component)),
		.alternatives = BUF_INIT(GLOB_ALTERNATIVES_MAX * sizeof(alternative)),
	};
	AUTO_EXPANSION expansion x = {.g = g};
	CB_TRY(expand(&x, pattern, err));
	*out = TAKE_PTR(g);
	return CB_OK;
}

void glob_destroy(glob *g)
{
	if (!g) return;
	buf_done(&g->tokens);
	buf_done(&g->classes);
	buf_done(&g->components);
	buf_done(&g->alternatives);
	free(g);
}

/* ---- matching ---- */

static bool token_matches(const glob *g, uint16_t token, uint8_t byte)
{
	if (token < TOKEN_ANY) return token == byte;
	if (token == TOKEN_ANY) return true;
	const byte_class *c = (const byte_class *)(const void *)g->classes.bytes + (token - TOKEN_CLASS);
	return (c->bits[byte / 64] >> (byte % 64) & 1) != 0;
}

static bool component_matches(const glob *g, const component *c, span name)
{
	const uint16_t *tokens = (const uint16_t *)(const void *)g->tokens.bytes + c->first;
	size_t t = 0, n = 0, star = SIZE_MAX, star_n = 0;
	while (n < name.size || t < c->count) {
		if (t < c->count && tokens[t] == TOKEN_STAR) {
			star = t++;
			star_n = n;
			if (t == c->count) return true;
		} else if (t < c->count && n < name.size && token_matches(g, tokens[t], name.bytes[n])) {
			t++;
			n++;
		} else {
			if (star == SIZE_MAX || star_n == name.size) return false;
			t = star + 1;
			n = ++star_n;
		}
	}
	return true;
}

/* The component at `at`; *next is past its '/', or past the end + 1 when it is the last. */
static span path_component(span path, size_t at, size_t *next)
{
	const uint8_t *slash = memchr(path.bytes + at, '/', path.size - at);
	size_t end = slash ? (size_t)(slash - path.bytes) : path.size;
	*next = end + 1;
	return span_make(path.bytes + at, end - at);
}

static bool path_ended(span path, size_t at)
{
	return path.size == 0 || at > path.size;
}

/* NULL when it has none. */
static const component *alternative_components(const glob *g, const alternative *a)
{
	return a->count ? (const component *)(const void *)g->components.bytes + a->first : NULL;
}

static bool alternative_matches(const glob *g, const alternative *a, span path)
{
	const component *c = alternative_components(g, a);
	size_t i = 0, at = 0, next = 0, deep = SIZE_MAX, deep_at = 0;
	while (!path_ended(path, at) || i < a->count) {
		if (i < a->count && c[i].any_depth) {
			deep = i++;
			deep_at = at;
			if (i == a->count) return true;
		} else if (i < a->count && !path_ended(path, at) && component_matches(g, &c[i], path_component(path, at, &next))) {
			i++;
			at = next;
		} else {
			if (deep == SIZE_MAX || path_ended(path, deep_at)) return false;
			i = deep + 1;
			path_component(path, deep_at, &deep_at);
			at = deep_at;
		}
	}
	return true;
}

static bool alternative_may_match_below(const glob *g, const alternative *a, span folder)
{
	const component *c = alternative_components(g, a);
	size_t at = 0, next = 0;
	for (size_t i = 0; !path_ended(folder, at); i++, at = next) {
		if (i == a->count) return false;
		if (c[i].any_depth) return true;
		if (!component_matches(g, &c[i], path_component(folder, at, &next))) return false;
	}
	return true;
}

static bool any_alternative(const glob *g, span path, bool (*holds)(const glob *, const alternative *, span))
{
	const alternative *a = (const alternative *)(const void *)g->alternatives.bytes;
	for (size_t i = 0; i < g->alternatives.size / sizeof(*a); i++)
		if (holds(g, &a[i], path)) return true;
	return false;
}

bool glob_match(const glob *g, span path)
{
	return any_alternative(g, path, alternative_matches);
}

bool glob_may_match_below(const glob *g, span folder)
{
	return any_alternative(g, folder, alternative_may_match_below);
}
