/* SPDX-License-Identifier: BSD-3-Clause */
/* plait-tune: links between ranks and between hosts, and the speeds that the library has timed. */
#include "tune.h"

#include "base/clock.h"
#include "comm/copy_mode.h"

#include <plait/comm.h>
#include <plait/group.h>
#include <plait/message.h>

#include <math.h>

#define SMALL   64                /* bytes of a message whose latency counts */
#define LARGE   ((size_t)4 << 20) /* and of one whose bandwidth counts */
#define BURST   16
#define ROUNDS  20
#define LARGEST 8 /* rounds of large messages */
#define NO_RANK UINT32_MAX
#define NS      1e9
#define PER_MB  UINT64_C(1000000)

_Static_assert(PLAIT_TUNED_CLASSES == PLAIT_COPY_CLASSES, "classes of sizes");

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

/* Seconds of a large message to one rank and from another at once, the slowest rank's. to NO_RANK: this rank waits. */
static enum plait_status time_large(const struct tune *t, uint32_t to, uint32_t from, double *out)
{
    enum plait_status status = PLAIT_OK;
    double least = INFINITY;

    for (int i = 0; i < LARGEST && status == PLAIT_OK; i++) {
        double took = 0;
        status = plait_barrier(t->comm, NULL);
        const double begin = plait_clock();
        if (to != NO_RANK && status == PLAIT_OK && (status = plait_group_start()) == PLAIT_OK) {
            status = plait_recv(t->comm, t->out, LARGE, PLAIT_UINT8, from, NULL);
            if (status == PLAIT_OK)
                status = plait_send(t->comm, t->in, LARGE, PLAIT_UINT8, to, NULL);
            const enum plait_status end = plait_group_end();
            status = status == PLAIT_OK ? end : status;
            took = plait_clock() - begin;
        }
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

/* What the calibration of this process's first comm has found. */
static void take_copies(struct plait_tuning *out)
{
    const struct plait_copies known = plait_copies_known(true);

    if (!known.calibrated)
        return;
    for (unsigned k = 0; k < PLAIT_TUNED_CLASSES; k++) {
        struct plait_tuned_copies *c = &out->copies[k];
        c->other = known.fast[k] & PLAIT_FAST_STREAMED ? PLAIT_TUNED_STREAMED : PLAIT_TUNED_STAGED;
        c->fastest = known.fast[k] & PLAIT_FAST_SINGLE ? PLAIT_TUNED_SINGLE : c->other;
    }
    out->has_copies = true;
    out->copy = known.copy[0] * PER_MB;
    out->reduce = known.reduce * PER_MB;
}

enum plait_status tune_links(struct tune *t)
{
    struct plait_tuning *out = &t->results->tuning;
    struct plait_tuned_link ranks = { 0 }, hosts = { 0 };
    const uint32_t beside = beside_rank_0(t), mine = t->host[t->rank];
    const bool first = first_of(t, mine) == t->rank;
    enum plait_status status = PLAIT_OK;

    if (beside != NO_RANK) {
        const uint32_t other = t->rank == 0 ? beside : t->rank == beside ? 0 : NO_RANK;
        status = time_link(t, 0, beside, other, other, &ranks);
    }
    if (t->nhost > 1 && status == PLAIT_OK) {
        const uint32_t to = first ? first_of(t, (mine + 1) % t->nhost) : NO_RANK;
        status = time_link(t, 0, first_of(t, 1), to, first_of(t, (mine + t->nhost - 1) % t->nhost), &hosts);
    }
    if (t->rank == 0 && status == PLAIT_OK) {
        out->link[PLAIT_LINK_RANKS] = ranks;
        out->link[PLAIT_LINK_HOSTS] = hosts;
        take_copies(out);
    }
    return status;
}
