/* SPDX-License-Identifier: BSD-3-Clause */
/* plait-tune: from measured cells to rows of the file. */
#include "tune.h"

#include <plait/comm.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#define STEPS 2 /* of a bisection between two sizes */
#define NS    1e9

static void add(const struct tune *t, enum plait_coll coll, size_t from, const struct tune_cell *c, uint32_t which)
{
    struct tune_results *r = t->results;
    struct plait_tuned_choice *last = r->tuning.nrow > 0 ? &r->row[r->tuning.nrow - 1] : NULL;
    const uint32_t next = which == c->best ? c->next : c->best;

    if (from > 0 && last != NULL && strcmp(last->algorithm, c->algorithm[which]) == 0)
        return;
    if (r->tuning.nrow == TUNE_ROWS)
        return;
    last = &r->row[r->tuning.nrow++];
    *last = (struct plait_tuned_choice){ .coll = coll,
                                         .hosts = t->nhost,
                                         .ranks_per_host = t->each,
                                         .memory = PLAIT_MEMORY_HOST,
                                         .oversubscribed = t->crowded,
                                         .from = from };
    snprintf(last->algorithm, sizeof last->algorithm, "%s", c->algorithm[which]);
    last->ns = (uint64_t)fmax(c->seconds[which] * NS, 1);
    if (next == which)
        return;
    snprintf(last->next, sizeof last->next, "%s", c->algorithm[next]);
    last->next_ns = (uint64_t)fmax(c->seconds[next] * NS, 1);
}

static const char *winner(const struct tune_cell *c)
{
    return c->algorithm[c->best];
}

/* Between the sizes of two cells with different winners: where the second one's begins to be faster. */
static enum plait_status find_crossing(struct tune *t, enum plait_coll coll, const struct tune_cell *low,
                                       const struct tune_cell *high, double share, size_t *out)
{
    const char *const names[] = { winner(low), winner(high), NULL };
    size_t from = low->bytes, to = high->bytes;
    enum plait_status status = PLAIT_OK;
    struct tune_cell middle = { .bytes = 1 };

    for (int i = 0; i < STEPS && status == PLAIT_OK && middle.bytes > 0; i++) {
        const size_t between = (size_t)sqrt((double)from * (double)to) / 64 * 64;
        status = tune_cell(t, coll, between, names, share, high->seconds[high->best], TUNE_CLOSE, &middle);
        if (status == PLAIT_OK && middle.bytes > 0)
            *(strcmp(winner(&middle), names[1]) == 0 ? &to : &from) = between;
    }
    *out = (size_t)sqrt((double)from * (double)to) / 1024 * 1024;
    return status;
}

/* Note where measuring has changed the choice. */
static void note(const struct tune *t, enum plait_coll coll, const struct tune_cell *c)
{
    struct tune_results *r = t->results;
    struct tune_gain gain = { coll, t->nrank, *c };

    r->ncell++;
    r->nchanged += c->best > 0;
    for (int k = 0; k < TUNE_SHOWN && gain.cell.best > 0; k++) {
        struct tune_gain *at = &r->gain[k];
        const struct tune_cell *g = &gain.cell;
        if (at->cell.n > 0 &&
            at->cell.seconds[0] / at->cell.seconds[at->cell.best] >= g->seconds[0] / g->seconds[g->best])
            continue;
        const struct tune_gain before = *at;
        *at = gain;
        gain = before;
    }
}

/* Sizes below the first measured one, if they do not take the eager path, have the model's choice. */
enum plait_status tune_rows(struct tune *t, enum plait_coll coll, const struct tune_cell *cell, double share)
{
    const struct tune_cell *before = NULL;
    enum plait_status status = PLAIT_OK;

    for (uint32_t k = 0; k < TUNE_SIZES && status == PLAIT_OK; k++) {
        const struct tune_cell *c = &cell[k];
        size_t from = c->bytes / 2;
        if (c->bytes == 0)
            continue;
        if (t->rank == 0 && before == NULL)
            add(t, coll, 0, c, 0);
        if (before != NULL && strcmp(winner(before), winner(c)) != 0)
            status = find_crossing(t, coll, before, c, share, &from);
        if (t->rank == 0 && status == PLAIT_OK) {
            add(t, coll, from, c, c->best);
            note(t, coll, c);
        }
        before = c;
    }
    return status;
}
