/* SPDX-License-Identifier: BSD-3-Clause */
#include "operation.h"

#include "base/status.h"

#include <stdlib.h>

enum plait_status plait_slices_create(uint32_t nrank, struct plait_slice **out)
{
    struct plait_slice *slices = calloc(PLAIT_NSLICE, sizeof *slices + nrank * sizeof *slices->unread);

    if (slices == NULL)
        return plait_fail_memory("out of memory for the comm's slices");
    for (uint32_t d = 0; d < PLAIT_NSLICE; d++)
        slices[d].unread = (struct plait_unread_range *)&slices[PLAIT_NSLICE] + d * nrank;
    *out = slices;
    return PLAIT_OK;
}

void plait_slices_destroy(struct plait_slice *slices)
{
    for (uint32_t d = 0; slices != NULL && d < PLAIT_NSLICE; d++) {
        plait_arena_free(slices[d].memory);
        free(slices[d].message);
    }
    free(slices);
}

size_t plait_slices_bytes(const struct plait_slice *slices)
{
    size_t bytes = 0;

    for (uint32_t d = 0; d < PLAIT_NSLICE; d++)
        bytes += slices[d].bytes;
    return bytes;
}

void plait_slices_empty(struct plait_comm *comm)
{
    for (uint32_t d = 0; d < PLAIT_NSLICE; d++) {
        struct plait_slice *f = &comm->slices[d];
        plait_arena_free(f->memory);
        f->memory = NULL;
        f->bytes = f->used = 0;
    }
}
