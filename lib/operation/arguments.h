/* SPDX-License-Identifier: BSD-3-Clause */
/* The arguments of a collective as one value, and what is wrong with them. */
#ifndef PLAIT_LIB_OPERATION_ARGUMENTS_H
#define PLAIT_LIB_OPERATION_ARGUMENTS_H

#include <plait/plan.h>

#include "base/bytes.h"
#include "reduce/reduce.h"

struct plait_args { /* of a call */
    enum plait_coll coll;
    enum plait_dtype type;
    enum plait_op op; /* of a collective that combines, else 0 */
    uint32_t root;    /* of a rooted one, else 0 */
    bool inplace;     /* of what is combined or moved */
    size_t count;
    const void *in;
    void *out;
    bool alias;                /* the buffers lie as they do in place */
    struct plait_queue *queue; /* of a device, on which it runs in stream order; NULL: on the processor */
    bool sized; /* blocks differ in size (plait_sizes); count: of the largest, if it decides what runs; else 0 */
};

/* What tells operations apart, but for counts, buffers and options. Nothing of it is checked: all bits count. */
struct plait_key {
    uint64_t whose, what;
};

static inline struct plait_key plait_key(const struct plait_args *a)
{
    return (struct plait_key){ (uint64_t)a->root << 32 | (uint32_t)a->type,
                               (uint64_t)(uint32_t)a->op << 32 | (uint32_t)a->coll << 2 | (uint32_t)a->sized << 1 |
                                   (a->queue != NULL) };
}

static inline bool plait_same_key(struct plait_key a, struct plait_key b)
{
    return ((a.whose ^ b.whose) | (a.what ^ b.what)) == 0;
}

extern const struct plait_call plait_no_wishes; /* PLAIT_CALL_DEFAULT */

/* Type, operator, count and options of a call; PLAIT_ERR_ARG or PLAIT_ERR_UNSUPPORTED name what is wrong. */
enum plait_status plait_check_operation(const struct plait_kernels *kernels, const char *name, enum plait_coll coll,
                                        uint32_t nrank, size_t count, enum plait_dtype type, enum plait_op op,
                                        const struct plait_call *call);

/* The options alone; and what premulsum and user need of them, and others do not take. */
enum plait_status plait_check_call(const char *name, const struct plait_call *call);
enum plait_status plait_check_op(const char *name, enum plait_op op, const struct plait_call *call);

/*
 * Options that begin with their size: are they there, and of this library's? what: "options"; from: the macro that they
 * start from.
 */
enum plait_status plait_check_struct(const char *call, const char *what, const void *options, size_t size,
                                     const char *from);

/* An int that means yes or no: anything but 0 and 1 is a mistake. */
enum plait_status plait_check_flag(const char *call, const char *what, int value);

enum plait_status plait_check_root(const char *name, uint32_t root, uint32_t nrank);

/* Bytes of IN or OUT, whose blocks (or vector) have `bytes`. */
size_t plait_side_bytes(const struct plait_geometry *g, const struct plait_side *side, size_t bytes);

/* Where IN begins from OUT when it is in place; PTRDIFF_MIN: this rank has no such form. bytes: of a block */
ptrdiff_t plait_place_of_in(const struct plait_geometry *g, uint32_t rank, size_t bytes);

/* Are the buffers there, and apart unless they are in place? */
static inline bool plait_buffers_fit(const struct plait_args *a, size_t in_bytes, size_t out_bytes)
{
    const uintptr_t in = (uintptr_t)a->in, out = (uintptr_t)a->out;

    return (a->in != NULL || in_bytes == 0) && (a->out != NULL || out_bytes == 0) &&
           (a->alias || in >= out + out_bytes || out >= in + in_bytes);
}

/* The error when they are not. form: "v" or "", behind the collective's name. */
enum plait_status plait_wrong_buffers(const struct plait_args *a, const struct plait_geometry *g, const char *form,
                                      size_t in_bytes, size_t out_bytes);

#endif
