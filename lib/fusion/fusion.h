/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room fusion: many tensors in few buckets, each bucket one all-reduce.
 *
 * layout.c lays tensors out in buckets; agree.c makes sure that all ranks have the same layout; step.c begins a
 * bucket when its last tensor is ready; pack.c, pass.c and past.h copy, cast and scale; device.c does the same on
 * GPUs; trace.c keeps times.
 *
 * A fusion has a communicator of its own, whose progress begins its buckets and unpacks them. All of that happens
 * under the communicator's lock. ready() and skip() take no lock: they note the tensor, count down its bucket, and
 * keep the communicator among the active ones (`pending`) until the bucket's round has ended.
 *
 * The room promises: a step looks up, checks and allocates nothing. Results do not depend on the order in which
 * tensors get ready.
 */
#ifndef PLAIT_LIB_FUSION_FUSION_H
#define PLAIT_LIB_FUSION_FUSION_H

#include "layout.h"

#include "trace.h"

#include "comm/comm.h"
#include "progress/wait.h"

#define PLAIT_NO_PIECE UINT32_MAX

struct plait_bucket {
    _Atomic uint64_t state; /* rounds that have ended, and in the low half tensors not yet marked in the next one */
    uint32_t begun;         /* rounds; under the lock */
    double began;           /* clock, with a trace */
    char *payload;          /* [slab.count]: in the memory of all, or where the caller has its only tensor */
    char *gradients;        /* [slab.count] of those that live here and are not the payload; or NULL */
    char *weights;          /* [slab.count] or NULL */
    struct plait_request *request; /* persistent */
    bool unpacked;                 /* on a device: its round's unpacking is on the queue; under the lock */
    struct plait_packing *packing; /* there; */
    struct plait_packing *pieces;  /* of it, this rank's, which are unpacked; NULL: there are none; */
    struct plait_mark *ready;      /* behind its gradients on the caller's stream; */
    struct plait_mark *done;       /* behind the unpacking */
    struct plait_request *gather;  /* of weights; or NULL */
};

struct plait_fusion {
    struct plait_owner owner; /* of its comm; first */
    struct plait_comm *comm;
    char name[64];
    uint32_t ntensor;
    struct plait_tensor *tensors; /* [ntensor] names are behind it */
    struct plait_fusion_options options;
    char algorithm[PLAIT_MAX_SPEC];

    struct plait_flat flat;
    struct plait_bucket *buckets; /* [flat.nbucket] */
    char *memory;                 /* library memory of all buckets */
    struct plait_piece *pieces;
    uint32_t npiece;
    uint32_t *piece_of; /* [ntensor] PLAIT_NO_PIECE: none */

    struct plait_queue *stream; /* the caller's, of the device whose memory all is (device.c); NULL: the processor's */

    /*
     * [ntensor] the latest round in which it was marked: ready, or skipped (SKIPPED is set). In the arena: the others
     * look here when they wait for this rank.
     */
    _Atomic uint32_t *marks;
    _Atomic uint32_t *waited;        /* [ntensor] the latest round that was waited for */
    _Atomic uint32_t latest;         /* in which any tensor was marked */
    const _Atomic uint32_t **others; /* [nrank] theirs; NULL: on another host */

    /* Under the lock. */
    uint32_t next;          /* bucket to begin */
    uint32_t nflying;       /* begun and not ended: those before `next` */
    struct plait_wait wait; /* for this rank's own tensors */
    double in, out;         /* factors */
    bool leaving;           /* nothing begins any more */
    uint32_t gone;          /* marks that no longer keep the comm active although their rounds will not end */

    struct plait_trace *trace; /* or NULL */

    _Atomic uint32_t waiting; /* threads */
    _Atomic int infinite;     /* something arrived that is not finite */
};

#define PLAIT_FUSION_SKIPPED 0x80000000u

static inline uint32_t plait_mark_round(uint32_t mark)
{
    return mark & ~PLAIT_FUSION_SKIPPED;
}

/* Rounds of a bucket that have ended; tensors that the next one waits for. */
static inline uint32_t plait_bucket_ended(const struct plait_bucket *b)
{
    return (uint32_t)(atomic_load_explicit(&b->state, memory_order_acquire) >> 32);
}

static inline uint32_t plait_bucket_missing(const struct plait_bucket *b)
{
    return (uint32_t)atomic_load_explicit(&b->state, memory_order_acquire);
}

static inline uint64_t plait_bucket_state(uint32_t ended, uint32_t missing)
{
    return (uint64_t)ended << 32 | missing;
}

void plait_fusion_wait_init(struct plait_fusion *f);

/* How its comm's operations go, and which tensors a rank lacks. The marks of ranks on other hosts are not seen. */
extern const struct plait_owner plait_fusion_owner;

/* Is what the caller asks for possible? Else an argument is named; call: whose. */
enum plait_status plait_fusion_check_options(const struct plait_fusion_options *options);
enum plait_status plait_fusion_check_layout(const char *call, const struct plait_layout *layout, uint32_t ntensor);

/* Is nothing marked or in flight? Else a tensor is named. */
enum plait_status plait_fusion_check_idle(const struct plait_fusion *f, const char *call);

/* Has every rank come so far (status: this one's; after an error `options` is not read), and registers the same? */
enum plait_status plait_fusion_agree(struct plait_comm *comm, const char *call, const char *name,
                                     const struct plait_fusion_options *options, enum plait_status status);

/* The bucket's tensors: into the payload, and what has arrived out of it. */
void plait_fusion_pack(struct plait_fusion *f, uint32_t bucket);
void plait_fusion_unpack(struct plait_fusion *f, uint32_t bucket);

/*
 * The same on a device: on its comm's queue, after what is on the caller's stream when the last tensor is ready. A
 * round ends when all of it is on the queue; where results are looked at, when it has happened. Who waits makes the
 * caller's stream follow.
 */
enum plait_status plait_fusion_check_device(const struct plait_fusion_options *options);
enum plait_status plait_fusion_device_alloc(const struct plait_fusion *f, size_t bytes, void **out);
enum plait_status plait_fusion_device_make(struct plait_fusion *f); /* what a layout needs besides memory */
void plait_fusion_device_leave(struct plait_fusion *f);             /* before its comm is left */
void plait_fusion_device_drop(struct plait_fusion *f);              /* nothing is on the queue; the rest of a layout */
enum plait_status plait_fusion_device_ready(struct plait_fusion *f, const char *call, uint32_t bucket);
void plait_fusion_device_pack(struct plait_fusion *f, uint32_t bucket);
void plait_fusion_device_unpack(struct plait_fusion *f, uint32_t bucket);
bool plait_fusion_device_has_come(struct plait_fusion *f, uint32_t bucket);
enum plait_status plait_fusion_device_follow(struct plait_fusion *f, uint32_t bucket);
/* Weights are gathered after what is on the caller's stream; then that is made to follow. */
enum plait_status plait_fusion_device_gather(struct plait_fusion *f);
enum plait_status plait_fusion_device_gathered(struct plait_fusion *f);
enum plait_status plait_fusion_device_drain(struct plait_fusion *f); /* both queues */
void plait_fusion_device_copy(struct plait_fusion *f, void *to, const void *from, size_t bytes);

/* Where a tensor's gradient lies. */
void *plait_fusion_place(const struct plait_fusion *f, uint32_t tensor);

#endif
