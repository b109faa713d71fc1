/* SPDX-License-Identifier: BSD-3-Clause */
#include "rank_variables.h"

#define RANK_IS_SIGN(variable) .sign = variable, .rank = variable

const struct plait_rank_variables plait_rank_variables[PLAIT_NLAUNCHER] = {
    [PLAIT_TORCHRUN] = { "torchrun", RANK_IS_SIGN("RANK"), .nrank = "WORLD_SIZE", .names = { "TORCHELASTIC_RUN_ID" } },
    [PLAIT_OPENMPI] = { "openmpi", RANK_IS_SIGN("OMPI_COMM_WORLD_RANK"), .nrank = "OMPI_COMM_WORLD_SIZE",
                        .names = { "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid" } },
    [PLAIT_SLURM] = { "slurm", .sign = "SLURM_STEP_ID", /* a batch script has the other variables, too */
                      .rank = "SLURM_PROCID", .nrank = "SLURM_NTASKS", .names = { "SLURM_STEP_ID" } },
    [PLAIT_FOREIGN] = { "Flux", RANK_IS_SIGN("FLUX_TASK_RANK"), .nrank = "FLUX_JOB_SIZE", .names = { "FLUX_JOB_ID" } },
    { "jsrun", RANK_IS_SIGN("JSM_NAMESPACE_RANK"), .nrank = "JSM_NAMESPACE_SIZE" },
    { "MVAPICH", RANK_IS_SIGN("MV2_COMM_WORLD_RANK"), .nrank = "MV2_COMM_WORLD_SIZE" },
    { "Horovod", RANK_IS_SIGN("HOROVOD_RANK"), .nrank = "HOROVOD_SIZE" },
    { "MPICH, Intel MPI or PALS", RANK_IS_SIGN("PMI_RANK"), .nrank = "PMI_SIZE", .names = { "PALS_APID" } },
    { "MPICH or Intel MPI", RANK_IS_SIGN("MPI_LOCALRANKID"), .nrank = "MPI_LOCALNRANKS" },
    { "PALS", RANK_IS_SIGN("PALS_RANKID") },
    { "PMI 2", RANK_IS_SIGN("PMI_ID") },
    { "aprun", RANK_IS_SIGN("ALPS_APP_PE") },
    { "PMIx", RANK_IS_SIGN("PMIX_RANK") },
};
