/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tensor fusion: the many small gradients of a network travel as a few large buckets during the backward pass.
 *
 *     struct plait_tensor tensors[] = { { "fc.weight", 2048000, PLAIT_FLOAT32, NULL }, ... };   as gradients appear
 *     struct plait_fusion_options o = PLAIT_FUSION_OPTIONS_DEFAULT;
 *     o.tensors = tensors; o.ntensor = 161; o.op = PLAIT_AVG;
 *     plait_fusion_create(comm, &o, &fusion);
 *
 *     for every step:
 *         for every tensor i, as its gradient appears:
 *             write it to plait_fusion_data(fusion, i); plait_fusion_ready(fusion, i);
 *         plait_fusion_wait_all(fusion, NULL);       the gradients are those of all ranks
 *
 *     plait_fusion_destroy(fusion);
 *
 * Tensors are registered once and laid out in flat buckets of library memory. A bucket travels when its last tensor is
 * ready. Buckets travel in the order of the layout, which is the same on all ranks. So nothing is negotiated in a step,
 * and ranks may make their tensors ready in different orders. The library's progress thread does the work (and any
 * thread that waits), so only the waits take long.
 *
 * Rounds: a tensor is made ready, or skipped, once in every round of its bucket. The bucket's round ends when its sum
 *         is there on this rank; then the gradients may be read, and written for the next round. A step that only
 *         accumulates gradients makes nothing ready.
 * Memory: a gradient lives in the caller's memory (data), or, with data NULL, in its bucket (plait_fusion_data()),
 *         where packing costs nothing. Caller memory is packed and unpacked. Exception: a tensor that is alone in its
 *         bucket, and of the type that travels, travels in place. No two tensors overlap. On one machine copies cost
 *         more than messages: large tensors in caller memory are faster alone (a threshold of 1 MiB or less) than in
 *         buckets of 4 MiB.
 * Payload: the type that travels is the gradients' type, or, for float32 gradients, a type of 16 bits. Sums are formed
 *          in float32 and rounded as `round` says (coll.h): with PLAIT_ROUND_ONCE partial sums travel as float32 where
 *          an algorithm passes them on.
 * GPUs:   with options.stream, which lives as long as the fusion, gradients are memory of its GPU, aligned to their
 *         elements. The gradient that plait_fusion_ready() announces is the result of all operations on the stream at
 *         the time of that call. After a wait, later operations of the stream find the sums. The wait returns when the
 *         sums are queued on the stream, with options.check when they are there. The same holds for weights:
 *         plait_fusion_gather() spreads the weights that the stream has written, and later operations find them all.
 *         Not while the stream is captured. Factors, shards and `check` work as on the host, but for the last digits of
 *         sums of squares.
 * Tuning: the best buckets depend on the network, the machine and the ranks. Trace some steps (options.trace,
 *         plait_fusion_trace()). `plait-plan simulate --step TRACE` compares layouts on a machine; its layout
 *         `computed` and plait_forecast_cuts() (forecast.h) give the cuts that expose the least, for PLAIT_LAYOUT_CUTS.
 * Thread: ready and skip from any threads at once; waits from any threads; creation and destruction by one,
 *         while nothing is in flight.
 */
#ifndef PLAIT_FUSION_H
#define PLAIT_FUSION_H

#include <plait/comm.h>

#ifdef __cplusplus
extern "C" {
#endif

struct plait_fusion;

struct plait_tensor { /* a gradient */
    const char *name; /* for messages; equal on all ranks */
    size_t count;     /* elements */
    enum plait_dtype type;
    void *data; /* [count] the caller's, not to be touched between ready and wait; NULL: it lives in its bucket */
};

/* How tensors are cut into buckets. A bucket has one payload type; the rules apply to each type separately. */
enum plait_layout_rule {
    /* As gradients appear; a bucket is full when it has `threshold` bytes. A tensor of that size has its own bucket. */
    PLAIT_LAYOUT_THRESHOLD,
    /*
     * A new bucket begins at each of the tensors in `cuts` (Jia et al. 2018: two segments). plait_forecast_cuts()
     * (forecast.h) finds the best ones from the times of a trace.
     */
    PLAIT_LAYOUT_CUTS,
    /*
     * The g-th bucket, from 0, holds the tensors 3 g^3 to 3 (g+1)^3 - 1 (Yamazaki et al. 2019): small buckets first,
     * which start early; large ones in the middle; the last one holds the rest and is mostly small.
     */
    PLAIT_LAYOUT_CUBIC
};

struct plait_layout {
    enum plait_layout_rule rule;
    size_t threshold;     /* PLAIT_LAYOUT_THRESHOLD: bytes of payload; 0: each tensor alone; SIZE_MAX: all in one */
    const uint32_t *cuts; /* PLAIT_LAYOUT_CUTS: [ncut] increasing numbers of tensors above 0 */
    uint32_t ncut;
};

/* Start from PLAIT_FUSION_OPTIONS_DEFAULT. All but tensors[].data and progress must be equal on all ranks. */
struct plait_fusion_options {
    size_t size;      /* sizeof (struct plait_fusion_options) */
    const char *name; /* for messages; NULL: "fusion" */
    const struct plait_tensor *tensors;
    uint32_t ntensor;
    struct plait_layout layout;
    enum plait_op op; /* PLAIT_SUM or PLAIT_AVG */
    enum plait_dtype
        payload; /* PLAIT_NDTYPE: the gradients' own; PLAIT_FLOAT16, PLAIT_BFLOAT16: of float32 gradients */
    enum plait_round round;
    int sharded;              /* 1: each rank gets the sum of its shard only, see plait_fusion_piece() */
    enum plait_dtype weights; /* sharded: type of the weights that plait_fusion_gather() spreads; PLAIT_NDTYPE: none */
    int check;                /* 1: detect infinities and NaNs, and add up squares, of arrived sums */
    int reproducible;         /* 1: the same bits with any layout, slices and algorithm */
    const char *algorithm;    /* of the buckets; NULL: chosen by the library (plait-info --explain) */
    int progress;             /* 1: the progress thread drives the buckets; 0: only waiting threads do */
    int trace;                /* 1: record events with their times, see plait_fusion_trace() */
    /* A CUDA stream, on all ranks or on none: everything is in memory of its GPU, see above. NULL: host memory. */
    struct plait_stream *stream;
};
#define PLAIT_FUSION_OPTIONS_DEFAULT                                                                              \
    {                                                                                                             \
        sizeof(struct plait_fusion_options), NULL, NULL, 0, { PLAIT_LAYOUT_THRESHOLD, (size_t)4 << 20, NULL, 0 }, \
            PLAIT_SUM, PLAIT_NDTYPE, PLAIT_ROUND_DEFAULT, 0, PLAIT_NDTYPE, 0, 0, NULL, 1, 0, NULL                 \
    }

/**
 * Register tensors and lay them out.
 *
 * comm    duplicated: calls with it and the fusion's buckets do not disturb each other; it must live as long as the
 *         fusion
 * options copied, names too
 * out     written only on success; free it with plait_fusion_destroy()
 * Memory: in this process's arena the payload, and gradients in buckets if they are not the payload itself
 * Order:  collective
 * Errors: PLAIT_ERR_ARG (also: two tensors overlap, both named), PLAIT_ERR_NOMEM. PLAIT_ERR_MISMATCH on every rank:
 *         names the first tensor or option that differs, both ranks and both values; if one rank failed by itself, the
 *         others get its name and error. `comm` stays usable. PLAIT_ERR_ARG on this rank alone: comm is NULL or closed,
 *         a group is open. Those of plait_comm_duplicate()
 */
PLAIT_API enum plait_status plait_fusion_create(struct plait_comm *comm, const struct plait_fusion_options *options,
                                                struct plait_fusion **out);

/**
 * Wait for the complete buckets and free the fusion. NULL is allowed. Tensors that wait for others of their bucket are
 * dropped.
 *
 * Order:  collective, in that it waits for buckets that have begun
 * Errors: the error with which the fusion failed; it is freed in any case
 */
PLAIT_API enum plait_status plait_fusion_destroy(struct plait_fusion *fusion);

/**
 * Factors of the next rounds: packing multiplies gradients by `in`, unpacking multiplies sums by `out`. With a loss
 * scale s, `out` is 1/s; `in` may keep sums of 16 bits from overflowing. Both are 1 at first. `in` may differ between
 * ranks, as a weight of each rank's gradients. `out` must be equal: else the next bucket ends with PLAIT_ERR_MISMATCH,
 * which names both factors, and the fusion has failed.
 *
 * Errors: PLAIT_ERR_ARG (not finite as float32, or `out` 0; a round is under way; integers are among the tensors)
 */
PLAIT_API enum plait_status plait_fusion_set_scale(struct plait_fusion *fusion, double in, double out);

/**
 * Address of this tensor's gradient: caller memory or, aligned to 64 bytes, a place in its bucket. The bucket lives
 * until the fusion is destroyed, or longer by plait_mem_share(). NULL: no such tensor.
 */
PLAIT_API void *plait_fusion_data(struct plait_fusion *fusion, uint32_t tensor);

/**
 * This tensor's gradient is complete. Never waits for another rank.
 *
 * Errors: PLAIT_ERR_ARG (no such tensor; ready or skipped already in this round)
 */
PLAIT_API enum plait_status plait_fusion_ready(struct plait_fusion *fusion, uint32_t tensor);

/**
 * This rank has no gradient for this tensor in this round: it adds zeros. The gradient's memory is overwritten.
 * Otherwise, and Errors: as plait_fusion_ready().
 */
PLAIT_API enum plait_status plait_fusion_skip(struct plait_fusion *fusion, uint32_t tensor);

struct plait_fusion_result {
    /*
     * 0: there were infinities or NaNs (options.check; else always 1): the same answer on all ranks, but sharded for
     * this rank's shard; plait_optim_step() tells of all
     */
    int finite;
};

/**
 * Wait until the sum of this tensor is there. After an error the tensors belong to the library until
 * plait_fusion_destroy() returns: other ranks of this process may still read them.
 *
 * Errors: PLAIT_ERR_ARG (neither ready nor skipped so far; or waited for already, and not marked in the step
 *         that other tensors have begun since). PLAIT_ERR_TIMEOUT, after the comm's deadline, names a tensor of its
 *         bucket that is neither ready nor skipped, and its rank (of a rank on another host the rank alone). Those
 *         of the collective. A warning names a stall before (comm options, `warn`).
 */
PLAIT_API enum plait_status plait_fusion_wait(struct plait_fusion *fusion, uint32_t tensor);

/**
 * Wait for every bucket that has a ready or skipped tensor: the end of a step. Returns at once if there is none.
 *
 * result  of the rounds that ended since the last call; NULL is allowed
 * Order:  any
 * Errors: as plait_fusion_wait()
 */
PLAIT_API enum plait_status plait_fusion_wait_all(struct plait_fusion *fusion, struct plait_fusion_result *result);

/*
 * A part of a tensor for this rank's optimiser: all of every tensor, or, sharded, its part in this rank's shard of the
 * bucket. Pieces are in the order of tensors; each tensor has at most one piece.
 */
struct plait_piece {
    uint32_t tensor;
    size_t start, count; /* elements */
    void *gradient;      /* of the tensor's type */
    void *weight;        /* sharded, with options.weights: place for the new weights; else NULL */
    double square;       /* sum of the gradient's squares, if options.check: after the latest round */
};

/** Pieces of this rank. Thread: any. */
PLAIT_API uint32_t plait_fusion_npiece(const struct plait_fusion *fusion);

/** The k-th one. Errors: PLAIT_ERR_ARG. Thread: any. */
PLAIT_API enum plait_status plait_fusion_piece(const struct plait_fusion *fusion, uint32_t k, struct plait_piece *out);

/** Sharded: address of a tensor's weights, [count] of options.weights; NULL: there are none. */
PLAIT_API void *plait_fusion_weights(struct plait_fusion *fusion, uint32_t tensor);

/**
 * Sharded: spread the weights that each rank has written to its pieces; returns when all of them are there (on a GPU:
 *          when they are queued on options.stream).
 *
 * Order: collective, after plait_fusion_wait_all()
 * Errors: PLAIT_ERR_ARG (not sharded, without weights, a round that has not ended); those of the comm
 */
PLAIT_API enum plait_status plait_fusion_gather(struct plait_fusion *fusion);

/**
 * The fusion's own comm: for its counters, its status and plait_comm_abort(), which ends every wait; no other call may
 * use it. NULL for NULL.
 * Thread: any.
 */
PLAIT_API struct plait_comm *plait_fusion_comm(const struct plait_fusion *fusion);

/* Seconds of this rank since creation or the last call, with options.trace. */
struct plait_fusion_times {
    double communicating; /* buckets were in flight */
    double hidden;        /* buckets were in flight and no thread waited */
};

/** Errors: PLAIT_ERR_ARG (no options.trace). Thread: any, while nothing is in flight. */
PLAIT_API enum plait_status plait_fusion_times(struct plait_fusion *fusion, struct plait_fusion_times *out);

/**
 * Write a trace for chrome://tracing or ui.perfetto.dev. For every rank it has a row each for tensors that became ready
 * (bucket, number, elements, type), packing, transfers (algorithm and bytes), unpacking, waits, and the computation of
 * each step until its first gradient, which begins with the end of the last wait. It holds the first 32768 events of
 * each rank since creation or the last call. plait-plan simulate --step predicts steps from it.
 *
 * path   written by rank 0; ignored on other ranks
 * Clocks are those of the ranks' hosts: rows of hosts whose clocks began at different times lie apart.
 * Order: collective, between steps
 * Errors: PLAIT_ERR_ARG (no options.trace), PLAIT_ERR_SYSTEM on every rank (the file cannot be written)
 */
PLAIT_API enum plait_status plait_fusion_trace(struct plait_fusion *fusion, const char *path);

/* A bucket of the layout. */
struct plait_fusion_bucket {
    enum plait_dtype type; /* of the payload */
    uint32_t ntensor;
    uint32_t first, last; /* its first and last tensor; a large one in between has a bucket of its own */
    size_t bytes;         /* of payload, padding included */
};

/** Buckets of the layout; the k-th one, from 0. Errors: PLAIT_ERR_ARG. Thread: any. */
PLAIT_API uint32_t plait_fusion_nbucket(const struct plait_fusion *fusion);
PLAIT_API enum plait_status plait_fusion_bucket(const struct plait_fusion *fusion, uint32_t k,
                                                struct plait_fusion_bucket *out);

#ifdef __cplusplus
}
#endif
#endif
