/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The builder: turns moves in program order into a plan.
 *
 * An emitter writes moves as if they ran one after the other. For every slot of every buffer, the builder keeps the
 * last step that wrote the slot and the steps that have read it since. From these it derives the dependencies of each
 * new step: read after write, write after read, write after write. In place, slots of IN and OUT that hold the same
 * block are one slot. Errors are sticky: the builder keeps the first and ignores all later calls, so emitters contain
 * no error handling.
 */
#include <plait/plan.h>

#include "base/status.h"
#include "check/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct plait_span) == 4, "a span is one word");
_Static_assert(sizeof(struct plait_step) == 32, "two steps per cache line");
_Static_assert(offsetof(struct plait_plan, step) == 36, "a plan has no padding, so that equal ones have equal bytes");

struct reader { /* a step that read a slot since its last write */
    uint32_t step, next;
};

struct slot {
    uint32_t writer; /* last step that wrote the slot, or PLAIT_NONE */
    uint32_t reader; /* head of the list of readers, or PLAIT_NONE */
};

struct plait_builder {
    const struct plait_alg *alg;
    const struct plait_shape *shape;
    struct plait_geometry geometry;
    const struct plait_plan *as; /* instead of the moves, or NULL */
    uint32_t lane;
    enum plait_status status;

    struct slot *slots; /* OUT, then IN (unused where a slot of IN aliases one of OUT), then TMP */
    struct reader *readers;
    uint32_t nreader;
    struct plait_step *steps;
    uint32_t *deps;
    size_t cslot, creader, cstep, cdep; /* capacities */
    struct plait_plan head;             /* last member: it ends in a flexible array, which stays empty */
};

static void fail(struct plait_builder *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void fail(struct plait_builder *b, const char *format, ...)
{
    char what[128];
    va_list args;

    if (b->status != PLAIT_OK)
        return;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    b->status = plait_fail(PLAIT_ERR_PLAN, "%s, %u ranks: rank %u step %u: %s", b->alg->name, b->shape->nrank,
                           b->head.rank, b->head.nstep, what);
}

/* Makes room for n elements. False, with the sticky error set, when memory is short. */
static bool reserve(struct plait_builder *b, void **array, size_t n, size_t *capacity, size_t size)
{
    const bool fits = plait_grow(array, n, capacity, size);

    if (!fits && b->status == PLAIT_OK)
        b->status = plait_fail_memory("%s: out of memory for a plan of %u steps", b->alg->name, b->head.nstep);
    return fits;
}

static struct slot *slot_at(struct plait_builder *b, struct plait_span s, uint32_t i)
{
    return &b->slots[plait_place(&b->geometry, b->shape->inplace, s, i)];
}

static bool same_place(struct plait_builder *b, struct plait_span x, struct plait_span y, uint32_t nblk)
{
    for (uint32_t i = 0; i < nblk; i++)
        if (slot_at(b, x, i) != slot_at(b, y, i))
            return false;
    return true;
}

static void depend(struct plait_builder *b, uint32_t on)
{
    if (on == PLAIT_NONE || on == b->head.nstep)
        return;
    if (reserve(b, (void **)&b->deps, (size_t)b->head.ndep + 1, &b->cdep, sizeof *b->deps))
        b->deps[b->head.ndep++] = on;
}

static void read_span(struct plait_builder *b, struct plait_span s, uint32_t nblk)
{
    for (uint32_t i = 0; i < nblk; i++) {
        struct slot *slot = slot_at(b, s, i);
        depend(b, slot->writer);
        if (!reserve(b, (void **)&b->readers, (size_t)b->nreader + 1, &b->creader, sizeof *b->readers))
            return;
        b->readers[b->nreader] = (struct reader){ b->head.nstep, slot->reader };
        slot->reader = b->nreader++;
    }
}

static void write_span(struct plait_builder *b, struct plait_span s, uint32_t nblk)
{
    for (uint32_t i = 0; i < nblk; i++) {
        struct slot *slot = slot_at(b, s, i);
        depend(b, slot->writer);
        for (uint32_t r = slot->reader; r != PLAIT_NONE; r = b->readers[r].next)
            depend(b, b->readers[r].step);
        *slot = (struct slot){ b->head.nstep, PLAIT_NONE };
    }
}

static int by_number(const void *x, const void *y)
{
    const uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    return (a > b) - (a < b);
}

uint32_t plait_tidy_deps(uint32_t *deps, uint32_t n)
{
    uint32_t kept = 0;

    qsort(deps, n, sizeof *deps, by_number);
    for (uint32_t i = 0; i < n; i++)
        if (kept == 0 || deps[kept - 1] != deps[i])
            deps[kept++] = deps[i];
    return kept;
}

static void add(struct plait_builder *b, struct plait_step step)
{
    const struct plait_uses *uses = &plait_verb_uses[step.verb];
    const char *fault;

    if (b->status != PLAIT_OK)
        return;
    if (b->head.nblk == 0)
        return fail(b, "a move before plait_blocks()");
    step.lane = (uint8_t)b->lane;
    if ((fault = plait_step_fault(&b->head, &b->geometry, &step)) != NULL)
        return fail(b, "it %s", fault);
    if (step.verb == PLAIT_STEP_COPY && same_place(b, step.dst, step.a, step.nblk))
        return;
    if (!reserve(b, (void **)&b->steps, (size_t)b->head.nstep + 1, &b->cstep, sizeof *b->steps))
        return;

    step.dep0 = b->head.ndep;
    if (uses->a)
        read_span(b, step.a, step.nblk);
    if (uses->b)
        read_span(b, step.b, step.nblk);
    if (uses->dst)
        write_span(b, step.dst, step.nblk);
    if (b->head.ndep > step.dep0)
        b->head.ndep = step.dep0 + plait_tidy_deps(b->deps + step.dep0, b->head.ndep - step.dep0);
    if (b->head.ndep - step.dep0 > UINT16_MAX)
        return fail(b, "a step waits for more than 65535 others");
    step.ndep = (uint16_t)(b->head.ndep - step.dep0);
    b->steps[b->head.nstep++] = step;
}

/* Appends n untouched slots to the `had` existing ones. */
static void add_slots(struct plait_builder *b, size_t had, size_t n)
{
    if (!reserve(b, (void **)&b->slots, had + n, &b->cslot, sizeof *b->slots))
        return;
    for (size_t i = had; i < had + n; i++)
        b->slots[i] = (struct slot){ PLAIT_NONE, PLAIT_NONE };
}

void plait_blocks(struct plait_builder *b, uint32_t nblk, uint32_t ntmp)
{
    if (b->status != PLAIT_OK)
        return;
    if (b->head.nblk != 0)
        return fail(b, "plait_blocks() twice");
    if (nblk == 0 || nblk >= 1u << 30)
        return fail(b, "a plan has 1 to 2^30-1 blocks");
    if (ntmp > PLAIT_MOST_SLOTS)
        return fail(b, "plait_blocks(): ntmp is %u; a plan has at most %u", ntmp, PLAIT_MOST_SLOTS);
    b->geometry = plait_geometry_of(b->shape->coll, b->shape->nrank, b->shape->root, b->head.rank, nblk);
    if (b->geometry.kind != PLAIT_KIND_VECTOR && nblk != plait_block_count(b->shape->coll, b->shape->nrank))
        return fail(b, "the collective has another number of blocks (plait_block_count)");
    if (b->geometry.kind == PLAIT_KIND_VECTOR && nblk > PLAIT_MOST_SLOTS)
        return fail(b, "plait_blocks(): nblk of a vector is %u; a plan has at most %u", nblk, PLAIT_MOST_SLOTS);
    b->head.nblk = nblk;
    add_slots(b, 0, (size_t)b->geometry.out.nslot + b->geometry.in.nslot + ntmp);
    b->head.ntmp = ntmp;
}

uint32_t plait_slots(struct plait_builder *b, uint32_t n)
{
    const uint32_t first = b->head.ntmp;

    if (b->status != PLAIT_OK)
        return 0;
    if (b->head.nblk == 0) {
        fail(b, "plait_slots() before plait_blocks()");
        return 0;
    }
    if (n > PLAIT_MOST_SLOTS - first) {
        fail(b, "plait_slots(): the number of TMP slots with n is %llu; a plan has at most %u",
             (unsigned long long)first + n, PLAIT_MOST_SLOTS);
        return 0;
    }
    add_slots(b, (size_t)b->geometry.out.nslot + b->geometry.in.nslot + first, n);
    b->head.ntmp += n;
    return first;
}

void plait_emit_send(struct plait_builder *b, uint32_t peer, struct plait_span from, uint32_t blk, uint32_t nblk)
{
    add(b, (struct plait_step){ .verb = PLAIT_STEP_SEND, .peer = (int32_t)peer, .a = from, .blk = blk, .nblk = nblk });
}

void plait_emit_recv(struct plait_builder *b, uint32_t peer, struct plait_span to, uint32_t blk, uint32_t nblk)
{
    add(b, (struct plait_step){ .verb = PLAIT_STEP_RECV, .peer = (int32_t)peer, .dst = to, .blk = blk, .nblk = nblk });
}

void plait_emit_copy(struct plait_builder *b, struct plait_span to, struct plait_span from, uint32_t blk, uint32_t nblk)
{
    add(b, (struct plait_step){ .verb = PLAIT_STEP_COPY, .peer = -1, .dst = to, .a = from, .blk = blk, .nblk = nblk });
}

void plait_emit_reduce(struct plait_builder *b, struct plait_span to, struct plait_span x, struct plait_span y,
                       uint32_t blk, uint32_t nblk)
{
    add(b, (struct plait_step){
               .verb = PLAIT_STEP_REDUCE, .peer = -1, .dst = to, .a = x, .b = y, .blk = blk, .nblk = nblk });
}

void plait_lane(struct plait_builder *b, uint32_t lane)
{
    if (lane >= UINT8_MAX) /* plan->nlane is one byte */
        return fail(b, "more than 255 lanes");
    b->lane = lane;
    if (lane >= b->head.nlane)
        b->head.nlane = (uint8_t)(lane + 1);
}

void plait_emit_plan(struct plait_builder *b, const struct plait_plan *plan)
{
    b->head.nblk = plan->nblk;
    b->as = plan;
}

enum plait_status plait_plan_assemble(const struct plait_plan *head, const struct plait_step *steps,
                                      const uint32_t *deps, struct plait_plan **out)
{
    const uint64_t bytes = sizeof *head + (uint64_t)head->nstep * sizeof *steps + (uint64_t)head->ndep * sizeof *deps;
    struct plait_plan *plan = bytes <= UINT32_MAX ? malloc(bytes) : NULL;

    if (plan == NULL)
        return plait_fail_memory("no memory for a plan of %u steps", head->nstep);
    *plan = *head;
    plan->bytes = (uint32_t)bytes;
    if (head->nstep > 0)
        memcpy(plan->step, steps, head->nstep * sizeof *steps);
    if (head->ndep > 0)
        memcpy(plan->step + head->nstep, deps, head->ndep * sizeof *deps);
    *out = plan;
    return PLAIT_OK;
}

enum plait_status plait_plan_emit(const struct plait_alg *alg, const struct plait_shape *shape, uint32_t rank,
                                  struct plait_plan **out)
{
    if (alg == NULL || shape == NULL || out == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_plan_emit: %s is NULL",
                          alg == NULL     ? "alg"
                          : shape == NULL ? "shape"
                                          : "out");
    if (alg->name == NULL || alg->emit == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_plan_emit: alg->%s is NULL", alg->name == NULL ? "name" : "emit");
    const enum plait_status status = plait_shape_check("plait_plan_emit", shape);
    if (status != PLAIT_OK)
        return status;
    if (rank >= shape->nrank)
        return plait_fail(PLAIT_ERR_ARG, "plait_plan_emit: rank is %u, but the shape has %u ranks", rank, shape->nrank);
    struct plait_shape own = *shape; /* in a rooted collective only the root has both buffers */
    const bool rooted = plait_geometry_of(shape->coll, shape->nrank, shape->root, 0, 1).rooted;
    own.inplace &= !rooted || rank == shape->root;
    struct plait_builder b = { .alg = alg,
                               .shape = &own,
                               .head = { .nrank = own.nrank,
                                         .rank = rank,
                                         .root = rooted ? own.root : 0,
                                         .coll = (uint8_t)own.coll,
                                         .inplace = own.inplace,
                                         .nlane = 1,
                                         .version = PLAIT_PLAN_VERSION } };
    alg->emit(alg, &b, &own, rank);
    if (b.status == PLAIT_OK && b.head.nblk == 0)
        fail(&b, "the algorithm never called plait_blocks()");
    if (b.status == PLAIT_OK)
        b.status = b.as != NULL ? plait_plan_assemble(b.as, b.as->step, plait_plan_deps(b.as), out)
                                : plait_plan_assemble(&b.head, b.steps, b.deps, out);
    free(b.slots);
    free(b.readers);
    free(b.steps);
    free(b.deps);
    return b.status;
}

void plait_plan_destroy(struct plait_plan *plan)
{
    free(plan);
}

enum plait_status plait_plans_emit(const struct plait_alg *alg, const struct plait_shape *shape,
                                   struct plait_plan ***out)
{
    struct plait_plan **plans = calloc((size_t)shape->nrank + 1, sizeof *plans);
    enum plait_status status = plans != NULL ? PLAIT_OK : plait_fail_memory("out of memory for %u plans", shape->nrank);

    for (uint32_t r = 0; r < shape->nrank && status == PLAIT_OK; r++)
        status = plait_plan_emit(alg, shape, r, &plans[r]);
    *out = plans;
    return status;
}

void plait_plans_destroy(struct plait_plan **plans, uint32_t nrank)
{
    for (uint32_t r = 0; plans != NULL && r < nrank; r++)
        plait_plan_destroy(plans[r]);
    free(plans);
}

const uint32_t *plait_plan_deps(const struct plait_plan *plan)
{
    return plan != NULL ? (const uint32_t *)(plan->step + plan->nstep) : NULL;
}
