/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every function that NCCL 2.32.3 exports, and how this library serves it. This is the only list: plait-info --nccl and
 * docs/nccl.md show it, and tests compare it with the exports.
 */
#ifndef PLAIT_NCCL_NAMES_H
#define PLAIT_NCCL_NAMES_H

enum nccl_support {
    NCCL_REAL,     /* does what NCCL's function does */
    NCCL_EMULATED, /* succeeds, but its effect is not needed here or does not exist */
    NCCL_REFUSED   /* ncclInvalidUsage, and one line in the log */
};

/* name after "nccl", enum nccl_support without "NCCL_", how */
#define NCCL_NAME_LIST(X)                                                                                           \
    X(GetVersion, REAL, "PLAIT_NCCL_VERSION")                                                                       \
    X(GetUniqueId, REAL, "plait_unique_id_create_tcp(): rank 0 must be on the host that made it")                   \
    X(CommInitRank, REAL, "plait_comm_create()")                                                                    \
    X(CommInitRankConfig, REAL, "the same; blocking and commName are honoured")                                     \
    X(CommInitRankScalable, REAL, "the first id is used")                                                           \
    X(CommInitAll, REAL, "all ranks are this thread's; several may name one device")                                \
    X(CommSplit, REAL, "plait_comm_split(); of a revoked comm too")                                                 \
    X(CommShrink, REAL, "plait_comm_shrink()")                                                                      \
    X(CommFinalize, REAL, "plait_comm_finalize()")                                                                  \
    X(CommDestroy, REAL, "plait_comm_destroy()")                                                                    \
    X(CommAbort, REAL, "plait_comm_abort() and plait_comm_destroy(); all ranks are told")                           \
    X(CommRevoke, REAL, "plait_comm_revoke()")                                                                      \
    X(CommSuspend, REAL, "plait_comm_suspend()")                                                                    \
    X(CommResume, REAL, "plait_comm_resume()")                                                                      \
    X(CommMemStats, REAL, "plait_comm_memory()")                                                                    \
    X(CommGetAsyncError, REAL, "plait_comm_status()")                                                               \
    X(CommCount, REAL, "plait_comm_nrank()")                                                                        \
    X(CommUserRank, REAL, "plait_comm_rank()")                                                                      \
    X(CommCuDevice, REAL, "the GPU that was the current one, or what ncclCommInitAll() was given; without CUDA 0")  \
    X(CommQueryProperties, REAL, "rank and number of ranks; no device API, no one-sided operations")                \
    X(CommGetUniqueId, REFUSED, "comms do not grow")                                                                \
    X(CommGrow, REFUSED, "comms do not grow; make a new one")                                                       \
    X(GetErrorString, REAL, "")                                                                                     \
    X(GetLastError, REAL, "of the comm, else of the thread, else of the process")                                   \
    X(ResetDebugInit, REAL, "NCCL_DEBUG and its like are read again")                                               \
    X(ResetDebugInitInternal, REAL, "the same")                                                                     \
    X(MemAlloc, REAL, "plait_mem_alloc_on() the current GPU; without CUDA plait_mem_alloc()")                       \
    X(MemFree, REAL, "plait_mem_free()")                                                                            \
    X(CommRegister, EMULATED, "a handle; memory needs no registration")                                             \
    X(CommDeregister, EMULATED, "releases it")                                                                      \
    X(CommWindowRegister, EMULATED, "success and a NULL window, as NCCL where windows are not supported")           \
    X(CommWindowDeregister, EMULATED, "of a NULL window")                                                           \
    X(WinGetUserPtr, EMULATED, "NULL, of a NULL window")                                                            \
    X(RedOpCreatePreMulSum, REAL, "PLAIT_PREMULSUM; ncclScalarDevice: PLAIT_SCALE_LATE")                            \
    X(RedOpDestroy, REAL, "")                                                                                       \
    X(AllReduce, REAL, "plait_allreduce(); many in a group are fused")                                              \
    X(Broadcast, REAL, "plait_broadcast()")                                                                         \
    X(Bcast, REAL, "the same, in place")                                                                            \
    X(Reduce, REAL, "plait_reduce()")                                                                               \
    X(ReduceScatter, REAL, "plait_reduce_scatter()")                                                                \
    X(AllGather, REAL, "plait_allgather()")                                                                         \
    X(AlltoAll, REAL, "plait_alltoall()")                                                                           \
    X(Gather, REAL, "plait_gather()")                                                                               \
    X(Scatter, REAL, "plait_scatter()")                                                                             \
    X(AllReduceConfig, REAL, "with options of the call: algSelection is an algorithm of plait-info --algorithms")   \
    X(BroadcastConfig, REAL, "the same")                                                                            \
    X(ReduceConfig, REAL, "the same")                                                                               \
    X(ReduceScatterConfig, REAL, "the same")                                                                        \
    X(AllGatherConfig, REAL, "the same")                                                                            \
    X(AlltoAllConfig, REAL, "the same")                                                                             \
    X(GatherConfig, REAL, "the same")                                                                               \
    X(ScatterConfig, REAL, "the same")                                                                              \
    X(Send, REAL, "plait_send()")                                                                                   \
    X(Recv, REAL, "plait_recv()")                                                                                   \
    X(GroupStart, REAL, "")                                                                                         \
    X(GroupEnd, REAL, "")                                                                                           \
    X(GroupSimulateEnd, REAL, "starts nothing; the time is NCCL_UNDEF_FLOAT")                                       \
    X(ParamBind, REAL, "keys are the NCCL_ names that are honoured and Plait's settings")                           \
    X(ParamGet, REAL, "")                                                                                           \
    X(ParamGetI8, REAL, "")                                                                                         \
    X(ParamGetI16, REAL, "")                                                                                        \
    X(ParamGetI32, REAL, "")                                                                                        \
    X(ParamGetI64, REAL, "")                                                                                        \
    X(ParamGetU8, REAL, "")                                                                                         \
    X(ParamGetU16, REAL, "")                                                                                        \
    X(ParamGetU32, REAL, "")                                                                                        \
    X(ParamGetU64, REAL, "")                                                                                        \
    X(ParamGetStr, REAL, "")                                                                                        \
    X(ParamGetParameter, REAL, "")                                                                                  \
    X(ParamGetAllParameterKeys, REAL, "")                                                                           \
    X(ParamDumpAll, REAL, "into the log")                                                                           \
    X(SetEncryption, REFUSED, "comms over TCP have a secret in their id, but are not encrypted (docs/security.md)") \
    X(PutSignal, REFUSED, "no one-sided operations")                                                                \
    X(Signal, REFUSED, "no one-sided operations")                                                                   \
    X(WaitSignal, REFUSED, "no one-sided operations")                                                               \
    X(TeamWorld, REAL, "all ranks of the comm")                                                                     \
    X(TeamLsa, EMULATED, "this rank alone: there are no windows to reach others by")                                \
    X(TeamRail, EMULATED, "all ranks of the comm")                                                                  \
    X(TeamCft, EMULATED, "this rank alone")                                                                         \
    X(TeamCftMultimem, EMULATED, "no rank")                                                                         \
    X(TeamRankToWorld, REAL, "")                                                                                    \
    X(TeamRankToLsa, EMULATED, "counts from this rank")                                                             \
    X(DevCommCreate, REFUSED, "no device API")                                                                      \
    X(DevCommDestroy, REFUSED, "no device API")                                                                     \
    X(GetLsaDevicePointer, REFUSED, "no device API")                                                                \
    X(GetLsaMultimemDevicePointer, REFUSED, "no device API")                                                        \
    X(GetMultimemDevicePointer, REFUSED, "no device API")                                                           \
    X(GetPeerDevicePointer, REFUSED, "no device API")                                                               \
    X(GetCftDeviceLeInfo, REFUSED, "no device API")                                                                 \
    X(GetMultimemDeviceLeInfo, REFUSED, "no device API")                                                            \
    X(GetPeerDeviceLeInfo, REFUSED, "no device API")                                                                \
    X(GinBarrierCreateRequirement, REFUSED, "no device API")                                                        \
    X(GinInboxA2ACreateRequirement, REFUSED, "no device API")                                                       \
    X(GinOutboxCreateRequirement, REFUSED, "no device API")                                                         \
    X(LsaBarrierCreateRequirement, REFUSED, "no device API")                                                        \
    X(LLA2ACalcSlots, REFUSED, "no device API: 0")                                                                  \
    X(LLA2ACreateRequirement, REFUSED, "no device API")

#endif
