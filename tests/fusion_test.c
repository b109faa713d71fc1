/* SPDX-License-Identifier: BSD-3-Clause */
/* Fusion: sums are right in every layout, memory, payload and order of readiness; what is wrong is named. */
#include "pending.h"
#include "random.h"
#include "tier.h"
#include "unit_ranks.h"

#include <plait/fusion.h>
#include <plait/group.h>
#include <plait/memory.h>
#include <plait/request.h>

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NTENSOR 40

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
        const size_t count = 1 + random_next(&seed) % (t % 7 == 0 ? 40000 : 900);
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
        const uint32_t with = (uint32_t)(random_next(&seed) % (t + 1)), kept = order[t];
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
    const uint32_t nrank = plait_comm_nrank(*comm);
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
    for (uint32_t step = 0; step < (light() ? 3 : full() ? 6 : 4); step++) {
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
        { PLAIT_LAYOUT_THRESHOLD, 0, NULL, 0 },
        { PLAIT_LAYOUT_THRESHOLD, 10000, NULL, 0 },
        { PLAIT_LAYOUT_THRESHOLD, SIZE_MAX, NULL, 0 },
        { PLAIT_LAYOUT_CUTS, 0, two_cuts, 2 },
        { PLAIT_LAYOUT_CUBIC, 0, NULL, 0 },
    };

    for (uint32_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        for (unsigned bits = 0; bits < 16; bits++) {
            struct kind k = { layouts[i], bits & 1, bits & 2, bits & 4, bits & 8, PLAIT_NDTYPE, PLAIT_SUM };
            if (!full() && (bits / 2 + i) % (light() ? 4 : 2) != 0)
                continue;
            if (bits % 3 == i % 3)
                run(bits & 8 ? 1 : 3, bits & 8 ? 3 : 1, steps, &k);
            if (!(bits & 1) && bits % 5 == i % 5) {
                k.payload = bits & 2 ? PLAIT_BFLOAT16 : PLAIT_FLOAT16;
                k.op = bits & 4 ? PLAIT_SUM : PLAIT_AVG;
                run(bits & 8 ? 1 : 2, bits & 8 ? 2 : 1, steps, &k);
            }
        }
}

/* ---- Shards ----------------------------------------------------------------------------------------------- */

/* Every element is in exactly one rank's piece; the weights that ranks make of their pieces reach everybody. */
static int shard(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const uint32_t nrank = plait_comm_nrank(*comm);
    struct plait_fusion_options o = PLAIT_FUSION_OPTIONS_DEFAULT;
    struct plait_fusion *f;
    struct plait_piece p;
    struct model m;
    uint32_t covered = 0, all = 0, total = 0;

    make_model(&m, 99, false, true);
    o.tensors = m.tensors;
    o.ntensor = NTENSOR;
    o.layout.threshold = 20000;
    o.sharded = 1;
    o.check = 1;
    o.payload = *(const enum plait_dtype *)arg;
    o.weights = PLAIT_FLOAT32;
    CHECK(plait_fusion_create(*comm, &o, &f) == PLAIT_OK);
    for (uint32_t k = 0; k < plait_fusion_npiece(f); k++)
        CHECK(plait_fusion_piece(f, k, &p) == PLAIT_OK && (covered += (uint32_t)p.count) > 0);
    CHECK(plait_allreduce(*comm, &covered, &all, 1, PLAIT_UINT32, PLAIT_SUM, NULL) == PLAIT_OK);
    for (uint32_t t = 0; t < NTENSOR; t++)
        total += (uint32_t)m.tensors[t].count;
    CHECK(all == total);
    for (uint32_t step = 0; step < 4; step++) {
        for (uint32_t t = 0; t < NTENSOR; t++) {
            fill(f, &m, rank, t, step);
            CHECK(plait_fusion_ready(f, t) == PLAIT_OK);
        }
        CHECK(plait_fusion_wait_all(f, NULL) == PLAIT_OK);
        for (uint32_t k = 0; k < plait_fusion_npiece(f); k++) {
            double square = 0;
            CHECK(plait_fusion_piece(f, k, &p) == PLAIT_OK);
            for (size_t i = 0; i < p.count; i++) {
                const float g = ((const float *)p.gradient)[i];
                double want = 0;
                for (uint32_t r = 0; r < nrank; r++)
                    want += value(r, p.tensor, p.start + i, step);
                CHECK((double)g == want);
                ((float *)p.weight)[i] = 2 * g;
                square += want * want;
            }
            CHECK(p.square == square); /* whole numbers: exact in any order */
        }
        CHECK(plait_fusion_gather(f) == PLAIT_OK);
        for (uint32_t t = 0; t < NTENSOR; t++)
            for (size_t i = 0; i < m.tensors[t].count; i++) {
                double want = 0;
                for (uint32_t r = 0; r < nrank; r++)
                    want += value(r, t, i, step);
                CHECK((double)((const float *)plait_fusion_weights(f, t))[i] == 2 * want);
            }
    }
    CHECK(plait_fusion_destroy(f) == PLAIT_OK);
    free_model(&m);
    return 0;
}

static void shards_cover_every_element_once_and_weights_reach_everybody(void **state)
{
    enum plait_dtype payloads[] = { PLAIT_NDTYPE, PLAIT_BFLOAT16 };

    for (unsigned i = 0; i < 2; i++) {
        run_both(3, shard, &payloads[i]);
        run(1, 1, shard, &payloads[i]);
    }
}

/* ---- Scale and check -------------------------------------------------------------------------------------- */

/* The first step is good; in the second one rank has a NaN or an infinity, or the sum overflows the payload. */
static int what_is_not_finite_is_seen_by_all_ranks_alike(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_fusion_options o = PLAIT_FUSION_OPTIONS_DEFAULT;
    const float bad[] = { __builtin_nanf(""), __builtin_inff(), 40000 };
    struct plait_fusion_result result;
    float big[5000], small[3];
    struct plait_tensor tensors[] = { { "big", 5000, PLAIT_FLOAT32, big }, { "small", 3, PLAIT_FLOAT32, small } };
    struct plait_fusion *f;

    o.tensors = tensors;
    o.ntensor = 2;
    o.payload = PLAIT_FLOAT16;
    o.check = 1;
    CHECK(plait_fusion_create(*comm, &o, &f) == PLAIT_OK);
    CHECK(plait_fusion_set_scale(f, 0.5, 0.25) == PLAIT_OK);
    for (uint32_t step = 0; step < 8; step++) {
        for (uint32_t i = 0; i < 5000; i++)
            big[i] = (float)(i % 16) * 8;
        small[0] = small[1] = small[2] = 16;
        if (step % 2 == 1 && (rank == step % 3 || step == 5))
            big[4999 - step] = bad[step / 2 % 3] * (step == 5 ? 4 : 1);
        CHECK(plait_fusion_ready(f, 1) == PLAIT_OK && plait_fusion_ready(f, 0) == PLAIT_OK);
        CHECK(plait_fusion_wait_all(f, &result) == PLAIT_OK);
        CHECK(result.finite == (step % 2 == 0));
        CHECK(big[3] == 3 * 8 * 3 * 0.125F && small[2] == 3 * 16 * 0.125F);
    }
    small[1] = __builtin_nanf("");
    CHECK(plait_fusion_ready(f, 1) == PLAIT_OK && plait_fusion_ready(f, 0) == PLAIT_OK);
    CHECK(plait_fusion_wait_all(f, NULL) == PLAIT_OK); /* that verdict is gone */
    small[0] = small[1] = small[2] = 0;
    memset(big, 0, sizeof big);
    CHECK(plait_fusion_ready(f, 1) == PLAIT_OK && plait_fusion_ready(f, 0) == PLAIT_OK);
    CHECK(plait_fusion_wait_all(f, &result) == PLAIT_OK && result.finite);
    CHECK(plait_fusion_set_scale(f, 1, __builtin_nan("")) == PLAIT_ERR_ARG && says("must be finite"));
    CHECK(plait_fusion_destroy(f) == PLAIT_OK);
    return 0;
}

/* ---- Bits ------------------------------------------------------------------------------------------------- */

/* Random floats, random layouts, algorithms and slices: the bits stay. */
static int same_bits(struct plait_comm **comm, uint32_t rank, void *arg)
{
    static const char *const algorithms[] = { NULL, "one-shot", "two-shot", "binomial", "halving-doubling" };
    enum { N = 12, COUNT = 3000 };
    float *data[N], *first = malloc(N * COUNT * sizeof *first);
    struct plait_tensor tensors[N];
    char names[N][8];
    uint64_t seed = 77;

    CHECK(first != NULL);
    for (uint32_t t = 0; t < N; t++) {
        snprintf(names[t], sizeof names[t], "t%u", t);
        data[t] = malloc(COUNT * sizeof *data[t]);
        tensors[t] = (struct plait_tensor){ names[t], COUNT - 200 * t, PLAIT_FLOAT32, data[t] };
    }
    for (uint32_t trial = 0; trial < (full() ? 20 : 10); trial++) {
        struct plait_fusion_options o = PLAIT_FUSION_OPTIONS_DEFAULT;
        struct plait_fusion *f;
        uint64_t values = 1234567 + rank;
        o.tensors = tensors;
        o.ntensor = N;
        o.payload = *(const enum plait_dtype *)arg;
        o.round = PLAIT_ROUND_ONCE;
        o.reproducible = 1;
        o.layout.rule = random_next(&seed) % 3 == 0 ? PLAIT_LAYOUT_CUBIC : PLAIT_LAYOUT_THRESHOLD;
        o.layout.threshold = random_next(&seed) % 40000;
        o.algorithm = algorithms[trial % 5];
        CHECK(plait_fusion_create(*comm, &o, &f) == PLAIT_OK);
        for (uint32_t t = 0; t < N; t++) {
            for (size_t i = 0; i < tensors[t].count; i++)
                data[t][i] = (float)(int64_t)random_next(&values) * 1e-18F;
            CHECK(plait_fusion_ready(f, t) == PLAIT_OK);
        }
        CHECK(plait_fusion_wait_all(f, NULL) == PLAIT_OK);
        for (uint32_t t = 0; t < N; t++) {
            if (trial == 0)
                memcpy(first + t * COUNT, data[t], tensors[t].count * sizeof(float));
            CHECK(memcmp(first + t * COUNT, data[t], tensors[t].count * sizeof(float)) == 0);
        }
        CHECK(plait_fusion_destroy(f) == PLAIT_OK);
    }
    for (uint32_t t = 0; t < N; t++)
        free(data[t]);
    free(first);
    return 0;
}

static void reproducible_bits_depend_on_neither_layout_nor_algorithm(void **state)
{
    enum plait_dtype payloads[] = { PLAIT_NDTYPE, PLAIT_FLOAT16, PLAIT_BFLOAT16 };

    for (unsigned i = 0; i < 3; i += light() || (RANKS_ON_HOSTS && !full()) ? 2 : 1)
        run(5, 1, same_bits, &payloads[i]);
}

/* ---- Counts ----------------------------------------------------------------------------------------------- */

/* Payload bytes on the wire are those of the buckets; a step allocates nothing and stages nothing. */
static int count(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_fusion_options o = PLAIT_FUSION_OPTIONS_DEFAULT;
    struct plait_comm_stats before, after;
    struct plait_fusion_bucket bucket;
    struct plait_fusion *f;
    struct model m;
    size_t payload = 0;

    make_model(&m, 3, false, true);
    for (uint32_t t = 0; t < NTENSOR; t++)
        m.tensors[t].data = NULL;
    o.tensors = m.tensors;
    o.ntensor = NTENSOR;
    o.layout.threshold = 65536;
    o.payload = *(const enum plait_dtype *)arg;
    o.algorithm = "two-shot";
    CHECK(plait_fusion_create(*comm, &o, &f) == PLAIT_OK);
    for (uint32_t step = 0; step < 4; step++) {
        if (step == 2)
            plait_comm_stats(plait_fusion_comm(f), &before);
        for (uint32_t t = 0; t < NTENSOR; t++)
            CHECK(plait_fusion_ready(f, t) == PLAIT_OK);
        CHECK(plait_fusion_wait_all(f, NULL) == PLAIT_OK);
    }
    CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
    plait_comm_stats(plait_fusion_comm(f), &after);
    for (uint32_t k = 0; k < plait_fusion_nbucket(f); k++)
        CHECK(plait_fusion_bucket(f, k, &bucket) == PLAIT_OK && (payload += bucket.bytes) > 0);
    CHECK(after.operations - before.operations == 2 * plait_fusion_nbucket(f));
    CHECK(after.bytes_sent - before.bytes_sent == 2 * payload); /* two ranks, two-shot: half each way, twice */
    CHECK(after.bytes_staged == before.bytes_staged && RANKS_KEEP_MEMORY(before.allocations, after.allocations));
    size_t elements = 0;
    for (uint32_t t = 0; t < NTENSOR; t++)
        elements += m.tensors[t].count;
    const size_t size = o.payload == PLAIT_NDTYPE ? 4 : 2;
    CHECK(payload >= elements * size && payload < elements * size + (NTENSOR + plait_fusion_nbucket(f)) * 64);
    CHECK(plait_fusion_destroy(f) == PLAIT_OK);
    free_model(&m);
    return 0;
}

static void a_payload_of_16_bits_halves_what_travels(void **state)
{
    enum plait_dtype payloads[] = { PLAIT_NDTYPE, PLAIT_BFLOAT16 };

    for (unsigned i = 0; i < 2; i++)
        run(2, 1, count, &payloads[i]);
}

/* ---- Trace ------------------------------------------------------------------------------------------------ */

static unsigned occurrences(const char *text, const char *word)
{
    unsigned n = 0;

    for (const char *at = strstr(text, word); at != NULL; at = strstr(at + 1, word))
        n++;
    return n;
}

static int a_trace_has_every_tensor_and_transfer_of_every_rank(struct plait_comm **comm, uint32_t rank, void *arg)
{
    enum { STEPS = 3 };
    struct plait_fusion_options o = PLAIT_FUSION_OPTIONS_DEFAULT;
    struct plait_fusion_times times;
    struct plait_fusion *f;
    struct model m;
    char path[64], word[64], *text;

    snprintf(path, sizeof path, "fusion_trace_%d.json", (int)getpid());
    make_model(&m, 3, false, false);
    o.tensors = m.tensors;
    o.ntensor = NTENSOR;
    CHECK(plait_fusion_create(*comm, &o, &f) == PLAIT_OK);
    CHECK(plait_fusion_trace(f, path) == PLAIT_ERR_ARG && plait_fusion_times(f, &times) == PLAIT_ERR_ARG);
    CHECK(plait_fusion_destroy(f) == PLAIT_OK);
    o.layout.threshold = 65536;
    o.trace = 1;
    o.algorithm = "two-shot"; /* not the default of these sizes */
    CHECK(plait_fusion_create(*comm, &o, &f) == PLAIT_OK);
    for (uint32_t step = 0; step < STEPS; step++) {
        for (uint32_t t = 0; t < NTENSOR; t++)
            CHECK(plait_fusion_ready(f, t) == PLAIT_OK);
        CHECK(plait_fusion_wait_all(f, NULL) == PLAIT_OK);
    }
    CHECK(plait_fusion_times(f, &times) == PLAIT_OK && times.communicating > 0);
    CHECK(times.hidden >= 0 && times.hidden <= times.communicating);
    CHECK(plait_fusion_trace(f, "/no/such/place") == PLAIT_ERR_SYSTEM);
    CHECK(plait_fusion_trace(f, "/dev/full") == PLAIT_ERR_SYSTEM);
    CHECK(rank > 0 || (says("'/dev/full': No space left on device") && strstr(plait_last_error(), "memory") == NULL));
    for (uint32_t t = 0; t < NTENSOR; t++)
        CHECK(plait_fusion_ready(f, t) == PLAIT_OK);
    CHECK(plait_fusion_wait_all(f, NULL) == PLAIT_OK && plait_fusion_trace(f, path) == PLAIT_OK);
    if (rank == 0) {
        FILE *file = fopen(path, "r");
        CHECK(file != NULL && (text = calloc(1, 1 << 20)) != NULL && fread(text, 1, (1 << 20) - 1, file) > 0);
        fclose(file);
        unlink(path);
        const unsigned transfers = 3 * plait_fusion_nbucket(f);
        CHECK(occurrences(text, "\"s\":\"t\"") == 3 * NTENSOR); /* ready */
        for (uint32_t k = 0; k < plait_fusion_nbucket(f); k++) {
            struct plait_fusion_bucket bucket;
            snprintf(word, sizeof word, "\"s\":\"t\",\"args\":{\"bucket\":%u,\"tensor\":", k);
            CHECK(plait_fusion_bucket(f, k, &bucket) == PLAIT_OK && occurrences(text, word) == 3 * bucket.ntensor);
        }
        CHECK(occurrences(text, "\"tid\":5,\"ts\"") == 3); /* the last step of each rank */
        CHECK(occurrences(text, "\"tid\":1,\"ts\"") == transfers && occurrences(text, "\"tid\":2,\"ts\"") == transfers);
        CHECK(occurrences(text, "\"algorithm\":\"two-shot\"") >= 3 * transfers);
        CHECK(occurrences(text, "\"algorithm\":\"two-shot\"") == occurrences(text, "\"algorithm\":"));
        CHECK(occurrences(text, "{") == occurrences(text, "}"));
        free(text);
    }
    CHECK(plait_fusion_destroy(f) == PLAIT_OK);
    free_model(&m);
    return 0;
}

/* ---- What goes wrong -------------------------------------------------------------------------------------- */

static int wrong(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_fusion_options o = PLAIT_FUSION_OPTIONS_DEFAULT;
    struct plait_tensor tensors[] = { { "a", 10, PLAIT_FLOAT32, NULL }, { "b", 20, PLAIT_INT32, NULL } };
    const uint32_t cuts[] = { 2 };
    struct plait_fusion *f, *none = NULL;
    struct plait_fusion_bucket bucket;
    struct plait_piece piece;

    CHECK(plait_fusion_create(*comm, NULL, &none) == PLAIT_ERR_ARG && says("options is NULL"));
    CHECK(plait_fusion_create(*comm, &o, &none) == PLAIT_ERR_ARG && says("tensors is 0"));
    o.tensors = tensors;
    o.ntensor = 2;
    CHECK(plait_fusion_create(*comm, &o, NULL) == PLAIT_ERR_ARG && says("out is NULL"));
    o.op = PLAIT_MAX;
    CHECK(plait_fusion_create(*comm, &o, &none) == PLAIT_ERR_ARG && says("op is ") && says("PLAIT_AVG"));
    o.op = PLAIT_SUM;
    o.payload = PLAIT_INT8;
    CHECK(plait_fusion_create(*comm, &o, &none) == PLAIT_ERR_ARG && says("payload is 0; it must be PLAIT_FLOAT16"));
    o.payload = PLAIT_NDTYPE;
    o.layout = (struct plait_layout){ PLAIT_LAYOUT_CUTS, 0, cuts, 1 };
    CHECK(plait_fusion_create(*comm, &o, &none) == PLAIT_ERR_ARG && says("layout.cuts[0] is 2"));
    o.layout.rule = PLAIT_LAYOUT_THRESHOLD;
    CHECK(plait_fusion_create(*comm, &o, &none) == PLAIT_ERR_ARG && says("layout.ncut is 1, but layout.rule is not "));
    o.layout = (struct plait_layout){ PLAIT_LAYOUT_THRESHOLD, 0, NULL, 0 };
    tensors[1].count = 0;
    CHECK(plait_fusion_create(*comm, &o, &none) == PLAIT_ERR_ARG && says("tensor 1 'b': count is 0; of int32 1 to "));
    tensors[0].count = tensors[1].count = (size_t)1 << 45; /* each alone would do */
    CHECK(plait_fusion_create(*comm, &o, &none) == PLAIT_ERR_ARG && says("up to 1 'b' are more than fits in memory"));
    tensors[0].count = 10;
    tensors[1].count = 20;
    tensors[1].type = (enum plait_dtype)77;
    CHECK(plait_fusion_create(*comm, &o, &none) == PLAIT_ERR_ARG && says("tensor 1 'b': type is 77, which is no enum"));
    tensors[1].type = PLAIT_INT32;
    o.round = (enum plait_round)9;
    CHECK(plait_fusion_create(*comm, &o, &none) == PLAIT_ERR_ARG && says("options.round is 9"));
    o.round = PLAIT_ROUND_DEFAULT;
    o.layout.rule = (enum plait_layout_rule)9;
    CHECK(plait_fusion_create(*comm, &o, &none) == PLAIT_ERR_ARG && says("layout.rule is 9"));
    o.layout.rule = PLAIT_LAYOUT_THRESHOLD;
    o.size = 3;
    CHECK(plait_fusion_create(*comm, &o, &none) == PLAIT_ERR_ARG && says("options->size is 3, not ") &&
          says("start from"));
    o.size = sizeof o;
    CHECK(none == NULL);
    tensors[0].data = (char *)memory[rank] + 76; /* of its 20 int32 the other has the last */
    tensors[1].data = memory[rank];
    CHECK(plait_fusion_create(*comm, &o, &none) == PLAIT_ERR_ARG && says("the data of tensor 0 'a' (at "));
    CHECK(says("and of tensor 1 'b' (at ") && says("overlap"));
    tensors[0].data = tensors[1].data = NULL;

    CHECK(plait_group_start() == PLAIT_OK); /* its parts would be put off */
    CHECK(plait_fusion_create(*comm, &o, &none) == PLAIT_ERR_ARG && says("a group is open") && none == NULL);
    CHECK(plait_group_end() == PLAIT_OK);
    CHECK(plait_fusion_create(*comm, &o, &f) == PLAIT_OK);
    CHECK(plait_comm_finalize(plait_fusion_comm(f)) == PLAIT_ERR_ARG && says("the comm is a fusion's"));
    CHECK(plait_group_start() == PLAIT_OK);
    CHECK(plait_fusion_gather(f) == PLAIT_ERR_ARG);
    CHECK(plait_group_end() == PLAIT_OK);
    CHECK(plait_fusion_set_scale(f, 1e300, 1) == PLAIT_ERR_ARG);
    CHECK(plait_fusion_set_scale(f, 1, 0) == PLAIT_ERR_ARG && plait_fusion_set_scale(f, 1, 1e-50) == PLAIT_ERR_ARG);
    CHECK(plait_fusion_set_scale(f, 1e-50, 1) == PLAIT_ERR_ARG && says("as float32 they must be finite, and not 0"));
    CHECK(plait_fusion_piece(f, 2, &piece) == PLAIT_ERR_ARG && says("k is 2, but fusion has 2 pieces"));
    CHECK(plait_fusion_bucket(f, 9, &bucket) == PLAIT_ERR_ARG && says("k is 9, but fusion has 2 buckets"));
    CHECK(plait_fusion_wait(f, 0) == PLAIT_ERR_ARG && says("tensor 0 'a' was never ready nor skipped"));
    CHECK(plait_fusion_ready(f, 2) == PLAIT_ERR_ARG && says("there is no tensor 2 of 2"));
    CHECK(plait_fusion_ready(NULL, 0) == PLAIT_ERR_ARG && plait_fusion_data(f, 2) == NULL);
    CHECK(plait_fusion_skip(f, 1) == PLAIT_OK);
    CHECK(plait_fusion_ready(f, 1) == PLAIT_ERR_ARG && says("tensor 1 'b' is skipped already"));
    CHECK(plait_fusion_set_scale(f, 1, 2) == PLAIT_ERR_ARG && says("under way"));
    CHECK(plait_fusion_ready(f, 0) == PLAIT_OK && plait_fusion_wait_all(f, NULL) == PLAIT_OK);
    CHECK(plait_fusion_set_scale(f, 1, 2) == PLAIT_ERR_ARG && says("tensor 1 'b' is of int32"));
    CHECK(plait_fusion_gather(f) == PLAIT_ERR_ARG && says("has no weights"));
    CHECK(plait_fusion_ready(f, 0) == PLAIT_OK); /* in flight, and one that waits for nobody, when it is destroyed */
    CHECK(rank == 1 || plait_fusion_ready(f, 1) == PLAIT_OK);
    CHECK(plait_fusion_destroy(f) == PLAIT_OK && plait_fusion_destroy(NULL) == PLAIT_OK);
    CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
    return 0;
}

static void wrong_use_is_named_and_changes_nothing(void **state)
{
    run_both(1, wrong, NULL);
}

/* The dry run of plait-train took it to be full with tensor first + ntensor - 1. */
static int around(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_fusion_options o = PLAIT_FUSION_OPTIONS_DEFAULT;
    const struct plait_tensor tensors[] = { { "a", 10, PLAIT_FLOAT32, NULL },
                                            { "large", 1000, PLAIT_FLOAT32, NULL },
                                            { "b", 20, PLAIT_FLOAT32, NULL } };
    struct plait_fusion_bucket large, small;
    struct plait_fusion *f;

    o.tensors = tensors;
    o.ntensor = 3;
    o.layout.threshold = 4000;
    CHECK(plait_fusion_create(*comm, &o, &f) == PLAIT_OK && plait_fusion_nbucket(f) == 2);
    CHECK(plait_fusion_bucket(f, 0, &large) == PLAIT_OK && plait_fusion_bucket(f, 1, &small) == PLAIT_OK);
    CHECK(large.ntensor == 1 && large.first == 1 && large.last == 1);
    CHECK(small.ntensor == 2 && small.first == 0 && small.last == 2);
    CHECK(plait_fusion_destroy(f) == PLAIT_OK);
    return 0;
}

static void a_bucket_with_a_large_tensor_in_between_ends_with_its_own_last_one(void **state)
{
    run_both(1, around, NULL);
}

/* Complete buckets still travel: a rank that is quick to leave does not fail the others. */
static int complete_buckets_travel_although_their_fusion_is_destroyed(struct plait_comm **comm, uint32_t rank,
                                                                      void *arg)
{
    struct plait_fusion_options o = PLAIT_FUSION_OPTIONS_DEFAULT;
    struct plait_fusion *f;
    struct model m;

    make_model(&m, 31, false, true);
    o.tensors = m.tensors;
    o.ntensor = NTENSOR;
    o.layout.threshold = 20000;
    for (unsigned k = 0; k < (full() ? 20 : 8); k++) {
        CHECK(plait_fusion_create(*comm, &o, &f) == PLAIT_OK);
        for (uint32_t t = 0; t < NTENSOR; t++)
            CHECK(plait_fusion_ready(f, t) == PLAIT_OK);
        CHECK(plait_fusion_destroy(f) == PLAIT_OK);
    }
    free_model(&m);
    return 0;
}

/* An optimiser would go on with the gradient of this rank alone. */
static int forgotten(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_fusion_options o = PLAIT_FUSION_OPTIONS_DEFAULT;
    struct plait_tensor tensors[] = { { "a", 10, PLAIT_FLOAT32, NULL }, { "b", 20, PLAIT_FLOAT32, NULL } };
    struct plait_fusion *f;

    o.tensors = tensors;
    o.ntensor = 2;
    o.layout.threshold = *(const uint32_t *)arg;
    CHECK(plait_fusion_create(*comm, &o, &f) == PLAIT_OK);
    for (uint32_t step = 0; step < 4; step++) {
        CHECK(plait_fusion_ready(f, 0) == PLAIT_OK);
        CHECK(step == 0 || (plait_fusion_wait(f, 1) == PLAIT_ERR_ARG &&
                            says("tensor 1 'b' is neither ready nor skipped in this step")));
        CHECK(plait_fusion_ready(f, 1) == PLAIT_OK);
        for (uint32_t twice = 0; twice < 2; twice++)
            CHECK(plait_fusion_wait(f, 0) == PLAIT_OK && plait_fusion_wait(f, 1) == PLAIT_OK);
        CHECK(step == 2 || plait_fusion_wait_all(f, NULL) == PLAIT_OK);
        CHECK(step == 2 || plait_fusion_wait(f, 1) == PLAIT_OK);
    }
    CHECK(plait_fusion_ready(f, 0) == PLAIT_OK && plait_fusion_ready(f, 1) == PLAIT_OK);
    CHECK(plait_fusion_wait(f, 0) == PLAIT_OK && plait_fusion_ready(f, 0) == PLAIT_OK);
    CHECK(plait_fusion_wait(f, 1) == PLAIT_OK); /* of the step before: nobody has waited for it */
    CHECK(plait_fusion_skip(f, 1) == PLAIT_OK && plait_fusion_wait_all(f, NULL) == PLAIT_OK);
    CHECK(plait_fusion_destroy(f) == PLAIT_OK);
    return 0;
}

static void a_tensor_that_a_later_step_has_not_marked_is_not_waited_for(void **state)
{
    for (uint32_t threshold = 0; threshold <= 1000; threshold += 1000)
        run_both(2, forgotten, &threshold);
}

/* Of buckets that take both paths. */
static int scale_differs(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_fusion_options o = PLAIT_FUSION_OPTIONS_DEFAULT;
    struct plait_tensor tensors[] = { { "a", *(const uint32_t *)arg, PLAIT_FLOAT32, NULL } };
    struct plait_fusion *f;
    float *a;

    o.tensors = tensors;
    o.ntensor = 1;
    CHECK(plait_fusion_create(*comm, &o, &f) == PLAIT_OK);
    for (uint32_t step = 0; step < 3; step++) { /* what ranks multiply by before may differ */
        CHECK(plait_fusion_set_scale(f, rank + 1, 0.5) == PLAIT_OK);
        a = plait_fusion_data(f, 0);
        a[0] = 1;
        CHECK(plait_fusion_ready(f, 0) == PLAIT_OK && plait_fusion_wait_all(f, NULL) == PLAIT_OK && a[0] == 3);
    }
    CHECK(plait_fusion_set_scale(f, 1, rank == 1 ? 2 : 0.25) == PLAIT_OK);
    CHECK(plait_barrier(*comm, NULL) == PLAIT_OK); /* all are out of it before one fails */
    enum plait_status status = plait_fusion_ready(f, 0);
    if (status == PLAIT_OK)
        status = plait_fusion_wait(f, 0);
    CHECK(status == PLAIT_ERR_MISMATCH || status == PLAIT_ERR_FAILED); /* "failed earlier": the others were first */
    CHECK(says("out of plait_fusion_set_scale() is ") && says("0.25") && says("on rank "));
    CHECK(plait_fusion_destroy(f) != PLAIT_OK);
    return 0;
}

static void ranks_that_scale_sums_differently_are_named_on_every_rank(void **state)
{
    for (uint32_t count = 1; count <= 100000; count *= 1000)
        run_both(3, scale_differs, &count);
}

/* As float32 the two factors are equal. */
static int float64_sums_are_not_scaled_by_factors_that_differ_in_the_last_digits(struct plait_comm **comm,
                                                                                 uint32_t rank, void *arg)
{
    struct plait_fusion_options o = PLAIT_FUSION_OPTIONS_DEFAULT;
    struct plait_tensor tensors[] = { { "a", 1, PLAIT_FLOAT64, NULL } };
    struct plait_fusion *f;

    o.tensors = tensors;
    o.ntensor = 1;
    CHECK(plait_fusion_create(*comm, &o, &f) == PLAIT_OK);
    CHECK(plait_fusion_set_scale(f, 1, rank == 1 ? 0.1 + 1e-10 : 0.1) == PLAIT_OK);
    CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
    enum plait_status status = plait_fusion_ready(f, 0);
    if (status == PLAIT_OK)
        status = plait_fusion_wait(f, 0);
    CHECK(status == PLAIT_ERR_MISMATCH || status == PLAIT_ERR_FAILED);
    CHECK(says("out of plait_fusion_set_scale() is ") && says("0.1000000001 on rank 1") &&
          says("0.10000000000000001 on rank 0"));
    CHECK(plait_fusion_destroy(f) != PLAIT_OK);
    return 0;
}

static int ranks_that_register_something_else_are_named_on_every_rank(struct plait_comm **comm, uint32_t rank,
                                                                      void *arg)
{
    struct plait_fusion_options o = PLAIT_FUSION_OPTIONS_DEFAULT;
    struct plait_tensor tensors[] = { { "a", 10, PLAIT_FLOAT32, NULL }, { "b", 20, PLAIT_FLOAT32, NULL } };
    struct plait_fusion *f;

    o.tensors = tensors;
    o.ntensor = 2;
    tensors[1].count += rank == 1;
    CHECK(plait_fusion_create(*comm, &o, &f) == PLAIT_ERR_MISMATCH);
    CHECK(says("rank 0 has \"tensor 1 'b', 20 float32\" where rank 1 has \"tensor 1 'b', 21 float32\""));
    tensors[1].count = 20;
    o.ntensor = rank == 2 ? 1 : 2;
    CHECK(plait_fusion_create(*comm, &o, &f) == PLAIT_ERR_MISMATCH);
    CHECK(says("rank 0 has \"tensors 2\" where rank 2 has \"tensors 1\""));
    o.ntensor = 2;
    o.trace = rank == 1;
    CHECK(plait_fusion_create(*comm, &o, &f) == PLAIT_ERR_MISMATCH && says("\"trace 1\""));
    o.trace = 0;
    o.layout.threshold = 100 + (rank == 2);
    CHECK(plait_fusion_create(*comm, &o, &f) == PLAIT_ERR_MISMATCH && says("\"layout threshold of 101 bytes\""));
    o.layout.threshold = 100;
    o.name = rank == 1 ? "fusion" : NULL; /* which is what it means */
    CHECK(plait_fusion_create(*comm, &o, &f) == PLAIT_OK);
    CHECK(plait_fusion_ready(f, 0) == PLAIT_OK && plait_fusion_ready(f, 1) == PLAIT_OK);
    CHECK(plait_fusion_wait_all(f, NULL) == PLAIT_OK);
    CHECK(plait_fusion_destroy(f) == PLAIT_OK);
    return 0;
}

/* Does the last error say that the rank lacks these tensors? Of a rank on another host they are not known. */
static bool says_lacks(const struct plait_fusion *f, uint32_t rank, const char *tensors)
{
    const bool far = ranks_apart(rank, plait_comm_rank(plait_fusion_comm(f)));
    char text[200];

    snprintf(text, sizeof text, "rank %u has not called it%s%s", rank, far ? "" : ": ",
             far ? " (which tensors it lacks is known on its host only)" : tensors);
    return says(text);
}

/* Rank 1 lacks two tensors of the first bucket, and waits all the same, or computes. */
static int stall(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const bool waits = *(const bool *)arg;
    struct plait_fusion_options o = PLAIT_FUSION_OPTIONS_DEFAULT;
    struct plait_fusion *f;
    struct model m;
    enum plait_status status = PLAIT_ERR_TIMEOUT;

    make_model(&m, 8, false, true);
    o.tensors = m.tensors;
    o.ntensor = NTENSOR;
    o.layout.threshold = SIZE_MAX;
    CHECK(plait_fusion_create(*comm, &o, &f) == PLAIT_OK);
    for (uint32_t t = 0; t < NTENSOR; t++)
        if ((rank != 1 || (t != 5 && t != 17)) && (rank != 2 || waits || t != 9))
            CHECK(plait_fusion_ready(f, t) == PLAIT_OK);
    if (rank > 0 && !waits)
        for (unsigned i = 0; i < 3000 && plait_comm_status(plait_fusion_comm(f)) == PLAIT_OK; i++)
            usleep(10000);
    else
        status = plait_fusion_wait_all(f, NULL);
    CHECK(status != PLAIT_OK);
    CHECK(rank > 0 || waits || says_lacks(f, 1, "5 't5' and 1 more of bucket 0 are neither ready nor skipped on it; "));
    CHECK(rank > 0 || waits || says_lacks(f, 2, "9 't9' of bucket 0 is neither ready nor skipped on it"));
    CHECK(rank > 0 || !waits || says("5 't5' and 1 more of bucket 0 are neither ready nor skipped on it") ||
          (RANKS_ON_HOSTS && says("rank 1 has not called it"))); /* who tells first may be on another host */
    CHECK(plait_fusion_ready(f, 5) == PLAIT_ERR_FAILED);
    CHECK(plait_fusion_destroy(f) != PLAIT_OK && says("no progress for 3 s"));
    free_model(&m);
    return 0;
}

static void a_stall_names_the_tensors_and_their_rank(void **state)
{
    bool waits[] = { false, true };

    for (unsigned i = 0; i < 2; i++) {
        ranks = (struct ranks){
            .nprocess = 3, .nthread = 1, .body = stall, .arg = &waits[i], .options.deadline = 3, .options.warn = 1
        };
        assert_int_equal(ranks_run(&ranks), 0);
    }
}

/* A rank dies with a part of its tensors ready; the others wait. */
static int die(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_fusion_options o = PLAIT_FUSION_OPTIONS_DEFAULT;
    struct plait_fusion *f;
    struct model m;
    uint64_t seed = *(const uint64_t *)arg;

    make_model(&m, 8, false, true);
    o.tensors = m.tensors;
    o.ntensor = NTENSOR;
    o.layout.threshold = 30000;
    CHECK(plait_fusion_create(*comm, &o, &f) == PLAIT_OK);
    for (uint32_t step = 0;; step++)
        for (uint32_t t = 0; t < NTENSOR; t++) {
            if (rank == 1 && step == 2 && t == seed % NTENSOR)
                raise(SIGKILL);
            if (plait_fusion_ready(f, t) != PLAIT_OK)
                goto failed;
            if (t == NTENSOR - 1 && plait_fusion_wait_all(f, NULL) != PLAIT_OK)
                goto failed;
        }
failed:
    CHECK(says("rank 1 (process "));
    CHECK(plait_fusion_destroy(f) != PLAIT_OK);
    /* The comm it was made of finished its last operation, but over hosts a rank that dies may not have told so. */
    CHECK(plait_comm_destroy(*comm) == PLAIT_OK || (RANKS_ON_HOSTS && says("rank 1 (process ")));
    *comm = NULL;
    free_model(&m);
    return 0;
}

static void a_rank_that_dies_in_a_bucket_is_named(void **state)
{
    for (uint64_t seed = 0; seed < 8; seed += full() ? 1 : 3) {
        ranks = (struct ranks){ .nprocess = 3, .nthread = 1, .body = die, .arg = &seed, .processes = true };
        assert_int_equal(ranks_run(&ranks), 1); /* who died */
    }
}

/* ---- Threads ---------------------------------------------------------------------------------------------- */

struct share { /* of a thread's tensors */
    struct plait_fusion *f;
    const struct model *m;
    uint32_t rank, step, first;
    int wrong;
};

static void *mark_share(void *arg)
{
    struct share *s = arg;

    for (uint32_t t = s->first; t < NTENSOR; t += 4) {
        fill(s->f, s->m, s->rank, t, s->step);
        s->wrong += plait_fusion_ready(s->f, t) != PLAIT_OK;
    }
    for (uint32_t t = s->first; t < NTENSOR; t += 4)
        s->wrong += plait_fusion_wait(s->f, t) != PLAIT_OK || !holds(s->f, s->m, t, s->step, 2, 0, 1);
    return NULL;
}

/* Four threads make tensors ready, step after step, each as soon as it has its own back. */
static int tensors_become_ready_in_any_thread(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_fusion_options o = PLAIT_FUSION_OPTIONS_DEFAULT;
    struct plait_fusion *f;
    struct model m;

    make_model(&m, 21, false, true);
    o.tensors = m.tensors;
    o.ntensor = NTENSOR;
    o.layout.threshold = 5000;
    CHECK(plait_fusion_create(*comm, &o, &f) == PLAIT_OK);
    for (uint32_t step = 0; step < 10; step++) {
        struct share shares[4];
        pthread_t ids[4];
        for (uint32_t i = 0; i < 4; i++) {
            shares[i] = (struct share){ f, &m, rank, step, i, 0 };
            CHECK(pthread_create(&ids[i], NULL, mark_share, &shares[i]) == 0);
        }
        for (uint32_t i = 0; i < 4; i++)
            CHECK(pthread_join(ids[i], NULL) == 0 && shares[i].wrong == 0);
        CHECK(plait_fusion_wait_all(f, NULL) == PLAIT_OK);
    }
    CHECK(plait_fusion_destroy(f) == PLAIT_OK);
    free_model(&m);
    return 0;
}

static void *wait_for_all(void *fusion)
{
    return plait_fusion_wait_all(fusion, NULL) != PLAIT_OK ? fusion : NULL;
}

/* Rank 1 fails the fusion once rank 0 has marked every tensor. A thread of rank 0 waits then, and another destroys the
 * fusion. */
static int another_thread_may_destroy_what_failed(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_fusion_options o = PLAIT_FUSION_OPTIONS_DEFAULT;
    struct plait_fusion *f;
    struct model m;
    pthread_t id;
    void *failed;

    make_model(&m, 8, false, true);
    o.tensors = m.tensors;
    o.ntensor = NTENSOR;
    CHECK(plait_fusion_create(*comm, &o, &f) == PLAIT_OK);
    for (uint32_t t = rank; t < NTENSOR; t++)
        CHECK(plait_fusion_ready(f, t) == PLAIT_OK);
    CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
    if (rank == 0)
        CHECK(pthread_create(&id, NULL, wait_for_all, f) == 0);
    else
        CHECK(plait_comm_abort(plait_fusion_comm(f), "of this test") == PLAIT_OK);
    if (rank == 0)
        CHECK(pthread_join(id, &failed) == 0 && failed == f);
    CHECK(plait_fusion_destroy(f) != PLAIT_OK);
    free_model(&m);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_right_in_every_layout_order_and_memory),
        cmocka_unit_test(shards_cover_every_element_once_and_weights_reach_everybody),
        test_of_both(what_is_not_finite_is_seen_by_all_ranks_alike, 3),
        cmocka_unit_test(reproducible_bits_depend_on_neither_layout_nor_algorithm),
        cmocka_unit_test(a_payload_of_16_bits_halves_what_travels),
        test_of_ranks(a_trace_has_every_tensor_and_transfer_of_every_rank, 3, 1),
        cmocka_unit_test(wrong_use_is_named_and_changes_nothing),
        cmocka_unit_test(a_bucket_with_a_large_tensor_in_between_ends_with_its_own_last_one),
        test_of_both(complete_buckets_travel_although_their_fusion_is_destroyed, 3),
        cmocka_unit_test(ranks_that_scale_sums_differently_are_named_on_every_rank),
        cmocka_unit_test(a_tensor_that_a_later_step_has_not_marked_is_not_waited_for),
        test_of_both(float64_sums_are_not_scaled_by_factors_that_differ_in_the_last_digits, 2),
        test_of_both(ranks_that_register_something_else_are_named_on_every_rank, 3),
        cmocka_unit_test(a_stall_names_the_tensors_and_their_rank),
        cmocka_unit_test(a_rank_that_dies_in_a_bucket_is_named),
        test_of_both(tensors_become_ready_in_any_thread, 2),
        test_of_both(another_thread_may_destroy_what_failed, 2),
    };

    return cmocka_run_group_tests_name("fusion", tests, NULL, NULL);
}
