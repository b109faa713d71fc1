/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank's processor does one thing at a time: its steps queue for it in the order in which they become ready. Every
 * step carries the longest path to it.
 */
#include "simulation.h"

#include <string.h>

#define COPY_TOUCHES   2 /* bytes of memory for each byte copied */
#define REDUCE_TOUCHES 3 /* for each byte added: o = a + b */

/* ---- The processor ------------------------------------------------------------------------------------ */

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
    plait_sim_begin(s, &u, work, event_of(TASK_ENDS, r, 0, 0));
}

void plait_sim_queue(struct simulation *s, uint32_t r, enum task task, uint32_t slot, uint32_t step,
                     struct moment ready)
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
        plait_sim_release(s, (uint32_t)recv->peer, r, number_of(s, r, slot, recv), at);
    }
}

void plait_sim_end_task(struct simulation *s, uint32_t r)
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
        plait_sim_offer(s, r, &(struct job){ SENDING, j.slot, j.step, at });
        break;
    case TAKING:
        if (by_memory(s, (uint32_t)in->peer, r) && !in->borrowed) {
            plait_sim_queue(s, r, READING, j.slot, j.step, at);
            break;
        }
        if (!in->borrowed)
            plait_sim_release(s, (uint32_t)in->peer, r, number_of(s, r, j.slot, in), at);
        plait_sim_complete(s, r, j.slot, j.step, at);
        break;
    case READING:
        plait_sim_release(s, (uint32_t)in->peer, r, number_of(s, r, j.slot, in), at);
        plait_sim_complete(s, r, j.slot, j.step, at);
        break;
    case REDUCING:
        release_sources(s, r, j.slot, in, at);
        plait_sim_complete(s, r, j.slot, j.step, at);
        break;
    case COPYING:
        plait_sim_complete(s, r, j.slot, j.step, at);
        break;
    }
    run_next(s, r);
}

/* ---- Steps and slices --------------------------------------------------------------------------------- */

static void become_ready(struct simulation *s, uint32_t r, uint32_t slot, uint32_t step)
{
    struct slot *f = &s->ranks[r].slots[slot];
    const struct plait_instr *in = instr_of(s, r, step);

    f->phase[step] = STARTED;
    switch ((enum plait_verb)in->verb) {
    case PLAIT_STEP_SEND:
        plait_sim_queue(s, r, SENDING, slot, step, f->ready[step]);
        break;
    case PLAIT_STEP_RECV:
        plait_sim_post(s, r, slot, step);
        break;
    case PLAIT_STEP_COPY:
        plait_sim_queue(s, r, COPYING, slot, step, f->ready[step]);
        break;
    case PLAIT_STEP_REDUCE:
        plait_sim_queue(s, r, REDUCING, slot, step, f->ready[step]);
        break;
    case PLAIT_NVERB:
        break;
    }
}

void plait_sim_complete(struct simulation *s, uint32_t r, uint32_t slot, uint32_t step, struct moment at)
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
    plait_sim_launch(s, r);
}

void plait_sim_launch(struct simulation *s, uint32_t r)
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
    plait_sim_launch(s, r);
}
