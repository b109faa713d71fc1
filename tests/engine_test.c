/* SPDX-License-Identifier: BSD-3-Clause */
/* The engine and the path without it against the oracle; what binding decides, over all algorithms. */
#include "bound.h"
#include "jobs.h"
#include "plans.h"
#include "proved.h"
#include "ranks.h"
#include "reduce_reference.h"
#include "request/request.h"
#include "specs.h"
#include "tier.h"
#include "unit.h"

#include <plait/memory.h>
#include <plait/plan.h>

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Numbers whose sums round, and integers that wrap. */
static void fill(const struct job *job, uint32_t nrank, uint64_t seed)
{
    for (size_t i = 0; i < nrank * job->count; i++) {
        const double v = ldexp((double)random_below(&seed, UINT32_MAX) - 0x1p31, -31 + (int)random_below(&seed, 9));
        const uint64_t integer = (uint64_t)random_below(&seed, UINT32_MAX) << 32 | random_below(&seed, UINT32_MAX);
        set_element(job->in, job->type, i,
                    is_narrow(job->type)         ? narrow_bits(job->type, v)
                    : job->type == PLAIT_FLOAT32 ? of_f32((float)v)
                    : job->type == PLAIT_FLOAT64 ? of_f64(v)
                                                 : integer);
    }
}

/* ---- Eager ---------------------------------------------------------------------------------------- */

static void add_eager(struct jobs *j)
{
    static const enum plait_dtype types[] = {
#define PLAIT_X(symbol, value, bytes, name) symbol,
        PLAIT_DTYPE_LIST(PLAIT_X)
#undef PLAIT_X
    };
    static const size_t bytes[] = {
        0, 8, 48, 56, 64, 120, 1000, 8176, 8184, 8192, 16384, PLAIT_EAGER_MAX - 8, PLAIT_EAGER_MAX, PLAIT_EAGER_MAX + 8
    };
    unsigned k = 0;

    for (size_t b = 0; b < sizeof bytes / sizeof *bytes; b++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++, k++) {
            const size_t size = plait_dtype_size(types[t]);
            if (!full() && (b + t + j->nrank) % 3 != 0)
                continue; /* the others fall to other numbers of ranks */
            struct job job = { .type = types[t],
                               .op = (enum plait_op)(k * 7 % PLAIT_PREMULSUM),
                               .round = PLAIT_ROUND_ONCE,
                               .count = bytes[b] / size + (bytes[b] < 1000 && size < 8 ? k % 2 : 0),
                               .inplace = k % 3 == 0,
                               .library = k % 5 == 0 };
            strcpy(job.spec, k % 2 == 0 ? "" : "one-shot");
            fill(jobs_add(j, &job), j->nrank, k);
        }
}

static void eager_all_reduces_give_the_oracles_bits(void **state)
{
    for (uint32_t n = 1; n <= 9; n += full() || n < 3 ? 1 : 2) {
        struct jobs j;
        jobs_init(&j, n, NULL, NULL);
        add_eager(&j);
        assert_true(jobs_expect(&j, n));
        assert_int_equal(n % 3 == 2 ? jobs_run(&j, n, 1) : jobs_run(&j, 1, n), 0);
        assert_int_equal(jobs_wrong(&j, "eager"), 0);
        jobs_finish(&j);
    }
}

static int ask_for_path(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_choice c;

    CHECK(plait_comm_choose(*comm, &(struct plait_shape){ .coll = PLAIT_ALLREDUCE }, 2000, PLAIT_FLOAT32, PLAIT_SUM,
                            NULL, &c) == PLAIT_OK);
    CHECK(strcmp(c.path, "eager") == 0);
    CHECK(plait_comm_choose(*comm, &(struct plait_shape){ .coll = PLAIT_ALLREDUCE }, PLAIT_EAGER_MAX / 4 + 1,
                            PLAIT_FLOAT32, PLAIT_SUM, NULL, &c) == PLAIT_OK);
    CHECK(strcmp(c.path, "engine") == 0);
    return 0;
}

/* So the sizes above are on both sides of the border, wherever it is between them. */
static void eager_operations_run_without_the_engine_and_others_with_it(void **state)
{
    for (uint32_t n = 2; n <= 9; n++) {
        const struct ranks r = { .nprocess = 1, .nthread = n, .body = ask_for_path };
        assert_int_equal(ranks_run(&r), 0);
    }
}

/* ---- Processors ---------------------------------------------------------------------------------- */

#define SHARING 18432 /* bytes: eager for 8 ranks that share processors, and only for those */

/* Bind this thread to the n-th of the processors that it may use, counted around. */
static bool bind_to(unsigned n)
{
    cpu_set_t all, one;

    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        return false;
    n %= (unsigned)CPU_COUNT(&all);
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all) && n-- == 0)
            CPU_SET(cpu, &one);
    return sched_setaffinity(0, sizeof one, &one) == 0;
}

/* arg: each rank has a processor of its own. */
static int create_bound(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const bool apart = *(const bool *)arg;
    const struct plait_comm_options o = ranks_options(rank);
    struct plait_choice c;

    CHECK(bind_to(apart ? rank : 0));
    CHECK(plait_comm_create(&o, comm) == PLAIT_OK);
    CHECK(((*comm)->processors > 0) == !apart);
    CHECK(plait_comm_choose(*comm, &(struct plait_shape){ .coll = PLAIT_ALLREDUCE }, SHARING / 4, PLAIT_FLOAT32,
                            PLAIT_SUM, NULL, &c) == PLAIT_OK);
    CHECK((strcmp(c.path, "eager") == 0) == (!apart && o.nrank == 8));
    return 0;
}

/* Threads have processors of their own. */
static void run_bound(uint32_t nrank, bool apart)
{
    const struct ranks r = { .nprocess = 1, .nthread = nrank, .body = create_bound, .arg = &apart, .no_comm = true };

    assert_int_equal(ranks_run(&r), 0);
}

static void ranks_that_share_processors_are_counted_over_all_of_them(void **state)
{
    cpu_set_t all;

    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    run_bound(2, false);
    run_bound(8, false);
    for (uint32_t n = 2; n <= 8 && n <= (uint32_t)CPU_COUNT(&all); n++)
        run_bound(n, true);
}

/* ---- Slices -------------------------------------------------------------------------------------- */

static void slices_of_any_size_give_the_oracles_bits(void **state)
{
    static const size_t slices[] = { 1, 8, 20, 100, 0 }; /* bytes; an element at least */

    for (uint32_t n = 2; n <= 9; n += full() || n < 3 ? 1 : 3) {
        struct specs specs;
        specs_init(&specs, PLAIT_ALLREDUCE, n, false);
        for (unsigned map = 0; map < 3; map++) {
            struct jobs j;
            jobs_init(&j, n, specs.maps[map], NULL);
            for (uint32_t i = 0; i < specs.n; i++)
                for (size_t s = 0; s < sizeof slices / sizeof *slices && specs.spec[i].shape.node == specs.maps[map];
                     s++) {
                    if (!full() && (i + s + n / 3) % 3 != 0)
                        continue;
                    struct job job = { .type = PLAIT_FLOAT32,
                                       .op = s % 2 == 0 ? PLAIT_SUM : PLAIT_AVG,
                                       .count = 61,
                                       .slice = slices[s],
                                       .inplace = (i + s) % 2 == 0,
                                       .library = i % 2 == 0 };
                    snprintf(job.spec, sizeof job.spec, "%.*s", (int)strcspn(specs.spec[i].text, " "),
                             specs.spec[i].text);
                    fill(jobs_add(&j, &job), n, i + s);
                }
            assert_true(jobs_expect(&j, n));
            if (j.n > 0)
                assert_int_equal(n == 5 ? jobs_run(&j, n, 1) : jobs_run(&j, 1, n), 0);
            assert_int_equal(jobs_wrong(&j, "slices"), 0);
            jobs_finish(&j);
        }
        specs_finish(&specs);
    }
}

/* ---- Binding ------------------------------------------------------------------------------------- */

static void prove(const struct spec *spec, int most, unsigned proved[3])
{
    for (int f = PLAIT_FUSE_NONE; f <= most; f++) {
        const bool free = is_proved(spec->alg, spec->text, &spec->shape, (enum plait_fusing)f);
        if (!free && f != PLAIT_FUSE_PROVED)
            fail_msg("%s, %u ranks%s: deadlock with fusing %d", spec->text, spec->shape.nrank,
                     spec->shape.inplace ? " in place" : "", f);
        proved[f] += free;
    }
}

static void prove_all(uint32_t nrank, int most, unsigned proved[3])
{
    for (int inplace = 0; inplace < 2; inplace++) {
        struct specs s;
        specs_init(&s, PLAIT_ALLREDUCE, nrank, inplace);
        for (uint32_t i = 0; i < s.n; i++)
            prove(&s.spec[i], most, proved);
        specs_finish(&s);
    }
}

/* With a window of messages too. Above 64 ranks this is the proof, as binding makes none there. */
static void every_algorithm_is_free_of_deadlock_when_fused(void **state)
{
    static const uint32_t larger[] = { 65, 96, 100, 127, 128 };
    unsigned proved[3] = { 0 };

    for (uint32_t n = 2; n <= (full() ? 64 : 32); n += full() || n < 6 ? 1 : 13)
        prove_all(n, PLAIT_FUSE_PROVED, proved);
    for (size_t i = 0; i < sizeof larger / sizeof *larger; i += full() ? 1 : 4)
        prove_all(larger[i], PLAIT_FUSE_LOCAL, proved);
    print_message("%u plans plain, %u fused, %u fused whole\n", proved[0], proved[1], proved[2]);
    assert_true(proved[PLAIT_FUSE_PROVED] > proved[PLAIT_FUSE_NONE] / 4);
}

/* Each rounding, summed or averaged; `turn`: which of the two in the short tier. */
static void check_bound(const struct spec *spec, uint32_t turn)
{
    for (int round = PLAIT_ROUND_DEFAULT; round <= PLAIT_ROUND_HOP; round++)
        for (int average = 0; average < 2; average++) {
            if (!full() && (turn + (uint32_t)round + (uint32_t)average) % 2 != 0)
                continue;
            const enum plait_status status =
                bound_check_all(spec->alg, spec->text, &spec->shape, (enum plait_round)round, average);
            if (status != PLAIT_OK && status != PLAIT_ERR_UNSUPPORTED)
                fail_msg("%s, %u ranks, root %u%s, round %d: %s", spec->text, spec->shape.nrank, spec->shape.root,
                         spec->shape.inplace ? ", in place" : "", round, plait_last_error());
        }
}

/* Of every collective, algorithm and root. */
static void what_is_bound_is_what_was_proved(void **state)
{
    for (uint32_t n = 2; n <= (full() ? 20 : light() ? 5 : 7); n += full() || n < 4 ? 1 : 3)
        for (int coll = 0; coll < PLAIT_NCOLL; coll++)
            for (int inplace = 0; inplace < (coll == PLAIT_ALLTOALL ? 1 : 2); inplace++) {
                struct specs s;
                specs_init(&s, (enum plait_coll)coll, n, inplace);
                for (uint32_t i = 0; i < s.n; i++)
                    for (uint32_t k = 0, root; (root = specs_root((enum plait_coll)coll, n, 5, k)) != UINT32_MAX; k++) {
                        s.spec[i].shape.root = root;
                        check_bound(&s.spec[i], n + i + k + (uint32_t)inplace);
                    }
                specs_finish(&s);
            }
}

/* Above 64 ranks nothing else keeps fused steps from waiting for each other. */
static void a_receive_is_not_fused_into_what_waits_for_more(void **state)
{
    static const char *const texts[] = {
        "1 3 1\nrecv tmp[0] from r1\nrecv tmp[1] from r2 block 0\nreduce tmp[2] = in[0], tmp[1] block 0   after 1\n"
        "reduce out[0] = tmp[0], tmp[2]   after 0, 2\n",
        "1 0 1\nsend in[0] to r0\n",
        "1 0 1\nsend in[0] to r0\n",
    };
    struct plans p = plans_read(texts, 3, false);
    uint32_t node[4];

    assert_int_equal(plait_fuse(p.plan[0], PLAIT_FUSE_LOCAL, node), PLAIT_OK);
    assert_int_equal(node[1], 2);
    assert_int_equal(node[0], 0); /* else it would be taken only when the other message has come, too */
    plans_free(&p);
}

/* The rest of the message is not what the REDUCE adds. */
static void a_message_of_which_a_part_was_replaced_is_not_read_in_place(void **state)
{
    static const char *const texts[] = {
        "2 2 1\nrecv tmp[0..1] from r1\nrecv tmp[1] from r1   after 0\n"
        "reduce out[0..1] = in[0..1], tmp[0..1]   after 0, 1\n",
        "2 2 1\nsend in[0..1] to r0\nsend in[1] to r0\n",
    };
    struct plans p = plans_read(texts, 2, false);
    uint32_t node[3];

    assert_int_equal(plait_fuse(p.plan[0], PLAIT_FUSE_PROVED, node), PLAIT_OK);
    assert_int_equal(node[0], 0);
    plans_free(&p);
}

/* ---- Bound plans that are wrong ------------------------------------------------------------------------- */

enum damage {
    A_WAIT_LESS,
    ANOTHER_SLOT_READ,
    ANOTHER_SLOT_WRITTEN,
    OPERANDS_SWAPPED,
    ANOTHER_MESSAGE,
    ANOTHER_STAGE,
    ANOTHER_WIDTH,
    NDAMAGE
};

/* False: this instruction has nothing of the kind. */
static bool hurt(struct plait_prog *p, uint32_t i, enum damage damage)
{
    struct plait_instr *in = &p->instrs[i];
    struct plait_source *s = &p->sources[in->source];

    switch (damage) {
    case A_WAIT_LESS:
        if (in->nsuccessor == 0)
            return false;
        const uint32_t next = p->successors[in->successor + --in->nsuccessor];
        p->ndeps[next]--;
        return true;
    case ANOTHER_SLOT_READ:
        if (in->nsource == 0 || s->borrowed != UINT32_MAX || s->span.slot == 0)
            return false;
        s->span.slot--;
        return true;
    case ANOTHER_SLOT_WRITTEN:
        if (in->verb == PLAIT_STEP_SEND || in->borrowed || in->dst.slot == 0)
            return false;
        in->dst.slot--;
        return true;
    case OPERANDS_SWAPPED:
        if (in->verb != PLAIT_STEP_REDUCE || in->nsource < 2)
            return false;
        const struct plait_source first = s[0];
        s[0] = s[1];
        s[1] = first;
        return true;
    case ANOTHER_MESSAGE:
        if (in->peer < 0)
            return false;
        in->blk = in->blk > 0 ? in->blk - 1 : 1;
        return true;
    case ANOTHER_STAGE:
        if (in->verb != PLAIT_STEP_SEND || in->stage == 0)
            return false;
        in->stage--;
        return true;
    default:
        if (in->nsource == 0)
            return false;
        s->wide = !s->wide;
        return true;
    }
}

/* Each instruction of rank 1's bound plan hurt in turn. */
static void hurt_each(const struct spec *spec, enum plait_round round, uint32_t *tried)
{
    bool more = true;

    for (uint32_t i = 0; more; i++)
        for (int damage = 0; damage < NDAMAGE && more; damage++) {
            struct plait_proof proof = { .hash = 0 };
            struct plait_prog *prog;
            assert_int_equal(plait_prog_create(spec->alg, spec->text, &spec->shape, 1, round, false, &proof, &prog),
                             PLAIT_OK);
            assert_int_equal(bound_check(prog, &spec->shape, 1, proof.fusing), PLAIT_OK);
            more = i < prog->ninstr;
            if (more && hurt(prog, i, (enum damage)damage)) {
                tried[damage]++;
                if (bound_check(prog, &spec->shape, 1, proof.fusing) != PLAIT_ERR_PLAN)
                    fail_msg("%s: damage %d of instruction %u is not seen", spec->text, damage, i);
            }
            plait_prog_destroy(prog);
        }
}

static void a_bound_plan_that_is_another_is_refused(void **state)
{
    static const char *const specs[] = { "ring", "halving-doubling", "trees:2", "two-shot" };
    uint32_t tried[NDAMAGE] = { 0 };

    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        struct spec spec = { .shape = { .coll = PLAIT_ALLREDUCE, .nrank = 4 } };
        snprintf(spec.text, sizeof spec.text, "%s", specs[i]);
        assert_int_equal(plait_alg_find(plait_algs, spec.text, &spec.shape, &spec.alg), PLAIT_OK);
        hurt_each(&spec, PLAIT_ROUND_DEFAULT, tried);
        hurt_each(&spec, PLAIT_ROUND_ONCE, tried);
    }
    for (int d = 0; d < NDAMAGE; d++)
        assert_true(tried[d] > 0);
}

/* Which REDUCEs of a rank make results: as the engine marks them above 64 ranks, and by contributor sets. */
static void compare_final(const struct spec *spec, uint32_t rank)
{
    struct plans p = plans_emit(spec->alg, &spec->shape);
    unsigned char *kinds = calloc(p.plan[rank]->nstep + 1, 1);
    struct plait_proof proof = { .hash = 0 };
    struct plait_prog *prog;
    uint32_t at = 0;

    assert_non_null(kinds);
    assert_int_equal(plait_check_values(spec->text, &spec->shape, CONST_PLANS(&p), rank, kinds), PLAIT_OK);
    assert_int_equal(
        plait_prog_create(spec->alg, spec->text, &spec->shape, rank, PLAIT_ROUND_DEFAULT, true, &proof, &prog),
        PLAIT_OK);
    for (uint32_t i = 0; i < p.plan[rank]->nstep; i++) {
        if (p.plan[rank]->step[i].verb != PLAIT_STEP_REDUCE)
            continue;
        while (at < prog->ninstr && prog->instrs[at].verb != PLAIT_STEP_REDUCE)
            at++;
        assert_true(at < prog->ninstr); /* no REDUCE is merged into another when nothing is proved */
        if (prog->instrs[at].final != (kinds[i] == PLAIT_VALUE_FINAL))
            fail_msg("%s, %u ranks%s: rank %u step %u is marked %s", spec->text, spec->shape.nrank,
                     spec->shape.inplace ? " in place" : "", rank, i, prog->instrs[at].final ? "final" : "not final");
        at++;
    }
    plait_prog_destroy(prog);
    free(kinds);
    plans_free(&p);
}

static void results_are_known_without_contributor_sets(void **state)
{
    static const uint32_t nranks[] = { 65, 66, 72 };

    for (size_t k = 0; k < sizeof nranks / sizeof *nranks; k++)
        for (int inplace = 0; inplace < 2; inplace++) {
            const uint32_t n = nranks[k], ranks[] = { 0, 1, 37, n - 1 };
            struct specs s;
            specs_init(&s, PLAIT_ALLREDUCE, n, inplace);
            for (uint32_t i = 0; i < s.n; i++)
                for (size_t r = full() ? 0 : i % 4; r < 4; r += full() ? 1 : 4)
                    compare_final(&s.spec[i], ranks[r]);
            specs_finish(&s);
        }
}

/* ---- Work that goes with each slice ------------------------------------------------------------------ */

struct errand { /* of one operation */
    uint32_t rank, nrank, ran, ended;
    uint32_t ahead; /* slices that had begun when the first ended */
    size_t count;   /* of the vector, or of a block */
    bool parts;     /* a reduce-scatter */
    float *in, *out;
    unsigned char *began, *done; /* [count] times */
    bool wrong;
};

static float given(const struct errand *w, uint32_t rank, size_t i)
{
    return (float)(rank + 1 + (i + w->ran) % 1000);
}

static void give_slice(void *arg, size_t start, size_t n)
{
    struct errand *w = arg;
    const size_t nblock = w->parts ? w->nrank : 1;

    for (size_t b = 0; b < nblock; b++)
        for (size_t i = start; i < start + n; i++)
            w->in[b * w->count + i] = given(w, w->rank, b * w->count + i);
    for (size_t i = start; i < start + n; i++)
        w->began[i]++;
}

/* What was given is nobody's any more. */
static void take_slice(void *arg, size_t start, size_t n)
{
    struct errand *w = arg;
    const size_t nblock = w->parts ? w->nrank : 1, own = w->parts ? w->rank * w->count : 0;

    for (size_t i = start; i < start + n; i++) {
        float sum = 0;
        for (uint32_t r = 0; r < w->nrank; r++)
            sum += given(w, r, own + i);
        w->wrong |= w->began[i] != 1 || w->out[i] != sum;
        w->done[i]++;
    }
    for (size_t b = 0; b < nblock; b++)
        for (size_t i = start; i < start + n; i++)
            w->in[b * w->count + i] = -1e6F;
    for (size_t i = 0; w->ended == 0 && i < w->count; i++)
        w->ahead += w->began[i];
    w->ended++;
}

static const struct errand_kind {
    size_t count, slice;
    uint32_t slices; /* 0: several */
    const char *algorithm;
    bool parts, library;
} errands[] = {
    { 6, 0, 1, NULL, false, false },
    { 100000, 16384, 25, "ring", false, true },
    { 100000, 16384, 25, "halving-doubling", false, false },
    { 100000, 16384, 25, "two-shot", false, true },
    { 1000000, 0, 0, NULL, true, true }, /* chosen: v-forms take no wish */
};

/* The same operation, again and again, blocking and not. */
static int repeat_errand(struct errand *w, const struct errand_kind *k, struct plait_request *r)
{
    const uint32_t rank = w->rank;

    r->job.work = (struct plait_slice_work){ give_slice, take_slice, w };
    for (w->ran = 0; w->ran < 6; w->ran++) {
        memset(w->began, 0, w->count);
        memset(w->done, 0, w->count);
        w->ended = 0;
        w->ahead = 0;
        if (w->ran % 2 == 0)
            CHECK(plait_run_again(r) == PLAIT_OK);
        else
            CHECK(plait_start(r) == PLAIT_OK && plait_wait(&r) == PLAIT_OK);
        for (size_t i = 0; i < w->count; i++)
            CHECK(w->began[i] == 1 && w->done[i] == 1);
        CHECK(!w->wrong && (k->slices > 0 ? w->ended == k->slices : w->ended > 1));
        CHECK(w->ended == 1 || w->ahead < w->count); /* the first ended before the last began */
    }
    return 0;
}

static int run_errand(struct plait_comm *comm, uint32_t rank, const struct errand_kind *k)
{
    struct errand w = { .rank = rank, .nrank = 3, .count = k->count, .parts = k->parts };
    const size_t counts[3] = { w.count, w.count, w.count }, all = w.count * (w.parts ? 3 : 1);
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_request *r;
    void *in = NULL, *out = NULL;

    if (k->library) {
        CHECK(plait_mem_alloc(all * sizeof(float), &in) == PLAIT_OK);
        CHECK(plait_mem_alloc(w.count * sizeof(float), &out) == PLAIT_OK);
    }
    w.in = k->library ? in : malloc(all * sizeof *w.in);
    w.out = k->library ? out : malloc(w.count * sizeof *w.out);
    w.began = malloc(w.count);
    w.done = malloc(w.count);
    CHECK(w.in != NULL && w.out != NULL && w.began != NULL && w.done != NULL);
    call.persistent = 1;
    call.request = &r;
    call.algorithm = k->algorithm;
    call.slice = k->slice;
    CHECK((w.parts ? plait_reduce_scatterv(comm, w.in, w.out, counts, NULL, PLAIT_FLOAT32, PLAIT_SUM, &call)
                   : plait_allreduce(comm, w.in, w.out, w.count, PLAIT_FLOAT32, PLAIT_SUM, &call)) == PLAIT_OK);
    CHECK(repeat_errand(&w, k, r) == 0);
    CHECK(plait_request_free(&r) == PLAIT_OK);
    free(w.began);
    free(w.done);
    if (!k->library) {
        free(w.in);
        free(w.out);
    }
    plait_mem_free(in);
    plait_mem_free(out);
    return 0;
}

static int run_errands(struct plait_comm **comm, uint32_t rank, void *arg)
{
    for (size_t k = 0; k < sizeof errands / sizeof *errands; k++)
        CHECK(run_errand(*comm, rank, &errands[k]) == 0);
    return 0;
}

static void work_goes_with_each_slice_once_and_before_the_end(void **state)
{
    struct ranks r = { .nprocess = 3, .nthread = 1, .body = run_errands };

    assert_int_equal(ranks_run(&r), 0);
    r.nprocess = 1;
    r.nthread = 3;
    assert_int_equal(ranks_run(&r), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eager_all_reduces_give_the_oracles_bits),
        cmocka_unit_test(eager_operations_run_without_the_engine_and_others_with_it),
        cmocka_unit_test(ranks_that_share_processors_are_counted_over_all_of_them),
        cmocka_unit_test(slices_of_any_size_give_the_oracles_bits),
        cmocka_unit_test(every_algorithm_is_free_of_deadlock_when_fused),
        cmocka_unit_test(what_is_bound_is_what_was_proved),
        cmocka_unit_test(a_bound_plan_that_is_another_is_refused),
        cmocka_unit_test(a_receive_is_not_fused_into_what_waits_for_more),
        cmocka_unit_test(a_message_of_which_a_part_was_replaced_is_not_read_in_place),
        cmocka_unit_test(results_are_known_without_contributor_sets),
        cmocka_unit_test(work_goes_with_each_slice_once_and_before_the_end),
    };

    return cmocka_run_group_tests_name("engine", tests, NULL, NULL);
}
