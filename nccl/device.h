/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host side of NCCL's device API. Kernels cannot be served by another library than NVIDIA's, since they read its
 * structs. Questions about ranks are answered here, the rest is refused.
 */
#ifndef PLAIT_NCCL_DEVICE_H
#define PLAIT_NCCL_DEVICE_H

#include "nccl.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    NCCL_GIN_CONNECTION_NONE,
    NCCL_GIN_CONNECTION_FULL,
    NCCL_GIN_CONNECTION_RAIL,
    NCCL_GIN_CONNECTION_CUSTOM_STRIDE
} ncclGinConnectionType_t;

typedef enum {
    NCCL_GIN_TYPE_NONE = 0,
    NCCL_GIN_TYPE_PROXY = 2,
    NCCL_GIN_TYPE_GDAKI = 3,
    NCCL_GIN_TYPE_GPI = 4,
    NCCL_GIN_TYPE_EFA_GDA = 5,
    NCCL_GIN_MAX_TYPES = 6
} ncclGinType_t;

typedef enum { NCCL_CFT_TEAM_FLAT, NCCL_CFT_TEAM_HIER_MULTIMEM, NCCL_CFT_TEAM_HIER_LSA } ncclCftTeamMode_t;

/* Ranks of a comm `stride` apart, of which this rank is number `rank`. */
typedef struct ncclTeam {
    int nRanks, rank, stride;
} ncclTeam_t;

/* Versioned by `size`, like ncclConfig_t. */
typedef struct ncclCommProperties {
    size_t size;
    unsigned int magic;
    unsigned int version;
    int rank;
    int nRanks;
    int cudaDev;
    int nvmlDev;
    bool deviceApiSupport;
    bool multimemSupport;
    ncclGinType_t ginType;
    int nLsaTeams;
    bool hostRmaSupport;
    ncclGinType_t railedGinType;
    uint64_t commHash;
    int ginMinStride;
    ncclGinConnectionType_t ginConnectionType;
    bool ginSupport[64];
    size_t devCommRuntimeVersionSize;
    bool cftSupport;
    bool cftMulticastSupport;
    bool cftCountedSupport;
} ncclCommProperties_t;

NCCL_PUBLIC ncclResult_t ncclCommQueryProperties(ncclComm_t comm, ncclCommProperties_t *props);
NCCL_PUBLIC ncclTeam_t ncclTeamWorld(ncclComm_t comm);
NCCL_PUBLIC ncclTeam_t ncclTeamLsa(ncclComm_t comm);
NCCL_PUBLIC ncclTeam_t ncclTeamRail(ncclComm_t comm);
NCCL_PUBLIC ncclTeam_t ncclTeamCft(ncclComm_t comm, ncclCftTeamMode_t mode);
NCCL_PUBLIC ncclTeam_t ncclTeamCftMultimem(ncclComm_t comm);
NCCL_PUBLIC int ncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank);
NCCL_PUBLIC int ncclTeamRankToLsa(ncclComm_t comm, ncclTeam_t team, int rank);
NCCL_PUBLIC int ncclLLA2ACalcSlots(int maxElts, int maxEltSize);

#ifdef __cplusplus
}
#endif
#endif
