/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which all-reduce is the fastest on a cluster that does not exist yet, and what does a change of it cost? No rank is
 * started: the simulator runs their plans.
 *
 *     cc simulate.c $(pkg-config --cflags --libs plait) && ./a.out cluster.json rack.uplink=/16
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

int main(int argc, char **argv)
{
    struct plait_machine machine, changed;
    struct plait_forecast_options options = { .machine = &machine,
                                              .shape = { .coll = PLAIT_ALLREDUCE },
                                              .algorithms = algorithms };
    struct plait_forecast *forecast;
    struct plait_prediction p, other;
    const char *best;

    if (argc != 3) {
        fprintf(stderr, "Usage: %s MACHINE_FILE CHANGES\n", argv[0]);
        return 2;
    }
    check(plait_machine_load(argv[1], &machine));
    changed = machine;
    check(plait_machine_change(&changed, argv[2]));
    options.shape.nrank = (uint32_t)plait_machine_ranks(&machine);
    check(plait_forecast_create(&options, &forecast)); /* it keeps what it has simulated */
    printf("%s, %u ranks: microseconds\n%-18s", machine.name, options.shape.nrank, "bytes");
    for (int i = 0; i < NSIZE; i++)
        printf("%10zu", sizes[i]);
    for (uint32_t k = 0; algorithms[k] != NULL; k++) {
        printf("\n%-18s", algorithms[k]);
        for (int i = 0; i < NSIZE; i++) {
            check(plait_forecast_time(forecast, k, PLAIT_FLOAT32, sizes[i] / sizeof(float), &p));
            printf("%10.1f", 1e-6 * (double)p.time);
        }
    }

    printf("\n\nwith %s\n", argv[2]);
    for (int i = 0; i < NSIZE; i++) {
        const size_t count = sizes[i] / sizeof(float);
        check(plait_forecast_fastest(forecast, PLAIT_FLOAT32, count, &best, &p));
        check(plait_simulate(&changed, best, &options.shape, PLAIT_FLOAT32, count, NULL, &other));
        printf("%10zu bytes: %s takes %.2f times as long; %s is busy for %.0f %% of that\n", sizes[i], best,
               (double)other.time / (double)p.time, other.busiest, 1e2 * (double)other.bound / (double)other.time);
    }
    plait_forecast_destroy(forecast);
    return 0;
}
