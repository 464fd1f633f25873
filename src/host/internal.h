/* internal.h: what the files of this layer share. */
#ifndef HOST_INTERNAL_H
#define HOST_INTERNAL_H

#include "host/host.h"

/* From errno, as host.h says; `what` and `name` make the message: "cannot open 'name': ...". */
cb_code host_fail(cb_error *err, int error_number, const char *what, const char *name);

/* One name below a folder, never through a link; returns the descriptor, or -1 and errno. */
int host_open_at(int dir, const char *name, int flags, bool other_device);

#endif
