/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This process's rank, and the rendezvous of the ranks, from the launcher's environment variables.
 *
 *     struct plait_launch launch;
 *     struct plait_comm_options o = PLAIT_COMM_OPTIONS_DEFAULT;
 *     plait_launch_find(&launch);
 *     o.rank = launch.rank; o.nrank = launch.nrank; o.id = &launch.id;
 *     plait_comm_create(&o, &comm);
 *
 *     torchrun --nnodes 2 --nproc-per-node 4 --rdzv-endpoint node0 ... --no-python ./program
 *     srun -n 8 ./program
 *     mpirun -H node0:4,node1:4 ./program
 *
 * mpirun passes an id around, secret included (PMIx). Other launchers pass no secret, so over several hosts it comes
 * from PLAIT_SECRET (16 to 79 characters, the same on all hosts) or from ~/.plait-secret, a file of mode 0600 that
 * `plait-info --make-secret` writes. Without either the ranks connect unprotected, with one warning;
 * PLAIT_REQUIRE_SECRET=1 makes that an error.
 */
#ifndef PLAIT_LAUNCH_H
#define PLAIT_LAUNCH_H

#include <plait/comm.h>

#ifdef __cplusplus
extern "C" {
#endif

struct plait_launch {
    char launcher[16]; /* "torchrun", "openmpi", "mpich", "slurm"; "none": this is the only rank */
    uint32_t rank;     /* of all */
    uint32_t nrank;
    uint32_t local_rank;       /* among the ranks on this host, as the launcher counts; */
    uint32_t local_nrank;      /* 0: the launcher does not say */
    struct plait_unique_id id; /* the bytes may differ between ranks: each has the addresses of rank 0 that it knows */
};

/**
 * Read the environment. PLAIT_LAUNCHER selects the launcher whose variables count. Else the first of these whose
 * variables name more than one rank: torchrun (RANK, WORLD_SIZE), Open MPI (OMPI_COMM_WORLD_RANK), MPICH and Intel MPI
 * (MPI_LOCALNRANKS, PMI_RANK), Slurm (SLURM_PROCID, SLURM_STEP_ID).
 *
 * MASTER_ADDR, which torchrun sets, names rank 0's host; without it Slurm's list of nodes does. With MASTER_PORT rank 0
 * listens at the first free one of the 8 ports after it (the port itself is torchrun's own). Without it, and under
 * mpirun, which hands the variable on only when told to, rank 0 listens at one of PLAIT_PORTS. With PMIx (mpirun, srun
 * --mpi=pmix) and the plug-in for it, rank 0 makes an id that PMIx takes to the others, whatever MASTER_ADDR is: they
 * wait for it, PLAIT_TIMEOUT at most. Every rank must call this the same number of times. The same holds for MPICH's
 * PMI; there rank 0 also waits for the others. A host name that has no address yet, as of a container that starts, is
 * looked up again for as long. If all ranks are on one host they meet there, without a port and without a secret.
 *
 * Jobs are told apart by every name that the environment has for them: TORCHELASTIC_RUN_ID, SLURM_JOB_ID, PBS_JOBID,
 * LSB_JOBID and others, whichever launcher counts. Without TORCHELASTIC_RUN_ID, torchrun's variables alone do not
 * identify a job. So on each host a rank is good for one process at a time: a second one fails with PLAIT_ERR_MISMATCH.
 * A comm that is younger than PLAIT_TIMEOUT fails, too, as it may have ranks of both jobs; an older one goes on.
 *
 * out     written only on success. The id is good for one comm at a time; comms made of that comm have their own
 * Thread: any, while none changes the environment
 * Errors: PLAIT_ERR_CONFIG (a variable that is missing or wrong, as RANK where WORLD_SIZE is 2; a host name that has no
 *         address; a secret that others may read, or none with PLAIT_REQUIRE_SECRET=1; an unsupported launcher, as
 *         Flux), PLAIT_ERR_UNSUPPORTED (several hosts, and this build has no libsodium),
 *         PLAIT_ERR_SYSTEM (PMIx or PMI fails)
 */
PLAIT_API enum plait_status plait_launch_find(struct plait_launch *out);

/**
 * Give all ranks an id over TCP that rank 0 makes, by the caller's own means: MPI, a key-value store, a file. The bytes
 * are secret: anyone who reads them on their way may join.
 *
 * allgather  all[r * bytes ..] = rank r's `mine`, on every rank; any status but PLAIT_OK ends the call with that
 *            status. Called once
 * context    passed to allgather
 * out        equal on all ranks, for one comm of these ranks
 * Order:  collective; an error on rank 0 is every rank's error
 * Thread: any, while none changes the environment
 * Errors: as plait_unique_id_create_tcp(), and what allgather returns
 */
PLAIT_API enum plait_status plait_unique_id_exchange(uint32_t rank, uint32_t nrank,
                                                     enum plait_status (*allgather)(void *context, const void *mine,
                                                                                    size_t bytes, void *all),
                                                     void *context, struct plait_unique_id *out);

#ifdef __cplusplus
}
#endif
#endif
