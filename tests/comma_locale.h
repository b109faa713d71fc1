/* SPDX-License-Identifier: BSD-3-Clause */
/* A locale as users have it, made here, as none may be installed: "2,5" and "1.000", and, as in Turkish, i is no small I. */
#ifndef PLAIT_TESTS_COMMA_LOCALE_H
#define PLAIT_TESTS_COMMA_LOCALE_H

#include <stdbool.h>

/* Make it with localedef and set it, or go back to "C". false after a message: it could not be made. */
bool comma_locale(bool on);

#endif
