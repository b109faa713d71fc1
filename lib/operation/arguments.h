/* SPDX-License-Identifier: BSD-3-Clause */
/* The arguments of a collective as one value, and their checks. */
#ifndef PLAIT_LIB_OPERATION_ARGUMENTS_H
#define PLAIT_LIB_OPERATION_ARGUMENTS_H

#include <plait/plan.h>

#include "base/bytes.h"
#include "space.h"

struct plait_args {
    enum plait_coll coll;
    enum plait_dtype type;
    enum plait_op op; /* 0 unless the collective reduces */
    uint32_t root;    /* 0 unless the collective is rooted */
    bool inplace;     /* the reduction or move runs in place */
    size_t count;
    const void *in;
    void *out;
    bool alias; /* IN and OUT overlap as in place */
    bool vform; /* variable block sizes (plait_sizes); count: the largest block if selection depends on it, else 0 */
    const struct plait_space *space; /* of the buffers */
    struct plait_queue *queue;       /* of a queued space, on which the work is put; else NULL */
    const struct plait_sizes *sizes; /* if vform, for the run */
};

/* Identifies an operation, apart from counts, buffers and options. The values are unchecked, so all bits count. */
struct plait_key {
    uint64_t whose, what;
    const struct plait_space *space;
};

static inline struct plait_key plait_key(const struct plait_args *a)
{
    return (struct plait_key){ (uint64_t)a->root << 32 | (uint32_t)a->type,
                               (uint64_t)(uint32_t)a->op << 32 | (uint32_t)a->coll << 1 | (uint32_t)a->vform,
                               a->space };
}

static inline bool plait_same_key(struct plait_key a, struct plait_key b)
{
    return ((a.whose ^ b.whose) | (a.what ^ b.what)) == 0 && a.space == b.space;
}

extern const struct plait_call plait_no_wishes; /* PLAIT_CALL_DEFAULT */

/* Checks type, operator, count, root and options of a call. Errors: PLAIT_ERR_ARG, PLAIT_ERR_UNSUPPORTED. */
enum plait_status plait_check_operation(const struct plait_kernels *kernels, const char *name, uint32_t nrank,
                                        const struct plait_args *a, const struct plait_call *call);

/*
 * Check that an options struct is not NULL and that its first member, its size, is this library's.
 * what: the argument's name, such as "options"; from: the macro that initialises it.
 */
enum plait_status plait_check_struct(const char *call, const char *what, const void *options, size_t size,
                                     const char *from);

/* Check the options alone; and the options that only premulsum and user operators require and allow. */
enum plait_status plait_check_call(const char *name, const struct plait_call *call);
enum plait_status plait_check_op(const char *name, enum plait_op op, const struct plait_call *call);

enum plait_status plait_check_type(const char *name, enum plait_dtype type);

/* Checks that a flag is 0 or 1. */
enum plait_status plait_check_flag(const char *call, const char *what, int value);

/* Do all ranks know all sizes in a v-form? Else only sender and receiver know that of a block. */
static inline bool plait_all_know_sizes(const struct plait_geometry *g)
{
    return g->kind == PLAIT_KIND_PART && !g->rooted;
}

/*
 * The count with which a v-form above the eager path is selected: the largest block's, rounded up to a power of two, so
 * that few operations are bound; 0 if not all ranks know it.
 */
static inline size_t plait_vform_count(const struct plait_geometry *g, size_t most)
{
    return most == 0 || !plait_all_know_sizes(g) ? 0 : (size_t)1 << (most > 1 ? 64 - __builtin_clzll(most - 1) : 0);
}

/* Bytes of the vector or of a block. A bound operation has them in plait_op_plan.bytes. */
static inline size_t plait_args_bytes(const struct plait_args *a)
{
    return a->count * plait_dtype_size(a->type);
}

/* Bytes of IN or OUT; `bytes`: of a block or of the vector. */
size_t plait_side_bytes(const struct plait_geometry *g, const struct plait_side *side, size_t bytes);

/* Offset of IN from OUT in place, in bytes; PTRDIFF_MIN: this rank has no form in place. bytes: of a block */
ptrdiff_t plait_place_of_in(const struct plait_geometry *g, uint32_t rank, size_t bytes);

/* Are the buffers not NULL and, unless in place, disjoint? */
static inline bool plait_buffers_fit(const struct plait_args *a, size_t in_bytes, size_t out_bytes)
{
    const uintptr_t in = (uintptr_t)a->in, out = (uintptr_t)a->out;

    return (a->in != NULL || in_bytes == 0) && (a->out != NULL || out_bytes == 0) &&
           (a->alias || in >= out + out_bytes || out >= in + in_bytes);
}

/* Reports the error if they are not. form: "v" or "", the suffix of the collective's name. */
enum plait_status plait_wrong_buffers(const struct plait_args *a, const struct plait_geometry *g, const char *form,
                                      size_t in_bytes, size_t out_bytes);

#endif
