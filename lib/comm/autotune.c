/* SPDX-License-Identifier: BSD-3-Clause */
#include "autotune.h"

#define GAIN       0.9 /* a change must cut the cost below this fraction */
#define CLEAR_GAIN 0.7 /* a cost below this fraction shows whether cores share caches */
#define LIKE       1.5 /* a cost above, or below 1 / LIKE, times the expected one is odd */
#define LEAST_HOLD 16  /* operations after a round; see plait_autotune.hold */
#define MOST_HOLD  (8 * PLAIT_AUTOTUNE_PERIOD)

#define SHORT_PLACES  5
#define RESULT_PLACES 4
#define UNTRIED       1e9

static bool in_round(const struct plait_autotune *t, uint32_t n)
{
    return n - t->start < t->places;
}

static uint32_t first_round(const struct plait_autotunes *all)
{
    return all->results_alone ? PLAIT_AUTOTUNE_LENT : 1;
}

static bool begins_round(const struct plait_autotunes *all, const struct plait_autotune *t, uint32_t n)
{
    return n == first_round(all) || ((n == PLAIT_AUTOTUNE_EARLY || n % PLAIT_AUTOTUNE_PERIOD == 0) && !in_round(t, n));
}

/* Length of a round; the first of a size may be short once another size is known. */
static uint32_t places_of(const struct plait_autotunes *all, bool first)
{
    return all->results_alone ? RESULT_PLACES : first && all->known ? SHORT_PLACES : PLAIT_AUTOTUNE_PLACES;
}

static void begin_round(struct plait_autotune *t, uint32_t n, uint32_t places, bool called)
{
    t->start = n;
    t->places = places;
    t->called = called;
    t->wanted = false;
    t->odd = 0;
    for (unsigned w = 0; w < PLAIT_NWAY; w++)
        t->cost[w] = UNTRIED;
}

static unsigned cheapest(const struct plait_autotune *t)
{
    unsigned best = t->way;

    for (unsigned w = 0; w < PLAIT_NWAY; w++)
        if (t->cost[w] < t->cost[best])
            best = w;
    return best;
}

/*
 * A full round tries every combination in turn. Other rounds try each kind of store for results twice (in the order
 * A B B A, as operations of two kinds may alternate). A short one also tries the other store for shared data, once.
 */
static unsigned way_at(const struct plait_autotune *t, uint32_t place)
{
    if (t->places == PLAIT_AUTOTUNE_PLACES)
        return place % PLAIT_NWAY;
    if (place == SHORT_PLACES - 1)
        return cheapest(t) ^ PLAIT_SHARED_PAST;
    return (t->way & PLAIT_SHARED_PAST) | ((place + 1) / 2 % 2 ? PLAIT_RESULT_PAST : 0);
}

unsigned plait_autotune_start(struct plait_autotunes *all, size_t bytes, bool *timed)
{
    struct plait_autotune *t = plait_autotune_of(all, bytes);
    const uint32_t n = t->n++;

    if (n > 0 && begins_round(all, t, n))
        begin_round(t, n, places_of(all, n == first_round(all)), false);
    *timed = in_round(t, n) || (n >= first_round(all) && bytes >= PLAIT_AUTOTUNE_WATCHED);
    t->trying = in_round(t, n) ? way_at(t, n - t->start) : t->way;
    return t->trying;
}

static double least(const struct plait_autotune *t, unsigned bit, unsigned value)
{
    double cost = UNTRIED;

    for (unsigned w = 0; w < PLAIT_NWAY; w++)
        if ((w & bit) == value && t->cost[w] < cost)
            cost = t->cost[w];
    return cost;
}

/* Tell all sizes whether cores share caches, if this round shows that clearly. */
static void tell_others(struct plait_autotunes *all, const struct plait_autotune *t)
{
    const unsigned shared = t->way & PLAIT_SHARED_PAST;
    const double other_cost = least(t, PLAIT_SHARED_PAST, shared ^ PLAIT_SHARED_PAST);

    if (other_cost == UNTRIED || least(t, PLAIT_SHARED_PAST, shared) > CLEAR_GAIN * other_cost)
        return;
    for (size_t i = 0; i < sizeof all->of / sizeof *all->of; i++) {
        struct plait_autotune *other = &all->of[i];
        if ((other->way & PLAIT_SHARED_PAST) != shared) {
            other->way ^= PLAIT_SHARED_PAST;
            other->expected = 0;
        }
    }
}

static void decide(struct plait_autotune *t)
{
    const unsigned best = cheapest(t);
    const bool better = t->cost[best] < GAIN * t->cost[t->way];

    if (better)
        t->way = best;
    if (t->called && !better)
        t->hold = t->hold == 0 ? LEAST_HOLD : t->hold < MOST_HOLD ? 4 * t->hold : t->hold;
    else
        t->hold = t->called ? LEAST_HOLD : t->hold / 2;
    t->expected = t->cost[t->way];
}

/* Two odd operations in a row ask for a round; one says nothing. */
static void watch(struct plait_autotune *t, double seconds)
{
    if (t->expected == 0)
        t->expected = seconds;
    t->odd = seconds > LIKE * t->expected || seconds * LIKE < t->expected ? t->odd + 1 : 0;
    t->wanted = t->odd >= 2 && t->n - t->start > t->places + t->hold;
}

void plait_autotune_report(struct plait_autotunes *all, size_t bytes, double seconds)
{
    struct plait_autotune *t = plait_autotune_of(all, bytes);

    seconds /= (double)bytes; /* sizes in one trial differ by up to a factor of two */
    if (!in_round(t, t->n - 1)) {
        watch(t, seconds);
        return;
    }
    if (seconds < t->cost[t->trying])
        t->cost[t->trying] = seconds;
    if (in_round(t, t->n))
        return;
    decide(t);
    all->known = true; /* the very first round is full, unless results_alone, which tells other sizes nothing */
    tell_others(all, t);
}

void plait_autotune_again(struct plait_autotunes *all, size_t bytes)
{
    struct plait_autotune *t = plait_autotune_of(all, bytes);

    if (!in_round(t, t->n))
        begin_round(t, t->n, places_of(all, false), true);
}
