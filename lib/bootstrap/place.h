/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the ranks of an id meet: how rank 0 opens a door, and how the others come through it. What happens then is the
 * same everywhere (meeting.c).
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
    /* Rank 0: a descriptor that is readable when there may be somebody to take; -1 and errno. */
    int (*open)(struct plait_place *place, const struct plait_bootstrap *b, double until);

    /*
     * Take one who has come: hello and verdict are filled. *out is -1 when it is nobody or a stranger, who is dropped,
     * and on errors; PLAIT_ERR_PEER: one of ours ended before it had said who it is.
     */
    enum plait_status (*take)(struct plait_place *place, int door, struct plait_hello *hello,
                              struct plait_error *verdict, double until, int *out);
    void (*close)(struct plait_place *place, int door);

    /*
     * For rank 0's error: who was not let in while ranks are missing, or where there was no room for a door; "":
     * nothing.
     */
    void (*explain)(const struct plait_place *place, char *text, size_t size);

    /*
     * The others: come to rank 0, which may not be there yet, and say who this is and how it is. *out is a socket, also
     * when rank 0 closed it meanwhile: it may have said why.
     */
    enum plait_status (*join)(struct plait_place *place, const struct plait_bootstrap *b,
                              const struct plait_error *verdict, double until, int *out);

    /* Is this one of the door's own descriptors? */
    bool (*keeps)(const struct plait_place *place, int door, int fd);
};

/* Rank 0 and the others meet there: the star is complete, or an error that all who could be reached know. */
enum plait_status plait_meet_at(struct plait_bootstrap *b, struct plait_place *place, enum plait_status own);

/* A rank that may wait for rank 0 no longer. */
enum plait_status plait_rank_0_is_late(const struct plait_bootstrap *b, const char *why);

#endif
