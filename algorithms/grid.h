/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Grids of ranks, and the chain of grids that covers any rank count (explained in decompose.c).
 *
 * Ranks count through the first dimension fastest, pieces of the vector through it slowest.
 */
#ifndef PLAIT_ALGORITHMS_GRID_H
#define PLAIT_ALGORITHMS_GRID_H

#include "emit.h"

#define MAX_DIM 32

struct grid {
    uint32_t ndim, size; /* size = f[0] * f[1] * ... */
    uint32_t f[MAX_DIM];
    bool direct[MAX_DIM]; /* exchange directly inside the dimension, not round a ring */
};

struct fold { /* one group of the chain */
    uint32_t first, n, level;
    uint32_t below, above; /* ranks in the group before and in the group after; 0: none */
    struct grid grid;
};

struct fold first_fold(const struct grid *g, uint32_t nrank);
struct fold next_fold(const struct fold *last, uint32_t nrank);

/* The group that holds position `me`; *before: the group before it, if any. */
struct fold fold_of(const struct grid *g, uint32_t nrank, uint32_t me, struct fold *before);

/* The piece that position `me` of a grid owns after the reduction, and the inverse. */
uint32_t piece_of(const struct grid *g, uint32_t me);
uint32_t owner_of(const struct grid *g, uint32_t piece);

/* The job of one line of the grid, along dimension d: the piece that `me` owns after dimensions 0 .. d-1. */
struct job line_job(const struct grid *g, const struct job *all, uint32_t d);

/* Messages on the longest path through all dimensions of a grid, one way; and rounds. */
uint64_t grid_depth(const struct grid *g);
uint64_t grid_rounds(const struct grid *g);

/*
 * Messages from one member's contribution through its grid to the owner of the piece, up the chain to group 0, down to
 * another member's group and through its grid; and the blocks of the first and the last message.
 */
uint64_t chain_path(const struct grid *g, uint32_t nrank, uint32_t from, uint32_t to, uint32_t piece,
                    struct range *first, struct range *last);

#endif
