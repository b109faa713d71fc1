/* SPDX-License-Identifier: BSD-3-Clause */
/* Arrays that a function needs until its end: taken one by one, freed all at once. */
#ifndef PLAIT_LIB_PLAN_SCRATCH_H
#define PLAIT_LIB_PLAN_SCRATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

struct plait_scratch_array { /* before the elements */
    _Alignas(max_align_t) struct plait_scratch_array *next;
};

struct plait_scratch { /* starts zeroed */
    struct plait_scratch_array *first;
    bool failed; /* sticky: an array is missing, for lack of memory */
};

/* An array of n zeroed elements of `size` bytes; NULL: out of memory. */
static inline void *plait_scratch(struct plait_scratch *s, size_t n, size_t size)
{
    struct plait_scratch_array *a = calloc(1, sizeof *a + n * size);

    s->failed |= a == NULL;
    if (a == NULL)
        return NULL;
    a->next = s->first;
    s->first = a;
    return a + 1;
}

static inline void plait_scratch_free(struct plait_scratch *s)
{
    while (s->first != NULL) {
        struct plait_scratch_array *a = s->first;
        s->first = a->next;
        free(a);
    }
}

#endif
