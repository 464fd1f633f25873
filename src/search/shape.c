/*
 * shape.c: reads a pattern and rewrites it so that it cannot match a newline.
 *
 * It takes only what it knows; the rest of PCRE2's language makes the pattern "not simple", which is slower and never wrong. A pattern
 * that PCRE2 refuses may be taken here: PCRE2 sees the original too.
 */
#include "search/shape.h"

#include "base/utf8.h"

enum {
	DEPTH_MAX = 50,
	ACROSS_MAX = 64 << 10,
};

typedef struct literal {
	uint8_t bytes[SHAPE_LITERAL_MAX];
	size_t size;
} literal;

typedef struct reading {
	const char *at;
	buf *out;
	literal run, best; /* the run of plain characters under way; the longest that every match holds */
	bool plain;        /* nothing but plain characters so far */
	bool odd;          /* something that is not understood */
	unsigned depth;
	cb_code code;
	cb_error *err;
} reading;

static void put(reading *r, const char *bytes, size_t size)
{
	if (r->code == CB_OK) r->code = buf_append(r->out, bytes, size, r->err);
	if (r->code == CB_LIMIT) {
		r->odd = true;
		r->code = CB_OK;
	}
}

static void put_str(reading *r, const char *s)
{
	put(r, s, strlen(s));
}

static void run_end(reading *r)
{
	if (r->run.size > r->best.size) r->best = r->run;
	r->run.size = 0;
}

/* ---- quantifiers ---- */

typedef struct quantifier {
	const char *text;
	size_t size; /* 0: none */
	bool optional;
} quantifier;

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* "{2}", "{2,}", "{2,5}": its size, 0 when the brace stands for itself; *odd where versions of PCRE2 differ. */
static size_t braces(const char *p, bool *optional, bool *odd)
{
	const char *at = p + 1;
	*optional = true;
	for (; is_digit(*at); at++) *optional = *optional && *at == '0';
	if (at == p + 1) {
		if (*at == ',' || *at == ' ' || *at == '\t') *odd = true;
		return 0;
	}
	if (*at == ',')
		for (at++; is_digit(*at);) at++;
	if (*at == '}') return (size_t)(at + 1 - p);
	*odd = true;
	return 0;
}

static quantifier take_quantifier(reading *r)
{
	quantifier q = {.text = r->at};
	if (*r->at == '*' || *r->at == '?' || *r->at == '+') {
		q.size = 1;
		q.optional = *r->at != '+';
	} else if (*r->at == '{') {
		q.size = braces(r->at, &q.optional, &r->odd);
	}
	if (q.size && (r->at[q.size] == '?' || r->at[q.size] == '+')) q.size++;
	r->at += q.size;
	if (q.size == 0) q.optional = false;
	return q;
}

/* ---- atoms ---- */

/* A character that stands for itself. */
static void plain_char(reading *r, const char *bytes, size_t size, const char *written, size_t written_size)
{
	put(r, written, written_size);
	quantifier q = take_quantifier(r);
	put(r, q.text, q.size);
	bool full = r->run.size + size > sizeof(r->run.bytes);
	if (q.size || full) r->plain = false;
	if (q.optional || full) {
		run_end(r);
		return;
	}
	memcpy(r->run.bytes + r->run.size, bytes, size);
	r->run.size += size;
	/* Repeated: one is certain, what follows it is not its neighbour. */
	if (q.size) run_end(r);
}

/* Anything of one character that is not a character itself. */
static void one_of(reading *r, const char *written)
{
	run_end(r);
	r->plain = false;
	put_str(r, written);
	quantifier q = take_quantifier(r);
	put(r, q.text, q.size);
}

static void take_escape(reading *r)
{
	char c = r->at[1];
	char same[3] = {'\\', c, 0};
	if (c == 0) {
		r->odd = true;
		return;
	}
	r->at += 2;
	switch (c) {
	case 'd':
	case 'w':
	case 'h':
	case 'S':
	case 'N':
	case 'b':
	case 'B':
		one_of(r, same);
		return;
	case 's':
		one_of(r, "[^\\S\\n]");
		return;
	case 'D':
		one_of(r, "[^\\d\\n]");
		return;
	case 'W':
		one_of(r, "[^\\w\\n]");
		return;
	case 'H':
		one_of(r, "[^\\h\\n]");
		return;
	case 'n': /* no line holds one */
		one_of(r, "(?:(?!))");
		return;
	case 't':
		plain_char(r, "\t", 1, same, 2);
		return;
	case 'r':
		plain_char(r, "\r", 1, same, 2);
		return;
	default:
		break;
	}
	if (c >= '1' && c <= '9' && !is_digit(*r->at)) {
		one_of(r, same);
		return;
	}
	bool alphanumeric = is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
	if (alphanumeric || (unsigned char)c >= 0x7f || (unsigned char)c < 0x20) r->odd = true;
	else plain_char(r, &c, 1, same, 2);
}

/* "[...]": finds its end. *safe when it certainly holds no newline. */
static const char *class_end(const char *p, bool *safe, bool *odd)
{
	const char *at = p + 1;
	*safe = true;
	if (*at == '^') at++;
	if (*at == ']') at++;
	for (; *at && *at != ']'; at++) {
		if (*at == '[' && (at[1] == ':' || at[1] == '.' || at[1] == '=')) {
			char kind[3] = {at[1], ']', 0};
			const char *close = strstr(at + 2, kind);
			*safe = false;
			if (close) at = close + 1;
		} else if (*at == '\\') {
			at++;
			if (!*at) break;
			if (*at == 'Q' || *at == 'E') *odd = true;
			if (!strchr("dwh.-]^\\/\"'*+?(){}|$[ ", *at)) *safe = false;
		} else if ((unsigned char)*at < 0x20) {
			*safe = false;
		}
	}
	return *at ? at + 1 : NULL;
}

static void take_class(reading *r)
{
	bool safe = false;
	const char *begin = r->at, *end = class_end(begin, &safe, &r->odd);
	if (!end) r->odd = true;
	if (r->odd) return;
	run_end(r);
	r->plain = false;
	r->at = end;
	if (begin[1] == '^') {
		/* The newline comes first; what then stands second must not change its meaning by that. */
		bool quote = begin[2] == ']' || begin[2] == '-';
		put_str(r, quote ? "[^\\n\\" : "[^\\n");
		put(r, begin + 2, (size_t)(end - begin - 2));
	} else if (safe) {
		put(r, begin, (size_t)(end - begin));
	} else {
		put_str(r, "(?:(?!\\n)");
		put(r, begin, (size_t)(end - begin));
		put_str(r, ")");
	}
	quantifier q = take_quantifier(r);
	put(r, q.text, q.size);
}

static void take_alternatives(reading *r);

/* What "(" opens: its size, 0 when it is not understood; *certain when a match goes through what is inside. */
static size_t group_head(const char *p, bool *certain)
{
	static const char *const around[] = {"(?=", "(?!", "(?<=", "(?<!"};
	*certain = true;
	if (p[1] == '*') return 0;
	if (p[1] != '?') return 1;
	if (p[2] == ':' || p[2] == '>') return 3;
	*certain = false;
	for (size_t i = 0; i < ARRAY_LEN(around); i++)
		if (strncmp(p, around[i], strlen(around[i])) == 0) return strlen(around[i]);
	return 0;
}

static void take_group(reading *r)
{
	bool certain = false;
	size_t head = group_head(r->at, &certain);
	if (head == 0 || r->depth == DEPTH_MAX) {
		r->odd = true;
		return;
	}
	run_end(r);
	r->plain = false;
	literal before = r->best;
	put(r, r->at, head);
	r->at += head;
	r->depth++;
	take_alternatives(r);
	r->depth--;
	if (r->odd || *r->at != ')') {
		r->odd = true;
		return;
	}
	put(r, ")", 1);
	r->at++;
	quantifier q = take_quantifier(r);
	put(r, q.text, q.size);
	if (!certain || q.optional) r->best = before;
}

static void take_atom(reading *r)
{
	uint32_t c;
	size_t size;
	switch (*r->at) {
	case '\\':
		take_escape(r);
		return;
	case '[':
		take_class(r);
		return;
	case '(':
		take_group(r);
		return;
	case '.':
	case '^':
		r->at++;
		one_of(r, r->at[-1] == '.' ? "." : "^");
		return;
	case '$': /* also before the CR of a line that ends in CR LF */
		r->at++;
		one_of(r, "(?=\\r?$)");
		return;
	case '*':
	case '+':
	case '?':
		r->odd = true;
		return;
	case '{':
		if (braces(r->at, &(bool){false}, &r->odd)) r->odd = true;
		break;
	default:
		break;
	}
	if (r->odd) return;
	size = utf8_take(span_str(r->at), &c);
	if (c == UTF8_BAD) {
		r->odd = true;
		return;
	}
	const char *begin = r->at;
	r->at += size;
	plain_char(r, begin, size, begin, size);
}

/* Up to ")" or the end. */
static void take_alternatives(reading *r)
{
	literal before = r->best;
	bool several = false;
	while (!r->odd && *r->at && *r->at != ')') {
		if (*r->at != '|') {
			take_atom(r);
			continue;
		}
		several = true;
		r->plain = false;
		run_end(r);
		put(r, "|", 1);
		r->at++;
	}
	run_end(r);
	if (several) r->best = before;
}

cb_code shape_read(const char *pattern, shape *out, cb_error *err)
{
	*out = (shape){.across = BUF_INIT(ACROSS_MAX)};
	if (strncmp(pattern, "(?i)", 4) == 0) {
		out->ignore_case = true;
		pattern += 4;
	}
	reading r = {.at = pattern, .out = &out->across, .plain = true, .err = err};
	take_alternatives(&r);
	if (r.code == CB_OK) r.code = buf_append_byte(&out->across, 0, err);
	if (r.code != CB_OK) {
		shape_done(out);
		return r.code;
	}
	out->across.size--;
	out->simple = !r.odd && *r.at == 0;
	if (!out->simple) return CB_OK;
	out->literal_only = r.plain && r.best.size > 0;
	memcpy(out->literal, r.best.bytes, r.best.size);
	out->literal_size = r.best.size;
	return CB_OK;
}

void shape_done(shape *s)
{
	buf_done(&s->across);
}
