/* SPDX-License-Identifier: BSD-3-Clause */
/* A seed's injection: ranks, operations, fault and moment. */
#include "campaign.h"
#include "random.h"
#include "specs.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const struct fault_kind fault_kinds[NFAULT] = {
#define X(symbol, name, status, differs, silence, process) [symbol] = { name, status, differs, silence, process },
    FAULT_LIST(X)
#undef X
};

const char *const mode_names[NMODE] = { "processes", "threads", "processes of threads", "hosts" };

static uint32_t below(uint64_t *state, uint32_t n)
{
    return (uint32_t)(random_next(state) % n);
}

static double fraction(uint64_t *state)
{
    return (double)(random_next(state) >> 11) * 0x1p-53;
}

/* Log-uniform from 4 bytes to `most`. */
static size_t draw_bytes(uint64_t *state, size_t most)
{
    return (size_t)(4 * exp2(fraction(state) * log2((double)most / 4)));
}

static enum plait_dtype draw_type(uint64_t *state)
{
    static const enum plait_dtype types[] = {
#define PLAIT_X(symbol, value, bytes, name) symbol,
        PLAIT_DTYPE_LIST(PLAIT_X)
#undef PLAIT_X
    };
    return types[below(state, sizeof types / sizeof *types)];
}

/* One of those that fit, by an algorithm other than `but`. */
static void draw_algorithm(uint64_t *state, uint32_t nrank, const struct collective *c, const char *but,
                           char out[PLAIT_MAX_SPEC])
{
    const size_t name = strcspn(but, ":");
    struct specs specs;
    uint32_t i;

    specs_init(&specs, c->coll, nrank, c->inplace);
    do
        i = below(state, specs.n);
    while (specs.spec[i].shape.node != NULL ||
           (name > 0 && strncmp(specs.spec[i].text, but, name) == 0 && strcspn(specs.spec[i].text, ":") == name));
    snprintf(out, PLAIT_MAX_SPEC, "%.*s", PLAIT_MAX_SPEC - 1, specs.spec[i].text);
    specs_finish(&specs);
}

/* Those with a message for each block. */
static const char *draw_sized_algorithm(uint64_t *state, enum plait_coll coll)
{
    const bool ring = coll == PLAIT_REDUCE_SCATTER || coll == PLAIT_ALLGATHER;
    const uint32_t which = below(state, 3);

    return which == 0 ? "" : which == 1 && ring ? "ring" : "direct";
}

/* Elements of a vector or block, so that no buffer is larger than `most`, and all blocks together. */
static size_t draw_count(uint64_t *state, uint32_t nrank, const struct collective *c, size_t most)
{
    const struct plait_geometry g = plait_geometry_of(c->coll, nrank, 0, 0, 1);
    const size_t parts = g.kind == PLAIT_KIND_VECTOR ? 1 : g.kind == PLAIT_KIND_PART ? nrank : nrank * nrank;
    const size_t bytes = draw_bytes(state, g.combines && parts == 1 ? most : most / 4) / parts;
    const size_t count = bytes / plait_dtype_size(c->type);

    return count > 0 ? count : 1;
}

static struct collective draw_step(uint64_t *state, uint32_t nrank, size_t most, bool named)
{
    struct collective s = { .coll = below(state, 4) == 0 ? PLAIT_ALLREDUCE : (enum plait_coll)below(state, PLAIT_NCOLL),
                            .type = PLAIT_INT32 };
    const struct plait_geometry g = plait_geometry_of(s.coll, nrank, 0, 0, 1);

    if (s.coll == PLAIT_BARRIER)
        return s;
    s.type = draw_type(state);
    s.op = g.combines ? (enum plait_op)below(state, PLAIT_PREMULSUM) : PLAIT_SUM;
    s.root = g.rooted ? below(state, nrank) : 0;
    s.inplace = below(state, 2) && g.kind != PLAIT_KIND_PAIR;
    s.mixed = below(state, 2);
    s.sizes = g.kind != PLAIT_KIND_VECTOR && below(state, 2) ? 1 + below(state, 1000) : 0;
    s.count = draw_count(state, nrank, &s, most);
    if (s.sizes != 0)
        snprintf(s.spec, sizeof s.spec, "%s", draw_sized_algorithm(state, s.coll));
    else if (below(state, 2) || named)
        draw_algorithm(state, nrank, &s, "", s.spec);
    return s;
}

/* Is there such a fault of this operation? */
static bool has_fault(const struct collective *c, enum fault fault)
{
    const struct plait_geometry g = plait_geometry_of(c->coll, 1, 0, 0, 1);
    const bool barrier = c->coll == PLAIT_BARRIER;

    switch (fault) {
    case FAULT_COUNT:
    case FAULT_ALGORITHM:
        return !barrier && c->sizes == 0;
    case FAULT_TYPE:
    case FAULT_BARRIER:
        return !barrier;
    case FAULT_OPERATOR:
        return !barrier && g.combines;
    case FAULT_ROOT:
        return g.rooted;
    case FAULT_SIZES:
        return c->sizes != 0;
    default:
        return true;
    }
}

/* One to three ranks on each of two to four hosts, in their order or in any. */
static void draw_hosts(uint64_t *state, struct injection *j)
{
    const uint32_t least = j->fault == FAULT_KILL_SEVERAL ? 3 : 2; /* somebody survives */

    do {
        j->nhost = 2 + below(state, MOST_HOSTS - 1);
        j->nrank = 0;
        for (uint32_t h = 0; h < j->nhost; h++)
            for (uint32_t n = 1 + below(state, 3); n > 0 && j->nrank < MOST_RANKS; n--)
                j->host[j->nrank++] = h;
    } while (j->nrank < least || j->host[j->nrank - 1] + 1 < j->nhost);
    for (uint32_t r = j->nrank - 1; below(state, 4) == 0 && r > 0; r--) {
        const uint32_t other = below(state, r + 1), host = j->host[r];
        j->host[r] = j->host[other];
        j->host[other] = host;
    }
    j->mode = MODE_HOSTS;
    j->nprocess = j->nrank;
    j->nthread = 1;
    j->tcp = below(state, 2);
}

static void draw_ranks(uint64_t *state, struct injection *j)
{
    static const uint32_t grids[][2] = { { 2, 2 }, { 2, 3 }, { 3, 2 }, { 2, 4 }, { 4, 2 }, { 3, 3 } };
    const uint32_t *grid = grids[below(state, sizeof grids / sizeof *grids)];

    do
        j->mode = (enum mode)below(state, MODE_HOSTS);
    while (j->mode == MODE_THREADS && fault_kinds[j->fault].process);
    j->nrank = j->mode == MODE_MIXED ? grid[0] * grid[1] : 2 + below(state, MOST_RANKS - 1);
    if (j->fault == FAULT_KILL_SEVERAL && j->nrank < 3) /* somebody survives */
        j->nrank = 3;
    j->nprocess = j->mode == MODE_PROCESSES ? j->nrank : j->mode == MODE_THREADS ? 1 : grid[0];
    j->nthread = j->nrank / j->nprocess;
}

static void draw_culprits(uint64_t *state, struct injection *j)
{
    uint32_t wanted = 1;

    if (j->fault == FAULT_KILL_SEVERAL && j->nprocess > 2)
        wanted = 2 + below(state, j->nprocess - 2);
    j->actor = below(state, j->nrank);
    for (uint32_t at = j->actor; wanted > 0; at = below(state, j->nrank)) {
        const uint32_t first = at - at % j->nthread;
        const uint32_t mask = fault_kinds[j->fault].process ? ((1u << j->nthread) - 1) << first : 1u << at;
        wanted -= (j->culprits & mask) == 0;
        j->culprits |= mask;
    }
    for (uint32_t r = 0; j->fault == FAULT_CUT && r < j->nrank; r++)
        j->culprits |= (uint32_t)(j->host[r] == j->host[j->actor]) << r;
}

/* A block that the culprit gives to another rank or gets from one. */
static uint32_t draw_block(uint64_t *state, const struct injection *j, const struct collective *c)
{
    const uint32_t other = (j->actor + 1 + below(state, j->nrank - 1)) % j->nrank;

    if (c->coll == PLAIT_ALLTOALL)
        return below(state, 2) ? j->actor * j->nrank + other : other * j->nrank + j->actor;
    if (plait_geometry_of(c->coll, j->nrank, 0, 0, 1).rooted)
        return j->actor == c->root ? other : j->actor;
    return below(state, j->nrank);
}

/* Would a rank that calls one take another's for it? What its blocks' sizes are is no part of a call. */
static bool same_call(const struct collective *a, const struct collective *b)
{
    return a->coll == b->coll && a->type == b->type && a->op == b->op && a->root == b->root &&
           (a->sizes != 0) == (b->sizes != 0) && (a->sizes != 0 || a->count == b->count);
}

static size_t most_bytes(const struct injection *j)
{
    return (size_t)(j->nhost > 0 ? 16 : 64) << 20;
}

/* What the culprit calls where the others call the struck operation. */
static struct collective draw_other(uint64_t *state, const struct injection *j)
{
    struct collective s = j->steps[STEP_STRUCK];
    const struct collective struck = s;

    switch (j->fault) {
    case FAULT_COUNT:
        do
            s.count = below(state, 2) ? struck.count + 1 : draw_count(state, j->nrank, &s, most_bytes(j));
        while (s.count == struck.count);
        break;
    case FAULT_TYPE:
        while (s.type == struck.type)
            s.type = draw_type(state);
        break;
    case FAULT_OPERATOR:
        while (s.op == struck.op)
            s.op = (enum plait_op)below(state, PLAIT_PREMULSUM);
        break;
    case FAULT_ALGORITHM:
        draw_algorithm(state, j->nrank, &s, struck.spec, s.spec);
        break;
    case FAULT_BARRIER:
        s = (struct collective){ .coll = PLAIT_BARRIER, .type = PLAIT_INT32 };
        break;
    case FAULT_SWAP:
        do
            s = draw_step(state, j->nrank, most_bytes(j), false);
        while (same_call(&s, &struck));
        break;
    case FAULT_ROOT:
        while (s.root == struck.root)
            s.root = below(state, j->nrank);
        break;
    case FAULT_SIZES:
        s.odd = 1 + draw_block(state, j, &s);
        break;
    default:
        break;
    }
    return s;
}

void injection_draw(uint64_t seed, bool hosts, struct injection *out)
{
    uint64_t state = seed * 0xd1342543de82ef95u + 1;
    struct injection j = { .seed = seed };

    j.fault = (enum fault)below(&state, hosts ? NFAULT : FAULT_CUT);
    if (hosts)
        draw_hosts(&state, &j);
    else
        draw_ranks(&state, &j);
    draw_culprits(&state, &j);
    j.ngood = hosts && below(&state, 4) == 0 ? 0 : below(&state, 21); /* 0: nothing is connected yet */
    j.extra = below(&state, 3);
    j.moment = fraction(&state);
    j.gap = fraction(&state);
    j.memory = below(&state, 3);
    j.abort_first = below(&state, 2);
    j.resumed = below(&state, 2);
    j.last = below(&state, 2);
    for (int i = STEP_GOOD; i <= STEP_GOOD_TOO; i++)
        j.steps[i] = draw_step(&state, j.nrank, (size_t)64 << 10, false);
    /* An algorithm in the place of another must differ, so the library does not choose then. */
    do
        j.steps[STEP_STRUCK] = draw_step(&state, j.nrank, most_bytes(&j), j.fault == FAULT_ALGORITHM);
    while (!has_fault(&j.steps[STEP_STRUCK], j.fault));
    j.steps[STEP_OTHER] = draw_other(&state, &j);
    j.deadline = (step_bytes(&j, STEP_STRUCK) < ((size_t)1 << 20) ? 1 : 3) + hosts;
    j.timeout = j.fault == FAULT_ABSENT || j.fault == FAULT_BIRTH ? 1.5 : 60;
    *out = j;
}

static void print_step(const struct collective *c, char *text, size_t size)
{
    const struct plait_geometry g = plait_geometry_of(c->coll, 1, 0, 0, 1);
    size_t n = (size_t)snprintf(text, size, "%s%s", plait_coll_name(c->coll), c->sizes != 0 ? "v" : "");

    if (c->coll == PLAIT_BARRIER)
        return;
    n += (size_t)snprintf(text + n, size - n, " of %s%zu %s", c->sizes != 0 ? "up to " : "", c->count,
                          plait_dtype_name(c->type));
    if (g.combines)
        n += (size_t)snprintf(text + n, size - n, " %s", plait_op_name(c->op));
    if (g.rooted)
        n += (size_t)snprintf(text + n, size - n, ", root %u", c->root);
    if (c->odd != 0)
        n += (size_t)snprintf(text + n, size - n, ", one more in block %u of %zu", c->odd - 1,
                              collective_block(c, c->odd - 1));
    snprintf(text + n, size - n, "%s%s%s",
             !c->inplace ? ""
             : c->mixed  ? ", in place on even ranks"
                         : ", in place",
             c->spec[0] != '\0' ? ", " : "", c->spec);
}

void injection_print(const struct injection *j, char *text, size_t size)
{
    char struck[192], other[192] = "", culprits[64] = "", hosts[64] = "";

    for (uint32_t r = 0, n = 0; r < j->nrank; r++)
        if (is_culprit(j, r))
            n += (uint32_t)snprintf(culprits + n, sizeof culprits - n, "%s%u", n > 0 ? "," : "", r);
    for (uint32_t r = 0, n = 0; j->nhost > 0 && r < j->nrank; r++)
        n += (uint32_t)snprintf(hosts + n, sizeof hosts - n, "%s%u",
                                n > 0    ? ","
                                : j->tcp ? ", tcp, on "
                                         : ", on ",
                                j->host[r]);
    print_step(&j->steps[STEP_STRUCK], struck, sizeof struck);
    if (fault_kinds[j->fault].differs)
        print_step(&j->steps[STEP_OTHER], other, sizeof other);
    snprintf(text, size, "seed %llu: %s by rank %s of %u (%u x %u%s), after %u, struck: %s%s%s",
             (unsigned long long)j->seed, fault_kinds[j->fault].name, culprits, j->nrank, j->nprocess, j->nthread,
             hosts, j->ngood, struck, other[0] != '\0' ? "; culprit: " : "", other);
}
