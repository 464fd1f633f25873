/*
 * stamp.h: what is known of a slot's folder, or of a sealed layer: one text of some lines in a file of STAMP_BYTES, ending in a sum.
 *
 *   cowbox work 1
 *   at BOX SEQ STATE          the state the tree holds; absent: none that is known, it is to be emptied
 *   mode plain | stack
 *   layers ID ID ...          the newest first; of a layer: itself first
 *   under BOX SEQ STATE       the state of the newest of them
 *   boot ID                   of the machine when it was written: a folder of another boot is not trusted
 *   entries N
 *   afresh                    the next stack is to be made from one new layer: there are too many
 *   base BOX SEQ STATE        a command runs that began there
 *   run ID                    its name, which is also in its step
 *   building                  the tree was not there yet: the command may not have begun
 *   started NS
 *   who TEXT                  whom its step is recorded for; absent in stamps of earlier versions
 *   kind WORD
 *   params TEXT               of the step to be, as much as fits; no control characters
 *   discard                   nothing of it is to be kept
 *   needs BYTES               it ended, and there was no room for what it did: so much must be free before that is tried again
 *   sum HEX                   of everything before this line
 *
 * A stamp is rewritten whole and in place, by the one who has the slot's lock: shorter than a page, so that a killed process leaves the
 * old or the new one. Whatever does not parse is no stamp.
 */
#ifndef WORK_STAMP_H
#define WORK_STAMP_H

#include "base/buf.h"
#include "base/limits.h"
#include "box/box.h"

enum {
	STAMP_BYTES = 4096,
	STAMP_ID_BYTES = 24, /* "l" and a number in hexadecimal, NUL included */
	STAMP_BOOT_BYTES = 40,
	STAMP_RUN_BYTES = 17,
	STAMP_KIND_BYTES = 32,
	STAMP_PARAMS_BYTES = 1500,
};

typedef struct stamp {
	box_place at;
	bool stack;
	char layers[LIMIT_WORK_LAYERS][STAMP_ID_BYTES];
	size_t layer_count;
	box_place under;
	char boot[STAMP_BOOT_BYTES];
	uint64_t entries;
	bool afresh;
	/* A command that runs: base.box 0 when none does. */
	box_place base;
	char run[STAMP_RUN_BYTES];
	bool building;
	int64_t started_ns;
	char who[LIMIT_NAME_BYTES + 1];
	char kind[STAMP_KIND_BYTES];
	char params[STAMP_PARAMS_BYTES];
	bool discard;
	uint64_t needs_bytes; /* 0: that is not known */
} stamp;

/* The text, STAMP_BYTES of it. */
void stamp_print(const stamp *s, char out[STAMP_BYTES]);
/* CB_CORRUPT: no stamp. */
cb_code stamp_parse(span text, stamp *out, cb_error *err);

cb_code stamp_write(int fd, const stamp *s, cb_error *err);
/* An empty file is an empty stamp. CB_CORRUPT: no stamp. */
cb_code stamp_read(int fd, stamp *out, cb_error *err);

/* Of this machine now; "" when it cannot be told (then nothing is trusted after a restart of the caller). */
const char *stamp_boot(void);
/* A name of a layer: "l" and hexadecimal digits. */
bool stamp_id_valid(span id);
/* As much of a text as fits, without what would end its line. Cut at a character. */
void stamp_text_set(char *to, size_t capacity, const char *text);

#endif
