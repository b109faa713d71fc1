/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is measured: one row per collective, as nccl-tests has one program for each; and, as there, a message from every
 * rank to the next one, which is treated as one more collective; and the forms with blocks of different sizes, each too.
 */
#ifndef PLAIT_BENCH_COLLECTIVES_H
#define PLAIT_BENCH_COLLECTIVES_H

#include <plait/plan.h>

/* Beside Plait's. */
#define COLL_SENDRECV        ((enum plait_coll)PLAIT_NCOLL)
#define COLL_REDUCE_SCATTERV ((enum plait_coll)(PLAIT_NCOLL + 1))
#define COLL_ALLGATHERV      ((enum plait_coll)(PLAIT_NCOLL + 2))
#define COLL_GATHERV         ((enum plait_coll)(PLAIT_NCOLL + 3))
#define COLL_SCATTERV        ((enum plait_coll)(PLAIT_NCOLL + 4))
#define COLL_ALLTOALLV       ((enum plait_coll)(PLAIT_NCOLL + 5))
#define NCOLL                (PLAIT_NCOLL + 6)

/* A backend's table of functions, which have these names. */
#define COLL_TABLE                                                                                                  \
    {                                                                                                               \
        [PLAIT_ALLREDUCE] = allreduce, [PLAIT_REDUCE_SCATTER] = reduce_scatter, [PLAIT_ALLGATHER] = allgather,      \
        [PLAIT_BROADCAST] = broadcast, [PLAIT_REDUCE] = reduce, [PLAIT_GATHER] = gather, [PLAIT_SCATTER] = scatter, \
        [PLAIT_ALLTOALL] = alltoall, [COLL_SENDRECV] = sendrecv, [COLL_REDUCE_SCATTERV] = reduce_scatterv,          \
        [COLL_ALLGATHERV] = allgatherv, [COLL_GATHERV] = gatherv, [COLL_SCATTERV] = scatterv,                       \
        [COLL_ALLTOALLV] = alltoallv, [PLAIT_BARRIER] = barrier,                                                    \
    }

struct collective {
    enum plait_coll coll;
    const char *title;                  /* in sentences */
    const char *program;                /* nccl-tests', or what it would be */
    const char *mpi;                    /* MPI's function, without MPI_ and in lower case */
    double (*bus)(uint32_t nrank);      /* bus bandwidth over algorithm bandwidth, nccl-tests' factor */
    double (*crossing)(uint32_t nrank); /* the size so many times must come from another rank, over all ranks */
};

#define NCOLLECTIVE 15
extern const struct collective collectives[NCOLLECTIVE];

const struct collective *collective_of(enum plait_coll coll);

/* Plait's name. */
const char *collective_name(enum plait_coll coll);

/* Do blocks differ in size? The collective of which this is such a form, or itself. */
bool collective_sized(enum plait_coll coll);
enum plait_coll collective_base(enum plait_coll coll);

/* What a rank's buffers hold, of a vector in one block; the rank whose IN a block comes from. */
struct plait_geometry collective_geometry(enum plait_coll coll, uint32_t nrank, uint32_t root, uint32_t rank);
uint32_t collective_source(enum plait_coll coll, uint32_t nrank, uint32_t root, uint32_t blk);

/* By Plait's name, nccl-tests' (all_gather, all_gather_perf) or MPI's (bcast); NULL when there is none. */
const struct collective *collective_find(const char *name);

/* Plait's name of the row with the nearest name. */
const char *collective_nearest(const char *name);

/*
 * Sizes as in nccl-tests: of the larger of a rank's two buffers at any rank. Where each rank has a part of it, the part
 * is rounded down to 16 bytes.
 *
 * Returns the count that Plait's function takes, in elements of `width` bytes; of a barrier 0.
 */
uint64_t collective_count(enum plait_coll coll, uint32_t nrank, uint64_t bytes, uint64_t width);

/* How many times that count the larger buffer holds. */
uint32_t collective_parts(enum plait_coll coll, uint32_t nrank);

/*
 * Elements in the first `nslot` slots of a side. Where blocks differ in size they are as 1 to 2 to 3 .. to nrank, `count`
 * on average: those of ranks 0, 1, 2 .. nrank - 1, and from rank s to rank r the one of (s + r) mod nrank.
 */
uint64_t collective_elements(enum plait_coll coll, uint32_t nrank, uint64_t count, const struct plait_side *side,
                             uint32_t nslot);

bool collective_in_place(enum plait_coll coll);

/* So many times its size is read or written when every input is read and every output written once. */
double collective_touched(enum plait_coll coll, uint32_t nrank);

#endif
