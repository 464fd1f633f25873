/* cmd_edit.c: exact text replaced in a file; texts from words, files, or JSON on standard input. */
#include "cli/cli.h"

#include <string.h>

enum {
	EDIT_MAX_BYTES = 64 << 20,
	EDITS_MAX = 1000,
};

typedef struct edit_one {
	cb_replacement texts;
	bool all, own; /* own: it says itself how often */
	uint64_t expect;
} edit_one;

typedef struct edit_list {
	cli *c;
	edit_one *edits;
	size_t count;
	cb_edit_options options;
} edit_list;

static cb_code list_room(edit_list *k, size_t count, cb_error *err)
{
	if (count == 0) return cb_err_set(err, CB_INVALID, "the edit holds no replacement");
	if (count > EDITS_MAX) return cb_err_set(err, CB_LIMIT, "%zu edits: at most %d", count, EDITS_MAX);
	k->edits = mem_alloc(count * sizeof(*k->edits));
	if (!k->edits) return cb_err_nomem(err);
	cli_keep(k->c, k->edits);
	memset(k->edits, 0, count * sizeof(*k->edits));
	k->count = count;
	return CB_OK;
}

/* ---- JSON ---- */

static cb_code known_members(const json_value *object, const char *const *names, cb_error *err)
{
	for (size_t i = 0; i < json_count(object); i++) {
		span key = json_key_at(object, i);
		const char *const *n = names;
		while (*n && !span_equal(span_str(*n), key)) n++;
		if (!*n)
			return cb_err_set(err, CB_INVALID,
			                  "the JSON edit has an unknown member \"%.40s\": old, new, all, expect, edits",
			                  (const char *)key.bytes);
	}
	return CB_OK;
}

static cb_code take_text(cli *c, const json_value *object, const char *name, const char **out, size_t *out_size, cb_error *err)
{
	AUTO_BUF buf text = BUF_INIT(EDIT_MAX_BYTES);
	bool found = false;
	char *bytes = NULL;
	CB_TRY(json_get_bytes(object, name, &text, &found, err));
	if (!found) return cb_err_set(err, CB_INVALID, "the JSON edit lacks \"%s\"", name);
	CB_TRY(buf_take(&text, &bytes, out_size, err));
	cli_keep(c, bytes);
	*out = bytes;
	return CB_OK;
}

static cb_code take_counts(const json_value *object, bool *all, uint64_t *expect, bool *out_given, cb_error *err)
{
	const json_value *a = json_get(object, "all"), *e = json_get(object, "expect");
	if (a && !json_as_bool(a, all)) return cb_err_set(err, CB_INVALID, "\"all\" is %s, not true or false", json_type_name(a));
	if (e && (!json_as_uint(e, expect) || *expect == 0))
		return cb_err_set(err, CB_INVALID, "\"expect\" is not a whole number above 0");
	*out_given = a || e;
	return CB_OK;
}

static cb_code take_edit(edit_list *k, const json_value *object, edit_one *out, cb_error *err)
{
	static const char *const names[] = {"old", "old_base64", "new", "new_base64", "all", "expect", "expected_version", NULL};
	if (!json_is(object, JSON_OBJECT))
		return cb_err_set(err, CB_INVALID, "a JSON edit is %s, not an object", json_type_name(object));
	CB_TRY(known_members(object, names, err));
	CB_TRY(take_text(k->c, object, "old", &out->texts.old_text, &out->texts.old_size, err));
	CB_TRY(take_text(k->c, object, "new", &out->texts.new_text, &out->texts.new_size, err));
	return take_counts(object, &out->all, &out->expect, &out->own, err);
}

static cb_code take_document(edit_list *k, const json_value *root, cb_error *err)
{
	static const char *const names[] = {"edits", "all", "expect", "expected_version", NULL};
	const json_value *edits = json_get(root, "edits"), *version = json_get(root, "expected_version");
	bool given = false;
	if (version && !json_as_uint(version, &k->options.expected_version))
		return cb_err_set(err, CB_INVALID, "\"expected_version\" is not a whole number");
	if (!edits) {
		CB_TRY(list_room(k, 1, err));
		return take_edit(k, root, &k->edits[0], err);
	}
	CB_TRY(known_members(root, names, err));
	if (!json_is(edits, JSON_ARRAY)) return cb_err_set(err, CB_INVALID, "\"edits\" is %s, not an array", json_type_name(edits));
	CB_TRY(take_counts(root, &k->options.all, &k->options.expect, &given, err));
	CB_TRY(list_room(k, json_count(edits), err));
	for (size_t i = 0; i < k->count; i++) {
		cb_code code = take_edit(k, json_at(edits, i), &k->edits[i], err);
		if (code != CB_OK) return cb_err_wrap(err, code, "edit %zu", i + 1);
	}
	return CB_OK;
}

static cb_code from_json(edit_list *k, cb_error *err)
{
	AUTO_BUF buf text = BUF_INIT(EDIT_MAX_BYTES);
	AUTO_JSON json_doc *doc = NULL;
	CB_TRY(cli_stdin(k->c, EDIT_MAX_BYTES, &text, err));
	cb_code code = json_parse(buf_span(&text), NULL, &doc, err);
	if (code != CB_OK) {
		cli_hint(k->c, "without --old the edit is read from standard input: {\"old\": \"...\", \"new\": \"...\"}");
		return code;
	}
	return take_document(k, json_root(doc), err);
}

/* ---- words and files ---- */

static cb_code one_text(edit_list *k, const cli_call *call, const char *word, const char *file, const char **out, size_t *out_size,
                        cb_error *err)
{
	const char *text = cli_text(call, word), *path = cli_text(call, file);
	if (text && path) return cli_usage(k->c, err, "--%s and --%s: one of them", word, file);
	if (!text && !path) return cli_usage(k->c, err, "--%s or --%s is missing", word, file);
	if (text) {
		*out = text;
		*out_size = strlen(text);
		return CB_OK;
	}
	AUTO_BUF buf content = BUF_INIT(0);
	char *bytes = NULL;
	CB_TRY(cli_host_file(k->c, path, EDIT_MAX_BYTES, &content, err));
	CB_TRY(buf_take(&content, &bytes, out_size, err));
	cli_keep(k->c, bytes);
	*out = bytes;
	return CB_OK;
}

static cb_code from_words(edit_list *k, const cli_call *call, cb_error *err)
{
	CB_TRY(list_room(k, 1, err));
	cb_replacement *r = &k->edits[0].texts;
	CB_TRY(one_text(k, call, "old", "old-file", &r->old_text, &r->old_size, err));
	return one_text(k, call, "new", "new-file", &r->new_text, &r->new_size, err);
}

/* ---- the call ---- */

/* Edits that each say how often are one transaction, so that they are one step too. */
static cb_code apply_each(const edit_list *k, cb_box *box, const char *path, uint64_t *out, cb_error *err)
{
	cb_edit_options o = k->options;
	for (size_t i = 0; i < k->count; i++) {
		const edit_one *e = &k->edits[i];
		uint64_t replaced = 0;
		o.all = e->own ? e->all : k->options.all;
		o.expect = e->own ? e->expect : k->options.expect;
		cb_code code = cb_edit(box, path, &e->texts, 1, &o, &replaced, err);
		if (code != CB_OK) return k->count > 1 ? cb_err_wrap(err, code, "edit %zu of %zu", i + 1, k->count) : code;
		*out += replaced;
		o.expected_version = CB_VERSION_ANY;
	}
	return CB_OK;
}

static cb_code apply(const edit_list *k, cb_box *box, const char *path, uint64_t *out, uint64_t *out_seq, cb_error *err)
{
	if (k->count == 1) {
		CB_TRY(apply_each(k, box, path, out, err));
		*out_seq = cb_box_step(box);
		return CB_OK;
	}
	cb_txn_options options =
		CB_WITH(cb_txn_options, .step = &CB_WITH(cb_step_info, .kind = "edit", .params = path, .params_size = CB_STRING));
	cb_commit_result result = CB_INIT(cb_commit_result);
	cb_box *txn = NULL;
	CB_TRY(cb_txn_begin(box, &options, &txn, err));
	cb_code code = apply_each(k, txn, path, out, err);
	if (code == CB_OK) code = cb_txn_commit(txn, NULL, &result, err);
	cb_box_close(txn);
	*out_seq = result.seq;
	return code;
}

static cb_code report(cli *c, cb_box *box, uint64_t seq, const char *path, uint64_t replaced, cb_error *err)
{
	cb_stat_info info = CB_INIT(cb_stat_info);
	if (!cli_is_json(c)) {
		if (cli_is_terminal(c)) cli_print(c, "%llu replaced\n", (unsigned long long)replaced);
		return CB_OK;
	}
	CB_TRY(cli_stat_after(c, box, seq, path, &info, err));
	json_writer *w = cli_json(c);
	json_object_begin(w);
	json_member_uint(w, "step", seq);
	json_member_str(w, "path", path);
	json_member_uint(w, "replaced", replaced);
	cli_json_stat(w, &info);
	json_object_end(w);
	return CB_OK;
}

static cb_code run_edit(cli *c, const cli_call *call, cb_error *err)
{
	edit_list k = {.c = c, .options = CB_INIT(cb_edit_options)};
	cb_box *box = NULL;
	const char *path = NULL;
	uint64_t replaced = 0, seq = 0;
	bool words = cli_given(call, "old") || cli_given(call, "old-file") || cli_given(call, "new") || cli_given(call, "new-file");
	CB_TRY(cli_open_writable(c, cli_operand_text(call, "PATH"), CLI_PATH, &box, &path, err));
	CB_TRY(words ? from_words(&k, call, err) : from_json(&k, err));
	if (cli_flag(call, "all")) k.options.all = true;
	if (cli_given(call, "expect")) k.options.expect = cli_number(call, "expect", 0);
	if (cli_given(call, "expect") && k.options.expect == 0)
		return cb_err_set(err, CB_INVALID, "--expect 0: an edit that replaces nothing");
	if (cli_given(call, "expected-version")) k.options.expected_version = cli_number(call, "expected-version", 0);
	cb_code code = apply(&k, box, path, &replaced, &seq, err);
	if (code == CB_CONFLICT && !k.options.expect) cli_hint(c, "--all replaces every one, --expect N exactly N");
	return code == CB_OK ? report(c, box, seq, path, replaced, err) : code;
}

static const cli_operand operands[] = {
	{CLI_PATH, "PATH", false, false, "the file: BOX:/PATH, or a path in the chosen box"},
	{0},
};

static const cli_option options[] = {
	{CLI_TEXT, "old", 0, "TEXT", "the text to replace, exactly as it stands in the file"},
	{CLI_TEXT, "new", 0, "TEXT", "what to put there; may be empty"},
	{CLI_TEXT, "old-file", 0, "FILE", "take the old text from a file of the host"},
	{CLI_TEXT, "new-file", 0, "FILE", "take the new text from a file of the host"},
	{CLI_FLAG, "all", 0, NULL, "replace it wherever it stands, however often"},
	{CLI_COUNT, "expect", 0, "N", "replace it wherever it stands, which must be exactly N times; also with --all"},
	{CLI_COUNT, "expected-version", 0, "N", "fail when the file's version is another"},
	{0},
};

const cli_command cmd_edit = {
	.name = "edit",
	.group = "Files",
	.summary = "replace exact text in a file",
	.text = "The old text must stand in the file exactly once, with --expect N exactly N times, with --all alone at least "
		"once; else nothing is changed and the message names the lines. Texts are bytes: nothing is a pattern.\n\nWithout "
		"--old the edit is read from standard input as "
		"JSON: "
		"{\"old\": \"...\", \"new\": \"...\", \"all\": true, \"expect\": 2}, or {\"edits\": [...]} with several of these, "
		"made one after "
		"the other as one step. \"old_base64\" and \"new_base64\" give bytes that are not text.",
	.operands = operands,
	.options = options,
	.examples =
		(const char *const[]){
			"cowbox edit demo:/work/a.txt --old hello --new goodbye",
			"echo '{\"edits\": [{\"old\": \"hello\", \"new\": \"goodbye\"}]}' | cowbox edit demo:/work/a.txt", NULL},
	.json = "step       the step it made; 0 when nothing changed\npath       the file\nreplaced   how many places\ntype mode "
		"size links ino version mtime ctime    as of stat",
	.run = run_edit,
};
