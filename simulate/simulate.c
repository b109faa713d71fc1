/* SPDX-License-Identifier: BSD-3-Clause */
/* The bound plans of all ranks, run as the engine runs them. */
#include "simulation.h"

#include "base/status.h"
#include "engine/select.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define USUAL_CACHE ((size_t)1 << 20)

static enum plait_status no_memory(const struct simulation *s)
{
    return plait_fail_memory("out of memory to simulate %" PRIu32 " ranks", s->nrank);
}

/* ---- Activities and timers ---------------------------------------------------------------------------- */

void plait_sim_begin(struct simulation *s, const struct plait_uses_of *u, uint64_t work, uint64_t what)
{
    s->failed |= !plait_share_begin(s->share, s->now, work, u->speed, u->use, u->n, what);
}

static bool is_before(const struct timer *a, const struct timer *b)
{
    return a->time != b->time ? a->time < b->time : a->number < b->number;
}

void plait_sim_timer(struct simulation *s, uint64_t delay_ns, uint64_t what)
{
    struct timer t = { .time = s->now + delay_ns * 1000, .number = s->timers_set++, .what = what };
    uint32_t i = s->ntimer;

    if (!plait_grow((void **)&s->timers, s->ntimer + 1, &s->timer_room, sizeof *s->timers)) {
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

/* ---- Running ------------------------------------------------------------------------------------------ */

static void handle(struct simulation *s, uint64_t what)
{
    const uint32_t rank = what >> 4 & 0xffffff, peer = what >> 28 & 0xffffff, window = what >> 52 & 0xff;

    switch ((enum event)(what & 15)) {
    case TASK_ENDS:
        plait_sim_end_task(s, rank);
        break;
    case TRANSFER_ENDS:
        plait_sim_end_transfer(s, rank, peer, window);
        break;
    case ARRIVES:
        plait_sim_arrive(s, rank, peer, window);
        break;
    case RELEASED:
        plait_sim_end_release(s, rank, peer, window);
        break;
    }
}

static enum plait_status run(struct simulation *s)
{
    uint64_t what;

    for (uint32_t r = 0; r < s->nrank; r++)
        plait_sim_launch(s, r);
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
            k->to[peer].messages = plait_scratch(&s->arrays, PLAIT_WINDOW, sizeof *k->to->messages);
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
