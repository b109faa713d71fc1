/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of a simulation, for steps.c (a rank's processor and slices), messages.c and simulate.c. A *member* is the
 * lowest rank of a class and stands for all of it.
 *
 * Events of one time are handled in any order with the same result: a processor takes the jobs that become ready then
 * by slice and step, and of equally long paths one is chosen by a fixed order. So a simulation of one member for each
 * class gives the result of all ranks.
 */
#ifndef PLAIT_SIMULATE_SIMULATION_H
#define PLAIT_SIMULATE_SIMULATION_H

#include "classes.h"
#include "machine.h"
#include "programs.h"

#include "comm/comm.h"
#include "plan/scratch.h"

enum phase { PENDING, STARTED, DONE };                     /* of a step */
enum task { SENDING, TAKING, READING, COPYING, REDUCING }; /* of a processor */
enum event { TASK_ENDS, TRANSFER_ENDS, ARRIVES, RELEASED };

struct moment { /* when something happened, and the longest path to it */
    uint64_t time;
    struct plait_path path;
};

struct message { /* a message in the window of a pair of ranks */
    uint32_t number;
    uint32_t next; /* the number of the message whose turn it is here */
    bool busy, moves, arrived;
    uint32_t slot, step; /* of the SEND */
    uint64_t bytes, begun;
    struct moment at; /* offered; then arrived */
};

struct pair {          /* messages to a peer */
    uint32_t to, back; /* the peer, and this rank's index among its peers */
    uint32_t level;    /* that joins both */
    uint32_t nwindow;  /* messages in flight */
    struct message *window;
    uint32_t *line, first, nline; /* [nwindow] a ring: indices in the window; the first moves, the others wait for it */
    uint64_t speed;
    uint32_t nuse;
    const struct plait_use *use; /* links */
};

struct slot { /* a slice in flight */
    uint64_t slice;
    size_t elements;
    uint32_t done;
    uint32_t *pending;
    uint8_t *phase;
    struct moment *ready;
};

struct job {
    uint8_t task;
    uint32_t slot, step;
    uint64_t queued;
    struct moment ready;
};

struct member {
    const struct plait_program *program;
    const struct plait_prog *prog;
    uint32_t rank, speed;     /* speed: in percent */
    struct plait_uses_of own; /* memory and processors */
    struct pair *to;          /* [npeer] */
    struct slot *slots;       /* [nslot] */
    uint64_t next, done;      /* slices begun and done */
    struct job *jobs;         /* [room] a ring: job[first % room] runs, if `runs`; the others wait */
    uint32_t first, end, room;
    bool runs, listed;    /* listed: in simulation.waiting */
    uint64_t begun, busy; /* when the running job began; what all jobs take at least */
    struct moment freed;  /* when the last job ended */
    struct job *blocked;  /* SENDs that wait for room in the window */
    uint32_t nblocked;
    size_t blocked_room;
};

struct timer {
    uint64_t time, what;
};

struct simulation {
    struct plait_hardware hardware;
    struct plait_programs programs;
    struct plait_classes classes;
    struct plait_resource *resources; /* [classes.nresource] */
    struct plait_share *share;
    struct plait_scratch arrays;
    uint32_t *nodes; /* and levels, of the shape */
    const struct plait_sim_options *options;
    struct member *members; /* [nmember] */
    uint32_t nmember, nslot;
    uint64_t nslice;
    size_t slice, count, size;
    bool vector;
    uint64_t now;
    struct timer *timers; /* a heap */
    uint32_t ntimer;
    size_t timer_room;
    uint32_t *waiting, nwaiting; /* members whose processors may take a job */
    struct plait_prediction *out;
    uint32_t members_done;
    bool failed; /* out of memory */
};

/* ---- Moments ---------------------------------------------------------------------------------------- */

static inline bool is_larger(const struct plait_path *a, const struct plait_path *b)
{
    if (a->latency != b->latency)
        return a->latency > b->latency;
    if (a->transfer != b->transfer)
        return a->transfer > b->transfer;
    return a->compute > b->compute; /* then they differ in nothing */
}

static inline struct moment later(struct moment a, struct moment b)
{
    return a.time > b.time || (a.time == b.time && is_larger(&a.path, &b.path)) ? a : b;
}

/* The moment `now`, after `from`; what happened in between is counted as *part. */
static inline struct moment since(const struct simulation *s, struct moment from, size_t part)
{
    uint64_t *field = (uint64_t *)(void *)((char *)&from.path + part);

    *field += s->now - from.time;
    from.time = s->now;
    return from;
}

#define SINCE(s, from, part) since(s, from, offsetof(struct plait_path, part))

/* ---- Steps and messages ----------------------------------------------------------------------------- */

/* Blocks are equal: of a vector, as large as the largest. */
static inline uint64_t bytes_of(const struct simulation *s, const struct member *k, uint32_t slot,
                                const struct plait_instr *in)
{
    const size_t n = k->slots[slot].elements,
                 elements = s->vector ? (in->nblk * n + k->prog->nblk - 1) / k->prog->nblk : in->nblk * n;

    return elements * (in->wide ? sizeof(float) : s->size);
}

static inline uint32_t number_of(const struct member *k, uint32_t slot, const struct plait_instr *in)
{
    const uint32_t each = in->verb == PLAIT_STEP_SEND ? k->prog->nsend[in->peer] : k->prog->nrecv[in->peer];

    return (uint32_t)k->slots[slot].slice * each + in->message;
}

/* The pair of a SEND of member `k`, or of a RECV. */
static inline struct pair *pair_to(const struct member *k, const struct plait_instr *in)
{
    return &k->to[in->peer];
}

static inline struct pair *pair_from(const struct simulation *s, const struct member *k, const struct plait_instr *in)
{
    return &s->members[k->to[in->peer].to].to[k->to[in->peer].back];
}

static inline struct message *message_of(const struct pair *p, uint32_t number)
{
    return &p->window[number % p->nwindow];
}

static inline const struct plait_level *level_of(const struct simulation *s, const struct pair *p)
{
    return &s->hardware.machine->level[p->level];
}

static inline bool by_memory(const struct simulation *s, const struct pair *p)
{
    return level_of(s, p)->links == 0;
}

static inline bool is_eager(const struct simulation *s, const struct pair *p, const struct message *m)
{
    return m->bytes <= level_of(s, p)->eager;
}

/* ---- What the end of an activity or a timer is about ---------------------------------------------- */

/* event: 4 bits; member and the index of the peer: 24 each; window: 8. */
static inline uint64_t event_of(enum event e, uint32_t member, uint32_t index, uint32_t window)
{
    return (uint64_t)e | (uint64_t)member << 4 | (uint64_t)index << 28 | (uint64_t)window << 52;
}

/* simulate.c */
void plait_sim_begin(struct simulation *s, const struct plait_use *uses, uint32_t nuse, uint64_t speed, uint64_t work,
                     uint64_t what);
void plait_sim_timer(struct simulation *s, uint64_t delay_ps, uint64_t what);
void plait_sim_report(const struct simulation *s, const struct plait_sim_event *e);

/* steps.c */
void plait_sim_launch(struct simulation *s, struct member *k); /* the next slice, if its place is free */
void plait_sim_complete(struct simulation *s, struct member *k, uint32_t slot, uint32_t step, struct moment at);
void plait_sim_queue(struct simulation *s, struct member *k, enum task task, uint32_t slot, uint32_t step,
                     struct moment ready);
void plait_sim_run_next(struct simulation *s, struct member *k);
void plait_sim_end_task(struct simulation *s, struct member *k);

/* messages.c: a SEND's processor time is over; a RECV has started; the receiver needs the message no more */
void plait_sim_offer(struct simulation *s, struct member *k, const struct job *j);
void plait_sim_post(struct simulation *s, struct member *k, uint32_t slot, uint32_t step);
void plait_sim_release(struct simulation *s, struct member *from, struct pair *p, uint32_t number, struct moment at);
void plait_sim_end_transfer(struct simulation *s, struct member *from, struct pair *p, uint32_t window);
void plait_sim_arrive(struct simulation *s, struct member *from, struct pair *p, uint32_t window);
void plait_sim_end_release(struct simulation *s, struct member *from, struct pair *p, uint32_t window);

#endif
