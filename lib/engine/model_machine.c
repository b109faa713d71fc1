/* SPDX-License-Identifier: BSD-3-Clause */
#include "model_machine.h"

#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PER_MB UINT64_C(1000000)

/*
 * Built-in speeds. Between ranks that share memory: an operation of the engine on a processor of 2023. Between hosts:
 * TCP on a network of 10 Gbit/s. If ranks share processors, the receiver's turn comes after those of others.
 */
#define REDUCE_PER_10_COPIED 7 /* bytes in the same time: a copy touches two vectors, a sum three */
#define HOST_LATENCY         400
#define HOST_FLAG            100 /* of it, the time of a flag from rank to rank */
#define HOST_OVERHEAD        250
#define HOST_TURN            2500
#define HOST_COPY            UINT64_C(20000000000)
#define HOST_REDUCE          (HOST_COPY / 10 * REDUCE_PER_10_COPIED)
#define NET_LATENCY          20000
#define NET_OVERHEAD         5000
#define NET_RATE             UINT64_C(1200000000)
#define GPU_LATENCY          3000
#define GPU_OVERHEAD         4000
#define GPU_RATE             UINT64_C(200000000000)
#define GPU_MEMORY           UINT64_C(1000000000000)

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

/* The outermost level of the comm, if its units have several hosts each; NULL: there are no racks. */
static const uint32_t *find_racks(const struct plait_model_options *o)
{
    const uint32_t *rack = o->nlevel > 0 ? o->level + (size_t)(o->nlevel - 1) * o->nrank : NULL;

    for (uint32_t r = 1; rack != NULL && o->node != NULL && r < o->nrank; r++)
        for (uint32_t k = 0; k < r; k++)
            if (rack[k] == rack[r] && o->node[k] != o->node[r])
                return rack;
    return NULL;
}

/*
 * From places in hosts to places in the machine, rack by rack.
 *
 * hosts  [nrank] scratch: of each rack, its hosts so far
 */
static void number_hosts(const struct plait_model_options *o, struct plait_model_machine *m, uint32_t *hosts)
{
    const uint32_t *rack = find_racks(o);

    m->nrack = m->beside = 1;
    for (int pass = 0; pass < 2 && o->node != NULL; pass++) {
        memset(hosts, 0, o->nrank * sizeof *hosts);
        for (uint32_t r = 0; r < o->nrank; r++) {
            const uint32_t of = rack != NULL ? rack[r] : 0;
            uint32_t before = r;
            while (before > 0 && o->node[before - 1] != o->node[r])
                before--;
            if (pass == 1)
                m->place[r] +=
                    before > 0 ? m->place[before - 1] / m->each * m->each : (of * m->beside + hosts[of]) * m->each;
            hosts[of] += before == 0;
            m->nrack = of + 1 > m->nrack ? of + 1 : m->nrack;
            m->beside = pass == 0 && hosts[of] > m->beside ? hosts[of] : m->beside;
        }
    }
}

/* A network with built-in speeds, or those that were measured. faster: so many times the built-in bandwidth */
static struct plait_level network(const char *name, uint32_t children, const struct plait_tuned_link *measured,
                                  uint32_t faster)
{
    const bool known = measured->bandwidth > 0;
    struct plait_level l = { .children = children,
                             .links = 1,
                             .bandwidth = known ? measured->bandwidth : NET_RATE * faster,
                             .latency = known ? measured->latency : NET_LATENCY,
                             .overhead = known ? measured->overhead : NET_OVERHEAD };

    snprintf(l.name, sizeof l.name, "%s", name);
    return l;
}

enum plait_status plait_model_machine_make(const struct plait_model_options *o, struct plait_model_machine *out)
{
    uint32_t *hosts = malloc(o->nrank * sizeof *hosts);

    *out = (struct plait_model_machine){ .processors = o->processors, .cache = o->cache, .pace = o->pace };
    out->place = malloc(o->nrank * sizeof *out->place);
    if (hosts == NULL || out->place == NULL) {
        free(hosts);
        free(out->place);
        return plait_fail_memory("out of memory for the model of %u ranks", o->nrank);
    }
    out->nhost = count_hosts(o, out->place, &out->each);
    number_hosts(o, out, hosts);
    free(hosts);
    return PLAIT_OK;
}

/* Data in host memory. */
static void describe(const struct plait_model_machine *o, struct plait_machine *m)
{
    const bool crowded = o->processors > 0 && o->processors < o->each;

    *m = (struct plait_machine){
        .name = "model", .nlevel = 1, .copy = HOST_COPY, .reduce = HOST_REDUCE, .cache = o->cache
    };
    m->level[0] = (struct plait_level){ .name = "host",
                                        .children = o->each,
                                        .bandwidth = HOST_COPY,
                                        .latency = crowded ? HOST_TURN * (o->each / o->processors) : HOST_LATENCY,
                                        .overhead = HOST_OVERHEAD,
                                        .processors = crowded ? o->processors : 0 };
    if (plait_is_paced(&o->pace)) {
        m->level[0].links = 1;
        m->level[0].latency = o->pace.latency;
        m->level[0].bandwidth = o->pace.bandwidth > 0 ? o->pace.bandwidth : HOST_COPY;
    }
    if (o->nhost > 1)
        m->level[m->nlevel++] = network("network", o->beside, &o->net, 1);
    if (o->nrack > 1)
        m->level[m->nlevel++] = network("racks", o->nrack, &o->uplink, o->beside);
}

/* For data in GPUs' memory: processors only put the work on queues. */
static void use_gpus(struct plait_machine *m)
{
    m->level[0].latency = GPU_LATENCY;
    m->level[0].overhead = GPU_OVERHEAD;
    m->level[0].bandwidth = GPU_RATE;
    m->level[0].processors = 0;
    m->copy = m->reduce = GPU_MEMORY;
}

void plait_model_machine_describe(const struct plait_model_machine *o, bool device, struct plait_machine *m)
{
    describe(o, m);
    if (device)
        use_gpus(m);
}

/* Rates depend on the caches that vectors of this size fit, those of sums as well. */
void plait_model_machine_use_timed(const struct plait_model_machine *o, size_t bytes, struct plait_machine *m)
{
    const struct plait_copies *s = &o->speeds;
    const uint64_t copy = s->copy[plait_copy_class(bytes)];

    m->copy = copy * PER_MB;
    m->reduce = m->copy / 10 * REDUCE_PER_10_COPIED;
    if (plait_is_paced(&o->pace))
        return;
    m->level[0].bandwidth = m->copy;
    if (m->level[0].processors == 0)
        m->level[0].latency = HOST_LATENCY - HOST_FLAG + (s->latency > 0 ? s->latency : HOST_FLAG);
}
