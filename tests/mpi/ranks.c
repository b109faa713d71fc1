/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An MPI program under libplait-mpi.so: every collective, blocking and not, beside the same call in MPI (PMPI_), whose
 * memory it must equal, gaps included. Usage: mpirun ... ranks MODE, as below
 */
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, nrank; /* of the communicator in use */
static MPI_Comm comm;

static void fail(const char *what, long a, long b)
{
    fprintf(stderr, "FAILED: rank %d of %d: %s (%ld, %ld)\n", rank, nrank, what, a, b);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void use(MPI_Comm c)
{
    comm = c;
    MPI_Comm_rank(c, &rank);
    MPI_Comm_size(c, &nrank);
}

/* ---- Calling either way ----------------------------------------------------------------------------------------- */

enum { BLOCKING, NONBLOCKING, IN_MPI } way;

/* Complete a request, each time by another function. */
static void complete(MPI_Request *request)
{
    static int turn;
    MPI_Request both[2] = { MPI_REQUEST_NULL, *request };
    MPI_Status status, statuses[2];
    int flag = 0, index = -1, n = 0, indices[2];

    switch (turn++ % 9) {
    case 0:
        MPI_Wait(request, &status);
        return;
    case 1:
        while (!flag)
            MPI_Test(request, &flag, MPI_STATUS_IGNORE);
        return;
    case 2:
        MPI_Waitall(2, both, statuses);
        break;
    case 3:
        MPI_Waitany(2, both, &index, &status);
        break;
    case 4:
        MPI_Waitsome(2, both, &n, indices, statuses);
        index = n == 1 ? indices[0] : -1;
        break;
    case 5:
        while (!flag)
            MPI_Testall(2, both, &flag, statuses);
        break;
    case 6:
        while (!flag)
            MPI_Testany(2, both, &index, &flag, &status);
        break;
    case 7:
        while (n == 0)
            MPI_Testsome(2, both, &n, indices, statuses);
        break;
    default:
        while (!flag)
            MPI_Request_get_status(*request, &flag, &status);
        MPI_Wait(&both[1], MPI_STATUS_IGNORE);
    }
    if (both[1] != MPI_REQUEST_NULL || (index >= 0 && index != 1))
        fail("the request is not complete", turn, index);
}

#define RUN(name, iname, ...)                    \
    do {                                         \
        MPI_Request request_;                    \
        if (way == IN_MPI) {                     \
            PMPI_##name(__VA_ARGS__);            \
        } else if (way == BLOCKING) {            \
            MPI_##name(__VA_ARGS__);             \
        } else {                                 \
            MPI_##iname(__VA_ARGS__, &request_); \
            complete(&request_);                 \
        }                                        \
    } while (0)

/* ---- Memory ----------------------------------------------------------------------------------------------------- */

#define ROOM (3u << 15) /* bytes of a buffer */

static char *sent, *received[2]; /* received: by Plait, by MPI */

/* Numbers whose sums and products are exact, in each type. */
static void fill(char *at, MPI_Datatype type, unsigned seed)
{
    for (size_t i = 0; i < ROOM / 16; i++) {
        const int x = 1 + (int)((((unsigned)i + 1) * (seed + 3) * 2654435761u >> 20) % 3);
        if (type == MPI_FLOAT || type == MPI_C_FLOAT_COMPLEX)
            ((float *)(void *)at)[i] = (float)x;
        else if (type == MPI_DOUBLE || type == MPI_C_DOUBLE_COMPLEX)
            ((double *)(void *)at)[i] = x;
        else if (type == MPI_INT || type == MPI_UNSIGNED)
            ((int *)(void *)at)[i] = x;
        else if (type == MPI_LONG || type == MPI_UINT64_T)
            ((long *)(void *)at)[i] = x;
        else
            at[i] = (char)x;
    }
}

static void same(const char *what, size_t bytes, long a, long b)
{
    for (size_t i = 0; i < bytes && memcmp(received[0], received[1], bytes) != 0; i++)
        if (received[0][i] != received[1][i]) {
            fprintf(stderr, "FAILED: rank %d of %d: %s (%ld, %ld): byte %zu is %d, in MPI %d\n", rank, nrank, what, a,
                    b, i, received[0][i], received[1][i]);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
}

/* The same call on Plait, once blocking and once not, and in MPI. */
static void compare(const char *what, void (*call)(long, long), long a, long b)
{
    char *const plait = received[0], *const mpi = received[1];

    for (unsigned i = 0; i < ROOM; i++)
        mpi[i] = (char)(i * 7 + (unsigned)rank);
    fill(mpi, MPI_INT, (unsigned)rank);
    for (way = BLOCKING; way <= NONBLOCKING; way++) {
        memcpy(plait, mpi, ROOM);
        char *before = malloc(ROOM);
        memcpy(before, mpi, ROOM);
        call(a, b);
        const int was = way;
        way = IN_MPI;
        received[0] = mpi; /* calls use received[0] */
        call(a, b);
        received[0] = plait;
        way = was;
        same(what, ROOM, a, b);
        memcpy(mpi, before, ROOM);
        free(before);
    }
}

/* ---- Reductions ------------------------------------------------------------------------------------------------- */

static const MPI_Datatype *types;
static const MPI_Op *ops;
static int count, in_place, root;
static MPI_Datatype type;
static MPI_Op op;

static void reductions(long which, long unused)
{
    int counts[64], total = 0, to = root;

    (void)unused;
#ifdef MPICH_VERSION
    to = in_place ? 0 : root; /* MPICH 4.0 crashes if another rank reduces in place */
#endif
    for (int r = 0; r < nrank; r++)
        total += counts[r] = (count + r * 3) % (count + 2);
    if (in_place) {
        memset(received[0], 0, ROOM);
        fill(received[0], type, (unsigned)rank);
    }
    switch (which) {
    case 0:
        RUN(Allreduce, Iallreduce, in_place ? MPI_IN_PLACE : sent, received[0], count, type, op, comm);
        break;
    case 1:
        RUN(Reduce, Ireduce, in_place && rank == to ? MPI_IN_PLACE : sent, received[0], count, type, op, to, comm);
        break;
    case 2:
        RUN(Reduce_scatter_block, Ireduce_scatter_block, in_place ? MPI_IN_PLACE : sent, received[0], count, type, op,
            comm);
        break;
    default:
        RUN(Reduce_scatter, Ireduce_scatter, in_place ? MPI_IN_PLACE : sent, received[0], counts, type, op, comm);
    }
    if (which >= 2 && in_place) { /* what follows the result is MPI's own affair */
        int size;
        MPI_Type_size(type, &size);
        memset(received[0] + (which == 2 ? count : counts[rank]) * size, 0, (size_t)(total + nrank * count) * size);
    }
}

static void all_reductions(int every)
{
    static const int some[] = { 0, 1, 7, 600 };

    for (int t = 0; types[t] != MPI_DATATYPE_NULL; t++)
        for (int o = 0; ops[o] != MPI_OP_NULL; o++) {
            type = types[t];
            op = ops[o];
            if ((type == MPI_C_FLOAT_COMPLEX || type == MPI_C_DOUBLE_COMPLEX) && op != MPI_SUM && op != MPI_PROD)
                continue;
            if (op == MPI_BOR && (type == MPI_FLOAT || type == MPI_DOUBLE || type == MPI_C_FLOAT_COMPLEX ||
                                  type == MPI_C_DOUBLE_COMPLEX))
                continue;
            fill(sent, type, (unsigned)rank);
            for (int c = 0; c < 4; c++)
                for (in_place = 0; in_place < 2; in_place++) {
                    if ((c + in_place + t + o) % every != 0)
                        continue;
                    count = some[c];
                    root = (t + o + c) % nrank;
                    for (long which = 0; which < 4; which++)
                        compare("a reduction", reductions, which, t * 100 + o);
                }
        }
}

/* ---- Data that is moved ----------------------------------------------------------------------------------------- */

/* Types of two ints; ranks use different ones for the same data. */
#define NPAIR 6
static MPI_Datatype pairs[NPAIR + 1];

static void make_pairs(void)
{
    MPI_Datatype gap;
    int lengths[2] = { 1, 1 }, backwards[2] = { 1, 0 };

    MPI_Type_contiguous(2, MPI_INT, &pairs[0]);
    MPI_Type_dup(pairs[0], &pairs[1]);
    MPI_Type_vector(2, 1, 3, MPI_INT, &pairs[2]);
    MPI_Type_indexed(2, lengths, backwards, MPI_INT, &pairs[3]);
    MPI_Type_create_resized(MPI_INT, 0, 12, &gap);
    MPI_Type_contiguous(2, gap, &pairs[4]);
    MPI_Type_free(&gap);
    MPI_Type_create_hvector(2, 1, -4, MPI_INT, &gap);
    MPI_Type_create_resized(gap, -4, 16, &pairs[5]);
    MPI_Type_free(&gap);
    for (int i = 0; i < NPAIR; i++)
        MPI_Type_commit(&pairs[i]);
    pairs[NPAIR] = MPI_INT; /* which counts twice */
}

struct kind {
    MPI_Datatype type;
    int times; /* elements of a pair */
};

static struct kind kind_of(long which, int sends)
{
    const int i = (int)((which + rank * 2 + sends * 3) % (NPAIR + 1));

    return (struct kind){ pairs[i], i == NPAIR ? 2 : 1 };
}

static int part(int from, int to, int n) /* pairs from one rank to another */
{
    return n == 0 ? 0 : (from * 3 + to * 5 + n) % (n < 9 ? n : 9) * (n / 9 + 1);
}

/* Parts in the reverse order, with gaps. */
static void place(int *counts, int *places, const struct kind *k, int n, int to_me)
{
    int at = -2; /* buffers begin 64 bytes after their memory */

    for (int r = nrank - 1; r >= 0; r--) {
        counts[r] = k->times * (to_me == 2 ? part(r, 0, n) : to_me ? part(r, rank, n) : part(rank, r, n));
        places[r] = at;
        at += counts[r] + k->times;
    }
}

static void moves(long which, long how)
{
    const struct kind s = kind_of(how, 1), r = kind_of(how, 0);
    int sc[64], sp[64], rc[64], rp[64];
    const int n = count;
    char *const out = received[0] + 64, *const in = sent + 64;

    switch (which) {
    case 0:
        RUN(Bcast, Ibcast, out, n * r.times, r.type, root, comm);
        break;
    case 1:
        RUN(Allgather, Iallgather, in_place ? MPI_IN_PLACE : in, in_place ? 0 : n * s.times, s.type, out, n * r.times,
            r.type, comm);
        break;
    case 2:
        place(rc, rp, &r, n, 2);
        RUN(Allgatherv, Iallgatherv, in_place ? MPI_IN_PLACE : in, part(rank, 0, n) * s.times, s.type, out, rc, rp,
            r.type, comm);
        break;
    case 3:
        if (rank == root)
            RUN(Gather, Igather, in_place ? MPI_IN_PLACE : in, n * s.times, s.type, out, n * r.times, r.type, root,
                comm);
        else
            RUN(Gather, Igather, in, n * s.times, s.type, NULL, -1, MPI_DATATYPE_NULL, root, comm);
        break;
    case 4:
        place(rc, rp, &r, n, 2);
        if (rank == root)
            RUN(Gatherv, Igatherv, in_place ? MPI_IN_PLACE : in, part(rank, 0, n) * s.times, s.type, out, rc, rp,
                r.type, root, comm);
        else
            RUN(Gatherv, Igatherv, in, part(rank, 0, n) * s.times, s.type, NULL, NULL, NULL, MPI_DATATYPE_NULL, root,
                comm);
        break;
    case 5:
        if (rank == root)
            RUN(Scatter, Iscatter, in, n * s.times, s.type, in_place ? MPI_IN_PLACE : out, n * r.times, r.type, root,
                comm);
        else
            RUN(Scatter, Iscatter, NULL, -1, MPI_DATATYPE_NULL, out, n * r.times, r.type, root, comm);
        break;
    case 6:
        place(sc, sp, &s, n, 2);
        if (rank == root)
            RUN(Scatterv, Iscatterv, in, sc, sp, s.type, in_place ? MPI_IN_PLACE : out, part(rank, 0, n) * r.times,
                r.type, root, comm);
        else
            RUN(Scatterv, Iscatterv, NULL, NULL, NULL, MPI_DATATYPE_NULL, out, part(rank, 0, n) * r.times, r.type, root,
                comm);
        break;
    case 7:
        RUN(Alltoall, Ialltoall, in_place ? MPI_IN_PLACE : in, n * s.times, s.type, out, n * r.times, r.type, comm);
        break;
    case 8:
        place(sc, sp, &s, n, 0);
        place(rc, rp, &r, n, 1);
        RUN(Alltoallv, Ialltoallv, in, sc, sp, s.type, out, rc, rp, r.type, comm);
        break;
    default:
        RUN(Barrier, Ibarrier, comm);
    }
}

static void all_moves(int every)
{
    static const int some[] = { 0, 1, 5, 300 };

    for (long how = 0; how <= NPAIR; how++)
        for (int c = 0; c < 4; c++)
            for (in_place = 0; in_place < 2; in_place++) {
                if ((how + c) % every != 0)
                    continue;
                fill(sent, MPI_INT, (unsigned)rank);
                count = some[c];
                root = (int)(how + c) % nrank;
                for (long which = 0; which < 10; which++)
                    compare("a move", moves, which, how);
            }
}

/* Parts that are sent lie in gaps of those that are received: before, between and behind them. */
static void neighbours(long which, long at)
{
    int *const b = (int *)(void *)received[0], counts[64], one[64], rows[64], even[64], far[64];

    for (int r = 0; r < nrank; r++) {
        counts[r] = r == nrank / 2 ? 0 : 4;
        one[r] = 1;
        rows[r] = 5 + 4 * r;
        even[r] = 2 * r;
        far[r] = (int)at + 4 * r;
    }
    switch (which) {
    case 0:
        RUN(Gatherv, Igatherv, b + 1, counts[rank], MPI_INT, b, counts, rows, MPI_INT, root, comm);
        break;
    case 1:
        RUN(Allgatherv, Iallgatherv, b + 1, counts[rank], MPI_INT, b, counts, rows, MPI_INT, comm);
        break;
    case 2:
        RUN(Allgatherv, Iallgatherv, b + 1, 1, MPI_INT, b, one, even, MPI_INT, comm);
        break;
    case 3:
        RUN(Alltoallv, Ialltoallv, b, one, even, MPI_INT, b + 1, one, even, MPI_INT, comm);
        break;
    case 4:
        RUN(Alltoallv, Ialltoallv, b + 1, one, even, MPI_INT, b, one, even, MPI_INT, comm);
        break;
    case 5:
        RUN(Alltoallv, Ialltoallv, b, one, far, MPI_INT, b + 1, one, rows, MPI_INT, comm);
        break;
    default:
        RUN(Scatterv, Iscatterv, b, counts, far, MPI_INT, b + 8, counts[rank], MPI_INT, root, comm);
    }
}

static void all_neighbours(void)
{
    for (root = 0; root < nrank && nrank > 1; root += 2) /* on one rank Open MPI takes a base of both for in place */
        for (long which = 0; which < 7; which++)
            compare("neighbours", neighbours, which, 100);
}

/* ---- Modes ------------------------------------------------------------------------------------------------------ */

static int thin = 1; /* only one of so many */

static void collectives(void)
{
    const MPI_Datatype all_types[] = { MPI_INT,      MPI_FLOAT,           MPI_DOUBLE,           MPI_LONG,
                                       MPI_UNSIGNED, MPI_UINT64_T,        MPI_SIGNED_CHAR,      MPI_UNSIGNED_CHAR,
                                       MPI_SHORT,    MPI_C_FLOAT_COMPLEX, MPI_C_DOUBLE_COMPLEX, MPI_DATATYPE_NULL };
    const MPI_Op all_ops[] = { MPI_SUM, MPI_PROD, MPI_MAX, MPI_MIN, MPI_BOR, MPI_OP_NULL };
    MPI_Comm part, back, copy;
    int me, before, same_as;

    types = all_types;
    ops = all_ops;
    make_pairs();
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_split(MPI_COMM_WORLD, me == 0, 0, &part);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -me, &back);
    MPI_Comm_dup(back, &copy);
    const MPI_Comm comms[] = { MPI_COMM_WORLD, part, back, copy, MPI_COMM_SELF };
    for (int i = 0; i < 5; i++) {
        use(comms[i]);
        MPI_Barrier(comm);
        all_reductions((i > 0 ? 8 : 2) * thin);
        all_moves((i > 0 ? 5 : 1) * thin);
        all_neighbours();
    }
    MPI_Comm_compare(back, copy, &same_as);
    MPI_Comm_compare(MPI_COMM_WORLD, back, &before);
    if (same_as != MPI_CONGRUENT || (before != MPI_SIMILAR && before != MPI_CONGRUENT))
        fail("compared communicators", same_as, before);
    MPI_Comm_free(&copy);
    MPI_Comm_free(&back);
    MPI_Comm_free(&part);
    for (int i = 0; i < 100 / thin; i++) { /* handles are used again */
        MPI_Comm_split(MPI_COMM_WORLD, me % 2, i % 2 ? me : -me, &part);
        if (i % 10 == 0)
            MPI_Allreduce(&me, &before, 1, MPI_INT, MPI_SUM, part);
        MPI_Comm_free(&part);
    }
    for (int i = 0; i < NPAIR; i++)
        MPI_Type_free(&pairs[i]);
}

static void few(void)
{
    thin = 20;
    collectives();
}

/* A communicator is freed before its request has ended. In Open MPI 4.1 itself this is a segmentation fault. */
static void freed(void)
{
    int one = 1, sum = 0;
    MPI_Comm copy;
    MPI_Request request;

    use(MPI_COMM_WORLD);
    MPI_Comm_dup(comm, &copy);
    MPI_Barrier(copy);
    MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, copy, &request);
    MPI_Comm_free(&copy);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (sum != nrank)
        fail("the sum on a freed communicator", sum, nrank);
}

/* A rank waits in one library, and its answer to another rank is in the other. */
static void progress(void)
{
    const int n = 1 << 20;
    int *big = calloc((size_t)n, sizeof *big), one = 1, sum = 0, ready = 0;
    MPI_Request request;

    use(MPI_COMM_WORLD);
    MPI_Barrier(comm);
    for (int i = 0; i < 3; i++) {
        if (rank == 0) { /* receives while it is in the all-reduce */
            MPI_Irecv(big, n, MPI_INT, 1, 0, comm, &request);
            MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else {
            if (rank == 1)
                MPI_Send(big, n, MPI_INT, 0, 0, comm);
            MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
        }
        MPI_Iallreduce(big, big + n / 2, n / 2, MPI_INT, MPI_SUM, comm, &request);
        if (rank == 0) { /* the others' operation ends while it is in MPI_Recv() */
            for (int r = 1; r < nrank; r++)
                MPI_Recv(&ready, 1, MPI_INT, r, 1, comm, MPI_STATUS_IGNORE);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else {
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            MPI_Send(&one, 1, MPI_INT, 0, 1, comm);
        }
    }
    /* Requests of both kinds together, in any order. */
    MPI_Request requests[4];
    int parts[4] = { 0 }, left = rank == 0 ? nrank - 1 : (rank + nrank - 1) % nrank;
    for (int i = 0; i < 2; i++) {
        MPI_Iallreduce(&one, &parts[i], 1, MPI_INT, MPI_SUM, comm, &requests[i * 2]);
        MPI_Irecv(&parts[2 + i], 1, MPI_INT, left, i, comm, &requests[i * 2 + 1]);
    }
    for (int i = 0; i < 2; i++)
        MPI_Send(&one, 1, MPI_INT, (rank + 1) % nrank, i, comm);
    for (int i = 0, index; i < 4; i++) {
        MPI_Waitany(4, requests, &index, MPI_STATUS_IGNORE);
        if (index < 0 || index > 3)
            fail("MPI_Waitany's index", index, i);
    }
    if (parts[0] != nrank || parts[1] != nrank || parts[2] != 1 || parts[3] != 1)
        fail("requests of both kinds", parts[0], parts[2]);
    MPI_Comm copy; /* no comm of Plait either, if the first could not be made */
    MPI_Comm_split(comm, rank == 0, 0, &copy);
    MPI_Barrier(copy);
    MPI_Comm_free(&copy);
    free(big);
}

/* The program's own plait_idle_set(), which calls MPI: the other ranks come when rank 0's has been called. */
static int awaited;
static MPI_Request beside = MPI_REQUEST_NULL;

static void idle(void)
{
    int done;

    MPI_Test(&beside, &done, MPI_STATUS_IGNORE);
    for (int r = 1; awaited && r < nrank; r++)
        PMPI_Send(&awaited, 1, MPI_INT, r, 0, comm);
    awaited = 0;
}

static void idles(void)
{
    typedef void (*function)(void);
    void *const library = dlopen("libplait.so.0", RTLD_LAZY | RTLD_NOLOAD);
    function (*idle_set)(function) = NULL;
    int one = 1, sum[3] = { 0 };
    MPI_Request request;
    MPI_Comm copy;

    use(MPI_COMM_WORLD);
    MPI_Comm_dup(comm, &copy);
    MPI_Barrier(copy);
    MPI_Iallreduce(&one, &sum[2], 1, MPI_INT, MPI_SUM, copy, &beside);
    if (library != NULL)
        *(void **)&idle_set = dlsym(library, "plait_idle_set");
    if (idle_set == NULL)
        fail("libplait.so.0 is not loaded", 0, 0);
    idle_set(idle);
    MPI_Barrier(comm);
    for (int i = 0; i < 2; i++) {
        awaited = rank == 0;
        if (rank != 0)
            PMPI_Recv(&sum[i], 1, MPI_INT, 0, 0, comm, MPI_STATUS_IGNORE);
        if (i == 0) {
            MPI_Allreduce(&one, &sum[i], 1, MPI_INT, MPI_SUM, comm);
        } else {
            MPI_Iallreduce(&one, &sum[i], 1, MPI_INT, MPI_SUM, comm, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        if (sum[i] != nrank || idle_set(idle) != idle)
            fail("the sum, or the program's function is gone", sum[i], i);
    }
    MPI_Wait(&beside, MPI_STATUS_IGNORE);
    MPI_Comm_free(&copy);
    if (sum[2] != nrank)
        fail("the sum beside", sum[2], 0);
}

static void *work(void *arg)
{
    const MPI_Comm mine = *(MPI_Comm *)arg;
    int one = 1, sum = 0, n;
    MPI_Request request;

    MPI_Comm_size(mine, &n);
    for (int i = 0; i < 300; i++) {
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, mine);
        if (sum != n)
            fail("a thread's sum", sum, n);
        sum = 0;
        MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, mine, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (sum != n)
            fail("a thread's second sum", sum, n);
    }
    return NULL;
}

static void threads(void)
{
    pthread_t thread[3];
    MPI_Comm comms[3];

    for (int i = 0; i < 3; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    for (int i = 0; i < 3; i++)
        pthread_create(&thread[i], NULL, work, &comms[i]);
    for (int i = 0; i < 3; i++) {
        pthread_join(thread[i], NULL);
        MPI_Comm_free(&comms[i]);
    }
}

/* A rank dies, and the others get an error with its text. */
static void killed(void)
{
    char text[MPI_MAX_ERROR_STRING];
    int one = 1, sum, code, class, n;

    signal(SIGTERM, SIG_IGN); /* mpirun ends all: by SIGKILL a second later */
    use(MPI_COMM_WORLD);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Barrier(comm);
    if (rank == 1)
        raise(SIGKILL);
    code = MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    MPI_Error_string(code, text, &n);
    MPI_Error_class(code, &class);
    fprintf(stderr, "rank %d: code %s, class %s: %s\n", rank, code != MPI_SUCCESS ? "wrong" : "0",
            class > MPI_ERR_LASTCODE ? "own" : "MPI's", text);
    fflush(stderr);
    _exit(1);
}

/* Every rank gets the error of one rank's wrong call. */
static void errors(void)
{
    char text[MPI_MAX_ERROR_STRING];
    int ones[4] = { 1, 1, 1, 1 }, sums[4], code, n;
    MPI_Request request;

    use(MPI_COMM_WORLD);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
#ifdef OPEN_MPI /* Debian's MPICH does not look at arguments */
    if (MPI_Allreduce(ones, sums, -1, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS ||
        MPI_Bcast(ones, 1, MPI_INT, nrank, comm) == MPI_SUCCESS ||
        MPI_Allreduce(ones, sums, 1, MPI_DATATYPE_NULL, MPI_SUM, comm) == MPI_SUCCESS)
        fail("MPI takes wrong arguments", 0, 0);
#endif
    MPI_Barrier(comm);
    code = MPI_Iallreduce(ones, sums, rank == 1 ? 2 : 1, MPI_INT, MPI_SUM, comm, &request);
    if (code == MPI_SUCCESS)
        code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Error_string(code, text, &n);
    fprintf(stderr, "rank %d: %s\n", rank, text);
    if (MPI_Barrier(comm) == MPI_SUCCESS)
        fail("a barrier after an error", 0, 0);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
}

/*
 * A call that Plait alone refuses on one rank must not be taken for that rank's next one. If it refuses two ranks', each
 * logs its own cause, the later one, too, whose comm has failed by then.
 */
static void refused(void)
{
    MPI_Comm comms[3];
    MPI_Request request;
    int x[3] = { 1, 1, 1 }, sum = 0, code;

    use(MPI_COMM_WORLD);
    for (int i = 0; i < 3; i++) {
        MPI_Comm_dup(comm, &comms[i]);
        MPI_Comm_set_errhandler(comms[i], MPI_ERRORS_RETURN);
        MPI_Barrier(comms[i]);
    }
    code = MPI_Allreduce(rank == 1 ? NULL : x, &sum, 1, MPI_INT, MPI_SUM, comms[0]);
    if (code == MPI_SUCCESS || MPI_Allreduce(x, &sum, 1, MPI_INT, MPI_SUM, comms[0]) == MPI_SUCCESS)
        fail("a sum after a call that one rank lacks", code, sum);
    code = MPI_Iallreduce(rank == 1 ? NULL : x, &sum, 1, MPI_INT, MPI_SUM, comms[1], &request);
    if ((rank == 1) != (code != MPI_SUCCESS) || (rank != 1 && MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS) ||
        MPI_Allreduce(x, &sum, 1, MPI_INT, MPI_SUM, comms[1]) == MPI_SUCCESS)
        fail("a sum after a nonblocking call that one rank lacks", code, sum);
    for (int turn = 0; turn < 2; turn++) {
        if (turn == (rank == 2) &&
            MPI_Allreduce(rank == 1 ? NULL : x, rank == 2 ? x + 1 : &sum, 2, MPI_INT, MPI_MAX, comms[2]) == MPI_SUCCESS)
            fail("a sum after a call that two ranks lack", turn, sum);
        PMPI_Barrier(comm);
    }
    for (int i = 0; i < 3; i++)
        MPI_Comm_free(&comms[i]);
}

/* Sums of every type that docs/mpi.md names, and those names. */
static void names(void)
{
#define NAME(name)  \
    {               \
#name, name \
    }
    const struct {
        const char *name;
        MPI_Datatype type;
    } all[] = { NAME(MPI_FLOAT),
                NAME(MPI_DOUBLE),
                NAME(MPI_SIGNED_CHAR),
                NAME(MPI_UNSIGNED_CHAR),
                NAME(MPI_INT),
                NAME(MPI_UNSIGNED),
                NAME(MPI_LONG),
                NAME(MPI_UNSIGNED_LONG),
                NAME(MPI_LONG_LONG),
                NAME(MPI_LONG_LONG_INT),
                NAME(MPI_UNSIGNED_LONG_LONG),
                NAME(MPI_INT8_T),
                NAME(MPI_INT32_T),
                NAME(MPI_INT64_T),
                NAME(MPI_UINT8_T),
                NAME(MPI_UINT32_T),
                NAME(MPI_UINT64_T),
                NAME(MPI_AINT),
                NAME(MPI_OFFSET),
                NAME(MPI_COUNT),
                NAME(MPI_C_COMPLEX),
                NAME(MPI_C_FLOAT_COMPLEX),
                NAME(MPI_C_DOUBLE_COMPLEX),
                NAME(MPI_INTEGER),
                NAME(MPI_REAL),
                NAME(MPI_DOUBLE_PRECISION),
                NAME(MPI_COMPLEX),
                NAME(MPI_DOUBLE_COMPLEX) };

    use(MPI_COMM_WORLD);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        sent[0] = (char)(rank + 1);
        MPI_Allreduce(sent, received[0], 1, all[i].type, MPI_SUM, comm);
        PMPI_Allreduce(sent, received[1], 1, all[i].type, MPI_SUM, comm);
        same(all[i].name, 16, (long)i, 0);
        if (rank == 0)
            printf("name %s\n", all[i].name);
    }
}

static int nhandled;

static void handled(MPI_Comm *c, int *code, ...)
{
    (void)c;
    (void)code;
    nhandled++;
}

/* Errors of some requests are in the statuses, each at its request; asking for a status is no error. */
static void statuses(void)
{
    MPI_Errhandler handler;
    int x[4] = { 1, 1, 1, 1 }, y[4], none;

    use(MPI_COMM_WORLD);
    MPI_Comm_create_errhandler(handled, &handler);
    for (int form = 0; form < 5; form++) {
        MPI_Comm copy;
        MPI_Request requests[3];
        MPI_Status all[3], asked;
        int n = 3, done = 0, indices[3] = { 0, 1, 2 }, flag = 0, code = MPI_SUCCESS, wrong = 0;
        MPI_Comm_dup(comm, &copy);
        MPI_Comm_set_errhandler(copy, handler);
        MPI_Barrier(copy);
        nhandled = 0;
        MPI_Irecv(&none, 1, MPI_INT, MPI_PROC_NULL, 0, comm, &requests[0]);
        requests[1] = MPI_REQUEST_NULL;
        for (int turn = 0; turn < 2; turn++) { /* rank 1 fails when the others have begun */
            if (turn == (rank == 1))
                MPI_Iallreduce(rank == 1 ? NULL : x, y, 1, MPI_INT, MPI_SUM, copy, &requests[1]);
            PMPI_Barrier(comm);
        }
        MPI_Irecv(&none, 1, MPI_INT, MPI_PROC_NULL, 0, comm, &requests[2]);
        while (rank != 1 && form == 4 && !flag)
            if (MPI_Request_get_status(requests[1], &flag, &asked) != MPI_SUCCESS || nhandled > 0 ||
                (flag && asked.MPI_ERROR == MPI_SUCCESS))
                fail("MPI_Request_get_status() of a failed request", nhandled, flag);
        for (flag = 0; done < (rank == 1 ? 2 : 3) && code == MPI_SUCCESS; done += n) /* rank 1 has no third request */
            if (form % 4 == 0)
                code = MPI_Waitall(3, requests, all);
            else if (form == 1)
                code = MPI_Testall(3, requests, &flag, all), n = code != MPI_SUCCESS || flag ? 3 : 0;
            else if (form == 2)
                code = MPI_Waitsome(3, requests, &n, indices, all);
            else
                code = MPI_Testsome(3, requests, &n, indices, all);
        for (int i = 0; i < n; i++)
            wrong += (all[i].MPI_ERROR != MPI_SUCCESS) != (indices[i] == 1);
        if (rank != 1 && (code != MPI_ERR_IN_STATUS || wrong > 0 || nhandled != 1))
            fail("statuses of failed requests", form * 100 + wrong, code);
        MPI_Comm_free(&copy);
    }
    MPI_Errhandler_free(&handler);
}

/* MPI_IN_PLACE where it is not allowed, on all ranks that it would harm; MPI reports it. */
static void misplaced(void)
{
    int x[64] = { 0 };

    use(MPI_COMM_WORLD);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Barrier(comm);
    if (MPI_Bcast(MPI_IN_PLACE, 1, MPI_INT, 0, comm) == MPI_SUCCESS ||
        MPI_Allreduce(x, MPI_IN_PLACE, 1, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS ||
        MPI_Allgather(x, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, comm) == MPI_SUCCESS)
        fail("MPI takes MPI_IN_PLACE", 0, 0);
    if (rank != 0 && (MPI_Gather(MPI_IN_PLACE, 1, MPI_INT, x, 1, MPI_INT, 0, comm) == MPI_SUCCESS ||
                      MPI_Reduce(MPI_IN_PLACE, x, 1, MPI_INT, MPI_SUM, 0, comm) == MPI_SUCCESS ||
                      MPI_Scatter(x, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, 0, comm) == MPI_SUCCESS))
        fail("MPI takes MPI_IN_PLACE of no root", 0, 0);
    MPI_Barrier(comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
}

/* A type that is not committed can neither be packed nor unpacked. */
static void uncommitted(void)
{
    char text[MPI_MAX_ERROR_STRING];
    MPI_Datatype gaps;
    int x[8] = { 0 }, code, n;

    use(MPI_COMM_WORLD);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Barrier(comm);
    MPI_Type_vector(2, 1, 2, MPI_INT, &gaps);
    code = MPI_Bcast(x, rank == 1 ? 1 : 2, rank == 1 ? gaps : MPI_INT, 0, comm);
    if ((code != MPI_SUCCESS) != (rank == 1))
        fail("receiving a type that is not committed", code, 0);
    code = MPI_Bcast(x, rank == 1 ? 1 : 2, rank == 1 ? gaps : MPI_INT, 1, comm);
    MPI_Error_string(code, text, &n);
    fprintf(stderr, "rank %d: %s\n", rank, text);
    MPI_Type_free(&gaps);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
}

/* Parents, and children that they start: an intercommunicator, and one communicator of all. */
static const char *program;

static void spawn(void)
{
    char mode[] = "spawn", *arguments[] = { mode, NULL };
    MPI_Comm parents, between, all;
    int one = 1, sum = 0, nall;

    use(MPI_COMM_WORLD);
    MPI_Comm_get_parent(&parents);
    between = parents;
    if (parents == MPI_COMM_NULL)
        MPI_Comm_spawn(program, arguments, 2, MPI_INFO_NULL, 0, comm, &between, MPI_ERRCODES_IGNORE);
    for (int i = 0; i < 3; i++) {
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
        if (sum != nrank)
            fail("the sum of a world", sum, nrank);
        MPI_Barrier(between);
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, between);
        MPI_Intercomm_merge(between, parents != MPI_COMM_NULL, &all);
        MPI_Comm_size(all, &nall);
        if (sum != nall - nrank)
            fail("the sum of the others", sum, nall - nrank);
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, all);
        if (sum != nall || nall <= nrank)
            fail("the sum of all", sum, nall);
        MPI_Comm_free(&all);
    }
    MPI_Comm_disconnect(&between);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } modes[] = {
#define MODE(name) { #name, name }
        MODE(collectives), MODE(few),       MODE(progress),    MODE(threads),  MODE(killed), MODE(spawn), MODE(errors),
        MODE(refused),     MODE(misplaced), MODE(uncommitted), MODE(statuses), MODE(names),  MODE(freed), MODE(idles),
    };
    int provided;

    MPI_Init_thread(&argc, &argv, argc > 1 && strcmp(argv[1], "threads") == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE,
                    &provided);
    program = argv[0];
    sent = calloc(ROOM, 1);
    received[0] = calloc(ROOM, 1);
    received[1] = calloc(ROOM, 1);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (argc > 1 && strcmp(argv[1], modes[i].name) == 0)
            modes[i].run();
    MPI_Finalize();
    free(sent);
    free(received[0]);
    free(received[1]);
    return 0;
}
