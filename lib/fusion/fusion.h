/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room fusion: many tensors in few buckets, each bucket one all-reduce.
 *
 * layout.c lays tensors out in buckets, and finds the best buckets from times, for forecasts (plait/forecast.h);
 * buckets.c makes what a layout needs; step.c packs and begins a bucket when its last tensor is ready, in the turns
 * that owner.c has; pass.c copies, casts and scales; device.c does the same on GPUs; trace.c keeps times.
 *
 * A fusion has its own communicator. The progress of this communicator begins and unpacks buckets, under its lock.
 * ready() and skip() take no lock: they mark the tensor, count down its bucket, and keep the communicator among the
 * active ones (`pending`) until the bucket's round has ended.
 *
 * The room promises: a step looks up, checks and allocates nothing. Results do not depend on the order in which
 * tensors become ready. It does not know how its all-reduces are made.
 */
#ifndef PLAIT_LIB_FUSION_FUSION_H
#define PLAIT_LIB_FUSION_FUSION_H

#include <plait/fusion.h>

#include "call/call.h"
#include "comm/comm.h"
#include "failure/failure.h"
#include "operation/arguments.h"
#include "progress/progress.h"
#include "request/request.h"

#include <plait/plan.h>

#include <stdatomic.h>

#define PLAIT_FUSION_ALIGN 64         /* bytes; tensors in a payload start at multiples of it */
#define PLAIT_NOTHING      UINT32_MAX /* no tensor, no piece */

struct plait_place { /* of a tensor */
    uint32_t bucket;
    uint32_t next;  /* tensor of the bucket, or PLAIT_NOTHING */
    uint32_t piece; /* this rank's, or PLAIT_NOTHING; set by buckets.c */
    size_t start;   /* elements from the start of the bucket */
};

struct plait_slab { /* the contents of a bucket */
    enum plait_dtype type;
    uint32_t first, last, ntensor; /* tensors; some between may be elsewhere */
    size_t count;                  /* elements, padded unless it is one tensor without shards; shards are equal */
};

struct plait_flat { /* the place of each tensor: but for pieces a function of tensors and rule, equal on all ranks */
    uint32_t nbucket;
    struct plait_slab *buckets; /* ordered by last tensor: in this order they become complete */
    struct plait_place *places; /* [ntensor] */
    size_t bytes;               /* of payload */
};

struct plait_bucket {
    _Atomic uint64_t state;  /* high half: rounds that have ended; low half: tensors not yet marked in the next one */
    _Atomic uint32_t coming; /* on a device: tensors of the next round whose gradients are not on the stream yet */
    double began;            /* time of the last begin; only with a trace */
    char *payload;           /* [slab.count] in the fusion's memory, or the caller's memory of the only tensor */
    char *gradients;         /* [slab.count] gradients of another type than the payload that live here; or NULL */
    char *weights;           /* [slab.count] or NULL */
    struct plait_request *request; /* persistent */
    bool in_place;                 /* on a device: all tensors lie in the payload */
    bool unpacked;                 /* on a device: the round's unpacking is enqueued; under the lock */
    struct plait_packing *packing; /* device: all tensors */
    struct plait_packing *pieces;  /* device: this rank's pieces, which are unpacked; NULL: none */
    struct plait_event *ready;     /* device: event after its gradients on the caller's stream */
    struct plait_event *done;      /* device: event after the unpacking */
    struct plait_request *gather;  /* all-gather of weights; or NULL */
};

struct plait_fusion {
    struct plait_comm *comm;
    struct plait_owner owner;           /* of it */
    struct plait_wait wait, queue_wait; /* for this rank's tensors; for its work on a device */
    uint32_t rank, nrank;
    const struct plait_kernels *kernels;
    bool streaming; /* the payload's start would be evicted from the cache before it is read */
    char name[64];
    uint32_t ntensor;
    struct plait_tensor
        *tensors; /* [ntensor] data: of the gradient, wherever it lies; the names are behind the array */
    struct plait_fusion_options options;
    char algorithm[PLAIT_MAX_SPEC];

    struct plait_flat flat;
    struct plait_bucket *buckets; /* [flat.nbucket] */

    char *memory; /* library memory of all buckets */
    struct plait_piece *pieces;
    uint32_t npiece;

    struct plait_queue *stream; /* the caller's; all memory is on its device (device.c). NULL: host memory */

    /*
     * [ntensor] the latest round in which the tensor was marked ready, or skipped (SKIPPED is set). Marks lie in the
     * arena: other ranks read them when they wait for this rank.
     */
    _Atomic uint32_t *marks;
    _Atomic uint32_t *waited; /* [ntensor] the latest round waited for */
    _Atomic uint32_t latest;  /* the latest round in which any tensor was marked */
    const void **others;      /* [nrank] marks of the other ranks; NULL: on another host */

    /* Under the lock. */
    uint32_t next;    /* bucket to begin */
    uint32_t nflying; /* buckets in flight: those just before `next` */
    double in, out;   /* factors of packing and unpacking */
    bool leaving;     /* no bucket begins any more */
    uint32_t gone;    /* marks of rounds that will never end; they no longer keep the comm active */

    struct plait_trace *trace; /* or NULL */

    _Atomic uint32_t waiting; /* threads in a wait call */
    _Atomic int infinite;     /* an element that is not finite has arrived */
};

#define PLAIT_FUSION_SKIPPED 0x80000000u

static inline uint32_t plait_mark_round(uint32_t mark)
{
    return mark & ~PLAIT_FUSION_SKIPPED;
}

/* Does this rank add zeros in the tensor's latest round? */
static inline bool plait_fusion_skips(const struct plait_fusion *f, uint32_t tensor)
{
    return atomic_load_explicit(&f->marks[tensor], memory_order_relaxed) & PLAIT_FUSION_SKIPPED;
}

/* The place of a tensor's sum in its bucket's payload. */
static inline char *plait_fusion_payload(const struct plait_fusion *f, uint32_t tensor)
{
    const struct plait_place *p = &f->flat.places[tensor];

    return f->buckets[p->bucket].payload + p->start * plait_dtype_size(f->flat.buckets[p->bucket].type);
}

/* This rank's piece of a tensor; NULL: none. */
static inline struct plait_piece *plait_fusion_piece_of(const struct plait_fusion *f, uint32_t tensor)
{
    const uint32_t piece = f->flat.places[tensor].piece;

    return piece != PLAIT_NOTHING ? &f->pieces[piece] : NULL;
}

/* Rounds of a bucket that have ended; tensors missing for the next round. */
static inline uint32_t plait_bucket_ended(const struct plait_bucket *b)
{
    return (uint32_t)(atomic_load_explicit(&b->state, memory_order_acquire) >> 32);
}

static inline uint32_t plait_bucket_missing(const struct plait_bucket *b)
{
    return (uint32_t)atomic_load_explicit(&b->state, memory_order_acquire);
}

/* So many rounds have ended, and none of its tensors is marked in the next one. */
static inline void plait_bucket_open(struct plait_bucket *b, uint32_t ended, uint32_t ntensor)
{
    atomic_store_explicit(&b->coming, ntensor, memory_order_relaxed);
    atomic_store_explicit(&b->state, (uint64_t)ended << 32 | ntensor, memory_order_release);
}

/*
 * layout.c. nshard: ranks that share each bucket, or 1. The caller frees `out` with plait_flat_free(), also after an
 * error.
 */
enum plait_status plait_flat_make(const struct plait_tensor *tensors, uint32_t ntensor,
                                  const struct plait_layout *layout, enum plait_dtype payload, uint32_t nshard,
                                  struct plait_flat *out);
void plait_flat_free(struct plait_flat *flat);

/* buckets.c: make all that a layout needs. After an error drop() frees the parts that were made. */
enum plait_status plait_fusion_make_layout(struct plait_fusion *f, const struct plait_layout *layout);
void plait_fusion_drop_layout(struct plait_fusion *f);

/* ---- A fusion that exists --------------------------------------------------------------------------------- */

enum plait_fusion_awaits {
    PLAIT_FUSION_AWAITS_RANKS, /* or nothing: an operation in flight looks for failures itself */
    PLAIT_FUSION_AWAITS_SELF,  /* tensors of this rank, and threads wait for them */
    PLAIT_FUSION_AWAITS_DEVICE,
};

/* step.c: begin and end buckets. Returns whether there was progress. */
bool plait_fusion_turn(struct plait_fusion *f, enum plait_fusion_awaits *awaits);

/* owner.c: become the owner of the fusion's comm. */
void plait_fusion_own(struct plait_fusion *f);

/* The oldest bucket in flight, if there is one. */
static inline uint32_t plait_fusion_oldest(const struct plait_fusion *f)
{
    return (f->next + f->flat.nbucket - f->nflying) % f->flat.nbucket;
}

/* Check arguments; an error names one. */
enum plait_status plait_fusion_check_options(const struct plait_fusion_options *options);

/* Check that nothing is marked or in flight; an error names a tensor. */
enum plait_status plait_fusion_check_idle(const struct plait_fusion *f, const char *call);

/*
 * A round on a device. Work goes on the comm's queue, after the work that is on the caller's stream when the last
 * tensor is ready. A round ends when all its work is enqueued, with options.check when it has run. A wait makes the
 * caller's stream wait for it.
 */
enum plait_status plait_fusion_device_make(struct plait_fusion *f); /* a layout's tables and marks */
void plait_fusion_device_drop(struct plait_fusion *f);              /* free the layout; nothing is enqueued */
enum plait_status plait_fusion_device_check(const struct plait_fusion *f, const char *call);
void plait_fusion_device_pack(struct plait_fusion *f, uint32_t bucket);
void plait_fusion_device_unpack(struct plait_fusion *f, uint32_t bucket);
bool plait_fusion_device_has_come(struct plait_fusion *f, uint32_t bucket);

/*
 * Times of this rank's tensors and buckets (trace.c). Without options.trace there is no trace, and no clock is read:
 * now() is 0. add: an event of a bucket that began at `begin` and ends now; any thread may call. change: so many
 * buckets more are in flight, so many threads more wait: 1, 0 or -1. waited: a step has ended, the next one computes.
 * ready: a tensor is.
 */
enum plait_trace_kind {
    PLAIT_TRACE_READY,
    PLAIT_TRACE_PACK,
    PLAIT_TRACE_TRANSFER,
    PLAIT_TRACE_UNPACK,
    PLAIT_TRACE_WAIT,
    PLAIT_TRACE_COMPUTE, /* of a step until its first gradient is ready */
    PLAIT_NTRACE_KIND
};
struct plait_trace *plait_trace_create(void); /* NULL: out of memory */
void plait_trace_destroy(struct plait_trace *trace);
double plait_trace_now(const struct plait_trace *trace);
void plait_trace_add(struct plait_trace *trace, enum plait_trace_kind kind, uint32_t number, double begin);
void plait_trace_waited(struct plait_trace *trace);
void plait_trace_ready(struct plait_trace *trace, uint32_t tensor);
void plait_trace_change(struct plait_trace *trace, int in_flight, int waiting);

#endif
