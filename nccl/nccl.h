/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The interface of NCCL 2.32.3 for C programs, declared independently. Names, numbers and layouts are NCCL's, which
 * tests/nccl/facts.py compares with facts from NVIDIA's headers; the text is not. A program compiled with NVIDIA's
 * nccl.h, of this release or an older one, also runs on this library. docs/nccl.md says what each function does here
 * and what it refuses; plait-info --nccl lists them.
 */
#ifndef PLAIT_NCCL_NCCL_H
#define PLAIT_NCCL_NCCL_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define NCCL_PUBLIC __attribute__((visibility("default")))
#else
#define NCCL_PUBLIC
#endif

#define NCCL_MAJOR            2
#define NCCL_MINOR            32
#define NCCL_PATCH            3
#define NCCL_SUFFIX           ""
#define NCCL_VERSION(X, Y, Z) (((X) <= 2 && (Y) <= 8) ? (X)*1000 + (Y)*100 + (Z) : (X)*10000 + (Y)*100 + (Z))
#define NCCL_VERSION_CODE     NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH)

/* CUDA's handles, which may be declared twice. */
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;

/* ---- Handles, results ---------------------------------------------------------------------------------- */

typedef struct ncclComm *ncclComm_t;
typedef struct ncclWindow_vidmem *ncclWindow_t;
typedef struct ncclParamHandle *ncclParamHandle_t;
#define NCCL_COMM_NULL NULL

#define NCCL_UNIQUE_ID_BYTES 128
typedef struct {
    char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId; /* passed by value */

typedef enum {
    ncclSuccess = 0,
    ncclUnhandledCudaError = 1,
    ncclSystemError = 2,
    ncclInternalError = 3,
    ncclInvalidArgument = 4, /* nothing happened, the comm is as it was; so with the next */
    ncclInvalidUsage = 5,
    ncclRemoteError = 6,
    ncclInProgress = 7, /* ask ncclCommGetAsyncError() */
    ncclTimeout = 8,    /* not in 2.28 */
    ncclNumResults = 9
} ncclResult_t;

#define NCCL_CONFIG_UNDEF_INT INT_MIN /* "the library chooses" */
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_UNDEF_FLOAT      (-1.0f)
#define NCCL_API_MAGIC        0xcafebeef /* in every struct with a size and a version */

/* ---- Comms ---------------------------------------------------------------------------------------------- */

#define NCCL_SPLIT_NOCOLOR  (-1)
#define NCCL_SHRINK_DEFAULT 0
#define NCCL_SHRINK_ABORT   1 /* stop what is in flight first */
#define NCCL_REVOKE_DEFAULT 0
#define NCCL_SUSPEND_MEM    1

#define NCCL_CTA_POLICY_DEFAULT    0
#define NCCL_CTA_POLICY_EFFICIENCY 1
#define NCCL_CTA_POLICY_ZERO       2

typedef enum {
    ncclHostCftDefault = NCCL_CONFIG_UNDEF_INT,
    ncclHostCftEnable = 1,
    ncclHostCftDisable = 2,
    ncclHostCftFallback = 3
} ncclHostCftMode_t;

typedef enum {
    ncclNvlsHostModeDefault = NCCL_CONFIG_UNDEF_INT,
    ncclNvlsHostModeEnable = 0,
    ncclNvlsHostModeDisableTransport = 1,
    ncclNvlsHostModeDisableSymmetricMultimem = 2,
    ncclNvlsHostModeDisable = INT_MAX
} ncclNvlsHostMode_t;

/* Grows at its end from release to release: only `size` bytes are there. */
typedef struct ncclConfig_v23100 {
    size_t size;
    unsigned int magic;
    unsigned int version;
    int blocking; /* 0: calls that make and end comms return at once */
    int cgaClusterSize;
    int minCTAs;
    int maxCTAs;
    const char *netName;
    int splitShare;
    int trafficClass;
    const char *commName;
    int collnetEnable;
    int CTAPolicy;
    int shrinkShare;
    int nvlsCTAs;
    int nChannelsPerNetPeer;
    int nvlinkCentricSched;
    int graphUsageMode;
    int numRmaCtx;
    int maxP2pPeers;
    int graphStreamOrdering;
    int launchOrderImplicit;
    int numRmaSig;
    int rmaEagerInit;
    int hostCftMode;
    int nvlsHostMode;
} ncclConfig_t;

#define NCCL_CONFIG_INITIALIZER                                                                                      \
    {                                                                                                                \
        sizeof(ncclConfig_t), NCCL_API_MAGIC, NCCL_VERSION_CODE, INT_MIN, INT_MIN, INT_MIN, INT_MIN, NULL, INT_MIN,  \
            INT_MIN, NULL, INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN, \
            INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN                                                              \
    }

NCCL_PUBLIC ncclResult_t ncclGetVersion(int *version);
NCCL_PUBLIC ncclResult_t ncclGetUniqueId(ncclUniqueId *uniqueId);
NCCL_PUBLIC ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank);
NCCL_PUBLIC ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank,
                                                ncclConfig_t *config);
NCCL_PUBLIC ncclResult_t ncclCommInitRankScalable(ncclComm_t *newcomm, int nranks, int myrank, int nId,
                                                  ncclUniqueId *commIds, ncclConfig_t *config);
NCCL_PUBLIC ncclResult_t ncclCommInitAll(ncclComm_t *comm, int ndev, const int *devlist);
NCCL_PUBLIC ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config);
NCCL_PUBLIC ncclResult_t ncclCommShrink(ncclComm_t comm, int *excludeRanksList, int excludeRanksCount,
                                        ncclComm_t *newcomm, ncclConfig_t *config, int shrinkFlags);
NCCL_PUBLIC ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId *uniqueId);
NCCL_PUBLIC ncclResult_t ncclCommGrow(ncclComm_t comm, int nRanks, const ncclUniqueId *uniqueId, int rank,
                                      ncclComm_t *newcomm, ncclConfig_t *config);
NCCL_PUBLIC ncclResult_t ncclCommFinalize(ncclComm_t comm);
NCCL_PUBLIC ncclResult_t ncclCommDestroy(ncclComm_t comm);
NCCL_PUBLIC ncclResult_t ncclCommAbort(ncclComm_t comm);
NCCL_PUBLIC ncclResult_t ncclCommRevoke(ncclComm_t comm, int revokeFlags);
NCCL_PUBLIC ncclResult_t ncclCommSuspend(ncclComm_t comm, int flags);
NCCL_PUBLIC ncclResult_t ncclCommResume(ncclComm_t comm);
NCCL_PUBLIC ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *asyncError);
NCCL_PUBLIC ncclResult_t ncclCommCount(const ncclComm_t comm, int *count);
NCCL_PUBLIC ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *device);
NCCL_PUBLIC ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank);
NCCL_PUBLIC const char *ncclGetErrorString(ncclResult_t result);
NCCL_PUBLIC const char *ncclGetLastError(ncclComm_t comm);
NCCL_PUBLIC void ncclResetDebugInit(void);
NCCL_PUBLIC void ncclResetDebugInitInternal(void);

/* ---- Memory --------------------------------------------------------------------------------------------- */

typedef enum {
    ncclStatGpuMemSuspend = 0,   /* bytes that ncclCommSuspend() gives back */
    ncclStatGpuMemSuspended = 1, /* 1: it has */
    ncclStatGpuMemPersist = 2,   /* bytes that stay */
    ncclStatGpuMemTotal = 3
} ncclCommMemStat_t;

#define NCCL_WIN_DEFAULT            0
#define NCCL_WIN_COLL_SYMMETRIC     1
#define NCCL_WIN_STRICT_ORDERING    2
#define NCCL_WIN_GIN_ONLY           4
#define NCCL_WIN_CFT_COUNTED        8
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096

NCCL_PUBLIC ncclResult_t ncclMemAlloc(void **ptr, size_t size);
NCCL_PUBLIC ncclResult_t ncclMemFree(void *ptr);
NCCL_PUBLIC ncclResult_t ncclCommRegister(const ncclComm_t comm, void *buff, size_t size, void **handle);
NCCL_PUBLIC ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle);
NCCL_PUBLIC ncclResult_t ncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t stat, uint64_t *value);
NCCL_PUBLIC ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *buff, size_t size, ncclWindow_t *win,
                                                int winFlags);
NCCL_PUBLIC ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win);
NCCL_PUBLIC ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t win, void **outUserPtr);

/* ---- Operators and types -------------------------------------------------------------------------------- */

typedef enum { ncclNumOps_dummy = 5 } ncclRedOp_dummy_t;
typedef enum {
    ncclSum = 0,
    ncclProd = 1,
    ncclMax = 2,
    ncclMin = 3,
    ncclAvg = 4,
    ncclNumOps = 5, /* those of ncclRedOpCreatePreMulSum() begin here */
    ncclMaxRedOp = INT_MAX
} ncclRedOp_t;

typedef enum {
    ncclInt8 = 0,
    ncclChar = 0,
    ncclUint8 = 1,
    ncclInt32 = 2,
    ncclInt = 2,
    ncclUint32 = 3,
    ncclInt64 = 4,
    ncclUint64 = 5,
    ncclFloat16 = 6,
    ncclHalf = 6,
    ncclFloat32 = 7,
    ncclFloat = 7,
    ncclFloat64 = 8,
    ncclDouble = 8,
    ncclBfloat16 = 9,
    ncclFloat8e4m3 = 10,
    ncclFloat8e5m2 = 11,
    ncclNumTypes = 12
} ncclDataType_t;

typedef enum {
    ncclScalarDevice = 0,       /* read while the operation runs */
    ncclScalarHostImmediate = 1 /* read when the operator is made */
} ncclScalarResidence_t;

NCCL_PUBLIC ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t datatype,
                                                  ncclScalarResidence_t residence, ncclComm_t comm);
NCCL_PUBLIC ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm);

/* ---- Collectives, messages ------------------------------------------------------------------------------- */

typedef struct ncclConfigExt {
    struct ncclConfigExt *next;
    struct {
        int vendorId;
        int optionId;
    } key;
    union {
        int i;
        const char *s;
        void *raw;
    } val;
} ncclConfigExt_t;

/* Options of one call. Grows as ncclConfig_t does. */
typedef struct ncclCollConfig_v23200 {
    size_t size;
    unsigned int magic;
    unsigned int version;
    ncclConfigExt_t *ext;
    int minCTAs;
    int maxCTAs;
    int nvlsCTAs;
    int cgaClusterSize;
    const char *algSelection; /* "torus:4x8": a name of plait-info --algorithms; or several, the first that can run */
    int forceAlgSelection;    /* 0: when none can, the library chooses */
    int CTAPolicy;
    uint64_t userProfilerTag;
    cudaEvent_t launchCompletionEvent;
} ncclCollConfig_t;

#define NCCL_COLLCONFIG_INITIALIZER                                                                                  \
    {                                                                                                                \
        sizeof(ncclCollConfig_t), NCCL_API_MAGIC, NCCL_VERSION_CODE, NULL, INT_MIN, INT_MIN, INT_MIN, INT_MIN, NULL, \
            1, INT_MIN, 0, NULL                                                                                      \
    }

NCCL_PUBLIC ncclResult_t ncclAllReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                                       ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
NCCL_PUBLIC ncclResult_t ncclAllReduceConfig(const void *sendbuff, void *recvbuff, size_t count,
                                             ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                             cudaStream_t stream, const ncclCollConfig_t *config);
NCCL_PUBLIC ncclResult_t ncclBcast(void *buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                                   cudaStream_t stream);
NCCL_PUBLIC ncclResult_t ncclBroadcast(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                                       int root, ncclComm_t comm, cudaStream_t stream);
NCCL_PUBLIC ncclResult_t ncclBroadcastConfig(const void *sendbuff, void *recvbuff, size_t count,
                                             ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream,
                                             const ncclCollConfig_t *config);
NCCL_PUBLIC ncclResult_t ncclReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                                    ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream);
NCCL_PUBLIC ncclResult_t ncclReduceConfig(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                                          ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream,
                                          const ncclCollConfig_t *config);
NCCL_PUBLIC ncclResult_t ncclReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount,
                                           ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                           cudaStream_t stream);
NCCL_PUBLIC ncclResult_t ncclReduceScatterConfig(const void *sendbuff, void *recvbuff, size_t recvcount,
                                                 ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                                 cudaStream_t stream, const ncclCollConfig_t *config);
NCCL_PUBLIC ncclResult_t ncclAllGather(const void *sendbuff, void *recvbuff, size_t sendcount, ncclDataType_t datatype,
                                       ncclComm_t comm, cudaStream_t stream);
NCCL_PUBLIC ncclResult_t ncclAllGatherConfig(const void *sendbuff, void *recvbuff, size_t sendcount,
                                             ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream,
                                             const ncclCollConfig_t *config);
NCCL_PUBLIC ncclResult_t ncclAlltoAll(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                                      ncclComm_t comm, cudaStream_t stream);
NCCL_PUBLIC ncclResult_t ncclAlltoAllConfig(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                                            ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config);
NCCL_PUBLIC ncclResult_t ncclGather(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                                    int root, ncclComm_t comm, cudaStream_t stream);
NCCL_PUBLIC ncclResult_t ncclGatherConfig(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                                          int root, ncclComm_t comm, cudaStream_t stream,
                                          const ncclCollConfig_t *config);
NCCL_PUBLIC ncclResult_t ncclScatter(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                                     int root, ncclComm_t comm, cudaStream_t stream);
NCCL_PUBLIC ncclResult_t ncclScatterConfig(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                                           int root, ncclComm_t comm, cudaStream_t stream,
                                           const ncclCollConfig_t *config);
NCCL_PUBLIC ncclResult_t ncclSend(const void *sendbuff, size_t count, ncclDataType_t datatype, int peer,
                                  ncclComm_t comm, cudaStream_t stream);
NCCL_PUBLIC ncclResult_t ncclRecv(void *recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                                  cudaStream_t stream);

/* ---- One-sided ------------------------------------------------------------------------------------------- */

typedef struct {
    int opCnt;
    int peer;
    int sigIdx;
    int ctx;
} ncclWaitSignalDesc_t;

NCCL_PUBLIC ncclResult_t ncclPutSignal(const void *localbuff, size_t count, ncclDataType_t datatype, int peer,
                                       ncclWindow_t peerWin, size_t peerWinOffset, int sigIdx, int ctx,
                                       unsigned int flags, ncclComm_t comm, cudaStream_t stream);
NCCL_PUBLIC ncclResult_t ncclSignal(int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
                                    cudaStream_t stream);
NCCL_PUBLIC ncclResult_t ncclWaitSignal(int nDesc, ncclWaitSignalDesc_t *signalDescs, ncclComm_t comm,
                                        cudaStream_t stream);

/* ---- Groups ---------------------------------------------------------------------------------------------- */

#define NCCL_SIM_INFO_MAGIC 0x74685283

typedef struct ncclSimInfo_v22200 {
    size_t size;
    unsigned int magic;
    unsigned int version;
    float estimatedTime; /* microseconds */
} ncclSimInfo_t;

#define NCCL_SIM_INFO_INITIALIZER                                                       \
    {                                                                                   \
        sizeof(ncclSimInfo_t), NCCL_SIM_INFO_MAGIC, NCCL_VERSION_CODE, NCCL_UNDEF_FLOAT \
    }

NCCL_PUBLIC ncclResult_t ncclGroupStart(void);
NCCL_PUBLIC ncclResult_t ncclGroupEnd(void);
NCCL_PUBLIC ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t *simInfo);

/* ---- Parameters ------------------------------------------------------------------------------------------ */

NCCL_PUBLIC ncclResult_t ncclParamBind(ncclParamHandle_t *out, const char *key);
NCCL_PUBLIC ncclResult_t ncclParamGetI8(ncclParamHandle_t h, int8_t *out);
NCCL_PUBLIC ncclResult_t ncclParamGetI16(ncclParamHandle_t h, int16_t *out);
NCCL_PUBLIC ncclResult_t ncclParamGetI32(ncclParamHandle_t h, int32_t *out);
NCCL_PUBLIC ncclResult_t ncclParamGetI64(ncclParamHandle_t h, int64_t *out);
NCCL_PUBLIC ncclResult_t ncclParamGetU8(ncclParamHandle_t h, uint8_t *out);
NCCL_PUBLIC ncclResult_t ncclParamGetU16(ncclParamHandle_t h, uint16_t *out);
NCCL_PUBLIC ncclResult_t ncclParamGetU32(ncclParamHandle_t h, uint32_t *out);
NCCL_PUBLIC ncclResult_t ncclParamGetU64(ncclParamHandle_t h, uint64_t *out);
NCCL_PUBLIC ncclResult_t ncclParamGetStr(ncclParamHandle_t h, const char **out);
NCCL_PUBLIC ncclResult_t ncclParamGet(ncclParamHandle_t h, void *out, int maxLen, int *len);
NCCL_PUBLIC ncclResult_t ncclParamGetParameter(const char *key, const char **value, int *valueLen);
NCCL_PUBLIC ncclResult_t ncclParamGetAllParameterKeys(const char ***table, int *tableLen);
NCCL_PUBLIC void ncclParamDumpAll(void);

/* ---- Encryption ------------------------------------------------------------------------------------------ */

typedef enum { NCCL_ENCRYPTION_MODE_NONE = 0, NCCL_ENCRYPTION_MODE_PSK = 1 } ncclEncryptionMode_t;

typedef struct ncclEncryptionConfig_v23200 {
    size_t size;
    unsigned int magic;
    unsigned int version;
    int mode;
    const char *psk;
} ncclEncryptionConfig_t;

#define NCCL_ENCRYPTION_CONFIG_INITIALIZER                                                                 \
    {                                                                                                      \
        sizeof(ncclEncryptionConfig_t), NCCL_API_MAGIC, NCCL_VERSION_CODE, NCCL_ENCRYPTION_MODE_NONE, NULL \
    }

NCCL_PUBLIC ncclResult_t ncclSetEncryption(const ncclEncryptionConfig_t *config);

/* Each once more: an interposer defines the one name and calls the other. */
#define NCCL_AGAIN(name) extern NCCL_PUBLIC __typeof__(nccl##name) pnccl##name
/* clang-format off */
NCCL_AGAIN(GetVersion); NCCL_AGAIN(GetUniqueId); NCCL_AGAIN(CommInitRank); NCCL_AGAIN(CommInitRankConfig);
NCCL_AGAIN(CommInitRankScalable); NCCL_AGAIN(CommInitAll); NCCL_AGAIN(CommSplit); NCCL_AGAIN(CommShrink);
NCCL_AGAIN(CommGetUniqueId); NCCL_AGAIN(CommGrow); NCCL_AGAIN(CommFinalize); NCCL_AGAIN(CommDestroy);
NCCL_AGAIN(CommAbort); NCCL_AGAIN(CommRevoke); NCCL_AGAIN(CommSuspend); NCCL_AGAIN(CommResume);
NCCL_AGAIN(CommGetAsyncError); NCCL_AGAIN(CommCount); NCCL_AGAIN(CommCuDevice); NCCL_AGAIN(CommUserRank);
NCCL_AGAIN(GetErrorString); NCCL_AGAIN(GetLastError); NCCL_AGAIN(ResetDebugInit); NCCL_AGAIN(MemAlloc);
NCCL_AGAIN(MemFree); NCCL_AGAIN(CommRegister); NCCL_AGAIN(CommDeregister); NCCL_AGAIN(CommMemStats);
NCCL_AGAIN(CommWindowRegister); NCCL_AGAIN(CommWindowDeregister); NCCL_AGAIN(WinGetUserPtr);
NCCL_AGAIN(RedOpCreatePreMulSum); NCCL_AGAIN(RedOpDestroy); NCCL_AGAIN(AllReduce); NCCL_AGAIN(AllReduceConfig);
NCCL_AGAIN(Bcast); NCCL_AGAIN(Broadcast); NCCL_AGAIN(BroadcastConfig); NCCL_AGAIN(Reduce);
NCCL_AGAIN(ReduceConfig); NCCL_AGAIN(ReduceScatter); NCCL_AGAIN(ReduceScatterConfig); NCCL_AGAIN(AllGather);
NCCL_AGAIN(AllGatherConfig); NCCL_AGAIN(AlltoAll); NCCL_AGAIN(AlltoAllConfig); NCCL_AGAIN(Gather);
NCCL_AGAIN(GatherConfig); NCCL_AGAIN(Scatter); NCCL_AGAIN(ScatterConfig); NCCL_AGAIN(Send); NCCL_AGAIN(Recv);
NCCL_AGAIN(PutSignal); NCCL_AGAIN(Signal); NCCL_AGAIN(WaitSignal); NCCL_AGAIN(GroupStart); NCCL_AGAIN(GroupEnd);
NCCL_AGAIN(GroupSimulateEnd); NCCL_AGAIN(ParamBind); NCCL_AGAIN(ParamGetI8); NCCL_AGAIN(ParamGetI16);
NCCL_AGAIN(ParamGetI32); NCCL_AGAIN(ParamGetI64); NCCL_AGAIN(ParamGetU8); NCCL_AGAIN(ParamGetU16);
NCCL_AGAIN(ParamGetU32); NCCL_AGAIN(ParamGetU64); NCCL_AGAIN(ParamGetStr); NCCL_AGAIN(ParamGet);
NCCL_AGAIN(ParamGetParameter); NCCL_AGAIN(ParamGetAllParameterKeys); NCCL_AGAIN(ParamDumpAll);
NCCL_AGAIN(SetEncryption);
/* clang-format on */
#undef NCCL_AGAIN

#ifdef __cplusplus
}
#endif
#endif
