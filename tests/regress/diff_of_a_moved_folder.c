/* A patch knows files only: below a folder that moved, each file is moved, with what changed in it. The list has the folder's one entry. */
#include "harness/boxes.h"

static char *text_of(cb_box *from, cb_box *to)
{
	cb_error err = {0};
	char *text = NULL;
	CHECK_OK(cb_diff_text(from, to, NULL, &text, NULL, &err));
	return test_keep(text);
}

TEST(diff_of_a_moved_folder)
{
	cb_error err = {0};
	cb_store *s = test_store_open(true);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	CHECK_OK(cb_mkdir(b, "/work/dir/sub", 0755, CB_PARENTS, &err));
	must_write(b, "/work/dir/gone", "gone\n");
	must_write(b, "/work/dir/h", "hello\n");
	must_write(b, "/work/dir/sub/i", "in\n");
	CHECK_OK(cb_link(b, "/work/dir/sub/i", "/work/out", &err));
	cb_box *before = must_fork(s, "demo", "before");
	CHECK_OK(cb_rename(b, "/work/dir", "/work/dir2", 0, &err));
	CHECK_OK(cb_unlink(b, "/work/dir2/gone", &err));
	must_write(b, "/work/dir2/h", "changed\n");
	must_write(b, "/work/dir2/new", "new\n");
	CHECK_STR(text_of(before, b),
	          "diff --git a/work/dir/gone b/work/dir/gone\ndeleted file mode 100644\nindex "
	          "286c5f5776916d7d7d5849988ca9d83e722cf9c2..0000000000000000000000000000000000000000\n--- "
	          "a/work/dir/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n"
	          "diff --git a/work/dir/sub/i b/work/dir/sub/i\ndeleted file mode 100644\nindex "
	          "4935e88d323e7973308dd73cccf2837fc3c7de22..0000000000000000000000000000000000000000\n--- "
	          "a/work/dir/sub/i\n+++ /dev/null\n@@ -1 +0,0 @@\n-in\n"
	          "diff --git a/work/dir/h b/work/dir2/h\nrename from work/dir/h\nrename to work/dir2/h\nindex "
	          "ce013625030ba8dba906f756967f9e9ca394464a..5ea2ed416fbd4a4cbe227b75fe255dd7fa6bd4d6 100644\n"
	          "--- a/work/dir/h\n+++ b/work/dir2/h\n@@ -1 +1 @@\n-hello\n+changed\n"
	          "diff --git a/work/dir2/new b/work/dir2/new\nnew file mode 100644\nindex "
	          "0000000000000000000000000000000000000000..3e757656cf36eca53338e520d134963a44f793f8\n--- /dev/null\n+++ "
	          "b/work/dir2/new\n@@ -0,0 +1 @@\n+new\n"
	          "diff --git a/work/dir2/sub/i b/work/dir2/sub/i\nnew file mode 100644\nindex "
	          "0000000000000000000000000000000000000000..4935e88d323e7973308dd73cccf2837fc3c7de22\n--- /dev/null\n+++ "
	          "b/work/dir2/sub/i\n@@ -0,0 +1 @@\n+in\n");
	CHECK_STR(must_diff(before, b), "D /work/dir/gone\nR /work/dir -> /work/dir2\nM /work/dir2/h\nA /work/dir2/new\n");
	cb_box_close(before);
	cb_box_close(b);
	cb_store_close(s);
}

/* In its place is a new folder with an equal file: nobody may think that the old one went along with the one that moved. */
TEST(diff_of_a_moved_folder_that_was_made_anew)
{
	cb_error err = {0};
	cb_store *s = test_store_open(true);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	CHECK_OK(cb_mkdir(b, "/work/dir/sub", 0755, CB_PARENTS, &err));
	must_write(b, "/work/dir/f", "f\n");
	cb_box *before = must_fork(s, "demo", "before");
	CHECK_OK(cb_rename(b, "/work/dir", "/work/dir2", 0, &err));
	CHECK_OK(cb_unlink(b, "/work/dir2/f", &err));
	CHECK_OK(cb_rmdir(b, "/work/dir2/sub", &err));
	CHECK_OK(cb_mkdir(b, "/work/dir/sub", 0755, CB_PARENTS, &err));
	must_write(b, "/work/dir/f", "f\n");
	CHECK_STR(must_diff(before, b), "A /work/dir\nT /work/dir/f\nT /work/dir/sub\nR /work/dir -> /work/dir2\n");
	cb_box_close(before);
	cb_box_close(b);
	cb_store_close(s);
}
