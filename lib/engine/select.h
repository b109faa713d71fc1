/* SPDX-License-Identifier: BSD-3-Clause */
/* Select algorithm, path, slice and rounding of an operation, equally on all ranks. */
#ifndef PLAIT_LIB_ENGINE_SELECT_H
#define PLAIT_LIB_ENGINE_SELECT_H

#include "model.h"

#include "operation/operation.h"

#define PLAIT_WHY_EAGER "small (eager path): each rank writes its data to slots that the others read, one step"

struct plait_wish { /* what the caller, the comm and the configuration ask for */
    const struct plait_alg *const *algorithms;
    struct plait_model *model; /* asked when spec is "" */
    char spec[PLAIT_MAX_SPEC]; /* "": the model decides */
    const char *spec_origin;
    size_t slice; /* bytes; 0: `cache` decides */
    size_t cache; /* bytes of the cache a slice should stay in */
    enum plait_round round;
    bool reproducible;
    bool average;
    bool user;           /* a user function, which does its own rounding */
    bool ordered;        /* a user function that is not commutative */
    bool oversubscribed; /* more ranks than processors */
    bool vform;          /* blocks differ in size */
    bool remote;         /* ranks are on several hosts */
    bool device;         /* the buffers are in a device's memory */
    bool paced;          /* links are slowed down, so all data goes over them */
    double latency;      /* seconds, of the paced links; or 0 */
};

/* For a call of this comm. */
struct plait_wish plait_comm_wish(const struct plait_comm *comm, enum plait_coll coll, enum plait_op op, bool vform,
                                  const struct plait_space *space, const struct plait_call *call);

/* Sets the fields that the call and the configuration decide; the others are 0. */
struct plait_wish plait_wish_of(const struct plait_config *config, enum plait_coll coll, enum plait_op op, bool vform,
                                const struct plait_call *call);

/*
 * Most bytes of the vector or of a block on the eager path; 0: none. Reads vform, oversubscribed, remote, device and
 * paced.
 */
size_t plait_most_eager(enum plait_coll coll, uint32_t nrank, const struct plait_wish *wish);

/* Are the ranks on several nodes? node NULL: on one. */
bool plait_has_nodes(const uint32_t *node, uint32_t nrank);

/*
 * Reads coll, nrank, root, node and inplace of `shape`. Writes param and vform. Clears inplace for a caller's plan, and
 * sets it anew if inputs are divided first, as the quotients may lie elsewhere. Errors: PLAIT_ERR_CONFIG,
 * PLAIT_ERR_UNSUPPORTED.
 */
enum plait_status plait_select(struct plait_shape *shape, size_t count, enum plait_dtype type,
                               const struct plait_wish *wish, struct plait_selection *out);

/* Fail: this algorithm cannot run a v-form. */
enum plait_status plait_cannot_differ(const char *spec);

/* The spec in "allreduce:SPEC[,...]" (PLAIT_ALGO) for this collective, or "". */
void plait_spec_for(const char *setting, enum plait_coll coll, char spec[PLAIT_MAX_SPEC]);

/* The result of plait_comm_choose(). size: bytes of an element. */
void plait_explain(const struct plait_selection *s, enum plait_coll coll, size_t size, struct plait_choice *out);

#endif
