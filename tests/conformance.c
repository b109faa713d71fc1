/* SPDX-License-Identifier: BSD-3-Clause */
#include "conformance.h"

#include "comm/comm.h"
#include "engine/prog.h"
#include "plans.h"
#include "proved.h"
#include "ranks.h"
#include "reduce_reference.h"

#include "comm/port.h"
#include "tier.h"

#include <plait/memory.h>

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST_RANKS  16
#define MOST_BLOCKS 24

/* ---- Algorithms ---------------------------------------------------------------------------------- */

static bool any_shape(const struct plait_alg *self, const struct plait_shape *s)
{
    return s->nrank <= MOST_RANKS;
}

static bool one_number(const struct plait_alg *self, const char *text, struct plait_shape *s)
{
    s->nparam = 1;
    return sscanf(text, "%u", &s->param[0]) == 1;
}

/* Only the number of blocks is used: these plans are checked without a claim. */
static struct plait_claim claim_blocks(const struct plait_alg *self, const struct plait_shape *s)
{
    return (struct plait_claim){ .nblk = s->nparam > 0 ? s->param[0] : 1 };
}

/* The place of another rank's vector among p - 1. */
static uint32_t place(uint32_t me, uint32_t r)
{
    return r < me ? r : r - 1;
}

/* out[blk] = in op received ..., by rank; `acc` is a TMP slot, tmp[place * stride] the received block. */
static void fold(struct plait_builder *b, const struct plait_shape *s, uint32_t me, uint32_t blk, uint32_t first,
                 uint32_t stride, uint32_t acc)
{
    struct plait_span x = { PLAIT_NBUF, 0 };

    for (uint32_t r = 0; r < s->nrank; r++) {
        const struct plait_span y = r == me ? plait_in(blk) : plait_tmp(first + place(me, r) * stride);
        if (r > 0)
            plait_emit_reduce(b, plait_tmp(acc), x, y, blk, 1);
        x = r > 0 ? plait_tmp(acc) : y;
    }
    plait_emit_copy(b, plait_out(blk), x, blk, 1);
}

/* Everyone sends everyone every block in a message of its own. */
static void many_emit(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s, uint32_t me)
{
    const uint32_t k = s->param[0];

    plait_blocks(b, k, s->nrank * k);
    for (uint32_t r = 0; r < s->nrank; r++)
        for (uint32_t i = 0; i < k && r != me; i++) {
            plait_emit_send(b, r, plait_in(i), i, 1);
            plait_emit_recv(b, r, plait_tmp(place(me, r) * k + i), i, 1);
        }
    for (uint32_t i = 0; i < k; i++)
        fold(b, s, me, i, i, k, (s->nrank - 1) * k + i);
}

/* As many, but block i travels on lane i, and the last is taken first, through one slot for each peer. */
static void lanes_emit(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s, uint32_t me)
{
    const uint32_t k = s->param[0];

    plait_blocks(b, k, s->nrank);
    for (uint32_t i = 0; i < k; i++) {
        plait_lane(b, i);
        for (uint32_t r = 0; r < s->nrank; r++)
            if (r != me)
                plait_emit_send(b, r, plait_in(i), i, 1);
    }
    for (uint32_t i = k; i-- > 0;) {
        plait_lane(b, i);
        for (uint32_t r = 0; r < s->nrank; r++)
            if (r != me)
                plait_emit_recv(b, r, plait_tmp(place(me, r)), i, 1);
        fold(b, s, me, i, 0, 1, s->nrank - 1);
    }
}

/* Rank 0 takes one vector after the other; those of the low ranks lie ready all the time. */
static void star_emit(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s, uint32_t me)
{
    plait_blocks(b, 1, 1);
    if (me > 0) {
        plait_emit_send(b, 0, plait_in(0), 0, 1);
        plait_emit_recv(b, 0, plait_out(0), 0, 1);
        return;
    }
    plait_emit_copy(b, plait_out(0), plait_in(0), 0, 1);
    for (uint32_t r = s->nrank - 1; r > 0; r--) {
        plait_emit_recv(b, r, plait_tmp(0), 0, 1);
        plait_emit_reduce(b, plait_out(0), plait_out(0), plait_tmp(0), 0, 1);
    }
    for (uint32_t r = 1; r < s->nrank; r++)
        plait_emit_send(b, r, plait_out(0), 0, 1);
}

/* Everything is sent twice; even ranks use the second copy. */
static void twice_emit(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s, uint32_t me)
{
    const uint32_t n = s->nrank - 1;

    plait_blocks(b, 1, 2 * n + 1);
    for (uint32_t r = 0; r < s->nrank; r++)
        for (uint32_t copy = 0; copy < 2 && r != me; copy++) {
            plait_emit_send(b, r, plait_in(0), 0, 1);
            plait_emit_recv(b, r, plait_tmp(copy * n + place(me, r)), 0, 1);
        }
    fold(b, s, me, 0, me % 2 == 0 ? n : 0, 1, 2 * n);
}

static bool power_of_two(const struct plait_alg *self, const struct plait_shape *s)
{
    return s->nrank <= MOST_RANKS && (s->nrank & (s->nrank - 1)) == 0;
}

/* Pairs swap what lies in TMP, two blocks at once, and write it again. */
static void swap_emit(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s, uint32_t me)
{
    plait_blocks(b, 2, 4);
    plait_emit_copy(b, plait_tmp(0), plait_in(0), 0, 2);
    for (uint32_t bit = 1; bit < s->nrank; bit *= 2) {
        const bool upper = (me & bit) != 0;
        plait_emit_send(b, me ^ bit, plait_tmp(0), 0, 2);
        plait_emit_recv(b, me ^ bit, plait_tmp(2), 0, 2);
        plait_emit_reduce(b, plait_tmp(0), plait_tmp(upper ? 2 : 0), plait_tmp(upper ? 0 : 2), 0, 2);
    }
    plait_emit_copy(b, plait_out(0), plait_tmp(0), 0, 2);
}

static struct plait_claim swap_claim(const struct plait_alg *self, const struct plait_shape *s)
{
    (void)self, (void)s;
    return (struct plait_claim){ .nblk = 2 };
}

/* A random tree for each block, on its own lane: everyone's parent, the root's is itself. */
static void random_tree(uint64_t seed, uint32_t n, uint32_t parent[MOST_RANKS])
{
    uint32_t order[MOST_RANKS] = { 0 };

    for (uint32_t i = 0; i < n; i++) {
        const uint32_t at = random_below(&seed, i + 1);
        order[i] = order[at];
        order[at] = i;
    }
    parent[order[0]] = order[0];
    for (uint32_t i = 1; i < n; i++)
        parent[order[i]] = order[random_below(&seed, i)];
}

struct random_plan {
    struct plait_builder *b;
    uint32_t n, me, nslot;
    uint64_t state; /* of this rank's own choices */
};

/* Combine what the children send, in random order through random slots, and send it to the parent. */
static void random_up(struct random_plan *p, uint32_t blk, const uint32_t *parent)
{
    struct plait_span have = plait_in(blk);

    for (uint32_t i = 0, r = random_below(&p->state, p->n); i < p->n; i++, r = (r + 1) % p->n) {
        const struct plait_span got = plait_tmp(random_below(&p->state, p->nslot));
        const bool swap = random_below(&p->state, 2);
        if (parent[r] != p->me || r == p->me)
            continue;
        plait_emit_recv(p->b, r, got, blk, 1);
        plait_emit_reduce(p->b, plait_out(blk), swap ? got : have, swap ? have : got, blk, 1);
        have = plait_out(blk);
    }
    if (parent[p->me] != p->me)
        plait_emit_send(p->b, parent[p->me], have, blk, 1);
    else if (have.buf == PLAIT_IN)
        plait_emit_copy(p->b, plait_out(blk), have, blk, 1);
}

static void random_down(struct random_plan *p, uint32_t blk, const uint32_t *parent)
{
    if (parent[p->me] != p->me)
        plait_emit_recv(p->b, parent[p->me], plait_out(blk), blk, 1);
    for (uint32_t i = 0, r = random_below(&p->state, p->n); i < p->n; i++, r = (r + 1) % p->n)
        if (parent[r] == p->me && r != p->me)
            plait_emit_send(p->b, r, plait_out(blk), blk, 1);
}

/* random:BLOCKS:SEED. Each rank takes the ways up and down of all blocks in an order of its own. */
static void random_emit(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s, uint32_t me)
{
    const uint32_t nblk = s->param[0], seed = s->param[1];
    struct random_plan p = { b, s->nrank, me, 1 + seed % 4 * 8, (uint64_t)seed << 32 | me };
    unsigned char stage[MOST_BLOCKS] = { 0 };

    plait_blocks(b, nblk, p.nslot);
    for (uint32_t left = 2 * nblk; left > 0; left--) {
        uint32_t parent[MOST_RANKS], blk = random_below(&p.state, nblk);
        while (stage[blk] == 2)
            blk = (blk + 1) % nblk;
        random_tree((uint64_t)seed * MOST_BLOCKS + blk, s->nrank, parent);
        plait_lane(b, blk);
        if (stage[blk]++ == 0)
            random_up(&p, blk, parent);
        else
            random_down(&p, blk, parent);
    }
}

static bool two_numbers(const struct plait_alg *self, const char *text, struct plait_shape *s)
{
    s->nparam = 2;
    return sscanf(text, "%u:%u", &s->param[0], &s->param[1]) == 2 && s->param[0] <= MOST_BLOCKS;
}

#define ALG(NAME, PARAMS, PARSE, APPLIES, CLAIM)                                           \
    static const struct plait_alg NAME##_alg = { .name = #NAME,                            \
                                                 .coll = PLAIT_ALLREDUCE,                  \
                                                 .params = PARAMS,                         \
                                                 .text = "made for the conformance suite", \
                                                 .source = "tests",                        \
                                                 .parse = PARSE,                           \
                                                 .applies = APPLIES,                       \
                                                 .emit = NAME##_emit,                      \
                                                 .claim = CLAIM };
ALG(many, ":K", one_number, any_shape, claim_blocks)
ALG(lanes, ":K", one_number, any_shape, claim_blocks)
ALG(star, "", NULL, any_shape, claim_blocks)
ALG(twice, "", NULL, any_shape, claim_blocks)
ALG(swap, "", NULL, power_of_two, swap_claim)
ALG(random, ":K:SEED", two_numbers, any_shape, claim_blocks)
#undef ALG

const struct plait_alg *const conformance_algs[] = { &many_alg, &lanes_alg,  &star_alg, &twice_alg,
                                                     &swap_alg, &random_alg, NULL };

/* ---- Cases --------------------------------------------------------------------------------------- */

/* Of one number of ranks; the same for all harnesses. */
struct suite {
    struct jobs jobs;
    unsigned wrong;
};

/*
 * Is the plan one that the checker accepts, and that no window of messages can stop? Random ones may deadlock,
 * which it must see; others may not.
 */
static bool accepted(struct suite *s, const char *spec, bool inplace)
{
    struct plait_shape shape = { .coll = PLAIT_ALLREDUCE, .nrank = s->jobs.nrank, .inplace = inplace };
    const struct plait_alg *alg;
    struct plait_report report;

    if (plait_alg_find(conformance_algs, spec, &shape, &alg) != PLAIT_OK)
        return false;
    struct plans p = plans_emit(alg, &shape);
    const bool right = plait_plan_check(spec, &shape, CONST_PLANS(&p), NULL, &report) == PLAIT_OK;
    plans_free(&p);
    if (!right && !(alg == &random_alg && report.failed == PLAIT_CHECK_DEADLOCK)) {
        fprintf(stderr, "%s: %s\n", spec, report.text);
        s->wrong++;
    }
    return right && is_proved(alg, spec, &shape, PLAIT_FUSE_NONE);
}

static void fill(const struct job *job, uint32_t nrank, uint64_t seed)
{
    for (size_t i = 0; i < nrank * job->count; i++) {
        const double v = (double)random_below(&seed, 1 << 24) * 0x1p-16 - 0x1p7;
        set_element(job->in, job->type, i,
                    is_narrow(job->type) ? narrow_bits(job->type, v)
                    : job->type == PLAIT_INT64
                        ? (uint64_t)random_below(&seed, UINT32_MAX) * random_below(&seed, UINT32_MAX)
                        : of_f32((float)v));
    }
}

/* One algorithm with counts from none to many slices. */
static void add_cases(struct suite *s, const char *spec)
{
    static const enum plait_dtype types[] = { PLAIT_FLOAT32, PLAIT_INT64, PLAIT_BFLOAT16 };
    const size_t counts[] = { 0, 1, s->jobs.nrank - 1, 30, 331, 2003 };

    for (unsigned k = 0; k < 2 * sizeof counts / sizeof *counts; k++) {
        struct job job = { .type = types[k % 3],
                           .op = k % 4 == 1 ? PLAIT_AVG : PLAIT_SUM,
                           .count = counts[k / 2],
                           .round = k % 6 == 5 ? PLAIT_ROUND_ONCE : PLAIT_ROUND_HOP,
                           .inplace = k % 2,
                           .library = k % 3 == 0 };
        snprintf(job.spec, sizeof job.spec, "%s", spec);
        job.slice = job.count == 331 ? 160 : job.count == 2003 ? 3200 : 0;
        fill(jobs_add(&s->jobs, &job), s->jobs.nrank, s->jobs.n);
    }
}

static void add_random_plans(struct suite *s)
{
    const unsigned nrandom = full() ? 16 : 5;
    unsigned naccepted = 0;

    for (uint32_t seed = 0; seed < nrandom; seed++) {
        char spec[PLAIT_MAX_SPEC];
        snprintf(spec, sizeof spec, "random:%u:%u", 1 + seed * 5 % MOST_BLOCKS, seed);
        if (!accepted(s, spec, false) || !accepted(s, spec, true))
            continue;
        add_cases(s, spec);
        naccepted++;
    }
    if (naccepted < nrandom / 4) {
        fprintf(stderr, "only %u of %u random plans are free of deadlock\n", naccepted, nrandom);
        s->wrong++;
    }
}

/* The oracle must have the true sums of integers; then it speaks for the other types. */
static void check_oracle(struct suite *s)
{
    for (size_t k = 0; k < s->jobs.n; k++) {
        const struct job *job = &s->jobs.job[k];
        for (size_t i = 0; i < job->count && job->type == PLAIT_INT64; i++) {
            uint64_t sum = 0;
            for (uint32_t r = 0; r < s->jobs.nrank; r++)
                sum += element(job_in(job, r), job->type, i);
            if (job->op == PLAIT_AVG)
                sum = divide(job->type, sum, s->jobs.nrank);
            s->wrong += element(job->want, job->type, i) != sum;
        }
    }
}

/* ---- Links --------------------------------------------------------------------------------------- */

/*
 * Two ranks alone, below the engine: messages in library memory and in other memory, with a landing and without, whole and
 * with another size than expected. A message is what it was when it was offered, until it is released.
 */
struct letter {
    size_t bytes;
    bool library, land, longer; /* longer: than the receiver expects */
};

static struct letter letter_of(uint32_t number)
{
    static const size_t sizes[] = { 0, 1, 33, 4096, PLAIT_LEAST_ONCE + 3, 300001 };

    return (struct letter){ sizes[number / 8 % 6], number & 1, number & 2, number & 4 };
}

static unsigned char byte_of(uint32_t number, size_t i)
{
    return (unsigned char)(number * 31 + i * 7 + i / 251);
}

static void wait_a_turn(const struct plait_comm *comm)
{
    plait_network_turn(comm);
    sched_yield();
}

/* Lent where the transport says so, else in library memory, as the engine does. */
static int send_letter(const struct plait_comm *comm, struct plait_link *link, uint32_t rank, uint32_t number,
                       unsigned char *const memory[2])
{
    const struct plait_transport *t = link->transport;
    const struct letter l = letter_of(number);
    unsigned char *data = memory[l.library];

    CHECK(t->reaches(link, memory[1], 300001, false)); /* library memory always */
    if (!t->reaches(link, data, l.bytes, l.land))
        data = memory[1];
    for (size_t i = 0; i < l.bytes; i++)
        data[i] = byte_of(number, i);
    while (!t->ready(link, number))
        wait_a_turn(comm);
    if (!t->offer(link, number, 4711, number, data, l.bytes, l.bytes <= PLAIT_MAILBOX_DATA))
        while (!t->sent(link, number))
            wait_a_turn(comm);
    memset(data, 0xee, l.bytes);
    return 0;
}

static int receive_letter(const struct plait_comm *comm, struct plait_link *link, uint32_t rank, uint32_t number,
                          unsigned char *landing)
{
    const struct plait_transport *t = link->transport;
    const struct letter l = letter_of(number);
    size_t bytes = l.bytes - (l.longer && l.bytes > 0);
    const size_t expected = bytes;
    const unsigned char *data;

    memset(landing, 0x11, l.bytes + 1);
    CHECK(t->arrived(link, number, 4712, landing, &bytes) == NULL && bytes == expected); /* another fingerprint */
    while ((data = t->arrived(link, number, 4711, l.land ? landing : NULL, &bytes)) == NULL)
        wait_a_turn(comm);
    CHECK(bytes == l.bytes);
    for (size_t i = 0; i <= l.bytes && bytes != expected; i++)
        CHECK(landing[i] == 0x11); /* nothing of what is not expected; it is when it is asked for with its size */
    while (bytes != expected && (data = t->arrived(link, number, 4711, l.land ? landing : NULL, &bytes)) == NULL)
        wait_a_turn(comm);
    for (size_t i = 0; i < l.bytes; i++)
        CHECK(data[i] == byte_of(number, i));
    for (size_t i = data == landing ? bytes : 0; i <= l.bytes; i++)
        CHECK(landing[i] == 0x11); /* nothing beyond */
    t->release(link, number);
    return 0;
}

static void offer_byte(const struct plait_comm *comm, struct plait_link *link, uint32_t number)
{
    static const unsigned char byte = 7;

    while (!link->transport->ready(link, number))
        wait_a_turn(comm);
    link->transport->offer(link, number, 4711, 0, &byte, 1, true);
}

static void await_byte(const struct plait_comm *comm, struct plait_link *link, uint32_t number)
{
    unsigned char landing;
    size_t bytes = 1;

    while (link->transport->arrived(link, number, 4711, &landing, &bytes) == NULL)
        wait_a_turn(comm);
}

/* Of a window the receiver releases one in the middle first: there is room for that which comes a window later, alone. */
static int release_one_in_the_middle(const struct plait_comm *comm, struct plait_link *link, uint32_t rank,
                                     uint32_t first)
{
    const uint32_t middle = first + PLAIT_WINDOW / 2, end = first + PLAIT_WINDOW;

    for (uint32_t number = first; number < end; number++)
        if (rank == 0)
            offer_byte(comm, link, number);
        else
            await_byte(comm, link, number);
    if (rank == 0) {
        while (!link->transport->ready(link, middle + PLAIT_WINDOW))
            wait_a_turn(comm);
        CHECK(!link->transport->ready(link, middle + PLAIT_WINDOW - 1));
        CHECK(!link->transport->ready(link, middle + PLAIT_WINDOW + 1));
        offer_byte(comm, link, middle + PLAIT_WINDOW);
        return 0;
    }
    link->transport->release(link, middle);
    await_byte(comm, link, middle + PLAIT_WINDOW);
    for (uint32_t number = first; number < end; number++)
        if (number != middle)
            link->transport->release(link, number);
    link->transport->release(link, middle + PLAIT_WINDOW);
    return 0;
}

static int exchange_letters(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_link *link = plait_connect(*comm, 1 - rank, PLAIT_CHANNEL_MESSAGES);
    unsigned char *memory[2] = { malloc(300001), NULL }, *landing = malloc(300002);
    void *library;

    CHECK(link != NULL && memory[0] != NULL && landing != NULL && plait_mem_alloc(300001, &library) == PLAIT_OK);
    memory[1] = library;
    for (uint32_t number = 0; number < 96; number++)
        CHECK((rank == 0 ? send_letter(*comm, link, rank, number, memory)
                         : receive_letter(*comm, link, rank, number, landing)) == 0);
    CHECK(release_one_in_the_middle(*comm, link, rank, 96) == 0);
    CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
    free(memory[0]);
    free(landing);
    plait_mem_free(library);
    return 0;
}

unsigned conformance_links(uint32_t nprocess, uint32_t nthread)
{
    const struct ranks r = { .nprocess = nprocess, .nthread = nthread, .body = exchange_letters };

    return ranks_run(&r);
}

/* Made once, with the results that are expected. */
static const struct suite *suite_of(uint32_t nrank)
{
    static const char *const specs[] = { "many:1",   "many:16", "many:17", "many:40", "lanes:3",
                                         "lanes:16", "star",    "twice",   "swap" };
    static struct suite suites[MOST_RANKS + 1];
    struct suite *s = &suites[nrank];

    if (s->jobs.nrank == nrank)
        return s;
    jobs_init(&s->jobs, nrank, NULL, conformance_algs);
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        if ((strcmp(specs[i], "swap") != 0 || (nrank & (nrank - 1)) == 0) && accepted(s, specs[i], false) &&
            accepted(s, specs[i], true))
            add_cases(s, specs[i]);
    add_random_plans(s);
    s->wrong += !jobs_expect(&s->jobs, nrank);
    check_oracle(s);
    return s;
}

unsigned conformance_run(const struct harness *h)
{
    unsigned wrong = 0;

    for (uint32_t nrank = h->least; nrank <= h->most; nrank += full() || nrank < 4 ? 1 : 2) {
        const struct suite *s = suite_of(nrank);
        jobs_clear(&s->jobs);
        wrong += s->wrong + (!h->run(&s->jobs) || jobs_wrong(&s->jobs, h->name) > 0);
    }
    return wrong;
}
