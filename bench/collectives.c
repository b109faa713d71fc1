/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives.h"

#include "base/ascii.h"

#include <string.h>

#define PART_BYTES 16 /* nccl-tests' parts are multiples of this */

static double nothing(uint32_t nrank)
{
    (void)nrank;
    return 0;
}

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

/* The root's own share is at most the largest, the nrank-th block. */
static double but_the_largest(uint32_t nrank)
{
    return (nrank - 1.0) / (nrank + 1.0);
}

static double every_rank(uint32_t nrank)
{
    return nrank;
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
    { COLL_SENDRECV, "send-receive", "sendrecv_perf", "sendrecv", everything, every_rank },
    { COLL_REDUCE_SCATTERV, "reduce-scatter-v", "reduce_scatter_v_perf", "reduce_scatter", the_others, to_others },
    { COLL_ALLGATHERV, "all-gather-v", "all_gather_v_perf", "allgatherv", the_others, to_others },
    { COLL_GATHERV, "gather-v", "gather_v_perf", "gatherv", the_others, but_the_largest },
    { COLL_SCATTERV, "scatter-v", "scatter_v_perf", "scatterv", the_others, but_the_largest },
    { COLL_ALLTOALLV, "all-to-all-v", "alltoall_v_perf", "alltoallv", the_others, to_others },
    { PLAIT_BARRIER, "barrier", "barrier_perf", "barrier", nothing, nothing },
};

static const struct beside { /* Plait's */
    const char *name;
    enum plait_coll base;
} beside[NCOLL - PLAIT_NCOLL] = {
    [COLL_SENDRECV - PLAIT_NCOLL] = { "sendrecv", COLL_SENDRECV },
    [COLL_REDUCE_SCATTERV - PLAIT_NCOLL] = { "reduce_scatterv", PLAIT_REDUCE_SCATTER },
    [COLL_ALLGATHERV - PLAIT_NCOLL] = { "allgatherv", PLAIT_ALLGATHER },
    [COLL_GATHERV - PLAIT_NCOLL] = { "gatherv", PLAIT_GATHER },
    [COLL_SCATTERV - PLAIT_NCOLL] = { "scatterv", PLAIT_SCATTER },
    [COLL_ALLTOALLV - PLAIT_NCOLL] = { "alltoallv", PLAIT_ALLTOALL },
};

const char *collective_name(enum plait_coll coll)
{
    return (int)coll < PLAIT_NCOLL ? plait_coll_name(coll) : beside[(int)coll - PLAIT_NCOLL].name;
}

enum plait_coll collective_base(enum plait_coll coll)
{
    return (int)coll < PLAIT_NCOLL ? coll : beside[(int)coll - PLAIT_NCOLL].base;
}

bool collective_is_vform(enum plait_coll coll)
{
    return collective_base(coll) != coll;
}

/* Messages go to the next rank and come from the previous one; block i is rank i's vector. A barrier has no buffers. */
struct plait_geometry collective_geometry(enum plait_coll coll, uint32_t nrank, uint32_t root, uint32_t rank)
{
    if (coll == PLAIT_BARRIER)
        return (struct plait_geometry){ .kind = PLAIT_KIND_VECTOR };
    if (coll != COLL_SENDRECV)
        return plait_geometry_of(collective_base(coll), nrank, root, rank, 1);
    return (struct plait_geometry){
        .kind = PLAIT_KIND_VECTOR,
        .in = { .nslot = 1, .blk = rank, .stride = 1 },
        .out = { .nslot = 1, .blk = (rank + nrank - 1) % nrank, .stride = 1 },
    };
}

uint32_t collective_source(enum plait_coll coll, uint32_t nrank, uint32_t root, uint32_t blk)
{
    return coll == COLL_SENDRECV ? blk : plait_block_source(collective_base(coll), nrank, root, blk);
}

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
    char own[32];

    snprintf(own, sizeof own, "%.*s", (int)(strlen(program) - strlen("_perf")), program);
    return plait_same_name(program, name) || plait_same_name(own, name);
}

/* MPI_Reduce_scatter has parts of different sizes, ncclReduceScatter has not. */
const struct collective *collective_find(const char *name)
{
    const char *of_mpi = plait_after_prefix(name, "MPI_"), *of_nccl = plait_after_prefix(name, "nccl");
    const char *own = plait_after_prefix(name, "plait_");

    for (int i = 0; i < NCOLLECTIVE && of_mpi != NULL; i++)
        if (plait_same_name(collectives[i].mpi, of_mpi))
            return &collectives[i];
    name = of_nccl != NULL ? of_nccl : own != NULL ? own : name;
    for (int i = 0; i < NCOLLECTIVE; i++) {
        const struct collective *c = &collectives[i];
        if (plait_same_name(collective_name(c->coll), name) || is_program(c->program, name) ||
            plait_same_name(c->mpi, name))
            return c;
    }
    return NULL;
}

const char *collective_nearest(const char *name)
{
    const char *best = NULL;
    unsigned least = 0;

    for (int i = 0; i < NCOLLECTIVE; i++) {
        const char *own = collective_name(collectives[i].coll);
        const char *names[] = { own, collectives[i].program, collectives[i].mpi };
        for (int k = 0; k < 3; k++) {
            const unsigned d = plait_distance(name, names[k]);
            if (best == NULL || d < least) {
                least = d;
                best = own;
            }
        }
    }
    return least <= PLAIT_NEAR ? best : NULL;
}

uint32_t collective_parts(enum plait_coll coll, uint32_t nrank)
{
    return collective_geometry(coll, nrank, 0, 0).kind == PLAIT_KIND_VECTOR ? 1 : nrank;
}

bool collective_in_place(enum plait_coll coll)
{
    return coll != COLL_SENDRECV && coll != PLAIT_BARRIER && collective_geometry(coll, 1, 0, 0).kind != PLAIT_KIND_PAIR;
}

uint64_t collective_count(enum plait_coll coll, uint32_t nrank, uint64_t bytes, uint64_t width)
{
    if (coll == PLAIT_BARRIER)
        return 0;
    if (collective_geometry(coll, nrank, 0, 0).kind == PLAIT_KIND_VECTOR)
        return bytes / width;
    return bytes / nrank / PART_BYTES * (PART_BYTES / width);
}

static uint64_t block_elements(enum plait_coll coll, uint32_t nrank, uint64_t count, uint32_t blk)
{
    const uint64_t k = collective_base(coll) == PLAIT_ALLTOALL ? (blk / nrank + blk % nrank) % nrank : blk;

    /* The total of the blocks up to k, less that of those before k: exactly nrank * count in all. */
    return count * (k + 1) * (k + 2) / (nrank + 1) - count * k * (k + 1) / (nrank + 1);
}

uint64_t collective_elements(enum plait_coll coll, uint32_t nrank, uint64_t count, const struct plait_side *side,
                             uint32_t nslot)
{
    uint64_t n = 0;

    if (!collective_is_vform(coll))
        return nslot * count;
    for (uint32_t i = 0; i < nslot; i++)
        n += block_elements(coll, nrank, count, side->blk + i * side->stride);
    return n;
}

double collective_touched(enum plait_coll coll, uint32_t nrank)
{
    double slots = 0;

    for (uint32_t r = 0; r < nrank; r++) {
        const struct plait_geometry g = collective_geometry(coll, nrank, 0, r);
        slots += g.in.nslot + g.out.nslot;
    }
    return slots / collective_parts(coll, nrank);
}
