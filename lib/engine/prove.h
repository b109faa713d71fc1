/* SPDX-License-Identifier: BSD-3-Clause */
/* What binding one rank's plan must know of all ranks' plans together. */
#ifndef PLAIT_LIB_ENGINE_PROVE_H
#define PLAIT_LIB_ENGINE_PROVE_H

#include "prog.h"

#define PLAIT_MOST_PROVED 64 /* ranks up to which the whole fused graph is proved at bind: 2 ms there */

/*
 * The shape as all ranks know it. Whether a rank works in place only it knows: the library's plans have the same
 * messages either way, and of a rooted collective only the root's differ. A caller's algorithm of another collective
 * may send other values in place, so there all ranks must do the same.
 */
struct plait_shape plait_common_shape(const struct plait_alg *alg, const struct plait_shape *shape);

struct plait_proof {
    enum plait_fusing fusing; /* as much as cannot deadlock; above PLAIT_MOST_PROVED ranks PLAIT_FUSE_LOCAL, unproved */
    bool sliceable;           /* all of them; false where that is not known */
    uint64_t hash;            /* of the comm's plans, above PLAIT_MOST_PROVED ranks of a sample: equal on all ranks,
                                 unless their libraries or algorithms differ */
};

/*
 * own    what the algorithm emitted for this rank: it must emit that again
 * hop    do not fuse more than two sources
 * kinds  [nstep] PLAIT_VALUE_* of this rank's steps; NULL: not asked for
 * Errors: PLAIT_ERR_PLAN (not even the plain plans are free of deadlock), PLAIT_ERR_UNSUPPORTED (a step has
 *         partial sums and other values, which have no one width), PLAIT_ERR_NOMEM.
 */
enum plait_status plait_prove(const struct plait_alg *alg, const char *spec, const struct plait_shape *shape,
                              const struct plait_plan *own, bool hop, unsigned char *kinds, struct plait_proof *out);

#endif
