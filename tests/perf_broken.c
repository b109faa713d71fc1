/* SPDX-License-Identifier: BSD-3-Clause */
/* Loaded before libplait: an all-reduce that gets the last element wrong on rank 1. */
#include <plait/comm.h>

#include <dlfcn.h>
#include <string.h>

typedef enum plait_status (*allreduce_fn)(struct plait_comm *, const void *, void *, size_t, enum plait_dtype,
                                          enum plait_op, const struct plait_call *);

enum plait_status plait_allreduce(struct plait_comm *comm, const void *in, void *out, size_t count,
                                  enum plait_dtype type, enum plait_op op, const struct plait_call *call)
{
    void *symbol = dlsym(RTLD_NEXT, "plait_allreduce");
    allreduce_fn real;

    memcpy(&real, &symbol, sizeof real);
    const enum plait_status status = real(comm, in, out, count, type, op, call);
    if (status == PLAIT_OK && plait_comm_rank(comm) == 1)
        ((unsigned char *)out)[count * plait_dtype_size(type) - 1] ^= 1;
    return status;
}
