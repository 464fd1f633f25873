/* program.h: what the files of exec share: a program in a box, run from a command line. */
#ifndef CLI_PROGRAM_H
#define CLI_PROGRAM_H

#include <signal.h>
#include <termios.h>

#include "cli/cli.h"

enum { PROGRAM_NOTES = 16 }; /* more are counted only */

typedef struct program {
	cli *c;
	cb_exec *exec;
	const char *name; /* argv[0] */
	const char *cwd;  /* that was asked for; NULL: none */
	bool streaming;   /* its output goes to ours as it comes */
	bool tty;
	bool limited;         /* --output-limit was given: what is streamed is cut there too */
	uint64_t limit_bytes; /* of each stream */
	uint64_t shown[2], hidden[2];
	int signals;      /* signalfd */
	unsigned asked;   /* how often we were told to end */
	int failed_errno; /* our output could not be written */
	bool raw;         /* our terminal is set to raw */
	struct termios was;
	uint64_t noted; /* notes of the run, and the first of them: */
	char notes[PROGRAM_NOTES][512];
} program;

/* From here on signals are ours to pass on; our terminal becomes raw with tty. Before the program is started. */
cb_code program_begin(program *p, cb_error *err);
/* Our terminal as it was. Signals stay held back: what comes now must not keep the result from being told. */
void program_end(program *p);
/* Runs it to its end; what it did is not yet captured. */
cb_code program_run(program *p, cb_error *err);

/* For cb_exec_options. context: the program. */
bool program_stream(void *context, cb_stream from, const void *bytes, size_t size);
void program_note(void *context, const char *path, const char *what);

/* Of our terminal; 24 and 80 when it does not know. */
void program_window(unsigned short *rows, unsigned short *columns);

/* How it ended, in words or as the object of --json; code and why are those of cb_exec_wait. Sets the exit status. */
typedef struct program_said {
	const char *box;
	const char *checkpoint; /* NULL: none was saved */
	const cb_exec_result *result;
} program_said;
cb_code program_tell(program *p, const program_said *said, cb_code code, cb_error *err);

#endif
