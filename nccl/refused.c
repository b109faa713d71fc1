/* SPDX-License-Identifier: BSD-3-Clause */
/* Unsupported functions: each reports it once. */
#include "device.h"
#include "error.h"
#include "names.h"

#include <string.h>

/* The reason is in the name's row of the table. */
static ncclResult_t refuse(const char *call)
{
    static const char *const rows[][2] = {
#define NCCL_X(name, support, text) { "nccl" #name, text },
        NCCL_NAME_LIST(NCCL_X)
#undef NCCL_X
    };
    size_t i = 0;

    while (strcmp(rows[i][0], call) != 0)
        i++;
    return nccl_refuse(call, rows[i][1]);
}

ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId *uniqueId)
{
    (void)comm;
    (void)uniqueId;
    return refuse("ncclCommGetUniqueId");
}

ncclResult_t ncclCommGrow(ncclComm_t comm, int nRanks, const ncclUniqueId *uniqueId, int rank, ncclComm_t *newcomm,
                          ncclConfig_t *config)
{
    (void)comm;
    (void)nRanks;
    (void)uniqueId;
    (void)rank;
    (void)newcomm;
    (void)config;
    return refuse("ncclCommGrow");
}

/* NONE is fine: it asks for nothing. */
ncclResult_t ncclSetEncryption(const ncclEncryptionConfig_t *config)
{
    if (config != NULL && config->size >= offsetof(ncclEncryptionConfig_t, psk) && config->magic == NCCL_API_MAGIC &&
        config->mode == NCCL_ENCRYPTION_MODE_NONE)
        return ncclSuccess;
    return refuse("ncclSetEncryption");
}

ncclResult_t ncclPutSignal(const void *localbuff, size_t count, ncclDataType_t datatype, int peer, ncclWindow_t peerWin,
                           size_t peerWinOffset, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
                           cudaStream_t stream)
{
    (void)localbuff;
    (void)count;
    (void)datatype;
    (void)peer;
    (void)peerWin;
    (void)peerWinOffset;
    (void)sigIdx;
    (void)ctx;
    (void)flags;
    (void)comm;
    (void)stream;
    return refuse("ncclPutSignal");
}

ncclResult_t ncclSignal(int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm, cudaStream_t stream)
{
    (void)peer;
    (void)sigIdx;
    (void)ctx;
    (void)flags;
    (void)comm;
    (void)stream;
    return refuse("ncclSignal");
}

ncclResult_t ncclWaitSignal(int nDesc, ncclWaitSignalDesc_t *signalDescs, ncclComm_t comm, cudaStream_t stream)
{
    (void)nDesc;
    (void)signalDescs;
    (void)comm;
    (void)stream;
    return refuse("ncclWaitSignal");
}

int ncclLLA2ACalcSlots(int maxElts, int maxEltSize)
{
    (void)maxElts;
    (void)maxEltSize;
    refuse("ncclLLA2ACalcSlots");
    return 0;
}

NCCL_TWIN(CommGetUniqueId);
NCCL_TWIN(CommGrow);
NCCL_TWIN(SetEncryption);
NCCL_TWIN(PutSignal);
NCCL_TWIN(Signal);
NCCL_TWIN(WaitSignal);
NCCL_TWIN(LLA2ACalcSlots);

/*
 * Callers declare these with types of the device API. No argument is used, so none is declared here: in the C calling
 * convention the caller puts arguments in place and removes them.
 */
#define REFUSED(name)                          \
    NCCL_PUBLIC ncclResult_t nccl##name(void); \
    ncclResult_t nccl##name(void)              \
    {                                          \
        return refuse("nccl" #name);           \
    }                                          \
    NCCL_TWIN(name)
REFUSED(DevCommCreate);
REFUSED(DevCommDestroy);
REFUSED(GetLsaDevicePointer);
REFUSED(GetLsaMultimemDevicePointer);
REFUSED(GetMultimemDevicePointer);
REFUSED(GetPeerDevicePointer);
REFUSED(GetCftDeviceLeInfo);
REFUSED(GetMultimemDeviceLeInfo);
REFUSED(GetPeerDeviceLeInfo);
REFUSED(GinBarrierCreateRequirement);
REFUSED(GinInboxA2ACreateRequirement);
REFUSED(GinOutboxCreateRequirement);
REFUSED(LsaBarrierCreateRequirement);
REFUSED(LLA2ACreateRequirement);
#undef REFUSED
