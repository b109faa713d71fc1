/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A machine from the parts of one host.
 *
 * The levels of a host are the kinds of parts that contain several ranks or several smaller units with ranks. Where the
 * units of a kind differ, the largest number of children counts. Neither hwloc nor NCCL's XML has latencies or the
 * speed of memory, so these are those of a class of machines, and the notes say so.
 */
#include "hardware.h"
#include "message.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define GB         ((uint64_t)1000000000)
#define MOST_RANKS 4096 /* of a host */

/* ---- What is assumed --------------------------------------------------------------------------------- */

/* Ranks on processors: reading each other's memory, by the smallest part that contains both. */
static const struct {
    uint64_t bandwidth, latency;
} near[PART_NKIND] = {
    [PART_HOST] = { 8 * GB, 200 },  [PART_PACKAGE] = { 10 * GB, 100 }, [PART_NUMA] = { 10 * GB, 100 },
    [PART_CACHE] = { 10 * GB, 50 }, [PART_CORE] = { 10 * GB, 30 },
};
/* GPUs without NVLink: latency by the smallest part that contains both. */
static const uint64_t gpu_latency[PART_NKIND] = {
    [PART_HOST] = 5000, [PART_PACKAGE] = 4000, [PART_NUMA] = 4000, [PART_SWITCH] = 3000
};
static const uint64_t nvlink_latency = 2000, shared_overhead = 100, gpu_overhead = 500;
static const uint64_t core_memory = 10 * GB, most_memory = 150 * GB; /* of a memory node */
static const uint64_t core_copy = 10 * GB, core_reduce = 8 * GB;
static const uint64_t package_link = 20 * GB, pcie_link = 15750000000; /* between packages; PCIe 3 x16 */
static const uint64_t network = 12500000000, network_latency = 2000, network_overhead = 500, network_eager = 8192;
static const uint64_t gpu_network_latency = 5000, switch_latency = 2000; /* of a further switch */

/* By CUDA's compute capability, from the newest: bytes per second of memory, and of an NVLink in each direction. */
static const struct gpu {
    uint32_t capability;
    uint64_t memory, nvlink;
    uint32_t cache; /* MiB, for slices */
} gpus[] = {
    { 120, 1800 * GB, 0, 64 },     { 100, 8000 * GB, 50 * GB, 64 }, { 90, 3350 * GB, 25 * GB, 64 },
    { 89, 864 * GB, 0, 32 },       { 86, 696 * GB, 14 * GB, 16 },   { 80, 2000 * GB, 25 * GB, 32 },
    { 75, 320 * GB, 25 * GB, 16 }, { 70, 900 * GB, 25 * GB, 16 },   { 61, 346 * GB, 0, 16 },
    { 60, 732 * GB, 20 * GB, 16 }, { 0, 900 * GB, 25 * GB, 16 }, /* unknown */
};

static const struct gpu *class_of(uint32_t capability)
{
    const struct gpu *g = gpus;

    while (g->capability > capability || (capability == 0 && g->capability > 0))
        g++;
    return g;
}

/* ---- Units ------------------------------------------------------------------------------------------- */

struct units {
    enum part_kind rank;
    uint32_t nrank, nkind;
    enum part_kind kinds[PART_NKIND]; /* of units, the largest first */
    const struct part *ranks[MOST_RANKS];
    const struct part *unit[MOST_RANKS][PART_NKIND]; /* [rank][kind's place in kinds] */
    bool nvlink;
};

/* The smallest part of this kind that contains `p`; of PCIe switches the smallest with several ranks. */
static const struct part *unit_of(const struct units *u, const struct part *p, enum part_kind kind)
{
    for (p = p->above; p != NULL; p = p->above)
        if (p->kind == kind && (kind != PART_SWITCH || p->counts[u->rank] > 1))
            break;
    return p;
}

/* Which kinds of parts form levels? GPUs with NVLink are all as near. */
static bool forms_level(const struct units *u, enum part_kind kind)
{
    if (kind == PART_HOST)
        return true;
    if (u->rank == PART_GPU)
        return !u->nvlink && (kind == PART_PACKAGE || kind == PART_NUMA || kind == PART_SWITCH);
    return kind < u->rank && kind != PART_SWITCH;
}

static bool find_units(const char *name, const struct part *host, struct units *u)
{
    u->nvlink = true;
    for (const struct part *p = host; p != NULL; p = parts_following(p)) {
        if (p->kind != u->rank)
            continue;
        if (u->nrank == MOST_RANKS)
            return complain("%s: more than %d %ss; that are too many ranks for a host", name, MOST_RANKS,
                            part_kind_name(u->rank));
        u->nvlink = u->nvlink && p->nvlinks > 0;
        u->ranks[u->nrank++] = p;
    }
    if (u->nrank == 0)
        return complain("%s: it has no %s that could be a rank; --rank-per takes another part", name,
                        part_kind_name(u->rank));
    for (enum part_kind k = PART_HOST; k < PART_NKIND; k++) {
        if (!forms_level(u, k))
            continue;
        bool there = false;
        for (uint32_t r = 0; r < u->nrank; r++) {
            u->unit[r][u->nkind] = unit_of(u, u->ranks[r], k);
            there = there || u->unit[r][u->nkind] != NULL;
        }
        u->kinds[u->nkind] = k;
        u->nkind += there;
    }
    return true;
}

/* Does a unit of this kind begin at rank r? */
static bool begins(const struct units *u, uint32_t r, uint32_t kind)
{
    for (uint32_t k = 0; r > 0 && k <= kind; k++)
        if (u->unit[r][k] != u->unit[r - 1][k])
            return true;
    return r == 0;
}

/* The most and the fewest children of a unit: units of the next kind, or ranks. */
static void count_children(const struct units *u, uint32_t kind, uint32_t *most, uint32_t *least)
{
    uint32_t n = 0;

    *most = 0;
    *least = UINT32_MAX;
    for (uint32_t r = 0; r <= u->nrank; r++) {
        if (r > 0 && (r == u->nrank || begins(u, r, kind))) {
            *most = n > *most ? n : *most;
            *least = n < *least ? n : *least;
            n = 0;
        }
        n += r < u->nrank && (kind + 1 == u->nkind || begins(u, r, kind + 1));
    }
}

/* ---- Levels ------------------------------------------------------------------------------------------ */

/* A level made of kinds[first] to kinds[last]: each unit of a kind but the last has one child. */
struct run {
    uint32_t first, last, children, least;
};

#define ABOUT sizeof((struct plait_level *)NULL)->about
_Static_assert(ABOUT == sizeof((struct plait_machine *)NULL)->about, "one room");

/* Append to out[ABOUT]. */
static void note(char *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void note(char *out, const char *format, ...)
{
    const size_t n = strlen(out);
    va_list arguments;

    va_start(arguments, format);
    if (n < ABOUT)
        vsnprintf(out + n, ABOUT - n, format, arguments);
    va_end(arguments);
}

static const char *level_name(enum part_kind kind)
{
    return kind == PART_NUMA ? "numa" : kind == PART_SWITCH ? "switch" : part_kind_name(kind);
}

/* A level of ranks on processors. */
static void shared_level(const struct units *u, const struct run *r, struct plait_level *l)
{
    const enum part_kind smallest = u->kinds[r->last];
    uint32_t cores = r->children;

    l->bandwidth = near[smallest].bandwidth;
    l->latency = near[smallest].latency;
    l->overhead = shared_overhead;
    note(l->about, "assumed: bandwidth, latency, overhead");
    for (uint32_t k = r->first; k <= r->last; k++) {
        if (u->kinds[k] != PART_NUMA || u->unit[0][k] == NULL)
            continue;
        cores = u->unit[0][k]->counts[u->rank];
        l->memory = cores * core_memory < most_memory ? cores * core_memory : most_memory;
        note(l->about, ", memory (10 GB/s of each rank, at most 150 GB/s)");
    }
}

/* The slowest link of which the rate is known. */
static uint64_t slowest(const struct units *u, int kind, uint64_t least)
{
    uint64_t rate = 0;

    for (uint32_t r = 0; r < u->nrank; r++) {
        const struct part *p = kind >= 0 ? u->unit[r][kind] : u->ranks[r];
        if (p != NULL && p->rate >= least && (rate == 0 || p->rate < rate))
            rate = p->rate;
    }
    return rate;
}

static void nvlink_level(const struct units *u, struct plait_level *l)
{
    const struct gpu *g = class_of(u->ranks[0]->capability);
    const uint64_t each = g->nvlink > 0 ? g->nvlink : 25 * GB;
    uint32_t n = u->ranks[0]->nvlinks;

    for (uint32_t r = 1; r < u->nrank; r++)
        n = u->ranks[r]->nvlinks < n ? u->ranks[r]->nvlinks : n;
    l->bandwidth = n * each;
    l->latency = nvlink_latency;
    note(l->about, "bandwidth: %" PRIu32 " NVLink%s of %" PRIu32 " GB/s, as if to a switch; assumed: latency, overhead",
         n, plural(n), (uint32_t)(each / GB));
}

/* A level of GPUs. child: the kind of the units that it joins, -1 for GPUs. */
static void gpu_level(const struct units *u, const struct run *r, int child, struct plait_level *l)
{
    l->links = 1;
    l->overhead = gpu_overhead;
    if (u->nvlink) {
        nvlink_level(u, l);
        return;
    }
    l->latency = gpu_latency[u->kinds[r->last]];
    const bool pcie = child < 0 || u->kinds[child] == PART_SWITCH;
    /* A virtual machine's switches may claim 0.25 GB/s. */
    const uint64_t rate = pcie ? slowest(u, child, child < 0 ? 1 : GB) : 0;
    const uint64_t gpu = slowest(u, -1, 1);
    l->bandwidth = rate > 0 ? rate : !pcie ? package_link : gpu > 0 ? gpu : pcie_link;
    if (rate > 0)
        note(l->about, "bandwidth: nominal, of the PCIe links; assumed: latency, overhead");
    else
        note(l->about, "assumed: bandwidth of %s, latency, overhead", pcie ? "PCIe" : "the links between processors");
}

static void host_levels(const struct units *u, struct plait_machine *m)
{
    struct run runs[PART_NKIND], run = { 0 };
    uint32_t n = 0;

    for (uint32_t k = 0; k < u->nkind; k++) {
        count_children(u, k, &run.children, &run.least);
        run.last = k;
        if (run.children == 1 && k + 1 < u->nkind)
            continue;
        if (run.children == 1 && n > 0)
            break; /* units of one rank each: they are the ranks of the level above */
        runs[n++] = run;
        run.first = k + 1;
    }
    for (uint32_t i = n; i-- > 0; m->nlevel++) {
        struct plait_level *l = &m->level[m->nlevel];
        snprintf(l->name, sizeof l->name, "%s", level_name(u->kinds[runs[i].first]));
        l->children = runs[i].children;
        if (u->rank == PART_GPU)
            gpu_level(u, &runs[i], i + 1 < n ? (int)runs[i + 1].first : -1, l);
        else
            shared_level(u, &runs[i], l);
        if (runs[i].least < runs[i].children)
            note(l->about, ". Uneven: some have %" PRIu32 " %ss, but all are taken to have %" PRIu32, runs[i].least,
                 i + 1 < n ? level_name(u->kinds[runs[i + 1].first]) : part_kind_name(u->rank), runs[i].children);
    }
}

/* ---- The network ------------------------------------------------------------------------------------- */

/* The fastest NICs of the host: their number and rate; 0: unknown. */
static uint32_t find_nics(const struct part *host, uint64_t *rate)
{
    uint32_t n = 0;

    *rate = 0;
    for (const struct part *p = host; p != NULL; p = parts_following(p)) {
        if (p->kind != PART_NIC)
            continue;
        const uint64_t r = p->rate > 0 && p->rate < p->network ? p->rate : p->network;
        n = r > *rate ? 1 : n + (r == *rate);
        *rate = r > *rate ? r : *rate;
    }
    return n;
}

/* Returns its "about", to be filled. */
static char *network_level(struct plait_machine *m, const char *name, uint64_t children, uint64_t links, uint64_t rate,
                           uint64_t latency)
{
    struct plait_level *l = &m->level[m->nlevel++];

    *l = (struct plait_level){ .children = (uint32_t)children,
                               .links = links > 0 ? (uint32_t)links : 1,
                               .bandwidth = rate,
                               .latency = latency,
                               .overhead = network_overhead,
                               .eager = network_eager };
    snprintf(l->name, sizeof l->name, "%s", name);
    return l->about;
}

static void network_levels(const struct part *host, const struct machine_wish *w, bool gpu, struct plait_machine *m)
{
    const uint64_t latency = gpu ? gpu_network_latency : network_latency;
    const bool racks = w->rack > 0 && w->rack < w->hosts;
    uint64_t found;
    const uint32_t seen = find_nics(host, &found), nics = w->nics > 0 ? w->nics : seen > 0 ? seen : 1;
    const uint64_t rate = w->network > 0 ? w->network : found > 0 ? found : network;
    char *about = network_level(m, racks ? "rack" : "cluster", racks ? w->rack : w->hosts, nics, rate, latency);

    note(about, "%s%s%s",
         w->nics > 0 ? ""
         : seen > 0  ? "links: the NICs that were found; "
                     : "assumed: one NIC; ",
         w->network > 0 || found > 0 ? "" : "assumed: 100 Gbit/s of each NIC; ", "assumed: latency, overhead, eager");
    if (!racks)
        return;
    const double uplinks = (double)w->rack * nics / (w->oversubscription > 0 ? w->oversubscription : 1);
    const uint32_t nrack = (w->hosts + w->rack - 1) / w->rack;
    about = network_level(m, "cluster", nrack, (uint64_t)llround(uplinks), rate, latency + switch_latency);
    note(about, "assumed: latency, overhead, eager");
    if (w->hosts % w->rack != 0)
        note(about, ". The last rack has only %" PRIu32 " hosts, but all are taken to have %" PRIu32,
             w->hosts % w->rack, w->rack);
}

/* ---- Machines ---------------------------------------------------------------------------------------- */

static void set_rates(const struct units *u, const struct part *host, struct plait_machine *m)
{
    if (u->rank == PART_GPU) {
        const struct gpu *g = class_of(u->ranks[0]->capability);
        m->copy = part_rate(0.45 * (double)g->memory); /* reads and writes, at nine tenths of the memory's rate */
        m->reduce = part_rate(0.3 * (double)g->memory);
        m->cache = (size_t)g->cache << 20;
    } else {
        m->copy = core_copy;
        m->reduce = core_reduce;
        m->cache = host->bytes;
    }
}

bool machine_of_parts(const char *name, const struct part *host, const struct machine_wish *wish,
                      struct plait_machine *out)
{
    struct units *u = calloc(1, sizeof *u);
    struct plait_machine m = { 0 };

    if (u == NULL)
        return complain("%s: out of memory", name);
    u->rank = parts_rank(host, wish);
    bool ok = find_units(name, host, u);
    if (ok) {
        host_levels(u, &m);
        const char *unit = part_kind_name(u->rank);
        if (wish->hosts > 1) {
            snprintf(m.name, sizeof m.name, "%.48s, %" PRIu32 " hosts of %" PRIu32 " %s%s", name, wish->hosts, u->nrank,
                     unit, plural(u->nrank));
            network_levels(host, wish, u->rank == PART_GPU, &m);
        } else {
            snprintf(m.name, sizeof m.name, "%.64s, %" PRIu32 " %s%s", name, u->nrank, unit, plural(u->nrank));
        }
        set_rates(u, host, &m);
        note(m.about, "Made by plait-info. Nothing was measured; assumed: copy, reduce, and what each level says");
    }
    free(u);
    if (ok && plait_machine_check(&m) != PLAIT_OK)
        ok = complain("%s: %s", name, plait_last_error());
    if (ok)
        *out = m;
    return ok;
}
