/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of a simulation, for steps.c (a rank's processor and slices), messages.c and simulate.c. */
#ifndef PLAIT_SIMULATE_SIMULATION_H
#define PLAIT_SIMULATE_SIMULATION_H

#include "machine.h"

#include "comm/comm.h"
#include "engine/prog.h"
#include "plan/scratch.h"

enum phase { TODO, STARTED, DONE };                        /* of a step */
enum task { SENDING, TAKING, READING, COPYING, REDUCING }; /* of a processor */
enum event { TASK_ENDS, TRANSFER_ENDS, ARRIVES, RELEASED };

struct moment { /* when something happened, and the longest path to it */
    uint64_t time;
    struct plait_path path;
};

struct message { /* a message in the window of a pair of ranks */
    uint32_t number;
    bool busy, moves, arrived;
    uint32_t slot, step; /* of the SEND */
    uint64_t bytes;
    struct moment at; /* offered; then arrived */
};

struct pair {                 /* messages from one rank to another */
    struct message *messages; /* [PLAIT_WINDOW] */
    uint32_t level;
};

struct slot { /* a slice in flight */
    uint64_t slice;
    size_t elements;
    uint32_t done;
    uint16_t *pending;
    uint8_t *phase;
    struct moment *ready;
};

struct job {
    uint8_t task;
    uint32_t slot, step;
    struct moment ready;
};

struct rank {
    struct plait_prog *prog;
    uint32_t **recv_of;  /* [peer] step of each message of a slice; NULL: none */
    struct pair *to;     /* [nrank] */
    struct slot *slots;  /* [nslot] */
    uint64_t next, done; /* slices begun and done */
    struct job *jobs;    /* [room] a ring: job[first % room] runs or waits for the processor */
    uint32_t first, end, room;
    bool runs;
    uint64_t begun;      /* when the running job began */
    struct job *blocked; /* SENDs that wait for room in the window */
    uint32_t nblocked;
    size_t blocked_room;
};

struct timer {
    uint64_t time, number;
    uint64_t what;
    struct moment sent; /* what happens `time - sent.time` earlier */
};

struct simulation {
    struct plait_hardware hardware;
    struct plait_share *share;
    struct plait_scratch arrays;
    struct rank *ranks;
    struct plait_prog **progs; /* [nrank] */
    uint32_t nrank, nslot;
    uint64_t nslice;
    size_t slice, count, size;
    bool vector;
    uint64_t now;
    struct timer *timers;
    uint32_t ntimer;
    size_t timer_room;
    uint64_t timers_set;
    struct plait_prediction *out;
    uint32_t ranks_done;
    bool failed; /* out of memory */
};

/* ---- Moments ---------------------------------------------------------------------------------------- */

static inline struct moment later(struct moment a, struct moment b)
{
    return a.time >= b.time ? a : b;
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

static inline const struct plait_instr *instr_of(const struct simulation *s, uint32_t r, uint32_t step)
{
    return &s->ranks[r].prog->instrs[step];
}

static inline uint64_t bytes_of(const struct simulation *s, uint32_t r, uint32_t slot, const struct plait_instr *in)
{
    const struct plait_prog *p = s->ranks[r].prog;
    const size_t n = s->ranks[r].slots[slot].elements;
    const size_t elements =
        s->vector ? plait_block_start(n, p->nblk, in->blk + in->nblk) - plait_block_start(n, p->nblk, in->blk)
                  : in->nblk * n;

    return elements * (in->wide ? sizeof(float) : s->size);
}

static inline uint32_t number_of(const struct simulation *s, uint32_t r, uint32_t slot, const struct plait_instr *in)
{
    const struct rank *k = &s->ranks[r];
    const uint32_t each = in->verb == PLAIT_STEP_SEND ? k->prog->nsend[in->peer] : k->prog->nrecv[in->peer];

    return (uint32_t)k->slots[slot].slice * each + in->message;
}

static inline struct message *message_of(const struct simulation *s, uint32_t from, uint32_t to, uint32_t number)
{
    return &s->ranks[from].to[to].messages[number % PLAIT_WINDOW];
}

static inline bool by_memory(const struct simulation *s, uint32_t from, uint32_t to)
{
    return s->ranks[from].to[to].level == 0 && s->hardware.machine->level[0].links == 0;
}

static inline uint64_t latency_of(const struct simulation *s, uint32_t from, uint32_t to)
{
    return s->hardware.machine->level[s->ranks[from].to[to].level].latency;
}

/* ---- What the end of an activity or a timer is about ---------------------------------------------- */

/* event: 3 bits; rank and the pair's other rank: 20 each; window: 4. */
static inline uint64_t event_of(enum event e, uint32_t rank, uint32_t peer, uint32_t window)
{
    return (uint64_t)e | (uint64_t)rank << 4 | (uint64_t)peer << 28 | (uint64_t)window << 52;
}

/* simulate.c */
void plait_sim_begin(struct simulation *s, const struct plait_uses_of *u, uint64_t work, uint64_t what);
void plait_sim_timer(struct simulation *s, uint64_t delay_ns, uint64_t what);

/* steps.c */
void plait_sim_launch(struct simulation *s, uint32_t r); /* the next slice, if its place is free */
void plait_sim_complete(struct simulation *s, uint32_t r, uint32_t slot, uint32_t step, struct moment at);
void plait_sim_queue(struct simulation *s, uint32_t r, enum task task, uint32_t slot, uint32_t step,
                     struct moment ready);
void plait_sim_end_task(struct simulation *s, uint32_t r);

/* messages.c: a SEND's processor time is over; a RECV has started; the receiver needs the message no more */
void plait_sim_offer(struct simulation *s, uint32_t r, const struct job *j);
void plait_sim_post(struct simulation *s, uint32_t r, uint32_t slot, uint32_t step);
void plait_sim_release(struct simulation *s, uint32_t from, uint32_t to, uint32_t number, struct moment at);
void plait_sim_end_transfer(struct simulation *s, uint32_t from, uint32_t to, uint32_t window);
void plait_sim_arrive(struct simulation *s, uint32_t from, uint32_t to, uint32_t window);
void plait_sim_end_release(struct simulation *s, uint32_t from, uint32_t to, uint32_t window);

#endif
