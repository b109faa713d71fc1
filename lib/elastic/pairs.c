/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preparation of workers and servers: a comm for each pair, and pointers to each other's memory. In a pair's comm the
 * worker is rank 0 and the server rank 1. A failure of a pair fails no other pair.
 */
#include "elastic.h"

#include "base/config.h"
#include "base/status.h"
#include "failure/failure.h"
#include "progress/progress.h"
#include "progress/wait.h"

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
    const uint32_t n = e->nworker > e->nserver ? e->nworker : e->nserver, rank = e->comm->rank;
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
        comm->warn = e->serves ? PLAIT_FOREVER : comm->warn;
        comm->alarm = e->serves ? PLAIT_LOG_WARN : PLAIT_LOG_ERROR;
    }
    return status;
}

/* A worker's messages need a progress thread while it computes. With mapped weights the server does all the work. */
static enum plait_status overlap(struct plait_elastic *e, struct plait_comm *comm)
{
    if (e->serves || e->mapped || comm->progress)
        return PLAIT_OK;
    const enum plait_status status = plait_progress_thread_start();
    comm->progress = status == PLAIT_OK;
    return status == PLAIT_OK ? PLAIT_OK : plait_comm_fail(e->comm, status, "%s", plait_last_error());
}

/* Bind the persistent receive of control messages. */
static enum plait_status bind_note(struct plait_elastic *e, struct plait_pair_end *end)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;

    call.persistent = 1;
    call.request = &end->note;
    call.deadline = e->serves ? PLAIT_FOREVER : 0;
    return plait_recv(end->comm, &end->heard, sizeof end->heard, PLAIT_UINT8, e->serves ? WORKER : SERVER, &call);
}

/* ---- Memory ------------------------------------------------------------------------------------------------ */

/* Can this rank read the memory of `rank`? Paced links carry everything as messages. */
static bool sees(const struct plait_elastic *e, uint32_t rank)
{
    return e->comm->peers[rank].process != NULL && !plait_is_paced(&e->comm->config.pace);
}

/* mapped[w]: worker w and all servers can read each other's memory. A worker uses one mode with all servers. */
static enum plait_status find_mapped(struct plait_elastic *e, uint8_t *mapped)
{
    for (uint32_t w = 0; w < e->nworker; w++) {
        mapped[w] = !e->serves || sees(e, w);
        for (uint32_t s = 0; s < e->nserver && !e->serves && w == e->comm->rank; s++)
            mapped[w] &= sees(e, e->nworker + s);
    }
    return plait_allreduce(e->comm, mapped, mapped, e->nworker, PLAIT_UINT8, PLAIT_MIN, NULL);
}

static size_t slot_bytes(const struct plait_elastic *e)
{
    return plait_elastic_part(e->count, e->nserver, 0).count * sizeof(float);
}

/* Offset in a server's memory: after the slots, at a cache line. */
static size_t desk_start(const struct plait_elastic *e)
{
    return (slot_bytes(e) * e->nworker + PLAIT_LINE - 1) / PLAIT_LINE * PLAIT_LINE;
}

static enum plait_status allocate(struct plait_elastic *e)
{
    const size_t slot = slot_bytes(e);
    size_t room = 0;
    void *memory = NULL, *offer = NULL, *offered = e->weights, *centre = NULL;
    enum plait_status status = PLAIT_OK;

    if (e->serves) {
        e->own = plait_elastic_part(e->count, e->nserver, e->comm->rank - e->nworker);
        e->counts.slots = slot * e->nworker;
        room = desk_start(e) + sizeof(struct plait_desk) + e->nworker * sizeof(_Atomic uint64_t);
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
        struct plait_desk *desk = memset((char *)memory + desk_start(e), 0, room - desk_start(e));
        desk->alive = e->nworker;
    }
    e->centre = centre;
    e->memory = memory;
    e->offer = offer;
    e->offered = offered;
    return status;
}

struct places { /* offsets in a rank's arena */
    uint64_t memory, offer, offered;
};

static uint64_t offset(const struct plait_arena *arena, const void *p)
{
    return (uint64_t)((const char *)p - arena->base);
}

/* Address in this process of a rank's offset; the rank's memory must be mapped. */
static char *place(const struct plait_elastic *e, const struct plait_arena *arena, uint32_t rank, uint64_t at)
{
    const struct plait_process *p = e->comm->peers[rank].process;
    return (char *)(uintptr_t)((p->base != NULL ? p->base : arena->base) + at);
}

static void look_up(struct plait_elastic *e, const struct plait_arena *arena, const struct places *all,
                    const uint8_t *mapped)
{
    const size_t slot = slot_bytes(e);

    PLAIT_KNOWN(e->ends != NULL && all != NULL && mapped != NULL);
    for (uint32_t i = 0; i < plait_elastic_nend(e); i++) {
        struct plait_pair_end *end = &e->ends[i];
        const uint32_t worker = e->serves ? i : e->comm->rank, other = e->serves ? i : e->nworker + i;
        end->part = e->serves ? e->own : plait_elastic_part(e->count, e->nserver, i);
        char *memory = e->serves || !e->mapped ? e->memory : place(e, arena, other, all[other].memory);
        end->slot = memory + slot * (e->mapped ? worker : i);
        if (e->serves || e->mapped)
            end->desk = (void *)(memory + desk_start(e));
        if (e->serves && mapped[worker]) {
            end->weights = (const float *)(const void *)place(e, arena, other, all[other].offered) + e->own.start;
            end->offer = (const void *)place(e, arena, other, all[other].offer);
        }
    }
}

static enum plait_status share_places(struct plait_elastic *e, const uint8_t *mapped, struct places *all)
{
    const struct plait_arena *arena;
    enum plait_status status = plait_arena_get(0, &arena);

    if (status != PLAIT_OK)
        return plait_comm_fail(e->comm, status, "%s", plait_last_error());
    struct places own = { offset(arena, e->memory), offset(arena, e->offer), offset(arena, e->offered) };
    status = plait_allgather(e->comm, &own, all, sizeof own / 8, PLAIT_UINT64, NULL);
    if (status == PLAIT_OK)
        look_up(e, arena, all, mapped);
    return status;
}

/* ---- Both -------------------------------------------------------------------------------------------------- */

enum plait_status plait_elastic_pair(struct plait_elastic *e)
{
    const uint32_t nend = plait_elastic_nend(e);
    uint8_t *mapped = calloc(e->nworker, 1);
    struct places *all = calloc(e->comm->nrank, sizeof *all);
    enum plait_status status;

    e->ends = calloc(nend, sizeof *e->ends);
    if (mapped == NULL || all == NULL || e->ends == NULL)
        status =
            plait_comm_fail(e->comm, plait_fail_memory("out of memory for %u pairs", nend), "%s", plait_last_error());
    else
        status = find_mapped(e, mapped);
    PLAIT_KNOWN(status != PLAIT_OK || mapped != NULL);
    if (status == PLAIT_OK) {
        e->mapped = !e->serves && mapped[e->comm->rank];
        status = allocate(e);
        if (status != PLAIT_OK)
            plait_comm_fail(e->comm, status, "%s", plait_last_error());
    }
    if (status == PLAIT_OK)
        status = share_places(e, mapped, all);
    if (status == PLAIT_OK)
        status = make_comms(e);
    for (uint32_t i = 0; i < nend && status == PLAIT_OK; i++) {
        status = overlap(e, e->ends[i].comm);
        if (status == PLAIT_OK)
            status = bind_note(e, &e->ends[i]);
    }
    free(mapped);
    free(all);
    return status;
}

void plait_elastic_part_pairs(struct plait_elastic *e)
{
    for (uint32_t i = 0; e->ends != NULL && i < plait_elastic_nend(e); i++) {
        struct plait_request **const all[] = { &e->ends[i].note, &e->ends[i].data, &e->ends[i].sent };
        for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
            if (*all[k] != NULL)
                plait_wait(all[k]);
            plait_request_free(all[k]);
        }
        plait_comm_destroy(e->ends[i].comm);
    }
    free(e->ends);
    e->ends = NULL;
}
