/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that take a resource, made to fail one after the other. A program that links inject.c with the wrapped symbols
 * of tests/meson.build counts such calls of the library (and its own) per thread, while the thread is armed.
 */
#ifndef PLAIT_TESTS_INJECT_H
#define PLAIT_TESTS_INJECT_H

#include <stdbool.h>

/*
 * From now on the nth call of this thread fails, and with `onwards` all later ones that need the same: memory, or
 * descriptors. 0: calls are only counted.
 */
void inject_arm(unsigned nth, bool onwards);

/* Stop. How many calls there were. */
unsigned inject_disarm(void);

/* The call that failed since the last arming, or NULL. */
const char *inject_fired(void);

/* Blocks of heap memory that this process has and has not freed. */
long inject_live(void);

#endif
