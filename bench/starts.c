/* SPDX-License-Identifier: BSD-3-Clause */
#include "starts.h"

#include "allocate.h"
#include "measure.h"
#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct starts_row { /* one half of a cell, of all starts */
    const struct collective *coll;
    enum plait_dtype type;
    enum plait_op op;
    enum place place;
    int64_t root;
    uint64_t bytes;
    char label[48];
    enum c2c c2c;                      /* C2C_MIXED: the starts differed */
    uint64_t wrong;                    /* elements, plait's */
    struct series time[MAX_BACKENDS];  /* seconds: midmean of each start's iterations; empty: not measured */
    struct series ratio[MAX_BACKENDS]; /* of plait's time to the peer's */
};

/* ---- adding ------------------------------------------------------------------------------------ */

void starts_begin(struct starts *s, const struct bench *b)
{
    s->begun++;
    s->next = 0;
    if (s->name != NULL)
        return;
    s->nbackend = b->nbackend;
    s->name = allocate(s->nbackend, sizeof *s->name);
    for (uint32_t k = 0; k < s->nbackend; k++)
        snprintf(s->name[k], sizeof s->name[k], "%s", report_peer(b, k));
}

/* The row of a half, which the first start creates. */
static struct starts_row *row_of(struct starts *s, const struct bench *b, const struct cell *c, enum place place)
{
    if (s->next == s->nrow) {
        s->row = grow(s->row, ++s->nrow, sizeof *s->row);
        struct starts_row *r = &s->row[s->next];
        *r = (struct starts_row){ .coll = b->coll,
                                  .type = c->type,
                                  .op = c->op,
                                  .place = place,
                                  .root = c->root,
                                  .bytes = c->bytes,
                                  .c2c = c->half[place].guarded.c2c };
        memcpy(r->label, c->label, sizeof r->label);
    }
    return &s->row[s->next++];
}

void starts_add(struct starts *s, const struct bench *b)
{
    const struct cell *c;
    const struct half *h;
    enum place place;

    for (size_t at = 0; (h = measure_next(b, &at, &c, &place)) != NULL;) {
        struct starts_row *r = row_of(s, b, c, place);
        r->c2c = h->guarded.c2c == r->c2c ? r->c2c : C2C_MIXED;
        r->wrong += h->outcome[0].wrong;
        for (uint32_t k = 0; k < s->nbackend; k++) {
            if (!h->outcome[k].measured)
                continue;
            series_add(&r->time[k], outcome_stats(b, &h->outcome[k]).midmean);
            series_add(&r->ratio[k], h->outcome[k].ratio);
        }
    }
}

void starts_finish(struct starts *s)
{
    for (size_t i = 0; i < s->nrow; i++)
        for (uint32_t k = 0; k < MAX_BACKENDS; k++) {
            series_finish(&s->row[i].time[k]);
            series_finish(&s->row[i].ratio[k]);
        }
    free(s->row);
    free(s->name);
    memset(s, 0, sizeof *s);
}

/* ---- reporting --------------------------------------------------------------------------------- */

static uint32_t best_of(const struct starts *s, const struct starts_row *r)
{
    uint32_t best = 0;
    double most = 0;

    for (uint32_t k = 1; k < s->nbackend; k++) {
        const double ratio = median_of(r->ratio[k].x, r->ratio[k].n);
        if (ratio > most) {
            most = ratio;
            best = k;
        }
    }
    return best;
}

static void print_row(const struct starts *s, const struct starts_row *r, struct series *ratios)
{
    const struct stats own = stats_of(r->time[0].x, r->time[0].n);
    const uint32_t best = best_of(s, r);

    printf("# %10llu %8s %5s %4d %5s %5s %10.2f [%.2f, %.2f]", (unsigned long long)r->bytes, dtype_label(r->type),
           op_label(r->op), (int)r->root, place_name(r->place), c2c_name(r->c2c), 1e6 * own.median, 1e6 * own.min,
           1e6 * own.max);
    for (uint32_t k = 1; k < s->nbackend; k++)
        if (r->time[k].n > 0)
            printf(" %10.2f %5.2f", 1e6 * median_of(r->time[k].x, r->time[k].n),
                   median_of(r->ratio[k].x, r->ratio[k].n));
        else
            printf(" %10s %5s", "-", "-");
    if (best > 0) {
        const struct stats ratio = stats_of(r->ratio[best].x, r->ratio[best].n);
        printf("  %5s %.2f [%.2f, %.2f]", s->name[best], ratio.median, ratio.min, ratio.max);
        series_add(ratios, ratio.median);
    }
    if (r->wrong > 0)
        printf("  %llu WRONG", (unsigned long long)r->wrong);
    printf("%s%s\n", *r->label != '\0' ? "  " : "", r->label);
}

static void print_head(const struct starts *s, const struct starts_row *r)
{
    printf("#\n# plait-perf, %s; %zu starts\n", r->coll->title, r->time[0].n);
    printf("# us: the median of the starts' midmeans, [least, most] of plait's; plait's ratio to each peer: the median "
           "of\n"
           "# the starts'. best: the peer with the greatest ratio, [least, most] of the starts.\n");
    printf("# %10s %8s %5s %4s %5s %5s %10s [least, most]", "size", "type", "redop", "root", "place", "c2c", "plait");
    for (uint32_t k = 1; k < s->nbackend; k++)
        printf(" %10s ratio", s->name[k]);
    printf("%s\n", s->nbackend > 1 ? "   best ratio" : "");
}

static void print_summary(const struct series *ratios)
{
    const struct stats s = stats_of(ratios->x, ratios->n);
    size_t faster = 0;

    for (size_t i = 0; i < ratios->n; i++)
        faster += ratios->x[i] < 1;
    if (ratios->n > 0)
        printf("# plait is faster in %zu of %zu; ratio to the best peer: median %.2f, least %.2f, most %.2f\n", faster,
               ratios->n, s.median, s.min, s.max);
}

void starts_report(const struct starts *s)
{
    struct series ratios = { 0 };

    for (size_t i = 0; i < s->nrow; i++) {
        if (s->row[i].time[0].n < 2)
            break;
        if (i == 0 || s->row[i].coll != s->row[i - 1].coll)
            print_head(s, &s->row[i]);
        print_row(s, &s->row[i], &ratios);
        if (i + 1 == s->nrow || s->row[i].coll != s->row[i + 1].coll) {
            print_summary(&ratios);
            ratios.n = 0;
        }
    }
    series_finish(&ratios);
    fflush(stdout);
}
