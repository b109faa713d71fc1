/* SPDX-License-Identifier: BSD-3-Clause */
/* Eager operations: slots are not written before all have read them, whoever is ahead; and what that costs. */
#include "child.h"
#include "comm/comm.h"
#include "failure/failure.h"
#include "operation/operation.h"
#include "plans.h"
#include "tier.h"
#include "unit_ranks.h"

#include <plait/memory.h>
#include <plait/plan.h>
#include <plait/request.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MOST_RANKS 9
#define MOST_COUNT 600  /* elements of a block: on both sides of every border between the places for data */
#define LONG_COUNT 4096 /* of the longest: it is measured how to write what is above 8 KiB */
#define LARGER     20   /* times as big are some blocks of those that differ in size: they go through the engine */
#define ROOM       (MOST_RANKS * MOST_COUNT * LARGER)

enum form { BLOCKING, REQUEST, PERSISTENT, ENGINE, NFORM };

struct call { /* equal on all ranks */
    enum plait_coll coll;
    enum form form;
    uint32_t root;
    size_t count;
    bool inplace, vform; /* vform: the form with blocks of different sizes, where there is one; */
    uint32_t mixed;      /* they differ indeed, as this number says; 0: they are equal */
};

struct place {
    int32_t memory[2][ROOM];
    int32_t *in, *out;
    struct plait_geometry g;
};

static struct place *new_place(bool library)
{
    void *p = NULL;

    if (!library)
        return malloc(sizeof(struct place));
    return plait_mem_alloc(sizeof(struct place), &p) == PLAIT_OK ? p : NULL;
}

static void free_place(struct place *p, bool library)
{
    if (library)
        plait_mem_free(p);
    else
        free(p);
}

/* Element i of a block as `from` gives it in call k: no two calls have the same. */
static int32_t element(uint64_t k, uint32_t from, uint32_t blk, size_t i)
{
    return (int32_t)(k * 7919 + from * 104729 + blk * 1299709 + i);
}

static bool has_sized(enum plait_coll coll)
{
    return plait_geometry_of(coll, 2, 0, 0, 1).kind != PLAIT_KIND_VECTOR;
}

/* Elements of a block. Those of reduce-scatter and all-gather stay small. */
static size_t block_count(const struct call *c, uint32_t blk)
{
    const struct plait_geometry g = plait_geometry_of(c->coll, 2, 0, 0, 1);
    const bool larger = g.kind == PLAIT_KIND_PAIR || g.rooted;

    if (!c->vform || !has_sized(c->coll) || c->mixed == 0)
        return c->count;
    const uint32_t draw = (blk + 1) * 2654435761u * c->mixed >> 28;
    return draw < 3 ? 0 : draw < 6 && larger && c->count <= MOST_COUNT ? c->count * LARGER : c->count / (1 + draw % 3);
}

/* Where a slot of IN or OUT starts; that of their end: all elements. */
static size_t start_of(const struct call *c, const struct plait_side *side, uint32_t slot)
{
    size_t at = 0;

    for (uint32_t i = 0; i < slot; i++)
        at += block_count(c, side->blk + i * side->stride);
    return at;
}

static void fill(struct place *p, const struct call *c, uint64_t k, uint32_t rank, uint32_t nrank)
{
    p->g = plait_geometry_of(c->coll, nrank, c->root, rank, 1);
    p->in = p->memory[0];
    p->out = p->memory[1];
    if (c->inplace && p->g.in.nslot > 0 && p->g.out.nslot > 0 && c->coll != PLAIT_ALLTOALL) {
        const bool within = p->g.in.nslot > p->g.out.nslot;
        p->in = p->memory[0] + (p->g.in.nslot < p->g.out.nslot ? start_of(c, &p->g.out, rank) : 0);
        p->out = p->memory[0] + (within ? start_of(c, &p->g.in, rank) : 0);
    }
    memset(p->memory[1], 0x7b, start_of(c, &p->g.out, p->g.out.nslot) * sizeof *p->out);
    for (uint32_t slot = 0; slot < p->g.in.nslot; slot++) {
        const uint32_t blk = p->g.in.blk + slot * p->g.in.stride;
        int32_t *at = p->in + start_of(c, &p->g.in, slot);
        for (size_t i = 0; i < block_count(c, blk); i++)
            at[i] = element(k, rank, blk, i);
    }
}

static int32_t wanted(const struct call *c, uint64_t k, uint32_t nrank, uint32_t blk, size_t i)
{
    uint32_t sum = 0;

    if (!plait_geometry_of(c->coll, nrank, c->root, 0, 1).combines)
        return element(k, plait_block_source(c->coll, nrank, c->root, blk), blk, i);
    for (uint32_t r = 0; r < nrank; r++)
        sum += (uint32_t)element(k, r, blk, i);
    return (int32_t)sum;
}

static bool is_right(const struct place *p, const struct call *c, uint64_t k, uint32_t nrank)
{
    for (uint32_t slot = 0; slot < p->g.out.nslot; slot++) {
        const uint32_t blk = p->g.out.blk + slot * p->g.out.stride;
        const int32_t *at = p->out + start_of(c, &p->g.out, slot);
        for (size_t i = 0; i < block_count(c, blk); i++)
            if (at[i] != wanted(c, k, nrank, blk, i))
                return false;
    }
    return true;
}

static enum plait_status call_sized(struct plait_comm *comm, const struct call *c, const struct place *p,
                                    const struct plait_call *how)
{
    size_t in[MOST_RANKS], out[MOST_RANKS], all[MOST_RANKS];

    for (uint32_t r = 0; r < MOST_RANKS; r++) {
        in[r] = block_count(c, p->g.in.blk + r * p->g.in.stride);
        out[r] = block_count(c, p->g.out.blk + r * p->g.out.stride);
        all[r] = block_count(c, r);
    }
    switch (c->coll) {
    case PLAIT_REDUCE_SCATTER:
        return plait_reduce_scatterv(comm, p->in, p->out, all, NULL, PLAIT_INT32, PLAIT_SUM, how);
    case PLAIT_ALLGATHER:
        return plait_allgatherv(comm, p->in, p->out, all, NULL, PLAIT_INT32, how);
    case PLAIT_GATHER:
        return plait_gatherv(comm, p->in, in[0], p->out, out, NULL, PLAIT_INT32, c->root, how);
    case PLAIT_SCATTER:
        return plait_scatterv(comm, p->in, in, NULL, p->out, out[0], PLAIT_INT32, c->root, how);
    default:
        return plait_alltoallv(comm, p->in, in, NULL, p->out, out, NULL, PLAIT_INT32, how);
    }
}

static enum plait_status call(struct plait_comm *comm, const struct call *c, const struct place *p,
                              const struct plait_call *how)
{
    if (c->vform && has_sized(c->coll))
        return call_sized(comm, c, p, how);
    switch (c->coll) {
    case PLAIT_ALLREDUCE:
        return plait_allreduce(comm, p->in, p->out, c->count, PLAIT_INT32, PLAIT_SUM, how);
    case PLAIT_REDUCE_SCATTER:
        return plait_reduce_scatter(comm, p->in, p->out, c->count, PLAIT_INT32, PLAIT_SUM, how);
    case PLAIT_ALLGATHER:
        return plait_allgather(comm, p->in, p->out, c->count, PLAIT_INT32, how);
    case PLAIT_BROADCAST:
        return plait_broadcast(comm, p->in, p->out, c->count, PLAIT_INT32, c->root, how);
    case PLAIT_REDUCE:
        return plait_reduce(comm, p->in, p->out, c->count, PLAIT_INT32, PLAIT_SUM, c->root, how);
    case PLAIT_GATHER:
        return plait_gather(comm, p->in, p->out, c->count, PLAIT_INT32, c->root, how);
    case PLAIT_SCATTER:
        return plait_scatter(comm, p->in, p->out, c->count, PLAIT_INT32, c->root, how);
    case PLAIT_ALLTOALL:
        return plait_alltoall(comm, p->in, p->out, c->count, PLAIT_INT32, how);
    default:
        return plait_barrier(comm, how);
    }
}

static enum plait_status call_in_form(struct plait_comm *comm, const struct call *c, const struct place *p)
{
    struct plait_call how = PLAIT_CALL_DEFAULT;
    struct plait_request *request = NULL;
    enum plait_status status;

    if (c->form == BLOCKING)
        return call(comm, c, p, NULL);
    if (c->form == ENGINE)
        how.slice = (size_t)1 << 20;
    else
        how.request = &request;
    how.persistent = c->form == PERSISTENT;
    status = call(comm, c, p, &how);
    if (status == PLAIT_OK && c->form == PERSISTENT)
        status = plait_start(request);
    if (status == PLAIT_OK && request != NULL)
        status = plait_wait(&request);
    if (status == PLAIT_OK && request != NULL)
        status = plait_request_free(&request);
    return status;
}

/* ---- Any sequence -------------------------------------------------------------------------------------- */

struct sequence {
    uint64_t seed;
    unsigned n;
    bool apart; /* ranks take themselves for alone on their processors, so that they lend */
};

/* Long runs of one kind, as those let givers run ahead, and changes between them. */
static void draw(struct call *c, uint64_t *state, uint32_t nrank)
{
    static const size_t counts[] = { 0,   1,   12,  13,  14,  28,         64,   128,
                                     255, 256, 257, 511, 513, MOST_COUNT, 2049, LONG_COUNT };

    if (random_below(state, 8) == 0)
        c->coll = (enum plait_coll)random_below(state, PLAIT_NCOLL);
    if (random_below(state, 8) == 0)
        c->root = random_below(state, nrank);
    if (random_below(state, 4) == 0)
        c->count = counts[random_below(state, sizeof counts / sizeof *counts)];
    c->form = random_below(state, 4) == 0 ? (enum form)random_below(state, NFORM) : BLOCKING;
    c->inplace = random_below(state, 4) == 0;
    c->vform = random_below(state, 2) == 0;
    c->mixed = random_below(state, 2) * random_below(state, 1000);
}

static int run_sequence(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct sequence *s = arg;
    const uint32_t nrank = plait_comm_nrank(*comm);
    uint64_t common = s->seed, own = s->seed * 1000 + rank;
    struct call c = { .coll = PLAIT_BROADCAST, .count = 1 };
    struct place *places[2] = { new_place(false), new_place(true) };

    CHECK(places[0] != NULL && places[1] != NULL);
    if (s->apart)
        (*comm)->processors = 0;
    for (uint64_t k = 0; k < s->n; k++) {
        struct place *p = places[random_below(&own, 2)];
        draw(&c, &common, nrank);
        if (random_below(&own, 100) == 0)
            usleep(random_below(&own, 500));
        fill(p, &c, k, rank, nrank);
        CHECK(call_in_form(*comm, &c, p) == PLAIT_OK);
        if (c.coll != PLAIT_BARRIER && !is_right(p, &c, k, nrank)) {
            fprintf(stderr,
                    "seed %llu, call %llu of %u ranks: %s%s of %zu, root %u, form %d, %s memory is wrong on rank %u\n",
                    (unsigned long long)s->seed, (unsigned long long)k, nrank, plait_coll_name(c.coll),
                    c.vform && has_sized(c.coll) ? "v" : "", c.count, c.root, (int)c.form,
                    p == places[1] ? "library" : "other", rank);
            return 1;
        }
    }
    free_place(places[0], false);
    free_place(places[1], true);
    return 0;
}

/* Results are known, while ranks are late at random, and write to what they have given as soon as they may. */
static void any_sequence_gives_what_is_known(void **state)
{
    const char *seed = getenv("PLAIT_TEST_SEED"), *n = getenv("PLAIT_TEST_CALLS");
    struct sequence s = { .seed = seed != NULL ? strtoull(seed, NULL, 10) : 1,
                          .n = n != NULL ? (unsigned)atoi(n)
                               : full()  ? 1500
                               : light() ? 60
                                         : 200 };

    for (uint32_t nrank = 2; nrank <= MOST_RANKS; nrank++, s.seed++) {
        struct ranks r = { .nprocess = nrank, .nthread = 1, .body = run_sequence, .arg = &s };
        printf("seed %llu\n", (unsigned long long)s.seed);
        s.apart = s.seed % 2 == 0;
        assert_int_equal(ranks_run_both(&r), 0);
    }
}

/* ---- Ahead --------------------------------------------------------------------------------------------- */

struct lead { /* in memory that processes share */
    _Atomic bool may_read, may_read_again;
    size_t count;
    unsigned most; /* operations that the giver ends alone */
    bool to_root, dies, library, request;
};

/* Begin one more and poll it. */
static bool ends_alone(struct plait_request **request)
{
    int done = 0;

    if (plait_start(*request) != PLAIT_OK)
        return false;
    for (unsigned i = 0; i < 200 && !done; i++) {
        if (plait_test(request, &done) != PLAIT_OK)
            return false;
        usleep(done ? 0 : 50);
    }
    return done;
}

/* Rank 0 gives to rank 1, which does not come before it may. */
static int be_ahead(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct lead *lead = arg;
    const struct call c = { .coll = lead->to_root ? PLAIT_REDUCE : PLAIT_BROADCAST,
                            .count = lead->count,
                            .root = lead->to_root ? 1 : 0 };
    struct plait_call how = PLAIT_CALL_DEFAULT;
    struct plait_request *request = NULL;
    struct place *p = new_place(lead->library);

    CHECK(p != NULL);
    (*comm)->processors = 0; /* as it is where there are two processors */
    fill(p, &c, 0, rank, 2);
    if (rank == 0) {
        how.request = &request;
        how.persistent = 1;
        CHECK(call(*comm, &c, p, &how) == PLAIT_OK);
        for (unsigned k = 0; k < lead->most; k++) {
            fill(p, &c, k, rank, 2);
            CHECK(ends_alone(&request));
        }
        fill(p, &c, lead->most, rank, 2);
        CHECK(!ends_alone(&request));
        lead->may_read = true;
        CHECK(plait_wait(&request) == PLAIT_OK && plait_request_free(&request) == PLAIT_OK);
    }
    while (!lead->may_read)
        usleep(100);
    for (unsigned k = 0; rank == 1 && k <= lead->most; k++) {
        fill(p, &c, k, rank, 2);
        CHECK(call(*comm, &c, p, NULL) == PLAIT_OK && is_right(p, &c, k, 2));
    }
    free_place(p, lead->library);
    return 0;
}

static struct lead *share_lead(size_t count, unsigned most, bool to_root)
{
    struct lead *lead = shared_memory(sizeof *lead);

    *lead = (struct lead){ .count = count, .most = most, .to_root = to_root };
    return lead;
}

/* Nobody is awaited before all slots are used, and then the reader is. */
static void who_gives_is_ahead_by_as_many_operations_as_there_are_slots(void **state)
{
    for (unsigned i = 0; i < 4; i++) {
        const bool small = i % 2 == 0;
        struct lead *lead = share_lead(small ? 4 : MOST_COUNT, small ? PLAIT_EAGER_SMALL : PLAIT_EAGER_LARGE, i / 2);
        const struct ranks r = { .nprocess = 2, .nthread = 1, .body = be_ahead, .arg = lead, .processes = true };
        assert_int_equal(ranks_run(&r), 0);
        munmap(lead, sizeof *lead);
    }
}

/* What the reader can read where it lies is not written again: whoever gives it waits for the reader. */
static void long_vectors_in_library_memory_or_in_one_process_are_lent(void **state)
{
    for (unsigned i = 0; i < 4; i++) {
        struct lead *lead = share_lead(MOST_COUNT, 0, i % 2);
        const bool library = i / 2;
        const struct ranks r = {
            .nprocess = library ? 2 : 1, .nthread = library ? 1 : 2, .body = be_ahead, .arg = lead
        };
        lead->library = library;
        assert_int_equal(ranks_run(&r), 0);
        munmap(lead, sizeof *lead);
    }
}

/* Rank 0 starts what has to wait for a reader, and waits in another comm for that reader. */
static int start_and_wait_elsewhere(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct lead *lead = arg;
    int32_t value = 1;
    struct plait_call how = PLAIT_CALL_DEFAULT;
    struct plait_request *request = NULL;
    struct plait_comm *other = NULL;

    CHECK(plait_comm_duplicate(*comm, NULL, &other) == PLAIT_OK);
    how.request = &request;
    how.persistent = 1;
    if (rank == 0)
        CHECK(plait_broadcast(*comm, &value, &value, 1, PLAIT_INT32, 0, &how) == PLAIT_OK);
    while (rank == 1 && !lead->may_read)
        usleep(100);
    for (unsigned k = 0; k < PLAIT_EAGER_SMALL + rank; k++)
        CHECK(plait_broadcast(*comm, &value, &value, 1, PLAIT_INT32, 0, NULL) == PLAIT_OK);
    if (rank == 0)
        CHECK(plait_start(request) == PLAIT_OK);
    lead->may_read = true;
    CHECK(plait_barrier(other, NULL) == PLAIT_OK);
    if (rank == 0)
        CHECK(plait_wait(&request) == PLAIT_OK && plait_request_free(&request) == PLAIT_OK);
    CHECK(plait_comm_destroy(other) == PLAIT_OK);
    return 0;
}

/* Rank 0 exposes its memory to rank 1, which has started the same operation and waits in another comm for rank 0. */
static int a_started_operation_takes_what_is_lent_while_its_rank_waits_elsewhere(struct plait_comm **comm,
                                                                                 uint32_t rank, void *arg)
{
    const struct call c = { .coll = PLAIT_ALLGATHER, .count = MOST_COUNT };
    struct plait_call how = PLAIT_CALL_DEFAULT;
    struct plait_request *request = NULL;
    struct plait_comm *other = NULL;
    struct place *p = new_place(rank == 0);

    CHECK(p != NULL && plait_comm_duplicate(*comm, NULL, &other) == PLAIT_OK);
    (*comm)->processors = 0;
    fill(p, &c, 1, rank, 2);
    how.request = &request;
    how.persistent = 1;
    if (rank == 1)
        CHECK(call(*comm, &c, p, &how) == PLAIT_OK && plait_start(request) == PLAIT_OK);
    else
        CHECK(call(*comm, &c, p, NULL) == PLAIT_OK);
    CHECK(plait_barrier(other, NULL) == PLAIT_OK);
    if (rank == 1)
        CHECK(plait_wait(&request) == PLAIT_OK && plait_request_free(&request) == PLAIT_OK);
    CHECK(is_right(p, &c, 1, 2));
    CHECK(plait_comm_destroy(other) == PLAIT_OK);
    free_place(p, rank == 0);
    return 0;
}

/* plait_start() leaves nothing behind that the others wait for. */
static void a_started_operation_that_waits_for_a_reader_goes_on_elsewhere(void **state)
{
    struct lead *lead = share_lead(1, 0, false);
    const struct ranks r = { .nprocess = 2, .nthread = 1, .body = start_and_wait_elsewhere, .arg = lead };

    assert_int_equal(ranks_run(&r), 0);
    munmap(lead, sizeof *lead);
}

/* Does `rank` wait for rank 2, with nothing else left of the comm's first operation? */
static bool waits_for_the_last(const struct plait_comm *comm, uint32_t rank)
{
    struct plait_operation o;

    return plait_comm_operation(comm, rank, 1, &o) && o.has_progress && o.progress.waiting_for == 2 + 1 &&
           o.progress.steps == o.progress.nstep;
}

/*
 * Once the large blocks had come, it waited for nobody that it could name. Of the others' blocks rank 1's is large and
 * there; rank 2's is small, and late: it comes when it is waited for.
 */
static int who_owes_a_small_block_is_waited_for_by_name(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const size_t large = (size_t)1 << 18, counts[3][3] = { { 1, large, 1 }, { large, 1, 1 }, { 1, 1, 1 } };
    int32_t *in = calloc(2 * (large + 2), sizeof *in), *out = in + large + 2;

    CHECK(in != NULL);
    while (rank == 2 && !(waits_for_the_last(*comm, 0) && waits_for_the_last(*comm, 1)))
        usleep(1000);
    CHECK(plait_alltoallv(*comm, in, counts[rank], NULL, out, counts[rank], NULL, PLAIT_INT32, NULL) == PLAIT_OK);
    CHECK(rank == 2 || plait_comm_waited(*comm, 2) > 0);
    free(in);
    return 0;
}

enum { NSEVERAL = 8, SMALL_BLOCK = 12000, LARGE_BLOCK = 40000 };

/*
 * Its second slice was waited for. Small blocks, each of two slices of a large one: of 64 KiB / 8 where the cache is
 * not known.
 */
static int a_small_block_that_is_longer_than_a_slice_has_none(struct plait_comm **comm, uint32_t rank, void *arg)
{
    enum { N = LARGE_BLOCK + (NSEVERAL - 1) * SMALL_BLOCK };
    size_t counts[NSEVERAL];
    uint8_t *v = calloc(2, N);

    CHECK(v != NULL);
    (*comm)->cache = 0;
    (*comm)->processors = 0;
    (*comm)->cma = false;
    for (uint32_t r = 0; r < NSEVERAL; r++)
        counts[r] = r == 1 ? LARGE_BLOCK : SMALL_BLOCK;
    memset(v, (int)rank, N);
    for (int i = 0; i < 3; i++) {
        CHECK(plait_gatherv(*comm, v, counts[rank], v + N, counts, NULL, PLAIT_UINT8, 0, NULL) == PLAIT_OK);
        CHECK((*comm)->last->selection.split >= SMALL_BLOCK && (*comm)->last->selection.slice < SMALL_BLOCK);
        const uint8_t *block = v + N;
        for (uint32_t r = 0; rank == 0 && r < NSEVERAL; block += counts[r++])
            for (size_t k = 0; k < counts[r]; k++)
                CHECK(block[k] == r);
    }
    free(v);
    return 0;
}

/* A root's own parts of a gather and of a gather-v, which rank 1 has not called. */
static int look_at_own(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct lead *lead = arg;
    const size_t count = lead->count, counts[] = { count, count };
    int32_t in[MOST_COUNT], out[2][2 * MOST_COUNT];
    struct plait_request *request[2] = { NULL, NULL };
    struct plait_call how = PLAIT_CALL_DEFAULT;

    for (size_t i = 0; i < count; i++)
        in[i] = element(1, rank, 0, i);
    memset(out, 0, sizeof out);
    while (rank == 1 && !lead->may_read)
        usleep(100);
    how.request = &request[0];
    CHECK(plait_gather(*comm, in, out[0], count, PLAIT_INT32, 0, &how) == PLAIT_OK);
    CHECK(rank != 0 || memcmp(out[0], in, count * sizeof *in) == 0);
    lead->may_read = true;
    CHECK(plait_wait(&request[0]) == PLAIT_OK);
    while (rank == 1 && !lead->may_read_again)
        usleep(100);
    how.request = &request[1];
    CHECK(plait_gatherv(*comm, in, count, out[1], counts, NULL, PLAIT_INT32, 0, &how) == PLAIT_OK);
    CHECK(rank != 0 || memcmp(out[1], in, count * sizeof *in) == 0);
    lead->may_read_again = true;
    CHECK(plait_wait(&request[1]) == PLAIT_OK);
    for (size_t i = 0; rank == 0 && i < 2 * count; i++)
        CHECK(out[0][i] == element(1, i / count, 0, i % count) && out[1][i] == out[0][i]);
    return 0;
}

/* It need not wait for the others, and they are awaited in the meantime. */
static void what_a_rank_keeps_is_copied_before_the_others_come(void **state)
{
    for (size_t count = 1; count <= MOST_COUNT; count *= 17) {
        struct lead *lead = share_lead(count, 0, false);
        const struct ranks r = { .nprocess = 2, .nthread = 1, .body = look_at_own, .arg = lead };
        assert_int_equal(ranks_run(&r), 0);
        munmap(lead, sizeof *lead);
    }
}

static int wait_in_vain(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct lead *lead = arg;
    const bool dies = lead->dies;
    void *value;
    struct plait_call how = PLAIT_CALL_DEFAULT;
    struct plait_request *request = NULL;
    enum plait_status status = PLAIT_OK;

    CHECK(plait_mem_alloc(MOST_COUNT * sizeof(int32_t), &value) == PLAIT_OK);
    (*comm)->processors = 0;

    how.deadline = dies ? 30 : 0.2;
    if (rank == 1) {
        while (!dies && !lead->may_read)
            usleep(100);
        _exit(0);
    }
    for (unsigned k = 0; k < lead->most; k++)
        CHECK(plait_broadcast(*comm, value, value, lead->count, PLAIT_INT32, 0, NULL) == PLAIT_OK);
    how.request = lead->request ? &request : NULL;
    status = plait_broadcast(*comm, value, value, lead->count, PLAIT_INT32, 0, &how);
    if (status == PLAIT_OK && lead->request)
        status = plait_wait(&request);
    lead->may_read = true;
    CHECK(status == (dies ? PLAIT_ERR_PEER : PLAIT_ERR_TIMEOUT));
    CHECK(strstr(plait_last_error(), dies ? "rank 1 (process" : "rank 1 has not called it") != NULL);
    plait_comm_destroy(*comm);
    *comm = NULL;
    plait_mem_free(value);
    return 0;
}

/* The wait for a reader, of what was there before or of a single copy, has the deadline, names the rank, and sees it die. */
static void a_reader_that_does_not_come_is_named(void **state)
{
    for (unsigned i = 0; i < 8; i++) {
        struct lead *lead = i / 4 ? share_lead(MOST_COUNT, 0, false) : share_lead(1, PLAIT_EAGER_SMALL, false);
        lead->dies = i % 2;
        lead->request = i / 2 % 2;
        const struct ranks r = { .nprocess = 2, .nthread = 1, .body = wait_in_vain, .arg = lead, .processes = true };
        assert_int_equal(ranks_run(&r), 0);
        munmap(lead, sizeof *lead);
    }
}

/* Rank 0 gives up, leaves, and frees memory that rank 1, which calls then, would read by single copy. */
static int lend_and_leave(struct plait_comm **comm, uint32_t rank, void *arg)
{
    enum { BYTES = 8192 };
    struct lead *lead = arg;
    struct plait_call how = PLAIT_CALL_DEFAULT;
    struct plait_request *request = NULL;
    enum plait_status status;
    int32_t *v = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(v != MAP_FAILED);
    (*comm)->processors = 0;
    while (rank == 1 && !lead->may_read)
        usleep(100);
    how.deadline = 0.2;
    how.request = lead->request ? &request : NULL;
    status = plait_broadcast(*comm, v, v, BYTES / sizeof *v, PLAIT_INT32, 0, &how);
    if (status == PLAIT_OK && request != NULL)
        status = plait_wait(&request);
    CHECK(status == PLAIT_ERR_TIMEOUT);
    plait_comm_destroy(*comm);
    *comm = NULL;
    munmap(v, BYTES);
    lead->may_read = true;
    return 0;
}

/* It was read: a rank looked for failures only afterwards. */
static void what_a_failed_rank_of_this_process_lent_is_not_read(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        struct lead *lead = share_lead(0, 0, false);
        const struct ranks r = { .nprocess = 1, .nthread = 2, .body = lend_and_leave, .arg = lead };
        lead->request = i;
        assert_int_equal(ranks_run(&r), 0);
        munmap(lead, sizeof *lead);
    }
}

/* ---- Counted ------------------------------------------------------------------------------------------- */

struct counts {
    uint64_t messages, sent, copied, reduced;
};

static int count_call(struct plait_comm *comm, uint32_t rank, const struct call *c, struct counts *out)
{
    struct plait_comm_stats a, b;
    struct place *p = malloc(sizeof *p);

    CHECK(p != NULL);
    fill(p, c, 1, rank, plait_comm_nrank(comm));
    plait_comm_stats(comm, &a);
    CHECK(call_in_form(comm, c, p) == PLAIT_OK);
    plait_comm_stats(comm, &b);
    *out = (struct counts){ b.messages - a.messages, b.bytes_sent - a.bytes_sent, b.bytes_copied - a.bytes_copied,
                            b.bytes_reduced - a.bytes_reduced };
    free(p);
    return 0;
}

static int count_both_ways(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_choice choice;

    for (unsigned i = 0; i < 2 * PLAIT_NCOLL; i++) {
        struct call c = { .coll = (enum plait_coll)(i / 2), .count = 16, .inplace = i % 2, .form = BLOCKING };
        struct counts eager, engine;
        if (c.coll == PLAIT_ALLREDUCE || c.coll == PLAIT_BARRIER) /* the engine chooses another algorithm */
            continue;
        CHECK(plait_comm_choose(*comm, &(struct plait_shape){ .coll = c.coll }, c.count, PLAIT_INT32, PLAIT_SUM, NULL,
                                &choice) == PLAIT_OK);
        CHECK(strcmp(choice.path, "eager") == 0 && strcmp(choice.algorithm, "direct") == 0);
        CHECK(count_call(*comm, rank, &c, &eager) == 0);
        c.form = ENGINE;
        CHECK(count_call(*comm, rank, &c, &engine) == 0);
        if (memcmp(&eager, &engine, sizeof eager) != 0)
            fprintf(stderr, "%s, in place %d: %llu and %llu messages, %llu and %llu bytes sent, %llu and %llu copied\n",
                    plait_coll_name(c.coll), c.inplace, (unsigned long long)eager.messages,
                    (unsigned long long)engine.messages, (unsigned long long)eager.sent,
                    (unsigned long long)engine.sent, (unsigned long long)eager.copied,
                    (unsigned long long)engine.copied);
        CHECK(memcmp(&eager, &engine, sizeof eager) == 0);
    }
    return 0;
}

/* Messages, bytes sent, copied and reduced. */
static void what_is_counted_is_what_the_engine_counts_for_direct(void **state)
{
    for (uint32_t n = 2; n <= 5; n++) {
        const struct ranks r = { .nprocess = 1, .nthread = n, .body = count_both_ways };
        assert_int_equal(ranks_run(&r), 0);
    }
}

/* Blocks of the same sizes elsewhere, of another root, after a mistake, and with another call pending are not the last ones. */
static int blocks_that_lie_elsewhere_are_not_the_last_ones(struct plait_comm **comm, uint32_t rank, void *arg)
{
    static const struct {
        size_t counts[2], starts[2];
        bool packed, wrong;
    } calls[] = {
        { { 2, 3 }, { 0, 2 }, true, false },  { { 2, 3 }, { 4, 0 }, false, false },
        { { 2, 3 }, { 0, 2 }, false, false }, { { 2, 3 }, { 0, 2 }, true, false },
        { { 2, 3 }, { 0, 1 }, false, true },  { { 2, 3 }, { 0, 2 }, true, false },
        { { 3, 2 }, { 0, 3 }, true, false },  { { 2, 3 }, { 0, 2 }, true, false },
        { { 2, 3 }, { 1, 4 }, false, false }, { { 2, 3 }, { 1, 5 }, false, false },
        { { 2, 0 }, { 1, 5 }, false, false }, { { 2, 0 }, { 0, 2 }, true, false },
    };
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_request *request = NULL;
    int32_t in[4], early[4], out[9], later[5];

    for (unsigned k = 0; k < 3 * sizeof calls / sizeof *calls; k++) {
        const unsigned i = k % (sizeof calls / sizeof *calls), form = k / (sizeof calls / sizeof *calls);
        const size_t *starts = calls[i].packed ? NULL : calls[i].starts, own = calls[i].counts[rank];
        const uint32_t root = form == 0 ? 2 : form - 1; /* all gather first, then one rank does */
        const bool takes = root == 2 || root == rank;
        call.request = &request;
        if (form == 0 && i % 4 == 0) { /* it has begun when the next one is called, and takes what it was called with */
            for (size_t e = 0; e < 4; e++)
                early[e] = element(k + 100, rank, 0, e);
            CHECK(plait_allgatherv(*comm, early, later, (const size_t[]){ 3, 2 }, NULL, PLAIT_INT32, &call) ==
                  PLAIT_OK);
        }
        for (size_t e = 0; e < 4; e++)
            in[e] = element(k, rank, 0, e);
        memset(out, 0x55, sizeof out);
        const enum plait_status status =
            root == 2 ? plait_allgatherv(*comm, in, out, calls[i].counts, starts, PLAIT_INT32, NULL)
            : calls[i].wrong && !takes
                ? PLAIT_ERR_ARG
                : plait_gatherv(*comm, in, own, out, calls[i].counts, starts, PLAIT_INT32, root, NULL);
        CHECK(status == (calls[i].wrong ? PLAIT_ERR_ARG : PLAIT_OK));
        if (request != NULL)
            CHECK(plait_wait(&request) == PLAIT_OK && later[2] == element(k + 100, 0, 0, 2) &&
                  later[4] == element(k + 100, 1, 0, 1));
        for (uint32_t r = 0; r < 2 && takes && !calls[i].wrong; r++)
            for (size_t e = 0; e < calls[i].counts[r]; e++)
                CHECK(out[calls[i].starts[r] + e] == element(k, r, 0, e));
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_sequence_gives_what_is_known),
        cmocka_unit_test(who_gives_is_ahead_by_as_many_operations_as_there_are_slots),
        cmocka_unit_test(long_vectors_in_library_memory_or_in_one_process_are_lent),
        test_of_ranks(a_started_operation_takes_what_is_lent_while_its_rank_waits_elsewhere, 2, 1),
        cmocka_unit_test(a_started_operation_that_waits_for_a_reader_goes_on_elsewhere),
        test_of_ranks(who_owes_a_small_block_is_waited_for_by_name, 3, 1),
        test_of_ranks(a_small_block_that_is_longer_than_a_slice_has_none, NSEVERAL, 1, .options.deadline = 5),
        cmocka_unit_test(what_a_rank_keeps_is_copied_before_the_others_come),
        cmocka_unit_test(a_reader_that_does_not_come_is_named),
        cmocka_unit_test(what_a_failed_rank_of_this_process_lent_is_not_read),
        test_of_ranks(blocks_that_lie_elsewhere_are_not_the_last_ones, 2, 1),
        cmocka_unit_test(what_is_counted_is_what_the_engine_counts_for_direct),
    };
    return cmocka_run_group_tests_name("eager", tests, NULL, NULL);
}
