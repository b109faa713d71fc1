/* SPDX-License-Identifier: BSD-3-Clause */
/* The checker: every algorithm passes, and each kind of fault is refused by its check with its message. */
#include "base/clock.h"
#include "plan/plan_check.h"
#include "plans.h"
#include "specs.h"
#include "tier.h"
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Every algorithm --------------------------------------------------------------------------- */

static void check_spec(const struct spec *spec)
{
    struct plait_report report;

    if (plait_alg_check(spec->alg, &spec->shape, &report) != PLAIT_OK)
        fail_msg("%s:%s, root %u%s: %s", plait_coll_name(spec->alg->coll), spec->text, spec->shape.root,
                 spec->shape.inplace ? " in place" : "", report.text);
    /* Slices are what makes long operations fast: no algorithm of the library should go without. */
    if (!report.sliceable)
        fail_msg("%s:%s cannot be sliced", plait_coll_name(spec->alg->coll), spec->text);
}

/* All roots of up to this many ranks; of more, one for each spec that has parameters, some for the others. */
static uint32_t check_all_specs(enum plait_coll coll, uint32_t nrank, bool inplace, uint32_t all_roots)
{
    struct specs s;
    uint32_t n = 0, root;

    specs_init(&s, coll, nrank, inplace);
    for (uint32_t i = 0; i < s.n; i++)
        for (uint32_t k = 0; (root = specs_root(coll, nrank, all_roots, k)) != UINT32_MAX; k++) {
            if (nrank > all_roots && s.spec[i].shape.nparam > 0 && k != i % 2 * 4)
                continue;
            n++;
            s.spec[i].shape.root = root;
            check_spec(&s.spec[i]);
        }
    specs_finish(&s);
    return n;
}

static void every_algorithm_passes_on_every_rank_count(void **state)
{
    static const uint32_t larger[] = { 65, 96, 100, 127, 128 };

    for (int c = 0; c < PLAIT_NCOLL; c++) {
        const enum plait_coll coll = (enum plait_coll)c;
        const double start = plait_clock();
        uint32_t n = 0;
        for (int inplace = 0; inplace < 2; inplace++) {
            for (uint32_t nrank = 1; nrank <= 64; nrank += light() && nrank > 6 ? 29 : !full() && nrank > 12 ? 7 : 1)
                n += check_all_specs(coll, nrank, inplace, full() ? 64 : light() ? 5 : 16);
            for (size_t i = 0; !light() && i < sizeof larger / sizeof *larger; i += full() ? 1 : 4)
                n += check_all_specs(coll, larger[i], inplace, 0);
        }
        printf("%s: %u shapes in %.1f s\n", plait_coll_name(coll), n, plait_clock() - start);
    }
}

/*
 * Every rank in place or not, as it likes: the plans of a comm then are right together. All mixtures of few ranks; of more,
 * one rank apart from the others, and every other one.
 */
static void check_mixture(const struct spec *out, const struct spec *in, uint64_t places)
{
    const uint32_t nrank = out->shape.nrank;
    struct plans p = plans_emit(out->alg, &out->shape), q = plans_emit(in->alg, &in->shape);
    struct plait_report report;

    for (uint32_t r = 0; r < nrank; r++)
        if (places >> r & 1) {
            struct plait_plan *plan = p.plan[r];
            p.plan[r] = q.plan[r];
            q.plan[r] = plan;
        }
    if (plait_plan_check(out->text, &in->shape, CONST_PLANS(&p), NULL, &report) != PLAIT_OK)
        fail_msg("%s, in place on ranks 0x%llx: %s", out->text, (unsigned long long)places, report.text);
    plans_free(&p);
    plans_free(&q);
}

static unsigned char **kinds_of(const struct spec *spec, struct plans *out)
{
    unsigned char **kinds = calloc(spec->shape.nrank, sizeof *kinds);

    *out = plans_emit(spec->alg, &spec->shape);
    for (uint32_t r = 0; r < spec->shape.nrank; r++) {
        assert_non_null(kinds[r] = malloc(out->plan[r]->nstep + 1));
        assert_int_equal(plait_check_values(spec->text, &spec->shape, CONST_PLANS(out), r, kinds[r]), PLAIT_OK);
    }
    return kinds;
}

/* The next step from *at on that sends to, or receives from, this rank. */
static uint32_t next_message(const struct plait_plan *p, enum plait_verb verb, int32_t peer, uint32_t *at)
{
    while (*at < p->nstep && !(p->step[*at].verb == verb && p->step[*at].peer == peer))
        (*at)++;
    return (*at)++;
}

/* Partial sums may be wider than other values: each message is of one kind, whatever its ranks do. */
static void compare_kinds(const struct spec *out, const struct spec *in)
{
    struct plans p, q;
    unsigned char **x = kinds_of(out, &p), **y = kinds_of(in, &q);

    for (uint32_t r = 0; r < p.n; r++) {
        for (int verb = PLAIT_STEP_SEND; verb <= PLAIT_STEP_RECV; verb++)
            for (uint32_t peer = 0; peer < p.n; peer++)
                for (uint32_t i = 0, k = 0;;) {
                    const uint32_t a = next_message(p.plan[r], (enum plait_verb)verb, (int32_t)peer, &i);
                    const uint32_t b = next_message(q.plan[r], (enum plait_verb)verb, (int32_t)peer, &k);
                    assert_int_equal(a < p.plan[r]->nstep, b < q.plan[r]->nstep);
                    if (a >= p.plan[r]->nstep)
                        break;
                    if (x[r][a] != y[r][b])
                        fail_msg("%s: rank %u steps %u and, in place, %u move other kinds", out->text, r, a, b);
                }
        free(x[r]);
        free(y[r]);
    }
    free(x);
    free(y);
    plans_free(&p);
    plans_free(&q);
}

static void each_rank_of_the_librarys_algorithms_may_work_in_place_or_not(void **state)
{
    static const enum plait_coll colls[] = { PLAIT_ALLREDUCE, PLAIT_REDUCE_SCATTER, PLAIT_ALLGATHER, PLAIT_BROADCAST,
                                             PLAIT_REDUCE,    PLAIT_GATHER,         PLAIT_SCATTER };
    static const uint32_t nranks[] = { 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 24 };

    for (size_t c = 0; c < sizeof colls / sizeof *colls; c++)
        for (size_t k = 0; k < sizeof nranks / sizeof *nranks; k++) {
            const uint32_t n = nranks[k];
            struct specs out, in;
            if (light() ? k > 3 && k % 3 != 1 : !full() && k > 8)
                continue;
            specs_init(&out, colls[c], n, false);
            specs_init(&in, colls[c], n, true);
            assert_int_equal(out.n, in.n);
            for (uint32_t i = 0; i < out.n; i++) {
                assert_string_equal(out.spec[i].text, in.spec[i].text);
                in.spec[i].shape.node = out.spec[i].shape.node;
                compare_kinds(&out.spec[i], &in.spec[i]);
                if (plait_geometry_of(colls[c], n, 0, 0, 1).rooted)
                    continue; /* only the root's differs */
                if (n <= 5)
                    for (uint64_t places = 1; places < (UINT64_C(1) << n) - 1; places++)
                        check_mixture(&out.spec[i], &in.spec[i], places);
                else
                    for (uint64_t places = 1; places < UINT64_C(1) << n; places *= 4) {
                        check_mixture(&out.spec[i], &in.spec[i], places);
                        check_mixture(&out.spec[i], &in.spec[i],
                                      UINT64_C(0x5555555555555555) * places & ((UINT64_C(1) << n) - 1));
                    }
            }
            specs_finish(&out);
            specs_finish(&in);
        }
}

/* ---- Faults by hand ---------------------------------------------------------------------------- */

struct fault {
    const char *text[3]; /* see plans_read() */
    enum plait_check check;
    const char *message; /* after "hand, N ranks: " */
    bool inplace;
    enum plait_coll coll;
    uint32_t root;
};

static uint32_t rank_count(const struct fault *f)
{
    return f->text[1] == NULL ? 1 : f->text[2] == NULL ? 2 : 3;
}

static void assert_fault(const struct fault *f)
{
    struct plans p = plans_read_coll(f->coll, f->root, f->text, rank_count(f), f->inplace);
    const struct plait_shape shape = { .coll = f->coll, .nrank = p.n, .root = f->root, .inplace = f->inplace };
    struct plait_report report;
    const enum plait_status status = plait_plan_check("hand", &shape, CONST_PLANS(&p), NULL, &report);
    const char *text = strstr(report.text, ": ");

    if (f->message == NULL) {
        if (status != PLAIT_OK)
            fail_msg("refused: %s", report.text);
    } else if (status != PLAIT_ERR_PLAN || report.failed != f->check || strcmp(text + 2, f->message) != 0) {
        fail_msg("%s: '%s' instead of %s: '%s'", plait_check_name(report.failed), report.text,
                 plait_check_name(f->check), f->message);
    }
    plans_free(&p);
}

static void assert_faults(const struct fault *f, size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_fault(&f[i]);
}
#define ASSERT_FAULTS(array) assert_faults(array, sizeof(array) / sizeof *(array))

/* Two ranks that swap and add: the model of a right pair, for comparison with the wrong ones. */
#define SWAP0 "1 1 1\nsend in[0] to r1\nrecv tmp[0] from r1\nreduce out[0] = in[0], tmp[0]   after 1\n"
#define SWAP1 "1 1 1\nsend in[0] to r0\nrecv tmp[0] from r0\nreduce out[0] = tmp[0], in[0]   after 1\n"

static void right_plans_pass(void **state)
{
    static const struct fault right[] = {
        { { SWAP0, SWAP1 }, .message = NULL },
        /* The reduction follows the receive only through the copy. */
        { { "1 2 1\nrecv tmp[0] from r1\ncopy tmp[1] = tmp[0] block 0   after 0\nsend in[0] to r1\nreduce out[0] = "
            "in[0], tmp[0]   after 1\n",
            SWAP1 },
          .message = NULL },
        { { "1 0 1\ncopy out[0] = in[0]\n" }, .message = NULL },
        { { "1 0 1\n" }, .inplace = true, .message = NULL },
    };

    ASSERT_FAULTS(right);
}

static void right_plans_of_every_geometry_pass(void **state)
{
    static const struct fault right[] = {
        { { "1 0 1\ncopy out[0] = in[0]\nsend in[0] to r1\n", "1 0 1\nrecv out[0] from r0\n" },
          .coll = PLAIT_BROADCAST },
        { { "1 0 1\nsend in[0] to r1\n", "1 0 1\nrecv out[0] from r0\n" }, .coll = PLAIT_BROADCAST, .inplace = true },
        { { "1 0 1\nsend in[0] to r1\n", "1 1 1\nrecv tmp[0] from r0\nreduce out[0] = tmp[0], in[0]   after 0\n" },
          .coll = PLAIT_REDUCE,
          .root = 1 },
        { { "2 1 1\nsend in[1] to r1\nrecv tmp[0] from r1\nreduce out[0] = in[0], tmp[0] block 0   after 1\n",
            "2 1 1\nsend in[0] to r0\nrecv tmp[0] from r0 block 1\nreduce out[0] = tmp[0], in[1] block 1   after 1\n" },
          .coll = PLAIT_REDUCE_SCATTER,
          .inplace = true },
        { { "2 0 1\nsend in[0] to r1 block 0\nrecv out[1] from r1\n", "2 0 1\nsend in[0] to r0 block 1\n"
                                                                      "recv out[0] from r0\n" },
          .coll = PLAIT_ALLGATHER,
          .inplace = true },
        { { "2 0 1\nsend in[1] to r1 block 1\ncopy out[0] = in[0]\n", "2 0 1\nrecv out[0] from r0 block 1\n" },
          .coll = PLAIT_SCATTER },
        { { "2 0 1\nsend in[0] to r1 block 0\n", "2 0 1\ncopy out[1] = in[0] block 1\nrecv out[0] from r0\n" },
          .coll = PLAIT_GATHER,
          .root = 1 },
        { { "4 0 1\ncopy out[0] = in[0]\nsend in[1] to r1\nrecv out[1] from r1 block 2\n",
            "4 2 1\ncopy tmp[0] = in[0] block 2\ncopy tmp[1] = tmp[0] as it lies   after 0\n"
            "send tmp[1] to r0 block 2   after 1\nrecv out[0] from r0 block 1\ncopy out[1] = in[1] block 3\n" },
          .coll = PLAIT_ALLTOALL },
    };

    ASSERT_FAULTS(right);
}

static void moves_against_the_geometry_are_refused(void **state)
{
    static const struct fault faults[] = {
        { { "1 0 1\ncopy out[0] = in[0]\n", "1 0 1\ncopy out[0] = in[0]\n" },
          PLAIT_CHECK_SHAPE,
          "rank 1 step 0 (block 0) has a span outside its buffer",
          .coll = PLAIT_BROADCAST },
        { { "1 0 1\nsend in[0] to r1\ncopy out[0] = in[0]\n", "1 1 1\nrecv tmp[0] from r0\n" },
          PLAIT_CHECK_SHAPE,
          "rank 0 step 1 (block 0) has a span outside its buffer",
          .coll = PLAIT_REDUCE,
          .root = 1 },
        { { "3 0 1\n", "3 0 1\n" },
          PLAIT_CHECK_SHAPE,
          "the plan of rank 0 has another number of blocks than the collective",
          .coll = PLAIT_ALLGATHER },
        { { "1 0 1\n", "1 0 1\n" }, PLAIT_CHECK_SHAPE, "the root is 2", .coll = PLAIT_BROADCAST, .root = 2 },
        { { "4 0 1\n", "4 0 1\n" },
          PLAIT_CHECK_SHAPE,
          "alltoall has no form in place",
          .coll = PLAIT_ALLTOALL,
          .inplace = true },
        { { "1 2 1\ncopy tmp[0] = in[0]\ncopy tmp[1] = tmp[0] as it lies   after 0\n" },
          PLAIT_CHECK_SHAPE,
          "rank 0 step 1 (blocks as they lie) moves blocks that differ in size as they lie" },
        { { "1 2 1\ncopy tmp[0] = in[0] as it lies\n" },
          PLAIT_CHECK_SHAPE,
          "rank 0 step 0 (blocks as they lie) moves blocks as they lie, but not between slots of TMP",
          .coll = PLAIT_ALLGATHER },
        { { "1 2 1\ncopy tmp[0] = tmp[1] as it lies\n" },
          PLAIT_CHECK_MEANING,
          "rank 0 step 0 (blocks as they lie) reads tmp[1], which was never written",
          .coll = PLAIT_ALLGATHER },
        { { "2 1 1\nsend in[0] to r1\n", "2 2 1\nrecv tmp[0] from r0 as it lies\n" },
          PLAIT_CHECK_MATCHING,
          "rank 0 step 0 sends 1 block from block 0, but rank 1 step 0 receives 1 from blocks as they lie",
          .coll = PLAIT_ALLGATHER },
        /* Slot 0 of IN is rank 1's own block. */
        { { "2 0 1\ncopy out[0] = in[0]\nrecv out[1] from r1\n", "2 0 1\nsend in[0] to r0\n" },
          PLAIT_CHECK_MATCHING,
          "rank 1 step 0 sends 1 block from block 0, but rank 0 step 1 receives 1 from block 1",
          .coll = PLAIT_ALLGATHER },
        { { "2 0 1\nrecv out[0] from r1 block 0\n", "2 0 1\nsend in[0] to r0 block 0\n" },
          PLAIT_CHECK_MEANING,
          "rank 1 step 0 reads in[0] as block 0, which holds block 1",
          .coll = PLAIT_ALLGATHER },
        { { "2 0 1\ncopy out[0] = in[0]\nrecv out[0] from r1 block 1   after 0\n",
            "2 0 1\nsend in[0] to r0 block 1\n" },
          PLAIT_CHECK_MEANING,
          "rank 0 step 1 writes block 1 into out[0]",
          .coll = PLAIT_ALLGATHER },
        /* In OUT of an all-to-all the next slot does not hold the next block. */
        { { "4 2 1\ncopy out[0..1] = in[0..1]\n", "4 0 1\n" },
          PLAIT_CHECK_MEANING,
          "rank 0 step 0 writes block 1 into out[1]",
          .coll = PLAIT_ALLTOALL },
        { { "2 0 1\ncopy out[0] = in[0]\n", "2 0 1\n" },
          PLAIT_CHECK_MEANING,
          "rank 0 never writes out[1] (block 1)",
          .coll = PLAIT_GATHER },
        { { "1 1 1\nrecv out[0] from r1\n", "1 1 1\nsend in[0] to r0\n" },
          PLAIT_CHECK_SHAPE,
          "rank 1 step 0 (block 0) has a span outside its buffer",
          .coll = PLAIT_BROADCAST },
        /* The vectors are added, which a broadcast must not. */
        { { "1 1 1\nsend in[0] to r1\ncopy tmp[0] = in[0]\nreduce out[0] = in[0], tmp[0]   after 1\n",
            "1 0 1\nrecv out[0] from r0\n" },
          PLAIT_CHECK_MEANING,
          "rank 0 step 2 adds the contribution of rank 0 to block 0 twice",
          .coll = PLAIT_BROADCAST },
        /* In place, rank 0's slot 0 of OUT is its slot 0 of IN, which is still to be sent. */
        { { "2 1 1\nsend in[0] to r1\nrecv out[0] from r1\n", "2 0 1\nsend in[0] to r0\nrecv out[0] from r0\n" },
          PLAIT_CHECK_RACE,
          "rank 0 step 1 writes out[0] (block 0) without waiting for step 0, which reads it",
          .coll = PLAIT_REDUCE_SCATTER,
          .inplace = true },
    };

    ASSERT_FAULTS(faults);
}

static void unmatched_messages_are_refused(void **state)
{
    static const struct fault faults[] = {
        { { "1 0 1\nsend in[0] to r1\n", "1 0 1\n" },
          PLAIT_CHECK_MATCHING,
          "rank 0 step 0 sends block 0 to rank 1 on lane 0, which has no receive for it" },
        { { "1 1 1\n", "1 1 1\nrecv tmp[0] from r0\n" },
          PLAIT_CHECK_MATCHING,
          "rank 1 step 0 receives block 0 from rank 0 on lane 0, which does not send it" },
        { { "1 0 2\nsend in[0] to r1 lane 1\n", "1 1 2\nrecv tmp[0] from r0 lane 0\n" },
          PLAIT_CHECK_MATCHING,
          "rank 1 step 0 receives block 0 from rank 0 on lane 0, which does not send it" },
        { { "3 0 1\nsend in[0..1] to r1\n", "3 3 1\nrecv tmp[0..2] from r0\n" },
          PLAIT_CHECK_MATCHING,
          "rank 0 step 0 sends 2 blocks from block 0, but rank 1 step 0 receives 3 from block 0" },
        { { "2 0 1\nsend in[0] to r1\nsend in[1] to r1\n",
            "2 2 1\nrecv tmp[0] from r0\nrecv tmp[1] from r0 block 0\n" },
          PLAIT_CHECK_MATCHING,
          "rank 0 step 1 sends 1 block from block 1, but rank 1 step 1 receives 1 from block 0" },
    };

    ASSERT_FAULTS(faults);
}

static void deadlocks_across_ranks_are_refused(void **state)
{
    static const struct fault faults[] = {
        { { "1 1 1\nrecv tmp[0] from r1\nsend in[0] to r1   after 0\n",
            "1 1 1\nrecv tmp[0] from r0\nsend in[0] to r0   after 0\n" },
          PLAIT_CHECK_DEADLOCK,
          "rank 1 step 1 (send block 0) waits for itself, through rank 1 step 0, rank 0 step 0" },
        /* Each sends first: only a buffered send could end. */
        { { "1 1 1\nsend in[0] to r1\nrecv tmp[0] from r2   after 0\n",
            "1 1 1\nsend in[0] to r2\nrecv tmp[0] from r0   after 0\n",
            "1 1 1\nsend in[0] to r0\nrecv tmp[0] from r1   after 0\n" },
          PLAIT_CHECK_DEADLOCK,
          "rank 1 step 1 (recv block 0) waits for itself, through rank 1 step 0, rank 2 step 0, rank 0 step 0" },
    };

    ASSERT_FAULTS(faults);
}

static void races_are_refused(void **state)
{
    static const struct fault faults[] = {
        { { SWAP0, "1 1 1\nsend in[0] to r0\nrecv tmp[0] from r0\nreduce out[0] = tmp[0], in[0]\n" },
          PLAIT_CHECK_RACE,
          "rank 1 step 2 reads tmp[0] (block 0) without waiting for step 1, which writes it" },
        /* A slot of TMP is used again while a send may still read it. */
        { { "2 1 1\ncopy tmp[0] = in[0]\nsend tmp[0] to r1   after 0\ncopy tmp[0] = in[1] block 1   after 0\n",
            "2 1 1\nrecv tmp[0] from r0\n" },
          PLAIT_CHECK_RACE,
          "rank 0 step 2 writes tmp[0] (block 1) without waiting for step 1, which reads it" },
        { { "1 1 1\nsend in[0] to r1\nsend in[0] to r1\n", "1 1 1\nrecv tmp[0] from r0\nrecv tmp[0] from r0\n" },
          PLAIT_CHECK_RACE,
          "rank 1 step 1 writes tmp[0] (block 0) without waiting for step 0, which writes it" },
        /* In place the input is the output. */
        { { "1 1 1\nsend in[0] to r1\nrecv out[0] from r1\n", "1 1 1\nsend in[0] to r0\nrecv out[0] from r0\n" },
          PLAIT_CHECK_RACE,
          "rank 0 step 1 writes out[0] (block 0) without waiting for step 0, which reads it",
          .inplace = true },
        /* An ancestor of another step, but not of this one. */
        { { "1 2 1\nrecv tmp[0] from r1\ncopy tmp[1] = tmp[0] block 0   after 0\nsend in[0] to r1\nreduce out[0] = "
            "in[0], tmp[1]   after 0, 2\n",
            SWAP1 },
          PLAIT_CHECK_RACE,
          "rank 0 step 3 reads tmp[1] (block 0) without waiting for step 1, which writes it" },
        { { "2 3 1\ncopy tmp[0..1] = in[0..1]\ncopy tmp[1..2] = tmp[0..1] block 0   after 0\n" },
          PLAIT_CHECK_RACE,
          "rank 0 step 1 (block 0) writes tmp[1..2], which overlaps what it reads" },
    };

    ASSERT_FAULTS(faults);
}

static void wrong_meanings_are_refused(void **state)
{
    static const struct fault faults[] = {
        { { SWAP0, "1 1 1\nsend in[0] to r0\nrecv tmp[0] from r0\nreduce out[0] = tmp[0], in[0]   after 1\n"
                   "reduce out[0] = out[0], in[0]   after 2\n" },
          PLAIT_CHECK_MEANING,
          "rank 1 step 3 adds the contribution of rank 1 to block 0 twice" },
        /* Only the second block of the step is wrong. */
        { { "2 2 1\nsend in[1] to r1\nrecv tmp[0..1] from r1\nreduce out[0..1] = in[0..1], tmp[0..1]   after 1\n",
            "2 1 1\nrecv tmp[0] from r0 block 1\ncopy out[0] = in[0]\nreduce out[1] = tmp[0], in[1]   after 0\n"
            "send out[0..1] to r0   after 1, 2\n" },
          PLAIT_CHECK_MEANING,
          "rank 0 step 2 adds the contribution of rank 0 to block 1 twice" },
        { { SWAP0, "1 1 1\nsend in[0] to r0\nrecv tmp[0] from r0\n" },
          PLAIT_CHECK_MEANING,
          "rank 1 never writes out[0] (block 0)" },
        { { SWAP0, "1 1 1\nsend in[0] to r0\nrecv tmp[0] from r0\ncopy out[0] = in[0]\n" },
          PLAIT_CHECK_MEANING,
          "rank 1 ends with 1 of 2 contributions in out[0] (block 0, written by step 2): that of rank 0 is missing" },
        { { "2 0 1\ncopy out[0] = in[0]\ncopy out[1] = in[0] block 0\n" },
          PLAIT_CHECK_MEANING,
          "rank 0 step 1 writes block 0 into out[1]" },
        { { "2 0 1\ncopy out[0] = in[0]\ncopy out[1] = in[0]\n" },
          PLAIT_CHECK_MEANING,
          "rank 0 step 1 reads in[0] as block 1, which holds block 0" },
        { { "1 1 1\ncopy out[0] = tmp[0]\n" },
          PLAIT_CHECK_MEANING,
          "rank 0 step 0 (block 0) reads tmp[0], which was never written" },
        { { "2 2 1\ncopy tmp[0..1] = in[0..1]\ncopy out[0] = tmp[0]   after 0\ncopy out[1] = tmp[1]   after 0\n" },
          PLAIT_CHECK_MEANING,
          "rank 0 step 2 reads tmp[1] as block 1, which was written as part of a span that starts at slot 0" },
    };

    ASSERT_FAULTS(faults);
}

static void ranks_that_add_in_different_orders_are_refused(void **state)
{
    static const struct fault faults[] = {
        { { SWAP0, "1 1 1\nsend in[0] to r0\nrecv tmp[0] from r0\nreduce out[0] = in[0], tmp[0]   after 1\n" },
          PLAIT_CHECK_SAME_BITS,
          "rank 1 step 2 writes block 0, combined in another order than rank 0's" },
    };

    ASSERT_FAULTS(faults);
}

/* ---- Faults of shape: fields that the text form cannot even say --------------------------------- */

static void assert_shape_fault(struct plans *p, const char *message)
{
    const struct plait_shape shape = { .coll = PLAIT_ALLREDUCE, .nrank = p->n };
    struct plait_report report;

    assert_int_equal(plait_plan_check("hand", &shape, CONST_PLANS(p), NULL, &report), PLAIT_ERR_PLAN);
    if (report.failed != PLAIT_CHECK_SHAPE || strstr(report.text, message) == NULL)
        fail_msg("%s: '%s' instead of '%s'", plait_check_name(report.failed), report.text, message);
}

/* Run `change` on step 2 (REDUCE, after 1) of rank 1 of the swap and expect the message. */
#define EXPECT_SHAPE_FAULT(change, message)                                           \
    do {                                                                              \
        struct plans p = plans_read((const char *const[]){ SWAP0, SWAP1 }, 2, false); \
        struct plait_plan *plan = p.plan[1];                                          \
        struct plait_step *step = &plan->step[2];                                     \
        uint32_t *deps = (uint32_t *)(plan->step + plan->nstep);                      \
        (void)step, (void)deps;                                                       \
        change;                                                                       \
        assert_shape_fault(&p, message);                                              \
        plans_free(&p);                                                               \
    } while (0)

static void fields_out_of_range_are_refused(void **state)
{
    EXPECT_SHAPE_FAULT(step->verb = PLAIT_NVERB, "rank 1 step 2 (block 0) has no verb");
    EXPECT_SHAPE_FAULT(step->lane = 1, "is on a lane that the plan does not have");
    EXPECT_SHAPE_FAULT(step->nblk = 0, "moves blocks outside the vector");
    EXPECT_SHAPE_FAULT(step->nblk = UINT32_MAX, "moves blocks outside the vector");
    EXPECT_SHAPE_FAULT(step->blk = 1, "moves blocks outside the vector");
    EXPECT_SHAPE_FAULT(step->peer = 0, "has a peer but is no message");
    EXPECT_SHAPE_FAULT(step[-1].peer = 2, "rank 1 step 1 (block 0) has a peer outside the comm");
    EXPECT_SHAPE_FAULT(step[-1].peer = -1, "has a peer outside the comm");
    EXPECT_SHAPE_FAULT(step[-1].peer = 1, "has its own rank as peer");
    EXPECT_SHAPE_FAULT(step[-1].a = plait_tmp(0), "has a span that its verb does not use");
    EXPECT_SHAPE_FAULT(step->a = plait_tmp(1), "has a span outside its buffer");
    EXPECT_SHAPE_FAULT(step->b = plait_in(1), "has a span outside its buffer");
    EXPECT_SHAPE_FAULT(step->dst = plait_out(1), "has a span outside its buffer");
    EXPECT_SHAPE_FAULT(step->dst.buf = 3, "names no buffer");
    EXPECT_SHAPE_FAULT(step->dst = plait_in(0), "writes the input");
    EXPECT_SHAPE_FAULT(deps[0] = 2, "depends on itself or a later step");
    EXPECT_SHAPE_FAULT(step->ndep = 2, "has dependencies outside the plan's");
    EXPECT_SHAPE_FAULT(step->dep0 = 1, "has dependencies outside the plan's");
    EXPECT_SHAPE_FAULT(step->dep0 = 1; step->ndep = 0, "has dependencies that do not follow those of the step before");
    EXPECT_SHAPE_FAULT(step->ndep = 0, "has dependencies that belong to no step");
    EXPECT_SHAPE_FAULT(plan->version = 9, "the plan of rank 1 is of another version");
    EXPECT_SHAPE_FAULT(plan->rank = 0, "is for another rank or rank count");
    EXPECT_SHAPE_FAULT(plan->nrank = 3, "is for another rank or rank count");
    EXPECT_SHAPE_FAULT(plan->root = 1, "is for another root");
    EXPECT_SHAPE_FAULT(plan->inplace = 1, "is for another collective, or in place where the shape is not");
    EXPECT_SHAPE_FAULT(plan->nlane = 0, "has no blocks or lanes, or too many");
    EXPECT_SHAPE_FAULT(plan->nblk = 2, "cuts the vector into another number of blocks than rank 0's");
    EXPECT_SHAPE_FAULT(plan->bytes -= 4, "has another size than its steps and dependencies");
}

/* ---- Fused graphs ------------------------------------------------------------------------------ */

/* Rank 0 adds two messages of rank 1, which sends the second after the first. */
static void a_fused_graph_can_lock_up_where_the_plan_does_not(void **state)
{
    struct plans p = plans_read(
        (const char *const[]){
            "1 2 1\nrecv tmp[0] from r1\nrecv tmp[1] from r1 block 0\nreduce out[0] = tmp[0], tmp[1]   after 0, 1\n",
            "1 0 1\nsend in[0] to r0\nsend in[0] to r0   after 0\n" },
        2, false);
    static const uint32_t alone[] = { 0, 1, 2 }, first[] = { 0, 1, 0 }, second[] = { 0, 1, 1 };
    const uint32_t *node[2] = { alone, alone };

    assert_int_equal(plait_check_deadlock("hand", CONST_PLANS(&p), 2, NULL, 0), PLAIT_OK);
    assert_int_equal(plait_check_deadlock("hand", CONST_PLANS(&p), 2, node, 0), PLAIT_OK);
    node[0] = second;
    assert_int_equal(plait_check_deadlock("hand", CONST_PLANS(&p), 2, node, 0), PLAIT_OK);
    node[0] = first;
    assert_int_equal(plait_check_deadlock("hand", CONST_PLANS(&p), 2, node, 0), PLAIT_ERR_PLAN);
    assert_string_equal(plait_last_error(), "hand, 2 ranks: rank 0 step 2 (reduce block 0) waits for itself, "
                                            "through rank 0 step 1, rank 1 step 0");
    plans_free(&p);
}

/* ---- Promises of an algorithm ------------------------------------------------------------------ */

/* Binomial from rank 0: reduce towards 0, then broadcast. Its order is the canonical one. */
static void binomial_emit(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s,
                          uint32_t me)
{
    uint32_t k;

    plait_blocks(b, 1, 1);
    plait_emit_copy(b, plait_out(0), plait_in(0), 0, 1);
    for (k = 1; k < s->nrank && (me & k) == 0; k *= 2)
        if (me + k < s->nrank) {
            plait_emit_recv(b, me + k, plait_tmp(0), 0, 1);
            plait_emit_reduce(b, plait_out(0), plait_out(0), plait_tmp(0), 0, 1);
        }
    if (me != 0) {
        plait_emit_send(b, me - k, plait_out(0), 0, 1);
        plait_emit_recv(b, me - k, plait_out(0), 0, 1);
    }
    for (k /= 2; k > 0; k /= 2)
        if (me + k < s->nrank)
            plait_emit_send(b, me + k, plait_out(0), 0, 1);
}

/* Rank 1 counts the contribution of rank 3 for its own: as many as it should have, but not the right ones. */
static void lossy_emit(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s, uint32_t me)
{
    if (me != 1 && me != 3)
        return binomial_emit(self, b, s, me);
    plait_blocks(b, 1, 1);
    if (me == 3)
        plait_emit_send(b, 1, plait_in(0), 0, 1);
    else
        plait_emit_recv(b, 3, plait_tmp(0), 0, 1);
    plait_emit_send(b, me - 1, me == 3 ? plait_in(0) : plait_tmp(0), 0, 1);
    plait_emit_recv(b, me - 1, plait_out(0), 0, 1);
}

static const struct plait_alg binomial = { .name = "binomial by hand", .coll = PLAIT_ALLREDUCE, .emit = binomial_emit };
static const struct plait_alg lossy = { .name = "lossy by hand", .coll = PLAIT_ALLREDUCE, .emit = lossy_emit };

static enum plait_status check_without_claim(const struct plait_alg *alg, uint32_t nrank, struct plait_report *report)
{
    const struct plait_shape shape = { .coll = PLAIT_ALLREDUCE, .nrank = nrank };
    struct plans p = plans_emit(alg, &shape);
    const enum plait_status status = plait_plan_check(alg->name, &shape, CONST_PLANS(&p), NULL, report);

    plans_free(&p);
    return status;
}

static void binomial_from_rank_0_is_the_canonical_order(void **state)
{
    struct plait_report report;

    for (uint32_t n = 1; n <= 70; n++) {
        if (check_without_claim(&binomial, n, &report) != PLAIT_OK)
            fail_msg("%s", report.text);
        assert_true(report.canonical);
        assert_int_equal(report.no_partials, n <= 3);
        assert_false(report.probabilistic);
    }
}

static void above_1024_ranks_the_proof_is_probabilistic(void **state)
{
    struct plait_report report;

    assert_int_equal(check_without_claim(&binomial, 3000, &report), PLAIT_OK);
    assert_true(report.probabilistic && report.canonical);
    assert_int_equal(check_without_claim(&lossy, 3000, &report), PLAIT_ERR_PLAN);
    assert_string_equal(report.text, "lossy by hand, 3000 ranks: rank 0 ends with other contributions in out[0] "
                                     "(block 0, written by step 24) than each rank's once");
}

static struct plait_claim wrong_claim(const struct plait_alg *self, const struct plait_shape *s)
{
    static const struct plait_claim wrong[] = {
        { .depth = 1 }, { .nblk = 1 }, { .sent = 1 }, { .received = 1 }, { .rounds = 1 }, { .rounds = UINT64_MAX },
    };
    struct plait_claim c = plait_algs[0]->claim(self, s);

    c.depth += wrong[s->root].depth;
    c.nblk += wrong[s->root].nblk;
    c.sent += wrong[s->root].sent;
    c.received += wrong[s->root].received;
    c.rounds += wrong[s->root].rounds;
    if (s->root == 5)
        c.rounds_exact = false; /* one less than needed is no bound either */
    return c;
}

static void wrong_claims_are_refused(void **state)
{
    static const char *const messages[] = {
        "ring, 4 ranks: the depth is 6, but the claim is 7",
        "ring, 4 ranks: the number of blocks is 4, but the claim is 5",
        "ring, 4 ranks: the most blocks that a rank sends is 6, but the claim is 7",
        "ring, 4 ranks: the most blocks that a rank receives is 6, but the claim is 7",
        "ring, 4 ranks: the number of rounds is 6, but the claim is 7",
        "ring, 4 ranks: the number of rounds is 6, but the claim is at most 5",
    };
    struct plait_alg liar = *plait_algs[0];
    struct plait_report report;

    liar.claim = wrong_claim;
    for (uint32_t i = 0; i < sizeof messages / sizeof *messages; i++) {
        const struct plait_shape shape = { .coll = PLAIT_ALLREDUCE, .nrank = 4, .root = i };
        assert_int_equal(plait_alg_check(&liar, &shape, &report), PLAIT_ERR_PLAN);
        assert_int_equal(report.failed, PLAIT_CHECK_CLAIM);
        assert_string_equal(report.text, messages[i]);
    }
}

static void wrong_promises_are_refused(void **state)
{
    const struct plait_shape shape = { .coll = PLAIT_ALLREDUCE, .nrank = 5 };
    struct plait_alg liar = *plait_algs[0];
    struct plait_report report;

    liar.canonical = true;
    assert_int_equal(plait_alg_check(&liar, &shape, &report), PLAIT_ERR_PLAN);
    assert_string_equal(report.text, "ring, 5 ranks: claims the canonical order, but a block has another one");
    liar.canonical = false;
    liar.no_partials = true;
    assert_int_equal(plait_alg_check(&liar, &shape, &report), PLAIT_ERR_PLAN);
    assert_string_equal(report.text, "ring, 5 ranks: claims that no partial results travel, but one does");
}

/* Each of 3 ranks sends to both others: 0>1 1>0, then 0>2 2>0, then 1>2 2>1. */
static void rounds_count_one_send_and_one_receive_at_a_time(void **state)
{
    struct plans p = plans_read(
        (const char *const[]){
            "1 2 1\nsend in[0] to r1\nsend in[0] to r2\nrecv tmp[0] from r1\nrecv tmp[1] from r2 block 0\n"
            "reduce tmp[0] = tmp[0], tmp[1]   after 2, 3\nreduce out[0] = in[0], tmp[0]   after 4\n",
            "1 2 1\nsend in[0] to r0\nsend in[0] to r2\nrecv tmp[0] from r0\nrecv tmp[1] from r2 block 0\n"
            "reduce tmp[1] = in[0], tmp[1] block 0   after 3\nreduce out[0] = tmp[0], tmp[1]   after 2, 4\n",
            "1 2 1\nsend in[0] to r0\nsend in[0] to r1\nrecv tmp[0] from r0\nrecv tmp[1] from r1 block 0\n"
            "reduce tmp[1] = tmp[1], in[0] block 0   after 3\nreduce out[0] = tmp[0], tmp[1]   after 2, 4\n" },
        3, false);
    const struct plait_shape shape = { .coll = PLAIT_ALLREDUCE, .nrank = 3 };
    struct plait_report report;

    assert_int_equal(plait_plan_check("all to all", &shape, CONST_PLANS(&p), NULL, &report), PLAIT_OK);
    assert_int_equal(report.seen.depth, 1);
    assert_int_equal(report.seen.rounds, 3);
    assert_int_equal(report.seen.sent, 2);
    assert_int_equal(report.seen.received, 2);
    assert_true(report.no_partials);
    plans_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_algorithm_passes_on_every_rank_count),
        cmocka_unit_test(each_rank_of_the_librarys_algorithms_may_work_in_place_or_not),
        cmocka_unit_test(right_plans_pass),
        cmocka_unit_test(right_plans_of_every_geometry_pass),
        cmocka_unit_test(moves_against_the_geometry_are_refused),
        cmocka_unit_test(unmatched_messages_are_refused),
        cmocka_unit_test(deadlocks_across_ranks_are_refused),
        cmocka_unit_test(races_are_refused),
        cmocka_unit_test(wrong_meanings_are_refused),
        cmocka_unit_test(ranks_that_add_in_different_orders_are_refused),
        cmocka_unit_test(fields_out_of_range_are_refused),
        cmocka_unit_test(a_fused_graph_can_lock_up_where_the_plan_does_not),
        cmocka_unit_test(binomial_from_rank_0_is_the_canonical_order),
        cmocka_unit_test(above_1024_ranks_the_proof_is_probabilistic),
        cmocka_unit_test(wrong_claims_are_refused),
        cmocka_unit_test(wrong_promises_are_refused),
        cmocka_unit_test(rounds_count_one_send_and_one_receive_at_a_time),
    };

    return cmocka_run_group_tests_name("check", tests, NULL, NULL);
}
