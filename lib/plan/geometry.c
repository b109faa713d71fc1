/* SPDX-License-Identifier: BSD-3-Clause */
/* The blocks of IN and OUT in each collective; see <plait/plan.h>. */
#include "plan_check.h"

/* The blocks of a side (IN or OUT): all, all at the root only, the rank's own, those it sends, those it receives. */
enum holds { EVERYTHING, ROOT_EVERYTHING, OWN, FROM_HERE, TO_HERE };

static const struct row {
    enum plait_kind kind;
    bool combines;
    enum holds in, out;
} rows[PLAIT_NCOLL] = {
    [PLAIT_ALLREDUCE] = { PLAIT_KIND_VECTOR, true, EVERYTHING, EVERYTHING },
    [PLAIT_BARRIER] = { PLAIT_KIND_VECTOR, true, EVERYTHING, EVERYTHING }, /* of one token per rank */
    [PLAIT_REDUCE_SCATTER] = { PLAIT_KIND_PART, true, EVERYTHING, OWN },
    [PLAIT_ALLGATHER] = { PLAIT_KIND_PART, false, OWN, EVERYTHING },
    [PLAIT_BROADCAST] = { PLAIT_KIND_VECTOR, false, ROOT_EVERYTHING, EVERYTHING },
    [PLAIT_REDUCE] = { PLAIT_KIND_VECTOR, true, EVERYTHING, ROOT_EVERYTHING },
    [PLAIT_GATHER] = { PLAIT_KIND_PART, false, OWN, ROOT_EVERYTHING },
    [PLAIT_SCATTER] = { PLAIT_KIND_PART, false, ROOT_EVERYTHING, OWN },
    [PLAIT_ALLTOALL] = { PLAIT_KIND_PAIR, false, FROM_HERE, TO_HERE },
};

static struct plait_side side_of(enum holds holds, uint32_t nrank, bool at_root, uint32_t rank, uint32_t nblk)
{
    switch (holds) {
    case EVERYTHING:
        return (struct plait_side){ nblk, 0, 1 };
    case ROOT_EVERYTHING:
        return (struct plait_side){ at_root ? nblk : 0, 0, 1 };
    case OWN:
        return (struct plait_side){ 1, rank, 1 };
    case FROM_HERE:
        return (struct plait_side){ nrank, rank * nrank, 1 };
    default:
        return (struct plait_side){ nrank, rank, nrank };
    }
}

struct plait_geometry plait_geometry_of(enum plait_coll coll, uint32_t nrank, uint32_t root, uint32_t rank,
                                        uint32_t nblk)
{
    if ((unsigned)coll >= PLAIT_NCOLL)
        return (struct plait_geometry){ .kind = PLAIT_KIND_VECTOR };
    const struct row *row = &rows[coll];

    if (row->kind != PLAIT_KIND_VECTOR)
        nblk = plait_block_count(coll, nrank);
    return (struct plait_geometry){
        .kind = row->kind,
        .combines = row->combines,
        .rooted = row->in == ROOT_EVERYTHING || row->out == ROOT_EVERYTHING,
        .in = side_of(row->in, nrank, rank == root, rank, nblk),
        .out = side_of(row->out, nrank, rank == root, rank, nblk),
    };
}

uint32_t plait_block_count(enum plait_coll coll, uint32_t nrank)
{
    const uint64_t n = (unsigned)coll >= PLAIT_NCOLL        ? 0
                       : rows[coll].kind == PLAIT_KIND_PART ? nrank
                       : rows[coll].kind == PLAIT_KIND_PAIR ? (uint64_t)nrank * nrank
                                                            : 0;
    return n < 1u << 30 ? (uint32_t)n : 0;
}

static struct plait_holders holders_of(enum holds holds, uint32_t nrank, uint32_t root, uint32_t blk)
{
    switch (holds) {
    case EVERYTHING:
        return (struct plait_holders){ 0, nrank, blk };
    case ROOT_EVERYTHING:
        return (struct plait_holders){ root, 1, blk };
    case OWN:
        return (struct plait_holders){ blk, 1, 0 };
    case FROM_HERE:
        return (struct plait_holders){ blk / nrank, 1, blk % nrank };
    default:
        return (struct plait_holders){ blk % nrank, 1, blk / nrank };
    }
}

struct plait_block plait_block_of(enum plait_coll coll, uint32_t nrank, uint32_t root, uint32_t blk)
{
    const struct row *row = &rows[(unsigned)coll < PLAIT_NCOLL ? coll : PLAIT_ALLREDUCE];

    return (struct plait_block){ holders_of(row->in, nrank, root, blk), holders_of(row->out, nrank, root, blk) };
}

uint32_t plait_block_source(enum plait_coll coll, uint32_t nrank, uint32_t root, uint32_t blk)
{
    const struct plait_holders from = plait_block_of(coll, nrank, root, blk).from;

    return from.n == 1 ? from.first : root;
}

bool plait_plan_sliceable(const struct plait_plan *plan)
{
    if (rows[plan->coll].kind == PLAIT_KIND_VECTOR)
        return true;
    for (uint32_t i = 0; i < plan->nstep; i++) {
        const struct plait_step *s = &plan->step[i];
        const bool reads = s->verb != PLAIT_STEP_RECV && s->a.buf != PLAIT_TMP;
        const bool reads_too = s->verb == PLAIT_STEP_REDUCE && s->b.buf != PLAIT_TMP;
        const bool writes = s->verb != PLAIT_STEP_SEND && s->dst.buf != PLAIT_TMP;
        if (s->nblk > 1 && (reads || reads_too || writes))
            return false;
    }
    return true;
}

uint32_t plait_nodes_of(const struct plait_shape *s, uint32_t *each)
{
    uint32_t n = 0, highest = 0; /* of the nodes so far: a higher one is new */
    bool equal = true;

    *each = 0;
    for (uint32_t first = 0, end; s->node != NULL && first < s->nrank; first = end, n++) {
        for (end = first + 1; end < s->nrank && s->node[end] == s->node[first];)
            end++;
        for (uint32_t r = 0; s->node[first] <= highest && r < first; r++)
            if (s->node[r] == s->node[first]) {
                *each = 0;
                return 0;
            }
        highest = s->node[first] > highest ? s->node[first] : highest;
        *each = n == 0 ? end : *each;
        equal &= end - first == *each;
    }
    *each = equal ? *each : 0;
    return n;
}
