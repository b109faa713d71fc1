/* SPDX-License-Identifier: BSD-3-Clause */
/* The blocks of IN and OUT in each collective, see <plait/plan.h>; names and sizes from the lists in <plait/coll.h>. */
#include "plan_check.h"

#include "base/ascii.h"

#include <stdio.h>
#include <string.h>

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

/* ---- Names --------------------------------------------------------------------------------------- */

#define PLAIT_X(symbol, name, text) [symbol] = name,
static const char *const colls[PLAIT_NCOLL] = { PLAIT_COLL_LIST(PLAIT_X) };
#undef PLAIT_X

#define PLAIT_X(symbol, value, bytes, name) [symbol] = { name, bytes },
static const struct {
    const char *name;
    size_t size;
} types[PLAIT_NDTYPE] = { PLAIT_DTYPE_LIST(PLAIT_X) };
#undef PLAIT_X

#define PLAIT_X(symbol, value, name) [symbol] = name,
static const char *const ops[PLAIT_NOP] = { PLAIT_OP_LIST(PLAIT_X) };
#undef PLAIT_X

size_t plait_dtype_size(enum plait_dtype type)
{
    return (unsigned)type < PLAIT_NDTYPE ? types[type].size : 0;
}

const char *plait_coll_name(enum plait_coll coll)
{
    return (unsigned)coll < PLAIT_NCOLL ? colls[coll] : "?";
}

const char *plait_dtype_name(enum plait_dtype type)
{
    return (unsigned)type < PLAIT_NDTYPE ? types[type].name : "?";
}

const char *plait_op_name(enum plait_op op)
{
    return (unsigned)op < PLAIT_NOP ? ops[op] : "?";
}

/* ncclFloat32, MPI_SUM and plait_allreduce are float32, sum and allreduce. NULL is no name. */
static const char *without_prefix(const char *name)
{
    static const char *const prefixes[] = { "nccl", "MPI_", "plait_" };

    for (size_t i = 0; name != NULL && i < sizeof prefixes / sizeof *prefixes; i++)
        if (plait_after_prefix(name, prefixes[i]) != NULL)
            return plait_after_prefix(name, prefixes[i]);
    return name != NULL ? name : "";
}

int plait_coll_find(const char *name)
{
    char own[32], vform[32]; /* longer than any name */
    const size_t n = strlen(without_prefix(name)), perf = strlen("_perf");

    if (n >= sizeof own)
        return -1;
    strcpy(own, without_prefix(name));
    if (n > perf && plait_same_word(own + n - perf, "_perf"))
        own[n - perf] = '\0';
    for (int coll = 0; coll < PLAIT_NCOLL; coll++) {
        const bool blocks = plait_geometry_of((enum plait_coll)coll, 1, 0, 0, 1).kind != PLAIT_KIND_VECTOR;
        snprintf(vform, sizeof vform, "%s%s", colls[coll], blocks ? "v" : "");
        if (plait_same_name(own, colls[coll]) || plait_same_name(own, vform))
            return coll;
    }
    return plait_same_name(own, "bcast")                  ? PLAIT_BROADCAST
           : plait_same_name(own, "reduce_scatter_block") ? PLAIT_REDUCE_SCATTER
                                                          : -1;
}

int plait_dtype_find(const char *name)
{
    static const struct {
        const char *name;
        enum plait_dtype type;
    } short_names[] = {
        { "half", PLAIT_FLOAT16 },      { "float", PLAIT_FLOAT32 },     { "double", PLAIT_FLOAT64 },
        { "bf16", PLAIT_BFLOAT16 },     { "fp16", PLAIT_FLOAT16 },      { "fp32", PLAIT_FLOAT32 },
        { "fp64", PLAIT_FLOAT64 },      { "int", PLAIT_INT32 },         { "char", PLAIT_INT8 },
        { "f8e4m3", PLAIT_FLOAT8E4M3 }, { "f8e5m2", PLAIT_FLOAT8E5M2 },
    };

    name = without_prefix(name);
    for (int type = 0; type < PLAIT_NDTYPE; type++)
        if (plait_same_name(name, types[type].name))
            return type;
    for (size_t i = 0; i < sizeof short_names / sizeof *short_names; i++)
        if (plait_same_name(name, short_names[i].name))
            return (int)short_names[i].type;
    return -1;
}

int plait_op_find(const char *name)
{
    name = without_prefix(name);
    for (int op = 0; op < PLAIT_NOP; op++)
        if (plait_same_name(name, ops[op]))
            return op;
    if (plait_same_name(name, "mulsum")) /* nccl-tests */
        return PLAIT_PREMULSUM;
    return -1;
}
