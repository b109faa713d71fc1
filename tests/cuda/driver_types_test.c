/* SPDX-License-Identifier: BSD-3-Clause */
/* driver_types.h against the toolkit's cuda.h: compiling it is the test. */
#include <cuda.h>

#include "driver_types.h"

#include <stddef.h>

#define PLAIT_X(name, value) _Static_assert((int)CUDA_ERROR_##name == (value), "CUDA_ERROR_" #name);
DRIVER_ERROR_LIST(PLAIT_X)
#undef PLAIT_X
#define PLAIT_X(name, value) _Static_assert((int)CU_##name == (value), "CU_" #name);
DRIVER_VALUE_LIST(PLAIT_X)
#undef PLAIT_X
_Static_assert(sizeof(cu_ipc_handle) == sizeof(CUipcMemHandle), "a handle");
_Static_assert(sizeof(cu_address) == sizeof(CUdeviceptr), "an address");
_Static_assert(sizeof(cu_mem_op) == sizeof(CUstreamBatchMemOpParams), "an item of a batch");
#define SAME(member, waits) \
    _Static_assert(offsetof(cu_mem_op, item.member) == offsetof(CUstreamBatchMemOpParams, waits), #member);
SAME(address, waitValue.address)
SAME(value, waitValue.value64)
SAME(flags, waitValue.flags)
SAME(address, writeValue.address)
SAME(value, writeValue.value64)
SAME(flags, writeValue.flags)
_Static_assert(sizeof(cu_node_params) == sizeof(CUgraphNodeParams), "a node");
#define SAME_NODE(member, theirs) \
    _Static_assert(offsetof(cu_node_params, of.conditional.member) == offsetof(CUgraphNodeParams, theirs), #member);
SAME_NODE(handle, conditional.handle)
SAME_NODE(type, conditional.type)
SAME_NODE(size, conditional.size)
SAME_NODE(graphs, conditional.phGraph_out)
SAME_NODE(context, conditional.ctx)

int main(void)
{
    return 0;
}
