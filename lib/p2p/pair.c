/* SPDX-License-Identifier: BSD-3-Clause */
/* Pairs of ranks that send to each other: their memory, above all the staging buffers. */
#include "message.h"

#include "base/status.h"

#include <stdlib.h>

enum plait_status plait_message_prepare(struct plait_comm *comm, uint32_t peer, const struct plait_space *space)
{
    if (comm->messages == NULL) {
        comm->stats.allocations++;
        comm->messages = calloc(1, sizeof *comm->messages + comm->nrank * sizeof *comm->messages->pairs);
    }
    struct plait_pair *pair = comm->messages != NULL ? comm->messages->pairs[peer] : NULL;
    if (comm->messages != NULL && pair == NULL && (pair = calloc(1, sizeof *pair)) != NULL) {
        comm->stats.allocations++;
        pair->comm = comm;
        pair->peer = peer;
        plait_message_wait_init(pair);
        pair->next = comm->messages->first;
        comm->messages->pairs[peer] = comm->messages->first = pair;
    }
    if (pair == NULL)
        return plait_fail_memory("out of memory for messages");
    if (peer != comm->rank && (plait_connect(comm, peer, PLAIT_CHANNEL_MESSAGES) == NULL ||
                               plait_connect(comm, peer, space->messages) == NULL))
        return plait_fail_memory("no transport leads to rank %u, or memory is short", peer);
    return PLAIT_OK;
}

/* ---- Staging buffers ------------------------------------------------------------------------------------- */

/* Offset in a slot of PLAIT_MESSAGE_SLICE bytes: short slices take parts of it in turn, as in struct plait_slice. */
static size_t part_of(uint32_t number, size_t bytes)
{
    const size_t part = PLAIT_ROUND_UP(bytes), fit = PLAIT_MESSAGE_SLICE / part;
    const size_t n = fit < PLAIT_MESSAGE_PARTS ? fit : PLAIT_MESSAGE_PARTS;

    return number / PLAIT_MESSAGE_STAGE % n * part;
}

char *plait_message_find_stage(struct plait_comm *comm, struct plait_pair *pair, const struct plait_link *link,
                               size_t bytes, enum plait_status *status)
{
    const uint32_t number = link->next_out;
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
    if (small) /* free: the link accepts a number only after the message one window before was received */
        return pair->small + number % PLAIT_WINDOW * PLAIT_MESSAGE_SMALL;
    for (uint32_t before = PLAIT_MESSAGE_STAGE; before < PLAIT_WINDOW; before += PLAIT_MESSAGE_STAGE)
        if (!link->transport->sent(link, number - before)) /* it may be in this slot */
            return NULL;
    return pair->stage + number % PLAIT_MESSAGE_STAGE * PLAIT_MESSAGE_SLICE + part_of(number, bytes);
}

/* Check all n: over a network slices end in any order. */
bool plait_message_all_read(const struct plait_link *link, uint32_t last, uint64_t n)
{
    for (uint32_t i = 0; i < n && i < PLAIT_WINDOW; i++) /* a slice a window behind is received */
        if (!link->transport->sent(link, last - i))
            return false;
    return true;
}

void plait_messages_destroy(struct plait_comm *comm)
{
    for (struct plait_pair *pair = plait_first_pair(comm), *next; pair != NULL; pair = next) {
        next = pair->next;
        plait_arena_free(pair->small);
        plait_arena_free(pair->stage);
        free(pair);
    }
    free(comm->messages);
    comm->messages = NULL;
}

size_t plait_messages_bytes(const struct plait_comm *comm)
{
    size_t bytes = 0;

    for (const struct plait_pair *pair = plait_first_pair(comm); pair != NULL; pair = pair->next)
        bytes +=
            (pair->small != NULL ? PLAIT_MESSAGE_SMALL_STAGES : 0) + (pair->stage != NULL ? PLAIT_MESSAGE_STAGES : 0);
    return bytes;
}

void plait_messages_empty(struct plait_comm *comm)
{
    for (struct plait_pair *pair = plait_first_pair(comm); pair != NULL; pair = pair->next) {
        const struct plait_link *link = comm->peers[pair->peer].link[PLAIT_CHANNEL_MESSAGES];
        if ((pair->small == NULL && pair->stage == NULL) ||
            !plait_message_all_read(link, link->next_out - 1, PLAIT_WINDOW))
            continue;
        plait_arena_free(pair->small);
        plait_arena_free(pair->stage);
        pair->small = pair->stage = NULL;
    }
}
