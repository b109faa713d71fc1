/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How many processors a rank has. Launchers bind each rank to its own processors (mpirun, srun --cpu-bind), to some of
 * a socket, or not at all. Ranks of one machine with the same set share it, whoever bound them.
 */
#ifndef PLAIT_TRAIN_PROCESSORS_H
#define PLAIT_TRAIN_PROCESSORS_H

#include <plait/comm.h>

#include <sched.h>

struct seat { /* where a rank runs */
    char machine[64];
    cpu_set_t set;
};

/** For rank `me` of n; at least 1. */
uint32_t processors_share(const struct seat *seats, uint32_t n, uint32_t me);

/** For this rank. Collective. */
uint32_t processors_of_rank(struct plait_comm *comm);

#endif
