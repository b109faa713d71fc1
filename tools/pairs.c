/* SPDX-License-Identifier: BSD-3-Clause */
#include "pairs.h"

#include "base/clock.h"
#include "stats.h"

#include <plait/message.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define FEW     200 /* round trips of 4 bytes, of which the median counts */
#define NLARGE  5   /* round trips of PAIRS_BYTES */
#define WARM_UP 5
#define BRIEFER 4 /* with `brief`: factor by which the former are fewer and the latter shorter */

#define MOST_MEMBERS 32 /* most ranks of which all pairs are measured */
#define MOST_COLUMNS 12 /* most ranks that are shown as a matrix */

/* A path is slow if it is this many times slower than the median of its kind, of at least LEAST paths. */
#define SLOW  3.0
#define LATE  4.0
#define LEAST 3

/* ---- One pair -------------------------------------------------------------------------------------------- */

/* One end of a round trip. */
static bool bounce(struct plait_comm *comm, void *memory, size_t bytes, uint32_t peer)
{
    const bool first = plait_comm_rank(comm) < peer;

    return (first || plait_recv(comm, memory, bytes, PLAIT_UINT8, peer, NULL) == PLAIT_OK) &&
           plait_send(comm, memory, bytes, PLAIT_UINT8, peer, NULL) == PLAIT_OK &&
           (!first || plait_recv(comm, memory, bytes, PLAIT_UINT8, peer, NULL) == PLAIT_OK);
}

/* The time one way: the median, or the lower quartile, which a busy processor does not change. */
static bool measure(struct plait_comm *comm, void *memory, size_t bytes, uint32_t peer, uint32_t n, bool best,
                    double *out)
{
    double times[FEW];

    for (uint32_t i = 0; i < WARM_UP + n; i++) {
        const double begin = plait_clock();
        if (!bounce(comm, memory, bytes, peer))
            return false;
        if (i >= WARM_UP)
            times[i - WARM_UP] = (plait_clock() - begin) / 2;
    }
    *out = best ? quartile_of(times, n) : median_of(times, n);
    return true;
}

bool measure_pair(struct plait_comm *comm, void *memory, uint32_t peer, bool brief, struct figures *out)
{
    const uint32_t less = brief ? BRIEFER : 1;
    const size_t large = PAIRS_BYTES / less;
    double seconds;

    if (!measure(comm, memory, 4, peer, FEW / less, brief, &out->latency) ||
        !measure(comm, memory, large, peer, NLARGE, brief, &seconds))
        return false;
    out->bandwidth = (double)large / seconds;
    return true;
}

/* ---- All pairs --------------------------------------------------------------------------------------------- */

struct pairs {
    struct plait_comm *comm;
    const char (*hosts)[64];
    uint32_t nrank, nmember, members[MOST_MEMBERS];   /* the measured ranks, ascending */
    bool thinned;                                     /* only the first rank of each node is measured */
    uint32_t nodes[MOST_MEMBERS];                     /* of each member */
    struct figures table[MOST_MEMBERS][MOST_MEMBERS]; /* [lower][higher] index of member */
};

static uint32_t node_of(const struct pairs *p, uint32_t rank)
{
    struct plait_peer_info info = { .node = 0 };

    plait_comm_peer(p->comm, rank, &info);
    return info.node;
}

static bool is_first_of_node(const struct pairs *p, uint32_t rank)
{
    for (uint32_t r = 0; r < rank; r++)
        if (node_of(p, r) == node_of(p, rank))
            return false;
    return true;
}

/* Returns false when there are too many. All ranks get the same result. */
static bool choose_members(struct pairs *p)
{
    p->thinned = p->nrank > MOST_MEMBERS;
    for (uint32_t r = 0; r < p->nrank; r++) {
        if (p->thinned && !is_first_of_node(p, r))
            continue;
        if (p->nmember == MOST_MEMBERS)
            return false;
        p->nodes[p->nmember] = node_of(p, r);
        p->members[p->nmember++] = r;
    }
    return true;
}

/* One pair after the other, so that none slows down another. */
static bool measure_all(struct pairs *p, void *memory)
{
    const uint32_t rank = plait_comm_rank(p->comm);

    for (uint32_t a = 0; a < p->nmember; a++)
        for (uint32_t b = a + 1; b < p->nmember; b++) {
            const uint32_t x = p->members[a], y = p->members[b];
            if ((rank == x || rank == y) && !measure_pair(p->comm, memory, rank == x ? y : x, true, &p->table[a][b]))
                return false;
            if (rank == y)
                p->table[a][b] = (struct figures){ 0, 0 }; /* only the lower rank's figures count */
            if (plait_barrier(p->comm, NULL) != PLAIT_OK)
                return false;
        }
    return plait_allreduce(p->comm, p->table, p->table, sizeof p->table / sizeof(double), PLAIT_FLOAT64, PLAIT_SUM,
                           NULL) == PLAIT_OK;
}

/* ---- What it says --------------------------------------------------------------------------------------------- */

static void print_matrix(const struct pairs *p)
{
    printf("\nevery pair, the best quarter: us above the diagonal, GB/s of %d MiB below it\nrank",
           (PAIRS_BYTES / BRIEFER) >> 20);
    for (uint32_t b = 0; b < p->nmember; b++)
        printf(" %8" PRIu32, p->members[b]);
    for (uint32_t a = 0; a < p->nmember; a++) {
        printf("\n%4" PRIu32, p->members[a]);
        for (uint32_t b = 0; b < p->nmember; b++)
            if (a == b)
                printf(" %8s", "-");
            else if (a < b)
                printf(" %8.2f", 1e6 * p->table[a][b].latency);
            else
                printf(" %8.3f", 1e-9 * p->table[b][a].bandwidth);
    }
    printf("\n");
}

/* The medians over pairs on one host, or on two. Returns the number of pairs. */
static uint32_t medians(const struct pairs *p, bool inside, struct figures *out)
{
    static double latency[MOST_MEMBERS * MOST_MEMBERS], bandwidth[MOST_MEMBERS * MOST_MEMBERS];
    uint32_t n = 0;

    for (uint32_t a = 0; a < p->nmember; a++)
        for (uint32_t b = a + 1; b < p->nmember; b++)
            if ((p->nodes[a] == p->nodes[b]) == inside) {
                latency[n] = p->table[a][b].latency;
                bandwidth[n++] = p->table[a][b].bandwidth;
            }
    if (n > 0)
        *out = (struct figures){ median_of(latency, n), median_of(bandwidth, n) };
    return n;
}

static bool is_slow(const struct figures *f, const struct figures *usual)
{
    return f->bandwidth * SLOW < usual->bandwidth || f->latency > LATE * usual->latency;
}

/* The number of slow pairs of this kind with `member`, and the number of its pairs. */
static uint32_t count_slow(const struct pairs *p, uint32_t member, bool inside, const struct figures *usual,
                           uint32_t *of)
{
    uint32_t n = 0;

    *of = 0;
    for (uint32_t o = 0; o < p->nmember; o++)
        if (o != member && (p->nodes[o] == p->nodes[member]) == inside) {
            n += is_slow(o < member ? &p->table[o][member] : &p->table[member][o], usual);
            ++*of;
        }
    return n;
}

/* A rank with mostly slow paths is named once, instead of its paths. */
static bool is_culprit(const struct pairs *p, uint32_t member, bool inside, const struct figures *usual)
{
    uint32_t of;
    const uint32_t n = count_slow(p, member, inside, usual, &of);

    return n > 1 && 2 * n > of;
}

static void print_slow(const struct pairs *p, bool inside)
{
    const char *kind = inside ? "on one host" : "between hosts";
    struct figures usual;
    uint32_t of;

    if (medians(p, inside, &usual) < LEAST)
        return;
    for (uint32_t m = 0; m < p->nmember; m++)
        if (is_culprit(p, m, inside, &usual)) {
            const uint32_t n = count_slow(p, m, inside, &usual, &of);
            printf("slow: rank %" PRIu32 " (%.63s): %" PRIu32 " of its %" PRIu32 " paths %s\n", p->members[m],
                   p->hosts[p->members[m]], n, of, kind);
        }
    for (uint32_t a = 0; a < p->nmember; a++)
        for (uint32_t b = a + 1; b < p->nmember; b++) {
            const struct figures *f = &p->table[a][b];
            if ((p->nodes[a] == p->nodes[b]) == inside && is_slow(f, &usual) && !is_culprit(p, a, inside, &usual) &&
                !is_culprit(p, b, inside, &usual))
                printf("slow: the path between rank %" PRIu32 " (%.63s) and rank %" PRIu32
                       " (%.63s): %.2f us, %.3f GB/s; the medians %s are %.2f and %.3f\n",
                       p->members[a], p->hosts[p->members[a]], p->members[b], p->hosts[p->members[b]], 1e6 * f->latency,
                       1e-9 * f->bandwidth, kind, 1e6 * usual.latency, 1e-9 * usual.bandwidth);
        }
}

static void print_all(const struct pairs *p)
{
    if (p->nmember <= MOST_COLUMNS)
        print_matrix(p);
    printf("\n%" PRIu32 " pairs of %s were measured, one after the other.\n", p->nmember * (p->nmember - 1) / 2,
           p->thinned ? "the first rank of each host" : "ranks");
    print_slow(p, true);
    print_slow(p, false);
}

bool pairs_print(struct plait_comm *comm, void *memory, const char (*hosts)[64])
{
    struct pairs *p = calloc(1, sizeof *p);
    bool ok = true;

    if (p == NULL)
        return false;
    *p = (struct pairs){ .comm = comm, .hosts = hosts, .nrank = plait_comm_nrank(comm) };
    if (!choose_members(p)) {
        if (plait_comm_rank(comm) == 0)
            printf("\nOther pairs are measured among at most %d hosts.\n", MOST_MEMBERS);
    } else if (p->nrank > 2) {
        ok = measure_all(p, memory);
        if (ok && plait_comm_rank(comm) == 0)
            print_all(p);
    }
    free(p);
    return ok;
}
