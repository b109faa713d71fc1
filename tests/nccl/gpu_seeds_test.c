/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random programs: collectives, groups of sums on streams that differ by rank, messages, graphs, in any order and with
 * nobody waiting, while the stand-in delays what is on streams at random. PLAIT_SEED=n runs that one alone.
 */
#include "../random.h"
#include "../tier.h"
#include "../unit.h"
#include "gpu.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 4, ITEMS = 14, ROOM = 4096, STREAMS = 3, MOST_TENSORS = 12 };

static uint64_t seed;
static int capture_mode;

struct rank {
    struct gpu_rank g; /* an item has ROOM elements of IN and of OUT */
    cudaStream_t streams[STREAMS + 1];
    ncclComm_t comm;
    float *read; /* [as many] the host's, pinned */
    int rank, nrank;
    uint64_t own; /* draws of this rank */
};

static size_t below(uint64_t *state, size_t n)
{
    return random_next(state) % n;
}

enum what { SUM, GROUP, GATHER, SCATTER, EXCHANGE, NWHAT };

struct item { /* the same on all ranks */
    enum what what;
    size_t count; /* of a part */
    unsigned ntensor;
    bool captured, inplace;
};

static struct item draw_item(uint64_t *state)
{
    struct item i = { (enum what)below(state, NWHAT), 1 + below(state, ROOM / MOST_RANKS), 1, false, false };

    if (i.what == GROUP) {
        i.ntensor = 2 + (unsigned)below(state, MOST_TENSORS - 1);
        i.count = 1 + below(state, ROOM / MOST_TENSORS);
    }
    i.captured = below(state, 4) == 0 && !ON_HOSTS;
    i.inplace = below(state, 3) == 0;
    return i;
}

static float value(int rank, int item, size_t i)
{
    return (float)((i * 7 + (size_t)rank * 13 + (size_t)item * 5) % 64);
}

static cudaStream_t draw_stream(struct rank *r, const struct item *i)
{
    return r->streams[below(&r->own, i->captured ? STREAMS : STREAMS + 1)]; /* CUDA's default is not captured */
}

/* On its stream, before: its input is written; after: its output is read. Nobody waits. */
static bool write_in(struct rank *r, const struct item *i, float *in, size_t n, cudaStream_t stream)
{
    return i->captured || gpu_put(in, r->g.host + (in - r->g.in), n * sizeof *in, stream);
}

static bool read_out(struct rank *r, const struct item *i, const float *out, size_t n, cudaStream_t stream)
{
    return i->captured || gpu_put(r->read + (out - r->g.out), out, n * sizeof *out, stream);
}

static size_t tensor(const struct item *i, unsigned t)
{
    return i->count - t % i->count;
}

static int sum_many(struct rank *r, const struct item *i, float *in, float *out)
{
    cudaStream_t streams[MOST_TENSORS];
    const int rank = r->rank;

    for (unsigned t = 0; t < i->ntensor; t++) {
        streams[t] = draw_stream(r, i);
        CHECK(write_in(r, i, in + t * i->count, tensor(i, t), streams[t]));
    }
    OK(ncclGroupStart());
    for (unsigned t = 0; t < i->ntensor; t++)
        OK(ncclAllReduce(in + t * i->count, out + t * i->count, tensor(i, t), ncclFloat, ncclSum, r->comm, streams[t]));
    OK(ncclGroupEnd());
    for (unsigned t = 0; t < i->ntensor; t++)
        CHECK(read_out(r, i, out + t * i->count, tensor(i, t), streams[t]));
    return 0;
}

static int exchange(struct rank *r, const struct item *i, float *in, float *out)
{
    cudaStream_t streams[MOST_RANKS];
    const int rank = r->rank;

    for (int peer = 0; peer < r->nrank; peer++) {
        streams[peer] = draw_stream(r, i);
        CHECK(write_in(r, i, in + (size_t)peer * i->count, i->count, streams[peer]));
    }
    OK(ncclGroupStart());
    for (int peer = 0; peer < r->nrank; peer++) {
        const size_t at = (size_t)peer * i->count;
        OK(ncclSend(in + at, i->count, ncclFloat, peer, r->comm, streams[peer]));
        OK(ncclRecv(out + at, i->count, ncclFloat, peer, r->comm, streams[peer]));
    }
    OK(ncclGroupEnd());
    for (int peer = 0; peer < r->nrank; peer++)
        CHECK(read_out(r, i, out + (size_t)peer * i->count, i->count, streams[peer]));
    return 0;
}

static ncclResult_t call_one(struct rank *r, const struct item *i, float *in, float *out, cudaStream_t stream)
{
    if (i->what == SUM)
        return ncclAllReduce(in, i->inplace ? in : out, i->count, ncclFloat, ncclSum, r->comm, stream);
    if (i->what == GATHER)
        return ncclAllGather(in, out, i->count, ncclFloat, r->comm, stream);
    return ncclReduceScatter(in, out, i->count, ncclFloat, ncclSum, r->comm, stream);
}

static int call(struct rank *r, const struct item *i, float *in, float *out)
{
    const int rank = r->rank;

    if (i->what == GROUP)
        return sum_many(r, i, in, out);
    if (i->what == EXCHANGE)
        return exchange(r, i, in, out);
    cudaStream_t stream = draw_stream(r, i);
    CHECK(write_in(r, i, in, ROOM, stream));
    OK(call_one(r, i, in, out, stream));
    CHECK(read_out(r, i, out, ROOM, stream));
    return 0;
}

/* Twice, on branches of one graph, which are of this rank's choice. */
static int capture(struct rank *r, const struct item *i, float *in, float *out)
{
    const int rank = r->rank;
    void *graph, *exec;

    CHECK(gpu.capture_begin(r->streams[0], capture_mode) == 0);
    for (int s = 1; s < STREAMS; s++)
        CHECK(gpu_follow(r->streams[s], r->streams[0]));
    for (int n = i->what == SUM && i->inplace ? 1 : 2; n > 0; n--)
        CHECK(call(r, i, in, out) == 0);
    for (int s = 1; s < STREAMS; s++)
        CHECK(gpu_follow(r->streams[0], r->streams[s]));
    CHECK(gpu.capture_end(r->streams[0], &graph) == 0 && gpu.instantiate(&exec, graph, 0) == 0);
    for (int n = i->what == SUM && i->inplace ? 1 : 3; n > 0; n--)
        CHECK(gpu.launch(exec, r->streams[0]) == 0);
    CHECK(gpu.synchronize(r->streams[0]) == 0); /* before what comes on other streams */
    CHECK(gpu.exec_destroy(exec) == 0 && gpu.graph_destroy(graph) == 0);
    return 0;
}

static float want(const struct rank *r, const struct item *i, int item, size_t at)
{
    const size_t block = at / i->count, inside = at % i->count;
    float sum = 0;

    if (i->what == GATHER)
        return value((int)block, item, inside);
    if (i->what == EXCHANGE)
        return value((int)block, item, (size_t)r->rank * i->count + inside);
    for (int rank = 0; rank < r->nrank; rank++)
        sum += value(rank, item, i->what == SCATTER ? (size_t)r->rank * i->count + at : at);
    return sum;
}

static int judge(struct rank *r, const struct item *items)
{
    const int rank = r->rank;

    for (int k = 0; k < ITEMS; k++) {
        const struct item *i = &items[k];
        const bool parts = i->what == GATHER || i->what == EXCHANGE;
        const size_t n = parts ? (size_t)r->nrank * i->count : i->count * i->ntensor;
        const float *from = i->what == SUM && i->inplace ? r->g.in : r->g.out;
        CHECK(gpu_get(r->g.host, from + k * ROOM, n * sizeof(float), r->g.stream));
        for (size_t at = 0; at < n; at++) {
            const unsigned t = (unsigned)(at / i->count);
            if (i->what == GROUP && at % i->count >= i->count - t % i->count)
                continue; /* between its tensors */
            if (r->g.host[at] != want(r, i, k, at)) {
                fprintf(stderr, "rank %d: item %d (kind %d%s), element %zu of %zu: %g, not %g\n", rank, k, (int)i->what,
                        i->captured ? ", captured" : "", at, n, (double)r->g.host[at], (double)want(r, i, k, at));
                return 1;
            }
        }
    }
    return 0;
}

static int play(ncclComm_t *comm, int rank, int nrank)
{
    uint64_t state = seed;
    struct item items[ITEMS];
    struct gpu_rank more[STREAMS - 1];
    struct rank r = { .rank = rank, .nrank = nrank, .own = seed * 31 + (uint64_t)rank };

    CHECK(gpu_use(0) && gpu_begin(&r.g, ITEMS * ROOM));
    OK(ncclCommInitRank(comm, nrank, ranks_id[0], rank));
    r.comm = *comm;
    CHECK((r.read = gpu_pinned(ITEMS * ROOM * sizeof *r.read)) != NULL);
    r.streams[0] = r.g.stream; /* and the last one is CUDA's default */
    for (int i = 0; i < STREAMS - 1; i++) {
        CHECK(gpu_begin(&more[i], 1));
        r.streams[1 + i] = more[i].stream;
    }
    for (int k = 0; k < ITEMS; k++)
        for (size_t i = 0; i < ROOM; i++)
            r.g.host[k * ROOM + i] = value(rank, k, i);
    CHECK(gpu_put(r.g.in, r.g.host, ITEMS * ROOM * sizeof(float), r.g.stream) && gpu.synchronize(r.g.stream) == 0);
    for (int k = 0; k < ITEMS; k++) {
        items[k] = draw_item(&state);
        float *in = r.g.in + k * ROOM, *out = r.g.out + k * ROOM;
        for (int i = 0; items[k].captured && i <= STREAMS; i++)
            CHECK(gpu.synchronize(r.streams[i]) == 0); /* graphs are not ordered behind what is on other streams */
        if (items[k].captured ? capture(&r, &items[k], in, out) != 0 : call(&r, &items[k], in, out) != 0)
            return 1;
    }
    for (int i = 0; i <= STREAMS; i++)
        CHECK(gpu.synchronize(r.streams[i]) == 0);
    const int failed = judge(&r, items);
    CHECK(gpu.free_pinned(r.read) == 0);
    CHECK(gpu_end(&r.g));
    for (int i = 0; i < STREAMS - 1; i++)
        CHECK(gpu_end(&more[i]));
    return failed;
}

static void random_programs_come_to_what_they_must(void **state)
{
    static const int shapes[][2] = { { 1, 1 }, { 1, 2 }, { 1, 3 }, { 1, 4 }, { 2, 1 }, { 2, 2 } };
    static char standin[64], delay[64], fusion[64];
    static const char *const environment[] = { standin, delay, fusion, NULL };
    const char *one = getenv("PLAIT_SEED");
    const uint64_t last = one != NULL ? strtoull(one, NULL, 0) : full() ? 2000 : light() ? 18 : 40;

    for (seed = one != NULL ? last : 1; seed <= last; seed++) {
        const int *shape = shapes[seed % (sizeof shapes / sizeof *shapes)];
        capture_mode = shape[1] > 1 ? CAPTURE_ALONE : 0;
        snprintf(standin, sizeof standin, "PLAIT_STANDIN_SEED=%llu", (unsigned long long)seed);
        snprintf(delay, sizeof delay, "PLAIT_STANDIN_DELAY=%llu", (unsigned long long)(seed % 4 * 20));
        snprintf(fusion, sizeof fusion, "PLAIT_NCCL_FUSION=%u", seed % 3 == 0 ? 3000 : 1 << 20);
        if (gpu_ranks_run((struct ranks){
                .nprocess = shape[0], .nthread = shape[1], .body = play, .environment = environment }) != 0)
            fail_msg("PLAIT_SEED=%llu", (unsigned long long)seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_programs_come_to_what_they_must),
    };

    if (getenv("PLAIT_CUDA_DRIVER") == NULL)
        return 77;
    return cmocka_run_group_tests_name("random programs of nccl on a GPU", tests, NULL, NULL);
}
