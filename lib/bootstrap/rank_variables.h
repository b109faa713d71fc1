/* SPDX-License-Identifier: BSD-3-Clause */
/* By which variables launchers tell a process which of how many it is. */
#ifndef PLAIT_LIB_BOOTSTRAP_RANK_VARIABLES_H
#define PLAIT_LIB_BOOTSTRAP_RANK_VARIABLES_H

struct plait_rank_variables {
    const char *launcher;
    const char *sign;         /* only its processes have it */
    const char *rank, *nrank; /* nrank NULL: it does not say */
    const char *names[2];     /* either is a name that nothing else that was started has; part of the id */
};

enum { PLAIT_TORCHRUN, PLAIT_OPENMPI, PLAIT_SLURM, PLAIT_FOREIGN, PLAIT_NLAUNCHER = PLAIT_FOREIGN + 10 };

/* From PLAIT_FOREIGN on are those whose processes do not find each other by plait_launch_find(). */
extern const struct plait_rank_variables plait_rank_variables[PLAIT_NLAUNCHER];

#endif
