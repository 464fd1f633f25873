/*
 * The database was mapped: cut short under an open handle (or on a disk that failed), reading it was a SIGBUS that ended the host program.
 * Now it is an error. (`live` and the wal-index are mapped still, and docs/format.md says so.)
 */
#include <unistd.h>

#include "harness/boxes.h"

TEST(database_cut_short)
{
	cb_error err = {0};
	cb_box *b = NULL;
	cb_store *s = test_store_open(false);
	char file[600];
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	for (unsigned i = 0; i < 300; i++) {
		char path[64], text[3000];
		(void)snprintf(path, sizeof(path), "/work/f%u", i);
		memset(text, 'a' + (int)(i % 26), sizeof(text));
		CHECK_OK(cb_write_file(b, path, text, sizeof(text), NULL, &err));
	}
	cb_box_close(b);
	CHECK_OK(cb_store_vacuum(s, &err)); /* everything is in the database now, not in the log */
	cb_store_close(s);
	s = test_store_reopen();
	b = must_open(s, "demo");
	(void)snprintf(file, sizeof(file), "%s/cowbox.db", test_store_path());
	CHECK(truncate(file, 40960) == 0);
	unsigned damaged = 0;
	for (unsigned i = 0; i < 300; i++) {
		char path[64], *text = NULL;
		size_t size = 0;
		(void)snprintf(path, sizeof(path), "/work/f%u", i);
		cb_code code = cb_read_file(b, path, &text, &size, &err);
		CHECK_MSG(code == CB_OK || code == CB_CORRUPT, "%s: %s", cb_code_name(code), err.message);
		if (code == CB_OK) CHECK(size == 3000 && text[0] == 'a' + (int)(i % 26) && text[2999] == text[0]);
		damaged += code == CB_CORRUPT;
		cb_free(text);
	}
	CHECK(damaged > 0);
	uint64_t complaints = 0;
	cb_code code = cb_store_check(s, NULL, NULL, &complaints, &err);
	CHECK(code == CB_CORRUPT || (code == CB_OK && complaints > 0));
	cb_box_close(b);
	cb_store_close(s);
}
