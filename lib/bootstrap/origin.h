/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How jobs are told apart whose environment names no job: two that share MASTER_ADDR and MASTER_PORT have one id.
 *
 * Two marks, both only of ids that a launcher's variables made without a name of the job. Ranks of one machine must have
 * been started by one process. And each rank holds an abstract name for its comm's life: a second process with that rank
 * fails by name, and leaves a connection by which the first one learns of it.
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
    uint32_t launcher; /* the process that started the ranks there */
};

struct plait_origin plait_origin_find(void);

/* Ranks of one machine with two launchers. */
bool plait_origins_differ(struct plait_origin a, struct plait_origin b);

/* *claim is a descriptor that holds the rank's name; 0: none. PLAIT_ERR_MISMATCH: another process holds it. */
enum plait_status plait_claim_make(const struct plait_unique_id *id, uint32_t rank, int *claim);

/* PLAIT_ERR_MISMATCH: another process wanted this claim, too. claim may be 0. */
enum plait_status plait_claim_check(int claim, uint32_t rank);

#endif
