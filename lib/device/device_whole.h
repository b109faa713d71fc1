/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that share a GPU run an operation without a plan's steps: the lowest of them, the *leader*, starts one kernel
 * that computes the results of all. Each rank sends the leader a message with the addresses of its operands, and sets a
 * flag in stream order once they are complete. The leader enqueues a wait for all flags, the kernel, and flags for "the
 * results are complete". Then it releases the messages, and each rank enqueues a wait for its flag. So the leader makes
 * three calls that enqueue work, and each other rank two. The leader of more than 65 ranks enqueues further batches
 * (PLAIT_NNOTIFICATION flags, PLAIT_NBATCH waits), and a list that one kernel's argument does not hold takes further
 * kernels: of blocks of different sizes an argument holds 72, if each has one operand and one result.
 *
 * If the comm has several GPUs or hosts, the kernel makes IN of a plan that only the leaders run: of the same
 * collective, with a rank for each GPU and, where blocks belong to ranks, the blocks of a GPU's ranks as one block. A
 * second kernel makes the results from OUT of that plan. The leaders' plan is an ordinary one, chosen and checked as
 * any other (struct plait_inner). A GPU's ranks need not be neighbours; if GPUs have different numbers of ranks, all
 * blocks are as long as the longest. All equal-block collectives run so: each value crosses to another GPU once, not
 * once for each rank. Those with blocks of different sizes run step by step, as their leaders' blocks would differ,
 * too.
 *
 * The collective's geometry (plait_block_of()) says which blocks a kernel combines. It combines in the canonical order.
 * 16- and 8-bit floats stay in fp32 until the last kernel, so the result is rounded once. If groups are of equally many
 * neighbours, a power of two, their order is the canonical one, too: of E(n), the groups are subtrees. Else
 * reproducible sums run step by step.
 */
#ifndef PLAIT_LIB_DEVICE_DEVICE_WHOLE_H
#define PLAIT_LIB_DEVICE_DEVICE_WHOLE_H

#include "device_comm.h"
#include "transport/transport.h"

/* ---- Its state, and the list that its kernel walks (device_list.c): blocks to combine or to copy, and their places */

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
    bool apart;                 /* each rank has its own GPU, or too many share one: there are no leaders */
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

/* ---- A turn, and the messages ------------------------------------------------------------------------------- */

struct plait_operands { /* of one rank, at their addresses in this process; NULL: it has none */
    const char *in;
    char *out;
};

/* See struct plait_space. */
enum plait_status plait_device_whole_turn(struct plait_run *run, bool *moved, bool *ended);
uint32_t plait_device_whole_awaited(const struct plait_run *run, uint32_t *ranks, uint32_t most);

void plait_device_whole_destroy(struct plait_device_comm *d);

/*
 * The messages, of transports/device.c. shows(): can the leader reach this memory, IN (operand 0) or OUT (1)?
 * offer_operands() then sends both, in place of the transport's offer(). take_operands(): they have arrived, and *out
 * is set. await(): put the wait for the rank's flag on the aimed queue. release() then answers as for any message.
 */
bool plait_device_shows(struct plait_link *link, uint32_t operand, const void *memory);
void plait_device_offer_operands(struct plait_link *link, uint32_t number, uint32_t fingerprint,
                                 const struct plait_operands *own);
bool plait_device_take_operands(struct plait_link *link, uint32_t number, uint32_t fingerprint,
                                struct plait_operands *out);
void plait_device_await(struct plait_link *link, uint32_t number);

#endif
