/* SPDX-License-Identifier: BSD-3-Clause */
#include "life.h"

#include "base/descriptor.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/status.h"
#include "engine/prog.h"

#include <plait/topology.h>
#include <plait/version.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Names, and the plans of those from files. */
static uint64_t hash_algorithms(const struct plait_alg *const *all)
{
    uint64_t h = PLAIT_HASH_START;

    for (; *all != NULL; all++) {
        const uint64_t contents = plait_alg_contents(*all);
        h = plait_hash(h, (*all)->name, strlen((*all)->name) + 1);
        h = plait_hash(h, &contents, sizeof contents);
    }
    return h;
}

/* `what` is a on rank 0 and b on this rank. */
static enum plait_status differ(uint32_t rank, const char *what, const char *a, const char *b)
{
    return plait_fail(PLAIT_ERR_MISMATCH, "comm creation: %s is %s on rank 0 and %s on rank %u", what,
                      a[0] != '\0' ? a : "empty", b[0] != '\0' ? b : "empty", rank);
}

#define MOST_ADDRESS ((size_t)64 << 10) /* bytes */

static bool is_valid(const struct plait_card *c, size_t control_bytes)
{
    return memchr(c->version, '\0', sizeof c->version) != NULL && memchr(c->algo, '\0', sizeof c->algo) != NULL &&
           memchr(c->network, '\0', sizeof c->network) != NULL && c->address <= MOST_ADDRESS &&
           memchr(c->hostname, '\0', sizeof c->hostname) != NULL && c->control % PLAIT_LINE == 0 &&
           c->arena_size >= control_bytes && c->control <= c->arena_size - control_bytes;
}

/* The first difference between a rank's options and settings and those of rank 0. */
static enum plait_status compare(const struct plait_card *zero, const struct plait_card *c, uint32_t rank)
{
    const struct {
        const char *name;
        uint64_t there, here;
    } numbers[] = {
        { "reproducible", (uint64_t)zero->reproducible, (uint64_t)c->reproducible },
        { "round", (uint64_t)zero->round, (uint64_t)c->round },
        { "PLAIT_SLICE", zero->slice, c->slice },
        { "PLAIT_NCCL_FUSION", zero->nccl_fusion, c->nccl_fusion },
        { "PLAIT_PACE's latency (ns)", zero->pace.latency, c->pace.latency },
        { "PLAIT_PACE's bandwidth (bytes/s)", zero->pace.bandwidth, c->pace.bandwidth },
        { "PLAIT_HOSTS", zero->hosts, c->hosts },
        { "the node map (hash)", zero->node_hash, c->node_hash },
        { "the hash of algorithms (give all ranks the same PLAIT_PLANS and options.algorithms)", zero->algorithms,
          c->algorithms },
    };
    char a[24], b[24];

    if (strcmp(zero->version, c->version) != 0)
        return differ(rank, "the library's version", zero->version, c->version);
    if (strcmp(zero->algo, c->algo) != 0)
        return differ(rank, "PLAIT_ALGO", zero->algo, c->algo);
    if (strcmp(zero->network, c->network) != 0)
        return differ(rank, "the network", zero->network, c->network);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].there != numbers[i].here) {
            snprintf(a, sizeof a, "%" PRIu64, numbers[i].there);
            snprintf(b, sizeof b, "%" PRIu64, numbers[i].here);
            return differ(rank, numbers[i].name, a, b);
        }
    return PLAIT_OK;
}

enum plait_status plait_cards_check(const struct plait_card *all, uint32_t nrank)
{
    const size_t bytes = plait_control_bytes(nrank);
    enum plait_status status = PLAIT_OK;

    for (uint32_t r = 0; r < nrank; r++)
        if (!is_valid(&all[r], bytes))
            return plait_fail(PLAIT_ERR_MISMATCH,
                              "comm creation: rank %u uses another libplait; link all ranks with the same version", r);
    for (uint32_t r = 1; r < nrank && status == PLAIT_OK; r++)
        status = compare(&all[0], &all[r], r);
    return status;
}

/* By the boot ID, as each container has its own host name. A virtual host's file has a second line (tools/host.c). */
static uint64_t hash_host(void)
{
    char boot[256];
    const size_t n = plait_descriptor_read("/proc/sys/kernel/random/boot_id", boot, sizeof boot);

    return n > 0 ? plait_hash(PLAIT_HASH_START, boot, n) | 1 : 0;
}

enum plait_status plait_card_fill(const struct plait_comm *comm, const struct plait_arena *arena,
                                  struct plait_card *card)
{
    *card = (struct plait_card){
        .process = arena->token,
        .control = plait_arena_offset(comm->own),
        .arena_size = arena->size,
        .slice = comm->config.slice,
        .nccl_fusion = comm->config.nccl_fusion,
        .pace = comm->config.pace,
        .cache = comm->cache,
        .last_level = comm->last_level,
        .node_hash =
            comm->node != NULL ? plait_hash(PLAIT_HASH_START, comm->node, comm->nrank * sizeof *comm->node) : 0,
        .algorithms = hash_algorithms(comm->algorithms),
        .hosts = comm->config.hosts < UINT8_MAX ? (uint8_t)comm->config.hosts : UINT8_MAX,
        .copies = !comm->config.calibrate || plait_copies_known(true).calibrated,
        .pid = getpid(),
        .host = hash_host(),
        .rack = comm->config.rack[0] != '\0'
                    ? plait_hash(PLAIT_HASH_START, comm->config.rack, strlen(comm->config.rack)) | 1
                    : 0,
        .reproducible = comm->reproducible,
        .round = comm->round,
    };
    snprintf(card->version, sizeof card->version, "%s", plait_version());
    memcpy(card->algo, comm->config.algo, sizeof card->algo);
    if (sched_getaffinity(0, sizeof card->cpus, &card->cpus) != 0)
        CPU_ZERO(&card->cpus); /* more than 1024 processors: enough for every rank */
    const enum plait_status drawn = plait_random(&card->id, sizeof card->id, "a comm");
    card->id |= 1; /* 0 is not an id */
    return drawn;
}

/* ---- Levels ----------------------------------------------------------------------------------------------------- */

/* Outermost first. */
enum kind { RACK, HOST, PACKAGE, MEMORY, CACHE, NKIND };
static const char *const names[NKIND] = { "rack", "host", "package", "memory node", "cache" };
_Static_assert((int)NKIND == PLAIT_MAX_LEVELS && CACHE - PACKAGE + 1 == PLAIT_NPLACE, "one level of each kind");

/* Equal for ranks in the same object of this kind; 0: unknown. */
static uint64_t key_of(const struct plait_comm *comm, const struct plait_card *all, const uint32_t *node,
                       enum kind kind, uint32_t r)
{
    if (kind == RACK)
        return all[r].rack;
    if (kind == HOST)
        return (uint64_t)(comm->node != NULL ? comm->node[r] : 0) + 1;
    const uint32_t place = all[r].place[kind - PACKAGE];
    return place == PLAIT_NOWHERE ? 0 : ((uint64_t)node[r] << 32 | place) + 1;
}

/*
 * Divide each group by the keys of its ranks; number the new groups by first ranks. A group with a rank of unknown
 * key stays whole. Returns the number of groups.
 *
 * whole  [n] scratch
 */
static uint32_t divide(uint32_t n, const uint32_t *group, const uint64_t *key, bool *whole, uint32_t *out)
{
    uint32_t count = 0;

    memset(whole, 0, n * sizeof *whole);
    for (uint32_t r = 0; r < n; r++)
        whole[group[r]] |= key[r] == 0;
    for (uint32_t r = 0; r < n; r++) {
        uint32_t end = r; /* one above the last rank of the same new group */
        while (end > 0 && (group[end - 1] != group[r] || (!whole[group[r]] && key[end - 1] != key[r])))
            end--;
        out[r] = end > 0 ? out[end - 1] : count++;
    }
    return count;
}

enum plait_status plait_levels_find(struct plait_comm *comm, const struct plait_card *all, const uint32_t *node)
{
    const uint32_t n = comm->nrank;
    uint32_t *level = calloc((size_t)n * (NKIND + 1), sizeof *level), first = NKIND, count = 1;
    uint64_t *key = malloc(n * sizeof *key);
    bool *whole = malloc(n * sizeof *whole);
    const bool failed = level == NULL || key == NULL || whole == NULL;
    const uint32_t *group = failed ? NULL : level + (size_t)NKIND * n; /* all in one */
    bool beyond = false;

    for (enum kind kind = RACK; !failed && kind < NKIND; kind++) {
        uint32_t *at = level + (size_t)(first - 1) * n;
        for (uint32_t r = 0; r < n; r++)
            key[r] = key_of(comm, all, node, kind, r);
        const uint32_t groups = divide(n, group, key, whole, at);
        if (groups == count || groups == n)
            continue;
        beyond |= kind != HOST;
        comm->level_names[--first] = names[kind];
        group = at;
        count = groups;
    }
    free(key);
    free(whole);
    if (failed || !beyond) {
        free(level);
        return failed ? plait_fail_memory("out of memory for a comm of %u ranks", n) : PLAIT_OK;
    }
    comm->nlevel = NKIND - first;
    memmove(level, level + (size_t)first * n, (size_t)comm->nlevel * n * sizeof *level);
    memmove(comm->level_names, comm->level_names + first, comm->nlevel * sizeof *comm->level_names);
    comm->level = level;
    return PLAIT_OK;
}
