/* SPDX-License-Identifier: BSD-3-Clause */
/* Fusion: sums are right in every layout, memory, payload and order of readiness; what is wrong is named. */
#include "pending.h"

#include <plait/fusion.h>
#include <plait/memory.h>
#include <plait/request.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#define NTENSOR 40

static uint64_t next(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

/* ---- Tensors ---------------------------------------------------------------------------------------------- */

struct model {
    char names[NTENSOR][16];
    struct plait_tensor tensors[NTENSOR];
    float *own[NTENSOR];
};

/* Sizes from one element to above the threshold; every third tensor is another type if `types`. */
static void make_model(struct model *m, uint64_t seed, bool types, bool in_buckets)
{
    for (uint32_t t = 0; t < NTENSOR; t++) {
        snprintf(m->names[t], sizeof m->names[t], "t%u", t);
        const size_t count = 1 + next(&seed) % (t % 7 == 0 ? 40000 : 900);
        m->own[t] = in_buckets && t % 5 != 4 ? NULL : malloc(count * 8);
        m->tensors[t] = (struct plait_tensor){
            m->names[t], count, types && t % 3 == 0 ? (t % 2 ? PLAIT_FLOAT64 : PLAIT_INT32) : PLAIT_FLOAT32, m->own[t]
        };
    }
}

static void free_model(struct model *m)
{
    for (uint32_t t = 0; t < NTENSOR; t++)
        free(m->own[t]);
}

static void put(void *v, enum plait_dtype type, size_t i, double x)
{
    if (type == PLAIT_FLOAT32)
        ((float *)v)[i] = (float)x;
    else if (type == PLAIT_FLOAT64)
        ((double *)v)[i] = x;
    else
        ((int32_t *)v)[i] = (int32_t)x;
}

static double get(const void *v, enum plait_dtype type, size_t i)
{
    return type == PLAIT_FLOAT32   ? (double)((const float *)v)[i]
           : type == PLAIT_FLOAT64 ? ((const double *)v)[i]
                                   : (double)((const int32_t *)v)[i];
}

/* What a rank gives: small whole numbers, exact in every type and sum. */
static double value(uint32_t rank, uint32_t tensor, size_t i, uint32_t step)
{
    return (double)((i * 7 + tensor * 3 + step) % 11) - 5 + rank;
}

static void fill(struct plait_fusion *f, const struct model *m, uint32_t rank, uint32_t t, uint32_t step)
{
    for (size_t i = 0; i < m->tensors[t].count; i++)
        put(plait_fusion_data(f, t), m->tensors[t].type, i, value(rank, t, i, step));
}

/* The sum over the ranks that did not skip, divided by `divisor`. */
static int holds(struct plait_fusion *f, const struct model *m, uint32_t t, uint32_t step, uint32_t nrank,
                 uint32_t skips, double factor)
{
    for (size_t i = 0; i < m->tensors[t].count; i++) {
        double want = 0;
        for (uint32_t r = 0; r < nrank; r++)
            want += skips >> r & 1 ? 0 : value(r, t, i, step);
        const double got = get(plait_fusion_data(f, t), m->tensors[t].type, i);
        if (got != want * factor) {
            fprintf(stderr, "tensor %u, element %zu of %zu, step %u: %g instead of %g\n", t, i, m->tensors[t].count,
                    step, got, want * factor);
            return 0;
        }
    }
    return 1;
}

static void shuffle(uint32_t *order, uint64_t seed)
{
    for (uint32_t t = 0; t < NTENSOR; t++)
        order[t] = t;
    for (uint32_t t = NTENSOR - 1; t > 0; t--) {
        const uint32_t with = (uint32_t)(next(&seed) % (t + 1)), kept = order[t];
        order[t] = order[with];
        order[with] = kept;
    }
}

/* ---- Steps ------------------------------------------------------------------------------------------------ */

struct kind {
    struct plait_layout layout;
    bool types, in_buckets, waits_each, progress;
    enum plait_dtype payload;
    enum plait_op op;
};

static const uint32_t two_cuts[] = { 7, 30 };

static uint32_t skipped_by(uint32_t tensor, uint32_t step, uint32_t nrank)
{
    return (tensor + step) % 9 == 0 ? 1u << tensor % nrank : 0;
}

/* Ranks make their tensors ready in different orders; a few are skipped by one rank. */
static int steps(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct kind *k = arg;
    const uint32_t nrank = ranks.nprocess * ranks.nthread;
    struct plait_fusion_options o = PLAIT_FUSION_OPTIONS_DEFAULT;
    struct plait_fusion_result result;
    struct plait_fusion *f;
    struct model m;
    uint32_t order[NTENSOR];

    make_model(&m, 88172645463325252, k->types, k->in_buckets);
    o.tensors = m.tensors;
    o.ntensor = NTENSOR;
    o.layout = k->layout;
    o.op = k->op;
    o.payload = k->payload;
    o.progress = k->progress;
    o.check = 1;
    CHECK(plait_fusion_create(*comm, &o, &f) == PLAIT_OK);
    for (uint32_t step = 0; step < 6; step++) {
        shuffle(order, 1000 * step + rank + 1);
        for (uint32_t i = 0; i < NTENSOR; i++) {
            const uint32_t t = order[i], skips = skipped_by(t, step, nrank);
            fill(f, &m, rank, t, step);
            CHECK((skips >> rank & 1 ? plait_fusion_skip(f, t) : plait_fusion_ready(f, t)) == PLAIT_OK);
        }
        for (uint32_t t = 0; t < NTENSOR && k->waits_each; t++) {
            CHECK(plait_fusion_wait(f, t) == PLAIT_OK);
            CHECK(holds(f, &m, t, step, nrank, skipped_by(t, step, nrank), 1));
        }
        CHECK(plait_fusion_wait_all(f, &result) == PLAIT_OK && result.finite);
        for (uint32_t t = 0; t < NTENSOR; t++)
            CHECK(holds(f, &m, t, step, nrank, skipped_by(t, step, nrank), k->op == PLAIT_AVG ? 1.0 / nrank : 1));
        CHECK(plait_fusion_wait_all(f, &result) == PLAIT_OK); /* accumulation: nothing was ready */
    }
    CHECK(plait_fusion_destroy(f) == PLAIT_OK);
    free_model(&m);
    return 0;
}

static void sums_are_right_in_every_layout_order_and_memory(void **state)
{
    const struct plait_layout layouts[] = {
        { PLAIT_LAYOUT_THRESHOLD, 0, NULL, 0 },        { PLAIT_LAYOUT_THRESHOLD, 10000, NULL, 0 },
        { PLAIT_LAYOUT_THRESHOLD, SIZE_MAX, NULL, 0 }, { PLAIT_LAYOUT_CUTS, 0, two_cuts, 2 },
        { PLAIT_LAYOUT_CUBIC, 0, NULL, 0 },
    };

    (void)state;
    for (uint32_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        for (unsigned bits = 0; bits < 16; bits++) {
            struct kind k = { layouts[i], bits & 1, bits & 2, bits & 4, bits & 8, PLAIT_NDTYPE, PLAIT_SUM };
            if (bits % 3 == i % 3)
                run(bits & 8 ? 1 : 3, bits & 8 ? 3 : 1, steps, &k);
            if (!(bits & 1) && bits % 5 == i % 5) {
                k.payload = bits & 2 ? PLAIT_BFLOAT16 : PLAIT_FLOAT16;
                k.op = bits & 4 ? PLAIT_SUM : PLAIT_AVG;
                run(bits & 8 ? 1 : 2, bits & 8 ? 2 : 1, steps, &k);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_right_in_every_layout_order_and_memory),
    };

    return cmocka_run_group_tests_name("fusion", tests, NULL, NULL);
}
