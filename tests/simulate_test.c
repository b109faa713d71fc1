/* SPDX-License-Identifier: BSD-3-Clause */
/* Predictions against closed formulas on ideal machines, and properties that hold for every algorithm. */
#include "specs.h"
#include "tier.h"

#include <plait/simulate.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define NS 1000ull /* picoseconds */

/* Every rank has a link of its own to one switch. */
static struct plait_machine star(uint32_t nrank, uint64_t bandwidth, uint64_t latency)
{
    struct plait_machine m = { .name = "star", .nlevel = 1, .cache = (size_t)1 << 40 };

    m.level[0] = (struct plait_level){ "cluster", nrank, 1, bandwidth, latency, 0, 0, 0, 0 };
    return m;
}

static struct plait_prediction simulate(const struct plait_machine *m, const char *spec, enum plait_coll coll,
                                        uint32_t nrank, size_t count)
{
    const struct plait_shape shape = { .coll = coll, .nrank = nrank };
    struct plait_prediction p;
    const enum plait_status status = plait_simulate(m, spec, &shape, PLAIT_UINT8, count, NULL, &p);

    if (status != PLAIT_OK)
        fail_msg("%s, %s, %u ranks: %s", plait_coll_name(coll), spec, nrank, plait_last_error());
    return p;
}

static void near(const char *what, uint64_t seen, uint64_t wanted)
{
    const uint64_t apart = seen > wanted ? seen - wanted : wanted - seen;

    if (apart > wanted / 100000 + 100)
        fail_msg("%s: %llu ps, not %llu", what, (unsigned long long)seen, (unsigned long long)wanted);
}

/* A ring's 2 (p - 1) steps each take a latency and one block's transfer. */
static void ring_is_its_formula(void **state)
{
    (void)state;
    for (uint32_t p = 2; p <= 16; p++) {
        const struct plait_machine m = star(p, 1000000000, 5000);
        const size_t block = 10000;
        near("ring", simulate(&m, "ring", PLAIT_ALLREDUCE, p, p * block).time, 2 * (p - 1) * (5000 * NS + block * NS));
    }
}

/* Everyone sends to the root at once: its link is shared, and the latencies overlap. */
static void incast_shares_the_roots_link(void **state)
{
    (void)state;
    for (uint32_t p = 2; p <= 16; p++) {
        const struct plait_machine m = star(p, 1000000000, 5000);
        near("direct", simulate(&m, "direct", PLAIT_REDUCE, p, 10000).time, 5000 * NS + (p - 1) * 10000 * NS);
    }
}

/* A rank of a binomial tree sends to all its children at once; then the child with the most children does so. */
static void binomial_is_its_formula(void **state)
{
    (void)state;
    for (uint64_t k = 1; k <= 6; k++) {
        const struct plait_machine m = star(1u << k, 1000000000, 5000);
        near("binomial", simulate(&m, "binomial", PLAIT_BROADCAST, 1u << k, 10000).time,
             k * 5000 * NS + k * (k + 1) / 2 * 10000 * NS);
    }
}

/* ---- Formulas of the others, from latency L and the transfer of one block B --------------------------- */

/* p: ranks, a power of two */
static void times_are_their_formulas(void **state)
{
    const uint64_t L = 5000 * NS, all = 64 * 9 * 1000 * NS; /* the whole vector's transfer */

    (void)state;
    for (uint32_t p = 4, k = 2; p <= 64; p *= 2, k++) {
        const struct plait_machine m = star(p, 1000000000, 5000);
        const size_t n = 64 * 9 * 1000;
        const uint32_t side = p == 16 ? 4 : p == 64 ? 8 : 0;
        near("halving-doubling", simulate(&m, "halving-doubling", PLAIT_ALLREDUCE, p, n).time,
             2 * (k * L + all / p * (p - 1)));
        near("chain", simulate(&m, "chain", PLAIT_ALLREDUCE, p, n).time, 2 * (p - 1) * (L + all));
        near("one-shot", simulate(&m, "one-shot", PLAIT_ALLREDUCE, p, n).time, L + (p - 1) * all);
        near("two-shot", simulate(&m, "two-shot", PLAIT_ALLREDUCE, p, n).time, 2 * (L + all / p * (p - 1)));
        near("direct", simulate(&m, "direct", PLAIT_ALLTOALL, p, n).time, L + (p - 1) * all);
        near("ring, all-gather", simulate(&m, "ring", PLAIT_ALLGATHER, p, n).time, (p - 1) * (L + all));
        near("ring, reduce-scatter", simulate(&m, "ring", PLAIT_REDUCE_SCATTER, p, n).time, (p - 1) * (L + all));
        if (side > 0)
            near("torus", simulate(&m, "torus", PLAIT_ALLREDUCE, p, n).time,
                 4 * (side - 1) * L + 2 * (all / p * (p - 1)));
    }
}

/* ---- By hand ------------------------------------------------------------------------------------------ */

/*
 * Changes of one of two machines, an algorithm for blocks of 1000 bytes, and the time as it is worked out by hand.
 * Bytes are copied, added, read and moved at 1 GB/s: a block takes 1 us.
 *
 * memory  a host of five ranks, which read each other's memory; a flag takes 1 us
 * links   two hosts of two ranks, with two links each; a message starts in 5 us within a host, in 10 us to the other
 */
static const struct by_hand {
    bool links; /* else memory */
    const char *changes, *spec;
    enum plait_coll coll;
    uint32_t nrank, us;
} by_hand[] = {
    /* A flag says that the data is there, another one that it was read. */
    { false, "", "direct", PLAIT_REDUCE, 2, 1 + 1 + 1 },
    { false, "", "direct", PLAIT_REDUCE, 5, 1 + 2 * 1 + 1 }, /* five are read, one is written: twice as many */
    { false, "rank 0=/2", "direct", PLAIT_REDUCE, 2, 1 + 2 + 1 },
    { false, "host.memory=1.5 GB/s", "direct", PLAIT_REDUCE, 2, 1 + 2 + 1 }, /* two are read, one is written */
    { false, "host.bandwidth=/4", "direct", PLAIT_REDUCE, 2, 1 + 4 + 1 },
    { false, "host.bandwidth=/4", "direct", PLAIT_BROADCAST, 2, 1 + 4 + 1 },
    { false, "host.overhead=1 us", "direct", PLAIT_BROADCAST, 2, 1 + 1 + 1 + 1 + 1 },
    { false, "host.eager=1000", "direct", PLAIT_BROADCAST, 2, 1 + 1 },
    { false, "host.eager=999", "direct", PLAIT_BROADCAST, 2, 1 + 1 + 1 },
    /* Each copies a block and reads three; the flags come while it copies. */
    { false, "", "direct", PLAIT_ALLTOALL, 4, 4 + 1 },
    { false, "host.processors=2", "direct", PLAIT_ALLTOALL, 4, 2 * 4 + 1 },
    { false, "host.processors=1", "direct", PLAIT_ALLTOALL, 4, 4 * 4 + 1 },
    { true, "", "direct", PLAIT_BROADCAST, 2, 5 + 1 },
    { true, "", "direct", PLAIT_BROADCAST, 3, 10 + 1 },
    { true, "", "chain", PLAIT_BROADCAST, 3, 5 + 1 + 10 + 1 },
    { true, "host.overhead=1 us", "direct", PLAIT_BROADCAST, 2, 1 + 5 + 1 + 1 },
    { true, "host.bandwidth=/4", "chain", PLAIT_BROADCAST, 3, 5 + 4 + 10 + 4 }, /* the slowest link of the route */
    { true, "cluster.bandwidth=/4", "direct", PLAIT_BROADCAST, 3, 10 + 4 },
};

static void times_are_as_worked_out_by_hand(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof by_hand / sizeof *by_hand; i++) {
        const struct by_hand *b = &by_hand[i];
        struct plait_machine m = { .nlevel = 1, .copy = 1000000000, .reduce = 1000000000 };
        m.level[0] = (struct plait_level){ "host", 5, 0, 1000000000, 1000, 0, 0, 0, 0 };
        if (b->links) {
            m.nlevel = 2;
            m.level[0] = (struct plait_level){ "host", 2, 2, 1000000000, 5000, 0, 0, 0, 0 };
            m.level[1] = (struct plait_level){ "cluster", 2, 2, 1000000000, 10000, 0, 0, 0, 0 };
        }
        assert_int_equal(plait_machine_change(&m, b->changes), PLAIT_OK);
        const uint64_t time = simulate(&m, b->spec, b->coll, b->nrank, 1000).time;
        if (time != b->us * 1000 * NS)
            fail_msg("%s, '%s', %s of %u: %llu ps, not %u us", b->links ? "links" : "memory", b->changes,
                     plait_coll_name(b->coll), b->nrank, (unsigned long long)time, b->us);
    }
}

/*
 * Eight slices, four in flight. The receiver has room for the fifth when the first has arrived, and so on. Small
 * messages do not wait for that.
 */
static void small_messages_do_not_wait_for_the_receiver(void **state)
{
    const size_t slice = 1 << 16;

    (void)state;
    for (int small = 0; small < 2; small++) {
        struct plait_machine m = star(2, 1000000000, 500000);
        m.cache = 2 * slice;
        m.level[0].eager = slice - 1 + (size_t)small;
        const struct plait_prediction p = simulate(&m, "direct", PLAIT_BROADCAST, 2, 8 * slice);
        assert_int_equal(p.slices, 8);
        assert_int_equal(p.time, (small ? 8 * slice + 500000 : 5 * slice + 2 * 500000) * NS);
    }
}

/* One rank copies eight slices; each of four copies a block and reads three. Nobody waits for another rank. */
static void a_processor_may_be_the_bottleneck(void **state)
{
    struct plait_machine m = { .nlevel = 1, .copy = 1000000000, .cache = 1 << 17 };
    char name[64];

    (void)state;
    m.level[0] = (struct plait_level){ "host", 4, 0, 1000000000, 500, 0, 0, 0, 0 };
    struct plait_prediction p = simulate(&m, "direct", PLAIT_BROADCAST, 1, 8 << 16);
    assert_true(p.slices == 8 && p.time == (8 << 16) * NS && p.bound == p.time && p.path.compute == p.time);
    assert_string_equal(p.busiest, "rank 0, processor");
    p = simulate(&m, "direct", PLAIT_ALLTOALL, 4, 1000);
    assert_true(p.time == 4500 * NS && p.bound == 4000 * NS && p.path.compute == 4000 * NS);
    assert_string_equal(p.busiest, "rank 0, processor");
    m.nslow = 1;
    m.slow[0] = (struct plait_slow){ .rank = true, .child = 2, .percent = 50 };
    p = simulate(&m, "direct", PLAIT_ALLTOALL, 4, 1000);
    assert_true(p.time == 8500 * NS && p.bound == 8000 * NS);
    assert_string_equal(p.busiest, "rank 2, processor");
    assert_int_equal(p.busiest_resource, plait_machine_resources(&m) + 2);
    plait_machine_resource(&m, p.busiest_resource, name, sizeof name);
    assert_string_equal(name, p.busiest);
    const struct plait_shape shape = { .coll = PLAIT_BROADCAST, .nrank = 1 };
    const struct plait_sim_options o = { .place = (const uint32_t[]){ 3 } };
    assert_int_equal(plait_simulate(&m, "direct", &shape, PLAIT_UINT8, 1000, &o, &p), PLAIT_OK);
    assert_string_equal(p.busiest, "rank 3, processor");
    plait_machine_resource(&m, plait_machine_resources(&m) + 4, name, sizeof name);
    assert_string_equal(name, "");
}

/* Caches and packages of one host; racks, hosts and caches. A level that divides nothing is none. */
static void levels_of_the_machine_are_those_of_the_shape(void **state)
{
    static const uint32_t level[] = { 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1 };
    struct plait_machine m = { .nlevel = 7, .copy = 1000000000 };

    (void)state;
    m.level[0] = (struct plait_level){ "cache", 3, 0, 4000000000, 100, 0, 0, 0, 0 };
    m.level[1] = (struct plait_level){ "package", 2, 0, 2000000000, 200, 0, 0, 0, 0 };
    for (uint32_t k = 2; k < 6; k++)
        m.level[k] = (struct plait_level){ "board", 1, 0, 1500000000, 300, 0, 0, 0, 0 };
    m.level[6] = (struct plait_level){ "host", 2, 0, 1000000000, 400, 0, 0, 0, 0 };
    for (int racks = 0; racks < 2; racks++) {
        struct plait_shape shape = { .coll = PLAIT_ALLREDUCE, .nrank = 12, .nlevel = 2, .level = level };
        struct plait_prediction given, p = simulate(&m, "hierarchy", PLAIT_ALLREDUCE, 12, 100000);
        shape.node = racks ? level : NULL;
        assert_int_equal(plait_simulate(&m, "hierarchy", &shape, PLAIT_UINT8, 100000, NULL, &given), PLAIT_OK);
        assert_memory_equal(&p, &given, sizeof p);
        shape.level = level + 12;
        shape.nlevel = 1;
        assert_int_equal(plait_simulate(&m, "hierarchy", &shape, PLAIT_UINT8, 100000, NULL, &given), PLAIT_OK);
        assert_true(given.time != p.time);
        for (uint32_t k = 1; k < m.nlevel; k++)
            m.level[k].links = 1;
    }
}

/* ---- Properties of all algorithms --------------------------------------------------------------------- */

/* Hosts of two ranks with shared memory, racks of two hosts, and fewer processors than ranks. */
static struct plait_machine racks(uint32_t nrank)
{
    struct plait_machine m = { .name = "racks", .nlevel = 3, .copy = 8000000000, .reduce = 6000000000, .cache = 4096 };

    m.level[0] = (struct plait_level){ "host", 2, 0, 10000000000, 200, 300, 100, 1, 20000000000 };
    m.level[1] = (struct plait_level){ "rack", 2, 1, 1000000000, 5000, 300, 100, 0, 0 };
    m.level[2] = (struct plait_level){ "cluster", nrank / 4 + 1, 2, 500000000, 9000, 300, 100, 0, 0 };
    return m;
}

static uint64_t sum(const struct plait_path *p)
{
    return p->latency + p->transfer + p->compute + p->waiting;
}

static void for_all(void (*see)(const struct spec *s))
{
    for (unsigned coll = 0; coll < PLAIT_NCOLL; coll++)
        for (uint32_t nrank = 1; nrank <= 9; nrank += light() && nrank > 3 ? 4 : 1) {
            struct specs all;
            specs_init(&all, (enum plait_coll)coll, nrank, false);
            for (uint32_t i = 0; i < all.n; i++)
                see(&all.spec[i]);
            specs_finish(&all);
        }
}

static struct plait_prediction of(const struct plait_machine *m, const struct spec *s)
{
    const size_t count = s->shape.coll == PLAIT_BARRIER ? 0 : 5000;
    char spec[sizeof s->text];
    struct plait_prediction p;

    snprintf(spec, sizeof spec, "%.*s", (int)strcspn(s->text, " "), s->text);
    const enum plait_status status = plait_simulate(m, spec, &s->shape, PLAIT_FLOAT32, count, NULL, &p);
    if (status != PLAIT_OK)
        fail_msg("%s, %s, %u ranks: %s", plait_coll_name(s->shape.coll), s->text, s->shape.nrank, plait_last_error());
    return p;
}

static void see_parts(const struct spec *s)
{
    const struct plait_machine m = racks(s->shape.nrank);
    const struct plait_prediction p = of(&m, s), again = of(&m, s);

    if (sum(&p.path) != p.time)
        fail_msg("%s, %s, %u ranks: parts %llu, time %llu", plait_coll_name(s->shape.coll), s->text, s->shape.nrank,
                 (unsigned long long)sum(&p.path), (unsigned long long)p.time);
    if (p.bound > p.time)
        fail_msg("%s, %s, %u ranks: below its bound", plait_coll_name(s->shape.coll), s->text, s->shape.nrank);
    assert_memory_equal(&p, &again, sizeof p);
}

static void parts_of_the_longest_path_add_up(void **state)
{
    (void)state;
    for_all(see_parts);
}

static void see_double(const struct spec *s)
{
    struct plait_machine m = racks(s->shape.nrank);

    for (uint32_t k = 0; k < m.nlevel; k++)
        m.level[k].latency = m.level[k].overhead = 0;
    const struct plait_prediction once = of(&m, s);
    m.copy *= 2;
    m.reduce *= 2;
    m.level[0].memory *= 2;
    for (uint32_t k = 0; k < m.nlevel; k++)
        m.level[k].bandwidth *= 2;
    near(s->text, 2 * of(&m, s).time, once.time);
}

static void twice_the_rates_halve_the_time(void **state)
{
    (void)state;
    for_all(see_double);
}

/* ---- Symmetry ----------------------------------------------------------------------------------------- */

static void ignore(void *arg, const struct plait_sim_event *e)
{
    (void)e;
    ++*(uint64_t *)arg;
}

static struct plait_prediction of_all(const struct plait_machine *m, const struct spec *s, size_t count,
                                      const uint32_t *place, bool each)
{
    uint64_t events = 0;
    const struct plait_sim_options o = { .place = place, .event = each ? ignore : NULL, .arg = &events };
    char spec[sizeof s->text];
    struct plait_prediction p;

    snprintf(spec, sizeof spec, "%.*s", (int)strcspn(s->text, " "), s->text);
    const enum plait_status status =
        plait_simulate(m, spec, &s->shape, PLAIT_FLOAT32, s->shape.coll == PLAIT_BARRIER ? 0 : count, &o, &p);
    if (status != PLAIT_OK)
        fail_msg("%s, %s, %u ranks: %s", plait_coll_name(s->shape.coll), s->text, s->shape.nrank, plait_last_error());
    assert_true(!each || p.simulated == s->shape.nrank);
    assert_true(!each || events >= 3 * p.messages); /* sent, moved, received */
    return p;
}

static uint32_t merged;

static void see_merged(const struct spec *s)
{
    struct plait_machine m = racks(s->shape.nrank);

    for (int slow = 0; slow < 3; slow++) {
        m.nslow = slow > 0;
        m.slow[0] = slow == 1 ? (struct plait_slow){ true, 0, 0, 40 } : (struct plait_slow){ false, 1, 1, 40 };
        struct plait_prediction once = of_all(&m, s, 5000, NULL, false);
        const struct plait_prediction all = of_all(&m, s, 5000, NULL, true);
        merged += once.simulated < all.simulated;
        once.simulated = all.simulated;
        if (memcmp(&once, &all, sizeof all) != 0)
            fail_msg("%s, %s, %u ranks, slow %d: %llu ps instead of %llu", plait_coll_name(s->shape.coll), s->text,
                     s->shape.nrank, slow, (unsigned long long)once.time, (unsigned long long)all.time);
    }
}

static void equal_ranks_are_simulated_once_with_the_same_result(void **state)
{
    (void)state;
    for_all(see_merged);
    assert_true(merged > (light() ? 20 : 100));
}

/* A ring on one switch is one rank; a slow link makes each rank its own, as they are at different distances from it. */
static void symmetry_is_found(void **state)
{
    struct plait_machine m = star(48, 1000000000, 5000);

    (void)state;
    assert_int_equal(simulate(&m, "ring", PLAIT_ALLREDUCE, 48, 4800).simulated, 1);
    assert_int_equal(simulate(&m, "torus", PLAIT_ALLREDUCE, 48, 4800).simulated, 1);
    assert_int_equal(simulate(&m, "direct", PLAIT_ALLTOALL, 48, 4800).simulated, 1);
    m.nslow = 1;
    m.slow[0] = (struct plait_slow){ false, 0, 7, 50 };
    assert_int_equal(simulate(&m, "ring", PLAIT_ALLREDUCE, 48, 4800).simulated, 48);
}

/* ---- Slow parts and places ---------------------------------------------------------------------------- */

/* On the star every rank is equal, so any permutation gives the same time. */
static void see_exchanged(const struct spec *s)
{
    const struct plait_machine m = star(s->shape.nrank, 1000000000, 5000);
    uint32_t place[16];

    for (uint32_t r = 0; r < s->shape.nrank; r++)
        place[r] = (r * 5 + 3) % s->shape.nrank;
    if (s->shape.nrank % 5 == 0)
        return;
    const struct plait_prediction p = of_all(&m, s, 5000, NULL, false), q = of_all(&m, s, 5000, place, false);
    assert_true(p.time == q.time && p.bound == q.bound);
}

static void equal_ranks_exchanged_change_nothing(void **state)
{
    (void)state;
    for_all(see_exchanged);
}

/*
 * Latency alone: that of the claimed depth. A path of the plan may lead through the end of a SEND, which does not wait
 * for the arrival; so do some of a hierarchy's, where one-shot is inside.
 */
static void see_depth(const struct spec *s)
{
    const struct plait_machine m = star(s->shape.nrank, (uint64_t)1 << 44, 1000000);
    const struct plait_claim c = s->alg->claim(s->alg, &s->shape);
    const uint64_t time = of_all(&m, s, 1, NULL, false).time, wanted = c.depth * 1000000 * NS;

    if (strcmp(s->alg->name, "hierarchy") == 0 && strstr(s->text, "one-shot") != NULL && time < wanted)
        near(s->text, time, wanted - 1000000 * NS);
    else
        near(s->text, time, wanted);
}

static void latency_is_the_claimed_depth(void **state)
{
    (void)state;
    for_all(see_depth);
}

/* What the busiest rank sends or receives takes as long as its link needs for the claimed blocks. */
static void see_volume(const struct spec *s)
{
    const bool vector = plait_geometry_of(s->shape.coll, 1, 0, 0, 1).kind == PLAIT_KIND_VECTOR;
    const struct plait_machine m = star(s->shape.nrank, 1000000000, 0);
    const struct plait_claim c = s->alg->claim(s->alg, &s->shape);
    const uint64_t most = c.sent > c.received ? c.sent : c.received;
    size_t count = vector ? c.nblk * 1000 : 1000;

    if (s->shape.coll == PLAIT_BARRIER)
        count = 0;
    const struct plait_prediction p = of_all(&m, s, count, NULL, false);
    near(s->text, p.bound, most * (count > 0 ? 4000 : 0) * NS);
}

static void the_bound_is_the_claimed_volume(void **state)
{
    (void)state;
    for_all(see_volume);
}

/*
 * Messages share links fairly, so a message may delay one that is more urgent, and less if it is slower itself. That
 * happens to algorithms whose ranks do not all do the same.
 */
static void see_slower(const struct spec *s)
{
    static const char *const irregular[] = { "torus", "trees", "double-tree", "hierarchy" };
    struct plait_machine m = star(s->shape.nrank, 1000000000, 5000);
    const struct plait_prediction usual = of_all(&m, s, 5000, NULL, false);
    uint64_t least = usual.time;

    for (size_t i = 0; i < sizeof irregular / sizeof *irregular; i++)
        if (strcmp(s->alg->name, irregular[i]) == 0)
            least = usual.time / 4 * 3;
    m.nslow = 1;
    for (uint32_t child = 0; child<s->shape.nrank; child += s->shape.nrank> 4 ? 3 : 1) {
        m.slow[0] = (struct plait_slow){ false, 0, child, 50 };
        const struct plait_prediction p = of_all(&m, s, 5000, NULL, false);
        if (p.bound < usual.bound || p.time < least)
            fail_msg("%s, %s, %u ranks, slow %u: %llu ps, usually %llu", plait_coll_name(s->shape.coll), s->text,
                     s->shape.nrank, child, (unsigned long long)p.time, (unsigned long long)usual.time);
    }
}

static void a_slower_link_never_helps(void **state)
{
    (void)state;
    for_all(see_slower);
}

/* A message takes its place in the window after the message before it there, of an earlier slice, too. */
static void messages_of_a_later_slice_do_not_overtake_a_window(void **state)
{
    struct plait_machine m = { .name = "hosts", .nlevel = 2, .reduce = 50000000000, .cache = 16 << 20 };
    const struct plait_shape shape = { .coll = PLAIT_ALLREDUCE, .nrank = 64 };
    struct plait_prediction p;

    (void)state;
    m.level[0] = (struct plait_level){ "host", 2, 1, 10000000000, 5000, 0, 0, 0, 0 };
    m.level[1] = (struct plait_level){ "net", 32, 1, 12500000000, 10000, 0, 0, 0, 0 };
    assert_int_equal(plait_simulate(&m, "hierarchy:jia:ring", &shape, PLAIT_FLOAT32, 16 << 20, NULL, &p), PLAIT_OK);
    assert_true(p.slices >= 8);
}

/* As many messages of all ranks, at the same time, or in all slices, would take minutes. */
static void what_would_take_minutes_is_refused(void **state)
{
    static const struct {
        const char *spec;
        uint32_t nrank;
        size_t count;
        const char *error;
    } large[] = { { "one-shot", 4096, 1, "sends up to 16773120 messages, 16773120 at once" },
                  { "two-shot", 16384, 1, "sends up to 536838144 messages, 268419072 at once" },
                  { "ring", 16384, 1, "sends up to 536838144 messages, 16384 at once" },
                  { "ring", 8, ((size_t)1 << 47) - 1,
                    "the 1 that differ send 14 messages in each of 268435456 slices" } };
    struct plait_machine m = star(16384, 1000000000, 5000);

    (void)state;
    m.cache = 1 << 20;
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        const struct plait_shape shape = { .coll = PLAIT_ALLREDUCE, .nrank = large[i].nrank };
        struct plait_prediction p;
        assert_int_equal(plait_simulate(&m, large[i].spec, &shape, PLAIT_UINT8, large[i].count, NULL, &p),
                         PLAIT_ERR_UNSUPPORTED);
        if (strstr(plait_last_error(), large[i].error) == NULL)
            fail_msg("%s", plait_last_error());
    }
}

/* On hosts, whose ranks reach each other otherwise than those of other hosts, each rank of a one-shot differs. */
static void messages_of_ranks_that_differ_are_refused_by_their_product_with_slices(void **state)
{
    static const struct {
        uint32_t nrank;
        size_t count;
        const char *error;
    } large[] = {
        { 512, 1, "512 ranks: the 512 that differ send 261632 messages in each of 1 slices, 261632 at once" },
        { 128, (size_t)1 << 34, "the 128 that differ send 16256 messages in each of 32768 slices" },
    };
    struct plait_machine m = { .name = "hosts", .nlevel = 2, .cache = 1 << 20 };
    struct plait_prediction p;

    (void)state;
    m.level[0] = (struct plait_level){ "host", 8, 1, 10000000000, 10000, 0, 0, 0, 0 };
    m.level[1] = (struct plait_level){ "net", 64, 1, 12500000000, 8000, 0, 0, 0, 0 };
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        const struct plait_shape shape = { .coll = PLAIT_ALLREDUCE, .nrank = large[i].nrank };
        assert_int_equal(plait_simulate(&m, "one-shot", &shape, PLAIT_UINT8, large[i].count, NULL, &p),
                         PLAIT_ERR_UNSUPPORTED);
        if (strstr(plait_last_error(), large[i].error) == NULL)
            fail_msg("%s", plait_last_error());
    }
}

/* ---- Use of links -------------------------------------------------------------------------------------- */

struct used {
    const struct plait_machine *machine;
    uint64_t time[64], rate[64], bytes[64]; /* bytes times PS per second */
};

static void note_use(void *arg, const struct plait_sim_use *u)
{
    struct used *x = arg;

    assert_true(u->resource < plait_machine_resources(x->machine) && u->rate <= u->capacity);
    assert_true(u->time >= x->time[u->resource]);
    x->bytes[u->resource] += x->rate[u->resource] * ((u->time - x->time[u->resource]) / 1000);
    x->time[u->resource] = u->time;
    x->rate[u->resource] = u->rate;
}

/* The rates of each link over time add up to the bytes that go through it, and end at none. */
static void uses_add_up_to_the_bytes(void **state)
{
    const struct plait_machine m = star(8, 1000000000, 5000);
    struct used x = { .machine = &m };
    const struct plait_sim_options o = { .use = note_use, .arg = &x };
    const struct plait_shape shape = { .coll = PLAIT_ALLREDUCE, .nrank = 8 };
    struct plait_prediction p;
    char name[64];

    (void)state;
    assert_int_equal(plait_machine_resources(&m), 16);
    plait_machine_resource(&m, 5, name, sizeof name);
    assert_string_equal(name, "rank 2, down");
    assert_int_equal(plait_simulate(&m, "ring", &shape, PLAIT_FLOAT32, 8000, &o, &p), PLAIT_OK);
    for (uint32_t i = 0; i < 16; i++) {
        assert_int_equal(x.rate[i], 0);
        near("bytes of a link", x.bytes[i] / 1000000, 14 * 4000 * NS);
    }
}

static void a_change_is_what_its_text_says(void **state)
{
    struct plait_machine m = { .name = "two racks", .nlevel = 3, .copy = 1000 };

    (void)state;
    m.level[0] = (struct plait_level){ "host", 4, 2, 1000000000, 200, 0, 0, 0, 0 };
    m.level[1] = (struct plait_level){ "rack", 8, 2, 4000000000, 2000, 0, 0, 0, 0 };
    m.level[2] = (struct plait_level){ "all.of it", 2, 4, 1000000000, 3000, 0, 0, 0, 0 };
    assert_int_equal(plait_machine_change(&m, "rack.uplink=/4,rack.uplinks=*3,host.latency=2.5 us,copy=2 GB/s"),
                     PLAIT_OK);
    assert_true(m.level[2].bandwidth == 250000000 && m.level[2].links == 12 && m.level[0].latency == 2500);
    assert_int_equal(m.copy, 2000000000);
    assert_int_equal(plait_machine_change(&m, "all.of it.oversubscription=8"), PLAIT_OK);
    assert_int_equal(m.level[2].links, 32); /* 8 hosts with 2 links of 4 GB/s each, by 8, in links of 250 MB/s */
    assert_int_equal(plait_machine_change(&m, "rank 5=/2,host 3=*0.29,rank 6 links=/1,rack 1 links=/4"), PLAIT_OK);
    const struct plait_slow slow[] = {
        { true, 0, 5, 50 }, { false, 1, 3, 29 }, { false, 0, 6, 100 }, { false, 2, 1, 25 }
    };
    assert_int_equal(m.nslow, 4);
    for (uint32_t i = 0; i < 4; i++)
        assert_true(m.slow[i].rank == slow[i].rank && m.slow[i].level == slow[i].level &&
                    m.slow[i].child == slow[i].child && m.slow[i].percent == slow[i].percent);
    assert_int_equal(plait_machine_check(&m), PLAIT_OK);
}

static void a_slow_part_is_there_once(void **state)
{
    static const char *const parts[][2] = { { "rank 3", "slow: rank 3 comes twice" },
                                            { "host 1", "slow: links of host 1 come twice" },
                                            { "rank 3 links", "slow: links of rank 3 come twice" } };

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct plait_machine m = star(4, 1000000000, 5000);
        char changes[64];
        m.level[m.nlevel++] = (struct plait_level){ "all", 2, 1, 1000000000, 5000, 0, 0, 0, 0 };
        snprintf(m.level[0].name, sizeof m.level[0].name, "host");
        snprintf(changes, sizeof changes, "%s=/2,rank 1=/2,rank 1 links=/2,host 0=/2", parts[i][0]);
        assert_int_equal(plait_machine_change(&m, changes), PLAIT_OK);
        assert_int_equal(plait_machine_check(&m), PLAIT_OK);
        snprintf(changes, sizeof changes, "%s=/4", parts[i][0]);
        assert_int_equal(plait_machine_change(&m, changes), PLAIT_OK);
        assert_int_equal(plait_machine_check(&m), PLAIT_ERR_ARG);
        assert_non_null(strstr(plait_last_error(), parts[i][1]));
    }
}

static void a_wrong_change_is_named_and_changes_nothing(void **state)
{
    static const char *const wrong[][2] = {
        { "cluster.links", "must be LEVEL.FIELD=VALUE" },
        { "links=3", "must be LEVEL.FIELD=VALUE" },
        { "rack.links=3", "no level 'rack'" },
        { "cluster.lanes=3", "no field 'lanes'" },
        { "cluster.uplink=3", "has no uplink; cluster.bandwidth changes the links of ranks to it" },
        { "cluster.links=1.5", "must be a whole number" },
        { "cluster.links=", "must be a whole number" },
        { "cluster.links=/0", "must be a whole number" },
        { "cluster.links=*1e12", "is too large" },
        { "cluster.latency=2 GB/s", "must be nanoseconds" },
        { "cluster.latency=-2", "must be nanoseconds" },
        { "cluster.bandwidth=nan", "must be bytes per second" },
        { "cluster.oversubscription=2", "needs links in the level below" },
        { "cluster.oversubscription=0", "a number from 0.01" },
        { "rank x=/2", "must be 'rank N'" },
        { "cluster 0=/2", "must be 'rank N'" },
        { "rank 1=2", "must be /FACTOR" },
        { "rank 1=*2", "leaves 200 %" },
        { "rank 1=/1000", "leaves 0 %" },
    };
    const struct plait_machine before = star(4, 1000000000, 5000);
    char both[64];

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct plait_machine m;
        memcpy(&m, &before, sizeof m);
        snprintf(both, sizeof both, "copy=7,%s", wrong[i][0]);
        assert_int_equal(plait_machine_change(&m, both), PLAIT_ERR_ARG);
        if (strstr(plait_last_error(), wrong[i][0]) == NULL || strstr(plait_last_error(), wrong[i][1]) == NULL)
            fail_msg("%s: %s", both, plait_last_error());
        assert_memory_equal(&m, &before, sizeof m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ring_is_its_formula),
        cmocka_unit_test(incast_shares_the_roots_link),
        cmocka_unit_test(binomial_is_its_formula),
        cmocka_unit_test(times_are_their_formulas),
        cmocka_unit_test(times_are_as_worked_out_by_hand),
        cmocka_unit_test(small_messages_do_not_wait_for_the_receiver),
        cmocka_unit_test(a_processor_may_be_the_bottleneck),
        cmocka_unit_test(levels_of_the_machine_are_those_of_the_shape),
        cmocka_unit_test(parts_of_the_longest_path_add_up),
        cmocka_unit_test(twice_the_rates_halve_the_time),
        cmocka_unit_test(equal_ranks_are_simulated_once_with_the_same_result),
        cmocka_unit_test(symmetry_is_found),
        cmocka_unit_test(equal_ranks_exchanged_change_nothing),
        cmocka_unit_test(latency_is_the_claimed_depth),
        cmocka_unit_test(the_bound_is_the_claimed_volume),
        cmocka_unit_test(a_slower_link_never_helps),
        cmocka_unit_test(messages_of_a_later_slice_do_not_overtake_a_window),
        cmocka_unit_test(what_would_take_minutes_is_refused),
        cmocka_unit_test(messages_of_ranks_that_differ_are_refused_by_their_product_with_slices),
        cmocka_unit_test(uses_add_up_to_the_bytes),
        cmocka_unit_test(a_change_is_what_its_text_says),
        cmocka_unit_test(a_slow_part_is_there_once),
        cmocka_unit_test(a_wrong_change_is_named_and_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
