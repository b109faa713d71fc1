/* SPDX-License-Identifier: BSD-3-Clause */
/* Predictions against closed formulas on ideal machines, and properties that hold for every algorithm. */
#include "specs.h"

#include <plait/simulate.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define NS 1000ull /* picoseconds */

/* Every rank has a link of its own to one switch. */
static struct plait_machine star(uint32_t nrank, uint64_t bandwidth, uint64_t latency)
{
    struct plait_machine m = { .name = "star", .nlevel = 1, .cache = (size_t)1 << 40 };

    m.level[0] = (struct plait_level){ "cluster", nrank, 1, bandwidth, latency };
    return m;
}

static struct plait_prediction simulate(const struct plait_machine *m, const char *spec, enum plait_coll coll,
                                        uint32_t nrank, size_t count)
{
    const struct plait_shape shape = { .coll = coll, .nrank = nrank };
    struct plait_prediction p;
    const enum plait_status status = plait_simulate(m, spec, &shape, PLAIT_UINT8, count, NULL, &p);

    if (status != PLAIT_OK)
        fail_msg("%s, %s, %u ranks: %s", plait_coll_name(coll), spec, nrank, plait_last_error());
    return p;
}

static void near(const char *what, uint64_t seen, uint64_t wanted)
{
    const uint64_t apart = seen > wanted ? seen - wanted : wanted - seen;

    if (apart > wanted / 100000 + 100)
        fail_msg("%s: %llu ps, not %llu", what, (unsigned long long)seen, (unsigned long long)wanted);
}

/* A ring's 2 (p - 1) steps each take a latency and one block's transfer. */
static void ring_is_its_formula(void **state)
{
    (void)state;
    for (uint32_t p = 2; p <= 16; p++) {
        const struct plait_machine m = star(p, 1000000000, 5000);
        const size_t block = 10000;
        near("ring", simulate(&m, "ring", PLAIT_ALLREDUCE, p, p * block).time, 2 * (p - 1) * (5000 * NS + block * NS));
    }
}

/* Everyone sends to the root at once: its link is shared, and the latencies overlap. */
static void incast_shares_the_roots_link(void **state)
{
    (void)state;
    for (uint32_t p = 2; p <= 16; p++) {
        const struct plait_machine m = star(p, 1000000000, 5000);
        near("direct", simulate(&m, "direct", PLAIT_REDUCE, p, 10000).time, 5000 * NS + (p - 1) * 10000 * NS);
    }
}

/* A rank of a binomial tree sends to all its children at once; then the child with the most children does so. */
static void binomial_is_its_formula(void **state)
{
    (void)state;
    for (uint64_t k = 1; k <= 6; k++) {
        const struct plait_machine m = star(1u << k, 1000000000, 5000);
        near("binomial", simulate(&m, "binomial", PLAIT_BROADCAST, 1u << k, 10000).time,
             k * 5000 * NS + k * (k + 1) / 2 * 10000 * NS);
    }
}

/* ---- Properties of all algorithms --------------------------------------------------------------------- */

/* Hosts of two ranks with shared memory, racks of two hosts, and fewer processors than ranks. */
static struct plait_machine racks(uint32_t nrank)
{
    struct plait_machine m = { .name = "racks",
                               .nlevel = 3,
                               .copy = 8000000000,
                               .reduce = 6000000000,
                               .overhead = 300,
                               .eager = 100,
                               .cache = 4096,
                               .processors = 1,
                               .memory = 20000000000 };

    m.level[0] = (struct plait_level){ "host", 2, 0, 10000000000, 200 };
    m.level[1] = (struct plait_level){ "rack", 2, 1, 1000000000, 5000 };
    m.level[2] = (struct plait_level){ "cluster", nrank / 4 + 1, 2, 500000000, 9000 };
    return m;
}

static uint64_t sum(const struct plait_path *p)
{
    return p->latency + p->transfer + p->compute + p->waiting;
}

static void for_all(void (*see)(const struct spec *s))
{
    for (unsigned coll = 0; coll < PLAIT_NCOLL; coll++)
        for (uint32_t nrank = 1; nrank <= 9; nrank++) {
            struct specs all;
            specs_init(&all, (enum plait_coll)coll, nrank, false);
            for (uint32_t i = 0; i < all.n; i++)
                see(&all.spec[i]);
            specs_finish(&all);
        }
}

static struct plait_prediction of(const struct plait_machine *m, const struct spec *s)
{
    const size_t count = s->shape.coll == PLAIT_BARRIER ? 0 : 5000;
    char spec[sizeof s->text];
    struct plait_prediction p;

    snprintf(spec, sizeof spec, "%.*s", (int)strcspn(s->text, " "), s->text);
    const enum plait_status status = plait_simulate(m, spec, &s->shape, PLAIT_FLOAT32, count, NULL, &p);
    if (status != PLAIT_OK)
        fail_msg("%s, %s, %u ranks: %s", plait_coll_name(s->shape.coll), s->text, s->shape.nrank, plait_last_error());
    return p;
}

static void see_parts(const struct spec *s)
{
    const struct plait_machine m = racks(s->shape.nrank);
    const struct plait_prediction p = of(&m, s), again = of(&m, s);

    if (sum(&p.path) != p.time)
        fail_msg("%s, %s, %u ranks: parts %llu, time %llu", plait_coll_name(s->shape.coll), s->text, s->shape.nrank,
                 (unsigned long long)sum(&p.path), (unsigned long long)p.time);
    if (p.bound > p.time)
        fail_msg("%s, %s, %u ranks: below its bound", plait_coll_name(s->shape.coll), s->text, s->shape.nrank);
    assert_memory_equal(&p, &again, sizeof p);
}

static void parts_of_the_longest_path_add_up(void **state)
{
    (void)state;
    for_all(see_parts);
}

static void see_double(const struct spec *s)
{
    struct plait_machine m = racks(s->shape.nrank);

    m.overhead = 0;
    for (uint32_t k = 0; k < m.nlevel; k++)
        m.level[k].latency = 0;
    const struct plait_prediction once = of(&m, s);
    m.copy *= 2;
    m.reduce *= 2;
    m.memory *= 2;
    for (uint32_t k = 0; k < m.nlevel; k++)
        m.level[k].bandwidth *= 2;
    near(s->text, 2 * of(&m, s).time, once.time);
}

static void twice_the_rates_halve_the_time(void **state)
{
    (void)state;
    for_all(see_double);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ring_is_its_formula),
        cmocka_unit_test(incast_shares_the_roots_link),
        cmocka_unit_test(binomial_is_its_formula),
        cmocka_unit_test(parts_of_the_longest_path_add_up),
        cmocka_unit_test(twice_the_rates_halve_the_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
