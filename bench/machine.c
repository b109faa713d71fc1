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
#define PATIENCE 0.02 /* seconds; on a busy machine fewer samples have to do */

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
    for (int i = 0; i < TRIPS; i++, turn += 2) { /* the first trips wait for the other thread to start */
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
struct meeting {
    _Alignas(64) _Atomic uint32_t arrived;
    _Alignas(64) _Atomic uint32_t generation;
};

static void meet(struct meeting *m, uint32_t n)
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

struct crew {
    enum kernel kernel;
    uint32_t nthread;
    size_t floats;   /* of each buffer */
    size_t stride;   /* floats from one buffer to the next */
    uint32_t repeat; /* passes between two clock readings */
    double seconds;
    struct meeting meeting;
    float **buffer; /* [nthread] three buffers, or as many as the kernel uses, one behind the other */
    _Atomic bool enough;
    double best; /* seconds of the fastest pass */
};

struct hand {
    struct crew *crew;
    uint32_t index;
    pthread_t thread;
    volatile float sink;
};

#define SHORT ((size_t)1 << 20) /* bytes; less is repeated so often, or the clock would show */

#define SKEW 1088 /* bytes; loads and stores a multiple of 4096 apart would wait for each other */

static uint32_t buffers_of(enum kernel kernel)
{
    return kernel == KERNEL_REDUCE ? 3 : kernel == KERNEL_COPY || kernel == KERNEL_LENT ? 2 : 1;
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

static void one_pass(struct hand *h, bool past_caches)
{
    const struct crew *c = h->crew;
    const size_t n = c->floats;
    float *mine = c->buffer[h->index], *next = c->buffer[(h->index + 1) % c->nthread];
    const float *a = mine + c->stride, *b = a + c->stride; /* as many as the kernel has */

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
    case KERNEL_OTHERS:
        h->sink = sum(next, n);
        break;
    case KERNEL_LENT:
        read_through_kernel(mine, next + c->stride, n * sizeof *mine);
        break;
    }
}

static void *hand_main(void *argument)
{
    struct hand *h = argument;
    struct crew *c = h->crew;

    worker_pin(h->index);
    memset(c->buffer[h->index], 0, buffers_of(c->kernel) * c->stride * sizeof(float));
    const double begin = plait_clock();
    for (unsigned pass = 0;; pass++) {
        if (c->kernel == KERNEL_OTHERS)
            memset(c->buffer[h->index], 0, c->floats * sizeof(float));
        meet(&c->meeting, c->nthread);
        const double start = plait_clock();
        for (uint32_t i = 0; i < c->repeat; i++)
            one_pass(h, pass % 2 == 1);
        meet(&c->meeting, c->nthread);
        if (h->index == 0) {
            const double took = (plait_clock() - start) / c->repeat;
            c->best = c->best == 0 || took < c->best ? took : c->best;
            atomic_store(&c->enough, pass >= 3 && plait_clock() > begin + c->seconds);
        }
        meet(&c->meeting, c->nthread);
        if (atomic_load(&c->enough))
            return NULL;
    }
}

static double run_crew(struct crew *c)
{
    struct hand *hand = calloc(c->nthread, sizeof *hand);
    uint32_t started = 0;

    if (hand == NULL)
        abort();
    for (; started < c->nthread; started++) {
        hand[started] = (struct hand){ .crew = c, .index = started };
        if (pthread_create(&hand[started].thread, NULL, hand_main, &hand[started]) != 0)
            abort();
    }
    for (uint32_t i = 0; i < started; i++)
        pthread_join(hand[i].thread, NULL);
    free(hand);
    return (double)c->nthread * (double)c->floats * sizeof(float) / c->best;
}

double machine_rate(enum kernel kernel, uint32_t nthread, size_t bytes, double seconds)
{
    struct crew c = { .kernel = kernel, .nthread = nthread, .seconds = seconds };
    const size_t share = bytes / nthread / buffers_of(kernel) / 64 * 64;
    double rate = 0;
    bool ok = kernel != KERNEL_LENT || read_through_kernel(&rate, &(double){ 0 }, sizeof rate);

    c.floats = share / sizeof(float);
    c.stride = c.floats + SKEW / sizeof(float);
    c.repeat =
        kernel == KERNEL_OTHERS || bytes > SHORT ? 1 : (uint32_t)(SHORT / bytes); /* only the first read fetches */
    c.buffer = calloc(nthread, sizeof *c.buffer);
    for (uint32_t i = 0; c.buffer != NULL && i < nthread; i++) {
        c.buffer[i] = aligned_alloc(4096, ((share + SKEW) * buffers_of(kernel) + 4095) / 4096 * 4096);
        ok = ok && c.buffer[i] != NULL;
    }
    if (c.buffer != NULL && ok && c.floats > 0)
        rate = run_crew(&c);
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
