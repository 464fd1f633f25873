/*
 * cmd_config.c: the configuration: the user's file, and what is set for a box, which wins. The keys stand in one table (config.c).
 */
#include "cli/cli.h"

#include <string.h>

static cb_code key_of(const cli_call *call, const cli_config_key **out, cb_error *err)
{
	const char *name = cli_operand_text(call, "KEY");
	*out = cli_config_find(name);
	return *out ? CB_OK : cb_err_set(err, CB_INVALID, "no setting '%.64s': 'cowbox config' lists them", name);
}

/* The box of --for; NULL without it. */
static cb_code box_of(cli *c, const cli_call *call, const cli_config_key *key, cb_box **out, cb_error *err)
{
	const char *name = cli_text(call, "for");
	*out = NULL;
	if (!name) return CB_OK;
	if (key && !key->per_box) return cb_err_set(err, CB_INVALID, "%s holds for the user, not for one box", key->name);
	return cli_open_writable(c, name, CLI_BOX, out, NULL, err);
}

static cb_code box_value(cb_box *box, const char *name, const char *value, cb_error *err)
{
	char setting[128];
	(void)snprintf(setting, sizeof(setting), "config.%s", name);
	return cb_setting_set(box, setting, value, value ? CB_STRING : 0, err);
}

/* Where a value comes from: "box", "user" or "default". */
static cb_code source_of(cli *c, cb_box *box, const cli_config_key *key, const char **out, cb_error *err)
{
	char setting[128];
	char *text = NULL;
	const char *ignored = NULL;
	(void)snprintf(setting, sizeof(setting), "config.%s", key->name);
	cb_code code = box && key->per_box ? cb_setting_get(box, setting, &text, NULL, err) : CB_NOTFOUND;
	cb_free(text);
	*out = "box";
	if (code != CB_NOTFOUND) return code;
	code = cli_config_user_get(c, key->name, &ignored, err);
	*out = code == CB_OK ? "user" : "default";
	return code == CB_NOTFOUND ? CB_OK : code;
}

static void json_row(cli *c, const cli_config_key *key, const char *value, const char *source)
{
	json_writer *w = cli_json(c);
	json_object_begin(w);
	json_member_str(w, "key", key->name);
	json_member_str(w, "value", value);
	json_member_str(w, "source", source);
	json_member_str(w, "default", key->otherwise);
	json_member_bool(w, "per_box", key->per_box);
	json_member_str(w, "help", key->help);
	json_object_end(w);
}

static cb_code show_key(cli *c, cb_box *box, const cli_config_key *key, cb_error *err)
{
	const char *value = NULL, *source = NULL;
	CB_TRY(cli_config_get(c, box, key->name, &value, err));
	CB_TRY(source_of(c, box, key, &source, err));
	if (cli_is_json(c)) {
		json_row(c, key, value, source);
		return CB_OK;
	}
	bool set = strcmp(source, "default") != 0;
	AUTO_BUF buf written = BUF_INIT(SIZE_MAX);
	CB_TRY(cli_config_encode(value, &written, err));
	CB_TRY(buf_append_byte(&written, 0, err));
	cli_print(c, "%s%s%s = ", set ? cli_on(c, CLI_BOLD) : "", key->name, set ? cli_off(c) : "");
	cli_print_name(c, (const char *)written.bytes);
	cli_print(c, "%s  # %s; %s%s\n", cli_on(c, CLI_DIM), source, key->help, cli_off(c));
	return CB_OK;
}

static cb_code run_list(cli *c, const cli_call *call, cb_error *err)
{
	cb_box *box = NULL;
	AUTO_FREE char *file = cli_config_path();
	CB_TRY(box_of(c, call, NULL, &box, err));
	if (cli_is_json(c)) {
		json_object_begin(cli_json(c));
		json_member_str(cli_json(c), "file", file);
		json_member_array(cli_json(c), "keys");
	}
	for (const cli_config_key *k = cli_config_keys; k->name; k++) CB_TRY(show_key(c, box, k, err));
	if (cli_is_json(c)) {
		json_array_end(cli_json(c));
		json_object_end(cli_json(c));
	}
	return CB_OK;
}

static cb_code run_get(cli *c, const cli_call *call, cb_error *err)
{
	const cli_config_key *key = NULL;
	const char *value = NULL, *source = NULL;
	cb_box *box = NULL;
	CB_TRY(key_of(call, &key, err));
	CB_TRY(box_of(c, call, key, &box, err));
	CB_TRY(cli_config_get(c, box, key->name, &value, err));
	CB_TRY(source_of(c, box, key, &source, err));
	if (cli_is_json(c)) {
		json_row(c, key, value, source);
		return CB_OK;
	}
	cli_print_name(c, value);
	cli_print(c, "\n");
	return CB_OK;
}

/* What the library itself keeps of a box's configuration follows it. */
static cb_code box_follow(cli *c, cb_box *box, const cli_config_key *key, cb_error *err)
{
	const char *value = NULL;
	uint64_t steps = 0;
	if (strcmp(key->name, "checkpoint.every") != 0) return CB_OK;
	CB_TRY(cli_config_get(c, box, key->name, &value, err));
	CB_TRY(cli_parse_count(value, &steps, err));
	return cb_box_checkpoint_every_set(box, steps, err);
}

static cb_code change(cli *c, const cli_call *call, const char *value, cb_error *err)
{
	const cli_config_key *key = NULL;
	cb_box *box = NULL;
	CB_TRY(key_of(call, &key, err));
	if (value) CB_TRY(cli_config_check(key, value, err));
	CB_TRY(box_of(c, call, key, &box, err));
	if (box) {
		CB_TRY(box_value(box, key->name, value, err));
		CB_TRY(box_follow(c, box, key, err));
	} else {
		CB_TRY(cli_config_user_set(c, key->name, value, err));
	}
	const char *now = NULL, *source = NULL;
	if (!cli_is_json(c)) return CB_OK;
	CB_TRY(cli_config_get(c, box, key->name, &now, err));
	CB_TRY(source_of(c, box, key, &source, err));
	json_row(c, key, now, source);
	return CB_OK;
}

static cb_code run_set(cli *c, const cli_call *call, cb_error *err)
{
	return change(c, call, cli_operand_text(call, "VALUE"), err);
}

static cb_code run_unset(cli *c, const cli_call *call, cb_error *err)
{
	return change(c, call, NULL, err);
}

static const cli_option options[] = {
	{CLI_TEXT, "for", 0, "BOX", "for this box, instead of the user"},
	{0},
};

static const char key_json[] = "key value\nsource      box, user or default\ndefault per_box help";

static const cli_command config_list = {
	.name = "list",
	.summary = "list all keys and what holds",
	.text = "Each key with its value, where that comes from, and what it means, as lines of the user's file.",
	.options = options,
	.examples = (const char *const[]){"cowbox config list", "cowbox config list --for demo", NULL},
	.json = "file    the user's file\nkeys    for each: key, value, source (box, user or default), default, per_box, help",
	.run = run_list,
};

static const cli_command config_get = {
	.name = "get",
	.summary = "show the value that holds",
	.operands = (const cli_operand[]){{CLI_WORD, "KEY", false, false, "the key"}, {0}},
	.options = options,
	.examples = (const char *const[]){"cowbox config get diff.context", NULL},
	.json = key_json,
	.run = run_get,
};

static const cli_command config_set = {
	.name = "set",
	.summary = "set a value for the user or a box",
	.operands = (const cli_operand[]){{CLI_WORD, "KEY", false, false, "the key"},
                                          {CLI_WORD, "VALUE", false, false, "its value, one line"},
                                          {0}},
	.options = options,
	.examples =
		(const char *const[]){"cowbox config set diff.context 5", "cowbox config set checkpoint.every 20 --for demo", NULL},
	.json = key_json,
	.run = run_set,
};

static const cli_command config_unset = {
	.name = "unset",
	.summary = "go back to what else holds",
	.operands = (const cli_operand[]){{CLI_WORD, "KEY", false, false, "the key"}, {0}},
	.options = options,
	.examples = (const char *const[]){"cowbox config unset diff.context", NULL},
	.json = key_json,
	.run = run_unset,
};

const cli_command cmd_config = {
	.name = "config",
	.group = "Keeping house",
	.summary = "show and change the configuration",
	.text = "The user's file ($COWBOX_CONFIG, else cowbox/config in the configuration folder of the user) has lines of "
		"'key = value'; a '#' at the beginning of a line or after a blank begins a comment, unless it stands in a value in "
		"double quotes, where \\\" and \\\\ are a quote and a backslash. Lines that set nothing are said and ignored. What "
		"is "
		"set for a box with --for wins over the file and stays with the box: it is not undone and not forked. Options of "
		"the commands and environment variables win over both.",
	.examples = (const char *const[]){"cowbox config", "cowbox config set checkpoint.every 20 --for demo", NULL},
	.subs = (const cli_command *const[]){&config_list, &config_get, &config_set, &config_unset, NULL},
	.fallback = &config_list,
};
