/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The model of a communicator's machine: hosts whose ranks share memory, joined by a network, in racks if the comm has
 * this level. The simulator says which algorithm is the fastest on it.
 *
 * Sizes fall into classes, each twice as long as the one before. The first operation of a class simulates the
 * candidates, which takes a millisecond for 8 ranks, and some for 64 and more. The answer is kept. Algorithms of few
 * messages come first; what is left when there are too many is priced by its claim. The model is equal on all
 * ranks, and the simulator computes in integers, so all ranks pick the same.
 */
#ifndef PLAIT_LIB_ENGINE_MODEL_H
#define PLAIT_LIB_ENGINE_MODEL_H

#include "base/config.h"
#include "machine/tuned.h"

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

struct plait_pick { /* lives as long as the model */
    struct plait_pick *next;
    enum plait_coll coll;
    uint32_t class, root;
    bool vform, canonical, device;
    size_t bytes;    /* for which the candidates were timed */
    const char *why; /* one sentence */
    uint32_t n;
    struct plait_candidate candidates[PLAIT_MOST_CANDIDATES]; /* the best first */
};

/* PLAIT_ERR_NOMEM. options: copied. */
enum plait_status plait_model_create(const struct plait_model_options *options, struct plait_model **out);
void plait_model_destroy(struct plait_model *model);

/* Has a host more ranks than processors? */
bool plait_model_is_crowded(const struct plait_model *model);

/*
 * What was measured on this kind of machine, for a comm like this one, decides for the collectives and sizes that it
 * has; measured links replace built-in ones. The model takes the rows.
 */
void plait_model_use(struct plait_model *model, struct plait_tuning *tuning);

/*
 * As rank 0 of a comm of this shape: load the tuning file that counts (machine/tuned.h), and keep the rows that count.
 * Rows whose algorithms do not fit the shape get the algorithm "", with a warning that names the file: for their sizes
 * the model decides.
 *
 * path  gets the file's name; "": there is none, and *out is empty
 */
void plait_model_tune(const struct plait_model *model, const char *setting, const struct plait_shape *shape,
                      char path[PLAIT_TUNING_PATH], struct plait_tuning *out);

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

/* ---- candidates.c: the algorithms that may run a collective, and how long the simulator says that each takes ---- */

/*
 * Find an algorithm by its spec, as plait_alg_find() does, if the library may choose it by itself.
 *
 * shape      vform: only if each of its messages is a whole block. It is out of place
 * canonical  only if it combines in the canonical order
 * Errors: PLAIT_ERR_NOMEM; others: it may not, or there is none
 */
enum plait_status plait_candidate_find(const struct plait_alg *const *algorithms, const char *spec,
                                       struct plait_shape *shape, bool canonical, const struct plait_alg **out);

/* May blocks differ in size? Errors: PLAIT_ERR_CONFIG (no), PLAIT_ERR_NOMEM. */
enum plait_status plait_moves_whole_blocks(const struct plait_alg *alg, const struct plait_shape *shape);

/*
 * Time the candidates for out->bytes: simulate those of few messages, and price the others by their claims.
 *
 * options    place and algorithms
 * canonical  only those that combine in the canonical order
 * out        gets the candidates, the best first
 * Errors: PLAIT_ERR_NOMEM, PLAIT_ERR_CONFIG (none fits)
 */
enum plait_status plait_candidates_time(const struct plait_machine *machine, const struct plait_sim_options *options,
                                        const struct plait_shape *shape, bool canonical, struct plait_pick *out);

#endif
