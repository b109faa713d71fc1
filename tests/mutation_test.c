/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Is the checker complete? Change one thing in plans that are right. Whatever the oracle then finds
 * wrong, in any order of ready steps, the checker must have refused.
 *
 * Half of the mutants keep the dependencies of the right plan; the others are emitted again, so that
 * the builder derives fitting dependencies for the wrong moves.
 */
#include "mutants.h"
#include "plans.h"
#include "specs.h"
#include "tier.h"
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUTANTS    6000 /* of all-reduces, and of all other collectives together */
#define ORDERS     60
#define MOST_RANKS 9

/* Everyone sends to everyone and adds in the order of ranks: here the order of operands matters. */
static void everyone_emit(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *shape,
                          uint32_t me)
{
    const uint32_t n = shape->nrank;

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
                 (unsigned long long)seed, mutation_names[what], rank, text);
    }
}

static void try_mutant(const struct spec *spec, struct plans *p, uint64_t *random, struct counts *counts)
{
    static struct loose_plan l;
    const uint64_t seed = *random;
    const uint32_t rank = random_below(random, p->n);
    const enum mutation what = (enum mutation)random_below(random, NMUTATION);
    struct plait_plan *right = p->plan[rank];

    if (right->nstep == 0 || right->nstep > MUTANT_STEPS)
        return;
    mutant_take_apart(right, &l);
    if (!mutant_change(&l, what, random))
        return;
    counts->mutants++;
    counts->kind[what]++;
    const bool again = what != DROP_DEPENDENCY && random_below(random, 2) == 0;
    p->plan[rank] = again ? mutant_emit(&l, &spec->shape) : mutant_put_together(&l);
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
        printf("%s %s %u of %u", i == 0 ? "" : ",", mutation_names[i], c->kind_wrong[i], c->kind[i]);
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
    while (counts.mutants < (light() ? MUTANTS / 8 : full() ? MUTANTS : MUTANTS / 2)) {
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
    assert_telling(mutate_plans((const enum plait_coll[]){ PLAIT_ALLREDUCE }, 1), true);
}

static void every_mutant_of_another_collective_that_goes_wrong_is_refused(void **state)
{
    static const enum plait_coll others[] = { PLAIT_REDUCE_SCATTER, PLAIT_ALLGATHER, PLAIT_BROADCAST, PLAIT_REDUCE,
                                              PLAIT_GATHER,         PLAIT_SCATTER,   PLAIT_ALLTOALL };

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
