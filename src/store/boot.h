/*
 * boot.h: is this still the boot of the machine in which a store was last opened for writing?
 *
 * The kernel's boot_id says it for sure. Where it cannot be read (no /proc in a chroot, a sandbox that hides it) the clock does: what
 * CLOCK_REALTIME is ahead of CLOCK_BOOTTIME is the moment of the boot, the same for all processes until somebody sets the clock. Both
 * are kept, so that processes with and without /proc agree about one store. Wrongly taken for a new boot, a store skips numbers once
 * more, which is harmless; so in doubt it is a new one.
 */
#ifndef STORE_BOOT_H
#define STORE_BOOT_H

#include <stdbool.h>

enum { BOOT_TEXT_BYTES = 64 };

typedef struct boot {
	char id[BOOT_TEXT_BYTES]; /* the kernel's; "": not known */
	char clock
		[BOOT_TEXT_BYTES]; /* "MOMENT UPTIME", in ms: when the machine booted and how long it had been up; "": not known */
} boot;

void boot_now(boot *out);
/* known: as it was written, anything if damaged. */
bool boot_is_same(const boot *known, const boot *now);

#endif
