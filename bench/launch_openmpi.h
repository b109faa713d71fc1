/* SPDX-License-Identifier: BSD-3-Clause */
/* Open MPI as a peer: one mpirun per configuration, its ranks are plait-perf-openmpi. */
#ifndef PLAIT_BENCH_LAUNCH_OPENMPI_H
#define PLAIT_BENCH_LAUNCH_OPENMPI_H

#include "ranks.h"

struct openmpi_config {
    const char *name;           /* after "openmpi:" */
    bool machine, hosts;        /* may be the best on one machine; over several hosts */
    const char *flags[12];      /* NULL-ended arguments of mpirun */
    const char *environment[4]; /* NULL-ended NAME=VALUE */
};
extern const struct openmpi_config openmpi_configs[];
extern const uint32_t openmpi_nconfig;

/*
 * Start mpirun; ranks_greet() waits for its ranks.
 *
 * plait  under a launcher: Plait's ranks, which have said hello; the k-th rank here runs beside Plait's k-th
 */
bool openmpi_launch(struct ranks *r, const struct openmpi_config *config, const struct options *o,
                    const struct ranks *plait);

#endif
