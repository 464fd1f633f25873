/* test_step_kinds.c: the kinds of steps that history.h lists are those that calls record, and it lists all of them. */
#include "contract/test_docs_kit.h"

#include "base/attr.h"

static cb_store *s;
static cb_box *b;
static cb_error err;
static char seen[1024];

static cb_code note_kind(void *context, const cb_step *step, cb_error *e)
{
	(void)context, (void)e;
	char word[64];
	(void)snprintf(word, sizeof(word), " %s ", step->kind);
	CHECK(strlen(seen) + strlen(word) < sizeof(seen));
	if (!strstr(seen, word)) (void)strcat(seen, word);
	return CB_OK;
}

static void do_files(void)
{
	CHECK_OK(cb_write_file(b, "/work/a", "one\n", 4, NULL, &err));
	CHECK_OK(cb_write_file(b, "/work/a", "two\n", 4, &CB_WITH(cb_write_options, .append = true), &err));
	CHECK_OK(cb_write_file(b, "/work/empty", "", 0, &CB_WITH(cb_write_options, .append = true), &err));
	CHECK_OK(cb_edit(b, "/work/a", &(cb_replacement){"one", 3, "1", 1}, 1, NULL, NULL, &err));
	CHECK_OK(cb_truncate(b, "/work/a", 2, &err));
	CHECK_OK(cb_mkdir(b, "/work/d", 0755, 0, &err));
	CHECK_OK(cb_rmdir(b, "/work/d", &err));
	CHECK_OK(cb_link(b, "/work/a", "/work/b", &err));
	CHECK_OK(cb_symlink(b, "a", "/work/l", &err));
	CHECK_OK(cb_copy(b, "/work/a", "/work/c", 0, &err));
	CHECK_OK(cb_rename(b, "/work/c", "/work/e", 0, &err));
	CHECK_OK(cb_unlink(b, "/work/b", &err));
	CHECK_OK(cb_remove(b, "/work/e", &err));
	CHECK_OK(cb_chmod(b, "/work/a", 0600, 0, &err));
	CHECK_OK(cb_utimens(b, "/work/a", 1, 1, 0, &err));
	CHECK_OK(cb_xattr_set(b, "/work/a", "user.x", "1", 1, 0, &err));
	CHECK_OK(cb_tag_add(b, "/work/a", "t", &err));
	CHECK_OK(cb_meta_set(b, "/work/a", "m", "1", 1, &err));
	CHECK_OK(cb_kv_set(b, "k", "1", 1, &err));
}

static void do_history(void)
{
	cb_box *fork = must_fork(s, "demo", "fork"), *unpacked = NULL;
	must_write(fork, "/work/f", "1");
	CHECK_OK(cb_merge(b, fork, NULL, NULL, NULL, &err));
	CHECK_OK(cb_undo(b, 0, NULL, &err));
	CHECK_OK(cb_redo(b, NULL, &err));
	CHECK_OK(cb_unlink(b, "/work/f", &err));
	CHECK_OK(cb_restore(b, fork, "/work/f", NULL, &err));
	CHECK_OK(cb_step_record(b, NULL, NULL, &err));
	cb_box *t = must_begin(b);
	must_write(t, "/work/t", "1");
	(void)must_commit(t);
	char *folder = text_of("%s/folder", test_tmpdir());
	CHECK(system(text_of("mkdir '%s' && echo one > '%s/x'", folder, folder)) == 0);
	CHECK_OK(cb_import(b, folder, &CB_WITH(cb_import_options, .to = "/in", .link = true), NULL, &err));
	must_write(b, "/in/x", "two\n");
	CHECK_OK(cb_apply(b, NULL, NULL, NULL, NULL, &err));
	FILE *pack = tmpfile();
	CHECK(pack);
	CHECK_OK(cb_pack(b, fileno(pack), &CB_WITH(cb_pack_options, .no_history = true), NULL, &err));
	rewind(pack);
	CHECK_OK(cb_unpack(s, fileno(pack), "unpacked", NULL, NULL, &err));
	(void)fclose(pack);
	unpacked = must_open(s, "unpacked");
	CHECK_OK(cb_log(unpacked, NULL, note_kind, NULL, NULL, &err));
	CHECK_OK(cb_log(fork, NULL, note_kind, NULL, NULL, &err));
	cb_box_close(unpacked);
	cb_box_close(fork);
}

TEST(the_header_lists_every_kind)
{
	s = test_store_open(true);
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	do_files();
	do_history();
	CHECK_OK(cb_log(b, NULL, note_kind, NULL, NULL, &err));
	const char *header = must_text("include/cowbox/history.h");
	const char *from = strstr(header, " *   step 0 "), *end = strstr(header, " *   by the caller ");
	CHECK(from && end && from < end);
	/* Listed and made. Of the first words of its lines, and in brackets, none is a kind. */
	char *list = text_of("%.*s txn, record,", (int)(end - from), from);
	const char *const heads[] = {
		"step 0", "files  ", "key-values", "history  ", "host, programs", "(of a pack without history)", "(an empty file)"};
	for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
		char *at = strstr(list, heads[i]);
		CHECK_MSG(at, "%s", heads[i]);
		memset(at, ' ', strlen(heads[i]));
	}
	unsigned listed = 0;
	for (char *word = strtok(list, " ,*\n"); word; word = strtok(NULL, " ,*\n"), listed++)
		CHECK_MSG(strcmp(word, "exec") == 0 || strstr(seen, text_of(" %s ", word)), "'%s' is listed: who makes it?", word);
	/* Made and listed. */
	unsigned made = 1; /* exec, which needs a sandbox */
	for (char *word = strtok(seen, " "); word; word = strtok(NULL, " ")) made++;
	CHECK_U64(made, listed);
	cb_box_close(b);
	cb_store_close(s);
}
