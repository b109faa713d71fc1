/* SPDX-License-Identifier: BSD-3-Clause */
/* The variables by which launchers give a process its rank and the number of ranks. */
#ifndef PLAIT_LIB_BOOTSTRAP_RANK_VARIABLES_H
#define PLAIT_LIB_BOOTSTRAP_RANK_VARIABLES_H

struct plait_rank_variables {
    const char *launcher;
    const char *sign;         /* set in its processes only */
    const char *rank, *nrank; /* nrank NULL: not said */
    const char *names[2];     /* each names this start uniquely and is part of the id */
};

enum { PLAIT_TORCHRUN, PLAIT_OPENMPI, PLAIT_SLURM, PLAIT_FOREIGN, PLAIT_NLAUNCHER = PLAIT_FOREIGN + 10 };

/* plait_launch_find() does not follow the launchers from PLAIT_FOREIGN on, but recognises them. */
extern const struct plait_rank_variables plait_rank_variables[PLAIT_NLAUNCHER];

#endif
