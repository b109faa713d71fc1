/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reproducible order: the bits of E(n) = E(m) + E(n-m), m the largest power of two below n, whatever the
 * algorithm, slices, placement and memory. The inputs are such that order shows.
 */
#include "jobs.h"
#include "plans.h"
#include "ranks.h"
#include "reduce_reference.h"
#include "specs.h"
#include "tier.h"
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>

#define COUNT 1021

static const enum plait_dtype types[] = { PLAIT_FLOAT32, PLAIT_FLOAT64, PLAIT_FLOAT16, PLAIT_BFLOAT16 };
static const enum plait_op ops[] = { PLAIT_SUM, PLAIT_AVG, PLAIT_PROD };

/*
 * Small numbers, large ones that often cancel (what small ones are left then depends on the order), some NaNs
 * and infinities.
 */
static uint64_t draw(enum plait_dtype type, uint64_t *state)
{
    const double sign = random_below(state, 2) ? -1 : 1, large = type == PLAIT_FLOAT16 ? 0x1p13 : 0x1p40;
    const double fraction = 1 + random_below(state, 1 << 30) * 0x1p-30 + random_below(state, 1 << 22) * 0x1p-52;
    const double small = ldexp(fraction, (int)random_below(state, 25) - 14);
    const uint32_t kind = random_below(state, 400);
    const double v = sign * (kind == 0 ? NAN : kind == 1 ? INFINITY : kind < 160 ? large : small);

    return type == PLAIT_FLOAT64 ? of_f64(v) : type == PLAIT_FLOAT32 ? of_f32((float)v) : narrow_bits(type, v);
}

/* What every rank must have: the expression evaluated directly. 16-bit floats: in fp32, rounded once. */
static uint64_t canonical(const struct job *job, uint32_t nrank, size_t i)
{
    uint64_t x[64], all;

    for (uint32_t r = 0; r < nrank; r++) {
        x[r] = element(job_in(job, r), job->type, i);
        if (is_narrow(job->type))
            x[r] = of_f32((float)narrow_value(job->type, x[r]));
    }
    all = expression(job->type, job->op == PLAIT_AVG ? PLAIT_SUM : job->op, x, nrank);
    if (job->op == PLAIT_AVG)
        all = divide(job->type, all, nrank);
    return is_narrow(job->type) ? narrow_bits(job->type, (double)f32(all)) : all;
}

static void fill(struct jobs *j, const struct job *like)
{
    struct job *job = jobs_add(j, like);
    const size_t bytes = job->count * plait_dtype_size(job->type);
    uint64_t state = (uint64_t)job->type * 31 + (uint64_t)job->op; /* equal jobs have equal inputs */

    for (size_t i = 0; i < j->nrank * job->count; i++)
        set_element(job->in, job->type, i, draw(job->type, &state));
    for (size_t i = 0; i < job->count; i++)
        set_element(job->want, job->type, i, canonical(job, j->nrank, i));
    for (uint32_t r = 1; r < j->nrank; r++)
        memcpy(job->want + r * bytes, job->want, bytes);
}

/* The canonical algorithms, and the library's choice; slices from a few elements to all. */
static void add_jobs(struct jobs *j, const struct specs *specs)
{
    static const size_t slices[] = { 0, 120, 1000, 4096, 1 << 20 };
    unsigned k = 0;

    for (uint32_t i = 0; i <= specs->n; i++) {
        struct job job = { .count = COUNT, .reproducible = true };
        if (i < specs->n && (!specs->spec[i].alg->canonical || specs->spec[i].shape.node != NULL))
            continue;
        if (i < specs->n)
            snprintf(job.spec, sizeof job.spec, "%.63s", specs->spec[i].text);
        for (size_t s = 0; s < sizeof slices / sizeof *slices; s++)
            for (size_t t = 0; t < sizeof types / sizeof *types; t++, k++) {
                job.type = types[t];
                job.op = ops[k % 3];
                job.slice = slices[s];
                job.inplace = k % 2;
                job.library = k / 2 % 2;
                fill(j, &job);
            }
    }
}

static void check(uint32_t nprocess, uint32_t nthread)
{
    const uint32_t nrank = nprocess * nthread;
    struct specs specs;
    struct jobs j;

    specs_init(&specs, PLAIT_ALLREDUCE, nrank, false);
    jobs_init(&j, nrank, NULL, NULL);
    add_jobs(&j, &specs);
    assert_true(j.n >= 5 * 20); /* one-shot, two-shot, binomial, halving-doubling and the choice */
    assert_int_equal(jobs_run(&j, nprocess, nthread), 0);
    assert_int_equal(jobs_wrong(&j, nprocess == 1 ? "threads" : nthread == 1 ? "processes" : "both"), 0);
    jobs_finish(&j);
    specs_finish(&specs);
}

static void threads_give_the_canonical_bits(void **state)
{
    for (uint32_t n = 2; n <= 9; n += full() ? 1 : 3)
        check(1, n);
    check(1, 17);
}

static void processes_give_the_canonical_bits(void **state)
{
    for (uint32_t n = full() ? 2 : 3; n <= 9; n += full() || n == 3 ? 1 : 5)
        check(n, 1);
}

static void two_processes_of_three_threads_give_the_canonical_bits(void **state)
{
    check(2, 3);
    check(3, 2);
}

/* Else the tests above would prove nothing. */
static void a_ring_gives_other_bits(void **state)
{
    struct jobs j;

    jobs_init(&j, 6, NULL, NULL);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        fill(&j, &(struct job){ .spec = "ring", .type = types[t], .count = COUNT, .round = PLAIT_ROUND_ONCE });
    assert_int_equal(jobs_run(&j, 1, 6), 0);
    for (size_t t = 0; t < j.n; t++)
        assert_memory_not_equal(j.job[t].out, j.job[t].want, COUNT * plait_dtype_size(types[t]));
    jobs_finish(&j);
}

static int ask_for_others(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct specs *specs = arg;
    float in[8] = { 1 }, out[8] = { 7 };

    for (uint32_t i = 0; i < specs->n; i++) {
        struct plait_call call = PLAIT_CALL_DEFAULT;
        char spec[PLAIT_MAX_SPEC];
        snprintf(spec, sizeof spec, "%.63s", specs->spec[i].text);
        call.algorithm = spec;
        if (specs->spec[i].alg->canonical || specs->spec[i].shape.node != NULL)
            continue;
        CHECK(plait_allreduce(*comm, in, out, 8, PLAIT_FLOAT32, PLAIT_SUM, &call) == PLAIT_ERR_CONFIG);
        CHECK(strstr(plait_last_error(), spec) != NULL && strstr(plait_last_error(), "canonical order") != NULL);
        CHECK(strstr(plait_last_error(), "two-shot") != NULL); /* a remedy */
        CHECK(out[0] == 7);
    }
    CHECK(plait_allreduce(*comm, in, out, 8, PLAIT_FLOAT32, PLAIT_SUM, NULL) == PLAIT_OK && out[0] == 6);
    return 0;
}

static void an_algorithm_of_another_order_is_refused(void **state)
{
    struct specs specs;
    struct ranks r = { .nprocess = 1, .nthread = 6, .body = ask_for_others, .arg = &specs, .options.reproducible = 1 };

    specs_init(&specs, PLAIT_ALLREDUCE, 6, false);
    assert_int_equal(ranks_run(&r), 0);
    specs_finish(&specs);
}

/* 2 was taken for yes, or for no. */
static void what_means_yes_or_no_is_0_or_1(void **state)
{
    struct plait_comm_options o = PLAIT_COMM_OPTIONS_DEFAULT;
    int *const flags[] = { &o.reproducible, &o.progress, &o.background };
    static const char *const names[] = { "reproducible is 2", "progress is 2", "background is 2" };
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_comm *comm;
    int one = 1, out;

    o.nrank = 1;
    for (unsigned i = 0; i < 3; i++) {
        *flags[i] = 2;
        assert_int_equal(plait_comm_create(&o, &comm), PLAIT_ERR_ARG);
        assert_non_null(strstr(plait_last_error(), names[i]));
        *flags[i] = 0;
    }
    assert_int_equal(plait_comm_create(&o, &comm), PLAIT_OK);
    call.reproducible = -1;
    assert_int_equal(plait_allreduce(comm, &one, &out, 1, PLAIT_INT32, PLAIT_SUM, &call), PLAIT_ERR_ARG);
    assert_string_equal(plait_last_error(), "allreduce: call->reproducible is -1; it must be 0 or 1");
    call.reproducible = 1;
    assert_int_equal(plait_allreduce(comm, &one, &out, 1, PLAIT_INT32, PLAIT_SUM, &call), PLAIT_OK);
    plait_comm_destroy(comm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_give_the_canonical_bits),
        cmocka_unit_test(processes_give_the_canonical_bits),
        cmocka_unit_test(two_processes_of_three_threads_give_the_canonical_bits),
        cmocka_unit_test(a_ring_gives_other_bits),
        cmocka_unit_test(an_algorithm_of_another_order_is_refused),
        cmocka_unit_test(what_means_yes_or_no_is_0_or_1),
    };

    return cmocka_run_group_tests_name("reproducible", tests, NULL, NULL);
}
