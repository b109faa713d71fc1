/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators: a numbered group of ranks that call collectives together.
 *
 * A rank is a process or a thread; a process may hold several. One rank makes a unique id and
 * hands its 128 bytes to the others by any means; then every rank creates the comm:
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

#ifdef __cplusplus
extern "C" {
#endif

struct plait_alg;

#define PLAIT_MAX_RANKS 4096 /* of a comm */

struct plait_unique_id {
    unsigned char bytes[128];
};

/**
 * Make an id for a new comm. It names a meeting point on this machine; nothing is opened yet.
 *
 * Thread: any
 * Errors: PLAIT_ERR_ARG (out is NULL), PLAIT_ERR_SYSTEM (no random bytes)
 */
PLAIT_API enum plait_status plait_unique_id_create(struct plait_unique_id *out);

/**
 * Make an id for a new comm over several hosts. It names this host's addresses, some ports and a secret: who has the id
 * may join, so it travels on ways that others cannot read, and is never printed. Nothing is opened yet, and nothing is left
 * of an id that is not used. Rank 0 of the comm must be on this host (in this network name space), in any process: it
 * listens while the ranks meet, at the first free one of 8 ports of PLAIT_PORTS.
 *
 * ifname  interfaces, in the syntax of PLAIT_IFNAME (NCCL_SOCKET_IFNAME's); NULL: PLAIT_IFNAME, or all but loopback.
 *         Each rank takes the first address that it reaches. Comms made of the comm follow PLAIT_IFNAME
 * Thread: any, while none changes the environment
 * Errors: PLAIT_ERR_UNSUPPORTED (this build has no libsodium), PLAIT_ERR_CONFIG (no such interface; those there are are
 *         named)
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
    double warn;                      /* seconds until a stall is named in a warning; 0: PLAIT_WARN (30) */
    int reproducible; /* 1: canonical order, PLAIT_ROUND_DEFAULT becomes PLAIT_ROUND_ONCE; 0: PLAIT_REPRODUCIBLE */
    enum plait_round round;
    const uint32_t *node;                      /* [nrank] node of each rank as plans see it; NULL: all on one */
    const struct plait_alg *const *algorithms; /* NULL-ended, found by name before the library's, proved when first used
                                                  (up to 64 ranks; PLAIT_ERR_PLAN); or NULL */
    int progress;   /* 1: a thread, one for the whole process, drives pending operations (request.h). This rank's own */
    int background; /* 1: return at once; ask plait_comm_status(). This rank's own; not in groups, which wait */
};
#define PLAIT_COMM_OPTIONS_DEFAULT                                                                             \
    {                                                                                                          \
        sizeof(struct plait_comm_options), 0, 0, NULL, NULL, 0, 0, 0, 0, PLAIT_ROUND_DEFAULT, NULL, NULL, 0, 0 \
    }

/**
 * Meet the other ranks and make a comm.
 *
 * options  copied; the id, name, node and algorithms arrays may be freed afterwards, the
 *          algorithms themselves must live as long as the comm
 * out      written only on success; free it with plait_comm_destroy()
 * Memory:  in this process's arena (PLAIT_ARENA): 230 KiB and 12.2 KiB for each rank of the comm, backed at once: 144
 *          KiB for the rings of the last 1,024 collectives and 256 messages, 81 KiB for the vectors of small
 *          collectives. Staging memory comes with the first large operation.
 * History: each rank keeps of its last 1,024 collectives what was called, by which algorithm, when it began, how far
 *          it is and for whom it waits; and the same of its last 256 sends and receives, among them every one that it
 *          hangs in. Errors and the warning of a stall name that of the operation in progress; the
 *          log shows the last ones of this rank and of the rank at fault when the comm fails; `plait-info --dump PID`
 *          shows them of any process of the same user at any time, also one that hangs or is stopped. Small
 *          operations that waited no longer than the spin have no time; those around them bracket it.
 * Order:   collective over the ranks that hold the id
 * Thread:  any; ranks of one process are created by one thread each, or by one in a group (group.h)
 * Errors:  PLAIT_ERR_ARG (with a wrong size, nrank, rank or id a rank cannot meet the others, which wait until the
 *          timeout), PLAIT_ERR_CONFIG (a variable, named), PLAIT_ERR_TIMEOUT (names the ranks that did not come),
 *          PLAIT_ERR_PEER (names the rank that died or left), PLAIT_ERR_MISMATCH (names the option and both values),
 *          PLAIT_ERR_NOMEM, PLAIT_ERR_SYSTEM (a limit, its value and how to raise it). What fails on one rank is every
 *          rank's result, at once and with the rank named: a rank that cannot make the comm still comes to say so, for
 *          at most 20 seconds and the timeout. Of a death those learn who are there or come within half a second.
 */
PLAIT_API enum plait_status plait_comm_create(const struct plait_comm_options *options, struct plait_comm **out);

/*
 * fork(): a child may run and exit while comms of its parent are alive, and may create comms of its own. Its
 * parent's are not its business: every call with one is PLAIT_ERR_ARG, but for those that only read what the comm
 * counts or would choose, and plait_comm_destroy(), which does nothing, so that destructors may run in the child.
 * Memory of plait_mem_alloc() is shared with the parent. Programs that are executed get no descriptor of the library.
 *
 * Descriptors: none of the library's is 0, 1 or 2. A program that closes one while a comm lives may use its number:
 * nothing is done to the program's file, and calls that need the descriptor are PLAIT_ERR_SYSTEM, with its number and
 * purpose.
 */

/**
 * Leave the comm and free it. NULL is allowed.
 *
 * Waits until the other ranks no longer read this rank's memory: at most the deadline; after a failure at most 2
 * seconds, as a rank that has not noticed it by then cannot take what it reads for a result.
 * Thread: any one, while no other is in a call with this comm or begins one; other ranks of the process go on.
 * Errors: the error of the comm, if it had failed; it is freed in any case but one: PLAIT_ERR_ARG, another thread is
 *         inside a call of the comm.
 */
PLAIT_API enum plait_status plait_comm_destroy(struct plait_comm *comm);

/**
 * Make the comm fail on every rank: operations in flight and later ones return PLAIT_ERR_FAILED. A collective that this
 * rank has completed ends on the others as if there were no abort; plait_comm_revoke() ends that, too.
 *
 * reason  for the error text of all ranks, which ends after 511 bytes; NULL: "no reason given"
 * Thread: any, also while another thread is inside an operation of this comm.
 * A comm that is still created in the background: creation ends in an error, here within half a second, in which
 *         those who come are told as those who have come (by rank 0: of another rank they are told that it left or
 *         died); where it was too late for that, the comm is there and has failed; in both cases without the reason.
 * Errors: PLAIT_ERR_ARG (comm is NULL, or of the process that this one was forked from)
 */
PLAIT_API enum plait_status plait_comm_abort(struct plait_comm *comm, const char *reason);

/**
 * Let something outside end the blocking calls of this thread, as a language does whose handlers of signals run between its own
 * instructions: while a call waits it calls interrupted() some ten times a second. When that returns other than 0, the comms that
 * the call waits for are aborted, and it returns their error (creation: PLAIT_ERR_FAILED).
 *
 * interrupted  NULL: nothing, as at first. It may call plait_comm_abort(), but nothing that waits for the same comm.
 * Thread: any; it is this thread's alone
 */
PLAIT_API void plait_interrupt_set(int (*interrupted)(void));

/**
 * Is a comm that is created in the background there, and has it failed, on this rank or another?
 *
 * Result: PLAIT_IN_PROGRESS while it is created; PLAIT_OK; else the error with which creation ended or the comm failed
 * Errors: those; PLAIT_ERR_ARG (comm is NULL, or of the process that this one was forked from)
 * Thread: any. Costs a load for each rank and takes no part in progress. That a rank has died is seen by those who wait.
 */
PLAIT_API enum plait_status plait_comm_status(struct plait_comm *comm);

/**
 * End what is pending and wait until nobody reads this rank's memory any more, so that plait_comm_destroy() will not
 * wait. No further operation is allowed.
 *
 * Order:  collective, in that it waits for the other ranks to end what this one has ended
 * Thread: as the comm's calls; not in a group
 * Errors: PLAIT_ERR_ARG; those of the comm
 */
PLAIT_API enum plait_status plait_comm_finalize(struct plait_comm *comm);

/**
 * Stop what is in flight on every rank, as plait_comm_abort() does, and wait until nothing is pending on this one. Then
 * plait_comm_shrink() makes a comm of the ranks that go on.
 *
 * Thread: as the comm's calls; not in a group, where plait_comm_shrink() does it
 * Errors: PLAIT_ERR_ARG
 */
PLAIT_API enum plait_status plait_comm_revoke(struct plait_comm *comm);

#define PLAIT_NO_COLOR (-1)

/**
 * Make comms of parts of this one: ranks of one colour form a comm, in the order of their keys, equal keys in the order
 * of their ranks here. Options, but for the name, are this comm's.
 *
 * color  0 or more; PLAIT_NO_COLOR: this rank is in none, *out becomes NULL
 * name   of the new comm, or NULL for this one's
 * Order:  collective
 * A member that dies meanwhile, or a failure of this comm, ends it (PLAIT_ERR_FAILED, with the cause).
 * Thread: as the comm's calls; in a group it is done at the end, before the group's other calls, in the order of the
 *         calls with this comm
 * Errors: as plait_allgather() and plait_comm_create()
 */
PLAIT_API enum plait_status plait_comm_split(struct plait_comm *comm, int color, int key, const char *name,
                                             struct plait_comm **out);

/** A comm of the same ranks. Order, Thread, Errors: as plait_comm_split(). */
PLAIT_API enum plait_status plait_comm_duplicate(struct plait_comm *comm, const char *name, struct plait_comm **out);

/**
 * Make a comm of all ranks but some, which may be dead; this one may have failed. They say nothing to each other
 * through this comm: that all exclude the same is the caller's care (those who do not will not meet, which is
 * PLAIT_ERR_TIMEOUT, naming ranks of the new comm).
 *
 * excluded  [n] ranks of this comm, in any order; not this one
 * abort     1: stop first what is in flight (plait_comm_revoke()); 0: nothing is, or it has failed
 * name      of the new comm, or NULL for this one's
 * Order:  collective over those that go on; the k-th shrink of this comm on one rank meets the k-th on the others
 * A member that dies meanwhile ends it (PLAIT_ERR_FAILED, naming it).
 * Thread: as the comm's calls; in a group it is done at the end, `abort` too, and not where the group is only estimated
 * Errors: PLAIT_ERR_ARG; those of plait_comm_create()
 */
PLAIT_API enum plait_status plait_comm_shrink(struct plait_comm *comm, const uint32_t *excluded, uint32_t n, int abort,
                                              const char *name, struct plait_comm **out);

/**
 * Give the comm's staging memory back until it is resumed: everything but the control block, memory of a GPU, and what is staged of
 * messages that have not been received yet (2 MiB for each such rank). Calls are refused meanwhile.
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
    uint64_t bytes_staged;  /* copied into library memory: others cannot get it from where it lies, or that is slower */
    uint64_t bytes_copied;  /* by COPY steps and by receives that moved data, the kernel's among them */
    uint64_t bytes_reduced; /* results written by REDUCE steps */
    uint64_t allocations;   /* by operations (not by creation) */
    uint64_t yields;        /* sched_yield calls while waiting */
    uint64_t sleeps;        /* waits in the kernel */
    uint64_t wakes;         /* futex wakes of other ranks */
    uint64_t plan_hash;     /* of the last operation; equals plait_choice.plan_hash */
};

/** What this rank has counted. Thread: as the comm's calls; others may run what is pending meanwhile. */
PLAIT_API void plait_comm_stats(const struct plait_comm *comm, struct plait_comm_stats *out);

/* What this rank has run of one collective by one algorithm. */
struct plait_comm_count {
    enum plait_coll coll;
    char algorithm[64];  /* spec */
    uint64_t operations; /* persistent ones may be counted only when they are freed */
    uint64_t bytes;      /* of the vectors, or of one block of each; those whose blocks differ in size count none */
};

/**
 * The i-th, from 0, in the order in which they were first called. Thread: as plait_comm_stats().
 *
 * Errors: PLAIT_ERR_ARG when there is no i-th
 */
PLAIT_API enum plait_status plait_comm_count(struct plait_comm *comm, size_t i, struct plait_comm_count *out);

/**
 * Seconds that this rank has waited for `peer` since creation: of waits that outlast the spin (some tens of
 * microseconds), each counted for the rank it waited for last. Thread: as plait_comm_stats().
 */
PLAIT_API double plait_comm_waited(const struct plait_comm *comm, uint32_t peer);

/* How this rank reaches another. */
struct plait_peer_info {
    char transport[16]; /* "self"; "shm": shared memory; a network's name: "ucx" */
    char device[112];   /* what a network goes over, as it says: "tcp/eth0"; "": memory, or none yet */
    uint32_t node;      /* as plans see it: ranks of one share memory, unless the comm's options say otherwise */
    char gpu[16]; /* how memory of GPUs would go: "mapped"; "direct": by the network; "pinned": through the hosts' */
};

/**
 * Over what messages to and from `rank` go. A network's devices are known once there was a message; those of a network to the ranks of
 * one host, or to this rank, may be several.
 *
 * out     written only on success
 * Thread: as the comm's calls
 * Errors: PLAIT_ERR_ARG
 */
PLAIT_API enum plait_status plait_comm_peer(struct plait_comm *comm, uint32_t rank, struct plait_peer_info *out);

/*
 * Bytes that this rank's end of the comm holds: of shared memory, and of the heap where what a root combines is landed.
 */
struct plait_comm_memory {
    size_t control; /* the control block: ring of operations, vectors of small operations, messages */
    size_t staging; /* for what peers cannot read where it lies; grows with the operations, see plait_comm_suspend() */
    size_t device;  /* of a GPU, and pinned for it: flags, and what operations there need; until the comm is left */
};

/** What it holds now; zeroes before it is there. Thread: as plait_comm_stats(). */
PLAIT_API void plait_comm_memory(const struct plait_comm *comm, struct plait_comm_memory *out);

/* What would run, and why. */
struct plait_choice {
    char algorithm[64]; /* spec, e.g. "two-shot" */
    /* "eager" (one step, without the engine), "engine", or "eager and engine" (small and large blocks) */
    char path[24];
    size_t slice; /* bytes of the vector per slice */
    uint64_t nslice;
    enum plait_round round; /* ONCE or HOP; DEFAULT where the type does not round */
    uint64_t plan_hash;     /* of algorithm, shape, slice and rounding */
    char why[256];          /* one sentence */
};

/**
 * The choice for one operation of this comm; PLAIT_ALGO and `call` are obeyed as in the call itself.
 *
 * Thread: any.
 * Errors: as the call's.
 */
PLAIT_API enum plait_status plait_comm_choose(const struct plait_comm *comm, enum plait_coll coll, size_t count,
                                              enum plait_dtype type, enum plait_op op, int inplace,
                                              const struct plait_call *call, struct plait_choice *out);

struct plait_shape;

/**
 * The choice for a comm that does not exist: a pure function of its arguments, PLAIT_* and the machine.
 *
 * shape  coll, nrank, root, inplace, node and sized are read
 * count  shape->sized (the forms with blocks of different sizes): elements of the largest block
 * Thread: any, while none changes the environment.
 * Errors: as the call's.
 */
PLAIT_API enum plait_status plait_choose(const struct plait_shape *shape, size_t count, enum plait_dtype type,
                                         enum plait_op op, const struct plait_call *call, struct plait_choice *out);

#ifdef __cplusplus
}
#endif
#endif
