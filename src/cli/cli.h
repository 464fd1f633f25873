/*
 * cli.h: the command line: what every command of `cowbox` is made of.
 *
 * A command is described once, by a const cli_command in a file of its own (cmd_NAME.c): its operands, options, examples and the
 * shape of its JSON. Parsing, --help, man pages, completion and docs/commands.md are read from that table (table.c lists the
 * commands). A command's run() gets what was typed, already checked against the table, and works on the public API only.
 *
 * run() returns CB_OK or a code with *err filled; run.c prints the error (one line, or an object with --json) and turns the code
 * into the exit status. Stores and boxes opened through cli_* are closed by run.c.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cowbox/cowbox.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/span.h"

typedef struct cli cli;
typedef struct cli_call cli_call;

/* ---- the table ---- */

typedef enum cli_kind {
	CLI_END,      /* ends a table */
	CLI_FLAG,     /* no value; with one in its row: one may be attached, --name=VALUE */
	CLI_TEXT,     /* any bytes */
	CLI_LIST,     /* may be given several times */
	CLI_COUNT,    /* a whole number */
	CLI_SIZE,     /* bytes: 512, 10k, 1.5M, 2GiB (powers of 1024) */
	CLI_DURATION, /* 500ms, 30s, 5m, 2h, 7d, 2w; a bare number is seconds */
	CLI_AGE,      /* the same, but only 0 goes without a unit: "30" may be meant as days */
	CLI_MOMENT,   /* an age ("2h" ago), a date ("2026-01-31"), a date and time ("2026-01-31T12:00:00Z"), "now" */
	CLI_CHOICE,   /* one of value's words, which are separated by '|' */
} cli_kind;

typedef struct cli_option {
	cli_kind kind;
	const char *name;  /* "old-file" */
	char letter;       /* 0: none */
	const char *value; /* how its value is called: "FILE"; of a choice: "auto|always|never" */
	const char *help;  /* one line, without a full stop */
} cli_option;

/* What an operand names; completion offers it. */
typedef enum cli_noun {
	CLI_NOUN_NONE, /* ends a table */
	CLI_BOX,       /* demo */
	CLI_STATE,     /* demo, demo@7, demo@name */
	CLI_PATH,      /* demo:/work/a, demo@7:/work/a, /work/a, :a (in the chosen box) */
	CLI_PLACE,     /* a box, a state or a path in one: demo, demo@7, demo:/work */
	CLI_HOST,      /* a file or folder of the host */
	CLI_EITHER,    /* CLI_PATH when it has "NAME:" or ":" in front, else CLI_HOST */
	CLI_CHECKPOINT,
	CLI_COMMAND,
	CLI_WORD, /* anything */
	CLI_ARGV, /* a program and its arguments: the words after "--", whatever they look like; with many */
} cli_noun;

typedef struct cli_operand {
	cli_noun noun;
	const char *name; /* "PATH" */
	bool optional;
	bool many; /* one or more (optional: none or more); at most one operand of a command */
	const char *help;
} cli_operand;

enum {
	CLI_CREATES = 1, /* makes the store when it is not there */
	CLI_PAGED = 2,   /* through the pager on a terminal */
};

typedef struct cli_command cli_command;
struct cli_command {
	const char *name;
	const char *group;           /* one of the headings in table.c; of a subcommand: NULL */
	const char *summary;         /* one line, imperative, no full stop: "write standard input or a text to a file" */
	const char *text;            /* paragraphs for --help and the man page; separated by blank lines */
	const cli_operand *operands; /* ends with {0}; NULL: none */
	const cli_option *options;   /* ends with {0}; NULL: none */
	const char *const *examples; /* shell lines that run as they are in the examples' folder (tests/cli); ends with NULL */
	const char *json;            /* the shape of the output with --json, one line per member: "name  what it is" */
	unsigned flags;
	int failure; /* exit status of every error of it; 0: the error's own */
	cb_code (*run)(cli *c, const cli_call *call, cb_error *err);
	const cli_command *const *subs; /* ends with NULL; then run is NULL */
	const cli_command *fallback;    /* taken when the first word is none of subs; NULL: a usage error */
};

extern const cli_command *const cli_commands[]; /* ends with NULL; by group, in the order of the help */
extern const char *const cli_groups[];          /* ends with NULL */
extern const cli_option cli_global_options[];   /* ends with {0} */
/* NULL when there is none. */
const cli_command *cli_command_find(const char *name);

/* ---- what was typed (parse.c). Names must be in the command's tables: asserted ---- */

bool cli_flag(const cli_call *call, const char *option);
bool cli_given(const cli_call *call, const char *option);       /* also true for values that are 0 */
const char *cli_text(const cli_call *call, const char *option); /* NULL when not given */
/* count, size in bytes, duration in nanoseconds; `otherwise` when not given. */
uint64_t cli_number(const cli_call *call, const char *option, uint64_t otherwise);
int64_t cli_moment(const cli_call *call, const char *option, int64_t otherwise);             /* nanoseconds since 1970 */
size_t cli_list(const cli_call *call, const char *option, const char *const **out);          /* lent */
const char *cli_operand_text(const cli_call *call, const char *operand);                     /* NULL when not given */
size_t cli_operand_list(const cli_call *call, const char *operand, const char *const **out); /* of the one with many */
const cli_command *cli_call_command(const cli_call *call);

/* ---- addresses (address.c): NAME[@STATE][:PATH], @STATE[:PATH], :PATH, /PATH ---- */

typedef struct cli_address {
	char box[CB_NAME_MAX + 1];   /* "": the chosen box */
	char state[CB_NAME_MAX + 1]; /* after '@'; "": the newest */
	bool has_path;
	const char *path; /* lent from the text; may be relative: it then starts at /work */
} cli_address;

/* A box path when it has "NAME:", "NAME@STATE:", "@STATE:" or ":" in front; "./a:b" and "/a:b" are the host's. For CLI_EITHER. */
bool cli_address_is_box(const char *text);
/* noun: CLI_BOX, CLI_STATE, CLI_PATH or CLI_PLACE; decides what a bare word is. CB_INVALID. */
cb_code cli_address_parse(const char *text, cli_noun noun, cli_address *out, cb_error *err);
/* Relative paths start at /work; '.' and '..' are left to the library. free() it. */
cb_code cli_address_path(const cli_address *address, char **out, cb_error *err);

/* ---- stores and boxes (choose.c); closed by run.c ---- */

cb_code cli_store(cli *c, cb_store **out, cb_error *err);
/* The store that would be opened; free() it. *out_default: nobody named it, so its parents are made too. */
cb_code cli_store_path(cli *c, char **out, bool *out_default, cb_error *err);
/* The box chosen by --box, COWBOX_BOX, the folder's own box, `use`; in that order. "NAME" or "NAME@STATE"; lent. */
cb_code cli_chosen(cli *c, const char **out, cb_error *err);
/* What chose it, after cli_chosen(): "--box", "COWBOX_BOX", "folder" or "use". */
const char *cli_chosen_by(const cli *c);
/* "NAME@STATE" of an address, the chosen box filled in. free() it. */
cb_code cli_address_name(cli *c, const cli_address *address, char **out, cb_error *err);
/* What programs left in that box (NULL: in all) whose caller died becomes a step of it, before anybody looks, or a box of its own where it
 * cannot. Only said: the command that happens to come next has its own business. cli_open and its siblings do it. */
void cli_recover(cli *c, const char *address);
/* For the command that drops what cannot be captured: it needs no advice to do so. */
void cli_recover_untold(cli *c);
/* Opens what a CLI_BOX, CLI_STATE, CLI_PATH or CLI_PLACE operand says; text NULL: the chosen box. out_path (may be NULL): absolute, ""
 * when the text has no path; lent until the end. */
cb_code cli_open(cli *c, const char *text, cli_noun noun, cb_box **out, const char **out_path, cb_error *err);
/* The same for commands that change the box: CB_READONLY with a hint when it names an old state. */
cb_code cli_open_writable(cli *c, const char *text, cli_noun noun, cb_box **out, const char **out_path, cb_error *err);
/* The same for commands with many operands: the same box or state gives the same handle again. */
cb_code cli_open_shared(cli *c, const char *text, cli_noun noun, cb_box **out, const char **out_path, cb_error *err);
cb_code cli_open_writable_shared(cli *c, const char *text, cli_noun noun, cb_box **out, const char **out_path, cb_error *err);
/* Keeps something until the end of the command: free()d then. */
void cli_keep(cli *c, void *p);

/* ---- changing a box (step.c): what one command does is one step ---- */

/* All operands of a command, which must be in one box. *out_paths: as many as texts; lent until the end. */
cb_code cli_open_targets(cli *c, const char *const *texts, size_t count, cb_box **out, const char *const **out_paths,
                         cb_error *err);
typedef cb_code (*cli_work)(void *context, cb_box *box, cb_error *err);
typedef struct cli_step {
	const char *kind;         /* the command's name */
	const char *const *paths; /* kept with the step */
	size_t count;
	bool single; /* work makes at most one change: the library then tries it again when others change the box meanwhile */
} cli_step;
/* Runs work as one step, all or nothing. *out_seq: the step, 0 when nothing changed. CB_CONFLICT says in which fork the result is kept. */
cb_code cli_step_run(cli *c, cb_box *box, const cli_step *step, cli_work work, void *context, uint64_t *out_seq, cb_error *err);
/* What a path was right after that step, though others may have changed it since; seq 0: what it is now. */
cb_code cli_stat_after(cli *c, cb_box *box, uint64_t seq, const char *path, cb_stat_info *out, cb_error *err);
/* With --json: {"step": N, "paths": [..]}; otherwise nothing. */
cb_code cli_step_report(cli *c, const char *const *paths, size_t count, uint64_t seq, cb_error *err);
/* Where cp and mv put `source`: below target when that is a folder, else at target. Lent until the end. */
cb_code cli_target_path(cli *c, cb_box *box, const char *target, const char *source, const char **out, cb_error *err);
/* Whether a target on the host is a folder to copy into. A link to one may have been copied out of a box before, and leads where an agent
 * wants: CB_LOOP, unless a '/' after it says that the folder is meant. */
cb_code cli_host_folder(const char *target, bool *out, cb_error *err);
/* The last name of a path, without slashes at its end; CB_INVALID when it has none ("/", "."). Lent until the end. */
cb_code cli_base_name(cli *c, const char *path, const char **out, cb_error *err);
cb_code cli_path_join(cli *c, const char *folder, const char *name, const char **out, cb_error *err); /* lent until the end */

/* Copies a file, link or folder from one handle to another (or the same), over what is there: contents with their holes, modes,
 * times, hard links, extended attributes, tags, metadata (copy.c). Folders are joined. For use inside cli_step_run. */
cb_code cli_copy_tree(cb_box *from, const char *source, cb_box *to, const char *target, cb_error *err);
/* CB_INVALID when two of the targets are the same: one would be lost. */
cb_code cli_targets_distinct(const char *const *targets, size_t count, cb_error *err);

/* ---- configuration (config.c) ---- */

typedef struct cli_config_key {
	const char *name;
	cli_kind kind;
	const char *value;     /* as in cli_option */
	const char *otherwise; /* the default, as text */
	bool per_box;          /* may be set for a box */
	const char *help;
} cli_config_key;
extern const cli_config_key cli_config_keys[]; /* ends with {0} */
/* The value that holds: the box's (box may be NULL), the user's file, the default; lent until the end. */
cb_code cli_config_get(cli *c, cb_box *box, const char *name, const char **out, cb_error *err);
/* The user's file: $COWBOX_CONFIG, else $XDG_CONFIG_HOME/cowbox/config, else ~/.config/cowbox/config; free() it. NULL when there is none
 * to be. */
char *cli_config_path(void);
/* In the user's file only, without the default; CB_NOTFOUND. */
cb_code cli_config_user_get(cli *c, const char *name, const char **out, cb_error *err);
cb_code cli_config_user_set(cli *c, const char *name, const char *value,
                            cb_error *err); /* NULL removes; the rest of the file stays */
/* Is this text a value for that key? CB_INVALID says what is. */
cb_code cli_config_check(const cli_config_key *key, const char *value, cb_error *err);
/* A value as it stands in the file: in quotes where it would be read otherwise. */
cb_code cli_config_encode(const char *value, buf *out, cb_error *err);
const cli_config_key *cli_config_find(const char *name); /* NULL when there is none */

/* ---- values (value.c) ---- */

cb_code cli_parse_count(const char *text, uint64_t *out, cb_error *err);
cb_code cli_parse_size(const char *text, uint64_t *out, cb_error *err);
cb_code cli_parse_duration(const char *text, int64_t *out_ns, cb_error *err);
cb_code cli_parse_age(const char *text, int64_t *out_ns, cb_error *err);
cb_code cli_parse_moment(const char *text, int64_t now_ns, int64_t *out_ns, cb_error *err);
cb_code cli_parse_mode(const char *text, uint32_t current, bool folder, uint32_t *out, cb_error *err); /* 644, u+x,go-w, a+X */
enum { CLI_FORMAT_MAX = 64 };
/* "2026-01-31T12:00:00.123456789Z": exact. */
const char *cli_format_time(int64_t ns, char out[CLI_FORMAT_MAX]);
const char *cli_format_mode(cb_type type, uint32_t mode, char out[CLI_FORMAT_MAX]); /* -rw-r--r-- */

/* ---- output (out.c): buffered, written when the command ends or the buffer is full ---- */

bool cli_is_json(const cli *c);
bool cli_is_terminal(const cli *c); /* standard output, or the pager in front of it, is a terminal */
bool cli_is_quiet(const cli *c);
/* --who as it was typed, NULL when not: commands that only read take it as whose steps are meant. */
const char *cli_who_given(const cli *c);
void cli_print(cli *c, const char *format, ...) ATTR_PRINTF(2, 3);
void cli_write(cli *c, const void *bytes, size_t size);
/* A name or text from a box: on a terminal control bytes and invalid UTF-8 are shown as \x1b; otherwise as it is. */
void cli_print_bytes(cli *c, const char *bytes, size_t size);
void cli_print_name(cli *c, const char *name);
/* How many columns cli_print_name takes for it. */
size_t cli_name_width(const cli *c, const char *name);
/* The same for a path that must stay on its line, also in a pipe: one with a control byte, a quote or a backslash stands in quotes. */
void cli_print_path(cli *c, const char *path);
size_t cli_path_width(const cli *c, const char *path);
/* Of the terminal; 80 when it is not known. */
size_t cli_columns(const cli *c);
typedef enum cli_style { CLI_PLAIN, CLI_BOLD, CLI_DIM, CLI_RED, CLI_GREEN, CLI_YELLOW, CLI_BLUE, CLI_CYAN, CLI_MAGENTA } cli_style;
const char *cli_on(const cli *c, cli_style style); /* "" without colour */
const char *cli_off(const cli *c);
/* Human on a terminal, exact otherwise: "1.2 MiB" or "1258291"; "2 hours ago" or the exact time. */
const char *cli_human_size(const cli *c, uint64_t bytes, char out[CLI_FORMAT_MAX]);
/* The same for the middle of a sentence: "1.2 MiB" or "1258291 bytes". */
const char *cli_size_words(const cli *c, uint64_t bytes, char out[CLI_FORMAT_MAX]);
/* "1 step", "2 steps", "0 boxes". */
const char *cli_count_words(uint64_t count, const char *one, char out[CLI_FORMAT_MAX]);
const char *cli_human_time(const cli *c, int64_t ns, char out[CLI_FORMAT_MAX]);
const char *cli_human_duration(int64_t ns, char out[CLI_FORMAT_MAX]); /* 7d, 30s; "0" for 0 */
/* Unified diff text, coloured on a terminal. */
void cli_print_diff(cli *c, const char *text, size_t size);
/* One line on standard error, unless --quiet; the only way for a command to speak there. With --json
 * it becomes one of the "notes", which stand at the end of the object (or of the error) whatever the command does: so it is called in both
 * cases alike, before or after the object was ended. */
void cli_note(cli *c, const char *format, ...) ATTR_PRINTF(2, 3);

/* ---- JSON: every command writes exactly one object with --json ---- */

/* The writer; json_object_begin() was not called yet. Its output goes the way of cli_write. */
json_writer *cli_json(cli *c);
void cli_json_time(json_writer *w, const char *name, int64_t ns); /* "name": "2026-…Z" */
/* Members of a file's stat: type, mode ("0644"), size, links, ino, version, mtime, ctime. */
void cli_json_stat(json_writer *w, const cb_stat_info *info);
/* May a file's content be a member? CB_TOOBIG: it would be in memory, twice. */
cb_code cli_json_content_fits(const char *path, const cb_stat_info *info, cb_error *err);
/* "tags" and "metadata" of what is at path. */
cb_code cli_json_tags(json_writer *w, cb_box *box, const char *path, cb_error *err);
cb_code cli_json_meta(json_writer *w, cb_box *box, const char *path, cb_error *err);
/* {"name", "value"}: a visitor, whose context is the writer. */
cb_code cli_json_pair(void *writer, const char *name, const char *value, size_t size, cb_error *err);
/* Members of a box: name, steps, files, bytes, created, and of forks origin, origin_step. */
void cli_json_box(json_writer *w, const cb_box_info *info);

/* ---- talking to a person (term.c) ---- */

/* Asks on a terminal; elsewhere CB_INVALID with "add --yes" unless --yes. The text says what would be lost. */
cb_code cli_confirm(cli *c, cb_error *err, const char *format, ...) ATTR_PRINTF(3, 4);
/* Progress bar (on a terminal, after a second), notes, and Ctrl-C as CB_INTERRUPTED. `what`: "importing". */
const cb_transfer_watch *cli_watch(cli *c, const char *what);
void cli_watch_done(cli *c); /* wipes the bar */

/* ---- errors ---- */

/* What to do next, appended to the error's line; the last one set holds. */
void cli_hint(cli *c, const char *format, ...) ATTR_PRINTF(2, 3);
/* A path that is in the error's way: "conflicts" of the error object; otherwise lines on standard output. contradicts: as cb_conflict. */
void cli_conflict(cli *c, const char *path, const char *reason, bool contradicts);
/* The same as a cb_conflict_visit, whose context is the cli. */
cb_code cli_conflict_visit(void *c, const cb_conflict *conflict, cb_error *err);
/* What to do about changes that conflict with the box, and are kept in a fork of it. */
void cli_hint_fork(cli *c, const char *box, const char *fork);
/* CB_INVALID with the hint to see the command's help. */
cb_code cli_usage(cli *c, cb_error *err, const char *format, ...) ATTR_PRINTF(3, 4);
/* The exit status when run() returns CB_OK (grep without a match: 1). */
void cli_status(cli *c, int status);
/* What was printed so far is whole, also with --json, and is to be seen though run() fails. */
void cli_whole(cli *c);
int64_t cli_now(const cli *c); /* nanoseconds since 1970 */
/* Reads standard input to its end; at most max bytes (CB_TOOBIG). */
cb_code cli_stdin(cli *c, size_t max, buf *out, cb_error *err);
/* A host file; "-" is standard input. */
cb_code cli_host_file(cli *c, const char *path, size_t max, buf *out, cb_error *err);
/* The same of any size, to be written to a file of a box: only a piece of it is in memory. Where there is `more` after the first piece
 * cli_input_write makes several calls, and needs a transaction. cli_input_done() it, also after an error. */
typedef struct cli_input {
	const char *path; /* lent */
	int fd;
	buf piece;
	bool more;
} cli_input;
cb_code cli_input_open(const char *path, cli_input *out, cb_error *err);
cb_code cli_input_write(cli_input *in, cb_box *box, const char *path, const cb_write_options *options, cb_error *err);
void cli_input_done(cli_input *in);

#endif
