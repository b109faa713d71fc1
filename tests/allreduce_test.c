/* SPDX-License-Identifier: BSD-3-Clause */
/* All-reduce on real ranks: right, the same on all ranks, the same again. */
#include "base/clock.h"
#include "child.h"
#include "ranks.h"
#include "specs.h"
#include "tier.h"
#include "unit.h"
#include "values.h"

#include <plait/memory.h>
#include <plait/plan.h>

#include <stdlib.h>
#include <string.h>

static const enum plait_dtype types[] = {
#define PLAIT_X(symbol, value, bytes, name) symbol,
    PLAIT_DTYPE_LIST(PLAIT_X)
#undef PLAIT_X
};
#define NTYPE  (sizeof types / sizeof *types)
#define NSMALL 6     /* counts of small_count() */
#define LARGE  65537 /* the smallest of the large counts */
#define GUARD  64    /* bytes after a buffer that must stay as they are */

static uint64_t first_seed; /* PLAIT_TEST_SEED */

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state * 0x2545f4914f6cdd1dull;
}

/* Falling: what was made for the first serves the others. */
static size_t small_count(uint32_t nrank, size_t i)
{
    const size_t counts[NSMALL] = { 4099, 997, 17, nrank > 1 ? nrank - 1 : 2, 1, 0 };
    return counts[i];
}

struct trial {                 /* one operation; equal on all ranks */
    char spec[PLAIT_MAX_SPEC]; /* "": chosen */
    enum plait_dtype type;
    enum plait_op op;
    size_t count, slice;
    bool inplace, library;
    bool mixed; /* in place on every other rank only */
    enum plait_round round;
};

#define TOGETHER 64 /* operations after which ranks compare what they got */

struct sums { /* where ranks leave hashes of their results, shared between processes */
    _Atomic uint64_t hash[256][TOGETHER];
};

struct plan_of_trials {
    struct trial *trials;
    size_t n;
    struct sums *sums;
    uint32_t nrank;
};

static void *get_memory(bool library, size_t bytes)
{
    void *p = NULL;

    if (!library)
        return malloc(bytes + GUARD);
    return plait_mem_alloc(bytes + GUARD, &p) == PLAIT_OK ? p : NULL;
}

static void drop_memory(bool library, void *p)
{
    if (library)
        plait_mem_free(p);
    else
        free(p);
}

/* By words; the last may be half filled. What a word brings in reaches all bits: two signs do not cancel. */
static uint64_t hash_bytes(const char *data, size_t bytes)
{
    uint64_t h = 1469598103934665603u;

    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word = 0;
        if (bytes - i >= sizeof word)
            memcpy(&word, data + i, sizeof word);
        else
            memcpy(&word, data + i, bytes - i);
        h = (h ^ word) * 0x9e3779b97f4a7c15u;
        h ^= h >> 32;
    }
    return h;
}

struct input { /* what a rank gave last: operations of other counts have the same values */
    enum plait_dtype type;
    enum plait_op op;
    size_t count;
    char *bytes;
};

static int take_input(struct input *input, const struct trial *t, uint32_t nrank, uint32_t rank)
{
    if (input->bytes != NULL && input->type == t->type && input->op == t->op && input->count >= t->count)
        return 0;
    free(input->bytes);
    *input = (struct input){ t->type, t->op, t->count, malloc(t->count * plait_dtype_size(t->type) + 1) };
    CHECK(input->bytes != NULL);
    values_fill(input->bytes, t->type, t->op, nrank, rank, t->count);
    return 0;
}

static bool is_inplace(const struct trial *t, uint32_t rank)
{
    return t->inplace && !(t->mixed && rank % 2 == 1);
}

/* Always 1, as a rank that failed. */
static int complain(const struct plan_of_trials *p, uint32_t rank, const struct trial *t, const char *what)
{
    fprintf(stderr, "rank %u of %u: %s %s %s count %zu slice %zu %s %s: %s\n", rank, p->nrank, t->spec,
            plait_dtype_name(t->type), plait_op_name(t->op), t->count, t->slice,
            is_inplace(t, rank) ? "in place" : "out of place", t->library ? "library" : "malloc", what);
    return 1;
}

static int try_once(struct plait_comm *comm, uint32_t rank, const struct plan_of_trials *p, const struct trial *t,
                    const char *input, char *in, char *out)
{
    const size_t bytes = t->count * plait_dtype_size(t->type);
    struct plait_call call = PLAIT_CALL_DEFAULT;

    call.algorithm = t->spec[0] != '\0' ? t->spec : NULL;
    call.slice = t->slice;
    call.round = t->round;
    memset(out, 0x7b, bytes + GUARD);
    memcpy(in, input, bytes);
    CHECK(plait_allreduce(comm, in, out, t->count, t->type, t->op, &call) == PLAIT_OK);
    CHECK(values_wrong(out, t->type, t->op, p->nrank, t->count) == 0);
    CHECK(is_inplace(t, rank) || memcmp(in, input, bytes) == 0);
    for (size_t i = bytes; i < bytes + GUARD; i++)
        CHECK(out[i] == 0x7b);
    return 0;
}

/* Twice, with the same bits. Leaves their hash. */
static int try_one(struct plait_comm *comm, uint32_t rank, const struct plan_of_trials *p, size_t i,
                   struct input *input)
{
    const struct trial *t = &p->trials[i];
    const size_t bytes = t->count * plait_dtype_size(t->type);
    char *in = get_memory(t->library, bytes), *out = is_inplace(t, rank) ? in : get_memory(t->library, bytes);
    uint64_t hash[2];

    CHECK(in != NULL && out != NULL);
    CHECK(take_input(input, t, p->nrank, rank) == 0);
    for (unsigned again = 0; again < 2; again++) {
        if (try_once(comm, rank, p, t, input->bytes, in, out) != 0)
            return complain(p, rank, t, "not as it must be");
        hash[again] = hash_bytes(out, bytes);
    }
    if (hash[0] != hash[1])
        return complain(p, rank, t, "not the same again");
    p->sums->hash[rank][i % TOGETHER] = hash[0];
    drop_memory(t->library, in);
    if (!is_inplace(t, rank))
        drop_memory(t->library, out);
    return 0;
}

/* Have the ranks the same results of the operations up to `end`? Each compares with the next. */
static int compare_ranks(struct plait_comm *comm, uint32_t rank, const struct plan_of_trials *p, size_t end)
{
    const uint32_t next = (rank + 1) % p->nrank;

    CHECK(plait_barrier(comm, NULL) == PLAIT_OK);
    for (size_t i = (end - 1) / TOGETHER * TOGETHER; i < end; i++)
        if (p->sums->hash[rank][i % TOGETHER] != p->sums->hash[next][i % TOGETHER])
            return complain(p, rank, &p->trials[i], "not what the next rank has");
    CHECK(plait_barrier(comm, NULL) == PLAIT_OK);
    return 0;
}

static int try_all(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct plan_of_trials *p = arg;
    struct input input = { 0 };
    int failed = 0;

    for (size_t i = 0; i < p->n && !failed; i++) {
        const bool compare = (i + 1) % TOGETHER == 0 || i + 1 == p->n;
        failed = try_one(*comm, rank, p, i, &input) != 0 || (compare && compare_ranks(*comm, rank, p, i + 1) != 0);
    }
    free(input.bytes);
    return failed;
}

static struct sums *new_sums(void)
{
    void *p = shared_memory(sizeof(struct sums));
    return p;
}

static void run_trials(uint32_t nprocess, uint32_t nthread, const uint32_t *node, struct trial *trials, size_t n)
{
    struct plan_of_trials p = { trials, n, new_sums(), nprocess * nthread };
    struct ranks r = {
        .nprocess = nprocess, .nthread = nthread, .limit = full() ? 1200 : 120, .body = try_all, .arg = &p
    };
    const double begin = plait_clock();

    for (size_t i = 0; i < n; i++)
        values_prepare(trials[i].type, trials[i].op, p.nrank, trials[i].count);
    r.options.node = node;
    assert_int_equal(ranks_run(&r), 0);
    munmap(p.sums, sizeof *p.sums);
    print_message("%u ranks in %u processes%s: %zu operations, twice each, %.1f s\n", p.nrank, nprocess,
                  node != NULL ? ", several nodes" : "", n, plait_clock() - begin);
    fflush(stdout);
}

/* Every second is a small count; of the others each octave up to `largest` is as much work as the next. */
static size_t draw_count(uint64_t *seed, uint32_t nrank, size_t largest)
{
    const double part = (double)(next_random(seed) >> 11) * 0x1p-53; /* 0 .. 1 */

    if (largest < LARGE || next_random(seed) % 2 == 0)
        return small_count(nrank, next_random(seed) % NSMALL);
    return (size_t)(LARGE / (1 - part * (1 - (double)LARGE / (double)largest)));
}

/* Every algorithm `each` times, everything else drawn at random. `map`: which of the specs' node maps. */
static size_t draw_trials(const struct specs *specs, unsigned map, uint32_t nrank, uint64_t seed, unsigned each,
                          size_t largest, struct trial **out)
{
    struct trial *trials = calloc((size_t)specs->n * each + 1, sizeof *trials);
    size_t n = 0;

    assert_non_null(trials);
    for (size_t i = 0; i < (size_t)specs->n * each; i++) {
        const struct spec *spec = &specs->spec[i / each];
        struct trial *t = &trials[n];
        if (spec->shape.node != specs->maps[map])
            continue;
        snprintf(t->spec, sizeof t->spec, "%.*s", (int)strcspn(spec->text, " "), spec->text);
        t->type = types[next_random(&seed) % NTYPE];
        t->op = (enum plait_op)(next_random(&seed) % PLAIT_PREMULSUM);
        if (t->op == PLAIT_AVG && nrank > 16 && (nrank & (nrank - 1)) != 0)
            t->op = PLAIT_SUM;
        t->count = draw_count(&seed, nrank, largest);
        t->slice = next_random(&seed) % 2 ? 0 : 64 + next_random(&seed) % 100000;
        if (t->slice > 0 && t->count * 8 / t->slice > 200)
            t->slice = t->count * 8 / 200;
        t->inplace = next_random(&seed) % 2;
        t->mixed = next_random(&seed) % 2;
        t->library = next_random(&seed) % 2;
        t->round = (enum plait_round)(next_random(&seed) % 3);
        n++;
    }
    *out = trials;
    return n;
}

/* Every algorithm with every type, operator, place and small count. The short tier has one in 23. */
static size_t list_product(const struct specs *specs, unsigned map, uint32_t nrank, struct trial **out)
{
    const size_t each = NTYPE * PLAIT_PREMULSUM * 2 * NSMALL;
    struct trial *trials = calloc((size_t)specs->n * each + 1, sizeof *trials);
    size_t n = 0;

    assert_non_null(trials);
    for (size_t i = 0; i < (size_t)specs->n * each; i++) {
        const struct spec *spec = &specs->spec[i / each];
        const size_t k = i % each, count = k % NSMALL, place = k / NSMALL % 2, type = k / NSMALL / 2 % NTYPE,
                     op = k / NSMALL / 2 / NTYPE;
        struct trial *t = &trials[n];
        if (!full() && (i / each + count + place + type + op) % 23 != 0)
            continue;
        if (spec->shape.node != specs->maps[map])
            continue;
        snprintf(t->spec, sizeof t->spec, "%.*s", (int)strcspn(spec->text, " "), spec->text);
        t->type = types[type];
        t->op = (enum plait_op)op;
        t->inplace = place == 1;
        t->mixed = (i / each + type) % 2;
        t->count = small_count(nrank, count);
        n++;
    }
    *out = trials;
    return n;
}

/* Every so-many-th of them; how many these are. */
static size_t thin(struct trial *trials, size_t n, size_t every)
{
    for (size_t i = 0; i * every < n; i++)
        trials[i] = trials[i * every];
    return (n + every - 1) / every;
}

static void random_trials(uint32_t nprocess, uint32_t nthread, unsigned each, size_t largest, size_t every)
{
    const uint32_t nrank = nprocess * nthread;
    const uint64_t seed = first_seed + nprocess * 100 + nthread;
    struct specs specs;
    struct trial *trials;

    specs_init(&specs, PLAIT_ALLREDUCE, nrank, false);
    for (unsigned map = 0; map < 3; map++) {
        const size_t drawn = draw_trials(&specs, map, nrank, seed, each, largest, &trials);
        const size_t n = thin(trials, drawn, every);
        if (n > 0) {
            trials[seed % n].count = largest;
            trials[seed % n].slice = 0;
            run_trials(nprocess, nthread, specs.maps[map], trials, n);
        }
        free(trials);
    }
    specs_finish(&specs);
}

/* Small counts in full, with all they can be combined with; large ones are drawn. */
static void the_full_product(void **state)
{
    struct specs specs;
    struct trial *trials;

    for (uint32_t nrank = full() ? 1 : 3; nrank <= (full() ? 9 : 3); nrank++) {
        specs_init(&specs, PLAIT_ALLREDUCE, nrank, false);
        for (unsigned map = 0; map < 3; map++) {
            const size_t n = list_product(&specs, map, nrank, &trials);
            if (n > 0) {
                run_trials(nrank, 1, specs.maps[map], trials, n);
                run_trials(1, nrank, specs.maps[map], trials, n);
            }
            free(trials);
        }
        specs_finish(&specs);
    }
}

static void every_algorithm_is_right_between_processes(void **state)
{
    for (uint32_t n = 1; n <= (full() ? 9 : 6); n += full() || n < 3 ? 1 : 3)
        random_trials(n, 1, full() ? 10 : n < 4 ? 2 : 1, full() ? 10000000 : n == 2 ? 1000003 : 65537, full() ? 1 : 2);
}

static void every_algorithm_is_right_between_threads(void **state)
{
    for (uint32_t n = 2; n <= 9; n += full() ? 1 : 7)
        random_trials(1, n, full() ? 10 : 1, full() ? 10000000 : 65537, full() ? 1 : 2);
}

static void two_processes_of_three_threads(void **state)
{
    random_trials(2, 3, full() ? 10 : 1, full() ? 10000000 : 300007, full() ? 1 : 2);
}

static void sixty_four_threads(void **state)
{
    random_trials(1, 64, 1, 4099, full() ? 1 : 61);
}

static void two_hundred_and_fifty_six_threads(void **state)
{
    const size_t count = full() ? 1 << 18 : 1 << 12;
    struct trial trials[] = {
        { .spec = "torus:16x16", .type = PLAIT_FLOAT32, .op = PLAIT_SUM, .count = count },
        { .spec = "ring", .type = PLAIT_FLOAT32, .op = PLAIT_SUM, .count = count },
        { .spec = "halving-doubling", .type = PLAIT_FLOAT32, .op = PLAIT_SUM, .count = count },
    };

    run_trials(1, 256, NULL, trials, full() ? sizeof trials / sizeof *trials : 1);
}

static void every_type_and_operator_is_right(void **state)
{
    struct trial trials[NTYPE * PLAIT_PREMULSUM * 4];
    size_t n = 0;

    for (size_t t = 0; t < NTYPE; t++)
        for (unsigned op = 0; op < PLAIT_PREMULSUM; op++)
            for (unsigned k = 0; k < 4; k++, n++) {
                trials[n] = (struct trial){
                    .type = types[t], .op = (enum plait_op)op, .count = k == 0 ? 13 : 5003, .inplace = k == 3
                };
                strcpy(trials[n].spec, k < 2 ? "" : k == 2 ? "ring" : "two-shot");
            }
    run_trials(3, 1, NULL, trials, n);
    run_trials(1, 4, NULL, trials, n);
}

int main(void)
{
    const char *seed = getenv("PLAIT_TEST_SEED");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_and_operator_is_right),
        cmocka_unit_test(every_algorithm_is_right_between_processes),
        cmocka_unit_test(every_algorithm_is_right_between_threads),
        cmocka_unit_test(the_full_product),
        cmocka_unit_test(two_processes_of_three_threads),
        cmocka_unit_test(sixty_four_threads),
        cmocka_unit_test(two_hundred_and_fifty_six_threads),
    };

    first_seed = seed != NULL ? strtoull(seed, NULL, 0) : 20261121;
    print_message("PLAIT_TEST_SEED=%llu\n", (unsigned long long)first_seed);
    return cmocka_run_group_tests_name("allreduce", tests, NULL, NULL);
}
