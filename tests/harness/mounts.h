/* mounts.h: a mount namespace of the test's own, in which boots are faked and folders become read-only for real. */
#ifndef TESTS_MOUNTS_H
#define TESTS_MOUNTS_H

#include <stdbool.h>

/* By right, or through a user namespace in which we stay who we are; skips where neither can be had. Mounts go with the test. */
void mounts_own(void);
/* /proc/sys/kernel/random/boot_id says what boots_set says from now on. */
void boots_fake(void);
void boots_set(unsigned long long boot);
/* It cannot be read, or again. */
void boots_hide(bool hidden);
/* The folder, and all in it, is of a read-only filesystem until mounts_writable. */
void mounts_read_only(const char *folder);
void mounts_writable(const char *folder);

#endif
