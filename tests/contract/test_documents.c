/* test_documents.c: the documents against the code: lists that must be complete, names that must exist. */
#include "contract/test_docs_kit.h"

/* "1048576" as "1,048,576". */
static const char *grouped(uint64_t n)
{
	char *digits = text_of("%" PRIu64, n), *out = text_of("%*s", (int)(strlen(digits) * 2), "");
	size_t at = 0, size = strlen(digits);
	for (size_t i = 0; i < size; i++) {
		if (i > 0 && (size - i) % 3 == 0) out[at++] = ',';
		out[at++] = digits[i];
	}
	out[at] = 0;
	return out;
}

/* N, N << M, ((uint64_t)N << M): what limits.h uses. */
static uint64_t evaluate(const char *text)
{
	while (*text && !isdigit((unsigned char)*text)) text = strncmp(text, "uint64_t", 8) == 0 ? text + 8 : text + 1;
	char *end = NULL;
	uint64_t value = strtoull(text, &end, 10);
	while (*end == ' ') end++;
	return strncmp(end, "<<", 2) == 0 ? value << strtoul(end + 2, NULL, 10) : value;
}

TEST(every_limit_is_listed)
{
	char *header = must_text("src/base/limits.h"), *document = must_text("docs/limits.md");
	int count = 0;
	for (char *at = header; (at = strstr(at, "LIMIT_")); count++) {
		size_t size = strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_");
		const char *name = text_of("%.*s", (int)size, at);
		at += size;
		const char *row = text_of("| `%s` | %s |", name, grouped(evaluate(at)));
		CHECK_MSG(strstr(document, row) != NULL, "docs/limits.md lacks: %s", row);
	}
	CHECK(count >= 15);
	for (char *at = document; (at = strstr(at, "| `LIMIT_")); at++) {
		const char *name = text_of("%.*s", (int)strcspn(at + 3, "`"), at + 3);
		CHECK_MSG(strstr(header, name) != NULL, "docs/limits.md lists %s, which is no more", name);
	}
}

TEST(every_error_code_is_listed)
{
	char *document = must_text("docs/api.md");
#define ROW(name, value, error, status, text)                                                                         \
	{                                                                                                             \
		const char *row = text_of("\n| `CB_%s` | %d | %s | %d | %s |\n", #name, value, #error, status, text); \
		CHECK_MSG(strstr(document, row) != NULL, "docs/api.md lacks: %s", row);                               \
	}
	CB_ERROR_TABLE(ROW)
#undef ROW
}

/* Every call of every public header; the umbrella names them all (lint holds that). */
TEST(every_call_is_explained)
{
	char *document = must_text("docs/api.md"), *umbrella = must_text("include/cowbox/cowbox.h");
	int count = 0;
	for (char *line = umbrella; (line = strstr(line, "\n#include <cowbox/")); line++) {
		const char *header = text_of("include/%.*s", (int)strcspn(line + 11, ">"), line + 11);
		for (char *at = must_text(header); (at = strstr(at, "\nCB_API ")); count++) {
			at += 8;
			char *open = strchr(at, '('), *name = open;
			CHECK(open != NULL);
			while (name > at && (isalnum((unsigned char)name[-1]) || name[-1] == '_')) name--;
			const char *call = text_of("`%.*s`", (int)(open - name), name);
			CHECK_MSG(strstr(document, call) != NULL, "docs/api.md does not mention %s", call);
		}
	}
	CHECK(count > 120);
}

TEST(the_include_table_is_in_architecture)
{
	char *table = must_text("tools/include-table"), *document = must_text("ARCHITECTURE.md");
	int count = 0;
	for (char *line = table; *line; line += strcspn(line, "\n") + 1) {
		size_t name = strspn(line, "abcdefghijklmnopqrstuvwxyz_");
		if (name == 0 || line[name] != ':' || access(text_of("%s/src/%.*s", project_root(), (int)name, line), F_OK) != 0)
			continue;
		const char *row =
			text_of("\n| `%.*s` |%.*s |", (int)name, line, (int)strcspn(line + name + 1, "\n"), line + name + 1);
		CHECK_MSG(strstr(document, row) != NULL, "ARCHITECTURE.md lacks a row that begins:%s", row);
		count++;
	}
	CHECK(count >= 4);
}

/* Every column of every table, in the file that makes them. */
TEST(every_column_is_explained)
{
	static const char *const types[] = {" INTEGER", " TEXT", " BLOB"};
	char *schema = must_text("src/store/sqlite_schema.c"), *document = must_text("docs/format.md");
	int count = 0;
	for (size_t i = 0; i < 3; i++) {
		for (char *at = schema; (at = strstr(at, types[i])); at++) {
			char *name = at;
			while (islower((unsigned char)name[-1]) || name[-1] == '_') name--;
			if (name == at) continue;
			const char *column = text_of("%.*s", (int)(at - name), name);
			char *found = document;
			while ((found = strstr(found, column)) &&
			       (isalpha((unsigned char)found[-1]) || isalpha((unsigned char)found[strlen(column)])))
				found++;
			CHECK_MSG(found != NULL, "docs/format.md does not explain the column %s", column);
			count++;
		}
	}
	CHECK(count > 60);
}

/* `like_this` in ARCHITECTURE.md and docs/design.md is a name in the sources. */
TEST(names_in_architecture_exist)
{
	static const char *const documents[] = {"ARCHITECTURE.md", "docs/design.md"};
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
	int count = 0;
	for (size_t i = 0; i < 2; i++) {
		for (char *at = must_text(documents[i]); (at = strchr(at, '`')); at++) {
			size_t size = strspn(at + 1, letters);
			if (size == 0 || at[1 + size] != '`' || !memchr(at, '_', size)) continue;
			const char *name = text_of("%.*s", (int)size, at + 1);
			int status = system(text_of("cd '%s' && grep -rqwF %s src include", project_root(), name));
			CHECK_MSG(status == 0, "%s: no '%s' in the sources", documents[i], name);
			count++;
		}
	}
	CHECK(count > 20);
}

/* Is there a line "SOMETHING(name)" or "SOMETHING(name, ..." that begins in the first column with capitals? */
static bool defines_test(char *source, const char *name)
{
	size_t size = strlen(name);
	for (char *line = source; line; line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
		size_t macro = strspn(line, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_");
		if (macro < 4 || line[macro] != '(' || strncmp(line + macro + 1, name, size) != 0) continue;
		char end = line[macro + 1 + size];
		if (end == ')' || end == ',') return true;
	}
	return false;
}

/* A script's test is a subtest of that name, or words of its head comment for what the whole script shows. */
static bool script_has_test(const char *source, const char *name)
{
	return strstr(source, text_of("subtest '%s'", name)) != NULL || strstr(source, text_of("subtest \"%s\"", name)) != NULL ||
	       strstr(text_of("%.*s", (int)(strstr(source, "\nuse ") - source), source), name) != NULL;
}

TEST(every_promise_names_a_test)
{
	char *document = must_text("docs/promises.md");
	int count = 0, rows = 0;
	for (char *line = document; *line; line += strcspn(line, "\n") + 1) {
		if (strncmp(line, "| ", 2) != 0 || strncmp(line, "| promise", 9) == 0) continue;
		int size = (int)strcspn(line, "\n"), found = 0;
		rows++;
		for (char *at = line; (at = strstr(at, "::")) && at < line + size; at += 2) {
			char *start = at, *end = at + 2;
			while (start[-1] != '`' && start > line) start--;
			end += strcspn(end, "`\n");
			const char *path = text_of("%.*s", (int)(at - start), start);
			const char *name = text_of("%.*s", (int)(end - at - 2), at + 2);
			char *source = file_text(path);
			CHECK_MSG(source != NULL, "docs/promises.md names %s, which is not there", path);
			bool is_script = strcmp(path + strlen(path) - 2, ".t") == 0;
			CHECK_MSG(is_script ? script_has_test(source, name) : defines_test(source, name), "%s has no test '%s'",
			          path, name);
			found++;
		}
		CHECK_MSG(found > 0 || strstr(line, "`make lint`"), "no test in: %.*s", size, line);
		count += found;
	}
	CHECK(rows > 30 && count >= rows);
}

TEST(links_lead_somewhere)
{
	static const char *const documents[] = {"README.md",        "ARCHITECTURE.md",   "SECURITY.md",      "CHANGELOG.md",
	                                        "HACKING.md",       "docs/design.md",    "docs/limits.md",   "docs/format.md",
	                                        "docs/api.md",      "docs/promises.md",  "docs/concepts.md", "docs/agents.md",
	                                        "docs/commands.md", "docs/exit-codes.md"};
	for (size_t i = 0; i < sizeof(documents) / sizeof(documents[0]); i++) {
		char *text = must_text(documents[i]);
		const char *slash = strchr(documents[i], '/');
		for (char *at = text; (at = strstr(at, "]("));) {
			at += 2;
			const char *target = text_of("%.*s", (int)strcspn(at, ")#\n"), at);
			const char *path = slash ? text_of("docs/%s", target) : target;
			CHECK_MSG(access(text_of("%s/%s", project_root(), path), F_OK) == 0, "%s: no %s", documents[i], target);
		}
	}
}
