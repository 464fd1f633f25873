/* cmd_kv.c: the key-values of a box. Values are any bytes; they fork, undo and merge with the box. */
#include "cli/cli.h"

#include <string.h>

enum { KV_VALUE_BYTES = 256 << 20 }; /* read into memory; the library has its own bound */

typedef struct setting {
	const char *key;
	buf value;
} setting;

static cb_code set_work(void *context, cb_box *box, cb_error *err)
{
	const setting *s = context;
	return cb_kv_set(box, s->key, s->value.bytes ? (const void *)s->value.bytes : "", s->value.size, err);
}

static void report(cli *c, const char *key, uint64_t seq)
{
	if (!cli_is_json(c)) return;
	json_writer *w = cli_json(c);
	json_object_begin(w);
	json_member_uint(w, "step", seq);
	json_member_str(w, "key", key);
	json_object_end(w);
}

static cb_code value_of(cli *c, const cli_call *call, buf *out, cb_error *err)
{
	const char *text = cli_operand_text(call, "VALUE");
	if (strcmp(text, "-") == 0) return cli_stdin(c, KV_VALUE_BYTES, out, err);
	*out = BUF_INIT(KV_VALUE_BYTES);
	return buf_append(out, text, strlen(text), err);
}

static cb_code run_set(cli *c, const cli_call *call, cb_error *err)
{
	setting s = {cli_operand_text(call, "KEY"), BUF_INIT(0)};
	cb_box *box = NULL;
	uint64_t seq = 0;
	CB_TRY(cli_open_writable(c, cli_operand_text(call, "BOX"), CLI_BOX, &box, NULL, err));
	cli_step step = {"kv", &s.key, 1, true};
	cb_code code = value_of(c, call, &s.value, err);
	if (code == CB_OK) code = cli_step_run(c, box, &step, set_work, &s, &seq, err);
	buf_done(&s.value);
	if (code == CB_OK) report(c, s.key, seq);
	return code;
}

static cb_code run_get(cli *c, const cli_call *call, cb_error *err)
{
	const char *key = cli_operand_text(call, "KEY");
	cb_box *box = NULL;
	char *value = NULL;
	size_t size = 0;
	CB_TRY(cli_open(c, cli_operand_text(call, "STATE"), CLI_STATE, &box, NULL, err));
	cb_code code = cb_kv_get(box, key, &value, &size, err);
	if (code == CB_NOTFOUND) cli_hint(c, "'cowbox kv list' shows the keys");
	if (code != CB_OK) return code;
	if (cli_is_json(c)) {
		json_writer *w = cli_json(c);
		json_object_begin(w);
		json_member_str(w, "key", key);
		json_member_bytes(w, "value", value, size);
		json_object_end(w);
	} else if (cli_is_terminal(c)) {
		cli_print_bytes(c, value, size);
		cli_print(c, "\n");
	} else {
		cli_write(c, value, size);
	}
	cb_free(value);
	return CB_OK;
}

static cb_code delete_work(void *context, cb_box *box, cb_error *err)
{
	return cb_kv_delete(box, context, err);
}

static cb_code run_delete(cli *c, const cli_call *call, cb_error *err)
{
	const char *key = cli_operand_text(call, "KEY");
	AUTO_FREE char *copy = mem_strdup(key);
	cb_box *box = NULL;
	uint64_t seq = 0;
	if (!copy) return cb_err_nomem(err);
	CB_TRY(cli_open_writable(c, cli_operand_text(call, "BOX"), CLI_BOX, &box, NULL, err));
	cli_step step = {"kv", &key, 1, true};
	cb_code code = cli_step_run(c, box, &step, delete_work, copy, &seq, err);
	if (code == CB_NOTFOUND) cli_hint(c, "'cowbox kv list' shows the keys");
	if (code == CB_OK) report(c, key, seq);
	return code;
}

static cb_code list_one(void *context, const char *key, const char *value, size_t size, cb_error *err)
{
	(void)err;
	cli *c = context;
	char text[CLI_FORMAT_MAX];
	if (cli_is_json(c)) {
		json_writer *w = cli_json(c);
		json_object_begin(w);
		json_member_str(w, "key", key);
		json_member_uint(w, "size", size);
		json_member_bytes(w, "value", value, size);
		json_object_end(w);
		return CB_OK;
	}
	cli_print_name(c, key);
	cli_print(c, "\t%s\n", cli_human_size(c, size, text));
	return CB_OK;
}

static cb_code run_list(cli *c, const cli_call *call, cb_error *err)
{
	const char *prefix = cli_text(call, "prefix");
	cb_box *box = NULL;
	CB_TRY(cli_open(c, cli_operand_text(call, "STATE"), CLI_STATE, &box, NULL, err));
	if (cli_is_json(c)) {
		json_object_begin(cli_json(c));
		json_member_array(cli_json(c), "keys");
	}
	CB_TRY(cb_kv_list(box, prefix ? prefix : "", list_one, c, err));
	if (cli_is_json(c)) {
		json_array_end(cli_json(c));
		json_object_end(cli_json(c));
	}
	return CB_OK;
}

static const char change_json[] = "step    the step it made; 0 when nothing changed\nkey     the key";

static const cli_command kv_set = {
	.name = "set",
	.summary = "set the value of a key",
	.text = "The value is kept as it is, without a newline.",
	.operands =
		(const cli_operand[]){
			{CLI_BOX, "BOX", true, false, "the box (default: the chosen one)"},
			{CLI_WORD, "KEY", false, false, "the key"},
			{CLI_WORD, "VALUE", false, false, "the value; '-' reads standard input"},
			{0},
		},
	.examples = (const char *const[]){"cowbox kv set demo plan 'first the tests'",
                                          "printf '\\001\\377' | cowbox kv set demo state -", NULL},
	.json = change_json,
	.run = run_set,
};

static const cli_command kv_get = {
	.name = "get",
	.summary = "print the value of a key",
	.text = "The bytes are exact; on a terminal control bytes are escaped and a newline follows.",
	.operands =
		(const cli_operand[]){
			{CLI_STATE, "STATE", true, false, "a box or a state of one (default: the chosen box)"},
			{CLI_WORD, "KEY", false, false, "the key"},
			{0},
		},
	.examples = (const char *const[]){"cowbox kv get demo plan", NULL},
	.json = "key      the key\nvalue    its value, and value_base64 when it is not UTF-8",
	.run = run_get,
};

static const cli_command kv_delete = {
	.name = "delete",
	.summary = "delete a key",
	.text = "Its value is gone from the newest state; older states keep it.",
	.operands =
		(const cli_operand[]){
			{CLI_BOX, "BOX", true, false, "the box (default: the chosen one)"},
			{CLI_WORD, "KEY", false, false, "the key"},
			{0},
		},
	.examples = (const char *const[]){"cowbox kv delete demo plan", NULL},
	.json = change_json,
	.run = run_delete,
};

static const cli_command kv_list = {
	.name = "list",
	.summary = "list the keys with the sizes of their values",
	.text = "In byte order, one per line.",
	.operands =
		(const cli_operand[]){
			{CLI_STATE, "STATE", true, false, "a box or a state of one (default: the chosen box)"},
			{0},
		},
	.options =
		(const cli_option[]){
			{CLI_TEXT, "prefix", 0, "TEXT", "only keys that begin with this"},
			{0},
		},
	.examples = (const char *const[]){"cowbox kv list demo", "cowbox kv list demo@before-refactor --prefix pl", NULL},
	.json = "keys    for each: key, size, value, and value_base64 when it is not UTF-8",
	.run = run_list,
};

const cli_command cmd_kv = {
	.name = "kv",
	.group = "Files",
	.summary = "keys and values that live with the box",
	.text = "Plans, counters, results: small things that are no files. They are part of every state: they fork, undo, diff and "
		"merge with the "
		"box.",
	.subs = (const cli_command *const[]){&kv_set, &kv_get, &kv_delete, &kv_list, NULL},
};
