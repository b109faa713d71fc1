/* SPDX-License-Identifier: BSD-3-Clause */
/* All-reduce on real ranks: right, the same on all ranks, the same again. */
#include "ranks.h"
#include "specs.h"
#include "values.h"

#include <plait/memory.h>
#include <plait/plan.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sys/mman.h>

static const enum plait_dtype types[] = {
#define PLAIT_X(symbol, value, bytes, name) symbol,
    PLAIT_DTYPE_LIST(PLAIT_X)
#undef PLAIT_X
};
#define NTYPE (sizeof types / sizeof *types)

static bool full(void)
{
    const char *v = getenv("PLAIT_TEST_FULL");
    return v != NULL && strcmp(v, "1") == 0;
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state * 0x2545f4914f6cdd1dull;
}

struct trial {                 /* one operation; equal on all ranks */
    char spec[PLAIT_MAX_SPEC]; /* "": chosen */
    enum plait_dtype type;
    enum plait_op op;
    size_t count, slice;
    bool inplace, library;
    enum plait_round round;
};

struct sums { /* where ranks leave a hash of their result, shared between processes */
    _Atomic uint64_t hash[256];
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
        return malloc(bytes + 64);
    return plait_mem_alloc(bytes + 64, &p) == PLAIT_OK ? p : NULL;
}

static void drop_memory(bool library, void *p)
{
    if (library)
        plait_mem_free(p);
    else
        free(p);
}

static uint64_t hash_bytes(const void *data, size_t bytes)
{
    uint64_t h = 1469598103934665603u;

    for (size_t i = 0; i < bytes; i++)
        h = (h ^ ((const unsigned char *)data)[i]) * 1099511628211u;
    return h;
}

static int try_one(struct plait_comm *comm, uint32_t rank, const struct plan_of_trials *p, const struct trial *t)
{
    const size_t size = plait_dtype_size(t->type), bytes = t->count * size;
    char *in = get_memory(t->library, bytes), *out = t->inplace ? in : get_memory(t->library, bytes);
    struct plait_call call = PLAIT_CALL_DEFAULT;

    CHECK(in != NULL && out != NULL);
    call.algorithm = t->spec[0] != '\0' ? t->spec : NULL;
    call.slice = t->slice;
    call.round = t->round;
    for (unsigned again = 0; again < 2; again++) {
        memset(out, 0x7b, bytes + 64);
        values_fill(in, t->type, t->op, p->nrank, rank, t->count);
        CHECK(plait_allreduce(comm, in, out, t->count, t->type, t->op, &call) == PLAIT_OK);
        const size_t wrong = values_wrong(out, t->type, t->op, p->nrank, t->count);
        if (wrong > 0)
            fprintf(stderr, "rank %u of %u: %s %s %s count %zu slice %zu %s %s: %zu wrong\n", rank, p->nrank, t->spec,
                    plait_dtype_name(t->type), plait_op_name(t->op), t->count, t->slice,
                    t->inplace ? "in place" : "out of place", t->library ? "library" : "malloc", wrong);
        CHECK(wrong == 0);
        for (size_t i = bytes; i < bytes + 64; i++)
            CHECK(out[i] == 0x7b);
        p->sums->hash[rank] = hash_bytes(out, bytes);
        CHECK(plait_barrier(comm, NULL) == PLAIT_OK);
        for (uint32_t r = 0; r < p->nrank; r++)
            CHECK(p->sums->hash[r] == p->sums->hash[rank]);
        CHECK(plait_barrier(comm, NULL) == PLAIT_OK);
    }
    drop_memory(t->library, in);
    if (!t->inplace)
        drop_memory(t->library, out);
    return 0;
}

static int try_all(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct plan_of_trials *p = arg;

    for (size_t i = 0; i < p->n; i++)
        if (try_one(*comm, rank, p, &p->trials[i]) != 0) {
            fprintf(stderr, "rank %u: trial %zu failed\n", rank, i);
            return 1;
        }
    return 0;
}

static struct sums *new_sums(void)
{
    void *p = mmap(NULL, sizeof(struct sums), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    return p;
}

static void run_trials(uint32_t nprocess, uint32_t nthread, const uint32_t *node, struct trial *trials, size_t n)
{
    struct plan_of_trials p = { trials, n, new_sums(), nprocess * nthread };
    struct ranks r = { .nprocess = nprocess,
                       .nthread = nthread,
                       .limit = full() ? 1200 : 120,
                       .body = try_all,
                       .arg = &p,
                       .options = PLAIT_COMM_OPTIONS_DEFAULT };

    r.options.node = node;
    assert_int_equal(ranks_run(&r), 0);
    munmap(p.sums, sizeof *p.sums);
}

/* Every algorithm `each` times, everything else drawn at random. `map`: which of the specs' node maps. */
static size_t draw_trials(const struct specs *specs, unsigned map, uint32_t nrank, uint64_t seed, unsigned each,
                          size_t largest, struct trial **out)
{
    const size_t counts[] = { 0, 1, nrank > 1 ? nrank - 1 : 2, 17, 997, 4099, 65537, 1000003, 10000000 };
    struct trial *trials = calloc((size_t)specs->n * each + 1, sizeof *trials);
    size_t n = 0, ncount = sizeof counts / sizeof *counts;

    assert_non_null(trials);
    while (counts[ncount - 1] > largest)
        ncount--;
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
        t->count = counts[next_random(&seed) % ncount];
        t->slice = next_random(&seed) % 2 ? 0 : 64 + next_random(&seed) % 100000;
        if (t->slice > 0 && t->count * 8 / t->slice > 200)
            t->slice = t->count * 8 / 200;
        t->inplace = next_random(&seed) % 2;
        t->library = next_random(&seed) % 2;
        t->round = (enum plait_round)(next_random(&seed) % 3);
        n++;
    }
    *out = trials;
    return n;
}

/* Every algorithm with every type, operator, place and small count; in the short tier half of them. */
static size_t list_product(const struct specs *specs, unsigned map, uint32_t nrank, struct trial **out)
{
    const size_t counts[] = { 0, 1, nrank > 1 ? nrank - 1 : 2, 17, 997, 4099 };
    const size_t ncount = sizeof counts / sizeof *counts, each = NTYPE * PLAIT_PREMULSUM * 2 * ncount;
    struct trial *trials = calloc((size_t)specs->n * each + 1, sizeof *trials);
    size_t n = 0;

    assert_non_null(trials);
    for (size_t i = 0; i < (size_t)specs->n * each; i++) {
        const struct spec *spec = &specs->spec[i / each];
        const size_t k = i % each;
        struct trial *t = &trials[n];
        if (!full() && (i / each + k + k / NTYPE) % 2 == 1)
            continue; /* the other half falls to the neighbours */
        if (spec->shape.node != specs->maps[map])
            continue;
        snprintf(t->spec, sizeof t->spec, "%.*s", (int)strcspn(spec->text, " "), spec->text);
        t->type = types[k % NTYPE];
        t->op = (enum plait_op)(k / NTYPE % PLAIT_PREMULSUM);
        t->inplace = k / NTYPE / PLAIT_PREMULSUM % 2;
        t->count = counts[k / NTYPE / PLAIT_PREMULSUM / 2];
        n++;
    }
    *out = trials;
    return n;
}

static uint64_t seed_of_run(void)
{
    const char *v = getenv("PLAIT_TEST_SEED");
    const uint64_t seed = v != NULL ? strtoull(v, NULL, 0) : 20261121;

    print_message("PLAIT_TEST_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

static void random_trials(uint32_t nprocess, uint32_t nthread, unsigned each, size_t largest)
{
    const uint32_t nrank = nprocess * nthread;
    struct specs specs;
    struct trial *trials;

    specs_init(&specs, PLAIT_ALLREDUCE, nrank, false);
    for (unsigned map = 0; map < 3; map++) {
        const size_t n =
            draw_trials(&specs, map, nrank, seed_of_run() + nprocess * 100 + nthread, each, largest, &trials);
        if (n > 0)
            run_trials(nprocess, nthread, specs.maps[map], trials, n);
        free(trials);
    }
    specs_finish(&specs);
}

/* Small counts in full, with all they can be combined with; large ones are drawn. */
static void the_full_product(void **state)
{
    struct specs specs;
    struct trial *trials;

    (void)state;
    for (uint32_t nrank = full() ? 1 : 3; nrank <= (full() ? 9 : 3); nrank++) {
        specs_init(&specs, PLAIT_ALLREDUCE, nrank, false);
        for (unsigned map = 0; map < 3; map++) {
            const size_t n = list_product(&specs, map, nrank, &trials);
            print_message("%u ranks: %zu operations between processes, as many between threads\n", nrank, n);
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
    (void)state;
    for (uint32_t n = 1; n <= 9; n++)
        random_trials(n, 1, full() ? 10 : 2, full() || n == 2 ? 10000000 : 65537);
}

static void every_algorithm_is_right_between_threads(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 9; n += full() ? 1 : 3)
        random_trials(1, n, full() ? 10 : 2, full() ? 10000000 : 65537);
}

static void two_processes_of_three_threads(void **state)
{
    (void)state;
    random_trials(2, 3, full() ? 10 : 4, full() ? 10000000 : 1000003);
}

static void sixty_four_threads(void **state)
{
    (void)state;
    random_trials(1, 64, 1, 4099);
}

static void two_hundred_and_fifty_six_threads_reduce_a_megabyte(void **state)
{
    struct trial trials[] = {
        { .spec = "ring", .type = PLAIT_FLOAT32, .op = PLAIT_SUM, .count = 1 << 18 },
        { .spec = "torus:16x16", .type = PLAIT_FLOAT32, .op = PLAIT_SUM, .count = 1 << 18 },
        { .spec = "halving-doubling", .type = PLAIT_FLOAT32, .op = PLAIT_SUM, .count = 1 << 18 },
    };

    (void)state;
    run_trials(1, 256, NULL, trials, sizeof trials / sizeof *trials);
}

static void every_type_and_operator_is_right(void **state)
{
    struct trial trials[NTYPE * PLAIT_PREMULSUM * 4];
    size_t n = 0;

    (void)state;
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_and_operator_is_right),
        cmocka_unit_test(every_algorithm_is_right_between_processes),
        cmocka_unit_test(every_algorithm_is_right_between_threads),
        cmocka_unit_test(the_full_product),
        cmocka_unit_test(two_processes_of_three_threads),
        cmocka_unit_test(sixty_four_threads),
        cmocka_unit_test(two_hundred_and_fifty_six_threads_reduce_a_megabyte),
    };

    return cmocka_run_group_tests_name("allreduce", tests, NULL, NULL);
}
