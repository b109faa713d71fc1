/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The measured collectives, one row each, as nccl-tests has one program each. A message from every rank to the next
 * counts as a collective, as there, and so do the v-forms, whose blocks differ in size.
 */
#ifndef PLAIT_BENCH_COLLECTIVES_H
#define PLAIT_BENCH_COLLECTIVES_H

#include <plait/plan.h>

/* In addition to Plait's. */
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
    const char *title;                  /* for messages */
    const char *program;                /* nccl-tests' program, or a name like it */
    const char *mpi;                    /* MPI's function, without MPI_ and in lower case */
    double (*bus)(uint32_t nrank);      /* bus bandwidth over algorithm bandwidth, nccl-tests' factor */
    double (*crossing)(uint32_t nrank); /* how many times the size must come from other ranks, over all ranks */
};

#define NCOLLECTIVE 15
extern const struct collective collectives[NCOLLECTIVE];

const struct collective *collective_of(enum plait_coll coll);

/* Plait's name. */
const char *collective_name(enum plait_coll coll);

/* Is it a v-form? Of which collective; else itself. */
bool collective_is_vform(enum plait_coll coll);
enum plait_coll collective_base(enum plait_coll coll);

/* The geometry of a rank's buffers, with one block per vector; and the rank whose input a block comes from. */
struct plait_geometry collective_geometry(enum plait_coll coll, uint32_t nrank, uint32_t root, uint32_t rank);
uint32_t collective_source(enum plait_coll coll, uint32_t nrank, uint32_t root, uint32_t blk);

/* Find by Plait's name, nccl-tests' (all_gather, all_gather_perf) or MPI's (bcast); NULL: none. */
const struct collective *collective_find(const char *name);

/* Plait's name of the collective with the nearest name; NULL: none is near. */
const char *collective_nearest(const char *name);

/*
 * The count that Plait's function takes for a size in bytes, in elements of `width` bytes; 0 for a barrier. As in
 * nccl-tests, the size is that of the largest buffer of any rank. Where it has a block for each rank, a block is
 * rounded down to 16 bytes.
 */
uint64_t collective_count(enum plait_coll coll, uint32_t nrank, uint64_t bytes, uint64_t width);

/* How many times that count the largest buffer holds. */
uint32_t collective_parts(enum plait_coll coll, uint32_t nrank);

/*
 * Elements in the first `nslot` slots of a side. In v-forms blocks are in the ratio 1 : 2 : 3 ... nrank for ranks 0, 1,
 * 2 ... nrank - 1, `count` on average; from rank s to rank r goes block (s + r) mod nrank.
 */
uint64_t collective_elements(enum plait_coll coll, uint32_t nrank, uint64_t count, const struct plait_side *side,
                             uint32_t nslot);

bool collective_in_place(enum plait_coll coll);

/* How many times the size is read or written when every input is read and every output written once. */
double collective_touched(enum plait_coll coll, uint32_t nrank);

#endif
