/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collectives: what each call's arguments are for Plait, or that it runs in MPI. Each function open_NAME() returns
 * MPI_SUCCESS (the call is ready to run on Plait), TO_MPI, or the code of an error.
 */
#include "call.h"

#include <stdio.h>
#include <string.h>

#define TO_MPI    -1 /* no code of MPI's */
#define NO_ROOT   -1
#define NO_MEMORY "out of memory for data with gaps, or MPI cannot pack them"

/* Does Plait run it? `why`: PLAIT_MPI_RUNS, or what this rank's arguments say. */
static bool begin(struct plait_mpi_call *c, enum plait_mpi_why why, int root, MPI_Comm comm)
{
    if (!plait_mpi_is_on())
        why = PLAIT_MPI_OFF;
    if (why == PLAIT_MPI_RUNS) {
        c->comm = plait_mpi_comm_of(comm, c->blocks);
        why = c->comm->why;
    }
    if (why == PLAIT_MPI_RUNS && root >= c->comm->nrank)
        why = PLAIT_MPI_WRONG;
    c->root = (uint32_t)root;
    c->type = PLAIT_UINT8;
    c->why = why;
    return why == PLAIT_MPI_RUNS;
}

/* The same for a root, which intercommunicators have below 0. */
static bool begin_rooted(struct plait_mpi_call *c, enum plait_mpi_why why, int root, MPI_Comm comm)
{
    return begin(c, why, root >= 0 ? root : INT32_MAX, comm);
}

static enum plait_mpi_why check(int count, MPI_Datatype handle, struct plait_mpi_type *type)
{
    return count >= 0 && plait_mpi_type_of(handle, type) ? PLAIT_MPI_RUNS : PLAIT_MPI_WRONG;
}

static bool are_counts(const int *counts, int n)
{
    for (int r = 0; counts != NULL && r < n; r++)
        if (counts[r] < 0)
            return false;
    return counts != NULL;
}

/* ---- Reductions: type and operator are equal on all ranks ---------------------------------------------------- */

static enum plait_mpi_why check_reduction(struct plait_mpi_call *c, const void *in, void *out, int count,
                                          MPI_Datatype handle, MPI_Op op, struct plait_mpi_type *type)
{
    const bool good = out != MPI_IN_PLACE || c->name == PLAIT_MPI_Reduce; /* of which only the root has it */
    const enum plait_mpi_why why = good ? check(count, handle, type) : PLAIT_MPI_WRONG;
    const int found = why == PLAIT_MPI_RUNS ? plait_mpi_op_of(op, type) : -1;

    c->in = in == MPI_IN_PLACE ? out : in;
    c->out = out;
    c->count = (size_t)count * type->parts;
    c->op = (enum plait_op)found;
    return why != PLAIT_MPI_RUNS ? why : found < 0 ? PLAIT_MPI_OPERATION : PLAIT_MPI_RUNS;
}

static int open_Allreduce(struct plait_mpi_call *c, const void *in, void *out, int count, MPI_Datatype type, MPI_Op op,
                          MPI_Comm comm)
{
    struct plait_mpi_type t = { 0 };

    if (!begin(c, check_reduction(c, in, out, count, type, op, &t), NO_ROOT, comm))
        return TO_MPI;
    c->type = (enum plait_dtype)t.type;
    return MPI_SUCCESS;
}

static int open_Reduce(struct plait_mpi_call *c, const void *in, void *out, int count, MPI_Datatype type, MPI_Op op,
                       int root, MPI_Comm comm)
{
    struct plait_mpi_type t = { 0 };

    if (!begin_rooted(c, check_reduction(c, in, out, count, type, op, &t), root, comm) ||
        (c->comm->rank == root ? out : in) == MPI_IN_PLACE)
        return TO_MPI;
    c->type = (enum plait_dtype)t.type;
    return MPI_SUCCESS;
}

/* The result is at the front of `out`; in place it is where the input begins, which Plait reads meanwhile. */
static int open_scattered(struct plait_mpi_call *c, const void *in, void *out, int count, struct plait_mpi_type type)
{
    c->type = (enum plait_dtype)type.type;
    type.plain = in != MPI_IN_PLACE;
    if (!plait_mpi_side_open(&c->sides[PLAIT_MPI_RECEIVED], out, &type, 1, (size_t)count, NULL, NULL, PLAIT_MPI_NONE))
        return plait_mpi_call_give_up(c, NO_MEMORY);
    c->out = c->sides[PLAIT_MPI_RECEIVED].bytes;
    return MPI_SUCCESS;
}

static int open_Reduce_scatter(struct plait_mpi_call *c, const void *in, void *out, const int counts[],
                               MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    struct plait_mpi_type t = { 0 };

    if (!begin(c, check_reduction(c, in, out, 0, type, op, &t), NO_ROOT, comm) || !are_counts(counts, c->comm->nrank))
        return TO_MPI;
    /* Its parts are counted in Plait's elements. */
    const struct plait_mpi_type elements = { .size = t.parts, .extent = (ptrdiff_t)t.parts, .plain = true };
    if (!plait_mpi_side_open(&c->sides[PLAIT_MPI_SENT], c->in, &elements, c->comm->nrank, 0, counts, NULL,
                             PLAIT_MPI_NONE))
        return plait_mpi_call_give_up(c, NO_MEMORY);
    return open_scattered(c, in, out, counts[c->comm->rank], t);
}

static int open_Reduce_scatter_block(struct plait_mpi_call *c, const void *in, void *out, int count, MPI_Datatype type,
                                     MPI_Op op, MPI_Comm comm)
{
    struct plait_mpi_type t = { 0 };

    if (!begin(c, check_reduction(c, in, out, count, type, op, &t), NO_ROOT, comm))
        return TO_MPI;
    return open_scattered(c, in, out, count, t);
}

/* ---- Data that is moved: bytes ------------------------------------------------------------------------------- */

/* One of a call's buffers, as its caller describes it. */
struct buffer {
    const void *memory;
    int count; /* of a part */
    MPI_Datatype type;
    bool vector;                /* instead: */
    const int *counts, *displs; /* [nrank] */
};
#define BUFFER(memory, count, type) \
    (struct buffer)                 \
    {                               \
        memory, count, type         \
    }
#define VECTOR(memory, counts, displs, type)  \
    (struct buffer)                           \
    {                                         \
        memory, 0, type, true, counts, displs \
    }

/* Its parts that must be there before the call are `fill`. */
static int open_side(struct plait_mpi_call *c, int which, const struct buffer *b, int n, int fill)
{
    struct plait_mpi_type type;

    if (b->memory == MPI_IN_PLACE || check(b->count, b->type, &type) != PLAIT_MPI_RUNS ||
        (b->vector && !are_counts(b->counts, n)))
        return TO_MPI;
    return plait_mpi_side_open(&c->sides[which], b->memory, &type, n, (size_t)b->count, b->counts, b->displs, fill) &&
                   plait_mpi_call_separate(c)
               ? MPI_SUCCESS
               : plait_mpi_call_give_up(c, NO_MEMORY);
}

static size_t bytes_of(const struct plait_mpi_side *s, int r)
{
    return s->parts != NULL ? s->parts[r] : s->count * s->type.size;
}

static char *start_of(const struct plait_mpi_side *s, int r)
{
    return s->bytes + (s->parts != NULL ? s->parts[s->n + r] : (size_t)r * s->count * s->type.size);
}

/* The block that this rank sends to itself must have the same size on both sides. */
static int compare(struct plait_mpi_call *c, size_t sent, size_t received)
{
    char text[120];

    if (sent == received)
        return MPI_SUCCESS;
    snprintf(text, sizeof text, "rank %d sends itself %zu bytes and receives %zu", c->comm->rank, sent, received);
    return plait_mpi_call_give_up(c, text);
}

static int open_Bcast(struct plait_mpi_call *c, void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    if (!begin_rooted(c, PLAIT_MPI_RUNS, root, comm))
        return TO_MPI;
    const bool sends = c->comm->rank == root;
    const int which = sends ? PLAIT_MPI_SENT : PLAIT_MPI_RECEIVED;
    const int code = open_side(c, which, &BUFFER(buffer, count, type), 1, sends ? 0 : PLAIT_MPI_NONE);
    if (code != MPI_SUCCESS)
        return code;
    c->in = c->out = c->sides[which].bytes;
    c->count = bytes_of(&c->sides[which], 0);
    return MPI_SUCCESS;
}

/* Every rank sends one part, `mine`; all of them go to the root, or to every rank. */
static int open_gather(struct plait_mpi_call *c, const struct buffer *mine, const struct buffer *all, bool gets)
{
    struct plait_mpi_side *sent = &c->sides[PLAIT_MPI_SENT], *received = &c->sides[PLAIT_MPI_RECEIVED];
    const int rank = c->comm->rank;
    const bool in_place = gets && mine->memory == MPI_IN_PLACE;
    int code = MPI_SUCCESS;

    if (gets)
        code = open_side(c, PLAIT_MPI_RECEIVED, all, c->comm->nrank, in_place ? rank : PLAIT_MPI_NONE);
    if (code == MPI_SUCCESS && !in_place)
        code = open_side(c, PLAIT_MPI_SENT, mine, 1, 0);
    if (code != MPI_SUCCESS)
        return code;
    c->out = gets ? received->bytes : NULL;
    c->in = in_place ? start_of(received, rank) : sent->bytes;
    c->count = in_place ? bytes_of(received, rank) : bytes_of(sent, 0);
    return compare(c, c->count, gets ? bytes_of(received, rank) : c->count);
}

static int open_Allgather(struct plait_mpi_call *c, const void *in, int in_count, MPI_Datatype in_type, void *out,
                          int out_count, MPI_Datatype out_type, MPI_Comm comm)
{
    return begin(c, PLAIT_MPI_RUNS, NO_ROOT, comm)
               ? open_gather(c, &BUFFER(in, in_count, in_type), &BUFFER(out, out_count, out_type), true)
               : TO_MPI;
}

static int open_Allgatherv(struct plait_mpi_call *c, const void *in, int in_count, MPI_Datatype in_type, void *out,
                           const int counts[], const int displs[], MPI_Datatype out_type, MPI_Comm comm)
{
    return begin(c, PLAIT_MPI_RUNS, NO_ROOT, comm)
               ? open_gather(c, &BUFFER(in, in_count, in_type), &VECTOR(out, counts, displs, out_type), true)
               : TO_MPI;
}

static int open_Gather(struct plait_mpi_call *c, const void *in, int in_count, MPI_Datatype in_type, void *out,
                       int out_count, MPI_Datatype out_type, int root, MPI_Comm comm)
{
    return begin_rooted(c, PLAIT_MPI_RUNS, root, comm)
               ? open_gather(c, &BUFFER(in, in_count, in_type), &BUFFER(out, out_count, out_type),
                             c->comm->rank == root)
               : TO_MPI;
}

static int open_Gatherv(struct plait_mpi_call *c, const void *in, int in_count, MPI_Datatype in_type, void *out,
                        const int counts[], const int displs[], MPI_Datatype out_type, int root, MPI_Comm comm)
{
    return begin_rooted(c, PLAIT_MPI_RUNS, root, comm)
               ? open_gather(c, &BUFFER(in, in_count, in_type), &VECTOR(out, counts, displs, out_type),
                             c->comm->rank == root)
               : TO_MPI;
}

/* The root sends every rank its part, `mine`. */
static int open_scatter(struct plait_mpi_call *c, const struct buffer *all, const struct buffer *mine)
{
    struct plait_mpi_side *sent = &c->sides[PLAIT_MPI_SENT], *received = &c->sides[PLAIT_MPI_RECEIVED];
    const int rank = c->comm->rank;
    const bool sends = c->root == (uint32_t)rank, in_place = sends && mine->memory == MPI_IN_PLACE;
    int code = MPI_SUCCESS;

    if (sends)
        code = open_side(c, PLAIT_MPI_SENT, all, c->comm->nrank, PLAIT_MPI_ALL);
    if (code == MPI_SUCCESS && !in_place)
        code = open_side(c, PLAIT_MPI_RECEIVED, mine, 1, PLAIT_MPI_NONE);
    if (code != MPI_SUCCESS)
        return code;
    c->in = sends ? sent->bytes : NULL;
    c->out = in_place ? start_of(sent, rank) : received->bytes;
    c->count = in_place ? bytes_of(sent, rank) : bytes_of(received, 0);
    return compare(c, sends ? bytes_of(sent, rank) : c->count, c->count);
}

static int open_Scatter(struct plait_mpi_call *c, const void *in, int in_count, MPI_Datatype in_type, void *out,
                        int out_count, MPI_Datatype out_type, int root, MPI_Comm comm)
{
    return begin_rooted(c, PLAIT_MPI_RUNS, root, comm)
               ? open_scatter(c, &BUFFER(in, in_count, in_type), &BUFFER(out, out_count, out_type))
               : TO_MPI;
}

static int open_Scatterv(struct plait_mpi_call *c, const void *in, const int counts[], const int displs[],
                         MPI_Datatype in_type, void *out, int out_count, MPI_Datatype out_type, int root, MPI_Comm comm)
{
    return begin_rooted(c, PLAIT_MPI_RUNS, root, comm)
               ? open_scatter(c, &VECTOR(in, counts, displs, in_type), &BUFFER(out, out_count, out_type))
               : TO_MPI;
}

static int open_alltoall(struct plait_mpi_call *c, const struct buffer *in, const struct buffer *out)
{
    struct plait_mpi_side *sent = &c->sides[PLAIT_MPI_SENT], *received = &c->sides[PLAIT_MPI_RECEIVED];
    const bool in_place = in->memory == MPI_IN_PLACE;
    int code = open_side(c, PLAIT_MPI_RECEIVED, out, c->comm->nrank, in_place ? PLAIT_MPI_ALL : PLAIT_MPI_NONE);

    if (code == MPI_SUCCESS && !in_place)
        code = open_side(c, PLAIT_MPI_SENT, in, c->comm->nrank, PLAIT_MPI_ALL);
    if (code != MPI_SUCCESS)
        return code;
    c->out = received->bytes;
    c->in = in_place ? received->bytes : sent->bytes;
    c->count = bytes_of(received, 0);
    return compare(c, bytes_of(in_place ? received : sent, c->comm->rank), bytes_of(received, c->comm->rank));
}

static int open_Alltoall(struct plait_mpi_call *c, const void *in, int in_count, MPI_Datatype in_type, void *out,
                         int out_count, MPI_Datatype out_type, MPI_Comm comm)
{
    return begin(c, PLAIT_MPI_RUNS, NO_ROOT, comm)
               ? open_alltoall(c, &BUFFER(in, in_count, in_type), &BUFFER(out, out_count, out_type))
               : TO_MPI;
}

static int open_Alltoallv(struct plait_mpi_call *c, const void *in, const int in_counts[], const int in_displs[],
                          MPI_Datatype in_type, void *out, const int out_counts[], const int out_displs[],
                          MPI_Datatype out_type, MPI_Comm comm)
{
    return begin(c, PLAIT_MPI_RUNS, NO_ROOT, comm) ? open_alltoall(c, &VECTOR(in, in_counts, in_displs, in_type),
                                                                   &VECTOR(out, out_counts, out_displs, out_type))
                                                   : TO_MPI;
}

static int open_Barrier(struct plait_mpi_call *c, MPI_Comm comm)
{
    return begin(c, PLAIT_MPI_RUNS, NO_ROOT, comm) ? MPI_SUCCESS : TO_MPI;
}

static void count_call(const struct plait_mpi_call *c, int code)
{
    const bool wrong = code == TO_MPI && c->why == PLAIT_MPI_RUNS;

    plait_mpi_count(c->name, c->blocks, wrong ? PLAIT_MPI_WRONG : c->why);
}

/* ---- The table ----------------------------------------------------------------------------------------------- */

#define MPI_X(name_, iname, parameters, arguments)                                          \
    static int call_##name_(MPI_UNWRAP parameters, MPI_Request *request)                    \
    {                                                                                       \
        struct plait_mpi_call c = { .name = PLAIT_MPI_##name_, .blocks = request == NULL }; \
        const int code = open_##name_(&c, MPI_UNWRAP arguments);                            \
        count_call(&c, code);                                                               \
        if (code == MPI_SUCCESS)                                                            \
            return plait_mpi_call_run(&c, request);                                         \
        plait_mpi_call_drop(&c);                                                            \
        return code != TO_MPI    ? code                                                     \
               : request == NULL ? PMPI_##name_ arguments                                   \
                                 : PMPI_##iname(MPI_UNWRAP arguments, request);             \
    }
MPI_COLLECTIVE_LIST(MPI_X)
#undef MPI_X

__attribute__((visibility("default"))) const struct plait_mpi_table plait_mpi_table = {
#define MPI_X(name, iname, parameters, arguments) .name = call_##name,
    MPI_COLLECTIVE_LIST(MPI_X)
#undef MPI_X
#define MPI_X(name, parameters, arguments) .name = plait_mpi_##name,
        MPI_OTHER_LIST(MPI_X)
#undef MPI_X
};
