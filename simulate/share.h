/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Activities that share resources, such as messages on links: max-min fairness, in integers.
 *
 * An activity has an amount of work, a maximum speed, and uses of resources: at speed v it takes v * weight of a
 * resource's capacity. Speeds are raised together until an activity has its maximum speed or one of its
 * resources is exhausted. They are computed again when an activity begins or ends, only for the activities whose share
 * may change.
 */
#ifndef PLAIT_SIMULATE_SHARE_H
#define PLAIT_SIMULATE_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLAIT_PS_PER_S  1000000000000ull
#define PLAIT_MOST_USES 20 /* two links of each level; memory and processors of each */
#define PLAIT_NEVER     UINT64_MAX

struct plait_use {
    uint32_t resource;
    uint64_t weight;
};

struct plait_resource {
    uint64_t capacity;
    unsigned __int128 used; /* work times weight, of all activities that began */
};

struct plait_share; /* the activities */

/* How long `work` takes at `speed`, in ps. */
static inline uint64_t plait_share_duration(uint64_t work, uint64_t speed)
{
    return (uint64_t)(((unsigned __int128)work * PLAIT_PS_PER_S + speed - 1) / speed);
}

/* NULL: out of memory. resources: [n]; the caller's, until plait_share_destroy(). */
struct plait_share *plait_share_create(struct plait_resource *resources, uint32_t n);
void plait_share_destroy(struct plait_share *s);

/*
 * Begin an activity of `work` at the time `now`, in ps. speed: the most work per second. what: returned at its end.
 * False: out of memory.
 */
bool plait_share_begin(struct plait_share *s, uint64_t now, uint64_t work, uint64_t speed, const struct plait_use *uses,
                       uint32_t nuse, uint64_t what);

/* When does the next activity end? Computes the speeds. PLAIT_NEVER: there is none. */
uint64_t plait_share_next(struct plait_share *s, uint64_t now);

/* Has the time of an activity come? */
bool plait_share_due(const struct plait_share *s, uint64_t now);

/* End an activity whose time has come: true, and its *what. Of several, the one that began first. */
bool plait_share_end(struct plait_share *s, uint64_t now, uint64_t *what);

/* From now on, watch() is told when the use of a resource changes. */
void plait_share_watch(struct plait_share *s,
                       void (*watch)(void *arg, uint32_t resource, uint64_t time, uint64_t rate, uint64_t capacity),
                       void *arg);

#endif
