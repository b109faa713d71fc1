/* SPDX-License-Identifier: BSD-3-Clause */
#include "collective.h"

#include "values.h"

#include <string.h>

const enum plait_coll collectives[NCOLLECTIVE] = { PLAIT_REDUCE_SCATTER, PLAIT_ALLGATHER, PLAIT_BROADCAST, PLAIT_REDUCE,
                                                   PLAIT_GATHER,         PLAIT_SCATTER,   PLAIT_ALLTOALL };

enum plait_status collective_run(struct plait_comm *comm, const struct collective *c, const void *in, void *out)
{
    const struct plait_call call = PLAIT_CALL_DEFAULT;
    return collective_call(comm, c, in, out, call);
}

enum plait_status collective_call(struct plait_comm *comm, const struct collective *c, const void *in, void *out,
                                  struct plait_call call)
{
    call.algorithm = c->spec[0] != '\0' ? c->spec : NULL;
    call.slice = c->slice;
    call.round = c->round;
    switch (c->coll) {
    case PLAIT_ALLREDUCE:
        return plait_allreduce(comm, in, out, c->count, c->type, c->op, &call);
    case PLAIT_BARRIER:
        return plait_barrier(comm, &call);
    case PLAIT_REDUCE_SCATTER:
        return plait_reduce_scatter(comm, in, out, c->count, c->type, c->op, &call);
    case PLAIT_ALLGATHER:
        return plait_allgather(comm, in, out, c->count, c->type, &call);
    case PLAIT_BROADCAST:
        return plait_broadcast(comm, in, out, c->count, c->type, c->root, &call);
    case PLAIT_REDUCE:
        return plait_reduce(comm, in, out, c->count, c->type, c->op, c->root, &call);
    case PLAIT_GATHER:
        return plait_gather(comm, in, out, c->count, c->type, c->root, &call);
    case PLAIT_SCATTER:
        return plait_scatter(comm, in, out, c->count, c->type, c->root, &call);
    default:
        return plait_alltoall(comm, in, out, c->count, c->type, &call);
    }
}

size_t collective_elements(const struct collective *c, const struct plait_side *side)
{
    const bool vector = c->coll == PLAIT_BROADCAST || c->coll == PLAIT_REDUCE || c->coll == PLAIT_ALLREDUCE;
    return vector ? (side->nslot > 0 ? c->count : 0) : side->nslot * c->count;
}

void collective_fill(const struct collective *c, uint32_t nrank, uint32_t rank, size_t n, void *out)
{
    values_fill(out, c->type, c->op, nrank, rank, n);
}

void collective_want(const struct collective *c, uint32_t nrank, uint32_t rank, size_t n, char *scratch, char *out)
{
    const size_t part = c->count * plait_dtype_size(c->type);

    for (uint32_t p = 0; p < nrank && n > 0; p++) {
        const bool all = c->coll == PLAIT_ALLGATHER || c->coll == PLAIT_GATHER || c->coll == PLAIT_ALLTOALL;
        const bool mine = c->coll == PLAIT_REDUCE_SCATTER || c->coll == PLAIT_SCATTER || c->coll == PLAIT_ALLTOALL;
        const struct plait_geometry g = plait_geometry_of(c->coll, nrank, c->root, all ? p : c->root, 1);
        if (g.combines)
            values_want(scratch, c->type, c->op, nrank, collective_elements(c, &g.in));
        else
            collective_fill(c, nrank, all ? p : c->root, collective_elements(c, &g.in), scratch);
        memcpy(out + (all ? p * part : 0), scratch + (mine ? rank * part : 0), part);
        if (!all)
            break;
    }
}
