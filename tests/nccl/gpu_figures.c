/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures groups of libnccl.so.2's on a GPU and prints rows of a table, as tests/cuda/figures.c does. For tools/gpu-check.
 *
 *   nccl_figures TENSORS.csv [--small]     --small: only to see that it runs; its figures say nothing
 */
#include "gpu.h"

#include "../../common/tensors.h"

#include <string.h>
#include <time.h>

#define LEAST 0.1 /* seconds of a measurement */

static bool small;
static struct tensors tensors;

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Of a tensor in memory of all, which begins at 64 bytes. */
static size_t next(size_t at, uint32_t tensor)
{
    return at + (tensors.count[tensor] + 15) / 16 * 16;
}

static int sum_all(ncclComm_t comm, int rank, const struct gpu_rank *g, bool group)
{
    size_t at = 0;

    if (group)
        OK(ncclGroupStart());
    for (uint32_t t = 0; t < tensors.n; at = next(at, t), t++)
        OK(ncclAllReduce(g->in + at, g->in + at, tensors.count[t], ncclFloat, ncclSum, comm, g->stream));
    if (group)
        OK(ncclGroupEnd());
    return 0;
}

/* The slowest rank's seconds for all tensors. */
static int measure(ncclComm_t comm, int rank, const struct gpu_rank *g, bool group, double *out)
{
    double mine, worst;

    if (sum_all(comm, rank, g, group) != 0)
        return 1;
    for (int n = 2;; n *= 2) {
        CHECK(gpu.synchronize(g->stream) == 0);
        OK(ncclAllReduce(&(double){ 0 }, &mine, 1, ncclDouble, ncclMax, comm, NULL)); /* they begin together */
        const double start = now();
        for (int i = 0; i < n; i++)
            if (sum_all(comm, rank, g, group) != 0)
                return 1;
        CHECK(gpu.synchronize(g->stream) == 0);
        mine = (now() - start) / n;
        OK(ncclAllReduce(&mine, &worst, 1, ncclDouble, ncclMax, comm, NULL));
        *out = worst;
        if (worst * n > LEAST || small)
            return 0;
    }
}

static int measure_group(ncclComm_t *comm, int rank, int nrank)
{
    struct gpu_rank g;
    double alone, group;
    size_t all = 0;

    for (uint32_t t = 0; t < tensors.n; t++)
        all = next(all, t);
    CHECK(gpu_use(0) && gpu_begin(&g, all));
    CHECK(gpu_put(g.in, g.host, all * sizeof(float), g.stream)); /* nothing but 0, whose sums are */
    OK(ncclCommInitRank(comm, nrank, ranks_id[0], rank));
    if (measure(*comm, rank, &g, false, &alone) != 0 || measure(*comm, rank, &g, true, &group) != 0)
        return 1;
    if (rank == 0)
        printf("| libnccl.so.2: a group of all-reduces of %u tensors, %d threads | %.0f us, %.1f times as fast as one "
               "by one | "
               "3 times |\n",
               tensors.n, nrank, group * 1e6, alone / group);
    OK(ncclCommDestroy(*comm));
    *comm = NULL;
    CHECK(gpu_end(&g));
    return 0;
}

int main(int argc, char **argv)
{
    int failed = 0;

    small = argc > 2 && strcmp(argv[2], "--small") == 0;
    if (argc < 2 || !tensors_read(argv[1], &tensors))
        return 2;
    for (uint32_t t = 0; t < tensors.n && small; t++)
        tensors.count[t] = 1 + t;
    for (int n = 2; n <= 4; n *= 2)
        failed += gpu_run(1, n, measure_group);
    tensors_finish(&tensors);
    return failed != 0;
}
