/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Elastic averaging: each rank trains its own weights; a centre pulls the ranks together (EASGD: Zhang, Choromanska,
 * LeCun 2015; the modes: You, Buluc, Demmel 2017, arXiv 1708.02983).
 *
 *     struct plait_elastic_options o = PLAIT_ELASTIC_OPTIONS_DEFAULT;
 *     o.mode = PLAIT_ELASTIC_SYNC3; o.weights = w; o.count = n;     w: all layers, from plait_mem_alloc() at best
 *     plait_elastic_create(comm, &o, &elastic);
 *
 *     for every step:
 *         plait_elastic_start(elastic);                 the exchange of these weights begins
 *         forward and backward pass: gradients of w     which only read w
 *         plait_elastic_finish(elastic);                w = w - a (w - centre)
 *         the optimiser's step on w                     w = w - lr g; or plait_elastic_step(elastic, g)
 *
 *     plait_elastic_centre(elastic, w);                 the trained weights
 *     plait_elastic_destroy(elastic);
 *
 * A later run continues from a saved centre: rank 0's weights are the centre while the object is made, then each rank
 * copies its own saved weights in.
 *
 * plait_elastic_exchange() is start and finish in one. Called between the backward pass and the optimiser's step it
 * gives the same bits, only later.
 *
 * An exchange, for worker i of P with weights W_i, the centre C, and the pull a:
 *
 *     D_i = W_i - C                 rounded to the payload's type
 *     W_i = W_i - a D_i             then the optimiser's step: together (1) of the paper, with momentum (5) and (6)
 *     C   = C + a sum over i of D_i     (2) of the paper
 *     a   = lr rho, or beta / P with P living workers; with servers P is what server 0 knew when it last answered
 *
 * All in float32, rounded after every operation. The modes differ in the D_i that are summed and the C that they see:
 *
 *     original         Round robin. Servers take the workers' exchanges one after the other, in the order of their
 *                      ranks: worker i sees the updates of 0 to i-1 in this round. Deterministic while no worker
 *                      leaves.
 *     async            Servers take exchanges one at a time as they come: C = C + a D_i, with the C of that moment.
 *     async-momentum   The same for workers whose step has momentum (options.momentum, 0.9 if it is 0): (5) and (6).
 *                      With the caller's own optimiser with momentum, `async` is the same.
 *     hogwild          As async, with several serving threads that update C without a lock: a relaxed load and a
 *                      relaxed store for each element. If two threads add to one element at once, one update may be
 *                      lost; the loss is counted.
 *     sync1            All workers at once with one C at the master (rank 0): a tree broadcast of C and a tree
 *                      reduction of all W_i, all in the call that finishes. The paper's form, here for comparison.
 *     sync2            The same equations without a master: one all-reduce, and every rank updates its own copy of C.
 *     sync3            As sync2; the exchange goes on, on the library's progress thread, from start to finish.
 *
 * With a payload of float16 a difference is clamped to 65504, in the sync modes to 2^15 / P (P rounded up to a power of
 * two, and more than 1); the pull is then smaller.
 *
 * With a payload of float32 the sync modes form sum D_i as sum W_i - P C: only the weights travel, from where they lie.
 * So C = C + a (S - P C), S the sum of coll.h.
 *
 * The sync modes give the same bits on all ranks and in every run. With options.reproducible sync1, sync2 and sync3
 * give the same bits as each other, for each payload, whatever algorithm and slices.
 *
 * Modes with servers: the last `nserver` ranks of the comm are servers: they call plait_elastic_serve() instead of
 * working. A rank may be a thread of a worker's process. Each server has an equal part of the centre. Each pair of
 * worker and server has a comm of its own, so nobody waits for a worker that is late or stopped, except in `original`
 * for its turn. A worker that dies or leaves only lowers P. Within a host a server reads weights in library memory in
 * place, and the worker the answer; else they are messages. Each server applies its part of an exchange wholly or not
 * at all. It does not wait for the other servers. The last exchange of a worker that dies is applied by the servers
 * that it has asked, if their part of the weights is there. A worker that gives up (its exchange took longer than the
 * deadline) counts as dead. If a server dies, its part of the centre is lost: an error on all workers that ask it. So
 * is one that does not answer for the comm's deadline. If all workers die the servers still have the centre:
 * plait_elastic_centre().
 *
 * None of these calls is possible between plait_group_start() and plait_group_end(): PLAIT_ERR_ARG, and nothing
 * happens.
 *
 * Thread: each object by one thread at a time. Creation and calls so marked are collective.
 */
#ifndef PLAIT_ELASTIC_H
#define PLAIT_ELASTIC_H

#include <plait/comm.h>

#ifdef __cplusplus
extern "C" {
#endif

struct plait_elastic;

/* symbol, name, 1: it has servers */
#define PLAIT_ELASTIC_LIST(X)                            \
    X(PLAIT_ELASTIC_ORIGINAL, "original", 1)             \
    X(PLAIT_ELASTIC_ASYNC, "async", 1)                   \
    X(PLAIT_ELASTIC_ASYNC_MOMENTUM, "async-momentum", 1) \
    X(PLAIT_ELASTIC_HOGWILD, "hogwild", 1)               \
    X(PLAIT_ELASTIC_SYNC1, "sync1", 0)                   \
    X(PLAIT_ELASTIC_SYNC2, "sync2", 0)                   \
    X(PLAIT_ELASTIC_SYNC3, "sync3", 0)

enum plait_elastic_mode {
#define PLAIT_X(symbol, name, served) symbol,
    PLAIT_ELASTIC_LIST(PLAIT_X)
#undef PLAIT_X
        PLAIT_NELASTIC
};

/* Start from PLAIT_ELASTIC_OPTIONS_DEFAULT. All but weights must be equal on all ranks. */
struct plait_elastic_options {
    size_t size;      /* sizeof (struct plait_elastic_options) */
    const char *name; /* for messages; NULL: "elastic" */
    enum plait_elastic_mode mode;
    float *weights; /* [count] of this worker; ignored on servers. Must stay there until destruction */
    size_t count;
    uint32_t period;          /* the first of every `period` exchanges is made, the others do nothing */
    double beta;              /* P times the pull; the authors of EASGD recommend 0.9. 0: use rho */
    double rho;               /* elasticity: the pull is lr rho, at most 1. 0: use beta */
    double lr;                /* learning rate, see plait_elastic_set_lr(); 0 if unused */
    double momentum;          /* of plait_elastic_step(): 0 to below 1 */
    enum plait_dtype payload; /* of D_i: PLAIT_FLOAT32, PLAIT_FLOAT16 or PLAIT_BFLOAT16 */
    uint32_t nserver;         /* modes with servers: 1 to nrank - 1, 0 is 1; the others: 0 */
    uint32_t threads;         /* serving threads of each server, hogwild only; 0: 2 with hogwild, else 1 */
    int reproducible;         /* sync modes: bits that do not depend on mode, algorithm and slices; the others: 0 */
    const char *algorithm;    /* sync2, sync3: of the all-reduce; NULL: chosen by the library; the others: NULL */
};
#define PLAIT_ELASTIC_OPTIONS_DEFAULT                                                                                \
    {                                                                                                                \
        sizeof(struct plait_elastic_options), NULL, PLAIT_ELASTIC_SYNC3, NULL, 0, 1, 0.9, 0, 0, 0, PLAIT_FLOAT32, 0, \
            0, 0, NULL                                                                                               \
    }

/** Name of a mode; "?" for an unknown value. The mode with this name; -1 when there is none. Thread: any. */
PLAIT_API const char *plait_elastic_name(enum plait_elastic_mode mode);
PLAIT_API int plait_elastic_find(const char *name);

/**
 * Make the centre; it starts as the weights of rank 0.
 *
 * comm    duplicated; modes with servers also make a comm for each pair of worker and server. It must live as long as
 *         the object
 * options copied
 * out     written only on success; free it with plait_elastic_destroy()
 * Memory: in this process's arena, n being 4 count bytes: sync1: n, rank 0 2 n; sync2, sync3: 2 n, and with a payload
 *         of 16 bits half as much again; a worker of servers: n, less what is read in place; a server: its part and one
 *         slot of that size for each worker. Momentum takes n of other memory, from the first plait_elastic_step() on
 * Order:  collective, servers too
 * Thread: as the comm's calls
 * Errors: PLAIT_ERR_ARG; PLAIT_ERR_MISMATCH on every rank: names an option that differs, both ranks and values; if one
 *         rank failed by itself, the others get its name and error; those of plait_comm_split()
 */
PLAIT_API enum plait_status plait_elastic_create(struct plait_comm *comm, const struct plait_elastic_options *options,
                                                 struct plait_elastic **out);

/**
 * Leave. NULL is allowed. Waits for an exchange that was started. With servers the other workers go on.
 *
 * Thread: one, while no other is in a call with it
 * Errors: the error with which the object failed; it is freed in any case, except in a group
 */
PLAIT_API enum plait_status plait_elastic_destroy(struct plait_elastic *elastic);

/**
 * Begin an exchange of the current weights. sync3 and the modes with servers go on while the caller computes (on the
 * library's progress thread); sync1 and sync2 only remember the call. The weights may be read, but not
 * written, until plait_elastic_finish() returns.
 *
 * Order:  sync modes: every rank equally often
 * Thread: one at a time
 * Errors: PLAIT_ERR_ARG (one was started already; a server), those of the exchange
 */
PLAIT_API enum plait_status plait_elastic_start(struct plait_elastic *elastic);

/**
 * Wait for the exchange to end; the weights are pulled.
 *
 * Order:  as plait_elastic_start()
 * Thread: one at a time
 * Errors: PLAIT_ERR_ARG (none was started); sync modes: those of the collectives, on every rank; with servers:
 *         PLAIT_ERR_PEER, PLAIT_ERR_TIMEOUT name the server. After an error of the exchange the object has failed. The
 *         weights may be pulled, in part or not, and belong to the library until plait_elastic_destroy() returns.
 */
PLAIT_API enum plait_status plait_elastic_finish(struct plait_elastic *elastic);

/** Start and finish. Order, Thread, Errors: theirs. */
PLAIT_API enum plait_status plait_elastic_exchange(struct plait_elastic *elastic);

/**
 * The local step, for programs without an optimiser: w = w - lr g, or, with options.momentum, v = momentum v - lr g, w
 * = w + v.
 *
 * gradient [count]
 * Thread:  one at a time
 * Errors:  PLAIT_ERR_ARG (lr is 0; an exchange is under way), PLAIT_ERR_NOMEM
 */
PLAIT_API enum plait_status plait_elastic_step(struct plait_elastic *elastic, const float *gradient);

/**
 * Set the learning rate from now on: of the step, and with rho of the pull.
 *
 * Order:  sync modes with rho: collective, and equal on all ranks; else this rank's own
 * Thread: one at a time
 * Errors: PLAIT_ERR_ARG (not finite or not above 0; lr rho above 1; an exchange is under way), PLAIT_ERR_MISMATCH (two
 *         ranks and their rates, or a rank and its error); the rate is then unchanged
 */
PLAIT_API enum plait_status plait_elastic_set_lr(struct plait_elastic *elastic, double lr);

/**
 * Run a server: take exchanges until every worker has left or died. A worker on another host that is silent for the
 * comm's deadline counts as dead: a link is cut, its host is down, or its process is stopped.
 *
 * Thread: one; hogwild starts options.threads - 1 more for the time of the call
 * Errors: PLAIT_ERR_ARG (a worker), PLAIT_ERR_SYSTEM (a thread). Deaths of workers are no errors: see
 *         plait_elastic_counts
 */
PLAIT_API enum plait_status plait_elastic_serve(struct plait_elastic *elastic);

/**
 * Copy the centre. A server copies its part to its place in `out` and leaves the rest: server k of S has `n` elements
 * from k n on, n being count / S rounded up to a multiple of 16.
 *
 * out     [count]; may be the weights
 * Order:  sync modes: collective; a worker of servers: at any time between exchanges; a server: while it does not
 *         serve, also after an error of plait_elastic_serve()
 * Thread: one at a time
 * Errors: PLAIT_ERR_ARG (an exchange is under way), those of the exchange
 */
PLAIT_API enum plait_status plait_elastic_centre(struct plait_elastic *elastic, float *out);

/* Counters of this rank. */
struct plait_elastic_counts {
    uint32_t workers;    /* alive; of a worker with servers: at its last exchange */
    uint32_t left;       /* a server: workers that have left, */
    uint32_t died;       /* that died, gave up or were dropped */
    uint64_t exchanges;  /* made by this worker, or applied by this server */
    double pull;         /* of the last exchange */
    uint64_t behind;     /* others' updates of the centre between two exchanges of this worker: the sum, */
    uint64_t behind_max; /* and the maximum. A server: over all its workers */
    double forces;       /* hogwild, a server, after plait_elastic_serve(): sum of all a D_i of all elements, */
    double movement;     /* growth of the sum of its centre: the difference is lost updates (and rounding) */
    size_t slots;        /* a server: bytes of the slots of all its workers */
    uint64_t staged;     /* bytes copied into staging buffers, as others cannot read them in place */
};

/** Thread: one at a time, between exchanges; on a server also while another serves. */
PLAIT_API void plait_elastic_counts(const struct plait_elastic *elastic, struct plait_elastic_counts *out);

#ifdef __cplusplus
}
#endif
#endif
