/* SPDX-License-Identifier: BSD-3-Clause */
/* Rates, times and sizes as text: "100 Gbit/s", "2 us", "8 KiB". A number without a unit is in bytes/s, ns or bytes. */
#ifndef PLAIT_TOOLS_QUANTITY_H
#define PLAIT_TOOLS_QUANTITY_H

#include <stdbool.h>
#include <stdint.h>

enum quantity { COUNT, RATE, TIME, SIZE };

/* False without a message: no number, a negative one, 1e18 or more, or another quantity's unit. */
bool quantity_parse(enum quantity q, const char *text, double *out);

/* May a field have this value? */
bool quantity_allowed(enum quantity q, double value);

/* The value with the largest unit in which it is short and exact. */
void quantity_print(enum quantity q, uint64_t value, char out[32]);

/* What a message says that a value must be: 'nanoseconds, or text such as "2 us" (ns, us, ms, s)'. */
const char *quantity_form(enum quantity q);

#endif
