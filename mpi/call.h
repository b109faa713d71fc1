/* SPDX-License-Identifier: BSD-3-Clause */
/* A collective as it was called, in MPI's terms and in Plait's. */
#ifndef PLAIT_MPI_CALL_H
#define PLAIT_MPI_CALL_H

#include "front.h"

#include <plait/request.h>

/*
 * One of the caller's buffers as bytes. Memory with gaps is packed into a copy, and unpacked from it at the end. A part
 * is what one rank sends to another. Plait takes no sides that overlap; MPI does where only their spans do.
 */
struct plait_mpi_side {
    char *user;
    struct plait_mpi_type type;
    int n;             /* parts */
    size_t count;      /* elements of each part; instead: */
    size_t *parts;     /* [n] bytes, then [n] starts from `bytes` in bytes; NULL: all alike, in a row */
    ptrdiff_t *displs; /* [n] starts from `user` in bytes, for packing */
    char *bytes;       /* what Plait reads or writes: the user's, or `copy` */
    char *copy;
};

struct plait_mpi_call {
    enum plait_mpi_name name;
    bool blocks;
    enum plait_mpi_why why; /* PLAIT_MPI_RUNS, or why it runs in MPI */
    struct plait_mpi_comm *comm;
    const void *in;
    void *out;
    size_t count;
    enum plait_dtype type;
    enum plait_op op;
    uint32_t root;
    struct plait_mpi_side sides[2]; /* sent, received; user NULL: none */
    struct plait_request *request;
    MPI_Request handle;
    struct plait_mpi_call *next; /* of request.c's table */
    int code;                    /* MPI's */
};

enum { PLAIT_MPI_SENT, PLAIT_MPI_RECEIVED };

/* Which parts a side must have before the call: of a received one those that lie in place. */
enum { PLAIT_MPI_NONE = -1, PLAIT_MPI_ALL = -2 }; /* else one part's number */

/*
 * counts  [n] elements of the parts, or NULL: each has `count`
 * displs  [n] starts in extents of the type; NULL: in a row
 * fill    the parts that must be there
 * False: no memory, or a part that MPI cannot pack
 */
bool plait_mpi_side_open(struct plait_mpi_side *s, const void *user, const struct plait_mpi_type *type, int n,
                         size_t count, const int *counts, const int *displs, int fill);

/* Sides that are not in place: copy what lies between the parts of the other. False: as above */
bool plait_mpi_call_separate(struct plait_mpi_call *c);

/* Run a call whose sides are open, or begin it if `request` is not NULL. Returns MPI's code, with errors handled. */
int plait_mpi_call_run(struct plait_mpi_call *c, MPI_Request *request);
/* Free what its sides hold. */
void plait_mpi_call_drop(struct plait_mpi_call *c);
/* This rank cannot take part, which its other ranks are told. Returns MPI's code. */
int plait_mpi_call_give_up(struct plait_mpi_call *c, const char *text);
/* The operation has ended: unpack, and free what the call holds, but not itself. */
void plait_mpi_call_close(struct plait_mpi_call *c, enum plait_status status);

#endif
