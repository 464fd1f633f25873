/*
 * gate_rounds.h: what test_gate_calls.c tries in two worlds (twins.h): the story that both tell, and a round of calls for each part of the
 * API. A round says all it is told, and goes over paths that are hidden, kept and plain.
 */
#ifndef TESTS_GATE_ROUNDS_H
#define TESTS_GATE_ROUNDS_H

#include "harness/twins.h"

/* What was done to the box before the rounds. */
void story(world *w);
void story_put(cb_box *b, const char *path, const char *text);
/* A little later, in both worlds alike. */
void story_tick(void);
/* On every path: hidden with and without a node, below them, by a link to them, kept, and plain. */
void each_path(world *w, void (*run)(world *, const char *));
/* But for the name of a file that another name hides: that it cannot be made there tells that something is there, and nothing else does. */
void each_free_path(world *w, void (*run)(world *, const char *));
/* Visitors; context is the world. */
cb_code say_conflict(void *context, const cb_conflict *c, cb_error *err);
cb_code say_box_info(void *context, const cb_box_info *info, cb_error *err);

/* Reading, history, cursors: gate_rounds_read.c. */
void round_stat(world *w);
void round_read(world *w);
void round_list(world *w);
void round_attributes(world *w);
void round_keys(world *w);
void round_grep(world *w);
void round_info(world *w);
void round_diff(world *w);
void round_log(world *w);
void round_states(world *w);
void round_checkpoints(world *w);
void round_cursors(world *w);
/* Changing: gate_rounds_change.c. */
void round_write(world *w);
void round_make(world *w);
void round_move(world *w);
void round_remove(world *w);
void round_files(world *w);
void round_transactions(world *w);
void round_undo(world *w);
void round_restore(world *w);
void round_merge(world *w);
/* The host, boxes and stores as a whole: gate_rounds_host.c. */
void round_export(world *w);
void round_import(world *w);
void round_tar_import(world *w);
void round_apply(world *w);
void round_whole(world *w);
void round_boxes(world *w);

#endif
