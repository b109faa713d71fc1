/* SPDX-License-Identifier: BSD-3-Clause */
#include "plans.h"

#include "random.h"

#include "../transports/local.h"
#include "specs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct plans plans_emit(const struct plait_alg *alg, const struct plait_shape *shape)
{
    struct plans p = { must_have(calloc(shape->nrank, sizeof *p.plan)), shape->nrank };

    for (uint32_t r = 0; r < p.n; r++)
        if (plait_plan_emit(alg, shape, r, &p.plan[r]) != PLAIT_OK) {
            fprintf(stderr, "%s\n", plait_last_error());
            abort();
        }
    return p;
}

struct plans plans_read(const char *const *texts, uint32_t n, bool inplace)
{
    return plans_read_coll(PLAIT_ALLREDUCE, 0, texts, n, inplace);
}

struct plans plans_read_coll(enum plait_coll coll, uint32_t root, const char *const *texts, uint32_t n, bool inplace)
{
    const bool rooted = plait_geometry_of(coll, n, 0, 0, 1).rooted;
    struct plans p = { must_have(calloc(n, sizeof *p.plan)), n };

    for (uint32_t r = 0; r < n; r++) {
        char *text = NULL;
        size_t size;
        uint32_t nblk, ntmp, nlane, step = 0;
        FILE *f = must_have(open_memstream(&text, &size));
        if (sscanf(texts[r], "%u %u %u", &nblk, &ntmp, &nlane) != 3)
            abort();
        fprintf(f, "plan 1 %s", plait_coll_name(coll));
        if (rooted)
            fprintf(f, " root %u", root);
        fprintf(f, " rank %u of %u, blocks %u, tmp %u, lanes %u, %s\n", r, n, nblk, ntmp, nlane,
                inplace ? "in place" : "out of place");
        const char *line = texts[r] + strcspn(texts[r], "\n") + 1;
        for (size_t bytes; *line != '\0'; line += bytes + 1) {
            bytes = strcspn(line, "\n");
            fprintf(f, "r%u #%u %.*s\n", r, step++, (int)bytes, line);
        }
        fclose(f);
        if (plait_plan_parse(NULL, text, &p.plan[r]) != PLAIT_OK) {
            fprintf(stderr, "%s\n%s", plait_last_error(), text);
            abort();
        }
        free(text);
    }
    return p;
}

void plans_free(struct plans *p)
{
    for (uint32_t r = 0; r < p->n; r++)
        plait_plan_destroy(p->plan[r]);
    free(p->plan);
    *p = (struct plans){ 0 };
}

static void add(void *dst, const void *x, const void *y, size_t count, void *arg)
{
    uint64_t *d = dst;
    const uint64_t *a = x, *b = y;

    (void)arg;
    for (size_t i = 0; i < count; i++)
        d[i] = a[i] + b[i];
}

static void scramble(void *dst, const void *x, const void *y, size_t count, void *arg)
{
    uint64_t *d = dst;
    const uint64_t *a = x, *b = y;

    (void)arg;
    for (size_t i = 0; i < count; i++)
        d[i] = (a[i] * 0x9e3779b97f4a7c15u ^ a[i] >> 29) + 3 * b[i];
}

/* One rank's memory. IN and OUT are parts of it, apart or, in place, as the collective's callers lay them. */
struct room {
    uint64_t *memory, *in, *out;
    size_t nin, nout; /* elements */
};

/* What a rank has and gets, in blocks of `n` ranks' parts or in vectors; written down from what MPI says. */
static void sizes_of(enum plait_coll coll, uint32_t n, bool root, size_t *in, size_t *out)
{
    const size_t all_at_root = root ? n : 0, at_root = root;

    *in = coll == PLAIT_REDUCE_SCATTER || coll == PLAIT_ALLTOALL ? n
          : coll == PLAIT_SCATTER                                ? all_at_root
          : coll == PLAIT_BROADCAST                              ? at_root
                                                                 : 1;
    *out = coll == PLAIT_ALLGATHER || coll == PLAIT_ALLTOALL ? n
           : coll == PLAIT_GATHER                            ? all_at_root
           : coll == PLAIT_REDUCE                            ? at_root
                                                             : 1;
}

/* OUT holds garbage at first, except where it is the input. */
static struct room make_room(const struct plans *p, uint32_t r, size_t count, uint64_t *seed)
{
    const struct plait_plan *plan = p->plan[r];
    struct room m = { 0 };
    size_t in, out;

    sizes_of((enum plait_coll)plan->coll, p->n, r == plan->root, &in, &out);
    m.nin = in * count;
    m.nout = out * count;
    m.memory = must_have(malloc((m.nin + m.nout + 1) * sizeof *m.memory));
    m.in = m.memory;
    m.out = plan->inplace && m.nin > 0 && m.nout > 0 ? m.memory : m.memory + m.nin;
    if (m.out == m.in && m.nin > m.nout)
        m.out += r * count;
    else if (m.out == m.in && m.nin < m.nout)
        m.in += r * count;
    for (size_t i = 0; i < m.nin + m.nout; i++)
        m.memory[i] = 0xdeadbeefdeadbeefu;
    for (size_t i = 0; i < m.nin; i++)
        m.in[i] = random_below(seed, UINT32_MAX);
    return m;
}

/* Element i of what rank `me` must get: inputs[r] is rank r's. */
static uint64_t expected(enum plait_coll coll, uint64_t *const *inputs, uint32_t n, uint32_t root, uint32_t me,
                         size_t count, size_t i)
{
    const size_t own = coll == PLAIT_REDUCE_SCATTER ? me * count + i : i;
    uint64_t sum = 0;

    switch (coll) {
    case PLAIT_ALLGATHER:
    case PLAIT_GATHER:
        return inputs[i / count][i % count];
    case PLAIT_BROADCAST:
        return inputs[root][i];
    case PLAIT_SCATTER:
        return inputs[root][me * count + i];
    case PLAIT_ALLTOALL:
        return inputs[i / count][me * count + i % count];
    default:
        for (uint32_t r = 0; r < n; r++)
            sum += inputs[r][own];
        return sum;
    }
}

static bool is_combining(enum plait_coll coll)
{
    return coll == PLAIT_ALLREDUCE || coll == PLAIT_REDUCE_SCATTER || coll == PLAIT_REDUCE;
}

static bool compare(const struct plans *p, const struct room *rooms, uint64_t *const *inputs, size_t count, bool sum)
{
    const enum plait_coll coll = (enum plait_coll)p->plan[0]->coll;

    for (uint32_t r = 0; r < p->n; r++)
        for (size_t i = 0; i < rooms[r].nout; i++) {
            /* Of what is combined in any other way than a sum, equality is all that is known. */
            if (!sum && coll != PLAIT_ALLREDUCE && is_combining(coll))
                continue;
            if (rooms[r].out[i] != (!sum && is_combining(coll)
                                        ? rooms[0].out[i]
                                        : expected(coll, inputs, p->n, p->plan[0]->root, r, count, i)))
                return false;
        }
    return true;
}

static bool run(const struct plans *p, size_t count, uint64_t seed, bool sum)
{
    struct room *rooms = must_have(calloc(p->n, sizeof *rooms));
    const void **in = must_have(calloc(p->n, sizeof *in));
    void **out = must_have(calloc(p->n, sizeof *out));
    uint64_t **inputs = must_have(calloc(p->n, sizeof *inputs)), random = seed;
    const struct plait_local_job job = {
        .plans = CONST_PLANS(p),
        .nrank = p->n,
        .count = count,
        .size = sizeof(uint64_t),
        .combine = sum ? add : scramble,
        .in = in,
        .out = out,
        .seed = seed,
    };

    for (uint32_t r = 0; r < p->n; r++) {
        rooms[r] = make_room(p, r, count, &random);
        in[r] = rooms[r].in;
        out[r] = rooms[r].out;
        inputs[r] = must_have(malloc((rooms[r].nin + 1) * sizeof **inputs));
        memcpy(inputs[r], rooms[r].in, rooms[r].nin * sizeof **inputs);
    }
    const bool right = plait_local_run(&job) == PLAIT_OK && compare(p, rooms, inputs, count, sum);
    for (uint32_t r = 0; r < p->n; r++) {
        free(rooms[r].memory);
        free(inputs[r]);
    }
    free(rooms);
    free(in);
    free(out);
    free(inputs);
    return right;
}

bool plans_right(const struct plans *p, size_t count, uint64_t seed)
{
    return run(p, count, seed, true);
}

bool plans_same_bits(const struct plans *p, size_t count, uint64_t seed)
{
    return run(p, count, seed, false);
}

void plans_write(const struct plans *p, const char *path, const char *first)
{
    FILE *f = fopen(path, "w");

    if (f == NULL)
        abort();
    fputs(first, f);
    for (uint32_t r = 0; r < p->n; r++) {
        char *text;
        if (plait_plan_print(p->plan[r], &text) != PLAIT_OK)
            abort();
        fputs(text, f);
        free(text);
    }
    fclose(f);
}

void plans_write_ring(const char *path, const uint32_t *order, uint32_t n)
{
    FILE *f = fopen(path, "w");
    uint32_t at = 0;

    for (uint32_t rank = 0; rank < n; rank++) {
        unsigned step = 0;
        while (order[at] != rank)
            at = (at + 1) % n;
        fprintf(f, "plan 1 allgather rank %u of %u, blocks %u, tmp 0, lanes 1, out of place\n", rank, n, n);
        fprintf(f, "r%u #%u send in[0] to r%u block %u\n", rank, step++, order[(at + 1) % n], rank);
        for (uint32_t k = 1; k < n; k++) {
            const uint32_t block = order[(at + n - k) % n];
            fprintf(f, "r%u #%u recv out[%u] from r%u\n", rank, step++, block, order[(at + n - 1) % n]);
            if (k + 1 < n)
                fprintf(f, "r%u #%u send out[%u] to r%u after %u\n", rank, step, block, order[(at + 1) % n], step - 1);
            step += k + 1 < n;
        }
        fprintf(f, "r%u #%u copy out[%u] = in[0]\n", rank, step, rank);
    }
    fclose(f);
}
