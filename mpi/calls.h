/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The functions of MPI that libplait-mpi.so has in the place of MPI's, and the table by which it reaches the part that
 * knows them. That part (plait-pmpi.so) is linked with MPI. libplait-mpi.so is not: it is loaded into programs that may
 * have no MPI, and loads the other at the first call of one of these functions.
 */
#ifndef PLAIT_MPI_CALLS_H
#define PLAIT_MPI_CALLS_H

#include <mpi.h>

/* name, name of the nonblocking form, parameters, arguments, struct plait_mpi_arguments (call.h) without its comm */
#define MPI_COLLECTIVE_LIST(X)                                                                                         \
    X(Allreduce, Iallreduce, (const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),      \
      (in, out, count, type, op, comm), (.in = { in, count, type }, .out = { out, count, type }, .op = op))            \
    X(Reduce, Ireduce, (const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm),  \
      (in, out, count, type, op, root, comm),                                                                          \
      (.in = { in, count, type }, .out = { out, count, type }, .op = op, .root = root))                                \
    X(Reduce_scatter, Ireduce_scatter,                                                                                 \
      (const void *in, void *out, const int counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm),                    \
      (in, out, counts, type, op, comm), (.in = { in, VECTOR, type, counts }, .out = { out, 0, type }, .op = op))      \
    X(Reduce_scatter_block, Ireduce_scatter_block,                                                                     \
      (const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),                             \
      (in, out, count, type, op, comm), (.in = { in, count, type }, .out = { out, count, type }, .op = op))            \
    X(Bcast, Ibcast, (void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm),                            \
      (buffer, count, type, root, comm), (.out = { buffer, count, type }, .root = root))                               \
    X(Allgather, Iallgather,                                                                                           \
      (const void *in, int in_count, MPI_Datatype in_type, void *out, int out_count, MPI_Datatype out_type,            \
       MPI_Comm comm),                                                                                                 \
      (in, in_count, in_type, out, out_count, out_type, comm),                                                         \
      (.in = { in, in_count, in_type }, .out = { out, out_count, out_type }))                                          \
    X(Allgatherv, Iallgatherv,                                                                                         \
      (const void *in, int in_count, MPI_Datatype in_type, void *out, const int counts[], const int displs[],          \
       MPI_Datatype out_type, MPI_Comm comm),                                                                          \
      (in, in_count, in_type, out, counts, displs, out_type, comm),                                                    \
      (.in = { in, in_count, in_type }, .out = { out, VECTOR, out_type, counts, displs }))                             \
    X(Gather, Igather,                                                                                                 \
      (const void *in, int in_count, MPI_Datatype in_type, void *out, int out_count, MPI_Datatype out_type, int root,  \
       MPI_Comm comm),                                                                                                 \
      (in, in_count, in_type, out, out_count, out_type, root, comm),                                                   \
      (.in = { in, in_count, in_type }, .out = { out, out_count, out_type }, .root = root))                            \
    X(Gatherv, Igatherv,                                                                                               \
      (const void *in, int in_count, MPI_Datatype in_type, void *out, const int counts[], const int displs[],          \
       MPI_Datatype out_type, int root, MPI_Comm comm),                                                                \
      (in, in_count, in_type, out, counts, displs, out_type, root, comm),                                              \
      (.in = { in, in_count, in_type }, .out = { out, VECTOR, out_type, counts, displs }, .root = root))               \
    X(Scatter, Iscatter,                                                                                               \
      (const void *in, int in_count, MPI_Datatype in_type, void *out, int out_count, MPI_Datatype out_type, int root,  \
       MPI_Comm comm),                                                                                                 \
      (in, in_count, in_type, out, out_count, out_type, root, comm),                                                   \
      (.in = { in, in_count, in_type }, .out = { out, out_count, out_type }, .root = root))                            \
    X(Scatterv, Iscatterv,                                                                                             \
      (const void *in, const int counts[], const int displs[], MPI_Datatype in_type, void *out, int out_count,         \
       MPI_Datatype out_type, int root, MPI_Comm comm),                                                                \
      (in, counts, displs, in_type, out, out_count, out_type, root, comm),                                             \
      (.in = { in, VECTOR, in_type, counts, displs }, .out = { out, out_count, out_type }, .root = root))              \
    X(Alltoall, Ialltoall,                                                                                             \
      (const void *in, int in_count, MPI_Datatype in_type, void *out, int out_count, MPI_Datatype out_type,            \
       MPI_Comm comm),                                                                                                 \
      (in, in_count, in_type, out, out_count, out_type, comm),                                                         \
      (.in = { in, in_count, in_type }, .out = { out, out_count, out_type }))                                          \
    X(Alltoallv, Ialltoallv,                                                                                           \
      (const void *in, const int in_counts[], const int in_displs[], MPI_Datatype in_type, void *out,                  \
       const int out_counts[], const int out_displs[], MPI_Datatype out_type, MPI_Comm comm),                          \
      (in, in_counts, in_displs, in_type, out, out_counts, out_displs, out_type, comm),                                \
      (.in = { in, VECTOR, in_type, in_counts, in_displs }, .out = { out, VECTOR, out_type, out_counts, out_displs })) \
    X(Barrier, Ibarrier, (MPI_Comm comm), (comm), ())

/* Begin, and what completes requests: name, parameters, arguments */
#define MPI_OTHER_LIST(X)                                                                                        \
    X(Init, (int *argc, char ***argv), (argc, argv))                                                             \
    X(Init_thread, (int *argc, char ***argv, int required, int *provided), (argc, argv, required, provided))     \
    X(Wait, (MPI_Request * request, MPI_Status * status), (request, status))                                     \
    X(Waitall, (int n, MPI_Request requests[], MPI_Status statuses[]), (n, requests, statuses))                  \
    X(Waitany, (int n, MPI_Request requests[], int *index, MPI_Status *status), (n, requests, index, status))    \
    X(Waitsome, (int n, MPI_Request requests[], int *nout, int indices[], MPI_Status statuses[]),                \
      (n, requests, nout, indices, statuses))                                                                    \
    X(Test, (MPI_Request * request, int *flag, MPI_Status *status), (request, flag, status))                     \
    X(Testall, (int n, MPI_Request requests[], int *flag, MPI_Status statuses[]), (n, requests, flag, statuses)) \
    X(Testany, (int n, MPI_Request requests[], int *index, int *flag, MPI_Status *status),                       \
      (n, requests, index, flag, status))                                                                        \
    X(Testsome, (int n, MPI_Request requests[], int *nout, int indices[], MPI_Status statuses[]),                \
      (n, requests, nout, indices, statuses))                                                                    \
    X(Request_get_status, (MPI_Request request, int *flag, MPI_Status *status), (request, flag, status))

#define MPI_UNWRAP(...) __VA_ARGS__

/* A collective's last argument is NULL for the blocking form; else the request is in the caller's variable. */
struct plait_mpi_table {
#define MPI_X(name, iname, parameters, arguments, described) int (*name)(MPI_UNWRAP parameters, MPI_Request * request);
    MPI_COLLECTIVE_LIST(MPI_X)
#undef MPI_X
#define MPI_X(name, parameters, arguments) int(*name) parameters;
    MPI_OTHER_LIST(MPI_X)
#undef MPI_X
};

#define PLAIT_MPI_TABLE "plait_mpi_table" /* its name in plait-pmpi.so */

#endif
