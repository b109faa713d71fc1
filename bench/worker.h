/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker is one rank under measurement. It sleeps in read() on its socket until the coordinator
 * sends a command, so that the ranks of several backends can live on the same processors and only
 * one backend runs at a time. The loop is the same for every backend; what differs is below.
 */
#ifndef PLAIT_BENCH_WORKER_H
#define PLAIT_BENCH_WORKER_H

#include "compute.h"
#include "greet.h"
#include "parts.h"
#include "step.h"

#include <plait/plan.h>

#include <sys/types.h>

struct operation { /* as one rank does it */
    enum plait_coll coll;
    enum plait_dtype type;
    enum plait_op op; /* PLAIT_NOP where nothing is combined */
    uint32_t root;
    bool inplace;
    size_t count;                     /* as in Plait's function; of parts that differ in size, on average */
    struct parts in_parts, out_parts; /* NULLs where parts do not differ, and of a buffer that the rank does not have */
    void *in, *out;                   /* NULL: this rank has none */
    uint32_t tensor;                  /* its number in the list of tensors */
};

struct fuser { /* what of a backend has fusion: steps (step.h) of SCHEME_FUSED, of which several kinds are remembered */
    bool averages; /* the results are averages, not sums */
    /* Library memory, of which operations need no copy. */
    void *(*alloc)(void *self, size_t bytes);
    void (*free)(void *self, void *memory);
    /*
     * Steps of this kind follow. g: [n] gradients in backward order, in memory of their own; they are told where they lie
     * in such steps. false: failed.
     */
    bool (*fuse)(void *self, const struct step *s, struct operation *g, uint32_t n);
    void (*forget)(void *self); /* all kinds */
    bool (*ready)(void *self, uint32_t i);
    bool (*finish)(void *self); /* wait for all */
    /*
     * Of a backend where gradients appear by themselves, instead of these two: what comes before a step and belongs to none,
     * then all of the step, with its computation. Else NULL.
     */
    bool (*before)(void *self);
    bool (*step)(void *self);
    /* Bytes and messages so far, of fused steps or of operations; seconds since the last call. */
    void (*figures)(void *self, bool fused, struct step_figures *out);
    /* Write what happened in traced steps since the last call. NULL: no step is traced. */
    bool (*timeline)(void *self, const char *path);
};

struct backend {
    const char *name;
    bool front; /* in place, the result of a reduce-scatter lies at the front of the buffer, as in MPI */
    /* Buffers of the kind under measurement, aligned to 4096 bytes. NULL: out of memory. */
    void *(*alloc)(void *self, size_t bytes);
    void (*free)(void *self, void *memory);
    /* May be asked before there are buffers. */
    bool (*supports)(void *self, const struct operation *o);
    /* false: failed, see error(). */
    bool (*run)(void *self, const struct operation *o);
    const char *(*error)(void *self);
    /* Return when all ranks have called it: of ranks that share no stage. false: failed. */
    bool (*meet)(void *self);
    /*
     * From now on use the backend's i-th algorithm for the collective and vectors of `bytes`; 0 is what it chooses
     * itself. Returns its name, "" for 0; NULL: there is none such. All ranks call it together. NULL: has none but 0.
     */
    const char *(*choose)(void *self, enum plait_coll coll, size_t bytes, uint32_t i);
    /*
     * Begin an operation, let it go on a little, wait for its end; one at a time. false: failed. NULL, all three: every
     * operation blocks.
     */
    bool (*start)(void *self, const struct operation *o);
    bool (*test)(void *self);
    bool (*wait)(void *self);
    /* From now on a thread of the library drives what was started, or none does. false: failed. NULL: has no such. */
    bool (*thread)(void *self, bool on);
    const struct fuser *fuser; /* NULL: has none */
};

/* What one iteration is. */
enum way {
    WAY_BLOCKING,
    WAY_COMPUTE, /* the computation alone */
    WAY_NOBODY,  /* start, compute, wait */
    WAY_TESTS,   /* the same with tests at equal distances in the computation */
    WAY_THREAD,  /* the same, and a thread of the library drives the operation */
    NWAY,
};

struct work {
    uint32_t way;         /* enum way */
    uint32_t computation; /* enum computation */
    uint32_t ntest;       /* WAY_TESTS */
    double seconds;       /* of computation */
};

enum verb {
    VERB_CHECK, /* one verified operation per iteration; reply.wrong counts elements */
    VERB_TIME,  /* barrier, clock, operation, clock; the times go to the stage, or follow the reply where it is apart */
    VERB_STREAM,  /* operations back to back; reply.seconds and reply.cpu per operation */
    VERB_FIGURES, /* traced steps; reply.figures per step, and the time line if there is a path */
    VERB_QUIT,
};

struct command {
    uint32_t verb;
    uint32_t coll, dtype, op; /* enum plait_coll, plait_dtype, plait_op */
    uint32_t root;
    uint32_t inplace;
    uint32_t algorithm;            /* see backend.choose */
    uint64_t count;                /* of the operation on every tensor; 0: each tensor's elements */
    uint64_t min_count, max_count; /* tensors below min or from max up are left out; max 0: no limit */
    uint32_t iterations;           /* at most STAGE_ITERATIONS for VERB_TIME */
    uint32_t aggregate;            /* operations (or passes over the tensors) per iteration */
    uint32_t seed;                 /* VERB_CHECK */
    struct work work;
    struct step step;   /* zeroes: operations */
    char timeline[256]; /* "": none */
};

enum answer {
    ANSWER_OK,
    ANSWER_UNSUPPORTED, /* type, operator or way; or an algorithm that does not work here */
    ANSWER_NONE,        /* there are not so many algorithms */
    ANSWER_FAILED,
};

struct reply {
    uint32_t answer;
    uint64_t wrong;
    double seconds, cpu;
    struct step_figures figures;
    char text[400]; /* ANSWER_FAILED: why; ANSWER_OK: name of the algorithm */
};

/*
 * Serve commands until VERB_QUIT (true) or until the coordinator has gone or this rank has failed (false).
 *
 * fd  the socket to the coordinator, SOCK_SEQPACKET
 */
bool worker_serve(int fd, struct stage *stage, uint32_t rank, const struct backend *backend, void *self);

/* For a backend without memory of its own kind: buffers.h's, see backend.alloc. */
void *worker_alloc(void *self, size_t bytes);
void worker_free(void *self, void *memory);

/* Bytes of times that follow the reply to a command. */
size_t worker_times(const struct stage *stage, const struct command *c, const struct reply *r);

/* Bind the calling thread to the rank's share of the processors it may run on. */
void worker_pin(uint32_t rank);

/* Processors that this process may run on. */
uint32_t worker_cpus(void);

enum { EXIT_RANKS = 3 }; /* exit status: a rank or a peer failed */

/* End this process, with that, when the coordinator closes its end of `fd`, also in the middle of an operation, but not after
 * VERB_QUIT. For processes of one rank. */
void worker_watch(int fd);

#endif
