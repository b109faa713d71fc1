/* SPDX-License-Identifier: BSD-3-Clause */
/* Operators of ncclRedOpCreatePreMulSum(). */
#ifndef PLAIT_NCCL_OPERATOR_H
#define PLAIT_NCCL_OPERATOR_H

#include "comm.h"

/* An ncclRedOp_t of a comm in the library's terms. */
struct nccl_scale {
    enum plait_op op;
    enum plait_scale_when when;
    const void *late;                    /* PLAIT_SCALE_LATE: where the scalar will be */
    _Alignas(8) unsigned char scalar[8]; /* else: the scalar's bytes */
};

/* Find a built-in operator, or one of this comm for this type. */
ncclResult_t nccl_operator_find(struct ncclComm *comm, ncclRedOp_t op, ncclDataType_t type, const char *call,
                                struct nccl_scale *out);

/* Free the operators of a destroyed comm. */
void nccl_operators_free(struct ncclComm *comm);

#endif
