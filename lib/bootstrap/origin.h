/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How jobs are told apart whose environment names no job: two that share MASTER_ADDR and MASTER_PORT have one id.
 *
 * Two checks, only for ids made from torchrun's variables without a name of the job. First, one process must have
 * started all ranks of a machine (origin). This does not hold where another launcher, as Slurm with a step, started
 * exactly these ranks and names what it started. Second, each rank holds an abstract name for its comm's life (claim).
 * A second process with that rank finds the name taken, fails, and leaves the holder a connection with its origin. The
 * holder fails too, unless its comm is known to have no rank of the second process's job: the mistake of another job
 * does not end a complete one.
 */
#ifndef PLAIT_LIB_BOOTSTRAP_ORIGIN_H
#define PLAIT_LIB_BOOTSTRAP_ORIGIN_H

#include <plait/comm.h>

#include <stdbool.h>
#include <stdint.h>

#define PLAIT_OTHER_JOB \
    "port used by another job: set MASTER_PORT or TORCHELASTIC_RUN_ID to a value of its own for each job"

struct plait_origin {  /* hashes; 0: not known */
    uint32_t machine;  /* boot id, network and PID namespaces, torchrun's group */
    uint32_t launcher; /* the process that started the ranks there, or their wrappers */
};

struct plait_origin plait_origin_find(uint32_t nrank);

/* The same machine with two launchers. */
bool plait_origins_differ(struct plait_origin a, struct plait_origin b);

/* Known and equal. Ranks of two jobs that two processes started never agree. */
bool plait_origins_agree(struct plait_origin a, struct plait_origin b);

struct plait_rank_claim {
    int fd;                     /* bound to the rank's name; 0: none */
    struct plait_origin of_all; /* origin of all ranks after the rendezvous, if they agree; else not known */
};

/* PLAIT_ERR_MISMATCH: another process holds the name. */
enum plait_status plait_claim_make(const struct plait_unique_id *id, uint32_t rank, struct plait_origin own,
                                   struct plait_rank_claim *out);

/* PLAIT_ERR_MISMATCH: another process, perhaps of a job with ranks in this comm, wanted the name too. */
enum plait_status plait_claim_check(const struct plait_rank_claim *claim, uint32_t rank);

#endif
