/* test_docs_kit.h: what the tests of documents and examples share: the project's folder, files as text, commands. */
#ifndef TESTS_TEST_DOCS_KIT_H
#define TESTS_TEST_DOCS_KIT_H

#include "harness/boxes.h"

#include <ctype.h>
#include <stdarg.h>
#include <unistd.h>

#define UNUSED_OK __attribute__((unused))

/* The program is ROOT/build/VARIANT/tests/contract/NAME. Levels up: 3 is build/VARIANT, 5 is ROOT. */
UNUSED_OK static const char *folder_above(int levels)
{
	static char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	CHECK(n > 0);
	path[n] = 0;
	for (char *slash; levels > 0 && (slash = strrchr(path, '/')); levels--) *slash = 0;
	CHECK(levels == 0);
	return path;
}

UNUSED_OK static const char *project_root(void)
{
	return folder_above(5);
}

__attribute__((format(printf, 1, 2))) UNUSED_OK static char *text_of(const char *format, ...)
{
	va_list args;
	char *text = NULL;
	va_start(args, format);
	CHECK(vasprintf(&text, format, args) >= 0);
	va_end(args);
	return test_keep(text);
}

/* A whole file, relative to the project's folder unless absolute; NULL when it is not there. */
UNUSED_OK static char *file_text(const char *path)
{
	char *full = path[0] == '/' ? text_of("%s", path) : text_of("%s/%s", project_root(), path);
	FILE *f = fopen(full, "rb");
	if (!f) return NULL;
	size_t size = 0, capacity = 1 << 16;
	char *text = malloc(capacity);
	for (size_t n; (n = fread(text + size, 1, capacity - size - 1, f)) > 0;) {
		size += n;
		if (capacity - size < 2) text = realloc(text, capacity *= 2);
	}
	(void)fclose(f);
	text[size] = 0;
	return test_keep(text);
}

UNUSED_OK static char *must_text(const char *path)
{
	char *text = file_text(path);
	CHECK_MSG(text != NULL, "no file %s", path);
	return text;
}

UNUSED_OK static void write_text(const char *path, const char *text)
{
	FILE *f = fopen(path, "wb");
	CHECK_MSG(f != NULL, "cannot write %s", path);
	CHECK(fwrite(text, 1, strlen(text), f) == strlen(text));
	CHECK(fclose(f) == 0);
}

/* Runs a command of the shell; what it printed is in the test's folder and shown when it fails. */
UNUSED_OK static char *must_run(const char *command)
{
	static int number;
	char *output = text_of("%s/output-%d", test_tmpdir(), number++);
	int status = system(text_of("( %s ) >%s 2>&1 </dev/null", command, output));
	char *text = must_text(output);
	for (char *line = text; status != 0 && *line;) {
		size_t n = strcspn(line, "\n");
		test_note("| %.*s", (int)n, line);
		line += n + (line[n] == '\n');
	}
	CHECK_MSG(status == 0, "status %d of: %s", status, command);
	return text;
}

#endif
