/* SPDX-License-Identifier: BSD-3-Clause */
#include "elastic_model.h"

#include "random.h"

#include "../lib/reduce/reduce.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static float **vectors(uint32_t n, size_t count)
{
    float **v = calloc(n, sizeof *v);

    for (uint32_t i = 0; v != NULL && i < n; i++) {
        v[i] = calloc(count, sizeof **v);
        if (v[i] == NULL)
            return NULL;
    }
    return v;
}

static void free_vectors(float **v, uint32_t n)
{
    for (uint32_t i = 0; v != NULL && i < n; i++)
        free(v[i]);
    free(v);
}

bool model_make(struct model *m, enum plait_elastic_mode mode, enum plait_dtype payload, uint32_t nworker, size_t count)
{
    *m = (struct model){ mode, payload, nworker, count, NULL, NULL, NULL, NULL, NULL };
    m->w = vectors(nworker, count);
    m->v = vectors(nworker, count);
    m->g = vectors(nworker, count);
    m->d = vectors(nworker, count);
    m->centre = calloc(count, sizeof *m->centre);
    if (m->w == NULL || m->v == NULL || m->g == NULL || m->d == NULL || m->centre == NULL)
        return false;
    for (uint32_t r = 0; r < nworker; r++) {
        uint64_t seed = 1000 + r;
        for (size_t i = 0; i < count; i++)
            m->w[r][i] = (float)(int64_t)random_next(&seed) * 1e-19F;
    }
    memcpy(m->centre, m->w[0], count * sizeof *m->centre);
    return true;
}

void model_free(struct model *m)
{
    free_vectors(m->w, m->nworker);
    free_vectors(m->v, m->nworker);
    free_vectors(m->g, m->nworker);
    free_vectors(m->d, m->nworker);
    free(m->centre);
}

static float rounded(enum plait_dtype payload, float x)
{
    const struct plait_kernels *k = plait_kernels_find("scalar");
    uint16_t half;

    if (payload == PLAIT_FLOAT32)
        return x;
    k->narrow[payload](&half, &x, 1, 1);
    k->widen[payload](&x, &half, 1, 1);
    return x;
}

/* The canonical order (plan.h). */
static float sum(float *const *x, uint32_t n, size_t i)
{
    uint32_t m = 1;

    if (n == 1)
        return x[0][i];
    while (m * 2 < n)
        m *= 2;
    return sum(x, m, i) + sum(x + m, n - m, i);
}

static void exchange_one(struct model *m, uint32_t r, float pull)
{
    for (size_t i = 0; i < m->count; i++) {
        const float d = rounded(m->payload, m->w[r][i] - m->centre[i]);
        m->centre[i] += pull * d;
        m->w[r][i] -= pull * d;
    }
}

static void exchange_all(struct model *m, float pull)
{
    for (size_t i = 0; i < m->count; i++) {
        const float c = m->centre[i], s = sum(m->w, m->nworker, i);
        for (uint32_t r = 0; r < m->nworker; r++)
            m->d[r][i] = rounded(m->payload, m->w[r][i] - c);
        m->centre[i] = m->payload == PLAIT_FLOAT32 ? c + pull * (s - (float)m->nworker * c)
                                                   : c + pull * rounded(m->payload, sum(m->d, m->nworker, i));
        for (uint32_t r = 0; r < m->nworker; r++)
            m->w[r][i] -= pull * m->d[r][i];
    }
}

void model_step(struct model *m, float pull, float momentum, float lr)
{
    for (uint32_t r = 0; r < m->nworker && m->mode < PLAIT_ELASTIC_SYNC1; r++)
        exchange_one(m, r, pull);
    if (m->mode >= PLAIT_ELASTIC_SYNC1)
        exchange_all(m, pull);
    for (uint32_t r = 0; r < m->nworker; r++)
        for (size_t i = 0; i < m->count; i++) {
            m->v[r][i] = momentum * m->v[r][i] - lr * m->g[r][i];
            m->w[r][i] += m->v[r][i];
        }
}
