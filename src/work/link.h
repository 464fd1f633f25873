/*
 * link.h: the caller's end of a holder: starts cowbox-box, talks wire.h with it, and knows when it is gone.
 *
 * The helper is the one of $COWBOX_BOX_HELPER (tests), else beside the running program or in libexec/cowbox of its prefix, or of the shared
 * library's, or of /usr/local or /usr. It is started with posix_spawn and exactly these descriptors: 0-2 on /dev/null (2 is the caller's
 * with COWBOX_DEBUG), 3 the socket, 4 a pidfd of the caller, 5 the slot's lock (its flock goes to the holder; the caller closes its own),
 * 6 the area. Environment: empty. Arguments:
 *
 *   cowbox-box hold [--weak] [--uid N]      N: as root, whom the layers belong to and who the box is on the host
 */
#ifndef WORK_LINK_H
#define WORK_LINK_H

#include <sys/types.h>

#include "sandbox/wire.h"

typedef struct link link_t;

typedef struct link_options {
	int lock, area; /* -1: none (memory). Lent */
	bool weak;
	uid_t uid; /* 0: the caller's own (then the caller is not root) */
} link_options;
/* CB_UNSUPPORTED: the helper is not there, with where it was looked for. */
cb_code link_open(const link_options *options, link_t **out, cb_error *err);
/* Says BYE, waits until the holder has cleaned up and ended (killed after LIMIT_HOLDER_END_MS). Accepts NULL. */
void link_close(link_t *l);
/* No waiting: kills the holder. For a caller that gives up. */
void link_kill(link_t *l);
int link_fd(const link_t *l); /* for poll: readable when link_receive has something */
pid_t link_pid(const link_t *l);

cb_code link_send(link_t *l, wire_type type, span body, const int *fds, size_t fd_count, cb_error *err);
/* The next message. FAIL becomes its code and message; the holder's end CB_IO. The packet is lent until the next call. */
cb_code link_receive(link_t *l, const wire_packet **out, cb_error *err);
/* The same, and it must be of that type (CB_INTERNAL otherwise). */
cb_code link_expect(link_t *l, wire_type type, const wire_packet **out, cb_error *err);
/* Takes a descriptor out of the last packet. */
int link_take_fd(link_t *l, size_t index);

#endif
