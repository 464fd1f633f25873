/*
 * text.h: line differences, unified diffs and three-way text merges, on bytes in memory.
 *
 * Pure functions: no files, no store. Inputs are hostile: any bytes, any size up to LIMIT_DIFF_TEXT_BYTES (CB_TOOBIG above); time
 * is bounded: Myers O(ND) whose searches are cut at about the square root of the lines, and a fixed number of steps for all of
 * them, after which what is left is called changed as a whole (text_diff.c says how). Outputs are written only on success; a buffer
 * is left as it was.
 */
#ifndef BOX_TEXT_H
#define BOX_TEXT_H

#include "base/buf.h"

/* A NUL byte in the first 8,000, as git decides. */
bool text_is_binary(span s);

/* One run of changed lines: old lines [old_start, old_start+old_count) became new lines [new_start, ...). Lines count from 0. A
 * last line without newline differs from the same line with one. */
typedef struct text_hunk {
	size_t old_start, old_count, new_start, new_count;
} text_hunk;
/* *out: free() it. Minimal or near: applying the hunks to old gives new exactly. */
cb_code text_diff(span old_text, span new_text, text_hunk **out, size_t *out_count, cb_error *err);

/* Unified hunks ("@@ -1,3 +1,4 @@" ...) without the file header, `context` lines around, "\ No newline at end of file" as diff(1).
 * Appends nothing when the texts are equal. */
cb_code text_unified(span old_text, span new_text, unsigned context, buf *out, cb_error *err);

/* Three-way merge by lines. *out_conflicts counts regions changed differently on both sides; they appear with conflict markers
 * ("<<<<<<< ours", "=======", ">>>>>>> theirs") carrying the labels. Same result as `git merge-file` where no region conflicts. */
cb_code text_merge3(span base, span ours, span theirs, const char *ours_label, const char *theirs_label, buf *out,
                    size_t *out_conflicts, cb_error *err);

/* Where each line comes from, carried over one change: unchanged lines keep their origin, changed ones get `step`. old_origins has
 * one entry per line of old_text (CB_INVALID otherwise); *out_origins one per line of new_text: free() it. */
cb_code text_blame_step(const uint64_t *old_origins, size_t old_count, span old_text, span new_text, uint64_t step,
                        uint64_t **out_origins, size_t *out_count, cb_error *err);

/* Start offsets of the lines; *out: free() it; count lines (a text without final newline has its last line counted). */
cb_code text_lines(span text, size_t **out, size_t *out_count, cb_error *err);

#endif
