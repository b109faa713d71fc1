/* SPDX-License-Identifier: BSD-3-Clause */
#include "operator.h"

#include "error.h"

#include <stdlib.h>
#include <string.h>

/* Operator i of a comm is ncclNumOps + i; numbers of destroyed operators are reused. */
struct nccl_operator {
    bool used;
    ncclDataType_t type;
    struct nccl_scale scale;
};

_Static_assert((int)PLAIT_SUM == (int)ncclSum && (int)PLAIT_PROD == (int)ncclProd && (int)PLAIT_MAX == (int)ncclMax &&
                   (int)PLAIT_MIN == (int)ncclMin && (int)PLAIT_AVG == (int)ncclAvg,
               "operators have NCCL's numbers");
_Static_assert((int)PLAIT_NDTYPE == (int)ncclNumTypes && (int)PLAIT_BFLOAT16 == (int)ncclBfloat16 &&
                   (int)PLAIT_FLOAT8E5M2 == (int)ncclFloat8e5m2,
               "types have NCCL's numbers");

void nccl_operators_free(struct ncclComm *c)
{
    free(c->operators);
    c->operators = NULL;
    c->noperator = 0;
}

/* The comm's lock is held. NULL: out of memory. */
static struct nccl_operator *find_room(struct ncclComm *c)
{
    uint32_t i = 0;

    while (i < c->noperator && c->operators[i].used)
        i++;
    if (i == c->noperator) {
        const uint32_t n = c->noperator > 0 ? 2 * c->noperator : 4;
        struct nccl_operator *more = realloc(c->operators, n * sizeof *more);
        if (more == NULL)
            return NULL;
        memset(more + c->noperator, 0, (n - c->noperator) * sizeof *more);
        c->operators = more;
        c->noperator = n;
    }
    return &c->operators[i];
}

static ncclResult_t create(struct ncclComm *c, const struct nccl_operator *new, ncclRedOp_t *out)
{
    ncclResult_t result = ncclSuccess;

    pthread_mutex_lock(&c->lock);
    struct nccl_operator *o = find_room(c);
    if (o != NULL) {
        *o = *new;
        *out = (ncclRedOp_t)((int)ncclNumOps + (int)(o - c->operators));
    } else {
        result = ncclSystemError;
    }
    pthread_mutex_unlock(&c->lock);
    return result == ncclSuccess ? result : nccl_fail(result, c, "ncclRedOpCreatePreMulSum: out of memory");
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t datatype,
                                      ncclScalarResidence_t residence, ncclComm_t comm)
{
    struct nccl_operator new = { true, datatype, { .op = PLAIT_PREMULSUM } };
    ncclResult_t result = nccl_enter_ready(comm, "ncclRedOpCreatePreMulSum");
    const size_t size = plait_dtype_size((enum plait_dtype)datatype);

    if (result != ncclSuccess)
        return result;
    if (op == NULL || scalar == NULL) {
        result =
            nccl_fail(ncclInvalidArgument, comm, "ncclRedOpCreatePreMulSum: %s is NULL", op == NULL ? "op" : "scalar");
    } else if (size == 0) {
        result = nccl_fail(ncclInvalidArgument, comm, "ncclRedOpCreatePreMulSum: datatype is %d, which is not a type",
                           (int)datatype);
    } else if (residence != ncclScalarDevice && residence != ncclScalarHostImmediate) {
        result = nccl_fail(ncclInvalidArgument, comm, "ncclRedOpCreatePreMulSum: residence is %d; it is 0 or 1",
                           (int)residence);
    } else {
        new.scale.when = residence == ncclScalarDevice ? PLAIT_SCALE_LATE : PLAIT_SCALE_NOW;
        new.scale.late = scalar;
        if (residence == ncclScalarHostImmediate)
            memcpy(new.scale.scalar, scalar, size);
        result = create(comm, &new, op);
    }
    nccl_leave(comm);
    return result;
}

/* The comm's lock is held. NULL: no such operator. */
static struct nccl_operator *find(struct ncclComm *c, ncclRedOp_t op)
{
    const uint32_t i = (uint32_t)op - (uint32_t)ncclNumOps;

    return i < c->noperator && c->operators[i].used ? &c->operators[i] : NULL;
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm)
{
    ncclResult_t result = nccl_enter(comm, "ncclRedOpDestroy");

    if (result != ncclSuccess)
        return result;
    pthread_mutex_lock(&comm->lock);
    struct nccl_operator *o = find(comm, op);
    if (o != NULL)
        o->used = false;
    pthread_mutex_unlock(&comm->lock);
    if (o == NULL)
        result = nccl_fail(ncclInvalidArgument, comm,
                           "ncclRedOpDestroy: %d is not an operator that was created with this comm", (int)op);
    nccl_leave(comm);
    return result;
}

ncclResult_t nccl_operator_find(struct ncclComm *c, ncclRedOp_t op, ncclDataType_t type, const char *call,
                                struct nccl_scale *out)
{
    ncclResult_t result = ncclSuccess;

    *out = (struct nccl_scale){ .op = (enum plait_op)op };
    if ((int)op >= 0 && (int)op < (int)ncclNumOps)
        return ncclSuccess;
    pthread_mutex_lock(&c->lock);
    const struct nccl_operator *o = find(c, op);
    const int made_for = o != NULL ? (int)o->type : -1;
    if (o != NULL && o->type == type)
        *out = o->scale;
    else
        result = ncclInvalidArgument;
    pthread_mutex_unlock(&c->lock);
    if (result == ncclSuccess)
        return result;
    if (made_for < 0)
        return nccl_fail(result, c, "%s: %d is not an operator that was created with this comm", call, (int)op);
    return nccl_fail(result, c, "%s: operator %d was created for %s, not for %s", call, (int)op,
                     plait_dtype_name((enum plait_dtype)made_for), plait_dtype_name((enum plait_dtype)type));
}

NCCL_TWIN(RedOpCreatePreMulSum);
NCCL_TWIN(RedOpDestroy);
