/* SPDX-License-Identifier: BSD-3-Clause */
/* A collective as it was called, in MPI's terms and in Plait's. */
#ifndef PLAIT_MPI_CALL_H
#define PLAIT_MPI_CALL_H

#include "front.h"

#include <plait/request.h>

/* ---- In MPI's terms --------------------------------------------------------------------------------------------- */

/* A part is what one rank sends to another. */
struct plait_mpi_buffer {
    const void *memory;
    int count; /* elements of each part; VECTOR: as in counts */
    MPI_Datatype type;
    const int *counts, *displs; /* [parts] */
};
#define VECTOR -1

/* Members that a call does not use are 0. */
struct plait_mpi_arguments {
    MPI_Comm comm;
    struct plait_mpi_buffer in, out;
    MPI_Op op;
    int root;
};

/* ---- In Plait's -------------------------------------------------------------------------------------------------- */

/*
 * A buffer as bytes. Memory with gaps is packed into a copy, and unpacked from it at the end. Plait takes no sides that
 * overlap; MPI does where only their spans do.
 */
struct plait_mpi_side {
    char *user;
    struct plait_mpi_type type;
    int n;                   /* parts */
    size_t count;            /* elements of each part; instead: */
    size_t *counts, *starts; /* [n] in bytes, from `bytes`; NULL: all alike, in a row */
    ptrdiff_t *displs;       /* [n] in bytes, from `user` */
    char *bytes;             /* what Plait reads or writes: the user's, or `copy` */
    char *copy;
};

static inline size_t plait_mpi_part_bytes(const struct plait_mpi_side *s, int part)
{
    return s->counts != NULL ? s->counts[part] : s->count * s->type.size;
}

static inline char *plait_mpi_part(const struct plait_mpi_side *s, int part)
{
    return s->bytes + (s->starts != NULL ? s->starts[part] : (size_t)part * s->count * s->type.size);
}

struct plait_mpi_call {
    enum plait_mpi_name name;
    bool blocks;
    enum plait_mpi_why why; /* PLAIT_MPI_RUNS, or why it runs in MPI */
    struct plait_mpi_comm *comm;
    const void *in;
    void *out;
    size_t count;
    struct plait_mpi_reduction reduction; /* its type: of moved data, too */
    int root;                             /* -1: none */
    struct plait_mpi_side sent, received; /* user NULL: none */
    int code;                             /* MPI's */
    /* request.c's: */
    struct plait_request *request;
    MPI_Request handle;
    int index; /* among the requests of the present call */
    struct plait_mpi_call *next;
};

/* Which parts a side must have before the call: of a received one those that lie in place. */
enum { PLAIT_MPI_NONE = -1, PLAIT_MPI_ALL = -2 }; /* else one part's number */

/* `fill`: the parts that must be there. False: no memory, or a part that MPI cannot pack */
bool plait_mpi_side_open(struct plait_mpi_side *s, const struct plait_mpi_buffer *b, const struct plait_mpi_type *type,
                         int n, int fill);
/* Sides that are not in place: copy what lies between the parts of the other. False: as above */
bool plait_mpi_call_separate(struct plait_mpi_call *c);

/* Run a call whose sides are open, or begin it if `request` is not NULL. Returns MPI's code, with errors handled. */
int plait_mpi_call_run(struct plait_mpi_call *c, MPI_Request *request);
/* This rank cannot take part, which its other ranks are told. Returns MPI's code. */
int plait_mpi_call_give_up(struct plait_mpi_call *c, const char *cause);
/* The operation has ended: unpack, and free what the sides hold. */
void plait_mpi_call_close(struct plait_mpi_call *c, enum plait_status status);
/* Free what the sides hold. */
void plait_mpi_call_drop(struct plait_mpi_call *c);

#endif
