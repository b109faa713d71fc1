/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank's processor does one thing at a time: its steps queue for it in the order in which they become ready. Every
 * step carries the longest path to it. A step that waits for the processor continues the path of the step before it
 * there.
 */
#include "simulation.h"

#include <string.h>

#define COPY_TOUCHES   2 /* bytes of memory for each byte copied */
#define REDUCE_TOUCHES 3 /* for each byte of o = a + b; a sum of n operands touches n + 1 */

/* ---- The processor ------------------------------------------------------------------------------------ */

/* The rate at which a job reads other ranks' memory, if it does; else the most that there is. */
static uint64_t reading_rate(const struct simulation *s, const struct member *k, const struct job *j)
{
    const struct plait_instr *in = &k->prog->instrs[j->step];
    uint64_t rate = j->task == READING ? level_of(s, pair_to(k, in))->bandwidth : UINT64_MAX;

    for (uint32_t i = in->source; j->task == REDUCING && i < in->source + in->nsource; i++) {
        if (k->prog->sources[i].borrowed == PLAIT_NONE)
            continue;
        const struct pair *p = pair_from(s, k, &k->prog->instrs[k->prog->sources[i].borrowed]);
        if (by_memory(s, p) && level_of(s, p)->bandwidth < rate)
            rate = level_of(s, p)->bandwidth;
    }
    return rate;
}

/* Units of work of a job: bytes at a speed that it returns, 0: no time. An overhead is picoseconds. */
static uint64_t work_of(const struct simulation *s, const struct member *k, const struct job *j, uint64_t *speed,
                        uint32_t *touched)
{
    const struct plait_machine *m = s->hardware.machine;
    const struct plait_instr *in = &k->prog->instrs[j->step];
    uint64_t work = bytes_of(s, k, j->slot, in);

    *touched = j->task == REDUCING ? REDUCE_TOUCHES : COPY_TOUCHES;
    *speed = j->task == REDUCING ? m->reduce : m->copy;
    if (j->task == SENDING || j->task == TAKING) {
        *touched = 0;
        *speed = PLAIT_PS_PER_S;
        work = level_of(s, pair_to(k, in))->overhead * 1000;
    } else if (j->task == REDUCING) {
        work = work * (in->nsource + 1) / REDUCE_TOUCHES;
    }
    *speed = *speed > 0 ? (*speed * k->speed + 99) / 100 : 0;
    const uint64_t rate = reading_rate(s, k, j);
    if (*speed > 0 ? rate < *speed : rate < UINT64_MAX)
        *speed = rate;
    return work;
}

void plait_sim_run_next(struct simulation *s, struct member *k)
{
    struct plait_use uses[PLAIT_MOST_USES];
    uint64_t speed;
    uint32_t touched, n = 0;

    if (k->runs || k->first == k->end)
        return;
    const uint64_t work = work_of(s, k, &k->jobs[k->first % k->room], &speed, &touched),
                   what = event_of(TASK_ENDS, (uint32_t)(k - s->members), 0, 0);
    const uint64_t least = speed > 0 ? plait_share_duration(work, speed) : 0;
    k->runs = true;
    k->begun = s->now;
    k->busy += least;
    for (uint32_t i = touched > 0 ? 0 : k->own.nmemory; speed > 0 && i < k->own.n; i++) {
        const uint64_t each = i < k->own.nmemory ? touched : PLAIT_PROCESSOR / speed;
        uses[n++] = (struct plait_use){ k->own.use[i].resource, k->own.use[i].weight * each };
    }
    if (n > 0 && work > 0)
        plait_sim_begin(s, uses, n, speed, work, what);
    else
        plait_sim_timer(s, least, what);
}

static bool is_before(const struct member *k, const struct job *a, const struct job *b)
{
    const uint64_t x = k->slots[a->slot].slice, y = k->slots[b->slot].slice;

    if (a->queued != b->queued)
        return a->queued < b->queued;
    if (x != y)
        return x < y;
    return a->step < b->step;
}

static bool make_room(struct member *k)
{
    const uint32_t room = k->room > 0 ? 2 * k->room : 16;
    struct job *jobs;

    if (k->end - k->first < k->room)
        return true;
    if ((jobs = malloc(room * sizeof *jobs)) == NULL)
        return false;
    for (uint32_t i = k->first; i != k->end; i++)
        jobs[i - k->first] = k->jobs[i % k->room];
    free(k->jobs);
    k->jobs = jobs;
    k->end -= k->first;
    k->first = 0;
    k->room = room;
    return true;
}

void plait_sim_queue(struct simulation *s, struct member *k, enum task task, uint32_t slot, uint32_t step,
                     struct moment ready)
{
    const struct job j = { (uint8_t)task, slot, step, s->now, ready };

    if (!make_room(k)) {
        s->failed = true;
        return;
    }
    uint32_t at = k->end++;
    for (; at > k->first + k->runs && is_before(k, &j, &k->jobs[(at - 1) % k->room]); at--)
        k->jobs[at % k->room] = k->jobs[(at - 1) % k->room];
    k->jobs[at % k->room] = j;
    if (!k->listed)
        s->waiting[s->nwaiting++] = (uint32_t)(k - s->members);
    k->listed = true;
}

/* Release the messages that a REDUCE has read in place. */
static void release_sources(struct simulation *s, struct member *k, uint32_t slot, const struct plait_instr *in,
                            struct moment at)
{
    for (uint32_t i = in->source; i < in->source + in->nsource; i++) {
        if (k->prog->sources[i].borrowed == PLAIT_NONE)
            continue;
        const struct plait_instr *recv = &k->prog->instrs[k->prog->sources[i].borrowed];
        plait_sim_release(s, &s->members[pair_to(k, recv)->to], pair_from(s, k, recv), number_of(k, slot, recv), at);
    }
}

static void report(const struct simulation *s, const struct member *k, const struct job *j)
{
    static const enum plait_sim_kind kinds[] = { [SENDING] = PLAIT_SIM_SEND,
                                                 [TAKING] = PLAIT_SIM_RECV,
                                                 [READING] = PLAIT_SIM_RECV,
                                                 [COPYING] = PLAIT_SIM_COPY,
                                                 [REDUCING] = PLAIT_SIM_REDUCE };
    const struct plait_instr *in = &k->prog->instrs[j->step];
    const bool message = in->verb == PLAIT_STEP_SEND || in->verb == PLAIT_STEP_RECV;

    plait_sim_report(s, &(struct plait_sim_event){ .kind = kinds[j->task],
                                                   .rank = k->rank,
                                                   .peer = message ? s->members[pair_to(k, in)->to].rank : k->rank,
                                                   .step = j->step,
                                                   .slice = k->slots[j->slot].slice,
                                                   .start = k->begun,
                                                   .end = s->now,
                                                   .bytes = bytes_of(s, k, j->slot, in) });
}

void plait_sim_end_task(struct simulation *s, struct member *k)
{
    const struct job j = k->jobs[k->first++ % k->room];
    const struct plait_instr *in = &k->prog->instrs[j.step];
    struct moment at = later(j.ready, k->freed);

    k->freed = at = j.task == SENDING || j.task == TAKING ? SINCE(s, at, latency) : SINCE(s, at, compute);
    k->runs = false;
    if (!k->listed)
        s->waiting[s->nwaiting++] = (uint32_t)(k - s->members);
    k->listed = true;
    if (s->options->event != NULL)
        report(s, k, &j);
    if (j.task == SENDING) {
        plait_sim_offer(s, k, &(struct job){ SENDING, j.slot, j.step, s->now, at });
        return;
    }
    if (j.task == TAKING && !in->borrowed && by_memory(s, pair_to(k, in))) {
        plait_sim_queue(s, k, READING, j.slot, j.step, at);
        return;
    }
    if (in->verb == PLAIT_STEP_RECV && !in->borrowed)
        plait_sim_release(s, &s->members[pair_to(k, in)->to], pair_from(s, k, in), number_of(k, j.slot, in), at);
    if (j.task == REDUCING)
        release_sources(s, k, j.slot, in, at);
    plait_sim_complete(s, k, j.slot, j.step, at);
}

/* ---- Steps and slices --------------------------------------------------------------------------------- */

static void become_ready(struct simulation *s, struct member *k, uint32_t slot, uint32_t step)
{
    static const enum task tasks[] = {
        [PLAIT_STEP_SEND] = SENDING, [PLAIT_STEP_COPY] = COPYING, [PLAIT_STEP_REDUCE] = REDUCING
    };
    const struct plait_instr *in = &k->prog->instrs[step];
    struct slot *f = &k->slots[slot];

    f->phase[step] = STARTED;
    if (in->verb == PLAIT_STEP_RECV)
        plait_sim_post(s, k, slot, step);
    else
        plait_sim_queue(s, k, tasks[in->verb], slot, step, f->ready[step]);
}

void plait_sim_complete(struct simulation *s, struct member *k, uint32_t slot, uint32_t step, struct moment at)
{
    struct slot *f = &k->slots[slot];
    const struct plait_instr *in = &k->prog->instrs[step];
    const uint32_t *successors = k->prog->successors + in->successor;

    f->phase[step] = DONE;
    for (uint32_t i = 0; i < in->nsuccessor; i++) {
        f->ready[successors[i]] = later(f->ready[successors[i]], at);
        if (--f->pending[successors[i]] == 0)
            become_ready(s, k, slot, successors[i]);
    }
    struct moment *end = &f->ready[k->prog->ninstr];
    *end = later(*end, at);
    if (++f->done < k->prog->ninstr)
        return;
    if (++k->done == s->nslice) {
        const struct moment last = later((struct moment){ s->out->time, s->out->path }, *end);
        s->out->time = last.time;
        s->out->path = last.path;
        s->members_done++;
    }
    plait_sim_launch(s, k);
}

void plait_sim_launch(struct simulation *s, struct member *k)
{
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
    memset(f->phase, PENDING, p->ninstr);
    for (uint32_t i = 0; i <= p->ninstr; i++)
        f->ready[i] = start;
    for (uint32_t i = 0; i < p->ninstr; i++)
        if (p->ndeps[i] == 0)
            become_ready(s, k, slot, i);
    plait_sim_launch(s, k);
}
