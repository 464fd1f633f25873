/* beside.h: how long others wait while something large is done: a thread that writes to a box of its own, a small file after the other. */
#ifndef TESTS_BESIDE_H
#define TESTS_BESIDE_H

#include <cowbox/cowbox.h>

int64_t beside_now_ms(void);
/* Makes the box "other" and writes to it until beside_end(). */
void beside_begin(cb_store *s);
/* The longest that one of the writes took, in ms. */
int64_t beside_end(void);

#endif
