/* SPDX-License-Identifier: BSD-3-Clause */
/* The bound plans of all ranks, run as the engine runs them. */
#include "simulation.h"

#include "base/status.h"
#include "base/system_limits.h"
#include "engine/select.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define USUAL_CACHE ((size_t)1 << 20)

/* Limits: more takes minutes. Each message that begins or ends changes the speeds of those that share its links. */
#define MOST_MESSAGES  (1ull << 26) /* of all ranks in a slice, or of simulated ranks in all slices */
#define MOST_AT_ONCE   (1ull << 23) /* messages of all ranks in flight, for which programs are made */
#define MOST_IN_FLIGHT (1ull << 16) /* messages of simulated ranks in flight */

#define SMALL_MEMORY (16ull << 20)
#define PAIR_BYTES   32 /* of struct plait_programs, and to make it */

static enum plait_status no_memory(const struct simulation *s)
{
    return plait_fail_memory("out of memory to simulate %" PRIu32 " ranks", s->hardware.nrank);
}

/* ---- Activities and timers ---------------------------------------------------------------------------- */

void plait_sim_begin(struct simulation *s, const struct plait_use *uses, uint32_t nuse, uint64_t speed, uint64_t work,
                     uint64_t what)
{
    s->failed |= !plait_share_begin(s->share, s->now, work, speed, uses, nuse, what);
}

void plait_sim_timer(struct simulation *s, uint64_t delay_ps, uint64_t what)
{
    const uint64_t time = s->now + delay_ps;
    uint32_t i = s->ntimer;

    if (!plait_grow((void **)&s->timers, s->ntimer + 1, &s->timer_room, sizeof *s->timers)) {
        s->failed = true;
        return;
    }
    s->ntimer++;
    for (; i > 0 && time < s->timers[(i - 1) / 2].time; i = (i - 1) / 2)
        s->timers[i] = s->timers[(i - 1) / 2];
    s->timers[i] = (struct timer){ time, what };
}

static uint64_t take_timer(struct simulation *s)
{
    const struct timer t = s->timers[--s->ntimer];
    const uint64_t what = s->timers[0].what;
    uint32_t i = 0;

    for (uint32_t child = 1; child < s->ntimer; child = 2 * i + 1) {
        child += child + 1 < s->ntimer && s->timers[child + 1].time < s->timers[child].time;
        if (s->timers[child].time >= t.time)
            break;
        s->timers[i] = s->timers[child];
        i = child;
    }
    s->timers[i] = t;
    return what;
}

/* ---- Running ------------------------------------------------------------------------------------------ */

static void handle(struct simulation *s, uint64_t what)
{
    struct member *k = &s->members[what >> 4 & 0xffffff];
    struct pair *p = &k->to[what >> 28 & 0xffffff];
    const uint32_t window = what >> 52 & 0xff;

    switch ((enum event)(what & 15)) {
    case TASK_ENDS:
        plait_sim_end_task(s, k);
        break;
    case TRANSFER_ENDS:
        plait_sim_end_transfer(s, k, p, window);
        break;
    case ARRIVES:
        plait_sim_arrive(s, k, p, window);
        break;
    case RELEASED:
        plait_sim_end_release(s, k, p, window);
        break;
    }
}

/* Handle all events of this time. Then the processors take jobs, and those that take no time end at once. */
static void handle_now(struct simulation *s)
{
    uint64_t what;

    do {
        while (!s->failed && plait_share_end(s->share, s->now, &what))
            handle(s, what);
        while (!s->failed && s->ntimer > 0 && s->timers[0].time <= s->now)
            handle(s, take_timer(s));
        if (plait_share_due(s->share, s->now))
            continue;
        const uint32_t n = s->nwaiting;
        s->nwaiting = 0;
        for (uint32_t i = 0; i < n; i++) {
            s->members[s->waiting[i]].listed = false;
            plait_sim_run_next(s, &s->members[s->waiting[i]]);
        }
    } while (!s->failed && (plait_share_due(s->share, s->now) || (s->ntimer > 0 && s->timers[0].time <= s->now)));
}

static enum plait_status run(struct simulation *s)
{
    for (uint32_t i = 0; i < s->nmember; i++) {
        s->members_done += s->members[i].prog->ninstr == 0;
        if (s->members[i].prog->ninstr > 0)
            plait_sim_launch(s, &s->members[i]);
    }
    handle_now(s);
    while (!s->failed && s->members_done < s->nmember) {
        const uint64_t end = plait_share_next(s->share, s->now),
                       timer = s->ntimer > 0 ? s->timers[0].time : PLAIT_NEVER;
        if (end == PLAIT_NEVER && timer == PLAIT_NEVER)
            return plait_fail(PLAIT_ERR_PLAN,
                              "plait_simulate: the plan does not end (%" PRIu32 " of %" PRIu32 " ranks)",
                              s->members_done, s->nmember);
        s->now = end < timer ? end : timer;
        handle_now(s);
    }
    return s->failed ? no_memory(s) : PLAIT_OK;
}

/* ---- Callbacks ---------------------------------------------------------------------------------------- */

void plait_sim_report(const struct simulation *s, const struct plait_sim_event *e)
{
    s->options->event(s->options->arg, e);
}

static void report_use(void *simulation, uint32_t resource, uint64_t time, uint64_t rate, uint64_t capacity)
{
    const struct plait_sim_options *o = ((const struct simulation *)simulation)->options;

    o->use(o->arg, &(struct plait_sim_use){ resource, time, rate, capacity });
}

/* ---- Beginning ---------------------------------------------------------------------------------------- */

/* Messages of a pair that can be in flight. */
static uint32_t window_of(const struct simulation *s, uint32_t nsend)
{
    return nsend * s->nslice < PLAIT_WINDOW ? nsend * (uint32_t)s->nslice : PLAIT_WINDOW;
}

static void make_pair(struct simulation *s, uint32_t member, uint32_t index)
{
    struct member *k = &s->members[member];
    struct pair *p = &k->to[index];
    const size_t at = s->programs.first[k->rank] + index;
    struct plait_uses_of u;
    struct plait_use *use;

    p->to = s->classes.of[s->programs.peer[at]];
    p->back = s->programs.back[at];
    p->level = plait_hardware_level(&s->hardware, k->rank, s->programs.peer[at]);
    if (k->prog->nsend[index] == 0)
        return;
    plait_classes_route(&s->classes, &s->programs, &s->hardware, member, index, &u);
    p->nwindow = window_of(s, k->prog->nsend[index]);
    p->window = plait_scratch(&s->arrays, p->nwindow, sizeof *p->window);
    p->line = plait_scratch(&s->arrays, p->nwindow, sizeof *p->line);
    for (uint32_t i = 0; p->window != NULL && i < p->nwindow; i++)
        p->window[i].next = i;
    p->speed = u.speed;
    p->nuse = u.n;
    p->use = use = plait_scratch(&s->arrays, u.n, sizeof *use);
    for (uint32_t i = 0; use != NULL && i < u.n; i++)
        use[i] = u.use[i];
}

static void make_member(struct simulation *s, uint32_t member)
{
    struct member *k = &s->members[member];

    k->rank = s->classes.member[s->classes.begin[member]];
    k->program = &s->programs.programs[s->programs.program[k->rank]];
    k->prog = k->program->prog;
    k->speed = plait_hardware_speed(&s->hardware, k->rank);
    plait_classes_own(&s->classes, &s->hardware, member, &k->own);
    k->to = plait_scratch(&s->arrays, k->program->npeer, sizeof *k->to);
    k->slots = plait_scratch(&s->arrays, s->nslot, sizeof *k->slots);
    for (uint32_t j = 0; !s->arrays.failed && j < k->program->npeer; j++)
        make_pair(s, member, j);
    for (uint32_t i = 0; !s->arrays.failed && i < s->nslot; i++) {
        const size_t n = (size_t)k->prog->ninstr + 1;
        struct slot *f = &k->slots[i];
        f->pending = plait_scratch(&s->arrays, n, sizeof *f->pending);
        f->phase = plait_scratch(&s->arrays, n, sizeof *f->phase);
        f->ready = plait_scratch(&s->arrays, n, sizeof *f->ready);
        f->done = k->prog->ninstr;
    }
}

/* The limits are read from files, which takes longer than a small simulation. */
static enum plait_status check_memory(uint64_t bytes)
{
    return bytes < SMALL_MEMORY ? PLAIT_OK : plait_check_memory(bytes);
}

/* Bytes that the members will take. */
static uint64_t memory_of(const struct simulation *s)
{
    const size_t step = sizeof(uint16_t) + sizeof(uint8_t) + sizeof(struct moment);
    uint64_t n = 0;

    for (uint32_t i = 0; i < s->classes.nclass; i++) {
        const uint32_t rank = s->classes.member[s->classes.begin[i]];
        const struct plait_program *g = &s->programs.programs[s->programs.program[rank]];
        n += sizeof(struct member) + s->nslot * step * g->prog->ninstr;
        for (uint32_t j = 0; j < g->npeer; j++)
            n += sizeof(struct pair) + 64 +
                 window_of(s, g->prog->nsend[j]) * (sizeof(struct message) + sizeof(uint32_t));
    }
    return n;
}

/* Messages of the ranks that are simulated. */
static enum plait_status check_messages(const struct simulation *s, const char *spec, uint64_t depth)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < s->classes.nclass; i++) {
        const uint32_t rank = s->classes.member[s->classes.begin[i]];
        const struct plait_program *g = &s->programs.programs[s->programs.program[rank]];
        for (uint32_t j = 0; j < g->npeer; j++)
            n += g->prog->nsend[j];
    }
    const uint64_t in_flight = n / (depth > 0 ? depth : 1) * s->nslot;
    if (n == 0 || (s->nslice <= MOST_MESSAGES / n && in_flight <= MOST_IN_FLIGHT))
        return PLAIT_OK;
    return plait_fail(PLAIT_ERR_UNSUPPORTED,
                      "plait_simulate: %s of %" PRIu32 " ranks: the %" PRIu32 " that differ send %" PRIu64
                      " messages in each of %" PRIu64 " slices, %" PRIu64
                      " at once; %llu in all and %llu at once are the most. Simulate fewer ranks or a smaller count",
                      spec, s->hardware.nrank, s->classes.nclass, n, s->nslice, in_flight, MOST_MESSAGES,
                      MOST_IN_FLIGHT);
}

static enum plait_status make_members(struct simulation *s)
{
    const enum plait_status status = check_memory(memory_of(s));

    if (status != PLAIT_OK)
        return status;
    s->nmember = s->classes.nclass;
    s->members = plait_scratch(&s->arrays, s->nmember, sizeof *s->members);
    s->waiting = plait_scratch(&s->arrays, s->nmember, sizeof *s->waiting);
    s->resources = plait_scratch(&s->arrays, (size_t)s->classes.nresource + 1, sizeof *s->resources);
    for (uint32_t i = 0; !s->arrays.failed && i < s->classes.nresource; i++)
        s->resources[i].capacity = s->hardware.resources[s->classes.first[i]].capacity;
    for (uint32_t i = 0; !s->arrays.failed && i < s->nmember; i++)
        make_member(s, i);
    if (!s->arrays.failed)
        s->share = plait_share_create(s->resources, s->classes.nresource);
    if (s->share == NULL)
        return no_memory(s);
    if (s->options->use != NULL)
        plait_share_watch(s->share, report_use, s);
    return PLAIT_OK;
}

/* By the claim, as making the programs takes long, too. */
static enum plait_status check_size(const struct simulation *s, const struct plait_selection *c,
                                    const struct plait_shape *shape)
{
    const struct plait_claim claim = c->alg->claim(c->alg, shape);
    const uint64_t moved = claim.sent < claim.received ? claim.sent : claim.received,
                   each = moved > 0 && moved < claim.rounds ? moved : claim.rounds, all = each * s->hardware.nrank,
                   at_once = claim.depth > 0 ? all / claim.depth : all;

    if (all > MOST_MESSAGES || at_once > MOST_AT_ONCE)
        return plait_fail(PLAIT_ERR_UNSUPPORTED,
                          "plait_simulate: %s of %" PRIu32 " ranks sends up to %" PRIu64 " messages, %" PRIu64
                          " at once; %llu and %llu are the most. Simulate fewer ranks",
                          c->alg->name, s->hardware.nrank, all, at_once, MOST_MESSAGES, MOST_AT_ONCE);
    return check_memory(at_once * PAIR_BYTES);
}

static bool is_crowded(const struct plait_hardware *h)
{
    for (uint32_t k = 0; k < h->machine->nlevel; k++)
        if (h->processors[k] != UINT32_MAX)
            return true;
    return false;
}

static enum plait_status select_algorithm(struct simulation *s, const char *spec, struct plait_shape *shape,
                                          enum plait_dtype type, struct plait_selection *out)
{
    const struct plait_machine *m = s->hardware.machine;
    struct plait_wish wish = { .spec_origin = "simulated",
                               .cache = m->cache > 0 ? m->cache : USUAL_CACHE,
                               .remote = plait_has_nodes(shape->node, shape->nrank),
                               .oversubscribed = is_crowded(&s->hardware) };

    enum plait_status status = PLAIT_OK;

    if (s->options->algorithms != NULL)
        wish.algorithms = s->options->algorithms;
    else
        status = plait_alg_list(&wish.algorithms);
    if (status != PLAIT_OK)
        return status;
    snprintf(wish.spec, sizeof wish.spec, "%s", spec);
    return plait_select(shape, s->count, type, &wish, out);
}

static void may_be_busiest(uint64_t time, uint32_t resource, struct plait_prediction *out)
{
    if (time == 0 || time < out->bound || (time == out->bound && resource > out->busiest_resource))
        return;
    out->bound = time;
    out->busiest_resource = resource;
}

/* The busiest resource, and how long it is busy at least. */
static void find_bound(const struct simulation *s, struct plait_prediction *out)
{
    for (uint32_t i = 0; i < s->classes.nresource; i++) {
        const struct plait_resource *r = &s->resources[i];
        may_be_busiest((uint64_t)(r->used * PLAIT_PS_PER_S / r->capacity), s->classes.first[i], out);
    }
    for (uint32_t r = 0; r < s->hardware.nrank; r++)
        may_be_busiest(s->members[s->classes.of[r]].busy, plait_hardware_processor(&s->hardware, r), out);
    if (out->bound > 0)
        plait_machine_resource(s->hardware.machine, out->busiest_resource, out->busiest, sizeof out->busiest);
}

static enum plait_status simulate(struct simulation *s, const char *spec, struct plait_shape *shape,
                                  enum plait_dtype type)
{
    struct plait_selection c;
    enum plait_status status = plait_hardware_shape(&s->hardware, shape, &s->nodes);

    if (status == PLAIT_OK)
        status = select_algorithm(s, spec, shape, type, &c);
    if (status != PLAIT_OK)
        return status;
    s->slice = c.slice;
    s->nslice = s->out->slices = c.nslice;
    s->nslot = c.nslice < PLAIT_NSLICE ? (uint32_t)c.nslice : PLAIT_NSLICE;
    s->size = plait_dtype_size(type);
    s->vector = plait_geometry_of(shape->coll, 1, 0, 0, 1).kind == PLAIT_KIND_VECTOR;
    status = check_size(s, &c, shape);
    if (status == PLAIT_OK)
        status = plait_programs_create(&s->programs, &c, shape);
    if (status == PLAIT_OK)
        status = plait_classes_create(&s->classes, &s->programs, &s->hardware,
                                      s->options->event == NULL && s->options->use == NULL);
    if (status == PLAIT_OK)
        status = check_messages(s, spec, c.alg->claim(c.alg, shape).depth);
    if (status == PLAIT_OK)
        status = make_members(s);
    s->out->simulated = s->nmember;
    if (status == PLAIT_OK)
        status = run(s);
    if (status == PLAIT_OK)
        find_bound(s, s->out);
    return status;
}

static void destroy(struct simulation *s)
{
    for (uint32_t i = 0; i < s->nmember && s->members != NULL; i++) {
        free(s->members[i].jobs);
        free(s->members[i].blocked);
    }
    free(s->timers);
    plait_share_destroy(s->share);
    plait_scratch_free(&s->arrays);
    free(s->nodes);
    plait_classes_destroy(&s->classes);
    plait_programs_destroy(&s->programs);
    plait_hardware_destroy(&s->hardware);
}

enum plait_status plait_simulate(const struct plait_machine *machine, const char *spec, const struct plait_shape *shape,
                                 enum plait_dtype type, size_t count, const struct plait_sim_options *options,
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
    static const struct plait_sim_options usual = { 0 };
    struct simulation s = { .count = count, .options = options != NULL ? options : &usual, .out = &prediction };
    status = plait_hardware_create(&s.hardware, machine, shape->nrank, s.options->place);
    if (status == PLAIT_OK)
        status = simulate(&s, spec, &own, type);
    destroy(&s);
    if (status == PLAIT_OK)
        *out = prediction;
    return status;
}
