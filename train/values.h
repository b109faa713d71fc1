/* SPDX-License-Identifier: BSD-3-Clause */
/* Options' values: text to what it means; false after a message that names the option. */
#ifndef PLAIT_TRAIN_VALUES_H
#define PLAIT_TRAIN_VALUES_H

#include <stdbool.h>
#include <stdint.h>

struct choice {
    const char *name;
    int value;
};

bool value_number(const char *flag, const char *text, double least, double most, uint64_t *out);
bool value_real(const char *flag, const char *text, double least, double most, double *out);

/** choices: the last has no name. out: an int, or an enum of that size */
bool value_choice(const char *flag, const char *text, const struct choice *choices, void *out);

/** Letters to insert, delete or change between two names. */
unsigned value_distance(const char *a, const char *b);

#endif
