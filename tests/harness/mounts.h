/* mounts.h: a mount namespace of the test's own, in which boots are faked and folders become read-only for real. */
#ifndef TESTS_MOUNTS_H
#define TESTS_MOUNTS_H

#include <stdbool.h>

/* By right, or through a user namespace in which we stay who we are; skips the test where neither can be had. Mounts go with the test. */
void mounts_own(void);
/* The same for a test that has another way: false where neither can be had. */
bool mounts_try(void);
/* /proc/sys/kernel/random/boot_id says what boots_set says from now on. Needs mounts of one's own; skips the test where it cannot be. */
void boots_fake(void);
/* The same for a test that has another way. */
bool boots_try(void);
void boots_set(unsigned long long boot);
/* It cannot be read, or again. */
void boots_hide(bool hidden);
/* The folder, and all in it, is of a read-only filesystem until mounts_writable. */
void mounts_read_only(const char *folder);
void mounts_writable(const char *folder);

#endif
