/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rendezvous place: how rank 0 listens and how the others connect. rendezvous.c does the rest, for all places alike.
 */
#ifndef PLAIT_LIB_BOOTSTRAP_PLACE_H
#define PLAIT_LIB_BOOTSTRAP_PLACE_H

#include "origin.h"
#include "star.h"

struct plait_hello { /* what a rank says of itself */
    uint32_t nrank, rank;
    struct plait_origin origin;
};

struct plait_place {
    /* Rank 0: listen. Returns the door, readable when a connection may be ready for take(); or -1 and errno. */
    int (*open)(struct plait_place *place, const struct plait_bootstrap *b, double until);

    /*
     * Take one rank: fills hello and verdict, and *out with its socket. *out is -1 when no rank is ready, when a
     * stranger was dropped, and on errors. PLAIT_ERR_PEER: a rank ended before it had named itself.
     */
    enum plait_status (*take)(struct plait_place *place, int door, struct plait_hello *hello,
                              struct plait_error *verdict, double until, int *out);
    void (*close)(struct plait_place *place, int door);

    /*
     * Detail for rank 0's error: which connections were refused while ranks are missing, or why open() failed. Leaves
     * `text` alone when there is nothing to say.
     */
    void (*explain)(const struct plait_place *place, char *text, size_t size);

    /*
     * The others: connect to rank 0, which may not listen yet, and send rank and verdict. *out is a socket, also if
     * rank 0 has closed it: its reason may still be there to read.
     */
    enum plait_status (*join)(struct plait_place *place, const struct plait_bootstrap *b,
                              const struct plait_error *verdict, double until, int *out);

    /* Is fd one of the door's own descriptors? */
    bool (*keeps)(const struct plait_place *place, int door, int fd);
};

/* Run the rendezvous. On success the star is complete; an error is known to all ranks that could be reached. */
enum plait_status plait_meet_at(struct plait_bootstrap *b, struct plait_place *place, enum plait_status own);

/* The error of a rank whose wait for rank 0 is over. */
enum plait_status plait_rank_0_is_late(const struct plait_bootstrap *b, const char *why);

#endif
