/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures what a GPU is used for, and prints rows of a table: what, figure, what was wanted. For tools/gpu-check.
 *
 *   cuda_figures TENSORS.csv [--mps] [--small]     --mps: all-reduce of processes alone, whose rows say "with MPS";
 *                                                  --small: only to see that it runs; its figures say nothing
 *
 * A fraction is that of the bandwidth of the device's own copy in the same run, bytes read and written both counted; of
 * ranks' operations those that must be.
 */
#include "../child.h"
#include "../ranks.h"
#include "base/clock.h"
#include "device.h"
#include "gpu_kernels.h"

#include "../../common/tensors.h"

#include <plait/coll.h>
#include <plait/fusion.h>
#include <plait/memory.h>
#include <plait/stream.h>

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define LEAST 0.1 /* seconds of a measurement */

static bool small, mps;
static struct tensors tensors;

static struct shared { /* between processes */
    double copy;       /* bytes per second */
} * shared;

static void row(const char *what, const char *wanted, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void row(const char *what, const char *wanted, const char *format, ...)
{
    char figure[128];
    va_list args;

    va_start(args, format);
    vsnprintf(figure, sizeof figure, format, args);
    va_end(args);
    printf("| %s | %s | %s |\n", what, figure, wanted);
    fflush(stdout);
}

/* ---- Kernels ------------------------------------------------------------------------------------------------- */

/* Seconds of one of many runs; negative: it failed. */
static double time_of(bool (*put)(void *context), void *context)
{
    unsigned n = 1;

    if (!put(context) || !gpu_wait())
        return -1;
    for (;; n *= 2) {
        const double start = plait_clock();
        for (unsigned i = 0; i < n; i++)
            if (!put(context))
                return -1;
        if (!gpu_wait())
            return -1;
        const double took = plait_clock() - start;
        if (took > LEAST || small)
            return took / n;
    }
}

static bool put_copy(void *context)
{
    const struct room *r = context;

    return gpu_copy(r->device, r->device + r->bytes / 2, r->bytes / 2);
}

static void measure_copy(size_t bytes)
{
    struct room r;
    char what[64];

    if (!room_make(&r, 2 * bytes))
        exit(1);
    const double t = time_of(put_copy, &r);
    shared->copy = 2.0 * (double)bytes / t;
    snprintf(what, sizeof what, "device-to-device copy of %zu MiB", bytes >> 20);
    row(what, "", "%.0f GB/s", shared->copy / 1e9);
    room_free(&r);
}

struct launch {
    enum plait_cuda_kernel kernel;
    unsigned blocks;
    const void *argument;
};

static bool put_launch(void *context)
{
    const struct launch *l = context;

    return gpu_launch(l->kernel, l->blocks, l->argument);
}

static void fraction(const char *what, const char *wanted, double bytes, double seconds)
{
    if (seconds <= 0)
        exit(1);
    row(what, wanted, "%.0f GB/s, %.0f %%", bytes / seconds / 1e9, 100 * bytes / seconds / shared->copy);
}

static void measure_reduce(enum plait_dtype type, uint32_t nsrc, size_t bytes)
{
    const uint32_t size = (uint32_t)plait_dtype_size(type);
    const struct plait_cuda_item item = { .count = bytes / size, .times = 1 };
    struct plait_cuda_list a = { .op = PLAIT_SUM };
    struct launch l = { (enum plait_cuda_kernel)type, 0, &a };
    const void *src[8];
    struct room r;
    char what[96];

    if (!room_make(&r, (nsrc + 1) * bytes))
        exit(1);
    void *const dst = (void *)(uintptr_t)r.device;
    for (uint32_t s = 0; s < nsrc; s++)
        src[s] = (void *)(uintptr_t)(r.device + (s + 1) * bytes);
    plait_cuda_list_add(&a, size, src, nsrc, &dst, 1, &item);
    l.blocks = plait_cuda_list_cut(&a, size, gpu_most_blocks());
    snprintf(what, sizeof what, "sum of %u sources, %s, %zu KiB each", nsrc, plait_dtype_name(type), bytes >> 10);
    fraction(what, bytes >= 16 << 20 ? "85 %" : "", (double)(nsrc + 1) * (double)bytes, time_of(put_launch, &l));
    room_free(&r);
}

/* float32 tensors to a payload of bfloat16 and back. */
static void measure_pack(void)
{
    uint64_t n = 0, npiece = 0, at = 0;

    for (uint32_t t = 0; t < tensors.n; t++) {
        n += tensors.count[t];
        npiece += plait_cuda_npiece(tensors.count[t]);
    }
    const size_t tables = tensors.n * sizeof(struct plait_cuda_tensor) + npiece * sizeof(struct plait_cuda_piece);
    struct room r;
    if (!room_make(&r, n * 6 / 16 * 16 + 64 + tables))
        exit(1);
    const size_t table = n * 6 / 16 * 16 + 64;
    struct plait_cuda_tensor *list = (void *)(r.host + table);
    struct plait_cuda_piece *pieces = (void *)(list + tensors.n), *end = pieces;
    for (uint32_t t = 0; t < tensors.n; t++) {
        list[t] = (struct plait_cuda_tensor){ .data = (void *)(uintptr_t)(r.device + at * 4),
                                              .at = at,
                                              .type = PLAIT_FLOAT32 };
        at += tensors.count[t];
        end = plait_cuda_cut(end, t, tensors.count[t]);
    }
    const struct plait_cuda_pack a = { .tensors = (void *)(uintptr_t)(r.device + table),
                                       .pieces =
                                           (void *)(uintptr_t)(r.device + table + ((char *)pieces - (char *)list)),
                                       .payload = (void *)(uintptr_t)(r.device + n * 4 / 16 * 16),
                                       .factor = 0.5,
                                       .npiece = (uint32_t)npiece,
                                       .type = PLAIT_BFLOAT16 };
    struct launch l = { PLAIT_CUDA_KERNEL_plait_pack, plait_cuda_piece_blocks((uint32_t)npiece), &a };
    char what[96];
    if (!room_copy_in(&r, table, tables))
        exit(1);
    snprintf(what, sizeof what, "pack of %u tensors, float32 to bfloat16", tensors.n);
    fraction(what, "85 %", 6.0 * (double)n, time_of(put_launch, &l));
    l.kernel = PLAIT_CUDA_KERNEL_plait_unpack;
    snprintf(what, sizeof what, "unpack of %u tensors, bfloat16 to float32", tensors.n);
    fraction(what, "85 %", 6.0 * (double)n, time_of(put_launch, &l));
    room_free(&r);
}

static bool put_step(void *context)
{
    struct plait_cuda_optim *a = context;
    const unsigned blocks = plait_cuda_piece_blocks(a->npiece);

    return gpu_launch(PLAIT_CUDA_KERNEL_plait_optim_squares, blocks, a) &&
           gpu_launch(PLAIT_CUDA_KERNEL_plait_optim_trust, 1, a) &&
           gpu_launch(PLAIT_CUDA_KERNEL_plait_optim_update, blocks, a);
}

/* LARS: gradients and masters are read twice, momenta once; masters and momenta written. */
static void measure_step(void)
{
    uint64_t n = 0, npiece = 0, at = 0;
    struct room r;
    char what[96];

    for (uint32_t t = 0; t < tensors.n; t++) {
        n += tensors.count[t];
        npiece += plait_cuda_npiece(tensors.count[t]);
    }
    const size_t parts_at = (n * 12 + 63) / 64 * 64, pieces_at = parts_at + tensors.n * sizeof(struct plait_cuda_part),
                 ranges_at = pieces_at + npiece * sizeof(struct plait_cuda_piece),
                 left_at = (ranges_at + tensors.n * sizeof(struct plait_cuda_range) + 63) / 64 * 64,
                 each = (npiece + 2 * tensors.n + 64) * sizeof(double);
    if (!room_make(&r, left_at + 5 * each))
        exit(1);
    struct plait_cuda_part *parts = (void *)(r.host + parts_at);
    struct plait_cuda_piece *pieces = (void *)(r.host + pieces_at), *end = pieces;
    struct plait_cuda_range *ranges = (void *)(r.host + ranges_at);
    char *const base = (char *)(uintptr_t)r.device;
    for (uint32_t t = 0; t < tensors.n; t++) {
        parts[t] = (struct plait_cuda_part){ .gradient = base + at * 4,
                                             .master = (float *)(void *)(base + (n + at) * 4),
                                             .momentum = (float *)(void *)(base + (2 * n + at) * 4),
                                             .type = PLAIT_FLOAT32,
                                             .tensor = t };
        ranges[t].first = (uint32_t)(end - pieces);
        end = plait_cuda_cut(end, t, tensors.count[t]);
        ranges[t].count = (uint32_t)(end - pieces) - ranges[t].first;
        at += tensors.count[t];
    }
    struct plait_cuda_optim a = { .parts = (void *)(base + parts_at),
                                  .pieces = (void *)(base + pieces_at),
                                  .ranges = (void *)(base + ranges_at),
                                  .gradient_squares = (void *)(base + left_at),
                                  .weight_squares = (void *)(base + left_at + each),
                                  .sums = (void *)(base + left_at + 2 * each),
                                  .updates = (void *)(base + left_at + 3 * each),
                                  .result = (void *)(base + left_at + 4 * each),
                                  .step = { .lr = 1e-3, .factor = 1, .decay = 1e-4 },
                                  .momentum = 0.9,
                                  .decay = 1e-4,
                                  .eta = 0.001,
                                  .eps = 1e-9,
                                  .norm_decay = -1,
                                  .lars = 1,
                                  .what = PLAIT_CUDA_ADD | PLAIT_CUDA_TRUST,
                                  .npart = tensors.n,
                                  .npiece = (uint32_t)npiece,
                                  .ntensor = tensors.n };
    if (!room_copy_in(&r, parts_at, left_at - parts_at))
        exit(1);
    const double seconds = time_of(put_step, &a);
    snprintf(what, sizeof what, "LARS over %u tensors, three launches: %.0f us", tensors.n, seconds * 1e6);
    fraction(what, "85 %", 28.0 * (double)n, seconds);
    room_free(&r);
}

static int measure_kernels(struct plait_comm **comm, uint32_t rank, void *arg)
{
    static const size_t bytes[] = { 1 << 20, 16 << 20, 256 << 20 };

    (void)comm, (void)rank, (void)arg;
    if (!gpu_open())
        return 1;
    measure_copy(small ? 1 << 16 : 256 << 20);
    for (unsigned i = 0; i < 3; i++) {
        const size_t b = small ? 1 << 14 : bytes[i];
        measure_reduce(PLAIT_FLOAT32, 2, b);
        measure_reduce(PLAIT_BFLOAT16, 2, b);
        measure_reduce(PLAIT_FLOAT32, 8, b);
    }
    measure_pack();
    measure_step();
    return 0;
}

/* ---- Collectives ----------------------------------------------------------------------------------------------- */

struct timing {
    double each, enqueue; /* seconds of an operation; of them in the call */
};

static enum plait_status call_once(struct plait_comm *comm, const struct device_rank *d, enum plait_coll coll,
                                   size_t bytes)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    const size_t n = bytes / sizeof(float), part = n / plait_comm_nrank(comm);

    call.stream = d->stream;
    switch (coll) {
    case PLAIT_ALLGATHER:
        return plait_allgather(comm, d->in, d->out, part, PLAIT_FLOAT32, &call);
    case PLAIT_REDUCE_SCATTER:
        return plait_reduce_scatter(comm, d->in, d->out, part, PLAIT_FLOAT32, PLAIT_SUM, &call);
    case PLAIT_ALLTOALL:
        return plait_alltoall(comm, d->in, d->out, part, PLAIT_FLOAT32, &call);
    default:
        return plait_allreduce(comm, d->in, d->out, n, PLAIT_FLOAT32, PLAIT_SUM, &call);
    }
}

/* All tensors' gradients in turn, in d->in; fused, if there is a fusion. */
static char *gradient(const struct device_rank *d, uint32_t tensor)
{
    size_t at = 0;

    for (uint32_t t = 0; t < tensor; t++)
        at += (tensors.count[t] + 15) / 16 * 64;
    return d->in + at;
}

static enum plait_status sum_tensors(struct plait_comm *comm, const struct device_rank *d, struct plait_fusion *fusion)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    enum plait_status status = PLAIT_OK;

    call.stream = d->stream;
    for (uint32_t t = 0; t < tensors.n && status == PLAIT_OK; t++) {
        char *const at = gradient(d, t);
        status = fusion != NULL ? plait_fusion_ready(fusion, t)
                                : plait_allreduce(comm, at, at, tensors.count[t], PLAIT_FLOAT32, PLAIT_SUM, &call);
    }
    return fusion == NULL || status != PLAIT_OK ? status : plait_fusion_wait_all(fusion, NULL);
}

struct work { /* what is measured: a collective, perhaps in a graph; or all tensors, perhaps by a fusion */
    enum plait_coll coll;
    size_t bytes; /* 0: all tensors */
    void *exec;
    struct plait_fusion *fusion;
};

static bool do_once(struct plait_comm *comm, const struct device_rank *d, const struct work *w)
{
    if (w->exec != NULL)
        return device.launch(w->exec, d->cuda) == 0;
    return (w->bytes > 0 ? call_once(comm, d, w->coll, w->bytes) : sum_tensors(comm, d, w->fusion)) == PLAIT_OK;
}

/* n times; the slowest rank's time. */
static int run_many(struct plait_comm *comm, uint32_t rank, const struct device_rank *d, const struct work *w,
                    unsigned n, struct timing *out)
{
    double mine[2], worst[2];

    CHECK(plait_barrier(comm, NULL) == PLAIT_OK);
    const double start = plait_clock();
    for (unsigned i = 0; i < n; i++)
        CHECK(do_once(comm, d, w));
    mine[1] = (plait_clock() - start) / n;
    CHECK(device.stream_synchronize(d->cuda) == 0);
    mine[0] = (plait_clock() - start) / n;
    CHECK(plait_allreduce(comm, mine, worst, 2, PLAIT_FLOAT64, PLAIT_MAX, NULL) == PLAIT_OK);
    *out = (struct timing){ worst[0], worst[1] };
    return 0;
}

static int measure(struct plait_comm *comm, uint32_t rank, const struct device_rank *d, struct work w,
                   struct timing *out)
{
    if (run_many(comm, rank, d, &w, 4, out) != 0 || run_many(comm, rank, d, &w, 4, out) != 0)
        return 1;
    if (small || out->each * 4 >= LEAST)
        return 0;
    return run_many(comm, rank, d, &w, (unsigned)(LEAST / out->each) + 1, out);
}

static const char *ranks_are; /* "4 threads" */

static int measure_graph(struct plait_comm *comm, uint32_t rank, const struct device_rank *d, size_t bytes)
{
    void *graph, *exec;
    struct timing t;
    char what[96];

    CHECK(device.capture_begin(d->cuda, CAPTURE_ALONE) == 0);
    CHECK(call_once(comm, d, PLAIT_ALLREDUCE, bytes) == PLAIT_OK);
    CHECK(device.capture_end(d->cuda, &graph) == 0 && device.instantiate(&exec, graph, 0) == 0);
    if (measure(comm, rank, d, (struct work){ PLAIT_ALLREDUCE, bytes, exec, NULL }, &t) != 0)
        return 1;
    snprintf(what, sizeof what, "all-reduce of 8 KiB in a graph, %s", ranks_are);
    if (rank == 0)
        row(what, strcmp(ranks_are, "2 threads") == 0 ? "10 us" : "", "%.1f us", t.each * 1e6);
    CHECK(device.exec_destroy(exec) == 0 && device.graph_destroy(graph) == 0);
    return 0;
}

static int measure_fusion(struct plait_comm *comm, uint32_t rank, const struct device_rank *d)
{
    struct plait_tensor *all = calloc(tensors.n, sizeof *all);
    struct plait_fusion_options o = PLAIT_FUSION_OPTIONS_DEFAULT;
    struct work w = { .bytes = 0 };
    struct timing fused, apart;
    char what[96];

    CHECK(all != NULL);
    for (uint32_t t = 0; t < tensors.n; t++)
        all[t] = (struct plait_tensor){ "gradient", tensors.count[t], PLAIT_FLOAT32, gradient(d, t) };
    o.tensors = all;
    o.ntensor = tensors.n;
    o.stream = d->stream;
    if (measure(comm, rank, d, w, &apart) != 0)
        return 1;
    CHECK(plait_fusion_create(comm, &o, &w.fusion) == PLAIT_OK);
    if (measure(comm, rank, d, w, &fused) != 0)
        return 1;
    snprintf(what, sizeof what, "all-reduce of %u tensors, fused, %s", tensors.n, ranks_are);
    if (rank == 0)
        row(what, "3 times", "%.0f us, %.1f times as fast as one by one", fused.each * 1e6, apart.each / fused.each);
    CHECK(plait_fusion_destroy(w.fusion) == PLAIT_OK);
    free(all);
    return 0;
}

/* What must be read and written at least, over the bytes of a call_once(). */
static double moved(enum plait_coll coll, double nrank)
{
    return coll == PLAIT_ALLGATHER || coll == PLAIT_REDUCE_SCATTER ? nrank + 1 : 2 * nrank;
}

static int measure_ranks(struct plait_comm **comm, uint32_t rank, void *arg)
{
    static const enum plait_coll colls[] = { PLAIT_ALLREDUCE, PLAIT_ALLGATHER, PLAIT_REDUCE_SCATTER, PLAIT_ALLTOALL };
    static const size_t sizes[] = { 64, 8 << 10, 1 << 20, 16 << 20, 256 << 20 };
    const double nrank = plait_comm_nrank(*comm);
    const bool sums_only = *(const bool *)arg;
    const size_t most = small ? 1 << 16 : sizes[sums_only ? 3 : 4];
    const bool threads = strstr(ranks_are, "threads") != NULL;
    struct device_rank d;
    struct timing t;
    char what[96];

    CHECK(device_begin(&d, most));
    for (unsigned k = 0; k < (sums_only ? 1 : sizeof colls / sizeof *colls); k++)
        for (unsigned i = 0; i < sizeof sizes / sizeof *sizes && sizes[i] <= most; i++) {
            const double bytes = (double)sizes[i];
            if (measure(*comm, rank, &d, (struct work){ colls[k], sizes[i], NULL, NULL }, &t) != 0)
                return 1;
            if (rank != 0)
                continue;
            snprintf(what, sizeof what, "%s of %zu bytes, %s", plait_coll_name(colls[k]), sizes[i], ranks_are);
            if (sizes[i] == 256 << 20)
                row(what, threads ? "85 %" : "", "%.0f us, %.0f %%", t.each * 1e6,
                    100 * moved(colls[k], nrank) * bytes / shared->copy / t.each);
            else
                row(what,
                    sizes[i] == 8 << 10 && nrank == 2 && k == 0 ? (threads ? "10 us"
                                                                   : mps   ? "30 us"
                                                                           : "310 us")
                                                                : "",
                    "%.1f us, %.1f us in the call", t.each * 1e6, t.enqueue * 1e6);
        }
    if (!sums_only && measure_graph(*comm, rank, &d, 8 << 10) != 0)
        return 1;
    if (!sums_only && nrank <= 4 && measure_fusion(*comm, rank, &d) != 0)
        return 1;
    CHECK(device_end(&d));
    return 0;
}

/* ---- All ------------------------------------------------------------------------------------------------------- */

/* sums_only: of the collectives only all-reduce */
static bool run(uint32_t nprocess, uint32_t nthread, int (*body)(struct plait_comm **, uint32_t, void *), bool no_comm,
                bool sums_only)
{
    struct ranks r = { .nprocess = nprocess,
                       .nthread = nthread,
                       .limit = 60,
                       .body = body,
                       .arg = &sums_only,
                       .processes = true,
                       .no_comm = no_comm };
    char name[48];

    snprintf(name, sizeof name, "%u %s%s", nprocess * nthread, nprocess > 1 ? "processes" : "threads",
             mps ? " with MPS" : "");
    ranks_are = name;
    const unsigned failed = ranks_run(&r);
    if (failed > 0)
        fprintf(stderr, "%u of %s failed\n", failed, name);
    return failed == 0;
}

int main(int argc, char **argv)
{
    bool right;

    for (int i = 2; i < argc; i++) {
        small = small || strcmp(argv[i], "--small") == 0;
        mps = mps || strcmp(argv[i], "--mps") == 0;
    }
    if (argc < 2 || !tensors_read(argv[1], &tensors))
        return 2;
    for (uint32_t t = 0; t < tensors.n && small; t++)
        tensors.count[t] = 1 + t;
    shared = shared_memory(sizeof *shared);
    right = mps || run(1, 1, measure_kernels, true, false);
    for (uint32_t n = 2; n <= 8 && !mps; n *= 2)
        right = run(1, n, measure_ranks, false, false) && right;
    for (uint32_t n = 2; n <= (mps ? 4 : 8); n *= 2)
        right = run(n, 1, measure_ranks, false, mps || n == 8) && right;
    tensors_finish(&tensors);
    return right ? 0 : 1;
}
