/* choose.c: which store, which box; opening them once and closing them at the end. */
#include "cli/core.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void cli_keep(cli *c, void *p)
{
	if (!p) return;
	if (c->kept_count == c->kept_capacity) {
		size_t capacity = c->kept_capacity ? c->kept_capacity * 2 : 16;
		void **kept = mem_realloc(c->kept, capacity * sizeof(*kept));
		if (!kept) return; /* lives until the process ends, a moment later */
		c->kept = kept;
		c->kept_capacity = capacity;
	}
	c->kept[c->kept_count++] = p;
}

/* The name that /etc/passwd has for this user, free() it; NULL: none. getpwuid() would load modules into the command, which is linked
 * without a dynamic loader, and die of it. */
static char *login_name(uid_t uid)
{
	char line[1024], *name = NULL;
	FILE *f = fopen("/etc/passwd", "re");
	while (f && !name && fgets(line, sizeof(line), f)) {
		char *password = strchr(line, ':'), *id = password ? strchr(password + 1, ':') : NULL, *end = NULL;
		unsigned long number = id ? strtoul(id + 1, &end, 10) : 0;
		if (id && end > id + 1 && *end == ':' && id[1] >= '0' && id[1] <= '9' && number == uid && password > line)
			name = strndup(line, (size_t)(password - line));
		while (!strchr(line, '\n') && fgets(line, sizeof(line), f)) continue; /* the rest of a longer line */
	}
	if (f) (void)fclose(f);
	return name;
}

static cb_code who_default(cli *c, const char **out, cb_error *err)
{
	*out = c->globals.who;
	if (!*out) *out = getenv("COWBOX_WHO");
	if (!*out || !**out) CB_TRY(cli_config_get(c, NULL, "who", out, err));
	if (!**out) *out = getenv("LOGNAME");
	if (!*out || !**out) *out = getenv("USER");
	if (*out && **out) return CB_OK;
	char *name = login_name(geteuid());
	cli_keep(c, name);
	*out = name ? name : geteuid() == 0 ? "root" : "";
	return CB_OK;
}

/* NULL: the library's default, which knows COWBOX_STORE. */
static cb_code store_named(cli *c, const char **out, cb_error *err)
{
	const char *from_environment = getenv("COWBOX_STORE");
	*out = c->globals.store;
	if (*out && !**out) return cb_err_set(err, CB_INVALID, "--store: an empty name is no folder");
	if (*out || (from_environment && *from_environment)) return CB_OK;
	CB_TRY(cli_config_get(c, NULL, "store", out, err));
	if (!**out) *out = NULL;
	return CB_OK;
}

cb_code cli_store_path(cli *c, char **out, bool *out_default, cb_error *err)
{
	AUTO_BUF buf text = BUF_INIT(64 << 10);
	const char *named = NULL, *from_environment = getenv("COWBOX_STORE"), *data = getenv("XDG_DATA_HOME"),
		   *home = getenv("HOME");
	CB_TRY(store_named(c, &named, err));
	if (!named && from_environment && *from_environment) named = from_environment;
	*out_default = named == NULL;
	if (named) CB_TRY(buf_append_str(&text, named, err));
	else if (data && *data) CB_TRY(buf_printf(&text, err, "%s/cowbox", data));
	else if (home && *home) CB_TRY(buf_printf(&text, err, "%s/.local/share/cowbox", home));
	else return cb_err_set(err, CB_INVALID, "no store named: set COWBOX_STORE or HOME");
	return buf_take(&text, out, NULL, err);
}

cb_code cli_store(cli *c, cb_store **out, cb_error *err)
{
	if (!c->store) {
		const char *path = NULL, *who = "", *durability = "";
		CB_TRY(store_named(c, &path, err));
		CB_TRY(cli_config_get(c, NULL, "durability", &durability, err));
		cb_store_options options = CB_WITH(cb_store_options, .no_create = !(c->command && c->command->flags & CLI_CREATES),
		                                   .full = strcmp(durability, "full") == 0,
		                                   .or_read_only = true); /* what reads can; what writes says why it cannot */
		cb_code code = cb_store_open(path, &options, &c->store, err);
		if (code == CB_NOTFOUND && options.no_create) cli_hint(c, "'cowbox new NAME' makes the first box and the store");
		if (code != CB_OK) return code;
		CB_TRY(who_default(c, &who, err));
		CB_TRY(cb_store_who_set(c->store, who, err));
	}
	*out = c->store;
	return CB_OK;
}

static cb_code chosen_by_folder(cb_store *store, char **out, cb_error *err)
{
	AUTO_FREE char *cwd = getcwd(NULL, 0);
	if (!cwd) return CB_NOTFOUND;
	return cb_folder_box(store, cwd, out, err);
}

static cb_code chosen_by_use(cb_store *store, char **out, cb_error *err)
{
	cb_code code = cb_store_setting_get(store, "use", out, NULL, err);
	if (code != CB_OK || !**out) return code == CB_OK ? CB_NOTFOUND : code;
	cb_box *box = NULL;
	code = cb_box_open(store, *out, &box, err);
	cb_box_close(box);
	if (code != CB_OK) {
		cb_free(*out);
		*out = NULL;
	}
	return code;
}

cb_code cli_chosen(cli *c, const char **out, cb_error *err)
{
	const char *from_environment = getenv("COWBOX_BOX");
	cb_store *store = NULL;
	if (c->globals.box) {
		*out = c->globals.box;
		c->chosen_by = "--box";
	} else if (from_environment && *from_environment) {
		*out = from_environment;
		c->chosen_by = "COWBOX_BOX";
	} else if (c->chosen) {
		*out = c->chosen;
	} else {
		CB_TRY(cli_store(c, &store, err));
		c->chosen_by = "folder";
		cb_code code = chosen_by_folder(store, &c->chosen, err);
		if (code == CB_NOTFOUND) {
			c->chosen_by = "use";
			code = chosen_by_use(store, &c->chosen, err);
		}
		if (code == CB_NOTFOUND) {
			cli_hint(c, "name one ('cowbox list' shows them), or choose one with 'cowbox use BOX'");
			return cb_err_set(err, CB_INVALID, "no box chosen");
		}
		if (code != CB_OK) return code;
		cli_keep(c, c->chosen);
		*out = c->chosen;
	}
	return CB_OK;
}

const char *cli_chosen_by(const cli *c)
{
	return c->chosen_by;
}

cb_code cli_address_name(cli *c, const cli_address *address, char **out, cb_error *err)
{
	const char *box = address->box;
	if (!*box) CB_TRY(cli_chosen(c, &box, err));
	AUTO_BUF buf text = BUF_INIT(4096);
	/* "@3" of a box that was itself chosen at a state is a state of that box. */
	size_t size = address->state[0] ? strcspn(box, "@") : strlen(box);
	CB_TRY(buf_append(&text, box, size, err));
	if (address->state[0]) CB_TRY(buf_printf(&text, err, "@%s", address->state));
	return buf_take(&text, out, NULL, err);
}

/* A handle of this name that was opened to be shared; NULL: none. */
static cb_box *shared_find(const cli *c, const char *name)
{
	for (size_t i = 0; i < c->box_count; i++)
		if (c->box_names[i] && strcmp(c->box_names[i], name) == 0) return c->boxes[i];
	return NULL;
}

/* What is not there: the box, or its step? */
static void hint_missing(cli *c, cb_store *store, const char *name)
{
	char box[CB_NAME_MAX + 1];
	cb_box *there = NULL;
	int size = (int)strcspn(name, "@");
	(void)snprintf(box, sizeof(box), "%.*s", size, name);
	if (!name[size] || cb_box_open(store, box, &there, NULL) != CB_OK) cli_hint(c, "'cowbox list' shows the boxes");
	else cli_hint(c, "'cowbox log %s' shows the steps, 'cowbox checkpoint list %s' the names", box, box);
	cb_box_close(there);
}

static cb_code open_name(cli *c, char *name, bool shared, cb_box **out, cb_error *err)
{
	cb_store *store = NULL;
	cb_box *box = shared ? shared_find(c, name) : NULL;
	if (box) {
		*out = box;
		return CB_OK;
	}
	CB_TRY(cli_store(c, &store, err));
	if (c->box_count == CLI_BOXES_MAX) return cb_err_set(err, CB_LIMIT, "more than %d boxes at once", CLI_BOXES_MAX);
	cli_recover(c, name);
	cb_code code = cb_box_open(store, name, out, err);
	if (code == CB_NOTFOUND) hint_missing(c, store, name);
	if (code == CB_STALE) cli_hint(c, "'cowbox log %.*s' lists the steps that are left", (int)strcspn(name, "@"), name);
	if (code != CB_OK) return code;
	c->box_names[c->box_count] = shared ? name : NULL;
	c->boxes[c->box_count++] = *out;
	return CB_OK;
}

static cb_code open_address(cli *c, const cli_address *address, bool shared, cb_box **out, const char **out_path, cb_error *err)
{
	char *name = NULL, *path = NULL;
	CB_TRY(cli_address_name(c, address, &name, err));
	cli_keep(c, name);
	if (address->has_path) CB_TRY(cli_address_path(address, &path, err));
	cli_keep(c, path);
	CB_TRY(open_name(c, name, shared, out, err));
	if (out_path) *out_path = path ? path : "";
	return CB_OK;
}

cb_code cli_open(cli *c, const char *text, cli_noun noun, cb_box **out, const char **out_path, cb_error *err)
{
	cli_address address = {.path = ""};
	if (text) CB_TRY(cli_address_parse(text, noun, &address, err));
	return open_address(c, &address, false, out, out_path, err);
}

cb_code cli_open_shared(cli *c, const char *text, cli_noun noun, cb_box **out, const char **out_path, cb_error *err)
{
	cli_address address = {.path = ""};
	if (text) CB_TRY(cli_address_parse(text, noun, &address, err));
	return open_address(c, &address, true, out, out_path, err);
}

static cb_code open_writable(cli *c, const char *text, cli_noun noun, bool shared, cb_box **out, const char **out_path,
                             cb_error *err)
{
	cli_address address = {.path = ""};
	AUTO_FREE char *name = NULL;
	if (text) CB_TRY(cli_address_parse(text, noun, &address, err));
	CB_TRY(cli_address_name(c, &address, &name, err));
	if (strchr(name, '@')) {
		cli_hint(c, "'cowbox fork %s NAME' makes a box of it", name);
		return cb_err_set(err, CB_READONLY, "'%s' is an old state and cannot be changed", name);
	}
	CB_TRY(open_address(c, &address, shared, out, out_path, err));
	c->changing = *out;
	return CB_OK;
}

cb_code cli_open_writable(cli *c, const char *text, cli_noun noun, cb_box **out, const char **out_path, cb_error *err)
{
	return open_writable(c, text, noun, false, out, out_path, err);
}

cb_code cli_open_writable_shared(cli *c, const char *text, cli_noun noun, cb_box **out, const char **out_path, cb_error *err)
{
	return open_writable(c, text, noun, true, out, out_path, err);
}

void choose_close(cli *c)
{
	c->changing = NULL;
	while (c->box_count > 0) cb_box_close(c->boxes[--c->box_count]);
	cb_store_close(c->store);
	c->store = NULL;
	for (size_t i = 0; i < c->kept_count; i++) free(c->kept[i]);
	free(c->kept);
	c->kept = NULL;
	c->kept_count = c->kept_capacity = 0;
	c->chosen = NULL;
}
