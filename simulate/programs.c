/* SPDX-License-Identifier: BSD-3-Clause */
#include "programs.h"

#include "base/status.h"
#include "plan/scratch.h"

#include <stdlib.h>
#include <string.h>

/* ---- Programs by index of peers ----------------------------------------------------------------------- */

static enum plait_status no_memory(const struct plait_programs *p)
{
    return plait_fail_memory("out of memory to simulate %u ranks", p->nrank);
}

/* The index of a peer of the rank that is being taken; PLAIT_NONE: out of memory. */
static uint32_t index_of(struct plait_programs *p, uint32_t rank, uint32_t peer)
{
    const size_t first = p->first[rank], end = p->first[rank + 1];

    if (p->index[peer] < end - first && p->peer[first + p->index[peer]] == peer)
        return p->index[peer];
    if (!plait_grow((void **)&p->peer, end + 1, &p->room, sizeof *p->peer))
        return PLAIT_NONE;
    p->index[peer] = (uint32_t)(end - first);
    p->peer[p->first[rank + 1]++] = peer;
    return p->index[peer];
}

/* From an array by rank, one by index. */
static bool by_index(const struct plait_programs *p, uint32_t rank, uint32_t **messages)
{
    const size_t first = p->first[rank], n = p->first[rank + 1] - first;
    uint32_t *own = malloc((n + 1) * sizeof *own);

    for (size_t i = 0; own != NULL && i < n; i++)
        own[i] = (*messages)[p->peer[first + i]];
    free(*messages);
    *messages = own;
    return own != NULL;
}

static int compare_numbers(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static int compare_sources(const void *a, const void *b)
{
    return compare_numbers(&((const struct plait_source *)a)->borrowed, &((const struct plait_source *)b)->borrowed);
}

/* Name peers by index. Leave out or sort what makes no difference to the time. */
static bool make_relative(struct plait_programs *p, uint32_t rank, struct plait_prog *prog)
{
    p->first[rank + 1] = p->first[rank];
    for (uint32_t i = 0; i < prog->ninstr; i++) {
        struct plait_instr *in = &prog->instrs[i];
        const uint32_t index = in->peer < 0 ? 0 : index_of(p, rank, (uint32_t)in->peer);
        if (index == PLAIT_NONE)
            return false;
        if (in->peer >= 0)
            in->peer = (int32_t)index;
        in->blk = in->stage = 0;
        in->final = in->mixed = false;
        in->dst = (struct plait_span){ 0 };
        qsort(&prog->sources[in->source], in->nsource, sizeof *prog->sources, compare_sources);
        qsort(&prog->successors[in->successor], in->nsuccessor, sizeof *prog->successors, compare_numbers);
    }
    return by_index(p, rank, &prog->nsend) && by_index(p, rank, &prog->nrecv);
}

/* ---- Equal programs ----------------------------------------------------------------------------------- */

static uint64_t add(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15;
    return hash ^ hash >> 29;
}

static uint64_t hash_of(const struct plait_prog *p, uint32_t npeer)
{
    uint64_t h = add(p->nblk, p->ninstr);

    for (uint32_t i = 0; i < p->ninstr; i++) {
        const struct plait_instr *in = &p->instrs[i];
        h = add(add(h, (uint64_t)in->verb << 33 | (uint64_t)in->wide << 32 | (uint32_t)in->peer),
                (uint64_t)in->message << 32 | in->nblk);
        for (uint32_t k = 0; k < in->nsource; k++)
            h = add(h, p->sources[in->source + k].borrowed);
        for (uint32_t k = 0; k < in->nsuccessor; k++)
            h = add(h, p->successors[in->successor + k]);
    }
    return add(h, npeer);
}

static bool is_equal_instr(const struct plait_prog *p, const struct plait_prog *q, uint32_t i)
{
    const struct plait_instr *a = &p->instrs[i], *b = &q->instrs[i];

    if (a->verb != b->verb || a->wide != b->wide || a->borrowed != b->borrowed || a->peer != b->peer ||
        a->message != b->message || a->nblk != b->nblk || a->nsource != b->nsource || a->source != b->source ||
        a->nsuccessor != b->nsuccessor || a->successor != b->successor)
        return false;
    for (uint32_t k = 0; k < a->nsource; k++)
        if (p->sources[a->source + k].borrowed != q->sources[b->source + k].borrowed)
            return false;
    return a->nsuccessor == 0 || memcmp(&p->successors[a->successor], &q->successors[b->successor],
                                        a->nsuccessor * sizeof *p->successors) == 0;
}

static bool is_equal(const struct plait_prog *p, const struct plait_prog *q, uint32_t npeer)
{
    bool equal = p->nblk == q->nblk && p->ninstr == q->ninstr &&
                 memcmp(p->nsend, q->nsend, npeer * sizeof *p->nsend) == 0 &&
                 memcmp(p->nrecv, q->nrecv, npeer * sizeof *p->nrecv) == 0;

    for (uint32_t i = 0; equal && i < p->ninstr; i++)
        equal = is_equal_instr(p, q, i);
    return equal;
}

static enum plait_status take(struct plait_programs *p, uint32_t rank, struct plait_prog *prog)
{
    if (!make_relative(p, rank, prog)) {
        plait_prog_destroy(prog);
        return no_memory(p);
    }
    const uint32_t npeer = (uint32_t)(p->first[rank + 1] - p->first[rank]);
    const uint64_t hash = hash_of(prog, npeer);
    uint32_t i = 0;
    while (i < p->nprogram && !(p->programs[i].hash == hash && p->programs[i].npeer == npeer &&
                                is_equal(p->programs[i].prog, prog, npeer)))
        i++;
    p->program[rank] = i;
    if (i < p->nprogram)
        plait_prog_destroy(prog);
    else
        p->programs[p->nprogram++] = (struct plait_program){ .prog = prog, .npeer = npeer, .hash = hash };
    return PLAIT_OK;
}

static bool find_receives(struct plait_program *g)
{
    const struct plait_prog *p = g->prog;

    g->recv = calloc((size_t)g->npeer + 1, sizeof *g->recv);
    for (uint32_t j = 0; g->recv != NULL && j < g->npeer; j++)
        if ((g->recv[j] = malloc((p->nrecv[j] + 1) * sizeof **g->recv)) == NULL)
            return false;
    for (uint32_t i = 0; g->recv != NULL && i < p->ninstr; i++)
        if (p->instrs[i].verb == PLAIT_STEP_RECV)
            g->recv[p->instrs[i].peer][p->instrs[i].message] = i;
    return g->recv != NULL;
}

/* ---- Both sides of a pair ----------------------------------------------------------------------------- */

/* *next: [nrank + 1] where rank r's list continues; list: [pairs] of each rank, the places of pairs with it */
static void list_by_peer(const struct plait_programs *p, size_t *next, size_t *list)
{
    for (size_t i = 0; i < p->first[p->nrank]; i++)
        next[p->peer[i] + 1]++;
    for (uint32_t r = 0; r < p->nrank; r++)
        next[r + 1] += next[r];
    for (size_t i = 0; i < p->first[p->nrank]; i++)
        list[next[p->peer[i]]++] = i; /* next[r] is then where the list of r + 1 begins */
}

static enum plait_status match(const struct plait_programs *p, uint32_t rank, size_t pair, uint32_t peer)
{
    const struct plait_prog *own = p->programs[p->program[rank]].prog, *other = p->programs[p->program[peer]].prog;
    const size_t index = pair - p->first[rank], back = p->back[pair];

    if (back == PLAIT_NONE || own->nsend[index] != other->nrecv[back] || own->nrecv[index] != other->nsend[back])
        return plait_fail(PLAIT_ERR_PLAN, "rank %u and rank %u do not have the same messages", rank, peer);
    return PLAIT_OK;
}

static enum plait_status find_backs(struct plait_programs *p)
{
    const size_t n = p->first[p->nrank];
    struct plait_scratch arrays = { 0 };
    size_t *next = plait_scratch(&arrays, (size_t)p->nrank + 2, sizeof *next),
           *list = plait_scratch(&arrays, n + 1, sizeof *list);
    uint32_t *rank = plait_scratch(&arrays, n + 1, sizeof *rank);
    enum plait_status status = PLAIT_OK;

    p->back = malloc((n + 1) * sizeof *p->back);
    if (arrays.failed || p->back == NULL) {
        plait_scratch_free(&arrays);
        return no_memory(p);
    }
    for (uint32_t r = 0; r < p->nrank; r++)
        for (size_t i = p->first[r]; i < p->first[r + 1]; i++)
            rank[i] = r;
    list_by_peer(p, next, list);
    for (size_t r = 0, i = 0; r < p->nrank; r++) {
        for (uint32_t k = 0; k < p->nrank; k++)
            p->index[k] = PLAIT_NONE;
        for (size_t k = p->first[r]; k < p->first[r + 1]; k++)
            p->index[p->peer[k]] = (uint32_t)(k - p->first[r]);
        for (; i < next[r]; i++)
            p->back[list[i]] = p->index[rank[list[i]]];
    }
    for (size_t i = 0; i < n && status == PLAIT_OK; i++)
        status = match(p, rank[i], i, p->peer[i]);
    plait_scratch_free(&arrays);
    return status;
}

/* ---- All ---------------------------------------------------------------------------------------------- */

enum plait_status plait_programs_create(struct plait_programs *p, const struct plait_selection *c,
                                        const struct plait_shape *shape)
{
    const uint32_t n = shape->nrank;
    struct plait_proof proof = { .hash = 0 };
    enum plait_status status = PLAIT_OK;

    *p = (struct plait_programs){ .nrank = n };
    p->programs = calloc(n, sizeof *p->programs);
    p->program = calloc(n, sizeof *p->program);
    p->first = calloc((size_t)n + 1, sizeof *p->first);
    p->index = calloc(n, sizeof *p->index);
    if (p->programs == NULL || p->program == NULL || p->first == NULL || p->index == NULL)
        return no_memory(p);
    for (uint32_t r = 0; r < shape->nrank && status == PLAIT_OK; r++) {
        struct plait_prog *prog;
        status = plait_prog_create(c->alg, c->spec, shape, r, c->round, false, &proof, &prog);
        if (status == PLAIT_OK)
            status = take(p, r, prog);
    }
    for (uint32_t i = 0; i < p->nprogram && status == PLAIT_OK; i++)
        status = find_receives(&p->programs[i]) ? PLAIT_OK : no_memory(p);
    return status == PLAIT_OK ? find_backs(p) : status;
}

void plait_programs_destroy(struct plait_programs *p)
{
    for (uint32_t i = 0; i < p->nprogram; i++) {
        for (uint32_t j = 0; p->programs[i].recv != NULL && j < p->programs[i].npeer; j++)
            free(p->programs[i].recv[j]);
        free(p->programs[i].recv);
        plait_prog_destroy(p->programs[i].prog);
    }
    free(p->programs);
    free(p->program);
    free(p->first);
    free(p->peer);
    free(p->back);
    free(p->index);
}
