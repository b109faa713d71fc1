/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every collective of 1 to 8 thread ranks and 2 to 4 processes on one GPU, from 64 bytes to 256 MiB, called and in graphs. The
 * light tier has 256 MiB of two ranks only. On the stand-in the vectors are smaller and the ranks fewer.
 */
#include "../ranks.h"
#include "../tier.h"
#include "../unit.h"
#include "device.h"
#include "device_run.h"

#include <plait/coll.h>
#include <plait/plan.h>

#include <stdlib.h>
#include <string.h>

#define APART 1000003u /* between two ranks' elements */

static const enum plait_coll all[] = { PLAIT_ALLREDUCE, PLAIT_REDUCE_SCATTER, PLAIT_ALLGATHER, PLAIT_BROADCAST,
                                       PLAIT_REDUCE,    PLAIT_GATHER,         PLAIT_SCATTER,   PLAIT_ALLTOALL };

static bool with_a_driver(void)
{
    return strstr(getenv("PLAIT_CUDA_DRIVER"), "standin") == NULL;
}

struct vform {
    enum plait_coll coll;
    uint32_t nrank, rank, root;
    size_t block;   /* elements of a rank's part; of an all-reduce, a reduce and a broadcast there are nrank of them */
    uint32_t shift; /* all inputs have that much more */
};

static uint32_t input(const struct vform *s, uint32_t rank, size_t i)
{
    return APART * rank + (uint32_t)i + s->shift;
}

static uint32_t output(const struct vform *s, size_t i)
{
    const size_t b = s->block, first = s->rank * b;
    const uint32_t sums = s->nrank * s->shift + APART * (s->nrank * (s->nrank - 1) / 2);

    switch (s->coll) {
    case PLAIT_REDUCE_SCATTER:
        return s->nrank * (uint32_t)(first + i) + sums;
    case PLAIT_BROADCAST:
        return input(s, s->root, i);
    case PLAIT_SCATTER:
        return input(s, s->root, first + i);
    case PLAIT_ALLGATHER:
    case PLAIT_GATHER:
        return input(s, (uint32_t)(i / b), i % b);
    case PLAIT_ALLTOALL:
        return input(s, (uint32_t)(i / b), first + i % b);
    default: /* all-reduce, reduce */
        return s->nrank * (uint32_t)i + sums;
    }
}

/* Elements of this rank's buffers. */
static size_t out_of(const struct vform *s)
{
    if ((s->coll == PLAIT_REDUCE || s->coll == PLAIT_GATHER) && s->rank != s->root)
        return 0;
    return s->coll == PLAIT_REDUCE_SCATTER || s->coll == PLAIT_SCATTER ? s->block : s->nrank * s->block;
}

static size_t in_of(const struct vform *s)
{
    if ((s->coll == PLAIT_BROADCAST || s->coll == PLAIT_SCATTER) && s->rank != s->root)
        return 0;
    return s->coll == PLAIT_ALLGATHER || s->coll == PLAIT_GATHER ? s->block : s->nrank * s->block;
}

static enum plait_status call(struct plait_comm *comm, const struct device_rank *d, const struct vform *s)
{
    struct plait_call c = PLAIT_CALL_DEFAULT;
    const void *in = in_of(s) > 0 ? d->in : NULL;
    void *out = out_of(s) > 0 ? d->out : NULL;
    const size_t n = s->block * s->nrank;

    c.stream = d->stream;
    switch (s->coll) {
    case PLAIT_REDUCE_SCATTER:
        return plait_reduce_scatter(comm, in, out, s->block, PLAIT_UINT32, PLAIT_SUM, &c);
    case PLAIT_ALLGATHER:
        return plait_allgather(comm, in, out, s->block, PLAIT_UINT32, &c);
    case PLAIT_BROADCAST:
        return plait_broadcast(comm, in, out, n, PLAIT_UINT32, s->root, &c);
    case PLAIT_REDUCE:
        return plait_reduce(comm, in, out, n, PLAIT_UINT32, PLAIT_SUM, s->root, &c);
    case PLAIT_GATHER:
        return plait_gather(comm, in, out, s->block, PLAIT_UINT32, s->root, &c);
    case PLAIT_SCATTER:
        return plait_scatter(comm, in, out, s->block, PLAIT_UINT32, s->root, &c);
    case PLAIT_ALLTOALL:
        return plait_alltoall(comm, in, out, s->block, PLAIT_UINT32, &c);
    default:
        return plait_allreduce(comm, in, out, n, PLAIT_UINT32, PLAIT_SUM, &c);
    }
}

static bool put(const struct device_rank *d, const struct vform *s)
{
    uint32_t *host = (void *)d->host;
    const size_t n = in_of(s);

    for (size_t i = 0; i < n; i++)
        host[i] = input(s, s->rank, i);
    return device_write(d, d->in, host, n * sizeof *host) && device.stream_synchronize(d->cuda) == 0;
}

static int is_right(const struct device_rank *d, const struct vform *s, const char *how)
{
    const uint32_t *host = (void *)d->host;
    const uint32_t rank = s->rank;
    const size_t n = out_of(s);

    CHECK(device_read(d, d->host, d->out, n * sizeof *host) && device.stream_synchronize(d->cuda) == 0);
    for (size_t i = 0; i < n; i++)
        if (host[i] != output(s, i)) {
            fprintf(stderr, "rank %u of %u: %s of blocks of %zu, %s: element %zu is %u, not %u\n", rank, s->nrank,
                    plait_coll_name(s->coll), s->block, how, i, host[i], output(s, i));
            return 1;
        }
    return 0;
}

static int do_all(struct plait_comm *comm, const struct device_rank *d, struct vform *s)
{
    const uint32_t rank = s->rank;
    void *graph, *exec;

    s->shift = 0;
    CHECK(put(d, s) && call(comm, d, s) == PLAIT_OK);
    if (is_right(d, s, "called") != 0)
        return 1;
    CHECK(device.capture_begin(d->cuda, CAPTURE_ALONE) == 0);
    CHECK(call(comm, d, s) == PLAIT_OK);
    CHECK(device.capture_end(d->cuda, &graph) == 0 && device.instantiate(&exec, graph, 0) == 0);
    for (s->shift = 1; s->shift <= 2; s->shift++) {
        CHECK(put(d, s) && device.launch(exec, d->cuda) == 0);
        if (is_right(d, s, "in a graph") != 0)
            return 1;
    }
    CHECK(device.exec_destroy(exec) == 0 && device.graph_destroy(graph) == 0);
    return 0;
}

static int every_size(struct plait_comm **comm, uint32_t rank, void *arg)
{
    static const size_t sizes[] = { 64, 8 << 10, 256 << 10, 1 << 20, 16 << 20, 256 << 20 };
    const uint32_t nrank = plait_comm_nrank(*comm);
    const size_t most = !with_a_driver() ? sizes[2] : !light() || nrank == 2 ? sizes[5] : sizes[4];
    struct device_rank d;

    CHECK(device_begin(&d, most));
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes && sizes[i] <= most; i++)
        for (unsigned k = 0; k < sizeof all / sizeof *all; k++) {
            struct vform s = { all[k], nrank, rank, k % nrank, sizes[i] / sizeof(uint32_t) / nrank, 0 };
            if (do_all(*comm, &d, &s) != 0)
                return 1;
        }
    CHECK(device_end(&d));
    return 0;
}

static void run(uint32_t nprocess, uint32_t nthread)
{
    const struct ranks r = { .nprocess = nprocess, .nthread = nthread, .limit = 200, .body = every_size };

    assert_int_equal(device_ranks_run(&r), 0);
}

static void every_collective_of_threads_called_and_in_graphs(void **state)
{
    for (uint32_t n = 1; n <= 8; n++)
        if (with_a_driver() ? !light() || n <= 3 || n == 8 : n % 3 == 1 || n == 8)
            run(1, n);
}

static void every_collective_of_processes_called_and_in_graphs(void **state)
{
    for (uint32_t n = 2; n <= 4; n++)
        if ((with_a_driver() && !light()) || n != 3)
            run(n, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_collective_of_threads_called_and_in_graphs),
        cmocka_unit_test(every_collective_of_processes_called_and_in_graphs),
    };

    if (getenv("PLAIT_CUDA_DRIVER") == NULL)
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
