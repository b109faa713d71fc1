/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bound plans of all ranks, run as the engine runs them. A rank's processor does one thing at a time: its steps
 * queue for it in the order in which they become ready. Every step carries the longest path to it.
 */
#include "machine.h"

#include "base/status.h"
#include "comm/comm.h"
#include "engine/prog.h"
#include "engine/select.h"
#include "plan/scratch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NONE           UINT32_MAX
#define USUAL_CACHE    ((size_t)1 << 20)
#define COPY_TOUCHES   2 /* bytes of memory for each byte copied */
#define REDUCE_TOUCHES 3 /* for each byte added: o = a + b */

enum phase { TODO, STARTED, DONE };                        /* of a step */
enum task { SENDING, TAKING, READING, COPYING, REDUCING }; /* of a processor */
enum event { TASK_ENDS, TRANSFER_ENDS, ARRIVES, RELEASED };

struct moment { /* when something happened, and the longest path to it */
    uint64_t time;
    struct plait_path path;
};

struct letter { /* a message in the window of a pair of ranks */
    uint32_t number;
    bool busy, moves, arrived;
    uint32_t slot, step; /* of the SEND */
    uint64_t bytes;
    struct moment at; /* offered; then arrived */
};

struct pair {               /* messages from one rank to another */
    struct letter *letters; /* [PLAIT_WINDOW] */
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
    uint32_t nblocked, blocked_room;
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
    uint32_t ntimer, timer_room;
    uint64_t timers_set;
    struct plait_prediction *out;
    uint32_t ranks_done;
    bool failed; /* out of memory */
};

static enum plait_status no_memory(const struct simulation *s)
{
    return plait_fail_memory("out of memory to simulate %" PRIu32 " ranks", s->nrank);
}

/* ---- Moments ---------------------------------------------------------------------------------------- */

static struct moment later(struct moment a, struct moment b)
{
    return a.time >= b.time ? a : b;
}

/* The moment `now`, after `from`; what happened in between is counted as *part. */
static struct moment since(const struct simulation *s, struct moment from, size_t part)
{
    uint64_t *field = (uint64_t *)(void *)((char *)&from.path + part);

    *field += s->now - from.time;
    from.time = s->now;
    return from;
}

#define SINCE(s, from, part) since(s, from, offsetof(struct plait_path, part))

/* ---- Events: what the end of an activity or a timer is about ------------------------------------------- */

/* event: 3 bits; rank and the pair's other rank: 20 each; window: 4. */
static uint64_t event_of(enum event e, uint32_t rank, uint32_t peer, uint32_t window)
{
    return (uint64_t)e | (uint64_t)rank << 4 | (uint64_t)peer << 28 | (uint64_t)window << 52;
}

static void begin(struct simulation *s, const struct plait_uses_of *u, uint64_t work, uint64_t what)
{
    s->failed |= !plait_share_begin(s->share, s->now, work, u->speed, u->use, u->n, what);
}

static bool is_before(const struct timer *a, const struct timer *b)
{
    return a->time != b->time ? a->time < b->time : a->number < b->number;
}

static void set_timer(struct simulation *s, uint64_t delay_ns, uint64_t what)
{
    struct timer t = { .time = s->now + delay_ns * 1000, .number = s->timers_set++, .what = what };
    uint32_t i = s->ntimer;

    if (!plait_grow((void **)&s->timers, s->ntimer, &s->timer_room, sizeof *s->timers)) {
        s->failed = true;
        return;
    }
    s->ntimer++;
    for (; i > 0 && is_before(&t, &s->timers[(i - 1) / 2]); i = (i - 1) / 2)
        s->timers[i] = s->timers[(i - 1) / 2];
    s->timers[i] = t;
}

static struct timer take_timer(struct simulation *s)
{
    const struct timer first = s->timers[0], t = s->timers[--s->ntimer];
    uint32_t i = 0;

    for (uint32_t child = 1; child < s->ntimer; child = 2 * i + 1) {
        child += child + 1 < s->ntimer && is_before(&s->timers[child + 1], &s->timers[child]);
        if (!is_before(&s->timers[child], &t))
            break;
        s->timers[i] = s->timers[child];
        i = child;
    }
    s->timers[i] = t;
    return first;
}

/* ---- Steps ------------------------------------------------------------------------------------------ */

static void become_ready(struct simulation *s, uint32_t r, uint32_t slot, uint32_t step);
static void launch(struct simulation *s, uint32_t r);
static void offer(struct simulation *s, uint32_t r, const struct job *j);
static void release(struct simulation *s, uint32_t from, uint32_t to, uint32_t number, struct moment at);

static const struct plait_instr *instr_of(const struct simulation *s, uint32_t r, uint32_t step)
{
    return &s->ranks[r].prog->instrs[step];
}

static uint64_t bytes_of(const struct simulation *s, uint32_t r, uint32_t slot, const struct plait_instr *in)
{
    const struct plait_prog *p = s->ranks[r].prog;
    const size_t n = s->ranks[r].slots[slot].elements;
    const size_t elements =
        s->vector ? plait_block_start(n, p->nblk, in->blk + in->nblk) - plait_block_start(n, p->nblk, in->blk)
                  : in->nblk * n;

    return elements * (in->wide ? sizeof(float) : s->size);
}

static uint32_t number_of(const struct simulation *s, uint32_t r, uint32_t slot, const struct plait_instr *in)
{
    const struct rank *k = &s->ranks[r];
    const uint32_t each = in->verb == PLAIT_STEP_SEND ? k->prog->nsend[in->peer] : k->prog->nrecv[in->peer];

    return (uint32_t)k->slots[slot].slice * each + in->message;
}

static struct letter *letter_of(const struct simulation *s, uint32_t from, uint32_t to, uint32_t number)
{
    return &s->ranks[from].to[to].letters[number % PLAIT_WINDOW];
}

static bool by_memory(const struct simulation *s, uint32_t from, uint32_t to)
{
    return s->ranks[from].to[to].level == 0 && s->hardware.machine->level[0].links == 0;
}

static uint64_t latency_of(const struct simulation *s, uint32_t from, uint32_t to)
{
    return s->hardware.machine->level[s->ranks[from].to[to].level].latency;
}

static void complete(struct simulation *s, uint32_t r, uint32_t slot, uint32_t step, struct moment at)
{
    struct rank *k = &s->ranks[r];
    struct slot *f = &k->slots[slot];
    const struct plait_instr *in = instr_of(s, r, step);
    const uint32_t *successors = k->prog->successors + in->successor;

    f->phase[step] = DONE;
    for (uint32_t i = 0; i < in->nsuccessor; i++) {
        f->ready[successors[i]] = later(f->ready[successors[i]], at);
        if (--f->pending[successors[i]] == 0)
            become_ready(s, r, slot, successors[i]);
    }
    if (++f->done < k->prog->ninstr)
        return;
    f->ready[k->prog->ninstr] = later(f->ready[k->prog->ninstr], at);
    if (++k->done == s->nslice && ++s->ranks_done == s->nrank) {
        s->out->time = at.time;
        s->out->path = at.path;
    }
    launch(s, r);
}

/* ---- A rank's processor ------------------------------------------------------------------------------- */

static void run_next(struct simulation *s, uint32_t r)
{
    struct rank *k = &s->ranks[r];
    const struct plait_machine *m = s->hardware.machine;
    struct plait_uses_of u;

    if (k->runs || k->first == k->end)
        return;
    const struct job *j = &k->jobs[k->first % k->room];
    const struct plait_instr *in = instr_of(s, r, j->step);
    uint64_t work = bytes_of(s, r, j->slot, in), speed = m->copy;

    k->runs = true;
    k->begun = s->now;
    if (j->task == SENDING || j->task == TAKING) {
        plait_hardware_work(&s->hardware, r, PLAIT_PS_PER_S, 0, &u);
        work = m->overhead * 1000;
    } else {
        if (j->task == READING && (speed == 0 || m->level[0].bandwidth < speed))
            speed = m->level[0].bandwidth;
        if (j->task == REDUCING) {
            speed = m->reduce;
            work *= in->nsource - 1;
        }
        work = speed > 0 ? work : 0;
        plait_hardware_work(&s->hardware, r, speed > 0 ? speed : 1, j->task == REDUCING ? REDUCE_TOUCHES : COPY_TOUCHES,
                            &u);
    }
    begin(s, &u, work, event_of(TASK_ENDS, r, 0, 0));
}

static void queue(struct simulation *s, uint32_t r, enum task task, uint32_t slot, uint32_t step, struct moment ready)
{
    struct rank *k = &s->ranks[r];

    if (k->end - k->first == k->room) {
        const uint32_t room = k->room > 0 ? 2 * k->room : 16;
        struct job *jobs = malloc(room * sizeof *jobs);
        if (jobs == NULL) {
            s->failed = true;
            return;
        }
        for (uint32_t i = k->first; i != k->end; i++)
            jobs[i - k->first] = k->jobs[i % k->room];
        free(k->jobs);
        k->jobs = jobs;
        k->end -= k->first;
        k->first = 0;
        k->room = room;
    }
    k->jobs[k->end++ % k->room] = (struct job){ (uint8_t)task, slot, step, ready };
    run_next(s, r);
}

/* Release the messages that a REDUCE has read in place. */
static void release_sources(struct simulation *s, uint32_t r, uint32_t slot, const struct plait_instr *in,
                            struct moment at)
{
    const struct plait_prog *p = s->ranks[r].prog;

    for (uint32_t i = in->source; i < in->source + in->nsource; i++) {
        if (p->sources[i].borrowed == PLAIT_NONE)
            continue;
        const struct plait_instr *recv = &p->instrs[p->sources[i].borrowed];
        release(s, (uint32_t)recv->peer, r, number_of(s, r, slot, recv), at);
    }
}

static void end_task(struct simulation *s, uint32_t r)
{
    struct rank *k = &s->ranks[r];
    const struct job j = k->jobs[k->first++ % k->room];
    const struct plait_instr *in = instr_of(s, r, j.step);
    struct moment at = j.ready;

    at.path.waiting += k->begun - j.ready.time;
    at.time = k->begun;
    at = j.task == SENDING || j.task == TAKING ? SINCE(s, at, latency) : SINCE(s, at, compute);
    k->runs = false;
    switch ((enum task)j.task) {
    case SENDING:
        offer(s, r, &(struct job){ SENDING, j.slot, j.step, at });
        break;
    case TAKING:
        if (by_memory(s, (uint32_t)in->peer, r) && !in->borrowed) {
            queue(s, r, READING, j.slot, j.step, at);
            break;
        }
        if (!in->borrowed)
            release(s, (uint32_t)in->peer, r, number_of(s, r, j.slot, in), at);
        complete(s, r, j.slot, j.step, at);
        break;
    case READING:
        release(s, (uint32_t)in->peer, r, number_of(s, r, j.slot, in), at);
        complete(s, r, j.slot, j.step, at);
        break;
    case REDUCING:
        release_sources(s, r, j.slot, in, at);
        complete(s, r, j.slot, j.step, at);
        break;
    case COPYING:
        complete(s, r, j.slot, j.step, at);
        break;
    }
    run_next(s, r);
}

/* ---- Messages ----------------------------------------------------------------------------------------- */

static bool is_posted(const struct simulation *s, uint32_t from, uint32_t to, uint32_t number, uint32_t *slot,
                      uint32_t *step)
{
    const struct rank *k = &s->ranks[to];
    const uint32_t each = k->prog->nrecv[from];
    const uint64_t slice = number / each;

    *slot = (uint32_t)(slice % s->nslot);
    *step = k->recv_of[from][number % each];
    return slice < k->next && k->slots[*slot].slice == slice && k->slots[*slot].phase[*step] == STARTED;
}

static void transfer(struct simulation *s, uint32_t from, uint32_t to, struct letter *l, struct moment at)
{
    struct plait_uses_of u;

    l->moves = true;
    l->at = at;
    plait_hardware_route(&s->hardware, from, to, &u);
    begin(s, &u, l->bytes, event_of(TRANSFER_ENDS, from, to, l->number % PLAIT_WINDOW));
}

/* The message has arrived and its RECV has started. */
static void deliver(struct simulation *s, uint32_t to, uint32_t slot, uint32_t step, struct moment at)
{
    s->ranks[to].slots[slot].phase[step] = DONE; /* not posted any more */
    queue(s, to, TAKING, slot, step, at);
}

static void offer(struct simulation *s, uint32_t r, const struct job *j)
{
    const struct plait_instr *in = instr_of(s, r, j->step);
    const uint32_t to = (uint32_t)in->peer, number = number_of(s, r, j->slot, in);
    struct letter *l = letter_of(s, r, to, number);
    struct rank *k = &s->ranks[r];
    uint32_t slot, step;

    if (l->busy) {
        if (!plait_grow((void **)&k->blocked, k->nblocked, &k->blocked_room, sizeof *k->blocked)) {
            s->failed = true;
            return;
        }
        k->blocked[k->nblocked++] = *j;
        return;
    }
    const struct moment at = SINCE(s, j->ready, waiting);
    *l = (struct letter){ .number = number, .busy = true, .slot = j->slot, .step = j->step, .at = at };
    l->bytes = bytes_of(s, r, j->slot, in);
    s->out->messages++;
    s->out->bytes += l->bytes;
    const bool eager = l->bytes <= s->hardware.machine->eager;
    if (by_memory(s, r, to))
        set_timer(s, latency_of(s, r, to), event_of(ARRIVES, r, to, number % PLAIT_WINDOW));
    else if (eager)
        transfer(s, r, to, l, at);
    else if (is_posted(s, r, to, number, &slot, &step))
        transfer(s, r, to, l, later(at, s->ranks[to].slots[slot].ready[step]));
    if (eager)
        complete(s, r, j->slot, j->step, at);
}

static void post(struct simulation *s, uint32_t r, uint32_t slot, uint32_t step)
{
    const struct plait_instr *in = instr_of(s, r, step);
    const uint32_t from = (uint32_t)in->peer, number = number_of(s, r, slot, in);
    struct letter *l = letter_of(s, from, r, number);
    const struct moment ready = s->ranks[r].slots[slot].ready[step];

    if (!l->busy || l->number != number)
        return;
    if (l->arrived)
        deliver(s, r, slot, step, later(ready, l->at));
    else if (!l->moves && !by_memory(s, from, r))
        transfer(s, from, r, l, later(ready, l->at));
}

static void end_transfer(struct simulation *s, uint32_t from, uint32_t to, uint32_t window)
{
    struct letter *l = &s->ranks[from].to[to].letters[window];

    l->at = SINCE(s, l->at, transfer);
    set_timer(s, latency_of(s, from, to), event_of(ARRIVES, from, to, window));
    if (l->bytes > s->hardware.machine->eager)
        complete(s, from, l->slot, l->step, l->at);
}

static void arrive(struct simulation *s, uint32_t from, uint32_t to, uint32_t window)
{
    struct letter *l = &s->ranks[from].to[to].letters[window];
    uint32_t slot, step;

    l->at = SINCE(s, l->at, latency);
    l->arrived = true;
    if (is_posted(s, from, to, l->number, &slot, &step))
        deliver(s, to, slot, step, l->at);
}

/* The receiver needs the message no more: there is room in the window, and what it read in place may change. */
static void release(struct simulation *s, uint32_t from, uint32_t to, uint32_t number, struct moment at)
{
    struct letter *l = letter_of(s, from, to, number);

    if (by_memory(s, from, to)) {
        l->at = at;
        set_timer(s, latency_of(s, from, to), event_of(RELEASED, from, to, number % PLAIT_WINDOW));
        return;
    }
    l->busy = false;
    struct rank *k = &s->ranks[from];
    const uint32_t n = k->nblocked;
    k->nblocked = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct job j = k->blocked[i];
        offer(s, from, &j);
    }
}

static void end_release(struct simulation *s, uint32_t from, uint32_t to, uint32_t window)
{
    struct rank *k = &s->ranks[from];
    struct letter *l = &k->to[to].letters[window];
    const uint32_t n = k->nblocked;

    l->at = SINCE(s, l->at, latency);
    l->busy = false;
    const struct letter done = *l;
    if (done.bytes > s->hardware.machine->eager)
        complete(s, from, done.slot, done.step, done.at);
    k->nblocked = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct job j = k->blocked[i];
        offer(s, from, &j);
    }
}

/* ---- Slices ------------------------------------------------------------------------------------------- */

static void become_ready(struct simulation *s, uint32_t r, uint32_t slot, uint32_t step)
{
    struct slot *f = &s->ranks[r].slots[slot];
    const struct plait_instr *in = instr_of(s, r, step);

    f->phase[step] = STARTED;
    switch ((enum plait_verb)in->verb) {
    case PLAIT_STEP_SEND:
        queue(s, r, SENDING, slot, step, f->ready[step]);
        break;
    case PLAIT_STEP_RECV:
        post(s, r, slot, step);
        break;
    case PLAIT_STEP_COPY:
        queue(s, r, COPYING, slot, step, f->ready[step]);
        break;
    case PLAIT_STEP_REDUCE:
        queue(s, r, REDUCING, slot, step, f->ready[step]);
        break;
    case PLAIT_NVERB:
        break;
    }
}

/* Begin the next slice, if its place is free. */
static void launch(struct simulation *s, uint32_t r)
{
    struct rank *k = &s->ranks[r];
    const struct plait_prog *p = k->prog;
    const uint32_t slot = (uint32_t)(k->next % s->nslot);
    struct slot *f = &k->slots[slot];

    if (k->next == s->nslice || f->done < p->ninstr)
        return;
    const struct moment start = SINCE(s, f->ready[p->ninstr], waiting); /* since the end of the slice before */
    const size_t first = k->next * s->slice, left = s->count - first;
    f->slice = k->next++;
    f->elements = left < s->slice ? left : s->slice;
    f->done = 0;
    memcpy(f->pending, p->ndeps, p->ninstr * sizeof *f->pending);
    memset(f->phase, TODO, p->ninstr);
    for (uint32_t i = 0; i <= p->ninstr; i++)
        f->ready[i] = start;
    for (uint32_t i = 0; i < p->ninstr; i++)
        if (p->ndeps[i] == 0)
            become_ready(s, r, slot, i);
    launch(s, r);
}

/* ---- Running ------------------------------------------------------------------------------------------ */

static void handle(struct simulation *s, uint64_t what)
{
    const uint32_t rank = what >> 4 & 0xffffff, peer = what >> 28 & 0xffffff, window = what >> 52 & 0xff;

    switch ((enum event)(what & 15)) {
    case TASK_ENDS:
        end_task(s, rank);
        break;
    case TRANSFER_ENDS:
        end_transfer(s, rank, peer, window);
        break;
    case ARRIVES:
        arrive(s, rank, peer, window);
        break;
    case RELEASED:
        end_release(s, rank, peer, window);
        break;
    }
}

static enum plait_status run(struct simulation *s)
{
    uint64_t what;

    for (uint32_t r = 0; r < s->nrank; r++)
        launch(s, r);
    while (!s->failed && s->ranks_done < s->nrank) {
        const uint64_t end = plait_share_next(s->share, s->now),
                       timer = s->ntimer > 0 ? s->timers[0].time : PLAIT_NEVER;
        if (end == PLAIT_NEVER && timer == PLAIT_NEVER)
            return plait_fail(PLAIT_ERR_PLAN,
                              "plait_simulate: the plan does not end (%" PRIu32 " of %" PRIu32 " ranks)", s->ranks_done,
                              s->nrank);
        s->now = end < timer ? end : timer;
        while (plait_share_end(s->share, s->now, &what))
            handle(s, what);
        while (s->ntimer > 0 && s->timers[0].time <= s->now)
            handle(s, take_timer(s).what);
    }
    return s->failed ? no_memory(s) : PLAIT_OK;
}

/* ---- Beginning ---------------------------------------------------------------------------------------- */

static void make_pairs(struct simulation *s, uint32_t r)
{
    struct rank *k = &s->ranks[r];
    const struct plait_prog *p = k->prog;

    k->to = plait_scratch(&s->arrays, s->nrank, sizeof *k->to);
    k->recv_of = plait_scratch(&s->arrays, s->nrank, sizeof *k->recv_of);
    for (uint32_t peer = 0; !s->arrays.failed && peer < s->nrank; peer++) {
        if (p->nsend[peer] > 0) {
            k->to[peer].letters = plait_scratch(&s->arrays, PLAIT_WINDOW, sizeof *k->to->letters);
            k->to[peer].level = plait_hardware_level(&s->hardware, r, peer);
        }
        if (p->nrecv[peer] > 0)
            k->recv_of[peer] = plait_scratch(&s->arrays, p->nrecv[peer], sizeof **k->recv_of);
    }
    for (uint32_t i = 0; !s->arrays.failed && i < p->ninstr; i++)
        if (p->instrs[i].verb == PLAIT_STEP_RECV)
            k->recv_of[p->instrs[i].peer][p->instrs[i].message] = i;
}

static void make_slots(struct simulation *s, uint32_t r)
{
    struct rank *k = &s->ranks[r];
    const uint32_t n = k->prog->ninstr + 1;

    k->slots = plait_scratch(&s->arrays, s->nslot, sizeof *k->slots);
    for (uint32_t i = 0; !s->arrays.failed && i < s->nslot; i++) {
        struct slot *f = &k->slots[i];
        f->pending = plait_scratch(&s->arrays, n, sizeof *f->pending);
        f->phase = plait_scratch(&s->arrays, n, sizeof *f->phase);
        f->ready = plait_scratch(&s->arrays, n, sizeof *f->ready);
        f->done = k->prog->ninstr;
    }
}

static enum plait_status make_ranks(struct simulation *s, const struct plait_selection *c,
                                    const struct plait_shape *shape)
{
    enum plait_status status = PLAIT_OK;

    s->ranks = plait_scratch(&s->arrays, s->nrank, sizeof *s->ranks);
    s->progs = plait_scratch(&s->arrays, s->nrank, sizeof(struct plait_prog *));
    if (!s->arrays.failed)
        status = plait_progs_create(c->alg, c->spec, shape, c->round, false, s->progs);
    for (uint32_t r = 0; !s->arrays.failed && r < s->nrank && status == PLAIT_OK; r++) {
        s->ranks[r].prog = s->progs[r];
        make_pairs(s, r);
        make_slots(s, r);
    }
    return s->arrays.failed ? no_memory(s) : status;
}

/* The nodes of the ranks: units of level 0. */
static enum plait_status find_nodes(struct simulation *s, struct plait_shape *shape)
{
    uint32_t *node;

    if (shape->node != NULL || s->hardware.machine->nlevel == 1)
        return PLAIT_OK;
    node = plait_scratch(&s->arrays, s->nrank, sizeof *node);
    if (node == NULL)
        return no_memory(s);
    for (uint32_t r = 0; r < s->nrank; r++) {
        const uint32_t place = s->hardware.place != NULL ? s->hardware.place[r] : r;
        node[r] = place / s->hardware.machine->level[0].children;
    }
    shape->node = node;
    return PLAIT_OK;
}

static enum plait_status select_algorithm(struct simulation *s, const char *spec, struct plait_shape *shape,
                                          enum plait_dtype type, struct plait_selection *out)
{
    const struct plait_machine *m = s->hardware.machine;
    struct plait_wish wish = { .algorithms = plait_algs,
                               .spec_origin = "simulated",
                               .cache = m->cache > 0 ? m->cache : USUAL_CACHE,
                               .remote = plait_has_nodes(shape->node, shape->nrank),
                               .oversubscribed = m->processors > 0 && m->processors < m->level[0].children };

    snprintf(wish.spec, sizeof wish.spec, "%s", spec);
    return plait_select(shape, s->count, type, &wish, out);
}

/* The busiest resource, and how long it is busy at least. */
static void find_bound(const struct simulation *s, struct plait_prediction *out)
{
    const struct plait_hardware *h = &s->hardware;

    for (uint32_t i = 0; i < h->nresource; i++) {
        const struct plait_resource *r = &h->resources[i];
        const uint64_t time = (uint64_t)(r->used * PLAIT_PS_PER_S / r->capacity);
        if (time > out->bound) {
            out->bound = time;
            plait_hardware_name(h, i, out->busiest, sizeof out->busiest);
        }
    }
}

static enum plait_status simulate(struct simulation *s, const char *spec, struct plait_shape *shape,
                                  enum plait_dtype type)
{
    struct plait_selection c;
    enum plait_status status = find_nodes(s, shape);

    if (status == PLAIT_OK)
        status = select_algorithm(s, spec, shape, type, &c);
    if (status != PLAIT_OK)
        return status;
    s->slice = c.slice;
    s->nslice = s->out->slices = c.nslice;
    s->nslot = c.nslice < PLAIT_NSLICE ? (uint32_t)c.nslice : PLAIT_NSLICE;
    s->size = plait_dtype_size(type);
    s->vector = plait_geometry_of(shape->coll, 1, 0, 0, 1).kind == PLAIT_KIND_VECTOR;
    status = make_ranks(s, &c, shape);
    if (status == PLAIT_OK && (s->share = plait_share_create(s->hardware.resources, s->hardware.nresource)) == NULL)
        status = no_memory(s);
    if (status == PLAIT_OK)
        status = run(s);
    if (status == PLAIT_OK)
        find_bound(s, s->out);
    return status;
}

static void destroy(struct simulation *s)
{
    for (uint32_t r = 0; s->progs != NULL && r < s->nrank; r++) {
        plait_prog_destroy(s->progs[r]);
        free(s->ranks[r].jobs);
        free(s->ranks[r].blocked);
    }
    free(s->timers);
    plait_share_destroy(s->share);
    plait_scratch_free(&s->arrays);
    plait_hardware_destroy(&s->hardware);
}

enum plait_status plait_simulate(const struct plait_machine *machine, const char *spec, const struct plait_shape *shape,
                                 enum plait_dtype type, size_t count, const uint32_t *place,
                                 struct plait_prediction *out)
{
    enum plait_status status = plait_machine_check(machine);

    if (status == PLAIT_OK && (spec == NULL || out == NULL))
        status = plait_fail(PLAIT_ERR_ARG, "plait_simulate: %s is NULL", spec == NULL ? "spec" : "out");
    if (status == PLAIT_OK)
        status = plait_shape_check("plait_simulate", shape);
    if (status == PLAIT_OK && ((unsigned)type >= PLAIT_NDTYPE || count >> 47 > 0))
        status = plait_fail(PLAIT_ERR_ARG, "plait_simulate: type %d, count %zu: an unknown type, or more than 2^47",
                            (int)type, count);
    if (status != PLAIT_OK)
        return status;
    struct plait_shape own = *shape;
    struct plait_prediction prediction = { 0 };
    struct simulation s = { .nrank = shape->nrank, .count = count, .out = &prediction };
    status = plait_hardware_create(&s.hardware, machine, shape->nrank, place);
    if (status == PLAIT_OK)
        status = simulate(&s, spec, &own, type);
    destroy(&s);
    if (status == PLAIT_OK)
        *out = prediction;
    return status;
}
