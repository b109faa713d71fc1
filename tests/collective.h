/* SPDX-License-Identifier: BSD-3-Clause */
/* One operation of any collective: run it, and know what it must give. */
#ifndef PLAIT_TESTS_COLLECTIVE_H
#define PLAIT_TESTS_COLLECTIVE_H

#include <plait/plan.h>

#define NCOLLECTIVE 7 /* but all-reduce and barrier */
extern const enum plait_coll collectives[NCOLLECTIVE];

struct collective { /* equal on all ranks */
    enum plait_coll coll;
    char spec[PLAIT_MAX_SPEC]; /* "": chosen */
    enum plait_dtype type;
    enum plait_op op;
    enum plait_round round;
    uint32_t root;
    size_t count, slice;
    bool inplace, library;
};

enum plait_status collective_run(struct plait_comm *comm, const struct collective *c, const void *in, void *out);

/* The same in the form that the call asks for. */
enum plait_status collective_call(struct plait_comm *comm, const struct collective *c, const void *in, void *out,
                                  struct plait_call call);

/* Elements that a rank with this side gives, or gets. */
size_t collective_elements(const struct collective *c, const struct plait_side *side);

/* The `n` elements of a rank's input. */
void collective_fill(const struct collective *c, uint32_t nrank, uint32_t rank, size_t n, void *out);

/* The `n` elements of a rank's output. `scratch` has room for all that a rank gives. */
void collective_want(const struct collective *c, uint32_t nrank, uint32_t rank, size_t n, char *scratch, char *out);

#endif
