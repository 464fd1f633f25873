/* steps.h: steps as log, show, undo and blame tell them. */
#ifndef CLI_STEPS_H
#define CLI_STEPS_H

#include "cli/cli.h"

/* The checkpoints of a box, to be named beside its steps. */
typedef struct step_names {
	buf all; /* cb_checkpoint */
} step_names;
cb_code step_names_load(cb_box *box, step_names *out, cb_error *err); /* step_names_done() it */
void step_names_done(step_names *names);
#define AUTO_STEP_NAMES ATTR_CLEANUP(step_names_done)

/* A step that outlives the visit. Texts are cut at STEP_TEXT_MAX. */
enum { STEP_TEXT_MAX = 200 };
typedef struct step_note {
	uint64_t seq, target;
	bool changed;
	char kind[64], who[128],
		params[STEP_TEXT_MAX + 5]; /* one character more than is printed, so that it shows that there is more */
	int64_t ended_ns;
} step_note;
cb_code step_note_get(cb_box *box, uint64_t seq, step_note *out, cb_error *err);

/* "write /work/a.txt", "undo of step 5", "merge of try-1@4": one line, without its end. */
void step_print_what(cli *c, const cb_step *step);
void step_note_print(cli *c, const step_note *note);
/* " (name, name)" or nothing. */
void step_print_names(cli *c, const step_names *names, uint64_t seq);
/* The step's own members; the object is open. */
void step_json(cli *c, const cb_step *step, const step_names *names);

/* "NAME@SEQ"; free() it. */
cb_code step_address(cb_box *box, uint64_t seq, char **out, cb_error *err);
/* Opens the state a CLI_STATE or CLI_PLACE text means at a step of its own, so that a box that moves on meanwhile does not matter. */
cb_code step_open(cli *c, const char *text, cli_noun noun, cb_box **out, const char **out_path, cb_box_info *out_info,
                  cb_error *err);
/* The last step at or before the handle's state that changed something; 0: none. */
cb_code step_last_change(cb_box *box, uint64_t *out, cb_error *err);

#endif
