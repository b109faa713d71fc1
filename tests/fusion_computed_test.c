/* SPDX-License-Identifier: BSD-3-Clause */
/* Computed layouts: sums and addresses do not change with them, they are equal on all ranks, and misuse is named. */
#include "pending.h"
#include "random.h"
#include "unit_ranks.h"

#include <plait/coll.h>
#include <plait/fusion.h>
#include <plait/group.h>
#include <plait/memory.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NTENSOR = 24, STEPS = 14, LAST = 12 /* steps until the times of the last layout are known */ };

/* ---- Two fusions of the same tensors ---------------------------------------------------------------------- */

struct kind {
    bool types, own, late; /* another type among them; the caller's memory for some; ranks are late with some */
    enum plait_dtype payload;
};

struct model {
    char names[NTENSOR][8];
    struct plait_tensor tensors[NTENSOR];
};

static void make_model(struct model *m, const struct kind *k)
{
    uint64_t seed = 5;

    for (uint32_t t = 0; t < NTENSOR; t++) {
        const size_t count = 1 + random_below(&seed, t % 5 == 0 ? 30000 : 700);
        snprintf(m->names[t], sizeof m->names[t], "t%u", t);
        m->tensors[t] =
            (struct plait_tensor){ m->names[t], count, k->types && t % 4 == 1 ? PLAIT_FLOAT64 : PLAIT_FLOAT32,
                                   k->own && t % 3 != 1 ? malloc(count * sizeof(double)) : NULL };
    }
}

static void free_model(struct model *m)
{
    for (uint32_t t = 0; t < NTENSOR; t++)
        free(m->tensors[t].data);
}

static struct plait_fusion_options options_of(const struct model *m, const struct kind *k)
{
    struct plait_fusion_options o = PLAIT_FUSION_OPTIONS_DEFAULT;

    o.tensors = m->tensors;
    o.ntensor = NTENSOR;
    o.payload = k->payload;
    o.reproducible = 1;
    o.check = 1;
    o.layout = (struct plait_layout){ .rule = PLAIT_LAYOUT_COMPUTED };
    return o;
}

static size_t bytes_of(const struct model *m, uint32_t t)
{
    return m->tensors[t].count * plait_dtype_size(m->tensors[t].type);
}

static void fill(struct plait_fusion *f, const struct model *m, uint32_t t, uint64_t seed)
{
    for (size_t i = 0; i < m->tensors[t].count; i++) {
        const double x = (double)(int64_t)random_next(&seed) * 1e-18;
        if (m->tensors[t].type == PLAIT_FLOAT64)
            ((double *)plait_fusion_data(f, t))[i] = x;
        else
            ((float *)plait_fusion_data(f, t))[i] = (float)x;
    }
}

static int step(struct plait_fusion *f, const struct model *m, uint32_t rank, uint32_t number, const struct kind *k)
{
    struct plait_fusion_result result;

    for (uint32_t t = 0; t < NTENSOR; t++) {
        const bool skips = (t + number) % 7 == rank;
        fill(f, m, t, 1 + rank + 10 * t + 1000 * number);
        if (k->late && t % 3 == rank)
            usleep(500 * (rank + 1));
        CHECK((skips ? plait_fusion_skip(f, t) : plait_fusion_ready(f, t)) == PLAIT_OK);
    }
    CHECK(plait_fusion_wait_all(f, &result) == PLAIT_OK && result.finite);
    return 0;
}

/* All ranks have rank 0's buckets. */
static int is_alike(struct plait_comm *comm, uint32_t rank, const struct plait_fusion *f)
{
    struct plait_fusion_bucket of[2][NTENSOR] = { 0 };
    const uint32_t n = plait_fusion_nbucket(f);

    for (uint32_t k = 0; k < n; k++)
        CHECK(plait_fusion_bucket(f, k, &of[0][k]) == PLAIT_OK);
    CHECK(plait_broadcast(comm, of[0], of[1], sizeof *of, PLAIT_UINT8, 0, NULL) == PLAIT_OK);
    CHECK(memcmp(of[0], of[1], n * sizeof **of) == 0 && (n == NTENSOR || of[1][n].ntensor == 0));
    return 0;
}

/* The state after `done` steps. */
static int has_computed(struct plait_fusion *f, uint32_t rank, uint32_t done)
{
    struct plait_fusion_computed c;

    CHECK(plait_fusion_computed(f, &c) == PLAIT_OK);
    CHECK(c.computed == (done < 4 ? 0 : done < 8 ? 1 : 2));
    CHECK((c.first > 0) == (done >= 4) && (c.predicted > 0) == (done >= 4));
    CHECK((c.seen > 0) == (done >= LAST));
    return 0;
}

/* The pieces and the data stay where they are. */
static int stays(struct plait_fusion *f, uint32_t rank, void *const *places)
{
    struct plait_piece p;

    for (uint32_t t = 0; t < NTENSOR; t++)
        CHECK(plait_fusion_data(f, t) == places[t] && plait_fusion_piece(f, t, &p) == PLAIT_OK &&
              p.gradient == places[t]);
    return 0;
}

static int compare(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct kind *k = arg;
    struct model m, same;
    void *places[NTENSOR];
    struct plait_fusion *f, *fixed;

    make_model(&m, k);
    make_model(&same, k);
    struct plait_fusion_options o = options_of(&m, k);
    CHECK(plait_fusion_create(*comm, &o, &f) == PLAIT_OK);
    o = options_of(&same, k);
    o.layout = (struct plait_layout){ .rule = PLAIT_LAYOUT_THRESHOLD, .threshold = 20000 };
    CHECK(plait_fusion_create(*comm, &o, &fixed) == PLAIT_OK);
    for (uint32_t t = 0; t < NTENSOR; t++)
        places[t] = plait_fusion_data(f, t);
    for (uint32_t s = 0; s < STEPS; s++) {
        CHECK(has_computed(f, rank, s) == 0 && stays(f, rank, places) == 0 && is_alike(*comm, rank, f) == 0);
        if (s == 6)
            CHECK(plait_fusion_set_scale(f, 0.5, 2) == PLAIT_OK && plait_fusion_set_scale(fixed, 0.5, 2) == PLAIT_OK);
        CHECK(step(f, &m, rank, s, k) == 0 && step(fixed, &same, rank, s, k) == 0);
        for (uint32_t t = 0; t < NTENSOR; t++) {
            struct plait_piece a, b;
            CHECK(memcmp(plait_fusion_data(f, t), plait_fusion_data(fixed, t), bytes_of(&m, t)) == 0);
            CHECK(plait_fusion_piece(f, t, &a) == PLAIT_OK && plait_fusion_piece(fixed, t, &b) == PLAIT_OK);
            CHECK(a.square == b.square);
        }
    }
    CHECK(plait_fusion_destroy(f) == PLAIT_OK && plait_fusion_destroy(fixed) == PLAIT_OK);
    free_model(&m);
    free_model(&same);
    return 0;
}

static void sums_and_addresses_stay_while_the_layout_changes_alike_on_all_ranks(void **state)
{
    static struct kind kinds[] = {
        { false, false, true, PLAIT_NDTYPE },
        { true, true, true, PLAIT_NDTYPE },
        { false, true, false, PLAIT_BFLOAT16 },
        { true, false, false, PLAIT_FLOAT16 },
    };

    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++)
        run_both(i == 1 ? 4 : 3, compare, &kinds[i]);
    run(1, 1, compare, &kinds[1]);
}

/* ---- Use -------------------------------------------------------------------------------------------------- */

/* Two tensors, in the caller's memory and in a bucket. */
static const float none[8];
static float own[4][8];

static struct plait_fusion_options options_of_two(struct plait_tensor *tensors, uint32_t rank)
{
    struct plait_fusion_options o = PLAIT_FUSION_OPTIONS_DEFAULT;

    tensors[0] = (struct plait_tensor){ "a", 8, PLAIT_FLOAT32, own[rank] };
    tensors[1] = (struct plait_tensor){ "b", 5000, PLAIT_FLOAT32, NULL };
    o.tensors = tensors;
    o.ntensor = 2;
    o.layout.rule = PLAIT_LAYOUT_COMPUTED;
    return o;
}

/* Mark both tensors, in an order that differs between ranks, and wait for each. */
static int make_round(struct plait_fusion *f, uint32_t rank)
{
    memcpy(plait_fusion_data(f, 0), none, sizeof none);
    memset(plait_fusion_data(f, 1), 0, 5000 * sizeof(float));
    for (uint32_t i = 0; i < 2; i++)
        CHECK(plait_fusion_ready(f, (i + rank) % 2) == PLAIT_OK);
    for (uint32_t t = 0; t < 2; t++)
        CHECK(plait_fusion_wait(f, t) == PLAIT_OK);
    return 0;
}

static int a_step_that_does_not_end_before_a_change_is_named(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_tensor tensors[2];
    struct plait_fusion_options o = options_of_two(tensors, rank);
    struct plait_fusion *f;

    CHECK(plait_fusion_create(*comm, &o, &f) == PLAIT_OK);
    for (uint32_t s = 0; s < 4; s++)
        CHECK(make_round(f, rank) == 0 && (s % 2 == 1 || plait_fusion_wait_all(f, NULL) == PLAIT_OK));
    CHECK(plait_fusion_ready(f, 1) == PLAIT_ERR_ARG);
    CHECK(says("plait_fusion_ready: fusion: tensor 1 'b' begins the next step, but the computed layout changes before: "
               "call plait_fusion_wait_all()"));
    CHECK(plait_fusion_skip(f, 0) == PLAIT_ERR_ARG && says("plait_fusion_skip: "));
    CHECK(plait_group_start() == PLAIT_OK && plait_fusion_wait_all(f, NULL) == PLAIT_ERR_ARG && says("group"));
    CHECK(plait_group_end() == PLAIT_OK);
    CHECK(plait_fusion_wait_all(f, NULL) == PLAIT_OK && plait_fusion_wait_all(f, NULL) == PLAIT_OK);
    for (uint32_t s = 0; s < 20; s++)
        CHECK(make_round(f, rank) == 0 && (s > 10 || plait_fusion_wait_all(f, NULL) == PLAIT_OK)); /* it stays */
    CHECK(plait_fusion_destroy(f) == PLAIT_OK);
    return 0;
}

static int what_has_no_computed_layout_is_named(struct plait_comm **comm, uint32_t rank, void *arg)
{
    enum { TOO_MANY = 4097 };
    struct plait_tensor two[2], *many = calloc(TOO_MANY, sizeof *many);
    struct plait_fusion_options o = options_of_two(two, rank);
    struct plait_fusion_computed c;
    struct plait_fusion *f = NULL;

    CHECK(many != NULL);
    o.sharded = 1;
    CHECK(plait_fusion_create(*comm, &o, &f) == PLAIT_ERR_ARG && says("not possible with sharded"));
    o.sharded = 0;
    for (uint32_t t = 0; t < TOO_MANY; t++)
        many[t] = (struct plait_tensor){ "t", 1, PLAIT_FLOAT32, NULL };
    o.tensors = many;
    o.ntensor = TOO_MANY;
    CHECK(plait_fusion_create(*comm, &o, &f) == PLAIT_ERR_ARG && says("at most 4096 tensors, but ntensor is 4097"));
    o.tensors = two;
    o.ntensor = 2;
    o.layout.rule = rank == 1 ? PLAIT_LAYOUT_CUBIC : PLAIT_LAYOUT_COMPUTED;
    CHECK(plait_fusion_create(*comm, &o, &f) == PLAIT_ERR_MISMATCH);
    CHECK(says("rank 0 has \"layout computed\" where rank 1 has \"layout cubic\""));
    CHECK(plait_fusion_computed(NULL, &c) == PLAIT_ERR_ARG && says("fusion is NULL"));
    o.layout.rule = PLAIT_LAYOUT_CUBIC;
    CHECK(plait_fusion_create(*comm, &o, &f) == PLAIT_OK);
    CHECK(plait_fusion_computed(f, NULL) == PLAIT_ERR_ARG && says("out is NULL"));
    CHECK(plait_fusion_computed(f, &c) == PLAIT_ERR_ARG && says("the fusion's layout is not PLAIT_LAYOUT_COMPUTED"));
    CHECK(plait_fusion_destroy(f) == PLAIT_OK);
    free(many);
    return 0;
}

/* The trace has the buckets of the present layout. */
static int a_trace_has_only_events_since_the_last_change(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_tensor tensors[2];
    struct plait_fusion_options o = options_of_two(tensors, rank);
    char path[64], text[20000] = "";
    struct plait_fusion *f;
    unsigned nready = 0;

    snprintf(path, sizeof path, "/tmp/plait-computed-%d.json", (int)getpid());
    o.trace = 1;
    CHECK(plait_fusion_create(*comm, &o, &f) == PLAIT_OK);
    for (uint32_t s = 0; s < 9; s++)
        CHECK(make_round(f, rank) == 0 && plait_fusion_wait_all(f, NULL) == PLAIT_OK);
    CHECK(plait_fusion_trace(f, path) == PLAIT_OK);
    CHECK(plait_fusion_destroy(f) == PLAIT_OK);
    if (rank > 0)
        return 0;
    FILE *file = fopen(path, "r");
    CHECK(file != NULL && fread(text, 1, sizeof text - 1, file) > 0);
    fclose(file);
    unlink(path);
    for (const char *at = text; (at = strstr(at, "\"ph\":\"i\"")) != NULL; at++)
        nready++;
    CHECK(nready == 2 * 2); /* one step of two ranks */
    return 0;
}

/* Rank 1 dies between its last bucket and the agreement on the next layout. */
static int die(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_tensor tensors[2];
    struct plait_fusion_options o = options_of_two(tensors, rank);
    struct plait_fusion *f;

    CHECK(plait_fusion_create(*comm, &o, &f) == PLAIT_OK);
    for (uint32_t s = 0; s < 3; s++)
        CHECK(make_round(f, rank) == 0 && plait_fusion_wait_all(f, NULL) == PLAIT_OK);
    CHECK(make_round(f, rank) == 0);
    ranks_meet();
    if (rank == 1) {
        usleep(100000);
        raise(SIGKILL);
    }
    CHECK(plait_fusion_wait_all(f, NULL) != PLAIT_OK && says("rank 1 (process "));
    CHECK(plait_fusion_destroy(f) != PLAIT_OK);
    CHECK(plait_comm_destroy(*comm) == PLAIT_OK || (RANKS_ON_HOSTS && says("rank 1 (process ")));
    *comm = NULL;
    return 0;
}

static void a_rank_that_dies_while_the_others_agree_is_named(void **state)
{
    ranks = (struct ranks){ .nprocess = 3, .nthread = 1, .body = die, .processes = true };
    assert_int_equal(ranks_run(&ranks), 1); /* the one that died */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_and_addresses_stay_while_the_layout_changes_alike_on_all_ranks),
        test_of_both(a_step_that_does_not_end_before_a_change_is_named, 3),
        test_of_both(what_has_no_computed_layout_is_named, 2),
        test_of_ranks(a_trace_has_only_events_since_the_last_change, 2, 1),
        cmocka_unit_test(a_rank_that_dies_while_the_others_agree_is_named),
    };

    return cmocka_run_group_tests_name("computed fusion", tests, NULL, NULL);
}
