/* SPDX-License-Identifier: BSD-3-Clause */
/* One operation of any collective: run it, and know what it must give. */
#ifndef PLAIT_TESTS_COLLECTIVE_H
#define PLAIT_TESTS_COLLECTIVE_H

#include <plait/comm.h>
#include <plait/plan.h>

#define NCOLLECTIVE 7
extern const enum plait_coll collectives[NCOLLECTIVE]; /* but all-reduce and barrier */

#define NSIZED 5
extern const enum plait_coll sized_collectives[NSIZED]; /* that have a form with blocks of different sizes */

#define COLLECTIVE_RANKS 64 /* at most, where blocks differ in size */

struct collective { /* equal on all ranks, but for `odd` */
    enum plait_coll coll;
    char spec[PLAIT_MAX_SPEC]; /* "": chosen */
    enum plait_dtype type;
    enum plait_op op;
    enum plait_round round;
    uint32_t root;
    size_t count, slice;
    bool inplace, library;
    bool mixed;     /* in place on every other rank only */
    uint32_t sizes; /* not 0: blocks of 0 to `count` elements, which this number chooses, and gaps between them */
    uint32_t odd;   /* not 0: this rank takes block odd - 1 for an element bigger than it is */
};

enum plait_status collective_run(struct plait_comm *comm, const struct collective *c, const void *in, void *out);

/* The same in the form that the call asks for. */
enum plait_status collective_call(struct plait_comm *comm, const struct collective *c, const void *in, void *out,
                                  struct plait_call call);

/* Elements of a block. */
size_t collective_block(const struct collective *c, uint32_t blk);

/* Elements that a buffer with this side must have room for. */
size_t collective_elements(const struct collective *c, const struct plait_side *side);

/* The most elements of IN or OUT on any rank. */
size_t collective_room(const struct collective *c, uint32_t nrank);

/*
 * Where this rank's buffers are, NULL for one that it does not have: in place the smaller lies in the larger, in[] and
 * out[] being memory for each.
 */
struct collective_buffers {
    char *in, *out;
};
struct collective_buffers collective_place(const struct collective *c, uint32_t nrank, uint32_t rank, char *in,
                                           char *out);

bool collective_is_inplace(const struct collective *c, uint32_t rank);

/* The elements of a rank's input. */
void collective_fill(const struct collective *c, uint32_t nrank, uint32_t rank, void *in);

/* The elements of a rank's output; gaps stay as they are. `scratch` has collective_room(). */
void collective_want(const struct collective *c, uint32_t nrank, uint32_t rank, char *scratch, char *out);

/* Are all blocks of `out` what collective_want() gave? */
bool collective_right(const struct collective *c, uint32_t nrank, uint32_t rank, const char *out, const char *want);

#endif
