/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The model of a communicator's machine: hosts whose ranks share memory, joined by a network, in racks if the comm has
 * this level. The simulator says which algorithm is the fastest on it.
 *
 * Sizes fall into classes, each twice as long as the one before. The first operation of a class simulates the
 * candidates, which takes a millisecond for 8 ranks, and some for 64 and more. The answer is kept. An algorithm whose
 * claim shows that it cannot be the fastest is left out, and one that has too many messages is estimated by its claim.
 * The model is equal on all ranks, and the simulator computes in integers, so all ranks pick the same.
 */
#ifndef PLAIT_LIB_ENGINE_MODEL_H
#define PLAIT_LIB_ENGINE_MODEL_H

#include "base/config.h"
#include "comm/copy_mode.h"
#include "plugin/tuning.h"

#include <plait/comm.h>
#include <plait/plan.h>
#include <plait/simulate.h>

struct plait_model;

/* Everything is equal on all ranks. */
struct plait_model_options {
    uint32_t nrank;
    const struct plait_alg *const *algorithms; /* NULL-ended; it must live as long as the model */
    const uint32_t *node;                      /* as in struct plait_shape, like the next two */
    uint32_t nlevel;
    const uint32_t *level;
    uint32_t processors;    /* of each host; 0: as many as ranks */
    size_t cache;           /* bytes, of a processor */
    struct plait_pace pace; /* of slowed links between all ranks */
};

struct plait_pick {  /* lives as long as the model */
    size_t bytes;    /* for which the candidates were timed */
    const char *why; /* one sentence */
    uint32_t n;
    struct plait_candidate candidates[PLAIT_MOST_CANDIDATES]; /* the best first */
};

/* PLAIT_ERR_NOMEM. options: copied. */
enum plait_status plait_model_create(const struct plait_model_options *options, struct plait_model **out);
void plait_model_destroy(struct plait_model *model);

/*
 * Sets the measured speeds of ranks that share memory. Before this call, or if `speeds` was not calibrated, the model
 * uses built-in ones.
 *
 * tuning  what was measured on this kind of machine, for a comm like this one (machine/tuned.h): it decides for the
 *         collectives and sizes that it has. Copied. NULL: nothing
 * Errors: PLAIT_ERR_NOMEM
 */
enum plait_status plait_model_use(struct plait_model *model, const struct plait_copies *speeds,
                                  const struct plait_tuning *tuning);

/*
 * Rows whose algorithms do not fit a comm of this shape get the algorithm "", with a warning that names `path`: for
 * their sizes the model decides. A second algorithm that does not fit is left out.
 */
void plait_model_check(const struct plait_model *model, const struct plait_shape *shape, const char *path,
                       struct plait_tuning *tuning);

/* Hosts of the model, and ranks of each; *each 0: unequal. */
uint32_t plait_model_hosts(const struct plait_model *model, uint32_t *each);

/*
 * The fastest of the library's algorithms, the users' and the caller's.
 *
 * shape      reads coll, nrank, root, node, nlevel, level and vform. All is simulated out of place
 * bytes      of the vector, or of a block; vform: of the largest, as if all were as long
 * canonical  only of those that combine in the canonical order
 * device     the data is in a GPU's memory
 * Errors: PLAIT_ERR_NOMEM, PLAIT_ERR_CONFIG (no algorithm fits). Thread: any.
 */
enum plait_status plait_model_pick(struct plait_model *model, const struct plait_shape *shape, size_t bytes,
                                   bool canonical, bool device, const struct plait_pick **out);

#endif
