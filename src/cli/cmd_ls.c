/* cmd_ls.c: the entries of folders: names one per line, in columns on a terminal, or long. */
#include "cli/cli.h"

#include <string.h>

enum { LS_ENTRIES_BYTES = 1 << 30 }; /* of names of one folder in memory, for columns */

typedef struct place {
	cb_box *box;
	const char *text, *path;
	cb_stat_info info;
} place;

/* One entry to print; lies in a buffer behind its folder's others. */
typedef struct entry {
	cb_stat_info info;
	size_t name_at; /* in `names` */
} entry;

typedef struct ls {
	cli *c;
	cb_box *box;
	const char *folder; /* NULL: the entries' names are whole paths */
	bool is_long;
	buf entries, names;
} ls;

static cb_code entry_add(void *context, const char *name, const cb_stat_info *info, cb_error *err)
{
	ls *l = context;
	entry e = {*info, l->names.size};
	CB_TRY(buf_append(&l->names, name, strlen(name) + 1, err));
	return buf_append(&l->entries, &e, sizeof(e), err);
}

static const entry *entry_at(const ls *l, size_t i)
{
	return (const entry *)(const void *)l->entries.bytes + i;
}

static const char *name_of(const ls *l, const entry *e)
{
	return (const char *)l->names.bytes + e->name_at;
}

static cb_code path_of(const ls *l, const entry *e, char **out, cb_error *err)
{
	AUTO_BUF buf text = BUF_INIT(64 << 10);
	size_t size = l->folder ? strlen(l->folder) : 0;
	while (size > 0 && l->folder[size - 1] == '/') size--;
	CB_TRY(buf_append(&text, l->folder ? l->folder : "", size, err));
	if (l->folder) CB_TRY(buf_append_byte(&text, '/', err));
	CB_TRY(buf_append_str(&text, name_of(l, e), err));
	return buf_take(&text, out, NULL, err);
}

static cli_style style_of(const cb_stat_info *info)
{
	if (info->type == CB_DIR) return CLI_BLUE;
	if (info->type == CB_SYMLINK) return CLI_CYAN;
	return info->mode & 0111 ? CLI_GREEN : CLI_PLAIN;
}

static const char *mark_of(const ls *l, const cb_stat_info *info)
{
	return cli_is_terminal(l->c) && info->type == CB_DIR ? "/" : "";
}

static void print_entry(const ls *l, const entry *e)
{
	cli_style style = style_of(&e->info);
	if (style != CLI_PLAIN) cli_print(l->c, "%s", cli_on(l->c, style));
	cli_print_name(l->c, name_of(l, e));
	if (style != CLI_PLAIN) cli_print(l->c, "%s", cli_off(l->c));
	cli_print(l->c, "%s", mark_of(l, &e->info));
}

static cb_code target_of(const ls *l, const entry *e, char **out, cb_error *err)
{
	AUTO_FREE char *path = NULL;
	CB_TRY(path_of(l, e, &path, err));
	return cb_readlink(l->box, path, out, NULL, err);
}

static cb_code print_long(const ls *l, size_t count, cb_error *err)
{
	uint64_t links = 1;
	int size_width = 1, links_width = 1;
	char size[CLI_FORMAT_MAX], mode[CLI_FORMAT_MAX], when[CLI_FORMAT_MAX];
	for (size_t i = 0; i < count; i++) {
		const cb_stat_info *info = &entry_at(l, i)->info;
		int n = (int)strlen(cli_human_size(l->c, info->size, size));
		if (n > size_width) size_width = n;
		if (info->links > links) links = info->links;
	}
	for (; links >= 10; links /= 10) links_width++;
	for (size_t i = 0; i < count; i++) {
		const entry *e = entry_at(l, i);
		cli_print(l->c, "%s %*u %*s %s ", cli_format_mode(e->info.type, e->info.mode, mode), links_width, e->info.links,
		          size_width, cli_human_size(l->c, e->info.size, size), cli_human_time(l->c, e->info.mtime_ns, when));
		print_entry(l, e);
		if (e->info.type == CB_SYMLINK) {
			char *target = NULL;
			CB_TRY(target_of(l, e, &target, err));
			cli_print(l->c, " -> ");
			cli_print_name(l->c, target);
			cb_free(target);
		}
		cli_print(l->c, "\n");
	}
	return CB_OK;
}

static void print_columns(const ls *l, size_t count)
{
	size_t widest = 1;
	for (size_t i = 0; i < count; i++) {
		const entry *e = entry_at(l, i);
		size_t width = cli_name_width(l->c, name_of(l, e)) + strlen(mark_of(l, &e->info));
		if (width > widest) widest = width;
	}
	size_t columns = cli_columns(l->c) / (widest + 2);
	if (columns == 0 || !cli_is_terminal(l->c)) columns = 1;
	size_t rows = (count + columns - 1) / columns;
	for (size_t r = 0; r < rows; r++) {
		for (size_t i = r; i < count; i += rows) {
			const entry *e = entry_at(l, i);
			print_entry(l, e);
			size_t width = cli_name_width(l->c, name_of(l, e)) + strlen(mark_of(l, &e->info));
			if (i + rows < count) cli_print(l->c, "%*s", (int)(widest + 2 - width), "");
		}
		cli_print(l->c, "\n");
	}
}

static cb_code print_json(const ls *l, size_t count, cb_error *err)
{
	json_writer *w = cli_json(l->c);
	for (size_t i = 0; i < count; i++) {
		const entry *e = entry_at(l, i);
		AUTO_FREE char *path = NULL;
		char *target = NULL;
		const char *name = name_of(l, e), *slash = strrchr(name, '/');
		CB_TRY(path_of(l, e, &path, err));
		json_object_begin(w);
		json_member_str(w, "name", slash && slash[1] ? slash + 1 : name);
		json_member_str(w, "path", path);
		cli_json_stat(w, &e->info);
		if (e->info.type == CB_SYMLINK) CB_TRY(cb_readlink(l->box, path, &target, NULL, err));
		if (target) json_member_str(w, "target", target);
		cb_free(target);
		json_object_end(w);
	}
	return CB_OK;
}

static cb_code print_all(const ls *l, cb_error *err)
{
	size_t count = l->entries.size / sizeof(entry);
	if (count == 0) return CB_OK;
	if (cli_is_json(l->c)) return print_json(l, count, err);
	if (l->is_long) return print_long(l, count, err);
	print_columns(l, count);
	return CB_OK;
}

static cb_code list_folder(cli *c, const place *p, bool is_long, cb_error *err)
{
	AUTO_BUF buf entries = BUF_INIT(LS_ENTRIES_BYTES), names = BUF_INIT(LS_ENTRIES_BYTES);
	ls l = {c, p->box, p->path, is_long, entries, names};
	cb_code code = cb_readdir(p->box, p->path, entry_add, &l, err);
	if (code == CB_OK) code = print_all(&l, err);
	entries = l.entries;
	names = l.names;
	return code;
}

/* Files, links and, with --directory, folders: by the paths that were typed. */
static cb_code list_self(cli *c, const place *p, bool is_long, cb_error *err)
{
	AUTO_BUF buf entries = BUF_INIT(LS_ENTRIES_BYTES), names = BUF_INIT(LS_ENTRIES_BYTES);
	ls l = {c, p->box, NULL, is_long, entries, names};
	cb_code code = entry_add(&l, p->path, &p->info, err);
	if (code == CB_OK) code = print_all(&l, err);
	entries = l.entries;
	names = l.names;
	return code;
}

static cb_code place_open(cli *c, const char *text, bool is_long, bool self, place *p, cb_error *err)
{
	p->text = text;
	cb_code code = cli_open_shared(c, text, CLI_PLACE, &p->box, &p->path, err);
	if (code == CB_NOTFOUND && text && !strpbrk(text, "@:/"))
		cli_hint(c, "'cowbox list' shows the boxes; ':%s' is a path in the chosen box", text);
	if (code != CB_OK) return code;
	if (!*p->path) p->path = "/work";
	/* As ls does: a link that is named is followed to a folder, unless it is to be described itself. */
	p->info = CB_INIT(cb_stat_info);
	CB_TRY(cb_stat(p->box, p->path, CB_NOFOLLOW, &p->info, err));
	cb_stat_info behind = CB_INIT(cb_stat_info);
	if (p->info.type == CB_SYMLINK && !is_long && !self && cb_stat(p->box, p->path, 0, &behind, NULL) == CB_OK &&
	    behind.type == CB_DIR)
		p->info = behind;
	return CB_OK;
}

static cb_code print_places(cli *c, const cli_call *call, const place *places, size_t count, cb_error *err)
{
	bool is_long = cli_flag(call, "long"), self = cli_flag(call, "directory"), something = false;
	for (size_t i = 0; i < count; i++) {
		if (places[i].info.type == CB_DIR && !self) continue;
		CB_TRY(list_self(c, &places[i], is_long, err));
		something = true;
	}
	for (size_t i = 0; i < count && !self; i++) {
		if (places[i].info.type != CB_DIR) continue;
		if (count > 1 && !cli_is_json(c)) {
			cli_print(c, "%s", something ? "\n" : "");
			cli_print_name(c, places[i].text);
			cli_print(c, ":\n");
		}
		CB_TRY(list_folder(c, &places[i], is_long, err));
		something = true;
	}
	return CB_OK;
}

static cb_code run_ls(cli *c, const cli_call *call, cb_error *err)
{
	const char *const *texts = NULL;
	size_t count = cli_operand_list(call, "PLACE", &texts);
	size_t n = count ? count : 1;
	AUTO_FREE place *places = mem_alloc(n * sizeof(*places));
	if (!places) return cb_err_nomem(err);
	for (size_t i = 0; i < n; i++)
		CB_TRY(place_open(c, count ? texts[i] : NULL, cli_flag(call, "long"), cli_flag(call, "directory"), &places[i],
		                  err));
	if (cli_is_json(c)) {
		json_object_begin(cli_json(c));
		json_member_array(cli_json(c), "entries");
	}
	CB_TRY(print_places(c, call, places, n, err));
	if (cli_is_json(c)) {
		json_array_end(cli_json(c));
		json_object_end(cli_json(c));
	}
	return CB_OK;
}

const cli_command cmd_ls = {
	.name = "ls",
	.group = "Files",
	.summary = "list folders and files",
	.text = "A PLACE is a box or a state (its /work is meant) or a path in one; without one /work of the chosen box. Names "
		"come in byte "
		"order, one per line, in columns on a terminal; names that begin with a dot are listed too. 'cowbox tree' shows "
		"what is "
		"below, 'cowbox find' searches.",
	.operands =
		(const cli_operand[]){
			{CLI_PLACE, "PLACE", true, true, "boxes, states, folders or files: demo, demo@3, demo:/work/src, :src"},
			{0},
		},
	.options =
		(const cli_option[]){
			{CLI_FLAG, "long", 'l', NULL, "mode, links, size, time, name and where links point"},
			{CLI_FLAG, "directory", 'd', NULL, "folders themselves, not what is in them"},
			{CLI_FLAG, "all", 'a', NULL, "accepted for habit: dot names are always listed"},
			{0},
		},
	.examples = (const char *const[]){"cowbox ls demo", "cowbox ls -l demo@before-refactor:/work /work/src", NULL},
	.json = "entries    for each: name, path, type, mode, size, links, ino, version, mtime, ctime, and of links target",
	.run = run_ls,
};
