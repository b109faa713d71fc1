/* SPDX-License-Identifier: BSD-3-Clause */
/* Algorithms of a program that are not as they should be: each is refused by name, before it can do harm. */
#include "ranks.h"
#include "unit.h"

#include <plait/plan.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- One that is right: two ranks swap and add ----------------------------------------------------- */

static bool applies(const struct plait_alg *self, const struct plait_shape *s)
{
    return s->nrank == 2;
}

static _Thread_local uint32_t copies; /* steps more, which make nothing: what emit must not look at */
static _Thread_local uint32_t every;  /* not 0: and every so many calls it is one more */

static void emit(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s, uint32_t me)
{
    static _Thread_local uint32_t calls;

    (void)self, (void)s;
    if (every > 0 && ++calls % every == 0)
        copies++;
    plait_blocks(b, 1, 2);
    plait_emit_send(b, !me, plait_in(0), 0, 1);
    plait_emit_recv(b, !me, plait_tmp(0), 0, 1);
    plait_emit_reduce(b, plait_out(0), me ? plait_tmp(0) : plait_in(0), me ? plait_in(0) : plait_tmp(0), 0, 1);
    for (uint32_t i = 0; i < copies; i++)
        plait_emit_copy(b, plait_tmp(1), plait_tmp(0), 0, 1);
}

static struct plait_claim good = { .depth = 1, .rounds = 1, .nblk = 1, .sent = 1, .received = 1, .rounds_exact = true };

static struct plait_claim claim(const struct plait_alg *self, const struct plait_shape *s)
{
    return self->preset != NULL ? *(const struct plait_claim *)self->preset : good;
}

static const struct plait_alg swap = { .name = "swap",
                                       .coll = PLAIT_ALLREDUCE,
                                       .params = "",
                                       .text = "",
                                       .source = "",
                                       .applies = applies,
                                       .emit = emit,
                                       .claim = claim };

/* ---- Structs ---------------------------------------------------------------------------------------- */

static const char long_name[] = "0123456789012345678901234567890123456789012345678901234567890123";

/* One field of `swap` changed to what no algorithm has. */
static struct plait_alg broken(int field)
{
    struct plait_alg a = swap;

    switch (field) {
    case 0:
        a.name = NULL;
        break;
    case 1:
        a.name = "";
        break;
    case 2:
        a.name = long_name;
        break;
    case 3:
        a.params = NULL;
        break;
    case 4:
        a.text = NULL;
        break;
    case 5:
        a.source = NULL;
        break;
    case 6:
        a.applies = NULL;
        break;
    case 7:
        a.emit = NULL;
        break;
    case 8:
        a.claim = NULL;
        break;
    default:
        a.coll = (enum plait_coll)PLAIT_NCOLL;
    }
    return a;
}
#define NBROKEN 10

static int create_with(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_comm_options o = ranks_options(rank);

    for (int field = 0; field < NBROKEN; field++) {
        const struct plait_alg a = broken(field);
        const struct plait_alg *const algs[] = { &swap, &a, NULL };
        o.algorithms = algs;
        CHECK(plait_comm_create(&o, comm) == PLAIT_ERR_ARG);
        CHECK(strstr(plait_last_error(), "options->algorithms[1] ") != NULL && *comm == NULL);
    }
    return 0;
}

static void an_algorithm_that_lacks_something_is_refused_by_its_place(void **state)
{
    const struct plait_shape shape = { .coll = PLAIT_ALLREDUCE, .nrank = 2 };
    struct ranks r = { .nprocess = 1, .nthread = 1, .body = create_with, .no_comm = true };

    for (int field = 0; field < NBROKEN; field++) {
        const struct plait_alg a = broken(field), *found;
        const struct plait_alg *const algs[] = { &a, NULL };
        struct plait_shape s = shape;
        assert_int_equal(plait_alg_check(&a, &shape, NULL), PLAIT_ERR_ARG);
        assert_int_equal(plait_alg_find(algs, "swap", &s, &found), PLAIT_ERR_ARG);
        assert_non_null(strstr(plait_last_error(), "algs[0] "));
    }
    assert_int_equal(ranks_run(&r), 0);
}

static void shapes_that_there_are_not_are_refused(void **state)
{
    const struct plait_shape shapes[] = {
        { .coll = PLAIT_ALLREDUCE, .nrank = 0 },
        { .coll = (enum plait_coll)PLAIT_NCOLL, .nrank = 2 },
        { .coll = (enum plait_coll) - 1, .nrank = 2 },
        { .coll = PLAIT_REDUCE, .nrank = 2, .root = 2 },
        { .coll = PLAIT_ALLTOALL, .nrank = 2, .inplace = true },
    };
    struct plait_plan *plan = NULL;

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        assert_int_equal(plait_plan_emit(&swap, &shapes[i], 0, &plan), PLAIT_ERR_ARG);
        assert_int_equal(plait_alg_check(&swap, &shapes[i], NULL), PLAIT_ERR_ARG);
        assert_null(plan);
        plait_geometry_of(shapes[i].coll, shapes[i].nrank, shapes[i].root, 0, 1);
        plait_block_count(shapes[i].coll, shapes[i].nrank);
    }
}

static void emit_to(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s, uint32_t me)
{
    (void)s, (void)me;
    plait_blocks(b, 1, 1);
    plait_emit_send(b, *(const uint32_t *)self->preset, plait_in(0), 0, 1);
}

static void a_peer_that_is_no_rank_is_refused_whatever_its_number(void **state)
{
    static const uint32_t peers[] = { 0, 2, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff };
    const struct plait_shape shape = { .coll = PLAIT_ALLREDUCE, .nrank = 2 };

    for (size_t i = 0; i < sizeof peers / sizeof *peers; i++) {
        const struct plait_alg a = { .name = "a", .preset = &peers[i], .emit = emit_to };
        struct plait_plan *plan = NULL;
        assert_int_equal(plait_plan_emit(&a, &shape, 0, &plan), PLAIT_ERR_PLAN);
        assert_non_null(strstr(plait_last_error(), "peer"));
    }
}

static void a_missing_plan_is_refused_by_its_rank(void **state)
{
    const struct plait_shape shape = { .coll = PLAIT_ALLREDUCE, .nrank = 2 };
    const struct plait_plan *plans[2] = { NULL, NULL };
    struct plait_plan *plan = NULL;

    assert_int_equal(plait_plan_emit(&swap, &shape, 0, &plan), PLAIT_OK);
    plans[0] = plan;
    assert_int_equal(plait_plan_check("swap", &shape, plans, NULL, NULL), PLAIT_ERR_ARG);
    assert_non_null(strstr(plait_last_error(), "plans[1] is NULL"));
    plait_plan_destroy(plan);
}

/* ---- Runs ------------------------------------------------------------------------------------------- */

static enum plait_status add(struct plait_comm *comm)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    int in[1000] = { 1 }, out[1000];

    call.algorithm = "swap";
    return plait_allreduce(comm, in, out, 1000, PLAIT_INT32, PLAIT_SUM, &call);
}

static int claim_wrongly(struct plait_comm **comm, uint32_t rank, void *arg)
{
    CHECK(add(*comm) == PLAIT_ERR_PLAN);
    CHECK(strstr(plait_last_error(), "algorithm 'swap': the claim's nblk is not from 1 to 2^30-1") != NULL);
    CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
    return 0;
}

static void run_with(const struct plait_alg *alg, int (*body)(struct plait_comm **, uint32_t, void *))
{
    const struct plait_alg *const algs[] = { alg, NULL };
    struct ranks r = {
        .nprocess = 2, .nthread = 1, .body = body, .processes = true, .options.algorithms = algs, .options.deadline = 30
    };

    assert_int_equal(ranks_run(&r), 0);
}

static void a_claim_of_no_blocks_or_too_many_is_refused_by_name(void **state)
{
    static const uint64_t nblk[] = { 0, 1u << 30, UINT64_C(1) << 58, UINT64_MAX };

    for (size_t i = 0; i < sizeof nblk / sizeof *nblk; i++) {
        struct plait_claim c = good;
        struct plait_alg a = swap;
        c.nblk = nblk[i];
        a.preset = &c;
        run_with(&a, claim_wrongly);
    }
}

/* Right on each rank by itself. */
static int emit_by_rank(struct plait_comm **comm, uint32_t rank, void *arg)
{
    char seen[2][9];

    copies = rank;
    CHECK(add(*comm) == PLAIT_ERR_MISMATCH);
    const char *hashes = strstr(plait_last_error(), "emit of algorithm swap depends on more than shape and rank");
    CHECK(hashes != NULL && (hashes = strstr(hashes, "hash to ")) != NULL);
    CHECK(sscanf(hashes, "hash to %8s on rank %*u and %8s on rank", seen[0], seen[1]) == 2);
    CHECK(strcmp(seen[0], seen[1]) != 0);
    plait_comm_destroy(*comm);
    *comm = NULL;
    return 0;
}

static void ranks_whose_emit_differs_see_that_the_plans_do(void **state)
{
    run_with(&swap, emit_by_rank);
}

static int emit_by_chance(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const uint32_t period = *(const uint32_t *)arg;

    every = period;
    CHECK(add(*comm) == PLAIT_ERR_MISMATCH);
    CHECK(strstr(plait_last_error(), "emit of algorithm swap depends on more than shape and rank") != NULL);
    plait_comm_destroy(*comm);
    *comm = NULL;
    return 0;
}

/* Each rank proves the plan that it runs, but ranks have other plans of each other. */
static void an_emit_that_changes_its_mind_is_refused(void **state)
{
    const struct plait_alg *const algs[] = { &swap, NULL };
    uint32_t period = 1;
    struct ranks r = {
        .nprocess = 1, .nthread = 2, .body = emit_by_chance, .arg = &period, .options.algorithms = algs
    };

    assert_int_equal(ranks_run(&r), 0);
}

/* ---- The library's choice ---------------------------------------------------------------------------- */

/* Is it a candidate? What is not named runs in either case. */
static int choose_freely(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct plait_shape shape = { .coll = PLAIT_ALLREDUCE };
    static int in[2][100000], out[2][100000];
    struct plait_choice c;
    bool found = false;

    CHECK(plait_comm_choose(*comm, &shape, 100000, PLAIT_INT32, PLAIT_SUM, NULL, &c) == PLAIT_OK);
    for (uint32_t i = 0; i < c.ncandidate; i++)
        found |= strcmp(c.candidate[i].algorithm, "swap") == 0 && c.candidate[i].predicted > 0;
    CHECK(found == *(const bool *)arg);
    in[rank][0] = 1;
    CHECK(plait_allreduce(*comm, in[rank], out[rank], 100000, PLAIT_INT32, PLAIT_SUM, NULL) == PLAIT_OK);
    CHECK(out[rank][0] == 2);
    return 0;
}

/* The first operand is the higher rank's. */
static void emit_reversed(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s,
                          uint32_t me)
{
    (void)self, (void)s;
    plait_blocks(b, 1, 1);
    plait_emit_send(b, !me, plait_in(0), 0, 1);
    plait_emit_recv(b, !me, plait_tmp(0), 0, 1);
    plait_emit_reduce(b, plait_out(0), me ? plait_in(0) : plait_tmp(0), me ? plait_tmp(0) : plait_in(0), 0, 1);
}

static void only_what_is_proved_is_a_candidate(void **state)
{
    struct plait_claim wrong = good;

    wrong.depth = 2;
    for (int k = 0; k < 4; k++) {
        struct plait_alg a = swap;
        bool expected = k < 2;
        const struct plait_alg *const algs[] = { &a, NULL };
        struct ranks r = {
            .nprocess = 2, .nthread = 1, .body = choose_freely, .arg = &expected, .options.algorithms = algs
        };
        a.canonical = k == 1 || k == 3;
        a.emit = k == 3 ? emit_reversed : emit;
        a.preset = k == 2 ? &wrong : NULL;
        assert_int_equal(ranks_run(&r), 0);
    }
}

/* ---- Reduces whose root works in place, which the others do not know ---------------------------------- */

static bool fits_three(const struct plait_alg *self, const struct plait_shape *s)
{
    return s->nrank == 3 && s->root == 0;
}

/* In place the root sends rank 1 a partial sum, else its input: rank 1 makes the result of the one, not of the other. */
static void emit_other_kinds(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s,
                             uint32_t me)
{
    plait_blocks(b, 1, 2);
    if (me == 2) {
        plait_emit_send(b, 0, plait_in(0), 0, 1);
    } else if (me == 1) {
        plait_emit_recv(b, 0, plait_tmp(0), 0, 1);
        plait_emit_reduce(b, plait_tmp(1), plait_tmp(0), plait_in(0), 0, 1);
        plait_emit_send(b, 0, plait_tmp(1), 0, 1);
    } else if (s->inplace) {
        plait_emit_recv(b, 2, plait_tmp(0), 0, 1);
        plait_emit_reduce(b, plait_tmp(1), plait_in(0), plait_tmp(0), 0, 1);
        plait_emit_send(b, 1, plait_tmp(1), 0, 1);
        plait_emit_recv(b, 1, plait_out(0), 0, 1);
    } else {
        plait_emit_send(b, 1, plait_in(0), 0, 1);
        plait_emit_recv(b, 1, plait_tmp(1), 0, 1);
        plait_emit_recv(b, 2, plait_tmp(0), 0, 1);
        plait_emit_reduce(b, plait_out(0), plait_tmp(1), plait_tmp(0), 0, 1);
    }
}

/* In place the root leaves out rank 2, whose part it expects to be in that of rank 1. */
static void emit_for_another_sender(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s,
                                    uint32_t me)
{
    plait_blocks(b, 1, 3);
    if (me == 2) {
        plait_emit_send(b, 1, plait_in(0), 0, 1);
        plait_emit_send(b, 0, plait_in(0), 0, 1);
    } else if (me == 1) {
        plait_emit_recv(b, 2, plait_tmp(0), 0, 1);
        plait_emit_reduce(b, plait_tmp(1), plait_in(0), plait_tmp(0), 0, 1);
        plait_emit_send(b, 0, s->inplace ? plait_tmp(1) : plait_in(0), 0, 1);
    } else {
        plait_emit_recv(b, 1, plait_tmp(1), 0, 1);
        plait_emit_recv(b, 2, plait_tmp(0), 0, 1);
        plait_emit_reduce(b, s->inplace ? plait_out(0) : plait_tmp(2), plait_in(0), plait_tmp(1), 0, 1);
        if (!s->inplace)
            plait_emit_reduce(b, plait_out(0), plait_tmp(2), plait_tmp(0), 0, 1);
    }
}

/* In place it sends to rank 1 what it does not send else. */
static void emit_other_messages(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s,
                                uint32_t me)
{
    plait_blocks(b, 1, 2);
    if (me != 0) {
        plait_emit_send(b, 0, plait_in(0), 0, 1);
        return;
    }
    if (s->inplace)
        plait_emit_send(b, 1, plait_in(0), 0, 1);
    plait_emit_recv(b, 1, plait_tmp(0), 0, 1);
    plait_emit_recv(b, 2, plait_tmp(1), 0, 1);
    plait_emit_reduce(b, plait_tmp(0), plait_in(0), plait_tmp(0), 0, 1);
    plait_emit_reduce(b, plait_out(0), plait_tmp(0), plait_tmp(1), 0, 1);
}

/* In place it loses the root's input, over which it receives. */
static void emit_over_the_input(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s,
                                uint32_t me)
{
    (void)self, (void)s;
    plait_blocks(b, 1, 1);
    if (me != 0) {
        plait_emit_send(b, 0, plait_in(0), 0, 1);
        return;
    }
    plait_emit_recv(b, 1, plait_out(0), 0, 1);
    plait_emit_reduce(b, plait_out(0), plait_in(0), plait_out(0), 0, 1);
    plait_emit_recv(b, 2, plait_tmp(0), 0, 1);
    plait_emit_reduce(b, plait_out(0), plait_out(0), plait_tmp(0), 0, 1);
}

static struct plait_claim claim_loosely(const struct plait_alg *self, const struct plait_shape *s)
{
    (void)self, (void)s;
    return (struct plait_claim){ .depth = 3, .rounds = 9, .nblk = 1, .sent = 2, .received = 2 };
}

/* In place the root runs the plan that is right out of place: the others send what that one expects. */
static int reduce_to_root(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    float x[100], out[100];

    for (int i = 0; i < 100; i++)
        x[i] = (float)(rank + 1 + i % 7);
    call.algorithm = "reduces";
    CHECK(plait_reduce(*comm, x, rank == 0 ? out : NULL, 100, PLAIT_FLOAT32, PLAIT_AVG, 0, &call) == PLAIT_OK);
    CHECK(plait_reduce(*comm, x, rank == 0 ? x : NULL, 100, PLAIT_FLOAT32, PLAIT_AVG, 0, &call) == PLAIT_OK);
    for (int i = 0; rank == 0 && i < 100; i++)
        CHECK(out[i] == (float)(2 + i % 7) && x[i] == out[i]);
    return 0;
}

static void a_root_in_place_runs_the_plan_out_of_place(void **state)
{
    static void (*const emits[])(const struct plait_alg *, struct plait_builder *, const struct plait_shape *,
                                 uint32_t) = { emit_other_kinds, emit_for_another_sender, emit_other_messages,
                                               emit_over_the_input };

    for (size_t i = 0; i < sizeof emits / sizeof *emits; i++) {
        const struct plait_alg reduces = { .name = "reduces",
                                           .coll = PLAIT_REDUCE,
                                           .params = "",
                                           .text = "",
                                           .source = "",
                                           .applies = fits_three,
                                           .emit = emits[i],
                                           .claim = claim_loosely };
        const struct plait_alg *const algs[] = { &reduces, NULL };
        struct ranks r = { .nprocess = 3,
                           .nthread = 1,
                           .body = reduce_to_root,
                           .processes = true,
                           .options.algorithms = algs,
                           .options.deadline = 30 };
        assert_int_equal(ranks_run(&r), 0);
    }
}

/* ---- In place on some ranks --------------------------------------------------------------------------- */

/* In place it would send what it has received. */
static void emit_late(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s, uint32_t me)
{
    plait_blocks(b, 1, 1);
    if (me == 1)
        plait_emit_send(b, 0, plait_in(0), 0, 1);
    plait_emit_recv(b, !me, plait_out(0), 0, 1);
    if (me == 0)
        plait_emit_send(b, 1, plait_in(0), 0, 1);
    plait_emit_reduce(b, plait_out(0), me ? plait_out(0) : plait_in(0), me ? plait_in(0) : plait_out(0), 0, 1);
}

/* Also where inputs are divided (averages that round at each step) or scaled first. */
static int work_in_place_on_some_ranks(struct plait_comm **comm, uint32_t rank, void *arg)
{
    static const float factor = 3;
    struct plait_call call = PLAIT_CALL_DEFAULT;
    float in[1000], out[1000];
    uint16_t half[1000], halves[1000];

    call.algorithm = "swap";
    for (unsigned places = 0; places < 4; places++) {
        const bool inplace = places >> rank & 1;
        for (int i = 0; i < 1000; i++) {
            in[i] = (float)(rank + 1);
            half[i] = rank == 0 ? 0x3c00 : 0x4200; /* 1 and 3 */
        }
        call.scale = NULL;
        call.round = PLAIT_ROUND_DEFAULT;
        CHECK(plait_allreduce(*comm, in, inplace ? in : out, 1000, PLAIT_FLOAT32, PLAIT_SUM, &call) == PLAIT_OK);
        CHECK((inplace ? in : out)[0] == 3 && (inplace ? in : out)[999] == 3);
        in[999] = (float)(rank + 1);
        call.scale = &factor;
        CHECK(plait_allreduce(*comm, in, inplace ? in : out, 1000, PLAIT_FLOAT32, PLAIT_PREMULSUM, &call) == PLAIT_OK);
        CHECK((inplace ? in : out)[999] == 9 && (inplace || in[999] == (float)(rank + 1)));
        call.scale = NULL;
        call.round = PLAIT_ROUND_HOP;
        CHECK(plait_allreduce(*comm, half, inplace ? half : halves, 1000, PLAIT_FLOAT16, PLAIT_AVG, &call) == PLAIT_OK);
        CHECK((inplace ? half : halves)[0] == 0x4000 && (inplace ? half : halves)[999] == 0x4000);
    }
    return 0;
}

static void a_plan_runs_out_of_place_whatever_the_calls(void **state)
{
    struct plait_alg late = swap;

    late.emit = emit_late;
    run_with(&swap, work_in_place_on_some_ranks);
    run_with(&late, work_in_place_on_some_ranks);
}

static _Thread_local uint32_t wish[3]; /* of plait_blocks(): nblk, ntmp; of plait_slots() */

static void emit_as_wished(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s,
                           uint32_t me)
{
    (void)self, (void)s, (void)me;
    plait_blocks(b, wish[0], wish[1]);
    plait_slots(b, wish[2]);
}

/* They took gigabytes, and the time to write them. */
static void more_slots_than_a_plan_may_have_are_refused(void **state)
{
    static const struct {
        uint32_t wish[3];
        const char *text;
    } cases[] = {
        { { 1, 1u << 29, 0 }, "plait_blocks(): ntmp is 536870912; a plan has at most 4194304" },
        { { 1, (1u << 22) + 1, 0 }, "plait_blocks(): ntmp is 4194305; a plan has at most 4194304" },
        { { 1, UINT32_MAX, 0 }, "plait_blocks(): ntmp is 4294967295; a plan has at most 4194304" },
        { { 1u << 29, 1, 0 }, "plait_blocks(): nblk of a vector is 536870912; a plan has at most 4194304" },
        { { 1, 1u << 22, 1 }, "plait_slots(): the number of TMP slots with n is 4194305; a plan has at most 4194304" },
        { { 1, 1, UINT32_MAX }, "plait_slots(): the number of TMP slots with n is 4294967296; a plan has at most" },
    };
    const struct plait_shape shape = { .coll = PLAIT_ALLREDUCE, .nrank = 2 };
    struct plait_alg a = swap;
    struct plait_plan *plan;

    a.emit = emit_as_wished;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memcpy(wish, cases[i].wish, sizeof wish);
        assert_int_equal(plait_plan_emit(&a, &shape, 0, &plan), PLAIT_ERR_PLAN);
        if (strstr(plait_last_error(), cases[i].text) == NULL)
            fail_msg("case %zu: '%s'", i, plait_last_error());
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_algorithm_that_lacks_something_is_refused_by_its_place),
        cmocka_unit_test(shapes_that_there_are_not_are_refused),
        cmocka_unit_test(a_peer_that_is_no_rank_is_refused_whatever_its_number),
        cmocka_unit_test(a_missing_plan_is_refused_by_its_rank),
        cmocka_unit_test(a_claim_of_no_blocks_or_too_many_is_refused_by_name),
        cmocka_unit_test(ranks_whose_emit_differs_see_that_the_plans_do),
        cmocka_unit_test(an_emit_that_changes_its_mind_is_refused),
        cmocka_unit_test(only_what_is_proved_is_a_candidate),
        cmocka_unit_test(a_root_in_place_runs_the_plan_out_of_place),
        cmocka_unit_test(a_plan_runs_out_of_place_whatever_the_calls),
        cmocka_unit_test(more_slots_than_a_plan_may_have_are_refused),
    };
    return cmocka_run_group_tests_name("own algorithms", tests, NULL, NULL);
}
