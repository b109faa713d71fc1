/* SPDX-License-Identifier: BSD-3-Clause */
/* The probes for other arguments: the records of an operation on other ranks are compared with this rank's. */
#include "detector.h"

#include "base/status.h"
#include "failure/failure.h"
#include "failure/remote/update.h"

#include <stdio.h>
#include <string.h>

static const struct plait_record *record_of(const struct plait_comm *comm, uint32_t rank, uint64_t sequence)
{
    return plait_ring_record(&comm->peers[rank].control->ring, sequence);
}

/* Fail the comm: `rank` called operation `sequence` differently. An earlier operation is named in the text. */
static enum plait_status mismatch(struct plait_comm *comm, uint32_t rank, uint64_t sequence)
{
    const struct plait_what *a = &record_of(comm, comm->rank, sequence)->what;
    const struct plait_what *b = &record_of(comm, rank, sequence)->what;
    char what[192], earlier[64] = "";
    const char *remedy = "";

    if (sequence != comm->sequence || atomic_load_explicit(&comm->own->done, memory_order_relaxed) >= sequence)
        snprintf(earlier, sizeof earlier, "in %s%s #%llu ", plait_coll_name(a->coll), a->sized ? "v" : "",
                 (unsigned long long)sequence);
    if (a->coll != b->coll || a->sized != b->sized)
        snprintf(what, sizeof what, "collective is %s%s here and %s%s", plait_coll_name(a->coll), a->sized ? "v" : "",
                 plait_coll_name(b->coll), b->sized ? "v" : "");
    else if (a->count != b->count && !a->sized)
        snprintf(what, sizeof what, "count is %llu here and %llu", (unsigned long long)a->count,
                 (unsigned long long)b->count);
    else if (a->type != b->type)
        snprintf(what, sizeof what, "type is %s here and %s", plait_dtype_name(a->type), plait_dtype_name(b->type));
    else if (a->op != b->op)
        snprintf(what, sizeof what, "operator is %s here and %s", plait_op_name(a->op), plait_op_name(b->op));
    else if (a->root != b->root)
        snprintf(what, sizeof what, "root is %u here and %u", a->root, b->root);
    else if (a->count != b->count && a->sized)
        snprintf(what, sizeof what, "the largest block has %llu elements here and %llu", (unsigned long long)a->count,
                 (unsigned long long)b->count);
    else if (a->ordered != b->ordered)
        snprintf(what, sizeof what, "call->user->commutative is %d here and %d", !a->ordered, !b->ordered);
    else if (a->inplace != b->inplace) {
        snprintf(what, sizeof what, "call is %s here and %s", a->inplace ? "in place" : "out of place",
                 b->inplace ? "in place" : "out of place");
        remedy = "; a program's own algorithm needs it on all ranks or on none";
    } else if (a->device != b->device)
        snprintf(what, sizeof what, "memory is %s here and %s", a->device ? "a GPU's" : "the host's",
                 b->device ? "a GPU's" : "the host's");
    else if (a->factor != b->factor)
        snprintf(what, sizeof what, "out of plait_fusion_set_scale() is %.9g here and %.9g", (double)a->factor,
                 (double)b->factor);
    else if (a->mark != b->mark)
        snprintf(what, sizeof what, "call->mark is 0x%x here and 0x%x", a->mark, b->mark);
    else if (strncmp(a->algorithm, b->algorithm, sizeof a->algorithm) != 0)
        snprintf(what, sizeof what, "algorithm is %.21s here and %.21s", a->algorithm, b->algorithm);
    else if (a->settings != b->settings)
        snprintf(what, sizeof what, "choice (slice, rounding, configuration) is %08x here and %08x", a->settings,
                 b->settings);
    else
        snprintf(what, sizeof what,
                 "emit of algorithm %.21s depends on more than shape and rank: its plans hash to %08x here and %08x",
                 a->algorithm, a->plans, b->plans);
    return plait_comm_blame(comm, PLAIT_ERR_MISMATCH, rank, "%s%s on rank %u%s", earlier, what, rank, remedy);
}

/* A rank that called this operation with other arguments, or nrank. *all: all ranks have called it. */
static uint32_t find_difference(const struct plait_comm *comm, uint64_t sequence, bool *all)
{
    const uint64_t own = atomic_load_explicit(&record_of(comm, comm->rank, sequence)->word, memory_order_relaxed);

    *all = true;
    for (uint32_t r = 0; r < comm->nrank; r++) {
        const uint64_t word = atomic_load_explicit(&record_of(comm, r, sequence)->word, memory_order_acquire);
        if ((uint32_t)word == (uint32_t)own && word != own)
            return r;
        /* A later operation may have taken the entry; not all records of ranks on other hosts arrive. */
        const struct plait_replica *m = comm->peers[r].replica;
        *all &= (int32_t)((uint32_t)word - (uint32_t)own) >= 0 ||
                (m != NULL && sequence < atomic_load_explicit(&m->from, memory_order_acquire));
    }
    return comm->nrank;
}

enum plait_status plait_probe_calls(struct plait_comm *comm)
{
    bool all;
    const enum plait_status status = plait_probe_failures(comm);
    const uint32_t other = status == PLAIT_OK ? find_difference(comm, comm->sequence, &all) : comm->nrank;

    if (other == comm->nrank)
        return status;
    const enum plait_status earlier = plait_probe_past_calls(comm); /* the cause of later differences */
    return earlier != PLAIT_OK ? earlier : mismatch(comm, other, comm->sequence);
}

enum plait_status plait_probe_past_calls(struct plait_comm *comm)
{
    uint64_t s = atomic_load_explicit(&comm->own->unheard, memory_order_relaxed);
    bool all = true;

    while (PLAIT_GUARDS && s > 0 && all) {
        if (s + PLAIT_NRECORD <= comm->sequence) /* its record is overwritten */
            s = comm->sequence - PLAIT_NRECORD + 1;
        const uint32_t other = find_difference(comm, s, &all);
        if (other < comm->nrank)
            return mismatch(comm, other, s);
        if (all)
            s = s < comm->sequence ? s + 1 : 0;
    }
    atomic_store_explicit(&comm->own->unheard, s, memory_order_relaxed);
    return PLAIT_OK;
}
