/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How ranks meet before they can communicate: a few small messages, and descriptors on one machine.
 *
 * Every call is collective and ends: in success, or within the time limit in an error that names
 * who is missing and that every rank still there gets. A rank with an error of its own takes part in the next call
 * all the same and gives the error as its verdict (`own`); the others get it, with the rank named, as their result, and
 * the meeting is over. No call but the first allocates memory, so that a rank without any can still say so.
 */
#ifndef PLAIT_LIB_BOOTSTRAP_H
#define PLAIT_LIB_BOOTSTRAP_H

#include <plait/comm.h>

#include <stdbool.h>

struct plait_bootstrap; /* one rank's connection */

/* An id that whoever has the same two computes alike: ranks that have one in common may meet without a word. */
void plait_unique_id_derive(const struct plait_unique_id *from, uint64_t salt, struct plait_unique_id *out);

/*
 * Meet at the id's place. `seconds` limits this and every later call. A rank whose `own` is an error, and any rank 0
 * that fails, stays for at most a few seconds to tell those who come; rank 0 that hears of a death, for half of one.
 */
enum plait_status plait_bootstrap_create(const struct plait_unique_id *id, uint32_t rank, uint32_t nrank,
                                         double seconds, enum plait_status own, struct plait_bootstrap **out);
void plait_bootstrap_destroy(struct plait_bootstrap *b);

/* all[r*bytes ..] = rank r's `mine`, on every rank; or the first verdict that is an error. */
enum plait_status plait_bootstrap_allgather(struct plait_bootstrap *b, enum plait_status own, const void *mine,
                                            size_t bytes, void *all);

/*
 * Descriptors of every rank that gives some, to every rank that gives some (not its own).
 *
 * gives  [nrank] the ranks that give, equal on all
 * mine   the n descriptors this rank gives, if it does
 * n      how many each giving rank gives, equal on all
 * all    [nrank][n] new descriptors of the others, to be closed by the caller; -1 where there is none, after an
 *        error too. The caller's next call takes the result as its `own`.
 */
enum plait_status plait_bootstrap_share(struct plait_bootstrap *b, const bool *gives, const int *mine, uint32_t n,
                                        int *all);

/* Did every rank succeed? */
static inline enum plait_status plait_bootstrap_agree(struct plait_bootstrap *b, enum plait_status own)
{
    return plait_bootstrap_allgather(b, own, NULL, 0, NULL);
}

#endif
