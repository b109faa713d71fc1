/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The algorithms that Open MPI's coll/tuned can be told to use, as its own control variables name them. A communicator
 * keeps what the variables said when it was made, so each algorithm has one, made when it is first asked for.
 */
#ifndef PLAIT_BENCH_TUNED_OPENMPI_H
#define PLAIT_BENCH_TUNED_OPENMPI_H

#include <plait/coll.h>

#include <mpi.h>
#include <stdbool.h>

struct tuned {
    MPI_Comm comm; /* to use; MPI_COMM_WORLD is Open MPI's own choice */
    char name[64]; /* "" for that, "ring", or with the size of its segments "chain 64K" */
    bool cut;      /* into segments */
};

/*
 * The i-th algorithm for a collective, from 1. 0: Open MPI's own choice. NULL: there are not so many, or none as Open
 * MPI was not started with coll_tuned_use_dynamic_rules.
 *
 * bytes  of the vector: only what is longer than a segment is cut into segments
 * Order: collective.
 */
const struct tuned *tuned_find(enum plait_coll coll, size_t bytes, uint32_t i);

#endif
