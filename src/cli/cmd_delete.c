/* cmd_delete.c: delete and rename: boxes go, or get another name; the choice of `use` follows. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

/* What is lost with boxes. */
typedef struct loss {
	uint64_t boxes, steps, checkpoints, files, bytes, forks;
	const char **names; /* of these boxes, sorted */
} loss;

static cb_code count_checkpoint(void *context, const cb_checkpoint *checkpoint, cb_error *err)
{
	(void)checkpoint;
	(void)err;
	((loss *)context)->checkpoints++;
	return CB_OK;
}

/* Not by its newest number: some may be pruned. Step 0 is the box as it was made. */
static cb_code count_step(void *context, const cb_step *step, cb_error *err)
{
	(void)err;
	((loss *)context)->steps += step->seq > 0;
	return CB_OK;
}

static int name_compare(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool goes(const loss *l, const char *name)
{
	return bsearch(&name, l->names, l->boxes, sizeof(*l->names), name_compare) != NULL;
}

static cb_code count_fork(void *context, const cb_box_info *info, cb_error *err)
{
	(void)err;
	loss *l = context;
	l->forks += goes(l, info->origin) && !goes(l, info->name);
	return CB_OK;
}

static cb_code loss_add(cli *c, cb_store *store, const char *name, loss *l, cb_error *err)
{
	cb_box *box = NULL;
	cb_box_info info = CB_INIT(cb_box_info);
	cb_code code = cb_box_open(store, name, &box, err);
	if (code == CB_NOTFOUND) cli_hint(c, "'cowbox list' shows the boxes");
	if (code == CB_OK) code = cb_box_info_get(box, &info, err);
	if (code == CB_OK) code = cb_checkpoint_list(box, count_checkpoint, l, err);
	uint64_t others = l->steps;
	bool known = code == CB_OK;
	if (known) code = cb_log(box, NULL, count_step, l, NULL, err);
	if (known && code == CB_CORRUPT) { /* a history that is damaged can be deleted like any other */
		l->steps = others + info.seq;
		code = CB_OK;
	}
	cb_box_close(box);
	if (code != CB_OK) return code;
	l->files += info.files;
	l->bytes += info.bytes;
	return CB_OK;
}

/* All are looked at before the forks are counted: each box is listed once, however many go. */
static cb_code loss_count(cli *c, cb_store *store, const char *const *names, size_t count, loss *l, cb_error *err)
{
	for (size_t i = 0; i < count; i++) {
		cli_address address;
		l->names[i] = names[i];
		CB_TRY(cli_address_parse(names[i], CLI_BOX, &address, err));
		CB_TRY(loss_add(c, store, names[i], l, err));
	}
	l->boxes = count;
	qsort(l->names, count, sizeof(*l->names), name_compare);
	for (size_t i = 1; i < count; i++)
		if (strcmp(l->names[i], l->names[i - 1]) == 0) return cli_usage(c, err, "'%s' is named twice", l->names[i]);
	return cb_box_list(store, count_fork, l, err);
}

static cb_code use_follow(cb_store *store, const char *name, const char *next, cb_error *err)
{
	char *used = NULL;
	cb_code code = cb_store_setting_get(store, "use", &used, NULL, err);
	if (code == CB_NOTFOUND) return CB_OK;
	if (code == CB_OK && strcmp(used, name) == 0) code = cb_store_setting_set(store, "use", next, next ? CB_STRING : 0, err);
	cb_free(used);
	return code;
}

static cb_code confirm(cli *c, const loss *l, const char *first, cb_error *err)
{
	char what[128], forks[64] = "", size[CLI_FORMAT_MAX], steps[CLI_FORMAT_MAX], checkpoints[CLI_FORMAT_MAX];
	if (l->boxes == 1) (void)snprintf(what, sizeof(what), "'%s' and its history", first);
	else (void)snprintf(what, sizeof(what), "%llu boxes and their histories", (unsigned long long)l->boxes);
	if (l->forks > 0)
		(void)snprintf(forks, sizeof(forks), "; %llu fork%s live%s on", (unsigned long long)l->forks,
		               l->forks == 1 ? "" : "s", l->forks == 1 ? "s" : "");
	return cli_confirm(c, err, "%s would be lost: %s, %s, %llu files and folders (%s)%s", what,
	                   cli_count_words(l->steps, "step", steps), cli_count_words(l->checkpoints, "checkpoint", checkpoints),
	                   (unsigned long long)l->files, cli_size_words(c, l->bytes, size), forks);
}

static cb_code delete_all(cb_store *store, const char *const *names, size_t count, cb_error *err)
{
	for (size_t i = 0; i < count; i++) {
		cb_code code = cb_box_delete(store, names[i], err);
		if (code == CB_OK) code = use_follow(store, names[i], NULL, err);
		if (code != CB_OK && i > 0) return cb_err_wrap(err, code, "deleting '%s', after %zu others", names[i], i);
		if (code != CB_OK) return code;
	}
	return CB_OK;
}

static cb_code run_delete(cli *c, const cli_call *call, cb_error *err)
{
	const char *const *names = NULL;
	size_t count = cli_operand_list(call, "BOX", &names);
	AUTO_FREE const char **sorted = mem_alloc((count + 1) * sizeof(*sorted));
	if (!sorted) return cb_err_nomem(err);
	loss l = {.names = sorted};
	cb_store *store = NULL;
	CB_TRY(cli_store(c, &store, err));
	CB_TRY(loss_count(c, store, names, count, &l, err));
	CB_TRY(confirm(c, &l, names[0], err));
	CB_TRY(delete_all(store, names, count, err));
	if (!cli_is_json(c)) return CB_OK;
	json_writer *w = cli_json(c);
	json_object_begin(w);
	json_member_array(w, "deleted");
	for (size_t i = 0; i < count; i++) json_str(w, names[i]);
	json_array_end(w);
	json_member_uint(w, "steps", l.steps);
	json_member_uint(w, "checkpoints", l.checkpoints);
	json_member_uint(w, "forks", l.forks);
	json_object_end(w);
	return CB_OK;
}

static cb_code run_rename(cli *c, const cli_call *call, cb_error *err)
{
	const char *name = cli_operand_text(call, "BOX"), *next = cli_operand_text(call, "NEW");
	cb_store *store = NULL;
	cli_address address;
	CB_TRY(cli_address_parse(name, CLI_BOX, &address, err));
	CB_TRY(cli_store(c, &store, err));
	cb_code code = cb_box_rename(store, name, next, err);
	if (code == CB_EXISTS) cli_hint(c, "take another name, or 'cowbox delete %s' first", next);
	if (code == CB_NOTFOUND) cli_hint(c, "'cowbox list' shows the boxes");
	if (code != CB_OK) return code;
	CB_TRY(use_follow(store, name, next, err));
	if (!cli_is_json(c)) return CB_OK;
	json_writer *w = cli_json(c);
	json_object_begin(w);
	json_member_str(w, "name", next);
	json_member_str(w, "old_name", name);
	json_object_end(w);
	return CB_OK;
}

const cli_command cmd_delete = {
	.name = "delete",
	.group = "Boxes",
	.summary = "delete boxes and their history",
	.text = "The boxes, their steps and their checkpoints are gone; forks of them live on. What would be lost is said before; "
		"off a terminal "
		"it needs --yes. Boxes are deleted one after the other, once all of them were found. Space comes back with 'cowbox "
		"gc'.",
	.operands =
		(const cli_operand[]){
			{CLI_BOX, "BOX", false, true, "the boxes"},
			{0},
		},
	.examples = (const char *const[]){"cowbox delete other --yes", NULL},
	.json = "deleted               the names\nsteps checkpoints     how many are lost\nforks                 how many live on",
	.run = run_delete,
};

const cli_command cmd_rename = {
	.name = "rename",
	.group = "Boxes",
	.summary = "give a box another name",
	.text = "Its history, forks, folder and the choice of 'cowbox use' follow.",
	.operands =
		(const cli_operand[]){
			{CLI_BOX, "BOX", false, false, "the box"},
			{CLI_WORD, "NEW", false, false, "its new name"},
			{0},
		},
	.examples = (const char *const[]){"cowbox rename other archive", NULL},
	.json = "name        the new name\nold_name    the one before",
	.run = run_rename,
};
