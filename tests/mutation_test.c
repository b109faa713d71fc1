/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Is the checker complete? Change one thing in plans that are right. Whatever the oracle then finds
 * wrong, in any order of ready steps, the checker must have refused.
 *
 * Half of the mutants keep the dependencies of the right plan; the others are emitted again, so that
 * the builder derives fitting dependencies for the wrong moves.
 */
#include "plans.h"
#include "specs.h"
#include "tier.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MUTANTS    6000 /* of all-reduces, and of all other collectives together */
#define ORDERS     60
#define MOST_RANKS 9
#define MOST_STEPS 256 /* of a rank; larger plans are left out */

enum mutation { PEER, BLOCK, LENGTH, SPAN, VERB, OPERANDS, ORDER, DROP_STEP, DOUBLE_STEP, DROP_DEPENDENCY, NMUTATION };

static const char *const names[NMUTATION] = {
    "peer", "block", "length", "span", "verb", "operands", "order", "dropped step", "doubled step", "dropped dependency"
};

/* One rank's plan, taken apart. */
struct loose {
    struct plait_plan head;
    struct plait_step step[MOST_STEPS + 1];
    bool dep[MOST_STEPS + 1][MOST_STEPS + 1]; /* dep[i][j]: step i waits for step j */
};

static void take_apart(const struct plait_plan *p, struct loose *l)
{
    memset(l, 0, sizeof *l);
    l->head = *p;
    memcpy(l->step, p->step, p->nstep * sizeof *p->step);
    for (uint32_t i = 0; i < p->nstep; i++)
        for (uint32_t d = 0; d < p->step[i].ndep; d++)
            l->dep[i][plait_plan_deps(p)[p->step[i].dep0 + d]] = true;
}

static struct plait_plan *put_together(const struct loose *l)
{
    const uint32_t n = l->head.nstep;
    struct plait_plan *p = malloc(sizeof *p + n * sizeof *p->step + (size_t)n * n * sizeof(uint32_t));
    uint32_t *deps = (uint32_t *)(p->step + n);

    *p = l->head;
    p->ndep = 0;
    memcpy(p->step, l->step, n * sizeof *p->step);
    for (uint32_t i = 0; i < n; i++) {
        p->step[i].dep0 = p->ndep;
        for (uint32_t j = 0; j < i; j++)
            if (l->dep[i][j])
                deps[p->ndep++] = j;
        p->step[i].ndep = (uint16_t)(p->ndep - p->step[i].dep0);
    }
    p->bytes = (uint32_t)(sizeof *p + n * sizeof *p->step + p->ndep * sizeof *deps);
    return p;
}

/* ---- Mutations --------------------------------------------------------------------------------- */

static bool is_message(const struct plait_step *s)
{
    return s->verb == PLAIT_STEP_SEND || s->verb == PLAIT_STEP_RECV;
}

/* Any slot of any buffer, mostly inside. */
static struct plait_span any_span(const struct loose *l, uint64_t *random)
{
    const uint32_t buf = random_below(random, PLAIT_NBUF);
    const uint32_t n = (buf == PLAIT_TMP ? l->head.ntmp : l->head.nblk) + (random_below(random, 8) == 0);
    return (struct plait_span){ buf & 3, (n == 0 ? 0 : random_below(random, n)) & 0x3fffffff };
}

static bool change_span(struct loose *l, struct plait_step *s, uint64_t *random)
{
    struct plait_span *spans[3];
    uint32_t n = 0;

    if (s->verb != PLAIT_STEP_SEND)
        spans[n++] = &s->dst;
    if (s->verb != PLAIT_STEP_RECV)
        spans[n++] = &s->a;
    if (s->verb == PLAIT_STEP_REDUCE)
        spans[n++] = &s->b;
    struct plait_span *span = spans[random_below(random, n)];
    const struct plait_span old = *span;
    if (random_below(random, 2) == 0)
        span->buf = random_below(random, PLAIT_NBUF) & 3;
    else
        *span = any_span(l, random);
    return span->buf != old.buf || span->slot != old.slot;
}

/* Another verb with the spans that there are, so that the result still has the right shape. */
static bool change_verb(struct loose *l, struct plait_step *s, uint64_t *random)
{
    const struct plait_span from = s->verb == PLAIT_STEP_RECV ? s->dst : s->a;
    const struct plait_span to = s->verb == PLAIT_STEP_SEND ? any_span(l, random) : s->dst;
    const uint32_t verb = (s->verb + 1 + random_below(random, 3)) % 4;
    const struct plait_span none = { 0, 0 };

    if (!is_message(s) && verb <= PLAIT_STEP_RECV) {
        const uint32_t peer = random_below(random, l->head.nrank);
        if (peer == l->head.rank)
            return false;
        s->peer = (int32_t)peer;
    }
    if (verb > PLAIT_STEP_RECV)
        s->peer = -1;
    s->verb = (uint8_t)verb;
    s->a = verb == PLAIT_STEP_RECV ? none : verb == PLAIT_STEP_SEND ? from : any_span(l, random);
    s->dst = verb == PLAIT_STEP_SEND ? none : to;
    s->b = verb == PLAIT_STEP_REDUCE ? any_span(l, random) : none;
    return true;
}

static bool swap_operands(struct plait_step *s)
{
    const struct plait_span a = s->a;

    s->a = s->b;
    s->b = a;
    return s->verb == PLAIT_STEP_REDUCE;
}

/* Swap two steps and what waits for them; dependencies that would point forwards are lost. */
static bool swap_steps(struct loose *l, uint32_t i, uint32_t j)
{
    const struct plait_step s = l->step[i];

    l->step[i] = l->step[j];
    l->step[j] = s;
    for (uint32_t k = 0; k < l->head.nstep; k++) {
        const bool d = l->dep[i][k];
        l->dep[i][k] = l->dep[j][k];
        l->dep[j][k] = d;
    }
    for (uint32_t k = 0; k < l->head.nstep; k++) {
        const bool d = l->dep[k][i];
        l->dep[k][i] = l->dep[k][j];
        l->dep[k][j] = d;
    }
    return i != j;
}

/* Close the gap (or, with by = 1, open one before i, where a copy of the step stays). */
static bool shift_steps(struct loose *l, uint32_t i, bool drop, bool inherit)
{
    struct loose *old = malloc(sizeof *old);
    const uint32_t n = drop ? l->head.nstep - 1 : l->head.nstep + 1;

    *old = *l;
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t from = k <= i && !(drop && k == i) ? k : drop ? k + 1 : k - 1;
        l->step[k] = old->step[from];
        for (uint32_t m = 0; m < n; m++) {
            const uint32_t on = m <= i && !(drop && m == i) ? m : drop ? m + 1 : m - 1;
            l->dep[k][m] = old->dep[from][on] || (drop && inherit && old->dep[from][i] && old->dep[i][on]);
        }
    }
    l->head.nstep = n;
    if (!drop)
        l->dep[i + 1][i] = inherit;
    free(old);
    return true;
}

static bool drop_dependency(struct loose *l, uint32_t i, uint64_t *random)
{
    uint32_t n = 0;

    for (uint32_t j = 0; j < i; j++)
        n += l->dep[i][j];
    if (n == 0)
        return false;
    n = random_below(random, n);
    for (uint32_t j = 0; j < i; j++)
        if (l->dep[i][j] && n-- == 0)
            l->dep[i][j] = false;
    return true;
}

/* Change one thing. False when there was nothing of the kind to change. */
static bool mutate(struct loose *l, enum mutation what, uint64_t *random)
{
    const uint32_t n = l->head.nstep, i = random_below(random, n);
    struct plait_step *s = &l->step[i], old = *s;

    switch (what) {
    case PEER:
        s->peer = (int32_t)random_below(random, l->head.nrank);
        return is_message(&old) && s->peer != old.peer;
    case BLOCK:
        s->blk = random_below(random, 8) == 0 ? PLAIT_AS_LIES : random_below(random, l->head.nblk);
        return s->blk != old.blk;
    case LENGTH:
        s->nblk = 1 + random_below(random, l->head.nblk < 64 ? l->head.nblk : l->head.nrank);
        return s->nblk != old.nblk;
    case SPAN:
        return change_span(l, s, random);
    case VERB:
        return change_verb(l, s, random);
    case OPERANDS:
        return swap_operands(s);
    case ORDER:
        return swap_steps(l, i, random_below(random, 2) ? random_below(random, n) : (i + 1) % n);
    case DROP_STEP:
        return shift_steps(l, i, true, random_below(random, 2));
    case DOUBLE_STEP:
        return shift_steps(l, i, false, random_below(random, 2));
    default:
        return drop_dependency(l, i, random);
    }
}

/* ---- Emitting again ---------------------------------------------------------------------------- */

static const struct loose *replayed;

static void replay(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *shape,
                   uint32_t rank)
{
    (void)self, (void)shape, (void)rank;
    plait_blocks(b, replayed->head.nblk, replayed->head.ntmp);
    for (uint32_t i = 0; i < replayed->head.nstep; i++) {
        const struct plait_step *s = &replayed->step[i];
        plait_lane(b, s->lane);
        if (s->verb == PLAIT_STEP_SEND)
            plait_emit_send(b, (uint32_t)s->peer, s->a, s->blk, s->nblk);
        else if (s->verb == PLAIT_STEP_RECV)
            plait_emit_recv(b, (uint32_t)s->peer, s->dst, s->blk, s->nblk);
        else if (s->verb == PLAIT_STEP_COPY)
            plait_emit_copy(b, s->dst, s->a, s->blk, s->nblk);
        else
            plait_emit_reduce(b, s->dst, s->a, s->b, s->blk, s->nblk);
    }
}

static struct plait_plan *emit_again(const struct loose *l, const struct plait_shape *shape)
{
    static const struct plait_alg alg = { .name = "mutant", .emit = replay };
    struct plait_plan *p = NULL;

    replayed = l;
    return plait_plan_emit(&alg, shape, l->head.rank, &p) == PLAIT_OK ? p : NULL;
}

/* Everyone sends to everyone and adds in the order of ranks: here the order of operands matters. */
static void everyone_emit(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *shape,
                          uint32_t me)
{
    const uint32_t n = shape->nrank;

    (void)self;
    plait_blocks(b, 2, 2 * n);
    for (uint32_t k = 1; k < n; k++) {
        plait_emit_send(b, (me + k) % n, plait_in(0), 0, 2);
        plait_emit_recv(b, (me + n - k) % n, plait_tmp(2 * ((me + n - k) % n)), 0, 2);
    }
    for (uint32_t r = 1; r < n; r++) {
        const struct plait_span first = me == 0 ? plait_in(0) : plait_tmp(0);
        plait_emit_reduce(b, plait_tmp(2 * me), r == 1 ? first : plait_tmp(2 * me),
                          r == me ? plait_in(0) : plait_tmp(2 * r), 0, 2);
    }
    plait_emit_copy(b, plait_out(0), plait_tmp(2 * me), 0, 2);
}

static const struct plait_alg everyone = { .name = "everyone", .coll = PLAIT_ALLREDUCE, .emit = everyone_emit };

/* ---- The test ---------------------------------------------------------------------------------- */

struct counts {
    uint32_t mutants, wrong, refused, harmless;
    uint32_t check[PLAIT_NCHECK]; /* wrong mutants refused by it */
    uint32_t builder;
    uint32_t kind[NMUTATION], kind_wrong[NMUTATION];
};

/* In any of so many orders, with counts that do not divide. */
static bool oracle_finds_wrong(const struct plans *p, uint32_t orders, uint64_t seed)
{
    const uint32_t nblk = p->plan[0]->nblk;

    for (uint32_t i = 0; i < orders; i++) {
        const size_t count = (i % 3 + 1) * nblk + nblk / 2 + i % 2;
        if (!plans_right(p, count, seed + i) || !plans_same_bits(p, count, seed + i))
            return true;
    }
    return false;
}

static void judge(const struct plans *p, const struct spec *spec, enum mutation what, uint32_t rank, uint64_t seed,
                  struct counts *counts)
{
    struct plait_report report;
    const bool refused = plait_plan_check(spec->text, &spec->shape, CONST_PLANS(p), NULL, &report) != PLAIT_OK;
    const bool wrong = oracle_finds_wrong(p, refused ? ORDERS / 4 : ORDERS, seed);

    counts->refused += refused;
    counts->wrong += wrong;
    counts->harmless += !refused && !wrong;
    counts->kind_wrong[what] += wrong;
    if (refused && wrong)
        counts->check[report.failed]++;
    if (wrong && !refused) {
        char *text;
        plait_plan_print(p->plan[rank], &text);
        fail_msg("%s, %u ranks, seed %llu: wrong but not refused (%s); rank %u's plan:\n%s", spec->text, p->n,
                 (unsigned long long)seed, names[what], rank, text);
    }
}

static void try_mutant(const struct spec *spec, struct plans *p, uint64_t *random, struct counts *counts)
{
    static struct loose l;
    const uint64_t seed = *random;
    const uint32_t rank = random_below(random, p->n);
    const enum mutation what = (enum mutation)random_below(random, NMUTATION);
    struct plait_plan *right = p->plan[rank];

    if (right->nstep == 0 || right->nstep > MOST_STEPS)
        return;
    take_apart(right, &l);
    if (!mutate(&l, what, random))
        return;
    counts->mutants++;
    counts->kind[what]++;
    const bool again = what != DROP_DEPENDENCY && random_below(random, 2) == 0;
    p->plan[rank] = again ? emit_again(&l, &spec->shape) : put_together(&l);
    if (p->plan[rank] == NULL)
        counts->builder++;
    else
        judge(p, spec, what, rank, seed, counts);
    plait_plan_destroy(p->plan[rank]);
    p->plan[rank] = right;
}

static void print_counts(const struct counts *c)
{
    printf("%u mutants: %u refused by the builder, %u by the checker, of which %u seen wrong by the oracle; "
           "%u accepted, none seen wrong\nwrong mutants by the check that refuses them:",
           c->mutants, c->builder, c->refused, c->wrong, c->harmless);
    for (int i = 0; i < PLAIT_NCHECK; i++)
        printf(" %s %u", plait_check_name((enum plait_check)i), c->check[i]);
    printf("\nwrong mutants by mutation:");
    for (int i = 0; i < NMUTATION; i++)
        printf("%s %s %u of %u", i == 0 ? "" : ",", names[i], c->kind_wrong[i], c->kind[i]);
    printf("\n");
}

/* Any algorithm on a few ranks, from any root, or `everyone`; the specs own the shape's node map. */
static struct spec choose_spec(struct specs *s, enum plait_coll coll, uint64_t *random)
{
    const uint32_t n = 2 + random_below(random, MOST_RANKS - 1);
    const bool inplace = random_below(random, 2) && coll != PLAIT_ALLTOALL;

    specs_init(s, coll, n, inplace);
    struct spec spec = s->spec[random_below(random, s->n)];
    if (coll != PLAIT_ALLREDUCE)
        spec.shape.root = random_below(random, n);
    if (coll == PLAIT_ALLREDUCE && random_below(random, 4) == 0) {
        spec = (struct spec){ "everyone", &everyone, spec.shape };
        spec.shape.node = NULL;
    }
    return spec;
}

static struct counts mutate_plans(const enum plait_coll *colls, uint32_t ncoll)
{
    const char *given = getenv("PLAIT_TEST_SEED");
    uint64_t random = given != NULL ? strtoull(given, NULL, 0) : 2026;
    struct counts counts = { 0 };

    printf("seed %llu (PLAIT_TEST_SEED)\n", (unsigned long long)random);
    while (counts.mutants < (light() ? MUTANTS / 3 : MUTANTS)) {
        struct specs s;
        const struct spec spec = choose_spec(&s, colls[ncoll > 1 ? random_below(&random, ncoll) : 0], &random);
        struct plans p = plans_emit(spec.alg, &spec.shape);
        assert_int_equal(plait_plan_check(spec.text, &spec.shape, CONST_PLANS(&p), NULL, NULL), PLAIT_OK);
        assert_false(oracle_finds_wrong(&p, 6, random));
        for (int i = 0; i < 40; i++)
            try_mutant(&spec, &p, &random, &counts);
        plans_free(&p);
        specs_finish(&s);
    }
    print_counts(&counts);
    return counts;
}

/* `ordered`: the oracle sees another order of combination, as several ranks have the result. */
static void assert_telling(struct counts counts, bool ordered)
{
    assert_true(counts.wrong > counts.mutants / 3); /* else the mutations are too tame to say anything */
    for (int i = 0; i < NMUTATION; i++)
        assert_true(counts.kind_wrong[i] > 0 || (i == OPERANDS && !ordered));
    for (int i = PLAIT_CHECK_SHAPE; i <= PLAIT_CHECK_SAME_BITS; i++)
        assert_true(counts.check[i] > 0 || i == PLAIT_CHECK_DEADLOCK || /* one change seldom closes a circle */
                    (i == PLAIT_CHECK_SAME_BITS && !ordered));
}

static void every_mutant_of_an_allreduce_that_goes_wrong_is_refused(void **state)
{
    (void)state;
    assert_telling(mutate_plans((const enum plait_coll[]){ PLAIT_ALLREDUCE }, 1), true);
}

static void every_mutant_of_another_collective_that_goes_wrong_is_refused(void **state)
{
    static const enum plait_coll others[] = { PLAIT_REDUCE_SCATTER, PLAIT_ALLGATHER, PLAIT_BROADCAST, PLAIT_REDUCE,
                                              PLAIT_GATHER,         PLAIT_SCATTER,   PLAIT_ALLTOALL };

    (void)state;
    assert_telling(mutate_plans(others, sizeof others / sizeof *others), false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mutant_of_an_allreduce_that_goes_wrong_is_refused),
        cmocka_unit_test(every_mutant_of_another_collective_that_goes_wrong_is_refused),
    };
    return cmocka_run_group_tests_name("mutation", tests, NULL, NULL);
}
