/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plait-perf-openmpi: one rank of Open MPI as a worker of plait-perf, which starts it through mpirun. No other program
 * here knows MPI.
 */
#include "child.h"
#include "collectives.h"
#include "tuned_openmpi.h"
#include "worker.h"

#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct openmpi_rank {
    int rank, nrank, error;
    const struct tuned *tuned; /* the algorithm in use */
    MPI_Request request[2];    /* of the operation in progress */
};

/* Data that is only moved may have any type of this size. */
static MPI_Datatype moved_type(size_t bytes)
{
    return bytes == 1 ? MPI_UINT8_T : bytes == 2 ? MPI_UINT16_T : bytes == 4 ? MPI_UINT32_T : MPI_UINT64_T;
}

static MPI_Datatype combined_type(enum plait_dtype type)
{
    switch ((int)type) {
    case PLAIT_INT8:
        return MPI_INT8_T;
    case PLAIT_UINT8:
        return MPI_UINT8_T;
    case PLAIT_INT32:
        return MPI_INT32_T;
    case PLAIT_UINT32:
        return MPI_UINT32_T;
    case PLAIT_INT64:
        return MPI_INT64_T;
    case PLAIT_UINT64:
        return MPI_UINT64_T;
    case PLAIT_FLOAT32:
        return MPI_FLOAT;
    case PLAIT_FLOAT64:
        return MPI_DOUBLE;
    default:
        return MPI_DATATYPE_NULL; /* Open MPI 4.1 has no 16- and 8-bit floats */
    }
}

static MPI_Op mpi_op(enum plait_op op)
{
    switch ((int)op) {
    case PLAIT_SUM:
        return MPI_SUM;
    case PLAIT_PROD:
        return MPI_PROD;
    case PLAIT_MIN:
        return MPI_MIN;
    case PLAIT_MAX:
        return MPI_MAX;
    default:
        return MPI_OP_NULL; /* MPI has no average and no pre-multiplied sum */
    }
}

static bool supports(void *self, const struct operation *o)
{
    (void)self;
    return o->op == PLAIT_NOP || (combined_type(o->type) != MPI_DATATYPE_NULL && mpi_op(o->op) != MPI_OP_NULL);
}

static const char *choose(void *self, enum plait_coll coll, size_t bytes, uint32_t i)
{
    struct openmpi_rank *r = self;
    const struct tuned *t = tuned_find(coll, bytes, i);

    r->tuned = t != NULL ? t : r->tuned;
    return t != NULL ? t->name : NULL;
}

/* ---- the collectives --------------------------------------------------------------------------- */

/* An operation as MPI's functions take it. */
struct call {
    const struct operation *o;
    const void *in; /* or MPI_IN_PLACE */
    void *out;
    int count, root;
    MPI_Datatype type;
    MPI_Op op;
    MPI_Comm comm;
    bool at_root;
    int next, before;     /* ranks */
    MPI_Request *request; /* [2] of the form that does not block; NULL: the blocking one */
};

/* MPI's blocking function, or the one that starts a request, with the same arguments. */
#define CALL(Blocking, starting, ...) \
    (c->request == NULL ? MPI_##Blocking(__VA_ARGS__) : MPI_##starting(__VA_ARGS__, c->request))

static int allreduce(const struct call *c)
{
    return CALL(Allreduce, Iallreduce, c->in, c->out, c->count, c->type, c->op, c->comm);
}

static int reduce_scatter(const struct call *c)
{
    return CALL(Reduce_scatter_block, Ireduce_scatter_block, c->in, c->out, c->count, c->type, c->op, c->comm);
}

static int allgather(const struct call *c)
{
    return CALL(Allgather, Iallgather, c->in, c->count, c->type, c->out, c->count, c->type, c->comm);
}

/*
 * MPI broadcasts in place only. Out of place the root copies its input, as a program would that wants the result there.
 * A request, too, only reads the root's input.
 */
static int broadcast(const struct call *c)
{
    const int error = CALL(Bcast, Ibcast, c->at_root ? c->o->in : c->o->out, c->count, c->type, c->root, c->comm);

    if (c->at_root && !c->o->inplace)
        memcpy(c->o->out, c->o->in, c->o->count * plait_dtype_size(c->o->type));
    return error;
}

/* MPI takes MPI_IN_PLACE at the root only. */
static const void *input(const struct call *c)
{
    return c->at_root ? c->in : c->o->in;
}

static void *output(const struct call *c)
{
    return c->at_root && c->o->inplace ? MPI_IN_PLACE : c->out;
}

static int reduce(const struct call *c)
{
    return CALL(Reduce, Ireduce, input(c), c->out, c->count, c->type, c->op, c->root, c->comm);
}

static int gather(const struct call *c)
{
    return CALL(Gather, Igather, input(c), c->count, c->type, c->out, c->count, c->type, c->root, c->comm);
}

static int scatter(const struct call *c)
{
    return CALL(Scatter, Iscatter, c->o->in, c->count, c->type, output(c), c->count, c->type, c->root, c->comm);
}

static int alltoall(const struct call *c)
{
    return CALL(Alltoall, Ialltoall, c->in, c->count, c->type, c->out, c->count, c->type, c->comm);
}

static int reduce_scatterv(const struct call *c)
{
    return CALL(Reduce_scatter, Ireduce_scatter, c->in, c->out, c->o->in_parts.elements, c->type, c->op, c->comm);
}

static int allgatherv(const struct call *c)
{
    const struct parts *in = &c->o->in_parts, *out = &c->o->out_parts;

    return CALL(Allgatherv, Iallgatherv, c->in, *in->elements, c->type, c->out, out->elements, out->start, c->type,
                c->comm);
}

static int gatherv(const struct call *c)
{
    const struct parts *in = &c->o->in_parts, *out = &c->o->out_parts;

    return CALL(Gatherv, Igatherv, input(c), *in->elements, c->type, c->out, out->elements, out->start, c->type,
                c->root, c->comm);
}

static int scatterv(const struct call *c)
{
    const struct parts *in = &c->o->in_parts, *out = &c->o->out_parts;

    return CALL(Scatterv, Iscatterv, c->o->in, in->elements, in->start, c->type, output(c), *out->elements, c->type,
                c->root, c->comm);
}

static int alltoallv(const struct call *c)
{
    const struct parts *in = &c->o->in_parts, *out = &c->o->out_parts;

    return CALL(Alltoallv, Ialltoallv, c->in, in->elements, in->start, c->type, c->out, out->elements, out->start,
                c->type, c->comm);
}

/* 4.1 has no MPI_Isendrecv. */
static int sendrecv(const struct call *c)
{
    if (c->request == NULL)
        return MPI_Sendrecv(c->in, c->count, c->type, c->next, 0, c->out, c->count, c->type, c->before, 0, c->comm,
                            MPI_STATUS_IGNORE);
    const int error = MPI_Irecv(c->out, c->count, c->type, c->before, 0, c->comm, &c->request[0]);
    return error != MPI_SUCCESS ? error : MPI_Isend(c->in, c->count, c->type, c->next, 0, c->comm, &c->request[1]);
}

static int barrier(const struct call *c)
{
    return CALL(Barrier, Ibarrier, c->comm);
}

static int (*const calls[NCOLL])(const struct call *) = COLL_TABLE;

/* request: [2] to start, or NULL: block */
static bool do_as(struct openmpi_rank *r, const struct operation *o, MPI_Request *request)
{
    const bool moved = o->op == PLAIT_NOP;
    const struct call c = {
        .o = o,
        .in = o->inplace ? MPI_IN_PLACE : o->in,
        .out = o->out,
        .count = (int)o->count,
        .root = (int)o->root,
        .type = moved ? moved_type(plait_dtype_size(o->type)) : combined_type(o->type),
        .op = moved ? MPI_OP_NULL : mpi_op(o->op),
        .comm = r->tuned->comm,
        .at_root = r->rank == (int)o->root,
        .next = (r->rank + 1) % r->nrank,
        .before = (r->rank + r->nrank - 1) % r->nrank,
        .request = request,
    };

    const bool fits = o->count * collective_parts(o->coll, collective_is_vform(o->coll) ? (uint32_t)r->nrank : 1) <=
                      INT32_MAX; /* displacements of blocks are int, too */

    r->error = fits ? calls[o->coll](&c) : MPI_ERR_COUNT;
    return r->error == MPI_SUCCESS;
}

static bool run(void *self, const struct operation *o)
{
    return do_as(self, o, NULL);
}

static bool start(void *self, const struct operation *o)
{
    struct openmpi_rank *r = self;

    return do_as(r, o, r->request);
}

static bool test(void *self)
{
    struct openmpi_rank *r = self;
    int done;

    r->error = MPI_Testall(2, r->request, &done, MPI_STATUSES_IGNORE);
    return r->error == MPI_SUCCESS;
}

static bool wait(void *self)
{
    struct openmpi_rank *r = self;

    r->error = MPI_Waitall(2, r->request, MPI_STATUSES_IGNORE);
    return r->error == MPI_SUCCESS;
}

static const char *error_text(void *self)
{
    static char text[MPI_MAX_ERROR_STRING];
    int length;

    MPI_Error_string(((struct openmpi_rank *)self)->error, text, &length);
    return text;
}

static bool meet(void *self)
{
    struct openmpi_rank *r = self;

    r->error = MPI_Barrier(MPI_COMM_WORLD);
    return r->error == MPI_SUCCESS;
}

static const struct backend openmpi = {
    .name = "openmpi",
    .front = true,
    .alloc = worker_alloc,
    .free = worker_free,
    .supports = supports,
    .run = run,
    .error = error_text,
    .meet = meet,
    .choose = choose,
    .start = start,
    .test = test,
    .wait = wait,
};

static struct stage *join(const char *name, int rank, int *fd)
{
    char about[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;

    MPI_Get_library_version(about, &length);
    about[strcspn(about, ",\n")] = '\0';
    return worker_meet(name, (uint32_t)rank, about, fd);
}

int main(int argc, char **argv)
{
    const char *name = getenv("PLAIT_PERF_SOCKET");
    struct openmpi_rank self = { .error = MPI_SUCCESS, .request = { MPI_REQUEST_NULL, MPI_REQUEST_NULL } };
    int fd;

    if (name == NULL) {
        fprintf(stderr, "plait-perf-openmpi is started by plait-perf --peer openmpi:...\n");
        return 2;
    }
    child_follow(getppid(), SIGKILL);
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &self.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &self.nrank);
    struct stage *stage = join(name, self.rank, &fd);
    if (stage == NULL) {
        perror("plait-perf-openmpi: no coordinator");
        _exit(1);
    }
    worker_watch(fd, stage, (uint32_t)self.rank); /* mpirun is slow to notice that its own parent has gone */
    if (!worker_serve(fd, stage, (uint32_t)self.rank, &openmpi, &self))
        _exit(1); /* the coordinator has gone, or knows; MPI_Finalize() could wait for lost ranks */
    MPI_Finalize();
    return 0;
}
