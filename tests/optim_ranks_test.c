/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sharded optimiser: what each rank makes of its parts is what one process makes of the whole; what is not finite
 * on one rank skips the step on all; what differs between ranks is named on all.
 */
#include "pending.h"
#include "unit_ranks.h"

#include <plait/fusion.h>
#include <plait/group.h>
#include <plait/optim.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NTENSOR = 6, NRANK = 3, NSTEP = 10 };
static const size_t counts[NTENSOR] = { 5, 1000, 64, 333, 3001, 1 };

static float value(uint32_t what, uint32_t tensor, size_t i)
{
    uint32_t x = (uint32_t)i * 2654435761u + tensor * 40503u + what * 69069u + 1;

    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    return (float)(int32_t)x * 0x1p-31f;
}

struct tensors {
    float w[NTENSOR][3001], g[NTENSOR][3001];
};

static void fill_weights(struct tensors *x)
{
    for (uint32_t t = 0; t < NTENSOR; t++)
        for (size_t i = 0; i < counts[t]; i++)
            x->w[t][i] = value(0, t, i);
}

static void fill_gradients(struct tensors *x, uint32_t step)
{
    for (uint32_t t = 0; t < NTENSOR; t++)
        for (size_t i = 0; i < counts[t]; i++)
            x->g[t][i] = value(1 + step, t, i) / 8;
}

static struct plait_optim_part part_of(struct tensors *x, uint32_t t, size_t start, size_t end)
{
    return (struct plait_optim_part){ .tensor = t,
                                      .count = end - start,
                                      .gradient = x->g[t] + start,
                                      .type = PLAIT_FLOAT32,
                                      .master = x->w[t] + start,
                                      .flags = t == 2 ? PLAIT_OPTIM_PLAIN : 0 };
}

/* A rank's parts: of each tensor a third; or every third tensor. */
static uint32_t make_parts(struct tensors *x, uint32_t rank, bool cut, struct plait_optim_part *parts)
{
    uint32_t n = 0;

    for (uint32_t t = 0; t < NTENSOR; t++) {
        const size_t start = cut ? counts[t] * rank / NRANK : 0, end = cut ? counts[t] * (rank + 1) / NRANK : counts[t];
        if (end > start && (cut || t % NRANK == rank))
            parts[n++] = part_of(x, t, start, end);
    }
    return n;
}

static struct plait_optim_options options_of(enum plait_optim_method method)
{
    struct plait_optim_options o = PLAIT_OPTIM_OPTIONS_DEFAULT;

    o.method = method;
    o.ntensor = NTENSOR;
    o.eta = 0.02;
    o.decay = 0.01;
    return o;
}

static struct plait_optim_step step_of(uint32_t step)
{
    struct plait_optim_step s = PLAIT_OPTIM_STEP_DEFAULT;

    s.lr = 0.1 * (step + 1);
    s.factor = 0.5;
    return s;
}

/* All tensors in one process. */
static int whole(struct tensors *x, enum plait_optim_method method, uint32_t rank)
{
    struct plait_optim_options o = options_of(method);
    struct plait_optim_part parts[NTENSOR];
    struct plait_optim *optim;

    for (uint32_t t = 0; t < NTENSOR; t++)
        parts[t] = part_of(x, t, 0, counts[t]);
    o.parts = parts;
    o.npart = NTENSOR;
    fill_weights(x);
    CHECK(plait_optim_create(&o, &optim) == PLAIT_OK);
    for (uint32_t step = 0; step < NSTEP; step++) {
        const struct plait_optim_step s = step_of(step);
        fill_gradients(x, step);
        CHECK(plait_optim_step(optim, &s, NULL) == PLAIT_OK);
    }
    plait_optim_destroy(optim);
    return 0;
}

struct kind {
    enum plait_optim_method method;
    bool cut;
};

static int sharded(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct kind *k = arg;
    struct plait_optim_options o = options_of(k->method);
    struct tensors *x = calloc(2, sizeof *x), *want = x + 1;
    struct plait_optim_part parts[NTENSOR];
    struct plait_optim_result result;
    struct plait_optim *optim;

    CHECK(x != NULL && whole(want, k->method, rank) == 0);
    o.parts = parts;
    o.npart = make_parts(x, rank, k->cut, parts);
    o.comm = *comm;
    fill_weights(x);
    CHECK(plait_optim_create(&o, &optim) == PLAIT_OK);
    for (uint32_t step = 0; step < NSTEP; step++) {
        const struct plait_optim_step s = step_of(step);
        fill_gradients(x, step);
        CHECK(plait_optim_step(optim, &s, &result) == PLAIT_OK && result.finite);
        double lowest, norm = result.norm;
        CHECK(plait_allreduce(*comm, &norm, &lowest, 1, PLAIT_FLOAT64, PLAIT_MIN, NULL) == PLAIT_OK);
        CHECK(lowest == norm); /* the same on all ranks */
    }
    for (uint32_t p = 0; p < o.npart; p++)
        for (size_t i = 0; i < parts[p].count; i++) {
            const size_t at = (size_t)(parts[p].master - x->w[parts[p].tensor]) + i;
            const float got = x->w[parts[p].tensor][at], right = want->w[parts[p].tensor][at];
            CHECK(fabsf(got - right) <= (k->cut && k->method == PLAIT_OPTIM_LARS ? NSTEP * 0x1p-23f : 0));
        }
    plait_optim_destroy(optim);
    free(x);
    return 0;
}

static void shards_get_the_bits_of_the_whole_where_norms_are_not_sums_of_parts(void **state)
{
    for (int cut = 0; cut < 2; cut++)
        for (int method = 0; method < 2; method++) {
            struct kind k = { (enum plait_optim_method)method, cut };
            run_both(NRANK, sharded, &k);
        }
}

/* ---- What is not finite ----------------------------------------------------------------------------------- */

static int one_nan(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_optim_options o = options_of(*(enum plait_optim_method *)arg);
    struct tensors *x = calloc(2, sizeof *x), *before = x + 1;
    struct plait_loss_scale scale = PLAIT_LOSS_SCALE_DYNAMIC;
    struct plait_optim_part parts[NTENSOR];
    struct plait_optim_result result;
    struct plait_optim *optim;

    CHECK(x != NULL);
    o.parts = parts;
    o.npart = make_parts(x, rank, true, parts);
    o.comm = *comm;
    fill_weights(x);
    CHECK(plait_optim_create(&o, &optim) == PLAIT_OK);
    for (uint32_t step = 0; step < NSTEP; step++) {
        struct plait_optim_step s = step_of(step);
        fill_gradients(x, step);
        s.factor = 1 / scale.scale;
        if (step % 2 == 1 && rank == step / 2 % NRANK)
            x->g[parts[0].tensor][counts[parts[0].tensor] * rank / NRANK] = step % 4 == 1 ? NAN : INFINITY;
        *before = *x;
        CHECK(plait_optim_step(optim, &s, &result) == PLAIT_OK);
        CHECK(result.finite == (step % 2 == 0));
        CHECK((memcmp(before->w, x->w, sizeof x->w) == 0) == !result.finite);
        CHECK(plait_loss_scale_update(&scale, result.finite) == PLAIT_OK);
    }
    CHECK(scale.scale == 65536 / 32);
    plait_optim_destroy(optim);
    free(x);
    return 0;
}

/* The same with a scale of the optimiser's on each rank. */
static int one_nan_with_a_scale(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_optim_options o = options_of(*(enum plait_optim_method *)arg);
    struct tensors *x = calloc(2, sizeof *x), *before = x + 1;
    struct plait_loss_scale scale = { 1024, 2, 0.25, 64, 4096, 2, 0, 0 }, want = scale;
    struct plait_optim_part parts[NTENSOR];
    struct plait_optim *optim;

    CHECK(x != NULL);
    o.parts = parts;
    o.npart = make_parts(x, rank, true, parts);
    o.comm = *comm;
    o.scale = &scale;
    fill_weights(x);
    CHECK(plait_optim_create(&o, &optim) == PLAIT_OK);
    for (uint32_t step = 0; step < NSTEP; step++) {
        const struct plait_optim_step s = step_of(step);
        const bool bad = step == 2 || step == 3 || step == 8;
        fill_gradients(x, step);
        if (bad && rank == step % NRANK)
            x->g[parts[0].tensor][counts[parts[0].tensor] * rank / NRANK] = NAN;
        *before = *x;
        CHECK(plait_optim_step(optim, &s, NULL) == PLAIT_OK);
        CHECK((memcmp(before->w, x->w, sizeof x->w) == 0) == bad);
        CHECK(plait_loss_scale_update(&want, !bad) == PLAIT_OK && memcmp(&want, &scale, sizeof scale) == 0);
    }
    CHECK(scale.skipped == 3);
    plait_optim_destroy(optim);
    free(x);
    return 0;
}

/* What one rank's gradient and the factor make is too large for float32: no rank's weights change. */
static int one_too_large(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_optim_options o = options_of(*(enum plait_optim_method *)arg);
    struct tensors *x = calloc(2, sizeof *x), *before = x + 1;
    struct plait_optim_part parts[NTENSOR];
    struct plait_optim_result result;
    struct plait_optim *optim;

    CHECK(x != NULL);
    o.parts = parts;
    o.npart = make_parts(x, rank, true, parts);
    o.comm = *comm;
    fill_weights(x);
    CHECK(plait_optim_create(&o, &optim) == PLAIT_OK);
    for (uint32_t step = 0; step < NRANK; step++) {
        struct plait_optim_step s = step_of(step);
        s.factor = 1e10;
        fill_gradients(x, step);
        if (step == rank)
            x->g[parts[0].tensor][counts[parts[0].tensor] * rank / NRANK] = 1e38F;
        *before = *x;
        CHECK(plait_optim_step(optim, &s, &result) == PLAIT_OK && !result.finite);
        CHECK(memcmp(before->w, x->w, sizeof x->w) == 0);
    }
    plait_optim_destroy(optim);
    free(x);
    return 0;
}

static void a_step_too_large_on_one_rank_is_skipped_on_all(void **state)
{
    for (int method = 0; method < 2; method++) {
        enum plait_optim_method m = (enum plait_optim_method)method;
        run_both(NRANK, one_too_large, &m);
    }
}

static void a_nan_on_one_rank_skips_the_step_on_all_and_halves_their_loss_scale(void **state)
{
    for (int method = 0; method < 2; method++) {
        enum plait_optim_method m = (enum plait_optim_method)method;
        run_both(NRANK, one_nan, &m);
        run_both(NRANK, one_nan_with_a_scale, &m);
    }
}

/* ---- Differences ------------------------------------------------------------------------------------------ */

static int ranks_that_differ_are_told_and_nothing_is_changed(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_optim_options o = options_of(PLAIT_OPTIM_LARS);
    struct plait_optim_step s = step_of(0);
    struct tensors *x = calloc(2, sizeof *x), *before = x + 1;
    struct plait_optim_part parts[NTENSOR];
    struct plait_optim *optim = NULL;

    CHECK(x != NULL);
    o.parts = parts;
    o.npart = make_parts(x, rank, true, parts);
    o.comm = *comm;
    o.eta = rank == 1 ? 0.03 : 0.02;
    CHECK(plait_optim_create(&o, &optim) == PLAIT_ERR_MISMATCH && optim == NULL);
    CHECK(strstr(plait_last_error(), "rank 0 has \"eta 0.02\" where rank 1 has \"eta 0.03\"") != NULL);
    o.eta = 0.02;
    o.momentum = rank == 2 ? 2 : 0.9;
    CHECK(plait_optim_create(&o, &optim) == (rank == 2 ? PLAIT_ERR_ARG : PLAIT_ERR_MISMATCH) && optim == NULL);
    CHECK(strstr(plait_last_error(),
                 rank == 2 ? "momentum is 2" : "rank 2 failed: plait_optim_create: momentum is 2; ") != NULL);
    o.momentum = 0.9;
    CHECK(plait_optim_create(&o, &optim) == PLAIT_OK);
    fill_weights(x);
    fill_gradients(x, 0);
    *before = *x;
    s.lr += rank;
    CHECK(plait_optim_step(optim, &s, NULL) == PLAIT_ERR_MISMATCH);
    CHECK(strstr(plait_last_error(), "lr, factor, decay or the loss scale differ") != NULL);
    CHECK(memcmp(before, x, sizeof *x) == 0);
    s = step_of(0);
    CHECK(plait_optim_step(optim, &s, NULL) == PLAIT_OK);
    plait_optim_destroy(optim);
    free(x);
    return 0;
}

static int different_scales_are_named_and_change_nothing(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_optim_options o = options_of(PLAIT_OPTIM_SGD);
    const struct plait_optim_step s = step_of(0);
    struct tensors *x = calloc(2, sizeof *x), *before = x + 1;
    struct plait_loss_scale scale = PLAIT_LOSS_SCALE_DYNAMIC, kept;
    struct plait_optim_part parts[NTENSOR];
    struct plait_optim *optim = NULL;

    CHECK(x != NULL);
    o.parts = parts;
    o.npart = make_parts(x, rank, true, parts);
    o.comm = *comm;
    o.scale = rank == 1 ? NULL : &scale;
    CHECK(plait_optim_create(&o, &optim) == PLAIT_ERR_MISMATCH && optim == NULL);
    CHECK(strstr(plait_last_error(), "rank 0 has \"scale given\" where rank 1 has \"scale NULL\"") != NULL);
    o.scale = &scale;
    CHECK(plait_optim_create(&o, &optim) == PLAIT_OK);
    fill_weights(x);
    fill_gradients(x, 0);
    *before = *x;
    scale.scale = rank == 1 ? 32768 : 65536;
    kept = scale;
    CHECK(plait_optim_step(optim, &s, NULL) == PLAIT_ERR_MISMATCH);
    CHECK(strstr(plait_last_error(), "the loss scale differ") != NULL);
    CHECK(memcmp(before, x, sizeof *x) == 0 && memcmp(&kept, &scale, sizeof scale) == 0);
    plait_optim_destroy(optim);
    free(x);
    return 0;
}

/* ---- In a group ----------------------------------------------------------------------------------------- */

/* What the ranks do together would only be queued, and its memory be gone when the group ends. */
static int a_group_refuses_what_ranks_do_together(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_optim_options o = options_of(PLAIT_OPTIM_LARS);
    const struct plait_optim_step s = step_of(0);
    struct tensors *x = calloc(2, sizeof *x), *before = x + 1;
    struct plait_optim_part parts[NTENSOR];
    struct plait_optim *optim = NULL;

    CHECK(x != NULL);
    fill_weights(x);
    fill_gradients(x, 0);
    o.parts = parts;
    o.npart = make_parts(x, rank, true, parts);
    o.comm = *comm;
    CHECK(plait_group_start() == PLAIT_OK);
    CHECK(plait_optim_create(&o, &optim) == PLAIT_ERR_ARG && optim == NULL);
    CHECK(strstr(plait_last_error(), "plait_optim_create: a group is open") != NULL);
    CHECK(plait_group_end() == PLAIT_OK && plait_optim_create(&o, &optim) == PLAIT_OK);
    *before = *x;
    CHECK(plait_group_start() == PLAIT_OK && plait_optim_step(optim, &s, NULL) == PLAIT_ERR_ARG);
    CHECK(strstr(plait_last_error(), "plait_optim_step: a group is open") != NULL);
    CHECK(plait_group_end() == PLAIT_OK && memcmp(before, x, sizeof *x) == 0);
    CHECK(plait_optim_step(optim, &s, NULL) == PLAIT_OK && memcmp(before->w, x->w, sizeof x->w) != 0);
    plait_optim_destroy(optim);
    free(x);
    return 0;
}

/* ---- With a fusion ---------------------------------------------------------------------------------------- */

static int pieces_of_a_sharded_fusion_come_to_the_weights_of_the_whole(struct plait_comm **comm, uint32_t rank,
                                                                       void *arg)
{
    static const char *const names[NTENSOR] = { "a", "b", "c", "d", "e", "f" };
    struct plait_fusion_options fo = PLAIT_FUSION_OPTIONS_DEFAULT;
    struct plait_optim_options o = options_of(PLAIT_OPTIM_LARS);
    struct tensors *x = calloc(2, sizeof *x), *want = x + 1;
    struct plait_optim_part parts[NTENSOR];
    struct plait_tensor tensors[NTENSOR];
    double squares[NTENSOR];
    struct plait_fusion *f;
    struct plait_optim *optim;
    struct plait_piece piece;

    CHECK(x != NULL && whole(want, PLAIT_OPTIM_LARS, rank) == 0);
    fill_weights(x);
    for (uint32_t t = 0; t < NTENSOR; t++)
        tensors[t] = (struct plait_tensor){ names[t], counts[t], PLAIT_FLOAT32, NULL };
    fo.tensors = tensors;
    fo.ntensor = NTENSOR;
    fo.op = PLAIT_AVG;
    fo.sharded = fo.check = 1;
    fo.weights = PLAIT_FLOAT32;
    CHECK(plait_fusion_create(*comm, &fo, &f) == PLAIT_OK);
    o.npart = plait_fusion_npiece(f);
    CHECK(o.npart <= NTENSOR);
    for (uint32_t k = 0; k < o.npart; k++) {
        CHECK(plait_fusion_piece(f, k, &piece) == PLAIT_OK);
        parts[k] = (struct plait_optim_part){ piece.tensor,
                                              piece.count,
                                              piece.gradient,
                                              PLAIT_FLOAT32,
                                              x->w[piece.tensor] + piece.start,
                                              piece.weight,
                                              PLAIT_FLOAT32,
                                              piece.tensor == 2 ? PLAIT_OPTIM_PLAIN : 0 };
    }
    o.parts = parts;
    o.comm = *comm;
    CHECK(plait_optim_create(&o, &optim) == PLAIT_OK);
    for (uint32_t step = 0; step < NSTEP; step++) {
        struct plait_optim_step s = step_of(step);
        fill_gradients(x, step);
        for (uint32_t t = 0; t < NTENSOR; t++) {
            memcpy(plait_fusion_data(f, t), x->g[t], counts[t] * sizeof(float)); /* equal on all: so is the average */
            CHECK(plait_fusion_ready(f, t) == PLAIT_OK);
        }
        CHECK(plait_fusion_wait_all(f, NULL) == PLAIT_OK);
        for (uint32_t k = 0; k < o.npart; k++) {
            CHECK(plait_fusion_piece(f, k, &piece) == PLAIT_OK);
            squares[k] = piece.square;
        }
        s.squares = squares;
        CHECK(plait_optim_step(optim, &s, NULL) == PLAIT_OK);
        CHECK(plait_fusion_gather(f) == PLAIT_OK);
    }
    for (uint32_t t = 0; t < NTENSOR; t++)
        for (size_t i = 0; i < counts[t]; i++)
            CHECK(fabsf(((float *)plait_fusion_weights(f, t))[i] - want->w[t][i]) <= NSTEP * 0x1p-22f);
    plait_optim_destroy(optim);
    CHECK(plait_fusion_destroy(f) == PLAIT_OK);
    free(x);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shards_get_the_bits_of_the_whole_where_norms_are_not_sums_of_parts),
        cmocka_unit_test(a_step_too_large_on_one_rank_is_skipped_on_all),
        cmocka_unit_test(a_nan_on_one_rank_skips_the_step_on_all_and_halves_their_loss_scale),
        test_of_both(ranks_that_differ_are_told_and_nothing_is_changed, NRANK),
        test_of_both(different_scales_are_named_and_change_nothing, NRANK),
        test_of_both(a_group_refuses_what_ranks_do_together, NRANK),
        test_of_both(pieces_of_a_sharded_fusion_come_to_the_weights_of_the_whole, NRANK),
    };

    return cmocka_run_group_tests_name("optim_ranks", tests, NULL, NULL);
}
