/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preparation of workers and servers: a comm for each pair, and slots for what they send each other. In a pair's comm
 * the worker is rank 0 and the server rank 1. A failure of a pair fails no other pair.
 */
#include "elastic.h"

#include "base/clock.h"
#include "base/status.h"

#include <plait/memory.h>
#include <plait/message.h>

#include <stdio.h>
#include <stdlib.h>

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
        status = plait_comm_split(e->comm, meets ? (int)worker : PLAIT_NO_COLOR,
                                  e->serves ? PLAIT_PAIR_SERVER : PLAIT_PAIR_WORKER, name, &comm);
        if (status != PLAIT_OK || !meets)
            continue;
        e->ends[e->serves ? worker : server].comm = comm;
        if (e->serves)
            plait_object_expect_death(comm);
    }
    return status;
}

static enum plait_status allocate(struct plait_elastic *e)
{
    const uint32_t nend = plait_elastic_nend(e);
    const size_t slot = plait_elastic_part(e->count, e->nserver, 0).count * sizeof(float);
    void *centre = NULL;
    enum plait_status status = plait_mem_alloc(slot * nend, &e->slots);

    for (uint32_t i = 0; i < nend; i++) {
        e->ends[i].part = plait_elastic_part(e->count, e->nserver, e->serves ? e->rank - e->nworker : i);
        e->ends[i].slot = (char *)e->slots + slot * i;
    }
    if (status != PLAIT_OK || !e->serves)
        return status;
    e->own = e->ends[0].part;
    e->counts.slots = slot * nend;
    status = plait_mem_alloc(e->own.count > 0 ? e->own.count * sizeof(float) : 1, &centre);
    e->centre = centre;
    return status;
}

/* Bind the receive of control messages. A worker's messages need a progress thread while it computes. */
static enum plait_status connect(struct plait_elastic *e, struct plait_pair_end *end)
{
    struct plait_call call = plait_elastic_call(&end->control, e->serves ? PLAIT_FOREVER : 0);

    if (!e->serves) {
        const enum plait_status status = plait_object_fail(e->comm, plait_object_drive(end->comm));
        if (status != PLAIT_OK)
            return status;
    }
    call.persistent = 1;
    return plait_recv(end->comm, &end->heard, sizeof end->heard, PLAIT_UINT8,
                      e->serves ? PLAIT_PAIR_WORKER : PLAIT_PAIR_SERVER, &call);
}

enum plait_status plait_elastic_pair(struct plait_elastic *e)
{
    const uint32_t nend = plait_elastic_nend(e);

    e->alive = e->nworker;
    e->ends = calloc(nend, sizeof *e->ends);
    enum plait_status status = e->ends != NULL ? allocate(e) : plait_fail_memory("out of memory for %u pairs", nend);
    status = plait_object_fail(e->comm, status);
    if (status == PLAIT_OK)
        status = make_comms(e);
    for (uint32_t i = 0; i < nend && status == PLAIT_OK; i++)
        status = connect(e, &e->ends[i]);
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
