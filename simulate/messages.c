/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages. Through memory, the receiver reads the sender's data; through links, the data moves once both sides are
 * there, or at once if it is small.
 */
#include "simulation.h"

static uint64_t event_for(const struct simulation *s, enum event e, const struct member *from, const struct pair *p,
                          const struct message *m)
{
    return event_of(e, (uint32_t)(from - s->members), (uint32_t)(p - from->to), (uint32_t)(m - p->window));
}

static bool is_posted(const struct simulation *s, const struct pair *p, uint32_t number, uint32_t *slot, uint32_t *step)
{
    const struct member *k = &s->members[p->to];
    const uint32_t each = k->prog->nrecv[p->back];
    const uint64_t slice = number / each;

    *slot = (uint32_t)(slice % s->nslot);
    *step = k->program->recv[p->back][number % each];
    return slice < k->next && k->slots[*slot].slice == slice && k->slots[*slot].phase[*step] == STARTED;
}

static void move_first(struct simulation *s, const struct member *from, struct pair *p)
{
    struct message *m = &p->window[p->line[p->first]];

    m->begun = s->now;
    plait_sim_begin(s, p->use, p->nuse, p->speed, m->bytes, event_for(s, TRANSFER_ENDS, from, p, m));
}

/* Messages of a pair have one connection, so they move one after the other. */
static void transfer(struct simulation *s, const struct member *from, struct pair *p, struct message *m,
                     struct moment at)
{
    m->moves = true;
    m->at = at;
    p->line[(p->first + p->nline++) % p->nwindow] = (uint32_t)(m - p->window);
    if (p->nline == 1)
        move_first(s, from, p);
}

/* The message has arrived and its RECV has started. */
static void deliver(struct simulation *s, struct member *k, uint32_t slot, uint32_t step, struct moment at)
{
    k->slots[slot].phase[step] = DONE; /* not posted any more */
    plait_sim_queue(s, k, TAKING, slot, step, at);
}

void plait_sim_offer(struct simulation *s, struct member *k, const struct job *j)
{
    const struct plait_instr *in = &k->prog->instrs[j->step];
    const uint32_t number = number_of(k, j->slot, in);
    struct pair *p = pair_to(k, in);
    struct message *m = message_of(p, number);
    uint32_t slot, step;

    if (m->busy || m->next != number) {
        if (!plait_grow((void **)&k->blocked, k->nblocked + 1, &k->blocked_room, sizeof *k->blocked)) {
            s->failed = true;
            return;
        }
        k->blocked[k->nblocked++] = *j;
        return;
    }
    const struct moment at = SINCE(s, j->ready, waiting);
    *m = (struct message){
        .number = number, .next = number, .busy = true, .slot = j->slot, .step = j->step, .begun = s->now, .at = at
    };
    m->bytes = bytes_of(s, k, j->slot, in);
    s->out->messages += plait_class_size(&s->classes, (uint32_t)(k - s->members));
    s->out->bytes += m->bytes * plait_class_size(&s->classes, (uint32_t)(k - s->members));
    if (by_memory(s, p))
        plait_sim_timer(s, level_of(s, p)->latency * 1000, event_for(s, ARRIVES, k, p, m));
    else if (is_eager(s, p, m))
        transfer(s, k, p, m, at);
    else if (is_posted(s, p, number, &slot, &step))
        transfer(s, k, p, m, later(at, s->members[p->to].slots[slot].ready[step]));
    if (is_eager(s, p, m))
        plait_sim_complete(s, k, j->slot, j->step, at);
}

void plait_sim_post(struct simulation *s, struct member *k, uint32_t slot, uint32_t step)
{
    const struct plait_instr *in = &k->prog->instrs[step];
    const uint32_t number = number_of(k, slot, in);
    struct pair *p = pair_from(s, k, in);
    struct message *m = message_of(p, number);
    const struct moment ready = k->slots[slot].ready[step];

    if (!m->busy || m->number != number)
        return;
    if (m->arrived)
        deliver(s, k, slot, step, later(ready, m->at));
    else if (!m->moves && !by_memory(s, p))
        transfer(s, &s->members[pair_to(k, in)->to], p, m, later(ready, m->at));
}

void plait_sim_end_transfer(struct simulation *s, struct member *from, struct pair *p, uint32_t window)
{
    struct message *m = &p->window[window];

    m->at = SINCE(s, m->at, transfer);
    p->first = (p->first + 1) % p->nwindow;
    if (--p->nline > 0)
        move_first(s, from, p);
    plait_sim_timer(s, level_of(s, p)->latency * 1000, event_for(s, ARRIVES, from, p, m));
    if (!is_eager(s, p, m))
        plait_sim_complete(s, from, m->slot, m->step, m->at);
}

static void report(const struct simulation *s, const struct member *from, const struct pair *p, const struct message *m)
{
    const uint32_t each = from->prog->nsend[p - from->to];

    plait_sim_report(s, &(struct plait_sim_event){ .kind = PLAIT_SIM_TRANSFER,
                                                   .rank = from->rank,
                                                   .peer = s->members[p->to].rank,
                                                   .step = m->step,
                                                   .slice = m->number / each,
                                                   .start = m->begun,
                                                   .end = s->now,
                                                   .bytes = m->bytes });
}

void plait_sim_arrive(struct simulation *s, struct member *from, struct pair *p, uint32_t window)
{
    struct message *m = &p->window[window];
    uint32_t slot, step;

    m->at = SINCE(s, m->at, latency);
    m->arrived = true;
    if (s->options->event != NULL)
        report(s, from, p, m);
    if (is_posted(s, p, m->number, &slot, &step))
        deliver(s, &s->members[p->to], slot, step, later(m->at, s->members[p->to].slots[slot].ready[step]));
}

/* Free the slot; blocked SENDs try again. */
static void free_place(struct simulation *s, struct member *k, const struct pair *p, struct message *m)
{
    const uint32_t n = k->nblocked;

    m->busy = false;
    m->next += p->nwindow;
    k->nblocked = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct job j = k->blocked[i];
        plait_sim_offer(s, k, &j);
    }
}

/* Through memory, the sender learns of it later. */
void plait_sim_release(struct simulation *s, struct member *from, struct pair *p, uint32_t number, struct moment at)
{
    struct message *m = message_of(p, number);

    if (by_memory(s, p)) {
        m->at = at;
        plait_sim_timer(s, level_of(s, p)->latency * 1000, event_for(s, RELEASED, from, p, m));
        return;
    }
    free_place(s, from, p, m);
}

void plait_sim_end_release(struct simulation *s, struct member *from, struct pair *p, uint32_t window)
{
    struct message *m = &p->window[window];
    const struct message done = *m;

    if (!is_eager(s, p, &done))
        plait_sim_complete(s, from, done.slot, done.step, SINCE(s, done.at, latency));
    free_place(s, from, p, m);
}
