/* SPDX-License-Identifier: BSD-3-Clause */
#include "message_stage.h"

char *plait_message_small_stage(const struct plait_pair *pair, uint32_t number)
{
    return pair->small + number % PLAIT_WINDOW * PLAIT_MESSAGE_SMALL;
}

/* Offset in a slot of PLAIT_MESSAGE_SLICE bytes: short slices take parts of it in turn, as in operation/slices.h. */
static size_t part_of(uint32_t number, size_t bytes)
{
    const size_t part = PLAIT_ROUND_UP(bytes), fit = PLAIT_MESSAGE_SLICE / part;
    const size_t n = fit < PLAIT_MESSAGE_PARTS ? fit : PLAIT_MESSAGE_PARTS;

    return number / PLAIT_MESSAGE_STAGE % n * part;
}

char *plait_message_find_stage(struct plait_comm *comm, struct plait_pair *pair, const struct plait_link *link,
                               size_t bytes, enum plait_status *status)
{
    const uint32_t number = link->next_out, k = number % PLAIT_MESSAGE_STAGE;
    const bool small = bytes <= PLAIT_MESSAGE_SMALL;
    char **const places = small ? &pair->small : &pair->stage;
    void *memory;

    if (*places == NULL) {
        comm->stats.allocations++;
        *status = plait_arena_alloc(small ? PLAIT_MESSAGE_SMALL_STAGES : PLAIT_MESSAGE_STAGES, &memory);
        if (*status != PLAIT_OK)
            return NULL;
        *places = memory;
    }
    if (small)
        return plait_message_small_stage(pair, number);
    /* Numbers wrap around. */
    if (pair->ever[k] && number - pair->used[k] < PLAIT_WINDOW && !link->transport->sent(link, pair->used[k]))
        return NULL;
    pair->used[k] = number;
    pair->ever[k] = true;
    return pair->stage + k * PLAIT_MESSAGE_SLICE + part_of(number, bytes);
}
