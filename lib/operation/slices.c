/* SPDX-License-Identifier: BSD-3-Clause */
#include "slices.h"

#include "base/status.h"

#include <stdlib.h>

enum plait_status plait_flights_create(uint32_t nrank, struct plait_flight **out)
{
    struct plait_flight *flights = calloc(PLAIT_NFLIGHT, sizeof *flights);

    for (uint32_t d = 0; flights != NULL && d < PLAIT_NFLIGHT; d++) {
        flights[d].late = calloc(nrank, sizeof *flights[d].late);
        if (flights[d].late == NULL) {
            plait_flights_destroy(flights);
            flights = NULL;
        }
    }
    if (flights == NULL)
        return plait_fail_memory("out of memory for the comm's slices");
    *out = flights;
    return PLAIT_OK;
}

void plait_flights_destroy(struct plait_flight *flights)
{
    if (flights == NULL)
        return;
    for (uint32_t d = 0; d < PLAIT_NFLIGHT; d++) {
        plait_arena_free(flights[d].memory);
        free(flights[d].land);
        free(flights[d].pending);
        free(flights[d].message);
        free(flights[d].ready);
        free(flights[d].staged);
        free(flights[d].late);
    }
    free(flights);
}

size_t plait_flights_bytes(const struct plait_flight *flights)
{
    size_t bytes = 0;

    for (uint32_t d = 0; d < PLAIT_NFLIGHT; d++)
        bytes += flights[d].bytes + flights[d].land_bytes;
    return bytes;
}

void plait_flights_empty(struct plait_comm *comm)
{
    for (uint32_t d = 0; d < PLAIT_NFLIGHT; d++) {
        struct plait_flight *f = &comm->flights[d];
        plait_arena_free(f->memory);
        free(f->land);
        f->memory = f->land = NULL;
        f->bytes = f->used = f->land_bytes = 0;
    }
}
