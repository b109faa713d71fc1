/* SPDX-License-Identifier: BSD-3-Clause */
/* plait-perf's parts: known results, names and sizes of collectives, the guard, statistics, the tensor list, the bound,
 * overlap.
 */
#include "unit.h"

#include "base/clock.h"
#include "collectives.h"
#include "fragments.h"
#include "guard.h"
#include "limits.h"
#include "overlap.h"
#include "reduce/reduce.h"
#include "stage.h"
#include "stats.h"
#include "tensors.h"
#include "verify.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const enum plait_dtype types[] = {
#define PLAIT_X(symbol, value, bytes, name) symbol,
    PLAIT_DTYPE_LIST(PLAIT_X)
#undef PLAIT_X
};
#define NTYPE (sizeof types / sizeof *types)

/* Combine all ranks' inputs in ascending and in descending order, two at a time, in the type itself. */
static void assert_exact(enum plait_dtype type, enum plait_op op, uint32_t nrank, size_t count)
{
    const struct inputs in = { .coll = PLAIT_ALLREDUCE, .type = type, .op = op, .nrank = nrank, .seed = 7 };
    const struct plait_kernels *k = plait_kernels_find("scalar");
    const plait_reduce_fn reduce = plait_reduce_find(k, type, op);
    struct pattern *p = calloc(nrank, sizeof *p), expected;
    unsigned char *result = malloc(count * 8);

    assert_true(pattern_output(&expected, &in, 0, 0, count));
    for (uint32_t r = 0; r < nrank; r++)
        assert_true(pattern_input(&p[r], &in, r, count));
    for (uint32_t r = 0; op == PLAIT_PREMULSUM && r < nrank; r++) {
        unsigned char scalar[8];
        pattern_scale(type, r, scalar);
        k->scale[type](p[r].element, p[r].element, count < VERIFY_PERIOD ? count : VERIFY_PERIOD, scalar);
    }
    for (int descending = 0; descending < 2; descending++) {
        pattern_fill(&p[descending ? nrank - 1 : 0], result, count);
        for (uint32_t i = 1; i < nrank; i++) {
            const struct pattern *next = &p[descending ? nrank - 1 - i : i];
            const void *src[2] = { result, next->element };
            reduce(result, src, 2, count,
                   &(struct plait_how){ .divisor = op == PLAIT_AVG && i == nrank - 1 ? nrank : 0 });
        }
        if (pattern_differing(&expected, result, count) != 0)
            fail_msg("%s %s of %u ranks is not exact", plait_dtype_name(type), plait_op_name(op), nrank);
    }
    free(result);
    for (uint32_t r = 0; r < nrank; r++)
        pattern_finish(&p[r]);
    pattern_finish(&expected);
    free(p);
}

static void known_results_are_exact_for_every_type_operator_and_order(void **state)
{
    static const uint32_t nranks[] = { 1, 2, 3, 7, 16 };

    for (size_t t = 0; t < NTYPE; t++)
        for (int op = 0; op <= PLAIT_PREMULSUM; op++)
            for (size_t n = 0; n < sizeof nranks / sizeof *nranks; n++)
                assert_exact(types[t], (enum plait_op)op, nranks[n], 2000);
}

static void known_results_are_exact_where_ranks_outnumber_the_type(void **state)
{
    for (size_t t = 0; t < NTYPE; t++)
        for (int op = 0; op <= PLAIT_PREMULSUM; op++)
            assert_exact(types[t], (enum plait_op)op, 300, 100);
}

/* Of one rank the input is the result. */
static const struct inputs alone = { .coll = PLAIT_ALLREDUCE, .type = PLAIT_FLOAT32, .op = PLAIT_SUM, .nrank = 1 };

static void one_wrong_element_is_counted(void **state)
{
    const size_t count = 3 * VERIFY_PERIOD + 5;
    float *buffer = malloc(count * sizeof *buffer);
    struct pattern p, expected;

    assert_true(pattern_input(&p, &alone, 0, count));
    assert_true(pattern_output(&expected, &alone, 0, 0, count));
    pattern_fill(&p, buffer, count);
    assert_int_equal(pattern_differing(&expected, buffer, count), 0);
    buffer[count - 1] += 1;
    buffer[VERIFY_PERIOD] += 1;
    assert_int_equal(pattern_differing(&expected, buffer, count), 2);
    assert_int_equal(pattern_differing(&p, buffer, count), 2);
    free(buffer);
    pattern_finish(&p);
    pattern_finish(&expected);
}

static void a_shifted_block_shows(void **state)
{
    const size_t count = 1 << 16, block = 1 << 12;
    float *buffer = malloc(count * sizeof *buffer);
    struct pattern p;

    assert_true(pattern_input(&p, &alone, 0, count));
    pattern_fill(&p, buffer, count);
    memcpy(buffer, buffer + block, block * sizeof *buffer);
    assert_true(pattern_differing(&p, buffer, count) > block / 2);
    free(buffer);
    pattern_finish(&p);
}

/* ---- collectives ------------------------------------------------------------------------------- */

#define RANKS 3
#define ROOT  1

/* What a part of a rank's output is made of, said once more: the part of whose input; -1: of every rank's, combined. */
struct origin {
    int rank;
    uint32_t part;
};

/* How many parts a rank's output has, and where they come from. */
static uint32_t origins(enum plait_coll vform, uint32_t rank, struct origin *out)
{
    const enum plait_coll coll = collective_base(vform);
    const bool all = coll == PLAIT_ALLGATHER || coll == PLAIT_GATHER || coll == PLAIT_ALLTOALL;

    for (uint32_t i = 0; i < RANKS; i++)
        out[i] = (struct origin){ all ? (int)i : ROOT, coll == PLAIT_SCATTER || coll == PLAIT_ALLTOALL ? rank : 0 };
    if (coll == PLAIT_ALLREDUCE || coll == PLAIT_REDUCE)
        out[0] = (struct origin){ -1, 0 };
    if (coll == PLAIT_REDUCE_SCATTER)
        out[0] = (struct origin){ -1, rank };
    if (coll == COLL_SENDRECV)
        out[0] = (struct origin){ (int)(rank + RANKS - 1) % RANKS, 0 };
    if ((coll == PLAIT_REDUCE || coll == PLAIT_GATHER) && rank != ROOT)
        return 0;
    return all ? RANKS : 1;
}

/* Elements of a part, said once more: of 3 ranks' 1/2, 1 and 3/2 of the average, if they differ. */
static size_t part_count(enum plait_coll vform, const struct origin *from, uint32_t part, size_t count)
{
    const enum plait_coll coll = collective_base(vform);
    const bool own = coll == PLAIT_ALLGATHER || coll == PLAIT_GATHER;
    const uint32_t rank = own || coll == PLAIT_ALLTOALL ? (uint32_t)from->rank : 0;

    return coll == vform ? count : count / 2 * (1 + (rank + (own ? 0 : part)) % RANKS);
}

static size_t part_start(enum plait_coll coll, const struct origin *from, size_t count)
{
    size_t start = 0;

    for (uint32_t part = 0; part < from->part; part++)
        start += part_count(coll, from, part, count);
    return start;
}

/* The part as a rank must get it, of n elements: integers, so that the sum is plain. */
static void make_part(const struct inputs *in, const struct origin *from, size_t count, size_t n, int64_t *scratch,
                      int64_t *out)
{
    const size_t start = part_start(in->coll, from, count);
    struct pattern p;

    memset(out, 0, n * sizeof *out);
    for (uint32_t r = 0; r < RANKS; r++) {
        if (from->rank >= 0 && from->rank != (int)r)
            continue;
        assert_true(pattern_input(&p, in, r, RANKS * count));
        pattern_fill(&p, scratch, 2 * RANKS * count);
        for (size_t i = 0; i < n; i++)
            out[i] = (int64_t)((uint64_t)out[i] + (uint64_t)scratch[start + i]);
        pattern_finish(&p);
    }
}

static size_t wrong_in(const struct inputs *in, uint32_t rank, uint32_t slot, const int64_t *part, size_t count,
                       size_t n)
{
    struct pattern p;

    assert_true(pattern_output(&p, in, rank, slot, RANKS * count));
    const size_t wrong = pattern_differing(&p, part, n);
    pattern_finish(&p);
    return wrong;
}

/* The right part has no wrong element; with one changed at either end it has one; another part has many. */
static void assert_judged(const struct inputs *in, uint32_t rank, size_t count)
{
    int64_t *scratch = malloc(2 * RANKS * count * sizeof *scratch), *part = malloc(2 * count * sizeof *part);
    struct origin from[RANKS];
    const uint32_t nslot = origins(in->coll, rank, from);

    for (uint32_t slot = 0; slot < nslot; slot++) {
        const size_t n = part_count(in->coll, &from[slot], from[slot].part, count);
        make_part(in, &from[slot], count, n, scratch, part);
        assert_int_equal(wrong_in(in, rank, slot, part, count, n), 0);
        part[0] ^= 1;
        assert_int_equal(wrong_in(in, rank, slot, part, count, n), 1);
        part[n - 1] ^= 1;
        assert_int_equal(wrong_in(in, rank, slot, part, count, n), 2);
        from[slot].part++;
        from[slot].part %= RANKS;
        make_part(in, &from[slot], count, n, scratch, part);
        assert_true(wrong_in(in, rank, slot, part, count, n) > n / 2);
    }
    free(scratch);
    free(part);
}

static void validation_finds_wrong_elements_of_every_collective(void **state)
{
    static const size_t counts[] = { 100, 2 * VERIFY_PERIOD + 8 };

    for (int i = 0; i < NCOLLECTIVE; i++)
        for (uint32_t rank = 0; rank < RANKS && collectives[i].coll != PLAIT_BARRIER; rank++)
            for (int k = 0; k < 2; k++) {
                const enum plait_coll coll = collectives[i].coll;
                const bool combines = collective_geometry(coll, RANKS, ROOT, 0).combines;
                const struct inputs in = { coll, PLAIT_INT64, combines ? PLAIT_SUM : PLAIT_NOP, RANKS, ROOT, 5 };
                assert_judged(&in, rank, counts[k]);
            }
}

static void bandwidth_factors_are_those_of_nccl_tests(void **state)
{
    static const struct {
        const char *name;
        double two, four;
    } expected[NCOLLECTIVE] = {
        { "all_reduce_perf", 1, 1.5 },
        { "reduce_scatter_perf", 0.5, 0.75 },
        { "all_gather_perf", 0.5, 0.75 },
        { "broadcast_perf", 1, 1 },
        { "reduce_perf", 1, 1 },
        { "gather_perf", 0.5, 0.75 },
        { "scatter_perf", 0.5, 0.75 },
        { "alltoall_perf", 0.5, 0.75 },
        { "sendrecv_perf", 1, 1 },
        { "reduce_scatter_v_perf", 0.5, 0.75 },
        { "all_gather_v_perf", 0.5, 0.75 },
        { "gather_v_perf", 0.5, 0.75 },
        { "scatter_v_perf", 0.5, 0.75 },
        { "alltoall_v_perf", 0.5, 0.75 },
        { "barrier_perf", 0, 0 },
    };

    for (int i = 0; i < NCOLLECTIVE; i++) {
        const struct collective *c = collective_find(expected[i].name);
        assert_non_null(c);
        assert_float_equal(c->bus(2), expected[i].two, 1e-12);
        assert_float_equal(c->bus(4), expected[i].four, 1e-12);
    }
}

/* A size that does not divide is rounded down to 16 bytes for each rank. */
static void sizes_are_those_of_nccl_tests(void **state)
{
    static const struct {
        enum plait_coll coll;
        uint32_t nrank;
        uint64_t bytes, width, count;
    } expected[] = {
        { PLAIT_ALLREDUCE, 3, 1000, 4, 250 },
        { PLAIT_BROADCAST, 3, 7, 4, 1 },
        { PLAIT_REDUCE, 3, 3, 4, 0 },
        { COLL_SENDRECV, 3, 1000, 4, 250 },
        { PLAIT_REDUCE_SCATTER, 3, 1000, 4, 80 },
        { PLAIT_ALLGATHER, 3, 1000, 1, 320 },
        { PLAIT_ALLGATHER, 3, 47, 1, 0 },
        { PLAIT_GATHER, 2, 100, 8, 6 },
        { PLAIT_SCATTER, 1, 40, 2, 16 },
        { PLAIT_ALLTOALL, 4, 64, 8, 2 },
        { PLAIT_ALLTOALL, 4, 63, 8, 0 },
        { PLAIT_ALLGATHER, 2, 1ull << 40, 1, 1ull << 39 },
        { PLAIT_BARRIER, 2, 1000, 4, 0 },
    };

    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        assert_int_equal(collective_count(expected[i].coll, expected[i].nrank, expected[i].bytes, expected[i].width),
                         expected[i].count);
    assert_int_equal(collective_parts(PLAIT_REDUCE, 3), 1);
    assert_int_equal(collective_parts(PLAIT_SCATTER, 3), 3);
}

static void every_collective_and_sendrecv_have_a_row_and_their_names(void **state)
{
    for (int coll = 0; coll < NCOLL; coll++) {
        const struct collective *c = collective_of((enum plait_coll)coll);
        char shorter[64];
        assert_non_null(c);
        snprintf(shorter, sizeof shorter, "%.*s", (int)(strlen(c->program) - strlen("_perf")), c->program);
        assert_ptr_equal(collective_find(collective_name((enum plait_coll)coll)), c);
        assert_ptr_equal(collective_find(c->program), c);
        assert_ptr_equal(collective_find(shorter), c);
        if (coll != COLL_REDUCE_SCATTERV) /* MPI_Reduce_scatter; the name is Plait's of equal blocks */
            assert_ptr_equal(collective_find(c->mpi), c);
        const enum plait_coll base = collective_base((enum plait_coll)coll);
        assert_int_equal(collective_in_place((enum plait_coll)coll),
                         base != PLAIT_ALLTOALL && base != COLL_SENDRECV && base != PLAIT_BARRIER);
    }
    assert_null(collective_find("all"));
    assert_null(collective_find("_perf"));
    assert_string_equal(collective_nearest("all_gater_perf"), "allgather");
    assert_string_equal(collective_nearest("bcats"), "broadcast");
}

/* Whatever does not divide: the parts of a buffer are all of it, and both sides of a pair mean the same size. */
static void blocks_of_different_sizes_fill_their_buffer(void **state)
{
    for (uint32_t n = 1; n <= 9; n++)
        for (uint64_t count = 0; count < 40; count++) {
            const struct plait_geometry g = collective_geometry(COLL_ALLGATHERV, n, 0, 0);
            uint64_t least = UINT64_MAX, most = 0;
            assert_int_equal(collective_elements(COLL_ALLGATHERV, n, count, &g.out, n), n * count);
            for (uint32_t i = 0; i < n; i++) {
                const uint64_t own = collective_elements(COLL_ALLGATHERV, n, count, &g.out, i + 1) -
                                     collective_elements(COLL_ALLGATHERV, n, count, &g.out, i);
                least = own < least ? own : least;
                most = own > most ? own : most;
            }
            assert_true(n == 1 || count < n || most > least);
            for (uint32_t s = 0; s < n; s++) {
                const struct plait_geometry from = collective_geometry(COLL_ALLTOALLV, n, 0, s);
                assert_int_equal(collective_elements(COLL_ALLTOALLV, n, count, &from.in, n), n * count);
                assert_int_equal(collective_elements(COLL_ALLTOALLV, n, count, &from.out, n), n * count);
            }
        }
}

/* ---- guard ------------------------------------------------------------------------------------- */

struct script {
    const struct calibration *next;
    unsigned bodies;
};

static struct calibration scripted(bool large, void *context)
{
    struct script *s = context;
    return *s->next++;
}

static bool count_body(void *context)
{
    struct script *s = context;
    s->bodies++;
    return true;
}

static struct guarded run_script(struct script *s)
{
    struct guard g = { .calibrate = scripted, .context = s, .on = true };
    struct guarded out;

    assert_true(guard_run(&g, false, count_body, s, &out));
    return out;
}

static void a_quiet_cell_is_measured_once(void **state)
{
    const struct calibration c[] = { { 50e-9, 50e9 }, { 55e-9, 48e9 } };
    struct script s = { c, 0 };
    const struct guarded g = run_script(&s);

    assert_int_equal(g.c2c, C2C_LOW);
    assert_int_equal(s.bodies, 1);
}

static void a_cell_whose_mode_changed_is_repeated(void **state)
{
    const struct calibration c[] = { { 50e-9, 50e9 }, { 250e-9, 50e9 }, { 250e-9, 50e9 }, { 260e-9, 50e9 } };
    struct script s = { c, 0 };
    const struct guarded g = run_script(&s);

    assert_int_equal(g.c2c, C2C_HIGH);
    assert_int_equal(g.attempts, 2);
    assert_int_equal(s.bodies, 2);
}

static void a_cell_that_keeps_changing_is_mixed(void **state)
{
    const struct calibration c[] = { { 50e-9, 50e9 }, { 50e-9, 30e9 }, { 50e-9, 30e9 },
                                     { 50e-9, 50e9 }, { 50e-9, 50e9 }, { 260e-9, 50e9 } };
    struct script s = { c, 0 };
    const struct guarded g = run_script(&s);

    assert_int_equal(g.c2c, C2C_MIXED);
    assert_int_equal(g.attempts, GUARD_ATTEMPTS);
    assert_int_equal(s.bodies, GUARD_ATTEMPTS);
}

static void a_processor_with_one_speed_has_one_mode(void **state)
{
    struct guard g = { .on = true };

    for (int ns = 96; ns <= 126; ns += 5) {
        const struct calibration a = { 96e-9, 10e9 }, b = { ns * 1e-9, 10e9 };
        assert_int_equal(guard_judge(&g, &a, &b), C2C_LOW);
    }
}

static void without_a_guard_there_is_no_mode(void **state)
{
    struct script s = { NULL, 0 };
    struct guard g = { .calibrate = scripted, .context = &s };
    struct guarded out;

    assert_true(guard_run(&g, false, count_body, &s, &out));
    assert_int_equal(out.c2c, C2C_UNKNOWN);
    assert_int_equal(s.bodies, 1);
}

/* ---- the rest ---------------------------------------------------------------------------------- */

static void statistics_of_one_to_a_hundred(void **state)
{
    struct series s = { 0 };

    for (int i = 100; i > 0; i--)
        series_add(&s, i);
    const struct stats x = stats_of(s.x, s.n);
    assert_float_equal(x.min, 1, 0);
    assert_float_equal(x.max, 100, 0);
    assert_float_equal(x.median, 50.5, 0);
    assert_float_equal(x.mean, 50.5, 1e-9);
    assert_float_equal(x.midmean, 50.5, 1e-9);
    assert_float_equal(x.p95, 95, 0);
    assert_float_equal(x.p99, 99, 0);
    assert_float_equal(median_of(s.x, 3), 99, 0);
    series_finish(&s);
    assert_int_equal(stats_of(NULL, 0).n, 0);
    const double steps[] = { 20, 30, 20, 30, 1000, 30, 20, 30 };
    assert_float_equal(midmean_of(steps, 8), 27.5, 1e-9);
    assert_float_equal(midmean_of(steps, 1), 20, 1e-9);
    assert_float_equal(midmean_of(NULL, 0), 0, 0);
}

/* How many tensors a list has; 0: it is refused. */
static uint32_t tensors_of(const char *text, size_t bytes)
{
    struct tensors t = { NULL, 0 };
    FILE *f = fmemopen((char *)(uintptr_t)text, bytes, "r");

    assert_non_null(f);
    const uint32_t n = tensors_parse(f, "list.csv", &t) ? t.n : 0;
    fclose(f);
    if (n > 0)
        tensors_finish(&t);
    return n;
}

/* strtoull reads the sign as 2^64 - x; long lines used to be cut into several tensors. */
static void a_tensor_list_has_one_unsigned_number_per_line(void **state)
{
    static const char negative[] = "0,a,-18446744073709551615,x\n", blank[] = "0,a, 5,x\n", nul[] = "0,a,5,\0x\n";
    char line[3000];

    assert_int_equal(tensors_of("0,a,5,x\n", 8), 1);
    assert_int_equal(tensors_of(negative, sizeof negative - 1), 0);
    assert_int_equal(tensors_of(blank, sizeof blank - 1), 0);
    assert_int_equal(tensors_of(nul, sizeof nul - 1), 0);
    snprintf(line, sizeof line, "0,a,5,%0*d,b,7,x\n", 1017, 0);
    assert_int_equal(tensors_of(line, strlen(line)), 1);
}

static void resnet50_has_161_tensors(void **state)
{
    struct tensors t;
    uint64_t elements, small, large;

    assert_true(tensors_read(TENSORS, &t));
    assert_int_equal(tensors_between(&t, 0, 0, &elements), 161);
    assert_int_equal(elements, 25557032);
    assert_int_equal(tensors_between(&t, 0, 4096, &small) + tensors_between(&t, 4096, 0, &large), 161);
    assert_int_equal(small + large, elements);
    tensors_finish(&t);
}

static void the_bound_grows_with_bytes_and_ranks(void **state)
{
    struct limits l = { .cpus = 2, .latency = 50e-9 };
    double last = 0;

    for (int i = 0; i < NLEVEL; i++)
        l.level[i] = (struct level){
            .bytes = (size_t)1 << (18 + 3 * i), .copy = 1e11 / (i + 1), .reduce = 1e10, .others = 5e10
        };
    for (int i = 0; i < NCOLLECTIVE; i++, last = 0) {
        const struct collective *c = &collectives[i];
        assert_float_equal(limits_bound(&l, c, 0, 2), 50e-9, 1e-15);
        for (uint64_t bytes = 4; bytes <= 1 << 28; bytes *= 2) {
            const double bound = limits_bound(&l, c, bytes, 2);
            assert_true(c->coll == PLAIT_BARRIER ? bound == 50e-9 : bound > last);
            assert_true(limits_bound(&l, c, bytes, 4) >= bound);
            last = bound;
        }
    }
}

static void overlap_is_the_hidden_part_of_the_operation(void **state)
{
    assert_float_equal(overlap_percent(4, 4, 8), 0, 1e-9);   /* one after the other */
    assert_float_equal(overlap_percent(4, 4, 4), 100, 1e-9); /* at the same time */
    assert_float_equal(overlap_percent(4, 4, 5), 75, 1e-9);
    assert_float_equal(overlap_percent(4, 10, 11), 75, 1e-9); /* the computation may be longer */
    assert_float_equal(overlap_percent(4, 4, 9), 0, 1e-9);    /* worse than one after the other */
    assert_float_equal(overlap_percent(4, 4, 3), 100, 1e-9);  /* measured at different times */
    assert_float_equal(overlap_percent(0, 4, 4), 0, 1e-9);
}

struct counted { /* tests in a computation */
    uint32_t calls, most;
};

static bool count_test(void *self)
{
    struct counted *n = self;
    return n->calls++ < n->most;
}

static void a_computation_makes_its_tests_and_ends_with_one_that_fails(void **state)
{
    static struct computer c;

    compute_calibrate(&c);
    for (int kind = 0; kind < NCOMPUTATION; kind++)
        for (double seconds = 0; seconds < 1; seconds += 0.7e-3 + seconds * 1e6) {
            struct counted all = { .most = 10 }, some = { .most = 3 };
            assert_true(compute(&c, (enum computation)kind, seconds, 10, count_test, &all));
            assert_int_equal(all.calls, 10);
            assert_false(compute(&c, (enum computation)kind, seconds, 10, count_test, &some));
            assert_int_equal(some.calls, 4);
        }
}

/* ---- The moment at which operations begin ---------------------------------------------------------------- */

enum { ROUNDS = 500 };

struct beginner {
    struct stage *stage;
    unsigned early; /* rounds in which it began before the moment */
};

static void *begin_often(void *arg)
{
    struct beginner *b = arg;

    for (unsigned i = 0; i < ROUNDS; i++) {
        const double began = stage_begin(b->stage);
        b->early += began < b->stage->begin;
        stage_barrier(b->stage); /* until then nobody sets the next moment */
    }
    return NULL;
}

static unsigned begin_all(struct stage *stage)
{
    struct beginner b[2] = { { stage, 0 }, { stage, 0 } };
    pthread_t other;

    assert_int_equal(pthread_create(&other, NULL, begin_often, &b[1]), 0);
    begin_often(&b[0]);
    pthread_join(other, NULL);
    return b[0].early + b[1].early;
}

/* Who came last to the barrier left it first, by the time that a line takes. */
static void nobody_begins_before_the_moment(void **state)
{
    int fd;
    struct stage *stage = stage_create(2, 0, &fd);

    assert_non_null(stage);
    stage->yield = false;
    assert_int_equal(begin_all(stage), 0);
    stage->yield = true; /* they share a processor, where one's waiting for the moment would keep the other from it */
    const double before = plait_clock();
    if (plait_clock() - before < 2e-7) /* reading the clock alone may take until the moment */
        assert_true(begin_all(stage) > 0);
    stage_unmap(stage);
    close(fd);
}

/* Of a page of 4 KiB: 3 pages, 2 blocks of 2, 1 of 256 pages; of another node 5 pages; larger blocks are no pieces. */
static void free_memory_in_pieces_is_counted_up_to_a_page_table(void **state)
{
    char text[] =
        "Node 0, zone      DMA      3      2      0      0      0      0      0      0      1     77     88 \n"
        "something else 1 2 3\n"
        "Node 1, zone   Normal      5      0      0      0      0      0      0      0      0      9      9 \n";
    FILE *file = fmemopen(text, sizeof text - 1, "r");
    size_t pieces;

    assert_non_null(file);
    assert_int_equal(fragments_in(file), (3 + 4 + 256 + 5) * (size_t)sysconf(_SC_PAGESIZE));
    fclose(file);
    const size_t taken = fragments_take(1 << 20, &pieces);
    assert_int_equal(taken, pieces < 1 << 20 ? pieces : 1 << 20); /* 0 where only root may read what is free */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_results_are_exact_for_every_type_operator_and_order),
        cmocka_unit_test(known_results_are_exact_where_ranks_outnumber_the_type),
        cmocka_unit_test(one_wrong_element_is_counted),
        cmocka_unit_test(a_shifted_block_shows),
        cmocka_unit_test(validation_finds_wrong_elements_of_every_collective),
        cmocka_unit_test(bandwidth_factors_are_those_of_nccl_tests),
        cmocka_unit_test(sizes_are_those_of_nccl_tests),
        cmocka_unit_test(every_collective_and_sendrecv_have_a_row_and_their_names),
        cmocka_unit_test(blocks_of_different_sizes_fill_their_buffer),
        cmocka_unit_test(a_quiet_cell_is_measured_once),
        cmocka_unit_test(a_cell_whose_mode_changed_is_repeated),
        cmocka_unit_test(a_cell_that_keeps_changing_is_mixed),
        cmocka_unit_test(a_processor_with_one_speed_has_one_mode),
        cmocka_unit_test(without_a_guard_there_is_no_mode),
        cmocka_unit_test(statistics_of_one_to_a_hundred),
        cmocka_unit_test(a_tensor_list_has_one_unsigned_number_per_line),
        cmocka_unit_test(resnet50_has_161_tensors),
        cmocka_unit_test(the_bound_grows_with_bytes_and_ranks),
        cmocka_unit_test(overlap_is_the_hidden_part_of_the_operation),
        cmocka_unit_test(a_computation_makes_its_tests_and_ends_with_one_that_fails),
        cmocka_unit_test(nobody_begins_before_the_moment),
        cmocka_unit_test(free_memory_in_pieces_is_counted_up_to_a_page_table),
    };

    return cmocka_run_group_tests_name("perf", tests, NULL, NULL);
}
