/* SPDX-License-Identifier: BSD-3-Clause */
/* plait-tune --check: how good are the choices, where nothing was tuned? */
#include "tune.h"

#include "comm/comm.h"
#include "units.h"

#include <plait/comm.h>

#include <stdio.h>
#include <stdlib.h>

#define SIZES   7 /* of each collective: 3 KiB to 12 MiB, each four times the one before */
#define SIZE(k) ((size_t)3072 << 2 * (k))
#define CLOSE   1.1 /* a choice that takes so many times what the fastest takes is as good */
#define FAR     1.3 /* one that takes more is bad */
#define NOISE   0.1 /* a cell with more doubt tells nothing, unless the choice is slow all the same */
#define WORST   10  /* cells that are printed */

/* The fastest of a cell but `left_out`; UINT32_MAX: there is none. */
static uint32_t fastest(const struct tune_cell *c, uint32_t left_out)
{
    uint32_t best = UINT32_MAX;

    for (uint32_t i = 0; i < c->n; i++)
        if (i != left_out && (best == UINT32_MAX || c->seconds[i] < c->seconds[best]))
            best = i;
    return best;
}

static void note(struct tune_results *r, enum plait_coll coll, uint32_t nrank, const struct tune_cell *c)
{
    const uint32_t best = fastest(c, UINT32_MAX), other = fastest(c, 0); /* the choice is 0 */

    if (c->n == 0 || r->nchecked == TUNE_CHECKED)
        return;
    struct tune_checked *to = &r->checked[r->nchecked++];
    *to = (struct tune_checked){ .coll = coll,
                                 .nrank = nrank,
                                 .bytes = c->bytes,
                                 .seconds = c->seconds[0],
                                 .least = c->seconds[best],
                                 .slower = best > 0 ? c->faster[best] : 1,
                                 .doubt = c->n > 1 ? c->doubt[other] : 0 };
    snprintf(to->algorithm, sizeof to->algorithm, "%s", c->algorithm[0]);
    snprintf(to->best, sizeof to->best, "%s", c->algorithm[best]);
}

enum plait_status tune_check(struct tune *t)
{
    enum plait_status status = PLAIT_OK;
    uint32_t left = SIZES * (PLAIT_NCOLL - 1);
    char size[UNITS_ROOM];
    struct plait_tuning file;

    if (t->rank == 0 && plait_tuning_find(t->comm->config.tuning, t->results->file, &file) == PLAIT_OK)
        plait_tuning_finish(&file);
    for (uint32_t k = 0; k < SIZES; k++) {
        tune_progress(t, units_bytes(size, (double)SIZE(k)));
        for (int coll = 0; coll < PLAIT_NCOLL && status == PLAIT_OK; coll++) {
            struct tune_cell cell;
            if (coll == PLAIT_BARRIER)
                continue;
            status = tune_cell(t, (enum plait_coll)coll, SIZE(k), NULL, 1.0 / left--, 0, TUNE_ALL, &cell);
            if (status == PLAIT_OK && t->rank == 0)
                note(t->results, (enum plait_coll)coll, t->nrank, &cell);
        }
    }
    return status;
}

static int by_loss(const void *a, const void *b)
{
    const double x = ((const struct tune_checked *)a)->slower, y = ((const struct tune_checked *)b)->slower;

    return x < y ? 1 : x > y ? -1 : 0;
}

/* Is it certain whether the choice is close? */
static bool is_clear(const struct tune_checked *c)
{
    return c->doubt <= NOISE || c->slower * (1 - c->doubt) > CLOSE;
}

void tune_show_check(struct tune_results *r)
{
    uint32_t clear = 0, close = 0, far = 0, shown = 0;
    char size[UNITS_ROOM], a[UNITS_ROOM], b[UNITS_ROOM];

    for (uint32_t i = 0; i < r->nchecked; i++) {
        const struct tune_checked *c = &r->checked[i];
        clear += is_clear(c);
        close += is_clear(c) && c->slower <= CLOSE;
        far += is_clear(c) && c->slower > FAR;
    }
    printf("\nThe choices are those of %s.\n", r->file[0] != '\0' ? r->file : "the model, as there is no tuning file");
    printf(
        "%u cells measured with every algorithm; %u of them are certain.\n"
        "Of these the choice takes at most %.1f times what the fastest takes in %u (%.0f %%), more than %.1f in %u.\n",
        r->nchecked, clear, CLOSE, close, clear > 0 ? 100.0 * close / clear : 0, FAR, far);
    qsort(r->checked, r->nchecked, sizeof r->checked[0], by_loss);
    for (uint32_t i = 0; i < r->nchecked && shown < WORST; i++) {
        const struct tune_checked *c = &r->checked[i];
        if (!is_clear(c) || c->slower <= CLOSE)
            continue;
        printf("%s  %-14s %3u ranks %8s: %s is chosen and takes %s, %s takes %s (%.2f times)\n",
               shown++ == 0 ? "\nThe worst:\n" : "", plait_coll_name(c->coll), c->nrank,
               units_bytes(size, (double)c->bytes), c->algorithm, units_seconds(a, c->seconds), c->best,
               units_seconds(b, c->least), c->slower);
    }
    printf("\nLook at a choice: plait-info --explain allreduce 192K --ranks 3. docs/tuning.md: how to override it.\n");
}
