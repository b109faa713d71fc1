/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bound plans of all ranks. Most ranks of an algorithm do the same with other peers. So a program names a peer by
 * its *index* among the rank's peers, in the order in which the program first names them, and equal programs are kept
 * once. Blocks are taken to be equal.
 */
#ifndef PLAIT_SIMULATE_PROGRAMS_H
#define PLAIT_SIMULATE_PROGRAMS_H

#include "engine/prog.h"
#include "engine/select.h"

struct plait_program {
    struct plait_prog *prog; /* peers are indices; nsend and nrecv are [npeer]; spans and blocks are zero */
    uint32_t npeer;
    uint32_t **recv; /* [npeer] the step that receives each message of a slice */
    uint64_t hash;
};

struct plait_programs {
    uint32_t nrank, nprogram;
    struct plait_program *programs; /* [nprogram] */
    uint32_t *program;              /* [nrank] */
    size_t *first;                  /* [nrank + 1] in peer, back */
    uint32_t *peer;                 /* by rank and index */
    uint32_t *back;                 /* this rank's index among that peer's peers */
    size_t room;                    /* of peer */
    uint32_t *index;                /* [nrank] of a peer, for the rank at hand */
};

/* *p is to be destroyed after an error, too. */
enum plait_status plait_programs_create(struct plait_programs *p, const struct plait_selection *c,
                                        const struct plait_shape *shape);
void plait_programs_destroy(struct plait_programs *p);

#endif
