/* SPDX-License-Identifier: BSD-3-Clause */
#include "stats.h"

#include "allocate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void series_add(struct series *s, double x)
{
    if (s->n == s->capacity) {
        s->capacity = s->capacity > 0 ? 2 * s->capacity : 64;
        s->x = grow(s->x, s->capacity, sizeof *s->x);
    }
    s->x[s->n++] = x;
}

void series_finish(struct series *s)
{
    free(s->x);
    memset(s, 0, sizeof *s);
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double *sorted_copy(const double *x, size_t n)
{
    double *copy = allocate(n, sizeof *copy);

    memcpy(copy, x, n * sizeof *copy);
    qsort(copy, n, sizeof *copy, ascending);
    return copy;
}

static double middle(const double *sorted, size_t n)
{
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

static double middle_half(const double *sorted, size_t n)
{
    const size_t beyond = n / 4;
    double sum = 0;

    for (size_t i = beyond; i < n - beyond; i++)
        sum += sorted[i];
    return sum / (double)(n - 2 * beyond);
}

static double percentile(const double *sorted, size_t n, unsigned percent)
{
    const size_t rank = (n * percent + 99) / 100;
    return sorted[rank > 0 ? rank - 1 : 0];
}

double median_of(const double *x, size_t n)
{
    return stats_of(x, n).median;
}

double quartile_of(const double *x, size_t n)
{
    return stats_of(x, n).quartile;
}

double midmean_of(const double *x, size_t n)
{
    return stats_of(x, n).midmean;
}

struct stats stats_of(const double *x, size_t n)
{
    struct stats s = { .n = n };

    if (n == 0)
        return s;
    double *sorted = sorted_copy(x, n);
    for (size_t i = 0; i < n; i++)
        s.mean += sorted[i] / (double)n;
    for (size_t i = 0; i < n; i++)
        s.stdev += (sorted[i] - s.mean) * (sorted[i] - s.mean) / (double)n;
    s.stdev = sqrt(s.stdev);
    s.min = sorted[0];
    s.max = sorted[n - 1];
    s.median = middle(sorted, n);
    s.quartile = sorted[n / 4];
    s.midmean = middle_half(sorted, n);
    s.p95 = percentile(sorted, n, 95);
    s.p99 = percentile(sorted, n, 99);
    free(sorted);
    return s;
}
