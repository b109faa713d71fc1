/* SPDX-License-Identifier: BSD-3-Clause */
#include "html.h"

#include "file.h"
#include "measure.h"
#include "message.h"
#include "page.h"
#include "report.h"
#include "sweep_plot.h"
#include "units.h"

#include <stdio.h>
#include <string.h>

/* ---- What to try ------------------------------------------------------------------------------------ */

struct found { /* a half that stands out */
    const struct cell *c;
    enum place place;
    double value;
    uint32_t backend;
};

static double midmean_of_half(const struct bench *b, const struct half *h, uint32_t backend)
{
    return outcome_stats(b, &h->outcome[backend]).midmean;
}

static void keep_larger(struct found *f, const struct cell *c, enum place place, double value, uint32_t backend)
{
    if (value > f->value)
        *f = (struct found){ c, place, value, backend };
}

static void write_peers(FILE *f, const struct bench *b)
{
    struct found worst = { 0 };
    size_t at = 0, faster = 0, n = 0;
    const struct cell *c;
    const struct half *h;
    enum place place;
    char size[UNITS_ROOM];

    while ((h = measure_next(b, &at, &c, &place)) != NULL)
        if (h->best > 0) {
            n++;
            faster += h->outcome[h->best].ratio <= 1;
            keep_larger(&worst, c, place, h->outcome[h->best].ratio, h->best);
        }
    if (n == 0)
        return;
    page_item(f, "Plait is as fast as the fastest peer, or faster, in %zu of %zu measurements.", faster, n);
    if (worst.value > 1)
        page_item(f,
                  "It does worst at %s (%s of place), where it takes %.2f times as long as %s. "
                  "plait-info --explain says why an algorithm is chosen; --algo tries another.",
                  units_bytes(size, (double)worst.c->bytes), place_name(worst.place), worst.value,
                  b->ranks[worst.backend].name);
}

/* The largest size that takes hardly longer than the smallest. */
static void write_small(FILE *f, const struct bench *b)
{
    size_t at = 0;
    const struct cell *c, *first = NULL;
    const struct half *h;
    enum place place, of = OUT_OF_PLACE;
    double least = 0, largest = 0;
    char from[UNITS_ROOM], to[UNITS_ROOM], time[UNITS_ROOM];

    while ((h = measure_next(b, &at, &c, &place)) != NULL) {
        const double seconds = midmean_of_half(b, h, 0);
        if (first == NULL) {
            first = c;
            of = place;
            least = seconds;
        }
        if (place == of && c->bytes >= first->bytes && seconds < 1.5 * least && (double)c->bytes > largest)
            largest = (double)c->bytes;
    }
    if (first != NULL && largest > (double)first->bytes)
        page_item(f,
                  "Operations of up to %s take less than 1.5 times as long as those of %s (%s): join small ones, as "
                  "fusion does.",
                  units_bytes(to, largest), units_bytes(from, (double)first->bytes), units_seconds(time, least));
}

static void write_limit(FILE *f, const struct bench *b)
{
    struct found least = { 0 }; /* by the inverse of the ratio to the limit */
    struct found spread = { 0 };
    size_t at = 0;
    const struct cell *c;
    const struct half *h;
    enum place place;
    char size[UNITS_ROOM];

    while ((h = measure_next(b, &at, &c, &place)) != NULL) {
        const struct stats s = outcome_stats(b, &h->outcome[0]);
        const double bound = limits_bound(&b->limits, b->coll, c->bytes, b->ranks[0].nrank);
        if (bound > 0 && s.midmean > 0)
            keep_larger(&least, c, place, bound / s.midmean, 0);
        if (s.median > 0)
            keep_larger(&spread, c, place, s.p99 / s.median, 0);
    }
    if (least.value > 0)
        page_item(f, "It is nearest to the limit of this machine at %s: %.2f times the limit's time.",
                  units_bytes(size, (double)least.c->bytes), 1 / least.value);
    if (spread.value > 3)
        page_item(f,
                  "At %s one of a hundred operations takes %.1f times the median or longer: look for other "
                  "programs on the processors.",
                  units_bytes(size, (double)spread.c->bytes), spread.value);
}

static void write_advice(FILE *f, const struct bench *b)
{
    page_heading(f, "What to try");
    page_list(f);
    if (b->wrong > 0)
        page_item(f, "%llu elements are wrong: do not trust these times, and report it.", (unsigned long long)b->wrong);
    write_peers(f, b);
    write_small(f, b);
    write_limit(f, b);
    page_list_end(f);
}

/* ---- The table ------------------------------------------------------------------------------------- */

static void write_half(FILE *f, const struct bench *b, const struct cell *c, const struct half *h, enum place place)
{
    const double seconds = outcome_time(b, &h->outcome[0]);

    page_row(f);
    page_cell(f, "%llu", (unsigned long long)c->bytes);
    page_cell(f, "%llu", (unsigned long long)c->count);
    page_cell(f, "%s", dtype_label(c->type));
    page_cell(f, "%s", op_label(c->op));
    page_cell(f, "%d", (int)c->root);
    page_cell(f, "%s", place_name(place));
    page_cell(f, "%.3f", 1e6 * seconds);
    page_cell(f, "%.3f", 1e-9 * algorithm_bandwidth(c, seconds));
    page_cell(f, "%.3f", 1e-9 * bus_bandwidth(b, c, seconds));
    for (uint32_t k = 0; k < b->nbackend; k++) {
        if (!h->outcome[k].measured) {
            page_cell(f, "-");
            page_cell(f, "-");
        } else {
            page_cell(f, "%.3f", 1e6 * midmean_of_half(b, h, k));
            page_cell(f, "%.3f", 1e6 * outcome_stats(b, &h->outcome[k]).p99);
        }
        if (k > 0)
            page_cell(f, "%.3f", h->outcome[k].ratio);
    }
    page_cell(f, "%llu", (unsigned long long)h->outcome[0].wrong);
}

static void write_table(FILE *f, const struct bench *b)
{
    char heads[1024] = "size (B)|count|<type|<op|root|<place|time (us)|algbw (GB/s)|busbw (GB/s)";
    const struct cell *c;
    const struct half *h;
    enum place place;

    for (uint32_t k = 0; k < b->nbackend; k++) {
        const size_t used = strlen(heads);
        snprintf(heads + used, sizeof heads - used, "|%.40s midmean (us)|p99 (us)%s", b->ranks[k].name,
                 k > 0 ? "|ratio" : "");
    }
    const size_t used = strlen(heads);
    snprintf(heads + used, sizeof heads - used, "|wrong");
    page_heading(f, "All measurements");
    page_table(f, heads);
    for (size_t at = 0; (h = measure_next(b, &at, &c, &place)) != NULL;)
        write_half(f, b, c, h, place);
    page_table_end(f);
    page_paragraph(f, "time: mean of operations back to back. midmean: mean of the middle half of single operations "
                      "that begin together. ratio: Plait's time over the peer's, the median over the rounds.");
}

static bool write_file(FILE *f, const void *bench)
{
    const struct bench *b = bench;
    char title[256];

    sweep_title(b, title, sizeof title);
    page_begin(f, title);
    page_paragraph(f, "Measured by plait-perf on %s, %s. Average bus bandwidth: %.3f GB/s.", b->limits.processor,
                   b->started, average_bandwidth(b));
    page_list(f);
    for (uint32_t k = 0; k < b->nbackend; k++)
        page_item(f, "%s: %s", k == 0 ? "plait" : b->ranks[k].name, b->ranks[k].about);
    page_list_end(f);
    write_advice(f, b);
    page_heading(f, "Time and bandwidth");
    page_picture(f);
    sweep_draw(f, b, false);
    page_picture_end(f);
    write_table(f, b);
    page_end(f);
    return true;
}

bool html_write(const struct bench *b, const char *path)
{
    if (b->ncell == 0)
        return complain("--report %s: nothing was measured", path);
    if (!file_write("--report", path, write_file, b))
        return false;
    printf("# Report               : %s\n", path);
    return true;
}
