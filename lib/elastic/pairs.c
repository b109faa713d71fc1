/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preparation of workers and servers: a comm for each pair, and pointers to each other's memory. In a pair's comm the
 * worker is rank 0 and the server rank 1. A failure of a pair fails no other pair.
 */
#include "elastic.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/status.h"
#include "memory/arena.h"

#include <plait/memory.h>
#include <plait/message.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORKER, SERVER };

/* ---- Comms ------------------------------------------------------------------------------------------------- */

/*
 * Pairs without a common rank are made in parallel. n is the larger of both numbers; in round r server s meets worker
 * (r + s) mod n, if there is one.
 */
static enum plait_status make_comms(struct plait_elastic *e)
{
    const uint32_t n = e->nworker > e->nserver ? e->nworker : e->nserver, rank = e->rank;
    enum plait_status status = PLAIT_OK;

    for (uint32_t r = 0; r < n && status == PLAIT_OK; r++) {
        const uint32_t server = e->serves ? rank - e->nworker : (rank + n - r) % n;
        const uint32_t worker = e->serves ? (r + server) % n : rank;
        const bool meets = server < e->nserver && worker < e->nworker;
        struct plait_comm *comm;
        char name[64];
        snprintf(name, sizeof name, "%.30s: worker %u, server %u", e->name, worker, server);
        status =
            plait_comm_split(e->comm, meets ? (int)worker : PLAIT_NO_COLOR, e->serves ? SERVER : WORKER, name, &comm);
        if (status != PLAIT_OK || !meets)
            continue;
        e->ends[e->serves ? worker : server].comm = comm;
        if (e->serves)
            plait_object_expect_death(comm);
    }
    return status;
}

/* Bind the persistent receive of control messages. */
static enum plait_status bind_control(struct plait_elastic *e, struct plait_pair_end *end)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;

    call.persistent = 1;
    call.request = &end->control;
    call.deadline = e->serves ? PLAIT_FOREVER : 0;
    return plait_recv(end->comm, &end->heard, sizeof end->heard, PLAIT_UINT8, e->serves ? WORKER : SERVER, &call);
}

/* ---- Memory ------------------------------------------------------------------------------------------------ */

/* mapped[w]: worker w and all servers can read each other's memory. A worker uses one mode with all servers. */
static enum plait_status find_mapped(struct plait_elastic *e, uint8_t *mapped)
{
    for (uint32_t w = 0; w < e->nworker; w++) {
        mapped[w] = !e->serves || plait_object_reads(e->comm, w);
        for (uint32_t s = 0; s < e->nserver && !e->serves && w == e->rank; s++)
            mapped[w] &= plait_object_reads(e->comm, e->nworker + s);
    }
    return plait_allreduce(e->comm, mapped, mapped, e->nworker, PLAIT_UINT8, PLAIT_MIN, NULL);
}

static size_t slot_bytes(const struct plait_elastic *e)
{
    return plait_elastic_part(e->count, e->nserver, 0).count * sizeof(float);
}

/* Offset in a server's memory: after the slots, at a cache line. */
static size_t state_start(const struct plait_elastic *e)
{
    return PLAIT_ROUND_UP(slot_bytes(e) * e->nworker);
}

static enum plait_status allocate(struct plait_elastic *e)
{
    const size_t slot = slot_bytes(e);
    size_t room = 0;
    void *memory = NULL, *offer = NULL, *offered = e->weights, *centre = NULL;
    enum plait_status status = PLAIT_OK;

    if (e->serves) {
        e->own = plait_elastic_part(e->count, e->nserver, e->rank - e->nworker);
        e->counts.slots = slot * e->nworker;
        room = state_start(e) + sizeof(struct plait_server_state) + e->nworker * sizeof(_Atomic uint64_t);
        status = plait_mem_alloc(e->own.count > 0 ? e->own.count * sizeof(float) : 1, &centre);
    } else {
        room = e->mapped ? 0 : slot * e->nserver;
        status = plait_mem_alloc(sizeof *e->offer, &offer);
        if (status == PLAIT_OK && !plait_arena_contains(e->weights, e->count * sizeof(float)) && e->mapped)
            status = plait_mem_alloc(e->count * sizeof(float), &offered);
    }
    if (status == PLAIT_OK && room > 0)
        status = plait_mem_alloc(room, &memory);
    PLAIT_KNOWN(status != PLAIT_OK || !e->serves || memory != NULL);
    if (status == PLAIT_OK && e->serves) {
        struct plait_server_state *state = memset((char *)memory + state_start(e), 0, room - state_start(e));
        state->alive = e->nworker;
    }
    e->centre = centre;
    e->memory = memory;
    e->offer = offer;
    e->offered = offered;
    return status;
}

/* What a rank shows the others; of a rank on another host there is nothing to see. */
enum { MEMORY, OFFER, OFFERED, NSHOWN };

static void look_up(struct plait_elastic *e, const void *const *all, const uint8_t *mapped)
{
    const size_t slot = slot_bytes(e);

    PLAIT_KNOWN(e->ends != NULL && all != NULL && mapped != NULL);
    for (uint32_t i = 0; i < plait_elastic_nend(e); i++) {
        struct plait_pair_end *end = &e->ends[i];
        const uint32_t worker = e->serves ? i : e->rank, other = e->serves ? i : e->nworker + i;
        const void *const *shown = &all[NSHOWN * other];
        end->part = e->serves ? e->own : plait_elastic_part(e->count, e->nserver, i);
        char *memory = e->serves || !e->mapped ? e->memory : (char *)(uintptr_t)shown[MEMORY];
        end->slot = memory + slot * (e->mapped ? worker : i);
        if (e->serves || e->mapped)
            end->state = (void *)(memory + state_start(e));
        if (e->serves && mapped[worker]) {
            end->weights = (const float *)shown[OFFERED] + e->own.start;
            end->offer = shown[OFFER];
        }
    }
}

/* ---- Both -------------------------------------------------------------------------------------------------- */

/* A worker's messages need a progress thread while it computes. With mapped weights the server does all the work. */
static enum plait_status connect(struct plait_elastic *e)
{
    enum plait_status status = make_comms(e);

    for (uint32_t i = 0; i < plait_elastic_nend(e) && status == PLAIT_OK; i++) {
        if (!e->serves && !e->mapped)
            status = plait_object_fail(e->comm, plait_object_drive(e->ends[i].comm));
        if (status == PLAIT_OK)
            status = bind_control(e, &e->ends[i]);
    }
    return status;
}

enum plait_status plait_elastic_pair(struct plait_elastic *e)
{
    const uint32_t nend = plait_elastic_nend(e);
    uint8_t *mapped = calloc(e->nworker, 1);
    const void **all = calloc(NSHOWN * (size_t)e->nrank, sizeof *all);
    enum plait_status status = PLAIT_OK;

    e->ends = calloc(nend, sizeof *e->ends);
    if (mapped == NULL || all == NULL || e->ends == NULL)
        status = plait_object_fail(e->comm, plait_fail_memory("out of memory for %u pairs", nend));
    PLAIT_KNOWN(status != PLAIT_OK || mapped != NULL);
    if (status == PLAIT_OK)
        status = find_mapped(e, mapped);
    if (status == PLAIT_OK) {
        e->mapped = !e->serves && mapped[e->rank];
        status = plait_object_fail(e->comm, allocate(e));
    }
    if (status == PLAIT_OK)
        status = plait_object_show(e->comm, (const void *const[]){ e->memory, e->offer, e->offered }, NSHOWN, all);
    if (status == PLAIT_OK) {
        look_up(e, all, mapped);
        status = connect(e);
    }
    free(mapped);
    free(all);
    return status;
}

void plait_elastic_part_pairs(struct plait_elastic *e)
{
    for (uint32_t i = 0; e->ends != NULL && i < plait_elastic_nend(e); i++) {
        plait_object_drop(&e->ends[i].control);
        plait_object_drop(&e->ends[i].data);
        plait_object_drop(&e->ends[i].sent);
        plait_comm_destroy(e->ends[i].comm);
    }
    free(e->ends);
    e->ends = NULL;
}
