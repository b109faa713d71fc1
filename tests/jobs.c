/* SPDX-License-Identifier: BSD-3-Clause */
#include "jobs.h"

#include "../transports/local.h"
#include "ranks.h"
#include "reduce_reference.h"
#include "specs.h"

#include <plait/memory.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define MEMORY ((size_t)1 << 32) /* reserved, not used */

void jobs_init(struct jobs *j, uint32_t nrank, const uint32_t *node, const struct plait_alg *const *algs)
{
    *j = (struct jobs){ .nrank = nrank, .node = node, .algs = algs };
    j->memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (j->memory == MAP_FAILED)
        abort();
}

void jobs_finish(struct jobs *j)
{
    munmap(j->memory, MEMORY);
    free(j->job);
    *j = (struct jobs){ 0 };
}

static char *take(struct jobs *j, size_t bytes)
{
    char *p = j->memory + j->used;

    j->used += (bytes + 63) & ~(size_t)63;
    if (j->used > MEMORY)
        abort();
    return p;
}

static size_t bytes_of(const struct jobs *j, const struct job *job)
{
    return j->nrank * job->count * plait_dtype_size(job->type);
}

void jobs_clear(const struct jobs *j)
{
    for (size_t i = 0; i < j->n; i++)
        memset(j->job[i].out, 0x5a, bytes_of(j, &j->job[i]));
}

struct job *jobs_add(struct jobs *j, const struct job *like)
{
    const size_t bytes = bytes_of(j, like);
    struct job *job;

    if (j->n == j->capacity)
        j->job = must_have(realloc(j->job, (j->capacity = 2 * j->capacity + 16) * sizeof *j->job));
    job = &j->job[j->n++];
    *job = *like;
    job->in = take(j, bytes);
    job->out = take(j, bytes);
    job->want = take(j, bytes);
    memset(job->out, 0x5a, bytes);
    return job;
}

/* ---- Ranks --------------------------------------------------------------------------------------- */

static int run_one(struct plait_comm *comm, uint32_t rank, const struct job *job)
{
    const size_t bytes = job->count * plait_dtype_size(job->type);
    char *in = job->in + rank * bytes, *out = job->out + rank * bytes;
    void *library[2] = { NULL, NULL };
    struct plait_call call = PLAIT_CALL_DEFAULT;

    call.algorithm = job->spec[0] != '\0' ? job->spec : NULL;
    call.slice = job->slice;
    call.round = job->round;
    call.reproducible = job->reproducible;
    if (job->library) {
        CHECK(plait_mem_alloc(bytes + 1, &library[0]) == PLAIT_OK &&
              plait_mem_alloc(bytes + 1, &library[1]) == PLAIT_OK);
        in = memcpy(library[0], in, bytes);
        out = library[1];
    }
    if (job->inplace)
        in = memcpy(out, in, bytes);
    CHECK(plait_allreduce(comm, in, out, job->count, job->type, job->op, &call) == PLAIT_OK);
    if (job->library)
        memcpy(job->out + rank * bytes, out, bytes);
    CHECK(plait_mem_free(library[0]) == PLAIT_OK && plait_mem_free(library[1]) == PLAIT_OK);
    return 0;
}

static int run_all(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct jobs *j = arg;

    for (size_t i = 0; i < j->n; i++)
        if (run_one(*comm, rank, &j->job[i]) != 0) {
            fprintf(stderr, "rank %u of %u: job %zu (%s) failed\n", rank, j->nrank, i, j->job[i].spec);
            return 1;
        }
    return 0;
}

unsigned jobs_run(const struct jobs *j, uint32_t nprocess, uint32_t nthread)
{
    struct ranks r = { .nprocess = nprocess,
                       .nthread = nthread,
                       .limit = 120,
                       .body = run_all,
                       .arg = (void *)(uintptr_t)j,
                       .options.node = j->node,
                       .options.algorithms = j->algs,
                       .options.deadline = 60 };

    return ranks_run(&r);
}

/* ---- Oracle -------------------------------------------------------------------------------------- */

struct partial { /* what the oracle moves: a value and how many ranks it is of */
    uint64_t bits;
    uint64_t contributions;
};

struct meaning {
    const struct job *job;
    uint32_t nrank;
};

static uint64_t rounded(enum plait_dtype type, uint64_t bits)
{
    return of_f32((float)narrow_value(type, narrow_bits(type, (double)f32(bits))));
}

/* An average whose inputs are divided before they are summed. */
static bool divides(const struct job *job)
{
    return job->op == PLAIT_AVG && job->round == PLAIT_ROUND_HOP && is_narrow(job->type) && job->type != PLAIT_BFLOAT16;
}

static void combine_partials(void *dst, const void *x, const void *y, size_t count, void *arg)
{
    const struct meaning *m = arg;
    const struct job *job = m->job;
    const enum plait_op op = job->op == PLAIT_AVG ? PLAIT_SUM : job->op;
    struct partial *d = dst;
    const struct partial *a = x, *b = y;

    for (size_t i = 0; i < count; i++) {
        struct partial p = { combine(job->type, op, a[i].bits, b[i].bits), a[i].contributions + b[i].contributions };
        if (job->op == PLAIT_AVG && p.contributions == m->nrank && !divides(job))
            p.bits = divide(job->type, p.bits, m->nrank);
        if (is_narrow(job->type) && job->round == PLAIT_ROUND_HOP)
            p.bits = rounded(job->type, p.bits);
        d[i] = p;
    }
}

static struct partial leaf(const struct job *job, uint32_t nrank, size_t i)
{
    const uint64_t bits = element(job->in, job->type, i);
    struct partial p = { is_narrow(job->type) ? of_f32((float)narrow_value(job->type, bits)) : bits, 1 };

    if (divides(job))
        p.bits = rounded(job->type, divide(job->type, p.bits, nrank));
    return p;
}

static struct plait_plan **emit(const struct jobs *j, const struct job *job)
{
    struct plait_shape shape = { .coll = PLAIT_ALLREDUCE, .nrank = j->nrank, .inplace = job->inplace, .node = j->node };
    const char *spec = job->spec[0] != '\0' ? job->spec : "two-shot";
    const struct plait_alg *alg;
    struct plait_plan **plans = must_have(calloc(j->nrank, sizeof *plans));

    if ((j->algs == NULL || plait_alg_find(j->algs, spec, &shape, &alg) != PLAIT_OK) &&
        plait_alg_find(plait_algs, spec, &shape, &alg) != PLAIT_OK)
        abort();
    for (uint32_t r = 0; r < j->nrank; r++)
        if (plait_plan_emit(alg, &shape, r, &plans[r]) != PLAIT_OK)
            abort();
    return plans;
}

/* `at` and `n`: the slice, in elements. */
static bool expect_slice(const struct jobs *j, const struct job *job, char *to, struct plait_plan *const *plans,
                         size_t at, size_t n, uint64_t seed)
{
    const size_t bytes = job->count * plait_dtype_size(job->type);
    struct meaning meaning = { job, j->nrank };
    struct partial **in = must_have(calloc(j->nrank, sizeof *in)), **out = must_have(calloc(j->nrank, sizeof *out));
    const struct plait_local_job local = {
        .plans = (const struct plait_plan *const *)plans,
        .nrank = j->nrank,
        .count = n,
        .size = sizeof(struct partial),
        .combine = combine_partials,
        .arg = &meaning,
        .in = (const void *const *)(job->inplace ? out : in),
        .out = (void *const *)out,
        .seed = seed,
    };

    for (uint32_t r = 0; r < j->nrank; r++) {
        in[r] = must_have(calloc(n + 1, sizeof **in));
        out[r] = must_have(calloc(n + 1, sizeof **out));
        for (size_t i = 0; i < n; i++)
            (job->inplace ? out : in)[r][i] = leaf(job, j->nrank, r * job->count + at + i);
    }
    const bool ended = plait_local_run(&local) == PLAIT_OK;
    for (uint32_t r = 0; r < j->nrank; r++) {
        for (size_t i = 0; i < n && ended; i++) {
            const uint64_t bits = out[r][i].bits;
            set_element(to + r * bytes, job->type, at + i,
                        is_narrow(job->type) ? narrow_bits(job->type, (double)f32(bits)) : bits);
        }
        free(in[r]);
        free(out[r]);
    }
    free(in);
    free(out);
    return ended;
}

static bool expect(const struct jobs *j, const struct job *job, char *to, uint64_t seed)
{
    struct plait_plan **plans = emit(j, job);
    const size_t whole = job->slice == 0 ? job->count : job->slice / plait_dtype_size(job->type);
    const size_t slice = whole > 0 ? whole : 1;
    bool ended = true;

    for (size_t at = 0; at < job->count && ended; at += slice)
        ended = expect_slice(j, job, to, plans, at, job->count - at < slice ? job->count - at : slice, seed + at);
    for (uint32_t r = 0; r < j->nrank; r++)
        plait_plan_destroy(plans[r]);
    free(plans);
    if (!ended)
        fprintf(stderr, "oracle: %s, %u ranks: %s\n", job->spec, j->nrank, plait_last_error());
    return ended;
}

bool jobs_expect(const struct jobs *j, uint64_t seed)
{
    bool ended = true;

    for (size_t i = 0; i < j->n; i++)
        ended &= expect(j, &j->job[i], j->job[i].want, seed + i);
    return ended;
}

bool jobs_run_oracle(const struct jobs *j, uint64_t seed)
{
    bool ended = true;

    for (size_t i = 0; i < j->n; i++)
        ended &= expect(j, &j->job[i], j->job[i].out, seed + i);
    return ended;
}

size_t jobs_wrong(const struct jobs *j, const char *where)
{
    size_t wrong = 0;

    for (size_t k = 0; k < j->n; k++) {
        const struct job *job = &j->job[k];
        for (size_t i = 0; i < j->nrank * job->count; i++) {
            const uint64_t got = element(job->out, job->type, i), want = element(job->want, job->type, i);
            if (got != want && wrong++ == 0)
                fprintf(stderr,
                        "%s, %u ranks: job %zu: %s %s %s, round %d, count %zu, slice %zu%s: rank %zu element %zu is "
                        "%#llx, not %#llx\n",
                        where, j->nrank, k, job->spec, plait_dtype_name(job->type), plait_op_name(job->op),
                        (int)job->round, job->count, job->slice, job->inplace ? ", in place" : "", i / job->count,
                        i % job->count, (unsigned long long)got, (unsigned long long)want);
        }
    }
    return wrong;
}
