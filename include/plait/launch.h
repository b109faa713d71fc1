/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which rank this process is, and where the ranks meet, as its launcher has told it in the environment.
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
 * `plait-info --make-secret` writes. Without either the ranks meet unprotected, which one warning says;
 * PLAIT_REQUIRE_SECRET=1 makes that an error.
 */
#ifndef PLAIT_LAUNCH_H
#define PLAIT_LAUNCH_H

#include <plait/comm.h>

#ifdef __cplusplus
extern "C" {
#endif

struct plait_launch {
    char launcher[16]; /* "torchrun", "slurm", "openmpi"; "none": this is the only rank */
    uint32_t rank;     /* of all */
    uint32_t nrank;
    uint32_t local_rank;       /* of those on this host, as the launcher counts; */
    uint32_t local_nrank;      /* 0: it does not say */
    struct plait_unique_id id; /* the ranks' bytes may differ: each has the addresses that it knows of rank 0 */
};

/**
 * Look at the environment. PLAIT_LAUNCHER says which launcher's variables count; else those that are there: torchrun's
 * (RANK, WORLD_SIZE), Open MPI's (OMPI_COMM_WORLD_RANK), Slurm's (SLURM_PROCID, SLURM_STEP_ID), in this order; the first that
 * speaks of more than one rank.
 *
 * MASTER_ADDR, which torchrun sets, names rank 0's host; without it Slurm's list of nodes does. With MASTER_PORT rank 0
 * listens at the first free one of the 8 ports after it (the port itself is torchrun's own); else, and under mpirun, which
 * hands the variable on only when told to, at one of PLAIT_PORTS. Where there is PMIx
 * (mpirun, srun --mpi=pmix) and the plug-in for it, rank 0 makes an id that PMIx takes to the others, whatever MASTER_ADDR is:
 * they wait for it, PLAIT_TIMEOUT at most, and all ranks call this equally often. A host name that has no address yet, as a
 * container's that starts, is asked for as long.
 * When all ranks are on one host they meet there, without a port and without a secret.
 *
 * Jobs are told apart by every name that the environment has of them: TORCHELASTIC_RUN_ID, SLURM_JOB_ID, PMIX_NAMESPACE,
 * PBS_JOBID, LSB_JOBID and others, whichever launcher counts. Where torchrun's variables come without a TORCHELASTIC_RUN_ID,
 * ranks of one host must have been started by one process, and each rank is good for one process at a time: else all ranks
 * that come fail with PLAIT_ERR_MISMATCH. So does a comm that lives when another process comes with one of its ranks, unless all of
 * its ranks are on one host and a process started them that did not start the other: then only the other fails. A wrapper of a rank
 * that started with a launcher's variables of it (RANK, SLURM_PROCID, OMPI_COMM_WORLD_RANK, PMI_RANK, PMIX_RANK and others) does not count as
 * who started it, and who started them is not compared where another launcher started exactly these ranks and names what it started
 * (SLURM_STEP_ID, PMIX_NAMESPACE and others). Ranks that are started one by one, in several terminals, need a TORCHELASTIC_RUN_ID.
 *
 * out     written only on success. The id is good for one comm at a time; comms made of it have their own
 * Thread: any, while none changes the environment
 * Errors: PLAIT_ERR_CONFIG (a variable that is missing or nonsense, as RANK where WORLD_SIZE is 2, a host name that has no address, a secret that others
 *         may read, or none where PLAIT_REQUIRE_SECRET is 1, a launcher that is not followed, as MPICH's
 *         PMI_RANK and PMI_SIZE), PLAIT_ERR_UNSUPPORTED (several hosts, and this build has no
 *         libsodium), PLAIT_ERR_SYSTEM (PMIx fails)
 */
PLAIT_API enum plait_status plait_launch_find(struct plait_launch *out);

/**
 * Give all ranks an id over TCP that rank 0 makes, by the caller's own means: MPI, a key-value store, a file. The bytes
 * are secret: whoever reads them on their way may join.
 *
 * allgather  all[r * bytes ..] = rank r's `mine`, on every rank; anything but PLAIT_OK ends the call with that status.
 *            Called once
 * context    handed on
 * out        equal on all ranks, for one comm of these ranks
 * Order:  collective; what fails on rank 0 is every rank's error
 * Thread: any, while none changes the environment
 * Errors: as plait_unique_id_create_tcp(), and what allgather returns
 */
PLAIT_API enum plait_status plait_unique_id_exchange(uint32_t rank, uint32_t nrank,
                                                     enum plait_status (*allgather)(void *context, const void *mine,
                                                                                    size_t bytes, void *all),
                                                     void *context, struct plait_unique_id *out);

/**
 * Write a new secret to ~/.plait-secret, with mode 0600, for launchers over several hosts; copy it to hosts that do not
 * share the home directory. A file that is there already stays.
 *
 * path    [room] its name
 * Thread: any
 * Errors: PLAIT_ERR_CONFIG (there is a file, or no home directory), PLAIT_ERR_SYSTEM
 */
PLAIT_API enum plait_status plait_secret_make(char *path, size_t room);

#ifdef __cplusplus
}
#endif
#endif
