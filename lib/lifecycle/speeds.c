/* SPDX-License-Identifier: BSD-3-Clause */
#include "speeds.h"

#include "base/status.h"
#include "engine/model.h"
#include "failure/failure.h"

#include <stdlib.h>

void *plait_speeds_time(struct plait_comm *comm, const struct plait_card *all, const uint32_t *node, uint32_t first)
{
    uint32_t other = first + 1;

    while (other < comm->nrank &&
           (node[other] != node[first] || plait_is_same_token(all[other].process, all[first].process)))
        other++;
    comm->copies = plait_copies_known(comm->config.calibrate);
    if (other < comm->nrank && (comm->rank == first || comm->rank == other) && !all[first].copies)
        return plait_copies_calibrate(comm, comm->rank == first ? other : first, comm->rank == first);
    return NULL;
}

/*
 * The copy modes of the node's lowest rank, and whether all ranks can read each other's memory: each rank stored
 * `reads` before the last agreement. PLAIT_CMA=1: single copy wherever it is possible. Ranks that share a processor
 * share its caches, too: streaming stores would empty these before the next one reads.
 */
static void take_copies(struct plait_comm *comm, uint32_t first, const struct plait_copies *copies)
{
    comm->copies = *copies;
    plait_copies_keep(&comm->copies);
    if (!comm->copies.calibrated && comm->config.calibrate && comm->nprocess > 0 && comm->rank == first)
        plait_comm_log(comm, PLAIT_LOG_INFO,
                       "copies were not timed, as the processors were busy; built-in copy modes are used");
    for (unsigned k = 0; k < PLAIT_COPY_CLASSES; k++) {
        if (comm->config.cma == PLAIT_CMA_ALWAYS)
            comm->copies.fast[k] |= PLAIT_FAST_SINGLE;
        if (comm->oversubscribed)
            comm->copies.fast[k] &= (uint8_t)~PLAIT_FAST_STREAMED;
    }
    comm->cma = true;
    for (uint32_t r = 0; r < comm->nrank; r++)
        comm->cma &= atomic_load_explicit(&comm->peers[r].control->reads, memory_order_relaxed) != 0;
}

/* The same on all ranks. node: if the comm has no map of its own */
static enum plait_status make_model(struct plait_comm *comm, const uint32_t *node)
{
    const struct plait_model_options o = { .nrank = comm->nrank,
                                           .node = comm->node != NULL ? comm->node : node,
                                           .processors = comm->processors,
                                           .cache = comm->cache,
                                           .pace = comm->config.pace };
    return plait_model_create(&o, &comm->model);
}

enum plait_status plait_speeds_agree(struct plait_comm *comm, struct plait_bootstrap *boot, const uint32_t *node,
                                     uint32_t first, enum plait_status status)
{
    struct plait_copies *all = calloc(comm->nrank, sizeof *all);

    if (all == NULL && status == PLAIT_OK)
        status = plait_fail_memory("out of memory for the speeds of %u ranks", comm->nrank);
    if (status == PLAIT_OK)
        status = make_model(comm, node);
    status = plait_bootstrap_allgather(boot, status, &comm->copies, sizeof *all, all);
    if (status == PLAIT_OK) {
        take_copies(comm, first, &all[first]);
        plait_model_use(comm->model, &all[0]);
    }
    free(all);
    return status;
}
