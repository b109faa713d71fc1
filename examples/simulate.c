/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which all-reduce is the fastest on a cluster that does not exist yet, and what do slower uplinks of its racks cost?
 * No rank is started: the simulator runs their plans.
 *
 *     cc simulate.c $(pkg-config --cflags --libs plait) && ./a.out
 */
#include <plait/forecast.h>

#include <stdio.h>
#include <stdlib.h>

#define NSIZE ((int)(sizeof sizes / sizeof *sizes))

static const char *const algorithms[] = { "ring", "halving-doubling", "double-tree", "hierarchy", NULL };
static const size_t sizes[] = { 4 << 10, 256 << 10, 16 << 20 };

/* Every call that can fail returns a status; plait_last_error() has the exact cause. */
static void check(enum plait_status status)
{
    if (status == PLAIT_OK)
        return;
    fprintf(stderr, "%s: %s\n", plait_status_text(status), plait_last_error());
    exit(1);
}

/* Two racks of four hosts of four ranks. Rates are in bytes per second, times in nanoseconds. */
static struct plait_machine cluster(uint64_t uplink)
{
    struct plait_machine m = {
        .name = "two racks of four hosts", .nlevel = 3, .copy = 10000000000, .reduce = 8000000000
    };

    /* Ranks of a host read each other's memory. */
    m.level[0] = (struct plait_level){
        .name = "host", .children = 4, .bandwidth = 10000000000, .latency = 200, .overhead = 100, .memory = 40000000000
    };
    /* A NIC of 100 Gbit/s for each host, and one uplink for each rack. */
    m.level[1] = (struct plait_level){
        .name = "rack", .children = 4, .links = 1, .bandwidth = 12500000000, .latency = 2000, .overhead = 500
    };
    m.level[2] = (struct plait_level){
        .name = "cluster", .children = 2, .links = 1, .bandwidth = uplink, .latency = 3000, .overhead = 500
    };
    return m;
}

int main(void)
{
    const struct plait_machine full = cluster(50000000000), slow = cluster(3125000000);
    struct plait_forecast_options options = { .machine = &full,
                                              .shape = { .coll = PLAIT_ALLREDUCE },
                                              .algorithms = algorithms };
    struct plait_forecast *forecast;
    struct plait_prediction p, slower;
    const char *best;

    options.shape.nrank = (uint32_t)plait_machine_ranks(&full);
    check(plait_forecast_create(&options, &forecast)); /* it keeps what it has simulated */
    printf("%s, %u ranks: microseconds\n%-18s", full.name, options.shape.nrank, "bytes");
    for (int i = 0; i < NSIZE; i++)
        printf("%10zu", sizes[i]);
    for (uint32_t k = 0; algorithms[k] != NULL; k++) {
        printf("\n%-18s", algorithms[k]);
        for (int i = 0; i < NSIZE; i++) {
            check(plait_forecast_time(forecast, k, PLAIT_FLOAT32, sizes[i] / sizeof(float), &p));
            printf("%10.1f", 1e-6 * (double)p.time);
        }
    }

    printf("\n\nwith uplinks of 3.125 instead of 50 GB/s\n");
    for (int i = 0; i < NSIZE; i++) {
        const size_t count = sizes[i] / sizeof(float);
        check(plait_forecast_fastest(forecast, PLAIT_FLOAT32, count, &best, &p));
        check(plait_simulate(&slow, best, &options.shape, PLAIT_FLOAT32, count, NULL, &slower));
        printf("%10zu bytes: %s takes %.2f times as long; %s is busy for %.0f %% of that\n", sizes[i], best,
               (double)slower.time / (double)p.time, slower.busiest, 1e2 * (double)slower.bound / (double)slower.time);
        if (slower.time < p.time)
            return 1;
    }
    plait_forecast_destroy(forecast);
    return 0;
}
