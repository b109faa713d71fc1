/* SPDX-License-Identifier: BSD-3-Clause */
#include "plans.h"

#include "../transports/local.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *must(void *p)
{
    if (p == NULL)
        abort();
    return p;
}

uint32_t random_below(uint64_t *state, uint32_t n)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)(((x ^ (x >> 31)) >> 32) * n >> 32);
}

struct plans plans_emit(const struct plait_alg *alg, const struct plait_shape *shape)
{
    struct plans p = { must(calloc(shape->nrank, sizeof *p.plan)), shape->nrank };

    for (uint32_t r = 0; r < p.n; r++)
        if (plait_plan_emit(alg, shape, r, &p.plan[r]) != PLAIT_OK) {
            fprintf(stderr, "%s\n", plait_last_error());
            abort();
        }
    return p;
}

struct plans plans_read(const char *const *texts, uint32_t n, bool inplace)
{
    struct plans p = { must(calloc(n, sizeof *p.plan)), n };

    for (uint32_t r = 0; r < n; r++) {
        char *text = NULL;
        size_t size;
        uint32_t nblk, ntmp, nlane, step = 0;
        FILE *f = must(open_memstream(&text, &size));
        if (sscanf(texts[r], "%u %u %u", &nblk, &ntmp, &nlane) != 3)
            abort();
        fprintf(f, "plan 1 allreduce rank %u of %u, blocks %u, tmp %u, lanes %u, %s\n", r, n, nblk, ntmp, nlane,
                inplace ? "in place" : "out of place");
        for (const char *line = strchr(texts[r], '\n') + 1; *line != '\0'; line = strchr(line, '\n') + 1)
            fprintf(f, "r%u #%u %.*s\n", r, step++, (int)strcspn(line, "\n"), line);
        fclose(f);
        if (plait_plan_parse(text, &p.plan[r]) != PLAIT_OK) {
            fprintf(stderr, "%s\n%s", plait_last_error(), text);
            abort();
        }
        free(text);
    }
    return p;
}

void plans_free(struct plans *p)
{
    for (uint32_t r = 0; r < p->n; r++)
        plait_plan_destroy(p->plan[r]);
    free(p->plan);
    *p = (struct plans){ 0 };
}

static void add(void *dst, const void *x, const void *y, size_t count, void *arg)
{
    uint64_t *d = dst;
    const uint64_t *a = x, *b = y;

    (void)arg;
    for (size_t i = 0; i < count; i++)
        d[i] = a[i] + b[i];
}

static void scramble(void *dst, const void *x, const void *y, size_t count, void *arg)
{
    uint64_t *d = dst;
    const uint64_t *a = x, *b = y;

    (void)arg;
    for (size_t i = 0; i < count; i++)
        d[i] = (a[i] * 0x9e3779b97f4a7c15u ^ a[i] >> 29) + 3 * b[i];
}

/* [n][count] numbers, of which the out-of-place OUT holds garbage and IN the input. */
struct vectors {
    uint64_t **in, **out, *sum;
};

static struct vectors make_vectors(uint32_t n, size_t count, bool inplace, uint64_t seed)
{
    struct vectors v = { must(calloc(n, sizeof *v.in)), must(calloc(n, sizeof *v.out)), must(calloc(count + 1, 8)) };

    for (uint32_t r = 0; r < n; r++) {
        v.in[r] = must(malloc((count + 1) * sizeof **v.in));
        v.out[r] = must(malloc((count + 1) * sizeof **v.out));
        for (size_t i = 0; i < count; i++) {
            v.in[r][i] = random_below(&seed, UINT32_MAX);
            v.sum[i] += v.in[r][i];
            v.out[r][i] = inplace ? v.in[r][i] : 0xdeadbeefdeadbeefu;
        }
    }
    return v;
}

static void free_vectors(struct vectors *v, uint32_t n)
{
    for (uint32_t r = 0; r < n; r++) {
        free(v->in[r]);
        free(v->out[r]);
    }
    free(v->in);
    free(v->out);
    free(v->sum);
}

static bool run(const struct plans *p, size_t count, uint64_t seed, bool sum)
{
    struct vectors v = make_vectors(p->n, count, p->plan[0]->inplace, seed);
    const struct plait_local_job job = {
        .plans = CONST_PLANS(p),
        .nrank = p->n,
        .count = count,
        .size = sizeof(uint64_t),
        .combine = sum ? add : scramble,
        .in = (const void *const *)v.in,
        .out = (void *const *)v.out,
        .seed = seed,
    };
    bool right = plait_local_run(&job) == PLAIT_OK;

    for (uint32_t r = 0; r < p->n && right; r++)
        right = memcmp(v.out[r], sum ? v.sum : v.out[0], count * sizeof **v.out) == 0;
    free_vectors(&v, p->n);
    return right;
}

bool plans_sum_right(const struct plans *p, size_t count, uint64_t seed)
{
    return run(p, count, seed, true);
}

bool plans_same_bits(const struct plans *p, size_t count, uint64_t seed)
{
    return run(p, count, seed, false);
}
