/*
 * test_examples.c: the programs in examples/ and every C block of README.md and docs/ are compiled and run.
 *
 * A block with a main() is a program; any other is put into a function with `store`, `box` (a box "demo" with /work/a.txt in it), `err`
 * and the macro TRY at hand. They are compiled with the flags the library was built with, so they meet its warnings and its sanitizers.
 */
#include "contract/test_docs_kit.h"

#include <sys/stat.h>

static const char *compile(const char *source)
{
	static int number;
	const char *build = text_of("%s", folder_above(3)), *out = text_of("%s/program-%d", test_tmpdir(), number++);
	(void)must_run(
		text_of("cd '%s' && $(cat %s/flags) %s %s/libcowbox.a -lsqlite3 -o %s", project_root(), build, source, build, out));
	return out;
}

static const char *compile_example(const char *name)
{
	return compile(text_of("examples/%s.c", name));
}

/* ---- examples ---- */

TEST(demo_tells_the_truth)
{
	const char *demo = compile_example("demo");
	const char *temporary = text_of("%s/t", test_tmpdir());
	CHECK(mkdir(temporary, 0700) == 0);
	char *told = must_run(text_of("TMPDIR=%s %s", temporary, demo));
	CHECK(strstr(told, "Done.") && !strchr(told, '\033'));
	CHECK_MSG(rmdir(temporary) == 0, "the demo left something behind");
}

TEST(two_agents_lose_nothing)
{
	const char *program = compile_example("two_agents");
	char *told = must_run(text_of("%s %s/store 4 40", program, test_tmpdir()));
	CHECK_STR(told, "4 agents wrote 40 reports\n");
}

static char *run_exec(const char *program, int status)
{
	return must_run(text_of("%s %s/store demo sh -c 'echo hi; echo %d >f; exit %d' </dev/null 2>&1; test $? = %d", program,
	                        test_tmpdir(), status, status, status));
}

TEST(exec_runs_a_program_and_takes_a_failure_back)
{
	const char *program = compile_example("exec");
	CHECK_STR(run_exec(program, 0), "hi\nstep 1: status 0, 1 changed\n  A /work/f\n");
	CHECK(strstr(run_exec(program, 3), "step 2: status 3, 1 changed, and taken back\n"));
}

TEST(history_reads_a_store)
{
	cb_error err = {0};
	cb_store *s = test_store_open(false);
	cb_box *b = NULL;
	CHECK_OK(cb_box_create(s, "demo", &b, &err));
	CHECK_OK(cb_box_who_set(b, "ann", &err));
	must_write(b, "/work/a", "one\ntwo\n");
	must_write(b, "/work/a", "one\n2\n");
	CHECK_OK(cb_rename(b, "/work/a", "/work/b", 0, &err));
	cb_box_close(b);
	cb_store_close(s);
	const char *program = compile_example("history");
	char *told = must_run(text_of("%s %s demo /work/b", program, test_store_path()));
	CHECK(strstr(told, "R /work/a -> /work/b\n") && strstr(told, "M /work/a\n") && strstr(told, "A /work/a\n"));
	CHECK(strstr(told, "demo@1\tone\ndemo@2\t2\n"));
	/* A store that is not there is not made. */
	CHECK(system(text_of("%s %s/none demo 2>/dev/null", program, test_tmpdir())) != 0);
	CHECK(access(text_of("%s/none", test_tmpdir()), F_OK) != 0);
}

/* ---- blocks in documents ---- */

static const char before_fragment[] =
	"#include <cowbox/cowbox.h>\n#include <inttypes.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
	"#define TRY(call) do { cb_code code_ = (call); if (code_ != CB_OK) return code_; } while (0)\n"
	"static cb_code fragment(cb_store *store, cb_box *box, cb_error *err)\n{\n(void)store; (void)box; (void)err;\n";
static const char after_fragment[] =
	"return CB_OK;\n}\nint main(void)\n{\ncb_error err = {0};\ncb_store *store = NULL;\ncb_box *box = NULL;\n"
	"cb_code code = cb_store_open(\":memory:\", NULL, &store, &err);\n"
	"if (code == CB_OK) code = cb_box_create(store, \"demo\", &box, &err);\n"
	"if (code == CB_OK) code = cb_write_file(box, \"/work/a.txt\", \"one\\ntwo\\n\", 8, NULL, &err);\n"
	"if (code == CB_OK) code = fragment(store, box, &err);\n"
	"if (code != CB_OK) fprintf(stderr, \"%s: %s\\n\", cb_code_name(code), err.message);\n"
	"cb_box_close(box);\ncb_store_close(store);\nreturn code == CB_OK ? 0 : 1;\n}\n";

/* Calls once per ```c block of a document. */
static int run_blocks(const char *document)
{
	int count = 0;
	char *at = must_text(document);
	while ((at = strstr(at, "\n```c\n"))) {
		char *start = at + 6, *end = strstr(start, "\n```\n");
		CHECK_MSG(end != NULL, "%s: a block does not end", document);
		char *block = text_of("%.*s\n", (int)(end - start), start);
		bool whole = strstr(block, "int main(") != NULL;
		const char *source = text_of("%s/block-%d.c", test_tmpdir(), count++);
		write_text(source, whole ? block : text_of("%s%s%s", before_fragment, block, after_fragment));
		test_note("%s, block %d%s", document, count, whole ? ", a program" : "");
		(void)must_run(compile(source));
		at = end;
	}
	return count;
}

TEST_LIMIT(blocks_of_readme_run, 120)
{
	CHECK(run_blocks("README.md") >= 1);
}

TEST_LIMIT(blocks_of_api_run, 240)
{
	CHECK(run_blocks("docs/api.md") >= 5);
}

/* The lines of README that install the library and compile with pkg-config, as they stand but for the place. */
TEST_LIMIT(readme_install_lines_work, 120)
{
	const char *variant = strrchr(text_of("%s", folder_above(3)), '/') + 1;
	bool is_shared = access(text_of("%s/libcowbox.so", folder_above(3)), F_OK) == 0;
	if (!is_shared) {
		test_note("the variant %s has no shared library", variant);
		return;
	}
	char *readme = must_text("README.md"), *line = strstr(readme, "    cc prog.c $(pkg-config");
	CHECK(strstr(readme, "\n    sudo make install && sudo ldconfig\n") && line != NULL);
	size_t size = strcspn(line, "\n");
	char *block = strstr(readme, "\n```c\n");
	CHECK(block != NULL);
	write_text(text_of("%s/prog.c", test_tmpdir()), text_of("%.*s\n", (int)(strstr(block, "\n```\n") - block - 6), block + 6));
	const char *place = text_of("%s/usr", test_tmpdir());
	(void)must_run(
		text_of("cd '%s' && make --no-print-directory VARIANT=%s PREFIX=%s install", project_root(), variant, place));
	char *told = must_run(text_of("cd %s && export PKG_CONFIG_PATH=%s/lib/pkgconfig LD_LIBRARY_PATH=%s/lib && %.*s",
	                              test_tmpdir(), place, place, (int)size, line));
	CHECK(strstr(told, "+2\n") && strstr(told, "undo"));
}
