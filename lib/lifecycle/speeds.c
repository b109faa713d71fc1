/* SPDX-License-Identifier: BSD-3-Clause */
#include "cards.h"

#include "base/status.h"
#include "engine/model.h"
#include "failure/failure.h"
#include "machine/tuned.h"

#include <stdlib.h>
#include <string.h>

#define MOST_ROWS (4096 * 64) /* of a tuning */

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
 * The copy modes of a tuning file (fast, or NULL), or of the node's lowest rank, and whether all ranks can read each
 * other's memory: each rank stored `reads` before the last agreement. PLAIT_CMA=1: single copy wherever it is possible.
 * Ranks that share a processor share its caches, too: streaming stores would empty these before the next one reads.
 */
static void take_copies(struct plait_comm *comm, uint32_t first, const struct plait_copies *copies, const uint8_t *fast)
{
    comm->copies = *copies;
    plait_copies_keep(&comm->copies);
    if (fast != NULL)
        memcpy(comm->copies.fast, fast, sizeof comm->copies.fast);
    if (!comm->copies.calibrated && comm->config.calibrate && comm->nprocess > 0 && comm->rank == first)
        plait_comm_log(comm, PLAIT_LOG_INFO,
                       "copies were not timed, as the processors were busy; built-in speeds and copy modes are used");
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
                                           .algorithms = comm->algorithms,
                                           .node = comm->node != NULL ? comm->node : node,
                                           .nlevel = comm->nlevel,
                                           .level = comm->level,
                                           .processors = comm->processors,
                                           .cache = comm->cache,
                                           .pace = comm->config.pace };
    return plait_model_create(&o, &comm->model);
}

/*
 * Each rank shows this to the others at the end of a creation. Only rank 0's links, rows and modes are used; of a
 * node's lowest rank, its copies.
 */
struct shown {
    struct plait_copies copies;
    uint8_t fast[PLAIT_COPY_CLASSES]; /* of the tuning; they come before those of `copies` */
    bool has_fast;
    struct plait_tuned_link hosts, racks; /* links between them */
    uint32_t tuned;                       /* 1: the links count, and nrow rows follow */
    uint32_t nrow;
};

/* Rank 0: the tuning file that counts, or none. One that cannot be used is no reason to have no comm. */
static void load_tuning(const struct plait_comm *comm, const uint32_t *node, struct plait_tuning *out,
                        struct shown *shown)
{
    char path[PLAIT_TUNING_PATH];
    uint32_t each;

    plait_tuning_take(comm->config.tuning, path, out);
    if (path[0] == '\0')
        return;
    const uint32_t hosts = plait_model_hosts(comm->model, &each);
    plait_tuning_keep(out, hosts, each, comm->oversubscribed);
    plait_model_check(comm->model,
                      &(struct plait_shape){ .nrank = comm->nrank,
                                             .node = comm->node != NULL ? comm->node : node,
                                             .nlevel = comm->nlevel,
                                             .level = comm->level },
                      path, out);
    shown->tuned = 1;
    shown->hosts = out->link[PLAIT_LINK_HOSTS];
    shown->racks = out->link[PLAIT_LINK_RACKS];
    shown->has_fast = out->has_copies;
    for (unsigned k = 0; k < PLAIT_COPY_CLASSES; k++)
        shown->fast[k] = (uint8_t)((out->copies[k].fastest == PLAIT_TUNED_SINGLE ? PLAIT_FAST_SINGLE : 0) |
                                   (out->copies[k].other == PLAIT_TUNED_STREAMED ? PLAIT_FAST_STREAMED : 0));
    shown->nrow = (uint32_t)out->nrow;
    plait_comm_log(comm, PLAIT_LOG_INFO, "algorithms are chosen by %s (%s, %s)", path, out->processor, out->date);
}

/* All ranks use rank 0's tuning. */
static enum plait_status share_tuning(struct plait_comm *comm, struct plait_bootstrap *boot, const struct shown *zero,
                                      struct plait_tuning *tuning)
{
    enum plait_status status = PLAIT_OK;

    if (zero->nrow > MOST_ROWS)
        return plait_fail(PLAIT_ERR_MISMATCH, "comm creation: rank 0 has a tuning of %u rows", zero->nrow);
    if (comm->rank > 0 && zero->nrow > 0)
        tuning->rows = calloc(zero->nrow, sizeof *tuning->rows);
    if (zero->nrow > 0 && tuning->rows == NULL)
        status = plait_fail_memory("out of memory for a tuning of %u rows", zero->nrow);
    if (zero->nrow > 0)
        status = plait_bootstrap_broadcast(boot, status, tuning->rows, zero->nrow * sizeof *tuning->rows);
    tuning->nrow = zero->nrow;
    tuning->link[PLAIT_LINK_HOSTS] = zero->hosts;
    tuning->link[PLAIT_LINK_RACKS] = zero->racks;
    if (status == PLAIT_OK)
        status = plait_model_use(comm->model, &zero->copies, tuning);
    return plait_bootstrap_agree(boot, status);
}

enum plait_status plait_speeds_agree(struct plait_comm *comm, struct plait_bootstrap *boot, const uint32_t *node,
                                     uint32_t first, enum plait_status status)
{
    struct shown *all = calloc(comm->nrank, sizeof *all), own = { .copies = comm->copies };
    struct plait_tuning tuning = { .nrow = 0 };

    if (all == NULL && status == PLAIT_OK)
        status = plait_fail_memory("out of memory for the speeds of %u ranks", comm->nrank);
    if (status == PLAIT_OK)
        status = make_model(comm, node);
    if (status == PLAIT_OK && comm->rank == 0)
        load_tuning(comm, node, &tuning, &own);
    status = plait_bootstrap_allgather(boot, status, &own, sizeof own, all);
    if (status == PLAIT_OK) {
        take_copies(comm, first, &all[first].copies, all[0].has_fast ? all[0].fast : NULL);
        status = all[0].tuned ? share_tuning(comm, boot, &all[0], &tuning)
                              : plait_model_use(comm->model, &all[0].copies, NULL);
    }
    plait_tuning_finish(&tuning);
    free(all);
    return status;
}
