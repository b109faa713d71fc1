/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the checker accepts runs right: random plans that are right, and random plans that were changed and are still
 * accepted, run by the engine in all its ways. Their results are compared with the oracle's, bit for bit.
 */
#include "bound.h"
#include "collective.h"
#include "mutants.h"
#include "plans.h"
#include "random_plan.h"
#include "ranks.h"
#include "tier.h"
#include "unit.h"

#include <plait/memory.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLANS (RANKS_ON_HOSTS ? 200 : 1000) /* half in the short tier, 50 times as many with the full one */
#define BATCH 50                            /* plans of one comm */
#define ROOM  (1u << 20)
#define NWAY  8

struct batch {
    uint32_t nrank, n;
    uint32_t times; /* that each is run, each time with other data */
    uint32_t way;   /* in which they are run, of NWAY */
    struct random_plan *plan;
    const struct plait_alg *algs[BATCH + 1];
    uint64_t seed;
};

/* The data of run i of a batch. */
static struct collective operation(const struct batch *b, uint32_t i)
{
    static const enum plait_dtype types[] = { PLAIT_INT32, PLAIT_FLOAT32, PLAIT_BFLOAT16, PLAIT_FLOAT16, PLAIT_INT8 };
    const struct random_plan *p = &b->plan[i % b->n];
    const struct plait_shape *s = &p->shape;
    uint64_t random = ~(b->seed + i); /* another sequence than that of the plan */
    struct collective c = { .coll = s->coll,
                            .type = types[random_below(&random, 5)],
                            .op = random_below(&random, 4) == 0 ? PLAIT_AVG : PLAIT_SUM,
                            .round = (enum plait_round)random_below(&random, 3),
                            .root = s->root,
                            .inplace = s->inplace,
                            .library = random_below(&random, 2) };

    if (plait_dtype_size(c.type) < 4) /* an average of these may round on its way */
        c.op = PLAIT_SUM;
    snprintf(c.spec, sizeof c.spec, "%s", p->name);
    c.count = random_below(&random, 3) == 0 ? random_below(&random, 12) : random_below(&random, 9000);
    c.count += c.inplace; /* nothing is neither in place nor not */
    c.slice = random_below(&random, 3) == 0 ? 1024 + random_below(&random, 4) * 1000 / 8 * 8 : 0;
    return c;
}

static void print_plan(const struct random_plan *p, uint32_t rank)
{
    struct plait_plan *plan;
    char *text;

    if (plait_plan_emit(&p->alg, &p->shape, rank, &plan) == PLAIT_OK && plait_plan_print(plan, &text) == PLAIT_OK)
        fprintf(stderr, "%s", text);
}

static int run_plan(struct plait_comm *comm, uint32_t rank, const struct batch *b, uint32_t i, char *memory[4],
                    char *library[2])
{
    const struct collective c = operation(b, i);
    struct collective_buffers at =
        collective_place(&c, b->nrank, rank, c.library ? library[0] : memory[0], c.library ? library[1] : memory[1]);

    if (at.out != NULL)
        memset(at.out, 0xee, collective_room(&c, b->nrank) * plait_dtype_size(c.type));
    collective_want(&c, b->nrank, rank, memory[2], memory[3]);
    if (at.in != NULL)
        collective_fill(&c, b->nrank, rank, at.in);
    const enum plait_status status = collective_run(comm, &c, at.in, at.out);
    if (status == PLAIT_ERR_UNSUPPORTED && (c.round == PLAIT_ROUND_ONCE || c.op == PLAIT_AVG))
        return 0; /* partial sums move together with others: refused by name, on all ranks */
    if (status != PLAIT_OK || !collective_right(&c, b->nrank, rank, at.out, memory[3])) {
        fprintf(stderr, "rank %u of %u: %s of %zu %s, %s, round %d, slice %zu%s%s, as %s (PLAIT_TEST_SEED): %s\n", rank,
                b->nrank, plait_coll_name(c.coll), c.count, plait_dtype_name(c.type), plait_op_name(c.op), (int)c.round,
                c.slice, c.inplace ? ", in place" : "", c.library ? ", library memory" : "", c.spec,
                status == PLAIT_OK ? "wrong result" : plait_last_error());
        print_plan(&b->plan[i % b->n], rank);
        return 1;
    }
    return 0;
}

static int run_batch(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct batch *b = arg;
    char *memory[4], *library[2];
    int failed = 0;

    for (int k = 0; k < 4; k++)
        CHECK((memory[k] = malloc(ROOM)) != NULL);
    for (int k = 0; k < 2; k++)
        CHECK(plait_mem_alloc(ROOM, (void **)&library[k]) == PLAIT_OK);
    for (uint32_t i = 0; i < b->n * b->times && failed == 0; i++)
        failed = run_plan(*comm, rank, b, i, memory, library);
    for (int k = 0; k < 4; k++)
        free(memory[k]);
    plait_comm_destroy(*comm);
    *comm = NULL;
    for (int k = 0; k < 2; k++)
        plait_mem_free(library[k]);
    return failed;
}

/* A bound plan does what its plan does, with any rounding. */
static void check_bound(const struct random_plan *p, uint32_t turn)
{
    const enum plait_status status =
        bound_check_all(&p->alg, p->name, &p->shape, (enum plait_round)(turn % 3), turn / 3 % 2);

    if (status != PLAIT_OK && status != PLAIT_ERR_UNSUPPORTED)
        fail_msg("%s of %u ranks: %s", p->name, p->shape.nrank, plait_last_error());
}

/* Threads or processes, with single copy and without, over hosts where the environment says so, proved again or not. */
static void run(struct batch *b)
{
    const bool processes = b->way % 2;
    struct ranks r = {
        .nprocess = processes ? b->nrank : 1, .nthread = processes ? 1 : b->nrank, .body = run_batch, .arg = b
    };

    for (uint32_t i = 0; i < b->n; i++)
        b->algs[i] = &b->plan[i].alg;
    for (uint32_t i = 0; i < b->n; i++)
        check_bound(&b->plan[i], i);
    b->algs[b->n] = NULL;
    r.options.algorithms = b->algs;
    r.options.deadline = 20;
    setenv("PLAIT_CMA", b->way / 2 % 2 ? "1" : "0", 1);
    setenv("PLAIT_CHECK", b->way / 4 % 2 ? "1" : "0", 1);
    assert_int_equal(ranks_run(&r), 0);
}

static uint64_t first_seed(void)
{
    const char *given = getenv("PLAIT_TEST_SEED");
    return given != NULL ? strtoull(given, NULL, 0) : 1;
}

static uint32_t how_many(void)
{
    const char *given = getenv("PLAIT_TEST_PLANS");
    return given != NULL ? (uint32_t)strtoul(given, NULL, 0) : full() ? 50 * PLANS : light() ? PLANS / 5 : PLANS / 2;
}

static void random_plans_that_are_right_run_right(void **state)
{
    const uint32_t n = how_many();
    struct batch b = { .plan = malloc(BATCH * sizeof *b.plan), .seed = first_seed(), .times = 1 };

    assert_non_null(b.plan);
    for (uint32_t done = 0; done < n; done += b.n, b.seed += b.n) {
        b.nrank = 2 + (uint32_t)(b.seed / BATCH % (RANDOM_PLAN_RANKS - 1));
        b.n = n - done < BATCH ? n - done : BATCH;
        for (uint32_t i = 0; i < b.n; i++) {
            random_plan_draw(&b.plan[i], b.nrank, b.seed + i);
            assert_int_equal(plait_alg_check(&b.plan[i].alg, &b.plan[i].shape, NULL), PLAIT_OK);
        }
        uint64_t random = b.seed;
        b.way = random_below(&random, NWAY);
        run(&b);
    }
    free(b.plan);
}

/* Is it right out of place, too? A comm runs it so, also where the calls are in place. */
static bool is_right_elsewhere(const struct random_plan *p)
{
    struct plait_shape shape = p->shape;
    struct plait_report report;

    shape.inplace = false;
    return plait_alg_check(&p->alg, &shape, &report) == PLAIT_OK;
}

/* Change something of a rank's steps. True: it is another plan now, and the checker takes it. */
static bool mutate(struct random_plan *p, uint64_t *random)
{
    static struct loose_plan l;
    struct plans plans = plans_emit(&p->alg, &p->shape);
    const uint32_t rank = random_below(random, plans.n);
    struct plait_plan *right = plans.plan[rank];
    struct plait_report report = { 0 };
    bool accepted = false;

    if (right->nstep > 0 && right->nstep <= MUTANT_STEPS) {
        mutant_take_apart(right, &l);
        if (mutant_change(&l, (enum mutation)random_below(random, DROP_DEPENDENCY), random))
            plans.plan[rank] = mutant_emit(&l, &p->shape);
        accepted = plans.plan[rank] != NULL && plans.plan[rank] != right &&
                   plait_plan_check(p->name, &p->shape, CONST_PLANS(&plans), NULL, &report) == PLAIT_OK;
    }
    if (accepted) {
        memcpy(p->step[rank], l.step, l.head.nstep * sizeof *l.step);
        p->nstep[rank] = l.head.nstep;
        p->ntmp[rank] = l.head.ntmp;
    }
    if (plans.plan[rank] != right)
        plait_plan_destroy(right);
    plans_free(&plans);
    return accepted && is_right_elsewhere(p);
}

static void changed_plans_that_are_accepted_run_right(void **state)
{
    const uint32_t n = how_many() / 2;
    struct batch b = { .plan = malloc(BATCH * sizeof *b.plan), .seed = first_seed(), .times = 1 };
    uint32_t tried = 0;

    assert_non_null(b.plan);
    for (uint32_t done = 0; done < n; done += b.n, b.seed += BATCH) {
        uint64_t random = b.seed;
        b.way = random_below(&random, NWAY);
        random = b.seed;
        b.nrank = 2 + random_below(&random, RANDOM_PLAN_RANKS - 1);
        for (b.n = 0; b.n < BATCH; tried++) {
            random_plan_draw(&b.plan[b.n], b.nrank, b.seed + tried);
            b.n += mutate(&b.plan[b.n], &random);
        }
        run(&b);
    }
    print_message("%u changed, %u of them accepted\n", tried, n);
    free(b.plan);
}

/* ---- Hierarchies of three levels ---------------------------------------------------------------------- */

#define LEVELS      3
#define LEVEL_RANKS 10
#define MACHINE     "package:2 numa:2 l3:2 core:2 pu:1" /* 16 cores: ranks lie apart as evenly as they can */

/* All-reduce k of the ranks. */
static struct collective hierarchy(uint32_t k)
{
    static const char *const specs[] = { "hierarchy", "hierarchy:tree:two-shot", "hierarchy:jia:ring" };
    static const enum plait_dtype types[] = { PLAIT_FLOAT32, PLAIT_BFLOAT16, PLAIT_INT8 };
    static const size_t counts[] = { 1, 61, 9000, 20000 };
    struct collective c = { .coll = PLAIT_ALLREDUCE,
                            .type = types[k / 3 % 3],
                            .op = PLAIT_SUM,
                            .count = counts[k / 9 % 4],
                            .inplace = k % 2,
                            .library = k / 2 % 2,
                            .slice = k % 5 == 0 ? 4096 : 0 };

    snprintf(c.spec, sizeof c.spec, "%s", specs[k % 3]);
    return c;
}

/* The hash of the plan over these levels: so it is what runs. */
static uint64_t hash_of(const struct collective *c)
{
    uint32_t level[LEVELS * LEVEL_RANKS];
    const struct plait_shape shape = {
        .coll = c->coll, .nrank = LEVEL_RANKS, .inplace = c->inplace, .nlevel = LEVELS, .level = level
    };
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_choice choice = { .plan_hash = 0 };

    for (uint32_t r = 0; r < LEVEL_RANKS; r++)
        for (uint32_t l = 0; l < LEVELS; l++)
            level[l * LEVEL_RANKS + r] = r * 16 / LEVEL_RANKS >> (l + 1);
    call.algorithm = c->spec;
    call.slice = c->slice;
    plait_choose(&shape, c->count, c->type, c->op, &call, &choice);
    return choice.plan_hash;
}

static int run_hierarchies(struct plait_comm **comm, uint32_t rank, void *arg)
{
    char *memory[4], *library[2];

    for (int k = 0; k < 4; k++)
        CHECK((memory[k] = malloc(ROOM)) != NULL);
    for (int k = 0; k < 2; k++)
        CHECK(plait_mem_alloc(ROOM, (void **)&library[k]) == PLAIT_OK);
    for (uint32_t k = 0; k < 36; k++) {
        const struct collective c = hierarchy(k);
        char **own = c.library ? library : memory;
        const struct collective_buffers at = collective_place(&c, LEVEL_RANKS, rank, own[0], own[1]);
        collective_want(&c, LEVEL_RANKS, rank, memory[2], memory[3]);
        collective_fill(&c, LEVEL_RANKS, rank, at.in);
        CHECK(collective_run(*comm, &c, at.in, at.out) == PLAIT_OK);
        CHECK(collective_right(&c, LEVEL_RANKS, rank, at.out, memory[3]));
        CHECK(stats_of(*comm).plan_hash == hash_of(&c));
    }
    for (int k = 0; k < 4; k++)
        free(memory[k]);
    plait_comm_destroy(*comm);
    *comm = NULL;
    for (int k = 0; k < 2; k++)
        plait_mem_free(library[k]);
    return 0;
}

static void hierarchies_of_three_levels_run_right(void **state)
{
    const struct ranks r = { .nprocess = LEVEL_RANKS, .nthread = 1, .body = run_hierarchies };

    if (RANKS_ON_HOSTS || getenv("PLAIT_TEST_KEPT") != NULL || *TOPOLOGY_PLUGIN == '\0') {
        print_message("skipped: needs one host, processes of its own and hwloc\n");
        skip();
    }
    unsetenv("PLAIT_CHECK"); /* the engine finds what is wrong */
    setenv("PLAIT_PLUGINS", TOPOLOGY_PLUGIN, 1);
    setenv("HWLOC_SYNTHETIC", MACHINE, 1);
    setenv("PLAIT_BIND", "core", 1);
    assert_int_equal(ranks_run(&r), 0);
    unsetenv("PLAIT_PLUGINS");
    unsetenv("HWLOC_SYNTHETIC");
    unsetenv("PLAIT_BIND");
}

/* ---- What random plans have found ---------------------------------------------------------------- */

#define SEND_STEP(to, from, block, n)                                                   \
    {                                                                                   \
        .verb = PLAIT_STEP_SEND, .peer = (to), .a = (from), .blk = (block), .nblk = (n) \
    }
#define RECV_STEP(from, to, block, n)                                                     \
    {                                                                                     \
        .verb = PLAIT_STEP_RECV, .peer = (from), .dst = (to), .blk = (block), .nblk = (n) \
    }
#define COPY_STEP(to, from, block, n)                                                              \
    {                                                                                              \
        .verb = PLAIT_STEP_COPY, .peer = -1, .dst = (to), .a = (from), .blk = (block), .nblk = (n) \
    }
#define REDUCE_STEP(to, x, y, block, n)                                                                     \
    {                                                                                                       \
        .verb = PLAIT_STEP_REDUCE, .peer = -1, .dst = (to), .a = (x), .b = (y), .blk = (block), .nblk = (n) \
    }

static void add(struct random_plan *p, uint32_t rank, struct plait_step step)
{
    p->step[rank][p->nstep[rank]++] = step;
}

/* Of three ranks, with 9 slots of TMP each. */
static struct random_plan *begin(struct batch *b, enum plait_coll coll, uint32_t nblk, bool inplace)
{
    const struct plait_shape shape = { .coll = coll, .nrank = 3, .inplace = inplace };

    *b = (struct batch){ .nrank = 3, .n = 1, .seed = 1, .plan = malloc(sizeof *b->plan) };
    assert_non_null(b->plan);
    random_plan_begin(b->plan, &shape, "found", nblk);
    for (uint32_t r = 0; r < 3; r++)
        b->plan->ntmp[r] = 9;
    return b->plan;
}

/* In all ways, and with all types and sizes that an operation may draw. */
static void run_all_ways(struct batch *b)
{
    assert_int_equal(plait_alg_check(&b->plan->alg, &b->plan->shape, NULL), PLAIT_OK);
    b->times = full() ? 40 : 6;
    for (b->way = 0; b->way < NWAY; b->way++, b->seed += full() ? 0 : 3)
        run(b);
    free(b->plan);
}

/* The last sum is written to slots that overlap, by one, those of an operand of the first. */
static void a_sum_may_lie_where_an_operand_of_its_operand_lay(void **state)
{
    struct batch b;
    struct random_plan *p = begin(&b, PLAIT_REDUCE, 2, false);

    add(p, 0, (struct plait_step)COPY_STEP(plait_tmp(2), plait_in(0), 0, 2));
    add(p, 0, (struct plait_step)RECV_STEP(1, plait_tmp(0), 0, 2));
    add(p, 0, (struct plait_step)REDUCE_STEP(plait_tmp(5), plait_tmp(2), plait_tmp(0), 0, 2));
    add(p, 0, (struct plait_step)RECV_STEP(2, plait_tmp(7), 0, 2));
    add(p, 0, (struct plait_step)REDUCE_STEP(plait_tmp(3), plait_tmp(5), plait_tmp(7), 0, 2));
    add(p, 0, (struct plait_step)COPY_STEP(plait_out(0), plait_tmp(3), 0, 2));
    for (uint32_t r = 1; r < 3; r++)
        add(p, r, (struct plait_step)SEND_STEP(0, plait_in(0), 0, 2));
    run_all_ways(&b);
}

static void two_messages_may_be_received_into_one_slot(void **state)
{
    struct batch b;
    struct random_plan *p = begin(&b, PLAIT_REDUCE, 1, false);

    add(p, 0, (struct plait_step)RECV_STEP(1, plait_tmp(0), 0, 1));
    add(p, 0, (struct plait_step)REDUCE_STEP(plait_tmp(1), plait_in(0), plait_tmp(0), 0, 1));
    add(p, 0, (struct plait_step)RECV_STEP(2, plait_tmp(0), 0, 1));
    add(p, 0, (struct plait_step)REDUCE_STEP(plait_out(0), plait_tmp(1), plait_tmp(0), 0, 1));
    for (uint32_t r = 1; r < 3; r++)
        add(p, r, (struct plait_step)SEND_STEP(0, plait_in(0), 0, 1));
    run_all_ways(&b);
}

/*
 * In place rank 0 cannot combine before it has sent its input. So rank 1 must release that message before its own is taken;
 * out of place it need not, and it does not know which it is.
 */
static void a_root_that_works_in_place_is_proved_too(void **state)
{
    struct batch b;
    struct random_plan *p = begin(&b, PLAIT_REDUCE, 1, true);

    add(p, 0, (struct plait_step)SEND_STEP(1, plait_in(0), 0, 1));
    add(p, 0, (struct plait_step)RECV_STEP(1, plait_tmp(0), 0, 1));
    add(p, 0, (struct plait_step)REDUCE_STEP(plait_out(0), plait_in(0), plait_tmp(0), 0, 1));
    add(p, 0, (struct plait_step)RECV_STEP(2, plait_tmp(1), 0, 1));
    add(p, 0, (struct plait_step)REDUCE_STEP(plait_out(0), plait_out(0), plait_tmp(1), 0, 1));
    add(p, 1, (struct plait_step)COPY_STEP(plait_tmp(1), plait_in(0), 0, 1));
    add(p, 1, (struct plait_step)RECV_STEP(0, plait_tmp(0), 0, 1));
    add(p, 1, (struct plait_step)SEND_STEP(0, plait_tmp(1), 0, 1));
    add(p, 1, (struct plait_step)REDUCE_STEP(plait_tmp(1), plait_tmp(0), plait_tmp(1), 0, 1));
    add(p, 2, (struct plait_step)SEND_STEP(0, plait_in(0), 0, 1));
    run_all_ways(&b);
}

/*
 * Rank 0 sends a sum of which it has replaced a part, a partial sum beside a result. What was staged of it before is not
 * sent, and where the two have not one width, all ranks refuse it.
 */
static void a_sum_may_be_changed_in_part_before_it_is_sent(void **state)
{
    struct batch b;
    struct random_plan *p = begin(&b, PLAIT_ALLREDUCE, 2, false);

    add(p, 0, (struct plait_step)RECV_STEP(1, plait_tmp(0), 0, 2));
    add(p, 0, (struct plait_step)REDUCE_STEP(plait_out(0), plait_in(0), plait_tmp(0), 0, 2));
    add(p, 0, (struct plait_step)RECV_STEP(2, plait_tmp(2), 1, 1));
    add(p, 0, (struct plait_step)REDUCE_STEP(plait_out(1), plait_out(1), plait_tmp(2), 1, 1));
    add(p, 0, (struct plait_step)SEND_STEP(2, plait_out(0), 0, 2));
    add(p, 0, (struct plait_step)RECV_STEP(2, plait_out(0), 0, 1));
    add(p, 1, (struct plait_step)SEND_STEP(0, plait_in(0), 0, 2));
    add(p, 1, (struct plait_step)RECV_STEP(2, plait_out(0), 0, 2));
    add(p, 2, (struct plait_step)SEND_STEP(0, plait_in(1), 1, 1));
    add(p, 2, (struct plait_step)RECV_STEP(0, plait_out(0), 0, 2));
    add(p, 2, (struct plait_step)REDUCE_STEP(plait_out(0), plait_out(0), plait_in(0), 0, 1));
    add(p, 2, (struct plait_step)SEND_STEP(0, plait_out(0), 0, 1));
    add(p, 2, (struct plait_step)SEND_STEP(1, plait_out(0), 0, 2));
    run_all_ways(&b);
}

/* A partial sum has 4 bytes an element where the result has 2: a block of the result is read by itself all the same. */
static void blocks_in_a_row_are_as_close_as_their_width_says(void **state)
{
    struct batch b;
    struct random_plan *p = begin(&b, PLAIT_REDUCE_SCATTER, 3, false);

    add(p, 2, (struct plait_step)SEND_STEP(1, plait_in(0), 0, 3));
    add(p, 2, (struct plait_step)RECV_STEP(0, plait_out(0), 2, 1));
    for (uint32_t r = 0; r < 2; r++) {
        add(p, r, (struct plait_step)RECV_STEP((int32_t)r + 1, plait_tmp(0), 0, 3));
        add(p, r, (struct plait_step)REDUCE_STEP(plait_tmp(3), plait_in(0), plait_tmp(0), 0, 3));
    }
    add(p, 1, (struct plait_step)SEND_STEP(0, plait_tmp(3), 0, 3));
    add(p, 1, (struct plait_step)RECV_STEP(0, plait_out(0), 1, 1));
    add(p, 0, (struct plait_step)COPY_STEP(plait_out(0), plait_tmp(3), 0, 1));
    add(p, 0, (struct plait_step)SEND_STEP(1, plait_tmp(4), 1, 1));
    add(p, 0, (struct plait_step)SEND_STEP(2, plait_tmp(5), 2, 1));
    run_all_ways(&b);
}

/* In place a partial sum in OUT may be read as the input that lay there. Kept in fp32 it lies elsewhere, at OUT's slot. */
static void a_partial_sum_may_be_read_by_the_name_of_the_input_that_it_has_replaced(void **state)
{
    struct batch b;
    struct random_plan *p = begin(&b, PLAIT_REDUCE_SCATTER, 3, true);

    for (uint32_t r = 0; r < 3; r++) {
        const int32_t next = ((int32_t)r + 1) % 3, before = ((int32_t)r + 2) % 3;
        add(p, r, (struct plait_step)SEND_STEP(next, plait_in((uint32_t)next), (uint32_t)next, 1));
        add(p, r, (struct plait_step)SEND_STEP(before, plait_in((uint32_t)before), (uint32_t)before, 1));
        add(p, r, (struct plait_step)RECV_STEP(before, plait_tmp(0), r, 1));
        add(p, r, (struct plait_step)RECV_STEP(next, plait_tmp(1), r, 1));
        add(p, r, (struct plait_step)REDUCE_STEP(plait_out(0), plait_in(r), plait_tmp(0), r, 1));
        add(p, r, (struct plait_step)REDUCE_STEP(plait_out(0), plait_in(r), plait_tmp(1), r, 1));
    }
    for (uint32_t turn = 0; turn < 6; turn++) /* comms run only the library's plans in place */
        check_bound(p, turn);
    free(b.plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sum_may_lie_where_an_operand_of_its_operand_lay),
        cmocka_unit_test(two_messages_may_be_received_into_one_slot),
        cmocka_unit_test(a_root_that_works_in_place_is_proved_too),
        cmocka_unit_test(a_sum_may_be_changed_in_part_before_it_is_sent),
        cmocka_unit_test(a_partial_sum_may_be_read_by_the_name_of_the_input_that_it_has_replaced),
        cmocka_unit_test(blocks_in_a_row_are_as_close_as_their_width_says),
        cmocka_unit_test(random_plans_that_are_right_run_right),
        cmocka_unit_test(changed_plans_that_are_accepted_run_right),
        cmocka_unit_test(hierarchies_of_three_levels_run_right),
    };
    return cmocka_run_group_tests_name("random plans", tests, NULL, NULL);
}
