/* search.h: finding files and text in any state of a box. */
#ifndef COWBOX_SEARCH_H
#define COWBOX_SEARCH_H

#include <cowbox/files.h>
#include <cowbox/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What is searched for, and where. */
typedef struct cb_grep_options {
	size_t struct_size;
	const char *pattern; /* PCRE2, UTF-8 aware where the text is UTF-8; matched line by line */
	bool fixed;          /* the pattern is plain text */
	bool ignore_case, invert, word;
	bool hidden_too; /* also /home/agent and /tmp when the path is "/" */
	/* Only files whose name matches one of these globs, or, when it has a '/', whose path below the searched one does (from "/" when it
	 * begins with '/'). */
	const char *const *include;
	size_t include_count;
	const char *const *exclude; /* files and folders left out, likewise; one that ends in '/': folders only */
	size_t exclude_count;
	uint64_t max_per_file;  /* matching lines of one file; 0: all */
	uint64_t max_lines;     /* matching lines in all; 0: all */
	unsigned before, after; /* lines of context */
	bool names_only;        /* visit each matching file once, with line 0 */
} cb_grep_options;

/* An element of an array: as it is for good. */
typedef struct cb_grep_match {
	size_t start, end; /* bytes of the line */
} cb_grep_match;

/* A line that matches, or is near one that does. */
typedef struct cb_grep_line {
	size_t struct_size;
	const char *path;
	uint64_t line;    /* from 1; 0: names_only, or a binary file that matches */
	const char *text; /* without its newline */
	size_t size;
	bool context; /* not a match, but near one */
	bool binary;  /* the file is binary: visited once, without text */
	const cb_grep_match *matches;
	size_t match_count; /* 0 for context and inverted lines; empty matches are not listed */
} cb_grep_line;
typedef cb_code (*cb_grep_visit)(void *context, const cb_grep_line *line, cb_error *err);

/* What a search looked at and found. */
typedef struct cb_grep_count {
	size_t struct_size;
	uint64_t files, matched_files, matched_lines;
} cb_grep_count;

/* Files below path (or one file) in the order of cb_walk. CB_INVALID names the place in a bad pattern; CB_LIMIT a pattern that
 * explodes, or takes more than some seconds on one line: the line is named. options are needed; out may be NULL. */
CB_API cb_code cb_grep(cb_box *box, const char *path, const cb_grep_options *options, cb_grep_visit visit, void *context,
                       cb_grep_count *out, cb_error *err);

/* What is wanted; an entry must pass all that is set. */
typedef struct cb_find_options {
	size_t struct_size;
	const char *name;      /* glob on the last component */
	const char *path_glob; /* glob on the whole path, as cb_glob */
	bool ignore_case;      /* of name */
	cb_type type;          /* 0: any */
	bool has_min_size, has_max_size;
	uint64_t min_size, max_size; /* bytes, inclusive; folders have none */
	int64_t newer_ns, older_ns;  /* mtime after / before; 0: any */
	const char *tag;             /* has it */
	const char *meta;            /* has this metadata */
	const void *meta_value;      /* with this value; NULL: any */
	size_t meta_value_size;
	unsigned max_depth;   /* 0: any; 1: the entries of path itself */
	bool empty;           /* empty files and folders */
	uint64_t max_results; /* 0: all */
} cb_find_options;
/* path itself and what is below it, in the order of cb_walk. options may be NULL. */
CB_API cb_code cb_find(cb_box *box, const char *path, const cb_find_options *options, cb_walk_visit visit, void *context,
                       cb_error *err);

/* The PCRE2 that is linked in: "10.42". */
CB_API const char *cb_pcre2_version(void);

#ifdef __cplusplus
}
#endif
#endif
