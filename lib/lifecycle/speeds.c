/* SPDX-License-Identifier: BSD-3-Clause */
#include "life.h"

#include "base/status.h"
#include "engine/model.h"
#include "failure/failure.h"

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
 * The copy modes of a tuning, if it has some, or of the node's lowest rank, and whether all ranks can read each other's
 * memory: each rank stored `reads` before the last agreement. PLAIT_CMA=1: single copy wherever it is possible. Ranks
 * that share a processor share its caches, too: streaming stores would empty these before the next one reads.
 */
static void take_copies(struct plait_comm *comm, uint32_t first, const struct plait_copies *copies,
                        const struct plait_tuning *tuning)
{
    comm->copies = *copies;
    for (unsigned k = 0; k < PLAIT_COPY_CLASSES; k++) /* they come from another rank */
        if ((unsigned)copies->modes[k].fastest >= PLAIT_NCOPY || (unsigned)copies->modes[k].other >= PLAIT_NCOPY)
            comm->copies = plait_copies_known(false);
    plait_copies_keep(&comm->copies);
    if (tuning->has_copies)
        memcpy(comm->copies.modes, tuning->copies, sizeof comm->copies.modes);
    if (!comm->copies.calibrated && comm->config.calibrate && comm->nprocess > 0 && comm->rank == first)
        plait_comm_log(comm, PLAIT_LOG_INFO,
                       "copies were not timed, as the processors were busy; built-in copy modes are used");
    for (struct plait_copy_modes *m = comm->copies.modes; m < comm->copies.modes + PLAIT_COPY_CLASSES; m++) {
        if (comm->processors > 0)
            m->other = PLAIT_COPY_STAGED;
        if (m->fastest != PLAIT_COPY_SINGLE)
            m->fastest = comm->config.cma == PLAIT_CMA_ALWAYS ? PLAIT_COPY_SINGLE : m->other;
    }
    comm->cma = true;
    for (uint32_t r = 0; r < comm->nrank; r++)
        comm->cma &= atomic_load_explicit(&comm->peers[r].control->reads, memory_order_relaxed) != 0;
}

/* The same on all ranks. */
static enum plait_status make_model(struct plait_comm *comm)
{
    const struct plait_model_options o = { .nrank = comm->nrank,
                                           .algorithms = comm->algorithms,
                                           .node = comm->node,
                                           .nlevel = comm->nlevel,
                                           .level = comm->level,
                                           .processors = comm->processors,
                                           .cache = comm->cache,
                                           .pace = comm->config.pace };
    return plait_model_create(&o, &comm->model);
}

/* Each rank shows this to the others at the end of a creation. Only rank 0's tuning counts. */
struct shown {
    struct plait_copies copies; /* those of a node's lowest rank count there */
    bool tuned;                 /* there is a tuning; its rows follow */
    struct plait_tuning tuning;
};

/* Rank 0: the tuning file that counts, or none. One that cannot be used is no reason to have no comm. */
static void load_tuning(const struct plait_comm *comm, struct shown *shown)
{
    const struct plait_shape shape = {
        .nrank = comm->nrank, .node = comm->node, .nlevel = comm->nlevel, .level = comm->level
    };
    char path[PLAIT_TUNING_PATH];

    plait_model_tune(comm->model, comm->config.tuning, &shape, path, &shown->tuning);
    shown->tuned = path[0] != '\0';
    if (shown->tuned)
        plait_comm_log(comm, PLAIT_LOG_INFO, "algorithms are chosen by %s (%s, %s)", path, shown->tuning.processor,
                       shown->tuning.date);
}

/* All ranks use rank 0's tuning. */
static enum plait_status share_tuning(struct plait_comm *comm, struct plait_bootstrap *boot, const struct shown *zero,
                                      struct plait_tuning *tuning)
{
    const size_t n = zero->tuning.nrow;
    enum plait_status status = PLAIT_OK;

    if (n > MOST_ROWS)
        return plait_fail(PLAIT_ERR_MISMATCH, "comm creation: rank 0 has a tuning of %zu rows", n);
    if (comm->rank > 0) {
        *tuning = zero->tuning;
        tuning->rows = n > 0 ? calloc(n, sizeof *tuning->rows) : NULL;
    }
    if (n > 0 && tuning->rows == NULL)
        status = plait_fail_memory("out of memory for a tuning of %zu rows", n);
    if (n > 0)
        status = plait_bootstrap_broadcast(boot, status, tuning->rows, n * sizeof *tuning->rows);
    if (status == PLAIT_OK)
        plait_model_use(comm->model, tuning);
    return plait_bootstrap_agree(boot, status);
}

enum plait_status plait_speeds_agree(struct plait_comm *comm, struct plait_bootstrap *boot, uint32_t first,
                                     enum plait_status status)
{
    struct shown *all = calloc(comm->nrank, sizeof *all), own;

    memset(&own, 0, sizeof own);
    own.copies = comm->copies;
    if (all == NULL && status == PLAIT_OK)
        status = plait_fail_memory("out of memory for the speeds of %u ranks", comm->nrank);
    if (status == PLAIT_OK)
        status = make_model(comm);
    if (status == PLAIT_OK && comm->rank == 0)
        load_tuning(comm, &own);
    status = plait_bootstrap_allgather(boot, status, &own, sizeof own, all);
    if (status == PLAIT_OK) {
        take_copies(comm, first, &all[first].copies, &all[0].tuning);
        status = all[0].tuned ? share_tuning(comm, boot, &all[0], &own.tuning) : PLAIT_OK;
    }
    plait_tuning_finish(&own.tuning);
    free(all);
    return status;
}
