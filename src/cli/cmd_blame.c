/* cmd_blame.c: which step wrote each line of a file. */
#include "cli/steps.h"

#include <string.h>

/* A step that lines come from; each is looked up once. */
typedef struct author {
	char box[CB_NAME_MAX + 1];
	uint64_t seq; /* 0: before what was pruned */
	bool foreign; /* in another store */
	step_note note;
	bool known;
} author;

typedef struct blamed_line {
	size_t start, size; /* in text */
	size_t author;
} blamed_line;

typedef struct blaming {
	buf lines;   /* blamed_line */
	buf authors; /* author */
	buf text;
	uint64_t first, last;
	size_t total;
	size_t recent; /* lines of one step stand together */
} blaming;

static void blaming_done(blaming *b)
{
	buf_done(&b->lines);
	buf_done(&b->authors);
	buf_done(&b->text);
}
#define AUTO_BLAMING ATTR_CLEANUP(blaming_done)

static author *authors_of(const blaming *b, size_t *count)
{
	*count = b->authors.size / sizeof(author);
	return (author *)(void *)b->authors.bytes;
}

static bool is_author(const author *a, const cb_blame_line *line)
{
	bool boxed = line->seq || line->foreign;
	return a->seq == line->seq && a->foreign == line->foreign && (!boxed || strcmp(a->box, line->box) == 0);
}

static cb_code find_author(blaming *b, const cb_blame_line *line, size_t *out, cb_error *err)
{
	size_t count;
	author *all = authors_of(b, &count);
	if (b->recent < count && is_author(&all[b->recent], line)) {
		*out = b->recent;
		return CB_OK;
	}
	for (*out = 0; *out < count; ++*out)
		if (is_author(&all[*out], line)) break;
	b->recent = *out;
	if (*out < count) return CB_OK;
	author a = {.seq = line->seq, .foreign = line->foreign};
	(void)snprintf(a.box, sizeof(a.box), "%s", line->seq || line->foreign ? line->box : "");
	return buf_append(&b->authors, &a, sizeof(a), err);
}

static cb_code add_line(void *context, const cb_blame_line *line, cb_error *err)
{
	blaming *b = context;
	b->total++;
	if (line->line < b->first || line->line > b->last) return CB_OK;
	blamed_line l = {b->text.size, line->size, 0};
	CB_TRY(find_author(b, line, &l.author, err));
	CB_TRY(buf_append(&b->text, line->text, line->size, err));
	return buf_append(&b->lines, &l, sizeof(l), err);
}

/* A box may be gone, or its step pruned between two calls: then the number is all there is. */
static cb_code look_up(cli *c, cb_box *box, const char *name, blaming *b, cb_error *err)
{
	size_t count;
	author *all = authors_of(b, &count);
	cb_store *store = NULL;
	CB_TRY(cli_store(c, &store, err));
	for (size_t i = 0; i < count; i++) {
		cb_box *other = NULL;
		if (all[i].seq == 0) continue;
		bool own = strcmp(all[i].box, name) == 0;
		if (!own && cb_box_open(store, all[i].box, &other, NULL) != CB_OK) continue;
		all[i].known = step_note_get(own ? box : other, all[i].seq, &all[i].note, NULL) == CB_OK;
		cb_box_close(other);
	}
	return CB_OK;
}

/* ---- -L ---- */

static cb_code parse_range(cli *c, const char *text, uint64_t *first, uint64_t *last, cb_error *err)
{
	*first = 1;
	*last = UINT64_MAX;
	if (!text) return CB_OK;
	AUTO_FREE char *left = mem_strdup(text);
	if (!left) return cb_err_nomem(err);
	char *comma = strchr(left, ',');
	if (comma) *comma = 0;
	bool good = cli_parse_count(left, first, NULL) == CB_OK && *first > 0;
	if (good && !comma) *last = *first;
	if (good && comma && comma[1] == '+') {
		uint64_t more = 0;
		good = cli_parse_count(comma + 2, &more, NULL) == CB_OK && more > 0 && more < UINT64_MAX - *first;
		*last = *first + more - 1;
	} else if (good && comma && comma[1]) {
		good = cli_parse_count(comma + 1, last, NULL) == CB_OK && *last >= *first;
	}
	return good ? CB_OK : cli_usage(c, err, "'%s': write lines as 10, 10,20, 10,+5 or 10,", text);
}

/* ---- telling ---- */

static void author_json(json_writer *w, const author *a)
{
	json_member_uint(w, "step", a->seq);
	json_member_str(w, "box", a->seq || a->foreign ? a->box : NULL);
	if (a->foreign) json_member_bool(w, "foreign", true);
	if (!a->known) return;
	json_member_str(w, "kind", a->note.kind);
	json_member_str(w, "who", a->note.who);
	cli_json_time(w, "time", a->note.ended_ns);
}

static void tell_json(cli *c, const blaming *b, const cb_box_info *info, const char *path)
{
	size_t count;
	const author *all = authors_of(b, &count);
	const blamed_line *lines = (const blamed_line *)(const void *)b->lines.bytes;
	json_writer *w = cli_json(c);
	json_object_begin(w);
	json_member_str(w, "box", info->name);
	json_member_uint(w, "step", info->seq);
	json_member_str(w, "path", path);
	json_member_array(w, "lines");
	for (size_t i = 0; i < b->lines.size / sizeof(*lines); i++) {
		const char *text = (const char *)b->text.bytes + lines[i].start;
		size_t size = lines[i].size;
		json_object_begin(w);
		json_member_uint(w, "line", b->first + i);
		author_json(w, &all[lines[i].author]);
		json_member_bytes(w, "text", text, size > 0 && text[size - 1] == '\n' ? size - 1 : size);
		json_object_end(w);
	}
	json_array_end(w);
	json_object_end(w);
}

/* "7", "demo@5" of another box, or "demo in another store". */
static const char *step_label(const author *a, const char *box, char out[CB_NAME_MAX + 32])
{
	if (a->foreign) (void)snprintf(out, CB_NAME_MAX + 32, "%s in another store", a->box);
	else if (a->seq == 0) (void)snprintf(out, CB_NAME_MAX + 32, "pruned");
	else if (strcmp(a->box, box) == 0) (void)snprintf(out, CB_NAME_MAX + 32, "%llu", (unsigned long long)a->seq);
	else (void)snprintf(out, CB_NAME_MAX + 32, "%s@%llu", a->box[0] ? a->box : "?", (unsigned long long)a->seq);
	return out;
}

static void tell_lines(cli *c, const blaming *b, const char *box)
{
	size_t count, label_width = 0, who_width = 0, kind_width = 0;
	const author *all = authors_of(b, &count);
	const blamed_line *lines = (const blamed_line *)(const void *)b->lines.bytes;
	char label[CB_NAME_MAX + 32], when[CLI_FORMAT_MAX];
	for (size_t i = 0; i < count; i++) {
		size_t n = strlen(step_label(&all[i], box, label));
		if (n > label_width) label_width = n;
		if (strlen(all[i].note.who) > who_width) who_width = strlen(all[i].note.who);
		if (strlen(all[i].note.kind) > kind_width) kind_width = strlen(all[i].note.kind);
	}
	for (size_t i = 0; i < b->lines.size / sizeof(*lines); i++) {
		const author *a = &all[lines[i].author];
		const char *text = (const char *)b->text.bytes + lines[i].start;
		size_t size = lines[i].size;
		cli_print(c, "%s%-*s%s ", cli_on(c, CLI_YELLOW), (int)label_width, step_label(a, box, label), cli_off(c));
		cli_print_name(c, a->note.kind);
		cli_print(c, "%*s ", (int)(kind_width - strlen(a->note.kind)), "");
		cli_print_name(c, a->note.who);
		cli_print(c, "%*s %s%-16s%s %5llu) ", (int)(who_width - strlen(a->note.who)), "", cli_on(c, CLI_DIM),
		          a->known ? cli_human_time(c, a->note.ended_ns, when) : "", cli_off(c),
		          (unsigned long long)(b->first + i));
		cli_print_bytes(c, text, size > 0 && text[size - 1] == '\n' ? size - 1 : size);
		cli_print(c, "\n");
	}
}

static cb_code run_blame(cli *c, const cli_call *call, cb_error *err)
{
	cb_box *box = NULL;
	cb_box_info info = CB_INIT(cb_box_info);
	const char *path = NULL;
	AUTO_BLAMING blaming b = {.lines = BUF_INIT(SIZE_MAX), .authors = BUF_INIT(SIZE_MAX), .text = BUF_INIT(SIZE_MAX)};
	CB_TRY(parse_range(c, cli_text(call, "lines"), &b.first, &b.last, err));
	CB_TRY(step_open(c, cli_operand_text(call, "PATH"), CLI_PATH, &box, &path, &info, err));
	CB_TRY(cb_blame(box, path, add_line, &b, err));
	if (b.first > b.total && cli_given(call, "lines"))
		return cb_err_set(err, CB_NOTFOUND, "'%s' has only %zu lines", path, b.total);
	CB_TRY(look_up(c, box, info.name, &b, err));
	if (cli_is_json(c)) tell_json(c, &b, &info, path);
	else tell_lines(c, &b, info.name);
	return CB_OK;
}

const cli_command cmd_blame = {
	.name = "blame",
	.group = "History",
	.summary = "show which step wrote each line of a file",
	.text = "Per line: the step, its kind, who, when, the line's number and text. The file is followed through renames, and in "
		"a fork back into "
		"its origin, whose steps are told as BOX@STEP. Lines that pruned steps wrote are marked 'pruned'; what was the "
		"same before and after them, in a file of the same name, counts as not written by them. Lines of an unpacked fork "
		"that were there when it was "
		"forked "
		"are of 'BOX in another store'. What undo, "
		"redo and "
		"restore brought back is whose it was. Lines that a merge brought are the merge's: the blame of the box that was "
		"merged ('cowbox log' names it) tells who wrote them, as long as that box is not deleted.",
	.operands = (const cli_operand[]){{CLI_PATH, "PATH", false, false, "the file; of an old state as BOX@STEP:/PATH"}, {0}},
	.options =
		(const cli_option[]){{CLI_TEXT, "lines", 'L', "FIRST,LAST", "only these lines: 10,20 or 10,+5 or 10 or 10,"}, {0}},
	.examples = (const char *const[]){"cowbox blame demo:/work/a.txt", "cowbox blame demo:/work/src/main.c -L 1,2", NULL},
	.json = "box step path   the file\n"
		"lines           for each: line, step (0: before what was pruned, or foreign), box, foreign (true: written in that "
		"box, in "
		"another store), kind, who, time, text without its newline",
	.flags = CLI_PAGED,
	.run = run_blame,
};
