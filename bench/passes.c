/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How close the passes over gradients and weights come to the memory's bandwidth: packing, unpacking and the
 * optimiser's step. Each is compared with copies of as many bytes, and with a read and a copy that read and write as
 * many bytes each, in turns. The second shows cores that read more slowly than they copy. A developers' tool, linked
 * with the library's internals.
 */
#include "fusion/pass.h"
#include "option.h"
#include "program.h"
#include "stats.h"
#include "tensors.h"
#include "worker.h"

#include <plait/optim.h>
#include <plait/topology.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { MAX_THREADS = 64 };

static size_t bytes = (size_t)256 << 20; /* of gradients in float32, of all threads together */
static uint32_t threads = 2, rounds = 9;
static const char *tensors_file, *isa = "", *only = "";

struct member {
    double took; /* processor seconds */
    const struct plait_kernels *k;
    pthread_t thread;
    size_t n; /* elements of each array */
    float *a, *b, *c;
    volatile double sink;
    uint16_t *half, *half2;
    struct plait_optim *optim;
    struct plait_optim_step step;
};

/* ---- What is measured ------------------------------------------------------------------------------------- */

static void copy_stream(struct member *h, size_t traffic)
{
    h->k->stream(h->a, h->b, traffic / 2);
    h->k->stream_end();
}

static void copy_memcpy(struct member *h, size_t traffic)
{
    memcpy(h->a, h->b, traffic / 2);
}

/* The simplest read: whole lines, four streams at once. */
static void read_lines(struct member *h, size_t traffic)
{
    const size_t quarter = traffic / 4 / 64 * 8; /* of 8 bytes */
    const uint64_t *x = (const uint64_t *)h->b;
    uint64_t sum = 0;

    for (size_t i = 0; i < quarter; i += 8)
        sum += x[i] + x[quarter + i] + x[2 * quarter + i] + x[3 * quarter + i];
    h->sink = (double)sum;
}

static void convert(struct member *h, void *to, enum plait_dtype to_type, void *from, enum plait_dtype from_type,
                    double factor, bool look)
{
    const struct plait_vector t = { to, to_type }, f = { from, from_type };
    double square;

    plait_pass(h->k, t, f, h->n, factor, true, look ? &square : NULL);
}

static void pack_f16(struct member *h)
{
    convert(h, h->half, PLAIT_FLOAT16, h->b, PLAIT_FLOAT32, 0.5, false);
}

static void pack_bf16(struct member *h)
{
    convert(h, h->half, PLAIT_BFLOAT16, h->b, PLAIT_FLOAT32, 0.5, false);
}

static void pack_f32(struct member *h)
{
    convert(h, h->a, PLAIT_FLOAT32, h->b, PLAIT_FLOAT32, 0.5, false);
}

static void unpack_f16(struct member *h)
{
    convert(h, h->a, PLAIT_FLOAT32, h->half, PLAIT_FLOAT16, 0.5, true);
}

static void unpack_bf16(struct member *h)
{
    convert(h, h->a, PLAIT_FLOAT32, h->half, PLAIT_BFLOAT16, 0.5, true);
}

static void unpack_f32(struct member *h)
{
    convert(h, h->a, PLAIT_FLOAT32, h->b, PLAIT_FLOAT32, 0.5, true);
}

static void squares(struct member *h)
{
    h->sink = plait_pass_squares(h->k, h->b, PLAIT_FLOAT32, h->n);
}

static void optim(struct member *h)
{
    struct plait_optim_result result;

    if (plait_optim_step(h->optim, &h->step, &result) != PLAIT_OK || !result.finite) {
        fprintf(stderr, "plait-perf-passes: %s\n", plait_last_error());
        exit(1);
    }
}

/*
 * LARS reads, per element: master and gradient for the squares, then gradient, master and momentum. It writes all but
 * the gradient, and the copy.
 */
static const struct pass {
    const char *name;
    void (*run)(struct member *h);
    size_t reads, writes;        /* bytes for each element */
    enum plait_dtype type, copy; /* optimiser: gradients; copy or PLAIT_NDTYPE */
    bool squares;                /* optimiser: squares are known */
} passes[] = {
    { "pack: float32 to float16, scaled", pack_f16, 4, 2 },
    { "pack: float32 to bfloat16, scaled", pack_bf16, 4, 2 },
    { "pack: float32 to float32, scaled", pack_f32, 4, 4 },
    { "unpack: float16 to float32, scaled, checked", unpack_f16, 2, 4 },
    { "unpack: bfloat16 to float32, scaled, checked", unpack_bf16, 2, 4 },
    { "unpack: float32 to float32, scaled, checked", unpack_f32, 4, 4 },
    { "squares of float32: read only", squares, 4, 0 },
    { "LARS: gradients and copy float16", optim, 4 + 2 + 2 + 8, 8 + 2, PLAIT_FLOAT16, PLAIT_FLOAT16, false },
    { "LARS: gradients float32, copy float16", optim, 4 + 4 + 4 + 8, 8 + 2, PLAIT_FLOAT32, PLAIT_FLOAT16, false },
    { "LARS: gradients float32, no copy", optim, 4 + 4 + 4 + 8, 8, PLAIT_FLOAT32, PLAIT_NDTYPE, false },
    { "LARS: gradients float32, squares known", optim, 4 + 8, 8, PLAIT_FLOAT32, PLAIT_NDTYPE, true },
};

/* ---- Threads ---------------------------------------------------------------------------------------------- */

static struct team {
    struct member members[MAX_THREADS];
    uint32_t n;
    pthread_barrier_t begin, end;
    const struct pass *pass;                         /* NULL: plain */
    void (*plain)(struct member *h, size_t traffic); /* of `traffic` bytes for each element */
    size_t traffic;
    bool over;
} team;

/* Processor time of this thread, which other programs disturb less. */
static double own_time(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *member_main(void *argument)
{
    struct member *h = argument;

    double start;

    worker_pin((uint32_t)(h - team.members));
    for (;;) {
        pthread_barrier_wait(&team.begin);
        if (team.over)
            return NULL;
        start = own_time();
        if (team.pass != NULL)
            team.pass->run(h);
        else
            team.plain(h, team.traffic * h->n);
        h->took = own_time() - start;
        pthread_barrier_wait(&team.end);
    }
}

/* Run once on all threads; the longest time. */
static double together(void)
{
    double longest = 0;

    pthread_barrier_wait(&team.begin);
    pthread_barrier_wait(&team.end);
    for (uint32_t i = 0; i < team.n; i++)
        longest = team.members[i].took > longest ? team.members[i].took : longest;
    return longest;
}

static double timed(const struct pass *pass)
{
    team.pass = pass;
    return together();
}

static double timed_plain(void (*plain)(struct member *h, size_t traffic), size_t traffic)
{
    team.pass = NULL;
    team.plain = plain;
    team.traffic = traffic;
    return together();
}

/* ---- Memory ----------------------------------------------------------------------------------------------- */

static void *take(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED) {
        perror("plait-perf-passes: memory");
        exit(1);
    }
    madvise(memory, size, MADV_HUGEPAGE);
    memset(memory, 0, size);
    return memory;
}

static void fill(struct member *h)
{
    for (size_t i = 0; i < h->n; i++) {
        h->b[i] = (float)(i % 251) / 256 - 0.4f;
        h->c[i] = (float)(i % 127) / 128 - 0.4f;
    }
    h->k->narrow[PLAIT_FLOAT16](h->half, h->b, h->n, 1);
}

static void member_init(struct member *h, const struct plait_kernels *k, size_t n)
{
    const size_t room = n * sizeof(float) * 4 + 4096; /* a copy may move more than the arrays hold */

    *h = (struct member){ .k = k, .n = n, .step = PLAIT_OPTIM_STEP_DEFAULT };
    h->a = take(room);
    h->b = take(room);
    h->c = take(n * sizeof(float));
    h->half = take(n * sizeof(uint16_t));
    h->half2 = take(n * sizeof(uint16_t));
    h->step.lr = 0.01;
    fill(h);
}

/* As many tensors of the list as fit, repeated. */
static uint32_t make_parts(struct member *h, const struct tensors *t, const struct pass *pass,
                           struct plait_optim_part *parts)
{
    uint32_t k = 0;

    for (size_t at = 0; at < h->n; k++) {
        const size_t left = h->n - at, wanted = t->n > 0 ? t->count[k % t->n] : left;
        struct plait_optim_part *p = &parts[k];
        *p = (struct plait_optim_part){ .tensor = k, .count = wanted < left ? wanted : left, .type = pass->type };
        p->gradient = pass->type == PLAIT_FLOAT32 ? (void *)(h->b + at) : (void *)(h->half + at);
        p->master = h->c + at;
        p->copy = pass->copy == PLAIT_FLOAT16 ? h->half2 + at : NULL;
        p->copy_type = PLAIT_FLOAT16;
        p->flags = p->count <= 4096 ? PLAIT_OPTIM_PLAIN : 0;
        at += p->count;
    }
    return k;
}

static void make_optim(struct member *h, const struct tensors *t, const struct pass *pass)
{
    static double known[1 << 16];
    struct plait_optim_part *parts = calloc(1 << 16, sizeof *parts);
    struct plait_optim_options o = PLAIT_OPTIM_OPTIONS_DEFAULT;

    if (parts == NULL)
        exit(1);
    o.parts = parts;
    o.npart = o.ntensor = make_parts(h, t, pass, parts);
    for (uint32_t k = 0; k < o.npart; k++)
        known[k] = 1;
    h->step.squares = pass->squares ? known : NULL;
    plait_optim_destroy(h->optim);
    h->optim = NULL;
    if (plait_optim_create(&o, &h->optim) != PLAIT_OK) {
        fprintf(stderr, "plait-perf-passes: %s\n", plait_last_error());
        exit(1);
    }
    free(parts);
}

/* ---- The run ---------------------------------------------------------------------------------------------- */

/*
 * What a pass is compared with. copy: moves as many bytes. mixed: reads and writes as many bytes each; what is read
 * beyond what is written is only read, the rest copied.
 */
struct beside {
    double copy, mixed;
};

static struct beside beside(const struct pass *pass)
{
    const size_t traffic = pass->reads + pass->writes;
    const size_t only_read = pass->reads > pass->writes ? pass->reads - pass->writes : 0;
    const double streamed = timed_plain(copy_stream, traffic), copied = timed_plain(copy_memcpy, traffic);
    const double copy = streamed < copied ? streamed : copied, read = timed_plain(read_lines, only_read);

    return (struct beside){ copy, read + copy * (double)(traffic - only_read) / (double)traffic };
}

static void measure(const struct pass *pass, const struct tensors *t)
{
    const double moved = 1e-9 * (double)(pass->reads + pass->writes) * (double)team.members[0].n * team.n;
    struct series of_copy = { 0 }, of_mixed = { 0 };
    struct beside best = { 1e9, 1e9 };
    double best_pass = 1e9;

    for (uint32_t i = 0; i < team.n && pass->run == optim; i++)
        make_optim(&team.members[i], t, pass);
    for (uint32_t r = 0; r <= rounds; r++) {
        const struct beside b = beside(pass);
        const double took = timed(pass);
        if (r == 0) /* warm-up: pages, caches */
            continue;
        series_add(&of_copy, b.copy / took);
        series_add(&of_mixed, b.mixed / took);
        best_pass = fmin(best_pass, took);
        best = (struct beside){ fmin(best.copy, b.copy), fmin(best.mixed, b.mixed) };
    }
    printf("%u  %-48s %8.2f %8.2f %8.2f  %5.1f %% %5.1f %%  %5.1f %% %5.1f %%\n", team.n, pass->name, moved / best_pass,
           moved / best.copy, moved / best.mixed, 100 * best.copy / best_pass, 100 * median_of(of_copy.x, of_copy.n),
           100 * best.mixed / best_pass, 100 * median_of(of_mixed.x, of_mixed.n));
    fflush(stdout);
    series_finish(&of_copy);
    series_finish(&of_mixed);
}

static void run_threads(uint32_t n, const struct plait_kernels *k, const struct tensors *t)
{
    team.n = n;
    team.over = false;
    pthread_barrier_init(&team.begin, NULL, n + 1);
    pthread_barrier_init(&team.end, NULL, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        member_init(&team.members[i], k, bytes / sizeof(float) / n / 16 * 16);
        if (pthread_create(&team.members[i].thread, NULL, member_main, &team.members[i]) != 0)
            exit(1);
    }
    for (size_t p = 0; p < sizeof passes / sizeof *passes; p++)
        if (strstr(passes[p].name, only) != NULL)
            measure(&passes[p], t);
    team.over = true;
    pthread_barrier_wait(&team.begin);
    for (uint32_t i = 0; i < n; i++) {
        struct member *h = &team.members[i];
        const size_t room = h->n * sizeof(float) * 4 + 4096;
        pthread_join(h->thread, NULL);
        plait_optim_destroy(h->optim);
        munmap(h->a, room);
        munmap(h->b, room);
        munmap(h->c, h->n * sizeof(float));
        munmap(h->half, h->n * sizeof(uint16_t));
        munmap(h->half2, h->n * sizeof(uint16_t));
    }
}

static const struct option options[] = {
    OPTION_TO(BYTES, "bytes", "SIZE", &bytes, "bytes of all gradients, in float32 (256M)"),
    OPTION_TO(COUNT, "threads", "N", &threads, "measure 1 to N threads, each with its part (2)", .least = 1,
              .most = MAX_THREADS),
    OPTION_TO(COUNT, "rounds", "N", &rounds, "measurements of each pass (9)", .least = 1, .most = 10000),
    OPTION_TO(TEXT, "tensors", "FILE", &tensors_file,
              "sizes of the optimiser's tensors, repeated up to --bytes (one tensor)"),
    OPTION_TO(TEXT, "only", "TEXT", &only, "only passes whose names contain TEXT"),
    OPTION_TO(TEXT, "isa", "NAME", &isa, "kernels: scalar, avx2, avx512 (the best)"),
    OPTION_TO(HELP, "help", NULL, NULL, "show this"),
};

static const struct option_table table = {
    "Usage: plait-perf-passes [options]\n\n"
    "Measures passes over gradients and weights, beside a copy that moves as many bytes, and beside a read and a copy\n"
    "that read and write as many each. Prints GB/s read and written in the best round. Then follow the pass's share "
    "of\n"
    "the copy's bandwidth, best and median of the rounds, and the same for read and copy.\n\n"
    "Options:\n",
    NULL, options, sizeof options / sizeof *options, sizeof *options
};

int main(int argc, char **argv)
{
    struct plait_topology topology;
    struct tensors t = { 0 };
    int nrest;

    program_begin("plait-perf-passes");
    if (!option_parse(&table, NULL, NULL, argc, argv, &nrest))
        return 2;
    if (nrest > 0)
        option_misuse("unexpected argument '%s'; see --help", argv[1]);
    const struct plait_kernels *k = plait_kernels_find(isa);
    if (k == NULL)
        option_misuse("--isa %s: this processor or build has no such kernels; leave --isa out", isa);
    if (tensors_file != NULL && !tensors_read(tensors_file, &t))
        return 2;
    setenv("PLAIT_ISA", isa, 1); /* the optimiser's */
    plait_topology_get(&topology);
    printf("# %s, %s kernels, %zu MiB of gradients\n", topology.processor, k->isa, bytes >> 20);
    printf("# threads, pass, GB/s, GB/s of the copy, of read and copy; share of the copy: best, median; of read and "
           "copy\n");
    for (uint32_t n = 1; n <= threads; n++)
        run_threads(n, k, &t);
    tensors_finish(&t);
    return 0;
}
