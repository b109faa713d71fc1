/* SPDX-License-Identifier: BSD-3-Clause */
#include "csv.h"

#include "message.h"
#include "report.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void write_row(FILE *f, const struct bench *b, const struct cell *c, enum place place, const struct half *h)
{
    const struct outcome *own = &h->outcome[0], *best = &h->outcome[h->best];
    const double seconds = outcome_time(b, own);

    fprintf(f, "%s,\"%s\",%llu,%llu,%s,%s,", collective_name(b->coll->coll), c->label, (unsigned long long)c->bytes,
            (unsigned long long)c->count, dtype_label(c->type), op_label(c->op));
    if (c->root >= 0)
        fprintf(f, "%d", (int)c->root);
    fprintf(f, ",%s,%.9g,%.9g,%.9g,%llu,%.9g", place_name(place), 1e6 * seconds, 1e-9 * algorithm_bandwidth(c, seconds),
            1e-9 * bus_bandwidth(b, c, seconds), (unsigned long long)own->wrong, 1e6 * outcome_stats(b, own).midmean);
    if (h->best > 0)
        fprintf(f, ",%s,%.9g,%.9g\n", b->ranks[h->best].name, 1e6 * outcome_stats(b, best).midmean, best->ratio);
    else
        fputs(",,,\n", f);
}

bool csv_write(const struct bench *b, const char *path)
{
    FILE *f = fopen(path, "w");
    const struct cell *c;
    const struct half *h;
    enum place place;

    if (f == NULL)
        return complain("--csv %s: %s", path, strerror(errno));
    fputs("collective,tensors,bytes,count,type,redop,root,place,time_us,algbw_gbs,busbw_gbs,wrong,midmean_us,peer,"
          "peer_midmean_us,ratio\n",
          f);
    for (size_t at = 0; (h = measure_next(b, &at, &c, &place)) != NULL;)
        write_row(f, b, c, place, h);
    const bool failed = ferror(f) != 0;
    if (fclose(f) != 0 || failed)
        return complain("--csv %s: %s", path, strerror(errno));
    printf("# %-20s : %s\n", "CSV output", path);
    return true;
}
