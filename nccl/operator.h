/* SPDX-License-Identifier: BSD-3-Clause */
/* Operators that ncclRedOpCreatePreMulSum() made. */
#ifndef PLAIT_NCCL_OPERATOR_H
#define PLAIT_NCCL_OPERATOR_H

#include "comm.h"

/* What an ncclRedOp_t of a comm says to the library. */
struct nccl_scale {
    enum plait_op op;
    enum plait_scale_when when;
    const void *late;                    /* PLAIT_SCALE_LATE: where the scalar will be */
    _Alignas(8) unsigned char scalar[8]; /* else: its bytes */
};

/* op and type: a built-in one, or one of this comm's for this type. */
ncclResult_t nccl_operator_find(struct ncclComm *comm, ncclRedOp_t op, ncclDataType_t type, const char *call,
                                struct nccl_scale *out);

/* The comm is gone. */
void nccl_operators_free(struct ncclComm *comm);

#endif
