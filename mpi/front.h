/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plait-pmpi.so: MPI's collectives on Plait. All ranks must decide alike where a call runs, or they wait for each other
 * for ever. So a decision uses only what MPI says is equal on all ranks:
 *
 *   the communicator   comm.c; the ranks agree once, at its first blocking collective
 *   type and operator  of reductions alone (types.c). Elsewhere they may differ between ranks, as counts may: only type
 *                      signatures must agree. So every type is taken: memory with gaps is packed (call.c)
 *
 * docs/mpi.md has the whole rule.
 */
#ifndef PLAIT_MPI_FRONT_H
#define PLAIT_MPI_FRONT_H

#include "calls.h"

#include <plait/comm.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* name, for the report: why a call ran in MPI */
#define PLAIT_MPI_WHY_LIST(X)                                                                \
    X(PLAIT_MPI_RUNS, "on Plait")                                                            \
    X(PLAIT_MPI_OFF, "Plait is off")                                                         \
    X(PLAIT_MPI_WRONG, "an argument that MPI reports, or MPI_COMM_NULL")                     \
    X(PLAIT_MPI_OPERATION, "operator or type of the reduction")                              \
    X(PLAIT_MPI_INTER, "intercommunicator")                                                  \
    X(PLAIT_MPI_ALONE, "communicator of one rank")                                           \
    X(PLAIT_MPI_WORLDS, "communicator with ranks outside MPI_COMM_WORLD")                    \
    X(PLAIT_MPI_MANY, "communicator of more ranks than Plait has")                           \
    X(PLAIT_MPI_EARLY, "nonblocking, before the communicator's first blocking one on Plait") \
    X(PLAIT_MPI_FAILED, "Plait could not make its communicator")

enum plait_mpi_why {
#define PLAIT_X(symbol, text) symbol,
    PLAIT_MPI_WHY_LIST(PLAIT_X)
#undef PLAIT_X
        PLAIT_MPI_NWHY
};

/* plait_mpi_Init() in begin.c, plait_mpi_Wait() and so on in request.c */
#define MPI_X(name, parameters, arguments) int plait_mpi_##name parameters;
MPI_OTHER_LIST(MPI_X)
#undef MPI_X

enum plait_mpi_name {
#define MPI_X(name, iname, parameters, arguments, described) PLAIT_MPI_##name,
    MPI_COLLECTIVE_LIST(MPI_X)
#undef MPI_X
        PLAIT_MPI_NNAME
};

/* As MPI spells it. */
const char *plait_mpi_name(enum plait_mpi_name name, bool blocks);

/* ---- begin.c: settings, begin and end --------------------------------------------------------------------------- */

/* The first call sets everything up. False: everything is to run in MPI. */
bool plait_mpi_is_on(void);
/* Count a call for PLAIT_MPI=report. */
void plait_mpi_count(enum plait_mpi_name name, bool blocks, enum plait_mpi_why why);
double plait_mpi_deadline(void);

/* ---- comm.c: Plait's comm of a communicator --------------------------------------------------------------------- */

struct plait_mpi_comm {
    struct plait_mpi_comm *next;
    MPI_Comm mpi; /* MPI_COMM_NULL: freed */
    struct plait_comm *plait;
    enum plait_mpi_why why; /* PLAIT_MPI_RUNS: plait is there */
    int rank, nrank;
    atomic_uint users; /* its communicator and its requests */
};

/* A copy of MPI_COMM_SELF, in which nobody sends. Its errors are returned. */
extern MPI_Comm plait_mpi_own;

bool plait_mpi_comms_init(void);
void plait_mpi_comms_finish(void);
/* Never NULL. A blocking call may make Plait's comm; all ranks do, or none does. */
struct plait_mpi_comm *plait_mpi_comm_of(MPI_Comm comm, bool blocks);
void plait_mpi_comm_hold(struct plait_mpi_comm *c);
void plait_mpi_comm_drop(struct plait_mpi_comm *c);
/* Around calls of Plait that may wait: MPI makes progress meanwhile. */
void plait_mpi_enter(void);
void plait_mpi_leave(void);

/* ---- types.c ---------------------------------------------------------------------------------------------------- */

struct plait_mpi_type {
    MPI_Datatype handle;
    size_t size;
    ptrdiff_t extent;
    bool plain; /* elements without gaps, in order */
};

/* False: MPI reports it. */
bool plait_mpi_type_of(MPI_Datatype handle, struct plait_mpi_type *out);

struct plait_mpi_reduction {
    enum plait_dtype type;
    enum plait_op op;
    unsigned parts; /* elements of that type in one of MPI's */
};

/* False: MPI reduces it. */
bool plait_mpi_reduction_of(MPI_Datatype handle, MPI_Op op, struct plait_mpi_reduction *out);

/* ---- error.c ---------------------------------------------------------------------------------------------------- */

/* Logs the text and calls the communicator's error handler with this text; returns the error code. */
int plait_mpi_error(MPI_Comm comm, const char *text);
/* The code alone; then the handler, unless the code is MPI_SUCCESS. Returns the code. */
int plait_mpi_code(const char *text);
int plait_mpi_handle(MPI_Comm comm, int code);

/* ---- request.c -------------------------------------------------------------------------------------------------- */

struct plait_mpi_call;
/* Give the caller a request for a call that has begun. The call is request.c's then; its memory is from malloc(). */
int plait_mpi_request_make(struct plait_mpi_call *call, MPI_Request *out);

#endif
