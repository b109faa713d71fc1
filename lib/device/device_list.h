/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of device_whole.c, and the list that its kernel walks: the blocks that it combines or copies, and their
 * places. The list follows from the geometry of the collective and of the leaders' plan.
 */
#ifndef PLAIT_LIB_DEVICE_DEVICE_LIST_H
#define PLAIT_LIB_DEVICE_DEVICE_LIST_H

#include "device_comm.h"

enum plait_list_phase {
    PLAIT_LIST_WHOLE,  /* all results */
    PLAIT_LIST_GATHER, /* the leaders' inputs */
    PLAIT_LIST_SPREAD  /* the members' results, from the leaders' output */
};

struct plait_whole {
    /* Groups of ranks that share a GPU, in the order of their lowest ranks, the leaders. */
    struct plait_team leaders;
    uint32_t *group, *place; /* [nrank] a rank's group, and its place in that */
    uint32_t *size;          /* [leaders.n] ranks of each group */
    uint32_t largest;
    uint32_t nmember, *members; /* this rank's group */
    bool ordered;               /* the canonical order is that of the groups, and in each that of its ranks */

    uint64_t sequence;        /* of the operation that the rest is about */
    bool offered;             /* this rank's operands */
    uint32_t ntaken, *taken;  /* members whose operands have arrived: [nmember] 1 */
    const char **at[2];       /* [nmember] addresses of IN and OUT */
    bool wide;                /* the leaders' plan is in fp32 */
    const void *from, *to;    /* IN and OUT of the leaders' plan */
    struct plait_item *items; /* [bytes] of room for a list */
    size_t bytes;
    /* [in a graph][IN, OUT] of the leaders' plan, or of a rank whose memory cannot be exported */
    struct plait_room rooms[2][2];
};

struct plait_device_list { /* of one kernel */
    struct plait_run *run;
    struct plait_whole *w;
    enum plait_list_phase phase;
    bool combines;
    size_t size;                /* bytes of what is counted: an element; without reduction a byte */
    struct plait_geometry g;    /* of the leaders' plan */
    struct plait_item *end;     /* behind the items so far */
    const void **end_addresses; /* behind the addresses so far: of blocks whose place differs between ranks */
};

/* Blocks of the operation in one block of the leaders' plan; groups of fewer ranks leave some unused. */
uint32_t plait_device_blocks_in_one(const struct plait_run *run, const struct plait_whole *w);
struct plait_geometry plait_device_leaders_geometry(const struct plait_run *run, const struct plait_whole *w);

/* Write this rank's block sizes and starts, of blocks of different sizes, where the leader reads them. */
void plait_device_show_sizes(const struct plait_run *run);

/* Make the list l->w->items .. l->end, for l->run, l->w and l->phase. */
enum plait_status plait_device_list(struct plait_device_list *l);

#endif
