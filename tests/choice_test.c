/* SPDX-License-Identifier: BSD-3-Clause */
/* Which algorithm is chosen, by the model of the machine; and that all ranks choose alike. */
#include "plans.h"
#include "ranks.h"
#include "tier.h"

#include "../tools/tuning_save.h"
#include "comm/comm.h"
#include "comm/copy_mode.h"
#include "engine/model.h"
#include "machine/tuned.h"

#include <plait/message.h>
#include <plait/plan.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CLOSE 0.15 /* times that differ less decide nothing */

static const size_t counts[] = { 1, 5000, 40000, (size_t)1 << 32 };
#define NCOUNT (sizeof counts / sizeof *counts)

static const uint32_t two_each[] = { 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7 },
                      crosswise[] = { 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1 },
                      uneven[] = { 0, 0, 0, 1, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3 };
static const uint32_t *const maps[] = { NULL, two_each, crosswise, uneven };
#define NMAP (sizeof maps / sizeof *maps)

static const struct plait_alg *find(const char *spec, const struct plait_shape *shape)
{
    struct plait_shape s = *shape;
    const struct plait_alg *alg;

    assert_int_equal(plait_alg_find(plait_algs, spec, &s, &alg), PLAIT_OK);
    return alg;
}

/* The candidates of one choice are sorted, and the chosen one is among the fastest. */
static void check_candidates(const struct plait_choice *c, const struct plait_shape *shape)
{
    assert_true(c->ncandidate >= 1 && c->ncandidate <= PLAIT_MOST_CANDIDATES);
    assert_string_equal(c->candidate[0].algorithm, c->algorithm);
    for (uint32_t i = 0; i < c->ncandidate; i++) {
        assert_true(c->candidate[i].predicted > 0);
        assert_true(i < 2 || c->candidate[i].predicted >= c->candidate[i - 1].predicted);
        if (c->candidate[0].predicted > (1 + CLOSE) * c->candidate[i].predicted)
            fail_msg("%s of %u ranks: %s, but %s is faster", plait_coll_name(shape->coll), shape->nrank, c->algorithm,
                     c->candidate[i].algorithm);
        for (uint32_t k = 0; k < i; k++)
            assert_string_not_equal(c->candidate[i].algorithm, c->candidate[k].algorithm);
    }
}

/* Every collective, over numbers of ranks, maps of nodes and sizes. */
static void for_all(void (*see)(const struct plait_shape *shape, size_t count))
{
    for (int coll = 0; coll < PLAIT_NCOLL; coll++)
        for (uint32_t n = 2; n <= 12; n += n < 3 ? 1 : 3)
            for (size_t k = 0; k < NMAP; k++)
                for (size_t i = 0; i < NCOUNT && coll != PLAIT_BARRIER; i++) {
                    const struct plait_shape shape = { .coll = (enum plait_coll)coll, .nrank = n, .node = maps[k] };
                    see(&shape, counts[i]);
                }
}

static void see_fastest(const struct plait_shape *shape, size_t count)
{
    struct plait_choice c;

    assert_int_equal(plait_choose(shape, count, PLAIT_FLOAT32, PLAIT_SUM, NULL, &c), PLAIT_OK);
    if (strcmp(c.path, "engine") == 0)
        check_candidates(&c, shape);
    else
        assert_int_equal(c.ncandidate, 0);
}

static void the_chosen_algorithm_is_among_the_fastest(void **state)
{
    (void)state;
    for_all(see_fastest);
}

static void see_canonical(const struct plait_shape *shape, size_t count)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_choice c;

    call.reproducible = 1;
    assert_int_equal(plait_choose(shape, count, PLAIT_FLOAT32, PLAIT_SUM, &call, &c), PLAIT_OK);
    assert_true(find(c.algorithm, shape)->canonical || !plait_geometry_of(shape->coll, 1, 0, 0, 1).combines);
}

static void reproducible_operations_combine_in_the_canonical_order(void **state)
{
    (void)state;
    for_all(see_canonical);
}

static void see_forced(const struct plait_shape *shape, size_t count)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_choice c;

    call.algorithm = shape->coll == PLAIT_ALLREDUCE ? "ring" : "direct";
    assert_int_equal(plait_choose(shape, count, PLAIT_FLOAT32, PLAIT_SUM, &call, &c), PLAIT_OK);
    assert_string_equal(c.algorithm, call.algorithm);
    assert_int_equal(c.ncandidate, 0);
}

static void an_algorithm_that_is_asked_for_is_taken(void **state)
{
    (void)state;
    for_all(see_forced);
}

/* Few latencies for small vectors, few bytes for large ones; hierarchy where ranks of a host are not neighbours. */
static void the_choice_follows_the_size(void **state)
{
    static const struct {
        uint32_t nrank;
        const uint32_t *node;
        size_t count;
        const char *algorithm;
    } rows[] = {
        { 2, NULL, 8000, "one-shot" },
        { 2, two_each + 1, 1000, "one-shot" },
        { 8, two_each, 1 << 20, "halving-doubling" },
        { 16, crosswise, 1 << 20, "hierarchy" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct plait_shape shape = { .coll = PLAIT_ALLREDUCE, .nrank = rows[i].nrank, .node = rows[i].node };
        struct plait_choice c;
        assert_int_equal(plait_choose(&shape, rows[i].count, PLAIT_FLOAT32, PLAIT_SUM, NULL, &c), PLAIT_OK);
        if (strcmp(c.algorithm, rows[i].algorithm) != 0)
            fail_msg("row %zu: %s, not %s: %s", i, c.algorithm, rows[i].algorithm, c.why);
    }
}

/* Of a rank that is alone on its host, or of one beside others. */
static void the_root_counts(void **state)
{
    static const uint32_t hosts[] = { 0, 0, 0, 0, 0, 0, 1 };
    struct plait_shape shape = { .coll = PLAIT_BROADCAST, .nrank = 7, .node = hosts };
    struct plait_choice near, far;

    (void)state;
    assert_int_equal(plait_choose(&shape, 1 << 20, PLAIT_FLOAT32, PLAIT_SUM, NULL, &near), PLAIT_OK);
    shape.root = 6;
    assert_int_equal(plait_choose(&shape, 1 << 20, PLAIT_FLOAT32, PLAIT_SUM, NULL, &far), PLAIT_OK);
    assert_true(near.candidate[0].predicted != far.candidate[0].predicted);
    shape.root = 7;
    assert_int_equal(plait_choose(&shape, 1 << 20, PLAIT_FLOAT32, PLAIT_SUM, NULL, &far), PLAIT_ERR_ARG);
}

/* In the v-forms whose sizes all ranks know, each message of the chosen algorithm is one block. */
static void the_model_chooses_for_blocks_of_different_sizes(void **state)
{
    (void)state;
    for (int coll = 0; coll < PLAIT_NCOLL; coll++)
        for (uint32_t n = 4; n <= 12; n += 4) {
            const struct plait_shape shape = { (enum plait_coll)coll, .nrank = n, .node = two_each, .vform = true };
            const struct plait_geometry g = plait_geometry_of(shape.coll, n, 0, 0, 1);
            struct plait_choice c;
            if (g.kind == PLAIT_KIND_VECTOR)
                continue;
            assert_int_equal(plait_choose(&shape, 1 << 20, PLAIT_FLOAT32, PLAIT_SUM, NULL, &c), PLAIT_OK);
            if (g.kind == PLAIT_KIND_PART && !g.rooted)
                check_candidates(&c, &shape);
            else
                assert_true(c.ncandidate == 0 && strcmp(c.algorithm, "direct") == 0);
            for (uint32_t i = 0; i < c.ncandidate; i++)
                assert_string_not_equal(c.candidate[i].algorithm, "bruck");
        }
}

/* Thousands of ranks are not simulated, but priced by their claims. */
static void many_ranks_are_estimated(void **state)
{
    const struct plait_shape shape = { .coll = PLAIT_ALLREDUCE, .nrank = 4096 };
    struct plait_choice c;

    (void)state;
    assert_int_equal(plait_choose(&shape, 1 << 20, PLAIT_FLOAT32, PLAIT_SUM, NULL, &c), PLAIT_OK);
    check_candidates(&c, &shape);
    bool estimated = false;
    for (uint32_t i = 0; i < c.ncandidate; i++)
        estimated |= c.candidate[i].estimated;
    assert_true(estimated);
}

/* Ranks of a host share its link, also where there are too many messages to simulate. */
static void estimates_know_that_ranks_share_a_link(void **state)
{
    uint32_t node[128];
    const struct plait_shape shape = { .coll = PLAIT_ALLGATHER, .nrank = 128, .node = node };
    struct plait_choice c;

    (void)state;
    for (uint32_t r = 0; r < 128; r++)
        node[r] = r / 2;
    assert_int_equal(plait_choose(&shape, 1 << 18, PLAIT_FLOAT32, PLAIT_SUM, NULL, &c), PLAIT_OK);
    assert_string_equal(c.algorithm, "ring");
}

/* ---- Ranks ------------------------------------------------------------------------------------------------ */

/* Do all ranks make rank 0's choice? */
static int compare(struct plait_comm *comm, uint32_t rank, const struct plait_shape *shape, size_t count)
{
    struct plait_choice all[4], c;

    memset(&c, 0, sizeof c);
    if (plait_comm_choose(comm, shape, count, PLAIT_INT32, PLAIT_SUM, NULL, &c) != PLAIT_OK ||
        plait_allgather(comm, &c, all, sizeof c, PLAIT_UINT8, NULL) != PLAIT_OK)
        return fprintf(stderr, "rank %u: %s\n", rank, plait_last_error());
    for (uint32_t r = 0; r < 4; r++)
        if (memcmp(&all[r], &c, sizeof c) != 0)
            return fprintf(stderr, "%s: rank %u has %s, rank %u %s\n", plait_coll_name(shape->coll), rank, c.algorithm,
                           r, all[r].algorithm);
    return 0;
}

static int choose_alike(struct plait_comm **comm, uint32_t rank, void *arg)
{
    (void)arg;
    for (int coll = 0; coll < PLAIT_NCOLL; coll++)
        for (size_t i = 0; i < 4 * NCOUNT; i++) {
            const struct plait_geometry g = plait_geometry_of((enum plait_coll)coll, 4, 0, 0, 1);
            const struct plait_shape shape = { .coll = (enum plait_coll)coll,
                                               .root = g.rooted && i % 2 ? 2 : 0,
                                               .vform = i / 2 % 2 != 0 };
            if ((!shape.vform || g.kind != PLAIT_KIND_VECTOR) &&
                compare(*comm, rank, &shape, coll == PLAIT_BARRIER ? 0 : counts[i / 4]) != 0)
                return 1;
        }
    return 0;
}

/* No algorithm of the library is faster than the fastest candidate: also none of those that claims left out. */
static void compare_with_all(const struct plait_machine *m, const struct plait_shape *shape, size_t bytes)
{
    static const uint32_t place[] = { 0, 1, 2, 3, 4, 5, 6, 7 };
    const struct plait_sim_options o = { .place = place, .algorithms = plait_algs };
    struct plait_pick pick = { .bytes = bytes };
    double least;

    assert_int_equal(plait_candidates_time(m, &o, shape, false, &pick), PLAIT_OK);
    least = pick.candidates[0].predicted;
    for (uint32_t i = 1; i < pick.n; i++)
        least = pick.candidates[i].predicted < least ? pick.candidates[i].predicted : least;
    for (const struct plait_alg *const *a = plait_algs; *a != NULL; a++) {
        struct plait_prediction p;
        if ((*a)->coll == shape->coll && plait_simulate(m, (*a)->name, shape, PLAIT_UINT8, bytes, &o, &p) == PLAIT_OK &&
            least > 1.0001 * (double)p.time / 1e12)
            fail_msg("%s of %zu bytes, %u levels: %s takes %g s, but %s %g s", plait_coll_name(shape->coll), bytes,
                     m->nlevel, pick.candidates[0].algorithm, least, (*a)->name, (double)p.time / 1e12);
    }
}

/* Over two machines: a host on whose processors ranks take turns or not, and four hosts of two. */
static void nothing_that_is_left_out_is_faster(void **state)
{
    const struct plait_level host = { .name = "host", .children = 2, .bandwidth = 10000000000, .latency = 400 }, net = {
        .name = "net", .children = 4, .links = 1, .bandwidth = 1000000000, .latency = 20000
    };
    struct plait_machine m = { .copy = 10000000000, .reduce = 7000000000, .cache = 1 << 20 };

    (void)state;
    for (int coll = 0; coll < PLAIT_NCOLL; coll++)
        for (size_t bytes = 256; bytes <= 4 << 20 && coll != PLAIT_BARRIER; bytes <<= 7) {
            struct plait_shape shape = { .coll = (enum plait_coll)coll, .nrank = 8, .node = two_each };
            m.nlevel = 2;
            m.level[0] = host;
            m.level[1] = net;
            compare_with_all(&m, &shape, bytes);
            shape.node = NULL;
            m.nlevel = 1;
            for (shape.nrank = 2; shape.nrank <= 8; shape.nrank += light() ? 3 : 1) {
                m.level[0].children = shape.nrank;
                m.level[0].processors = shape.nrank % 2 == 0 ? 2 : 0;
                compare_with_all(&m, &shape, bytes);
            }
        }
}

/* Predicted seconds of the fastest all-reduce of 4 MiB, 8 ranks on 4 hosts. uplink: bytes per second; 0: no racks. */
static double time_with_racks(const uint32_t *rack, uint64_t uplink)
{
    const struct plait_model_options o = {
        .nrank = 8, .algorithms = plait_algs, .node = two_each, .nlevel = uplink > 0, .level = rack, .cache = 1 << 20
    };
    const struct plait_shape shape = { .coll = PLAIT_ALLREDUCE, .nrank = 8, .node = two_each };
    struct plait_tuning tuning = { .nrow = 0 };
    const struct plait_pick *pick;
    struct plait_model *m;

    tuning.link[PLAIT_LINK_HOSTS] = (struct plait_tuned_link){ 20000, 5000, 125000000 };
    tuning.link[PLAIT_LINK_RACKS] = (struct plait_tuned_link){ 20000, 5000, uplink };
    assert_int_equal(plait_model_create(&o, &m), PLAIT_OK);
    plait_model_use(m, &tuning);
    assert_int_equal(plait_model_pick(m, &shape, 4 << 20, false, false, &pick), PLAIT_OK);
    const double time = pick->candidates[0].predicted;
    plait_model_destroy(m);
    return time;
}

static void narrow_links_between_racks_count(void **state)
{
    static const uint32_t in_order[] = { 0, 0, 0, 0, 1, 1, 1, 1 }, across[] = { 0, 0, 1, 1, 0, 0, 1, 1 };
    const double flat = time_with_racks(NULL, 0);

    (void)state;
    for (int k = 0; k < 2; k++) {
        const uint32_t *rack = k == 0 ? in_order : across;
        assert_true(time_with_racks(rack, 2500000000) < 1.1 * flat);
        assert_true(time_with_racks(rack, 25000000) > 1.5 * flat);
    }
}

/* ---- Tuning files ----------------------------------------------------------------------------------------- */

static char folder[] = "/tmp/plait-choice-XXXXXX";

/* Write a file that says that `algorithm` is the fastest all-reduce of so many ranks, from 64 KiB on two-shot. */
static void write_file(const char *name, const char *algorithm, uint32_t nrank, uint64_t fingerprint, char path[64])
{
    struct plait_tuning t;
    struct plait_tuned_choice rows[] = {
        { PLAIT_ALLREDUCE, 1, nrank, PLAIT_MEMORY_HOST, false, 0, "", 12500, "one-shot", 14000 },
        { PLAIT_ALLREDUCE, 1, nrank, PLAIT_MEMORY_HOST, false, 1 << 20, "two-shot", 700000, "", 0 },
        { PLAIT_ALLREDUCE, 1, nrank, PLAIT_MEMORY_HOST, true, 0, "", 12500, "one-shot", 14000 },
        { PLAIT_ALLREDUCE, 1, nrank, PLAIT_MEMORY_HOST, true, 1 << 20, "two-shot", 700000, "", 0 },
    };

    plait_tuning_describe(&t);
    t.fingerprint ^= fingerprint;
    strcpy(rows[0].algorithm, algorithm);
    strcpy(rows[2].algorithm, algorithm);
    t.rows = rows;
    t.nrow = 4;
    snprintf(path, 64, "%s/%s", folder, name);
    if (tuning_save(&t, path) != PLAIT_OK)
        fail_msg("%s", plait_last_error());
}

static void choose_by(const char *path, uint32_t nrank, size_t count, struct plait_choice *out)
{
    const struct plait_shape shape = { .coll = PLAIT_ALLREDUCE, .nrank = nrank };

    setenv("PLAIT_TUNING", path, 1);
    assert_int_equal(plait_choose(&shape, count, PLAIT_FLOAT32, PLAIT_SUM, NULL, out), PLAIT_OK);
    setenv("PLAIT_TUNING", "none", 1);
}

/* From the size of its row on; for other numbers of ranks the nearest one counts. Not for another machine. */
static void a_tuning_file_decides(void **state)
{
    struct plait_choice c;
    char path[64], other[64];

    (void)state;
    write_file("ring.json", "ring", 16, 0, path);
    write_file("other.json", "ring", 16, 1, other);
    for (uint32_t n = 15; n <= 17; n++) {
        choose_by(path, n, 20000, &c);
        assert_string_equal(c.algorithm, "ring");
        assert_string_equal(c.candidate[1].algorithm, "one-shot");
        assert_true(c.candidate[0].measured == 12.5e-6 && c.candidate[1].measured == 14e-6);
        assert_non_null(strstr(c.why, "plait-tune"));
        choose_by(path, n, 1 << 20, &c);
        assert_string_equal(c.algorithm, "two-shot");
        choose_by(other, n, 20000, &c);
        assert_true(c.candidate[0].measured == 0 && strstr(c.why, "plait-tune") == NULL);
        choose_by("/nowhere/tuning.json", n, 20000, &c);
        assert_true(c.candidate[0].measured == 0);
    }
}

/* The canonical order is kept, whatever was measured. */
static void a_tuning_file_does_not_decide_against_the_canonical_order(void **state)
{
    const struct plait_shape shape = { .coll = PLAIT_ALLREDUCE, .nrank = 16 };
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_choice c;
    char path[64];

    (void)state;
    write_file("ring.json", "ring", 16, 0, path);
    setenv("PLAIT_TUNING", path, 1);
    call.reproducible = 1;
    assert_int_equal(plait_choose(&shape, 20000, PLAIT_FLOAT32, PLAIT_SUM, &call, &c), PLAIT_OK);
    assert_true(find(c.algorithm, &shape)->canonical);
    setenv("PLAIT_TUNING", "none", 1);
}

/* A user's plan as well, while it is there. The model alone would not take a chain. */
static void a_tuning_file_decides_for_a_users_plan(void **state)
{
    struct plait_shape shape = { .coll = PLAIT_ALLREDUCE, .nrank = 16 };
    const struct plait_alg *chain = find("chain", &shape);
    struct plans p = plans_emit(chain, &shape);
    char path[64], plan[64];
    struct plait_choice c;

    (void)state;
    snprintf(plan, sizeof plan, "%s/mine.plan", folder);
    plans_write(&p, plan, "");
    plans_free(&p);
    write_file("mine.json", "mine", 16, 0, path);
    setenv("PLAIT_PLANS", plan, 1);
    choose_by("none", 16, 20000, &c);
    assert_string_not_equal(c.algorithm, "mine");
    choose_by(path, 16, 20000, &c);
    assert_string_equal(c.algorithm, "mine");
    assert_true(c.candidate[0].measured == 12.5e-6 && c.candidate[0].predicted > 0);
    unsetenv("PLAIT_PLANS");
    choose_by(path, 16, 20000, &c);
    assert_true(c.candidate[0].measured == 0 && strcmp(c.algorithm, "mine") != 0);
}

static int create_with_own_file(struct plait_comm **comm, uint32_t rank, void *arg)
{
    static float in[20000], out[20000];
    const struct plait_comm_options o = ranks_options(rank);
    struct plait_choice c;

    setenv("PLAIT_TUNING", ((char(*)[64])arg)[rank], 1);
    if (plait_comm_create(&o, comm) != PLAIT_OK ||
        plait_comm_choose(*comm, &(struct plait_shape){ .coll = PLAIT_ALLREDUCE }, 20000, PLAIT_FLOAT32, PLAIT_SUM,
                          NULL, &c) != PLAIT_OK)
        return fprintf(stderr, "rank %u: %s\n", rank, plait_last_error());
    if (strcmp(c.algorithm, "ring") != 0 || c.candidate[0].measured != 12.5e-6)
        return fprintf(stderr, "rank %u: %s, %s\n", rank, c.algorithm, c.why);
    for (size_t i = 0; i < 20000; i++)
        in[i] = (float)rank;
    if (plait_allreduce(*comm, in, out, 20000, PLAIT_FLOAT32, PLAIT_SUM, NULL) != PLAIT_OK || out[19999] != 6)
        return fprintf(stderr, "rank %u: %s, %g\n", rank, plait_last_error(), (double)out[19999]);
    return choose_alike(comm, rank, NULL);
}

/* Of another file, of none, of a malformed one: rank 0's counts. */
static void ranks_with_other_files_choose_alike(void **state)
{
    char paths[4][64];
    const struct ranks r = {
        .nprocess = 4, .nthread = 1, .body = create_with_own_file, .arg = paths, .processes = true, .no_comm = true
    };
    FILE *f;

    (void)state;
    write_file("zero.json", "ring", 4, 0, paths[0]);
    write_file("one.json", "halving-doubling", 4, 0, paths[1]);
    strcpy(paths[2], "none");
    snprintf(paths[3], sizeof paths[3], "%s/malformed.json", folder);
    assert_non_null(f = fopen(paths[3], "w"));
    fputs("{ \"plait\": ", f);
    fclose(f);
    assert_int_equal(ranks_run(&r), 0);
}

/* The nearest numbers of hosts and of ranks on each, up to twice as many; one host is not several. */
static void the_nearest_key_counts(void **state)
{
    struct plait_tuned_choice rows[] = {
        { PLAIT_ALLREDUCE, 8, 1, PLAIT_MEMORY_HOST, false, 0, "ring", 1, "", 0 },
        { PLAIT_ALLREDUCE, 4, 2, PLAIT_MEMORY_HOST, false, 0, "torus", 1, "", 0 },
        { PLAIT_ALLREDUCE, 1, 8, PLAIT_MEMORY_HOST, false, 0, "two-shot", 1, "", 0 },
        { PLAIT_ALLREDUCE, 2, 4, PLAIT_MEMORY_HOST, true, 0, "chain", 1, "", 0 },
        { PLAIT_BROADCAST, 2, 4, PLAIT_MEMORY_HOST, false, 0, "direct", 1, "", 0 },
    };
    static const struct {
        uint32_t hosts, each;
        const char *algorithm;
        size_t nrow;
    } cases[] = { { 4, 2, "torus", 1 },    { 7, 1, "ring", 1 }, { 3, 3, "torus", 2 },
                  { 1, 4, "two-shot", 1 }, { 1, 3, "", 0 },     { 17, 1, "", 0 } };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct plait_tuned_choice copy[sizeof rows / sizeof *rows];
        struct plait_tuning t = { .nrow = sizeof rows / sizeof *rows, .rows = memcpy(copy, rows, sizeof rows) };
        plait_tuning_keep(&t, cases[i].hosts, cases[i].each, false);
        assert_int_equal(t.nrow, cases[i].nrow);
        if (t.nrow > 0)
            assert_string_equal(t.rows[0].algorithm, cases[i].algorithm);
    }
}

/* A row that a person wrote may name what is no algorithm: a warning, and the model. */
static void a_row_of_no_algorithm_does_not_count(void **state)
{
    struct plait_choice c;
    char path[64];

    (void)state;
    write_file("rign.json", "rign", 16, 0, path);
    choose_by(path, 16, 20000, &c);
    assert_true(c.candidate[0].measured == 0 && strstr(c.why, "model") != NULL);
    choose_by(path, 16, 1 << 20, &c);
    assert_string_equal(c.algorithm, "two-shot");
}

/* The row before it would have counted for its sizes. */
static void the_model_decides_where_a_row_does_not_count(void **state)
{
    struct plait_tuned_choice rows[] = {
        { PLAIT_ALLREDUCE, 1, 16, PLAIT_MEMORY_HOST, true, 0, "chain", 12500, "rign", 14000 },
        { PLAIT_ALLREDUCE, 1, 16, PLAIT_MEMORY_HOST, true, 1 << 20, "rign", 700000, "", 0 },
    };
    struct plait_tuning t;
    struct plait_choice c;
    char path[64];

    (void)state;
    plait_tuning_describe(&t);
    rows[0].oversubscribed = rows[1].oversubscribed = t.processors < 16;
    t.rows = rows;
    t.nrow = 2;
    snprintf(path, sizeof path, "%s/second.json", folder);
    assert_int_equal(tuning_save(&t, path), PLAIT_OK);
    choose_by(path, 16, 20000, &c);
    assert_string_equal(c.algorithm, "chain");
    assert_string_not_equal(c.candidate[1].algorithm, "rign");
    choose_by(path, 16, 1 << 20, &c);
    assert_true(c.candidate[0].measured == 0 && strstr(c.why, "model") != NULL);
}

static int remove_files(void **state)
{
    char command[64];

    (void)state;
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

/* ---- Speeds ------------------------------------------------------------------------------------------------ */

static int create_with_own_speeds(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct plait_comm_options o = ranks_options(rank);

    const struct plait_copies own = { .calibrated = true, .copy = 20000 >> 3 * rank };

    plait_copies_keep(&own);
    setenv("PLAIT_CALIBRATE", rank % 2 == 0 ? "1" : "0", 1);
    if (plait_comm_create(&o, comm) != PLAIT_OK)
        return fprintf(stderr, "rank %u: %s\n", rank, plait_last_error());
    return choose_alike(comm, rank, arg);
}

static void ranks_with_other_speeds_choose_alike(void **state)
{
    const struct ranks r = {
        .nprocess = 4, .nthread = 1, .body = create_with_own_speeds, .processes = true, .no_comm = true
    };

    (void)state;
    assert_int_equal(ranks_run(&r), 0);
}

/* ---- Copy modes of a file -------------------------------------------------------------------------------- */

/* Rank 0 sends a vector of its own memory. Does the file's mode count? */
static int copy_as_the_file_says(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct plait_comm_options o = ranks_options(rank);
    const bool staged = strstr(arg, "staged.json") != NULL;
    float *v = calloc(100000, sizeof *v);
    struct plait_comm_stats stats;
    enum plait_status status;

    setenv("PLAIT_TUNING", rank == 0 ? arg : "none", 1);
    status = plait_comm_create(&o, comm);
    if (status == PLAIT_OK)
        status = rank == 0 ? plait_send(*comm, v, 100000, PLAIT_FLOAT32, 1, NULL)
                           : plait_recv(*comm, v, 100000, PLAIT_FLOAT32, 0, NULL);
    free(v);
    if (status != PLAIT_OK)
        return fprintf(stderr, "rank %u: %s\n", rank, plait_last_error());
    plait_comm_stats(*comm, &stats);
    if (rank == 0 && stats.bytes_staged != (staged || !(*comm)->cma ? 400000 : 0))
        return fprintf(stderr, "%llu bytes staged by %s\n", (unsigned long long)stats.bytes_staged, (const char *)arg);
    return 0;
}

static void the_copy_modes_of_rank_0s_file_count(void **state)
{
    static const enum plait_copy_mode modes[] = { PLAIT_COPY_SINGLE, PLAIT_COPY_STAGED };
    char paths[2][64];

    for (int i = 0; i < 2; i++) {
        const struct ranks r = { .nprocess = 2,
                                 .nthread = 1,
                                 .body = copy_as_the_file_says,
                                 .arg = paths[i],
                                 .processes = true,
                                 .no_comm = true };
        struct plait_tuning t;
        plait_tuning_describe(&t);
        t.has_copies = true;
        for (int k = 0; k < PLAIT_COPY_CLASSES; k++)
            t.copies[k] = (struct plait_copy_modes){ modes[i], PLAIT_COPY_STAGED };
        snprintf(paths[i], sizeof paths[i], "%s/%s", folder, i == 0 ? "single.json" : "staged.json");
        assert_int_equal(tuning_save(&t, paths[i]), PLAIT_OK);
        assert_int_equal(ranks_run(&r), 0);
    }
}

/* An operation is never tried in another way. */
static int repeat(struct plait_comm **comm, uint32_t rank, void *arg)
{
    static float in[100000], out[3][100000];
    struct plait_comm_stats before = { 0 }, after;
    uint64_t first = 0;

    (void)arg;
    for (unsigned i = 0; i < 20; i++) {
        plait_comm_stats(*comm, &before);
        if (plait_allreduce(*comm, in, out[rank], 100000, PLAIT_FLOAT32, PLAIT_SUM, NULL) != PLAIT_OK)
            return fprintf(stderr, "rank %u: %s\n", rank, plait_last_error());
        plait_comm_stats(*comm, &after);
        first = i == 0 ? after.messages - before.messages : first;
        if (first == 0 || after.messages - before.messages != first)
            return fprintf(stderr, "operation %u: %llu messages, not %llu\n", i,
                           (unsigned long long)(after.messages - before.messages), (unsigned long long)first);
    }
    return 0;
}

static uint64_t runs_of(struct plait_comm *comm, const char *algorithm)
{
    struct plait_comm_count count;

    for (size_t i = 0; plait_comm_count(comm, i, &count) == PLAIT_OK; i++)
        if (count.coll == PLAIT_ALLGATHER && strcmp(count.algorithm, algorithm) == 0)
            return count.operations;
    return 0;
}

/* As plait_comm_choose() says, whatever the sizes. */
static int gather_different_sizes(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct plait_shape shape = { .coll = PLAIT_ALLGATHER, .vform = true };
    static int32_t in[4][300000], out[4][500000];
    struct plait_choice c;

    (void)arg;
    for (size_t most = 20; most < 300000; most = most * 5 / 2) {
        const size_t sizes[] = { most / 3, most, 0 };
        plait_comm_choose(*comm, &shape, most, PLAIT_INT32, PLAIT_SUM, NULL, &c);
        const uint64_t before = runs_of(*comm, c.algorithm);
        for (size_t i = 0; i < sizes[rank]; i++)
            in[rank][i] = (int32_t)(rank * most + i);
        if (plait_allgatherv(*comm, in[rank], out[rank], sizes, NULL, PLAIT_INT32, NULL) != PLAIT_OK)
            return fprintf(stderr, "rank %u: %s\n", rank, plait_last_error());
        for (size_t i = 0; i < most / 3 + most; i++)
            if (out[rank][i] != (int32_t)(i < most / 3 ? i : most + i - most / 3))
                return fprintf(stderr, "rank %u: %zu elements, element %zu is %d\n", rank, most, i, out[rank][i]);
        if (runs_of(*comm, c.algorithm) != before + 1)
            return fprintf(stderr, "rank %u: %zu elements: %s did not run\n", rank, most, c.algorithm);
    }
    return 0;
}

static void operations_with_different_sizes_run_what_is_chosen(void **state)
{
    const struct ranks r = { .nprocess = 3, .nthread = 1, .body = gather_different_sizes, .options.node = two_each };

    (void)state;
    assert_int_equal(ranks_run(&r), 0);
}

static void the_first_operations_of_a_size_send_the_same_messages_as_later_ones(void **state)
{
    const struct ranks r = { .nprocess = 3, .nthread = 1, .body = repeat };

    (void)state;
    assert_int_equal(ranks_run(&r), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_chosen_algorithm_is_among_the_fastest),
        cmocka_unit_test(reproducible_operations_combine_in_the_canonical_order),
        cmocka_unit_test(an_algorithm_that_is_asked_for_is_taken),
        cmocka_unit_test(the_choice_follows_the_size),
        cmocka_unit_test(the_root_counts),
        cmocka_unit_test(the_model_chooses_for_blocks_of_different_sizes),
        cmocka_unit_test(many_ranks_are_estimated),
        cmocka_unit_test(estimates_know_that_ranks_share_a_link),
        cmocka_unit_test(ranks_with_other_speeds_choose_alike),
        cmocka_unit_test(nothing_that_is_left_out_is_faster),
        cmocka_unit_test(narrow_links_between_racks_count),
        cmocka_unit_test(the_nearest_key_counts),
        cmocka_unit_test(a_row_of_no_algorithm_does_not_count),
        cmocka_unit_test(the_model_decides_where_a_row_does_not_count),
        cmocka_unit_test(a_tuning_file_decides),
        cmocka_unit_test(a_tuning_file_decides_for_a_users_plan),
        cmocka_unit_test(a_tuning_file_does_not_decide_against_the_canonical_order),
        cmocka_unit_test(ranks_with_other_files_choose_alike),
        cmocka_unit_test(the_copy_modes_of_rank_0s_file_count),
        cmocka_unit_test(operations_with_different_sizes_run_what_is_chosen),
        cmocka_unit_test(the_first_operations_of_a_size_send_the_same_messages_as_later_ones),
    };

    setenv("PLAIT_TUNING", "none", 1);
    if (mkdtemp(folder) == NULL)
        return 1;
    return cmocka_run_group_tests_name("choice", tests, NULL, remove_files);
}
