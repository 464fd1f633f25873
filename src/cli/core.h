/* core.h: what the files of the core share. Commands see cli.h only. */
#ifndef CLI_CORE_H
#define CLI_CORE_H

#include "cli/cli.h"

enum {
	CLI_OUT_BYTES = 64 << 10,   /* standard output is written in pieces of this size */
	CLI_BOXES_MAX = 64,         /* open at once by one command */
	CLI_HINT_MAX = 1024,        /* of one error */
	CLI_NOTES_BYTES = 4 << 20,  /* notes kept for --json */
	CLI_NAMES_BYTES = 1 << 30,  /* a list of names, with their ends */
	CLI_CONFIG_BYTES = 1 << 20, /* the user's configuration file */
	CLI_PIECE_BYTES = 16 << 20, /* of input that goes into a file, in memory at once */
	CLI_LIST_MAX = 4096,        /* values of one repeated option, and operands */
	CLI_COMPLETIONS_MAX = 1000, /* offered for one word */
};

typedef struct cli_globals {
	const char *store, *box, *who, *color;
	bool json, yes, quiet, no_pager, help, version;
} cli_globals;

typedef struct cli_text_list {
	const char **items;
	size_t count, capacity;
} cli_text_list;

typedef struct cli_value {
	bool given;
	const char *text;
	uint64_t number;
	int64_t moment;
	cli_text_list list;
} cli_value;

struct cli_call {
	const cli_command *command;
	cli_value *options;  /* in the order of the command's table */
	cli_value *operands; /* the same */
};

struct cli {
	cli_globals globals;
	const cli_command *command; /* NULL until it is known */
	const char *parent_name;    /* of a subcommand; else NULL */
	cb_store *store;
	cb_box *boxes[CLI_BOXES_MAX];
	const char *box_names[CLI_BOXES_MAX]; /* of handles that are shared; else NULL */
	size_t box_count;
	cb_box *changing; /* the one of them that was last opened to be changed; NULL: none */
	void **kept;
	size_t kept_count, kept_capacity;
	char *chosen;
	const char *chosen_by;
	int64_t now_ns;
	bool recover_told; /* that what a program left cannot be captured now */
	int status;
	bool whole; /* cli_whole */
	char hint[CLI_HINT_MAX];

	buf out;
	bool out_failed;
	int out_errno;
	json_writer json;
	bool json_used;
	buf notes;     /* NUL-separated */
	buf conflicts; /* path NUL reason NUL, a byte: whether it contradicts, and so on; with --json */
	bool out_is_terminal, err_is_terminal, use_color;
	bool watching, bar_shown;
	cb_transfer_watch watch; /* of the transfer that runs */
	const char *watch_what;
	int64_t watch_started_ns, watch_drawn_ns;
	buf config; /* the user's file; read once */
	bool config_read;
};

/* run.c */
int cli_main(int argc, char **argv); /* the exit status */

/* parse.c */
typedef struct cli_words {
	const char *const *items;
	size_t count;
} cli_words;
/* Takes global options out of the words before "--"; what is left goes to `out` (free(out->items)). */
cb_code parse_globals(cli_words words, cli_globals *globals, cli_words *out, cb_error *err);
/* Words after the command's name. call_done() the result. */
cb_code parse_call(const cli_command *command, cli_words words, int64_t now_ns, cli_call *out, cb_error *err);
void call_done(cli_call *call);
/* The command the words begin with; *out_rest are the words after its name. parent: NULL or the command above a subcommand. */
cb_code parse_command(cli_words words, const cli_command **out, const cli_command **out_parent, cli_words *out_rest, cb_error *err);
/* Is the text one of the words that '|' parts? */
bool choice_has(const char *choices, const char *text);
size_t option_count(const cli_command *command);
size_t operand_count(const cli_command *command);

/* out.c */
void out_init(cli *c);
cb_code out_end(cli *c, cb_error *err); /* CB_IO when standard output could not be written */
void out_flush(cli *c);
/* "notes": [..] of what cli_note and the watch collected; nothing when there are none. */
void json_notes(cli *c, json_writer *w);
/* As names are shown on a terminal, for lines that do not go the way of cli_write; what does not fit is cut. */
void out_escape(buf *out, const char *bytes, size_t size);

/* choose.c */
void choose_close(cli *c);

/* term.c */
void pager_start(cli *c);
void pager_end(void);

/* help.c */
void help_summary(cli *c);
/* The options of every command. */
void help_global_options(cli *c);
void help_command(cli *c, const cli_command *command, const cli_command *parent);
void help_command_json(json_writer *w, const cli_command *command, const cli_command *parent);
/* "cowbox checkpoint save [--no-sync] [BOX] NAME" */
cb_code help_usage_line(const cli_command *command, const cli_command *parent, buf *out, cb_error *err);
/* help_docs.c */
cb_code help_markdown(cli *c, cb_error *err);
cb_code help_exit_codes(cli *c, bool markdown, cb_error *err);
void help_man(cli *c, const cli_command *command, const cli_command *parent);
void help_man_index(cli *c); /* cowbox(1) */

/* complete.c: one candidate per line, TAB, description. words: after "cowbox"; the last one is being typed. */
cb_code complete_words(cli *c, cli_words words, cb_error *err);

#endif
