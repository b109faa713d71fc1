/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers with gaps packed and unpacked; calls run or begun. */
#include "call.h"

#include <plait/log.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- Sides ------------------------------------------------------------------------------------------------------ */

/* Pack or unpack some elements, in turns that MPI's ints can count. */
static bool move(const struct plait_mpi_type *type, char *user, char *bytes, size_t count, bool pack)
{
    const size_t turn = type->size > 0 ? (1u << 30) / type->size : count;

    if (type->size == 0 || count == 0)
        return true;
    for (size_t done = 0, n; done < count; done += n) {
        n = count - done < turn ? count - done : turn;
        char *there = user + (ptrdiff_t)done * type->extent, *here = bytes + done * type->size;
        int at = 0;
        if (n == 0 || (pack ? PMPI_Pack(there, (int)n, type->handle, here, (int)(n * type->size), &at, plait_mpi_own)
                            : PMPI_Unpack(here, (int)(n * type->size), &at, there, (int)n, type->handle,
                                          plait_mpi_own)) != MPI_SUCCESS)
            return false;
    }
    return true;
}

/* Some parts of a packed side; PLAIT_MPI_ALL: all of them. */
static bool move_parts(struct plait_mpi_side *s, int part, bool pack)
{
    const int first = part == PLAIT_MPI_ALL ? 0 : part, after = part == PLAIT_MPI_ALL ? s->n : part + 1;
    bool good = true;

    for (int r = first; r < after && good; r++) {
        const size_t bytes = plait_mpi_part_bytes(s, r);
        const ptrdiff_t start = s->displs != NULL ? s->displs[r] : r * (ptrdiff_t)s->count * s->type.extent;
        good = bytes == 0 || move(&s->type, s->user + start, plait_mpi_part(s, r), bytes / s->type.size, pack);
    }
    return good;
}

/* Each part's bytes, and its start among the user's. */
static bool list_parts(struct plait_mpi_side *s, const int *counts, const int *displs)
{
    const size_t n = (size_t)s->n;
    ptrdiff_t lowest = PTRDIFF_MAX, next = 0;

    s->counts = malloc(n * (2 * sizeof *s->counts + sizeof *s->displs));
    if (s->counts == NULL)
        return false;
    s->starts = s->counts + n;
    s->displs = (ptrdiff_t *)(s->starts + n);
    for (size_t r = 0; r < n; r++) {
        s->counts[r] = (size_t)counts[r] * s->type.size;
        s->displs[r] = displs != NULL ? displs[r] * s->type.extent : next;
        next += counts[r] * s->type.extent;
        lowest = s->counts[r] > 0 && s->displs[r] < lowest ? s->displs[r] : lowest;
    }
    s->bytes = lowest < PTRDIFF_MAX ? s->user + lowest : s->user;
    for (size_t r = 0; r < n; r++)
        s->starts[r] = s->counts[r] > 0 ? (size_t)(s->displs[r] - lowest) : 0;
    return true;
}

/* A copy in which the parts lie one after the other. */
static bool copy_side(struct plait_mpi_side *s, int fill)
{
    size_t bytes = s->counts != NULL ? 0 : (size_t)s->n * s->count * s->type.size;

    for (int r = 0; s->counts != NULL && r < s->n; r++) {
        s->starts[r] = bytes;
        bytes += s->counts[r];
    }
    s->bytes = s->copy = malloc(bytes > 0 ? bytes : 1);
    return s->copy != NULL && (fill == PLAIT_MPI_NONE || move_parts(s, fill, true));
}

bool plait_mpi_side_open(struct plait_mpi_side *s, const struct plait_mpi_buffer *b, const struct plait_mpi_type *type,
                         int n, int fill)
{
    *s = (struct plait_mpi_side){ .user = (char *)(uintptr_t)b->memory, .type = *type, .n = n };
    s->bytes = s->user;
    if (b->count != VECTOR)
        s->count = (size_t)b->count;
    else if (!list_parts(s, b->counts, b->displs))
        return false;
    return type->plain || copy_side(s, fill);
}

/* From its first part to the end of its last. */
static size_t span_of(const struct plait_mpi_side *s)
{
    size_t most = 0;

    if (s->counts == NULL)
        return (size_t)s->n * s->count * s->type.size;
    for (int r = 0; r < s->n; r++)
        most = s->starts[r] + s->counts[r] > most ? s->starts[r] + s->counts[r] : most;
    return most;
}

static bool overlap(const struct plait_mpi_side *a, const struct plait_mpi_side *b)
{
    const uintptr_t first = (uintptr_t)a->bytes, second = (uintptr_t)b->bytes;
    const size_t m = span_of(a), n = span_of(b);

    return m > 0 && n > 0 && first < second + n && second < first + m;
}

bool plait_mpi_call_separate(struct plait_mpi_call *c)
{
    struct plait_mpi_side *sent = &c->sent, *received = &c->received;

    if (overlap(sent, received) && sent->copy == NULL && !copy_side(sent, PLAIT_MPI_ALL))
        return false;
    return !overlap(sent, received) || copy_side(received, PLAIT_MPI_NONE); /* the copy lies in a gap */
}

static void drop_side(struct plait_mpi_side *s)
{
    free(s->copy);
    free(s->counts);
    s->copy = NULL;
    s->counts = NULL;
}

void plait_mpi_call_drop(struct plait_mpi_call *c)
{
    drop_side(&c->sent);
    drop_side(&c->received);
}

/* ---- Running ---------------------------------------------------------------------------------------------------- */

static enum plait_status run(const struct plait_mpi_call *c, const struct plait_call *options)
{
    struct plait_comm *p = c->comm->plait;
    const struct plait_mpi_side *sent = &c->sent, *received = &c->received;
    const enum plait_dtype type = c->reduction.type;
    const enum plait_op op = c->reduction.op;
    const uint32_t root = (uint32_t)c->root;

    switch (c->name) {
    case PLAIT_MPI_Allreduce:
        return plait_allreduce(p, c->in, c->out, c->count, type, op, options);
    case PLAIT_MPI_Reduce:
        return plait_reduce(p, c->in, c->out, c->count, type, op, root, options);
    case PLAIT_MPI_Reduce_scatter:
        return plait_reduce_scatterv(p, c->in, c->out, sent->counts, sent->starts, type, op, options);
    case PLAIT_MPI_Reduce_scatter_block:
        return plait_reduce_scatter(p, c->in, c->out, c->count, type, op, options);
    case PLAIT_MPI_Bcast:
        return plait_broadcast(p, c->in, c->out, c->count, type, root, options);
    case PLAIT_MPI_Allgather:
        return plait_allgather(p, c->in, c->out, c->count, type, options);
    case PLAIT_MPI_Allgatherv:
        return plait_allgatherv(p, c->in, c->out, received->counts, received->starts, type, options);
    case PLAIT_MPI_Gather:
        return plait_gather(p, c->in, c->out, c->count, type, root, options);
    case PLAIT_MPI_Gatherv:
        return plait_gatherv(p, c->in, c->count, c->out, received->counts, received->starts, type, root, options);
    case PLAIT_MPI_Scatter:
        return plait_scatter(p, c->in, c->out, c->count, type, root, options);
    case PLAIT_MPI_Scatterv:
        return plait_scatterv(p, c->in, sent->counts, sent->starts, c->out, c->count, type, root, options);
    case PLAIT_MPI_Alltoall:
        return plait_alltoall(p, c->in, c->out, c->count, type, options);
    case PLAIT_MPI_Alltoallv:
        if (c->in == c->out)
            sent = received;
        return plait_alltoallv(p, c->in, sent->counts, sent->starts, c->out, received->counts, received->starts, type,
                               options);
    default:
        return plait_barrier(p, options);
    }
}

/*
 * The code of an error; the caller calls the handler. An error on this rank alone fails the comm: else the other ranks
 * would take this rank's later calls for the one that failed.
 */
static int code_of(const struct plait_mpi_call *c, const char *cause, bool alone)
{
    char text[1200];

    snprintf(text, sizeof text, "%s: %s", plait_mpi_name(c->name, c->blocks), cause);
    if (alone) {
        plait_log_write(PLAIT_LOG_ERROR, text);
        plait_comm_abort(c->comm->plait, text);
    }
    return plait_mpi_code(text);
}

void plait_mpi_call_close(struct plait_mpi_call *c, enum plait_status status)
{
    c->code = MPI_SUCCESS;
    if (status != PLAIT_OK)
        c->code = code_of(c, plait_last_error(), status > PLAIT_ERR_PEER);
    else if (c->received.copy != NULL && !move_parts(&c->received, PLAIT_MPI_ALL, false))
        c->code = MPI_ERR_TYPE;
    plait_mpi_call_drop(c);
}

int plait_mpi_call_give_up(struct plait_mpi_call *c, const char *cause)
{
    plait_mpi_call_drop(c);
    return plait_mpi_handle(c->comm->mpi, code_of(c, cause, true));
}

static int end(struct plait_mpi_call *c, enum plait_status status)
{
    plait_mpi_call_close(c, status);
    return plait_mpi_handle(c->comm->mpi, c->code);
}

int plait_mpi_call_run(struct plait_mpi_call *c, MPI_Request *request)
{
    struct plait_call options = PLAIT_CALL_DEFAULT;
    struct plait_mpi_call *kept;
    enum plait_status status;

    if (request == NULL) {
        plait_mpi_enter();
        status = run(c, NULL);
        plait_mpi_leave();
        return end(c, status);
    }
    if ((kept = malloc(sizeof *kept)) == NULL)
        return plait_mpi_call_give_up(c, "out of memory for a request");
    *kept = *c;
    options.request = &kept->request;
    status = run(kept, &options);
    if (status == PLAIT_OK)
        return plait_mpi_request_make(kept, request);
    free(kept);
    return end(c, status);
}
