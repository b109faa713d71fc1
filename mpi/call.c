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

    if (s->parts == NULL) {
        const size_t n = (size_t)(after - first) * s->count, skipped = (size_t)first * s->count;
        return move(&s->type, s->user + (ptrdiff_t)skipped * s->type.extent, s->bytes + skipped * s->type.size, n,
                    pack);
    }
    for (int r = first; r < after && good; r++)
        if (s->parts[r] > 0)
            good =
                move(&s->type, s->user + s->displs[r], s->bytes + s->parts[s->n + r], s->parts[r] / s->type.size, pack);
    return good;
}

/* Each part's bytes and start among the user's. */
static bool list_parts(struct plait_mpi_side *s, const int *counts, const int *displs)
{
    const size_t n = (size_t)s->n;
    ptrdiff_t lowest = PTRDIFF_MAX, next = 0;

    s->parts = malloc(n * (2 * sizeof *s->parts + sizeof *s->displs));
    if (s->parts == NULL)
        return false;
    s->displs = (ptrdiff_t *)(s->parts + 2 * n);
    for (int r = 0; r < s->n; r++) {
        s->parts[r] = (size_t)counts[r] * s->type.size;
        s->displs[r] = displs != NULL ? displs[r] * s->type.extent : next;
        next += counts[r] * s->type.extent;
        lowest = s->parts[r] > 0 && s->displs[r] < lowest ? s->displs[r] : lowest;
    }
    s->bytes = lowest < PTRDIFF_MAX ? s->user + lowest : s->user;
    for (size_t r = 0; r < n; r++)
        s->parts[n + r] = s->parts[r] > 0 ? (size_t)(s->displs[r] - lowest) : 0;
    return true;
}

/* A copy in which the parts lie one after the other. */
static bool copy_side(struct plait_mpi_side *s, int fill)
{
    size_t bytes = s->parts != NULL ? 0 : (size_t)s->n * s->count * s->type.size;

    for (int r = 0; s->parts != NULL && r < s->n; r++) {
        s->parts[s->n + r] = bytes;
        bytes += s->parts[r];
    }
    s->bytes = s->copy = malloc(bytes > 0 ? bytes : 1);
    return s->copy != NULL && (fill == PLAIT_MPI_NONE || move_parts(s, fill, true));
}

bool plait_mpi_side_open(struct plait_mpi_side *s, const void *user, const struct plait_mpi_type *type, int n,
                         size_t count, const int *counts, const int *displs, int fill)
{
    *s = (struct plait_mpi_side){ .user = (char *)(uintptr_t)user, .type = *type, .n = n, .count = count };
    s->bytes = s->user;
    return (counts == NULL || list_parts(s, counts, displs)) && (type->plain || copy_side(s, fill));
}

/* From its first part to the end of its last. */
static size_t span_of(const struct plait_mpi_side *s)
{
    size_t most = 0;

    if (s->parts == NULL)
        return (size_t)s->n * s->count * s->type.size;
    for (int r = 0; r < s->n; r++)
        most = s->parts[s->n + r] + s->parts[r] > most ? s->parts[s->n + r] + s->parts[r] : most;
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
    struct plait_mpi_side *sent = &c->sides[PLAIT_MPI_SENT], *received = &c->sides[PLAIT_MPI_RECEIVED];

    if (overlap(sent, received) && sent->copy == NULL && !copy_side(sent, PLAIT_MPI_ALL))
        return false;
    return !overlap(sent, received) || copy_side(received, PLAIT_MPI_NONE); /* the copy lies in a gap */
}

void plait_mpi_call_drop(struct plait_mpi_call *c)
{
    for (int i = 0; i < 2; i++) {
        free(c->sides[i].copy);
        free(c->sides[i].parts);
        c->sides[i].copy = NULL;
        c->sides[i].parts = NULL;
    }
}

/* ---- Running ---------------------------------------------------------------------------------------------------- */

static const size_t *counts_of(const struct plait_mpi_side *s)
{
    return s->parts;
}

static const size_t *starts_of(const struct plait_mpi_side *s)
{
    return s->parts != NULL ? s->parts + s->n : NULL;
}

static enum plait_status run(const struct plait_mpi_call *c, const struct plait_call *options)
{
    struct plait_comm *p = c->comm->plait;
    const struct plait_mpi_side *sent = &c->sides[PLAIT_MPI_SENT], *received = &c->sides[PLAIT_MPI_RECEIVED];

    if (sent->parts == NULL && c->in == c->out)
        sent = received; /* all-to-all in place */
    switch (c->name) {
    case PLAIT_MPI_Allreduce:
        return plait_allreduce(p, c->in, c->out, c->count, c->type, c->op, options);
    case PLAIT_MPI_Reduce:
        return plait_reduce(p, c->in, c->out, c->count, c->type, c->op, c->root, options);
    case PLAIT_MPI_Reduce_scatter:
        return plait_reduce_scatterv(p, c->in, c->out, counts_of(sent), starts_of(sent), c->type, c->op, options);
    case PLAIT_MPI_Reduce_scatter_block:
        return plait_reduce_scatter(p, c->in, c->out, c->count, c->type, c->op, options);
    case PLAIT_MPI_Bcast:
        return plait_broadcast(p, c->in, c->out, c->count, c->type, c->root, options);
    case PLAIT_MPI_Allgather:
        return plait_allgather(p, c->in, c->out, c->count, c->type, options);
    case PLAIT_MPI_Allgatherv:
        return plait_allgatherv(p, c->in, c->out, counts_of(received), starts_of(received), c->type, options);
    case PLAIT_MPI_Gather:
        return plait_gather(p, c->in, c->out, c->count, c->type, c->root, options);
    case PLAIT_MPI_Gatherv:
        return plait_gatherv(p, c->in, c->count, c->out, counts_of(received), starts_of(received), c->type, c->root,
                             options);
    case PLAIT_MPI_Scatter:
        return plait_scatter(p, c->in, c->out, c->count, c->type, c->root, options);
    case PLAIT_MPI_Scatterv:
        return plait_scatterv(p, c->in, counts_of(sent), starts_of(sent), c->out, c->count, c->type, c->root, options);
    case PLAIT_MPI_Alltoall:
        return plait_alltoall(p, c->in, c->out, c->count, c->type, options);
    case PLAIT_MPI_Alltoallv:
        return plait_alltoallv(p, c->in, counts_of(sent), starts_of(sent), c->out, counts_of(received),
                               starts_of(received), c->type, options);
    default:
        return plait_barrier(p, options);
    }
}

static const char *name_of(const struct plait_mpi_call *c)
{
    static const char *const names[][2] = {
#define MPI_X(name, iname, parameters, arguments) { "MPI_" #iname, "MPI_" #name },
        MPI_COLLECTIVE_LIST(MPI_X)
#undef MPI_X
    };

    return names[c->name][c->blocks];
}

/* The code of an error, whose text is this thread's last; the handler is yet to be called. */
static int code_of(const struct plait_mpi_call *c, enum plait_status status)
{
    char text[1200];

    if (status == PLAIT_OK)
        return MPI_SUCCESS;
    snprintf(text, sizeof text, "%s: %s", name_of(c), plait_last_error());
    if (status > PLAIT_ERR_PEER) /* a comm that fails logs that itself */
        plait_log_write(PLAIT_LOG_ERROR, text);
    return plait_mpi_code(text);
}

void plait_mpi_call_close(struct plait_mpi_call *c, enum plait_status status)
{
    struct plait_mpi_side *received = &c->sides[PLAIT_MPI_RECEIVED];

    c->code = code_of(c, status);
    if (status == PLAIT_OK && received->copy != NULL && !move_parts(received, PLAIT_MPI_ALL, false))
        c->code = MPI_ERR_TYPE;
    plait_mpi_call_drop(c);
}

int plait_mpi_call_give_up(struct plait_mpi_call *c, const char *text)
{
    char all[1200];

    plait_mpi_call_drop(c);
    snprintf(all, sizeof all, "%s: %s", name_of(c), text);
    plait_log_write(PLAIT_LOG_ERROR, all);
    plait_comm_abort(c->comm->plait, all);
    return plait_mpi_handle(c->comm->mpi, plait_mpi_code(all));
}

/*
 * The end of a call that has no request. What Plait refuses leaves its comm as it was, and this rank's later calls
 * would be taken for the others' earlier ones: so the comm fails.
 */
static int end(struct plait_mpi_call *c, enum plait_status status)
{
    if (status != PLAIT_OK && status > PLAIT_ERR_PEER)
        return plait_mpi_call_give_up(c, plait_last_error());
    plait_mpi_call_close(c, status);
    return c->code == MPI_SUCCESS ? MPI_SUCCESS : plait_mpi_handle(c->comm->mpi, c->code);
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
