/* SPDX-License-Identifier: BSD-3-Clause */
/* Creates and destroys a rank's connection; runs the rendezvous that the id names. */
#include "bootstrap.h"

#include "base/descriptor.h"
#include "base/status.h"
#include "rendezvous.h"
#include "star.h"

#include <stdlib.h>
#include <string.h>

static void finish(struct plait_bootstrap *b)
{
    plait_star_finish(&b->star, b->nrank);
    plait_star_finish(&b->node, b->nrank);
    plait_nodes_finish(&b->nodes);
}

/* On this machine or over TCP, as the id says. */
static enum plait_status run_rendezvous(struct plait_bootstrap *b, const struct plait_unique_id *id,
                                        enum plait_status own)
{
    struct plait_rendezvous r;
    struct plait_tcp_id tcp;
    const char *name = (const char *)id->bytes;
    enum plait_status status = PLAIT_OK;

    b->tcp = plait_tcp_id_of(id, &tcp);
    r.tcp = b->tcp ? &tcp : NULL;
    if (b->tcp)
        status = plait_crypto_ready();
    else if (strncmp(name, PLAIT_ID_MACHINE, strlen(PLAIT_ID_MACHINE)) == 0 &&
             strnlen(name, sizeof id->bytes) < sizeof r.name.address.sun_path)
        r.name = plait_unix_name_make(name);
    else
        status = plait_fail(PLAIT_ERR_ARG, "comm creation: id was not made by plait_unique_id_create() nor by "
                                           "plait_unique_id_create_tcp()");
    if (status != PLAIT_OK)
        return own != PLAIT_OK ? own : status;
    if (own == PLAIT_OK)
        own = plait_claim_make(id, b->rank, b->limit, &b->nodes.claim);
    status = plait_rendezvous_run(&r, b, own);
    if (status != PLAIT_OK)
        return status;
    status = plait_claim_check(&b->nodes.claim, b->rank);
    if (!b->launched) { /* the id is nobody else's */
        plait_descriptor_close(b->nodes.claim.fd);
        b->nodes.claim.fd = 0;
    }
    return b->tcp ? plait_node_find(b, id, status) : plait_bootstrap_agree(b, status);
}

enum plait_status plait_bootstrap_create(const struct plait_unique_id *id, uint32_t rank, uint32_t nrank,
                                         double seconds, enum plait_status own, struct plait_bootstrap **out)
{
    struct plait_bootstrap *b = malloc(sizeof *b), here;

    here = (struct plait_bootstrap){ .rank = rank,
                                     .nrank = nrank,
                                     .limit = seconds,
                                     .launched = nrank > 1 && id->bytes[sizeof id->bytes - 1] == PLAIT_ID_LAUNCHED,
                                     .star = { .root = -1 },
                                     .node = { .root = -1 },
                                     .nodes = { .n = 1 } };
    if (b == NULL && own == PLAIT_OK)
        own = plait_fail_memory("out of memory for the bootstrap");
    if (nrank > 1)
        own = run_rendezvous(&here, id, own);
    if (own != PLAIT_OK) {
        finish(&here);
        free(b);
        return own;
    }
    if (b != NULL)
        *b = here;
    *out = b;
    return PLAIT_OK;
}

void plait_bootstrap_destroy(struct plait_bootstrap *b)
{
    if (b != NULL)
        finish(b);
    free(b);
}

void plait_nodes_finish(struct plait_nodes *nodes)
{
    free(nodes->of);
    free(nodes->hosts);
    if (nodes->claim.fd > 0)
        plait_descriptor_close(nodes->claim.fd);
    *nodes = (struct plait_nodes){ 0 };
}

struct plait_nodes *plait_bootstrap_nodes(struct plait_bootstrap *b)
{
    return &b->nodes;
}

void plait_bootstrap_take_sockets(struct plait_bootstrap *b, int *fds)
{
    for (uint32_t r = 0; r < b->nrank; r++) {
        fds[r] = b->star.peers != NULL ? b->star.peers[r].fd : -1;
        if (fds[r] >= 0)
            b->star.peers[r].fd = -1;
    }
    if (b->rank > 0) {
        fds[0] = b->star.root;
        b->star.root = -1;
    }
}
