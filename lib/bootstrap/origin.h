/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How jobs are told apart whose environment names no job: two that share MASTER_ADDR and MASTER_PORT have one id.
 *
 * Two marks, both only of ids that torchrun's variables made without a name of the job. Ranks of one machine must have
 * been started by one process; not where another launcher started exactly these ranks and names what it started, as a
 * step of Slurm's. And each rank holds an abstract name for its comm's life: a second process with that rank fails by
 * name, and leaves a connection by which the first one learns of it, and of who started the second. The first one
 * fails, too, unless its comm is known to have none of the second one's job: a job that is complete is left alone by
 * another's mistake.
 */
#ifndef PLAIT_LIB_BOOTSTRAP_ORIGIN_H
#define PLAIT_LIB_BOOTSTRAP_ORIGIN_H

#include <plait/comm.h>

#include <stdbool.h>
#include <stdint.h>

#define PLAIT_OTHER_JOB \
    "port used by another job: set MASTER_PORT or TORCHELASTIC_RUN_ID to a value of its own for each job"

struct plait_origin {  /* hashes; 0: not known */
    uint32_t machine;  /* kernel, network and process name spaces, torchrun's group */
    uint32_t launcher; /* the process that started the ranks there, or the wrappers of each */
};

struct plait_origin plait_origin_find(uint32_t nrank);

/* Ranks of one machine with two launchers. */
bool plait_origins_differ(struct plait_origin a, struct plait_origin b);

/* They are known and equal: two jobs that were started by two processes have none of one origin. */
bool plait_origins_agree(struct plait_origin a, struct plait_origin b);

struct plait_rank_claim {
    int fd;                     /* holds the rank's name; 0: nothing does */
    struct plait_origin of_all; /* ranks, once they have met, where they agree; else not known */
};

/* PLAIT_ERR_MISMATCH: another process holds the name. */
enum plait_status plait_claim_make(const struct plait_unique_id *id, uint32_t rank, struct plait_origin own,
                                   struct plait_rank_claim *out);

/* PLAIT_ERR_MISMATCH: another process, which may be of a job that is in this comm, wanted the name, too. */
enum plait_status plait_claim_check(const struct plait_rank_claim *claim, uint32_t rank);

#endif
