/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rounding of 16- and 8-bit floats: every algorithm gives the bits that its plan means, and keeps the bounds
 * that enum plait_round promises, against sums in 80 bits.
 */
#include "jobs.h"
#include "plans.h"
#include "reduce/reduce.h"
#include "reduce_reference.h"
#include "specs.h"
#include "tier.h"
#include "unit_ranks.h"

#include <plait/request.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 61
#define LONG  5003 /* blocks of more elements than the kernels widen at once */

static const enum plait_dtype narrows[] = { PLAIT_FLOAT16, PLAIT_BFLOAT16, PLAIT_FLOAT8E4M3, PLAIT_FLOAT8E5M2 };
#define NNARROW (sizeof narrows / sizeof *narrows)
static const enum plait_op ops[] = { PLAIT_SUM, PLAIT_PROD, PLAIT_AVG };
static const enum plait_round rounds[] = { PLAIT_ROUND_ONCE, PLAIT_ROUND_HOP };

/*
 * Factors near 1, so that no product leaves the range; terms of both signs and magnitudes 2^-8 to 2^8. For 8-bit floats
 * both nearer: nothing saturates.
 */
static double draw(enum plait_dtype type, enum plait_op op, uint64_t *state)
{
    const double sign = random_below(state, 2) ? -1 : 1, fraction = 1 + random_below(state, 1 << 20) * 0x1p-20;
    if (plait_dtype_size(type) == 1)
        return sign * (op == PLAIT_PROD ? 0.75 * fraction : ldexp(fraction, (int)random_below(state, 13) - 8));
    return sign * ldexp(fraction, op == PLAIT_PROD ? -(int)random_below(state, 2) : (int)random_below(state, 17) - 8);
}

static void fill(const struct job *job, uint32_t nrank, uint64_t seed)
{
    for (size_t i = 0; i < nrank * job->count; i++)
        set_element(job->in, job->type, i, narrow_bits(job->type, draw(job->type, job->op, &seed)));
}

static long double at(const struct job *job, uint32_t rank, size_t i)
{
    return (long double)narrow_value(job->type, element(job_in(job, rank), job->type, i));
}

/* n roundings of relative size u, one upon the other. */
static long double roundings(uint32_t n, long double u)
{
    return powl(1 + u, n) - 1;
}

/* The exact result of element i, and how far from it the documented bound allows the computed one to be. */
static long double exact(const struct job *job, uint32_t nrank, size_t i, long double *bound)
{
    const struct format format = format_of(job->type);
    const long double u = ldexpl(1, -format.digits - 1), f = 0x1p-24L;
    const long double least = ldexpl(1, format.least - format.digits - 1); /* half the spacing next to 0 */
    const bool hop = job->round == PLAIT_ROUND_HOP, prod = job->op == PLAIT_PROD;
    const uint32_t n = nrank - 1 + (job->op == PLAIT_AVG); /* the division is one more */
    long double s = prod ? 1 : 0, sum = 0;

    for (uint32_t r = 0; r < nrank; r++) {
        s = prod ? s * at(job, r, i) : s + at(job, r, i);
        sum += fabsl(at(job, r, i));
    }
    if (prod)
        sum = fabsl(s);
    if (job->op == PLAIT_AVG) {
        s /= nrank;
        sum /= nrank;
    }
    *bound = hop ? roundings(n, u + f + u * f) * sum : u * fabsl(s) + (1 + u) * roundings(n, f) * sum;
    *bound += (prod || job->op == PLAIT_AVG) ? least * (hop ? nrank : 1) : 0;
    return s;
}

static double outside_bound(const struct jobs *j)
{
    double worst = 0;

    for (size_t k = 0; k < j->n; k++)
        for (size_t i = 0; i < j->job[k].count; i++) {
            const struct job *job = &j->job[k];
            long double bound;
            const long double want = exact(job, j->nrank, i, &bound);
            const long double error =
                fabsl((long double)narrow_value(job->type, element(job->out, job->type, i)) - want);
            if (!(error <= bound))
                fprintf(stderr, "%s %s %s round %d, %u ranks: element %zu is off by %Lg, not %Lg\n", job->spec,
                        plait_dtype_name(job->type), plait_op_name(job->op), (int)job->round, j->nrank, i, error,
                        bound);
            worst = fmax(worst, bound > 0 ? (double)(error / bound) : error > 0 ? INFINITY : 0);
        }
    return worst;
}

/* Long blocks, rounded once. */
static void add_long_jobs(struct jobs *j, const struct specs *specs, const uint32_t *map)
{
    for (uint32_t i = 0; i < specs->n; i++) {
        struct job job = { .type = narrows[i % NNARROW],
                           .op = ops[i / NNARROW % 3],
                           .round = PLAIT_ROUND_ONCE,
                           .count = LONG,
                           .inplace = i % 3 == 0,
                           .library = i % 2 == 0 };
        if (specs->spec[i].shape.node != map || (!full() && (i + j->nrank / 2) % 2 != 0))
            continue;
        snprintf(job.spec, sizeof job.spec, "%.*s", (int)strcspn(specs->spec[i].text, " "), specs->spec[i].text);
        fill(jobs_add(j, &job), j->nrank, i);
    }
}

/* Every algorithm, type, operator and rounding on one node map. */
static void add_jobs(struct jobs *j, const struct specs *specs, const uint32_t *map)
{
    for (uint32_t i = 0; i < specs->n; i++)
        for (unsigned k = 0; k < 6 * NNARROW && specs->spec[i].shape.node == map; k++) {
            struct job job = { .type = narrows[k % NNARROW],
                               .op = ops[k / NNARROW % 3],
                               .round = rounds[k / NNARROW / 3],
                               .count = COUNT,
                               .inplace = (i + k) % 3 == 0,
                               .library = (i + k) % 2 == 0,
                               .slice = (i + k / NNARROW) % 4 == 3 ? 40 : 0 };
            if (!full() && (i + k + k / NNARROW + j->nrank) % 7 != 0)
                continue; /* the others fall to the neighbours */
            snprintf(job.spec, sizeof job.spec, "%.*s", (int)strcspn(specs->spec[i].text, " "), specs->spec[i].text);
            fill(jobs_add(j, &job), j->nrank, i * 100 + k + j->nrank * 7919);
        }
}

static void check_all(uint32_t nprocess, uint32_t nthread,
                      void (*add)(struct jobs *, const struct specs *, const uint32_t *))
{
    const uint32_t nrank = nprocess * nthread;
    struct specs specs;

    specs_init(&specs, PLAIT_ALLREDUCE, nrank, false);
    for (unsigned map = 0; map < 3; map++) {
        struct jobs j;
        jobs_init(&j, nrank, specs.maps[map], NULL);
        add(&j, &specs, specs.maps[map]);
        assert_true(jobs_expect(&j, 1));
        if (j.n > 0)
            assert_int_equal(jobs_run(&j, nprocess, nthread), 0);
        assert_int_equal(jobs_wrong(&j, "rounding"), 0);
        assert_true(outside_bound(&j) <= 1);
        jobs_finish(&j);
    }
    specs_finish(&specs);
}

static void every_algorithm_between_threads_rounds_as_its_plan_says(void **state)
{
    for (uint32_t n = 2; n <= 9; n += full() ? 1 : 3)
        check_all(1, n, add_jobs);
}

static void every_algorithm_between_processes_rounds_as_its_plan_says(void **state)
{
    check_all(2, 1, add_jobs);
    check_all(5, 1, add_jobs);
    check_all(2, 3, add_jobs);
}

static void long_blocks_rounded_once_give_the_oracles_bits(void **state)
{
    check_all(1, 4, add_long_jobs);
    check_all(1, 6, add_long_jobs);
}

/* Nine tenths of the largest number to all of it but what p roundings may add, in either sign. */
static double near_the_largest(enum plait_dtype type, uint32_t nrank, size_t i)
{
    static const double largest[] = { 65504, 0, 448, 57344 }; /* of narrows[] */
    size_t t = 0;

    while (narrows[t] != type)
        t++;
    const long double room = t == 0 ? 1 / (1 + 2 * roundings(nrank, 0x1p-11L)) : 1; /* 8-bit floats saturate */
    const double x = largest[t] * (double)room * (i % 4 == 1 ? 0.9 : 1);
    return i % 7 == 3 ? -x : x;
}

/* Every algorithm, rounding and some sizes: a sum leaves the type, the average does not. */
static void add_large_jobs(struct jobs *j, const struct specs *specs, const uint32_t *map)
{
    static const size_t counts[] = { 1, COUNT, LONG };

    for (uint32_t i = 0; i < specs->n; i++)
        for (unsigned k = 0; k < 3 * NNARROW && specs->spec[i].shape.node == map; k++) {
            struct job job = { .type = narrows[k % NNARROW],
                               .op = PLAIT_AVG,
                               .round = (enum plait_round)(k / NNARROW), /* DEFAULT, too */
                               .count = counts[(i + k) % 3],
                               .inplace = (i + k) % 2 == 0,
                               .library = (i + k) % 3 == 0 };
            if (job.type == PLAIT_BFLOAT16)
                continue; /* has float32's range */
            if (!full() && (i + 2 * k + j->nrank) % 5 != 0)
                continue;
            snprintf(job.spec, sizeof job.spec, "%.*s", (int)strcspn(specs->spec[i].text, " "), specs->spec[i].text);
            struct job *made = jobs_add(j, &job);
            for (size_t e = 0; e < j->nrank * job.count; e++)
                set_element(made->in, job.type, e,
                            narrow_bits(job.type, near_the_largest(job.type, j->nrank, e % job.count)));
        }
}

static void no_average_leaves_its_type_whatever_algorithm_rounding_and_size(void **state)
{
    for (uint32_t n = 2; n <= 9; n += full() ? 1 : 3) {
        struct specs specs;

        specs_init(&specs, PLAIT_ALLREDUCE, n, false);
        for (unsigned map = 0; map < 3; map++) {
            struct jobs j;
            jobs_init(&j, n, specs.maps[map], NULL);
            add_large_jobs(&j, &specs, specs.maps[map]);
            if (j.n > 0)
                assert_int_equal(jobs_run(&j, 1, n), 0);
            for (size_t k = 0; k < j.n; k++)
                if (j.job[k].round == PLAIT_ROUND_DEFAULT)
                    j.job[k].round = PLAIT_ROUND_HOP; /* the wider bound */
            assert_true(outside_bound(&j) <= 1);
            jobs_finish(&j);
        }
        specs_finish(&specs);
    }
}

/* The other collectives that combine, 40000 on every rank, in place and not; and multiples of the ranks' number are exact. */
static int averages_of_reductions_persistent_or_with_parts_do_not_leave_float16(struct plait_comm **comm, uint32_t rank,
                                                                                void *arg)
{
    enum { N = 3, COUNT_OF_BLOCK = 700 };
    static const size_t counts[N] = { COUNT_OF_BLOCK, COUNT_OF_BLOCK / 2, 1 };
    static const double values[] = { 40000, 3 };
    uint16_t in[N * COUNT_OF_BLOCK], out[N * COUNT_OF_BLOCK], *const part = in + rank * COUNT_OF_BLOCK;
    struct plait_call call = PLAIT_CALL_DEFAULT;

    call.round = PLAIT_ROUND_HOP;
    for (unsigned form = 0; form < 2 * 5; form++) {
        const uint64_t value = narrow_bits(PLAIT_FLOAT16, values[form / 5]);
        const uint16_t *got = out;
        size_t n = COUNT_OF_BLOCK;
        enum plait_status status = PLAIT_ERR_ARG;

        for (size_t i = 0; i < N * COUNT_OF_BLOCK; i++)
            in[i] = (uint16_t)value;
        memset(out, 0, sizeof out);
        if (form % 5 == 0) {
            status = plait_reduce_scatter(*comm, in, out, n, PLAIT_FLOAT16, PLAIT_AVG, &call);
        } else if (form % 5 == 1) {
            got = part;
            status = plait_reduce_scatter(*comm, in, part, n, PLAIT_FLOAT16, PLAIT_AVG, &call);
        } else if (form % 5 == 2) {
            n = rank == 1 ? n : 0;
            status = plait_reduce(*comm, in, out, COUNT_OF_BLOCK, PLAIT_FLOAT16, PLAIT_AVG, 1, &call);
        } else if (form % 5 == 3) {
            got = in;
            n = rank == 1 ? n : 0;
            status = plait_reduce(*comm, in, in, COUNT_OF_BLOCK, PLAIT_FLOAT16, PLAIT_AVG, 1, &call);
        } else {
            n = counts[rank];
            status = plait_reduce_scatterv(*comm, in, out, counts, NULL, PLAIT_FLOAT16, PLAIT_AVG, &call);
        }
        CHECK(status == PLAIT_OK);
        for (size_t i = 0; i < n; i++)
            CHECK(fabsl((long double)(narrow_value(PLAIT_FLOAT16, got[i]) - values[form / 5])) <=
                  roundings(N, 0x1p-11L) * (form < 5 ? values[0] : 0));
        if (form % 5 == 1) /* the other parts are the caller's still */
            for (size_t i = 0; i < N * COUNT_OF_BLOCK; i++)
                CHECK(in[i] == value || (&in[i] >= part && &in[i] < part + n));
    }
    /* A persistent one, begun in a group. */
    struct plait_request *request = NULL;
    call.request = &request;
    call.persistent = 1;
    CHECK(plait_allreduce(*comm, in, out, 900, PLAIT_FLOAT16, PLAIT_AVG, &call) == PLAIT_OK);
    for (unsigned again = 0; again < 3; again++) {
        for (size_t i = 0; i < 900; i++)
            in[i] = (uint16_t)narrow_bits(PLAIT_FLOAT16, 60000);
        if (again < 2)
            CHECK(plait_start(request) == PLAIT_OK && plait_wait(&request) == PLAIT_OK);
        else
            CHECK(plait_run_again(request) == PLAIT_OK);
        for (size_t i = 0; i < 900; i++)
            CHECK(fabs((double)narrow_value(PLAIT_FLOAT16, out[i]) - 60000) < 100);
    }
    CHECK(plait_request_free(&request) == PLAIT_OK);
    return 0;
}

/* 1 and eight numbers too small to change it: one at a time they are lost, together they are not. */
static void rounding_once_keeps_what_rounding_at_every_hop_loses(void **state)
{
    static const char *const specs[] = { "ring", "chain", "two-shot", "binomial" };
    enum { N = 9, NSPEC = sizeof specs / sizeof *specs };
    struct jobs j;

    jobs_init(&j, N, NULL, NULL);
    for (unsigned k = 0; k < 4 * NSPEC; k++) {
        struct job like = { .type = narrows[k % 2], .round = rounds[k / 2 % 2], .count = 4 * N };
        const double one = 1, small = k % 2 == 0 ? 0x1p-12 : 0x1p-9;
        strcpy(like.spec, specs[k / 4]);
        struct job *job = jobs_add(&j, &like);
        for (size_t i = 0; i < N * job->count; i++)
            set_element(job->in, job->type, i, narrow_bits(job->type, i / job->count == i % N ? one : small));
    }
    assert_int_equal(jobs_run(&j, 1, N), 0);
    for (size_t k = 0; k < j.n; k++) {
        const struct job *job = &j.job[k];
        const uint64_t right = narrow_bits(job->type, job->type == PLAIT_FLOAT16 ? 1 + 0x1p-9 : 1 + 0x1p-6);
        size_t lost = 0;
        for (size_t i = 0; i < job->count; i++)
            lost += element(job->out, job->type, i) != right;
        if (job->round == PLAIT_ROUND_ONCE)
            assert_int_equal(lost, 0);
        else
            assert_true(lost > 0);
    }
    jobs_finish(&j);
}

/* The wide sum was written over narrow operands that were still to be read. */
static void a_wide_sum_may_take_the_place_of_a_narrow_operand(void **state)
{
    static const char *const isas[] = { "scalar", "avx2", "avx512" };
    enum { N = 1000 };

    for (unsigned i = 0; i < 3; i++)
        for (unsigned t = 0; t < NNARROW; t++) {
            const struct plait_kernels *k = plait_kernels_find(isas[i]);
            float wide[N], other[N];
            const void *const src[2] = { wide, other };
            const struct plait_how how = { 0 };
            if (k == NULL)
                continue;
            for (size_t e = 0; e < N; e++) {
                set_element(wide, narrows[t], e, narrow_bits(narrows[t], (double)(e % 8)));
                other[e] = (float)(e % 7 % 4);
            }
            plait_reduce_mixed(k, narrows[t], PLAIT_SUM, wide, true, src, 2, 2, N, &how);
            for (size_t e = 0; e < N; e++)
                assert_true(wide[e] == (float)(e % 8 + e % 7 % 4));
            plait_reduce_mixed(k, narrows[t], PLAIT_SUM, wide, false, src, 3, 2, N, &how); /* and the other way round */
            for (size_t e = 0; e < N; e++)
                assert_int_equal(element(wide, narrows[t], e),
                                 narrow_bits(narrows[t], (double)(e % 8 + e % 7 % 4 + e % 7 % 4)));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_algorithm_between_threads_rounds_as_its_plan_says),
        cmocka_unit_test(every_algorithm_between_processes_rounds_as_its_plan_says),
        cmocka_unit_test(long_blocks_rounded_once_give_the_oracles_bits),
        cmocka_unit_test(a_wide_sum_may_take_the_place_of_a_narrow_operand),
        cmocka_unit_test(no_average_leaves_its_type_whatever_algorithm_rounding_and_size),
        test_of_ranks(averages_of_reductions_persistent_or_with_parts_do_not_leave_float16, 1, 3),
        cmocka_unit_test(rounding_once_keeps_what_rounding_at_every_hop_loses),
    };

    return cmocka_run_group_tests_name("rounding", tests, NULL, NULL);
}
