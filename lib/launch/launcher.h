/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room launch: how many ranks a launcher started, which one this is, and where they meet.
 *
 * launcher.c reads and checks the variables of launchers (torchrun, Slurm, Open MPI, MPICH). It resolves no names and
 * creates nothing. launch.c turns the variables into the result of plait_launch_find(): rank, number of ranks and a
 * unique id. With Open MPI and Slurm it can get the id from rank 0 through PMIx, with MPICH it does so through PMI.
 *
 * The room promises: variables of an unsupported launcher are an error that names them; the process never silently
 * becomes a job of one rank. The same holds beside a supported launcher that says one rank, if the other says several.
 *
 * The room knows ids and secrets of the room bootstrap. It does not know communicators.
 */
#ifndef PLAIT_LIB_LAUNCH_LAUNCHER_H
#define PLAIT_LIB_LAUNCH_LAUNCHER_H

#include <plait/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct plait_launcher_says {
    const char *launcher; /* static; "none": no launcher */
    uint32_t rank, nrank, local_rank, local_nrank;
    char host[256]; /* rank 0's host, a name or an address; "": not said */
    uint32_t port;  /* the launcher's own at rank 0; 0: not said */
    char job[3584]; /* identifies this job and this start of it; "": nothing does */
};

/* `launcher`: a launcher's name, or "" to detect it. PLAIT_ERR_CONFIG names the variable. */
enum plait_status plait_launcher_read(const char *launcher, struct plait_launcher_says *out);

/* The first host of Slurm's "node[01-03,07]-ib,other5": "node01-ib". False: no such list, or `out` is too small. */
bool plait_nodelist_first(const char *list, char *out, size_t room);

#endif
