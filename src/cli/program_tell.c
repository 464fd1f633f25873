/* program_tell.c: how a program in a box ended: its status, what is worth a note, and the object of --json. */
#include "cli/program.h"

#include <string.h>

#include "cli/changes.h"

enum { STATUS_TIMEOUT = 124 };

static const char *tier_word(cb_tier tier)
{
	static const char *const words[] = {"auto", "overlay", "folder", "weak"};
	return words[tier];
}

static cb_code change_json(void *context, const cb_change *change, cb_error *err)
{
	(void)err;
	json_writer *w = context;
	json_object_begin(w);
	json_member_str(w, "path", change->path);
	if (change->old_path) json_member_str(w, "old_path", change->old_path);
	json_member_str(w, "change", change_kind_name(change->kind));
	if (change->has_new) json_member_uint(w, "size", change->new_info->size);
	json_object_end(w);
	return CB_OK;
}

static void ended_json(json_writer *w, const program *p, const cb_exec_result *r)
{
	json_member_bytes(w, "stdout", r->out, r->out_size);
	if (!p->tty) json_member_bytes(w, "stderr", r->err, r->err_size);
	json_member_int(w, "exit_code", r->exit_code);
	json_member_int(w, "signal", r->signal);
	json_member_bool(w, "timed_out", r->end == CB_END_TIMEOUT);
	json_member_str(w, "reason", r->reason);
	json_member_bool(w, "truncated", r->out_truncated || r->err_truncated);
	json_member_uint(w, "stdout_bytes", r->out_bytes);
	if (!p->tty) json_member_uint(w, "stderr_bytes", r->err_bytes);
	json_member_double(w, "duration_ms", (double)r->duration_ns / 1e6);
	json_member_object(w, "usage");
	json_member_double(w, "cpu_ms", (double)r->cpu_ns / 1e6);
	json_member_uint(w, "peak_memory", r->peak_memory_bytes);
	json_object_end(w);
	json_member_str(w, "tier", tier_word(r->tier));
}

static cb_code tell_json(program *p, const program_said *said, cb_error *err)
{
	const cb_exec_result *r = said->result;
	json_writer *w = cli_json(p->c);
	json_object_begin(w);
	json_member_str(w, "box", said->box);
	json_member_uint(w, "step", r->step);
	ended_json(w, p, r);
	if (said->checkpoint) json_member_str(w, "checkpoint", said->checkpoint);
	if (r->undo_step) json_member_uint(w, "undo_step", r->undo_step);
	if (r->merged) json_member_bool(w, "merged", true);
	if (r->fork[0]) json_member_str(w, "fork", r->fork);
	json_member_array(w, "changed");
	cb_code code = cb_exec_changes(p->exec, change_json, w, err);
	json_array_end(w);
	json_member_uint(w, "change_count", r->changed);
	json_member_uint(w, "left_out", r->left_out);
	json_object_end(w);
	return code;
}

static void note_cut(const program *p, const char *name, uint64_t hidden, uint64_t shown)
{
	if (hidden > 0)
		cli_note(p->c, "%s was cut: %llu of %llu bytes are shown", name, (unsigned long long)shown,
		         (unsigned long long)(shown + hidden));
}

static void notes(const program *p, const cb_exec_result *r)
{
	cli *c = p->c;
	if (r->end == CB_END_NOT_FOUND || r->end == CB_END_NOT_RUN)
		cli_note(c, "'%s' could not be started%s%s%s: %s", p->name, p->cwd ? " in '" : "", p->cwd ? p->cwd : "",
		         p->cwd ? "'" : "", r->reason);
	else if (*r->reason && r->end != CB_END_KILLED && r->end != CB_END_OUTPUT)
		cli_note(c, "the program was ended: %s", r->reason);
	note_cut(p, "standard output", p->hidden[0], p->shown[0]);
	note_cut(p, "standard error", p->hidden[1], p->shown[1]);
	for (uint64_t i = 0; i < p->noted && i < PROGRAM_NOTES; i++) cli_note(c, "%s", p->notes[i]);
	if (p->noted > PROGRAM_NOTES) cli_note(c, "and %llu more such notes", (unsigned long long)p->noted - PROGRAM_NOTES);
	if (r->undo_step) cli_note(c, "the program failed: its changes (step %llu) were taken back", (unsigned long long)r->step);
}

static void hint_fork(const program *p, const program_said *said, cb_code code)
{
	const char *fork = said->result->fork;
	if (code == CB_QUOTA)
		cli_hint(p->c, "'cowbox diff %s %s' shows what it did; 'cowbox quota %s' the bounds", said->box, fork, said->box);
	else cli_hint_fork(p->c, said->box, fork);
}

cb_code program_tell(program *p, const program_said *said, cb_code code, cb_error *err)
{
	const cb_exec_result *r = said->result;
	cb_error lost = {0};
	notes(p, r);
	if (r->fork[0]) hint_fork(p, said, code);
	if (cli_is_json(p->c)) {
		for (size_t i = 0; i < r->conflict_count; i++) (void)cli_conflict_visit(p->c, r->conflicts[i], NULL);
		cb_code told = tell_json(p, said, code == CB_OK ? err : &lost);
		if (code == CB_OK && told != CB_OK) return told;
		if (told == CB_OK) cli_whole(p->c);
	}
	if (code != CB_OK) return code;
	if (p->failed_errno) return cb_err_errno(err, p->failed_errno, "writing the output");
	cli_status(p->c, r->end == CB_END_TIMEOUT ? STATUS_TIMEOUT : r->exit_code);
	return CB_OK;
}
