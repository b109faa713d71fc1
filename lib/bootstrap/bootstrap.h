/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How ranks meet before they can communicate: a few small messages, and descriptors on one machine.
 *
 * Every call is collective and ends: in success, or within the time limit in an error that names
 * who is missing and that every rank still there gets.
 */
#ifndef PLAIT_LIB_BOOTSTRAP_H
#define PLAIT_LIB_BOOTSTRAP_H

#include <plait/comm.h>

#include <stdbool.h>

struct plait_bootstrap; /* one rank's connection */

/* Meet at the id's place. `seconds` limits this and every later call. */
enum plait_status plait_bootstrap_create(const struct plait_unique_id *id, uint32_t rank, uint32_t nrank,
                                         double seconds, struct plait_bootstrap **out);
void plait_bootstrap_destroy(struct plait_bootstrap *b);

/* all[r*bytes ..] = rank r's `own`, on every rank. */
enum plait_status plait_bootstrap_allgather(struct plait_bootstrap *b, const void *own, size_t bytes, void *all);

/*
 * Descriptors of every rank that gives some, to every rank that gives some (not its own).
 *
 * own  the n descriptors this rank gives, or NULL
 * n    how many each giving rank gives, equal on all
 * all  [nrank][n] new descriptors of the others, to be closed by the caller; -1 where there is none
 */
enum plait_status plait_bootstrap_share(struct plait_bootstrap *b, const int *own, uint32_t n, int *all);

/* Did every rank succeed? Each gives its status and text; the first failed rank's is everyone's result. */
enum plait_status plait_bootstrap_agree(struct plait_bootstrap *b, enum plait_status own);

#endif
