/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The optimiser's three device passes, run by the host, against plait_optim_step(). Weights and gradients are small
 * whole numbers, so that norms are exact whatever the order of the sums: then all bits are equal.
 */
#include "../random.h"
#include "../unit.h"

#include <plait/optim.h>

#include <host.h>
#include <math.h>
#include <reduce/reduce.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS = 40, LONG = 9000, PIECES = 200, STEPS = 3 };

static uint64_t seed = 11;

struct model {
    struct plait_optim_part parts[PARTS];
    struct plait_cuda_part device[PARTS];
    struct plait_cuda_piece pieces[PIECES];
    struct plait_cuda_range ranges[PARTS];
    struct plait_cuda_update updates[PARTS];
    double gradient_squares[PIECES], weight_squares[PIECES];
    double sums[PLAIT_CUDA_NORMS + 2 * PARTS];
    struct plait_cuda_result result;
    struct plait_cuda_step step;
    struct plait_loss_scale scale;
    struct plait_cuda_optim a;
    struct plait_optim_options options;
    struct plait_optim *optim;
};

static uint64_t draw(uint64_t below)
{
    return random_next(&seed) % below;
}

static void *take(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);

    assert_non_null(p);
    memset(p, 0, bytes);
    return p;
}

static const struct plait_kernels *cpu(void)
{
    static const struct plait_kernels *found;

    if (found == NULL)
        found = plait_kernels_find("");
    return found;
}

static void fill(void *p, enum plait_dtype type, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const float v = (float)((int)draw(9) - 4);
        if (type == PLAIT_FLOAT32)
            ((float *)p)[i] = v;
        else
            cpu()->narrow[type]((char *)p + i * plait_dtype_size(type), &v, 1, 1);
    }
}

static void draw_part(struct model *m, uint32_t k)
{
    static const enum plait_dtype types[] = { PLAIT_FLOAT32, PLAIT_FLOAT16, PLAIT_BFLOAT16, PLAIT_FLOAT8E4M3 };
    struct plait_optim_part *p = &m->parts[k];
    struct plait_cuda_part *d = &m->device[k];
    const size_t count = k == 0 ? LONG : 1 + draw(k % 2 ? 100 : LONG);

    *p = (struct plait_optim_part){
        .tensor = k, .count = count, .type = types[draw(4)], .copy_type = types[draw(4)], .flags = (unsigned)draw(4)
    };
    void *gradient = take(count * 4);
    fill(gradient, p->type, count);
    p->gradient = gradient;
    p->master = take(count * 4);
    fill(p->master, PLAIT_FLOAT32, k == 1 ? 0 : count); /* the second tensor has no norm */
    p->copy = draw(3) != 0 ? take(count * 4) : NULL;
    *d = (struct plait_cuda_part){ .gradient = gradient,
                                   .master = take(count * 4),
                                   .momentum = take(count * 4),
                                   .copy = p->copy != NULL ? take(count * 4) : NULL,
                                   .type = p->type,
                                   .copy_type = p->copy_type,
                                   .tensor = k,
                                   .flags = p->flags };
    memcpy(d->master, p->master, count * 4);
}

static void draw_model(struct model *m, bool lars)
{
    struct plait_cuda_piece *end = m->pieces;

    memset(m, 0, sizeof *m);
    for (uint32_t k = 0; k < PARTS; k++) {
        draw_part(m, k);
        m->ranges[k].first = (uint32_t)(end - m->pieces);
        end = plait_cuda_cut(end, k, m->parts[k].count);
        m->ranges[k].count = (uint32_t)(end - m->pieces) - m->ranges[k].first;
    }
    assert_in_range(end - m->pieces, 1, PIECES);
    struct plait_optim_options o = PLAIT_OPTIM_OPTIONS_DEFAULT;
    o.parts = m->parts;
    o.npart = o.ntensor = PARTS;
    o.method = lars ? PLAIT_OPTIM_LARS : PLAIT_OPTIM_SGD;
    o.nesterov = (int)draw(2);
    o.lr_in_momentum = (int)draw(2);
    o.norm_decay = draw(2) != 0 ? -1 : 1e-4;
    o.eps = 1e-9;
    o.check = (int)draw(2);
    m->options = o;
    assert_int_equal(plait_optim_create(&o, &m->optim), PLAIT_OK);
    m->a = (struct plait_cuda_optim){ .parts = m->device,
                                      .pieces = m->pieces,
                                      .ranges = m->ranges,
                                      .gradient_squares = m->gradient_squares,
                                      .weight_squares = m->weight_squares,
                                      .sums = m->sums,
                                      .updates = m->updates,
                                      .result = &m->result,
                                      .momentum = o.momentum,
                                      .decay = o.decay,
                                      .eta = o.eta,
                                      .eps = o.eps,
                                      .norm_decay = o.norm_decay,
                                      .nrank = 1,
                                      .lars = lars,
                                      .nesterov = (uint32_t)o.nesterov,
                                      .lr_in_momentum = (uint32_t)o.lr_in_momentum,
                                      .check = (uint32_t)o.check,
                                      .npart = PARTS,
                                      .npiece = (uint32_t)(end - m->pieces),
                                      .ntensor = PARTS };
}

static void drop_model(struct model *m)
{
    plait_optim_destroy(m->optim);
    for (uint32_t k = 0; k < PARTS; k++) {
        free((void *)(uintptr_t)m->parts[k].gradient);
        free(m->parts[k].master);
        free(m->parts[k].copy);
        free(m->device[k].master);
        free(m->device[k].momentum);
        free(m->device[k].copy);
    }
}

/* The sums apart from the trusts, as when there is an all-reduce between them. */
static void step_on_device(struct model *m, const struct plait_optim_step *s, bool apart)
{
    m->step = (struct plait_cuda_step){ s->lr, s->factor, s->decay };
    m->a.late = apart ? &m->step : NULL;
    m->a.step = m->step;
    plait_cuda_host_find("plait_optim_squares")->run(&m->a, 1 + (uint32_t)draw(m->a.npiece));
    m->a.what = apart ? PLAIT_CUDA_ADD : PLAIT_CUDA_ADD | PLAIT_CUDA_TRUST;
    plait_cuda_host_find("plait_optim_trust")->run(&m->a, 1);
    if (apart) {
        m->a.what = PLAIT_CUDA_TRUST;
        plait_cuda_host_find("plait_optim_trust")->run(&m->a, 1);
    }
    plait_cuda_host_find("plait_optim_update")->run(&m->a, 1 + (uint32_t)draw(m->a.npiece));
}

static void compare(struct model *m, const struct plait_optim_result *result)
{
    assert_int_equal(m->result.finite, result->finite);
    if (result->finite)
        assert_true(m->result.norm == result->norm);
    for (uint32_t k = 0; k < PARTS; k++) {
        const struct plait_optim_part *p = &m->parts[k];
        assert_memory_equal(m->device[k].master, p->master, p->count * 4);
        assert_memory_equal(m->device[k].momentum, plait_optim_momentum(m->optim, k), p->count * 4);
        if (p->copy != NULL)
            assert_memory_equal(m->device[k].copy, p->copy, p->count * plait_dtype_size(p->copy_type));
    }
}

/* After a step the weights are no whole numbers any more. */
static void draw_weights(struct model *m)
{
    for (uint32_t k = 0; k < PARTS; k++) {
        fill(m->parts[k].master, PLAIT_FLOAT32, k == 1 ? 0 : m->parts[k].count);
        memcpy(m->device[k].master, m->parts[k].master, m->parts[k].count * 4);
    }
}

static void steps_have_the_bits_of_the_cpu(void **state)
{
    for (uint32_t trial = 0; trial < 12; trial++) {
        struct model m;

        draw_model(&m, trial % 3 != 0);
        for (uint32_t i = 0; i < STEPS; i++) {
            struct plait_optim_step s = PLAIT_OPTIM_STEP_DEFAULT;
            struct plait_optim_result result;
            s.lr = 0.1 + 0.3 * i;
            s.factor = 0.25;
            s.decay = 0.7;
            assert_int_equal(plait_optim_step(m.optim, &s, &result), PLAIT_OK);
            step_on_device(&m, &s, trial % 2 != 0);
            compare(&m, &result);
            draw_weights(&m);
        }
        drop_model(&m);
    }
}

/* The factor of the CPU's step is divided by the scale, which its caller updates. */
static void a_scale_is_read_and_updated_as_on_the_cpu(void **state)
{
    static const struct plait_loss_scale start = { 0x1p124, 2, 0.25, 0x1p122, 0x1p125, 1, 0, 0 };

    for (uint32_t trial = 0; trial < 8; trial++) {
        struct plait_loss_scale want = start;
        struct model m;
        draw_model(&m, trial % 4 != 0);
        plait_optim_destroy(m.optim);
        m.options.check = 1;
        m.a.check = 1;
        assert_int_equal(plait_optim_create(&m.options, &m.optim), PLAIT_OK);
        m.scale = start;
        m.a.scale = &m.scale;
        for (uint32_t i = 0; i < STEPS; i++) {
            struct plait_optim_step s = PLAIT_OPTIM_STEP_DEFAULT, scaled;
            struct plait_optim_result result;
            s.lr = 0.2;
            s.factor = i == 1 ? 1e300 : 0x1p122; /* divided by the scale, the second is too large */
            scaled = s;
            scaled.factor /= want.scale;
            assert_int_equal(plait_optim_step(m.optim, &scaled, &result), PLAIT_OK);
            assert_int_equal(plait_loss_scale_update(&want, result.finite), PLAIT_OK);
            step_on_device(&m, &s, trial % 2 != 0);
            compare(&m, &result);
            assert_memory_equal(&m.scale, &want, sizeof want);
            draw_weights(&m);
        }
        assert_true(want.scale == 0x1p124 && want.skipped == 1);
        drop_model(&m);
    }
}

static void a_step_that_is_not_finite_changes_nothing(void **state)
{
    struct plait_optim_step s = PLAIT_OPTIM_STEP_DEFAULT;
    struct plait_optim_result result;
    struct model m;

    s.lr = 0.1;
    draw_model(&m, true);
    float *g = take(m.parts[0].count * 4);
    g[m.parts[0].count / 2] = INFINITY;
    free((void *)(uintptr_t)m.parts[0].gradient);
    plait_optim_destroy(m.optim);
    m.parts[0].gradient = m.device[0].gradient = g;
    m.parts[0].type = m.device[0].type = PLAIT_FLOAT32;
    m.options.check = 1;
    m.a.check = 1;
    assert_int_equal(plait_optim_create(&m.options, &m.optim), PLAIT_OK);
    assert_int_equal(plait_optim_step(m.optim, &s, &result), PLAIT_OK);
    assert_int_equal(result.finite, 0);
    step_on_device(&m, &s, false);
    compare(&m, &result);
    drop_model(&m);
}

static void a_scale_that_is_none_skips_the_step(void **state)
{
    static const double bad[] = { 0, -1, NAN };

    for (size_t i = 0; i < 4 * sizeof bad / sizeof *bad; i++) {
        struct plait_optim_step s = PLAIT_OPTIM_STEP_DEFAULT;
        struct model m;
        s.lr = 0.1;
        draw_model(&m, i & 1);
        m.a.check = i >> 1 & 1;
        m.a.scale = &m.scale;
        m.scale = (struct plait_loss_scale){ .scale = bad[i / 4] };
        step_on_device(&m, &s, false);
        assert_int_equal(m.result.finite, 0);
        drop_model(&m);
    }
}

/* Finite gradients that the factor makes infinite, with SGD and LARS. */
static void a_step_that_float32_does_not_hold_is_skipped_as_on_the_cpu(void **state)
{
    static const double factors[] = { 1e38, 1e300, 1e-3 };
    struct plait_optim_result result;
    struct model m;

    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
        for (int lars = 0; lars < 2; lars++) {
            struct plait_optim_step s = PLAIT_OPTIM_STEP_DEFAULT;
            s.factor = factors[i];
            s.lr = 0.1;
            draw_model(&m, lars);
            plait_optim_destroy(m.optim);
            m.options.check = 1;
            m.a.check = 1;
            assert_int_equal(plait_optim_create(&m.options, &m.optim), PLAIT_OK);
            assert_int_equal(plait_optim_step(m.optim, &s, &result), PLAIT_OK);
            assert_int_equal(result.finite, i == 2);
            step_on_device(&m, &s, false);
            compare(&m, &result);
            drop_model(&m);
        }
}

/* One part on lines: every byte read and every byte written is in one access of 16. */
static void what_lies_on_lines_moves_by_lines_alone(void **state)
{
    static const enum plait_dtype types[][2] = { { PLAIT_FLOAT32, PLAIT_BFLOAT16 },
                                                 { PLAIT_BFLOAT16, PLAIT_BFLOAT16 },
                                                 { PLAIT_FLOAT16, PLAIT_FLOAT32 },
                                                 { PLAIT_FLOAT32, PLAIT_FLOAT32 } };
    static const uint64_t counts[] = { 64, 4096, 432 };

    for (uint32_t i = 0; i < sizeof types / sizeof *types * 3; i++) {
        struct plait_optim_step s = PLAIT_OPTIM_STEP_DEFAULT;
        const uint64_t count = counts[i % 3], gradient = plait_dtype_size(types[i / 3][0]);
        struct model m;
        draw_model(&m, true);
        struct plait_cuda_part *p = &m.device[0];
        p->type = types[i / 3][0];
        p->copy_type = types[i / 3][1];
        p->flags = 0;
        free(p->copy);
        p->copy = take(LONG * 4);
        m.a.npart = m.a.ntensor = 1;
        m.a.npiece = (uint32_t)(plait_cuda_cut(m.pieces, 0, count) - m.pieces);
        m.ranges[0] = (struct plait_cuda_range){ 0, m.a.npiece };
        memset((void *)(uintptr_t)p->gradient, 0, LONG * gradient);
        plait_cuda_nline = 0;
        plait_cuda_host_find("plait_optim_squares")->run(&m.a, 2);
        assert_int_equal(plait_cuda_nline * 16, count * (gradient + 4));
        step_on_device(&m, &s, false);
        plait_cuda_nline = 0;
        plait_cuda_host_find("plait_optim_update")->run(&m.a, 2);
        assert_int_equal(plait_cuda_nline * 16, count * (gradient + 8 + 8 + plait_dtype_size(p->copy_type)));
        drop_model(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_have_the_bits_of_the_cpu),
        cmocka_unit_test(a_scale_is_read_and_updated_as_on_the_cpu),
        cmocka_unit_test(a_step_that_is_not_finite_changes_nothing),
        cmocka_unit_test(a_scale_that_is_none_skips_the_step),
        cmocka_unit_test(a_step_that_float32_does_not_hold_is_skipped_as_on_the_cpu),
        cmocka_unit_test(what_lies_on_lines_moves_by_lines_alone),
    };
    plait_fpenv_enter();
    return cmocka_run_group_tests_name("cuda optimiser", tests, NULL, NULL);
}
