/* SPDX-License-Identifier: BSD-3-Clause */
#include "machine.h"

#include "base/clock.h"
#include "stats.h"
#include "worker.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* ---- latency ----------------------------------------------------------------------------------- */

#define TRIPS    100 /* round trips per sample */
#define SAMPLES  21
#define PATIENCE 0.02 /* seconds, after which fewer samples must do on a busy machine */

struct table {
    _Alignas(64) _Atomic uint32_t ball;
    _Alignas(64) _Atomic bool over;
    double sample[SAMPLES];
    size_t nsample;
};

static void *player_one(void *argument)
{
    struct table *t = argument;
    const double begin = plait_clock();
    uint32_t turn = 0;

    worker_pin(0);
    for (int i = 0; i < TRIPS; i++, turn += 2) { /* the first trips include the start of the other thread */
        atomic_store_explicit(&t->ball, turn + 1, memory_order_release);
        while (atomic_load_explicit(&t->ball, memory_order_acquire) != turn + 2)
            ;
    }
    while (t->nsample < SAMPLES && (t->nsample < 3 || plait_clock() < begin + PATIENCE)) {
        const double start = plait_clock();
        for (int i = 0; i < TRIPS; i++, turn += 2) {
            atomic_store_explicit(&t->ball, turn + 1, memory_order_release);
            while (atomic_load_explicit(&t->ball, memory_order_acquire) != turn + 2)
                ;
        }
        t->sample[t->nsample++] = (plait_clock() - start) / (2 * TRIPS);
    }
    atomic_store(&t->over, true);
    return NULL;
}

static void *player_two(void *argument)
{
    struct table *t = argument;

    worker_pin(1);
    while (!atomic_load_explicit(&t->over, memory_order_relaxed)) {
        const uint32_t ball = atomic_load_explicit(&t->ball, memory_order_acquire);
        if (ball % 2 == 1)
            atomic_store_explicit(&t->ball, ball + 1, memory_order_release);
    }
    return NULL;
}

double machine_latency(void)
{
    static struct table t;
    pthread_t one, two;

    if (worker_cpus() < 2)
        return 0;
    memset(&t, 0, sizeof t);
    if (pthread_create(&two, NULL, player_two, &t) != 0)
        return 0;
    if (pthread_create(&one, NULL, player_one, &t) == 0)
        pthread_join(one, NULL);
    atomic_store(&t.over, true);
    pthread_join(two, NULL);
    return median_of(t.sample, t.nsample);
}

/* ---- bandwidth --------------------------------------------------------------------------------- */

/* A barrier that spins: the shortest pass takes a microsecond. */
struct spin_barrier {
    _Alignas(64) _Atomic uint32_t arrived;
    _Alignas(64) _Atomic uint32_t generation;
};

static void meet(struct spin_barrier *m, uint32_t n)
{
    const uint32_t generation = atomic_load(&m->generation);

    if (atomic_fetch_add(&m->arrived, 1) + 1 == n) {
        atomic_store(&m->arrived, 0);
        atomic_store(&m->generation, generation + 1);
        return;
    }
    for (uint32_t spins = 0; atomic_load(&m->generation) == generation; spins++)
        if (spins > 10000)
            sched_yield();
}

struct team {
    enum kernel kernel;
    uint32_t nthread;
    size_t floats;   /* floats of each buffer */
    size_t stride;   /* floats from one buffer to the next */
    uint32_t repeat; /* passes between two clock readings */
    double seconds;
    struct spin_barrier barrier;
    float **buffer; /* [nthread] three buffers, or as many as the kernel uses, one behind the other */
    _Atomic bool enough;
    double best; /* seconds of the fastest pass */
};

struct member {
    struct team *team;
    uint32_t index;
    pthread_t thread;
    volatile float sink;
};

#define SHORT ((size_t)1 << 20) /* bytes; smaller passes are repeated up to this, since reading the clock takes time */

#define SKEW 1088 /* bytes between buffers; at a multiple of 4096 loads and stores would alias */

static uint32_t buffers_of(enum kernel kernel)
{
    return kernel == KERNEL_REDUCE ? 3 : kernel == KERNEL_COPY || kernel == KERNEL_SINGLE_COPY ? 2 : 1;
}

static void add(float *o, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        o[i] = a[i] + b[i];
}

static float sum(const float *a, size_t n)
{
    float s[16] = { 0 };

    for (size_t i = 0; i + 16 <= n; i += 16)
        for (int k = 0; k < 16; k++)
            s[k] += a[i + k];
    for (int k = 1; k < 16; k++)
        s[0] += s[k];
    return s[0];
}

#if defined(__SSE2__)
static void stream_add(float *o, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i + 4 <= n; i += 4)
        _mm_stream_ps(o + i, _mm_add_ps(_mm_load_ps(a + i), _mm_load_ps(b + i)));
    _mm_sfence();
}

static void stream_copy(float *o, const float *a, size_t n)
{
    for (size_t i = 0; i + 4 <= n; i += 4)
        _mm_stream_ps(o + i, _mm_load_ps(a + i));
    _mm_sfence();
}
#else
#define stream_add add
static void stream_copy(float *o, const float *a, size_t n)
{
    memcpy(o, a, n * sizeof *o);
}
#endif

static bool read_through_kernel(void *to, void *from, size_t bytes)
{
    const struct iovec local = { to, bytes }, remote = { from, bytes };

    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)bytes;
}

static void one_pass(struct member *h, bool past_caches)
{
    const struct team *c = h->team;
    const size_t n = c->floats;
    float *mine = c->buffer[h->index], *next = c->buffer[(h->index + 1) % c->nthread];
    const float *a = mine + c->stride, *b = a + c->stride; /* as many as the kernel uses */

    switch (c->kernel) {
    case KERNEL_COPY:
        if (past_caches)
            stream_copy(mine, a, n);
        else
            memcpy(mine, a, n * sizeof *mine);
        break;
    case KERNEL_REDUCE:
        (past_caches ? stream_add : add)(mine, a, b, n);
        break;
    case KERNEL_READ:
        h->sink = sum(mine, n);
        break;
    case KERNEL_READ_OTHERS:
        h->sink = sum(next, n);
        break;
    case KERNEL_SINGLE_COPY:
        read_through_kernel(mine, next + c->stride, n * sizeof *mine);
        break;
    }
}

static void *member_main(void *argument)
{
    struct member *h = argument;
    struct team *c = h->team;

    worker_pin(h->index);
    memset(c->buffer[h->index], 0, buffers_of(c->kernel) * c->stride * sizeof(float));
    const double begin = plait_clock();
    for (unsigned pass = 0;; pass++) {
        if (c->kernel == KERNEL_READ_OTHERS)
            memset(c->buffer[h->index], 0, c->floats * sizeof(float));
        meet(&c->barrier, c->nthread);
        const double start = plait_clock();
        for (uint32_t i = 0; i < c->repeat; i++)
            one_pass(h, pass % 2 == 1);
        meet(&c->barrier, c->nthread);
        if (h->index == 0) {
            const double took = (plait_clock() - start) / c->repeat;
            c->best = c->best == 0 || took < c->best ? took : c->best;
            atomic_store(&c->enough, pass >= 3 && plait_clock() > begin + c->seconds);
        }
        meet(&c->barrier, c->nthread);
        if (atomic_load(&c->enough))
            return NULL;
    }
}

static double run_team(struct team *c)
{
    struct member *member = calloc(c->nthread, sizeof *member);
    uint32_t started = 0;

    if (member == NULL)
        abort();
    for (; started < c->nthread; started++) {
        member[started] = (struct member){ .team = c, .index = started };
        if (pthread_create(&member[started].thread, NULL, member_main, &member[started]) != 0)
            abort();
    }
    for (uint32_t i = 0; i < started; i++)
        pthread_join(member[i].thread, NULL);
    free(member);
    return (double)c->nthread * (double)c->floats * sizeof(float) / c->best;
}

double machine_rate(enum kernel kernel, uint32_t nthread, size_t bytes, double seconds)
{
    struct team c = { .kernel = kernel, .nthread = nthread, .seconds = seconds };
    const size_t share = bytes / nthread / buffers_of(kernel) / 64 * 64;
    double rate = 0;
    bool ok = kernel != KERNEL_SINGLE_COPY || read_through_kernel(&rate, &(double){ 0 }, sizeof rate);

    c.floats = share / sizeof(float);
    c.stride = c.floats + SKEW / sizeof(float);
    c.repeat = kernel == KERNEL_READ_OTHERS || bytes > SHORT
                   ? 1
                   : (uint32_t)(SHORT / bytes); /* only the first read finds the lines in another cache */
    c.buffer = calloc(nthread, sizeof *c.buffer);
    for (uint32_t i = 0; c.buffer != NULL && i < nthread; i++) {
        c.buffer[i] = aligned_alloc(4096, ((share + SKEW) * buffers_of(kernel) + 4095) / 4096 * 4096);
        ok = ok && c.buffer[i] != NULL;
    }
    if (c.buffer != NULL && ok && c.floats > 0)
        rate = run_team(&c);
    for (uint32_t i = 0; c.buffer != NULL && i < nthread; i++)
        free(c.buffer[i]);
    free(c.buffer);
    return rate;
}

double machine_clock_cost(void)
{
    double best = 1;

    for (int sample = 0; sample < 10; sample++) {
        const double begin = plait_clock();
        for (int i = 0; i < 999; i++)
            plait_clock();
        const double took = (plait_clock() - begin) / 1000;
        best = took < best ? took : best;
    }
    return best;
}
