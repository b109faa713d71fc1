/* SPDX-License-Identifier: BSD-3-Clause */
/* plait-tune: links between ranks, hosts and racks, and the speeds that the library has timed. */
#include "tune.h"

#include "base/clock.h"
#include "comm/comm.h"

#include <plait/comm.h>
#include <plait/group.h>
#include <plait/message.h>

#include <math.h>
#include <string.h>

#define SMALL   64                /* bytes of a message whose latency counts */
#define LARGE   ((size_t)4 << 20) /* and of one whose bandwidth counts */
#define BURST   16
#define ROUNDS  200
#define LARGEST 8 /* rounds of large messages */
#define NO_RANK UINT32_MAX
#define NS      1e9

static enum plait_status send_some(const struct tune *t, uint32_t to, uint32_t n)
{
    enum plait_status status = plait_group_start();

    for (uint32_t i = 0; i < n && status == PLAIT_OK; i++)
        status = plait_send(t->comm, t->in, SMALL, PLAIT_UINT8, to, NULL);
    const enum plait_status end = plait_group_end();
    return status == PLAIT_OK ? end : status;
}

static enum plait_status receive_some(const struct tune *t, uint32_t from, uint32_t n)
{
    enum plait_status status = plait_group_start();

    for (uint32_t i = 0; i < n && status == PLAIT_OK; i++)
        status = plait_recv(t->comm, (char *)t->out + i * SMALL, SMALL, PLAIT_UINT8, from, NULL);
    const enum plait_status end = plait_group_end();
    return status == PLAIT_OK ? end : status;
}

/* The least time of n messages to the other rank and one back, as rank 0 sees it. */
static enum plait_status time_small(const struct tune *t, uint32_t a, uint32_t b, uint32_t n, double *out)
{
    enum plait_status status = plait_barrier(t->comm, NULL);
    double least = INFINITY;

    for (int i = 0; i < ROUNDS && status == PLAIT_OK && (t->rank == a || t->rank == b); i++) {
        const double begin = plait_clock();
        status = t->rank == a ? send_some(t, b, n) : receive_some(t, a, n);
        if (status == PLAIT_OK)
            status = t->rank == a ? receive_some(t, b, 1) : send_some(t, a, 1);
        least = fmin(least, plait_clock() - begin);
    }
    *out = t->rank == a ? least : 0;
    return status == PLAIT_OK ? tune_agree(t, out, 1) : status;
}

/* NO_RANK: this rank does not send, or does not receive. */
static enum plait_status exchange_large(const struct tune *t, uint32_t to, uint32_t from)
{
    enum plait_status status = plait_group_start();

    if (from != NO_RANK && status == PLAIT_OK)
        status = plait_recv(t->comm, t->out, LARGE, PLAIT_UINT8, from, NULL);
    if (to != NO_RANK && status == PLAIT_OK)
        status = plait_send(t->comm, t->in, LARGE, PLAIT_UINT8, to, NULL);
    const enum plait_status end = plait_group_end();
    return status == PLAIT_OK ? end : status;
}

/* The least seconds of such an exchange by all ranks at once, the slowest rank's. */
static enum plait_status time_large(const struct tune *t, uint32_t to, uint32_t from, double *out)
{
    enum plait_status status = PLAIT_OK;
    double least = INFINITY;

    for (int i = 0; i < LARGEST && status == PLAIT_OK; i++) {
        status = plait_barrier(t->comm, NULL);
        const double begin = plait_clock();
        if (status == PLAIT_OK)
            status = exchange_large(t, to, from);
        double took = plait_clock() - begin;
        if (status == PLAIT_OK)
            status = tune_agree(t, &took, 1);
        least = fmin(least, took);
    }
    *out = least;
    return status;
}

/*
 * a, b       the ranks whose latency counts
 * to, from   of this rank, for the bandwidth
 *
 * A message takes the overhead of the sender, the latency, and the overhead of the receiver. The overhead is what each
 * more message of a burst takes; where they wait for each other's arrival, that is more, so a third is the limit.
 */
static enum plait_status time_link(struct tune *t, uint32_t a, uint32_t b, uint32_t to, uint32_t from,
                                   struct plait_tuned_link *out)
{
    double round, burst, large;
    enum plait_status status = time_small(t, a, b, 1, &round);

    if (status == PLAIT_OK)
        status = time_small(t, a, b, BURST, &burst);
    if (status == PLAIT_OK)
        status = time_large(t, to, from, &large);
    if (status != PLAIT_OK)
        return status;
    const double one = round / 2, overhead = fmin(fmax((burst - round) / (BURST - 1), 0), one / 3);
    *out = (struct plait_tuned_link){ .latency = (uint64_t)((one - 2 * overhead) * NS),
                                      .overhead = (uint64_t)(overhead * NS),
                                      .bandwidth = (uint64_t)((double)LARGE / large) };
    return PLAIT_OK;
}

/* ---- Hosts ------------------------------------------------------------------------------------- */

/* The first rank of a host; NO_RANK: there is no such host. */
static uint32_t first_of(const struct tune *t, uint32_t host)
{
    for (uint32_t r = 0; r < t->nrank; r++)
        if (t->host[r] == host)
            return r;
    return NO_RANK;
}

/* The second rank of rank 0's host. */
static uint32_t beside_rank_0(const struct tune *t)
{
    for (uint32_t r = 1; r < t->nrank; r++)
        if (t->host[r] == t->host[0])
            return r;
    return NO_RANK;
}

/* By the comm's level, which it has if its ranks are in several racks (PLAIT_RACK); else 0. */
static uint32_t rack_of(const struct tune *t, uint32_t host)
{
    const struct plait_comm *c = t->comm;

    for (uint32_t l = 0; l < c->nlevel; l++)
        if (strcmp(c->level_names[l], "rack") == 0)
            return c->level[l * t->nrank + first_of(t, host)];
    return 0;
}

/* How many hosts of its rack come before it. */
static uint32_t place_of(const struct tune *t, uint32_t host)
{
    uint32_t n = 0;

    for (uint32_t h = 0; h < host; h++)
        n += rack_of(t, h) == rack_of(t, host);
    return n;
}

/*
 * The host to which a host sends when all do: the next one of its rack, or of the same place in the next one of the
 * other racks. NO_RANK: there is none. Each host receives from at most one.
 */
static uint32_t next_of(const struct tune *t, uint32_t host, bool across)
{
    const uint32_t rack = rack_of(t, host);
    uint32_t next = NO_RANK, beyond = UINT32_MAX, least = UINT32_MAX; /* racks: the next number, the least number */

    for (uint32_t i = 1; i < t->nhost && !across && next == NO_RANK; i++)
        if (rack_of(t, (host + i) % t->nhost) == rack)
            next = (host + i) % t->nhost;
    for (uint32_t h = 0; h < t->nhost && across; h++) {
        const uint32_t other = rack_of(t, h);
        least = other < least ? other : least;
        beyond = other > rack && other < beyond ? other : beyond;
    }
    const uint32_t to = beyond < UINT32_MAX ? beyond : least;
    for (uint32_t h = 0; h < t->nhost && across && to != rack; h++)
        if (rack_of(t, h) == to && place_of(t, h) == place_of(t, host))
            next = h;
    return next;
}

/*
 * The link between hosts of a rack, or between racks, with the bandwidth that a rack's hosts have together; all zero:
 * there is none.
 */
static enum plait_status time_hosts(struct tune *t, bool across, struct plait_tuned_link *out)
{
    const uint32_t mine = t->host[t->rank], far = next_of(t, t->host[0], across);
    uint32_t to = NO_RANK, from = NO_RANK, beside = 1; /* hosts that send from rank 0's rack */

    for (uint32_t h = 0; h < t->nhost && first_of(t, mine) == t->rank; h++) {
        const uint32_t next = next_of(t, h, across);
        if (h == mine && next != NO_RANK)
            to = first_of(t, next);
        if (next == mine)
            from = first_of(t, h);
    }
    if (far == NO_RANK)
        return PLAIT_OK;
    const enum plait_status status = time_link(t, 0, first_of(t, far), to, from, out);
    for (uint32_t h = 1; h < t->nhost && across && status == PLAIT_OK; h++)
        if (rack_of(t, h) == rack_of(t, t->host[0]) && next_of(t, h, true) != NO_RANK)
            beside++;
    out->bandwidth *= beside;
    return status;
}

/* What the calibration of this process's first comm has found. */
static void take_copies(struct plait_tuning *out)
{
    const struct plait_copies known = plait_copies_known(true);

    if (!known.calibrated)
        return;
    memcpy(out->copies, known.modes, sizeof out->copies);
    out->has_copies = true;
    out->copy = (uint64_t)known.copy;
}

enum plait_status tune_links(struct tune *t)
{
    struct plait_tuned_link link[PLAIT_NLINK] = { { 0 } };
    const uint32_t beside = beside_rank_0(t);
    enum plait_status status = PLAIT_OK;

    if (beside != NO_RANK) {
        const uint32_t other = t->rank == 0 ? beside : t->rank == beside ? 0 : NO_RANK;
        status = time_link(t, 0, beside, other, other, &link[PLAIT_LINK_RANKS]);
    }
    if (status == PLAIT_OK)
        status = time_hosts(t, false, &link[PLAIT_LINK_HOSTS]);
    if (status == PLAIT_OK)
        status = time_hosts(t, true, &link[PLAIT_LINK_RACKS]);
    if (t->rank == 0 && status == PLAIT_OK) {
        memcpy(t->results->tuning.link, link, sizeof link);
        take_copies(&t->results->tuning);
    }
    return status;
}
