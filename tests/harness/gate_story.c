/* gate_story.c: the story of both worlds, and the paths that calls are tried on; see gate_rounds.h. */
#include "harness/gate_rounds.h"

/* Paths on which calls are tried: hidden with and without a node, below them, by a link to them, kept, and plain. */
static const char *const paths[] = {"/",
                                    "/work",
                                    "/work/pub",
                                    "/work/pub/a",
                                    "/work/pub/none",
                                    "/private",
                                    "/private/x",
                                    "/private/x/y",
                                    "/private/no",
                                    "/work/pub/.secret",
                                    "/work/pub/.secret/key",
                                    "/work/pub/../pub/.secret/./key",
                                    "/work/pub/.secret/no/deep",
                                    "/work/pub/tosecret",
                                    "/work/pub/toprivate/x",
                                    "/work/pub/c",
                                    "/work/ro",
                                    "/work/ro/r",
                                    "/work/ro/new",
                                    "/work/mixed/in",
                                    "/work/mixed"};

void story_put(cb_box *b, const char *path, const char *text)
{
	cb_error err = {0};
	CHECK_OK(cb_write_file(b, path, text, strlen(text), &CB_WITH(cb_write_options, .parents = true), &err));
}

void story_tick(void)
{
	twins_now += 1000000;
}

void story(world *w)
{
	cb_error err = {0};
	cb_box *o = w->owner;
	story_tick();
	story_put(o, "/work/pub/a", "one\ntwo\nthree\n");
	if (hidden_step(w, "write")) story_put(o, "/work/pub/.secret/key", "TOP SECRET\n");
	twins_now += 1000000000;
	story_tick();
	story_put(o, "/work/pub/b", "bee\n");
	if (hidden_step(w, "write")) story_put(o, "/private/x", "needle in private\n");
	story_tick();
	CHECK_OK(cb_kv_set(o, "pub.k", "1", 1, &err));
	if (hidden_step(w, "kv")) CHECK_OK(cb_kv_set(o, "hid.k", "2", 1, &err));
	story_tick();
	CHECK_OK(cb_tag_add(o, "/work/pub/a", "shown", &err));
	if (hidden_step(w, "tag")) CHECK_OK(cb_tag_add(o, "/private/x", "shown", &err));
	story_tick();
	CHECK_OK(cb_meta_set(o, "/work/pub/a", "m", "v", CB_STRING, &err));
	story_tick();
	CHECK_OK(cb_xattr_set(o, "/work/pub/a", "user.x", "X", 1, 0, &err));
	story_tick();
	CHECK_OK(cb_checkpoint_save(o, "cp", 0, true, &err));
	if (hidden_step(w, "rename")) CHECK_OK(cb_rename(o, "/private/x", "/private/y", 0, &err));
	if (hidden_step(w, "rename")) CHECK_OK(cb_rename(o, "/private/y", "/private/x", 0, &err));
	story_tick();
	story_put(o, "/work/ro/r", "read only\n");
	story_tick();
	story_put(o, "/work/pub/sub/deep/f", "needle\n");
	story_tick();
	CHECK_OK(cb_symlink(o, ".secret/key", "/work/pub/tosecret", &err));
	story_tick();
	CHECK_OK(cb_symlink(o, "/private", "/work/pub/toprivate", &err));
	story_tick();
	story_put(o, "/work/pub/h1", "linked\n");
	story_tick();
	CHECK_OK(cb_link(o, "/work/pub/h1", "/work/pub/h2", &err));
	/* One name of a file is hidden: all of it is. */
	if (hidden_step(w, "write")) story_put(o, "/private/c", "needle with a hidden name\n");
	if (hidden_step(w, "link")) CHECK_OK(cb_link(o, "/private/c", "/work/pub/c", &err));
	story_tick();
	story_put(o, "/work/mixed/in", "m\n");
	story_tick();
	story_put(w->agent, "/work/pub/mine", "mine\n");
	if (hidden_step(w, "unlink")) CHECK_OK(cb_unlink(o, "/work/pub/c", &err));
	if (hidden_step(w, "link")) CHECK_OK(cb_link(o, "/private/c", "/work/pub/c", &err));
	story_tick();
	story_put(o, "/work/pub/a", "one\n2\nthree\nfour\n");
	if (hidden_step(w, "write")) story_put(o, "/work/pub/.secret/key", "TOP SECRET 2\n");
}

void each_path(world *w, void (*run)(world *, const char *))
{
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		say(w, "%s: ", paths[i]);
		run(w, paths[i]);
	}
}

void each_free_path(world *w, void (*run)(world *, const char *))
{
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		if (strcmp(paths[i], "/work/pub/c") == 0) continue;
		say(w, "%s: ", paths[i]);
		run(w, paths[i]);
	}
}

cb_code say_conflict(void *context, const cb_conflict *c, cb_error *err)
{
	(void)err;
	say(context, "%s (%s)\n", c->path, c->reason);
	return CB_OK;
}
