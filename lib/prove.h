/* SPDX-License-Identifier: BSD-3-Clause */
/* What binding one rank's plan must know of all ranks' plans together. */
#ifndef PLAIT_LIB_PROVE_H
#define PLAIT_LIB_PROVE_H

#include "prog.h"

#define PLAIT_MOST_PROVED 64 /* ranks up to which the whole fused graph is proved at bind: 2 ms there */

/*
 * Number a plan's messages, from 0 per peer and direction.
 *
 * nsend, nrecv  [nrank] zeroed; get how many there are
 * number        [nstep] of each SEND and RECV
 */
void plait_number_messages(const struct plait_plan *plan, uint32_t *nsend, uint32_t *nrecv, uint32_t *number);

struct plait_proof {
    enum plait_fusing fusing; /* as much as cannot deadlock; above PLAIT_MOST_PROVED ranks PLAIT_FUSE_LOCAL, unproved */
    bool sliceable;           /* all of them; false where that is not known */
    uint64_t hash;            /* of the comm's plans, above PLAIT_MOST_PROVED ranks of a sample: equal on all ranks,
                                 unless their libraries or algorithms differ */
};

/*
 * hop    do not fuse more than two sources
 * kinds  [nstep] PLAIT_VALUE_* of this rank's steps; NULL: not asked for
 * Errors: PLAIT_ERR_PLAN (not even the plain plans are free of deadlock), PLAIT_ERR_UNSUPPORTED (partial sums move
 *         together with other values, so they cannot be kept in fp32), PLAIT_ERR_NOMEM.
 */
enum plait_status plait_prove(const struct plait_alg *alg, const char *spec, const struct plait_shape *shape,
                              uint32_t rank, bool hop, unsigned char *kinds, struct plait_proof *out);

#endif
