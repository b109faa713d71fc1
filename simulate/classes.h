/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that are equal under a symmetry of plans and machine do the same at the same times, so one of each class is
 * simulated.
 *
 * Classes are found by refinement: ranks are of one class if they run one program at one speed, if their peers of each
 * index are of one class and know them by the same index, and if what they use is of one class. Resources are of one
 * class if they have one capacity and the same number of users of each class. That is the coarsest partition in which
 * nothing that a rank can notice differs; 64-bit hashes stand for what is compared.
 */
#ifndef PLAIT_SIMULATE_CLASSES_H
#define PLAIT_SIMULATE_CLASSES_H

#include "machine.h"
#include "programs.h"

struct plait_classes {
    uint32_t nrank, nclass, nresource;
    uint32_t *of;       /* [nrank] class of each rank */
    uint32_t *member;   /* [nrank] ranks by class, the lowest of each first: it is simulated */
    uint32_t *begin;    /* [nclass + 1] in member */
    uint32_t *resource; /* [the machine's] class of each resource */
    uint32_t *first;    /* [nresource] its first resource */
};

/* merge: else each rank and each resource is a class. *c is to be destroyed after an error, too. */
enum plait_status plait_classes_create(struct plait_classes *c, const struct plait_programs *p,
                                       const struct plait_hardware *h, bool merge);
void plait_classes_destroy(struct plait_classes *c);

static inline uint32_t plait_class_size(const struct plait_classes *c, uint32_t class)
{
    return c->begin[class + 1] - c->begin[class];
}

/*
 * The resources of the lowest rank's message to a peer, and of its processor: as classes, each with the weight of all
 * ranks of the class that use it at the same time.
 */
void plait_classes_route(const struct plait_classes *c, const struct plait_programs *p, const struct plait_hardware *h,
                         uint32_t class, uint32_t index, struct plait_uses_of *out);
void plait_classes_own(const struct plait_classes *c, const struct plait_hardware *h, uint32_t class,
                       struct plait_uses_of *out);

#endif
