/*
 * test_log_model.c: the log of a path, against the differences of all steps: a step is in the log of a path when it changed something at
 * that path or below it, whatever became of the path and of the folders above it since. (Without renames, which the log follows
 * elsewhere. A further name of a file changes the file, which the log tells and a difference does not.)
 */
#include "harness/boxes.h"

static const char *const paths[] = {"/work/d", "/work/d/a", "/work/d/b", "/work/d/e", "/work/d/e/c", "/work/x", "/work/y", "/work"};
enum { PATHS = sizeof(paths) / sizeof(*paths), STEPS_MAX = 120, OPS = 60 };

typedef struct seen {
	bool touched[PATHS][STEPS_MAX], logged[PATHS][STEPS_MAX];
	uint64_t step;  /* whose difference it is */
	uint64_t below; /* what was logged last */
	size_t path;
} seen;

static bool is_within(const char *path, const char *folder)
{
	size_t size = strlen(folder);
	return strncmp(path, folder, size) == 0 && (path[size] == 0 || path[size] == '/');
}

static cb_code note_change(void *context, const cb_change *c, cb_error *err)
{
	seen *s = context;
	(void)err;
	for (size_t i = 0; i < PATHS; i++)
		if (c->kind != CB_KEYVALUE && is_within(c->path, paths[i])) s->touched[i][s->step] = true;
	return CB_OK;
}

static cb_code note_step(void *context, const cb_step *step, cb_error *err)
{
	seen *s = context;
	(void)err;
	CHECK_MSG(step->seq < s->below, "%s: step %llu is not older than the one before", paths[s->path],
	          (unsigned long long)step->seq);
	s->below = step->seq;
	s->logged[s->path][step->seq] = true;
	return CB_OK;
}

static void change(cb_box *b, test_rng *r, int n, bool links)
{
	cb_error err = {0};
	const char *path = paths[test_rand_below(r, PATHS - 1)];
	bool folder = strcmp(path, "/work/d") == 0 || strcmp(path, "/work/d/e") == 0;
	char text[32];
	(void)snprintf(text, sizeof(text), "%d\n", n);
	uint64_t what = test_rand_below(r, 10);
	if (what < 5 && folder) (void)cb_mkdir(b, path, 0755, 0, &err);
	else if (what < 5) (void)cb_write_file(b, path, text, strlen(text), NULL, &err);
	else if (what < 6) (void)cb_chmod(b, path, (uint32_t)(0300 + n), 0, &err); /* another one each time */
	else if (what < 8) (void)cb_remove(b, path, &err);
	else if (what < 9) (void)cb_undo(b, 0, NULL, &err);
	else if (links) (void)cb_link(b, "/work/x", "/work/d/b", &err);
}

static void check_path(cb_box *b, seen *s, uint64_t last, bool links)
{
	cb_error err = {0};
	bool any = false;
	s->below = STEPS_MAX;
	for (uint64_t seq = 1; seq <= last; seq++) any = any || s->touched[s->path][seq];
	cb_code code = cb_log(b, &CB_WITH(cb_log_options, .path = paths[s->path]), note_step, s, NULL, &err);
	if (code == CB_NOTFOUND && !any) return;
	CHECK_MSG(code == CB_OK, "%s: %s", paths[s->path], err.message);
	for (uint64_t seq = 1; seq <= last; seq++)
		CHECK_MSG(s->touched[s->path][seq] == s->logged[s->path][seq] || (links && s->logged[s->path][seq]),
		          "%s: step %llu changed it: %d, is in its log: %d", paths[s->path], (unsigned long long)seq,
		          s->touched[s->path][seq], s->logged[s->path][seq]);
}

TEST(log_of_paths_against_differences)
{
	test_rng r = {test_seed() | 1};
	for (unsigned round = 0; round < test_dose(40); round++) {
		cb_error err = {0};
		static seen s;
		cb_store *store = test_store_open(true);
		cb_box *b = NULL;
		bool links = round % 2;
		s = (seen){0};
		CHECK_OK(cb_box_create(store, "demo", &b, &err));
		for (int n = 0; n < OPS; n++) change(b, &r, n, links);
		uint64_t last = must_seq(b);
		CHECK(last < STEPS_MAX);
		for (s.step = 1; s.step <= last; s.step++) CHECK_OK(cb_diff_step(b, s.step, NULL, note_change, &s, &err));
		for (s.path = 0; s.path < PATHS; s.path++) check_path(b, &s, last, links);
		cb_box_close(b);
		cb_store_close(store);
	}
}
