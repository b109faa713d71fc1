/* SPDX-License-Identifier: BSD-3-Clause */
#include "arguments.h"

#include "base/status.h"

#include <string.h>

const struct plait_call plait_no_wishes = PLAIT_CALL_DEFAULT;

enum plait_status plait_check_type(const char *name, enum plait_dtype type)
{
    return (unsigned)type < PLAIT_NDTYPE && plait_dtype_size(type) > 0
               ? PLAIT_OK
               : plait_fail(PLAIT_ERR_ARG, "%s: type is %d, which is no enum plait_dtype of this version", name,
                            (int)type);
}

static enum plait_status check_kernel(const struct plait_kernels *kernels, const char *name, enum plait_coll coll,
                                      enum plait_dtype type, enum plait_op op)
{
    if (!plait_geometry_of(coll, 1, 0, 0, 1).combines)
        return PLAIT_OK;
    if ((unsigned)op >= PLAIT_NOP)
        return plait_fail(PLAIT_ERR_ARG, "%s: op is %d, which is no enum plait_op", name, (int)op);
    if (plait_reduce_find(kernels, type, op) == NULL)
        return plait_fail(PLAIT_ERR_UNSUPPORTED, "%s: no kernel for type %s with op %s", name, plait_dtype_name(type),
                          plait_op_name(op));
    return PLAIT_OK;
}

/* Checks that all blocks of one rank fit in memory. */
static enum plait_status check_count(enum plait_coll coll, uint32_t nrank, size_t count, size_t size)
{
    const size_t nblk = plait_geometry_of(coll, nrank, 0, 0, 1).kind == PLAIT_KIND_VECTOR ? 1 : nrank;

    if (count > PLAIT_MOST_BYTES / size / nblk)
        return plait_fail(PLAIT_ERR_ARG,
                          "%s: count is %zu, more than fits in memory; it counts elements of %zu bytes%s",
                          plait_coll_name(coll), count, size, nblk > 1 ? ", of one rank" : "");
    return PLAIT_OK;
}

size_t plait_side_bytes(const struct plait_geometry *g, const struct plait_side *side, size_t bytes)
{
    return g->kind == PLAIT_KIND_VECTOR ? (side->nslot > 0 ? bytes : 0) : side->nslot * bytes;
}

ptrdiff_t plait_place_of_in(const struct plait_geometry *g, uint32_t rank, size_t bytes)
{
    if (g->in.nslot == 0 || g->out.nslot == 0)
        return PTRDIFF_MIN;
    if (g->kind != PLAIT_KIND_PART)
        return 0;
    const uintptr_t slots = (uintptr_t)plait_side_slot(&g->out, rank) - plait_side_slot(&g->in, rank);
    return (ptrdiff_t)(slots * bytes); /* unsigned: may overflow for an unchecked count */
}

enum plait_status plait_wrong_buffers(const struct plait_args *a, const struct plait_geometry *g, const char *form,
                                      size_t in_bytes, size_t out_bytes)
{
    const bool no_in = in_bytes > 0 && a->in == NULL;

    if (no_in || (out_bytes > 0 && a->out == NULL))
        return plait_fail(PLAIT_ERR_ARG, "%s%s: %s is NULL, but count is not 0", plait_coll_name(a->coll), form,
                          no_in ? "in" : "out");
    return plait_fail(PLAIT_ERR_ARG, "%s%s: in %p of %zu bytes and out %p of %zu bytes overlap; they must be apart%s",
                      plait_coll_name(a->coll), form, a->in, in_bytes, a->out, out_bytes,
                      g->kind != PLAIT_KIND_PART ? " or equal"
                                                 : ", or this rank's part of one be the other (in place)");
}

enum plait_status plait_check_flag(const char *call, const char *what, int value)
{
    return value == 0 || value == 1 ? PLAIT_OK
                                    : plait_fail(PLAIT_ERR_ARG, "%s: %s is %d; it must be 0 or 1", call, what, value);
}

enum plait_status plait_check_struct(const char *call, const char *what, const void *options, size_t size,
                                     const char *from)
{
    const size_t *given = options;

    if (given == NULL)
        return plait_fail(PLAIT_ERR_ARG, "%s: %s is NULL; start from %s", call, what, from);
    return *given == size
               ? PLAIT_OK
               : plait_fail(PLAIT_ERR_ARG, "%s: %s->size is %zu, not %zu; start from %s of this version's headers",
                            call, what, *given, size, from);
}

enum plait_status plait_check_call(const char *name, const struct plait_call *call)
{
    if (plait_check_struct(name, "call", call, sizeof *call, "PLAIT_CALL_DEFAULT") != PLAIT_OK)
        return PLAIT_ERR_ARG;
    if ((unsigned)call->round > PLAIT_ROUND_HOP)
        return plait_fail(
            PLAIT_ERR_ARG,
            "%s: call->round is %d, which is no enum plait_round; use PLAIT_ROUND_ONCE or PLAIT_ROUND_HOP", name,
            (int)call->round);
    if (!(call->deadline >= 0))
        return plait_fail(PLAIT_ERR_ARG,
                          "%s: call->deadline is %g, which is no time in seconds; 0 stands for the comm's", name,
                          call->deadline);
    if (call->algorithm != NULL && strlen(call->algorithm) >= PLAIT_MAX_SPEC)
        return plait_fail(PLAIT_ERR_ARG, "%s: call->algorithm '%.80s' is longer than %d characters", name,
                          call->algorithm, PLAIT_MAX_SPEC - 1);
    if (plait_check_flag(name, "call->reproducible", call->reproducible) != PLAIT_OK)
        return PLAIT_ERR_ARG;
    if (call->persistent && call->request == NULL)
        return plait_fail(PLAIT_ERR_ARG, "%s: call->persistent is 1, but call->request is NULL; it gets what to start",
                          name);
    return PLAIT_OK;
}

enum plait_status plait_check_op(const char *name, enum plait_op op, const struct plait_call *call)
{
    const struct plait_user_op *user = call->user;

    if (op == PLAIT_PREMULSUM && call->scale == NULL)
        return plait_fail(PLAIT_ERR_ARG,
                          "%s: op is premulsum, but call->scale is NULL; it points to this rank's scalar", name);
    if (op != PLAIT_PREMULSUM && call->scale != NULL)
        return plait_fail(PLAIT_ERR_ARG,
                          "%s: call->scale is %p, but op is %s, which does not scale; use premulsum or NULL", name,
                          call->scale, plait_op_name(op));
    if ((unsigned)call->scale_when > PLAIT_SCALE_LATE)
        return plait_fail(
            PLAIT_ERR_ARG,
            "%s: call->scale_when is %d, which is no enum plait_scale_when; use PLAIT_SCALE_NOW or PLAIT_SCALE_LATE",
            name, (int)call->scale_when);
    if (op == PLAIT_USER && user == NULL)
        return plait_fail(PLAIT_ERR_ARG, "%s: op is user, but call->user is NULL; it points to the function", name);
    if (op != PLAIT_USER && user != NULL)
        return plait_fail(PLAIT_ERR_ARG,
                          "%s: call->user is %p, but op is %s, which does not call it; use op user or NULL", name,
                          (const void *)user, plait_op_name(op));
    if (user != NULL && user->size != sizeof *user)
        return plait_fail(PLAIT_ERR_ARG,
                          "%s: call->user->size is %zu, not %zu; set it to sizeof (struct plait_user_op)", name,
                          user->size, sizeof *user);
    if (user != NULL && user->combine == NULL)
        return plait_fail(PLAIT_ERR_ARG, "%s: call->user->combine is NULL; it is the function that combines", name);
    return PLAIT_OK;
}

enum plait_status plait_check_operation(const struct plait_kernels *kernels, const char *name, uint32_t nrank,
                                        const struct plait_args *a, const struct plait_call *call)
{
    enum plait_status status = plait_check_type(name, a->type);

    if (status == PLAIT_OK)
        status = check_kernel(kernels, name, a->coll, a->type, a->op);
    if (status == PLAIT_OK)
        status = check_count(a->coll, nrank, a->count, plait_dtype_size(a->type));
    if (status == PLAIT_OK && call != NULL)
        status = plait_check_call(name, call);
    if (status == PLAIT_OK)
        status = plait_check_op(name, a->op, call != NULL ? call : &plait_no_wishes);
    if (status == PLAIT_OK && a->root >= nrank)
        status = plait_fail(PLAIT_ERR_ARG, "%s: root is %u, but the comm has %u ranks", name, a->root, nrank);
    return status;
}
