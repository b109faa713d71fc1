/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How many processors a rank has. Launchers bind each rank to its own processors (mpirun, srun --cpu-bind), to some of
 * a socket, or not at all. Ranks of one machine with the same set share it, whoever bound them.
 */
#ifndef PLAIT_TRAIN_PROCESSORS_H
#define PLAIT_TRAIN_PROCESSORS_H

#include <plait/comm.h>

#include <sched.h>

struct bound { /* where a rank may run */
    char machine[64];
    cpu_set_t set;
};

struct seat {
    uint32_t processors; /* that the rank has; at least 1 */
    uint32_t local;      /* ranks of this machine before it */
};

/** Of rank `me` of n. */
struct seat processors_seat(const struct bound *ranks, uint32_t n, uint32_t me);

/** Of this rank. Collective. */
struct seat processors_of_rank(struct plait_comm *comm);

#endif
