/* SPDX-License-Identifier: BSD-3-Clause */
/* Every collective on real ranks, by every algorithm: right, in every place and memory, from every root. */
#include "collective.h"
#include "tier.h"
#include "unit_ranks.h"

#include <plait/memory.h>
#include <plait/request.h>

#include <stdlib.h>
#include <string.h>

#define GUARD 64 /* bytes after a buffer that must stay as they are */

struct trials {
    struct collective *trial;
    size_t n, capacity;
    uint32_t nrank;
};

/* ---- One operation --------------------------------------------------------------------------------------- */

struct buffers {
    char *memory[2];
    struct collective_buffers at;
};

static int take_buffers(struct buffers *b, const struct collective *t, uint32_t nrank, uint32_t rank)
{
    const size_t size = plait_dtype_size(t->type), bytes = (size_t)nrank * t->count * size + GUARD;

    for (unsigned i = 0; i < 2; i++) {
        void *p = NULL;
        CHECK(!t->library || plait_mem_alloc(bytes, &p) == PLAIT_OK);
        b->memory[i] = t->library ? p : malloc(bytes);
        CHECK(b->memory[i] != NULL);
        memset(b->memory[i], 0x7b, bytes);
    }
    b->at = collective_place(t, nrank, rank, b->memory[0], b->memory[1]);
    if (b->at.in != NULL)
        collective_fill(t, nrank, rank, b->at.in);
    return 0;
}

static int look_at_result(const struct buffers *b, const struct collective *t, uint32_t nrank, uint32_t rank,
                          const struct plait_geometry *g)
{
    const size_t size = plait_dtype_size(t->type), n = collective_elements(t, &g->out),
                 room = nrank * t->count * size + 1;
    const bool own = b->at.out == b->memory[1]; /* it is not in IN, of which more may follow */
    char *want = malloc(room), *scratch = malloc(room);

    CHECK(want != NULL && scratch != NULL);
    collective_want(t, nrank, rank, scratch, want);
    for (size_t i = 0; i < n * size; i++)
        if (b->at.out[i] != want[i]) {
            fprintf(stderr, "rank %u of %u: %s:%s %s %s count %zu root %u slice %zu %s %s: element %zu is wrong\n",
                    rank, nrank, plait_coll_name(t->coll), t->spec, plait_dtype_name(t->type), plait_op_name(t->op),
                    t->count, t->root, t->slice, collective_is_inplace(t, rank) ? "in place" : "out of place",
                    t->library ? "library" : "malloc", i / size);
            CHECK(b->at.out[i] == want[i]);
        }
    for (size_t i = 0; own && i < GUARD; i++)
        CHECK(b->at.out[n * size + i] == 0x7b);
    if (!collective_is_inplace(t, rank) && b->at.in != NULL && t->count > 0) {
        collective_fill(t, nrank, rank, scratch);
        CHECK(memcmp(b->at.in, scratch, collective_elements(t, &g->in) * size) == 0);
    }
    free(want);
    free(scratch);
    return 0;
}

static int try_one(struct plait_comm *comm, uint32_t rank, uint32_t nrank, const struct collective *t)
{
    const struct plait_geometry g = plait_geometry_of(t->coll, nrank, t->root, rank, 1);
    struct buffers b;
    int result = take_buffers(&b, t, nrank, rank);

    if (result == 0) {
        CHECK(collective_run(comm, t, b.at.in, b.at.out) == PLAIT_OK);
        result = look_at_result(&b, t, nrank, rank, &g);
    }
    for (unsigned i = 0; i < 2; i++)
        if (t->library)
            plait_mem_free(b.memory[i]);
        else
            free(b.memory[i]);
    return result;
}

static int try_all(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct trials *all = arg;

    for (size_t i = 0; i < all->n; i++)
        if (try_one(*comm, rank, all->nrank, &all->trial[i]) != 0)
            return 1;
    CHECK(plait_comm_destroy(*comm) == PLAIT_OK);
    *comm = NULL;
    return 0;
}

static void run(const struct trials *all, uint32_t nprocess, uint32_t nthread)
{
    const struct ranks r = { .nprocess = nprocess,
                             .nthread = nthread,
                             .limit = full() ? 1200 : 120,
                             .body = try_all,
                             .arg = (void *)(uintptr_t)all };
    assert_int_equal(ranks_run(&r), 0);
}

/* ---- Which ----------------------------------------------------------------------------------------------- */

static void add(struct trials *all, const struct collective *t)
{
    if (all->n == all->capacity) {
        all->capacity = 2 * all->capacity + 64;
        all->trial = realloc(all->trial, all->capacity * sizeof *all->trial);
        assert_non_null(all->trial);
    }
    all->trial[all->n++] = *t;
}

/* One algorithm of one collective: counts around block, line and slice borders; every root; in place where there is. */
static void add_algorithm(struct trials *all, enum plait_coll coll, const char *spec)
{
    static const size_t counts[] = { 0, 1, 5, 12, 13, 64, 1000, 4099 };
    static const enum plait_dtype types[] = { PLAIT_INT32,    PLAIT_FLOAT16, PLAIT_FLOAT64,   PLAIT_FLOAT32,
                                              PLAIT_BFLOAT16, PLAIT_UINT8,   PLAIT_FLOAT8E4M3 };
    const struct plait_geometry g = plait_geometry_of(coll, all->nrank, 0, 0, 1);

    for (uint32_t root = 0; root < (g.rooted ? all->nrank : 1); root++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
            for (unsigned variant = 0; variant < 4; variant++) {
                const size_t i = root + c + variant;
                struct collective t = { .coll = coll,
                                        .type = types[i % 7],
                                        .op = g.combines ? (enum plait_op)(i % 4) : PLAIT_SUM,
                                        .round = i % 3 == 0 ? PLAIT_ROUND_ONCE : PLAIT_ROUND_DEFAULT,
                                        .root = root,
                                        .count = counts[c],
                                        .slice = variant == 3 ? 1000 : 0,
                                        .inplace = variant & 1,
                                        .mixed = i % 2,
                                        .library = variant & 2 };
                if (!full() && (c + variant) % 2 != root % 2)
                    continue; /* the other half falls to the neighbours */
                if (!full() && root > 1 && root + 1 < all->nrank && c % 3 != root % 3)
                    continue;
                snprintf(t.spec, sizeof t.spec, "%s", spec);
                add(all, &t);
            }
}

/* Every algorithm that runs without parameters, and the library's choice. */
static void add_all(struct trials *all)
{
    for (size_t k = 0; k < NCOLLECTIVE; k++) {
        add_algorithm(all, collectives[k], "");
        for (const struct plait_alg *const *a = plait_algs; *a != NULL; a++) {
            struct plait_shape shape = { .coll = collectives[k], .nrank = all->nrank };
            const struct plait_alg *found;
            if ((*a)->coll == collectives[k] && plait_alg_find(plait_algs, (*a)->name, &shape, &found) == PLAIT_OK)
                add_algorithm(all, collectives[k], (*a)->name);
        }
    }
}

static void try_shape(uint32_t nprocess, uint32_t nthread)
{
    struct trials all = { .nrank = nprocess * nthread };

    add_all(&all);
    run(&all, nprocess, nthread);
    printf("%u processes of %u: %zu operations\n", nprocess, nthread, all.n);
    free(all.trial);
}

static void every_collective_is_right_between_processes(void **state)
{
    for (uint32_t n = 1; n <= 9; n += full() || n < 2 ? 1 : 4)
        try_shape(n, 1);
}

static void every_collective_is_right_between_threads(void **state)
{
    for (uint32_t n = 2; n <= 8; n += full() ? 1 : 5)
        try_shape(1, n);
    try_shape(2, 3);
}

static void long_blocks_go_in_slices(void **state)
{
    struct trials all = { .nrank = 4 };

    for (size_t k = 0; k < NCOLLECTIVE; k++)
        for (const struct plait_alg *const *a = plait_algs; *a != NULL; a++) {
            struct collective t = { .coll = collectives[k], .type = PLAIT_INT32, .root = 2 };
            if ((*a)->coll != collectives[k])
                continue;
            snprintf(t.spec, sizeof t.spec, "%s", (*a)->name);
            t.count = full() ? 300001 : 200003;
            const unsigned turn = all.n % 4;
            for (unsigned variant = 0; variant < 4; variant++) {
                if (!full() && variant != turn)
                    continue; /* the others fall to the next algorithms */
                t.library = variant & 1;
                t.inplace = (variant & 2);
                t.mixed = k % 2;
                add(&all, &t);
            }
        }
    run(&all, 4, 1);
    free(all.trial);
}

/* ---- Blocks of different sizes, long ones ---------------------------------------------------------------- */

enum { LONG = 3000001, SHORT = 1200000 };

static int combine_long(struct plait_comm *comm, uint32_t rank, const size_t counts[3], int32_t *in, int32_t *out)
{
    struct plait_comm_stats before, after;

    for (size_t i = 0; i < LONG + 1 + SHORT; i++)
        in[i] = (int32_t)(i * (rank + 1));
    plait_comm_stats(comm, &before);
    CHECK(plait_reduce_scatterv(comm, in, out, counts, NULL, PLAIT_INT32, PLAIT_SUM, NULL) == PLAIT_OK);
    plait_comm_stats(comm, &after);
    CHECK(after.messages - before.messages > 2); /* to each of the others, more than one */
    const size_t start = rank == 0 ? 0 : rank == 1 ? LONG : LONG + 1;
    for (size_t i = 0; i < counts[rank]; i++)
        CHECK(out[i] == (int32_t)((start + i) * 6));
    return 0;
}

static int gather_long(struct plait_comm *comm, uint32_t rank, const size_t counts[3], int32_t *in, int32_t *out)
{
    for (size_t i = 0; i < counts[rank]; i++)
        in[i] = (int32_t)(i * 3 + rank);
    CHECK(plait_allgatherv(comm, in, out, counts, NULL, PLAIT_INT32, NULL) == PLAIT_OK);
    for (uint32_t r = 0, at = 0; r < 3; at += (uint32_t)counts[r++])
        for (size_t i = 0; i < counts[r]; i++)
            CHECK(out[at + i] == (int32_t)(i * 3 + r));
    return 0;
}

static int move_long(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const size_t counts[3] = { LONG, 1, SHORT };
    int32_t *in = malloc((LONG + 1 + SHORT) * sizeof *in), *out = malloc((LONG + 1 + SHORT) * sizeof *out);

    CHECK(in != NULL && out != NULL);
    for (int i = 0; i < 3; i++)
        CHECK(combine_long(*comm, rank, counts, in, out) == 0 && gather_long(*comm, rank, counts, in, out) == 0);
    free(in);
    free(out);
    return 0;
}

/* What the kernel copies goes whole, if it may. */
static void long_blocks_of_different_sizes_go_in_slices(void **state)
{
    const struct ranks r = { .nprocess = 3, .nthread = 1, .body = move_long };

    assert_int_equal(ranks_run(&r), 0);
    setenv("PLAIT_CMA", "0", 1);
    assert_int_equal(ranks_run(&r), 0);
    unsetenv("PLAIT_CMA");
}

/* ---- Blocks of different sizes --------------------------------------------------------------------------- */

#define MOST_RANKS 9
#define MOST_BLOCK 400 /* elements, and those that may lie between blocks */

/* Elements of the block that goes from one rank to another; in some rounds many are empty. */
static size_t block(unsigned round, uint32_t from, uint32_t to)
{
    const unsigned h = (from * 31 + to * 17 + round * 101 + 7) * 2654435761u >> 16;
    return round % 3 == 0 && h % 2 ? 0 : round % 3 == 1 ? h % 11 : h % MOST_BLOCK;
}

struct side { /* of one rank: blocks and where they start; gaps in some rounds */
    size_t counts[MOST_RANKS], at[MOST_RANKS];
};

static struct side side_of(unsigned round, uint32_t nrank, uint32_t rank, bool gives, bool pairs)
{
    struct side s;
    size_t at = 0;

    for (uint32_t r = 0; r < nrank; r++) {
        s.counts[r] = !pairs ? block(round, r, r) : gives ? block(round, rank, r) : block(round, r, rank);
        s.at[r] = at;
        at += s.counts[r] + (round % 2 ? r % 3 : 0);
    }
    return s;
}

static int32_t element(uint32_t from, uint32_t to, size_t i)
{
    return (int32_t)(from * 1000003u + to * 5003u + (unsigned)i * 7u);
}

static int same(uint32_t rank, const int32_t *got, size_t n, uint32_t from, uint32_t to)
{
    for (size_t i = 0; i < n; i++)
        CHECK(got[i] == element(from, to, i));
    return 0;
}

static int try_sized(struct plait_comm *comm, uint32_t rank, uint32_t nrank, unsigned round, uint32_t root)
{
    static __thread int32_t in[MOST_RANKS * (MOST_BLOCK + 4)], out[MOST_RANKS * (MOST_BLOCK + 4)];
    const bool gaps = round % 2;
    struct side parts = side_of(round, nrank, rank, true, false), give = side_of(round, nrank, rank, true, true);
    struct side take = side_of(round, nrank, rank, false, true);
    struct plait_call call = PLAIT_CALL_DEFAULT;

    call.algorithm = round % 4 == 3 ? "ring" : NULL;
    for (size_t i = 0; i < parts.counts[rank]; i++)
        in[i] = element(rank, 0, i);
    CHECK(plait_allgatherv(comm, in, out, parts.counts, gaps ? parts.at : NULL, PLAIT_INT32, &call) == PLAIT_OK);
    for (uint32_t r = 0; r < nrank; r++)
        CHECK(same(rank, out + parts.at[r], parts.counts[r], r, 0) == 0);
    memset(out, 0, sizeof out); /* in place; ranks with an empty part cannot tell */
    for (size_t i = 0; i < parts.counts[rank]; i++)
        out[parts.at[rank] + i] = element(rank, 0, i);
    CHECK(plait_allgatherv(comm, parts.counts[rank] > 0 ? out + parts.at[rank] : NULL, out, parts.counts,
                           gaps ? parts.at : NULL, PLAIT_INT32, &call) == PLAIT_OK);
    for (uint32_t r = 0; r < nrank; r++)
        CHECK(same(rank, out + parts.at[r], parts.counts[r], r, 0) == 0);
    for (uint32_t r = 0; r < nrank; r++)
        for (size_t i = 0; i < parts.counts[r]; i++)
            in[parts.at[r] + i] = out[parts.at[r] + i] = (int32_t)(i + r) * (int32_t)(rank + 1);
    CHECK(plait_reduce_scatterv(comm, out, out + parts.at[rank], parts.counts, gaps ? parts.at : NULL, PLAIT_INT32,
                                PLAIT_SUM, &call) == PLAIT_OK);
    for (size_t i = 0; i < parts.counts[rank]; i++)
        CHECK(out[parts.at[rank] + i] == (int32_t)(i + rank) * (int32_t)(nrank * (nrank + 1) / 2));
    CHECK(plait_reduce_scatterv(comm, in, out, parts.counts, gaps ? parts.at : NULL, PLAIT_INT32, PLAIT_SUM, &call) ==
          PLAIT_OK);
    for (size_t i = 0; i < parts.counts[rank]; i++)
        CHECK(out[i] == (int32_t)(i + rank) * (int32_t)(nrank * (nrank + 1) / 2));
    for (size_t i = 0; i < parts.counts[rank]; i++)
        in[i] = element(rank, root, i);
    CHECK(plait_gatherv(comm, in, parts.counts[rank], rank == root ? out : NULL, rank == root ? parts.counts : NULL,
                        gaps && rank == root ? parts.at : NULL, PLAIT_INT32, root, NULL) == PLAIT_OK);
    for (uint32_t r = 0; rank == root && r < nrank; r++)
        CHECK(same(rank, out + parts.at[r], parts.counts[r], r, root) == 0);
    for (uint32_t r = 0; rank == root && r < nrank; r++)
        for (size_t i = 0; i < parts.counts[r]; i++)
            in[parts.at[r] + i] = element(root, r, i);
    CHECK(plait_scatterv(comm, rank == root ? in : NULL, rank == root ? parts.counts : NULL,
                         gaps && rank == root ? parts.at : NULL, out, parts.counts[rank], PLAIT_INT32, root,
                         NULL) == PLAIT_OK);
    CHECK(same(rank, out, parts.counts[rank], root, rank) == 0);
    for (uint32_t r = 0; r < nrank; r++)
        for (size_t i = 0; i < give.counts[r]; i++)
            in[give.at[r] + i] = element(rank, r, i);
    CHECK(plait_alltoallv(comm, in, give.counts, gaps ? give.at : NULL, out, take.counts, gaps ? take.at : NULL,
                          PLAIT_INT32, NULL) == PLAIT_OK);
    for (uint32_t r = 0; r < nrank; r++)
        CHECK(same(rank, out + take.at[r], take.counts[r], r, rank) == 0);
    return 0;
}

static int try_all_sized(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const uint32_t nrank = plait_comm_nrank(*comm);

    for (unsigned round = 0; round < 24; round++)
        if (try_sized(*comm, rank, nrank, round, round % nrank) != 0) {
            fprintf(stderr, "round %u\n", round);
            return 1;
        }
    return 0;
}

static void blocks_may_differ_in_size(void **state)
{
    struct ranks r = { .nthread = 1, .body = try_all_sized };

    for (r.nprocess = 1; r.nprocess <= MOST_RANKS; r.nprocess += r.nprocess < 3 ? 1 : 2)
        assert_int_equal(ranks_run(&r), 0);
    r.nprocess = 2;
    r.nthread = 3;
    assert_int_equal(ranks_run(&r), 0);
}

enum { LONG_RANKS = 5, LONG_BLOCK = 400001 };

/* Around the borders of slices, each pair its own. */
static size_t long_block(unsigned round, uint32_t from, uint32_t to)
{
    static const size_t sizes[] = { 0, 3, 65535, LONG_BLOCK, 131072, 1, 26215, 300001, 65537 };
    return sizes[(from * 5 + to * 2 + round) % (sizeof sizes / sizeof *sizes)];
}

static struct side long_side(unsigned round, uint32_t nrank, uint32_t rank, bool gives)
{
    struct side s = { 0 };
    size_t at = 0;

    for (uint32_t r = 0; r < nrank; at += s.counts[r++]) {
        s.counts[r] = gives ? long_block(round, rank, r) : long_block(round, r, rank);
        s.at[r] = at;
    }
    return s;
}

/* Each pair counts its own slices; the next operation's messages follow them. */
static int move_long_pairs(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const uint32_t nrank = plait_comm_nrank(*comm);
    int32_t *in = malloc((size_t)LONG_RANKS * LONG_BLOCK * sizeof *in),
            *out = malloc((size_t)LONG_RANKS * LONG_BLOCK * sizeof *out);

    CHECK(in != NULL && out != NULL);
    for (unsigned round = 0; round < 12; round++) {
        const uint32_t root = round % nrank;
        const struct side give = long_side(round, nrank, rank, true), take = long_side(round, nrank, rank, false);
        for (uint32_t r = 0; r < nrank; r++)
            for (size_t i = 0; i < give.counts[r]; i++)
                in[give.at[r] + i] = element(rank, r, i);
        memset(out, 0, (size_t)LONG_RANKS * LONG_BLOCK * sizeof *out);
        CHECK(plait_alltoallv(*comm, in, give.counts, NULL, out, take.counts, NULL, PLAIT_INT32, NULL) == PLAIT_OK);
        for (uint32_t r = 0; r < nrank; r++)
            CHECK(same(rank, out + take.at[r], take.counts[r], r, rank) == 0);
        memset(out, 0, (size_t)LONG_RANKS * LONG_BLOCK * sizeof *out);
        CHECK(plait_gatherv(*comm, in + give.at[root], give.counts[root], out, take.counts, NULL, PLAIT_INT32, root,
                            NULL) == PLAIT_OK);
        for (uint32_t r = 0; rank == root && r < nrank; r++)
            CHECK(same(rank, out + take.at[r], take.counts[r], r, rank) == 0);
        memset(out, 0, (size_t)LONG_RANKS * LONG_BLOCK * sizeof *out);
        CHECK(plait_scatterv(*comm, in, give.counts, NULL, out, take.counts[root], PLAIT_INT32, root, NULL) ==
              PLAIT_OK);
        CHECK(same(rank, out, take.counts[root], root, rank) == 0);
    }
    free(in);
    free(out);
    return 0;
}

static void long_blocks_of_pairs_go_in_slices(void **state)
{
    static const char *const cma[] = { "auto", "0", "1" };
    const struct ranks processes = { .nprocess = 3, .nthread = 1, .body = move_long_pairs };
    const struct ranks both = { .nprocess = 2, .nthread = 2, .body = move_long_pairs };

    for (size_t i = 0; i < sizeof cma / sizeof *cma; i++) {
        setenv("PLAIT_CMA", cma[i], 1);
        assert_int_equal(ranks_run(&processes), 0);
        assert_int_equal(ranks_run(&both), 0);
    }
    unsetenv("PLAIT_CMA");
}

static int wrong_sizes_are_named_and_change_nothing(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const size_t apart[5] = { 4, 0, 1, 8, 7 }, overlapping[5] = { 3, 0, 1, 8, 7 };
    const size_t nothing[5] = { 0 }, anywhere[5] = { 5, 0, (size_t)1 << 40, SIZE_MAX / 8, 5 };
    const size_t behind[5] = { 7, 0, (size_t)1 << 40, 5, 4 };
    size_t counts[5] = { 3, 4, 0, 2, 1 }, huge[5] = { SIZE_MAX / 2, 4 };
    int in[16] = { 0 }, out[16];
    struct plait_call call = PLAIT_CALL_DEFAULT;

    CHECK(plait_allgatherv(*comm, in, out, NULL, NULL, PLAIT_INT32, NULL) == PLAIT_ERR_ARG);
    CHECK(strstr(plait_last_error(), "allgatherv: the counts of") != NULL);
    CHECK(plait_allgatherv(*comm, in, out, huge, NULL, PLAIT_INT32, NULL) == PLAIT_ERR_ARG);
    CHECK(plait_gatherv(*comm, in, 1 + counts[rank], out, counts, NULL, PLAIT_INT32, rank, NULL) == PLAIT_ERR_ARG);
    CHECK(strstr(plait_last_error(), "sends itself") != NULL);
    CHECK(plait_reduce_scatterv(*comm, in, out, counts, NULL, PLAIT_INT32, PLAIT_USER, NULL) == PLAIT_ERR_ARG);
    CHECK(plait_reduce_scatterv(*comm, in, out, counts, NULL, PLAIT_INT32, PLAIT_PREMULSUM, NULL) == PLAIT_ERR_ARG);
    CHECK(strstr(plait_last_error(), "call->scale is NULL") != NULL);
    CHECK(plait_allgatherv(*comm, in, out, counts, overlapping, PLAIT_INT32, NULL) == PLAIT_ERR_ARG);
    CHECK(strstr(plait_last_error(), "parts 1 and 0 of out overlap: elements 0 to 3 and 3 to 5") != NULL);
    CHECK(plait_allgatherv(*comm, in, out, counts, apart, PLAIT_INT32, NULL) == PLAIT_OK);
    CHECK(plait_allgatherv(*comm, in, NULL, counts, NULL, PLAIT_INT32, NULL) == PLAIT_ERR_ARG);
    CHECK(strstr(plait_last_error(), "allgatherv: out is NULL") != NULL);
    /* Where an empty part starts is no matter. */
    CHECK(plait_allgatherv(*comm, in, out, counts, behind, PLAIT_INT32, NULL) == PLAIT_OK);
    CHECK(plait_allgatherv(*comm, NULL, NULL, nothing, anywhere, PLAIT_INT32, NULL) == PLAIT_OK);
    CHECK(plait_gatherv(*comm, NULL, 0, NULL, nothing, anywhere, PLAIT_INT32, 0, NULL) == PLAIT_OK);
    CHECK(plait_alltoallv(*comm, NULL, nothing, anywhere, NULL, nothing, anywhere, PLAIT_INT32, NULL) == PLAIT_OK);
    call.algorithm = "bruck";
    CHECK(plait_allgatherv(*comm, in, out, counts, NULL, PLAIT_INT32, &call) == PLAIT_ERR_CONFIG);
    CHECK(strstr(plait_last_error(), "use direct") != NULL);
    CHECK(plait_allgatherv(*comm, in, out, counts, NULL, PLAIT_INT32, NULL) == PLAIT_OK); /* nothing has happened */
    return 0;
}

/* ---- Operators of the caller's ------------------------------------------------------------------------- */

/* Elements are maps x -> a x + b of 32-bit numbers: combining them is associative, but not commutative. */
static uint64_t compose(uint64_t left, uint64_t right)
{
    const uint32_t a = (uint32_t)(left >> 32), b = (uint32_t)left, c = (uint32_t)(right >> 32), d = (uint32_t)right;
    return (uint64_t)(a * c) << 32 | (uint32_t)(a * d + b);
}

static void compose_all(void *inout, const void *in, size_t count, enum plait_dtype type, void *context)
{
    uint64_t *left = inout;
    const uint64_t *right = in;

    for (size_t i = 0; i < count; i++)
        left[i] = compose(left[i], right[i]);
}

static uint64_t map_of(uint32_t rank, size_t i)
{
    return (uint64_t)(2 * rank + 3 + i) << 32 | (uint32_t)(7 * rank + i * i + 1);
}

#define PART 300

static int combine_as_the_caller_says(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const uint32_t nrank = plait_comm_nrank(*comm), root = nrank - 1;
    const struct plait_user_op user = { .size = sizeof user, .combine = compose_all };
    const int32_t scale = (int32_t)rank + 2;
    static __thread uint64_t in[MOST_RANKS * PART], out[MOST_RANKS * PART];
    static __thread int32_t small[MOST_RANKS * PART], sum[MOST_RANKS * PART];
    struct plait_call ordered = PLAIT_CALL_DEFAULT, scaled = PLAIT_CALL_DEFAULT;
    size_t counts[MOST_RANKS];

    ordered.user = &user;
    scaled.scale = &scale;
    for (size_t i = 0; i < nrank * PART; i++) {
        in[i] = map_of(rank, i);
        small[i] = (int32_t)(i % 1000) + (int32_t)rank;
    }
    CHECK(plait_reduce_scatter(*comm, in, out, PART, PLAIT_UINT64, PLAIT_USER, &ordered) == PLAIT_OK);
    for (size_t i = 0; i < PART; i++) {
        uint64_t want = map_of(0, rank * PART + i);
        for (uint32_t r = 1; r < nrank; r++)
            want = compose(want, map_of(r, rank * PART + i));
        CHECK(out[i] == want);
    }
    CHECK(plait_reduce(*comm, in, out, PART, PLAIT_UINT64, PLAIT_USER, root, &ordered) == PLAIT_OK);
    for (size_t i = 0; rank == root && i < PART; i++) {
        uint64_t want = map_of(0, i);
        for (uint32_t r = 1; r < nrank; r++)
            want = compose(want, map_of(r, i));
        CHECK(out[i] == want);
    }
    ordered.algorithm = "ring";
    CHECK(plait_reduce_scatter(*comm, in, out, PART, PLAIT_UINT64, PLAIT_USER, &ordered) == PLAIT_ERR_CONFIG);
    CHECK(strstr(plait_last_error(), "not commutative") != NULL);
    for (uint32_t r = 0; r < nrank; r++)
        counts[r] = PART;
    for (unsigned form = 0; form < 3; form++) { /* in place last, as it changes the input */
        int32_t *to = form == 2 ? small + rank * PART : sum;
        memset(sum, 0, sizeof sum);
        if (form == 1)
            CHECK(plait_reduce(*comm, small, sum, PART, PLAIT_INT32, PLAIT_PREMULSUM, root, &scaled) == PLAIT_OK);
        else if (form == 0)
            CHECK(plait_reduce_scatterv(*comm, small, to, counts, NULL, PLAIT_INT32, PLAIT_PREMULSUM, &scaled) ==
                  PLAIT_OK);
        else
            CHECK(plait_reduce_scatter(*comm, small, to, PART, PLAIT_INT32, PLAIT_PREMULSUM, &scaled) == PLAIT_OK);
        for (size_t i = 0; i < PART && (form != 1 || rank == root); i++) {
            const size_t at = form == 1 ? i : rank * PART + i;
            int32_t want = 0;
            for (uint32_t r = 0; r < nrank; r++)
                want += ((int32_t)(at % 1000) + (int32_t)r) * ((int32_t)r + 2);
            CHECK(to[i] == want);
        }
    }
    return 0;
}

static void operators_of_the_caller_work_everywhere(void **state)
{
    struct ranks r = { .nthread = 1, .body = combine_as_the_caller_says };

    for (r.nprocess = 1; r.nprocess <= 5; r.nprocess += 2)
        assert_int_equal(ranks_run(&r), 0);
}

/* ---- All-to-all in place ----------------------------------------------------------------------------------- */

static uint32_t in_turn(uint32_t from, uint32_t to, size_t i, uint32_t turn)
{
    return turn * 7919 + from * 10007 + to * 101 + (uint32_t)i;
}

static void put_parts(uint32_t *x, uint32_t nrank, uint32_t rank, size_t n, uint32_t turn)
{
    for (size_t i = 0; i < nrank * n; i++)
        x[i] = in_turn(rank, (uint32_t)(i / n), i % n, turn);
}

static bool has_parts(const uint32_t *x, uint32_t nrank, uint32_t rank, size_t n, uint32_t turn)
{
    for (size_t i = 0; i < nrank * n; i++)
        if (x[i] != in_turn((uint32_t)(i / n), rank, i % n, turn))
            return false;
    return true;
}

/* The copy is of the input at each start, whatever form the call has; ranks in place and others mix. */
static int exchange_in_place(struct plait_comm **comm, uint32_t rank, void *arg)
{
    static const size_t counts[] = { 1, 500, 40000 };
    const uint32_t nrank = plait_comm_nrank(*comm);

    for (unsigned c = 0; c < 3; c++) {
        const size_t n = counts[c];
        uint32_t *x, *y = calloc(nrank * n, sizeof *y);
        CHECK(plait_mem_alloc(nrank * n * sizeof *x, (void **)&x) == PLAIT_OK); /* which others read where it is */
        uint32_t *const out = c % 2 == rank % 2 ? y : x;
        struct plait_request *request = NULL;
        struct plait_call call = PLAIT_CALL_DEFAULT;
        CHECK(y != NULL);
        call.request = &request;
        call.persistent = 1;
        CHECK(plait_alltoall(*comm, x, x, n, PLAIT_UINT32, &call) == PLAIT_OK);
        for (uint32_t turn = 0; turn < 3; turn++) {
            put_parts(x, nrank, rank, n, turn);
            CHECK(plait_run_again(request) == PLAIT_OK && has_parts(x, nrank, rank, n, turn));
            put_parts(x, nrank, rank, n, turn + 10);
            CHECK(plait_alltoall(*comm, x, out, n, PLAIT_UINT32, NULL) == PLAIT_OK);
            CHECK(has_parts(out, nrank, rank, n, turn + 10));
        }
        CHECK(plait_request_free(&request) == PLAIT_OK && plait_mem_free(x) == PLAIT_OK);
        free(y);
    }
    return 0;
}

static void all_to_all_works_in_place_in_every_form(void **state)
{
    struct ranks r = { .nthread = 1, .body = exchange_in_place };

    for (r.nprocess = 1; r.nprocess <= 4; r.nprocess++)
        assert_int_equal(ranks_run(&r), 0);
}

/* ---- Wrong arguments ------------------------------------------------------------------------------------- */

static int wrong_arguments_are_named_and_change_nothing(struct plait_comm **comm, uint32_t rank, void *arg)
{
    int in[8] = { 0 }, out[8] = { 0 };

    CHECK(plait_broadcast(*comm, in, out, 4, PLAIT_INT32, 2, NULL) == PLAIT_ERR_ARG);
    CHECK(strstr(plait_last_error(), "broadcast: root is 2, but the comm has 2 ranks") != NULL);
    CHECK(plait_allgather(*comm, in, NULL, 4, PLAIT_INT32, NULL) == PLAIT_ERR_ARG);
    CHECK(strstr(plait_last_error(), "allgather: out is NULL") != NULL);
    CHECK(plait_alltoall(*comm, in, in + 4, 4, PLAIT_INT32, NULL) == PLAIT_ERR_ARG);
    CHECK(strstr(plait_last_error(), "overlap; they must be apart or equal") != NULL);
    CHECK(plait_allgather(*comm, out + 1, out, 4, PLAIT_INT32, NULL) == PLAIT_ERR_ARG);
    CHECK(strstr(plait_last_error(), "overlap") != NULL);
    CHECK(plait_reduce_scatter(*comm, in, out, 4, PLAIT_INT32, (enum plait_op)99, NULL) == PLAIT_ERR_ARG);
    CHECK(plait_gather(*comm, in, out, SIZE_MAX / 2, PLAIT_INT32, 0, NULL) == PLAIT_ERR_ARG);
    CHECK(plait_scatter(NULL, in, out, 4, PLAIT_INT32, 0, NULL) == PLAIT_ERR_ARG);
    CHECK(strstr(plait_last_error(), "scatter: comm is NULL") != NULL);
    CHECK(plait_allgather(*comm, in, out, 4, PLAIT_INT32, NULL) == PLAIT_OK); /* nothing has happened */
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_collective_is_right_between_processes),
        cmocka_unit_test(every_collective_is_right_between_threads),
        cmocka_unit_test(long_blocks_go_in_slices),
        cmocka_unit_test(long_blocks_of_different_sizes_go_in_slices),
        cmocka_unit_test(blocks_may_differ_in_size),
        cmocka_unit_test(long_blocks_of_pairs_go_in_slices),
        test_of_ranks(wrong_sizes_are_named_and_change_nothing, 5, 1),
        cmocka_unit_test(operators_of_the_caller_work_everywhere),
        cmocka_unit_test(all_to_all_works_in_place_in_every_form),
        test_of_ranks(wrong_arguments_are_named_and_change_nothing, 2, 1),
    };
    return cmocka_run_group_tests_name("collectives", tests, NULL, NULL);
}
