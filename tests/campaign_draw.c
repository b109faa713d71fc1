/* SPDX-License-Identifier: BSD-3-Clause */
/* A seed's injection: ranks, operations, fault and moment. */
#include "campaign.h"
#include "specs.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const struct fault_kind fault_kinds[NFAULT] = {
#define X(symbol, name, status, differs, silence, process) [symbol] = { name, status, differs, silence, process },
    FAULT_LIST(X)
#undef X
};

const char *const mode_names[NMODE] = { "processes", "threads", "processes of threads" };

static uint64_t draw(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static uint32_t below(uint64_t *state, uint32_t n)
{
    return (uint32_t)(draw(state) % n);
}

static double fraction(uint64_t *state)
{
    return (double)(draw(state) >> 11) * 0x1p-53;
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
static void draw_algorithm(uint64_t *state, uint32_t nrank, bool inplace, const char *but, char out[PLAIT_MAX_SPEC])
{
    const size_t name = strcspn(but, ":");
    struct specs specs;
    uint32_t i;

    specs_init(&specs, PLAIT_ALLREDUCE, nrank, inplace);
    do
        i = below(state, specs.n);
    while (specs.spec[i].shape.node != NULL ||
           (name > 0 && strncmp(specs.spec[i].text, but, name) == 0 && strcspn(specs.spec[i].text, ":") == name));
    snprintf(out, PLAIT_MAX_SPEC, "%.*s", PLAIT_MAX_SPEC - 1, specs.spec[i].text);
    specs_finish(&specs);
}

static struct step draw_step(uint64_t *state, uint32_t nrank, size_t most, bool named)
{
    struct step s = { .coll = PLAIT_ALLREDUCE,
                      .type = draw_type(state),
                      .op = (enum plait_op)below(state, PLAIT_PREMULSUM),
                      .inplace = below(state, 2) };

    s.count = draw_bytes(state, most) / plait_dtype_size(s.type);
    s.count += s.count == 0;
    if (below(state, 2) || named)
        draw_algorithm(state, nrank, s.inplace, "", s.algorithm);
    return s;
}

static void draw_ranks(uint64_t *state, struct injection *j)
{
    static const uint32_t grids[][2] = { { 2, 2 }, { 2, 3 }, { 3, 2 }, { 2, 4 }, { 4, 2 }, { 3, 3 } };
    const uint32_t *grid = grids[below(state, sizeof grids / sizeof *grids)];

    do
        j->mode = (enum mode)below(state, NMODE);
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
}

/* What the culprit calls where the others call the struck operation. */
static struct step draw_other(uint64_t *state, const struct injection *j)
{
    struct step s = j->steps[STEP_STRUCK];
    const struct step struck = s;

    switch (j->fault) {
    case FAULT_COUNT:
        do
            s.count = below(state, 2) ? struck.count + 1 : draw_bytes(state, MOST_BYTES) / plait_dtype_size(s.type);
        while (s.count == struck.count || s.count == 0);
        break;
    case FAULT_TYPE:
        while (s.type == struck.type)
            s.type = draw_type(state);
        break;
    case FAULT_OPERATOR:
        while (s.op == struck.op)
            s.op = (enum plait_op)below(state, PLAIT_PREMULSUM);
        break;
    case FAULT_PLACE:
        s.inplace = !struck.inplace;
        break;
    case FAULT_ALGORITHM:
        draw_algorithm(state, j->nrank, s.inplace, struck.algorithm, s.algorithm);
        break;
    case FAULT_BARRIER:
        s = (struct step){ .coll = PLAIT_BARRIER, .type = PLAIT_INT32 };
        break;
    case FAULT_SWAP:
        do
            s = draw_step(state, j->nrank, MOST_BYTES, false);
        while (s.count == struck.count && s.type == struck.type && s.op == struck.op);
        break;
    default:
        break;
    }
    return s;
}

void injection_draw(uint64_t seed, struct injection *out)
{
    uint64_t state = seed * 0xd1342543de82ef95u + 1;
    struct injection j = { .seed = seed };

    j.fault = (enum fault)below(&state, NFAULT);
    draw_ranks(&state, &j);
    draw_culprits(&state, &j);
    j.ngood = below(&state, 21);
    j.extra = below(&state, 3);
    j.moment = fraction(&state);
    j.gap = fraction(&state);
    j.memory = below(&state, 3);
    j.abort_first = below(&state, 2);
    j.resumed = below(&state, 2);
    for (int i = STEP_GOOD; i <= STEP_GOOD_TOO; i++)
        j.steps[i] = draw_step(&state, j.nrank, (size_t)64 << 10, false);
    /* An algorithm in the place of another must differ, so the library does not choose then. */
    j.steps[STEP_STRUCK] = draw_step(&state, j.nrank, MOST_BYTES, j.fault == FAULT_ALGORITHM);
    j.steps[STEP_OTHER] = draw_other(&state, &j);
    j.deadline = step_bytes(&j.steps[STEP_STRUCK]) < ((size_t)1 << 20) ? 1 : 3;
    j.timeout = j.fault == FAULT_ABSENT || j.fault == FAULT_BIRTH ? 1.5 : 60;
    *out = j;
}

static int print_step(const struct step *s, char *text, size_t size)
{
    if (s->coll == PLAIT_BARRIER)
        return snprintf(text, size, "barrier");
    return snprintf(text, size, "%zu %s %s%s%s%s", s->count, plait_dtype_name(s->type), plait_op_name(s->op),
                    s->inplace ? " in place" : "", s->algorithm[0] != '\0' ? ", " : "", s->algorithm);
}

void injection_print(const struct injection *j, char *text, size_t size)
{
    char struck[128], other[128] = "", culprits[64] = "";

    for (uint32_t r = 0, n = 0; r < j->nrank; r++)
        if (is_culprit(j, r))
            n += (uint32_t)snprintf(culprits + n, sizeof culprits - n, "%s%u", n > 0 ? "," : "", r);
    print_step(&j->steps[STEP_STRUCK], struck, sizeof struck);
    if (fault_kinds[j->fault].differs)
        print_step(&j->steps[STEP_OTHER], other, sizeof other);
    snprintf(text, size, "seed %llu: %s by rank %s of %u (%u x %u), after %u, struck: %s%s%s",
             (unsigned long long)j->seed, fault_kinds[j->fault].name, culprits, j->nrank, j->nprocess, j->nthread,
             j->ngood, struck, other[0] != '\0' ? "; culprit: " : "", other);
}
