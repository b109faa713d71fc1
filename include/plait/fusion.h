/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tensor fusion: the many small gradients of a network travel as a few large buckets, while the backward pass goes on.
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
 * ready, in the order of the layout, which is the same on all ranks: nothing is negotiated in a step, and ranks may
 * make their tensors ready in different orders. The library's progress thread does that (and whoever waits), so no call
 * but the waits takes long.
 *
 * Rounds: a tensor is made ready, or skipped, once in every round of its bucket; the bucket's round ends when its sum
 *         is there on this rank. From then on the gradients may be read, and written for the next round. A step in
 *         which gradients are only accumulated makes nothing ready.
 * Memory: a gradient lives where the caller has it (data), or, with data NULL, in its bucket (plait_fusion_data()),
 *         where packing costs nothing. The caller's is packed and unpacked; but one that is alone in its bucket, and of
 *         the type that travels, travels from where it lies. No two tensors overlap. On one machine copies cost more
 *         than messages: there large tensors of the caller's are faster alone (a threshold of 1 MiB or less) than in
 *         buckets of 4 MiB.
 * Payload: what travels is the gradients' type, or, for float32 gradients, a type of 16 bits; sums are formed in
 *         float32 and rounded as `round` says (coll.h): with PLAIT_ROUND_ONCE partial sums travel as float32 where an
 *         algorithm passes them on.
 * GPUs:   with options.stream, which lives as long as the fusion, gradients are memory of its GPU. A gradient is what
 *         the stream has written when what is on it at the call of ready has happened. After a wait what is put on the
 *         stream finds the sums; the wait itself returns when they are on their way there, and with options.check when
 *         they are there. The same holds for weights: plait_fusion_gather() spreads what the stream has written, and
 *         what comes behind finds all. Not while the stream is captured. Gradients are aligned to their elements.
 *         Factors, shards and `check` as on the host, but for the last digits of sums of squares.
 * Thread: ready and skip from any threads at once; waits from any threads; creation, layouts and destruction by one,
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

/* How tensors are cut into buckets. A bucket has one payload type: what is said of a bucket holds for each type. */
enum plait_layout_rule {
    /* As gradients appear; a bucket is full when it has `threshold` bytes. A tensor of that size has its own. */
    PLAIT_LAYOUT_THRESHOLD,
    /* A new bucket begins at each of the tensors in `cuts` (Jia et al. 2018: two segments). */
    PLAIT_LAYOUT_CUTS,
    /* The g-th bucket, from 0, holds the tensors 3 g^3 to 3 (g+1)^3 - 1 (Yamazaki et al. 2019): small first, which start
     * early; large in the middle; the last one is what is left, and mostly small. */
    PLAIT_LAYOUT_CUBIC
};

struct plait_layout {
    enum plait_layout_rule rule;
    size_t threshold;     /* PLAIT_LAYOUT_THRESHOLD: bytes of payload; 0: each tensor alone; SIZE_MAX: all in one */
    const uint32_t *cuts; /* PLAIT_LAYOUT_CUTS: [ncut] increasing numbers of tensors above 0 */
    uint32_t ncut;
};

/* Start from PLAIT_FUSION_OPTIONS_DEFAULT. All must be equal on all ranks but tensors[].data and progress. */
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
    int check;                /* 1: look for infinities and NaNs, and add up squares, of what has arrived */
    int reproducible;         /* 1: bits that depend on neither layout, slices nor algorithm */
    const char *algorithm;    /* of the buckets; NULL: chosen by size */
    int progress;             /* 1: the progress thread drives it; 0: only who waits */
    int trace;                /* 1: remember when what happened, see plait_fusion_trace() */
    /* Of CUDA's, there on all ranks or on none: everything is in memory of its GPU, see above. NULL: in the host's. */
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
 * comm    of which a duplicate is made: calls with it and the fusion's buckets do not disturb each other; it must live
 *         as long as the fusion
 * options copied, names too
 * out     written only on success; free it with plait_fusion_destroy()
 * Memory: in this process's arena the payload, and the gradients that live in buckets where they are not the payload
 * Order:  collective
 * Errors: PLAIT_ERR_ARG (also: two tensors overlap, both named), PLAIT_ERR_NOMEM; PLAIT_ERR_MISMATCH on every rank: names
 *         the first tensor or option that differs, both ranks and both values; on the others where one failed by itself:
 *         names it and its error. `comm` stays usable. PLAIT_ERR_ARG on this rank alone: comm is NULL or closed, a group
 *         is open. Those of plait_comm_duplicate()
 */
PLAIT_API enum plait_status plait_fusion_create(struct plait_comm *comm, const struct plait_fusion_options *options,
                                                struct plait_fusion **out);

/**
 * Wait for the buckets that are complete and free it. NULL is allowed. Tensors that wait for others of their bucket are
 * forgotten.
 *
 * Order:  collective, in that it waits for buckets that have begun
 * Errors: the error with which it failed; it is freed in any case
 */
PLAIT_API enum plait_status plait_fusion_destroy(struct plait_fusion *fusion);

/**
 * Other buckets from now on. What lives in buckets moves, with its contents: ask for it again.
 *
 * Order:  collective, between steps
 * Errors: PLAIT_ERR_ARG, PLAIT_ERR_NOMEM; PLAIT_ERR_MISMATCH on every rank (layouts differ), or on the others where one
 *         failed by itself: names it and its error. The old layout stays. PLAIT_ERR_ARG on this rank alone: a round is
 *         under way (named by a tensor), a group is open
 */
PLAIT_API enum plait_status plait_fusion_set_layout(struct plait_fusion *fusion, const struct plait_layout *layout);

/**
 * Factors of the next rounds: gradients are multiplied by `in` as they are packed, sums by `out` as they are unpacked.
 * With a loss scale s, `out` is 1/s; `in` may keep sums of 16 bits from overflowing. Both are 1 at first. `in` may differ
 * between ranks, as a weight of each one's gradients; `out` must be equal: else the next bucket ends with
 * PLAIT_ERR_MISMATCH, which names both factors, and the fusion has failed.
 *
 * Errors: PLAIT_ERR_ARG (not finite as float32, or `out` 0; a round is under way; integers are among the tensors)
 */
PLAIT_API enum plait_status plait_fusion_set_scale(struct plait_fusion *fusion, double in, double out);

/** Where the gradient of this tensor lies: the caller's memory or, aligned to 64 bytes, its bucket, which is there until
 *  the fusion is destroyed or has another layout, or longer by plait_mem_share(). NULL: no such tensor. */
PLAIT_API void *plait_fusion_data(struct plait_fusion *fusion, uint32_t tensor);

/**
 * This tensor's gradient is complete. Never waits for another rank.
 *
 * Errors: PLAIT_ERR_ARG (no such tensor; ready or skipped already in this round)
 */
PLAIT_API enum plait_status plait_fusion_ready(struct plait_fusion *fusion, uint32_t tensor);

/**
 * This rank has no gradient for it in this round: zeros. What lies in its place is overwritten. Otherwise, and Errors: as
 * plait_fusion_ready().
 */
PLAIT_API enum plait_status plait_fusion_skip(struct plait_fusion *fusion, uint32_t tensor);

struct plait_fusion_result {
    int finite; /* 0: there were infinities or NaNs (options.check; else always 1): the same answer on all ranks, but
                 * sharded of this rank's shard; plait_optim_step() tells of all */
};

/**
 * Wait until the sum of this tensor is there. After an error the tensors belong to the library until
 * plait_fusion_destroy() returns: other ranks of this process may still read them.
 *
 * Errors: PLAIT_ERR_ARG (neither ready nor skipped in this layout; or waited for already, and not marked in the step that
 *         other tensors have begun since); PLAIT_ERR_TIMEOUT, after the comm's deadline, names the tensors of its bucket that
 *         are neither, and their rank (of a rank on another host the rank alone); those of the collective. A stall is named in a warning before (comm options, `warn`).
 */
PLAIT_API enum plait_status plait_fusion_wait(struct plait_fusion *fusion, uint32_t tensor);

/**
 * Wait for every bucket of which a tensor is ready or skipped: the end of a step. At once when there is none.
 *
 * result  of the rounds that ended since the last call; NULL is allowed
 * Errors: as plait_fusion_wait()
 */
PLAIT_API enum plait_status plait_fusion_wait_all(struct plait_fusion *fusion, struct plait_fusion_result *result);

/*
 * A part of a tensor that this rank's optimiser works on: all of every tensor, or, sharded, what of it lies in this
 * rank's shard of its bucket. Pieces are in the order of tensors; one has at most one piece of each.
 */
struct plait_piece {
    uint32_t tensor;
    size_t start, count; /* elements */
    void *gradient;      /* of the tensor's type */
    void *weight;        /* sharded, with options.weights: where the new weights are written; else NULL */
    double square;       /* sum of the gradient's squares, if options.check: after the latest round */
};

/** Pieces of this rank. Thread: any. */
PLAIT_API uint32_t plait_fusion_npiece(const struct plait_fusion *fusion);

/** The k-th one. Errors: PLAIT_ERR_ARG. Thread: any. */
PLAIT_API enum plait_status plait_fusion_piece(const struct plait_fusion *fusion, uint32_t k, struct plait_piece *out);

/** Sharded: where the weights of a tensor lie, [count] of options.weights; NULL: there are none. */
PLAIT_API void *plait_fusion_weights(struct plait_fusion *fusion, uint32_t tensor);

/**
 * Sharded: spread the weights that each rank has written to its pieces; returns when all of them are there (on a GPU:
 * when they are on their way there, in the order of options.stream).
 *
 * Order: collective, after plait_fusion_wait_all()
 * Errors: PLAIT_ERR_ARG (not sharded, without weights, a round that has not ended); those of the comm
 */
PLAIT_API enum plait_status plait_fusion_gather(struct plait_fusion *fusion);

/**
 * The fusion's own comm: for its counters, its status and plait_comm_abort(), which ends every wait; nothing else may be
 * called with it. NULL for NULL.
 * Thread: any.
 */
PLAIT_API struct plait_comm *plait_fusion_comm(const struct plait_fusion *fusion);

/* Seconds of this rank since creation or the last call, with options.trace. */
struct plait_fusion_times {
    double packing, unpacking;
    double communicating; /* buckets were in flight */
    double waiting;       /* inside plait_fusion_wait() and _wait_all(), summed over threads */
    double hidden;        /* buckets were in flight and nobody waited */
};

/** Errors: PLAIT_ERR_ARG (no options.trace). Thread: any, while nothing is in flight. */
PLAIT_API enum plait_status plait_fusion_times(struct plait_fusion *fusion, struct plait_fusion_times *out);

/**
 * Write what happened, for chrome://tracing or ui.perfetto.dev: of every rank a row each for tensors that became ready
 * (and their bucket), packing, transfers (algorithm and bytes), unpacking and waits. It holds the first 32768 events of
 * each rank since creation, the last call or the last new layout.
 *
 * path   written by rank 0; the others' is not looked at
 * Clocks are those of the ranks' hosts: of real hosts, whose clocks began at different times, rows lie apart.
 * Order: collective, between steps
 * Errors: PLAIT_ERR_ARG (no options.trace), PLAIT_ERR_SYSTEM on every rank (the file cannot be written)
 */
PLAIT_API enum plait_status plait_fusion_trace(struct plait_fusion *fusion, const char *path);

/* What a layout has come to. */
struct plait_fusion_bucket {
    enum plait_dtype type; /* of the payload */
    uint32_t ntensor;
    uint32_t first; /* its first tensor */
    size_t bytes;   /* of payload, padding included */
};

/** Buckets of the layout; the k-th one, from 0. Errors: PLAIT_ERR_ARG. Thread: any, while the layout stays. */
PLAIT_API uint32_t plait_fusion_nbucket(const struct plait_fusion *fusion);
PLAIT_API enum plait_status plait_fusion_bucket(const struct plait_fusion *fusion, uint32_t k,
                                                struct plait_fusion_bucket *out);

#ifdef __cplusplus
}
#endif
#endif
