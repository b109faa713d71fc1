/* SPDX-License-Identifier: BSD-3-Clause */
#include "cards.h"

#include "base/descriptor.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/status.h"

#include <plait/version.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static uint64_t hash_algorithms(const struct plait_alg *const *algorithms, size_t n)
{
    uint64_t h = PLAIT_HASH_START;

    for (size_t i = 0; i < n; i++)
        h = plait_hash(h, algorithms[i]->name, strlen(algorithms[i]->name) + 1);
    return h;
}

enum plait_status plait_cards_differ(uint32_t rank, const char *what, const char *a, const char *b)
{
    return plait_fail(PLAIT_ERR_MISMATCH, "comm creation: %s is %s on rank 0 and %s on rank %u", what,
                      a[0] != '\0' ? a : "empty", b[0] != '\0' ? b : "empty", rank);
}

/* Cards come from other programs: check them before any use. */
static enum plait_status check_each(const struct plait_card *all, uint32_t nrank)
{
    const size_t bytes = plait_control_bytes(nrank);

    for (uint32_t r = 0; r < nrank; r++) {
        const struct plait_card *c = &all[r];
        if (memchr(c->version, '\0', sizeof c->version) == NULL || memchr(c->algo, '\0', sizeof c->algo) == NULL ||
            c->control % PLAIT_LINE != 0 || c->arena_size < bytes || c->control > c->arena_size - bytes)
            return plait_fail(PLAIT_ERR_MISMATCH,
                              "comm creation: rank %u describes itself as no rank of this version does; link all ranks "
                              "with the same libplait",
                              r);
    }
    return PLAIT_OK;
}

/* Options and settings must be equal on all ranks; the error names the first difference. */
static enum plait_status compare(const struct plait_card *all, uint32_t nrank)
{
    char a[64], b[64];

    for (uint32_t r = 1; r < nrank; r++) {
        const struct {
            const char *name;
            uint64_t here, there;
        } numbers[] = {
            { "reproducible", (uint64_t)all[0].reproducible, (uint64_t)all[r].reproducible },
            { "round", (uint64_t)all[0].round, (uint64_t)all[r].round },
            { "PLAIT_SLICE", all[0].slice, all[r].slice },
            { "PLAIT_NCCL_FUSION", all[0].nccl_fusion, all[r].nccl_fusion },
            { "PLAIT_PACE's latency (ns)", all[0].pace.latency, all[r].pace.latency },
            { "PLAIT_PACE's bandwidth (bytes/s)", all[0].pace.bandwidth, all[r].pace.bandwidth },
            { "PLAIT_HOSTS", all[0].hosts, all[r].hosts },
            { "the node map (hash)", all[0].node_hash, all[r].node_hash },
            { "the caller's algorithms (hash)", all[0].algorithms_hash, all[r].algorithms_hash },
        };
        if (strcmp(all[0].version, all[r].version) != 0)
            return plait_cards_differ(r, "the library's version", all[0].version, all[r].version);
        if (strcmp(all[0].algo, all[r].algo) != 0)
            return plait_cards_differ(r, "PLAIT_ALGO", all[0].algo, all[r].algo);
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
            if (numbers[i].here != numbers[i].there) {
                snprintf(a, sizeof a, "%llu", (unsigned long long)numbers[i].here);
                snprintf(b, sizeof b, "%llu", (unsigned long long)numbers[i].there);
                return plait_cards_differ(r, numbers[i].name, a, b);
            }
    }
    return PLAIT_OK;
}

enum plait_status plait_cards_check(const struct plait_card *all, uint32_t nrank)
{
    const enum plait_status status = check_each(all, nrank);

    return status == PLAIT_OK ? compare(all, nrank) : status;
}

/* By the boot ID, as each container has its own host name. A virtual host's file has a second line (tools/host.c). */
static struct plait_where find_where(void)
{
    char boot[256];
    const size_t n = plait_descriptor_read("/proc/sys/kernel/random/boot_id", boot, sizeof boot);

    if (n == 0)
        return (struct plait_where){ 0, 0 };
    return (struct plait_where){ .machine = plait_hash(PLAIT_HASH_START, boot, strcspn(boot, "\n")) | 1,
                                 .host = plait_hash(PLAIT_HASH_START, boot, n) | 1 };
}

enum plait_status plait_card_fill(const struct plait_comm *comm, struct plait_card *card)
{
    const struct plait_arena *arena;
    const enum plait_status status = plait_arena_get(0, &arena);

    if (status != PLAIT_OK)
        return status;
    *card = (struct plait_card){
        .process = arena->token,
        .control = (uint64_t)((char *)comm->own - arena->base),
        .arena_size = arena->size,
        .slice = comm->config.slice,
        .nccl_fusion = comm->config.nccl_fusion,
        .pace = comm->config.pace,
        .cache = comm->cache,
        .last_level = comm->last_level,
        .node_hash =
            comm->node != NULL ? plait_hash(PLAIT_HASH_START, comm->node, comm->nrank * sizeof *comm->node) : 0,
        .algorithms_hash = hash_algorithms(comm->algorithms, comm->nown_algorithms),
        .hosts = comm->config.hosts,
        .copies = !comm->config.calibrate || plait_copies_known(true).calibrated,
        .pid = getpid(),
        .where = find_where(),
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
