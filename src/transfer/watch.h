/* watch.h: telling the caller of a transfer what was left out and how far it is. */
#ifndef TRANSFER_WATCH_H
#define TRANSFER_WATCH_H

#include <cowbox/cowbox.h>

#include "base/attr.h"

/* path "": the folder itself. */
/* The caller's, or none, into ours: *watch points to *to then, never NULL. */
cb_code watch_take(const cb_transfer_watch **watch, cb_transfer_watch *to, cb_error *err);
void watch_note(const cb_transfer_watch *w, const char *path, const char *format, ...) ATTR_PRINTF(3, 4);
/* An entry and so many bytes more are done; *since counts up to the next report. false: the caller wants it to end. */
bool watch_go_on(const cb_transfer_watch *w, uint64_t *since, uint64_t bytes, const cb_progress *p);

#endif
