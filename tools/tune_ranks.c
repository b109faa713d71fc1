/* SPDX-License-Identifier: BSD-3-Clause */
/* plait-tune: one rank, from its comm to the rows. */
#include "tune.h"

#include "base/clock.h"
#include "comm/comm.h"
#include "message.h"
#include "units.h"

#include <plait/topology.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST_ROOM  ((size_t)64 << 20) /* bytes of a buffer */
#define LEAST_ROOM ((size_t)4 << 20)
#define PART       8   /* all buffers of a host take at most a PARTth of its memory, each for sending and receiving */
#define LATER      0.2 /* of the time is left for sizes between those of the cells */
#define TRIES      20  /* of the calibration, which fails while other programs have the processors */
#define BISECTION  0.1 /* of the rest for each of those */

enum plait_status tune_agree(const struct tune *t, double *x, uint32_t n)
{
    return plait_allreduce(t->comm, x, x, n, PLAIT_FLOAT64, PLAIT_MAX, NULL);
}

/* Number the hosts in the order of their first ranks, and count the ranks of each. */
static enum plait_status find_hosts(struct tune *t)
{
    struct plait_peer_info one, other;
    uint32_t n[2] = { UINT32_MAX, 0 }; /* least and most ranks of a host */

    for (uint32_t r = 0; r < t->nrank; r++) {
        uint32_t before = 0, same = 0;
        enum plait_status status = plait_comm_peer(t->comm, r, &one);
        t->host[r] = t->nhost;
        for (uint32_t k = 0; k < t->nrank && status == PLAIT_OK; k++) {
            status = plait_comm_peer(t->comm, k, &other);
            if (other.node != one.node)
                continue;
            same++;
            if (k < r && before++ == 0)
                t->host[r] = t->host[k];
        }
        if (status != PLAIT_OK)
            return status;
        t->nhost += before == 0;
        n[0] = same < n[0] ? same : n[0];
        n[1] = same > n[1] ? same : n[1];
    }
    t->each = n[0] == n[1] ? n[0] : 0;
    return PLAIT_OK;
}

/* The file is of the kind of rank 0's host. */
static enum plait_status compare_hosts(const struct tune *t)
{
    const uint64_t print = t->results->tuning.fingerprint;
    const double half[] = { (double)(uint32_t)print, (double)(uint32_t)(print >> 32) };
    double x[] = { half[0], half[1], -half[0], -half[1] };
    const enum plait_status status = tune_agree(t, x, 4);

    if (status == PLAIT_OK && t->rank == 0 && (x[0] != -x[2] || x[1] != -x[3]))
        remark("the hosts are of different kinds; the file will be refused on those unlike rank 0's");
    return status;
}

static enum plait_status find_room(struct tune *t)
{
    struct plait_topology host;
    enum plait_status status;

    plait_topology_get(&host);
    const uint32_t beside = t->each > 0 ? t->each : t->nrank;
    double less = -(double)(host.memory / PART / 2 / beside); /* the least of all ranks' */
    status = tune_agree(t, &less, 1);
    if (status != PLAIT_OK)
        return status;
    t->room = (size_t)fmax(fmin(-less, (double)MOST_ROOM), (double)LEAST_ROOM);
    status = plait_mem_alloc(t->room, &t->in);
    return status == PLAIT_OK ? plait_mem_alloc(t->room, &t->out) : status;
}

void tune_progress(const struct tune *t, const char *text)
{
    char hosts[32] = "";
    const double all = t->end - t->begin, now = plait_clock();

    if (t->rank > 0)
        return;
    if (t->nhost > 1)
        snprintf(hosts, sizeof hosts, " on %u hosts", t->nhost);
    printf("%u ranks%s%s: %s; %.0f %% of their time is over, at most %.0f s are left\n", t->nrank, hosts,
           t->crowded ? ", more than processors" : "", text, fmin(100 * (now - t->begin) / all, 100),
           fmax(t->end - now, 0));
    fflush(stdout);
}

/* Small sizes first: those of all collectives take less time than their share, which is left for the larger ones. */
static enum plait_status measure_cells(struct tune *t, struct tune_cell (*cell)[TUNE_SIZES])
{
    const double all = (PLAIT_NCOLL - 1) * TUNE_SIZES;
    enum plait_status status = PLAIT_OK;
    uint32_t done = 0;
    char size[UNITS_ROOM];

    for (uint32_t k = 0; k < TUNE_SIZES && status == PLAIT_OK; k++) {
        tune_progress(t, units_bytes(size, (double)TUNE_SIZE(k)));
        for (int coll = 0; coll < PLAIT_NCOLL && status == PLAIT_OK; coll++) {
            const struct tune_cell *before = k > 0 ? &cell[coll][k - 1] : NULL;
            if (coll == PLAIT_BARRIER)
                continue;
            const double guess = before != NULL && before->bytes > 0 ? 4 * before->seconds[before->best] : 0;
            const double share = 1 / (all - done++);
            status = tune_cell(t, (enum plait_coll)coll, TUNE_SIZE(k), NULL, share, guess, TUNE_CLOSE, &cell[coll][k]);
        }
    }
    return status;
}

static enum plait_status measure_all(struct tune *t, bool first)
{
    struct tune_cell(*cell)[TUNE_SIZES] = calloc(PLAIT_NCOLL, sizeof *cell);
    enum plait_status status = cell != NULL ? PLAIT_OK : PLAIT_ERR_NOMEM;

    if (status == PLAIT_OK && first)
        status = tune_links(t);
    t->until = t->end - LATER * (t->end - t->begin);
    if (status == PLAIT_OK)
        status = measure_cells(t, cell);
    t->until = t->end;
    if (status == PLAIT_OK)
        tune_progress(t, "sizes between");
    for (int coll = 0; coll < PLAIT_NCOLL && status == PLAIT_OK; coll++)
        status = tune_rows(t, (enum plait_coll)coll, cell[coll], BISECTION);
    free(cell);
    return status;
}

enum plait_status tune_calibrate(struct plait_comm **comm)
{
    enum plait_status status = PLAIT_OK;

    for (int i = 0; i < TRIES && status == PLAIT_OK; i++) {
        const struct plait_comm *c = *comm;
        struct plait_comm *again = NULL;
        double missing = plait_comm_rank(c) == 0 && !c->copies.calibrated && c->nprocess > 0 && c->config.calibrate;
        status = plait_allreduce(*comm, &missing, &missing, 1, PLAIT_FLOAT64, PLAIT_MAX, NULL);
        if (status != PLAIT_OK || missing == 0)
            break;
        status = plait_comm_duplicate(*comm, NULL, &again);
        if (status == PLAIT_OK) {
            plait_comm_destroy(*comm);
            *comm = again;
        }
    }
    return status;
}

enum plait_status tune_ranks(struct plait_comm *comm, double seconds, enum tune_task task, struct tune_results *out)
{
    struct tune t = { .comm = comm,
                      .rank = plait_comm_rank(comm),
                      .nrank = plait_comm_nrank(comm),
                      .crowded = comm->processors > 0,
                      .begin = plait_clock(),
                      .results = out };
    enum plait_status status = PLAIT_ERR_NOMEM;

    t.until = t.end = t.begin + seconds;
    t.host = calloc(t.nrank, sizeof *t.host);
    if (t.host != NULL)
        status = find_hosts(&t);
    if (status == PLAIT_OK)
        status = compare_hosts(&t);
    if (status == PLAIT_OK)
        status = find_room(&t);
    if (status == PLAIT_OK)
        status = task == TUNE_CHECK ? tune_check(&t) : measure_all(&t, task == TUNE_LINKS_TOO);
    plait_mem_free(t.in);
    plait_mem_free(t.out);
    free(t.host);
    return status;
}
