/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives: the operations, the element types and the operators.
 *
 *     float in[1000], out[1000];
 *     plait_allreduce(comm, in, out, 1000, PLAIT_FLOAT32, PLAIT_SUM, NULL);
 *
 * Every rank of the comm calls every collective, in the same order, with the same count, type, operator and options. If
 * a rank differs, the error that every rank gets names it.
 */
#ifndef PLAIT_COLL_H
#define PLAIT_COLL_H

#include <plait/status.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct plait_comm;
struct plait_request;
struct plait_stream;

/* symbol, name, text */
#define PLAIT_COLL_LIST(X)                                                                     \
    X(PLAIT_ALLREDUCE, "allreduce", "combine every rank's vector; every rank gets the result") \
    X(PLAIT_BARRIER, "barrier", "return when every rank has entered")                          \
    X(PLAIT_REDUCE_SCATTER, "reduce_scatter", "combine; every rank gets its own part")         \
    X(PLAIT_ALLGATHER, "allgather", "every rank gets every rank's part")                       \
    X(PLAIT_BROADCAST, "broadcast", "every rank gets the root's vector")                       \
    X(PLAIT_REDUCE, "reduce", "combine every rank's vector; the root gets the result")         \
    X(PLAIT_GATHER, "gather", "the root gets every rank's part")                               \
    X(PLAIT_SCATTER, "scatter", "every rank gets its part of the root's vector")               \
    X(PLAIT_ALLTOALL, "alltoall", "every rank gets a part from every rank")

enum plait_coll {
#define PLAIT_X(symbol, name, text) symbol,
    PLAIT_COLL_LIST(PLAIT_X)
#undef PLAIT_X
        PLAIT_NCOLL
};

/* symbol, value (NCCL's), bytes, name. A build without a type's kernels answers PLAIT_ERR_UNSUPPORTED. */
#define PLAIT_DTYPE_LIST(X)                  \
    X(PLAIT_INT8, 0, 1, "int8")              \
    X(PLAIT_UINT8, 1, 1, "uint8")            \
    X(PLAIT_INT32, 2, 4, "int32")            \
    X(PLAIT_UINT32, 3, 4, "uint32")          \
    X(PLAIT_INT64, 4, 8, "int64")            \
    X(PLAIT_UINT64, 5, 8, "uint64")          \
    X(PLAIT_FLOAT16, 6, 2, "float16")        \
    X(PLAIT_FLOAT32, 7, 4, "float32")        \
    X(PLAIT_FLOAT64, 8, 8, "float64")        \
    X(PLAIT_BFLOAT16, 9, 2, "bfloat16")      \
    X(PLAIT_FLOAT8E4M3, 10, 1, "float8e4m3") \
    X(PLAIT_FLOAT8E5M2, 11, 1, "float8e5m2")

enum plait_dtype {
#define PLAIT_X(symbol, value, bytes, name) symbol = value,
    PLAIT_DTYPE_LIST(PLAIT_X)
#undef PLAIT_X
        PLAIT_NDTYPE = 12
};

/*
 * symbol, value (NCCL's up to avg), name. docs/types.md: the operators of each type.
 * Integers wrap.
 * min and max: a NaN in any operand gives NaN, and -0 is below +0. Any NaN result is the quiet NaN with an empty
 * payload, so results do not depend on operand order or instruction set.
 * avg: the sum, divided once by the number of ranks; integers divide towards zero, after they have wrapped. For float16
 * and 8-bit floats that are rounded at every hop (enum plait_round), every rank's input is divided before the sum: no
 * sum overflows the type. Sums of bfloat16, float32 and float64 may overflow; the average is then infinite.
 * premulsum: the sum of inputs that each rank has multiplied by its own call->scale.
 * user: call->user.
 * 8-bit floats: results are rounded to the nearest, ties to even. As in NCCL they saturate: a result above the largest
 * finite number (448 of e4m3, 57344 of e5m2), infinities included, becomes that number with its sign. NaN stays NaN:
 * 0x7f of e4m3, which has one, 0x7e of e5m2. Infinities and NaNs keep their bits only where nothing is reduced (one
 * rank, not premulsum).
 */
#define PLAIT_OP_LIST(X)               \
    X(PLAIT_SUM, 0, "sum")             \
    X(PLAIT_PROD, 1, "prod")           \
    X(PLAIT_MAX, 2, "max")             \
    X(PLAIT_MIN, 3, "min")             \
    X(PLAIT_AVG, 4, "avg")             \
    X(PLAIT_PREMULSUM, 5, "premulsum") \
    X(PLAIT_USER, 6, "user")

enum plait_op {
#define PLAIT_X(symbol, value, name) symbol = value,
    PLAIT_OP_LIST(PLAIT_X)
#undef PLAIT_X
        PLAIT_NOP = 7
};

/*
 * Where sums of 16- and 8-bit floats are rounded. Other types and user functions ignore this. The error bound of a sum
 * s of p inputs x, to first order, with u = 2^-11 (float16), 2^-8 (bfloat16), 2^-4 (float8e4m3) or 2^-3 (float8e5m2):
 *
 *   once   u |s| + (p-1) 2^-24 sum |x|
 *   hop    (p-1) (u + 2^-24) sum |x|
 *
 * If p u is not small, as with 8-bit floats of many ranks, hop's factor is (1 + u + 2^-24)^(p-1) - 1. avg divides s,
 * the inputs and so the bound by p, after one more rounding (p for p-1). With hop, for all types but bfloat16, the
 * inputs are divided first: an average of numbers up to the type's largest / (1 + u)^p is finite. For prod put |s| for
 * sum |x|. Results below the smallest normal number are off by half its spacing more; with prod and avg, at every hop.
 * For premulsum x are the products, each first rounded to the type. The bounds do not hold where 8-bit floats saturate.
 */
enum plait_round {
    PLAIT_ROUND_DEFAULT, /* once where ranks share a GPU, or it costs no bytes on the wire; else hop */
    PLAIT_ROUND_ONCE,    /* partial results travel and stay in fp32; one rounding at the end */
    PLAIT_ROUND_HOP      /* every reduction rounds to the element type */
};

/*
 * When the scalar of a pre-multiplied sum is read (NCCL's ncclScalarHostImmediate and ncclScalarDevice). For a call
 * that returns when the operation has ended, both are the same.
 */
enum plait_scale_when {
    PLAIT_SCALE_NOW, /* before anything else; the caller may reuse the memory when the call returns */
    /*
     * once, when the operation begins on this rank: in the call, unless it waits for the end of a group or an
     * earlier operation. The memory must stay until the operation has ended
     */
    PLAIT_SCALE_LATE
};

/*
 * A function of the caller's for PLAIT_USER.
 *
 * combine      inout[i] = inout[i] op in[i] for `count` elements of `type`; the left operand comes from the lower
 *              ranks. Called any number of times, for any part of the vector (count is 1 or more); elements are
 *              independent of each other. `inout` and `in` do not overlap; they are aligned to elements as the caller's
 *              buffers are. Runs with the default floating point environment in the thread that drives the operation.
 *              That is the caller of a blocking operation; for others any thread that waits or tests, or the library's,
 *              one at a time for an operation. May not call this library, nor leave by longjmp() or an exception. Must
 *              be associative as far as the caller cares: the result is that of in[rank 0] op in[rank 1] op ... with
 *              some parentheses.
 * context      passed to combine; may differ between ranks
 * commutative  1 promises that a op b is b op a. 0: the ranks' elements are combined in rank order, with the
 *              parentheses of the canonical order (plan.h). Then only algorithms with that order are eligible, as with
 *              `reproducible`; asking for another one is PLAIT_ERR_CONFIG. The promise must be equal on all ranks; the
 *              caller ensures that the functions are, too.
 * The result has the same bits on all ranks if the function gives the same bits on all.
 */
struct plait_user_op {
    size_t size; /* sizeof (struct plait_user_op) */
    void (*combine)(void *inout, const void *in, size_t count, enum plait_dtype type, void *context);
    void *context;
    int commutative;
};

/* Options of one call. Start from PLAIT_CALL_DEFAULT; 0 and NULL mean "as the comm says". */
struct plait_call {
    size_t size;           /* sizeof (struct plait_call) */
    const char *algorithm; /* e.g. "ring", "torus:4x8"; NULL: chosen by the library (plait-info --explain) */
    size_t slice;          /* bytes of the vector in one pipeline slice; 0: chosen */
    enum plait_round round;
    int reproducible;  /* 1: only algorithms with the canonical order; 0: as the comm says; no other value */
    double deadline;   /* seconds until a stall is an error; 0: the comm's */
    const void *scale; /* PLAIT_PREMULSUM: one element of the type, this rank's; else NULL */
    enum plait_scale_when scale_when;
    const struct plait_user_op *user; /* PLAIT_USER; else NULL. Not kept after the call */
    struct plait_request **request;   /* return at once; wait for *request (request.h). NULL: the call waits */
    int persistent;                   /* 1: do not begin; *request can be started again and again */
    struct plait_stream *stream;      /* put it on this CUDA stream, in its order (stream.h) */
    /*
     * of collectives: a number that must be equal on all ranks, such as a hash of a tensor's name. Compared as count
     * and type are, at no cost; a comm remembers 256 operations, this included
     */
    uint32_t mark;
};
#define PLAIT_CALL_DEFAULT                                                                                             \
    {                                                                                                                  \
        sizeof(struct plait_call), NULL, 0, PLAIT_ROUND_DEFAULT, 0, 0.0, NULL, PLAIT_SCALE_NOW, NULL, NULL, 0, NULL, 0 \
    }

/** Bytes of one element of `type`; 0 for an unknown type. Thread: any. */
PLAIT_API size_t plait_dtype_size(enum plait_dtype type);

/** Names as in the lists above; "?" for an unknown value. Thread: any. */
PLAIT_API const char *plait_coll_name(enum plait_coll coll);
PLAIT_API const char *plait_dtype_name(enum plait_dtype type);
PLAIT_API const char *plait_op_name(enum plait_op op);

/**
 * The value with this name; -1 for an unknown name or NULL. Case, '_' and '-' have no meaning. NCCL's, nccl-tests' and
 * MPI's names are known, too: "ncclAllReduce", "all_reduce_perf", "MPI_Allreduce"; "half", "ncclSum", "mulsum".
 * A v-form ("MPI_Allgatherv") is found as its collective, whose plans it runs.
 *
 * Thread: any.
 */
PLAIT_API int plait_coll_find(const char *name);
PLAIT_API int plait_dtype_find(const char *name);
PLAIT_API int plait_op_find(const char *name);

/**
 * Reduce `count` elements over all ranks with `op`; every rank gets the result.
 *
 * in     [count] elements of `type`; may equal `out` (in place), may not overlap it otherwise
 * out    [count] elements; valid only when the call returns PLAIT_OK
 * count  elements, not bytes; 0 is allowed: the ranks synchronise and nothing moves
 * call   options of this call, or NULL
 * In place: each rank decides for itself, as in NCCL. A program's own algorithm (plait_comm_options.algorithms) runs
 *           out of place, on a copy of `in`. premulsum puts in * scale into out and reduces that in place.
 * Ownership: both buffers stay the caller's. After an error other than PLAIT_ERR_ARG, PLAIT_ERR_UNSUPPORTED or
 *         PLAIT_ERR_CONFIG they belong to the library until plait_comm_destroy() returns.
 * Order:  collective; every rank of the comm calls it, in the same order.
 * Thread: one thread per rank at a time. A second thread that calls meanwhile gets PLAIT_ERR_ARG, and the first goes
 *         on. Two threads that enter within a few nanoseconds may go undetected.
 * Result: same bits on all ranks and from run to run on the same shape; with `reproducible` also independent of
 *         algorithm, slices and placement.
 * Errors: PLAIT_ERR_ARG, PLAIT_ERR_UNSUPPORTED, PLAIT_ERR_CONFIG (nothing happened). PLAIT_ERR_PEER, PLAIT_ERR_TIMEOUT,
 *         PLAIT_ERR_MISMATCH, PLAIT_ERR_FAILED, PLAIT_ERR_NOMEM, PLAIT_ERR_SYSTEM (memory short on one rank, which all
 *         are told): the comm has failed; plait_last_error() names rank, operation and field. A rank that finished
 *         before another one failed gets the error at its next call or at destroy.
 * Cost:   see plait-info --explain; ring: 2(P-1) messages and 2(P-1)/P * bytes sent by a rank.
 * Source: Patarasuk & Yuan 2009 (ring); Rabenseifner 2004 (halving-doubling); docs/algorithms.md.
 */
PLAIT_API enum plait_status plait_allreduce(struct plait_comm *comm, const void *in, void *out, size_t count,
                                            enum plait_dtype type, enum plait_op op, const struct plait_call *call);

/*
 * The other collectives. Ownership, Order, Thread, Result, Errors: as plait_allreduce(), unless said otherwise.
 *
 * count  elements that one rank sends to or receives from another (of the whole vector for broadcast and reduce); in
 *        buffers marked [nrank][count] part r belongs to rank r
 * root   rank that sends or receives everything; must be equal on all ranks
 * In place: as in NCCL. On a rank with both buffers, the part of IN that stays with the rank may lie at its place in
 *           OUT; in reduce-scatter the result may lie where this rank's part of IN is. Then `in` and `out` are in one
 *           buffer; otherwise they must not overlap. Each rank decides for itself; in a rooted collective only the
 *           root's buffers count. A program's own algorithm of another collective needs it on all ranks or on none.
 *           An all-to-all in place (`in` equals `out`) first copies `in` to memory that the comm keeps.
 *
 * In a rooted collective a rank does not hear of every other rank. So a rank that differs may be named only in a later
 * call that waits, or by plait_comm_destroy(). No message of one call is taken for that of another.
 */

/**
 * Reduce, and give every rank its part of the result.
 *
 * in   [nrank][count]
 * out  [count]; in place: `in` + rank * count elements
 */
PLAIT_API enum plait_status plait_reduce_scatter(struct plait_comm *comm, const void *in, void *out, size_t count,
                                                 enum plait_dtype type, enum plait_op op,
                                                 const struct plait_call *call);

/**
 * Give every rank every rank's part.
 *
 * in   [count]; in place: `out` + rank * count elements
 * out  [nrank][count]
 */
PLAIT_API enum plait_status plait_allgather(struct plait_comm *comm, const void *in, void *out, size_t count,
                                            enum plait_dtype type, const struct plait_call *call);

/**
 * Give every rank the root's vector.
 *
 * in   [count] at the root; ignored elsewhere (may be NULL)
 * out  [count] at every rank; may equal `in` at the root
 */
PLAIT_API enum plait_status plait_broadcast(struct plait_comm *comm, const void *in, void *out, size_t count,
                                            enum plait_dtype type, uint32_t root, const struct plait_call *call);

/**
 * Reduce; the root gets the result.
 *
 * in   [count]
 * out  [count] at the root, may equal `in` there; ignored elsewhere (may be NULL)
 */
PLAIT_API enum plait_status plait_reduce(struct plait_comm *comm, const void *in, void *out, size_t count,
                                         enum plait_dtype type, enum plait_op op, uint32_t root,
                                         const struct plait_call *call);

/**
 * Give the root every rank's part.
 *
 * in   [count]; in place at the root: `out` + root * count elements
 * out  [nrank][count] at the root; ignored elsewhere (may be NULL)
 */
PLAIT_API enum plait_status plait_gather(struct plait_comm *comm, const void *in, void *out, size_t count,
                                         enum plait_dtype type, uint32_t root, const struct plait_call *call);

/**
 * Give every rank its part of the root's buffer.
 *
 * in   [nrank][count] at the root; ignored elsewhere (may be NULL)
 * out  [count]; in place at the root: `in` + root * count elements
 */
PLAIT_API enum plait_status plait_scatter(struct plait_comm *comm, const void *in, void *out, size_t count,
                                          enum plait_dtype type, uint32_t root, const struct plait_call *call);

/**
 * Every rank sends a different part to each rank.
 *
 * in   [nrank][count]: part r goes to rank r
 * out  [nrank][count]: part r comes from rank r; may equal `in` (in place)
 */
PLAIT_API enum plait_status plait_alltoall(struct plait_comm *comm, const void *in, void *out, size_t count,
                                           enum plait_dtype type, const struct plait_call *call);

/*
 * The v-forms: variable block sizes. Thread, Errors: as plait_allreduce(). All-gather and reduce-scatter are chosen by
 * the largest block; the others, in which only sender and receiver know a block's size, without sizes.
 *
 * counts  [nrank] elements of each rank's part; if only one rank has an array, the others pass their own `count`
 * starts  [nrank] start of each part, in elements from the start of the buffer; NULL: parts are contiguous. Parts of
 *         OUT must not overlap (PLAIT_ERR_ARG names two that do)
 * In place: a rank with an empty part may pass any pointer. In an all-to-all `in` may equal `out`, whatever the parts.
 * Two ranks must agree on the size of a part; else its receiver fails the comm with both sizes (PLAIT_ERR_MISMATCH).
 * Cost:   one message for each slice of a part that is not a rank's own; between hosts one for each part.
 */
PLAIT_API enum plait_status plait_reduce_scatterv(struct plait_comm *comm, const void *in, void *out,
                                                  const size_t *counts, const size_t *starts, enum plait_dtype type,
                                                  enum plait_op op, const struct plait_call *call);
PLAIT_API enum plait_status plait_allgatherv(struct plait_comm *comm, const void *in, void *out, const size_t *counts,
                                             const size_t *starts, enum plait_dtype type,
                                             const struct plait_call *call);
PLAIT_API enum plait_status plait_gatherv(struct plait_comm *comm, const void *in, size_t count, void *out,
                                          const size_t *counts, const size_t *starts, enum plait_dtype type,
                                          uint32_t root, const struct plait_call *call);
PLAIT_API enum plait_status plait_scatterv(struct plait_comm *comm, const void *in, const size_t *counts,
                                           const size_t *starts, void *out, size_t count, enum plait_dtype type,
                                           uint32_t root, const struct plait_call *call);
PLAIT_API enum plait_status plait_alltoallv(struct plait_comm *comm, const void *in, const size_t *in_counts,
                                            const size_t *in_starts, void *out, const size_t *out_counts,
                                            const size_t *out_starts, enum plait_dtype type,
                                            const struct plait_call *call);

/**
 * Return when every rank of the comm has called it.
 *
 * Order, Thread, Errors: as plait_allreduce.
 */
PLAIT_API enum plait_status plait_barrier(struct plait_comm *comm, const struct plait_call *call);

#ifdef __cplusplus
}
#endif
#endif
