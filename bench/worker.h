/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker is one rank under measurement. Between commands it sleeps in recv() on its socket, so that ranks of several
 * backends share the processors and only one backend runs at a time. The loop is the same for all backends; `struct
 * backend` is what differs.
 */
#ifndef PLAIT_BENCH_WORKER_H
#define PLAIT_BENCH_WORKER_H

#include "compute.h"
#include "greet.h"
#include "parts.h"
#include "step.h"

#include <plait/plan.h>

struct operation { /* one rank's part of it */
    enum plait_coll coll;
    enum plait_dtype type;
    enum plait_op op; /* PLAIT_NOP where nothing is combined */
    uint32_t root;
    bool inplace;
    size_t count;                     /* count argument of Plait's function; for the v-forms, the mean */
    struct parts in_parts, out_parts; /* v-forms: sizes of the blocks; else, or without that buffer, NULLs */
    void *in, *out;                   /* NULL: this rank has no such buffer */
    uint32_t tensor;                  /* index in the list of tensors */
};

struct fuser {     /* fusion of a backend: steps (step.h) of SCHEME_FUSED, several kinds of which are kept */
    bool averages; /* results are averages, not sums */
    /* Memory that the backend's operations need not copy. */
    void *(*alloc)(void *self, size_t bytes);
    void (*free)(void *self, void *memory);
    /*
     * Steps of this kind follow. Returns false on failure.
     *
     * g  [n] gradients in backward order, each in its own memory; in and out become where it lies in such steps
     */
    bool (*fuse)(void *self, const struct step *s, struct operation *g, uint32_t n);
    void (*forget)(void *self); /* forget all kinds */
    bool (*ready)(void *self, uint32_t i);
    bool (*finish)(void *self); /* wait for all gradients */
    /*
     * For a backend that produces the gradients itself, in place of ready() and finish(): what precedes a step and is
     * not part of it, then the whole step with its computation. Else NULL.
     */
    bool (*before)(void *self);
    bool (*step)(void *self);
    /* Bytes and messages so far, of fused steps or of operations; seconds since the last call. */
    void (*figures)(void *self, bool fused, struct step_figures *out);
    /* Write the trace of the steps since the last call. NULL: steps cannot be traced. */
    bool (*timeline)(void *self, const char *path);
};

struct backend {
    const char *name;
    bool front; /* in place, a reduce-scatter puts its result at the front of the buffer, as in MPI */
    /* Buffers of the measured kind of memory, aligned to 4096 bytes. NULL: out of memory. */
    void *(*alloc)(void *self, size_t bytes);
    void (*free)(void *self, void *memory);
    /* May be called before there are buffers. */
    bool (*supports)(void *self, const struct operation *o);
    /* Returns false on failure, see error(). */
    bool (*run)(void *self, const struct operation *o);
    const char *(*error)(void *self);
    /* A barrier, for ranks that share no stage. Returns false on failure. */
    bool (*meet)(void *self);
    /*
     * Use the backend's i-th algorithm for the collective and vectors of `bytes` from now on; 0: its own choice. All
     * ranks call it together. Returns the algorithm's name, "" for 0, or NULL when there are not so many. NULL: has
     * only 0.
     */
    const char *(*choose)(void *self, enum plait_coll coll, size_t bytes, uint32_t i);
    /*
     * Start an operation, progress it, wait for its end; one at a time. Return false on failure. All NULL: every
     * operation blocks.
     */
    bool (*start)(void *self, const struct operation *o);
    bool (*test)(void *self);
    bool (*wait)(void *self);
    /*
     * From now on a progress thread of the library drives what was started, or none does. Returns false on failure.
     * NULL: there is no such thread.
     */
    bool (*thread)(void *self, bool on);
    const struct fuser *fuser; /* NULL: no fusion */
};

/* One iteration. */
enum work_kind {
    WORK_BLOCKING,
    WORK_COMPUTE,  /* computation alone */
    WORK_UNDRIVEN, /* start, compute, wait; nothing progresses the operation meanwhile */
    WORK_TESTS,    /* the same, with calls of test() at equal distances in the computation */
    WORK_THREAD,   /* the same, with the library's progress thread */
    NWORK,
};

struct work {
    uint32_t kind;        /* enum work_kind */
    uint32_t computation; /* enum computation */
    uint32_t ntest;       /* WORK_TESTS */
    double seconds;       /* of computation */
};

enum verb {
    VERB_CHECK,  /* one verified operation per iteration; reply.wrong counts wrong elements */
    VERB_TIME,   /* barrier, clock, operation, clock; times go to the stage, or follow the reply where none is shared */
    VERB_STREAM, /* operations back to back; reply.seconds and reply.cpu per operation */
    VERB_FIGURES, /* traced steps; reply.figures per step, and the trace if there is a path */
    VERB_QUIT,
};

struct command {
    uint32_t verb;
    uint32_t coll, dtype, op; /* enum plait_coll, plait_dtype, plait_op */
    uint32_t root;
    uint32_t inplace;
    uint32_t algorithm;            /* see backend.choose */
    uint64_t count;                /* of the operation on every tensor; 0: each tensor's elements */
    uint64_t min_count, max_count; /* only tensors with min <= elements < max; max 0: no limit */
    uint32_t iterations;           /* at most STAGE_ITERATIONS for VERB_TIME */
    uint32_t aggregate;            /* operations (or passes over the tensors) per iteration */
    uint32_t seed;                 /* VERB_CHECK */
    struct work work;
    struct step step;   /* zeroes: operations, no steps */
    char timeline[256]; /* "": none */
};

enum answer {
    ANSWER_OK,
    ANSWER_UNSUPPORTED, /* of type, operator or kind of work; or an algorithm that does not work here */
    ANSWER_NONE,        /* there are fewer algorithms */
    ANSWER_FAILED,
    ANSWER_BUSY, /* no reply yet: from rank 0 of ranks that share no stage, each second in which a pass has ended */
};

struct reply {
    uint32_t answer;
    uint64_t wrong;
    double seconds, cpu;
    struct step_figures figures;
    char text[400]; /* ANSWER_FAILED: why; ANSWER_OK: name of the algorithm */
};

/*
 * Serve commands. Returns true after VERB_QUIT, false when the coordinator has gone or this rank has failed.
 *
 * fd  socket to the coordinator, SOCK_SEQPACKET
 */
bool worker_serve(int fd, struct stage *stage, uint32_t rank, const struct backend *backend, void *self);

/* backend.alloc and backend.free for buffers from buffers.h. */
void *worker_alloc(void *self, size_t bytes);
void worker_free(void *self, void *memory);

/* Bytes of times that follow the reply to a command. */
size_t worker_times(const struct stage *stage, const struct command *c, const struct reply *r);

/* Bind the calling thread to the rank's share of the allowed processors. */
void worker_pin(uint32_t rank);

/* Processors that this process may run on. */
uint32_t worker_cpus(void);

enum { EXIT_RANKS = 3 }; /* exit status: a rank or peer failed */

/*
 * End this process with EXIT_RANKS when the coordinator closes its end of `fd`, even within an operation, but not after
 * VERB_QUIT; send ANSWER_BUSY. For processes of one rank.
 */
void worker_watch(int fd, const struct stage *stage, uint32_t rank);

#endif
