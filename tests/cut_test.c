/* SPDX-License-Identifier: BSD-3-Clause */
/* The best buckets against all buckets that there are. */
#include "random.h"
#include "tier.h"
#include "unit.h"

#include "../simulate/cut.h"

#include <math.h>
#include <stdio.h>

enum { MOST = 16, BYTES = 10, NKIND = 6 };

struct times {
    double of[MOST * BYTES + 1]; /* of so many bytes */
    uint32_t n, at[MOST + 1];    /* bytes before each tensor */
};

static double time_of(const void *context, uint32_t first, uint32_t end)
{
    const struct times *t = context;

    return t->of[t->at[end] - t->at[first]];
}

/* None falls: affine, proportional, concave, convex, in steps, random. */
static double time_at(unsigned kind, uint32_t bytes, double before, uint64_t *seed)
{
    const double x = bytes;

    switch (kind) {
    case 0:
        return 3 + 2 * x;
    case 1:
        return x;
    case 2:
        return floor(10 * sqrt(x));
    case 3:
        return x * x;
    case 4:
        return 8 * ceil(x / 16);
    default:
        return before + random_below(seed, 4);
    }
}

static void draw(uint64_t *seed, unsigned kind, bool whole, struct times *times, double *ready)
{
    const uint32_t spread = 1 + random_below(seed, 60);

    times->n = 1 + random_below(seed, light() ? 12 : MOST);
    for (uint32_t j = 0; j < times->n; j++) {
        times->at[j + 1] = times->at[j] + random_below(seed, BYTES + 1);
        ready[j] = random_below(seed, spread + 1) + (random_below(seed, 4) > 0 ? 2 * j : 0); /* not in order */
        ready[j] *= whole ? 1 : 0.1;
    }
    for (uint32_t x = 0; x <= times->at[times->n]; x++)
        times->of[x] = time_at(kind, x, x > 0 ? times->of[x - 1] : 0, seed);
    for (uint32_t x = 0; x <= times->at[times->n] && !whole; x++)
        times->of[x] *= 0.3;
}

static bool begins(uint32_t mask, uint32_t tensor)
{
    return mask >> tensor & 1;
}

/* mask: bits of tensors at which buckets begin. */
static double end_of(const struct times *times, const double *ready, uint32_t mask)
{
    double end = 0, latest = 0;
    uint32_t first = 0;

    for (uint32_t j = 1; j <= times->n; j++) {
        latest = fmax(latest, ready[j - 1]);
        if (j < times->n && !begins(mask, j))
            continue;
        end = fmax(end, latest) + time_of(times, first, j);
        first = j;
    }
    return end;
}

static void assert_best(uint64_t seed, unsigned kind, bool whole)
{
    struct times times = { 0 };
    double ready[MOST], end = -1, best = INFINITY;
    uint32_t cuts[MOST], ncut = 0, fewest = MOST, mask = 0;
    const uint64_t from = seed;

    draw(&seed, kind, whole, &times, ready);
    const struct plait_timeline t = { times.n, ready, time_of, &times };
    assert_int_equal(plait_cut(&t, cuts, &ncut, &end), PLAIT_OK);
    for (uint32_t k = 0; k < ncut; k++) {
        assert_true(cuts[k] > (k > 0 ? cuts[k - 1] : 0) && cuts[k] < times.n);
        mask |= 1u << cuts[k];
    }
    for (uint32_t m = 0; m < 1u << times.n; m += 2) {
        const double e = end_of(&times, ready, m);
        const uint32_t n = (uint32_t)__builtin_popcount(m);
        if (e < best || (e <= best && n < fewest))
            fewest = n;
        best = fmin(best, e);
    }
    if (end != best || end_of(&times, ready, mask) != best || ncut != fewest)
        fail_msg("seed %llu, kind %u, %u tensors: %g with %u cuts (mask %x, %g) instead of %g with %u",
                 (unsigned long long)from, kind, times.n, end, ncut, mask, end_of(&times, ready, mask), best, fewest);
}

static void buckets_end_first_and_are_the_fewest_of_all_that_do(void **state)
{
    const uint64_t trials = full() ? 1000 : 100;

    for (unsigned kind = 0; kind < NKIND; kind++)
        for (uint64_t seed = 0; seed < trials; seed++)
            assert_best(1000 * kind + seed, kind, seed % 4 != 0); /* of whole numbers many sums are equal */
}

/* A thousand equal tensors that are ready at once are one bucket; if they only cost their bytes, too. */
static double affine(const void *latency, uint32_t first, uint32_t end)
{
    return *(const double *)latency + (end - first);
}

static void tensors_that_are_ready_at_once_are_one_bucket(void **state)
{
    enum { N = 1000 };
    static double ready[N];
    static uint32_t cuts[N];
    const double latencies[] = { 0, 2.5 };
    uint32_t ncut;
    double end;

    for (unsigned i = 0; i < 2; i++) {
        const struct plait_timeline t = { N, ready, affine, &latencies[i] };
        assert_int_equal(plait_cut(&t, cuts, &ncut, &end), PLAIT_OK);
        assert_int_equal(ncut, 0);
        assert_true(end == N + latencies[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_end_first_and_are_the_fewest_of_all_that_do),
        cmocka_unit_test(tensors_that_are_ready_at_once_are_one_bucket),
    };

    return cmocka_run_group_tests_name("cut", tests, NULL, NULL);
}
