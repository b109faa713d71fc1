/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room launch: how many ranks a launcher started, which one this is, and where they meet.
 *
 * launcher.c reads and checks what launchers say in the environment (torchrun, Slurm, Open MPI, PMIx); it resolves
 * and makes nothing. launch.c makes of it what plait_launch_find() returns: rank, number of ranks and a unique id.
 *
 * The room promises: a launcher that is there but is not followed is an error with its variables named, never a job
 * of one rank. Variables of two launchers that contradict each other are an error too.
 *
 * It knows ids and secrets of the room bootstrap. It does not know communicators.
 */
#ifndef PLAIT_LIB_LAUNCH_LAUNCHER_H
#define PLAIT_LIB_LAUNCH_LAUNCHER_H

#include <plait/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* getenv(), or a test's. */
struct plait_environment {
    const char *(*get)(const void *context, const char *name);
    const void *context;
};

struct plait_launcher_says {
    const char *launcher; /* static; "none": there is none */
    uint32_t rank, nrank, local_rank, local_nrank;
    char host[256];   /* rank 0's name or address; "": not said */
    char address[64]; /* another that may be it; "" */
    uint16_t port;    /* the launcher's own at rank 0; 0: not said */
    char job[1536];   /* what tells this job, and this start of it, from others; "": nothing */
    bool unnamed;     /* nothing of that is the job's own name: another job may have all of it, too */
};

/* `launcher`: "" to find it, or its name. PLAIT_ERR_CONFIG names the variable. */
enum plait_status plait_launcher_read(const struct plait_environment *environment, const char *launcher,
                                      struct plait_launcher_says *out);

/* The first host of Slurm's "node[01-03,07]-ib,other5": "node01-ib". False: it is no such list, or out is too small. */
bool plait_nodelist_first(const char *list, char *out, size_t room);

#endif
