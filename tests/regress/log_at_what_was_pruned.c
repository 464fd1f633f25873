/*
 * log_at_what_was_pruned.c: a kept step whose predecessor was pruned made the folder that a path is in, or brought the path there. The log
 * of the path never ended, or left out that step. And of a file of which no step was left it did not say that any were pruned.
 */
#include "harness/boxes.h"

typedef struct world {
	cb_store *store;
	cb_box *b;
} world;

static world begin(bool memory)
{
	cb_error err = {0};
	world w = {.store = test_store_open(memory)};
	CHECK_OK(cb_box_create(w.store, "demo", &w.b, &err));
	must_write(w.b, "/work/x", "first"); /* 1 */
	return w;
}

/* The newest step and the one after it stay, what is between them and step 0 is pruned. */
static void keep_this_one(world *w)
{
	cb_error err = {0};
	CHECK_OK(cb_checkpoint_save(w->b, "kept", 0, false, &err));
	must_write(w->b, "/work/y", "last");
	CHECK_OK(cb_prune(w->b, &CB_WITH(cb_prune_options, .keep_steps = 1), NULL, &err));
}

static void end(world *w)
{
	cb_box_close(w->b);
	cb_store_close(w->store);
}

static cb_code note(void *context, const cb_step *step, cb_error *err)
{
	char *out = context;
	size_t size = strlen(out);
	(void)err;
	(void)snprintf(out + size, 64 - size, " %llu", (unsigned long long)step->seq);
	return CB_OK;
}

static void check_log(cb_box *b, const char *path, const char *expected)
{
	cb_error err = {0};
	char steps[64] = "";
	bool pruned = false;
	CHECK_OK(cb_limit_push(&CB_WITH(cb_limit, .timeout_ms = 5000), &err));
	CHECK_OK(cb_log(b, &CB_WITH(cb_log_options, .path = path), note, steps, &pruned, &err));
	cb_limit_pop();
	CHECK_MSG(strcmp(steps, expected) == 0, "%s:%s, expected%s", path, steps, expected);
	CHECK(pruned);
}

TEST_BOTH(log_in_a_folder_that_came_after_a_gap)
{
	cb_error err = {0};
	world w = begin(memory);
	CHECK_OK(cb_mkdir(w.b, "/work/d", 0755, 0, &err)); /* 2 */
	CHECK_OK(cb_checkpoint_save(w.b, "folder", 0, false, &err));
	CHECK_OK(cb_mkdir(w.b, "/work/d/a", 0755, 0, &err)); /* 3 */
	must_write(w.b, "/work/d/f", "text");                /* 4 */
	keep_this_one(&w);
	check_log(w.b, "/work/d/a", "");
	check_log(w.b, "/work/d/f", " 4");
	check_log(w.b, "/work/d", " 4 2");
	must_write(w.b, "/work/d/a/g", "more"); /* 6 */
	check_log(w.b, "/work/d/a", " 6");
	CHECK_OK(cb_remove(w.b, "/work/d", &err)); /* 7 */
	check_log(w.b, "/work/d/a", " 7 6");
	check_log(w.b, "/work/d/f", " 7 4");
	end(&w);
}

TEST_BOTH(log_of_a_folder_from_elsewhere_after_a_gap)
{
	cb_error err = {0};
	world w = begin(memory);
	CHECK_OK(cb_mkdir(w.b, "/work/e", 0755, 0, &err));         /* 2 */
	CHECK_OK(cb_mkdir(w.b, "/work/d", 0755, 0, &err));         /* 3 */
	must_write(w.b, "/work/d/f", "text");                      /* 4 */
	CHECK_OK(cb_rename(w.b, "/work/d", "/work/e/d", 0, &err)); /* 5 */
	keep_this_one(&w);
	check_log(w.b, "/work/e/d", " 5");
	end(&w);
}

TEST_BOTH(log_of_a_file_from_elsewhere_after_a_gap)
{
	cb_error err = {0};
	world w = begin(memory);
	CHECK_OK(cb_mkdir(w.b, "/work/e", 0755, 0, &err));         /* 2 */
	CHECK_OK(cb_rename(w.b, "/work/x", "/work/e/x", 0, &err)); /* 3 */
	keep_this_one(&w);
	check_log(w.b, "/work/e/x", " 3");
	end(&w);
}

TEST_BOTH(log_of_a_folder_with_a_further_name_after_a_gap)
{
	cb_error err = {0};
	world w = begin(memory);
	CHECK_OK(cb_mkdir(w.b, "/work/d", 0755, 0, &err));       /* 2 */
	CHECK_OK(cb_link(w.b, "/work/x", "/work/d/name", &err)); /* 3 */
	must_write(w.b, "/work/y", "between");                   /* 4 */
	must_write(w.b, "/work/x", "by the other name");         /* 5 */
	keep_this_one(&w);
	check_log(w.b, "/work/d", " 5");
	end(&w);
}

TEST_BOTH(log_of_a_file_whose_steps_were_pruned)
{
	world w = begin(memory);
	must_write(w.b, "/work/z", "text"); /* 2 */
	keep_this_one(&w);
	check_log(w.b, "/work/x", "");
	check_log(w.b, "/work/z", " 2");
	end(&w);
}
