/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The algorithms of Open MPI's coll/tuned, by the names of its control variables. A communicator keeps the values that
 * the variables had when it was created. So each algorithm has a communicator, created at first use.
 */
#ifndef PLAIT_BENCH_TUNED_OPENMPI_H
#define PLAIT_BENCH_TUNED_OPENMPI_H

#include <plait/coll.h>

#include <mpi.h>
#include <stdbool.h>

struct tuned {
    MPI_Comm comm; /* communicator to use; MPI_COMM_WORLD for Open MPI's own choice */
    char name[64]; /* "" for that; "ring", or with a segment size "chain 64K" */
    bool cut;      /* it cuts into segments */
};

/*
 * The i-th algorithm for a collective, from 1; 0: Open MPI's own choice. NULL: there are fewer, or Open MPI was started
 * without coll_tuned_use_dynamic_rules.
 *
 * bytes  of the vector: only longer vectors than a segment are cut
 * Order: collective.
 */
const struct tuned *tuned_find(enum plait_coll coll, size_t bytes, uint32_t i);

#endif
