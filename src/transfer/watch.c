/* watch.c: notes and progress; a report every mebibyte or 64 entries, whichever comes first. */
#include "transfer/watch.h"
#include "base/sized.h"

#include <stdarg.h>
#include <stdio.h>

enum { PROGRESS_ENTRIES = 64, PROGRESS_BYTES = 1 << 20 };

cb_code watch_take(const cb_transfer_watch **watch, cb_transfer_watch *to, cb_error *err)
{
	CB_TRY(SIZED_TAKE(cb_transfer_watch, context, to, *watch, err));
	*watch = to;
	return CB_OK;
}

void watch_note(const cb_transfer_watch *w, const char *path, const char *format, ...)
{
	char text[256];
	if (!w->note) return;
	va_list args;
	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	w->note(w->context, *path ? path : ".", text);
}

bool watch_go_on(const cb_transfer_watch *w, uint64_t *since, uint64_t bytes, const cb_progress *p)
{
	*since += bytes + PROGRESS_BYTES / PROGRESS_ENTRIES;
	if (!w->progress || *since < PROGRESS_BYTES) return true;
	*since = 0;
	return w->progress(w->context, p);
}
