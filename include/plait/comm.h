/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators: a numbered group of ranks that call collectives together.
 *
 * A rank is a process or a thread; a process may hold several. One rank makes a unique id and passes its 128 bytes to
 * the others by any means; then every rank creates the comm:
 *
 *     struct plait_unique_id id;                     rank 0: plait_unique_id_create(&id), over several hosts
 *                                                plait_unique_id_create_tcp(NULL, &id); send it around
 *     struct plait_comm_options o = PLAIT_COMM_OPTIONS_DEFAULT;
 *     o.nrank = 4; o.rank = r; o.id = &id;
 *     plait_comm_create(&o, &comm);
 *     plait_allreduce(comm, in, out, n, PLAIT_FLOAT32, PLAIT_SUM, NULL);
 *     plait_comm_destroy(comm);
 */
#ifndef PLAIT_COMM_H
#define PLAIT_COMM_H

#include <plait/coll.h>

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct plait_alg;

#define PLAIT_MAX_RANKS 4096 /* of a comm */

struct plait_unique_id {
    unsigned char bytes[128];
};

/**
 * Make an id for a new comm on this machine. It names a rendezvous point; nothing is opened yet.
 *
 * Thread: any
 * Errors: PLAIT_ERR_ARG (out is NULL), PLAIT_ERR_SYSTEM (no random bytes)
 */
PLAIT_API enum plait_status plait_unique_id_create(struct plait_unique_id *out);

/**
 * Make an id for a new comm over several hosts. It holds this host's addresses, some ports and a secret. Anyone with
 * the id may join, so send it only where others cannot read it; it is never printed. Nothing is opened yet, and an
 * unused id leaves nothing behind. Rank 0 of the comm must be on this host (in this network name space), in any
 * process. It listens while the ranks meet, at the first free one of 8 ports of PLAIT_PORTS.
 *
 * ifname  interfaces, in the syntax of PLAIT_IFNAME (NCCL_SOCKET_IFNAME's); NULL: PLAIT_IFNAME, or all but loopback.
 *         Each rank takes the first address that it reaches. Comms made of the comm follow PLAIT_IFNAME
 * Thread: any, while none changes the environment
 * Errors: PLAIT_ERR_UNSUPPORTED (this build has no libsodium), PLAIT_ERR_CONFIG (no such interface; names the existing
 *         ones)
 */
PLAIT_API enum plait_status plait_unique_id_create_tcp(const char *ifname, struct plait_unique_id *out);

/* Start from PLAIT_COMM_OPTIONS_DEFAULT. All but rank must be equal on all ranks. */
struct plait_comm_options {
    size_t size;                      /* sizeof (struct plait_comm_options) */
    uint32_t nrank;                   /* 1 .. PLAIT_MAX_RANKS */
    uint32_t rank;                    /* 0 .. nrank-1 */
    const struct plait_unique_id *id; /* may be NULL when nrank is 1 */
    const char *name;                 /* for messages and logs; NULL: "comm" */
    double timeout;                   /* seconds that creation waits for all ranks; 0: PLAIT_TIMEOUT (60) */
    double deadline;                  /* seconds until a stalled operation fails; 0: PLAIT_DEADLINE (600) */
    double warn;                      /* seconds until a warning names a stall; 0: PLAIT_WARN (30) */
    int reproducible; /* 1: canonical order, PLAIT_ROUND_DEFAULT becomes PLAIT_ROUND_ONCE; 0: PLAIT_REPRODUCIBLE */
    enum plait_round round;
    const uint32_t *node; /* [nrank] node of each rank as plans see it; NULL: all on one */
    /*
     * NULL-ended, searched by name before the library's, proved at the first use (up to 64 ranks; PLAIT_ERR_PLAN); or
     * NULL. Without a name they are chosen where they are the fastest (docs/plans.md). plait_alg_set_list() has those
     * of plan files, PLAIT_PLANS gives them to every comm
     */
    const struct plait_alg *const *algorithms;
    int progress;   /* 1: one thread per process drives pending operations (request.h). This rank's own */
    int background; /* 1: return at once; poll plait_comm_status(). This rank's own; not in groups, which wait */
};
#define PLAIT_COMM_OPTIONS_DEFAULT                                                                             \
    {                                                                                                          \
        sizeof(struct plait_comm_options), 0, 0, NULL, NULL, 0, 0, 0, 0, PLAIT_ROUND_DEFAULT, NULL, NULL, 0, 0 \
    }

/**
 * Meet the other ranks and make a comm.
 *
 * options  copied. The id, name, node and algorithms arrays may be freed afterwards; the algorithms themselves must
 *          live as long as the comm
 * out      written only on success; free it with plait_comm_destroy()
 * Memory:  in this process's arena (PLAIT_ARENA): 214 KiB and 12.1 KiB for each rank of the comm, backed at once. Of
 *          these 132 KiB are for the last 1,024 collectives and awaited messages, 81 KiB for the vectors of small
 *          collectives. Staging buffers come with the first large operation: 4 slices of at most 3/4 of a
 *          core's L2 cache. Heap: 13 KiB and 400 bytes for each rank; each kind of operation adds its plan, the first
 *          message to or from a rank 0.8 KiB, a pending operation 0.3 KiB. With ranks of other hosts: 14 KiB of heap
 *          on rank 0 and 300 bytes elsewhere for each rank, and what UCX takes (about 4 MB)
 * Process: 2 descriptors for its arena and 1 for each other process of the host, whose arena it maps, whatever the
 *          number of comms. During creation over TCP rank 0 has 3 descriptors for each rank. A comm of several hosts
 *          keeps a socket to rank 0 (which has one to each rank), UCX's 11 to 15 descriptors and one for each
 *          connection; the process then has a thread of ours and one of UCX's
 * History: each rank records its last 1,024 collectives and its last 256 sends and receives, among them every one that
 *          it hangs in: the call, its algorithm, start time, progress, and the rank that it waits for. Errors and stall
 *          warnings include the operation in progress. When the comm fails, the log shows the last ones of this rank
 *          and of the rank at fault. `plait-info --dump PID` shows them for any process of the same user at any time,
 *          even a hung or stopped one. Small operations that waited no longer than the spin have no time stamps; the
 *          times of their neighbours bracket them.
 * Order:   collective over the ranks that hold the id
 * Thread:  any; one thread creates each rank of a process, or one thread creates several in a group (group.h)
 * Errors:  PLAIT_ERR_ARG (with a wrong size, nrank, rank or id a rank cannot meet the others, which wait until the
 *          timeout), PLAIT_ERR_CONFIG (a variable, named), PLAIT_ERR_TIMEOUT (names the ranks that did not come),
 *          PLAIT_ERR_PEER (names the rank that died or left), PLAIT_ERR_MISMATCH (names the option and both values),
 *          PLAIT_ERR_NOMEM, PLAIT_ERR_SYSTEM (a limit, its value and how to raise it). A failure on one rank is every
 *          rank's result, at once and with the rank named. A rank that cannot make the comm still connects to report
 *          that, for at most 20 seconds and the timeout. Ranks that are there or come learn of a death within half a
 *          second.
 */
PLAIT_API enum plait_status plait_comm_create(const struct plait_comm_options *options, struct plait_comm **out);

/*
 * fork(): a child may run and exit while comms of its parent are alive, and may create comms of its own. It must not
 * use its parent's comms: a call with one is PLAIT_ERR_ARG. Exceptions are calls that only read what the comm counts or
 * would choose, and plait_comm_destroy(), which does nothing, so that destructors may run in the child. Memory of
 * plait_mem_alloc() is shared with the parent. Programs started with exec() inherit no descriptor of the library.
 *
 * The library never uses descriptors 0, 1 or 2. If a program closes one of the library's descriptors while a comm
 * lives, it may reuse the number: the library does nothing to the program's file. Calls that need the descriptor are
 * then PLAIT_ERR_SYSTEM, with its number and purpose.
 */

/**
 * Leave the comm and free it. NULL is allowed.
 *
 * Waits until the other ranks no longer read this rank's memory, at most the deadline. After a failure it waits at most
 * 2 seconds: a rank that has not noticed the failure by then cannot take the data that it reads for a result.
 * Thread: any one, while no other is in a call with this comm or begins one; other ranks of the process go on.
 * Errors: the error of the comm, if it had failed. The comm is freed in any case but one: PLAIT_ERR_ARG, another thread
 *         is inside a call of the comm.
 */
PLAIT_API enum plait_status plait_comm_destroy(struct plait_comm *comm);

/**
 * Make the comm fail on every rank: operations in flight and later ones return PLAIT_ERR_FAILED. A collective that this
 * rank has completed still completes on the others; plait_comm_revoke() stops that, too.
 *
 * reason  for the error text of all ranks, cut after 511 bytes; NULL: "no reason given"
 * Thread: any, also while another thread is inside an operation of this comm.
 * During asynchronous creation: creation ends in an error, here within half a second. Ranks that come later get the
 * same error as those that have come (from rank 0; of another rank they learn that it left or died). If creation can no
 * longer be stopped, the comm is created and has failed. In both cases the reason is not passed on.
 * Errors: PLAIT_ERR_ARG (comm is NULL, or of the process that this one was forked from)
 */
PLAIT_API enum plait_status plait_comm_abort(struct plait_comm *comm, const char *reason);

/**
 * Let an external event end the blocking calls of this thread. It is meant for languages whose signal handlers run
 * between their own instructions. While a call waits it calls interrupted() some ten times a second. If that returns
 * other than 0, the comms that the call waits for are aborted, and the call returns their error (creation:
 * PLAIT_ERR_FAILED).
 *
 * interrupted  NULL: none, as at first. It may call plait_comm_abort(), but nothing that waits for the same comm.
 * Thread: any; the setting applies to this thread alone
 */
PLAIT_API void plait_interrupt_set(int (*interrupted)(void));

typedef void (*plait_idle_function)(void);

/**
 * Let another library of the program make progress while this thread waits in a call of this one. Else two libraries
 * can wait for each other: a rank that waits here may have to answer, in MPI, a rank that has not come here yet.
 *
 * idle    called while a call waits, after it has spun: every few yields. The wait does not sleep then, so it uses its
 *         processor as MPI's waits do. NULL: none, as at first. It may call the library, but nothing that waits
 * Returns the function that was set before, or NULL.
 * Thread: any; the setting applies to this thread alone
 */
PLAIT_API plait_idle_function plait_idle_set(plait_idle_function idle);

/**
 * State of a comm: still in asynchronous creation, ready, or failed on this rank or another?
 *
 * Result: PLAIT_IN_PROGRESS while it is created; PLAIT_OK; else the error with which creation ended or the comm failed
 * Errors: those; PLAIT_ERR_ARG (comm is NULL, or of the process that this one was forked from)
 * Thread: any. Costs a load for each rank and makes no progress. It does not detect a rank's death; waiting calls do.
 */
PLAIT_API enum plait_status plait_comm_status(struct plait_comm *comm);

/**
 * Complete pending operations and wait until no rank reads this rank's memory any more, so that plait_comm_destroy()
 * will not wait. No further operation is allowed.
 *
 * Order:  collective: it waits until the other ranks complete the operations that this rank has completed
 * Thread: as the comm's calls; not in a group
 * Errors: PLAIT_ERR_ARG; those of the comm
 */
PLAIT_API enum plait_status plait_comm_finalize(struct plait_comm *comm);

/**
 * Stop the operations in flight on every rank, as plait_comm_abort() does, and wait until none is pending on this rank.
 * Then plait_comm_shrink() makes a comm of the surviving ranks.
 *
 * Thread: as the comm's calls; not in a group, where plait_comm_shrink() does it
 * Errors: PLAIT_ERR_ARG
 */
PLAIT_API enum plait_status plait_comm_revoke(struct plait_comm *comm);

#define PLAIT_NO_COLOR (-1)

/**
 * Split this comm: ranks of one colour form a new comm, in the order of their keys; equal keys keep the order of ranks
 * here. The options, but for the name, are this comm's.
 *
 * color  0 or more; PLAIT_NO_COLOR: this rank is in none, *out becomes NULL
 * name   of the new comm, or NULL for this one's
 * Order:  collective
 * Thread: as the comm's calls; in a group it is done at the end, before the group's other calls, in the order of the
 *         calls with this comm
 * Errors: as plait_allgather() and plait_comm_create(). If a member dies meanwhile or this comm fails:
 *         PLAIT_ERR_FAILED, with the cause
 */
PLAIT_API enum plait_status plait_comm_split(struct plait_comm *comm, int color, int key, const char *name,
                                             struct plait_comm **out);

/** A comm of the same ranks. Order, Thread, Errors: as plait_comm_split(). */
PLAIT_API enum plait_status plait_comm_duplicate(struct plait_comm *comm, const char *name, struct plait_comm **out);

/**
 * Make a comm without some ranks, which may be dead; this comm may have failed. The ranks do not communicate through
 * this comm. The caller ensures that all exclude the same ranks; ranks that do not will not meet: PLAIT_ERR_TIMEOUT,
 * naming ranks of the new comm.
 *
 * excluded  [n] ranks of this comm, in any order; not this one
 * abort     1: first stop the operations in flight (plait_comm_revoke()); 0: there are none, or the comm has failed
 * name      of the new comm, or NULL for this one's
 * Order:  collective over the remaining ranks; the k-th shrink of this comm on one rank meets the k-th on the others
 * Thread: as the comm's calls; in a group it is done at the end, `abort` too, and not if the group is only estimated
 * Errors: PLAIT_ERR_ARG; those of plait_comm_create(). If a member dies meanwhile: PLAIT_ERR_FAILED, naming it
 */
PLAIT_API enum plait_status plait_comm_shrink(struct plait_comm *comm, const uint32_t *excluded, uint32_t n, int abort,
                                              const char *name, struct plait_comm **out);

/**
 * Free the comm's staging buffers until plait_comm_resume(). The control block, GPU memory and staged messages that
 * have not been received yet (2 MiB for each such rank) stay. Calls are refused meanwhile.
 *
 * Order:  collective, as plait_comm_finalize(); all ranks suspend, and all resume
 * Thread: as the comm's calls; not in a group
 * Errors: PLAIT_ERR_ARG (suspended already, or not); those of the comm
 */
PLAIT_API enum plait_status plait_comm_suspend(struct plait_comm *comm);
PLAIT_API enum plait_status plait_comm_resume(struct plait_comm *comm);

/** As given at creation; "" and 0 for NULL. Thread: any. */
PLAIT_API const char *plait_comm_name(const struct plait_comm *comm);
PLAIT_API uint32_t plait_comm_rank(const struct plait_comm *comm);
PLAIT_API uint32_t plait_comm_nrank(const struct plait_comm *comm);

/* Counted since creation, by this rank. */
struct plait_comm_stats {
    uint64_t operations;
    uint64_t messages;      /* sent */
    uint64_t bytes_sent;    /* payload of those messages */
    uint64_t bytes_staged;  /* copied into staging buffers: peers cannot read them in place, or that is slower */
    uint64_t bytes_copied;  /* by COPY steps and by receives that moved data, including single copies */
    uint64_t bytes_reduced; /* results written by REDUCE steps */
    uint64_t allocations;   /* by operations (not by creation) */
    uint64_t yields;        /* sched_yield calls while waiting */
    uint64_t sleeps;        /* waits in the kernel */
    uint64_t wakes;         /* futex wakes of other ranks */
    uint64_t plan_hash;     /* of the last operation; equals plait_choice.plan_hash */
};

/** Counters of this rank. Thread: as the comm's calls; other threads may drive pending operations meanwhile. */
PLAIT_API void plait_comm_stats(const struct plait_comm *comm, struct plait_comm_stats *out);

/* Operations of this rank with one collective and one algorithm. */
struct plait_comm_count {
    enum plait_coll coll;
    char algorithm[64];  /* spec */
    uint64_t operations; /* persistent ones may be counted only when they are freed */
    uint64_t bytes;      /* of the vectors, or of one block of each; v-forms count none */
};

/**
 * The i-th entry, from 0, in the order of first use. Thread: as plait_comm_stats().
 *
 * Errors: PLAIT_ERR_ARG when there is no i-th
 */
PLAIT_API enum plait_status plait_comm_count(struct plait_comm *comm, size_t i, struct plait_comm_count *out);

/**
 * Seconds that this rank has waited for `peer` since creation. Counts waits that outlast the spin (some tens of
 * microseconds); a wait counts for the last rank that it waited for. Thread: as plait_comm_stats().
 */
PLAIT_API double plait_comm_waited(const struct plait_comm *comm, uint32_t peer);

/* The connection of this rank to another. */
struct plait_peer_info {
    char transport[16]; /* "self"; "shm": shared memory; a network's name: "ucx" */
    char device[112];   /* network device, in the network's words: "tcp/eth0"; "": memory, or none yet */
    uint32_t node;      /* as plans see it: ranks of one share memory, unless the comm's options say otherwise */
    char gpu[16]; /* path of GPU memory: "mapped"; "direct": the network reads it; "pinned": staged on the hosts */
    /* The innermost of the comm's levels that it shares with this rank: "cache", "memory node", "package", "host",
     * "rack"; "": none. A comm has the levels that divide its ranks; see PLAIT_BIND and PLAIT_RACK. */
    char shares[16];
};

/**
 * The connection for messages to and from `rank`. A network's devices are known after the first message; there may be
 * several for ranks of one host, or for this rank itself.
 *
 * out     written only on success
 * Thread: as the comm's calls
 * Errors: PLAIT_ERR_ARG
 */
PLAIT_API enum plait_status plait_comm_peer(struct plait_comm *comm, uint32_t rank, struct plait_peer_info *out);

/* Bytes held by this rank's end of the comm: shared memory, and heap memory for landings of a reducing root. */
struct plait_comm_memory {
    size_t control; /* the control block: ring of operations, mailboxes of small operations, messages */
    size_t staging; /* staging buffers; they grow with the operations, see plait_comm_suspend() */
    size_t device;  /* GPU memory and pinned memory: flags and buffers of operations; until the comm is left */
};

/** Current values; 0 before the comm is created. Thread: as plait_comm_stats(). */
PLAIT_API void plait_comm_memory(const struct plait_comm *comm, struct plait_comm_memory *out);

#define PLAIT_MOST_CANDIDATES 16

/* An algorithm that was considered. */
struct plait_candidate {
    char algorithm[64];
    double predicted; /* seconds, by the model of the machine; 0: not known */
    double measured;  /* seconds, by plait-tune, for the smallest size of its row that was measured; 0: none */
    bool estimated;   /* from its claimed cost alone; else simulated */
};

/* The selected algorithm, and the reason. */
struct plait_choice {
    char algorithm[64]; /* spec, e.g. "two-shot" */
    /* "eager" (one step, without the engine), "engine", or "eager and engine" (small and large blocks) */
    char path[24];
    size_t slice; /* bytes of the vector per slice */
    uint64_t nslice;
    enum plait_round round; /* ONCE or HOP; DEFAULT if the type does not round */
    uint64_t plan_hash;     /* of algorithm, shape, slice and rounding */
    char why[256];          /* one sentence */
    /*
     * The algorithms that were timed: the chosen one, then the others by time, the runner-up first. Of the library's,
     * those that cannot be faster by their claimed costs are left out. None if the call or PLAIT_ALGO names one, or on
     * the eager path.
     */
    uint32_t ncandidate;
    struct plait_candidate candidate[PLAIT_MOST_CANDIDATES];
    /*
     * Bytes for which they were timed. Sizes from two thirds to four thirds of it share one choice, and so do all below
     * 64 bytes. Predictions of more than 4 MiB are those of 4 MiB.
     */
    size_t timed;
};

struct plait_shape;

/**
 * The choice for one operation of this comm; PLAIT_ALGO and `call` count as in the call itself.
 *
 * shape  (plan.h) reads coll, root, inplace and vform; the comm has the rest
 * count  elements; with shape->vform (blocks of different sizes) of the largest block. Only in all-gather and
 *        reduce-scatter do all ranks know it; the other v-forms are chosen without sizes
 * Thread: any.
 * Errors: as the call's.
 */
PLAIT_API enum plait_status plait_comm_choose(const struct plait_comm *comm, const struct plait_shape *shape,
                                              size_t count, enum plait_dtype type, enum plait_op op,
                                              const struct plait_call *call, struct plait_choice *out);

/**
 * The choice for a comm that does not exist, by its arguments, PLAIT_*, the tuning file of this machine, and the speeds
 * that this process has timed (a program without comms has timed none, so a job may choose otherwise).
 *
 * shape  reads coll, nrank, root, inplace, node, level and vform
 * count  as above
 * Thread: any, while none changes the environment.
 * Errors: as the call's.
 */
PLAIT_API enum plait_status plait_choose(const struct plait_shape *shape, size_t count, enum plait_dtype type,
                                         enum plait_op op, const struct plait_call *call, struct plait_choice *out);

#ifdef __cplusplus
}
#endif
#endif
