/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The object behind an ncclComm_t. A handle outlives its comm: its memory is never unmapped, and is reused only after
 * many others. So a call with a destroyed handle finds `life` changed, and is refused. Calls enter a comm and leave it.
 * ncclCommAbort(), from any thread at any time, makes the comm fail, and the last call to leave ends it.
 */
#ifndef PLAIT_NCCL_COMM_H
#define PLAIT_NCCL_COMM_H

#include "nccl.h"

#include <plait/comm.h>

#include <pthread.h>
#include <stdatomic.h>

/* NCCL exports every function twice: an interposer defines one name and calls the other. */
#define NCCL_TWIN(name) \
    extern __typeof__(nccl##name) pnccl##name __attribute__((alias("nccl" #name), visibility("default")))

#define NCCL_NAME_ROOM 64 /* length as of plait_comm_name() */

struct nccl_operator;
struct nccl_pack;
struct nccl_registration;

/* Memory for fused operations. Graphs run beside other operations, so they have their own. */
enum nccl_pack_kind { NCCL_PACK_HOST, NCCL_PACK_GPU, NCCL_PACK_GRAPH, NCCL_NPACK };

struct ncclComm {
    _Atomic uint32_t life;              /* NCCL_ALIVE; else the handle is invalid */
    uint32_t generation;                /* generation of the comm in this memory */
    _Atomic uint32_t making;            /* NCCL_MAKING until its creation is complete */
    _Atomic uint32_t users;             /* calls that have entered and not left */
    _Atomic uint32_t queued;            /* calls of open groups */
    _Atomic uint32_t working;           /* background jobs */
    _Atomic uint32_t ncollective;       /* number of calls so far */
    _Atomic bool orphaned;              /* aborted; the last to leave ends it */
    _Atomic(struct plait_comm *) plait; /* NULL: not created yet */
    _Atomic int trouble;                /* ncclResult_t of the last background job */
    _Atomic bool revoked;
    _Atomic bool creating; /* status of plait_comm_create() in the background, as last seen */
    bool blocking, suspended, finalized;
    int rank, nrank, device;
    bool gpu;             /* the device is one */
    size_t fusion;        /* PLAIT_NCCL_FUSION */
    char algorithms[256]; /* NCCL_ALGO */
    pthread_mutex_t lock; /* lock for the following fields */
    char error[1024];
    struct nccl_operator *operators;
    uint32_t noperator;
    struct nccl_registration *registrations;
    struct nccl_pack *pack[NCCL_NPACK]; /* memory of fused operations */
    struct ncclComm *next;              /* link of the list of freed handles */
};

#define NCCL_ALIVE 0x6e636f6du

enum { NCCL_MADE, NCCL_MAKING, NCCL_UNWANTED }; /* aborted while being created; its creator frees it */

/*
 * nccl_comm_new(): a handle that nobody else knows yet; NULL: out of memory. nccl_comm_free(): nobody knows the handle
 * any more; in_order: the comm had not failed.
 */
struct ncclComm *nccl_comm_new(int nrank, int rank, int device, bool gpu, bool blocking);
void nccl_comm_free(struct ncclComm *comm, bool in_order);

/* Enter a valid comm, which then stays valid until nccl_leave(). */
ncclResult_t nccl_enter(struct ncclComm *comm, const char *call);
/* The same without an error text. Returns false for an invalid handle. */
bool nccl_try_enter(struct ncclComm *comm);
/* The same for a comm that exists and has no background job. */
ncclResult_t nccl_enter_ready(struct ncclComm *comm, const char *call);
void nccl_leave(struct ncclComm *comm);

/* The creator is done. Returns false if the comm was aborted meanwhile: then the creator frees it. */
bool nccl_comm_made(struct ncclComm *comm);
/* For a closed comm. Returns false if nobody is creating it any more. */
bool nccl_comm_leave_to_maker(struct ncclComm *comm);

/* Close the comm: no call can enter any more. Returns false if it was closed already. */
bool nccl_comm_close(struct ncclComm *comm);
/* Wait until all calls have left. */
void nccl_comm_drain(struct ncclComm *comm);
/*
 * End a closed and aborted comm as soon as all calls have left. Waits for that, but not for long: a call in a group may
 * wait for ranks of another comm, and a split for ranks that never come.
 */
void nccl_comm_orphan(struct ncclComm *comm);
/* A background job is done with the comm. */
void nccl_comm_worked(struct ncclComm *comm);

#endif
