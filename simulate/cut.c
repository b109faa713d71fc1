/* SPDX-License-Identifier: BSD-3-Clause */
#include "cut.h"

#include "base/status.h"

#include <math.h>
#include <stdlib.h>

/*
 * C(j), the earliest end of the exchange of the first j tensors:
 *
 *     C(0) = 0,  C(j) = min over i < j of max(C(i), r_j) + T(i, j),  r_j: when tensors 0 to j - 1 are ready
 *
 * This is exact, as max and + are monotone: an earlier end of a prefix is never worse. For the fewest buckets a prefix
 * may end later than C, so the same is done with exactly 1, 2, 3 .. buckets, until C(n) is reached. Both sum along a
 * path in the same order, so their floating-point results are equal.
 */

/* The last bucket ends at tensor j. before: [j] ends of prefixes. from: gets the bucket's first tensor. */
static double earliest(const struct plait_timeline *t, const double *before, double ready, uint32_t j, uint32_t *from)
{
    double best = INFINITY;

    for (uint32_t i = j; i-- > 0;) {
        const double time = t->time(t->context, i, j);
        const double end = fmax(before[i], ready) + time;
        if (end < best) {
            best = end;
            *from = i;
        }
        if (ready + time > best) /* and so is every longer bucket */
            break;
    }
    return best;
}

/* after[j]: the earliest end with one bucket more than before[j]. They may be the same array: then with any number. */
static void one_more(const struct plait_timeline *t, const double *before, double *after, uint32_t *from)
{
    double ready = 0;

    for (uint32_t j = 1; j <= t->n; j++) {
        ready = fmax(ready, t->ready[j - 1]);
        after[j] = earliest(t, before, ready, j, &from[j]);
    }
}

/* from: [k][n + 1], of the k-th bucket. */
static void read_cuts(const uint32_t *from, uint32_t k, uint32_t n, uint32_t *cuts)
{
    for (uint32_t j = n; k-- > 1;) {
        j = from[(size_t)k * (n + 1) + j];
        cuts[k - 1] = j;
    }
}

/*
 * Add buckets until all tensors end at best[n]. ends: [2][n + 1] scratch, from: grows. Returns their number; 0: out of
 * memory.
 */
static uint32_t fewest(const struct plait_timeline *t, const double *best, double *ends, uint32_t **from)
{
    const size_t row = (size_t)t->n + 1;

    for (size_t j = 0; j < 2 * row; j++)
        ends[j] = INFINITY;
    ends[0] = 0;
    for (uint32_t k = 0;; k++) {
        double *before = ends + k % 2 * row, *after = ends + (k + 1) % 2 * row;
        uint32_t *grown = realloc(*from, (k + 1) * row * sizeof *grown);
        if (grown == NULL)
            return 0;
        *from = grown;
        if (k == 1)
            after[0] = INFINITY; /* without tensors there is no bucket */
        one_more(t, before, after, grown + k * row);
        if (after[t->n] <= best[t->n])
            return k + 1;
    }
}

enum plait_status plait_cut(const struct plait_timeline *t, uint32_t *cuts, uint32_t *ncut, double *end)
{
    const size_t row = (size_t)t->n + 1;
    double *best = calloc(3 * row, sizeof *best);
    uint32_t *from = calloc(row, sizeof *from), n = 0;

    if (best != NULL && from != NULL) {
        one_more(t, best, best, from);
        n = fewest(t, best, best + row, &from);
    }
    if (n > 0) {
        read_cuts(from, n, t->n, cuts);
        *ncut = n - 1;
        *end = best[t->n];
    }
    free(best);
    free(from);
    return n > 0 ? PLAIT_OK : plait_fail_memory("out of memory for the cuts of %u tensors", t->n);
}
