/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fault campaign. A seed draws an injection: ranks, operations, and one fault at a random moment. A worker runs
 * it with real ranks, which write what happened to them into a scene that all share; then it is judged. Everything
 * follows from the seed, but for the exact moment, which is drawn in a duration that is measured.
 *
 *   campaign_draw.c   seed -> injection
 *   campaign_rank.c   what a process and its ranks do
 *   campaign_left.c   what a process must not leave behind
 *   campaign_run.c    starts the ranks, kills and stops them, ends what hangs
 *   campaign_hosts.c  virtual hosts on which ranks live
 *   campaign_judge.c  the scene -> right or what is wrong
 *   campaign.c        options, workers, the table
 */
#ifndef PLAIT_TESTS_CAMPAIGN_H
#define PLAIT_TESTS_CAMPAIGN_H

#include "collective.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#define MOST_RANKS 9
#define MOST_HOSTS 4

/*
 * symbol, name, status that the other ranks get, does the culprit call something else, is it silence that the deadline
 * ends, does it need a process of its own
 */
#define FAULT_LIST(X)                                                         \
    X(FAULT_COUNT, "count", PLAIT_ERR_MISMATCH, true, false, false)           \
    X(FAULT_TYPE, "type", PLAIT_ERR_MISMATCH, true, false, false)             \
    X(FAULT_OPERATOR, "operator", PLAIT_ERR_MISMATCH, true, false, false)     \
    X(FAULT_ALGORITHM, "algorithm", PLAIT_ERR_MISMATCH, true, false, false)   \
    X(FAULT_BARRIER, "barrier", PLAIT_ERR_MISMATCH, true, false, false)       \
    X(FAULT_SWAP, "swap", PLAIT_ERR_MISMATCH, true, false, false)             \
    X(FAULT_KILL, "kill", PLAIT_ERR_PEER, false, false, true)                 \
    X(FAULT_KILL_SEVERAL, "kill-several", PLAIT_ERR_PEER, false, false, true) \
    X(FAULT_STOP, "stop", PLAIT_ERR_TIMEOUT, false, true, true)               \
    X(FAULT_EXIT, "exit", PLAIT_ERR_PEER, false, false, true)                 \
    X(FAULT_LEAVE, "leave", PLAIT_ERR_PEER, false, false, false)              \
    X(FAULT_SILENT, "silent", PLAIT_ERR_TIMEOUT, false, true, false)          \
    X(FAULT_ABSENT, "absent", PLAIT_ERR_TIMEOUT, false, true, false)          \
    X(FAULT_BIRTH, "kill-create", PLAIT_ERR_PEER, false, false, true)         \
    X(FAULT_ABORT, "abort", PLAIT_ERR_FAILED, false, false, false)            \
    X(FAULT_ROOT, "root", PLAIT_ERR_MISMATCH, true, false, false)             \
    X(FAULT_SIZES, "sizes", PLAIT_ERR_MISMATCH, true, false, false)           \
    X(FAULT_CUT, "cut", PLAIT_ERR_TIMEOUT, false, true, false) /* a host's link; only between hosts */

enum fault {
#define X(symbol, name, status, differs, silence, process) symbol,
    FAULT_LIST(X)
#undef X
        NFAULT
};

struct fault_kind {
    const char *name;
    enum plait_status status;
    bool differs, silence, process;
};
extern const struct fault_kind fault_kinds[NFAULT];

/* How ranks live. */
enum mode { MODE_PROCESSES, MODE_THREADS, MODE_MIXED, MODE_HOSTS, NMODE };
extern const char *const mode_names[NMODE];

/* The calls of an injection: two that alternate before the fault, the one it strikes, and what a culprit calls. */
enum { STEP_GOOD, STEP_GOOD_TOO, STEP_STRUCK, STEP_OTHER, NSTEP };

struct injection {
    uint64_t seed;
    enum fault fault;
    enum mode mode;
    uint32_t nrank, nprocess, nthread;
    uint32_t nhost, host[MOST_RANKS]; /* 0: this machine; the host of each rank */
    bool tcp;                         /* UCX is told to use nothing else */
    uint32_t culprits;                /* mask of ranks */
    uint32_t actor;                   /* the culprit that acts; kills take whole processes */
    uint32_t ngood;                   /* operations before the fault */
    uint32_t extra;                   /* of the struck kind, once the fault is near */
    double moment, gap;               /* of the struck operation's duration until the fault; between several */
    unsigned memory;                  /* 0: malloc, 1: the library's, 2: by rank */
    bool abort_first;                 /* survivors abort before they destroy */
    bool resumed;                     /* a stopped process goes on in the end, or is killed */
    bool last;                        /* ranks that return from a call that differed leave; or they call again */
    double deadline, timeout;
    struct collective steps[NSTEP];
};

/* `hosts`: of ranks on virtual hosts. */
void injection_draw(uint64_t seed, bool hosts, struct injection *out);
void injection_print(const struct injection *j, char *text, size_t size);

/* Of the larger buffer on any rank. */
static inline size_t step_bytes(const struct injection *j, int which)
{
    return collective_room(&j->steps[which], j->nrank) * plait_dtype_size(j->steps[which].type);
}

/*
 * May a rank return from the call with success although another called otherwise? So it is where ranks do not hear of
 * each other, and where only two disagree.
 */
static inline bool may_finish(const struct injection *j, int which)
{
    return j->fault == FAULT_SIZES || plait_geometry_of(j->steps[which].coll, 1, 0, 0, 1).rooted;
}

static inline bool is_culprit(const struct injection *j, uint32_t rank)
{
    return j->culprits >> rank & 1;
}

/* Who may be named for what `rank` met: after a cut, the ranks of the other side. */
static inline uint32_t to_blame(const struct injection *j, uint32_t rank)
{
    return j->fault == FAULT_CUT && is_culprit(j, rank) ? ((1u << j->nrank) - 1) & ~j->culprits : j->culprits;
}

/* Ranks that cannot be in the comm made afterwards. */
static inline uint32_t gone(const struct injection *j)
{
    return fault_kinds[j->fault].process || j->fault == FAULT_LEAVE || j->fault == FAULT_ABSENT ? j->culprits : 0;
}

/* Seconds for which a link is down. TCP waits for up to as long again until it tries once more. */
static inline double cut_off(const struct injection *j)
{
    return j->fault == FAULT_CUT ? j->deadline : 0;
}

/* Seconds of silence until it counts as a fault. */
static inline double patience(const struct injection *j)
{
    return !fault_kinds[j->fault].silence ? 0 : j->fault == FAULT_ABSENT ? j->timeout : j->deadline;
}

#define PHASE_LIST(X)                              \
    X(PHASE_START, "starting")                     \
    X(PHASE_CREATE, "creation")                    \
    X(PHASE_GOOD, "an operation before the fault") \
    X(PHASE_STRUCK, "the struck operation")        \
    X(PHASE_AWAY, "no call, by intent")            \
    X(PHASE_DESTROY, "destroy") X(PHASE_AGAIN, "the new comm") X(PHASE_DONE, "nothing: it is done")

enum phase {
#define X(symbol, name) symbol,
    PHASE_LIST(X)
#undef X
};

struct report { /* of one rank */
    _Atomic int phase;
    pid_t pid;
    double entered, returned; /* the call that failed */
    double since;             /* when the call that met the fault was entered; ranks may return from it */
    enum plait_status status; /* of it */
    _Atomic uint64_t number;  /* of it; calls so far */
    uint64_t wrong;           /* calls that returned PLAIT_OK with a wrong result */
    uint64_t untold;          /* calls that returned PLAIT_OK although the arguments differed */
    bool early;               /* the failure came before the fault */
    enum plait_status destroyed, again;
    char text[1024], again_text[512];
};

struct scene {                     /* shared by a worker and its ranks */
    struct plait_unique_id ids[2]; /* of the comm, and of the one afterwards */
    _Atomic int made[2];           /* they are there */
    _Atomic int whole;             /* no link is down */
    _Atomic uint32_t ready;        /* ranks about to create the comm */
    _Atomic uint32_t armed;        /* culprits about to enter the struck operation */
    _Atomic uint32_t failed;       /* ranks that have their error */
    _Atomic uint32_t idle;         /* mask of processes whose ranks are done */
    _Atomic int measure;           /* look for what is left now */
    _Atomic double fault;          /* when; 0: not yet */
    uint64_t aborted;              /* calls of the actor when it aborted */
    double duration;               /* of a struck operation */
    struct report reports[MOST_RANKS];
    char leaks[MOST_RANKS][512]; /* per process; "": none */
    char trouble[256];           /* the run itself: "", or what hung or crashed */
    bool hung, crashed;
};

/* A process's life as ranks [first, first + nthread). Returns when everything was measured. */
void process_main(const struct injection *j, struct scene *s, uint32_t process);

/* Trouble of the campaign itself ends the process. */
void must(bool right, const char *what);

void wait_moment(double seconds);

/* n threads at once, with the elements of an array of `size` bytes each; ends when all have ended. */
void run_threads(uint32_t n, void *(*body)(void *), void *args, size_t size);

/* What a process has and a comm that is gone must not have left. */
struct footprint {
    size_t heap, arena, mapped; /* bytes; mapped: but for the heap's own */
    unsigned descriptors, shared, threads;
    char named[256]; /* a file in /dev/shm or /tmp, open or mapped */
};

struct footprint footprint_measure(uint32_t nthread);
/* `network`: one was used, whose library keeps memory as it likes. */
void footprint_compare(const struct footprint *before, const struct footprint *after, bool network, char *text,
                       size_t size);

/* ---- Hosts --------------------------------------------------------------------------------------------- */

/* The place of a worker's injections: this machine, or hosts that last for all of them. */
struct place {
    struct scene *s;
    struct ground *ground; /* shared with the processes of the hosts; NULL: this machine */
    const char *program;   /* plait-hosts */
    pid_t pid;             /* of it */
    int fd;
};

bool hosts_possible(void);

/* Where PLAIT_PLUGINS does not say it, the plug-in of this build is meant. false: there is none, and why was printed. */
bool hosts_find_plugin(void);

void place_open(const char *program, struct place *out); /* NULL: this machine */
void place_close(struct place *place);

/* Start every process, and know the ids that they have here. A process that has ended did so as waitpid() says. */
void hosts_start(struct place *place, const struct injection *j, pid_t *pids);
bool hosts_ended(struct place *place, uint32_t process, int *how);
void hosts_link(const struct place *place, uint32_t host, bool up);

/* What plait-hosts runs: a process that makes others, one for each injection that has a rank here. */
int agent_main(int fd);

/* Run it. `limit`: seconds after the fault until what still runs is said to hang. */
void injection_run(const struct injection *j, struct place *place, double limit);

#define NSTATUS 6

struct outcome {
    uint64_t seed;
    enum fault fault;
    enum mode mode;
    enum plait_coll coll; /* of the struck operation */
    bool vform, tcp;
    uint32_t nhost;
    /* untold: success where the arguments differed; bad: anything else. */
    bool done, hung, crashed, wrong, untold, late, bad;
    unsigned told[NSTATUS]; /* ranks per status, in the order of outcome_statuses */
    double slowest;         /* seconds from the fault, less the deadline for silence */
    char text[2048];        /* what is wrong, line by line */
};

extern const enum plait_status outcome_statuses[NSTATUS]; /* the last stands for all others */

void injection_judge(const struct injection *j, const struct scene *s, struct outcome *out);

static inline bool outcome_failed(const struct outcome *o)
{
    return o->hung || o->crashed || o->wrong || o->untold || o->late || o->bad;
}

#endif
