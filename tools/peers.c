/* SPDX-License-Identifier: BSD-3-Clause */
#include "peers.h"

#include "message.h"
#include "pairs.h"

#include <plait/comm.h>
#include <plait/launch.h>
#include <plait/memory.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool print_peer(struct plait_comm *comm, uint32_t peer, const char *host, const struct figures *f)
{
    struct plait_peer_info info;

    if (plait_comm_peer(comm, peer, &info) != PLAIT_OK)
        return false;
    printf("%4" PRIu32 "  %-16.63s %4" PRIu32 "  %-9s  %-28s", peer, host, info.node, info.transport,
           info.device[0] != '\0' ? info.device : "memory");
    if (f != NULL)
        printf(" %10.2f %10.3f", 1e6 * f->latency, 1e-9 * f->bandwidth);
    printf("\n");
    return true;
}

#define PATIENCE      300 /* seconds without a warning, since ranks wait here while others are measured */
#define MOST_MEASURED 32  /* most ranks that are all measured; with more, one of each node */

/* Measuring hundreds of ranks would take minutes, and those of one node have equal paths. */
static bool is_measured(struct plait_comm *comm, uint32_t rank)
{
    struct plait_peer_info info, other;

    if (plait_comm_nrank(comm) <= MOST_MEASURED || plait_comm_peer(comm, rank, &info) != PLAIT_OK)
        return true;
    for (uint32_t r = 0; r < rank; r++)
        if (plait_comm_peer(comm, r, &other) == PLAIT_OK && other.node == info.node && r > 0)
            return false;
    return true;
}

/* For the first rank on another host, if there is one. */
static void print_gpus(struct plait_comm *comm)
{
    struct plait_peer_info info;

    for (uint32_t peer = 1; peer < plait_comm_nrank(comm); peer++)
        if (plait_comm_peer(comm, peer, &info) == PLAIT_OK && strcmp(info.gpu, "mapped") != 0) {
            printf("Device memory, if there are GPUs, would be sent to other hosts %s.\n",
                   strcmp(info.gpu, "direct") == 0 ? "directly, by UCX"
                                                   : "through pinned memory, as this UCX lacks CUDA");
            return;
        }
}

/* Rank 0 measures; the others take part. */
static bool look_at_each(struct plait_comm *comm, void *memory, const char (*hosts)[64])
{
    const uint32_t rank = plait_comm_rank(comm), nrank = plait_comm_nrank(comm);
    struct figures f;

    if (rank > 0)
        return !is_measured(comm, rank) || measure_pair(comm, memory, 0, false, &f);
    printf("rank  %-16s node  %-9s  %-28s %10s %10s\n", "host", "transport", "device", "us", "GB/s");
    if (!print_peer(comm, 0, hosts[0], NULL))
        return false;
    for (uint32_t peer = 1; peer < nrank; peer++) {
        const bool measured = is_measured(comm, peer);
        if ((measured && !measure_pair(comm, memory, peer, false, &f)) ||
            !print_peer(comm, peer, hosts[peer], measured ? &f : NULL))
            return false;
    }
    printf("\nus: 4 bytes one way, half the median of round trips; GB/s: %d MiB one way. From rank 0.\n",
           PAIRS_BYTES >> 20);
    print_gpus(comm);
    return true;
}

static bool as_rank(struct plait_comm *comm)
{
    const uint32_t nrank = plait_comm_nrank(comm);
    char host[64] = "", (*hosts)[64] = calloc(nrank, sizeof *hosts);
    void *memory = NULL;

    gethostname(host, sizeof host - 1);
    const bool ok = hosts != NULL && plait_mem_alloc(PAIRS_BYTES, &memory) == PLAIT_OK &&
                    plait_allgather(comm, host, hosts, sizeof host, PLAIT_UINT8, NULL) == PLAIT_OK &&
                    look_at_each(comm, memory, (const char(*)[64])hosts) &&
                    pairs_print(comm, memory, (const char(*)[64])hosts) && plait_barrier(comm, NULL) == PLAIT_OK;
    plait_mem_free(memory);
    free(hosts);
    return ok;
}

bool peers_print(void)
{
    struct plait_comm_options o = PLAIT_COMM_OPTIONS_DEFAULT;
    struct plait_launch launch;
    struct plait_comm *comm = NULL;
    bool ok = plait_launch_find(&launch) == PLAIT_OK;

    if (ok && launch.nrank == 1) {
        return complain("--peers: this is the only rank; start it as you start your program, with torchrun, srun or "
                        "mpirun: mpirun -n 4 plait-info --peers");
    }
    o.rank = launch.rank;
    o.nrank = launch.nrank;
    o.id = &launch.id;
    o.name = "peers";
    o.warn = PATIENCE;
    ok = ok && plait_comm_create(&o, &comm) == PLAIT_OK && as_rank(comm);
    if (!ok)
        complain("%s", plait_last_error());
    return plait_comm_destroy(comm) == PLAIT_OK && ok;
}
