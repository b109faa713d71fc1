/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives.h"

#include "nearest.h"

#include <string.h>

#define PART_BYTES 16 /* nccl-tests' parts are multiples of this */

static double twice_the_others(uint32_t nrank)
{
    return 2.0 * (nrank - 1) / nrank;
}

static double the_others(uint32_t nrank)
{
    return 1.0 * (nrank - 1) / nrank;
}

static double everything(uint32_t nrank)
{
    (void)nrank;
    return 1;
}

static double twice_to_others(uint32_t nrank)
{
    return 2.0 * (nrank - 1);
}

static double to_others(uint32_t nrank)
{
    return 1.0 * (nrank - 1);
}

const struct collective collectives[NCOLLECTIVE] = {
    { PLAIT_ALLREDUCE, "all-reduce", "all_reduce_perf", "allreduce", twice_the_others, twice_to_others },
    { PLAIT_REDUCE_SCATTER, "reduce-scatter", "reduce_scatter_perf", "reduce_scatter_block", the_others, to_others },
    { PLAIT_ALLGATHER, "all-gather", "all_gather_perf", "allgather", the_others, to_others },
    { PLAIT_BROADCAST, "broadcast", "broadcast_perf", "bcast", everything, to_others },
    { PLAIT_REDUCE, "reduce", "reduce_perf", "reduce", everything, to_others },
    { PLAIT_GATHER, "gather", "gather_perf", "gather", the_others, the_others },
    { PLAIT_SCATTER, "scatter", "scatter_perf", "scatter", the_others, the_others },
    { PLAIT_ALLTOALL, "all-to-all", "alltoall_perf", "alltoall", the_others, to_others },
};

const struct collective *collective_of(enum plait_coll coll)
{
    for (int i = 0; i < NCOLLECTIVE; i++)
        if (collectives[i].coll == coll)
            return &collectives[i];
    return NULL;
}

/* "all_gather_perf" is also known as "all_gather". */
static bool is_program(const char *program, const char *name)
{
    const size_t length = strlen(program) - strlen("_perf");
    return strcmp(program, name) == 0 || (strlen(name) == length && strncmp(program, name, length) == 0);
}

const struct collective *collective_find(const char *name)
{
    for (int i = 0; i < NCOLLECTIVE; i++) {
        const struct collective *c = &collectives[i];
        if (strcmp(plait_coll_name(c->coll), name) == 0 || is_program(c->program, name) || strcmp(c->mpi, name) == 0)
            return c;
    }
    return NULL;
}

const char *collective_nearest(const char *name)
{
    const char *best = NULL;
    unsigned least = 0;

    for (int i = 0; i < NCOLLECTIVE; i++) {
        const char *own = plait_coll_name(collectives[i].coll);
        const char *names[] = { own, collectives[i].program, collectives[i].mpi };
        for (int k = 0; k < 3; k++) {
            const unsigned d = plait_distance(name, names[k]);
            if (best == NULL || d < least) {
                least = d;
                best = own;
            }
        }
    }
    return best;
}

uint32_t collective_parts(enum plait_coll coll, uint32_t nrank)
{
    return plait_geometry_of(coll, nrank, 0, 0, 1).kind == PLAIT_KIND_VECTOR ? 1 : nrank;
}

bool collective_in_place(enum plait_coll coll)
{
    return plait_geometry_of(coll, 1, 0, 0, 1).kind != PLAIT_KIND_PAIR;
}

uint64_t collective_count(enum plait_coll coll, uint32_t nrank, uint64_t bytes, uint64_t width)
{
    if (plait_geometry_of(coll, nrank, 0, 0, 1).kind == PLAIT_KIND_VECTOR)
        return bytes / width;
    return bytes / nrank / PART_BYTES * (PART_BYTES / width);
}

double collective_touched(enum plait_coll coll, uint32_t nrank)
{
    double slots = 0;

    for (uint32_t r = 0; r < nrank; r++) {
        const struct plait_geometry g = plait_geometry_of(coll, nrank, 0, r, 1);
        slots += g.in.nslot + g.out.nslot;
    }
    return slots / collective_parts(coll, nrank);
}
