/* SPDX-License-Identifier: BSD-3-Clause */
/* Making comms and ending their use: at once, at the end of a group, or in the background. */
#ifndef PLAIT_NCCL_JOB_H
#define PLAIT_NCCL_JOB_H

#include "comm.h"

enum nccl_job_kind { NCCL_JOB_CREATE, NCCL_JOB_SPLIT, NCCL_JOB_SHRINK, NCCL_JOB_FINALIZE };

struct nccl_job {
    struct nccl_job *next;
    enum nccl_job_kind kind;
    const char *call; /* "ncclCommSplit" */
    bool blocking;
    struct ncclComm *parent; /* NULL: of none */
    uint32_t generation;     /* the parent's */
    struct ncclComm *child;  /* NULL: none for this rank */
    ncclComm_t *out;         /* becomes NULL when it fails; NULL: it is there no more */
    char name[NCCL_NAME_ROOM];
    struct plait_comm_options options; /* NCCL_JOB_CREATE */
    struct plait_unique_id id;
    int color, key;                /* NCCL_JOB_SPLIT */
    uint32_t *excluded, nexcluded; /* NCCL_JOB_SHRINK */
    bool abort;
    bool alone;                 /* no other job is done with it */
    struct plait_comm *through; /* what a revoked parent is split by */
    struct plait_comm *made;
};

/* A job and its child; *out has that already. NULL: out of memory. */
struct nccl_job *nccl_job_new(enum nccl_job_kind kind, const char *call, struct ncclComm *parent, bool blocking,
                              const char *name);
void nccl_jobs_free(struct nccl_job *jobs);

/* Do it now, in the background, or when the group ends that is open. The job is not the caller's any more. */
ncclResult_t nccl_job_do(struct nccl_job *job);

/* All of a group together. They are freed. */
ncclResult_t nccl_jobs_do(struct nccl_job *jobs);

/* They will not be done. */
void nccl_jobs_drop(struct nccl_job *jobs);

#endif
