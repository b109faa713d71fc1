/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is behind an ncclComm_t.
 *
 * A handle outlives its comm: its memory is never unmapped and is used again only after many others, so that a call
 * with a handle that was destroyed finds `life` and is refused. Who works with a comm enters it and leaves;
 * ncclCommAbort(), which may come from any thread at any time, makes the comm fail, and who leaves last ends it.
 */
#ifndef PLAIT_NCCL_COMM_H
#define PLAIT_NCCL_COMM_H

#include "nccl.h"

#include <plait/comm.h>

#include <pthread.h>
#include <stdatomic.h>

/* NCCL has every function twice: an interposer defines the one name and calls the other. */
#define NCCL_TWIN(name) \
    extern __typeof__(nccl##name) pnccl##name __attribute__((alias("nccl" #name), visibility("default")))

#define NCCL_NAME_ROOM 64 /* as plait_comm_name() keeps */

struct nccl_operator;
struct nccl_pack;
struct nccl_registration;

/* Memory in which operations are fused. Graphs run beside other operations, so they have their own. */
enum nccl_pack_kind { NCCL_PACK_HOST, NCCL_PACK_GPU, NCCL_PACK_GRAPH, NCCL_NPACK };

struct ncclComm {
    _Atomic uint32_t life;              /* NCCL_ALIVE, or the handle is good for nothing */
    uint32_t generation;                /* which comm in this memory */
    _Atomic uint32_t making;            /* NCCL_MAKING until its maker has no more to do with it */
    _Atomic uint32_t users;             /* calls that have entered */
    _Atomic uint32_t queued;            /* calls of open groups */
    _Atomic uint32_t working;           /* jobs in the background */
    _Atomic uint32_t ncollective;       /* called so far */
    _Atomic bool orphaned;              /* aborted; who leaves last ends it */
    _Atomic(struct plait_comm *) plait; /* NULL: not there yet */
    _Atomic int trouble;                /* ncclResult_t with which a job in the background ended */
    _Atomic bool revoked;
    _Atomic bool creating; /* by plait_comm_create() in the background, as far as was seen */
    bool blocking, suspended, finalized;
    int rank, nrank, device;
    bool gpu;             /* the device is one */
    size_t fusion;        /* PLAIT_NCCL_FUSION */
    char algorithms[256]; /* NCCL_ALGO */
    pthread_mutex_t lock; /* of the rest */
    char error[1024];
    struct nccl_operator *operators;
    uint32_t noperator;
    struct nccl_registration *registrations;
    struct nccl_pack *pack[NCCL_NPACK]; /* memory of fused operations */
    struct ncclComm *next;              /* of those that wait to be used again */
};

#define NCCL_ALIVE 0x6e636f6du

enum { NCCL_MADE, NCCL_MAKING, NCCL_UNWANTED }; /* unwanted: aborted; its maker frees it */

/* One that nobody knows yet; NULL: out of memory. Nobody knows it any more; in_order: it had not failed. */
struct ncclComm *nccl_comm_new(int nrank, int rank, int device, bool gpu, bool blocking);
void nccl_comm_free(struct ncclComm *comm, bool in_order);

/* Is it a comm? Then it stays one until nccl_leave(). */
ncclResult_t nccl_enter(struct ncclComm *comm, const char *call);
/* The same without an error; false: it is none, or no longer one. */
bool nccl_try_enter(struct ncclComm *comm);
/* And one that is there, on which nothing goes on in the background. */
ncclResult_t nccl_enter_ready(struct ncclComm *comm, const char *call);
void nccl_leave(struct ncclComm *comm);

/* The maker's last word. False: it was aborted meanwhile, and is the maker's to free. */
bool nccl_comm_made(struct ncclComm *comm);
/* Of one that is closed. False: nobody makes it any more. */
bool nccl_comm_leave_to_maker(struct ncclComm *comm);

/* Nobody can enter any more. False: somebody else has done that. */
bool nccl_comm_close(struct ncclComm *comm);
/* Wait until all have left. */
void nccl_comm_drain(struct ncclComm *comm);
/*
 * End one that is closed and aborted as soon as all have left, which is waited for, but not for long: a call in a group
 * may wait for ranks of another comm, a split for ranks that never come.
 */
void nccl_comm_orphan(struct ncclComm *comm);
/* A job in the background has no more to do with it. */
void nccl_comm_worked(struct ncclComm *comm);

#endif
