/* SPDX-License-Identifier: BSD-3-Clause */
/* Creating and destroying comms: at once, at the end of a group, or in the background. */
#ifndef PLAIT_NCCL_JOB_H
#define PLAIT_NCCL_JOB_H

#include "comm.h"

enum nccl_job_kind { NCCL_JOB_CREATE, NCCL_JOB_SPLIT, NCCL_JOB_SHRINK, NCCL_JOB_FINALIZE };

struct nccl_job {
    struct nccl_job *next;
    enum nccl_job_kind kind;
    const char *call; /* "ncclCommSplit" */
    bool blocking;
    struct ncclComm *parent; /* NULL: no parent */
    uint32_t generation;     /* generation of the parent */
    struct ncclComm *child;  /* NULL: this rank gets none */
    ncclComm_t *out;         /* set to NULL on failure; NULL: the caller's variable is gone */
    char name[NCCL_NAME_ROOM];
    struct plait_comm_options options; /* NCCL_JOB_CREATE */
    struct plait_unique_id id;
    int color, key;                /* NCCL_JOB_SPLIT */
    uint32_t *excluded, nexcluded; /* NCCL_JOB_SHRINK */
    bool abort;
    bool alone;                 /* no other job may be combined with it */
    struct plait_comm *through; /* comm by which a revoked parent is split */
    struct plait_comm *made;
};

/* Create a job and its child, which *out already holds. NULL: out of memory. */
struct nccl_job *nccl_job_new(enum nccl_job_kind kind, const char *call, struct ncclComm *parent, bool blocking,
                              const char *name);
void nccl_jobs_free(struct nccl_job *jobs);

/* Run the job now, in the background, or when the open group ends. It takes ownership of the job. */
ncclResult_t nccl_job_do(struct nccl_job *job);

/* Run all jobs of a group together, and free them. */
ncclResult_t nccl_jobs_do(struct nccl_job *jobs);

/* Drop jobs that will not run. */
void nccl_jobs_drop(struct nccl_job *jobs);

#endif
