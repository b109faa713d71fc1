/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fields of machines by name, and their values as text: "100 Gbit/s", "2 us", "8 KiB". A number without a unit is
 * in bytes/s, ns or bytes. The programs and files/ compile this file, too.
 */
#ifndef PLAIT_SIMULATE_FIELDS_H
#define PLAIT_SIMULATE_FIELDS_H

#include <plait/simulate.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- Values ------------------------------------------------------------------------------------------- */

enum plait_quantity { PLAIT_COUNT, PLAIT_RATE, PLAIT_TIME, PLAIT_SIZE };

/* False without a message: no number, a negative one, 1e18 or more, or another quantity's unit. */
bool plait_quantity_parse(enum plait_quantity q, const char *text, double *out);

/* May a field have this value? */
bool plait_quantity_allowed(enum plait_quantity q, double value);

/* The value with the largest unit in which it is short and exact. */
void plait_quantity_print(enum plait_quantity q, uint64_t value, char out[32]);

/* The values of a field, for error texts: 'nanoseconds, or text such as "2 us" (ns, us, ms, s)'. */
const char *plait_quantity_form(enum plait_quantity q);

/* ---- Fields ------------------------------------------------------------------------------------------- */

struct plait_field {
    const char *name;
    enum plait_quantity quantity;
    bool needed; /* in a description */
    uint64_t least, most;
    size_t offset, size; /* in the struct: 4 or 8 bytes */
};

#define PLAIT_MOST_PLACES    (1u << 20)          /* for ranks in a machine */
#define PLAIT_MOST_RATE      ((uint64_t)1 << 44) /* bytes per second: 17 TB/s */
#define PLAIT_MOST_TIME      1000000000000ull    /* ns: 1,000 s */
#define PLAIT_NLEVEL_FIELD   8
#define PLAIT_NMACHINE_FIELD 3
extern const struct plait_field plait_level_fields[PLAIT_NLEVEL_FIELD];     /* of struct plait_level */
extern const struct plait_field plait_machine_fields[PLAIT_NMACHINE_FIELD]; /* of struct plait_machine */

const struct plait_field *plait_field_find(const struct plait_field *fields, size_t n, const char *name);
uint64_t plait_field_get(const struct plait_field *f, const void *from);

/* Rounds the value. False: it is too large for the field. */
bool plait_field_set(const struct plait_field *f, double value, void *to);

/* "host 3", or "rank 5": its number, and the level whose children it is among. False: the machine has no such level. */
bool plait_unit_find(const struct plait_machine *m, const char *unit, uint32_t *level, uint32_t *child);

#define PLAIT_FORM_OVERSUBSCRIPTION "a number from 0.01 to 10000"

/*
 * Give level k links that have together 1 / n of the bandwidth of those of each child, n from 0.01 to 10000. A link's
 * bandwidth is that of the level, or 0: of a link below. False: the level below has no links.
 */
bool plait_oversubscribe(struct plait_machine *m, uint32_t k, double n);

#endif
