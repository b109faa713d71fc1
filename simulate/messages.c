/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages. Through memory, the receiver reads the sender's data; through links, the data moves once both sides are
 * there, or at once if it is small.
 */
#include "simulation.h"

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

static void transfer(struct simulation *s, uint32_t from, uint32_t to, struct message *m, struct moment at)
{
    struct plait_uses_of u;

    m->moves = true;
    m->at = at;
    plait_hardware_route(&s->hardware, from, to, &u);
    plait_sim_begin(s, &u, m->bytes, event_of(TRANSFER_ENDS, from, to, m->number % PLAIT_WINDOW));
}

/* The message has arrived and its RECV has started. */
static void deliver(struct simulation *s, uint32_t to, uint32_t slot, uint32_t step, struct moment at)
{
    s->ranks[to].slots[slot].phase[step] = DONE; /* not posted any more */
    plait_sim_queue(s, to, TAKING, slot, step, at);
}

void plait_sim_offer(struct simulation *s, uint32_t r, const struct job *j)
{
    const struct plait_instr *in = instr_of(s, r, j->step);
    const uint32_t to = (uint32_t)in->peer, number = number_of(s, r, j->slot, in);
    struct message *m = message_of(s, r, to, number);
    struct rank *k = &s->ranks[r];
    uint32_t slot, step;

    if (m->busy) {
        if (!plait_grow((void **)&k->blocked, k->nblocked + 1, &k->blocked_room, sizeof *k->blocked)) {
            s->failed = true;
            return;
        }
        k->blocked[k->nblocked++] = *j;
        return;
    }
    const struct moment at = SINCE(s, j->ready, waiting);
    *m = (struct message){ .number = number, .busy = true, .slot = j->slot, .step = j->step, .at = at };
    m->bytes = bytes_of(s, r, j->slot, in);
    s->out->messages++;
    s->out->bytes += m->bytes;
    const bool eager = m->bytes <= s->hardware.machine->eager;
    if (by_memory(s, r, to))
        plait_sim_timer(s, latency_of(s, r, to), event_of(ARRIVES, r, to, number % PLAIT_WINDOW));
    else if (eager)
        transfer(s, r, to, m, at);
    else if (is_posted(s, r, to, number, &slot, &step))
        transfer(s, r, to, m, later(at, s->ranks[to].slots[slot].ready[step]));
    if (eager)
        plait_sim_complete(s, r, j->slot, j->step, at);
}

void plait_sim_post(struct simulation *s, uint32_t r, uint32_t slot, uint32_t step)
{
    const struct plait_instr *in = instr_of(s, r, step);
    const uint32_t from = (uint32_t)in->peer, number = number_of(s, r, slot, in);
    struct message *m = message_of(s, from, r, number);
    const struct moment ready = s->ranks[r].slots[slot].ready[step];

    if (!m->busy || m->number != number)
        return;
    if (m->arrived)
        deliver(s, r, slot, step, later(ready, m->at));
    else if (!m->moves && !by_memory(s, from, r))
        transfer(s, from, r, m, later(ready, m->at));
}

void plait_sim_end_transfer(struct simulation *s, uint32_t from, uint32_t to, uint32_t window)
{
    struct message *m = &s->ranks[from].to[to].messages[window];

    m->at = SINCE(s, m->at, transfer);
    plait_sim_timer(s, latency_of(s, from, to), event_of(ARRIVES, from, to, window));
    if (m->bytes > s->hardware.machine->eager)
        plait_sim_complete(s, from, m->slot, m->step, m->at);
}

void plait_sim_arrive(struct simulation *s, uint32_t from, uint32_t to, uint32_t window)
{
    struct message *m = &s->ranks[from].to[to].messages[window];
    uint32_t slot, step;

    m->at = SINCE(s, m->at, latency);
    m->arrived = true;
    if (is_posted(s, from, to, m->number, &slot, &step))
        deliver(s, to, slot, step, m->at);
}

/* There is room in a window of the rank's. */
static void offer_blocked(struct simulation *s, uint32_t r)
{
    struct rank *k = &s->ranks[r];
    const uint32_t n = k->nblocked;

    k->nblocked = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct job j = k->blocked[i];
        plait_sim_offer(s, r, &j);
    }
}

/* Through memory, the sender learns of it later. */
void plait_sim_release(struct simulation *s, uint32_t from, uint32_t to, uint32_t number, struct moment at)
{
    struct message *m = message_of(s, from, to, number);

    if (by_memory(s, from, to)) {
        m->at = at;
        plait_sim_timer(s, latency_of(s, from, to), event_of(RELEASED, from, to, number % PLAIT_WINDOW));
        return;
    }
    m->busy = false;
    offer_blocked(s, from);
}

void plait_sim_end_release(struct simulation *s, uint32_t from, uint32_t to, uint32_t window)
{
    struct message *m = &s->ranks[from].to[to].messages[window];
    const struct message done = *m;

    m->busy = false;
    if (done.bytes > s->hardware.machine->eager)
        plait_sim_complete(s, from, done.slot, done.step, SINCE(s, done.at, latency));
    offer_blocked(s, from);
}
