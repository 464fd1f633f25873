/*
 * test_log_model.c: the log of a path, against the states and differences of all steps. A step is in the log of a path when it changed
 * something at that path or below it, whatever became of the path and of the folders above it since; where the path was before a step is
 * found here from what lay where, by inode numbers. (A further name of a file changes the file, which the log tells and a difference does
 * not; and a path that became one has the history of any of the others: links and renames are not drawn together. Nor does a file take the
 * place of a folder: behind it, paths cannot be looked for.)
 */
#include "harness/boxes.h"

static const char *const paths[] = {"/work/d",   "/work/d/a", "/work/d/b", "/work/d/e",   "/work/d/e/c",
                                    "/work/g/a", "/work/g",   "/work/x",   "/work/g/e/c", "/work"};
enum { PATHS = sizeof(paths) / sizeof(*paths), STEPS_MAX = 120, OPS = 60, NODES_MAX = 32, CHANGES_MAX = 64, PATH_SIZE = 64 };

typedef struct node {
	char path[PATH_SIZE];
	uint64_t ino;
	bool is_dir;
} node;

/* The state after a step, and what the step changed: where it was, "" for nowhere, and where it is. */
typedef struct moment {
	node nodes[NODES_MAX];
	char before[CHANGES_MAX][PATH_SIZE], after[CHANGES_MAX][PATH_SIZE];
	size_t node_count, change_count;
} moment;

typedef struct seen {
	moment steps[STEPS_MAX];
	bool logged[STEPS_MAX];
	uint64_t below; /* what was logged last */
	size_t path;
} seen;

static void copy_path(char *out, const char *path)
{
	CHECK(strlen(path) < PATH_SIZE);
	(void)snprintf(out, PATH_SIZE, "%s", path);
}

static bool is_within(const char *path, const char *folder)
{
	size_t size = strlen(folder);
	return strncmp(path, folder, size) == 0 && (path[size] == 0 || path[size] == '/');
}

static cb_code note_node(void *context, const char *path, const cb_stat_info *info, cb_error *err)
{
	moment *s = context;
	(void)err;
	CHECK(s->node_count < NODES_MAX);
	node *n = &s->nodes[s->node_count++];
	copy_path(n->path, path);
	n->ino = info->ino;
	n->is_dir = info->type == CB_DIR;
	return CB_OK;
}

static cb_code note_change(void *context, const cb_change *c, cb_error *err)
{
	moment *s = context;
	(void)err;
	CHECK(s->change_count < CHANGES_MAX);
	copy_path(s->before[s->change_count], !c->has_old ? "" : c->old_path ? c->old_path : c->path);
	copy_path(s->after[s->change_count++], c->has_new ? c->path : "");
	return CB_OK;
}

static cb_code note_step(void *context, const cb_step *step, cb_error *err)
{
	seen *s = context;
	(void)err;
	CHECK_MSG(step->seq < s->below, "%s: step %llu is not older than the one before", paths[s->path],
	          (unsigned long long)step->seq);
	s->below = step->seq;
	s->logged[step->seq] = true;
	return CB_OK;
}

static bool is_folder(const char *path)
{
	return strchr("deg", path[strlen(path) - 1]) != NULL;
}

static void change(cb_box *b, test_rng *r, int n, bool links)
{
	cb_error err = {0};
	const char *path = paths[test_rand_below(r, PATHS - 1)], *other = paths[test_rand_below(r, PATHS - 1)];
	bool folder = is_folder(path);
	char text[32];
	(void)snprintf(text, sizeof(text), "%d\n", n);
	uint64_t what = test_rand_below(r, 15);
	if (what < 5 && folder) (void)cb_mkdir(b, path, 0755, 0, &err);
	else if (what < 5) (void)cb_write_file(b, path, text, strlen(text), NULL, &err);
	else if (what < 6) (void)cb_chmod(b, path, (uint32_t)(0300 + n), 0, &err); /* another one each time */
	else if (what < 8) (void)cb_remove(b, path, &err);
	else if (what < 9) (void)cb_undo(b, 0, NULL, &err);
	else if (what == 12) (void)cb_tag_add(b, path, text, &err);
	else if (what == 13) (void)cb_meta_set(b, path, "m", text, strlen(text), &err);
	else if (what == 14) (void)cb_utimens(b, path, CB_TIME_OMIT, n, 0, &err);
	else if (links) (void)cb_link(b, "/work/x", "/work/d/b", &err);
	else if (folder == is_folder(other)) (void)cb_rename(b, path, other, what == 11 ? CB_EXCHANGE : 0, &err);
}

static const node *at_path(const moment *s, const char *path)
{
	for (size_t i = 0; i < s->node_count; i++)
		if (strcmp(s->nodes[i].path, path) == 0) return &s->nodes[i];
	return NULL;
}

static const node *of_ino(const moment *s, const node *wanted)
{
	for (size_t i = 0; wanted && i < s->node_count; i++)
		if (s->nodes[i].ino == wanted->ino) return &s->nodes[i];
	return NULL;
}

/* Where a path was before the step: in the folder that it is in now, or where the file came from that is there now. */
static void path_before(const moment *before, const moment *after, const char *path, char *out)
{
	char folder[PATH_SIZE], place[2 * PATH_SIZE];
	const char *name = strrchr(path, '/');
	(void)snprintf(folder, sizeof(folder), "%.*s", (int)(name - path), path);
	const node *parent = of_ino(before, at_path(after, folder)), *is = at_path(after, path);
	(void)snprintf(place, sizeof(place), "%s%s", parent ? parent->path : folder, name);
	const node *was = at_path(before, place), *came = of_ino(before, is);
	bool moved = came && came != was && (is->is_dir || !was || of_ino(after, was)); /* else it covered another */
	copy_path(out, moved ? came->path : place);
}

static void check_path(cb_box *b, seen *s, uint64_t last, bool links)
{
	cb_error err = {0};
	bool any = false, touched[STEPS_MAX] = {0};
	char path[PATH_SIZE], was[PATH_SIZE];
	copy_path(path, paths[s->path]);
	for (uint64_t seq = last; seq > 0; seq--) {
		const moment *at = &s->steps[seq];
		path_before(&s->steps[seq - 1], at, path, was);
		for (size_t i = 0; i < at->change_count; i++)
			if (is_within(at->after[i], path) || is_within(at->before[i], was)) any = touched[seq] = true;
		copy_path(path, was);
	}
	s->below = STEPS_MAX;
	memset(s->logged, 0, sizeof(s->logged));
	cb_code code = cb_log(b, &CB_WITH(cb_log_options, .path = paths[s->path]), note_step, s, NULL, &err);
	if (code == CB_NOTFOUND && !any) return;
	CHECK_MSG(code == CB_OK, "%s: %s", paths[s->path], err.message);
	if (links && strcmp(paths[s->path], "/work/d/b") == 0) return;
	for (uint64_t seq = 1; seq <= last; seq++)
		CHECK_MSG(touched[seq] == s->logged[seq] || (links && s->logged[seq]),
		          "%s: step %llu changed it: %d, is in its log: %d", paths[s->path], (unsigned long long)seq, touched[seq],
		          s->logged[seq]);
}

TEST(log_of_paths_against_differences)
{
	test_rng r = {test_seed() | 1};
	for (unsigned round = 0; round < test_dose(40); round++) {
		cb_error err = {0};
		static seen s;
		cb_store *store = test_store_open(true);
		cb_box *b = NULL;
		bool links = round % 3 == 0;
		s = (seen){0};
		CHECK_OK(cb_box_create(store, "demo", &b, &err));
		for (int n = 0; n < OPS; n++) change(b, &r, n, links);
		uint64_t last = must_seq(b);
		CHECK(last < STEPS_MAX);
		for (uint64_t seq = 0; seq <= last; seq++) {
			char address[32];
			(void)snprintf(address, sizeof(address), "demo@%llu", (unsigned long long)seq);
			cb_box *then = must_open(store, address);
			CHECK_OK(cb_walk(then, "/", note_node, &s.steps[seq], &err));
			cb_box_close(then);
			if (seq) CHECK_OK(cb_diff_step(b, seq, NULL, note_change, &s.steps[seq], &err));
		}
		for (s.path = 0; s.path < PATHS; s.path++) check_path(b, &s, last, links);
		cb_box_close(b);
		cb_store_close(store);
	}
}
