/* result.c: how a program ended, as the caller and as the step's result say it. */
#include "exec/exec.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "base/json.h"

static void say(cb_exec *e, cb_exec_end end, const char *reason)
{
	e->result.end = end;
	if (!e->reason[0]) (void)snprintf(e->reason, sizeof(e->reason), "%s", reason);
}

/* What ended it, when it was not its own doing. */
static void fill_cause(cb_exec *e)
{
	cb_exec_result *r = &e->result;
	r->end = r->signal ? CB_END_SIGNAL : CB_END_EXIT;
	if (e->end.end == WIRE_END_MEMORY) say(e, CB_END_MEMORY, "out of memory");
	else if (e->end.end == WIRE_END_DISK) say(e, CB_END_DISK, "too much was written");
	else if (e->stopped && e->reject_output) say(e, CB_END_OUTPUT, "more output than allowed");
	else if (e->stopped) say(e, CB_END_OUTPUT, "the output is not wanted any more");
	else if (e->timed_out) say(e, CB_END_TIMEOUT, "the time was over");
	else if (e->killed && r->signal == SIGKILL) say(e, CB_END_KILLED, "killed");
}

static void fill_status(cb_exec *e)
{
	cb_exec_result *r = &e->result;
	int status = e->end.status;
	if (e->end.end == WIRE_END_NOT_FOUND || e->end.end == WIRE_END_NOT_RUN) {
		bool missing = e->end.end == WIRE_END_NOT_FOUND;
		r->end = missing ? CB_END_NOT_FOUND : CB_END_NOT_RUN;
		r->exit_code = missing ? 127 : 126;
		if (!e->reason[0]) (void)snprintf(e->reason, sizeof(e->reason), "%s", strerror(status));
		return;
	}
	if (WIFSIGNALED(status)) r->signal = WTERMSIG(status);
	r->exit_code = r->signal ? 128 + r->signal : WEXITSTATUS(status);
	fill_cause(e);
}

/* A cut in the middle of a character would make text look binary. */
static size_t whole_characters(const uint8_t *bytes, size_t size)
{
	for (size_t back = 1; back <= 3 && back <= size; back++) {
		uint8_t byte = bytes[size - back];
		if ((byte & 0xc0) == 0x80) continue;
		size_t need = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
		return need > back ? size - back : size;
	}
	return size;
}

static void stream_json(json_writer *w, const char *name, const exec_stream *s)
{
	size_t size = s->kept.size < EXEC_RECORD_BYTES ? s->kept.size : EXEC_RECORD_BYTES;
	if (size < s->total) size = whole_characters(s->kept.bytes, size);
	json_member_bytes(w, name, s->kept.bytes, size);
}

static const char *end_word(cb_exec_end end)
{
	switch (end) {
	case CB_END_EXIT:
	case CB_END_SIGNAL:
		return NULL;
	case CB_END_TIMEOUT:
		return "timeout";
	case CB_END_MEMORY:
		return "memory";
	case CB_END_DISK:
		return "disk";
	case CB_END_OUTPUT:
		return "output";
	case CB_END_KILLED:
		return "killed";
	case CB_END_NOT_FOUND:
		return "not-found";
	case CB_END_NOT_RUN:
		return "not-run";
	}
	return NULL;
}

static cb_code result_text(cb_exec *e, cb_error *err)
{
	AUTO_BUF buf text = BUF_INIT(LIMIT_STEP_FIELD_BYTES);
	const cb_exec_result *r = &e->result;
	json_writer w;
	json_writer_init(&w, &text, JSON_COMPACT);
	json_object_begin(&w);
	json_member_int(&w, "exit_code", r->exit_code);
	if (r->signal) json_member_int(&w, "signal", r->signal);
	if (end_word(r->end)) json_member_str(&w, "end", end_word(r->end));
	if (e->reason[0]) json_member_str(&w, "reason", e->reason);
	json_member_bool(&w, "timed_out", r->end == CB_END_TIMEOUT);
	json_member_int(&w, "duration_ms", r->duration_ns / 1000000);
	stream_json(&w, "stdout", &e->streams[0]);
	if (!e->tty) stream_json(&w, "stderr", &e->streams[1]);
	json_member_uint(&w, "stdout_bytes", r->out_bytes);
	if (!e->tty) json_member_uint(&w, "stderr_bytes", r->err_bytes);
	json_object_end(&w);
	CB_TRY(json_writer_end(&w, err));
	free(TAKE_PTR(e->result_json)); /* of a try that was cancelled */
	return buf_take(&text, &e->result_json, NULL, err);
}

cb_code result_fill(cb_exec *e, cb_error *err)
{
	cb_exec_result *r = &e->result;
	fill_status(e);
	r->reason = e->reason;
	for (size_t i = 0; i < 2; i++) {
		exec_stream *s = &e->streams[i];
		if (s->truncated) s->kept.size = whole_characters(s->kept.bytes, s->kept.size);
		CB_TRY(buf_append_byte(&s->kept, 0, err));
		s->kept.size--;
	}
	r->out = (const char *)e->streams[0].kept.bytes;
	r->err = (const char *)e->streams[1].kept.bytes;
	r->out_size = e->streams[0].kept.size;
	r->err_size = e->streams[1].kept.size;
	r->out_truncated = e->streams[0].truncated;
	r->err_truncated = e->streams[1].truncated;
	r->out_bytes = e->streams[0].total;
	r->err_bytes = e->streams[1].total;
	r->duration_ns = e->end.ended_ns > e->end.started_ns ? e->end.ended_ns - e->end.started_ns : 0;
	r->cpu_ns = e->end.user_ns + e->end.system_ns;
	r->peak_memory_bytes = e->end.peak_bytes;
	r->tier = work_tier(e->w);
	return result_text(e, err);
}
