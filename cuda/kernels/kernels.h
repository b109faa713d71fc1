/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device kernels: names, arguments, launch geometry. Shared by device code, the host's kernel bodies and the
 * launching code.
 *
 * Every kernel takes one argument, a struct below by value. Its name is in PLAIT_CUDA_KERNEL_LIST, and it is found in
 * one of plait_cuda_images[] (images.h). Blocks and grids have one dimension; no kernel takes dynamic shared memory. No
 * kernel waits, and none uses atomics: results are the same in every run.
 *
 * Arithmetic, rounding and NaNs are those of lib/reduce/reduce.h, which documents each operation. The bits are equal
 * unless a comment says otherwise. Pointers are device pointers aligned to their elements. Operands and results that
 * have the same offset from a 16-byte boundary are accessed in units of 16 bytes; so are tensors and parts on such a
 * boundary.
 */
#ifndef PLAIT_CUDA_KERNELS_H
#define PLAIT_CUDA_KERNELS_H

#include <optim/loss_scale.h>
#include <plait/coll.h>
#include <plait/optim.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* name, struct of the argument, threads of a block */
#define PLAIT_CUDA_KERNEL_LIST(X)                                    \
    X(plait_reduce_int8, plait_cuda_list, PLAIT_CUDA_THREADS)        \
    X(plait_reduce_uint8, plait_cuda_list, PLAIT_CUDA_THREADS)       \
    X(plait_reduce_int32, plait_cuda_list, PLAIT_CUDA_THREADS)       \
    X(plait_reduce_uint32, plait_cuda_list, PLAIT_CUDA_THREADS)      \
    X(plait_reduce_int64, plait_cuda_list, PLAIT_CUDA_THREADS)       \
    X(plait_reduce_uint64, plait_cuda_list, PLAIT_CUDA_THREADS)      \
    X(plait_reduce_float16, plait_cuda_list, PLAIT_CUDA_THREADS)     \
    X(plait_reduce_float32, plait_cuda_list, PLAIT_CUDA_THREADS)     \
    X(plait_reduce_float64, plait_cuda_list, PLAIT_CUDA_THREADS)     \
    X(plait_reduce_bfloat16, plait_cuda_list, PLAIT_CUDA_THREADS)    \
    X(plait_reduce_float8e4m3, plait_cuda_list, PLAIT_CUDA_THREADS)  \
    X(plait_reduce_float8e5m2, plait_cuda_list, PLAIT_CUDA_THREADS)  \
    X(plait_scale, plait_cuda_scale, PLAIT_CUDA_THREADS)             \
    X(plait_copy, plait_cuda_list, PLAIT_CUDA_THREADS)               \
    X(plait_copies, plait_cuda_copies, PLAIT_CUDA_THREADS)           \
    X(plait_pack, plait_cuda_pack, PLAIT_CUDA_THREADS)               \
    X(plait_unpack, plait_cuda_pack, PLAIT_CUDA_THREADS)             \
    X(plait_optim_squares, plait_cuda_optim, PLAIT_CUDA_THREADS)     \
    X(plait_optim_trust, plait_cuda_optim, PLAIT_CUDA_THREADS_TRUST) \
    X(plait_optim_update, plait_cuda_optim, PLAIT_CUDA_THREADS)

/* In list order; the first PLAIT_NDTYPE are plait_reduce_TYPE, in the order of enum plait_dtype. */
enum plait_cuda_kernel {
#define PLAIT_X(name, args, threads) PLAIT_CUDA_KERNEL_##name,
    PLAIT_CUDA_KERNEL_LIST(PLAIT_X)
#undef PLAIT_X
        PLAIT_CUDA_NKERNEL
};

enum {
    PLAIT_CUDA_THREADS = 256,        /* of a block */
    PLAIT_CUDA_THREADS_TRUST = 1024, /* of the only block of plait_optim_trust */
    PLAIT_CUDA_WARP = 32,
    PLAIT_CUDA_SHARED = 2,      /* shared elements of a thread, on the host */
    PLAIT_CUDA_PER_THREAD = 64, /* bytes of one operand per thread, if there is enough for all blocks */
    PLAIT_CUDA_SLOTS = 506,     /* words of a list in the argument itself */
    PLAIT_CUDA_COPIES = 160,    /* in the argument itself */
    PLAIT_CUDA_PIECE = 2048     /* most elements of a piece; a warp works on one piece at a time */
};

/*
 * An item of a list, as struct plait_item of lib/plugin/device.h; with times > 1: `times` sources (gathers) or
 * destinations (else).
 *
 * in, out  bytes from an operand's address, and from a result's, to its first block
 * src      slot of the list that has the first operand's address; dst: the first result's
 * lines    all blocks have the same offset from a 16-byte boundary
 * nchunk   chunks of a block
 */
struct plait_cuda_item {
    uint64_t count;
    uint64_t in, out;
    uint16_t src, nsrc;
    uint16_t dst, ndst;
    uint16_t times;
    uint8_t gathers;
    uint8_t lines;
    uint32_t nchunk;
};

/*
 * plait_reduce_TYPE: all items of a list. plait_copy: the same with one operand each, whose elements are bytes. A
 * result may be an operand at the same address; no other block overlaps a result.
 *
 * wide     8- and 16-bit floats only: bit s: operand s (< 64) is float32; wide_dst: results are, and are not rounded
 * op       sum, prod, max, min, avg; premulsum is a sum
 * divisor  avg: the number the sum is divided by; 0: not yet, and with any other op
 * chunk    elements that a block of threads makes at a time
 * slot     items from the start, addresses from the end
 *
 * Made by plait_cuda_list_add(). Grid: plait_cuda_list_cut(), or fewer.
 */
struct plait_cuda_list {
    uint64_t wide;
    uint32_t op; /* enum plait_op */
    uint32_t divisor;
    uint32_t wide_dst;
    uint32_t nitem;
    uint32_t chunk;
    uint32_t used; /* slots at the end */
    union {
        uint64_t slot[PLAIT_CUDA_SLOTS];
        struct plait_cuda_item item[PLAIT_CUDA_SLOTS * 8 / sizeof(struct plait_cuda_item)];
    };
};

/*
 * plait_scale: dst[i] = src[i] times the scalar, rounded to the type; dst may equal src.
 *
 * scalar  one element of the type, in the first bytes
 * late    where the kernel reads one element instead, when it runs; or NULL
 *
 * Grid: plait_cuda_blocks(count * size of the type, ...).
 */
struct plait_cuda_scale {
    void *dst;
    const void *src;
    uint64_t count;
    uint64_t scalar;
    const void *late;
    uint32_t type; /* enum plait_dtype */
};

struct plait_cuda_copy { /* buffers do not overlap */
    void *dst;
    const void *src;
    uint64_t bytes;
};

/* plait_copies: n copies in one launch, none of which overlap. Grid: plait_cuda_chunks() of all copies, or fewer. */
struct plait_cuda_copies {
    uint32_t n;
    struct plait_cuda_copy copy[PLAIT_CUDA_COPIES];
};

/* ---- Many tensors in one launch: tables in memory that the device can read, made once --------------------------- */

/* One warp's work: elements start .. start + count of the tables' entry `of`. Made by plait_cuda_cut(). */
struct plait_cuda_piece {
    uint64_t start;
    uint32_t of;
    uint32_t count; /* at most PLAIT_CUDA_PIECE */
};

struct plait_cuda_tensor {
    void *data;    /* NULL: zeros are packed, nothing is unpacked, and squares are 0 */
    uint64_t at;   /* offset in the payload, in elements */
    uint32_t type; /* enum plait_dtype: the payload's; float32; or, with a float32 payload, of 16 or 8 bits */
};

/*
 * plait_pack: payload[at + i] = data[i] * factor. plait_unpack: data[i] = payload[at + i] * factor. Rounded to nearest
 * even; bits are copied where the types are equal and factor is 1. Nothing is written where data is in the payload
 * already and factor is 1.
 *
 * factor    1 for integers
 * late      where the kernel reads the factor instead, when it runs; or NULL
 * squares   plait_unpack: [npiece] the sum of the squares of what was written of each piece; 0 for integers; or NULL,
 *           none is computed. Other bits than plait_pass()'s: another order
 * infinite  plait_unpack with squares: 1 is written where something is not finite, else nothing; or NULL
 *
 * Grid: plait_cuda_piece_blocks(npiece), or fewer.
 */
struct plait_cuda_pack {
    const struct plait_cuda_tensor *tensors;
    const struct plait_cuda_piece *pieces; /* of tensors */
    void *payload;
    double factor;
    const double *late;
    double *squares;
    uint32_t *infinite;
    uint32_t npiece;
    uint32_t type; /* of the payload */
};

/* ---- The optimiser's step (plait/optim.h), in three launches ------------------------------------------------ */

struct plait_cuda_part { /* plait_optim_part, and its momentum */
    const void *gradient;
    float *master;
    float *momentum;
    void *copy; /* or NULL */
    uint32_t type;
    uint32_t copy_type;
    uint32_t tensor;
    uint32_t flags; /* PLAIT_OPTIM_NO_DECAY, PLAIT_OPTIM_NO_TRUST */
};

struct plait_cuda_range { /* of pieces: those of one tensor */
    uint32_t first;
    uint32_t count;
};

struct plait_cuda_step { /* plait_optim_step's */
    double lr;
    double factor;
    double decay;
};

struct plait_cuda_update { /* struct plait_update, of a part */
    float gradient;
    float decay;
};

struct plait_cuda_result { /* plait_optim_result */
    double norm;
    uint32_t finite;
    uint32_t ndiffer; /* number of steps that differed between ranks */
};

/* Index in plait_cuda_optim.sums: as in lib/optim/optim.h. */
enum { PLAIT_CUDA_VERDICT, PLAIT_CUDA_CALL, PLAIT_CUDA_CALL_SQUARE, PLAIT_CUDA_NORMS };

/* What plait_optim_trust does; with only one rank, both in one launch. */
#define PLAIT_CUDA_ADD   1u /* sums from squares */
#define PLAIT_CUDA_TRUST 2u /* updates and result from sums */

/*
 * One argument for all three:
 *
 *   plait_optim_squares  squares of each piece. Grid: plait_cuda_piece_blocks(npiece), or fewer
 *   plait_optim_trust    `what` says. Grid: one block of PLAIT_CUDA_THREADS_TRUST. Sharded: with ADD; the all-reduce of
 *                        sums [PLAIT_CUDA_NORMS + 2 ntensor] as float64; with TRUST
 *   plait_optim_update   masters, momenta and copies; nothing where result->finite is 0. Grid as the first
 *
 * call      the step's number, 18 bits, with which the loss scale is mixed. The update changes nothing if the sums at
 *           CALL and CALL_SQUARE show that ranks have different numbers, or if the result is not finite
 * ranges    [ntensor] pieces are sorted by tensor
 * late      where the kernels read `step` instead, when they run; or NULL
 * scale     the loss scale, which plait_optim_trust reads, and updates last, unless ranks differ; or NULL
 * The sums are formed in another order than the CPU's, so norms may differ in the last digits of a double; updates with
 * equal coefficients have equal bits.
 */
struct plait_cuda_optim {
    const struct plait_cuda_part *parts;
    const struct plait_cuda_piece *pieces; /* of parts */
    const struct plait_cuda_range *ranges;
    double *gradient_squares;          /* [npiece] */
    double *weight_squares;            /* [npiece] */
    double *sums;                      /* [PLAIT_CUDA_NORMS + 2 ntensor] weights' of each tensor, then gradients' */
    struct plait_cuda_update *updates; /* [npart] */
    struct plait_cuda_result *result;
    const struct plait_cuda_step *late;
    struct plait_loss_scale *scale;
    struct plait_cuda_step step;
    double momentum; /* from here as plait_optim_options */
    double decay;
    double eta;
    double eps;
    double norm_decay;
    double call;
    uint32_t nrank;
    uint32_t lars; /* 0: SGD */
    uint32_t nesterov;
    uint32_t lr_in_momentum;
    uint32_t check;
    uint32_t what;
    uint32_t npart;
    uint32_t npiece;
    uint32_t ntensor;
};

/* ---- Geometry ------------------------------------------------------------------------------------------------ */

/*
 * Number of blocks for a kernel over `bytes` of an operand.
 *
 * most  8 blocks per multiprocessor; kernels that need many registers run fewer of them at the same time
 */
static inline uint32_t plait_cuda_blocks(uint64_t bytes, uint32_t most)
{
    const uint64_t each = (uint64_t)PLAIT_CUDA_THREADS * PLAIT_CUDA_PER_THREAD;
    const uint64_t blocks = bytes / each + (bytes % each != 0);

    return blocks == 0 ? 1 : blocks < most ? (uint32_t)blocks : most;
}

/* Slots of these addresses: the latest item's `same`, if these are alike, or new ones. 0: there is no room. */
static inline uint32_t plait_cuda_list_slots(struct plait_cuda_list *a, const void *const *addresses, uint32_t n,
                                             uint32_t same, uint32_t nsame)
{
    bool alike = n == nsame;

    for (uint32_t i = 0; i < n && alike; i++)
        alike = a->slot[same + i] == (uint64_t)(uintptr_t)addresses[i];
    if (alike)
        return same;
    const uint64_t items = ((uint64_t)a->nitem + 1) * sizeof(struct plait_cuda_item);
    if (items + ((uint64_t)a->used + n) * sizeof *a->slot > sizeof a->slot)
        return 0;
    a->used += n;
    const uint32_t first = (uint32_t)PLAIT_CUDA_SLOTS - a->used;
    for (uint32_t i = 0; i < n; i++)
        a->slot[first + i] = (uint64_t)(uintptr_t)addresses[i];
    return first;
}

/*
 * Add an item. `size`: of an element; count, in, out, times and gathers of *item are set, times to 1 at least. False:
 * the list is full, and unchanged. A list of one item has room for 500 addresses.
 */
static inline bool plait_cuda_list_add(struct plait_cuda_list *a, uint32_t size, const void *const *src, uint32_t nsrc,
                                       void *const *dst, uint32_t ndst, const struct plait_cuda_item *item)
{
    const struct plait_cuda_item last = a->nitem > 0 ? a->item[a->nitem - 1] : (struct plait_cuda_item){ 0 };
    struct plait_cuda_item i = *item;
    const uint32_t used = a->used;
    const uint64_t first = (uint64_t)(uintptr_t)dst[0] + i.out;
    uint64_t unlike = i.times > 1 ? i.count * size : 0;

    i.nsrc = (uint16_t)nsrc;
    i.ndst = (uint16_t)ndst;
    i.src = (uint16_t)plait_cuda_list_slots(a, src, nsrc, last.src, last.nsrc);
    if (i.src != 0)
        i.dst = (uint16_t)plait_cuda_list_slots(a, (const void *const *)dst, ndst, last.dst, last.ndst);
    if (i.src == 0 || i.dst == 0 || (a->nitem + 1) * sizeof i > sizeof a->slot - a->used * sizeof *a->slot) {
        a->used = used;
        return false;
    }
    for (uint32_t s = 0; s < nsrc; s++)
        unlike |= (uint64_t)(uintptr_t)src[s] + i.in - first;
    for (uint32_t d = 0; d < ndst; d++)
        unlike |= (uint64_t)(uintptr_t)dst[d] + i.out - first;
    i.lines = unlike % 16 == 0;
    a->item[a->nitem++] = i;
    return true;
}

/*
 * Cut the list into chunks: long ones, or, if these are too few for all blocks of threads, short ones. Returns the
 * number of blocks. most: as in plait_cuda_blocks()
 */
static inline uint32_t plait_cuda_list_cut(struct plait_cuda_list *a, uint32_t size, uint32_t most)
{
    enum { LINE = 16, LONG = PLAIT_CUDA_THREADS * PLAIT_CUDA_PER_THREAD };
    uint64_t all = 0;

    for (uint32_t bytes = LONG; bytes == LONG || (all < most && bytes >= PLAIT_CUDA_THREADS * LINE); bytes /= 4) {
        all = 0;
        a->chunk = bytes / size;
        for (uint32_t i = 0; i < a->nitem; i++) {
            a->item[i].nchunk = (uint32_t)((a->item[i].count + a->chunk - 1) / a->chunk);
            all += (uint64_t)a->item[i].nchunk * a->item[i].times;
        }
    }
    return all == 0 ? 1 : all < most ? (uint32_t)all : most;
}

/* plait_copies cuts a copy into chunks, of which a block copies one at a time. */
enum { PLAIT_CUDA_CHUNK = PLAIT_CUDA_THREADS * PLAIT_CUDA_PER_THREAD };

static inline uint64_t plait_cuda_chunks(uint64_t bytes)
{
    return bytes / PLAIT_CUDA_CHUNK + (bytes % PLAIT_CUDA_CHUNK != 0);
}

/* Number of pieces of an entry with `count` elements. */
static inline uint64_t plait_cuda_npiece(uint64_t count)
{
    return count / PLAIT_CUDA_PIECE + (count % PLAIT_CUDA_PIECE != 0);
}

/* Number of blocks for a kernel over pieces: one warp for each. Small pieces share a block. */
static inline uint32_t plait_cuda_piece_blocks(uint32_t npiece)
{
    const uint32_t each = PLAIT_CUDA_THREADS / PLAIT_CUDA_WARP;

    return npiece / each + (npiece % each != 0);
}

/* Make the pieces of entry `of`. Returns where the next entry's begin. */
static inline struct plait_cuda_piece *plait_cuda_cut(struct plait_cuda_piece *pieces, uint32_t of, uint64_t count)
{
    for (uint64_t at = 0; at < count; at += PLAIT_CUDA_PIECE, pieces++) {
        pieces->start = at;
        pieces->of = of;
        pieces->count = count - at < PLAIT_CUDA_PIECE ? (uint32_t)(count - at) : (uint32_t)PLAIT_CUDA_PIECE;
    }
    return pieces;
}

#endif
