/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside a node, or another group of a hierarchy: forms of reducing to its master, member 0, and of broadcasting from
 * there.
 */
#ifndef PLAIT_ALGORITHMS_INSIDE_H
#define PLAIT_ALGORITHMS_INSIDE_H

#include "emit.h"

struct inside_cost {
    uint64_t rounds;         /* one way */
    uint64_t sent, received; /* blocks, by one member, both ways */
};

struct inside {
    const char *name;
    bool splits; /* works on parts of the vector, one for each rank of the node */
    void (*reduce)(struct plait_builder *b, const struct job *j);
    void (*broadcast)(struct plait_builder *b, const struct job *j);
    /* Of member `me`, in a node of k ranks and for a vector of `nblk` blocks. */
    struct inside_cost (*cost)(uint32_t k, uint32_t nblk, uint32_t me);
    uint64_t (*hops)(uint32_t me); /* messages from this member to the master, and back; NULL if it splits */
    /* If it splits: */
    uint64_t (*up)(uint32_t k, uint32_t nblk, struct range r);   /* depth of these blocks at the master */
    uint64_t (*down)(uint32_t k, uint32_t nblk, struct range r); /* depth from there to the last member */
};

#define NINSIDE 3
extern const struct inside insides[NINSIDE];

#endif
