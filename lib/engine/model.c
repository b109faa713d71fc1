/* SPDX-License-Identifier: BSD-3-Clause */
#include "model.h"

#include "base/status.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_SIMULATED (1u << 15) /* messages of all ranks in a slice: about 10 ms */
#define SMALLEST       6          /* logarithms of the first and last class's size: 64 bytes, 4 MiB */
#define LARGEST        22
#define NCLASS         (LARGEST - SMALLEST + 1)
#define CLOSE          32 /* a 32nd: about 3 % */
#define PS_PER_NS      1000
#define PS_PER_S       1e12
#define PER_MB         UINT64_C(1000000)

/*
 * Built-in speeds. Between ranks that share memory: an operation of the engine on a processor of 2023. Between hosts:
 * TCP on a network of 10 Gbit/s. If ranks share processors, the receiver's turn comes after those of others.
 */
#define HOST_LATENCY  400
#define HOST_FLAG     100 /* of it, the time of a flag from rank to rank */
#define HOST_OVERHEAD 250
#define HOST_TURN     2500
#define HOST_COPY     UINT64_C(20000000000)
#define HOST_REDUCE   UINT64_C(14000000000)
#define NET_LATENCY   20000
#define NET_OVERHEAD  5000
#define NET_RATE      UINT64_C(1200000000)
#define GPU_LATENCY   3000
#define GPU_OVERHEAD  4000
#define GPU_RATE      UINT64_C(200000000000)
#define GPU_MEMORY    UINT64_C(1000000000000)

struct plait_model {
    struct plait_machine machine; /* its rates are those of short vectors */
    struct plait_copies speeds;
    bool paced;
    uint32_t nrank, *place; /* [nrank] */
    pthread_mutex_t lock;
    struct plait_pick *picks[2][PLAIT_NCOLL][2][NCLASS]; /* by device, collective, canonical; NULL: not made yet */
};

/* ---- The machine ---------------------------------------------------------------------------------------- */

/* Places of ranks in their hosts: in *each of them, the most that a host has. Returns the number of hosts. */
static uint32_t count_hosts(const struct plait_model_options *o, uint32_t *place, uint32_t *each)
{
    uint32_t nhost = 0;

    *each = 0;
    for (uint32_t r = 0; r < o->nrank; r++) {
        uint32_t before = r; /* the rank before this one on the same host */
        while (o->node != NULL && before > 0 && o->node[before - 1] != o->node[r])
            before--;
        nhost += before == 0;
        place[r] = before > 0 ? place[before - 1] + 1 : 0;
        *each = place[r] + 1 > *each ? place[r] + 1 : *each;
    }
    return nhost;
}

/* From places in hosts to places in the machine. */
static void number_hosts(const struct plait_model_options *o, uint32_t *place, uint32_t each)
{
    uint32_t nhost = 0;

    for (uint32_t r = 0; r < o->nrank; r++) {
        uint32_t before = r;
        while (o->node != NULL && before > 0 && o->node[before - 1] != o->node[r])
            before--;
        if (o->node != NULL)
            place[r] += (before > 0 ? place[before - 1] / each : nhost++) * each;
    }
}

static void describe(const struct plait_model_options *o, uint32_t nhost, uint32_t each, struct plait_machine *m)
{
    const bool crowded = o->processors > 0 && o->processors < each;

    *m = (struct plait_machine){
        .name = "model", .nlevel = 1, .copy = HOST_COPY, .reduce = HOST_REDUCE, .cache = o->cache
    };
    m->level[0] = (struct plait_level){ .name = "host",
                                        .children = each,
                                        .bandwidth = HOST_COPY,
                                        .latency = crowded ? HOST_TURN * (each / o->processors) : HOST_LATENCY,
                                        .overhead = HOST_OVERHEAD,
                                        .processors = crowded ? o->processors : 0 };
    if (plait_is_paced(&o->pace)) {
        m->level[0].links = 1;
        m->level[0].latency = o->pace.latency;
        m->level[0].bandwidth = o->pace.bandwidth > 0 ? o->pace.bandwidth : HOST_COPY;
    }
    if (nhost > 1)
        m->level[m->nlevel++] = (struct plait_level){ .name = "network",
                                                      .children = nhost,
                                                      .links = 1,
                                                      .bandwidth = NET_RATE,
                                                      .latency = NET_LATENCY,
                                                      .overhead = NET_OVERHEAD };
}

/* For data in GPUs' memory: processors only put the work on queues. */
static struct plait_machine with_gpus(struct plait_machine m)
{
    m.level[0].latency = GPU_LATENCY;
    m.level[0].overhead = GPU_OVERHEAD;
    m.level[0].bandwidth = GPU_RATE;
    m.level[0].processors = 0;
    m.copy = m.reduce = GPU_MEMORY;
    return m;
}

/* With the speeds that were timed. Rates depend on the caches that vectors of this size fit, those of sums as well. */
static struct plait_machine as_timed(const struct plait_model *model, size_t bytes)
{
    struct plait_machine m = model->machine;
    const struct plait_copies *s = &model->speeds;
    const uint64_t copy = s->copy[plait_copy_class(bytes)];

    m.copy = copy * PER_MB;
    m.reduce = s->reduce * m.copy / s->copy[0];
    if (model->paced)
        return m;
    m.level[0].bandwidth = m.copy;
    if (m.level[0].processors == 0)
        m.level[0].latency = HOST_LATENCY - HOST_FLAG + s->latency;
    return m;
}

enum plait_status plait_model_create(const struct plait_model_options *o, struct plait_model **out)
{
    struct plait_model *m = calloc(1, sizeof *m);
    uint32_t each;

    if (m != NULL)
        m->place = malloc(o->nrank * sizeof *m->place);
    if (m == NULL || m->place == NULL) {
        free(m);
        return plait_fail_memory("out of memory for the model of %u ranks", o->nrank);
    }
    m->nrank = o->nrank;
    const uint32_t nhost = count_hosts(o, m->place, &each);
    number_hosts(o, m->place, each);
    m->paced = plait_is_paced(&o->pace);
    describe(o, nhost, each, &m->machine);
    pthread_mutex_init(&m->lock, NULL);
    *out = m;
    return PLAIT_OK;
}

void plait_model_use(struct plait_model *model, const struct plait_copies *speeds)
{
    model->speeds = *speeds;
}

void plait_model_destroy(struct plait_model *m)
{
    if (m == NULL)
        return;
    for (unsigned i = 0; i < sizeof m->picks / sizeof ****m->picks; i++)
        free((&m->picks[0][0][0][0])[i]);
    pthread_mutex_destroy(&m->lock);
    free(m->place);
    free(m);
}

/* ---- Candidates ----------------------------------------------------------------------------------------- */

struct candidate {
    const struct plait_alg *alg;
    struct plait_claim claim;
    uint64_t least; /* ps: no plan with this claim is faster */
    uint64_t time;  /* ps; 0: not known yet */
    bool estimated; /* by the claim, not simulated */
};

static size_t block_bytes(const struct plait_shape *shape, const struct plait_claim *c, size_t bytes)
{
    const bool vector = plait_geometry_of(shape->coll, 1, 0, 0, 1).kind == PLAIT_KIND_VECTOR;
    return vector && c->nblk > 0 ? bytes / c->nblk : bytes;
}

/* Most blocks that a rank moves. Through memory, only receivers do. */
static uint64_t most_moved(const struct plait_machine *m, const struct plait_claim *c)
{
    return m->level[m->nlevel - 1].links > 0 && c->sent > c->received ? c->sent : c->received;
}

/* Each message takes the least latency, and a rank's bytes the fastest link. */
static uint64_t least_time(const struct plait_machine *m, const struct plait_shape *shape, const struct plait_claim *c,
                           size_t bytes)
{
    uint64_t latency = UINT64_MAX, rate = 0;

    for (uint32_t k = 0; k < m->nlevel; k++) {
        latency = m->level[k].latency < latency ? m->level[k].latency : latency;
        rate = m->level[k].bandwidth > rate ? m->level[k].bandwidth : rate;
    }
    const double moved = (double)most_moved(m, c) * (double)block_bytes(shape, c, bytes) / (double)rate * PS_PER_S;
    const uint64_t waits = c->depth * latency * PS_PER_NS;
    return waits > (uint64_t)moved ? waits : (uint64_t)moved;
}

/* Without a simulation: messages and bytes take what they take in the largest unit. */
static uint64_t estimated_time(const struct plait_machine *m, const struct plait_shape *shape,
                               const struct plait_claim *c, size_t bytes)
{
    const struct plait_level *top = &m->level[m->nlevel - 1];
    const double moved = (double)most_moved(m, c) * (double)block_bytes(shape, c, bytes) / (double)top->bandwidth;

    return (c->depth * top->latency + 2 * c->rounds * top->overhead) * PS_PER_NS + (uint64_t)(moved * PS_PER_S);
}

static uint32_t find_candidates(const struct plait_machine *m, const struct plait_shape *shape, size_t bytes,
                                bool canonical, struct candidate *out)
{
    const bool combines = plait_geometry_of(shape->coll, 1, 0, 0, 1).combines;
    uint32_t n = 0;

    for (const struct plait_alg *const *a = plait_algs; *a != NULL && n < PLAIT_MOST_CANDIDATES; a++) {
        struct plait_shape s = *shape;
        const struct plait_alg *alg;
        if ((*a)->coll != shape->coll || (canonical && combines && !(*a)->canonical) ||
            plait_alg_find(plait_algs, (*a)->name, &s, &alg) != PLAIT_OK)
            continue;
        out[n] = (struct candidate){ .alg = alg, .claim = alg->claim(alg, &s) };
        out[n].least = least_time(m, shape, &out[n].claim, bytes);
        n++;
    }
    return n;
}

/* Sets the candidate's time. Errors: PLAIT_ERR_NOMEM. */
static enum plait_status time_candidate(const struct plait_model *model, const struct plait_machine *m,
                                        const struct plait_shape *shape, size_t bytes, struct candidate *c)
{
    const struct plait_sim_options options = { .place = model->place };
    struct plait_prediction p = { 0 };
    enum plait_status status = PLAIT_ERR_UNSUPPORTED;

    if (c->claim.rounds * shape->nrank <= MOST_SIMULATED)
        status = plait_simulate(m, c->alg->name, shape, PLAIT_UINT8, bytes, &options, &p);
    if (status != PLAIT_OK && status != PLAIT_ERR_UNSUPPORTED)
        return status;
    c->estimated = status != PLAIT_OK;
    c->time = status == PLAIT_OK ? p.time : estimated_time(m, shape, &c->claim, bytes);
    c->time += c->time == 0;
    return PLAIT_OK;
}

/* The next candidate to time is the one that may be the fastest of those left; UINT32_MAX: none may be. */
static uint32_t next_candidate(const struct candidate *all, uint32_t n, uint64_t best)
{
    uint32_t next = UINT32_MAX;

    for (uint32_t i = 0; i < n; i++)
        if (all[i].time == 0 && all[i].least < best && (next == UINT32_MAX || all[i].least < all[next].least))
            next = i;
    return next;
}

/*
 * Is x better than y? Times that differ by less than 3 % decide nothing, as the model is not so exact. Then the
 * canonical order is preferred, since results do not depend on the size then, and after that few messages.
 */
static bool is_better(const struct candidate *x, const struct candidate *y)
{
    if (x->time < y->time - y->time / CLOSE || y->time < x->time - x->time / CLOSE)
        return x->time < y->time;
    if (x->alg->canonical != y->alg->canonical)
        return x->alg->canonical;
    if (x->claim.rounds != y->claim.rounds)
        return x->claim.rounds < y->claim.rounds;
    return x->claim.depth < y->claim.depth;
}

/* The rest of the candidates by time. */
static void sort(struct candidate *all, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++) {
        const struct candidate c = all[i];
        uint32_t at = i;
        for (; at > 0 && c.time < all[at - 1].time; at--)
            all[at] = all[at - 1];
        all[at] = c;
    }
}

/* Time the candidates of a class, those first that may be the fastest. */
static enum plait_status time_all(const struct plait_model *model, const struct plait_machine *m,
                                  const struct plait_shape *shape, struct plait_pick *out, struct candidate *all,
                                  uint32_t n)
{
    uint32_t best = UINT32_MAX, i;

    while ((i = next_candidate(all, n, best != UINT32_MAX ? all[best].time : UINT64_MAX)) != UINT32_MAX) {
        const enum plait_status status = time_candidate(model, m, shape, out->bytes, &all[i]);
        if (status != PLAIT_OK)
            return status;
        if (best == UINT32_MAX || is_better(&all[i], &all[best]))
            best = i;
    }
    const struct candidate first = all[best];
    all[best] = all[0];
    all[0] = first;
    for (i = 1; i < n; i++)
        all[i].time = all[i].time > 0 ? all[i].time : UINT64_MAX;
    sort(all + 1, n - 1);
    for (i = 0; i < n && all[i].time < UINT64_MAX; i++) {
        struct plait_candidate *c = &out->candidates[out->n++];
        snprintf(c->algorithm, sizeof c->algorithm, "%s", all[i].alg->name);
        c->predicted = (double)all[i].time / PS_PER_S;
        c->estimated = all[i].estimated;
    }
    return PLAIT_OK;
}

static enum plait_status time_on(const struct plait_model *model, const struct plait_machine *m,
                                 const struct plait_shape *shape, bool canonical, struct plait_pick *out)
{
    struct candidate all[PLAIT_MOST_CANDIDATES];
    const uint32_t n = find_candidates(m, shape, out->bytes, canonical, all);

    if (n == 0)
        return plait_fail(PLAIT_ERR_CONFIG, "no algorithm for %s of %" PRIu32 " ranks%s", plait_coll_name(shape->coll),
                          shape->nrank, canonical ? " combines in the canonical order" : "");
    return time_all(model, m, shape, out, all, n);
}

/*
 * Make the pick of a class. Timed speeds differ from run to run, but the order in which a collective combines must not.
 * So built-in speeds decide between the canonical order and others, and timed ones among canonical algorithms.
 */
static enum plait_status make_pick(const struct plait_model *model, const struct plait_shape *shape, bool canonical,
                                   bool device, struct plait_pick *pick)
{
    const bool combines = plait_geometry_of(shape->coll, 1, 0, 0, 1).combines;
    struct plait_machine m = device ? with_gpus(model->machine) : model->machine;
    struct plait_shape s = *shape;
    const struct plait_alg *alg;
    enum plait_status status = time_on(model, &m, shape, canonical, pick);

    if (status == PLAIT_OK)
        status = plait_alg_find(plait_algs, pick->candidates[0].algorithm, &s, &alg);
    if (status != PLAIT_OK || device || !model->speeds.calibrated || (combines && !alg->canonical))
        return status;
    m = as_timed(model, pick->bytes);
    *pick = (struct plait_pick){ .bytes = pick->bytes, .timed = true };
    return time_on(model, &m, shape, combines, pick);
}

/* The nearest class. */
static uint32_t class_of(size_t bytes)
{
    uint32_t log = 0;

    while (log < LARGEST && (size_t)1 << log < bytes - bytes / 4)
        log++;
    return log > SMALLEST ? log - SMALLEST : 0;
}

enum plait_status plait_model_pick(struct plait_model *model, const struct plait_shape *shape, size_t bytes,
                                   bool canonical, bool device, const struct plait_pick **out)
{
    struct plait_shape s = { .coll = shape->coll == PLAIT_BARRIER ? PLAIT_ALLREDUCE : shape->coll,
                             .nrank = shape->nrank,
                             .node = shape->node,
                             .nlevel = shape->nlevel,
                             .level = shape->level };
    const uint32_t k = class_of(bytes);
    enum plait_status status = PLAIT_OK;

    pthread_mutex_lock(&model->lock);
    struct plait_pick **at = &model->picks[device][s.coll][canonical][k];
    if (*at == NULL) {
        struct plait_pick *fresh = calloc(1, sizeof *fresh);
        if (fresh == NULL)
            status = plait_fail_memory("out of memory to choose an algorithm");
        else
            fresh->bytes = (size_t)1 << (k + SMALLEST);
        if (status == PLAIT_OK)
            status = make_pick(model, &s, canonical, device, fresh);
        if (status == PLAIT_OK)
            *at = fresh;
        else
            free(fresh);
    }
    *out = *at;
    pthread_mutex_unlock(&model->lock);
    return status;
}
