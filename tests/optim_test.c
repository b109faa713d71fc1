/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The optimiser's step against the published formulas in double precision; its bits; what is wrong is named and
 * changes nothing.
 *
 *     optim_test [SEED]
 */
#include "random.h"
#include "reduce/reduce.h"
#include "reduce_reference.h"
#include "unit.h"

#include <plait/optim.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { NTENSOR = 9, MOST = 3000, NSTEP = 25 };
static const size_t counts[NTENSOR] = { 1, 15, 16, 17, 191, 193, 777, 2999, 64 };

static uint64_t seed, state;

static uint64_t draw(void)
{
    return random_next(&state);
}

static double uniform(void) /* -1 to 1 */
{
    return (double)(int64_t)draw() * 0x1p-63;
}

/* ---- A model: gradients, weights, and what the formulas make of them --------------------------------------- */

struct model {
    struct plait_optim_part parts[NTENSOR];
    _Alignas(64) unsigned char gradient[NTENSOR][MOST * 4], copy[NTENSOR][MOST * 4];
    float master[NTENSOR][MOST];
    double w[NTENSOR][MOST], v[NTENSOR][MOST]; /* the reference */
};

static struct model *model_make(enum plait_dtype type, enum plait_dtype copy)
{
    struct model *m = calloc(1, sizeof *m);

    assert_non_null(m);
    for (uint32_t t = 0; t < NTENSOR; t++) {
        m->parts[t] = (struct plait_optim_part){ t,
                                                 counts[t],
                                                 m->gradient[t],
                                                 type,
                                                 m->master[t],
                                                 copy == PLAIT_NDTYPE ? NULL : m->copy[t],
                                                 copy,
                                                 t % 4 == 1 ? PLAIT_OPTIM_PLAIN : 0 };
        for (size_t i = 0; i < counts[t]; i++) {
            m->master[t][i] = t == 2 ? 0 : (float)uniform(); /* all zeros: trust 1 */
            m->w[t][i] = (double)m->master[t][i];
        }
    }
    return m;
}

static double gradient(const struct model *m, uint32_t t, size_t i)
{
    const enum plait_dtype type = m->parts[t].type;
    float f;

    if (type != PLAIT_FLOAT32)
        return narrow_value(type, element(m->gradient[t], type, i));
    memcpy(&f, m->gradient[t] + 4 * i, sizeof f);
    return (double)f;
}

static void draw_gradients(struct model *m, double size)
{
    for (uint32_t t = 0; t < NTENSOR; t++)
        for (size_t i = 0; i < counts[t]; i++) {
            const float f = t == 3 ? 0 : (float)(size * uniform()); /* all zeros: trust 1 */
            const enum plait_dtype type = m->parts[t].type;
            if (type == PLAIT_FLOAT32)
                memcpy(m->gradient[t] + 4 * i, &f, sizeof f);
            else
                set_element(m->gradient[t], type, i, narrow_bits(type, f));
        }
}

/* optim.h's formulas, word for word. Returns the largest number that came up. */
static double reference_step(struct model *m, const struct plait_optim_options *o, const struct plait_optim_step *s)
{
    double largest = 0;

    for (uint32_t t = 0; t < NTENSOR; t++) {
        const bool lars = o->method == PLAIT_OPTIM_LARS && !(m->parts[t].flags & PLAIT_OPTIM_NO_TRUST);
        const double decay = m->parts[t].flags & PLAIT_OPTIM_NO_DECAY ? 0 : o->decay * s->decay;
        double ww = 0, gg = 0, trust = 1;
        for (size_t i = 0; i < counts[t]; i++) {
            const double g = gradient(m, t, i) * s->factor;
            ww += m->w[t][i] * m->w[t][i];
            gg += g * g;
        }
        if (lars && ww > 0 && gg > 0)
            trust = o->eta * sqrt(ww) / (sqrt(gg) + (o->norm_decay < 0 ? decay : o->norm_decay) * sqrt(ww) + o->eps);
        for (size_t i = 0; i < counts[t]; i++) {
            double *w = &m->w[t][i], *v = &m->v[t][i];
            const double d = trust * (gradient(m, t, i) * s->factor + decay * *w) * (o->lr_in_momentum ? s->lr : 1);
            *v = o->momentum * *v + d;
            *w -= (o->nesterov ? o->momentum * *v + d : *v) * (o->lr_in_momentum ? 1 : s->lr);
            largest = fmax(largest, fmax(fabs(*w), fabs(*v)));
        }
    }
    return largest;
}

static struct plait_optim *optim_make(const struct model *m, struct plait_optim_options *o)
{
    struct plait_optim *optim = NULL;

    o->parts = m->parts;
    o->npart = o->ntensor = NTENSOR;
    if (plait_optim_create(o, &optim) != PLAIT_OK)
        fail_msg("%s", plait_last_error());
    return optim;
}

static struct plait_optim_step step_of(uint32_t step, double size)
{
    struct plait_optim_step s = PLAIT_OPTIM_STEP_DEFAULT;

    s.lr = 0.3 / (1 + step);
    s.factor = 1 / size;
    s.decay = 1.0 / (1 + step % 3);
    return s;
}

/* Every operation rounds: eight of them in a step, of numbers not above `largest`. */
static void assert_near(struct model *m, struct plait_optim *optim, double largest, const char *what)
{
    const double most = 8 * NSTEP * 0x1p-24 * largest;

    for (uint32_t t = 0; t < NTENSOR; t++)
        for (size_t i = 0; i < counts[t]; i++) {
            const double w = (double)m->master[t][i], v = (double)plait_optim_momentum(optim, t)[i];
            if (!(fabs(w - m->w[t][i]) <= most && fabs(v - m->v[t][i]) <= most))
                fail_msg("seed %llu: %s: tensor %u, element %zu: weight %.9g for %.9g, momentum %.9g for %.9g",
                         (unsigned long long)seed, what, t, i, w, m->w[t][i], v, m->v[t][i]);
        }
}

static void assert_copies(const struct model *m)
{
    for (uint32_t t = 0; t < NTENSOR; t++)
        for (size_t i = 0; m->parts[t].copy != NULL && i < counts[t]; i++) {
            const enum plait_dtype type = m->parts[t].copy_type;
            const float w = m->master[t][i];
            assert_int_equal(element(m->copy[t], type, i), type == PLAIT_FLOAT32 ? of_f32(w) : narrow_bits(type, w));
        }
}

/* ---- Formulas --------------------------------------------------------------------------------------------- */

static void follow(struct plait_optim_options o, enum plait_dtype type, enum plait_dtype copy)
{
    struct model *m = model_make(type, copy);
    struct plait_optim *optim = optim_make(m, &o);
    struct plait_optim_result result;
    const double size = 1024;
    double largest = 1;
    char what[160];

    snprintf(what, sizeof what, "method %d nesterov %d lr_in_momentum %d norm_decay %g, %s to %s", (int)o.method,
             o.nesterov, o.lr_in_momentum, o.norm_decay, plait_dtype_name(type), plait_dtype_name(copy));
    for (uint32_t i = 0; i < NSTEP; i++) {
        const struct plait_optim_step s = step_of(i, size);
        draw_gradients(m, size);
        assert_int_equal(plait_optim_step(optim, &s, &result), PLAIT_OK);
        assert_true(result.finite);
        largest = fmax(largest, reference_step(m, &o, &s));
    }
    assert_near(m, optim, largest, what);
    assert_copies(m);
    plait_optim_destroy(optim);
    free(m);
}

static void every_form_follows_its_formula(void **unused)
{
    static const enum plait_dtype types[] = { PLAIT_FLOAT32, PLAIT_FLOAT16, PLAIT_BFLOAT16 };
    static const enum plait_dtype copies[] = { PLAIT_NDTYPE, PLAIT_FLOAT16, PLAIT_BFLOAT16, PLAIT_FLOAT32,
                                               PLAIT_FLOAT8E4M3 };
    static const double norm_decays[] = { -1, 0, 0.02 };

    for (unsigned bits = 0; bits < 24; bits++)
        for (unsigned k = 0; k < 3; k++) {
            struct plait_optim_options o = PLAIT_OPTIM_OPTIONS_DEFAULT;
            o.method = bits & 1 ? PLAIT_OPTIM_LARS : PLAIT_OPTIM_SGD;
            o.nesterov = bits >> 1 & 1;
            o.lr_in_momentum = bits >> 2 & 1;
            o.momentum = bits < 8 ? 0.9 : bits < 16 ? 0.5 : 0;
            o.norm_decay = norm_decays[k];
            o.eta = 0.02;
            o.eps = k == 1 ? 0.1 : 0;
            o.decay = 0.01;
            follow(o, types[(bits + k) % 3], copies[(bits + 2 * k) % 5]);
        }
}

/* Yamazaki et al. as released: m = mom m - wd s c_wd w - lr s c rescale g, s = eta |w| / (|g| rescale + wd |w| + 1e-9). */
static void the_released_form_of_yamazaki_et_al_can_be_had(void **unused)
{
    const double mom = 0.96, base = 13, wd = 5e-5 * base, eta = 0.0025, rescale = 1.0 / 128;
    struct plait_optim_options o = PLAIT_OPTIM_OPTIONS_DEFAULT;
    struct model *m = model_make(PLAIT_FLOAT16, PLAIT_FLOAT16);
    const uint32_t t = 7;

    o.momentum = mom;
    o.decay = 5e-5;
    o.norm_decay = wd;
    o.eta = eta;
    o.eps = 1e-9;
    struct plait_optim *optim = optim_make(m, &o);
    for (uint32_t step = 0; step < NSTEP; step++) {
        const double c = (1 + step) / 25.0, c_wd = (2 + step) / 50.0;
        struct plait_optim_step s = PLAIT_OPTIM_STEP_DEFAULT;
        double ww = 0, gg = 0;
        draw_gradients(m, 128);
        for (size_t i = 0; i < counts[t]; i++) {
            ww += m->w[t][i] * m->w[t][i];
            gg += gradient(m, t, i) * gradient(m, t, i);
        }
        const double trust = eta * sqrt(ww) / (sqrt(gg) * rescale + wd * sqrt(ww) + 1e-9);
        for (size_t i = 0; i < counts[t]; i++) {
            double *w = &m->w[t][i], *v = &m->v[t][i];
            *v = mom * *v - wd * trust * c_wd * *w - base * trust * c * rescale * gradient(m, t, i);
            *w += *v;
        }
        s.lr = base * c;
        s.factor = rescale;
        s.decay = c_wd / c;
        assert_int_equal(plait_optim_step(optim, &s, NULL), PLAIT_OK);
    }
    for (size_t i = 0; i < counts[t]; i++) {
        assert_true(fabs((double)m->master[t][i] - m->w[t][i]) <= 8 * NSTEP * 0x1p-24 * 2);
        assert_true(fabs((double)plait_optim_momentum(optim, t)[i] + m->v[t][i]) <= 8 * NSTEP * 0x1p-24 * 2);
    }
    plait_optim_destroy(optim);
    free(m);
}

/* ---- Bits ------------------------------------------------------------------------------------------------- */

static struct model *after_steps(struct plait_optim_options o, const char *isa, uint64_t from, float *momentum)
{
    state = from;
    struct model *m = model_make(PLAIT_FLOAT16, PLAIT_BFLOAT16);

    setenv("PLAIT_ISA", isa, 1);
    struct plait_optim *optim = optim_make(m, &o);
    for (uint32_t i = 0; i < NSTEP; i++) {
        const struct plait_optim_step s = step_of(i, 64);
        draw_gradients(m, 64);
        assert_int_equal(plait_optim_step(optim, &s, NULL), PLAIT_OK);
    }
    memcpy(momentum, plait_optim_momentum(optim, 7), counts[7] * sizeof *momentum);
    plait_optim_destroy(optim);
    unsetenv("PLAIT_ISA");
    return m;
}

static void bits_are_the_same_in_every_run_and_with_every_instruction_set(void **unused)
{
    static const char *const isas[] = { "scalar", "scalar", "avx2", "avx512" };
    static float want[MOST], got[MOST];
    const uint64_t from = draw();

    for (int nesterov = 0; nesterov < 2; nesterov++) {
        struct plait_optim_options o = PLAIT_OPTIM_OPTIONS_DEFAULT;
        o.nesterov = nesterov;
        struct model *first = after_steps(o, isas[0], from, want);
        for (size_t k = 1; k < sizeof isas / sizeof *isas; k++) {
            if (plait_kernels_find(isas[k]) == NULL)
                continue;
            struct model *m = after_steps(o, isas[k], from, got);
            assert_memory_equal(m->master, first->master, sizeof m->master);
            assert_memory_equal(m->copy, first->copy, sizeof m->copy);
            assert_memory_equal(got, want, counts[7] * sizeof *got);
            free(m);
        }
        free(first);
    }
}

static struct model *one_step(struct plait_optim_options o, uint64_t from, bool squares)
{
    struct plait_optim_step s = step_of(0, 1);
    double known[NTENSOR] = { 0 };

    state = from;
    struct model *m = model_make(PLAIT_FLOAT32, PLAIT_NDTYPE);
    draw_gradients(m, 1);
    for (uint32_t t = 0; t < NTENSOR; t++)
        for (size_t i = 0; i < counts[t]; i++)
            known[t] += gradient(m, t, i) * gradient(m, t, i);
    s.squares = squares ? known : NULL;
    struct plait_optim *optim = optim_make(m, &o);
    assert_int_equal(plait_optim_step(optim, &s, NULL), PLAIT_OK);
    plait_optim_destroy(optim);
    return m;
}

static void known_squares_take_the_place_of_reading_gradients(void **unused)
{
    const struct plait_optim_options o = PLAIT_OPTIM_OPTIONS_DEFAULT;
    const uint64_t from = draw();
    struct model *a = one_step(o, from, false), *b = one_step(o, from, true);

    for (uint32_t t = 0; t < NTENSOR; t++)
        for (size_t i = 0; i < counts[t]; i++)
            assert_true(fabsf(a->master[t][i] - b->master[t][i]) <= 0x1p-23f);
    free(a);
    free(b);
}

static void what_is_excluded_is_plain_momentum_without_decay(void **unused)
{
    struct plait_optim_options lars = PLAIT_OPTIM_OPTIONS_DEFAULT, sgd = PLAIT_OPTIM_OPTIONS_DEFAULT;
    const uint64_t from = draw();

    lars.decay = 0.1;
    sgd.method = PLAIT_OPTIM_SGD;
    sgd.decay = 0;
    struct model *a = one_step(lars, from, false), *b = one_step(sgd, from, false);
    for (uint32_t t = 0; t < NTENSOR; t++) {
        const bool same = memcmp(a->master[t], b->master[t], counts[t] * sizeof(float)) == 0;
        const bool excluded = a->parts[t].flags == PLAIT_OPTIM_PLAIN;
        const bool trusts_one_without_weights = t == 2;
        assert_int_equal(same, excluded || trusts_one_without_weights);
    }
    free(a);
    free(b);
}

static void a_tensor_in_parts_has_one_norm(void **unused)
{
    struct plait_optim_options o = PLAIT_OPTIM_OPTIONS_DEFAULT;
    struct plait_optim_step s = step_of(0, 1);
    struct plait_optim_part parts[2];
    struct plait_optim *optim;
    const uint64_t from = draw();
    struct model *whole = one_step(o, from, false);

    state = from;
    struct model *m = model_make(PLAIT_FLOAT32, PLAIT_NDTYPE);
    draw_gradients(m, 1);
    parts[0] = parts[1] = m->parts[7];
    parts[0].count = 1001;
    parts[1].count -= 1001;
    parts[1].gradient = (const float *)parts[0].gradient + 1001;
    parts[1].master += 1001;
    o.parts = parts;
    o.npart = 2;
    o.ntensor = NTENSOR;
    assert_int_equal(plait_optim_create(&o, &optim), PLAIT_OK);
    assert_int_equal(plait_optim_step(optim, &s, NULL), PLAIT_OK);
    for (size_t i = 0; i < counts[7]; i++)
        assert_true(fabsf(m->master[7][i] - whole->master[7][i]) <= 0x1p-23f);
    plait_optim_destroy(optim);
    free(m);
    free(whole);
}

/* ---- What is not finite ----------------------------------------------------------------------------------- */

static void spoil(struct model *m, uint32_t t, float with)
{
    memcpy(m->gradient[t] + 4 * (counts[t] - 1), &with, sizeof with);
}

static void an_infinite_or_nan_slopeskips_the_step(void **unused)
{
    struct model before;
    const float bad[] = { INFINITY, -INFINITY, NAN };

    for (uint32_t t = 0; t < NTENSOR; t++)
        for (int method = 0; method < 2; method++) {
            struct plait_optim_options o = PLAIT_OPTIM_OPTIONS_DEFAULT;
            struct plait_optim_step s = step_of(0, 1);
            struct plait_optim_result result = { 1, 0 };
            struct model *m = model_make(PLAIT_FLOAT32, PLAIT_FLOAT16);
            o.method = (enum plait_optim_method)method;
            struct plait_optim *optim = optim_make(m, &o);
            draw_gradients(m, 1);
            spoil(m, t, bad[t % 3]);
            before = *m;
            assert_int_equal(plait_optim_step(optim, &s, &result), PLAIT_OK);
            assert_false(result.finite);
            assert_memory_equal(&before, m, sizeof before);
            for (size_t i = 0; i < counts[t]; i++)
                assert_true(plait_optim_momentum(optim, t)[i] == 0);
            spoil(m, t, 0.5f);
            assert_int_equal(plait_optim_step(optim, &s, &result), PLAIT_OK);
            assert_true(result.finite);
            plait_optim_destroy(optim);
            free(m);
        }
}

static void without_check_only_gradients_whose_norm_is_needed_are_looked_at(void **unused)
{
    struct plait_optim_options o = PLAIT_OPTIM_OPTIONS_DEFAULT;
    struct plait_optim_step s = step_of(0, 1);
    struct plait_optim_result result;
    struct model *m = model_make(PLAIT_FLOAT32, PLAIT_NDTYPE);

    o.check = 0;
    struct plait_optim *optim = optim_make(m, &o);
    draw_gradients(m, 1);
    spoil(m, 5, NAN); /* of the excluded */
    assert_int_equal(plait_optim_step(optim, &s, &result), PLAIT_OK);
    assert_true(result.finite);
    assert_true(isnan(m->master[5][counts[5] - 1]));
    spoil(m, 4, NAN);
    assert_int_equal(plait_optim_step(optim, &s, &result), PLAIT_OK);
    assert_false(result.finite);
    plait_optim_destroy(optim);
    free(m);
}

/* ---- Arguments -------------------------------------------------------------------------------------------- */

static void refused(struct plait_optim_options o, const char *says)
{
    struct plait_optim *out = NULL;

    assert_int_equal(plait_optim_create(&o, &out), PLAIT_ERR_ARG);
    assert_null(out);
    if (strstr(plait_last_error(), says) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", plait_last_error(), says);
}

static void wrong_options_are_named(void **unused)
{
    struct model *m = model_make(PLAIT_FLOAT32, PLAIT_FLOAT16);
    struct plait_optim_options good = PLAIT_OPTIM_OPTIONS_DEFAULT, o;
    struct plait_optim_part two[2] = { m->parts[0], m->parts[1] };
    struct plait_optim *out;

    good.parts = m->parts;
    good.npart = good.ntensor = NTENSOR;
    assert_int_equal(plait_optim_create(NULL, &out), PLAIT_ERR_ARG);
    assert_int_equal(plait_optim_create(&good, NULL), PLAIT_ERR_ARG);
#define REFUSED(member, value, says) (o = good, o.member = value, refused(o, says))
    REFUSED(size, 3, "options->size is 3, not ");
    REFUSED(method, 7, "method is 7");
    REFUSED(ntensor, 0, "ntensor is 0");
    REFUSED(ntensor, 8, "parts[8].tensor is 8");
    REFUSED(npart, 0, "npart is 0");
    REFUSED(parts, NULL, "parts is 0");
    REFUSED(momentum, 1, "momentum is 1");
    REFUSED(decay, -1, "decay is -1");
    REFUSED(eta, 0, "eta is 0");
    REFUSED(eps, NAN, "eps is");
    REFUSED(norm_decay, INFINITY, "norm_decay is inf");
#undef REFUSED
    o = good;
    o.parts = two;
    o.npart = 2;
    two[1].gradient = NULL;
    refused(o, "parts[1].gradient is NULL");
    two[1] = m->parts[1];
    two[1].type = PLAIT_INT32;
    refused(o, "parts[1].type is int32");
    two[1].type = PLAIT_FLOAT32;
    two[1].copy_type = PLAIT_FLOAT64;
    refused(o, "parts[1].copy_type is float64");
    two[1] = m->parts[1];
    two[1].count = 0;
    refused(o, "parts[1].count is 0");
    two[1] = m->parts[1];
    two[1].flags = 8;
    refused(o, "parts[1].flags is 0x8");
    two[1].flags = PLAIT_OPTIM_NO_TRUST;
    two[1].tensor = 0;
    refused(o, "same tensor 0");
    two[1] = m->parts[1];
    two[1].master = two[0].master + two[0].count - 1;
    refused(o, "parts[0].master (");
    refused(o, "and parts[1].master (");
    free(m);
}

static void a_wrong_step_is_named_and_changes_nothing(void **unused)
{
    struct plait_optim_options o = PLAIT_OPTIM_OPTIONS_DEFAULT;
    const struct plait_optim_step good = PLAIT_OPTIM_STEP_DEFAULT;
    struct plait_optim_step s;
    const double squares[NTENSOR] = { 1, 1, 1, -1 };
    struct model *m = model_make(PLAIT_FLOAT32, PLAIT_NDTYPE), before;
    struct plait_optim *optim = optim_make(m, &o);

    draw_gradients(m, 1);
    before = *m;
    assert_int_equal(plait_optim_step(NULL, &good, NULL), PLAIT_ERR_ARG);
    assert_int_equal(plait_optim_step(optim, NULL, NULL), PLAIT_ERR_ARG);
#define REFUSED(member, value, says)                                                                 \
    (s = good, s.member = value, assert_int_equal(plait_optim_step(optim, &s, NULL), PLAIT_ERR_ARG), \
     assert_non_null(strstr(plait_last_error(), says)))
    REFUSED(size, 1, "PLAIT_OPTIM_STEP_DEFAULT");
    REFUSED(lr, NAN, "lr is");
    REFUSED(lr, -1, "lr is -1");
    REFUSED(factor, 0, "factor is 0");
    REFUSED(decay, INFINITY, "decay is inf");
    REFUSED(squares, squares, "squares[3] is -1");
#undef REFUSED
    assert_memory_equal(&before, m, sizeof before);
    assert_null(plait_optim_momentum(optim, NTENSOR));
    assert_null(plait_optim_momentum(NULL, 0));
    plait_optim_destroy(NULL);
    plait_optim_destroy(optim);
    free(m);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_follows_its_formula),
        cmocka_unit_test(the_released_form_of_yamazaki_et_al_can_be_had),
        cmocka_unit_test(bits_are_the_same_in_every_run_and_with_every_instruction_set),
        cmocka_unit_test(known_squares_take_the_place_of_reading_gradients),
        cmocka_unit_test(what_is_excluded_is_plain_momentum_without_decay),
        cmocka_unit_test(a_tensor_in_parts_has_one_norm),
        cmocka_unit_test(an_infinite_or_nan_slopeskips_the_step),
        cmocka_unit_test(without_check_only_gradients_whose_norm_is_needed_are_looked_at),
        cmocka_unit_test(wrong_options_are_named),
        cmocka_unit_test(a_wrong_step_is_named_and_changes_nothing),
    };

    seed = argc > 1 ? strtoull(argv[1], NULL, 0) : (uint64_t)time(NULL);
    state = seed;
    print_message("seed %llu\n", (unsigned long long)seed);
    return cmocka_run_group_tests_name("optim", tests, NULL, NULL);
}
