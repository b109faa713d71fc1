/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collectives: what each call's arguments are for Plait, or that it runs in MPI. The functions open_...() return
 * MPI_SUCCESS (the call is ready to run on Plait), TO_MPI, or the code of an error.
 */
#include "call.h"

#include <stdint.h>
#include <stdio.h>

#define TO_MPI    -1 /* no code of MPI's */
#define NO_MEMORY "out of memory for data with gaps, or MPI cannot pack them"

/* Has it counts that MPI allows? */
static bool has_counts(const struct plait_mpi_buffer *b, int n)
{
    if (b->count != VECTOR)
        return b->count >= 0;
    for (int r = 0; b->counts != NULL && r < n; r++)
        if (b->counts[r] < 0)
            return false;
    return b->counts != NULL;
}

/* Does this rank what the root does? Without a root all ranks do. */
static bool is_root(const struct plait_mpi_call *c)
{
    return c->root < 0 || c->root == c->comm->rank;
}

/* ---- Reductions: type and operator are equal on all ranks ------------------------------------------------------- */

static int open_reduction(struct plait_mpi_call *c, const struct plait_mpi_arguments *a)
{
    if (!has_counts(&a->in, c->comm->nrank) || (is_root(c) ? a->out.memory : a->in.memory) == MPI_IN_PLACE)
        return TO_MPI;
    c->in = a->in.memory == MPI_IN_PLACE ? a->out.memory : a->in.memory;
    c->out = (void *)(uintptr_t)a->out.memory;
    c->count = (size_t)a->in.count * c->reduction.parts;
    return MPI_SUCCESS;
}

static int open_reduce_scatter(struct plait_mpi_call *c, const struct plait_mpi_arguments *a)
{
    const bool vector = a->in.count == VECTOR;
    const size_t parts = c->reduction.parts;
    const struct plait_mpi_type elements = { .size = parts, .extent = (ptrdiff_t)parts, .plain = true };
    struct plait_mpi_buffer out = a->out;
    struct plait_mpi_type type;
    const int code = open_reduction(c, a);

    if (code != MPI_SUCCESS || !plait_mpi_type_of(out.type, &type))
        return TO_MPI;
    /* The result is at the front of `out`; in place it is where the input begins, which Plait reads meanwhile. */
    type.plain = a->in.memory != MPI_IN_PLACE;
    out.count = vector ? a->in.counts[c->comm->rank] : a->in.count;
    if ((vector && !plait_mpi_side_open(&c->sent, &a->in, &elements, c->comm->nrank, PLAIT_MPI_NONE)) ||
        !plait_mpi_side_open(&c->received, &out, &type, 1, PLAIT_MPI_NONE))
        return plait_mpi_call_give_up(c, NO_MEMORY);
    c->out = c->received.bytes;
    return MPI_SUCCESS;
}

/* ---- Data that is moved: bytes ---------------------------------------------------------------------------------- */

/* Its parts that must be there before the call are `fill`. */
static int open_side(struct plait_mpi_call *c, struct plait_mpi_side *s, const struct plait_mpi_buffer *b, int n,
                     int fill)
{
    struct plait_mpi_type type;

    if (b->memory == MPI_IN_PLACE || !has_counts(b, n) || !plait_mpi_type_of(b->type, &type))
        return TO_MPI;
    return plait_mpi_side_open(s, b, &type, n, fill) && plait_mpi_call_separate(c)
               ? MPI_SUCCESS
               : plait_mpi_call_give_up(c, NO_MEMORY);
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

static int open_broadcast(struct plait_mpi_call *c, const struct plait_mpi_arguments *a)
{
    struct plait_mpi_side *s = is_root(c) ? &c->sent : &c->received;
    const int code = open_side(c, s, &a->out, 1, is_root(c) ? 0 : PLAIT_MPI_NONE);

    if (code != MPI_SUCCESS)
        return code;
    c->in = c->out = s->bytes;
    c->count = plait_mpi_part_bytes(s, 0);
    return MPI_SUCCESS;
}

/* Every rank sends one part; all of them go to the root, or to every rank. */
static int open_gather(struct plait_mpi_call *c, const struct plait_mpi_arguments *a)
{
    const int rank = c->comm->rank;
    const bool in_place = is_root(c) && a->in.memory == MPI_IN_PLACE;
    int code = MPI_SUCCESS;

    if (is_root(c))
        code = open_side(c, &c->received, &a->out, c->comm->nrank, in_place ? rank : PLAIT_MPI_NONE);
    if (code == MPI_SUCCESS && !in_place)
        code = open_side(c, &c->sent, &a->in, 1, 0);
    if (code != MPI_SUCCESS)
        return code;
    c->out = c->received.bytes;
    c->in = in_place ? plait_mpi_part(&c->received, rank) : c->sent.bytes;
    c->count = in_place ? plait_mpi_part_bytes(&c->received, rank) : plait_mpi_part_bytes(&c->sent, 0);
    return compare(c, c->count, is_root(c) ? plait_mpi_part_bytes(&c->received, rank) : c->count);
}

/* The root sends every rank its part. */
static int open_scatter(struct plait_mpi_call *c, const struct plait_mpi_arguments *a)
{
    const int rank = c->comm->rank;
    const bool in_place = is_root(c) && a->out.memory == MPI_IN_PLACE;
    int code = MPI_SUCCESS;

    if (is_root(c))
        code = open_side(c, &c->sent, &a->in, c->comm->nrank, PLAIT_MPI_ALL);
    if (code == MPI_SUCCESS && !in_place)
        code = open_side(c, &c->received, &a->out, 1, PLAIT_MPI_NONE);
    if (code != MPI_SUCCESS)
        return code;
    c->in = c->sent.bytes;
    c->out = in_place ? plait_mpi_part(&c->sent, rank) : c->received.bytes;
    c->count = in_place ? plait_mpi_part_bytes(&c->sent, rank) : plait_mpi_part_bytes(&c->received, 0);
    return compare(c, is_root(c) ? plait_mpi_part_bytes(&c->sent, rank) : c->count, c->count);
}

static int open_alltoall(struct plait_mpi_call *c, const struct plait_mpi_arguments *a)
{
    const int rank = c->comm->rank, nrank = c->comm->nrank;
    const bool in_place = a->in.memory == MPI_IN_PLACE;
    const struct plait_mpi_side *sent = in_place ? &c->received : &c->sent;
    int code = open_side(c, &c->received, &a->out, nrank, in_place ? PLAIT_MPI_ALL : PLAIT_MPI_NONE);

    if (code == MPI_SUCCESS && !in_place)
        code = open_side(c, &c->sent, &a->in, nrank, PLAIT_MPI_ALL);
    if (code != MPI_SUCCESS)
        return code;
    c->in = sent->bytes;
    c->out = c->received.bytes;
    c->count = plait_mpi_part_bytes(&c->received, 0);
    return compare(c, plait_mpi_part_bytes(sent, rank), plait_mpi_part_bytes(&c->received, rank));
}

static int open_barrier(struct plait_mpi_call *c, const struct plait_mpi_arguments *a)
{
    (void)c;
    (void)a;
    return MPI_SUCCESS;
}

/* ---- Every call ------------------------------------------------------------------------------------------------- */

static const struct kind {
    int (*open)(struct plait_mpi_call *c, const struct plait_mpi_arguments *a);
    bool reduces, has_root;
} kinds[] = {
    [PLAIT_MPI_Allreduce] = { open_reduction, .reduces = true },
    [PLAIT_MPI_Reduce] = { open_reduction, .reduces = true, .has_root = true },
    [PLAIT_MPI_Reduce_scatter] = { open_reduce_scatter, .reduces = true },
    [PLAIT_MPI_Reduce_scatter_block] = { open_reduce_scatter, .reduces = true },
    [PLAIT_MPI_Bcast] = { open_broadcast, .has_root = true },
    [PLAIT_MPI_Allgather] = { open_gather },
    [PLAIT_MPI_Allgatherv] = { open_gather },
    [PLAIT_MPI_Gather] = { open_gather, .has_root = true },
    [PLAIT_MPI_Gatherv] = { open_gather, .has_root = true },
    [PLAIT_MPI_Scatter] = { open_scatter, .has_root = true },
    [PLAIT_MPI_Scatterv] = { open_scatter, .has_root = true },
    [PLAIT_MPI_Alltoall] = { open_alltoall },
    [PLAIT_MPI_Alltoallv] = { open_alltoall },
    [PLAIT_MPI_Barrier] = { open_barrier },
};
_Static_assert(sizeof kinds / sizeof *kinds == PLAIT_MPI_NNAME, "every collective has its kind");

/* Sets `why`. The communicator's comm is made only for what Plait could run. */
static int open_call(struct plait_mpi_call *c, const struct plait_mpi_arguments *a)
{
    const struct kind *k = &kinds[c->name];

    if (!plait_mpi_is_on()) {
        c->why = PLAIT_MPI_OFF;
        return TO_MPI;
    }
    if (k->reduces && !plait_mpi_reduction_of(a->in.type, a->op, &c->reduction)) {
        c->why = PLAIT_MPI_OPERATION;
        return TO_MPI;
    }
    c->comm = plait_mpi_comm_of(a->comm, c->blocks);
    c->why = c->comm->why;
    if (c->why != PLAIT_MPI_RUNS)
        return TO_MPI;
    if (!k->reduces)
        c->reduction.type = PLAIT_UINT8;
    c->root = k->has_root ? a->root : -1;
    const bool good = !k->has_root || (a->root >= 0 && a->root < c->comm->nrank);
    const int code = good ? k->open(c, a) : TO_MPI;
    if (code == TO_MPI)
        c->why = PLAIT_MPI_WRONG;
    return code;
}

static int perform(enum plait_mpi_name name, const struct plait_mpi_arguments *a, MPI_Request *request)
{
    struct plait_mpi_call c = { .name = name, .blocks = request == NULL };
    const int code = open_call(&c, a);

    plait_mpi_count(c.name, c.blocks, c.why);
    if (code == MPI_SUCCESS)
        return plait_mpi_call_run(&c, request);
    plait_mpi_call_drop(&c);
    return code;
}

#define MPI_X(name_, iname, parameters, arguments, described)                        \
    static int call_##name_(MPI_UNWRAP parameters, MPI_Request *request)             \
    {                                                                                \
        const struct plait_mpi_arguments a = { .comm = comm, MPI_UNWRAP described }; \
        const int code = perform(PLAIT_MPI_##name_, &a, request);                    \
        return code != TO_MPI    ? code                                              \
               : request == NULL ? PMPI_##name_ arguments                            \
                                 : PMPI_##iname(MPI_UNWRAP arguments, request);      \
    }
MPI_COLLECTIVE_LIST(MPI_X)
#undef MPI_X

__attribute__((visibility("default"))) const struct plait_mpi_table plait_mpi_table = {
#define MPI_X(name, iname, parameters, arguments, described) .name = call_##name,
    MPI_COLLECTIVE_LIST(MPI_X)
#undef MPI_X
#define MPI_X(name, parameters, arguments) .name = plait_mpi_##name,
        MPI_OTHER_LIST(MPI_X)
#undef MPI_X
};
