/* doctor.h: what the files of doctor share. */
#ifndef CLI_DOCTOR_H
#define CLI_DOCTOR_H

#include "base/temporary.h"
#include "cli/cli.h"

typedef enum doctor_status { DOCTOR_OK, DOCTOR_WARN, DOCTOR_FAIL } doctor_status;

typedef struct doctor {
	cli *c;
	char *store;   /* the folder of the store */
	char *nearest; /* the nearest folder that is there: the store's own, or one above it */
	bool is_default;
	bool broken;    /* the store cannot work */
	bool read_only; /* it can be read only */
} doctor;

enum { DOCTOR_TEXT_MAX = 512, DOCTOR_SECONDS = 10 };

/* One line of the report. fix: what to do about it, "" when there is nothing to do. */
void doctor_tell(doctor *d, const char *name, doctor_status status, const char *fix, const char *format, ...) ATTR_PRINTF(5, 6);

/* Tries something in a child, which may do to itself what cannot be taken back, hang or crash. True when it worked; text: what the child
 * said, or how it ended. */
typedef bool (*doctor_try)(void *context, char text[DOCTOR_TEXT_MAX]);
bool doctor_attempt(doctor_try fn, void *context, char text[DOCTOR_TEXT_MAX]);

/* A new folder for a trial, on the filesystem of the store where that can be. */
cb_code doctor_folder(const doctor *d, temporary_place *out, cb_error *err);

void doctor_kernel(doctor *d);

#endif
