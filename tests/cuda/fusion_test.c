/* SPDX-License-Identifier: BSD-3-Clause */
/* Fusion of gradients in a device's memory: the sums, in the order of the stream. */
#include "../places.h"
#include "../ranks.h"
#include "../tier.h"
#include "device.h"
#include "unit_device.h"

#include <plait/fusion.h>
#include <plait/memory.h>

#include <math.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

/* Every third tensor lives in its bucket. One is larger than a piece, one larger than the threshold. */
enum { NTENSOR = 14, MOST = 9001, ROOM = NTENSOR * MOST * sizeof(float) };

static size_t count_of(uint32_t t)
{
    return t == 5 ? MOST : t == 9 ? 4096 : t == 0 ? 1 : 37 * t + 1;
}

/* Small integers, whose sums are exact in every type. */
static float value(uint32_t rank, uint32_t t, size_t i, uint32_t k)
{
    return (float)((rank + 3 * t + i + k) % 7);
}

static float sum_of(uint32_t nrank, uint32_t t, size_t i, uint32_t k)
{
    float sum = 0;

    for (uint32_t r = 0; r < nrank; r++)
        sum += value(r, t, i, k);
    return sum;
}

struct setup {
    enum plait_dtype payload;
    enum plait_op op;
    size_t threshold;
    double in, out;
    int check, progress, sharded;
};

static const struct setup setups[] = {
    { PLAIT_NDTYPE, PLAIT_SUM, 4096, 1, 1, 0, 1 },       { PLAIT_NDTYPE, PLAIT_AVG, 0, 1, 1, 1, 0 },
    { PLAIT_FLOAT16, PLAIT_SUM, 4096, 0.5, 2, 1, 1 },    { PLAIT_BFLOAT16, PLAIT_SUM, SIZE_MAX, 1, 1, 0, 0 },
    { PLAIT_NDTYPE, PLAIT_SUM, SIZE_MAX, 2, 0.5, 1, 1 }, { PLAIT_FLOAT16, PLAIT_AVG, 0, 1, 0.25, 0, 1 },
};
#define NSETUP (sizeof setups / sizeof *setups)

struct gradients { /* of a rank */
    struct device_rank d;
    struct plait_fusion *fusion;
    struct plait_tensor tensors[NTENSOR];
    char names[NTENSOR][16];
};

static enum plait_status create(struct plait_comm *comm, struct gradients *g, const struct setup *s)
{
    struct plait_fusion_options o = PLAIT_FUSION_OPTIONS_DEFAULT;

    for (uint32_t t = 0; t < NTENSOR; t++) {
        snprintf(g->names[t], sizeof g->names[t], "t%u", t);
        g->tensors[t] = (struct plait_tensor){ g->names[t], count_of(t), PLAIT_FLOAT32,
                                               t % 3 == 0 ? NULL : g->d.in + t * MOST * sizeof(float) };
    }
    o.tensors = g->tensors;
    o.ntensor = NTENSOR;
    o.layout.threshold = s->threshold;
    o.payload = s->payload;
    o.op = s->op;
    o.check = s->check;
    o.progress = s->progress;
    o.sharded = s->sharded;
    o.weights = s->sharded ? PLAIT_FLOAT32 : PLAIT_NDTYPE;
    o.stream = g->d.stream;
    return plait_fusion_create(comm, &o, &g->fusion);
}

/* Write a gradient by the stream, and say that it is ready without waiting for that. */
static int give(struct gradients *g, uint32_t rank, uint32_t t, uint32_t k)
{
    float *host = (float *)(void *)g->d.host + t * MOST;

    for (size_t i = 0; i < count_of(t); i++)
        host[i] = value(rank, t, i, k);
    CHECK(device_write(&g->d, plait_fusion_data(g->fusion, t), host, count_of(t) * sizeof *host));
    CHECK(plait_fusion_ready(g->fusion, t) == PLAIT_OK);
    return 0;
}

/* skipped: by rank 0 */
static int check(struct gradients *g, uint32_t rank, uint32_t nrank, uint32_t t, uint32_t k, const struct setup *s,
                 bool skipped)
{
    static _Thread_local float got[MOST];
    const float divisor = s->op == PLAIT_AVG ? (float)nrank : 1;

    CHECK(device_read(&g->d, got, plait_fusion_data(g->fusion, t), count_of(t) * sizeof *got));
    for (size_t i = 0; i < count_of(t); i++) {
        const float sum = sum_of(nrank, t, i, k) - (skipped ? value(0, t, i, k) : 0);
        const float want = sum / divisor * (float)(s->in * s->out);
        if (got[i] != want) {
            fprintf(stderr, "rank %u: round %u: tensor %u: element %zu is %g, not %g\n", rank, k, t, i, (double)got[i],
                    (double)want);
            return 1;
        }
    }
    return 0;
}

static int check_squares(struct gradients *g, uint32_t rank, uint32_t nrank, uint32_t k, const struct setup *s)
{
    struct plait_piece piece;

    CHECK(plait_fusion_npiece(g->fusion) == NTENSOR);
    for (uint32_t t = 0; t < NTENSOR; t++) {
        double want = 0;
        const double factor = s->in * s->out / (s->op == PLAIT_AVG ? nrank : 1);
        for (size_t i = 0; i < count_of(t); i++)
            want += pow((double)sum_of(nrank, t, i, k) * factor, 2);
        CHECK(plait_fusion_piece(g->fusion, t, &piece) == PLAIT_OK && piece.tensor == t);
        CHECK(fabs(piece.square - want) <= 1e-9 * want);
    }
    return 0;
}

/* ---- Sums ---------------------------------------------------------------------------------------------------- */

/* Ranks make their tensors ready in orders of their own; some wait for one tensor before all. */
static int train(struct plait_comm *comm, uint32_t rank, struct gradients *g, const struct setup *s)
{
    const uint32_t nrank = plait_comm_nrank(comm);
    struct plait_fusion_result result;

    CHECK(create(comm, g, s) == PLAIT_OK);
    CHECK(plait_fusion_set_scale(g->fusion, s->in, s->out) == PLAIT_OK);
    for (uint32_t k = 0; k < (full() ? 12 : 4); k++) {
        const bool skips = k % 2 == 1;
        for (uint32_t n = 0; n < NTENSOR; n++) {
            const uint32_t t = rank % 2 ? NTENSOR - 1 - n : n;
            if (skips && t == 7 && rank == 0)
                CHECK(plait_fusion_skip(g->fusion, t) == PLAIT_OK);
            else if (give(g, rank, t, k) != 0)
                return 1;
        }
        if (k == 2)
            CHECK(plait_fusion_wait(g->fusion, 4) == PLAIT_OK && check(g, rank, nrank, 4, k, s, false) == 0);
        result.finite = 0;
        CHECK(plait_fusion_wait_all(g->fusion, &result) == PLAIT_OK && result.finite);
        for (uint32_t t = 0; t < NTENSOR; t++)
            if (check(g, rank, nrank, t, k, s, skips && t == 7) != 0)
                return 1;
        if (s->check && !skips && check_squares(g, rank, nrank, k, s) != 0)
            return 1;
    }
    CHECK(plait_fusion_destroy(g->fusion) == PLAIT_OK);
    return 0;
}

static int every_setup(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct gradients g;

    CHECK(device_begin(&g.d, ROOM));
    for (unsigned i = 0; i < NSETUP; i++)
        if (train(*comm, rank, &g, &setups[i]) != 0)
            return 1;
    CHECK(device_end(&g.d));
    return 0;
}

static void sums_of_every_payload_layout_and_factor(void **state)
{
    device_run(1, 1, every_setup, NULL);
    device_run(1, 2, every_setup, NULL);
    device_run(1, 4, every_setup, NULL);
}

static void ranks_of_several_processes_fuse(void **state)
{
    device_run(2, 1, every_setup, NULL);
    device_run(2, 2, every_setup, NULL);
}

/* ---- Shards ------------------------------------------------------------------------------------------------------ */

static const struct setup shards[] = {
    { PLAIT_NDTYPE, PLAIT_SUM, 4096, 1, 1, 1, 1, 1 },
    { PLAIT_FLOAT16, PLAIT_SUM, SIZE_MAX, 0.5, 2, 1, 0, 1 },
    { PLAIT_BFLOAT16, PLAIT_SUM, 0, 1, 0.5, 0, 1, 1 }, /* of the shortest most ranks have nothing */
};
#define NSHARDS (sizeof shards / sizeof *shards)

static float weight(uint32_t t, size_t i, uint32_t k)
{
    return (float)(t * 100000 + i) + (float)k / 8;
}

/* The stream writes this rank's weights and spreads them, and reads all, while the host waits for nothing. */
static int spread(struct gradients *g, uint32_t rank, uint32_t k)
{
    float *host = (float *)(void *)g->d.host;
    struct plait_piece piece;

    for (uint32_t n = 0; n < plait_fusion_npiece(g->fusion); n++) {
        CHECK(plait_fusion_piece(g->fusion, n, &piece) == PLAIT_OK && piece.weight != NULL);
        float *at = host + piece.tensor * MOST;
        for (size_t i = 0; i < piece.count; i++)
            at[i] = weight(piece.tensor, piece.start + i, k);
        CHECK(device_write(&g->d, piece.weight, at, piece.count * sizeof *at));
    }
    CHECK(plait_fusion_gather(g->fusion) == PLAIT_OK);
    return 0;
}

static int check_weights(struct gradients *g, uint32_t rank, uint32_t k)
{
    static _Thread_local float got[MOST];

    for (uint32_t t = 0; t < NTENSOR; t++) {
        CHECK(device_read(&g->d, got, plait_fusion_weights(g->fusion, t), count_of(t) * sizeof *got));
        for (size_t i = 0; i < count_of(t); i++)
            CHECK(got[i] == weight(t, i, k));
    }
    return 0;
}

static int check_pieces(struct gradients *g, uint32_t rank, uint32_t nrank, uint32_t k, const struct setup *s)
{
    const double factor = s->in * s->out / (s->op == PLAIT_AVG ? nrank : 1);
    static _Thread_local float got[MOST];
    struct plait_piece piece;

    for (uint32_t n = 0; n < plait_fusion_npiece(g->fusion); n++) {
        double square = 0;
        CHECK(plait_fusion_piece(g->fusion, n, &piece) == PLAIT_OK);
        CHECK(device_read(&g->d, got, piece.gradient, piece.count * sizeof *got));
        for (size_t i = 0; i < piece.count; i++) {
            const double want = (double)sum_of(nrank, piece.tensor, piece.start + i, k) * factor;
            CHECK((double)got[i] == (double)(float)want);
            square += want * want;
        }
        CHECK(!s->check || fabs(piece.square - square) <= 1e-6 * square);
    }
    return 0;
}

/* Each rank gets its shard of every bucket, and all get the weights, which move with the buckets. */
static int train_shards(struct plait_comm *comm, uint32_t rank, struct gradients *g, const struct setup *s)
{
    const uint32_t nrank = plait_comm_nrank(comm);

    CHECK(create(comm, g, s) == PLAIT_OK);
    CHECK(plait_fusion_set_scale(g->fusion, s->in, s->out) == PLAIT_OK);
    for (uint32_t k = 0; k < 4; k++) {
        for (uint32_t t = 0; t < NTENSOR; t++)
            if (give(g, rank, t, k) != 0)
                return 1;
        CHECK(plait_fusion_wait_all(g->fusion, NULL) == PLAIT_OK);
        if (check_pieces(g, rank, nrank, k, s) != 0 || spread(g, rank, k) != 0)
            return 1;
        if (check_weights(g, rank, k) != 0)
            return 1;
    }
    CHECK(plait_fusion_destroy(g->fusion) == PLAIT_OK);
    return 0;
}

static int every_shard(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct gradients g;

    CHECK(device_begin(&g.d, ROOM));
    for (unsigned i = 0; i < NSHARDS; i++)
        if (train_shards(*comm, rank, &g, &shards[i]) != 0)
            return 1;
    CHECK(device_end(&g.d));
    return 0;
}

static void shards_have_their_sums_and_all_the_weights(void **state)
{
    device_run(1, 1, every_shard, NULL);
    device_run(1, 3, every_shard, NULL);
    device_run(2, 1, every_shard, NULL);
    device_run(2, 2, every_shard, NULL);
}

/* ---- What is found -------------------------------------------------------------------------- */

/* One rank's infinity is found by all, once. */
static int look(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const uint32_t nrank = plait_comm_nrank(*comm);
    const struct setup *s = &setups[4];
    struct plait_fusion_result result;
    struct gradients g;
    float bad = INFINITY;

    CHECK(device_begin(&g.d, ROOM));
    CHECK(create(*comm, &g, s) == PLAIT_OK);
    CHECK(plait_fusion_set_scale(g.fusion, s->in, s->out) == PLAIT_OK);
    for (uint32_t k = 0; k < 4; k++) {
        for (uint32_t t = 0; t < NTENSOR; t++) {
            if (k == 1 && t == 11 && rank == 0) {
                CHECK(device_write(&g.d, plait_fusion_data(g.fusion, t), &bad, sizeof bad));
                CHECK(plait_fusion_ready(g.fusion, t) == PLAIT_OK);
            } else if (give(&g, rank, t, k) != 0) {
                return 1;
            }
        }
        CHECK(plait_fusion_wait_all(g.fusion, &result) == PLAIT_OK && result.finite == (k != 1));
        for (uint32_t t = 0; t < NTENSOR && k != 1; t++)
            if (check(&g, rank, nrank, t, k, s, false) != 0)
                return 1;
    }
    CHECK(plait_fusion_destroy(g.fusion) == PLAIT_OK);
    CHECK(device_end(&g.d));
    return 0;
}

static void infinities_are_found(void **state)
{
    device_run(1, 2, look, NULL);
    device_run(1, 3, look, NULL);
}

/* ---- The stream ---------------------------------------------------------------------------------------------------- */

/* Without `check` nobody waits for the device: the gradients come when all has been said. */
static int hold(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const uint32_t nrank = plait_comm_nrank(*comm);
    struct gradients g;

    CHECK(device_begin(&g.d, ROOM));
    CHECK(create(*comm, &g, &setups[0]) == PLAIT_OK);
    CHECK(device.stream_call(g.d.cuda, wait_at_gate, NULL) == 0);
    for (uint32_t t = 0; t < NTENSOR; t++)
        if (give(&g, rank, t, 5) != 0)
            return 1;
    CHECK(plait_fusion_wait_all(g.fusion, NULL) == PLAIT_OK);
    CHECK(device.stream_query(g.d.cuda) == 600);
    CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
    atomic_store(&gate, 1);
    for (uint32_t t = 0; t < NTENSOR; t++)
        if (check(&g, rank, nrank, t, 5, &setups[0], false) != 0)
            return 1;
    CHECK(plait_fusion_destroy(g.fusion) == PLAIT_OK);
    CHECK(device_end(&g.d));
    return 0;
}

/* On one host: over hosts a call waits for its stream */
static void a_step_waits_for_its_stream_and_not_the_host(void **state)
{
    atomic_store(&gate, 0);
    device_run(1, 2, hold, NULL);
}

/* Of one bucket: the last tensor alone puts an event on the stream, in every round, whichever is last. */
static int mark_in_turn(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct gradients g;

    CHECK(device_begin(&g.d, ROOM));
    CHECK(create(*comm, &g, &setups[3]) == PLAIT_OK);
    for (uint32_t k = 0; k < 3; k++) {
        const unsigned long long before = ask.standin_named("cuEventRecord");
        for (uint32_t t = 0; t + 1 < NTENSOR; t++)
            if (give(&g, rank, (t + k) % NTENSOR, k) != 0)
                return 1;
        CHECK(ask.standin_named("cuEventRecord") == before);
        CHECK(give(&g, rank, (NTENSOR - 1 + k) % NTENSOR, k) == 0);
        CHECK(plait_fusion_wait_all(g.fusion, NULL) == PLAIT_OK);
        /* And one after the unpacking; a driver is not counted. */
        CHECK(ask.standin_named("cuEventRecord") == (ask.standin_calls() > 0 ? before + 2 : 0));
        for (uint32_t t = 0; t < NTENSOR; t++)
            if (check(&g, rank, 1, t, k, &setups[3], false) != 0)
                return 1;
    }
    CHECK(plait_fusion_destroy(g.fusion) == PLAIT_OK);
    CHECK(device_end(&g.d));
    return 0;
}

static void a_bucket_has_one_event_however_many_tensors(void **state)
{
    device_run(1, 1, mark_in_turn, NULL);
}

/* What is looked at is waited for, not longer than the comm's deadline. */
static int run_out(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct gradients g;

    CHECK(device_begin(&g.d, ROOM));
    CHECK(create(*comm, &g, &setups[4]) == PLAIT_OK);
    CHECK(device.stream_call(g.d.cuda, wait_at_gate, NULL) == 0);
    for (uint32_t t = 0; t < NTENSOR; t++)
        if (give(&g, rank, t, 5) != 0)
            return 1;
    CHECK(plait_fusion_wait_all(g.fusion, NULL) == PLAIT_ERR_TIMEOUT);
    CHECK(strstr(plait_last_error(), "has not finished") != NULL);
    atomic_store(&gate, 1);
    CHECK(plait_fusion_destroy(g.fusion) == PLAIT_ERR_TIMEOUT);
    CHECK(device_end(&g.d));
    return 0;
}

static void a_fusion_that_is_held_up_runs_out_of_time(void **state)
{
    struct ranks r = { .nprocess = 1, .nthread = 1, .body = run_out, .options.deadline = 0.3 };

    atomic_store(&gate, 0);
    assert_int_equal(ranks_run(&r), 0);
}

/* ---- What is refused ------------------------------------------------------------------------------------------------- */

static int what_does_not_fit_is_refused_by_name(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_fusion_options o = PLAIT_FUSION_OPTIONS_DEFAULT;
    float host[4];
    struct plait_tensor tensor = { "w", 4, PLAIT_FLOAT32, host };
    struct plait_fusion *f;
    struct device_rank d;
    void *graph;

    CHECK(device_begin(&d, ROOM));
    o.tensors = &tensor;
    o.ntensor = 1;
    o.stream = d.stream;
    CHECK(plait_fusion_create(*comm, &o, &f) == PLAIT_ERR_ARG &&
          strstr(plait_last_error(), "is memory that CUDA does not know") != NULL);
    tensor.data = d.in + 1;
    CHECK(plait_fusion_create(*comm, &o, &f) == PLAIT_ERR_ARG && strstr(plait_last_error(), "no multiple of") != NULL);
    tensor.data = d.in;
    o.stream = NULL;
    CHECK(plait_fusion_create(*comm, &o, &f) == PLAIT_ERR_ARG && strstr(plait_last_error(), "options.stream") != NULL);
    o.stream = rank == 0 ? d.stream : NULL;
    tensor.data = NULL;
    CHECK(plait_fusion_create(*comm, &o, &f) == PLAIT_ERR_MISMATCH);
    CHECK(strstr(plait_last_error(), "memory a GPU's") != NULL &&
          strstr(plait_last_error(), "memory the host's") != NULL);
    o.stream = d.stream;
    o.sharded = 1;
    o.weights = PLAIT_FLOAT32;
    CHECK(plait_fusion_create(*comm, &o, &f) == PLAIT_OK);
    CHECK(device.capture_begin(d.cuda, CAPTURE_ALONE) == 0);
    CHECK(plait_fusion_ready(f, 0) == PLAIT_ERR_UNSUPPORTED && strstr(plait_last_error(), "captured") != NULL);
    CHECK(plait_fusion_gather(f) == PLAIT_ERR_UNSUPPORTED && strstr(plait_last_error(), "captured") != NULL);
    CHECK(device.capture_end(d.cuda, &graph) == 0 && device.graph_destroy(graph) == 0);
    CHECK(plait_fusion_destroy(f) == PLAIT_OK);
    CHECK(device_end(&d));
    return 0;
}

int main(void)
{
    struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_of_every_payload_layout_and_factor),
        cmocka_unit_test(ranks_of_several_processes_fuse),
        cmocka_unit_test(shards_have_their_sums_and_all_the_weights),
        cmocka_unit_test(infinities_are_found),
        test_on_one_host(a_step_waits_for_its_stream_and_not_the_host),
        cmocka_unit_test(a_bucket_has_one_event_however_many_tensors),
        cmocka_unit_test(a_fusion_that_is_held_up_runs_out_of_time),
        test_on_device(what_does_not_fit_is_refused_by_name, 1, 2),
    };

    if (getenv("PLAIT_CUDA_DRIVER") == NULL)
        return 77;
    return run_tests_of_this_place("device_fusion", tests);
}
